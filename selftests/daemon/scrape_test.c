// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Metrics by HTTP: requests, hostile peers, limits, addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/groups.h"
#include "daemon/base/log.h"
#include "daemon/base/openmetrics.h"
#include "daemon/server/http.h"
#include "daemon/server/scrape.h"
#include "control.h"

/* ---- requests -------------------------------------------------------------------- */

static int status_of(const char *head)
{
	return xd_http_status(head, strlen(head), XD_SCRAPE_PAGE);
}

static void test_requests(void)
{
	static const struct {
		int status;
		const char *head;
	} rows[] = {
		{ 200, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" },
		{ 200, "GET /metrics HTTP/1.0\r\n\r\n" },
		{ 200, "GET /metrics HTTP/1.1\nHost: a\n\n" },
		{ 200, "GET /metrics?x=1 HTTP/1.1\r\n\r\nrest" },
		{ 200, "GET http://a:9/metrics HTTP/1.1\r\nHost: a:9\r\n\r\n" },
		{ 200, "GET HTTP://[::1]/metrics?x=/y HTTP/1.1\r\n\r\n" },
		{ 200, "HEAD /metrics HTTP/1.1\r\n\r\n" },
		{ 404, "HEAD / HTTP/1.1\r\n\r\n" },
		{ 0, "" },
		{ 0, "GET" },
		{ 0, "GET /metrics HTTP/1.1\r\n" },
		{ 0, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r" },
		{ 404, "GET / HTTP/1.1\r\n\r\n" },
		{ 404, "GET /metrics/ HTTP/1.1\r\n\r\n" },
		{ 404, "GET /metric HTTP/1.1\r\n\r\n" },
		{ 404, "GET http:///metrics/ HTTP/1.1\r\n\r\n" },
		{ 404, "GET http://a HTTP/1.1\r\n\r\n" },
		{ 404, "GET http:// HTTP/1.1\r\n\r\n" },
		{ 404, "GET http://a?/metrics HTTP/1.1\r\n\r\n" },
		{ 404, "GET a/metrics HTTP/1.1\r\n\r\n" },
		{ 404, "POST / HTTP/1.1\r\n\r\n" },
		{ 405, "POST /metrics HTTP/1.1\r\n\r\n" },
		{ 405, "get /metrics HTTP/1.1\r\n\r\n" },
		{ 505, "GET /metrics HTTP/2.0\r\n\r\n" },
		{ 505, "GET /metrics HTTP/1.1 \r\n\r\n" },
		{ 400, "GET /metrics\r\n\r\n" },
		{ 400, "GET  /metrics HTTP/1.1\r\n\r\n" },
		{ 400, " GET /metrics HTTP/1.1\r\n\r\n" },
		{ 400, "\r\n\r\n" },
		{ 400, "\n\n" },
		{ 400, "PRI * SMTP\r\n\r\n" },
	};
	static char head[XD_HTTP_HEAD_MAX];
	uint32_t wrong = 0, i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (status_of(rows[i].head) == rows[i].status)
			continue;
		printf("# row %u: status %d\n", i, status_of(rows[i].head));
		wrong++;
	}
	TAP_OK(!wrong, "requests have the status that they should have");
	TAP_OK(xd_http_status("GET /metrics\0HTTP/1.1", 21, XD_SCRAPE_PAGE) == 400,
	       "a zero byte is refused");
	memset(head, 'a', sizeof(head));
	TAP_OK(!xd_http_status(head, sizeof(head) - 1, XD_SCRAPE_PAGE) &&
		       xd_http_status(head, sizeof(head), XD_SCRAPE_PAGE) == 431,
	       "a head without end is refused when the buffer is full");
}

/* ---- the format ------------------------------------------------------------------ */

static void test_labels(void)
{
	char *text = NULL;
	size_t length;
	struct openmetrics m = { .f = open_memstream(&text, &length), .device = "x\"y\\z" };

	MUST(m.f);
	om_family(&m, "a_bytes", OM_COUNTER, "Help");
	om_begin(&m);
	om_label(&m, "comm", "e\xff\n1");
	om_value(&m, UINT64_MAX);
	om_family(&m, "b_seconds", OM_GAUGE, "Help");
	om_begin(&m);
	om_seconds(&m, 1000000020);
	om_end(&m);
	MUST(!fclose(m.f));
	TAP_OK(!strcmp(text, "# TYPE xroce_a_bytes counter\n# UNIT xroce_a_bytes bytes\n"
			     "# HELP xroce_a_bytes Help.\n"
			     "xroce_a_bytes_total{device=\"x\\\"y\\\\z\",comm=\"e??1\"} "
			     "18446744073709551615\n"
			     "# TYPE xroce_b_seconds gauge\n# UNIT xroce_b_seconds seconds\n"
			     "# HELP xroce_b_seconds Help.\n"
			     "xroce_b_seconds{device=\"x\\\"y\\\\z\"} 1.000000020\n# EOF\n"),
	       "labels are escaped, times are seconds");
	free(text);
}

/* ---- the socket ------------------------------------------------------------------ */

static struct xd_scrape *scrape;
static char path[64];

static int connect_to(const char *to)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", to);
	if (!connect(fd, (struct sockaddr *)&un, sizeof(un)))
		return fd;
	close(fd);
	return -errno;
}

/*
 * Sends the request, unless it is empty, and returns the whole response; the caller frees it. NULL:
 * there is none.
 */
static char *exchange(int fd, const char *request)
{
	static char buf[1 << 20];
	size_t length = 0;
	ssize_t n = 1;

	MUST(!*request ||
	     send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request));
	for (int i = 0; i < 1000 && n; i++) {
		settle();
		n = recv(fd, buf + length, sizeof(buf) - 1 - length, MSG_DONTWAIT);
		if (n > 0)
			length += (size_t)n;
	}
	close(fd);
	buf[length] = 0;
	return n || !length ? NULL : strdup(buf);
}

static char *get(const char *request)
{
	int fd = connect_to(path);

	return fd < 0 ? NULL : exchange(fd, request);
}

static void start(void)
{
	int fd = xd_scrape_listen(path, XD_NO_GROUP);

	MUST(fd >= 0 && !xd_scrape_start(fake.server, fd, &scrape));
}

static void stop(void)
{
	xd_scrape_stop(scrape);
	settle();
	unlink(path);
}

#define GET "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"

static void test_page(void)
{
	char *text;
	struct conn c;

	start();
	open_client(&c);
	alloc_pd(&c);
	text = get(GET);
	TAP_OK(text && !strncmp(text, "HTTP/1.1 200 OK\r\n", 17) &&
		       strstr(text, "Content-Type: application/openmetrics-text; version=1.0.0") &&
		       strstr(text, "\nxroce_transport_rx_packets_total{device=") &&
		       !strcmp(text + strlen(text) - 6, "# EOF\n"),
	       "GET /metrics returns metrics");
	TAP_OK(text && strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10) ==
			       strlen(strstr(text, "\r\n\r\n") + 4),
	       "the length of the content is right");
	TAP_OK(text && strstr(text, "\",kind=\"pds\"} 1\n"),
	       "metrics of the client are among them");
	free(text);
	text = get("GET /etc/passwd HTTP/1.1\r\n\r\n");
	TAP_OK(text && !strncmp(text, "HTTP/1.1 404 ", 13), "there is no other page");
	free(text);
	text = get("DELETE /metrics HTTP/1.1\r\n\r\n");
	TAP_OK(text && strstr(text, "405 ") && strstr(text, "\r\nAllow: GET, HEAD\r\n"),
	       "there is no other method");
	free(text);
	text = get("HEAD /metrics HTTP/1.1\r\n\r\n");
	TAP_OK(text && !strncmp(text, "HTTP/1.1 200 OK\r\n", 17) &&
		       strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10) > 1000 &&
		       strstr(text, "\r\n\r\n") == text + strlen(text) - 4,
	       "HEAD /metrics returns the head of that page without its content");
	free(text);
	text = get("HEAD /none HTTP/1.1\r\n\r\n");
	TAP_OK(text && !strncmp(text, "HTTP/1.1 404 ", 13) &&
		       strstr(text, "\r\n\r\n") == text + strlen(text) - 4,
	       "nor has an error any");
	free(text);
	close_client(&c);
	stop();
}

/* Connections without a request take all places. */
static void test_slow(void)
{
	int before = open_fds(), silent[XD_SCRAPE_PEERS], i;
	char *text, byte;

	start();
	for (i = 0; i < XD_SCRAPE_PEERS; i++) {
		silent[i] = connect_to(path);
		MUST(silent[i] >= 0 && send(silent[i], "GET /", 5, MSG_NOSIGNAL) == 5);
		settle();
	}
	text = get(GET);
	TAP_OK(text && strstr(text, "# EOF\n"), "silent connections keep nobody from being served");
	free(text);
	TAP_OK(!recv(silent[0], &byte, 1, MSG_DONTWAIT) &&
		       recv(silent[1], &byte, 1, MSG_DONTWAIT) < 0,
	       "the one that was silent for the longest time has ended");
	stop();
	for (i = 0; i < XD_SCRAPE_PEERS; i++)
		close(silent[i]);
	TAP_OK(open_fds() == before, "no descriptor is left");
}

static struct sockaddr_in local(uint8_t last, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = port,
				     .sin_addr.s_addr = htonl(0x7f000000u | last) };
}

static int connect_from(uint8_t last, uint16_t port)
{
	struct sockaddr_in from = local(last, 0), to = local(1, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && !bind(fd, (struct sockaddr *)&from, sizeof(from)) &&
	     !connect(fd, (struct sockaddr *)&to, sizeof(to)));
	settle();
	return fd;
}

/* Returns a port that was free just now, in network byte order. */
static uint16_t free_port(void)
{
	struct sockaddr_in a = local(1, 0);
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)) &&
	     !getsockname(fd, (struct sockaddr *)&a, &length));
	close(fd);
	return a.sin_port;
}

/* One host opens more and more connections, while another one is sending its request. */
static void test_sources(void)
{
	uint16_t port = free_port();
	int hostile[2 * XD_SCRAPE_PEERS], fd, i;
	char address[32], *text;

	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(port));
	fd = xd_scrape_listen(address, XD_NO_GROUP);
	MUST(fd >= 0 && !xd_scrape_start(fake.server, fd, &scrape));
	fd = connect_from(3, port);
	MUST(send(fd, GET, 5, MSG_NOSIGNAL) == 5);
	for (i = 0; i < 2 * XD_SCRAPE_PEERS; i++)
		hostile[i] = connect_from(2, port);
	text = exchange(fd, &GET[5]);
	TAP_OK(text && strstr(text, "# EOF\n"), "connections of one host end none of another");
	free(text);
	stop();
	for (i = 0; i < 2 * XD_SCRAPE_PEERS; i++)
		close(hostile[i]);
}

static void test_long(void)
{
	static char head[2 * XD_HTTP_HEAD_MAX + 1];
	char *text;

	start();
	memset(head, 'x', sizeof(head) - 1);
	text = get(head);
	TAP_OK(text && !strncmp(text, "HTTP/1.1 431 ", 13), "an endless request is refused");
	free(text);
	stop();
}

/* Connects and disconnects often; the daemon accepts what the rate permits. */
static void test_rate(void)
{
	int waiting = 0, fd[XD_SCRAPE_RATE + 8], i;

	start();
	for (i = 0; i < XD_SCRAPE_RATE + 8; i++) {
		fd[i] = connect_to(path);
		MUST(fd[i] >= 0 && send(fd[i], "\n\n", 2, MSG_NOSIGNAL) == 2);
		settle();
	}
	for (i = 0; i < XD_SCRAPE_RATE + 8; i++) {
		char byte;

		waiting += recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0;
		close(fd[i]);
	}
	TAP_OK(waiting, "connections are limited by rate");
	stop();
}

/* ---- addresses ------------------------------------------------------------------- */

static int try(const char *address)
{
	int fd = xd_scrape_listen(address, XD_NO_GROUP);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void test_addresses(void)
{
	static const char *const wrong[] = {
		"9320",	       ":9320",	      "localhost:9320",	 "127.0.0.1",	 "127.0.0.1:",
		"127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]",
		"::1:9320",    "[::1]9320",   "[127.0.0.1]:80",	 "[]:80",	 "relative/path",
	};
	uint32_t accepted = 0, i;
	struct stat st;
	int fd;

	xd_log_init("scrape", XD_ERR - 1); /* discards the errors */
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		accepted += try(wrong[i]) != -EINVAL;
	TAP_OK(!accepted, "invalid addresses are refused");
	TAP_OK(try("/nonexistent/socket") == -ENOENT, "a folder that does not exist is refused");
	fd = xd_scrape_listen(path, XD_NO_GROUP);
	MUST(fd >= 0 && !stat(path, &st));
	TAP_OK((st.st_mode & 0777) == 0600, "only the user may connect to a unix socket");
	TAP_OK(try(path) == -EADDRINUSE, "a unix socket in use is not replaced");
	close(fd);
	TAP_OK(!try(path), "a unix socket that nobody listens on is replaced");
	unlink(path);
	fclose(fopen(path, "w"));
	TAP_OK(try(path) == -EADDRINUSE && !access(path, F_OK), "a file is not replaced");
	unlink(path);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/xroce-scrape-%d", getpid());
	test_requests();
	test_labels();
	start_server("scrape");
	test_page();
	test_slow();
	test_sources();
	test_long();
	test_rate();
	test_addresses();
	fake_server_stop();
	return tap_end();
}
