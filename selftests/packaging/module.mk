# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,install,60,bats --tap selftests/packaging/install.bats,$$(PROGRAMS)))

# Its machine is a VM with Debian's kernel and systemd (selftests/vm).
STAGE := $(abspath $(BUILD))/stage
$(eval $(call suite,vm/service,240,env -u MAKEFLAGS make -s BUILD=$(BUILD) install DESTDIR=$(STAGE) PREFIX=/usr && \
	selftests/vm/run -c -S -w $(CURDIR) -t 220 -- env XR_BUILD=$(abspath $(BUILD)) \
	selftests/packaging/service,$$(PROGRAMS)))
