/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Options that the kernel has since Linux 4.18 and 5.0; older C libraries lack them */
#ifndef XD_SEGMENTATION_H
#define XD_SEGMENTATION_H

#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* a message leaves as packets of this size */
#endif
#ifndef UDP_GRO
#define UDP_GRO 104 /* packets of a message may be received joined; their size */
#endif

#endif /* XD_SEGMENTATION_H */
