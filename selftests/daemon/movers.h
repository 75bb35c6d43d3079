/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Movers for tests: two workers without engines, accesses to the memory of this process. */
#ifndef SELFTESTS_MOVERS_H
#define SELFTESTS_MOVERS_H

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/spawner.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/mover_area.h"
#include "daemon/transport/transport.h"

#define WAIT_NS 20000000000ull /* for what happens at once unless the machine is busy */

static struct xd_spawner *spawner;
static struct xd_movers *movers;
static int wake_fd[2];
static char worker[2]; /* the engine_ctx of two workers */

/* ---- the engine ------------------------------------------------------------------ */

static struct xt_mem_pool *room;

void xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err)
{
	io->done = true;
	io->err = err;
}

void xt_mem_io_room(struct xt_engine *e, struct xt_mem_pool *pool)
{
	room = pool;
}

static bool collect(uint32_t w)
{
	uint64_t next;

	return xd_movers_collect(movers, w, xd_now(), &next);
}

static bool finishes(uint32_t w, struct xt_mem_io *io)
{
	uint64_t end = xd_now() + WAIT_NS;

	while (!io->done && xd_now() < end)
		if (!collect(w))
			sched_yield();
	return io->done;
}

/* ---- accesses -------------------------------------------------------------------- */

static struct xd_mover *new_mover(void)
{
	int mem = open("/proc/self/mem", O_RDWR), maps = open("/proc/self/maps", O_RDONLY);
	struct xd_mover *m = NULL;

	if (xd_mover_new(movers, mem, maps, NULL, &m))
		m = NULL;
	close(mem);
	close(maps);
	return m;
}

static struct xt_mem_io *io_new(struct xd_mover *m, uint32_t w, uint8_t op, uint32_t len)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = xd_mover_io_new(m, &worker[w], len, &pool);

	if (io)
		io->op = op;
	return io;
}

static void submit(struct xt_mem_io *io, const void *p, bool check)
{
	xd_mover_io_submit(io, (uintptr_t)p, check);
}

/* ---- start and end --------------------------------------------------------------- */

static const struct xd_spawned_kind kinds[XD_SPAWN_KINDS] = {
	[XD_SPAWN_MOVER] = { "xroced-mover", xd_mover_main },
};

static void start(void)
{
	struct xd_mover_worker w = { 0 };

	if (xd_spawner_start(kinds, &spawner))
		exit(1);
	movers = xd_movers_new(spawner, 2);
	for (uint32_t i = 0; i < 2; i++) {
		w.wake_fd = wake_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		w.engine_ctx = &worker[i];
		xd_movers_set_worker(movers, i, &w);
	}
}

static void stop(void)
{
	while (collect(0) || collect(1))
		;
	xd_movers_free(movers);
	xd_spawner_stop(spawner);
	close(wake_fd[0]);
	close(wake_fd[1]);
}

#endif /* SELFTESTS_MOVERS_H */
