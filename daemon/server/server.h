/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control socket, the clients behind it and the objects they own.
 */
#ifndef XD_SERVER_H
#define XD_SERVER_H

#include <stdint.h>

struct xd_device;
struct xd_server;

/* Listens; clients are served from now on. *server is NULL after an error. */
int xd_server_start(struct xd_device *dev, struct xd_server **server);
/* Ends all clients, releases everything. */
void xd_server_stop(struct xd_server *server); /* NULL allowed */

/* To every client: a port or device event (enum ibv_event_type). Control thread. */
void xd_server_port_event(struct xd_server *server, uint32_t type);
/* Link, MTU or addresses changed: paths of QPs are resolved anew where they must. Control thread. */
void xd_server_net_changed(struct xd_server *server);

#endif /* XD_SERVER_H */
