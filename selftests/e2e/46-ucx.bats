#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UCX as the distribution ships it, over reliable connections and over datagrams. ucx_perftest tells
# the other side which device to use, so it has the same name on both hosts. It verifies no
# payload; what it runs ends only when every message came.

load helpers

setup_file() {
	requires root ucx_perftest ucx_info
	hosts_up
	mkdir "$RUN/bpf/b"
	daemon_up a
	daemon_up b --name xra --bpffs "$RUN/bpf/b"
	export UCX_NET_DEVICES=xra:1 UCX_LOG_LEVEL=warn
}

received() {
	ctl b counters -j xra | jq -er '.transport[] | select(.name == "rx_packets").value'
}

# perf OPTION...: some iterations on both hosts, by the device: answers and acknowledgements at least
perf() {
	local before after

	before=$(received)
	pair ucx_perftest "$@" -n 100 -w 10 -p "$PORT" -- ucx_perftest "$@" -n 100 -w 10 -p "$PORT" "$A4"
	after=$(received)
	((after - before >= 10)) || {
		echo "ucx_perftest $*: $((after - before)) packets at b"
		return 1
	}
	if grep -E 'ERROR|WARN' "$OUT/server" "$OUT/client"; then
		return 1
	fi
}

@test "UCX finds the device and its RoCE v2 address" {
	run_on a env UCX_LOG_LEVEL=debug ucx_info -d >"$BATS_TEST_TMPDIR/info"
	grep -q "Transport: rc_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "Transport: ud_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "xra:1 using gid_index $(ctl a status -j xra |
		jq --arg a "$A4" '.gids[] | select(.gid == $a).index')" "$BATS_TEST_TMPDIR/info"
}

@test "rc_verbs: active messages, short, copied and not" {
	perf -d xra:1 -x rc_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t am_lat -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t am_bw -D zcopy -s 4096
}

@test "rc_verbs: put and get" {
	perf -d xra:1 -x rc_verbs -t put_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t put_bw -D zcopy -s 65536
	perf -d xra:1 -x rc_verbs -t get -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t get -D zcopy -s 65536
}

@test "rc_verbs: atomics" {
	perf -d xra:1 -x rc_verbs -t fadd -D short -s 8
	perf -d xra:1 -x rc_verbs -t cswap -D short -s 8
}

@test "rc_verbs: tag matching and streams, connected by datagrams" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
	perf -t stream_lat -s 1024
}

@test "rc_verbs: remote memory through the upper interface" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t ucp_put_lat -s 4096
	perf -t ucp_get -s 4096
	perf -t ucp_fadd -s 8
}

@test "ud_verbs: active messages" {
	perf -d xra:1 -x ud_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x ud_verbs -t am_bw -D zcopy -s 2000
}

@test "ud_verbs: tag matching, small and large" {
	local -x UCX_TLS=ud_verbs

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
}

@test "ud_verbs over IPv6" {
	local -x UCX_IB_GID_INDEX

	UCX_IB_GID_INDEX=$(ctl a status -j xra |
		jq --arg a "$A6" '.gids[] | select(.gid == $a).index')
	perf -d xra:1 -x ud_verbs -t am_lat -D bcopy -s 1024
}
