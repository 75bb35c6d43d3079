# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Folders from the lowest level to the highest: docs/architecture.md
base_SRCS := $(addprefix daemon/base/,fd_message.c groups.c histogram.c jobs.c json.c landlock.c log.c loop.c \
	memory_file.c name_lock.c notify.c openmetrics.c options.c peer.c privileges.c process.c reaper.c seccomp.c spawner.c)
helper_SRCS := $(addprefix daemon/helper/,calls.c disconnect.c dreqs.c execute.c process.c ring.c serve.c solicit.c steer.c)
# The way of packets that a daemon takes by itself; also of xroce doctor
way_SRCS := $(addprefix daemon/way/,interface.c way.c)
netdev_SRCS := $(addprefix daemon/netdev/,gids.c net.c netlink.c resolve.c)
capture_SRCS := $(addprefix daemon/capture/,capture.c filter.c options.c ring.c taps.c)
faults_SRCS := $(addprefix daemon/faults/, \
	damage.c delay_queue.c fields.c mads.c packets.c requests.c rules.c turns.c when.c)
# Rules of faults as text
fault_text_SRCS := $(addprefix daemon/faults/text/,errors.c packets.c requests.c select.c text.c when.c words.c)
datapath_SRCS := $(addprefix daemon/datapath/, \
	doorbells.c grace.c inbox.c pause.c spin.c worker.c worker_capture.c worker_faults.c worker_idle.c \
	worker_lock.c worker_ops.c worker_self.c workers.c)
# The checks of packets in user space
verdict_SRCS := $(addprefix daemon/io/,hash.c memory_tables.c verdict.c)
io_SRCS := $(addprefix daemon/io/,gso_run.c worker_count.c) $(verdict_SRCS)
udp_SRCS := $(addprefix daemon/udp/,addresses.c calls.c lend.c receive.c send.c sockets.c udp_io.c udp_socket.c)
xdp_SRCS := $(addprefix daemon/xdp/,dispatcher.c gso.c gso_queue.c gso_send.c gso_split.c rx_depth.c xdp.c xdp_io.c xsk.c \
	xsk_queue.c xsk_receive.c xsk_send.c)
bpf_SRCS := $(addprefix daemon/bpf/,filter.c maps.c pins.c)
memory_SRCS := $(addprefix daemon/memory/, \
	file.c mapping.c mover.c mover_io.c mover_maps.c mover_process.c mover_staging.c on_demand.c private.c proc.c \
	proc_maps.c region.c sigbus.c)
gsi_SRCS := $(addprefix daemon/gsi/,gsi.c pma.c send.c)
clients_SRCS := $(addprefix daemon/clients/, \
	client.c client_jobs.c clients.c connection.c doorbells.c events.c gate.c gate_process.c \
	handles.c identity.c limits.c load.c monitor.c processes.c programs.c refuse.c reply.c shm.c trim.c unload.c walk.c)
objects_SRCS := $(addprefix daemon/objects/, \
	absent.c advise.c ah.c client_memory.c cq.c dm.c drain.c ending.c engine_events.c fast_mr.c import.c mcast.c mr.c \
	mr_register.c mw.c objects.c pd.c port.c posted.c qp.c qp_create.c qp_modify.c qp_monitor.c qp_remove.c qp_show.c \
	qp_traffic.c qp_windows.c queue_monitor.c resolve.c ring.c srq.c xrc.c xrc_target.c)
rdma_cm_SRCS := $(addprefix daemon/rdma_cm/, \
	address.c channel.c comm_est.c command.c connect.c early_replies.c faults.c id.c id_qp.c id_show.c listen.c \
	multicast.c port.c orphans.c query.c rdma_cm.c resolve.c timer.c)
umad_SRCS := $(addprefix daemon/umad/,agent.c file.c send.c)
server_SRCS := $(addprefix daemon/server/, \
	capture.c capture_direct.c claim.c counters.c direct_rules.c dispatch.c fault_times.c fault_verbs.c faults.c lend.c \
	metrics.c monitor.c publish.c query.c select.c server.c show.c show_cm.c \
	show_list.c view.c view_monitor.c)

# The part of the daemon that tests drive without a network interface
control_SRCS := $(addprefix daemon/base/,groups.c histogram.c jobs.c json.c memory_file.c openmetrics.c peer.c reaper.c) \
	daemon/helper/dreqs.c \
	$(capture_SRCS) $(faults_SRCS) $(fault_text_SRCS) \
	$(memory_SRCS) $(gsi_SRCS) $(clients_SRCS) $(objects_SRCS) $(rdma_cm_SRCS) $(umad_SRCS) $(server_SRCS)

xroced_SRCS := $(addprefix daemon/,choose_io.c main.c watchdog.c) $(base_SRCS) $(helper_SRCS) $(io_SRCS) \
	$(netdev_SRCS) $(way_SRCS) $(capture_SRCS) $(faults_SRCS) $(fault_text_SRCS) $(datapath_SRCS) \
	$(bpf_SRCS) $(udp_SRCS) $(xdp_SRCS) \
	$(memory_SRCS) $(gsi_SRCS) $(clients_SRCS) $(objects_SRCS) $(rdma_cm_SRCS) $(umad_SRCS) $(server_SRCS)

XROCED_LIBS := -lxdp -lbpf -lmnl -lisal -lz -lcap -lpthread

$(eval $(call program,xroced,$(xroced_SRCS),transport cm,$(XROCED_LIBS)))
PROGRAMS += $(BUILD)/xroced
