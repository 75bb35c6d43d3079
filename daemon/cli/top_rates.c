// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * top: rates of queue pairs, programs and devices, from two replies of the daemons and the time
 * between them
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

/* Counters of a QP in the replies */
static const char *const members[RTT] = {
	[TX_BYTES] = "tx_bytes",	  [RX_BYTES] = "rx_bytes",
	[TX_MESSAGES] = "tx_messages",	  [RX_MESSAGES] = "rx_messages",
	[RETRANSMITS] = "tx_retransmits",
};

double top_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- samples --------------------------------------------------------------------- */

static void free_sample(struct sample *s)
{
	free(s->row);
	*s = (struct sample){ 0 };
}

void top_free_samples(struct top *t)
{
	free_sample(&t->before);
	free_sample(&t->now);
}

static struct row *top_rates_add_row(struct sample *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	struct row *rows;

	if (s->rows == s->room) {
		rows = realloc(s->row, room * sizeof(*rows));
		if (!rows)
			return NULL;
		s->row = rows;
		s->room = room;
	}
	s->row[s->rows] = (struct row){ 0 };
	return &s->row[s->rows++];
}

static const char *top_rates_text_of(const json_t *row, const char *name)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text ? text : "-";
}

static double top_rates_number_of(const json_t *row, const char *name)
{
	return json_number_value(json_object_get(row, name));
}

/* Names of programs may contain escape sequences. */
static void copy_clean(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
	for (; *to; to++)
		if ((unsigned char)*to < ' ' || (unsigned char)*to >= 0x7f)
			*to = '?';
}

static bool top_rates_add_qp(struct sample *s, const char *device, uint64_t index, double cpu,
			     const json_t *qp)
{
	struct row *r = top_rates_add_row(s);

	if (!r)
		return false;
	copy_clean(r->device, sizeof(r->device), device);
	copy_clean(r->state, sizeof(r->state), top_rates_text_of(qp, "state"));
	copy_clean(r->name, sizeof(r->name), top_rates_text_of(qp, "comm"));
	r->pid = (uint64_t)top_rates_number_of(qp, "pid");
	r->key[0] = index;
	r->key[1] = (uint64_t)top_rates_number_of(qp, "qpn");
	r->qps = 1;
	r->cpu = cpu;
	for (int c = 0; c < RTT; c++)
		r->total[c] = top_rates_number_of(qp, members[c]);
	r->total[RTT] = top_rates_number_of(json_object_get(qp, "rtt"), "usual_ns");
	return true;
}

static json_t *top_rates_ask(struct cli_client *c, uint32_t what, int *err)
{
	json_t *root = NULL;
	char *text = NULL;

	if (!*err)
		*err = cli_client_show(c, what, NULL, &text);
	if (!*err) {
		root = cli_parse(text);
		*err = root ? 0 : -EPROTO;
	}
	free(text);
	return root;
}

static double cpu_of(const json_t *status)
{
	const json_t *workers = json_object_get(status, "workers");
	double sum = 0;

	for (size_t i = 0; i < json_array_size(workers); i++)
		sum += top_rates_number_of(json_array_get(workers, i), "cpu_ns") / 1e9;
	return sum;
}

/* Adds the QPs of a device. Sets t->message on error. */
static void top_rates_add_device(struct top *t, const char *device, uint64_t index)
{
	struct cli_client c;
	int err = cli_client_open(&c, t->cli, device);
	json_t *status = top_rates_ask(&c, XR_SHOW_STATUS, &err);
	json_t *qps = top_rates_ask(&c, XR_SHOW_QP_DETAILS, &err);

	cli_client_close(&c);
	for (size_t i = 0; !err && i < json_array_size(qps); i++)
		if (!top_rates_add_qp(&t->now, device, index, cpu_of(status),
				      json_array_get(qps, i)))
			err = -ENOMEM;
	t->now.cpu += cpu_of(status);
	if (err)
		snprintf(t->message, sizeof(t->message), "%.40s: %s", device,
			 err == -EPERM	  ? "top is for root and the user of the daemon only"
			 : err == -ENOENT ? "the daemon does not run"
					  : strerror(-err));
	json_decref(status);
	json_decref(qps);
}

static int by_key(const void *a, const void *b)
{
	const uint64_t *x = ((const struct row *)a)->key, *y = ((const struct row *)b)->key;
	int i = x[0] == y[0];

	return (x[i] > y[i]) - (x[i] < y[i]);
}

static void set_rates(struct top *t)
{
	double passed = t->now.at - t->before.at;
	const struct row *old;

	qsort(t->now.row, t->now.rows, sizeof(struct row), by_key);
	for (size_t i = 0; i < t->now.rows; i++) {
		struct row *r = &t->now.row[i];

		old = t->before.rows ? bsearch(r, t->before.row, t->before.rows, sizeof(struct row),
					       by_key)
				     : NULL;
		for (int c = 0; c < RTT; c++)
			if (old && passed > 0 && r->total[c] >= old->total[c])
				r->rate[c] = (r->total[c] - old->total[c]) / passed;
		if (old && passed > 0 && r->cpu >= old->cpu)
			r->load = (r->cpu - old->cpu) / passed;
		r->rate[RTT] = r->total[RTT];
	}
}

bool top_take_sample(struct top *t)
{
	char **names = t->device ? NULL : cli_devices(t->cli);

	free_sample(&t->before);
	t->before = t->now;
	t->now = (struct sample){ .at = top_seconds() };
	t->message[0] = 0;
	if (t->device)
		top_rates_add_device(t, t->device, 0);
	for (uint64_t i = 0; names && names[i]; i++)
		top_rates_add_device(t, names[i], i);
	if (!t->device && !names)
		return false;
	if (names && !names[0])
		snprintf(t->message, sizeof(t->message), "no device: there is no socket in %.100s",
			 t->cli->runtime_dir);
	xp_sockets_free(names);
	set_rates(t);
	return true;
}

/* ---- rows of a view -------------------------------------------------------------- */

static bool same_group(const struct top *t, const struct row *a, const struct row *b)
{
	if (t->view == BY_QP || strcmp(a->device, b->device))
		return false;
	return t->view == BY_DEVICE || a->pid == b->pid;
}

/* The round-trip time of a group is the longest one. */
static void add_to_group(struct row *group, const struct row *r)
{
	for (int c = 0; c < RTT; c++)
		group->rate[c] += r->rate[c];
	if (r->rate[RTT] > group->rate[RTT])
		group->rate[RTT] = r->rate[RTT];
	group->qps += r->qps;
}

static int by_group(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->device, y->device);

	return order ? order : (x->pid > y->pid) - (x->pid < y->pid);
}

static struct row *group(const struct top *t, size_t *n)
{
	struct row *rows = calloc(t->now.rows + 1, sizeof(*rows));
	size_t i;

	*n = 0;
	if (!rows)
		return NULL;
	if (t->now.rows)
		memcpy(rows, t->now.row, t->now.rows * sizeof(*rows));
	if (t->view != BY_QP)
		qsort(rows, t->now.rows, sizeof(*rows), by_group);
	for (i = 0; i < t->now.rows; i++) {
		if (*n && same_group(t, &rows[*n - 1], &rows[i]))
			add_to_group(&rows[*n - 1], &rows[i]);
		else
			rows[(*n)++] = rows[i];
	}
	return rows;
}

static const struct top *sorted_by; /* of by_rate(), which takes no argument */

static int by_rate(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	enum column c = sorted_by->sort;
	int order = (x->rate[c] < y->rate[c]) - (x->rate[c] > y->rate[c]);

	if (!order)
		order = by_key(a, b);
	return sorted_by->reverse ? -order : order;
}

struct row *top_rows(const struct top *t, size_t *n)
{
	struct row *rows = group(t, n);

	sorted_by = t;
	if (rows)
		qsort(rows, *n, sizeof(*rows), by_rate);
	return rows;
}
