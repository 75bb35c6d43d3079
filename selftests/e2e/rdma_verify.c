/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Moves patterns between two programs over one RC queue pair after the other
 * and verifies every byte and every completion. An ordinary ibverbs program: it
 * knows nothing of xroce and runs on any device.
 *
 *   rdma_verify [options]            waits for the other side
 *   rdma_verify [options] HOST       the side that starts
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -m MTU   path MTU in bytes (1024)        -p PORT  TCP port for set-up (18516)
 *   -n N     rounds of each data test (20)   -s SEED  of patterns and sizes (1)
 *   -t NAME  run one test (may be repeated)  -l       list the tests
 *   -E       do not ask the passive side for asynchronous events (rdma_rxe raises none)
 *   -x TEXT  run this shell command at the passive side after each test
 *
 * Both sides run the same list in step; the active side (A) posts requests to
 * the passive one (B). Prints a line a test, exits 0 when all went well.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUF_SIZE (8u << 20)
#define GUARD 4096u		/* bytes before and after a target that must stay as they are */
#define DEPTH 64u
#define MAX_SGE 16
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC)
#define WAIT_SECONDS 30		/* as often as XR_SLOW says, on an emulated processor */

struct peer {			/* what the two sides tell each other before a test */
	uint32_t qpn, psn, rkey, reserved;
	uint64_t addr, length;
	union ibv_gid gid;
};

struct verify {
	const char *host, *dev_name, *hook;
	int gid_index, mtu, port, rounds, sock;
	uint8_t timeout, retry_cnt, rnr_retry;	/* of the next connection */
	bool no_events;
	uint64_t rng;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct peer me, peer;
	uint8_t *buf;		/* what work requests name */
	uint8_t *want;		/* what it must hold */
	const char *why;	/* first thing that was wrong */
	char text[256];
};

/* ---- small things ------------------------------------------------------------ */

static uint64_t rnd(struct verify *v)
{
	v->rng ^= v->rng << 13;
	v->rng ^= v->rng >> 7;
	v->rng ^= v->rng << 17;
	return v->rng;
}

__attribute__((format(printf, 2, 3))) static bool wrong(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	if (!v->why) {
		va_start(ap, fmt);
		vsnprintf(v->text, sizeof(v->text), fmt, ap);
		va_end(ap);
		v->why = v->text;
	}
	return false;
}

/* The same bytes on both sides for the same (seed, position). */
static void pattern(uint8_t *p, size_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (uint8_t)(x >> 24);
	}
}

static bool same(struct verify *v, const char *what)
{
	if (!memcmp(v->buf, v->want, BUF_SIZE))
		return true;
	for (size_t i = 0; i < BUF_SIZE; i++)
		if (v->buf[i] != v->want[i])
			return wrong(v, "%s: byte %zu is %02x, should be %02x", what, i, v->buf[i],
				     v->want[i]);
	return true;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int wait_seconds(void)
{
	const char *slow = getenv("XR_SLOW");

	return WAIT_SECONDS * (slow ? atoi(slow) : 1);
}

/* Local ACK timeout, 4.096 us * 2^n: 67 ms may pass there before a process has its turn */
static uint8_t ack_timeout(void)
{
	return getenv("XR_SLOW") ? 18 : 14;
}

/* ---- the side channel -------------------------------------------------------------- */

static bool xfer(struct verify *v, void *out, const void *in, size_t len)
{
	if (send(v->sock, in, len, MSG_NOSIGNAL) != (ssize_t)len ||
	    recv(v->sock, out, len, MSG_WAITALL) != (ssize_t)len)
		return wrong(v, "the other side has gone");
	return true;
}

/* Both sides come here before either goes on. */
static bool barrier(struct verify *v)
{
	char byte = 1, other;

	return xfer(v, &other, &byte, 1);
}

static int tcp_connect(const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	char service[16];
	int fd = -1;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &list))
		return -1;
	for (int i = 0; i < 100 && fd < 0; i++) {
		fd = socket(list->ai_family, SOCK_STREAM, 0);
		if (!connect(fd, list->ai_addr, list->ai_addrlen))
			break;
		close(fd);
		fd = -1;
		usleep(100000);
	}
	freeaddrinfo(list);
	return fd;
}

static int tcp_accept(int port)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int s = socket(AF_INET6, SOCK_STREAM, 0), one = 1, fd = -1;
	struct pollfd pfd = { .fd = s, .events = POLLIN };

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(s, (void *)&sa, sizeof(sa)) && !listen(s, 1) &&
	    poll(&pfd, 1, wait_seconds() * 1000) == 1)
		fd = accept(s, NULL, NULL);
	close(s);
	return fd;
}

/* ---- verbs --------------------------------------------------------------------------- */

static bool open_device(struct verify *v)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (v->dev_name && strcmp(v->dev_name, ibv_get_device_name(list[i])))
			continue;
		v->ctx = ibv_open_device(list[i]);
		break;
	}
	if (list)
		ibv_free_device_list(list);
	if (!v->ctx)
		return wrong(v, "cannot open device %s", v->dev_name ? v->dev_name : "(first)");
	v->pd = ibv_alloc_pd(v->ctx);
	v->cq = ibv_create_cq(v->ctx, 4 * DEPTH, NULL, NULL, 0);
	v->buf = mmap(NULL, BUF_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	v->want = malloc(BUF_SIZE);
	if (!v->pd || !v->cq || v->buf == MAP_FAILED || !v->want)
		return wrong(v, "set-up: %s", strerror(errno));
	if (ibv_query_gid(v->ctx, 1, v->gid_index, &v->me.gid))
		return wrong(v, "no GID with index %d", v->gid_index);
	return true;
}

static bool to_rtr(struct verify *v)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = v->mtu >= 4096 ? IBV_MTU_4096 : v->mtu >= 2048 ? IBV_MTU_2048 :
			    v->mtu >= 1024 ? IBV_MTU_1024 : v->mtu >= 512 ? IBV_MTU_512 :
									    IBV_MTU_256,
		.dest_qp_num = v->peer.qpn,
		.rq_psn = v->peer.psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = v->peer.gid, .hop_limit = 64,
				      .sgid_index = (uint8_t)v->gid_index } },
	};

	return !ibv_modify_qp(v->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER) || wrong(v, "to RTR: %s", strerror(errno));
}

static bool to_rts(struct verify *v)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = v->timeout,
				 .retry_cnt = v->retry_cnt, .rnr_retry = v->rnr_retry,
				 .sq_psn = v->me.psn, .max_rd_atomic = 8 };

	return !ibv_modify_qp(v->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) ||
	       wrong(v, "to RTS: %s", strerror(errno));
}

/* From RESET to RTS, on both sides */
static bool bring_up(struct verify *v)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				 .qp_access_flags = (unsigned int)ALL_ACCESS };

	if (ibv_modify_qp(v->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		return wrong(v, "to INIT: %s", strerror(errno));
	v->me.qpn = v->qp->qp_num;
	v->me.psn = (uint32_t)rnd(v) & 0xffffff;
	v->me.rkey = v->mr->rkey;
	v->me.addr = (uintptr_t)v->buf;
	v->me.length = BUF_SIZE;
	return xfer(v, &v->peer, &v->me, sizeof(v->me)) && to_rtr(v) && to_rts(v) && barrier(v);
}

/* A fresh QP and region on each side; access: of the region and of the QP. */
static bool connect_qp(struct verify *v, int access)
{
	struct ibv_qp_init_attr init = {
		.send_cq = v->cq, .recv_cq = v->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 0,
		.cap = { DEPTH, DEPTH, MAX_SGE, MAX_SGE, 128 },
	};

	v->mr = ibv_reg_mr(v->pd, v->buf, BUF_SIZE, access);
	v->qp = ibv_create_qp(v->pd, &init);
	if (!v->mr || !v->qp)
		return wrong(v, "%s: %s", v->mr ? "QP" : "region", strerror(errno));
	return bring_up(v);
}

static void disconnect_qp(struct verify *v)
{
	if (v->qp)
		ibv_destroy_qp(v->qp);
	if (v->mr)
		ibv_dereg_mr(v->mr);
	v->qp = NULL;
	v->mr = NULL;
}

static bool next_wc(struct verify *v, struct ibv_wc *wc)
{
	double end = now() + wait_seconds();
	int n;

	do {
		n = ibv_poll_cq(v->cq, 1, wc);
		if (n == 1)
			return true;
	} while (n == 0 && now() < end);
	return wrong(v, n ? "ibv_poll_cq failed" : "no completion within %d s", wait_seconds());
}

static bool good_wc(struct verify *v, struct ibv_wc *wc, enum ibv_wc_opcode opcode)
{
	if (!next_wc(v, wc))
		return false;
	if (wc->status)
		return wrong(v, "completion: %s (vendor 0x%x)", ibv_wc_status_str(wc->status),
			     wc->vendor_err);
	return wc->opcode == opcode || wrong(v, "completion's opcode is %d, not %d", wc->opcode,
					     opcode);
}

static bool post(struct verify *v, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(v->qp, wr, &bad);

	return !err || wrong(v, "ibv_post_send: %s", strerror(err));
}

static bool post_recv(struct verify *v, struct ibv_sge *sge, int n, uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;
	int err = ibv_post_recv(v->qp, &wr, &bad);

	return !err || wrong(v, "ibv_post_recv: %s", strerror(err));
}

/* ---- tests of data ---------------------------------------------------------------------- */

/* Sizes at and around everything that has an edge */
static uint32_t pick_size(struct verify *v, uint32_t max)
{
	uint32_t mtu = (uint32_t)v->mtu, n;

	switch (rnd(v) % 8) {
	case 0: n = (uint32_t)(rnd(v) % 16); break;
	case 1: n = mtu - 1 + (uint32_t)(rnd(v) % 3); break;
	case 2: n = (uint32_t)(rnd(v) % 40) * mtu; break;
	case 3: n = (uint32_t)(rnd(v) % 40) * mtu + 1; break;
	case 4: n = (uint32_t)(rnd(v) % max); break;
	default: n = (uint32_t)(rnd(v) % 65536); break;
	}
	return n > max ? max : n;
}

struct plan {			/* one transfer, the same on both sides */
	enum ibv_wr_opcode opcode;
	uint32_t len, sges, local, remote;
	uint64_t seed;
	uint32_t imm;
	bool is_inline, solicited;
};

static struct plan make_plan(struct verify *v, enum ibv_wr_opcode opcode)
{
	struct plan p = { .opcode = opcode };

	p.len = pick_size(v, BUF_SIZE / 2 - 2 * GUARD);
	p.seed = rnd(v);
	p.imm = (uint32_t)rnd(v);
	p.sges = 1 + (uint32_t)(rnd(v) % MAX_SGE);
	p.is_inline = opcode != IBV_WR_RDMA_READ && p.len <= 128 && rnd(v) % 2;
	p.local = GUARD + (uint32_t)(rnd(v) % GUARD);
	p.remote = GUARD + (uint32_t)(rnd(v) % GUARD);
	if (p.local + p.len > BUF_SIZE - GUARD || p.remote + p.len > BUF_SIZE - GUARD)
		p.local = p.remote = GUARD;
	return p;
}

/* [at, at + len) as up to n pieces, some of them empty */
static int split(struct verify *v, struct ibv_sge *sge, uint32_t n, uint32_t at, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len : len ? (uint32_t)(rnd(v) % (len + 1)) : 0;

		sge[i] = (struct ibv_sge){ (uintptr_t)v->buf + at, part, v->mr->lkey };
		at += part;
		len -= part;
	}
	return (int)n;
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

static bool active_transfer(struct verify *v, const struct plan *p)
{
	static const enum ibv_wc_opcode done[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	};
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .wr_id = p->seed, .opcode = p->opcode, .sg_list = sge };
	struct ibv_wc wc;

	if (p->opcode != IBV_WR_RDMA_READ)
		pattern(v->buf + p->local, p->len, p->seed);
	memcpy(v->want, v->buf, BUF_SIZE);
	if (p->opcode == IBV_WR_RDMA_READ)
		pattern(v->want + p->local, p->len, p->seed);
	wr.num_sge = split(v, sge, p->sges, p->local, p->len);
	wr.send_flags = IBV_SEND_SIGNALED | (p->is_inline ? (unsigned int)IBV_SEND_INLINE : 0);
	wr.imm_data = htonl(p->imm);
	wr.wr.rdma.remote_addr = v->peer.addr + p->remote;
	wr.wr.rdma.rkey = v->peer.rkey;
	if (!barrier(v) || !post(v, &wr) || !good_wc(v, &wc, done[p->opcode]))
		return false;
	if (wc.wr_id != p->seed)
		return wrong(v, "completion has another wr_id");
	return same(v, "active side") && barrier(v);
}

static bool passive_transfer(struct verify *v, const struct plan *p)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_wc wc;
	bool takes_receive = is_send(p->opcode) || has_imm(p->opcode);

	if (p->opcode == IBV_WR_RDMA_READ)
		pattern(v->buf + p->remote, p->len, p->seed);
	memcpy(v->want, v->buf, BUF_SIZE);
	if (p->opcode != IBV_WR_RDMA_READ)
		pattern(v->want + p->remote, p->len, p->seed);
	if (takes_receive &&
	    !post_recv(v, sge, split(v, sge, p->sges, p->remote, p->len), p->seed))
		return false;
	if (!barrier(v))
		return false;
	if (takes_receive) {
		if (!good_wc(v, &wc, is_send(p->opcode) ? IBV_WC_RECV :
							   IBV_WC_RECV_RDMA_WITH_IMM))
			return false;
		if (wc.byte_len != p->len)
			return wrong(v, "byte_len is %u, not %u", wc.byte_len, p->len);
		if (has_imm(p->opcode) &&
		    (!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != htonl(p->imm)))
			return wrong(v, "immediate data is wrong");
	}
	return barrier(v) && same(v, "passive side");
}

static bool run_transfers(struct verify *v, enum ibv_wr_opcode opcode, uint32_t fixed_len)
{
	for (int i = 0; i < v->rounds; i++) {
		struct plan p = make_plan(v, opcode);
		uint64_t rng = v->rng;	/* sides draw differently below: keep them in step */

		if (fixed_len != UINT32_MAX) {
			p.len = fixed_len;
			p.is_inline = p.is_inline && p.len <= 128;
		}
		if (!(v->host ? active_transfer(v, &p) : passive_transfer(v, &p)))
			return false;
		v->rng = rng;
	}
	return true;
}

static bool data_test(struct verify *v, enum ibv_wr_opcode opcode, uint32_t fixed_len)
{
	pattern(v->buf, BUF_SIZE, v->host ? 1 : 2);
	return connect_qp(v, ALL_ACCESS) && run_transfers(v, opcode, fixed_len);
}

static bool test_write(struct verify *v) { return data_test(v, IBV_WR_RDMA_WRITE, UINT32_MAX); }
static bool test_write_imm(struct verify *v)
{
	return data_test(v, IBV_WR_RDMA_WRITE_WITH_IMM, UINT32_MAX);
}
static bool test_send(struct verify *v) { return data_test(v, IBV_WR_SEND, UINT32_MAX); }
static bool test_send_imm(struct verify *v)
{
	return data_test(v, IBV_WR_SEND_WITH_IMM, UINT32_MAX);
}
static bool test_read(struct verify *v) { return data_test(v, IBV_WR_RDMA_READ, UINT32_MAX); }

static bool test_zero(struct verify *v)
{
	return data_test(v, IBV_WR_SEND, 0) && run_transfers(v, IBV_WR_RDMA_WRITE, 0) &&
	       run_transfers(v, IBV_WR_RDMA_READ, 0) &&
	       run_transfers(v, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
}

static bool test_mixed(struct verify *v)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	int rounds = v->rounds;
	bool ok = true;

	pattern(v->buf, BUF_SIZE, v->host ? 1 : 2);
	if (!connect_qp(v, ALL_ACCESS))
		return false;
	v->rounds = 1;
	for (int i = 0; i < rounds && ok; i++)
		ok = run_transfers(v, ops[rnd(v) % 4], UINT32_MAX);
	v->rounds = rounds;
	return ok;
}

/* A whole queue of work requests at once, unsignalled but for the last */
static bool test_pipeline(struct verify *v)
{
	const uint32_t len = 3001;
	struct ibv_sge sge[DEPTH];
	struct ibv_send_wr wr[DEPTH];
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	memset(v->buf, 0, BUF_SIZE);
	pattern(v->host ? v->buf : v->want, DEPTH * len, 77);
	if (!barrier(v))
		return false;
	for (uint32_t i = 0; v->host && i < DEPTH; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)v->buf + i * len, len, v->mr->lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .next = i + 1 < DEPTH ? &wr[i + 1] : NULL, .sg_list = &sge[i],
			.num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < DEPTH ? 0 : (unsigned int)IBV_SEND_SIGNALED,
			.wr.rdma = { v->peer.addr + i * len, v->peer.rkey },
		};
	}
	if (v->host && (!post(v, wr) || !good_wc(v, &wc, IBV_WC_RDMA_WRITE)))
		return false;
	if (!barrier(v))
		return false;
	if (!v->host && memcmp(v->buf, v->want, DEPTH * len))
		return wrong(v, "data of %u queued writes differs", DEPTH);
	return true;
}

static bool atomic(struct verify *v, enum ibv_wr_opcode opcode, uint64_t a, uint64_t b,
		   uint64_t *old)
{
	struct ibv_sge sge = { (uintptr_t)v->buf + GUARD, 8, v->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { v->peer.addr + 64, a, b, v->peer.rkey },
	};
	struct ibv_wc wc;

	if (!post(v, &wr) || !good_wc(v, &wc, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
					      IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD))
		return false;
	memcpy(old, v->buf + GUARD, 8);
	return true;
}

static bool test_atomic(struct verify *v)
{
	uint64_t value = 1000, old = 0;

	memcpy(v->buf + 64, &value, 8);
	if (!connect_qp(v, ALL_ACCESS))
		return false;
	for (int i = 0; v->host && i < 5 * v->rounds; i++) {
		uint64_t add = rnd(v);

		if (!atomic(v, IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0, &old))
			return false;
		if (old != value)
			return wrong(v, "fetch and add returned %" PRIu64 ", not %" PRIu64, old, value);
		value += add;
		if (!atomic(v, IBV_WR_ATOMIC_CMP_AND_SWP, i % 2 ? value : value + 1, 42, &old))
			return false;
		if (old != value)
			return wrong(v, "compare and swap returned the wrong value");
		if (i % 2)
			value = 42;
	}
	v->me.addr = value;	/* what the passive side must hold in the end */
	if (!xfer(v, &v->peer, &v->me, sizeof(v->me)))
		return false;
	if (!v->host && memcmp(v->buf + 64, &v->peer.addr, 8))
		return wrong(v, "the value in memory is not what atomics left");
	return true;
}

/* Each power of two up to the whole region, the operations in turn; the whole region by each */
static bool test_sizes(struct verify *v)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						  IBV_WR_RDMA_READ };
	uint32_t len = 1;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	pattern(v->buf, BUF_SIZE, v->host ? 1 : 2);
	for (uint32_t i = 0; i < 26; i++) {
		struct plan p = { .opcode = ops[i % 3], .len = len, .sges = 1 + i % MAX_SGE,
				  .seed = 1000 + i };
		uint64_t rng = v->rng;

		if (!(v->host ? active_transfer(v, &p) : passive_transfer(v, &p)))
			return false;
		v->rng = rng;
		if (len < BUF_SIZE)
			len *= 2;
	}
	return true;
}

/* ---- tests of connections ------------------------------------------------------------------- */

/* One QP connected again after RESET, and others after it; data across each */
static bool test_reuse(struct verify *v)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int rounds = v->rounds;
	bool ok = true;

	pattern(v->buf, BUF_SIZE, v->host ? 1 : 2);
	v->rounds = 1;
	for (int i = 0; i < 12 && ok; i++) {
		if (i % 4 == 0) {
			disconnect_qp(v);
			ok = connect_qp(v, ALL_ACCESS);
		} else {
			ok = !ibv_modify_qp(v->qp, &reset, IBV_QP_STATE) && bring_up(v);
		}
		ok = ok && run_transfers(v, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 20000);
	}
	v->rounds = rounds;
	return ok || wrong(v, "to RESET: %s", strerror(errno));
}

/* A SEND waits for its receive, by RNR NAKs. */
static bool test_rnr(struct verify *v)
{
	const uint32_t len = 5000;
	struct ibv_sge sge = { (uintptr_t)v->buf + GUARD, len, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey;
	for (int i = 0; i < 3; i++) {
		pattern(v->host ? v->buf + GUARD : v->want, len, 50 + (uint64_t)i);
		if (!barrier(v))
			return false;
		usleep(v->host ? 0 : 50000);
		if (!(v->host ? post(v, &wr) : post_recv(v, &sge, 1, 0)) ||
		    !good_wc(v, &wc, v->host ? IBV_WC_SEND : IBV_WC_RECV))
			return false;
		if (!v->host && memcmp(v->buf + GUARD, v->want, len))
			return wrong(v, "data differs");
	}
	return barrier(v);
}

/* The active side sends what cannot succeed; wants this status, and the rest flushed. */
static bool fails_with(struct verify *v, enum ibv_wc_status status)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, 64, v->mr->lkey };
	struct ibv_send_wr behind = { .wr_id = 8, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED, .next = &behind };
	struct ibv_wc wc;

	if (!v->host)
		return true;
	if (!post(v, &wr) || !next_wc(v, &wc))
		return false;
	if (wc.wr_id != 7 || wc.status != status)
		return wrong(v, "completion: %s, expected %s", ibv_wc_status_str(wc.status),
			     ibv_wc_status_str(status));
	if (!next_wc(v, &wc))
		return false;
	return wc.status == IBV_WC_WR_FLUSH_ERR ||
	       wrong(v, "what was queued behind: %s", ibv_wc_status_str(wc.status));
}

static bool test_rnr_limit(struct verify *v)
{
	bool ok;

	v->rnr_retry = 1;
	ok = connect_qp(v, ALL_ACCESS) && fails_with(v, IBV_WC_RNR_RETRY_EXC_ERR) && barrier(v);
	v->rnr_retry = 7;
	return ok;
}

static bool test_gone(struct verify *v)
{
	bool ok;

	v->timeout = 12;
	v->retry_cnt = 2;
	ok = connect_qp(v, ALL_ACCESS);
	if (ok && !v->host) {
		ibv_destroy_qp(v->qp);
		v->qp = NULL;
	}
	ok = ok && barrier(v) && fails_with(v, IBV_WC_RETRY_EXC_ERR) && barrier(v);
	v->timeout = ack_timeout();
	v->retry_cnt = 7;
	return ok;
}

/* ---- tests of protection ------------------------------------------------------------------ */

struct refusal {
	enum ibv_wr_opcode opcode;
	int access;			/* of the passive side's region */
	int64_t offset;			/* of the remote address from the region's start */
	uint32_t len;
	uint32_t key_xor;		/* applied to the rkey */
	bool stale, other_pd;
	enum ibv_wc_status status;
	enum ibv_event_type event;
};

static bool wait_event(struct verify *v, enum ibv_event_type want)
{
	struct pollfd pfd = { .fd = v->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	enum ibv_event_type type;

	do {
		if (poll(&pfd, 1, wait_seconds() * 1000) != 1)
			return wrong(v, "no event %s", ibv_event_type_str(want));
		if (ibv_get_async_event(v->ctx, &ev))
			return wrong(v, "ibv_get_async_event failed");
		type = ev.event_type;
		ibv_ack_async_event(&ev);
	} while (type == IBV_EVENT_COMM_EST || type == IBV_EVENT_GID_CHANGE);
	return type == want || wrong(v, "event %s, not %s", ibv_event_type_str(type),
				     ibv_event_type_str(want));
}

static bool active_refused(struct verify *v, const struct refusal *r)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, r->len, v->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = r->opcode, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr behind = { .wr_id = 8, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = v->peer.addr + (uint64_t)r->offset;
	wr.wr.rdma.rkey = v->peer.rkey ^ r->key_xor;
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = v->peer.addr + (uint64_t)r->offset;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = v->peer.rkey ^ r->key_xor;
	}
	wr.next = &behind;
	if (!post(v, &wr) || !next_wc(v, &wc))
		return false;
	if (wc.wr_id != 7 || wc.status != r->status)
		return wrong(v, "completion %" PRIu64 ": %s, expected %s", wc.wr_id,
			     ibv_wc_status_str(wc.status), ibv_wc_status_str(r->status));
	if (!next_wc(v, &wc))
		return false;
	if (wc.wr_id != 8 || wc.status != IBV_WC_WR_FLUSH_ERR)
		return wrong(v, "what was queued behind: %s", ibv_wc_status_str(wc.status));
	return true;
}

static bool refuse(struct verify *v, const struct refusal *r)
{
	struct ibv_pd *pd = v->pd, *other = NULL;
	struct ibv_mr *extra = NULL;
	bool ok;

	pattern(v->buf, BUF_SIZE, v->host ? 3 : 4);
	if (!connect_qp(v, v->host ? ALL_ACCESS : r->access))
		return false;
	if (!v->host && r->other_pd) {
		other = ibv_alloc_pd(v->ctx);
		extra = ibv_reg_mr(other, v->buf, BUF_SIZE, ALL_ACCESS);
		v->me.rkey = extra ? extra->rkey : 0;
	}
	if (!v->host && r->stale) {
		extra = ibv_reg_mr(pd, v->buf, BUF_SIZE, ALL_ACCESS);
		v->me.rkey = extra ? extra->rkey : 0;
		if (extra)
			ibv_dereg_mr(extra);
		extra = NULL;
	}
	ok = xfer(v, &v->peer, &v->me, sizeof(v->me));
	memcpy(v->want, v->buf, BUF_SIZE);
	if (ok)
		ok = v->host ? active_refused(v, r) : v->no_events || wait_event(v, r->event);
	ok = ok && barrier(v) && same(v, "memory after a refused request");
	if (extra)
		ibv_dereg_mr(extra);
	if (other)
		ibv_dealloc_pd(other);
	return ok;
}

#define REFUSAL(name, op, bytes, rights, ...)                                                      \
	static bool test_##name(struct verify *v)                                                  \
	{                                                                                          \
		static const struct refusal r = { .opcode = op, .len = bytes, .access = rights,    \
						  .status = IBV_WC_REM_ACCESS_ERR,                 \
						  .event = IBV_EVENT_QP_ACCESS_ERR, __VA_ARGS__ }; \
		return refuse(v, &r);                                                              \
	}
#define NO_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define ONLY_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

REFUSAL(wrong_index, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .key_xor = 0x00ff0000)
REFUSAL(wrong_variant, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .key_xor = 0x01)
REFUSAL(stale_key, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .stale = true)
REFUSAL(other_pd, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .other_pd = true)
REFUSAL(one_below, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .offset = -1)
REFUSAL(one_above, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .offset = BUF_SIZE - 63)
REFUSAL(read_one_below, IBV_WR_RDMA_READ, 64, ALL_ACCESS, .offset = -1)
REFUSAL(read_one_above, IBV_WR_RDMA_READ, 64, ALL_ACCESS, .offset = BUF_SIZE - 63)
REFUSAL(long_one_above, IBV_WR_RDMA_WRITE, 1 << 20, ALL_ACCESS, .offset = BUF_SIZE - (1 << 20) + 1)
REFUSAL(no_read, IBV_WR_RDMA_READ, 64, ONLY_WRITE, .offset = 0)
REFUSAL(no_write, IBV_WR_RDMA_WRITE, 64, NO_WRITE, .offset = 0)
REFUSAL(no_atomic, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NO_WRITE, .offset = 0)

/* A local key that is not one: the request never leaves. */
static bool test_wrong_lkey(struct verify *v)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, 64, 0 };
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge,
				  .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey ^ 0x1;
	wr.wr.rdma.remote_addr = v->peer.addr;
	wr.wr.rdma.rkey = v->peer.rkey;
	if (v->host) {
		if (!post(v, &wr) || !next_wc(v, &wc))
			return false;
		if (wc.status != IBV_WC_LOC_PROT_ERR)
			return wrong(v, "completion: %s", ibv_wc_status_str(wc.status));
	}
	return barrier(v);
}

/* A SEND longer than the receive that it meets */
static bool test_short_receive(struct verify *v)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, v->host ? 100 : 99, 0 };
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	enum ibv_wc_status want = v->host ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_LEN_ERR;
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey;
	if (!v->host && !post_recv(v, &sge, 1, 10))
		return false;
	if (!barrier(v) || (v->host && !post(v, &wr)) || !next_wc(v, &wc))
		return false;
	return wc.status == want || wrong(v, "completion: %s", ibv_wc_status_str(wc.status));
}

/* Seconds that a WRITE of `len` bytes takes; below 0: it failed */
static double timed_write(struct verify *v, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, len, v->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { v->peer.addr, v->peer.rkey } };
	struct ibv_wc wc;
	double start = now();

	return post(v, &wr) && good_wc(v, &wc, IBV_WC_RDMA_WRITE) ? now() - start : -1;
}

/* 100 Mbit/s are 80 ns a byte, and nothing but a burst may go faster; headers come on top. */
static bool test_rate(struct verify *v)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 100000, .max_burst_sz = 20000 };
	const uint32_t len = 1 << 20;
	struct ibv_device_attr_ex dev;
	double took;
	int err;

	if (!connect_qp(v, ALL_ACCESS) || !v->host)
		return barrier(v);
	if (ibv_query_device_ex(v->ctx, NULL, &dev) ||
	    !(dev.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC) ||
	    dev.packet_pacing_caps.qp_rate_limit_max < limit.rate_limit)
		return wrong(v, "the device says that it has no rate limits");
	err = ibv_modify_qp_rate_limit(v->qp, &limit);
	if (err)
		return wrong(v, "ibv_modify_qp_rate_limit: %s", strerror(err));
	took = timed_write(v, len);
	if (took >= 0 && took < (len - limit.max_burst_sz) * 80e-9)
		return wrong(v, "%.3f s is faster than the limit", took);
	limit.rate_limit = 0;
	if (ibv_modify_qp_rate_limit(v->qp, &limit) || timed_write(v, len) < 0)
		return wrong(v, "after the limit was lifted");
	return barrier(v);
}

/* ---- the list ------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	bool (*run)(struct verify *v);
	const char *text;
} tests[] = {
	{ "write", test_write, "RDMA WRITE" },
	{ "write-imm", test_write_imm, "RDMA WRITE with immediate" },
	{ "send", test_send, "SEND" },
	{ "send-imm", test_send_imm, "SEND with immediate" },
	{ "read", test_read, "RDMA READ" },
	{ "zero", test_zero, "operations without a byte" },
	{ "mixed", test_mixed, "all of them in turn" },
	{ "pipeline", test_pipeline, "a full queue of unsignalled writes" },
	{ "atomic", test_atomic, "fetch and add, compare and swap" },
	{ "sizes", test_sizes, "1 byte to 8 MiB" },
	{ "reuse", test_reuse, "QPs connected again after RESET, and new ones" },
	{ "rnr", test_rnr, "SEND that waits for its receive" },
	{ "rnr-limit", test_rnr_limit, "SEND that waits no longer" },
	{ "gone", test_gone, "SEND to a QP that has been destroyed" },
	{ "wrong-index", test_wrong_index, "R_Key with an index nobody has" },
	{ "wrong-variant", test_wrong_variant, "R_Key with another variant" },
	{ "stale-key", test_stale_key, "R_Key of a region that was deregistered" },
	{ "other-pd", test_other_pd, "R_Key of another protection domain" },
	{ "one-below", test_one_below, "WRITE from one byte below the region" },
	{ "one-above", test_one_above, "WRITE to one byte above the region" },
	{ "long-one-above", test_long_one_above, "long WRITE that ends one byte above" },
	{ "read-one-below", test_read_one_below, "READ from one byte below the region" },
	{ "read-one-above", test_read_one_above, "READ to one byte above the region" },
	{ "no-read", test_no_read, "READ of a write-only region" },
	{ "no-write", test_no_write, "WRITE to a read-only region" },
	{ "no-atomic", test_no_atomic, "atomic on a region that allows none" },
	{ "wrong-lkey", test_wrong_lkey, "L_Key that is not one" },
	{ "short-receive", test_short_receive, "SEND longer than the receive" },
	{ "rate", test_rate, "a rate limit of the queue pair" },
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static bool run_test(struct verify *v, size_t i)
{
	uint64_t rng = v->rng;
	bool ok;

	v->why = NULL;
	ok = tests[i].run(v) && !v->why;
	disconnect_qp(v);
	v->rng = rng + 0x9e3779b97f4a7c15ull;	/* the same on both sides, whatever they drew */
	if (v->hook && !v->host && system(v->hook))
		ok = wrong(v, "%s failed", v->hook);
	printf("%s %s: %s%s%s\n", ok ? "ok" : "FAILED", tests[i].name, tests[i].text,
	       ok ? "" : ": ", ok ? "" : v->why);
	fflush(stdout);
	return ok;
}

static int usage(void)
{
	fprintf(stderr, "usage: rdma_verify [-d DEV] [-g GID-INDEX] [-m MTU] [-n ROUNDS] [-p PORT]\n"
			"                   [-s SEED] [-t TEST]... [-E] [-x COMMAND] [HOST]\n"
			"       rdma_verify -l\n");
	return 2;
}

static int list_tests(void)
{
	for (size_t i = 0; i < TESTS; i++)
		printf("%-16s %s\n", tests[i].name, tests[i].text);
	return 0;
}

static bool choose(bool *chosen, const char *name)
{
	for (size_t i = 0; i < TESTS; i++)
		if (!strcmp(tests[i].name, name))
			return chosen[i] = true;
	fprintf(stderr, "rdma_verify: no test is named '%s'\n", name);
	return false;
}

int main(int argc, char **argv)
{
	struct verify v = { .gid_index = 1, .mtu = 1024, .port = 18516, .rounds = 20, .rng = 1,
			    .timeout = ack_timeout(), .retry_cnt = 7, .rnr_retry = 7 };
	bool chosen[TESTS] = { false }, some = false, ok = true;
	int c;

	while ((c = getopt(argc, argv, "d:g:m:n:p:s:t:x:lE")) != -1) {
		switch (c) {
		case 'd': v.dev_name = optarg; break;
		case 'g': v.gid_index = atoi(optarg); break;
		case 'm': v.mtu = atoi(optarg); break;
		case 'n': v.rounds = atoi(optarg); break;
		case 'p': v.port = atoi(optarg); break;
		case 's': v.rng = strtoull(optarg, NULL, 0) * 2 + 1; break;
		case 'E': v.no_events = true; break;
		case 'x': v.hook = optarg; break;
		case 'l': return list_tests();
		case 't':
			if (!choose(chosen, optarg))
				return 2;
			some = true;
			break;
		default: return usage();
		}
	}
	v.host = argv[optind];
	if (!open_device(&v)) {
		fprintf(stderr, "rdma_verify: %s\n", v.why);
		return 1;
	}
	v.sock = v.host ? tcp_connect(v.host, v.port) : tcp_accept(v.port);
	if (v.sock < 0) {
		fprintf(stderr, "rdma_verify: no connection to the other side\n");
		return 1;
	}
	for (size_t i = 0; i < TESTS && ok; i++)
		if (!some || chosen[i])
			ok = run_test(&v, i);
	close(v.sock);
	return ok ? 0 : 1;
}
