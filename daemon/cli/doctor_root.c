// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of the libraries of this root file system */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

#define LIBIBVERBS "libibverbs.so.1"

/* ---- versions of symbols ---------------------------------------------------------- */

struct elf {
	const uint8_t *data;
	size_t size;
};

typedef void version_fn(void *arg, const char *name);

/* Returns a part of the file, or NULL if it is not within. */
static const void *part(const struct elf *e, uint64_t at, uint64_t size)
{
	return at <= e->size && size <= e->size - at ? e->data + at : NULL;
}

static const char *string_at(const struct elf *e, const Elf64_Shdr *strings, uint32_t at)
{
	const char *s = at < strings->sh_size ? part(e, strings->sh_offset, strings->sh_size)
					      : NULL;

	return s && memchr(s + at, 0, strings->sh_size - at) ? s + at : "";
}

/* Versions that a file needs of other libraries. Each offset is from its own record. */
static void each_needed(const struct elf *e, const Elf64_Shdr *needs, const Elf64_Shdr *strings,
			version_fn *fn, void *arg)
{
	uint64_t at = needs->sh_offset, aux_at;
	const Elf64_Vernaux *aux;
	const Elf64_Verneed *need;
	unsigned int i, k;

	for (i = 0; i < needs->sh_info; i++, at += need->vn_next) {
		need = part(e, at, sizeof(*need));
		if (!need)
			return;
		aux_at = at + need->vn_aux;
		for (k = 0; k < need->vn_cnt; k++, aux_at += aux->vna_next) {
			aux = part(e, aux_at, sizeof(*aux));
			if (!aux)
				return;
			fn(arg, string_at(e, strings, aux->vna_name));
			if (!aux->vna_next)
				break;
		}
		if (!need->vn_next)
			return;
	}
}

/* Versions that a file defines. The first name of each is its own. */
static void each_defined(const struct elf *e, const Elf64_Shdr *defs, const Elf64_Shdr *strings,
			 version_fn *fn, void *arg)
{
	uint64_t at = defs->sh_offset;
	const Elf64_Verdaux *aux;
	const Elf64_Verdef *def;
	unsigned int i;

	for (i = 0; i < defs->sh_info; i++, at += def->vd_next) {
		def = part(e, at, sizeof(*def));
		aux = def ? part(e, at + def->vd_aux, sizeof(*aux)) : NULL;
		if (!aux)
			return;
		fn(arg, string_at(e, strings, aux->vda_name));
		if (!def->vd_next)
			return;
	}
}

static bool read_elf(const struct elf *e, uint32_t type, version_fn *fn, void *arg)
{
	const Elf64_Ehdr *head = part(e, 0, sizeof(*head));
	const Elf64_Shdr *sections;
	unsigned int i;

	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(*sections))
		return false;
	sections = part(e, head->e_shoff, (uint64_t)head->e_shnum * sizeof(*sections));
	for (i = 0; sections && i < head->e_shnum; i++) {
		if (sections[i].sh_type != type || sections[i].sh_link >= head->e_shnum)
			continue;
		if (type == SHT_GNU_verneed)
			each_needed(e, &sections[i], &sections[sections[i].sh_link], fn, arg);
		else
			each_defined(e, &sections[i], &sections[sections[i].sh_link], fn, arg);
	}
	return sections;
}

/* Calls fn with all versions. Returns false if the file is no ELF file of 64 bits. */
static bool read_versions(const char *path, uint32_t type, version_fn *fn, void *arg)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf e = { 0 };
	struct stat st;
	bool ok = false;
	void *map;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			e = (struct elf){ map, (size_t)st.st_size };
			ok = read_elf(&e, type, fn, arg);
			munmap(map, e.size);
		}
	}
	close(fd);
	return ok;
}

/* Compares versions of numbers and points, as 2.4 and 2.34. */
static bool is_newer(const char *a, const char *b)
{
	return !*b || strverscmp(a, b) > 0;
}

#define VERSION_TEXT 16

/* Keeps the highest version with that prefix. */
static void keep_highest(char highest[VERSION_TEXT], const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	if (!strncmp(name, prefix, n) && name[n] >= '0' && name[n] <= '9' &&
	    is_newer(name + n, highest))
		snprintf(highest, VERSION_TEXT, "%s", name + n);
}

/* ---- libibverbs ------------------------------------------------------------------- */

struct ibverbs {
	char abi[VERSION_TEXT], private[VERSION_TEXT];
};

static void add_ibverbs(void *arg, const char *name)
{
	struct ibverbs *v = arg;

	keep_highest(v->abi, name, "IBVERBS_");
	keep_highest(v->private, name, "IBVERBS_PRIVATE_");
}

/* The file is called libibverbs.so.1.ABI.VERSION, of the release of rdma-core. */
static const char *release_of(const char *path, char real[PATH_MAX])
{
	const char *name = realpath(path, real) ? strrchr(real, '/') : NULL;
	const char *dot = name ? strstr(name, LIBIBVERBS ".") : NULL;

	dot = dot ? strchr(dot + strlen(LIBIBVERBS "."), '.') : NULL;
	return dot ? dot + 1 : NULL;
}

void doctor_libibverbs(struct doctor *d, struct doctor_finding *f)
{
	void *handle = dlopen(LIBIBVERBS, RTLD_LAZY | RTLD_LOCAL);
	struct ibverbs v = { "", "" };
	char real[PATH_MAX];
	struct link_map *map;
	const char *release;

	if (!handle) {
		doctor_found(f, DOCTOR_MISSING, "%s", dlerror());
		return;
	}
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) {
		doctor_found(f, DOCTOR_UNKNOWN, "%s", dlerror());
	} else if (!read_versions(map->l_name, SHT_GNU_verdef, add_ibverbs, &v) || !*v.abi) {
		doctor_found(f, DOCTOR_UNKNOWN, "%s has no versions of symbols", map->l_name);
	} else {
		release = release_of(map->l_name, real);
		doctor_found(f, DOCTOR_OK, "%s: IBVERBS_%s, of rdma-core %s%s", map->l_name, v.abi,
			     release ? release : v.private, release ? "" : " or newer");
	}
	dlclose(handle);
}

/* ---- glibc ------------------------------------------------------------------------ */

static void add_glibc(void *arg, const char *name)
{
	keep_highest(arg, name, "GLIBC_");
}

bool doctor_needed_glibc(const char *path, char version[16])
{
	*version = 0;
	return read_versions(path, SHT_GNU_verneed, add_glibc, version);
}

void doctor_glibc(struct doctor *d, struct doctor_finding *f)
{
	const char *have = gnu_get_libc_version();
	char library[PATH_MAX], needed[16];

	if (!cli_find_library(library) || !doctor_needed_glibc(library, needed))
		doctor_found(f, DOCTOR_UNKNOWN, "%s; what the provider needs is not known", have);
	else
		doctor_found(f, is_newer(needed, have) ? DOCTOR_MISSING : DOCTOR_OK,
			     "%s; the provider needs %s", have, *needed ? needed : "none");
}

/* ---- the provider ------------------------------------------------------------------ */

/*
 * Loads the library in a child, because it interposes functions. Stores the error of ld.so, or an
 * empty text.
 */
static void try_library(const char *path, char *error, size_t size)
{
	int ends[2], status;
	pid_t child;
	ssize_t n = 0;

	snprintf(error, size, "%s", "cannot be tried");
	if (pipe2(ends, O_CLOEXEC))
		return;
	child = fork();
	if (!child) {
		if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
			dprintf(ends[1], "%s", dlerror());
		_exit(0);
	}
	close(ends[1]);
	if (child > 0) {
		n = read(ends[0], error, size - 1);
		error[n > 0 ? n : 0] = 0;
		if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
			snprintf(error, size, "%s", strsignal(WTERMSIG(status)));
	}
	close(ends[0]);
}

void doctor_provider(struct doctor *d, struct doctor_finding *f)
{
	char path[PATH_MAX], error[192];

	if (!cli_find_library(path)) {
		doctor_found(f, DOCTOR_MISSING,
			     CLI_LIBRARY " is neither next to this command nor installed");
		return;
	}
	if (strpbrk(path, ": ")) {
		doctor_found(f, DOCTOR_MISSING, "%s", path);
		doctor_remedy(f, "LD_PRELOAD has no paths with colons or spaces: move it");
		return;
	}
	try_library(path, error, sizeof(error));
	if (*error)
		doctor_found(f, DOCTOR_MISSING, "cannot be preloaded: %s", error);
	else
		doctor_found(f, DOCTOR_OK, "%s can be preloaded", path);
}
