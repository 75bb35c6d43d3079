// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fake daemon: messages and requests of the control protocol. */
#include "fake_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../lib/fds.h"

/* ---- objects ------------------------------------------------------------------- */

struct object *object(struct client *c, enum kind kind, uint32_t handle)
{
	struct object *o = handle && handle < MAX_OBJECTS ? &objects[handle] : NULL;

	return o && o->kind == kind && o->client == c ? o : NULL;
}

uint32_t new_object(struct client *c, enum kind kind)
{
	uint32_t i;

	for (i = 1; i < MAX_OBJECTS && objects[i].kind != FREE; i++)
		;
	if (i == MAX_OBJECTS)
		return 0;
	objects[i] = (struct object){ .kind = kind, .client = c, .pipe = -1 };
	return i;
}

void free_object(struct object *o)
{
	unsigned int i;

	if (o->kind == CHANNEL)
		close(o->pipe);
	for (i = 0; i < o->segments; i++) {
		if (o->map[i])
			munmap(o->map[i], o->segment[i].length + (o->segment[i].offset & 4095));
	}
	free(o->segment);
	free(o->map);
	*o = (struct object){ 0 };
}

/* ---- messages ------------------------------------------------------------------ */

bool receive(int fd, struct message *m)
{
	char control[CMSG_SPACE(sizeof(m->fds))];
	struct iovec iov[2] = { { &m->head, sizeof(m->head) }, { m->body, sizeof(m->body) } };
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = 2,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };

	memset(m->body, 0, 4096);
	m->nfds = 0;
	if (recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(m->head))
		return false;
	m->nfds = received_fds(&msg, m->fds);
	return true;
}

void reply_fds(const struct client *c, const struct message *to, const void *body, size_t len,
	       const int *fds, unsigned int nfds)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = { to->head.type, 0, to->head.seq, len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)body, len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	attach_fds(&msg, control, fds, nfds);
	sendmsg(c->fd, &msg, MSG_NOSIGNAL);
}

void reply(const struct client *c, const struct message *to, int status, const void *body,
	   size_t len)
{
	struct xr_msg head = { to->head.type, status, to->head.seq, 0 };

	if (status)
		send(c->fd, &head, sizeof(head), MSG_NOSIGNAL);
	else
		reply_fds(c, to, body, len, NULL, 0);
}

struct xr_shm_ref carve(struct client *c, uint64_t length, void **ptr)
{
	struct xr_shm_ref ref = {
		.chunk = 0, .chunk_size = CHUNK_SIZE, .offset = c->used, .length = length
	};

	*ptr = c->chunk + c->used;
	c->used += (length + 4095) & ~4095ull;
	if (c->used > CHUNK_SIZE)
		die("chunk");
	return ref;
}

/* ---- requests ----------------------------------------------------------------- */

const char *fake_netdev = "none";

static void hello(struct client *c, const struct message *m)
{
	const struct xr_hello_req *req = (const void *)m->body;
	struct xr_hello_rep rep = { .version = XR_PROTOCOL_VERSION,
				    .workers = 1,
				    .guid = FAKE_GUID,
				    .device = FAKE_DEVICE };
	int fds[4], p[2], memfd, uffd;
	unsigned int n = 0;

	snprintf(rep.netdev, sizeof(rep.netdev), "%s", fake_netdev);
	usleep(slow_ms * 1000);
	if (req->flags & XR_HELLO_OBSERVER) {
		reply(c, m, 0, &rep, sizeof(rep));
		return;
	}
	if (req->flags & XR_HELLO_UMAD) {
		umad_hello(c, m, &rep);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		die("pipe");
	c->pipe = p[1];
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memfd = memfd_create("fake-chunk", MFD_CLOEXEC);
	if (memfd < 0 || ftruncate(memfd, CHUNK_SIZE))
		die("memfd");
	c->chunk = mmap(NULL, CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	c->used = 0;
	rep.doorbells = carve(c, sizeof(struct xr_doorbell), (void **)&c->doorbell);
	rep.doorbells.new_chunk = 1;
	uffd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	rep.has_uffd = uffd >= 0;
	fds[n++] = p[0];
	fds[n++] = c->wake;
	fds[n++] = memfd;
	if (uffd >= 0)
		fds[n++] = uffd;
	reply_fds(c, m, &rep, sizeof(rep), fds, n);
	close(p[0]);
	close(memfd);
	if (uffd >= 0)
		close(uffd);
}

static void query_device(struct client *c, const struct message *m)
{
	struct xr_query_device_rep rep = {
		.guid = FAKE_GUID,
		.max_mr_size = 1ull << 40,
		.page_size_cap = 4096,
		.device_cap_flags = IBV_DEVICE_XRC | XR_DEVICE_CAPS_EX,
		.max_qp = 100,
		.max_qp_wr = DEPTH_MAX,
		.max_sge = 16,
		.max_cq = 100,
		.max_cqe = DEPTH_MAX,
		.max_srq = 100,
		.max_srq_wr = DEPTH_MAX,
		.max_srq_sge = 16,
		.max_mr = 1000,
		.max_pd = 100,
		.max_qp_rd_atom = 16,
		.max_pkeys = 1,
		.max_inline = 256,
		.fw_ver = "fake",
	};

	reply(c, m, 0, &rep, sizeof(rep));
}

static void query_port(struct client *c, const struct message *m)
{
	struct xr_query_port_rep rep = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_2048,
		.gid_tbl_len = XR_GID_TABLE_LEN,
		.pkey_tbl_len = 1,
		.active_speed = 1,
		.active_width = 1,
		.phys_state = 5,
		.max_msg_sz = 1u << 31,
	};

	reply(c, m, 0, &rep, sizeof(rep));
}

/* Counters of the transport, whatever is asked for */
static void show(struct client *c, const struct message *m)
{
	static const char text[] =
		"{\"xdp\":[{\"name\":\"OK\",\"packets\":1}],\"transport\":["
		"{\"name\":\"rx_packets\",\"value\":7,\"text\":\"packets received\"},"
		"{\"name\":\"rx_bytes\",\"value\":403,\"text\":\"bytes received\"},"
		"{\"name\":\"rx_icrc_errors\",\"value\":10,\"text\":\"\"},"
		"{\"name\":\"rx_udp_checksum_errors\",\"value\":20,\"text\":\"\"},"
		"{\"name\":\"rx_malformed\",\"value\":30,\"text\":\"\"},"
		"{\"name\":\"tx_packets\",\"value\":8,\"text\":\"\"},"
		"{\"name\":\"tx_bytes\",\"value\":800,\"text\":\"\"}],\"cm\":["
		"{\"name\":\"malformed\",\"value\":1,\"text\":\"\"}]}";
	struct xr_show_rep rep = { .length = sizeof(text) - 1 };
	int fd = memfd_create("fake-show", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, text, rep.length, 0) != (ssize_t)rep.length)
		die("show");
	reply_fds(c, m, &rep, sizeof(rep), &fd, 1);
	close(fd);
}

/* The GID table has entries 0 and 2. */
static void query_gids(struct client *c, const struct message *m)
{
	struct {
		struct xr_query_gids_rep head;
		struct xr_gid_entry entry[2];
	} rep = { .head.count = 2 };

	rep.entry[0].gid.raw[0] = 0xfe;
	rep.entry[0].gid.raw[1] = 0x80;
	rep.entry[0].gid.raw[15] = 1;
	rep.entry[1].index = 2;
	rep.entry[1].gid.raw[10] = rep.entry[1].gid.raw[11] = 0xff;
	memcpy(rep.entry[1].gid.raw + 12, "\x0a\x00\x00\x01", 4);
	reply(c, m, 0, &rep, sizeof(rep));
}

/* Maps segments of kind FD and MAPPING, the latter through map_files. */
static void take_segments(struct client *c, struct object *o, const struct xr_reg_mr_req *req,
			  const struct message *m)
{
	const struct xr_mr_segment *s;
	unsigned int i;
	char path[96];
	void *p;
	int fd;

	o->segments = req->segments;
	o->segment = calloc(req->segments + 1, sizeof(*s));
	o->map = calloc(req->segments + 1, sizeof(*o->map));
	memcpy(o->segment, req->segment, req->segments * sizeof(*s));
	for (i = 0; i < req->segments; i++) {
		s = &req->segment[i];
		fd = -1;
		if (s->kind == XR_SEG_FD && s->fd_index < m->nfds)
			fd = dup(m->fds[s->fd_index]);
		if (s->kind == XR_SEG_MAPPING) {
			snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", getppid(),
				 s->map_start, s->map_end);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		if (fd < 0)
			continue;
		p = mmap(NULL, s->length + (s->offset & 4095), PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, s->offset & ~4095ull);
		if (p != MAP_FAILED)
			o->map[i] = p;
		close(fd);
	}
	if (req->flags & XR_REGF_PROC_FDS) {
		if (c->mem >= 0)
			close(c->mem);
		c->mem = dup(m->fds[m->nfds - 2]);
	}
}

/* Returns true if the segments cover exactly the range. */
static bool segments_fit(const struct xr_reg_mr_req *req)
{
	uint64_t at = req->addr;
	unsigned int i;

	if (req->access & XR_ACCESS_ON_DEMAND)
		return !req->segments;
	for (i = 0; i < req->segments; i++) {
		if (req->segment[i].addr != at || !req->segment[i].length)
			return false;
		at += req->segment[i].length;
	}
	return at == req->addr + req->length;
}

static void reg_mr(struct client *c, const struct message *m)
{
	const struct xr_rereg_mr_req *rereg = (const void *)m->body;
	bool again = m->head.type == XR_MSG_REREG_MR;
	const struct xr_reg_mr_req *req = again ? &rereg->reg : (const void *)m->body;
	struct xr_reg_mr_rep rep = { 0 };
	struct object *o;

	if (!object(c, PD, req->pd) || !segments_fit(req) ||
	    (again && !object(c, MR, rereg->handle))) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	rep.handle = again ? rereg->handle : new_object(c, MR);
	o = &objects[rep.handle];
	if (again) {
		free_object(o);
		o->kind = MR;
		o->client = c;
	}
	take_segments(c, o, req, m);
	rep.lkey = rep.rkey = rep.handle << 8;
	reply(c, m, 0, &rep, sizeof(rep));
}

static void create_channel(struct client *c, const struct message *m)
{
	struct xr_handle_rep rep = { .handle = new_object(c, CHANNEL) };
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		die("pipe");
	objects[rep.handle].pipe = p[1];
	reply_fds(c, m, &rep, sizeof(rep), p, 1);
	close(p[0]);
}

static void destroy(struct client *c, const struct message *m, enum kind kind)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, kind, req->handle);
	struct xr_destroy_rep rep = { 0 };

	if (o && o->groups) {
		reply(c, m, -EBUSY, NULL, 0);
		return;
	}
	if (o) {
		rep.comp_events = o->comp_written;
		rep.async_events = o->async_written;
		free_object(o);
	}
	reply(c, m, o ? 0 : -EINVAL, &rep, sizeof(rep));
}

static void alloc_mw(struct client *c, const struct message *m)
{
	const struct xr_alloc_mw_req *req = (const void *)m->body;
	struct xr_alloc_mw_rep rep = { 0 };

	if (object(c, PD, req->pd) && (req->type == IBV_MW_TYPE_1 || req->type == IBV_MW_TYPE_2))
		rep.handle = new_object(c, MW);
	rep.rkey = rep.handle << 8;
	reply(c, m, rep.handle ? 0 : -EINVAL, &rep, rep.handle ? sizeof(rep) : 0);
}

static void alloc_fast_mr(struct client *c, const struct message *m)
{
	const struct xr_alloc_fast_mr_req *req = (const void *)m->body;
	struct xr_alloc_fast_mr_rep rep = { 0 };
	struct object *o;

	if (!object(c, PD, req->pd) || !req->max_pages || req->max_pages > XR_FAST_MAX_PAGES) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	rep.handle = new_object(c, MR);
	rep.key = rep.handle << 8;
	o = &objects[rep.handle];
	o->max_pages = req->max_pages;
	rep.lists = carve(c, (uint64_t)XR_FAST_LISTS * req->max_pages * sizeof(uint64_t),
			  (void **)&o->lists);
	reply(c, m, 0, &rep, sizeof(rep));
}

static void alloc_integrity_mr(struct client *c, const struct message *m)
{
	const struct xr_alloc_integrity_mr_req *req = (const void *)m->body;
	struct xr_alloc_fast_mr_rep rep = { 0 };
	struct object *o;

	if (!object(c, PD, req->pd) || !req->max_pieces ||
	    req->max_pieces > XR_INTEGRITY_MAX_PIECES) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	rep.handle = new_object(c, MR);
	rep.key = rep.handle << 8;
	o = &objects[rep.handle];
	o->max_pages = xr_integrity_stride(req->max_pieces) / sizeof(uint64_t);
	rep.lists = carve(c, sizeof(struct xr_integrity) + XR_FAST_LISTS * 8ull * o->max_pages,
			  (void **)&o->lists);
	o->lists += sizeof(struct xr_integrity) / sizeof(uint64_t);
	reply(c, m, 0, &rep, sizeof(rep));
}

/* For clients that have sent /proc/self/mem. */
static void reserved_lkey(struct client *c, const struct message *m)
{
	struct xr_reserved_lkey_rep rep = { .lkey = XR_RESERVED_LKEY };

	if (c->mem < 0)
		reply(c, m, -EPERM, NULL, 0);
	else
		reply(c, m, 0, &rep, sizeof(rep));
}

static void simple(struct client *c, const struct message *m, enum kind kind)
{
	struct xr_handle_rep rep = { .handle = new_object(c, kind) };

	reply(c, m, 0, &rep, sizeof(rep));
}

static void create_ah(struct client *c, const struct message *m)
{
	const struct xr_create_ah_req *req = (const void *)m->body;

	if (req->attr.hop_limit == FAKE_REFUSED_HOP)
		reply(c, m, -EHOSTUNREACH, NULL, 0);
	else
		simple(c, m, AH);
}

/* Returns a MAC address that ends like the GID, and the traffic class as VLAN. */
static void resolve_ah(struct client *c, const struct message *m)
{
	const struct xr_resolve_ah_req *req = (const void *)m->body;
	struct xr_resolve_ah_rep rep = {
		.mac = { 2, [5] = req->attr.dgid.raw[15] },
		.vlan = req->attr.traffic_class,
	};

	if (req->attr.hop_limit == FAKE_REFUSED_HOP)
		reply(c, m, -EHOSTUNREACH, NULL, 0);
	else
		reply(c, m, 0, &rep, sizeof(rep));
}

/* Returns true if length and descriptors are as in the request's row of XR_MESSAGES. */
static bool well_formed(const struct message *m)
{
	static const struct {
		uint32_t least, size, flags;
	} rows[XR_MSG_COUNT] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { body, flags },
		XR_MESSAGES(X)
#undef X
	};
	uint32_t type = m->head.type;

	return type < XR_MSG_COUNT && m->head.length >= rows[type].least &&
	       (!m->nfds || rows[type].flags & XR_TAKES_FDS);
}

void serve(struct client *c, const struct message *m)
{
	if (!well_formed(m)) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	switch (m->head.type) {
	case XR_MSG_HELLO:
		return hello(c, m);
	case XR_MSG_QUERY_DEVICE:
		return query_device(c, m);
	case XR_MSG_QUERY_PORT:
		return query_port(c, m);
	case XR_MSG_SHOW:
		return show(c, m);
	case XR_MSG_QUERY_GIDS:
		return query_gids(c, m);
	case XR_MSG_ALLOC_PD:
		return simple(c, m, PD);
	case XR_MSG_DEALLOC_PD:
		return destroy(c, m, PD);
	case XR_MSG_REG_MR:
	case XR_MSG_REREG_MR:
		return reg_mr(c, m);
	case XR_MSG_DEREG_MR:
		return destroy(c, m, MR);
	case XR_MSG_RESERVED_LKEY:
		return reserved_lkey(c, m);
	case XR_MSG_ALLOC_FAST_MR:
		return alloc_fast_mr(c, m);
	case XR_MSG_ALLOC_INTEGRITY_MR:
		return alloc_integrity_mr(c, m);
	case XR_MSG_ALLOC_MW:
		return alloc_mw(c, m);
	case XR_MSG_DEALLOC_MW:
		return destroy(c, m, MW);
	case XR_MSG_CREATE_CHANNEL:
		return create_channel(c, m);
	case XR_MSG_DESTROY_CHANNEL:
		return destroy(c, m, CHANNEL);
	case XR_MSG_CREATE_CQ:
		return create_cq(c, m);
	case XR_MSG_RESIZE_CQ:
		return resize_cq(c, m);
	case XR_MSG_MODIFY_CQ:
		return modify_cq(c, m);
	case XR_MSG_CHECK_CQ:
		return check_cq(c, m);
	case XR_MSG_DESTROY_CQ:
		return destroy(c, m, CQ);
	case XR_MSG_CREATE_QP:
		return create_qp(c, m);
	case XR_MSG_OPEN_QP:
		return open_qp(c, m);
	case XR_MSG_OPEN_XRCD:
		return open_xrcd(c, m);
	case XR_MSG_CLOSE_XRCD:
		return destroy(c, m, XRCD);
	case XR_MSG_MODIFY_QP:
		return modify_qp(c, m);
	case XR_MSG_QUERY_QP:
		return query_qp(c, m);
	case XR_MSG_DESTROY_QP:
		return destroy(c, m, QP);
	case XR_MSG_CREATE_AH:
		return create_ah(c, m);
	case XR_MSG_RESOLVE_AH:
		return resolve_ah(c, m);
	case XR_MSG_ATTACH_MCAST:
		return attach_mcast(c, m);
	case XR_MSG_DETACH_MCAST:
		return detach_mcast(c, m);
	case XR_MSG_DESTROY_AH:
		return destroy(c, m, AH);
	case XR_MSG_CREATE_SRQ:
		return create_srq(c, m);
	case XR_MSG_MODIFY_SRQ:
		return modify_srq(c, m);
	case XR_MSG_QUERY_SRQ:
		return query_srq(c, m);
	case XR_MSG_DESTROY_SRQ:
		return destroy(c, m, SRQ);
	case XR_MSG_UMAD_REGISTER:
		return umad_register(c, m);
	case XR_MSG_UMAD_UNREGISTER:
		return umad_unregister(c, m);
	case XR_MSG_UMAD_SEND:
		return umad_send(c, m);
	default:
		reply(c, m, -EOPNOTSUPP, NULL, 0);
	}
}
