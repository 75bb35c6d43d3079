// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/clients/programs.h"
#include "daemon/clients/request.h"
#include "server.h"

/* Attempts to read a record that the program does not change meanwhile */
#define TRIES 4
#define CHUNK 32768u
/* Parsers of JSON refuse larger numbers. */
#define MOST ((uint64_t)INT64_MAX)

/* ---- reading ------------------------------------------------------------------------------ */

static bool view_read_at(const struct xd_view *v, uint64_t off, void *to, size_t size)
{
	return pread(v->fd, to, size, (off_t)off) == (ssize_t)size;
}

/* The sequence word is the first one. */
static bool is_stable(const void *a, const void *b, size_t size)
{
	return !(*(const uint32_t *)a & 1) && !memcmp(a, b, size);
}

/* a and b: what was read at `off` first and then. b gets a stable record, or the last copy. */
static void view_settle(const struct xd_view *v, uint64_t off, void *a, void *b, size_t size)
{
	for (int i = 0; i < TRIES && !is_stable(a, b, size); i++) {
		memcpy(a, b, size);
		if (!view_read_at(v, off, b, size))
			return;
	}
}

static const struct room {
	uint64_t off;
	uint32_t size, records;
} rooms[XR_VIEW_LIST_COUNT] = {
#define X(NAME, name, records)                                                                     \
	[XR_VIEW_##NAME] = { offsetof(struct xr_view_file, name), sizeof(struct xr_view_##name),   \
			     records },
	XR_VIEW_LISTS(X)
#undef X
};

static void read_header(const struct xd_view *v, struct xr_view *header)
{
	if (!view_read_at(v, 0, header, offsetof(struct xr_view, sums)))
		memset(header, 0, sizeof(*header));
}

bool xd_view_piece(const struct xd_view *v, enum xr_view_list list, uint32_t *index, xd_view_fn *fn,
		   void *arg)
{
	/* Only the control thread reads. */
	static _Alignas(8) uint8_t first[CHUNK], second[CHUNK];
	const struct room *room = &rooms[list];
	const uint64_t off = room->off + (uint64_t)*index * room->size;
	uint32_t i, n = CHUNK / room->size, end;
	struct xr_view header;

	read_header(v, &header);
	end = header.end[list] < room->records ? header.end[list] : room->records;
	if (*index >= end)
		return false;
	n = n < XD_VIEW_PIECE ? n : XD_VIEW_PIECE;
	n = n < end - *index ? n : end - *index;
	if (!view_read_at(v, off, first, (size_t)n * room->size) ||
	    !view_read_at(v, off, second, (size_t)n * room->size))
		return false;
	for (i = 0; i < n; i++) {
		uint8_t *b = second + i * room->size;

		view_settle(v, off + i * room->size, first + i * room->size, b, room->size);
		if (((const uint32_t *)b)[1])
			fn(arg, *index + i, b);
	}
	*index += n;
	return true;
}

void xd_view_each(const struct xd_view *v, enum xr_view_list list, xd_view_fn *fn, void *arg)
{
	uint32_t index = 0;

	while (xd_view_piece(v, list, &index, fn, arg))
		;
}

uint64_t xd_view_created(enum xr_view_list list, const void *record)
{
	static const size_t at[XR_VIEW_LIST_COUNT] = {
#define X(NAME, name, records) [XR_VIEW_##NAME] = offsetof(struct xr_view_##name, created),
		XR_VIEW_LISTS(X)
#undef X
	};
	uint64_t created;

	memcpy(&created, (const uint8_t *)record + at[list], sizeof(created));
	return created;
}

/* Each record has the number or handle of its object at the same place. */
uint32_t xd_view_number(const void *record)
{
	_Static_assert(offsetof(struct xr_view_qp, qpn) == 8 &&
			       offsetof(struct xr_view_srq, srq) == 8 &&
			       offsetof(struct xr_view_cq, cq) == 8 &&
			       offsetof(struct xr_view_mr, key) == 8 &&
			       offsetof(struct xr_view_mw, key) == 8 &&
			       offsetof(struct xr_view_ah, ah) == 8 &&
			       offsetof(struct xr_view_dm, dm) == 8 &&
			       offsetof(struct xr_view_xrcd, xrcd) == 8,
		       "place of the numbers");
	return ((const uint32_t *)record)[2];
}

uint32_t xd_view_changes(const struct xd_view *v)
{
	struct xr_view header;

	read_header(v, &header);
	return header.changes;
}

/* What the program has not claimed does not exist for others. */
uint32_t xd_view_objects(const struct xd_client *c, uint32_t kind)
{
	uint32_t claimed = xd_claimed(c, kind);
	struct xr_view header;

	if (!claimed || !c->view)
		return claimed;
	read_header(c->view, &header);
	return header.objects[kind] < claimed ? header.objects[kind] : claimed;
}

uint64_t xd_views_objects(const struct xd_clients *cs, const struct xd_user *u, uint32_t kind)
{
	uint64_t n = 0;

	for (const struct xd_client *c = cs->first; c; c = c->next)
		if (!u || c->user == u)
			n += xd_view_objects(c, kind);
	return n;
}

/* ---- open --------------------------------------------------------------------------------- */

/* A file that could be truncated, or that another process serves, could let pread() wait. */
static bool server_is_view(struct xd_view *v)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	int present = fcntl(v->fd, F_GET_SEALS);
	struct xr_view header;
	struct stat st;

	if (present < 0 || (present & seals) != seals || fstat(v->fd, &st))
		return false;
	v->rings = st.st_size == (off_t)XR_VIEW_SIZE_RINGS;
	if (!v->rings && st.st_size != (off_t)XR_VIEW_SIZE)
		return false;
	/* The program stores the magic number when its host begins. */
	read_header(v, &header);
	return !header.layout || header.layout == XR_VIEW_LAYOUT;
}

int xd_view_open(struct xd_client *c, int *fd)
{
	struct xd_view *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	v->fd = *fd;
	if (!server_is_view(v)) {
		free(v);
		return xd_refuse(c, -EINVAL, "the descriptor is not a view of version " XR_VERSION);
	}
	err = xd_user_take_fds(c, 1);
	if (err) {
		free(v);
		return err;
	}
	*fd = -1;
	c->view = v;
	return 0;
}

/* ---- sums --------------------------------------------------------------------------------- */

/* sum += n, up to the largest number that JSON can have */
static void view_add(uint64_t *sum, const uint64_t *n, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		sum[i] = n[i] > MOST - sum[i] ? MOST : sum[i] + n[i];
}

/* Counters do not decrease, whatever the program stores. */
static void keep_larger(uint64_t *known, const uint64_t *n, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (n[i] > known[i])
			known[i] = n[i] > MOST ? MOST : n[i];
}

#define WORDS(part) ((uint32_t)(sizeof(part) / (sizeof(uint64_t))))

static const struct xr_view_sums *take_sums(const struct xd_view *v)
{
	static struct xr_view_sums first, second;
	const uint64_t off = offsetof(struct xr_view, sums);

	if (!view_read_at(v, off, &first, sizeof(first)) ||
	    !view_read_at(v, off, &second, sizeof(second)))
		return NULL;
	view_settle(v, off, &first, &second, sizeof(first));
	return &second;
}

bool xd_view_faults(const struct xd_client *c, uint32_t seq, struct xr_view_fault *hits)
{
	const struct xr_view_sums *sums = c->view ? take_sums(c->view) : NULL;

	if (!sums || sums->fault_seq != seq)
		return false;
	memcpy(hits, sums->fault, sizeof(sums->fault));
	return true;
}

static void read_sums(struct xd_view *v)
{
	const struct xr_view_sums *present = take_sums(v);

	if (!present)
		return;
	keep_larger((uint64_t *)v->sums.counter, (const uint64_t *)present->counter,
		    WORDS(present->counter));
	keep_larger((uint64_t *)v->sums.reason, (const uint64_t *)present->reason,
		    WORDS(present->reason));
	keep_larger((uint64_t *)&v->sums.ended, (const uint64_t *)&present->ended,
		    WORDS(present->ended));
	keep_larger((uint64_t *)&v->sums.faults, (const uint64_t *)&present->faults, 1);
	keep_larger((uint64_t *)&v->sums.tx_refused, (const uint64_t *)&present->tx_refused, 1);
	keep_larger((uint64_t *)&v->sums.tx_by_memory, (const uint64_t *)&present->tx_by_memory, 1);
}

static void add_sums(const struct xd_view *v, struct xd_sums *sums)
{
	view_add((uint64_t *)&sums->transport, (const uint64_t *)v->sums.counter,
		 WORDS(sums->transport));
	view_add((uint64_t *)sums->reason, (const uint64_t *)v->sums.reason, WORDS(sums->reason));
	view_add(&sums->direct_faults, (const uint64_t *)&v->sums.faults, 1);
	view_add(&sums->direct_tx_refused, (const uint64_t *)&v->sums.tx_refused, 1);
	view_add(&sums->direct_tx_by_memory, (const uint64_t *)&v->sums.tx_by_memory, 1);
}

void xd_views_sum(struct xd_server *s, struct xd_sums *sums)
{
	view_add((uint64_t *)&sums->transport, (const uint64_t *)&s->direct_ended.transport,
		 WORDS(sums->transport));
	view_add((uint64_t *)sums->reason, (const uint64_t *)s->direct_ended.reason,
		 WORDS(sums->reason));
	view_add(&sums->direct_faults, &s->direct_ended.direct_faults, 1);
	view_add(&sums->direct_tx_refused, &s->direct_ended.direct_tx_refused, 1);
	view_add(&sums->direct_tx_by_memory, &s->direct_ended.direct_tx_by_memory, 1);
	for (const struct xd_client *c = s->objects.clients.first; c; c = c->next) {
		if (!c->view)
			continue;
		read_sums(c->view);
		add_sums(c->view, sums);
	}
}

static void add_traffic(struct xt_traffic *sum, const uint64_t *counters, const uint64_t *rtt,
			uint64_t rtt_sum)
{
	view_add((uint64_t *)&sum->counters, counters, WORDS(sum->counters));
	view_add(sum->rtt, rtt, XT_RTT_BUCKETS);
	view_add(&sum->rtt_sum, &rtt_sum, 1);
}

static void view_add_qp(void *arg, uint32_t index, const void *record)
{
	const struct xr_view_qp *r = record;
	struct xt_traffic *sum = arg;
	uint64_t rtt[XT_RTT_BUCKETS];

	(void)index;
	for (uint32_t i = 0; i < XT_RTT_BUCKETS; i++)
		rtt[i] = r->rtt[i];
	add_traffic(sum, (const uint64_t *)r->counter, rtt, r->rtt_sum);
}

/* Traffic of the QPs that exist, and of those that the program has destroyed */
static void add_view(const struct xd_view *v, struct xt_traffic *sum)
{
	xd_view_each(v, XR_VIEW_QP, view_add_qp, sum);
	add_traffic(sum, (const uint64_t *)v->sums.ended.counter,
		    (const uint64_t *)v->sums.ended.rtt, v->sums.ended.rtt_sum);
}

void xd_views_sum_traffic(struct xd_clients *cs)
{
	struct xd_program *p;

	for (struct xd_client *c = cs->first; c; c = c->next) {
		if (!c->view)
			continue;
		p = xd_program_of(c);
		read_sums(c->view);
		add_view(c->view, &p->live);
		p->qps += xd_view_objects(c, XR_KIND_QP);
	}
}

void xd_view_close(struct xd_client *c)
{
	struct xd_view *v = c->view;

	if (!v)
		return;
	read_sums(v);
	add_sums(v, &xd_server_of(c)->direct_ended);
	add_view(v, &xd_program_of(c)->ended);
	c->view = NULL;
	xd_client_close_fds(c, &v->fd, 1);
	xd_user_put_fds(c, 1);
	free(v->known);
	free(v);
}
