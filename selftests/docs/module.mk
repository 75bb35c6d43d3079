# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,docs,180,selftests/docs/check,$$(PROGRAMS),parallel))
$(eval $(call suite,docs/examples,60,selftests/docs/examples,,parallel))
