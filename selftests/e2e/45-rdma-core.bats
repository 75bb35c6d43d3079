#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma-core's own tests from the Debian package, in Python (pyverbs) over the system's libibverbs. They skip what a
# device does not support (docs/conformance.md).

load helpers

TESTS=/usr/share/doc/rdma-core/tests

# Number of tests that pass in each module. A test that passed before and is now skipped is a failure.
PASS="addr 3 atomic 9 cq 4 cq_events 2 cqex 5 device 16 fork 1 mr 17 odp 17 parent_domain 6 pd 4 qp 21
	qpex 20 rdmacm 10 relaxed_ordering 3 shared_pd 1"
# Direct contexts have no XRC domains of files, so some tests are skipped. Those of imported objects fail.
DIRECT_PASS="addr 3 atomic 7 cq 4 cq_events 2 cqex 4 device 16 fork 1 mr 17 odp 14 parent_domain 6 pd 4 qp 21
	qpex 18 rdmacm 10 relaxed_ordering 2"
DIRECT_FAIL="^(device test_import_dm|shared_pd test_imported_rc_ex_rdma_write) ERROR$"

setup_file() {
	requires root
	[[ -d $TESTS ]] || skip "needs the tests of rdma-core in $TESTS"
	/usr/bin/python3 -c 'import pyverbs' 2>/dev/null || skip "needs pyverbs"
	hosts_up
	daemons_up
}

# Converts the output of unittest -v to lines of: module, test, and ok, skipped, FAIL or ERROR. A test's own output
# stands between its name and its result.
results() {
	awk '
	match($0, /\((tests\.)?test_[a-z0-9_]+\./) {
		module = substr($0, RSTART + 1, RLENGTH - 2)
		sub(/^tests\./, "", module)
		sub(/^test_/, "", module)
		test = $1
	}
	match($0, /(^|\.\.\. )(ok$|skipped |FAIL$|ERROR$)/) && test != "" {
		result = substr($0, RSTART, RLENGTH)
		gsub(/[. ]/, "", result)
		print module, test, result
		test = ""
	}'
}

@test "the tests of rdma-core pass as docs/conformance.md says" {
	local log=$BATS_TEST_TMPDIR/log results=$BATS_TEST_TMPDIR/results module want have huge status=0 pass=$PASS fail='^$'

	! direct_contexts || pass=$DIRECT_PASS fail=$DIRECT_FAIL

	cp -r "$TESTS" "$BATS_TEST_TMPDIR/tests"
	find "$BATS_TEST_TMPDIR/tests" -name '*.gz' -exec gunzip {} +
	run_on a timeout $((100 * SLOW)) /usr/bin/python3 "$BATS_TEST_TMPDIR/tests/run_tests.py" --dev xra \
		--gid "$(gid_index a "$A4")" -v >"$log" 2>&1 || status=$?
	# the exit status is not used: tests of other drivers count as failed
	((status == 124)) && { tail -n 3 "$log"; echo "not finished in time"; return 1; }
	status=0
	results <"$log" >"$results"
	if grep -E ' (FAIL|ERROR)$' "$results" | grep -Ev "$fail"; then
		status=1
	fi
	while read -r module want; do
		have=$(grep -c "^$module .* ok$" "$results") || true
		# selftests/run provides huge pages, but other processes may take them
		huge=$(grep -c "(tests\.test_$module\..*There are no huge pages" "$log") || true
		((have + huge >= want)) || {
			echo "$module: $have passed, expected $want"
			status=1
		}
	done < <(xargs -n 2 <<<"$pass")
	((status == 0)) || grep -vE '\.\.\. (ok|skipped)' "$log"
	return $status
}
