# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Each bats file is a suite; all may use what E2E_NEEDS names.
E2E_FILES := $(sort $(wildcard selftests/e2e/*.bats))
E2E_NEEDS := $$(PROGRAMS) $(addprefix $(BUILD)/selftests/e2e/,rdma_verify rdma_memory rdma_keys rdma_watch rdma_srq rdma_xrc rdma_datagram rdma_limits rdma_events rdma_opcodes hostile)

$(foreach f,$(E2E_FILES),$(eval \
	$(call suite,e2e/$(basename $(notdir $(f))),240,bats --tap $(f),$(E2E_NEEDS))))

# Ordinary verbs programs: name, sources beside NAME*.c and the steps that all take, linker flags
verbs_program = $(call program,selftests/e2e/$1,$(wildcard selftests/e2e/$1*.c) \
	selftests/e2e/rdma_steps.c $2,,-libverbs $3)
RDMA_SIDE := selftests/e2e/rdma_side.c

# ... that verifies every byte and every completion
$(eval $(call verbs_program,rdma_verify))

# ... registers every kind of memory
$(eval $(call verbs_program,rdma_memory,$(RDMA_SIDE)))

# ... binds windows, invalidates and registers by work requests
$(eval $(call verbs_program,rdma_keys,$(RDMA_SIDE),-ldl -lpthread))

# ... watches a device while the world around it changes
$(eval $(call verbs_program,rdma_watch))

# ... sees what happens to shared receive queues
$(eval $(call verbs_program,rdma_srq))

# ... sends datagrams, to one and to many
$(eval $(call verbs_program,rdma_datagram,,-ldl))

# ... makes as much as there may be
$(eval $(call verbs_program,rdma_limits))

# ... raises the events of queue pairs
$(eval $(call verbs_program,rdma_events))

# ... shares domains of XRC
$(eval $(call verbs_program,rdma_xrc))

# ... sends every opcode
$(eval $(call verbs_program,rdma_opcodes))

# A client that wants no good
$(eval $(call program,selftests/e2e/hostile,selftests/e2e/hostile.c selftests/e2e/hostile_client.c,,))
