# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

$(eval $(call suite,lint,300,selftests/lint/check,,parallel))
$(eval $(call suite,lint/runner,60,bats --tap selftests/lint/runner.bats,,parallel))

.PHONY: format
format: ## format all C files with clang-format
	$(Q)selftests/lint/format
