# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

bpf_test_SRCS := $(addprefix selftests/bpf/, \
	test-bpf.c \
	fixture.c \
	frame.c \
	tables.c \
	opcodes.c \
	run.c \
	rows-network.c \
	rows-transport.c \
	rows-qp.c \
	rows-key.c \
	truncation.c \
	delivery.c \
	captures.c \
	iterators.c \
	live.c \
	filter.c \
	) $(verdict_SRCS) $(bpf_SRCS) $(addprefix daemon/base/,log.c loop.c)

$(eval $(call test_program,bpf,$(bpf_test_SRCS),transport,-lbpf -lxdp -lisal -lz,,parallel root))
