/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Additions to the ABI in verbs.h of rdma-core after 44. This library can be built with older
 * headers, so it declares them itself, with other names. Pointers to the types of verbs.h are only
 * passed on.
 */
#ifndef XP_NEWER_VERBS_H
#define XP_NEWER_VERBS_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

/* enum ibv_parent_domain_init_attr_mask: IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC */
#define XP_PARENT_ALLOW_CC_UNPROTECTED 4u

/* enum ibv_mr_init_attr_mask: IBV_REG_MR_MASK_* */
#define XP_REG_MR_IOVA 1u
#define XP_REG_MR_ADDR 2u
#define XP_REG_MR_FD 4u
#define XP_REG_MR_FD_OFFSET 8u
#define XP_REG_MR_DMAH 16u
#define XP_REG_MR_BUF 32u

/* struct ibv_mr_init_attr, since IBVERBS_1.15; buf since 1.17 */
struct xp_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

#endif /* XP_NEWER_VERBS_H */
