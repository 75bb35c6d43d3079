/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * xroced: one netdev, one ibverbs device. Exit status: 0 stopped as asked, 1 failed,
 * 2 wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/datapath/worker.h"
#include "daemon/datapath/xdp.h"
#include "daemon/netdev/net.h"
#include "daemon/server/server.h"
#include "device.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/notify.h"
#include "daemon/base/options.h"
#include "daemon/base/privileges.h"

#define LOCK_RETRIES 20
#define LOCK_RETRY_US 50000

struct daemon {
	struct xd_device dev;
	struct xd_options opt;
	struct xd_watch *signals;
	int signal_fd, lock_fd;
};

static void on_signal(void *arg, uint32_t events)
{
	struct daemon *d = arg;
	struct signalfd_siginfo si;

	while (read(d->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			xd_log(XD_INFO, "SIGHUP: settings are read at start only");
			continue;
		}
		xd_log(XD_NOTICE, "%s: stopping", strsignal((int)si.ssi_signo));
		xd_loop_stop(d->dev.loop);
	}
}

/* Before any thread starts: they all inherit the mask. */
static int take_signals(struct daemon *d)
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
	d->signals = xd_watch_add(d->dev.loop, d->signal_fd, EPOLLIN, on_signal, d);
	return d->signals ? 0 : -ENOMEM;
}

/* Who may connect is up to the socket; its folder is open, whatever our umask is. */
static int make_folder(const char *path)
{
	if (!mkdir(path, 0755))
		return chmod(path, 0755);
	return errno == EEXIST ? 0 : -1;
}

static void name_path(const struct daemon *d, char path[512])
{
	snprintf(path, 512, "%s/%s.lock", d->opt.runtime_dir, d->opt.name);
}

/* Who had the name may remove the file between our open and our lock: then it names another. */
static bool same_file(int fd, const char *path)
{
	struct stat held, named;

	return !fstat(fd, &held) && !stat(path, &named) && held.st_ino == named.st_ino &&
	       held.st_dev == named.st_dev;
}

/* A descriptor that holds the lock, or an error. */
static int lock_file(const char *path)
{
	int fd, err;

	do {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
		if (!err && same_file(fd, path))
			return fd;
		close(fd);
	} while (!err);
	return err;
}

/* A daemon that was killed just now holds its lock until the kernel is through with it. */
static int lock_file_soon(const char *path)
{
	int fd = lock_file(path);

	for (int i = 0; i < LOCK_RETRIES && fd == -EWOULDBLOCK; i++) {
		usleep(LOCK_RETRY_US);
		fd = lock_file(path);
	}
	return fd;
}

/* One daemon a device name. The lock goes with the process. */
static int take_name(struct daemon *d)
{
	char path[512];

	if (make_folder(d->opt.runtime_dir)) {
		xd_log(XD_ERR, "runtime directory %s: %s", d->opt.runtime_dir, strerror(errno));
		return -errno;
	}
	name_path(d, path);
	d->lock_fd = lock_file_soon(path);
	if (d->lock_fd == -EWOULDBLOCK)
		xd_log(XD_ERR, "another xroced serves %s (%s is locked)", d->opt.name, path);
	else if (d->lock_fd < 0)
		xd_log(XD_ERR, "%s: %s", path, strerror(-d->lock_fd));
	return d->lock_fd < 0 ? d->lock_fd : 0;
}

static void release_name(struct daemon *d)
{
	char path[512];

	if (d->lock_fd < 0)
		return;
	name_path(d, path);
	unlink(path);
	close(d->lock_fd);
}

static void raise_file_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

static unsigned int count_queues(const struct xd_device *dev)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_GCHANNELS };
	struct ifreq ifr = { 0 };
	unsigned int n = 1;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(ifr.ifr_name, dev->ifname, sizeof(ifr.ifr_name));
	ifr.ifr_data = (void *)&ch;
	if (fd >= 0 && !ioctl(fd, SIOCETHTOOL, &ifr) && ch.combined_count + ch.rx_count)
		n = ch.combined_count + ch.rx_count;
	if (fd >= 0)
		close(fd);
	if (n > XD_MAX_WORKERS) {
		xd_log(XD_WARN, "%s has %u RX queues, %u are served: steer UDP port %u to those",
		       dev->ifname, n, XD_MAX_WORKERS, XR_UDP_PORT);
		n = XD_MAX_WORKERS;
	}
	return dev->opt->queues && dev->opt->queues < n ? dev->opt->queues : n;
}

static int open_tables(struct xd_device *dev)
{
	dev->shared.keys = xt_keys_new(2 * dev->opt->max_mr);
	dev->shared.qps = xt_numbers_new(dev->opt->max_qp);
	dev->shared.srqs = xt_numbers_new(dev->opt->max_srq);
	dev->shared.groups = xt_groups_new();
	return dev->shared.keys && dev->shared.qps && dev->shared.srqs && dev->shared.groups
		       ? 0
		       : -ENOMEM;
}

/* Steps that need no message of their own say nothing; the others named what went wrong. */
static int start(struct daemon *d)
{
	struct xd_device *dev = &d->dev;
	int err;

	err = take_name(d);
	if (err)
		return err;
	err = xd_net_open(dev);
	if (err) {
		xd_log(XD_ERR, "interface %s: %s", dev->ifname, strerror(-err));
		return err;
	}
	err = open_tables(dev);
	if (!err)
		err = xd_xdp_load(dev);
	if (err)
		return err;
	xd_net_mirror(dev);
	dev->workers = count_queues(dev);
	err = xd_workers_start(dev);
	if (!err)
		err = xd_xdp_attach(dev);
	if (!err)
		err = xd_server_start(dev);
	if (err)
		return err;
	err = xd_privileges_drop(XD_ROLE_CONTROL);
	if (err)
		xd_log(XD_ERR, "dropping privileges: %s", strerror(-err));
	return err;
}

static void stop(struct daemon *d)
{
	struct xd_device *dev = &d->dev;

	xd_server_stop(dev);
	xd_workers_stop(dev);
	xd_xdp_close(dev);
	xd_net_close(dev);
	xt_keys_free(dev->shared.keys);
	xt_numbers_free(dev->shared.qps);
	xt_numbers_free(dev->shared.srqs);
	xt_groups_free(dev->shared.groups);
	xd_watch_del(d->signals);
	if (d->signal_fd >= 0)
		close(d->signal_fd);
	xd_loop_free(dev->loop);
	release_name(d);
}

static int run(struct daemon *d)
{
	int err = start(d);

	if (!err) {
		xd_log(XD_NOTICE, "device %s serves %s, version " XR_VERSION, d->dev.name,
		       d->dev.ifname);
		xd_notify("READY=1");
		err = xd_loop_run(d->dev.loop);
		xd_notify("STOPPING=1");
		if (d->dev.net && xd_net_link(&d->dev)->gone)
			err = -ENODEV;
	}
	stop(d);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct daemon d = { .signal_fd = -1, .lock_fd = -1 };
	int err = xd_options_parse(&d.opt, argc, argv);

	if (err)
		return err > 0 ? 0 : 2;
	xd_log_init(d.opt.name, (enum xd_log_level)d.opt.log_level);
	d.dev.opt = &d.opt;
	snprintf(d.dev.name, sizeof(d.dev.name), "%s", d.opt.name);
	snprintf(d.dev.ifname, sizeof(d.dev.ifname), "%s", d.opt.interface);
	raise_file_limit();
	d.dev.loop = xd_loop_new();
	if (!d.dev.loop || take_signals(&d)) {
		xd_log(XD_ERR, "start: %s", strerror(errno));
		return 1;
	}
	return run(&d);
}
