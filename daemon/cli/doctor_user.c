// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of the user: capabilities, limits, runtime directories, daemons that run */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "provider/control/runtime_dir.h"

#define WANTED_FILES 4096

#ifndef CAP_BPF
#define CAP_BPF 39
#endif

/* ---- capabilities ---------------------------------------------------------------- */

static unsigned long long effective(const struct doctor *d)
{
	FILE *f = doctor_open(d, "/proc/self/status");
	unsigned long long set = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "CapEff: %llx", &set) != 1)
		;
	if (f)
		fclose(f);
	return set;
}

void doctor_capabilities(struct doctor *d, struct doctor_finding *f)
{
	static const struct {
		unsigned int number;
		const char *name;
	} needed[] = {
		{ CAP_BPF, "CAP_BPF" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN" },
		{ CAP_NET_RAW, "CAP_NET_RAW" },
	};
	unsigned long long have = effective(d);
	char lacks[96] = "";

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!(have >> needed[i].number & 1))
			strcat(strcat(lacks, *lacks ? ", " : ""), needed[i].name);
	if (*lacks)
		doctor_found(f, DOCTOR_MISSING, "user %u has no %s", geteuid(), lacks);
	else
		doctor_found(f, DOCTOR_OK, "user %u has CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW",
			     geteuid());
}

/* ---- limits ---------------------------------------------------------------------- */

static void print_limit(char text[24], rlim_t n, unsigned int divisor)
{
	if (n == RLIM_INFINITY)
		strcpy(text, "unlimited");
	else
		snprintf(text, 24, "%llu", (unsigned long long)n / divisor);
}

void doctor_memlock(struct doctor *d, struct doctor_finding *f)
{
	bool any = effective(d) >> CAP_IPC_LOCK & 1;
	char soft[24], hard[24];
	struct rlimit rl;

	if (getrlimit(RLIMIT_MEMLOCK, &rl)) {
		doctor_found(f, DOCTOR_UNKNOWN, "%m");
		return;
	}
	print_limit(soft, rl.rlim_cur, 1024);
	print_limit(hard, rl.rlim_max, 1024);
	doctor_found(f, any || rl.rlim_max == RLIM_INFINITY ? DOCTOR_OK : DOCTOR_LIMITED,
		     "KiB of locked memory: %s, at most %s%s", soft, hard,
		     any ? ", without limit for this user" : "");
}

void doctor_files(struct doctor *d, struct doctor_finding *f)
{
	char soft[24], hard[24];
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl)) {
		doctor_found(f, DOCTOR_UNKNOWN, "%m");
		return;
	}
	print_limit(soft, rl.rlim_cur, 1);
	print_limit(hard, rl.rlim_max, 1);
	doctor_found(f, rl.rlim_max >= WANTED_FILES ? DOCTOR_OK : DOCTOR_LIMITED,
		     "descriptors: %s, at most %s, which xroced uses", soft, hard);
}

/* ---- runtime directories ---------------------------------------------------------- */

/* Where a daemon of this user has its sockets: the first of the places that can be used. */
static bool can_use(const char *dir, bool is_private, char *why, size_t size)
{
	char parent[PATH_MAX], *slash;
	struct stat st;

	if (stat(dir, &st)) {
		snprintf(parent, sizeof(parent), "%s", dir);
		slash = strrchr(parent, '/');
		if (slash)
			slash[slash == parent] = 0;
		snprintf(why, size, "cannot be created");
		return errno == ENOENT && slash && !access(parent, W_OK | X_OK);
	}
	if (is_private && xp_private_dir(dir, why, size))
		return false;
	snprintf(why, size, "this user may not write there");
	return S_ISDIR(st.st_mode) && !access(dir, W_OK | X_OK);
}

void doctor_directory(struct doctor *d, struct doctor_finding *f)
{
	char dir[XP_SOCKET_PATH_MAX], why[128] = "", *what = NULL;
	bool usable = false;
	unsigned int place;

	if (d->cli->runtime_dir_given) {
		snprintf(dir, sizeof(dir), "%s", d->cli->runtime_dir);
		usable = can_use(dir, false, why, sizeof(why));
	}
	for (place = 0; !d->cli->runtime_dir_given && place < XP_DIR_PLACES && !usable; place++) {
		if (xp_runtime_place(place, dir))
			usable = can_use(dir, place != XP_DIR_SYSTEM, why, sizeof(why));
	}
	what = access(dir, F_OK) ? (char *)"can be created" : (char *)"can be used";
	if (usable)
		doctor_found(f, DOCTOR_OK, "%s %s", dir, what);
	else
		doctor_found(f, DOCTOR_MISSING, "%s: %s", dir, why);
}

/* ---- daemons --------------------------------------------------------------------- */

struct seen {
	char text[256];
	char refused[256]; /* who may connect to what this user may not */
	unsigned int running;
};

static void look_at(const struct doctor *d, const char *dir, const char *name, struct seen *s)
{
	struct cli in_dir = *d->cli;
	struct cli_client c;
	size_t n = strlen(s->text);
	char who[128];
	int err;

	in_dir.runtime_dir = dir;
	err = cli_client_open(&c, &in_dir, name);
	cli_client_close(&c);
	if (err == -EACCES) {
		xp_socket_access(c.path, who, sizeof(who));
		snprintf(s->refused, sizeof(s->refused), "%s: %s", c.path, who);
	}
	s->running += !err;
	snprintf(s->text + n, sizeof(s->text) - n, "%s%s in %s (%s)", n ? ", " : "", name, dir,
		 err ? strerror(-err) : c.hello.netdev);
}

static void look_into(const struct doctor *d, const char *dir, struct seen *s)
{
	char **names = xp_sockets_list(dir), **p;

	for (p = names; p && *p; p++)
		look_at(d, dir, *p, s);
	xp_sockets_free(names);
}

void doctor_daemons(struct doctor *d, struct doctor_finding *f)
{
	char dir[XP_SOCKET_PATH_MAX], why[128];
	struct seen s = { "", "", 0 };
	unsigned int place;

	if (d->cli->runtime_dir_given)
		look_into(d, d->cli->runtime_dir, &s);
	for (place = 0; !d->cli->runtime_dir_given && place < XP_DIR_PLACES; place++) {
		if (xp_runtime_place(place, dir) &&
		    (place == XP_DIR_SYSTEM || !xp_private_dir(dir, why, sizeof(why))))
			look_into(d, dir, &s);
	}
	if (!*s.text) {
		doctor_found(f, DOCTOR_OK, "none runs: xroce run --start, or xroced, starts one");
	} else if (s.running) {
		doctor_found(f, DOCTOR_OK, "%s", s.text);
	} else {
		doctor_found(f, DOCTOR_LIMITED, "%s", *s.refused ? s.refused : s.text);
		doctor_remedy(f, "%s",
			      *s.refused
				      ? "become a member of the group (usermod -a -G GROUP USER), "
					"or use a daemon of your own: xroce run --start"
				      : "start xroced again; xroce run --start starts another");
	}
}
