/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The `xroce` command: runs programs with xroce devices, and shows the state of daemons. It talks
 * to daemons only through their control sockets.
 *
 *   main.c     the table of commands
 *   options.c  options, help, error messages
 *   client.c   requests to a daemon
 *   print.c    prints JSON as lines and tables
 *   filter.c   filters and order of rows
 *   names.c    names of the members that a filter can name
 *   values.c   words that these members can have
 *   show.c     list, and the commands that print a reply: status, counters, qp, mr, ...
 *   metrics.c  metrics, with metrics_collect.c, and metrics_serve.c: by HTTP
 *   top.c      top, with top_rates.c
 *   monitor.c  monitor
 *   fault.c    fault
 *   run.c      run
 *   env.c      env; environment.c: the variables that both set
 *   start.c    run --start: starts a daemon for a user
 *   doctor.c   doctor, with the files that doctor.h lists
 *   capture.c  capture, with the files that capture.h lists
 *   cdi.c      cdi
 *   rdma.c     the `rdma` that programs under `xroce run` find in PATH
 */
#ifndef XROCE_CLI_H
#define XROCE_CLI_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <xroce/control.h>

#include "provider/control/connection.h"
#include "provider/control/sockets.h"

struct option; /* getopt.h */

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit status */

#define CLI_RUNTIME_DIR_ENV "XROCE_RUNTIME_DIR"
#define CLI_DEVICES_ENV "XROCE_DEVICES"
#define CLI_LIBRARY "libxroce.so" /* the provider */
/* Folder of the provider in containers; `xroce run` looks for the provider there, too. */
#define CLI_CONTAINER_LIBRARIES "/usr/lib/xroce"

struct cli_command;
struct cli {
	const struct cli_command *commands; /* all of them */
	size_t ncommands;
	const struct cli_command *command;
	const char *runtime_dir;
	bool runtime_dir_given; /* by an option or by XROCE_RUNTIME_DIR */
	bool json;
	bool pretty; /* JSON with line breaks */
	bool all;
	bool detail;   /* cli_show(): everything that is known of each row */
	char **filter; /* of cli_filter() */
	int filters;
	const char *state;    /* cli_show(): print only rows in this state; NULL: all */
	uint64_t deadline_ns; /* of requests to daemons, xp_clock(); 0: 10 seconds for each */
};

struct cli_command {
	const char *name;
	const char *args;
	const char *summary;
	const char *details;				    /* for --help, or NULL */
	int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's name */
	uint32_t what;					    /* of cli_show(): enum xr_show_what */
	bool json;					    /* prints JSON with --json */
	const char *options; /* letters of those that not all commands have; NULL: none */
};

/* ---- options.c ---- */

/* Print "xroce: ..." to stderr and return CLI_FAILED or CLI_USAGE. */
__attribute__((format(printf, 1, 2))) int cli_error(const char *fmt, ...);
__attribute__((format(printf, 2, 3))) int cli_usage(const struct cli *cli, const char *fmt, ...);

/*
 * Parses the options that all commands share. argv starts with the command's name. Returns the
 * index of the first other argument, or -(exit status + 1) if the command is finished (--help,
 * errors).
 */
int cli_options(struct cli *cli, int argc, char **argv);
/*
 * As getopt_long(), for a command with options of its own. Prints an error and returns '?' if an
 * option is unknown or has no value. *word: the argument with the option
 */
int cli_next_option(const struct cli *cli, int argc, char **argv, const char *letters,
		    const struct option *known, const char **word);
/* Stores an option. Returns the exit status. */
typedef int cli_set_option(struct cli *cli, void *arg, int option, char *value);
/* Options that a command has besides -h, -r, -j and -p */
struct cli_own_options {
	const char *letters; /* of all its options, as for getopt_long() */
	const struct option *known;
	cli_set_option *set;
	void *arg;
};
/* As cli_options(), for a command with options of its own. */
int cli_parse_own(struct cli *cli, int argc, char **argv, const struct cli_own_options *own);
void cli_help(const struct cli *cli);
void cli_command_help(const struct cli_command *c);

/* client.c */

/* Like xp_sockets_list(), but prints an error if it returns NULL. */
char **cli_devices(const struct cli *cli);

struct cli_selection;

struct cli_client {
	struct xp_conn conn;
	char path[XP_SOCKET_PATH_MAX];
	char device[XR_DEVICE_NAME_MAX + 1];
	uint64_t deadline_ns; /* as in struct cli */
	struct xr_hello_rep hello;
};

/* Return 0 or -errno and print nothing. cli_client_close() is needed after an error, too. */
int cli_client_open(struct cli_client *c, const struct cli *cli, const char *device);
void cli_client_close(struct cli_client *c);
int cli_client_call(struct cli_client *c, struct xp_call *call);
/*
 * Gets a reply of the daemon (docs/show.md), which the caller frees; of a list, the rows that a
 * selection names, or all (s: NULL). A list comes in pieces, between which the daemon serves
 * others. Daemons of earlier versions send all rows.
 */
int cli_client_show(struct cli_client *c, uint32_t what, const struct cli_selection *s,
		    char **text);
int cli_client_set_fault(struct cli_client *c, const char *rules);

/* Writes an error as text, without a line feed. */
void cli_client_describe(const struct cli_client *c, const char *doing, int err, char *text,
			 size_t size);
/* Prints the error, unless err is 0. Returns the exit status. */
int cli_client_explain(const struct cli_client *c, const char *doing, int err);
/* Prints that the daemon has ended while the command followed it. Returns CLI_FAILED. */
int cli_client_ended(const struct cli_client *c);

/* print.c */
json_t *cli_parse(const char *text);			 /* NULL: not JSON */
bool cli_print(const char *text, bool hide_zero);	 /* false: not JSON */
void cli_in_state(json_t *list, const char *state);	 /* removes the rows in another state */
void cli_print_field(const char *value);		 /* replaces control characters */
void cli_print_value(const char *name, const json_t *v); /* as one word, in quotes if need be */
/* Prints JSON, with line breaks or without them, or text, as the options say. */
void cli_print_reply(const struct cli *cli, const json_t *root);
void cli_end_json(const struct cli *cli); /* ends the line of JSON */
void cli_print_init(void);		  /* decides whether there are colours and units */
/* Write a number with a unit or with the prefix of a power of 1000. */
void cli_duration(double ns, char *text, size_t room);
void cli_amount(double n, char *text, size_t room);
/* Writes a time since 1970 as `ip -timestamp` does. */
void cli_clock(uint64_t ns, char *text, size_t room);

/*
 * filter.c: removes the rows of a list that do not have the values of cli->filter: pairs of the
 * name of a member, which may be abbreviated, and its value; then sorts them, if a name is "sort".
 * Returns the exit status.
 */
int cli_filter(const struct cli *cli, json_t *list);
/*
 * Returns true if one row has the values of cli->filter, whose names are complete. A value may be
 * several with commas.
 */
bool cli_matches(const struct cli *cli, const json_t *row);

/*
 * The rows that the daemon shall send, for struct xr_show_req: pairs of texts. What does not fit
 * into a request is left out, so the caller filters the rows again.
 */
struct cli_selection {
	char text[4096];
	size_t length;
	unsigned int pairs;
};
void cli_select(struct cli_selection *s, const char *names, const char *values);
/* Adds the values of cli->filter and cli->state, which were checked. */
void cli_select_filters(const struct cli *cli, struct cli_selection *s);

/* Checks cli->filter before there are rows. Returns the exit status. */
int cli_check_filters(const struct cli *cli);
/* The same for events, which have no order; completes the names in cli->filter. */
int cli_complete_filters(struct cli *cli);

/* names.c: returns a row with all members of the command's rows, borrowed; NULL: it has no rows. */
const json_t *cli_template(const struct cli *cli);
void cli_names_help(const struct cli_command *c); /* lists the members */

/*
 * values.c: print an error and return CLI_USAGE if a word of `wanted`, which commas separate, is no
 * value that the member has in any row of this command; or one of cli->state no state. Members that
 * can have any value are not checked.
 */
int cli_check_words(const struct cli *cli, const char *name, const char *wanted);
int cli_check_state(const struct cli *cli);

/*
 * show.c: takes [DEV] [NAME VALUE]... from the arguments behind the options; stores the device, or
 * NULL, and cli->filter. Returns the exit status.
 */
int cli_take_filters(struct cli *cli, int argc, char **argv, char **device);

/*
 * environment.c: stores the path of the provider; false: neither next to this command nor installed
 */
bool cli_find_library(char path[PATH_MAX]);

/*
 * metrics_collect.c: writes the metrics of the device, NULL: of all, to `out`; for each daemon that
 * does not answer, a line that says why to `problems`. Returns the number of daemons that have
 * answered, or -ENOMEM.
 */
int cli_collect_metrics(const struct cli *cli, const char *device, FILE *out, FILE *problems);
/*
 * metrics_serve.c: serves them by HTTP at an address, or at the sockets that the service manager
 * has passed, until a signal ends the command. group: whose members may connect to a unix socket,
 * or NULL. Returns the exit status.
 */
int cli_serve_metrics(struct cli *cli, const char *address, const char *group, const char *device);

int cli_run(struct cli *cli, int argc, char **argv);
int cli_env(struct cli *cli, int argc, char **argv);
int cli_doctor(struct cli *cli, int argc, char **argv);

int cli_list(struct cli *cli, int argc, char **argv);
int cli_show(struct cli *cli, int argc, char **argv);
int cli_top(struct cli *cli, int argc, char **argv);
int cli_monitor(struct cli *cli, int argc, char **argv);
int cli_metrics(struct cli *cli, int argc, char **argv);
int cli_fault(struct cli *cli, int argc, char **argv);
int cli_capture(struct cli *cli, int argc, char **argv);
int cli_cdi(struct cli *cli, int argc, char **argv);
int cli_rdma(const struct cli *cli, int argc, char **argv);

#endif /* XROCE_CLI_H */
