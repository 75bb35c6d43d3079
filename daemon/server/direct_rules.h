/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The page of a direct program (struct xr_direct_page): the daemon stores the rules of fault
 * injection that select the program there, and adds the hits that its view shows to those of the
 * rules. Captures are on the same page.
 */
#ifndef XD_DIRECT_RULES_H
#define XD_DIRECT_RULES_H

#include <stdint.h>

#include <xroce/view.h>

struct xd_client;
struct xd_clients;

/* Makes the page of a client. -ENOMEM, -EMFILE. */
int xd_direct_rules_open(struct xd_client *c);
void xd_direct_rules_close(struct xd_client *c);
int xd_direct_rules_fd(const struct xd_client *c);
/* Before rules are replaced, and before their hits are read */
void xd_direct_rules_collect(struct xd_clients *cs);
/*
 * Stores the rules for all direct programs, after they were replaced: those of a client itself, or
 * (NULL) those of the operator.
 */
void xd_direct_rules_update(struct xd_clients *cs, const struct xd_client *owner, uint64_t seed);

/* Stores a capture in its place on the page of a client. */
void xd_direct_rules_capture(struct xd_client *c, uint32_t place,
			     const struct xr_direct_capture *entry);

#endif /* XD_DIRECT_RULES_H */
