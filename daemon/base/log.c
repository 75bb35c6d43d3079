// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "log.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "log_program.h"
#include "loop.h"
#include "rate.h"

static char log_device[64];
static enum xd_log_level log_max = XD_INFO;
static bool log_journal;

/* ---- the journal --------------------------------------------------------------------- */

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

static pid_t log_pid; /* its children have no permission to open sockets */
static __thread const struct xd_log_program *log_about;

/* systemd.exec(5): JOURNAL_STREAM is the device and inode of the journal's stream. */
static bool stderr_is_journal(void)
{
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return env && sscanf(env, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == dev && st.st_ino == ino;
}

void xd_log_about(const struct xd_log_program *program)
{
	log_about = program;
}

/* Values with line breaks would be taken for more fields. */
static void log_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ')
			*text = '?';
}

static int write_program(char *fields, size_t room)
{
	char comm[32] = "", qpn[32] = "";
	bool named;

	if (!log_about)
		return 0;
	named = log_about->comm;
	if (log_about->qpn)
		snprintf(qpn, sizeof(qpn), "XROCE_QPN=%u\n", log_about->qpn);
	if (named)
		snprintf(comm, sizeof(comm), "%s", log_about->comm);
	log_clean(comm);
	return snprintf(fields, room, "XROCE_PID=%d\nXROCE_UID=%u\n%s%s%s%s", log_about->pid,
			log_about->uid, named ? "XROCE_COMM=" : "", comm, named ? "\n" : "", qpn);
}

/*
 * The form of a field whose value may have line breaks: its name, the length (64 bits, little
 * endian), the value (https://systemd.io/JOURNAL_NATIVE_PROTOCOL).
 */
static bool send_fields(int fd, char *fields, size_t length, const char *text)
{
	struct sockaddr_un journal = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };
	uint64_t size = htole64(strlen(text));
	struct iovec parts[] = {
		{ fields, length },
		{ "MESSAGE\n", 8 },
		{ &size, sizeof(size) },
		{ (void *)text, strlen(text) },
		{ "\n", 1 },
	};
	struct msghdr msg = {
		.msg_name = &journal,
		.msg_namelen = sizeof(journal),
		.msg_iov = parts,
		.msg_iovlen = sizeof(parts) / sizeof(parts[0]),
	};

	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* Returns false if the journal does not get the message. */
static bool send_to_journal(enum xd_log_level level, const char *text)
{
	char fields[256], line[1200];
	size_t n;
	bool sent;
	int fd;

	if (getpid() != log_pid)
		return false;
	n = (size_t)snprintf(fields, sizeof(fields),
			     "PRIORITY=%d\nSYSLOG_IDENTIFIER=xroced\nXROCE_DEVICE=%s\n", level,
			     log_device);
	n += (size_t)write_program(fields + n, sizeof(fields) - n);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	snprintf(line, sizeof(line), "%s: %s", log_device, text);
	sent = send_fields(fd, fields, n, line);
	close(fd);
	return sent;
}

/* ---- messages ------------------------------------------------------------------------ */

void xd_log_init(const char *device, enum xd_log_level max)
{
	snprintf(log_device, sizeof(log_device), "%s", device);
	log_max = max;
	log_journal = stderr_is_journal();
	log_pid = getpid();
	tzset(); /* reads a file, which the daemon may not open later */
}

static void write_line(enum xd_log_level level, const char *text)
{
	char when[32] = "";
	struct timespec ts;
	struct tm tm;

	if (log_journal && send_to_journal(level, text))
		return;
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

void xd_log_library(const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = 0;
	xd_log(XD_DEBUG, "%s", text);
}
