// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of the kernel: its version and options, and calls that have no effect */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "doctor.h"

#define OLDEST_MAJOR 6
#define OLDEST_MINOR 1
#define MULTI_BUFFER_MINOR 6 /* Linux 6.6 has multi-buffer AF_XDP */

#ifndef AF_XDP
#define AF_XDP 44
#endif

/* ---- options -------------------------------------------------------------------- */

/* zlib reads files that are not compressed as they are. */
static gzFile open_config(const struct doctor *d)
{
	static const char *const places[] = { "/proc/config.gz", "/boot/config-%s",
					      "/lib/modules/%s/config" };
	char path[PATH_MAX], below[PATH_MAX];
	struct utsname u;
	gzFile f = NULL;

	uname(&u);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !f; i++) {
		snprintf(below, sizeof(below), places[i], u.release);
		if (snprintf(path, sizeof(path), "%s%s", d->root, below) < (int)sizeof(path))
			f = gzopen(path, "re");
	}
#pragma GCC diagnostic pop
	return f;
}

char doctor_config(const struct doctor *d, const char *option)
{
	gzFile f = open_config(d);
	char line[512], wanted[64];
	size_t n = (size_t)snprintf(wanted, sizeof(wanted), "CONFIG_%s=", option);
	char value = f ? 'n' : '?';
	int err;

	while (f && gzgets(f, line, sizeof(line))) {
		if (!strncmp(line, wanted, n)) {
			value = line[n];
			break;
		}
	}
	if (f) {
		gzerror(f, &err);
		if (value == 'n' && err < 0)
			value = '?'; /* the file is damaged */
		gzclose(f);
	}
	return value;
}

/*
 * Stores the result of a call that uses a feature: usable, or its error and what the kernel's
 * configuration says about the option.
 */
static void tried(const struct doctor *d, struct doctor_finding *f, int err, const char *option)
{
	char value = doctor_config(d, option);
	char text[96] = "";

	if (value == 'n')
		snprintf(text, sizeof(text), "; CONFIG_%s is not set", option);
	else if (value != '?')
		snprintf(text, sizeof(text), "; CONFIG_%s=%c", option, value);
	if (err)
		doctor_found(f, DOCTOR_MISSING, "%s%s", strerror(err), text);
	else
		doctor_found(f, DOCTOR_OK, "usable%s", value == 'n' ? "" : text);
}

/* ---- version -------------------------------------------------------------------- */

void doctor_kernel(struct doctor *d, struct doctor_finding *f)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (strcmp(u.machine, "x86_64"))
		doctor_found(f, DOCTOR_MISSING, "%s on %s", u.release, u.machine);
	else if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))
		doctor_found(f, DOCTOR_LIMITED, "%s is older than 6.1, the oldest that is tested",
			     u.release);
	else if (major == OLDEST_MAJOR && minor < MULTI_BUFFER_MINOR)
		doctor_found(f, DOCTOR_OK, "%s; with XDP, the path MTU is 2048 before 6.6",
			     u.release);
	else
		doctor_found(f, DOCTOR_OK, "%s", u.release);
}

/* ---- BPF ------------------------------------------------------------------------ */

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	int fd = (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

/* Loads an XDP program that passes each packet, and attaches it to nothing. */
static int try_program(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insn_cnt = sizeof(pass) / sizeof(pass[0]),
		.insns = (uintptr_t)pass,
		.license = (uintptr_t) "GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

/* The map is of a kind that unprivileged users may not create in any case. */
static int doctor_kernel_try_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	return bpf(BPF_MAP_CREATE, &attr);
}

void doctor_bpf(struct doctor *d, struct doctor_finding *f)
{
	int map = doctor_kernel_try_map(), program = map < 0 ? map : try_program();

	if (map >= 0)
		close(map);
	if (program >= 0)
		close(program);
	if (program < 0)
		d->facts.lacks = "this user may not load BPF programs for XDP";
	tried(d, f, program < 0 ? -program : 0, "BPF_SYSCALL");
	if (program == -EPERM)
		doctor_found(f, DOCTOR_MISSING,
			     "this user may load no XDP program: CAP_BPF and CAP_NET_ADMIN are "
			     "needed, outside any user namespace");
}

void doctor_af_xdp(struct doctor *d, struct doctor_finding *f)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), err = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	if (fd < 0 && !d->facts.lacks)
		d->facts.lacks = "this user has no AF_XDP sockets";
	tried(d, f, err, "XDP_SOCKETS");
	if (err == EPERM)
		doctor_remedy(f, "CAP_NET_RAW; without, xroced uses sockets");
}

/* ---- memory --------------------------------------------------------------------- */

void doctor_userfaultfd(struct doctor *d, struct doctor_finding *f)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), err = fd < 0 ? errno : 0;
	int dev;

	if (fd < 0) {
		dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		fd = dev < 0 ? -1 : ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
		err = fd < 0 ? err : 0;
		if (dev >= 0)
			close(dev);
	}
	if (fd >= 0)
		close(fd);
	tried(d, f, err, "USERFAULTFD");
	if (err == EPERM)
		f->state = DOCTOR_LIMITED;
}

void doctor_memfd(struct doctor *d, struct doctor_finding *f)
{
	int fd = memfd_create("xroce-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	tried(d, f, fd < 0 ? errno : 0, "MEMFD_CREATE");
	if (fd >= 0)
		close(fd);
}

/* ---- confinement ---------------------------------------------------------------- */

void doctor_landlock(struct doctor *d, struct doctor_finding *f)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
			       LANDLOCK_CREATE_RULESET_VERSION);

	if (version < 0)
		tried(d, f, errno, "SECURITY_LANDLOCK");
	else
		doctor_found(f, DOCTOR_OK, "version %ld", version);
	if (version < 0 && errno == EOPNOTSUPP)
		doctor_remedy(f, "add landlock to lsm= of the kernel's command line");
}

void doctor_seccomp(struct doctor *d, struct doctor_finding *f)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;
	long ret = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);

	tried(d, f, ret ? errno : 0, "SECCOMP_FILTER");
}

/* ---- namespaces ----------------------------------------------------------------- */

/* In a child of its own, because nobody can leave a user namespace. */
static int try_user_namespace(void)
{
	pid_t child = fork();
	int status = 0;

	if (child < 0)
		return errno;
	/* AppArmor of Ubuntu takes the capabilities, so that the network namespace fails. */
	if (!child)
		_exit(unshare(CLONE_NEWUSER) || unshare(CLONE_NEWNET) ? errno : 0);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return EIO;
	return WEXITSTATUS(status);
}

void doctor_user_namespaces(struct doctor *d, struct doctor_finding *f)
{
	int err = try_user_namespace();
	long long n;

	tried(d, f, err, "USER_NS");
	if (err && doctor_number(d, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &n) &&
	    n)
		doctor_remedy(f, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
	else if (err && doctor_number(d, "/proc/sys/kernel/unprivileged_userns_clone", &n) && !n)
		doctor_remedy(f, "sysctl -w kernel.unprivileged_userns_clone=1");
}
