// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The decoder of CM messages. A MAD that it accepts must survive encoding and decoding: the second
 * message equals the first one, and encoding it again gives the same MAD.
 *
 * Input: the MAD, of any length.
 */
#include "daemon/cm/mad.h"
#include "input.h"

/* The length that private data must have in a received message */
static unsigned data_len(enum xc_kind kind)
{
	static const uint8_t len[XC_NUM_KINDS] = {
		[XC_REQ] = XC_REQ_DATA,		  [XC_MRA] = XC_MRA_DATA,
		[XC_REJ] = XC_REJ_DATA,		  [XC_REP] = XC_REP_DATA,
		[XC_RTU] = XC_RTU_DATA,		  [XC_DREQ] = XC_DREQ_DATA,
		[XC_DREP] = XC_DREP_DATA,	  [XC_SIDR_REQ] = XC_SIDR_REQ_DATA,
		[XC_SIDR_REP] = XC_SIDR_REP_DATA,
	};

	return len[kind];
}

/* The private data and the additional information of a message; NULL: none */
static struct xc_data *private_data(struct xc_msg *m)
{
	switch (m->kind) {
	case XC_REQ:
		return &m->req.data;
	case XC_MRA:
		return &m->mra.data;
	case XC_REJ:
		return &m->rej.data;
	case XC_REP:
		return &m->rep.data;
	case XC_RTU:
	case XC_DREP:
		return &m->rtu.data;
	case XC_DREQ:
		return &m->dreq.data;
	case XC_SIDR_REQ:
		return &m->sidr_req.data;
	case XC_SIDR_REP:
		return &m->sidr_rep.data;
	default:
		return NULL;
	}
}

static struct xc_data *information(struct xc_msg *m)
{
	switch (m->kind) {
	case XC_REJ:
		return &m->rej.ari;
	case XC_SIDR_REP:
		return &m->sidr_rep.info;
	case XC_APR:
		return &m->apr.info;
	default:
		return NULL;
	}
}

static void must_equal(const struct xc_data *a, const struct xc_data *b)
{
	MUST(a->len == b->len && !memcmp(a->data, b->data, a->len));
}

/* Compares the variable parts and takes them out, so that the rest can be compared as bytes. */
static void compare_parts(struct xc_msg *a, struct xc_msg *b)
{
	if (private_data(a)) {
		MUST(private_data(a)->len == data_len(a->kind));
		must_equal(private_data(a), private_data(b));
		memset(private_data(a), 0, sizeof(struct xc_data));
		memset(private_data(b), 0, sizeof(struct xc_data));
	}
	if (information(a)) {
		MUST(information(a)->len <= XC_REJ_ARI);
		must_equal(information(a), information(b));
		memset(information(a), 0, sizeof(struct xc_data));
		memset(information(b), 0, sizeof(struct xc_data));
	}
}

static void check_text(const struct xc_msg *m)
{
	MUST(xc_kind_name(m->kind));
	if (m->kind == XC_REJ)
		xc_reason_text(m->rej.reason);
}

static void check_ip_header(struct xc_msg *m)
{
	struct xc_ip_header header, again;
	uint8_t bytes[XC_IP_HEADER_LEN];

	memset(&header, 0, sizeof(header));
	memset(&again, 0, sizeof(again));
	if ((m->kind != XC_REQ && m->kind != XC_SIDR_REQ) ||
	    !xc_ip_header_get(private_data(m)->data, &header))
		return;
	xc_ip_header_put(bytes, &header);
	MUST(xc_ip_header_get(bytes, &again));
	MUST(!memcmp(&header, &again, sizeof(header)));
}

/* A received path is seen from the receiver, a path to be sent from the sender. */
static void turn_path(struct xc_msg *m)
{
	struct xr_addr local = m->req.path.local;

	if (m->kind != XC_REQ)
		return;
	m->req.path.local = m->req.path.peer;
	m->req.path.peer = local;
}

static void check_message(struct xc_msg *first)
{
	uint8_t mad[XC_MAD_LEN], again[XC_MAD_LEN];
	struct xc_msg second;

	check_text(first);
	check_ip_header(first);
	/* Messages that are never sent */
	if (first->kind == XC_LAP || (first->kind == XC_REQ && first->req.transport == XC_OTHER))
		return;
	turn_path(first);
	xc_mad_encode(mad, first);
	MUST(xc_mad_decode(mad, sizeof(mad), &second) == XC_DECODED);
	turn_path(&second);
	xc_mad_encode(again, &second);
	MUST(!memcmp(mad, again, sizeof(mad)));
	compare_parts(first, &second);
	MUST(!memcmp(first, &second, sizeof(second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct xc_msg msg;

	if (size)
		memcpy(exact, data, size);
	if (xc_mad_decode(exact, size, &msg) == XC_DECODED)
		check_message(&msg);
	free(exact);
	return 0;
}
