// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "provider/base/libibverbs.h"
#include "provider/control/sockets.h"
#include "provider/control/runtime_dir.h"
#include "provider/control/visible.h"
#include "provider/cm/umad.h"
#include "provider/preload/tree.h"
#include "provider/preload/umad_number.h"
#include "provider/preload/values.h"
#include "provider/verbs/device.h"

/* ---- the rows ------------------------------------------------------------------ */

enum tree_kind {
	PARENT, /* a directory that the kernel has; children of the tree appear in it */
	DIRECTORY,
	REGULAR,
	COMMAND_DEVICE,
	CM_DEVICE,
	UMAD_DEVICE,
	DEVICE_DIR,  /* `device` of an interface without a parent device */
	NETDEV_LINK, /* to the interface */
	DEVICE_LINK, /* `device` of uverbsN, umadN: to that of the device */
};

/*
 * Each row is a path. Components that begin with % stand for all names of a kind:
 *   %d device   %u uverbsN   %m umadN   %n interface   %i GID index   %g GID index in use
 *   %k P_Key index   %c counter   %h hw counter
 * See Documentation/ABI/stable/sysfs-class-infiniband of Linux.
 */
#define IB "/sys/class/infiniband"
#define PORT IB "/%d/ports/1"
#define VERBS "/sys/class/infiniband_verbs"
#define MAD "/sys/class/infiniband_mad"

static const struct row {
	const char *path;
	enum tree_kind kind;
	xp_value *value; /* of a regular file */
} rows[] = {
	{ "/dev", PARENT, NULL },
	{ "/dev/infiniband", DIRECTORY, NULL },
	{ "/dev/infiniband/rdma_cm", CM_DEVICE, NULL },
	{ "/dev/infiniband/%u", COMMAND_DEVICE, NULL },
	{ "/dev/infiniband/%m", UMAD_DEVICE, NULL },
	{ "/sys/class", PARENT, NULL },
	{ IB, DIRECTORY, NULL },
	{ IB "/%d", DIRECTORY, NULL },
	{ IB "/%d/board_id", REGULAR, xp_value_type },
	{ IB "/%d/device", DEVICE_DIR, NULL },
	{ IB "/%d/device/net", DEVICE_DIR, NULL },
	{ IB "/%d/device/net/%n", NETDEV_LINK, NULL },
	{ IB "/%d/fw_ver", REGULAR, xp_value_fw_ver },
	{ IB "/%d/hca_type", REGULAR, xp_value_type },
	{ IB "/%d/hw_rev", REGULAR, xp_value_hw_rev },
	{ IB "/%d/node_desc", REGULAR, xp_value_node_desc },
	{ IB "/%d/node_guid", REGULAR, xp_value_guid },
	{ IB "/%d/node_type", REGULAR, xp_value_node_type },
	{ IB "/%d/ports", DIRECTORY, NULL },
	{ IB "/%d/sys_image_guid", REGULAR, xp_value_guid },
	{ PORT, DIRECTORY, NULL },
	{ PORT "/cap_mask", REGULAR, xp_value_cap_mask },
	{ PORT "/counters", DIRECTORY, NULL },
	{ PORT "/counters/%c", REGULAR, xp_value_counter },
	{ PORT "/gid_attrs", DIRECTORY, NULL },
	{ PORT "/gid_attrs/ndevs", DIRECTORY, NULL },
	{ PORT "/gid_attrs/ndevs/%g", REGULAR, xp_value_gid_netdev },
	{ PORT "/gid_attrs/types", DIRECTORY, NULL },
	{ PORT "/gid_attrs/types/%g", REGULAR, xp_value_gid_type },
	{ PORT "/gids", DIRECTORY, NULL },
	{ PORT "/gids/%i", REGULAR, xp_value_gid },
	{ PORT "/hw_counters", DIRECTORY, NULL },
	{ PORT "/hw_counters/%h", REGULAR, xp_value_hw_counter },
	{ PORT "/lid", REGULAR, xp_value_zero_hex },
	{ PORT "/lid_mask_count", REGULAR, xp_value_zero },
	{ PORT "/link_layer", REGULAR, xp_value_link_layer },
	{ PORT "/phys_state", REGULAR, xp_value_phys_state },
	{ PORT "/pkeys", DIRECTORY, NULL },
	{ PORT "/pkeys/%k", REGULAR, xp_value_pkey },
	{ PORT "/rate", REGULAR, xp_value_rate },
	{ PORT "/sm_lid", REGULAR, xp_value_zero_hex },
	{ PORT "/sm_sl", REGULAR, xp_value_zero },
	{ PORT "/state", REGULAR, xp_value_state },
	{ MAD, DIRECTORY, NULL },
	{ MAD "/abi_version", REGULAR, xp_value_umad_abi },
	{ MAD "/%m", DIRECTORY, NULL },
	{ MAD "/%m/dev", REGULAR, xp_value_umad_dev },
	{ MAD "/%m/device", DEVICE_LINK, NULL },
	{ MAD "/%m/ibdev", REGULAR, xp_value_device },
	{ MAD "/%m/port", REGULAR, xp_value_umad_port },
	{ VERBS, DIRECTORY, NULL },
	{ VERBS "/abi_version", REGULAR, xp_value_verbs_abi },
	{ VERBS "/%u", DIRECTORY, NULL },
	{ VERBS "/%u/abi_version", REGULAR, xp_value_driver_abi },
	{ VERBS "/%u/dev", REGULAR, xp_value_uverbs_dev },
	{ VERBS "/%u/device", DEVICE_LINK, NULL },
	{ VERBS "/%u/ibdev", REGULAR, xp_value_device },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* ---- names --------------------------------------------------------------------- */

int xp_names_add(struct xp_names *names, const char *name, unsigned char type)
{
	struct xp_name *more;
	size_t i, room;

	for (i = 0; i < names->count; i++) {
		if (!strcmp(names->name[i].name, name))
			return 0;
	}
	if (names->count == names->room) {
		room = names->room ? 2 * names->room : 32;
		more = reallocarray(names->name, room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		names->name = more;
		names->room = room;
	}
	names->name[names->count].type = type;
	snprintf(names->name[names->count++].name, sizeof(names->name->name), "%s", name);
	return 0;
}

void xp_names_free(struct xp_names *names)
{
	free(names->name);
	*names = (struct xp_names){ 0 };
}

/* ---- devices ------------------------------------------------------------------- */

/* Calls fn with each device until it returns true. Returns whether it did. */
static bool any_device(bool (*fn)(void *arg, const char *name), void *arg)
{
	char **names = xp_sockets_list(xp_runtime_dir());
	bool found = false;
	unsigned int i;

	for (i = 0; names && names[i] && !found; i++)
		found = xp_device_is_visible(names[i]) && fn(arg, names[i]);
	xp_sockets_free(names);
	return found;
}

static bool runs(void *unused, const char *name)
{
	struct xp_source s;

	if (xp_source_open(&s, name))
		return false;
	xp_source_close(&s);
	return true;
}

struct by_number {
	bool umad;
	uint32_t number;
	char *device;
};

static bool has_number(void *arg, const char *name)
{
	struct by_number *by = arg;

	if (by->umad ? xp_umad_number(name) != (int)by->number
		     : xp_uverbs_number(name) != by->number)
		return false;
	snprintf(by->device, XR_DEVICE_NAME_MAX + 1, "%s", name);
	return true;
}

/* ---- matching ------------------------------------------------------------------ */

struct match {
	char device[XR_DEVICE_NAME_MAX + 1]; /* empty: none */
	char netdev[16];		     /* empty: none */
	struct xp_place place;
};

/* Parses a decimal number without sign, blanks and leading zeros, like the kernel's file names. */
static bool read_index(const char *text, uint32_t *index)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || digits > 9 || (*text == '0' && digits > 1))
		return false;
	*index = strtoul(text, NULL, 10);
	return true;
}

/* Stores a component of a path in the place of its %X. Returns false if it cannot be one. */
static bool tree_capture(struct match *m, char kind, const char *name)
{
	struct by_number by = { .device = m->device };

	switch (kind) {
	case 'd':
		return snprintf(m->device, sizeof(m->device), "%s", name) < (int)sizeof(m->device);
	case 'u':
		return !strncmp(name, "uverbs", 6) && read_index(name + 6, &by.number) &&
		       any_device(has_number, &by);
	case 'm':
		by.umad = true;
		return !strncmp(name, "umad", 4) && read_index(name + 4, &by.number) &&
		       any_device(has_number, &by);
	case 'n':
		return snprintf(m->netdev, sizeof(m->netdev), "%s", name) < (int)sizeof(m->netdev);
	case 'c':
	case 'h':
		return snprintf(m->place.name, sizeof(m->place.name), "%s", name) <
		       (int)sizeof(m->place.name);
	default:
		return read_index(name, &m->place.index);
	}
}

/* Returns what follows the row's path in `path`, "" or "/...", or NULL if it does not begin so. */
static const char *match(const struct row *row, const char *path, struct match *m)
{
	const char *want = row->path;
	char name[NAME_MAX + 1];
	size_t n, k;

	*m = (struct match){ 0 };
	while (*want) {
		if (*path++ != '/')
			return NULL;
		want++;
		n = strcspn(path, "/");
		k = strcspn(want, "/");
		if (!n || n > NAME_MAX)
			return NULL;
		if (*want == '%') {
			memcpy(name, path, n);
			name[n] = 0;
			if (!tree_capture(m, want[1], name))
				return NULL;
		} else if (n != k || memcmp(path, want, n)) {
			return NULL;
		}
		path += n;
		want += k;
	}
	return path;
}

/* ---- find ---------------------------------------------------------------------- */

/* Real path of the device that is the parent of the interface; false: it has none. */
static bool parent_device(const struct xp_source *s, char path[PATH_MAX])
{
	char link[64];

	snprintf(link, sizeof(link), "/sys/class/net/%s/device", s->hello.netdev);
	return realpath(link, path);
}

static int find_link(struct xp_node *node, const char *rest)
{
	size_t n = strlen(node->text);

	node->mode = S_IFLNK | 0777;
	if (!*rest)
		return 0;
	if (n + strlen(rest) >= sizeof(node->text))
		return -ENOENT;
	strcpy(node->text + n, rest);
	return 1;
}

/* The node of a row that needs a device, whose daemon is connected */
static int find_node(struct xp_source *s, const struct row *row, const struct match *m,
		     const char *rest, struct xp_node *node)
{
	int n;

	switch (row->kind) {
	case REGULAR:
		node->mode = S_IFREG | 0444;
		n = *rest ? -ENOENT : row->value(s, &m->place, node->text, sizeof(node->text));
		return n < 0 ? -ENOENT : 0;
	case COMMAND_DEVICE:
		node->mode = S_IFCHR | 0666;
		node->rdev = makedev(XP_UVERBS_MAJOR, xp_uverbs_number(m->device));
		return *rest ? -ENOENT : 0;
	case UMAD_DEVICE:
		node->mode = S_IFCHR | XP_UMAD_MODE;
		node->rdev = makedev(XP_UMAD_MAJOR, xp_umad_number(m->device));
		strcpy(node->text, m->device);
		return *rest ? -ENOENT : 0;
	case DEVICE_DIR:
		/* The row of `device` comes first. */
		if (parent_device(s, node->text))
			return find_link(node, rest);
		break;
	case NETDEV_LINK:
		if (strcmp(m->netdev, s->hello.netdev))
			return -ENOENT;
		snprintf(node->text, sizeof(node->text), "/sys/class/net/%s", m->netdev);
		return find_link(node, rest);
	case DEVICE_LINK:
		snprintf(node->text, sizeof(node->text), IB "/%s/device", m->device);
		return find_link(node, rest);
	default:
		break;
	}
	node->mode = S_IFDIR | 0555;
	return *rest ? -EAGAIN : 0;
}

/* Returns -EAGAIN if another row may be the right one. */
static int find_in_row(const struct row *row, const char *path, struct xp_node *node)
{
	struct xp_source s;
	const char *rest;
	struct match m;
	int err;

	rest = match(row, path, &m);
	/* Only links and what may be one continue behind their own path. */
	if (!rest || (*rest && row->kind != DEVICE_DIR && row->kind != NETDEV_LINK &&
		      row->kind != DEVICE_LINK))
		return -EAGAIN;
	if (row->kind == PARENT)
		return -ENOENT;
	if (!*m.device) {
		node->mode = row->kind == CM_DEVICE ? S_IFCHR | 0666
			     : row->kind == REGULAR ? S_IFREG | 0444
						    : S_IFDIR | 0555;
		if (row->value)
			row->value(NULL, &m.place, node->text, sizeof(node->text));
		return any_device(runs, NULL) ? 0 : -ENOENT;
	}
	if (xp_source_open(&s, m.device))
		return -ENOENT;
	err = find_node(&s, row, &m, rest, node);
	xp_source_close(&s);
	return err;
}

int xp_tree_find(const char *path, struct xp_node *node)
{
	int err = -EAGAIN;
	unsigned int i;

	*node = (struct xp_node){ 0 };
	if (xp_libibverbs_is_listing())
		return -ENOENT;
	for (i = 0; i < ROWS && err == -EAGAIN; i++)
		err = find_in_row(&rows[i], path, node);
	return err == -EAGAIN ? -ENOENT : err;
}

/* ---- list ---------------------------------------------------------------------- */

struct tree_list {
	struct xp_names *names;
	unsigned char type;
	int err;
};

static int tree_add(void *arg, const char *name)
{
	struct tree_list *l = arg;

	return xp_names_add(l->names, name, l->type);
}

static bool tree_add_device(void *arg, const char *name)
{
	struct tree_list *l = arg;

	l->err = runs(NULL, name) ? tree_add(l, name) : 0;
	return l->err;
}

static bool add_uverbs(void *arg, const char *name)
{
	struct tree_list *l = arg;
	char uverbs[24];

	snprintf(uverbs, sizeof(uverbs), "uverbs%u", xp_uverbs_number(name));
	l->err = runs(NULL, name) ? tree_add(l, uverbs) : 0;
	return l->err;
}

static bool add_umad(void *arg, const char *name)
{
	int number = xp_umad_number(name);
	struct tree_list *l = arg;
	char umad[24];

	snprintf(umad, sizeof(umad), "umad%d", number);
	l->err = number >= 0 && runs(NULL, name) ? tree_add(l, umad) : 0;
	return l->err;
}

/* Appends all names that a component of a row stands for. s: of the device, if there is one */
static int add_component(struct tree_list *l, const char *component, struct xp_source *s)
{
	l->err = 0;
	if (*component != '%')
		return tree_add(l, component);
	switch (component[1]) {
	case 'd':
		any_device(tree_add_device, l);
		return l->err;
	case 'u':
		any_device(add_uverbs, l);
		return l->err;
	case 'm':
		any_device(add_umad, l);
		return l->err;
	case 'n':
		return tree_add(l, s->hello.netdev);
	case 'i':
		return xp_each_gid(s, tree_add, l);
	case 'g':
		return xp_each_used_gid(s, tree_add, l);
	case 'k':
		return xp_each_pkey(s, tree_add, l);
	case 'c':
		return xp_each_counter(s, tree_add, l);
	default:
		return xp_each_hw_counter(s, tree_add, l);
	}
}

static unsigned char tree_type_of(const struct row *row, struct xp_source *s)
{
	char path[PATH_MAX];

	switch (row->kind) {
	case REGULAR:
		return DT_REG;
	case COMMAND_DEVICE:
	case CM_DEVICE:
	case UMAD_DEVICE:
		return DT_CHR;
	case NETDEV_LINK:
	case DEVICE_LINK:
		return DT_LNK;
	case DEVICE_DIR:
		return parent_device(s, path) ? DT_LNK : DT_DIR;
	default:
		return DT_DIR;
	}
}

/* Returns the last component if the row is a child of the directory, or NULL. */
static const char *tree_child_of(const struct row *row, const struct row *directory)
{
	size_t n = strlen(directory->path);

	if (strncmp(row->path, directory->path, n) || row->path[n] != '/' ||
	    strchr(row->path + n + 1, '/'))
		return NULL;
	return row->path + n + 1;
}

static int add_children(const struct row *directory, struct xp_source *s, struct xp_names *names)
{
	struct tree_list l = { .names = names };
	const char *component;
	unsigned int i;
	int err = 0;

	for (i = 0; i < ROWS && !err; i++) {
		component = tree_child_of(&rows[i], directory);
		if (!component)
			continue;
		l.type = tree_type_of(&rows[i], s);
		err = add_component(&l, component, s);
	}
	return err;
}

static const struct row *find_directory(const char *path, struct match *m)
{
	const char *rest;
	unsigned int i;

	for (i = 0; i < ROWS; i++) {
		rest = match(&rows[i], path, m);
		if (rest && !*rest)
			return rows[i].kind == PARENT || rows[i].kind == DIRECTORY ||
					       rows[i].kind == DEVICE_DIR
				       ? &rows[i]
				       : NULL;
	}
	return NULL;
}

int xp_tree_list(const char *path, struct xp_names *names)
{
	size_t before = names->count;
	const struct row *row;
	struct xp_source s;
	struct match m;
	int err;

	row = xp_libibverbs_is_listing() ? NULL : find_directory(path, &m);
	if (!row)
		return -ENOENT;
	if (*m.device ? xp_source_open(&s, m.device) : !any_device(runs, NULL))
		return -ENOENT;
	err = add_children(row, *m.device ? &s : NULL, names);
	if (*m.device)
		xp_source_close(&s);
	return err ? err : (int)(names->count - before);
}
