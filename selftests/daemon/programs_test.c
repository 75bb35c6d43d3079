// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs, which metrics count apart. */
#include <stdio.h>
#include <string.h>

#include "daemon/clients/client.h"
#include "selftests/lib/tap.h"

static struct xd_clients clients;

static struct xd_program *program(uid_t uid, const char *comm)
{
	struct xd_client c = { .clients = &clients, .identity = { .uid = uid } };

	snprintf(c.identity.comm, sizeof(c.identity.comm), "%s", comm);
	return xd_program_of(&c);
}

static void test_names(void)
{
	const struct xd_program *p = program(1, "ib_write_bw");

	TAP_OK(p->uid == 1 && !strcmp(p->comm, "ib_write_bw"), "a program is a user and a name");
	TAP_OK(program(1, "ib_write_bw") == p, "clients of one program count together");
	TAP_OK(program(2, "ib_write_bw") != p && program(1, "ib_read_bw") != p,
	       "programs of other users or names are others");
	TAP_OK(program(1, "a\n\x9b") == program(1, "a\x01\xff") &&
		       !strcmp(program(1, "a\n\x9b")->comm, "a??"),
	       "names that print alike are one program");
	TAP_OK(program(1, "") != &clients.programs.others && !strcmp(program(1, "")->comm, "?"),
	       "a client without a name is not taken for those beyond the limits");
	xd_programs_free(&clients.programs);
}

static void test_limits(void)
{
	const struct xd_program *first = program(0, "program"), *others = &clients.programs.others;
	uint32_t apart = 0, all = 1;
	char name[16];

	for (uint32_t i = 0; i < 2 * XD_USER_PROGRAMS; i++) {
		snprintf(name, sizeof(name), "program%u", i);
		apart += program(1, name) != others;
	}
	TAP_OK(apart == XD_USER_PROGRAMS, "a user has %u programs, others count together", apart);
	for (uint32_t i = 0; i < XD_PROGRAMS; i++)
		all += program(2 + i, "program") != others;
	TAP_OK(apart + all == XD_PROGRAMS, "a device has %u programs", apart + all);
	TAP_OK(program(0, "program") == first, "beyond the limits known programs stay apart");
	xd_programs_free(&clients.programs);
}

int main(void)
{
	test_names();
	clients = (struct xd_clients){ 0 };
	test_limits();
	return tap_end();
}
