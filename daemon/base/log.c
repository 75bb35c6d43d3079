// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
}

void xd_log(enum xd_log_level level, const char *fmt, ...)
{
	char text[1024], when[32] = "";
	struct timespec ts;
	struct tm tm;
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
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
