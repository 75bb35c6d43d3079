// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Repeated log messages are suppressed and counted. */
#include "daemon/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/tap.h"

#define MANY 100000

/* ---- the log --------------------------------------------------------------------------- */

static FILE *log_file; /* in place of stderr */

static unsigned int lines_with(const char *text)
{
	unsigned int n = 0;
	char line[512];

	rewind(log_file);
	while (fgets(line, sizeof(line), log_file))
		n += !!strstr(line, text);
	return n;
}

/* Returns the sum of the numbers of suppressed messages, the last of which contains text. */
static unsigned int suppressed(const char *text)
{
	unsigned int sum = 0, n;
	char line[512], *at;

	rewind(log_file);
	while (fgets(line, sizeof(line), log_file)) {
		at = strstr(line, ": ");
		if (at && strstr(line, text) && sscanf(at, ": %u messages suppressed", &n) == 1)
			sum += n;
	}
	return sum;
}

static void begin(void)
{
	if (ftruncate(STDERR_FILENO, 0) || lseek(STDERR_FILENO, 0, SEEK_SET))
		TAP_OK(false, "empty the log");
}

/* ---- tests --------------------------------------------------------------------------- */

static void test_repeated(void)
{
	unsigned int logged, counted, i;

	begin();
	for (i = 0; i < MANY; i++)
		xd_log(XD_WARN, "pid %u refused", i);
	xd_log(XD_WARN, "something else");
	xd_log_flush();
	counted = suppressed("refused");
	logged = lines_with("refused") - lines_with("suppressed");
	TAP_OK(logged >= XD_LOG_BURST && logged < 10 * XD_LOG_BURST, "%u of %u messages are logged",
	       logged, MANY);
	TAP_OK(logged + counted == MANY, "the others are counted");
	TAP_OK(lines_with("something else") == 1, "other messages are not suppressed");
	TAP_OK(lines_with("suppressed, the last one: pid 99999 refused") == 1,
	       "the text of the last suppressed message is logged");
	begin();
	xd_log_flush();
	TAP_OK(!lines_with(""), "nothing is counted twice");
}

static void test_levels(void)
{
	unsigned int i;

	begin();
	for (i = 0; i < 2 * XD_LOG_BURST; i++)
		xd_log(XD_DEBUG, "hidden");
	TAP_OK(!lines_with(""), "messages above the level are neither logged nor counted");
	xd_log_init("test", XD_DEBUG);
	for (i = 0; i < 2 * XD_LOG_BURST; i++)
		xd_log(XD_DEBUG, "shown");
	TAP_OK(lines_with("shown") == 2 * XD_LOG_BURST, "debug messages are not limited");
}

int main(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	log_file = fd < 0 ? NULL : fdopen(dup(fd), "r");
	if (!log_file || dup2(fd, STDERR_FILENO) < 0)
		return 1;
	xd_log_init("test", XD_INFO);
	test_repeated();
	test_levels();
	return tap_end();
}
