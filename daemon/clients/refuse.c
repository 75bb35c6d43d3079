// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "refuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "client.h"

int xd_refuse(struct xd_client *c, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->connection.why, sizeof(c->connection.why), fmt, ap);
	va_end(ap);
	return err;
}
