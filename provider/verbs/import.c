// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sharing between processes of one user. A context's cmd_fd is a file with the token that the daemon gave
 * it. Who shows the token opens a context of its own, which may name the first one's
 * PDs and regions. What is imported belongs to its owner: here it is only let go of.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/provider.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct ticket {
	char magic[16];
	char path[108]; /* of the control socket */
	uint8_t token[XR_TOKEN_LEN];
};
#define MAGIC "xroce context 1"

int xp_make_ticket(const struct xp_device *dev, const uint8_t *token)
{
	struct ticket t = { .magic = MAGIC };
	int fd = memfd_create("xroce-context", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	memcpy(t.path, dev->path, sizeof(t.path));
	memcpy(t.token, token, sizeof(t.token));
	if (write(fd, &t, sizeof(t)) == sizeof(t) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

/* A sealed file: reading it cannot hang, as reading any other descriptor could. */
static bool read_ticket(int fd, struct ticket *t)
{
	return fcntl(fd, F_GET_SEALS) == SEALS && pread(fd, t, sizeof(*t), 0) == sizeof(*t) &&
	       !memcmp(t->magic, MAGIC, sizeof(t->magic)) && memchr(t->path, 0, sizeof(t->path));
}

bool xp_is_ticket(int fd)
{
	struct ticket t;

	return read_ticket(fd, &t);
}

bool xp_read_token(int fd, uint8_t token[XR_TOKEN_LEN])
{
	struct ticket t;

	if (!read_ticket(fd, &t))
		return false;
	memcpy(token, t.token, sizeof(t.token));
	return true;
}

struct ibv_context *xp_import_device(int fd)
{
	struct ibv_device **list;
	struct ibv_context *ibctx = NULL;
	struct ticket t;
	int i, err = ENODEV;

	if (!read_ticket(fd, &t))
		return xp_null(EINVAL);
	list = xp_get_device_list(NULL);
	if (!list)
		return NULL;
	for (i = 0; list[i] && !ibctx; i++) {
		if (!xp_is_our_device(list[i]) ||
		    strcmp(((struct xp_device *)list[i])->path, t.path))
			continue;
		ibctx = xp_open_by_token(list[i], t.token);
		err = errno;
	}
	xp_free_device_list(list);
	if (!ibctx)
		return xp_null(err);
	/* the context has its own, and is to close this one */
	close(fd);
	return ibctx;
}

struct ibv_pd *xp_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	struct xr_handle_req req = { .handle = handle };
	struct xp_pd *pd = calloc(1, sizeof(*pd));
	struct xr_handle_rep rep;
	int err;

	if (!pd)
		return xp_null(ENOMEM);
	ibctx = xp_here(ibctx);
	err = xp_request(xp_ctx(ibctx), XR_MSG_IMPORT_PD, &req, sizeof(req), &rep, sizeof(rep));
	if (err) {
		free(pd);
		return xp_null(err);
	}
	pd->ibpd.context = ibctx;
	pd->ibpd.handle = rep.handle;
	return &pd->ibpd;
}

/*
 * Cannot fail: where objects are left in it, the daemon's part goes with the connection; a parent
 * domain keeps the domain that it is made of.
 */
void xp_unimport_pd(struct ibv_pd *pd)
{
	if (xp_pd(pd)->below)
		xp_dealloc_pd(pd);
	else
		xp_pd_abandon(pd);
}

struct ibv_mr *xp_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct xr_import_mr_req req = { .pd = pd->handle, .handle = handle };
	struct xp_mr *mr = calloc(1, sizeof(*mr));
	struct xr_import_mr_rep rep;
	int err;

	if (!mr)
		return xp_null(ENOMEM);
	err = xp_request(xp_ctx(pd->context), XR_MSG_IMPORT_MR, &req, sizeof(req), &rep,
			 sizeof(rep));
	if (err) {
		free(mr);
		return xp_null(err);
	}
	mr->ibmr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.length = rep.length,
		.handle = handle,
		.lkey = rep.lkey,
		.rkey = rep.rkey,
	};
	mr->fixed = true;
	mr->imported = true;
	return &mr->ibmr;
}

void xp_unimport_mr(struct ibv_mr *ibmr)
{
	free(ibmr);
}
