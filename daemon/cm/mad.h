/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Conversion between CM messages and MADs (IBTA 12.6, 12.8, 12.11, 13.4.2). */
#ifndef XC_MAD_H
#define XC_MAD_H

#include "cm.h"

enum xc_decoded {
	XC_DECODED,
	XC_NOT_CM,	  /* no MAD, or one of another class */
	XC_OTHER_VERSION, /* of the CM class; *msg has kind, tid and local_id */
	XC_MALFORMED,
};

/* Private data and other variable parts must fit into their fields. */
void xc_mad_encode(uint8_t mad[XC_MAD_LEN], const struct xc_msg *msg);
/* Private data of *msg points into the MAD. */
enum xc_decoded xc_mad_decode(const uint8_t *mad, size_t len, struct xc_msg *msg);

#endif /* XC_MAD_H */
