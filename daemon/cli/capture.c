// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* capture: packets that the daemon receives and sends, as pcapng or as lines of text */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <xroce/bits.h>
#include <xroce/reason.h>

#include "capture.h"

#define BUFFER_SIZE (256u << 10) /* of the file */
/*
 * Programs and workers share the processors with the reader, so it should not interrupt them often:
 * a quarter of a ring holds what may come until it is read again, at these rates.
 */
#define FILL 4u
#define PACKETS_PER_US 4u
#define BYTES_PER_US 4000u
#define POLL_MIN_US 1000u
#define POLL_MAX_US 20000u
/*
 * A thread that waits for the reader's processor gets it after so many packets, some microseconds,
 * unless a ring is half full. Otherwise both hosts of a connection would soon wait for it.
 */
#define YIELD_EVERY 64u
#define DEFAULT_RING_MB 32
/* The capture goes on for this long after an event. */
#define AFTER_EVENT_NS 100000000ull
#define BLOCK_MAX (PCAPNG_BLOCK_MAX + CAPTURE_PACKET_MAX)

struct capture {
	struct cli_client client;
	struct capture_rings rings;
	const char *path; /* NULL: lines of text */
	FILE *out;	  /* NULL: the file is written at the event */
	struct xr_capture_req req;
	uint64_t count, most; /* packets written; most 0: no limit */
	uint64_t start;	      /* ns since 1970 */
	uint32_t buffer_mb;
	bool write_failed;
	uint8_t block[BLOCK_MAX]; /* of one packet */

	/* --on: the last blocks, until an event */
	uint32_t events; /* bit by enum xr_capture_event; 0: do not wait */
	uint64_t seen[XR_CAPTURE_EVENTS];
	struct capture_history history;
};

static const char *const event_names[XR_CAPTURE_EVENTS] = {
	[XR_CAPTURE_RETRY] = "retry",
	[XR_CAPTURE_NAK] = "nak",
	[XR_CAPTURE_ERROR] = "error",
	[XR_CAPTURE_DROP] = "drop",
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	stopped = signal;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- output -------------------------------------------------------------------------- */

static void emit(struct capture *c, const uint8_t *block, size_t len)
{
	if (!c->out)
		capture_history_add(&c->history, block, len);
	else if (fwrite_unlocked(block, 1, len, c->out) != len)
		c->write_failed = true;
}

static void write_header(struct capture *c)
{
	uint8_t block[BLOCK_MAX];
	size_t len = pcapng_header(block, c->client.hello.device, c->client.hello.netdev,
				   c->req.snap_len);

	if (c->path)
		emit(c, block, len);
}

static void write_packet(struct capture *c, const struct xr_capture_record *r)
{
	uint64_t time = r->time + c->rings.clock;
	struct pcapng_packet p = {
		.time = time,
		.captured = r->captured,
		.length = r->length,
		.bytes = (const uint8_t *)(r + 1),
	};

	c->count++;
	if (!c->path) {
		capture_print(c->out, r, time);
		return;
	}
	p.options = capture_options(r, &p.options_len);
	emit(c, c->block, pcapng_packet(c->block, &p));
}

static void write_statistics(struct capture *c)
{
	struct pcapng_statistics s = {
		.start = c->start,
		.end = now(),
		.received = capture_rings_matched(&c->rings),
		.dropped = capture_rings_lost(&c->rings),
	};
	uint8_t block[BLOCK_MAX];

	if (c->path)
		emit(c, block, pcapng_statistics(block, &s));
}

static int open_output(struct capture *c)
{
	int fd;

	if (!c->path || !strcmp(c->path, "-")) {
		if (c->path && isatty(STDOUT_FILENO))
			return cli_error("standard output is a terminal; redirect it");
		c->out = stdout;
		if (c->path)
			setvbuf(stdout, NULL, _IOFBF, BUFFER_SIZE);
		return CLI_OK;
	}
	/* packets are data of other users */
	fd = open(c->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	c->out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (c->out) {
		setvbuf(c->out, NULL, _IOFBF, BUFFER_SIZE);
		return CLI_OK;
	}
	if (fd >= 0)
		close(fd);
	return cli_error("%s: %m", c->path);
}

/* A reader that has ended, such as a Wireshark that was closed, is no error. */
static int finish_output(struct capture *c)
{
	bool failed = c->write_failed || fflush(c->out) || ferror(c->out);
	int err = errno, status = CLI_OK;

	if (failed && err != EPIPE)
		status = cli_error("%s: %s", c->path ? c->path : "standard output", strerror(err));
	if (c->out != stdout)
		fclose(c->out);
	else if (failed)
		fclose(stdout); /* main() would report the error once more */
	c->out = NULL;
	return status;
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

static int write_history(struct capture *c, const char *event)
{
	int status = open_output(c);

	if (status != CLI_OK)
		return status;
	write_header(c);
	c->write_failed |= !capture_history_write(&c->history, c->out);
	write_statistics(c);
	status = finish_output(c);
	if (status == CLI_OK)
		fprintf(stderr, "xroce: event '%s': packets written to %s\n", event, c->path);
	return status;
}

/* ---- the loop ------------------------------------------------------------------------ */

static bool enough(const struct capture *c)
{
	return stopped || c->write_failed || (c->most && c->count >= c->most);
}

/* Writes the packets captured before `until`. Returns -EPROTO if a ring is damaged. */
static int drain(struct capture *c, uint64_t until)
{
	const struct xr_capture_record *r;
	int err = 0;
	uint32_t n = 0;

	while (!(c->most && c->count >= c->most) && !c->write_failed) {
		err = capture_rings_next(&c->rings, until, &r);
		if (err || !r)
			break;
		write_packet(c, r);
		if (!(++n % YIELD_EVERY) && until != UINT64_MAX)
			sched_yield();
	}
	if (c->out && fflush(c->out))
		c->write_failed = true;
	return err;
}

static uint32_t poll_us(const struct capture *c)
{
	uint64_t record = sizeof(struct xr_capture_record) + c->req.snap_len;
	uint64_t fastest = PACKETS_PER_US * record, us;

	if (!c->req.snap_len || fastest > BYTES_PER_US)
		fastest = BYTES_PER_US;
	us = c->rings.size / FILL / fastest;
	if (us < POLL_MIN_US)
		return POLL_MIN_US;
	return us < POLL_MAX_US ? (uint32_t)us : POLL_MAX_US;
}

static void wait_for_more(const struct capture *c)
{
	const struct timespec t = { .tv_nsec = poll_us(c) * 1000L };

	nanosleep(&t, NULL);
}

/* *event: what has happened */
static int run(struct capture *c, const char **event)
{
	uint64_t end = UINT64_MAX;
	bool gone = false;
	int err = 0;

	while (!err && !gone && !enough(c) && now() < end) {
		gone = xp_conn_hung_up(&c->client.conn);
		err = drain(c, capture_rings_until(&c->rings));
		if (!*event)
			*event = happened(c);
		if (*event && end == UINT64_MAX)
			end = now() + AFTER_EVENT_NS;
		wait_for_more(c);
	}
	if (!err)
		err = drain(c, UINT64_MAX);
	return err || !gone ? err : -EPIPE;
}

static int capture(struct capture *c)
{
	const char *event = NULL;
	int status = CLI_OK, err;

	c->start = now();
	if (!c->events)
		write_header(c);
	note_events(c);
	err = run(c, &event);
	if (c->events && event)
		status = write_history(c, event);
	else if (c->out)
		write_statistics(c);
	if (c->out && finish_output(c) != CLI_OK)
		status = CLI_FAILED;
	fprintf(stderr, "xroce: %llu packets captured, %llu lost\n", (unsigned long long)c->count,
		(unsigned long long)capture_rings_lost(&c->rings));
	return err ? cli_client_explain(&c->client, "capture", err) : status;
}

/* ---- options ------------------------------------------------------------------------- */

static bool number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !errno && !*end && *value && *value <= max;
}

static int set_option(struct cli *cli, struct capture *c, int option, char *value)
{
	uint64_t n;

	switch (option) {
	case 'w':
		c->path = value;
		return CLI_OK;
	case 'o':
		return parse_events(cli, c, value);
	case 's':
		if (!number(value, UINT32_MAX, &n))
			return cli_usage(cli, "'%s' is not a number of bytes", value);
		c->req.snap_len = (uint32_t)n;
		return CLI_OK;
	case 'b':
		if (!number(value, 4096, &n))
			return cli_usage(cli, "'%s' is not a number of MiB from 1 to 4096", value);
		c->buffer_mb = (uint32_t)n;
		return CLI_OK;
	default:
		if (!number(value, UINT64_MAX, &c->most))
			return cli_usage(cli, "'%s' is not a number of packets", value);
		return CLI_OK;
	}
}

static int parse(struct cli *cli, struct capture *c, int argc, char **argv)
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
	char *help[] = { argv[0], "--help", NULL };
	int option, status;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":w:s:c:b:r:h", options, NULL)) != -1) {
		if (option == 'h')
			return cli_options(cli, 2, help);
		if (option == ':')
			return -(cli_usage(cli, "option '%s' needs a value", argv[optind - 1]) + 1);
		if (option == '?')
			return -(cli_usage(cli, "unknown option '%s'", argv[optind - 1]) + 1);
		status = CLI_OK;
		if (option == 'r')
			cli->runtime_dir = optarg;
		else
			status = set_option(cli, c, option, optarg);
		if (status != CLI_OK)
			return -(status + 1);
	}
	return optind;
}

/* The largest rings that the daemon permits, but not more than --buffer */
static uint32_t ring_size(const struct capture *c)
{
	uint64_t most = (XR_CAPTURE_MEMORY_MAX - (1u << 20)) / (c->client.hello.workers + 1);
	uint64_t size = XR_CAPTURE_RING_MIN;

	while (size * 2 <= most && size * 2 <= (uint64_t)c->buffer_mb << 20)
		size *= 2;
	return (uint32_t)size;
}

static int start(const struct cli *cli, struct capture *c, const char *device)
{
	int err = cli_client_open(&c->client, cli, device);

	if (err)
		return err;
	c->req.reasons = XR_REASON_COUNT;
	c->req.ring_size = ring_size(c);
	return capture_rings_open(&c->rings, &c->client, &c->req);
}

static void catch_signals(void)
{
	struct sigaction stop = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGHUP, &stop, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

static int check_options(const struct cli *cli, const struct capture *c)
{
	if (c->events && (!c->path || !strcmp(c->path, "-")))
		return cli_usage(cli, "--on needs a file: -w FILE");
	return CLI_OK;
}

int cli_capture(struct cli *cli, int argc, char **argv)
{
	static struct capture c = { .buffer_mb = DEFAULT_RING_MB };
	int first = parse(cli, &c, argc, argv), status, err;

	if (first < 0)
		return -first - 1;
	if (first == argc)
		return cli_usage(cli, "DEV is missing");
	status = capture_filter(cli, argv + first + 1, argc - first - 1, &c.req.filter);
	if (status == CLI_OK)
		status = check_options(cli, &c);
	if (status != CLI_OK)
		return status;
	if (c.events && !capture_history_open(&c.history, (size_t)c.buffer_mb << 20))
		return cli_error("out of memory");
	catch_signals();
	err = start(cli, &c, argv[first]);
	status = cli_client_explain(&c.client, "capture", err);
	if (status == CLI_OK && !c.events)
		status = open_output(&c);
	if (status == CLI_OK)
		status = capture(&c);
	capture_rings_close(&c.rings);
	cli_client_close(&c.client);
	capture_history_close(&c.history);
	return status;
}
