/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's life: rounds, and what to do between them when there is nothing to do.
 *
 * Spinning is fast only as long as a core is free. With fewer cores than
 * spinners three things matter (docs/performance.md has the figures): who spins yields; who
 * is not run for a while although it only yielded competes with a program that spins on
 * memory and never yields, and must sleep instead, so that a wake-up preempts that program;
 * and a short slice keeps the tail of such wake-ups short.
 */
#include "worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/device.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/privileges.h"
#include "daemon/server/server.h"
#include "bells.h"
#include "fault.h"
#include "held.h"
#include "inbox.h"
#include "xdp.h"
#include "xsk.h"

#define SLICE_NS 100000u	/* the smallest there is; ignored before kernel 6.12 */
/* Not run for so long although it only yielded: something spins and does not yield */
#define STARVED_NS 1000000u
/* How long to sleep at once instead of spinning, doubled each time; short at first, as it may
 * have been the hypervisor */
#define SHY_MIN_NS 10000000ull
#define SHY_MAX_NS 2000000000ull
/* The spin that is left while shy: covers an answer that is just under way */
#define SHY_SPIN_NS 5000u
#define LOCK_SPINS 2000
#define RX_BATCHES 4		/* before the engine gets to send again */

struct xd_worker {
	pthread_mutex_t lock;	/* held during a round */
	uint64_t using_keys;	/* odd: keys that were looked up may be in use; atomic */
	uint32_t wanted;	/* futex: how many wait for the worker to let go */
	bool stop;
	struct xt_engine *engine;
	struct xd_xsk *xsk;
	struct xd_bell *bells;
	struct xd_device *dev;
	uint32_t index;

	int epoll, kick;	/* epoll: bells and kick */
	uint64_t deadline;	/* the engine's, or of a frame that is held back */
	uint64_t now;

	uint64_t spin_ns;	/* as configured */
	uint64_t last_work;
	uint64_t shy_until, shy_ns;
	uint64_t slice_ns;	/* as set, 0: the scheduler's own */

	struct xd_inbox *inbox;	/* what other workers received for us; NULL: there are none */
	uint32_t forwarded;	/* workers that got a frame from us in this round, by index */

	struct xd_fault fault;
	struct xd_held *held;
	struct xd_worker_stats stats;
	struct xt_frame frames[XD_XSK_BATCH];

	pthread_t thread;
	bool started;
};

/* ---- faults --------------------------------------------------------------------------- */

static void send_copy(struct xd_worker *w, const struct xt_frame *from)
{
	struct xt_frame to;
	uint32_t s = 0, s_off = 0;

	if (!xd_xsk_tx_get(w->xsk, from->len, &to))
		return;
	for (uint32_t i = 0; i < to.nseg; i++) {
		uint32_t done = 0;

		while (done < to.seg[i].len) {
			uint32_t n = from->seg[s].len - s_off;

			if (n > to.seg[i].len - done)
				n = to.seg[i].len - done;
			memcpy(to.seg[i].data + done, from->seg[s].data + s_off, n);
			done += n;
			s_off += n;
			if (s_off == from->seg[s].len) {
				s++;
				s_off = 0;
			}
		}
	}
	xd_xsk_tx_put(w->xsk, &to);
}

/* A frame meets its fate; true: it goes on as it is, now. */
static bool goes_on(struct xd_worker *w, uint32_t direction, struct xt_frame *f)
{
	struct xd_fate fate = xd_fault_next(&w->fault);

	if (fate.copies != 1 || fate.flips || fate.delay_ns[0])
		w->stats.faults++;
	for (uint32_t i = 1; i < fate.copies; i++)
		xd_held_add(w->held, direction, w->now + fate.delay_ns[i], f);
	if (fate.flips)
		xd_fault_damage(&fate, f);
	if (fate.copies && fate.delay_ns[0])
		xd_held_add(w->held, direction, w->now + fate.delay_ns[0], f);
	return fate.copies && !fate.delay_ns[0];
}

static unsigned int fault_rx_batch(struct xd_worker *w, unsigned int n)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++)
		if (goes_on(w, XR_FAULT_RX, &w->frames[i]))
			w->frames[kept++] = w->frames[i];
	return kept;
}

static void release_held(struct xd_worker *w)
{
	struct xt_frame f;

	while (xd_held_due(w->held, XR_FAULT_RX, w->now, &f))
		xt_engine_rx(w->engine, &f, 1, w->now);
	while (xd_held_due(w->held, XR_FAULT_TX, w->now, &f))
		send_copy(w, &f);
}

/* ---- the engine's environment --------------------------------------------------------- */

static bool op_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	return xd_xsk_tx_get(w->xsk, len, frame);
}

static void op_tx_put(void *ctx, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	if (!xd_fault_on(&w->fault, XR_FAULT_TX) || goes_on(w, XR_FAULT_TX, frame))
		xd_xsk_tx_put(w->xsk, frame);
	else
		xd_xsk_tx_cancel(w->xsk, frame);
}

static void op_cq_event(void *ctx, struct xt_cq *cq)
{
	struct xd_worker *w = ctx;

	xd_server_cq_event(w->dev, cq);
}

static void op_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xd_worker *w = ctx;

	xd_server_async_event(w->dev, qp, cq, type);
}

static void op_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct xd_worker *w = ctx;

	xd_server_srq_event(w->dev, srq, type);
}

static void op_qp_state(void *ctx, struct xt_qp *qp)
{
	struct xd_worker *w = ctx;

	xd_server_qp_state(w->dev, qp);
}

static struct xd_worker *worker_of(struct xd_device *dev, const struct xt_engine *e)
{
	for (unsigned int i = 0; i < dev->workers; i++)
		if (dev->worker[i]->engine == e)
			return dev->worker[i];
	return NULL;
}

/* Every lock is held: who drives an engine now is the control thread. */
static bool world_stopped;

/* Two workers may want each other's lock: neither waits longer than a moment. */
static bool op_engine_lock(void *ctx, struct xt_engine *other)
{
	struct xd_worker *w = worker_of(((struct xd_worker *)ctx)->dev, other);

	if (world_stopped)
		return true;
	for (int i = 0; i < LOCK_SPINS; i++) {
		if (!pthread_mutex_trylock(&w->lock))
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

static void op_engine_unlock(void *ctx, struct xt_engine *other)
{
	if (!world_stopped)
		pthread_mutex_unlock(&worker_of(((struct xd_worker *)ctx)->dev, other)->lock);
}

/* No lock of the other's round: it may be long, and the packet would be lost. */
static bool op_forward(void *ctx, struct xt_engine *other, const struct xt_frame *frame)
{
	struct xd_worker *w = ctx, *to = worker_of(w->dev, other);

	w->forwarded |= 1u << to->index;
	return xd_inbox_put(to->inbox, frame);
}

static void kick(struct xd_worker *w)
{
	uint64_t one = 1;

	/* full is as good as rung */
	(void)!write(w->kick, &one, sizeof(one));
}

static void op_engine_kick(void *ctx, struct xt_engine *other)
{
	kick(worker_of(((struct xd_worker *)ctx)->dev, other));
}

static void kick_forwarded(struct xd_worker *w)
{
	for (; w->forwarded; w->forwarded &= w->forwarded - 1)
		kick(w->dev->worker[__builtin_ctz(w->forwarded)]);
}

static void op_key_changed(void *ctx, const struct xt_key *key)
{
	struct xd_worker *w = ctx;

	xd_server_key_changed(w->dev, key);
}

static void turn_keys(struct xd_worker *w)
{
	__atomic_add_fetch(&w->using_keys, 1, __ATOMIC_SEQ_CST);
}

/*
 * Every other worker's round ends, or is not begun. Of two that wait for each other neither uses a
 * key, and both see that.
 */
static void op_settle(void *ctx)
{
	struct xd_worker *w = ctx;

	turn_keys(w);
	for (unsigned int i = 0; i < w->dev->workers; i++) {
		uint64_t *other = &w->dev->worker[i]->using_keys;
		uint64_t seen = __atomic_load_n(other, __ATOMIC_SEQ_CST);

		for (int n = 1; seen & 1 && __atomic_load_n(other, __ATOMIC_ACQUIRE) == seen; n++) {
			if (n % LOCK_SPINS)
				__builtin_ia32_pause();
			else
				sched_yield();
		}
	}
	turn_keys(w);
}

static const struct xt_ops worker_ops = {
	.tx_get = op_tx_get,
	.tx_put = op_tx_put,
	.cq_event = op_cq_event,
	.async_event = op_async_event,
	.srq_event = op_srq_event,
	.qp_state = op_qp_state,
	.forward = op_forward,
	.key_changed = op_key_changed,
	.settle = op_settle,
	.engine_lock = op_engine_lock,
	.engine_unlock = op_engine_unlock,
	.engine_kick = op_engine_kick,
};

/* ---- a round ------------------------------------------------------------------------------ */

static void ring(struct xt_qp *qp, void *arg)
{
	struct xd_worker *w = arg;

	xt_qp_doorbell(qp, w->now);
}

static unsigned int scan_bells(struct xd_worker *w)
{
	unsigned int n = 0;

	for (struct xd_bell *b = w->bells; b; b = b->next)
		n += xd_bell_scan(b, ring, w);
	return n;
}

static unsigned int receive(struct xd_worker *w)
{
	unsigned int total = 0, n, i;

	for (i = 0; i < RX_BATCHES; i++) {
		n = xd_xsk_recv(w->xsk, w->frames, XD_XSK_BATCH);
		if (!n)
			break;
		total += n;
		w->stats.rx_batches++;
		if (xd_fault_on(&w->fault, XR_FAULT_RX))
			n = fault_rx_batch(w, n);
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_xsk_recv_done(w->xsk);
		if (n < XD_XSK_BATCH)
			break;
	}
	return total;
}

static unsigned int take_forwarded(struct xd_worker *w)
{
	unsigned int n = w->inbox ? xd_inbox_take(w->inbox, w->frames) : 0;

	if (n) {
		xt_engine_rx(w->engine, w->frames, n, w->now);
		xd_inbox_release(w->inbox, n);
	}
	return n;
}

/* Returns whether there was anything to do. */
static bool round_of(struct xd_worker *w)
{
	bool due, worked;
	uint64_t held;

	pthread_mutex_lock(&w->lock);
	turn_keys(w);
	w->now = xd_now();
	due = w->deadline <= w->now;
	worked = scan_bells(w) > 0;
	worked |= receive(w) > 0;
	worked |= take_forwarded(w) > 0;
	release_held(w);
	w->deadline = xt_engine_run(w->engine, w->now);
	xd_xsk_tx_flush(w->xsk);
	kick_forwarded(w);
	held = xd_held_next(w->held);
	if (held < w->deadline)
		w->deadline = held;
	w->stats.rounds++;
	turn_keys(w);
	pthread_mutex_unlock(&w->lock);
	return worked || due || w->deadline <= w->now || xd_xsk_tx_pending(w->xsk);
}

/* ---- between rounds ------------------------------------------------------------------------- */

static long futex(uint32_t *word, int op, uint32_t val)
{
	return syscall(SYS_futex, word, op, val, NULL, NULL, 0);
}

/* Somebody wants the world to stop: stay out until that is over. */
static void let_go(struct xd_worker *w)
{
	uint32_t wanted;

	while ((wanted = __atomic_load_n(&w->wanted, __ATOMIC_ACQUIRE)))
		futex(&w->wanted, FUTEX_WAIT_PRIVATE, wanted);
}

/* false: something rang meanwhile. The lock keeps the list of bells still. */
static bool announce_sleep(struct xd_worker *w)
{
	bool quiet = true;

	pthread_mutex_lock(&w->lock);
	for (struct xd_bell *b = w->bells; b; b = b->next)
		quiet &= xd_bell_sleep(b);
	pthread_mutex_unlock(&w->lock);
	return quiet && !xd_xsk_pending(w->xsk);
}

static void announce_awake(struct xd_worker *w)
{
	pthread_mutex_lock(&w->lock);
	for (struct xd_bell *b = w->bells; b; b = b->next)
		xd_bell_wake(b);
	pthread_mutex_unlock(&w->lock);
}

/* Bells and kicks that woke us */
static void take_wakeups(struct xd_worker *w)
{
	struct epoll_event ev[8];
	uint64_t value;
	int n = epoll_wait(w->epoll, ev, 8, 0);

	for (int i = 0; i < n; i++)
		if (ev[i].data.fd == w->kick)
			(void)!read(w->kick, &value, sizeof(value));
}

/*
 * The AF_XDP socket is no member of the epoll set: who waits by epoll stays in the socket's wait
 * queue, and each arriving packet would call it, also while we are awake.
 */
static void sleep_until_something(struct xd_worker *w)
{
	struct pollfd fds[] = {
		{ .fd = xd_xsk_fd(w->xsk), .events = POLLIN },
		{ .fd = w->epoll, .events = POLLIN },
	};
	struct timespec ts, *timeout = NULL;
	uint64_t now = xd_now();

	if (w->deadline <= now)
		return;
	if (w->deadline != XT_NEVER) {
		uint64_t ns = w->deadline - now;

		ts = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
					.tv_nsec = (long)(ns % 1000000000) };
		timeout = &ts;
	}
	if (announce_sleep(w)) {
		w->stats.sleeps++;
		if (ppoll(fds, 2, timeout, NULL) > 0 && fds[1].revents)
			take_wakeups(w);
	}
	announce_awake(w);
	w->last_work = xd_now();
}

/*
 * A short slice lets a wake-up preempt whoever runs, and bounds how long we wait. Who yields must
 * not have one: a yield costs a slice of virtual time, and two that yield to each other
 * take turns only if it costs both the same. slice_ns 0: the scheduler's own.
 */
static void set_slice(struct xd_worker *w, uint64_t slice_ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
		uint32_t util_min, util_max;
	} attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = slice_ns };

	if (slice_ns == w->slice_ns)
		return;
	w->slice_ns = slice_ns;
	attr.nice = getpriority(PRIO_PROCESS, 0);	/* as it was: we may not lower it */
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		xd_log(XD_DEBUG, "worker %u: sched_setattr: %s", w->index, strerror(errno));
}

/* Somebody spins on memory and does not yield: sleep for a while, so that wake-ups preempt it. */
static void become_shy(struct xd_worker *w, uint64_t now)
{
	w->shy_ns = w->shy_ns && now < w->shy_until + w->shy_ns ? w->shy_ns * 2 : SHY_MIN_NS;
	if (w->shy_ns > SHY_MAX_NS)
		w->shy_ns = SHY_MAX_NS;
	w->shy_until = now + w->shy_ns;
	set_slice(w, SLICE_NS);
}

/* One step of spinning; false: it does not pay any more. */
static bool spin(struct xd_worker *w)
{
	uint64_t before = xd_now(), after;
	uint64_t limit = before < w->shy_until ? SHY_SPIN_NS : w->spin_ns;

	if (limit > w->spin_ns)
		limit = w->spin_ns;
	if (before - w->last_work >= limit)
		return false;
	if (before < w->shy_until) {
		__builtin_ia32_pause();
		return true;
	}
	set_slice(w, 0);
	sched_yield();
	after = xd_now();
	w->stats.idle_spin_ns += after - before;
	if (after - before > STARVED_NS)
		become_shy(w, after);
	return true;
}

static void *worker_main(void *arg)
{
	struct xd_worker *w = arg;
	uint64_t begun;
	int err;

	err = xd_privileges_drop(XD_ROLE_WORKER);
	if (err)
		xd_log(XD_WARN, "worker %u keeps its privileges: %s", w->index, strerror(-err));
	w->last_work = xd_now();
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		let_go(w);
		if (round_of(w)) {
			begun = w->now;
			w->last_work = xd_now();
			w->stats.busy_ns += w->last_work - begun;
		} else if (!spin(w)) {
			sleep_until_something(w);
		}
	}
	return NULL;
}

/* ---- stopping the world ------------------------------------------------------------------------ */

static unsigned int world_depth;	/* control thread only */
static bool world_changed;		/* since it stopped; the same */

void xd_world_stop(struct xd_device *dev)
{
	if (world_depth++)
		return;
	for (unsigned int i = 0; i < dev->workers; i++) {
		__atomic_store_n(&dev->worker[i]->wanted, 1, __ATOMIC_RELEASE);
		pthread_mutex_lock(&dev->worker[i]->lock);
	}
	world_stopped = true;
}

static void world_go(struct xd_device *dev)
{
	if (--world_depth)
		return;
	world_stopped = false;
	for (unsigned int i = dev->workers; i-- > 0;) {
		struct xd_worker *w = dev->worker[i];

		/* control work may have given the engine something to do, or a new deadline */
		if (world_changed)
			w->deadline = 0;
		__atomic_store_n(&w->wanted, 0, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&w->lock);
		futex(&w->wanted, FUTEX_WAKE_PRIVATE, 1);
		if (world_changed)
			kick(w);
	}
	world_changed = false;
}

void xd_world_go(struct xd_device *dev)
{
	world_changed = true;
	world_go(dev);
}

void xd_world_go_on(struct xd_device *dev)
{
	world_go(dev);
}

/* ---- bells ---------------------------------------------------------------------------------------- */

void xd_worker_add_bell(struct xd_worker *w, struct xd_bell *bell)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.fd = bell->eventfd };

	bell->next = w->bells;
	bell->pprev = &w->bells;
	if (w->bells)
		w->bells->pprev = &bell->next;
	w->bells = bell;
	/* edge-triggered: each ring is an edge, and nobody need read the count */
	epoll_ctl(w->epoll, EPOLL_CTL_ADD, bell->eventfd, &ev);
}

void xd_worker_del_bell(struct xd_worker *w, struct xd_bell *bell)
{
	if (!bell->pprev)
		return;
	*bell->pprev = bell->next;
	if (bell->next)
		bell->next->pprev = bell->pprev;
	bell->pprev = NULL;
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, bell->eventfd, NULL);
}

/* ---- start and stop --------------------------------------------------------------------------------- */

static int open_socket(struct xd_worker *w)
{
	struct xd_device *dev = w->dev;
	struct xd_xsk_config cfg = {
		.ifname = dev->ifname,
		.queue = w->index,
		.ring_size = dev->opt->ring_size,
		.multi_buffer = xd_xdp_multi_buffer(dev),
	};
	int err = -EOPNOTSUPP;

	if (dev->opt->attach == XD_ATTACH_AUTO || dev->opt->attach == XD_ATTACH_ZEROCOPY) {
		cfg.zerocopy = true;
		err = xd_xsk_open(&w->xsk, &cfg);
		if (err && dev->opt->attach == XD_ATTACH_ZEROCOPY)
			return err;
	}
	if (err) {
		xd_xdp_no_zerocopy(dev, err);
		cfg.zerocopy = false;
		err = xd_xsk_open(&w->xsk, &cfg);
	}
	return err ? err : xd_xdp_xsk_set(dev, w->index, xd_xsk_fd(w->xsk));
}

static int watch_kick(struct xd_worker *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = w->kick };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->kick, &ev) ? -errno : 0;
}

static void worker_free(struct xd_worker *w)
{
	if (!w)
		return;
	xt_engine_free(w->engine);
	xd_xsk_close(w->xsk);
	xd_held_free(w->held);
	xd_inbox_free(w->inbox);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->kick >= 0)
		close(w->kick);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* What is in flight towards us must fit the rings, a long packet in two frames. */
static int tune_engine(struct xd_worker *w)
{
	uint32_t room = w->dev->opt->ring_size / (xd_xdp_multi_buffer(w->dev) ? 2 : 1);
	struct xt_tuning t = XT_TUNING_DEFAULT;

	if (t.engine_window > room)
		t.engine_window = room;
	if (t.window > room)
		t.window = room;
	if (t.read_packets > t.window)
		t.read_packets = t.window;
	return xt_engine_tune(w->engine, &t);
}

static int worker_new(struct xd_device *dev, uint32_t index, struct xd_worker **out)
{
	struct xd_worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->dev = dev;
	w->index = index;
	w->spin_ns = dev->opt->spin_us * 1000ull;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->held = xd_held_new();
	w->engine = xt_engine_new(&worker_ops, w, &dev->shared);
	err = w->epoll < 0 || w->kick < 0 || !w->held || !w->engine ? -ENOMEM : 0;
	if (!err)
		err = xd_fault_init(&w->fault, &dev->opt->fault);
	if (!err)
		err = tune_engine(w);
	if (!err)
		err = open_socket(w);
	if (!err)
		err = watch_kick(w);
	if (err) {
		worker_free(w);
		return err;
	}
	*out = w;
	return 0;
}

int xd_workers_start(struct xd_device *dev)
{
	unsigned int n = dev->workers;
	int err;

	for (dev->workers = 0; dev->workers < n; dev->workers++) {
		err = worker_new(dev, dev->workers, &dev->worker[dev->workers]);
		if (err) {
			xd_log(XD_ERR, "AF_XDP socket for queue %u of %s: %s%s", dev->workers,
			       dev->ifname, strerror(-err),
			       err == -EBUSY ? " (another program has it)" : "");
			return err;
		}
	}
	for (unsigned int i = 0; n > 1 && i < n; i++) {
		dev->worker[i]->inbox = xd_inbox_new();
		if (!dev->worker[i]->inbox)
			return -ENOMEM;
	}
	for (unsigned int i = 0; i < n; i++) {
		err = pthread_create(&dev->worker[i]->thread, NULL, worker_main, dev->worker[i]);
		if (err)
			return -err;
		dev->worker[i]->started = true;
	}
	return 0;
}

void xd_workers_stop(struct xd_device *dev)
{
	for (unsigned int i = 0; i < dev->workers; i++) {
		struct xd_worker *w = dev->worker[i];

		if (!w->started)
			continue;
		__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
		kick(w);
		pthread_join(w->thread, NULL);
	}
	while (dev->workers)
		worker_free(dev->worker[--dev->workers]);
}

struct xt_engine *xd_worker_engine(struct xd_worker *w)
{
	return w->engine;
}

void xd_workers_set_fault(struct xd_device *dev, const struct xr_fault_config *config)
{
	for (unsigned int i = 0; i < dev->workers; i++)
		xd_fault_init(&dev->worker[i]->fault, config);
}

void xd_workers_refused(const struct xd_device *dev, struct xr_stat stat[XR_REASON_COUNT])
{
	struct xd_xsk_stats x;

	for (unsigned int i = 0; i < dev->workers; i++) {
		xd_xsk_stats(dev->worker[i]->xsk, &x);
		stat[XR_TOO_LONG].packets += x.rx_too_long;
		stat[XR_ICRC].packets +=
			xt_engine_counters(dev->worker[i]->engine)->rx_icrc_errors;
	}
}

void xd_worker_stats(const struct xd_worker *w, struct xd_worker_stats *stats)
{
	struct xd_xsk_stats x;

	*stats = w->stats;
	xd_xsk_stats(w->xsk, &x);
	stats->tx_kicks = x.tx_kicks;
	stats->tx_ring_full = x.tx_full;
	stats->rx_ring_full = x.rx_ring_full + x.rx_fill_empty;
}
