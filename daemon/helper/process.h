/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process of the helper. */
#ifndef XD_HELPER_PROCESS_H
#define XD_HELPER_PROCESS_H

#include "daemon/base/process.h"

struct xd_dreqs;

struct xd_helper {
	struct xd_process process;
	struct xd_dreqs *dreqs;
};

#endif /* XD_HELPER_PROCESS_H */
