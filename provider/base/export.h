/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Attributes of functions. The library is built with -fvisibility=hidden. */
#ifndef XP_EXPORT_H
#define XP_EXPORT_H

#define XP_PUBLIC __attribute__((visibility("default")))

/*
 * For functions that ThreadSanitizer's runtime calls before it is ready, as it calls sigaction():
 * they must not call it back. Compilers do not inline functions that are checked into these.
 */
#define XP_UNCHECKED __attribute__((no_sanitize("thread")))

#endif /* XP_EXPORT_H */
