// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rules of fault injection: those of operators, and those of programs for their own QPs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "daemon/faults/text/text.h"
#include "direct_rules.h"
#include "server.h"

static struct xd_faults *server_faults_of(const struct xd_client *c)
{
	return xd_workers_faults(c->dev->workers);
}

/* A job frees the channel of a client that ends. */
static struct xd_fault_program faults_program_of(const struct xd_client *c)
{
	return (struct xd_fault_program){
		.client = c->id,
		.pid = (uint32_t)c->identity.pid,
		.uid = c->identity.uid,
		.command = c->identity.comm,
		.is_operator = c->identity.is_operator,
		.is_channel = !c->ending && c->cm_channel,
	};
}

static void select_rules(struct xd_client *c)
{
	const struct xd_fault_program program = faults_program_of(c);

	c->fault_rules = xd_faults_of(server_faults_of(c), &program);
}

void xd_faults_hello(struct xd_client *c)
{
	select_rules(c);
	xd_fault_times_hello(c);
}

/* QPs of this device that are connected to each other may need packets now, or no more. */
static void refresh_paths(const struct xd_client *c, bool own)
{
	for (struct xd_client *each = c->clients->first; each; each = each->next)
		if (!own || each->identity.uid == c->identity.uid)
			xd_walk_add(each, XD_WALK_REFRESH);
	xd_walk_begin(c->clients, XD_WALK_REFRESH);
}

/* Replaces the rules of a client, or those of the operator, and selects them for all clients. */
static int faults_replace(struct xd_client *c, bool own, const struct xd_fault_list *list)
{
	const struct xd_fault_program program = faults_program_of(c);
	const uint32_t user = own ? program.uid : XD_FAULT_ANY;
	const bool before = xd_faults_of_user(server_faults_of(c), user);
	struct xd_client *each;
	int err;

	xd_direct_rules_collect(c->clients);
	xd_monitor_faults(xd_server_of(c));
	xd_faults_lock(server_faults_of(c));
	err = xd_faults_set(server_faults_of(c), own ? &program : NULL, list->seed, list->rule,
			    list->n);
	for (each = c->clients->first; !err && each; each = each->next)
		select_rules(each);
	xd_faults_unlock(server_faults_of(c));
	if (err)
		return err;
	xd_direct_rules_update(c->clients, own ? c : NULL, list->seed);
	xd_fault_times_run(xd_server_of(c));
	if (before != xd_faults_of_user(server_faults_of(c), user))
		refresh_paths(c, own);
	return 0;
}

static bool has_rules(const struct xd_client *c)
{
	struct xd_fault_hits hits;
	uint64_t owner;

	for (uint32_t i = 0; xd_faults_at(server_faults_of(c), i, &hits, &owner); i++)
		if (owner == c->id)
			return true;
	return false;
}

void xd_faults_end(struct xd_client *c)
{
	static const struct xd_fault_list none;

	if (has_rules(c))
		faults_replace(c, true, &none);
}

static int faults_parse(struct xd_client *c, const struct xr_set_fault_req *q,
			struct xd_fault_list *list)
{
	char why[XR_WHY_MAX];

	if (!xd_fault_parse((const char *)q->text, q->length, list, why, sizeof(why)))
		return 0;
	return xd_refuse(c, -EINVAL, "%s", why);
}

/* A packet with another destination QP and a right ICRC would be forged in the name of others. */
static bool forges(const struct xd_fault_list *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->rule[i].seal && list->rule[i].match.direction & XD_FAULT_TX)
			return true;
	return false;
}

int xd_do_set_fault(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_set_fault_req *q = req->body;
	bool own = !c->connection.observer;
	struct xd_fault_list *list;
	int err;

	(void)rep;
	if (!own && !c->identity.is_operator)
		return -EPERM;
	if (q->length > req->length - sizeof(*q))
		return xd_refuse(c, -EINVAL, "%u bytes of text in a message of %u bytes", q->length,
				 req->length);
	list = malloc(sizeof(*list));
	if (!list)
		return -ENOMEM;
	err = faults_parse(c, q, list);
	if (!err && own && !c->identity.is_operator && forges(list))
		err = xd_refuse(c, -EPERM,
				"'icrc right' is for received packets (rx), except for operators");
	if (!err)
		err = faults_replace(c, own, list);
	if (err == -ENOSPC)
		err = xd_refuse(c, err,
				"%u rules; a device has %u for operators, %u for all programs,"
				" %u for those of one user and %u for each of them",
				list->n, XD_FAULT_RULES - XD_FAULT_CLIENTS_RULES,
				XD_FAULT_CLIENTS_RULES, XD_FAULT_USER_RULES, XD_FAULT_CLIENT_RULES);
	free(list);
	return err;
}

int xd_faults_load(struct xd_server *s)
{
	const char *text = s->dev->opt->fault;
	struct xd_faults *f = xd_workers_faults(s->dev->workers);
	struct xd_fault_list *list = malloc(sizeof(*list));
	char why[XR_WHY_MAX];
	int err;

	if (!list)
		return -ENOMEM;
	err = xd_fault_parse(text, (uint32_t)strlen(text), list, why, sizeof(why));
	if (err) {
		xd_log(XD_ERR, "--fault: %s", why);
	} else {
		xd_faults_lock(f);
		err = xd_faults_set(f, NULL, list->seed, list->rule, list->n);
		xd_faults_unlock(f);
	}
	free(list);
	if (!err)
		xd_fault_times_run(s);
	return err;
}

void xd_faults_show(struct json *j, const struct xd_client *c)
{
	struct xd_faults *f = server_faults_of(c);
	const struct xd_fault_rule *rule;
	struct xd_fault_hits hits;
	uint64_t owner;

	xd_direct_rules_collect(c->clients);
	json_begin(j, "faults", '{');
	json_number(j, "seed", xd_faults_seed(f));
	json_begin(j, "rules", '[');
	for (uint32_t i = 0; (rule = xd_faults_at(f, i, &hits, &owner)); i++) {
		if (!c->identity.is_operator)
			break;
		json_begin(j, NULL, '{');
		json_text(j, "rule", rule->text);
		if (owner)
			json_number(j, "client", owner);
		json_number(j, "packets", hits.seen);
		json_number(j, "hits", hits.hits);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}
