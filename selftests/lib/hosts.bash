# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Two hosts on one machine, for the end-to-end tests, the demo and the benchmark:
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
#   $RUN/bpf    BPF file system of this run, with $RUN/bpf/xroce/xra and .../xrb
#
# A host is a network namespace and nothing else. It is entered by nsenter: `ip netns exec` mounts a private
# /sys, which hides the BPF file system. hosts_up creates both hosts; hosts_down removes them and fails if the
# daemons left anything behind. `sweep` removes the hosts of killed runs.
#
# Needs XR_BUILD, the build folder. Every wait has a time limit.

: "${XR_BUILD:?}"
# shellcheck source=shell.bash
source "${BASH_SOURCE[0]%/*}/shell.bash"
XROCED=$XR_BUILD/xroced
XROCE=$XR_BUILD/xroce
PORT=18515		# TCP port of the program under test; may be changed before `pair` and `both`
DAEMON_USER=64791	# no account of the machine; a number needs none
# In a user namespace with one user there is none that the daemon could become.
awk '{ n += $3 } END { exit n > 65535 }' /proc/self/uid_map && DAEMON_USER=
A4=10.77.0.1 B4=10.77.0.2 A6=fd77::1 B6=fd77::2

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# XR_PATH: how device contexts of the programs work
export XROCE_PATH=${XR_PATH:-${XROCE_PATH:-daemon}}

# direct_contexts: whether device contexts of the programs are to be direct
direct_contexts() {
	[[ $XROCE_PATH == direct ]]
}

# packets_by: prints the way of the daemons' packets, XR_IO: xdp unless it says so; auto: what xroced chooses. Slots for direct
# contexts are UDP sockets.
packets_by() {
	local way=xdp

	[[ ${XR_PATH:-daemon} == daemon ]] || way=socket
	echo "${XR_IO:-$way}"
}

kernel_at_least() {
	[[ $(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1) == "$1" ]]
}

# Without multi-buffer AF_XDP a packet must fit into one page; native XDP on veth then needs an MTU of at most 3506.
# shellcheck disable=SC2034	# used by tests
if kernel_at_least 6.6; then
	MTU=9000 PMTU=4096
else
	MTU=3506 PMTU=2048
fi

# Sanitizer builds: the sanitizer's runtime must be the first library of every program. Leak detection is off
# for programs of the distribution, and use_sigaltstack=0 avoids a false report when a cancelled thread frees its signal stack.
sanitizer_preload() {
	ldd "$XR_BUILD/libxroce.so" 2>/dev/null |
		awk '/lib[at]san/ { printf "%s%s", sep, $3; sep = ":" }'
}

# iterations N: prints a number of repetitions: N at full speed, else N / SLOW, at least 3
iterations() {
	local n=$(($1 / SLOW))

	echo $((n < 3 ? 3 : n))
}

# sample ITEM...: prints all items at full speed, else the first, the middle and the last
sample() {
	((SLOW == 1 || $# <= 3)) || set -- "$1" "${@:($# + 1) / 2:1}" "${@: -1}"
	echo "$@"
}

not() {
	! "$@"
}

# ---- hosts ------------------------------------------------------------------------

# on HOST COMMAND...: runs the command in the host's network namespace
on() {
	local netns=/run/netns/$ID-$1

	shift
	nsenter --net="$netns" -- "$@"
}

# run_on HOST PROGRAM...: runs the program on the host under `xroce run`
run_on() {
	local h=$1

	shift
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 \
		nsenter --net="/run/netns/$ID-$h" -- "$XROCE" run -r "$RUN/$h" "$@"
}

# spawn HOST FILE PROGRAM...: run_on in the background, with the output in FILE; $! is the program's own PID
spawn() {
	local h=$1 file=$2

	shift 2
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 nsenter --net="/run/netns/$ID-$h" -- \
		"$XROCE" run -r "$RUN/$h" "$@" </dev/null >"$file" 2>&1 3>&- &
}

# ctl HOST ARG...: runs the xroce command for the host's daemon
ctl() {
	local h=$1

	shift
	"$XROCE" -r "$RUN/$h" "$@"
}

# status_of HOST FILTER: applies a jq filter to the output of xroce status
status_of() {
	ctl "$1" status -j "xr$1" | jq -r "$2"
}

make_netns() {
	local h=$1 ns=$ID-$1

	ip netns add "$ns"
	on "$h" sysctl -q -w net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
	on "$h" ip link set lo up
}

# Adds addresses to va and vb, brings both up and waits until the hosts reach each other.
configure_links() {
	on a ip address add "$A4/24" dev va
	on b ip address add "$B4/24" dev vb
	on a ip address add "$A6/64" dev va nodad
	on b ip address add "$B6/64" dev vb nodad
	on a ip link set va up
	on b ip link set vb up
	wait_for 5 on a ping -q -c 1 -W 1 "$B4"
	wait_for 5 on a ping -q -c 1 -W 1 "$B6"
}

# hosts_up [MTU [QUEUES]]: creates both hosts and the link between them, without daemons
hosts_up() {
	local mtu=${1:-$MTU} queues="numrxqueues ${2:-1} numtxqueues ${2:-1}"

	RUN=$(mktemp -d /run/xroce-test.XXXXXX)
	chmod 755 "$RUN"
	ID=xrt-${RUN##*.}
	SANITIZER=$(sanitizer_preload)
	echo "${BATS_ROOT_PID:-$$}" >"$RUN/owner"
	export RUN ID SANITIZER
	mkdir "$RUN/a" "$RUN/b" "$RUN/bpf"
	[[ -z $DAEMON_USER ]] || mount -t bpf bpf "$RUN/bpf"
	make_netns a
	make_netns b
	# shellcheck disable=SC2086
	ip link add va mtu "$mtu" $queues netns "$ID-a" type veth \
		peer name vb mtu "$mtu" $queues netns "$ID-b"
	configure_links
}

# ---- daemons ------------------------------------------------------------------------

daemon_running() {
	compgen -G "$RUN/$1/*.sock" >/dev/null && [[ $(ctl "$1" list -j) == *'"running"'* ]]
}

daemon_pid() {
	cat "$RUN/$1/pid" 2>/dev/null
}

# daemon_up HOST [OPTION...]: starts xroced on the host and waits until its device is running
daemon_up() {
	local h=$1 pid

	shift
	# Do not spin where four busy processes share one emulated processor. The map of 2 million keys takes seconds there.
	((SLOW == 1)) || set -- --spin-us 0 --max-mr 65536 "$@"
	set -- --io "$(packets_by)" "$@"
	[[ -z ${XR_WORKERS-} ]] || set -- --workers "$XR_WORKERS" "$@"
	ASAN_OPTIONS=detect_leaks=${DAEMON_LEAKS:-1} nsenter --net="/run/netns/$ID-$h" -- \
		"$XROCED" --interface "v$h" --name "xr$h" --runtime-dir "$RUN/$h" \
		--bpffs "$RUN/bpf" --user "$DAEMON_USER" "$@" </dev/null >>"$RUN/$h/log" 2>&1 3>&- &
	pid=$!
	disown "$pid"
	echo "$pid" >"$RUN/$h/pid"
	daemon_ready() {
		daemon_running "$h" || ! alive "$pid"
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

# daemon_down HOST [SIGNAL]: stops xroced on the host; fails if it does not end or a sanitizer reported an error
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
		echo "a sanitizer reported an error in xroced on host $h:"
		sed 's/^/  /' "$RUN/$h/log"
		return 1
	fi
}

# gid_index HOST ADDRESS: prints the index of the GID with that address
gid_index() {
	gid_of "$(ctl "$1" status -j "xr$1")" "$2"
}

# counter HOST NAME: prints the packets of an XDP reason, or a transport counter
counter() {
	ctl "$1" counters -j "xr$1" | jq -er --arg n "$2" \
		'[.xdp[], .transport[]] | .[] | select(.name == $n) | .packets // .value'
}

# objects HOST [NAME]: prints the number of objects of one kind, or of all kinds as JSON
objects() {
	ctl "$1" status -j "xr$1" | jq -cer ".objects${2:+.$2}"
}

has_objects() {
	[[ $(objects "$1" "${@:3}") == "$2" ]]
}

# objects_left HOST EXPECTED [NAME]: the daemon ends what programs had shortly after they have ended
objects_left() {
	wait_for 5 has_objects "$@" || equal "objects left" "$(objects "$1" "${@:3}")" "$2"
}

# ---- pairs of programs -------------------------------------------------------------------

# listens HOST PORT: whether that TCP port listens on the host
listens() {
	local pid

	if read -r pid 2>/dev/null <"$RUN/$1/pid" && [[ -r /proc/$pid/net/tcp ]]; then
		tcp_listens "$pid" "$2"
	else
		on "$1" ss -Hltn "sport = :$2" | grep -q .
	fi
}

show_output() {
	local role

	for role in server client; do
		echo "$role ($(cat "$OUT/$role.status" 2>/dev/null || echo "still running")): $(cat "$OUT/$role.cmd")"
		sed 's/^/  /' "$OUT/$role" 2>/dev/null
	done
}

# run_role SECONDS ROLE HOST PROGRAM...: runs one program of a pair; its output goes to $OUT/ROLE, its exit
# status to $OUT/ROLE.status
run_role() {
	local seconds=$(($1 * SLOW)) role=$2 h=$3 status=0

	shift 3
	echo "$*" >"$OUT/$role.cmd"
	run_on "$h" timeout -k 2 "$seconds" "$@" </dev/null >"$OUT/$role" 2>&1 3>&- || status=$?
	echo "$status" >"$OUT/$role.status"
	return "$status"
}

# Prints the folder for the output of the pair on $PORT.
out() {
	echo "${BATS_TEST_TMPDIR:-$RUN}/out.$PORT"
}

# pair [-t SECONDS] [-c HOST] SERVER... -- CLIENT...: runs the server on host a and, as soon as it listens on
# $PORT, the client on host b (or on HOST). Fails unless both succeed. Outputs are in $OUT/server and
# $OUT/client, and are shown on failure.
pair() {
	local seconds=20 client_host=b server=() server_pid status=0

	[[ $1 == -t ]] && seconds=$2 && shift 2
	[[ $1 == -c ]] && client_host=$2 && shift 2
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	OUT=$(out)
	rm -rf "$OUT"
	mkdir -p "$OUT"
	run_role "$seconds" server a "${server[@]}" &
	server_pid=$!
	server_ready() {
		listens a "$PORT" || ! alive "$server_pid"
	}
	wait_for 10 server_ready || status=1
	run_role "$seconds" client "$client_host" "$@" || status=$?
	wait "$server_pid" || status=$?
	((status == 0)) || show_output
	return "$status"
}

# expand_args HOST ARG...: copies the arguments to ARGS, with @4 and @6 replaced by the index of the host's
# IPv4 or IPv6 GID, and @dev by the name of its device
expand_args() {
	local h=${1^} arg a4 a6

	a4=${h}4 a6=${h}6
	ARGS=()
	for arg in "${@:2}"; do
		case $arg in
		@4) arg=$(gid_index "$1" "${!a4}") || return ;;
		@6) arg=$(gid_index "$1" "${!a6}") || return ;;
		@dev) arg=xr$1 ;;
		esac
		ARGS+=("$arg")
	done
}

# run_both CLIENT_HOST [-t SECONDS] PROGRAM ARG...
run_both() {
	local client_host=$1 limit=() server

	shift
	[[ $1 == -t ]] && limit=(-t "$2") && shift 2
	# perftest's default local ACK timeout is 67 ms; an emulated process may wait longer for a processor
	[[ $SLOW != 1 && $1 == ib_* ]] && set -- "$@" -u 18
	expand_args a "$@" || return
	server=("${ARGS[@]}")
	expand_args "$client_host" "$@" || return
	pair "${limit[@]}" -c "$client_host" "${server[@]}" -p "$PORT" -- "${ARGS[@]}" -p "$PORT" "$A4"
}

# both [-t SECONDS] PROGRAM ARG...: runs the program as server on host a and as client on host b, with the
# usual options: -p for the port and the server's address as the client's last argument
both() {
	run_both b "$@"
}

# both_on_a [-t SECONDS] PROGRAM ARG...: like `both`, with server and client on host a
both_on_a() {
	run_both a "$@"
}

# ---- end ---------------------------------------------------------------------------------

# Prints what the daemons left behind after a clean stop.
leftovers() {
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

nothing_left() {
	[[ -z $(leftovers) ]]
}

# remove_hosts RUN: removes the hosts of any run by force
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

# Stops the daemons and removes the hosts; fails if a daemon left something behind, and prints what.
hosts_down() {
	local status=0 left

	[[ -n ${RUN:-} && -d $RUN ]] || return 0
	daemon_down a || status=1
	daemon_down b || status=1
	# the processes of a daemon end just after it
	wait_for 5 nothing_left || true
	left=$(leftovers)
	if [[ -n $left ]]; then
		echo "left behind: $left"
		status=1
	fi
	remove_hosts "$RUN"
	unset RUN
	return $status
}

# Removes the hosts of runs that were killed.
sweep() {
	local run

	for run in /run/xroce-test.*; do
		[[ -r $run/owner ]] && ! alive "$(cat "$run/owner")" && remove_hosts "$run"
	done
	return 0
}
