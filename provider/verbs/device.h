/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Devices: discovery and the device list. */
#ifndef XP_DEVICE_H
#define XP_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <xroce/control.h>

#include "provider/control/sockets.h"
#include "provider/verbs/query.h"

struct xp_device {
	struct ibv_device ibdev;
	/* libibverbs keeps a reference count and more after struct ibv_device and may write it. */
	uint8_t libibverbs_private[512];
	struct xp_device *next;
	__be64 guid;
	uint32_t index; /* 0: none */
	char path[XP_SOCKET_PATH_MAX];
};

bool xp_is_our_device(const struct ibv_device *ibdev);

struct ibv_device **xp_get_device_list(int *num);
void xp_free_device_list(struct ibv_device **list);
__be64 xp_get_device_guid(struct ibv_device *ibdev);
int xp_get_device_index(struct ibv_device *ibdev);

struct xp_conn;
/*
 * Connects to the daemon of a device, as an observer. The program need not have listed or opened
 * the device. Returns 0, or -ENODEV if XROCE_DEVICES hides the device, or another error.
 */
int xp_device_connect(const char *name, struct xp_conn *conn, struct xr_hello_rep *rep);

/*
 * Number of the device file uverbsN of a device: a hash of its name, so that all programs have the
 * same without a registry. The kernel's numbers are lower (IB_UVERBS_MAX_DEVICES).
 */
#define XP_UVERBS_MAJOR 231u
#define XP_UVERBS_FIRST 10000u
#define XP_UVERBS_LAST 999999u /* the minor number of a device has 20 bits */
uint32_t xp_uverbs_number(const char *name);

/* Debug message: the error of a connection to a control socket, and its reason. */
void xp_debug_refused(const char *path, const struct xp_conn *conn, int err);

/* Discovers devices and returns the one with that control socket, or NULL. */
struct xp_device *xp_device_find(const char *path);

/* Fork handlers. The lock of the device list is held across fork(). */
void xp_devices_before_fork(void);
void xp_devices_after_fork(void);

#endif /* XP_DEVICE_H */
