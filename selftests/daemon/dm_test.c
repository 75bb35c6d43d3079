// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device memory and null regions */
#include <errno.h>
#include <infiniband/verbs.h>

#include "control.h"

static uint32_t alloc_dm(struct conn *c, uint64_t length, int *status)
{
	struct xr_alloc_dm_req q = { .length = length, .log_align = 12 };

	*status = ask(c, XR_MSG_ALLOC_DM, &q, sizeof(q));
	return *status ? 0 : ((struct xr_alloc_dm_rep *)c->body)->handle;
}

static int reg_dm(struct conn *c, uint32_t pd, uint32_t dm, uint64_t off, uint64_t length)
{
	struct reg r = reg_of(pd, NULL, length, RW);

	add_segment(&r, XR_SEG_DM, NULL, length);
	r.segment[0].fd_index = dm;
	r.segment[0].offset = off;
	return send_reg(c, &r, NULL, 0);
}

static int reg_null(struct conn *c, uint32_t pd, uint32_t access)
{
	struct reg r = reg_of(pd, NULL, SIZE_MAX, access);

	add_segment(&r, XR_SEG_NULL, NULL, SIZE_MAX);
	return send_reg(c, &r, NULL, 0);
}

static void test_device_memory(void)
{
	uint8_t data[16] = { [0 ... 15] = 0x5a }, got[16] = { 0 };
	struct xr_reg_mr_rep mr;
	struct xd_dm *object;
	uint32_t pd, dm;
	struct conn c, other;
	struct reg r;
	int status;

	open_client(&c);
	open_client(&other);
	pd = alloc_pd(&c);
	alloc_dm(&c, 0, &status);
	TAP_OK(status == -EINVAL, "device memory of 0 bytes is refused");
	alloc_dm(&c, fake.opt.client_max_dm + 1, &status);
	TAP_OK(status == -ENOMEM, "device memory beyond the limit is refused");
	alloc_dm(&c, -1ull, &status);
	TAP_OK(status == -ENOMEM, "the largest length is refused");
	dm = alloc_dm(&c, fake.opt.client_max_dm - PAGE, &status);
	TAP_OK(dm, "device memory below the limit is allocated");
	alloc_dm(&c, PAGE + 1, &status);
	TAP_OK(status == -ENOMEM, "a second object of that size exceeds the limit");
	MUST(!ask_handle(&c, XR_MSG_FREE_DM, dm));
	dm = alloc_dm(&c, 5000, &status);
	object = xd_object_get(c.client, XD_DM, dm);
	TAP_OK(!reg_dm(&c, pd, dm, 1000, 4000), "a part of device memory is registered");
	mr = mr_of(&c);
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, (void *)3984, 16, data) &&
		       !memcmp(object->piece.ptr + 4984, data, 16),
	       "the last bytes of the region are at the right place");
	TAP_OK(read_key(&c, pd, mr.rkey, (void *)3985, 16, data) == -EACCES,
	       "access beyond the region is refused");
	TAP_OK(ask_handle(&c, XR_MSG_FREE_DM, dm) == -EBUSY,
	       "device memory with a region is not freed");
	TAP_OK(reg_dm(&c, pd, dm, 1001, 4000) == -EINVAL &&
		       reg_dm(&c, pd, dm, -8ull, 8) == -EINVAL &&
		       reg_dm(&c, pd, dm, -8ull, 16) == -EINVAL &&
		       reg_dm(&c, pd, dm + 1, 0, 8) == -ENOENT,
	       "a region beyond the device memory is refused");
	TAP_OK(reg_dm(&other, alloc_pd(&other), dm, 0, 8) == -ENOENT,
	       "device memory of another client is refused");
	r = reg_of(pd, NULL, 16, RW);
	add_segment(&r, XR_SEG_DM, NULL, 8);
	add_segment(&r, XR_SEG_DM, (void *)8, 8);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "two segments are refused");
	r = reg_of(pd, NULL, 4000, RW);
	add_segment(&r, XR_SEG_DM, NULL, 4000);
	TAP_OK(rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_ACCESS, &r) == -EINVAL,
	       "REREG_MR is refused");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));
	MUST(!ask_handle(&c, XR_MSG_FREE_DM, dm));
	dm = alloc_dm(&c, 5000, &status);
	MUST(!reg_dm(&c, pd, dm, 0, 5000));
	mr = mr_of(&c);
	TAP_OK(!read_key(&c, pd, mr.rkey, (void *)4984, 16, got) && !got[0] && !got[15],
	       "new device memory is zeroed");
	close_client(&other);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_null_region(void)
{
	uint8_t got[16] = { [0 ... 15] = 1 };
	struct xr_reg_mr_rep mr;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(reg_null(&c, pd, RW) == -EINVAL, "a null region with remote access is refused");
	TAP_OK(!reg_null(&c, pd, XR_ACCESS_LOCAL_WRITE), "a null region is registered");
	mr = mr_of(&c);
	TAP_OK(mr.lkey && !mr.rkey, "a null region has no R_Key");
	TAP_OK(!read_key(&c, pd, mr.lkey, (void *)0x123456, 16, got) && !got[0] && !got[15],
	       "a null region reads as zeros");
	TAP_OK(remote_read_key(&c, pd, mr.lkey, (void *)8, 8, got) == -EACCES,
	       "peers cannot access a null region");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("dm");
	test_device_memory();
	test_null_region();

	fake_server_stop();
	return tap_end();
}
