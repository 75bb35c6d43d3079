// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * xroced: provides one ibverbs device for one network interface. Creates all parts of the daemon
 * and connects them. Exit status: 0 stopped by a signal, 1 failed, 2 wrong usage.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/base/kernel.h"
#include "daemon/base/landlock.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/name_lock.h"
#include "daemon/base/notify.h"
#include "daemon/base/options.h"
#include "daemon/base/privileges.h"
#include "daemon/base/seccomp.h"
#include "daemon/base/spawner.h"
#include "daemon/clients/device.h"
#include "daemon/clients/gate.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/io.h"
#include "daemon/io/tables.h"
#include "daemon/gsi/gsi.h"
#include "daemon/helper/dreqs.h"
#include "daemon/helper/helper.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/mover_area.h"
#include "daemon/netdev/net.h"
#include "daemon/objects/engine_events.h"
#include "daemon/objects/port.h"
#include "daemon/server/server.h"
#include "daemon/udp/udp_io.h"
#include "daemon/xdp/xdp_io.h"
#include "choose_io.h"
#include "watchdog.h"

struct daemon {
	struct xd_device dev;
	struct xd_options opt;
	struct xd_helper *helper;
	struct xd_listener listener;
	struct xd_server *server;
	struct xd_watch *signals;
	uint64_t look_at; /* when to look for the XDP program on the interface again */
	bool removed;	  /* it was, by somebody else */
	enum xd_io_option io;
	struct xd_timer *idle; /* NULL: it does not end by itself */
	uint64_t used_at;      /* when a program was connected last, ns */
	bool in_use;	       /* one was in the last turn */
	struct xd_watchdog *watchdog;
	int signal_fd, lock_fd;
};

/* ---- signals and limits ---------------------------------------------------------- */

static void main_on_signal(void *arg, uint32_t events)
{
	struct daemon *d = arg;
	struct signalfd_siginfo si;

	while (read(d->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			xd_log(XD_INFO, "SIGHUP ignored: options are read at start only");
			continue;
		}
		xd_log(XD_NOTICE, "%s: stopping", strsignal((int)si.ssi_signo));
		xd_loop_stop(d->dev.loop);
	}
}

/* To be called before threads are started, which inherit the signal mask. */
static int watch_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	d->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (d->signal_fd < 0)
		return -errno;
	d->signals = xd_watch_add(d->dev.loop, d->signal_fd, EPOLLIN, main_on_signal, d);
	return d->signals ? 0 : -ENOMEM;
}

static void raise_limits(void)
{
	struct rlimit rl, all = { RLIM_INFINITY, RLIM_INFINITY };

	if (!getrlimit(RLIMIT_NOFILE, &rl) && rl.rlim_cur != rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	setrlimit(RLIMIT_MEMLOCK, &all);
}

/* ---- events of the network interface --------------------------------------------- */

/* The status line of `systemctl status` */
static void notify_status(const struct daemon *d)
{
	const struct xd_link *link = xd_net_link(d->dev.net);
	uint32_t workers = xd_workers_count(d->dev.workers);
	char text[256];

	snprintf(text, sizeof(text), "STATUS=%s serves %s (link %s, %s%s, %u worker%s)",
		 d->opt.name, link->ifname, link->up ? "up" : "down",
		 d->io == XD_IO_XDP ? "XDP " : "",
		 d->removed ? "removed by somebody" : xd_io_mode(d->dev.io), workers,
		 workers == 1 ? "" : "s");
	xd_notify(text);
}

static void publish_link(struct xd_clients *clients, uint32_t type)
{
	struct json *j = NULL;

	if (type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR)
		j = xd_publish_begin(clients, "link");
	if (!j)
		return;
	json_text(j, "state", type == IBV_EVENT_PORT_ACTIVE ? "up" : "down");
	xd_publish(clients);
}

static void publish_gid(struct xd_clients *clients, uint32_t index, const struct xr_addr *gid,
			bool added)
{
	struct json *j = xd_publish_begin(clients, added ? "gid_added" : "gid_removed");

	if (!j)
		return;
	json_number(j, "index", index);
	json_address(j, "gid", gid);
	xd_publish(clients);
}

static void publish_removed(struct xd_clients *clients)
{
	struct json *j = xd_publish_begin(clients, "xdp");

	if (!j)
		return;
	json_text(j, "state", "removed");
	xd_publish(clients);
}

/* Time between two looks for the XDP program */
#define LOOK_NS 1000000000ull

/*
 * The kernel does not report that somebody detaches a link. So the control thread looks when it is
 * awake anyway: an idle daemon does not wake up for this, and one whose packets are lost has
 * requests to handle, or errors of QPs.
 */
static void look_for_program(struct daemon *d)
{
	const struct xd_link *link = xd_net_link(d->dev.net);
	char name[IF_NAMESIZE];

	if (d->removed || xd_now() < d->look_at)
		return;
	d->look_at = xd_now() + LOOK_NS;
	/* The program goes with its interface, whose end on_notification() of netdev/ reports. */
	d->removed = !xd_io_is_attached(d->dev.io) && if_indextoname(link->ifindex, name);
	if (!d->removed)
		return;
	xd_log(XD_WARN,
	       "another program has removed the XDP program from %s: no RDMA packets arrive until "
	       "xroced is restarted",
	       link->ifname);
	notify_status(d);
	publish_removed(&d->server->objects.clients);
}

/* ---- end without programs ----------------------------------------------------------- */

static void note_use(struct daemon *d)
{
	bool now = d->server->objects.clients.count;

	if (now || d->in_use)
		d->used_at = xd_now();
	d->in_use = now;
}

static void on_idle(void *arg)
{
	struct daemon *d = arg;
	uint64_t limit = d->opt.exit_idle * 1000000000ull, idle = xd_now() - d->used_at;

	if (d->in_use || idle < limit) {
		xd_timer_arm(d->idle, d->in_use ? limit : limit - idle);
		return;
	}
	xd_log(XD_NOTICE, "no program for %u s: stopping, as --exit-idle says", d->opt.exit_idle);
	xd_loop_stop(d->dev.loop);
}

static int watch_use(struct daemon *d)
{
	d->used_at = xd_now();
	if (!d->opt.exit_idle)
		return 0;
	d->idle = xd_timer_new(d->dev.loop, on_idle, d);
	if (!d->idle)
		return -ENOMEM;
	xd_timer_arm(d->idle, d->opt.exit_idle * 1000000000ull);
	return 0;
}

static void on_turn(void *arg)
{
	struct daemon *d = arg;

	note_use(d);
	look_for_program(d);
}

/* ---- events of the network interface --------------------------------------------- */

static void on_port(void *ctx, uint32_t type)
{
	struct daemon *d = ctx;

	if (!d->server)
		return;
	publish_link(&d->server->objects.clients, type);
	xd_clients_port_event(&d->server->objects.clients, type);
	notify_status(d);
}

static void on_gid(void *ctx, uint32_t index, const struct xr_addr *gid, bool added)
{
	struct daemon *d = ctx;

	if (d->dev.tables) {
		if (added)
			xd_tables_set_addr(d->dev.tables, gid, index);
		else
			xd_tables_del_addr(d->dev.tables, gid);
		xd_io_address_changed(d->dev.io, gid, added);
	}
	/* Packets arrive before programs know the address. */
	if (d->server)
		publish_gid(&d->server->objects.clients, index, gid, added);
}

static void on_net_changed(void *ctx)
{
	struct daemon *d = ctx;

	if (d->dev.gsi)
		xd_gsi_net_changed(d->dev.gsi);
	if (d->server)
		xd_walk_all(&d->server->objects.clients, XD_WALK_REFRESH);
}

static void on_solicit(void *ctx, unsigned int ifindex, int family, const uint8_t *addr,
		       const uint8_t *mac)
{
	struct daemon *d = ctx;

	if (d->dev.io && xd_io_solicit(d->dev.io, family, addr))
		return;
	xd_helper_solicit(d->helper, ifindex, family, addr, mac);
}

static const struct xd_net_events net_events = {
	.port = on_port,
	.gid = on_gid,
	.changed = on_net_changed,
	.solicit = on_solicit,
};

/* Adds the GIDs that were found before the maps were loaded. */
static void mirror_gids(struct daemon *d)
{
	struct xr_addr gid;
	uint32_t i;

	for (i = 0; i < XR_GID_TABLE_LEN; i++)
		if (xd_net_gid(d->dev.net, i, &gid))
			on_gid(d, i, &gid, true);
}

/* ---- start and stop -------------------------------------------------------------- */

/* Indices of kernel devices count from 0. */
#define FIRST_INDEX (1u << 30)

/* Keys and numbers are in another random order after each start. */
static int open_tables(struct xd_device *dev)
{
	uint64_t seed[4];

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	dev->index = FIRST_INDEX | (seed[3] & (FIRST_INDEX - 1));
	dev->shared.keys = xt_keys_new(2 * dev->opt->max_mr, seed[0]);
	dev->shared.qps = xt_numbers_new(dev->opt->max_qp + XD_OWN_QPS, seed[1]);
	dev->shared.srqs = xt_numbers_new(dev->opt->max_srq, seed[2]);
	dev->shared.groups = xt_groups_new();
	return dev->shared.keys && dev->shared.qps && dev->shared.srqs && dev->shared.groups
		       ? 0
		       : -ENOMEM;
}

static int open_net(struct daemon *d)
{
	int err;

	d->io = xd_choose_io(&d->opt, d->dev.io_why, sizeof(d->dev.io_why));
	err = xd_net_open(d->dev.loop, d->opt.interface, xd_choose_way(&d->opt, d->io), &net_events,
			  d, &d->dev.net);

	if (err)
		xd_log(XD_ERR, "interface %s: %s", d->opt.interface, strerror(-err));
	else if (d->opt.io == XD_IO_AUTO)
		xd_log(XD_NOTICE, "packets go by %s: %s",
		       d->io == XD_IO_XDP ? "XDP" : "UDP sockets", d->dev.io_why);
	return err;
}

static int open_io(struct daemon *d)
{
	struct xd_device *dev = &d->dev;
	const struct xd_link *link = xd_net_link(dev->net);
	const struct xd_xdp_io_config xdp = {
		.opt = dev->opt,
		.link = link,
		.helper = d->helper,
	};
	const struct xd_udp_io_config udp = {
		.opt = dev->opt,
		.link = link,
		.net = dev->net,
		.helper = d->helper,
		.loop = dev->loop,
	};

	return d->io == XD_IO_SOCKET ? xd_udp_io_new(&udp, &dev->io)
				     : xd_xdp_io_new(&xdp, &dev->io);
}

static int open_datapath(struct daemon *d)
{
	struct xd_device *dev = &d->dev;
	struct xd_workers_config config = {
		.opt = dev->opt,
		.shared = &dev->shared,
		.events = &xd_engine_events,
	};
	int err = open_io(d);

	if (err)
		return err;
	dev->tables = dev->io->tables;
	mirror_gids(d);
	config.io = dev->io;
	err = xd_workers_open(&config, &dev->workers);
	return err ? err : xd_io_attach(dev->io, dev->workers);
}

static int start_movers(struct daemon *d)
{
	struct xd_workers *ws = d->dev.workers;
	struct xd_worker_memory memory = {
		.begin_round = xd_movers_begin_round,
		.end_round = xd_movers_end_round,
		.collect = xd_movers_collect,
		.arm = xd_movers_arm,
		.disarm = xd_movers_disarm,
	};
	struct xd_mover_worker w;
	uint32_t i;

	memory.movers = d->dev.movers = xd_movers_new(d->dev.spawner, xd_workers_count(ws));
	if (!memory.movers)
		return -ENOMEM;
	for (i = 0; i < xd_workers_count(ws); i++) {
		w.engine = xd_worker_engine(ws, i);
		w.engine_ctx = xd_worker_ctx(ws, i);
		w.wake_fd = xd_worker_wake_fd(ws, i);
		xd_movers_set_worker(memory.movers, i, &w);
	}
	xd_workers_set_memory(ws, &memory);
	return 0;
}

static int open_gsi(struct xd_device *dev)
{
	const struct xd_gsi_config config = {
		.loop = dev->loop,
		.net = dev->net,
		.tables = dev->tables,
		.workers = dev->workers,
	};

	return xd_gsi_new(&config, &dev->gsi);
}

/* Logs the error of a step of the start whose functions do not log errors. */
static int log_step(const char *step, int err)
{
	if (err)
		xd_log(XD_ERR, "%s: %s", step, strerror(-err));
	return err;
}

/* Everything that needs privileges */
static int main_open_all(struct daemon *d)
{
	int err = log_step("starting the helper process", xd_helper_start(&d->opt, &d->helper));

	if (err)
		return err;
	d->dev.dreqs = xd_helper_dreqs(d->helper);
	d->lock_fd = xd_name_lock(d->opt.runtime_dir, d->opt.private_dir, d->opt.name);
	if (d->lock_fd < 0)
		return d->lock_fd;
	err = open_net(d);
	if (!err)
		err = log_step("tables of keys and numbers", open_tables(&d->dev));
	if (!err)
		err = open_datapath(d);
	return err ? err : xd_listener_open(&d->opt, &d->listener);
}

/* From here on the helper removes what the daemon has created in file systems. */
static int hand_over(struct daemon *d)
{
	int pins_fd = xd_io_give_pins(d->dev.io), err;

	err = xd_helper_take(d->helper, d->listener.fd, d->lock_fd, pins_fd);
	if (pins_fd >= 0)
		close(pins_fd);
	if (err)
		return err;
	close(d->listener.fd);
	close(d->lock_fd);
	d->listener.fd = d->lock_fd = -1;
	d->listener.bound = NULL;
	return 0;
}

static void warn_unlimited(const char *what, int err)
{
	if (err)
		xd_log(XD_WARN, "%s are not limited: %s", what, strerror(-err));
}

static int drop_privileges(void)
{
	int err = log_step("dropping privileges", xd_privileges_drop(XD_ROLE_DAEMON));

	if (err)
		return err;
	err = xd_landlock_enter();
	if (err != -EOPNOTSUPP)
		warn_unlimited("files", err);
	warn_unlimited("system calls", xd_seccomp_enter(XD_ROLE_DAEMON));
	return 0;
}

static int start_server(struct daemon *d)
{
	return xd_server_start(&d->dev, d->helper, &d->listener, &d->server);
}

/* Threads start last, as they inherit the privileges that are left. */
static int main_start(struct daemon *d)
{
	int err = main_open_all(d);

	if (!err)
		err = log_step("handing over to the helper process", hand_over(d));
	if (!err)
		err = drop_privileges();
	if (!err)
		err = log_step("starting the movers", start_movers(d));
	if (!err)
		err = log_step("QP 1", open_gsi(&d->dev));
	if (!err)
		err = log_step("starting the workers", xd_workers_start(d->dev.workers));
	if (!err)
		err = log_step("serving programs", start_server(d));
	if (!err)
		err = log_step("watchdog", xd_watchdog_start(&d->dev, &d->watchdog));
	if (!err)
		err = log_step("timer", watch_use(d));
	if (!err)
		xd_loop_set_turn(d->dev.loop, on_turn, d);
	return err;
}

/*
 * Gives up the interface and the name first, so that another daemon can serve them, whatever hangs
 * here. Returns false if a worker hangs.
 */
static bool main_detach(struct daemon *d)
{
	struct xd_device *dev = &d->dev;
	bool ended;

	if (d->server)
		xd_server_refuse(d->server);
	if (dev->io)
		xd_io_detach(dev->io);
	ended = !dev->workers || xd_workers_stop(dev->workers);
	if (!ended)
		xd_log(XD_WARN, "a worker hangs");
	xd_listener_close(&d->listener);
	xd_name_unlock(d->opt.runtime_dir, d->opt.name, d->lock_fd);
	xd_helper_stop(d->helper);
	d->helper = NULL;
	return ended;
}

static void main_release(struct daemon *d)
{
	struct xd_device *dev = &d->dev;

	xd_gsi_free(dev->gsi);
	xd_workers_free(dev->workers);
	xd_movers_free(dev->movers);
	xd_spawner_stop(dev->spawner);
	xd_io_free(dev->io);
	xd_net_close(dev->net);
	xt_keys_free(dev->shared.keys);
	xt_numbers_free(dev->shared.qps);
	xt_numbers_free(dev->shared.srqs);
	xt_groups_free(dev->shared.groups);
	xd_dreqs_free(dev->dreqs);
	xd_timer_free(d->idle);
	xd_watch_del(d->signals);
	if (d->signal_fd >= 0)
		close(d->signal_fd);
	xd_loop_free(dev->loop);
}

/* A thread may hang and still use memory: the kernel frees that at the end of the process. */
static void stop(struct daemon *d, int status)
{
	struct xd_server *server = d->server;
	bool ended;

	if (server && !xd_net_link(d->dev.net)->gone)
		xd_rdma_cm_disconnect(server->objects.rdma_cm);
	xd_watchdog_stop(d->watchdog);
	xd_loop_set_turn(d->dev.loop, NULL, NULL);
	ended = main_detach(d);

	d->server = NULL;
	if (!ended || !xd_server_stop(server)) {
		xd_log_flush();
		_exit(status);
	}
	main_release(d);
}

/* Path MTU of most networks that were not set up for RDMA */
#define USUAL_PATH_MTU 1024

/* Logs once the settings that make programs fail or slow although the device works. */
static void main_log_hints(const struct xd_device *dev)
{
	const struct xd_link *link = xd_net_link(dev->net);
	struct xr_addr gid;

	if (!xd_net_gid(dev->net, 0, &gid))
		xd_log(XD_WARN, "%s has no IP address: programs find no GID until it has one",
		       link->ifname);
	if (xd_port_mtu(dev) <= USUAL_PATH_MTU)
		xd_log(XD_NOTICE,
		       "%s has MTU %u: the path MTU is %u; for %u, set the MTU to %u or more, on "
		       "all hosts and switches",
		       link->ifname, link->mtu, xd_port_mtu(dev), xd_port_max_mtu(dev),
		       xd_port_link_mtu(xd_port_max_mtu(dev)));
	xd_io_log_hints(dev->io);
}

static int main_run(struct daemon *d)
{
	int err = main_start(d);

	if (!err) {
		xd_log(XD_NOTICE, "device %s serves %s, version " XR_VERSION, d->opt.name,
		       xd_net_link(d->dev.net)->ifname);
		main_log_hints(&d->dev);
		notify_status(d);
		xd_notify("READY=1");
		err = xd_loop_run(d->dev.loop);
		xd_notify("STOPPING=1");
		if (xd_net_link(d->dev.net)->gone)
			err = -ENODEV;
		if (d->server->helper_ended)
			err = -EPIPE;
	}
	stop(d, err ? 1 : 0);
	xd_log_flush();
	return err ? 1 : 0;
}

static const struct xd_spawned_kind spawned[XD_SPAWN_KINDS] = {
	[XD_SPAWN_MOVER] = { "xroced-mover", xd_mover_main },
	[XD_SPAWN_GATE] = { "xroced-gate", xd_gate_main },
};

/* The README says what is lost with it. */
#define OLDEST_KERNEL KERNEL_VERSION(6, 1, 0)

int main(int argc, char **argv)
{
	static struct daemon d = { .signal_fd = -1, .lock_fd = -1 };
	int err = xd_options_parse(&d.opt, argc, argv);

	if (err)
		return err > 0 ? 0 : 2;
	xd_log_init(d.opt.name, (enum xd_log_level)d.opt.log_level);
	d.dev.opt = &d.opt;
	d.listener = XD_NO_LISTENER;
	if (xd_kernel_version() < OLDEST_KERNEL)
		xd_log(XD_WARN,
		       "this kernel is older than Linux 6.1, the oldest that is supported");
	raise_limits();
	if (xd_privileges_user(d.opt.user)) {
		xd_log(XD_ERR, "user '%s' does not exist", d.opt.user);
		return 1;
	}
	if (log_step("starting the spawner", xd_spawner_start(spawned, &d.dev.spawner)))
		return 1;
	d.dev.loop = xd_loop_new();
	if (!d.dev.loop || watch_signals(&d)) {
		xd_log(XD_ERR, "start: %s", strerror(errno));
		return 1;
	}
	return main_run(&d);
}
