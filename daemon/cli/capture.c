// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* capture: packets that the daemon receives and sends, as pcapng or as lines of text */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xroce/bits.h>
#include <xroce/reason.h>
#include <xroce/view.h>

#include "capture.h"

/*
 * Programs and workers share the processors with the reader, so it should not interrupt them often:
 * a quarter of a ring holds what may come until it is read again, at these rates.
 */
#define FILL 4u
#define PACKETS_PER_US 4u
#define BYTES_PER_US 4000u
#define BLOCK_BYTES 100u /* of a packet's block, beside the packet */
#define POLL_MIN_US 1000u
#define POLL_MAX_US 20000u
/* With --on, only events have to be seen. */
#define POLL_EVENTS_US 20000u
/*
 * Another thread that waits for the processor gets it after so many lines of text, unless a ring is
 * half full. Otherwise both hosts of a connection would soon wait for it.
 */
#define YIELD_EVERY 64u
#define DEFAULT_RING_MB 32
/* All rings together have at most so much, or twice the size that was asked for with --on. */
#define MEMORY_MB 256u
/* The capture goes on for this long after an event. */
#define AFTER_EVENT_NS 100000000ull

struct capture {
	struct cli_client client;
	struct capture_rings rings;
	struct capture_output out;
	struct xr_capture_req req;
	bool singly;	      /* packets are taken one by one: to be printed, or for -c */
	uint64_t count, most; /* packets taken singly; most 0: no limit */
	uint64_t start;	      /* ns since 1970 */
	uint32_t buffer_mb;
	uint32_t events; /* --on: bit by enum xr_capture_event; 0: do not wait */
	uint64_t seen[XR_CAPTURE_EVENTS];
};

static const char *const event_names[XR_CAPTURE_EVENTS] = {
	[XR_CAPTURE_RETRY] = "retry",
	[XR_CAPTURE_NAK] = "nak",
	[XR_CAPTURE_ERROR] = "error",
	[XR_CAPTURE_DROP] = "drop",
};

static volatile sig_atomic_t stopped;

static void capture_on_signal(int signal)
{
	stopped = signal;
}

static uint64_t cli_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- output -------------------------------------------------------------------------- */

static void write_header(struct capture *c)
{
	uint8_t block[PCAPNG_BLOCK_MAX];
	size_t len = pcapng_header(block, c->client.hello.device, c->client.hello.netdev,
				   c->req.snap_len);

	if (c->out.path)
		capture_output_write(&c->out, block, len, false);
}

static void write_statistics(struct capture *c)
{
	struct pcapng_statistics s = {
		.start = c->start,
		.end = cli_now(CLOCK_REALTIME),
		.received = capture_rings_matched(&c->rings),
		.dropped = capture_rings_lost(&c->rings),
	};
	uint8_t block[PCAPNG_BLOCK_MAX];

	if (c->out.path)
		capture_output_write(&c->out, block, pcapng_statistics(block, &s), false);
}

static void write_run(struct capture *c, const struct capture_run *run, bool share)
{
	if (c->out.path)
		capture_output_write(&c->out, run->blocks, run->len, share);
	else
		capture_print(stdout, run->blocks);
	if (c->singly && !(++c->count % YIELD_EVERY) && share)
		sched_yield();
}

/* ---- --on ---------------------------------------------------------------------------- */

static void note_events(struct capture *c)
{
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		c->seen[i] = capture_rings_event(&c->rings, (enum xr_capture_event)i);
}

/* Returns the name of an event that has happened, or NULL. */
static const char *happened(const struct capture *c)
{
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		if (c->events >> i & 1 &&
		    c->seen[i] != capture_rings_event(&c->rings, (enum xr_capture_event)i))
			return event_names[i];
	return NULL;
}

static int parse_events(const struct cli *cli, struct capture *c, char *list)
{
	char *word, *save = NULL;
	int i;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		for (i = 0; i < XR_CAPTURE_EVENTS && strcmp(word, event_names[i]); i++)
			;
		if (i == XR_CAPTURE_EVENTS)
			return cli_usage(cli, "unknown event '%s'", word);
		c->events |= 1u << i;
	}
	return CLI_OK;
}

/* ---- the loop ------------------------------------------------------------------------ */

static uint64_t captured(const struct capture *c)
{
	return c->singly ? c->count
			 : capture_rings_matched(&c->rings) - capture_rings_lost(&c->rings);
}

static bool has_all(const struct capture *c)
{
	return c->most && captured(c) >= c->most;
}

/* Writes the packets captured before `until`. Returns -EPROTO if a ring is damaged. */
static int capture_drain(struct capture *c, uint64_t until)
{
	struct capture_run run;
	int err = 0;

	while (!(c->singly && has_all(c)) && !c->out.err) {
		err = capture_rings_next(&c->rings, until, c->singly, &run);
		if (err || !run.blocks)
			break;
		write_run(c, &run, until != UINT64_MAX);
	}
	capture_output_flush(&c->out);
	return err;
}

static uint32_t poll_us(const struct capture *c)
{
	uint64_t fastest = PACKETS_PER_US * ((uint64_t)BLOCK_BYTES + c->req.snap_len), us;

	if (c->events)
		return POLL_EVENTS_US;
	if (!c->req.snap_len || fastest > BYTES_PER_US)
		fastest = BYTES_PER_US;
	us = (c->rings.directs ? c->req.direct_ring_size : c->req.ring_size) / FILL / fastest;
	if (us < POLL_MIN_US)
		return POLL_MIN_US;
	return us < POLL_MAX_US ? (uint32_t)us : POLL_MAX_US;
}

static void wait_for_more(const struct capture *c)
{
	const struct timespec t = { .tv_nsec = poll_us(c) * 1000L };

	nanosleep(&t, NULL);
}

/* *event: what has happened. With --on, packets stay in the rings until then. */
static int cli_capture_run(struct capture *c, const char **event)
{
	uint64_t capture_end = UINT64_MAX, time;
	bool gone = false;
	int err = 0;

	while (!err && !gone && !stopped && !has_all(c) && !c->out.err) {
		time = cli_now(CLOCK_MONOTONIC);
		if (time >= capture_end)
			break;
		err = capture_direct_update(&c->rings, &c->client);
		gone = xp_conn_hung_up(&c->client.conn);
		if (gone)
			err = 0;
		if (!err && !c->events)
			err = capture_drain(c, capture_rings_mark(&c->rings, time));
		if (!*event)
			*event = happened(c);
		if (*event && capture_end == UINT64_MAX)
			capture_end = time + AFTER_EVENT_NS;
		wait_for_more(c);
	}
	return err || !gone ? err : -EPIPE;
}

/*
 * Ends the capture, so that what is in the rings and the numbers do not change any more. The
 * connection stays: no other capture gets the rings of direct programs meanwhile.
 */
static void capture_end(struct capture *c, bool gone)
{
	struct xp_call call = { .type = XR_MSG_END_CAPTURE };

	if (gone || cli_client_call(&c->client, &call) ||
	    capture_direct_update(&c->rings, &c->client))
		cli_client_close(&c->client);
	else
		capture_direct_await_end(&c->rings);
	capture_direct_count(&c->rings);
	if (c->events)
		capture_rings_rewind(&c->rings);
}

static int write_rest(struct capture *c)
{
	int err = capture_drain(c, UINT64_MAX);

	write_statistics(c);
	return err;
}

static int capture_packets(struct capture *c)
{
	const char *event = NULL;
	int status = CLI_OK, err, rest = 0;

	c->start = cli_now(CLOCK_REALTIME);
	if (!c->events)
		write_header(c);
	note_events(c);
	err = cli_capture_run(c, &event);
	capture_end(c, err == -EPIPE);
	if (event) {
		status = capture_output_open(&c->out);
		write_header(c);
	}
	if (status == CLI_OK && (event || !c->events)) {
		rest = write_rest(c);
		status = capture_output_close(&c->out);
	}
	if (event && status == CLI_OK)
		fprintf(stderr, "xroce: event '%s': packets written to %s\n", event, c->out.path);
	fprintf(stderr, "xroce: %llu packets captured, %llu lost\n",
		(unsigned long long)captured(c), (unsigned long long)capture_rings_lost(&c->rings));
	if (err == -EPIPE)
		return cli_client_ended(&c->client);
	err = err ? err : rest;
	return err ? cli_client_explain(&c->client, "capture", err) : status;
}

/* ---- options ------------------------------------------------------------------------- */

static bool cli_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !errno && !*end && *value && *value <= max;
}

static int capture_set_option(struct cli *cli, void *arg, int option, char *value)
{
	struct capture *c = arg;
	uint64_t n;

	switch (option) {
	case 'w':
		c->out.path = value;
		return CLI_OK;
	case 'o':
		return parse_events(cli, c, value);
	case 's':
		if (!cli_number(value, UINT32_MAX, &n))
			return cli_usage(cli, "'%s' is not a number of bytes", value);
		c->req.snap_len = (uint32_t)n;
		return CLI_OK;
	case 'b':
		if (!cli_number(value, 4096, &n))
			return cli_usage(cli, "'%s' is not a number of MiB from 1 to 4096", value);
		c->buffer_mb = (uint32_t)n;
		return CLI_OK;
	default:
		if (!cli_number(value, UINT64_MAX, &c->most))
			return cli_usage(cli, "'%s' is not a number of packets", value);
		return CLI_OK;
	}
}

static int capture_parse(struct cli *cli, struct capture *c, int argc, char **argv)
{
	static const struct option options[] = {
		{ "write", required_argument, NULL, 'w' },
		{ "snap", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'c' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "on", required_argument, NULL, 'o' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const struct cli_own_options own = { ":w:s:c:b:r:h", options, capture_set_option, c };

	return cli_parse_own(cli, argc, argv, &own);
}

/* The largest rings that fit the memory, but not larger than --buffer */
static uint32_t ring_size(const struct capture *c)
{
	uint64_t memory = (uint64_t)MEMORY_MB << 20, wanted = (uint64_t)c->buffer_mb << 20;
	uint64_t size = XR_CAPTURE_RING_MIN, most;

	if (c->events && memory < 2 * wanted)
		memory = 2 * wanted;
	if (memory > XR_CAPTURE_MEMORY_MAX - (1u << 20))
		memory = XR_CAPTURE_MEMORY_MAX - (1u << 20);
	most = memory / (c->client.hello.workers + 1);
	while (size * 2 <= most && size * 2 <= wanted)
		size *= 2;
	return (uint32_t)size;
}

/* Returns the number of direct contexts. */
static uint64_t direct_contexts(struct capture *c)
{
	char *text = NULL;
	json_t *root = NULL;
	json_int_t n;

	if (!cli_client_show(&c->client, XR_SHOW_STATUS, NULL, &text))
		root = cli_parse(text);
	n = json_integer_value(json_object_get(json_object_get(root, "slots"), "lent"));
	json_decref(root);
	free(text);
	return n > 0 ? (uint64_t)n : 0;
}

/* The rings of the direct contexts that there are have as much as those of workers, together. */
static uint32_t direct_ring_size(struct capture *c)
{
	uint64_t size = c->req.ring_size < XR_VIEW_RING ? c->req.ring_size : XR_VIEW_RING;
	uint64_t n = direct_contexts(c);

	while (size > XR_CAPTURE_RING_MIN && n * size > (uint64_t)MEMORY_MB << 20)
		size /= 2;
	return (uint32_t)size;
}

static int capture_start(const struct cli *cli, struct capture *c, const char *device)
{
	int err = cli_client_open(&c->client, cli, device);

	if (err)
		return err;
	c->req.reasons = XR_REASON_COUNT;
	c->req.ring_size = ring_size(c);
	c->req.direct_ring_size = direct_ring_size(c);
	c->req.flags = c->events ? XR_CAPTURE_OVERWRITE : 0;
	err = capture_rings_open(&c->rings, &c->client, &c->req);
	return err ? err : capture_direct_update(&c->rings, &c->client);
}

static void capture_catch_signals(void)
{
	struct sigaction stop = { .sa_handler = capture_on_signal },
			 ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGHUP, &stop, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

static int capture_check_options(const struct cli *cli, const struct capture *c)
{
	if (c->events && (!c->out.path || !strcmp(c->out.path, "-")))
		return cli_usage(cli, "--on needs a file: -w FILE");
	return CLI_OK;
}

int cli_capture(struct cli *cli, int argc, char **argv)
{
	static struct capture c = { .buffer_mb = DEFAULT_RING_MB, .out.fd = -1 };
	int first = capture_parse(cli, &c, argc, argv), status, err;

	if (first < 0)
		return -first - 1;
	if (first == argc)
		return cli_usage(cli, "DEV is missing");
	status = capture_filter(cli, argv + first + 1, argc - first - 1, &c.req.filter);
	if (status == CLI_OK)
		status = capture_check_options(cli, &c);
	if (status != CLI_OK)
		return status;
	c.singly = !c.events && (!c.out.path || c.most);
	capture_catch_signals();
	err = capture_start(cli, &c, argv[first]);
	status = cli_client_explain(&c.client, "capture", err);
	if (status == CLI_OK && !c.events)
		status = capture_output_open(&c.out);
	if (status == CLI_OK)
		status = capture_packets(&c);
	capture_rings_close(&c.rings);
	cli_client_close(&c.client);
	return status;
}
