// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * libxroce-dl.so, which is empty on purpose: it needs libxroce.so and then libibverbs.so.1, so a
 * symbol looked up in its handle is found in that order. See dlopen.c.
 */
typedef int nothing;
