// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * GIDs, link events and next hops, from a real kernel:
 *
 *   here (a namespace of its own)                  peer (another one)
 *   t0  10.9.0.1/24  fd09::1/64  ------ veth ------  t1  10.9.0.2/24  fd09::2/64
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <xroce/gid.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/helper/solicit.h"
#include "daemon/netdev/net.h"
#include "selftests/lib/tap.h"

#define MS 1000000ull

static struct xd_loop *loop;
static struct xd_net *net;
static pid_t peer;

/* ---- callbacks, which count their calls ---------------------------------------------- */

static unsigned int gids, gid_events, active_events, err_events, refreshes;

static void on_port(void *ctx, uint32_t type)
{
	gid_events += type == IBV_EVENT_GID_CHANGE;
	active_events += type == IBV_EVENT_PORT_ACTIVE;
	err_events += type == IBV_EVENT_PORT_ERR;
}

static void on_gid(void *ctx, uint32_t index, const struct xr_addr *gid, bool added)
{
	gids += added ? 1 : -1;
}

static void on_changed(void *ctx)
{
	refreshes++;
}

static int solicits;

static void on_solicit(void *ctx, unsigned int ifindex, int family, const uint8_t *addr,
		       const uint8_t *mac)
{
	struct xd_helper_request r = {
		.ifindex = ifindex,
		.family = (uint32_t)family,
		.local = mac != NULL,
	};
	struct xd_solicitor s;

	solicits++;
	memcpy(r.addr, addr, family == AF_INET ? 4 : 16);
	if (mac)
		memcpy(r.mac, mac, sizeof(r.mac));
	if (xd_solicit_open(&s))
		return;
	xd_solicit(&s, &r);
	xd_solicit_close(&s);
}

static const struct xd_net_events events = { on_port, on_gid, on_changed, on_solicit };

/* ---- the network ------------------------------------------------------------------------ */

__attribute__((format(printf, 1, 2))) static bool sh(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	return !system(cmd);
}
#define PEER "nsenter --net=/proc/%d/ns/net "

/* A process that only holds a network namespace */
static pid_t new_peer(void)
{
	int ready[2];
	char c;
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		if (unshare(CLONE_NEWNET) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &c, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

static bool network_up(void)
{
	if (unshare(CLONE_NEWNET))
		return false;
	peer = new_peer();
	return peer > 0 && sh("sysctl -qw net.ipv6.conf.default.accept_dad=0") &&
	       sh("ip link set lo up && ip link add t0 type veth peer name t1 netns %d", peer) &&
	       sh("ip address add 10.9.0.1/24 dev t0 && ip address add fd09::1/64 dev t0 nodad && "
		  "ip link set t0 up") &&
	       sh(PEER "sh -c 'ip link set lo up; ip address add 10.9.0.2/24 dev t1; "
		       "ip address add fd09::2/64 dev t1 nodad; ip link set t1 up'",
		  peer) &&
	       sh("for i in $(seq 100); do ip address show dev t0 scope link | grep -q fe80 && "
		  "exit; "
		  "sleep 0.05; done; exit 1");
}

/* ---- running the loop --------------------------------------------------------------------- */

static struct xd_timer *limit;

static void on_limit(void *arg)
{
	xd_loop_stop(loop);
}

/* A stopped loop cannot run again, so each run has its own loop and device. */
static void run_for(unsigned int ms)
{
	limit = xd_timer_new(loop, on_limit, NULL);
	xd_timer_arm(limit, ms * MS);
	xd_loop_run(loop);
	xd_timer_free(limit);
}

/* Conditions to wait for, in this order; a command to run in between */
struct wait {
	bool (*first)(void);
	const char *command;
	bool (*last)(void);
	struct xd_timer *tick;
	unsigned int rest; /* ticks after the last condition, in which no event may follow */
};

static void on_tick(void *arg)
{
	struct wait *w = arg;

	if (w->first && w->first()) {
		w->first = NULL;
		sh("%s", w->command);
	}
	if (!w->first && w->last() && !w->rest--)
		xd_loop_stop(loop);
	else
		xd_timer_arm(w->tick, 5 * MS);
}

/* Waits for events, however slow the machine is. The time limit is for failures only. */
static void run_wait(struct wait *w)
{
	w->rest = 10;
	w->tick = xd_timer_new(loop, on_tick, w);
	xd_timer_arm(w->tick, MS);
	run_for(20000);
	xd_timer_free(w->tick);
}

static void run_until(bool (*last)(void))
{
	struct wait w = { .last = last };

	run_wait(&w);
}

static int device_open_named(const char *name)
{
	int err;

	gids = 0;
	loop = xd_loop_new();
	err = xd_net_open(loop, name, XD_NET_FRAMES, &events, NULL, &net);
	if (err)
		xd_loop_free(loop);
	gid_events = active_events = err_events = refreshes = 0;
	return err;
}

static int device_open(void)
{
	return device_open_named("t0");
}

static void device_close(void)
{
	xd_net_close(net);
	xd_loop_free(loop);
}

static struct xr_addr addr(const char *text)
{
	struct xr_addr a = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, text, a.raw + 12) != 1)
		inet_pton(AF_INET6, text, a.raw);
	return a;
}

static int gid_index(const char *text)
{
	struct xr_addr a = addr(text);

	return xd_net_gid_index(net, &a);
}

/* ---- GIDs and link ------------------------------------------------------------------------- */

static bool refreshed_once(void)
{
	return refreshes >= 1;
}

static bool refreshed_twice(void)
{
	return refreshes >= 2;
}

static bool has_second_prefix(void)
{
	return gid_index("10.9.2.1") > 0 && refreshes;
}

static void test_gids(void)
{
	struct xr_gid_entry entry[XR_GID_TABLE_LEN];
	struct xr_addr gid;
	int four, six;

	TAP_OK(!device_open() && xd_net_link(net)->ifindex && xd_net_link(net)->guid,
	       "an interface opens");
	four = gid_index("10.9.0.1");
	six = gid_index("fd09::1");
	TAP_OK(four > 0 && six > 0 && four != six,
	       "its addresses are GIDs, none of them at index 0");
	TAP_OK(xd_net_gid(net, 0, &gid) && gid.raw[0] == 0xfe && gid.raw[1] == 0x80,
	       "index 0 is the link-local address");
	TAP_OK(xd_net_gids(net, entry, XR_GID_TABLE_LEN) == 3 && entry[0].index == 0 && gids == 3,
	       "there are three GIDs, each reported once");
	TAP_OK(!xd_net_gid(net, XR_GID_TABLE_LEN, &gid) && !xd_net_gid(net, UINT32_MAX, &gid) &&
		       gid_index("10.9.0.77") == -ENOENT,
	       "unused indices and unknown addresses are not found");

	sh("ip address add 10.9.1.1/24 dev t0; ip address del 10.9.0.1/24 dev t0");
	run_wait(&(struct wait){
		.first = refreshed_once,
		.command = "ip address add 10.9.2.1/24 dev t0",
		.last = refreshed_twice,
	});
	TAP_OK(gid_index("10.9.0.1") == -ENOENT && gid_index("10.9.1.1") > 0 &&
		       gid_index("10.9.2.1") == four,
	       "the next address takes the index of a removed one");
	TAP_OK(gid_events == 3 && refreshes == 2 && gids == 4,
	       "each GID is an event, paths are resolved once for changes that come together "
	       "(%u, %u)",
	       gid_events, refreshes);
	device_close();

	device_open();
	sh("ip address add 10.9.2.1/16 dev t0; ip address del 10.9.2.1/24 dev t0");
	run_until(has_second_prefix);
	TAP_OK(gid_index("10.9.2.1") > 0, "an address with two prefixes remains if one is removed");
	sh("ip address del 10.9.2.1/16 dev t0; ip address del 10.9.1.1/24 dev t0; "
	   "ip address add 10.9.0.1/24 dev t0");
	device_close();
}

static void test_tentative(void)
{
	device_open();
	/* Duplicate address detection takes 3 s, more than the delays of a busy machine. */
	sh("sysctl -qw net.ipv6.conf.t0.accept_dad=1 net.ipv6.conf.t0.dad_transmits=1 "
	   "net.ipv6.neigh.t0.retrans_time_ms=3000 && ip address add fd09::55/64 dev t0");
	run_for(50);
	TAP_OK(gid_index("fd09::55") == -ENOENT,
	       "no GID before duplicate address detection has ended");
	device_close();
	sh("for i in $(seq 200); do ip address show dev t0 tentative | grep -q fd09::55 || exit; "
	   "sleep 0.1; done");
	sh("sysctl -qw net.ipv6.neigh.t0.retrans_time_ms=1000");
	device_open();
	TAP_OK(gid_index("fd09::55") > 0,
	       "an address becomes a GID after duplicate address detection");
	sh("ip address del fd09::55/64 dev t0; sysctl -qw net.ipv6.conf.t0.accept_dad=0");
	device_close();
}

static bool is_down(void)
{
	return !xd_net_link(net)->up && refreshes;
}

static bool is_up(void)
{
	return xd_net_link(net)->up && refreshes;
}

static void test_link(void)
{
	device_open();
	TAP_OK(xd_net_link(net)->up && xd_net_link(net)->mtu == 1500 &&
		       xd_net_link(net)->speed_mbps,
	       "link, MTU and speed are reported");
	sh("ip link set t0 mtu 9000");
	sh(PEER "ip link set t1 down", peer);
	run_until(is_down);
	TAP_OK(!xd_net_link(net)->up && err_events == 1 && !active_events,
	       "carrier lost: the port is in error");
	TAP_OK(xd_net_link(net)->mtu == 9000 && refreshes, "a change of the MTU is noticed");
	device_close();

	/* IPv6 would send packets and so create neighbours. */
	sh("sysctl -qw net.ipv6.conf.t0.disable_ipv6=1");
	sh(PEER "sysctl -qw net.ipv6.conf.t1.disable_ipv6=1", peer);
	device_open();
	TAP_OK(!xd_net_link(net)->up, "an interface without carrier opens, with the link down");
	run_until(refreshed_once); /* changes found while opening */
	refreshes = 0;
	sh(PEER "ip link set t1 up", peer);
	run_until(is_up);
	TAP_OK(xd_net_link(net)->up && active_events == 1 && refreshes,
	       "carrier back: port active; paths are resolved again, as the peer may have changed");
	device_close();
	sh("sysctl -qw net.ipv6.conf.t0.disable_ipv6=0; ip address add fd09::1/64 dev t0 nodad");
	sh(PEER "sysctl -qw net.ipv6.conf.t1.disable_ipv6=0", peer);
	sh(PEER "ip address add fd09::2/64 dev t1 nodad", peer);
}

/*
 * ---- next hops ---------------------------------------------------------------------------------
 */

struct result {
	int calls, err;
	struct xt_path path;
};

static void on_result(void *arg, int err, const struct xt_path *path)
{
	struct result *a = arg;

	a->calls++;
	a->err = err;
	if (path)
		a->path = *path;
	xd_loop_stop(loop);
}

static struct xr_ah_attr attr_to(const char *from, const char *to)
{
	int index = gid_index(from);

	return (struct xr_ah_attr){ .dgid = addr(to),
				    .sgid_index = (uint32_t)index,
				    .hop_limit = 9,
				    .traffic_class = 3,
				    .flow_label = 0x12345,
				    .is_global = 1,
				    .port_num = 1 };
}

/* Opens a device, resolves an address and runs until the result. */
static struct result resolve_by(const char *name, const char *from, const char *to)
{
	struct result a = { .err = -EINPROGRESS };
	struct xr_ah_attr attr;

	device_open_named(name);
	attr = attr_to(from, to);
	xd_net_resolve(net, &attr, on_result, &a);
	if (!a.calls)
		run_for(30000);
	device_close();
	return a;
}

static struct result resolve(const char *from, const char *to)
{
	return resolve_by("t0", from, to);
}

static bool mac_is(const uint8_t mac[6], const char *text)
{
	char buf[18];

	snprintf(buf, sizeof(buf), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		 mac[4], mac[5]);
	return !strcmp(buf, text);
}

#define PEER_MAC "02:00:00:00:00:02"

static void test_neighbour(void)
{
	struct result a;

	sh(PEER "ip link set t1 address " PEER_MAC, peer);
	sh("ip neighbour flush dev t0");
	a = resolve("10.9.0.1", "10.9.0.2");
	TAP_OK(a.calls == 1 && !a.err && mac_is(a.path.dmac, PEER_MAC) && a.path.ip_version == 4,
	       "an unknown neighbour is resolved (%d)", a.err);
	TAP_OK(a.path.hop_limit == 9 && a.path.traffic_class == 3 && a.path.flow_label == 0x12345 &&
		       !a.path.loopback,
	       "other fields of the path are those of the address vector");
	a = resolve("fd09::1", "fd09::2");
	TAP_OK(a.calls == 1 && !a.err && mac_is(a.path.dmac, PEER_MAC) && a.path.ip_version == 6,
	       "an unknown IPv6 neighbour is resolved (%d)", a.err);
	sh("ip neighbour replace 10.9.0.3 lladdr 02:00:00:00:00:03 dev t0");
	a = resolve("10.9.0.1", "10.9.0.3");
	TAP_OK(!a.err && mac_is(a.path.dmac, "02:00:00:00:00:03"),
	       "a permanent neighbour entry is used");
}

static void test_gateway(void)
{
	struct result a;

	sh("ip route add 10.55.0.0/16 via 10.9.0.2; ip route add 10.56.0.0/16 via inet6 fd09::2; "
	   "ip route add unreachable 10.57.0.0/16");
	a = resolve("10.9.0.1", "10.55.1.1");
	TAP_OK(!a.err && mac_is(a.path.dmac, PEER_MAC),
	       "a route through a gateway gives the MAC of the gateway (%d)", a.err);
	a = resolve("10.9.0.1", "10.56.1.1");
	TAP_OK(!a.err && mac_is(a.path.dmac, PEER_MAC),
	       "an IPv4 route may use an IPv6 gateway (%d)", a.err);
	a = resolve("10.9.0.1", "10.57.1.1");
	TAP_OK(a.err == -ENETUNREACH, "an unreachable route is ENETUNREACH (%d)", a.err);
	a = resolve("10.9.0.1", "10.99.1.1");
	TAP_OK(a.err == -ENETUNREACH, "an IPv4 address without a route is ENETUNREACH (%d)", a.err);
	a = resolve("fd09::1", "fd99::1");
	TAP_OK(a.err == -ENETUNREACH, "an IPv6 address without a route is ENETUNREACH (%d)", a.err);
	sh("ip route del 10.55.0.0/16; ip route del 10.56.0.0/16; ip route del 10.57.0.0/16");
}

/* The kernel verifies an entry only if it is used. */
static void test_stale_neighbour(void)
{
	struct result a;

	sh("sysctl -qw net.ipv4.neigh.t0.delay_first_probe_time=0 "
	   "net.ipv4.neigh.t0.retrans_time_ms=50; "
	   "ip neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:99 nud stale dev t0");
	a = resolve("10.9.0.1", "10.9.0.2");
	TAP_OK(!a.err && mac_is(a.path.dmac, "02:00:00:00:00:99"),
	       "a stale neighbour entry is used");
	sh("for i in $(seq 100); do ip neighbour show dev t0 10.9.0.2 | grep -q FAILED && exit; "
	   "sleep 0.1; done");
	a = resolve("10.9.0.1", "10.9.0.2");
	TAP_OK(!a.err && mac_is(a.path.dmac, PEER_MAC),
	       "the kernel is made to verify a stale entry");
	sh("sysctl -qw net.ipv4.neigh.t0.delay_first_probe_time=5 "
	   "net.ipv4.neigh.t0.retrans_time_ms=1000");
}

static void test_no_neighbour(void)
{
	struct result a = resolve("10.9.0.1", "10.9.0.200");

	TAP_OK(a.calls == 1 && a.err == -EHOSTUNREACH,
	       "no reply from the neighbour: host unreachable (%d)", a.err);
}

#define OTHER_MAC "02:00:00:00:00:0b"

/* x0 and x1 of this host are connected, and d0 is not. All of their addresses are local. */
static void test_other_interface(void)
{
	struct result a;

	sh("ip link add x0 type veth peer name x1 address " OTHER_MAC
	   "; ip link add d0 type dummy; "
	   "for i in x0 x1 d0; do ip link set $i up; done; "
	   "ip address add 10.9.50.1/24 dev x0; ip address add fd09:50::1/64 dev x0 nodad; "
	   "ip address add 10.9.50.2/24 dev x1; ip address add fd09:50::2/64 dev x1 nodad; "
	   "ip address add 10.9.51.2/24 dev x1; ip address add 10.9.50.3/32 dev d0; "
	   "ip address add fd09:50::3/128 dev d0 nodad");
	a = resolve_by("x0", "10.9.50.1", "10.9.50.2");
	TAP_OK(!a.err && mac_is(a.path.dmac, OTHER_MAC) && !a.path.loopback,
	       "another interface of the host is a neighbour (%d)", a.err);
	a = resolve_by("x0", "10.9.50.1", "10.9.51.2");
	TAP_OK(!a.err && mac_is(a.path.dmac, OTHER_MAC), "so it is in another network (%d)", a.err);
	a = resolve_by("x0", "fd09:50::1", "fd09:50::2");
	TAP_OK(!a.err && mac_is(a.path.dmac, OTHER_MAC), "so it is over IPv6 (%d)", a.err);
	a = resolve_by("x0", "10.9.50.1", "10.9.50.3");
	TAP_OK(a.err == -EHOSTUNREACH, "not if frames do not get there (%d)", a.err);
	a = resolve_by("x0", "fd09:50::1", "fd09:50::3");
	TAP_OK(a.err == -EHOSTUNREACH, "nor over IPv6 (%d)", a.err);
	sh("ip link del x0; ip link del d0");
}

static void test_special(void)
{
	struct xr_ah_attr attr;
	struct result a;

	a = resolve("10.9.0.1", "10.9.0.1");
	TAP_OK(!a.err && a.path.loopback, "one of the device's own addresses: loopback");
	a = resolve("10.9.0.1", "239.129.2.3");
	TAP_OK(!a.err && mac_is(a.path.dmac, "01:00:5e:01:02:03"),
	       "an IPv4 multicast group has its multicast MAC address");
	a = resolve("fd09::1", "ff0e::1:2:3");
	TAP_OK(!a.err && mac_is(a.path.dmac, "33:33:00:02:00:03"),
	       "an IPv6 multicast group has its multicast MAC address");
	a = resolve("10.9.0.1", "fd09::2");
	TAP_OK(a.err == -EINVAL, "from IPv4 to IPv6 is refused");

	device_open();
	attr = attr_to("10.9.0.1", "10.9.0.2");
	attr.sgid_index = 200;
	xd_net_resolve(net, &attr, on_result, &a);
	TAP_OK(a.err == -EINVAL, "an unknown GID index is refused");
	attr.sgid_index = UINT32_MAX;
	xd_net_resolve(net, &attr, on_result, &a);
	TAP_OK(a.err == -EINVAL, "a GID index beyond the table is refused");
	attr = attr_to("10.9.0.1", "10.9.0.2");
	attr.hop_limit = 0;
	xd_net_resolve(net, &attr, on_result, &a);
	TAP_OK(!a.err && a.path.hop_limit == 64, "hop limit 0 selects the default");
	device_close();
}

static void keep_error(void *arg, int err, const struct xt_path *path)
{
	*(int *)arg = err;
}

static bool link_local_exists(void)
{
	return gid_index("fe80::5") >= 0;
}

static bool first_other_is_gone(void)
{
	return gid_index("10.9.0.1") < 0;
}

static bool second_link_local_exists(void)
{
	return gid_index("fe80::6") >= 0;
}

static const char *changed_address; /* that has a GID after a change */

static bool is_added(void)
{
	return gid_index(changed_address) >= 0;
}

static bool is_removed(void)
{
	return gid_index(changed_address) < 0;
}

static void change_address(const char *what, const char *address, const char *length)
{
	changed_address = address;
	sh("ip address %s %s/%s dev t0 $([ %s = add ] && echo nodad)", what, address, length, what);
	run_until(what[0] == 'a' ? is_added : is_removed);
}

static void test_held(void)
{
	struct xd_gid_hold hold = { 0 }, second = { 0 };
	struct xr_addr gid, before = addr("fd09::7");
	int index;

	device_open();
	change_address("add", "fd09::7", "64");
	index = gid_index("fd09::7");
	xd_net_gid_hold(net, &hold, (uint32_t)index);
	xd_net_gid_hold(net, &second, (uint32_t)index);
	change_address("del", "fd09::7", "64");
	change_address("add", "fd09::8", "64");
	TAP_OK(gid_index("fd09::8") != index && !xd_net_gid(net, (uint32_t)index, &gid),
	       "the index of a removed address is not given to another one while it is held");
	change_address("add", "fd09::7", "64");
	TAP_OK(gid_index("fd09::7") == index && xd_net_gid(net, (uint32_t)index, &gid) &&
		       xr_gid_equal(&gid, &before),
	       "the address gets its index back");
	change_address("del", "fd09::7", "64");
	xd_net_gid_release(net, &hold);
	change_address("add", "fd09::9", "64");
	TAP_OK(gid_index("fd09::9") != index, "each hold counts");
	xd_net_gid_hold(net, &second, 1);
	change_address("add", "fd09::10", "64");
	TAP_OK(gid_index("fd09::10") == index, "it is free when none is left");
	sh("for a in 8 9 10; do ip address del fd09::$a/64 dev t0; done");
	device_close();
}

/* Index 0 is a second index of 10.9.0.1, which is removed while it is held. */
static void test_zero_held(void)
{
	struct xd_gid_hold hold = { 0 };
	struct xr_addr gid, first = addr("10.9.0.1");
	struct xr_ah_attr attr;
	int err = 0, index;

	sh("ip address flush dev t0 scope link");
	device_open();
	attr = attr_to("10.9.0.1", "10.9.0.1");
	attr.sgid_index = 0;
	xd_net_resolve(net, &attr, keep_error, &err);
	xd_net_gid_hold(net, &hold, 0);
	index = gid_index("10.9.0.1");
	change_address("del", "10.9.0.1", "24");
	change_address("add", "10.9.0.7", "24");
	change_address("add", "fe80::5", "64");
	TAP_OK(!xd_net_gid(net, 0, &gid) && gid_index("fe80::5") > 0 &&
		       gid_index("10.9.0.7") != index,
	       "index 0 and the address that it stands for are not given to others");
	change_address("add", "10.9.0.1", "24");
	TAP_OK(xd_net_gid(net, 0, &gid) && xr_gid_equal(&gid, &first), "it is this address again");
	change_address("del", "10.9.0.1", "24");
	xd_net_gid_release(net, &hold);
	change_address("add", "fe80::6", "64");
	TAP_OK(!gid_index("fe80::6"), "index 0 is free when it is not held");
	device_close();
	sh("ip address del fe80::5/64 dev t0; ip address del fe80::6/64 dev t0; "
	   "ip address del 10.9.0.7/24 dev t0; ip address add 10.9.0.1/24 dev t0");
}

/* Index 0 without a link-local address; use: a path is resolved from it before there is one. */
static void test_index_zero(bool use)
{
	struct xr_addr gid, first = addr("10.9.0.1");
	struct xr_ah_attr attr;
	int err = 0;

	sh("ip address flush dev t0 scope link");
	device_open();
	attr = attr_to("10.9.0.1", "10.9.0.1");
	attr.sgid_index = 0;
	if (use)
		xd_net_resolve(net, &attr, keep_error, &err);
	TAP_OK(xd_net_gid(net, 0, &gid) && !memcmp(&gid, &first, sizeof(gid)) && !err,
	       "without a link-local address, index 0 is the first other GID");
	sh("ip address add fe80::5/64 dev t0 nodad");
	run_until(link_local_exists);
	xd_net_gid(net, 0, &gid);
	if (use)
		TAP_OK(!memcmp(&gid, &first, sizeof(gid)) && gid_index("fe80::5") > 0,
		       "a link-local address does not get index 0 while a path has it");
	else
		TAP_OK(!gid_index("fe80::5"), "a link-local address gets index 0");
	sh("ip address del 10.9.0.1/24 dev t0");
	run_until(first_other_is_gone);
	sh("ip address add fe80::6/64 dev t0 nodad");
	run_until(second_link_local_exists);
	TAP_OK(use == !gid_index("fe80::6"), "the next one gets index 0 if it is not in use then");
	device_close();
	sh("ip address del fe80::5/64 dev t0; ip address del fe80::6/64 dev t0; "
	   "ip address add 10.9.0.1/24 dev t0");
}

/* The first resolve that completes cancels the second, which waits for the same neighbour. */
static struct xd_resolve *second;
static int second_calls;

static void on_first(void *arg, int err, const struct xt_path *path)
{
	xd_net_resolve_cancel(second);
	second = NULL;
	on_result(arg, err, path);
}

static void on_second(void *arg, int err, const struct xt_path *path)
{
	second_calls++;
}

static void test_cancel(void)
{
	struct result a = { 0 };
	struct xr_ah_attr attr;

	device_open();
	attr = attr_to("10.9.0.1", "10.9.0.78");
	xd_net_resolve(net, &attr, on_first, &a);
	second = xd_net_resolve(net, &attr, on_second, NULL);
	sh("ip neighbour replace 10.9.0.78 lladdr 02:00:00:00:00:78 dev t0");
	run_for(300);
	TAP_OK(a.calls == 1 && !a.err && !second && !second_calls,
	       "a completion may cancel other resolves");
	device_close();
}

#define WAITERS 40

static int completions, in_turn, most_in_turn;

/* Takes half of the time of a piece. */
static void on_slow(void *arg, int err, const struct xt_path *path)
{
	nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	completions++;
	if (++in_turn > most_in_turn)
		most_in_turn = in_turn;
	if (completions == WAITERS)
		xd_loop_stop(loop);
}

static void on_turn(void *arg)
{
	in_turn = 0;
}

static void test_many_wait(void)
{
	struct xr_ah_attr attr;
	int before;

	device_open();
	attr = attr_to("10.9.0.1", "10.9.0.79");
	before = solicits;
	for (int i = 0; i < WAITERS; i++)
		xd_net_resolve(net, &attr, on_slow, NULL);
	TAP_OK(solicits == before + 1, "a next hop for which many wait is solicited once (%d)",
	       solicits - before);
	xd_loop_set_turn(loop, on_turn, NULL);
	sh("ip neighbour replace 10.9.0.79 lladdr 02:00:00:00:00:79 dev t0");
	run_for(20000);
	xd_loop_set_turn(loop, NULL, NULL);
	TAP_OK(completions == WAITERS && most_in_turn <= 4,
	       "when it is found, others are served between completions (%d in a turn)",
	       most_in_turn);
	device_close();
}

static void test_mac_moves(void)
{
	device_open();
	sh("ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:09 dev t0");
	run_until(refreshed_once);
	TAP_OK(refreshes == 1, "a new neighbour: paths are resolved again");
	device_close();
	device_open();
	sh("ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:09 dev t0; sleep 0.1; "
	   "ip neighbour change 10.9.0.9 lladdr 02:00:00:00:00:09 nud stale dev t0; sleep 0.1; "
	   "ip neighbour change 10.9.0.9 lladdr 02:00:00:00:00:09 nud reachable dev t0");
	run_until(refreshed_once);
	TAP_OK(refreshes == 1,
	       "another state of the same neighbour: paths are not resolved again (%u)", refreshes);
	device_close();
}

/* Changes that were found while opening the device do not count. */
static bool refreshes_after(const char *command)
{
	refreshes = 0;
	sh("%s", command);
	run_until(refreshed_once);
	return refreshes;
}

static void test_rules(void)
{
	sh("sysctl -qw net.ipv4.nexthop_compat_mode=0; ip nexthop add id 1 via 10.9.0.2 dev t0; "
	   "ip route add 10.58.0.0/16 nhid 1");
	device_open();
	run_until(refreshed_once);
	TAP_OK(refreshes_after("ip rule add from 10.9.0.1 table 77"), "a rule is added");
	TAP_OK(refreshes_after("ip rule del from 10.9.0.1 table 77"), "a rule is removed");
	TAP_OK(refreshes_after("ip -6 rule add from fd09::1 table 77"), "an IPv6 rule is added");
	TAP_OK(refreshes_after("ip nexthop replace id 1 via 10.9.0.9 dev t0"),
	       "a nexthop object is replaced");
	device_close();
	sh("ip -6 rule del from fd09::1 table 77; ip route del 10.58.0.0/16; ip nexthop del id 1");
}

/* More notifications than the socket's buffer can hold */
static void test_lost_notifications(void)
{
	device_open();
	sh("ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:08 dev t0");
	run_until(refreshed_once);
	sh("for i in $(seq 4000); do echo link set t0 txqueuelen $((i %% 2 + 1000)); done | "
	   "ip -batch - && ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:0a dev t0");
	run_until(refreshed_twice);
	TAP_OK(refreshes >= 2, "after lost notifications paths are resolved again");
	sh("ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:08 dev t0");
	refreshes = 0;
	run_until(refreshed_once);
	TAP_OK(refreshes, "neighbours seen before lost notifications count as unknown");
	sh("ip neighbour del 10.9.0.9 dev t0");
	device_close();
}

static void test_no_ethernet(void)
{
	sh("ip tuntap add dev tun9 mode tun");
	TAP_OK(device_open_named("tun9") == -EMEDIUMTYPE,
	       "an interface that is not Ethernet is refused");
	sh("ip link del tun9");
}

static bool is_renamed(void)
{
	return !strcmp(xd_net_link(net)->ifname, "t9");
}

static void test_renamed(void)
{
	device_open();
	sh("ip link set t0 down; ip link set t0 name t9");
	run_until(is_renamed);
	TAP_OK(is_renamed() && !xd_net_link(net)->gone, "a renamed interface is still used");
	sh("ip link set t9 name t0; ip link set t0 up");
	device_close();
}

static void test_gone(void)
{
	device_open();
	sh("ip link del t0");
	run_for(20000);
	TAP_OK(xd_net_link(net)->gone && !xd_net_link(net)->up && err_events,
	       "an interface that is removed stops the loop");
	device_close();
	TAP_OK(device_open() == -ENODEV, "a removed interface does not open");
}

int main(void)
{
	if (geteuid() || !network_up()) {
		tap_skip("the netdev by rtnetlink", "needs root, network namespaces and iproute2");
		return tap_end();
	}
	xd_log_init("test", XD_ERR);
	test_gids();
	test_tentative();
	test_link();
	test_neighbour();
	test_gateway();
	test_stale_neighbour();
	test_no_neighbour();
	test_other_interface();
	test_special();
	test_cancel();
	test_many_wait();
	test_mac_moves();
	test_rules();
	test_lost_notifications();
	test_no_ethernet();
	test_renamed();
	test_index_zero(false);
	test_index_zero(true);
	test_held();
	test_zero_held();
	test_gone();
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	return tap_end();
}
