# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Each folder's module.mk lists names; the rules are all here. `make help` says
# what can be made. V=1 shows commands. Everything built lands in $(BUILD).

PREFIX ?= /usr/local
DESTDIR ?=
SANITIZE ?=
comma := ,
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

# `su` leaves root without them
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

VERSION := 0.1.0
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool
PKG_CONFIG ?= pkg-config

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
OPT ?= -O2 -g
CFLAGS ?=
ALL_CFLAGS = -std=gnu11 $(OPT) $(WARN) -Werror=implicit-function-declaration \
	-fno-strict-aliasing -fvisibility=hidden -D_GNU_SOURCE -DXR_VERSION='"$(VERSION)"' \
	-Iinclude -I. -I$(BUILD) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer$(if $(filter \
	thread,$(SANITIZE)), -Wno-tsan)) $(CFLAGS)
ALL_LDFLAGS = $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))')

.DEFAULT_GOAL := all
.SECONDEXPANSION:
.DELETE_ON_ERROR:
.PRECIOUS: $(BUILD)/%.bpf.o $(BUILD)/%.skel.h

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

# $(call suite,name,seconds allowed,command,what must be built first): selftests/README.md
define suite
SUITES += $(1)
SUITE_NEEDS_$(1) := $(4)
SUITE_LINE_$(1) := $(1)	$(2)	$(3)
endef

# $(call test_program,name,sources,static libraries,linker flags,seconds allowed): a C program
# that prints TAP, and the suite that runs it
define test_program
$(call program,selftests/$(1),$(2),$(3),$(4))
$(call suite,$(1),$(or $(5),60),$(BUILD)/selftests/$(1),$(BUILD)/selftests/$(1))
endef

# Another compiler, flag or version makes everything anew. A make below this one (tests of
# installing) must not differ.
export SANITIZE OPT CFLAGS LDFLAGS CC CLANG
flags = $(CC) $(CLANG) $(ALL_CFLAGS)
ifneq ($(filter-out clean help deps,$(or $(MAKECMDGOALS),all)),)
ifneq ($(file <$(BUILD)/flags),$(flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(flags))
endif
endif
$(BUILD)/flags:;

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $$(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/pic/%.o: %.c $(BUILD)/flags | $$(GENERATED)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/fuzz-obj/%.o: %.c $(BUILD)/flags | $$(GENERATED)
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

# What can be installed: mode:file:where
INSTALL :=
# Own folders, removed when empty
INSTALL_DIRS :=
INSTALL_NEEDS :=

define newline


endef

space := $(subst ,, )
source_of = $(patsubst $(BUILD)/obj/%.o,%.c,$(patsubst $(BUILD)/pic/%.o,%.c,$(patsubst \
	$(BUILD)/fuzz-obj/%.o,%.c,$(1))))
compile_command = {"directory": "$(CURDIR)", "file": "$(call source_of,$(1))",$(newline) \
	"command": "$(CC) $(subst ",\",$(ALL_CFLAGS)) -c $(call source_of,$(1))"}
compile_commands = $(subst }$(space){,}$(comma)$(newline){,$(foreach o,$(sort $(1)),$(call \
	compile_command,$(o))))

# ---- modules -------------------------------------------------------------------

# In the order in which their suites run: fast and low first
MODULES := bpf daemon/transport daemon daemon/cli provider packaging docs \
	$(addprefix selftests/,lint docs packaging unit bpf provider daemon sim fuzz e2e vm bench)
include $(wildcard $(addsuffix /module.mk,$(MODULES)))

# A minute of fuzzing, shared
ifneq ($(FUZZERS),)
$(eval $(call suite,fuzz,180,selftests/fuzz/run $(shell expr 60 / '(' $(words $(FUZZERS)) / 2 + 1 ')') \
	$(FUZZERS),$(FUZZERS)))
endif

.PHONY: all
all: $$(PROGRAMS) ## build the daemon, the command line tool and the provider

.PHONY: deps
deps: ## install the Debian packages that are missing (as root)
	$(Q)packaging/deps

# Packages may be new after deps, and modules ask pkg-config while they are read: hence a
# second make for what needs them.
.PHONY: check
check: deps ## run every test; T=name: one suite, one bats file or one test by its name
	$(Q)$(MAKE) --no-print-directory check-built

# With T, what its suites need; a name that is no suite's is looked for among bats tests.
named_suites = $(strip $(foreach s,$(SUITES),$(if $(findstring $(notdir $(patsubst %/,%,$(T:.bats=))),$(s)),$(s))))
wanted_suites = $(if $(T),$(or $(named_suites),$(filter e2e/%,$(SUITES))),$(SUITES))

.PHONY: tests
tests: all $$(foreach s,$$(SUITES),$$(SUITE_NEEDS_$$(s))) ## build every test, run none

.PHONY: check-built
check-built: all $$(foreach s,$$(wanted_suites),$$(SUITE_NEEDS_$$(s))) $(BUILD)/suites
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/run $(BUILD)/suites $(if $(T),'$(T)')

.PHONY: $(BUILD)/suites
$(BUILD)/suites:
	$(shell mkdir -p $(@D))
	$(file >$@,$(subst $(newline)$(space),$(newline),$(foreach s,$(SUITES),$(SUITE_LINE_$(s))$(newline))))
	@:

.PHONY: demo
demo: deps ## two hosts in network namespaces: every part shown at work (as root)
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/selftests/e2e/rdma_verify
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/demo.sh

.PHONY: bench
bench: deps ## throughput and latency against raw AF_XDP, TCP and memcpy (as root)
	$(Q)$(MAKE) --no-print-directory all bench-needs
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/bench/run

.PHONY: bench-needs
bench-needs: $$(BENCH_NEEDS)

# time for each fuzzer
SECONDS ?= 600
.PHONY: fuzz
fuzz: $$(FUZZERS) ## fuzz each parser of outside bytes for SECONDS=600, together
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/fuzz/run $(SECONDS) $^

.PHONY: install
install: all $$(INSTALL_NEEDS) ## install below DESTDIR and PREFIX (/usr/local)
	$(Q)set -e; for item in $(INSTALL); do \
		mode=$${item%%:*}; rest=$${item#*:}; \
		$(if $(V),set -x;) install -D -m $$mode $${rest%%:*} $(DESTDIR)$${rest#*:}; \
	done

.PHONY: uninstall
uninstall: ## remove what `make install` put there
	$(Q)set -e; for item in $(INSTALL); do rm -f $(DESTDIR)$${item##*:}; done
	$(Q)rmdir --ignore-fail-on-non-empty $(addprefix $(DESTDIR),$(INSTALL_DIRS)) 2>/dev/null || :

DEB = $(BUILD)/xroce_$(VERSION)_$(shell dpkg --print-architecture).deb
.PHONY: deb
deb: all ## a Debian package of what `make install` installs, below build/
	$(Q)rm -rf $(BUILD)/deb
	$(Q)$(MAKE) -s --no-print-directory install DESTDIR=$(BUILD)/deb PREFIX=/usr
	$(Q)packaging/deb $(BUILD)/deb $(VERSION) $(DEB)
	$(Q)rm -rf $(BUILD)/deb
	@echo $(DEB)

.PHONY: compile_commands.json
compile_commands.json: ## for clangd and clang-tidy
	$(file >$@,[$(call compile_commands,$(ALL_OBJS))])
	@:

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z_.-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | \
		awk -F'\t' '{printf "  make %-22s %s\n", $$1, $$2}'

.PHONY: clean
clean: ## remove everything built
	$(Q)rm -rf build build-* compile_commands.json

-include $(ALL_OBJS:.o=.d) $(wildcard $(BUILD)/*.bpf.d)
