// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* metrics --listen: the metrics by HTTP. Each collection asks the daemons that run then. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "daemon/exporter/listen.h"
#include "daemon/exporter/serve.h"
#include "provider/base/clock.h"

#define PASSED "systemd" /* instead of an address */
/* Of a collection, for which all peers wait: less than XD_SCRAPE_PEER_NS */
#define COLLECT_NS (4000 * XP_NS_PER_MS)

struct service {
	struct cli *cli;
	const char *device; /* NULL: all */
	char *problems;	    /* of the last collection; NULL: none yet */
};

/* ---- collections ----------------------------------------------------------------- */

/* Prints problems, unless they are those of the last collection. */
static void log_problems(struct service *s, char *problems)
{
	char *at = problems;

	if (!s->problems || strcmp(s->problems, problems)) {
		for (; *at; at += strcspn(at, "\n") + 1)
			cli_error("%.*s", (int)strcspn(at, "\n"), at);
		if (s->problems && *s->problems && !*problems)
			cli_error("all daemons answer again");
	}
	free(s->problems);
	s->problems = problems;
}

static bool metrics_serve_collect(void *arg, char **text)
{
	struct service *s = arg;
	char *problems = NULL;
	size_t length, lines;
	FILE *out = open_memstream(text, &length), *errors = open_memstream(&problems, &lines);
	int got = -ENOMEM;

	s->cli->deadline_ns = xp_clock() + COLLECT_NS;
	if (out && errors)
		got = cli_collect_metrics(s->cli, s->device, out, errors);
	if (out && fclose(out))
		got = -ENOMEM;
	if (errors && fclose(errors))
		got = -ENOMEM;
	if (got < 0) {
		free(*text);
		free(problems);
		*text = NULL;
		cli_error("out of memory");
		return false;
	}
	if (!got) {
		free(*text);
		*text = strdup(problems);
	}
	log_problems(s, problems);
	return got > 0;
}

/* ---- sockets --------------------------------------------------------------------- */

static int listen_passed(int *fds)
{
	int n = xd_listen_passed(fds, XD_SCRAPE_SOCKETS);

	if (n > 0)
		return n;
	switch (n) {
	case 0:
		cli_error("--listen " PASSED ": the service manager has passed no socket");
		break;
	case -EINVAL:
		cli_error("--listen " PASSED ": LISTEN_PID or LISTEN_FDS is no number");
		break;
	case -E2BIG:
		cli_error("--listen " PASSED ": more than %u sockets were passed",
			  XD_SCRAPE_SOCKETS);
		break;
	case -ENOTSOCK:
		cli_error("--listen " PASSED ": a descriptor that was passed is no listening "
			  "stream socket");
		break;
	default:
		cli_error("--listen " PASSED ": %s", strerror(-n));
	}
	return n ? n : -ENOENT;
}

static int metrics_serve_listen_at(const char *address, const char *name, int *fd)
{
	const struct group *group = name ? getgrnam(name) : NULL;

	if (name && !group) {
		cli_error("--group %s: there is no such group", name);
		return -ENOENT;
	}
	*fd = xd_listen_at(address, group ? group->gr_gid : (gid_t)-1);
	if (*fd == -EINVAL)
		cli_error("--listen %s: neither ADDRESS:PORT, [ADDRESS]:PORT, /PATH nor " PASSED,
			  address);
	else if (*fd < 0)
		cli_error("--listen %s: %s", address, strerror(-*fd));
	return *fd < 0 ? *fd : 1;
}

/* Daemons and commands take all sockets of that name for those of devices. */
static bool is_of_device(const struct cli *cli, const char *path)
{
	size_t n = strlen(cli->runtime_dir), length = strlen(path);

	return length > n + strlen(XR_SOCKET_SUFFIX) && !strncmp(path, cli->runtime_dir, n) &&
	       path[n] == '/' &&
	       !strcmp(path + length - strlen(XR_SOCKET_SUFFIX), XR_SOCKET_SUFFIX);
}

int cli_serve_metrics(struct cli *cli, const char *address, const char *group, const char *device)
{
	struct service s = { .cli = cli, .device = device };
	bool is_path = address[0] == '/';
	int fds[XD_SCRAPE_SOCKETS], n, err;

	if (group && !is_path)
		return cli_usage(cli, "--group is for a unix socket, --listen %s is none", address);
	if (is_path && is_of_device(cli, address))
		return cli_usage(cli, "--listen %s: that is the name of a device's socket",
				 address);
	xd_serve_block_signals();
	n = strcmp(address, PASSED) ? metrics_serve_listen_at(address, group, fds)
				    : listen_passed(fds);
	if (n < 0)
		return CLI_FAILED;
	err = xd_serve_metrics(fds, (uint32_t)n, is_path ? address : NULL, metrics_serve_collect,
			       &s);
	free(s.problems);
	return err ? cli_error("--listen %s: %s", address, strerror(-err)) : CLI_OK;
}
