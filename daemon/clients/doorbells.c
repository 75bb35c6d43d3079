// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A client's doorbells: shared words and, for a worker that sleeps, an eventfd. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client.h"

static int open_eventfds(struct xd_client *c)
{
	struct xr_doorbell *db = c->doorbells.ptr;
	uint32_t i;
	int fd;

	for (i = 0; i < xd_workers_count(c->dev->workers); i++) {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0)
			return -errno;
		c->bell[i] = (struct xd_doorbell){ .db = &db[i], .eventfd = fd };
		c->bells++;
	}
	return 0;
}

int xd_doorbells_open(struct xd_client *c)
{
	uint32_t i;
	int err;

	err = xd_shm_alloc(c, sizeof(struct xr_doorbell) * xd_workers_count(c->dev->workers),
			   &c->doorbells);
	if (err)
		return err;
	err = open_eventfds(c);
	if (err) {
		for (i = 0; i < c->bells; i++)
			close(c->bell[i].eventfd);
		c->bells = 0;
		xd_shm_free(c, &c->doorbells);
		return err;
	}
	xd_workers_pause(c->dev->workers);
	for (i = 0; i < c->bells && !err; i++)
		err = xd_worker_add_doorbell(c->dev->workers, i, &c->bell[i]);
	xd_workers_resume(c->dev->workers);
	if (err)
		xd_doorbells_close(c);
	return err;
}

void xd_doorbells_close(struct xd_client *c)
{
	uint32_t i;

	if (!c->bells)
		return;
	xd_workers_pause(c->dev->workers);
	for (i = 0; i < c->bells; i++)
		xd_worker_del_doorbell(c->dev->workers, i, &c->bell[i]);
	xd_workers_resume(c->dev->workers);
	for (i = 0; i < c->bells; i++) {
		close(c->bell[i].eventfd);
		free(c->bell[i].qp);
	}
	c->bells = 0;
	xd_shm_free(c, &c->doorbells);
}

static int grow(struct xd_device *dev, struct xd_doorbell *bell)
{
	uint32_t slots = bell->slots ? bell->slots * 2 : 64;
	struct xt_qp **old = bell->qp;
	struct xt_qp **qp = calloc(slots, sizeof(*qp));

	if (!qp)
		return -ENOMEM;
	if (old)
		memcpy(qp, old, bell->slots * sizeof(*qp));
	xd_workers_pause(dev->workers);
	bell->qp = qp;
	bell->slots = slots;
	xd_workers_resume(dev->workers);
	free(old);
	return 0;
}

int xd_doorbell_reserve(struct xd_device *dev, struct xd_doorbell *bell, uint32_t *slot)
{
	uint32_t i = 0;

	while (i < bell->slots && bell->qp[i])
		i++;
	*slot = i;
	if (i < bell->slots)
		return 0;
	return i < XR_DB_SLOTS ? grow(dev, bell) : -ENOSPC;
}
