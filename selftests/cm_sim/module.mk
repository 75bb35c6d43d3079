# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

cm_sim_SRCS := $(addprefix selftests/cm_sim/, \
	host.c \
	main.c \
	memory.c \
	net.c \
	plan.c \
	program.c \
	verify.c \
	)

# memory.c counts the blocks.
$(eval $(call program,cm_sim,$(cm_sim_SRCS),cm,$(addprefix -Wl$(comma)--wrap=,malloc calloc realloc free)))
$(eval $(call suite,cm-sim,360,$(BUILD)/cm_sim -n 25000,$(BUILD)/cm_sim,parallel))
$(eval $(call suite,long/cm-sim,1800,$(BUILD)/cm_sim -n 1000000 -s 25001,$(BUILD)/cm_sim,parallel long))

.PHONY: cm-sim
cm-sim: $(BUILD)/cm_sim ## simulate hosts that connect under faults; RUNS=2000 simulations from SEED=1
	$(Q)$< -n $(RUNS) -s $(SEED)
