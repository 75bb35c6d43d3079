// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * borrow_ring SOCKET USER hold            borrows a slot by an io_uring, and prints each packet
 * borrow_ring SOCKET USER cycles COUNT    borrows in a process that is killed, again and again
 * borrow_ring SOCKET USER refused KIND    asks with what is no fresh, disabled io_uring. KIND:
 *                                         none, pipe, other (of another process), enabled,
 *                                         restricted, files
 * borrow_ring SOCKET USER race COUNT      registers files and enables the io_uring while it is lent
 * borrow_ring SOCKET USER attack          tries all but to send and to receive, then holds
 * borrow_ring SOCKET USER replace         puts a file of its own in the place of a socket
 * borrow_ring SOCKET USER keep            waits for packets, ends the loan, and keeps the io_uring
 * borrow_ring SOCKET USER child           a forked child keeps it, and this process ends
 * borrow_ring SOCKET USER locks           has a page fault that lasts while the helper needs the
 *                                         lock of the io_uring
 * borrow_ring SOCKET USER hangs COUNT     the same again and again, ends each connection, and stops
 *                                         when COUNT were refused, since the helper has no thread
 * borrow_ring SOCKET USER sends           has a page fault that lasts in a message that it sends
 * borrow_ring - 0 without PROGRAM...      starts a program that can make no io_uring
 *
 * As USER (UID or UID:GID), without the verbs provider. "slot S" or "refused ERRNO TEXT"; attacks
 * print "NAME: RESULT". The rest as borrow.c: "ready", "slot S gets QPN", until the input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

/* Of newer headers */
#define OP_BIND 56
#define OP_FIXED_FD_INSTALL 54
#define OP_SENDMSG_ZC 48
#define OP_URING_CMD 46

#define ENTRIES 16

struct ring {
	int fd;
	uint8_t *area;
	struct io_uring_sqe *sqe;
	struct io_uring_params p;
};

static struct conn conn;
static struct xr_lend_rep lent;
static struct ring ring;

/* ---- io_urings -------------------------------------------------------------------------- */

static void ring_new(struct ring *r, uint32_t flags)
{
	const int prot = PROT_READ | PROT_WRITE;

	r->p = (struct io_uring_params){ .flags = flags };
	r->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &r->p);
	r->area = mmap(NULL, 4096, prot, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	r->sqe = mmap(NULL, ENTRIES * sizeof(*r->sqe), prot, MAP_SHARED, r->fd, IORING_OFF_SQES);
	if (r->fd < 0 || r->area == MAP_FAILED || r->sqe == MAP_FAILED) {
		perror("io_uring");
		exit(1);
	}
}

static uint32_t *word(const struct ring *r, uint32_t off)
{
	return (uint32_t *)(r->area + off);
}

static void push(struct ring *r, const struct io_uring_sqe *sqe)
{
	uint32_t *tail = word(r, r->p.sq_off.tail), at = *tail & (ENTRIES - 1);

	r->sqe[at] = *sqe;
	word(r, r->p.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static int enter(const struct ring *r, uint32_t submit, uint32_t wait)
{
	return (int)syscall(SYS_io_uring_enter, r->fd, submit, wait,
			    wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

/* Returns true and the result of an operation if one has ended. */
static bool pop(const struct ring *r, int *result)
{
	uint32_t *head = word(r, r->p.cq_off.head);
	const struct io_uring_cqe *cqe = (const void *)(r->area + r->p.cq_off.cqes);

	if (*head == __atomic_load_n(word(r, r->p.cq_off.tail), __ATOMIC_ACQUIRE))
		return false;
	*result = cqe[*head & (r->p.cq_entries - 1)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return true;
}

/* Executes an operation. Returns its result, or the error of the call. */
static int execute(struct ring *r, const struct io_uring_sqe *sqe)
{
	int result = -ENODATA;

	push(r, sqe);
	if (enter(r, 1, 1) < 0)
		return -errno;
	pop(r, &result);
	return result;
}

static int do_register(const struct ring *r, unsigned int op, void *arg, unsigned int n)
{
	return (int)syscall(SYS_io_uring_register, r->fd, op, arg, n) < 0 ? -errno : 0;
}

/* ---- borrowing -------------------------------------------------------------------------- */

static char why[XR_WHY_MAX]; /* of the last refusal */

static int ask(int fd)
{
	const struct xr_lend_req q = { .flags = XR_LEND_RING, .ring = (uint32_t)fd };
	union {
		struct xr_lend_rep rep;
		char why[XR_WHY_MAX];
	} u = { 0 };
	int status;

	if (conn.fd <= 0 && !conn_open(&conn)) {
		printf("no connection\n");
		exit(1);
	}
	status = conn_call(&conn, XR_MSG_LEND, &q, sizeof(q), NULL, 0, &u, sizeof(u));
	lent = u.rep;
	memcpy(why, u.why, sizeof(why));
	return status;
}

static int borrow(int fd)
{
	int status = ask(fd);

	if (status)
		printf("refused %s: %.*s\n", strerror(-status), XR_WHY_MAX, why);
	else
		printf("slot %u\n", lent.slot);
	return status;
}

static void borrow_fresh(void)
{
	ring_new(&ring, IORING_SETUP_R_DISABLED);
	if (borrow(ring.fd))
		exit(1);
}

static struct msghdr message;
static struct iovec iov;
static uint8_t bth[64];

static struct io_uring_sqe to_receive(int flags)
{
	iov = (struct iovec){ bth, sizeof(bth) };
	message = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	return (struct io_uring_sqe){
		.opcode = IORING_OP_RECVMSG,
		.flags = IOSQE_FIXED_FILE,
		.addr = (uintptr_t)&message,
		.len = 1,
		.msg_flags = (uint32_t)flags,
	};
}

static void print_packet(int n)
{
	if (n >= 8)
		printf("slot %u gets 0x%x\n", lent.slot,
		       (uint32_t)(bth[5] << 16 | bth[6] << 8 | bth[7]));
}

/* Until the input ends. The first descriptor of the loan is readable if the socket is. */
static void receive_all(void)
{
	const struct io_uring_sqe sqe = to_receive(MSG_DONTWAIT);
	struct pollfd p[] = {
		{ .fd = conn.got_fd[0], .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};

	printf("ready\n");
	while (poll(p, 2, -1) > 0 && !p[1].revents)
		print_packet(execute(&ring, &sqe));
}

/* Leak detection at a usual end would wait for threads that have a page fault. */
static void wait_for_end(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	poll(&p, 1, -1);
	_exit(0);
}

static void hold(void)
{
	borrow_fresh();
	receive_all();
}

static void cycles(int count)
{
	int ready[2], status, lent_ones = 0;
	char c;

	for (int i = 0; i < count; i++) {
		pid_t pid;

		if (pipe(ready))
			exit(1);
		pid = fork();
		if (!pid) {
			borrow_fresh();
			if (write(ready[1], "x", 1) == 1)
				pause();
			_exit(1);
		}
		close(ready[1]);
		lent_ones += read(ready[0], &c, 1) == 1;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		close(ready[0]);
	}
	printf("%d cycles\n", lent_ones);
}

/* ---- what is refused -------------------------------------------------------------------- */

static int pipe_end(void)
{
	int ends[2];

	return pipe(ends) ? -1 : ends[0];
}

/* A child has a ring, whose number is one that this process does not have. */
static int of_other(void)
{
	int ready[2];
	char c;

	if (pipe(ready))
		exit(1);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ring_new(&ring, IORING_SETUP_R_DISABLED);
		if (dup2(ring.fd, 100) != 100 || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	return read(ready[0], &c, 1) == 1 ? 100 : -1;
}

static void refused(const char *kind)
{
	struct io_uring_restriction nop = { .opcode = IORING_RESTRICTION_SQE_OP,
					    .sqe_op = IORING_OP_CONNECT };
	int fd = 999, null = open("/dev/null", O_RDWR);

	ring_new(&ring, strcmp(kind, "enabled") ? IORING_SETUP_R_DISABLED : 0);
	if (!strcmp(kind, "restricted"))
		do_register(&ring, IORING_REGISTER_RESTRICTIONS, &nop, 1);
	if (!strcmp(kind, "files"))
		do_register(&ring, IORING_REGISTER_FILES, &null, 1);
	if (!strcmp(kind, "pipe"))
		fd = pipe_end();
	else if (!strcmp(kind, "other"))
		fd = of_other();
	else if (strcmp(kind, "none"))
		fd = ring.fd;
	borrow(fd);
	/* the connection can borrow all the same */
	ring_new(&ring, IORING_SETUP_R_DISABLED);
	borrow(ring.fd);
}

/* ---- a race ------------------------------------------------------------------------------- */

static bool stop;

static void *meddle(void *arg)
{
	int null = open("/dev/null", O_RDWR);
	struct io_uring_files_update u = { .fds = (uintptr_t)&null };

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		if (rnd() & 1)
			do_register(&ring, IORING_REGISTER_FILES_UPDATE, &u, 1);
		else
			do_register(&ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		if (!(rnd() & 3))
			usleep(20);
	}
	return NULL;
}

static void race(int count)
{
	const struct io_uring_sqe nop = { .opcode = IORING_OP_NOP };
	pthread_t thread;

	for (int i = 0; i < count; i++) {
		bool is_lent;
		int result;

		ring_new(&ring, IORING_SETUP_R_DISABLED);
		stop = false;
		pthread_create(&thread, NULL, meddle, NULL);
		is_lent = !borrow(ring.fd);
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		result = execute(&ring, &nop);
		if (is_lent && result != -EACCES)
			printf("an operation of a ring that was lent: %d\n", result);
		if (is_lent) {
			conn_close(&conn);
			conn.fd = -1;
		}
		close(ring.fd);
	}
}

/* ---- attacks ---------------------------------------------------------------------------- */

static void result(const char *name, int value)
{
	printf("%s: %s\n", name, value < 0 ? strerror(-value) : "done");
}

static void attack_operations(void)
{
	static const struct sockaddr_in6 peer = { .sin6_family = AF_INET6,
						  .sin6_port = 0xb712 }; /* 4791 */
	static const struct {
		const char *name;
		struct io_uring_sqe sqe;
	} attacks[] = {
		{ "CONNECT", { .opcode = IORING_OP_CONNECT, .off = sizeof(peer) } },
		{ "BIND", { .opcode = OP_BIND, .off = sizeof(peer) } },
		{ "SHUTDOWN", { .opcode = IORING_OP_SHUTDOWN, .len = SHUT_RDWR } },
		{ "CLOSE", { .opcode = IORING_OP_CLOSE, .file_index = 1 } },
		{ "ACCEPT", { .opcode = IORING_OP_ACCEPT } },
		{ "NOP", { .opcode = IORING_OP_NOP } },
		{ "POLL_ADD", { .opcode = IORING_OP_POLL_ADD, .poll32_events = POLLIN } },
		{ "FILES_UPDATE", { .opcode = IORING_OP_FILES_UPDATE, .len = 1 } },
		{ "SEND", { .opcode = IORING_OP_SEND } },
		{ "RECV", { .opcode = IORING_OP_RECV } },
		{ "READ", { .opcode = IORING_OP_READ } },
		{ "SENDMSG_ZC", { .opcode = OP_SENDMSG_ZC } },
		{ "URING_CMD", { .opcode = OP_URING_CMD, .cmd_op = 3 } }, /* setsockopt */
		{ "FIXED_FD_INSTALL", { .opcode = OP_FIXED_FD_INSTALL } },
		{ "MSG_RING", { .opcode = IORING_OP_MSG_RING } },
	};

	for (unsigned int i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		struct io_uring_sqe sqe = attacks[i].sqe;

		sqe.flags |= IOSQE_FIXED_FILE;
		sqe.addr = (uintptr_t)&peer;
		result(attacks[i].name, execute(&ring, &sqe));
	}
}

static void attack_flags(void)
{
	static const struct {
		const char *name;
		uint8_t flags;
	} attacks[] = {
		{ "no fixed file", 0 },
		{ "ASYNC", IOSQE_FIXED_FILE | IOSQE_ASYNC },
		{ "LINK", IOSQE_FIXED_FILE | IOSQE_IO_LINK },
		{ "BUFFER_SELECT", IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT },
	};

	for (unsigned int i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		struct io_uring_sqe sqe = to_receive(MSG_DONTWAIT);

		sqe.flags = attacks[i].flags;
		result(attacks[i].name, execute(&ring, &sqe));
	}
}

static void attack_registrations(void)
{
	static const char *const names[] = {
		"REGISTER_BUFFERS",	 "UNREGISTER_BUFFERS",	    "REGISTER_FILES",
		"UNREGISTER_FILES",	 "REGISTER_EVENTFD",	    "UNREGISTER_EVENTFD",
		"REGISTER_FILES_UPDATE", "REGISTER_EVENTFD_ASYNC",  "REGISTER_PROBE",
		"REGISTER_PERSONALITY",	 "UNREGISTER_PERSONALITY",  "REGISTER_RESTRICTIONS",
		"ENABLE_RINGS",		 "REGISTER_FILES2",	    "REGISTER_FILES_UPDATE2",
		"REGISTER_BUFFERS2",	 "REGISTER_BUFFERS_UPDATE",
	};
	int fds[ENTRIES] = { 0 };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		result(names[i], do_register(&ring, i, fds, 1));
}

static int send_by(int file, int flags, const void *data, size_t n)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	struct iovec part = { (void *)data, n };
	struct msghdr m = {
		.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = &part,
		.msg_iovlen = 1,
	};
	const struct io_uring_sqe sqe = {
		.opcode = IORING_OP_SENDMSG,
		.flags = IOSQE_FIXED_FILE,
		.fd = file,
		.addr = (uintptr_t)&m,
		.len = 1,
		.msg_flags = (uint32_t)flags,
	};

	inet_pton(AF_INET6, "::ffff:10.77.0.2", &to.sin6_addr);
	return execute(&ring, &sqe);
}

/* Another ring of this process puts a file of the process in the place of the lent one, or not. */
static void attack_by_other_ring(void)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_MSG_RING,
		.fd = ring.fd,
		.addr = 1, /* IORING_MSG_SEND_FD */
		.addr3 = 0,
		.file_index = 1,
	};
	struct ring other;
	int null = open("/dev/null", O_RDWR);

	ring_new(&other, 0);
	do_register(&other, IORING_REGISTER_FILES, &null, 1);
	result("a file of another ring", execute(&other, &sqe) < 0 ? -EACCES : 0);
}

static void attack(void)
{
	borrow_fresh();
	attack_operations();
	attack_flags();
	attack_registrations();
	result("sending by the socket that receives", send_by(0, MSG_DONTWAIT, "x", 1));
	result("sending by one that sends", send_by(1, MSG_DONTWAIT, "x", 1));
	receive_all();
}

static void replace(void)
{
	borrow_fresh();
	attack_by_other_ring();
	receive_all();
}

/* Waits for packets in the kernel with as many operations as there is room for. */
static void wait_in_kernel(void)
{
	struct io_uring_sqe sqe = to_receive(0);

	for (int i = 0; i < ENTRIES; i++)
		push(&ring, &sqe);
	enter(&ring, ENTRIES, 0);
}

static void print_waiting(void)
{
	struct pollfd p[] = {
		{ .fd = ring.fd, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};
	int n;

	printf("ready\n");
	while (poll(p, 2, -1) > 0 && !p[1].revents)
		while (pop(&ring, &n))
			print_packet(n);
}

static void keep(void)
{
	borrow_fresh();
	wait_in_kernel();
	conn_close(&conn);
	print_waiting();
}

static void child(void)
{
	borrow_fresh();
	if (fork())
		return;
	wait_in_kernel();
	print_waiting();
}

/* ---- page faults that last -------------------------------------------------------------- */

#define NO_DESCRIPTOR 9999

static int uffd;

/* Opened before this process gives up its privileges: user nobody would need FUSE instead. */
static void *slow_page(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { .range = { (uintptr_t)p, 8192 },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &r)) {
		perror("userfaultfd");
		exit(1);
	}
	return p;
}

/* Waits until the next thread is in a fault of that page. */
static void wait_for_fault(void)
{
	struct pollfd p = { .fd = uffd, .events = POLLIN };
	struct uffd_msg m;

	if (poll(&p, 1, 10000) != 1 || read(uffd, &m, sizeof(m)) != sizeof(m)) {
		printf("no fault\n");
		exit(1);
	}
}

static void *register_slowly(void *page)
{
	const struct ring own = ring; /* there may be another one later */

	do_register(&own, IORING_REGISTER_FILES, page, 1);
	return NULL;
}

static void locks(void)
{
	pthread_t thread;

	ring_new(&ring, IORING_SETUP_R_DISABLED);
	pthread_create(&thread, NULL, register_slowly, slow_page());
	wait_for_fault();
	if (!conn_open(&conn))
		exit(1);
	printf("ready\n");
	borrow(ring.fd);
	wait_for_end();
}

static void *borrow_in_thread(void *status)
{
	*(int *)status = borrow(ring.fd);
	return NULL;
}

/* Waits until the daemon has ended the loan of the connection before: a slot is free. */
static void wait_for_slot(void)
{
	conn = (struct conn){ 0 };
	while (ask(NO_DESCRIPTOR) == -EBUSY)
		usleep(10000);
	close(conn.fd);
}

/*
 * A borrower whose connection ends while the helper waits for its ring. On a busy machine one may
 * end before the helper has the request, so their number is not known beforehand.
 */
static void hangs(int count)
{
	void *page = slow_page();
	pthread_t thread;
	int status, n = 0;

	for (int refused = 0; refused < count; n++) {
		ring_new(&ring, IORING_SETUP_R_DISABLED);
		pthread_create(&thread, NULL, register_slowly, page);
		wait_for_fault();
		wait_for_slot();
		conn = (struct conn){ 0 };
		if (!conn_open(&conn))
			exit(1);
		pthread_create(&thread, NULL, borrow_in_thread, &status);
		usleep(20000);
		shutdown(conn.fd, SHUT_RDWR);
		pthread_join(thread, NULL);
		close(conn.fd);
		refused += status == -EAGAIN;
	}
	printf("%d requests\nready\n", n);
	wait_for_end();
}

static void *send_slowly(void *page)
{
	result("slowly, by the socket that receives", send_by(0, MSG_MORE, page, 100));
	result("slowly, by one that sends", send_by(1, MSG_MORE, page, 100));
	return NULL;
}

static void sends(void)
{
	pthread_t thread;

	borrow_fresh();
	pthread_create(&thread, NULL, send_slowly, slow_page());
	wait_for_fault();
	conn_close(&conn);
	printf("ready\n");
	wait_for_end();
}

/* ---- without io_uring --------------------------------------------------------------------- */

static int without(char **program)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 1;
	execvp(program[0], program);
	return 1;
}

/* ---- main ----------------------------------------------------------------------------------- */

/* user: "UID" or "UID:GID"; a user who is not root has no other groups */
static void become(const char *user)
{
	char *end;
	uid_t uid = (uid_t)strtoul(user, &end, 10);
	gid_t gid = *end == ':' ? (gid_t)strtoul(end + 1, NULL, 10) : uid;

	if (uid && (setgroups(0, NULL) || setgid(gid) || setuid(uid)))
		exit(1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "hold", hold },   { "attack", attack }, { "replace", replace }, { "keep", keep },
		{ "child", child }, { "locks", locks },	  { "sends", sends },
	};

	if (argc < 4)
		return 2;
	daemon_path = argv[1];
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	become(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 4 && !strcmp(argv[3], "without"))
		return without(argv + 4);
	if (argc > 4 && !strcmp(argv[3], "refused"))
		refused(argv[4]);
	if (argc > 4 && !strcmp(argv[3], "race"))
		race(atoi(argv[4]));
	if (argc > 4 && !strcmp(argv[3], "hangs"))
		hangs(atoi(argv[4]));
	if (argc > 4 && !strcmp(argv[3], "cycles"))
		cycles(atoi(argv[4]));
	for (unsigned int i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[3], modes[i].name))
			modes[i].run();
	return 0;
}
