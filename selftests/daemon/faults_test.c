// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SET_FAULT: rules of operators and of programs, which QPs they select, their limits, their end. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"

static int set_faults(struct conn *c, const char *rules)
{
	uint8_t body[8192];
	struct xr_set_fault_req req = { .length = (uint32_t)strlen(rules) };

	memcpy(body, &req, sizeof(req));
	memcpy(body + sizeof(req), rules, req.length);
	return ask(c, XR_MSG_SET_FAULT, body, sizeof(req) + req.length);
}

static void open_observer(struct conn *c)
{
	connect_client(c);
	MUST(!hello(c, XR_HELLO_OBSERVER));
}

static unsigned count_rules(void)
{
	struct xd_fault_hits hits;
	unsigned n = 0;
	uint64_t owner;

	while (xd_faults_at(xd_workers_faults(fake.dev.workers), n, &hits, &owner))
		n++;
	return n;
}

/* Returns the rules that select a client's QPs, as the workers ask for them. */
static uint64_t rules_of(struct conn *c, uint32_t handle)
{
	const struct xd_qp *qp = xd_object_get(c->client, XD_QP, handle);

	return *xd_engine_events.fault_rules(qp->xt);
}

static bool explained(struct conn *c, const char *text)
{
	return c->length < sizeof(c->body) && memmem(c->body, c->length, text, strlen(text));
}

static void test_operators(void)
{
	struct xr_set_fault_req short_text = { .length = 100 };
	struct conn c;

	open_observer(&c);
	TAP_OK(!set_faults(&c, "drop prob 1%\nseed 7; delay 5ms") && count_rules() == 2,
	       "an operator sets rules");
	TAP_OK(set_faults(&c, "drop\n\nflood prob 1%") == -EINVAL &&
		       explained(&c, "line 3: there is no fault 'flood'") && count_rules() == 2,
	       "an error has its line, and leaves the rules in force");
	TAP_OK(ask(&c, XR_MSG_SET_FAULT, &short_text, sizeof(short_text)) == -EINVAL &&
		       explained(&c, "100 bytes of text"),
	       "a length above that of the message is refused");
	c.client->identity.is_operator = false;
	TAP_OK(set_faults(&c, "drop") == -EPERM, "an observer who is no operator is refused");
	c.client->identity.is_operator = true;
	TAP_OK(!set_faults(&c, "") && !count_rules(), "an empty text removes the rules");
	disconnect(&c);
}

static void test_programs(void)
{
	struct conn operator, a, b;
	uint32_t qp_a, qp_b;

	open_observer(&operator);
	open_client(&a);
	open_client(&b);
	qp_a = create_datagram_qp(&a);
	qp_b = create_datagram_qp(&b);
	a.client->identity.is_operator = false;
	TAP_OK(!set_faults(&a, "drop") && rules_of(&a, qp_a) == 1 && !rules_of(&b, qp_b),
	       "rules of a program select its own QPs");
	TAP_OK(set_faults(&a, "corrupt field qpn 5 icrc right") == -EPERM &&
		       explained(&a, "'icrc right' is for received packets") &&
		       !set_faults(&a, "corrupt icrc right rx; corrupt") && !set_faults(&a, "drop"),
	       "a program cannot send changed packets with a right ICRC");
	MUST(!set_faults(&operator, "dup uid 4000000000; drop"));
	TAP_OK(count_rules() == 3 && __builtin_popcountll(rules_of(&a, qp_a)) == 2 &&
		       __builtin_popcountll(rules_of(&b, qp_b)) == 1,
	       "rules of an operator select the QPs of all programs, or of those named");
	close_client(&a);
	settle();
	TAP_OK(count_rules() == 2 && rules_of(&b, qp_b) == 2,
	       "the rules of a program end with it, and the others still select the same QPs");
	disconnect(&operator);
	TAP_OK(count_rules() == 2, "the rules of an operator stay");
	MUST(!set_faults(&b, "delay 1ms prob 1%"));
	open_observer(&operator);
	MUST(!set_faults(&operator, ""));
	TAP_OK(count_rules() == 1, "an operator's change leaves the rules of a program");
	close_client(&b);
	disconnect(&operator);
}

/* Returns the status of a reply that comes late. */
static int late_reply(struct conn *c)
{
	int status;

	while ((status = read_reply(c)) == 1) {
		usleep(1000);
		settle();
	}
	return status;
}

static void test_verbs(void)
{
	struct conn operator, c;
	uint32_t pds;

	open_observer(&operator);
	open_client(&c);
	MUST(!set_faults(&operator, "fail alloc_pd ENOMEM times 1; slow alloc_pd 50ms"));
	pds = xd_object_count(c.client, XD_PD);
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == -ENOMEM && explained(&c, "injected") &&
		       xd_object_count(c.client, XD_PD) == pds,
	       "a verb fails, and nothing was made");
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == 1 && !late_reply(&c) &&
		       xd_object_count(c.client, XD_PD) == pds + 1,
	       "a verb that takes long succeeds");
	MUST(!set_faults(&operator, "slow alloc_pd 10s"));
	TAP_OK(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == 1 && c.client->connection.waiting,
	       "a request waits");
	disconnect(&c);
	settle();
	TAP_OK(!operator.client->next && !operator.client->clients->first->next,
	       "a client ends whose request waits");
	MUST(!set_faults(&operator, ""));
	disconnect(&operator);
}

static uint32_t port_state(struct conn *c)
{
	MUST(!ask(c, XR_MSG_QUERY_PORT, NULL, 0));
	return ((struct xr_query_port_rep *)c->body)->state;
}

static uint32_t count_gids(struct conn *c)
{
	MUST(!ask(c, XR_MSG_QUERY_GIDS, NULL, 0));
	return ((struct xr_query_gids_rep *)c->body)->count;
}

/* Returns the type of the next asynchronous event, 0: none. */
static uint32_t next_event(int fd)
{
	struct xr_async_event ev = { 0 };

	return recv(fd, &ev, sizeof(ev), MSG_DONTWAIT) > 0 ? ev.type : 0;
}

static void test_times(void)
{
	const struct xr_query_gids_rep *gids;
	struct conn operator, a, b;
	char rule[100], text[INET6_ADDRSTRLEN];
	uint32_t n, pd;
	int events;

	open_observer(&operator);
	open_client(&a);
	events = dup(events_fd);
	open_client(&b);
	pd = alloc_pd(&b);
	n = count_gids(&b);
	gids = (void *)b.body;
	inet_ntop(AF_INET6, &gids->entry[0].gid, text, sizeof(text));
	snprintf(rule, sizeof(rule), "gid-gone %s", text);
	MUST(port_state(&a) == IBV_PORT_ACTIVE && !set_faults(&a, "port-down"));
	TAP_OK(port_state(&a) == IBV_PORT_DOWN && port_state(&b) == IBV_PORT_ACTIVE &&
		       next_event(events) == IBV_EVENT_PORT_ERR && !next_event(events),
	       "the port is down for the program of the rule");
	MUST(!set_faults(&a, "event SM_CHANGE"));
	TAP_OK(port_state(&a) == IBV_PORT_ACTIVE && next_event(events) == IBV_EVENT_PORT_ACTIVE &&
		       next_event(events) == IBV_EVENT_SM_CHANGE && !next_event(events),
	       "it is up when the rule ends; an event is raised");
	MUST(!set_faults(&operator, rule));
	TAP_OK(count_gids(&b) < n && create_ah(&b, pd, 0) == -EINVAL &&
		       next_event(events) == IBV_EVENT_GID_CHANGE,
	       "a GID is gone");
	MUST(!set_faults(&operator, ""));
	TAP_OK(count_gids(&b) == n && !create_ah(&b, pd, 0) &&
		       next_event(events) == IBV_EVENT_GID_CHANGE && !next_event(events),
	       "it is back when the rule ends");
	close(events);
	close_client(&a);
	close_client(&b);
	disconnect(&operator);
}

/* The control thread looks at the rules of all programs at once. */
static unsigned ticks;

uint64_t __real_xd_faults_tick(struct xd_faults *f, uint64_t now, struct xd_fault_turns *turns);
uint64_t __wrap_xd_faults_tick(struct xd_faults *f, uint64_t now, struct xd_fault_turns *turns);
uint64_t __wrap_xd_faults_tick(struct xd_faults *f, uint64_t now, struct xd_fault_turns *turns)
{
	ticks++;
	return __real_xd_faults_tick(f, now, turns);
}

/* Returns the number of ticks within this time, which is set to what has passed. */
static unsigned ticks_within(uint64_t *ns)
{
	const uint64_t begin = xd_now();

	ticks = 0;
	while (xd_now() - begin < *ns) {
		usleep(20);
		settle();
	}
	*ns = xd_now() - begin;
	return ticks;
}

static void test_short_turns(void)
{
	char rules[XD_FAULT_CLIENT_RULES * 64] = "";
	uint64_t ns = 100000000, charged;
	struct conn c;
	size_t at = 0;
	unsigned n;

	open_client(&c);
	TAP_OK(set_faults(&c, "port-down period 2ns length 1ns") == -EINVAL &&
		       explained(&c, "at least 1 ms"),
	       "short turns are refused, and the limit is named");
	for (unsigned i = 0; i < XD_FAULT_CLIENT_RULES; i++)
		at += (size_t)snprintf(rules + at, sizeof(rules) - at,
				       "port-down period %uus length 1ms\n", 2000 + 61 * i);
	MUST(!set_faults(&c, rules));
	charged = c.client->connection.bucket;
	n = ticks_within(&ns);
	TAP_OK(n > 1 && n <= ns / XD_FAULT_TICK_NS + 1,
	       "turns of many rules are begun and ended together (%u times in %u us)", n,
	       (unsigned)(ns / 1000));
	TAP_OK(c.client->connection.bucket > charged, "their program is charged for them");
	MUST(!set_faults(&c, ""));
	ns = 20000000;
	TAP_OK(!ticks_within(&ns), "without rules there are none");
	close_client(&c);
}

static void test_slow_charges(void)
{
	uint64_t charged;
	struct conn c;

	open_client(&c);
	MUST(!set_faults(&c, "slow alloc_pd 500ms"));
	MUST(ask(&c, XR_MSG_ALLOC_PD, NULL, 0) == 1);
	charged = c.client->connection.bucket;
	MUST(!late_reply(&c));
	TAP_OK(c.client->connection.bucket > charged, "a postponed request is charged, too");
	close_client(&c);
}

/* Returns the error of 16 rules of one program after those of another one of the same user. */
static int second_program(struct conn c[2], const char *rules, bool is_operator)
{
	int err;

	for (int i = 0; i < 2; i++)
		c[i].client->identity.is_operator = is_operator;
	MUST(!set_faults(&c[0], rules));
	err = set_faults(&c[1], rules);
	MUST(!set_faults(&c[0], "") && !set_faults(&c[1], ""));
	return err;
}

static void test_share(void)
{
	char rules[XD_FAULT_RULES * 5 + 8] = "";
	struct conn c[2];

	for (unsigned i = 0; i < XD_FAULT_CLIENT_RULES; i++)
		strcat(rules, "drop\n");
	open_client(&c[0]);
	open_client(&c[1]);
	TAP_OK(second_program(c, rules, false) == -ENOSPC && !second_program(c, rules, true),
	       "a user has a limit, and an operator has not");
	c[0].client->identity.is_operator = c[1].client->identity.is_operator = false;
	MUST(!set_faults(&c[0], rules));
	TAP_OK(set_faults(&c[1], rules) == -ENOSPC && explained(&c[1], "24 for those of one user"),
	       "it is named");
	c[1].client->identity.uid++;
	TAP_OK(!set_faults(&c[1], rules), "another user has its own");
	c[1].client->identity.uid--;
	close_client(&c[0]);
	close_client(&c[1]);
	settle();
}

static void test_limits(void)
{
	char rules[XD_FAULT_RULES * 5 + 8] = "";
	struct conn c[4];
	unsigned i;

	for (i = 0; i < XD_FAULT_CLIENT_RULES; i++)
		strcat(rules, "drop\n");
	for (i = 0; i < 4; i++)
		open_client(&c[i]), c[i].client->identity.is_operator = true;
	for (i = 0; i < XD_FAULT_CLIENTS_RULES / XD_FAULT_CLIENT_RULES; i++)
		MUST(!set_faults(&c[i], rules));
	TAP_OK(set_faults(&c[3], "drop") == -ENOSPC && explained(&c[3], "48 for all programs"),
	       "programs have a limit together");
	TAP_OK(!set_faults(&c[0], rules), "a program replaces its own rules at the limit");
	strcat(rules, "drop\n");
	MUST(!set_faults(&c[0], ""));
	TAP_OK(set_faults(&c[0], rules) == -ENOSPC, "a program has a limit");
	for (i = 0; i < 4; i++)
		close_client(&c[i]);
	settle();
	TAP_OK(!count_rules(), "no rule is left");
}

int main(void)
{
	start_server("faults");
	test_operators();
	test_programs();
	test_verbs();
	test_times();
	test_short_turns();
	test_slow_charges();
	test_share();
	test_limits();
	fake_server_stop();
	TAP_OK(!fake.server, "the server stops");
	return tap_end();
}
