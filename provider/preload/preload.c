// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions of libibverbs. This library is loaded first and exports functions with the
 * same names and symbol versions. Each handles the objects of this library and passes others to the
 * function of libibverbs, as the table below says.
 *
 * Only the public ABI of verbs.h is used and nothing links to libibverbs. So one binary serves
 * every release, and programs that use no verbs do not load libibverbs.
 */
#include "provider/base/debug.h"
#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/base/libibverbs.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/async_event.h"
#include "provider/verbs/buf.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/context.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/device.h"
#include "provider/verbs/dm.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/newer_verbs.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/query.h"
#include "provider/verbs/srq.h"
#include "provider/verbs/token_file.h"

/* verbs.h has inline functions with these names. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/*
 * INT(name, version, ours, function, parameters, arguments), also PTR(type, ...) and VOID(...)
 *   version    of the symbol
 *   ours       true if the object is of this library
 *   function   called in that case
 */
#define C(x) xp_is_ours((x)->context)
#define VERBS(INT, PTR, VOID)                                                                      \
	/* devices and contexts */                                                                 \
	INT(ibv_get_device_index, "IBVERBS_1.9", xp_is_our_device(device), xp_get_device_index,    \
	    (struct ibv_device * device), (device))                                                \
	PTR(struct ibv_context *, ibv_open_device, "IBVERBS_1.1", xp_is_our_device(device),        \
	    xp_open_device, (struct ibv_device * device), (device))                                \
	INT(ibv_close_device, "IBVERBS_1.1", xp_is_ours(ctx), xp_close_device,                     \
	    (struct ibv_context * ctx), (ctx))                                                     \
	INT(ibv_query_device, "IBVERBS_1.1", xp_is_ours(ctx), xp_query_device,                     \
	    (struct ibv_context * ctx, struct ibv_device_attr * attr), (ctx, attr))                \
	INT(ibv_query_port, "IBVERBS_1.1", xp_is_ours(ctx), xp_query_port_compat,                  \
	    (struct ibv_context * ctx, uint8_t port, struct _compat_ibv_port_attr * attr),         \
	    (ctx, port, attr))                                                                     \
	INT(ibv_query_gid, "IBVERBS_1.1", xp_is_ours(ctx), xp_query_gid,                           \
	    (struct ibv_context * ctx, uint8_t port, int index, union ibv_gid *gid),               \
	    (ctx, port, index, gid))                                                               \
	INT(_ibv_query_gid_ex, "IBVERBS_1.11", xp_is_ours(ctx), xp_query_gid_ex,                   \
	    (struct ibv_context * ctx, uint32_t port, uint32_t index,                              \
	     struct ibv_gid_entry * entry, uint32_t flags, size_t size),                           \
	    (ctx, port, index, entry, flags, size))                                                \
	INT(ibv_query_pkey, "IBVERBS_1.1", xp_is_ours(ctx), xp_query_pkey,                         \
	    (struct ibv_context * ctx, uint8_t port, int index, __be16 *pkey),                     \
	    (ctx, port, index, pkey))                                                              \
	INT(ibv_get_pkey_index, "IBVERBS_1.5", xp_is_ours(ctx), xp_get_pkey_index,                 \
	    (struct ibv_context * ctx, uint8_t port, __be16 pkey), (ctx, port, pkey))              \
	INT(ibv_get_async_event, "IBVERBS_1.1", xp_is_ours(ctx), xp_get_async_event,               \
	    (struct ibv_context * ctx, struct ibv_async_event * event), (ctx, event))              \
	VOID(ibv_ack_async_event, "IBVERBS_1.1", xp_is_our_event(event), xp_ack_async_event,       \
	     (struct ibv_async_event * event), (event))                                            \
	/* protection domains and memory */                                                        \
	PTR(struct ibv_pd *, ibv_alloc_pd, "IBVERBS_1.1", xp_is_ours(ctx), xp_alloc_pd,            \
	    (struct ibv_context * ctx), (ctx))                                                     \
	INT(ibv_dealloc_pd, "IBVERBS_1.1", C(pd), xp_dealloc_pd, (struct ibv_pd * pd), (pd))       \
	PTR(struct ibv_mr *, ibv_reg_mr, "IBVERBS_1.1", C(pd), reg_mr,                             \
	    (struct ibv_pd * pd, void *addr, size_t length, int access),                           \
	    (pd, addr, length, access))                                                            \
	PTR(struct ibv_mr *, ibv_reg_mr_iova, "IBVERBS_1.7", C(pd), xp_reg_mr_iova2,               \
	    (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, int access),            \
	    (pd, addr, length, iova, access))                                                      \
	PTR(struct ibv_mr *, ibv_reg_mr_iova2, "IBVERBS_1.8", C(pd), xp_reg_mr_iova2,              \
	    (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, unsigned int access),   \
	    (pd, addr, length, iova, access))                                                      \
	PTR(struct ibv_mr *, ibv_reg_dmabuf_mr, "IBVERBS_1.12", C(pd), xp_reg_dmabuf_mr,           \
	    (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd,            \
	     int access),                                                                          \
	    (pd, offset, length, iova, fd, access))                                                \
	INT(ibv_rereg_mr, "IBVERBS_1.1", C(mr), xp_rereg_mr,                                       \
	    (struct ibv_mr * mr, int flags, struct ibv_pd *pd, void *addr, size_t length,          \
	     int access),                                                                          \
	    (mr, flags, pd, addr, length, access))                                                 \
	INT(ibv_dereg_mr, "IBVERBS_1.1", C(mr), xp_dereg_mr, (struct ibv_mr * mr), (mr))           \
	/* completions */                                                                          \
	PTR(struct ibv_comp_channel *, ibv_create_comp_channel, "IBVERBS_1.0", xp_is_ours(ctx),    \
	    xp_create_comp_channel, (struct ibv_context * ctx), (ctx))                             \
	INT(ibv_destroy_comp_channel, "IBVERBS_1.0", C(channel), xp_destroy_comp_channel,          \
	    (struct ibv_comp_channel * channel), (channel))                                        \
	PTR(struct ibv_cq *, ibv_create_cq, "IBVERBS_1.1", xp_is_ours(ctx), xp_create_cq,          \
	    (struct ibv_context * ctx, int cqe, void *cq_context,                                  \
	     struct ibv_comp_channel *channel, int comp_vector),                                   \
	    (ctx, cqe, cq_context, channel, comp_vector))                                          \
	INT(ibv_resize_cq, "IBVERBS_1.1", C(cq), xp_resize_cq, (struct ibv_cq * cq, int cqe),      \
	    (cq, cqe))                                                                             \
	INT(ibv_destroy_cq, "IBVERBS_1.1", C(cq), xp_destroy_cq, (struct ibv_cq * cq), (cq))       \
	INT(ibv_get_cq_event, "IBVERBS_1.1", C(channel), xp_get_cq_event,                          \
	    (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context),           \
	    (channel, cq, cq_context))                                                             \
	VOID(ibv_ack_cq_events, "IBVERBS_1.1", C(cq), xp_ack_cq_events,                            \
	     (struct ibv_cq * cq, unsigned int n), (cq, n))                                        \
	/* queue pairs */                                                                          \
	PTR(struct ibv_qp *, ibv_create_qp, "IBVERBS_1.1", C(pd), xp_create_qp,                    \
	    (struct ibv_pd * pd, struct ibv_qp_init_attr * attr), (pd, attr))                      \
	INT(ibv_modify_qp, "IBVERBS_1.1", C(qp), xp_modify_qp,                                     \
	    (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask), (qp, attr, mask))           \
	INT(ibv_query_qp, "IBVERBS_1.1", C(qp), xp_query_qp,                                       \
	    (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask,                              \
	     struct ibv_qp_init_attr *init),                                                       \
	    (qp, attr, mask, init))                                                                \
	INT(ibv_destroy_qp, "IBVERBS_1.1", C(qp), xp_destroy_qp, (struct ibv_qp * qp), (qp))       \
	PTR(struct ibv_qp_ex *, ibv_qp_to_qp_ex, "IBVERBS_1.6", C(qp), xp_qp_to_qp_ex,             \
	    (struct ibv_qp * qp), (qp))                                                            \
	INT(ibv_query_qp_data_in_order, "IBVERBS_1.14", C(qp), not_in_order,                       \
	    (struct ibv_qp * qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags))          \
	INT(ibv_set_ece, "IBVERBS_1.10", C(qp), refuse_int,                                        \
	    (struct ibv_qp * qp, struct ibv_ece * ece), (qp, ece))                                 \
	INT(ibv_query_ece, "IBVERBS_1.10", C(qp), refuse_int,                                      \
	    (struct ibv_qp * qp, struct ibv_ece * ece), (qp, ece))                                 \
	INT(ibv_attach_mcast, "IBVERBS_1.1", C(qp), xp_attach_mcast,                               \
	    (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))          \
	INT(ibv_detach_mcast, "IBVERBS_1.1", C(qp), xp_detach_mcast,                               \
	    (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))          \
	/* shared receive queues */                                                                \
	PTR(struct ibv_srq *, ibv_create_srq, "IBVERBS_1.1", C(pd), xp_create_srq,                 \
	    (struct ibv_pd * pd, struct ibv_srq_init_attr * attr), (pd, attr))                     \
	INT(ibv_modify_srq, "IBVERBS_1.1", C(srq), xp_modify_srq,                                  \
	    (struct ibv_srq * srq, struct ibv_srq_attr * attr, int mask), (srq, attr, mask))       \
	INT(ibv_query_srq, "IBVERBS_1.1", C(srq), xp_query_srq,                                    \
	    (struct ibv_srq * srq, struct ibv_srq_attr * attr), (srq, attr))                       \
	INT(ibv_destroy_srq, "IBVERBS_1.1", C(srq), xp_destroy_srq, (struct ibv_srq * srq), (srq)) \
	/* address handles */                                                                      \
	PTR(struct ibv_ah *, ibv_create_ah, "IBVERBS_1.1", C(pd), xp_create_ah,                    \
	    (struct ibv_pd * pd, struct ibv_ah_attr * attr), (pd, attr))                           \
	PTR(struct ibv_ah *, ibv_create_ah_from_wc, "IBVERBS_1.1", C(pd), xp_create_ah_from_wc,    \
	    (struct ibv_pd * pd, struct ibv_wc * wc, struct ibv_grh * grh, uint8_t port),          \
	    (pd, wc, grh, port))                                                                   \
	INT(ibv_init_ah_from_wc, "IBVERBS_1.1", xp_is_ours(ctx), xp_init_ah_from_wc,               \
	    (struct ibv_context * ctx, uint8_t port, struct ibv_wc * wc, struct ibv_grh * grh,     \
	     struct ibv_ah_attr * attr),                                                           \
	    (ctx, port, wc, grh, attr))                                                            \
	INT(ibv_destroy_ah, "IBVERBS_1.1", C(ah), xp_destroy_ah, (struct ibv_ah * ah), (ah))       \
	INT(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1", xp_is_ours(ctx),                           \
	    xp_resolve_eth_l2_from_gid,                                                            \
	    (struct ibv_context * ctx, struct ibv_ah_attr * attr, uint8_t mac[6], uint16_t * vid), \
	    (ctx, attr, mac, vid))                                                                 \
	/* sharing between processes */                                                            \
	PTR(struct ibv_pd *, ibv_import_pd, "IBVERBS_1.10", xp_is_ours(ctx), xp_import_pd,         \
	    (struct ibv_context * ctx, uint32_t handle), (ctx, handle))                            \
	VOID(ibv_unimport_pd, "IBVERBS_1.10", C(pd), xp_unimport_pd, (struct ibv_pd * pd), (pd))   \
	PTR(struct ibv_mr *, ibv_import_mr, "IBVERBS_1.10", C(pd), xp_import_mr,                   \
	    (struct ibv_pd * pd, uint32_t handle), (pd, handle))                                   \
	VOID(ibv_unimport_mr, "IBVERBS_1.10", C(mr), xp_unimport_mr, (struct ibv_mr * mr), (mr))   \
	PTR(struct ibv_dm *, ibv_import_dm, "IBVERBS_1.13", xp_is_ours(ctx), xp_import_dm,         \
	    (struct ibv_context * ctx, uint32_t handle), (ctx, handle))                            \
	VOID(ibv_unimport_dm, "IBVERBS_1.13", C(dm), xp_unimport_dm, (struct ibv_dm * dm), (dm))   \
	/* since rdma-core 45 */                                                                   \
	PTR(struct ibv_mr *, ibv_reg_mr_ex, "IBVERBS_1.15", C(pd), xp_reg_mr_ex,                   \
	    (struct ibv_pd * pd, struct ibv_mr_init_attr * attr), (pd, attr))                      \
	PTR(struct ibv_dmah *, ibv_alloc_dmah, "IBVERBS_1.15", xp_is_ours(ctx), no_dmah,           \
	    (struct ibv_context * ctx, struct ibv_dmah_init_attr * attr), (ctx, attr))             \
	INT(ibv_query_port_speed, "IBVERBS_1.16", xp_is_ours(ctx), xp_query_port_speed,            \
	    (struct ibv_context * ctx, uint32_t port, uint64_t * speed), (ctx, port, speed))       \
	PTR(void *, ibv_alloc_buf, "IBVERBS_1.17", C(pd), xp_alloc_buf,                            \
	    (struct ibv_pd * pd, size_t size, struct ibv_buf * *buf), (pd, size, buf))             \
	VOID(ibv_free_buf, "IBVERBS_1.17", xp_is_our_buf(buf), xp_free_buf,                        \
	     (struct ibv_buf * buf), (buf))                                                        \
	PTR(struct ibv_mr *, ibv_reg_buf_mr, "IBVERBS_1.17", C(pd), xp_reg_buf_mr,                 \
	    (struct ibv_pd * pd, struct ibv_buf * buf, void *addr, size_t length, int access),     \
	    (pd, buf, addr, length, access))                                                       \
	INT(_ibv_query_comp_cntr_caps, "IBVERBS_1.18", xp_is_ours(ctx), no_comp_cntr_caps,         \
	    (struct ibv_context * ctx, struct ibv_comp_cntr_caps * caps, size_t size),             \
	    (ctx, caps, size))                                                                     \
	PTR(struct ibv_comp_cntr *, ibv_create_comp_cntr, "IBVERBS_1.18", xp_is_ours(ctx),         \
	    no_comp_cntr, (struct ibv_context * ctx, struct ibv_comp_cntr_init_attr * attr),       \
	    (ctx, attr))                                                                           \
	INT(ibv_qp_attach_comp_cntr, "IBVERBS_1.18", C(qp), no_comp_cntr_of_qp,                    \
	    (struct ibv_qp * qp, struct ibv_comp_cntr * cntr,                                      \
	     struct ibv_qp_attach_comp_cntr_attr * attr),                                          \
	    (qp, cntr, attr))                                                                      \
	/* defined below */                                                                        \
	OTHER(ibv_get_device_list, "IBVERBS_1.1")                                                  \
	OTHER(ibv_free_device_list, "IBVERBS_1.1")                                                 \
	OTHER(ibv_get_device_guid, "IBVERBS_1.1")                                                  \
	OTHER(ibv_import_device, "IBVERBS_1.10")                                                   \
	OTHER(_ibv_query_gid_table, "IBVERBS_1.11")                                                \
	OTHER(ibv_dm_export_dmabuf_fd, "IBVERBS_1.16")                                             \
	OTHER(ibv_export_buf_dmabuf_fd, "IBVERBS_1.18")

/* ---- libibverbs ---------------------------------------------------------------- */

#define OTHER(name, version) V_##name,
#define ENUM_INT(name, version, ours, function, params, args) V_##name,
#define ENUM_PTR(type, name, version, ours, function, params, args) V_##name,
enum verb { VERBS(ENUM_INT, ENUM_PTR, ENUM_INT) VERB_COUNT };
#undef OTHER

#define OTHER(verb, version) { #verb, version, NULL },
#define ROW_INT(verb, version, ours, function, params, args) { #verb, version, NULL },
#define ROW_PTR(type, verb, version, ours, function, params, args) { #verb, version, NULL },
static struct {
	const char *name, *version;
	void *real;
} verbs[] = { VERBS(ROW_INT, ROW_PTR, ROW_INT) };
#undef OTHER
#define OTHER(name, version)

/* Returns the function of libibverbs, or NULL. */
static void *real(enum verb v)
{
	void *fn = __atomic_load_n(&verbs[v].real, __ATOMIC_RELAXED);

	if (!fn) {
		fn = xp_libibverbs_symbol(verbs[v].name, verbs[v].version);
		__atomic_store_n(&verbs[v].real, fn, __ATOMIC_RELAXED);
	}
	return fn;
}

/* ---- functions of the table ---------------------------------------------------- */

#define refuse_int(...) EOPNOTSUPP
#define refuse(name, why) xp_refuse(name, EOPNOTSUPP, why)
#define no_dmah(...)                                                                               \
	xp_null(refuse("ibv_alloc_dmah",                                                           \
		       "a DMA handle directs PCIe writes to caches of processors"))
#define NO_COUNTERS "the device has no completion counters"
#define no_comp_cntr_caps(...) (-refuse("ibv_query_comp_cntr_caps", NO_COUNTERS))
#define no_comp_cntr(...) xp_null(refuse("ibv_create_comp_cntr", NO_COUNTERS))
#define no_comp_cntr_of_qp(...) (-refuse("ibv_qp_attach_comp_cntr", NO_COUNTERS))
/* memcpy() may write the bytes in any order, and packets may arrive in any order. */
#define not_in_order(...) 0
#define reg_mr(pd, addr, length, access)                                                           \
	xp_reg_mr_iova2(pd, addr, length, (uintptr_t)(addr), (unsigned int)(access))

/* ---- the exports --------------------------------------------------------------- */

/* Each has a prototype of its own: verbs.h may be older than the function. */
#define DEFINE_INT(name, version, ours, function, params, args)                                    \
	XP_PUBLIC int name params;                                                                 \
	XP_PUBLIC int name params                                                                  \
	{                                                                                          \
		int(*next) params;                                                                 \
                                                                                                   \
		if (ours)                                                                          \
			return function args;                                                      \
		next = real(V_##name);                                                             \
		return next ? next args : ENOSYS;                                                  \
	}
#define DEFINE_PTR(type, name, version, ours, function, params, args)                              \
	XP_PUBLIC type name params;                                                                \
	XP_PUBLIC type name params                                                                 \
	{                                                                                          \
		type(*next) params;                                                                \
                                                                                                   \
		if (ours)                                                                          \
			return function args;                                                      \
		next = real(V_##name);                                                             \
		return next ? next args : xp_null(ENOSYS);                                         \
	}
#define DEFINE_VOID(name, version, ours, function, params, args)                                   \
	XP_PUBLIC void name params;                                                                \
	XP_PUBLIC void name params                                                                 \
	{                                                                                          \
		void(*next) params;                                                                \
                                                                                                   \
		if (ours) {                                                                        \
			function args;                                                             \
			return;                                                                    \
		}                                                                                  \
		next = real(V_##name);                                                             \
		if (next)                                                                          \
			next args;                                                                 \
	}
VERBS(DEFINE_INT, DEFINE_PTR, DEFINE_VOID)

/* Set while libibverbs' ibv_import_device() runs, which must see only its own devices. */
static __thread bool importing;

XP_PUBLIC struct ibv_device **ibv_get_device_list(int *num)
{
	return importing ? xp_libibverbs_get_device_list(num) : xp_get_device_list(num);
}

XP_PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
	xp_free_device_list(list);
}

XP_PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
	__be64 (*next)(struct ibv_device *);

	if (xp_is_our_device(device))
		return xp_get_device_guid(device);
	next = real(V_ibv_get_device_guid);
	return next ? next(device) : 0;
}

XP_PUBLIC struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *(*next)(int) = real(V_ibv_import_device);
	struct xp_token_file t;
	struct ibv_context *ctx;

	if (xp_token_file_read(cmd_fd, &t))
		return xp_import_device(cmd_fd);
	if (!next)
		return xp_null(EOPNOTSUPP);
	importing = true;
	ctx = next(cmd_fd);
	importing = false;
	return ctx;
}

XP_PUBLIC ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries,
				       size_t max, uint32_t flags, size_t size)
{
	ssize_t (*next)(struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t);

	if (xp_is_ours(ctx))
		return xp_query_gid_table(ctx, entries, max, flags, size);
	next = real(V__ibv_query_gid_table);
	return next ? next(ctx, entries, max, flags, size) : -ENOSYS;
}

XP_PUBLIC int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	int (*next)(struct ibv_dm *);

	if (xp_is_ours(dm->context))
		return xp_fail(refuse("ibv_dm_export_dmabuf_fd",
				      "device memory is part of a file that holds queues as well"));
	next = real(V_ibv_dm_export_dmabuf_fd);
	return next ? next(dm) : xp_fail(ENOSYS);
}

XP_PUBLIC int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	int (*next)(struct ibv_buf *);

	if (xp_is_our_buf(buf))
		return xp_export_buf_dmabuf_fd(buf);
	next = real(V_ibv_export_buf_dmabuf_fd);
	return next ? next(buf) : xp_fail(ENOSYS);
}

/*
 * ibv_query_gid_type() is private to rdma-core, but its tools call it, each with the private symbol
 * version of its release.
 */
static int query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type,
			  const char *version)
{
	int (*next)(struct ibv_context *, uint8_t, unsigned int, int *);

	if (xp_is_ours(ctx))
		return xp_query_gid_type(ctx, port, index, type);
	next = xp_libibverbs_symbol("ibv_query_gid_type", version);
	if (next)
		return next(ctx, port, index, type);
	return xp_fail(ENOSYS);
}

#define QUERY_GID_TYPE(release)                                                                    \
	int xp_query_gid_type_##release(struct ibv_context *ctx, uint8_t port, unsigned int index, \
					int *type);                                                \
	XP_PUBLIC int xp_query_gid_type_##release(struct ibv_context *ctx, uint8_t port,           \
						  unsigned int index, int *type)                   \
	{                                                                                          \
		return query_gid_type(ctx, port, index, type, "IBVERBS_PRIVATE_" #release);        \
	}                                                                                          \
	__asm__(".symver xp_query_gid_type_" #release                                              \
		", ibv_query_gid_type@IBVERBS_PRIVATE_" #release);
QUERY_GID_TYPE(34)
QUERY_GID_TYPE(57)
QUERY_GID_TYPE(59)
QUERY_GID_TYPE(64)
QUERY_GID_TYPE(65)
