/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Movers: processes that read and write memory of clients that the daemon cannot map. A page fault
 * in such memory may wait for a file server of the client, for write-back, or without limit. A
 * thread that hangs in the kernel would keep the daemon's memory and descriptors, even after
 * SIGKILL, so each client that uses such memory has a process of its own for that.
 *
 * A worker submits accesses (transport/memory.h) to a ring in memory shared with the mover, and
 * collects results in its rounds.
 */
#ifndef XD_MOVER_H
#define XD_MOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/transport/memory/memory.h"

struct xd_killed;
struct xd_mover;
struct xd_movers;
struct xd_spawner;
struct xd_vma;

/* ---- all movers of the device: control thread ------------------------------------ */

/* The spawner was started with xd_mover_main(). Returns NULL if there is no memory. */
struct xd_movers *xd_movers_new(struct xd_spawner *spawner, uint32_t workers);
struct xd_mover_worker {
	struct xt_engine *engine;
	void *engine_ctx; /* of xt_engine_new() */
	int wake_fd;	  /* eventfd that ends the worker's sleep */
};
/* To be called for each worker before the first mover. */
void xd_movers_set_worker(struct xd_movers *ms, uint32_t i, const struct xd_mover_worker *w);
/* Memory of one mover that is shared with it: rings and staging. ms NULL: 0. */
uint64_t xd_movers_bytes(const struct xd_movers *ms);
void xd_movers_free(struct xd_movers *ms); /* without movers in use; NULL allowed */
/* Frees movers that have ended and that a worker was the last to use. NULL allowed. */
void xd_movers_free_unused(struct xd_movers *ms);

/* ---- worker `worker`, under its lock --------------------------------------------- */

/*
 * Ends the accesses that were executed, and wakes QPs that waited for staging. Returns true if
 * there were any. *next: time of the next call at the latest, XT_NEVER: none is under way.
 */
bool xd_movers_collect(struct xd_movers *ms, uint32_t worker, uint64_t now, uint64_t *next);
/*
 * Between these two, accesses are submitted without waking movers that sleep: the end of the round
 * wakes them, once for all accesses. It returns true if xd_movers_arm() before the round does not
 * cover all of these accesses: a worker that sleeps must be woken.
 */
void xd_movers_begin_round(struct xd_movers *ms, uint32_t worker);
bool xd_movers_end_round(struct xd_movers *ms, uint32_t worker);
/*
 * From now on a result of the accesses that are under way ends the worker's sleep. Returns false if
 * there is one already.
 */
bool xd_movers_arm(struct xd_movers *ms, uint32_t worker);
void xd_movers_disarm(struct xd_movers *ms, uint32_t worker);

/* ---- one mover ------------------------------------------------------------------- */

/*
 * Starts a mover for the memory behind the descriptors (proc.h), which it copies. Any thread.
 * process: is given to xd_reaper_add() after the mover was killed and is not used any more; taken
 * over unless an error is returned. NULL: nothing.
 */
int xd_mover_new(struct xd_movers *ms, int mem_fd, int maps_fd, struct xd_killed *process,
		 struct xd_mover **mover);
/*
 * Kills the process without waiting for its end: accesses that are under way, and all later ones,
 * end with -EFAULT. Any thread. NULL allowed.
 */
void xd_mover_end(struct xd_mover *m);
/* Waits until the process of an ended mover is gone, for XT_ENDING_NS at most. NULL allowed. */
void xd_mover_wait(const struct xd_mover *m);
/* Ends the mover, and frees it after its last access. Not for workers. NULL allowed. */
void xd_mover_put(struct xd_mover *m);

/* For struct xt_mem_ops; io_new() and io_submit() there know the mover, and the address. */
struct xt_mem_io *xd_mover_io_new(struct xd_mover *m, void *engine_ctx, uint32_t len,
				  struct xt_mem_pool **pool);
/* check: -EFAULT unless the process has mapped the bytes with the rights for the access. */
void xd_mover_io_submit(struct xt_mem_io *io, uint64_t addr, bool check);
/* The same for parts of a group of pieces. Not for atomics. */
void xd_mover_io_submit_parts(struct xt_mem_io *io, const struct xt_mem_piece *part, uint32_t n,
			      bool check);
void xd_mover_io_free(struct xt_mem_io *io);
bool xd_mover_io_cancel(struct xt_mem_io *io);

/*
 * For struct xt_mem_ops: a mark behind the accesses that were submitted so far, and whether one of
 * those before a mark has not ended, as far as the workers have noticed; false if the mover hangs.
 * mem NULL: to any region. m may be NULL. Any thread, after a grace period or
 * quiesce_keys(), so that it sees what they have submitted.
 */
uint32_t xd_mover_mark(const struct xd_mover *m);
bool xd_mover_in_use(const struct xd_mover *m, const struct xt_mem *mem, uint32_t mark);

/*
 * Lists mappings as xd_proc_maps() does. Waits for the mover, or until it is ended: for jobs of the
 * client.
 */
int xd_mover_maps(struct xd_mover *m, uint64_t start, uint64_t end, struct xd_vma **list,
		  size_t *count);

struct xd_mover_state {
	pid_t pid;
	bool ended;
	uint32_t accesses;   /* under way */
	uint64_t waiting_ns; /* since a worker's oldest access was begun; 0: none is under way */
};
/* Any thread. */
void xd_mover_state(const struct xd_mover *m, struct xd_mover_state *state);

#endif /* XD_MOVER_H */
