// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The memory of contexts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/base/libibverbs.h"
#include "provider/verbs/context.h"
#include "provider/verbs/context_alloc.h"
#include "provider/verbs/direct_path.h"
#include "provider/verbs/device.h"
#include "provider/verbs/event_socket.h"

/* Space for struct verbs_context, whose size depends on the installed libibverbs */
#define VERBS_CONTEXT_MAX 4096

ptrdiff_t xp_context_distance;

/*
 * Lets libibverbs allocate the context, with operations that refuse the verbs that this library
 * lacks. The block starts with `front` bytes for struct xp_context.
 * Where struct ibv_context starts depends on the release; it is found by its device and size
 * fields.
 */
static void *alloc_by_libibverbs(struct ibv_device *ibdev, size_t front, struct ibv_context **ibctx)
{
	void *(*init)(struct ibv_device *, int, size_t, struct verbs_context *,
		      uint32_t) = xp_libibverbs_symbol("_verbs_init_and_alloc_context", NULL);
	struct ibv_context *c;
	uint8_t *block;
	size_t off, sz;

	if (!init)
		return NULL;
	block = init(ibdev, -1, front + VERBS_CONTEXT_MAX, (struct verbs_context *)front, 0);
	if (!block)
		return NULL;
	for (off = front + sizeof(sz); off + sizeof(*c) <= front + VERBS_CONTEXT_MAX;
	     off += sizeof(void *)) {
		c = (struct ibv_context *)(block + off);
		memcpy(&sz, block + off - sizeof(sz), sizeof(sz));
		if (c->device == ibdev && c->abi_compat == __VERBS_ABI_IS_EXTENDED &&
		    sz == off - front + sizeof(*c)) {
			*ibctx = c;
			return block;
		}
	}
	free(block);
	return NULL;
}

/* For releases without that function. Operations that this library lacks stay NULL. */
static void *alloc_without_libibverbs(struct ibv_device *ibdev, size_t front,
				      struct ibv_context **ibctx)
{
	uint8_t *block = calloc(1, front + sizeof(struct verbs_context));
	struct verbs_context *v;

	if (!block)
		return NULL;
	v = (struct verbs_context *)(block + front);
	v->sz = sizeof(*v);
	v->context.device = ibdev;
	v->context.cmd_fd = -1;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&v->context.mutex, NULL);
	*ibctx = &v->context;
	return block;
}

struct xp_context *xp_context_alloc(struct xp_device *dev)
{
	size_t front = (sizeof(struct xp_context) + 63) & ~(size_t)63;
	struct ibv_context *ibctx;
	struct xp_context *ctx;
	void *block;

	block = alloc_by_libibverbs(&dev->ibdev, front, &ibctx);
	if (!block)
		block = alloc_without_libibverbs(&dev->ibdev, front, &ibctx);
	if (!block)
		return NULL;
	ctx = block;
	ctx->block = block;
	ctx->ibctx = ctx->shown = ibctx;
	ctx->dev = dev;
	ctx->conn.fd = -1;
	ctx->uffd_device = -1;
	ctx->token_fd = -1;
	pthread_mutex_init(&ctx->conn_lock, NULL);
	xp_context_distance = (char *)ibctx - (char *)ctx;
	return ctx;
}

void xp_context_free(struct xp_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx->ibctx);
	unsigned int i;

	xp_direct_path_close(ctx);
	xp_conn_close(&ctx->conn);
	xp_event_socket_free(ctx->async);
	xp_shm_unmap_all(&ctx->shm);
	for (i = 0; ctx->wake && i < ctx->workers; i++)
		close(ctx->wake[i]);
	free(ctx->wake);
	if (ctx->uffd_device >= 0)
		close(ctx->uffd_device);
	if (ctx->token_fd >= 0)
		close(ctx->token_fd);
	pthread_mutex_destroy(&ctx->conn_lock);
	pthread_mutex_destroy(&ctx->ibctx->mutex);
	free(v->priv);
	free(ctx->block);
}
