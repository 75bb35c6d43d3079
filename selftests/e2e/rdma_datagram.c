/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends and receives UD messages. Exit status 0 on success.
 *
 *   rdma_datagram listen GID_INDEX COUNT [GROUP]
 *       prints "ready QPN", then a line for each of COUNT messages; replies to each unless it
 *       listens to a multicast group
 *   rdma_datagram send GID_INDEX ADDRESS QPN QKEY TEXT [TIMES]
 *   rdma_datagram request GID_INDEX ADDRESS QPN QKEY TEXT
 *       sends, waits for the reply and prints it
 *   rdma_datagram leave GID_INDEX ADDRESS QPN QKEY TEXT
 *       sends 8 times and destroys the QP without waiting for completions
 *   rdma_datagram mac GID_INDEX ADDRESS
 *       prints the MAC address and the VLAN ID of the next hop
 *   rdma_datagram mad-listen, mad-request, mad-send
 *       like listen and request, with MADs over QP 1 (GSI)
 *   rdma_datagram pma, mad-pma GID_INDEX ADDRESS METHOD ATTRIBUTE
 *       sends a MAD of performance management to QP 1 of ADDRESS, from a QP with the Q_Key of QP 1
 *       or from QP 1; CounterSelect is 0xffff. Waits for the response, and prints its status and
 *       the first 44 bytes of the attribute as words
 *
 * The environment variable DEVICE names the device; the default is the first one. Addresses are
 * IPv4 or IPv6. The immediate data of a message is the length of TEXT.
 */
#include "verbs_util.h"

#include <arpa/inet.h>
#include <dlfcn.h>

#include <infiniband/xrocedv.h>

#define QKEY 0x11111111
#define GRH 40
#define SLOT 1024
#define SLOTS 16
#define WAIT_S 20

/* Length of a MAD and its header, as of a CM ConnectRequest (IBTA 13.4.2, 12.6) */
#define MAD 256
static const uint8_t mad_header[24] = { 1, 7, 2, 3, [16] = 0, 0x10 };

static bool gsi, pma;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int gid_index;
static char buf[(SLOTS + 1) * SLOT]; /* receives, then one message to send */
static char *const out = buf + SLOTS * SLOT;

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };

	if (inet_pton(AF_INET, text, gid.raw + 12) != 1)
		MUST(inet_pton(AF_INET6, text, gid.raw) == 1, "not an IPv4 or IPv6 address");
	return gid;
}

/* ---- set-up ---------------------------------------------------------------- */

static void set_up(void)
{
	ctx = open_device(getenv("DEVICE"));
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	MUST(pd && mr && cq, "objects");
}

static void post_receive(uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)buf + slot * SLOT, SLOT, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

static struct ibv_qp *create_gsi_qp(struct ibv_qp_init_attr *init)
{
	struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *);

	*(void **)&create = dlsym(RTLD_DEFAULT, "xrocedv_create_gsi_qp");
	MUST(create, "xrocedv_create_gsi_qp");
	return create(pd, init);
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = SLOTS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	uint64_t i;

	qp = gsi ? create_gsi_qp(&init) : ibv_create_qp(pd, &init);
	MUST(qp, "create_qp");
	MUST(!gsi || qp->qp_num == XROCEDV_GSI_QPN, "the GSI QP has a wrong number");
	MUST(!ud_reset_to_rts(qp, gsi || pma ? XROCEDV_GSI_QKEY : QKEY), "RTS");
	for (i = 0; i < SLOTS; i++)
		post_receive(i);
}

/* ---- messages ------------------------------------------------------------------- */

static void completion(struct ibv_wc *wc, double seconds)
{
	MUST(next_completion(cq, wc, seconds) == 1, "no completion");
	MUST(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
}

static void transmit(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);
	struct ibv_sge sge = { (uintptr_t)out, len, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = SLOTS, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(len),
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	}, *bad;
	struct ibv_wc wc;

	memcpy(out, text, len);
	if (gsi) {
		memset(out, 0, MAD);
		memcpy(out, mad_header, sizeof(mad_header));
		memcpy(out + sizeof(mad_header), text, len);
		sge.length = MAD;
		wr.opcode = IBV_WR_SEND;
	}
	MUST(!ibv_post_send(qp, &wr, &bad), "post_send");
	/* a connection manager answers the MADs that were sent before */
	do
		completion(&wc, WAIT_S);
	while (gsi && wc.opcode == IBV_WC_RECV);
	MUST(wc.opcode == IBV_WC_SEND, "not the completion of the send");
}

/* Returns the text of a received message, valid until its slot is posted again. */
static const char *check_message(const struct ibv_wc *wc)
{
	char *text = buf + wc->wr_id * SLOT + GRH;

	if (gsi) {
		MUST(wc->opcode == IBV_WC_RECV && wc->byte_len == GRH + MAD, "not a received MAD");
		MUST(wc->src_qp == 1 && wc->qp_num == 1 && !wc->pkey_index,
		     "wrong QP number or P_Key index");
		MUST(!memcmp(text, mad_header, sizeof(mad_header)), "wrong MAD header");
		return text + sizeof(mad_header);
	}
	MUST(wc->opcode == IBV_WC_RECV && wc->byte_len >= GRH && wc->byte_len < SLOT,
	     "not a receive");
	MUST((wc->wc_flags & IBV_WC_GRH) && (wc->wc_flags & IBV_WC_WITH_IMM),
	     "no GRH or immediate data");
	MUST(ntohl(wc->imm_data) == wc->byte_len - GRH, "wrong immediate data");
	MUST(wc->qp_num == qp->qp_num && !wc->pkey_index, "wrong QP number or P_Key index");
	text[wc->byte_len - GRH] = '\0';
	return text;
}

static void send_reply(struct ibv_wc *wc, const char *text)
{
	struct ibv_grh *grh = (struct ibv_grh *)(buf + wc->wr_id * SLOT);
	struct ibv_ah *ah = ibv_create_ah_from_wc(pd, wc, grh, 1);
	char reply[SLOT];

	MUST(ah, "create_ah_from_wc");
	snprintf(reply, sizeof(reply), "re: %s", text);
	transmit(ah, wc->src_qp, gsi ? XROCEDV_GSI_QKEY : QKEY, reply);
	MUST(!ibv_destroy_ah(ah), "destroy_ah");
}

/* ---- commands ---------------------------------------------------- */

static int do_listen(int count, const char *group)
{
	union ibv_gid gid;
	const char *text;
	struct ibv_wc wc;

	if (group) {
		gid = gid_of(group);
		MUST(!ibv_attach_mcast(qp, &gid, 0), "attach_mcast");
		MUST(ibv_destroy_qp(qp) == EBUSY, "a QP in a group was destroyed");
	}
	printf("ready %u\n", qp->qp_num);
	fflush(stdout);
	while (count--) {
		completion(&wc, 6 * WAIT_S);
		text = check_message(&wc);
		printf("got %s\n", text);
		fflush(stdout);
		if (!group)
			send_reply(&wc, text);
		post_receive(wc.wr_id);
	}
	if (group)
		MUST(!ibv_detach_mcast(qp, &gid, 0), "detach_mcast");
	return 0;
}

#define LAST_MESSAGES 8

static void destroy_after_post(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);
	struct ibv_sge sge = { (uintptr_t)out, len, mr->lkey };
	struct ibv_send_wr wr[LAST_MESSAGES], *bad;
	int i;

	memcpy(out, text, len);
	for (i = 0; i < LAST_MESSAGES; i++)
		wr[i] = (struct ibv_send_wr){
			.next = i + 1 < LAST_MESSAGES ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM,
			.imm_data = htonl(len),
			.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
		};
	MUST(!ibv_post_send(qp, wr, &bad), "post_send");
	MUST(!ibv_destroy_qp(qp), "destroy_qp");
}

static struct ibv_ah_attr address(const char *text)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = gid_of(text), .sgid_index = (uint8_t)gid_index, .hop_limit = 7 },
	};

	return attr;
}

static int do_send(char **arg, bool request, int times)
{
	struct ibv_ah_attr attr = address(arg[0]);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_wc wc;

	MUST(ah, "create_ah");
	while (times--)
		transmit(ah, (uint32_t)strtoul(arg[1], NULL, 0), (uint32_t)strtoul(arg[2], NULL, 0),
			 arg[3]);
	if (request) {
		completion(&wc, WAIT_S);
		printf("%s\n", check_message(&wc));
	}
	MUST(!ibv_destroy_ah(ah), "destroy_ah");
	return 0;
}

static int do_pma(char **arg)
{
	struct ibv_ah_attr attr = address(arg[0]);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_sge sge = { (uintptr_t)out, MAD, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { .ah = ah, .remote_qpn = 1, .remote_qkey = XROCEDV_GSI_QKEY },
	}, *bad;
	uint8_t header[24] = {
		1, 4, 1, (uint8_t)atoi(arg[1]), [8] = 0x5a, [17] = (uint8_t)strtoul(arg[2], NULL, 0)
	};
	const uint8_t *mad;
	struct ibv_wc wc;
	uint32_t word;
	int i;

	MUST(ah, "create_ah");
	memset(out, 0, MAD);
	memcpy(out, header, sizeof(header));
	memcpy(out + 64, "\0\1\377\377", 4); /* PortSelect, CounterSelect */
	MUST(!ibv_post_send(qp, &wr, &bad), "post_send");
	do
		completion(&wc, WAIT_S);
	while (wc.opcode != IBV_WC_RECV);
	mad = (uint8_t *)buf + wc.wr_id * SLOT + GRH;
	header[3] = 0x81;
	MUST(wc.byte_len == GRH + MAD && wc.src_qp == 1, "not a response");
	MUST(!memcmp(mad, header, 4) && !memcmp(mad + 8, header + 8, 16), "wrong MAD header");
	printf("%u", mad[4] << 8 | mad[5]);
	for (i = 64; i < 108; i += 4) {
		memcpy(&word, mad + i, sizeof(word));
		printf(" %u", ntohl(word));
	}
	printf("\n");
	return 0;
}

static int do_leave(char **arg)
{
	struct ibv_ah_attr attr = address(arg[0]);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	MUST(ah, "create_ah");
	destroy_after_post(ah, (uint32_t)strtoul(arg[1], NULL, 0),
			   (uint32_t)strtoul(arg[2], NULL, 0), arg[3]);
	return 0;
}

static int do_mac(const char *text)
{
	struct ibv_ah_attr attr = address(text);
	uint16_t vid = 0;
	uint8_t m[6];

	MUST(!ibv_resolve_eth_l2_from_gid(ctx, &attr, m, &vid), "resolve_eth_l2_from_gid");
	printf("%02x:%02x:%02x:%02x:%02x:%02x %u\n", m[0], m[1], m[2], m[3], m[4], m[5], vid);
	return 0;
}

int main(int argc, char **argv)
{
	const char *command = argc > 3 ? argv[1] : "";

	set_up();
	gid_index = argc > 2 ? atoi(argv[2]) : 0;
	if (!strcmp(command, "mac"))
		return do_mac(argv[3]);
	gsi = !strncmp(command, "mad-", 4);
	command += gsi ? 4 : 0;
	pma = !strcmp(command, "pma");
	make_qp();
	if (argc == 6 && pma)
		return do_pma(argv + 3);
	if (!strcmp(command, "listen"))
		return do_listen(atoi(argv[3]), argv[4]);
	if (argc >= 7 && !strcmp(command, "send"))
		return do_send(argv + 3, false, argc > 7 ? atoi(argv[7]) : 1);
	if (argc == 7 && !strcmp(command, "request"))
		return do_send(argv + 3, true, 1);
	if (argc == 7 && !strcmp(command, "leave"))
		return do_leave(argv + 3);
	fprintf(stderr, "rdma_datagram: see the comment at the start of its source\n");
	return 2;
}
