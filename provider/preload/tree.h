/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The emulated tree: files and directories that the kernel's RDMA core would have for the devices,
 * below /sys/class/infiniband, infiniband_verbs and infiniband_mad, and /dev/infiniband. Nothing is
 * stored: each call sends requests to the daemons. Paths are canonical (xp_path_of_interest()).
 */
#ifndef XP_TREE_H
#define XP_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct xp_node {
	mode_t mode; /* type and permissions */
	dev_t rdev;  /* of a device file */
	/*
	 * Contents of a file, target of a link, device of a file of umad. If the path leads through
	 * a link: where to.
	 */
	char text[PATH_MAX];
};

/*
 * Looks a path up. A link at its end is not followed. Returns 0, -ENOENT, or 1 if a link before the
 * end leads to the path in node->text.
 */
int xp_tree_find(const char *path, struct xp_node *node);

/* Names in a directory */
struct xp_names {
	struct xp_name {
		unsigned char type; /* DT_* */
		char name[NAME_MAX + 1];
	} * name;
	size_t count, room;
};

/* Appends a name unless the list has it. Returns 0 or -ENOMEM. */
int xp_names_add(struct xp_names *names, const char *name, unsigned char type);
void xp_names_free(struct xp_names *names);

/*
 * Appends the emulated names of a directory, which may exist in the file system as well. Returns
 * the number of emulated names, or -ENOENT if the tree does not have the directory.
 */
int xp_tree_list(const char *path, struct xp_names *names);

#endif /* XP_TREE_H */
