// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Clients: one connection after the other, and many at once. */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdma_connect.h"

#define RESOLVE_MS 5000
#define PAUSE_US 2000 /* after an attempt that failed */
#define SILENCE_MS 1000

/* Why an attempt failed, or a connection ended */
enum outcome { CONNECTED, REJECTED, STALE, UNREACHABLE, BROKEN, GONE };

#define REJ_STALE 10 /* IBTA 12.6.7.2 */

/* ---- events --------------------------------------------------------------------- */

static void wait_event(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	MUST(poll(&p, 1, WAIT_MS) > 0, "no event");
}

static enum outcome outcome_of(const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ev->status == REJ_STALE ? STALE : REJECTED;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return UNREACHABLE;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return GONE;
	default:
		return BROKEN;
	}
}

/* Waits for the event; the server's answer to @number is checked. */
static enum outcome expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
			   uint32_t number)
{
	struct rdma_cm_event *ev;
	enum outcome outcome;
	uint32_t answer;

	while (rdma_get_cm_event(ch, &ev)) {
		if (errno != EAGAIN)
			return GONE;
		wait_event(ch);
	}
	outcome = ev->event == type ? CONNECTED : outcome_of(ev);
	if (!outcome && type == RDMA_CM_EVENT_ESTABLISHED) {
		MUST(ev->param.conn.private_data_len >= sizeof(answer), "private data");
		memcpy(&answer, ev->param.conn.private_data, sizeof(answer));
		MUST(answer == ~number, "wrong private data");
	}
	rdma_ack_cm_event(ev);
	return outcome;
}

/* ---- messages ------------------------------------------------------------------- */

static void fill(struct shared *s, uint32_t slot, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < WORDS; i++)
		to_send(s, slot)[i] = number + i;
}

static void check(struct shared *s, uint32_t slot, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < WORDS; i++)
		MUST(received(s, slot)[i] == ~(number + i), "wrong data");
}

/* ---- one after the other ---------------------------------------------------------- */

/* A client sends a message and waits for the answer. */
struct exchange {
	struct shared *shared;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	uint32_t number;
	bool probed;
};

/*
 * A peer that fails after it has acknowledged the message never answers. A WRITE without data tells
 * whether the peer still has the connection: its completion has an error if not.
 */
static enum outcome probe(struct exchange *x)
{
	struct ibv_send_wr wr = { .wr_id = x->number | SENT, .opcode = IBV_WR_RDMA_WRITE }, *bad;

	MUST(!x->probed, "no answer");
	x->probed = true;
	return ibv_post_send(x->id->qp, &wr, &bad) ? BROKEN : CONNECTED;
}

/* Waits for the next completion. Any event of the id ends the connection. */
static enum outcome wait_completion(struct exchange *x, struct ibv_wc *wc)
{
	struct pollfd p[2] = { { .fd = x->ch->fd, .events = POLLIN },
			       { .fd = x->shared->comp->fd, .events = POLLIN } };
	enum outcome o = CONNECTED;

	/* a completion event may be late: its completion was polled */
	while (!o && !completion(x->shared, wc)) {
		if (!poll(p, 2, x->probed ? WAIT_MS : SILENCE_MS)) {
			o = probe(x);
		} else if (completion(x->shared, wc)) {
			break;
		} else if (p[0].revents) {
			o = expect(x->ch, RDMA_CM_EVENT_ESTABLISHED, x->number);
			o = o ? o : BROKEN;
		}
	}
	return o;
}

static enum outcome exchange(struct exchange *x)
{
	enum outcome o;
	struct ibv_wc wc;
	int left = 2;

	fill(x->shared, 0, x->number);
	if (send_message(x->shared, x->id, 0, x->number))
		return BROKEN;
	while (left) {
		o = wait_completion(x, &wc);
		if (o)
			return o;
		if ((uint32_t)wc.wr_id != x->number)
			continue;
		if (wc.status)
			return BROKEN;
		left -= wc.opcode != IBV_WC_RDMA_WRITE;
	}
	check(x->shared, 0, x->number);
	return CONNECTED;
}

static enum outcome connect_id(struct shared *s, struct rdma_event_channel *ch,
			       struct rdma_cm_id *id, struct address *to, uint32_t number)
{
	struct rdma_conn_param param = conn_param(&number);
	enum outcome o;

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to->addr, RESOLVE_MS))
		return errno == ENODEV ? GONE : UNREACHABLE;
	o = expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, number);
	if (o)
		return o;
	share(s, id, 1);
	if (rdma_resolve_route(id, RESOLVE_MS))
		return GONE;
	o = expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, number);
	if (o)
		return o;
	if (make_qp(s, id, 0, number) || rdma_connect(id, &param))
		return GONE;
	o = expect(ch, RDMA_CM_EVENT_ESTABLISHED, number);
	return o ? o : exchange(&(struct exchange){ s, ch, id, number, false });
}

static enum outcome disconnect_id(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	if (rdma_disconnect(id))
		return GONE;
	return expect(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static enum outcome attempt(struct shared *s, struct rdma_event_channel *ch, struct address *to)
{
	static uint32_t last;
	struct rdma_cm_id *id;
	enum outcome o;

	if (!last)
		last = (uint32_t)getpid() << 16;
	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
		return GONE;
	o = connect_id(s, ch, id, to, ++last & INT32_MAX);
	if (!o)
		o = disconnect_id(ch, id);
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
	return o;
}

static uint64_t *counter_of(struct counters *c, enum outcome o)
{
	uint64_t *const counters[] = { &c->connected,	&c->rejected, &c->stale,
				       &c->unreachable, &c->broken,   &c->device };

	return counters[o];
}

static void note_outage(struct counters *c, uint64_t since)
{
	uint64_t ns = now_ns() - since, old = __atomic_load_n(&c->longest_ns, __ATOMIC_RELAXED);

	while (ns > old && !__atomic_compare_exchange_n(&c->longest_ns, &old, ns, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void connect_until(struct address to, struct counters *c)
{
	struct rdma_event_channel *ch = new_channel();
	struct shared s = { 0 };
	uint64_t failed = 0, start;
	enum outcome o;

	while (__atomic_load_n(&c->connected, __ATOMIC_RELAXED) < c->target) {
		start = now_ns();
		o = attempt(&s, ch, &to);
		__atomic_add_fetch(counter_of(c, o), 1, __ATOMIC_RELAXED);
		if (o == GONE)
			exit(DEVICE_GONE);
		if (!o && failed)
			note_outage(c, failed);
		if (!o)
			failed = 0;
		else if (!failed)
			failed = start;
		if (o)
			usleep(PAUSE_US);
	}
	free_shared(&s);
	rdma_destroy_event_channel(ch);
}

bool connect_once(struct address to)
{
	struct rdma_event_channel *ch = new_channel();
	struct shared s = { 0 };
	uint64_t start = now_ns();
	enum outcome o = attempt(&s, ch, &to);

	printf("%s after %.1f ms\n", o ? "failed" : "connected", (double)(now_ns() - start) / 1e6);
	return !o;
}

/* ---- many at once ------------------------------------------------------------------ */

struct link {
	struct rdma_event_channel *own; /* or NULL */
	struct rdma_cm_id *id;
};

struct many {
	struct link *link;
	uint32_t n, established, answered, closed;
	struct shared shared;
	int events; /* epoll descriptor */
};

static void watch(const struct many *m, int fd, void *ptr)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = ptr };

	MUST(!epoll_ctl(m->events, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
}

static void advance(struct many *m, const struct rdma_cm_event *ev)
{
	struct link *l = ev->id->context;
	uint32_t slot = (uint32_t)(l - m->link), answer = 0;
	struct rdma_conn_param param = conn_param(&slot);

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!m->shared.ctx) {
			share(&m->shared, ev->id, m->n);
			watch(m, m->shared.comp->fd, NULL);
		}
		MUST(!rdma_resolve_route(ev->id, RESOLVE_MS), "rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		MUST(!make_qp(&m->shared, ev->id, slot, slot), "make_qp");
		MUST(!rdma_connect(ev->id, &param), "rdma_connect");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		memcpy(&answer, ev->param.conn.private_data, sizeof(answer));
		MUST(answer == ~slot, "wrong private data");
		m->established++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		m->closed++;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(ev->event), ev->status);
		exit(1);
	}
}

static void run(struct many *m, const uint32_t *count)
{
	struct rdma_cm_event *e;
	struct epoll_event ev;
	struct ibv_wc wc;

	while (*count < m->n) {
		MUST(epoll_wait(m->events, &ev, 1, WAIT_MS) > 0, "nothing happened");
		while (ev.data.ptr && !rdma_get_cm_event(ev.data.ptr, &e)) {
			advance(m, e);
			rdma_ack_cm_event(e);
		}
		while (completion(&m->shared, &wc)) {
			if (wc.status && m->closed) /* flushed by rdma_disconnect() */
				continue;
			MUST(!wc.status, ibv_wc_status_str(wc.status));
			if (wc.wr_id & SENT)
				continue;
			check(&m->shared, (uint32_t)wc.wr_id, (uint32_t)wc.wr_id);
			m->answered++;
		}
	}
}

static void open_links(struct many *m, struct address *to, bool own)
{
	struct rdma_event_channel *ch = own ? NULL : new_channel();
	struct link *l;

	if (ch)
		watch(m, ch->fd, ch);
	for (l = m->link; l < m->link + m->n; l++) {
		if (own) {
			l->own = new_channel();
			watch(m, l->own->fd, l->own);
		}
		MUST(!rdma_create_id(own ? l->own : ch, &l->id, l, RDMA_PS_TCP), "rdma_create_id");
	}
	for (l = m->link; l < m->link + m->n; l++)
		MUST(!rdma_resolve_addr(l->id, NULL, (struct sockaddr *)&to->addr, RESOLVE_MS),
		     "rdma_resolve_addr");
}

void connect_many(struct address to, uint32_t n, bool own)
{
	struct many m = { .n = n, .events = epoll_create1(EPOLL_CLOEXEC) };
	uint64_t start = now_ns();
	uint32_t i;

	m.link = calloc(n, sizeof(*m.link));
	MUST(m.link && m.events >= 0, "memory");
	open_links(&m, &to, own);
	run(&m, &m.established);
	printf("%u established after %.0f ms\n", n, (double)(now_ns() - start) / 1e6);
	for (i = 0; i < n; i++) {
		fill(&m.shared, i, i);
		MUST(!send_message(&m.shared, m.link[i].id, i, i), "ibv_post_send");
	}
	run(&m, &m.answered);
	for (i = 0; i < n; i++)
		MUST(!rdma_disconnect(m.link[i].id), "rdma_disconnect");
	run(&m, &m.closed);
	for (i = 0; i < n; i++) {
		rdma_destroy_qp(m.link[i].id);
		MUST(!rdma_destroy_id(m.link[i].id), "rdma_destroy_id");
		if (m.link[i].own)
			rdma_destroy_event_channel(m.link[i].own);
	}
	free_shared(&m.shared);
	printf("%u closed after %.0f ms\n", n, (double)(now_ns() - start) / 1e6);
}
