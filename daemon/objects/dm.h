/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Device memory: pieces of the memory that daemon and client share anyway (clients/shm.h), so that
 * a program copies to and from it by itself. Regions refer to it by XR_SEG_DM.
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
