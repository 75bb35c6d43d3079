// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Movers: start and end. */
#include "mover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/reaper.h"
#include "daemon/base/spawner.h"
#include "daemon/transport/memory/ending.h"
#include "mover_internal.h"

/* ---- all movers ------------------------------------------------------------------ */

struct xd_movers *xd_movers_new(struct xd_spawner *spawner, uint32_t workers)
{
	struct xd_movers *ms = calloc(1, sizeof(*ms) + workers * sizeof(ms->worker[0]));

	if (!ms)
		return NULL;
	ms->spawner = spawner;
	ms->workers = workers;
	pthread_mutex_init(&ms->lock, NULL);
	return ms;
}

void xd_movers_set_worker(struct xd_movers *ms, uint32_t i, const struct xd_mover_worker *w)
{
	ms->worker[i].worker = *w;
}

static void let_go(struct xd_killed *process, int pidfd)
{
	if (process)
		xd_reaper_add(process, pidfd);
	else if (pidfd >= 0)
		close(pidfd);
}

static void mover_free(struct xd_mover *m)
{
	if (m->sock >= 0)
		close(m->sock);
	if (m->area)
		munmap(m->area, m->area_size);
	pthread_mutex_destroy(&m->list_lock);
	free(m);
}

void xd_movers_free_unused(struct xd_movers *ms)
{
	struct xd_mover *m, *next;

	if (!ms)
		return;
	pthread_mutex_lock(&ms->lock);
	m = ms->unused;
	ms->unused = NULL;
	pthread_mutex_unlock(&ms->lock);
	for (; m; m = next) {
		next = m->next;
		mover_free(m);
	}
}

void xd_movers_free(struct xd_movers *ms)
{
	if (!ms)
		return;
	xd_movers_free_unused(ms);
	pthread_mutex_destroy(&ms->lock);
	free(ms);
}

void xd_mover_unref(struct xd_mover *m)
{
	struct xd_movers *ms = m->all;
	struct xd_killed *process = m->process;
	int pidfd = m->pidfd;

	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_mutex_lock(&ms->lock);
	m->next = ms->unused;
	ms->unused = m;
	pthread_mutex_unlock(&ms->lock);
	let_go(process, pidfd); /* the end of the process frees the mover */
}

void xd_mover_ref(struct xd_mover *m)
{
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
}

void xd_mover_wake_worker(struct xd_movers *ms, uint32_t worker)
{
	uint64_t one = 1;

	/* EAGAIN: the counter is full, so a wake-up is pending anyway */
	(void)!write(ms->worker[worker].worker.wake_fd, &one, sizeof(one));
}

/* ---- start and end --------------------------------------------------------------- */

static size_t rings_size(uint32_t rings)
{
	size_t size = sizeof(struct xd_mover_area) + rings * sizeof(struct xd_move_ring);

	return (size + 4095) & ~(size_t)4095;
}

static size_t area_size(uint32_t rings)
{
	return rings_size(rings) + (size_t)XD_STAGING_LARGE * XT_MEM_IO_MAX +
	       (size_t)XD_STAGING_SMALL * XD_STAGING_SMALL_SIZE;
}

uint64_t xd_movers_bytes(const struct xd_movers *ms)
{
	return ms ? area_size(ms->workers) : 0;
}

/* The mover must not be able to take pages away: the file is sealed. */
static int make_area(struct xd_mover *m, uint32_t rings, int *fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	void *area;

	*fd = memfd_create("xroce-mover", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	m->area_size = area_size(rings);
	if (ftruncate(*fd, (off_t)m->area_size) || fcntl(*fd, F_ADD_SEALS, seals))
		return -errno;
	area = mmap(NULL, m->area_size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (area == MAP_FAILED)
		return -errno;
	m->area = area;
	m->area->rings = rings;
	m->staging = (uint8_t *)area + rings_size(rings);
	return 0;
}

static void init_pieces(struct xd_mover *m)
{
	for (uint16_t i = 0; i < XD_STAGING_PIECES; i++)
		m->piece[i].next = i + 1;
	m->piece[XD_STAGING_LARGE - 1].next = NO_PIECE;
	m->piece[XD_STAGING_PIECES - 1].next = NO_PIECE;
	m->free_large = 0;
	m->free_small = XD_STAGING_LARGE;
}

static void init_channels(struct xd_mover *m)
{
	for (uint32_t i = 0; i < m->all->workers; i++) {
		m->channel[i].mover = m;
		m->channel[i].worker = i;
		m->channel[i].ring = &m->area->ring[i];
		xt_mem_pool_init(&m->channel[i].pool);
	}
}

static int start_process(struct xd_mover *m, int area_fd, int mem_fd, int maps_fd)
{
	struct xd_movers *ms = m->all;
	int fds[XD_SPAWN_FDS], pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	m->sock = pair[0];
	fds[XD_MOVER_AREA_FD] = area_fd;
	fds[XD_MOVER_SOCKET] = pair[1];
	fds[XD_MOVER_MEM_FD] = mem_fd;
	fds[XD_MOVER_MAPS_FD] = maps_fd;
	for (uint32_t i = 0; i < ms->workers; i++)
		fds[XD_MOVER_WAKE_FDS + i] = ms->worker[i].worker.wake_fd;
	m->pidfd = xd_spawner_fork(ms->spawner, XD_SPAWN_MOVER, fds,
				   XD_MOVER_WAKE_FDS + ms->workers, &m->pid);
	close(pair[1]);
	return m->pidfd < 0 ? m->pidfd : 0;
}

int xd_mover_new(struct xd_movers *ms, int mem_fd, int maps_fd, struct xd_killed *process,
		 struct xd_mover **out)
{
	struct xd_mover *m;
	int area_fd = -1, err;

	xd_movers_free_unused(ms);
	m = calloc(1, sizeof(*m) + ms->workers * sizeof(m->channel[0]));
	if (!m)
		return -ENOMEM;
	m->all = ms;
	m->refs = 1;
	m->pidfd = m->sock = -1;
	pthread_mutex_init(&m->list_lock, NULL);
	init_pieces(m);
	err = make_area(m, ms->workers, &area_fd);
	if (!err) {
		init_channels(m);
		err = start_process(m, area_fd, mem_fd, maps_fd);
	}
	if (area_fd >= 0)
		close(area_fd);
	if (err) {
		mover_free(m);
		return err;
	}
	m->process = process;
	*out = m;
	return 0;
}

void xd_mover_end(struct xd_mover *m)
{
	if (!m || __atomic_exchange_n(&m->ended, true, __ATOMIC_ACQ_REL))
		return;
	syscall(SYS_pidfd_send_signal, m->pidfd, SIGKILL, NULL, 0);
	shutdown(m->sock, SHUT_RDWR); /* ends xd_mover_maps(), even if the mover cannot end */
	for (uint32_t i = 0; i < m->all->workers; i++)
		xd_mover_wake_worker(m->all, i);
}

void xd_mover_wait(const struct xd_mover *m)
{
	struct pollfd p = { .fd = m ? m->pidfd : -1, .events = POLLIN };

	if (m)
		poll(&p, 1, XT_ENDING_NS / 1000000);
}

void xd_mover_put(struct xd_mover *m)
{
	struct xd_killed *process;
	int pidfd;

	if (!m)
		return;
	xd_mover_end(m);
	process = m->process;
	pidfd = m->pidfd;
	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	mover_free(m);
	let_go(process, pidfd);
}

/* ---- state ----------------------------------------------------------------------- */

void xd_mover_state(const struct xd_mover *m, struct xd_mover_state *s)
{
	uint64_t now = xd_now(), since;
	const struct channel *c;
	uint32_t n;

	*s = (struct xd_mover_state){ .pid = m->pid };
	s->ended = __atomic_load_n(&m->ended, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < m->all->workers; i++) {
		c = &m->channel[i];
		/* In this order: the worker runs meanwhile; the difference is never negative. */
		n = __atomic_load_n(&c->collected, __ATOMIC_ACQUIRE);
		n = __atomic_load_n(&c->submitted, __ATOMIC_RELAXED) - n;
		since = __atomic_load_n(&c->since, __ATOMIC_RELAXED);
		s->accesses += n;
		if (n && since < now && now - since > s->waiting_ns)
			s->waiting_ns = now - since;
	}
}
