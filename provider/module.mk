# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
PROVIDER_SRCS := $(addprefix provider/,preload.c device.c paths.c context.c query.c connection.c shm.c pd.c \
	mr.c mw.c dv.c pool.c dm.c import.c advise.c maps.c adopt.c byway.c convert.c cq.c cq_ex.c qp.c qp_ex.c post.c srq.c \
	xrc.c ah.c events.c fork.c dlopen.c)

$(eval $(call shared_library,libxroce.so,$(PROVIDER_SRCS),provider/libxroce.map,-pthread -ldl))
PROGRAMS += $(BUILD)/libxroce.so

# For programs that dlopen() libibverbs: needs both, in this order
$(eval $(call shared_library,libxroce-dl.so,provider/facade.c,provider/facade.map,\
	-Wl$(comma)--no-as-needed $(BUILD)/libxroce.so -l:libibverbs.so.1))
$(BUILD)/libxroce-dl.so: $(BUILD)/libxroce.so
PROGRAMS += $(BUILD)/libxroce-dl.so
INSTALL += 644:$(BUILD)/libxroce-dl.so:$(PREFIX)/lib/xroce/libxroce-dl.so
