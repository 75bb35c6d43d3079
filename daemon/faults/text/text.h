/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text form of fault rules, docs/faults.md. */
#ifndef XD_FAULTS_TEXT_H
#define XD_FAULTS_TEXT_H

#include "daemon/faults/rule.h"

struct xd_fault_list {
	uint64_t seed;
	uint32_t n;
	struct xd_fault_rule rule[XD_FAULT_RULES];
};

/*
 * Parses rules, which are separated by newlines or ';'. A comment is the rest of a line behind '#'.
 * The text may come from any program. Returns -EINVAL, and why[0..size) explains the first error
 * with its line.
 */
int xd_fault_parse(const char *text, uint32_t length, struct xd_fault_list *list, char *why,
		   uint32_t size);

#endif /* XD_FAULTS_TEXT_H */
