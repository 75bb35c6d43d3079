/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Direct contexts run the transport in the program, on sockets that the daemon lends
 * (provider/host/). XROCE_PATH says which contexts are direct:
 *
 *   daemon   none
 *   direct   all; the device cannot be opened where that is not possible
 *   auto     the default: those for which the daemon lends sockets, unless its own way is faster;
 *            the others go the daemon's way
 */
#ifndef XP_DIRECT_PATH_H
#define XP_DIRECT_PATH_H

#include "provider/verbs/context.h"

/*
 * Makes a context direct that has just sent HELLO, if it is to be. Returns an error only if
 * XROCE_PATH demands what is not possible.
 */
int xp_direct_path_open(struct xp_context *ctx);
/* Ends the host of a context with its objects. Does nothing if there is none. */
void xp_direct_path_close(struct xp_context *ctx);

#endif /* XP_DIRECT_PATH_H */
