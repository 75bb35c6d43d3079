// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SHOW, which returns text in a memfd: JSON (docs/show.md has the names), or metrics. SET_FAULT.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xroce/guid.h>
#include <xroce/show.h>

#include "daemon/base/histogram.h"
#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/io/io.h"
#include "daemon/memory/region.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/port.h"
#include "daemon/objects/qp.h"
#include "counters.h"
#include "metrics.h"
#include "server.h"
#include "show.h"
#include "view.h"

/* ---- status ---------------------------------------------------------------------- */

/*
 * Returns the number of open descriptors. Since Linux 6.2 it is the size of the directory. On older
 * kernels all entries have to be read, some microseconds each and possibly hundreds of thousands,
 * while all clients wait. So it is counted for operators only; others get 0.
 */
static uint32_t open_files(bool count)
{
	uint32_t n = 0;
	struct stat st;
	DIR *d;

	if (!stat("/proc/self/fd", &st) && st.st_size)
		return (uint32_t)st.st_size;
	d = count ? opendir("/proc/self/fd") : NULL;
	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* ., .. and the descriptor of the directory itself */
}

static void put_identity(struct json *j, const struct xd_device *dev)
{
	const struct xd_link *link = xd_net_link(dev->net);
	char guid[XR_GUID_TEXT];

	json_text(j, "device", dev->opt->name);
	json_text(j, "version", XR_VERSION);
	json_number(j, "pid", (uint64_t)getpid());
	xr_guid_text(link->guid, guid);
	json_text(j, "guid", guid);
	json_text(j, "interface", link->ifname);
	json_number(j, "ifindex", link->ifindex);
	json_mac(j, "mac", link->mac);
	json_number(j, "mtu", link->mtu);
	json_text(j, "link", link->up ? "up" : "down");
	json_number(j, "path_mtu", xd_port_mtu(dev));
	json_text(j, "io", dev->io->ops->name);
	json_text(j, "io_why", dev->io_why);
}

static void put_gids(struct json *j, const struct xd_device *dev)
{
	static struct xr_gid_entry entry[XR_GID_TABLE_LEN];
	uint32_t n = xd_net_gids(dev->net, entry, XR_GID_TABLE_LEN), i;

	json_begin(j, "gids", '[');
	for (i = 0; i < n; i++) {
		json_begin(j, NULL, '{');
		json_number(j, "index", entry[i].index);
		json_address(j, "gid", &entry[i].gid);
		json_end(j, '}');
	}
	json_end(j, ']');
}

/* As lists of processors are written: first-last:step */
static void show_put_queues(struct json *j, struct xd_queues q)
{
	uint32_t last = q.first + (q.count - 1) * q.step;
	char text[40];

	if (!q.count)
		return;
	if (q.count == 1)
		snprintf(text, sizeof(text), "%u", q.first);
	else if (q.step == 1)
		snprintf(text, sizeof(text), "%u-%u", q.first, last);
	else
		snprintf(text, sizeof(text), "%u-%u:%u", q.first, last, q.step);
	json_text(j, "queues", text);
}

static void show_put_workers(struct json *j, const struct xd_device *dev)
{
	struct xd_worker_stats s;
	uint32_t i;

	json_begin(j, "workers", '[');
	for (i = 0; i < xd_workers_count(dev->workers); i++) {
		xd_worker_stats(dev->workers, i, &s);
		json_begin(j, NULL, '{');
		json_number(j, "worker", i);
		show_put_queues(j, xd_io_queues(dev->io, i));
		json_number(j, "rounds", s.rounds);
		json_number(j, "sleeps", s.sleeps);
		json_number(j, "starved", s.starved);
		json_number(j, "rx_batches", s.rx_batches);
		json_number(j, "tx_kicks", s.tx_kicks);
		json_number(j, "rx_gso_frames", s.rx_gso_frames);
		json_number(j, "rx_gso_packets", s.rx_gso_packets);
		json_number(j, "tx_gso_frames", s.tx_gso_frames);
		json_number(j, "tx_gso_packets", s.tx_gso_packets);
		json_number(j, "rx_buffers", s.rx_buffers);
		json_number(j, "rx_ring_full", s.rx_ring_full);
		json_number(j, "tx_ring_full", s.tx_ring_full);
		json_number(j, "faults", s.faults);
		json_number(j, "cpu_ns", s.cpu_ns);
		json_number(j, "busy_ns", s.busy_ns);
		json_number(j, "idle_spin_ns", s.idle_spin_ns);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void show_put_pauses(struct json *j, const struct xd_pauses *pauses)
{
	const struct xd_histogram *h = &pauses->duration;

	json_begin(j, "pauses", '{');
	json_number(j, "count", h->count);
	json_number(j, "total_ns", h->sum);
	json_number(j, "p50_ns", xd_histogram_quantile(h, 500));
	json_number(j, "p99_ns", xd_histogram_quantile(h, 990));
	json_number(j, "longest_ns", h->longest);
	json_number(j, "longest_cpu_ns", pauses->longest_cpu);
	json_end(j, '}');
}

static void put_turns(struct json *j, const struct xd_loop *loop)
{
	const struct xd_turns *t = xd_loop_turns(loop);

	json_begin(j, "turns", '{');
	json_number(j, "count", t->count);
	json_number(j, "total_cpu_ns", t->total);
	json_number(j, "longest_cpu_ns", t->longest);
	json_end(j, '}');
}

static void show_put_objects(struct json *j, const struct xd_client *c)
{
	const struct xd_clients *cs = c->clients;
	struct xd_mem_totals totals;
	uint32_t kind;

	xd_mem_totals(&totals);
	json_begin(j, "objects", '{');
	json_number(j, "clients", cs->count - cs->channels);
	json_number(j, "cm_channels", cs->channels);
	for (kind = 0; kind < cs->kinds.n; kind++)
		json_number(j, cs->kinds.ops[kind]->name,
			    cs->kinds.objects[kind] + xd_views_objects(cs, NULL, kind));
	json_number(j, "mapped_bytes", totals.mapped);
	json_number(j, "pinned_bytes", totals.pinned);
	json_number(j, "object_fds", __atomic_load_n(&cs->limits.fds.used, __ATOMIC_RELAXED));
	json_number(j, "open_fds", open_files(c->identity.is_operator));
	json_end(j, '}');
}

static void show_put_heap(struct json *j, const struct xd_client *c)
{
	json_number(j, "heap_bytes",
		    c->identity.is_operator ? xd_heap_bytes(&xd_server_of(c)->heap) : 0);
}

static void server_show_status(struct json *j, const struct xd_client *c)
{
	const struct xd_server *s = xd_server_of(c);

	json_begin(j, NULL, '{');
	put_identity(j, s->dev);
	xd_io_show(s->dev->io, j);
	xd_lend_show(j, c);
	put_gids(j, s->dev);
	show_put_workers(j, s->dev);
	show_put_pauses(j, xd_workers_pauses(s->dev->workers));
	put_turns(j, s->dev->loop);
	show_put_objects(j, c);
	show_put_heap(j, c);
	xd_show_cm_status(j, xd_rdma_cm_engine(s->objects.rdma_cm), s->dev->gsi);
	xd_faults_show(j, c);
	json_end(j, '}');
}

/* ---- counters -------------------------------------------------------------------- */

static void show_put_reasons(struct json *j, const struct xr_stat *stat)
{
	uint32_t i;

	json_begin(j, "xdp", '[');
	for (i = 0; i < XR_REASON_COUNT; i++) {
		json_begin(j, NULL, '{');
		json_text(j, "name", xd_reasons[i].name);
		json_number(j, "packets", stat[i].packets);
		json_number(j, "bytes", stat[i].bytes);
		json_text(j, "action", xd_reasons[i].action);
		json_text(j, "text", xd_reasons[i].text);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void show_counters(struct json *j, struct xd_server *s)
{
	struct xd_device *dev = s->dev;
	struct xd_sums sums;

	xd_sum_counters(s, &sums);
	json_begin(j, NULL, '{');
	show_put_reasons(j, sums.reason);
	json_begin(j, "transport", '[');
#define X(field, text) xd_show_counter(j, #field, sums.transport.field, text);
	XT_COUNTERS(X)
#undef X
	json_end(j, ']');
	xd_show_cm_counters(j, xd_rdma_cm_engine(s->objects.rdma_cm), dev->gsi);
	json_end(j, '}');
}

/* ---- limits ------------------------------------------------------------------------ */

static void put_limit(struct json *j, const char *name, const char *option, uint64_t used,
		      uint64_t user)
{
	json_begin(j, NULL, '{');
	json_text(j, "limit", name);
	json_text(j, "option", option);
	json_number(j, "used", used);
	json_number(j, "user", user);
}

static void put_kind_limit(struct json *j, const struct xd_client *c, uint32_t kind)
{
	const struct xd_kinds *kinds = &c->clients->kinds;
	const struct xd_kind_ops *ops = kinds->ops[kind];

	uint64_t direct = xd_views_objects(c->clients, NULL, kind);

	put_limit(j, ops->name, xd_option_name(ops->device_limit), kinds->objects[kind] + direct,
		  xd_kind_limit(c->clients, ops->user_limit));
	json_number(j, "client", xd_kind_limit(c->clients, ops->client_limit));
	json_number(j, "device", xd_kind_limit(c->clients, ops->device_limit));
	json_number(j, "direct", direct);
	json_number(j, "reserved", kinds->claims[kind] - direct);
	json_end(j, '}');
}

/* Limits that do not belong to a kind of object */
static void put_other_limits(struct json *j, const struct xd_clients *cs)
{
	const struct xd_options *opt = cs->dev->opt;
	const struct xd_limits *limits = &cs->limits;
	const struct xd_user *u;
	uint32_t processes = 0;

	for (u = limits->users; u; u = u->next)
		processes += u->processes;
	put_limit(j, "clients", "max-clients", cs->count - cs->channels, opt->user_max_clients);
	json_number(j, "device", opt->max_clients);
	json_end(j, '}');
	put_limit(j, "cm_channels", "max-cm-channels", cs->channels, opt->user_max_cm_channels);
	json_number(j, "device", opt->max_cm_channels);
	json_end(j, '}');
	put_limit(j, "processes", "max-processes", processes, opt->user_max_processes);
	json_end(j, '}');
	put_limit(j, "files", "max-files", __atomic_load_n(&limits->fds.used, __ATOMIC_RELAXED),
		  limits->user_max_files);
	json_number(j, "device", limits->user_fds.limit);
	json_end(j, '}');
}

static void put_byte_limits(struct json *j, const struct xd_clients *cs)
{
	struct xd_bytes sum = { 0 };
	const struct xd_user *u;

	for (u = cs->limits.users; u; u = u->next) {
		sum.pinned += xd_registered(cs, u);
		sum.memory += u->bytes.memory;
	}
	put_limit(j, "pinned", "max-pinned", sum.pinned, cs->dev->opt->user_max_pinned);
	json_end(j, '}');
	put_limit(j, "memory", "max-memory", sum.memory, cs->dev->opt->user_max_memory);
	json_end(j, '}');
}

static void put_user(struct json *j, const struct xd_clients *cs, const struct xd_user *u)
{
	uint32_t kind;

	json_begin(j, NULL, '{');
	json_number(j, "uid", u->uid);
	json_boolean(j, "operator", u->is_operator);
	json_number(j, "clients", u->clients - u->channels);
	json_number(j, "cm_channels", u->channels);
	for (kind = 0; kind < cs->kinds.n; kind++)
		json_number(j, cs->kinds.ops[kind]->name,
			    u->objects[kind] + xd_views_objects(cs, u, kind));
	json_number(j, "processes", u->processes);
	json_number(j, "files", __atomic_load_n(&u->fds.used, __ATOMIC_RELAXED));
	json_number(j, "pinned", xd_registered(cs, u));
	json_number(j, "memory", u->bytes.memory);
	json_end(j, '}');
}

/* Operators see all users, others themselves only. */
static void show_limits(struct json *j, const struct xd_client *c)
{
	const struct xd_clients *cs = c->clients;
	const struct xd_user *u;
	uint32_t kind;

	json_begin(j, NULL, '{');
	json_begin(j, "limits", '[');
	for (kind = 0; kind < cs->kinds.n; kind++)
		put_kind_limit(j, c, kind);
	put_other_limits(j, cs);
	put_byte_limits(j, cs);
	json_end(j, ']');
	json_begin(j, "users", '[');
	for (u = cs->limits.users; u; u = u->next) {
		if (u == c->user || c->identity.is_operator)
			put_user(j, cs, u);
	}
	json_end(j, ']');
	json_end(j, '}');
}

/* ---- the requests ---------------------------------------------------------------- */

static int server_show(struct json *j, const struct xd_client *c, uint32_t what)
{
	switch (what) {
	case XR_SHOW_STATUS:
		server_show_status(j, c);
		return 0;
	case XR_SHOW_COUNTERS:
		show_counters(j, xd_server_of(c));
		return 0;
	case XR_SHOW_LIMITS:
		show_limits(j, c);
		return 0;
	case XR_SHOW_METRICS:
		xd_metrics_write(j->f, xd_server_of(c), c->identity.is_operator);
		return 0;
	default:
		return -EINVAL;
	}
}

static int memfd_of(const char *s, size_t length)
{
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fd = memfd_create("xroce-show", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;
	ssize_t n;

	if (fd < 0)
		return -errno;
	/* pwrite() leaves the file offset at the start, for the reader. */
	n = pwrite(fd, s, length, 0);
	if (n == (ssize_t)length && !fcntl(fd, F_ADD_SEALS, seals))
		return fd;
	/* A short write leaves errno as it was: memory for the rest was missing. */
	err = n < 0 || n == (ssize_t)length ? -errno : -ENOMEM;
	close(fd);
	return err;
}

/*
 * The memory of replies that were not read is the daemon's: there is one at most for a client, if
 * it reads each before it asks again, as the protocol says.
 */
static bool has_unread_reply(const struct xd_client *c)
{
	uint32_t mem[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(mem);

	return !getsockopt(c->connection.fd, SOL_SOCKET, SO_MEMINFO, mem, &size) &&
	       mem[SK_MEMINFO_WMEM_ALLOC];
}

static int show_check(struct xd_client *c, const struct xd_request *req)
{
	const struct xr_show_req *q = req->body;
	size_t room = req->length > sizeof(*q) ? req->length - sizeof(*q) : 0;

	/* Only operators may see the objects of other clients. */
	if (!c->identity.is_operator && q->what != XR_SHOW_STATUS && q->what != XR_SHOW_COUNTERS &&
	    q->what != XR_SHOW_LIMITS && q->what != XR_SHOW_METRICS)
		return -EPERM;
	if (q->flags & ~XR_SHOW_PIECES)
		return xd_refuse(c, -EINVAL, "flags 0x%x of SHOW", q->flags);
	if (q->length > room)
		return xd_refuse(c, -EINVAL, "a selection of %u bytes in a body of %u", q->length,
				 req->length);
	if ((q->length || q->from) && !(q->flags & XR_SHOW_PIECES))
		return xd_refuse(c, -EINVAL, "a selection or a place without XR_SHOW_PIECES");
	if ((q->length || q->from) && !xr_list_of(q->what))
		return xd_refuse(c, -EINVAL, "what %u has no rows to select", q->what);
	if (has_unread_reply(c))
		return xd_refuse(c, -EBUSY, "the client has not read the last reply");
	return 0;
}

int xd_do_show(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_show_req *q = req->body;
	struct xr_show_rep *r = XD_REPLY(rep, xr_show_rep);
	struct json j = { 0 };
	char *out = NULL;
	size_t length = 0;
	uint64_t next = 0;
	int err = show_check(c, req), fd;

	if (err)
		return err;
	j.f = open_memstream(&out, &length);
	if (!j.f)
		return -ENOMEM;
	err = xr_list_of(q->what) ? xd_show_list(&j, c, q, &next) : server_show(&j, c, q->what);
	if (fclose(j.f) && !err)
		err = -ENOMEM;
	fd = err ? err : memfd_of(out, length);
	free(out);
	if (fd < 0)
		return fd;
	r->length = length;
	r->next = next;
	xd_reply_fd(rep, fd, false);
	return 0;
}
