/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of NAK codes (IBTA 9.7.5.2.8), for people */
#ifndef XROCE_NAK_NAMES_H
#define XROCE_NAK_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <xroce/wire.h>

/* Returns the name of an enum xr_nak; NULL: unknown. */
static inline const char *xr_nak_name(uint32_t code)
{
	static const char *const names[] = {
		[XR_NAK_PSN_SEQUENCE] = "PSN sequence",
		[XR_NAK_INVALID_REQUEST] = "invalid request",
		[XR_NAK_REMOTE_ACCESS] = "remote access",
		[XR_NAK_REMOTE_OPERATIONAL] = "remote operational",
		[XR_NAK_INVALID_RD_REQUEST] = "invalid RD request",
	};

	return code < sizeof(names) / sizeof(names[0]) ? names[code] : NULL;
}

#endif /* XROCE_NAK_NAMES_H */
