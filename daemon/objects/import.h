/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Objects of another client: a client that presents another client's token, and belongs to the same
 * user, may import PDs, regions and device memory of it. The number of an imported PD is valid as
 * long as any client has it; everything else only as long as its owner has it.
 */
#ifndef XD_IMPORT_H
#define XD_IMPORT_H

#include <stdint.h>

#include <xroce/control.h>

struct xd_client;
struct xd_request;

struct xd_import {
	uint8_t token[XR_TOKEN_LEN]; /* zeros: an observer, which has none */
	uint32_t exporter;	     /* id of the client whose token was presented, 0: none */
};

/*
 * Creates the client's token; with XR_HELLO_IMPORT finds the client to import from. -ENOENT: no
 * client has that token. Returns the token.
 */
int xd_import_hello(struct xd_client *c, const struct xd_request *req, const uint8_t **token);

#endif /* XD_IMPORT_H */
