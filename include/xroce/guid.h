/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GUIDs as text, in the form of ibv_devinfo, rdma(8) and the kernel's files */
#ifndef XROCE_GUID_H
#define XROCE_GUID_H

#include <linux/types.h>
#include <stdio.h>

#define XR_GUID_TEXT 20 /* size of the text */

/* guid: in network byte order */
static inline void xr_guid_text(__u64 guid, char text[XR_GUID_TEXT])
{
	const __u8 *g = (const __u8 *)&guid;

	snprintf(text, XR_GUID_TEXT, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3],
		 g[4], g[5], g[6], g[7]);
}

#endif /* XROCE_GUID_H */
