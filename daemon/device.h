/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One daemon is one device: what its parts share. Parts know each other through
 * the functions of their headers only:
 *
 *   options.h           command line and configuration file
 *   loop.h              event loop of the control thread
 *   netdev/net.h        the netdev as seen by rtnetlink: link, addresses (GIDs), next hops
 *   datapath/xdp.h      XDP program, its maps (the mirror), pins
 *   datapath/xsk.h      AF_XDP sockets
 *   datapath/worker.h   threads that drive the transport engines
 *   datapath/fault.h    fault injection
 *   server/server.h     control socket and clients
 *   objects/objects.h   what clients make
 *   memory/tiers.h      how the bytes of a memory region are reached
 *
 * Threads: the control thread runs the loop; each worker runs one engine. A
 * worker holds its own lock during a round. Control code that touches engines,
 * QPs, CQs or keys does so between xd_workers_pause() and xd_workers_resume(), when no
 * worker is inside a round; slow work (pinning, copying) stays outside.
 */
#ifndef XD_DEVICE_H
#define XD_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

#define XD_MAX_WORKERS 16

struct xd_options;
struct xd_loop;
struct xd_net;
struct xd_xdp;
struct xd_worker;
struct xd_server;

struct xd_device {
	const struct xd_options *opt;
	char name[XR_DEVICE_NAME_MAX + 1];
	char ifname[IF_NAMESIZE];
	unsigned int ifindex;
	uint64_t guid; /* big endian, EUI-64 of the MAC */
	struct xd_loop *loop;
	struct xd_net *net;
	struct xd_xdp *xdp;
	struct xr_psn_entry *psns; /* the mapped BPF array, by QP slot */
	struct xt_shared shared;   /* keys and QPs of all engines */
	struct xd_worker *worker[XD_MAX_WORKERS];
	unsigned int workers;
	struct xd_server *server;
};

#endif /* XD_DEVICE_H */
