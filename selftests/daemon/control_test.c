// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The control protocol: messages, objects, events, end of clients, SHOW */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/objects/objects.h"
#include "control.h"
#include "daemon/server/direct_rules.h"
#include "daemon/server/server.h"
#include "daemon/server/view.h"

/* ---- HELLO and malformed messages ------------------------------------------------ */

static void test_hello(void)
{
	struct xr_hello_req bad = { .version = XR_PROTOCOL_VERSION + 1 };
	struct xr_show_req show = { .what = XR_SHOW_STATUS };
	struct xr_hello_rep *rep;
	struct conn c;

	connect_client(&c);
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == -EPROTO, "a request before HELLO is refused");
	TAP_OK(ask(&c, XR_MSG_HELLO, &bad, sizeof(bad)) == -EPROTO,
	       "HELLO of another version is refused");
	TAP_OK(ask(&c, XR_MSG_HELLO, &bad, 4) == -EINVAL, "a short HELLO is refused");
	TAP_OK(hello(&c, 0x80) == -EINVAL, "an unknown flag is refused");
	TAP_OK(!hello(&c, 0), "HELLO");
	rep = (struct xr_hello_rep *)c.body;
	TAP_OK(rep->workers == 1 && c.nfds == 3 + rep->has_uffd && rep->doorbells.new_chunk &&
		       rep->doorbells.length == sizeof(struct xr_doorbell),
	       "the reply to HELLO has the event socket, an eventfd and doorbells");
	TAP_OK(hello(&c, 0) == -EPROTO, "a second HELLO is refused");
	disconnect(&c);

	connect_client(&c);
	TAP_OK(!hello(&c, XR_HELLO_OBSERVER) && !c.nfds, "an observer gets no descriptors");
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == -EPERM, "an observer may not create objects");
	TAP_OK(!ask(&c, XR_MSG_SHOW, &show, sizeof(show)) && c.nfds == 1,
	       "an observer may use SHOW");
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_malformed(void)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD, .seq = 7, .length = 8 };
	static uint8_t huge[XR_MSG_MAX + 64];
	int before, flood[253], one, i;
	uint8_t body[32] = { 0 };
	struct conn c;

	open_client(&c);
	TAP_OK(ask(&c, 0, NULL, 0) == -EOPNOTSUPP, "type 0 is refused");
	TAP_OK(ask(&c, XR_MSG_COUNT, NULL, 0) == -EOPNOTSUPP, "a type beyond the last is refused");
	TAP_OK(ask(&c, XR_MSG_CREATE_CQ, body, 8) == -EINVAL,
	       "a body that is too short is refused");
	TAP_OK(!ask(&c, XR_MSG_ALLOC_PD, body, sizeof(body)), "a body that is too long is cut");
	c.seq = head.seq;
	send_raw(&c, &head, sizeof(head), NULL, 0);
	settle();
	TAP_OK(read_reply(&c) == -EINVAL, "a length other than the datagram's is refused");
	c.seq = 0;
	send_raw(&c, body, 5, NULL, 0);
	settle();
	TAP_OK(read_reply(&c) == -EINVAL, "a datagram shorter than a header is refused");
	memcpy(huge, &head, sizeof(head));
	c.seq = head.seq;
	send_raw(&c, huge, sizeof(huge), NULL, 0);
	settle();
	TAP_OK(read_reply(&c) == -EINVAL, "a datagram longer than a message may be is refused");

	one = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* starts the gate */
	MUST(ask_fds(&c, XR_MSG_ALLOC_PD, NULL, 0, &one, 1) == -EINVAL);
	before = open_fds();
	TAP_OK(ask_fds(&c, XR_MSG_ALLOC_PD, NULL, 0, &one, 1) == -EINVAL,
	       "a descriptor with a request that takes none is refused");
	for (i = 0; i < 253; i++)
		flood[i] = one;
	TAP_OK(ask_fds(&c, XR_MSG_REG_MR, body, sizeof(body), flood, 253) == -EINVAL,
	       "more descriptors than a message may have are refused");
	TAP_OK(ask_fds(&c, XR_MSG_REG_MR, body, sizeof(body), flood, 64) == -EINVAL,
	       "the largest number of descriptors is refused if none is used");
	TAP_OK(open_fds() == before, "descriptors of refused requests are closed");
	close(one);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Requests without a reply are executed in their order, also those that fail. */
static void test_no_reply(void)
{
	struct {
		struct xr_msg head;
		struct xr_handle_req q;
	} dealloc = { .head = { .type = XR_MSG_DEALLOC_PD,
				.status = XR_MSG_NO_REPLY,
				.length = sizeof(dealloc.q) } };
	struct conn c;
	uint32_t pd;

	connect_client(&c);
	TAP_OK(!hello(&c, 0) && ((struct xr_hello_rep *)c.body)->no_reply,
	       "the daemon knows requests without replies");
	pd = alloc_pd(&c);
	dealloc.q.handle = pd;
	for (int i = 0; i < 2; i++)
		send_raw(&c, &dealloc, sizeof(dealloc), NULL, 0);
	settle();
	TAP_OK(read_reply(&c) == 1, "two requests, one of which fails, have no reply");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -ENOENT, "they were executed");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Length, descriptors and observers for each row of XR_MESSAGES */
static void test_rows(void)
{
	static const struct {
		const char *name;
		uint32_t least, size, flags;
	} rows[] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { #name, body, flags },
		XR_MESSAGES(X)
#undef X
	};
	uint32_t type, shorter = 0, fds = 0, observer = 0, wanted_shorter = 0, wanted_fds = 0;
	uint8_t body[1024] = { 0 };
	struct conn c, o;
	int one;

	open_client(&c);
	connect_client(&o);
	MUST(!hello(&o, XR_HELLO_OBSERVER));
	one = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (type = XR_MSG_HELLO + 1; type < XR_MSG_COUNT; type++) {
		MUST(rows[type].name && rows[type].size <= sizeof(body));
		if (rows[type].least) {
			wanted_shorter++;
			shorter += ask(&c, type, body, rows[type].least - 1) == -EINVAL;
		}
		if (!(rows[type].flags & XR_TAKES_FDS)) {
			wanted_fds++;
			fds += ask_fds(&c, type, body, rows[type].size, &one, 1) == -EINVAL;
		}
		if (!(rows[type].flags & XR_FOR_OBSERVERS))
			observer += ask(&o, type, body, rows[type].size) != -EPERM;
	}
	close(one);
	TAP_OK(shorter == wanted_shorter, "each request shorter than its first version is refused");
	TAP_OK(fds == wanted_fds, "each request refuses descriptors that it does not take");
	TAP_OK(!observer, "an observer may send only requests for observers");
	disconnect(&o);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- objects --------------------------------------------------------------------- */

/* Programs read capability flags before they use a feature, so the flags must be exact. */
static void test_capabilities(void)
{
	const uint64_t have = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			      IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
			      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
			      IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			      XR_DEVICE_CAPS_EX;
	uint64_t flags;
	struct conn c;

	open_client(&c);
	MUST(!ask(&c, XR_MSG_QUERY_DEVICE, NULL, 0));
	flags = ((struct xr_query_device_rep *)c.body)->device_cap_flags;
	TAP_OK(flags == have, "capabilities: %llx reported in error, %llx missing",
	       (unsigned long long)(flags & ~have), (unsigned long long)(have & ~flags));
	close_client(&c);
}

static void test_objects(void)
{
	struct xr_create_cq_req cqr = { .depth = 0 };
	struct xr_create_qp_req qr;
	struct xr_create_qp_rep *rep;
	uint32_t pd, channel, cq, qp, i;
	int channel_fd, err = 0;
	struct conn c, d;

	open_client(&c);
	pd = alloc_pd(&c);
	channel = create_channel(&c, &channel_fd);
	TAP_OK(ask(&c, XR_MSG_CREATE_CQ, &cqr, sizeof(cqr)) == -EINVAL,
	       "a CQ without entries is refused");
	cqr.depth = XR_MAX_CQE + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_CQ, &cqr, sizeof(cqr)) == -EINVAL,
	       "a CQ that is too deep is refused");
	cqr = (struct xr_create_cq_req){ .depth = 5, .channel = channel + 1 };
	TAP_OK(ask(&c, XR_MSG_CREATE_CQ, &cqr, sizeof(cqr)) == -ENOENT,
	       "a CQ of an unknown channel is refused");
	cq = create_cq(&c, 5, channel);
	TAP_OK(((struct xr_create_cq_rep *)c.body)->depth == 8,
	       "depths are rounded up to powers of two");

	qr = qp_request(pd, cq + 1);
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &qr, sizeof(qr)) == -ENOENT,
	       "a QP of an unknown CQ is refused");
	qr = qp_request(pd, cq);
	qr.type = 8; /* IBV_QPT_RAW_PACKET */
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &qr, sizeof(qr)) == -EOPNOTSUPP,
	       "a raw packet QP is refused");
	qr = qp_request(pd, cq);
	qr.max_send_sge = XR_MAX_SGE + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &qr, sizeof(qr)) == -EINVAL,
	       "a QP with too many SGEs is refused");
	qr.max_send_sge = 1;
	qr.max_recv_wr = XR_MAX_WR + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &qr, sizeof(qr)) == -EINVAL,
	       "a QP with too many receives is refused");
	qp = create_qp(&c, pd, cq);
	rep = (struct xr_create_qp_rep *)c.body;
	TAP_OK(rep->max_send_wr == 16 && rep->max_recv_wr == 16 && rep->max_send_sge == 2 &&
		       rep->max_inline >= 32 && rep->sq.length && rep->rq.length,
	       "QP capabilities are rounded up");

	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY, "a PD in use is not deallocated");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_CQ, cq) == -EBUSY, "a CQ in use is not destroyed");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_CHANNEL, channel) == -EBUSY,
	       "a channel in use is not destroyed");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_QP, 0) == -ENOENT &&
		       ask_handle(&c, XR_MSG_DESTROY_QP, UINT32_MAX) == -ENOENT &&
		       ask_handle(&c, XR_MSG_DEREG_MR, qp) == -ENOENT,
	       "invalid handles are refused");

	connect_client(&d);
	hello(&d, 0);
	TAP_OK(ask_handle(&d, XR_MSG_DESTROY_QP, qp) == -ENOENT,
	       "a handle of another client is refused");
	disconnect(&d);

	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_QP, qp) && !ask_handle(&c, XR_MSG_DESTROY_CQ, cq) &&
		       !ask_handle(&c, XR_MSG_DESTROY_CHANNEL, channel) &&
		       !ask_handle(&c, XR_MSG_DEALLOC_PD, pd),
	       "all objects can be destroyed in order");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_QP, qp) == -ENOENT, "a QP cannot be destroyed twice");
	for (i = 0; i <= fake.opt.client_max_pd && !err; i++)
		err = ask(&c, XR_MSG_ALLOC_PD, NULL, 0);
	TAP_OK(err == -ENOMEM && i == fake.opt.client_max_pd + 1,
	       "a client has at most its limit of PDs");
	close(channel_fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Rings are pieces of shared chunks, and freed pieces are zeroed. */
static void test_shared_memory(void)
{
	struct xr_shm_ref ring;
	struct xr_create_cq_req q = { .depth = 512 };
	struct xr_create_cq_rep *rep;
	uint32_t i, seen = 0, cq;
	uint8_t *base = NULL;
	struct conn c;
	bool zero = true;

	open_client(&c);
	for (i = 0; i < 100; i++) {
		MUST(!ask(&c, XR_MSG_CREATE_CQ, &q, sizeof(q)));
		rep = (struct xr_create_cq_rep *)c.body;
		cq = rep->handle;
		ring = rep->ring;
		if (ring.new_chunk) {
			MUST(c.nfds == 1);
			base = mmap(NULL, ring.chunk_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				    c.fds[0], 0);
			MUST(base != MAP_FAILED);
			seen++;
		}
		if (base) {
			zero &= !base[ring.offset + sizeof(struct xr_queue)];
			memset(base + ring.offset + sizeof(struct xr_queue), 0xff, 512 * 64);
		}
		MUST(!ask_handle(&c, XR_MSG_DESTROY_CQ, cq));
	}
	TAP_OK(seen <= 1, "100 rings, one after the other, need one chunk");
	TAP_OK(zero, "each ring starts with zeros");
	q.depth = XR_MAX_CQE;
	TAP_OK(ask(&c, XR_MSG_CREATE_CQ, &q, sizeof(q)) == -EDQUOT,
	       "rings are charged to the quota");
	if (base)
		munmap(base, ring.chunk_size);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- events ---------------------------------------------------------------------- */

static unsigned int drain(int fd, size_t record)
{
	uint8_t data[64];
	unsigned int n = 0;

	while (recv(fd, data, sizeof(data), MSG_DONTWAIT) == (ssize_t)record)
		n++;
	return n;
}

static void test_events(void)
{
	struct xr_destroy_rep *gone;
	uint32_t channel, cq, cq2, i, n = 0;
	struct pollfd writable;
	struct xd_cq *obj;
	uint64_t cookie;
	struct conn c;
	int fd;

	open_client(&c);
	channel = create_channel(&c, &fd);
	cq = create_cq(&c, 16, channel);
	cq2 = create_cq(&c, 16, channel);
	obj = xd_object_get(c.client, XD_CQ, cq);
	TAP_OK(!(fcntl(fd, F_GETFL) & O_NONBLOCK), "the client's end of a channel blocks");
	xd_engine_events.cq(&obj->xt);
	TAP_OK(read(fd, &cookie, sizeof(cookie)) == sizeof(cookie) && cookie == 0xc0,
	       "a completion event is the CQ's cookie");
	writable = (struct pollfd){ .fd = fd, .events = POLLIN };
	TAP_OK(!poll(&writable, 1, 0), "there is only one event");
	MUST(!send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) || errno == EPIPE);

	for (i = 0; i < 5000; i++)
		xd_engine_events.cq(&obj->xt);
	xd_engine_events.cq(&((struct xd_cq *)xd_object_get(c.client, XD_CQ, cq2))->xt);
	settle();
	n = drain(fd, 8);
	TAP_OK(n > 100 && n < 5000, "a channel takes events until it is full (%u fit)", n);
	settle();
	n = drain(fd, 8);
	TAP_OK(n == 2, "one more event for each CQ follows when there is room");
	settle();
	TAP_OK(!drain(fd, 8) && !obj->channel->socket.watch, "no further event follows");
	MUST(!ask_handle(&c, XR_MSG_DESTROY_CQ, cq2));
	gone = (struct xr_destroy_rep *)c.body;
	TAP_OK(gone->comp_events == 1, "DESTROY_CQ returns the number of events");
	close(fd);
	xd_engine_events.cq(&obj->xt);
	settle();
	TAP_OK(!ask(&c, XR_MSG_ALLOC_PD, NULL, 0), "events of a closed channel are discarded");

	xd_engine_events.async(NULL, &obj->xt, IBV_EVENT_CQ_ERR);
	xd_clients_port_event(fake_clients(), IBV_EVENT_GID_CHANGE);
	{
		struct xr_async_event ev[2];

		MUST(read(events_fd, &ev[0], sizeof(ev[0])) == sizeof(ev[0]) &&
		     read(events_fd, &ev[1], sizeof(ev[1])) == sizeof(ev[1]));
		TAP_OK(ev[0].element == 0xc0 && ev[0].type == IBV_EVENT_CQ_ERR &&
			       ev[1].element == 1 && ev[1].type == IBV_EVENT_GID_CHANGE,
		       "asynchronous events of a CQ and of the port are delivered");
	}
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- the end of clients ---------------------------------------------------------- */

/* The process of the client ends, but its child still has the socket. */
static void test_process_exit(void)
{
	int pair[2], listener, ready[2], fd;
	struct sockaddr_un {
		unsigned short family;
		char path[108];
	} sun = { .family = AF_UNIX };
	struct xd_client *client;
	pid_t pid, child = 0;
	bool known;

	MUST(!pipe(ready));
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(sun.path + 1, sizeof(sun.path) - 1, "xroce-control-test-%d", getpid());
	MUST(!bind(listener, (struct sockaddr *)&sun, sizeof(sun)) && !listen(listener, 1));
	pid = fork();
	if (!pid) {
		pair[0] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (connect(pair[0], (struct sockaddr *)&sun, sizeof(sun)))
			_exit(1);
		child = fork();
		if (!child) {
			alarm(20);
			pause();
			_exit(0);
		}
		_exit(write(ready[1], &child, sizeof(child)) != sizeof(child));
	}
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	client = xd_client_new(fake_clients(), fd, fake_ticket(fd));
	MUST(client && read(ready[0], &child, sizeof(child)) == sizeof(child));
	known = client->identity.pidfd >= 0;
	waitpid(pid, NULL, 0);
	settle();
	if (!known && fake_clients()->first)
		tap_skip("a client ends with its process", "the kernel has no pidfd of the peer");
	else
		TAP_OK(!fake_clients()->first, "a client ends with its process");
	kill(child, SIGKILL);
	settle();
	close(listener), close(ready[0]), close(ready[1]);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Clients that end with objects and a request in flight */
static void test_end_in_request(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int before = open_fds(), round, channel_fd;
	struct reg r;
	uint32_t pd, cq;
	struct conn c;

	for (round = 0; round < 30; round++) {
		open_client(&c);
		pd = alloc_pd(&c);
		cq = create_cq(&c, 64, create_channel(&c, &channel_fd));
		close(channel_fd);
		MUST(!to_init(&c, create_qp(&c, pd, cq)));
		proc_sent = false;
		MUST(!reg_private(&c, pd, p, PAGE, RW));
		proc_sent = true;
		/* Also a region whose registration has no reply yet */
		r = reg_of(pd, p, PAGE, RW);
		add_segment(&r, XR_SEG_PRIVATE, p, PAGE);
		{
			struct xr_msg head = { XR_MSG_REG_MR, 0, 1,
					       sizeof(r.q) + sizeof(r.segment[0]) };
			uint8_t data[sizeof(head) + sizeof(r)];

			memcpy(data, &head, sizeof(head));
			memcpy(data + sizeof(head), &r, sizeof(r));
			xd_client_feed(c.client, data, sizeof(head) + head.length, NULL, 0);
		}
		xd_client_end(c.client);
		close_client(&c);
	}
	TAP_OK(nothing_left() && open_fds() == before,
	       "30 clients that end during a request leave nothing");
	munmap(p, PAGE);
}

static void test_replies_not_read(void)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD };
	struct conn c;
	int i;

	open_client(&c);
	for (i = 0; i < 3000 && fake_clients()->first; i++) {
		if (send(c.fd, &head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			settle();
	}
	settle();
	TAP_OK(!fake_clients()->first, "a client that does not read replies is ended");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Creates an object of each kind for the lists. */
static void make_all_kinds(struct conn *c)
{
	struct xr_alloc_mw_req mw = { .type = IBV_MW_TYPE_2 };
	struct xr_alloc_dm_req dm = { .length = 12345 };
	uint32_t pd = mw.pd = alloc_pd(c);

	MUST(!to_init(c, create_qp(c, pd, create_cq(c, 16, 0))));
	MUST(!mcast(c, XR_MSG_ATTACH_MCAST, create_datagram_qp(c), 7) && create_srq(c, pd, 10));
	MUST(!ask(c, XR_MSG_ALLOC_MW, &mw, sizeof(mw)) &&
	     !ask(c, XR_MSG_ALLOC_DM, &dm, sizeof(dm)));
	MUST(!create_ah(c, pd, 0) && !open_xrcd(c, "/dev/null", XR_XRCDF_CREAT));
}

static void test_show(void)
{
	static const struct {
		uint32_t what;
		const char *has; /* text in the JSON */
	} shown[] = {
		{ XR_SHOW_STATUS, "\"qps\":2," },
		{ XR_SHOW_COUNTERS, "\"qkey_errors\"" },
		{ XR_SHOW_QPS, "\"type\":\"UD\",\"state\":\"RESET\"" },
		{ XR_SHOW_QP_DETAILS, "\"rtt\":{\"least_ns\":0,\"usual_ns\":0,\"histogram\":[]}" },
		{ XR_SHOW_CQ_DETAILS, "\"completions\":0,\"completion_errors\":0" },
		{ XR_SHOW_SRQ_DETAILS, "\"receives\":0,\"receives_missed\":0" },
		{ XR_SHOW_CM_ID_DETAILS, "[]" },
		{ XR_SHOW_MR_DETAILS, "[]" },
		{ XR_SHOW_METRICS, "\nxroce_objects{device=" },
		{ XR_SHOW_METRICS, "\nxroce_client_objects{device=" },
		{ XR_SHOW_MRS, "[]" },
		{ XR_SHOW_CLIENTS, "\"dms\":1," },
		{ XR_SHOW_CQS, "\"depth\":16,\"used\":0" },
		{ XR_SHOW_SRQS, "\"type\":\"basic\",\"pd\":1,\"depth\":16,\"used\":0,\"limit\":0" },
		{ XR_SHOW_XRCDS, "\"opened\":1,\"file\":true" },
		{ XR_SHOW_AHS, "\"gid_index\":0,\"peer\":\"" },
		{ XR_SHOW_MWS, "\"type\":2,\"bound\":false,\"mr\":0" },
		{ XR_SHOW_DMS, "\"length\":12345,\"mrs\":0" },
		{ XR_SHOW_GROUPS, "[{\"group\":\"ff0e::7\"" },
	};
	char text[65536];
	struct xr_show_req q;
	struct conn c;
	unsigned int i;
	ssize_t n;
	int fds;

	open_client(&c);
	make_all_kinds(&c);
	fds = open_fds();
	for (i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		q = (struct xr_show_req){ .what = shown[i].what };
		MUST(!ask(&c, XR_MSG_SHOW, &q, sizeof(q)) && c.nfds == 1);
		n = read(c.fds[0], text, sizeof(text) - 1);
		MUST(n >= 2 && n < (ssize_t)sizeof(text));
		text[n] = '\0';
		TAP_OK(n == (ssize_t)((struct xr_show_rep *)c.body)->length &&
			       strstr(text, shown[i].has),
		       "SHOW %u: %s", shown[i].what, shown[i].has);
		if (shown[i].what == XR_SHOW_STATUS)
			TAP_OK(strstr(text, "\"open_fds\":") &&
				       atoi(strstr(text, "\"open_fds\":") + 11) == fds,
			       "open files: %d", fds);
	}
	q.what = 99;
	TAP_OK(ask(&c, XR_MSG_SHOW, &q, sizeof(q)) == -EINVAL,
	       "SHOW of an unknown subject is refused");
	c.client->identity.is_operator = false;
	q.what = XR_SHOW_QPS;
	TAP_OK(ask(&c, XR_MSG_SHOW, &q, sizeof(q)) == -EPERM,
	       "SHOW of QPs is refused to others than operators");
	q.what = XR_SHOW_COUNTERS;
	TAP_OK(!ask(&c, XR_MSG_SHOW, &q, sizeof(q)), "every client may use SHOW of the counters");
	c.client->identity.is_operator = true;
	close_client(&c);
}

/* ---- capture ----------------------------------------------------------------------- */

static int start_capture(struct conn *c, struct xr_capture_req req)
{
	int status = ask(c, XR_MSG_CAPTURE, &req, sizeof(req));

	while (c->nfds)
		close(c->fds[--c->nfds]);
	return status;
}

static void test_capture_requests(void)
{
	const struct xr_capture_req good = { .reasons = XR_REASON_COUNT,
					     .ring_size = XR_CAPTURE_RING_MIN };
	struct xr_capture_req bad[10];
	uint32_t wrong = 0, i;
	struct conn c;

	connect_client(&c);
	MUST(!hello(&c, XR_HELLO_OBSERVER));
	for (i = 0; i < 10; i++)
		bad[i] = good;
	bad[0].reasons++;
	bad[1].ring_size /= 2;
	bad[2].ring_size *= 3;
	bad[3].ring_size = 1u << 31;
	bad[4].filter.types = 0x80;
	bad[5].filter.qpns = XR_CAPTURE_QPNS + 1;
	bad[6].filter.peers = XR_CAPTURE_PEERS + 1;
	bad[7].flags = XR_CAPTURE_OVERWRITE << 1;
	bad[8].direct_ring_size = XR_CAPTURE_RING_MIN + 1;
	bad[9].direct_ring_size = 2 * XR_VIEW_RING;
	for (i = 0; i < 10; i++)
		wrong += start_capture(&c, bad[i]) != (i ? -EINVAL : -EPROTO) || fake.captures;
	TAP_OK(!wrong, "captures with other verdicts, wrong rings, flags or filters are refused");
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_captures(void)
{
	const struct xr_capture_req req = { .reasons = XR_REASON_COUNT,
					    .ring_size = XR_CAPTURE_RING_MIN };
	struct conn c[XR_CAPTURE_MAX + 1];
	struct xr_capture_rep *rep;
	uint32_t good = 0, i;

	for (i = 0; i <= XR_CAPTURE_MAX; i++) {
		connect_client(&c[i]);
		MUST(!hello(&c[i], XR_HELLO_OBSERVER));
	}
	MUST(!ask(&c[0], XR_MSG_CAPTURE, &req, sizeof(req)));
	rep = (struct xr_capture_rep *)c[0].body;
	TAP_OK(rep->rings == 2 && rep->ring_size == req.ring_size && c[0].nfds == 1 &&
		       rep->memory.length >= rep->data + 2 * rep->ring_size &&
		       (fcntl(c[0].fds[0], F_GET_SEALS) & F_SEAL_SHRINK),
	       "the reply has the rings, in a file that cannot become shorter");
	TAP_OK(start_capture(&c[0], req) == -EBUSY, "a connection captures once");
	for (i = 1; i < XR_CAPTURE_MAX; i++)
		good += !start_capture(&c[i], req);
	TAP_OK(good == XR_CAPTURE_MAX - 1 && start_capture(&c[i], req) == -EBUSY,
	       "the number of captures is limited");
	disconnect(&c[0]);
	TAP_OK(fake.captures == XR_CAPTURE_MAX - 1 && !start_capture(&c[i], req),
	       "a capture ends with its connection");
	for (i = 1; i <= XR_CAPTURE_MAX; i++)
		disconnect(&c[i]);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Reads the next report of a direct context. Returns its number, 0: there is none. */
static uint32_t next_report(struct conn *c, struct xr_capture_context_rep *rep)
{
	MUST(!ask(c, XR_MSG_CAPTURE_CONTEXT, NULL, 0));
	*rep = *(struct xr_capture_context_rep *)c->body;
	return rep->context;
}

static void close_fds(struct conn *c)
{
	while (c->nfds)
		close(c->fds[--c->nfds]);
}

static void make_direct(struct conn *c, size_t size)
{
	int fd = size ? memfd_create("view", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;

	connect_client(c);
	MUST(!hello(c, 0));
	if (size) {
		MUST(fd >= 0 && !ftruncate(fd, (off_t)size) &&
		     !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) &&
		     !xd_view_open(c->client, &fd));
	}
	MUST(!xd_direct_rules_open(c->client));
	c->client->slot = 1;
	xd_captures_lend(c->client);
}

static void end_direct(struct conn *c)
{
	xd_captures_lend_end(c->client);
	c->client->slot = 0;
	xd_direct_rules_close(c->client);
	xd_view_close(c->client);
	disconnect(c);
}

static struct xr_direct_capture on_page(struct conn *c)
{
	struct xr_direct_page page;

	MUST(pread(xd_direct_rules_fd(c->client), &page, sizeof(page), 0) == sizeof(page));
	MUST(!(page.seq & 1));
	return page.capture[0];
}

static void test_direct_captures(void)
{
	const struct xr_capture_req req = { .reasons = XR_REASON_COUNT,
					    .ring_size = XR_CAPTURE_RING_MIN,
					    .direct_ring_size = XR_CAPTURE_RING_MIN,
					    .snap_len = 77 };
	struct xr_capture_context_rep rep;
	struct xr_direct_capture entry;
	struct conn c, early, late;
	uint32_t number;

	make_direct(&early, XR_VIEW_SIZE_RINGS);
	connect_client(&c);
	MUST(!hello(&c, XR_HELLO_OBSERVER));
	TAP_OK(ask(&c, XR_MSG_CAPTURE_CONTEXT, NULL, 0) == -EINVAL &&
		       ask(&c, XR_MSG_END_CAPTURE, NULL, 0) == -EINVAL,
	       "without a capture, there are no contexts of it, and no end");
	MUST(!start_capture(&c, req));
	entry = on_page(&early);
	number = entry.number;
	TAP_OK(number && !entry.ended && entry.snap_len == 77 &&
		       entry.ring_size == XR_CAPTURE_RING_MIN,
	       "the page of a direct program has the capture");
	TAP_OK(next_report(&c, &rep) == early.client->id && !rep.ended && c.nfds == 1 &&
		       rep.capture == number && rep.offset == XR_VIEW_RINGS_OFF,
	       "a context that there was is reported, with its view");
	close_fds(&c);
	make_direct(&late, XR_VIEW_SIZE);
	TAP_OK(on_page(&late).number == number && next_report(&c, &rep) == late.client->id &&
		       !c.nfds,
	       "so is one that is opened later; this one has no rings");
	end_direct(&late);
	TAP_OK(next_report(&c, &rep) && rep.ended && !next_report(&c, &rep),
	       "the end of a context is reported, and nothing twice");
	make_direct(&late, XR_VIEW_SIZE_RINGS);
	end_direct(&late);
	TAP_OK(next_report(&c, &rep) && !rep.ended && c.nfds == 1,
	       "the view of a context that has ended can be read");
	close_fds(&c);
	TAP_OK(!ask(&c, XR_MSG_END_CAPTURE, NULL, 0) && on_page(&early).ended &&
		       on_page(&early).number == number && !fake.captures,
	       "the end of the capture is on the page, where it keeps its place");
	for (uint32_t i = 0; i < 300; i++)
		xd_captures_lend(early.client);
	disconnect(&c);
	TAP_OK(!on_page(&early).number, "until its connection is closed");

	connect_client(&c);
	MUST(!hello(&c, XR_HELLO_OBSERVER) && !start_capture(&c, req));
	for (uint32_t i = 0; i < 300; i++)
		xd_captures_lend(early.client);
	TAP_OK(on_page(&early).number == number + 1 && next_report(&c, &rep) &&
		       rep.missed == 300 + 1 - 256,
	       "the number of reports that wait is limited: %u left out", rep.missed);
	close_fds(&c);
	disconnect(&c);
	end_direct(&early);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("control");
	test_hello();
	test_malformed();
	test_no_reply();
	test_rows();
	test_capabilities();
	test_objects();
	test_shared_memory();
	test_events();
	test_process_exit();
	test_end_in_request();
	test_replies_not_read();
	test_show();
	test_capture_requests();
	test_captures();
	test_direct_captures();

	fake_server_stop();
	TAP_OK(!fake.server, "the server stops");
	return tap_end();
}
