/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers of the device files umadN. libibumad looks for umad0 to umad63. The number of a device is
 * a hash of its name. If another device of the runtime directory or the kernel has that number, it
 * is the next free one. So all programs use the same numbers without a registry.
 */
#ifndef XP_UMAD_NUMBER_H
#define XP_UMAD_NUMBER_H

#include <stdint.h>

#define XP_UMADS 64
#define XP_UMAD_MAJOR 231u

/* Returns the number of a device, or -1 if there are too many. */
int xp_umad_number(const char *device);

#endif /* XP_UMAD_NUMBER_H */
