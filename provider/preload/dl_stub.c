// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * libxroce-dl.so is intentionally empty. It depends on libxroce.so and then on libibverbs.so.1, so
 * symbols looked up in its handle are found in that order: dlopen.c.
 */
typedef int nothing; /* ISO C forbids an empty translation unit */
