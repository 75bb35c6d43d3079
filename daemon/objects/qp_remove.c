// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What follows when a QP was stopped, or removed from its engine. */
#include "daemon/base/loop.h"
#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/tables.h"
#include "qp.h"

void xd_qp_tell_sender(struct xd_device *dev, struct xt_qp *sender, const struct xt_qp *xt)
{
	uint32_t worker;

	if (!sender)
		return;
	worker = xd_worker_of(xt_qp_info(sender)->engine);
	xd_worker_pause(dev->workers, worker);
	xt_loopback_peer_stopped(sender, xt, xd_now());
	xd_worker_resume(dev->workers, worker);
}

void xd_qp_withdraw(struct xd_device *dev, struct xt_qp *xt)
{
	xd_qp_tell_sender(dev, xt_loopback_sender(xt), xt);
	xt_qp_withdraw(xt);
	xd_tables_del_qp(dev->tables, xt_qp_info(xt)->qpn);
	xd_grace_synchronize(dev->workers);
}
