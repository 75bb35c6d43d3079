/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of a rule of fault injection, and the values that they stand for. */
#ifndef XD_FAULTS_WORDS_H
#define XD_FAULTS_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

#define XD_WORDS_SPACES " \t\r" /* between words */

/* The words of a line, and where the first error is explained */
struct xd_words {
	char *rest; /* of strtok_r() */
	char *why;
	uint32_t size;
	const char *what; /* keyword whose value is parsed */
	uint32_t given;	  /* bit by keyword: those that the rule has */
};

struct xd_unit {
	const char *name;
	double factor;
};

struct xd_name {
	const char *name;
	uint8_t value;
};

/* Returns the next word, NULL behind the last one. */
const char *xd_words_next(struct xd_words *w);
/* Explains what the keyword needs, instead of `value`, which may be NULL. Returns false. */
bool xd_words_wrong(struct xd_words *w, const char *value, const char *needs);

/* These parse a word. They return false if it is no such number or name, and explain nothing. */
/* A number with a unit of the list, which ends with a NULL name. Rounds to an integer. */
bool xd_words_unit(const char *text, const struct xd_unit *units, double most, uint64_t *value);
/* A name of the list, which ends with a NULL name; upper case and lower case are the same. */
bool xd_words_name(const struct xd_name *names, const char *text, uint8_t *value);

/* These parse the next word. If it is wrong they explain what the keyword needs. */
bool xd_words_number(struct xd_words *w, uint64_t least, uint64_t most, uint64_t *n);
bool xd_words_number32(struct xd_words *w, uint64_t least, uint64_t most, uint32_t *n);
bool xd_words_time(struct xd_words *w, uint64_t most, uint64_t *ns);
bool xd_words_probability(struct xd_words *w, uint32_t *p); /* in units of 1e-9 */
bool xd_words_address(struct xd_words *w, struct xr_addr *addr);
bool xd_words_named(struct xd_words *w, const struct xd_name *names, uint8_t *value,
		    const char *needs);

#endif /* XD_FAULTS_WORDS_H */
