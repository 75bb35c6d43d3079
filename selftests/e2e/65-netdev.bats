#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Network interfaces other than a veth with one queue and jumbo frames. Each test creates its own hosts.

load helpers

setup_file() {
	requires root
}

teardown_file() {
	:
}

# Prints the daemons' logs before the hosts are removed.
teardown() {
	report_failure
	hosts_down
}

# bats test_tags=stock
@test "RDMA works with XDP in generic mode" {
	requires io=xdp
	hosts_up
	daemons_up --attach generic
	equal "mode" "$(status_of a .xdp.mode)" generic
	verify_data -m "$PMTU"
	both ib_send_lat -x @4 -F -n $((500 / SLOW))
}

@test "RDMA works with XDP in native mode" {
	requires io=xdp
	hosts_up
	daemons_up --attach native
	equal "mode" "$(status_of a .xdp.mode)" "native copy"
	verify_data -m "$PMTU"
	both ib_send_lat -x @4 -F -n $((500 / SLOW))
}

@test "interface MTU 1500 gives path MTU 1024" {
	hosts_up 1500
	daemons_up
	equal "path MTU" "$(status_of a .path_mtu)" 1024
	verify_data -m 1024
	fails both ibv_rc_pingpong -g @4 -m 4096 -n 5
}

@test "interface MTU 4200 gives path MTU 4096" {
	requires pmtu=4096
	hosts_up 4200
	daemons_up
	equal "path MTU" "$(status_of a .path_mtu)" 4096
	verify_data -m 4096
}

@test "the path MTU follows the MTU of the interface" {
	hosts_up "$MTU"
	daemons_up
	on a ip link set va mtu 1500
	mtu_is() { [[ $(status_of a .path_mtu) == "$1" ]]; }
	wait_for 5 mtu_is 1024
	both ibv_rc_pingpong -g @4 -c -n $((100 / SLOW)) -m 1024
	on a ip link set va mtu "$MTU"
	wait_for 5 mtu_is "$PMTU"
	verify_data -m "$PMTU"
}

@test "an interface with four queues can have four workers" {
	requires io=xdp
	hosts_up "$MTU" 4
	daemons_up --workers 4
	equal "workers" "$(status_of a '.workers | length')" 4
	verify_data -m "$PMTU"
	both -t 40 ib_write_bw -x @4 -F -q 16 -n $((200 / SLOW))
	both -t 40 ib_send_bw -x @4 -F -q 16 -n $((200 / SLOW))
}

@test "xroced --queues limits the number of queues, and so of workers" {
	hosts_up "$MTU" 2
	daemon_up a --queues 1 --workers 2
	daemon_up b
	equal "queues of the workers" "$(status_of a '.workers | map(.queues) | join(" ")')" 0
}

# bats test_tags=stock
@test "RDMA works on VLAN interfaces" {
	local h

	hosts_up
	for h in a b; do
		on "$h" ip link add link "v$h" name "v$h.7" type vlan id 7 2>/dev/null ||
			skip "this kernel has no VLAN devices"
		on "$h" ip address flush dev "v$h" scope global
		on "$h" ip link set "v$h.7" up
	done
	on a ip address add "$A4/24" dev va.7
	on b ip address add "$B4/24" dev vb.7
	on a ip address add "$A6/64" dev va.7 nodad
	on b ip address add "$B6/64" dev vb.7 nodad
	wait_for 5 on a ping -q -c 1 -W 1 "$B4"
	daemon_up a --interface va.7
	daemon_up b --interface vb.7
	verify_data -m 2048
}

@test "RDMA works over a routed path" {
	hosts_up
	on a ip address add 10.79.1.1/32 dev va
	on b ip address add 10.79.2.1/32 dev vb
	on a ip route add 10.79.2.1 via "$B4" src 10.79.1.1
	on b ip route add 10.79.1.1 via "$A4" src 10.79.2.1
	daemons_up
	A4=10.79.1.1 B4=10.79.2.1 verify_data -m "$PMTU"
}

# index_of ADDRESS: waits until host a has the GID, and prints its index
index_of() {
	has_gid() { gid_index a "$1"; }
	wait_for 10 has_gid "$1"
	gid_index a "$1"
}

# remove ADDRESS: removes an address of host a, and waits until its GID is gone
remove() {
	on a ip address del "$1/24" dev va
	has_no_gid() { not gid_index a "$1"; }
	wait_for 10 has_no_gid "$1"
}

@test "the index of a removed address is not given to another one while a program uses it" {
	local server index

	hosts_up
	daemons_up
	on a ip address add 10.80.0.1/24 dev va
	index=$(index_of 10.80.0.1)
	spawn a "$BATS_TEST_TMPDIR/server" rping -s -a 10.80.0.1 -p 18714
	server=$!
	has_listener() { ctl a cm -j xra | jq -e 'any(.port == 18714)'; }
	wait_for 10 has_listener
	remove 10.80.0.1
	on a ip address add 10.81.0.1/24 dev va
	(($(index_of 10.81.0.1) != index))
	on a ip address add 10.80.0.1/24 dev va
	equal "index" "$(index_of 10.80.0.1)" "$index"
	remove 10.80.0.1
	kill "$server"
	wait_for 10 not has_listener
	on a ip address add 10.82.0.1/24 dev va
	equal "index" "$(index_of 10.82.0.1)" "$index"
}

# The peer's interface receives in a thread that only runs on an idle processor, and none is idle.
# The programs exchange datagrams for as long as they are not ended.
@test "xroce ah --detail names an address handle whose next hop is gone" {
	daemon_path "the kernel finds the next hops of direct contexts"
	local server client

	hosts_up
	daemons_up
	spawn a "$BATS_TEST_TMPDIR/server" ibv_ud_pingpong -p 18714 -g "$(gid_index a "$A4")" -n 100000000
	server=$!
	wait_for 10 listens a 18714
	spawn b "$BATS_TEST_TMPDIR/client" ibv_ud_pingpong -p 18714 -g "$(gid_index b "$B4")" -n 100000000 "$A4"
	client=$!
	has_handle() { ctl a ah -dj xra peer "$B4" | jq -e '.[0] | has("last_error") | not' >/dev/null; }
	wait_for 10 has_handle
	# The server sends only after it has received.
	sends() { (($(counter a tx_packets) > 10)); }
	wait_for 10 sends
	on a ip link set va down
	failed() { ctl a ah -dj xra | jq -e '.[0].last_error.age_ns > 0' >/dev/null; }
	wait_for 30 failed
	ctl a ah -dj xra | tee /dev/stderr | jq -e '.[0].last_error |
		.reason == "the next hop was not found after the network changed" and (.status | length) > 5'
	kill "$server" "$client"
}

@test "a worker waits while the kernel takes none of its packets" {
	local cpu before kicks start us busy=()

	hosts_up
	daemons_up --gso off --attach native
	# veth has NAPI while it has an XDP program
	ip netns exec "$ID-a" sh -c 'echo 1 >/sys/class/net/va/threaded' || skip "this kernel has no threads for NAPI"
	spawn a "$RUN/server" ib_write_bw -s 65536 -D 60
	busy+=("$!")
	wait_for 5 listens a 18515
	spawn b "$RUN/client" ib_write_bw -s 65536 -D 60 "$A4"
	busy+=("$!")
	kicks_of() { status_of b '.workers[0].tx_kicks'; }
	sends() { (($(kicks_of) > 0)); }
	wait_for 20 sends
	# from now on NAPI, which makes room, hardly gets a processor
	chrt --idle -p 0 "$(pgrep -n '^napi/va-')"
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		timeout 30 taskset -c "$cpu" sh -c 'while :; do :; done' 3>&- &
		busy+=("$!")
	done
	sleep 1
	before=$(kicks_of) start=${EPOCHREALTIME/./}
	sleep 1
	us=$((${EPOCHREALTIME/./} - start)) kicks=$(($(kicks_of) - before))
	kill "${busy[@]}"
	echo "$kicks system calls to send in $us us"
	# fewer than 50000 in a second; a worker that does not wait makes hundreds of thousands
	((kicks * 20 < us))
}

@test "the daemon ends and logs it when its interface is deleted" {
	local pid status

	hosts_up
	daemons_up
	pid=$(daemon_pid a)
	"$XROCE" -r "$RUN/a" monitor xra >"$RUN/events" 2>&1 3>&- &
	reads_events() { (($(find "/proc/$!/fd" -lname 'socket:*' 2>/dev/null | wc -l) >= 2)); }
	wait_for 10 reads_events
	on a ip link del va
	wait_for 10 not alive "$pid"
	tail -n 3 "$RUN/a/log"
	grep -q 'va' "$RUN/a/log"
	status=0
	wait $! || status=$?
	equal "status of xroce monitor" "$status" 1
	cat "$RUN/events"
	equal "events of the link" "$(grep -c 'link state' "$RUN/events")" 1
	grep -q 'link state down' "$RUN/events"
	equal "end" "$(tail -n 1 "$RUN/events")" "xroce: xra: the daemon has ended"
}

@test "the daemon names an interface that does not exist" {
	hosts_up
	run on a "$XROCED" --io xdp --interface nothere --runtime-dir "$RUN/a" --bpffs "$RUN/bpf"
	echo "$output"
	equal "status" "$status" 1
	[[ $output == *nothere* ]]
}

@test "the daemon names the step of its start that fails" {
	hosts_up
	# the limit of the user refuses a thread to the daemon, which is a process of that user then
	run on a timeout $((20 * SLOW)) prlimit --nproc=1:1 "$XROCED" --interface va --name xra --runtime-dir "$RUN/a" \
		--bpffs "$RUN/bpf" --io xdp --user "$DAEMON_USER"
	echo "$output"
	equal "status" "$status" 1
	[[ $output == *"starting the workers: Resource temporarily unavailable"* ]]
}

@test "a second daemon for a device name is refused, and the first one continues" {
	hosts_up
	daemons_up
	run on a "$XROCED" --io xdp --interface va --name xra --runtime-dir "$RUN/a" --bpffs "$RUN/bpf"
	echo "$output"
	equal "status" "$status" 1
	[[ $output == *xra* ]]
	both ibv_rc_pingpong -g @4 -c -n 20
}
