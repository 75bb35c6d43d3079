/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of suite bpf. Each prints TAP. */
#ifndef TEST_SUITES_H
#define TEST_SUITES_H

struct fixture;

void test_load(void);		      /* each program loads alone, as in the daemon */
void test_tables(struct fixture *f);  /* rows-*.c */
void test_opcodes(struct fixture *f); /* every opcode: accepted, and refused for each cause */
void test_truncation(struct fixture *f);
void test_captures(struct fixture *f);
void test_delivery(struct fixture *f); /* sockets, metadata, rate limit */
void test_nak_rate(void);
void test_iterators(struct fixture *f);
void test_live(void);	  /* on a veth pair, with a bound AF_XDP socket */
void test_filter(void);	  /* a UDP socket with the filter */
void test_coverage(void); /* a frame for every reason was run */
void test_docs(void);	  /* every reason is in docs/xdp.md */

#endif /* TEST_SUITES_H */
