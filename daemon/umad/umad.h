/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files of umad: programs that send and receive MADs at QP 1, in the role of the kernel's ib_umad
 * and ib_mad.
 *
 *   file.c    open files, and requests of programs
 *   agent.c   agents, and the MADs that they get
 *   send.c    sent MADs, their retries and timeouts
 *
 * Control thread only.
 */
#ifndef XD_UMAD_H
#define XD_UMAD_H

#include "daemon/objects/objects.h"

struct xd_reply;

void xd_umad_start(struct xd_objects *o);
void xd_umad_stop(struct xd_objects *o);

/* Makes the client a file. Adds its descriptor to the reply. -EACCES: not an operator. */
int xd_umad_hello(struct xd_client *c, struct xd_reply *rep);
/* Frees the agents and MADs of a client that ends. No effect if it has no file. */
void xd_umad_end(struct xd_client *c);

#endif /* XD_UMAD_H */
