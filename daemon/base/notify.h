/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* systemd's readiness protocol, sd_notify(3) */
#ifndef XD_NOTIFY_H
#define XD_NOTIFY_H

#include <stdint.h>

/* Sends a state such as "READY=1"; does nothing without NOTIFY_SOCKET in the environment. */
void xd_notify(const char *state);

/*
 * Returns the longest interval in ns between two messages "WATCHDOG=1" (WatchdogSec=); 0: the
 * service manager expects none.
 */
uint64_t xd_notify_watchdog(void);

#endif /* XD_NOTIFY_H */
