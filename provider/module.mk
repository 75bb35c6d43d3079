# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

PROVIDER_SRCS := \
	$(addprefix provider/base/,debug.c environment.c fault_signals.c libibverbs.c) \
	$(addprefix provider/control/,cm_path.c connection.c path.c runtime_dir.c shm.c sockets.c visible.c) \
	$(addprefix provider/memory/, \
		adopt.c convert.c discard.c interval.c layout.c map_budget.c own_memory.c page_file.c proc_maps.c tiers.c) \
	$(addprefix provider/verbs/, \
		advise_mr.c ah.c async_event.c buf.c channel_set.c child.c comp_channel.c context.c context_alloc.c cq.c \
		cq_arm.c cq_ex.c cq_members.c cq_pause.c cq_poll.c device.c direct_path.c dm.c event_socket.c faults.c mr.c mw.c \
		nap.c others.c pd.c post.c qp.c qp_ex.c query.c request.c srq.c token_file.c xrc.c) \
	$(addprefix provider/dv/,common.c drain.c dv.c fast_mr.c integrity.c pool.c rw.c) \
	$(addprefix provider/cm/, \
		bind.c cm.c command.c early_events.c early_replies.c event.c ids.c numbers.c refresh.c source.c table.c umad.c \
		watch.c) \
	$(addprefix provider/preload/, \
		dirs.c dlopen.c files.c madvise.c mremap.c next.c path_calls.c paths.c preload.c privileges.c signals.c tree.c \
		umad_number.c values.c)

$(eval $(call shared_library,libxroce.so,$(PROVIDER_SRCS),provider/preload/libxroce.map,-pthread -ldl,\
	libxroce.so.1))
PROGRAMS += $(BUILD)/libxroce.so

# The name by which linked programs find the library
$(BUILD)/libxroce.so.1: $(BUILD)/libxroce.so
	$(Q)ln -sf $(<F) $@
PROGRAMS += $(BUILD)/libxroce.so.1

# The transport in the program, which libxroce.so loads for direct contexts
HOST_SRCS := $(addprefix provider/host/, \
		ah.c captures.c channel.c clock.c comp_events.c cover.c cq.c daemon_end.c dm.c engine_ops.c events.c \
		fast_mr.c fault_requests.c faults.c host.c inbox.c local.c mcast.c memfd.c mr.c mw.c objects.c page.c pd.c \
		peers.c populate.c port.c progress.c program_exit.c publish.c qp.c reader.c reply.c ring.c rounds.c srq.c \
		view.c wake.c xrc.c) \
	$(transport_SRCS) \
	$(capture_SRCS) $(faults_SRCS) $(fault_text_SRCS) \
	$(addprefix daemon/io/,gso_run.c hash.c memory_tables.c verdict.c) \
	$(addprefix daemon/udp/,calls.c receive.c send.c udp_socket.c)
$(eval $(call shared_library,libxroce-direct.so,$(HOST_SRCS),provider/host/libxroce-direct.map,\
	-Wl$(comma)-z$(comma)defs -pthread -lisal -lz))
PROGRAMS += $(BUILD)/libxroce-direct.so
INSTALL += 644:$(BUILD)/libxroce-direct.so:$(PREFIX)/lib/xroce/libxroce-direct.so

# For programs that dlopen() libibverbs. It depends on libxroce.so and libibverbs.so.1, in this order.
$(eval $(call shared_library,libxroce-dl.so,provider/preload/dl_stub.c,provider/preload/dl_stub.map,\
	-Wl$(comma)--no-as-needed $(BUILD)/libxroce.so -l:libibverbs.so.1))
$(BUILD)/libxroce-dl.so: $(BUILD)/libxroce.so
PROGRAMS += $(BUILD)/libxroce-dl.so
INSTALL += 644:$(BUILD)/libxroce-dl.so:$(PREFIX)/lib/xroce/libxroce-dl.so
