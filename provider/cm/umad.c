// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>

#include "provider/base/cancel.h"
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/cm/numbers.h"
#include "provider/cm/umad.h"
#include "provider/control/runtime_dir.h"

#define MAD_LEN 256
#define MAD_HEADER_LEN 24 /* of a MAD without response */
#define MAD_RMPP_LEN 36	  /* least length of a MAD that is sent */

struct packet {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD_LEN];
};
_Static_assert(sizeof(struct packet) == XR_UMAD_LEN, "struct ib_user_mad");

/* Length of the headers that the program reads and writes. The old one begins the new one. */
static size_t header_len(bool with_pkey)
{
	return with_pkey ? sizeof(struct ib_user_mad_hdr) : sizeof(struct ib_user_mad_hdr_old);
}

/* ---- open ----------------------------------------------------------------------- */

/* The socket of a reply is closed by exec(), and blocks. */
static void umad_set_flags(int fd, int flags)
{
	if (flags & O_NONBLOCK)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	if (!(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
}

/* Returns the descriptor or -errno. */
static int connect_file(struct xp_cm_channel *ch, const char *device)
{
	char path[XP_SOCKET_PATH_MAX];
	int fd = -1, err;

	ch->umad = calloc(1, sizeof(*ch->umad));
	ch->sources = calloc(1, sizeof(*ch->sources));
	if (!ch->umad || !ch->sources)
		return -ENOMEM;
	ch->sources->kernel = -1;
	ch->sources->conn.fd = -1;
	err = xp_socket_path(path, xp_runtime_dir(), device);
	if (!err)
		err = xp_cm_source_connect(ch->sources, path, XR_HELLO_UMAD, &fd);
	if (err)
		return err;
	ch->umad->cookie = xp_cm_cookie(fd);
	err = ch->umad->cookie ? xp_cm_number_new(ch, fd) : -ENOTSOCK;
	if (err)
		close(fd);
	return err ? err : fd;
}

static int umad_open_file(const char *device, dev_t rdev, int flags)
{
	struct xp_cm_channel *ch = xp_cm_channel_new();
	int fd;

	if (!ch)
		return -ENOMEM;
	fd = connect_file(ch, device);
	if (fd < 0) {
		xp_cm_channel_free(ch);
		return fd;
	}
	ch->umad->rdev = rdev;
	umad_set_flags(fd, flags);
	return fd;
}

int xp_umad_open(const char *device, dev_t rdev, int flags)
{
	int cancel = xp_cancel_off(), fd;

	fd = umad_open_file(device, rdev, flags);
	xp_cancel_restore(cancel);
	return fd < 0 ? xp_fail(fd) : fd;
}

/* ---- requests ------------------------------------------------------------------- */

static int umad_call(struct xp_cm_channel *ch, struct xp_call *c)
{
	struct xp_conn *conn = &ch->sources->conn;
	int err;

	pthread_mutex_lock(&ch->lock);
	ch->umad->used = true;
	err = xp_conn_call(conn, c);
	if (err && conn->why[0])
		xp_debug("umad: %s: %s", strerror(-err), conn->why);
	if (conn->broken)
		err = -EIO;
	pthread_mutex_unlock(&ch->lock);
	return err;
}

int xp_umad_write(struct xp_cm_channel *ch, const void *data, size_t len)
{
	size_t header = header_len(ch->umad->with_pkey);
	struct packet p = { 0 };
	struct xp_call c = { .type = XR_MSG_UMAD_SEND, .req = &p, .req_len = sizeof(p) };

	if (len < header + MAD_RMPP_LEN || len > header + MAD_LEN)
		return -EINVAL;
	memcpy(&p.hdr, data, header);
	memcpy(p.mad, (const uint8_t *)data + header, len - header);
	return umad_call(ch, &c);
}

static int add_agent(struct xp_cm_channel *ch, const struct xr_umad_register_req *q, uint32_t *id)
{
	struct xr_umad_register_rep rep;
	struct xp_call c = { .type = XR_MSG_UMAD_REGISTER,
			     .req = q,
			     .req_len = sizeof(*q),
			     .rep = &rep,
			     .rep_len = sizeof(rep) };
	int err = umad_call(ch, &c);

	if (!err)
		*id = rep.id;
	return err;
}

static int register_agent(struct xp_cm_channel *ch, struct ib_user_mad_reg_req *r)
{
	struct xr_umad_register_req q = {
		.qpn = r->qpn,
		.mgmt_class = r->mgmt_class,
		.mgmt_class_version = r->mgmt_class_version,
		.rmpp_version = r->rmpp_version,
		.oui = { r->oui[0], r->oui[1], r->oui[2] },
	};

	memcpy(q.methods, r->method_mask, sizeof(q.methods));
	return add_agent(ch, &q, &r->id);
}

static int register_agent2(struct xp_cm_channel *ch, struct ib_user_mad_reg_req2 *r)
{
	const struct xr_umad_register_req q = {
		.methods = { r->method_mask[0], r->method_mask[1] },
		.qpn = r->qpn,
		.flags = r->flags,
		.mgmt_class = r->mgmt_class,
		.mgmt_class_version = r->mgmt_class_version,
		.rmpp_version = r->rmpp_version,
		.oui = { r->oui >> 16, r->oui >> 8, r->oui },
	};

	if (r->flags & ~IB_USER_MAD_REG_FLAGS_CAP) {
		r->flags = IB_USER_MAD_REG_FLAGS_CAP;
		return -EINVAL;
	}
	return add_agent(ch, &q, &r->id);
}

static int unregister_agent(struct xp_cm_channel *ch, const uint32_t *id)
{
	const struct xr_umad_agent q = { .id = *id };
	struct xp_call c = { .type = XR_MSG_UMAD_UNREGISTER, .req = &q, .req_len = sizeof(q) };

	return umad_call(ch, &c);
}

static int enable_pkey(struct xp_cm_channel *ch)
{
	int err = 0;

	pthread_mutex_lock(&ch->lock);
	if (ch->umad->used)
		err = -EINVAL;
	else
		ch->umad->with_pkey = true;
	pthread_mutex_unlock(&ch->lock);
	return err;
}

static int umad_execute(struct xp_cm_channel *ch, unsigned long request, void *arg)
{
	/* The kernel takes an int. */
	switch ((unsigned int)request) {
	case IB_USER_MAD_REGISTER_AGENT:
		return arg ? register_agent(ch, arg) : -EFAULT;
	case IB_USER_MAD_REGISTER_AGENT2:
		return arg ? register_agent2(ch, arg) : -EFAULT;
	case IB_USER_MAD_UNREGISTER_AGENT:
		return arg ? unregister_agent(ch, arg) : -EFAULT;
	case IB_USER_MAD_ENABLE_PKEY:
		return enable_pkey(ch);
	default:
		return -ENOTTY;
	}
}

bool xp_umad_ioctl(int fd, unsigned long request, void *arg, int *result)
{
	struct xp_cm_channel *ch = xp_cm_get(fd);
	bool umad = ch && ch->umad;
	int cancel, err;

	if (umad) {
		cancel = xp_cancel_off();
		err = umad_execute(ch, request, arg);
		*result = err ? xp_fail(err) : 0;
		xp_cancel_restore(cancel);
	}
	if (ch)
		xp_cm_put(ch);
	return umad;
}

/* ---- received MADs -------------------------------------------------------------- */

/* Reads a MAD as recv() does, but a daemon that has ended is an error, as in the kernel. */
static ssize_t umad_receive(int fd, struct packet *p, int flags)
{
	ssize_t n = recv(fd, p, sizeof(*p), flags);

	return n ? n : xp_fail(EIO);
}

/* A MAD that is longer than the program's memory stays in the queue. */
static ssize_t umad_read_file(int fd, bool with_pkey, uint8_t *data, size_t len)
{
	size_t header = header_len(with_pkey), mad;
	struct packet p;
	ssize_t n;

	if (len < header + MAD_HEADER_LEN)
		return xp_fail(EINVAL);
	if (len < header + MAD_LEN) {
		n = umad_receive(fd, &p, MSG_PEEK);
		if (n < 0)
			return n;
		if ((size_t)n - sizeof(p.hdr) > len - header)
			return xp_fail(EINVAL);
	}
	n = umad_receive(fd, &p, 0);
	if (n < 0)
		return n;
	mad = (size_t)n - sizeof(p.hdr);
	if (n < (ssize_t)sizeof(p.hdr) || mad > len - header)
		return xp_fail(EIO);
	p.hdr.length = header + mad;
	memcpy(data, &p.hdr, header);
	memcpy(data + header, p.mad, mad);
	return (ssize_t)(header + mad);
}

bool xp_umad_read(int fd, void *data, size_t len, ssize_t *result)
{
	struct xp_cm_channel *ch = xp_cm_get(fd);
	bool umad = ch && ch->umad, with_pkey = umad && ch->umad->with_pkey;

	if (ch)
		xp_cm_put(ch);
	if (umad)
		*result = umad_read_file(fd, with_pkey, data, len);
	return umad;
}
