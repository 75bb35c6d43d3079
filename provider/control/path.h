/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* XROCE_PATH: who runs the transport of a program's contexts. docs/direct.md */
#ifndef XP_PATH_H
#define XP_PATH_H

#include <stdbool.h>

enum xp_path {
	XP_PATH_DAEMON, /* the daemon */
	XP_PATH_DIRECT, /* the program; a device cannot be opened where it may not */
	XP_PATH_AUTO,	/* the default: the program where it may and is as fast, else the daemon */
};

/* The words in this order, separated by commas, for messages */
#define XP_PATH_WORDS "daemon, direct, auto"

/* Returns false if the word is not known. NULL and "": the default */
bool xp_path_of_word(const char *word, enum xp_path *path);

#endif /* XP_PATH_H */
