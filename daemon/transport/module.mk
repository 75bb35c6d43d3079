# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The transport engine as a static library, for the daemon, the simulation, the fuzzers and unit tests
transport_SRCS := $(addprefix daemon/transport/, \
	ah.c \
	build.c \
	bytes.c \
	checksum.c \
	completer.c \
	copy.c \
	cq.c \
	cq_event.c \
	crc.c \
	crc_change.c \
	early.c \
	ending.c \
	engine.c \
	execute.c \
	flow.c \
	frame_copy.c \
	gaps.c \
	group.c \
	guard.c \
	icrc.c \
	inject.c \
	integrity.c \
	key_wr.c \
	keys.c \
	loopback.c \
	loopback_ahead.c \
	loopback_posted.c \
	loopback_sends.c \
	loopback_show.c \
	loopback_stop.c \
	memory.c \
	modify.c \
	numbers.c \
	pace.c \
	packet.c \
	park.c \
	park_pool.c \
	permute.c \
	place_request.c \
	place_response.c \
	qp.c \
	rd.c \
	requester.c \
	resend.c \
	responder.c \
	responses.c \
	resume.c \
	rq.c \
	rtt.c \
	rx.c \
	schedule.c \
	signature.c \
	slots.c \
	sq.c \
	srq.c \
	step.c \
	step_read.c \
	step_write.c \
	timer.c \
	unreliable.c \
	usage.c \
	wr_kind.c \
	)

$(eval $(call static_library,transport,$(transport_SRCS)))
