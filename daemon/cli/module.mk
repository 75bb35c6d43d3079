# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

CLI_SRCS := $(addprefix daemon/cli/,main.c client.c print.c show.c fault.c run.c) \
	$(addprefix provider/control/,connection.c sockets.c)

$(eval $(call program,xroce,$(CLI_SRCS),,-ljansson))
PROGRAMS += $(BUILD)/xroce
