// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xdp.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/bpf/maps.h"
#include "dispatcher.h"
#include "gso.h"
#include "gso.skel.h"
#include "xroce.skel.h"
#include "xsk.h"

#define GSO_PROGRAM "xroce_gso"

enum mode { NATIVE_ZEROCOPY, NATIVE_COPY, GENERIC };

struct xd_xdp {
	const struct xd_options *opt;
	const struct xd_gso *gso;
	const char *ifname;
	struct xroce_bpf *skel; /* owns the maps */
	struct xd_maps maps;
	struct bpf_object *object; /* of the program, which uses these maps; NULL: none yet */
	const char *program;	   /* its name */
	int link;		   /* bpf_link of the program, -1: not attached */
	struct xd_dispatcher *dispatcher; /* NULL: the program is attached by the link */
	enum mode mode;
	bool zerocopy, multi_buffer;
	bool receives_gso, chosen_for_gso; /* generic mode */
	char why[256];			   /* reason for the mode */
};

/* ---- load and attach -------------------------------------------------------------------- */

/* Creates the maps of the skeleton without its programs. */
static int load_maps(struct xd_xdp *x)
{
	struct bpf_program *prog;

	x->skel = xroce_bpf__open();
	if (!x->skel)
		return -errno;
	bpf_object__for_each_program(prog, x->skel->obj) bpf_program__set_autoload(prog, false);
	xd_maps_resize(x->skel->obj, x->opt);
	x->skel->rodata->nak_rate = x->opt->nak_rate;
	return xroce_bpf__load(x->skel);
}

static int make_maps(struct xd_xdp *x)
{
	struct xd_maps_skeleton skel;
	int err = load_maps(x);

	if (err) {
		xd_log(XD_ERR, "creating the BPF maps: %s%s", strerror(-err),
		       err == -EPERM ? " (CAP_BPF and CAP_NET_ADMIN are needed)" : "");
		return err;
	}
	skel = (struct xd_maps_skeleton){
		.obj = x->skel->obj,
		.report_refused = (uint32_t *)&x->skel->bss->report_refused,
		.refused_lost = (uint64_t *)&x->skel->bss->refused_lost,
	};
	return xd_maps_take(&x->maps, x->opt, &skel);
}

int xd_xdp_load(const struct xd_options *opt, const char *ifname, const struct xd_gso *gso,
		struct xd_xdp **xdp)
{
	struct xd_xdp *x = calloc(1, sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	x->opt = opt;
	x->gso = gso;
	x->ifname = ifname;
	xd_maps_init(&x->maps);
	x->link = -1;
	x->zerocopy = true; /* until xd_xdp_no_zerocopy() */
	x->multi_buffer = xd_xsk_multi_buffer_possible();
	xd_maps_log_warnings();
	xd_dispatcher_init(opt->bpffs);
	err = opt->dispatcher ? xd_dispatcher_start(&x->dispatcher) : 0;
	if (!err)
		err = make_maps(x);
	if (err) {
		xd_xdp_close(x);
		return err;
	}
	*xdp = x;
	return 0;
}

static void drop_program(struct xd_xdp *x)
{
	bpf_object__close(x->object);
	x->object = NULL;
}

/* Opens an object file a second time, or the other one, with the name that its maps have. */
static struct bpf_object *open_object(bool gso)
{
	DECLARE_LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "xroce_bpf");
	size_t size;
	const void *elf = gso ? gso_bpf__elf_bytes(&size) : xroce_bpf__elf_bytes(&size);

	return bpf_object__open_mem(elf, size, &opts);
}

/* Makes the program use a map that exists. */
static int share_map(struct bpf_object *obj, const struct bpf_map *map)
{
	struct bpf_map *copy = bpf_object__find_map_by_name(obj, bpf_map__name(map));

	if (!copy || bpf_map__value_size(copy) != bpf_map__value_size(map))
		return -EINVAL;
	return bpf_map__reuse_fd(copy, bpf_map__fd(map));
}

static int open_program(struct xd_xdp *x, const char *name)
{
	struct bpf_program *prog;
	struct bpf_map *map;
	int err = 0;

	x->object = open_object(!strcmp(name, GSO_PROGRAM));
	if (!x->object)
		return -errno;
	x->program = name;
	bpf_object__for_each_program(prog, x->object)
		bpf_program__set_autoload(prog, !strcmp(bpf_program__name(prog), name));
	bpf_object__for_each_map(map, x->skel->obj)
	{
		if (!err)
			err = share_map(x->object, map);
	}
	return err;
}

/* Loads a program in place of another one; libxdp loads programs for its dispatcher. */
static int load_program(struct xd_xdp *x, const char *name)
{
	int err;

	if (x->object && !strcmp(x->program, name))
		return 0;
	drop_program(x);
	err = open_program(x, name);
	if (!err && !x->dispatcher)
		err = bpf_object__load(x->object);
	if (err)
		drop_program(x);
	return err;
}

static const char *usual_program(const struct xd_xdp *x)
{
	return x->multi_buffer ? "xroce_frags" : "xroce";
}

static int load_usual(struct xd_xdp *x)
{
	int err = load_program(x, usual_program(x));

	if (err)
		xd_log(XD_ERR, "loading the XDP program: %s", strerror(-err));
	return err;
}

/* Not behind the dispatcher: programs of others there expect frames of at most the MTU. */
static bool load_gso(struct xd_xdp *x)
{
	int err;

	if (!x->multi_buffer || x->dispatcher)
		return false;
	err = load_program(x, GSO_PROGRAM);
	if (err)
		xd_log(XD_NOTICE, "no GSO frames are received: loading the XDP program: %s",
		       strerror(-err));
	return !err;
}

static int attach_dispatched(struct xd_xdp *x, unsigned int ifindex, uint32_t flags)
{
	const struct xd_dispatched what = {
		.obj = x->object,
		.program = x->program,
		.priority = x->opt->dispatcher,
	};

	return xd_dispatcher_attach(x->dispatcher, &what, ifindex, flags & XDP_FLAGS_SKB_MODE);
}

static int attach_link(struct xd_xdp *x, unsigned int ifindex, uint32_t flags)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(x->object, x->program);
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);

	x->link = bpf_link_create(bpf_program__fd(prog), (int)ifindex, BPF_XDP, &opts);
	return x->link < 0 ? x->link : 0;
}

static int try_attach(struct xd_xdp *x, unsigned int ifindex, uint32_t flags)
{
	if (x->dispatcher)
		return attach_dispatched(x, ifindex, flags);
	return attach_link(x, ifindex, flags);
}

static void set_native(struct xd_xdp *x)
{
	x->mode = x->zerocopy ? NATIVE_ZEROCOPY : NATIVE_COPY;
	if (x->zerocopy)
		snprintf(x->why, sizeof(x->why), "the driver has native XDP and zero-copy AF_XDP");
}

/* Appends "NAME (id N)", or the ID alone if the name may not be read (CAP_SYS_ADMIN). */
static void append_program(char *text, size_t size, const char *name, uint32_t id)
{
	size_t n = strlen(text);

	if (name && *name)
		snprintf(text + n, size - n, "%s%s (id %u)", n ? ", " : "", name, id);
	else
		snprintf(text + n, size - n, "%sprogram %u", n ? ", " : "", id);
}

/* Programs that libxdp's dispatcher calls, or the only one. Returns false if there is none. */
static bool attached_by_libxdp(unsigned int ifindex, char *text, size_t size, bool *dispatched)
{
	struct xdp_multiprog *all = xdp_multiprog__get_from_ifindex((int)ifindex);
	struct xdp_program *p = NULL;

	if (libxdp_get_error(all))
		return false;
	*dispatched = !xdp_multiprog__is_legacy(all);
	if (!*dispatched) {
		p = xdp_multiprog__main_prog(all);
		append_program(text, size, xdp_program__name(p), xdp_program__id(p));
	} else {
		while ((p = xdp_multiprog__next_prog(p, all)))
			append_program(text, size, xdp_program__name(p), xdp_program__id(p));
	}
	xdp_multiprog__close(all);
	return *text;
}

/* Logs which program keeps ours from being attached, how to remove it, and how to run beside it. */
static void log_other_program(const struct xd_xdp *x, unsigned int ifindex)
{
	DECLARE_LIBBPF_OPTS(bpf_xdp_query_opts, now);
	bool dispatched = false;
	char text[256] = "";

	if (!attached_by_libxdp(ifindex, text, sizeof(text), &dispatched)) {
		if (bpf_xdp_query((int)ifindex, 0, &now))
			return;
		append_program(text, sizeof(text), NULL,
			       now.drv_prog_id ?: now.skb_prog_id ?: now.hw_prog_id);
	}
	xd_log(XD_ERR,
	       "XDP on %s is in use by %s; to remove it: xdp-loader unload --all %s, or ip link "
	       "set %s xdp off%s",
	       x->ifname, text, x->ifname, x->ifname,
	       dispatched && !x->dispatcher ? "; to run beside it: --dispatcher" : "");
}

static int attach_native(struct xd_xdp *x, unsigned int ifindex)
{
	int err = try_attach(x, ifindex, XDP_FLAGS_DRV_MODE);

	if (!err)
		set_native(x);
	else
		snprintf(x->why, sizeof(x->why), "native XDP: %s", strerror(-err));
	return err;
}

static int attach_generic(struct xd_xdp *x, unsigned int ifindex)
{
	int err;

	x->mode = GENERIC;
	x->receives_gso = load_gso(x);
	err = x->receives_gso ? 0 : load_usual(x);
	return err ? err : try_attach(x, ifindex, XDP_FLAGS_SKB_MODE);
}

/* Tries native mode first. */
static int attach_either(struct xd_xdp *x, unsigned int ifindex)
{
	int err = load_usual(x);

	if (!err)
		err = attach_native(x, ifindex);
	if (!err || err == -EBUSY || err == -EEXIST || x->opt->attach != XD_ATTACH_AUTO)
		return err;
	return attach_generic(x, ifindex);
}

static int xdp_attach(struct xd_xdp *x, unsigned int ifindex)
{
	if (x->opt->attach == XD_ATTACH_GENERIC) {
		snprintf(x->why, sizeof(x->why), "requested by --attach");
		return attach_generic(x, ifindex);
	}
	if (x->gso->prefer_generic && load_gso(x)) {
		snprintf(x->why, sizeof(x->why), "native XDP receives no GSO frames");
		x->chosen_for_gso = true;
		return attach_generic(x, ifindex);
	}
	return attach_either(x, ifindex);
}

int xd_xdp_attach(struct xd_xdp *x, unsigned int ifindex)
{
	int err = xdp_attach(x, ifindex);

	if (err) {
		xd_log(XD_ERR, "attaching the XDP program to %s: %s%s", x->ifname, strerror(-err),
		       err == -EBUSY || err == -EEXIST ? " (another program is attached)" : "");
		if (err == -EBUSY || err == -EEXIST)
			log_other_program(x, ifindex);
		return err;
	}
	xd_log(XD_NOTICE, "XDP on %s: %s, %s%s; %s", x->ifname, xd_xdp_mode_name(x),
	       x->multi_buffer ? "multi-buffer" : "single-buffer",
	       x->dispatcher ? ", behind the dispatcher of libxdp" : "", x->why);
	return 0;
}

/* The kernel keeps a link that somebody detached by force, without an interface. */
static bool has_interface(int link)
{
	struct bpf_link_info info = { 0 };
	uint32_t size = sizeof(info);

	return bpf_obj_get_info_by_fd(link, &info, &size) || info.xdp.ifindex;
}

bool xd_xdp_is_attached(const struct xd_xdp *x)
{
	return x->dispatcher ? xd_dispatcher_is_attached(x->dispatcher) : has_interface(x->link);
}

void xd_xdp_no_zerocopy(struct xd_xdp *x, int err)
{
	x->zerocopy = false;
	snprintf(x->why, sizeof(x->why), "zero-copy AF_XDP: %s",
		 x->opt->attach == XD_ATTACH_NATIVE ? "excluded by --attach native"
						    : strerror(-err));
}

int xd_xdp_give_pins(struct xd_xdp *x)
{
	return xd_pins_give(&x->maps.pins);
}

void xd_xdp_detach(struct xd_xdp *x)
{
	if (x->link >= 0)
		close(x->link);
	x->link = -1;
	xd_dispatcher_stop(x->dispatcher);
	x->dispatcher = NULL;
	xd_pins_release(&x->maps.pins);
}

void xd_xdp_close(struct xd_xdp *x)
{
	if (!x)
		return;
	xd_xdp_detach(x);
	drop_program(x);
	xd_maps_free(&x->maps);
	xroce_bpf__destroy(x->skel);
	free(x);
}

/* ---- mode ----------------------------------------------------------------------------------- */

const char *xd_xdp_mode_name(const struct xd_xdp *x)
{
	static const char *const names[] = {
		[NATIVE_ZEROCOPY] = "native zero-copy",
		[NATIVE_COPY] = "native copy",
		[GENERIC] = "generic",
	};

	return names[x->mode];
}

bool xd_xdp_is_slow(const struct xd_xdp *x)
{
	return x->mode == GENERIC && !x->chosen_for_gso;
}

bool xd_xdp_receives_gso(const struct xd_xdp *x)
{
	return x->receives_gso;
}

const char *xd_xdp_mode_why(const struct xd_xdp *x)
{
	return x->why;
}

bool xd_xdp_multi_buffer(const struct xd_xdp *x)
{
	return x->multi_buffer;
}

const char *xd_xdp_pins(const struct xd_xdp *x)
{
	return x->maps.pins.dir;
}

struct xd_tables *xd_xdp_tables(struct xd_xdp *x)
{
	return &x->maps.tables;
}

int xd_xdp_xsk_set(struct xd_xdp *x, uint32_t queue, int xsk_fd)
{
	return bpf_map_update_elem(bpf_map__fd(x->skel->maps.xsks), &queue, &xsk_fd, BPF_ANY);
}
