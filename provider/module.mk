# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

PROVIDER_SRCS := \
	$(addprefix provider/control/,connection.c shm.c) \
	$(addprefix provider/memory/,adopt.c byway.c convert.c fork.c maps.c) \
	$(addprefix provider/verbs/, \
		advise.c ah.c context.c cq.c cq_ex.c dm.c dv.c events.c import.c mr.c mw.c pd.c pool.c \
		post.c qp.c qp_ex.c query.c srq.c xrc.c) \
	$(addprefix provider/preload/,device.c dlopen.c paths.c preload.c)

$(eval $(call shared_library,libxroce.so,$(PROVIDER_SRCS),provider/preload/libxroce.map,-pthread -ldl))
PROGRAMS += $(BUILD)/libxroce.so

# For programs that dlopen() libibverbs: needs both, in this order
$(eval $(call shared_library,libxroce-dl.so,provider/preload/facade.c,provider/preload/facade.map,\
	-Wl$(comma)--no-as-needed $(BUILD)/libxroce.so -l:libibverbs.so.1))
$(BUILD)/libxroce-dl.so: $(BUILD)/libxroce.so
PROGRAMS += $(BUILD)/libxroce-dl.so
INSTALL += 644:$(BUILD)/libxroce-dl.so:$(PREFIX)/lib/xroce/libxroce-dl.so
