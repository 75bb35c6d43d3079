// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What operators see: JSON text in a memfd. docs/show.md has the names. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/datapath/xdp.h"
#include "daemon/memory/tiers.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/objects.h"
#include "daemon/options.h"

/* ---- JSON ------------------------------------------------------------------------ */

struct json {
	FILE *f;
	bool comma;		/* something stands before, at this level */
};

static void put_string(struct json *j, const char *s)
{
	putc('"', j->f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(j->f, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
			fprintf(j->f, "\\u%04x", (unsigned char)*s);
		else
			putc(*s, j->f);
	}
	putc('"', j->f);
}

/* Comma and name of what follows; name NULL: an element of a list. */
static void next(struct json *j, const char *name)
{
	if (j->comma)
		putc(',', j->f);
	j->comma = true;
	if (name) {
		put_string(j, name);
		putc(':', j->f);
	}
}

static void begin(struct json *j, const char *name, char bracket)
{
	next(j, name);
	putc(bracket, j->f);
	j->comma = false;
}

static void end(struct json *j, char bracket)
{
	putc(bracket, j->f);
	j->comma = true;
}

static void text(struct json *j, const char *name, const char *s)
{
	next(j, name);
	put_string(j, s);
}

static void number(struct json *j, const char *name, uint64_t n)
{
	next(j, name);
	fprintf(j->f, "%llu", (unsigned long long)n);
}

/* Addresses as people write them, and beyond the integers that JSON readers keep exact */
static void hex(struct json *j, const char *name, uint64_t n)
{
	char s[20];

	snprintf(s, sizeof(s), "0x%llx", (unsigned long long)n);
	text(j, name, s);
}

static void boolean(struct json *j, const char *name, bool b)
{
	next(j, name);
	fputs(b ? "true" : "false", j->f);
}

static void address(struct json *j, const char *name, const struct xr_addr *a)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	char s[INET6_ADDRSTRLEN];

	if (!memcmp(a->raw, v4, sizeof(v4)))
		inet_ntop(AF_INET, a->raw + 12, s, sizeof(s));
	else
		inet_ntop(AF_INET6, a->raw, s, sizeof(s));
	text(j, name, s);
}

/* ---- status ---------------------------------------------------------------------- */

static uint32_t open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3;	/* ., .. and the folder itself */
}

static void put_identity(struct json *j, const struct xd_device *dev)
{
	const uint8_t *g = (const uint8_t *)&dev->guid;
	const struct xd_link *link = xd_net_link(dev);
	const uint8_t *m = link->mac;
	char s[40];

	text(j, "device", dev->name);
	text(j, "version", XR_VERSION);
	number(j, "pid", (uint64_t)getpid());
	snprintf(s, sizeof(s), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4],
		 g[5], g[6], g[7]);
	text(j, "guid", s);
	text(j, "interface", dev->ifname);
	number(j, "ifindex", dev->ifindex);
	snprintf(s, sizeof(s), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	text(j, "mac", s);
	number(j, "mtu", link->mtu);
	text(j, "link", link->up ? "up" : "down");
	number(j, "path_mtu", xd_port_mtu(dev));
}

static void put_xdp(struct json *j, const struct xd_device *dev)
{
	char pins[400];

	snprintf(pins, sizeof(pins), "%s/xroce/%s", dev->opt->bpffs, dev->name);
	begin(j, "xdp", '{');
	text(j, "mode", xd_xdp_mode_name(dev));
	text(j, "why", xd_xdp_mode_why(dev));
	boolean(j, "multi_buffer", xd_xdp_multi_buffer(dev));
	text(j, "pins", pins);
	end(j, '}');
}

static void put_gids(struct json *j, const struct xd_device *dev)
{
	static struct xr_gid_entry entry[XR_GID_TABLE_LEN];
	uint32_t n = xd_net_gids(dev, entry, XR_GID_TABLE_LEN), i;

	begin(j, "gids", '[');
	for (i = 0; i < n; i++) {
		begin(j, NULL, '{');
		number(j, "index", entry[i].index);
		address(j, "gid", &entry[i].gid);
		end(j, '}');
	}
	end(j, ']');
}

static void put_workers(struct json *j, const struct xd_device *dev)
{
	struct xd_worker_stats s;
	uint32_t i;

	begin(j, "workers", '[');
	for (i = 0; i < dev->workers; i++) {
		xd_worker_stats(dev->worker[i], &s);
		begin(j, NULL, '{');
		number(j, "queue", i);
		number(j, "rounds", s.rounds);
		number(j, "sleeps", s.sleeps);
		number(j, "rx_batches", s.rx_batches);
		number(j, "tx_kicks", s.tx_kicks);
		number(j, "rx_ring_full", s.rx_ring_full);
		number(j, "tx_ring_full", s.tx_ring_full);
		number(j, "faults", s.faults);
		number(j, "busy_ns", s.busy_ns);
		number(j, "idle_spin_ns", s.idle_spin_ns);
		end(j, '}');
	}
	end(j, ']');
}

static const char *const kind_names[XD_KINDS] = {
	[XD_PD] = "pds", [XD_MR] = "mrs", [XD_MW] = "mws", [XD_CQ] = "cqs",
	[XD_SRQ] = "srqs", [XD_XRCD] = "xrcds", [XD_DM] = "dms",
	[XD_QP] = "qps", [XD_AH] = "ahs", [XD_CHANNEL] = "channels",
};

static void put_objects(struct json *j, const struct xd_server *s)
{
	struct xd_mem_totals totals;
	enum xd_kind kind;

	xd_mem_totals(&totals);
	begin(j, "objects", '{');
	number(j, "clients", s->client_count);
	for (kind = 0; kind < XD_KINDS; kind++)
		number(j, kind_names[kind], s->objects[kind]);
	number(j, "mapped_bytes", totals.mapped);
	number(j, "pinned_bytes", totals.pinned);
	number(j, "object_fds", __atomic_load_n(&s->fds, __ATOMIC_RELAXED));
	number(j, "open_fds", open_files());
	end(j, '}');
}

static void put_fault(struct json *j, const struct xr_fault_config *f)
{
	uint32_t both = XR_FAULT_RX | XR_FAULT_TX, dir = f->direction & both;

	begin(j, "fault", '{');
	number(j, "drop", f->drop);
	number(j, "duplicate", f->duplicate);
	number(j, "reorder", f->reorder);
	number(j, "corrupt", f->corrupt);
	number(j, "delay", f->delay);
	number(j, "delay_us", f->delay_us);
	number(j, "seed", f->seed);
	text(j, "direction", dir == XR_FAULT_RX ? "rx" : dir == XR_FAULT_TX ? "tx" : "both");
	end(j, '}');
}

static void show_status(struct json *j, struct xd_server *s)
{
	begin(j, NULL, '{');
	put_identity(j, s->dev);
	put_xdp(j, s->dev);
	put_gids(j, s->dev);
	put_workers(j, s->dev);
	put_objects(j, s);
	put_fault(j, &s->fault);
	end(j, '}');
}

/* ---- counters -------------------------------------------------------------------- */

static void put_reasons(struct json *j, struct xd_device *dev)
{
	static const char *const actions[] = { "pass", "redirect", "answer", "drop" };
	static const struct {
		const char *name, *text;
		enum xr_action action;
	} reasons[XR_REASON_COUNT] = {
#define X(name, act, text) { #name, text, XR_ACT_##act },
		XR_REASONS(X)
#undef X
	};
	struct xr_stat stat[XR_REASON_COUNT] = { { 0 } };
	uint32_t i;

	for (i = 0; i < XR_REASON_COUNT; i++)
		xd_xdp_stat(dev, i, &stat[i]);
	xd_workers_refused(dev, stat);
	begin(j, "xdp", '[');
	for (i = 0; i < XR_REASON_COUNT; i++) {
		begin(j, NULL, '{');
		text(j, "name", reasons[i].name);
		number(j, "packets", stat[i].packets);
		number(j, "bytes", stat[i].bytes);
		text(j, "action", actions[reasons[i].action]);
		text(j, "text", reasons[i].text);
		end(j, '}');
	}
	end(j, ']');
}

static void sum_counters(struct xd_device *dev, struct xt_counters *sum)
{
	const struct xt_counters *c;
	uint32_t i;

	xd_world_stop(dev);
	for (i = 0; i < dev->workers; i++) {
		c = xt_engine_counters(xd_worker_engine(dev->worker[i]));
#define X(field, text) sum->field += c->field;
		XT_COUNTERS(X)
#undef X
	}
	xd_world_go(dev);
}

static void put_counter(struct json *j, const char *name, uint64_t value, const char *what)
{
	begin(j, NULL, '{');
	text(j, "name", name);
	number(j, "value", value);
	text(j, "text", what);
	end(j, '}');
}

static void show_counters(struct json *j, struct xd_server *s)
{
	struct xt_counters sum = { 0 };

	sum_counters(s->dev, &sum);
	begin(j, NULL, '{');
	put_reasons(j, s->dev);
	begin(j, "transport", '[');
#define X(field, text) put_counter(j, #field, sum.field, text);
	XT_COUNTERS(X)
#undef X
	end(j, ']');
	end(j, '}');
}

/* ---- objects --------------------------------------------------------------------- */

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static const char *type_name(uint32_t type)
{
	switch (type) {
	case XR_QPT_RC:
		return "RC";
	case XR_QPT_UC:
		return "UC";
	case XR_QPT_UD:
		return "UD";
	case XR_QPT_XRC_SEND:
		return "XRC_SEND";
	case XR_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "?";
	}
}

static void put_qp(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_qp *qp = (struct xd_qp *)obj;
	struct xr_qp_attr attr;
	struct xt_path path;

	xd_world_stop(c->dev);
	xt_qp_query(qp->xt, &attr);
	path = *xt_qp_path(qp->xt);
	xd_world_go(c->dev);
	number(j, "qpn", qp->d.qpn);
	text(j, "type", type_name(qp->d.type));
	text(j, "state", state_name(attr.qp_state));
	number(j, "client", c->id);
	number(j, "worker", qp->d.worker);
	address(j, "peer", &path.dgid);
	number(j, "dest_qpn", attr.dest_qp_num);
	number(j, "path_mtu", attr.path_mtu ? 128u << attr.path_mtu : 0);
	number(j, "send_cq", qp->d.send_cq);
	number(j, "recv_cq", qp->d.recv_cq);
	number(j, "srq", qp->d.srq);
	boolean(j, "local", path.local);
}

static void put_access(struct json *j, uint32_t access)
{
	char s[40] = "";

	if (access & XR_ACCESS_LOCAL_WRITE)
		strcat(s, ",lw");
	if (access & XR_ACCESS_REMOTE_WRITE)
		strcat(s, ",rw");
	if (access & XR_ACCESS_REMOTE_READ)
		strcat(s, ",rr");
	if (access & XR_ACCESS_REMOTE_ATOMIC)
		strcat(s, ",ra");
	if (access & XR_ACCESS_MW_BIND)
		strcat(s, ",mw");
	if (access & XR_ACCESS_ON_DEMAND)
		strcat(s, ",od");
	text(j, "access", *s ? s + 1 : s);
}

static void put_tiers(struct json *j, uint32_t tiers)
{
	char s[40] = "";

	if (tiers & 1u << XR_SEG_MAPPING)
		strcat(s, ",shared");
	if (tiers & 1u << XR_SEG_FD)
		strcat(s, ",adopted");
	if (tiers & 1u << XR_SEG_PRIVATE)
		strcat(s, ",private");
	if (tiers & 1u << XR_SEG_DM)
		strcat(s, ",device");
	if (tiers & 1u << XR_SEG_NULL)
		strcat(s, ",null");
	text(j, "tier", *s ? s + 1 : s);
}

static void put_mr(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	static const char *const states[] = { "free", "valid", "invalid" };
	struct xd_mr *mr = (struct xd_mr *)obj;

	number(j, "lkey", xt_key_value(mr->key));
	number(j, "client", c->id);
	number(j, "pd", mr->pd->d.number);
	hex(j, "addr", mr->d.addr);
	number(j, "length", mr->d.length);
	put_access(j, mr->d.access);
	text(j, "state", mr->mem->xt.broken ? "broken" : states[mr->key->entry.state]);
	put_tiers(j, mr->mem->tiers);
	boolean(j, "pinned", mr->mem->pinned);
	hex(j, "iova", mr->d.iova);
}

static void put_cq(struct json *j, struct xd_client *c, struct xd_object *obj)
{
	struct xd_cq *cq = (struct xd_cq *)obj;
	const struct xr_queue *queue = cq->ring.ptr;
	uint32_t used = __atomic_load_n(&cq->xt.producer, __ATOMIC_RELAXED) -
			__atomic_load_n(&queue->consumer, __ATOMIC_RELAXED);

	number(j, "cq", cq->obj.handle);
	number(j, "client", c->id);
	number(j, "depth", cq->d.depth);
	number(j, "used", used <= cq->d.depth ? used : cq->d.depth);
	boolean(j, "armed", __atomic_load_n(&queue->word, __ATOMIC_RELAXED));
	boolean(j, "overrun", cq->xt.overrun);
}

static void show_objects(struct json *j, struct xd_server *s, enum xd_kind kind,
			 void (*put)(struct json *j, struct xd_client *c, struct xd_object *obj))
{
	struct xd_client *c;
	uint32_t h;
	void *obj;

	begin(j, NULL, '[');
	for (c = s->clients; c; c = c->next) {
		for (h = 0; (obj = xd_table_next(&c->table[kind], &h));) {
			begin(j, NULL, '{');
			put(j, c, obj);
			end(j, '}');
		}
	}
	end(j, ']');
}

static void show_clients(struct json *j, struct xd_server *s)
{
	struct xd_client *c;
	enum xd_kind kind;

	begin(j, NULL, '[');
	for (c = s->clients; c; c = c->next) {
		begin(j, NULL, '{');
		number(j, "client", c->id);
		number(j, "pid", (uint64_t)c->pid);
		number(j, "uid", c->uid);
		text(j, "comm", c->comm);
		boolean(j, "observer", c->observer);
		for (kind = 0; kind < XD_KINDS; kind++)
			number(j, kind_names[kind], c->table[kind].used);
		number(j, "user_bytes", c->user->bytes);
		boolean(j, "ending", c->ending);
		end(j, '}');
	}
	end(j, ']');
}

/* ---- the requests ---------------------------------------------------------------- */

static int show(struct json *j, struct xd_server *s, uint32_t what)
{
	switch (what) {
	case XR_SHOW_STATUS:
		show_status(j, s);
		return 0;
	case XR_SHOW_COUNTERS:
		show_counters(j, s);
		return 0;
	case XR_SHOW_QPS:
		show_objects(j, s, XD_QP, put_qp);
		return 0;
	case XR_SHOW_MRS:
		show_objects(j, s, XD_MR, put_mr);
		return 0;
	case XR_SHOW_CQS:
		show_objects(j, s, XD_CQ, put_cq);
		return 0;
	case XR_SHOW_CLIENTS:
		show_clients(j, s);
		return 0;
	default:
		return -EINVAL;
	}
}

static int memfd_of(const char *s, size_t length)
{
	int fd = memfd_create("xroce-show", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	/* the reader's offset stays at the start */
	if (pwrite(fd, s, length, 0) == (ssize_t)length &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	err = errno ? -errno : -ENOSPC;
	close(fd);
	return err;
}

int xd_do_show(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_show_req *q = req->body;
	struct json j = { 0 };
	char *out = NULL;
	size_t length = 0;
	int err, fd;

	/* what others do is nothing for everybody */
	if (!c->operator && q->what != XR_SHOW_STATUS && q->what != XR_SHOW_COUNTERS)
		return -EPERM;
	j.f = open_memstream(&out, &length);
	if (!j.f)
		return -ENOMEM;
	err = show(&j, c->server, q->what);
	if (fclose(j.f) && !err)
		err = -ENOMEM;
	fd = err ? err : memfd_of(out, length);
	free(out);
	if (fd < 0)
		return fd;
	XD_REPLY(rep, xr_show_rep)->length = length;
	xd_reply_fd(rep, fd, false);
	return 0;
}

static bool fault_sane(const struct xr_fault_config *f)
{
	return f->drop <= 1000 && f->duplicate <= 1000 && f->reorder <= 1000 &&
	       f->corrupt <= 1000 && f->delay <= 1000 && f->delay_us <= 10000000 &&
	       !(f->direction & ~(uint32_t)(XR_FAULT_RX | XR_FAULT_TX));
}

int xd_do_set_fault(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_fault_config *f = req->body;

	if (!fault_sane(f))
		return -EINVAL;
	c->server->fault = *f;
	xd_world_stop(c->dev);
	xd_workers_set_fault(c->dev, f);
	xd_world_go(c->dev);
	return 0;
}
