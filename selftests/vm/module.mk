# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Suites that run under Debian's stock kernel in a virtual machine (docs/vm.md).
# They run side by side, hence one processor for each, and the longest come first.
VM := selftests/vm/run -c -s 1 -w $(CURDIR) -t
VM_ENV := -- env XR_BUILD=$(abspath $(BUILD))

$(eval $(call suite,vm/interop,2400,$(VM) 2380 $(VM_ENV) selftests/vm/guest/interop,\
	$$(PROGRAMS) $(addprefix $(BUILD)/selftests/e2e/,rdma_verify rdma_keys rdma_datagram)))

# End-to-end tests in two halves, those of the host around the data and those that move data: a few,
# or with XR_VM_E2E=whole all of them, some of which need memory
vm_e2e_limits = $(if $(filter whole,$(XR_VM_E2E)),7180 -m 7168,1580)
vm_e2e = $(call suite,vm/e2e/$1,7200,$(VM) $(vm_e2e_limits) $(VM_ENV) XR_VM_E2E=$(XR_VM_E2E) \
	selftests/vm/guest/e2e $1,$(E2E_NEEDS))
$(eval $(call vm_e2e,host))

$(eval $(call suite,vm/systemd,840,selftests/vm/run -S -c -w $(CURDIR) -t 820 $(VM_ENV) selftests/vm/guest/service,\
	$(BUILD)/vm-root))
$(eval $(call vm_e2e,data))
$(eval $(call suite,vm/wire,500,XR_BUILD=$(abspath $(BUILD)) selftests/vm/wire,$$(PROGRAMS)))
$(eval $(call suite,vm/bpf,480,$(VM) 460 $(VM_ENV) bash -c "modprobe veth && $(abspath $(BUILD))/selftests/bpf",\
	$(BUILD)/selftests/bpf))

# What `make install` installs, for a guest whose processor would take a minute for it
.PHONY: $(BUILD)/vm-root
$(BUILD)/vm-root: all
	$(Q)rm -rf $@
	$(Q)$(MAKE) -s --no-print-directory install DESTDIR=$(abspath $@)

.PHONY: bench-vm
bench-vm: deps ## rdma_rxe and xroce side by side in a guest, as ratios; no test
	$(Q)$(MAKE) --no-print-directory all
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/vm/bench
