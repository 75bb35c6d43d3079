/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages to stderr; under systemd with the journal's <N> priority prefix
 * (sd-daemon(3)), else with the time. Functions below return -errno and stay quiet; who
 * knows the interface, client or queue pair logs once.
 */
#ifndef XD_LOG_H
#define XD_LOG_H

#include <stdarg.h>

enum xd_log_level { XD_ERR = 3, XD_WARN = 4, XD_NOTICE = 5, XD_INFO = 6, XD_DEBUG = 7 };

void xd_log_init(const char *device, enum xd_log_level max);
void xd_log_set_level(enum xd_log_level max);
__attribute__((format(printf, 2, 3))) void xd_log(enum xd_log_level level, const char *fmt, ...);

#endif /* XD_LOG_H */
