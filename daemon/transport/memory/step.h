/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accesses of a QP to memory that may have to be waited for (struct xt_mem_io).
 *
 * A step is work of a QP that is done as a whole: building a packet, executing a request, placing a
 * response, moving a piece over loopback. If a step needs such memory, the access is started, the
 * memory function returns -EINPROGRESS, and the step ends without effect: that side of the QP is
 * parked. When the access has finished, the step is executed again from its start. It then finds
 * the results of its finished accesses and continues. Other work of the QP goes on meanwhile.
 *
 * Keys are checked when accesses start. If all writes of a step have started, the step is settled:
 * it uses only their results when it is executed again, and checks no keys. The program sees the
 * written bytes before that, and may deregister or invalidate their memory.
 *
 * Steps that build packets read up to XT_MEM_IO_MAX bytes of the message at once, and the next
 * such chunk ahead. Short messages that follow in the send queue are read ahead as well, so that
 * they do not wait for one access after the other. Steps that place the payload of a packet may
 * post their writes: the step does not wait for them, see park.h.
 */
#ifndef XT_STEP_H
#define XT_STEP_H

#include "memory.h"

struct xt_qp;

/* The access of an element of xt_step.io or xt_park.posted */
#define XT_IO_OF(l) ((struct xt_mem_io *)((char *)(l)-offsetof(struct xt_mem_io, link)))

enum xt_step_role {
	XT_STEP_SEND,	       /* payload of requests; pieces over loopback */
	XT_STEP_AHEAD,	       /* payload of later requests, which XT_STEP_SEND takes over */
	XT_STEP_RESPOND,       /* payload of READ responses */
	XT_STEP_RESPOND_AHEAD, /* of later READs, which XT_STEP_RESPOND takes over */
	XT_STEP_EXECUTE,       /* requests of the peer */
	XT_STEP_POST,	       /* the same, with posted writes */
	XT_STEP_PLACE,	       /* results of atomics */
	XT_STEP_PLACE_POST,    /* READ responses; writes are posted */
	XT_STEP_ENDING,	       /* holds writes of the others that were given up, see ending.h */
	XT_STEPS,
};

struct xt_step {
	struct xt_qp *qp;
	uint8_t role;	  /* enum xt_step_role */
	bool used;	  /* has accesses, a result of an atomic, or waits for staging memory */
	bool waiting;	  /* was executed, and must be executed again */
	bool settled;	  /* waits only for the results of its writes or its atomic */
	bool delayed;	  /* in this execution: some access could not start yet */
	bool fenced;	  /* earlier writes are posted: mapped memory must not be written yet */
	bool last;	  /* the bytes that are written now end a message */
	bool no_post;	  /* until the step ends, its writes are not posted */
	bool repeats;	  /* RESPOND: the response was sent before; memory may have changed since */
	bool atomic_done; /* the atomic of this step was executed; it must not be repeated */
	/* pieces over loopback: the step whose posted writes they become; NULL: none is posted */
	struct xt_step *post;
	uint32_t full; /* pieces over loopback: bytes of all pieces but the last */
	uint32_t pass; /* execution of this step, or PSN of the packet that it builds */
	uint32_t item; /* work request or READ that the accesses are for; AHEAD: the next one */
	uint64_t atomic_old;		    /* its result */
	const struct xt_integrity *through; /* while it is written: an integrity region */
	uint64_t read_end; /* end of the bytes that may be read ahead, an offset in the region */
	struct xt_list io; /* accesses */
	struct xt_list room_link; /* in xt_mem_pool.waiting */
};

void xt_step_init(struct xt_step *s, struct xt_qp *qp, enum xt_step_role role);
/* Releases all accesses; those not finished are given up. */
void xt_step_clear(struct xt_step *s);
/* The step was done, or will not be executed again. */
static inline void xt_step_end(struct xt_step *s)
{
	if (__builtin_expect(s->used, false))
		xt_step_clear(s);
}
/* The step must be executed again. */
void xt_step_park(struct xt_step *s);
/* The QP does not need the step's reads for now: others may take their staging memory. */
void xt_step_idle(struct xt_step *s);
/*
 * Prepares a step that builds packets for its next packet: bytes of a region up to read_end may be
 * read ahead. item, psn: the work request or READ, and the packet.
 */
void xt_step_fetch(struct xt_step *s, uint32_t item, uint32_t psn, uint64_t read_end);
/* The same for a piece over loopback: takes over data that was read ahead, reads none ahead. */
void xt_step_take_over(struct xt_step *s, uint32_t item);
/*
 * Prepares a step XT_STEP_*_AHEAD to read for the work requests or READs behind @item and before
 * @end. Returns false if it must not read now.
 */
bool xt_step_look_ahead(struct xt_step *ahead, uint32_t item, uint32_t end);
/* Returns true if reads of all bytes up to read_end have been started, for this READ. */
bool xt_step_reads_all(const struct xt_step *s, uint32_t item);
/* Returns true if the next of them, ahead->item, may be read as well. */
bool xt_step_may_fetch(const struct xt_step *ahead, uint32_t end);
struct xt_step_place;
/*
 * Starts to read bytes for a later work request or READ, which xt_step_fetch() takes over when its
 * turn comes. Returns false if there is no staging memory to spare.
 */
bool xt_step_fetch_ahead(struct xt_step *ahead, uint32_t item, const struct xt_step_place *from,
			 uint32_t len);
/* Returns the bytes of a finished read, NULL if none has all of them. */
uint8_t *xt_step_peek(struct xt_step *s, const struct xt_mem *mem, uint64_t off, uint64_t len);

/* A place in a segment without ptr, whose ops have io_new() */
struct xt_step_place {
	struct xt_mem *mem;
	const struct xt_mem_seg *seg;
	uint64_t off; /* in the region */
};

/*
 * These return 0, a negative errno, or -EINPROGRESS if the step must be parked. The mapped memory
 * that xt_step_write() reads may be absent: XT_STEP_ABSENT.
 */
#define XT_STEP_ABSENT (-ENXIO)
int xt_step_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len);
/* The same into mapped memory of a program, in the order of xt_guard_place() */
int xt_step_place_read(struct xt_step *s, const struct xt_step_place *from, void *dst, size_t len,
		       bool *src_failed);
/* Writes bytes from offset @skip of a list. */
int xt_step_write(struct xt_step *s, const struct xt_step_place *to, const struct xt_seg *from,
		  uint64_t skip, size_t len);
/* len: at most XT_MEM_IO_MAX. *src_failed: as xt_mem_copy() */
int xt_step_copy(struct xt_step *s, const struct xt_step_place *to,
		 const struct xt_step_place *from, uint32_t len, bool *src_failed);
/* An atomic; a step has one at most. If 0 is returned, the result is in s->atomic_old. */
struct xt_step_atomic {
	uint8_t op; /* enum xt_mem_op */
	uint64_t compare, value;
};
int xt_step_atomic(struct xt_step *s, const struct xt_step_place *p,
		   const struct xt_step_atomic *a);
/* The atomic of the step was executed otherwise; old: its result. */
void xt_step_executed(struct xt_step *s, uint64_t old);
/*
 * The step has started its writes as far as it can, and must wait. It is settled if there is
 * nothing left that it could not start.
 */
void xt_step_written(struct xt_step *s);
/* Result of a settled step: 0, a negative errno of its first access that failed, or -EINPROGRESS */
int xt_step_result(struct xt_step *s);
/* The same for the atomic of a settled step; the result is in s->atomic_old. */
int xt_step_atomic_result(struct xt_step *s);
/*
 * Returns 0 if mapped memory may be written now, else -EINPROGRESS: bytes before it are not in
 * memory. For steps that are fenced, or that end a message.
 */
int xt_step_fence(struct xt_step *s);
/* Returns true if writes of requests before the one that the responder is executing are posted. */
bool xt_posted_before(const struct xt_qp *qp);

/* The QP forgets the writes of XT_STEP_ENDING, as it will be freed. */
void xt_step_forget(struct xt_qp *qp);
/* Releases one access. A write that is being executed is kept until it has ended, see ending.h. */
void xt_io_free(struct xt_mem_io *io);

/* The QP goes on in the next xt_engine_run(). */
void xt_resume_later(struct xt_qp *qp);

#endif /* XT_STEP_H */
