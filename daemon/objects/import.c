// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Clients that share: who shows a connection's token, and is of its user, may name its PDs, regions and
 * device memory. Domains are shared for as long as anybody has them. The rest goes with its owner.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "objects.h"

static bool has_token(const struct xd_client *c, const uint8_t *token)
{
	uint8_t differs = 0;
	uint32_t i;

	for (i = 0; i < XR_TOKEN_LEN; i++)
		differs |= c->token[i] ^ token[i];
	return !differs && c->hello && !c->observer && !c->ending;
}

int xd_import_hello(struct xd_client *c, const struct xd_request *req)
{
	const struct xr_hello_req *q = req->body;
	struct xd_client *other;

	if (q->flags & XR_HELLO_IMPORT) {
		if (req->length < sizeof(*q))
			return -EINVAL;
		for (other = c->server->clients; other; other = other->next) {
			if (other->uid == c->uid && has_token(other, q->token))
				break;
		}
		if (!other)
			return -ENOENT;
		c->exporter = other->id;
	}
	return getrandom(c->token, sizeof(c->token), 0) == sizeof(c->token) ? 0 : -EIO;
}

static struct xd_client *exporter_of(const struct xd_client *c)
{
	struct xd_client *other = c->exporter ? c->server->clients : NULL;

	while (other && (other->id != c->exporter || other->ending))
		other = other->next;
	return other;
}

int xd_do_import_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_client *from = exporter_of(c);
	struct xd_pd *theirs = from ? xd_object_get(from, XD_PD, q->handle) : NULL, *pd;
	int err;

	if (!theirs)
		return -ENOENT;
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
		return -ENOENT;
	if (mr->pd->id != pd->id)
		return -EINVAL;
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
		return -ENOENT;
	xd_shm_export(&dm->piece, &XD_REPLY(rep, xr_import_dm_rep)->memory, rep);
	return 0;
}
