// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Injected errors and events: of queue pairs, CQs, SRQs and the device. */
#include <infiniband/verbs.h>

#include "parse.h"

bool xd_fault_set_timer(struct xd_words *w, struct xd_fault_rule *r)
{
	uint32_t code;

	if (r->inject.kind != XT_INJECT_RNR)
		return xd_words_wrong(w, NULL, "'rnr'");
	if (!xd_words_number32(w, 0, XT_INJECT_OWN_TIMER - 1, &code))
		return false;
	r->inject.value = (uint8_t)code;
	return true;
}

bool xd_fault_set_status(struct xd_words *w, struct xd_fault_rule *r)
{
	static const struct xd_name names[] = {
		{ "LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR },
		{ "LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR },
		{ "LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR },
		{ "MW_BIND_ERR", IBV_WC_MW_BIND_ERR },
		{ "BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR },
		{ "LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR },
		{ "REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR },
		{ "REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR },
		{ "REM_OP_ERR", IBV_WC_REM_OP_ERR },
		{ "RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR },
		{ "RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR },
		{ "REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR },
		{ "FATAL_ERR", IBV_WC_FATAL_ERR },
		{ "RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR },
		{ "GENERAL_ERR", IBV_WC_GENERAL_ERR },
		{ NULL, 0 },
	};

	if (r->inject.kind != XT_INJECT_ERROR)
		return xd_words_wrong(w, NULL, "'qp-error'");
	return xd_words_named(w, names, &r->inject.value,
			      "a status of enum ibv_wc_status without IBV_WC_, such as REM_OP_ERR");
}

bool xd_fault_nak(struct xd_words *w, struct xd_fault_rule *r)
{
	static const struct xd_name names[] = {
		{ "sequence", XR_NAK_PSN_SEQUENCE }, { "request", XR_NAK_INVALID_REQUEST },
		{ "access", XR_NAK_REMOTE_ACCESS },  { "operation", XR_NAK_REMOTE_OPERATIONAL },
		{ "rd", XR_NAK_INVALID_RD_REQUEST }, { NULL, 0 },
	};

	r->inject.kind = XT_INJECT_NAK;
	return xd_words_named(w, names, &r->inject.value,
			      "sequence, request, access, operation or rd");
}

bool xd_fault_rnr(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject = (struct xt_inject){ XT_INJECT_RNR, XT_INJECT_OWN_TIMER };
	return true;
}

bool xd_fault_qp_error(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject.kind = XT_INJECT_ERROR;
	return true;
}

bool xd_fault_cq_error(struct xd_words *w, struct xd_fault_rule *r)
{
	(void)w;
	r->inject.kind = XT_INJECT_CQ;
	return true;
}

bool xd_fault_event(struct xd_words *w, struct xd_fault_rule *r)
{
	static const struct xd_name names[] = {
		{ "CQ_ERR", IBV_EVENT_CQ_ERR },
		{ "QP_FATAL", IBV_EVENT_QP_FATAL },
		{ "QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR },
		{ "QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR },
		{ "COMM_EST", IBV_EVENT_COMM_EST },
		{ "SQ_DRAINED", IBV_EVENT_SQ_DRAINED },
		{ "PATH_MIG", IBV_EVENT_PATH_MIG },
		{ "PATH_MIG_ERR", IBV_EVENT_PATH_MIG_ERR },
		{ "SRQ_ERR", IBV_EVENT_SRQ_ERR },
		{ "SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED },
		{ "QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED },
		{ NULL, 0 },
	};

	static const struct xd_name of_device[] = {
		{ "DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL },
		{ "PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE },
		{ "PORT_ERR", IBV_EVENT_PORT_ERR },
		{ "LID_CHANGE", IBV_EVENT_LID_CHANGE },
		{ "PKEY_CHANGE", IBV_EVENT_PKEY_CHANGE },
		{ "SM_CHANGE", IBV_EVENT_SM_CHANGE },
		{ "CLIENT_REREGISTER", IBV_EVENT_CLIENT_REREGISTER },
		{ "GID_CHANGE", IBV_EVENT_GID_CHANGE },
		{ NULL, 0 },
	};
	const char *text = xd_words_next(w);

	if (xd_words_name(of_device, text, &r->inject.value)) {
		r->kind = XD_FAULT_EVENT;
		r->event = r->inject.value;
		r->inject.value = 0;
		r->match.direction = 0;
		return true;
	}
	r->inject.kind = XT_INJECT_EVENT;
	return xd_words_name(names, text, &r->inject.value) ||
	       xd_words_wrong(w, text,
			      "an event without IBV_EVENT_, such as QP_FATAL or DEVICE_FATAL");
}

bool xd_fault_gid(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_address(w, &r->match.gid);
}
