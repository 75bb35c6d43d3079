// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of packets: delay, rate, corruption. */
#include <string.h>

#include "parse.h"

#define REORDER_NS 50000 /* longest delay of a packet that is to be overtaken */
#define RATE_MAX 1000000000000ull

bool xd_fault_set_jitter(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_time(w, XD_FAULT_DELAY_MAX, &r->jitter);
}

bool xd_fault_set_late(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_time(w, XD_FAULT_DELAY_MAX, &r->delay);
}

bool xd_fault_set_bits(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number32(w, 1, 255, &r->bits);
}

bool xd_fault_set_icrc(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *text = xd_words_next(w);

	r->seal = text && !strcmp(text, "right");
	return r->seal || (text && !strcmp(text, "wrong")) ||
	       xd_words_wrong(w, text, "'right' or 'wrong'");
}

/* Fields of the headers, by their offset from the BTH (IBTA 9.2, 9.3) */
static const struct {
	const char *name;
	struct xd_fault_field field;
} fields[] = {
	{ "opcode", { 0, 1, 0 } }, { "pkey", { 2, 2, 0 } }, { "qpn", { 5, 3, 0 } },
	{ "psn", { 9, 3, 0 } },	   { "byte", { 0, 1, 0 } }, { "syndrome", { 12, 1, 0 } },
};

bool xd_fault_set_field(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name = xd_words_next(w);
	uint32_t offset = 0;
	size_t i;

	for (i = 0; name && i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			break;
	if (!name || i == sizeof(fields) / sizeof(fields[0]))
		return xd_words_wrong(w, name, "opcode, pkey, qpn, psn, syndrome or byte");
	r->field = fields[i].field;
	w->what = fields[i].name;
	if (!strcmp(name, "byte") && !xd_words_number32(w, 0, XT_MAX_FRAME, &offset))
		return false;
	r->field.offset = (uint16_t)(r->field.offset + offset);
	return xd_words_number32(w, 0, (1ull << 8 * r->field.width) - 1, &r->field.value);
}

bool xd_fault_delay(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_time(w, XD_FAULT_DELAY_MAX, &r->delay);
}

bool xd_fault_reorder(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->jitter = REORDER_NS;
	return true;
}

bool xd_fault_rate(struct xd_words *w, struct xd_fault_rule *r)
{
	static const struct xd_unit units[] = {
		{ "bit", 1 }, { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 }, { NULL, 0 },
	};
	const char *text = xd_words_next(w);

	return (xd_words_unit(text, units, RATE_MAX, &r->rate) && r->rate >= 1000) ||
	       xd_words_wrong(w, text,
			      "a rate from 1kbit to 1000gbit (bit, kbit, mbit, gbit a second)");
}
