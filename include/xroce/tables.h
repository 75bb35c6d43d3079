/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the daemon mirrors into BPF maps and what the XDP program hands back.
 *
 * The daemon is the only writer of every map but `stats` and `limiter`. It writes a QP or key
 * before anything on the wire can name it, and removes it before the number
 * can be given out again. What a work request or a SEND with Invalidate does to a key is here before
 * its completion is. An entry may be older than the packet that meets it: the
 * daemon checks again.
 *
 *   map      type                     key          value
 *   qps      hash, no prealloc        u32 QPN      struct xr_qp_entry
 *   keys     hash, no prealloc        u32 index    struct xr_key_entry
 *   addrs    hash                     struct xr_addr (GID)  struct xr_addr_entry
 *   psns     array, mmapable          u32 slot     struct xr_psn_entry
 *   stats    per-CPU array            u32 reason   struct xr_stat
 *   limiter  per-CPU array            u32 0        struct xr_limiter
 *   xsks     XSKMAP                   u32 queue    socket
 *
 * All are pinned by name in <bpffs>/xroce/<device>/. Byte order: host, but for
 * addresses, which are as on the wire.
 */
#ifndef XROCE_TABLES_H
#define XROCE_TABLES_H

#include <linux/types.h>

#include "gid.h"

struct xr_addr_entry {
	__u32 gid_index; /* XR_ADDR_GROUP: a multicast group that QPs are attached to */
};
#define XR_ADDR_GROUP 0xffffffffu
#define XR_MAX_GROUPS 256

/* Values are those of the verbs API, so that one number means one thing. */
enum xr_qp_type {
	XR_QPT_RC = 2, /* IBV_QPT_RC */
	XR_QPT_UC = 3,
	XR_QPT_UD = 4,
	XR_QPT_XRC_SEND = 9,
	XR_QPT_XRC_RECV = 10,
};

enum xr_qp_state {
	XR_QPS_RESET = 0, /* IBV_QPS_RESET */
	XR_QPS_INIT = 1,
	XR_QPS_RTR = 2,
	XR_QPS_RTS = 3,
	XR_QPS_SQD = 4,
	XR_QPS_SQE = 5,
	XR_QPS_ERR = 6,
};

struct xr_qp_entry {
	struct xr_addr peer;  /* RC, UC, XRC: source address of the peer */
	struct xr_addr local; /* RC, UC, XRC: our address that the peer uses */
	__u32 dest_qpn;
	__u32 qkey; /* UD */
	__u32 pd;
	__u32 slot; /* index into psns */
	__u16 pkey;
	__u16 path_mtu; /* bytes */
	__u8 state;	/* enum xr_qp_state */
	__u8 type;	/* enum xr_qp_type */
	__u8 access;	/* XR_ACCESS_* that the QP grants to its peer */
	__u8 flags;	/* reserved, 0 */
};

/*
 * Where a QP's sequence numbers stand, for the window check. The daemon stores
 * into the mapped array as the numbers move, without a system call; each field
 * is read and written as one 32-bit word.
 */
struct xr_psn_entry {
	__u32 expected; /* responder: next request PSN */
	__u32 unacked;	/* requester: oldest PSN not acknowledged */
	__u32 next;	/* requester: next PSN that will be sent */
	__u32 reserved;
};

/*
 * Requests may lie this far behind `expected`, as IBTA 9.7.1 has it: a peer may have READs of 2^23 packets
 * in all outstanding, which moved `expected` when they were accepted, and ask for the oldest again. Ahead
 * they need to get no further than the longest message of most devices (2^30 bytes at PMTU 256): what is
 * lost and longer is missed by a timeout instead of a NAK. Responses must lie in [unacked - LATE, next).
 */
#define XR_PSN_BEHIND (1 << 23)
#define XR_PSN_AHEAD (1 << 22)
#define XR_PSN_LATE (1 << 22)

/* Keys: index 31:8, variant 7:0 (IBTA 10.6.3.3; the kernel's ib_update_fast_reg_key) */
#define XR_KEY_INDEX(key) ((key) >> 8)
#define XR_KEY_VARIANT(key) ((key)&0xff)
#define XR_KEY(index, variant) (((index) << 8) | (variant))

/* Access flags: the values of enum ibv_access_flags */
#define XR_ACCESS_LOCAL_WRITE 0x01
#define XR_ACCESS_REMOTE_WRITE 0x02
#define XR_ACCESS_REMOTE_READ 0x04
#define XR_ACCESS_REMOTE_ATOMIC 0x08
#define XR_ACCESS_MW_BIND 0x10
#define XR_ACCESS_ZERO_BASED 0x20
#define XR_ACCESS_ON_DEMAND 0x40
#define XR_ACCESS_HUGETLB 0x80	       /* a hint */
#define XR_ACCESS_OPTIONAL 0x3ff00000u /* what verbs lets a device ignore, known or not */
#define XR_ACCESS_REMOTE 0x0e
#define XR_ACCESS_WRITE (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC)
/* What a region may allow, XR_ACCESS_HUGETLB and XR_ACCESS_OPTIONAL aside */
#define XR_ACCESS_REGION                                                                           \
	(XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE | XR_ACCESS_MW_BIND | XR_ACCESS_ZERO_BASED |     \
	 XR_ACCESS_ON_DEMAND)

/* Rights by which a key is shown: X(flag, name) */
#define XR_ACCESS_NAMES(X)                                                                         \
	X(XR_ACCESS_LOCAL_WRITE, "lw")                                                             \
	X(XR_ACCESS_REMOTE_WRITE, "rw")                                                            \
	X(XR_ACCESS_REMOTE_READ, "rr")                                                             \
	X(XR_ACCESS_REMOTE_ATOMIC, "ra")                                                           \
	X(XR_ACCESS_MW_BIND, "mw")                                                                 \
	X(XR_ACCESS_ON_DEMAND, "od")

/* Returns 0 if the flags lack local write access, which others of them need (IBTA 11.2.8.2). */
static inline int xr_access_valid(__u32 access)
{
	return access & XR_ACCESS_LOCAL_WRITE ||
	       !(access & (XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC));
}

/* IBTA 10.6.5 and 10.6.7; an invalidated key is FREE again. */
enum xr_key_state {
	XR_KEY_FREE = 0, /* allocated, not bound to memory */
	XR_KEY_VALID = 1,
	XR_KEY_INVALID = 2, /* just being changed, or taken down */
};

enum xr_key_type {
	XR_KEY_MR = 1,
	XR_KEY_MW = 2,
};

/* flags of a key; neither: a work request cannot invalidate it */
#define XR_KEYF_TYPE_2 1 /* window of type 2 */
#define XR_KEYF_FAST 2	 /* region for fast registration */

struct xr_key_entry {
	__u64 va;     /* first address as the peer names it */
	__u64 length; /* bytes; 0 allowed */
	__u32 pd;
	__u32 qpn;    /* type 2 windows: the only QP that may use it, else 0 */
	__u32 access; /* XR_ACCESS_* */
	__u8 variant;
	__u8 state; /* enum xr_key_state */
	__u8 type;  /* enum xr_key_type */
	__u8 flags; /* XR_KEYF_* */
};

struct xr_stat {
	__u64 packets;
	__u64 bytes; /* whole frames */
};

/* Token bucket of packets that want a NAK; a second's worth at most. */
struct xr_limiter {
	__u64 last_ns;
	__u64 tokens;
};

/*
 * Metadata right before the first byte of the (first) frame. Kernel 6.1 allows
 * 32 bytes; a multiple of 4. Offsets count from the start of the Ethernet header.
 */
#define XR_META_MAGIC 0x7872 /* "xr" */
struct xr_meta {
	__u16 magic;
	__u8 reason;	 /* enum xr_reason: XR_OK or one of action ANSWER */
	__u8 ip_version; /* 4 or 6 */
	__u16 ip_off;
	__u16 bth_off;
	__u16 payload_off; /* after all extended headers */
	__u16 payload_len; /* without pad and ICRC */
	__u32 qpn;
};

_Static_assert(sizeof(struct xr_qp_entry) == 56, "qp entry layout");
_Static_assert(sizeof(struct xr_key_entry) == 32, "key entry layout");
_Static_assert(sizeof(struct xr_psn_entry) == 16, "psn entry layout");
_Static_assert(sizeof(struct xr_meta) == 16, "metadata layout");

#endif /* XROCE_TABLES_H */
