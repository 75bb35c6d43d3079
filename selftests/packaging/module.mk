# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,install,300,bats --tap selftests/packaging,$$(PROGRAMS),parallel))
