// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Commands of rdma_cm. */
#include <errno.h>

#include "daemon/clients/request.h"

int xd_do_cm(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	return -EOPNOTSUPP;
}
