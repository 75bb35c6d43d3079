// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which packets a rule of fault injection selects. */
#include <stdio.h>
#include <string.h>

#include <xroce/opcode_names.h>

#include "parse.h"

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

static bool set_direction(struct xd_words *w, struct xd_fault_rule *r, uint32_t direction)
{
	if (r->match.direction != (XD_FAULT_RX | XD_FAULT_TX)) {
		snprintf(w->why, w->size, "'rx' and 'tx' exclude each other");
		return false;
	}
	r->match.direction = direction;
	return true;
}

bool xd_fault_set_rx(struct xd_words *w, struct xd_fault_rule *r)
{
	return set_direction(w, r, XD_FAULT_RX);
}

bool xd_fault_set_tx(struct xd_words *w, struct xd_fault_rule *r)
{
	return set_direction(w, r, XD_FAULT_TX);
}

bool xd_fault_set_opcode(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name = xd_words_next(w);

	if (!name || !xr_opcodes_add(r->match.opcodes, name))
		return xd_words_wrong(w, name, "an opcode such as 0x0a, WRITE or RC_SEND_LAST");
	r->match.has_opcodes = true;
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
	__u64 *bits = r->match.opcodes;

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
