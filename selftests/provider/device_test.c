// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device list, device attributes, port, GIDs, refused verbs */
#include "fixture.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#include <xroce/control.h>

#include "../lib/tap.h"

static void no_daemon(void)
{
	struct ibv_device **list;
	int n = -1;

	setenv("XROCE_RUNTIME_DIR", "/nonexistent", 1);
	errno = 0;
	list = ibv_get_device_list(&n);
	TAP_OK(list ? n >= 0 : errno == ENOSYS && n == 0,
	       "without a daemon, the list is that of libibverbs");
	if (list)
		ibv_free_device_list(list);
}

static void device_list(void)
{
	struct ibv_device **list, **again;
	int n = 0, i = -1;

	errno = 7;
	list = ibv_get_device_list(&n);
	TAP_OK(list && n >= 1 && !list[n] && errno == 7,
	       "the device is listed and errno unchanged");
	TAP_OK(!strcmp(ibv_get_device_name(list[n - 1]), FAKE_DEVICE),
	       "the device has the daemon's name");
	TAP_OK(ibv_get_device_guid(list[n - 1]) == FAKE_GUID, "the device has the daemon's GUID");
	TAP_OK(ibv_get_device_index(list[n - 1]) == -1, "the device has no kernel index");
	again = ibv_get_device_list(NULL);
	TAP_OK(again[n - 1] == list[n - 1], "a second list has the same device");
	ibv_free_device_list(list);
	TAP_OK(!strcmp(ibv_get_device_name(again[n - 1]), FAKE_DEVICE),
	       "a device remains valid after another list was freed");
	ibv_free_device_list(again);
	setenv("XROCE_DEVICES", "other,fak,fake00", 1);
	again = ibv_get_device_list(&i);
	TAP_OK(i == n - 1, "XROCE_DEVICES hides a device that it does not name");
	if (again)
		ibv_free_device_list(again);
	setenv("XROCE_DEVICES", "other," FAKE_DEVICE, 1);
	again = ibv_get_device_list(&i);
	TAP_OK(i == n, "XROCE_DEVICES shows a device that it names");
	ibv_free_device_list(again);
	unsetenv("XROCE_DEVICES");
	TAP_OK(!ibv_import_device(0), "ibv_import_device fails for a foreign descriptor");
}

/* The provider waits for a slow daemon, but only shortly for a stopped one. */
static void late_and_stopped(struct fixture *f)
{
	struct ibv_context *ctx;
	time_t begun, took;
	int status, tries = 0;

	fake_slow(&f->daemon, 1000);
	ctx = open_fake();
	TAP_OK(ctx, "a daemon that replies after a second is found and opened");
	if (ctx)
		ibv_close_device(ctx);
	fake_slow(&f->daemon, 0);
	kill(f->daemon.pid, SIGSTOP);
	waitpid(f->daemon.pid, &status, WUNTRACED);
	/* A busy machine may delay some of the attempts. */
	do {
		begun = time(NULL);
		ctx = open_fake();
		took = time(NULL) - begun;
	} while (!ctx && took >= 4 && ++tries < 5);
	TAP_OK(!ctx && took < 4, "opening the device of a stopped daemon fails within seconds");
	kill(f->daemon.pid, SIGCONT);
	ctx = open_fake();
	TAP_OK(ctx && !ibv_close_device(ctx), "the device can be opened when the daemon continues");
}

/* Programs such as NCCL open libibverbs with dlopen() and look up every function. */
static void looked_up(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW), *ours, *theirs;

	ours = dlvsym(handle, "ibv_get_device_list", "IBVERBS_1.1");
	theirs = dlvsym(handle, "ibv_wc_status_str", "IBVERBS_1.1");
	TAP_OK(ours && ours == dlsym(RTLD_DEFAULT, "ibv_get_device_list"),
	       "dlopen of libibverbs finds the provider's functions");
	TAP_OK(theirs && theirs == dlsym(RTLD_DEFAULT, "ibv_wc_status_str"),
	       "dlopen of libibverbs finds the other functions of libibverbs");
	TAP_OK(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) == handle,
	       "a second dlopen returns the same handle");
	TAP_OK(!dlopen("libnosuch.so.1", RTLD_NOW) && strstr(dlerror(), "libnosuch.so.1"),
	       "dlopen errors for other libraries are unchanged");
	dlclose(handle);
}

static void queries(struct fixture *f)
{
	struct {
		struct ibv_device_attr_ex attr;
		uint8_t after[64];
	} ex;
	int (*old_query_port)(struct ibv_context *, uint8_t, void *) = dlsym(RTLD_DEFAULT,
									     "ibv_query_port");
	struct verbs_context *vctx = verbs_get_ctx(f->ctx);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	uint8_t raw[128];

	TAP_OK(!ibv_query_device(f->ctx, &attr) && attr.max_cqe == 4096 &&
		       attr.phys_port_cnt == 1 && !strcmp(attr.fw_ver, "fake") &&
		       attr.device_cap_flags == IBV_DEVICE_XRC,
	       "query_device returns the attributes of the device");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!ibv_query_device_ex(f->ctx, NULL, &ex.attr) && ex.attr.phys_port_cnt_ex == 1 &&
		       ex.attr.device_cap_flags_ex == (IBV_DEVICE_XRC | XR_DEVICE_CAPS_EX) &&
		       ex.after[0] == 0x55,
	       "query_device_ex returns the extended capabilities");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!vctx->query_device_ex(f->ctx, NULL, &ex.attr, sizeof(attr) + 8) &&
		       ex.attr.orig_attr.max_pd == 100 && !ex.attr.comp_mask &&
		       ((uint8_t *)&ex)[sizeof(attr) + 8] == 0x55,
	       "query_device_ex fills a shorter struct");
	memset(&ex, 0x55, sizeof(ex));
	TAP_OK(!vctx->query_device_ex(f->ctx, NULL, &ex.attr, sizeof(ex)) && !ex.after[63],
	       "query_device_ex fills a longer struct with zeros");
	TAP_OK(vctx->query_device_ex(f->ctx, NULL, &ex.attr, 16) == EINVAL,
	       "query_device_ex refuses a struct that is too short");
	TAP_OK(!ibv_query_port(f->ctx, 1, &port) && port.state == IBV_PORT_ACTIVE &&
		       port.link_layer == IBV_LINK_LAYER_ETHERNET &&
		       port.flags & IBV_QPF_GRH_REQUIRED,
	       "query_port returns an active Ethernet port");
	memset(raw, 0x55, sizeof(raw));
	TAP_OK(!old_query_port(f->ctx, 1, raw) &&
		       ((struct ibv_port_attr *)raw)->active_mtu == IBV_MTU_2048 &&
		       raw[offsetof(struct ibv_port_attr, port_cap_flags2)] == 0x55,
	       "the exported ibv_query_port fills only the original struct");
	TAP_OK(ibv_query_port(f->ctx, 2, &port) == EINVAL, "query_port refuses port 2");
}

static void addresses(struct fixture *f)
{
	int (*gid_type)(struct ibv_context *, uint8_t, unsigned int,
			int *) = dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	struct ibv_gid_entry entry[4];
	union ibv_gid gid;
	__be16 pkey = 0;
	int type = -1;

	TAP_OK(!ibv_query_gid(f->ctx, 1, 0, &gid) && gid.raw[0] == 0xfe,
	       "query_gid returns an entry");
	TAP_OK(!ibv_query_gid(f->ctx, 1, 1, &gid) && !gid.raw[0],
	       "query_gid returns zeros for an empty entry");
	TAP_OK(ibv_query_gid(f->ctx, 1, 256, &gid) == -1 && errno == EINVAL,
	       "query_gid refuses an index beyond the table");
	TAP_OK(!ibv_query_gid_ex(f->ctx, 1, 2, entry, 0) && entry->gid_index == 2 &&
		       entry->gid_type == IBV_GID_TYPE_ROCE_V2,
	       "query_gid_ex returns an entry and its type");
	TAP_OK(ibv_query_gid_ex(f->ctx, 1, 1, entry, 0) == ENODATA,
	       "query_gid_ex returns ENODATA for an empty entry");
	TAP_OK(ibv_query_gid_ex(f->ctx, 1, 2, entry, 1) == EINVAL, "query_gid_ex refuses flags");
	TAP_OK(ibv_query_gid_table(f->ctx, entry, 4, 0) == 2 && entry[1].gid_index == 2,
	       "query_gid_table returns all entries in use");
	TAP_OK(ibv_query_gid_table(f->ctx, entry, 1, 0) == -EINVAL,
	       "query_gid_table refuses a table that is too small");
	TAP_OK(gid_type && !gid_type(f->ctx, 1, 2, &type) && type == 1,
	       "ibv_query_gid_type returns RoCE v2");
	TAP_OK(!ibv_query_pkey(f->ctx, 1, 0, &pkey) && pkey == htons(0xffff),
	       "query_pkey returns the default P_Key");
	TAP_OK(ibv_query_pkey(f->ctx, 1, 1, &pkey) == -1,
	       "query_pkey refuses other indices than 0");
	TAP_OK(ibv_get_pkey_index(f->ctx, 1, htons(0xffff)) == 0,
	       "get_pkey_index finds the default P_Key");
	TAP_OK(ibv_get_pkey_index(f->ctx, 1, htons(1)) == -1,
	       "get_pkey_index finds no other P_Key");
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
	struct ibv_modify_cq_attr unknown = { .attr_mask = IBV_CQ_ATTR_MODERATE << 1 };
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
	REFUSED_INT(ibv_modify_cq(cq, &unknown));
	REFUSED(ibv_import_pd(f->ctx, 1));
	REFUSED(ibv_import_mr(f->pd, 1));
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
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
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
