# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Metrics by HTTP
exporter_SRCS := $(addprefix daemon/exporter/,http.c listen.c scrape.c serve.c)

CLI_SRCS := $(addprefix daemon/cli/,main.c options.c client.c print.c filter.c show.c fault.c metrics.c monitor.c run.c) \
	$(addprefix daemon/cli/,environment.c env.c metrics_collect.c metrics_serve.c no_device.c start.c) \
	$(addprefix daemon/cli/doctor,.c _finding.c _interface.c _kernel.c _net.c _root.c _user.c) \
	$(addprefix daemon/cli/,top.c top_rates.c names.c values.c cdi.c rdma.c) \
	$(addprefix daemon/cli/,capture.c capture_check.c capture_direct.c capture_filter.c capture_output.c) \
	$(addprefix daemon/cli/,capture_print.c capture_ring.c capture_rings.c) \
	$(exporter_SRCS) daemon/base/loop.c daemon/cli/pcapng.c $(addprefix daemon/way/,interface.c way.c) \
	provider/base/environment.c $(addprefix provider/control/,connection.c path.c runtime_dir.c sockets.c visible.c)

$(eval $(call program,xroce,$(CLI_SRCS),,-ljansson -lz -ldl))
PROGRAMS += $(BUILD)/xroce

# The same program, under the name of a command of iproute2
$(BUILD)/programs/rdma: $(BUILD)/xroce
	@mkdir -p $(@D)
	$(Q)cp $< $@
PROGRAMS += $(BUILD)/programs/rdma
INSTALL += 755:$(BUILD)/programs/rdma:$(PREFIX)/lib/xroce/programs/rdma
INSTALL_DIRS += $(PREFIX)/lib/xroce/programs
