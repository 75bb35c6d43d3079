# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

xroced_SRCS := \
	$(addprefix daemon/,main.c log.c loop.c notify.c options.c privileges.c) \
	$(addprefix daemon/netdev/,net.c resolve.c) \
	$(addprefix daemon/datapath/,xdp.c xsk.c worker.c worker_idle.c worker_ops.c spin.c bells.c held.c inbox.c fault.c)

# clients and their objects, which tests drive without a netdev
server_SRCS := \
	$(addprefix daemon/server/, \
		server.c client.c request.c client_bells.c handles.c jobs.c shm.c events.c query.c show.c \
		show_objects.c json.c) \
	$(addprefix daemon/objects/, \
		pd.c import.c mr.c fast_mr.c pin.c mw.c lkey.c dm.c cq.c srq.c xrc.c qp.c ah.c mcast.c) \
	$(addprefix daemon/memory/,tiers.c on_demand.c proc_maps.c guard.c)
xroced_SRCS += $(server_SRCS)

XROCED_LIBS := -lxdp -lbpf -lmnl -lisal -lcap -lpthread

$(eval $(call program,xroced,$(xroced_SRCS),transport,$(XROCED_LIBS)))
PROGRAMS += $(BUILD)/xroced
