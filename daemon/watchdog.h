/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tells the service manager that the daemon is alive while the control thread and all workers make
 * progress. If one hangs, the service manager restarts the daemon.
 */
#ifndef XD_WATCHDOG_H
#define XD_WATCHDOG_H

struct xd_device;
struct xd_watchdog;

/* *watchdog is NULL if the service has no WatchdogSec=. -ENOMEM. */
int xd_watchdog_start(const struct xd_device *dev, struct xd_watchdog **watchdog);
void xd_watchdog_stop(struct xd_watchdog *w); /* NULL allowed */

#endif /* XD_WATCHDOG_H */
