// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queries of device, port, GIDs and P_Keys. */
#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/query.h"
#include "provider/verbs/request.h"

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
	return -xp_request(xp_ctx(xp_process_context(ibctx)), XR_MSG_QUERY_DEVICE, NULL, 0, rep,
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

#define CORE_CLOCK_KHZ 1000000 /* completion timestamps are in ns */

int xp_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex all = { 0 };
	struct xr_query_device_rep rep;
	int err;

	if ((input && input->comp_mask) || attr_size < sizeof(attr->orig_attr))
		return -xp_refuse("ibv_query_device_ex", EINVAL,
				  "comp_mask 0x%x, must be 0; size %zu, at least %zu",
				  input ? input->comp_mask : 0, attr_size, sizeof(attr->orig_attr));
	err = query_device(ibctx, &rep);
	if (err)
		return err;
	fill_device_attr(&all.orig_attr, &rep);
	all.odp_caps.general_caps = rep.odp_caps;
	all.odp_caps.per_transport_caps.rc_odp_caps = rep.odp_rc;
	all.odp_caps.per_transport_caps.uc_odp_caps = rep.odp_uc;
	all.xrc_odp_caps = rep.odp_rc; /* XRC is RC with its two halves in separate QPs */
	all.odp_caps.per_transport_caps.ud_odp_caps = rep.odp_ud;
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = CORE_CLOCK_KHZ;
	all.device_cap_flags_ex = rep.device_cap_flags;
	all.packet_pacing_caps.qp_rate_limit_min = rep.rate_min;
	all.packet_pacing_caps.qp_rate_limit_max = rep.rate_max;
	all.packet_pacing_caps.supported_qpts = rep.rate_qpts;
	all.cq_mod_caps.max_cq_count = XR_MAX_CQ_COUNT;
	all.cq_mod_caps.max_cq_period = XR_MAX_CQ_PERIOD;
	all.phys_port_cnt_ex = 1;
	all.max_dm_size = rep.max_dm_size;
	/* A program compiled against another release may have a shorter or a longer struct. */
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

/* Stores all cycles in tv_nsec, as other drivers do, even if there are more than 10^9. */
int xp_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return -xp_refuse("ibv_query_rt_values_ex", EOPNOTSUPP,
				  "comp_mask 0x%x, known 0x%x", values->comp_mask,
				  IBV_VALUES_MASK_RAW_CLOCK);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		values->raw_clock = (struct timespec){ .tv_nsec = xp_clock() };
	return 0;
}

/* ---- port ---------------------------------------------------------------------- */

/* Returns EINVAL. */
static int no_port(const char *verb, uint32_t port)
{
	return -xp_refuse(verb, EINVAL, "port %u; the device has port 1 only", port);
}

int xp_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct xr_query_port_rep rep;
	struct ibv_port_attr all;
	int err;

	if (port != 1)
		return no_port("ibv_query_port", port);
	err = xp_request(xp_ctx(xp_process_context(ibctx)), XR_MSG_QUERY_PORT, NULL, 0, &rep,
			 sizeof(rep));
	if (err)
		return -err;
	all = (struct ibv_port_attr){
		.state = rep.state,
		.max_mtu = rep.max_mtu,
		.active_mtu = rep.active_mtu,
		.gid_tbl_len = rep.gid_tbl_len,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
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

/* The exported function fills only the fields of the original struct. */
int xp_query_port_compat(struct ibv_context *ibctx, uint8_t port,
			 struct _compat_ibv_port_attr *attr)
{
	return xp_query_port(ibctx, port, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ibv_query_port() reports at least this, also if the interface has no speed (a bridge). */
#define LEAST_SPEED_MBPS 2500

int xp_query_port_speed(struct ibv_context *ibctx, uint32_t port, uint64_t *speed)
{
	struct xr_query_port_rep rep;
	int err;

	if (port != 1)
		return no_port("ibv_query_port_speed", port);
	err = xp_request(xp_ctx(xp_process_context(ibctx)), XR_MSG_QUERY_PORT, NULL, 0, &rep,
			 sizeof(rep));
	if (!err)
		*speed = (rep.link_speed_mbps ? rep.link_speed_mbps : LEAST_SPEED_MBPS) / 100;
	return -err;
}

/* ---- GIDs ---------------------------------------------------------------------- */

bool xp_gid_table_valid(const struct xp_gid_table *t, size_t got)
{
	return t->head.count <= XR_GID_TABLE_LEN &&
	       got >= sizeof(t->head) + t->head.count * sizeof(t->entry[0]);
}

static int verbs_query_gids(struct xp_context *ctx, struct xp_gid_table *t)
{
	struct xp_call call = { .type = XR_MSG_QUERY_GIDS, .rep = t, .rep_len = sizeof(*t) };
	int err = xp_call(ctx, &call);

	if (err)
		return err;
	return xp_gid_table_valid(t, call.rep_got) ? 0 : -EPROTO;
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

/* Returns 0, -ENODATA for an empty entry, or another error. */
static int one_gid(struct ibv_context *ibctx, uint32_t port, uint32_t index,
		   struct ibv_gid_entry *entry, size_t size)
{
	struct xp_gid_table t;
	uint32_t i;
	int err;

	if (port != 1)
		return -no_port("ibv_query_gid", port);
	if (index >= XR_GID_TABLE_LEN)
		return xp_refuse("ibv_query_gid", EINVAL, "index %u, limit %u", index,
				 XR_GID_TABLE_LEN - 1);
	err = verbs_query_gids(xp_ctx(xp_process_context(ibctx)), &t);
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
		return -xp_refuse("ibv_query_gid_ex", EINVAL, "flags 0x%x, must be 0", flags);
	return -one_gid(ibctx, port, index, entry, entry_size);
}

ssize_t xp_query_gid_table(struct ibv_context *ibctx, struct ibv_gid_entry *entries, size_t max,
			   uint32_t flags, size_t entry_size)
{
	struct xp_gid_table t;
	uint32_t i;
	int err;

	if (flags || !entry_size)
		return xp_refuse("ibv_query_gid_table", EINVAL, "flags 0x%x, must be 0", flags);
	err = verbs_query_gids(xp_ctx(xp_process_context(ibctx)), &t);
	if (err)
		return err;
	if (max < t.head.count)
		return xp_refuse("ibv_query_gid_table", EINVAL, "max_entries %zu, %u GIDs", max,
				 t.head.count);
	for (i = 0; i < t.head.count; i++)
		fill_gid_entry((char *)entries + i * entry_size, entry_size, &t.entry[i]);
	return t.head.count;
}

/* ibv_query_gid() and ibv_query_gid_type() return zeros for an empty entry. */
static int gid_or_zeros(struct ibv_context *ibctx, uint8_t port, int index,
			struct ibv_gid_entry *entry)
{
	int err = one_gid(ibctx, port, index, entry, sizeof(*entry));

	if (err == -ENODATA) {
		memset(entry, 0, sizeof(*entry));
		entry->gid_type = IBV_GID_TYPE_ROCE_V1;
		return 0;
	}
	return err ? xp_fail(err) : 0;
}

int xp_query_gid(struct ibv_context *ibctx, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	if (gid_or_zeros(ibctx, port, index, &entry))
		return -1;
	*gid = entry.gid;
	return 0;
}

int xp_query_gid_type(struct ibv_context *ibctx, uint8_t port, unsigned int index, int *type)
{
	struct ibv_gid_entry entry;

	if (gid_or_zeros(ibctx, port, index, &entry))
		return -1;
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2; /* values of sysfs: 0 RoCE v1, 1 RoCE v2 */
	return 0;
}

int xp_find_gid(struct xp_context *ctx, const union ibv_gid *gid)
{
	struct xp_gid_table t;
	uint32_t i;
	int err = verbs_query_gids(ctx, &t);

	if (err)
		return err;
	for (i = 0; i < t.head.count; i++) {
		if (!memcmp(t.entry[i].gid.raw, gid->raw, sizeof(gid->raw)))
			return t.entry[i].index;
	}
	return -ENODATA;
}

/* ---- P_Keys: only the default partition ----------------------------------------- */

int xp_query_pkey(struct ibv_context *ibctx, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index)
		return xp_fail(xp_refuse("ibv_query_pkey", EINVAL,
					 "port %u, index %d; port 1 has the P_Key index 0 only",
					 port, index));
	*pkey = htons(0xffff);
	return 0;
}

int xp_get_pkey_index(struct ibv_context *ibctx, uint8_t port, __be16 pkey)
{
	if (port == 1 && pkey == htons(0xffff))
		return 0;
	return xp_fail(xp_refuse("ibv_get_pkey_index", EINVAL,
				 "port %u, P_Key 0x%x; port 1 has 0xffff only", port, ntohs(pkey)));
}
