// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `xroce doctor`, with a root file system that the test makes */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/cli/doctor.h"

#include "../lib/tap.h"

/* daemon/cli/options.c, client.c and print.c are not in this program. */
char **cli_devices(const struct cli *cli)
{
	return NULL;
}

int cli_client_open(struct cli_client *c, const struct cli *cli, const char *device)
{
	*c = (struct cli_client){ .conn.fd = -1 };
	return -1;
}

void cli_client_close(struct cli_client *c)
{
}

static const char *library; /* of cli_find_library() */
bool cli_find_library(char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s", library ? library : "");
	return library;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
	return CLI_USAGE;
}

int cli_error(const char *fmt, ...)
{
	return CLI_FAILED;
}

int cli_options(struct cli *cli, int argc, char **argv)
{
	return argc;
}

void cli_print_field(const char *value)
{
}

void cli_print_value(const char *name, const json_t *v)
{
}

void cli_print_reply(const struct cli *cli, const json_t *root)
{
}

void cli_end_json(const struct cli *cli)
{
}

/* ---- the root --------------------------------------------------------------------- */

static char top[] = "/tmp/xroce-test-XXXXXX";

static const char *in(const char *path)
{
	static char full[512];

	snprintf(full, sizeof(full), "%s%s", top, path);
	return full;
}

/* Makes the folders above a path of the root. */
static void make_folders(const char *path)
{
	char part[256];
	const char *slash = path;

	while ((slash = strchr(slash + 1, '/'))) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		mkdir(in(part), 0755);
	}
}

static void put(const char *path, const char *text)
{
	FILE *f;

	make_folders(path);
	f = fopen(in(path), "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

static void remove_root(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", top);
	if (system(command))
		abort();
}

static bool found(doctor_check *check, struct doctor *d, enum doctor_state state, const char *text)
{
	struct doctor_finding f = { DOCTOR_UNKNOWN, "", "" };

	check(d, &f);
	if (f.state == state && strstr(f.found, text))
		return true;
	printf("# state %d: %s; remedy: %s\n", f.state, f.found, f.remedy);
	return false;
}

/* ---- tests ------------------------------------------------------------------------ */

static void kernel_options(struct doctor *d)
{
	struct utsname u;
	char path[256];
	gzFile gz;

	uname(&u);
	TAP_OK(doctor_config(d, "BPF_SYSCALL") == '?', "without any file, an option is unknown");
	snprintf(path, sizeof(path), "/lib/modules/%s/config", u.release);
	put(path, "CONFIG_A=m\n");
	TAP_OK(doctor_config(d, "A") == 'm', "options are read in /lib/modules");
	snprintf(path, sizeof(path), "/boot/config-%s", u.release);
	put(path, "# CONFIG_A is not set\nCONFIG_AB=y\nCONFIG_TEXT=\"CONFIG_C=y\"\n");
	TAP_OK(doctor_config(d, "A") == 'n', "before that, in /boot: an option that is not set");
	TAP_OK(doctor_config(d, "AB") == 'y' && doctor_config(d, "C") == 'n',
	       "an option is a whole line");
	make_folders("/proc/config.gz");
	gz = gzopen(in("/proc/config.gz"), "w");
	gzputs(gz, "CONFIG_A=y\n# CONFIG_MEMFD_CREATE is not set\n");
	gzclose(gz);
	TAP_OK(doctor_config(d, "A") == 'y', "before all others, in /proc/config.gz");
	TAP_OK(found(doctor_memfd, d, DOCTOR_OK, "usable"),
	       "what works is usable, whatever the file says");
	put("/proc/config.gz", "\x1f\x8b damaged");
	TAP_OK(doctor_config(d, "A") == '?', "from a damaged file, nothing is known");
}

#define UDP_HEAD                                                                                   \
	"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
#define UDP(port, uid, inode)                                                                      \
	"  117: 00000000:" port " 00000000:0000 07 00000000:00000000 00:00000000 00000000 " uid    \
	"        0 " inode " 2 0000000000000000 0\n"
#define UDP6(port, uid, inode)                                                                     \
	"  117: 00000000000000000000000000000000:" port                                            \
	" 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 " uid    \
	"        0 " inode " 2 0000000000000000 0\n"

static void add_process(const char *pid, const char *name, const char *fd, const char *target)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	put(path, name);
	snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, fd);
	make_folders(path);
	if (symlink(target, in(path)))
		abort();
}

static void port(struct doctor *d)
{
	struct doctor_finding f;
	char text[128];

	TAP_OK(!doctor_port_owner(d, 4791, text, sizeof(text)),
	       "without /proc/net, nobody is found");
	put("/proc/net/udp", UDP_HEAD UDP("12B8", "0", "900") UDP("0035", "0", "901"));
	put("/proc/net/udp6", UDP_HEAD);
	TAP_OK(!doctor_port_owner(d, 4791, text, sizeof(text)), "other ports do not count");
	put("/proc/net/udp6", UDP_HEAD UDP6("12B7", "1000", "77001"));
	TAP_OK(doctor_port_owner(d, 4791, text, sizeof(text)) == 1 &&
		       !strcmp(text, "a process of user 1000 that you cannot see"),
	       "of a process that cannot be seen, the user is named");
	put("/proc/net/udp", UDP_HEAD UDP("12B7", "0", "77000"));
	put("/proc/net/udp6", UDP_HEAD);
	put("/sys/module/rdma_rxe/refcnt", "1\n");
	TAP_OK(doctor_port_owner(d, 4791, text, sizeof(text)) == 1 &&
		       !strcmp(text, "the kernel's rdma_rxe"),
	       "a socket of root without a process is that of rdma_rxe, if it is loaded");
	add_process("812", "other\n", "3", "socket:[7700]");
	add_process("813", "holder\n", "14", "socket:[77000]");
	add_process("814", "file\n", "0", "/tmp/socket:[77000]");
	TAP_OK(doctor_port_owner(d, 4791, text, sizeof(text)) == 1 &&
		       !strcmp(text, "holder (pid 813)"),
	       "the process with the socket is named");
	put("/proc/net/udp6", UDP_HEAD UDP6("12B7", "0", "77001"));
	add_process("900", "second\n", "5", "socket:[77001]");
	doctor_port_owner(d, 4791, text, sizeof(text));
	TAP_OK(strstr(text, "holder (pid 813)") && strstr(text, "second (pid 900)"),
	       "all processes with such a socket are named");
	doctor_port_owner(d, 4791, text, 20);
	TAP_OK(strlen(text) == 19, "a long list is cut");
	doctor_found(&f, DOCTOR_OK, "in use by %s", "\x9b\xff\n");
	TAP_OK(!strcmp(f.found, "in use by ???"), "names of processes are cleaned");
}

static void limits(struct doctor *d)
{
	if (!geteuid()) {
		TAP_OK(found(doctor_buffers, d, DOCTOR_OK, "of any size"),
		       "root needs no sysctl for large buffers");
		if (seteuid(65534))
			abort();
	}
	TAP_OK(found(doctor_buffers, d, DOCTOR_UNKNOWN, "not shown"),
	       "buffers of a network namespace without the sysctl are unknown");
	if (!getuid() && seteuid(0))
		abort();
	put("/proc/sys/net/core/rmem_max", "212992\n");
	chmod(top, 0755);
	if (!getuid() && seteuid(65534))
		abort();
	TAP_OK(found(doctor_buffers, d, DOCTOR_LIMITED, "rmem_max is 212992"),
	       "small receive buffers are limited");
	if (!getuid() && seteuid(0))
		abort();
	put("/proc/sys/net/core/rmem_max", "8388608\n");
	if (!getuid() && seteuid(65534))
		abort();
	TAP_OK(found(doctor_buffers, d, DOCTOR_OK, "rmem_max is 8388608"), "large ones are ok");
	if (!getuid() && seteuid(0))
		abort();
}

static void capabilities(struct doctor *d)
{
	put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
	TAP_OK(found(doctor_capabilities, d, DOCTOR_OK, "CAP_NET_RAW"),
	       "root has all capabilities");
	put("/proc/self/status", "Name:\tCapEff: ff\nCapEff:\t0000000000003000\n");
	TAP_OK(found(doctor_capabilities, d, DOCTOR_MISSING, "has no CAP_BPF"),
	       "a missing capability is named, and only that");
}

/* A copy of this program, cut or changed anywhere, is read without a fault. */
static void damaged_files(void)
{
	FILE *self = fopen("/proc/self/exe", "re");
	char *data = malloc(1 << 20), version[16];
	size_t size = self ? fread(data, 1, 1 << 20, self) : 0, n;
	unsigned int i;
	FILE *f;

	srand(1);
	for (i = 0; i < 300 && size; i++) {
		n = i % 3 ? size : (size_t)rand() % size;
		f = fopen(in("/elf"), "we");
		/* the header, or the end with the table of sections */
		data[rand() % 64 % size] ^= i % 3 == 1 ? 1 << rand() % 8 : 0;
		data[size - 1 - (size_t)rand() % 2000 % size] ^= i % 3 == 2 ? 1 << rand() % 8 : 0;
		if (!f || fwrite(data, 1, n, f) != n || fclose(f))
			abort();
		doctor_needed_glibc(in("/elf"), version);
	}
	if (self)
		fclose(self);
	free(data);
	TAP_OK(i == 300, "damaged files are read without a fault");
}

/* A copy of this program that needs glibc 9.x */
static void make_too_new(void)
{
	FILE *self = fopen("/proc/self/exe", "re"), *f = fopen(in("/new"), "we");
	char *data = malloc(8 << 20), *p;
	size_t size = self ? fread(data, 1, 8 << 20, self) : 0;

	for (p = data; (p = memmem(p, (size_t)(data + size - p), "GLIBC_2.", 8)); p += 8)
		p[6] = '9';
	if (!f || fwrite(data, 1, size, f) != size || fclose(f))
		abort();
	if (self)
		fclose(self);
	free(data);
}

static void libraries(struct doctor *d)
{
	char version[16];

	TAP_OK(doctor_needed_glibc("/proc/self/exe", version) && version[0] == '2' &&
		       version[1] == '.',
	       "the version of glibc that a program needs is read");
	put("/elf", "no ELF file");
	TAP_OK(!doctor_needed_glibc(in("/elf"), version) && !*version, "another file has none");
	TAP_OK(!doctor_needed_glibc("/nonexistent", version), "a file that does not exist neither");
	damaged_files();
	make_too_new();
	library = in("/new");
	TAP_OK(found(doctor_glibc, d, DOCTOR_MISSING, "the provider needs 9."),
	       "a provider that needs a newer glibc cannot be used");
	library = "/proc/self/exe";
	TAP_OK(found(doctor_glibc, d, DOCTOR_OK, "the provider needs 2."), "another can");
	library = NULL;
	TAP_OK(found(doctor_provider, d, DOCTOR_MISSING, "neither next to this command"),
	       "a provider that is not there is missing");
	library = "/tmp/a folder/libxroce.so";
	TAP_OK(found(doctor_provider, d, DOCTOR_MISSING, library),
	       "one in a folder with a space cannot be preloaded");
	put("/elf", "no ELF file");
	library = in("/elf");
	TAP_OK(found(doctor_provider, d, DOCTOR_MISSING, "file too short"),
	       "the error of ld.so is shown");
	library = "libc.so.6";
	TAP_OK(found(doctor_provider, d, DOCTOR_OK, "can be preloaded"),
	       "a library can be preloaded");
}

static void directories(struct cli *cli, struct doctor *d)
{
	char dir[128];

	cli->runtime_dir_given = true;
	snprintf(dir, sizeof(dir), "%s/run/xroce", top);
	cli->runtime_dir = dir;
	TAP_OK(found(doctor_directory, d, DOCTOR_MISSING, "cannot be created"),
	       "a directory without a parent cannot be created");
	mkdir(in("/run"), 0755);
	TAP_OK(found(doctor_directory, d, DOCTOR_OK, "can be created"), "one with a parent can");
	mkdir(dir, 0755);
	TAP_OK(found(doctor_directory, d, DOCTOR_OK, "can be used"), "one that exists can be used");
	rmdir(dir);
	put("/run/xroce", "");
	TAP_OK(found(doctor_directory, d, DOCTOR_MISSING, "xroce: "), "a file cannot");
	TAP_OK(found(doctor_daemons, d, DOCTOR_OK, "none runs"), "no daemon runs there");
}

int main(void)
{
	struct cli cli = { .runtime_dir = "/nonexistent" };
	struct doctor d = { .cli = &cli, .root = top };

	if (!mkdtemp(top))
		return 1;
	kernel_options(&d);
	port(&d);
	limits(&d);
	capabilities(&d);
	libraries(&d);
	directories(&cli, &d);
	remove_root();
	return tap_end();
}
