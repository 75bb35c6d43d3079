/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "verbs_util.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- memory ------------------------ */

static uint8_t pattern_byte(size_t i, uint32_t seed)
{
	return (uint8_t)(((uint64_t)i + seed * 0x10001ull) * 0x9e3779b97f4a7c15ull >> 56);
}

void fill_pattern(void *p, size_t len, uint32_t seed, size_t from)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)p)[i] = pattern_byte(from + i, seed);
}

bool has_pattern(const void *p, size_t len, uint32_t seed, size_t from)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)p)[i] != pattern_byte(from + i, seed))
			return false;
	return true;
}

/* ---- TCP ------------------------ */

int tcp_connect(const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	char service[16];
	int fd = -1;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &list))
		return -1;
	for (int i = 0; i < 100 && fd < 0; i++) {
		fd = socket(list->ai_family, SOCK_STREAM, 0);
		if (!connect(fd, list->ai_addr, list->ai_addrlen))
			break;
		close(fd);
		fd = -1;
		usleep(100000);
	}
	freeaddrinfo(list);
	return fd;
}

int tcp_accept(int port, int seconds)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int s = socket(AF_INET6, SOCK_STREAM, 0), one = 1, fd = -1;
	struct pollfd pfd = { .fd = s, .events = POLLIN };

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(s, (void *)&sa, sizeof(sa)) && !listen(s, 1) &&
	    poll(&pfd, 1, seconds * 1000) == 1)
		fd = accept(s, NULL, NULL);
	close(s);
	return fd;
}

void parse_sides(int argc, char **argv, struct sides *s)
{
	int c;

	while ((c = getopt(argc, argv, "g:p:")) != -1)
		switch (c) {
		case 'g':
			s->gid_index = atoi(optarg);
			break;
		case 'p':
			s->port = atoi(optarg);
			break;
		default:
			exit(2);
		}
	s->host = argv[optind];
}

int connect_sides(const struct sides *s, int seconds)
{
	int sock = s->host ? tcp_connect(s->host, s->port) : tcp_accept(s->port, seconds);

	MUST(sock >= 0, "cannot connect to the other side");
	return sock;
}

/* ---- the device ------------------------ */

struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

union ibv_gid own_gid(struct ibv_context *ctx, int gid_index)
{
	union ibv_gid gid;

	if (ibv_query_gid(ctx, 1, gid_index, &gid))
		memset(&gid, 0, sizeof(gid));
	return gid;
}

int next_completion(struct ibv_cq *cq, struct ibv_wc *wc, double seconds)
{
	double end = now() + seconds;
	int n;

	do
		n = ibv_poll_cq(cq, 1, wc);
	while (!n && now() < end);
	return n;
}

/* ---- QP states ------------------------ */

bool is_direct(void)
{
	const char *path = getenv("XROCE_PATH");

	return path && !strcmp(path, "direct");
}

uint8_t ack_timeout(void)
{
	return getenv("XR_SLOW") ? 18 : 14;
}

struct ibv_qp_attr rc_attr(int gid_index, union ibv_gid dgid, uint32_t dest_qpn)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.max_rd_atomic = 8,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.timeout = ack_timeout(),
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dgid,
				      .hop_limit = 64,
				      .sgid_index = (uint8_t)gid_index } },
	};
}

static int to_state(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state state,
		    int mask)
{
	struct ibv_qp_attr a = *attr;

	a.qp_state = state;
	errno = ibv_modify_qp(qp, &a, IBV_QP_STATE | mask);
	return errno ? -1 : 0;
}

int to_init(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	return to_state(qp, attr, IBV_QPS_INIT,
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_rtr(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	return to_state(qp, attr, IBV_QPS_RTR,
			IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	return to_state(qp, attr, IBV_QPS_RTS,
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC);
}

int reset_to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	return to_init(qp, attr) || to_rtr(qp, attr) || to_rts(qp, attr) ? -1 : 0;
}

int ud_reset_to_rts(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = qkey };

	return to_state(qp, &attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ||
			       to_state(qp, &attr, IBV_QPS_RTR, 0) ||
			       to_state(qp, &attr, IBV_QPS_RTS, IBV_QP_SQ_PSN)
		       ? -1
		       : 0;
}
