#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UCX of the distribution over RC and UD. Both hosts name the device xra, because ucx_perftest sends the device name
# to the peer. It does not verify payload; it ends when every message has arrived.

load helpers

setup_file() {
	requires root ucx_perftest ucx_info
	hosts_up
	mkdir "$RUN/bpf/b"
	daemon_up a
	daemon_up b --name xra --bpffs "$RUN/bpf/b"
	export UCX_NET_DEVICES=xra:1 UCX_LOG_LEVEL=warn
}

# Prints the packets received by host b.
received() {
	ctl b counters -j xra | jq -er '.transport[] | select(.name == "rx_packets").value'
}

# perf OPTION...: runs ucx_perftest on both hosts; host b must receive at least 10 packets on the device, ACKs included
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

@test "UCX finds the device and the index of its RoCE v2 GID" {
	run_on a env UCX_LOG_LEVEL=debug ucx_info -d >"$BATS_TEST_TMPDIR/info"
	grep -q "Transport: rc_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "Transport: ud_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "xra:1 using gid_index $(gid_index a "$A4")" "$BATS_TEST_TMPDIR/info"
}

@test "UCX rc_verbs transfers active messages: short, bcopy and zcopy" {
	perf -d xra:1 -x rc_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t am_lat -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t am_bw -D zcopy -s 4096
}

@test "UCX rc_verbs runs put and get" {
	perf -d xra:1 -x rc_verbs -t put_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t put_bw -D zcopy -s 65536
	perf -d xra:1 -x rc_verbs -t get -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t get -D zcopy -s 65536
}

@test "UCX rc_verbs runs atomics" {
	perf -d xra:1 -x rc_verbs -t fadd -D short -s 8
	perf -d xra:1 -x rc_verbs -t cswap -D short -s 8
}

@test "UCX tag matching and streams work over rc_verbs with ud_verbs wireup" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
	perf -t stream_lat -s 1024
}

@test "UCP remote memory access works over rc_verbs" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t ucp_put_lat -s 4096
	perf -t ucp_get -s 4096
	perf -t ucp_fadd -s 8
}

@test "UCX ud_verbs transfers active messages" {
	perf -d xra:1 -x ud_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x ud_verbs -t am_bw -D zcopy -s 2000
}

@test "UCX tag matching works over ud_verbs" {
	local -x UCX_TLS=ud_verbs

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
}

@test "UCX ud_verbs works over IPv6" {
	local -x UCX_IB_GID_INDEX

	UCX_IB_GID_INDEX=$(gid_index a "$A6")
	perf -d xra:1 -x ud_verbs -t am_lat -D bcopy -s 1024
}
