# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Suites that run under Debian's stock kernel in a virtual machine (docs/vm.md).
VM := selftests/vm/run -c -w $(CURDIR) -t
VM_ENV := -- env XR_BUILD=$(abspath $(BUILD))

$(eval $(call suite,vm/bpf,480,$(VM) 460 $(VM_ENV) bash -c "modprobe veth && $(abspath $(BUILD))/selftests/bpf",\
	$(BUILD)/selftests/bpf))
$(eval $(call suite,vm/systemd,840,selftests/vm/run -S -c -w $(CURDIR) -t 820 $(VM_ENV) selftests/vm/guest/service,\
	$$(PROGRAMS)))
$(eval $(call suite,vm/wire,500,XR_BUILD=$(abspath $(BUILD)) selftests/vm/wire,$$(PROGRAMS)))
$(eval $(call suite,vm/interop,1220,$(VM) 1200 $(VM_ENV) selftests/vm/guest/interop,\
	$$(PROGRAMS) $(BUILD)/selftests/e2e/rdma_verify))
