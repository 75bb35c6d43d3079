// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The helper process: requests by tickets, and removal of files at the end */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "daemon/base/name_lock.h"
#include "daemon/base/options.h"
#include "daemon/helper/disconnect.h"
#include "daemon/helper/helper.h"
#include "daemon/helper/protocol.h"
#include "daemon/transport/wire/icrc.h"
#include "selftests/lib/tap.h"

#define WAIT_MS 20000 /* for what happens at once unless the machine is busy */
#define PAGE 4096u

static struct xd_options opt = { .name = "xr_test" };
static struct xd_helper *helper;
static char dir[] = "/tmp/xroce-helper.XXXXXX", pins[600];

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("Bail out! %s:%d: %s: %m\n", __FILE__, __LINE__, #cond);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- a daemon's start ---------------------------------------------------------------- */

static int listen_at(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	MUST(!bind(fd, (struct sockaddr *)&sun, sizeof(sun)) && !listen(fd, 8));
	return fd;
}

/* Plain files take the place of pinned maps. */
static void start(void)
{
	char path[400];
	int lock, pins_fd, fd;

	MUST(!xd_helper_start(&opt, &helper));
	lock = xd_name_lock(opt.runtime_dir, false, opt.name);
	snprintf(path, sizeof(path), "%s/xroce", opt.bpffs);
	mkdir(path, 0755);
	snprintf(pins, sizeof(pins), "%s/%s", path, opt.name);
	MUST(!mkdir(pins, 0755));
	pins_fd = open(pins, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(pins_fd, "qps", O_CREAT | O_RDWR, 0600);
	close(fd);
	fd = listen_at(opt.socket);
	MUST(!xd_helper_take(helper, fd, lock, pins_fd));
	close(fd);
	close(lock);
	close(pins_fd);
}

static void set_options(void)
{
	MUST(mkdtemp(dir));
	snprintf(opt.runtime_dir, sizeof(opt.runtime_dir), "%s", dir);
	snprintf(opt.bpffs, sizeof(opt.bpffs), "%s", dir);
	snprintf(opt.socket, sizeof(opt.socket), "%s/s", dir);
}

static int connect_to(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (!connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		return fd;
	close(fd);
	return -1;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, WAIT_MS) == 1;
}

/* Connects as a program and returns its ticket. */
static int new_ticket(int *program)
{
	int connection, ticket;

	*program = connect_to(opt.socket);
	MUST(*program >= 0 && readable(xd_helper_fd(helper)));
	MUST(!xd_helper_accept(helper, &connection, &ticket));
	close(connection);
	return ticket;
}

/* ---- tests ------------------------------------------------------------------------ */

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static void test_arrival(void)
{
	int program = connect_to(opt.socket), connection = -1, ticket = -1, n = 0;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	char byte = 'x';

	MUST(program >= 0 && readable(xd_helper_fd(helper)));
	TAP_OK(!xd_helper_accept(helper, &connection, &ticket) && ticket >= 0,
	       "the daemon gets a connection and its ticket");
	MUST(send(program, &byte, 1, 0) == 1);
	byte = 0;
	n = (int)recv(connection, &byte, 1, 0);
	TAP_OK(n == 1 && byte == 'x' &&
		       !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
		       cred.pid == getpid(),
	       "the connection is that of the program");
	TAP_OK(xd_helper_accept(helper, &connection, &ticket) == -EAGAIN,
	       "no other connection arrives");
	close(program);
	close(connection);
	close(ticket);
}

/* Returns the thread of the helper, a child of this process, that was started last. */
static long last_thread(void)
{
	long pid = 0, tid, last = 0;
	struct dirent *e;
	char path[64];
	FILE *f = fopen("/proc/thread-self/children", "re");
	DIR *d;

	MUST(f && fscanf(f, "%ld", &pid) == 1);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	d = opendir(path);
	MUST(d);
	while ((e = readdir(d))) {
		tid = atol(e->d_name);
		last = tid > last ? tid : last;
	}
	closedir(d);
	return last == pid ? 0 : last;
}

static void test_mapped(void)
{
	int program, ticket = new_ticket(&program), fd = memfd_create("shared", MFD_CLOEXEC), got;
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct xd_mapped m = { .start = (uintptr_t)p, .end = (uintptr_t)p + PAGE };
	struct stat st, mine;
	long thread;

	MUST(!ftruncate(fd, PAGE) && p != MAP_FAILED && !fstat(fd, &mine));
	m.dev = mine.st_dev;
	m.inode = mine.st_ino;
	got = xd_helper_open_mapped(ticket, &m, true);
	if (got == -EPERM) {
		tap_skip("a ticket opens a shared mapping of its program", "needs root");
	} else {
		TAP_OK(got >= 0 && !fstat(got, &st) && st.st_ino == mine.st_ino,
		       "a ticket opens a shared mapping of its program");
		close(got);
		thread = last_thread();
		m.inode++;
		TAP_OK(xd_helper_open_mapped(ticket, &m, true) == -EACCES,
		       "another file than the daemon says is refused");
		m.inode--;
		TAP_OK(thread && last_thread() == thread,
		       "the next request is for the same thread");
	}
	m.end += PAGE;
	TAP_OK(xd_helper_open_mapped(ticket, &m, true) < 0,
	       "a range that is no mapping is refused");
	munmap(p, PAGE);
	close(fd);
	close(program);
	close(ticket);
}

/* Sends raw bytes by a ticket. Returns true if the helper closes the ticket. */
static bool refused(const void *data, size_t len)
{
	int program, ticket = new_ticket(&program);
	char byte;
	bool closed;

	MUST(send(ticket, data, len, MSG_NOSIGNAL) == (ssize_t)len && readable(ticket));
	closed = recv(ticket, &byte, 1, 0) <= 0;
	close(program);
	close(ticket);
	return closed;
}

static void test_malformed(void)
{
	struct xd_helper_request r[2] = { { .op = 1000 }, { .op = 1000 } };
	int program, ticket = new_ticket(&program);
	struct xd_helper_reply rep = { 0 };

	MUST(send(ticket, &r[0], sizeof(r[0]), 0) == sizeof(r[0]) && readable(ticket));
	TAP_OK(recv(ticket, &rep, sizeof(rep), 0) == sizeof(rep) && rep.status == -EINVAL,
	       "an unknown request is refused");
	TAP_OK(refused(r, sizeof(r[0]) - 1), "a short message ends its ticket");
	TAP_OK(refused(r, sizeof(r)), "a long message ends its ticket");
	close(program);
	close(ticket);
}

/* ---- rings ------------------------------------------------------------------------- */

static int new_ring(void)
{
	struct io_uring_params p = { .flags = IORING_SETUP_R_DISABLED };

	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

/* Returns true if the socket is bound to an interface that does not exist. */
static bool is_retired(int sock)
{
	int interface = 0;
	socklen_t len = sizeof(interface);

	return !getsockopt(sock, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, &len) &&
	       interface == INT_MAX;
}

static int give_ring(int ring, int sock, enum xd_ring_step *step)
{
	int program, ticket = new_ticket(&program);
	int err = xd_helper_ring(ticket, (uint32_t)ring, 3, &sock, 1, step);

	close(program);
	close(ticket);
	return err;
}

static void test_refused_rings(int sock)
{
	enum xd_ring_step step;

	TAP_OK(xd_helper_replace(helper, 3) == -ENOENT,
	       "a socket that no ring has is not replaced");
	TAP_OK(give_ring(999, sock, &step) == -EBADF && step == XD_RING_TAKE,
	       "a ring that the program does not have is refused");
	TAP_OK(give_ring(sock, sock, &step) == -EBUSY && step == XD_RING_PREPARE,
	       "a slot has one loan at a time");
	TAP_OK(xd_helper_replace(helper, 3) == -ENOENT && !is_retired(sock),
	       "a socket is not retired if the ring was refused before");
	TAP_OK(xd_helper_replace(helper, 1000) == -EINVAL, "slots have limits");
}

static void test_rings(void)
{
	int ring = new_ring(), sock = socket(AF_INET, SOCK_DGRAM, 0);
	int other = socket(AF_INET, SOCK_DGRAM, 0), err;
	enum xd_ring_step step;

	MUST(sock >= 0 && other >= 0);
	if (ring < 0) {
		tap_skip("the helper restricts a ring", "no io_uring");
		return;
	}
	test_refused_rings(sock);
	err = give_ring(ring, sock, &step);
	TAP_OK(!err, "the helper restricts a ring");
	TAP_OK(syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_FILES, NULL, 0) < 0 &&
		       errno == EACCES,
	       "of which the program cannot take the socket");
	TAP_OK(!xd_helper_replace(helper, 3) && is_retired(sock) && !is_retired(other),
	       "whose socket is retired at the end of the loan");
	TAP_OK(give_ring(ring, other, &step) == -EACCES && step == XD_RING_RESTRICT,
	       "a ring is lent once");
	close(ring);
	close(sock);
	close(other);
}

/* The helper handles messages in order, so it has handled all before when this returns. */
static void wait_for_helper(void)
{
	int program, ticket = new_ticket(&program);

	close(program);
	close(ticket);
}

/* Returns the buffer that the socket has afterwards, as the kernel counts. */
static int enlarged(int fd, uint32_t bytes)
{
	socklen_t len = sizeof(int);
	int size = 0;

	xd_helper_enlarge(helper, fd, bytes);
	wait_for_helper();
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	return size;
}

static void test_enlarge(void)
{
	static const char *const what[] = { "a UDP socket gets a large receive buffer",
					    "not above the limit", "other sockets get none" };
	const int most = (int)XD_HELPER_MOST_BYTES;
	int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);

	if (setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &most, sizeof(most))) {
		for (int i = 0; i < 3; i++)
			tap_skip(what[i], "needs CAP_NET_ADMIN");
	} else {
		close(udp);
		udp = socket(AF_INET, SOCK_DGRAM, 0);
		TAP_OK(enlarged(udp, XD_HELPER_MOST_BYTES) == 2 * most, what[0]);
		TAP_OK(enlarged(udp, XD_HELPER_MOST_BYTES + 1) == 2 * most, what[1]);
		TAP_OK(enlarged(tcp, XD_HELPER_MOST_BYTES) < 2 * most, what[2]);
	}
	close(udp);
	close(tcp);
}

static void test_second_take(void)
{
	char path[300];
	int fd, null = open("/dev/null", O_RDONLY), connection;

	snprintf(path, sizeof(path), "%s/other", dir);
	fd = listen_at(path);
	MUST(!xd_helper_take(helper, fd, null, null));
	close(fd);
	close(null);
	wait_for_helper(); /* it has closed its copy */
	TAP_OK(connect_to(path) < 0 && xd_helper_accept(helper, &connection, &fd) == -EAGAIN,
	       "the helper takes a listening socket only once");
	unlink(path);
}

static void test_stop(void)
{
	char lock[XD_LOCK_PATH];

	xd_name_lock_path(opt.runtime_dir, opt.name, lock);
	TAP_OK(exists(opt.socket) && exists(lock) && exists(pins),
	       "socket, lock and pins exist while the daemon runs");
	xd_helper_stop(helper);
	TAP_OK(!exists(opt.socket) && !exists(lock) && !exists(pins),
	       "the helper removes them when the daemon ends");
	TAP_OK(waitpid(-1, NULL, 0) > 0 && waitpid(-1, NULL, 0) < 0 && errno == ECHILD,
	       "the helper ends");
}

/* ---- DREQs ------------------------------------------------------------------------ */

static unsigned int entries(const struct xd_dreqs *list, struct xd_dreq *last)
{
	uint32_t number = 0, n = 0;

	while (xd_dreqs_next(list, &number, last))
		n++;
	return n;
}

static void test_list(void)
{
	struct xd_dreqs *list = xd_dreqs_new(3);
	struct xd_dreq d = { .local_id = 1 }, found = { 0 };
	uint32_t first = xd_dreqs_add(list, &d), second;
	pid_t pid;
	int status;

	d.local_id = 2;
	second = xd_dreqs_add(list, &d);
	TAP_OK(entries(list, &found) == 2 && found.local_id == 2, "a list of DREQs");
	xd_dreqs_del(list, second);
	TAP_OK(entries(list, &found) == 1 && found.local_id == 1, "without those not needed");
	TAP_OK(xd_dreqs_add(list, &d) == second && xd_dreqs_add(list, &d) != XD_NO_DREQ &&
		       xd_dreqs_add(list, &d) == XD_NO_DREQ && entries(list, &found) == 3,
	       "is limited");
	pid = fork();
	if (!pid) {
		xd_dreqs_del(list, first);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	TAP_OK(entries(list, &found) == 2, "and shared with another process");
	xd_dreqs_free(list);
}

/* Builds a DREQ and returns the offset of its MAD, or 0 if a length or the ICRC is wrong. */
static uint32_t build(const struct xd_dreq *d, uint8_t *frame)
{
	uint32_t ip = d->path.vlan ? 18 : 14, udp = ip + (d->path.ip_version == 4 ? 20 : 40);
	uint32_t len = xd_disconnect_build(d, frame);
	struct xt_frame f = {
		.seg = { { .data = frame, .len = len } },
		.nseg = 1,
		.len = len,
		.meta = {
			.ip_off = (uint16_t)ip,
			.bth_off = (uint16_t)(udp + 8),
			.payload_off = (uint16_t)(udp + 28),
			.payload_len = 256,
		},
	};

	if (len != udp + 28 + 256 + 4 || len > XD_DREQ_MAX || !xt_icrc_ok(&f))
		return 0;
	return (frame[udp + 4] << 8 | frame[udp + 5]) == (int)(len - udp) ? udp + 28 : 0;
}

static bool ipv4_header_is_right(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff && (ip[2] << 8 | ip[3]) == 20 + 8 + 12 + 8 + 256 + 4;
}

static void test_packets(void)
{
	struct xd_dreq d = {
		.local_id = 0x01020304,
		.remote_id = 0x05060708,
		.remote_qpn = 0x0a0b0c,
		.tid = 0x1112131415161718,
		.path = { .ip_version = 4, .hop_limit = 64, .smac = { 2, 1 }, .dmac = { 2, 2 } },
	};
	const uint8_t ids[] = { 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0 };
	uint8_t frame[XD_DREQ_MAX];
	uint32_t mad;

	xr_gid_set_ipv4(&d.path.sgid, htonl(0x0a000001));
	xr_gid_set_ipv4(&d.path.dgid, htonl(0x0a000002));
	mad = build(&d, frame);
	TAP_OK(mad && ipv4_header_is_right(frame + 14) && frame[mad + 1] == 7 &&
		       frame[mad + 17] == 0x15 && frame[mad + 8] == 0x11 &&
		       !memcmp(frame + mad + 24, ids, sizeof(ids)),
	       "a DREQ over IPv4");
	d.path.ip_version = 6;
	d.path.vlan = 5;
	mad = build(&d, frame);
	TAP_OK(mad && !memcmp(frame + mad + 24, ids, sizeof(ids)), "over IPv6 in a VLAN");
	memset(&d, 0xff, sizeof(d));
	TAP_OK(build(&d, frame), "any entry gives a packet of the same length");
}

/* The daemon is a child of this process that is killed. */
static void test_killed_daemon(void)
{
	int ready[2], i;
	pid_t pid;
	char byte;

	MUST(!pipe(ready));
	pid = fork();
	if (!pid) {
		start();
		new_ticket(&i); /* the helper has begun to serve */
		MUST(write(ready[1], "r", 1) == 1);
		pause();
	}
	MUST(read(ready[0], &byte, 1) == 1);
	snprintf(pins, sizeof(pins), "%s/xroce/%s", dir, opt.name);
	MUST(exists(pins));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (i = 0; i < WAIT_MS / 10 && (exists(opt.socket) || exists(pins)); i++)
		usleep(10000);
	TAP_OK(!exists(opt.socket) && !exists(pins),
	       "they are removed if the daemon is killed, too");
}

static void remove_folders(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/xroce", dir);
	rmdir(path);
	rmdir(dir);
}

int main(void)
{
	set_options();
	start();
	test_arrival();
	test_mapped();
	test_malformed();
	test_rings();
	test_enlarge();
	test_second_take();
	test_stop();
	test_list();
	test_packets();
	test_killed_daemon();
	remove_folders();
	return tap_end();
}
