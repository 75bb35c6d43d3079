/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* systemd's readiness protocol, sd_notify(3): "READY=1", "STOPPING=1", "STATUS=…" */
#ifndef XD_NOTIFY_H
#define XD_NOTIFY_H

/* Does nothing where nobody asked for it. */
void xd_notify(const char *state);

#endif /* XD_NOTIFY_H */
