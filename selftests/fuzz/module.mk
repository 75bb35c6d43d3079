# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
FUZZ_DIR := selftests/fuzz

$(eval $(call fuzzer,frame,$(FUZZ_DIR)/frame_fuzz.c daemon/transport/wire.c,-lisal))

$(foreach f,engine ring,$(eval $(call fuzzer,$(f),$(FUZZ_DIR)/$(f)_fuzz.c $(FUZZ_DIR)/world.c \
	$(transport_SRCS),-lisal -lpthread)))

$(eval $(call fuzzer,options,$(FUZZ_DIR)/options_fuzz.c daemon/options.c,))
