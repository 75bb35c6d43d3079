// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Creates many ids of all kinds by librdmacm, reads no event, and waits to be killed.
 *
 *   rdma_cm_full ADDRESS IDS
 *
 * ADDRESS is one of the device. A quarter of the ids has resolved it, one listens, one has joined
 * groups, and one resolves addresses of hosts that do not exist. Prints "ready".
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 3000
#define LONG_MS 600000
#define JOINS 4 /* of each id that has some */

static struct rdma_event_channel *channel;
static struct sockaddr_in own;

static void must(int err, const char *what)
{
	if (!err)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	must(rdma_create_id(channel, &id, NULL, ps), "rdma_create_id");
	return id;
}

static void resolve(uint32_t host, int timeout_ms)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in to = own;

	if (host)
		to.sin_addr.s_addr = htonl(host);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, timeout_ms), "rdma_resolve_addr");
}

static void listen_on_any(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in any = own;

	must(rdma_bind_addr(id, (struct sockaddr *)&any), "rdma_bind_addr");
	must(rdma_listen(id, 0), "rdma_listen");
}

static void join(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP);
	struct sockaddr_in group = { .sin_family = AF_INET };

	must(rdma_bind_addr(id, (struct sockaddr *)&own), "rdma_bind_addr");
	for (uint32_t i = 0; i < JOINS; i++) {
		group.sin_addr.s_addr = htonl(0xe4000001 + i);
		must(rdma_join_multicast(id, (struct sockaddr *)&group, NULL),
		     "rdma_join_multicast");
	}
}

int main(int argc, char **argv)
{
	int count;

	if (argc != 3)
		return 2;
	own.sin_family = AF_INET;
	own.sin_addr.s_addr = inet_addr(argv[1]);
	count = atoi(argv[2]);
	channel = rdma_create_event_channel();
	must(!channel, "rdma_create_event_channel");
	for (int i = 0; i < count; i += 4) {
		resolve(0, TIMEOUT_MS);
		listen_on_any();
		join();
		/* most of this /24 has no hosts */
		resolve((ntohl(own.sin_addr.s_addr) & 0xffffff00) + 3 + (uint32_t)i / 4 % 250,
			LONG_MS);
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
