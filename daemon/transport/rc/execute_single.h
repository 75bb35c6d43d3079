/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Execution of requests of one packet, for execute.c. The caller keeps the response. */
#ifndef XT_EXECUTE_SINGLE_H
#define XT_EXECUTE_SINGLE_H

#include "execute.h"

enum xt_outcome xt_resp_read(struct xt_qp *qp, const struct xt_request *rq, struct xt_result *res);
enum xt_outcome xt_resp_atomic(struct xt_qp *qp, const struct xt_request *rq,
			       struct xt_result *res);
enum xt_outcome xt_resp_atomic_write(struct xt_qp *qp, const struct xt_request *rq,
				     struct xt_result *res);
enum xt_outcome xt_resp_flush(struct xt_qp *qp, const struct xt_request *rq, struct xt_result *res);

#endif /* XT_EXECUTE_SINGLE_H */
