// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * borrow SOCKET USER hold COUNT    borrows COUNT slots, and prints each received packet
 * borrow SOCKET USER offer         the same with one slot and an inbox
 * borrow SOCKET USER ask QPN       borrows a slot, and asks for the inbox of the QPN's slot
 * borrow SOCKET USER cycles COUNT  borrows a slot in a process that is killed, again and again
 * borrow SOCKET USER spoil IPV6    connects the borrowed socket, so that it cannot be lent again
 * borrow SOCKET USER attack NAME   attacks with the borrowed socket, then prints packets as hold
 *                                  does. NAME: filter, steering, shutdown, device, buffer, keep
 *                                  (closes the connection, but not the socket)
 * borrow SOCKET USER publish       borrows a slot, and publishes entries in the kernel's tables; it
 *                                  may only have the last ones; prints "NAME: done" or
 *                                  "NAME: ERRNO TEXT"; then prints packets as hold does
 *
 * Borrows slots of a daemon as USER (UID or UID:GID), without the verbs provider. A line for each
 * slot: "slot S modulus M rest R ports N buffer BYTES", or "refused ERRNO TEXT". `hold` prints
 * "ready" then, and "slot S gets QPN" for each packet, until its standard input ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#define MOST 80

static struct slot {
	struct conn conn;
	struct xr_lend_rep lent;
	int status;
} slots[MOST];

/* ---- borrowing -------------------------------------------------------------------------- */

static bool fds_match(const struct conn *c, const struct xr_lend_rep *r)
{
	struct sockaddr_in6 sa; /* the port has the same place in both families */
	socklen_t len = sizeof(sa);

	if (c->got_fds != r->ports + 3)
		return false;
	for (uint32_t i = 0; i < r->ports; i++) {
		len = sizeof(sa);
		if (getsockname(c->got_fd[1 + i], (struct sockaddr *)&sa, &len) ||
		    ntohs(sa.sin6_port) != r->port[i])
			return false;
	}
	len = sizeof(sa);
	return !getsockname(c->got_fd[0], (struct sockaddr *)&sa, &len) &&
	       ntohs(sa.sin6_port) == 4791;
}

/* inbox: a descriptor, -1: none */
static bool borrow_with(struct slot *s, int inbox)
{
	const struct xr_lend_req q = { .flags = inbox < 0 ? 0 : XR_LEND_INBOX };
	union {
		struct xr_lend_rep rep;
		char why[XR_WHY_MAX];
	} u = { 0 };

	if (!conn_open(&s->conn)) {
		printf("no connection\n");
		return false;
	}
	s->status = conn_call(&s->conn, XR_MSG_LEND, &q, sizeof(q), &inbox, inbox >= 0, &u,
			      sizeof(u));
	s->lent = u.rep;
	if (s->status)
		printf("refused %s: %.*s\n", strerror(-s->status), XR_WHY_MAX, u.why);
	else if (!fds_match(&s->conn, &s->lent))
		printf("wrong descriptors\n");
	else
		printf("slot %u modulus %u rest %u ports %u buffer %u\n", s->lent.slot,
		       s->lent.qpn_modulus, s->lent.qpn_rest, s->lent.ports,
		       s->lent.receive_buffer);
	return !s->status;
}

static bool borrow(struct slot *s)
{
	return borrow_with(s, -1);
}

static void ask(uint32_t qpn)
{
	const struct xr_peer_req q = { .qpn = qpn };
	union {
		struct xr_peer_rep rep;
		char why[XR_WHY_MAX];
	} u = { 0 };
	int status;

	if (!borrow(&slots[0]))
		return;
	status = conn_call(&slots[0].conn, XR_MSG_PEER, &q, sizeof(q), NULL, 0, &u, sizeof(u));
	if (status)
		printf("no inbox, %s: %.*s\n", strerror(-status), XR_WHY_MAX, u.why);
	else
		printf("inbox of slot %u, ring %u, %u descriptors\n", u.rep.slot, u.rep.own,
		       slots[0].conn.got_fds);
}

/* ---- receiving ---------------------------------------------------------------------------- */

static void receive(const struct slot *s)
{
	uint8_t bth[64];
	ssize_t n = recv(s->conn.got_fd[0], bth, sizeof(bth), MSG_DONTWAIT);

	if (n >= 8)
		printf("slot %u gets 0x%x\n", s->lent.slot,
		       (uint32_t)(bth[5] << 16 | bth[6] << 8 | bth[7]));
}

static void receive_all(uint32_t n)
{
	struct pollfd p[MOST + 1];

	printf("ready\n");
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = slots[i].conn.got_fd[0], .events = POLLIN };
	p[n] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	while (poll(p, n + 1, -1) > 0 && !p[n].revents) {
		for (uint32_t i = 0; i < n; i++)
			if (p[i].revents)
				receive(&slots[i]);
	}
}

static void hold(uint32_t count)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		n += borrow(&slots[n]);
	receive_all(n);
}

/* ---- attacks ------------------------------------------------------------------------------ */

static void result(const char *call, int failed)
{
	printf("%s: %s\n", call, failed ? strerror(errno) : "done");
}

/* Takes the filter off, or replaces it by one that lets everything pass. */
static void attack_filter(int fd)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	const struct sock_fprog prog = { .len = 1, .filter = &all };
	int zero = 0;

	result("SO_LOCK_FILTER", setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &zero, sizeof(zero)));
	result("SO_DETACH_FILTER",
	       setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero)));
	result("SO_ATTACH_FILTER",
	       setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)));
}

/* Makes the group steer all packets to the third socket, or removes its program. */
static void attack_steering(int fd)
{
	struct sock_filter third = BPF_STMT(BPF_RET | BPF_K, 2);
	const struct sock_fprog prog = { .len = 1, .filter = &third };
	int zero = 0;

	result("SO_ATTACH_REUSEPORT_CBPF",
	       setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)));
	result("SO_DETACH_REUSEPORT_BPF",
	       setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &zero, sizeof(zero)));
}

static void attack_device(int fd)
{
	result("SO_BINDTODEVICE", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
}

static void attack_buffer(int fd)
{
	int low = 1000000, small = 0;

	result("SO_RCVLOWAT", setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	result("SO_RCVBUF", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
}

static void attack_shutdown(int fd)
{
	result("shutdown", shutdown(fd, SHUT_RDWR));
}

static void attack_keep(int fd)
{
	close(slots[0].conn.fd);
}

static void attack(const char *name)
{
	static const struct {
		const char *name;
		void (*run)(int fd);
	} attacks[] = {
		{ "filter", attack_filter },	 { "steering", attack_steering },
		{ "device", attack_device },	 { "buffer", attack_buffer },
		{ "shutdown", attack_shutdown }, { "keep", attack_keep },
	};

	if (!borrow(&slots[0]))
		return;
	for (unsigned int i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
		if (!strcmp(attacks[i].name, name))
			attacks[i].run(slots[0].conn.got_fd[0]);
	receive_all(1);
}

/* ---- the tables of the kernel ------------------------------------------------------------- */

struct publication {
	struct xr_publish_req head;
	struct xr_publish_entry entry[XR_PUBLISH_MAX + 1];
};

static void publish(struct conn *c, const char *name, const struct publication *p, size_t entries)
{
	char why[XR_WHY_MAX + 1] = "";
	int status = conn_call(c, XR_MSG_PUBLISH, p,
			       sizeof(p->head) + entries * sizeof(p->entry[0]), NULL, 0, why,
			       sizeof(why) - 1);

	printf("%s: %s%s%s\n", name, status ? strerror(-status) : "done", *why ? " " : "", why);
}

static struct xr_publish_entry qp_entry(uint32_t qpn)
{
	return (struct xr_publish_entry){
		.kind = XR_PUBLISH_QP,
		.number = qpn,
		.qp = { .state = XR_QPS_RTS, .type = XR_QPT_RC, .slot = XR_NO_PSNS },
	};
}

static struct xr_publish_entry key_entry(uint32_t index)
{
	return (struct xr_publish_entry){
		.kind = XR_PUBLISH_KEY,
		.number = index,
		.key = { .state = XR_KEY_VALID, .type = XR_KEY_MR, .access = XR_ACCESS_REMOTE },
	};
}

/* Entries that no client may set, each in a request of its own, behind one that it may set */
static void publish_refused(struct conn *c, const struct xr_lend_rep *lent)
{
	uint32_t own = 100 * lent->qpn_modulus + lent->qpn_rest;
	struct xr_publish_entry e[] = {
		qp_entry(own + 1),
		qp_entry(own + 2),
		qp_entry(1),
		qp_entry(0xffffff),
		qp_entry(own + (1 << 24)),
		qp_entry(own),
		qp_entry(own),
		qp_entry(own),
		qp_entry(own),
		key_entry(1 << 24),
		key_entry(7),
		key_entry(7),
		key_entry(7),
	};
	static const char *const names[] = {
		"QPN of the daemon",
		"QPN of another slot",
		"QPN 1",
		"QPN of groups",
		"long QPN",
		"kind",
		"place of a QP",
		"state of a QP",
		"place of PSNs",
		"long index",
		"place of a key",
		"type of a key",
		"state of a key",
	};

	e[5].kind = 3;
	e[6].place = XR_PUBLISH_QPS;
	e[7].qp.state = XR_QPS_ERR + 1;
	e[8].qp.slot = 0;
	e[10].place = XR_PUBLISH_KEYS;
	e[11].key.type = 0;
	e[12].key.state = XR_KEY_INVALID + 1;
	for (unsigned int i = 0; i < sizeof(e) / sizeof(e[0]); i++) {
		const struct publication p = { { .entries = 2 }, { key_entry(0xdead), e[i] } };

		publish(c, names[i], &p, 2);
	}
}

static void publish_all(void)
{
	struct publication p = { .head.entries = 1 };
	struct conn *c = &slots[0].conn;
	uint32_t own;

	if (!conn_open(c))
		return;
	publish(c, "without a slot", &p, 1);
	close(c->fd);
	if (!borrow(&slots[0]))
		return;
	publish_refused(c, &slots[0].lent);
	p.head.entries = XR_PUBLISH_MAX + 1;
	publish(c, "too many entries", &p, XR_PUBLISH_MAX + 1);
	p.head.entries = 2;
	publish(c, "missing entry", &p, 1);
	p.head = (struct xr_publish_req){ .flags = 4 };
	publish(c, "flags", &p, 0);
	own = 100 * slots[0].lent.qpn_modulus + slots[0].lent.qpn_rest;
	p = (struct publication){ { .entries = 2 }, { qp_entry(own), key_entry(0xbee) } };
	publish(c, "a QP and a key", &p, 2);
	receive_all(1);
}

/* ---- the end of borrowers ----------------------------------------------------------------- */

static void cycle(uint32_t count)
{
	int ready[2], status;
	uint32_t lent = 0;
	pid_t pid;
	char c;

	while (lent < count) {
		if (pipe(ready))
			exit(1);
		pid = fork();
		if (!pid) {
			close(ready[0]);
			if (!borrow(&slots[0]) || write(ready[1], "x", 1) != 1)
				_exit(1);
			pause();
		}
		close(ready[1]);
		if (read(ready[0], &c, 1) == 1)
			lent++;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		close(ready[0]);
	}
	printf("%u cycles\n", lent);
}

static void spoil(const char *peer)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(4791) };

	if (!borrow(&slots[0]))
		return;
	if (inet_pton(AF_INET6, peer, &to.sin6_addr) != 1)
		exit(2);
	if (connect(slots[0].conn.got_fd[0], (struct sockaddr *)&to, sizeof(to)))
		printf("connect: %s\n", strerror(errno));
}

/* user: "UID" or "UID:GID"; a user who is not root has no other groups */
static void become(const char *user)
{
	char *end;
	uid_t uid = (uid_t)strtoul(user, &end, 10);
	gid_t gid = *end == ':' ? (gid_t)strtoul(end + 1, NULL, 10) : uid;

	if (uid && (setgroups(0, NULL) || setgid(gid) || setuid(uid)))
		exit(1);
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;

	if (argc < 4 || count > 1000000)
		return 2;
	daemon_path = argv[1];
	become(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[3], "hold") && count <= MOST)
		hold(count);
	else if (!strcmp(argv[3], "offer") && borrow_with(&slots[0], memfd_create("inbox", 0)))
		receive_all(1);
	else if (!strcmp(argv[3], "ask"))
		ask(count);
	else if (!strcmp(argv[3], "cycles"))
		cycle(count);
	else if (argc > 4 && !strcmp(argv[3], "attack"))
		attack(argv[4]);
	else if (!strcmp(argv[3], "publish"))
		publish_all();
	else if (argc > 4 && !strcmp(argv[3], "spoil"))
		spoil(argv[4]);
	else
		return 2;
	return 0;
}
