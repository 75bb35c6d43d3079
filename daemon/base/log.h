/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages on stderr: with the <N> priority prefix of the journal (sd-daemon(3)) if stderr is the
 * journal, else with the time. Low-level functions return -errno and log nothing; the caller that
 * has the interface, client or QP logs once.
 */
#ifndef XD_LOG_H
#define XD_LOG_H

#include <stdarg.h>

enum xd_log_level { XD_ERR = 3, XD_WARN = 4, XD_NOTICE = 5, XD_INFO = 6, XD_DEBUG = 7 };

/* device: in front of each message. max: least important level that is logged. */
void xd_log_init(const char *device, enum xd_log_level max);
__attribute__((format(printf, 2, 3))) void xd_log(enum xd_log_level level, const char *fmt, ...);

#endif /* XD_LOG_H */
