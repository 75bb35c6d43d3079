#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other XDP programs on the interface of a daemon: those of xdp-tools, both ways round

load helpers

OTHER=/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_dny_ip.o	# an XDP program of xdp-tools

# Host a has no daemon.
setup_file() {
	daemon_path "packets go by XDP"
	requires root io=xdp xdp-filter xdp-loader xdpdump tcpdump
	hosts_up 3000
	daemon_up b
}

# tools HOST COMMAND...: runs a program of xdp-tools, with its pins in the BPF file system of this run
tools() {
	# shellcheck disable=SC2016	# for the inner shell
	on "$1" unshare -m sh -c 'mount --bind "$0" /sys/fs/bpf && exec "$@"' "$RUN/bpf" "${@:2}"
}

# refused [OPTION...]: starts xroced on host a, which must refuse to start; prints its messages
refused() {
	fails on a timeout $((20 * SLOW)) "$XROCED" --interface va --name xra --runtime-dir "$RUN/a" --bpffs "$RUN/bpf" \
		--io xdp --user "$DAEMON_USER" "$@" 2>&1 3>&-
}

@test "xroced names the XDP program that is on the interface, and how to remove it" {
	local mode

	for mode in native skb; do
		tools a xdp-filter load -m "$mode" va -f udp
		run refused
		echo "$output"
		((status == 0))
		[[ $output == *"XDP on va is in use by xdpfilt_alw_udp (id "*"xdp-loader unload --all va"* ]]
		tools a xdp-loader unload --all va
	done
	daemon_up a
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
}

# bats test_tags=stock
@test "xroced names every program that the dispatcher of libxdp calls" {
	tools a xdp-filter load -m native va -f udp
	if ! tools a xdp-loader status va | grep -q xdp_dispatcher; then
		tools a xdp-loader unload --all va
		skip "this kernel does not permit freplace programs, so libxdp attached xdp-filter without its dispatcher"
	fi
	tools a xdp-loader load -m native va "$OTHER"
	run refused
	echo "$output"
	tools a xdp-loader unload --all va
	((status == 0))
	[[ $output == *"in use by "*xdpfilt_alw_udp* && $output == *"in use by "*xdpfilt_dny_ip* ]]
	[[ $output == *"; to run beside it: --dispatcher"* ]]
}

@test "programs of xdp-tools do not replace the program of a running daemon" {
	daemon_up a
	# The exit status of xdp-tools is 256 less an error number.
	not tools a xdp-filter load -m native va
	not tools a xdp-loader load -m native va "$OTHER"
	not tools a xdp-loader unload --all va
	# The kernel refuses one of them, and finds nothing to do for the other.
	on a ip link set va xdp off || true
	on a ip link set va xdpgeneric off || true
	tools a xdp-loader status va | grep -E 'va .*xroce'
	both ibv_rc_pingpong -g @4 -c -n 50
}

# dump PROGRAM: xdpdump captures packets of host a before and after our XDP program, while RDMA works
dump() {
	local dir=$BATS_TEST_TMPDIR pid
	local file=$dir/packets log=$dir/xdpdump

	tools a timeout $((60 * SLOW)) xdpdump -i va -p "$1" --rx-capture entry,exit --use-pcap -w "$file" \
		>"$log" 2>&1 3>&- &
	pid=$!
	wait_for 20 grep -q "listening\|ERROR" "$log"
	if grep -q "raise rlimit: Operation not permitted" "$log"; then
		wait "$pid" || true
		skip "xdpdump raises its limit of locked memory, which takes CAP_SYS_RESOURCE"
	fi
	both ibv_rc_pingpong -g @4 -c -n 50
	on b ping -q -c 2 -i 0.05 -W 20 "$A4"
	pkill -INT -f "^xdpdump .* $file\$"
	wait "$pid" || true
	cat "$log"
	# 50 messages of 4096 bytes in each direction, ACKs come on top; each packet twice
	(($(tcpdump -nr "$file" udp dst port 4791 2>/dev/null | wc -l) >= 2 * 50))
	(($(tcpdump -nr "$file" icmp 2>/dev/null | wc -l) >= 2 * 2))
}

# bats test_tags=stock
@test "xdpdump captures packets of the XDP program" {
	daemon_down a
	daemon_up a
	dump "$(on a ip -j -d link show va | jq -r '.[0].xdp.prog.name')"
}

# ---- behind the dispatcher of libxdp ----------------------------------------------------

# needs_dispatcher: libxdp attaches programs alone if the kernel refuses programs of type BPF_PROG_TYPE_EXT.
needs_dispatcher() {
	local with

	daemon_down a
	tools a xdp-loader load -m native va "$OTHER"
	with=$(tools a xdp-loader status va | grep -c xdp_dispatcher || true)
	tools a xdp-loader unload --all va
	((with == 1)) || skip "this kernel refuses the dispatcher of libxdp"
}

# programs: prints the names of the XDP programs of host a, in the order in which they run
programs() {
	tools a xdp-loader status va | awk '$1 == "=>" { print $3 }' | paste -sd ' '
}

# ours: prints the name of the daemon's program behind the dispatcher
ours() {
	kernel_at_least 6.6 && echo xroce_frags || echo xroce
}

alone() {
	[[ $(programs) == "$1" ]]
}

# vm/systemd has this in a guest.
@test "--dispatcher: the daemon joins a program of xdp-filter and leaves it" {
	needs_dispatcher
	tools a xdp-filter load -m native va -f udp
	daemon_up a --dispatcher 50
	equal "programs" "$(programs | sed 's/xdpfilt_[a-z_]*/filter/')" "filter $(ours)"
	both ibv_rc_pingpong -g @4 -c -n 50
	on b ping -q -c 2 -i 0.05 -W 20 "$A4"
	# The program of the daemon goes with it, the other one stays.
	daemon_down a
	only_filter() { [[ $(programs) == xdpfilt_* && $(programs) != *xroce* ]]; }
	wait_for 10 only_filter
	tools a xdp-filter unload va
}

# bats test_tags=stock
@test "--dispatcher: programs of xdp-loader and xdp-filter join the daemon and leave it" {
	needs_dispatcher
	daemon_up a --dispatcher 50
	equal "programs" "$(programs)" "$(ours)"
	tools a xdp-filter load -m native va -f udp
	equal "programs" "$(programs)" "xdpfilt_alw_udp $(ours)"
	both ibv_rc_pingpong -g @4 -c -n 50
	tools a xdp-filter unload va
	equal "programs" "$(programs)" "$(ours)"
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
	wait_for 10 alone ""
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
}

# seen ID: prints the number of bytes that a program of xdp-filter has passed to the next program
seen() {
	local map

	for map in $(bpftool -j prog show id "$1" | jq '.map_ids[]'); do
		bpftool -j map show id "$map" | jq -e '.name == "xdp_stats_map"' >/dev/null || continue
		# 2: XDP_PASS
		bpftool -j map dump id "$map" | jq '[.[].formatted | select(.key == 2).values[].value[""].rx_bytes] | add'
	done
}

# carried LEAST MOST: RDMA transfers 200 KiB to host a; the program that xdp-loader has loaded there passes so many of them
carried() {
	local id before bytes

	id=$(tools a xdp-loader status va | awk '$3 == "xdpfilt_alw_ip" { print $4 }')
	before=$(seen "$id")
	both ibv_rc_pingpong -g @4 -c -n 50
	bytes=$(($(seen "$id") - before))
	echo "$bytes bytes"
	((bytes >= $1 && bytes <= $2))
}

# bats test_tags=stock
@test "--dispatcher: traffic passes a program that xdp-loader loads before or after the daemon" {
	local first=/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_ip.o id

	needs_dispatcher
	tools a xdp-loader load -m native va "$first"
	daemon_up a --dispatcher 50
	equal "programs" "$(programs)" "xdpfilt_alw_ip $(ours)"
	carried 204800 1000000
	daemon_down a
	wait_for 10 alone xdpfilt_alw_ip
	tools a xdp-loader unload --all va
	# with a number below that of the other program, ours runs first, and keeps RDMA packets
	daemon_up a --dispatcher 5
	tools a xdp-loader load -m native va "$first"
	equal "programs" "$(programs)" "$(ours) xdpfilt_alw_ip"
	# what is for the daemon does not come to the other program, and what is for the kernel does
	carried 0 100000
	on b ping -q -c 2 -i 0.05 -W 20 "$A4"
	id=$(tools a xdp-loader status va | awk '$3 == "xdpfilt_alw_ip" { print $4 }')
	tools a xdp-loader unload -i "$id" va
	equal "programs" "$(programs)" "$(ours)"
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
	wait_for 10 alone ""
}

# bats test_tags=stock
@test "--dispatcher: xdpdump captures packets of the daemon's program" {
	needs_dispatcher
	daemon_up a --dispatcher 50
	dump "$(ours)"
	daemon_down a
}

# bats test_tags=stock
@test "--dispatcher: the program of a daemon that was killed is removed" {
	needs_dispatcher
	daemon_up a --dispatcher 50
	daemon_down a KILL
	wait_for 10 alone ""
	# Also if the process that removes it was killed
	daemon_up a --dispatcher 50
	pkill -KILL -P "$(daemon_pid a)" -x xroced-detach
	daemon_down a KILL
	equal "programs" "$(programs)" "$(ours)"
	daemon_up a --dispatcher 50
	equal "programs" "$(programs)" "$(ours)"
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
	wait_for 10 alone ""
}

# manager: a socket in place of that of the service manager; its messages go to $RUN/told
manager() {
	python3 - "$RUN/notify" >"$RUN/told" <<'PYTHON' 3>&- &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    print(s.recv(4096).decode(), flush=True)
PYTHON
	MANAGER=$!
	listening() { [[ -S $RUN/notify ]]; }
	wait_for 20 listening
	chmod 666 "$RUN/notify"
}

# shows_attached BOOLEAN NUMBER: xroce status and metrics show whether the program is attached
shows_attached() {
	equal "status" "$(status_of a .xdp.attached)" "$1"
	equal "metric" "$(ctl a metrics xra | grep '^xroce_xdp_attached')" "xroce_xdp_attached{device=\"xra\"} $2"
}

# starts_watched [OPTION...]: starts the daemon of host a with a service manager and a reader of events
starts_watched() {
	daemon_down a
	manager
	NOTIFY_SOCKET=$RUN/notify daemon_up a "$@"
	: >"$RUN/a/log"
	shows_attached true 1
	"$XROCE" -r "$RUN/a" monitor xra event xdp </dev/null >"$RUN/events" 3>&- &
	READER=$!
	# the socket of the connection, and that of the events
	reads() { (($(find "/proc/$READER/fd" -lname 'socket:*' | wc -l) == 2)); }
	wait_for 10 reads
}

# reports_removal: the log, the service manager, a monitor, status and metrics tell that the program was removed
reports_removal() {
	wait_for 10 test -s "$RUN/events"
	grep -q ' xra xdp state removed$' "$RUN/events"
	equal "messages" "$(grep -c "$REMOVED" "$RUN/a/log")" 1
	wait_for 10 grep -q 'STATUS=xra serves va (link up, XDP removed by somebody, ' "$RUN/told"
	shows_attached false 0
	ctl a status xra | grep -Eq '^  attached +no$'
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
}

ends_watched() {
	kill "$MANAGER" "$READER"
	rm "$RUN/notify" "$RUN/told" "$RUN/events"
	daemon_down a
}

REMOVED="another program has removed the XDP program from va: no RDMA packets arrive until xroced is restarted"

# bats test_tags=stock
@test "the daemon reports that root has detached its XDP program, and a restart attaches it again" {
	local link

	starts_watched
	link=$(bpftool -j link show | jq --argjson id "$(on a ip -j -d link show va | jq '.[0].xdp.prog.id')" \
		'.[] | select(.prog_id == $id) | .id')
	bpftool link detach id "$link"
	reports_removal
	ends_watched
	daemon_up a
	shows_attached true 1
	both ibv_rc_pingpong -g @4 -c -n 50
}

# bats test_tags=stock
@test "--dispatcher: the daemon reports that another program has removed that of the daemon, and a restart attaches it" {
	needs_dispatcher
	starts_watched --dispatcher 50
	tools a xdp-filter load -m native va -f udp
	tools a xdp-filter unload va
	both ibv_rc_pingpong -g @4 -c -n 50
	sleep $((2 * SLOW))
	not grep -q "$REMOVED" "$RUN/a/log"
	shows_attached true 1
	tools a xdp-loader unload --all va
	reports_removal
	ends_watched
	daemon_up a --dispatcher 50
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
	wait_for 10 alone ""
}

@test "--dispatcher: a kernel that refuses the dispatcher is named" {
	local with

	daemon_down a
	tools a xdp-loader load -m native va "$OTHER"
	with=$(tools a xdp-loader status va | grep -c xdp_dispatcher || true)
	tools a xdp-loader unload --all va
	((with == 0)) || skip "this kernel permits the dispatcher of libxdp"
	run refused --dispatcher 50
	echo "$output"
	[[ $status == 0 && $output == *"--dispatcher: the kernel refuses the dispatcher of libxdp"* ]]
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
}
