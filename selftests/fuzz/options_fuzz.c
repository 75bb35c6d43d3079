// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The daemon's command line and configuration file.
 *
 * Input: arguments, each followed by a zero byte; an empty argument; the file.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "input.h"

#define MAX_ARGS 32

/* Discards messages about errors. */
static void be_quiet(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	stdout = fopen("/dev/null", "w");
	stderr = stdout;
	MUST(stdout);
}

/* Returns the next argument, in memory of exactly its length; NULL after the last one. */
static char *next_arg(struct stream *in)
{
	const uint8_t *end = in->left ? memchr(in->data, 0, in->left) : NULL;
	size_t len = end ? (size_t)(end - in->data) : in->left;
	char *arg;

	if (!len) {
		input_u8(in);
		return NULL;
	}
	arg = malloc(len + 1);
	MUST(arg);
	input_bytes(in, arg, len);
	arg[len] = 0;
	input_u8(in);
	return arg;
}

/*
 * Options that name a configuration file are skipped, so that only the file of the input is read.
 */
static bool names_config(const char *arg)
{
	return !strncmp(arg, "--co", 4);
}

static int file_of(const struct stream *in, char *path, size_t room)
{
	int fd = memfd_create("config", MFD_CLOEXEC);

	MUST(fd >= 0 && write(fd, in->data, in->left) == (ssize_t)in->left);
	snprintf(path, room, "--config=/proc/self/fd/%d", fd);
	return fd;
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, 0, room);
}

static void check(const struct xd_options *o)
{
	MUST(ends(o->interface, sizeof(o->interface)) && o->interface[0]);
	MUST(ends(o->name, sizeof(o->name)) && o->name[0] && !strchr(o->name, '/'));
	MUST(ends(o->runtime_dir, sizeof(o->runtime_dir)) && o->runtime_dir[0]);
	MUST(ends(o->bpffs, sizeof(o->bpffs)) && ends(o->group, sizeof(o->group)));
	MUST(o->attach <= XD_ATTACH_GENERIC);
	MUST(o->ring_size && !(o->ring_size & (o->ring_size - 1)));
	MUST(o->max_clients && o->max_qp && o->max_cq && o->max_mr && o->max_pd && o->max_ah &&
	     o->max_srq);
	MUST(o->client_max_qp && o->client_max_cq && o->client_max_mr && o->client_max_pd &&
	     o->client_max_srq);
	MUST(o->user_max_clients && o->user_max_qp && o->user_max_cq && o->user_max_mr &&
	     o->user_max_pd && o->user_max_ah && o->user_max_srq);
	MUST(ends(o->fault, sizeof(o->fault)));
	MUST(o->log_level >= XD_ERR && o->log_level <= XD_DEBUG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	char *argv[MAX_ARGS + 3] = { NULL }, *arg, path[64];
	struct xd_options opt;
	int argc = 0, fd, err;

	be_quiet();
	argv[argc++] = strdup("xroced");
	while (argc < MAX_ARGS && (arg = next_arg(&in))) {
		if (names_config(arg))
			free(arg);
		else
			argv[argc++] = arg;
	}
	fd = file_of(&in, path, sizeof(path));
	argv[argc++] = strdup(path);
	err = xd_options_parse(&opt, argc, argv);
	MUST(err == 0 || err == 1 || err == -EINVAL);
	if (!err)
		check(&opt);
	/* getopt_long() has changed the order of the pointers, but all are still in argv */
	while (argc)
		free(argv[--argc]);
	close(fd);
	return 0;
}
