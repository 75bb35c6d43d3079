# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Objects that include a skeleton wait for it.
GENERATED += $(BUILD)/xroce.skel.h $(BUILD)/iter.skel.h
# kept for bpftool and llvm-objdump
.SECONDARY: $(BUILD)/xroce.bpf.o $(BUILD)/iter.bpf.o
