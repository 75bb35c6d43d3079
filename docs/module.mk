# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The example is linked like a program outside this tree.
$(eval $(call program,examples/fast_registration,docs/examples/fast_registration.c,,$(BUILD)/libxroce.so -libverbs))
$(BUILD)/examples/fast_registration: $(BUILD)/libxroce.so
PROGRAMS += $(BUILD)/examples/fast_registration
