// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "place.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "bench/place.skel.h"
#include "daemon/transport/base/crc.h"

/* The entry of a byte is the state that the byte leaves: without the inversions of a CRC. */
static void fill_table(uint32_t *table)
{
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
}

const uint64_t *place_open(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring)
{
	struct place_bpf *bpf = place_bpf__open();
	void *memory;

	raw_open_socket(s, netns, ifname, ring);
	if (!bpf)
		raw_die("XDP program", errno);
	fill_table((uint32_t *)bpf->rodata->crc_of_byte);
	if (place_bpf__load(bpf))
		raw_die("XDP program", errno);
	memory = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
		      bpf_map__fd(bpf->maps.region), 0);
	if (memory == MAP_FAILED)
		raw_die("map", errno);
	raw_attach(s, ifname, bpf_program__fd(bpf->progs.place), bpf_map__fd(bpf->maps.xsks),
		   XDP_FLAGS_DRV_MODE);
	return memory;
}

void place_crc(uint8_t *frame)
{
	uint32_t crc = xt_crc32(0, frame + PLACE_HEADER, PLACE_FRAME - PLACE_HEADER - 4);

	memcpy(frame + PLACE_FRAME - 4, &crc, sizeof(crc));
}
