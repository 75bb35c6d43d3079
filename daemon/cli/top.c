// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * top: options, keys and the screen, which is drawn with the sequences of ECMA-48 that every
 * terminal has. In batch mode the same lines go to a file or a pipe.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "top.h"

#define DEFAULT_INTERVAL 2 /* seconds */
#define SHORTEST_INTERVAL 0.1
#define LONGEST_INTERVAL 86400
#define DEFAULT_COLUMNS 80
#define BATCH_COLUMNS 120 /* room for all names */
#define DEVICE_COLUMNS 9
#define NAME_COLUMNS 4 /* for names of programs, if the terminal has DEFAULT_COLUMNS */
#define PID_COLUMNS 8
#define DEFAULT_LINES 24
#define HEADING_LINES 4

static const struct {
	const char *title;
	int width;
} columns[COLUMNS] = {
	[TX_BYTES] = { "TXB/s", 6 },	 [RX_BYTES] = { "RXB/s", 6 },
	[TX_MESSAGES] = { "TXm/s", 6 },	 [RX_MESSAGES] = { "RXm/s", 6 },
	[RETRANSMITS] = { "RETR/s", 6 }, [RTT] = { "RTT", 8 },
};

static volatile sig_atomic_t ended, stopped, resized;

/* ---- the screen ------------------------------------------------------------------ */

static void put_line(const struct top *t, int width, const char *style, const char *text)
{
	if (t->batch)
		printf("%.*s\n", width, text);
	else
		printf("%s%.*s%s\033[K\r\n", style, width, text, *style ? "\033[0m" : "");
}

/* On a narrow terminal the only device is in the heading, and programs get its columns. */
static bool has_device_column(const struct top *t, int width)
{
	if (t->view == BY_DEVICE || width >= DEFAULT_COLUMNS + DEVICE_COLUMNS)
		return true;
	for (size_t i = 1; i < t->now.rows; i++)
		if (strcmp(t->now.row[0].device, t->now.row[i].device))
			return true;
	return false;
}

/* Names get what a wide terminal has more. */
static int name_width(const struct top *t, int width)
{
	int more = width > DEFAULT_COLUMNS ? width - DEFAULT_COLUMNS : 0;

	if (!has_device_column(t, width))
		more += DEVICE_COLUMNS;
	return NAME_COLUMNS + (more < 20 ? more : 20);
}

/* The columns before the rates: texts of the row, or the headings if there is none */
static size_t put_names(const struct top *t, int width, const struct row *r, char *line,
			size_t room)
{
	int name = name_width(t, width);
	char number[24] = "QPS", pid[24] = "PID";
	const char *state = r ? r->state : "STATE";
	size_t n = 0;

	if (r) {
		snprintf(number, sizeof(number), "%llu",
			 (unsigned long long)(t->view == BY_QP ? r->key[1] : r->qps));
		snprintf(pid, sizeof(pid), "%llu", (unsigned long long)r->pid);
		if (t->view == BY_DEVICE)
			snprintf(pid, sizeof(pid), "%.0f%%", 100 * r->load);
	} else if (t->view == BY_QP) {
		strcpy(number, "QPN");
	} else if (t->view == BY_DEVICE) {
		strcpy(pid, "CPU");
	}
	if (has_device_column(t, width))
		n = (size_t)snprintf(line, room, "%-8.8s ", r ? r->device : "DEVICE");
	return n + (size_t)snprintf(line + n, room - n, "%-9s%-5.5s %*s %-*.*s", number,
				    t->view == BY_QP ? state : "", PID_COLUMNS - 1, pid, name, name,
				    t->view == BY_DEVICE ? ""
				    : r			 ? r->name
							 : "PROGRAM");
}

static void top_put_time(char *text, size_t room)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	cli_clock((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec, text, room);
	strncat(text, "  ", room - strlen(text) - 1);
}

static void put_headings(const struct top *t, int width)
{
	const char *only = !has_device_column(t, width) && t->now.rows ? t->now.row[0].device : "";
	double passed = t->now.at - t->before.at;
	double cpu = t->before.at > 0 && passed > 0 ? (t->now.cpu - t->before.cpu) / passed : 0;
	char line[400], time[64] = "";
	size_t n;

	if (t->batch)
		top_put_time(time, sizeof(time));
	snprintf(line, sizeof(line),
		 "xroce top  %s%s%s%zu QP%s  workers %.0f%% CPU  sorted by %s%s", time, only,
		 *only ? "  " : "", t->now.rows, t->now.rows == 1 ? "" : "s", 100 * cpu,
		 columns[t->sort].title, t->reverse ? " (reversed)" : "");
	put_line(t, width, "", line);
	if (!t->batch) {
		put_line(t, width, "",
			 *t->message ? t->message
				     : "q quit  v view  < > sort column  r reverse  1-6 column");
		put_line(t, width, "", "");
	}
	n = put_names(t, width, NULL, line, sizeof(line));
	for (int c = 0; c < COLUMNS && n < sizeof(line); c++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %*s", columns[c].width,
				      columns[c].title);
	put_line(t, width, "\033[7m", line);
}

static void top_put_row(const struct top *t, int width, const struct row *r)
{
	char line[400], amount[32];
	size_t n;

	n = put_names(t, width, r, line, sizeof(line));
	for (int c = 0; c < COLUMNS && n < sizeof(line); c++) {
		if (c == RTT && r->rate[c] > 0)
			cli_duration(r->rate[c], amount, sizeof(amount));
		else if (c == RTT)
			strcpy(amount, "-");
		else
			cli_amount(r->rate[c], amount, sizeof(amount));
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %*s", columns[c].width, amount);
	}
	put_line(t, width, "", line);
}

/* A file has room for all rows. */
static void screen_size(const struct top *t, int *width, int *lines)
{
	struct winsize ws;

	if (t->batch) {
		*width = BATCH_COLUMNS;
		*lines = INT_MAX;
		return;
	}
	*width = DEFAULT_COLUMNS;
	*lines = DEFAULT_LINES;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col || !ws.ws_row)
		return;
	*width = ws.ws_col;
	*lines = ws.ws_row;
}

static bool draw(struct top *t)
{
	int width, lines;
	size_t n, i;
	struct row *rows = top_rows(t, &n);

	if (!rows)
		return false;
	screen_size(t, &width, &lines);
	fputs(t->batch ? "" : "\033[H", stdout);
	put_headings(t, width);
	for (i = 0; i < n && (int)i < lines - HEADING_LINES - 1; i++)
		top_put_row(t, width, &rows[i]);
	fputs(t->batch ? "\n" : "\033[J", stdout);
	fflush(stdout);
	free(rows);
	return !ferror(stdout);
}

/* ---- keys and the terminal ------------------------------------------------------- */

static void top_on_signal(int number)
{
	if (number == SIGWINCH)
		resized = 1;
	else if (number == SIGTSTP)
		stopped = 1;
	else
		ended = 1;
}

/* Returns false if the program is to end. */
static bool on_key(struct top *t, char key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case 3: /* Ctrl-C */
		return false;
	case 'v':
	case '\t':
		t->view = (t->view + 1) % VIEWS;
		break;
	case '>':
		t->sort = (t->sort + 1) % COLUMNS;
		break;
	case '<':
		t->sort = (t->sort + COLUMNS - 1) % COLUMNS;
		break;
	case 'r':
	case 'I': /* as in htop */
		t->reverse = !t->reverse;
		break;
	default:
		if (key >= '1' && key < '1' + COLUMNS)
			t->sort = (enum column)(key - '1');
	}
	return true;
}

/* Later, a daemon may end and start again. */
static int check_device(const struct cli *cli, const char *device)
{
	struct cli_client c;
	int err = cli_client_open(&c, cli, device);

	cli_client_close(&c);
	return cli_client_explain(&c, "top", err);
}

static void top_catch_signals(void)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGWINCH };
	struct sigaction action = { .sa_handler = top_on_signal };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

static int begin_screen(struct top *t)
{
	struct termios raw;

	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &t->saved))
		return cli_error("top needs a terminal, or -b; 'xroce qp -dj' is for scripts");
	raw = t->saved;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw))
		return cli_error("standard input: %m");
	t->terminal = true;
	fputs("\033[?1049h\033[?25l\033[2J", stdout); /* other screen, no cursor */
	return CLI_OK;
}

static void end_screen(struct top *t)
{
	if (!t->terminal)
		return;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
}

/* Gives the terminal back until the shell continues the program. */
static bool suspend(struct top *t)
{
	stopped = 0;
	end_screen(t);
	raise(SIGSTOP);
	resized = 1;
	return begin_screen(t) == CLI_OK;
}

/* Handles keys until the next sample is due. Returns false if the program is to end. */
static bool wait_for_keys(struct top *t)
{
	double until = t->now.at + t->interval, left;
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;
	int n;

	while (!ended && (left = until - top_seconds()) > 0) {
		n = poll(&in, 1, (int)(left * 1000) + 1);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0 && (read(STDIN_FILENO, &key, 1) != 1 || !on_key(t, key)))
			return false;
		if (stopped && !suspend(t))
			return false;
		if ((n > 0 || resized) && !draw(t))
			return false;
		resized = 0;
	}
	return !ended;
}

static int show_live(struct top *t)
{
	uint64_t shown = 0;
	int status;

	top_catch_signals();
	status = begin_screen(t);
	if (status != CLI_OK)
		return status;
	while (top_take_sample(t) && draw(t) && (!t->count || shown++ < t->count) &&
	       wait_for_keys(t))
		;
	end_screen(t);
	return CLI_OK;
}

/*
 * The first sample has no rates. An error that stays the same is printed once. Fails if the last
 * sample has no values of a device.
 */
static int show_batch(struct top *t)
{
	char printed[sizeof(t->message)] = "";
	int status = CLI_OK;
	uint64_t shown;

	for (shown = 0; top_take_sample(t); shown++) {
		status = *t->message ? CLI_FAILED : CLI_OK;
		if (*t->message && strcmp(t->message, printed))
			cli_error("%s", t->message);
		strcpy(printed, t->message);
		if (shown && !draw(t))
			return CLI_FAILED;
		if (t->count && shown == t->count)
			return status;
		poll(NULL, 0, (int)(t->interval * 1000));
	}
	return CLI_FAILED;
}

/* ---- options --------------------------------------------------------------------- */

static int set_view(const struct cli *cli, struct top *t, const char *name)
{
	static const char *const names[VIEWS] = { "qp", "program", "device" };

	for (t->view = 0; t->view < VIEWS; t->view++)
		if (!strcmp(name, names[t->view]))
			return CLI_OK;
	return cli_usage(cli, "'%s' is not one of qp, program, device", name);
}

static int top_set_option(struct cli *cli, void *arg, int option, char *value)
{
	struct top *t = arg;
	char *end = NULL;

	switch (option) {
	case 'b':
		t->batch = true;
		return CLI_OK;
	case 'd':
		t->interval = strtod(value, &end);
		if (end == value || *end || !(t->interval >= SHORTEST_INTERVAL) ||
		    t->interval > LONGEST_INTERVAL)
			return cli_usage(cli, "'%s' is not a number of seconds from %g to %d",
					 value, SHORTEST_INTERVAL, LONGEST_INTERVAL);
		return CLI_OK;
	case 'n':
		errno = 0;
		t->count = strtoull(value, &end, 10);
		if (*value < '0' || *value > '9' || *end || errno || !t->count)
			return cli_usage(cli, "'%s' is not a number of times", value);
		return CLI_OK;
	case 's':
		if (value[0] < '1' || value[0] >= '1' + COLUMNS || value[1])
			return cli_usage(cli, "'%s' is not a column: 1 to %d", value, COLUMNS);
		t->sort = (enum column)(value[0] - '1');
		return CLI_OK;
	default:
		return set_view(cli, t, value);
	}
}

/* Returns the index of the first argument, or -(exit status + 1). */
static int top_parse(struct cli *cli, struct top *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "delay", required_argument, NULL, 'd' },
		{ "count", required_argument, NULL, 'n' },
		{ "sort", required_argument, NULL, 's' },
		{ "view", required_argument, NULL, 'v' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const struct cli_own_options own = { ":bd:n:s:v:r:jph", options, top_set_option, t };

	return cli_parse_own(cli, argc, argv, &own);
}

int cli_top(struct cli *cli, int argc, char **argv)
{
	struct top t = { .cli = cli, .interval = DEFAULT_INTERVAL };
	int first = top_parse(cli, &t, argc, argv), status;

	if (first < 0)
		return -first - 1;
	if (argc - first > 1)
		return cli_usage(cli, "unexpected argument '%s'", argv[first + 1]);
	if (cli->json || cli->pretty)
		return cli_usage(cli, "top has no JSON; 'qp -dj' has");
	t.device = first < argc ? argv[first] : NULL;
	status = t.device ? check_device(cli, t.device) : CLI_OK;
	if (status == CLI_OK)
		status = t.batch ? show_batch(&t) : show_live(&t);
	top_free_samples(&t);
	return status;
}
