# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The examples are linked like programs outside this tree.
EXAMPLES := $(addprefix $(BUILD)/examples/,fast_registration integrity rw_context)
$(foreach e,$(EXAMPLES),$(eval \
	$(call program,examples/$(notdir $e),docs/examples/$(notdir $e).c,,$(BUILD)/libxroce.so -libverbs)))
$(EXAMPLES): $(BUILD)/libxroce.so
PROGRAMS += $(EXAMPLES)
