/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Address handles, the engine's side; see transport.h for the rest. */
#ifndef XT_AH_H
#define XT_AH_H

#include "packet.h"

struct xt_ah {
	uint32_t pd;
	bool group; /* the destination is a multicast group */
	struct xt_path path;
	struct xt_template tmpl; /* complete except destination QPN and source port */
};

/* Returns NULL if there is no such handle. */
const struct xt_ah *xt_ah_get(const struct xt_ahs *t, uint32_t handle);

#endif /* XT_AH_H */
