# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Distributions have folders of their own for libraries that programs are linked with, and for units.
LIBDIR ?= $(PREFIX)/lib
UNITDIR ?= $(PREFIX)/lib/systemd/system

UNIT := $(BUILD)/packaging/xroced@.service

$(UNIT): packaging/xroced@.service.in
	@mkdir -p $(@D)
	$(Q)sed 's|@SBINDIR@|$(PREFIX)/sbin|' $< >$@

METRICS_UNIT := $(BUILD)/packaging/xroce-metrics.service

$(METRICS_UNIT): packaging/xroce-metrics.service.in
	@mkdir -p $(@D)
	$(Q)sed 's|@BINDIR@|$(PREFIX)/bin|' $< >$@

PLUGIN_UNIT := $(BUILD)/packaging/xroce-device-plugin.service

$(PLUGIN_UNIT): packaging/kubernetes/xroce-device-plugin.service.in
	@mkdir -p $(@D)
	$(Q)sed 's|@LIBEXECDIR@|$(PREFIX)/libexec/xroce|' $< >$@

PKG_CONFIG_FILE := $(BUILD)/packaging/xroce.pc

$(PKG_CONFIG_FILE): packaging/xroce.pc.in
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' \
		-e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' $< >$@

# Always remade: they contain folders, which may differ from those of the last build.
.PHONY: $(UNIT) $(METRICS_UNIT) $(PLUGIN_UNIT) $(PKG_CONFIG_FILE)
INSTALL_NEEDS += $(UNIT) $(METRICS_UNIT) $(PLUGIN_UNIT) $(PKG_CONFIG_FILE)

# MODE:FILE:DESTINATION. xroce looks for the provider in ../lib/xroce, relative to its own directory.
INSTALL += \
	755:$(BUILD)/xroced:$(PREFIX)/sbin/xroced \
	755:$(BUILD)/xroce:$(PREFIX)/bin/xroce \
	644:$(BUILD)/libxroce.so:$(PREFIX)/lib/xroce/libxroce.so \
	644:$(UNIT):$(UNITDIR)/xroced@.service \
	644:$(METRICS_UNIT):$(UNITDIR)/xroce-metrics.service \
	644:packaging/xroce-metrics.socket:$(UNITDIR)/xroce-metrics.socket \
	755:packaging/kubernetes/xroce-device-plugin:$(PREFIX)/libexec/xroce/xroce-device-plugin \
	644:$(PLUGIN_UNIT):$(UNITDIR)/xroce-device-plugin.service \
	644:packaging/xroce.sysusers:$(PREFIX)/lib/sysusers.d/xroce.conf \
	644:packaging/example.conf:$(PREFIX)/share/doc/xroce/example.conf \
	644:packaging/dispatcher.conf:$(PREFIX)/share/doc/xroce/dispatcher.conf \
	644:packaging/grafana.json:$(PREFIX)/share/doc/xroce/grafana.json \
	644:LICENSE:$(PREFIX)/share/doc/xroce/LICENSE \
	644:packaging/xroce.bash-completion:$(PREFIX)/share/bash-completion/completions/xroce \
	644:packaging/xroced.bash-completion:$(PREFIX)/share/bash-completion/completions/xroced \
	644:docs/man/xroced.8:$(PREFIX)/share/man/man8/xroced.8 \
	644:docs/man/xroce.1:$(PREFIX)/share/man/man1/xroce.1 \
	644:docs/man/xrocedv.3:$(PREFIX)/share/man/man3/xrocedv.3 \
	644:$(PKG_CONFIG_FILE):$(LIBDIR)/pkgconfig/xroce.pc \
	644:include/infiniband/xrocedv.h:$(PREFIX)/include/infiniband/xrocedv.h
# For programs that are linked with the provider; the second one is for the linker.
INSTALL_LINKS += \
	$(shell realpath -m --relative-to=$(LIBDIR) $(PREFIX)/lib/xroce)/libxroce.so:$(LIBDIR)/libxroce.so.1 \
	libxroce.so.1:$(LIBDIR)/libxroce.so
INSTALL_DIRS += $(PREFIX)/lib/xroce $(PREFIX)/libexec/xroce $(PREFIX)/share/doc/xroce
