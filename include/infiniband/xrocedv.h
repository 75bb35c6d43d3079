/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct verbs of xroce: what its devices can do beyond <infiniband/verbs.h>. The functions are exported
 * by libxroce.so, version XROCE_1.0: link with it, or look them up with dlsym() in a program that it was
 * preloaded into. All may be called by any thread. See xrocedv(3).
 *
 * Fast registration: a region is allocated once and registered again and again by work requests, each
 * time with other pages of the program's memory and a new key (the kernel's IB_WR_REG_MR).
 *
 *      FREE --- REG_MR ---> VALID --- LOCAL_INV, or SEND with Invalidate ---> FREE
 *
 * Every other order is refused: the work request completes with IBV_WC_MW_BIND_ERR ("memory management
 * operation error") and the queue pair is in error.
 *
 * Allocators of a parent domain (ibv_alloc_parent_domain) are asked for what a queue keeps in the program's
 * memory; resource_type is one of enum xrocedv_resource. The queue itself lies in memory of the daemon.
 */
#ifndef INFINIBAND_XROCEDV_H
#define INFINIBAND_XROCEDV_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* opcode of the completion of a registration */
#define XROCEDV_WC_REG_MR IBV_WC_DRIVER1

#define XROCEDV_MAX_PAGES 4096u	    /* of one region */
#define XROCEDV_MIN_PAGE_SIZE 4096u /* bytes; a power of two */
#define XROCEDV_MAX_PAGE_SIZE (1u << 30)

/* In the upper 32 bits RDMA_DRIVER_UNKNOWN, which is 0 */
enum xrocedv_resource {
	XROCEDV_RES_QP = 1, /* also once for each queue of it */
	XROCEDV_RES_SRQ = 2,
	XROCEDV_RES_CQ = 3, /* of ibv_create_cq_ex() with a parent domain */
};

/* Is it a device of xroce? */
bool xrocedv_is_supported(struct ibv_device *device);

/*
 * Queue pair 1, the general services interface, by which connection managers and other management
 * talk (IBTA 13.5.1). An ordinary UD queue pair but for its number, 1, its Q_Key, which must be
 * XROCEDV_GSI_QKEY (set on the way to INIT), and that there is one for each device. It receives
 * what is sent to QPN 1 of any of the device's addresses as long as it exists; without it such
 * packets are dropped. One message is one management datagram, 256 bytes in general: the device
 * looks at none of them, and answers none.
 * attr: as for ibv_create_qp(), qp_type IBV_QPT_UD. NULL and errno: those of ibv_create_qp(), and
 * EPERM (the program is run neither by root nor by the daemon's user), EBUSY (there is one), EINVAL
 * (another type), EOPNOTSUPP (not a device of xroce).
 */
#define XROCEDV_GSI_QPN 1u
#define XROCEDV_GSI_QKEY 0x80010000u

struct ibv_qp *xrocedv_create_gsi_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

/*
 * A region for fast registration, in state FREE, of at most max_pages pages (1..XROCEDV_MAX_PAGES). Its
 * lkey and rkey are one key. Ends with ibv_dereg_mr(), in any state, but not while a memory window is
 * bound to it (EBUSY). NULL and errno: EINVAL, ENOMEM, EDQUOT, EOPNOTSUPP (not a device of xroce), EIO.
 */
struct ibv_mr *xrocedv_alloc_mr(struct ibv_pd *pd, uint32_t max_pages);

/* Part of the program's memory */
struct xrocedv_sg {
	uint64_t addr;	 /* in the program's address space */
	uint64_t length; /* bytes, not 0 */
};

/*
 * Sets the pages of the next registration: the longest prefix of the list that one region can name.
 * page_size: bytes, a power of two in XROCEDV_MIN_PAGE_SIZE..XROCEDV_MAX_PAGE_SIZE. All elements
 * but the first must begin at a page, all but the last must end at one, unless they continue each
 * other. *sg_offset (NULL: 0) says where in the first element to begin, and is set to the bytes of
 * the first element that is not wholly mapped which are: 0 but where the region ran out of pages.
 * mr->addr and mr->length become the region's address (that of its first byte) and length as they
 * will be.
 *
 * Returns how many elements are mapped wholly, or -EINVAL. The list that was set is the library's until its
 * registration completed; two may be under way for one region, so call this again when at most
 * one is. Pages need not be there before they are used.
 */
int xrocedv_map_mr_sg(struct ibv_mr *mr, const struct xrocedv_sg *sg, int nents,
		      uint64_t *sg_offset, uint32_t page_size);

/* A new variant of the region's key, for the next registration: bits 7:0 of lkey and rkey. */
static inline void xrocedv_update_key(struct ibv_mr *mr, uint8_t variant)
{
	mr->lkey = mr->rkey = (mr->rkey & ~0xffu) | variant;
}

/*
 * Posts the registration of what was mapped, under mr->rkey as it is now. access: IBV_ACCESS_LOCAL_WRITE,
 * _REMOTE_READ, _REMOTE_WRITE, _REMOTE_ATOMIC, _MW_BIND; send_flags: IBV_SEND_SIGNALED, IBV_SEND_FENCE. Work
 * requests behind it may use the key at once. Invalidate it by IBV_WR_LOCAL_INV, which takes effect when
 * all requests before it in its queue are complete. RC and UC queue pairs. Returns 0 or a positive errno:
 * EINVAL (flags, state of the queue pair, nothing mapped, not such a region), EPERM (other
 * protection domain), ENOMEM (the queue is full), EIO.
 */
int xrocedv_post_reg_mr(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t wr_id, unsigned int access,
			unsigned int send_flags);

/*
 * Pools of regions for fast registration, for programs that map and unmap other memory all the
 * time: map gives keys at once, without a queue pair of the program's; unmap leaves the mapping as
 * it is, until its region is needed or the pool is flushed. The kernel had the like as FMR pools
 * (ib_create_fmr_pool).
 *
 *      free --- map ---> mapped --- unmap ---> dirty --- flush, or map of another list ---> free
 *
 * A dirty mapping can still be used by who knows its key. With XROCEDV_POOL_CACHE the same list maps to
 * what is mapped or dirty already, with the same keys. All functions but create and destroy may be
 * called for one pool by many threads at a time.
 */
#define XROCEDV_POOL_CACHE 1u

#define XROCEDV_MAX_POOL 65536u

struct xrocedv_pool;

struct xrocedv_pool_attr {
	uint32_t max_pages; /* of one mapping: 1..XROCEDV_MAX_PAGES */
	uint32_t page_size; /* as for xrocedv_map_mr_sg() */
	uint32_t pool_size; /* mappings at a time: 1..XROCEDV_MAX_POOL */
	uint32_t
		dirty_watermark; /* as many dirty ones are flushed by the unmap that makes them so many; 0: never */
	unsigned int access; /* as for xrocedv_post_reg_mr(), without IBV_ACCESS_MW_BIND */
	uint32_t flags;	     /* XROCEDV_POOL_CACHE */
	/*
	 * Called behind each flush that succeeded, by the thread that flushed; it may use the pool.
	 * Or NULL.
	 */
	void (*flushed)(struct xrocedv_pool *pool, void *arg);
	void *arg;
};

/* Memory that is mapped. To be read only; valid from map to the unmap that goes with it. */
struct xrocedv_mapping {
	uint64_t addr;	 /* of its first byte, in the program's memory and for peers */
	uint64_t length; /* bytes */
	uint32_t lkey, rkey;
	struct xrocedv_pool *pool;
};

/*
 * A pool, with all its regions. It has a queue pair and a completion queue of its own, which count
 * as the program's. Ends before its protection domain does. NULL and errno: EINVAL, EADDRNOTAVAIL
 * (the device has no GID), and those of xrocedv_alloc_mr(), ibv_create_cq(), ibv_create_qp() and
 * ibv_modify_qp().
 */
struct xrocedv_pool *xrocedv_create_pool(struct ibv_pd *pd, const struct xrocedv_pool_attr *attr);

/*
 * Maps all of a list, under the rules of xrocedv_map_mr_sg(). Its keys are valid for every queue
 * pair of the protection domain when this returns. NULL and errno: EINVAL (the list, or one mapping
 * cannot name all of it), EAGAIN (all regions are mapped), EIO.
 */
const struct xrocedv_mapping *xrocedv_pool_map(struct xrocedv_pool *pool,
					       const struct xrocedv_sg *sg, int nents);

/* Once for each map. No work request that uses the keys may be under way. 0, or EINVAL: it is not mapped. */
int xrocedv_pool_unmap(const struct xrocedv_mapping *mapping);

/*
 * Invalidates what is dirty; nobody can use it any more when this returns. 0, or EIO: some is dirty
 * as before.
 */
int xrocedv_flush_pool(struct xrocedv_pool *pool);

/* 0, or EBUSY: something is mapped, or what ibv_dereg_mr(), ibv_destroy_qp(), ibv_destroy_cq() return. */
int xrocedv_destroy_pool(struct xrocedv_pool *pool);

/*
 * The reserved L_Key (IBTA 10.6.3; the kernel's local_dma_lkey): as L_Key of work requests it
 * stands for all memory of the process, by its addresses, readable and writable as the memory is,
 * without a region and in every protection domain. Valid for all queue pairs of pd's context and
 * their SRQs, but not for SRQs of XRC. It is no R_Key: peers that use it are refused, and no window
 * can be bound by it. For privileged programs: root, the daemon's user, the group that xroced(8) was
 * told. 0, or EPERM, EOPNOTSUPP (not a device of xroce), ENOMEM, EIO.
 */
int xrocedv_reserved_lkey(struct ibv_pd *pd, uint32_t *lkey);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_XROCEDV_H */
