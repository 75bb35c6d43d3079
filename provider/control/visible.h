/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Environment variables that say which devices a program sees. */
#ifndef XP_VISIBLE_H
#define XP_VISIBLE_H

#include <stdbool.h>

/* Returns the directory of the control sockets: XROCE_RUNTIME_DIR or its default. */
const char *xp_runtime_dir(void);

/*
 * Returns true if the program may see the device: XROCE_DEVICES is unset, or lists the name, with
 * commas between names.
 */
bool xp_device_is_visible(const char *name);

#endif /* XP_VISIBLE_H */
