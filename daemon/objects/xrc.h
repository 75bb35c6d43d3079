/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* XRC domains, which processes share through a file. */
#ifndef XD_XRC_H
#define XD_XRC_H

#include "daemon/clients/client.h"

/* An XRC domain, of a file or of one handle alone */
struct xd_xrc_domain {
	uint32_t number; /* never 0 */
	uint32_t refs;	 /* handles */
	int fd;		 /* keeps the inode from being reused; -1: no file */
	uint64_t dev, inode;
	struct xd_xrc_domain *next, **pprev; /* in the list of domains with a file */
};

/* A client's handle of an XRC domain */
struct xd_xrcd {
	struct xd_object obj;
	struct xd_xrc_domain *domain;
};

extern const struct xd_kind_ops xd_xrcd_ops;

#endif /* XD_XRC_H */
