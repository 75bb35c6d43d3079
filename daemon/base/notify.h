/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* systemd's readiness protocol, sd_notify(3) */
#ifndef XD_NOTIFY_H
#define XD_NOTIFY_H

/* Sends a state such as "READY=1"; does nothing without NOTIFY_SOCKET in the environment. */
void xd_notify(const char *state);

#endif /* XD_NOTIFY_H */
