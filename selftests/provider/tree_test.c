// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The emulated tree below /sys/class/infiniband and /sys/class/infiniband_verbs */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "../lib/tap.h"

#define IB "/sys/class/infiniband"
#define DEVICE IB "/" FAKE_DEVICE
#define PORT DEVICE "/ports/1"
#define VERBS "/sys/class/infiniband_verbs"
#define UVERBS "uverbs985308" /* xp_uverbs_number(FAKE_DEVICE) */
#define MAD "/sys/class/infiniband_mad"
#define UMAD "umad44" /* xp_umad_number(FAKE_DEVICE) */

static const char *read_fd(int fd)
{
	static char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

static const char *text_of(const char *path)
{
	return read_fd(open(path, O_RDONLY));
}

/* ---- values -------------------------------------------------------------------- */

static void values(void)
{
	static const char *const files[][2] = {
		{ DEVICE "/node_guid", "8877:6655:4433:2211\n" },
		{ DEVICE "/sys_image_guid", "8877:6655:4433:2211\n" },
		{ DEVICE "/node_type", "1: CA\n" },
		{ DEVICE "/hca_type", "xroce\n" },
		{ DEVICE "/board_id", "xroce\n" },
		{ DEVICE "/hw_rev", "0\n" },
		{ PORT "/state", "4: ACTIVE\n" },
		{ PORT "/phys_state", "5: LinkUp\n" },
		{ PORT "/rate", "2.5 Gb/sec (1X)\n" },
		{ PORT "/lid", "0x0\n" },
		{ PORT "/lid_mask_count", "0\n" },
		{ PORT "/sm_lid", "0x0\n" },
		{ PORT "/sm_sl", "0\n" },
		{ PORT "/cap_mask", "0x04010000\n" },
		{ PORT "/link_layer", "Ethernet\n" },
		{ PORT "/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n" },
		{ PORT "/gid_attrs/ndevs/0", "none\n" },
		{ PORT "/pkeys/0", "0xffff\n" },
		{ PORT "/counters/symbol_error", "0\n" },
		{ PORT "/counters/port_rcv_data", "100\n" },
		{ PORT "/counters/port_rcv_packets", "7\n" },
		{ PORT "/counters/port_rcv_errors", "60\n" },
		{ PORT "/hw_counters/rx_bytes", "403\n" },
		{ PORT "/hw_counters/rx_malformed", "30\n" },
		{ VERBS "/abi_version", "6\n" },
		{ VERBS "/" UVERBS "/ibdev", FAKE_DEVICE "\n" },
		{ VERBS "/" UVERBS "/dev", "231:985308\n" },
		{ VERBS "/" UVERBS "/abi_version", "1\n" },
		{ MAD "/abi_version", "5\n" },
		{ MAD "/" UMAD "/ibdev", FAKE_DEVICE "\n" },
		{ MAD "/" UMAD "/port", "1\n" },
		{ MAD "/" UMAD "/dev", "231:44\n" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		TAP_OK(!strcmp(text_of(files[i][0]), files[i][1]), "value of %s", files[i][0]);
	TAP_OK(strstr(text_of(DEVICE "/node_desc"), " " FAKE_DEVICE "\n"),
	       "node_desc ends with the name of the device");
	TAP_OK(strlen(text_of(PORT "/gids/0")) == 40, "a GID is eight groups of four digits");
}

/* ---- directories --------------------------------------------------------------- */

/* Returns whether the directory has the names, separated by spaces, and no others. */
static bool has(DIR *dir, const char *names)
{
	char all[1024] = " ", one[300];
	size_t len = 1;
	struct dirent *e;

	if (!dir)
		return false;
	while ((e = readdir(dir))) {
		snprintf(one, sizeof(one), " %s ", e->d_name);
		if (*e->d_name == '.')
			continue;
		len += strlen(e->d_name) + 1;
		snprintf(all, sizeof(all), " %s ", names);
		if (!strstr(all, one))
			return false;
	}
	closedir(dir);
	return len == strlen(names) + 2;
}

/* Visits everything below a directory. Returns the number of entries, or -1 if one has an error. */
static int walk(const char *path)
{
	char entry[PATH_MAX];
	DIR *dir = opendir(path);
	struct dirent *e;
	int n = 0, below;
	struct stat st;

	while (dir && n >= 0 && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(entry, sizeof(entry), "%s/%s", path, e->d_name);
		below = lstat(entry, &st) || IFTODT(st.st_mode) != e->d_type ? -1 : 0;
		if (!below && S_ISDIR(st.st_mode))
			below = walk(entry);
		if (!below && S_ISREG(st.st_mode) && access(entry, R_OK))
			below = -1;
		if (below < 0)
			printf("# %s: %s\n", entry, strerror(errno));
		n = below < 0 ? -1 : n + 1 + below;
	}
	if (dir)
		closedir(dir);
	return dir ? n : -1;
}

static int any(const struct dirent *e)
{
	return *e->d_name != '.';
}

static void directories(void)
{
	struct dirent **list = NULL;
	glob_t g = { 0 };
	DIR *dir;
	long at;
	int n;

	TAP_OK(has(opendir(IB), FAKE_DEVICE), "opendir lists the devices");
	TAP_OK(has(opendir(VERBS "/"), "abi_version " UVERBS), "opendir lists uverbs devices");
	TAP_OK(has(opendir("/dev/infiniband"), "rdma_cm " UVERBS " " UMAD),
	       "opendir lists device files");
	TAP_OK(has(opendir(MAD), "abi_version " UMAD), "and umad devices");
	TAP_OK(has(opendir("/sys/class//infiniband/./" FAKE_DEVICE "/ports"), "1"),
	       "paths with // and . are the same");
	TAP_OK(has(opendir(PORT "/../../device/net"), "none"), "and paths with ..");
	TAP_OK(walk(IB) > 300, "each entry has the type that readdir says, and files are readable");
	n = scandir(PORT "/gid_attrs/types", &list, any, alphasort);
	TAP_OK(n == 2 && !strcmp(list[0]->d_name, "0") && !strcmp(list[1]->d_name, "2"),
	       "scandir filters and sorts: the GIDs in use");
	while (n > 0)
		free(list[--n]);
	free(list);
	TAP_OK(!glob(IB "/*/ports/[0-9]/st*", 0, NULL, &g) && g.gl_pathc == 1 &&
		       !strcmp(g.gl_pathv[0], PORT "/state"),
	       "glob finds files");
	globfree(&g);
	dir = opendir(DEVICE);
	readdir(dir);
	at = telldir(dir);
	readdir(dir);
	seekdir(dir, at);
	TAP_OK(!strcmp(readdir(dir)->d_name, ".."), "telldir and seekdir");
	rewinddir(dir);
	TAP_OK(!strcmp(readdir(dir)->d_name, "."), "rewinddir");
	closedir(dir);
}

static void descriptors(void)
{
	struct stat by_path, by_fd, by_name;
	int root = open("/", O_RDONLY | O_DIRECTORY), fd = open(PORT, O_RDONLY | O_DIRECTORY), copy;
	struct statx stx;

	TAP_OK(fd >= 0 && !fstat(fd, &by_fd) && S_ISDIR(by_fd.st_mode),
	       "a directory can be opened");
	TAP_OK(!stat(PORT, &by_path) && by_path.st_ino == by_fd.st_ino &&
		       by_path.st_dev == by_fd.st_dev,
	       "stat and fstat say the same");
	TAP_OK(!fstatat(fd, "", &by_name, AT_EMPTY_PATH) && by_name.st_ino == by_fd.st_ino,
	       "and fstatat with AT_EMPTY_PATH");
	TAP_OK(!statx(fd, "state", 0, STATX_ALL, &stx) && S_ISREG(stx.stx_mode),
	       "statx relative to the descriptor");
	TAP_OK(!strcmp(read_fd(openat(fd, "state", O_RDONLY)), "4: ACTIVE\n"),
	       "openat relative to the descriptor");
	TAP_OK(!strcmp(read_fd(openat(fd, "../../node_type", O_RDONLY)), "1: CA\n"), "and with ..");
	TAP_OK(!faccessat(fd, "pkeys/0", R_OK, 0), "faccessat relative to the descriptor");
	TAP_OK(!strcmp(read_fd(openat(root, "sys/class/infiniband/" FAKE_DEVICE "/node_type",
				      O_RDONLY)),
		       "1: CA\n"),
	       "openat relative to a directory of the kernel");
	copy = dup(fd);
	TAP_OK(has(fdopendir(copy), "cap_mask counters gid_attrs gids hw_counters lid "
				    "lid_mask_count link_layer phys_state pkeys rate sm_lid sm_sl "
				    "state"),
	       "fdopendir of a copy of the descriptor");
	TAP_OK(openat(fd, "none", O_RDONLY) == -1 && errno == ENOENT, "no other name: ENOENT");
	TAP_OK(open(PORT, O_RDWR) == -1 && errno == EISDIR, "no writing to a directory: EISDIR");
	TAP_OK(open(PORT "/state", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR,
	       "a file is no directory: ENOTDIR");
	close(fd);
	close(root);
}

static void other_calls(void)
{
	char text[PATH_MAX], *path;
	FILE *f = fopen(PORT "/rate", "re");

	TAP_OK(f && fgets(text, sizeof(text), f) && !strcmp(text, "2.5 Gb/sec (1X)\n"), "fopen");
	if (f)
		fclose(f);
	TAP_OK(!fopen(PORT "/rate", "w") && errno == EACCES, "fopen for writing: EACCES");
	TAP_OK(!fopen(PORT "/rate", "r+") && errno == EACCES, "fopen for updating: EACCES");
	TAP_OK(access(PORT "/rate", W_OK) == -1 && errno == EACCES, "access W_OK: EACCES");
	TAP_OK(mkdir(DEVICE "/x", 0700) == -1 && unlink(PORT "/rate") == -1 &&
		       rename(PORT "/rate", "/tmp/rate") == -1,
	       "nothing can be created, removed or renamed");
	path = realpath(IB "/../infiniband/" FAKE_DEVICE "/ports/", NULL);
	TAP_OK(path && !strcmp(path, DEVICE "/ports"), "realpath");
	free(path);
	TAP_OK(!realpath(DEVICE "/ports/2", text) && errno == ENOENT, "realpath: ENOENT");
	TAP_OK(readlink(PORT "/rate", text, sizeof(text)) == -1 && errno == EINVAL,
	       "readlink of a file: EINVAL");
	TAP_OK(readlink(DEVICE "/device/net/none", text, sizeof(text)) == 19 &&
		       !memcmp(text, "/sys/class/net/none", 19),
	       "device/net has a link to the interface");
	TAP_OK(getxattr(PORT "/rate", "user.x", text, sizeof(text)) == -1 && errno == EOPNOTSUPP,
	       "no extended attributes");
}

/* ---- working directory --------------------------------------------------------- */

static void working_directory(void)
{
	char before[PATH_MAX], text[PATH_MAX], *room;
	size_t none = 0;
	struct stat st;
	int fd = -1;

	TAP_OK(getcwd(before, sizeof(before)) && !chdir(PORT) && getcwd(text, sizeof(text)) &&
		       !strcmp(text, PORT),
	       "chdir and getcwd");
	room = getcwd(NULL, PATH_MAX);
	TAP_OK(room && !strcmp(room, PORT) && malloc_usable_size(room) >= PATH_MAX,
	       "getcwd allocates the size that the program names");
	free(room);
	TAP_OK(!getcwd(text, none) && errno == EINVAL && !getcwd(text, strlen(PORT)) &&
		       errno == ERANGE && !getcwd(NULL, strlen(PORT)) && errno == ERANGE,
	       "getcwd: EINVAL, ERANGE");
	TAP_OK(!strcmp(text_of("state"), "4: ACTIVE\n") &&
		       has(opendir("."), "cap_mask counters "
					 "gid_attrs gids hw_counters lid lid_mask_count link_layer "
					 "phys_state pkeys "
					 "rate sm_lid sm_sl state"),
	       "relative paths");
	TAP_OK(stat("net", &st) == -1 && errno == ENOENT,
	       "names of the kernel's working directory are not found");
	TAP_OK(!chdir("../..") && !strcmp(text_of("node_type"), "1: CA\n"), "chdir to a parent");
	TAP_OK(!system("env PWD=" DEVICE " sh -c 'read x <node_type && test \"$x\" = \"1: CA\"'"),
	       "a program takes the directory over from PWD");
	TAP_OK(chdir("none") == -1 && errno == ENOENT && chdir("node_type") == -1 &&
		       errno == ENOTDIR,
	       "chdir: ENOENT, ENOTDIR");
	TAP_OK(!stat("../../net", &st) && S_ISDIR(st.st_mode), "paths that leave the tree");
	fd = open(".", O_RDONLY | O_DIRECTORY);
	TAP_OK(!chdir(before) && getcwd(text, sizeof(text)) && !strcmp(text, before),
	       "chdir to a directory of the kernel");
	TAP_OK(!fchdir(fd) && getcwd(text, sizeof(text)) && !strcmp(text, DEVICE), "fchdir");
	close(fd);
	if (chdir(before))
		exit(1);
}

/* ---- directories of the kernel ------------------------------------------------- */

/* Counts the names that the kernel has in a directory. */
static int kernel_names(const char *path)
{
	char buf[65536];
	int fd = open(path, O_RDONLY | O_DIRECTORY), n = 0;
	long len, at;

	while ((len = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (at = 0; at < len; at += ((struct dirent64 *)(buf + at))->d_reclen)
			n++;
	}
	close(fd);
	return n;
}

static int listed(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void kernel_directories(bool running)
{
	int fd = open("/sys/class", O_RDONLY | O_DIRECTORY), n = 0;
	DIR *dir = fdopendir(fd);
	bool real = !syscall(SYS_access, IB, F_OK);

	TAP_OK(listed("/sys/class") == kernel_names("/sys/class") + (running && !real ? 3 : 0),
	       "/sys/class has %s",
	       running ? "all names of the kernel, and three more" : "the names of the kernel");
	while (dir && readdir(dir))
		n++;
	closedir(dir);
	TAP_OK(n == listed("/sys/class"), "fdopendir lists the same");
	TAP_OK(listed("/sys/class/net") == kernel_names("/sys/class/net"),
	       "other directories are those of the kernel");
}

/* libibverbs must not find the device by itself. */
static void one_device(void)
{
	struct ibv_device **list;
	int n = 0, i, ours = 0;

	list = ibv_get_device_list(&n);
	for (i = 0; i < n; i++)
		ours += !strcmp(ibv_get_device_name(list[i]), FAKE_DEVICE);
	TAP_OK(ours == 1, "the device is in the list of devices once");
	for (i = 0; i < n; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), FAKE_DEVICE))
			TAP_OK(!strcmp(list[i]->dev_name, UVERBS) &&
				       !access(list[i]->dev_path, F_OK) &&
				       !access(list[i]->ibdev_path, F_OK),
			       "paths of its struct ibv_device exist");
	}
	ibv_free_device_list(list);
}

static void many_streams(void)
{
	DIR *dir[300];
	int i, n = 0;

	for (i = 0; i < 300; i++)
		dir[i] = opendir(IB);
	for (i = 0; i < 300; i++)
		n += dir[i] && !closedir(dir[i]);
	TAP_OK(n == 256, "256 streams can be open");
	TAP_OK(has(opendir(IB), FAKE_DEVICE), "and again after they are closed");
}

/* An interface that has a parent device: `device` is a link to it. */
static void parent_device(struct fixture *f)
{
	char real[PATH_MAX], path[PATH_MAX + 16];
	struct stat st, other;
	glob_t g = { 0 };

	if (glob("/sys/class/net/*/device", 0, NULL, &g)) {
		TAP_OK(true, "a device with a parent # SKIP no interface has one");
		return;
	}
	*strrchr(g.gl_pathv[0], '/') = 0;
	fake_netdev = strrchr(g.gl_pathv[0], '/') + 1;
	snprintf(path, sizeof(path), "%s/device", g.gl_pathv[0]);
	if (!realpath(path, real) || fake_start(&f->daemon, f->dir))
		exit(1);
	TAP_OK(!lstat(DEVICE "/device", &st) && S_ISLNK(st.st_mode), "`device` is a link");
	TAP_OK(realpath(DEVICE "/device", path) && !strcmp(path, real), "to the parent device");
	TAP_OK(realpath(VERBS "/" UVERBS "/device", path) && !strcmp(path, real),
	       "that of the uverbs device leads there, too");
	snprintf(path, sizeof(path), "%s/uevent", real);
	TAP_OK(!stat(path, &other) && !stat(DEVICE "/device/uevent", &st) &&
		       st.st_ino == other.st_ino,
	       "paths through the link lead to files of the kernel");
	TAP_OK(listed(DEVICE "/device") == kernel_names(real), "opendir follows the link");
	snprintf(path, sizeof(path), DEVICE "/device/net/%s/address", fake_netdev);
	TAP_OK(!access(path, R_OK), "and finds the interface");
	globfree(&g);
	if (strstr(real, "/pci") && !system("command -v lstopo >/dev/null"))
		TAP_OK(!system("lstopo --of console | grep -q 'OpenFabrics \"" FAKE_DEVICE "\"'"),
		       "hwloc shows the device at its PCI device");
	fake_kill(&f->daemon);
}

int main(void)
{
	char library[PATH_MAX];
	struct fixture f;

	/* Programs that are started in another working directory need the absolute path. */
	if (realpath(getenv("LD_PRELOAD"), library))
		setenv("LD_PRELOAD", library, 1);
	setup(&f);
	values();
	directories();
	descriptors();
	other_calls();
	working_directory();
	kernel_directories(true);
	one_device();
	many_streams();
	ibv_dealloc_pd(f.pd);
	ibv_close_device(f.ctx);
	f.pd = NULL;
	f.ctx = NULL;
	setenv("XROCE_DEVICES", "other", 1);
	TAP_OK(!opendir(IB) && errno == ENOENT, "no directory if XROCE_DEVICES hides all devices");
	unsetenv("XROCE_DEVICES");
	fake_kill(&f.daemon);
	TAP_OK(!opendir(DEVICE) && errno == ENOENT && access(IB, F_OK) == -1 && errno == ENOENT,
	       "the directories disappear with the daemon");
	kernel_directories(false);
	parent_device(&f);
	f.daemon.pid = 0;
	return tap_end();
}
