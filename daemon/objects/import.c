// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "import.h"

#include <errno.h>
#include <sys/random.h>

#include "daemon/clients/request.h"
#include "dm.h"
#include "mr.h"
#include "objects.h"
#include "pd.h"

static bool import_has_token(const struct xd_client *c, const uint8_t *token)
{
	const struct xd_connection *con = &c->connection;
	uint8_t differs = 0;
	uint32_t i;

	for (i = 0; i < XR_TOKEN_LEN; i++)
		differs |= c->objects->import.token[i] ^ token[i];
	return !differs && con->hello && !con->observer && !con->channel && !c->ending;
}

int xd_import_hello(struct xd_client *c, const struct xd_request *req, const uint8_t **token)
{
	struct xd_import *import = &c->objects->import;
	const struct xr_hello_req *q = req->body;
	const struct xd_client *from;

	*token = import->token;
	if (q->flags & XR_HELLO_IMPORT) {
		if (req->length < sizeof(*q))
			return xd_refuse(c, -EINVAL, "no token");
		for (from = c->clients->first; from; from = from->next) {
			if (from->identity.uid == c->identity.uid &&
			    import_has_token(from, q->token))
				break;
		}
		if (!from)
			return xd_refuse(c, -ENOENT,
					 "the context of cmd_fd is closed, or of another user");
		import->exporter = from->id;
	}
	return getrandom(import->token, XR_TOKEN_LEN, 0) == XR_TOKEN_LEN ? 0 : -EIO;
}

static struct xd_client *exporter_of(const struct xd_client *c)
{
	uint32_t id = c->objects->import.exporter;
	struct xd_client *from = id ? c->clients->first : NULL;

	while (from && (from->id != id || from->ending))
		from = from->next;
	return from;
}

static int no_export(struct xd_client *c, const char *kind, uint32_t handle)
{
	return xd_refuse(c, -ENOENT,
			 "the exporting context is closed or has no %s with handle %u; objects of "
			 "a direct context cannot be imported (XROCE_PATH=daemon)",
			 kind, handle);
}

int xd_do_import_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_client *from = exporter_of(c);
	struct xd_pd *theirs = from ? xd_object_get(from, XD_PD, q->handle) : NULL, *pd;
	int err;

	if (!theirs)
		return no_export(c, "PD", q->handle);
	err = xd_pd_new(c, theirs->id, &pd);
	if (!err)
		XD_REPLY(rep, xr_handle_rep)->handle = pd->obj.handle;
	return err;
}

int xd_do_import_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_import_mr_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xd_client *from = exporter_of(c);
	struct xd_mr *mr = from ? xd_object_get(from, XD_MR, q->handle) : NULL;
	struct xr_import_mr_rep *r;

	if (!pd || !mr)
		return no_export(c, "region", q->handle);
	if (mr->pd->id != pd->id)
		return xd_refuse(c, -EINVAL, "the region was registered with another PD");
	r = XD_REPLY(rep, xr_import_mr_rep);
	r->lkey = xt_key_value(mr->key);
	r->rkey = xd_mr_rkey(mr);
	r->length = mr->length;
	r->iova = mr->iova;
	return 0;
}

int xd_do_import_dm(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_client *from = exporter_of(c);
	struct xd_dm *dm = from ? xd_object_get(from, XD_DM, q->handle) : NULL;

	if (!dm)
		return no_export(c, "device memory", q->handle);
	xd_shm_export(&dm->piece, &XD_REPLY(rep, xr_import_dm_rep)->memory, rep);
	return 0;
}
