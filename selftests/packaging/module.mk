# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,install,300,bats --tap $(addprefix selftests/packaging/,hardening.bats install.bats),\
	$$(PROGRAMS),parallel))
$(eval $(call suite,packaging/device-plugin,180,selftests/packaging/device_plugin,$$(PROGRAMS),parallel))
$(eval $(call suite,packaging/deb,900,bats --tap selftests/packaging/deb.bats,$$(PROGRAMS),parallel))
$(eval $(call suite,packaging/rpm,900,bats --tap selftests/packaging/rpm.bats,$$(PROGRAMS),parallel))
$(eval $(call suite,packaging/deps,60,bats --tap selftests/packaging/deps.bats,,parallel))
