/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control socket, the clients behind it and the objects they own.
 */
#ifndef XD_SERVER_H
#define XD_SERVER_H

#include <stdint.h>

#include "daemon/transport/transport.h"

struct xd_device;

/* Listens; clients are served from now on. */
int xd_server_start(struct xd_device *dev);
/* Ends all clients, releases everything. */
void xd_server_stop(struct xd_device *dev);

/* To every client: a port or device event (enum ibv_event_type). Control thread. */
void xd_server_port_event(struct xd_device *dev, uint32_t type);
/* Link, MTU or addresses changed: paths of QPs are resolved anew where they must. Control thread. */
void xd_server_net_changed(struct xd_device *dev);

/*
 * The engines' callbacks (struct xt_ops), called by workers inside a round; ctx of the ops is the
 * worker, which forwards.
 */
void xd_server_cq_event(struct xd_device *dev, struct xt_cq *cq);
void xd_server_async_event(struct xd_device *dev, struct xt_qp *qp, struct xt_cq *cq,
			   uint32_t type);
void xd_server_srq_event(struct xd_device *dev, struct xt_srq *srq, uint32_t type);
void xd_server_key_changed(struct xd_device *dev, const struct xt_key *key);
void xd_server_qp_state(struct xd_device *dev, struct xt_qp *qp);

#endif /* XD_SERVER_H */
