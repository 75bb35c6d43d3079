# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

UNIT := $(BUILD)/packaging/xroced@.service

$(UNIT): packaging/xroced@.service.in
	@mkdir -p $(@D)
	$(Q)sed 's|@SBINDIR@|$(PREFIX)/sbin|' $< >$@

# Always remade: it contains PREFIX, which may differ from that of the last build.
.PHONY: $(UNIT)
INSTALL_NEEDS += $(UNIT)

# MODE:FILE:DESTINATION. xroce looks for the provider in ../lib/xroce, relative to its own directory.
INSTALL += \
	755:$(BUILD)/xroced:$(PREFIX)/sbin/xroced \
	755:$(BUILD)/xroce:$(PREFIX)/bin/xroce \
	644:$(BUILD)/libxroce.so:$(PREFIX)/lib/xroce/libxroce.so \
	644:$(UNIT):$(PREFIX)/lib/systemd/system/xroced@.service \
	644:packaging/xroce.sysusers:$(PREFIX)/lib/sysusers.d/xroce.conf \
	644:packaging/example.conf:$(PREFIX)/share/doc/xroce/example.conf \
	644:LICENSE:$(PREFIX)/share/doc/xroce/LICENSE \
	644:packaging/xroce.bash-completion:$(PREFIX)/share/bash-completion/completions/xroce \
	644:docs/man/xroced.8:$(PREFIX)/share/man/man8/xroced.8 \
	644:docs/man/xroce.1:$(PREFIX)/share/man/man1/xroce.1 \
	644:docs/man/xrocedv.3:$(PREFIX)/share/man/man3/xrocedv.3 \
	644:include/infiniband/xrocedv.h:$(PREFIX)/include/infiniband/xrocedv.h
INSTALL_DIRS += $(PREFIX)/lib/xroce $(PREFIX)/share/doc/xroce
