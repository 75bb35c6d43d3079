/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The view of a direct context: what the program tells the daemon of its transport, for `xroce qp`
 * and the other commands of operators. It is a memfd of the program, which goes with LEND
 * (control.h), sealed with F_SEAL_SHRINK and F_SEAL_GROW. The program stores; the daemon reads, and
 * may believe nothing: a program can show what it likes about itself.
 *
 * struct xr_view_file is its layout, behind which there are the rings of captures: XR_CAPTURE_MAX
 * rings at XR_VIEW_RINGS_OFF, of XR_VIEW_RING_ROOM bytes each.
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
#include <xroce/control.h>
#include <xroce/reason.h>
#include <xroce/tables.h>

#define XR_VIEW_MAGIC 0x77656976u /* "view" */

/*
 * X(NAME, name, records): the lists. A record is struct xr_view_NAME; objects for which there is
 * no record are counted, but not shown. MEMBER: QPs of multicast groups
 */
/* clang-format off */
#define XR_VIEW_LISTS(X) \
	X(QP, qp, 16384) \
	X(SRQ, srq, 16384) \
	X(CQ, cq, 16384) \
	X(MR, mr, 65536) \
	X(MW, mw, 65536) \
	X(AH, ah, 16384) \
	X(MEMBER, member, 256) \
	X(DM, dm, 1024) \
	X(XRCD, xrcd, 1024)
/* clang-format on */

enum xr_view_list {
#define X(NAME, name, records) XR_VIEW_##NAME,
	XR_VIEW_LISTS(X)
#undef X
		XR_VIEW_LIST_COUNT
};

/* Room for the counters, in the order of XT_COUNTERS and XT_QP_COUNTERS of the same build */
#define XR_VIEW_COUNTERS 64
#define XR_VIEW_QP_COUNTERS 32
#define XR_VIEW_REASONS 80
#define XR_VIEW_RTTS 20
#define XR_VIEW_USES 6 /* in the order of enum xt_use */

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
	__u64 faults;		    /* packets that rules have applied to */
	__u64 tx_refused;	    /* packets that the kernel refused to send */
	__u64 tx_by_memory;	    /* packets sent through inboxes (inbox.h) */
	__u32 fault_seq, reserved2; /* xr_direct_page.seq of the rules whose counts follow */
	struct xr_view_fault fault[XR_DIRECT_RULES];
};

struct xr_view {
	__u32 magic;	/* XR_VIEW_MAGIC */
	__u32 layout;	/* XR_VIEW_LAYOUT */
	__u32 changes;	/* increased when a QP is created or destroyed, or its state changes */
	__u32 captures; /* 1: the program can fill the rings */
	__u32 objects[XR_CLAIMS];      /* how many exist, by kind; pages that are registered */
	__u32 end[XR_VIEW_LIST_COUNT]; /* records behind these are not in use */
	struct xr_view_sums sums;
};

struct xr_view_failure {
	__u64 at; /* CLOCK_MONOTONIC, ns */
	__u32 verr;
	__u8 cause, status, reserved[2];
	__u32 qpn, reserved2;
};

/* Uses of a key that were refused */
struct xr_view_refused {
	__u64 at;
	__u32 count, qpn, why, reserved; /* why: enum xr_reason */
};

/* Records begin with `used`, 0: none, and the number or handle of the object. */
struct xr_view_qp {
	__u32 seq, used;
	__u32 qpn, type, state, pd;
	__u32 dest_qpn, path_mtu; /* path_mtu: enum ibv_mtu, 0: none */
	__u32 send_cq, recv_cq, srq, qkey;
	__u32 sq_depth, rq_depth, sq_posted, rq_posted;
	__u32 sq_psn, unacked_psn, rq_psn, window;
	__u32 in_flight, rtt_least, rtt_usual, rate_limit;
	__u32 timeout, retry_cnt, rnr_retry, max_rd_atomic;
	__u32 max_dest_rd_atomic, reserved;
	__u8 retries_left, rnr_retries_left, wait, local;
	__u32 reserved2;
	__u64 created; /* CLOCK_MONOTONIC, ns, as in the other records */
	struct xr_view_failure failure;
	struct xr_addr peer;
	__u64 counter[XR_VIEW_QP_COUNTERS];
	__u32 rtt[XR_VIEW_RTTS];
	__u64 rtt_sum;
};

struct xr_view_srq {
	__u32 seq, used;
	__u32 srq, pd, depth, limit;
	__u32 producer, consumer;
	__u32 qps, number, xrcd, cq; /* qps: that use it */
	__u32 dead, reserved;
	__u64 created, receives, missed;
	struct xr_view_failure failure;
};

struct xr_view_cq {
	__u32 seq, used;
	__u32 cq, depth, producer, consumer;
	__u32 channel, overrun, vector, references;
	__u32 event_count, event_period; /* us */
	__u64 created, completions, errors, lost, events;
	struct xr_view_failure failure;
};

struct xr_view_use {
	__u64 count, bytes;
};

struct xr_view_mr {
	__u32 seq, used;
	__u32 key, pd, access, state; /* state: enum xr_key_state */
	__u64 created, addr, iova, length;
	__u32 tier, references; /* tier: enum xr_view_tier */
	struct xr_view_refused refused;
	struct xr_view_use use[XR_VIEW_USES];
};

enum xr_view_tier { XR_TIER_OWN, XR_TIER_NULL, XR_TIER_DEVICE, XR_TIER_PIECES };

struct xr_view_mw {
	__u32 seq, used;
	__u32 key, pd, type, mr; /* mr: L_Key of its region; 0: it is not bound */
	__u32 access, qpn;
	__u64 created, addr, length;
	struct xr_view_refused refused;
};

struct xr_view_ah {
	__u32 seq, used;
	__u32 ah, pd, gid_index, vlan;
	__u32 hop_limit, traffic_class, flow_label, local;
	__u64 created;
	struct xr_addr peer;
	__u8 mac[6], reserved[2];
};

struct xr_view_member {
	__u32 seq, used;
	__u32 qpn, reserved;
	__u64 created; /* of the QP */
	struct xr_addr group;
};

struct xr_view_dm {
	__u32 seq, used;
	__u32 dm, mrs; /* mrs: its regions */
	__u64 created, length;
};

struct xr_view_xrcd {
	__u32 seq, used;
	__u32 xrcd, domain;
	__u64 created;
};

#define XR_VIEW_ON_PAGE __attribute__((aligned(4096)))

struct xr_view_file {
	struct xr_view head;
#define X(NAME, name, records) struct xr_view_##name name[records] XR_VIEW_ON_PAGE;
	XR_VIEW_LISTS(X)
#undef X
};

#define XR_VIEW_SIZE sizeof(struct xr_view_file)

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
	((__u32)(XR_REASON_COUNT << 24 ^ sizeof(struct xr_view_sums) << 12 ^                       \
		 sizeof(struct xr_view_file) ^ sizeof(struct xr_view_qp)))

#endif /* XROCE_VIEW_H */
