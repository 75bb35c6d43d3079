// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which packets a rule of fault injection selects. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "fault_parse.h"

bool xd_fault_set_qp(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number32(w, 0, 0xffffff, &r->match.qpn);
}

bool xd_fault_set_queue(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number32(w, 0, XR_MAX_WORKERS - 1, &r->match.queue);
}

bool xd_fault_set_pid(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number32(w, 1, INT32_MAX, &r->match.pid);
}

bool xd_fault_set_uid(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number32(w, 0, UINT32_MAX - 1, &r->match.uid);
}

bool xd_fault_set_command(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name = xd_words_next(w);

	if (!name || strlen(name) >= sizeof(r->match.command))
		return xd_words_wrong(w, name, "the name of a command of at most 15 characters");
	strcpy(r->match.command, name);
	return true;
}

bool xd_fault_set_peer(struct xd_words *w, struct xd_fault_rule *r)
{
	r->match.has_peer = true;
	return xd_words_address(w, &r->match.peer);
}

bool xd_fault_set_mads(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.mads = true;
	return true;
}

bool xd_fault_set_rx(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.direction = XD_FAULT_RX;
	return true;
}

bool xd_fault_set_tx(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->match.direction = XD_FAULT_TX;
	return true;
}

static const struct operation {
	const char *name;
	uint8_t op;
} operations[] = {
#define X(name, flags, classes) { #name, XR_OP_##name },
	XR_OPERATIONS(X)
#undef X
};

static const struct operation classes[] = {
	{ "RC_", XR_CLASS_RC },
	{ "UC_", XR_CLASS_UC },
	{ "UD_", XR_CLASS_UD },
	{ "XRC_", XR_CLASS_XRC },
};

static void select_opcode(struct xd_fault_rule *r, unsigned opcode)
{
	r->match.has_opcodes = true;
	r->match.opcodes[opcode / 64] |= 1ull << opcode % 64;
}

/* Selects an operation in the class that its name begins with, else in all classes. */
static bool select_operation(struct xd_fault_rule *r, const char *name)
{
	unsigned class = XD_FAULT_ANY, i;
	size_t len;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		len = strlen(classes[i].name);
		if (strncasecmp(name, classes[i].name, len))
			continue;
		class = classes[i].op;
		name += len;
		break;
	}
	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (!strcasecmp(operations[i].name, name))
			break;
	if (i == sizeof(operations) / sizeof(operations[0]))
		return false;
	for (unsigned c = 0; c < 256; c += XR_CLASS_UC)
		if (class == XD_FAULT_ANY || c == class)
			select_opcode(r, c | operations[i].op);
	return true;
}

bool xd_fault_set_opcode(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name = xd_words_next(w);
	uint64_t opcode;

	if (xd_words_u64(name, 255, &opcode))
		select_opcode(r, (unsigned)opcode);
	else if (!name || !select_operation(r, name))
		return xd_words_wrong(w, name, "an opcode such as 0x0a, WRITE_ONLY or RC_ACK");
	return true;
}

/* Returns true for packets with which the responder takes a receive. */
static bool uses_receive(unsigned opcode)
{
	switch (opcode & ~XR_CLASS_MASK) {
	case XR_OP_SEND_FIRST:
	case XR_OP_SEND_ONLY:
	case XR_OP_SEND_ONLY_IMM:
	case XR_OP_SEND_ONLY_INV:
	case XR_OP_WRITE_LAST_IMM:
	case XR_OP_WRITE_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

/* Returns true if the responder of RC or XRC can refuse the packet with the NAK. */
static bool has_nak(const struct xd_fault_rule *r, unsigned opcode)
{
	const unsigned class = opcode & XR_CLASS_MASK;
	const uint16_t flags = xr_opcodes[opcode].flags;

	if ((class != XR_CLASS_RC && class != XR_CLASS_XRC) || !(flags & XR_OPF_REQUEST))
		return false;
	/* by default those that use a receive */
	return r->inject.kind == XT_INJECT_NAK || r->match.has_opcodes || uses_receive(opcode);
}

bool xd_fault_select_requests(struct xd_words *w, struct xd_fault_rule *r)
{
	bool any = false, all = !r->match.has_opcodes;
	uint64_t *bits = r->match.opcodes;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const uint64_t bit = 1ull << opcode % 64;

		if (!has_nak(r, opcode))
			bits[opcode / 64] &= ~bit;
		else if (all)
			bits[opcode / 64] |= bit;
		any |= bits[opcode / 64] & bit;
	}
	r->match.has_opcodes = true;
	r->match.direction &= XD_FAULT_RX;
	if (any && r->match.direction)
		return true;
	snprintf(w->why, w->size, "only received requests of RC and XRC (rx) have NAKs");
	return false;
}
