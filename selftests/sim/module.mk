# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

sim_SRCS := $(addprefix selftests/sim/, \
	client.c \
	host.c \
	main.c \
	memory.c \
	net.c \
	plan.c \
	qp.c \
	script.c \
	srq.c \
	udp.c \
	unreliable.c \
	verify.c \
	) $(faults_SRCS) daemon/io/gso_run.c \
	$(addprefix daemon/udp/,receive.c send.c)

$(eval $(call program,sim,$(sim_SRCS),transport,-lisal -lz -libverbs -lpthread))
$(eval $(call suite,sim,600,$(BUILD)/sim -n 2000,$(BUILD)/sim,parallel))
$(eval $(call suite,long/sim,1800,$(BUILD)/sim -n 40000 -s 2001,$(BUILD)/sim,parallel long))

# Number of simulations and first seed
RUNS ?= 2000
SEED ?= 1

.PHONY: sim
sim: $(BUILD)/sim ## simulate hosts under faults; RUNS=2000 simulations from SEED=1
	$(Q)$< -n $(RUNS) -s $(SEED)

# Memory windows and fast registration: binding, use, invalidation
$(eval $(call test_program,sim/keys,selftests/sim/keys.c,transport,-lisal -lz -libverbs,300,parallel))

# Goodput under loss, reordering and overload
$(eval $(call test_program,sim/goodput,selftests/sim/goodput.c,transport,-lisal -lz -libverbs,300,parallel))
$(eval $(call suite,long/sim/goodput,1800,$(BUILD)/selftests/sim/goodput -n 120,$(BUILD)/selftests/sim/goodput,parallel long))

# Direct verbs: draining and RW contexts, the provider's code on a simulated engine in virtual time
direct_SRCS := $(addprefix selftests/sim/,direct.c direct_drain.c direct_host.c direct_rw.c) \
	$(addprefix provider/base/,debug.c environment.c) \
	$(addprefix provider/verbs/,ah.c channel_set.c cq.c cq_arm.c cq_members.c cq_poll.c nap.c pd.c post.c \
	qp.c srq.c) \
	$(addprefix provider/dv/,common.c drain.c fast_mr.c rw.c)
$(eval $(call test_program,sim/direct,$(direct_SRCS),transport,-lisal -lz -libverbs -lpthread \
	-Wl$(comma)--wrap=nanosleep$(comma)--wrap=clock_gettime,300,parallel))
