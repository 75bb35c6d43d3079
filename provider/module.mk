# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
PROVIDER_SRCS := $(addprefix provider/,preload.c device.c context.c connection.c shm.c pd.c mr.c \
	maps.c adopt.c convert.c cq.c qp.c post.c ah.c events.c fork.c)

$(eval $(call shared_library,libxroce.so,$(PROVIDER_SRCS),provider/libxroce.map,-pthread -ldl))
PROGRAMS += $(BUILD)/libxroce.so
