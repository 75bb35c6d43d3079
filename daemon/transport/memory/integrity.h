/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Integrity regions: memory behind the interface of memory.h whose bytes are a stream of blocks as
 * it is on the wire (ring.h). Its pieces are in other regions, whose keys are checked at each
 * access.
 *
 * Reading can start anywhere: what a byte depends on is read from memory again, so packets may be
 * built in any order. Bytes are written in the order of the stream, because a CRC needs the bytes
 * before: a write starts at a block or where an earlier write ended. Requests and READ responses
 * are executed in the order of their PSNs, whatever the network does. A packet that could not be
 * written (put.h) finds the state before its bytes, and writes the same again.
 *
 * A region belongs to the QP that registered it (xr_key_entry.qpn), so one engine at a time uses
 * it.
 */
#ifndef XT_INTEGRITY_H
#define XT_INTEGRITY_H

#include "memory.h"
#include "signature.h"

struct xt_keys;

/* Bytes of the stream that are copied at once; most bytes of a piece over loopback */
#define XT_INTEGRITY_BUFFER 4096u
#define XT_INTEGRITY_MOVE 16384u

/*
 * Positions in the stream at which a write may continue: before a packet or a piece over loopback,
 * and behind each copy of it
 */
#define XT_INTEGRITY_STATES (1 + XR_MAX_SGE + XT_INTEGRITY_MOVE / XT_INTEGRITY_BUFFER)

struct xt_integrity_state {
	uint64_t next; /* offset of the byte that follows; 0: not used */
	struct xt_sig_sum sum;
	uint8_t pi[XT_SIG_MAX]; /* the bytes of PI so far */
};

struct xt_integrity_piece {
	uint64_t off; /* in the data or the PI */
	struct xr_sge sge;
};

struct xt_integrity {
	struct xt_keys *keys;
	struct xr_integrity *shared; /* with the client; has lists of max_pieces */
	uint32_t max_pieces;
	struct xt_integrity_piece *piece; /* room for max_pieces */
	/* set by the registration */
	uint32_t pd, qpn;
	struct xr_signature memory, wire;
	uint32_t block;	    /* bytes of data */
	uint32_t in_memory; /* bytes from block to block in the pieces of data */
	uint32_t on_wire;   /* bytes from block to block in the stream */
	uint32_t data_pieces, pi_pieces;
	/* set by accesses */
	bool failed;	     /* the first error is in shared */
	uint32_t next_state; /* the one to be replaced next */
	struct xt_integrity_state state[XT_INTEGRITY_STATES];
};

/*
 * Copies the list of a registration (list: 0 or 1) of len bytes on the wire. Returns false if it is
 * invalid.
 */
bool xt_integrity_load(struct xt_integrity *in, uint32_t list, uint64_t len);

/* As xt_mem_read() and xt_mem_write(), at an offset of the stream. */
int xt_integrity_read(struct xt_reads *reads, struct xt_integrity *in, uint64_t off, void *dst,
		      size_t len);
int xt_integrity_write(struct xt_put *put, struct xt_integrity *in, uint64_t off, const void *src,
		       size_t len);
/* As xt_mem_copy(), if at least one side is an integrity region. */
int xt_integrity_copy(struct xt_put *put, const struct xt_mem_at *dst, const struct xt_mem_at *src,
		      uint64_t len, bool *src_failed);

#endif /* XT_INTEGRITY_H */
