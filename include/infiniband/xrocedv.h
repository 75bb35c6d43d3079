/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct verbs of xroce: functions of its devices beyond <infiniband/verbs.h>. libxroce.so exports
 * them with version XROCE_1.0. Link with it, or look them up with dlsym() in a program that runs
 * under `xroce run`. All are thread safe unless stated otherwise. See xrocedv(3).
 *
 * Fast registration: a region is allocated once and then registered repeatedly by work requests,
 * each time with other pages of the program's memory and a new key (IB_WR_REG_MR of the kernel).
 *
 *      FREE --- REG_MR ---> VALID --- LOCAL_INV, or SEND with Invalidate ---> FREE
 *
 * Any other order is an error: the work request completes with IBV_WC_MW_BIND_ERR ("memory
 * management operation error") and the QP moves to ERR.
 *
 * The allocators of a parent domain (ibv_alloc_parent_domain()) are called for the memory that the
 * library needs for a queue, with one of enum xrocedv_resource as resource_type. The queue itself
 * is in memory of the daemon.
 */
#ifndef INFINIBAND_XROCEDV_H
#define INFINIBAND_XROCEDV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opcode of the completion of a registration */
#define XROCEDV_WC_REG_MR IBV_WC_DRIVER1

#define XROCEDV_MAX_PAGES 4096u	    /* per region */
#define XROCEDV_MIN_PAGE_SIZE 4096u /* bytes; a power of two */
#define XROCEDV_MAX_PAGE_SIZE (1u << 30)
#define XROCEDV_SG_GAPS 0u /* instead of a page size */

/* Bits 63:32 are the driver id: RDMA_DRIVER_UNKNOWN, 0 */
enum xrocedv_resource {
	XROCEDV_RES_QP = 1, /* the QP, and again for each of its queues */
	XROCEDV_RES_SRQ = 2,
	XROCEDV_RES_CQ = 3, /* of ibv_create_cq_ex() with a parent domain */
};

/* Returns true if it is an xroce device. */
bool xrocedv_is_supported(struct ibv_device *device);

/*
 * Creates QP 1, the general services interface (GSI), which connection managers and other
 * management programs use (IBTA 13.5.1). It is a UD QP with QPN 1; each device has at most one. Its
 * Q_Key must be XROCEDV_GSI_QKEY and is set on the way to INIT. While it exists it receives all
 * packets to QPN 1 of any address of the device; otherwise the daemon does, for its connection
 * manager and for requests for port counters. A message is one management datagram, usually 256
 * bytes. The device neither interprets datagrams nor replies to them while the QP exists.
 *
 * attr: as for ibv_create_qp(), with qp_type IBV_QPT_UD. Returns NULL and errno on error: those of
 * ibv_create_qp(), EPERM (the program does not run as root or as the daemon's user), EBUSY (a
 * program has QP 1, or programs use rdma_cm), EINVAL (another qp_type), EOPNOTSUPP (not an xroce
 * device).
 */
#define XROCEDV_GSI_QPN 1u
#define XROCEDV_GSI_QKEY 0x80010000u

struct ibv_qp *xrocedv_create_gsi_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

/*
 * Replaces the rules of fault injection for the QPs of this context, in the text form of
 * docs/faults.md; "": no rules. The environment variable XROCE_FAULT names a file with rules that
 * each context has from its start. Rules end with the context. Any program may use them: they do
 * not concern other programs, except that packets to them are lost or late. Returns 0 or a positive
 * errno: EINVAL (an error in a rule; XROCE_DEBUG=1 prints it with its line), ENOSPC (a context has
 * at most 16 rules, all contexts of a device 48), EPERM (only operators may send changed packets
 * with a right ICRC), EFBIG (more than 32768 bytes), EOPNOTSUPP (not an xroce device).
 */
int xrocedv_set_faults(struct ibv_context *context, const char *rules);

/*
 * FLUSH (IBTA annex A19), for programs that are built with verbs.h of rdma-core before 45: the
 * values of IBV_ACCESS_FLUSH_GLOBAL, IBV_QP_EX_WITH_FLUSH, IBV_WC_FLUSH, enum ibv_placement_type
 * and enum ibv_selectivity_level. FLUSH to persistence is not supported.
 */
#define XROCEDV_ACCESS_FLUSH_GLOBAL (1u << 8)
#define XROCEDV_QP_EX_WITH_FLUSH (1u << 11)
#define XROCEDV_WC_FLUSH 8
#define XROCEDV_FLUSH_GLOBAL 1
#define XROCEDV_FLUSH_RANGE 0
#define XROCEDV_FLUSH_MR 1

/* As ibv_wr_flush(): calls the member of struct ibv_qp_ex that follows wr_atomic_write. */
static inline void xrocedv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				    size_t len, uint8_t type, uint8_t level)
{
	void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

	memcpy(&wr_flush, (const char *)&qp->wr_atomic_write + sizeof(qp->wr_atomic_write),
	       sizeof(wr_flush));
	wr_flush(qp, rkey, remote_addr, len, type, level);
}

/*
 * Allocates a region for fast registration of at most max_pages pages (1..XROCEDV_MAX_PAGES), in
 * state FREE. Its lkey and rkey are the same key. ibv_dereg_mr() frees it in any state, except
 * while a memory window is bound to it (EBUSY). Returns NULL and errno on error: EINVAL, ENOMEM,
 * EDQUOT, EOPNOTSUPP (not an xroce device), EIO.
 */
struct ibv_mr *xrocedv_alloc_mr(struct ibv_pd *pd, uint32_t max_pages);

/* A range of the program's memory */
struct xrocedv_sg {
	uint64_t addr;	 /* in the program's address space */
	uint64_t length; /* bytes, not 0 */
};

/*
 * Sets the pages of the next registration to the longest prefix of the list that fits into the
 * region. All elements but the first must start at a page boundary, and all but the last must end
 * at one, unless an element continues where the previous one ends.
 *
 * page_size: bytes, a power of two in XROCEDV_MIN_PAGE_SIZE..XROCEDV_MAX_PAGE_SIZE. Or
 * XROCEDV_SG_GAPS: elements of any address and length follow each other without gaps in the region
 * (IB_MR_TYPE_SG_GAPS of the kernel). Each element then takes the room of two pages. The prefix
 * may also end behind 256 elements in a row that have less than 1024 bytes together.
 * *sg_offset: where to start in the first element; NULL means 0. On return: if the region ran out
 * of pages within an element, the number of bytes of that element that are mapped, otherwise 0.
 * mr->addr and mr->length: set to the address of the first byte and the length of the registration.
 *
 * Returns the number of elements that are mapped completely, or -EINVAL. The library uses the list
 * that was set until its registration has completed. Two lists may be in use for one region, so
 * this must not be called while two registrations are outstanding. Pages need not be present before
 * they are accessed.
 */
int xrocedv_map_mr_sg(struct ibv_mr *mr, const struct xrocedv_sg *sg, int nents,
		      uint64_t *sg_offset, uint32_t page_size);

/* Sets the variant, bits 7:0, of lkey and rkey for the next registration. */
static inline void xrocedv_update_key(struct ibv_mr *mr, uint8_t variant)
{
	mr->lkey = mr->rkey = (mr->rkey & ~0xffu) | variant;
}

/*
 * Posts the registration of the pages set by xrocedv_map_mr_sg(), with key mr->rkey. For RC and UC
 * QPs. Later work requests of the QP may use the key at once. IBV_WR_LOCAL_INV invalidates it,
 * after all earlier requests of its queue have completed.
 *
 * access: IBV_ACCESS_LOCAL_WRITE, _REMOTE_READ, _REMOTE_WRITE, _REMOTE_ATOMIC, _MW_BIND.
 * send_flags: IBV_SEND_SIGNALED, IBV_SEND_FENCE.
 *
 * Returns 0 or a positive errno: EINVAL (flags, state of the QP, no pages set, not a region for
 * fast registration), EPERM (another PD), ENOMEM (the queue is full), EIO.
 */
int xrocedv_post_reg_mr(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t wr_id, unsigned int access,
			unsigned int send_flags);

/*
 * Pools of regions for fast registration, for programs that map and unmap different memory all the
 * time. Mapping returns usable keys at once and needs no QP of the program. Unmapping leaves the
 * mapping valid until its region is needed or the pool is flushed. The kernel had FMR pools of this
 * kind (ib_create_fmr_pool()).
 *
 *      free --- map ---> mapped --- unmap ---> dirty --- flush, or map of another list ---> free
 *
 * Peers that have the key can still access a dirty mapping. With XROCEDV_POOL_CACHE, mapping a list
 * that is already mapped or dirty returns the same keys. Functions other than create and destroy
 * may be called from several threads for one pool.
 */
#define XROCEDV_POOL_CACHE 1u

#define XROCEDV_MAX_POOL 65536u

struct xrocedv_pool;

struct xrocedv_pool_attr {
	uint32_t max_pages; /* per mapping: 1..XROCEDV_MAX_PAGES */
	uint32_t page_size; /* as for xrocedv_map_mr_sg() */
	uint32_t pool_size; /* number of mappings: 1..XROCEDV_MAX_POOL */
	/* Unmapping flushes the pool if this number of mappings is dirty then. 0: never. */
	uint32_t dirty_watermark;
	unsigned int access; /* as for xrocedv_post_reg_mr(), without IBV_ACCESS_MW_BIND */
	uint32_t flags;	     /* XROCEDV_POOL_CACHE */
	/*
	 * Called after each successful flush by the thread that flushed, or NULL. May call
	 * functions of the pool.
	 */
	void (*flushed)(struct xrocedv_pool *pool, void *arg);
	void *arg;
};

/* A mapping. Programs must not change it. Valid from map until the matching unmap. */
struct xrocedv_mapping {
	uint64_t addr;	 /* of the first byte, for the program and for peers */
	uint64_t length; /* bytes */
	uint32_t lkey, rkey;
	struct xrocedv_pool *pool;
};

/*
 * Creates a pool and its regions. The pool has a QP and a CQ of its own, which count towards the
 * limits of the program. It must be destroyed before its PD. Returns NULL and errno on error:
 * EINVAL, EADDRNOTAVAIL (the device has no GID), and those of xrocedv_alloc_mr(), ibv_create_cq(),
 * ibv_create_qp() and ibv_modify_qp().
 */
struct xrocedv_pool *xrocedv_create_pool(struct ibv_pd *pd, const struct xrocedv_pool_attr *attr);

/*
 * Maps the whole list, by the rules of xrocedv_map_mr_sg(). When this returns, the keys are valid
 * for every QP of the PD. Returns NULL and errno on error: EINVAL (invalid list, or too long for
 * one mapping), EAGAIN (all regions are mapped), EIO.
 */
const struct xrocedv_mapping *xrocedv_pool_map(struct xrocedv_pool *pool,
					       const struct xrocedv_sg *sg, int nents);

/*
 * Must be called once for each map, when no work request that uses the keys is outstanding. Returns
 * 0, or EINVAL if it is not mapped.
 */
int xrocedv_pool_unmap(const struct xrocedv_mapping *mapping);

/*
 * Invalidates the dirty mappings. When this returns, their keys cannot be used any more. Returns 0,
 * or EIO if some are still dirty.
 */
int xrocedv_flush_pool(struct xrocedv_pool *pool);

/*
 * Returns 0, EBUSY if there are mappings, or an error of ibv_dereg_mr(), ibv_destroy_qp() or
 * ibv_destroy_cq().
 */
int xrocedv_destroy_pool(struct xrocedv_pool *pool);

/*
 * Drains queues of a QP (ib_drain_sq(), ib_drain_rq() and ib_drain_qp() of the kernel): moves the
 * QP to ERR and posts a marker to each queue, a WR without data that is flushed behind all others.
 * Returns when the completions of the markers have been polled. Then the program may free what its
 * WRs use. With an SRQ there is no marker of the receives: the call waits until the receives that
 * the QP took from the SRQ have been polled, no matter when the program reads the event
 * IBV_EVENT_QP_LAST_WQE_REACHED.
 *
 * The library polls no CQ itself, because CQs may be shared and their completions belong to the
 * program. If attr->poll is NULL, other threads of the program must poll. They may still work on
 * completions that they polled when the call returns. Markers are polled like other WRs, with
 * status IBV_WC_WR_FLUSH_ERR; programs recognize them by wr_id. No other thread may post to these
 * queues or change the state of the QP.
 */
struct xrocedv_drain_attr {
	uint64_t send_wr_id, recv_wr_id; /* of the markers */
	int timeout_ms;			 /* -1: none */
	/*
	 * Polls the CQ and handles completions, in the thread that called. Returns the number of
	 * completions or a negative errno, which ends the call. NULL: other threads poll.
	 */
	int (*poll)(struct ibv_cq *cq, void *arg);
	void *arg;
};

/*
 * Return 0 or a positive errno: EINVAL (the QP is in RESET), ETIMEDOUT, EOPNOTSUPP (not an xroce
 * device), EIO (a child process), or that of attr->poll. After an error the QP is in ERR, and the
 * call may be repeated. A queue that the QP does not have is drained. If the daemon is gone, WRs
 * are flushed as usual.
 */
int xrocedv_drain_sq(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr);
int xrocedv_drain_rq(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr);
int xrocedv_drain_qp(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr);

/*
 * RW contexts (rdma_rw_ctx of the kernel): a transfer between a scattered local buffer and remote
 * memory with one key, as READs or WRITEs that keep the limits of the QP (max_send_sge, 2^31 bytes
 * of a message), with one completion. The pieces have L_Keys; or the context registers them in
 * regions for fast registration, by WRs in front of the transfer, and invalidates these behind it.
 */
#define XROCEDV_RW_MAX_MESSAGE (1ull << 31) /* bytes of one READ or WRITE */

enum xrocedv_rw_direction {
	XROCEDV_RW_READ,  /* from remote memory into the pieces; RC */
	XROCEDV_RW_WRITE, /* from the pieces into remote memory; RC and UC */
};

struct xrocedv_rw_attr {
	enum xrocedv_rw_direction direction;
	uint32_t rkey;
	uint64_t remote_addr;
	const struct ibv_sge *sg; /* the pieces; not used after xrocedv_rw_create() */
	int nents;
	uint64_t sg_offset; /* bytes of the list to skip */
	/*
	 * Regions of xrocedv_alloc_mr() that are not registered, used in this order; then the
	 * lkeys of the pieces are ignored. The context sets other variants of their keys. They
	 * belong to it until it is destroyed. NULL and 0: the pieces have L_Keys.
	 */
	struct ibv_mr *const *mr;
	uint32_t num_mr;
	uint32_t page_size; /* with regions: as for xrocedv_map_mr_sg() */
};

struct xrocedv_rw;

/*
 * Plans a transfer. Posts nothing. Returns NULL and errno on error: EINVAL (direction, type of the
 * QP, a QP with sq_sig_all or without SGEs, pieces that are empty or wrap around, a region that is
 * not one for fast registration), EPERM (a region of another PD), ENOSPC (the regions cannot hold
 * all pieces), ENOMEM, EOPNOTSUPP (not an xroce device).
 */
struct xrocedv_rw *xrocedv_rw_create(struct ibv_qp *qp, const struct xrocedv_rw_attr *attr);

/* Returns the number of WRs of the transfer that are not posted yet, without a chain. */
uint32_t xrocedv_rw_wrs(const struct xrocedv_rw *rw);

/*
 * Returns the largest number of WRs that a transfer of that many pieces and bytes needs on a QP
 * with max_send_sge, for the size of a send queue. With regions: 3 for each, and length /
 * XROCEDV_RW_MAX_MESSAGE.
 */
static inline uint32_t xrocedv_rw_max_wrs(uint32_t nents, uint32_t max_send_sge, uint64_t length)
{
	return nents / max_send_sge + 1 + (uint32_t)(length / XROCEDV_RW_MAX_MESSAGE);
}

/*
 * Posts the transfer, and behind it the WRs of `chain`, at once: no WR of another thread comes
 * between. Without a chain, the last WR of the transfer is signaled, so there is one completion,
 * with wr_id. With a chain (NULL: none) the program signals the last WR of the chain instead. If a
 * WR fails, it completes with wr_id and an error, and those behind it are flushed, also with wr_id.
 *
 * Returns 0; EINPROGRESS: the send queue is smaller than the transfer, a part of it was posted, and
 * its last WR is signaled; call again after its completion; or another positive errno, and nothing
 * was posted: ENOMEM (no room now), EINVAL (state of the QP, a WR of the chain, a chain as long as
 * the send queue), EALREADY (posted before), EIO.
 */
int xrocedv_rw_post(struct xrocedv_rw *rw, uint64_t wr_id, const struct ibv_send_wr *chain);

/* Frees the context. Its WRs must have completed, or not be posted. */
void xrocedv_rw_destroy(struct xrocedv_rw *rw);

/*
 * Integrity regions (IB_MR_TYPE_INTEGRITY of the kernel): data with a signature of each block,
 * which storage calls protection information (PI). The bytes of the region are the stream on the
 * wire: blocks of data, each followed by the PI of the wire side. The same data is in pieces of
 * memory, with the PI of the memory side. When the region is used as the local buffer of SENDs,
 * receives, WRITEs and READs (lkey) or by the peer (rkey), the PI of one side is checked and that
 * of the other is made:
 *
 *      memory          wire            bytes from memory       bytes into memory
 *      no PI           PI              PI is inserted          PI is checked and stripped
 *      PI              no PI           PI is checked, stripped PI is inserted
 *      PI              PI              PI is checked and passed on; made anew if the sides differ
 *
 * A failed check does not fail the transfer. The first one is recorded, and the program reads it
 * with xrocedv_check_integrity() when the transfer has completed (ib_check_mr_status() of the
 * kernel). So does the owner of the region after the peer has accessed it.
 *
 * A region is registered by a work request and invalidated like one of xrocedv_alloc_mr(). Only the
 * QP that registered it, and the peer of that QP, may use it. A transfer into memory begins at a
 * block, or where an earlier one ended. Not for atomics and memory windows.
 */
#define XROCEDV_INTEGRITY_MAX_PIECES 1024u

enum xrocedv_signature_type {
	XROCEDV_SIG_NONE, /* no PI */
	/*
	 * T10-DIF types 1 to 3: 8 bytes, big endian: guard (16 bits, the CRC of the data),
	 * application tag (16), reference tag (32). Reference tags of types 1 and 2 count the
	 * blocks; type 3 has the same in each block and does not check it.
	 *
	 * Escape values: a block with application tag 0xffff, and type 3 also reference tag
	 * 0xffffffff, is not checked. If both sides have T10-DIF, it keeps its PI.
	 */
	XROCEDV_SIG_T10DIF_1,
	XROCEDV_SIG_T10DIF_2,
	XROCEDV_SIG_T10DIF_3,
	XROCEDV_SIG_CRC32,  /* 4 bytes, little endian: CRC32 (IEEE 802.3) of the data */
	XROCEDV_SIG_CRC32C, /* the same with the polynomial of iSCSI */
};

/* Checks of the side that the data comes from */
#define XROCEDV_SIG_CHECK_GUARD 1u   /* CRC: T10-DIF, CRC32 and CRC32C */
#define XROCEDV_SIG_CHECK_APP_TAG 2u /* T10-DIF */
#define XROCEDV_SIG_CHECK_REF_TAG 4u /* T10-DIF types 1 and 2 */

struct xrocedv_signature {
	enum xrocedv_signature_type type;
	uint32_t check;
	uint32_t seed;	   /* CRC: start value. Usual are 0 for T10-DIF, else 0xffffffff. */
	uint16_t app_tag;  /* T10-DIF */
	uint16_t app_mask; /* bits of it that are checked */
	uint32_t ref_tag;  /* T10-DIF: of the first block */
};

struct xrocedv_integrity_attr {
	uint64_t wr_id;
	unsigned int access;	 /* IBV_ACCESS_LOCAL_WRITE, _REMOTE_READ, _REMOTE_WRITE */
	unsigned int send_flags; /* IBV_SEND_SIGNALED, IBV_SEND_FENCE */
	uint32_t block_size;	 /* bytes of data: 512, 520, 4096 or 4104 */
	struct xrocedv_signature memory, wire;
	/*
	 * Pieces of whole blocks together, with L_Keys, not the reserved one, of regions that allow
	 * what is done with the data. Cuts may be anywhere. pi: the PI of all blocks, if it is
	 * apart in memory. NULL and 0: the PI of each block is behind its data.
	 */
	const struct ibv_sge *data, *pi;
	uint32_t num_data, num_pi;
};

enum xrocedv_integrity_kind {
	XROCEDV_INTEGRITY_GUARD = 1,
	XROCEDV_INTEGRITY_APP_TAG,
	XROCEDV_INTEGRITY_REF_TAG,
	XROCEDV_INTEGRITY_SIGNATURE, /* CRC32 or CRC32C */
};

struct xrocedv_integrity_error {
	enum xrocedv_integrity_kind kind;
	uint32_t expected, actual; /* in host byte order */
	uint64_t offset;	   /* of the block in the region, as on the wire */
};

/*
 * Allocates an integrity region with room for max_pieces (1..XROCEDV_INTEGRITY_MAX_PIECES), of data
 * and PI together. Its lkey and rkey are the same key; xrocedv_update_key() sets the variant.
 * ibv_dereg_mr() frees it in any state. Returns NULL and errno on error: EINVAL, ENOMEM, EDQUOT,
 * EOPNOTSUPP (not an xroce device), EIO.
 */
struct ibv_mr *xrocedv_alloc_integrity_mr(struct ibv_pd *pd, uint32_t max_pieces);

/*
 * Posts the registration of the region, with key mr->rkey, and clears the recorded error when it is
 * executed. For RC and UC QPs. mr->addr and mr->length: set to the address of the first piece and
 * the bytes on the wire. The completion has opcode XROCEDV_WC_REG_MR. Two registrations of a region
 * may be outstanding; attr and its lists are not used after the call.
 *
 * Returns 0 or a positive errno: EINVAL (flags, state of the QP, block size, signatures or pieces,
 * not an integrity region), EPERM (another PD), ENOMEM (the queue is full), EIO.
 */
int xrocedv_post_reg_integrity(struct ibv_qp *qp, struct ibv_mr *mr,
			       const struct xrocedv_integrity_attr *attr);

/*
 * Returns 0 if no check has failed since the registration, 1 with *error set to the first failure,
 * -EINVAL if it is not an integrity region. Call it when the work request or receive that has the
 * region as its buffer has completed, or the peer has announced the end of its access.
 */
int xrocedv_check_integrity(struct ibv_mr *mr, struct xrocedv_integrity_error *error);

/*
 * Gets the reserved L_Key (IBTA 10.6.3; local_dma_lkey of the kernel). Work requests can use it in
 * any PD and without a region for all memory of the process, by virtual address and with the access
 * rights of the memory itself. It is valid for all QPs of pd's context and their SRQs, but not for
 * XRC SRQs. It is not an R_Key: access by peers is denied, and windows cannot be bound with it.
 * Only for programs of root, of the daemon's user, or of the group set by --reserved-lkey-group,
 * see xroced(8). Returns 0 or a positive errno: EPERM, EOPNOTSUPP (not an xroce device), ENOMEM,
 * EIO.
 */
int xrocedv_reserved_lkey(struct ibv_pd *pd, uint32_t *lkey);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_XROCEDV_H */
