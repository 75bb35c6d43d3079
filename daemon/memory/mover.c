// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/spawner.h"
#include "daemon/transport/spinlock.h"
#include "daemon/transport/transport.h"
#include "mover_area.h"

#define LOOK_NS 100000000u /* at a mover that does not make progress: does it still run? */
#define NO_PIECE UINT16_MAX

enum piece_state { PIECE_FREE, PIECE_NEW, PIECE_SUBMITTED, PIECE_DROPPED, PIECE_DONE };

/* An access and its piece of staging. Index: of the piece; the large ones come first. */
struct piece {
	struct xt_mem_io io;
	struct channel *channel; /* that it was allocated for */
	uint32_t at;		 /* in the ring, if submitted */
	uint16_t next;		 /* free piece */
	uint8_t state;
};

/* State of one worker for one mover; under the lock of the worker unless noted */
struct channel {
	struct xd_mover *mover;
	struct xd_move_ring *ring;
	struct xt_mem_pool pool;
	uint32_t worker;
	uint32_t submitted, collected; /* atomic stores, for xd_mover_state() */
	uint64_t since; /* atomic stores: last result, or submission to an empty ring */
	uint64_t look;	/* time to check whether the mover still runs */
	bool waiting;	/* for staging */
	bool unwoken;	/* the mover must be woken at the end of the round */
	bool room;	/* atomic: there may be staging again */
	struct channel *next, **pprev; /* of the worker, if there is something to collect */
	uint16_t piece[XD_MOVER_RING]; /* of the accesses in the ring */
};

struct xd_mover {
	struct xd_movers *all;
	uint32_t refs; /* atomic: owner, allocated pieces, listed channels */
	bool ended;    /* atomic */
	int pidfd, sock;
	pthread_mutex_t list_lock; /* from a request for mappings to its last reply */
	pid_t pid;
	struct xd_mover_area *area;
	size_t area_size;
	uint8_t *staging;
	int lock; /* of the lists of free pieces */
	uint16_t free_large, free_small;
	uint32_t starving; /* atomic: channels that wait for staging */
	struct piece piece[XD_STAGING_PIECES];
	struct xd_mover *next; /* to be freed */
	struct channel channel[];
};

struct worker {
	struct xd_mover_worker worker;
	bool in_round;
	struct channel *first;
};

struct xd_movers {
	struct xd_spawner *spawner;
	pthread_mutex_t lock;
	struct xd_mover *unused; /* freed later, as unmapping takes time that no worker has */
	uint32_t workers;
	struct worker worker[];
};

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

static void close_process(struct xd_mover *m)
{
	if (m->pidfd >= 0)
		close(m->pidfd);
	if (m->sock >= 0)
		close(m->sock);
	m->pidfd = m->sock = -1;
}

static void mover_free(struct xd_mover *m)
{
	close_process(m);
	if (m->area)
		munmap(m->area, m->area_size);
	pthread_mutex_destroy(&m->list_lock);
	free(m);
}

static void free_unused(struct xd_movers *ms)
{
	struct xd_mover *m, *next;

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
	free_unused(ms);
	pthread_mutex_destroy(&ms->lock);
	free(ms);
}

/* By a worker */
static void unref(struct xd_mover *m)
{
	struct xd_movers *ms = m->all;

	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	close_process(m);
	pthread_mutex_lock(&ms->lock);
	m->next = ms->unused;
	ms->unused = m;
	pthread_mutex_unlock(&ms->lock);
}

static void ref(struct xd_mover *m)
{
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
}

static void wake_worker(struct xd_movers *ms, uint32_t worker)
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

static uint8_t *piece_data(struct xd_mover *m, uint32_t i)
{
	if (i < XD_STAGING_LARGE)
		return m->staging + (size_t)i * XT_MEM_IO_MAX;
	return m->staging + (size_t)XD_STAGING_LARGE * XT_MEM_IO_MAX +
	       (size_t)(i - XD_STAGING_LARGE) * XD_STAGING_SMALL_SIZE;
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

int xd_mover_new(struct xd_movers *ms, int mem_fd, int maps_fd, struct xd_mover **out)
{
	struct xd_mover *m;
	int area_fd = -1, err;

	free_unused(ms);
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
	if (err)
		mover_free(m);
	else
		*out = m;
	return err;
}

void xd_mover_end(struct xd_mover *m)
{
	if (!m || __atomic_exchange_n(&m->ended, true, __ATOMIC_ACQ_REL))
		return;
	syscall(SYS_pidfd_send_signal, m->pidfd, SIGKILL, NULL, 0);
	shutdown(m->sock, SHUT_RDWR); /* ends xd_mover_maps(), even if the mover cannot end */
	for (uint32_t i = 0; i < m->all->workers; i++)
		wake_worker(m->all, i);
}

void xd_mover_put(struct xd_mover *m)
{
	if (!m)
		return;
	xd_mover_end(m);
	if (!__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		mover_free(m);
}

/* ---- lists of mappings ----------------------------------------------------------- */

#define MAX_MAPPINGS (1u << 20) /* of a client: more would use up the daemon's memory */

static int add_mappings(const struct xd_maps_reply *reply, struct xd_vma **list, size_t *count)
{
	struct xd_vma *more;

	if (*count + reply->count > MAX_MAPPINGS)
		return -E2BIG;
	more = realloc(*list, (*count + reply->count) * sizeof(**list));
	if (!more)
		return -ENOMEM;
	memcpy(more + *count, reply->vma, reply->count * sizeof(*more));
	*list = more;
	*count += reply->count;
	return 0;
}

/* Returns 1 after the last reply. */
static int receive_mappings(struct xd_mover *m, struct xd_vma **list, size_t *count)
{
	const size_t head = offsetof(struct xd_maps_reply, vma);
	struct xd_maps_reply reply;
	ssize_t n = recv(m->sock, &reply, sizeof(reply), 0);

	if (n < (ssize_t)head || reply.count > XD_MAPS_BATCH ||
	    (size_t)n != head + reply.count * sizeof(reply.vma[0]))
		return -ESRCH;
	if (!reply.count)
		return reply.err < 0 ? reply.err : 1;
	return add_mappings(&reply, list, count);
}

int xd_mover_maps(struct xd_mover *m, uint64_t start, uint64_t end, struct xd_vma **list,
		  size_t *count)
{
	struct xd_maps_request request = { start, end };
	int err = 0;

	*list = NULL;
	*count = 0;
	pthread_mutex_lock(&m->list_lock);
	if (send(m->sock, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		err = -ESRCH;
	while (!err)
		err = receive_mappings(m, list, count);
	/* Replies may be left: the mover cannot be used any more. */
	if (err < 0 && err != -ESRCH && err != -EPROTO)
		xd_mover_end(m);
	pthread_mutex_unlock(&m->list_lock);
	return err < 0 ? err : 0;
}

/* ---- staging --------------------------------------------------------------------- */

static uint16_t pop(struct xd_mover *m, uint16_t *list)
{
	uint16_t i = *list;

	if (i != NO_PIECE)
		*list = m->piece[i].next;
	return i;
}

static uint16_t take_piece(struct xd_mover *m, uint32_t len)
{
	uint16_t i = NO_PIECE;

	xt_spin_lock(&m->lock);
	if (len <= XD_STAGING_SMALL_SIZE)
		i = pop(m, &m->free_small);
	if (i == NO_PIECE)
		i = pop(m, &m->free_large);
	xt_spin_unlock(&m->lock);
	return i;
}

/* Wakes the QPs of all workers that wait: the piece may be of the size that any of them needs. */
static void announce_room(struct xd_mover *m, const struct channel *own)
{
	for (uint32_t i = 0; i < m->all->workers; i++) {
		struct channel *c = &m->channel[i];

		if (!__atomic_exchange_n(&c->room, true, __ATOMIC_SEQ_CST) && c != own)
			wake_worker(m->all, i);
	}
}

static void put_piece(struct piece *p)
{
	struct channel *own = p->channel;
	struct xd_mover *m = own->mover;
	uint16_t i = (uint16_t)(p - m->piece);
	uint16_t *list = i < XD_STAGING_LARGE ? &m->free_large : &m->free_small;

	p->state = PIECE_FREE;
	xt_spin_lock(&m->lock);
	p->next = *list;
	*list = i;
	xt_spin_unlock(&m->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wait_for_room() */
	if (__atomic_load_n(&m->starving, __ATOMIC_RELAXED))
		announce_room(m, own);
	unref(m);
}

/* ---- channels -------------------------------------------------------------------- */

static struct channel *channel_of(struct xd_mover *m, const void *engine_ctx)
{
	uint32_t i = 0;

	while (m->all->worker[i].worker.engine_ctx != engine_ctx)
		i++;
	return &m->channel[i];
}

static void list_channel(struct channel *c)
{
	struct worker *w = &c->mover->all->worker[c->worker];

	if (c->pprev)
		return;
	c->next = w->first;
	c->pprev = &w->first;
	if (c->next)
		c->next->pprev = &c->next;
	w->first = c;
	ref(c->mover);
}

static void unlist_channel(struct channel *c)
{
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	c->pprev = NULL;
	unref(c->mover);
}

static void set_waiting(struct channel *c, bool waiting)
{
	if (c->waiting == waiting)
		return;
	c->waiting = waiting;
	__atomic_add_fetch(&c->mover->starving, waiting ? 1 : -1, __ATOMIC_SEQ_CST);
}

/* ---- accesses -------------------------------------------------------------------- */

/* Announces that this channel waits, and tries again. */
static uint16_t wait_for_room(struct channel *c, uint32_t len)
{
	uint16_t i;

	__atomic_store_n(&c->room, false, __ATOMIC_RELAXED);
	set_waiting(c, true);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with put_piece() */
	i = take_piece(c->mover, len);
	if (i == NO_PIECE)
		list_channel(c);
	else
		set_waiting(c, !xt_list_empty(&c->pool.waiting));
	return i;
}

struct xt_mem_io *xd_mover_io_new(struct xd_mover *m, void *engine_ctx, uint32_t len,
				  struct xt_mem_pool **pool)
{
	struct channel *c = channel_of(m, engine_ctx);
	struct piece *p;
	uint16_t i;

	*pool = NULL;
	if (__atomic_load_n(&m->ended, __ATOMIC_ACQUIRE))
		return NULL;
	*pool = &c->pool;
	i = take_piece(m, len);
	if (i == NO_PIECE)
		i = wait_for_room(c, len);
	if (i == NO_PIECE)
		return NULL;
	ref(m);
	p = &m->piece[i];
	p->channel = c;
	p->state = PIECE_NEW;
	memset(&p->io, 0, sizeof(p->io));
	p->io.pool = &c->pool;
	p->io.data = piece_data(m, i);
	p->io.len = len;
	return &p->io;
}

static void wake_mover(struct xd_mover *m)
{
	uint32_t *asleep = &m->area->asleep;

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with sleep_until_submitted() */
	if (__atomic_load_n(asleep, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(asleep, 0, __ATOMIC_ACQ_REL))
		syscall(SYS_futex, asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void submit(struct xt_mem_io *io, uint64_t addr, uint32_t parts, bool check)
{
	struct piece *p = (struct piece *)io; /* io is its first member */
	struct channel *c = p->channel;
	struct xd_mover *m = c->mover;
	uint32_t at = c->submitted % XD_MOVER_RING;
	uint64_t now = c->submitted == c->collected ? xd_now() : 0;

	p->at = at;
	p->state = PIECE_SUBMITTED;
	c->piece[at] = (uint16_t)(p - m->piece);
	c->ring->move[at] = (struct xd_move){
		.op = io->op,
		.check = check,
		.parts = (uint16_t)parts,
		.len = io->len,
		.addr = addr,
		.data = (uint64_t)(io->data - (uint8_t *)m->area),
		.compare = io->compare,
		.value = io->value,
	};
	if (now) {
		__atomic_store_n(&c->since, now, __ATOMIC_RELAXED);
		c->look = now + LOOK_NS;
	}
	__atomic_store_n(&c->submitted, c->submitted + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->ring->submitted, c->submitted, __ATOMIC_RELEASE);
	list_channel(c);
	if (m->all->worker[c->worker].in_round)
		c->unwoken = true;
	else
		wake_mover(m);
}

void xd_mover_io_submit(struct xt_mem_io *io, uint64_t addr, bool check)
{
	submit(io, addr, 0, check);
}

void xd_mover_io_submit_parts(struct xt_mem_io *io, const struct xt_mem_piece *part, uint32_t n,
			      bool check)
{
	uint64_t *list = (uint64_t *)(io->data + XD_PARTS);
	uint32_t i;

	for (i = 0; i < n; i++)
		list[i] = xd_part(part[i].addr, part[i].len);
	submit(io, 0, n, check);
}

void xd_movers_begin_round(struct xd_movers *ms, uint32_t worker)
{
	ms->worker[worker].in_round = true;
}

void xd_movers_end_round(struct xd_movers *ms, uint32_t worker)
{
	ms->worker[worker].in_round = false;
	for (struct channel *c = ms->worker[worker].first; c; c = c->next) {
		if (!c->unwoken)
			continue;
		c->unwoken = false;
		wake_mover(c->mover);
	}
}

void xd_mover_io_free(struct xt_mem_io *io)
{
	struct piece *p = (struct piece *)io;

	if (p->state != PIECE_SUBMITTED) {
		put_piece(p);
		return;
	}
	p->state = PIECE_DROPPED;
	__atomic_store_n(&p->channel->ring->move[p->at].cancelled, 1, __ATOMIC_RELAXED);
}

/* ---- results --------------------------------------------------------------------- */

static void finish(struct channel *c, uint32_t at, int err)
{
	struct piece *p = &c->mover->piece[c->piece[at]];

	if (p->state == PIECE_DROPPED) {
		put_piece(p);
		return;
	}
	p->state = PIECE_DONE;
	p->io.old = c->ring->move[at].old;
	xt_mem_io_done(c->mover->all->worker[c->worker].worker.engine, &p->io, err);
}

/* Returns how far the mover is; ends it if that is nonsense. */
static uint32_t executed(struct channel *c, bool *ended)
{
	uint32_t n = __atomic_load_n(&c->ring->executed, __ATOMIC_ACQUIRE);

	*ended = __atomic_load_n(&c->mover->ended, __ATOMIC_ACQUIRE);
	if (!*ended && n - c->collected > c->submitted - c->collected) {
		xd_log(XD_ERR, "the mover %d reports results of no access", c->mover->pid);
		xd_mover_end(c->mover);
		*ended = true;
	}
	return *ended ? c->submitted : n;
}

/* The kernel may have killed the mover for lack of memory. */
static void look_at_process(struct channel *c, uint64_t now)
{
	struct pollfd p = { .fd = c->mover->pidfd, .events = POLLIN };

	c->look = now + LOOK_NS;
	if (poll(&p, 1, 0) <= 0)
		return;
	xd_log(XD_WARN, "the mover %d was killed: its client's private memory is lost",
	       c->mover->pid);
	xd_mover_end(c->mover);
}

/* Returns true if there was a result. */
static bool collect_results(struct channel *c, uint64_t now)
{
	bool ended;
	uint32_t end = executed(c, &ended), at;

	if (c->collected == end) {
		if (c->collected != c->submitted && c->look <= now)
			look_at_process(c, now);
		return false;
	}
	__atomic_store_n(&c->since, now, __ATOMIC_RELAXED);
	c->look = now + LOOK_NS;
	while (c->collected != end) {
		at = c->collected % XD_MOVER_RING;
		__atomic_store_n(&c->collected, c->collected + 1, __ATOMIC_RELAXED);
		finish(c, at, ended || c->ring->move[at].err ? -EFAULT : 0);
	}
	return true;
}

static bool offer_room(struct channel *c)
{
	struct xd_mover *m = c->mover;

	if (!c->waiting || (!__atomic_load_n(&m->ended, __ATOMIC_ACQUIRE) &&
			    !__atomic_exchange_n(&c->room, false, __ATOMIC_SEQ_CST)))
		return false;
	set_waiting(c, false);
	xt_mem_io_room(m->all->worker[c->worker].worker.engine, &c->pool);
	return true;
}

static bool channel_writes(const struct channel *c, const struct xt_mem *mem)
{
	const struct xt_mem_io *io;

	for (uint32_t i = c->collected; i != c->submitted; i++) {
		io = &c->mover->piece[c->piece[i % XD_MOVER_RING]].io;
		if (io->op != XT_MEM_READ &&
		    (io->mem == mem || (io->through && io->through == mem->integrity)))
			return true;
	}
	return false;
}

bool xd_mover_writing(const struct xd_mover *m, const struct xt_mem *mem)
{
	for (uint32_t i = 0; m && i < m->all->workers; i++)
		if (channel_writes(&m->channel[i], mem))
			return true;
	return false;
}

bool xd_movers_collect(struct xd_movers *ms, uint32_t worker, uint64_t now, uint64_t *next)
{
	struct channel *c, *following;
	bool worked = false;

	*next = XT_NEVER;
	for (c = ms->worker[worker].first; c; c = following) {
		worked |= collect_results(c, now);
		worked |= offer_room(c);
		following = c->next;
		if (c->collected != c->submitted && c->look < *next)
			*next = c->look;
		if (c->collected == c->submitted && !c->waiting)
			unlist_channel(c);
	}
	return worked;
}

bool xd_movers_arm(struct xd_movers *ms, uint32_t worker)
{
	bool quiet = true;

	for (struct channel *c = ms->worker[worker].first; c; c = c->next)
		__atomic_store_n(&c->ring->want_wake, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wake_worker() of the mover */
	for (struct channel *c = ms->worker[worker].first; c; c = c->next) {
		quiet &= __atomic_load_n(&c->ring->executed, __ATOMIC_ACQUIRE) == c->collected;
		quiet &= !__atomic_load_n(&c->mover->ended, __ATOMIC_ACQUIRE);
		quiet &= !c->waiting || !__atomic_load_n(&c->room, __ATOMIC_SEQ_CST);
	}
	return quiet;
}

void xd_movers_disarm(struct xd_movers *ms, uint32_t worker)
{
	for (struct channel *c = ms->worker[worker].first; c; c = c->next)
		__atomic_store_n(&c->ring->want_wake, 0, __ATOMIC_RELAXED);
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
		n = __atomic_load_n(&c->submitted, __ATOMIC_RELAXED) -
		    __atomic_load_n(&c->collected, __ATOMIC_RELAXED);
		since = __atomic_load_n(&c->since, __ATOMIC_RELAXED);
		s->accesses += n;
		if (n && since < now && now - since > s->waiting_ns)
			s->waiting_ns = now - since;
	}
}
