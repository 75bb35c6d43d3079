// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The event loop: watches and timers, also those that are removed in the middle of a batch. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "selftests/lib/tap.h"

#define MS 1000000ull

static struct xd_loop *loop;
static int order[8];
static unsigned int count;

static void note(int what)
{
	if (count < sizeof(order) / sizeof(order[0]))
		order[count++] = what;
}

static void on_stop(void *arg)
{
	xd_loop_stop(loop);
}

static void on_number(void *arg)
{
	note((int)(long)arg);
}

static void test_timer_order(void)
{
	struct xd_timer *a, *b, *c, *stop;
	uint64_t begun = xd_now();

	loop = xd_loop_new();
	count = 0;
	a = xd_timer_new(loop, on_number, (void *)1L);
	b = xd_timer_new(loop, on_number, (void *)2L);
	c = xd_timer_new(loop, on_number, (void *)3L);
	stop = xd_timer_new(loop, on_stop, NULL);
	xd_timer_arm(stop, 30 * MS);
	xd_timer_arm(a, 1 * MS);
	xd_timer_arm(b, 5 * MS);
	xd_timer_arm(c, 10 * MS);
	xd_timer_arm(a, 20 * MS);
	xd_timer_cancel(b);
	TAP_OK(!xd_loop_run(loop) && count == 2 && order[0] == 3 && order[1] == 1,
	       "timers: they fire in order and once, unless replaced or cancelled");
	TAP_OK(xd_now() - begun >= 30 * MS, "timers: none fires too early");
	xd_timer_free(a);
	xd_timer_free(b);
	xd_timer_free(c);
	xd_timer_free(stop);
	xd_timer_free(NULL);
	xd_loop_free(loop);
	xd_loop_free(NULL);
}

struct again {
	struct xd_timer *timer;
	int left;
};

static void on_again(void *arg)
{
	struct again *a = arg;

	note(a->left);
	if (--a->left)
		xd_timer_arm(a->timer, 0);
	else
		xd_loop_stop(loop);
}

static void on_free_self(void *arg)
{
	struct xd_timer **t = arg;

	note(100);
	xd_timer_free(*t);
}

static void test_timer_in_callback(void)
{
	struct again a = { .left = 3 };
	struct xd_timer *gone;

	loop = xd_loop_new();
	count = 0;
	a.timer = xd_timer_new(loop, on_again, &a);
	gone = xd_timer_new(loop, on_free_self, &gone);
	xd_timer_arm(gone, 0);
	xd_timer_arm(a.timer, 1);
	TAP_OK(!xd_loop_run(loop) && count == 4 && order[0] == 100 && order[3] == 1,
	       "timers: armed again and freed by their own callbacks");
	xd_timer_free(a.timer);
	xd_loop_free(loop);
}

struct pair {
	struct xd_watch *watch[2];
	int fd[2];
};

/* Both watches have an event in the same batch. The first callback removes both watches. */
static void on_either(void *arg, uint32_t events)
{
	struct pair *p = arg;

	note(1);
	for (int i = 0; i < 2; i++) {
		xd_watch_del(p->watch[i]);
		p->watch[i] = NULL;
	}
	xd_loop_stop(loop);
}

static void test_delete_in_batch(void)
{
	struct pair p;

	loop = xd_loop_new();
	count = 0;
	for (int i = 0; i < 2; i++) {
		p.fd[i] = eventfd(1, EFD_NONBLOCK);
		p.watch[i] = xd_watch_add(loop, p.fd[i], EPOLLIN, on_either, &p);
	}
	TAP_OK(!xd_loop_run(loop) && count == 1,
	       "a watch that was removed is not called, though its event was in the batch");
	xd_watch_del(NULL);
	xd_loop_free(loop);
	for (int i = 0; i < 2; i++)
		close(p.fd[i]);
}

static struct xd_watch *watched;

static void on_writable(void *arg, uint32_t events)
{
	note((int)events);
	if (events & EPOLLOUT)
		xd_watch_set(watched, EPOLLIN);
	else
		xd_loop_stop(loop);
}

static void test_set(void)
{
	int fd = eventfd(1, EFD_NONBLOCK);

	loop = xd_loop_new();
	count = 0;
	watched = xd_watch_add(loop, fd, EPOLLOUT, on_writable, NULL);
	TAP_OK(!xd_loop_run(loop) && count == 2 && order[0] == EPOLLOUT && order[1] == EPOLLIN,
	       "a watch's events can be changed");
	xd_watch_del(watched);
	close(fd);
	xd_loop_free(loop);
}

static void test_bad_fd(void)
{
	loop = xd_loop_new();
	TAP_OK(!xd_watch_add(loop, -1, EPOLLIN, on_writable, NULL),
	       "a watch for a bad descriptor is refused");
	xd_loop_free(loop);
}

#define BURNT (20 * MS)

static uint64_t lap;

static void on_burn(void *arg)
{
	uint64_t end = xd_cpu_time() + BURNT;

	while (xd_cpu_time() < end)
		;
	eventfd_write((int)(long)arg, 1);
}

static void on_lap(void *arg, uint32_t events)
{
	lap = xd_loop_lap(loop);
	xd_loop_stop(loop);
}

/* Clients are charged their laps, so a lap must not contain the time of a timer. */
static void test_lap(void)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct xd_timer *t;
	struct xd_watch *w;

	loop = xd_loop_new();
	w = xd_watch_add(loop, fd, EPOLLIN, on_lap, NULL);
	t = xd_timer_new(loop, on_burn, (void *)(long)fd);
	xd_timer_arm(t, 0);
	TAP_OK(!xd_loop_run(loop) && lap && lap < BURNT,
	       "the time of a timer is not in the lap of the next callback");
	xd_timer_free(t);
	xd_watch_del(w);
	xd_loop_free(loop);
	close(fd);
}

int main(void)
{
	test_timer_order();
	test_timer_in_callback();
	test_delete_in_batch();
	test_set();
	test_bad_fd();
	test_lap();
	return tap_end();
}
