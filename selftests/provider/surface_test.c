// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every function that the installed libibverbs or that of the newest rdma-core exports, and every
 * operation of a context that inline functions of verbs.h call, either works for xroce devices or
 * is refused. A function that this test does not list makes it fail.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stddef.h>

#include "provider/verbs/newer_verbs.h"

#include "../lib/tap.h"

/* inline functions or macros in verbs.h */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

enum owner { OURS, THEIRS };

static struct {
	char name[48];
	enum owner owner;
} seen[256];
static unsigned int nseen;

/* Returns true if the function is of the owner's library. */
static bool comes_from(const void *fn, enum owner owner)
{
	Dl_info info;

	return fn && dladdr(fn, &info) &&
	       strstr(info.dli_fname, owner == OURS ? "libxroce.so" : "libibverbs.so");
}

static void listed(const char *verb, enum owner owner)
{
	snprintf(seen[nseen].name, sizeof(seen[nseen].name), "%s", verb);
	seen[nseen++].owner = owner;
}

#define CHECK(verb, owner, condition)                                                              \
	do {                                                                                       \
		listed(#verb, owner);                                                              \
		TAP_OK(comes_from(dlsym(RTLD_DEFAULT, #verb), owner) && (condition), #verb);       \
	} while (0)

/* The fake daemon replies EOPNOTSUPP to these requests: the provider sent one. */
#define ASKED(result) (!(result) && errno == EOPNOTSUPP)
#define EQUAL(text, wanted) (!strcmp(text, wanted))

struct objects {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	uint8_t buf[4096] __attribute__((aligned(4096)));
};

/* ---- functions of the provider ------------------------------------------------ */

static void devices(struct fixture *f, struct objects *o)
{
	int (*by_index)(struct ibv_device *) = dlsym(RTLD_DEFAULT, "ibv_get_device_index");
	struct ibv_device_attr attr;
	struct ibv_device **list = NULL, *dev;
	int n = 0;

	CHECK(ibv_get_device_list, OURS, (list = ibv_get_device_list(&n)) && n > 0);
	dev = list ? list[n - 1] : NULL;
	CHECK(ibv_get_device_name, THEIRS, EQUAL(ibv_get_device_name(dev), FAKE_DEVICE));
	CHECK(ibv_get_device_guid, OURS, ibv_get_device_guid(dev) == FAKE_GUID);
	CHECK(ibv_get_device_index, OURS, by_index(dev) == -1);
	CHECK(ibv_open_device, OURS, (o->ctx = ibv_open_device(dev)));
	CHECK(ibv_free_device_list, OURS, (ibv_free_device_list(list), true));
	CHECK(ibv_import_device, OURS, !ibv_import_device(-1));
	CHECK(ibv_query_device, OURS, !ibv_query_device(o->ctx, &attr) && attr.max_pd == 100);
}

static void port(struct objects *o)
{
	int (*query)(struct ibv_context *, uint8_t, void *) = dlsym(RTLD_DEFAULT, "ibv_query_port");
	struct ibv_gid_entry entry[4];
	struct ibv_port_attr attr = { 0 };
	union ibv_gid gid;
	__be16 pkey;

	CHECK(ibv_query_port, OURS,
	      !query(o->ctx, 1, &attr) && attr.state == IBV_PORT_ACTIVE &&
		      query(o->ctx, 2, &attr) == EINVAL);
	CHECK(ibv_query_gid, OURS, !ibv_query_gid(o->ctx, 1, 0, &gid) && gid.raw[0] == 0xfe);
	CHECK(_ibv_query_gid_ex, OURS,
	      !ibv_query_gid_ex(o->ctx, 1, 2, entry, 0) &&
		      entry->gid_type == IBV_GID_TYPE_ROCE_V2 &&
		      ibv_query_gid_ex(o->ctx, 1, 1, entry, 0) == ENODATA);
	CHECK(_ibv_query_gid_table, OURS,
	      ibv_query_gid_table(o->ctx, entry, 4, 0) == 2 &&
		      ibv_query_gid_table(o->ctx, entry, 1, 0) == -EINVAL);
	CHECK(ibv_query_pkey, OURS, !ibv_query_pkey(o->ctx, 1, 0, &pkey) && pkey == 0xffff);
	CHECK(ibv_get_pkey_index, OURS,
	      !ibv_get_pkey_index(o->ctx, 1, pkey) && ibv_get_pkey_index(o->ctx, 1, 0) == -1);
}

static void memory(struct objects *o)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, int) = dlsym(RTLD_DEFAULT,
									    "ibv_reg_mr");
	struct ibv_mr *(*reg_iova)(struct ibv_pd *, void *, size_t, uint64_t,
				   int) = dlsym(RTLD_DEFAULT, "ibv_reg_mr_iova");
	struct ibv_mr *iova, *iova2;

	CHECK(ibv_alloc_pd, OURS, (o->pd = ibv_alloc_pd(o->ctx)));
	CHECK(ibv_reg_mr, OURS, (o->mr = reg(o->pd, o->buf, sizeof(o->buf), 0)));
	CHECK(ibv_reg_mr_iova, OURS, (iova = reg_iova(o->pd, o->buf, 64, 1 << 20, 0)));
	CHECK(ibv_reg_mr_iova2, OURS, (iova2 = ibv_reg_mr_iova2(o->pd, o->buf, 64, 1 << 20, 0)));
	CHECK(ibv_rereg_mr, OURS,
	      !ibv_rereg_mr(iova, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE));
	CHECK(ibv_dereg_mr, OURS, !ibv_dereg_mr(iova) && !ibv_dereg_mr(iova2));
	CHECK(ibv_reg_dmabuf_mr, OURS,
	      !ibv_reg_dmabuf_mr(o->pd, 0, 4096, 0, -1, 0) && errno == EBADF);
	CHECK(ibv_import_pd, OURS, ASKED(ibv_import_pd(o->ctx, 1)));
	CHECK(ibv_unimport_pd, OURS, (ibv_unimport_pd(ibv_alloc_pd(o->ctx)), true));
	CHECK(ibv_import_mr, OURS, ASKED(ibv_import_mr(o->pd, 1)));
	/* The fake daemon supports no import. Check only which library has the function. */
	CHECK(ibv_unimport_mr, OURS, true);
	CHECK(ibv_import_dm, OURS, ASKED(ibv_import_dm(o->ctx, 1)));
	CHECK(ibv_unimport_dm, OURS, true);
}

static void completions(struct objects *o)
{
	CHECK(ibv_create_comp_channel, OURS, (o->channel = ibv_create_comp_channel(o->ctx)));
	CHECK(ibv_create_cq, OURS, (o->cq = ibv_create_cq(o->ctx, 16, o, o->channel, 0)));
	CHECK(ibv_resize_cq, OURS, !ibv_resize_cq(o->cq, 32) && o->cq->cqe == 32);
}

static void queue_pairs(struct fixture *f, struct objects *o)
{
	struct fixture own = { .ctx = o->ctx, .pd = o->pd, .daemon = f->daemon };
	struct ibv_ece ece = { .vendor_id = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	union ibv_gid gid = { 0 };

	CHECK(ibv_create_qp, OURS, (o->qp = make_qp(&own, o->cq, o->cq, IBV_QPS_RESET)));
	CHECK(ibv_modify_qp, OURS, !to_state(o->qp, IBV_QPS_RTS));
	CHECK(ibv_query_qp, OURS,
	      !ibv_query_qp(o->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	CHECK(ibv_qp_to_qp_ex, OURS, !ibv_qp_to_qp_ex(o->qp));
	CHECK(ibv_query_qp_data_in_order, OURS,
	      !ibv_query_qp_data_in_order(o->qp, IBV_WR_RDMA_WRITE, 0));
	CHECK(ibv_set_ece, OURS, ibv_set_ece(o->qp, &ece) == EOPNOTSUPP);
	CHECK(ibv_query_ece, OURS, ibv_query_ece(o->qp, &ece) == EOPNOTSUPP);
	CHECK(ibv_attach_mcast, OURS, ibv_attach_mcast(o->qp, &gid, 0) == EINVAL);
	CHECK(ibv_detach_mcast, OURS, ibv_detach_mcast(o->qp, &gid, 0) == EINVAL);
}

static void shared_receive_queues(struct objects *o)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .srq_limit = 2 };

	CHECK(ibv_create_srq, OURS, (o->srq = ibv_create_srq(o->pd, &init)));
	CHECK(ibv_modify_srq, OURS, !ibv_modify_srq(o->srq, &attr, IBV_SRQ_LIMIT));
	CHECK(ibv_query_srq, OURS, !ibv_query_srq(o->srq, &attr) && attr.srq_limit == 2);
}

static void address_handles(struct objects *o)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { 0 };
	uint8_t mac[6];
	uint16_t vid;

	CHECK(ibv_create_ah, OURS, (o->ah = ibv_create_ah(o->pd, &attr)));
	CHECK(ibv_init_ah_from_wc, OURS,
	      ibv_init_ah_from_wc(o->ctx, 1, &wc, &grh, &attr) == -1 && errno == EINVAL);
	CHECK(ibv_create_ah_from_wc, OURS, !ibv_create_ah_from_wc(o->pd, &wc, &grh, 1));
	CHECK(ibv_resolve_eth_l2_from_gid, OURS,
	      !ibv_resolve_eth_l2_from_gid(o->ctx, &attr, mac, &vid));
	CHECK(ibv_destroy_ah, OURS, !ibv_destroy_ah(o->ah));
}

static void events(struct fixture *f, struct objects *o)
{
	struct ibv_async_event ev;
	void *context = NULL;
	struct ibv_cq *cq;

	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ERR);
	CHECK(ibv_get_async_event, OURS,
	      !ibv_get_async_event(o->ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR);
	CHECK(ibv_ack_async_event, OURS, (ibv_ack_async_event(&ev), true));
	ibv_req_notify_cq(o->cq, 0);
	post_send(o->qp, 1, 1);
	fake_complete(&f->daemon, o->qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	CHECK(ibv_get_cq_event, OURS, !ibv_get_cq_event(o->channel, &cq, &context) && context == o);
	CHECK(ibv_ack_cq_events, OURS, (ibv_ack_cq_events(o->cq, 1), true));
}

static void ends(struct objects *o)
{
	CHECK(ibv_destroy_qp, OURS, !ibv_destroy_qp(o->qp));
	CHECK(ibv_destroy_srq, OURS, !ibv_destroy_srq(o->srq));
	CHECK(ibv_destroy_cq, OURS, !ibv_destroy_cq(o->cq));
	CHECK(ibv_destroy_comp_channel, OURS, !ibv_destroy_comp_channel(o->channel));
	ibv_dereg_mr(o->mr);
	CHECK(ibv_dealloc_pd, OURS, !ibv_dealloc_pd(o->pd));
	CHECK(ibv_close_device, OURS, !ibv_close_device(o->ctx));
}

/* ---- functions that verbs.h of rdma-core 44 lacks ------------------------------- */

#define FUNCTION(type, name, ...) type (*name)(__VA_ARGS__) = dlsym(RTLD_DEFAULT, "ibv_" #name)

static void newer_memory(struct objects *o)
{
	FUNCTION(struct ibv_mr *, reg_mr_ex, struct ibv_pd *, void *);
	FUNCTION(struct ibv_mr *, reg_buf_mr, struct ibv_pd *, void *, void *, size_t, int);
	FUNCTION(void *, alloc_buf, struct ibv_pd *, size_t, void **);
	FUNCTION(void, free_buf, void *);
	FUNCTION(int, export_buf_dmabuf_fd, void *);
	FUNCTION(int, dm_export_dmabuf_fd, struct ibv_dm *);
	struct xp_mr_init_attr attr = {
		.comp_mask = XP_REG_MR_ADDR | XP_REG_MR_IOVA,
		.addr = o->buf,
		.length = 64,
		.iova = 1 << 20,
	};
	struct ibv_dm dm = { .context = o->ctx };
	struct ibv_mr *mr = NULL, *ex = NULL;
	uint8_t *buf = NULL;
	void *handle;

	CHECK(ibv_reg_mr_ex, OURS, (ex = reg_mr_ex(o->pd, &attr)) && ex->length == 64);
	CHECK(ibv_alloc_buf, OURS,
	      (buf = alloc_buf(o->pd, 5000, &handle)) && !((uintptr_t)buf & 4095));
	CHECK(ibv_reg_buf_mr, OURS,
	      (mr = reg_buf_mr(o->pd, handle, buf + 8, 4992, IBV_ACCESS_LOCAL_WRITE)) &&
		      mr->addr == buf + 8);
	CHECK(ibv_export_buf_dmabuf_fd, OURS,
	      export_buf_dmabuf_fd(handle) == -1 && errno == ENODATA);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(ex);
	CHECK(ibv_free_buf, OURS, (free_buf(handle), true));
	CHECK(ibv_dm_export_dmabuf_fd, OURS, dm_export_dmabuf_fd(&dm) == -1 && errno == EOPNOTSUPP);
}

static void newer(struct objects *o)
{
	FUNCTION(int, query_port_speed, struct ibv_context *, uint32_t, uint64_t *);
	FUNCTION(void *, alloc_dmah, struct ibv_context *, void *);
	FUNCTION(void *, create_comp_cntr, struct ibv_context *, void *);
	FUNCTION(int, qp_attach_comp_cntr, struct ibv_qp *, void *, void *);
	int (*caps)(struct ibv_context *, void *, size_t) = dlsym(RTLD_DEFAULT,
								  "_ibv_query_comp_cntr_caps");
	uint64_t speed = 0;

	newer_memory(o);
	CHECK(ibv_query_port_speed, OURS,
	      !query_port_speed(o->ctx, 1, &speed) && speed == 25 &&
		      query_port_speed(o->ctx, 2, &speed) == EINVAL);
	CHECK(ibv_alloc_dmah, OURS, !alloc_dmah(o->ctx, NULL) && errno == EOPNOTSUPP);
	CHECK(_ibv_query_comp_cntr_caps, OURS, caps(o->ctx, NULL, 0) == EOPNOTSUPP);
	CHECK(ibv_create_comp_cntr, OURS, !create_comp_cntr(o->ctx, NULL) && errno == EOPNOTSUPP);
	CHECK(ibv_qp_attach_comp_cntr, OURS, qp_attach_comp_cntr(o->qp, NULL, NULL) == EOPNOTSUPP);
	/* of objects that xroce devices do not have */
	listed("ibv_dealloc_dmah", THEIRS);
	listed("ibv_destroy_comp_cntr", THEIRS);
	listed("ibv_inc_comp_cntr", THEIRS);
	listed("ibv_inc_err_comp_cntr", THEIRS);
	listed("ibv_read_comp_cntr", THEIRS);
	listed("ibv_read_err_comp_cntr", THEIRS);
	listed("ibv_set_comp_cntr", THEIRS);
	listed("ibv_set_err_comp_cntr", THEIRS);
}

/* ---- functions without a device ----------------------------------------------- */

static void names_and_rates(void)
{
	CHECK(ibv_event_type_str, THEIRS, strstr(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID"));
	CHECK(ibv_node_type_str, THEIRS, strstr(ibv_node_type_str(IBV_NODE_CA), "channel adapter"));
	CHECK(ibv_port_state_str, THEIRS, strstr(ibv_port_state_str(IBV_PORT_ACTIVE), "active"));
	CHECK(ibv_wc_status_str, THEIRS, EQUAL(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
	CHECK(ibv_rate_to_mbps, THEIRS, ibv_rate_to_mbps(IBV_RATE_10_GBPS) == 10000);
	CHECK(mbps_to_ibv_rate, THEIRS, mbps_to_ibv_rate(10000) == IBV_RATE_10_GBPS);
	CHECK(ibv_rate_to_mult, THEIRS, ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4);
	CHECK(mult_to_ibv_rate, THEIRS, mult_to_ibv_rate(4) == IBV_RATE_10_GBPS);
}

static void helpers(void)
{
	static uint8_t page[8192] __attribute__((aligned(4096)));
	int (*dontfork)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dontfork_range");
	int (*dofork)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dofork_range");
	const char *(*sysfs)(void) = dlsym(RTLD_DEFAULT, "ibv_get_sysfs_path");
	int (*read_file)(const char *, const char *, char *, size_t) = dlsym(RTLD_DEFAULT,
									     "ibv_read_sysfs_file");
	char text[64];

	CHECK(ibv_fork_init, THEIRS, !ibv_fork_init());
	CHECK(ibv_is_fork_initialized, THEIRS, ibv_is_fork_initialized() != IBV_FORK_DISABLED);
	CHECK(ibv_dontfork_range, THEIRS, !dontfork(page, 4096));
	CHECK(ibv_dofork_range, THEIRS, !dofork(page, 4096));
	CHECK(ibv_get_sysfs_path, THEIRS, EQUAL(sysfs(), "/sys"));
	CHECK(ibv_read_sysfs_file, THEIRS, read_file("/proc/self", "comm", text, 64) > 0);
	/* A stub for drivers, which only old libraries of another vendor call */
	listed("ibv_register_driver", THEIRS);
	/* These convert kernel structs; no device is involved. */
	CHECK(ibv_copy_ah_attr_from_kern, THEIRS, true);
	CHECK(ibv_copy_qp_attr_from_kern, THEIRS, true);
	CHECK(ibv_copy_path_rec_from_kern, THEIRS, true);
	CHECK(ibv_copy_path_rec_to_kern, THEIRS, true);
}

/* ---- completeness ------------------------------------------------------------- */

/* Returns the owner of a function, or -1 if the test does not list it. */
static int seen_owner(const char *name)
{
	unsigned int i;

	for (i = 0; i < nseen && strcmp(seen[i].name, name); i++)
		;
	return i < nseen ? (int)seen[i].owner : -1;
}

/* Returns true if the right library has this version of the function. */
static bool decided(const char *name, const char *version, bool old)
{
	int owner = seen_owner(name);

	/* The installed libibverbs may be older than the list. */
	if (old)
		return owner >= 0 && comes_from(dlvsym(RTLD_DEFAULT, name, version), THEIRS);
	return owner == THEIRS ||
	       (owner == OURS && comes_from(dlvsym(RTLD_DEFAULT, name, version), OURS));
}

/* Names and versions, which are known without the newest libibverbs being installed */
static void each_newest_function(void)
{
	const char *top = getenv("XR_TOP");
	unsigned int functions = 0, wrong = 0;
	char path[256], line[256], name[128], version[32], old[8];
	FILE *file;
	int words;

	snprintf(path, sizeof(path), "%s/selftests/provider/libibverbs.functions", top ? top : ".");
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		words = sscanf(line, "%127s %31s %7s", name, version, old);
		if (*line == '#' || words < 2)
			continue;
		functions++;
		if (decided(name, version, words == 3))
			continue;
		printf("# %s %s\n", name, version);
		wrong++;
	}
	TAP_OK(file && !fclose(file) && functions >= 128 && !wrong,
	       "the test lists all %u functions of the newest rdma-core, with their versions",
	       functions);
}

/* Versions of the public nodes, as nm prints them: "... T ibv_alloc_pd@@IBVERBS_1.1"; old: one @ */
static void each_export(void)
{
	char command[512], line[256], name[128];
	unsigned int exports = 0, unknown = 0;
	Dl_info info;
	FILE *nm;

	dladdr(dlsym(RTLD_DEFAULT, "ibv_wc_status_str"), &info);
	snprintf(command, sizeof(command), "nm -D --defined-only '%s'", info.dli_fname);
	unsetenv("LD_PRELOAD");
	nm = popen(command, "r");
	while (nm && fgets(line, sizeof(line), nm)) {
		if (sscanf(line, "%*s T %127[^@]", name) != 1 || !strstr(line, "@IBVERBS_1."))
			continue;
		exports++;
		if (seen_owner(name) < 0) {
			printf("# %s\n", name);
			unknown++;
		}
	}
	TAP_OK(nm && !pclose(nm) && exports > 90 && !unknown,
	       "the test lists all %u functions of libibverbs", exports);
}

/* ---- operations of a context -------------------------------------------------- */

enum slot_kind { TAKEN, REFUSED, EMPTY };

#define SLOT(name, kind)                                                                           \
	{                                                                                          \
#name, offsetof(struct verbs_context, name), kind                                  \
	}
static const struct {
	const char *name;
	size_t offset;
	enum slot_kind kind;
} slots[] = {
	SLOT(query_port, TAKEN),
	SLOT(advise_mr, TAKEN),
	SLOT(alloc_null_mr, TAKEN),
	SLOT(read_counters, REFUSED),
	SLOT(attach_counters_point_flow, REFUSED),
	SLOT(create_counters, REFUSED),
	SLOT(destroy_counters, REFUSED),
	SLOT(reg_dm_mr, TAKEN),
	SLOT(alloc_dm, TAKEN),
	SLOT(free_dm, TAKEN),
	SLOT(modify_flow_action_esp, REFUSED),
	SLOT(destroy_flow_action, REFUSED),
	SLOT(create_flow_action_esp, REFUSED),
	SLOT(modify_qp_rate_limit, TAKEN),
	SLOT(alloc_parent_domain, TAKEN),
	SLOT(dealloc_td, TAKEN),
	SLOT(alloc_td, TAKEN),
	SLOT(modify_cq, TAKEN),
	SLOT(post_srq_ops, REFUSED),
	SLOT(destroy_rwq_ind_table, REFUSED),
	SLOT(create_rwq_ind_table, REFUSED),
	SLOT(destroy_wq, REFUSED),
	SLOT(modify_wq, REFUSED),
	SLOT(create_wq, REFUSED),
	SLOT(query_rt_values, TAKEN),
	SLOT(create_cq_ex, TAKEN),
	SLOT(priv, EMPTY),
	SLOT(query_device_ex, TAKEN),
	SLOT(ibv_destroy_flow, REFUSED),
	SLOT(ABI_placeholder2, EMPTY),
	SLOT(ibv_create_flow, REFUSED),
	SLOT(ABI_placeholder1, EMPTY),
	SLOT(open_qp, TAKEN),
	SLOT(create_qp_ex, TAKEN),
	SLOT(get_srq_num, TAKEN),
	SLOT(create_srq_ex, TAKEN),
	SLOT(open_xrcd, TAKEN),
	SLOT(close_xrcd, TAKEN),
};
#define NSLOTS (sizeof(slots) / sizeof(slots[0]))

static void each_slot(struct fixture *f)
{
	const uint8_t *v = (const uint8_t *)verbs_get_ctx(f->ctx);
	unsigned int i;
	void *fn;

	for (i = 0; i < NSLOTS; i++) {
		memcpy(&fn, v + slots[i].offset, sizeof(fn));
		TAP_OK(slots[i].offset == slots[0].offset + i * sizeof(void *) &&
			       (slots[i].kind == EMPTY ||
				comes_from(fn, slots[i].kind == TAKEN ? OURS : THEIRS)),
		       "operation %s is set by the right library", slots[i].name);
	}
	TAP_OK(slots[0].offset == offsetof(struct verbs_context, query_port) &&
		       slots[0].offset + NSLOTS * sizeof(void *) ==
			       offsetof(struct verbs_context, _ABI_placeholder3),
	       "the test lists all operations");
}

/* Programs probe for features: unsupported verbs must fail with EOPNOTSUPP. */
static void refused_verbs(struct fixture *f)
{
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);
	struct ibv_wq_init_attr wq = { .pd = f->pd, .cq = cq, .max_wr = 1, .max_sge = 1 };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &srq_attr);
	struct ibv_ops_wr ops = { 0 }, *bad_op;
	struct ibv_flow_attr flow = { 0 };

	TAP_OK(!ibv_create_counters(f->ctx, &counters) && errno == EOPNOTSUPP, "counters");
	TAP_OK(!ibv_create_flow(qp, &flow) && errno == EOPNOTSUPP, "flows");
	TAP_OK(!ibv_create_flow_action_esp(f->ctx, &esp) && errno == EOPNOTSUPP, "ESP");
	TAP_OK(!ibv_create_wq(f->ctx, &wq) && errno == EOPNOTSUPP, "ibv_create_wq is EOPNOTSUPP");
	TAP_OK(!ibv_create_rwq_ind_table(f->ctx, &table) && errno == EOPNOTSUPP,
	       "ibv_create_rwq_ind_table is EOPNOTSUPP");
	TAP_OK(ibv_post_srq_ops(srq, &ops, &bad_op) == EOPNOTSUPP,
	       "ibv_post_srq_ops is EOPNOTSUPP");
	ibv_destroy_srq(srq);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

int main(void)
{
	struct objects o = { 0 };
	struct fixture f;

	setup(&f);
	devices(&f, &o);
	port(&o);
	memory(&o);
	completions(&o);
	queue_pairs(&f, &o);
	shared_receive_queues(&o);
	address_handles(&o);
	events(&f, &o);
	newer(&o);
	ends(&o);
	names_and_rates();
	helpers();
	each_slot(&f);
	refused_verbs(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	each_export();
	each_newest_function();
	teardown(&f);
	return tap_end();
}
