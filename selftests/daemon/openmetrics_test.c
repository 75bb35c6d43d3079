// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The OpenMetrics format: labels and times. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/openmetrics.h"
#include "selftests/fuzz/input.h"
#include "selftests/lib/tap.h"

static void test_labels(void)
{
	char *text = NULL;
	size_t length;
	struct openmetrics m = { .f = open_memstream(&text, &length), .device = "x\"y\\z" };

	MUST(m.f);
	om_family(&m, "a_bytes", OM_COUNTER, "Help");
	om_begin(&m);
	om_label(&m, "comm", "e\xff\n1");
	om_value(&m, UINT64_MAX);
	om_family(&m, "b_seconds", OM_GAUGE, "Help");
	om_begin(&m);
	om_seconds(&m, 1000000020);
	om_end(&m);
	MUST(!fclose(m.f));
	TAP_OK(!strcmp(text, "# TYPE xroce_a_bytes counter\n# UNIT xroce_a_bytes bytes\n"
			     "# HELP xroce_a_bytes Help.\n"
			     "xroce_a_bytes_total{device=\"x\\\"y\\\\z\",comm=\"e??1\"} "
			     "18446744073709551615\n"
			     "# TYPE xroce_b_seconds gauge\n# UNIT xroce_b_seconds seconds\n"
			     "# HELP xroce_b_seconds Help.\n"
			     "xroce_b_seconds{device=\"x\\\"y\\\\z\"} 1.000000020\n# EOF\n"),
	       "labels are escaped, times are seconds");
	free(text);
}

int main(void)
{
	test_labels();
	return tap_end();
}
