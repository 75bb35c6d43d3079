/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Traffic of the queue pairs of each program, for metrics. A program is a user and the name of a
 * process; the clients of one program count together. Names are chosen by programs, and systems
 * that collect metrics never delete a name. So the daemon counts a limited number of programs
 * separately, and all others together.
 */
#ifndef XD_PROGRAMS_H
#define XD_PROGRAMS_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/transport/transport.h"

#define XD_PROGRAMS 64	    /* of the device */
#define XD_USER_PROGRAMS 16 /* of one user */

struct xd_client;

struct xd_program {
	struct xd_program *next;
	uid_t uid;
	char comm[16];		 /* printable ASCII; empty: all programs beyond the limits */
	uint32_t qps;		 /* that exist; counted with `live` */
	struct xt_traffic ended; /* of QPs that were destroyed */
	struct xt_traffic live;	 /* of QPs that exist, when it was summed last */
};

struct xd_programs {
	struct xd_program *first;
	struct xd_program others;
	uint32_t count;
};

/* Returns the program of a client. Its memory stays until xd_programs_free(). */
struct xd_program *xd_program_of(struct xd_client *c);
void xd_programs_free(struct xd_programs *programs);

#endif /* XD_PROGRAMS_H */
