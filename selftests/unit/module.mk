# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Each name is a program: selftests/unit/NAME_test.c, linked with the transport library.
UNIT_TESTS := psn loss sent place place_order flow keys memory order order_tiers ending waiting posted posted_ud \
	peer_stops wire cq ack states replay last protocol peers local unreliable srq xrc pace binding fast crc integrity \
	inject usage large

binding_test_SRCS := selftests/unit/binding.c
fast_test_SRCS := selftests/unit/binding.c
integrity_test_SRCS := selftests/unit/binding.c
usage_test_SRCS := selftests/unit/binding.c

unit_LIBS := -lisal -lz -libverbs -lpthread

$(foreach t,$(UNIT_TESTS),$(eval \
	$(call test_program,unit/$(t),selftests/unit/$(t)_test.c $($(t)_test_SRCS),transport,$(unit_LIBS),,parallel)))

$(eval $(call suite,long/unit/order,600,$(BUILD)/selftests/unit/order 10000000,$(BUILD)/selftests/unit/order,\
	parallel long))

CM_TESTS := cm cm_mad cm_peers cm_replay cm_scale
$(foreach t,$(CM_TESTS),$(eval \
	$(call test_program,unit/$(t),selftests/unit/$(t)_test.c,cm,,,parallel)))
$(eval $(call program,selftests/unit/cm_pcap,selftests/unit/cm_pcap.c,cm,))
$(eval $(call suite,unit/cm_tshark,180,selftests/unit/cm_tshark $(BUILD)/selftests/unit/cm_pcap,\
	$(BUILD)/selftests/unit/cm_pcap,parallel))
$(eval $(call test_program,unit/fault,selftests/unit/fault_test.c $(faults_SRCS) $(fault_text_SRCS),transport,\
	-lisal -lz -lpthread,,parallel))
$(eval $(call test_program,unit/capture,selftests/unit/capture_test.c $(capture_SRCS) \
	$(addprefix daemon/cli/capture_,check.c direct.c filter.c ring.c rings.c) \
	$(addprefix daemon/cli/,names.c options.c pcapng.c),,-ljansson,,parallel))
$(eval $(call test_program,unit/capture_direct,selftests/unit/capture_direct_test.c $(capture_SRCS) \
	$(addprefix daemon/cli/capture_,check.c direct.c ring.c rings.c) daemon/cli/pcapng.c,,,,parallel))
$(eval $(call test_program,unit/gso,selftests/unit/gso_test.c daemon/io/gso_run.c \
	$(addprefix daemon/xdp/,gso.c gso_queue.c gso_send.c gso_split.c) daemon/transport/wire/checksum.c,,,,parallel))
$(eval $(call test_program,unit/pma,selftests/unit/pma_test.c daemon/gsi/pma.c,,,,parallel))
$(eval $(call test_program,unit/interval,selftests/unit/interval_test.c provider/memory/interval.c,,,,parallel))
$(eval $(call test_program,unit/nap,selftests/unit/nap_test.c provider/verbs/nap.c,,,,parallel))

.PHONY: unit
unit: $(addprefix $(BUILD)/selftests/unit/,$(UNIT_TESTS) $(CM_TESTS)) ## run the unit tests
unit: $(addprefix $(BUILD)/selftests/unit/,capture capture_direct channel cover fault gso inbox interval nap pma reader \
	udp way)
	$(Q)for t in $^; do echo "# $$t"; $$t || exit 1; done
$(eval $(call test_program,unit/hash,selftests/unit/hash_test.c daemon/io/hash.c,,-lpthread,,parallel))
# The frames and tables of selftests/bpf, without its programs
$(eval $(call test_program,unit/verdict,selftests/unit/verdict_test.c $(verdict_SRCS) $(addprefix selftests/bpf/,frame.c \
	tables.c rows-network.c rows-transport.c rows-qp.c rows-key.c),,-lpthread,,parallel))
# Sockets of two workers, with the tables that the control thread changes
$(eval $(call test_program,unit/udp_workers,selftests/unit/udp_workers_test.c $(io_SRCS) daemon/base/privileges.c \
	$(addprefix daemon/udp/,calls.c receive.c send.c sockets.c udp_socket.c) $(addprefix selftests/bpf/,frame.c tables.c), \
	transport,-lcap -lisal -lz -lpthread,60,parallel))
$(eval $(call test_program,unit/slot_socket,selftests/unit/slot_socket_test.c daemon/base/privileges.c daemon/udp/sockets.c,,\
	-lcap,,parallel))
# Sockets above a kernel that only notes what it is given
$(eval $(call test_program,unit/udp,selftests/unit/udp_test.c daemon/io/gso_run.c $(addprefix daemon/base/,log.c loop.c) \
	$(addprefix daemon/udp/,receive.c send.c udp_socket.c),transport,-lisal -lz,,parallel))
$(eval $(call test_program,unit/inbox,selftests/unit/inbox_test.c $(addprefix provider/host/,inbox.c memfd.c),,,,parallel))
$(eval $(call test_program,unit/cover,selftests/unit/cover_test.c provider/host/cover.c,,-lpthread,,parallel))
$(eval $(call test_program,unit/way,selftests/unit/way_test.c $(way_SRCS),,,,parallel))
$(eval $(call test_program,unit/reader,selftests/unit/reader_test.c provider/host/reader.c,,-lpthread,,parallel))
$(eval $(call test_program,unit/channel,selftests/unit/channel_test.c $(addprefix provider/host/,channel.c \
	comp_events.c reader.c),,-lpthread,,parallel))
