// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "provider/base/environment.h"
#include "provider/control/visible.h"

bool xp_device_is_visible(const char *name)
{
	const char *list = xp_environment(XP_DEVICES);
	size_t len = strlen(name), n;

	if (!list)
		return true;
	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (n == len && !memcmp(list, name, n))
			return true;
		if (!list[n])
			return false;
	}
}

bool xp_hides_kernel(void)
{
	static int known; /* 1: no, 2: yes; not known: 0 */
	int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
	const char *value;

	if (!now) {
		value = xp_environment(XP_HIDE);
		now = value && !strcmp(value, XP_HIDE_KERNEL) ? 2 : 1;
		__atomic_store_n(&known, now, __ATOMIC_RELAXED);
	}
	return now == 2;
}

bool xp_kernel_comes_first(void)
{
	const char *value = xp_environment(XP_ORDER);

	return value && !strcmp(value, XP_ORDER_LAST);
}

static bool visible_is_one_of(const char *value, const char *a, const char *b)
{
	return !value || !*value || !strcmp(value, a) || !strcmp(value, b);
}

bool xp_settings_are_known(char *why, size_t size)
{
	const char *hide = xp_environment(XP_HIDE), *order = xp_environment(XP_ORDER);

	if (!visible_is_one_of(hide, XP_HIDE_KERNEL, XP_HIDE_KERNEL))
		snprintf(why, size, "XROCE_HIDE is '%s': only '" XP_HIDE_KERNEL "' can be hidden",
			 hide);
	else if (!visible_is_one_of(order, XP_ORDER_FIRST, XP_ORDER_LAST))
		snprintf(why, size,
			 "XROCE_ORDER is '%s', neither '" XP_ORDER_FIRST "' nor '" XP_ORDER_LAST
			 "'",
			 order);
	else
		return true;
	return false;
}
