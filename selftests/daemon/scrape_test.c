// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Metrics by HTTP: requests, hostile peers, limits, addresses, sockets of the service manager. The
 * linker redirects the server's clock to the test, so times do not depend on the machine.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/exporter/http.h"
#include "daemon/exporter/listen.h"
#include "daemon/exporter/scrape.h"
#include "selftests/fuzz/input.h"
#include "selftests/lib/tap.h"

#define MS 1000000ull
#define NO_GROUP ((gid_t)-1)

static uint64_t now = 1000 * MS;

uint64_t __wrap_xd_now(void);
uint64_t __wrap_xd_now(void)
{
	return now;
}

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

/* ---- the socket ------------------------------------------------------------------ */

static struct xd_loop *loop;
static struct xd_timer *stopper;
static struct xd_scrape *scrape;
static char path[64];

static void on_stop(void *arg)
{
	xd_loop_stop(loop);
}

/* Runs the loop until all events are handled. */
static void settle(void)
{
	for (int i = 0; i < 4; i++) {
		xd_timer_arm(stopper, 0);
		MUST(!xd_loop_run(loop));
	}
}

static int open_fds(void)
{
	int n = 0, fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The daemons: their text, and how often it was collected */
static const char *metrics = "xroce_port_up{device=\"xr_a\"} 1\n# EOF\n";
static bool away;
static uint32_t collections;

static bool collect(void *arg, char **text)
{
	collections++;
	*text = strdup(away ? "xr_a: the daemon is gone\n" : metrics);
	return !away;
}

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
	ssize_t n;

	MUST(!*request ||
	     send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request));
	do {
		settle();
		n = recv(fd, buf + length, sizeof(buf) - 1 - length, MSG_DONTWAIT);
		if (n > 0)
			length += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	close(fd);
	buf[length] = 0;
	return n || !length ? NULL : strdup(buf);
}

static char *get(const char *request)
{
	int fd = connect_to(path);

	return fd < 0 ? NULL : exchange(fd, request);
}

static void start_at(const char *address)
{
	int fd = xd_listen_at(address, NO_GROUP);

	now += 1000 * MS;
	scrape = xd_scrape_new(loop, collect, NULL);
	MUST(fd >= 0 && scrape && !xd_scrape_add(scrape, fd));
}

static void start(void)
{
	start_at(path);
}

static void stop(void)
{
	xd_scrape_free(scrape);
	settle();
	unlink(path);
}

#define GET "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"

static bool has_status(const char *text, const char *status)
{
	return text && !strncmp(text, "HTTP/1.1 ", 9) && !strncmp(text + 9, status, strlen(status));
}

static const char *content(const char *text)
{
	return text ? strstr(text, "\r\n\r\n") + 4 : "";
}

static void test_page(void)
{
	char *text;

	start();
	text = get(GET);
	TAP_OK(has_status(text, "200 OK\r\n") &&
		       strstr(text, "Content-Type: application/openmetrics-text; version=1.0.0") &&
		       !strcmp(content(text), metrics),
	       "GET /metrics returns the metrics");
	TAP_OK(text && strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10) == strlen(metrics),
	       "the length of the content is right");
	free(text);
	text = get("GET /etc/passwd HTTP/1.1\r\n\r\n");
	TAP_OK(has_status(text, "404 "), "there is no other page");
	free(text);
	text = get("DELETE /metrics HTTP/1.1\r\n\r\n");
	TAP_OK(has_status(text, "405 ") && strstr(text, "\r\nAllow: GET, HEAD\r\n"),
	       "there is no other method");
	free(text);
	text = get("HEAD /metrics HTTP/1.1\r\n\r\n");
	TAP_OK(has_status(text, "200 OK\r\n") &&
		       strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10) ==
			       strlen(metrics) &&
		       !*content(text),
	       "HEAD /metrics returns the head of that page without its content");
	free(text);
	text = get("HEAD /none HTTP/1.1\r\n\r\n");
	TAP_OK(has_status(text, "404 ") && !*content(text), "nor has an error any");
	free(text);
	stop();
}

static void test_away(void)
{
	char *text;

	away = true;
	start();
	text = get(GET);
	TAP_OK(has_status(text, "503 ") && strstr(text, "Content-Type: text/plain\r\n") &&
		       !strcmp(content(text), "xr_a: the daemon is gone\n"),
	       "without metrics, the answer is 503 and the reason");
	free(text);
	away = false;
	now += 1000 * MS / XD_SCRAPE_HZ;
	text = get(GET);
	TAP_OK(has_status(text, "200 "), "the next collection is tried");
	free(text);
	stop();
}

/* One collection serves the requests of the next 200 ms. */
static void test_collections(void)
{
	collections = 0;
	start();
	for (int i = 0; i < 3; i++)
		free(get(GET));
	free(get("GET / HTTP/1.1\r\n\r\n"));
	TAP_OK(collections == 1, "requests share a collection");
	now += 1000 * MS / XD_SCRAPE_HZ - 1;
	free(get(GET));
	TAP_OK(collections == 1, "... for 200 ms");
	now++;
	free(get(GET));
	TAP_OK(collections == 2, "... and the one behind causes the next one");
	stop();
}

static void test_sockets(void)
{
	char other[72], *text;
	int before = open_fds(), fd, i;

	start();
	snprintf(other, sizeof(other), "%s-2", path);
	fd = xd_listen_at(other, NO_GROUP);
	MUST(fd >= 0 && !xd_scrape_add(scrape, fd));
	text = exchange(connect_to(other), GET);
	TAP_OK(has_status(text, "200 "), "each of several sockets is served");
	free(text);
	text = get(GET);
	TAP_OK(has_status(text, "200 "), "... the first one, too");
	free(text);
	for (i = 2; i < XD_SCRAPE_SOCKETS; i++) {
		unlink(other);
		fd = xd_listen_at(other, NO_GROUP);
		MUST(fd >= 0 && !xd_scrape_add(scrape, fd));
	}
	unlink(other);
	TAP_OK(xd_scrape_add(scrape, xd_listen_at(other, NO_GROUP)) == -E2BIG,
	       "there is a limit of sockets");
	stop();
	unlink(other);
	TAP_OK(open_fds() == before, "no descriptor is left");
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
		now += MS;
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
	now += MS;
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
	start_at(address);
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

/* Connects and disconnects often; the server accepts what the rate permits. */
static void test_rate(void)
{
	int waiting = 0, fd[XD_SCRAPE_RATE + 8], i;
	char *text;

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
	TAP_OK(waiting == 8, "connections are limited by rate");
	now += 1000 * MS;
	text = get(GET);
	TAP_OK(has_status(text, "200 "), "connections are accepted again later");
	free(text);
	stop();
}

/* ---- addresses ------------------------------------------------------------------- */

static int try(const char *address)
{
	int fd = xd_listen_at(address, NO_GROUP);

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

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		accepted += try(wrong[i]) != -EINVAL;
	TAP_OK(!accepted, "invalid addresses are refused");
	TAP_OK(try("/nonexistent/socket") == -ENOENT, "a folder that does not exist is refused");
	fd = xd_listen_at(path, NO_GROUP);
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

/* ---- sockets of the service manager ---------------------------------------------- */

/*
 * Returns the result of xd_listen_passed() in a process that has fd as its descriptor 3. pid: in
 * LISTEN_PID; NULL: that of the process. n: in LISTEN_FDS; NULL: there is no such variable
 */
static int passed(int fd, const char *pid, const char *n)
{
	int fds[XD_SCRAPE_SOCKETS], status, got;
	pid_t child = fork();
	char text[16];

	if (!child) {
		snprintf(text, sizeof(text), "%d", getpid());
		setenv("LISTEN_PID", pid ? pid : text, 1);
		if (n)
			setenv("LISTEN_FDS", n, 1);
		dup2(fd, 3);
		got = xd_listen_passed(fds, XD_SCRAPE_SOCKETS);
		MUST(got <= 0 || (fds[0] == 3 && fcntl(3, F_GETFD) == FD_CLOEXEC &&
				  fcntl(3, F_GETFL) & O_NONBLOCK));
		MUST(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS"));
		_exit(got < 0 ? -got : got + 200);
	}
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status) >= 200 ? WEXITSTATUS(status) - 200 : -WEXITSTATUS(status);
}

static void test_passed(void)
{
	int listening = xd_listen_at(path, NO_GROUP), file = open("/dev/null", O_RDONLY);
	int stream = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);
	int flags = fcntl(listening, F_GETFL);

	MUST(listening > 3 && file > 3 && stream > 3 && datagram > 3);
	MUST(!fcntl(listening, F_SETFL, flags & ~O_NONBLOCK));
	TAP_OK(passed(listening, NULL, "1") == 1, "a socket of the service manager is taken");
	TAP_OK(!passed(listening, NULL, NULL) && !passed(listening, NULL, "0"),
	       "there may be none");
	TAP_OK(!passed(listening, "1", "1"), "those of another process are not taken");
	TAP_OK(passed(listening, NULL, "") == -EINVAL && passed(listening, NULL, "1x") == -EINVAL &&
		       passed(listening, "-1", "1") == -EINVAL,
	       "wrong numbers are refused");
	TAP_OK(passed(listening, NULL, "9") == -E2BIG, "too many are refused");
	TAP_OK(passed(stream, NULL, "1") == -ENOTSOCK && passed(datagram, NULL, "1") == -ENOTSOCK &&
		       passed(file, NULL, "1") == -ENOTSOCK,
	       "what does not listen is refused");
	close(listening);
	close(file);
	close(stream);
	close(datagram);
	unlink(path);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/xroce-scrape-%d", getpid());
	loop = xd_loop_new();
	MUST(loop);
	stopper = xd_timer_new(loop, on_stop, NULL);
	MUST(stopper);
	test_requests();
	test_page();
	test_away();
	test_collections();
	test_sockets();
	test_slow();
	test_sources();
	test_long();
	test_rate();
	test_addresses();
	test_passed();
	xd_timer_free(stopper);
	xd_loop_free(loop);
	return tap_end();
}
