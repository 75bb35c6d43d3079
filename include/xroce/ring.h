/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues in shared memory, between the provider (in the program's process)
 * and the daemon. Every queue is one producer, one consumer:
 *
 *   SQ, RQ, SRQ   provider produces work requests, daemon consumes
 *   CQ            daemon produces completions, provider consumes
 *
 *   +--------------------- struct xr_queue, 4 cache lines ---------------------+
 *   | geometry (informative) | producer | consumer | arm and state words       |
 *   +---------------------------------------------------------------------------+
 *   | entry 0 | entry 1 | ... depth entries of `stride` bytes, depth a power of 2
 *
 * Memory order
 *   Indices run freely modulo 2^32; entry i lives at slot i & (depth - 1). The
 *   producer writes the entry, then stores `producer` with release. The
 *   consumer loads `producer` with acquire, reads the entries, then stores
 *   `consumer` with release; the producer loads it with acquire before it
 *   writes a slot again. producer - consumer is 0..depth at all times.
 *
 * Trust
 *   The provider's side is not trusted. The daemon keeps geometry and its own index in private
 *   memory, never reads them back from here, loads the provider's index once,
 *   takes a queue whose distance exceeds depth as corrupt (QP or CQ fatal
 *   event), and copies each entry once before it looks at it.
 *
 * Doorbells
 *   See struct xr_doorbell below.
 *
 * Byte order: host, but for immediate data, which is __be32 as in verbs.
 * The memory comes from chunks that the daemon makes and both map; see
 * struct xr_shm_ref in control.h.
 */
#ifndef XROCE_RING_H
#define XROCE_RING_H

#include <linux/types.h>

#define XR_CACHELINE 64

struct xr_queue {
	/* written once by the daemon, for people with a debugger */
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
	 * CQ: XR_ARM_* bits. The provider sets them (fetch_or), a full fence,
	 * then polls once more. The daemon stores `producer`, a full fence, then
	 * looks; it takes the bits with an exchange and sends one event.
	 *
	 * SQ, RQ: the QP's state as the daemon sees it (enum xr_qp_state), stored
	 * before it drains the queue for flushing. The provider stores `producer`,
	 * a full fence, then looks: in ERR (and for an RQ only then) it rings the doorbell.
	 */
	__u32 word __attribute__((aligned(XR_CACHELINE)));
	__u8 pad3[XR_CACHELINE - 4];
};

#define XR_QUEUE_MAGIC 0x51727878u
#define XR_ARM_SOLICITED 1u
#define XR_ARM_ANY 2u

/*
 * Doorbells: one struct for each (client, worker). A QP has a slot, given at
 * its creation. To ring, after `producer` was stored:
 *
 *   leaf = fetch_or(bits2[slot / 64], 1 << slot % 64)      (full fence)
 *   if the bit was clear: the same in bits1[slot / 4096], then bits0
 *   full fence; if `sleeping` is not 0: write 8 bytes to the worker's eventfd
 *
 * The worker exchanges each word with 0 from the top down, then reads the
 * producer indices of the slots it found. Before it sleeps it stores
 * `sleeping` = 1, a full fence, and looks at bits0 once more. Setting a bit is
 * idempotent: doorbells cannot overflow, and a lost eventfd write cannot happen
 * because the worker looks after it announced its sleep.
 */
#define XR_DB_SLOTS (64 * 64 * 64)
struct xr_doorbell {
	__u64 bits0 __attribute__((aligned(XR_CACHELINE)));
	__u32 sleeping __attribute__((aligned(XR_CACHELINE)));
	__u64 bits1[64] __attribute__((aligned(XR_CACHELINE)));
	__u64 bits2[64 * 64] __attribute__((aligned(XR_CACHELINE)));
};

/* Scatter/gather element, struct ibv_sge */
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
	XR_WR_REG_MR = 0x20, /* fast registration; no verbs value */
};

/* The values of enum ibv_send_flags */
#define XR_SEND_FENCE 0x01
#define XR_SEND_SIGNALED 0x02
#define XR_SEND_SOLICITED 0x04
#define XR_SEND_INLINE 0x08

/*
 * Send queue entry: this header, then num_sge struct xr_sge, or with
 * XR_SEND_INLINE inline_len bytes of data. stride = 64 + room for either,
 * rounded up to 64.
 */
struct xr_send_wqe {
	__u64 wr_id;
	__u8 opcode; /* enum xr_wr_opcode */
	__u8 flags;  /* XR_SEND_* */
	__u16 num_sge;
	__u32 inline_len;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey; /* SEND_WITH_INV the peer's, LOCAL_INV our own */
	};
	__u32 rkey; /* RDMA and atomics */
	__u64 remote_addr;
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
			__u32 mw_rkey;	/* names the window: bits 31:8 count */
			__u32 new_rkey; /* the same window; bits 7:0 are new */
			__u32 mr_lkey;	/* 0 with length 0, which unbinds a window of type 1 */
			__u32 access;	/* XR_ACCESS_REMOTE*, XR_ACCESS_ZERO_BASED */
		} bind;
		struct {
			__u32 key;    /* the region's, with its new variant in bits 7:0 */
			__u32 access; /* XR_ACCESS_LOCAL_WRITE, XR_ACCESS_REMOTE*, XR_ACCESS_MW_BIND */
			__u32 pages;
			__u8 list;	 /* which of the region's page lists: 0, 1 */
			__u8 page_shift; /* XR_FAST_SHIFT_MIN..MAX */
			__u16 reserved;
		} reg;
		/* of both: address (remote_addr, as the region has them) and length (bind_len) */
	};
	__u64 bind_len;
	__u32 xrc_srqn;
	__u32 reserved;
};

/* Receive queue entry: this header, then num_sge struct xr_sge. stride = 16 * (1 + max_sge) */
struct xr_recv_wqe {
	__u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

/*
 * vendor_err of completions: why, beyond the status. For people; a program decides by the status.
 * Bits 7:0 are one of these, what stands in bits 15:8 is said beside it.
 */
enum xr_vendor_err {
	XR_VERR_NONE = 0,
	XR_VERR_BAD_OPCODE = 1, /* work request: unknown or not for this QP */
	XR_VERR_BAD_SGE_COUNT = 2,
	XR_VERR_BAD_INLINE = 3,
	XR_VERR_BAD_LENGTH = 4, /* message over 2^31 bytes, atomics not 8 */
	XR_VERR_LKEY = 5,	/* reason (enum xr_reason) */
	XR_VERR_RKEY = 6,	/* responder's side: reason */
	XR_VERR_MEMORY = 7,	/* the owner took the memory away */
	XR_VERR_TIMEOUT = 8,
	XR_VERR_NAK = 9, /* NAK code (enum xr_nak) */
	XR_VERR_RQ_TOO_SMALL = 10,
	XR_VERR_RING = 11,	   /* corrupt ring indices */
	XR_VERR_BAD_RESPONSE = 12, /* unexpected response packet */
	XR_VERR_CQ_OVERRUN = 13,
	XR_VERR_AH = 14,	 /* no such address handle, or of another protection domain */
	XR_VERR_BIND = 15,	 /* window: reason */
	XR_VERR_INVALIDATE = 16, /* key to be invalidated: reason */
	XR_VERR_REGISTER = 17,	 /* fast registration: reason */
};

/* Completion queue entry. Values are those of verbs: status enum ibv_wc_status,
 * opcode enum ibv_wc_opcode, flags enum ibv_wc_flags. */
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
	__u32 wqe_index; /* free-running index of the entry it completes */
	__u8 is_recv;	 /* wqe_index counts in the RQ (or SRQ), else the SQ */
	__u8 sl;
	__u8 reserved[2];
	__u32 srqn; /* XRC: of the SRQ that it completes a receive of, else 0 */
};

_Static_assert(sizeof(struct xr_queue) == 4 * XR_CACHELINE, "queue layout");
_Static_assert(sizeof(struct xr_send_wqe) == 64, "send entry layout");
_Static_assert(sizeof(struct xr_recv_wqe) == 16, "receive entry layout");
_Static_assert(sizeof(struct xr_cqe) == 64, "completion layout");
_Static_assert(sizeof(struct xr_sge) == 16, "sge layout");

/*
 * The reserved L_Key (IBTA 10.6.3): for a client that RESERVED_LKEY granted it to, all of its own memory,
 * readable and writable as the memory is, whatever the protection domain. It has index 0, which no
 * region has, so nothing that looks keys up by index ever finds it: as R_Key, in a binding or
 * invalidation it is a key that there is not. Not in an SRQ of XRC, of which other processes' queue
 * pairs take.
 */
#define XR_RESERVED_LKEY 0xffu

/* Limits of one queue */
#define XR_MAX_SGE 32
#define XR_MAX_INLINE 1024
#define XR_MAX_WR 32768 /* entries of an SQ, RQ or SRQ */
#define XR_MAX_CQE (1 << 20)

/*
 * Fast registration: page lists lie in memory that client and daemon share, XR_FAST_LISTS lists of max_pages
 * addresses in the client's own address space (__u64), each a multiple of the page size. The daemon reads the
 * list when it performs the work request; until that has completed the client leaves the list alone.
 */
#define XR_FAST_LISTS 2
#define XR_FAST_MAX_PAGES 4096
#define XR_FAST_SHIFT_MIN 12
#define XR_FAST_SHIFT_MAX 30

static inline __u32 xr_send_stride(__u32 max_sge, __u32 max_inline)
{
	__u32 room = max_sge * (__u32)sizeof(struct xr_sge);

	if (room < max_inline)
		room = max_inline;
	return ((__u32)sizeof(struct xr_send_wqe) + room + 63) & ~63u;
}

static inline __u32 xr_recv_stride(__u32 max_sge)
{
	return (__u32)(sizeof(struct xr_recv_wqe) + max_sge * sizeof(struct xr_sge));
}

#endif /* XROCE_RING_H */
