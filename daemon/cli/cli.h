/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The `xroce` command: runs programs on xroce devices, and shows what the
 * daemons have. It knows them only by their control sockets.
 *
 *   main.c     commands, options, help
 *   client.c   one daemon's socket: hello, show, fault
 *   devices.c  which daemons there are
 *   print.c    JSON as lines and tables
 *   show.c     list, status, counters, qp, mr, cq, client
 *   fault.c    fault
 *   run.c      run
 */
#ifndef XROCE_CLI_H
#define XROCE_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit status */

#define CLI_RUNTIME_DIR_ENV "XROCE_RUNTIME_DIR"
#define CLI_DEVICES_ENV "XROCE_DEVICES"

struct cli_command;
struct cli {
	const struct cli_command *command;
	const char *runtime_dir;
	bool json;
	bool all;
};

struct cli_command {
	const char *name;
	const char *args;
	const char *summary;
	const char *details;				    /* more for --help, or NULL */
	int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's name */
	uint32_t what;					    /* enum xr_show_what */
};

/* "xroce: ..." on stderr; return CLI_FAILED and CLI_USAGE */
__attribute__((format(printf, 1, 2))) int cli_error(const char *fmt, ...);
__attribute__((format(printf, 2, 3))) int cli_usage(const struct cli *cli, const char *fmt, ...);

/*
 * Options that all commands share; argv from the command's name on. Returns the index of the first other
 * argument, or -(exit status + 1) when there is nothing more to do.
 */
int cli_options(struct cli *cli, int argc, char **argv);

/* client.c */
struct cli_client {
	int fd;
	uint32_t seq;
	char path[256];
	char device[XR_DEVICE_NAME_MAX + 1];
	struct xr_hello_rep hello;
};

/* All return 0 or -errno and say nothing; cli_client_explain() does. */
int cli_client_open(struct cli_client *c, const struct cli *cli, const char *device);
void cli_client_close(struct cli_client *c);
int cli_client_show(struct cli_client *c, uint32_t what, char **text); /* free *text */
int cli_client_set_fault(struct cli_client *c, const struct xr_fault_config *config);
int cli_client_explain(const struct cli_client *c, const char *doing, int err);

/* devices.c: names of all devices with a socket, sorted, NULL at the end */
char **cli_devices(const struct cli *cli);
void cli_devices_free(char **names);

/* print.c: NULL and false if it is no JSON */
json_t *cli_parse(const char *text);
bool cli_print(const char *text, bool hide_zero);
void cli_print_field(const char *value); /* without control characters */

int cli_run(struct cli *cli, int argc, char **argv);
int cli_list(struct cli *cli, int argc, char **argv);
int cli_show(struct cli *cli, int argc, char **argv);
int cli_fault(struct cli *cli, int argc, char **argv);

#endif /* XROCE_CLI_H */
