# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# Suites that run under Debian's stock kernel in a virtual machine (docs/vm.md).
VM := selftests/vm/run -c -w $(CURDIR) -t
VM_ENV := -- env XR_BUILD=$(abspath $(BUILD))

$(eval $(call suite,vm/bpf,240,$(VM) 220 $(VM_ENV) bash -c "modprobe veth && $(abspath $(BUILD))/selftests/bpf",\
	$(BUILD)/selftests/bpf))
$(eval $(call suite,vm/systemd,420,selftests/vm/run -S -c -w $(CURDIR) -t 400 $(VM_ENV) selftests/vm/guest/service,\
	$$(PROGRAMS)))
$(eval $(call suite,vm/wire,240,XR_BUILD=$(abspath $(BUILD)) selftests/vm/wire,$$(PROGRAMS)))
$(eval $(call suite,vm/interop,420,$(VM) 400 $(VM_ENV) selftests/vm/guest/interop,\
	$$(PROGRAMS) $(BUILD)/selftests/e2e/rdma_verify))
