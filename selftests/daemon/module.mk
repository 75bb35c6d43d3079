# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Parts of the daemon that need no network: selftests/daemon/NAME_test.c and the sources that it tests
DAEMON_TESTS := options log loop histogram programs doorbells delay rx_depth spin seccomp spawner steer \
	mover mover_order helper worker_lock grace openmetrics scrape

options_test_SRCS := daemon/base/options.c
log_test_SRCS := daemon/base/log.c daemon/base/loop.c
loop_test_SRCS := daemon/base/loop.c
histogram_test_SRCS := daemon/base/histogram.c
programs_test_SRCS := daemon/clients/programs.c
doorbells_test_SRCS := daemon/datapath/doorbells.c
rx_depth_test_SRCS := daemon/xdp/rx_depth.c
spin_test_SRCS := daemon/datapath/spin.c
delay_test_SRCS := daemon/faults/delay_queue.c daemon/transport/wire/frame_copy.c
seccomp_test_SRCS := $(addprefix daemon/base/,landlock.c seccomp.c)
spawner_test_SRCS := $(addprefix daemon/base/,fd_message.c log.c loop.c privileges.c process.c seccomp.c \
	spawner.c)
spawner_test_LIBS := -lcap
steer_test_SRCS := daemon/helper/steer.c daemon/base/log.c daemon/base/loop.c
steer_test_LIBS := -Wl$(comma)--wrap=ioctl
mover_test_SRCS := $(addprefix daemon/base/,fd_message.c log.c loop.c privileges.c process.c reaper.c \
	seccomp.c spawner.c) \
	$(addprefix daemon/memory/,mover.c mover_io.c mover_maps.c mover_process.c mover_staging.c proc.c proc_maps.c)
mover_test_LIBS := -lcap
mover_order_test_SRCS := $(mover_test_SRCS)
mover_order_test_LIBS := -lcap -Wl$(comma)--wrap=pwrite,--wrap=pwritev
openmetrics_test_SRCS := $(addprefix daemon/base/,histogram.c openmetrics.c)
scrape_test_SRCS := $(exporter_SRCS) daemon/base/loop.c
scrape_test_LIBS := -Wl$(comma)--wrap=xd_now
grace_test_SRCS := daemon/datapath/grace.c
worker_lock_test_SRCS := daemon/datapath/worker_lock.c
worker_lock_test_LIBS := -Wl$(comma)--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock
helper_test_SRCS := $(helper_SRCS) $(addprefix daemon/base/,fd_message.c groups.c log.c loop.c memory_file.c \
	name_lock.c peer.c privileges.c process.c seccomp.c)
helper_test_STATIC := transport
helper_test_LIBS := -lcap -lmnl -lisal -lz

$(foreach t,$(DAEMON_TESTS),$(eval \
	$(call test_program,daemon/$(t),selftests/daemon/$(t)_test.c $($(t)_test_SRCS),$($(t)_test_STATIC),\
	-lpthread $($(t)_test_LIBS),,$(if $(filter spin,$(t)),,parallel))))

$(eval $(call suite,long/daemon/mover_order,600,$(BUILD)/selftests/daemon/mover_order 10000000,\
	$(BUILD)/selftests/daemon/mover_order,long))

# `xroce doctor`, with files of the test
$(eval $(call test_program,daemon/doctor,selftests/daemon/doctor_test.c provider/base/environment.c \
	$(addprefix daemon/cli/doctor,.c _finding.c _interface.c _kernel.c _net.c _root.c _user.c) \
	$(addprefix provider/control/,runtime_dir.c sockets.c) $(way_SRCS),,-ljansson -lz -ldl,30,parallel))

# State of a network interface from rtnetlink, in network namespaces of its own
$(eval $(call test_program,daemon/net,selftests/daemon/net_test.c $(netdev_SRCS) \
	daemon/base/loop.c daemon/base/log.c daemon/helper/solicit.c,,-lmnl -lpthread,,root))

# The real server with a fake device and fake clients
control_LIB := selftests/daemon/control.c selftests/fuzz/fake_device.c $(control_SRCS) \
	$(addprefix daemon/base/,fd_message.c loop.c log.c options.c process.c seccomp.c spawner.c) daemon/helper/execute.c
control_LIBS := -lisal -lz -lpthread -Wl$(comma)--wrap=xt_mem_io_done
$(foreach t,control burden monitor qp srq gsi umad regions tiers dm import keys cm view,$(eval $(call \
	test_program,daemon/$(t),selftests/daemon/$(t)_test.c $(control_LIB),transport cm,$(control_LIBS),,parallel \
	$(if $(filter tiers,$(t)),root))))

# Reads lists as JSON
$(eval $(call test_program,daemon/show,selftests/daemon/show_test.c $(control_LIB),transport cm,$(control_LIBS) \
	-ljansson,,parallel))

# Counts how often the rules of time are looked at
$(eval $(call test_program,daemon/faults,selftests/daemon/faults_test.c $(control_LIB),transport cm,$(control_LIBS) \
	-Wl$(comma)--wrap=xd_faults_tick,,parallel))

# The linker redirects these functions to wrappers in the test, which make calls fail.
scarcity_WRAPS := malloc calloc realloc mmap eventfd memfd_create ftruncate socketpair socket shutdown open_memstream \
	fopen getrandom pwrite pread pthread_create epoll_ctl open
$(eval $(call test_program,daemon/scarcity,selftests/daemon/scarcity_test.c $(control_LIB),transport cm,$(control_LIBS) \
	$(addprefix -Wl$(comma)--wrap=,$(scarcity_WRAPS)),,parallel))

# Clients of any user
$(eval $(call test_program,daemon/users,selftests/daemon/users_test.c $(control_LIB),transport cm,$(control_LIBS) \
	-Wl$(comma)--wrap=xd_identity_open -Wl$(comma)--wrap=syscall,,parallel))

# Steps of pauses; the functions of fake_device.c that pause and resume are redirected to the test.
pauses_WRAPS := xd_worker_pause xd_worker_resume \
	xd_worker_resume_no_wake xd_worker_resume_if_due malloc calloc realloc
pauses_COUNTED := $(clients_SRCS) $(objects_SRCS) $(transport_SRCS)
$(eval $(call steps_test,daemon/pauses,selftests/daemon/pauses_test.c $(filter-out $(pauses_COUNTED),$(control_LIB)) $(cm_SRCS),\
	$(pauses_COUNTED),$(control_LIBS) $(addprefix -Wl$(comma)--wrap=,$(pauses_WRAPS)),parallel))

# Steps of turns of the event loop
turns_COUNTED := $(addprefix daemon/base/,jobs.c loop.c) $(clients_SRCS) $(objects_SRCS) $(rdma_cm_SRCS) $(cm_SRCS) \
	$(gsi_SRCS) $(umad_SRCS) $(server_SRCS)
$(eval $(call steps_test,daemon/turns,selftests/daemon/turns_test.c $(filter-out $(turns_COUNTED),$(control_LIB)) \
	$(transport_SRCS),$(turns_COUNTED),$(control_LIBS),parallel))
