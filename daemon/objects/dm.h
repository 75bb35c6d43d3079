/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Device memory: pieces of memory shared with the client (clients/shm.h), so programs copy to and
 * from it directly. Regions refer to it by XR_SEG_DM.
 */
#ifndef XD_DM_H
#define XD_DM_H

#include "daemon/clients/client.h"

struct xd_dm {
	struct xd_object obj;
	uint64_t length;
	struct xd_piece piece;
};

extern const struct xd_kind_ops xd_dm_ops;

#endif /* XD_DM_H */
