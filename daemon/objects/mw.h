/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory windows. Engines bind them. */
#ifndef XD_MW_H
#define XD_MW_H

#include "daemon/clients/client.h"
#include "ending.h"

struct xd_pd;
struct xt_key;

struct xd_mw {
	struct xd_object obj;
	struct xd_pd *pd;
	struct xt_key *key; /* its entry has the range that the window is bound to */
	uint64_t grace;	    /* when it was withdrawn, see daemon/datapath/grace.h */
	bool reply;	    /* a DEALLOC_MW waits for the end: reply then */
	/* of accesses to that range; before, its job waits for the grace period */
	struct xd_ending ending;
};

extern const struct xd_kind_ops xd_mw_ops;

#endif /* XD_MW_H */
