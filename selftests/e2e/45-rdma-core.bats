#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma-core's own tests, as the distribution ships them, in Python over its libibverbs. What a
# device does not have they skip.

# bats file_tags=native
load helpers

TESTS=/usr/share/doc/rdma-core/tests

setup_file() {
	requires root
	[[ -d $TESTS ]] || skip "needs the tests of rdma-core in $TESTS"
	/usr/bin/python3 -c 'import pyverbs' 2>/dev/null || skip "needs pyverbs"
	hosts_up
	daemons_up
}

# Vendors' own tests, and those that import what only other modules bring. Children of a fork that
# use their parent's context: see docs/provider.md.
unpack() {
	cp -r "$TESTS" "$1"
	find "$1" -name '*.gz' -exec gunzip {} +
	rm -f "$1"/test_{mlx5,efa,cuda}*.py "$1"/test_{rdmacm,flow,rss_traffic,tag_matching}.py
	sed -i 's/def test_multi_process_alloc_dm/def parents_context_in_children/' "$1/test_device.py"
}

@test "rdma-core's tests: none fails" {
	local log=$BATS_TEST_TMPDIR/log name

	unpack "$BATS_TEST_TMPDIR/tests"
	run_on a timeout 60 /usr/bin/python3 "$BATS_TEST_TMPDIR/tests/run_tests.py" --dev xra \
		--gid "$(gid_index a "$A4")" -v >"$log" 2>&1 || {
		grep -vE '\.\.\. (ok|skipped)' "$log"
		return 1
	}
	echo "$(grep -c '\.\.\. ok$' "$log") ran:"
	grep '\.\.\. ok$' "$log"
	(($(grep -c '\.\.\. ok$' "$log") >= 40))
	for name in test_mr_rereg_addr test_cq_events_rc test_atomic_cmp_and_swap test_odp_rc_rdma_write \
		test_rc_traffic_cq_ex test_without_allocators_rc_traffic test_mw_type1 test_invalidate_mw_type1 test_mw_type2 \
		test_mw_type2_invalidate_{local,remote,dealloc} test_imported_rc_ex_rdma_write \
		test_odp_{implicit_rc_traffic,{,implicit_}{a,}sync_prefetch_rc_traffic} \
		test_xrc_{atomic_fetch_and_add,atomic_cmp_and_swap,traffic_cq_ex} test_odp_{xrc,rc_srq}_traffic \
		test_qp_ex_xrc_{send,send_imm} test_ro_xrc_traffic \
		test_dm_{traffic,remote_traffic} test_ro_rc_traffic \
		test_qp_ex_rc_{send,send_imm,rdma_write,rdma_write_imm,rdma_read,atomic_cmp_swp,atomic_fetch_add,atomic_write}; do
		grep -q "^$name .*\.\.\. ok$" "$log"
	done
}
