// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The filter is a list of rules in the order of a table. The kernel notes which calls are allowed
 * whatever their arguments are, and does not run the filter for them (since Linux 5.11); these are
 * all calls of the data path.
 */
#include "seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/timerfd.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif
/* The sanitizers make system calls of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef ARCH
#endif

/* ---- rules ----------------------------------------------------------------------- */

/* Roles as bits */
enum {
	MAIN = 1 << XD_ROLE_DAEMON,
	SPAWN = 1 << XD_ROLE_SPAWNER,
	HELP = 1 << XD_ROLE_HELPER,
	ALL = MAIN | SPAWN | HELP,
};

enum { ANY_ARG = -1 };

struct seccomp_rule {
	uint16_t nr;
	uint16_t roles;
	int8_t arg;	      /* ANY_ARG, or the number of an argument, of which ... */
	uint32_t mask, value; /* ... these bits must have this value */
};

#define FOR(roles, name)                                                                           \
	{                                                                                          \
		SYS_##name, roles, ANY_ARG, 0, 0                                                   \
	}
#define IF(roles, name, arg, mask, value)                                                          \
	{                                                                                          \
		SYS_##name, roles, arg, mask, value                                                \
	}
/* _IOC_TYPE() */
#define IOCTLS(roles, type)                                                                        \
	{                                                                                          \
		SYS_ioctl, roles, 1, 0xff00, (uint32_t)(type) << 8                                 \
	}

/* clang-format off */
static const struct seccomp_rule allowed[] = {
	/* memory; nothing becomes executable */
	FOR(ALL, brk), FOR(ALL, munmap), FOR(ALL, mremap), FOR(ALL, madvise),
	IF(ALL, mmap, 2, PROT_EXEC, 0), IF(ALL, mprotect, 2, PROT_EXEC, 0),
	FOR(MAIN, mincore), FOR(MAIN, ftruncate), FOR(MAIN, fallocate),
	FOR(MAIN | HELP, memfd_create), FOR(MAIN, userfaultfd),
	FOR(MAIN, mlock2), FOR(MAIN, munlock),
	/* descriptors and files */
	FOR(ALL, read), FOR(ALL, write), FOR(ALL, readv), FOR(ALL, writev),
	FOR(ALL, pread64), FOR(ALL, pwrite64), FOR(ALL, preadv), FOR(ALL, pwritev),
	FOR(ALL, lseek), FOR(ALL, close), FOR(ALL, close_range), FOR(ALL, fcntl),
	FOR(ALL, dup), FOR(ALL, dup3), FOR(ALL, fstat), FOR(MAIN | HELP, statx),
	FOR(ALL, fstatfs),
	FOR(ALL, openat), FOR(ALL, newfstatat), FOR(ALL, readlinkat),
	FOR(MAIN, statfs), FOR(MAIN, faccessat), FOR(ALL, getdents64),
	FOR(HELP, unlinkat),
#ifdef SYS_open
	FOR(ALL, open), FOR(ALL, stat), FOR(ALL, readlink), FOR(ALL, dup2), FOR(ALL, poll),
	FOR(ALL, pause), FOR(ALL, epoll_wait), FOR(MAIN, access), FOR(HELP, unlink),
	FOR(HELP, rmdir),
#endif
	IOCTLS(SPAWN, 'f'),	/* PROCMAP_QUERY */
	IOCTLS(MAIN, 0xaa),	/* userfaultfd */
	IOCTLS(MAIN | HELP, 0x89),	/* SIOCETHTOOL */
	IF(MAIN, ioctl, 1, ~0u, TFD_IOC_SET_TICKS),
	/* waiting */
	FOR(ALL, ppoll), FOR(ALL, epoll_create1), FOR(ALL, epoll_ctl), FOR(ALL, epoll_pwait),
	FOR(ALL, eventfd2), FOR(ALL, signalfd4),
	FOR(ALL, timerfd_create), FOR(ALL, timerfd_settime),
	FOR(ALL, futex), FOR(ALL, nanosleep), FOR(ALL, clock_nanosleep), FOR(ALL, restart_syscall),
	/* sockets; connecting is over. Ports are bound for programs that borrow sockets. */
	IF(MAIN, socket, 0, ~0u, AF_UNIX), IF(MAIN | HELP, socket, 0, ~0u, AF_INET),
	IF(MAIN, socket, 0, ~0u, AF_INET6),
	FOR(MAIN | HELP, socketpair), FOR(HELP, accept4), FOR(MAIN | HELP, shutdown),
	FOR(MAIN, getsockname), FOR(MAIN, bind),
	/* programs that use sockets by an io_uring of their own */
	FOR(HELP, pidfd_getfd),
	IF(HELP, io_uring_register, 1, ~0u, IORING_REGISTER_RESTRICTIONS),
	IF(HELP, io_uring_register, 1, ~0u, IORING_REGISTER_FILES),
	IF(HELP, io_uring_register, 1, ~0u, IORING_REGISTER_ENABLE_RINGS),
	FOR(ALL, getsockopt), FOR(ALL, setsockopt),
	FOR(ALL, sendto), FOR(ALL, recvfrom), FOR(ALL, sendmsg), FOR(ALL, recvmsg),
	FOR(ALL, sendmmsg), FOR(ALL, recvmmsg),
	/* maps of the XDP program, and whether it is attached */
	IF(MAIN, bpf, 0, ~0u, BPF_MAP_LOOKUP_ELEM), IF(MAIN, bpf, 0, ~0u, BPF_MAP_UPDATE_ELEM),
	IF(MAIN, bpf, 0, ~0u, BPF_MAP_DELETE_ELEM), IF(MAIN, bpf, 0, ~0u, BPF_MAP_GET_NEXT_KEY),
	IF(MAIN, bpf, 0, ~0u, BPF_OBJ_GET_INFO_BY_FD),
	/* threads and processes */
	IF(ALL, clone, 0, CLONE_THREAD, CLONE_THREAD), FOR(SPAWN, clone),
	FOR(ALL, set_robust_list), FOR(ALL, rseq), FOR(ALL, set_tid_address), FOR(ALL, membarrier),
	FOR(ALL, exit), FOR(ALL, exit_group), FOR(ALL, wait4), FOR(ALL, waitid),
	FOR(ALL, pidfd_open), FOR(ALL, pidfd_send_signal), FOR(SPAWN, kill), FOR(ALL, tgkill),
	FOR(ALL, prctl), FOR(ALL, capget), FOR(ALL, capset),
	FOR(ALL, rt_sigaction), FOR(ALL, rt_sigprocmask), FOR(ALL, rt_sigreturn),
	FOR(ALL, sigaltstack),
	FOR(ALL, sched_yield), FOR(ALL, sched_getaffinity), FOR(ALL, sched_setattr),
	FOR(ALL, sched_getattr), FOR(ALL, sched_setscheduler), FOR(ALL, sched_getparam),
	FOR(ALL, sched_getscheduler), FOR(ALL, getpriority),
	/* queries */
	FOR(ALL, getpid), FOR(ALL, getppid), FOR(ALL, gettid), FOR(ALL, getuid), FOR(ALL, geteuid),
	FOR(ALL, getgid), FOR(ALL, getegid), FOR(ALL, getcpu), FOR(ALL, getrusage),
	FOR(ALL, prlimit64), FOR(ALL, uname), FOR(ALL, sysinfo), FOR(ALL, getrandom),
	FOR(ALL, clock_gettime), FOR(ALL, clock_getres), FOR(ALL, gettimeofday),
};

/* No part of the daemon or of its libraries makes these calls. */
static const uint16_t fatal[] = {
	SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
	SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
	SYS_setgroups, SYS_setns, SYS_unshare, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
	SYS_open_by_handle_at, SYS_perf_event_open, SYS_io_uring_setup, SYS_add_key, SYS_keyctl,
	SYS_request_key, SYS_personality,
};
/* clang-format on */

/* ---- the filter ------------------------------------------------------------------ */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* Calls behind this one are unknown here: C libraries must take them for missing. */
#define NEWEST_KNOWN SYS_futex_waitv
#define X32 0x40000000u

struct program {
	struct sock_filter code[COUNT(allowed) * 6 + COUNT(fatal) * 2 + 16];
	unsigned short n;
};

#define FIELD(name) (uint32_t) offsetof(struct seccomp_data, name)

static void seccomp_add(struct program *p, struct sock_filter insn)
{
	p->code[p->n++] = insn;
}

static void seccomp_load(struct program *p, uint32_t offset)
{
	seccomp_add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void seccomp_give(struct program *p, uint32_t action)
{
	seccomp_add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Skips the next n instructions unless the accumulator has the value. */
static void if_equal(struct program *p, uint32_t value, uint8_t n)
{
	seccomp_add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n));
}

static void if_above(struct program *p, uint32_t value, uint32_t action)
{
	seccomp_add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, 0, 1));
	seccomp_give(p, action);
}

/* Arguments that are compared have 32 bits: the upper half is not passed on by the kernel. */
static void seccomp_add_rule(struct program *p, const struct seccomp_rule *r)
{
	const uint32_t low = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4;

	if (r->arg == ANY_ARG) {
		if_equal(p, r->nr, 1);
		seccomp_give(p, SECCOMP_RET_ALLOW);
		return;
	}
	if_equal(p, r->nr, 5);
	seccomp_load(p, FIELD(args) + (uint32_t)r->arg * 8 + low);
	seccomp_add(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
	if_equal(p, r->value, 1);
	seccomp_give(p, SECCOMP_RET_ALLOW);
	seccomp_load(p, FIELD(nr));
}

static void seccomp_build(struct program *p, enum xd_role role, uint32_t arch)
{
	size_t i;

	p->n = 0;
	seccomp_load(p, FIELD(arch));
	seccomp_add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0));
	seccomp_give(p, SECCOMP_RET_KILL_PROCESS);
	seccomp_load(p, FIELD(nr));
	if_above(p, X32 - 1, SECCOMP_RET_KILL_PROCESS);
	for (i = 0; i < COUNT(allowed); i++)
		if (allowed[i].roles & 1u << role)
			seccomp_add_rule(p, &allowed[i]);
	for (i = 0; i < COUNT(fatal); i++) {
		if_equal(p, fatal[i], 1);
		seccomp_give(p, SECCOMP_RET_KILL_PROCESS);
	}
	/* The C library uses clone() then, whose flags can be checked. */
	if_equal(p, SYS_clone3, 1);
	seccomp_give(p, SECCOMP_RET_ERRNO | ENOSYS);
	if_above(p, NEWEST_KNOWN, SECCOMP_RET_ERRNO | ENOSYS);
	seccomp_give(p, SECCOMP_RET_ERRNO | EPERM);
}

int xd_seccomp_enter(enum xd_role role)
{
#ifdef ARCH
	static struct program p;
	struct sock_fprog prog = { .filter = p.code };
	unsigned long flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG;

	seccomp_build(&p, role, ARCH);
	prog.len = p.n;
	if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog))
		return 0;
	return errno == ENOSYS || errno == EINVAL ? -EOPNOTSUPP : -errno;
#else
	return -EOPNOTSUPP;
#endif
}
