// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "http.h"

#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t length;
};

static bool is(struct span s, const char *word)
{
	return s.length == strlen(word) && !memcmp(s.at, word, s.length);
}

static bool http_starts_with(struct span s, const char *word)
{
	return s.length >= strlen(word) && !memcmp(s.at, word, strlen(word));
}

/* Takes the text before the next space off the line, and the space. */
static struct span next_word(struct span *line)
{
	const char *space = memchr(line->at, ' ', line->length);
	struct span word = { line->at, space ? (size_t)(space - line->at) : line->length };
	size_t taken = word.length + (space ? 1 : 0);

	line->at += taken;
	line->length -= taken;
	return word;
}

/* An empty line ends the head. A line may end without CR (RFC 9112, 2.2). */
static bool http_complete(const char *head, size_t length)
{
	return memmem(head, length, "\n\r\n", 3) || memmem(head, length, "\n\n", 2);
}

/*
 * Returns the path of a target. Servers accept a whole URI as well (RFC 9112, 3.2.2), which clients
 * send to proxies.
 */
static struct span path_of(struct span target)
{
	static const char scheme[] = "http://";
	const char *end = target.at + target.length, *path = target.at, *query;

	if (target.length > strlen(scheme) && !strncasecmp(path, scheme, strlen(scheme)))
		for (path += strlen(scheme); path < end && *path != '/' && *path != '?'; path++)
			;
	query = memchr(path, '?', (size_t)(end - path));
	return (struct span){ path, (size_t)((query ? query : end) - path) };
}

static int status_of_line(struct span line, const char *page)
{
	struct span method = next_word(&line), target = next_word(&line);

	if (!method.length || !target.length || !http_starts_with(line, "HTTP/"))
		return 400;
	if (!is(line, "HTTP/1.1") && !is(line, "HTTP/1.0"))
		return 505;
	if (!is(path_of(target), page))
		return 404;
	return is(method, "GET") || is(method, "HEAD") ? 200 : 405;
}

bool xd_http_is_head(const char *head, size_t length)
{
	return http_starts_with((struct span){ head, length }, "HEAD ");
}

int xd_http_status(const char *head, size_t length, const char *page)
{
	const char *end = memchr(head, '\n', length);
	struct span line = { head, end ? (size_t)(end - head) : 0 };

	if (memchr(head, 0, length))
		return 400;
	if (!http_complete(head, length))
		return length < XD_HTTP_HEAD_MAX ? 0 : 431;
	if (line.length && line.at[line.length - 1] == '\r')
		line.length--;
	return status_of_line(line, page);
}

const char *xd_http_reason(int status)
{
	switch (status) {
	case 200:
		return "200 OK";
	case 404:
		return "404 Not Found";
	case 405:
		return "405 Method Not Allowed";
	case 431:
		return "431 Request Header Fields Too Large";
	case 503:
		return "503 Service Unavailable";
	case 505:
		return "505 HTTP Version Not Supported";
	default:
		return "400 Bad Request";
	}
}
