// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Views of direct programs, which may store anything there while the daemon reads */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/server/direct_rules.h"
#include "daemon/server/view.h"

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int make_view(size_t size, int seals)
{
	int fd = memfd_create("view", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void *map(int fd)
{
	void *p = mmap(NULL, XR_VIEW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	MUST(p != MAP_FAILED);
	return p;
}

/* Shows a list to an observer. Returns its text, which the caller frees. */
static char *list(struct conn *c, uint32_t what)
{
	struct xr_show_req q = { .what = what };
	const struct xr_show_rep *rep = (const void *)c->body;
	char *text;

	MUST(!ask(c, XR_MSG_SHOW, &q, sizeof(q)) && c->nfds == 1);
	text = calloc(1, rep->length + 1);
	MUST(text && pread(c->fds[0], text, rep->length, 0) == (ssize_t)rep->length);
	close(c->fds[0]);
	c->nfds = 0;
	return text;
}

static bool list_has(struct conn *c, uint32_t what, const char *text)
{
	char *s = list(c, what);
	bool found = strstr(s, text);

	if (!found)
		printf("# %.400s\n", s);
	free(s);
	return found;
}

static void open_observer(struct conn *c)
{
	connect_client(c);
	MUST(!hello(c, XR_HELLO_OBSERVER));
}

static void end_view(struct conn *c)
{
	xd_direct_rules_close(c->client);
	xd_view_close(c->client);
}

/* ---- tests --------------------------------------------------------------------------------- */

static bool is_refused(struct conn *c, int fd)
{
	int err = xd_view_open(c->client, &fd);

	close(fd);
	return err == -EINVAL && !c->client->view;
}

static void test_descriptors(void)
{
	struct conn c;
	int pipes[2], other;
	struct xr_view *v;

	open_client(&c);
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE, 0)), "a view without seals is refused");
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE, F_SEAL_GROW)), "one that can shrink, too");
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE - 4096, ALL_SEALS)), "or of another size");
	MUST(!pipe(pipes));
	close(pipes[1]);
	TAP_OK(is_refused(&c, pipes[0]), "a pipe is refused");
	other = make_view(XR_VIEW_SIZE, ALL_SEALS);
	v = map(other);
	v->layout = XR_VIEW_LAYOUT + 1;
	TAP_OK(is_refused(&c, other), "a view of another build is refused");
	munmap(v, XR_VIEW_SIZE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static struct xr_view *open_view(struct conn *c)
{
	int fd = make_view(XR_VIEW_SIZE, ALL_SEALS);
	struct xr_view *v = map(fd);

	v->layout = XR_VIEW_LAYOUT;
	MUST(!xd_view_open(c->client, &fd) && fd == -1);
	return v;
}

static struct xr_view_qp *first_qp(struct xr_view *v)
{
	return (struct xr_view_qp *)((char *)v + XR_VIEW_QPS_OFF);
}

static void test_rows(void)
{
	struct conn c, observer;
	struct xr_view_qp *qp;
	struct xd_sums sums;
	struct xr_view *v;

	open_client(&c);
	open_observer(&observer);
	v = open_view(&c);
	qp = first_qp(v);
	v->qps = 1;
	v->qp_end = 3;
	qp[2] = (struct xr_view_qp){ .used = 1, .qpn = 0x1235, .type = XR_QPT_RC, .state = 3 };
	qp[2].counter[0] = 4711;
	TAP_OK(list_has(&observer, XR_SHOW_QPS, "\"qpn\":4661,\"type\":\"RC\",\"state\":\"RTS\""),
	       "a QP of a direct program is in the list");
	TAP_OK(list_has(&observer, XR_SHOW_QPS, "\"path\":\"direct\""), "its path is direct");
	TAP_OK(list_has(&observer, XR_SHOW_QP_DETAILS, "\"tx_packets\":4711"), "with its counters");
	v->sums.counter[0] = 1000;
	v->sums.reason[0].packets = 12;
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1000 && sums.reason[0].packets == 12,
	       "its counters are in the sums");
	v->sums.counter[0] = 3;
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1000, "a counter does not decrease");
	v->sums.counter[0] = 1001;
	end_view(&c);
	munmap(v, XR_VIEW_SIZE);
	close_client(&c);
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1001, "its last values stay in the sums");
	close_client(&observer);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- random bytes --------------------------------------------------------------------------- */

static struct {
	struct xr_view *v;
	bool stop;
} storing;

static void *store(void *arg)
{
	uint8_t *p = (uint8_t *)storing.v, bytes[4096];
	uint64_t at = 0;

	while (!__atomic_load_n(&storing.stop, __ATOMIC_RELAXED)) {
		MUST(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
		at = (at * 6364136223846793005ull + bytes[0]) | 1;
		/* the first pages, where records are read often, or any other */
		memcpy(p + (bytes[1] & 3 ? at % 16 : at % (XR_VIEW_SIZE / 4096)) * 4096, bytes,
		       sizeof(bytes));
		/* so that there are rows */
		storing.v->qp_end = bytes[2] & 1 ? 64 : UINT32_MAX;
		storing.v->mr_end = storing.v->cq_end = 64;
	}
	return arg;
}

/* Returns true if a text has brackets in pairs and no control character: rows are whole. */
static bool is_whole(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
		if ((unsigned char)*s < ' ' || depth < 0)
			return false;
	}
	return !depth;
}

static void test_random(void)
{
	static const uint32_t lists[] = { XR_SHOW_QPS,	     XR_SHOW_QP_DETAILS, XR_SHOW_MRS,
					  XR_SHOW_CQS,	     XR_SHOW_CQ_DETAILS, XR_SHOW_CLIENTS,
					  XR_SHOW_LIMITS,    XR_SHOW_COUNTERS,	 XR_SHOW_STATUS,
					  XR_SHOW_MR_DETAILS };
	const uint64_t seconds = 2;
	enum { LEAST_LISTS = 20 }; /* each at least once, on a slow machine as well */
	uint64_t end = xd_now() + seconds * 1000000000, rounds = 0;
	struct conn c, observer;
	bool whole = true;
	pthread_t thread;
	char *text;

	open_client(&c);
	open_observer(&observer);
	storing.v = open_view(&c);
	MUST(!xd_direct_rules_open(c.client));
	MUST(!pthread_create(&thread, NULL, store, NULL));
	while (xd_now() < end || rounds < LEAST_LISTS) {
		text = list(&observer, lists[rounds++ % (sizeof(lists) / sizeof(lists[0]))]);
		whole &= is_whole(text);
		free(text);
		text = list(&observer, XR_SHOW_METRICS);
		free(text);
		xd_views_publish(fake_clients(), true);
		xd_direct_rules_collect(fake_clients());
	}
	printf("# %llu lists\n", (unsigned long long)rounds);
	TAP_OK(whole, "lists are whole while a program stores random bytes");
	/* Holes: the pages are gone, not the file. */
	MUST(!fallocate(c.client->view->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			XR_VIEW_SIZE));
	text = list(&observer, XR_SHOW_QPS);
	TAP_OK(is_whole(text), "holes are read");
	free(text);
	__atomic_store_n(&storing.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	end_view(&c);
	munmap(storing.v, XR_VIEW_SIZE);
	close_client(&c);
	close_client(&observer);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("xr_view");
	test_descriptors();
	test_rows();
	test_random();

	fake_server_stop();
	TAP_OK(!fake.server, "the server stops");
	return tap_end();
}
