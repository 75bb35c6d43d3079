// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_device.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "daemon/io/io.h"
#include "daemon/io/tables.h"
#include "daemon/base/loop.h"
#include "daemon/base/privileges.h"
#include "daemon/objects/engine_events.h"
#include "daemon/netdev/net.h"
#include "daemon/helper/execute.h"
#include "daemon/helper/helper.h"
#include "daemon/server/server.h"
#include "input.h"

struct fake_device fake;

/* ---- helper -------------------------------------------------------------------------- */

int fake_ticket(int connection)
{
	return dup(connection);
}

static int execute(int ticket, const struct xd_helper_request *r)
{
	struct xd_helper_peer p;
	int ret;

	if (fake.peer)
		return xd_helper_execute(fake.peer, r);
	xd_helper_peer_open(&p, ticket);
	ret = xd_helper_execute(&p, r);
	xd_helper_peer_close(&p);
	return ret;
}

int xd_helper_open_mapped(int ticket, const struct xd_mapped *m, bool write)
{
	return execute(ticket, &(struct xd_helper_request){
				       .op = XD_HELPER_OPEN_MAPPED,
				       .start = m->start,
				       .end = m->end,
				       .dev = m->dev,
				       .inode = m->inode,
				       .write = write,
			       });
}

/* Restricting an io_uring takes the real one. */
int xd_helper_ring(int ticket, uint32_t ring, uint32_t slot, const int *fds, uint32_t n,
		   enum xd_ring_step *step)
{
	(void)ticket;
	(void)ring;
	(void)slot;
	(void)fds;
	(void)n;
	*step = XD_RING_PREPARE;
	return -EOPNOTSUPP;
}

int xd_helper_fd(const struct xd_helper *h)
{
	return -1;
}

int xd_helper_accept(struct xd_helper *h, int *connection, int *ticket)
{
	return -EAGAIN;
}

/* ---- netdev -------------------------------------------------------------------------- */

static const struct xd_link the_link = {
	.mac = { 2, 0, 0, 0, 0, 1 },
	.mtu = 9000,
	.up = true,
	.speed_mbps = 10000,
};

const struct xd_link *xd_net_link(const struct xd_net *net)
{
	return &the_link;
}

bool xd_net_gid(const struct xd_net *net, uint32_t index, struct xr_addr *gid)
{
	if (index >= FAKE_GIDS || (index && index == fake.lost_gid))
		return false;
	*gid = (struct xr_addr){ .raw = { 0xfd, [15] = (uint8_t)(index + 1) } };
	return true;
}

int xd_net_gid_index(const struct xd_net *net, const struct xr_addr *gid)
{
	struct xr_addr mine;

	for (uint32_t i = 0; i < FAKE_GIDS; i++)
		if (xd_net_gid(net, i, &mine) && !memcmp(&mine, gid, sizeof(mine)))
			return (int)i;
	return -ENOENT;
}

void xd_net_gid_release(struct xd_net *net, struct xd_gid_hold *hold)
{
	if (hold->next)
		fake.gid_holds[hold->next - 1]--;
	hold->next = 0;
}

void xd_net_gid_hold(struct xd_net *net, struct xd_gid_hold *hold, uint32_t index)
{
	xd_net_gid_release(net, hold);
	MUST(index < FAKE_GIDS);
	fake.gid_holds[index]++;
	hold->next = index + 1;
}

uint32_t xd_net_gids(const struct xd_net *net, struct xr_gid_entry *entry, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max && n < FAKE_GIDS; n++) {
		entry[n] = (struct xr_gid_entry){ .index = n, .ifindex = 1 };
		xd_net_gid(net, n, &entry[n].gid);
	}
	return n;
}

/* Of all addresses but those of the device, only fd00::/16 has a route through it. */
int xd_net_source(struct xd_net *net, const struct xr_addr *dst, struct xr_addr *src)
{
	if (xd_net_gid_index(net, dst) >= 0) {
		*src = *dst;
		return 0;
	}
	xd_net_gid(net, 0, src);
	return dst->raw[0] == 0xfd && !fake.no_route ? 0 : -ENODEV;
}

/* Another interface has fd00::9. */
bool xd_net_is_local(struct xd_net *net, const struct xr_addr *addr)
{
	return addr->raw[15] == 9;
}

int xd_net_join(const struct xd_net *net, const struct xr_addr *group)
{
	return fake.no_groups ? -ENOBUFS : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

struct xd_resolve {
	struct xt_path path;
	xd_resolve_fn done;
	void *arg;
	struct xd_resolve *next, **pprev;
};
static struct xd_resolve *resolving;

static int find_path(struct xd_net *net, const struct xr_ah_attr *attr, struct xt_path *path)
{
	*path = (struct xt_path){
		.ip_version = 6,
		.dgid = attr->dgid,
		.hop_limit = 64,
		.loopback = xd_net_gid_index(net, &attr->dgid) >= 0,
	};
	if (!xd_net_gid(net, attr->sgid_index, &path->sgid))
		return -EINVAL;
	return fake.no_route ? -ENETUNREACH : 0;
}

struct xd_resolve *xd_net_resolve(struct xd_net *net, const struct xr_ah_attr *attr,
				  xd_resolve_fn done, void *arg)
{
	struct xd_resolve *r;
	struct xt_path path;
	int err = find_path(net, attr, &path);

	if (err || !fake.slow) {
		done(arg, err, err ? NULL : &path);
		return NULL;
	}
	r = malloc(sizeof(*r));
	MUST(r);
	*r = (struct xd_resolve){ path, done, arg, resolving, &resolving };
	if (resolving)
		resolving->pprev = &r->next;
	resolving = r;
	return r;
}

void xd_net_resolve_cancel(struct xd_resolve *r)
{
	if (!r)
		return;
	*r->pprev = r->next;
	if (r->next)
		r->next->pprev = r->pprev;
	free(r);
}

void fake_resolve_all(void)
{
	while (resolving) {
		struct xd_resolve r = *resolving;

		xd_net_resolve_cancel(resolving);
		r.done(r.arg, fake.no_route ? -EHOSTUNREACH : 0, fake.no_route ? NULL : &r.path);
	}
}

/* ---- XDP ------------------------------------------------------------------------------- */

#define MAX_QPS 32768 /* also of SRQs */
#define MAX_KEYS 65536
static bool in_keys[XR_KEY_INDEX(UINT32_MAX) + 1], in_qps[XR_QPN_MASK + 1];

static int map_set(bool *map, unsigned *count, uint32_t at)
{
	fake.map_updates++;
	if (fake.maps_full)
		return -E2BIG;
	*count += !map[at];
	map[at] = true;
	return 0;
}

static int map_del(bool *map, unsigned *count, uint32_t at)
{
	fake.map_updates++;
	if (!map[at])
		return -ENOENT;
	map[at] = false;
	--*count;
	return 0;
}

static int set_qp(struct xd_tables *t, uint32_t qpn, const struct xr_qp_entry *entry)
{
	MUST(qpn >= XR_GSI_QPN && qpn < XR_QPN_MASK);
	return map_set(in_qps, &fake.map_qps, qpn);
}

static int del_qp(struct xd_tables *t, uint32_t qpn)
{
	return map_del(in_qps, &fake.map_qps, qpn);
}

/* Clients cause only groups to be added, never the device's own addresses. */
static int set_addr(struct xd_tables *t, const struct xr_addr *addr, uint32_t gid_index)
{
	MUST(gid_index == XR_ADDR_GROUP && xt_is_group(addr));
	fake.map_updates++;
	if (fake.maps_full)
		return -E2BIG;
	fake.map_groups++;
	return 0;
}

static int del_addr(struct xd_tables *t, const struct xr_addr *addr)
{
	fake.map_updates++;
	MUST(fake.map_groups--);
	return 0;
}

static int set_key(struct xd_tables *t, uint32_t index, const struct xr_key_entry *entry)
{
	/* The key of a window is added before it becomes valid. */
	MUST(index && index < sizeof(in_keys) && entry->state <= XR_KEY_INVALID);
	return map_set(in_keys, &fake.map_keys, index);
}

static int del_key(struct xd_tables *t, uint32_t index)
{
	return map_del(in_keys, &fake.map_keys, index);
}

static int read_stat(struct xd_tables *t, enum xr_reason reason, struct xr_stat *stat)
{
	*stat = (struct xr_stat){ .packets = reason };
	return 0;
}

static void report_refused(struct xd_tables *t, bool on)
{
	fake.refused = on;
}

static uint64_t take_refused(struct xd_tables *t, uint32_t most, xd_refused_fn fn, void *arg)
{
	const struct xr_refused r = { .length = 100, .captured = 100, .reason = XR_NO_QP };

	if (fake.refused)
		fn(arg, &r);
	return 0;
}

static const struct xd_tables_ops tables_ops = {
	.qp_set = set_qp,
	.qp_del = del_qp,
	.key_set = set_key,
	.key_del = del_key,
	.addr_set = set_addr,
	.addr_del = del_addr,
	.stat = read_stat,
	.report_refused = report_refused,
	.refused = take_refused,
};
static struct xr_psn_entry psns[MAX_QPS];
static struct xd_tables the_tables = { .ops = &tables_ops, .psns = psns };

/* ---- the way of packets ------------------------------------------------------------------ */

static bool is_attached(const struct xd_io *io)
{
	return true;
}

static uint32_t max_mtu(const struct xd_io *io)
{
	return 4096;
}

static const char *mode(const struct xd_io *io)
{
	return "none";
}

static void show(const struct xd_io *io, struct json *j)
{
}

/* ---- slots: nothing is sent or received by them ------------------------------------------- */

#define SLOTS 2

static struct slot {
	bool lent;
	int fd;
	uint32_t flags;
	uint32_t published; /* entries in the tables: bits that are set, by kind and number */
	uint64_t table[XR_PUBLISH_KEY + 1][(1 << 24) / 64];
} the_slots[SLOTS];

static void slots(const struct xd_io *io, struct xd_slots_state *state)
{
	*state = (struct xd_slots_state){ .total = SLOTS, .checked = true };
	for (uint32_t i = 0; i < SLOTS; i++)
		state->lent += the_slots[i].lent;
}

static int lend(struct xd_io *io, bool ring, struct xd_loan *loan)
{
	uint32_t slot = 0;

	while (slot < SLOTS && the_slots[slot].lent)
		slot++;
	if (ring || slot == SLOTS)
		return -EBUSY;
	the_slots[slot].lent = true;
	the_slots[slot].fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	*loan = (struct xd_loan){
		.slot = slot,
		.qpn_modulus = 2 * SLOTS,
		.qpn_rest = 2 * slot + 1,
		.fd = the_slots[slot].fd,
		.epoll = -1,
	};
	return 0;
}

static int publish(struct xd_io *io, uint32_t slot, enum xr_publish_kind kind, uint32_t number,
		   const void *entry)
{
	uint64_t *word = &the_slots[slot].table[kind][number / 64], bit = 1ull << number % 64;

	MUST(slot < SLOTS && the_slots[slot].lent && number && number <= 0xffffff);
	MUST(kind == XR_PUBLISH_KEY ||
	     (number & 1 && number != 1 && number != 0xffffff && (number >> 1) % SLOTS == slot));
	if (!(*word & bit) == !entry)
		return 0;
	*word ^= bit;
	the_slots[slot].published += entry ? 1 : -1u;
	return 0;
}

static int publish_more(struct xd_io *io, uint32_t slot, uint32_t flags)
{
	MUST(slot < SLOTS && the_slots[slot].lent &&
	     !(flags & ~(uint32_t)(XR_SLOT_MORE_QPS | XR_SLOT_MORE_KEYS)));
	the_slots[slot].flags = flags;
	return 0;
}

static void end_loan(struct xd_io *io, uint32_t slot)
{
	MUST(slot < SLOTS && the_slots[slot].lent);
}

/* Nothing is left of what the borrower has published. */
static void clean_slot(struct xd_io *io, uint32_t slot)
{
	MUST(slot < SLOTS && the_slots[slot].lent && !the_slots[slot].flags &&
	     !the_slots[slot].published);
	close(the_slots[slot].fd);
	the_slots[slot].lent = false;
}

static const struct xd_io_ops io_ops = {
	.name = "none",
	.slots = slots,
	.lend = lend,
	.publish = publish,
	.publish_more = publish_more,
	.end_loan = end_loan,
	.clean_slot = clean_slot,
	.is_attached = is_attached,
	.max_mtu = max_mtu,
	.mode = mode,
	.show = show,
};
static struct xd_io the_io = { .ops = &io_ops, .tables = &the_tables };

/* ---- workers ----------------------------------------------------------------------------- */

struct xd_workers {
	struct xt_engine *engine;
	struct xd_faults *faults;
};
static struct xd_workers the_worker;

static __thread int paused_here;

void xd_worker_pause(struct xd_workers *ws, uint32_t index)
{
	MUST(index == 0);
	fake.paused++;
	paused_here++;
}

void xd_worker_resume(struct xd_workers *ws, uint32_t index)
{
	MUST(fake.paused-- > 0);
	paused_here--;
}

void xd_worker_resume_no_wake(struct xd_workers *ws, uint32_t index)
{
	xd_worker_resume(ws, index);
}

void xd_worker_resume_if_due(struct xd_workers *ws, uint32_t index)
{
	xd_worker_resume(ws, index);
}

uint64_t xd_grace_mark(struct xd_workers *ws)
{
	return 0;
}

static bool in_round(void)
{
	return __atomic_load_n(&fake.in_round, __ATOMIC_ACQUIRE);
}

bool xd_grace_over(struct xd_workers *ws, uint64_t mark)
{
	if (!fake.busy)
		return !in_round();
	fake.busy--;
	return false;
}

void xd_grace_wait(struct xd_workers *ws, uint64_t mark)
{
	MUST(!paused_here); /* it would wait for its own round */
	while (in_round())
		usleep(100);
}

void xd_grace_synchronize(struct xd_workers *ws)
{
	xd_grace_wait(ws, xd_grace_mark(ws));
}

void xd_worker_flush(struct xd_workers *ws, uint32_t index)
{
	MUST(fake.paused);
}

const struct xd_pauses *xd_workers_pauses(const struct xd_workers *ws)
{
	static const struct xd_pauses none;

	return &none;
}

unsigned int xd_workers_count(const struct xd_workers *ws)
{
	return 1;
}

struct xt_engine *xd_worker_engine(struct xd_workers *ws, uint32_t index)
{
	return ws->engine;
}

int xd_worker_watch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *db)
{
	MUST(fake.paused);
	if (fake.no_doorbells)
		return -ENOSPC;
	fake.doorbells++;
	db->watched = true;
	return 0;
}

void xd_worker_unwatch_doorbell(struct xd_workers *ws, uint32_t index, struct xd_doorbell *db)
{
	MUST(fake.paused);
	if (!db->watched)
		return;
	fake.doorbells--;
	db->watched = false;
}

void xd_workers_programs_changed(struct xd_workers *ws)
{
}

struct xd_faults *xd_workers_faults(struct xd_workers *ws)
{
	return ws->faults;
}

void xd_workers_capture(struct xd_workers *ws, struct xd_capture *c)
{
	fake.captures++;
	fake.capture = c;
}

void xd_workers_end_capture(struct xd_workers *ws, struct xd_capture *c)
{
	fake.captures--;
	fake.capture = NULL;
}

void xd_workers_sum(struct xd_workers *ws, struct xt_counters *sum,
		    struct xr_stat stat[XR_REASON_COUNT])
{
	xt_counters_add(sum, xt_engine_counters(ws->engine));
}

uint32_t xd_worker_of(const struct xt_engine *e)
{
	return 0;
}

void xd_worker_stats(const struct xd_workers *ws, uint32_t index, struct xd_worker_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
}

static bool get_frame(void *ctx, uint32_t len, struct xt_frame *frame)
{
	static uint8_t data[XT_MAX_FRAME];

	frame->seg[0] = (struct xt_seg){ data, len };
	frame->nseg = 1;
	return fake.sends;
}

static void put_frame(void *ctx, struct xt_frame *frame)
{
	fake.frames++;
}

static void on_cq_event(void *ctx, struct xt_cq *cq)
{
	xd_engine_events.cq(cq);
}

static void on_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	xd_engine_events.async(qp, cq, type);
}

static void on_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	xd_engine_events.srq(srq, type);
}

static void on_qp_state(void *ctx, struct xt_qp *qp)
{
	struct xr_qp_entry entry;

	xt_qp_entry(qp, &entry);
	set_qp(&the_tables, xt_qp_info(qp)->qpn, &entry);
}

static void on_key_changed(void *ctx, const struct xt_key *key)
{
	set_key(&the_tables, key->index, &key->entry);
}

static const struct xt_ops ops = {
	.tx_get = get_frame,
	.tx_put = put_frame,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
	.srq_event = on_srq_event,
	.qp_state = on_qp_state,
	.key_changed = on_key_changed,
};

/* ---- the daemon's start and stop ------------------------------------------------------ */

/* The fuzzer keeps its capabilities. */
/* The fuzzer keeps its capabilities. */
int xd_privileges_drop(enum xd_role role)
{
	return 0;
}

void fake_device_start(void)
{
	char *argv[] = { "xroced", "--interface", "none", "--group", "", NULL };
	struct xd_device *dev = &fake.dev;

	MUST(!xd_options_parse(&fake.opt, 5, argv));
	fake.opt.max_qp = fake.opt.max_mr = 1000;
	fake.opt.client_max_qp = fake.opt.client_max_mr = 20;
	fake.opt.client_max_dm = 1 << 20;
	fake.opt.client_max_load = 10000; /* tests do not wait for processor time */
	fake.opt.client_max_cq = fake.opt.client_max_pd = fake.opt.client_max_ah = 20;
	fake.opt.client_max_srq = 20;
	fake.opt.user_max_pinned = 64 << 20;
	fake.opt.user_max_memory = 64 << 20;
	dev->opt = &fake.opt;
	dev->loop = xd_loop_new();
	dev->shared.keys = xt_keys_new(MAX_KEYS, 1);
	dev->shared.qps = xt_numbers_new(MAX_QPS, 1);
	dev->shared.srqs = xt_numbers_new(MAX_QPS, 1);
	dev->shared.groups = xt_groups_new();
	dev->workers = &the_worker;
	dev->io = &the_io;
	dev->tables = &the_tables;
	the_worker.faults = xd_faults_new();
	the_worker.engine = xt_engine_new(&ops, dev, &dev->shared);
	MUST(dev->loop && dev->shared.keys && dev->shared.qps && the_worker.engine);
	MUST(the_worker.faults);
}

void fake_server_stop(void)
{
	xd_server_stop(fake.server);
	fake.server = NULL;
}
