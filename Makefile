# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The module.mk of each folder lists sources and tests; all rules are in this file.
# `make help` lists the targets. V=1 shows the commands. All output goes to $(BUILD).

PREFIX ?= /usr/local
DESTDIR ?=
SANITIZE ?=
comma := ,
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

# `su` without `-` does not add these to root's PATH.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

VERSION := 0.1.0
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
OPT ?= -O2 -g
CFLAGS ?=
# The flags of dpkg-buildflags with hardening=+all. The sanitizers check the same functions as
# _FORTIFY_SOURCE, which needs optimization. selftests/packaging/hardening.bats checks the result.
HARDEN := -fstack-protector-strong -fstack-clash-protection
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
HARDEN += -fcf-protection
endif
# GCC copies and clears structures on x86 by rep movs and rep stos, which take some 10 ns to start.
TUNE := $(shell t=unrolled_loop:256:noalign,libcall:-1:noalign; \
	o="-mmemcpy-strategy=$$t -mmemset-strategy=$$t"; \
	$(CC) $$o -E -x c /dev/null >/dev/null 2>&1 && echo $$o)
ifeq ($(SANITIZE)$(filter -O0,$(OPT) $(CFLAGS)),)
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
ALL_CFLAGS = -std=gnu11 $(OPT) $(WARN) -Werror=implicit-function-declaration $(HARDEN) $(FORTIFY) \
	-fno-strict-aliasing -fvisibility=hidden -D_GNU_SOURCE -DXR_VERSION='"$(VERSION)"' \
	-Iinclude -I. -I$(BUILD) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer$(if $(filter \
	thread,$(SANITIZE)), -Wno-tsan)) $(CFLAGS)
ALL_LDFLAGS = -Wl,-z,relro,-z,now,-z,noexecstack $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

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
	$$(Q)$$(CC) -fPIE -pie $$(ALL_LDFLAGS) -o $$@ $$^ $(4)
ALL_OBJS += $(call objs,$(2))
endef

# $(call shared_library,name,sources,version script,linker flags,soname); the soname is the name by default
define shared_library
$(BUILD)/$(1): $(call pic_objs,$(2)) $(3)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -shared -Wl,-soname,$(or $(strip $(5)),$(1)) -Wl,--version-script=$(3) -o $$@ \
		$$(filter %.o,$$^) $(4)
ALL_OBJS += $(call pic_objs,$(2))
endef

# $(call fuzzer,name,sources,linker flags,kind): a libFuzzer target with the address and undefined
# sanitizers, and two suites that run it: FUZZ_SECONDS in `make check`, 10 minutes in `make check-long`
# They are left out with SANITIZE=thread, which cannot be combined with the address sanitizer.
FUZZ_SECONDS ?= 10
FUZZ_SEEDS := $(BUILD)/fuzz/seeds/made
ifeq ($(filter thread,$(SANITIZE)),)
define fuzzer
$(BUILD)/fuzz/$(1): $(patsubst %.c,$(BUILD)/fuzz-obj/%.o,$(2))
	@mkdir -p $$(@D)
	$$(call say,FUZZER,$$@)
	$$(Q)$$(CLANG) -fsanitize=fuzzer,address,undefined -o $$@ $$^ $(3)
ALL_OBJS += $(patsubst %.c,$(BUILD)/fuzz-obj/%.o,$(2))
FUZZERS += $(BUILD)/fuzz/$(1)
$(call suite,fuzz/$(1),300,selftests/fuzz/run $(FUZZ_SECONDS) $(BUILD)/fuzz/$(1),$(BUILD)/fuzz/$(1) $(FUZZ_SEEDS),parallel $(4))
$(call suite,long/fuzz/$(1),900,selftests/fuzz/run 600 $(BUILD)/fuzz/$(1),$(BUILD)/fuzz/$(1) $(FUZZ_SEEDS),parallel long $(4))
endef
endif

# $(call suite,name,time limit in seconds,command,prerequisites,kind): see selftests/README.md.
# Words of kind: `parallel` may run beside other suites, `host` beside those, but not beside another
# of its kind; `root` needs root; `long` runs in `make check-long` only.
define suite
SUITES += $(1)
SUITE_NEEDS_$(1) := $(4)
SUITE_LINE_$(1) := $(1)	$(2)	$(or $(5),-)	$(3)
endef

# $(call test_program,name,sources,static libraries,linker flags,time limit in seconds,kind):
# a C program that prints TAP, and the suite that runs it
define test_program
$(call program,selftests/$(1),$(2),$(3),$(4))
$(call suite,$(1),$(or $(5),180),$(BUILD)/selftests/$(1),$(BUILD)/selftests/$(1),$(6))
endef

# $(call steps_test,name,sources,sources whose steps are counted,linker flags,kind): a test program and its suite.
# Counted code calls __sanitizer_cov_trace_pc() at the start of each basic block.
define steps_test
$(BUILD)/selftests/$(1): $(call objs,$(2)) $(patsubst %.c,$(BUILD)/steps-obj/%.o,$(3))
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) -fPIE -pie $$(ALL_LDFLAGS) -o $$@ $$^ $(4)
ALL_OBJS += $(call objs,$(2)) $(patsubst %.c,$(BUILD)/steps-obj/%.o,$(3))
$(call suite,$(1),180,$(BUILD)/selftests/$(1),$(BUILD)/selftests/$(1),$(5))
endef

# Everything is rebuilt if the compiler, a flag or the version changes. Tests of `make install` run
# make again; the exported variables prevent that make from rebuilding.
export SANITIZE OPT CFLAGS LDFLAGS CC CLANG
flags = $(CC) $(CLANG) $(ALL_CFLAGS) $(TUNE)
# These goals compile nothing; some of them install packages and run a second make.
COMPILE_NOTHING := clean help deps deps-build deps-run deps-test deps-long format dist deb \
	check check-fast check-long check-vm demo bench bench-neighbours bench-pauses bench-floods
ifneq ($(filter-out $(COMPILE_NOTHING),$(or $(MAKECMDGOALS),all)),)
ifneq ($(file <$(BUILD)/flags),$(flags))
MISSING := $(shell packaging/needs '$(CC)' '$(CLANG)' '$(BPFTOOL)')
$(if $(MISSING),$(error $(MISSING)))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(flags))
endif
endif
$(BUILD)/flags:;

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(TUNE) -fPIE -MMD -MP -c -o $@ $<

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(TUNE) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/steps-obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(TUNE) -fsanitize-coverage=trace-pc -fPIE -MMD -MP -c -o $@ $<

$(BUILD)/fuzz-obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CLANG) $(filter-out $(FORTIFY),$(ALL_CFLAGS)) -fsanitize=fuzzer-no-link,address,undefined \
		-fno-sanitize-recover=undefined -MMD -MP -c -o $@ $<

# bpf/NAME.bpf.c is compiled to NAME.bpf.o, from which bpftool generates NAME.skel.h.
define compile_bpf
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter \
		-Iinclude -I$(BUILD) -I/usr/include/$(shell $(CC) -print-multiarch) \
		-MMD -MP -MT $@ -c -o $@ $<
endef

$(BUILD)/%.bpf.o: bpf/%.bpf.c
	$(compile_bpf)

$(BUILD)/bench/%.bpf.o: selftests/bench/%.bpf.c
	$(compile_bpf)

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst .,_,$(notdir $*))_bpf >$@

# Files to install, as MODE:FILE:DESTINATION
INSTALL :=
# Symbolic links to install, as TARGET:LINK
INSTALL_LINKS :=
# Directories that `make uninstall` removes if they are empty
INSTALL_DIRS :=
# Files to make before `make install`
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

# Suites run in this order: fast ones and those of lower layers first.
MODULES := bpf daemon/transport daemon/cm daemon daemon/cli provider packaging docs \
	$(addprefix selftests/,lint docs packaging unit bpf provider daemon sim cm_sim fuzz e2e vm bench)
include $(wildcard $(addsuffix /module.mk,$(MODULES)))

.PHONY: all
all: $$(PROGRAMS) ## build the daemon, the command line tool and the provider

.PHONY: deps deps-build deps-run deps-test deps-long
deps: ## install the Debian packages that building, using and testing need (as root, if any is missing)
	$(Q)packaging/deps
deps-build: ## install those that `make` and `make deb` need
	$(Q)packaging/deps build
deps-run: ## install those that the documentation uses beside the programs
	$(Q)packaging/deps run
deps-test: ## install those that the tests need, beside the others
	$(Q)packaging/deps test
deps-long: ## install those that the long tests need, beside those of the other tests
	$(Q)packaging/deps long

# A user other than root cannot install packages; tests that need a missing one fail or are skipped.
.PHONY: try-deps
try-deps:
	$(Q)packaging/deps $(if $(filter check-long,$(MAKECMDGOALS)),build run test long,build run test) || test "$$(id -u)" != 0

# Without -j on the command line, tests are built by one job for each processor.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# The suites of `make check-fast`: without a second host, a virtual machine and packages. The longest come first.
FAST := lint install fuzz sim daemon cm-sim provider unit bpf docs packaging/deps bench

# A second make builds the tests, after the packages are installed.
.PHONY: check check-fast check-long
check: try-deps ## run the tests (as root; unit tests need no root); T=NAME runs one suite, folder, bats file or bats test
	$(Q)$(MAKE) --no-print-directory $(jobs) run-suites LONG=
check-fast: try-deps ## run the tests without a second host or a virtual machine, in two minutes (root skips none of them)
	$(Q)$(MAKE) --no-print-directory $(jobs) run-suites LONG= FUZZ_SECONDS=2 SELECTION='$(FAST)'
check-long: try-deps ## run the tests of `make check` and those that take longer
	$(Q)$(MAKE) --no-print-directory $(jobs) run-suites LONG=--long

# selftests/run decides which suites T means, and whether long ones run.
run := XR_BUILD='$(abspath $(BUILD))' selftests/run $(LONG)
run_args = $(BUILD)/suites $(if $(T),'$(subst ','\'',$(T))',$(SELECTION))
write_suites = $(file >$(BUILD)/suites,$(subst $(newline)$(space),$(newline),$(foreach s,$(SUITES),$(SUITE_LINE_$(s))$(newline))))
wanted_suites = $(write_suites)$(shell $(run) --list $(run_args))
needs_of = $(sort $(foreach s,$(1),$(SUITE_NEEDS_$(s))))

# make 4.3 expands these prerequisites for all goals, also for those that leave the build folder as it is.
.PHONY: run-suites
run-suites: $$(if $$(filter run-suites,$$(MAKECMDGOALS)),$$(call needs_of,$$(wanted_suites)))
	$(Q)$(run) $(run_args)

.PHONY: tests
tests: all $$(call needs_of,$$(SUITES)) ## build every test, run none

.PHONY: demo
demo: deps ## show every part at work between two hosts in network namespaces (as root)
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/selftests/e2e/rdma_verify
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/demo.sh

.PHONY: bench
bench: deps ## measure beside raw AF_XDP, TCP and memcpy; T=NAME selects rows, A=TREE B=TREE compares builds (as root)
	$(Q)$(MAKE) --no-print-directory all bench-needs
	$(Q)XR_BUILD='$(abspath $(BUILD))' T='$(T)' A='$(A)' B='$(B)' selftests/bench/run

.PHONY: bench-needs
bench-needs: $$(BENCH_NEEDS)

.PHONY: bench-neighbours
bench-neighbours: deps ## measure what bad neighbours cost a program; T=NAME selects one (as root)
	$(Q)$(MAKE) --no-print-directory all neighbours-needs
	$(Q)XR_BUILD='$(abspath $(BUILD))' T='$(T)' selftests/bench/neighbours

.PHONY: neighbours-needs
neighbours-needs: $$(NEIGHBOURS_NEEDS)

.PHONY: bench-pauses
bench-pauses: deps ## measure how long workers are paused with 65536 QPs and a million regions (as root)
	$(Q)$(MAKE) --no-print-directory all pauses-needs
	$(Q)XR_BUILD='$(abspath $(BUILD))' FIFO='$(FIFO)' selftests/bench/pauses

.PHONY: pauses-needs
pauses-needs: $$(PAUSES_NEEDS)

.PHONY: bench-floods
bench-floods: deps ## measure what floods of invalid packets cost; T=NAME selects one (as root)
	$(Q)$(MAKE) --no-print-directory all floods-needs
	$(Q)XR_BUILD='$(abspath $(BUILD))' T='$(T)' selftests/bench/floods

.PHONY: floods-needs
floods-needs: $$(FLOODS_NEEDS)

.PHONY: install
install: all $$(INSTALL_NEEDS) ## install below $DESTDIR$PREFIX (PREFIX=/usr/local)
	$(Q)set -e; for item in $(INSTALL); do \
		mode=$${item%%:*}; rest=$${item#*:}; \
		$(if $(V),set -x;) install -D -m $$mode $${rest%%:*} $(DESTDIR)$${rest#*:}; \
	done
	$(Q)set -e; for item in $(INSTALL_LINKS); do \
		$(if $(V),set -x;) mkdir -p $$(dirname $(DESTDIR)$${item#*:}); \
		ln -sf $${item%%:*} $(DESTDIR)$${item#*:}; \
	done
	$(if $(DESTDIR),,$(Q)test "$$(id -u)" != 0 || ldconfig)

.PHONY: uninstall
uninstall: ## remove what `make install` installed
	$(Q)set -e; for item in $(INSTALL) $(INSTALL_LINKS); do rm -f $(DESTDIR)$${item##*:}; done
	$(Q)rmdir --ignore-fail-on-non-empty $$(printf '%s\n' $(addprefix $(DESTDIR),$(INSTALL_DIRS)) | sort -r) 2>/dev/null || :

DIST = $(BUILD)/xroce-$(VERSION).tar.xz
.PHONY: dist
dist: ## make a source tarball of the files that git tracks, or of all sources of an unpacked tarball, in build/
	$(Q)mkdir -p $(BUILD)
	$(Q)packaging/dist xroce-$(VERSION) $(DIST)
	@echo $(DIST)

.PHONY: deb
deb: dist ## make the Debian packages with dpkg-buildpackage, in build/
	$(Q)packaging/deb $(DIST) $(VERSION)

.PHONY: compile_commands.json
compile_commands.json: ## write the compilation database for clangd and clang-tidy
	$(file >$@,[$(call compile_commands,$(ALL_OBJS))])
	@:

.PHONY: help
help: ## print this list
	@sed -n 's/^\([a-z_.-]*\):.*## /\1\t/p' $(filter-out %.d,$(MAKEFILE_LIST)) | sort | \
		awk -F'\t' '{printf "  make %-22s %s\n", $$1, $$2}'

.PHONY: clean
clean: ## remove everything that was built
	$(Q)rm -rf build build-* compile_commands.json

-include $(ALL_OBJS:.o=.d) $(wildcard $(BUILD)/*.bpf.d $(BUILD)/bench/*.bpf.d)
