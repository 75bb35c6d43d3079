// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rounds of the engine, in whichever thread gets its lock. A thread that does not get it leaves its
 * work in the rings, with the doorbell rung: the holder looks at the doorbells again after it has
 * unlocked.
 *
 * ACKs of received messages wait for the requests with which a program answers them, so both leave
 * in one system call. They leave with the next round that receives nothing; if the program usually
 * answers, keep_ns() later, or XP_ANSWER_NS if the progress thread received. The next tick of that
 * thread sends those of a program that no longer polls.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <xroce/bits.h>

#include "daemon/udp/udp.h"
#include "internal.h"
#include "requests.h"

/* Batches of received packets in a round, before the engine may send again */
#define RX_BATCHES 4
/* Turns of the engine in one call while it has more to send */
#define TURNS 8
/*
 * While packets wait for ACKs, what a program posts waits for its next poll, or for an ACK, as
 * bytes of TCP do (RFC 896). The first calls after a poll send at once: they may be all, unless the
 * last poll followed a long series of calls. So does each call that completes a group of GATHER, or
 * of GATHER_BYTES, if the last series had such long messages: four messages of the kernel.
 */
#define AT_ONCE 4
#define LONG_SERIES 8
#define GATHER 32
#define GATHER_BYTES 262144u
/* A call that posts receives as well if there was no poll for so long. */
#define RECEIVE_NS 5000u
/* Rounds before a thread sleeps; what is left then is due at once. */
#define LAST_ROUNDS 16
/* Rounds for other threads in one call, before the progress thread does the rest */
#define FOR_OTHERS 8
/* ACKs and short answers that may wait; READ responses do not */
#define HOLD_FRAMES 4
/*
 * ACKs wait at least so long in a program that polls and answers. A request and the ACK behind it
 * arrive a microsecond apart, and a poll may come in between.
 */
#define KEEP_NS 10000u
/*
 * A program that was woken by a packet waits so long for the round of another thread, usually the
 * progress thread, which the packet has woken as well. It may have lost its processor for some
 * milliseconds. It does not wait longer: that thread may be in a page fault that this one is to
 * resolve.
 */
#define OTHERS_NS 100000000u
/* It waits so long before it gives its processor to others: some rounds */
#define SPIN_FOR_OTHERS_NS 20000u
/* Time until the kernel, or a peer of this host, is asked again to take packets */
#define TX_RETRY_NS 100000

/* Before anything else that the holder of the lock does */
static void rounds_begin(struct xp_host *h)
{
	h->now = xp_host_clock();
	__atomic_store_n(&h->entered, h->now, __ATOMIC_RELAXED);
	xp_page_look(h, &h->page);
}

/* ---- stages of a round -------------------------------------------------------------------- */

static bool is_rung(const struct xp_host *h)
{
	return __atomic_load_n(&h->doorbell->bits0, __ATOMIC_SEQ_CST);
}

static uint64_t rounds_take(__u64 *word)
{
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Words are cleared from the top level down, see ring.h. */
static void answer_doorbells(struct xp_host *h)
{
	__u64 bits0 = rounds_take(&h->doorbell->bits0), bits1, bits2;

	while (bits0) {
		uint32_t middle = xr_next_bit(&bits0);

		bits1 = rounds_take(&h->doorbell->bits1[middle]);
		while (bits1) {
			uint32_t leaf = middle * 64 + xr_next_bit(&bits1);

			bits2 = rounds_take(&h->doorbell->bits2[leaf]);
			while (bits2) {
				uint32_t slot = leaf * 64 + xr_next_bit(&bits2);

				if (slot < XP_HOST_QPS && h->qp_of_slot[slot])
					xt_qp_doorbell(h->qp_of_slot[slot], h->now);
			}
		}
	}
}

static void note_received(struct xp_host *h)
{
	__atomic_store_n(&h->received, h->received + 1, __ATOMIC_RELAXED);
}

static unsigned int rounds_receive(struct xp_host *h)
{
	unsigned int total = 0, n, i;

	for (i = 0; i < RX_BATCHES; i++) {
		n = xd_socket_recv(h->socket, h->frames, XD_BATCH, h->now);
		if (!n) {
			/* messages without a packet for the engine: their counters have changed */
			if (xd_const_udp_of(h->socket)->rx.count) {
				h->refused = true;
				note_received(h);
			}
			break;
		}
		note_received(h);
		total += n;
		n = xp_page_rx(h, &h->page, n);
		xt_engine_rx(h->engine, h->frames, n, h->now);
		xd_socket_recv_done(h->socket);
		if (!xd_socket_pending(h->socket))
			break;
	}
	return total;
}

/* Lets the engine send until it has nothing more, or the kernel takes no more. */
static void rounds_run(struct xp_host *h)
{
	uint64_t next;
	int turn = 0;

	xp_faults_due(h);
	do {
		next = xt_engine_run(h->engine, h->now);
		if (next <= h->now)
			xd_socket_tx_flush(h->socket, true);
	} while (next <= h->now && !xd_socket_tx_stalled(h->socket) && ++turn < TURNS);
	if (xd_socket_tx_stalled(h->socket) && next < h->now + TX_RETRY_NS)
		next = h->now + TX_RETRY_NS;
	__atomic_store_n(&h->expects, next != XT_NEVER, __ATOMIC_RELAXED);
	next = xp_view_look(h, &h->view, h->now, xp_faults_next(h, next));
	__atomic_store_n(&h->next, next, __ATOMIC_RELAXED);
	if (h->blocked)
		xp_events_retry(h);
	if (__builtin_expect(h->captures.any, false))
		xp_captures_round(h);
}

/* Other threads look at it without the lock. */
static void set_held(struct xp_host *h, bool held)
{
	__atomic_store_n(&h->held, held, __ATOMIC_RELAXED);
}

static void rounds_send_all(struct xp_host *h)
{
	uint64_t again = h->now + TX_RETRY_NS;

	set_held(h, false);
	xd_socket_tx_flush(h->socket, false);
	if (xd_socket_tx_pending(h->socket) && h->next > again)
		__atomic_store_n(&h->next, again, __ATOMIC_RELAXED);
}

/* Returns true if packets that answer received ones may wait for more of the program. */
static bool may_hold(const struct xp_host *h)
{
	return xd_udp_queued(h->socket) <= HOLD_FRAMES &&
	       __atomic_load_n(&h->next, __ATOMIC_RELAXED) > h->now;
}

/*
 * Returns true if ACKs that wait, since before this round, go on waiting. The round has received n
 * packets: with them, the program may have what it waits for before it answers.
 */
static bool keeps(struct xp_host *h, uint64_t ns, unsigned int n)
{
	if (!h->held || !h->answers)
		return false;
	if (h->now - h->held_at < (n ? XP_ANSWER_NS : ns))
		return true;
	h->answers--;
	return false;
}

/* A poll ends a series of calls that posted. The next one is expected to be similar. */
static void end_series(struct xp_host *h)
{
	uint32_t posts = __atomic_load_n(&h->posts, __ATOMIC_RELAXED);
	const struct xt_counters *c = xt_engine_counters(h->engine);
	uint64_t moved = c->tx_bytes + c->rx_bytes, bytes = moved - h->moved_before, group;

	if (!posts)
		return;
	group = bytes ? (uint64_t)GATHER_BYTES * posts / bytes : GATHER;
	group = group < GATHER ? group : GATHER;
	h->moved_before = moved;
	__atomic_store_n(&h->group, (uint32_t)group, __ATOMIC_RELAXED);
	__atomic_store_n(&h->at_once, posts > LONG_SERIES ? 0 : AT_ONCE, __ATOMIC_RELAXED);
	__atomic_store_n(&h->posts, 0, __ATOMIC_RELAXED);
}

/*
 * hold: ACKs of packets that this round receives may wait. keep: so long, if the program usually
 * answers; otherwise until the next round. Returns the number of packets received.
 */
static unsigned int rounds_do_round(struct xp_host *h, bool hold, uint64_t keep)
{
	bool rung = is_rung(h), was_held = h->held;
	unsigned int n;

	__atomic_store_n(&h->rounds, h->rounds + 1, __ATOMIC_SEQ_CST);
	rounds_begin(h);
	xp_reader_polls(&h->reader);
	if (rung) {
		xp_reader_sends(&h->reader, false);
		answer_doorbells(h);
	}
	n = rounds_receive(h);
	if (n)
		h->received_at = h->now;
	if (n || rung || h->refused || h->now >= h->next)
		rounds_run(h);
	h->refused = false;
	end_series(h);
	hold = (n && !was_held && hold) || keeps(h, keep, n);
	set_held(h, hold && !rung && may_hold(h) && xd_udp_queued(h->socket));
	if (!h->held)
		rounds_send_all(h);
	else if (!was_held)
		h->held_at = h->now;
	__atomic_store_n(&h->rounds, h->rounds + 1, __ATOMIC_SEQ_CST);
	return n;
}

/* The program posts: perhaps an answer to what was received. */
static void note_answer(struct xp_host *h)
{
	uint64_t ns = h->now - h->received_at;

	if (!h->received_at)
		return;
	h->received_at = 0;
	if (ns > XP_ANSWER_NS) {
		h->answers -= h->answers > 0;
		return;
	}
	h->answer_ns = (7 * h->answer_ns + ns) / 8;
	if (h->answers < XP_ANSWERS_MAX)
		h->answers++;
}

/* Returns how long ACKs wait for the answer of a thread of the program. */
static uint64_t keep_ns(const struct xp_host *h)
{
	uint64_t ns = 2 * h->answer_ns;

	return ns < KEEP_NS ? KEEP_NS : ns < XP_ANSWER_NS ? ns : XP_ANSWER_NS;
}

/*
 * A thread of the program has the engine, and nothing was left to others since its last call, if
 * that was `most` ago or less. Returns the time at its end. work: the round took time
 */
static uint64_t cover(struct xp_host *h, uint64_t most, bool work)
{
	uint64_t end = work ? xp_host_clock() : h->now;

	xp_cover_add(&h->cover, h->now, end, most);
	return end;
}

/* It has received. */
static void rounds_note_poll(struct xp_host *h, uint64_t most, bool work)
{
	uint64_t end = cover(h, most, work);

	__atomic_store_n(&h->active, end, __ATOMIC_RELAXED);
	__atomic_store_n(&h->polled, end, __ATOMIC_RELAXED);
}

/* late: the program has left it for some time */
static void do_posted(struct xp_host *h, bool late)
{
	bool polls;

	rounds_begin(h);
	__atomic_store_n(&h->active, h->now, __ATOMIC_RELAXED);
	note_answer(h);
	xp_reader_sends(&h->reader, late);
	answer_doorbells(h);
	polls = h->now > h->polled + RECEIVE_NS;
	if (polls)
		rounds_receive(h);
	rounds_run(h);
	rounds_send_all(h);
	if (pthread_equal(pthread_self(), h->thread))
		return;
	if (polls)
		rounds_note_poll(h, XP_COVER_NS, true);
	else
		cover(h, XP_COVER_NS, true);
}

/* ---- the lock ----------------------------------------------------------------------------- */

/* Has the lock. Gives it back if the daemon has ended, and returns false. */
static bool may_stay(struct xp_host *h)
{
	if (__builtin_expect(!h->ended, true))
		return true;
	pthread_mutex_unlock(&h->lock);
	return false;
}

static bool try_enter(struct xp_host *h)
{
	return !pthread_mutex_trylock(&h->lock) && may_stay(h);
}

/*
 * Waits until this thread has the engine, and returns true, or until another one has done a whole
 * round meanwhile (*done), OTHERS_NS at most. A thread that only polls has it nearly all the time:
 * if this thread yielded at once, it would find it taken after each time slice of that one.
 */
static bool enter_soon(struct xp_host *h, bool *done)
{
	uint64_t since, passed, whole;

	if (!pthread_mutex_trylock(&h->lock))
		return may_stay(h);
	since = xp_host_clock();
	/* that round; the one that is under way may have looked for packets before */
	whole = (__atomic_load_n(&h->rounds, __ATOMIC_SEQ_CST) + 1) / 2 * 2 + 2;
	while (pthread_mutex_trylock(&h->lock)) {
		passed = xp_host_clock() - since;
		*done = __atomic_load_n(&h->rounds, __ATOMIC_SEQ_CST) >= whole;
		if (*done || passed > OTHERS_NS)
			return false;
		if (passed > SPIN_FOR_OTHERS_NS)
			sched_yield();
	}
	return may_stay(h);
}

static void unlock(struct xp_host *h)
{
	__atomic_store_n(&h->entered, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&h->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * A thread that rang a doorbell and found the lock taken relies on its holder: that one looks at
 * the doorbells after it has unlocked.
 */
static void rounds_leave(struct xp_host *h)
{
	int n = FOR_OTHERS;

	unlock(h);
	while (is_rung(h) && n-- && try_enter(h)) {
		do_posted(h, false);
		unlock(h);
	}
	xp_progress_due(h, n < 0);
}

/*
 * A thread that polls has the lock nearly all the time. A thread that sleeps on it would find it
 * taken when it wakes. So this one says that it wants the lock, and tries for some rounds.
 */
static void lock_for_request(struct xp_host *h)
{
	uint64_t since;

	if (!pthread_mutex_trylock(&h->lock))
		return;
	__atomic_fetch_add(&h->wanted, 1, __ATOMIC_RELAXED);
	since = xp_host_clock();
	while (pthread_mutex_trylock(&h->lock)) {
		if (xp_host_clock() - since > SPIN_FOR_OTHERS_NS) {
			pthread_mutex_lock(&h->lock);
			break;
		}
	}
	__atomic_fetch_sub(&h->wanted, 1, __ATOMIC_RELAXED);
}

/* Threads that make requests all the time leave the engine to those that poll now and then. */
static bool is_wanted(const struct xp_host *h)
{
	return __builtin_expect(__atomic_load_n(&h->wanted, __ATOMIC_RELAXED), 0) &&
	       xp_host_clock() < __atomic_load_n(&h->polled, __ATOMIC_RELAXED) + XP_COVER_NS;
}

void xp_host_enter(struct xp_host *h)
{
	lock_for_request(h);
	rounds_begin(h);
	/* of memory that the program may free after this call */
	xd_udp_complete(xd_udp_of(h->socket));
}

void xp_host_leave(struct xp_host *h)
{
	rounds_run(h);
	rounds_send_all(h);
	rounds_leave(h);
}

void xp_host_leave_quietly(struct xp_host *h)
{
	rounds_leave(h);
}

void xp_host_round(struct xp_host *h)
{
	rounds_do_round(h, false, 0);
}

void xp_host_send_waiting(struct xp_host *h)
{
	if (h->ended)
		return;
	if (is_rung(h))
		do_posted(h, true);
	else if (h->held)
		rounds_send_all(h);
}

/* ---- threads of the program --------------------------------------------------------------- */

/* Returns true if another round will send what was posted. See GATHER */
static bool gathers(struct xp_host *h)
{
	uint32_t n = __atomic_load_n(&h->posts, __ATOMIC_RELAXED) + 1;
	uint32_t group = __atomic_load_n(&h->group, __ATOMIC_RELAXED);

	__atomic_store_n(&h->posts, n, __ATOMIC_RELAXED);
	return n > __atomic_load_n(&h->at_once, __ATOMIC_RELAXED) && group && n % group &&
	       __atomic_load_n(&h->expects, __ATOMIC_RELAXED);
}

/* While the progress thread ticks, it notices when threads of the program no longer poll. */
static bool ticks(const struct xp_host *h)
{
	return __atomic_load_n(&h->progress, __ATOMIC_SEQ_CST) == XP_TICKS;
}

static bool leaves_post(struct xp_host *h)
{
	return xp_reader_may_leave(&h->reader) && ticks(h) &&
	       xp_reader_leaves_post(&h->reader, xp_host_clock());
}

void xp_host_kick(struct xp_host *h)
{
	int saved = errno;

	if (leaves_post(h) || gathers(h))
		return;
	if (try_enter(h)) {
		do_posted(h, false);
		rounds_leave(h);
	}
	errno = saved;
}

static void open_inbox(struct xp_host *h)
{
	xp_inbox_open(&h->nearby.inbox);
	h->nearby.way.open = true;
}

static void rounds_close_inbox(struct xp_host *h)
{
	xp_inbox_close(&h->nearby.inbox);
	h->nearby.way.open = false;
}

/*
 * Before a thread sleeps until the socket is readable: peers of the host use it from now on, and
 * what they have written into the inbox is received. If packets come so fast that some are left,
 * the next round is due now. Returns the packets received.
 */
static unsigned int last_rounds(struct xp_host *h, bool hold, uint64_t keep)
{
	unsigned int total = 0;

	rounds_close_inbox(h);
	for (int i = 0; i < LAST_ROUNDS; i++) {
		total += rounds_do_round(h, hold, keep);
		if (!xd_socket_pending(h->socket))
			return total;
	}
	__atomic_store_n(&h->next, h->now, __ATOMIC_RELAXED);
	return total;
}

/*
 * After a poll of a program that polls on. A thread that has waited for a packet lately may wait
 * again: a message in the inbox would not wake it.
 */
static void open_or_close_inbox(struct xp_host *h)
{
	uint64_t watched = __atomic_load_n(&h->watched, __ATOMIC_RELAXED);

	if (h->now < watched + XP_WATCH_NS) {
		if (h->nearby.way.open)
			last_rounds(h, true, keep_ns(h));
	} else if (ticks(h)) {
		open_inbox(h);
	}
}

/* Returns true if this thread need not receive now: it will, or a packet wakes it. */
static bool leaves_poll(struct xp_host *h)
{
	return xp_reader_leaves_poll(&h->reader) ||
	       (xp_reader_may_be_woken(&h->reader) && !is_rung(h) &&
		xp_reader_is_woken(&h->reader, xp_host_clock()));
}

bool xp_host_poll(struct xp_host *h)
{
	int saved = errno;
	unsigned int n;

	if (leaves_poll(h))
		return false;
	if (is_wanted(h) || !try_enter(h)) {
		xp_cover_miss(&h->cover, xp_host_clock(), XP_COVER_NS);
		return false;
	}
	n = rounds_do_round(h, true, keep_ns(h));
	open_or_close_inbox(h);
	rounds_note_poll(h, XP_COVER_NS, n);
	rounds_leave(h);
	errno = saved;
	return true;
}

/* ---- events --------------------------------------------------------------------------------- */

int xp_host_take_event(struct xp_host *h, struct xp_channel_object *ch,
		       void (*taken)(uint64_t cookie), uint64_t *cookie)
{
	int err = xp_channel_take(ch, taken, cookie);

	if (!err && xp_reader_took(&h->reader, xp_host_clock()) && try_enter(h)) {
		do_posted(h, false);
		rounds_leave(h);
	}
	return err;
}

static void note_woken(struct xp_host *h, uint64_t now)
{
	xp_reader_receives(&h->reader, now);
	if (__builtin_expect(__atomic_load_n(&h->sleeps, __ATOMIC_RELAXED), false))
		__atomic_store_n(&h->sleeps, false, __ATOMIC_RELAXED);
}

void xp_host_woken(struct xp_host *h)
{
	note_woken(h, xp_host_clock());
}

bool xp_host_poll_channel(struct xp_host *h, struct xp_channel_object *ch, bool watches, bool woken)
{
	int saved = errno;
	uint64_t now = watches ? xp_host_clock() : 0;
	bool done = false, entered;
	unsigned int n;

	if (watches)
		__atomic_store_n(&h->watched, now, __ATOMIC_RELAXED);
	if (woken)
		note_woken(h, now);
	entered = watches ? enter_soon(h, &done) : try_enter(h);
	if (entered) {
		h->takes = ch;
		n = watches ? last_rounds(h, h->answers, keep_ns(h))
			    : rounds_do_round(h, true, keep_ns(h));
		if (!watches)
			open_or_close_inbox(h);
		h->takes = NULL;
		rounds_note_poll(h, watches ? XP_WATCH_NS : XP_COVER_NS, n);
		rounds_leave(h);
	}
	errno = saved;
	return entered || done;
}

/* Returns true if calls that a signal interrupts are to fail: a handler lacks SA_RESTART. */
static bool signals_interrupt(void)
{
	struct sigaction sa;

	for (int s = 1; s < NSIG; s++)
		if (!sigaction(s, NULL, &sa) && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN && !(sa.sa_flags & SA_RESTART))
			return true;
	return false;
}

static void wait_round(struct xp_host *h, struct xp_channel_object *ch)
{
	int saved = errno;

	xp_host_woken(h);
	pthread_mutex_lock(&h->lock);
	__atomic_store_n(&h->watched, xp_host_clock(), __ATOMIC_RELAXED);
	if (!h->ended) {
		h->takes = ch;
		last_rounds(h, false, 0);
		h->takes = NULL;
		rounds_note_poll(h, XP_WATCH_NS, true);
	}
	rounds_leave(h);
	errno = saved;
}

/* Waits for a packet, an event, or the next timer. */
static int wait_once(const struct xp_host *h, const struct xp_channel_object *ch)
{
	struct pollfd p[] = {
		{ .fd = ch->fd, .events = POLLIN },
		{ .fd = h->socket->fd, .events = POLLIN },
	};
	uint64_t next = __atomic_load_n(&h->next, __ATOMIC_RELAXED), now = xp_host_clock();
	struct timespec ts = { 0 };

	if (next > now)
		ts = (struct timespec){ .tv_sec = (time_t)((next - now) / 1000000000),
					.tv_nsec = (long)((next - now) % 1000000000) };
	if (ppoll(p, 2, next == XT_NEVER ? NULL : &ts, NULL) < 0 && errno == EINTR &&
	    signals_interrupt())
		return -EINTR;
	return 0;
}

int xp_host_wait_event(struct xp_host *h, struct xp_channel_object *ch,
		       void (*taken)(uint64_t cookie), uint64_t *cookie)
{
	int err;

	do {
		wait_round(h, ch);
		err = xp_host_take_event(h, ch, taken, cookie);
		if (err != -EAGAIN)
			return err;
		err = wait_once(h, ch);
		if (!err)
			err = xp_host_take_event(h, ch, taken, cookie);
	} while (err == -EAGAIN);
	return err;
}

/* ---- the progress thread ------------------------------------------------------------------ */

int xp_host_progress_round(struct xp_host *h, bool spins, bool *held)
{
	unsigned int n;

	*held = false;
	if (!try_enter(h))
		return -1;
	if (spins) {
		n = rounds_do_round(h, h->answers, XP_ANSWER_NS);
		open_inbox(h);
	} else {
		n = last_rounds(h, h->answers, XP_ANSWER_NS);
	}
	*held = h->held;
	rounds_leave(h);
	return (int)n;
}

bool xp_host_has_posts(const struct xp_host *h)
{
	return is_rung(h);
}

bool xp_host_send_left(struct xp_host *h, bool late)
{
	bool left;

	if ((!__atomic_load_n(&h->held, __ATOMIC_RELAXED) && !is_rung(h)) || !try_enter(h))
		return false;
	if (is_rung(h))
		do_posted(h, late);
	else if (h->held && xp_host_clock() > h->held_at + XP_ANSWER_NS)
		rounds_send_all(h);
	left = h->held;
	rounds_leave(h);
	return left;
}
