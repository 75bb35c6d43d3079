/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues (rings) and doorbells in memory that the daemon shares with a client. docs/rings.md shows
 * how to use them.
 *
 * Each queue has one producer and one consumer:
 *
 *   SQ, RQ, SRQ   the client produces work requests, the daemon consumes them
 *   CQ            the daemon produces completions, the client consumes them
 *
 *   +--------------------- struct xr_queue, 4 cache lines ---------------------+
 *   | geometry (informative) | producer | consumer | arm bits or QP state       |
 *   +---------------------------------------------------------------------------+
 *   | entry 0 | entry 1 | ... `depth` entries of `stride` bytes
 *
 * Memory order
 *   `producer` and `consumer` count modulo 2^32; entry i is in slot i & (depth - 1). The producer
 *   writes the entry and stores `producer` with release. The consumer loads `producer` with
 *   acquire, reads the entries and stores `consumer` with release. The producer loads `consumer`
 *   with acquire before it reuses a slot. producer - consumer is always 0 to depth.
 *
 * Trust
 *   The daemon does not trust the client. It keeps the geometry and its own index in private
 *   memory and never reads them from the shared memory. It loads the client's index once per use
 *   and treats a queue whose indices are further apart than `depth` as corrupt (fatal event for the
 *   QP or CQ). It copies an entry once and checks the copy.
 *
 * Byte order: host, except immediate data, which are __be32 as in verbs. Lengths are in bytes.
 * The memory is part of a chunk that the daemon creates: struct xr_shm_ref in control.h.
 */
#ifndef XROCE_RING_H
#define XROCE_RING_H

#include <linux/types.h>

#define XR_CACHELINE 64

struct xr_queue {
	/* written once by the daemon; only debuggers read it */
	__u32 magic;	   /* XR_QUEUE_MAGIC */
	__u32 depth;	   /* entries, a power of two */
	__u32 stride;	   /* bytes from entry to entry */
	__u32 entries_off; /* bytes from here to entry 0 */
	__u8 pad0[XR_CACHELINE - 16];

	__u32 producer __attribute__((aligned(XR_CACHELINE)));
	__u8 pad1[XR_CACHELINE - 4];

	__u32 consumer __attribute__((aligned(XR_CACHELINE)));
	__u8 pad2[XR_CACHELINE - 4];

	/*
	 * CQ: XR_ARM_* bits. The client sets them (fetch_or), executes a full fence and loads
	 * `producer`; if there are unpolled completions, it rings the doorbell of the QP of one of
	 * them. The daemon stores `producer`, executes a full fence and reads the bits; if one of
	 * them requests an event for this completion, or for an unpolled one when the doorbell was
	 * rung, it replaces the word by 0 and sends one event.
	 *
	 * SQ, RQ: state of the QP (enum xr_qp_state). The daemon stores it before it flushes the
	 * queue. The client stores `producer`, executes a full fence and reads the state. It rings
	 * the doorbell for an SQ always, for an RQ only in ERR.
	 */
	__u32 word __attribute__((aligned(XR_CACHELINE)));
	__u8 pad3[XR_CACHELINE - 4];
};

#define XR_QUEUE_MAGIC 0x51727878u
#define XR_ARM_SOLICITED 1u
#define XR_ARM_ANY 2u

/*
 * Doorbells: one struct for each client and worker. Each QP has a slot, assigned when it is
 * created. A client that has stored `producer` rings the doorbell:
 *
 *   old = fetch_or(bits2[slot / 64], 1 << slot % 64)       (full fence)
 *   if the bit was clear in old: the same in bits1[slot / 4096], then in bits0
 *   full fence; if `sleeping` is not 0: write 8 bytes to the worker's eventfd
 *
 * The worker exchanges the words with 0 from bits0 down and then reads the producer indices of the
 * slots that it found. Before it sleeps or stops polling the doorbell, it stores 1 in `sleeping`,
 * executes a full fence and reads bits0 again, so that no ring is lost. Setting a bit is
 * idempotent, so that doorbells cannot overflow.
 */
#define XR_DB_SLOTS (64 * 64 * 64)
struct xr_doorbell {
	__u64 bits0 __attribute__((aligned(XR_CACHELINE)));
	__u32 sleeping __attribute__((aligned(XR_CACHELINE)));
	__u64 bits1[64] __attribute__((aligned(XR_CACHELINE)));
	__u64 bits2[64 * 64] __attribute__((aligned(XR_CACHELINE)));
};

/* Scatter/gather element, as struct ibv_sge */
struct xr_sge {
	__u64 addr;
	__u32 length;
	__u32 lkey;
};

/* Send work request operations: the values of enum ibv_wr_opcode */
enum xr_wr_opcode {
	XR_WR_RDMA_WRITE = 0,
	XR_WR_RDMA_WRITE_WITH_IMM = 1,
	XR_WR_SEND = 2,
	XR_WR_SEND_WITH_IMM = 3,
	XR_WR_RDMA_READ = 4,
	XR_WR_ATOMIC_CMP_AND_SWP = 5,
	XR_WR_ATOMIC_FETCH_AND_ADD = 6,
	XR_WR_LOCAL_INV = 7,
	XR_WR_BIND_MW = 8,
	XR_WR_SEND_WITH_INV = 9,
	XR_WR_FLUSH = 14,
	XR_WR_ATOMIC_WRITE = 15,
	XR_WR_REG_MR = 0x20,	    /* fast registration; not in verbs */
	XR_WR_REG_INTEGRITY = 0x21, /* registration of an integrity region; not in verbs */
};

/* The values of enum ibv_send_flags */
#define XR_SEND_FENCE 0x01
#define XR_SEND_SIGNALED 0x02
#define XR_SEND_SOLICITED 0x04
#define XR_SEND_INLINE 0x08

/*
 * Send queue entry: this header, then num_sge struct xr_sge or, with XR_SEND_INLINE, inline_len
 * bytes of data. The stride is xr_send_stride().
 */
struct xr_send_wqe {
	__u64 wr_id;
	__u8 opcode; /* enum xr_wr_opcode */
	__u8 flags;  /* XR_SEND_* */
	__u16 num_sge;
	__u32 inline_len;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey; /* SEND_WITH_INV: key of the peer; LOCAL_INV: own key */
	};
	__u32 rkey;	   /* RDMA and atomics */
	__u64 remote_addr; /* RDMA and atomics; bind and reg: first address of window or region */
	union {
		struct {
			__u64 compare_add;
			__u64 swap;
		} atomic;
		struct {
			__u32 ah; /* handle */
			__u32 remote_qpn;
			__u32 remote_qkey;
		} ud;
		struct {
			__u32 length; /* bytes of the range */
			__u8 type;    /* XR_FLUSH_GLOBAL, XR_FLUSH_PERSISTENT (wire.h) */
			__u8 level;   /* XR_FLUSH_RANGE, XR_FLUSH_MR */
		} flush;
		struct {
			__u32 mw_rkey;	/* of the window; bits 7:0 are ignored */
			__u32 new_rkey; /* of the same window, with a new variant */
			__u32 mr_lkey;	/* 0 with length 0, which unbinds a type 1 window */
			__u32 access;	/* XR_ACCESS_REMOTE*, XR_ACCESS_ZERO_BASED */
		} bind;
		struct {
			__u32 key;	 /* of the region, with its new variant */
			__u32 access;	 /* XR_ACCESS_LOCAL_WRITE, _REMOTE*, _MW_BIND */
			__u32 pages;	 /* number of pages, or of pieces; integrity: not used */
			__u8 list;	 /* list of the region, 0 or 1 */
			__u8 page_shift; /* XR_FAST_SHIFT_MIN..MAX, or XR_FAST_PIECES */
			__u16 reserved;
		} reg;
	};
	__u64 bind_len; /* bind, reg: bytes */
	__u32 xrc_srqn; /* XRC: SRQ of the peer */
	__u32 reserved;
};

/* Receive queue entry: this header, then num_sge struct xr_sge. The stride is xr_recv_stride(). */
struct xr_recv_wqe {
	__u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

/*
 * vendor_err of completions: the cause of an error in more detail than the status, for diagnosis.
 * Bits 7:0 are one of these values, bits 15:8 the detail named in the comment.
 */
enum xr_vendor_err {
	XR_VERR_NONE = 0,
	XR_VERR_BAD_OPCODE = 1, /* WR: unknown opcode, or not allowed for the QP */
	XR_VERR_BAD_SGE_COUNT = 2,
	XR_VERR_BAD_INLINE = 3,
	XR_VERR_BAD_LENGTH = 4, /* message above 2^31 bytes, atomic not of 8 bytes */
	XR_VERR_LKEY = 5,	/* detail: enum xr_reason */
	XR_VERR_MEMORY = 6,	/* memory of a region is no longer accessible */
	XR_VERR_TIMEOUT = 7,
	XR_VERR_NAK = 8, /* detail: enum xr_nak */
	XR_VERR_RQ_TOO_SMALL = 9,
	XR_VERR_BAD_RESPONSE = 10, /* unexpected response packet */
	XR_VERR_AH = 11,	   /* no such address handle, or of another protection domain */
	XR_VERR_BIND = 12,	   /* memory window; detail: enum xr_reason */
	XR_VERR_INVALIDATE = 13,   /* key to be invalidated; detail: enum xr_reason */
	XR_VERR_REGISTER = 14,	   /* fast registration; detail: enum xr_reason */
	XR_VERR_INJECTED = 15,	   /* an injected fault */
};

/*
 * Completion queue entry. status, opcode and wc_flags have the values of enum ibv_wc_status, enum
 * ibv_wc_opcode and enum ibv_wc_flags.
 */
struct xr_cqe {
	__u64 wr_id;
	__u64 timestamp; /* ns, CLOCK_MONOTONIC */
	__u32 status;
	__u32 opcode;
	__u32 vendor_err; /* enum xr_vendor_err */
	__u32 byte_len;
	union {
		__be32 imm_data;
		__u32 invalidated_rkey;
	};
	__u32 qpn;
	__u32 src_qpn; /* UD */
	__u16 wc_flags;
	__u16 pkey_index;
	__u32 wqe_index; /* index of the completed entry, modulo 2^32; not for SRQs */
	__u8 is_recv;	 /* the entry is of the RQ or SRQ, otherwise of the SQ */
	__u8 sl;
	__u8 reserved[2];
	__u32 srqn; /* XRC receive: number of the SRQ, otherwise 0 */
};

_Static_assert(sizeof(struct xr_queue) == 4 * XR_CACHELINE, "queue layout");
_Static_assert(sizeof(struct xr_send_wqe) == 64, "send entry layout");
_Static_assert(sizeof(struct xr_recv_wqe) == 16, "receive entry layout");
_Static_assert(sizeof(struct xr_cqe) == 64, "completion layout");
_Static_assert(sizeof(struct xr_sge) == 16, "sge layout");

/*
 * The reserved L_Key (IBTA 10.6.3) covers all memory of a client in any protection domain, with the
 * access rights of the memory itself. A client may use it after the request RESERVED_LKEY. Its
 * index is 0, which no region has, so as an R_Key and in a bind or an invalidation the key does not
 * exist. It is refused in XRC SRQs, because QPs of other processes consume their entries.
 */
#define XR_RESERVED_LKEY 0xffu

/* Limits of one queue */
#define XR_MAX_SGE 32
#define XR_MAX_INLINE 1024
#define XR_MAX_WR 32768 /* entries of an SQ, RQ or SRQ */
#define XR_MAX_CQE (1 << 20)

/*
 * Fast registration: a region has XR_FAST_LISTS page lists in shared memory. Each has max_pages
 * addresses (__u64) in the client's address space, which are multiples of the page size. The daemon
 * reads a list when it executes the work request; the client must not change the list until the
 * work request has completed.
 */
#define XR_FAST_LISTS 2
#define XR_FAST_MAX_PAGES 4096
#define XR_FAST_SHIFT_MIN 12 /* log2 of the page size */
#define XR_FAST_SHIFT_MAX 30

/*
 * With page shift XR_FAST_PIECES the list has pieces instead of pages: pairs of an address and a
 * length in bytes, without alignment. A page list has room for half as many pieces. A piece ends
 * below XR_PIECE_END. The daemon accesses short pieces in groups. To bound the number of groups in
 * a message, a group that has XR_GROUP_PIECES and could take the next piece must have at least half
 * of XR_GROUP_BYTES.
 */
#define XR_FAST_PIECES 0
#define XR_PIECE_END (1ull << 52)
#define XR_GROUP_PIECES 256
#define XR_GROUP_BYTES 2048u

struct xr_piece_group {
	__u32 pieces, bytes; /* 0 pieces: the last piece was too long for a group */
};

enum xr_piece_place { XR_PIECE_ALONE, XR_PIECE_FIRST, XR_PIECE_JOINS, XR_PIECE_TOO_SHORT };

/* Adds a piece, behind those added before, to the group, or begins another group with it. */
static inline enum xr_piece_place xr_piece_add(struct xr_piece_group *g, __u64 len)
{
	__u32 bytes = g->bytes;

	if (len > XR_GROUP_BYTES) {
		*g = (struct xr_piece_group){ 0, 0 };
		return XR_PIECE_ALONE;
	}
	if (g->pieces && bytes + len <= XR_GROUP_BYTES) {
		if (g->pieces < XR_GROUP_PIECES) {
			g->pieces++;
			g->bytes += (__u32)len;
			return XR_PIECE_JOINS;
		}
		if (bytes < XR_GROUP_BYTES / 2)
			return XR_PIECE_TOO_SHORT;
	}
	*g = (struct xr_piece_group){ 1, (__u32)len };
	return XR_PIECE_FIRST;
}

/*
 * Integrity regions: their bytes are a stream of blocks as it is on the wire. Each block is data
 * and behind it, if the wire side has a signature, its protection information (PI). In memory the
 * same data is in pieces, with other PI or without. The shared memory of a region is struct
 * xr_integrity and XR_FAST_LISTS lists, each with room for the same number of pieces. The daemon
 * reads a list when it executes the work request, as for fast registration.
 */
enum xr_signature_type {
	XR_SIG_NONE,  /* no PI */
	XR_SIG_DIF_1, /* T10-DIF: 8 bytes, big endian: guard (CRC16), application, reference tag */
	XR_SIG_DIF_2,
	XR_SIG_DIF_3,
	XR_SIG_CRC32,  /* 4 bytes, little endian: CRC32 of IEEE 802.3 */
	XR_SIG_CRC32C, /* the same with the polynomial of Castagnoli (iSCSI) */
	XR_SIG_TYPES,
};

/* Fields that are checked. The CRC of a block counts as its guard. */
#define XR_SIG_CHECK_GUARD 1
#define XR_SIG_CHECK_APP_TAG 2
#define XR_SIG_CHECK_REF_TAG 4

struct xr_signature {
	__u8 type;  /* enum xr_signature_type */
	__u8 check; /* XR_SIG_CHECK_* */
	__u16 app_tag;
	__u16 app_mask; /* bits of the application tag that are checked */
	__u16 reserved;
	__u32 ref_tag; /* of the first block; types 1 and 2: the next block has the next number */
	__u32 seed;    /* first value of the CRC's register; T10-DIF: 16 bits */
};

#define XR_INTEGRITY_MAX_PIECES 1024
#define XR_INTEGRITY_MAX_BLOCK 4104u /* bytes of data */

struct xr_integrity_list {
	struct xr_signature memory, wire;
	__u32 block;	   /* bytes of data: 512, 520, 4096 or 4104 */
	__u32 data_pieces; /* number of pieces */
	__u32 pi_pieces;   /* pieces behind them with the PI; 0: it is behind the data of a block */
	__u32 reserved;
	struct xr_sge piece[];
};

enum xr_integrity_kind {
	XR_INTEGRITY_OK,
	XR_INTEGRITY_GUARD,
	XR_INTEGRITY_APP_TAG,
	XR_INTEGRITY_REF_TAG,
	XR_INTEGRITY_SIGNATURE, /* CRC32 or CRC32C of a block */
};

/*
 * The first error since the last registration. The daemon stores `kind` last, before the completion
 * of the work request or receive that the data belongs to.
 */
struct xr_integrity {
	__u32 kind; /* enum xr_integrity_kind */
	__u32 expected, actual;
	__u32 reserved;
	__u64 offset; /* of the block in the region */
	__u8 pad[XR_CACHELINE - 24];
};

/* Returns the bytes from one list to the next. */
static inline __u32 xr_integrity_stride(__u32 max_pieces)
{
	return (__u32)(sizeof(struct xr_integrity_list) + max_pieces * sizeof(struct xr_sge));
}

/* Returns list 0 or 1 of a region's shared memory. */
static inline struct xr_integrity_list *xr_integrity_list(struct xr_integrity *shared, __u32 list,
							  __u32 max_pieces)
{
	return (struct xr_integrity_list *)((__u8 *)(shared + 1) +
					    (__u64)list * xr_integrity_stride(max_pieces));
}

/* Returns the bytes of PI of a block. */
static inline __u32 xr_signature_len(__u32 type)
{
	if (type == XR_SIG_NONE)
		return 0;
	return type <= XR_SIG_DIF_3 ? 8 : 4;
}

/* Returns true if a signature is valid: types and checks exist, and type 3 checks no reference. */
static inline int xr_signature_valid(const struct xr_signature *s)
{
	__u32 all = XR_SIG_CHECK_GUARD;

	if (s->type >= XR_SIG_TYPES)
		return 0;
	if (s->type == XR_SIG_NONE)
		all = 0;
	else if (s->type <= XR_SIG_DIF_3)
		all |= XR_SIG_CHECK_APP_TAG;
	if (s->type == XR_SIG_DIF_1 || s->type == XR_SIG_DIF_2)
		all |= XR_SIG_CHECK_REF_TAG;
	return !(s->check & ~all) && (xr_signature_len(s->type) != 8 || s->seed <= 0xffff);
}

static inline int xr_integrity_block_valid(__u32 block)
{
	return block == 512 || block == 520 || block == 4096 || block == 4104;
}

/* Returns the stride of an SQ: header and SGEs or inline data, rounded up to 64 bytes. */
static inline __u32 xr_send_stride(__u32 max_sge, __u32 max_inline)
{
	__u32 room = max_sge * (__u32)sizeof(struct xr_sge);

	if (room < max_inline)
		room = max_inline;
	return ((__u32)sizeof(struct xr_send_wqe) + room + 63) & ~63u;
}

/* Returns the stride of an RQ or SRQ. */
static inline __u32 xr_recv_stride(__u32 max_sge)
{
	return (__u32)(sizeof(struct xr_recv_wqe) + max_sge * sizeof(struct xr_sge));
}

_Static_assert(sizeof(struct xr_integrity) == XR_CACHELINE, "integrity layout");
_Static_assert(sizeof(struct xr_integrity_list) == 48, "integrity list layout");

#endif /* XROCE_RING_H */
