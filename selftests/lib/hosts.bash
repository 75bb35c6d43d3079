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
#   $RUN/bpf    a BPF file system of their own: $RUN/bpf/xroce/xra and .../xrb
#
# Hosts are network namespaces and nothing else (nsenter, not `ip netns exec`, whose private /sys would
# hide the BPF file system). hosts_up makes it all, hosts_down removes it all and
# complains about what the daemons left. What a killed run leaves is removed by `sweep`.
#
# Needs XR_BUILD, the build folder. Every wait has a ceiling.

: "${XR_BUILD:?}"
# shellcheck source=shell.bash
source "${BASH_SOURCE[0]%/*}/shell.bash"
XROCED=$XR_BUILD/xroced
XROCE=$XR_BUILD/xroce
PORT=18515		# of the program under test, may be changed before `both`
SLOW=${XR_SLOW:-1}	# an emulated machine: time limits are so many times longer, repetitions fewer
A4=10.77.0.1 B4=10.77.0.2 A6=fd77::1 B6=fd77::2

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

kernel_at_least() {
	[[ $(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1) == "$1" ]]
}

# Before multi-buffer AF_XDP a packet has one page, and veth takes a program in native mode up to this MTU.
# shellcheck disable=SC2034	# for tests
if kernel_at_least 6.6; then
	MTU=9000 PMTU=4096
else
	MTU=3506 PMTU=2048
fi

# Sanitizer builds: the runtime comes before all else, and distribution programs are not to blame for leaks.
sanitizer_preload() {
	ldd "$XR_BUILD/libxroce.so" 2>/dev/null |
		awk '/lib[at]san/ { printf "%s%s", sep, $3; sep = ":" }'
}

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
	local deadline=$((SECONDS + $1 * SLOW))

	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS <= deadline)) || return 1
		nap 0.02
	done
}

# few N: how often to do what is done N times at full speed
few() {
	local n=$(($1 / SLOW))

	echo $((n < 3 ? 3 : n))
}

# some ITEM...: all of them at full speed, else the first, the middle and the last
some() {
	((SLOW == 1 || $# <= 3)) || set -- "$1" "${@:($# + 1) / 2:1}" "${@: -1}"
	echo "$@"
}

not() {
	! "$@"
}

# ---- hosts ------------------------------------------------------------------------

# on HOST COMMAND...: in the host's network
on() {
	local netns=/run/netns/$ID-$1

	shift
	nsenter --net="$netns" -- "$@"
}

# run_on HOST PROGRAM...: as a user would, with xroce's device
run_on() {
	local h=$1

	shift
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0 \
		nsenter --net="/run/netns/$ID-$h" -- "$XROCE" run -r "$RUN/$h" "$@"
}

# spawn HOST FILE PROGRAM...: the same in the background, output to FILE; $! is the program itself
spawn() {
	local h=$1 file=$2

	shift 2
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0 nsenter --net="/run/netns/$ID-$h" -- \
		"$XROCE" run -r "$RUN/$h" "$@" </dev/null >"$file" 2>&1 3>&- &
}

# ctl HOST ARG...: the xroce command for that host's daemon
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

# hosts_up [MTU [QUEUES]]: both hosts and their network, no daemon yet
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

# daemon_up HOST [OPTION...]
daemon_up() {
	local h=$1 pid

	shift
	# four busy processes on one emulated processor: who waits there sleeps
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

# daemon_down HOST [SIGNAL]
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

# gid_index HOST ADDRESS
gid_index() {
	gid_of "$(ctl "$1" status -j "xr$1")" "$2"
}

# counter HOST NAME: packets of a verdict, or a counter of the transport
counter() {
	ctl "$1" counters -j "xr$1" | jq -er --arg n "$2" \
		'[.xdp[], .transport[]] | .[] | select(.name == $n) | .packets // .value'
}

# objects HOST [NAME]
objects() {
	ctl "$1" status -j "xr$1" | jq -cer ".objects${2:+.$2}"
}

# ---- a program on both hosts -----------------------------------------------------------

# listens HOST PORT
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

# run_side SECONDS WHO HOST PROGRAM...: output and status to $OUT
run_side() {
	local seconds=$(($1 * SLOW)) who=$2 h=$3 status=0

	shift 3
	echo "$*" >"$OUT/$who.cmd"
	run_on "$h" timeout -k 2 "$seconds" "$@" </dev/null >"$OUT/$who" 2>&1 3>&- || status=$?
	echo "$status" >"$OUT/$who.status"
	return "$status"
}

# Where the outputs of the pair on $PORT are
out() {
	echo "${BATS_TEST_TMPDIR:-$RUN}/out.$PORT"
}

# pair [-t SECONDS] SERVER... -- CLIENT...: the server on a, the client on b once it listens on
# $PORT. Both must succeed. Outputs are in $OUT/server and $OUT/client, shown on failure.
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

# for_host HOST ARG...: in arguments, @4 and @6 stand for the index of the host's IPv4 or IPv6
# GID. The result is in ARGS.
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

# both [-t SECONDS] PROGRAM ARG...: one of the usual programs on both hosts, the client told
# the server's address
both() {
	local limit=() server

	[[ $1 == -t ]] && limit=(-t "$2") && shift 2
	# perftest's own local ACK timeout is 67 ms; that may pass before a process has its turn
	[[ $SLOW != 1 && $1 == ib_* ]] && set -- "$@" -u 18
	for_host a "$@" || return
	server=("${ARGS[@]}")
	for_host b "$@" || return
	pair "${limit[@]}" "${server[@]}" -p "$PORT" -- "${ARGS[@]}" -p "$PORT" "$A4"
}

# ---- end ---------------------------------------------------------------------------------

# Nothing of ours may be left after a clean stop.
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

# remove_hosts RUN: by force, whoever made them
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

# Stops daemons and removes everything; fails, and says why, where they left something.
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

# Hosts of runs that were killed
sweep() {
	local run

	for run in /run/xroce-test.*; do
		[[ -r $run/owner ]] && ! alive "$(cat "$run/owner")" && remove_hosts "$run"
	done
	return 0
}
