// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Discovery: every socket of the runtime directory is asked who it is. Devices found are appended
 * to the list of the real library; where there is none of ours, the program gets what it would get
 * without us.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider/provider.h"

/* All sockets together, but each has the least */
#define PROBE_MS 5000
#define PROBE_LEAST_MS 300
#define NS_PER_MS 1000000ull

/* A list that we handed out: what it holds, whatever the program does to it. */
struct handed_out {
	struct handed_out *next;
	struct ibv_device **list; /* the program's */
	struct ibv_device **real; /* libibverbs' own, or NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct xp_device *devices;
static struct handed_out *lists;

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

/* No RDMA core of the kernel, so none of its indices. */
int xp_get_device_index(struct ibv_device *ibdev)
{
	return -1;
}

/* No child finds the lists locked, or half changed. */
void xp_devices_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void xp_devices_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

void xp_devices_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* ---- probing ------------------------------------------------------------------- */

/* Connects as an observer; the caller closes what succeeded. */
static int hello(struct xp_conn *conn, const char *path, unsigned int ms, struct xr_hello_rep *rep)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_OBSERVER };
	struct xp_call call = {
		.type = XR_MSG_HELLO,
		.req = &req,
		.req_len = sizeof(req),
		.rep = rep,
		.rep_len = sizeof(*rep),
	};
	int err;

	err = xp_conn_open(conn, path, ms);
	if (err)
		return err;
	err = xp_conn_call(conn, &call);
	if (!err && (rep->version != XR_PROTOCOL_VERSION || !rep->device[0] ||
		     !memchr(rep->device, 0, sizeof(rep->device)) ||
		     !memchr(rep->netdev, 0, sizeof(rep->netdev))))
		err = -EPROTO;
	if (err)
		xp_conn_close(conn);
	return err;
}

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
	snprintf(ib->dev_name, sizeof(ib->dev_name), "%s", rep->device);
	snprintf(ib->dev_path, sizeof(ib->dev_path), "/sys/class/infiniband_verbs/%s", rep->device);
	snprintf(ib->ibdev_path, sizeof(ib->ibdev_path), "/sys/class/infiniband/%s", rep->device);
	snprintf(dev->path, sizeof(dev->path), "%s", path);
	dev->guid = rep->guid;
	dev->next = devices;
	devices = dev;
	return dev;
}

/* XROCE_DEVICES names, with commas between, the devices that the program is to see; unset: all. */
static bool is_wanted(const char *name)
{
	const char *list = secure_getenv("XROCE_DEVICES");
	size_t len = strlen(name), n;

	if (!list)
		return true;
	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (n == len && !memcmp(list, name, n))
			return true;
		if (!list[n])
			return false;
	}
}

/*
 * The same device has the same pointer, for good: libibverbs keeps its devices as long as the kernel has them,
 * and programs open one whose list they freed.
 */
static struct xp_device *find_device(const char *path, const struct xr_hello_rep *rep)
{
	struct xp_device *dev;

	pthread_mutex_lock(&lock);
	for (dev = devices; dev; dev = dev->next) {
		if (!strcmp(dev->path, path) && dev->guid == rep->guid &&
		    !strcmp(dev->ibdev.name, rep->device))
			break;
	}
	if (!dev)
		dev = new_device(path, rep);
	pthread_mutex_unlock(&lock);
	return dev;
}

static struct xp_device *probe(const char *path, uint64_t deadline_ns)
{
	uint64_t now = xp_clock(), ms = now < deadline_ns ? (deadline_ns - now) / NS_PER_MS : 0;
	struct xr_hello_rep rep;
	struct xp_conn conn;
	int err;

	err = hello(&conn, path, ms > PROBE_LEAST_MS ? ms : PROBE_LEAST_MS, &rep);
	if (err) {
		xp_debug("%s: %s", path, strerror(-err));
		return NULL;
	}
	xp_conn_close(&conn);
	return is_wanted(rep.device) ? find_device(path, &rep) : NULL;
}

/* A program with more rights than its user must not follow its user's directions. */
static const char *runtime_dir(void)
{
	const char *dir = secure_getenv("XROCE_RUNTIME_DIR");

	return dir && *dir ? dir : XR_RUNTIME_DIR;
}

static int is_socket_name(const struct dirent *d)
{
	size_t len = strlen(d->d_name), suffix = strlen(XR_SOCKET_SUFFIX);

	return len > suffix && !strcmp(d->d_name + len - suffix, XR_SOCKET_SUFFIX);
}

/* The number found; *found is to be freed. */
static unsigned int discover(struct xp_device ***found)
{
	uint64_t deadline_ns = xp_clock() + PROBE_MS * NS_PER_MS;
	const char *dir = runtime_dir();
	struct dirent **entry;
	struct xp_device *dev;
	unsigned int count = 0;
	char path[108];
	int i, n;

	*found = NULL;
	n = scandir(dir, &entry, is_socket_name, alphasort);
	if (n < 0)
		return 0;
	if (n)
		*found = calloc(n, sizeof(**found));
	for (i = 0; i < n; i++) {
		if (*found && snprintf(path, sizeof(path), "%s/%s", dir, entry[i]->d_name) <
				      (int)sizeof(path)) {
			dev = probe(path, deadline_ns);
			if (dev)
				(*found)[count++] = dev;
		}
		free(entry[i]);
	}
	free(entry);
	return count;
}

int xp_device_ask(const char *name, struct xr_hello_rep *rep, struct xp_gid_table *gids)
{
	struct xp_call call = { .type = XR_MSG_QUERY_GIDS, .rep = gids, .rep_len = sizeof(*gids) };
	struct xp_conn conn;
	char path[108];
	int err;

	if (!is_wanted(name) || snprintf(path, sizeof(path), "%s/%s" XR_SOCKET_SUFFIX,
					 runtime_dir(), name) >= (int)sizeof(path))
		return -ENODEV;
	err = hello(&conn, path, PROBE_MS, rep);
	if (err)
		return err;
	if (strcmp(rep->device, name))
		err = -ENODEV;
	if (!err && gids) {
		err = xp_conn_call(&conn, &call);
		if (!err && !xp_gids_fit(gids, call.rep_got))
			err = -EPROTO;
	}
	xp_conn_close(&conn);
	return err;
}

/* ---- lists --------------------------------------------------------------------- */

static unsigned int list_length(struct ibv_device **list)
{
	unsigned int n = 0;

	while (list && list[n])
		n++;
	return n;
}

static struct handed_out *combine(struct ibv_device **real, struct xp_device **ours,
				  unsigned int nours)
{
	struct handed_out *h = calloc(1, sizeof(*h));
	unsigned int i, nreal = list_length(real);

	if (!h)
		return NULL;
	h->list = calloc(nreal + nours + 1, sizeof(*h->list));
	if (!h->list) {
		free(h);
		return NULL;
	}
	for (i = 0; i < nreal; i++)
		h->list[i] = real[i];
	for (i = 0; i < nours; i++)
		h->list[nreal + i] = &ours[i]->ibdev;
	h->real = real;
	return h;
}

struct ibv_device **xp_get_device_list(int *num)
{
	int before = errno, after;
	struct ibv_device **real = xp_real_get_device_list(num);
	struct handed_out *h = NULL;
	struct xp_device **ours;
	unsigned int nours;

	after = errno;
	nours = discover(&ours);
	if (nours)
		h = combine(real, ours, nours);
	free(ours);
	if (!h) {
		errno = after;
		return real;
	}
	pthread_mutex_lock(&lock);
	h->next = lists;
	lists = h;
	pthread_mutex_unlock(&lock);
	if (num)
		*num = list_length(h->list);
	errno = before;
	return h->list;
}

void xp_free_device_list(struct ibv_device **list)
{
	struct handed_out **p, *h;

	pthread_mutex_lock(&lock);
	for (p = &lists; *p && (*p)->list != list; p = &(*p)->next)
		;
	h = *p;
	if (h)
		*p = h->next;
	pthread_mutex_unlock(&lock);
	if (!h) {
		xp_real_free_device_list(list);
		return;
	}
	if (h->real)
		xp_real_free_device_list(h->real);
	free(h->list);
	free(h);
}
