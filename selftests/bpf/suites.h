/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The suites of test-bpf, in the order in which they run; each prints TAP. */
#ifndef TEST_SUITES_H
#define TEST_SUITES_H

struct fixture;

void test_load(void);		      /* both programs, alone, as a loader would */
void test_tables(struct fixture *f);  /* rows-*.c */
void test_opcodes(struct fixture *f); /* each that there is: accepted, and refused for each cause */
void test_truncation(struct fixture *f);
void test_captures(struct fixture *f);
void test_delivery(struct fixture *f); /* sockets, metadata, rate limit */
void test_nak_rate(void);
void test_iterators(struct fixture *f);
void test_live(void);	  /* a veth pair and a bound AF_XDP socket */
void test_coverage(void); /* no reason may be left without a frame */
void test_docs(void);	  /* nor without its line in the documentation */

#endif /* TEST_SUITES_H */
