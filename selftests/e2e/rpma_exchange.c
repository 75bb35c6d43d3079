/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of librpma:
 *
 *   rpma_exchange server ADDRESS PORT KIND
 *   rpma_exchange client ADDRESS PORT KIND MESSAGES [wait]
 *
 * The client writes into the server's memory, flushes it, reads it back, and exchanges messages.
 * Its last message ends the exchange; after it the client disconnects at once, or waits first for
 * the message's completion. Every value is checked. KIND, the same at both ends, says where
 * completions of receives are found:
 *
 *   cq        in the connection's CQ
 *   rcq       in a CQ of their own
 *   channel   in a CQ of their own, whose completion channel the connection's CQ shares
 *   srq       in the CQ of a shared receive queue at the server, in the connection's CQ at the
 *             client
 */
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 262144 /* bytes that are written, more than one packet */
#define WORD LENGTH   /* offset of the word that is written atomically */
#define MEMORY (LENGTH + 4096)
#define DEPTH 4 /* of receive queues and their CQs */
#define LAST UINT64_MAX

#define REMOTE                                                                                     \
	(RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

static struct rpma_peer *peer;
static struct rpma_conn *conn;
static struct rpma_srq *srq;
static struct rpma_mr_local *memory_mr, *message_mr;
static uint64_t *message; /* the first is sent, the second received */
static char *memory;
static const char *kind;

/* What librpma returned; it has printed why. */
static void ok(const char *what, int ret)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

static void expect(const char *what, uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "%s: %llu, not %llu\n", what, (unsigned long long)got,
		(unsigned long long)wanted);
	exit(1);
}

static char pattern(size_t i)
{
	return (char)(i * 7 + i / 4096);
}

static void create_peer(const char *address, enum rpma_util_ibv_context_type end)
{
	struct ibv_context *context;

	ok("device", rpma_utils_get_ibv_context(address, end, &context));
	ok("peer", rpma_peer_new(context, &peer));
	if (posix_memalign((void **)&memory, 4096, MEMORY) ||
	    posix_memalign((void **)&message, 4096, 4096))
		exit(1);
	memset(memory, 0, MEMORY);
	ok("message",
	   rpma_mr_reg(peer, message, 4096, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &message_mr));
}

static struct rpma_conn_cfg *config(void)
{
	struct rpma_conn_cfg *cfg;

	ok("configuration", rpma_conn_cfg_new(&cfg));
	if (!strcmp(kind, "rcq") || !strcmp(kind, "channel"))
		ok("size of the CQ", rpma_conn_cfg_set_rcq_size(cfg, DEPTH));
	if (!strcmp(kind, "channel"))
		ok("channel", rpma_conn_cfg_set_compl_channel(cfg, true));
	if (srq)
		ok("SRQ", rpma_conn_cfg_set_srq(cfg, srq));
	return cfg;
}

static void create_srq(void)
{
	struct rpma_srq_cfg *cfg;

	ok("SRQ", rpma_srq_cfg_new(&cfg));
	ok("size of the SRQ", rpma_srq_cfg_set_rq_size(cfg, DEPTH));
	ok("size of its CQ", rpma_srq_cfg_set_rcq_size(cfg, DEPTH));
	ok("SRQ", rpma_srq_new(peer, cfg, &srq));
	ok("SRQ", rpma_srq_cfg_delete(&cfg));
}

static void post_receive(void)
{
	if (srq)
		ok("receive", rpma_srq_recv(srq, message_mr, 8, 8, NULL));
	else
		ok("receive", rpma_recv(conn, message_mr, 8, 8, NULL));
}

static void expect_event(enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	ok("event", rpma_conn_next_event(conn, &event));
	expect("event", event, wanted);
}

static struct rpma_cq *receive_cq(void)
{
	struct rpma_cq *cq = NULL;

	if (srq)
		ok("CQ of the SRQ", rpma_srq_get_rcq(srq, &cq));
	else
		ok("CQ of receives", rpma_conn_get_rcq(conn, &cq));
	if (!cq)
		ok("CQ", rpma_conn_get_cq(conn, &cq));
	return cq;
}

/*
 * Waits for a completion and returns its opcode. A shared channel may tell of the other CQ, whose
 * completions stay there.
 */
static enum ibv_wc_opcode next_completion(struct rpma_cq *cq)
{
	struct rpma_cq *told;
	struct ibv_wc wc;
	bool is_rcq;
	int ret;

	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
		if (!strcmp(kind, "channel"))
			ok("wait", rpma_conn_wait(conn, 0, &told, &is_rcq));
		else
			ok("wait", rpma_cq_wait(cq));
	}
	ok("completion", ret);
	expect("status", wc.status, IBV_WC_SUCCESS);
	return wc.opcode;
}

/*
 * Waits for `sends` further requests to be completed, and for as many messages. The peer's next
 * message may come before the request to which it is the answer is completed: queues of requests
 * and of receives have no common order.
 */
static void complete(int sends, int receives)
{
	static int done[2], wanted[2];
	struct rpma_cq *cq, *rcq = receive_cq();

	ok("CQ", rpma_conn_get_cq(conn, &cq));
	wanted[0] += sends;
	wanted[1] += receives;
	while (done[0] < wanted[0])
		done[next_completion(cq) == IBV_WC_RECV]++;
	while (done[1] < wanted[1])
		done[next_completion(rcq) == IBV_WC_RECV]++;
	expect("requests", done[0], wanted[0]);
}

static void post_message(uint64_t value, int flags)
{
	message[0] = value;
	ok("message", rpma_send(conn, message_mr, 0, 8, flags, NULL));
}

/* The descriptor of the server's memory comes as private data. */
static struct rpma_mr_remote *remote_memory(void)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;

	ok("private data", rpma_conn_get_private_data(conn, &data));
	ok("descriptor",
	   rpma_mr_remote_from_descriptor((char *)data.ptr + 1, *(uint8_t *)data.ptr, &remote));
	return remote;
}

static void write_memory(void)
{
	struct rpma_mr_remote *remote = remote_memory();
	const uint64_t word = 0x0123456789abcdef;

	for (size_t i = 0; i < LENGTH; i++)
		memory[i] = pattern(i);
	ok("write",
	   rpma_write(conn, remote, 0, memory_mr, 0, LENGTH, RPMA_F_COMPLETION_ON_ERROR, NULL));
	ok("atomic write", rpma_atomic_write(conn, remote, WORD, (const char *)&word,
					     RPMA_F_COMPLETION_ON_ERROR, NULL));
	ok("flush", rpma_flush(conn, remote, 0, MEMORY, RPMA_FLUSH_TYPE_VISIBILITY,
			       RPMA_F_COMPLETION_ALWAYS, NULL));
	complete(1, 0);
	memset(memory, 0, MEMORY);
	ok("read",
	   rpma_read(conn, memory_mr, 0, remote, 0, MEMORY, RPMA_F_COMPLETION_ALWAYS, NULL));
	complete(1, 0);
	ok("remote memory", rpma_mr_remote_delete(&remote));
}

static void check_memory(void)
{
	for (size_t i = 0; i < LENGTH; i++)
		expect("byte", (uint8_t)memory[i], (uint8_t)pattern(i));
	expect("word", *(uint64_t *)(memory + WORD), 0x0123456789abcdef);
}

static void destroy(void)
{
	ok("connection", rpma_conn_delete(&conn));
	if (srq)
		ok("SRQ", rpma_srq_delete(&srq));
	ok("memory", rpma_mr_dereg(&memory_mr));
	ok("message", rpma_mr_dereg(&message_mr));
	ok("peer", rpma_peer_delete(&peer));
}

static void accept_client(const char *address, const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct rpma_conn_cfg *cfg;
	struct rpma_ep *endpoint;
	uint8_t bytes[64];
	size_t length;

	ok("memory", rpma_mr_reg(peer, memory, MEMORY, REMOTE, &memory_mr));
	ok("descriptor", rpma_mr_get_descriptor_size(memory_mr, &length));
	bytes[0] = length;
	ok("descriptor", rpma_mr_get_descriptor(memory_mr, bytes + 1));
	data = (struct rpma_conn_private_data){ .ptr = bytes, .len = length + 1 };

	ok("listen", rpma_ep_listen(peer, address, port, &endpoint));
	cfg = config();
	ok("request", rpma_ep_next_conn_req(endpoint, cfg, &request));
	if (srq)
		post_receive();
	else
		ok("receive", rpma_conn_req_recv(request, message_mr, 8, 8, NULL));
	ok("accept", rpma_conn_req_connect(&request, &data, &conn));
	expect_event(RPMA_CONN_ESTABLISHED);
	ok("configuration", rpma_conn_cfg_delete(&cfg));
	ok("endpoint", rpma_ep_shutdown(&endpoint));
}

static void serve(const char *address, const char *port)
{
	create_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	if (!strcmp(kind, "srq"))
		create_srq();
	accept_client(address, port);
	for (;;) {
		uint64_t value;

		complete(0, 1);
		value = message[1];
		if (value == LAST)
			break;
		post_receive();
		post_message(value + 1, RPMA_F_COMPLETION_ALWAYS);
		complete(1, 0);
	}
	expect_event(RPMA_CONN_CLOSED);
	ok("disconnect", rpma_conn_disconnect(conn));
	check_memory();
	destroy();
	puts("the server has the last message");
}

static void call(const char *address, const char *port, int messages, bool wait)
{
	struct rpma_conn_req *request;
	struct rpma_conn_cfg *cfg;

	create_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	ok("memory", rpma_mr_reg(peer, memory, MEMORY,
				 RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &memory_mr));
	cfg = config();
	ok("request", rpma_conn_req_new(peer, address, port, cfg, &request));
	ok("connect", rpma_conn_req_connect(&request, NULL, &conn));
	expect_event(RPMA_CONN_ESTABLISHED);
	ok("configuration", rpma_conn_cfg_delete(&cfg));
	write_memory();
	check_memory();
	for (int i = 0; i < messages; i++) {
		post_receive();
		post_message(2 * i, RPMA_F_COMPLETION_ALWAYS);
		complete(1, 1);
		expect("answer", message[1], 2 * i + 1);
	}
	post_message(LAST, wait ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR);
	complete(wait, 0);
	ok("disconnect", rpma_conn_disconnect(conn));
	expect_event(RPMA_CONN_CLOSED);
	destroy();
	puts("the client has all answers");
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "server")) {
		kind = argv[4];
		serve(argv[2], argv[3]);
	} else if (argc >= 6 && !strcmp(argv[1], "client")) {
		kind = argv[4];
		call(argv[2], argv[3], atoi(argv[5]), argc > 6);
	} else {
		return 2;
	}
	return 0;
}
