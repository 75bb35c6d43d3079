// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct object objects[MAX_OBJECTS];
static struct {
	bool on;
	uint32_t failures; /* of the next completions */
} automatic;
struct client clients[MAX_CLIENTS];
unsigned int async_total, slow_ms;

void die(const char *what)
{
	perror(what);
	_exit(99);
}

/* ---- commands of the test ----------------------------------------------------- */

enum op {
	OP_COMPLETE,
	OP_ASYNC,
	OP_ERROR,
	OP_DOORBELL,
	OP_SEGMENTS,
	OP_READ,
	OP_WRITE,
	OP_OBJECTS,
	OP_ENTRY,
	OP_CQ_FLAGS,
	OP_BURST,
	OP_PAGES,
	OP_AUTOMATIC,
	OP_SLOW,
	OP_XRC,
};

struct command {
	enum op op;
	uint32_t a, b, c, d, e;
	uint64_t x;
	uint8_t data[4096];
};

static void async_event(const struct command *cmd)
{
	struct xr_async_event ev = { .element = cmd->x, .type = cmd->a };
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if ((objects[i].kind == QP || objects[i].kind == CQ || objects[i].kind == SRQ) &&
		    objects[i].cookie == cmd->x)
			objects[i].async_written++;
	}
	for (i = 0; i < MAX_CLIENTS; i++) {
		if (clients[i].pipe >= 0 && write(clients[i].pipe, &ev, sizeof(ev)) > 0)
			async_total++;
	}
}

static void doorbell(struct command *cmd)
{
	struct client *c;
	uint64_t wakes = 0;
	uint32_t i;

	for (c = clients; c < clients + MAX_CLIENTS && !c->doorbell; c++)
		;
	cmd->b = __atomic_exchange_n(&c->doorbell->bits0, 0, __ATOMIC_SEQ_CST) != 0;
	for (i = 0; i < 64; i++)
		c->doorbell->bits1[i] = 0;
	for (i = 0; i < 4096; i++)
		c->doorbell->bits2[i] = 0;
	if (read(c->wake, &wakes, sizeof(wakes)) < 0)
		wakes = 0;
	cmd->c = wakes;
	c->doorbell->sleeping = cmd->a;
}

static bool access_memory(struct object *mr, uint64_t addr, void *data, uint32_t len, bool write)
{
	const struct xr_mr_segment *s;
	uint8_t *at;
	unsigned int i;

	for (i = 0; i < mr->segments; i++) {
		s = &mr->segment[i];
		if (addr < s->addr || addr + len > s->addr + s->length)
			continue;
		if (s->kind == XR_SEG_PRIVATE)
			return (write ? pwrite(mr->client->mem, data, len, addr)
				      : pread(mr->client->mem, data, len, addr)) == (ssize_t)len;
		if (!mr->map[i])
			return false;
		at = mr->map[i] + (s->offset & 4095) + (addr - s->addr);
		if (write)
			memcpy(at, data, len);
		else
			memcpy(data, at, len);
		return true;
	}
	return false;
}

static void command(int fd)
{
	struct command cmd;
	struct object *o;
	unsigned int i;

	if (recv(fd, &cmd, sizeof(cmd), 0) <= 0)
		_exit(0);
	o = &objects[cmd.a < MAX_OBJECTS ? cmd.a : 0];
	switch (cmd.op) {
	case OP_COMPLETE:
		for (i = 0; i < cmd.c && complete_one(o, cmd.b, cmd.d, cmd.e); i++)
			;
		cmd.a = i;
		break;
	case OP_ASYNC:
		async_event(&cmd);
		break;
	case OP_ERROR:
		o->state = o->sq->word = o->rq->word = IBV_QPS_ERR;
		break;
	case OP_DOORBELL:
		doorbell(&cmd);
		break;
	case OP_SEGMENTS:
		memset(cmd.data, 0, 16);
		o = &objects[cmd.a >> 8];
		for (i = 0; i < o->segments; i++)
			((uint32_t *)cmd.data)[o->segment[i].kind & 3]++;
		break;
	case OP_READ:
	case OP_WRITE:
		cmd.b = access_memory(&objects[cmd.a >> 8], cmd.x, cmd.data, cmd.c,
				      cmd.op == OP_WRITE);
		break;
	case OP_OBJECTS:
		for (cmd.a = 0, i = 1; i < MAX_OBJECTS; i++)
			cmd.a += objects[i].kind != FREE;
		break;
	case OP_ENTRY:
		memcpy(cmd.data,
		       (uint8_t *)(o->sq + 1) + (size_t)(cmd.b & (o->sq_depth - 1)) * o->sq_stride,
		       o->sq_stride);
		cmd.a = o->sq->producer;
		break;
	case OP_BURST:
		cmd.b = o->burst;
		break;
	case OP_XRC:
		cmd.a = complete_xrc(&objects[cmd.a], &objects[cmd.b], IBV_WC_SUCCESS);
		break;
	case OP_SLOW:
		slow_ms = cmd.a;
		break;
	case OP_CQ_FLAGS:
		cmd.b = o->cq_flags;
		cmd.c = o->moderate_count;
		cmd.d = o->moderate_period;
		break;
	case OP_PAGES:
		o = &objects[cmd.a >> 8];
		memcpy(cmd.data, o->lists + (size_t)cmd.b * o->max_pages, cmd.c * sizeof(uint64_t));
		break;
	case OP_AUTOMATIC:
		automatic.on = cmd.b;
		automatic.failures = cmd.c;
		break;
	}
	send(fd, &cmd, sizeof(cmd), MSG_NOSIGNAL);
}

/* ---- the process -------------------------------------------------------------- */

static void drop_client(struct client *c)
{
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if (objects[i].kind != FREE && objects[i].client == c)
			free_object(&objects[i]);
	}
	if (c->pipe >= 0) {
		close(c->pipe);
		close(c->wake);
		munmap(c->chunk, CHUNK_SIZE);
	}
	if (c->mem >= 0)
		close(c->mem);
	close(c->fd);
	*c = (struct client){ .fd = -1, .pipe = -1, .wake = -1, .mem = -1 };
}

static void accept_client(int listener)
{
	struct client *c;

	for (c = clients; c->fd >= 0; c++)
		;
	c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

/* Completes all sends that are posted. */
static void complete_all(void)
{
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if (objects[i].kind != QP || objects[i].state != IBV_QPS_RTS)
			continue;
		while (complete_one(&objects[i], false,
				    automatic.failures ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS,
				    false))
			automatic.failures -= !!automatic.failures;
	}
}

static void run(int listener, int cmd)
{
	static struct message m;
	struct pollfd p[MAX_CLIENTS + 2];
	unsigned int i;

	for (i = 0; i < MAX_CLIENTS; i++)
		clients[i] = (struct client){ .fd = -1, .pipe = -1, .wake = -1, .mem = -1 };
	for (;;) {
		for (i = 0; i < MAX_CLIENTS; i++)
			p[i] = (struct pollfd){ clients[i].fd, POLLIN, 0 };
		p[i++] = (struct pollfd){ listener, POLLIN, 0 };
		p[i] = (struct pollfd){ cmd, POLLIN, 0 };
		if (poll(p, MAX_CLIENTS + 2, automatic.on ? 1 : -1) < 0)
			die("poll");
		if (automatic.on)
			complete_all();
		for (i = 0; i < MAX_CLIENTS; i++) {
			if (!p[i].revents)
				continue;
			if (receive(clients[i].fd, &m)) {
				serve(&clients[i], &m);
				while (m.nfds)
					close(m.fds[--m.nfds]);
			} else {
				drop_client(&clients[i]);
			}
		}
		if (p[MAX_CLIENTS].revents)
			accept_client(listener);
		/* Earlier events are served first; the poll() above may have missed them. */
		if (p[MAX_CLIENTS + 1].revents && poll(p, MAX_CLIENTS + 1, 0) <= 0)
			command(cmd);
	}
}

int fake_start(struct fake *f, const char *dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int listener, pair[2];

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" FAKE_DEVICE ".sock", dir);
	unlink(sun.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) || listen(listener, 8) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	f->pid = fork();
	if (f->pid < 0)
		return -errno;
	if (!f->pid) {
		close(pair[0]);
		listen(listener,
		       8); /* SO_PEERCRED of clients is the process that called listen() last */
		run(listener, pair[1]);
	}
	close(pair[1]);
	close(listener);
	f->cmd = pair[0];
	return 0;
}

void fake_kill(struct fake *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	close(f->cmd);
}

static void ask(struct fake *f, struct command *cmd)
{
	if (send(f->cmd, cmd, sizeof(*cmd), MSG_NOSIGNAL) < 0 ||
	    recv(f->cmd, cmd, sizeof(*cmd), 0) <= 0) {
		fprintf(stderr, "the fake daemon died\n");
		exit(1);
	}
}

unsigned int fake_complete(struct fake *f, uint32_t qpn, bool recv, unsigned int n, uint32_t status,
			   bool solicited)
{
	struct command cmd = {
		.op = OP_COMPLETE, .a = qpn, .b = recv, .c = n, .d = status, .e = solicited
	};

	ask(f, &cmd);
	return cmd.a;
}

unsigned int fake_complete_xrc(struct fake *f, uint32_t qpn, uint32_t srqn)
{
	struct command cmd = { .op = OP_XRC, .a = qpn, .b = srqn - FAKE_SRQN };

	ask(f, &cmd);
	return cmd.a;
}

void fake_async_event(struct fake *f, uint64_t element, uint32_t type)
{
	struct command cmd = { .op = OP_ASYNC, .a = type, .x = element };

	ask(f, &cmd);
}

void fake_qp_error(struct fake *f, uint32_t qpn)
{
	struct command cmd = { .op = OP_ERROR, .a = qpn };

	ask(f, &cmd);
}

void fake_doorbell(struct fake *f, bool sleeping, bool *rang, unsigned int *wakes)
{
	struct command cmd = { .op = OP_DOORBELL, .a = sleeping };

	ask(f, &cmd);
	*rang = cmd.b;
	*wakes = cmd.c;
}

void fake_segments(struct fake *f, uint32_t rkey, unsigned int kinds[4])
{
	struct command cmd = { .op = OP_SEGMENTS, .a = rkey };

	ask(f, &cmd);
	memcpy(kinds, cmd.data, 16);
}

bool fake_read(struct fake *f, uint32_t rkey, uint64_t addr, void *data, unsigned int len)
{
	struct command cmd = { .op = OP_READ, .a = rkey, .x = addr, .c = len };

	ask(f, &cmd);
	memcpy(data, cmd.data, len);
	return cmd.b;
}

bool fake_write(struct fake *f, uint32_t rkey, uint64_t addr, const void *data, unsigned int len)
{
	struct command cmd = { .op = OP_WRITE, .a = rkey, .x = addr, .c = len };

	memcpy(cmd.data, data, len);
	ask(f, &cmd);
	return cmd.b;
}

uint32_t fake_send_entry(struct fake *f, uint32_t qpn, uint32_t index, void *entry,
			 unsigned int len)
{
	struct command cmd = { .op = OP_ENTRY, .a = qpn, .b = index };

	ask(f, &cmd);
	memcpy(entry, cmd.data, len);
	return cmd.a;
}

uint32_t fake_burst(struct fake *f, uint32_t qpn)
{
	struct command cmd = { .op = OP_BURST, .a = qpn };

	ask(f, &cmd);
	return cmd.b;
}

void fake_slow(struct fake *f, unsigned int ms)
{
	struct command cmd = { .op = OP_SLOW, .a = ms };

	ask(f, &cmd);
}

uint32_t fake_cq_flags(struct fake *f, uint32_t handle)
{
	struct command cmd = { .op = OP_CQ_FLAGS, .a = handle };

	ask(f, &cmd);
	return cmd.b;
}

void fake_cq_moderation(struct fake *f, uint32_t handle, uint32_t *count, uint32_t *period)
{
	struct command cmd = { .op = OP_CQ_FLAGS, .a = handle };

	ask(f, &cmd);
	*count = cmd.c;
	*period = cmd.d;
}

unsigned int fake_objects(struct fake *f)
{
	struct command cmd = { .op = OP_OBJECTS };

	ask(f, &cmd);
	return cmd.a;
}

void fake_pages(struct fake *f, uint32_t rkey, uint32_t list, uint64_t *pages, unsigned int n)
{
	struct command cmd = { .op = OP_PAGES, .a = rkey, .b = list, .c = n };

	ask(f, &cmd);
	memcpy(pages, cmd.data, n * sizeof(*pages));
}

void fake_automatic(struct fake *f, bool on, unsigned int failures)
{
	struct command cmd = { .op = OP_AUTOMATIC, .b = on, .c = failures };

	ask(f, &cmd);
}
