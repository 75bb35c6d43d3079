# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The transport engine, as a library: the daemon, the simulation, fuzzers and unit tests link it.
transport_SRCS := $(addprefix daemon/transport/, \
	ah.c \
	answers.c \
	binding.c \
	build.c \
	copy.c \
	cq.c \
	engine.c \
	group.c \
	keys.c \
	local.c \
	memory.c \
	modify.c \
	numbers.c \
	pace.c \
	qp.c \
	requester.c \
	responder.c \
	response.c \
	rq.c \
	sq.c \
	srq.c \
	timer.c \
	unreliable.c \
	wire.c \
	)

$(eval $(call static_library,transport,$(transport_SRCS)))
