/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Protection domains. */
#ifndef XD_PD_H
#define XD_PD_H

#include "daemon/clients/client.h"

/* The number of a PD, which keys and QPs refer to. Clients that import a PD share its number. */
struct xd_pd_id {
	uint32_t number; /* unique on the device */
	uint32_t refs;	 /* PDs */
};

struct xd_pd {
	struct xd_object obj;
	struct xd_pd_id *id;
};

extern const struct xd_kind_ops xd_pd_ops;

/* Creates a PD with the given number, or with a new one if id is NULL. */
int xd_pd_new(struct xd_client *c, struct xd_pd_id *id, struct xd_pd **pd);

#endif /* XD_PD_H */
