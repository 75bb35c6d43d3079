/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies of payload */
#ifndef XT_BYTES_H
#define XT_BYTES_H

#include <stddef.h>

/*
 * Copies bytes in a way that is fast wherever the payload of a packet lies in a frame. If the
 * ranges overlap, the result is unspecified, but nothing outside of the target is changed.
 */
void xt_copy(void *dst, const void *src, size_t len);

#endif /* XT_BYTES_H */
