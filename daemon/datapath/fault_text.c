// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fault_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACES " \t\r"
#define REORDER_NS 50000		/* longest delay of a packet that is to be overtaken */
#define DELAY_MAX_NS 10000000000ull	/* 10 s */
#define PERIOD_MAX_NS 86400000000000ull /* a day */
#define RATE_MAX 1000000000000ull
#define ERRORS 134 /* numbers of errno.h end below */

/* The words of a line, and where the first error is explained */
struct words {
	char *rest; /* of strtok_r() */
	char *why;
	uint32_t size;
	const char *what; /* keyword whose value is parsed */
};

static const char *next(struct words *w)
{
	return strtok_r(NULL, SPACES, &w->rest);
}

/* Explains what the keyword needs. Returns false. */
static bool wrong(struct words *w, const char *value, const char *needs)
{
	if (value)
		snprintf(w->why, w->size, "'%s' needs %s, not '%.40s'", w->what, needs, value);
	else
		snprintf(w->why, w->size, "'%s' needs %s", w->what, needs);
	return false;
}

/* ---- values ------------------------------------------------------------------------------- */

static bool parse_u64(const char *text, uint64_t most, uint64_t *n)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 0);
	return !errno && !*end && *n <= most;
}

static bool number(struct words *w, uint64_t least, uint64_t most, uint64_t *n)
{
	const char *text = next(w);
	char needs[64];

	if (parse_u64(text, most, n) && *n >= least)
		return true;
	snprintf(needs, sizeof(needs), "a number from %llu to %llu", (unsigned long long)least,
		 (unsigned long long)most);
	return wrong(w, text, needs);
}

static bool number32(struct words *w, uint64_t least, uint64_t most, uint32_t *n)
{
	uint64_t value;

	if (!number(w, least, most, &value))
		return false;
	*n = (uint32_t)value;
	return true;
}

struct unit {
	const char *name;
	double factor;
};

/* Parses a number with a unit of the list, which ends with a NULL name. Rounds to an integer. */
static bool with_unit(const char *text, const struct unit *units, double most, uint64_t *value)
{
	double n;
	char *end;

	if (!text || ((*text < '0' || *text > '9') && *text != '.'))
		return false;
	n = strtod(text, &end);
	while (units->name && strcmp(units->name, end))
		units++;
	if (!units->name || !(n >= 0) || n * units->factor > most)
		return false;
	*value = (uint64_t)(n * units->factor + 0.5);
	return true;
}

static bool duration(struct words *w, uint64_t most, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { NULL, 0 },
	};
	const char *text = next(w);
	char needs[80];

	if (with_unit(text, units, (double)most, ns))
		return true;
	snprintf(needs, sizeof(needs), "a time of at most %llus with a unit (ns, us, ms, s)",
		 (unsigned long long)(most / 1000000000));
	return wrong(w, text, needs);
}

static bool probability(struct words *w, uint32_t *p)
{
	static const struct unit units[] = {
		{ "", XD_FAULT_CERTAIN },
		{ "%", XD_FAULT_CERTAIN / 100. },
		{ NULL, 0 },
	};
	const char *text = next(w);
	uint64_t value;

	if (!with_unit(text, units, XD_FAULT_CERTAIN, &value))
		return wrong(w, text, "a probability from 0 to 1, such as 0.01, 1e-6 or 1%");
	*p = (uint32_t)value;
	return true;
}

/* ---- what is selected ----------------------------------------------------------------------- */

static bool set_qp(struct words *w, struct xd_fault_rule *r)
{
	return number32(w, 0, 0xffffff, &r->match.qpn);
}

static bool set_queue(struct words *w, struct xd_fault_rule *r)
{
	return number32(w, 0, XR_MAX_WORKERS - 1, &r->match.queue);
}

static bool set_pid(struct words *w, struct xd_fault_rule *r)
{
	return number32(w, 1, INT32_MAX, &r->match.pid);
}

static bool set_uid(struct words *w, struct xd_fault_rule *r)
{
	return number32(w, 0, UINT32_MAX - 1, &r->match.uid);
}

static bool set_command(struct words *w, struct xd_fault_rule *r)
{
	const char *name = next(w);

	if (!name || strlen(name) >= sizeof(r->match.command))
		return wrong(w, name, "the name of a command of at most 15 characters");
	strcpy(r->match.command, name);
	return true;
}

static bool address(struct words *w, struct xr_addr *addr)
{
	const char *text = next(w);
	struct in_addr v4;

	if (text && inet_pton(AF_INET, text, &v4) == 1)
		xr_gid_set_ipv4(addr, v4.s_addr);
	else if (!text || inet_pton(AF_INET6, text, addr->raw) != 1)
		return wrong(w, text, "an IPv4 or IPv6 address");
	return true;
}

static bool set_peer(struct words *w, struct xd_fault_rule *r)
{
	r->match.has_peer = true;
	return address(w, &r->match.peer);
}

static bool set_mads(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.mads = true;
	return true;
}

static bool set_rx(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.direction = XD_FAULT_RX;
	return true;
}

static bool set_tx(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.direction = XD_FAULT_TX;
	return true;
}

static const struct operation {
	const char *name;
	uint8_t op;
} operations[] = {
#define X(name, flags, classes) { #name, XR_OP_##name },
	XR_OPERATIONS(X)
#undef X
};

static const struct operation classes[] = {
	{ "RC_", XR_CLASS_RC },
	{ "UC_", XR_CLASS_UC },
	{ "UD_", XR_CLASS_UD },
	{ "XRC_", XR_CLASS_XRC },
};

static void select_opcode(struct xd_fault_rule *r, unsigned opcode)
{
	r->match.has_opcodes = true;
	r->match.opcodes[opcode / 64] |= 1ull << opcode % 64;
}

/* Selects an operation in the class that its name begins with, else in all classes. */
static bool select_operation(struct xd_fault_rule *r, const char *name)
{
	unsigned class = XD_FAULT_ANY, i;
	size_t len;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		len = strlen(classes[i].name);
		if (strncasecmp(name, classes[i].name, len))
			continue;
		class = classes[i].op;
		name += len;
		break;
	}
	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (!strcasecmp(operations[i].name, name))
			break;
	if (i == sizeof(operations) / sizeof(operations[0]))
		return false;
	for (unsigned c = 0; c < 256; c += XR_CLASS_UC)
		if (class == XD_FAULT_ANY || c == class)
			select_opcode(r, c | operations[i].op);
	return true;
}

static bool set_opcode(struct words *w, struct xd_fault_rule *r)
{
	const char *name = next(w);
	uint64_t opcode;

	if (parse_u64(name, 255, &opcode))
		select_opcode(r, (unsigned)opcode);
	else if (!name || !select_operation(r, name))
		return wrong(w, name, "an opcode such as 0x0a, WRITE_ONLY or RC_ACK");
	return true;
}

/* ---- when a rule applies -------------------------------------------------------------------- */

static bool set_prob(struct words *w, struct xd_fault_rule *r)
{
	return probability(w, &r->when.probability);
}

static bool set_burst(struct words *w, struct xd_fault_rule *r)
{
	if (!probability(w, &r->when.enter) || !probability(w, &r->when.leave))
		return false;
	return r->when.enter || wrong(w, "0", "two probabilities, the first one above 0");
}

static bool set_after(struct words *w, struct xd_fault_rule *r)
{
	return number(w, 0, INT64_MAX, &r->when.after);
}

static bool set_every(struct words *w, struct xd_fault_rule *r)
{
	return number(w, 1, INT64_MAX, &r->when.every);
}

static bool set_times(struct words *w, struct xd_fault_rule *r)
{
	return number(w, 1, INT64_MAX, &r->when.times);
}

static bool set_period(struct words *w, struct xd_fault_rule *r)
{
	return duration(w, PERIOD_MAX_NS, &r->when.period) &&
	       (r->when.period || wrong(w, "0", "a time above 0"));
}

static bool set_length(struct words *w, struct xd_fault_rule *r)
{
	return duration(w, PERIOD_MAX_NS, &r->when.length);
}

/* ---- faults --------------------------------------------------------------------------------- */

static bool set_jitter(struct words *w, struct xd_fault_rule *r)
{
	return duration(w, DELAY_MAX_NS, &r->jitter);
}

static bool set_late(struct words *w, struct xd_fault_rule *r)
{
	return duration(w, DELAY_MAX_NS, &r->delay);
}

static bool set_bits(struct words *w, struct xd_fault_rule *r)
{
	return number32(w, 1, 255, &r->bits);
}

static bool set_icrc(struct words *w, struct xd_fault_rule *r)
{
	const char *text = next(w);

	r->seal = text && !strcmp(text, "right");
	return r->seal || (text && !strcmp(text, "wrong")) || wrong(w, text, "'right' or 'wrong'");
}

/* Fields of the headers, by their offset from the BTH (IBTA 9.2, 9.3) */
static const struct {
	const char *name;
	struct xd_fault_field field;
} fields[] = {
	{ "opcode", { 0, 1, 0 } }, { "pkey", { 2, 2, 0 } }, { "qpn", { 5, 3, 0 } },
	{ "psn", { 9, 3, 0 } },	   { "byte", { 0, 1, 0 } }, { "syndrome", { 12, 1, 0 } },
};

static bool set_field(struct words *w, struct xd_fault_rule *r)
{
	const char *name = next(w);
	uint32_t offset = 0;
	size_t i;

	for (i = 0; name && i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			break;
	if (!name || i == sizeof(fields) / sizeof(fields[0]))
		return wrong(w, name, "opcode, pkey, qpn, psn, syndrome or byte");
	r->field = fields[i].field;
	w->what = fields[i].name;
	if (!strcmp(name, "byte") && !number32(w, 0, XT_MAX_FRAME, &offset))
		return false;
	r->field.offset = (uint16_t)(r->field.offset + offset);
	return number32(w, 0, (1ull << 8 * r->field.width) - 1, &r->field.value);
}

static bool set_timer(struct words *w, struct xd_fault_rule *r)
{
	uint32_t code;

	if (r->inject.kind != XT_INJECT_RNR)
		return wrong(w, NULL, "'rnr'");
	if (!number32(w, 0, XT_INJECT_OWN_TIMER - 1, &code))
		return false;
	r->inject.value = (uint8_t)code;
	return true;
}

/* Names of values; the list ends with a NULL name. */
struct name {
	const char *name;
	uint8_t value;
};

/* Returns the value of a name; upper case and lower case are the same. */
static bool named(const struct name *names, const char *text, uint8_t *value)
{
	for (; text && names->name; names++) {
		if (strcasecmp(names->name, text))
			continue;
		*value = names->value;
		return true;
	}
	return false;
}

/* Parses a name. `needs` explains the names. */
static bool set_named(struct words *w, const struct name *names, uint8_t *value, const char *needs)
{
	const char *text = next(w);

	return named(names, text, value) || wrong(w, text, needs);
}

static bool set_status(struct words *w, struct xd_fault_rule *r)
{
	static const struct name names[] = {
		{ "LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR },
		{ "LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR },
		{ "LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR },
		{ "MW_BIND_ERR", IBV_WC_MW_BIND_ERR },
		{ "BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR },
		{ "LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR },
		{ "REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR },
		{ "REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR },
		{ "REM_OP_ERR", IBV_WC_REM_OP_ERR },
		{ "RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR },
		{ "RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR },
		{ "REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR },
		{ "FATAL_ERR", IBV_WC_FATAL_ERR },
		{ "RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR },
		{ "GENERAL_ERR", IBV_WC_GENERAL_ERR },
		{ NULL, 0 },
	};

	if (r->inject.kind != XT_INJECT_ERROR)
		return wrong(w, NULL, "'qp-error'");
	return set_named(w, names, &r->inject.value,
			 "a status of enum ibv_wc_status without IBV_WC_, such as REM_OP_ERR");
}

#define DROP (1u << XD_FAULT_DROP)
#define DUPLICATE (1u << XD_FAULT_DUPLICATE)
#define DELAY (1u << XD_FAULT_DELAY)
#define CORRUPT (1u << XD_FAULT_CORRUPT)
#define INJECT (1u << XD_FAULT_INJECT)
#define VERB (1u << XD_FAULT_VERB)
#define ALL UINT32_MAX
#define LASTING (1u << XD_FAULT_PORT | 1u << XD_FAULT_GID)
#define EVENT (1u << XD_FAULT_EVENT)
#define PACKETS (ALL & ~(VERB | LASTING | EVENT))

static const struct keyword {
	const char *name;
	uint32_t kinds; /* bit by enum xd_fault_kind: those that allow it */
	bool (*set)(struct words *w, struct xd_fault_rule *r);
} keywords[] = {
	{ "rx", PACKETS, set_rx },
	{ "tx", PACKETS, set_tx },
	{ "mads", PACKETS, set_mads },
	{ "qp", PACKETS, set_qp },
	{ "peer", PACKETS, set_peer },
	{ "opcode", PACKETS, set_opcode },
	{ "queue", PACKETS, set_queue },
	{ "pid", ALL, set_pid },
	{ "uid", ALL, set_uid },
	{ "command", ALL, set_command },
	{ "prob", ALL, set_prob },
	{ "burst", ALL, set_burst },
	{ "after", ALL, set_after },
	{ "every", ALL, set_every },
	{ "times", ALL, set_times },
	{ "period", ALL, set_period },
	{ "length", ALL & ~EVENT, set_length },
	{ "jitter", DELAY | DUPLICATE | VERB, set_jitter },
	{ "late", DUPLICATE, set_late },
	{ "bits", CORRUPT, set_bits },
	{ "field", CORRUPT, set_field },
	{ "icrc", CORRUPT, set_icrc },
	{ "timer", INJECT, set_timer },
	{ "status", INJECT, set_status },
};

static bool begin_delay(struct words *w, struct xd_fault_rule *r)
{
	return duration(w, DELAY_MAX_NS, &r->delay);
}

static bool begin_reorder(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->jitter = REORDER_NS;
	return true;
}

static bool begin_rate(struct words *w, struct xd_fault_rule *r)
{
	static const struct unit units[] = {
		{ "bit", 1 }, { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 }, { NULL, 0 },
	};
	const char *text = next(w);

	return (with_unit(text, units, RATE_MAX, &r->rate) && r->rate >= 1000) ||
	       wrong(w, text, "a rate from 1kbit to 1000gbit (bit, kbit, mbit, gbit a second)");
}

static bool begin_nak(struct words *w, struct xd_fault_rule *r)
{
	static const struct name names[] = {
		{ "sequence", XR_NAK_PSN_SEQUENCE }, { "request", XR_NAK_INVALID_REQUEST },
		{ "access", XR_NAK_REMOTE_ACCESS },  { "operation", XR_NAK_REMOTE_OPERATIONAL },
		{ "rd", XR_NAK_INVALID_RD_REQUEST }, { NULL, 0 },
	};

	r->inject.kind = XT_INJECT_NAK;
	return set_named(w, names, &r->inject.value, "sequence, request, access, operation or rd");
}

static bool begin_rnr(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject = (struct xt_inject){ XT_INJECT_RNR, XT_INJECT_OWN_TIMER };
	return true;
}

/* Requests of programs whose handlers are the daemon's part of a verb */
static const struct {
	const char *name;
	uint32_t flags;
} verbs[] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { #name, flags },
	XR_MESSAGES(X)
#undef X
};
_Static_assert(XR_MSG_COUNT <= 64, "a bit for each request");

static bool is_verb(uint32_t type)
{
	const uint32_t others = XR_FOR_OBSERVERS | XR_FOR_OPERATORS | XR_FOR_CHANNELS | XR_FOR_UMAD;

	return verbs[type].name && !(verbs[type].flags & others);
}

static bool set_verb(struct words *w, struct xd_fault_rule *r)
{
	const char *name = next(w);

	r->match.direction = 0;
	for (uint32_t type = 1; name && type < XR_MSG_COUNT; type++)
		if (is_verb(type) && (!strcmp(name, "any") || !strcmp(name, verbs[type].name)))
			r->verbs |= 1ull << type;
	return r->verbs || wrong(w, name, "a verb such as reg_mr, create_qp, modify_qp, or any");
}

static bool begin_fail(struct words *w, struct xd_fault_rule *r)
{
	const char *name;

	if (!set_verb(w, r))
		return false;
	name = next(w);
	for (int error = 1; name && error < ERRORS && !r->error; error++)
		if (strerrorname_np(error) && !strcmp(strerrorname_np(error), name))
			r->error = -error;
	return r->error || wrong(w, name, "an error such as ENOMEM or EAGAIN behind the verb");
}

static bool begin_slow(struct words *w, struct xd_fault_rule *r)
{
	return set_verb(w, r) && duration(w, DELAY_MAX_NS, &r->delay);
}

static bool begin_qp_error(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject.kind = XT_INJECT_ERROR;
	return true;
}

static bool begin_cq_error(struct words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject.kind = XT_INJECT_CQ;
	return true;
}

static bool begin_event(struct words *w, struct xd_fault_rule *r)
{
	static const struct name names[] = {
		{ "CQ_ERR", IBV_EVENT_CQ_ERR },
		{ "QP_FATAL", IBV_EVENT_QP_FATAL },
		{ "QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR },
		{ "QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR },
		{ "COMM_EST", IBV_EVENT_COMM_EST },
		{ "SQ_DRAINED", IBV_EVENT_SQ_DRAINED },
		{ "PATH_MIG", IBV_EVENT_PATH_MIG },
		{ "PATH_MIG_ERR", IBV_EVENT_PATH_MIG_ERR },
		{ "SRQ_ERR", IBV_EVENT_SRQ_ERR },
		{ "SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED },
		{ "QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED },
		{ NULL, 0 },
	};

	static const struct name of_device[] = {
		{ "DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL },
		{ "PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE },
		{ "PORT_ERR", IBV_EVENT_PORT_ERR },
		{ "LID_CHANGE", IBV_EVENT_LID_CHANGE },
		{ "PKEY_CHANGE", IBV_EVENT_PKEY_CHANGE },
		{ "SM_CHANGE", IBV_EVENT_SM_CHANGE },
		{ "CLIENT_REREGISTER", IBV_EVENT_CLIENT_REREGISTER },
		{ "GID_CHANGE", IBV_EVENT_GID_CHANGE },
		{ NULL, 0 },
	};
	const char *text = next(w);

	if (named(of_device, text, &r->inject.value)) {
		r->kind = XD_FAULT_EVENT;
		r->event = r->inject.value;
		r->inject.value = 0;
		r->match.direction = 0;
		return true;
	}
	r->inject.kind = XT_INJECT_EVENT;
	return named(names, text, &r->inject.value) ||
	       wrong(w, text, "an event without IBV_EVENT_, such as QP_FATAL or DEVICE_FATAL");
}

static bool begin_gid(struct words *w, struct xd_fault_rule *r)
{
	return address(w, &r->match.gid);
}

/* The first word of a rule. set, which may be NULL, parses the words that must follow. */
static const struct {
	const char *name;
	enum xd_fault_kind kind;
	bool (*set)(struct words *w, struct xd_fault_rule *r);
} kinds[] = {
	{ "drop", XD_FAULT_DROP, NULL },
	{ "dup", XD_FAULT_DUPLICATE, NULL },
	{ "delay", XD_FAULT_DELAY, begin_delay },
	{ "reorder", XD_FAULT_DELAY, begin_reorder },
	{ "rate", XD_FAULT_RATE, begin_rate },
	{ "corrupt", XD_FAULT_CORRUPT, NULL },
	{ "nak", XD_FAULT_INJECT, begin_nak },
	{ "rnr", XD_FAULT_INJECT, begin_rnr },
	{ "event", XD_FAULT_INJECT, begin_event },
	{ "qp-error", XD_FAULT_INJECT, begin_qp_error },
	{ "cq-error", XD_FAULT_INJECT, begin_cq_error },
	{ "fail", XD_FAULT_VERB, begin_fail },
	{ "slow", XD_FAULT_VERB, begin_slow },
	{ "port-down", XD_FAULT_PORT, NULL },
	{ "gid-gone", XD_FAULT_GID, begin_gid },
};

/* ---- rules ---------------------------------------------------------------------------------- */

static bool parse_kind(struct words *w, const char *name, struct xd_fault_rule *r)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name))
			continue;
		r->kind = kinds[i].kind;
		w->what = kinds[i].name;
		return !kinds[i].set || kinds[i].set(w, r);
	}
	snprintf(w->why, w->size, "there is no fault '%.40s'", name);
	return false;
}

static bool parse_keyword(struct words *w, const char *name, struct xd_fault_rule *r)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
		if (strcmp(keywords[i].name, name) || !(keywords[i].kinds >> r->kind & 1))
			continue;
		w->what = name;
		return keywords[i].set(w, r);
	}
	snprintf(w->why, w->size, "this fault has no keyword '%.40s'", name);
	return false;
}

/* Returns true for packets with which the responder takes a receive. */
static bool uses_receive(unsigned opcode)
{
	switch (opcode & ~XR_CLASS_MASK) {
	case XR_OP_SEND_FIRST:
	case XR_OP_SEND_ONLY:
	case XR_OP_SEND_ONLY_IMM:
	case XR_OP_SEND_ONLY_INV:
	case XR_OP_WRITE_LAST_IMM:
	case XR_OP_WRITE_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

/* Returns true if the responder of RC or XRC can refuse the packet with the NAK. */
static bool has_nak(const struct xd_fault_rule *r, unsigned opcode)
{
	const unsigned class = opcode & XR_CLASS_MASK;
	const uint16_t flags = xr_opcodes[opcode].flags;

	if ((class != XR_CLASS_RC && class != XR_CLASS_XRC) || !(flags & XR_OPF_REQUEST))
		return false;
	/* by default those that use a receive */
	return r->inject.kind == XT_INJECT_NAK || r->match.has_opcodes || uses_receive(opcode);
}

/* NAKs answer received requests: selects no other packets. Returns false if none is left. */
static bool select_requests(struct words *w, struct xd_fault_rule *r)
{
	bool any = false, all = !r->match.has_opcodes;
	uint64_t *bits = r->match.opcodes;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const uint64_t bit = 1ull << opcode % 64;

		if (!has_nak(r, opcode))
			bits[opcode / 64] &= ~bit;
		else if (all)
			bits[opcode / 64] |= bit;
		any |= bits[opcode / 64] & bit;
	}
	r->match.has_opcodes = true;
	r->match.direction &= XD_FAULT_RX;
	if (any && r->match.direction)
		return true;
	snprintf(w->why, w->size, "only received requests of RC and XRC (rx) have NAKs");
	return false;
}

/* Checks fields that depend on each other. */
static bool is_consistent(struct words *w, struct xd_fault_rule *r)
{
	if (r->kind == XD_FAULT_EVENT || (r->kind >= XD_FAULT_PORT && !r->when.period))
		return true;
	if (!r->when.period != !r->when.length) {
		snprintf(w->why, w->size, "'period' and 'length' need each other");
		return false;
	}
	return (r->inject.kind != XT_INJECT_NAK && r->inject.kind != XT_INJECT_RNR) ||
	       select_requests(w, r);
}

static bool parse_rule(struct words *w, const char *first, struct xd_fault_rule *r)
{
	const char *word;

	*r = (struct xd_fault_rule){
		.match = {
			.direction = XD_FAULT_RX | XD_FAULT_TX,
			.qpn = XD_FAULT_ANY,
			.queue = XD_FAULT_ANY,
			.pid = XD_FAULT_ANY,
			.uid = XD_FAULT_ANY,
		},
		.when = { .every = 1, .probability = XD_FAULT_CERTAIN },
	};
	if (!parse_kind(w, first, r))
		return false;
	while ((word = next(w)))
		if (!parse_keyword(w, word, r))
			return false;
	return is_consistent(w, r);
}

/* Copies a line for `xroce fault`, with single blanks. */
static void keep_text(struct xd_fault_rule *r, const char *line)
{
	size_t at = 0;

	for (; *line; line += strcspn(line, SPACES)) {
		size_t len;

		line += strspn(line, SPACES);
		len = strcspn(line, SPACES);
		if (!len)
			break;
		at += (size_t)snprintf(r->text + at, sizeof(r->text) - at, "%s%.*s", at ? " " : "",
				       (int)len, line);
	}
}

/* Parses a rule, a seed or nothing. line: at most XD_FAULT_TEXT - 1 characters */
static bool parse_words(struct words *w, char *line, struct xd_fault_list *list)
{
	char copy[XD_FAULT_TEXT];
	const char *first;

	strcpy(copy, line);
	first = strtok_r(line, SPACES, &w->rest);
	if (!first)
		return true;
	if (!strcmp(first, "seed")) {
		w->what = first;
		if (!number(w, 0, INT64_MAX, &list->seed))
			return false;
		first = next(w);
		if (first)
			snprintf(w->why, w->size, "what follows 'seed N' must be separated by ';'");
		return !first;
	}
	if (list->n == XD_FAULT_RULES) {
		snprintf(w->why, w->size, "there are more than %u rules", XD_FAULT_RULES);
		return false;
	}
	if (!parse_rule(w, first, &list->rule[list->n]))
		return false;
	keep_text(&list->rule[list->n++], copy);
	return true;
}

/* Returns the first of a character, or the end. */
static const char *find(const char *text, const char *end, char c)
{
	const char *at = memchr(text, c, (size_t)(end - text));

	return at ? at : end;
}

/* Parses the rules of a line, which are separated by ';'. */
static bool parse_line(struct words *w, const char *text, const char *end,
		       struct xd_fault_list *list)
{
	char copy[XD_FAULT_TEXT];
	const char *rule_end;
	size_t len;

	end = find(text, end, '#');
	for (; text < end; text = rule_end + 1) {
		rule_end = find(text, end, ';');
		len = (size_t)(rule_end - text);
		if (len >= sizeof(copy) || memchr(text, 0, len)) {
			snprintf(w->why, w->size, "a rule has at most %zu characters, and no NUL",
				 sizeof(copy) - 1);
			return false;
		}
		memcpy(copy, text, len);
		copy[len] = 0;
		if (!parse_words(w, copy, list))
			return false;
	}
	return true;
}

int xd_fault_parse(const char *text, uint32_t length, struct xd_fault_list *list, char *why,
		   uint32_t size)
{
	const char *end = text + length, *line_end;
	char reason[XR_WHY_MAX - 32];
	struct words w = { .why = reason, .size = sizeof(reason) };

	list->n = 0;
	list->seed = 0;
	for (unsigned number = 1; text < end; number++, text = line_end + 1) {
		line_end = find(text, end, '\n');
		if (parse_line(&w, text, line_end, list))
			continue;
		snprintf(why, size, "line %u: %s", number, reason);
		return -EINVAL;
	}
	return 0;
}
