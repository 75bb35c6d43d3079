// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An ordinary TCP program: a server that echoes, and a client that sends and verifies. It uses
 * neither verbs nor librdmacm; librspreload replaces its sockets.
 *
 *	tcp_echo -s ADDRESS PORT CONNECTIONS	blocking calls
 *	tcp_echo -c ADDRESS PORT BYTES		nonblocking calls and poll()
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK 65536
#define SECONDS_WITHOUT_DATA 20

static unsigned char byte_at(size_t offset)
{
	return offset * 31 + (offset >> 8) * 7 + (offset >> 16);
}

static struct addrinfo *resolve(const char *address, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int ret = getaddrinfo(address, port, &hints, &found);

	if (ret)
		errx(1, "%s: %s", address, gai_strerror(ret));
	return found;
}

static int open_socket(const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM, 0);

	if (fd < 0)
		err(1, "socket");
	return fd;
}

/* ---- server ------------------------------------------------------------------------- */

static void echo(int fd)
{
	static char data[CHUNK];
	ssize_t len, n;

	while ((len = read(fd, data, sizeof(data))) > 0)
		for (ssize_t done = 0; done < len; done += n) {
			n = write(fd, data + done, len - done);
			if (n < 0)
				err(1, "write");
		}
	if (len < 0)
		err(1, "read");
	if (close(fd))
		err(1, "close");
}

static void serve(const struct addrinfo *to, size_t connections)
{
	int listener = open_socket(to), one = 1;

	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		err(1, "setsockopt");
	if (bind(listener, to->ai_addr, to->ai_addrlen))
		err(1, "bind");
	if (listen(listener, 16))
		err(1, "listen");
	while (connections--) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			err(1, "accept");
		echo(fd);
	}
	close(listener);
}

/* ---- client ------------------------------------------------------------------------- */

struct transfer {
	size_t total, sent, received;
	bool ended;
};

static void send_some(int fd, struct transfer *t)
{
	static unsigned char data[CHUNK];
	size_t len = t->total - t->sent < CHUNK ? t->total - t->sent : CHUNK;
	ssize_t n;

	for (size_t i = 0; i < len; i++)
		data[i] = byte_at(t->sent + i);
	n = send(fd, data, len, 0);
	if (n < 0 && errno != EAGAIN)
		err(1, "send");
	if (n > 0)
		t->sent += n;
	if (t->sent == t->total && shutdown(fd, SHUT_WR))
		err(1, "shutdown");
}

static void receive_some(int fd, struct transfer *t)
{
	static unsigned char data[CHUNK];
	ssize_t n = recv(fd, data, sizeof(data), 0);

	if (n < 0 && errno != EAGAIN)
		err(1, "recv");
	t->ended = n == 0;
	for (ssize_t i = 0; i < n; i++)
		if (data[i] != byte_at(t->received++))
			errx(1, "wrong byte at offset %zu", t->received - 1);
}

static void exchange(const struct addrinfo *to, size_t bytes)
{
	struct transfer t = { .total = bytes };
	struct pollfd p = { .fd = open_socket(to) };

	if (connect(p.fd, to->ai_addr, to->ai_addrlen))
		err(1, "connect");
	if (fcntl(p.fd, F_SETFL, fcntl(p.fd, F_GETFL) | O_NONBLOCK))
		err(1, "fcntl");
	while (!t.ended) {
		p.events = POLLIN | (t.sent < t.total ? POLLOUT : 0);
		if (poll(&p, 1, SECONDS_WITHOUT_DATA * 1000) <= 0)
			errx(1, "no data: %zu bytes sent, %zu received", t.sent, t.received);
		if (p.revents & POLLOUT)
			send_some(p.fd, &t);
		if (p.revents & (POLLIN | POLLHUP))
			receive_some(p.fd, &t);
	}
	if (t.received != t.total)
		errx(1, "%zu bytes sent, %zu received", t.sent, t.received);
	printf("%zu bytes echoed\n", t.received);
	close(p.fd);
}

int main(int argc, char **argv)
{
	bool server = argc == 5 && !strcmp(argv[1], "-s");
	struct addrinfo *to;

	if (!server && (argc != 5 || strcmp(argv[1], "-c")))
		errx(2, "usage: %s -s|-c ADDRESS PORT CONNECTIONS|BYTES", argv[0]);
	to = resolve(argv[2], argv[3]);
	(server ? serve : exchange)(to, strtoul(argv[4], NULL, 0));
	freeaddrinfo(to);
	return 0;
}
