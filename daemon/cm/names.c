// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of messages, states and REJ reasons. */
#include "cm.h"

const char *xc_kind_name(enum xc_kind kind)
{
	static const char *const names[] = {
#define NAME(name) [XC_##name] = #name,
		XC_KINDS(NAME)
#undef NAME
	};

	return names[kind];
}

const char *xc_reason_text(unsigned reason)
{
	static const char *const texts[XC_NUM_REASONS] = {
#define TEXT(number, name, text) [number] = text,
		XC_REASONS(TEXT)
#undef TEXT
	};

	return reason < XC_NUM_REASONS ? texts[reason] : NULL;
}

const char *xc_state_name(enum xc_state state)
{
	static const char *const names[] = {
		[XC_IDLE] = "IDLE",
		[XC_REQ_SENT] = "REQ_SENT",
		[XC_MRA_REQ_RCVD] = "MRA_REQ_RCVD",
		[XC_REQ_RCVD] = "REQ_RCVD",
		[XC_MRA_REQ_SENT] = "MRA_REQ_SENT",
		[XC_REP_SENT] = "REP_SENT",
		[XC_MRA_REP_RCVD] = "MRA_REP_RCVD",
		[XC_REP_RCVD] = "REP_RCVD",
		[XC_MRA_REP_SENT] = "MRA_REP_SENT",
		[XC_ESTABLISHED] = "ESTABLISHED",
		[XC_DREQ_SENT] = "DREQ_SENT",
		[XC_DREQ_RCVD] = "DREQ_RCVD",
		[XC_TIMEWAIT] = "TIMEWAIT",
		[XC_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
		[XC_SIDR_REQ_RCVD] = "SIDR_REQ_RCVD",
	};

	return names[state];
}
