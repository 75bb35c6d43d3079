// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <xroce/guid.h>
#include <xroce/wire.h>

#include "provider/preload/umad_number.h"
#include "provider/preload/values.h"
#include "provider/verbs/device.h"

int xp_source_open(struct xp_source *s, const char *device)
{
	return xp_device_connect(device, &s->conn, &s->hello);
}

void xp_source_close(struct xp_source *s)
{
	xp_conn_close(&s->conn);
}

static int values_query(struct xp_source *s, uint32_t type, void *rep, size_t size)
{
	struct xp_call call = { .type = type, .rep = rep, .rep_len = size };

	return xp_conn_call(&s->conn, &call);
}

/* ---- device -------------------------------------------------------------------- */

int xp_value_node_type(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "1: CA\n");
}

int xp_value_guid(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	char guid[XR_GUID_TEXT];

	xr_guid_text(s->hello.guid, guid);
	return snprintf(text, size, "%s\n", guid);
}

/* Host and device, as rdma-ndd of rdma-core sets it */
int xp_value_node_desc(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	struct utsname u;

	return snprintf(text, size, "%.64s %.63s\n", uname(&u) ? "" : u.nodename, s->hello.device);
}

int xp_value_fw_ver(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	struct xr_query_device_rep rep;
	int err = values_query(s, XR_MSG_QUERY_DEVICE, &rep, sizeof(rep));

	return err ? err : snprintf(text, size, "%.63s\n", rep.fw_ver);
}

/* hca_type and board_id */
int xp_value_type(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "xroce\n");
}

int xp_value_hw_rev(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	struct xr_query_device_rep rep;
	int err = values_query(s, XR_MSG_QUERY_DEVICE, &rep, sizeof(rep));

	return err ? err : snprintf(text, size, "%x\n", rep.hw_ver);
}

/* ---- port ---------------------------------------------------------------------- */

static int values_query_port(struct xp_source *s, struct xr_query_port_rep *rep)
{
	return values_query(s, XR_MSG_QUERY_PORT, rep, sizeof(*rep));
}

/* IBTA 14.2.5.6: PortState */
int xp_value_state(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	static const char *const names[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	struct xr_query_port_rep rep;
	int err = values_query_port(s, &rep);

	if (err)
		return err;
	return snprintf(text, size, "%u: %s\n", rep.state,
			rep.state < 5 ? names[rep.state] : "UNKNOWN");
}

/* IBTA 14.2.5.6: PortPhysicalState */
int xp_value_phys_state(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	struct xr_query_port_rep rep;
	int err = values_query_port(s, &rep);

	if (err)
		return err;
	return snprintf(text, size, "%u: %s\n", rep.phys_state,
			rep.phys_state == 5 ? "LinkUp" : "Disabled");
}

/* Each row is a value of active_speed, enum ib_port_speed of Linux. */
static const struct {
	uint32_t speed, tenths; /* of Gb/s, one lane */
	const char *name;
} speeds[] = {
	{ 1, 25, "" },	     { 2, 50, " DDR" },	  { 4, 100, " QDR" },  { 8, 100, " FDR10" },
	{ 16, 140, " FDR" }, { 32, 250, " EDR" }, { 64, 500, " HDR" }, { 128, 1000, " NDR" },
};

int xp_value_rate(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	struct xr_query_port_rep rep;
	uint32_t lanes, tenths;
	unsigned int i;
	int err = values_query_port(s, &rep);

	if (err)
		return err;
	for (i = 0;
	     i + 1 < sizeof(speeds) / sizeof(speeds[0]) && speeds[i].speed < rep.active_speed; i++)
		;
	/* enum ib_port_width: 1, 2, 4, 8 are 1X, 4X, 8X, 12X */
	lanes = rep.active_width == 8	? 12
		: rep.active_width == 4 ? 8
		: rep.active_width == 2 ? 4
					: 1;
	tenths = speeds[i].tenths * lanes;
	return snprintf(text, size, "%u%s Gb/sec (%uX%s)\n", tenths / 10, tenths % 10 ? ".5" : "",
			lanes, speeds[i].name);
}

/* Fields that only InfiniBand links have */
int xp_value_zero(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "0\n");
}

int xp_value_zero_hex(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "0x0\n");
}

/* port_cap_flags of ibv_query_port() */
int xp_value_cap_mask(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "0x%08x\n", IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
}

int xp_value_link_layer(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "Ethernet\n");
}

/* ---- GIDs and P_Keys ----------------------------------------------------------- */

static int values_query_gids(struct xp_source *s, struct xp_gid_table *gids)
{
	struct xp_call call = { .type = XR_MSG_QUERY_GIDS, .rep = gids, .rep_len = sizeof(*gids) };
	int err = xp_conn_call(&s->conn, &call);

	return err ? err : xp_gid_table_valid(gids, call.rep_got) ? 0 : -EPROTO;
}

static const struct xr_gid_entry *find_gid(const struct xp_gid_table *gids, uint32_t index)
{
	uint32_t i;

	for (i = 0; i < gids->head.count; i++) {
		if (gids->entry[i].index == index)
			return &gids->entry[i];
	}
	return NULL;
}

/* As in the kernel, an entry that is not in use reads as zeros. */
int xp_value_gid(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	static const struct xr_gid_entry none;
	const struct xr_gid_entry *e;
	struct xp_gid_table gids;
	unsigned int i, n = 0;
	int err;

	if (at->index >= XR_GID_TABLE_LEN)
		return -ENOENT;
	err = values_query_gids(s, &gids);
	if (err)
		return err;
	e = find_gid(&gids, at->index);
	e = e ? e : &none;
	for (i = 0; i < 16 && n < size; i++)
		n += snprintf(text + n, size - n, "%02x%s", e->gid.raw[i],
			      i == 15 ? "\n"
			      : i % 2 ? ":"
				      : "");
	return n;
}

static int gid_attribute(struct xp_source *s, const struct xp_place *at, char *text, size_t size,
			 const char *value)
{
	struct xp_gid_table gids;
	int err = values_query_gids(s, &gids);

	if (err)
		return err;
	return find_gid(&gids, at->index) ? snprintf(text, size, "%s\n", value) : -ENOENT;
}

int xp_value_gid_type(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return gid_attribute(s, at, text, size, "RoCE v2");
}

int xp_value_gid_netdev(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return gid_attribute(s, at, text, size, s->hello.netdev);
}

int xp_value_pkey(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return at->index ? -ENOENT : snprintf(text, size, "0x%04x\n", XR_DEFAULT_PKEY);
}

static int each_number(xp_each *fn, void *arg, uint32_t number)
{
	char name[12];

	snprintf(name, sizeof(name), "%u", number);
	return fn(arg, name);
}

int xp_each_gid(struct xp_source *s, xp_each *fn, void *arg)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < XR_GID_TABLE_LEN; i++)
		err = each_number(fn, arg, i);
	return err;
}

int xp_each_used_gid(struct xp_source *s, xp_each *fn, void *arg)
{
	struct xp_gid_table gids;
	int err = values_query_gids(s, &gids);
	uint32_t i;

	for (i = 0; !err && i < gids.head.count; i++)
		err = each_number(fn, arg, gids.entry[i].index);
	return err;
}

int xp_each_pkey(struct xp_source *s, xp_each *fn, void *arg)
{
	return each_number(fn, arg, 0);
}

/* ---- counters ------------------------------------------------------------------ */

/*
 * Gets the counters as text (docs/show.md). Returns the first row of those of the transport, or
 * NULL. *text is to be freed.
 */
static const char *first_counter(struct xp_source *s, char **text)
{
	static const char list[] = "\"transport\":[";
	struct xr_show_req req = { .what = XR_SHOW_COUNTERS };
	struct xr_show_rep rep;
	int fd = -1;
	struct xp_call call = { .type = XR_MSG_SHOW,
				.req = &req,
				.req_len = sizeof(req),
				.rep = &rep,
				.rep_len = sizeof(rep),
				.rep_fds = &fd,
				.rep_room = 1 };
	const char *first;
	ssize_t n = -1;

	*text = NULL;
	if (xp_conn_call(&s->conn, &call) || !call.rep_nfds)
		return NULL;
	if (rep.length < (1 << 20))
		*text = malloc(rep.length + 1);
	if (*text)
		n = pread(fd, *text, rep.length, 0);
	close(fd);
	if (n < 0)
		return NULL;
	(*text)[n] = 0;
	first = strstr(*text, list);
	return first ? first + sizeof(list) - 1 : NULL;
}

/* Parses a row, {"name":"...","value":N,"text":"..."}. Returns the next one, or NULL. */
static const char *parse_counter(const char *row, char name[64], uint64_t *value)
{
	unsigned long long number;

	if (!row || sscanf(row, "{\"name\":\"%63[a-z0-9_]\",\"value\":%llu", name, &number) != 2)
		return NULL;
	*value = number;
	row = strchr(row, '}');
	return row ? row + 1 + (row[1] == ',') : NULL;
}

int xp_each_hw_counter(struct xp_source *s, xp_each *fn, void *arg)
{
	char *text, name[64];
	const char *row = first_counter(s, &text);
	uint64_t value;
	int err = 0;

	while (!err && (row = parse_counter(row, name, &value)))
		err = fn(arg, name);
	free(text);
	return err;
}

/* Adds the counters with these names. Returns their number. */
static unsigned int values_sum_counters(struct xp_source *s, const char *const names[4],
					uint64_t *sum)
{
	char *text, name[64];
	const char *row = first_counter(s, &text);
	unsigned int found = 0, i;
	uint64_t value;

	*sum = 0;
	while ((row = parse_counter(row, name, &value))) {
		for (i = 0; i < 4 && names[i]; i++) {
			if (!strcmp(names[i], name)) {
				*sum += value;
				found++;
			}
		}
	}
	free(text);
	return found;
}

int xp_value_hw_counter(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	const char *const names[4] = { at->name };
	uint64_t sum;

	if (!values_sum_counters(s, names, &sum))
		return -ENOENT;
	return snprintf(text, size, "%llu\n", (unsigned long long)sum);
}

/*
 * PortCounters of IBTA 16.1.3.5, with the kernel's names. Data is counted in words of 32 bits.
 * Those without counters of the transport are of InfiniBand links, and 0.
 */
static const struct {
	const char *name;
	uint32_t divisor;
	const char *of[4];
} counters[] = {
	{ "VL15_dropped", 1, { NULL } },
	{ "excessive_buffer_overrun_errors", 1, { NULL } },
	{ "link_downed", 1, { NULL } },
	{ "link_error_recovery", 1, { NULL } },
	{ "local_link_integrity_errors", 1, { NULL } },
	{ "port_rcv_constraint_errors", 1, { NULL } },
	{ "port_rcv_data", 4, { "rx_bytes" } },
	{ "port_rcv_errors", 1, { "rx_icrc_errors", "rx_udp_checksum_errors", "rx_malformed" } },
	{ "port_rcv_packets", 1, { "rx_packets" } },
	{ "port_rcv_remote_physical_errors", 1, { NULL } },
	{ "port_rcv_switch_relay_errors", 1, { NULL } },
	{ "port_xmit_constraint_errors", 1, { NULL } },
	{ "port_xmit_data", 4, { "tx_bytes" } },
	{ "port_xmit_discards", 1, { NULL } },
	{ "port_xmit_packets", 1, { "tx_packets" } },
	{ "port_xmit_wait", 1, { NULL } },
	{ "symbol_error", 1, { NULL } },
};

#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

int xp_value_counter(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < COUNTERS && strcmp(counters[i].name, at->name); i++)
		;
	if (i == COUNTERS)
		return -ENOENT;
	if (counters[i].of[0] && !values_sum_counters(s, counters[i].of, &sum))
		return -EPROTO;
	return snprintf(text, size, "%llu\n", (unsigned long long)(sum / counters[i].divisor));
}

int xp_each_counter(struct xp_source *s, xp_each *fn, void *arg)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < COUNTERS; i++)
		err = fn(arg, counters[i].name);
	return err;
}

/* ---- uverbs -------------------------------------------------------------------- */

int xp_value_device(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "%s\n", s->hello.device);
}

int xp_value_uverbs_dev(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "%u:%u\n", XP_UVERBS_MAJOR, xp_uverbs_number(s->hello.device));
}

/* IB_USER_VERBS_ABI_VERSION of <rdma/ib_user_verbs.h> */
int xp_value_verbs_abi(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "6\n");
}

int xp_value_driver_abi(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "1\n");
}

/* ---- umad ---------------------------------------------------------------------- */

/* IB_USER_MAD_ABI_VERSION of <rdma/ib_user_mad.h> */
int xp_value_umad_abi(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "5\n");
}

int xp_value_umad_port(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "1\n");
}

int xp_value_umad_dev(struct xp_source *s, const struct xp_place *at, char *text, size_t size)
{
	return snprintf(text, size, "%u:%d\n", XP_UMAD_MAJOR, xp_umad_number(s->hello.device));
}
