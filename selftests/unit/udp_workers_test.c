// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The UDP sockets of two workers on the loopback interface of a network namespace of its own: each
 * thread sends to the QPs of both and receives, while this thread adds and removes QPs, keys,
 * addresses and groups, and reads counters. SANITIZE=thread detects races.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xroce/gid.h>

#include "daemon/base/log.h"
#include "daemon/io/count.h"
#include "daemon/io/memory_tables.h"
#include "daemon/io/verdict.h"
#include "daemon/udp/udp.h"
#include "selftests/bpf/rows.h"
#include "selftests/lib/loopback.h"
#include "selftests/lib/tap.h"

#define WORKERS 2
#define QPS 64
#define FIRST_QPN 0x10000
#define ROUNDS 300
#define LOOPBACK 0x7f000001

static struct xd_tables *tables;
static bool stop;

struct worker {
	struct xd_udp *u;
	uint32_t number;
	uint64_t taken, strays;
	struct frame frame;
};

void xd_log_at(struct xd_log_site *site, enum xd_log_level level, const char *fmt, ...)
{
	(void)site;
	(void)level;
	(void)fmt;
}

/* ---- workers ------------------------------------------------------------------------------ */

static void send_one(struct worker *w, uint32_t i)
{
	struct xd_socket *s = &w->u->socket;
	const struct frame *f = &w->frame;
	uint32_t qpn = FIRST_QPN + i / 8 % QPS, loopback = htonl(LOOPBACK);
	struct xt_frame out = {
		.meta = {
			.qpn = qpn,
			.ip_version = 4,
			.ip_off = f->ip,
			.bth_off = f->bth,
			.payload_off = f->payload,
			.payload_len = f->payload_len,
		},
	};
	uint8_t *data;

	if (!xd_udp_tx_get(s, f->len, &out))
		return;
	data = out.seg[0].data;
	memcpy(data, f->data, f->len);
	memcpy(data + f->ip + 12, &loopback, 4);
	memcpy(data + f->ip + 16, &loopback, 4);
	data[f->bth + 5] = (uint8_t)(qpn >> 16);
	data[f->bth + 6] = (uint8_t)(qpn >> 8);
	data[f->bth + 7] = (uint8_t)qpn;
	xd_udp_tx_put(s, &out);
}

static void receive_some(struct worker *w, uint64_t now)
{
	struct xt_frame frames[XD_BATCH];
	unsigned int n = xd_udp_recv(&w->u->socket, frames, XD_BATCH, now);

	for (unsigned int i = 0; i < n; i++) {
		w->taken++;
		w->strays += frames[i].meta.qpn % WORKERS != w->number;
	}
	if (n)
		xd_udp_recv_done(&w->u->socket);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		send_one(w, i);
		if (i % 32 == 31)
			xd_udp_tx_flush(&w->u->socket, false);
		if (i % 16 == 15)
			receive_some(w, i);
	}
	return NULL;
}

static int open_worker(struct worker *w, uint32_t number)
{
	const struct xd_udp_place place = { "lo", NULL };
	const struct spec spec = { OP(UD(SEND_ONLY)), .qp = QP_UD4, .payload = 64 };
	static const uint8_t mac[6];
	struct xd_udp *u = xd_udp_new(xd_udp_has_ipv6(), mac, true);

	frame_build(&spec, &w->frame);
	w->u = u;
	w->number = number;
	u->socket.fd = u->rx_fd[0] = xd_udp_open_rx(u->ipv6, &place, true, !number);
	u->rx_fds = 1;
	if (u->socket.fd < 0)
		return u->socket.fd;
	for (int i = 0; i < XD_UDP_PORTS; i++) {
		u->tx.fd[i] = xd_udp_open_tx(u->ipv6, "lo", &u->tx.port[i]);
		if (u->tx.fd[i] < 0)
			return u->tx.fd[i];
	}
	return xd_verdict_new(tables, number, &u->verdict) || xd_udp_rx_init(u) ||
	       xd_udp_tx_init(u);
}

static void close_worker(struct worker *w)
{
	close(w->u->socket.fd);
	for (int i = 0; i < XD_UDP_PORTS; i++)
		close(w->u->tx.fd[i]);
	xd_verdict_free(w->u->verdict);
	xd_udp_rx_free(w->u);
	xd_udp_tx_free(w->u);
	free(w->u);
}

/* ---- the control thread --------------------------------------------------------------------- */

static struct xr_addr address(uint32_t ipv4)
{
	struct xr_addr gid;

	xr_gid_set_ipv4(&gid, htonl(ipv4));
	return gid;
}

static uint64_t all_stats(const struct xd_udp *u)
{
	struct xd_socket_stats stats;

	xd_socket_stats(&u->socket, &stats);
	return stats.tx_gso_packets + stats.rx_ring_full;
}

/* Returns the sum of counters of the workers' sockets. */
static uint64_t change_tables(const struct worker *worker)
{
	struct xr_addr here = address(LOOPBACK), group = address(0xef000001);
	struct xr_key_entry key = test_key_entry(KEY_FULL);
	struct xr_qp_entry qp = test_qp_entry(QP_UD4);
	uint64_t sum = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		xd_tables_set_addr(tables, &here, round % 4);
		xd_tables_set_addr(tables, &group, XR_ADDR_GROUP);
		for (uint32_t i = 0; i < QPS; i++) {
			xd_tables_set_qp(tables, FIRST_QPN + i, &qp);
			xd_tables_set_key(tables, i, &key);
		}
		usleep(300);
		for (uint32_t i = 0; i < QPS; i++) {
			xd_tables_del_key(tables, i);
			if (i % 4 == round % 4)
				xd_tables_del_qp(tables, FIRST_QPN + i);
		}
		usleep(300);
		xd_tables_del_addr(tables, &group);
		if (round % 8 == 7)
			xd_tables_del_addr(tables, &here);
		for (int i = 0; i < WORKERS; i++)
			sum += all_stats(worker[i].u);
	}
	return sum;
}

int main(void)
{
	static struct worker worker[WORKERS];
	const struct xd_udp_steering steering = { .workers = WORKERS };
	pthread_t thread[WORKERS];
	struct xr_stat stat;
	bool ok = true;

	if (!own_loopback() || xd_memory_tables_new(4096, UINT32_MAX, &tables)) {
		printf("1..0 # SKIP no network namespace: %s\n", strerror(errno));
		return 77;
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		ok &= !open_worker(&worker[i], i);
	TAP_OK(ok && !xd_udp_steer(worker[0].u->socket.fd, &steering), "sockets of two workers");
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_create(&thread[i], NULL, work, &worker[i]);
	TAP_OK(change_tables(worker), "messages of several packets were sent");
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	printf("# %llu and %llu packets\n", (unsigned long long)worker[0].taken,
	       (unsigned long long)worker[1].taken);
	TAP_OK(worker[0].taken && worker[1].taken, "both workers get packets");
	TAP_OK(!worker[0].strays && !worker[1].strays, "each gets those of its QPs");
	TAP_OK(!xd_tables_stat(tables, XR_NO_QP, &stat) && stat.packets,
	       "packets of removed QPs are dropped");
	for (uint32_t i = 0; i < WORKERS; i++)
		close_worker(&worker[i]);
	xd_memory_tables_free(tables);
	return tap_end();
}
