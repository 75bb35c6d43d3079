// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys that work requests change: type 1 and type 2 windows, a region for fast registration, an
 * integrity region
 */
#include <errno.h>

#include "world.h"

/* Returns the client's memory at an address. Only the pages of REG_ALL exist. */
static uint8_t *page_at(struct world *w, uint64_t addr, size_t len)
{
	const struct region *r = &w->region[REG_ALL];

	return addr >= FAST_BASE && addr - FAST_BASE <= r->size &&
			       len <= r->size - (addr - FAST_BASE)
		       ? r->bytes + (addr - FAST_BASE)
		       : NULL;
}

static struct world *world_of(struct xt_mem *mem)
{
	return (struct world *)((uint8_t *)mem - offsetof(struct world, fast_mem));
}

static int page_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	const uint8_t *p = page_at(world_of(mem), seg->addr + off, len);

	MUST(off <= seg->len && len <= seg->len - off);
	if (p)
		memmove(dst, p, len);
	return p ? 0 : -EFAULT;
}

static int page_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	uint8_t *p = page_at(world_of(mem), seg->addr + off, len);

	MUST(off <= seg->len && len <= seg->len - off);
	if (p)
		/* src can overlap, because regions share memory; pwrite() allows that, too */
		memmove(p, src, len);
	return p ? 0 : -EFAULT;
}

static const struct xt_mem_ops no_ops;
static const struct xt_mem_ops page_ops = { .read = page_read, .write = page_write };

static struct xt_key *new_key(struct world *w, uint8_t type, uint8_t flags)
{
	struct xt_key *key = xt_keys_alloc(w->keys);

	MUST(key);
	key->entry.pd = PD_CLIENT;
	key->entry.type = type;
	key->entry.flags = flags;
	return key;
}

void world_add_changing(struct world *w)
{
	w->changing[CHANGING_WINDOW_1] = new_key(w, XR_KEY_MW, 0);
	w->changing[CHANGING_WINDOW_2] = new_key(w, XR_KEY_MW, XR_KEYF_TYPE_2);
	w->changing[CHANGING_FAST] = new_key(w, XR_KEY_MR, XR_KEYF_FAST);
	w->fast_mem = (struct xt_mem){ .ops = &page_ops, .seg = w->fast_seg };
	w->changing[CHANGING_FAST]->mem = &w->fast_mem;
	w->changing[CHANGING_FAST]->pages = w->fast_lists;
	w->changing[CHANGING_FAST]->max_pages = FAST_PAGES;
	w->changing[CHANGING_FAST]->piece = w->fast_piece;
	w->changing[CHANGING_INTEGRITY] = new_key(w, XR_KEY_MR, XR_KEYF_INTEGRITY);
	w->integrity = (struct xt_integrity){ .keys = w->keys,
					      .shared = &w->integrity_shared.shared,
					      .max_pieces = INTEGRITY_PIECES,
					      .piece = w->integrity_piece };
	w->integrity_mem = (struct xt_mem){ .ops = &no_ops, .integrity = &w->integrity };
	w->changing[CHANGING_INTEGRITY]->mem = &w->integrity_mem;
}

/* Checks, after all QPs are destroyed, that type 2 windows are free and window counters are 0. */
void world_end_changing(struct world *w)
{
	MUST(w->changing[CHANGING_WINDOW_2]->entry.state == XR_KEY_FREE);
	xt_window_unbind(&w->shared, w->changing[CHANGING_WINDOW_1]);
	for (unsigned i = 0; i < REG_TOTAL; i++)
		MUST(!w->region[i].live || !w->region[i].live->windows);
	MUST(!w->changing[CHANGING_FAST]->windows);
	for (unsigned i = 0; i < CHANGING_COUNT; i++)
		xt_keys_release(w->keys, w->changing[i]);
}

struct xr_sge world_changing_sge(const struct world *w, unsigned which, struct stream *in)
{
	const struct xt_key *key = w->changing[which % CHANGING_COUNT];
	struct xr_sge sge = { .lkey = xt_key_value(key) };

	sge.addr = key->entry.va + input_u8(in);
	sge.length = input_u16(in);
	return sge;
}

static void add_bind(struct world *w, struct xr_send_wqe *wqe, struct stream *in)
{
	const struct xt_key *window = w->changing[input_u8(in) % CHANGING_COUNT];
	unsigned from = input_u8(in) % (REG_TOTAL + 1);
	const struct xt_key *fast = w->changing[CHANGING_FAST];
	uint32_t key = xt_key_value(window);

	wqe->opcode = XR_WR_BIND_MW;
	wqe->bind.mw_rkey = key;
	wqe->bind.new_rkey = XR_KEY(window->index, (key + input_u8(in)) & 0xff);
	wqe->bind.mr_lkey = from < REG_TOTAL ? w->region[from].key : xt_key_value(fast);
	wqe->bind.access = input_u8(in);
	wqe->remote_addr = from < REG_TOTAL ? w->region[from].va : fast->entry.va;
	wqe->remote_addr += (uint64_t)(int16_t)input_u16(in);
	wqe->bind_len = input_u16(in);
}

static void add_reg(struct world *w, struct xr_send_wqe *wqe, struct stream *in)
{
	const struct xt_key *key = w->changing[CHANGING_FAST];
	uint8_t how = input_u8(in);

	wqe->opcode = XR_WR_REG_MR;
	wqe->reg.key = XR_KEY(key->index, input_u8(in));
	wqe->reg.access = input_u8(in);
	wqe->reg.pages = 1 + how % (FAST_PAGES + 1);
	wqe->reg.list = how >> 4 & 3;
	wqe->reg.page_shift = how & 0x80 ? input_u8(in) : XR_FAST_SHIFT_MIN;
	wqe->remote_addr = input_u16(in);
	wqe->bind_len = input_u16(in);
	/* a client can write its page lists at any time */
	for (unsigned i = 0; i < FAST_PAGES && how & 0x40; i++) {
		uint8_t place = input_u8(in) % (XR_FAST_LISTS * FAST_PAGES);

		w->fast_lists[place] = FAST_BASE + (uint64_t)input_u8(in) * 2048;
	}
}

/* Usual signatures and block sizes, or any; pieces in regions, or anywhere */
static void fill_integrity(struct world *w, struct xr_send_wqe *wqe, struct stream *in)
{
	static const uint16_t sizes[] = { 512, 520, 4096, 4104 };
	struct xr_integrity_list *l = xr_integrity_list(
		&w->integrity_shared.shared, wqe->reg.list % XR_FAST_LISTS, INTEGRITY_PIECES);
	uint8_t how = input_u8(in), n = 1 + (how >> 2 & 3), types = input_u8(in);
	const struct region *r;

	*l = (struct xr_integrity_list){ .block = sizes[how & 3], .data_pieces = 1 };
	l->memory = (struct xr_signature){ .type = types & 7, .check = types >> 3 & 1 };
	l->wire = (struct xr_signature){ .type = types >> 4 & 7, .check = types >> 7 };
	r = &w->region[input_u8(in) % REG_TOTAL];
	l->piece[0] = (struct xr_sge){ r->va + input_u8(in), 0, r->key };
	l->piece[0].length = n * (l->block + xr_signature_len(l->memory.type));
	wqe->bind_len = n * (l->block + xr_signature_len(l->wire.type));
	if (how & 0x40) {
		l->data_pieces = input_u8(in) % (INTEGRITY_PIECES + 2);
		l->pi_pieces = input_u8(in) % (INTEGRITY_PIECES + 2);
		l->piece[0].length = input_u16(in);
		for (unsigned i = 1; i < INTEGRITY_PIECES; i++)
			l->piece[i] = world_changing_sge(w, input_u8(in), in);
	}
	if (how & 0x80)
		l->block = input_u16(in);
}

static void add_reg_integrity(struct world *w, struct xr_send_wqe *wqe, struct stream *in)
{
	const struct xt_key *key = w->changing[CHANGING_INTEGRITY];

	wqe->opcode = XR_WR_REG_INTEGRITY;
	wqe->reg.key = XR_KEY(key->index, input_u8(in));
	wqe->reg.access = input_u8(in);
	wqe->reg.list = input_u8(in) & 3;
	wqe->remote_addr = input_u16(in);
	fill_integrity(w, wqe, in);
}

void world_add_key_work(struct world *w, struct xr_send_wqe *wqe, struct stream *in)
{
	uint8_t how = input_u8(in);

	switch (how & 3) {
	case 0:
		add_bind(w, wqe, in);
		return;
	case 1:
		if (how & 4)
			add_reg_integrity(w, wqe, in);
		else
			add_reg(w, wqe, in);
		return;
	case 2:
		wqe->opcode = XR_WR_LOCAL_INV;
		break;
	default:
		wqe->opcode = XR_WR_SEND_WITH_INV;
		break;
	}
	wqe->invalidate_rkey = xt_key_value(w->changing[(how >> 2) % CHANGING_COUNT]) ^
			       (how & 0x80 ? input_u8(in) : 0);
}
