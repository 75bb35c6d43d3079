# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Two hosts on one machine, for the end-to-end tests and the demo:
#
#        host a                                          host b
#   +--------------------------+            +--------------------------+
#   | xroced: device xra       |            | xroced: device xrb       |
#   |   sockets in $RUN/a      |            |   sockets in $RUN/b      |
#   |                          |    veth    |                          |
#   |   va  10.77.0.1/24  =====|============|=====  vb  10.77.0.2/24   |
#   |       fd77::1/64         |  MTU $MTU  |       fd77::2/64         |
#   +--------------------------+            +--------------------------+
#        network namespace $ID-a                network namespace $ID-b
#
#   $RUN/bpf    a separate BPF file system: $RUN/bpf/xroce/xra and .../xrb
#
# The hosts have only network namespaces of their own. Programs enter them with nsenter: `ip netns exec` mounts a
# private /sys, which hides the BPF file system. hosts_up creates everything; hosts_down removes it and fails if
# the daemons left anything behind. sweep removes what killed test runs left behind.
#
# XR_BUILD must be the build directory. Every wait has a time limit.

: "${XR_BUILD:?}"
# shellcheck source=shell.bash
source "${BASH_SOURCE[0]%/*}/shell.bash"
XROCED=$XR_BUILD/xroced
XROCE=$XR_BUILD/xroce
PORT=18515		# TCP port of the program under test; may be changed before calling `both`
SLOW=${XR_SLOW:-1}	# factor for emulated machines: time limits are multiplied by it, repetitions divided
A4=10.77.0.1 B4=10.77.0.2 A6=fd77::1 B6=fd77::2

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

kernel_at_least() {
	[[ $(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1) == "$1" ]]
}

# Without multi-buffer AF_XDP a packet must fit into one page, which limits the MTU of veth with a native XDP program.
# shellcheck disable=SC2034	# used by tests
if kernel_at_least 6.6; then
	MTU=9000 PMTU=4096
else
	MTU=3506 PMTU=2048
fi

# In sanitizer builds, prints the runtime library, which has to be preloaded first.
sanitizer_preload() {
	ldd "$XR_BUILD/libxroce.so" 2>/dev/null |
		awk '/lib[at]san/ { printf "%s%s", sep, $3; sep = ":" }'
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds; fails after SECONDS
wait_for() {
	local deadline=$((SECONDS + $1 * SLOW))

	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS <= deadline)) || return 1
		nap 0.02
	done
}

# few N: prints the number of repetitions to use in place of N on an emulated machine, at least 3
few() {
	local n=$(($1 / SLOW))

	echo $((n < 3 ? 3 : n))
}

# some ITEM...: prints all items; on an emulated machine the first, the middle and the last
some() {
	((SLOW == 1 || $# <= 3)) || set -- "$1" "${@:($# + 1) / 2:1}" "${@: -1}"
	echo "$@"
}

not() {
	! "$@"
}

# ---- hosts ------------------------------------------------------------------------

# on HOST COMMAND...: runs a command in the network namespace of the host
on() {
	local netns=/run/netns/$ID-$1

	shift
	nsenter --net="$netns" -- "$@"
}

# run_on HOST PROGRAM...: runs a program with the device of the host, by `xroce run`
run_on() {
	local h=$1

	shift
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0 \
		nsenter --net="/run/netns/$ID-$h" -- "$XROCE" run -r "$RUN/$h" "$@"
}

# spawn HOST FILE PROGRAM...: like run_on, in the background with output to FILE; $! is the process of the program
spawn() {
	local h=$1 file=$2

	shift 2
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0 nsenter --net="/run/netns/$ID-$h" -- \
		"$XROCE" run -r "$RUN/$h" "$@" </dev/null >"$file" 2>&1 3>&- &
}

# ctl HOST ARG...: runs the xroce command for the daemon of the host
ctl() {
	local h=$1

	shift
	"$XROCE" -r "$RUN/$h" "$@"
}

make_netns() {
	local h=$1 ns=$ID-$1

	ip netns add "$ns"
	on "$h" sysctl -q -w net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
	on "$h" ip link set lo up
}

# hosts_up [MTU [QUEUES]]: creates both hosts and the network between them, without daemons
hosts_up() {
	local mtu=${1:-$MTU} queues="numrxqueues ${2:-1} numtxqueues ${2:-1}"

	RUN=$(mktemp -d /run/xroce-test.XXXXXX)
	chmod 755 "$RUN"
	ID=xrt-${RUN##*.}
	SANITIZER=$(sanitizer_preload)
	echo "${BATS_ROOT_PID:-$$}" >"$RUN/owner"
	export RUN ID SANITIZER
	mkdir "$RUN/a" "$RUN/b" "$RUN/bpf"
	mount -t bpf bpf "$RUN/bpf"
	make_netns a
	make_netns b
	# shellcheck disable=SC2086
	ip link add va mtu "$mtu" $queues netns "$ID-a" type veth \
		peer name vb mtu "$mtu" $queues netns "$ID-b"
	on a ip address add "$A4/24" dev va
	on b ip address add "$B4/24" dev vb
	on a ip address add "$A6/64" dev va nodad
	on b ip address add "$B6/64" dev vb nodad
	on a ip link set va up
	on b ip link set vb up
	wait_for 5 on a ping -q -c 1 -W 1 "$B4"
	wait_for 5 on a ping -q -c 1 -W 1 "$B6"
}

# ---- daemons ------------------------------------------------------------------------

daemon_answers() {
	compgen -G "$RUN/$1/*.sock" >/dev/null && [[ $(ctl "$1" list -j) == *'"running"'* ]]
}

daemon_pid() {
	cat "$RUN/$1/pid" 2>/dev/null
}

# daemon_up HOST [OPTION...]: starts the daemon of the host and waits until it serves requests
daemon_up() {
	local h=$1 pid

	shift
	# Spinning would take time from the other processes on the only processor.
	((SLOW == 1)) || set -- --spin-us 0 "$@"
	ASAN_OPTIONS=detect_leaks=${DAEMON_LEAKS:-1} nsenter --net="/run/netns/$ID-$h" -- \
		"$XROCED" --interface "v$h" --name "xr$h" --runtime-dir "$RUN/$h" \
		--bpffs "$RUN/bpf" "$@" </dev/null >>"$RUN/$h/log" 2>&1 3>&- &
	pid=$!
	disown "$pid"
	echo "$pid" >"$RUN/$h/pid"
	daemon_ready() {
		daemon_answers "$h" || ! alive "$pid"
	}
	if ! wait_for 10 daemon_ready || ! alive "$pid"; then
		echo "xroced on host $h did not start:"
		sed 's/^/  /' "$RUN/$h/log"
		return 1
	fi
}

daemons_up() {
	daemon_up a "$@" && daemon_up b "$@"
}

# daemon_down HOST [SIGNAL]: stops the daemon of the host; fails if it does not end or if a sanitizer reported an error
daemon_down() {
	local h=$1 pid

	pid=$(daemon_pid "$h") || return 0
	kill -s "${2:-TERM}" "$pid" 2>/dev/null || true
	if ! wait_for 10 not alive "$pid"; then
		kill -KILL "$pid"
		echo "xroced on host $h did not stop:"
		sed 's/^/  /' "$RUN/$h/log"
		return 1
	fi
	rm -f "$RUN/$h/pid"
	if grep -Eq 'Sanitizer|runtime error:' "$RUN/$h/log"; then
		echo "a sanitizer complained about xroced on host $h:"
		sed 's/^/  /' "$RUN/$h/log"
		return 1
	fi
}

# gid_index HOST ADDRESS: prints the GID index of an address of the host
gid_index() {
	gid_of "$(ctl "$1" status -j "xr$1")" "$2"
}

# counter HOST NAME: prints the number of packets with a reason, or a counter of the transport
counter() {
	ctl "$1" counters -j "xr$1" | jq -er --arg n "$2" \
		'[.xdp[], .transport[]] | .[] | select(.name == $n) | .packets // .value'
}

# objects HOST [NAME]: prints the number of objects of each kind, or of the kind NAME
objects() {
	ctl "$1" status -j "xr$1" | jq -cer ".objects${2:+.$2}"
}

# ---- a program on both hosts -----------------------------------------------------------

# listens HOST PORT: succeeds if a TCP socket listens on the port
listens() {
	local pid

	if read -r pid 2>/dev/null <"$RUN/$1/pid" && [[ -r /proc/$pid/net/tcp ]]; then
		tcp_listens "$pid" "$2"
	else
		on "$1" ss -Hltn "sport = :$2" | grep -q .
	fi
}

show_output() {
	local who

	for who in server client; do
		echo "$who ($(cat "$OUT/$who.status" 2>/dev/null || echo "not ended")): $(cat "$OUT/$who.cmd")"
		sed 's/^/  /' "$OUT/$who" 2>/dev/null
	done
}

# run_side SECONDS WHO HOST PROGRAM...: runs a program on a host; writes command, output and status to $OUT/WHO*
run_side() {
	local seconds=$(($1 * SLOW)) who=$2 h=$3 status=0

	shift 3
	echo "$*" >"$OUT/$who.cmd"
	run_on "$h" timeout -k 2 "$seconds" "$@" </dev/null >"$OUT/$who" 2>&1 3>&- || status=$?
	echo "$status" >"$OUT/$who.status"
	return "$status"
}

# Prints the output directory of the pair that uses $PORT.
out() {
	echo "${BATS_TEST_TMPDIR:-$RUN}/out.$PORT"
}

# pair [-t SECONDS] SERVER... -- CLIENT...: runs the server on host a and, once it listens on $PORT, the client on host
# b. Fails if one of them fails, and shows their outputs, which are in $OUT/server and $OUT/client.
pair() {
	local seconds=20 server=() server_pid status=0

	[[ $1 == -t ]] && seconds=$2 && shift 2
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	OUT=$(out)
	rm -rf "$OUT"
	mkdir -p "$OUT"
	run_side "$seconds" server a "${server[@]}" &
	server_pid=$!
	server_ready() {
		listens a "$PORT" || [[ -e $OUT/server.status ]]
	}
	wait_for 10 server_ready || status=1
	run_side "$seconds" client b "$@" || status=$?
	wait "$server_pid" || status=$?
	((status == 0)) || show_output
	return "$status"
}

# for_host HOST ARG...: sets ARGS to the arguments, with @4 and @6 replaced by the GID index of the host's IPv4 and IPv6
# address
for_host() {
	local h=${1^} arg a4 a6

	a4=${h}4 a6=${h}6
	ARGS=()
	for arg in "${@:2}"; do
		case $arg in
		@4) arg=$(gid_index "$1" "${!a4}") || return ;;
		@6) arg=$(gid_index "$1" "${!a6}") || return ;;
		esac
		ARGS+=("$arg")
	done
}

# both [-t SECONDS] PROGRAM ARG...: runs a program as server on host a and as client on host b, as `pair` does; the
# address of the server is the last argument of the client
both() {
	local limit=() server

	[[ $1 == -t ]] && limit=(-t "$2") && shift 2
	# The default ACK timeout of perftest, 67 ms, is too short for an emulated machine.
	[[ $SLOW != 1 && $1 == ib_* ]] && set -- "$@" -u 18
	for_host a "$@" || return
	server=("${ARGS[@]}")
	for_host b "$@" || return
	pair "${limit[@]}" "${server[@]}" -p "$PORT" -- "${ARGS[@]}" -p "$PORT" "$A4"
}

# ---- end ---------------------------------------------------------------------------------

# Prints what the daemons left behind.
leaks() {
	local h left

	for h in a b; do
		left=$(find "$RUN/bpf/xroce/xr$h" -mindepth 1 2>/dev/null)
		[[ -z $left ]] || echo "pins of host $h: ${left//$'\n'/ }"
		[[ ! -e $RUN/$h/xr$h.sock ]] || echo "socket of host $h"
		left=$(ip netns pids "$ID-$h" 2>/dev/null | xargs -r ps -o pid=,state=,args= -p |
			awk '$2 !~ /^Z/')
		[[ -z $left ]] || echo "processes on host $h: ${left//$'\n'/; }"
		left=$(on "$h" bpftool net list dev "v$h" 2>/dev/null | grep -E '^v.*\(')
		[[ -z $left ]] || echo "XDP program on host $h: $left"
	done
}

# remove_hosts RUN: removes the hosts of a test run by force
remove_hosts() {
	local run=$1 id=xrt-${1##*.} h pids

	for h in a b wire; do
		pids=$(ip netns pids "$id-$h" 2>/dev/null) || continue
		# shellcheck disable=SC2086
		[[ -z $pids ]] || kill -KILL $pids 2>/dev/null
		ip netns del "$id-$h"
	done
	mountpoint -q "$run/bpf" && umount -l "$run/bpf"
	rm -rf "$run"
}

# Stops the daemons and removes the hosts. Fails if the daemons left anything behind, and prints it.
hosts_down() {
	local status=0 left

	[[ -n ${RUN:-} && -d $RUN ]] || return 0
	daemon_down a || status=1
	daemon_down b || status=1
	left=$(leaks)
	if [[ -n $left ]]; then
		echo "left behind: $left"
		status=1
	fi
	remove_hosts "$RUN"
	unset RUN
	return $status
}

# Removes the hosts of test runs that were killed.
sweep() {
	local run

	for run in /run/xroce-test.*; do
		[[ -r $run/owner ]] && ! alive "$(cat "$run/owner")" && remove_hosts "$run"
	done
	return 0
}
