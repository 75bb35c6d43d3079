/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes that are read from memory that may have to be waited for, before the packet that needs them
 * is built, or the piece over loopback is moved. If some are not there, they are read, the function
 * returns -EINPROGRESS, and nothing is sent. The QP is resumed when they have arrived, and builds
 * the packet then. Other work of the QP goes on meanwhile.
 *
 * Up to XT_MEM_IO_MAX bytes of a message are read at once, and the next such chunk ahead. Short
 * messages that follow in the send queue, and READs that follow, are read ahead as well, so that
 * they do not wait for one access after the other. Keys are checked when bytes are read, and again
 * when they are used.
 */
#ifndef XT_READS_H
#define XT_READS_H

#include "access.h"

enum xt_reads_for {
	XT_READS_SEND,		/* payload of requests; source of pieces over loopback */
	XT_READS_SEND_AHEAD,	/* payload of later requests, which XT_READS_SEND takes over */
	XT_READS_RESPOND,	/* payload of READ responses */
	XT_READS_RESPOND_AHEAD, /* of later READs, which XT_READS_RESPOND takes over */
	XT_READS,
};

struct xt_reads {
	struct xt_qp *qp;
	uint8_t what;  /* enum xt_reads_for */
	bool used;     /* has accesses, or its room waits for staging memory */
	bool waits;    /* for bytes that are needed now */
	bool repeats;  /* RESPOND: the response was sent before; memory may have changed since */
	uint32_t pass; /* PSN of the packet that is built */
	uint32_t item; /* work request or READ that the accesses are for; AHEAD: the next one */
	uint64_t read_end; /* end of the bytes that may be read ahead, an offset in the region */
	struct xt_list io;
	struct xt_room room;
};

void xt_reads_init(struct xt_reads *r, struct xt_qp *qp, enum xt_reads_for what);
/* Releases all accesses; those not finished are given up. */
void xt_reads_clear(struct xt_reads *r);
/* The packet was sent, or will not be sent. */
static inline void xt_reads_end(struct xt_reads *r)
{
	if (__builtin_expect(r->used, false))
		xt_reads_clear(r);
}
/* Returns those that read ahead for reads that are used to build packets; for these, the same. */
struct xt_reads *xt_reads_ahead_of(const struct xt_reads *r);
/* Bytes are needed that are not there yet. Returns -EINPROGRESS. */
int xt_reads_wait(struct xt_reads *r);
/* The QP does not need the reads for now: others may take their staging memory. */
void xt_reads_idle(struct xt_reads *r);
/*
 * Prepares for the next packet: bytes of a region up to read_end may be read ahead. item, psn: the
 * work request or READ, and the packet.
 */
void xt_reads_fetch(struct xt_reads *r, uint32_t item, uint32_t psn, uint64_t read_end);
/* The same for a piece over loopback: takes over data that was read ahead, reads none ahead. */
void xt_reads_take_over(struct xt_reads *r, uint32_t item);
/*
 * Prepares XT_READS_*_AHEAD to read for the work requests or READs behind @item and before @end.
 * Returns false if it must not read now.
 */
bool xt_reads_look_ahead(struct xt_reads *ahead, uint32_t item, uint32_t end);
/* Returns true if reads of all bytes up to read_end have been started, for this READ. */
bool xt_reads_all(const struct xt_reads *r, uint32_t item);
/* Returns true if the next of them, ahead->item, may be read as well. */
bool xt_reads_may_fetch(const struct xt_reads *ahead, uint32_t end);
/*
 * Starts to read bytes for a later work request or READ, which xt_reads_fetch() takes over when its
 * turn comes. Returns false if there is no staging memory to spare.
 */
bool xt_reads_fetch_ahead(struct xt_reads *ahead, uint32_t item, const struct xt_mem_place *from,
			  uint32_t len);
/* Returns the bytes of a finished read, NULL if none has all of them. */
uint8_t *xt_reads_peek(struct xt_reads *r, const struct xt_mem *mem, uint64_t off, uint64_t len);
/* Copies bytes. Returns 0, a negative errno, or -EINPROGRESS. */
int xt_reads_copy(struct xt_reads *r, const struct xt_mem_place *from, void *dst, size_t len);
/*
 * Returns the bytes at a place, at most *len, which becomes their number. Returns NULL with *err
 * set, -EINPROGRESS: they are not there yet.
 */
const uint8_t *xt_reads_bytes(struct xt_reads *r, const struct xt_mem_place *from, uint64_t *len,
			      int *err);

#endif /* XT_READS_H */
