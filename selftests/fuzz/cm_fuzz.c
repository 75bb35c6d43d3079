// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The CM engine with hostile peers and any user. For all messages that arrive, and all calls of the
 * user in any order: limits hold, events come in a legal order, and nothing is left when the user
 * has destroyed all ids.
 *
 * Input: steps, each an action byte followed by the values that the action reads; see step().
 */
#include <errno.h>

#include "daemon/cm/mad.h"
#include "input.h"

#define MAX_IDS 24
#define MAX_HALF_OPEN 10
#define MAX_SOURCE_HALF_OPEN 4
#define HISTORY 8
#define GUID 0x0200000000000001ull

/* An id as its user sees it */
struct user {
	struct xc_id *id;
	bool sidr, active;
	bool ended;    /* an event has reported the end */
	bool up;       /* the connection was established */
	bool timewait; /* TIMEWAIT_EXIT was reported */
};

static struct xc_cm *cm;
static uint64_t now, seed;
static struct user users[MAX_IDS];
static struct {
	struct xc_path path;
	uint8_t mad[XC_MAD_LEN];
} sent[HISTORY];
static unsigned sent_count;
static uint8_t policy; /* of the user in events, see react() */
static bool in_connect;

/* Addresses as in the captures: this host, and three peers */
static struct xr_addr gid_of(unsigned n)
{
	struct xr_addr gid = { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 0 } };

	if (n == 3)
		memset(&gid, 0xfd, sizeof(gid));
	else
		gid.raw[15] = n == 0 ? 2 : n == 1 ? 1 : 3;
	return gid;
}

/* ---- user ------------------------------------------------------------------------ */

static struct user *free_user(void)
{
	for (unsigned i = 0; i < MAX_IDS; i++)
		if (!users[i].id)
			return &users[i];
	return NULL;
}

static struct user *pick_user(uint8_t n)
{
	struct user *u = &users[n % MAX_IDS];

	return u->id ? u : NULL;
}

static void destroy(struct user *u, bool ignore)
{
	struct xc_id *id = u->id;

	memset(u, 0, sizeof(*u));
	if (ignore)
		xc_ignore(id);
	else
		xc_destroy(id);
}

static const uint8_t bytes[XC_MAD_LEN] = { 'p', 'r', 'i', 'v', 'a', 't', 'e' };

static struct xc_data some_data(uint8_t n)
{
	return (struct xc_data){ bytes, n };
}

static int do_accept(struct user *u, uint8_t n)
{
	return xc_accept(u->id, &(struct xc_rep){ .qpn = 0x100u + n, .data = some_data(n) });
}

static int do_reject(struct user *u, uint8_t n)
{
	return xc_reject(
		u->id,
		&(struct xc_rej){ .reason = n, .ari = some_data(n & 0x7f), .data = some_data(n) });
}

static int do_sidr_reply(struct user *u, uint8_t n)
{
	return xc_sidr_reply(u->id, &(struct xc_sidr_rep){ .status = n & 7,
							   .info = some_data(n & 0x7f),
							   .data = some_data(n) });
}

/* Reacts within an event. Bits of `policy`: what to do; bit 7: destroy the id. */
static void react(struct user *u, enum xc_event_type type)
{
	struct xc_data data = some_data(policy & 0xf);
	bool request = type == XC_EVENT_REQ || type == XC_EVENT_SIDR_REQ;

	if (policy & 1 && type == XC_EVENT_REQ)
		do_accept(u, policy);
	if (policy & 1 && type == XC_EVENT_SIDR_REQ)
		do_sidr_reply(u, policy);
	if (policy & 2 && type == XC_EVENT_REP)
		xc_establish(u->id, &data);
	if (policy & 4 && type == XC_EVENT_DREQ)
		xc_reply_disconnect(u->id, &data);
	if (policy & 8)
		xc_mra(u->id, policy & 31);
	if (policy & 0x80)
		destroy(u, request && !(policy & 0x49));
}

static void check_order(struct user *u, enum xc_event_type type)
{
	enum xc_state state = xc_info(u->id)->state;

	MUST(!u->timewait);
	switch (type) {
	case XC_EVENT_REP:
		MUST(u->active && !u->sidr && !u->up && !u->ended && state == XC_REP_RCVD);
		u->up = true;
		break;
	case XC_EVENT_ESTABLISHED:
		MUST(!u->active && !u->sidr && !u->up && !u->ended && state == XC_ESTABLISHED);
		u->up = true;
		break;
	case XC_EVENT_REJECTED:
	case XC_EVENT_UNREACHABLE:
		MUST(!u->ended);
		u->ended = true;
		break;
	case XC_EVENT_DREQ:
		MUST(!u->sidr && !u->ended && (state == XC_DREQ_RCVD || state == XC_TIMEWAIT));
		u->ended = true;
		break;
	case XC_EVENT_DISCONNECTED:
		MUST(!u->sidr && !u->ended && state == XC_TIMEWAIT);
		u->ended = true;
		break;
	case XC_EVENT_TIMEWAIT_EXIT:
		MUST(!u->sidr && state == XC_IDLE);
		u->timewait = true;
		break;
	case XC_EVENT_SIDR_REP:
		MUST(u->sidr && u->active && !u->ended && state == XC_IDLE);
		u->ended = true;
		break;
	default:
		MUST(false);
	}
}

static void on_event(void *ctx, struct xc_id *id, const struct xc_event *event)
{
	bool request = event->type == XC_EVENT_REQ || event->type == XC_EVENT_SIDR_REQ;
	struct user *u = xc_info(id)->owner;

	MUST(!in_connect);
	MUST(!event->msg || event->msg->kind < XC_NUM_KINDS);
	MUST(request == !u);
	if (request) {
		u = free_user();
		MUST(u && event->msg);
		*u = (struct user){ .id = id, .sidr = event->type == XC_EVENT_SIDR_REQ };
		xc_set_owner(id, u);
	} else {
		MUST(u->id == id);
		check_order(u, event->type);
	}
	react(u, event->type);
}

/* ---- engine ---------------------------------------------------------------------- */

static void on_send(void *ctx, const struct xc_path *path, const uint8_t mad[XC_MAD_LEN])
{
	unsigned slot = sent_count++ % HISTORY;
	struct xr_addr own = gid_of(0);
	struct xc_msg msg;

	MUST(xc_mad_decode(mad, XC_MAD_LEN, &msg) == XC_DECODED);
	MUST(xr_gid_equal(&path->local, &own));
	sent[slot].path = *path;
	memcpy(sent[slot].mad, mad, XC_MAD_LEN);
}

static uint64_t on_now(void *ctx)
{
	return now;
}

/* The same numbers in each run, and small ones, so that inputs can contain them */
static void on_random(void *ctx, void *buf, size_t len)
{
	memset(buf, 0, len);
	seed++;
	memcpy(buf, &seed, len < sizeof(seed) ? len : sizeof(seed));
}

static const struct xc_ops ops = {
	.send = on_send,
	.event = on_event,
	.now = on_now,
	.random = on_random,
};

static bool is_half_open(enum xc_state state)
{
	return state == XC_REQ_RCVD || state == XC_MRA_REQ_SENT || state == XC_REP_SENT ||
	       state == XC_MRA_REP_RCVD || state == XC_SIDR_REQ_RCVD;
}

static void check_ids(void)
{
	struct xc_gauges g = xc_gauges(cm);
	unsigned ids = 0, owned = 0, half_open = 0, of_users = 0;

	for (struct xc_id *id = xc_next(cm, NULL); id; id = xc_next(cm, id)) {
		const struct xc_info *info = xc_info(id);

		ids++;
		owned += !info->orphan;
		half_open += is_half_open(info->state);
		MUST(info->state < XC_NUM_STATES && xc_state_name(info->state));
		MUST(info->orphan || ((struct user *)info->owner)->id == id);
		/* An exchange that was destroyed waits for no request to be accepted. */
		MUST(!info->orphan || !is_half_open(info->state));
	}
	for (unsigned i = 0; i < MAX_IDS; i++)
		of_users += !!users[i].id;
	MUST(owned == of_users && ids == g.ids && half_open == g.half_open);
	MUST(ids <= MAX_IDS && half_open <= MAX_HALF_OPEN && g.sources <= half_open);
}

static void run(void)
{
	xc_run(cm);
	MUST(xc_deadline(cm) > now);
}

/* ---- received MADs ---------------------------------------------------------------- */

static void receive(unsigned peer, const uint8_t *mad, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);
	struct xc_path path = { .local = gid_of(0), .peer = gid_of(peer & 3), .hop_limit = 64 };

	memcpy(exact, mad, len);
	xc_receive(cm, &path, exact, len);
	free(exact);
}

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Sets the numbers of a MAD to those that the engine expects from this peer. */
static void fit(uint8_t *mad, unsigned peer, const struct user *u)
{
	const struct xc_info *info = u ? xc_info(u->id) : NULL;
	unsigned kind = mad[17] - 0x10u;
	struct xr_addr own = gid_of(0), from = gid_of(peer & 3);

	if (kind == XC_REQ) {
		memcpy(mad + 24 + 56, &from, sizeof(from));
		memcpy(mad + 24 + 72, &own, sizeof(own));
		mad[24 + 43] &= 0xf9;
		return;
	}
	if (!info || kind == XC_SIDR_REQ)
		return;
	put32(mad + 24 + (kind == XC_SIDR_REP ? 0 : 4), info->local_id);
	if (info->remote_id && kind != XC_SIDR_REP)
		put32(mad + 24, info->remote_id);
	if (kind == XC_DREQ)
		put32(mad + 24 + 8, info->local_qpn << 8);
}

/* Bits 1:0 of the first byte: the peer; bit 2: leave the numbers as they are. */
static void raw_mad(struct stream *in)
{
	uint8_t how = input_u8(in), n = input_u8(in), mad[XC_MAD_LEN + 8];
	unsigned len = how & 0x80 ? input_u16(in) % sizeof(mad) : XC_MAD_LEN;

	input_bytes(in, mad, len);
	if (len == XC_MAD_LEN && !(how & 4))
		fit(mad, how, pick_user(n));
	receive(how, mad, len);
}

/* A MAD of a given kind with few bytes of input: small numbers, and some bytes anywhere */
static void short_mad(struct stream *in)
{
	uint8_t how = input_u8(in), n = input_u8(in), kind = input_u8(in);
	uint8_t mad[XC_MAD_LEN] = { 1, 7, 2, 3 };

	mad[15] = input_u8(in);
	mad[17] = 0x10 + kind % XC_NUM_KINDS;
	mad[24 + 3] = input_u8(in);	   /* local communication ID */
	mad[24 + 23] = 1;		   /* GUID */
	mad[24 + 34] = input_u8(in) & 0xf; /* QPN */
	mad[24 + 47] = 16 << 3;		   /* response timeout */
	mad[24 + 51] = 3 << 4;		   /* retries */
	for (unsigned i = how >> 4; i; i--) {
		uint8_t at = input_u8(in);

		mad[at] = input_u8(in);
	}
	if (!(how & 4))
		fit(mad, how, pick_user(n));
	receive(how, mad, sizeof(mad));
}

/* Returns a MAD that the engine has sent, from its destination or from another peer. */
static void reflect(struct stream *in)
{
	uint8_t how = input_u8(in);
	unsigned slot = how % HISTORY;

	if (slot < sent_count)
		receive(how >> 6, sent[slot].mad, XC_MAD_LEN);
}

/* ---- calls of the user ------------------------------------------------------------- */

static void connect_to(struct stream *in)
{
	uint8_t how = input_u8(in), timeout = input_u8(in), n = input_u8(in);
	struct xc_req req = {
		.path = { .local = gid_of(0), .peer = gid_of(how & 3), .hop_limit = 64 },
		.service_id = xc_ip_service_id(0x106, 7174),
		.transport = how >> 2 & 3,
		.qpn = 0x200u + n,
		.remote_response_timeout = timeout & 31,
		.local_response_timeout = 16,
		.max_cm_retries = timeout >> 5,
		.ack_timeout = how >> 4,
		.mtu = 3,
		.data = some_data(n),
	};
	struct user *u = free_user();
	int err;

	if (!u)
		return;
	in_connect = true;
	err = xc_connect(cm, &req, u, &u->id);
	in_connect = false;
	MUST(err == (req.transport > XC_XRC || n > XC_REQ_DATA ? -EINVAL
		     : xc_gauges(cm).ids >= MAX_IDS && !u->id  ? -EMFILE
							       : 0));
	u->active = !err;
}

static void resolve(struct stream *in)
{
	uint8_t how = input_u8(in), n = input_u8(in);
	struct xc_sidr_param param = {
		.path = { .local = gid_of(0), .peer = gid_of(how & 3), .hop_limit = 64 },
		.response_timeout = how >> 3,
		.max_cm_retries = n & 15,
		.req = { .service_id = n, .data = some_data(n) },
	};
	struct user *u = free_user();
	int err;

	if (!u)
		return;
	in_connect = true;
	err = xc_sidr_request(cm, &param, u, &u->id);
	in_connect = false;
	MUST(!err || !u->id);
	u->active = u->sidr = !err;
}

static void call(struct stream *in)
{
	struct user *u = pick_user(input_u8(in));
	uint8_t which = input_u8(in), n = input_u8(in);
	struct xc_data data = some_data(n);
	enum xc_state before;
	int err;

	if (!u)
		return;
	before = xc_info(u->id)->state;
	switch (which % 9) {
	case 0:
		err = do_accept(u, n);
		break;
	case 1:
		err = do_reject(u, n);
		break;
	case 2:
		err = xc_mra(u->id, n);
		break;
	case 3:
		err = xc_establish(u->id, n ? &data : NULL);
		break;
	case 4:
		err = xc_notify_established(u->id);
		MUST(err != -EISCONN || before == XC_ESTABLISHED);
		return; /* the event may have destroyed the id */
	case 5:
		err = xc_disconnect(u->id, n ? &data : NULL);
		break;
	case 6:
		err = xc_reply_disconnect(u->id, n ? &data : NULL);
		break;
	case 7:
		err = do_sidr_reply(u, n);
		break;
	default:
		destroy(u, false);
		return;
	}
	MUST(err == 0 || err == -EINVAL);
	MUST(!err || xc_info(u->id)->state == before);
	if (!err && which % 9 == 1)
		u->ended = true;
}

/* ---- steps ------------------------------------------------------------------------- */

static void pass_time(struct stream *in)
{
	uint8_t how = input_u8(in);
	uint64_t deadline = xc_deadline(cm);

	if (how & 0x80 && deadline != XC_NEVER)
		now = deadline;
	else
		now += (uint64_t)(how & 0x7f) << 26;
	run();
}

static void step(struct stream *in)
{
	switch (input_u8(in) & 7) {
	case 0:
		raw_mad(in);
		break;
	case 1:
		short_mad(in);
		break;
	case 2:
		reflect(in);
		break;
	case 3:
		connect_to(in);
		break;
	case 4:
		resolve(in);
		break;
	case 5:
		call(in);
		break;
	case 6:
		pass_time(in);
		break;
	case 7:
		policy = input_u8(in);
		break;
	}
}

/* Destroys all ids. The engine must free them after some time, without any response. */
static void finish(void)
{
	for (unsigned i = 0; i < MAX_IDS; i++)
		if (users[i].id)
			destroy(&users[i], false);
	for (unsigned i = 0; xc_deadline(cm) != XC_NEVER; i++) {
		MUST(i < MAX_IDS * 20);
		now = xc_deadline(cm) > now ? xc_deadline(cm) : now;
		run();
	}
	MUST(!xc_gauges(cm).ids && !xc_gauges(cm).half_open && !xc_gauges(cm).sources);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xc_config config = {
		.guid = GUID,
		.mra_timeout = 18,
		.max_ids = MAX_IDS,
		.max_half_open = MAX_HALF_OPEN,
		.max_source_half_open = MAX_SOURCE_HALF_OPEN,
	};
	struct stream in = { data, size };

	now = 1;
	seed = sent_count = 0;
	policy = 0;
	memset(users, 0, sizeof(users));
	cm = xc_new(&config, &ops, NULL);
	for (int i = 0; i < 500 && !input_end(&in); i++) {
		step(&in);
		run();
		check_ids();
	}
	finish();
	xc_free(cm);
	return 0;
}
