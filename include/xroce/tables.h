/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF maps, into which the daemon mirrors its state, and the metadata that the XDP program
 * passes to the daemon. Tables in the daemon's memory have the same entries (daemon/io/).
 *
 * The daemon is the only writer of all maps except `stats`, `limiter` and `refused`. It adds the
 * entry of a QP or key before a packet can name it, and deletes the entry before the number is
 * reused. A change of a key by a work request or by a SEND with Invalidate is in the map before the
 * completion is written. A packet can still be checked against an older entry, so the daemon
 * repeats the checks.
 *
 *   map      type                     key          value
 *   qps      hash, no prealloc        u32 QPN      struct xr_qp_entry
 *   keys     hash, no prealloc        u32 index    struct xr_key_entry
 *   addrs    hash                     struct xr_addr (GID)  struct xr_addr_entry
 *   psns     array, mmapable          u32 slot     struct xr_psn_entry
 *   stats    per-CPU array            u32 reason   struct xr_stat
 *   limiter  per-CPU array            u32 0        struct xr_limiter
 *   xsks     XSKMAP                   u32 queue    socket
 *   direct_keys  hash, no prealloc    struct xr_direct_key  struct xr_key_entry
 *   slots    hash                     u64 cookie of a socket  struct xr_slot_entry
 *   refused  ring buffer              records of struct xr_refused, while the daemon captures
 *
 * The socket filter has the same maps, without `xsks`. Only it has `direct_keys` and `slots`, for
 * the sockets that direct programs borrow. Their QPs are in `qps`, and what the daemon writes there
 * is what the programs say (PUBLISH). All maps but `refused` are pinned by name in
 * <bpffs>/xroce/<device>/. Numbers are in host byte order, GIDs in network byte order.
 */
#ifndef XROCE_TABLES_H
#define XROCE_TABLES_H

#include <linux/types.h>

#include "gid.h"

struct xr_addr_entry {
	__u32 gid_index; /* or XR_ADDR_GROUP: a multicast group that QPs are attached to */
};
#define XR_ADDR_GROUP 0xffffffffu
#define XR_MAX_GROUPS 256

/* The values of enum ibv_qp_type */
enum xr_qp_type {
	XR_QPT_RC = 2,
	XR_QPT_UC = 3,
	XR_QPT_UD = 4,
	XR_QPT_XRC_SEND = 9,
	XR_QPT_XRC_RECV = 10,
};

/* The values of enum ibv_qp_state */
enum xr_qp_state {
	XR_QPS_RESET = 0,
	XR_QPS_INIT = 1,
	XR_QPS_RTR = 2,
	XR_QPS_RTS = 3,
	XR_QPS_SQD = 4,
	XR_QPS_SQE = 5,
	XR_QPS_ERR = 6,
};

struct xr_qp_entry {
	struct xr_addr peer;  /* RC, UC, XRC: address of the peer */
	struct xr_addr local; /* RC, UC, XRC: address of the QP, as the peer uses it */
	__u32 dest_qpn;
	__u32 qkey; /* UD */
	__u32 pd;
	__u32 slot; /* index into psns, or XR_NO_PSNS */
	__u16 pkey;
	__u16 path_mtu; /* bytes; 0: payloads up to XR_MAX_PAYLOAD */
	__u8 state;	/* enum xr_qp_state */
	__u8 type;	/* enum xr_qp_type */
	__u16 access;	/* XR_ACCESS_* that the QP grants to its peer */
};
/* The sequence numbers are in no table: they are not checked with this one. */
#define XR_NO_PSNS 0xffffffffu

/*
 * Sequence numbers of a QP for the check of the PSN window. The daemon stores into the mapped array
 * without a system call. Each field is read and written as one 32-bit word.
 */
struct xr_psn_entry {
	__u32 expected; /* responder: next request PSN */
	__u32 unacked;	/* requester: oldest PSN not acknowledged */
	__u32 next;	/* requester: next PSN that will be sent */
	__u32 reserved;
};

/*
 * PSN window: requests must be in [expected - BEHIND, expected + AHEAD], responses in
 * [unacked - LATE, next), modulo 2^24.
 *
 * BEHIND is the value of IBTA 9.7.1. READs of 2^23 packets in total can be outstanding; `expected`
 * moved past them when they were accepted, and the peer may repeat the oldest one. AHEAD covers the
 * longest message of most devices (2^30 bytes at path MTU 256). If more packets than that are lost,
 * the peer's timeout detects the loss instead of a NAK.
 */
#define XR_PSN_BEHIND (1 << 23)
#define XR_PSN_AHEAD (1 << 22)
#define XR_PSN_LATE (1 << 22)

/* Keys: index 31:8, variant 7:0 (IBTA 10.6.3.3; the kernel's ib_update_fast_reg_key) */
#define XR_KEY_INDEX(key) ((key) >> 8)
#define XR_KEY_VARIANT(key) ((key)&0xff)
#define XR_KEY(index, variant) (((index) << 8) | (variant))

/* The values of enum ibv_access_flags */
#define XR_ACCESS_LOCAL_WRITE 0x01
#define XR_ACCESS_REMOTE_WRITE 0x02
#define XR_ACCESS_REMOTE_READ 0x04
#define XR_ACCESS_REMOTE_ATOMIC 0x08
#define XR_ACCESS_MW_BIND 0x10
#define XR_ACCESS_ZERO_BASED 0x20
#define XR_ACCESS_ON_DEMAND 0x40
#define XR_ACCESS_HUGETLB 0x80 /* a hint */
#define XR_ACCESS_FLUSH_GLOBAL 0x100
#define XR_ACCESS_FLUSH_PERSISTENT 0x200 /* QPs only: no region grants it */
#define XR_ACCESS_OPTIONAL 0x3ff00000u	 /* flags that a device may ignore */
/* Access rights of peers */
#define XR_ACCESS_REMOTE 0x10e
#define XR_ACCESS_WRITE (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC)
/* Access flags of regions, except XR_ACCESS_HUGETLB and XR_ACCESS_OPTIONAL */
#define XR_ACCESS_REGION                                                                           \
	(XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE | XR_ACCESS_MW_BIND | XR_ACCESS_ZERO_BASED |     \
	 XR_ACCESS_ON_DEMAND)

/*
 * Access flags accepted for a QP. Only the rights of peers have an effect. Programs also pass the
 * flags of their regions, and no driver refuses them.
 */
#define XR_ACCESS_QP                                                                               \
	(XR_ACCESS_REGION | XR_ACCESS_FLUSH_PERSISTENT | XR_ACCESS_HUGETLB | XR_ACCESS_OPTIONAL)
/* Access flags that `xroce mr` and `xroce mw` print: X(flag, name) */
#define XR_ACCESS_NAMES(X)                                                                         \
	X(XR_ACCESS_LOCAL_WRITE, "lw")                                                             \
	X(XR_ACCESS_REMOTE_WRITE, "rw")                                                            \
	X(XR_ACCESS_REMOTE_READ, "rr")                                                             \
	X(XR_ACCESS_REMOTE_ATOMIC, "ra")                                                           \
	X(XR_ACCESS_FLUSH_GLOBAL, "fg")                                                            \
	X(XR_ACCESS_MW_BIND, "mw")                                                                 \
	X(XR_ACCESS_ON_DEMAND, "od")

/* Returns 0 if local write access is missing although other flags require it (IBTA 11.2.8.2). */
static inline int xr_access_valid(__u32 access)
{
	return access & XR_ACCESS_LOCAL_WRITE ||
	       !(access & (XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC));
}

/* IBTA 10.6.5 and 10.6.7 */
enum xr_key_state {
	XR_KEY_FREE = 0, /* allocated or invalidated: not bound to memory */
	XR_KEY_VALID = 1,
	XR_KEY_INVALID = 2, /* being changed or destroyed */
};

enum xr_key_type {
	XR_KEY_MR = 1,
	XR_KEY_MW = 2,
};

/* Flags of keys that a work request can invalidate */
#define XR_KEYF_TYPE_2 1    /* type 2 window */
#define XR_KEYF_FAST 2	    /* region for fast registration */
#define XR_KEYF_INTEGRITY 4 /* integrity region; of the QP that registered it */
/*
 * The key exists, and work requests of its program change it: what it permits now is in a table of
 * that program only, which checks it.
 */
#define XR_KEYF_PROGRAM 8

struct xr_key_entry {
	__u64 va;     /* first address as used in packets and work requests */
	__u64 length; /* bytes, can be 0 */
	__u32 pd;
	__u32 qpn;    /* type 2 window, integrity region: the only QP that may use it; or 0 */
	__u32 access; /* XR_ACCESS_* */
	__u8 variant;
	__u8 state; /* enum xr_key_state */
	__u8 type;  /* enum xr_key_type */
	__u8 flags; /* XR_KEYF_* */
};

/* A key of a direct program: programs number their keys themselves. */
struct xr_direct_key {
	__u32 slot;
	__u32 index;
};

/* What the socket that receives for a slot keeps */
struct xr_slot_entry {
	__u32 slot, slots; /* its QPNs are odd, and (QPN >> 1) % slots is the slot */
	__u32 flags;	   /* XR_SLOT_* */
	__u32 reserved;
};
/* The program has more QPs or keys than the tables hold for it: it knows the others itself. */
#define XR_SLOT_MORE_QPS 1
#define XR_SLOT_MORE_KEYS 2

struct xr_stat {
	__u64 packets;
	__u64 bytes; /* whole frames */
};

/* Token bucket for packets that require a NAK. It holds at most the tokens of one second. */
struct xr_limiter {
	__u64 last_ns; /* time of the last refill, CLOCK_MONOTONIC */
	__u64 tokens;
};

/*
 * Metadata directly before the first byte of a frame. Kernel 6.1 allows 32 bytes at most; the size
 * must be a multiple of 4. Offsets count from the start of the Ethernet header.
 */
#define XR_META_MAGIC 0x7872 /* "xr" */
struct xr_meta {
	__u16 magic;
	__u8 reason;	 /* enum xr_reason: XR_OK or a reason with action ANSWER */
	__u8 ip_version; /* 4 or 6 */
	__u16 ip_off;
	__u16 bth_off;
	__u16 payload_off; /* behind all extended headers */
	__u16 payload_len; /* bytes, without pad and ICRC */
	__u32 qpn;
	/*
	 * 0, or the frame has several packets behind one UDP header: the UDP payload of each but
	 * the last. The other fields are those of the first packet.
	 */
	__u16 gso_size;
	__u16 reserved;
};

/* A packet that the XDP program, the socket filter or the daemon's checks have dropped */
struct xr_refused {
	__u64 time;   /* CLOCK_MONOTONIC, ns */
	__u32 length; /* of the packet */
	__u32 qpn;    /* offsets and QPN are 0 if the packet was dropped before they were known */
	__u32 queue;
	__u16 ip_off;
	__u16 bth_off;
	__u8 reason; /* enum xr_reason */
	__u8 ip_version;
	__u16 captured;	 /* bytes */
	__u8 bytes[132]; /* from the Ethernet header on: all headers of any packet */
};

_Static_assert(sizeof(struct xr_refused) == 160, "refused packet layout");
_Static_assert(sizeof(struct xr_qp_entry) == 56, "qp entry layout");
_Static_assert(sizeof(struct xr_key_entry) == 32, "key entry layout");
_Static_assert(sizeof(struct xr_direct_key) == 8, "direct key layout");
_Static_assert(sizeof(struct xr_slot_entry) == 16, "slot entry layout");
_Static_assert(sizeof(struct xr_psn_entry) == 16, "psn entry layout");
_Static_assert(sizeof(struct xr_meta) == 20, "metadata layout");

#endif /* XROCE_TABLES_H */
