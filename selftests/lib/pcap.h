/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads capture files (classic pcap format, either byte order):
 *
 *     struct pcap p;
 *     if (pcap_open(&p, path))
 *             while ((data = pcap_next(&p, &len))) ...
 *     pcap_close(&p);
 */
#ifndef PCAP_H
#define PCAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pcap {
	FILE *file;
	bool swap;
	uint8_t *data; /* exactly as long as the packet, so that sanitizers detect overruns */
};

__attribute__((unused)) static bool pcap_open(struct pcap *p, const char *path)
{
	uint32_t header[6];

	memset(p, 0, sizeof(*p));
	p->file = fopen(path, "rb");
	if (!p->file || fread(header, sizeof(header), 1, p->file) != 1)
		return false;
	p->swap = header[0] == 0xd4c3b2a1 || header[0] == 0x4d3cb2a1;
	return p->swap || header[0] == 0xa1b2c3d4 || header[0] == 0xa1b23c4d;
}

/* Returns the next packet, which is valid until the next call, or NULL at the end. */
__attribute__((unused)) static uint8_t *pcap_next(struct pcap *p, uint32_t *len)
{
	uint32_t header[4];

	free(p->data);
	p->data = NULL;
	if (fread(header, sizeof(header), 1, p->file) != 1)
		return NULL;
	*len = p->swap ? __builtin_bswap32(header[2]) : header[2];
	p->data = malloc(*len ? *len : 1);
	if (!p->data || fread(p->data, 1, *len, p->file) != *len)
		return NULL;
	return p->data;
}

__attribute__((unused)) static void pcap_close(struct pcap *p)
{
	free(p->data);
	if (p->file)
		fclose(p->file);
}

#endif /* PCAP_H */
