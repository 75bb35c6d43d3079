/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Visibility of symbols: the library is built with -fvisibility=hidden. */
#ifndef XP_EXPORT_H
#define XP_EXPORT_H

#define XP_PUBLIC __attribute__((visibility("default")))

#endif /* XP_EXPORT_H */
