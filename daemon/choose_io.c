// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "choose_io.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/way/way.h"

/* An XSKMAP takes the same privileges as loading and attaching the program. */
static int choose_io_try_map(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xroce_probe", 4, 4, 1, NULL);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int try_socket(void)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Returns what of XDP this process may not use, or NULL. */
static const char *find_lack(char *text, size_t size)
{
	int map = choose_io_try_map(), sock = map ? 0 : try_socket();

	if (map)
		snprintf(text, size, "BPF maps for XDP: %s", strerror(-map));
	else if (sock)
		snprintf(text, size, "AF_XDP sockets: %s", strerror(-sock));
	return map || sock ? text : NULL;
}

enum xd_io_option xd_choose_io(const struct xd_options *opt, char *why, size_t size)
{
	struct xd_way_facts facts = {
		.only_xdp = opt->attach != XD_ATTACH_AUTO || opt->dispatcher || opt->queues,
		.bind = opt->bind != XD_BIND_AUTO,
	};
	char lack[128];

	if (opt->io != XD_IO_AUTO) {
		snprintf(why, size, "requested by --io");
		return opt->io;
	}
	xd_way_read(&facts, opt->interface);
	facts.lacks = find_lack(lack, sizeof(lack));
	return xd_way_is_xdp(&facts, why, size) ? XD_IO_XDP : XD_IO_SOCKET;
}

enum xd_net_way xd_choose_way(const struct xd_options *opt, enum xd_io_option io)
{
	struct xd_way_facts facts;

	if (io != XD_IO_SOCKET)
		return XD_NET_FRAMES;
	if (opt->bind != XD_BIND_AUTO)
		return opt->bind == XD_BIND_ADDRESS ? XD_NET_ROUTED : XD_NET_DATAGRAMS;
	xd_way_read(&facts, opt->interface);
	return facts.dummy ? XD_NET_ROUTED : XD_NET_DATAGRAMS;
}
