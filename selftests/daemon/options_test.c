// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Settings: command line, configuration file, precedence and error messages */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/options.h"
#include "selftests/lib/tap.h"

static char said[8192]; /* output of the last parse() */
static char file_name[64];

/* Calls fn with stdout and stderr redirected, and stores the output in said[]. */
static int capture(int (*fn)(struct xd_options *, int, char **), struct xd_options *o, int argc,
		   char **argv)
{
	char name[] = "/tmp/xroce-options-out.XXXXXX";
	int file = mkstemp(name), out = dup(1), err = dup(2), ret;
	ssize_t n;

	fflush(stdout);
	dup2(file, 1);
	dup2(file, 2);
	ret = fn(o, argc, argv);
	fflush(stdout);
	fflush(stderr);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	n = pread(file, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	close(file);
	unlink(name);
	return ret;
}

static int parse(struct xd_options *o, const char *const *args)
{
	char *argv[16] = { (char *)"xroced" };
	int argc = 1;

	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)args[argc - 1];
	return capture(xd_options_parse, o, argc, argv);
}
#define PARSE(o, ...) parse(o, (const char *const[]){ __VA_ARGS__, NULL })

static void write_file(const char *text)
{
	int fd = open(file_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		exit(1);
	close(fd);
}

static void test_defaults(void)
{
	char dir[64] = XR_RUNTIME_DIR;
	struct xd_options o;

	unsetenv("XDG_RUNTIME_DIR");
	if (access(XR_RUNTIME_DIR, W_OK) && access("/run", W_OK))
		snprintf(dir, sizeof(dir), "/tmp/xroce-%u", geteuid());
	TAP_OK(!PARSE(&o, "--interface", "eth0"), "only the interface is required");
	TAP_OK(!strcmp(o.interface, "eth0") && !strcmp(o.name, "xr_eth0"),
	       "the device is named after the interface");
	TAP_OK(!strcmp(o.runtime_dir, dir) && !strcmp(o.bpffs, "/sys/fs/bpf"),
	       "directories have their defaults");
	TAP_OK(o.ring_size && !(o.ring_size & (o.ring_size - 1)),
	       "the default ring size is a power of two");
	TAP_OK(o.attach == XD_ATTACH_AUTO && !o.queues,
	       "attach mode and queues have their defaults");
	TAP_OK(!o.fault[0], "no faults by default");
	TAP_OK(o.slots == 64 && !o.direct_uids, "sockets can be borrowed, by nobody but operators");
	TAP_OK(!o.reserved_lkey_group[0], "by default only root may use the reserved L_Key");
	TAP_OK(o.client_max_qp <= o.max_qp && o.client_max_mr <= o.max_mr && o.user_max_pinned,
	       "limits have their defaults");
	TAP_OK(o.user_max_clients == o.max_clients / 2 && o.user_max_qp == o.max_qp / 2 &&
		       o.user_max_mr == o.max_mr / 2,
	       "one user gets half of what the device has");
	TAP_OK(!PARSE(&o, "--interface", "eth0", "--max-qp", "7", "--user-max-cq", "9") &&
		       o.user_max_qp == 4 && o.user_max_cq == 9,
	       "the user limit of QPs follows --max-qp, the one of CQs is as given");
}

static void test_command_line(void)
{
	struct xd_options o;

	TAP_OK(!PARSE(&o, "--interface=v0", "--name", "dev", "--attach", "generic",
		      "--user-max-pinned", "3G", "--fault", "drop prob 1%"),
	       "values of each type");
	TAP_OK(!strcmp(o.name, "dev") && o.attach == XD_ATTACH_GENERIC, "words");
	TAP_OK(o.user_max_pinned == 3ull << 30, "a size may have a suffix");
	TAP_OK(!strcmp(o.fault, "drop prob 1%"), "rules of faults");
	TAP_OK(PARSE(&o, "--help") == 1 && strstr(said, "--ring-size"), "--help ends the parsing");
	TAP_OK(PARSE(&o, "--version") == 1 && strstr(said, XR_VERSION),
	       "--version ends the parsing");
}

/* Settings that are refused, and a text that the message must have */
static void test_wrong(void)
{
	static const struct {
		const char *what, *option, *value, *text;
	} rows[] = {
		{ "not a power of two", "--ring-size", "100", "ring-size" },
		{ "too small", "--ring-size", "1", "ring-size" },
		{ "too large", "--client-max-load", "10001", "client-max-load" },
		{ "negative", "--max-qp", "-1", "max-qp" },
		{ "beyond 32 bits", "--max-qp", "4294967297", "max-qp" },
		{ "beyond 64 bits", "--user-max-pinned", "99999999999999999999",
		  "user-max-pinned" },
		{ "beyond 64 bits with its suffix", "--user-max-pinned", "18446744073709551615T",
		  "user-max-pinned" },
		{ "not a number", "--spin-us", "many", "spin-us" },
		{ "letters after a number", "--spin-us", "5us", "spin-us" },
		{ "an empty number", "--spin-us", "", "spin-us" },
		{ "unknown word; the message lists the known ones", "--attach", "maybe",
		  "auto zerocopy native generic" },
		{ "unknown level", "--log-level", "loud", "log-level" },
		{ "too long a name", "--interface", "a-very-long-interface-name", "interface" },
		{ "an interface with a slash", "--interface", "../etc", "--interface" },
		{ "a device name with a slash", "--name", "../dev", "--name" },
		{ "a device name of two lines", "--name", "a\nb", "--name" },
		{ "a path too long for a socket", "--runtime-dir",
		  "/run/a-folder-of-forty-characters-with-slash/"
		  "a-folder-of-forty-characters-with-slash/"
		  "and-some-more",
		  "--runtime-dir: /run/a-folder" },
		{ "an unknown group", "--group", "no-such-group-here", "no-such-group-here" },
		{ "an unknown group for the reserved L_Key", "--reserved-lkey-group",
		  "no-such-group-here", "--reserved-lkey-group" },
		{ "an unknown user", "--direct-users", "root,no-such-user-here",
		  "no-such-user-here" },
		{ "more slots than there can be", "--slots", "65", "--slots" },
		{ "a missing file", "--config", "/nonexistent/file", "/nonexistent/file" },
		{ "a directory instead of a file", "--config", "/tmp", "/tmp: Is a directory" },
		{ "unknown option", "--no-such", "1", "unknown option --no-such, see" },
		{ "unknown letter", "-x", "1", "unknown option -x, see" },
	};
	struct xd_options o;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TAP_OK(PARSE(&o, "--interface", "v0", rows[i].option, rows[i].value) == -EINVAL &&
			       strstr(said, rows[i].text),
		       "refused: %s", rows[i].what);
	}
	TAP_OK(PARSE(&o, "--name", "x") == -EINVAL && strstr(said, "--interface"),
	       "refused: no interface");
	TAP_OK(PARSE(&o, "--interface", "v0", "stray") == -EINVAL && strstr(said, "stray"),
	       "refused: an argument without an option");
	TAP_OK(PARSE(&o, "--interface", "v0", "--ring-size") == -EINVAL &&
		       strstr(said, "--ring-size needs a value"),
	       "refused: an option without its value");
}

static void test_file(void)
{
	struct xd_options o;

	write_file("# a comment\n\n  interface = v7 \nring-size=512\n\tmax-qp\t=\t77\ngroup =\n");
	TAP_OK(!PARSE(&o, "--config", file_name),
	       "a file may have comments, blanks and an empty value");
	TAP_OK(!strcmp(o.interface, "v7") && o.ring_size == 512 && o.max_qp == 77 && !o.group[0],
	       "values are read from the file");
	TAP_OK(!PARSE(&o, "--ring-size", "1024", "--config", file_name) && o.ring_size == 1024 &&
		       o.max_qp == 77,
	       "the command line overrides the file, in any order");
	write_file("interface = v7");
	TAP_OK(!PARSE(&o, "--config", file_name) && !strcmp(o.interface, "v7"),
	       "the last line needs no newline");
	write_file("interface = v7\n\nring-size = 100\n");
	TAP_OK(PARSE(&o, "--config", file_name) == -EINVAL && strstr(said, ":3:") &&
		       strstr(said, file_name) && strstr(said, "ring-size"),
	       "an error message has file, line and setting");
	write_file("interface = v7\nnonsense = 1\n");
	TAP_OK(PARSE(&o, "--config", file_name) == -EINVAL && strstr(said, ":2:") &&
		       strstr(said, "nonsense"),
	       "an unknown setting is refused");
	write_file("interface v7\n");
	TAP_OK(PARSE(&o, "--config", file_name) == -EINVAL && strstr(said, ":1:"),
	       "a line without = is refused");
	write_file("interface = v7\nconfig = other\n");
	TAP_OK(PARSE(&o, "--config", file_name) == -EINVAL && strstr(said, ":2:"),
	       "a file cannot refer to another one");
}

static void test_long_line(void)
{
	char text[5000] = "interface = v7\n# ";
	struct xd_options o;

	memset(text + strlen(text), 'x', 4000);
	strcat(text, " ring-size = 1\nmax-qp = bad\n");
	write_file(text);
	TAP_OK(PARSE(&o, "--config", file_name) == -EINVAL && strstr(said, ":3: max-qp"),
	       "a long comment counts as one line");
}

/* In a mount namespace with its own /etc */
static void test_file_of_interface(void)
{
	struct xd_options o;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/etc", "tmpfs", 0, NULL) || mkdir(XD_CONFIG_DIR, 0755)) {
		tap_skip("the interface's own file", "needs root to mount an /etc");
		return;
	}
	snprintf(file_name, sizeof(file_name), XD_CONFIG_DIR "/v7.conf");
	write_file("max-qp = 77\nring-size = 512\n");
	TAP_OK(!PARSE(&o, "--interface", "v7", "--ring-size", "64") && o.max_qp == 77 &&
		       o.ring_size == 64,
	       "the interface's own file is read by default; the command line overrides it");
	TAP_OK(!PARSE(&o, "--interface", "v8") && o.max_qp != 77,
	       "the file of another interface is not read");
	TAP_OK(!PARSE(&o, "--interface", "v7", "--config", "/dev/null") && o.max_qp != 77,
	       "the interface's own file is not read if --config is given");
	write_file("max-qp = bad\n");
	TAP_OK(PARSE(&o, "--interface", "v7") == -EINVAL && strstr(said, "/v7.conf:1: max-qp"),
	       "an error message names the interface's own file");
	unlink(file_name);
}

int main(void)
{
	snprintf(file_name, sizeof(file_name), "/tmp/xroce-options.%d", getpid());
	test_defaults();
	test_command_line();
	test_wrong();
	test_file();
	test_long_line();
	unlink(file_name);
	test_file_of_interface();
	return tap_end();
}
