// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs that were removed from their engines, until no worker uses them. */
#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/tables.h"
#include "qp.h"

/* The peer of a QP that was removed may have sent messages to it that are done. */
static void tell_sender(struct xd_workers *ws, const struct xt_qp *xt)
{
	struct xt_qp *sender = xt_loopback_sender(xt);
	uint32_t worker;

	if (!sender)
		return;
	worker = xd_worker_of(xt_qp_info(sender)->engine);
	xd_worker_pause(ws, worker);
	xt_loopback_peer_removed(sender, xt);
	xd_worker_resume(ws, worker);
}

void xd_qp_withdraw(struct xd_device *dev, struct xt_qp *xt)
{
	tell_sender(dev->workers, xt);
	xt_qp_withdraw(xt);
	xd_tables_del_qp(dev->tables, xt_qp_info(xt)->qpn);
	xd_grace_synchronize(dev->workers);
}
