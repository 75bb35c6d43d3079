/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waiting for a condition, instead of sleeping for a time that a busy machine exceeds. */
#ifndef XR_TEST_WAIT_H
#define XR_TEST_WAIT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define WAIT_TURNS 20000 /* of at least 1 ms */

/* Waits until the condition is true; evaluates to false if it does not become true within 20 s. */
#define WAIT_UNTIL(cond)                                                                           \
	({                                                                                         \
		int turns_ = WAIT_TURNS;                                                           \
		while (!(cond) && --turns_)                                                        \
			usleep(1000);                                                              \
		turns_ > 0;                                                                        \
	})

/* Returns whether the thread sleeps in the system call with that number. */
__attribute__((unused)) static bool thread_sleeps_in(pid_t tid, long number)
{
	char path[64], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	/* The file says "running" for a thread that does not sleep. */
	if (!fgets(text, sizeof(text), f) || text[0] < '0' || text[0] > '9')
		text[0] = '\0';
	fclose(f);
	return text[0] && strtol(text, NULL, 10) == number;
}

/* Returns whether a thread of this process other than the caller sleeps in that system call. */
__attribute__((unused)) static bool other_thread_sleeps_in(long number)
{
	DIR *dir = opendir("/proc/self/task");
	bool found = false;
	struct dirent *d;
	pid_t tid;

	while (dir && !found && (d = readdir(dir))) {
		tid = (pid_t)atoi(d->d_name);
		found = tid && tid != gettid() && thread_sleeps_in(tid, number);
	}
	if (dir)
		closedir(dir);
	return found;
}

#endif /* XR_TEST_WAIT_H */
