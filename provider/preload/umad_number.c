// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/control/sockets.h"
#include "provider/control/runtime_dir.h"
#include "provider/preload/umad_number.h"

/* Not by access(), which finds emulated files, too. */
static bool kernel_has(unsigned int number)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband_mad/umad%u", number);
	return !syscall(SYS_access, path, F_OK);
}

static unsigned int umad_number_hash(const char *name)
{
	uint32_t h = 2166136261; /* FNV-1a */

	while (*name)
		h = (h ^ (uint8_t)*name++) * 16777619;
	return h % XP_UMADS;
}

/* Returns the first number from that of the name on that is not taken, or -1. */
static int umad_number_choose(const bool taken[XP_UMADS], const char *name)
{
	unsigned int first = umad_number_hash(name), i;

	for (i = 0; i < XP_UMADS && taken[(first + i) % XP_UMADS]; i++)
		;
	return i < XP_UMADS ? (int)((first + i) % XP_UMADS) : -1;
}

int xp_umad_number(const char *device)
{
	char **names = xp_sockets_list(xp_runtime_dir());
	bool taken[XP_UMADS];
	int number = -1;
	unsigned int i;

	for (i = 0; i < XP_UMADS; i++)
		taken[i] = kernel_has(i);
	for (i = 0; names && names[i]; i++) {
		number = umad_number_choose(taken, names[i]);
		if (!strcmp(names[i], device) || number < 0)
			break;
		taken[number] = true;
		number = -1;
	}
	xp_sockets_free(names);
	return number;
}
