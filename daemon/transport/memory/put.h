/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes on their way to memory: the payload of one packet, or of one piece over loopback. A packet
 * never waits in its middle: its payload is put as a whole, or the packet has no effect but that
 * mapped bytes of it may be stored, which it stores again later. Bytes in mapped memory are stored
 * at once. All others are copied to staging memory, and xt_put_commit() starts accesses, which
 * become *posted writes* of that side of the QP (waiting/posted.h). If a byte of the source is not
 * there yet, or there is no staging memory, the put `waits`: nothing is started, and the packet or
 * piece is executed later, from its beginning.
 *
 * The order of writes of one side of a QP:
 *
 * - The last bytes of a message are stored after all others of it, and after those of earlier
 *   messages, because programs poll them. Other bytes have no order before the message completes.
 * - Bytes that are written twice end as written last.
 *
 * Accesses take effect in the order of their start. So while writes are posted, the end of a
 * message is posted as well, even if it is mapped; and while that has not ended, so are all mapped
 * bytes. While writes to another region are posted, all mapped bytes are, as both may have the same
 * memory: the mapped and the other bytes of one region differ. Mapped memory that accesses cannot
 * reach (struct xt_mem_seg.addressed) is device memory, or memory that the program has not mapped:
 * no program polls it, and it is stored at once.
 *
 * Keys are checked when bytes are put. Accesses that have started take effect even if the key is
 * gone.
 */
#ifndef XT_PUT_H
#define XT_PUT_H

#include "access.h"

enum xt_qp_side { XT_RESPONDER, XT_REQUESTER, XT_QP_SIDES };

struct xt_put {
	struct xt_qp *qp; /* whose posted writes the accesses become */
	uint8_t side;	  /* enum xt_qp_side */
	uint8_t kind;	  /* enum xt_wr_kind of the message */
	bool last;	  /* the bytes that are written now end a message */
	bool waits;	  /* it cannot be done now */
	uint32_t psn, msn;
	struct xt_reads *reads; /* of a source that is not mapped; NULL: the source is a packet */
	struct xt_room *room;	/* waits for staging memory */
	const struct xt_integrity *through; /* while it is written: an integrity region */
	struct xt_list io;		    /* accesses that are not started */
};

/*
 * psn: of the packet. The responder also sets put->msn: number of the messages before it, as the
 * ACK of what is before it has that.
 */
void xt_put_begin(struct xt_put *put, struct xt_qp *qp, enum xt_qp_side side, uint32_t psn);
/* Starts the accesses. */
void xt_put_commit(struct xt_put *put);
/* Does without them. */
void xt_put_drop(struct xt_put *put);

static inline bool xt_put_is_empty(const struct xt_put *put)
{
	return put->io.next == &put->io;
}

/* Returns the last access, NULL: all bytes are stored. */
static inline struct xt_mem_io *xt_put_last(const struct xt_put *put)
{
	return xt_put_is_empty(put) ? NULL : XT_IO_OF(put->io.prev);
}

/* Returns true if writes of its side are posted. */
bool xt_put_has_posted(const struct xt_put *put);
/* Returns true if mapped bytes must not be stored at once. */
bool xt_put_posts_mapped(const struct xt_put *put, const struct xt_mem_place *to);
/*
 * Adds accesses that write bytes from offset @skip of a list, at most XT_MEM_IO_MAX each, or sets
 * put->waits. Returns 0 or a negative errno; XT_PUT_ABSENT: the mapped memory that is read is
 * absent; XT_PUT_UNREACHED: no accesses reach the mapped memory that is written.
 */
#define XT_PUT_ABSENT (-ENXIO)
#define XT_PUT_UNREACHED (-ENODEV)
int xt_put_write(struct xt_put *put, const struct xt_mem_place *to, const struct xt_seg *from,
		 uint64_t skip, size_t len);
/* Adds an atomic. Its result is that of the access. */
struct xt_put_atomic {
	uint8_t op; /* enum xt_mem_op */
	uint64_t compare, value;
};
int xt_put_atomic(struct xt_put *put, const struct xt_mem_place *p, const struct xt_put_atomic *a);

#endif /* XT_PUT_H */
