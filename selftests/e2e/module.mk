# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Each bats file is a suite; all may use what E2E_NEEDS names.
E2E_FILES := $(sort $(wildcard selftests/e2e/*.bats))
E2E_NEEDS := $$(PROGRAMS) $(addprefix $(BUILD)/selftests/e2e/,rdma_verify rdma_memory rdma_keys rdma_watch rdma_srq rdma_xrc rdma_datagram rdma_limits rdma_events hostile)

$(foreach f,$(E2E_FILES),$(eval \
	$(call suite,e2e/$(basename $(notdir $(f))),240,bats --tap $(f),$(E2E_NEEDS))))

# An ordinary verbs program that verifies every byte and every completion
$(eval $(call program,selftests/e2e/rdma_verify,selftests/e2e/rdma_verify.c,,-libverbs))

# ... one that registers every kind of memory
$(eval $(call program,selftests/e2e/rdma_memory,$(wildcard selftests/e2e/rdma_memory*.c) selftests/e2e/rdma_side.c,,-libverbs))

# ... one that binds windows, invalidates and registers by work requests
$(eval $(call program,selftests/e2e/rdma_keys,selftests/e2e/rdma_keys.c selftests/e2e/rdma_side.c,,-libverbs -ldl))

# ... and one that watches a device while the world around it changes
$(eval $(call program,selftests/e2e/rdma_watch,selftests/e2e/rdma_watch.c,,-libverbs))

# ... one for what happens to shared receive queues
$(eval $(call program,selftests/e2e/rdma_srq,selftests/e2e/rdma_srq.c,,-libverbs))

# ... one that sends datagrams, to one and to many
$(eval $(call program,selftests/e2e/rdma_datagram,selftests/e2e/rdma_datagram.c,,-libverbs))

# ... one that makes as much as there may be
$(eval $(call program,selftests/e2e/rdma_limits,selftests/e2e/rdma_limits.c,,-libverbs))

# ... one that raises the events of queue pairs
$(eval $(call program,selftests/e2e/rdma_events,selftests/e2e/rdma_events.c,,-libverbs))

# ... and one for domains of XRC
$(eval $(call program,selftests/e2e/rdma_xrc,selftests/e2e/rdma_xrc.c,,-libverbs))

# ... and a client that wants no good
$(eval $(call program,selftests/e2e/hostile,selftests/e2e/hostile.c selftests/e2e/hostile_client.c,,))
