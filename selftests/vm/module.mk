# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Suites that run under Debian's stock kernel in a virtual machine (docs/vm.md). Each virtual machine has one
# processor, so that suites can run in parallel; the longest come first.
VM := selftests/vm/run -c -s 1 -w $(CURDIR) -t
VM_ENV := -- env XR_BUILD=$(abspath $(BUILD))
# Cards of several drivers, two of each at one hub, for e2e/16-interfaces
VM_CARDS := $(foreach card,0:virtio-net-pci 1:e1000 2:e1000e 3:vmxnet3,$(foreach n,1 2,\
	-n $(lastword $(subst :, ,$(card))):hubport$(comma)hubid=$(firstword $(subst :, ,$(card)))))
CM_NEEDS := $$(PROGRAMS) $(BUILD)/selftests/e2e/rdma_mad
INTEROP_NEEDS := $$(PROGRAMS) $(addprefix $(BUILD)/selftests/e2e/,rdma_verify rdma_keys rdma_direct rdma_datagram)

$(eval $(call suite,vm/systemd,840,selftests/vm/run -S -c -w $(CURDIR) -t 820 $(VM_ENV) selftests/vm/guest/service,\
	$(BUILD)/vm-root $(addprefix $(BUILD)/selftests/e2e/,hanging_fs rdma_neighbours),parallel))
$(eval $(call suite,vm/interop,1200,$(VM) 1180 $(VM_ENV) selftests/vm/guest/interop,$(INTEROP_NEEDS),parallel))
$(eval $(call suite,vm/interop-direct,300,$(VM) 280 $(VM_ENV) XR_PATH=direct selftests/vm/guest/interop path short,\
	$(INTEROP_NEEDS),parallel))
$(eval $(call suite,vm/cm,900,$(VM) 880 $(VM_ENV) selftests/vm/guest/cm,$(CM_NEEDS),parallel))
$(eval $(call suite,vm/iser,900,$(VM) 880 $(VM_ENV) selftests/vm/guest/iser,$$(PROGRAMS),parallel))
$(eval $(call suite,vm/bpf,480,$(VM) 460 $(VM_ENV) bash -c "modprobe veth && $(abspath $(BUILD))/selftests/bpf",\
	$(BUILD)/selftests/bpf,parallel))
$(eval $(call suite,vm/sysfs,240,$(VM) 230 $(VM_ENV) selftests/vm/guest/sysfs,$$(PROGRAMS),parallel))
$(eval $(call suite,vm/tiers,240,$(VM) 220 $(VM_ENV) bash -c "echo 16 >/proc/sys/vm/nr_hugepages && \
	$(abspath $(BUILD))/selftests/daemon/tiers",$(BUILD)/selftests/daemon/tiers,parallel))

$(eval $(call suite,long/vm/stock,1600,$(VM) 1580 $(VM_ENV) selftests/vm/guest/e2e stock,$(E2E_NEEDS),parallel long))
$(eval $(call suite,long/vm/interop-socket,1200,$(VM) 1180 $(VM_ENV) XR_IO=socket selftests/vm/guest/interop,\
	$(INTEROP_NEEDS),parallel long))
$(eval $(call suite,long/vm/interop-socket-7,1800,$(VM) 1780 -k 7 $(VM_ENV) XR_IO=socket selftests/vm/guest/interop,\
	$(INTEROP_NEEDS),parallel long))
# The same with direct contexts, whose engine runs in the program: on the stock kernel and on the newest
VM_DIRECT := $(VM_ENV) XR_PATH=direct selftests/vm/guest
$(eval $(call suite,long/vm/interop-direct,1200,$(VM) 1180 $(VM_DIRECT)/interop,$(INTEROP_NEEDS),parallel long))
$(eval $(call suite,long/vm/interop-direct-7,1800,$(VM) 1780 -k 7 $(VM_DIRECT)/interop,$(INTEROP_NEEDS),parallel long))
$(eval $(call suite,long/vm/cm-direct,900,$(VM) 880 $(VM_DIRECT)/cm,$(CM_NEEDS),parallel long))
$(eval $(call suite,long/vm/cm-direct-7,1200,$(VM) 1180 -k 7 $(VM_DIRECT)/cm,$(CM_NEEDS),parallel long))
$(eval $(call suite,long/vm/cards,1200,$(VM) 1180 -m 3072 $(VM_CARDS) $(VM_ENV) selftests/vm/guest/e2e 16-interfaces,\
	$(E2E_NEEDS),parallel long))
$(eval $(call suite,long/vm/interop,1200,$(VM) 1180 $(VM_ENV) selftests/vm/guest/interop long,$(INTEROP_NEEDS),parallel long))
$(eval $(call suite,long/vm/cm,1200,$(VM) 1180 $(VM_ENV) selftests/vm/guest/cm long core,$(CM_NEEDS),parallel long))

# Two guests, which need both processors
$(eval $(call suite,vm/wire,500,XR_BUILD=$(abspath $(BUILD)) selftests/vm/wire,$$(PROGRAMS)))

# All end-to-end tests, in two halves; some need much memory
$(foreach half,host data,$(eval $(call suite,long/vm/$(half),7200,$(VM) 7180 -m 7168 $(VM_CARDS) $(VM_ENV) \
	selftests/vm/guest/e2e $(half),$(E2E_NEEDS),parallel long)))

# Not part of `check`
.PHONY: check-vm
check-vm: try-deps ## run an end-to-end file under Debian's stock kernel in a virtual machine: T=61-other-xdp
	$(Q)$(MAKE) --no-print-directory $(jobs) all check-vm-needs
	$(Q)$(VM) 1180 -m 3072 $(VM_CARDS) $(VM_ENV) selftests/vm/guest/e2e $(T)

.PHONY: check-vm-needs
check-vm-needs: $(E2E_NEEDS)

# What `make install` installs, prepared here because make takes a minute on the guest's emulated processor
.PHONY: $(BUILD)/vm-root
$(BUILD)/vm-root: all
	$(Q)rm -rf $@
	$(Q)$(MAKE) -s --no-print-directory install DESTDIR=$(abspath $@)

.PHONY: bench-vm
bench-vm: deps ## measure xroce, by the daemon and directly, and rdma_rxe in the same guest
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/bench/floor
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/vm/bench
