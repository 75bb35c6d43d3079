// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Files of umad as programs see them: open, ioctl, read, write, poll, copies of descriptors */
#include "fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <xroce/control.h>

#include "../lib/tap.h"

#define DEVICE "/dev/infiniband/umad44"
#define OLD sizeof(struct ib_user_mad_hdr_old)
#define NEW sizeof(struct ib_user_mad_hdr)
#define MAD 256

static uint8_t data[NEW + MAD + 8];
static struct ib_user_mad_hdr *const hdr = (void *)data;

static int fds(void)
{
	int n = 0, fd;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int open_file(int flags)
{
	return open(DEVICE, O_RDWR | flags);
}

static int call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) ? errno : 0;
}

static int add_agent(int fd)
{
	struct ib_user_mad_reg_req2 r = { .qpn = 1, .mgmt_class = 4, .mgmt_class_version = 1 };

	return call(fd, IB_USER_MAD_REGISTER_AGENT2, &r);
}

/* Returns the length of a MAD that was sent and has come back, or an errno. */
static int exchange(int fd, size_t header)
{
	memset(data, 0, sizeof(data));
	hdr->qpn = htonl(1);
	data[header] = 1;
	data[header + MAD - 1] = 0x5a;
	if (write(fd, data, header + MAD) != (ssize_t)(header + MAD))
		return errno;
	memset(data, 0, sizeof(data));
	return (int)read(fd, data, header + MAD);
}

static void test_open(void)
{
	struct pollfd p = { .events = POLLIN };
	struct stat by_path, by_fd;
	int before = fds(), fd = open_file(O_NONBLOCK | O_CLOEXEC);
	const unsigned int flags = O_NONBLOCK | O_RDWR;

	TAP_OK(fd >= 0 && (fcntl(fd, F_GETFL) & flags) == flags && fcntl(fd, F_GETFD) == FD_CLOEXEC,
	       "the file is opened with the flags of the program");
	TAP_OK(!stat(DEVICE, &by_path) && !fstat(fd, &by_fd) && by_path.st_mode == by_fd.st_mode &&
		       by_fd.st_mode == (S_IFCHR | 0600) && by_fd.st_rdev == makedev(231, 44) &&
		       by_path.st_rdev == by_fd.st_rdev,
	       "stat and fstat describe a device file");
	p.fd = fd;
	TAP_OK(!poll(&p, 1, 0), "nothing is to be read");
	TAP_OK(read(fd, data, sizeof(data)) == -1 && errno == EAGAIN, "read: EAGAIN");
	close(fd);
	fd = open_file(0);
	TAP_OK(fd >= 0 && !(fcntl(fd, F_GETFL) & O_NONBLOCK) && !fcntl(fd, F_GETFD),
	       "also without flags");
	close(fd);
	TAP_OK(fds() == before, "close leaves no descriptor");
	TAP_OK(open("/dev/infiniband/umad43", O_RDWR) == -1 && errno == ENOENT,
	       "no other number: ENOENT");
	TAP_OK(!access(DEVICE, R_OK | W_OK) == !geteuid(), "access() says that root may open it");
}

static void test_agents(void)
{
	struct ib_user_mad_reg_req old = { .qpn = 1,
					   .mgmt_class = 0x30,
					   .mgmt_class_version = 3,
					   .oui = { 1, 2, 3 },
					   .rmpp_version = 1,
					   .method_mask = { 0x11, 0x22 } };
	struct ib_user_mad_reg_req2 r = { .qpn = 1,
					  .mgmt_class = 0x31,
					  .mgmt_class_version = 4,
					  .oui = 0x040506,
					  .flags = IB_USER_MAD_USER_RMPP,
					  .method_mask = { 0x33, 0x44 } };
	struct xr_umad_register_req got;
	uint32_t id = 7;
	int fd = open_file(0);

	TAP_OK(!call(fd, IB_USER_MAD_ENABLE_PKEY, NULL) &&
		       !call(fd, IB_USER_MAD_REGISTER_AGENT, &old) && old.id == 0,
	       "REGISTER_AGENT");
	exchange(fd, NEW);
	memcpy(&got, data + NEW + 64, sizeof(got));
	TAP_OK(got.qpn == 1 && got.mgmt_class == 0x30 && got.mgmt_class_version == 3 &&
		       got.oui[0] == 1 && got.oui[2] == 3 && got.rmpp_version == 1 &&
		       got.methods[0] == 0x11 && got.methods[1] == 0x22 && !got.flags,
	       "its fields reach the daemon");
	TAP_OK(!call(fd, IB_USER_MAD_REGISTER_AGENT2, &r) && r.id == 1, "REGISTER_AGENT2");
	exchange(fd, NEW);
	memcpy(&got, data + NEW + 64, sizeof(got));
	TAP_OK(got.mgmt_class == 0x31 && got.mgmt_class_version == 4 && got.oui[0] == 4 &&
		       got.oui[2] == 6 && got.methods[0] == 0x33 && got.methods[1] == 0x44 &&
		       got.flags == IB_USER_MAD_USER_RMPP,
	       "its fields as well");
	r.flags = 0x82;
	TAP_OK(call(fd, IB_USER_MAD_REGISTER_AGENT2, &r) == EINVAL &&
		       r.flags == IB_USER_MAD_REG_FLAGS_CAP,
	       "unknown flags: EINVAL, with the known ones");
	old.mgmt_class = FAKE_REFUSED_CLASS;
	TAP_OK(call(fd, IB_USER_MAD_REGISTER_AGENT, &old) == EBUSY, "an error of the daemon");
	TAP_OK(call(fd, IB_USER_MAD_UNREGISTER_AGENT, &id) == EINVAL, "UNREGISTER_AGENT: EINVAL");
	id = 1;
	TAP_OK(!call(fd, IB_USER_MAD_UNREGISTER_AGENT, &id), "UNREGISTER_AGENT");
	TAP_OK(call(fd, IB_USER_MAD_ENABLE_PKEY, NULL) == EINVAL, "ENABLE_PKEY too late: EINVAL");
	TAP_OK(call(fd, 0x1b7f, NULL) == ENOTTY, "another request: ENOTTY");
	TAP_OK(call(fd, IB_USER_MAD_REGISTER_AGENT, NULL) == EFAULT, "no argument: EFAULT");
	close(fd);
}

static void test_formats(void)
{
	int fd = open_file(0);

	add_agent(fd);
	TAP_OK(exchange(fd, OLD) == OLD + MAD && hdr->length == OLD + MAD && data[OLD] == 1 &&
		       data[OLD + MAD - 1] == 0x5a,
	       "headers without P_Key index");
	close(fd);
	fd = open_file(O_NONBLOCK);
	call(fd, IB_USER_MAD_ENABLE_PKEY, NULL);
	add_agent(fd);
	TAP_OK(exchange(fd, NEW) == NEW + MAD && hdr->length == NEW + MAD && data[NEW] == 1 &&
		       data[NEW + MAD - 1] == 0x5a,
	       "headers with P_Key index");
	TAP_OK(write(fd, data, NEW + 35) == -1 && errno == EINVAL, "write of a short MAD: EINVAL");
	TAP_OK(write(fd, data, NEW + MAD + 1) == -1 && errno == EINVAL, "of a long one: EINVAL");
	TAP_OK(write(fd, data, NEW + 36) == NEW + 36, "of the least length");
	TAP_OK(read(fd, data, NEW + 23) == -1 && errno == EINVAL &&
		       read(fd, data, NEW + MAD - 1) == -1 && errno == EINVAL,
	       "read into too little memory: EINVAL");
	TAP_OK(read(fd, data, sizeof(data)) == NEW + MAD, "the MAD is still there");
	memset(data, 0, sizeof(data));
	hdr->sl = FAKE_TIMEOUT_SL;
	TAP_OK(write(fd, data, NEW + MAD) == NEW + MAD && read(fd, data, NEW + 24) == NEW + 24 &&
		       hdr->status == ETIMEDOUT && hdr->length == NEW + 24,
	       "a MAD without response");
	close(fd);
}

static void test_copies(void)
{
	int before = fds(), fd = open_file(0), copy = dup(fd), status, other;
	struct stat st;
	pid_t child;

	add_agent(fd);
	close(fd);
	TAP_OK(exchange(copy, OLD) == OLD + MAD, "a copy of the descriptor");
	child = fork();
	if (!child)
		_exit(exchange(copy, OLD) != OLD + MAD);
	TAP_OK(waitpid(child, &status, 0) == child && !status, "in a child");
	TAP_OK(exchange(copy, OLD) == OLD + MAD, "then in the parent again");
	/* without the knowledge of the library */
	syscall(SYS_close, copy);
	other = open("/dev/null", O_RDWR);
	TAP_OK(other <= copy && dup2(other, copy) == copy && write(copy, data, 5) == 5 &&
		       read(copy, data, 5) == 0 && !fstat(copy, &st) &&
		       st.st_rdev == makedev(1, 3) &&
		       call(copy, IB_USER_MAD_ENABLE_PKEY, NULL) == ENOTTY,
	       "a number that is used again is another file");
	close(copy);
	close(other);
	TAP_OK(fds() == before, "nothing is left");
}

static void test_daemon_ends(struct fixture *f)
{
	struct pollfd p = { .events = POLLIN, .fd = open_file(0) };

	add_agent(p.fd);
	fake_kill(&f->daemon);
	TAP_OK(poll(&p, 1, 10000) == 1 && p.revents & POLLHUP,
	       "poll reports the end of the daemon");
	TAP_OK(read(p.fd, data, sizeof(data)) == -1 && errno == EIO, "read: EIO");
	TAP_OK(write(p.fd, data, OLD + MAD) == -1 && errno == EIO, "write: EIO");
	TAP_OK(add_agent(p.fd) == EIO, "ioctl: EIO");
	close(p.fd);
	TAP_OK(open_file(0) == -1 && errno == ENOENT, "open: ENOENT");
}

int main(void)
{
	struct fixture f = { 0 };

	setup(&f);
	test_open();
	test_agents();
	test_formats();
	test_copies();
	test_daemon_ends(&f);
	teardown(&f);
	return tap_end();
}
