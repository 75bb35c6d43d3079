// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The process of a mover. A client can make it hang in any access without limit. No other process
 * waits for it, and it holds no memory and descriptors but those of this client.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/transport/memory/memory.h"
#include "mover_area.h"
#include "proc.h"
#include "proc_maps.h"

#define BATCH 32 /* accesses of one ring in turn */

static struct {
	struct xd_mover_area *area;
	size_t size;
	int sock, mem_fd, maps_fd;
	const int *wake_fd; /* by ring */
} mover;

/* ---- accesses -------------------------------------------------------------------- */

static int atomic_access(struct xd_move *m)
{
	uint64_t now = 0, new;
	int err = xd_proc_read(mover.mem_fd, m->addr, &now, sizeof(now));

	new = m->op == XT_MEM_FETCH_ADD ? now + m->value : m->value;
	if (!err && (m->op == XT_MEM_FETCH_ADD || now == m->compare))
		err = xd_proc_write(mover.mem_fd, m->addr, &new, sizeof(new));
	m->old = now;
	return err;
}

static int write_bytes(uint64_t addr, const uint8_t *data, uint32_t len, bool last)
{
	return last ? xd_proc_write_last(mover.mem_fd, addr, data, len)
		    : xd_proc_write(mover.mem_fd, addr, data, len);
}

static int execute_part(const struct xd_move *m, uint64_t part, uint8_t *data, bool last)
{
	uint64_t addr = xd_part_addr(part);
	uint32_t len = xd_part_len(part);
	bool write = m->op != XT_MEM_READ;
	int err = m->check ? xd_proc_check(mover.maps_fd, addr, len, write) : 0;

	if (err)
		return err;
	return write ? write_bytes(addr, data, len, last)
		     : xd_proc_read(mover.mem_fd, addr, data, len);
}

static int execute_parts(const struct xd_move *m, uint8_t *data)
{
	const uint64_t *part = (const uint64_t *)(data + XD_PARTS);
	int err = 0;

	for (uint32_t i = 0; i < m->parts && !err; i++) {
		err = execute_part(m, part[i], data, m->last && i + 1 == m->parts);
		data += xd_part_len(part[i]);
	}
	return err;
}

static int mover_process_execute(struct xd_move *m)
{
	uint8_t *data = (uint8_t *)mover.area + m->data, waiting = XD_MOVE_WAITS;
	int err = 0;

	if (!__atomic_compare_exchange_n(&m->state, &waiting, XD_MOVE_BEGUN, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return -ECANCELED;
	if (m->parts)
		return execute_parts(m, data);
	if (m->check)
		err = xd_proc_check(mover.maps_fd, m->addr, m->len, m->op != XT_MEM_READ);
	if (err)
		return err;
	switch (m->op) {
	case XT_MEM_READ:
		return xd_proc_read(mover.mem_fd, m->addr, data, m->len);
	case XT_MEM_WRITE:
		return write_bytes(m->addr, data, m->len, m->last);
	case XT_MEM_ATOMIC_WRITE:
		return xd_proc_write(mover.mem_fd, m->addr, &m->value, sizeof(m->value));
	default:
		return atomic_access(m);
	}
}

static void wake_worker(struct xd_move_ring *ring, int wake_fd)
{
	uint64_t one = 1;

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with xd_movers_arm() */
	if (__atomic_load_n(&ring->want_wake, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&ring->want_wake, 0, __ATOMIC_ACQ_REL))
		(void)!write(wake_fd, &one, sizeof(one));
}

static bool mover_process_serve(struct xd_move_ring *ring, int wake_fd)
{
	uint32_t at = ring->executed, end = __atomic_load_n(&ring->submitted, __ATOMIC_ACQUIRE);
	struct xd_move *m;

	if (at == end)
		return false;
	if (end - at > BATCH)
		end = at + BATCH;
	/* A permission that is checked now holds for what was submitted before. */
	xd_proc_new_epoch();
	while (at != end) {
		m = &ring->move[at++ % XD_MOVER_RING];
		m->err = mover_process_execute(m);
		__atomic_store_n(&ring->executed, at, __ATOMIC_RELEASE);
		wake_worker(ring, wake_fd);
	}
	return true;
}

static bool serve_all(void)
{
	bool worked = false;

	for (uint32_t i = 0; i < mover.area->rings; i++)
		worked |= mover_process_serve(&mover.area->ring[i], mover.wake_fd[i]);
	return worked;
}

/* ---- waiting --------------------------------------------------------------------- */

static bool any_submitted(void)
{
	for (uint32_t i = 0; i < mover.area->rings; i++) {
		const struct xd_move_ring *ring = &mover.area->ring[i];

		if (__atomic_load_n(&ring->submitted, __ATOMIC_ACQUIRE) != ring->executed)
			return true;
	}
	return false;
}

static void sleep_until_submitted(void)
{
	uint32_t *asleep = &mover.area->asleep;

	__atomic_store_n(asleep, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wake_mover() */
	if (!any_submitted())
		syscall(SYS_futex, asleep, FUTEX_WAIT, 1, NULL, NULL, 0);
	__atomic_store_n(asleep, 0, __ATOMIC_SEQ_CST);
}

/* ---- lists of mappings ----------------------------------------------------------- */

static bool send_list(int err, const struct xd_vma *list, size_t count)
{
	struct xd_maps_reply reply = { .err = err };

	do {
		reply.count = count < XD_MAPS_BATCH ? (uint32_t)count : XD_MAPS_BATCH;
		if (reply.count)
			memcpy(reply.vma, list, reply.count * sizeof(*list));
		if (send(mover.sock, &reply,
			 offsetof(struct xd_maps_reply, vma) + reply.count * sizeof(*list),
			 MSG_NOSIGNAL) < 0)
			return false;
		list += reply.count;
		count -= reply.count;
	} while (reply.count);
	return true;
}

/* A thread of its own, which serves registrations while accesses hang. */
static void *serve_lists(void *arg)
{
	struct xd_maps_request request;
	struct xd_vma *list;
	bool sent = true;
	size_t count;
	int err;

	while (sent && recv(mover.sock, &request, sizeof(request), 0) == sizeof(request)) {
		err = xd_proc_maps(mover.maps_fd, request.start, request.end, &list, &count);
		sent = send_list(err, list, count);
		free(list);
	}
	_exit(0);
}

/* ---- start ----------------------------------------------------------------------- */

void xd_mover_main(const int *fds, uint32_t n)
{
	pthread_t thread;
	struct stat st;

	if (n <= XD_MOVER_WAKE_FDS || fstat(fds[XD_MOVER_AREA_FD], &st))
		return;
	mover.size = (size_t)st.st_size;
	mover.area = mmap(NULL, mover.size, PROT_READ | PROT_WRITE, MAP_SHARED,
			  fds[XD_MOVER_AREA_FD], 0);
	if (mover.area == MAP_FAILED)
		return;
	close(fds[XD_MOVER_AREA_FD]);
	mover.sock = fds[XD_MOVER_SOCKET];
	mover.mem_fd = fds[XD_MOVER_MEM_FD];
	mover.maps_fd = fds[XD_MOVER_MAPS_FD];
	mover.wake_fd = fds + XD_MOVER_WAKE_FDS;
	if (pthread_create(&thread, NULL, serve_lists, NULL))
		return;
	for (;;) {
		while (serve_all())
			;
		sleep_until_submitted();
	}
}
