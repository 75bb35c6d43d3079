// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fixture.h"

#include <time.h>

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

struct ibv_context *open_fake(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), FAKE_DEVICE))
			ctx = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

void setup(struct fixture *f)
{
	snprintf(f->dir, sizeof(f->dir), "/tmp/xroce-test-XXXXXX");
	must(mkdtemp(f->dir), "mkdtemp");
	setenv("XROCE_RUNTIME_DIR", f->dir, 1);
	must(!fake_start(&f->daemon, f->dir), "fake daemon");
	f->ctx = open_fake();
	must(f->ctx, "open");
	f->pd = ibv_alloc_pd(f->ctx);
	must(f->pd, "alloc_pd");
}

void teardown(struct fixture *f)
{
	char path[96];

	if (f->pd)
		ibv_dealloc_pd(f->pd);
	if (f->ctx)
		ibv_close_device(f->ctx);
	fake_kill(&f->daemon);
	snprintf(path, sizeof(path), "%s/" FAKE_DEVICE ".sock", f->dir);
	unlink(path);
	rmdir(f->dir);
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

struct ibv_qp *make_qp(struct fixture *f, struct ibv_cq *send, struct ibv_cq *recv,
		       enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send,
		.recv_cq = recv,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	must(qp, "create_qp");
	must(!to_state(qp, state), "modify_qp");
	return qp;
}

int post_send(struct ibv_qp *qp, uint64_t wr_id, unsigned int n)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	int err = 0;

	while (n-- && !err) {
		wr.wr_id = wr_id++;
		err = ibv_post_send(qp, &wr, &bad);
	}
	return err;
}

int post_recv(struct ibv_qp *qp, uint64_t wr_id, unsigned int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad;
	int err = 0;

	while (n-- && !err) {
		wr.wr_id = wr_id++;
		err = ibv_post_recv(qp, &wr, &bad);
	}
	return err;
}

int poll_n(struct ibv_cq *cq, struct ibv_wc *wc, int n)
{
	time_t end = time(NULL) + 2;
	int got = 0, r;

	while (got < n && time(NULL) < end) {
		r = ibv_poll_cq(cq, n - got, wc + got);
		if (r < 0)
			return r;
		got += r;
	}
	return got;
}
