// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hostile SOCKET SECONDS SEED [USER]
 *
 * Starts hostile clients of a daemon one after the other, as USER if given. Each is a process that
 * misbehaves in one of the ways below and ends by itself or is killed at a random moment. Exit
 * status 0 if the daemon always accepts connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#include "../lib/clock.h"

#define PAGE 4096u
#define MEMORY (64 * PAGE)

/* ---- messages ------------------------------------------------------------------------- */

static uint32_t any_fds(int *fds, uint32_t max)
{
	uint32_t n = below(max + 1), got = 0;

	while (n--) {
		fds[got] = any_fd();
		got += fds[got] >= 0;
	}
	return got;
}

/*
 * Fills a message body with random bytes and many small numbers, as valid handles and enums are
 * small.
 */
static void any_body(uint8_t *body, size_t len)
{
	randomize(body, len);
	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t small = below(5);

		if (below(3))
			memcpy(body + i, &small, 4);
	}
}

/* Sends random datagrams; most have a valid header. */
static void send_garbage(bool hello)
{
	static uint8_t data[XR_MSG_MAX + 4096];
	struct conn c = { .fd = -1, .eventfd = -1 };

	if (hello ? !conn_open(&c) : (c.fd = conn_connect()) < 0)
		return;
	for (int i = 0; i < 300; i++) {
		size_t len = one_in(10) ? below(sizeof(data)) : sizeof(struct xr_msg) + below(256);
		struct xr_msg head = { .type = below(XR_MSG_COUNT + 2), .seq = below(9) };
		int fds[XR_MSG_MAX_FDS];
		uint32_t nfds = one_in(3) ? any_fds(fds, one_in(8) ? XR_MSG_MAX_FDS : 3) : 0;

		head.length = (uint32_t)(len - sizeof(head));
		any_body(data, len);
		if (len >= sizeof(head) && !one_in(10))
			memcpy(data, &head, sizeof(head));
		if (!conn_send(&c, data, len, fds, nfds) ||
		    (!one_in(20) && conn_reply(&c, data, sizeof(data)) == 1))
			break;
	}
	conn_close(&c);
}

/* Sends requests and never reads a reply. */
static void never_read_replies(void)
{
	struct xr_create_cq_req req = { .depth = 16 };
	uint8_t data[sizeof(struct xr_msg) + sizeof(req)];
	struct xr_msg head = { .type = XR_MSG_CREATE_CQ, .length = sizeof(req) };
	struct conn c;

	if (!conn_open(&c))
		return;
	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), &req, sizeof(req));
	for (int i = 0; i < 2000; i++)
		if (send(c.fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		    errno != EAGAIN)
			break;
	conn_close(&c);
}

static void open_many(void)
{
	int fds[400], n = 0;

	while (n < 400 && (fds[n] = conn_connect()) >= 0)
		n++;
	usleep(below(50000));
	while (n)
		close(fds[--n]);
}

/* ---- objects -------------------------------------------------------------------------- */

/* Creates objects up to the limits and frees none. */
static void exhaust_limits(void)
{
	struct xr_queue *ring;
	struct conn c;
	uint32_t pd, cq, n;
	struct srq srq;
	struct qp qp;
	void *mem;

	if (!conn_open(&c))
		return;
	mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pd = make_pd(&c);
	cq = make_cq(&c, 1u << below(21), &ring);
	for (n = below(3000); n && pd; n--) {
		switch (below(5)) {
		case 0:
			pd = make_pd(&c);
			break;
		case 1:
			cq = make_cq(&c, 1u << below(14), &ring);
			break;
		case 2:
			make_qp(&c, pd, cq, NULL, &qp);
			break;
		case 3:
			make_mr(&c, pd, mem, PAGE * (1 + below(16)), false);
			break;
		case 4:
			make_srq(&c, pd, &srq);
			break;
		}
	}
	if (one_in(2))
		conn_close(&c);
}

/* ---- rings and memory ------------------------------------------------------------------ */

struct setup {
	struct conn c;
	struct xr_addr gid;
	uint32_t gid_index;
	struct qp qp[2];
	struct xr_queue *cq;
	uint8_t *mem;
	int mem_fd; /* of shared memory, or -1 for private memory */
	uint32_t key;
};

static void make_memory(struct setup *v, uint32_t pd)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	v->mem_fd = -1;
	if (one_in(2)) {
		v->mem_fd = memfd_create("hostile", MFD_CLOEXEC);
		(void)!ftruncate(v->mem_fd, MEMORY);
		flags = MAP_SHARED;
	}
	v->mem = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, flags, v->mem_fd, 0);
	v->key = make_mr(&v->c, pd, v->mem, MEMORY, v->mem_fd >= 0);
}

static bool connect_both(struct setup *v)
{
	return connect_qp(&v->c, &v->qp[0], &v->gid, v->gid_index, v->qp[1].qpn) &&
	       connect_qp(&v->c, &v->qp[1], &v->gid, v->gid_index, v->qp[0].qpn);
}

/*
 * Two QPs, sometimes with an SRQ, connected to each other by loopback or to peers that do not
 * exist.
 */
static bool make_setup(struct setup *v)
{
	struct srq srq, *shared = NULL;
	uint32_t pd, cq;

	if (!conn_open(&v->c) || !first_gid(&v->c, &v->gid, &v->gid_index))
		return false;
	pd = make_pd(&v->c);
	cq = make_cq(&v->c, CQ_ENTRIES, &v->cq);
	make_memory(v, pd);
	if (one_in(3) && make_srq(&v->c, pd, &srq))
		shared = &srq;
	if (!v->cq || !make_qp(&v->c, pd, cq, shared, &v->qp[0]) ||
	    !make_qp(&v->c, pd, cq, shared, &v->qp[1]))
		return false;
	/* the addresses of the two hosts differ in the last two bits */
	if (one_in(4))
		v->gid.raw[15] ^= 3;
	return connect_both(v);
}

static uint64_t any_address(const struct setup *v)
{
	uint64_t at = (uintptr_t)v->mem + below(MEMORY);

	return one_in(80) ? rnd() : at;
}

static uint32_t any_key(const struct setup *v)
{
	return one_in(80) ? v->key + below(1024) : v->key;
}

static void any_sges(const struct setup *v, struct xr_sge *sge)
{
	for (int i = 0; i < QP_SGES; i++)
		sge[i] = (struct xr_sge){ any_address(v), one_in(80) ? below(~0u) : below(PAGE),
					  any_key(v) };
}

/* Posts a send WQE that is mostly valid. */
static void post_send(const struct setup *v, const struct qp *qp)
{
	uint32_t at = qp->sq->producer & (QP_WRS - 1);
	struct xr_send_wqe *wqe = (void *)((uint8_t *)(qp->sq + 1) + (size_t)at * qp->sq_stride);

	*wqe = (struct xr_send_wqe){
		.wr_id = rnd(),
		.opcode = (uint8_t)below(8),
		.flags = (uint8_t)below(16),
		.num_sge = (uint16_t)(one_in(50) ? rnd() : below(QP_SGES + 1)),
		.inline_len = one_in(50) ? below(1000) : below(64),
		.rkey = any_key(v),
		.remote_addr = any_address(v),
	};
	any_sges(v, (struct xr_sge *)(wqe + 1));
	__atomic_fetch_add(&qp->sq->producer, 1, __ATOMIC_SEQ_CST);
}

static void post_recv(const struct setup *v, const struct qp *qp)
{
	uint32_t at = qp->rq->producer & (QP_WRS - 1);
	struct xr_recv_wqe *wqe = (void *)((uint8_t *)(qp->rq + 1) + (size_t)at * qp->rq_stride);

	*wqe = (struct xr_recv_wqe){ .wr_id = rnd(), .num_sge = below(QP_SGES + 1) };
	any_sges(v, (struct xr_sge *)(wqe + 1));
	__atomic_fetch_add(&qp->rq->producer, 1, __ATOMIC_SEQ_CST);
}

static void corrupt_queue(struct xr_queue *ring, uint32_t size)
{
	switch (below(6)) {
	case 0:
		ring->producer = below(2) ? (uint32_t)rnd() : ring->producer + below(100);
		break;
	case 1:
		ring->consumer = (uint32_t)rnd();
		break;
	case 2:
		ring->word = below(2) ? (uint32_t)rnd() : XR_ARM_ANY;
		break;
	case 3:
		randomize(ring, 16);
		break;
	default:
		randomize((uint8_t *)ring + below(size - 64), 64);
		break;
	}
}

/* Tries to shrink or seal the shared memory, which is sealed, and to block eventfds. */
static void attack_chunks(struct conn *c)
{
	struct chunk *chunk = &c->chunk[below(MAX_CHUNKS)];
	uint64_t many = ~1ull;

	if (!chunk->base || chunk->base == MAP_FAILED)
		return;
	(void)!ftruncate(chunk->fd, (off_t)below(2) * PAGE);
	fallocate(chunk->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)chunk->size);
	fcntl(chunk->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
	fcntl(c->eventfd, F_SETFL, 0);
	fcntl(c->eventfd, F_SETFL, O_NONBLOCK);
	(void)!write(c->eventfd, &many, sizeof(many));
	for (uint32_t i = 0; i < c->got_fds; i++)
		(void)!write(c->got_fd[i], &many, sizeof(many));
}

/* Unmaps, protects or truncates registered memory; a truncated file may be extended again. */
static void revoke_memory(const struct setup *v)
{
	uint8_t *at = v->mem + below(MEMORY / PAGE) * PAGE;

	if (v->mem_fd >= 0 && one_in(2)) {
		(void)!ftruncate(v->mem_fd, (off_t)below(MEMORY));
		if (one_in(2))
			(void)!ftruncate(v->mem_fd, MEMORY);
		return;
	}
	switch (below(4)) {
	case 0:
		munmap(at, PAGE);
		break;
	case 1:
		mprotect(at, PAGE, PROT_READ);
		break;
	case 2:
		mmap(at, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	default:
		madvise(at, PAGE, MADV_DONTNEED);
		break;
	}
}

/* Resets and reconnects both QPs if one is in ERR, where a QP ignores most work. */
static void recover(struct setup *v)
{
	struct xr_modify_qp_req req = { .attr_mask = 1 /* IBV_QP_STATE */ };

	if (v->qp[0].sq->word != XR_QPS_ERR && v->qp[1].sq->word != XR_QPS_ERR)
		return;
	for (int i = 0; i < 2; i++) {
		req.handle = v->qp[i].handle;
		conn_call(&v->c, XR_MSG_MODIFY_QP, &req, sizeof(req), NULL, 0, NULL, 0);
	}
	connect_both(v);
}

static void abuse_rings(bool work)
{
	static struct setup v;

	if (!make_setup(&v))
		return;
	for (int i = 0; i < 3000; i++) {
		const struct qp *qp = &v.qp[below(2)];

		if (work && !one_in(4)) {
			post_recv(&v, qp);
			post_send(&v, qp);
		} else if (work && one_in(30)) {
			revoke_memory(&v);
		} else if (!work || one_in(50)) {
			corrupt_queue(qp->sq, qp->sq_size);
			corrupt_queue(qp->rq, qp->rq_size);
			corrupt_queue(v.cq, CQ_ENTRIES * (uint32_t)sizeof(struct xr_cqe));
		}
		if (v.c.doorbell && one_in(30))
			v.c.doorbell->bits0 = v.c.doorbell->bits1[below(64)] = rnd();
		if (one_in(200))
			attack_chunks(&v.c);
		ring_doorbell(&v.c, qp);
		/* consume all completions, so that work continues */
		if (work)
			v.cq->consumer = v.cq->producer;
		if (one_in(40))
			usleep(below(500));
		if (one_in(20))
			recover(&v);
	}
	if (one_in(2))
		conn_close(&v.c);
}

/* A child process uses the inherited connection and rings after the death of its parent. */
static void outlive_parent(void)
{
	static struct setup v;

	if (!make_setup(&v))
		return;
	if (fork())
		_exit(0);
	for (int i = 0; i < 200; i++) {
		post_send(&v, &v.qp[0]);
		ring_doorbell(&v.c, &v.qp[0]);
		usleep(100);
	}
}

/* ---- main ---------------------------------------------------------------- */

static void misbehave(unsigned how)
{
	switch (how % 9) {
	case 0:
		send_garbage(false);
		break;
	case 1:
	case 2:
		send_garbage(true);
		break;
	case 3:
		never_read_replies();
		break;
	case 4:
		open_many();
		break;
	case 5:
		exhaust_limits();
		break;
	case 6:
		abuse_rings(false);
		break;
	case 7:
		abuse_rings(true);
		break;
	case 8:
		outlive_parent();
		break;
	}
}

static void become(const char *user)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw || setgid(pw->pw_gid) || setuid(pw->pw_uid)) {
		fprintf(stderr, "hostile: cannot become %s\n", user);
		exit(2);
	}
	/* after setuid, /proc/self/mem belongs to root otherwise */
	prctl(PR_SET_DUMPABLE, 1);
}

/* Half of the clients are killed within 60 ms, the others after two seconds if they still run. */
static void run_one(unsigned round)
{
	uint64_t lifetime_us = one_in(2) ? 2000000 : below(60000);
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(4);
		misbehave(round);
		_exit(0);
	}
	for (uint64_t t = 0; t < lifetime_us; t += 2000) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return;
		usleep(2000);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	unsigned rounds = 0;
	double end;
	int fd;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: hostile SOCKET SECONDS SEED [USER]\n");
		return 2;
	}
	daemon_path = argv[1];
	end = now() + atof(argv[2]);
	rnd_state = strtoull(argv[3], NULL, 0);
	if (argc == 5)
		become(argv[4]);
	for (; now() < end; rounds++) {
		fd = conn_connect();
		if (fd < 0) {
			fprintf(stderr, "hostile: no daemon after %u rounds: %s\n", rounds,
				strerror(errno));
			return 1;
		}
		close(fd);
		run_one(rounds);
	}
	printf("%u rounds\n", rounds);
	return 0;
}
