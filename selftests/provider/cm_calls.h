/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands of rdma_cm as librdmacm writes them. Functions return 0 or a value, or -errno. */
#ifndef CM_CALLS_H
#define CM_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

#include "fake_cm.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"
#define IP(d) (0x0a000000u + (d)) /* 10.x.x.x */
#define NET_A IP(0x0101)	  /* addresses of the fake daemons */
#define NET_B IP(0x0201)
#define LOOPBACK 0x7f000001u

#define CONNECT_REQUEST 4
#define ESTABLISHED 9
#define DISCONNECTED 10
#define DEVICE_REMOVAL 11
#define MULTICAST_JOIN 12

/* Makes a runtime directory and sets XROCE_RUNTIME_DIR. */
void cm_directory(char dir[64]);
void cm_remove_directory(const char *dir);

int cm_open(void);
int cm_create(int fd, uint64_t uid);
/* Returns the number of events reported. */
int cm_destroy(int fd, uint32_t id);
int cm_bind(int fd, uint32_t id, uint32_t ip, uint16_t port);
int cm_bind_ip(int fd, uint32_t id, uint32_t ip, uint16_t port);
int cm_resolve(int fd, uint32_t id, uint32_t ip);
int cm_listen(int fd, uint32_t id);
int cm_accept(int fd, uint32_t id, uint64_t uid);
int cm_disconnect(int fd, uint32_t id);
/* Returns the number of the group. */
int cm_join(int fd, uint32_t id, uint64_t uid);
int cm_leave(int fd, uint32_t group);
int cm_set_option(int fd, uint32_t id, uint32_t value);
int cm_migrate(int to, int from, uint32_t id);
/* Returns the port. */
int cm_port(int fd, uint32_t id);
/* Returns the type of the event. */
int cm_event(int fd, struct rdma_ucm_event_resp *ev);

bool cm_readable(int fd, int timeout_ms);
void cm_nonblock(int fd, bool on);
/* Returns the number of open descriptors of this process. */
unsigned int cm_open_fds(void);

#endif /* CM_CALLS_H */
