// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cm_calls.h"

#include <dirent.h>
#include <netinet/in.h>

/* Writes a command. Returns 0 or -errno. */
#define COMMAND(fd, number, body, reply)                                                           \
	({                                                                                         \
		struct {                                                                           \
			struct rdma_ucm_cmd_hdr head;                                              \
			__typeof__(body) b;                                                        \
		} __attribute__((packed))                                                          \
		cmd_ = { { number, sizeof(body), sizeof(reply) }, body };                          \
		ssize_t n_ = write(fd, &cmd_, sizeof(cmd_));                                       \
		n_ == sizeof(cmd_) ? 0 : n_ < 0 ? -errno : -ENODATA;                               \
	})

void cm_directory(char dir[64])
{
	snprintf(dir, 64, "/tmp/xroce-test-XXXXXX");
	if (!mkdtemp(dir)) {
		perror("mkdtemp");
		exit(1);
	}
	setenv("XROCE_RUNTIME_DIR", dir, 1);
}

void cm_remove_directory(const char *dir)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

int cm_open(void)
{
	int fd = open(CM_DEVICE, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int cm_create(int fd, uint64_t uid)
{
	struct rdma_ucm_create_id_resp rep = { 0 };
	struct rdma_ucm_create_id req = {
		.uid = uid, .response = (uintptr_t)&rep, .ps = RDMA_PS_TCP, .qp_type = 2
	};

	return COMMAND(fd, RDMA_USER_CM_CMD_CREATE_ID, req, rep) ?: (int)rep.id;
}

static int destroy(int fd, uint32_t cmd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp rep = { 0 };
	struct rdma_ucm_destroy_id req = { .response = (uintptr_t)&rep, .id = id };

	return COMMAND(fd, cmd, req, rep) ?: (int)rep.events_reported;
}

int cm_destroy(int fd, uint32_t id)
{
	return destroy(fd, RDMA_USER_CM_CMD_DESTROY_ID, id);
}

int cm_leave(int fd, uint32_t group)
{
	return destroy(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, group);
}

static struct sockaddr_in inet(uint32_t ip, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(ip) };
}

int cm_bind(int fd, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_bind req = { .id = id, .addr_size = sizeof(struct sockaddr_in) };
	struct sockaddr_in a = inet(ip, port);
	char none[0];

	memcpy(&req.addr, &a, sizeof(a));
	return COMMAND(fd, RDMA_USER_CM_CMD_BIND, req, none);
}

int cm_bind_ip(int fd, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_bind_ip req = { .id = id };
	struct sockaddr_in a = inet(ip, port);
	char none[0];

	memcpy(&req.addr, &a, sizeof(a));
	return COMMAND(fd, RDMA_USER_CM_CMD_BIND_IP, req, none);
}

int cm_resolve(int fd, uint32_t id, uint32_t ip)
{
	struct rdma_ucm_resolve_addr req = { .id = id, .dst_size = sizeof(struct sockaddr_in) };
	struct sockaddr_in a = inet(ip, 1);
	char none[0];

	memcpy(&req.dst_addr, &a, sizeof(a));
	return COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, req, none);
}

int cm_listen(int fd, uint32_t id)
{
	struct rdma_ucm_listen req = { .id = id, .backlog = 5 };
	char none[0];

	return COMMAND(fd, RDMA_USER_CM_CMD_LISTEN, req, none);
}

int cm_accept(int fd, uint32_t id, uint64_t uid)
{
	struct rdma_ucm_accept req = { .id = id, .uid = uid, .conn_param.valid = 1 };
	char none[0];

	return COMMAND(fd, RDMA_USER_CM_CMD_ACCEPT, req, none);
}

int cm_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect req = { .id = id };
	char none[0];

	return COMMAND(fd, RDMA_USER_CM_CMD_DISCONNECT, req, none);
}

int cm_join(int fd, uint32_t id, uint64_t uid)
{
	struct rdma_ucm_create_id_resp rep = { 0 };
	struct rdma_ucm_join_mcast req = { .response = (uintptr_t)&rep, .uid = uid, .id = id };

	return COMMAND(fd, RDMA_USER_CM_CMD_JOIN_MCAST, req, rep) ?: (int)rep.id;
}

int cm_set_option(int fd, uint32_t id, uint32_t value)
{
	struct rdma_ucm_set_option req = {
		.optval = (uintptr_t)&value, .id = id, .optname = 1, .optlen = sizeof(value)
	};
	char none[0];

	return COMMAND(fd, RDMA_USER_CM_CMD_SET_OPTION, req, none);
}

int cm_migrate(int to, int from, uint32_t id)
{
	struct rdma_ucm_migrate_resp rep = { 0 };
	struct rdma_ucm_migrate_id req = { .response = (uintptr_t)&rep, .id = id, .fd = from };

	return COMMAND(to, RDMA_USER_CM_CMD_MIGRATE_ID, req, rep) ?: (int)rep.events_reported;
}

int cm_port(int fd, uint32_t id)
{
	struct rdma_ucm_query_addr_resp rep = { 0 };
	struct rdma_ucm_query req = { .response = (uintptr_t)&rep,
				      .id = id,
				      .option = RDMA_USER_CM_QUERY_ADDR };
	struct sockaddr_in a;
	int err = COMMAND(fd, RDMA_USER_CM_CMD_QUERY, req, rep);

	memcpy(&a, &rep.src_addr, sizeof(a));
	return err ?: ntohs(a.sin_port);
}

int cm_event(int fd, struct rdma_ucm_event_resp *ev)
{
	struct rdma_ucm_get_event req = { .response = (uintptr_t)ev };

	memset(ev, 0, sizeof(*ev));
	return COMMAND(fd, RDMA_USER_CM_CMD_GET_EVENT, req, *ev) ?: (int)ev->event;
}

bool cm_readable(int fd, int timeout_ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, timeout_ms) == 1 && p.revents & POLLIN;
}

void cm_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

unsigned int cm_open_fds(void)
{
	unsigned int n = 0;
	DIR *d = opendir("/proc/self/fd");

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 3; /* `.`, `..` and the directory itself */
}
