/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fuzzer input as a stream of values. The stream continues with zeros after its end. */
#ifndef INPUT_H
#define INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stream {
	const uint8_t *data;
	size_t left;
};

/* Asserts an invariant. If it is false, libFuzzer reports a crash and saves the input. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			dprintf(2, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);              \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline bool input_end(const struct stream *in)
{
	return !in->left;
}

static inline void input_bytes(struct stream *in, void *to, size_t len)
{
	size_t n = len < in->left ? len : in->left;

	memset(to, 0, len);
	if (n)
		memcpy(to, in->data, n);
	in->data += n;
	in->left -= n;
}

static inline uint8_t input_u8(struct stream *in)
{
	uint8_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint16_t input_u16(struct stream *in)
{
	uint16_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint32_t input_u32(struct stream *in)
{
	uint32_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* INPUT_H */
