// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every function of librdmacm and libibumad, those of the newest rdma-core and of the installed
 * ones, is in a list with the commands that it needs. The provider executes each of these commands,
 * and leaves the functions to the libraries.
 */
#include "cm_calls.h"

#include <dlfcn.h>

#include "../lib/tap.h"

#define FUNCTIONS_MAX 128
#define COMMANDS 25
#define UNKNOWN_ID 0x7f

struct function {
	char name[48], version[32], needs[128];
};

static struct function list[FUNCTIONS_MAX];
static unsigned int functions;

/* Commands of ABI 4, by their numbers; librdmacm does not use GET_OPTION. */
static const char *const commands[COMMANDS] = {
	"CREATE_ID",	  "DESTROY_ID",	  "BIND_IP",	"RESOLVE_IP",
	"RESOLVE_ROUTE",  "QUERY_ROUTE",  "CONNECT",	"LISTEN",
	"ACCEPT",	  "REJECT",	  "DISCONNECT", "INIT_QP_ATTR",
	"GET_EVENT",	  NULL,		  "SET_OPTION", "NOTIFY",
	"JOIN_IP_MCAST",  "LEAVE_MCAST",  "MIGRATE_ID", "QUERY",
	"BIND",		  "RESOLVE_ADDR", "JOIN_MCAST", "RESOLVE_IB_SERVICE",
	"WRITE_CM_EVENT",
};

static bool read_list(const char *library)
{
	const char *top = getenv("XR_TOP");
	char path[256], line[256];
	struct function *f;
	FILE *file;

	snprintf(path, sizeof(path), "%s/selftests/provider/%s.functions", top ? top : ".",
		 library);
	file = fopen(path, "r");
	functions = 0;
	while (file && functions < FUNCTIONS_MAX && fgets(line, sizeof(line), file)) {
		f = &list[functions];
		if (*line != '#' &&
		    sscanf(line, "%47s %31s %127[^\n]", f->name, f->version, f->needs) == 3)
			functions++;
	}
	return file && !fclose(file);
}

static const struct function *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < functions && strcmp(list[i].name, name); i++)
		;
	return i < functions ? &list[i] : NULL;
}

/* Compares the exports of the installed library, in the format of nm, with the list. */
static void installed(const char *soname, const char *any)
{
	char command[512], line[256], name[64], version[32];
	unsigned int exports = 0, wrong = 0;
	void *library = dlopen(soname, RTLD_NOW);
	const struct function *f;
	Dl_info info;
	FILE *nm;

	if (!library || !dlsym(library, any) || !dladdr(dlsym(library, any), &info)) {
		tap_skip(soname, "it is not installed");
		return;
	}
	snprintf(command, sizeof(command), "LD_PRELOAD= nm -D --defined-only '%s'", info.dli_fname);
	nm = popen(command, "r");
	while (nm && fgets(line, sizeof(line), nm)) {
		if (sscanf(line, "%*s T %63[^@]@@%31s", name, version) != 2)
			continue;
		exports++;
		f = find(name);
		if (!f || strcmp(f->version, version)) {
			printf("# %s %s\n", name, version);
			wrong++;
		}
	}
	TAP_OK(nm && !pclose(nm) && exports > 30 && !wrong, "%s: all %u functions are listed",
	       soname, exports);
}

/* Programs get the functions of their own librdmacm and libibumad, of any release. */
static void left_to_the_library(const char *library)
{
	unsigned int i, taken = 0;
	Dl_info info;
	void *fn;

	for (i = 0; i < functions; i++) {
		fn = dlsym(RTLD_DEFAULT, list[i].name);
		if (fn && dladdr(fn, &info) && strstr(info.dli_fname, "libxroce")) {
			printf("# %s\n", list[i].name);
			taken++;
		}
	}
	TAP_OK(!taken, "%s: no function is replaced", library);
}

/* Writes a command on an id that does not exist. Returns 0 or -errno. */
static int write_command(int fd, uint32_t number)
{
	struct {
		struct rdma_ucm_cmd_hdr head;
		uint8_t body[512];
	} cmd = { .head = { number, sizeof(cmd.body), sizeof(cmd.body) } };

	memset(cmd.body, UNKNOWN_ID, sizeof(cmd.body));
	return write(fd, &cmd, sizeof(cmd)) < 0 ? -errno : 0;
}

/* Of these, other tests of provider/cm check more. They name no id, or another channel. */
static bool names_no_id(uint32_t number)
{
	return number == RDMA_USER_CM_CMD_CREATE_ID || number == RDMA_USER_CM_CMD_GET_EVENT ||
	       number == RDMA_USER_CM_CMD_MIGRATE_ID;
}

static bool is_needed(const char *command)
{
	char text[160], word[40];
	unsigned int i;

	snprintf(word, sizeof(word), " %s ", command);
	for (i = 0; i < functions; i++) {
		snprintf(text, sizeof(text), " %s ", list[i].needs);
		if (strstr(text, word))
			return true;
	}
	return false;
}

static int number_of(const char *command)
{
	int i;

	for (i = 0; i < COMMANDS && (!commands[i] || strcmp(commands[i], command)); i++)
		;
	return i < COMMANDS ? i : -1;
}

static void each_command(int fd)
{
	int i;

	for (i = 0; i < COMMANDS; i++) {
		if (!commands[i])
			TAP_OK(write_command(fd, i) == -ENOSYS, "GET_OPTION is ENOSYS");
		else
			TAP_OK(is_needed(commands[i]) &&
				       (names_no_id(i) || write_command(fd, i) == -ENOENT),
			       "%s is executed", commands[i]);
	}
	TAP_OK(write_command(fd, COMMANDS) == -EINVAL, "there is no command %d", COMMANDS);
}

/* A new function, or a new command, fails here until somebody has decided on it. */
static void known_words(const char *library, const char *const *words)
{
	unsigned int i, w, wrong = 0;
	char *word, *rest;

	for (i = 0; i < functions; i++) {
		for (word = strtok_r(list[i].needs, " ", &rest); word;
		     word = strtok_r(NULL, " ", &rest)) {
			for (w = 0; words[w] && strcmp(words[w], word); w++)
				;
			if (!words[w] && number_of(word) < 0) {
				printf("# %s: %s\n", list[i].name, word);
				wrong++;
			}
		}
	}
	TAP_OK(functions > 40 && !wrong, "%s: %u functions of rdma-core 65 are listed", library,
	       functions);
}

int main(void)
{
	static const char *const of_cm[] = { "open", "close", "library", NULL };
	static const char *const of_umad[] = { "file", "sysfs", "library", NULL };
	struct fake_cm fake;
	char dir[64];
	int fd;

	cm_directory(dir);
	if (!read_list("librdmacm") || fake_cm_start(&fake, dir, "a", NET_A))
		return 1;
	fd = cm_open();
	each_command(fd);
	close(fd);
	fake_cm_kill(&fake);
	cm_remove_directory(dir);
	left_to_the_library("librdmacm");
	installed("librdmacm.so.1", "rdma_create_id");
	known_words("librdmacm", of_cm);
	if (!read_list("libibumad"))
		return 1;
	left_to_the_library("libibumad");
	installed("libibumad.so.3", "umad_init");
	known_words("libibumad", of_umad);
	return tap_end();
}
