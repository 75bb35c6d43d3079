// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures the packet rate and latency of two bare AF_XDP sockets in two network namespaces, in
 * native copy mode, which veth supports. They are upper bounds for xroce.
 *
 *   xdp_ceiling NETNS-FILE IF NETNS-FILE IF SECONDS BYTES
 *
 * Sends frames of BYTES one way and prints "rate BYTES PACKETS-PER-SECOND", tab-separated. With
 * BYTES 0, sends a frame of 64 bytes back and forth, both sides spinning, and prints half of the
 * time of round trips in us, one a line, sorted: all of them, or evenly spaced ones of many.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "raw.h"
#include "times.h"

#define RING 64 /* small: stays in the cache and limits the sender */
#define PING_SIZE 64
#define WARM_UP_NS 100000000ull

static void flood(struct raw_side *s, struct raw_control *m, uint32_t size)
{
	while (raw_running(m)) {
		raw_reap(s);
		raw_send(s, size, RING, NULL, NULL);
		raw_kick(s);
	}
}

static double count_window(struct raw_side *s, uint64_t duration)
{
	uint64_t start = now_ns(), frames = 0, t;

	do {
		for (int i = 0; i < 64; i++)
			frames += raw_receive(s, NULL, NULL);
		t = now_ns() - start;
	} while (t < duration);
	return (double)frames * 1e9 / (double)t;
}

static double count(struct raw_side *s, struct raw_control *m, uint64_t duration)
{
	double rate;

	count_window(s, WARM_UP_NS);
	rate = count_window(s, duration);
	raw_stop(m);
	return rate;
}

static void pong(struct raw_side *s, struct raw_control *m)
{
	while (raw_running(m)) {
		if (!raw_receive(s, NULL, NULL))
			continue;
		raw_reap(s);
		raw_send(s, PING_SIZE, 1, NULL, NULL);
		raw_kick(s);
	}
}

/* Repeats a ping without a reply: packets of other programs may have filled the ring. */
static void ping(struct raw_side *s, struct raw_control *m, uint64_t duration)
{
	uint64_t start = now_ns(), t0, t = start;
	struct times times;

	if (!times_new(&times))
		raw_die("memory", ENOMEM);
	while (t - start < duration) {
		t0 = t;
		raw_reap(s);
		raw_send(s, PING_SIZE, 1, NULL, NULL);
		raw_kick(s);
		do {
			t = now_ns();
		} while (!raw_receive(s, NULL, NULL) && t - t0 < 100000000);
		t = now_ns();
		times_add(&times, t - t0);
	}
	raw_stop(m);
	times_print(&times);
}

/* Runs one measurement; @size 0 is ping-pong. The parent receives and prints the result. */
static void measure(char **where, uint32_t size, uint64_t duration)
{
	struct raw_control *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct raw_side s;
	pid_t child;
	int status;

	if (m == MAP_FAILED)
		raw_die("memory", errno);
	fflush(stdout);
	child = fork();
	if (child < 0)
		raw_die("fork", errno);
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_take_cpu(child ? 0 : 1);
	raw_open(&s, where[child ? 0 : 2], where[child ? 1 : 3], RING);
	raw_wait_for_peers(m, 2, child);
	if (!child) {
		if (size)
			flood(&s, m, size);
		else
			pong(&s, m);
		_exit(0);
	}
	if (size)
		printf("rate\t%u\t%.0f\n", size, count(&s, m, duration));
	else
		ping(&s, m, duration);
	if (waitpid(child, &status, 0) != child || status)
		raw_die("the child process failed", ECHILD);
	raw_close(&s);
	munmap(m, sizeof(*m));
}

int main(int argc, char **argv)
{
	if (argc != 7 || atof(argv[5]) <= 0) {
		fprintf(stderr, "usage: xdp_ceiling NETNS-FILE IF NETNS-FILE IF SECONDS BYTES\n");
		return 2;
	}
	measure(argv + 1, (uint32_t)atoi(argv[6]), (uint64_t)(1e9 * atof(argv[5])));
	return 0;
}
