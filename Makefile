# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Each folder's module.mk lists names; the rules are all here. `make help` says
# what can be made. V=1 shows commands. Everything built lands in $(BUILD).

PREFIX ?= /usr/local
DESTDIR ?=
SANITIZE ?=
comma := ,
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

VERSION := 0.1.0
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
OPT ?= -O2 -g
CFLAGS ?=
ALL_CFLAGS = -std=gnu11 $(OPT) $(WARN) -Werror=implicit-function-declaration \
	-fno-strict-aliasing -fvisibility=hidden -D_GNU_SOURCE -DXR_VERSION='"$(VERSION)"' \
	-Iinclude -I. -I$(BUILD) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer) $(CFLAGS)
ALL_LDFLAGS = $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))')

.DEFAULT_GOAL := all
.SECONDEXPANSION:
.DELETE_ON_ERROR:

# ---- rules ---------------------------------------------------------------------

objs = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
pic_objs = $(patsubst %.c,$(BUILD)/pic/%.o,$(1))

# $(call static_library,name,sources)
define static_library
$(BUILD)/lib$(1).a: $(call objs,$(2))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
ALL_OBJS += $(call objs,$(2))
endef

# $(call program,path below BUILD,sources,static libraries,linker flags)
define program
$(BUILD)/$(1): $(call objs,$(2)) $(foreach l,$(3),$(BUILD)/lib$(l).a)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(4)
ALL_OBJS += $(call objs,$(2))
endef

# $(call shared_library,name,sources,version script,linker flags)
define shared_library
$(BUILD)/$(1): $(call pic_objs,$(2)) $(3)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -shared -Wl,-soname,$(1) -Wl,--version-script=$(3) -o $$@ \
		$$(filter %.o,$$^) $(4)
ALL_OBJS += $(call pic_objs,$(2))
endef

# $(call fuzzer,name,sources,linker flags): libFuzzer with address and undefined sanitizers
define fuzzer
$(BUILD)/fuzz/$(1): $(patsubst %.c,$(BUILD)/fuzz-obj/%.o,$(2))
	@mkdir -p $$(@D)
	$$(call say,FUZZER,$$@)
	$$(Q)$$(CLANG) -fsanitize=fuzzer,address,undefined -o $$@ $$^ $(3)
ALL_OBJS += $(patsubst %.c,$(BUILD)/fuzz-obj/%.o,$(2))
FUZZERS += $(BUILD)/fuzz/$(1)
endef

$(BUILD)/obj/%.o: %.c | $$(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/pic/%.o: %.c | $$(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/fuzz-obj/%.o: %.c | $$(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CLANG) $(ALL_CFLAGS) -fsanitize=fuzzer-no-link,address,undefined \
		-fno-sanitize-recover=undefined -MMD -MP -c -o $@ $<

# BPF: NAME.bpf.c becomes NAME.bpf.o and NAME.skel.h
$(BUILD)/%.bpf.o: bpf/%.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter \
		-Iinclude -I$(BUILD) -I/usr/include/$(shell $(CC) -print-multiarch) \
		-MMD -MP -MT $@ -c -o $@ $<

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst .,_,$*)_bpf >$@

# ---- modules -------------------------------------------------------------------

include $(wildcard bpf/module.mk daemon/transport/module.mk daemon/module.mk provider/module.mk \
	selftests/*/module.mk packaging/module.mk docs/module.mk)

.PHONY: all
all: $$(PROGRAMS) ## build the daemon, the command line tool and the provider

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | \
		awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: clean
clean: ## remove everything built
	$(Q)rm -rf build build-*

-include $(ALL_OBJS:.o=.d) $(wildcard $(BUILD)/*.bpf.d)
