/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CRC-32 of Ethernet, which the ICRC uses (IBTA 7.8.1). */
#ifndef XT_CRC_H
#define XT_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of data that follows data with the CRC `crc`, or 0 at the start. */
uint32_t xt_crc32(uint32_t crc, const uint8_t *data, size_t len);

/* The same. xt_crc32() calls the one that was quicker at the start of the process. */
uint32_t xt_crc32_by_multiplication(uint32_t crc, const uint8_t *data, size_t len);
uint32_t xt_crc32_by_tables(uint32_t crc, const uint8_t *data, size_t len);

#endif /* XT_CRC_H */
