/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a change of four bytes does to a CRC of data. A CRC is linear: changes of the data add
 * (without carry) to a change of the CRC that depends on nothing else in the data. So the CRC after
 * a change follows from the one before, and the change can be found from both CRCs.
 */
#ifndef XT_CRC_CHANGE_H
#define XT_CRC_CHANGE_H

#include <stdint.h>

/* Largest distance of the bytes from the end */
#define XT_CRC_BEHIND 4352

/*
 * Returns the difference (exclusive or) of the CRCs of data before and after `change` is added to
 * four bytes, with the first of them in its low byte. behind: number of bytes that follow these
 * four, up to XT_CRC_BEHIND
 */
uint32_t xt_crc32_difference(uint32_t change, uint32_t behind);
/* Returns the change that makes this difference. */
uint32_t xt_crc32_change(uint32_t difference, uint32_t behind);

#endif /* XT_CRC_CHANGE_H */
