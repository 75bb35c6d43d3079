// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "side.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define PAGE 4096

void parse_options(int argc, char **argv, struct options *o, const char *arguments)
{
	int c;

	*o = (struct options){
		.port = 18515, .connections = 1, .depth = 1, .size = 4096, .seconds = 1
	};
	while ((c = getopt(argc, argv, "tuecwg:p:n:d:s:T:")) != -1)
		switch (c) {
		case 't':
			o->tcp = true;
			break;
		case 'u':
			o->floor = true;
			break;
		case 'e':
			o->events = true;
			break;
		case 'c':
			o->check = true;
			break;
		case 'w':
			o->write = true;
			break;
		case 'g':
			o->gid_index = atoi(optarg);
			break;
		case 'p':
			o->port = atoi(optarg);
			break;
		case 'n':
			o->connections = (uint32_t)atoi(optarg);
			break;
		case 'd':
			o->depth = (uint32_t)atoi(optarg);
			break;
		case 's':
			o->size = (uint32_t)atoi(optarg);
			break;
		case 'T':
			o->seconds = atof(optarg);
			break;
		default:
			fprintf(stderr, "usage: %s [OPTION...] %s\n", argv[0], arguments);
			exit(2);
		}
	o->arguments = argv + optind;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int without_delay(int sock)
{
	int on = 1;

	MUST(sock >= 0, "no connection to the peer");
	MUST(!setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
	return sock;
}

int side_listen(int port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	MUST(listener >= 0 && !setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
	     "socket");
	MUST(!bind(listener, (struct sockaddr *)&any, sizeof(any)) && !listen(listener, BACKLOG),
	     "listen");
	return listener;
}

int side_accept(int listener)
{
	struct pollfd pfd = { .fd = listener, .events = POLLIN };

	MUST(poll(&pfd, 1, WAIT_SECONDS * 1000) == 1, "no peer has connected");
	return without_delay(accept(listener, NULL, NULL));
}

int side_connect(const char *host, int port)
{
	return without_delay(tcp_connect(host, port));
}

void side_tell(int sock, const void *data, size_t len)
{
	MUST(send(sock, data, len, MSG_NOSIGNAL) == (ssize_t)len, "send to the peer");
}

void side_hear(int sock, void *data, size_t len)
{
	MUST(recv(sock, data, len, MSG_WAITALL) == (ssize_t)len, "the peer has ended");
}

bool side_closed(int sock)
{
	char byte;

	return !recv(sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
}

/* ---- time of operations ---------------------------------------------------------------------- */

void meter_start(struct meter *m, double seconds)
{
	uint64_t now = now_ns();

	MUST(times_new(&m->times), "memory");
	m->count = 0;
	m->from = now + (uint64_t)(seconds * 2e8);
	m->until = m->from + (uint64_t)(seconds * 1e9);
}

void meter_add(struct meter *m, uint64_t began, uint64_t ended)
{
	if (ended < m->from || (ended >= m->until && m->count))
		return;
	/* the only one, on a machine that stood still */
	if (ended >= m->until)
		m->until = ended;
	m->count++;
	times_add(&m->times, ended - began);
}

void meter_print(struct meter *m)
{
	uint32_t n = m->times.n, *ns = m->times.ns;

	MUST(n, "no operation has ended");
	qsort(ns, n, sizeof(*ns), times_compare);
	printf("%.0f %.2f %.2f\n", (double)m->count * 1e9 / (double)(m->until - m->from),
	       ns[n / 2] / 1e3, ns[(uint64_t)n * 99 / 100] / 1e3);
}

/* ---- contents -------------------------------------------------------------------------------- */

void stamp(uint8_t *block, size_t len, uint64_t number, bool all)
{
	if (all) {
		fill_pattern(block, len, (uint32_t)number, 0);
		return;
	}
	memcpy(block, &number, sizeof(number));
	memcpy(block + len - sizeof(number), &number, sizeof(number));
}

bool has_stamp(const uint8_t *block, size_t len, uint64_t number, bool all)
{
	if (all)
		return has_pattern(block, len, (uint32_t)number, 0);
	return !memcmp(block, &number, sizeof(number)) &&
	       !memcmp(block + len - sizeof(number), &number, sizeof(number));
}

uint8_t *side_memory(size_t len)
{
	uint8_t *memory = aligned_alloc(PAGE, (len + PAGE - 1) / PAGE * PAGE);

	MUST(memory, "memory");
	memset(memory, 0, len);
	return memory;
}
