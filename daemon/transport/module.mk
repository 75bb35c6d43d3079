# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The transport engine, as a library: the daemon, the simulation, fuzzers and unit tests link it.
transport_SRCS := $(addprefix daemon/transport/, \
	keys.c \
	memory.c \
	wire.c \
	)

$(eval $(call static_library,transport,$(transport_SRCS)))
