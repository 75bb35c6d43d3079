/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kinds of send work requests. */
#ifndef XT_WR_KIND_H
#define XT_WR_KIND_H

/* LOCAL: changes keys and sends nothing. READ and later: answered by more than an ACK. */
enum xt_wr_kind {
	XT_KIND_NONE,
	XT_KIND_SEND,
	XT_KIND_WRITE,
	XT_KIND_LOCAL,
	XT_KIND_READ,
	XT_KIND_ATOMIC,
	XT_KIND_ATOMIC_WRITE,
};

#endif /* XT_WR_KIND_H */
