/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Refuses requests with a reason. */
#ifndef XD_REFUSE_H
#define XD_REFUSE_H

struct xd_client;

/*
 * Stores the text that explains to the program why its request fails. It names the field, its
 * value, and what would be right. Returns err.
 */
int xd_refuse(struct xd_client *c, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* XD_REFUSE_H */
