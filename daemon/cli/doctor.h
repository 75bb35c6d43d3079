/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * doctor: what this machine permits and lacks.
 *
 *   doctor.c            the table of checks, output, which way a daemon would take
 *   doctor_finding.c    results of checks, files
 *   doctor_kernel.c     kernel: version, options, BPF, userfaultfd, Landlock, ...
 *   doctor_net.c        sockets, UDP port 4791
 *   doctor_interface.c  one network interface: addresses, XDP
 *   doctor_user.c       the user: capabilities, limits, runtime directories, daemons
 *   doctor_root.c       libraries of this root file system
 *
 * Checks change nothing: what cannot be tried without an effect on others is not tried.
 */
#ifndef XROCE_DOCTOR_H
#define XROCE_DOCTOR_H

#include "cli.h"
#include "daemon/way/way.h"

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_LIMITED, /* works with less */
	DOCTOR_MISSING,
	DOCTOR_UNKNOWN,
};

/* The result of a check */
struct doctor_finding {
	enum doctor_state state;
	char found[256];
	char remedy[256]; /* empty: none */
};

struct doctor {
	const struct cli *cli;
	const char *root;	   /* in front of all paths; "": none */
	const char *interface;	   /* NULL: none is checked */
	struct xd_way_facts facts; /* what decides the way of a daemon that is started here */
};

typedef void doctor_check(struct doctor *d, struct doctor_finding *f);

/* ---- doctor_finding.c ---- */

/* Store the state and what was found; the remedy. */
__attribute__((format(printf, 3, 4))) void
doctor_found(struct doctor_finding *f, enum doctor_state state, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void doctor_remedy(struct doctor_finding *f, const char *fmt,
							 ...);
/* As fopen() for reading, below d->root */
FILE *doctor_open(const struct doctor *d, const char *path);
/* Reads a number of such a file, for example a sysctl. Returns false if it has none. */
bool doctor_number(const struct doctor *d, const char *path, long long *n);

/* ---- doctor_kernel.c ---- */

doctor_check doctor_kernel, doctor_bpf, doctor_af_xdp, doctor_userfaultfd, doctor_memfd;
doctor_check doctor_landlock, doctor_seccomp, doctor_user_namespaces;

/*
 * Returns the value of an option (without CONFIG_): 'y', 'm', 'n' if it is not set, or '?' if no
 * configuration was found. Options are looked up in /proc/config.gz, /boot/config-RELEASE and
 * /lib/modules/RELEASE/config.
 */
char doctor_config(const struct doctor *d, const char *option);

/* ---- doctor_net.c ---- */

doctor_check doctor_udp, doctor_port, doctor_buffers;

/*
 * Stores as text who has a UDP socket with this port, of the processes whose descriptors can be
 * read. Returns the number of such sockets.
 */
unsigned int doctor_port_owner(const struct doctor *d, unsigned int port, char *text, size_t size);

/* ---- doctor_interface.c ---- */

doctor_check doctor_interface, doctor_xdp;

/* ---- doctor_user.c ---- */

doctor_check doctor_capabilities, doctor_memlock, doctor_files, doctor_directory, doctor_daemons;

/* ---- doctor_root.c ---- */

doctor_check doctor_libibverbs, doctor_glibc, doctor_provider;

/*
 * Stores the highest version of glibc that an ELF file needs, as "2.34"; "" if it needs none.
 * Returns false if it is no such file.
 */
bool doctor_needed_glibc(const char *path, char version[16]);

#endif /* XROCE_DOCTOR_H */
