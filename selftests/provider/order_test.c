// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which devices of the kernel a program sees, and where in the list: XROCE_HIDE, XROCE_ORDER */
#include "fixture.h"

#include <fcntl.h>

#include "../lib/tap.h"

/* The kernel of fake_kernel.c aborts if a file is opened that it cannot serve. */
static int open_rdma_cm(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);

	printf("%s", fd < 0 ? strerror(errno) : "opened");
	return 0;
}

/* In the process that `listed` starts: prints the names, and how many the function counted. */
static int print_list(void)
{
	int n = -1, i;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		printf("none: %s", strerror(errno));
	for (i = 0; list && list[i]; i++)
		printf("%s ", ibv_get_device_name(list[i]));
	printf("(%d)", n);
	if (list)
		ibv_free_device_list(list);
	return 0;
}

/* Returns what a new process prints with these values; NULL: not set. Valid until the next call */
static const char *run(const char *what, const char *dir, const char *hide, const char *order)
{
	static char text[512];
	char command[512];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command),
		 "exec env XROCE_RUNTIME_DIR=%s XROCE_DEBUG=1 %s%s %s%s /proc/%d/exe %s 2>&1", dir,
		 hide ? "XROCE_HIDE=" : "", hide ? hide : "", order ? "XROCE_ORDER=" : "",
		 order ? order : "", getpid(), what);
	f = popen(command, "r");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = 0;
	if (f)
		pclose(f);
	return text;
}

static const char *listed(const char *dir, const char *hide, const char *order)
{
	return run("list", dir, hide, order);
}

static void expect(const char *got, const char *wanted, const char *what)
{
	if (!TAP_OK(!strcmp(got, wanted), "%s", what))
		printf("# '%s', not '%s'\n", got, wanted);
}

int main(int argc, char **argv)
{
	struct fixture f;
	const char *text;

	if (argc > 1)
		return strcmp(argv[1], "cm") ? print_list() : open_rdma_cm();
	setenv("FAKE_VERBS", "mana_0,mlx5_0", 1);
	setup(&f);
	expect(listed(f.dir, NULL, NULL), FAKE_DEVICE " mana_0 mlx5_0 (3)",
	       "devices of xroce come first");
	expect(listed(f.dir, NULL, "first"), FAKE_DEVICE " mana_0 mlx5_0 (3)",
	       "XROCE_ORDER=first is the same");
	expect(listed(f.dir, NULL, "last"), "mana_0 mlx5_0 " FAKE_DEVICE " (3)",
	       "XROCE_ORDER=last lists those of the kernel first");
	expect(listed(f.dir, "kernel", NULL), FAKE_DEVICE " (1)",
	       "XROCE_HIDE=kernel hides those of the kernel");
	expect(listed("/nonexistent", NULL, NULL), "mana_0 mlx5_0 (2)",
	       "without a daemon, the kernel's devices are listed");
	expect(listed("/nonexistent", "kernel", NULL), "(0)",
	       "XROCE_HIDE=kernel hides them without a daemon, too");
	expect(listed(f.dir, "''", "''"), FAKE_DEVICE " mana_0 mlx5_0 (3)",
	       "empty values are no values");
	text = listed(f.dir, "all", NULL);
	TAP_OK(strstr(text, "XROCE_HIDE is 'all'") && strstr(text, "mlx5_0 (3)"),
	       "an unknown value of XROCE_HIDE is named, and hides nothing");
	text = listed(f.dir, NULL, "second");
	TAP_OK(strstr(text, "XROCE_ORDER is 'second'") && strstr(text, FAKE_DEVICE " mana_0"),
	       "an unknown value of XROCE_ORDER is named, and changes nothing");
	setenv("FAKE_KERNEL", "/nonexistent", 1);
	expect(run("cm", "/nonexistent", "kernel", NULL), "No such file or directory",
	       "the kernel's rdma_cm is hidden");
	expect(run("cm", "/nonexistent", NULL, NULL), "", "without XROCE_HIDE it is opened");
	unsetenv("FAKE_KERNEL");
	teardown(&f);
	return tap_end();
}
