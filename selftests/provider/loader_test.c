// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program that is not linked with libibverbs and opens a copy of its own with dlopen() */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/tap.h"

/* Returns the file of the library that has the function which the handle finds. */
static const char *file_of(void *handle, const char *symbol)
{
	void *fn = handle ? dlsym(handle, symbol) : NULL;
	Dl_info info;

	return fn && dladdr(fn, &info) ? info.dli_fname : "";
}

/* Returns the path of the system's libibverbs, found by a child process that exits again. */
static bool find_system(char path[PATH_MAX])
{
	int fd[2];
	ssize_t n;

	if (pipe(fd))
		return false;
	if (!fork()) {
		const char *file = file_of(dlopen("libibverbs.so.1", RTLD_NOW),
					   "ibv_wc_status_str");

		_exit(write(fd[1], file, strlen(file)) < 0);
	}
	close(fd[1]);
	n = read(fd[0], path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = 0;
	close(fd[0]);
	wait(NULL);
	return n > 0;
}

static bool copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
	ssize_t n;

	do {
		n = sendfile(out, in, NULL, 1 << 20);
	} while (n > 0);
	close(in);
	close(out);
	return !n;
}

int main(void)
{
	char dir[] = "/tmp/xroce-test-XXXXXX", own[64], system[PATH_MAX];
	void *handle;

	if (!mkdtemp(dir) || !find_system(system))
		return 1;
	snprintf(own, sizeof(own), "%s/libibverbs.so.1", dir);
	handle = copy(system, own) ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
	TAP_OK(!strcmp(file_of(handle, "ibv_wc_status_str"), own),
	       "dlopen loads the file that was named");
	TAP_OK(handle && dlsym(handle, "ibv_get_device_list") ==
				 dlsym(RTLD_DEFAULT, "ibv_get_device_list"),
	       "the handle finds the provider's functions first");
	unlink(own);
	rmdir(dir);
	return tap_end();
}
