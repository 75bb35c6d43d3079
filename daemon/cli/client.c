// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests to one daemon, as an observer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "provider/base/clock.h"

#define TIMEOUT_MS 10000
/* Longest SHOW reply. The maximum of eight million regions takes 1.5 GB. */
#define TEXT_MAX (2u << 30)

/* The text of a list that has arrived so far */
struct rows {
	char *text;
	size_t length, room;
};

char **cli_devices(const struct cli *cli)
{
	char **names = xp_sockets_list(cli->runtime_dir);

	if (!names)
		cli_error("%s: %m", cli->runtime_dir);
	return names;
}

static unsigned int client_timeout_ms(uint64_t deadline_ns)
{
	uint64_t now = xp_clock();

	if (!deadline_ns)
		return TIMEOUT_MS;
	return deadline_ns > now ? (unsigned int)((deadline_ns - now) / XP_NS_PER_MS) + 1 : 1;
}

int cli_client_open(struct cli_client *c, const struct cli *cli, const char *device)
{
	unsigned int ms = client_timeout_ms(cli->deadline_ns);
	const struct xp_timeouts timeouts = { ms, ms };
	int err;

	*c = (struct cli_client){ .conn.fd = -1, .deadline_ns = cli->deadline_ns };
	snprintf(c->device, sizeof(c->device), "%s", device);
	err = xp_socket_path(c->path, cli->runtime_dir, device);
	return err ? err : xp_conn_observe(&c->conn, c->path, timeouts, &c->hello);
}

void cli_client_close(struct cli_client *c)
{
	xp_conn_close(&c->conn);
}

int cli_client_call(struct cli_client *c, struct xp_call *call)
{
	xp_conn_set_timeout(&c->conn, client_timeout_ms(c->deadline_ns));
	return xp_conn_call(&c->conn, call);
}

static int read_all(int fd, char **text)
{
	struct stat st;
	char *buf;
	size_t at = 0;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < 0 || st.st_size > TEXT_MAX)
		return -EFBIG;
	buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return -ENOMEM;
	while (at < (size_t)st.st_size) {
		n = pread(fd, buf + at, (size_t)st.st_size - at, (off_t)at);
		if (n <= 0) {
			free(buf);
			return n ? -errno : -EPROTO;
		}
		at += (size_t)n;
	}
	buf[at] = 0;
	*text = buf;
	return 0;
}

static struct xr_show_req *client_new_request(uint32_t what, const struct cli_selection *s,
					      size_t *size)
{
	size_t length = s ? s->length : 0;
	struct xr_show_req *req = malloc(sizeof(*req) + length);

	if (!req)
		return NULL;
	*req = (struct xr_show_req){
		.what = what,
		.flags = XR_SHOW_PIECES,
		.length = (uint32_t)length,
	};
	if (length)
		memcpy(req->select, s->text, length);
	*size = sizeof(*req) + length;
	return req;
}

/* Gets the text of one reply, and the place of the next one; 0: there is none. */
static int show_piece(struct cli_client *c, const struct xr_show_req *req, size_t size, char **text,
		      uint64_t *next)
{
	struct xr_show_rep rep;
	int fd, err;
	struct xp_call show = {
		.type = XR_MSG_SHOW,
		.req = req,
		.req_len = size,
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_room = 1,
	};

	err = cli_client_call(c, &show);
	if (err)
		return err;
	if (!show.rep_nfds)
		return -EPROTO;
	err = read_all(fd, text);
	close(fd);
	*next = rep.next;
	return err;
}

/* Adds the rows of a piece to a list, which becomes the text of one list. */
static int client_join(struct rows *list, const char *piece)
{
	size_t n = strlen(piece), length = list->length;
	char *text;

	if (n < 2 || piece[0] != '[' || piece[n - 1] != ']')
		return -EPROTO;
	if (n == 2 && length)
		return 0;
	if (length + n > TEXT_MAX)
		return -EFBIG;
	if (length + n + 1 > list->room) {
		list->room = 2 * (length + n + 1);
		text = realloc(list->text, list->room);
		if (!text)
			return -ENOMEM;
		list->text = text;
	}
	/* The bracket of the rows so far becomes a comma, unless there are none. */
	if (length > 2) {
		list->text[length - 1] = ',';
		memcpy(list->text + length, piece + 1, n);
		list->length = length + n - 1;
	} else {
		memcpy(list->text, piece, n + 1);
		list->length = n;
	}
	return 0;
}

/* text: the first piece, which belongs to this function. Stores the whole list there. */
static int show_rest(struct cli_client *c, struct xr_show_req *req, size_t size, char **text,
		     uint64_t next)
{
	struct rows list = { 0 };
	int err = client_join(&list, *text);

	while (!err && next) {
		free(*text);
		*text = NULL;
		req->from = next;
		err = show_piece(c, req, size, text, &next);
		if (!err)
			err = client_join(&list, *text);
	}
	free(*text);
	*text = err ? NULL : list.text;
	if (err)
		free(list.text);
	return err;
}

int cli_client_show(struct cli_client *c, uint32_t what, const struct cli_selection *s, char **text)
{
	size_t size;
	struct xr_show_req *req = client_new_request(what, s, &size);
	uint64_t next = 0;
	int err;

	*text = NULL;
	if (!req)
		return -ENOMEM;
	err = show_piece(c, req, size, text, &next);
	if (!err && next)
		err = show_rest(c, req, size, text, next);
	free(req);
	return err;
}

int cli_client_set_fault(struct cli_client *c, const char *rules)
{
	size_t length = strlen(rules);
	struct xr_set_fault_req *req = malloc(sizeof(*req) + length);
	struct xp_call set_fault = {
		.type = XR_MSG_SET_FAULT,
		.req = req,
		.req_len = (uint32_t)(sizeof(*req) + length),
	};
	int err;

	if (!req)
		return -ENOMEM;
	*req = (struct xr_set_fault_req){ .length = (uint32_t)length };
	memcpy(req->text, rules, length);
	err = cli_client_call(c, &set_fault);
	free(req);
	return err;
}

void cli_client_describe(const struct cli_client *c, const char *doing, int err, char *text,
			 size_t size)
{
	char why[256];

	switch (err) {
	case -ENOENT:
		snprintf(text, size, "no device '%s': there is no %s", c->device, c->path);
		break;
	case -ECONNREFUSED:
		snprintf(text, size, "%s: the daemon is gone: nothing listens on %s", c->device,
			 c->path);
		break;
	case -EACCES:
		xp_conn_describe(&c->conn, c->path, err, why, sizeof(why));
		snprintf(text, size, "%s: you may not connect to %s: %s", c->device, c->path, why);
		break;
	case -ECONNRESET:
	case -EPIPE:
		snprintf(text, size, "%s: the daemon closed the connection to %s", c->device,
			 c->path);
		break;
	case -EPERM:
		snprintf(text, size, "%s: %s is for root and the user of the daemon only",
			 c->device, doing);
		break;
	case -EPROTO:
		snprintf(text, size, "%s: %s: the daemon has another version of the protocol",
			 c->device, doing);
		break;
	default:
		xp_conn_describe(&c->conn, c->path, err, why, sizeof(why));
		snprintf(text, size, "%s: %s: %s", c->device, doing, why);
	}
}

int cli_client_explain(const struct cli_client *c, const char *doing, int err)
{
	char text[512];

	if (!err)
		return CLI_OK;
	cli_client_describe(c, doing, err, text, sizeof(text));
	return cli_error("%s", text);
}

int cli_client_ended(const struct cli_client *c)
{
	fflush(stdout); /* what came before */
	return cli_error("%s: the daemon has ended", c->device);
}
