/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies of payload */
#ifndef XT_BYTES_H
#define XT_BYTES_H

#include <stddef.h>

/*
 * Copies bytes between ranges that do not overlap, in a way that is fast wherever the payload of a
 * packet lies in a frame.
 */
void xt_copy(void *dst, const void *src, size_t len);

#endif /* XT_BYTES_H */
