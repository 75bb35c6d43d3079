# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
FUZZ_DIR := selftests/fuzz

$(eval $(call fuzzer,frame,$(FUZZ_DIR)/frame_fuzz.c daemon/transport/wire.c,-lisal))
