// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Contexts: allocation by libibverbs, so that verbs that we lack meet its own
 * refusals; the slots that inline verbs call; queries of device, port and addresses.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"

#define OPEN_TIMEOUT_MS 5000
#define HEALTH_INTERVAL_NS 5000000ull

uint64_t xp_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- requests ------------------------------------------------------------------ */

void xp_set_gone(struct xp_context *ctx)
{
	int healthy = XP_HEALTHY;

	if (__atomic_compare_exchange_n(&ctx->health, &healthy, XP_GONE, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		xp_debug("%s: the daemon is gone", ctx->dev->ibdev.name);
}

void xp_check_health(struct xp_context *ctx)
{
	uint64_t now, last = __atomic_load_n(&ctx->checked_ns, __ATOMIC_RELAXED);
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	if (now - last < HEALTH_INTERVAL_NS)
		return;
	__atomic_store_n(&ctx->checked_ns, now, __ATOMIC_RELAXED);
	if (xp_health(ctx) == XP_HEALTHY && xp_conn_hung_up(&ctx->conn))
		xp_set_gone(ctx);
}

/* Under conn.lock */
static int call_locked(struct xp_context *ctx, struct xp_call *call)
{
	int err = xp_health(ctx) == XP_HEALTHY ? xp_conn_call(&ctx->conn, call) : -EIO;

	if (ctx->conn.broken)
		xp_set_gone(ctx);
	return err;
}

int xp_call(struct xp_context *ctx, struct xp_call *call)
{
	return xp_call_map(ctx, call, NULL, 0);
}

int xp_request(struct xp_context *ctx, uint32_t type, const void *req, size_t req_len, void *rep,
	       size_t rep_len)
{
	struct xp_call call = {
		.type = type, .req = req, .req_len = req_len, .rep = rep, .rep_len = rep_len,
	};

	return xp_call(ctx, &call);
}

int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n)
{
	int fds[XR_MSG_MAX_FDS], err;
	unsigned int i, used = 0;

	/* The parent may have held the lock when it forked. */
	if (xp_health(ctx) != XP_HEALTHY)
		return -EIO;
	if (n) {
		call->rep_fds = fds;
		call->rep_room = XR_MSG_MAX_FDS;
	}
	pthread_mutex_lock(&ctx->conn.lock);
	err = call_locked(ctx, call);
	for (i = 0; i < n && !err; i++)
		err = xp_shm_map(&ctx->shm, piece[i].ref, fds, call->rep_nfds, &used,
				 &piece[i].ptr);
	pthread_mutex_unlock(&ctx->conn.lock);
	if (n)
		xp_close_fds(fds, call->rep_nfds);
	return err;
}

int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep)
{
	struct xr_handle_req req = { .handle = handle };
	int err = xp_request(ctx, type, &req, sizeof(req), rep, rep ? sizeof(*rep) : 0);

	if (err && xp_health(ctx) != XP_HEALTHY) {
		/* How many events it sent is not known: none of them may be delivered. */
		if (rep)
			*rep = (struct xr_destroy_rep){ UINT32_MAX, UINT32_MAX };
		return 0;
	}
	return err;
}

/* ---- allocation ---------------------------------------------------------------- */

#define ROOM 4096	/* for struct verbs_context as the running libibverbs knows it */

ptrdiff_t xp_context_distance;

/* Our struct, then libibverbs' verbs_context: *ibctx is found by the device that it names. */
static void *alloc_by_libibverbs(struct ibv_device *ibdev, size_t front,
				 struct ibv_context **ibctx)
{
	void *(*init)(struct ibv_device *, int, size_t, struct verbs_context *, uint32_t) =
		xp_real_symbol("_verbs_init_and_alloc_context");
	struct ibv_context *c;
	uint8_t *block;
	size_t off, sz;

	if (!init)
		return NULL;
	block = init(ibdev, -1, front + ROOM, (struct verbs_context *)front, 0);
	if (!block)
		return NULL;
	for (off = front + sizeof(sz); off + sizeof(*c) <= front + ROOM; off += sizeof(void *)) {
		c = (struct ibv_context *)(block + off);
		memcpy(&sz, block + off - sizeof(sz), sizeof(sz));
		if (c->device == ibdev && c->abi_compat == __VERBS_ABI_IS_EXTENDED &&
		    sz == off - front + sizeof(*c)) {
			*ibctx = c;
			return block;
		}
	}
	free(block);
	return NULL;
}

/* A libibverbs without that function: all verbs that we lack stay empty slots. */
static void *alloc_by_ourselves(struct ibv_device *ibdev, size_t front,
				struct ibv_context **ibctx)
{
	uint8_t *block = calloc(1, front + sizeof(struct verbs_context));
	struct verbs_context *v;

	if (!block)
		return NULL;
	v = (struct verbs_context *)(block + front);
	v->sz = sizeof(*v);
	v->context.device = ibdev;
	v->context.cmd_fd = -1;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&v->context.mutex, NULL);
	*ibctx = &v->context;
	return block;
}

static struct xp_context *alloc_context(struct xp_device *dev)
{
	size_t front = (sizeof(struct xp_context) + 63) & ~(size_t)63;
	struct ibv_context *ibctx;
	struct xp_context *ctx;
	void *block;

	block = alloc_by_libibverbs(&dev->ibdev, front, &ibctx);
	if (!block)
		block = alloc_by_ourselves(&dev->ibdev, front, &ibctx);
	if (!block)
		return NULL;
	ctx = block;
	ctx->block = block;
	ctx->ibctx = ibctx;
	ctx->dev = dev;
	ctx->conn.fd = -1;
	ctx->uffd_device = -1;
	ctx->ticket = -1;
	xp_context_distance = (char *)ibctx - (char *)ctx;
	xp_device_get(dev);
	return ctx;
}

/* The slots of inline verbs. Those that an older libibverbs lacks are not there to be set. */
static void set_slots(struct ibv_context *ibctx)
{
	struct verbs_context *v = verbs_get_ctx(ibctx);

#define SET(slot, fn)                                                                              \
	do {                                                                                       \
		if (v->sz >= sizeof(*v) - offsetof(struct verbs_context, slot))                    \
			v->slot = fn;                                                              \
	} while (0)
	SET(query_port, xp_query_port);
	SET(open_xrcd, xp_open_xrcd);
	SET(close_xrcd, xp_close_xrcd);
	SET(create_srq_ex, xp_create_srq_ex);
	SET(get_srq_num, xp_get_srq_num);
	SET(open_qp, xp_open_qp);
	SET(query_device_ex, xp_query_device_ex);
	SET(advise_mr, xp_advise_mr);
	SET(alloc_null_mr, xp_alloc_null_mr);
	SET(alloc_dm, xp_alloc_dm);
	SET(free_dm, xp_free_dm);
	SET(reg_dm_mr, xp_reg_dm_mr);
	SET(query_rt_values, xp_query_rt_values);
	SET(create_cq_ex, xp_create_cq_ex);
	SET(create_qp_ex, xp_create_qp_ex);
	SET(modify_qp_rate_limit, xp_modify_qp_rate_limit);
	SET(alloc_td, xp_alloc_td);
	SET(dealloc_td, xp_dealloc_td);
	SET(alloc_parent_domain, xp_alloc_parent_domain);
#undef SET
	ibctx->ops.poll_cq = xp_poll_cq;
	ibctx->ops.req_notify_cq = xp_req_notify_cq;
	ibctx->ops.post_send = xp_post_send;
	ibctx->ops.post_recv = xp_post_recv;
	ibctx->ops.post_srq_recv = xp_post_srq_recv;
	ibctx->ops.alloc_mw = xp_alloc_mw;
	ibctx->ops.dealloc_mw = xp_dealloc_mw;
	ibctx->ops.bind_mw = xp_bind_mw;
	ibctx->ops._compat_query_device = xp_query_device;
	ibctx->ops._compat_query_port = xp_query_port_compat;
}

/* Also of a context that was never wholly open */
static void free_context(struct xp_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx->ibctx);
	struct xp_device *dev = ctx->dev;
	unsigned int i;

	xp_conn_close(&ctx->conn);
	xp_pipe_free(ctx->async);
	xp_shm_unmap_all(&ctx->shm);
	for (i = 0; ctx->wake && i < ctx->workers; i++)
		close(ctx->wake[i]);
	free(ctx->wake);
	if (ctx->uffd_device >= 0)
		close(ctx->uffd_device);
	if (ctx->ticket >= 0)
		close(ctx->ticket);
	pthread_mutex_destroy(&ctx->ibctx->mutex);
	free(v->priv);
	free(ctx->block);
	xp_device_put(dev);
}

/* ---- open and close ------------------------------------------------------------ */

/* fds: event pipe, eventfds of the workers, doorbells, userfaultfd */
static int take_hello(struct xp_context *ctx, const struct xr_hello_rep *rep, int *fds,
		      unsigned int nfds)
{
	unsigned int used = 0, i;
	void *doorbells;
	int err;

	if (rep->version != XR_PROTOCOL_VERSION || !rep->workers || nfds < 1 + rep->workers ||
	    rep->doorbells.length / sizeof(struct xr_doorbell) < rep->workers)
		return -EPROTO;
	ctx->wake = calloc(rep->workers, sizeof(int));
	if (!ctx->wake)
		return -ENOMEM;
	ctx->async = xp_pipe_new(fds[used], sizeof(struct xr_async_event));
	if (!ctx->async)
		return -ENOMEM;
	fds[used++] = -1;
	for (i = 0; i < rep->workers; i++) {
		ctx->wake[i] = fds[used];
		fds[used++] = -1;
	}
	ctx->workers = rep->workers;
	err = xp_shm_map(&ctx->shm, &rep->doorbells, fds, nfds, &used, &doorbells);
	if (err)
		return err;
	ctx->doorbells = doorbells;
	if (rep->has_uffd && used < nfds) {
		ctx->uffd_device = fds[used];
		fds[used++] = -1;
	}
	ctx->ticket = xp_make_ticket(ctx->dev, rep->token);
	return ctx->ticket < 0 ? ctx->ticket : 0;
}

/* token: of the context to import from, or NULL */
static int say_hello(struct xp_context *ctx, const uint8_t *token)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION };
	int fds[XR_MSG_MAX_FDS];
	struct xr_hello_rep rep;
	struct xp_call call = {
		.type = XR_MSG_HELLO, .req = &req, .req_len = sizeof(req),
		.rep = &rep, .rep_len = sizeof(rep),
		.rep_fds = fds, .rep_room = XR_MSG_MAX_FDS,
	};
	unsigned int i;
	int err;

	if (token) {
		req.flags = XR_HELLO_IMPORT;
		memcpy(req.token, token, sizeof(req.token));
	}
	err = xp_conn_call(&ctx->conn, &call);
	if (err)
		return err;
	err = take_hello(ctx, &rep, fds, call.rep_nfds);
	for (i = 0; i < call.rep_nfds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return err;
}

static int connect_context(struct xp_context *ctx, const uint8_t *token)
{
	int err = xp_conn_open(&ctx->conn, ctx->dev->path, OPEN_TIMEOUT_MS);

	if (err)
		return err;
	err = say_hello(ctx, token);
	if (err)
		return err;
	err = xp_request(ctx, XR_MSG_QUERY_DEVICE, NULL, 0, &ctx->attr, sizeof(ctx->attr));
	xp_conn_no_timeout(&ctx->conn);
	return err;
}

struct ibv_context *xp_open_by_token(struct ibv_device *ibdev, const uint8_t *token)
{
	struct xp_context *ctx = alloc_context((struct xp_device *)ibdev);
	int err;

	if (!ctx)
		return xp_null(ENOMEM);
	err = connect_context(ctx, token);
	if (err) {
		xp_debug("%s: %s", ctx->dev->path, strerror(-err));
		free_context(ctx);
		/* A daemon that went since the list was made is a device that went. */
		return xp_null(err == -ECONNREFUSED || err == -ENOENT ? -ENODEV : err);
	}
	ctx->ibctx->async_fd = ctx->async->fd;
	ctx->ibctx->cmd_fd = ctx->ticket;
	ctx->ibctx->num_comp_vectors = 1;
	set_slots(ctx->ibctx);
	xp_fork_watch(ctx);
	return ctx->ibctx;
}

struct ibv_context *xp_open_device(struct ibv_device *ibdev)
{
	return xp_open_by_token(ibdev, NULL);
}

/* In a child the program may know its parent's context, or the heir by an object of that. */
int xp_close_device(struct ibv_context *ibctx)
{
	struct xp_context *ctx = xp_ctx(ibctx), *heir;

	while (ctx->elder)
		ctx = ctx->elder;
	for (; ctx; ctx = heir) {
		heir = ctx->heir;
		xp_fork_unwatch(ctx);
		free_context(ctx);
	}
	return 0;
}

/* ---- device -------------------------------------------------------------------- */

static void fill_device_attr(struct ibv_device_attr *to, const struct xr_query_device_rep *from)
{
	*to = (struct ibv_device_attr){
		.node_guid = from->guid,
		.sys_image_guid = from->guid,
		.max_mr_size = from->max_mr_size,
		.page_size_cap = from->page_size_cap,
		.vendor_id = from->vendor_id,
		.vendor_part_id = from->vendor_part_id,
		.hw_ver = from->hw_ver,
		.max_qp = from->max_qp,
		.max_qp_wr = from->max_qp_wr,
		.device_cap_flags = from->device_cap_flags,
		.max_sge = from->max_sge,
		.max_sge_rd = from->max_sge,
		.max_cq = from->max_cq,
		.max_cqe = from->max_cqe,
		.max_mr = from->max_mr,
		.max_pd = from->max_pd,
		.max_qp_rd_atom = from->max_qp_rd_atom,
		.max_res_rd_atom = from->max_res_rd_atom,
		.max_qp_init_rd_atom = from->max_qp_init_rd_atom,
		.atomic_cap = from->atomic_cap,
		.max_mw = from->max_mw,
		.max_mcast_grp = from->max_mcast_grp,
		.max_mcast_qp_attach = from->max_mcast_qp_attach,
		.max_total_mcast_qp_attach = from->max_total_mcast_qp_attach,
		.max_ah = from->max_ah,
		.max_srq = from->max_srq,
		.max_srq_wr = from->max_srq_wr,
		.max_srq_sge = from->max_srq_sge,
		.max_pkeys = from->max_pkeys,
		.local_ca_ack_delay = from->local_ca_ack_delay,
		.phys_port_cnt = 1,
	};
	memcpy(to->fw_ver, from->fw_ver, sizeof(to->fw_ver) - 1);
}

static int query_device(struct ibv_context *ibctx, struct xr_query_device_rep *rep)
{
	return -xp_request(xp_ctx(xp_here(ibctx)), XR_MSG_QUERY_DEVICE, NULL, 0, rep,
			   sizeof(*rep));
}

int xp_query_device(struct ibv_context *ibctx, struct ibv_device_attr *attr)
{
	struct xr_query_device_rep rep;
	int err = query_device(ibctx, &rep);

	if (!err)
		fill_device_attr(attr, &rep);
	return err;
}

#define CORE_CLOCK_KHZ 1000000	/* completions are stamped in ns */

int xp_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex all = { 0 };
	struct xr_query_device_rep rep;
	int err;

	if ((input && input->comp_mask) || attr_size < sizeof(attr->orig_attr))
		return EINVAL;
	err = query_device(ibctx, &rep);
	if (err)
		return err;
	fill_device_attr(&all.orig_attr, &rep);
	all.odp_caps.general_caps = rep.odp_caps;
	all.odp_caps.per_transport_caps.rc_odp_caps = rep.odp_rc;
	all.odp_caps.per_transport_caps.uc_odp_caps = rep.odp_uc;
	all.xrc_odp_caps = rep.odp_rc;	/* it is RC in two halves */
	all.odp_caps.per_transport_caps.ud_odp_caps = rep.odp_ud;
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = CORE_CLOCK_KHZ;
	all.device_cap_flags_ex = rep.device_cap_flags;
	all.packet_pacing_caps.qp_rate_limit_min = rep.rate_min;
	all.packet_pacing_caps.qp_rate_limit_max = rep.rate_max;
	all.packet_pacing_caps.supported_qpts = rep.rate_qpts;
	all.phys_port_cnt_ex = 1;
	all.max_dm_size = rep.max_dm_size;
	/* A program of another release may know fewer fields, or more. */
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

/* Cycles in tv_nsec alone, however many: as programs know it from other devices */
int xp_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EOPNOTSUPP;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		values->raw_clock = (struct timespec){ .tv_nsec = xp_clock() };
	return 0;
}

/* ---- port ---------------------------------------------------------------------- */

int xp_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct xr_query_port_rep rep;
	struct ibv_port_attr all;
	int err;

	if (port != 1)
		return EINVAL;
	err = xp_request(xp_ctx(xp_here(ibctx)), XR_MSG_QUERY_PORT, NULL, 0, &rep, sizeof(rep));
	if (err)
		return -err;
	all = (struct ibv_port_attr){
		.state = rep.state,
		.max_mtu = rep.max_mtu,
		.active_mtu = rep.active_mtu,
		.gid_tbl_len = rep.gid_tbl_len,
		.port_cap_flags = IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = rep.max_msg_sz,
		.bad_pkey_cntr = rep.bad_pkey_cntr,
		.qkey_viol_cntr = rep.qkey_viol_cntr,
		.pkey_tbl_len = rep.pkey_tbl_len,
		.max_vl_num = 1,
		.active_width = rep.active_width,
		.active_speed = rep.active_speed,
		.phys_state = rep.phys_state,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};
	memset(attr, 0, len);
	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
	return 0;
}

/* The exported function fills the fields that the structure had when it was laid down. */
int xp_query_port_compat(struct ibv_context *ibctx, uint8_t port,
			 struct _compat_ibv_port_attr *attr)
{
	return xp_query_port(ibctx, port, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- addresses ----------------------------------------------------------------- */

bool xp_gids_fit(const struct xp_gid_table *t, size_t got)
{
	return t->head.count <= XR_GID_TABLE_LEN &&
	       got >= sizeof(t->head) + t->head.count * sizeof(t->entry[0]);
}

static int query_gids(struct xp_context *ctx, struct xp_gid_table *t)
{
	struct xp_call call = { .type = XR_MSG_QUERY_GIDS, .rep = t, .rep_len = sizeof(*t) };
	int err = xp_call(ctx, &call);

	if (err)
		return err;
	return xp_gids_fit(t, call.rep_got) ? 0 : -EPROTO;
}

static void fill_gid_entry(void *to, size_t size, const struct xr_gid_entry *from)
{
	struct ibv_gid_entry all = {
		.gid_index = from->index,
		.port_num = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = from->ifindex,
	};

	memcpy(all.gid.raw, from->gid.raw, sizeof(all.gid.raw));
	memset(to, 0, size);
	memcpy(to, &all, size < sizeof(all) ? size : sizeof(all));
}

/* 0, -ENODATA for an empty entry, or another error */
static int one_gid(struct ibv_context *ibctx, uint32_t port, uint32_t index,
		   struct ibv_gid_entry *entry, size_t size)
{
	struct xp_gid_table t;
	uint32_t i;
	int err;

	if (port != 1 || index >= XR_GID_TABLE_LEN)
		return -EINVAL;
	err = query_gids(xp_ctx(xp_here(ibctx)), &t);
	if (err)
		return err;
	for (i = 0; i < t.head.count; i++) {
		if (t.entry[i].index == index) {
			fill_gid_entry(entry, size, &t.entry[i]);
			return 0;
		}
	}
	return -ENODATA;
}

int xp_query_gid_ex(struct ibv_context *ibctx, uint32_t port, uint32_t index,
		    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	if (flags || !entry_size)
		return EINVAL;
	return -one_gid(ibctx, port, index, entry, entry_size);
}

ssize_t xp_query_gid_table(struct ibv_context *ibctx, struct ibv_gid_entry *entries, size_t max,
			   uint32_t flags, size_t entry_size)
{
	struct xp_gid_table t;
	uint32_t i;
	int err;

	if (flags || !entry_size)
		return -EINVAL;
	err = query_gids(xp_ctx(xp_here(ibctx)), &t);
	if (err)
		return err;
	if (max < t.head.count)
		return -EINVAL;
	for (i = 0; i < t.head.count; i++)
		fill_gid_entry((char *)entries + i * entry_size, entry_size, &t.entry[i]);
	return t.head.count;
}

/* The old verbs take an empty entry for one of zeros. */
static int old_gid(struct ibv_context *ibctx, uint8_t port, int index, struct ibv_gid_entry *entry)
{
	int err = one_gid(ibctx, port, index, entry, sizeof(*entry));

	if (err == -ENODATA) {
		memset(entry, 0, sizeof(*entry));
		entry->gid_type = IBV_GID_TYPE_ROCE_V1;
		return 0;
	}
	if (err) {
		errno = -err;
		return -1;
	}
	return 0;
}

int xp_query_gid(struct ibv_context *ibctx, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	if (old_gid(ibctx, port, index, &entry))
		return -1;
	*gid = entry.gid;
	return 0;
}

int xp_query_gid_type(struct ibv_context *ibctx, uint8_t port, unsigned int index, int *type)
{
	struct ibv_gid_entry entry;

	if (old_gid(ibctx, port, index, &entry))
		return -1;
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;	/* as sysfs counts: 0 v1, 1 v2 */
	return 0;
}

int xp_find_gid(struct xp_context *ctx, const union ibv_gid *gid)
{
	struct xp_gid_table t;
	uint32_t i;
	int err = query_gids(ctx, &t);

	if (err)
		return err;
	for (i = 0; i < t.head.count; i++) {
		if (!memcmp(t.entry[i].gid.raw, gid->raw, sizeof(gid->raw)))
			return t.entry[i].index;
	}
	return -ENODATA;
}

/* ---- partitions: one, the default ---------------------------------------------- */

int xp_query_pkey(struct ibv_context *ibctx, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(0xffff);
	return 0;
}

int xp_get_pkey_index(struct ibv_context *ibctx, uint8_t port, __be16 pkey)
{
	if (port == 1 && pkey == htons(0xffff))
		return 0;
	errno = EINVAL;
	return -1;
}
