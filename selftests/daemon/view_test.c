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
#include "daemon/server/claim.h"
#include "daemon/server/direct_rules.h"
#include "daemon/server/view.h"

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int make_view(size_t size, int seals)
{
	int fd = memfd_create("view", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static struct xr_view_file *map(int fd)
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
	struct xr_view_file *v;
	int pipes[2], other;

	open_client(&c);
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE, 0)), "a view without seals is refused");
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE, F_SEAL_GROW)), "one that can shrink, too");
	TAP_OK(is_refused(&c, make_view(XR_VIEW_SIZE - 4096, ALL_SEALS)), "or of another size");
	MUST(!pipe(pipes));
	close(pipes[1]);
	TAP_OK(is_refused(&c, pipes[0]), "a pipe is refused");
	other = make_view(XR_VIEW_SIZE, ALL_SEALS);
	v = map(other);
	v->head.layout = XR_VIEW_LAYOUT + 1;
	TAP_OK(is_refused(&c, other), "a view of another build is refused");
	munmap(v, XR_VIEW_SIZE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static struct xr_view_file *open_view(struct conn *c)
{
	int fd = make_view(XR_VIEW_SIZE, ALL_SEALS);
	struct xr_view_file *v = map(fd);

	v->head.layout = XR_VIEW_LAYOUT;
	MUST(!xd_view_open(c->client, &fd) && fd == -1);
	return v;
}

static void test_rows(void)
{
	struct conn c, observer;
	struct xr_view_file *v;
	struct xd_sums sums;

	open_client(&c);
	open_observer(&observer);
	v = open_view(&c);
	v->head.end[XR_VIEW_QP] = 3;
	v->qp[2] = (struct xr_view_qp){ .used = 1, .qpn = 0x1235, .type = XR_QPT_RC, .state = 3 };
	v->qp[2].counter[0] = 4711;
	TAP_OK(list_has(&observer, XR_SHOW_QPS, "\"qpn\":4661,\"type\":\"RC\",\"state\":\"RTS\""),
	       "a QP of a direct program is in the list");
	TAP_OK(list_has(&observer, XR_SHOW_QPS, "\"path\":\"direct\""), "its path is direct");
	TAP_OK(list_has(&observer, XR_SHOW_QP_DETAILS, "\"tx_packets\":4711"), "with its counters");
	v->head.sums.counter[0] = 1000;
	v->head.sums.reason[0].packets = 12;
	v->head.sums.faults = 13;
	v->head.sums.tx_refused = 14;
	v->head.sums.tx_by_memory = 15;
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1000 && sums.reason[0].packets == 12 &&
		       sums.direct_faults == 13 && sums.direct_tx_refused == 14 &&
		       sums.direct_tx_by_memory == 15,
	       "its counters are in the sums");
	v->head.sums.counter[0] = 3;
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1000, "a counter does not decrease");
	v->head.sums.counter[0] = 1001;
	end_view(&c);
	munmap(v, XR_VIEW_SIZE);
	close_client(&c);
	xd_sum_counters(fake.server, &sums);
	TAP_OK(sums.transport.rx_packets == 1001, "its last values stay in the sums");
	close_client(&observer);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- all lists ------------------------------------------------------------------------------ */

static const struct list {
	uint32_t what, details;
} lists[XR_VIEW_LIST_COUNT] = {
	[XR_VIEW_QP] = { XR_SHOW_QPS, XR_SHOW_QP_DETAILS },
	[XR_VIEW_SRQ] = { XR_SHOW_SRQS, XR_SHOW_SRQ_DETAILS },
	[XR_VIEW_CQ] = { XR_SHOW_CQS, XR_SHOW_CQ_DETAILS },
	[XR_VIEW_MR] = { XR_SHOW_MRS, XR_SHOW_MR_DETAILS },
	[XR_VIEW_MW] = { XR_SHOW_MWS, XR_SHOW_MW_DETAILS },
	[XR_VIEW_AH] = { XR_SHOW_AHS, XR_SHOW_AH_DETAILS },
	[XR_VIEW_MEMBER] = { XR_SHOW_GROUPS, XR_SHOW_GROUPS },
	[XR_VIEW_DM] = { XR_SHOW_DMS, XR_SHOW_DMS },
	[XR_VIEW_XRCD] = { XR_SHOW_XRCDS, XR_SHOW_XRCDS },
};

/* Fills the first record of each list; its numbers are those of the list, counted from 1. */
static void fill_lists(struct xr_view_file *v)
{
	for (uint32_t i = 0; i < XR_VIEW_LIST_COUNT; i++)
		v->head.end[i] = 1;
	v->qp[0] = (struct xr_view_qp){ .used = 1, .qpn = 1 };
	v->srq[0] =
		(struct xr_view_srq){ .used = 1, .srq = 2, .depth = 8, .producer = 5, .qps = 3 };
	v->cq[0] = (struct xr_view_cq){ .used = 1, .cq = 3, .depth = 4 };
	v->mr[0] = (struct xr_view_mr){ .used = 1, .key = 4, .state = XR_KEY_VALID };
	v->mw[0] = (struct xr_view_mw){ .used = 1, .key = 5, .type = 2, .mr = 4, .length = 10 };
	v->ah[0] = (struct xr_view_ah){ .used = 1, .ah = 6, .gid_index = 1, .mac = { 2 } };
	v->member[0] = (struct xr_view_member){ .used = 1, .qpn = 7, .group.raw = { 0xff, 0x0e } };
	v->dm[0] = (struct xr_view_dm){ .used = 1, .dm = 8, .length = 4096, .mrs = 1 };
	v->xrcd[0] = (struct xr_view_xrcd){ .used = 1, .xrcd = 9, .domain = 9 };
}

/* Expected rows have client 2. */
static void replace_client(char *row, size_t size, uint32_t id)
{
	char *at = strstr(row, "\"client\":2,"), rest[200];

	if (!at)
		return;
	snprintf(rest, sizeof(rest), "%s", at + strlen("\"client\":2,"));
	snprintf(at, size - (size_t)(at - row), "\"client\":%u,%s", id, rest);
}

static void test_lists(void)
{
	static const char *const rows[XR_VIEW_LIST_COUNT] = {
		[XR_VIEW_QP] = "\"qpn\":1,",
		[XR_VIEW_SRQ] = "\"srq\":2,\"client\":2,\"type\":\"basic\",\"pd\":0,\"depth\":8,"
				"\"used\":5,\"limit\":0,\"qps\":3,",
		[XR_VIEW_CQ] = "\"cq\":3,",
		[XR_VIEW_MR] = "\"lkey\":4,",
		[XR_VIEW_MW] =
			"\"rkey\":5,\"client\":2,\"pd\":0,\"type\":2,\"bound\":true,\"mr\":4,",
		[XR_VIEW_AH] = "\"ah\":6,\"client\":2,\"pd\":0,\"gid_index\":1,\"peer\":\"::\","
			       "\"mac\":\"02:00:00:00:00:00\",",
		[XR_VIEW_MEMBER] = "\"group\":\"ff0e::\",\"client\":2,\"qpn\":7,",
		[XR_VIEW_DM] = "\"dm\":8,\"client\":2,\"length\":4096,\"mrs\":1,",
		[XR_VIEW_XRCD] =
			"\"xrcd\":9,\"client\":2,\"domain\":9,\"opened\":1,\"file\":false,",
	};
	struct conn c, observer;
	struct xr_view_file *v;
	char *text, row[200];
	bool ok;

	open_client(&c);
	open_observer(&observer);
	v = open_view(&c);
	fill_lists(v);
	for (uint32_t i = 0; i < XR_VIEW_LIST_COUNT; i++) {
		for (int detail = 0; detail < 2; detail++) {
			text = list(&observer, detail ? lists[i].details : lists[i].what);
			snprintf(row, sizeof(row), "%s", rows[i]);
			replace_client(row, sizeof(row), c.client->id);
			ok = strstr(text, row) && strstr(text, "\"path\":\"direct\"") &&
			     strstr(text, "\"comm\":\"");
			if (!ok)
				printf("# %s\n# %s\n", row, text);
			TAP_OK(ok, "an object of a direct program is in list %u%s", lists[i].what,
			       detail ? ", with details" : "");
			free(text);
		}
	}
	end_view(&c);
	munmap(v, XR_VIEW_SIZE);
	close_client(&c);
	close_client(&observer);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- claims --------------------------------------------------------------------------------- */

/* give_back 0: claims one */
static int claim(struct conn *c, uint32_t kind, uint32_t give_back)
{
	const struct xr_claim_req q = { .kind = kind, .count = !give_back, .give_back = give_back };
	int err = ask(c, XR_MSG_CLAIM, &q, sizeof(q));

	return err ? err : (int)((struct xr_claim_rep *)c->body)->count;
}

static void open_direct(struct conn *c, uint32_t claims[XR_CLAIMS])
{
	open_client(c);
	c->client->slot = 1;
	xd_claims_begin(c->client, claims);
}

static void end_direct(struct conn *c)
{
	xd_claims_end(c->client);
	c->client->slot = 0;
	close_client(c);
}

static void test_bad_claims(void)
{
	uint32_t claims[XR_CLAIMS] = { 0 };
	struct conn c;

	open_client(&c);
	TAP_OK(claim(&c, XR_KIND_QP, 0) == -EINVAL && reason_has(&c, "no slot"),
	       "a client without a slot claims nothing");
	close_client(&c);
	open_direct(&c, claims);
	TAP_OK(claim(&c, 0, 0) == -EINVAL && claim(&c, XR_CLAIMS, 0) == -EINVAL &&
		       claim(&c, UINT32_MAX, 0) == -EINVAL,
	       "there are no claims of other kinds");
	TAP_OK(claim(&c, XR_KIND_QP, claims[XR_KIND_QP] + 1) == -EINVAL &&
		       claim(&c, XR_KIND_QP, UINT32_MAX) == -EINVAL,
	       "a client cannot give back more than it has claimed");
	end_direct(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_claims(void)
{
	uint32_t max = fake.opt.max_qp, user = fake.opt.user_max_qp, none[XR_CLAIMS] = { 0 };
	uint32_t client = fake.opt.client_max_qp;
	struct conn a, b, daemon;
	struct xr_create_qp_req qp;
	uint32_t pd, cq;

	fake.opt.max_qp = fake.opt.client_max_qp = 4;
	open_direct(&a, none);
	open_direct(&b, none);
	open_client(&daemon);
	TAP_OK(!none[XR_KIND_QP], "of few objects, a context that is opened gets none");
	TAP_OK(claim(&a, XR_KIND_QP, 0) == 1 && claim(&b, XR_KIND_QP, 0) == 1,
	       "contexts get them one by one");
	pd = alloc_pd(&daemon);
	cq = create_cq(&daemon, 4, 0);
	create_qp(&daemon, pd, cq);
	TAP_OK(claim(&a, XR_KIND_QP, 0) == 1 && claim(&b, XR_KIND_QP, 0) == -ENOMEM &&
		       reason_has(&b, "--max-qp is 4"),
	       "the limit of the device includes them and the QPs by the daemon");
	TAP_OK(!claim(&a, XR_KIND_QP, 1) && claim(&b, XR_KIND_QP, 0) == 1,
	       "what a context gives back is there for others");
	fake.opt.client_max_qp = 2;
	TAP_OK(claim(&b, XR_KIND_QP, 0) == -ENOMEM && reason_has(&b, "--client-max-qp is 2"),
	       "the limit of clients holds");
	fake.opt.client_max_qp = 4;
	fake.opt.max_qp = 100;
	fake.opt.user_max_qp = 4;
	a.client->user->is_operator = false;
	TAP_OK(claim(&b, XR_KIND_QP, 0) == -EDQUOT && reason_has(&b, "--user-max-qp is 4"),
	       "the limit of users holds for all their programs together");
	qp = qp_request(pd, cq);
	TAP_OK(ask(&daemon, XR_MSG_CREATE_QP, &qp, sizeof(qp)) == -EDQUOT &&
		       reason_has(&daemon, "--user-max-qp is 4"),
	       "also for QPs by the daemon");
	a.client->user->is_operator = true;
	fake.opt.max_qp = max;
	fake.opt.client_max_qp = client;
	fake.opt.user_max_qp = user;
	end_direct(&a);
	end_direct(&b);
	close_client(&daemon);
	TAP_OK(nothing_left(), "the end of a client gives back its claims");
}

static int claim_pages(struct conn *c, uint32_t count)
{
	const struct xr_claim_req q = { .kind = XR_CLAIM_PAGES, .count = count };

	return ask(c, XR_MSG_CLAIM, &q, sizeof(q));
}

static void test_pages(void)
{
	uint32_t claims[XR_CLAIMS] = { 0 };
	uint64_t max = fake.opt.user_max_pinned;
	struct conn a, b;

	fake.opt.user_max_pinned = 100 * XR_CLAIM_PAGE;
	open_direct(&a, claims);
	open_direct(&b, claims);
	TAP_OK(!claim_pages(&a, 60) && claim_pages(&b, 41) == -EDQUOT &&
		       reason_has(&b, "--user-max-pinned is 409600"),
	       "the limit of registered memory holds for all programs of a user together");
	TAP_OK(claim_pages(&b, UINT32_MAX) == -EDQUOT, "also for the largest number");
	TAP_OK(xd_user_charge(b.client, (struct xd_bytes){ .pinned = 41 * XR_CLAIM_PAGE }) ==
		       -EDQUOT,
	       "and for regions by the daemon");
	TAP_OK(!claim_pages(&b, 40), "what is left can be claimed");
	end_direct(&a);
	end_direct(&b);
	fake.opt.user_max_pinned = max;
	TAP_OK(nothing_left(), "the end of a client gives back its claims");
}

/* A program has as many objects as it says, and no more than it has claimed. */
static void test_numbers(void)
{
	uint32_t claims[XR_CLAIMS] = { 0 }, max = fake.opt.max_mr, client = fake.opt.client_max_mr;
	struct xr_view_file *v;
	struct conn c;

	fake.opt.max_mr = fake.opt.client_max_mr = 1048576;
	open_direct(&c, claims);
	TAP_OK(claims[XR_KIND_MR] > 1 && claims[XR_KIND_MR] <= 1024,
	       "of many objects, a context that is opened gets a small part");
	TAP_OK(xd_view_objects(c.client, XR_KIND_MR) == claims[XR_KIND_MR],
	       "without a view, all that are claimed count");
	v = open_view(&c);
	v->head.objects[XR_KIND_MR] = 1;
	TAP_OK(xd_view_objects(c.client, XR_KIND_MR) == 1, "with a view, those that exist count");
	v->head.objects[XR_KIND_MR] = UINT32_MAX;
	TAP_OK(xd_view_objects(c.client, XR_KIND_MR) == claims[XR_KIND_MR],
	       "a view cannot show more than are claimed");
	end_view(&c);
	munmap(v, XR_VIEW_SIZE);
	end_direct(&c);
	fake.opt.max_mr = max;
	fake.opt.client_max_mr = client;
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- random bytes --------------------------------------------------------------------------- */

static struct {
	struct xr_view_file *v;
	bool stop;
} storing;

/* Pages where lists begin, so that records are read often */
static uint64_t first_page(uint32_t list)
{
	static const uint64_t offs[] = {
#define X(NAME, name, records) offsetof(struct xr_view_file, name),
		XR_VIEW_LISTS(X)
#undef X
	};

	return list < XR_VIEW_LIST_COUNT ? offs[list] / 4096 : 0;
}

static void *store(void *arg)
{
	uint8_t *p = (uint8_t *)storing.v, bytes[4096];
	uint64_t at = 0, page;

	while (!__atomic_load_n(&storing.stop, __ATOMIC_RELAXED)) {
		MUST(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
		at = (at * 6364136223846793005ull + bytes[0]) | 1;
		page = bytes[1] & 3 ? first_page(bytes[2] % 16) + bytes[3] % 2
				    : at % (XR_VIEW_SIZE / 4096);
		memcpy(p + page * 4096, bytes, sizeof(bytes));
		/* so that there are rows */
		for (uint32_t i = 0; i < XR_VIEW_LIST_COUNT; i++)
			storing.v->head.end[i] = i || bytes[2] & 1 ? 64 : UINT32_MAX;
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

static bool list_is_whole(struct conn *c, uint32_t what)
{
	char *text = list(c, what);
	bool whole = is_whole(text);

	free(text);
	return whole;
}

static void test_random(void)
{
	static const uint32_t others[] = { XR_SHOW_CLIENTS, XR_SHOW_LIMITS, XR_SHOW_COUNTERS,
					   XR_SHOW_STATUS };
	const uint64_t seconds = 2;
	enum { LEAST_LISTS = 20 }; /* each at least once, on a slow machine as well */
	uint64_t end = xd_now() + seconds * 1000000000, rounds = 0;
	struct conn c, observer;
	bool whole = true;
	pthread_t thread;
	uint32_t claims[XR_CLAIMS] = { 0 }, i;
	char *text;

	open_client(&c);
	open_observer(&observer);
	storing.v = open_view(&c);
	xd_claims_begin(c.client, claims);
	MUST(!xd_direct_rules_open(c.client));
	MUST(!pthread_create(&thread, NULL, store, NULL));
	while (xd_now() < end || rounds < LEAST_LISTS) {
		i = rounds % XR_VIEW_LIST_COUNT;
		whole &= list_is_whole(&observer, rounds & 1 ? lists[i].details : lists[i].what);
		whole &= list_is_whole(&observer, others[rounds++ % 4]);
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
	TAP_OK(list_is_whole(&observer, XR_SHOW_QPS), "holes are read");
	__atomic_store_n(&storing.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	xd_claims_end(c.client);
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
	test_lists();
	test_bad_claims();
	test_claims();
	test_pages();
	test_numbers();
	test_random();

	fake_server_stop();
	TAP_OK(!fake.server, "the server stops");
	return tap_end();
}
