/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fault injection for the QPs of one context. */
#ifndef XP_FAULTS_H
#define XP_FAULTS_H

#include <stddef.h>

struct xp_context;

#define XP_FAULT_RULES_MAX 32768 /* bytes */

/* Replaces the rules of a context, at most XP_FAULT_RULES_MAX bytes. Returns 0 or -errno. */
int xp_faults_set(struct xp_context *ctx, const char *rules, size_t length);

/*
 * Sets the rules of the file that the environment variable XROCE_FAULT names, if it is set. Prints
 * an error to stderr, because a test must not run without its faults. Returns 0 or -errno.
 */
int xp_faults_load(struct xp_context *ctx);

#endif /* XP_FAULTS_H */
