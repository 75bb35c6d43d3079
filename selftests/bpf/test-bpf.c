// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests of the XDP program with BPF_PROG_TEST_RUN, without a network. Runs as root from the top of
 * the source tree.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "fixture.h"
#include "selftests/lib/tap.h"
#include "suites.h"

/* Prints the warnings of libbpf as TAP comments. */
static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level != LIBBPF_WARN)
		return 0;
	printf("# ");
	return vprintf(fmt, ap);
}

int main(void)
{
	struct fixture f;

	if (geteuid()) {
		printf("1..0 # SKIP needs root\n");
		return 0;
	}
	libbpf_set_print(print_libbpf);
	if (unshare(CLONE_NEWNET)) {
		printf("Bail out! no network namespace: %s\n", strerror(errno));
		return 1;
	}
	test_load();
	if (!TAP_OK(fixture_open(&f, TEST_NAK_RATE), "programs and tables"))
		return tap_end();
	test_iterators(&f);
	test_tables(&f);
	test_opcodes(&f);
	test_truncation(&f);
	test_delivery(&f);
	test_captures(&f);
	fixture_close(&f);
	test_nak_rate();
	test_live();
	test_filter();
	test_coverage();
	test_docs();
	return tap_end();
}
