/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks up the direct verbs of <infiniband/xrocedv.h> at run time, for programs that are not
 * linked with libxroce.so.
 */
#ifndef XR_TEST_DIRECT_VERBS_H
#define XR_TEST_DIRECT_VERBS_H

#include <dlfcn.h>

#include <infiniband/xrocedv.h>

#define DIRECT_VERBS(X)                                                                            \
	X(is_supported)                                                                            \
	X(alloc_mr)                                                                                \
	X(map_mr_sg)                                                                               \
	X(post_reg_mr)                                                                             \
	X(create_pool)                                                                             \
	X(pool_map)                                                                                \
	X(pool_unmap)                                                                              \
	X(flush_pool)                                                                              \
	X(destroy_pool)                                                                            \
	X(reserved_lkey)                                                                           \
	X(drain_sq)                                                                                \
	X(drain_rq)                                                                                \
	X(drain_qp)                                                                                \
	X(rw_create)                                                                               \
	X(rw_wrs)                                                                                  \
	X(rw_post)                                                                                 \
	X(rw_destroy)                                                                              \
	X(alloc_integrity_mr)                                                                      \
	X(post_reg_integrity)                                                                      \
	X(check_integrity)

struct direct_verbs {
#define X(name) __typeof__(xrocedv_##name) *name;
	DIRECT_VERBS(X)
#undef X
};

/*
 * Sets @dv to the functions found, or NULL. Returns false if one is missing, e.g. because the
 * provider is not loaded.
 */
static inline bool find_direct_verbs(struct direct_verbs *dv)
{
	bool all = true;

#define X(name)                                                                                    \
	*(void **)&dv->name = dlsym(RTLD_DEFAULT, "xrocedv_" #name);                               \
	all &= dv->name != NULL;
	DIRECT_VERBS(X)
#undef X
	return all;
}

#endif /* XR_TEST_DIRECT_VERBS_H */
