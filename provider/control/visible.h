/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Environment variables that say which devices a program sees. */
#ifndef XP_VISIBLE_H
#define XP_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns true if the program may see the device: XROCE_DEVICES is unset, or lists the name, with
 * commas between names.
 */
bool xp_device_is_visible(const char *name);

/*
 * Returns true if the program sees no device of the kernel: XROCE_HIDE is "kernel". The answer of
 * the first call is that of all others, so that lists and files agree.
 */
#define XP_HIDE_KERNEL "kernel"
bool xp_hides_kernel(void);

/*
 * Returns true if devices of the kernel come before those of xroce: XROCE_ORDER is "last". Many
 * programs take the first device, and who starts them with the provider wants one of xroce.
 */
#define XP_ORDER_FIRST "first"
#define XP_ORDER_LAST "last"
bool xp_kernel_comes_first(void);

/* Returns false, and the reason, if one of these two variables has another value. */
bool xp_settings_are_known(char *why, size_t size);

#endif /* XP_VISIBLE_H */
