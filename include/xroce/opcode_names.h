/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of opcodes, for people: in filters of captures and rules of fault injection. */
#ifndef XROCE_OPCODE_NAMES_H
#define XROCE_OPCODE_NAMES_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <xroce/opcode.h>
#include <xroce/wire.h>

/* Returns the operation of an opcode, such as SEND_LAST; NULL: unknown. */
static inline const char *xr_operation_name(uint8_t opcode)
{
	static const char *const names[XR_OP_COUNT] = {
#define X(op, flags, classes) [XR_OP_##op] = #op,
		XR_OPERATIONS(X)
#undef X
	};

	if (opcode == XR_OPCODE_CNP)
		return "CNP";
	return names[opcode & ~XR_CLASS_MASK];
}

/* Returns the class that the name begins with, and skips it; -1: it names none. */
static inline int xr_opcode_class(const char **name)
{
	static const struct {
		const char *name;
		int class;
	} classes[] = {
		{ "RC", XR_CLASS_RC },
		{ "UC", XR_CLASS_UC },
		{ "UD", XR_CLASS_UD },
		{ "XRC", XR_CLASS_XRC },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		size_t len = strlen(classes[i].name);

		if (strncasecmp(*name, classes[i].name, len) || !strchr("_-", (*name)[len]) ||
		    !(*name)[len])
			continue;
		*name += len + 1;
		return classes[i].class;
	}
	return -1;
}

/* Returns true if `name` is `full`, or its beginning up to a '_'. */
static inline bool xr_operation_begins(const char *full, const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if (toupper((unsigned char)name[i]) != full[i] &&
		    !(name[i] == '-' && full[i] == '_'))
			return false;
	return i && (!full[i] || full[i] == '_');
}

static inline bool xr_opcodes_add_name(__u64 set[4], const char *name)
{
	const int class = xr_opcode_class(&name);
	bool any = false;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		if (!xr_opcodes[opcode].flags ||
		    (class >= 0 && class != (int)(opcode & XR_CLASS_MASK)) ||
		    !xr_operation_begins(xr_operation_name((uint8_t)opcode), name))
			continue;
		set[opcode / 64] |= 1ull << opcode % 64;
		any = true;
	}
	return any;
}

/*
 * Adds the opcodes that a word stands for to a set: a number up to 255, or a name in upper or
 * lower case, in which '-' is the same as '_'. A name stands for the operation, and for all that
 * continue it behind a '_': WRITE, send-last. With RC_, UC_, UD_ or XRC_ in front it stands for
 * those of this class only. Returns false if there is no such opcode.
 */
static inline bool xr_opcodes_add(__u64 set[4], const char *word)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*word))
		return xr_opcodes_add_name(set, word);
	errno = 0;
	n = strtoull(word, &end, 0);
	if (errno || *end || n > 255)
		return false;
	set[n / 64] |= 1ull << n % 64;
	return true;
}

#endif /* XROCE_OPCODE_NAMES_H */
