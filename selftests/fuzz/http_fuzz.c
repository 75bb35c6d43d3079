// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests of HTTP. Input: the bytes, in memory of exactly their length. */
#include <stdlib.h>

#include "daemon/exporter/http.h"
#include "input.h"

#define PAGE "/metrics"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length = size < XD_HTTP_HEAD_MAX ? size : XD_HTTP_HEAD_MAX;
	char *head = malloc(length);
	int status, before = 0;

	MUST(head || !length);
	memcpy(head, data, length);
	/* A request may arrive in any pieces; the first status counts. */
	for (size_t n = 1; n <= length && !before; n++)
		before = xd_http_status(head, n, PAGE);
	status = length ? xd_http_status(head, length, PAGE) : 0;
	MUST(!status == !before);
	MUST(status != 200 || !memcmp(head, "GET ", 4) || !memcmp(head, "HEAD ", 5));
	MUST(status != 200 || memmem(head, length, PAGE, strlen(PAGE)));
	MUST(!status || xd_http_reason(status)[0] == '0' + status / 100);
	free(head);
	return 0;
}
