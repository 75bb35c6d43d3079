# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

SKELETONS := $(addprefix $(BUILD)/,filter.skel.h gso.skel.h iter.skel.h xroce.skel.h)

# Keep the BPF objects for bpftool and llvm-objdump.
.SECONDARY: $(SKELETONS:.skel.h=.bpf.o)

# Sources that include a skeleton. In the first build the skeletons have to exist before these are compiled; later
# builds take this dependency from the compiler's dependency files.
$(call objs,$(addprefix daemon/bpf/,filter.c pins.c) daemon/xdp/xdp.c \
	$(addprefix selftests/bpf/,fixture.c iterators.c live.c)): | $(SKELETONS)
