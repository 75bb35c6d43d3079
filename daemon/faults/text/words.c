// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/faults/rule.h"

const char *xd_words_next(struct xd_words *w)
{
	return strtok_r(NULL, XD_WORDS_SPACES, &w->rest);
}

bool xd_words_wrong(struct xd_words *w, const char *value, const char *needs)
{
	if (value)
		snprintf(w->why, w->size, "'%s' needs %s, not '%.40s'", w->what, needs, value);
	else
		snprintf(w->why, w->size, "'%s' needs %s", w->what, needs);
	return false;
}

static bool words_parse_number(const char *text, uint64_t most, uint64_t *n)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 0);
	return !errno && !*end && *n <= most;
}

bool xd_words_number(struct xd_words *w, uint64_t least, uint64_t most, uint64_t *n)
{
	const char *text = xd_words_next(w);
	char needs[64];

	if (words_parse_number(text, most, n) && *n >= least)
		return true;
	snprintf(needs, sizeof(needs), "a number from %llu to %llu", (unsigned long long)least,
		 (unsigned long long)most);
	return xd_words_wrong(w, text, needs);
}

bool xd_words_number32(struct xd_words *w, uint64_t least, uint64_t most, uint32_t *n)
{
	uint64_t value;

	if (!xd_words_number(w, least, most, &value))
		return false;
	*n = (uint32_t)value;
	return true;
}

bool xd_words_unit(const char *text, const struct xd_unit *units, double most, uint64_t *value)
{
	double n;
	char *end;

	if (!text || ((*text < '0' || *text > '9') && *text != '.'))
		return false;
	n = strtod(text, &end);
	while (units->name && strcmp(units->name, end))
		units++;
	if (!units->name || !(n >= 0) || n * units->factor > most)
		return false;
	*value = (uint64_t)(n * units->factor + 0.5);
	return true;
}

bool xd_words_time(struct xd_words *w, uint64_t most, uint64_t *ns)
{
	static const struct xd_unit units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { NULL, 0 },
	};
	const char *text = xd_words_next(w);
	char needs[80];

	if (xd_words_unit(text, units, (double)most, ns))
		return true;
	snprintf(needs, sizeof(needs), "a time of at most %llus with a unit (ns, us, ms, s)",
		 (unsigned long long)(most / 1000000000));
	return xd_words_wrong(w, text, needs);
}

bool xd_words_probability(struct xd_words *w, uint32_t *p)
{
	static const struct xd_unit units[] = {
		{ "", XD_FAULT_CERTAIN },
		{ "%", XD_FAULT_CERTAIN / 100. },
		{ NULL, 0 },
	};
	const char *text = xd_words_next(w);
	uint64_t value;

	if (!xd_words_unit(text, units, XD_FAULT_CERTAIN, &value))
		return xd_words_wrong(w, text,
				      "a probability from 0 to 1, such as 0.01, 1e-6 or 1%");
	if (!value && strtod(text, NULL) > 0)
		return xd_words_wrong(w, text, "0 or a probability of at least 1e-9");
	*p = (uint32_t)value;
	return true;
}

bool xd_words_address(struct xd_words *w, struct xr_addr *addr)
{
	const char *text = xd_words_next(w);
	struct in_addr v4;

	if (text && inet_pton(AF_INET, text, &v4) == 1)
		xr_gid_set_ipv4(addr, v4.s_addr);
	else if (!text || inet_pton(AF_INET6, text, addr->raw) != 1)
		return xd_words_wrong(w, text, "an IPv4 or IPv6 address");
	return true;
}

bool xd_words_name(const struct xd_name *names, const char *text, uint8_t *value)
{
	for (; text && names->name; names++) {
		if (strcasecmp(names->name, text))
			continue;
		*value = names->value;
		return true;
	}
	return false;
}

bool xd_words_named(struct xd_words *w, const struct xd_name *names, uint8_t *value,
		    const char *needs)
{
	const char *text = xd_words_next(w);

	return xd_words_name(names, text, value) || xd_words_wrong(w, text, needs);
}
