// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "metrics.h"

#include <stdlib.h>

#include "daemon/base/openmetrics.h"
#include "daemon/base/options.h"
#include "daemon/clients/client.h"
#include "daemon/cm/cm.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/io.h"
#include "daemon/gsi/gsi.h"
#include "daemon/memory/region.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/port.h"
#include "daemon/objects/qp.h"
#include "counters.h"
#include "server.h"
#include "view.h"

/* ---- device and port ------------------------------------------------------------- */

static uint32_t count_gids(const struct xd_device *dev)
{
	struct xr_addr gid;
	uint32_t n = 0, i;

	for (i = 0; i < XR_GID_TABLE_LEN; i++)
		n += xd_net_gid(dev->net, i, &gid);
	return n;
}

static void put_device(struct openmetrics *m, const struct xd_device *dev)
{
	const struct xd_link *link = xd_net_link(dev->net);

	/* No info: parsers of the older Prometheus format, as in the node exporter, refuse it. */
	om_family(m, "device_info", OM_GAUGE, "Interface and mode of the XDP program");
	om_begin(m);
	om_label(m, "interface", link->ifname);
	om_label(m, "version", XR_VERSION);
	om_label(m, "xdp_mode", xd_io_mode(dev->io));
	om_value(m, 1);
	om_single(m, "xdp_attached", OM_GAUGE, xd_io_is_attached(dev->io),
		  "1: the XDP program is on the interface; 0: somebody has removed it");
	om_single(m, "port_up", OM_GAUGE, link->up, "1: the link is up");
	om_single(m, "port_speed_bytes", OM_GAUGE, link->speed_mbps * 125000ull,
		  "Speed of the link, bytes in a second; 0: unknown");
	om_single(m, "port_mtu_bytes", OM_GAUGE, link->mtu, "MTU of the interface");
	om_single(m, "port_path_mtu_bytes", OM_GAUGE, xd_port_mtu(dev), "Active RDMA path MTU");
	om_single(m, "port_gids", OM_GAUGE, count_gids(dev), "Entries of the GID table in use");
}

/* ---- workers --------------------------------------------------------------------- */

typedef struct xd_worker_stats stats_of;

static void put_worker(struct openmetrics *m, const struct xd_device *dev, size_t field,
		       void (*put)(struct openmetrics *m, uint64_t value))
{
	stats_of s;

	for (uint32_t i = 0; i < xd_workers_count(dev->workers); i++) {
		xd_worker_stats(dev->workers, i, &s);
		om_begin(m);
		om_label_number(m, "worker", i);
		put(m, *(uint64_t *)((char *)&s + field));
	}
}

/* Counters of struct xd_worker_stats */
#define WORKER_COUNTERS(X)                                                                         \
	X(rounds, "Rounds: doorbells, receive, send")                                              \
	X(sleeps, "Times that the worker slept")                                                   \
	X(starved, "Yields of more than 1 ms: other threads had the processor")                    \
	X(rx_batches, "Batches of received frames")                                                \
	X(tx_kicks, "System calls that make the kernel send")                                      \
	X(rx_ring_full, "Frames that the kernel dropped because a ring was full")                  \
	X(tx_ring_full, "Times that the TX ring had no room")                                      \
	X(faults, "Injected faults")
#define WORKER_TIMES(X)                                                                            \
	X(cpu, "Processor time of the thread")                                                     \
	X(busy, "Time in rounds with work")                                                        \
	X(idle_spin, "Time in yields without work")

static void put_worker_queues(struct openmetrics *m, const struct xd_device *dev)
{
	om_family(m, "worker_queues", OM_GAUGE, "RX queues that the worker serves; 0: UDP sockets");
	for (uint32_t i = 0; i < xd_workers_count(dev->workers); i++) {
		om_begin(m);
		om_label_number(m, "worker", i);
		om_value(m, xd_io_queues(dev->io, i).count);
	}
}

static void metrics_put_workers(struct openmetrics *m, const struct xd_device *dev)
{
	put_worker_queues(m, dev);
#define X(name, help)                                                                              \
	om_family(m, "worker_" #name, OM_COUNTER, help);                                           \
	put_worker(m, dev, offsetof(stats_of, name), om_value);
	WORKER_COUNTERS(X)
#undef X
#define X(name, help)                                                                              \
	om_family(m, "worker_" #name "_seconds", OM_COUNTER, help);                                \
	put_worker(m, dev, offsetof(stats_of, name##_ns), om_seconds);
	WORKER_TIMES(X)
#undef X
}

static void metrics_put_pauses(struct openmetrics *m, const struct xd_device *dev)
{
	const struct xd_pauses *pauses = xd_workers_pauses(dev->workers);

	om_family(m, "pause_seconds", OM_HISTOGRAM, "Pauses of a worker by the control thread");
	om_histogram(m, &pauses->duration);
}

/* ---- packets --------------------------------------------------------------------- */

static void metrics_put_reasons(struct openmetrics *m, const struct xr_stat *stat)
{
	uint32_t i;

	om_family(m, "xdp_packets", OM_COUNTER, "Packets by verdict of the XDP program");
	for (i = 0; i < XR_REASON_COUNT; i++) {
		om_begin(m);
		om_label(m, "verdict", xd_reasons[i].name);
		om_label(m, "action", xd_reasons[i].action);
		om_value(m, stat[i].packets);
	}
	om_family(m, "xdp_bytes", OM_COUNTER, "Bytes of whole frames by verdict");
	for (i = 0; i < XR_REASON_COUNT; i++) {
		om_begin(m);
		om_label(m, "verdict", xd_reasons[i].name);
		om_label(m, "action", xd_reasons[i].action);
		om_value(m, stat[i].bytes);
	}
}

static void metrics_put_transport(struct openmetrics *m, const struct xt_counters *c)
{
#define X(field, text) om_single(m, "transport_" #field, OM_COUNTER, c->field, "Engines: " text);
	XT_COUNTERS(X)
#undef X
}

/* ---- connection management ------------------------------------------------------- */

static void put_mads(struct openmetrics *m, const char *event, const uint64_t *count)
{
	for (uint32_t kind = 0; kind < XC_NUM_KINDS; kind++) {
		om_begin(m);
		om_label(m, "kind", xc_kind_name(kind));
		om_label(m, "event", event);
		om_value(m, count[kind]);
	}
}

static void put_reject(struct openmetrics *m, const char *direction, const char *reason, uint64_t n)
{
	om_begin(m);
	om_label(m, "direction", direction);
	om_label(m, "reason", reason);
	om_value(m, n);
}

static void put_rejects(struct openmetrics *m, const char *direction, const uint64_t *count)
{
	put_reject(m, direction, "OTHER", count[0]);
#define X(number, reason, text) put_reject(m, direction, #reason, count[number]);
	XC_REASONS(X)
#undef X
}

static void put_cm(struct openmetrics *m, const struct xc_cm *engine)
{
	const struct xc_counters *c = xc_counters(engine);
	const struct xc_gauges gauges = xc_gauges(engine);

	om_family(m, "cm_messages", OM_COUNTER, "Messages of connection management");
	put_mads(m, "sent", c->sent);
	put_mads(m, "retried", c->retried);
	put_mads(m, "received", c->received);
	put_mads(m, "duplicate", c->duplicates);
	put_mads(m, "unexpected", c->unexpected);
	om_family(m, "cm_rejects", OM_COUNTER, "REJ messages by reason");
	put_rejects(m, "sent", c->rej_sent);
	put_rejects(m, "received", c->rej_received);
	om_single(m, "cm_malformed", OM_COUNTER, c->malformed, "MADs with invalid fields");
	om_single(m, "cm_limited", OM_COUNTER, c->limited, "Requests dropped because of a limit");
	om_single(m, "cm_established", OM_COUNTER, c->established, "Connections established");
	om_single(m, "cm_timeouts", OM_COUNTER, c->timeouts, "Exchanges without a response");
	om_single(m, "cm_exchanges", OM_GAUGE, gauges.ids, "Connections and SIDR exchanges");
	om_single(m, "cm_half_open", OM_GAUGE, gauges.half_open, "Requests not established yet");
	om_single(m, "cm_half_open_peers", OM_GAUGE, gauges.sources, "Peers of these requests");
}

static void put_gsi(struct openmetrics *m, const struct xd_gsi_counters *g)
{
#define X(field, text) om_single(m, "gsi_" #field, OM_COUNTER, g->field, "QP 1: " text);
	XD_GSI_COUNTERS(X)
#undef X
}

/* ---- objects and memory ---------------------------------------------------------- */

static void metrics_put_kind(struct openmetrics *m, const char *kind, uint64_t n)
{
	om_begin(m);
	om_label(m, "kind", kind);
	om_value(m, n);
}

static void metrics_put_objects(struct openmetrics *m, const struct xd_clients *cs)
{
	const struct xd_kinds *kinds = &cs->kinds;
	struct xd_mem_totals totals;
	uint32_t i;

	om_family(m, "objects", OM_GAUGE, "Existing objects by kind");
	metrics_put_kind(m, "clients", cs->count - cs->channels);
	metrics_put_kind(m, "cm_channels", cs->channels);
	for (i = 0; i < kinds->n; i++)
		metrics_put_kind(m, kinds->ops[i]->name,
				 kinds->objects[i] + xd_views_objects(cs, NULL, i));
	om_family(m, "object_limit", OM_GAUGE, "Largest number of objects of the device by kind");
	metrics_put_kind(m, "clients", cs->dev->opt->max_clients);
	metrics_put_kind(m, "cm_channels", cs->dev->opt->max_cm_channels);
	for (i = 0; i < kinds->n; i++)
		metrics_put_kind(m, kinds->ops[i]->name,
				 xd_kind_limit(cs, kinds->ops[i]->device_limit));
	xd_mem_totals(&totals);
	om_single(m, "mapped_bytes", OM_GAUGE, totals.mapped, "Memory of all regions");
	om_single(m, "pinned_bytes", OM_GAUGE, totals.pinned, "Pinned memory of all regions");
	om_single(m, "object_fds", OM_GAUGE,
		  __atomic_load_n(&cs->limits.fds.used, __ATOMIC_RELAXED),
		  "Descriptors held for clients");
}

/* ---- clients --------------------------------------------------------------------- */

static void begin_client(struct openmetrics *m, const struct xd_client *c)
{
	om_begin(m);
	om_label_number(m, "client", c->id);
	om_label_number(m, "pid", (uint64_t)c->identity.pid);
	om_label_number(m, "uid", c->identity.uid);
	om_label(m, "comm", c->identity.comm);
}

/* The xroce command is no program that uses the device. */
static const struct xd_client *user_from(const struct xd_client *c)
{
	while (c && (c->connection.observer || c->ending))
		c = c->next;
	return c;
}

static void put_clients(struct openmetrics *m, const struct xd_clients *cs)
{
	const struct xd_client *c;
	uint32_t kind, n;

	om_family(m, "client_objects", OM_GAUGE, "Objects of each client by kind");
	for (c = user_from(cs->first); c; c = user_from(c->next)) {
		for (kind = 0; kind < cs->kinds.n; kind++) {
			n = xd_object_count(c, kind) + xd_view_objects(c, kind);
			if (!n)
				continue;
			begin_client(m, c);
			om_label(m, "kind", cs->kinds.ops[kind]->name);
			om_value(m, n);
		}
	}
	om_family(m, "client_delays", OM_COUNTER,
		  "Times that requests waited because of --client-max-load");
	for (c = user_from(cs->first); c; c = user_from(c->next)) {
		begin_client(m, c);
		om_value(m, c->connection.delays);
	}
}

/* ---- programs -------------------------------------------------------------------- */

#define OTHERS "(others)" /* has no label "uid", so it is no name that a program can have */
/* Every second bucket of the engine is one of the histogram. */
#define RTT_STEP 2

typedef void put_program(struct openmetrics *m, const struct xd_program *p,
			 const struct xt_traffic *sum, const void *arg);

static void label_program(struct openmetrics *m, const struct xd_program *p)
{
	if (*p->comm)
		om_label_number(m, "uid", p->uid);
	om_label(m, "comm", *p->comm ? p->comm : OTHERS);
}

static void for_programs(struct openmetrics *m, const struct xd_programs *ps, put_program *put,
			 const void *arg)
{
	const struct xd_program *p = ps->first ? ps->first : &ps->others;
	struct xt_traffic sum;

	for (; p; p = p->next ? p->next : p == &ps->others ? NULL : &ps->others) {
		sum = p->ended;
		xt_traffic_add(&sum, &p->live);
		put(m, p, &sum, arg);
	}
}

static void put_qps(struct openmetrics *m, const struct xd_program *p, const struct xt_traffic *sum,
		    const void *arg)
{
	(void)sum;
	(void)arg;
	om_begin(m);
	label_program(m, p);
	om_value(m, p->qps);
}

static void put_counter(struct openmetrics *m, const struct xd_program *p,
			const struct xt_traffic *sum, const void *arg)
{
	om_begin(m);
	label_program(m, p);
	om_value(m, *(const uint64_t *)((const char *)&sum->counters + *(const size_t *)arg));
}

static void metrics_put_rtt(struct openmetrics *m, const struct xd_program *p,
			    const struct xt_traffic *sum, const void *arg)
{
	uint64_t n = 0;

	(void)arg;
	for (uint32_t i = 0; i < XT_RTT_BUCKETS; i++) {
		n += sum->rtt[i];
		if (i % RTT_STEP || i == XT_RTT_BUCKETS - 1)
			continue;
		om_begin_part(m, "_bucket");
		label_program(m, p);
		om_label_seconds(m, "le", (1ull << (XT_RTT_FIRST_BITS + i)) - 1);
		om_value(m, n);
	}
	om_begin_part(m, "_bucket");
	label_program(m, p);
	om_label(m, "le", "+Inf");
	om_value(m, n);
	om_begin_part(m, "_count");
	label_program(m, p);
	om_value(m, n);
	om_begin_part(m, "_sum");
	label_program(m, p);
	om_seconds(m, sum->rtt_sum);
}

static void put_programs(struct openmetrics *m, struct xd_clients *cs)
{
	const struct xd_programs *ps = &cs->programs;

	xd_qps_sum_traffic(cs);
	xd_views_sum_traffic(cs);
	om_family(m, "program_qps", OM_GAUGE, "Queue pairs of each program");
	for_programs(m, ps, put_qps, NULL);
#define X(field)                                                                                   \
	om_family(m, "program_" #field, OM_COUNTER, "Queue pairs of each program: " #field);       \
	for_programs(m, ps, put_counter, &(size_t){ offsetof(struct xt_qp_counters, field) });
	XT_QP_COUNTERS(X)
#undef X
	om_family(m, "program_rtt_seconds", OM_HISTOGRAM,
		  "Round-trip times of packets that request a response");
	for_programs(m, ps, metrics_put_rtt, NULL);
}

/* ---- users ----------------------------------------------------------------------- */

static void put_users(struct openmetrics *m, const struct xd_clients *cs)
{
	const struct xd_user *u;

	om_family(m, "user_pinned_bytes", OM_GAUGE, "Registered memory of each user");
	for (u = cs->limits.users; u; u = u->next) {
		om_begin(m);
		om_label_number(m, "uid", u->uid);
		om_value(m, u->bytes.pinned);
	}
	om_family(m, "user_memory_bytes", OM_GAUGE, "Memory of the daemon for each user");
	for (u = cs->limits.users; u; u = u->next) {
		om_begin(m);
		om_label_number(m, "uid", u->uid);
		om_value(m, u->bytes.memory);
	}
}

static void metrics_put_heap(struct openmetrics *m, struct xd_server *s)
{
	om_single(m, "heap_bytes", OM_GAUGE, xd_heap_bytes(&s->heap),
		  "Memory of malloc() in use by the daemon");
}

void xd_metrics_write(FILE *f, struct xd_server *s, bool all)
{
	struct openmetrics m = { .f = f, .device = s->dev->opt->name };
	const struct xc_cm *engine = xd_rdma_cm_engine(s->objects.rdma_cm);
	struct xd_clients *cs = &s->objects.clients;
	struct xd_sums sums;

	xd_sum_counters(s, &sums);
	put_device(&m, s->dev);
	metrics_put_workers(&m, s->dev);
	om_single(&m, "direct_faults", OM_COUNTER, sums.direct_faults,
		  "Injected faults of direct contexts");
	metrics_put_pauses(&m, s->dev);
	metrics_put_reasons(&m, sums.reason);
	metrics_put_transport(&m, &sums.transport);
	if (engine)
		put_cm(&m, engine);
	if (s->dev->gsi)
		put_gsi(&m, xd_gsi_counters(s->dev->gsi));
	metrics_put_objects(&m, cs);
	if (all) {
		put_clients(&m, cs);
		put_programs(&m, cs);
		put_users(&m, cs);
		metrics_put_heap(&m, s);
	}
	om_end(&m);
}
