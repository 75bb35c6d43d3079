// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "client_memory.h"

#include <errno.h>

#include "daemon/clients/processes.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/region.h"
#include "objects.h"

void xd_client_memory_init(struct xd_client_memory *m)
{
	m->procs = (struct xd_fd_quota){
		.name = "number of address spaces of a client",
		.limit = XD_CLIENT_PROCS,
	};
}

int xd_client_take_proc(struct xd_client *c, struct xd_proc_quota *quota)
{
	struct xd_fd_quota *procs = &c->objects->memory.procs;
	int err;

	if (!xd_fds_take(procs, 1))
		return xd_limit_reached(c, -EDQUOT, procs->name, procs->limit);
	quota->fds = &c->user->fds;
	quota->procs = procs;
	err = xd_user_take_fds(c, XD_PROC_FDS);
	if (!err) {
		err = xd_process_charge(c, xd_movers_bytes(c->dev->movers), &quota->process);
		if (err)
			xd_user_put_fds(c, XD_PROC_FDS);
	}
	if (err)
		xd_fds_put(procs, 1);
	return err;
}

struct xd_proc *xd_client_proc(const struct xd_client *c)
{
	return c->objects->memory.proc;
}

void xd_client_set_proc(struct xd_client *c, struct xd_proc *proc)
{
	struct xd_client_memory *m = &c->objects->memory;
	struct xd_proc *before = m->proc;

	__atomic_store_n(&m->proc, proc, __ATOMIC_RELEASE);
	if (!before)
		return;
	/* a worker may have loaded the pointer in its round */
	xd_grace_synchronize(c->dev->workers);
	xd_proc_put(before);
}

void xd_client_memory_show(struct json *j, const struct xd_client *c)
{
	/* a job may be freeing the state of a client that ends */
	const struct xd_mover *mover = c->ending ? NULL : xd_proc_mover(xd_client_proc(c));
	struct xd_mover_state s = { 0 };

	if (mover)
		xd_mover_state(mover, &s);
	json_number(j, "mover", (uint64_t)s.pid);
	json_number(j, "accesses", s.accesses);
	json_number(j, "waiting_us", s.waiting_ns / 1000);
}

void xd_client_memory_end(struct xd_client *c)
{
	xd_mover_end(xd_proc_mover(xd_client_proc(c)));
}

void xd_client_memory_close(struct xd_client_memory *m)
{
	xd_mover_wait(xd_proc_mover(m->proc));
	xd_proc_put(m->proc);
	xd_mem_free(m->all);
}

/*
 * The reserved L_Key gives the client's queues access to the client's whole address space. A region
 * on demand does the same, but belongs to a PD and can be deregistered. Hence the key is only for
 * operators and for the group that the administrator named.
 */
static bool may_use(const struct xd_client *c)
{
	const struct xd_identity *id = &c->identity;
	gid_t group = xd_objects_of(c)->lkey_group;

	return id->is_operator ||
	       (group != XD_NO_GROUP && xd_in_groups(group, id->gid, &id->groups));
}

int xd_do_reserved_lkey(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_client_memory *m = &c->objects->memory;
	int err = 0;

	if (!may_use(c))
		return xd_refuse(c, -EPERM,
				 "the user is neither an operator nor in the group of "
				 "--reserved-lkey-group");
	if (!m->all)
		err = xd_mem_on_demand(m->proc, 0, UINT64_MAX, true, &m->all);
	if (err)
		return err;
	__atomic_store_n(&m->xt, &m->all->xt, __ATOMIC_RELEASE);
	XD_REPLY(rep, xr_reserved_lkey_rep)->lkey = XR_RESERVED_LKEY;
	return 0;
}
