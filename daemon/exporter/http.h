/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests of HTTP/1 (RFC 9112), as far as a server with one read-only page needs them. */
#ifndef XD_HTTP_H
#define XD_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define XD_HTTP_HEAD_MAX 4096 /* bytes of request line and header fields */

/*
 * Returns the status code of the response to the bytes that were received so far: 200 for GET
 * and HEAD of the page; 400, 404, 405, 431 or 505; 0: the request is not complete yet.
 */
int xd_http_status(const char *head, size_t length, const char *page);
/* Returns true if the response has no content (RFC 9110, 9.3.2). */
bool xd_http_is_head(const char *head, size_t length);
/* Returns the text of a status code, with the code, e.g. "404 Not Found". */
const char *xd_http_reason(int status);

#endif /* XD_HTTP_H */
