// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "hostile.h"

#include "../lib/fds.h"

/* ---- random numbers ------------------------------------------------------------------------- */

uint64_t rnd_state;

/* splitmix64 */
uint64_t rnd(void)
{
	uint64_t z = rnd_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void randomize(void *to, size_t len)
{
	uint8_t *p = to;

	while (len--)
		*p++ = (uint8_t)rnd();
}

/* Returns a socket whose receive queue holds a reference to the socket itself. */
static int socket_with_itself(void)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	attach_fds(&msg, control, &pair[1], 1);
	sendmsg(pair[0], &msg, MSG_DONTWAIT);
	close(pair[0]);
	return pair[1];
}

static int sized_memfd(unsigned seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fd;
	(void)!ftruncate(fd, (off_t)below(1 << 20));
	fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

static int one_end_of_pipe(void)
{
	int fds[2];

	if (pipe(fds))
		return -1;
	close(fds[below(2)]);
	return fcntl(fds[0], F_GETFD) < 0 ? fds[1] : fds[0];
}

int any_fd(void)
{
	switch (below(14)) {
	case 0:
		return sized_memfd(0);
	case 1:
		return sized_memfd(F_SEAL_SHRINK);
	case 2:
		return sized_memfd(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	case 3:
		return one_end_of_pipe();
	case 4:
		return socket_with_itself();
	case 5:
		return eventfd(0, 0);
	case 6:
		return epoll_create1(0);
	case 7:
		return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	case 8:
		return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	case 9:
		return open("/proc/1/status", O_RDONLY | O_CLOEXEC);
	case 10:
		return open("/", O_PATH | O_CLOEXEC);
	case 11:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 12:
		return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	default:
		return conn_connect();
	}
}

/* ---- a connection -------------------------------------------------------------------- */

const char *daemon_path;

int conn_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval tv = { .tv_sec = 1 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	strncpy(sun.sun_path, daemon_path, sizeof(sun.sun_path) - 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (!connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		return fd;
	close(fd);
	return -1;
}

bool conn_send(struct conn *c, const void *data, size_t len, int *fds, uint32_t nfds)
{
	char control[CMSG_SPACE(2 * XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	attach_fds(&msg, control, fds, nfds);
	n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (nfds)
		close(fds[--nfds]);
	return n >= 0 || errno == EAGAIN;
}

static void drop_fds(struct conn *c)
{
	while (c->got_fds)
		close(c->got_fd[--c->got_fds]);
}

int conn_reply(struct conn *c, void *rep, size_t room)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct xr_msg head = { 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { rep, room } };
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = 2,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };

	drop_fds(c);
	if (recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(head))
		return 1;
	c->got_fds = (uint32_t)received_fds(&msg, c->got_fd);
	return head.status;
}

int conn_call(struct conn *c, uint32_t type, const void *req, size_t len, int *fds, uint32_t nfds,
	      void *rep, size_t room)
{
	static uint8_t data[XR_MSG_MAX];
	struct xr_msg head = { .type = type, .seq = ++c->seq, .length = (uint32_t)len };

	memcpy(data, &head, sizeof(head));
	if (len)
		memcpy(data + sizeof(head), req, len);
	if (!conn_send(c, data, sizeof(head) + len, fds, nfds))
		return 1;
	return conn_reply(c, rep, room);
}

/*
 * Returns the address of a piece of shared memory, or NULL. If its chunk is new, the descriptor
 * number @nth of the reply is mapped.
 */
static void *map_piece(struct conn *c, const struct xr_shm_ref *ref, uint32_t nth)
{
	struct chunk *chunk = &c->chunk[ref->chunk % MAX_CHUNKS];

	if (!ref->length || ref->chunk >= MAX_CHUNKS)
		return NULL;
	if (ref->new_chunk && nth < c->got_fds) {
		chunk->fd = dup(c->got_fd[nth]);
		chunk->size = ref->chunk_size;
		chunk->base = mmap(NULL, chunk->size, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->fd,
				   0);
	}
	if (!chunk->base || chunk->base == MAP_FAILED)
		return NULL;
	return chunk->base + ref->offset;
}

bool conn_open(struct conn *c)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION };
	struct xr_hello_rep rep = { 0 };

	memset(c, 0, sizeof(*c));
	c->fd = conn_connect();
	if (c->fd < 0)
		return false;
	if (conn_call(c, XR_MSG_HELLO, &req, sizeof(req), NULL, 0, &rep, sizeof(rep)))
		return false;
	c->workers = rep.workers;
	c->eventfd = c->got_fds > 1 ? dup(c->got_fd[1]) : -1;
	c->doorbell = map_piece(c, &rep.doorbells, 1 + rep.workers);
	return true;
}

void conn_close(struct conn *c)
{
	drop_fds(c);
	close(c->fd);
	close(c->eventfd);
	for (unsigned i = 0; i < MAX_CHUNKS; i++) {
		if (!c->chunk[i].base || c->chunk[i].base == MAP_FAILED)
			continue;
		munmap(c->chunk[i].base, c->chunk[i].size);
		close(c->chunk[i].fd);
	}
}

/* ---- objects -------------------------------------------------------------------------- */

uint32_t make_pd(struct conn *c)
{
	struct xr_handle_rep rep = { 0 };

	conn_call(c, XR_MSG_ALLOC_PD, NULL, 0, NULL, 0, &rep, sizeof(rep));
	return rep.handle;
}

uint32_t make_cq(struct conn *c, uint32_t depth, struct xr_queue **ring)
{
	struct xr_create_cq_req req = { .depth = depth, .cookie = rnd() };
	struct xr_create_cq_rep rep = { 0 };

	*ring = NULL;
	if (conn_call(c, XR_MSG_CREATE_CQ, &req, sizeof(req), NULL, 0, &rep, sizeof(rep)))
		return 0;
	*ring = map_piece(c, &rep.ring, 0);
	return rep.handle;
}

bool make_srq(struct conn *c, uint32_t pd, struct srq *srq)
{
	struct xr_create_srq_req req = {
		.pd = pd,
		.max_wr = QP_WRS,
		.max_sge = QP_SGES,
		.cookie = rnd(),
	};
	struct xr_create_srq_rep rep = { 0 };

	memset(srq, 0, sizeof(*srq));
	if (conn_call(c, XR_MSG_CREATE_SRQ, &req, sizeof(req), NULL, 0, &rep, sizeof(rep)))
		return false;
	srq->handle = rep.handle;
	srq->ring = map_piece(c, &rep.ring, 0);
	srq->size = (uint32_t)rep.ring.length;
	srq->stride = xr_recv_stride(rep.max_sge);
	return srq->ring;
}

bool make_qp(struct conn *c, uint32_t pd, uint32_t cq, const struct srq *srq, struct qp *qp)
{
	struct xr_create_qp_req req = {
		.type = XR_QPT_RC,
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq ? srq->handle : 0,
		.max_send_wr = QP_WRS,
		.max_recv_wr = QP_WRS,
		.max_send_sge = QP_SGES,
		.max_recv_sge = QP_SGES,
		.max_inline = 64,
		.cookie = rnd(),
	};
	struct xr_create_qp_rep rep = { 0 };

	memset(qp, 0, sizeof(*qp));
	if (conn_call(c, XR_MSG_CREATE_QP, &req, sizeof(req), NULL, 0, &rep, sizeof(rep)))
		return false;
	qp->handle = rep.handle;
	qp->qpn = rep.qpn;
	qp->slot = rep.slot;
	qp->sq = map_piece(c, &rep.sq, 0);
	qp->rq = map_piece(c, &rep.rq, rep.sq.new_chunk);
	qp->sq_stride = xr_send_stride(rep.max_send_sge, rep.max_inline);
	qp->rq_stride = xr_recv_stride(rep.max_recv_sge);
	qp->sq_size = (uint32_t)rep.sq.length;
	qp->rq_size = (uint32_t)rep.rq.length;
	if (srq) {
		qp->rq = srq->ring;
		qp->rq_stride = srq->stride;
		qp->rq_size = srq->size;
	}
	return qp->sq && qp->rq;
}

int send_mr(struct conn *c, const struct new_mr *mr, int fds[2], uint32_t *key)
{
	uint64_t addr = (uintptr_t)mr->addr;
	struct {
		struct xr_reg_mr_req head;
		struct xr_mr_segment segment[1];
	} req = {
		.head = { .pd = mr->pd,
			  .access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE,
			  .addr = addr,
			  .length = mr->length,
			  .iova = addr,
			  .flags = XR_REGF_PROC_FDS,
			  .segments = 1 },
		.segment = { { .kind = mr->shared ? XR_SEG_MAPPING : XR_SEG_PRIVATE,
			       .addr = addr,
			       .length = mr->length,
			       .map_start = mr->shared ? addr : 0,
			       .map_end = mr->shared ? addr + mr->length : 0 } },
	};
	struct xr_reg_mr_rep rep = { 0 };
	int status = conn_call(c, XR_MSG_REG_MR, &req, sizeof(req), fds, 2, &rep, sizeof(rep));

	*key = rep.lkey;
	return status;
}

uint32_t make_mr(struct conn *c, uint32_t pd, void *addr, uint64_t length, bool shared)
{
	struct new_mr mr = { .pd = pd, .addr = addr, .length = length, .shared = shared };
	uint32_t key = 0;
	int fds[2] = { open("/proc/self/mem", O_RDWR | O_CLOEXEC),
		       open("/proc/self/maps", O_RDONLY | O_CLOEXEC) };

	if (fds[0] < 0 || fds[1] < 0)
		return 0;
	send_mr(c, &mr, fds, &key);
	return key;
}

bool first_gid(struct conn *c, struct xr_addr *gid, uint32_t *index)
{
	static union {
		struct xr_query_gids_rep rep;
		uint8_t room[sizeof(struct xr_query_gids_rep) +
			     XR_GID_TABLE_LEN * sizeof(struct xr_gid_entry)];
	} answer;

	if (conn_call(c, XR_MSG_QUERY_GIDS, NULL, 0, NULL, 0, &answer, sizeof(answer)))
		return false;
	for (uint32_t i = 0; i < answer.rep.count && i < XR_GID_TABLE_LEN; i++) {
		const struct xr_gid_entry *e = &answer.rep.entry[i];

		if (!xr_gid_is_ipv4(&e->gid))
			continue;
		*gid = e->gid;
		*index = e->index;
		return true;
	}
	return false;
}

bool connect_qp(struct conn *c, const struct qp *qp, const struct xr_addr *gid, uint32_t gid_index,
		uint32_t dest_qpn)
{
	static const uint32_t masks[] = {
		[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[XR_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[XR_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	struct xr_modify_qp_req req = {
		.handle = qp->handle,
		.attr = {
			.port_num = 1, .path_mtu = 1 + below(5), .dest_qp_num = dest_qpn,
			.qp_access_flags = XR_ACCESS_REMOTE | XR_ACCESS_LOCAL_WRITE,
			.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
			.timeout = 8, .retry_cnt = below(8), .rnr_retry = below(8),
			.ah = { .dgid = *gid, .sgid_index = gid_index, .hop_limit = 64,
				.port_num = 1, .is_global = 1 },
		},
	};

	for (uint32_t state = XR_QPS_INIT; state <= XR_QPS_RTS; state++) {
		req.attr.qp_state = state;
		req.attr_mask = IBV_QP_STATE | masks[state];
		if (conn_call(c, XR_MSG_MODIFY_QP, &req, sizeof(req), NULL, 0, NULL, 0))
			return false;
	}
	return true;
}

void ring_doorbell(struct conn *c, const struct qp *qp)
{
	struct xr_doorbell *b = c->doorbell;
	uint64_t one = 1;

	if (!b)
		return;
	__atomic_fetch_or(&b->bits2[qp->slot / 64 % 4096], 1ull << qp->slot % 64, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&b->bits1[qp->slot / 4096 % 64], 1ull << (qp->slot / 64 % 64),
			  __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&b->bits0, 1ull << (qp->slot / 4096 % 64), __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&b->sleeping, __ATOMIC_SEQ_CST))
		(void)!write(c->eventfd, &one, sizeof(one));
}
