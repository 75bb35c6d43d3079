// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Import of PDs, regions and device memory of another client: tokens and lifetimes */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "control.h"

static int import_from(struct conn *c, const uint8_t *token)
{
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_IMPORT };

	memcpy(q.token, token, sizeof(q.token));
	connect_client(c);
	return ask(c, XR_MSG_HELLO, &q, sizeof(q));
}

static int import_mr(struct conn *c, uint32_t pd, uint32_t handle)
{
	struct xr_import_mr_req q = { .pd = pd, .handle = handle };

	return ask(c, XR_MSG_IMPORT_MR, &q, sizeof(q));
}

static void test_refused_import(struct conn *owner, const uint8_t *token)
{
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_IMPORT };
	uint8_t none[XR_TOKEN_LEN] = { 0 }, wrong[XR_TOKEN_LEN];
	struct conn c;

	memcpy(wrong, token, sizeof(wrong));
	wrong[XR_TOKEN_LEN - 1] ^= 1;
	TAP_OK(import_from(&c, wrong) == -ENOENT, "import: a wrong token is refused");
	disconnect(&c);
	TAP_OK(import_from(&c, none) == -ENOENT, "import: a token of zeros is refused");
	disconnect(&c);
	connect_client(&c);
	TAP_OK(ask(&c, XR_MSG_HELLO, &q, offsetof(struct xr_hello_req, token)) == -EINVAL,
	       "import: HELLO without a token is refused");
	disconnect(&c);
	owner->client->identity.uid++;
	TAP_OK(import_from(&c, token) == -ENOENT,
	       "import: a token of another user's client is refused");
	owner->client->identity.uid--;
	disconnect(&c);
}

static void test_import(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE), token[XR_TOKEN_LEN], b = 0;
	uint32_t pd, other, alias, number;
	struct xr_import_mr_rep theirs;
	struct xr_reg_mr_rep mr;
	struct conn owner, c;

	open_client(&owner);
	memcpy(token, owner.client->objects->import.token, sizeof(token));
	pd = alloc_pd(&owner);
	other = alloc_pd(&owner);
	proc_sent = false;
	MUST(!reg_private(&owner, pd, p, 100, RW));
	proc_sent = true;
	mr = mr_of(&owner);
	test_refused_import(&owner, token);
	TAP_OK(ask_handle(&owner, XR_MSG_IMPORT_PD, pd) == -ENOENT,
	       "import: a client that presented no token is refused");
	MUST(!import_from(&c, token));
	TAP_OK(ask_handle(&c, XR_MSG_IMPORT_PD, 99) == -ENOENT, "import: an unknown PD is refused");
	TAP_OK(!ask_handle(&c, XR_MSG_IMPORT_PD, pd), "import: a PD is imported");
	alias = handle_of(&c);
	TAP_OK(!import_mr(&c, alias, mr.handle), "import: a region is imported");
	theirs = *(struct xr_import_mr_rep *)c.body;
	TAP_OK(theirs.rkey == mr.rkey && theirs.length == 100 &&
		       !read_key(&c, alias, theirs.lkey, p, 1, &b),
	       "import: the keys of the imported region are valid");
	TAP_OK(import_mr(&c, alias, 99) == -ENOENT && import_mr(&c, 99, mr.handle) == -ENOENT,
	       "import: an unknown region or PD is refused");
	MUST(!ask_handle(&c, XR_MSG_IMPORT_PD, other));
	TAP_OK(import_mr(&c, handle_of(&c), mr.handle) == -EINVAL,
	       "import: a region of another PD is refused");
	number = ((struct xd_pd *)xd_object_get(c.client, XD_PD, alias))->id->number;
	close_client(&owner);
	TAP_OK(read_key(&c, alias, theirs.lkey, p, 1, &b) == -EACCES,
	       "import: an imported region ends with its owner");
	TAP_OK(ask_handle(&c, XR_MSG_IMPORT_PD, pd) == -ENOENT &&
		       import_mr(&c, alias, mr.handle) == -ENOENT,
	       "import: after the owner's end nothing can be imported");
	MUST(!ask(&c, XR_MSG_ALLOC_PD, NULL, 0));
	TAP_OK(((struct xd_pd *)xd_object_get(c.client, XD_PD, handle_of(&c)))->id->number !=
		       number,
	       "import: the number of an imported PD is not reused");
	disconnect(&c);
	munmap(p, PAGE);
	TAP_OK(nothing_left(), "nothing is left");
}

static int import_dm(struct conn *c, uint32_t handle, uint8_t **p)
{
	int err = ask_handle(c, XR_MSG_IMPORT_DM, handle);
	struct xr_shm_ref *ref = &((struct xr_import_dm_rep *)c->body)->memory;

	if (err)
		return err;
	MUST(c->nfds == 1 && ref->new_chunk);
	*p = mmap(NULL, ref->length, PROT_READ, MAP_SHARED, c->fds[0], (off_t)ref->offset);
	MUST(*p != MAP_FAILED);
	return 0;
}

/* The file that another process gets must contain no rings. */
static void test_import_dm(void)
{
	struct xr_alloc_dm_req q = { .length = 3 * PAGE };
	uint8_t token[XR_TOKEN_LEN], *p = NULL;
	struct xr_alloc_dm_rep dm;
	uint32_t queue_chunk;
	struct xd_dm *object;
	struct conn owner, c;

	open_client(&owner);
	memcpy(token, owner.client->objects->import.token, sizeof(token));
	create_cq(&owner, 16, 0);
	queue_chunk = ((struct xr_create_cq_rep *)owner.body)->ring.chunk;
	MUST(!ask(&owner, XR_MSG_ALLOC_DM, &q, sizeof(q)));
	dm = *(struct xr_alloc_dm_rep *)owner.body;
	object = xd_object_get(owner.client, XD_DM, dm.handle);
	TAP_OK(dm.memory.chunk != queue_chunk && dm.memory.new_chunk,
	       "import: device memory has a chunk of its own");
	TAP_OK(ask_handle(&owner, XR_MSG_IMPORT_DM, dm.handle) == -ENOENT,
	       "import: device memory without a token is refused");
	MUST(!import_from(&c, token));
	TAP_OK(import_dm(&c, dm.handle + 1, &p) == -ENOENT,
	       "import: unknown device memory is refused");
	memset(object->piece.ptr, 0x6b, 3 * PAGE);
	TAP_OK(!import_dm(&c, dm.handle, &p) && p[0] == 0x6b && p[3 * PAGE - 1] == 0x6b,
	       "import: device memory is imported");
	munmap(p, 3 * PAGE);
	TAP_OK(!import_dm(&c, dm.handle, &p), "import: device memory is imported again");
	close_client(&owner);
	TAP_OK(p[0] == 0x6b && import_dm(&c, dm.handle, &p) == -ENOENT,
	       "import: the mapping is valid after the owner's end");
	munmap(p, 3 * PAGE);
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("import");
	test_import();
	test_import_dm();

	fake_server_stop();
	return tap_end();
}
