# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
BENCH_DIR := selftests/bench
BENCH_NEEDS := $(BUILD)/bench/xdp_ceiling $(BUILD)/bench/memcpy_rate

$(eval $(call program,bench/xdp_ceiling,$(BENCH_DIR)/xdp_ceiling.c,,-lxdp -lbpf))
$(eval $(call program,bench/memcpy_rate,$(BENCH_DIR)/memcpy_rate.c,,))
