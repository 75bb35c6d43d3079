/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processor time that threads of the daemon use for requests of a client. While other clients send
 * or receive, a client may have a share of one processor (--client-max-load), after a burst for the
 * start of programs. Control thread.
 *
 * Processor time fills a bucket, and time empties it at the rate of the share. The bucket is stored
 * as the time at which it will be empty, in ns of CLOCK_MONOTONIC. A user has a bucket, too.
 */
#ifndef XD_LOAD_H
#define XD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct xd_client;

/* Charges processor time of any thread to the client and its user. */
void xd_load_charge(struct xd_client *c, uint64_t ns);
/* The same for what the control thread did since the last xd_loop_lap(). */
void xd_load_charge_lap(struct xd_client *c);
/*
 * Returns true if other clients work, and the client or, unless that is an operator, its user has
 * used more than its share: more connections, or new ones, do not help a program that sends too
 * much. Operators in different containers may be strangers to each other.
 */
bool xd_load_exceeded(const struct xd_client *c, uint64_t now);

#endif /* XD_LOAD_H */
