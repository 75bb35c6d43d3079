/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What show.c answers with, beside what it knows itself */
#ifndef XD_SHOW_H
#define XD_SHOW_H

#include "daemon/base/json.h"

struct xd_server;

/* XR_SHOW_QPS and other lists of one kind of object; -EINVAL: no such list. */
int xd_show_objects(struct json *j, struct xd_server *s, uint32_t what);

#endif /* XD_SHOW_H */
