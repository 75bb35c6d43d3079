# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Suites that run under Debian's stock kernel in a virtual machine (docs/vm.md).
# They run side by side, hence one processor for each, and the longest come first.
VM := selftests/vm/run -c -s 1 -w $(CURDIR) -t
VM_ENV := -- env XR_BUILD=$(abspath $(BUILD))

# End-to-end tests in two halves, those that move data and those of the host around it: a few, or
# with XR_VM_E2E=whole all of them
$(foreach half,data host,$(eval $(call suite,vm/e2e/$(half),3000,$(VM) 2980 $(VM_ENV) \
	XR_VM_E2E=$(XR_VM_E2E) selftests/vm/guest/e2e $(half),$(E2E_NEEDS))))
$(eval $(call suite,vm/interop,2400,$(VM) 2380 $(VM_ENV) selftests/vm/guest/interop,\
	$$(PROGRAMS) $(BUILD)/selftests/e2e/rdma_verify))
$(eval $(call suite,vm/systemd,840,selftests/vm/run -S -c -w $(CURDIR) -t 820 $(VM_ENV) selftests/vm/guest/service,\
	$$(PROGRAMS)))
$(eval $(call suite,vm/bpf,480,$(VM) 460 $(VM_ENV) bash -c "modprobe veth && $(abspath $(BUILD))/selftests/bpf",\
	$(BUILD)/selftests/bpf))
$(eval $(call suite,vm/wire,500,XR_BUILD=$(abspath $(BUILD)) selftests/vm/wire,$$(PROGRAMS)))

.PHONY: bench-vm
bench-vm: deps ## rdma_rxe and xroce side by side in a guest, as ratios; no test
	$(Q)$(MAKE) --no-print-directory all
	$(Q)XR_BUILD='$(abspath $(BUILD))' selftests/vm/bench
