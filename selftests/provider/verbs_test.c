// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The provider through the verbs API, against the fake daemon. Run with libxroce.so preloaded. */
#include <xroce/tables.h>

#include "fixture.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <xroce/ring.h>

#include "../lib/tap.h"

/* ---- devices and queries ------------------------------------------------------- */

static void no_daemon(void)
{
	struct ibv_device **list;
	int n = -1;

	setenv("XROCE_RUNTIME_DIR", "/nonexistent", 1);
	errno = 0;
	list = ibv_get_device_list(&n);
	TAP_OK(list ? n >= 0 : errno == ENOSYS && n == 0, "no daemon: what libibverbs says");
	if (list)
		ibv_free_device_list(list);
}

static void device_list(void)
{
	struct ibv_device **list, **again;
	int n = 0, i = -1;

	errno = 7;
	list = ibv_get_device_list(&n);
	TAP_OK(list && n >= 1 && !list[n] && errno == 7, "our device is listed, errno untouched");
	TAP_OK(!strcmp(ibv_get_device_name(list[n - 1]), FAKE_DEVICE), "by its name");
	TAP_OK(ibv_get_device_guid(list[n - 1]) == FAKE_GUID, "with its GUID");
	TAP_OK(ibv_get_device_index(list[n - 1]) == -1, "without an index of the kernel's");
	again = ibv_get_device_list(NULL);
	TAP_OK(again[n - 1] == list[n - 1], "a second list has the same device");
	ibv_free_device_list(list);
	TAP_OK(!strcmp(ibv_get_device_name(again[n - 1]), FAKE_DEVICE), "freed one by one");
	ibv_free_device_list(again);
	setenv("XROCE_DEVICES", "other,fak,fake00", 1);
	again = ibv_get_device_list(&i);
	TAP_OK(i == n - 1, "not listed among devices that do not name it");
	if (again)
		ibv_free_device_list(again);
	setenv("XROCE_DEVICES", "other," FAKE_DEVICE, 1);
	again = ibv_get_device_list(&i);
	TAP_OK(i == n, "listed where they do");
	ibv_free_device_list(again);
	unsetenv("XROCE_DEVICES");
	TAP_OK(!ibv_import_device(0), "no device from a foreign fd");
}

/* Late is not gone; stopped is as good as gone, which must not take long. */
static void late_and_stopped(struct fixture *f)
{
	struct ibv_context *ctx;
	time_t begun;
	int status;

	fake_slow(&f->daemon, 1000);
	ctx = open_fake();
	TAP_OK(ctx, "a daemon that answers after a second is found and opened");
	if (ctx)
		ibv_close_device(ctx);
	fake_slow(&f->daemon, 0);
	kill(f->daemon.pid, SIGSTOP);
	waitpid(f->daemon.pid, &status, WUNTRACED);
	begun = time(NULL);
	ctx = open_fake();
	TAP_OK(!ctx && time(NULL) - begun < 4, "one that is stopped is soon given up");
	kill(f->daemon.pid, SIGCONT);
	ctx = open_fake();
	TAP_OK(ctx && !ibv_close_device(ctx), "and there again when it goes on");
}

/* As NCCL and others do: nothing of libibverbs is linked, all is looked up. */
static void looked_up(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW), *ours, *theirs;

	ours = dlvsym(handle, "ibv_get_device_list", "IBVERBS_1.1");
	theirs = dlvsym(handle, "ibv_wc_status_str", "IBVERBS_1.1");
	TAP_OK(ours && ours == dlsym(RTLD_DEFAULT, "ibv_get_device_list"),
	       "dlopen of libibverbs finds our functions");
	TAP_OK(theirs && theirs == dlsym(RTLD_DEFAULT, "ibv_wc_status_str"), "and the others");
	TAP_OK(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) == handle,
	       "again the same handle");
	TAP_OK(!dlopen("libnosuch.so.1", RTLD_NOW) && strstr(dlerror(), "libnosuch.so.1"),
	       "errors of other libraries are theirs");
	dlclose(handle);
}

static void queries(struct fixture *f)
{
	struct {
		struct ibv_device_attr_ex attr;
		uint8_t after[64];
	} ex;
	int (*old_query_port)(struct ibv_context *, uint8_t, void *) =
		dlsym(RTLD_DEFAULT, "ibv_query_port");
	struct verbs_context *vctx = verbs_get_ctx(f->ctx);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	uint8_t raw[128];

	TAP_OK(!ibv_query_device(f->ctx, &attr) && attr.max_cqe == 4096 &&
		       attr.phys_port_cnt == 1 && !strcmp(attr.fw_ver, "fake"),
	       "query_device");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!ibv_query_device_ex(f->ctx, NULL, &ex.attr) && ex.attr.phys_port_cnt_ex == 1 &&
		       ex.after[0] == 0x55,
	       "query_device_ex");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!vctx->query_device_ex(f->ctx, NULL, &ex.attr, sizeof(attr) + 8) &&
		       ex.attr.orig_attr.max_pd == 100 && !ex.attr.comp_mask &&
		       ((uint8_t *)&ex)[sizeof(attr) + 8] == 0x55,
	       "query_device_ex into a shorter struct");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!vctx->query_device_ex(f->ctx, NULL, &ex.attr, sizeof(ex)) && !ex.after[63],
	       "query_device_ex into a longer one");
	TAP_OK(vctx->query_device_ex(f->ctx, NULL, &ex.attr, 16) == EINVAL, "but not too short");
	TAP_OK(!ibv_query_port(f->ctx, 1, &port) && port.state == IBV_PORT_ACTIVE &&
		       port.link_layer == IBV_LINK_LAYER_ETHERNET &&
		       port.flags & IBV_QPF_GRH_REQUIRED,
	       "query_port");
	memset(raw, 0x55, sizeof(raw));
	TAP_OK(!old_query_port(f->ctx, 1, raw) &&
		       ((struct ibv_port_attr *)raw)->active_mtu == IBV_MTU_2048 &&
		       raw[offsetof(struct ibv_port_attr, port_cap_flags2)] == 0x55,
	       "the exported query_port stays in its struct");
	TAP_OK(ibv_query_port(f->ctx, 2, &port) == EINVAL, "no second port");
}

static void addresses(struct fixture *f)
{
	int (*gid_type)(struct ibv_context *, uint8_t, unsigned int, int *) =
		dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	struct ibv_gid_entry entry[4];
	union ibv_gid gid;
	__be16 pkey = 0;
	int type = -1;

	TAP_OK(!ibv_query_gid(f->ctx, 1, 0, &gid) && gid.raw[0] == 0xfe, "query_gid");
	TAP_OK(!ibv_query_gid(f->ctx, 1, 1, &gid) && !gid.raw[0], "an empty one is zeros");
	TAP_OK(ibv_query_gid(f->ctx, 1, 256, &gid) == -1 && errno == EINVAL, "beyond the table");
	TAP_OK(!ibv_query_gid_ex(f->ctx, 1, 2, entry, 0) && entry->gid_index == 2 &&
		       entry->gid_type == IBV_GID_TYPE_ROCE_V2,
	       "query_gid_ex");
	TAP_OK(ibv_query_gid_ex(f->ctx, 1, 1, entry, 0) == ENODATA, "an empty one is ENODATA");
	TAP_OK(ibv_query_gid_ex(f->ctx, 1, 2, entry, 1) == EINVAL, "no flags are known");
	TAP_OK(ibv_query_gid_table(f->ctx, entry, 4, 0) == 2 && entry[1].gid_index == 2,
	       "query_gid_table");
	TAP_OK(ibv_query_gid_table(f->ctx, entry, 1, 0) == -EINVAL, "too small");
	TAP_OK(gid_type && !gid_type(f->ctx, 1, 2, &type) && type == 1, "gid type v2");
	TAP_OK(!ibv_query_pkey(f->ctx, 1, 0, &pkey) && pkey == htons(0xffff), "query_pkey");
	TAP_OK(ibv_query_pkey(f->ctx, 1, 1, &pkey) == -1, "only one");
	TAP_OK(ibv_get_pkey_index(f->ctx, 1, htons(0xffff)) == 0, "get_pkey_index");
	TAP_OK(ibv_get_pkey_index(f->ctx, 1, htons(1)) == -1, "no other");
}

#define REFUSED(call) TAP_OK((errno = 0, !(call)) && errno == EOPNOTSUPP, "EOPNOTSUPP: " #call)
#define REFUSED_INT(call) TAP_OK((call) == EOPNOTSUPP, "EOPNOTSUPP: " #call)

static void refusals(struct fixture *f)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_wq_init_attr wq_attr = { 0 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_flow_attr flow = { 0 };
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 4, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);
	struct ibv_qp_init_attr raw = { .qp_type = IBV_QPT_RAW_PACKET };

	REFUSED(ibv_create_qp(f->pd, &raw));
	REFUSED(ibv_alloc_dm(f->ctx, &dm_attr));
	REFUSED(ibv_create_counters(f->ctx, &counters));
	REFUSED(ibv_create_wq(f->ctx, &wq_attr));
	REFUSED(ibv_create_rwq_ind_table(f->ctx, &table));
	REFUSED(ibv_create_flow_action_esp(f->ctx, &esp));
	REFUSED(ibv_create_flow(qp, &flow));
	REFUSED_INT(ibv_modify_cq(cq, &moderate));
	REFUSED(ibv_import_pd(f->ctx, 1));
	REFUSED(ibv_import_mr(f->pd, 1));
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void address_handles(struct fixture *f)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_grh grh = { 0 };
	uint8_t *ip = (uint8_t *)&grh + 20;
	struct ibv_ah *ah;

	ah = ibv_create_ah(f->pd, &attr);
	TAP_OK(ah && !ibv_destroy_ah(ah), "create_ah, destroy_ah");
	attr.is_global = 0;
	TAP_OK(!ibv_create_ah(f->pd, &attr) && errno == EINVAL, "no address without a GRH");
	/* 10.0.0.2 to 10.0.0.1, TTL 64, protocol 17 */
	memcpy(ip, "\x45\0\0\x1c\0\0\0\0\x40\x11\x66\xcf\x0a\0\0\x02\x0a\0\0\x01", 20);
	TAP_OK(!ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) && attr.is_global &&
		       attr.grh.sgid_index == 2 && attr.grh.dgid.raw[15] == 2 &&
		       attr.grh.hop_limit == 64,
	       "an address from an IPv4 header");
	ip[10] ^= 1;
	TAP_OK(ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) == -1, "not with a bad checksum");
	memset(&grh, 0, sizeof(grh));
	grh.version_tclass_flow = htonl(6u << 28 | 5);
	grh.next_hdr = 17;
	grh.sgid.raw[0] = grh.dgid.raw[0] = 0xfe;
	grh.sgid.raw[1] = grh.dgid.raw[1] = 0x80;
	grh.sgid.raw[15] = 9;
	grh.dgid.raw[15] = 1;
	TAP_OK(!ibv_init_ah_from_wc(f->ctx, 1, &wc, &grh, &attr) && attr.grh.sgid_index == 0 &&
		       attr.grh.dgid.raw[15] == 9 && attr.grh.flow_label == 5,
	       "and from an IPv6 header");
	ah = ibv_create_ah_from_wc(f->pd, &wc, &grh, 1);
	TAP_OK(ah && !ibv_destroy_ah(ah), "create_ah_from_wc");
}

/* ---- queues -------------------------------------------------------------------- */

/* One CQ and one QP on it */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct pair make_pair(struct fixture *f, enum ibv_qp_state state)
{
	struct pair p = { .cq = ibv_create_cq(f->ctx, 100, NULL, NULL, 0) };

	p.qp = make_qp(f, p.cq, p.cq, state);
	return p;
}

static void free_pair(const struct pair *p)
{
	TAP_OK(ibv_destroy_cq(p->cq) == EBUSY, "a CQ in use stays");
	TAP_OK(!ibv_destroy_qp(p->qp) && !ibv_destroy_cq(p->cq), "destroyed in order");
}

static void posting_by_state(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RESET);

	TAP_OK(p.cq->cqe == 128, "a CQ of a power of two");
	TAP_OK(post_recv(p.qp, 0, 1) == EINVAL, "post_recv in RESET");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "post_send in RESET");
	to_state(p.qp, IBV_QPS_INIT);
	TAP_OK(!post_recv(p.qp, 100, 8), "post_recv in INIT");
	TAP_OK(post_recv(p.qp, 0, 1) == ENOMEM, "until the queue is full");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "post_send in INIT");
	free_pair(&p);
}

static void posting_rings(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	unsigned int wakes;
	bool rang;

	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!post_send(p.qp, 1, 2), "post_send in RTS");
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(rang && !wakes, "rings without waking a worker that is awake");
	TAP_OK(!post_send(p.qp, 3, 1), "post_send to a sleeping worker");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang && wakes == 1, "rings and wakes it");
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!rang, "a receive queue does not ring");
	fake_qp_error(&f->daemon, p.qp->qp_num);
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang, "except in ERR");
	free_pair(&p);
}

static void completing(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_wc wc[32];

	post_send(p.qp, 1, 3);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "nothing completed yet");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 2, wc) == 2 && wc[0].wr_id == 1 && wc[1].wr_id == 2 &&
		       wc[0].qp_num == p.qp->qp_num && wc[0].status == IBV_WC_SUCCESS,
	       "completions in order");
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 1 && wc[0].wr_id == 3, "and the rest");
	post_send(p.qp, 20, 8);
	fake_complete(&f->daemon, p.qp->qp_num, false, 3, IBV_WC_SUCCESS, false);
	to_state(p.qp, IBV_QPS_RESET);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "RESET drops completions");
	to_state(p.qp, IBV_QPS_RTS);
	TAP_OK(!post_send(p.qp, 30, 8) && post_send(p.qp, 0, 1) == ENOMEM, "and empties the queues");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 32, wc) == 8 && wc[0].wr_id == 30, "which start over");
	free_pair(&p);
}

static void posting_lists(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_send_wr wr[3] = { 0 }, *bad = NULL;
	struct ibv_sge sge[3] = { 0 };
	struct ibv_wc wc[8];
	int i;

	for (i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 3;
	wr[1].sg_list = sge;
	TAP_OK(ibv_post_send(p.qp, wr, &bad) == EINVAL && bad == &wr[1], "bad_wr of a list");
	wr[1].num_sge = 0;
	wr[1].opcode = IBV_WR_TSO;
	TAP_OK(ibv_post_send(p.qp, &wr[1], &bad) == EINVAL && bad == &wr[1], "unknown operation");
	/* 1 is outstanding, of the list */
	TAP_OK(post_send(p.qp, 10, 8) == ENOMEM, "a full send queue");
	TAP_OK(fake_complete(&f->daemon, p.qp->qp_num, false, 100, IBV_WC_SUCCESS, false) == 8,
	       "all of it arrives");
	TAP_OK(poll_n(p.cq, wc, 8) == 8 && !wc[0].wr_id && wc[7].wr_id == 16, "and completes");
	free_pair(&p);
}

static void posting_inline(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	char data[80] = "hello";
	struct ibv_sge sge[2] = { { (uintptr_t)data, 40, 0 }, { (uintptr_t)data, 25, 0 } };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 2,
	};
	struct {
		struct xr_send_wqe wqe;
		char data[64];
	} entry;

	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL, "inline data over the limit");
	sge[1].length = 24;
	TAP_OK(!ibv_post_send(p.qp, &wr, &bad) &&
		       fake_send_entry(&f->daemon, p.qp->qp_num, 0, &entry, sizeof(entry)) == 1 &&
		       entry.wqe.inline_len == 64 && !entry.wqe.num_sge &&
		       !strcmp(entry.data, "hello") && !strcmp(entry.data + 40, "hello"),
	       "inline data at the limit");
	wr.opcode = IBV_WR_RDMA_READ;
	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL, "no inline READ");
	free_pair(&p);
}

/* What each operation leaves in its entry */
static void posting_operations(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_mw mw = { .context = f->ctx, .pd = f->pd, .rkey = 0x500, .type = IBV_MW_TYPE_2 };
	struct ibv_mr mr = { .lkey = 0x600 };
	struct ibv_send_wr *bad, inv = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = 0x1234,
	};
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &mw, .rkey = 0x501,
			     .bind_info = { &mr, 0x1000, 0x20, IBV_ACCESS_REMOTE_READ } },
	};
	struct xr_send_wqe wqe;

	ibv_post_send(p.qp, &inv, &bad);
	fake_send_entry(&f->daemon, p.qp->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.opcode == XR_WR_SEND_WITH_INV && wqe.invalidate_rkey == 0x1234,
	       "a SEND with invalidate");
	ibv_post_send(p.qp, &bind, &bad);
	fake_send_entry(&f->daemon, p.qp->qp_num, 1, &wqe, sizeof(wqe));
	TAP_OK(wqe.opcode == XR_WR_BIND_MW && wqe.bind.mw_rkey == 0x500 &&
		       wqe.bind.new_rkey == 0x501 && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_READ && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "a bind");
	mw.type = IBV_MW_TYPE_1;
	TAP_OK(ibv_post_send(p.qp, &bind, &bad) == EINVAL && bad == &bind,
	       "no window of type 1 by a work request");
	free_pair(&p);
}

static void windows(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_mr mr = { .pd = f->pd, .lkey = 0x600 };
	struct ibv_mw_bind bind = {
		.wr_id = 7, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { &mr, 0x1000, 0x20, IBV_ACCESS_REMOTE_WRITE },
	};
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_mw *type_2 = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct xr_send_wqe wqe = { 0 };
	uint32_t old;

	TAP_OK(mw && type_2 && mw->handle && mw->type == IBV_MW_TYPE_1 && mw->pd == f->pd &&
		       mw->context == f->ctx && mw->rkey != type_2->rkey,
	       "windows of both types");
	TAP_OK((errno = 0, !ibv_alloc_mw(f->pd, 3)) && errno == EINVAL, "there is no type 3");
	old = mw->rkey;
	TAP_OK(!ibv_bind_mw(p.qp, mw, &bind) && mw->rkey == ibv_inc_rkey(old),
	       "ibv_bind_mw gives a new key");
	fake_send_entry(&f->daemon, p.qp->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.wr_id == 7 && wqe.opcode == XR_WR_BIND_MW && wqe.flags == XR_SEND_SIGNALED &&
		       XR_KEY_INDEX(wqe.bind.mw_rkey) == XR_KEY_INDEX(old) &&
		       wqe.bind.new_rkey == mw->rkey && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_WRITE && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "and posts a work request");
	bind.send_flags = IBV_SEND_INLINE;
	old = mw->rkey;
	TAP_OK(ibv_bind_mw(p.qp, mw, &bind) == EINVAL && mw->rkey == old,
	       "a request that is refused leaves the key");
	TAP_OK(ibv_bind_mw(p.qp, type_2, &bind) == EINVAL, "no window of type 2 by the verb");
	TAP_OK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(type_2), "they go");
	free_pair(&p);
}

/* What each type of QP can be asked for */
static void unreliable_types(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC, .cap.max_send_wr = 4,
	};
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_ah *ah = ibv_create_ah(f->pd, &attr);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ }, *bad;
	struct ibv_qp *uc = ibv_create_qp(f->pd, &init), *ud;

	init.qp_type = IBV_QPT_UD;
	ud = ibv_create_qp(f->pd, &init);
	TAP_OK(uc && ud && ah, "QPs of type UC and UD");
	to_state(uc, IBV_QPS_RTS);
	to_state(ud, IBV_QPS_RTS);
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC reads nothing");
	wr.opcode = IBV_WR_RDMA_WRITE;
	TAP_OK(!ibv_post_send(uc, &wr, &bad), "UC writes");
	wr.opcode = IBV_WR_LOCAL_INV;
	TAP_OK(!ibv_post_send(uc, &wr, &bad) && ibv_post_send(ud, &wr, &bad) == EINVAL,
	       "UC invalidates keys, UD does not");
	wr.opcode = IBV_WR_SEND_WITH_INV;
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC does not invalidate those of its peer");
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.ud.ah = ah;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "UD does not");
	wr.opcode = IBV_WR_SEND;
	TAP_OK(!ibv_post_send(ud, &wr, &bad), "UD sends");
	wr.wr.ud.ah = NULL;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "with an address handle only");
	wr.wr.ud.ah = &(struct ibv_ah){ .handle = ah->handle };
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "of its own context");
	TAP_OK(!ibv_destroy_qp(uc) && !ibv_destroy_qp(ud) && !ibv_destroy_cq(cq) &&
	       !ibv_destroy_ah(ah), "destroyed");
}

static void limits(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	TAP_OK(!ibv_create_cq(f->ctx, 0, NULL, NULL, 0) && errno == EINVAL, "a CQ of 0");
	TAP_OK(!ibv_create_cq(f->ctx, 4097, NULL, NULL, 0) && errno == EINVAL, "a CQ too large");
	TAP_OK(!ibv_create_cq(f->ctx, 8, NULL, NULL, 1) && errno == EINVAL, "comp_vector 1");
	init.cap.max_send_wr = 5000;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too many WRs");
	init.cap.max_send_wr = 1;
	init.cap.max_send_sge = 17;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too many elements");
	init.cap.max_send_sge = 1;
	init.cap.max_inline_data = 257;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too much inline data");
	init.cap.max_inline_data = 0;
	init.send_cq = NULL;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "no CQ");
	init.send_cq = cq;
	qp = ibv_create_qp(f->pd, &init);
	TAP_OK(qp && qp->state == IBV_QPS_RESET, "a QP without a receive queue to speak of");
	TAP_OK(!to_state(qp, IBV_QPS_INIT) && post_recv(qp, 1, 1) == ENOMEM, "takes no receives");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void modify_and_query(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .ah_attr.is_global = 1,
				    .dest_qp_num = 77, .rq_psn = 5, .sq_psn = 0x81000006 };
	struct ibv_qp_init_attr init;

	attr.ah_attr.grh.hop_limit = FAKE_REFUSED_HOP;
	TAP_OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV) == EHOSTUNREACH &&
		       qp->state == IBV_QPS_INIT,
	       "the daemon's refusal is the answer");
	attr.ah_attr.grh.hop_limit = 3;
	attr.ah_attr.grh.dgid.raw[3] = 9;
	TAP_OK(!ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_SQ_PSN) &&
		       qp->state == IBV_QPS_RTR,
	       "modify_qp");
	memset(&attr, 0, sizeof(attr));
	TAP_OK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTR &&
		       attr.dest_qp_num == 77 && attr.rq_psn == 0 &&
		       attr.ah_attr.grh.hop_limit == 3 && attr.ah_attr.grh.dgid.raw[3] == 9 &&
		       init.send_cq == cq && init.cap.max_send_wr == 8,
	       "query_qp: only what the mask named was sent");
	TAP_OK(attr.sq_psn == 6, "of a PSN, the bits that the wire has");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void many_qps(struct fixture *f)
{
	struct ibv_cq *send = ibv_create_cq(f->ctx, 512, NULL, NULL, 0);
	struct ibv_cq *recv = ibv_create_cq(f->ctx, 512, NULL, NULL, 0);
	struct ibv_qp *qp[40];
	struct ibv_wc wc[512];
	int i, j, n, good = 0;

	for (i = 0; i < 40; i++)
		qp[i] = make_qp(f, send, recv, IBV_QPS_RTS);
	for (j = 0; j < 50; j++) {
		for (i = 0; i < 40; i++) {
			good += !post_send(qp[i], i, 8) && !post_recv(qp[i], i, 8);
			fake_complete(&f->daemon, qp[i]->qp_num, false, 8, 0, false);
			fake_complete(&f->daemon, qp[i]->qp_num, true, 8, 0, false);
		}
		n = poll_n(send, wc, 320);
		good += n == 320 && wc[319].wr_id == 46;
		n = poll_n(recv, wc, 320);
		good += n == 320 && wc[0].opcode == IBV_WC_RECV;
	}
	TAP_OK(good == 50 * 42, "40 QPs on two CQs, 50 times around their rings");
	post_send(qp[3], 3, 8);
	post_send(qp[5], 5, 8);
	fake_complete(&f->daemon, qp[3]->qp_num, false, 8, 0, false);
	fake_complete(&f->daemon, qp[5]->qp_num, false, 8, 0, false);
	ibv_destroy_qp(qp[3]);
	TAP_OK(poll_n(send, wc, 9) == 8 && wc[0].wr_id == 5,
	       "completions of a destroyed QP are gone, those of another are not");
	TAP_OK(!ibv_resize_cq(send, 1000) && send->cqe == 1024, "resize_cq up");
	for (i = 4; i < 40; i++) {
		post_send(qp[i], i, 8);
		fake_complete(&f->daemon, qp[i]->qp_num, false, 8, 0, false);
	}
	TAP_OK(ibv_resize_cq(send, 100) == EINVAL, "resize_cq below what is in there");
	TAP_OK(!ibv_resize_cq(send, 300) && send->cqe == 512, "resize_cq down");
	TAP_OK(poll_n(send, wc, 289) == 288 && wc[0].wr_id == 4 && wc[287].wr_id == 46,
	       "keeps the completions");
	for (i = 0; i < 40; i++) {
		if (i != 3)
			ibv_destroy_qp(qp[i]);
	}
	ibv_destroy_cq(send);
	ibv_destroy_cq(recv);
}

/* ---- events -------------------------------------------------------------------- */

static bool readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void completion_events(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *a = ibv_create_cq(f->ctx, 16, &a, ch, 0);
	struct ibv_cq *b = ibv_create_cq(f->ctx, 16, &b, ch, 0), *cq = NULL;
	struct ibv_qp *qa = make_qp(f, a, a, IBV_QPS_RTS), *qb = make_qp(f, b, b, IBV_QPS_RTS);
	void *context = NULL;

	post_send(qa, 1, 8);
	post_send(qb, 1, 8);
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, false);
	TAP_OK(!readable(ch->fd), "no event without arming");
	ibv_req_notify_cq(a, 0);
	fake_complete(&f->daemon, qa->qp_num, false, 2, 0, false);
	TAP_OK(readable(ch->fd), "the channel is readable");
	TAP_OK(!ibv_get_cq_event(ch, &cq, &context) && cq == a && context == &a, "get_cq_event");
	TAP_OK(!readable(ch->fd), "one event for one arming");
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(a, 1);
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, false);
	TAP_OK(!readable(ch->fd), "solicited only");
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, true);
	TAP_OK(readable(ch->fd), "a solicited one");

	/* unread events of a, then one of b: a goes */
	ibv_req_notify_cq(b, 0);
	fake_complete(&f->daemon, qb->qp_num, false, 1, 0, false);
	TAP_OK(ibv_destroy_comp_channel(ch) == EBUSY, "a channel in use stays");
	ibv_destroy_qp(qa);
	TAP_OK(!ibv_destroy_cq(a), "a CQ with an unread event is destroyed");
	TAP_OK(!ibv_get_cq_event(ch, &cq, &context) && cq == b, "only the other's is delivered");
	ibv_ack_cq_events(cq, 1);
	TAP_OK(!readable(ch->fd), "and nothing remains");

	/* b's unread, alone */
	ibv_req_notify_cq(b, 0);
	fake_complete(&f->daemon, qb->qp_num, false, 1, 0, false);
	TAP_OK(readable(ch->fd), "b's event");
	ibv_destroy_qp(qb);
	ibv_destroy_cq(b);
	TAP_OK(!readable(ch->fd), "went with b");
	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	TAP_OK(ibv_get_cq_event(ch, &cq, &context) == -1 && errno == EAGAIN, "non-blocking");
	TAP_OK(!ibv_destroy_comp_channel(ch), "destroy_comp_channel");
}

static void *ack_later(void *arg)
{
	usleep(100000);
	ibv_ack_cq_events(arg, 2);
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void acknowledgements(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, ch, 0), *got;
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	pthread_t thread;
	void *context;
	double start;
	int i;

	post_send(qp, 0, 8);
	for (i = 0; i < 3; i++) {
		ibv_req_notify_cq(cq, 0);
		fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
		if (i < 2)
			ibv_get_cq_event(ch, &got, &context);
	}
	ibv_destroy_qp(qp);
	pthread_create(&thread, NULL, ack_later, cq);
	start = now();
	TAP_OK(!ibv_destroy_cq(cq) && now() - start > 0.09, "destroy_cq waits for acks");
	pthread_join(thread, NULL);
	ibv_destroy_comp_channel(ch);
}

static void async_events(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS), *other;
	struct ibv_async_event event;

	other = make_qp(f, cq, cq, IBV_QPS_RTS);
	fake_async_event(&f->daemon, 1, IBV_EVENT_GID_CHANGE);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_GID_CHANGE &&
		       event.element.port_num == 1,
	       "a port's event");
	ibv_ack_async_event(&event);
	fake_async_event(&f->daemon, (uintptr_t)qp, IBV_EVENT_COMM_EST);
	fake_async_event(&f->daemon, (uintptr_t)cq, IBV_EVENT_CQ_ERR);
	fake_async_event(&f->daemon, (uintptr_t)other, IBV_EVENT_QP_FATAL);
	fake_async_event(&f->daemon, (uintptr_t)other, IBV_EVENT_QP_LAST_WQE_REACHED);
	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ERR);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_COMM_EST &&
		       event.element.qp == qp,
	       "a QP's event");
	ibv_ack_async_event(&event);
	TAP_OK(!ibv_destroy_qp(other), "a QP with unread events is destroyed");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.element.cq == cq, "a CQ's event");
	ibv_ack_async_event(&event);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_PORT_ERR,
	       "the QP's were dropped");
	TAP_OK(!readable(f->ctx->async_fd), "nothing remains");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* ---- the daemon dies ----------------------------------------------------------- */

struct waiter {
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	int rc, err;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	void *context;

	w->rc = ibv_get_cq_event(w->ch, &w->cq, &context);
	w->err = errno;
	return NULL;
}

static void daemon_dies(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *send = ibv_create_cq(f->ctx, 64, NULL, ch, 0);
	struct ibv_cq *recv = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, send, recv, IBV_QPS_RTS);
	struct ibv_qp *idle = make_qp(f, send, recv, IBV_QPS_RTS);
	struct ibv_async_event event;
	struct waiter w = { .ch = ch };
	struct ibv_mr *mr;
	struct ibv_wc wc[32];
	char buf[64];
	pthread_t thread;
	int i, flushed;

	mr = ibv_reg_mr(f->pd, buf, sizeof(buf), 0);
	post_send(qp, 10, 6);
	post_recv(qp, 20, 5);
	fake_complete(&f->daemon, qp->qp_num, false, 2, IBV_WC_SUCCESS, false);
	ibv_req_notify_cq(send, 0);
	pthread_create(&thread, NULL, wait_for_event, &w);
	usleep(50000);
	fake_kill(&f->daemon);
	pthread_join(thread, NULL);
	TAP_OK(!w.rc && w.cq == send, "a blocked get_cq_event returns");
	ibv_ack_cq_events(send, 1);
	TAP_OK(poll_n(send, wc, 7) == 6 && !wc[0].status && !wc[1].status &&
		       wc[2].status == IBV_WC_WR_FLUSH_ERR && wc[2].wr_id == 12 &&
		       wc[5].wr_id == 15 && wc[5].qp_num == qp->qp_num,
	       "completed work completes, the rest is flushed");
	flushed = poll_n(recv, wc, 6);
	for (i = 0; i < flushed && wc[i].status == IBV_WC_WR_FLUSH_ERR && wc[i].wr_id == 20u + i;
	     i++)
		;
	TAP_OK(flushed == 5 && i == 5, "receives too");
	TAP_OK(!post_send(qp, 30, 1) && poll_n(send, wc, 1) == 1 && wc[0].wr_id == 30 &&
		       wc[0].status == IBV_WC_WR_FLUSH_ERR,
	       "and what is posted later");
	ibv_req_notify_cq(send, 0);
	TAP_OK(wait_for_event(&w) == NULL && w.rc == -1 && w.err == EIO,
	       "with nothing to come, get_cq_event fails");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) &&
		       event.event_type == IBV_EVENT_DEVICE_FATAL,
	       "IBV_EVENT_DEVICE_FATAL");
	ibv_ack_async_event(&event);
	TAP_OK(ibv_get_async_event(f->ctx, &event) == -1 && errno == EIO, "once");
	TAP_OK(!ibv_alloc_pd(f->ctx) && errno == EIO, "verbs fail with EIO");
	TAP_OK(!ibv_reg_mr(f->pd, buf, sizeof(buf), 0) && errno == EIO, "reg_mr, too");
	TAP_OK(to_state(qp, IBV_QPS_ERR) == EIO, "and modify_qp");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_destroy_qp(qp) && !ibv_destroy_qp(idle) &&
		       !ibv_destroy_cq(send) && !ibv_destroy_cq(recv) &&
		       !ibv_destroy_comp_channel(ch) && !ibv_dealloc_pd(f->pd) &&
		       !ibv_close_device(f->ctx),
	       "all can be destroyed");
	f->ctx = open_fake();
	TAP_OK(!f->ctx, "the device is gone");
	fake_start(&f->daemon, f->dir);
	f->ctx = open_fake();
	f->pd = f->ctx ? ibv_alloc_pd(f->ctx) : NULL;
	TAP_OK(f->pd, "and back with the daemon");
}

/* Found by polling alone: nobody reads an event pipe. */
static void daemon_dies_while_polling(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_wc wc;

	post_send(qp, 1, 1);
	TAP_OK(!ibv_poll_cq(cq, 1, &wc), "polling");
	fake_kill(&f->daemon);
	TAP_OK(poll_n(cq, &wc, 1) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "finds the daemon gone");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(f->pd);
	ibv_close_device(f->ctx);
	fake_start(&f->daemon, f->dir);
	f->ctx = open_fake();
	f->pd = ibv_alloc_pd(f->ctx);
}

/* ---- fork ---------------------------------------------------------------------- */

/* What the parent made fails, and nothing of the child's goes together with it. */
static int parents_objects_fail(struct fixture *f, struct ibv_cq *cq, struct ibv_qp *qp,
				struct ibv_pd *own)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	static uint8_t buf[64];
	struct ibv_wc wc;

	if (ibv_reg_mr(f->pd, buf, sizeof(buf), 0) || errno != EIO)
		return 1;
	if (ibv_poll_cq(cq, 1, &wc) >= 0 || post_send(qp, 1, 1) != EIO ||
	    post_recv(qp, 1, 1) != EIO || ibv_req_notify_cq(cq, 0) != EIO ||
	    to_state(qp, IBV_QPS_ERR) != EIO)
		return 2;
	return ibv_create_qp(own, &init) || errno != EINVAL ? 3 : 0;
}

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* The descriptor that the program knows is for the child's events, and does not block, as before. */
static bool gets_own_events(struct fixture *f, ino_t parents)
{
	struct ibv_async_event ev;

	if (inode_of(f->ctx->async_fd) == parents || !ibv_get_async_event(f->ctx, &ev) ||
	    errno != EAGAIN)
		return false;
	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ERR);
	return !ibv_get_async_event(f->ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR;
}

static int uses_own_objects(struct fixture *f, struct ibv_pd *pd)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, ch, 0);
	struct fixture own = { .ctx = f->ctx, .pd = pd, .daemon = f->daemon };
	struct ibv_qp *qp = ch && cq ? make_qp(&own, cq, cq, IBV_QPS_RTS) : NULL;
	struct ibv_mr *mr = ibv_reg_mr(pd, f, sizeof(*f), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;

	if (!qp || !mr || ibv_req_notify_cq(cq, 0) || post_send(qp, 9, 1))
		return 11;
	if (fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false) != 1 ||
	    poll_n(cq, &wc, 1) != 1 || wc.wr_id != 9)
		return 12;
	return ibv_dereg_mr(mr) || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ||
	       ibv_destroy_comp_channel(ch) ? 13 : 0;
}

/* A child of the child has its own again. It closed the descriptor of events, which is another's now. */
static int grandchild(struct fixture *f, struct ibv_pd *childs)
{
	int null = open("/dev/null", O_RDONLY), fd = dup2(null, f->ctx->async_fd), status;
	ino_t inode = inode_of(fd);
	struct ibv_pd *pd;

	close(null);
	pd = ibv_alloc_pd(f->ctx);
	if (!inode || inode_of(fd) != inode)
		return 23;
	if (!pd || pd->context == f->ctx || pd->context == childs->context)
		return 21;
	if (ibv_reg_mr(childs, f, sizeof(*f), 0) || errno != EIO)
		return 22;
	status = uses_own_objects(f, pd);
	return status ? status : ibv_close_device(f->ctx);
}

static int in_child(struct fixture *f, struct ibv_cq *cq, struct ibv_qp *qp)
{
	ino_t events = inode_of(f->ctx->async_fd);
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);
	struct ibv_context *ctx;
	int status;
	pid_t pid;

	if (!gets_own_events(f, events))
		return 30;
	if (!pd || ibv_dealloc_pd(pd) || !(pd = ibv_alloc_pd(f->ctx)) || pd->context == f->ctx)
		return 31;
	status = parents_objects_fail(f, cq, qp, pd);
	if (!status)
		status = uses_own_objects(f, pd);
	if (status)
		return status;
	pid = fork();
	if (!pid)
		_exit(grandchild(f, pd));
	if (waitpid(pid, &status, 0) != pid || status)
		return WEXITSTATUS(status) ? WEXITSTATUS(status) : 32;
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
	    ibv_dealloc_pd(f->pd) || ibv_close_device(f->ctx))
		return 33;
	ctx = open_fake();
	if (!ctx || !ibv_alloc_pd(ctx))
		return 34;
	ibv_close_device(ctx);
	return 0;
}

static void forks(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_async_event ev;
	struct ibv_wc wc;
	int status = -1;
	pid_t pid;

	TAP_OK(!ibv_fork_init(), "fork_init");
	fcntl(f->ctx->async_fd, F_SETFL, O_NONBLOCK);
	pid = fork();
	if (!pid)
		_exit(in_child(f, cq, qp));
	waitpid(pid, &status, 0);
	TAP_OK(!status, "in a child its parent's objects fail and what it makes itself works (%x)",
	       status);
	TAP_OK(!ibv_get_async_event(f->ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR,
	       "the parent's events are its own");
	fcntl(f->ctx->async_fd, F_SETFL, 0);
	post_send(qp, 1, 1);
	fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
	TAP_OK(poll_n(cq, &wc, 1) == 1, "the parent goes on");
	TAP_OK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "to its end");
}

int main(void)
{
	struct fixture f;

	no_daemon();
	setup(&f);
	device_list();
	late_and_stopped(&f);
	looked_up();
	queries(&f);
	addresses(&f);
	refusals(&f);
	address_handles(&f);
	unreliable_types(&f);
	limits(&f);
	posting_by_state(&f);
	posting_rings(&f);
	completing(&f);
	posting_lists(&f);
	posting_inline(&f);
	windows(&f);
	posting_operations(&f);
	windows(&f);
	modify_and_query(&f);
	many_qps(&f);
	completion_events(&f);
	acknowledgements(&f);
	async_events(&f);
	forks(&f);
	daemon_dies(&f);
	daemon_dies_while_polling(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "no object is left but the PD");
	teardown(&f);
	return tap_end();
}
