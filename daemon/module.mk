# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# the netdev, XDP and the workers
xroced_SRCS := $(addprefix daemon/, \
	main.c log.c loop.c notify.c options.c privileges.c \
	net.c resolve.c \
	xdp.c xsk.c worker.c bells.c held.c inbox.c fault.c)

# clients and their objects
server_SRCS := $(addprefix daemon/, \
	server.c client.c client_bells.c handles.c jobs.c shm.c events.c query.c show.c \
	pd.c import.c mr.c mw.c dm.c cq.c srq.c xrc.c qp.c ah.c mcast.c memory_tiers.c memory_on_demand.c \
	proc_maps.c guard.c)
xroced_SRCS += $(server_SRCS)

XROCED_LIBS := -lxdp -lbpf -lmnl -lisal -lcap -lpthread

$(eval $(call program,xroced,$(xroced_SRCS),transport,$(XROCED_LIBS)))
PROGRAMS += $(BUILD)/xroced
