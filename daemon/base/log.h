/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages on stderr: with the <N> priority prefix of the journal (sd-daemon(3)) if stderr is the
 * journal, else with the time. Low-level functions return -errno and log nothing; the caller that
 * has the interface, client or QP logs once.
 *
 * Each call of xd_log() in the source logs XD_LOG_BURST messages at once, then one in
 * XD_LOG_INTERVAL_S. Further messages are counted, and the number is logged later. XD_DEBUG is not
 * limited.
 */
#ifndef XD_LOG_H
#define XD_LOG_H

#include <stdarg.h>
#include <stdint.h>

#define XD_LOG_BURST 100
#define XD_LOG_INTERVAL_S 5

enum xd_log_level { XD_ERR = 3, XD_WARN = 4, XD_NOTICE = 5, XD_INFO = 6, XD_DEBUG = 7 };

/* One call of xd_log() */
struct xd_log_site {
	uint64_t bucket;
	uint32_t suppressed; /* messages since the last one that was logged */
	enum xd_log_level level;
	char last[128];		  /* the last of them */
	struct xd_log_site *next; /* next site with suppressed messages */
};

/* device: in front of each message. max: least important level that is logged. */
void xd_log_init(const char *device, enum xd_log_level max);
/* Any thread. */
#define xd_log(level, ...)                                                                         \
	do {                                                                                       \
		static struct xd_log_site site_;                                                   \
		xd_log_at(&site_, level, __VA_ARGS__);                                             \
	} while (0)
__attribute__((format(printf, 3, 4))) void xd_log_at(struct xd_log_site *site,
						     enum xd_log_level level, const char *fmt, ...);
/* Logs the first line of a library's message, as XD_DEBUG. */
__attribute__((format(printf, 1, 0))) void xd_log_library(const char *fmt, va_list ap);
/* Logs the numbers of suppressed messages now. */
void xd_log_flush(void);

#endif /* XD_LOG_H */
