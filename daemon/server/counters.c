// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counters.h"

#include <malloc.h>
#include <string.h>

#include <xroce/reason.h>

#include "daemon/base/loop.h"
#include "daemon/clients/device.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/tables.h"
#include "server.h"
#include "view.h"

#define ACTION_PASS "pass"
#define ACTION_REDIRECT "redirect"
#define ACTION_ANSWER "answer"
#define ACTION_DROP "drop"

const struct xd_reason xd_reasons[XR_REASON_COUNT] = {
#define X(name, act, text) { #name, ACTION_##act, text },
	XR_REASONS(X)
#undef X
};

void xd_sum_counters(struct xd_server *s, struct xd_sums *sums)
{
	struct xd_device *dev = s->dev;
	uint32_t i;

	memset(sums, 0, sizeof(*sums));
	for (i = 0; i < XR_REASON_COUNT; i++)
		xd_tables_stat(dev->tables, i, &sums->reason[i]);
	xd_workers_sum(dev->workers, &sums->transport, sums->reason);
	xd_views_sum(s, sums);
}

/* Part of the control thread's time that is used to count memory */
#define COUNT_PART 100

/* Visits all free pieces of memory: 65 536 take 20 ms, and clients decide how many there are. */
uint64_t xd_heap_bytes(struct xd_malloced *m)
{
	uint64_t begun = xd_now(), now;
	struct mallinfo2 info;

	if (begun < m->until)
		return m->bytes;
	info = mallinfo2();
	now = xd_now();
	*m = (struct xd_malloced){
		.bytes = info.uordblks + info.hblkhd,
		.until = now + (now - begun) * COUNT_PART,
	};
	return m->bytes;
}
