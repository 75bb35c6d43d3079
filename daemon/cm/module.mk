# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The CM engine as a static library, for the daemon, the simulation, the fuzzers and unit tests
cm_SRCS := $(addprefix daemon/cm/, \
	active.c \
	cm.c \
	destroy.c \
	disconnect.c \
	end.c \
	id.c \
	mad.c \
	mra.c \
	names.c \
	passive.c \
	reject.c \
	send.c \
	sidr.c \
	table.c \
	)

$(eval $(call static_library,cm,$(cm_SRCS)))
