# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Examples, linked as programs outside of this tree are
$(eval $(call program,examples/fast_registration,docs/examples/fast_registration.c,,$(BUILD)/libxroce.so -libverbs))
$(BUILD)/examples/fast_registration: $(BUILD)/libxroce.so
PROGRAMS += $(BUILD)/examples/fast_registration
