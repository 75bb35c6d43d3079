// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of requests, which wait in the thread of the program */
#include <time.h>

#include "daemon/faults/faults.h"
#include "internal.h"
#include "requests.h"

int xp_faults_request(struct xp_host *h, uint32_t type)
{
	struct xd_fault_verb v = { 0 };
	struct timespec ts;

	if (!xp_page_acts(&h->page))
		return 0;
	xp_host_enter(h);
	if (h->faults.any)
		v = xd_faults_verb(h->faults.rules, type, UINT64_MAX, h->now);
	xp_host_leave_quietly(h);
	if (v.delay_ns) {
		ts = (struct timespec){ .tv_sec = (time_t)(v.delay_ns / 1000000000),
					.tv_nsec = (long)(v.delay_ns % 1000000000) };
		nanosleep(&ts, NULL);
	}
	return v.error ? xp_host_refuse(h, v.error, "fault injection") : 0;
}
