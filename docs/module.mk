# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# The examples are linked like programs outside this tree.
EXAMPLES := $(addprefix $(BUILD)/examples/,fast_registration integrity rw_context)
$(foreach e,$(EXAMPLES),$(eval \
	$(call program,examples/$(notdir $e),docs/examples/$(notdir $e).c,,$(BUILD)/libxroce.so -libverbs)))
$(EXAMPLES): $(BUILD)/libxroce.so
PROGRAMS += $(EXAMPLES)

# The man pages refer to these documents, which refer to one another.
DOCUMENTS := README.md SECURITY.md $(wildcard docs/*.md docs/*.svg) \
	$(filter-out %/two-hosts,$(wildcard docs/examples/*))
INSTALL += $(foreach d,$(DOCUMENTS),644:$(d):$(PREFIX)/share/doc/xroce/$(d)) \
	755:docs/examples/two-hosts:$(PREFIX)/share/doc/xroce/docs/examples/two-hosts
INSTALL_DIRS += $(addprefix $(PREFIX)/share/doc/xroce/,docs/examples docs)
