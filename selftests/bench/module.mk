# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
BENCH_DIR := selftests/bench
BENCH_NEEDS := $(addprefix $(BUILD)/bench/,xdp_ceiling floor floor_local memcpy_rate streams idle_qps life \
	regions reply block alltoall)

$(eval $(call suite,bench,30,selftests/bench/test_bench.py,,parallel))

$(eval $(call program,bench/xdp_ceiling,$(BENCH_DIR)/xdp_ceiling.c $(BENCH_DIR)/raw.c,,-lxdp -lbpf))
$(eval $(call program,bench/floor,$(addprefix $(BENCH_DIR)/,floor.c floor_frames.c floor_gso.c \
	floor_pingpong.c floor_repeat.c floor_socket.c floor_stream.c floor_words.c place.c raw.c),transport,\
	-lxdp -lbpf -lisal -lz))
$(call objs,$(BENCH_DIR)/place.c): | $(BUILD)/bench/place.skel.h
$(eval $(call program,bench/floor_local,$(BENCH_DIR)/floor_local.c $(BENCH_DIR)/raw.c,,-lxdp -lbpf))
$(eval $(call program,bench/memcpy_rate,$(BENCH_DIR)/memcpy_rate.c,,))

# Invalid packets, for selftests/bench/floods
FLOODS_NEEDS := $(addprefix $(BUILD)/bench/,flood victim xdp_ceiling)

$(eval $(call program,bench/flood,$(BENCH_DIR)/flood.c,,))

# Victims and bad neighbours, for selftests/bench/neighbours
NEIGHBOURS_NEEDS := $(BUILD)/bench/victim $(BUILD)/bench/neighbour
# For selftests/bench/pauses
PAUSES_NEEDS := $(BUILD)/bench/neighbour $(BUILD)/selftests/e2e/rdma_limits
PAIR_SRCS := $(BENCH_DIR)/pair.c selftests/e2e/verbs_util.c

$(eval $(call program,bench/streams,$(BENCH_DIR)/streams.c $(PAIR_SRCS),,-libverbs))
$(eval $(call program,bench/idle_qps,$(BENCH_DIR)/idle_qps.c selftests/e2e/verbs_util.c,,-libverbs))
$(eval $(call program,bench/life,$(BENCH_DIR)/life.c selftests/e2e/verbs_util.c,,-lrdmacm -libverbs -lpthread))
$(eval $(call program,bench/regions,$(BENCH_DIR)/regions.c selftests/e2e/verbs_util.c,,-libverbs))
$(eval $(call program,bench/victim,$(BENCH_DIR)/victim.c $(PAIR_SRCS),,-libverbs))
$(eval $(call program,bench/neighbour,$(BENCH_DIR)/neighbour.c $(PAIR_SRCS) selftests/e2e/hostile_client.c,,-libverbs -lpthread))

# The same work by verbs and by TCP, see workloads/side.h
WORKLOADS := $(BENCH_DIR)/workloads
SIDE_SRCS := $(addprefix $(WORKLOADS)/,side.c rc.c) selftests/e2e/verbs_util.c

$(eval $(call program,bench/reply,$(wildcard $(WORKLOADS)/reply*.c) $(SIDE_SRCS),transport,-libverbs -lisal -lz))
$(eval $(call program,bench/block,$(wildcard $(WORKLOADS)/block*.c) $(WORKLOADS)/stream.c $(SIDE_SRCS),,-libverbs))
$(eval $(call program,bench/alltoall,$(wildcard $(WORKLOADS)/alltoall*.c) $(WORKLOADS)/stream.c $(SIDE_SRCS),,-libverbs))
