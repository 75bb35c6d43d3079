// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Discovery: HELLO is sent to every socket of the runtime directory. The devices found come before
 * those of the real libibverbs, unless XROCE_ORDER or XROCE_HIDE says otherwise. If none is found,
 * the program gets the real list.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/libibverbs.h"
#include "provider/control/connection.h"
#include "provider/control/runtime_dir.h"
#include "provider/control/visible.h"
#include "provider/verbs/device.h"

#define PROBE_MS 5000	   /* limit for all sockets together */
#define PROBE_LEAST_MS 300 /* each socket gets this time, even after the limit */
#define CONNECT_MS 1000

/* A list that was returned to the program */
struct device_list {
	struct device_list *next;
	struct ibv_device **list; /* the program's; it may change the entries */
	struct ibv_device **real; /* the list of libibverbs that it contains, or NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* devices, lists */
static struct xp_device *devices;
static struct device_list *lists;

/* ---- devices ------------------------------------------------------------------- */

bool xp_is_our_device(const struct ibv_device *ibdev)
{
	struct xp_device *d;

	pthread_mutex_lock(&lock);
	for (d = devices; d && &d->ibdev != ibdev; d = d->next)
		;
	pthread_mutex_unlock(&lock);
	return d;
}

__be64 xp_get_device_guid(struct ibv_device *ibdev)
{
	return ((struct xp_device *)ibdev)->guid;
}

int xp_get_device_index(struct ibv_device *ibdev)
{
	uint32_t index = ((struct xp_device *)ibdev)->index;

	return index ? (int)index : -1;
}

void xp_devices_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void xp_devices_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

uint32_t xp_uverbs_number(const char *name)
{
	uint32_t hash = 2166136261; /* FNV-1a */

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 16777619;
	return XP_UVERBS_FIRST + hash % (XP_UVERBS_LAST - XP_UVERBS_FIRST + 1);
}

/* ---- probing ------------------------------------------------------------------- */

static struct xp_device *new_device(const char *path, const struct xr_hello_rep *rep)
{
	struct xp_device *dev = calloc(1, sizeof(*dev));
	struct ibv_device *ib;

	if (!dev)
		return NULL;
	ib = &dev->ibdev;
	ib->node_type = IBV_NODE_CA;
	ib->transport_type = IBV_TRANSPORT_IB;
	snprintf(ib->name, sizeof(ib->name), "%s", rep->device);
	snprintf(ib->dev_name, sizeof(ib->dev_name), "uverbs%u", xp_uverbs_number(rep->device));
	snprintf(ib->dev_path, sizeof(ib->dev_path), "/sys/class/infiniband_verbs/%s",
		 ib->dev_name);
	snprintf(ib->ibdev_path, sizeof(ib->ibdev_path), "/sys/class/infiniband/%s", rep->device);
	snprintf(dev->path, sizeof(dev->path), "%s", path);
	dev->guid = rep->guid;
	dev->index = rep->index;
	dev->next = devices;
	devices = dev;
	return dev;
}

/*
 * Returns the struct of a device, which is never freed: libibverbs keeps its devices as long as the
 * kernel has them, and some programs open a device after they freed the list. The device of a
 * restarted daemon is another one, like that of a driver that was loaded again, so that librdmacm
 * opens it anew.
 */
static struct xp_device *verbs_find_device(const char *path, const struct xr_hello_rep *rep)
{
	struct xp_device *dev;

	pthread_mutex_lock(&lock);
	for (dev = devices; dev; dev = dev->next) {
		if (!strcmp(dev->path, path) && dev->guid == rep->guid &&
		    dev->index == rep->index && !strcmp(dev->ibdev.name, rep->device))
			break;
	}
	if (!dev)
		dev = new_device(path, rep);
	pthread_mutex_unlock(&lock);
	return dev;
}

void xp_debug_refused(const char *path, const struct xp_conn *conn, int err)
{
	char text[256];

	/* Looking up the group may read files and load libraries. */
	if (!xp_debugging())
		return;
	xp_conn_describe(conn, path, err, text, sizeof(text));
	xp_debug("%s: %s", path, text);
}

static struct xp_timeouts probe_timeouts(unsigned int reply_ms)
{
	return (struct xp_timeouts){
		.connect_ms = reply_ms < CONNECT_MS ? reply_ms : CONNECT_MS,
		.reply_ms = reply_ms,
	};
}

static struct xp_device *device_probe(const char *path, uint64_t deadline_ns)
{
	uint64_t now = xp_clock(), ms = now < deadline_ns ? (deadline_ns - now) / XP_NS_PER_MS : 0;
	struct xr_hello_rep rep;
	struct xp_conn conn;
	int err;

	err = xp_conn_observe(&conn, path,
			      probe_timeouts(ms > PROBE_LEAST_MS ? ms : PROBE_LEAST_MS), &rep);
	if (err) {
		xp_debug_refused(path, &conn, err);
		return NULL;
	}
	xp_conn_close(&conn);
	if (xp_device_is_visible(rep.device))
		return verbs_find_device(path, &rep);
	xp_debug("%s: not listed in XROCE_DEVICES", rep.device);
	return NULL;
}

/* Returns the devices found, with NULL at the end, to be freed; NULL if there is no socket. */
static struct xp_device **discover(void)
{
	uint64_t deadline_ns = xp_clock() + PROBE_MS * XP_NS_PER_MS;
	const char *dir = xp_runtime_dir();
	char **names = xp_sockets_list(dir), path[XP_SOCKET_PATH_MAX];
	struct xp_device **found = NULL, *dev;
	unsigned int count = 0, n = 0;

	while (names && names[n])
		n++;
	if (n)
		found = calloc(n + 1, sizeof(*found));
	for (n = 0; found && names[n]; n++) {
		dev = xp_socket_path(path, dir, names[n]) ? NULL : device_probe(path, deadline_ns);
		if (dev)
			found[count++] = dev;
	}
	xp_sockets_free(names);
	return found;
}

int xp_device_connect(const char *name, struct xp_conn *conn, struct xr_hello_rep *rep)
{
	char path[XP_SOCKET_PATH_MAX];
	int err;

	if (!xp_device_is_visible(name) || xp_socket_path(path, xp_runtime_dir(), name))
		return -ENODEV;
	err = xp_conn_observe(conn, path, probe_timeouts(PROBE_MS), rep);
	if (!err && strcmp(rep->device, name)) {
		xp_conn_close(conn);
		err = -ENODEV;
	}
	return err;
}

struct xp_device *xp_device_find(const char *path)
{
	struct xp_device **found = discover(), **p = found, *dev;

	while (p && *p && strcmp((*p)->path, path))
		p++;
	dev = p ? *p : NULL;
	free(found);
	return dev;
}

/* ---- lists --------------------------------------------------------------------- */

static unsigned int list_length(struct ibv_device **list)
{
	unsigned int n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Each of both lists may be NULL. */
static struct device_list *combine(struct ibv_device **real, struct xp_device **ours)
{
	unsigned int i, nreal = list_length(real), nours = 0, first;
	struct device_list *l = calloc(1, sizeof(*l));

	while (ours && ours[nours])
		nours++;
	if (!l)
		return NULL;
	l->list = calloc(nreal + nours + 1, sizeof(*l->list));
	if (!l->list) {
		free(l);
		return NULL;
	}
	first = xp_kernel_comes_first() ? nreal : 0;
	for (i = 0; i < nours; i++)
		l->list[first + i] = &ours[i]->ibdev;
	for (i = 0; i < nreal; i++)
		l->list[first ? i : nours + i] = real[i];
	l->real = real;
	return l;
}

struct ibv_device **xp_get_device_list(int *num)
{
	struct ibv_device **real = NULL;
	int errno_before = errno, errno_real = ENOMEM;
	bool hides = xp_hides_kernel();
	struct device_list *l = NULL;
	struct xp_device **ours;
	char why[256];

	if (!xp_settings_are_known(why, sizeof(why)))
		xp_debug("%s", why);
	if (!hides) {
		real = xp_libibverbs_get_device_list(num);
		errno_real = errno;
	}
	ours = discover();
	if ((ours && *ours) || hides)
		l = combine(real, ours);
	free(ours);
	if (!l) {
		errno = errno_real;
		return real;
	}
	pthread_mutex_lock(&lock);
	l->next = lists;
	lists = l;
	pthread_mutex_unlock(&lock);
	if (num)
		*num = list_length(l->list);
	errno = errno_before;
	return l->list;
}

void xp_free_device_list(struct ibv_device **list)
{
	struct device_list **p, *l;

	pthread_mutex_lock(&lock);
	for (p = &lists; *p && (*p)->list != list; p = &(*p)->next)
		;
	l = *p;
	if (l)
		*p = l->next;
	pthread_mutex_unlock(&lock);
	if (!l) {
		xp_libibverbs_free_device_list(list);
		return;
	}
	if (l->real)
		xp_libibverbs_free_device_list(l->real);
	free(l->list);
	free(l);
}
