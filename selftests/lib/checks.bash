# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For suites that check the source tree: one TAP test for each call of check(). To be sourced at the top of the tree.

checks=0
checks_failed=0

# check NAME OUTPUT: passes if OUTPUT is empty, shows it otherwise
check() {
	((++checks))
	if [[ -z $2 ]]; then
		echo "ok $checks - $1"
		return
	fi
	echo "not ok $checks - $1"
	printf '%s\n' "$2" | sed 's/^/# /'
	checks_failed=1
}

# skip_check NAME REASON
skip_check() {
	((++checks))
	echo "ok $checks - $1 # SKIP $2"
}

# Prints the plan; returns 1 if a check failed.
checks_end() {
	echo "1..$checks"
	return $checks_failed
}

# ours PATTERN...: prints the files of the tree whose names match, with or without git
ours() {
	local names=() pattern

	if git rev-parse 2>/dev/null; then
		git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
			[[ -f $file ]] && echo "$file"
		done | sort -u
		return
	fi
	for pattern; do
		names+=(-o -path "./$pattern" -o -path "*/$pattern")
	done
	find . \( -path './build*' -o -path ./.git \) -prune -o -type f \( "${names[@]:1}" \) -print | sed 's,^\./,,' | sort
}

# our_scripts: prints the shell scripts of the tree
our_scripts() {
	{
		ours '*.bash' '*.bats' '*.sh' packaging/xroce.bash-completion packaging/xroced.bash-completion
		ours '*' | xargs grep -lIE '^#!/(usr/)?bin/(env )?(ba)?sh'
	} | sort -u
}
