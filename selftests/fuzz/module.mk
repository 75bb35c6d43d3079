# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
FUZZ_DIR := selftests/fuzz

$(eval $(call fuzzer,frame,$(FUZZ_DIR)/frame_fuzz.c \
	$(addprefix daemon/transport/,wire/checksum.c base/crc.c base/crc_change.c wire/icrc.c),-lisal -lz))

$(foreach f,engine ring,$(eval $(call fuzzer,$(f),$(FUZZ_DIR)/$(f)_fuzz.c \
	$(addprefix $(FUZZ_DIR)/,world.c queues.c changing.c tier.c) $(transport_SRCS),-lisal -lz -lpthread)))

$(foreach f,cm cm_mad,$(eval $(call fuzzer,$(f),$(FUZZ_DIR)/$(f)_fuzz.c $(cm_SRCS),)))

$(eval $(call fuzzer,options,$(FUZZ_DIR)/options_fuzz.c daemon/base/options.c,))

$(eval $(call fuzzer,http,$(FUZZ_DIR)/http_fuzz.c daemon/exporter/http.c,))

$(eval $(call fuzzer,capture,$(FUZZ_DIR)/capture_fuzz.c \
	$(addprefix daemon/cli/,capture_check.c capture_direct.c capture_print.c capture_ring.c capture_rings.c pcapng.c),))

$(eval $(call fuzzer,fault,$(FUZZ_DIR)/fault_fuzz.c $(faults_SRCS) $(fault_text_SRCS) \
	$(addprefix daemon/transport/,base/crc.c base/crc_change.c wire/frame_copy.c wire/icrc.c),-lisal -lz -lpthread))

$(eval $(call fuzzer,control,$(FUZZ_DIR)/control_fuzz.c $(FUZZ_DIR)/fake_device.c $(control_SRCS) \
	$(addprefix daemon/base/,fd_message.c loop.c log.c options.c process.c seccomp.c spawner.c) daemon/helper/execute.c \
	$(transport_SRCS) $(cm_SRCS),-lisal -lz -lpthread))

$(eval $(call fuzzer,helper,$(FUZZ_DIR)/helper_fuzz.c $(addprefix daemon/helper/,serve.c execute.c ring.c) \
	$(addprefix daemon/base/,fd_message.c groups.c log.c loop.c memory_file.c peer.c),-lpthread))

# Seeds that programs write, beside those in corpus/: all of frame, xdp and cm_mad, some of cm and control
$(eval $(call program,selftests/fuzz/seed_control,$(FUZZ_DIR)/seed_control.c,,))
$(FUZZ_SEEDS): $(BUILD)/selftests/fuzz/seed_control $(wildcard $(FUZZ_DIR)/seed_*.py selftests/pcaps/*.pcap)
	$(call say,SEEDS,$(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)/control
	$(Q)$(FUZZ_DIR)/seed_frames.py selftests/pcaps $(@D)
	$(Q)$(FUZZ_DIR)/seed_cm.py selftests/pcaps $(@D)
	$(Q)$< $(@D)/control
	$(Q)touch $@

# Seconds for each fuzzer
SECONDS ?= 600
.PHONY: fuzz
fuzz: $$(FUZZERS) $$(FUZZ_SEEDS) ## run all fuzzers for SECONDS=600 each
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/fuzz/run $(SECONDS) $(FUZZERS)

# Compares the BPF build and the user-space build of the checks. The fixture is that of the XDP tests.
$(BUILD)/fuzz/xdp: $(addprefix $(BUILD)/obj/selftests/bpf/,fixture.o)
$(eval $(call fuzzer,xdp,$(FUZZ_DIR)/xdp_fuzz.c selftests/bpf/tables.c $(verdict_SRCS),-lbpf -lpthread,root))
