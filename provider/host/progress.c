// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The progress thread. While threads of the program poll, it looks at each tick whether they still
 * do, and sends ACKs that they have left. Otherwise it receives packets itself: requests of peers
 * are served while the program computes or sleeps, and timers expire.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/slice.h"
#include "internal.h"

/*
 * Ticks come in an eighth of the time that the program has polled so far. So much may a peer lose
 * if the program polls no more, and its packets wait for the next tick. A tick takes 10 to 60 us
 * from a program that has this thread on its processor. Ticks come sooner if the program has not
 * sent what it had posted before one of the last ones, or waits for packets now and then.
 */
#define FIRST_TICK_NS 50000u
#define LAST_TICK_NS 3200000u
#define SOON_TICK_NS 800000u
#define SOON_TICKS 8
#define NEXT_TICK(polled_ns) ((polled_ns) / 8)
/* What a program has left for so long, it does not send in a moment. */
#define LEFT_NS 50000u
/* Looks without the program, until it is one that no longer polls */
#define UNKNOWN_LOOKS 3
/* Between looks at a program that waits for a processor: what is due is done for it meanwhile. */
#define WAITS_TICK_NS 200000u
/* About the price of a wake-up. A thread whose last waits were shorter looks again for so long. */
#define SPIN_NS 30000u
/*
 * A thread of the program may take a packet, and leave its ACK, between the last round and the
 * sleep of this thread, so it looks once more after this time.
 */
#define LINGER_NS 1000000u
/* A program that has not posted or polled for so long is passive. */
#define PASSIVE_NS 1000000u
/*
 * Whether the program polls cannot be told while both receive in turns, so now and then this thread
 * leaves packets to it. A program that has taken them in time so often polls; if it has not, the
 * next rounds are done without delay.
 */
#define LEAVE_NS 30000u
#define LEAVE_RECENT_NS 100000u /* a poll so long ago is a reason to try */
#define TAKEN 4
#define NOT_LEFT 16
#define POLLED_NS 400000u /* A program that polled on for less may not be one that polls. */
/* Before the next attempt, if another thread has the engine */
#define BUSY_NS 20000u
#define STACK (128u << 10)

/*
 * Returns true if the program takes events now: when there are no more, it receives. No timer may
 * be due.
 */
static bool takes_events(const struct xp_host *h, uint64_t now)
{
	return xp_reader_takes(&h->reader, now, XP_WATCH_NS) &&
	       now < __atomic_load_n(&h->next, __ATOMIC_RELAXED);
}

/* Returns true if the program has left its work for some time. */
static bool is_idle(const struct xp_host *h)
{
	uint64_t now = xp_host_clock();

	return now > __atomic_load_n(&h->active, __ATOMIC_RELAXED) + LEFT_NS &&
	       !xp_reader_takes(&h->reader, now, LEFT_NS);
}

static enum xp_polls progress_look(const struct xp_host *h, struct xp_cover_look *l, uint64_t now)
{
	if (takes_events(h, now))
		return XP_POLLS;
	return xp_cover_look(&h->cover, l, __atomic_load_n(&h->entered, __ATOMIC_RELAXED),
			     __atomic_load_n(&h->polled, __ATOMIC_RELAXED), now);
}

static bool stopped(const struct xp_host *h)
{
	return __atomic_load_n(&h->stop, __ATOMIC_ACQUIRE);
}

/* Returns true if there are packets. watch: they end the sleep */
static bool sleep_until(struct xp_host *h, bool progress_watch, uint64_t until)
{
	struct pollfd p[] = {
		{ .fd = h->wake_fd, .events = POLLIN },
		{ .fd = h->env.control }, /* POLLHUP */
		{ .fd = h->socket->fd, .events = POLLIN },
	};
	uint64_t now = xp_host_clock(), ns = until > now ? until - now : 0, value;
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000) };

	/* An earlier sleep may have read the wake-up. */
	if (stopped(h) ||
	    ppoll(p, progress_watch ? 3 : 2, until == XT_NEVER ? NULL : &ts, NULL) <= 0)
		return false;
	if (p[0].revents)
		(void)!read(h->wake_fd, &value, sizeof(value));
	if (p[1].revents) {
		h->env.control = -1;
		xp_daemon_ended(h);
	}
	return p[2].revents;
}

static void set_progress(struct xp_host *h, enum xp_progress what)
{
	__atomic_store_n(&h->progress, what, __ATOMIC_SEQ_CST);
}

/* *soon: ticks that are to come soon */
static uint64_t next_tick(struct xp_host *h, uint64_t now, uint64_t polled_ns, unsigned int *soon)
{
	uint64_t watched = __atomic_load_n(&h->watched, __ATOMIC_RELAXED);
	uint64_t last = LAST_TICK_NS, ns = NEXT_TICK(polled_ns);

	if (*soon || now < watched + XP_WATCH_NS)
		last = SOON_TICK_NS;
	*soon -= *soon > 0;
	return ns < FIRST_TICK_NS ? FIRST_TICK_NS : ns > last ? last : ns;
}

/*
 * Until the program polls no more. A program that has not run since the last look may wait for a
 * processor; what is due is done for it, and it is looked at again soon. Returns true if it has
 * polled on for some time.
 */
static bool progress_tick(struct xp_host *h, struct xp_cover_look *l)
{
	uint64_t began = xp_host_clock(), now = began, wait = FIRST_TICK_NS;
	unsigned int unknown = 0, soon = SOON_TICKS;
	enum xp_polls polls;
	bool idle, held;

	set_progress(h, XP_TICKS);
	do {
		__atomic_store_n(&h->wakes_at, now + wait, __ATOMIC_RELAXED);
		sleep_until(h, false, now + wait);
		idle = is_idle(h);
		if (idle && xp_host_has_posts(h))
			soon = SOON_TICKS;
		held = xp_host_send_left(h, idle);
		now = xp_host_clock();
		polls = progress_look(h, l, now);
		if (polls == XP_POLLS_UNKNOWN) {
			wait = FIRST_TICK_NS << unknown++;
			xp_host_progress_round(h, false, &held);
		} else if (polls == XP_POLLS_WAITS) {
			wait = WAITS_TICK_NS;
			xp_host_progress_round(h, false, &held);
		} else {
			wait = held && idle ? XP_ANSWER_NS : next_tick(h, now, now - began, &soon);
			unknown = 0;
		}
	} while (!stopped(h) && polls != XP_POLLS_NOT && unknown < UNKNOWN_LOOKS);
	set_progress(h, XP_WATCHES);
	xp_host_send_left(h, is_idle(h));
	return now - began > POLLED_NS;
}

/*
 * Looks again for a short time after each packet, if packets have come in short intervals, and the
 * program neither posts nor polls: it may need the processor.
 */
static void spin(struct xp_host *h, uint64_t last_wait)
{
	uint64_t now = xp_host_clock(), since = now;
	bool held;

	if (last_wait > SPIN_NS || now < __atomic_load_n(&h->active, __ATOMIC_RELAXED) + PASSIVE_NS)
		return;
	for (; now - since < SPIN_NS && !stopped(h); now = xp_host_clock()) {
		if (xp_host_progress_round(h, true, &held) > 0)
			since = xp_host_clock();
		else
			sched_yield();
	}
}

struct leave {
	unsigned int taken;    /* times in succession that the program took packets left to it */
	unsigned int not_left; /* rounds until packets are left to it again */
};

/* There may be packets. Returns true if the program has polled meanwhile. */
static bool leave_to_program(struct xp_host *h, struct leave *l)
{
	uint64_t polled = __atomic_load_n(&h->polled, __ATOMIC_RELAXED), now = xp_host_clock();

	if (l->not_left) {
		l->not_left--;
		return false;
	}
	if (now > polled + LEAVE_RECENT_NS) {
		l->taken = 0;
		return false;
	}
	sleep_until(h, false, now + LEAVE_NS);
	if (__atomic_load_n(&h->polled, __ATOMIC_RELAXED) != polled) {
		l->taken++;
		return true;
	}
	*l = (struct leave){ .not_left = NOT_LEFT };
	return false;
}

/* Until the program polls */
static void progress_watch(struct xp_host *h, struct xp_cover_look *l, struct leave *leave)
{
	uint64_t idle_since = 0, last_wait = XT_NEVER, now, next;
	bool held, packets = false;
	enum xp_polls polls;
	int n;

	leave->taken = 0;
	while (!stopped(h)) {
		if (packets && takes_events(h, xp_host_clock()))
			break;
		if (packets && leave_to_program(h, leave)) {
			if (leave->taken < TAKEN)
				continue;
			break;
		}
		if (idle_since)
			last_wait = xp_host_clock() - idle_since;
		n = xp_host_progress_round(h, false, &held);
		now = xp_host_clock();
		polls = progress_look(h, l, now);
		if (polls == XP_POLLS || polls == XP_POLLS_WAITS)
			return;
		if (n < 0) {
			sleep_until(h, false, now + BUSY_NS);
			continue;
		}
		if (held) {
			sleep_until(h, true, now + XP_ANSWER_NS);
			xp_host_send_left(h, is_idle(h));
		}
		if (n) {
			if (xp_reader_sleeps(&h->reader, now))
				__atomic_store_n(&h->sleeps, true, __ATOMIC_RELAXED);
			spin(h, last_wait);
			idle_since = xp_host_clock();
			continue; /* the inbox was open */
		}
		/* A thread that sets an earlier time from now on finds that this one is late. */
		__atomic_store_n(&h->wakes_at, XT_NEVER, __ATOMIC_SEQ_CST);
		next = __atomic_load_n(&h->next, __ATOMIC_SEQ_CST);
		if (now < __atomic_load_n(&h->active, __ATOMIC_RELAXED) + LINGER_NS &&
		    next > now + LINGER_NS)
			next = now + LINGER_NS;
		__atomic_store_n(&h->wakes_at, next, __ATOMIC_RELAXED);
		packets = sleep_until(h, true, next);
		__atomic_store_n(&h->wakes_at, 0, __ATOMIC_RELAXED);
	}
	xp_cover_start(&h->cover, l);
}

static void *progress_main(void *arg)
{
	struct xp_host *h = arg;
	struct xp_cover_look l = { .to = xp_host_clock() };
	struct leave leave = { 0 };

	prctl(PR_SET_NAME, "xroce-direct");
	prctl(PR_SET_TIMERSLACK, 1000ul);
	/* Its wake-up preempts a thread that spins, if both are bound to one processor. */
	(void)xd_set_slice(XD_SHORT_SLICE_NS);
	while (!stopped(h)) {
		progress_watch(h, &l, &leave);
		if (!stopped(h) && !progress_tick(h, &l))
			leave.not_left = NOT_LEFT;
	}
	return NULL;
}

int xp_progress_start(struct xp_host *h)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int err;

	h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (h->wake_fd < 0)
		return -errno;
	/* Signals are for threads of the program, but faults for the thread that has them. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	err = pthread_create(&h->thread, &attr, progress_main, h);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		h->thread = 0;
	return -err;
}

void xp_progress_stop(struct xp_host *h)
{
	if (h->thread) {
		__atomic_store_n(&h->stop, true, __ATOMIC_RELEASE);
		xp_progress_wake(h);
		pthread_join(h->thread, NULL);
	}
}
