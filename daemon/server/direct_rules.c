// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "view.h"

#define OPERATOR 0
#define OWN 1
#define LIST_RULES (XR_DIRECT_RULES / 2)

struct xd_direct_rules {
	int fd;
	struct xr_direct_page page; /* what was stored last */
	struct {
		uint32_t n;
		uint32_t index[LIST_RULES]; /* of xd_faults_at() */
		struct xr_view_fault known[LIST_RULES];
	} list[2];
};

static struct xd_faults *direct_rules_faults_of(const struct xd_client *c)
{
	return xd_workers_faults(c->dev->workers);
}

/* ---- hits --------------------------------------------------------------------------------- */

static uint64_t increase(__u64 *known, uint64_t present)
{
	uint64_t n = present > *known ? present - *known : 0;

	*known += n;
	return n;
}

static void direct_rules_collect(struct xd_client *c)
{
	struct xd_direct_rules *d = c->direct_rules;
	struct xr_view_fault hits[XR_DIRECT_RULES];
	uint32_t n = 0;

	if (!xd_view_faults(c, d->page.seq, hits))
		return;
	for (int list = OPERATOR; list <= OWN; list++) {
		for (uint32_t i = 0; i < d->list[list].n; i++, n++) {
			struct xr_view_fault *known = &d->list[list].known[i];
			uint64_t seen = increase(&known->seen, hits[n].seen);

			xd_faults_add_hits(direct_rules_faults_of(c), d->list[list].index[i], seen,
					   increase(&known->hits, hits[n].hits));
		}
	}
}

void xd_direct_rules_collect(struct xd_clients *cs)
{
	for (struct xd_client *c = cs->first; c; c = c->next)
		if (c->direct_rules)
			direct_rules_collect(c);
}

/* ---- rules -------------------------------------------------------------------------------- */

/* Adds the rules of a list that select the client to the text of the page. */
static void add_list(const struct xd_client *c, int list, uint32_t *used)
{
	struct xd_direct_rules *d = c->direct_rules;
	const struct xd_fault_rule *rule;
	struct xd_fault_hits hits;
	uint64_t owner;
	uint32_t length, begin = *used;

	d->list[list].n = 0;
	for (uint32_t i = 0; (rule = xd_faults_at(direct_rules_faults_of(c), i, &hits, &owner));
	     i++) {
		length = (uint32_t)strlen(rule->text);
		if (!(c->fault_rules >> i & 1) || owner != (list == OWN ? c->id : 0) ||
		    d->list[list].n == LIST_RULES || *used + length + 1 > XR_DIRECT_RULES_TEXT)
			continue;
		memcpy(d->page.text + *used, rule->text, length);
		*used += length;
		d->page.text[(*used)++] = '\n';
		d->list[list].index[d->list[list].n++] = i;
	}
	d->page.list[list].length = *used - begin;
}

static bool direct_rules_put(const struct xd_direct_rules *d, size_t off, const void *from,
			     size_t size)
{
	return pwrite(d->fd, from, size, (off_t)off) == (ssize_t)size;
}

/* The program reads again when the sequence word has changed and is even. */
static void direct_rules_store(struct xd_client *c)
{
	struct xd_direct_rules *d = c->direct_rules;
	const size_t rest = sizeof(d->page.seq);

	d->page.seq++;
	if (direct_rules_put(d, 0, &d->page.seq, sizeof(d->page.seq)) &&
	    direct_rules_put(d, rest, (const char *)&d->page + rest, sizeof(d->page) - rest)) {
		d->page.seq++;
		if (direct_rules_put(d, 0, &d->page.seq, sizeof(d->page.seq)))
			return;
	}
	xd_log(XD_WARN, "faults and captures do not reach direct client %u: no memory", c->id);
}

static void direct_rules_update(struct xd_client *c)
{
	struct xd_direct_rules *d = c->direct_rules;
	struct xr_direct_page before = d->page;
	uint32_t used = 0;

	memset(d->page.text, 0, sizeof(d->page.text));
	add_list(c, OPERATOR, &used);
	add_list(c, OWN, &used);
	if (!memcmp(&before, &d->page, sizeof(before)))
		return;
	d->page.set_at = xd_now();
	direct_rules_store(c);
}

void xd_direct_rules_update(struct xd_clients *cs, const struct xd_client *owner, uint64_t seed)
{
	const int list = owner ? OWN : OPERATOR;

	for (struct xd_client *c = cs->first; c; c = c->next) {
		struct xd_direct_rules *d = c->direct_rules;

		if (!d)
			continue;
		if (!owner || owner == c) {
			d->page.list[list].seed = seed;
			d->page.list[list].set++;
			memset(d->list[list].known, 0, sizeof(d->list[list].known));
		}
		direct_rules_update(c);
	}
}

/* ---- captures ------------------------------------------------------------------------------ */

/* What the program has counted is for the page as it was. */
void xd_direct_rules_capture(struct xd_client *c, uint32_t place,
			     const struct xr_direct_capture *entry)
{
	direct_rules_collect(c);
	c->direct_rules->page.capture[place] = *entry;
	direct_rules_store(c);
}

/* ---- open and close ------------------------------------------------------------------------ */

static int direct_rules_make_file(void)
{
	int fd = memfd_create("xroce-rules", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, sizeof(struct xr_direct_page)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int xd_direct_rules_open(struct xd_client *c)
{
	struct xd_direct_rules *d = calloc(1, sizeof(*d));
	int err = d ? xd_user_take_fds(c, 1) : -ENOMEM;

	if (err) {
		free(d);
		return err;
	}
	d->fd = direct_rules_make_file();
	if (d->fd < 0) {
		err = d->fd;
		xd_user_put_fds(c, 1);
		free(d);
		return err;
	}
	c->direct_rules = d;
	d->page.list[OPERATOR].seed = xd_faults_seed(direct_rules_faults_of(c));
	direct_rules_update(c);
	return 0;
}

void xd_direct_rules_close(struct xd_client *c)
{
	struct xd_direct_rules *d = c->direct_rules;

	if (!d)
		return;
	direct_rules_collect(c);
	c->direct_rules = NULL;
	xd_client_close_fds(c, &d->fd, 1);
	xd_user_put_fds(c, 1);
	free(d);
}

int xd_direct_rules_fd(const struct xd_client *c)
{
	return c->direct_rules->fd;
}
