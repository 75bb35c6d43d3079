/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The environment of programs that use xroce: one list for `run`, which sets it, and `env`, which
 * prints it.
 */
#ifndef XROCE_ENVIRONMENT_H
#define XROCE_ENVIRONMENT_H

#include "cli.h"

struct cli_program {
	const char **device; /* the program sees only these xroce devices; to be freed */
	size_t devices;	     /* 0: all */
	bool only;	     /* it sees no devices of the kernel */
	const char *path;    /* who runs the transport (provider/control/path.h); NULL: not said */
	bool inherits;	     /* its environment is that of this process otherwise */
	/* Where the program finds them, if not where this command does; NULL: there */
	const char *library, *runtime_dir;
};

struct cli_environment {
	struct {
		const char *name;
		char *value;
	} variable[9];
	size_t count;
};

/*
 * Stores the variables that the program needs, and their values. Prints errors, and a warning if
 * there is no device. Returns the exit status.
 */
int cli_environment(struct cli *cli, const struct cli_program *p, struct cli_environment *e);
void cli_environment_free(struct cli_environment *e);

/*
 * Options of both commands, to be handed to getopt_long() beside others. Takes an option. Returns
 * 0, or as cli_options() if the command is finished.
 */
#define CLI_PROGRAM_LETTERS "d:r:h"
/* clang-format off */
#define CLI_PROGRAM_OPTIONS                                     \
	{ "device", required_argument, NULL, 'd' },             \
	{ "only", no_argument, NULL, 'o' },                     \
	{ "path", required_argument, NULL, 'p' },               \
	{ "runtime-dir", required_argument, NULL, 'r' },        \
	{ "help", no_argument, NULL, 'h' }
/* clang-format on */
int cli_take_program_option(struct cli *cli, struct cli_program *p, int option);

/* no_device.c: only a warning, since the program may not need a device */
void cli_warn_without_device(const struct cli *cli);

/* Stores the folder of this command, or "" if it is unknown. */
void cli_own_folder(char path[PATH_MAX]);

/*
 * start.c: if no daemon can be reached, starts one for this user, in the background, and waits
 * until it answers. cli->runtime_dir becomes the directory of the one that was found or started.
 * Two processes that call this start one daemon. Prints what was started, and errors.
 * @interface: that a daemon has to serve; NULL: any does, and a new one serves the loopback
 * @idle: seconds without a program after which a new daemon ends, as a decimal number; 0: never
 * Returns the exit status.
 */
int cli_start(struct cli *cli, const char *interface, const char *idle);

#endif /* XROCE_ENVIRONMENT_H */
