/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program that a message of the log is about, for fields of the journal. */
#ifndef XD_LOG_PROGRAM_H
#define XD_LOG_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

struct xd_log_program {
	pid_t pid;
	uid_t uid;
	const char *comm; /* NULL: unknown */
	uint32_t qpn;	  /* its QP that the message is about; 0: none */
};

/*
 * Messages of this thread are about the program from now on; NULL: about none. The caller resets it
 * before *program ends.
 */
void xd_log_about(const struct xd_log_program *program);

#endif /* XD_LOG_PROGRAM_H */
