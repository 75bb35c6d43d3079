/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Network byte order, for BPF and user space: clang's BPF target cannot use <endian.h>. The macros
 * work in both directions and accept constant expressions.
 */
#ifndef XROCE_BYTEORDER_H
#define XROCE_BYTEORDER_H

#include <linux/types.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define xr_be16(x) ((__u16)__builtin_bswap16(x))
#define xr_be32(x) ((__u32)__builtin_bswap32(x))
#define xr_be64(x) ((__u64)__builtin_bswap64(x))
#else
#define xr_be16(x) ((__u16)(x))
#define xr_be32(x) ((__u32)(x))
#define xr_be64(x) ((__u64)(x))
#endif

#endif /* XROCE_BYTEORDER_H */
