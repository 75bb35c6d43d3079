// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SHOW of lists: the selection in the request, and pieces of long lists */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <xroce/show.h>
#include <xroce/view.h>

#include "control.h"
#include "daemon/server/direct_rules.h"
#include "daemon/server/view.h"

/* Behind the daemon's headers, which declare a function whose name is a macro here */
#include <jansson.h>

#define MANY 4000	      /* QPs */
#define VIEW_QPS 16384	      /* of a direct program: with details longer than XR_SHOW_WHOLE_MAX */
#define PIECE_MAX (512 << 10) /* bytes of a piece, the last row included */

static struct conn a, b, observer;

/* ---- requests ----------------------------------------------------------------------------- */

struct question {
	struct xr_show_req q;
	char text[2 * XR_SHOW_SELECT_BYTES];
};

static struct question about(uint32_t what)
{
	return (struct question){ .q = { .what = what, .flags = XR_SHOW_PIECES } };
}

static void add(struct question *s, const char *name, const char *value)
{
	size_t n = strlen(name) + 1, m = strlen(value) + 1;

	MUST(s->q.length + n + m <= sizeof(s->text));
	memcpy(s->text + s->q.length, name, n);
	memcpy(s->text + s->q.length + n, value, m);
	s->q.length += (uint32_t)(n + m);
}

static int put(const struct question *s)
{
	return ask(&observer, XR_MSG_SHOW, s, sizeof(s->q) + s->q.length);
}

/* Reads the text of the last reply, and closes its descriptor. */
static json_t *take_list(struct conn *c)
{
	uint64_t length = ((struct xr_show_rep *)c->body)->length;
	char *text = malloc(length + 1);
	json_t *list;

	MUST(text && c->nfds == 1);
	MUST(pread(c->fds[0], text, length + 1, 0) == (ssize_t)length);
	close(c->fds[0]);
	c->nfds = 0;
	text[length] = 0;
	list = json_loads(text, 0, NULL);
	if (!list)
		printf("# %.300s\n", text);
	free(text);
	MUST(json_is_array(list));
	return list;
}

static uint64_t next_place(const struct conn *c)
{
	return ((const struct xr_show_rep *)c->body)->next;
}

/* Asks for all pieces of a list. *pieces: their number; NULL: not needed */
static json_t *whole(struct question s, unsigned *pieces)
{
	json_t *all = json_array(), *piece;
	unsigned n = 0;

	do {
		MUST(!put(&s));
		s.q.from = next_place(&observer);
		MUST(((struct xr_show_rep *)observer.body)->length <= PIECE_MAX);
		piece = take_list(&observer);
		json_array_extend(all, piece);
		json_decref(piece);
		n++;
	} while (s.q.from);
	if (pieces)
		*pieces = n;
	return all;
}

/* ---- each member of each list ------------------------------------------------------------- */

/* Times change between two lists, and so does the memory of a user that the lists take. */
static bool is_volatile(const char *name)
{
	return !strcmp(name, "age_ns") || !strcmp(name, "created_ns") ||
	       !strcmp(name, "user_bytes");
}

static bool text_of(const json_t *v, char text[128])
{
	if (json_is_string(v))
		snprintf(text, 128, "%s", json_string_value(v));
	else if (json_is_boolean(v))
		snprintf(text, 128, "%s", json_is_true(v) ? "yes" : "no");
	else if (json_is_integer(v))
		snprintf(text, 128, "%lld", (long long)json_integer_value(v));
	else
		return false;
	return true;
}

static size_t count_equal(const json_t *list, const char *name, const json_t *v)
{
	size_t i, n = 0;
	json_t *row;

	json_array_foreach((json_t *)list, i, row) n += json_equal(json_object_get(row, name), v);
	return n;
}

/* Returns true if the rows with the value of a row are selected by it, and no others. */
static bool selects(uint32_t what, const json_t *list, const char *name, const json_t *v)
{
	struct question s = about(what);
	char value[128];
	json_t *some;
	bool ok;

	if (is_volatile(name) || !text_of(v, value))
		return true;
	add(&s, name, value);
	some = whole(s, NULL);
	ok = json_array_size(some) == count_equal(list, name, v) &&
	     count_equal(some, name, v) == json_array_size(some);
	if (!ok)
		printf("# SHOW %u, %s %s: %zu rows\n", what, name, value, json_array_size(some));
	json_decref(some);
	return ok;
}

static bool is_named(const struct xr_list *list, bool details, const char *name)
{
	enum xr_member_type type;
	size_t n = strlen(name);

	return xr_find_member(list->names, name, n, &type) ||
	       (details && xr_find_member(list->details, name, n, &type));
}

static bool has_names(const char *names, const json_t *row)
{
	const char *name;
	char text[64];
	size_t n;
	bool all = true;

	while ((name = xr_next_member(&names, &n))) {
		snprintf(text, sizeof(text), "%.*s", (int)n, name);
		if (!json_object_get(row, text)) {
			printf("# no %s\n", text);
			all = false;
		}
	}
	return all;
}

static void test_list(uint32_t what, size_t rows)
{
	const struct xr_list *names = xr_list_of(what);
	bool details = names->details_what == what, named = true, selected = true;
	json_t *list = whole(about(what), NULL), *row, *v;
	const char *name;
	size_t i;

	json_array_foreach(list, i, row)
	{
		named &= has_names(names->names, row) &&
			 (!details || has_names(names->details, row));
		json_object_foreach(row, name, v)
		{
			named &= is_named(names, details, name) || json_is_object(v);
			selected &= selects(what, list, name, v);
		}
	}
	TAP_OK(json_array_size(list) == rows, "SHOW %u: %zu rows", what, rows);
	TAP_OK(named, "they have the members of show.h and no others");
	TAP_OK(selected, "each of their values selects the rows that have it");
	json_decref(list);
}

/* Objects of a direct program */
static struct xr_view_file *make_view(struct conn *c)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	int fd = memfd_create("view", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xr_view_file *v;

	MUST(fd >= 0 && !ftruncate(fd, XR_VIEW_SIZE) && !fcntl(fd, F_ADD_SEALS, seals));
	v = mmap(NULL, XR_VIEW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(v != MAP_FAILED);
	v->head.layout = XR_VIEW_LAYOUT;
	MUST(!xd_view_open(c->client, &fd));
	return v;
}

static void end_view(struct conn *c, struct xr_view_file *v)
{
	xd_direct_rules_close(c->client);
	xd_view_close(c->client);
	munmap(v, XR_VIEW_SIZE);
}

static void fill_view(struct xr_view_file *v)
{
	for (uint32_t i = 0; i < XR_VIEW_LIST_COUNT; i++)
		v->head.end[i] = 200;
	v->qp[150] = (struct xr_view_qp){ .used = 1, .qpn = 4661, .type = XR_QPT_UD };
	v->srq[150] = (struct xr_view_srq){ .used = 1, .srq = 4662 };
	v->cq[150] = (struct xr_view_cq){ .used = 1, .cq = 4663 };
	v->mr[150] = (struct xr_view_mr){ .used = 1, .key = 4664 };
	v->mw[150] = (struct xr_view_mw){ .used = 1, .key = 4665 };
	v->ah[150] = (struct xr_view_ah){ .used = 1, .ah = 4666 };
	v->member[150] = (struct xr_view_member){ .used = 1, .qpn = 4661 };
	v->dm[150] = (struct xr_view_dm){ .used = 1, .dm = 4668 };
	v->xrcd[150] = (struct xr_view_xrcd){ .used = 1, .xrcd = 4669 };
}

/* Creates an object of each kind. */
static void make_all_kinds(struct conn *c, uint8_t group)
{
	static uint8_t memory[4096];
	struct xr_alloc_mw_req mw = { .type = IBV_MW_TYPE_2 };
	struct xr_alloc_dm_req dm = { .length = 12345 };
	uint32_t pd = mw.pd = alloc_pd(c), ud = create_datagram_qp(c);

	MUST(!to_init(c, create_qp(c, pd, create_cq(c, 16, 0))));
	MUST(!mcast(c, XR_MSG_ATTACH_MCAST, ud, group) && create_srq(c, pd, 10));
	MUST(!mcast(c, XR_MSG_ATTACH_MCAST, ud, 9));
	MUST(!ask(c, XR_MSG_ALLOC_MW, &mw, sizeof(mw)) &&
	     !ask(c, XR_MSG_ALLOC_DM, &dm, sizeof(dm)));
	MUST(!create_ah(c, pd, 0) && !open_xrcd(c, "/dev/null", XR_XRCDF_CREAT));
	proc_sent = false;
	MUST(!reg_private(c, pd, memory, sizeof(memory), RW));
	proc_sent = true;
}

/* XRC target QPs, whose number several handles have */
static void make_targets(struct conn *c)
{
	struct xr_create_qp_req q = { .type = XR_QPT_XRC_RECV };
	struct xr_open_qp_req again = { 0 };

	MUST(!open_xrcd(c, NULL, XR_XRCDF_CREAT));
	q.xrcd = again.xrcd = handle_of(c);
	MUST(!ask(c, XR_MSG_CREATE_QP, &q, sizeof(q)));
	again.qpn = ((struct xr_create_qp_rep *)c->body)->qpn;
	MUST(!ask(c, XR_MSG_OPEN_QP, &again, sizeof(again)));
}

static void test_members(void)
{
	static const struct {
		uint32_t what;
		size_t rows;
	} lists[] = {
		{ XR_SHOW_QPS, 7 },	   { XR_SHOW_QP_DETAILS, 7 },  { XR_SHOW_MRS, 3 },
		{ XR_SHOW_MR_DETAILS, 3 }, { XR_SHOW_CQS, 5 },	       { XR_SHOW_CQ_DETAILS, 5 },
		{ XR_SHOW_SRQS, 3 },	   { XR_SHOW_SRQ_DETAILS, 3 }, { XR_SHOW_AHS, 3 },
		{ XR_SHOW_AH_DETAILS, 3 }, { XR_SHOW_MWS, 3 },	       { XR_SHOW_MW_DETAILS, 3 },
		{ XR_SHOW_GROUPS, 5 },	   { XR_SHOW_DMS, 3 },	       { XR_SHOW_XRCDS, 4 },
		{ XR_SHOW_CLIENTS, 3 },
	};
	struct xr_view_file *v;

	make_all_kinds(&a, 7);
	make_all_kinds(&b, 8);
	make_targets(&b);
	v = make_view(&a);
	fill_view(v);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		test_list(lists[i].what, lists[i].rows);
	end_view(&a, v);
}

/* ---- several values and names ------------------------------------------------------------- */

static size_t rows_of(struct question s)
{
	json_t *list = whole(s, NULL);
	size_t n = json_array_size(list);

	json_decref(list);
	return n;
}

static size_t count(uint32_t what, const char *name, const char *value)
{
	struct question s = about(what);

	add(&s, name, value);
	return rows_of(s);
}

static void test_values(void)
{
	struct question s = about(XR_SHOW_QPS);
	char ids[64];

	snprintf(ids, sizeof(ids), "0x%x,%u,99", a.client->id, b.client->id);
	TAP_OK(count(XR_SHOW_CLIENTS, "client", ids) == 2,
	       "a value may be several, in hexadecimal");
	TAP_OK(count(XR_SHOW_QPS, "state", "init,Reset") == 6, "texts in any case");
	TAP_OK(count(XR_SHOW_QPS, "state,type", "INIT,UD") == 4, "one of several members");
	TAP_OK(count(XR_SHOW_GROUPS, "group", "FF0E:0::7") == 1, "an address in any spelling");
	TAP_OK(!count(XR_SHOW_QPS, "qpn", "0xffffffffffff") && !count(XR_SHOW_MRS, "lkey", "0") &&
		       !count(XR_SHOW_CQS, "cq", "0") && !count(XR_SHOW_CQS, "cq", "4294967297"),
	       "numbers that nothing has select nothing");
	TAP_OK(!count(XR_SHOW_QPS, "comm", ""), "nor does an empty text");
	add(&s, "type", "UD");
	add(&s, "client", ids);
	TAP_OK(rows_of(s) == 2, "rows have all values of a selection");
	add(&s, "type", "RC");
	TAP_OK(!rows_of(s), "also if two are of one member");
}

/* ---- bad requests ------------------------------------------------------------------------- */

static void refused(const struct question *s, const char *why, const char *what)
{
	TAP_OK(put(s) == -EINVAL && reason_has(&observer, why), "%s: %s", what, why);
}

static void refused_pair(uint32_t what, const char *name, const char *value, const char *why)
{
	struct question s = about(what);

	add(&s, name, value);
	refused(&s, why, name);
}

static void test_bad_selections(void)
{
	struct question s;

	refused_pair(XR_SHOW_QPS, "lkey", "1", "'lkey' is no member of this list");
	refused_pair(XR_SHOW_QPS, "qp", "1", "'qp' is no member of this list");
	refused_pair(XR_SHOW_QPS, "tx_bytes", "1", "'tx_bytes' is no member of this list");
	refused_pair(XR_SHOW_QPS, "qpn", "17,x", "qpn: 'x' is no number");
	refused_pair(XR_SHOW_QPS, "qpn", "-1", "qpn: '-1' is no number");
	refused_pair(XR_SHOW_QPS, "qpn", "99999999999999999999", "is no number");
	refused_pair(XR_SHOW_QPS, "local", "true", "local: 'true' is neither 'yes' nor 'no'");
	refused_pair(XR_SHOW_QP_DETAILS, "rtt", "1", "'rtt' has several values");
	refused_pair(XR_SHOW_QPS, "a\033[2J\n", "1", "'a?[2J?' is no member");
	refused_pair(XR_SHOW_QPS, "", "1", "a value without a name");
	refused_pair(XR_SHOW_QPS, ",", "1", "a value without a name");
	refused_pair(XR_SHOW_QPS, "state,nothing", "INIT", "'nothing' is no member");
	s = about(XR_SHOW_QPS);
	memset(s.text, 'n', sizeof(s.text));
	s.q.length = XR_SHOW_SELECT_BYTES;
	refused(&s, "does not end with NUL", "a text without end");
	s.q.length++;
	refused(&s, "more than 4096 bytes", "a long text");
	s.q.length--;
	s.text[XR_SHOW_SELECT_BYTES - 1] = 0;
	refused(&s, "has no value in the selection", "a long name alone");
	s = about(XR_SHOW_QPS);
	for (int i = 0; i <= XR_SHOW_SELECT_MAX; i++)
		add(&s, "qpn", "1");
	refused(&s, "more than 16 names", "too many");
}

static void test_bad_requests(void)
{
	struct question s = about(XR_SHOW_QPS);

	s.q.length = 4;
	TAP_OK(ask(&observer, XR_MSG_SHOW, &s, sizeof(s.q) + 3) == -EINVAL &&
		       reason_has(&observer, "a selection of 4 bytes in a body of"),
	       "a selection that is longer than the request is refused");
	s.q.length = UINT32_MAX;
	TAP_OK(ask(&observer, XR_MSG_SHOW, &s, sizeof(s.q)) == -EINVAL, "of any length");
	TAP_OK(ask(&observer, XR_MSG_SHOW, &s, offsetof(struct xr_show_req, reserved)) == -EINVAL,
	       "also in a body that ends behind the length");
	TAP_OK(ask(&observer, XR_MSG_SHOW, &s, 4) == -EINVAL, "a body without flags is refused");
	s = about(XR_SHOW_QPS);
	s.q.flags |= 2;
	refused(&s, "flags 0x3", "unknown flags");
	s.q.flags = 0;
	s.q.from = 1;
	refused(&s, "without XR_SHOW_PIECES", "a place in a list that is not made in pieces");
	s = about(XR_SHOW_STATUS);
	add(&s, "device", "x");
	refused(&s, "what 1 has no rows", "a selection of the status");
	s = about(99);
	TAP_OK(put(&s) == -EINVAL, "a list that does not exist");
	s = about(XR_SHOW_QPS);
	s.q.from = UINT64_MAX;
	TAP_OK(rows_of(s) == 6, "a place before all clients is the beginning");
	s.q.from = 1;
	TAP_OK(!rows_of(s), "a place behind all clients is the end");
	s.q.from = (uint64_t)b.client->id << 32 | 0x7fffffff;
	TAP_OK(rows_of(s) == 2, "a handle that no object has is a place as well");
}

/* ---- pieces ------------------------------------------------------------------------------- */

static uint32_t make_many(struct conn *c)
{
	struct xr_create_qp_req q = qp_request(alloc_pd(c), create_cq(c, 16, 0));
	uint32_t last = 0;

	for (int i = 0; i < MANY; i++) {
		MUST(!ask_now(c, XR_MSG_CREATE_QP, &q, sizeof(q)));
		last = ((struct xr_create_qp_rep *)c->body)->handle;
	}
	return last;
}

static void destroy(struct conn *c, uint32_t handle)
{
	struct xr_handle_req q = { .handle = handle };

	MUST(!ask_now(c, XR_MSG_DESTROY_QP, &q, sizeof(q)));
}

static bool appears_once(const json_t *list)
{
	json_t *seen = json_object(), *row;
	char qpn[32];
	size_t i;
	bool once = true;

	json_array_foreach((json_t *)list, i, row)
	{
		snprintf(qpn, sizeof(qpn), "%lld",
			 (long long)json_integer_value(json_object_get(row, "qpn")));
		once &= !json_object_get(seen, qpn);
		json_object_set_new(seen, qpn, json_true());
	}
	json_decref(seen);
	return once;
}

static void send_question(const struct question *s)
{
	struct xr_msg head = { .type = XR_MSG_SHOW,
			       .seq = ++observer.seq,
			       .length = (uint32_t)(sizeof(s->q) + s->q.length) };
	uint8_t data[sizeof(head) + sizeof(*s)];

	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), s, head.length);
	send_raw(&observer, data, sizeof(head) + head.length, NULL, 0);
}

/* The requests of both are there before the loop runs, that of the list first. */
static void test_others(void)
{
	struct question s = about(XR_SHOW_QP_DETAILS);
	struct xr_msg head = { .type = XR_MSG_QUERY_GIDS, .seq = ++a.seq };
	unsigned between = 0, pieces = 0;

	do {
		send_question(&s);
		if (pieces == 1)
			send_raw(&a, &head, sizeof(head), NULL, 0);
		settle();
		MUST(!read_reply(&observer));
		s.q.from = next_place(&observer);
		if (pieces == 1)
			between += !read_reply(&a) && s.q.from;
		json_decref(take_list(&observer));
		pieces++;
	} while (s.q.from);
	TAP_OK(between == 1 && pieces > 10, "another client is served between two of %u pieces",
	       pieces);
}

/* Between pieces, QPs end before and behind the place, and others begin. */
static void test_changes(uint32_t last)
{
	struct question s = about(XR_SHOW_QPS);
	json_t *all = json_array(), *piece;
	struct conn more;
	uint32_t first = last - MANY + 1;
	size_t n;

	add(&s, "type", "RC,UD"); /* target QPs of XRC have several rows */
	/* a piece that took its time before the first row is empty */
	do {
		MUST(!put(&s));
		s.q.from = next_place(&observer);
		piece = take_list(&observer);
		n = json_array_size(piece);
		json_array_extend(all, piece);
		json_decref(piece);
	} while (s.q.from && !n);
	MUST(s.q.from);
	for (uint32_t i = 0; i < 10; i++) {
		destroy(&b, first + i);
		destroy(&b, last - i);
	}
	open_client(&more);
	create_datagram_qp(&more);
	create_datagram_qp(&b);
	piece = whole(s, NULL);
	json_array_extend(all, piece);
	TAP_OK(json_array_size(all) >= MANY - 20 && json_array_size(all) <= MANY + 8 &&
		       appears_once(all),
	       "QPs that exist all the time are listed once, %zu of %u", json_array_size(all),
	       MANY);
	json_decref(piece);
	json_decref(all);
	close_client(&more);
}

static void test_lookups(void)
{
	struct question s = about(XR_SHOW_QP_DETAILS);
	json_t *list = whole(about(XR_SHOW_QPS), NULL);
	json_t *row = json_array_get(list, json_array_size(list) / 2);
	unsigned pieces;
	char qpn[32];

	snprintf(qpn, sizeof(qpn), "%lld",
		 (long long)json_integer_value(json_object_get(row, "qpn")));
	json_decref(list);
	add(&s, "qpn", qpn);
	list = whole(s, &pieces);
	TAP_OK(json_array_size(list) == 1 && pieces == 1, "one QP of many takes one reply");
	json_decref(list);
	add(&s, "state", "RTS");
	TAP_OK(!rows_of(s), "it has to have the other values, too");
}

static void test_old_requests(void)
{
	struct xr_show_req q = { .what = XR_SHOW_QPS };
	struct xr_view_file *v;
	json_t *list;
	const size_t old = 8;

	MUST(!ask(&observer, XR_MSG_SHOW, &q, old));
	TAP_OK(!next_place(&observer), "an older command gets the whole list");
	list = take_list(&observer);
	TAP_OK(json_array_size(list) > MANY - 100, "which is %zu QPs", json_array_size(list));
	json_decref(list);
	v = make_view(&a);
	v->head.end[XR_VIEW_QP] = VIEW_QPS;
	for (uint32_t i = 0; i < VIEW_QPS; i++)
		v->qp[i] = (struct xr_view_qp){ .used = 1, .qpn = 1 << 23 | i };
	TAP_OK(rows_of(about(XR_SHOW_QP_DETAILS)) > VIEW_QPS + MANY - 100,
	       "pieces have the QPs of direct programs as well");
	q.what = XR_SHOW_QP_DETAILS;
	TAP_OK(ask(&observer, XR_MSG_SHOW, &q, old) == -EFBIG &&
		       reason_has(&observer, "the list is longer than 16 MiB"),
	       "but none of any length");
	end_view(&a, v);
	settle(); /* its descriptor is closed */
}

static void test_unread(void)
{
	struct question s = about(XR_SHOW_QPS);
	int fds = open_fds(), second;

	send_question(&s);
	send_question(&s);
	settle();
	observer.seq--;
	MUST(!read_reply(&observer));
	json_decref(take_list(&observer));
	observer.seq++;
	second = read_reply(&observer);
	TAP_OK(second == -EBUSY && reason_has(&observer, "has not read the last reply"),
	       "a client gets a reply when it has read the last one");
	TAP_OK(!put(&s), "it may ask again then");
	json_decref(take_list(&observer));
	TAP_OK(open_fds() == fds, "no descriptor is left");
	send_question(&s);
}

int main(void)
{
	uint32_t last;

	start_server("show");
	fake.opt.max_qp = fake.opt.client_max_qp = 2 * MANY;
	fake.opt.user_max_memory = 4ull << 30;
	open_client(&a);
	close(events_fd);
	open_client(&b);
	connect_client(&observer);
	MUST(!hello(&observer, XR_HELLO_OBSERVER));
	test_members();
	test_values();
	test_bad_selections();
	test_bad_requests();
	last = make_many(&b);
	test_others();
	test_changes(last);
	test_lookups();
	test_old_requests();
	test_unread();
	disconnect(&observer);
	disconnect(&a);
	close_client(&b);
	TAP_OK(nothing_left(), "nothing is left of a client that left with a list half read");
	fake_server_stop();
	return tap_end();
}
