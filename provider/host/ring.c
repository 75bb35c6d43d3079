// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Messages of one call: as many as the senders of daemon/udp/ have */
#define ENTRIES 64u

struct xp_ring {
	int fd;
	void *area; /* heads, tails and completions */
	size_t size;
	struct io_uring_sqe *sqe;
	uint32_t *sq_head, *sq_tail, sq_mask;
	uint32_t *cq_head, *cq_tail, cq_mask;
	struct io_uring_cqe *cqe;
	int result[ENTRIES];
};

/* ---- open and close ----------------------------------------------------------------------- */

static void *host_at(const struct xp_ring *r, uint32_t off)
{
	return (uint8_t *)r->area + off;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void *ring_map(const struct xp_ring *r, size_t size, off_t off)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, off);
}

static int map_all(struct xp_ring *r, const struct io_uring_params *p)
{
	uint32_t *array;

	r->size = larger(p->sq_off.array + p->sq_entries * sizeof(uint32_t),
			 p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe));
	r->area = ring_map(r, r->size, IORING_OFF_SQ_RING);
	r->sqe = ring_map(r, ENTRIES * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	if (r->area == MAP_FAILED || r->sqe == MAP_FAILED)
		return -errno;
	r->sq_head = host_at(r, p->sq_off.head);
	r->sq_tail = host_at(r, p->sq_off.tail);
	r->sq_mask = p->sq_entries - 1;
	r->cq_head = host_at(r, p->cq_off.head);
	r->cq_tail = host_at(r, p->cq_off.tail);
	r->cq_mask = p->cq_entries - 1;
	r->cqe = host_at(r, p->cq_off.cqes);
	array = host_at(r, p->sq_off.array);
	for (uint32_t i = 0; i < p->sq_entries; i++)
		array[i] = i;
	return 0;
}

int xp_ring_new(struct xp_ring **ring)
{
	struct io_uring_params p = { .flags = IORING_SETUP_R_DISABLED };
	struct xp_ring *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->area = r->sqe = MAP_FAILED;
	r->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
	err = r->fd < 0 ? -errno : 0;
	/* Linux 5.4; restrictions are of 5.10 */
	if (!err && (p.sq_entries != ENTRIES || !(p.features & IORING_FEAT_SINGLE_MMAP)))
		err = -EOPNOTSUPP;
	if (!err)
		err = map_all(r, &p);
	if (err) {
		xp_ring_free(r);
		return err;
	}
	*ring = r;
	return r->fd;
}

void xp_ring_free(struct xp_ring *r)
{
	if (!r)
		return;
	if (r->area != MAP_FAILED)
		munmap(r->area, r->size);
	if (r->sqe != MAP_FAILED)
		munmap(r->sqe, ENTRIES * sizeof(struct io_uring_sqe));
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

void xp_ring_give_back(struct xp_ring *r, int nothing)
{
	dup3(nothing, r->fd, O_CLOEXEC);
}

/* ---- calls -------------------------------------------------------------------------------- */

static int ring_enter(const struct xp_ring *r, uint32_t ring_submit, uint32_t wait)
{
	return (int)syscall(SYS_io_uring_enter, r->fd, ring_submit, wait,
			    wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static void ring_prepare(struct xp_ring *r, uint8_t op, uint32_t number, struct mmsghdr *msg,
			 uint32_t n)
{
	uint32_t tail = *r->sq_tail;

	for (uint32_t i = 0; i < n; i++, tail++)
		r->sqe[tail & r->sq_mask] = (struct io_uring_sqe){
			.opcode = op,
			.flags = IOSQE_FIXED_FILE,
			.fd = (int)number,
			.addr = (uintptr_t)&msg[i].msg_hdr,
			.len = 1,
			.msg_flags = MSG_DONTWAIT,
			.user_data = i,
		};
	__atomic_store_n(r->sq_tail, tail, __ATOMIC_RELEASE);
}

static uint32_t take_results(struct xp_ring *r, uint32_t n)
{
	uint32_t head = *r->cq_head, tail = __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE), got = 0;

	for (; head != tail; head++, got++) {
		const struct io_uring_cqe *c = &r->cqe[head & r->cq_mask];

		if (c->user_data < n)
			r->result[c->user_data] = c->res;
	}
	__atomic_store_n(r->cq_head, head, __ATOMIC_RELEASE);
	return got;
}

/* Submits what is prepared. Returns how many operations the kernel has taken. */
static uint32_t ring_submit(struct xp_ring *r, uint32_t n)
{
	uint32_t taken = 0;
	int done;

	while (taken < n) {
		done = ring_enter(r, n - taken, 0);
		if (!done || (done < 0 && errno != EINTR))
			break;
		taken += done > 0 ? (uint32_t)done : 0;
	}
	/* It may not take the others later: they refer to messages of this call. */
	if (taken < n)
		__atomic_store_n(r->sq_tail, *r->sq_head, __ATOMIC_RELEASE);
	return taken;
}

/*
 * Executes an operation for n messages. The results are in r->result[] then: bytes, or a negative
 * error, also for those that the kernel has not taken.
 */
static void ring_execute(struct xp_ring *r, uint8_t op, uint32_t number, struct mmsghdr *msg,
			 uint32_t n)
{
	uint32_t taken, got;

	ring_prepare(r, op, number, msg, n);
	errno = EAGAIN;
	taken = ring_submit(r, n);
	for (uint32_t i = taken; i < n; i++)
		r->result[i] = -errno;
	got = take_results(r, n);
	while (got < taken && (ring_enter(r, 0, taken - got) >= 0 || errno == EINTR))
		got += take_results(r, n);
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* `to` is empty, and `from` is so then: it has the lengths of its room again. */
static void ring_move(struct mmsghdr *to, struct mmsghdr *from)
{
	struct msghdr *t = &to->msg_hdr, *f = &from->msg_hdr;
	const struct msghdr room = *t;

	memcpy(t->msg_name, f->msg_name, f->msg_namelen);
	memcpy(t->msg_control, f->msg_control, f->msg_controllen);
	memcpy(t->msg_iov->iov_base, f->msg_iov->iov_base, from->msg_len);
	t->msg_namelen = f->msg_namelen;
	t->msg_controllen = f->msg_controllen;
	t->msg_flags = f->msg_flags;
	to->msg_len = from->msg_len;
	f->msg_namelen = room.msg_namelen;
	f->msg_controllen = room.msg_controllen;
}

/*
 * The kernel looks for each message by itself: if one arrives meanwhile, a later operation has it
 * after an earlier one found none. It is moved to the front. All messages have one buffer of the
 * same size.
 */
static int ring_receive(void *arg, uint32_t number, struct mmsghdr *msg, unsigned int n)
{
	struct xp_ring *r = arg;
	int got = 0;

	n = n < ENTRIES ? n : ENTRIES;
	ring_execute(r, IORING_OP_RECVMSG, number, msg, n);
	for (uint32_t i = 0; i < n; i++) {
		if (r->result[i] < 0)
			continue;
		msg[i].msg_len = (unsigned int)r->result[i];
		if ((uint32_t)got < i)
			ring_move(&msg[got], &msg[i]);
		got++;
	}
	if (got)
		return got;
	errno = -r->result[0];
	return -1;
}

/* ---- sending ------------------------------------------------------------------------------ */

/* Messages from the first one on that were not sent yet */
static uint32_t ring_unsent(const struct mmsghdr *msg, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && i < ENTRIES && !msg[i].msg_len)
		i++;
	return i;
}

static int ring_transmit(void *arg, uint32_t number, struct mmsghdr *msg, unsigned int n)
{
	struct xp_ring *r = arg;
	uint32_t sent = 0;

	n = ring_unsent(msg, n);
	ring_execute(r, IORING_OP_SENDMSG, number, msg, n);
	for (uint32_t i = 0; i < n; i++) {
		if (r->result[i] < 0)
			continue;
		msg[i].msg_len = (unsigned int)r->result[i];
		sent += sent == i;
	}
	if (sent)
		return (int)sent;
	errno = -r->result[0];
	return -1;
}

static void close_ring(void *arg)
{
	xp_ring_free(arg);
}

const struct xd_udp_calls xp_ring_calls = {
	.receive = ring_receive,
	.send = ring_transmit,
	.close = close_ring,
};
