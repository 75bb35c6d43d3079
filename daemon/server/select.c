// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "select.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <xroce/show.h>

#include "daemon/base/loop.h"
#include "daemon/clients/client.h"

/* ---- the request -------------------------------------------------------------------------- */

/* A part of the request for the text of an error, which goes to the log, too */
struct quoted {
	char text[48];
};

static struct quoted quote(const char *s, size_t n)
{
	struct quoted q = { "" };

	for (size_t i = 0; i < n && i < sizeof(q.text) - 1; i++)
		q.text[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	return q;
}

/* right: the type that all values are known to have; a client may send many names */
static int select_check_name(struct xd_client *c, const struct xr_list *list, bool details,
			     const char *name, size_t n, const char *values,
			     enum xr_member_type *right)
{
	enum xr_member_type type;
	const char *wrong;
	size_t length;

	if (!xr_find_member(list->names, name, n, &type) &&
	    !(details && xr_find_member(list->details, name, n, &type)))
		return xd_refuse(c, -EINVAL, "'%s' is no member of this list", quote(name, n).text);
	if (type == XR_OBJECT)
		return xd_refuse(c, -EINVAL, "'%s' has several values", quote(name, n).text);
	if (type == XR_TEXT || type == *right)
		return 0;
	wrong = xr_wrong_word(type, values, &length);
	if (!wrong) {
		*right = type;
		return 0;
	}
	return xd_refuse(c, -EINVAL, "%s: '%s' is %s", quote(name, n).text,
			 quote(wrong, length).text,
			 type == XR_NUMBER ? "no number" : "neither 'yes' nor 'no'");
}

static int check_term(struct xd_client *c, const struct xr_list *list, bool details,
		      const struct xd_term *t)
{
	const char *names = t->names, *name;
	enum xr_member_type right = XR_TEXT;
	size_t n;
	int err = 0;

	if (!xr_next_word(&names, &n))
		return xd_refuse(c, -EINVAL, "the selection has a value without a name");
	names = t->names;
	while (!err && (name = xr_next_word(&names, &n)))
		err = select_check_name(c, list, details, name, n, t->values, &right);
	return err;
}

static const char *select_take_text(const char **at, const char *end)
{
	const char *text = *at;

	*at += text < end ? strlen(text) + 1 : 0;
	return text < end ? text : NULL;
}

int xd_select_parse(struct xd_select *s, struct xd_client *c, const struct xr_list *list,
		    const struct xr_show_req *q)
{
	const char *at = q->select, *end = at + q->length;
	struct xd_term t = { 0 };
	int err = 0;

	s->terms = 0;
	if (q->length > XR_SHOW_SELECT_BYTES)
		return xd_refuse(c, -EINVAL, "the selection has more than %u bytes",
				 XR_SHOW_SELECT_BYTES);
	if (q->length && end[-1])
		return xd_refuse(c, -EINVAL, "the selection does not end with NUL");
	while (!err && (t.names = select_take_text(&at, end))) {
		t.values = select_take_text(&at, end);
		if (!t.values)
			return xd_refuse(c, -EINVAL, "'%s' has no value in the selection",
					 quote(t.names, strlen(t.names)).text);
		if (s->terms == XR_SHOW_SELECT_MAX)
			return xd_refuse(c, -EINVAL, "the selection has more than %u names",
					 XR_SHOW_SELECT_MAX);
		err = check_term(c, list, q->what == list->details_what, &t);
		s->term[s->terms++] = t;
	}
	return err;
}

/* ---- rows --------------------------------------------------------------------------------- */

static bool has_name(const struct xd_term *t, const char *name)
{
	const char *names = t->names, *word;
	size_t n;

	while ((word = xr_next_word(&names, &n)))
		if (xr_is_word(word, n, name))
			return true;
	return false;
}

static void see_text(struct json_watch *w, const char *name, const char *text)
{
	struct xd_select *s = container_of(w, struct xd_select, watch);

	for (struct xd_term *t = s->term; t < s->term + s->terms; t++)
		if (has_name(t, name) && xr_text_matches(text, t->values))
			t->holds = true;
}

static void see_number(struct json_watch *w, const char *name, uint64_t number)
{
	struct xd_select *s = container_of(w, struct xd_select, watch);

	for (struct xd_term *t = s->term; t < s->term + s->terms; t++)
		if (has_name(t, name) && xr_number_matches(number, t->values))
			t->holds = true;
}

static void see_boolean(struct json_watch *w, const char *name, bool boolean)
{
	struct xd_select *s = container_of(w, struct xd_select, watch);

	for (struct xd_term *t = s->term; t < s->term + s->terms; t++)
		if (has_name(t, name) && xr_boolean_matches(boolean, t->values))
			t->holds = true;
}

void xd_select_begin(struct xd_select *s, struct json *j)
{
	s->begin = ftell(j->f);
	s->comma = j->comma;
	s->watch = (struct json_watch){ see_text, see_number, see_boolean, 0 };
	for (uint32_t i = 0; i < s->terms; i++)
		s->term[i].holds = false;
	j->watch = s->terms ? &s->watch : NULL;
	json_begin(j, NULL, '{');
}

void xd_select_end(struct xd_select *s, struct json *j)
{
	bool selected = true;

	json_end(j, '}');
	j->watch = NULL;
	for (uint32_t i = 0; i < s->terms; i++)
		selected &= s->term[i].holds;
	/* A file in memory ends where the last writing ended. */
	if (!selected && !fseek(j->f, s->begin, SEEK_SET))
		j->comma = s->comma;
}

/* ---- before a row is made ----------------------------------------------------------------- */

bool xd_select_excludes(const struct xd_select *s, const char *name, size_t n, uint64_t value)
{
	for (uint32_t i = 0; i < s->terms; i++)
		if (!strncmp(s->term[i].names, name, n) && !s->term[i].names[n] &&
		    !xr_number_matches(value, s->term[i].values))
			return true;
	return false;
}

bool xd_select_excludes_text(const struct xd_select *s, const char *name, const char *value)
{
	for (uint32_t i = 0; i < s->terms; i++)
		if (!strcmp(s->term[i].names, name) && !xr_text_matches(value, s->term[i].values))
			return true;
	return false;
}

bool xd_select_only(const struct xd_select *s, const char *name, size_t n, uint64_t *number)
{
	for (uint32_t i = 0; i < s->terms; i++)
		if (!strncmp(s->term[i].names, name, n) && !s->term[i].names[n] &&
		    xr_parse_number(s->term[i].values, strlen(s->term[i].values), number))
			return true;
	return false;
}
