// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Priority of the control thread during pauses, with a fake setpriority(). */
#include <errno.h>
#include <sys/resource.h>

#include "daemon/datapath/boost.h"
#include "selftests/lib/tap.h"

#define MS 1000000ull

static int nice_value, calls;
static bool permitted;

/* The linker redirects setpriority() and getpriority() to these. */
int __wrap_setpriority(int which, id_t who, int value);
int __wrap_setpriority(int which, id_t who, int value)
{
	calls++;
	if (value < nice_value && !permitted) {
		errno = EACCES;
		return -1;
	}
	nice_value = value;
	return 0;
}

int __wrap_getpriority(int which, id_t who);
int __wrap_getpriority(int which, id_t who)
{
	return nice_value;
}

/* Returns the nice value during a pause. */
static int pause_for(struct xd_boost *b, uint64_t from, uint64_t ns)
{
	int during;

	xd_boost_begin(b, from);
	during = nice_value;
	xd_boost_end(b, from + ns, ns);
	return during;
}

int main(void)
{
	struct xd_boost b = { 0 };
	uint64_t now = 5 * MS;

	permitted = true;
	nice_value = 3;
	TAP_OK(pause_for(&b, now, 1000) == 3 && !calls,
	       "the priority does not change while pauses are short");
	TAP_OK(pause_for(&b, now, MS) == 3 && pause_for(&b, now + 2 * MS, 1000) == -20,
	       "a pause after a long one has the highest priority");
	TAP_OK(nice_value == 3, "then the thread has its own priority again");
	TAP_OK(pause_for(&b, now + 900 * MS, 1000) == -20 &&
		       pause_for(&b, now + 1100 * MS, 1000) == 3,
	       "after a second without long pauses the priority does not change");
	permitted = false;
	calls = 0;
	pause_for(&b, now, MS);
	TAP_OK(pause_for(&b, now + 2 * MS, 1000) == 3 && nice_value == 3,
	       "without permission the priority stays");
	pause_for(&b, now + 3 * MS, 1000);
	TAP_OK(calls == 1, "and the permission is asked for once");
	return tap_end();
}
