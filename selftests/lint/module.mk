# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,lint,120,selftests/lint/check))

.PHONY: format
format: ## format every C file as .clang-format says
	$(Q)selftests/lint/format
