/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions of the real libibverbs, which the functions of this library replace. */
#ifndef XP_LIBIBVERBS_H
#define XP_LIBIBVERBS_H

#include <stdbool.h>

struct ibv_device;

/* Returns the dlopen() that follows this library's own in the search order. */
void *(*xp_real_dlopen(void))(const char *file, int mode);

/*
 * Returns a function of libibverbs, or NULL if the installed release lacks it.
 * @version: symbol version, or NULL for the default version.
 */
void *xp_libibverbs_symbol(const char *name, const char *version);

/* ibv_get_device_list() and ibv_free_device_list() of libibverbs */
struct ibv_device **xp_libibverbs_get_device_list(int *num);
void xp_libibverbs_free_device_list(struct ibv_device **list);

/*
 * Returns true while the calling thread is in ibv_get_device_list() of libibverbs, which must not
 * find emulated files: a driver could claim the device by its PCI ID.
 */
bool xp_libibverbs_is_listing(void);

#endif /* XP_LIBIBVERBS_H */
