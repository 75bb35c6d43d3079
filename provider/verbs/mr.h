/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory regions. */
#ifndef XP_MR_H
#define XP_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "provider/memory/layout.h"

struct ibv_buf;
struct ibv_mr_init_attr;

struct xp_mr {
	struct ibv_mr ibmr;
	struct xp_context *ctx; /* of this process: child.h */
	int access;
	uint64_t iova;
	bool fixed;	/* not of the program's memory: cannot be reregistered */
	bool imported;	/* another client's: the daemon has no object for it */
	bool fast;	/* a struct xp_fast_mr */
	bool integrity; /* a struct integrity_mr (integrity.c) */
	struct xp_page_refs refs;
};

static inline struct xp_mr *xp_mr(const struct ibv_mr *ibmr)
{
	return (struct xp_mr *)ibmr;
}

struct ibv_mr *xp_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			       unsigned int access);
int xp_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		int access);
int xp_dereg_mr(struct ibv_mr *ibmr);
struct ibv_mr *xp_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t off, size_t length, uint64_t iova,
				int fd, int access);
struct ibv_mr *xp_reg_mr_ex(struct ibv_pd *ibpd, const struct ibv_mr_init_attr *init);
struct ibv_mr *xp_reg_buf_mr(struct ibv_pd *ibpd, struct ibv_buf *buf, void *addr, size_t length,
			     int access);
struct ibv_mr *xp_alloc_null_mr(struct ibv_pd *ibpd);
struct ibv_mr *xp_import_mr(struct ibv_pd *ibpd, uint32_t handle);
void xp_unimport_mr(struct ibv_mr *ibmr);
int xp_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t n);

/*
 * Sends /proc/self/mem and maps to the daemon, unless an earlier registration has done so. Returns
 * 0 or -errno.
 */
int xp_send_proc_files(struct ibv_pd *ibpd);

/*
 * Registers a region of one segment that is not of the program's memory.
 * @fd: descriptor that the segment needs, or -1.
 * Returns NULL and errno on error.
 */
struct ibv_mr *xp_reg_segment(struct ibv_pd *ibpd, const struct xr_mr_segment *seg, int fd,
			      uint64_t iova, unsigned int access);

#endif /* XP_MR_H */
