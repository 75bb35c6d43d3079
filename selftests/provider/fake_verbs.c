// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A libibverbs that lists devices of a kernel, for programs that preload this library after
 * libxroce.so: those that the variable FAKE_VERBS names, with commas.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 4

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	static struct ibv_device devices[DEVICES];
	struct ibv_device **list = calloc(DEVICES + 1, sizeof(*list));
	char *names = strdup(getenv("FAKE_VERBS")), *save = NULL, *name;
	int n = 0;

	for (name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		snprintf(devices[n].name, sizeof(devices[n].name), "%s", name);
		list[n] = &devices[n];
		n++;
	}
	free(names);
	if (num)
		*num = n;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}
