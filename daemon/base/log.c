// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "rate.h"

static char log_device[64];
static enum xd_log_level log_max = XD_INFO;
static bool log_journal;

/* systemd.exec(5): JOURNAL_STREAM is the device and inode of the journal's stream. */
static bool stderr_is_journal(void)
{
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return env && sscanf(env, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == dev && st.st_ino == ino;
}

void xd_log_init(const char *device, enum xd_log_level max)
{
	snprintf(log_device, sizeof(log_device), "%s", device);
	log_max = max;
	log_journal = stderr_is_journal();
	tzset(); /* reads a file, which the daemon may not open later */
}

static void write_line(enum xd_log_level level, const char *text)
{
	char when[32] = "";
	struct timespec ts;
	struct tm tm;

	if (log_journal) {
		fprintf(stderr, "<%d>%s: %s\n", level, log_device, text);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &ts);
	if (localtime_r(&ts.tv_sec, &tm))
		strftime(when, sizeof(when), "%H:%M:%S", &tm);
	fprintf(stderr, "%s.%03ld xroced%s%s: %s\n", when, ts.tv_nsec / 1000000,
		log_device[0] ? " " : "", log_device, text);
}

/* ---- repeated messages --------------------------------------------------------------- */

static const struct xd_rate log_rate = { XD_LOG_INTERVAL_S * 1000000000ull, XD_LOG_BURST };
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* sites, and the list of them */
static struct xd_log_site *suppressed_sites;

static void suppress(struct xd_log_site *site, enum xd_log_level level, const char *text)
{
	if (!site->suppressed++) {
		site->next = suppressed_sites;
		suppressed_sites = site;
	}
	site->level = level;
	snprintf(site->last, sizeof(site->last), "%.*s", (int)sizeof(site->last) - 1, text);
}

/* Logs the numbers of the sites that may log again, or of all sites. */
static void report_suppressed(uint64_t now, bool all)
{
	struct xd_log_site **at = &suppressed_sites, *site;
	char text[200];

	while ((site = *at)) {
		if (!all && xd_rate_wait(&log_rate, site->bucket, now)) {
			at = &site->next;
			continue;
		}
		*at = site->next;
		snprintf(text, sizeof(text), "%u messages suppressed, the last one: %s",
			 site->suppressed, site->last);
		site->suppressed = 0;
		write_line(site->level, text);
	}
}

void xd_log_flush(void)
{
	pthread_mutex_lock(&log_lock);
	report_suppressed(0, true);
	pthread_mutex_unlock(&log_lock);
}

void xd_log_at(struct xd_log_site *site, enum xd_log_level level, const char *fmt, ...)
{
	uint64_t now = xd_now();
	char text[1024];
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&log_lock);
	report_suppressed(now, false);
	if (level == XD_DEBUG || xd_rate_take(&log_rate, &site->bucket, now))
		write_line(level, text);
	else
		suppress(site, level, text);
	pthread_mutex_unlock(&log_lock);
}
