// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The events of completion channels of direct contexts: their order, and when the descriptor of the
 * channel is readable.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/host/internal.h"
#include "provider/host/requests.h"
#include "selftests/lib/tap.h"

#define CQS 9
#define RAISES 3000
#define TAKERS 2

static struct xp_host host;
static struct xp_channel_object *channel;
static int descriptor;
static struct xp_comp_events cq[CQS];
static uint32_t taken_count; /* by callbacks; atomic */

/* ---- the host ----------------------------------------------------------------------------- */

void xp_host_enter(struct xp_host *h)
{
	pthread_mutex_lock(&h->lock);
}

void xp_host_leave_quietly(struct xp_host *h)
{
	pthread_mutex_unlock(&h->lock);
}

int xp_host_add(struct xp_host *h, struct xp_object *obj, enum xp_kind kind)
{
	(void)h, (void)kind;
	channel = (struct xp_channel_object *)obj;
	return 0;
}

void xp_host_del(struct xp_host *h, struct xp_object *obj)
{
	(void)h, (void)obj;
}

void *xp_object_get(const struct xp_objects *o, enum xp_kind kind, uint32_t handle)
{
	(void)o, (void)kind, (void)handle;
	return channel;
}

void xp_reply(struct xp_call *call, const void *rep, size_t len)
{
	(void)call, (void)rep, (void)len;
}

int xp_host_refuse(struct xp_host *h, int err, const char *fmt, ...)
{
	(void)h, (void)fmt;
	return err;
}

/* ---- its events --------------------------------------------------------------------------- */

static void raise_event(int i)
{
	xp_host_enter(&host);
	xp_channel_raise(&host, channel, &cq[i]);
	xp_host_leave_quietly(&host);
}

static void count_taken(uint64_t cookie)
{
	(void)cookie;
	__atomic_fetch_add(&taken_count, 1, __ATOMIC_RELAXED);
}

/* Returns the number of the CQ, or a negative error. */
static int take(void)
{
	uint64_t cookie;
	int err = xp_channel_take(channel, count_taken, &cookie);

	if (err)
		return err;
	xp_reader_dropped(&host.reader, 1);
	return (int)cookie;
}

static bool is_readable(void)
{
	struct pollfd p = { .fd = descriptor, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void open_channel(void)
{
	struct xp_call call = { .rep_fds = &descriptor, .rep_room = 1 };

	if (xp_do_create_channel(&host, &call) || !call.rep_nfds)
		exit(1);
	for (int i = 0; i < CQS; i++) {
		cq[i] = (struct xp_comp_events){ .cookie = (uint64_t)i };
		if (xp_channel_add_cq(channel))
			exit(1);
	}
}

static int close_channel(void)
{
	struct xr_handle_req req = { 0 };
	struct xp_call call = { .req = &req };
	int err = xp_do_destroy_channel(&host, &call);

	if (!err)
		close(descriptor);
	return err;
}

static void remove_cq(int i)
{
	xp_host_enter(&host);
	xp_channel_remove_cq(&host, channel, &cq[i]);
	xp_host_leave_quietly(&host);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void test_order(void)
{
	bool ok = true;

	TAP_OK(take() == -EAGAIN && !is_readable(), "a channel has no event at first");
	raise_event(2);
	raise_event(0);
	raise_event(2);
	TAP_OK(is_readable() && take() == 2 && is_readable() && take() == 2 && take() == 0,
	       "a CQ has as many events as were raised, in the order of the first ones");
	TAP_OK(take() == -EAGAIN && !is_readable(), "the descriptor is readable as long");
	TAP_OK(taken_count == 3, "each one is counted once");
	for (int n = 0; n < 3; n++) {
		for (int i = 0; i < CQS; i++)
			raise_event(i);
		for (int i = 0; i < CQS; i++)
			ok &= take() == i;
	}
	TAP_OK(ok && take() == -EAGAIN, "all CQs can have events at the same time");
}

/* A thread that takes an event next does not need the descriptor. */
static void test_taker(void)
{
	host.takes = channel;
	raise_event(1);
	TAP_OK(!is_readable() && take() == 1 && !is_readable(),
	       "an event for the thread that raised it leaves the descriptor alone");
	raise_event(1);
	raise_event(3);
	TAP_OK(!is_readable() && take() == 1 && is_readable() && take() == 3 && !is_readable(),
	       "unless there is one more");
	host.takes = NULL;
}

static void test_remove(void)
{
	raise_event(4);
	raise_event(5);
	raise_event(5);
	raise_event(6);
	remove_cq(5);
	TAP_OK(take() == 4 && take() == 6 && take() == -EAGAIN,
	       "events of a CQ that leaves are dropped, in the middle too");
	raise_event(4);
	remove_cq(4);
	TAP_OK(!is_readable() && take() == -EAGAIN, "its last one ends the readiness");
	TAP_OK(!host.reader.unread, "none is left to be taken");
	TAP_OK(close_channel() == -EBUSY, "a channel with CQs cannot be destroyed");
}

static void test_end(void)
{
	raise_event(7);
	xp_host_enter(&host);
	xp_channel_end(channel);
	xp_host_leave_quietly(&host);
	TAP_OK(is_readable() && take() == 7 && is_readable() && take() == -ENODATA &&
		       take() == -ENODATA && is_readable(),
	       "after its last event, an ended channel says so, and stays readable");
}

/* ---- two threads at the same time --------------------------------------------------------- */

/* Called once, behind the next read() of an eventfd, and before the next write() */
static void (*behind_read)(void), (*before_write)(void);

static void call_once(void (**hook)(void))
{
	void (*f)(void) = *hook;

	*hook = NULL;
	if (f)
		f();
}

/* In the place of that of the C library, for comp_events.c */
long syscall(long number, ...)
{
	va_list ap;
	int fd;
	void *data;
	long n;

	va_start(ap, number);
	fd = va_arg(ap, int);
	data = va_arg(ap, void *);
	va_end(ap);
	if (number == SYS_write) {
		call_once(&before_write);
		return write(fd, data, sizeof(uint64_t));
	}
	n = read(fd, data, sizeof(uint64_t));
	call_once(&behind_read);
	return n;
}

static void raise_meanwhile(void)
{
	raise_event(3);
}

static pthread_t taker;

static void *take_one(void *arg)
{
	(void)arg;
	return take() == 2 ? &taker : NULL;
}

static void take_meanwhile(void)
{
	if (pthread_create(&taker, NULL, take_one, NULL))
		exit(1);
	usleep(20000);
}

static void test_races(void)
{
	void *took;

	raise_event(1);
	behind_read = raise_meanwhile;
	TAP_OK(take() == 1 && is_readable() && take() == 3 && !is_readable(),
	       "an event that is raised while the last one is taken makes it readable");
	before_write = take_meanwhile;
	raise_event(2);
	pthread_join(taker, &took);
	TAP_OK(took && !is_readable(), "one that is taken while it is raised does not");
}

static bool stopped; /* atomic */

/* Sleeps until the descriptor is readable, as a program does. */
static void *take_all(void *arg)
{
	struct pollfd p = { .fd = descriptor, .events = POLLIN };
	uint32_t *empty = arg;

	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE)) {
		if (poll(&p, 1, 10) != 1)
			continue;
		*empty += take() == -EAGAIN;
		while (take() >= 0)
			;
	}
	return NULL;
}

static bool await_taken(uint32_t n)
{
	for (int ms = 0; ms < 5000; ms++) {
		if (__atomic_load_n(&taken_count, __ATOMIC_RELAXED) == n)
			return true;
		usleep(1000);
	}
	return false;
}

static void test_threads(unsigned int takers)
{
	pthread_t thread[TAKERS];
	uint32_t empty[TAKERS] = { 0 };

	taken_count = 0;
	stopped = false;
	for (unsigned int i = 0; i < takers; i++)
		if (pthread_create(&thread[i], NULL, take_all, &empty[i]))
			exit(1);
	for (int i = 0; i < RAISES; i++)
		raise_event(i % CQS);
	TAP_OK(await_taken(RAISES), "%u threads that sleep until there are events miss none",
	       takers);
	__atomic_store_n(&stopped, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < takers; i++)
		pthread_join(thread[i], NULL);
	TAP_OK(!is_readable() && !host.reader.unread, "and leave the channel empty");
	if (takers == 1)
		TAP_OK(!empty[0], "a descriptor that is readable has an event (%u had none)",
		       empty[0]);
}

int main(void)
{
	pthread_mutex_init(&host.lock, NULL);
	open_channel();
	test_order();
	test_taker();
	test_races();
	test_threads(1);
	test_threads(TAKERS);
	test_remove();
	test_end();
	for (int i = 0; i < CQS; i++)
		if (i != 4 && i != 5)
			remove_cq(i);
	TAP_OK(!close_channel(), "a channel that has ended can be destroyed");
	return tap_end();
}
