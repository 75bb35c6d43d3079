# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The transport engine as a static library, for the daemon, the simulation, the fuzzers and unit tests
transport_SRCS := $(addprefix daemon/transport/, \
	engine.c \
	flush.c \
	inject.c \
	modify.c \
	qp.c \
	resume.c \
	rx.c \
	base/bytes.c \
	base/crc.c \
	base/crc_change.c \
	base/numbers.c \
	base/permute.c \
	base/slots.c \
	unreliable/send_queue.c \
	unreliable/uc.c \
	unreliable/ud_receive.c \
	unreliable/ud_send.c \
	loopback/loopback.c \
	loopback/ahead.c \
	loopback/posted.c \
	loopback/sends.c \
	loopback/show.c \
	memory/copy.c \
	memory/ending.c \
	memory/guard.c \
	memory/integrity.c \
	memory/key_wr.c \
	memory/keys.c \
	memory/memory.c \
	memory/signature.c \
	memory/staging.c \
	memory/reads.c \
	memory/put.c \
	memory/usage.c \
	queue/cq.c \
	queue/cq_event.c \
	queue/receive.c \
	queue/rq.c \
	queue/sq.c \
	queue/srq.c \
	queue/wr_kind.c \
	rc/build.c \
	rc/check.c \
	rc/completer.c \
	rc/early.c \
	rc/execute.c \
	rc/execute_single.c \
	rc/gaps.c \
	rc/place_request.c \
	rc/place_response.c \
	rc/psns.c \
	rc/rd.c \
	rc/requester.c \
	rc/resend.c \
	rc/responder.c \
	rc/responses.c \
	rc/rtt.c \
	scheduling/flow.c \
	scheduling/pace.c \
	scheduling/report.c \
	scheduling/state.c \
	scheduling/timer.c \
	waiting/park.c \
	waiting/park_pool.c \
	waiting/posted.c \
	wire/ah.c \
	wire/checksum.c \
	wire/frame_copy.c \
	wire/group.c \
	wire/icrc.c \
	wire/packet.c \
	)

$(eval $(call static_library,transport,$(transport_SRCS)))
