// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Output of the map iterators; loading of the programs as in the daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "fixture.h"
#include "iter.skel.h"
#include "selftests/lib/tap.h"
#include "suites.h"
#include "xroce.skel.h"

/* Returns the text of a table, which the caller frees, or NULL if it cannot be read. */
static char *table_text(struct bpf_program *prog, struct bpf_map *map)
{
	union bpf_iter_link_info info = { .map.map_fd = bpf_map__fd(map) };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link = bpf_program__attach_iter(prog, &opts);
	size_t room = 65536, len = 0;
	char *text = malloc(room);
	ssize_t n = -1;
	int fd;

	if (!link || !text)
		goto out;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		goto out;
	while ((n = read(fd, text + len, room - 1 - len)) > 0)
		len += n;
	text[len] = 0;
	close(fd);
out:
	bpf_link__destroy(link);
	if (n < 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Returns true if one line of the text contains all words. */
static bool has_line(const char *text, const char *const *words)
{
	char line[512];

	for (; text && *text; text += strcspn(text, "\n") + 1) {
		const char *const *word = words;

		snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
		while (*word && strstr(line, *word))
			word++;
		if (!*word)
			return true;
		if (!strchr(text, '\n'))
			break;
	}
	return false;
}
#define HAS_LINE(text, ...) has_line(text, (const char *const[]){ __VA_ARGS__, NULL })

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static const char *hex(uint32_t value, int digits, char *buf)
{
	sprintf(buf, "0x%0*x", digits, value);
	return buf;
}

static void check_qps(const char *text)
{
	char n[16];

	TAP_OK(HAS_LINE(text, "qpn", "type", "state", "pd", "dest_qpn", "pkey", "qkey", "mtu",
			"slot", "access", "local", "peer"),
	       "QPs: names of the columns");
	TAP_OK(lines_of(text) == QP_MISSING, "QPs: one line for each entry: %u", lines_of(text));
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_RC4), 6, n), "RC", "RTS", "0x123456", "0xffff",
			"1024", "rwa", "10.9.0.2 10.9.0.1"),
	       "QPs: RC over IPv4");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_UD6), 6, n), "UD", "0x11111111",
			"fd00:0009:0000:0000:0000:0000:0000:0002",
			"fd00:0009:0000:0000:0000:0000:0000:0001"),
	       "QPs: UD over IPv6");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_ERR), 6, n), "RC", "ERR"), "QPs: state ERR");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_SQE), 6, n), "UC", "SQE"), "QPs: state SQE");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_NO_STATE), 6, n), "RC", "255"), "QPs: unknown state");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_NO_WRITE), 6, n), " r-a "), "QPs: access");
	TAP_OK(HAS_LINE(text, hex(test_qpn(QP_XRC_RECV4), 6, n), "XRC_RECV"), "QPs: XRC");
}

static void check_keys(const char *text)
{
	char n[16], window[16];

	TAP_OK(HAS_LINE(text, "key", "type", "state", "pd", "qpn", "access", "va", "length"),
	       "keys: names of the columns");
	TAP_OK(lines_of(text) == KEY_MISSING + 1, "keys: one line for each entry: %u",
	       lines_of(text));
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_FULL), 8, n), "MR", "VALID", "7 ", "0x000000",
			"rwa", "0x00007f0012345000", "0x2000"),
	       "keys: a region");
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_WINDOW), 8, n), "MW", "VALID",
			hex(test_qpn(QP_RC4), 6, window)),
	       "keys: a window");
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_FREED), 8, n), "FREE"), "keys: state FREE");
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_INVALIDATED), 8, n), "INVALID"),
	       "keys: state INVALID");
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_READ_ONLY), 8, n), " r-- "), "keys: access");
	TAP_OK(HAS_LINE(text, hex(test_rkey(KEY_TOP), 8, n), "0xffffffffffffe000", "0x2000"),
	       "keys: top of memory");
}

void test_iterators(struct fixture *f)
{
	struct iter_bpf *iter;
	char *text;

	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) != 1) {
		tap_skip("iterators", "this kernel refuses programs of type BPF_PROG_TYPE_TRACING");
		return;
	}
	iter = iter_bpf__open_and_load();
	if (!TAP_OK(iter, "iterators load"))
		return;
	text = table_text(iter->progs.qps_text, f->skel->maps.qps);
	if (TAP_OK(text, "the QP table can be read"))
		check_qps(text);
	free(text);
	text = table_text(iter->progs.keys_text, f->skel->maps.keys);
	if (TAP_OK(text, "the key table can be read"))
		check_keys(text);
	free(text);
	iter_bpf__destroy(iter);
}

/* ---- loading ----------------------------------------------------------------------- */

static void load_one(const char *name)
{
	struct xroce_bpf *skel = xroce_bpf__open();
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);
	struct bpf_program *prog;
	int err = -1;

	if (skel) {
		bpf_object__for_each_program(prog, skel->obj)
			bpf_program__set_autoload(prog, !strcmp(bpf_program__name(prog), name));
		prog = bpf_object__find_program_by_name(skel->obj, name);
		bpf_map__set_max_entries(skel->maps.qps, 1000);
		bpf_map__set_max_entries(skel->maps.psns, 1000);
		err = xroce_bpf__load(skel);
		if (!err)
			bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len);
	}
	TAP_OK(!err && info.type == BPF_PROG_TYPE_XDP, "%s loads alone, %u verified instructions",
	       name, info.verified_insns);
	xroce_bpf__destroy(skel);
}

static bool map_has_types(struct bpf_map *map)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	return !bpf_obj_get_info_by_fd(bpf_map__fd(map), &info, &len) && info.btf_value_type_id;
}

/* Returns true if psns can be mapped: the daemon stores sequence numbers without system calls. */
static bool can_be_mapped(struct bpf_map *map)
{
	size_t len = bpf_map__max_entries(map) * sizeof(struct xr_psn_entry);
	struct xr_psn_entry *psns, entry = {};
	uint32_t slot = 1;
	bool ok;

	psns = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (psns == MAP_FAILED)
		return false;
	psns[slot].next = 0x123456;
	ok = !bpf_map__lookup_elem(map, &slot, sizeof(slot), &entry, sizeof(entry), 0) &&
	     entry.next == psns[slot].next;
	munmap(psns, len);
	return ok;
}

static void check_maps(struct xroce_bpf *skel)
{
	static const char *const named[] = { "qps", "keys", "addrs", "psns", "stats", "limiter" };
	unsigned i;

	for (i = 0; i < sizeof(named) / sizeof(*named); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(skel->obj, named[i]);

		TAP_OK(map && map_has_types(map), "map %s has BTF types", named[i]);
	}
	TAP_OK(bpf_object__find_map_by_name(skel->obj, "xsks"), "map xsks");
	TAP_OK(can_be_mapped(skel->maps.psns), "map psns can be mapped and written");
}

void test_load(void)
{
	struct xroce_bpf *skel;

	load_one("xroce");
	load_one("xroce_frags");
	skel = xroce_bpf__open_and_load();
	if (TAP_OK(skel, "both programs load together"))
		check_maps(skel);
	xroce_bpf__destroy(skel);
}
