# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Each bats file is a suite. All of them need the same programs. Those in E2E_PARALLEL run beside each other: they use only the
# namespaces and folders of their own hosts, count no packets that a busy processor sends again, and measure no times. Of the
# others, one runs at a time, beside those and virtual machines, unless it measures processor time or delays (E2E_ALONE).
E2E_FILES := $(sort $(wildcard selftests/e2e/*.bats))
E2E_LONG := $(filter $(addprefix selftests/e2e/,39-limits-% 57-ceph.bats),$(E2E_FILES))
E2E_ALONE := $(addprefix selftests/e2e/,86-neighbours.bats 95-idle.bats)
E2E_PARALLEL := $(patsubst %,selftests/e2e/%.bats,00-smoke 10-pingpong 18-lend 18-lend-ring 19-direct-auto 19-direct-peers \
	19-direct-rdmacm 22-qperf 25-srq 26-xrc 30-verify 31-workloads 36-regions 37-direct 37-keys 37-late 40-protection \
	41-refusals 44-sysfs 46-ucx 47-libfabric 48-gloo 48-mpi 48-mpich 48-openshmem 49-dapl 49-rdmacm 49-rdmacm-daemons \
	49-rdmacm-last 49-rdmacm-many 49-rdmacm-options 49-rsockets 50-loss 52-faults-rdmacm 55-iser 57-fio 57-librpma \
	59-umad 88-tshark 90-same-host)
e2e_kind = $(if $(filter $1,$(E2E_PARALLEL)),parallel,$(if $(filter $1,$(E2E_ALONE)),,host)) root
E2E_NEEDS := $$(PROGRAMS) $(addprefix $(BUILD)/selftests/e2e/, \
	borrow borrow_ring hanging_fs hostile mad_flood rdma_channel rdma_cm_events rdma_cm_fork rdma_cm_full rdma_connect \
	rdma_cm_unread rdma_datagram rdma_direct rdma_events rdma_flush rdma_keys rdma_last rdma_late rdma_limits rdma_mad \
	rdma_memory rdma_migrate \
	rdma_neighbours rdma_notify rdma_opcodes rdma_privileges rdma_refusals rdma_srq rdma_threads rdma_unmap rdma_verify \
	rdma_watch rdma_xrc spoil_rings tcp_echo) $(addprefix $(BUILD)/bench/,alltoall block reply)

e2e_name = e2e/$(basename $(notdir $1))
$(foreach f,$(filter-out $(E2E_LONG),$(E2E_FILES)),$(eval \
	$(call suite,$(call e2e_name,$(f)),600,bats --tap $(f),$(E2E_NEEDS),$(call e2e_kind,$(f)))))
$(foreach f,$(E2E_LONG),$(eval \
	$(call suite,long/$(call e2e_name,$(f)),1200,bats --tap $(f),$(E2E_NEEDS),root long)))
# The same by UDP sockets: some files always, all others that do not set the way themselves in the long tests.
E2E_SOCKET := $(addprefix selftests/e2e/,00-smoke.bats 10-pingpong.bats 15-unreliable.bats 30-verify.bats 31-workloads.bats \
	40-protection.bats 49-rdmacm-options.bats 50-loss.bats 70-events.bats)
E2E_OWN_WAY := $(addprefix selftests/e2e/,12-anywhere.bats 13-doctor.bats 14-start.bats 16-interfaces.bats \
	17-ways.bats 18-lend.bats 18-lend-ring.bats 18-netem.bats 19-direct-auto.bats 19-direct-capture.bats \
	19-direct-peers.bats 19-direct-rdmacm.bats 19-direct-threads.bats 19-direct-users.bats 19-direct-verdict.bats \
	19-direct-view.bats 37-unmap.bats 59-kubernetes.bats 60-coexist.bats 61-other-xdp.bats 65-netdev.bats 65-queues.bats \
	66-gso.bats 66-many-queues.bats 67-one-namespace.bats)
socket_name = socket/$(basename $(notdir $1))
$(foreach f,$(E2E_SOCKET),$(eval \
	$(call suite,$(call socket_name,$(f)),600,XR_IO=socket bats --tap $(f),$(E2E_NEEDS),$(call e2e_kind,$(f)))))
$(foreach f,$(filter-out $(E2E_SOCKET) $(E2E_LONG) $(E2E_OWN_WAY),$(E2E_FILES)),$(eval \
	$(call suite,long/$(call socket_name,$(f)),900,XR_IO=socket bats --tap $(f),$(E2E_NEEDS),root long)))
# The same with direct contexts, whose engine runs in the program; without files in which all programs go the daemon's way
E2E_DIRECT := $(addprefix selftests/e2e/,26-xrc.bats 30-verify.bats 35-memory.bats 36-regions.bats 37-direct.bats \
	55-iser.bats 70-events.bats)
E2E_BY_DAEMON := $(addprefix selftests/e2e/,18-addresses.bats 85-observe.bats 85-probes.bats 86-neighbours.bats 98-demo.bats)
direct_name = direct/$(basename $(notdir $1))
$(foreach f,$(E2E_DIRECT),$(eval \
	$(call suite,$(call direct_name,$(f)),600,XR_PATH=direct bats --tap $(f),$(E2E_NEEDS),$(call e2e_kind,$(f)))))
$(foreach f,$(filter-out $(E2E_DIRECT) $(E2E_LONG) $(E2E_OWN_WAY) $(E2E_BY_DAEMON),$(E2E_FILES)),$(eval \
	$(call suite,long/$(call direct_name,$(f)),900,XR_PATH=direct bats --tap $(f),$(E2E_NEEDS),root long)))
$(eval $(call suite,long/e2e/80-leaks,1200,XR_SOAK=600 bats --tap --filter mixture selftests/e2e/80-leaks.bats,\
	$(E2E_NEEDS),root long))
$(eval $(call suite,long/e2e/49-rdmacm-many,3600,XR_CONNECTS=100000 bats --tap --filter killed \
	selftests/e2e/49-rdmacm-many.bats,$(E2E_NEEDS),root long))

$(eval $(call suite,long/e2e/55-iser,3000,XR_ISER_MIB=1024 bats --tap --filter reads.back selftests/e2e/55-iser.bats,\
	$(E2E_NEEDS),root long))

# Some files with programs whose engines have threads, under ThreadSanitizer. Another make builds for it, in the long tests only.
ifeq ($(SANITIZE),)
E2E_THREAD := $(addprefix selftests/e2e/,18-lend.bats 19-direct-threads.bats 19-direct-view.bats)
thread_build := $(BUILD)-thread
thread_name = long/thread/$(basename $(notdir $1))
$(foreach f,$(E2E_THREAD),$(eval $(call suite,$(call thread_name,$(f)),1200,\
	SANITIZE=thread XR_BUILD=$(abspath $(thread_build)) bats --tap $(f),thread-build,root long)))
.PHONY: thread-build
thread-build:
	$(Q)$(MAKE) --no-print-directory SANITIZE=thread BUILD=$(thread_build) all \
		$(addprefix $(thread_build)/selftests/e2e/,borrow rdma_keys rdma_limits rdma_threads rdma_verify)
endif

# $(call verbs_program,name,sources,linker flags): a verbs program of NAME*.c, verbs_util.c and other sources
verbs_program = $(call program,selftests/e2e/$1,$(wildcard selftests/e2e/$1*.c) \
	selftests/e2e/verbs_util.c $2,,-libverbs $3)
ENDPOINT := selftests/e2e/endpoint.c

# Transfers data by every operation; verifies every byte and every completion.
$(eval $(call verbs_program,rdma_verify))

# Registers every kind of memory.
$(eval $(call verbs_program,rdma_memory,$(ENDPOINT),-lpthread))

# Binds memory windows, invalidates and registers memory with work requests.
$(eval $(call verbs_program,rdma_keys,$(ENDPOINT),-ldl -lpthread))

# Looks for bytes of the peer after the right to the memory has ended.
$(eval $(call verbs_program,rdma_late,$(ENDPOINT),-ldl -lpthread))

# Uses direct verbs that kernel programs have.
$(eval $(call verbs_program,rdma_direct,$(ENDPOINT),-ldl))

# Watches a device while its network interface and its addresses change.
$(eval $(call verbs_program,rdma_watch,,-ldl))

# Flushes remote memory.
$(eval $(call verbs_program,rdma_flush))

# Accesses memory that it has unmapped.
$(eval $(call verbs_program,rdma_unmap,,-lpthread))

# Uses shared receive queues.
$(eval $(call verbs_program,rdma_srq))

# Posts and polls in several threads.
$(eval $(call verbs_program,rdma_threads,,-lpthread))

# Sends datagrams to one host and to multicast groups.
$(eval $(call verbs_program,rdma_datagram,,-ldl))

# Creates as many objects as the limits permit.
$(eval $(call verbs_program,rdma_limits))

# Causes the asynchronous events of queue pairs.
$(eval $(call verbs_program,rdma_events))

# Waits for the descriptor of a completion channel, then takes the event.
$(eval $(call verbs_program,rdma_channel,,-lpthread))

# Waits for completion events.
$(eval $(call verbs_program,rdma_notify,,-lpthread))

# Shares XRC domains.
$(eval $(call verbs_program,rdma_xrc))

# Prints the events of rdma_cm.
$(eval $(call verbs_program,rdma_cm_events,,-lrdmacm))
# Events of rdma_cm that the program does not read at once.
$(eval $(call verbs_program,rdma_cm_unread,,-lrdmacm))
$(eval $(call verbs_program,rdma_migrate,,-lrdmacm -lpthread))

# Connects by librdmacm before and after fork().
$(eval $(call verbs_program,rdma_cm_fork,,-lrdmacm))

# Has many ids of librdmacm.
$(eval $(call verbs_program,rdma_cm_full,,-lrdmacm))

# Connects by librdmacm many times and at the same time.
$(eval $(call verbs_program,rdma_connect,,-lrdmacm))

# Sends a message and ends its connection at once.
$(eval $(call verbs_program,rdma_last,,-lrdmacm))

# Makes calls that are refused, and checks the reasons.
$(eval $(call verbs_program,rdma_refusals))

# Gives up privileges before it opens the device.
$(eval $(call verbs_program,rdma_privileges))

# Sends and receives MADs by libibumad.
$(eval $(call verbs_program,rdma_mad,,-libumad))

# Sends every opcode.
$(eval $(call verbs_program,rdma_opcodes))

# Hostile clients of the daemon
$(eval $(call program,selftests/e2e/hostile,selftests/e2e/hostile.c selftests/e2e/hostile_client.c,,))

# Borrows slots.
$(eval $(call program,selftests/e2e/borrow,selftests/e2e/borrow.c selftests/e2e/hostile_client.c,,))
$(eval $(call program,selftests/e2e/borrow_ring,$(addprefix selftests/e2e/,borrow_ring.c hostile_client.c),,-lpthread))

# Borrows a slot, and spoils the rings of captures.
$(eval $(call program,selftests/e2e/spoil_rings,selftests/e2e/spoil_rings.c selftests/e2e/hostile_client.c,,))

# Floods QP 1 with MADs.
$(eval $(call program,selftests/e2e/mad_flood,selftests/e2e/mad_flood.c,transport,-lisal -lz))

# Exchanges data over TCP, or over rsockets with librspreload.
$(eval $(call program,selftests/e2e/tcp_echo,selftests/e2e/tcp_echo.c,,))

# A file system whose reads are never answered, and programs whose memory takes the daemon long
$(eval $(call program,selftests/e2e/hanging_fs,selftests/e2e/hanging_fs.c,,))
$(eval $(call verbs_program,rdma_neighbours,selftests/e2e/hostile_client.c,-lpthread))
