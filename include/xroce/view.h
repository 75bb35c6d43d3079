/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The view of a direct context: what the program tells the daemon of its transport, for `xroce qp`
 * and the other commands of operators. It is a memfd of the program, which goes with LEND
 * (control.h), sealed with F_SEAL_SHRINK and F_SEAL_GROW. The program stores; the daemon reads, and
 * may believe nothing: a program can show what it likes about itself.
 *
 *   struct xr_view                      header and sums
 *   struct xr_view_qp [XR_VIEW_QPS]     at XR_VIEW_QPS_OFF
 *   struct xr_view_mr [XR_VIEW_MRS]     at XR_VIEW_MRS_OFF
 *   struct xr_view_cq [XR_VIEW_CQS]     at XR_VIEW_CQS_OFF
 *   rings of captures [XR_CAPTURE_MAX]  at XR_VIEW_RINGS_OFF, XR_VIEW_RING_ROOM bytes each
 *
 * The file has either all of these, or ends in front of the rings: captures do not see the packets
 * of the context then. Pages of records and rings that were never used do not exist.
 *
 * Identity and state of a record are stored when they change; counters while there is traffic,
 * every 50 ms at most, and once after it.
 *
 * Records, and the sums, begin with a sequence word: odd while the program stores. A reader reads
 * twice, and takes what was the same both times with an even word; after some tries it takes what
 * it has. A record is in use if its `used` is not 0.
 */
#ifndef XROCE_VIEW_H
#define XROCE_VIEW_H

#include <linux/types.h>
#include <xroce/capture.h>
#include <xroce/reason.h>
#include <xroce/tables.h>

#define XR_VIEW_MAGIC 0x77656976u /* "view" */

#define XR_VIEW_QPS 16384u
#define XR_VIEW_MRS 65536u /* further regions are not shown */
#define XR_VIEW_CQS 16384u /* the same */

/* Room for the counters, in the order of XT_COUNTERS and XT_QP_COUNTERS of the same build */
#define XR_VIEW_COUNTERS 64
#define XR_VIEW_QP_COUNTERS 32
#define XR_VIEW_REASONS 80
#define XR_VIEW_RTTS 20

/* Traffic of QPs that were destroyed */
struct xr_view_traffic {
	__u64 counter[XR_VIEW_QP_COUNTERS];
	__u64 rtt[XR_VIEW_RTTS], rtt_sum;
};

/* Rules that select a direct program: at most 16 of operators, and 16 of its own */
#define XR_DIRECT_RULES 32

struct xr_view_fault {
	__u64 seen, hits;
};

struct xr_view_sums {
	__u32 seq, reserved;
	__u64 counter[XR_VIEW_COUNTERS];	/* of the engine */
	struct xr_stat reason[XR_VIEW_REASONS]; /* packets that the program checked */
	struct xr_view_traffic ended;
	__u32 fault_seq, reserved2; /* xr_direct_page.seq of the rules whose counts follow */
	struct xr_view_fault fault[XR_DIRECT_RULES];
};

struct xr_view {
	__u32 magic;	     /* XR_VIEW_MAGIC */
	__u32 layout;	     /* XR_VIEW_LAYOUT */
	__u32 changes;	     /* increased when a QP is created or destroyed, or its state changes */
	__u32 qps, mrs, cqs; /* records in use */
	__u32 qp_end, mr_end, cq_end, skipped; /* records behind these are not in use */
	__u32 captures, reserved;	       /* captures: 1: the program can fill the rings */
	struct xr_view_sums sums;
};

struct xr_view_qp {
	__u32 seq, used;
	__u32 qpn, type, state, pd;
	__u32 dest_qpn, path_mtu; /* path_mtu: enum ibv_mtu, 0: none */
	__u32 send_cq, recv_cq, srq, qkey;
	__u32 sq_depth, rq_depth, sq_posted, rq_posted;
	__u32 sq_psn, unacked_psn, rq_psn, window;
	__u32 in_flight, rtt_least, rtt_usual, rate_limit;
	__u32 timeout, retry_cnt, rnr_retry, max_rd_atomic;
	__u32 max_dest_rd_atomic, failure_verr;
	__u8 retries_left, rnr_retries_left, wait, local;
	__u8 failure_cause, failure_status, reserved[2];
	__u64 failure_at, created; /* CLOCK_MONOTONIC, ns */
	struct xr_addr peer;
	__u64 counter[XR_VIEW_QP_COUNTERS];
	__u32 rtt[XR_VIEW_RTTS];
	__u64 rtt_sum;
};

struct xr_view_mr {
	__u32 seq, used;
	__u32 key, pd, access, state; /* state: enum xr_key_state */
	__u64 addr, iova, length;
	__u64 created;
	__u32 null, reserved; /* 1: a null region */
};

struct xr_view_cq {
	__u32 seq, used;
	__u32 cq, depth, producer, consumer;
	__u32 channel, overrun;
	__u64 completions, errors, created;
};

#define XR_VIEW_PAGE(n) (((n) + 4095) & ~4095ul)
#define XR_VIEW_QPS_OFF XR_VIEW_PAGE(sizeof(struct xr_view))
#define XR_VIEW_MRS_OFF (XR_VIEW_QPS_OFF + XR_VIEW_PAGE(XR_VIEW_QPS * sizeof(struct xr_view_qp)))
#define XR_VIEW_CQS_OFF (XR_VIEW_MRS_OFF + XR_VIEW_PAGE(XR_VIEW_MRS * sizeof(struct xr_view_mr)))
#define XR_VIEW_SIZE (XR_VIEW_CQS_OFF + XR_VIEW_PAGE(XR_VIEW_CQS * sizeof(struct xr_view_cq)))

/* A page with struct xr_capture_ring, and the bytes of the ring, of which there can be fewer */
#define XR_VIEW_RING (16u << 20)
#define XR_VIEW_RING_ROOM (4096ul + XR_VIEW_RING)
#define XR_VIEW_RINGS_OFF XR_VIEW_SIZE
#define XR_VIEW_SIZE_RINGS (XR_VIEW_RINGS_OFF + XR_CAPTURE_MAX * XR_VIEW_RING_ROOM)

/*
 * What a direct program does to its packets and requests: a memfd of the daemon, which the program
 * only reads.
 *
 * Rules of fault injection that select it are two lists as text (docs/faults.md), one behind the
 * other: rules of operators, and its own (SET_FAULT).
 *
 * A capture has the ring with the index of its place. The program prepares the ring when it sees
 * the capture, stores its number there (struct xr_capture_ring.capture) and writes packets to it
 * until the capture has ended. It fills no more than XR_DIRECT_FIRST bytes, and nothing of a ring
 * that is overwritten, before the client has mapped the ring: memory is charged to the process that
 * touches it first. When the place is free again, nobody reads the ring any more.
 */
#define XR_DIRECT_RULES_TEXT 12288
#define XR_DIRECT_FIRST (256u << 10)

struct xr_direct_capture {
	__u32 number;	 /* of the daemon's captures, 0: the place is free */
	__u32 ended;	 /* 1: no more packets, but the client still reads the ring */
	__u32 ring_size; /* as those of struct xr_capture_req (control.h) */
	__u32 snap_len, flags, reserved;
	__u64 clock; /* time of a packet - CLOCK_MONOTONIC, ns */
	struct xr_capture_filter filter;
};

struct xr_direct_page {
	__u32 seq; /* odd while the daemon stores; increased with each change */
	__u32 reserved;
	__u64 set_at; /* CLOCK_MONOTONIC, ns */
	struct {
		__u64 seed;
		__u32 length, set; /* bytes of text; set: increased when the list is replaced */
	} list[2];
	char text[XR_DIRECT_RULES_TEXT];
	struct xr_direct_capture capture[XR_CAPTURE_MAX];
};

/* Of two builds with another number of reasons or other records, one cannot read the other. */
#define XR_VIEW_LAYOUT                                                                             \
	((__u32)(XR_REASON_COUNT << 24 ^ sizeof(struct xr_view) << 12 ^ sizeof(struct xr_view_qp)))

#endif /* XROCE_VIEW_H */
