/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends and receives MADs by libibumad.
 *
 *   rdma_mad counters DEVICE [GID GID-INDEX]   port counters of a peer, or of the own port
 *   rdma_mad serve DEVICE COUNT       responds to MADs of a vendor class
 *   rdma_mad ping DEVICE GID GID-INDEX COUNT   sends such MADs
 *   rdma_mad serve-rmpp DEVICE COUNT  the same for requests and responses of three segments
 *   rdma_mad ping-rmpp DEVICE GID GID-INDEX COUNT   sends these (IB_USER_MAD_USER_RMPP)
 *   rdma_mad timeout DEVICE GID GID-INDEX      sends one to which nobody responds
 *   rdma_mad full DEVICE GID GID-INDEX FILES   has as many agents and waiting requests as so many
 *                                     files can have, and waits to be killed
 *   rdma_mad refusals DEVICE          makes calls that fail
 *   rdma_mad copies DEVICE            uses copies of the descriptor, also in a child
 */
#include "verbs_util.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAD_LEN 256
#define QKEY 0x80010000u
#define PERFORMANCE 0x04
#define VENDOR 0x30
#define OUI 0x00, 0x14, 0x05
#define VENDOR_TAG 64 /* offset of the number of a ping */
#define WAIT_MS 20000
#define LONG_MS 600000
#define AGENTS 32 /* of a file */
#define SENDS 64  /* of a file, that wait for responses */

/* Offsets in a MAD */
enum { BASE_VERSION, CLASS, CLASS_VERSION, METHOD, STATUS, TID = 8, ATTRIBUTE = 16, DATA = 64 };
enum { GET = 1, GET_RESP = 0x81 };

/* RMPP (IBTA 13.6.2) */
enum { RMPP_VERSION = 24, RMPP_TYPE, RMPP_FLAGS, RMPP_SEGMENT = 28 };
enum { RMPP_DATA = 1, RMPP_ACK, ACTIVE = 1, FIRST = 2, LAST = 4, SEGMENTS = 3 };

static const uint8_t oui[3] = { OUI };

struct port {
	int fd;
	uint32_t agent;
	void *umad;
};

static const char *device_name;

static struct port open_port(const char *device)
{
	struct port p = { 0 };

	device_name = device;
	MUST(!umad_init(), "umad_init");
	p.fd = umad_open_port(device, 1);
	MUST(p.fd >= 0, "umad_open_port");
	MUST(p.umad = umad_alloc(1, umad_size() + MAD_LEN), "memory");
	return p;
}

static void close_port(struct port *p)
{
	umad_free(p->umad);
	MUST(!umad_unregister(p->fd, (int)p->agent), "umad_unregister");
	MUST(!umad_close_port(p->fd), "umad_close_port");
	umad_done();
}

static int add_agent_with(struct port *p, uint8_t class, uint64_t methods, bool rmpp)
{
	struct umad_reg_attr attr = { .mgmt_class = class,
				      .mgmt_class_version = 1,
				      .rmpp_version = rmpp,
				      .flags = rmpp ? UMAD_USER_RMPP : 0,
				      .method_mask = { methods, 0 },
				      .oui = oui[0] << 16 | oui[1] << 8 | oui[2] };

	return umad_register2(p->fd, &attr, &p->agent);
}

/* Returns 0 or an errno. */
static int add_agent(struct port *p, uint8_t class, uint64_t methods)
{
	return add_agent_with(p, class, methods, false);
}

static uint8_t *request(struct port *p, uint8_t class, uint16_t attribute, uint32_t number)
{
	uint8_t *mad = umad_get_mad(p->umad);

	memset(p->umad, 0, umad_size() + MAD_LEN);
	mad[BASE_VERSION] = mad[CLASS_VERSION] = 1;
	mad[CLASS] = class;
	mad[METHOD] = GET;
	number = htonl(number);
	memcpy(mad + TID + 4, &number, sizeof(number));
	mad[ATTRIBUTE] = attribute >> 8;
	mad[ATTRIBUTE + 1] = attribute;
	umad_set_addr(p->umad, 0, 1, 0, QKEY);
	return mad;
}

static void set_gid(struct port *p, const char *gid, int index)
{
	struct ib_mad_addr grh = { .gid_index = index, .hop_limit = 0xff };

	if (!gid)
		return;
	MUST(inet_pton(AF_INET6, gid, grh.gid) == 1, "GID");
	umad_set_grh(p->umad, &grh);
	((struct ib_user_mad *)p->umad)->addr.gid_index = index;
}

static void receive(struct port *p)
{
	int len = MAD_LEN;

	MUST(umad_recv(p->fd, p->umad, &len, WAIT_MS) == (int)p->agent, "umad_recv");
}

static uint64_t get(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

/* ---- commands ------------------------------------------------------------------- */

static void counters(struct port *p, const char *gid, int index)
{
	uint8_t *mad;

	MUST(!add_agent(p, PERFORMANCE, 0), "umad_register2");
	mad = request(p, PERFORMANCE, 0x1d, 7); /* PortCountersExtended */
	mad[DATA + 1] = 1;			/* port */
	set_gid(p, gid, index);
	MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 2000, 3), "umad_send");
	receive(p);
	MUST(!umad_status(p->umad), "no response");
	MUST(mad[METHOD] == GET_RESP && !get(mad + STATUS, 2), "status of the response");
	MUST(get(mad + TID + 4, 4) == 7, "transaction ID of the response");
	printf("xmit_data %llu rcv_data %llu xmit_pkts %llu rcv_pkts %llu\n",
	       (unsigned long long)get(mad + DATA + 8, 8),
	       (unsigned long long)get(mad + DATA + 16, 8),
	       (unsigned long long)get(mad + DATA + 24, 8),
	       (unsigned long long)get(mad + DATA + 32, 8));
}

static void serve(struct port *p, int count)
{
	uint8_t *mad = umad_get_mad(p->umad);
	ib_mad_addr_t *addr = umad_get_mad_addr(p->umad);
	struct ib_mad_addr grh;

	MUST(!add_agent(p, VENDOR, 1 << GET), "umad_register2");
	printf("ready\n");
	fflush(stdout);
	while (count--) {
		receive(p);
		MUST(addr->grh_present && ntohl(addr->qpn) == 1, "address of the sender");
		MUST(mad[METHOD] == GET && !memcmp(mad + 37, oui, 3), "request");
		mad[METHOD] = GET_RESP;
		grh = *addr;
		umad_set_addr(p->umad, 0, 1, 0, QKEY);
		umad_set_grh(p->umad, &grh);
		MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 0, 0), "umad_send");
	}
}

static void ping(struct port *p, const char *gid, int index, int count)
{
	uint8_t *mad;

	MUST(!add_agent(p, VENDOR, 0), "umad_register2");
	for (uint32_t i = 1; i <= (uint32_t)count; i++) {
		mad = request(p, VENDOR, 1, i);
		memcpy(mad + 37, oui, sizeof(oui));
		memcpy(mad + VENDOR_TAG, &i, sizeof(i));
		set_gid(p, gid, index);
		MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 1000, 10), "umad_send");
		receive(p);
		MUST(!umad_status(p->umad) && mad[METHOD] == GET_RESP, "no response");
		MUST(get(mad + TID + 4, 4) == i && !memcmp(mad + VENDOR_TAG, &i, sizeof(i)),
		     "response to another request");
	}
	printf("%d responses\n", count);
}

/* ---- RMPP ----------------------------------------------------------------------- */

static void make_rmpp(uint8_t *mad, uint8_t type, uint32_t segment)
{
	uint32_t number = htonl(segment);

	mad[RMPP_VERSION] = 1;
	mad[RMPP_TYPE] = type;
	mad[RMPP_FLAGS] = ACTIVE;
	if (type == RMPP_DATA)
		mad[RMPP_FLAGS] |= (segment == 1 ? FIRST : 0) | (segment == SEGMENTS ? LAST : 0);
	memcpy(mad + RMPP_SEGMENT, &number, sizeof(number));
}

/* Sends a message in segments. The MAD of the port has its header and address. */
static void send_segments(struct port *p, int timeout_ms)
{
	for (uint32_t i = 1; i <= SEGMENTS; i++) {
		make_rmpp(umad_get_mad(p->umad), RMPP_DATA, i);
		MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, timeout_ms, 0),
		     "umad_send of a segment");
	}
}

/* Receives a message in segments, which may arrive in any order, and MADs that acknowledge one. */
static void receive_segments(struct port *p, uint8_t method, int acks)
{
	unsigned int seen = 0, all = (1 << SEGMENTS) - 1;
	uint8_t *mad = umad_get_mad(p->umad);

	while (seen != all || acks) {
		receive(p);
		MUST(!umad_status(p->umad) && mad[METHOD] == method && mad[RMPP_FLAGS] & ACTIVE,
		     "a segment or its ACK");
		if (mad[RMPP_TYPE] == RMPP_ACK)
			acks--;
		else
			seen |= 1 << (get(mad + RMPP_SEGMENT, 4) - 1);
	}
}

static void reply_to_sender(struct port *p)
{
	struct ib_mad_addr grh = *umad_get_mad_addr(p->umad);

	umad_set_addr(p->umad, 0, 1, 0, QKEY);
	umad_set_grh(p->umad, &grh);
}

static void serve_rmpp(struct port *p, int count)
{
	uint8_t *mad = umad_get_mad(p->umad);

	MUST(!add_agent_with(p, VENDOR, 1 << GET, true), "umad_register2");
	printf("ready\n");
	fflush(stdout);
	while (count--) {
		receive_segments(p, GET, 0);
		reply_to_sender(p);
		mad[METHOD] = GET_RESP;
		make_rmpp(mad, RMPP_ACK, SEGMENTS);
		MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 0, 0), "umad_send");
		send_segments(p, 0);
	}
}

/* The ACK and two segments of the response end the time of the segments that were sent. */
static void ping_rmpp(struct port *p, const char *gid, int index, int count)
{
	MUST(!add_agent_with(p, VENDOR, 0, true), "umad_register2");
	for (uint32_t i = 1; i <= (uint32_t)count; i++) {
		memcpy(request(p, VENDOR, 1, i) + 37, oui, sizeof(oui));
		set_gid(p, gid, index);
		send_segments(p, WAIT_MS);
		receive_segments(p, GET_RESP, 1);
	}
	printf("%d responses\n", count);
}

static void time_out(struct port *p, const char *gid, int index)
{
	int len = MAD_LEN, short_len = 23;

	MUST(!add_agent(p, VENDOR, 0), "umad_register2");
	memcpy(request(p, VENDOR, 1, 5) + 37, oui, sizeof(oui));
	set_gid(p, gid, index);
	MUST(!umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 100, 3), "umad_send");
	MUST(umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, 100, 3) == -EIO && errno == EINVAL,
	     "a second one with the same transaction ID");
	MUST(!umad_poll(p->fd, WAIT_MS), "umad_poll");
	MUST(umad_recv(p->fd, p->umad, &short_len, 0) < 0 && errno == EINVAL, "a short buffer");
	MUST(umad_recv(p->fd, p->umad, &len, 0) == (int)p->agent, "umad_recv");
	MUST(umad_status(p->umad) == ETIMEDOUT && len == 24, "status");
	MUST(get((uint8_t *)umad_get_mad(p->umad) + TID + 4, 4) == 5, "transaction ID");
	MUST(umad_poll(p->fd, 300) == -ETIMEDOUT, "no other MAD follows");
}

/* ---- limits --------------------------------------------------------------------- */

static void fill_file(struct port *p, const char *gid, int index)
{
	uint32_t first = p->agent;

	for (int i = 1; i < AGENTS; i++)
		MUST(!add_agent(p, VENDOR, 0), "umad_register2");
	MUST(add_agent(p, VENDOR, 0) == ENOMEM, "an agent more");
	p->agent = first;
	for (uint32_t i = 1; i <= SENDS + 1; i++) {
		memcpy(request(p, VENDOR, 1, i) + 37, oui, sizeof(oui));
		set_gid(p, gid, index);
		errno = 0;
		if (umad_send(p->fd, (int)p->agent, p->umad, MAD_LEN, LONG_MS, 0))
			MUST(i > SENDS && errno == ENOBUFS, "umad_send");
	}
	MUST(errno == ENOBUFS, "a request more");
}

/* The first file has the agent that gets requests, too. */
static void full(struct port *p, const char *gid, int index, int files)
{
	MUST(!add_agent(p, VENDOR, 1 << GET), "umad_register2");
	fill_file(p, gid, index);
	for (int i = 1; i < files; i++) {
		struct port more = { .fd = umad_open_port(device_name, 1), .umad = p->umad };

		MUST(more.fd >= 0, "umad_open_port");
		MUST(!add_agent(&more, VENDOR, 0), "umad_register2");
		fill_file(&more, gid, index);
	}
	printf("%d files\n", files);
	fflush(stdout);
	pause();
}

/* Each row is a send that fails. */
static void refused_sends(struct port *p)
{
	static const struct {
		const char *what;
		unsigned int lid, qpn, qkey, gid_index, pkey;
		bool grh;
		uint8_t class;
		int agent, err;
	} rows[] = {
		{ "a LID", 1, 1, QKEY, 0, 0, false, PERFORMANCE, 0, EINVAL },
		{ "QP 0", 0, 0, QKEY, 0, 0, false, PERFORMANCE, 0, EINVAL },
		{ "another Q_Key", 0, 1, 5, 0, 0, false, PERFORMANCE, 0, EINVAL },
		{ "a GID index", 0, 1, QKEY, 200, 0, true, PERFORMANCE, 0, EINVAL },
		{ "a P_Key index", 0, 1, QKEY, 0, 1, false, PERFORMANCE, 0, EINVAL },
		{ "the class of connection management", 0, 1, QKEY, 0, 0, false, 7, 0, EINVAL },
		{ "a subnet administrator", 0, 1, QKEY, 0, 0, false, 3, 0, EINVAL },
		{ "subnet management", 0, 1, QKEY, 0, 0, false, 1, 0, EOPNOTSUPP },
		{ "an agent that does not exist", 0, 1, QKEY, 0, 0, false, PERFORMANCE, 5, EIO },
		{ "an impossible agent", 0, 1, QKEY, 0, 0, false, PERFORMANCE, 99, EINVAL },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		request(p, rows[i].class, 1, i);
		umad_set_addr(p->umad, (int)rows[i].lid, (int)rows[i].qpn, 0, (int)rows[i].qkey);
		umad_set_pkey(p->umad, (int)rows[i].pkey);
		if (rows[i].grh)
			set_gid(p, "::ffff:10.77.0.1", (int)rows[i].gid_index);
		errno = 0;
		MUST(umad_send(p->fd, rows[i].agent, p->umad, MAD_LEN, 100, 0) < 0, rows[i].what);
		MUST(errno == rows[i].err, rows[i].what);
	}
}

static void refused_agents(struct port *p)
{
	struct port other = *p;
	uint32_t vendor;
	struct umad_reg_attr attr = { .mgmt_class = PERFORMANCE, .mgmt_class_version = 1 };

	MUST(add_agent(p, 7, 0) == EINVAL, "class of connection management");
	MUST(add_agent(p, PERFORMANCE, 1 << GET) == EINVAL, "requests of performance management");
	MUST(add_agent(p, 0x55, 0) == EINVAL, "class out of range");
	MUST(add_agent(p, 1, 1 << GET) == EOPNOTSUPP, "requests to QP 0");
	attr.flags = 0x80;
	MUST(umad_register2(p->fd, &attr, &vendor) == EINVAL, "flags");
	attr.flags = 0;
	attr.rmpp_version = 1;
	MUST(umad_register2(p->fd, &attr, &vendor) == EINVAL, "RMPP of this class");
	MUST(!add_agent(p, VENDOR, 1 << GET), "an agent for requests");
	vendor = p->agent;
	MUST(add_agent(&other, VENDOR, 3 << GET) == EINVAL, "a second one for the same requests");
	MUST(!add_agent(&other, VENDOR, 1 << 5), "one for others");
	MUST(!umad_unregister(p->fd, (int)vendor) && !umad_unregister(p->fd, (int)other.agent),
	     "umad_unregister");
	MUST(umad_unregister(p->fd, (int)vendor) < 0 && errno == EINVAL, "twice");
	for (int i = 0; i < 31; i++)
		MUST(!add_agent(&other, PERFORMANCE, 0), "31 further agents");
	MUST(add_agent(&other, PERFORMANCE, 0) == ENOMEM, "the 33rd agent");
}

static void refusals(struct port *p)
{
	struct stat st;
	char byte = 0;

	MUST(!add_agent(p, PERFORMANCE, 0), "umad_register2");
	refused_sends(p);
	refused_agents(p);
	MUST(ioctl(p->fd, 0x1b03, NULL) < 0 && errno == EINVAL, "ENABLE_PKEY comes too late");
	MUST(ioctl(p->fd, 0x1b7f, NULL) < 0 && errno == ENOTTY, "no such request");
	MUST(write(p->fd, &byte, 1) < 0 && errno == EINVAL, "write() of a byte");
	MUST(write(p->fd, p->umad, umad_size() + 35) < 0 && errno == EINVAL, "a short MAD");
	MUST(read(p->fd, &byte, 1) < 0 && errno == EINVAL, "read() of a byte");
	MUST(read(p->fd, p->umad, umad_size() + MAD_LEN) < 0 && errno == EAGAIN, "nothing to read");
	MUST(!fstat(p->fd, &st) && S_ISCHR(st.st_mode) && (st.st_mode & 0777) == 0600, "fstat");
}

/* The old format of headers has no P_Key index. */
static void old_format(const char *device)
{
	struct {
		struct ib_user_mad_reg_req {
			uint32_t id, methods[4];
			uint8_t qpn, class, version, oui[3], rmpp;
		} agent;
		uint8_t packet[56 + MAD_LEN];
	} o = { .agent = { .qpn = 1, .class = PERFORMANCE, .version = 1 } };
	struct port p = open_port(device); /* for the helper functions */
	char path[32];
	int fd = -1;

	for (int i = 0; i < 64 && fd < 0; i++) {
		snprintf(path, sizeof(path), "/dev/infiniband/umad%d", i);
		fd = open(path, O_RDWR);
	}
	MUST(fd >= 0, "open");
	MUST(!ioctl(fd, _IOWR(0x1b, 1, struct ib_user_mad_reg_req), &o.agent), "REGISTER_AGENT");
	p.agent = o.agent.id;
	request(&p, PERFORMANCE, 0x12, 3)[DATA + 1] = 1;
	memcpy(o.packet, p.umad, 56);
	memcpy(o.packet + 8, &(uint32_t){ 2000 }, 4);
	memcpy(o.packet + 56, umad_get_mad(p.umad), MAD_LEN);
	MUST(write(fd, o.packet, sizeof(o.packet)) == sizeof(o.packet), "write");
	MUST(read(fd, o.packet, sizeof(o.packet)) == sizeof(o.packet), "read, which waits");
	MUST(o.packet[56 + METHOD] == GET_RESP && !get(o.packet + 56 + STATUS, 2), "response");
	MUST(get(o.packet + 16, 4) == ntohl(sizeof(o.packet)), "length in the header");
	close(fd);
	umad_free(p.umad);
	umad_close_port(p.fd);
}

static void copies(const char *device)
{
	struct port p = open_port(device);
	int copy = dup(p.fd), status;
	struct stat st;
	pid_t child;

	MUST(!close(p.fd) && dup2(copy, p.fd) == p.fd && !close(copy), "dup, dup2, close");
	counters(&p, NULL, 0);
	child = fork();
	MUST(child >= 0, "fork");
	if (!child) {
		struct port mine = p;

		counters(&mine, NULL, 0);
		exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && !status, "the child");
	counters(&p, NULL, 0);
	close_port(&p);
	/* A number that the program reuses is not a file of umad any more. */
	p.fd = open("/dev/null", O_RDWR);
	MUST(!fstat(p.fd, &st) && write(p.fd, &st, sizeof(st)) == sizeof(st), "/dev/null");
	old_format(device);
}

int main(int argc, char **argv)
{
	const char *command = argc > 2 ? argv[1] : "", *gid = argc > 3 ? argv[3] : NULL;
	int index = argc > 4 ? atoi(argv[4]) : 0;
	struct port p;

	if (!strcmp(command, "copies")) {
		copies(argv[2]);
		return 0;
	}
	p = open_port(argc > 2 ? argv[2] : "");
	if (!strcmp(command, "counters"))
		counters(&p, gid, index);
	else if (!strcmp(command, "serve") && gid)
		serve(&p, atoi(gid));
	else if (!strcmp(command, "ping") && argc > 5)
		ping(&p, gid, index, atoi(argv[5]));
	else if (!strcmp(command, "serve-rmpp") && gid)
		serve_rmpp(&p, atoi(gid));
	else if (!strcmp(command, "ping-rmpp") && argc > 5)
		ping_rmpp(&p, gid, index, atoi(argv[5]));
	else if (!strcmp(command, "timeout") && gid)
		time_out(&p, gid, index);
	else if (!strcmp(command, "full") && argc > 5)
		full(&p, gid, index, atoi(argv[5]));
	else if (!strcmp(command, "refusals"))
		refusals(&p);
	else
		MUST(false, "see the first lines of rdma_mad.c for its arguments");
	close_port(&p);
	return 0;
}
