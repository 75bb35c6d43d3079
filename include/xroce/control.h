/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control protocol between the daemon and its clients, the provider and the `xroce` command. Each
 * opened device is one SOCK_SEQPACKET connection.
 *
 *   client                                     daemon
 *   ------ connect <runtime dir>/<device>.sock ------>   (checks the peer's credentials)
 *   ------ HELLO (version) --------------------------->
 *   <----- reply: device, workers, doorbells (fds) ----
 *   ------ request: struct xr_msg + body ------------->   one at a time
 *   <----- reply: struct xr_msg + body, fds ------------
 *
 * A message is one datagram: struct xr_msg, then the body of its type. The body of a request is
 * struct xr_<name>_req, that of a reply struct xr_<name>_rep; without such a struct the body is
 * empty. `status` of a reply is 0 or a negative errno. The body of an error is a text without NUL
 * that explains the error, or empty. A daemon that refuses a connection sends such a reply of
 * type XR_MSG_NONE before it closes the socket. A reply can take time: MODIFY_QP to RTR and
 * CREATE_AH resolve the next hop. A receiver ignores bytes behind the fields that its version
 * defines. A request shorter than the first version of its body fails with EINVAL. New fields are
 * only appended, and 0 stands for "not given".
 *
 * File descriptors are passed by SCM_RIGHTS in the order given for each message. Handles are per
 * connection and per kind of object, and never 0. All objects of a connection are destroyed when it
 * closes, or when the process that opened it ends. Channels of rdma_cm differ (XR_MSG_CM).
 *
 * Byte order: host (both ends are on one machine).
 */
#ifndef XROCE_CONTROL_H
#define XROCE_CONTROL_H

#include <linux/types.h>
#include <xroce/capture.h>
#include <xroce/ring.h>
#include <xroce/tables.h>

#define XR_PROTOCOL_VERSION 1
#define XR_RUNTIME_DIR "/run/xroce" /* sockets: <runtime dir>/<device>.sock */
#define XR_SOCKET_SUFFIX ".sock"
#define XR_DEVICE_NAME_MAX 63 /* without NUL: IBV_SYSFS_NAME_MAX - 1 */
#define XR_MSG_MAX 65536      /* bytes of one datagram */
#define XR_MSG_MAX_FDS 64     /* of a request, and of replies but that of HELLO */
/* The reply to HELLO has an eventfd for each worker. The kernel sends at most 253 (SCM_MAX_FD). */
#define XR_HELLO_MAX_FDS 250
#define XR_MAX_WORKERS 240
#define XR_WHY_MAX 256 /* bytes of the text of an error */

struct xr_msg {
	__u32 type;   /* enum xr_msg_type; the same in the reply */
	__s32 status; /* requests: 0 or XR_MSG_NO_REPLY; replies: 0 or -errno */
	__u32 seq;    /* chosen by the client; the same in the reply */
	__u32 length; /* bytes after this header */
};

/* No reply is wanted, also if the request fails. Only if the reply to HELLO has no_reply */
#define XR_MSG_NO_REPLY 1

/*
 * All requests, one row each: X(NAME, name, body, flags). The position of a row is the number of
 * its type, XR_MSG_NAME, so new rows are appended.
 *
 *   body    XR_BODY(type); XR_BODY_BEFORE(type, field) if `field` and those behind it were appended
 *           later, so that older clients do not send them; XR_NO_BODY
 *   flags   XR_FOR_*, XR_TAKES_FDS
 *
 * XR_BODY and the others expand to two values: the least length, and the length of the fixed part.
 */
#define XR_BODY(type) sizeof(type), sizeof(type)
#define XR_BODY_BEFORE(type, field) __builtin_offsetof(type, field), sizeof(type)
#define XR_NO_BODY 0, 0

#define XR_FOR_OBSERVERS 1 /* allowed to observers (XR_HELLO_OBSERVER) as well */
#define XR_FOR_OPERATORS 2 /* allowed to root and the daemon's own user only */
#define XR_TAKES_FDS 4	   /* may carry descriptors */
#define XR_FOR_CHANNELS 8  /* allowed to rdma_cm channels (XR_HELLO_CM) only, which send no other */
#define XR_FOR_UMAD 16	   /* allowed to files of umad (XR_HELLO_UMAD) only, which send no other */

/* clang-format off */
#define XR_MESSAGES(X) \
	X(HELLO, hello, XR_BODY_BEFORE(struct xr_hello_req, token), XR_FOR_OBSERVERS) \
	X(QUERY_DEVICE, query_device, XR_NO_BODY, XR_FOR_OBSERVERS) \
	X(QUERY_PORT, query_port, XR_NO_BODY, XR_FOR_OBSERVERS) \
	X(QUERY_GIDS, query_gids, XR_NO_BODY, XR_FOR_OBSERVERS) \
	X(ALLOC_PD, alloc_pd, XR_NO_BODY, 0) \
	X(DEALLOC_PD, dealloc_pd, XR_BODY(struct xr_handle_req), 0) \
	X(IMPORT_DM, import_dm, XR_BODY(struct xr_handle_req), 0) \
	X(REG_MR, reg_mr, XR_BODY(struct xr_reg_mr_req), XR_TAKES_FDS) \
	X(REREG_MR, rereg_mr, XR_BODY(struct xr_rereg_mr_req), XR_TAKES_FDS) \
	X(DEREG_MR, dereg_mr, XR_BODY(struct xr_handle_req), 0) \
	X(CREATE_CHANNEL, create_channel, XR_NO_BODY, 0) \
	X(DESTROY_CHANNEL, destroy_channel, XR_BODY(struct xr_handle_req), 0) \
	X(CREATE_CQ, create_cq, XR_BODY(struct xr_create_cq_req), 0) \
	X(RESIZE_CQ, resize_cq, XR_BODY(struct xr_resize_cq_req), 0) \
	X(DESTROY_CQ, destroy_cq, XR_BODY(struct xr_handle_req), 0) \
	X(CREATE_QP, create_qp, XR_BODY(struct xr_create_qp_req), 0) \
	X(MODIFY_QP, modify_qp, XR_BODY_BEFORE(struct xr_modify_qp_req, max_burst), 0) \
	X(QUERY_QP, query_qp, XR_BODY(struct xr_handle_req), 0) \
	X(DESTROY_QP, destroy_qp, XR_BODY(struct xr_handle_req), 0) \
	X(CREATE_AH, create_ah, XR_BODY(struct xr_create_ah_req), 0) \
	X(DESTROY_AH, destroy_ah, XR_BODY(struct xr_handle_req), 0) \
	X(SHOW, show, XR_BODY_BEFORE(struct xr_show_req, from), XR_FOR_OBSERVERS) \
	X(SET_FAULT, set_fault, XR_BODY(struct xr_set_fault_req), XR_FOR_OBSERVERS) \
	X(CREATE_SRQ, create_srq, XR_BODY(struct xr_create_srq_req), 0) \
	X(MODIFY_SRQ, modify_srq, XR_BODY(struct xr_modify_srq_req), 0) \
	X(QUERY_SRQ, query_srq, XR_BODY(struct xr_handle_req), 0) \
	X(DESTROY_SRQ, destroy_srq, XR_BODY(struct xr_handle_req), 0) \
	X(RESOLVE_AH, resolve_ah, XR_BODY(struct xr_resolve_ah_req), 0) \
	X(ALLOC_MW, alloc_mw, XR_BODY(struct xr_alloc_mw_req), 0) \
	X(DEALLOC_MW, dealloc_mw, XR_BODY(struct xr_handle_req), 0) \
	X(ADVISE_MR, advise_mr, XR_BODY(struct xr_advise_mr_req), 0) \
	X(ALLOC_DM, alloc_dm, XR_BODY(struct xr_alloc_dm_req), 0) \
	X(FREE_DM, free_dm, XR_BODY(struct xr_handle_req), 0) \
	X(IMPORT_PD, import_pd, XR_BODY(struct xr_handle_req), 0) \
	X(IMPORT_MR, import_mr, XR_BODY(struct xr_import_mr_req), 0) \
	X(ATTACH_MCAST, attach_mcast, XR_BODY(struct xr_mcast_req), 0) \
	X(DETACH_MCAST, detach_mcast, XR_BODY(struct xr_mcast_req), 0) \
	X(ALLOC_FAST_MR, alloc_fast_mr, XR_BODY(struct xr_alloc_fast_mr_req), 0) \
	X(OPEN_XRCD, open_xrcd, XR_BODY(struct xr_open_xrcd_req), XR_TAKES_FDS) \
	X(CLOSE_XRCD, close_xrcd, XR_BODY(struct xr_handle_req), 0) \
	X(OPEN_QP, open_qp, XR_BODY(struct xr_open_qp_req), 0) \
	X(RESERVED_LKEY, reserved_lkey, XR_NO_BODY, 0) \
	X(CM, cm, XR_BODY(struct xr_cm_req), XR_FOR_CHANNELS) \
	X(MODIFY_CQ, modify_cq, XR_BODY(struct xr_modify_cq_req), 0) \
	X(CHECK_CQ, check_cq, XR_BODY(struct xr_handle_req), 0) \
	X(CAPTURE, capture, XR_BODY_BEFORE(struct xr_capture_req, direct_ring_size), \
		XR_FOR_OBSERVERS | XR_FOR_OPERATORS) \
	X(UMAD_REGISTER, umad_register, XR_BODY(struct xr_umad_register_req), XR_FOR_UMAD) \
	X(UMAD_UNREGISTER, umad_unregister, XR_BODY(struct xr_umad_agent), XR_FOR_UMAD) \
	X(UMAD_SEND, umad_send, XR_BODY(struct xr_umad_send_req), XR_FOR_UMAD) \
	X(ALLOC_INTEGRITY_MR, alloc_integrity_mr, XR_BODY(struct xr_alloc_integrity_mr_req), 0) \
	X(MONITOR, monitor, XR_NO_BODY, XR_FOR_OBSERVERS | XR_FOR_OPERATORS) \
	X(LEND, lend, XR_BODY(struct xr_lend_req), XR_TAKES_FDS) \
	X(PEER, peer, XR_BODY(struct xr_peer_req), 0) \
	X(CAPTURE_CONTEXT, capture_context, XR_NO_BODY, XR_FOR_OBSERVERS | XR_FOR_OPERATORS) \
	X(END_CAPTURE, end_capture, XR_NO_BODY, XR_FOR_OBSERVERS | XR_FOR_OPERATORS) \
	X(LEND_GROUPS, lend_groups, XR_BODY(struct xr_lend_groups_req), 0) \
	X(CLAIM, claim, XR_BODY(struct xr_claim_req), 0) \
	X(PUBLISH, publish, XR_BODY(struct xr_publish_req), 0)
/* clang-format on */

enum xr_msg_type {
	XR_MSG_NONE, /* in place of the first reply: the connection is refused */
#define X(NAME, name, body, flags) XR_MSG_##NAME,
	XR_MESSAGES(X)
#undef X
		XR_MSG_COUNT
};

/* Kinds of objects, in the order in which the objects of a context that ends are freed */
enum xr_kind {
	XR_KIND_QP = 1,
	XR_KIND_AH,
	XR_KIND_SRQ,
	XR_KIND_XRCD,
	XR_KIND_CQ,
	XR_KIND_CHANNEL,
	XR_KIND_MW,
	XR_KIND_MR,
	XR_KIND_DM,
	XR_KIND_PD,
	XR_KINDS
};

/* What direct contexts claim: objects of these kinds, and pages of memory that they register */
#define XR_CLAIM_PAGES XR_KINDS
#define XR_CLAIMS (XR_KINDS + 1)
#define XR_CLAIM_PAGE 4096u

/* A piece of shared memory. The client maps each chunk once, as a whole. */
struct xr_shm_ref {
	__u32 chunk;	 /* id, per connection */
	__u32 new_chunk; /* 1: the next descriptor of the message is the memfd of this chunk */
	__u64 chunk_size;
	__u64 offset; /* of the piece in the chunk */
	__u64 length;
};

/* ---- device, port, addresses --------------------------------------------- */

#define XR_TOKEN_LEN 32
struct xr_hello_req {
	__u32 version;		  /* XR_PROTOCOL_VERSION; else EPROTO */
	__u32 flags;		  /* XR_HELLO_* */
	__u8 token[XR_TOKEN_LEN]; /* XR_HELLO_IMPORT: token of the connection to import from */
};
#define XR_HELLO_OBSERVER 1 /* a tool: no doorbells, no events, no objects */
#define XR_HELLO_IMPORT 2   /* ENOENT: no connection of the same user has the token */
#define XR_HELLO_CM 4	    /* an rdma_cm channel, see XR_MSG_CM; no other flag is set */
#define XR_HELLO_UMAD 8	    /* a file of umad, see XR_MSG_UMAD_SEND; no other flag is set */

/*
 * fds: event socket, an eventfd for each worker, chunk of the doorbells, and the userfaultfd device
 * if has_uffd. With XR_HELLO_CM or XR_HELLO_UMAD: only the descriptor of that channel or file, and
 * doorbells are empty.
 */
struct xr_hello_rep {
	__u32 version;
	__u32 workers;
	__u32 has_uffd;
	__u32 index; /* for ibv_get_device_index(): another one after each start; 0: none */
	__u64 guid;  /* __be64, as in verbs */
	char device[XR_DEVICE_NAME_MAX + 1];
	char netdev[16];
	struct xr_shm_ref doorbells; /* struct xr_doorbell[workers] */
	__u8 token[XR_TOKEN_LEN]; /* of this connection, to be presented by clients that import */
	__u32 no_reply;		  /* 1: requests can have XR_MSG_NO_REPLY */
	__u32 reserved;
};

/* Bits of device_cap_flags_ex as in Linux 6.2 (IB_UVERBS_DEVICE_FLUSH_GLOBAL, _ATOMIC_WRITE) */
#define XR_DEVICE_FLUSH_GLOBAL (1ull << 38)
#define XR_DEVICE_ATOMIC_WRITE (1ull << 40)
/* All bits that the device sets */
#define XR_DEVICE_CAPS_EX (XR_DEVICE_FLUSH_GLOBAL | XR_DEVICE_ATOMIC_WRITE)

/* enum ibv_odp_transport_cap_bits, since rdma-core 58: IBV_ODP_SUPPORT_FLUSH, _ATOMIC_WRITE */
#define XR_ODP_FLUSH (1u << 6)
#define XR_ODP_ATOMIC_WRITE (1u << 7)

/* For struct ibv_device_attr and ibv_device_attr_ex */
struct xr_query_device_rep {
	__u64 guid;
	__u64 max_mr_size;
	__u64 page_size_cap;
	__u64 device_cap_flags;	      /* enum ibv_device_cap_flags, XR_DEVICE_* */
	__u64 odp_caps;		      /* enum ibv_odp_general_caps */
	__u32 odp_rc, odp_uc, odp_ud; /* enum ibv_odp_transport_cap_bits */
	__u32 max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd;
	__u32 max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
	__u32 atomic_cap; /* enum ibv_atomic_cap */
	__u32 max_mw, max_ah, max_srq, max_srq_wr, max_srq_sge;
	__u32 max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	__u32 max_pkeys, local_ca_ack_delay, max_inline;
	__u32 vendor_id, vendor_part_id, hw_ver;
	char fw_ver[64]; /* version of the daemon */
	__u64 max_dm_size;
	__u32 rate_min, rate_max; /* rate limits of QPs, kbit/s */
	__u32 rate_qpts;	  /* QP types that have them: 1 << enum ibv_qp_type */
	__u32 reserved;
};

struct xr_query_port_rep {
	__u32 state;		   /* enum ibv_port_state */
	__u32 max_mtu, active_mtu; /* enum ibv_mtu */
	__u32 gid_tbl_len, pkey_tbl_len;
	__u32 active_speed, active_width, phys_state;
	__u32 max_msg_sz;
	__u32 qkey_viol_cntr, bad_pkey_cntr; /* packets dropped for this reason, all QPs */
	__u32 netdev_ifindex;
	__u32 link_speed_mbps;
	__u8 mac[6];
	__u8 reserved[2];
};

#define XR_GID_TABLE_LEN 256
struct xr_gid_entry {
	struct xr_addr gid;
	__u32 index;
	__u32 ifindex;
};
/* Only entries in use, in the order of their index. All are RoCE v2. */
struct xr_query_gids_rep {
	__u32 count;
	__u32 reserved;
	struct xr_gid_entry entry[];
};

/* ---- protection domains and memory ---------------------------------------- */

struct xr_handle_req { /* DEALLOC_PD, DEREG_MR, DESTROY_* */
	__u32 handle;
	__u32 reserved;
};
struct xr_handle_rep {
	__u32 handle;
	__u32 reserved;
};

/*
 * IMPORT_PD: xr_handle_req with a PD handle of the connection whose token was passed to HELLO;
 * reply xr_handle_rep. Creates another handle of the same PD. The PD exists until its last handle
 * is deallocated. ENOENT: no such PD.
 *
 * IMPORT_MR returns the keys of a region of that connection. The region stays with its owner: the
 * caller gets no object. EINVAL: the region belongs to another PD.
 */
struct xr_import_mr_req {
	__u32 pd;     /* imported */
	__u32 handle; /* of the other connection */
};
struct xr_import_mr_rep {
	__u32 lkey;
	__u32 rkey;
	__u64 length;
	__u64 iova;
};

/*
 * How the daemon reaches the bytes of a region: by consecutive segments in address order, which
 * together are exactly [addr, addr + length).
 */
enum xr_mr_segment_kind {
	/* adopted: a memfd of the message, sealed against shrinking, or a dma-buf of udmabuf */
	XR_SEG_FD = 1,
	XR_SEG_MAPPING = 2, /* shared: MAP_SHARED memory, which the daemon opens by map_files */
	XR_SEG_PRIVATE = 3, /* private: through /proc/self/mem of the process */
	/*
	 * No memory of the client: the only segment of its region, addr is 0, and REREG_MR of the
	 * region is EINVAL.
	 */
	XR_SEG_DM = 4,	 /* fd_index: handle of device memory, offset: in it */
	XR_SEG_NULL = 5, /* reads as zeros, discards writes; allows XR_ACCESS_LOCAL_WRITE only */
};
/*
 * A region with XR_ACCESS_ON_DEMAND has no segments. The daemon checks each access against
 * /proc/self/maps of the process and performs it through /proc/self/mem. addr 0 and length
 * UINT64_MAX stand for the whole address space.
 */
struct xr_mr_segment {
	__u32 kind;
	__u32 fd_index; /* XR_SEG_FD: index of the message's descriptor */
	__u64 addr;	/* in the client's address space */
	__u64 length;
	__u64 offset;		  /* XR_SEG_FD, XR_SEG_MAPPING: of addr within the file */
	__u64 map_start, map_end; /* XR_SEG_MAPPING: the mapping as in /proc/self/maps */
	__u32 flags;		  /* XR_SEGF_* */
	__u32 reserved;
};
#define XR_SEGF_READONLY 1 /* the mapping is not writable */
#define XR_MR_SEGMENTS_MAX 512

/*
 * fds: one for each XR_SEG_FD segment; then, with XR_REGF_PROC_FDS, the process's /proc/self/mem
 * (O_RDWR) and /proc/self/maps, which the daemon keeps for the connection. A client sends these two
 * with its first region, and again after a fork().
 */
struct xr_reg_mr_req {
	__u32 pd;
	__u32 access; /* XR_ACCESS_* */
	__u64 addr;
	__u64 length;
	__u64 iova;  /* address that work requests and peers use */
	__u32 flags; /* XR_REGF_* */
	__u32 segments;
	struct xr_mr_segment segment[];
};
#define XR_REGF_PROC_FDS 1
struct xr_reg_mr_rep {
	__u32 handle;
	__u32 lkey;
	__u32 rkey;
	__u32 reserved;
};

/*
 * REREG_MR: rereg_flags (enum ibv_rereg_mr_flags) select the valid fields of `reg`. The segments of
 * `reg` describe the region after the change in any case. Descriptors as for REG_MR; reply
 * xr_rereg_mr_rep. The keys change only with IBV_REREG_MR_CHANGE_TRANSLATION. After an error the
 * region is as it was before.
 */
struct xr_rereg_mr_req {
	__u32 handle;
	__u32 rereg_flags;
	struct xr_reg_mr_req reg;
};
#define xr_rereg_mr_rep xr_reg_mr_rep

/*
 * DEREG_MR and REREG_MR fail with EBUSY while windows are bound to the region. Windows are bound by
 * work requests (XR_WR_BIND_MW of ring.h). DEALLOC_MW is allowed for a bound window.
 */
struct xr_alloc_mw_req {
	__u32 pd;
	__u32 type; /* enum ibv_mw_type; others: EINVAL */
};
struct xr_alloc_mw_rep {
	__u32 handle;
	__u32 rkey; /* its index stays the same */
};

/*
 * Creates a region that allows no access until a work request registers it (XR_WR_REG_MR of
 * ring.h). DEREG_MR frees it; REREG_MR fails with EINVAL. The daemon accesses its memory through
 * /proc/self/mem of the process. EINVAL: no REG_MR with XR_REGF_PROC_FDS came before.
 */
struct xr_alloc_fast_mr_req {
	__u32 pd;
	__u32 max_pages; /* 1..XR_FAST_MAX_PAGES */
};
struct xr_alloc_fast_mr_rep {
	__u32 handle;
	__u32 key;		 /* L_Key and R_Key; its index stays the same */
	struct xr_shm_ref lists; /* __u64[XR_FAST_LISTS][max_pages] */
};

/*
 * Creates an integrity region (ring.h) that allows no access until a work request registers it
 * (XR_WR_REG_INTEGRITY). Its memory is that of other regions. The reply is that of ALLOC_FAST_MR,
 * with struct xr_integrity and XR_FAST_LISTS lists in place of page lists.
 */
struct xr_alloc_integrity_mr_req {
	__u32 pd;
	__u32 max_pieces; /* 1..XR_INTEGRITY_MAX_PIECES */
};

/*
 * RESERVED_LKEY: from now on XR_RESERVED_LKEY gives work requests in the client's queues access to
 * all of the client's memory. EPERM: the client may not use it; EINVAL: no XR_REGF_PROC_FDS came
 * before.
 */
struct xr_reserved_lkey_rep {
	__u32 lkey;
};

/*
 * ADVISE_MR checks whether ranges of regions on demand may be prefetched. It fails if one of them
 * may not. ENOENT: no such key, or not on demand; EINVAL: key of a window; EPERM: another PD or
 * process, or not writable; EFAULT: beyond the region. The reply has the address of each range in
 * the client's memory; the client then prefetches by itself.
 */
struct xr_advise_mr_req {
	__u32 pd;
	__u32 write;
	__u32 ranges; /* 1..XR_ADVISE_MAX */
	__u32 reserved;
	struct xr_sge range[];
};
#define XR_ADVISE_MAX 256
struct xr_advise_mr_rep {
	__u32 ranges;
	__u32 reserved;
	__u64 addr[];
};

/* ---- device memory ---------------------------------------------------------- */

/* ENOMEM: more than max_dm_size for this client. REG_MR with one XR_SEG_DM makes a region of it. */
struct xr_alloc_dm_req {
	__u64 length;	 /* bytes; 0: EINVAL */
	__u32 log_align; /* of the start, 0..XR_DM_LOG_ALIGN_MAX */
	__u32 reserved;
};
#define XR_DM_LOG_ALIGN_MAX 12
struct xr_alloc_dm_rep {
	__u32 handle;
	__u32 reserved;
	struct xr_shm_ref memory;
};
/* FREE_DM: EBUSY while regions of it exist. */

/*
 * IMPORT_DM: xr_handle_req with a handle of the connection whose token was passed to HELLO. ENOENT:
 * no such device memory. fd: always the file of the memory; its chunk has no id on this connection.
 * The memory stays with its owner, and the caller gets no object. The contents are undefined once
 * the owner has freed the memory.
 */
struct xr_import_dm_rep {
	struct xr_shm_ref memory;
};

/* ---- completion queues ------------------------------------------------------ */

/*
 * CREATE_CHANNEL: fd: event socket, from which the client reads the `cookie` of a CQ, 8 bytes, as
 * struct ib_uverbs_comp_event_desc; reply xr_handle_rep.
 */
struct xr_create_cq_req {
	__u32 depth;   /* least number of entries, 1..XR_MAX_CQE */
	__u32 channel; /* handle or 0 */
	__u64 cookie;  /* sent with events: the client's struct ibv_cq * */
	__u32 flags;   /* XR_CQF_*; others: EOPNOTSUPP */
	/*
	 * Completion vector, less than xr_hello_rep.workers. Others than 0: the worker for QPs that
	 * receive into this CQ, or that send to it and receive into one with vector 0. If both are
	 * 0, workers take turns.
	 */
	__u32 vector;
};
#define XR_CQF_IGNORE_OVERRUN 1 /* overwrite the oldest entry instead of failing */
struct xr_create_cq_rep {
	__u32 handle;
	__u32 depth;		/* actual number of entries, a power of two */
	struct xr_shm_ref ring; /* struct xr_queue */
};
/*
 * The new ring starts with the unpolled entries of the old one; EINVAL: they do not fit. Before
 * that check the daemon executes posted work that needs no response. The client must not poll
 * meanwhile.
 */
struct xr_resize_cq_req {
	__u32 handle;
	__u32 depth;
};
#define xr_resize_cq_rep xr_create_cq_rep
/*
 * Moderation: the event of the armed CQ is held until `count` completions were added that it is
 * armed for, or `period` microseconds after the first of them. Neither has an effect if one of them
 * is 0.
 */
struct xr_modify_cq_req {
	__u32 handle;
	__u32 count;  /* at most XR_MAX_CQ_COUNT */
	__u32 period; /* at most XR_MAX_CQ_PERIOD */
	__u32 reserved;
};
#define XR_MAX_CQ_COUNT 65535
#define XR_MAX_CQ_PERIOD 65535
/*
 * CHECK_CQ: the client has armed a CQ that holds completions, and none of them is of a QP whose
 * doorbell it could ring (docs/rings.md).
 */
/*
 * Reply to DESTROY_CQ, DESTROY_QP and DESTROY_SRQ: the number of events that were written for the
 * object. The client discards those that it has not read.
 */
struct xr_destroy_rep {
	__u32 comp_events;
	__u32 async_events;
};

/* ---- shared receive queues -------------------------------------------------- */

/* SRQs have no doorbell: the daemon reads the producer index when a message arrives. */
struct xr_create_srq_req {
	__u32 pd;	       /* handle; the entries use L_Keys of this PD */
	__u32 max_wr, max_sge; /* at least: 1..XR_MAX_WR, 0..XR_MAX_SGE */
	__u32 xrcd;	       /* handle, 0: not for XRC */
	__u64 cookie;	       /* sent with events: the client's struct ibv_srq * */
	__u32 cq;	       /* XRC: handle of the CQ for its completions */
	__u32 reserved;
};
struct xr_create_srq_rep {
	__u32 handle;
	__u32 max_wr, max_sge;	/* actual; max_wr is the depth of the ring, a power of two */
	__u32 number;		/* XRC: SRQ number of 24 bits, used by requesters; else 0 */
	struct xr_shm_ref ring; /* struct xr_queue of struct xr_recv_wqe */
};
/*
 * mask: enum ibv_srq_attr_mask. A new ring starts with the entries that were not consumed; the
 * client must not post meanwhile. EINVAL: more than max_wr entries are posted, or the limit exceeds
 * max_wr.
 */
struct xr_modify_srq_req {
	__u32 handle;
	__u32 mask;
	__u32 max_wr;
	__u32 limit; /* IBV_EVENT_SRQ_LIMIT_REACHED when fewer entries are left; 0: disarmed */
};
struct xr_modify_srq_rep {
	__u32 max_wr;
	__u32 reserved;
	struct xr_shm_ref ring; /* length 0: the ring stays the same */
};
struct xr_query_srq_rep {
	__u32 max_wr, max_sge;
	__u32 limit; /* 0: not armed, or reached since */
	__u32 reserved;
};

/* ---- XRC domains ------------------------------------------------------------ */

/*
 * All processes that open the same file (inode) get the same XRC domain. The daemon keeps the file
 * open as long as the domain exists, so that its inode is not reused. fd: the file, with
 * XR_XRCDF_FD; without that flag the request creates a domain for this handle alone. Reply
 * xr_handle_rep. As in the kernel's verbs, EAGAIN: there is no such domain, and XR_XRCDF_CREAT is
 * not set; EINVAL: there is one, and XR_XRCDF_EXCL is set.
 */
struct xr_open_xrcd_req {
	__u32 flags; /* XR_XRCDF_* */
	__u32 reserved;
};
#define XR_XRCDF_FD 1
#define XR_XRCDF_CREAT 2
#define XR_XRCDF_EXCL 4

/* ---- queue pairs ---------------------------------------------------------------- */

/*
 * Queue pair 1, for connection managers (IBTA 13.5.1): a UD QP with QPN 1, whose Q_Key must be
 * XR_GSI_QKEY. EBUSY: another client has it, or rdma_cm ids exist; EPERM: not an operator.
 */
#define XR_QPT_GSI 1

struct xr_create_qp_req {
	__u32 type;			 /* enum xr_qp_type, or XR_QPT_GSI */
	__u32 pd, send_cq, recv_cq, srq; /* handles; srq 0: the QP has an RQ */
	__u32 max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	__u32 sq_sig_all;
	__u32 xrcd;   /* XRC_RECV: handle; no pd, CQs and queues. XRC_SEND: no recv_cq */
	__u64 cookie; /* sent with events: the client's struct ibv_qp * */
};
struct xr_create_qp_rep {
	__u32 handle;
	__u32 qpn;
	__u32 slot;   /* doorbell slot */
	__u32 worker; /* index of the QP's worker, whose doorbell has the slot */
	__u32 max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	__u32 reserved;
	struct xr_shm_ref sq; /* struct xr_queue of struct xr_send_wqe */
	struct xr_shm_ref rq; /* length 0: none */
};

/*
 * OPEN_QP: creates another handle of an XRC target QP of the domain. The QP exists until its last
 * handle is destroyed, and its events are sent to each handle. Reply xr_create_qp_rep without
 * queues. EINVAL: the domain has no such QP.
 */
struct xr_open_qp_req {
	__u32 xrcd; /* handle */
	__u32 qpn;
	__u64 cookie; /* sent with events: the client's struct ibv_qp * */
};
#define xr_open_qp_rep xr_create_qp_rep

/* As struct ibv_ah_attr with its global route. The daemon finds the MAC addresses. */
struct xr_ah_attr {
	struct xr_addr dgid;
	__u32 sgid_index;
	__u32 flow_label;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 sl;
	__u8 port_num;
	__u8 is_global; /* must be 1: RoCE has no LIDs */
	__u8 reserved[3];
};

/* As struct ibv_qp_attr; mask: enum ibv_qp_attr_mask */
struct xr_qp_attr {
	__u32 qp_state, cur_qp_state, path_mtu, path_mig_state;
	__u32 qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	__u32 pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining;
	__u32 max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
	__u32 port_num, timeout, retry_cnt, rnr_retry;
	__u32 alt_port_num, alt_timeout, rate_limit;
	struct xr_ah_attr ah;
	struct xr_ah_attr alt_ah;
};
struct xr_modify_qp_req {
	__u32 handle;
	__u32 attr_mask;
	struct xr_qp_attr attr; /* rate_limit: kbit/s of whole frames, 0: no limit */
	__u32 max_burst; /* with IBV_QP_RATE_LIMIT: bytes sent at once, 0: the daemon chooses */
};
struct xr_modify_qp_rep {
	__u32 state; /* after the change */
	__u32 reserved;
};
struct xr_query_qp_rep {
	struct xr_qp_attr attr;
	__u32 max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	__u32 sq_sig_all;
};

/* CREATE_AH resolves the next hop, which can take time. */
struct xr_create_ah_req {
	__u32 pd;
	__u32 reserved;
	struct xr_ah_attr attr;
};
/* Returns the MAC that CREATE_AH would use; the device's own one for its own addresses. */
struct xr_resolve_ah_req {
	struct xr_ah_attr attr;
};
struct xr_resolve_ah_rep {
	__u8 mac[6];
	__u16 vlan;	     /* 0: untagged */
	__u32 max_mtu;	     /* largest path MTU of the port, bytes */
	__u32 flags;	     /* XR_RESOLVED_* */
	struct xr_addr sgid; /* GID of attr.sgid_index */
};
#define XR_RESOLVED_LOCAL 1 /* dgid is a GID of this device */

/*
 * ATTACH_MCAST, DETACH_MCAST: a UD QP and the multicast group of a GID, ff00::/8 or
 * ::ffff:224.0.0.0/100. The interface is a member of the IP group as long as any QP is attached.
 * Attaching a QP again has no effect. EINVAL: not a group, not UD, not attached; EDQUOT, ENOMEM:
 * limits. DESTROY_QP of an attached QP is EBUSY.
 */
struct xr_mcast_req {
	__u32 qp;
	__u32 reserved;
	struct xr_addr gid;
};

/* ---- events ------------------------------------------------------------------- */

/*
 * Event sockets are SOCK_SEQPACKET sockets that are shut down for writing; one record is one
 * datagram. read() and poll() work as on a pipe; recv(MSG_PEEK) shows the first record.
 *
 * The event socket of HELLO carries struct ib_uverbs_async_event_desc: u64 element (cookie or port
 * number), u32 type (enum ibv_event_type), u32 0.
 */
struct xr_async_event {
	__u64 element;
	__u32 type;
	__u32 reserved;
};

/* ---- rdma_cm ---------------------------------------------------------------------- */

/*
 * A connection whose HELLO has XR_HELLO_CM is a channel of rdma_cm. It is what an open file
 * description of /dev/infiniband/rdma_cm is in the kernel. It has no doorbells and no event socket,
 * and takes no request but XR_MSG_CM. Its rdma_cm ids exist until the last descriptor of the socket
 * is closed, so processes can share a channel by fork(). Then listeners end, connections send DREQ,
 * and half-open ones REJ.
 *
 * The event descriptor of the channel is readable if and only if GET_EVENT would return an event.
 * It may become readable some microseconds after the event was queued. The client polls it, and
 * neither reads nor writes it.
 *
 * XR_MSG_CM carries each command of <rdma/rdma_user_cm.h>, ABI 4, as librdmacm writes it to the
 * device file: struct rdma_ucm_cmd_hdr, then hdr.in bytes of the command's struct. `response` is
 * ignored. The reply's body is what the kernel would store there, at most hdr.out bytes. `status`
 * is 0 or the kernel's -errno for the same command. No command waits: GET_EVENT without an event is
 * EAGAIN.
 *
 * Where a command of the kernel refers to other memory or descriptors of the caller, the client
 * appends the data after the hdr.in bytes:
 *
 *   SET_OPTION   the value, optlen bytes, at most XR_CM_OPTION_MAX; `optval` is ignored
 *   MIGRATE_ID   the token of the channel that has the id, XR_TOKEN_LEN bytes, from the reply to
 *                its HELLO; `fd` is ignored. The request is sent on the new channel.
 *
 *   RESOLVE_IP,  nothing, or a byte 1: no other daemon has the route. If this one does not have it
 *   RESOLVE_ADDR either, the command succeeds, and ADDR_ERROR with ENODEV follows.
 *
 * If the client gives GET_EVENT more room than an event needs, answers follow the event, as many as
 * fit: replies to QUERY and INIT_QP_ATTR for the id that the event names. They are what these
 * commands would return now, and stay true until the client executes another command on the id.
 * With CONNECT_REQUEST and CONNECT_RESPONSE, XR_CM_PATH is one of them if the path is known: what
 * RESOLVE_AH would return for the peer, struct xr_cm_path.
 *
 * RESOLVE_IP, RESOLVE_ADDR and RESOLVE_ROUTE have no reply of their own. If the client gives them
 * room, the reply is that of GET_EVENT for the id's event, if there is one now and no other before
 * it. It is taken as read.
 *
 * Ids are numbers of the daemon, so MIGRATE_ID does not change them. As in the kernel, ENOENT means
 * that there is no such id, EINVAL that it belongs to another channel. Numbers may be reused after
 * DESTROY_ID.
 *
 * Errors that need an explanation:
 *
 *   EINVAL   fewer than 8 + hdr.in bytes, no appended data, unknown command; `qp_num` of CONNECT or
 *            ACCEPT is not a QP of the channel's user
 *   ENODEV   BIND, RESOLVE_ADDR and their older forms: neither the address nor the route belongs to
 *            this interface. Nothing has changed, so the client can try another daemon. For BIND
 *            with an address of another host, the error is EADDRNOTAVAIL.
 *   EBUSY    a program has QP 1 of the device (XR_QPT_GSI)
 *   EDQUOT   a limit of the client or user, which the text names
 *   EACCES   a port that is reserved for operators (net.ipv4.ip_unprivileged_port_start)
 *
 * Each daemon accepts 127.0.0.0/8 and ::1 as its own, so the client decides which daemon serves
 * them. A wildcard address binds the port in this daemon only. A client that binds at several
 * daemons takes port 0 at the first, uses the resulting port (QUERY) at the others, and undoes the
 * binds by DESTROY_ID if one fails.
 *
 * A daemon that ends sends no DEVICE_REMOVAL. The client creates this event for each id of a
 * channel that the daemon closes.
 */
struct xr_cm_req {
	__u32 cmd;
	__u16 in;  /* bytes of the command's struct */
	__u16 out; /* room for the reply */
	__u8 data[];
};
#define XR_CM_OPTION_MAX 1024
struct xr_cm_early_reply {
	__u16 cmd;	/* QUERY, INIT_QP_ATTR, XR_CM_PATH */
	__u16 argument; /* option of QUERY, state of INIT_QP_ATTR */
	__u32 length;	/* of the reply, which follows; a multiple of 8 */
};
#define XR_CM_PATH 0x8000
struct xr_cm_path {
	struct xr_addr dgid;
	__u32 sgid_index;
	__u32 reserved;
	struct xr_resolve_ah_rep path;
};
#define XR_CM_COMMANDS 25 /* commands 0..24 of ABI 4 */

/* ---- umad ------------------------------------------------------------------------- */

/*
 * A connection whose HELLO has XR_HELLO_UMAD is what an open file description of
 * /dev/infiniband/umadN is in the kernel: a program sends and receives MADs at QP 1 of the device.
 * Only operators may open one (EACCES). Like a channel of rdma_cm, it exists until the last
 * descriptor of its socket is closed.
 *
 * The descriptor of the file is an event socket, from which the program reads MADs: one datagram is
 * struct ib_user_mad of <rdma/ib_user_mad.h> with P_Key index, then 256 bytes of a received MAD, or
 * the first 24 bytes of one that got no response, with status ETIMEDOUT. The queue is limited: if a
 * program does not read, further MADs are dropped.
 *
 * UMAD_REGISTER makes an agent, as the ioctl IB_USER_MAD_REGISTER_AGENT2 does, and returns its
 * number, 0 to XR_UMAD_AGENTS - 1. EINVAL: a field is wrong, or another agent gets these methods of
 * the class, or the daemon itself does (communication management, performance management). EBUSY:
 * a program has QP 1. ENOMEM: too many agents. Agents for QP 0 can be made, because tools of
 * infiniband-diags do not start otherwise, but their MADs are refused.
 *
 * UMAD_SEND sends a MAD as write() of the device file does. The upper half of the transaction ID of
 * a request is replaced by a number that the agent has for itself. MADs with a GRH are sent to
 * hdr.gid; those without one, and with LID 0, to the device's own QP 1. EINVAL: a field is wrong.
 * EIO: no such agent. EOPNOTSUPP: subnet management, as RoCE has no QP 0; segmentation (RMPP).
 * ENOBUFS: too many MADs of the file wait for responses (XR_UMAD_SENDS). Also errors of resolving
 * the next hop that are known at once.
 */
#define XR_UMAD_AGENTS 32
#define XR_UMAD_SENDS 64
#define XR_UMAD_LEN (64 + 256)
struct xr_umad_register_req {
	__u64 methods[2]; /* a bit for each method of which the agent gets requests */
	__u32 qpn;	  /* 0, 1 */
	__u32 flags;	  /* IB_USER_MAD_USER_RMPP */
	__u8 mgmt_class;
	__u8 mgmt_class_version;
	__u8 rmpp_version;
	__u8 oui[3];
	__u8 reserved[2];
};
struct xr_umad_agent {
	__u32 id;
	__u32 reserved;
};
#define xr_umad_register_rep xr_umad_agent
struct xr_umad_send_req {
	__u8 packet[XR_UMAD_LEN]; /* struct ib_user_mad; a shorter MAD is padded with zeros */
};

/* ---- direct programs ------------------------------------------------------------- */

/*
 * LEND: lends the client a slot of the device, once, until the connection ends: UDP sockets with
 * which it sends and receives RoCE packets itself (docs/socket.md). Packets to QPNs that are
 * qpn_rest modulo qpn_modulus arrive there, and no others: a filter of the socket, which cannot be
 * removed, drops them. Packets of multicast groups (QPN 0xffffff) arrive if the client joins the
 * group with the socket that receives.
 *
 * fds: the socket that receives, `ports` sockets that send, in the order of port[], and the
 * daemon's end of the client's event socket, non-blocking, so that the client can write
 * asynchronous events as the daemon does, and the page of the rules of fault injection and the
 * captures that the client is to apply (struct xr_direct_page, view.h). fds of the request, each if
 * its flag is set: the view (view.h), by which operators see the objects and packets of the client,
 * and the inbox (inbox.h), by which other clients with slots, of the same user, send to it.
 *
 * With XR_LEND_RING, the client gets no sockets, but the use of them by an io_uring of its own,
 * which it has made with IORING_SETUP_R_DISABLED and keeps: `ring` is the number of its descriptor
 * in the client's process. The daemon takes that descriptor (pidfd_getfd()), and restricts the
 * io_uring to SENDMSG and RECVMSG with fixed files. Fixed file 0 is the socket that receives, 1 to
 * `ports` are those that send. fds then: an epoll set, which is readable if the socket that
 * receives is, and the last two of above.
 *
 * EOPNOTSUPP: the device has no slots, or is not faster so (XR_LEND_FASTER); EPERM: only root, the
 * daemon's own user and users of --direct-users may borrow sockets (without XR_LEND_RING), or the
 * daemon may not take the descriptor; EBUSY: no slot is free, or the io_uring was restricted before
 * or has files; EDQUOT: other users must be able to borrow, too; EINVAL: flags, or the client has a
 * slot; EBADF, EBADFD: the descriptor is no io_uring that is disabled; EXDEV: the client has
 * another network namespace. The text of the error says why.
 */
#define XR_LEND_PORTS 8
#define XR_LEND_VIEW 1
#define XR_LEND_INBOX 2
#define XR_LEND_FASTER 4 /* only if programs are as fast so, or faster, as by the daemon */
#define XR_LEND_RING 8
struct xr_lend_req {
	__u32 flags; /* XR_LEND_* */
	__u32 ring;  /* with XR_LEND_RING, else 0 */
};
struct xr_lend_rep {
	__u32 slot; /* its number, for tools */
	__u32 qpn_modulus, qpn_rest;
	__u32 ipv6;		   /* 1: the family of the sockets is AF_INET6; 0: AF_INET */
	__u32 receive_buffer;	   /* bytes, as the kernel counts them */
	__u32 segments;		   /* 1: the kernel may segment what is sent (UDP_SEGMENT) */
	__u32 ports;		   /* sockets that send */
	__u16 port[XR_LEND_PORTS]; /* their UDP source ports, host order */
	__u8 mac[6];		   /* of the interface */
	__u8 reserved[2];
	__u32 claims[XR_CLAIMS]; /* what the client has claimed by this */
	__u32 publish; /* 1: the kernel drops packets to what is not published, see PUBLISH */
};

/*
 * CLAIM: a client with a slot has its objects itself. Before it creates one, or registers memory,
 * it claims that, so that the limits of clients, users and the device include direct contexts. The
 * daemon adds a small part of what is left, so that the next objects need no request; the LEND
 * reply has the first ones. What is not needed any more is given back; the end of the connection
 * gives back all.
 *
 * Errors as those of a request that creates an object: ENOMEM, EDQUOT; EINVAL: no such kind, the
 * client has no slot, or has not claimed as many.
 */
struct xr_claim_req {
	__u32 kind;	 /* enum xr_kind, or XR_CLAIM_PAGES */
	__u32 count;	 /* that are needed; 0: none */
	__u32 give_back; /* 0 if count is not */
	__u32 reserved;
};
struct xr_claim_rep {
	__u32 count; /* claimed by this request */
	__u32 reserved;
};

/*
 * LEND_GROUPS: a client that was lent a slot by XR_LEND_RING cannot set options of the socket that
 * receives. on: that socket gets the datagrams of all multicast groups that its host has joined; 0:
 * of none. EINVAL: the client has no such slot, or `on` is neither 0 nor 1
 */
struct xr_lend_groups_req {
	__u32 on;
	__u32 reserved;
};

/*
 * PEER: returns the inbox of the client that has the slot of a QPN. Both have slots, and are of the
 * same user. fd of the reply: the inbox (inbox.h), whose size and seals the client has to check.
 *
 * ENOENT: there is no such client, or it has no inbox; EINVAL: the client has no slot.
 */
struct xr_peer_req {
	__u32 qpn;
	__u32 reserved;
};
struct xr_peer_rep {
	__u32 slot; /* of the other client */
	__u32 own;  /* of this one: the ring that it may write */
};

/*
 * PUBLISH: sets or deletes entries of the tables by which the kernel checks the packets of the
 * client's slot (struct xr_lend_rep.publish), in their order. The tables hold XR_PUBLISH_QPS QPs
 * and XR_PUBLISH_KEYS keys of a client; it numbers their places itself. An entry replaces the one
 * that its place has. Those that do not fit are not published: the flags, which stay until the loan
 * ends, say that there are such, and the kernel then lets packets to unknown QPNs of the slot, or
 * with unknown keys, pass.
 *
 * A QP is published before its peer learns that it receives, a key before the client learns its
 * R_Key. The client checks each packet itself as well, so an entry may be older than the object.
 *
 * EINVAL: the client has no slot; flags, kind, place, or contents of an entry; a QPN that is not of
 * the slot. Nothing has changed then. EOPNOTSUPP: the kernel does not check the packets of slots.
 * ENOMEM: entries before the one that failed have been set. If the client does not wait for the
 * reply, the daemon sets the flags then.
 */
#define XR_PUBLISH_MAX 32 /* entries of a request */
#define XR_PUBLISH_QPS 512
#define XR_PUBLISH_KEYS 4096
#define XR_PUBLISH_MORE_QPS XR_SLOT_MORE_QPS
#define XR_PUBLISH_MORE_KEYS XR_SLOT_MORE_KEYS
enum xr_publish_kind {
	XR_PUBLISH_QP = 1,
	XR_PUBLISH_KEY = 2,
};
struct xr_publish_entry {
	__u32 kind;   /* enum xr_publish_kind */
	__u32 place;  /* from 0 on */
	__u32 number; /* QPN, or index of the key; 0: the place becomes empty */
	__u32 reserved;
	union {
		struct xr_qp_entry qp;	 /* slot: XR_NO_PSNS */
		struct xr_key_entry key; /* XR_KEYF_PROGRAM if work requests change it */
	};
};
struct xr_publish_req {
	__u32 flags; /* XR_PUBLISH_MORE_* */
	__u32 entries;
	struct xr_publish_entry entry[];
};

/* ---- operators -------------------------------------------------------------------- */

enum xr_show_what {
	XR_SHOW_STATUS = 1,   /* device, addresses, attach mode and its reason, workers */
	XR_SHOW_COUNTERS = 2, /* reasons, transport counters */
	XR_SHOW_QPS = 3,
	XR_SHOW_MRS = 4,
	XR_SHOW_CLIENTS = 5,
	XR_SHOW_CQS = 6,
	XR_SHOW_SRQS = 7,
	XR_SHOW_XRCDS = 8,
	XR_SHOW_AHS = 9,
	XR_SHOW_MWS = 10,
	XR_SHOW_DMS = 11,
	XR_SHOW_GROUPS = 12,  /* multicast groups and their QPs */
	XR_SHOW_LIMITS = 13,  /* limits, and what each user has */
	XR_SHOW_CM_IDS = 14,  /* rdma_cm ids */
	XR_SHOW_METRICS = 15, /* counters and gauges as OpenMetrics text, not JSON */
	/* everything that is known of each object */
	XR_SHOW_QP_DETAILS = 16,
	XR_SHOW_CQ_DETAILS = 17,
	XR_SHOW_SRQ_DETAILS = 18,
	XR_SHOW_CM_ID_DETAILS = 19,
	XR_SHOW_MR_DETAILS = 20,
	XR_SHOW_MW_DETAILS = 21,
	XR_SHOW_AH_DETAILS = 22,
};
/*
 * fd of the reply: a memfd with JSON text, which the tool formats; of a list, a list of some rows.
 *
 * The selection is pairs of the name of a member and a value, each text ends with NUL (show.h has
 * names and values). The rows that have all values are selected. EINVAL: the list has no such
 * member, or the value is of another type; a reply without rows takes no selection. At most
 * XR_SHOW_SELECT_BYTES.
 *
 * With XR_SHOW_PIECES a list is made in pieces, one for each request: `from` is 0, then `next` of
 * the previous reply. Without the flag, a list longer than XR_SHOW_WHOLE_MAX is EFBIG. EBUSY: the
 * client has not read the reply to its last request.
 */
struct xr_show_req {
	__u32 what;
	__u32 flags; /* XR_SHOW_PIECES */
	__u64 from;
	__u32 length; /* bytes of the selection */
	__u32 reserved;
	char select[];
};
#define XR_SHOW_PIECES 1u
#define XR_SHOW_WHOLE_MAX (16u << 20) /* bytes */
#define XR_SHOW_SELECT_MAX 16	      /* pairs of a selection */
#define XR_SHOW_SELECT_BYTES 4096
struct xr_show_rep {
	__u64 length;
	__u64 next; /* 0: there are no more rows */
};

/*
 * Replaces rules of fault injection (docs/faults.md): those of the operators if an observer sends
 * it, which only root and the daemon's own user may; else the rules for the QPs of this connection.
 * Rules of a connection end with it. EINVAL: the text of the error has the line. ENOSPC: too many.
 * EPERM: only operators may send changed packets with a right ICRC.
 */
struct xr_set_fault_req {
	__u32 length; /* bytes of text; 0: no rules */
	__u32 reserved;
	__u8 text[];
};

/*
 * CAPTURE: from now on, until the connection is closed, the daemon writes packets to rings in
 * memory that it shares with the client (capture.h). EPROTO: the daemon has other reasons than the
 * client (reason.h); EBUSY: the connection captures already, or XR_CAPTURE_MAX connections do.
 */
struct xr_capture_req {
	__u32 reasons;	 /* XR_REASON_COUNT of the client */
	__u32 ring_size; /* bytes of each ring: a power of two, XR_CAPTURE_RING_MIN or more */
	__u32 snap_len;	 /* bytes to capture of each packet; 0: all */
	__u32 flags;	 /* XR_CAPTURE_OVERWRITE */
	struct xr_capture_filter filter;
	/* of the ring of each direct context, XR_VIEW_RING at most; 0: these are not captured */
	__u32 direct_ring_size;
	__u32 reserved;
};
#define XR_CAPTURE_OVERWRITE 1u
/* Of all rings of a capture. The client is charged for it: its process touches the memory first. */
#define XR_CAPTURE_MEMORY_MAX ((2ull << 30) + (1ull << 20))
struct xr_capture_rep {
	__u32 rings; /* one for each worker, and one for refused packets */
	__u32 ring_size;
	__u64 data;  /* offset of the first ring's bytes in the memory */
	__u64 clock; /* time of a packet in the rings - CLOCK_MONOTONIC, ns */
	struct xr_shm_ref memory;
};

/*
 * CAPTURE_CONTEXT: reports a direct context that the capture of this connection includes: one that
 * there was at its start or was opened since then, or one that has ended. Each is reported once, in
 * order; `contexts` of the last ring (capture.h) counts the reports. EINVAL: no capture.
 *
 * fds: the view of the context (view.h), in which its ring is; none if the context has ended, or
 * has no rings: captures do not see its packets.
 */
struct xr_capture_context_rep {
	__u32 context; /* the number of its client; 0: there is no further report */
	__u32 ended;   /* 1: it has ended */
	__s32 pid;
	__u32 capture;	 /* number of the capture, in the context's ring */
	__u32 ring_size; /* bytes behind the page with struct xr_capture_ring */
	__u32 missed;	 /* reports that were left out before this one, as too many waited */
	__u64 offset;	 /* of that page in the view */
};

/*
 * END_CAPTURE: nothing more is written to the rings of this connection's capture, or soon nothing
 * more to those of direct contexts. These belong to the capture until the connection is closed.
 */

/*
 * MONITOR: from now on, until the connection is closed, the daemon sends events. The reply has a
 * descriptor: a SOCK_SEQPACKET socket with one event in each datagram, an object of JSON
 * (docs/monitor.md). A slow reader loses events, and gets one with their number. EBUSY: the
 * connection monitors already, or XR_MONITOR_MAX connections do.
 */
#define XR_MONITOR_MAX 16

#endif /* XROCE_CONTROL_H */
