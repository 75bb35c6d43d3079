#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# A daemon without privileges and programs that use it, for 12-anywhere.bats: everything runs as whoever runs this, in
# whatever container or sandbox that is.
#
#   anywhere.bash FOLDER INTERFACE ADDRESS [OPTION...]
#
# FOLDER is for sockets and logs, the options are those of xroced. Ends with status 0 and the line "everything works", or
# prints what does not.

set -eu
cd "$(dirname "$0")/../.."
XR_BUILD=${XR_BUILD:-$PWD/build}
# shellcheck source=../lib/shell.bash
source selftests/lib/shell.bash

dir=$1 interface=$2 address=$3
shift 3
xroced=$XR_BUILD/xroced xroce=$XR_BUILD/xroce
port=20000
mkdir -p "$dir"

show() {
	echo "failed: $1"
	shift
	tail -n 30 "$@" "$dir/log"
	exit 1
}

with_device() {
	timeout $((40 * SLOW)) "$xroce" run -r "$dir" "$@"
}

# ---- the daemon --------------------------------------------------------------------------------

started() {
	[[ $("$xroce" -r "$dir" list -j 2>/dev/null) == *'"running"'* ]] || ! alive "$daemon"
}

start() {
	"$xroced" --interface "$interface" --name xr0 --runtime-dir "$dir" "$@" </dev/null >"$dir/log" 2>&1 &
	daemon=$!
	trap 'kill "$daemon" 2>/dev/null || true' EXIT
	wait_for 10 started || true
	alive "$daemon" || show "xroced does not start"
}

# field FILE NAME: prints a field of /proc/PID/status
field() {
	local name value

	while read -r name value; do
		[[ $name != "$2:" ]] || echo "$value"
	done <"$1"
}

# Each process of the daemon has given up what it had, and filters its system calls.
check_processes() {
	local pid children n=0

	children=$(<"/proc/$daemon/task/$daemon/children")
	for pid in $daemon $children; do
		n=$((n + 1))
		[[ $(field "/proc/$pid/status" NoNewPrivs) == 1 ]] || show "no_new_privs of process $pid is not set"
		[[ $(field "/proc/$pid/status" Seccomp) == 2 ]] || show "process $pid has no seccomp filter"
		[[ $(field "/proc/$pid/status" CapBnd) =~ ^0+$ || $pid != "$daemon" || $bounded == no ]] ||
			show "the bounding set of process $pid is not empty"
		[[ $mine != none || $(field "/proc/$pid/status" CapPrm) =~ ^0+$ ]] || show "process $pid has capabilities"
	done
	((n >= 3)) || show "$n processes instead of daemon, helper and spawner"
	if grep 'are not limited' "$dir/log"; then
		show "Landlock or seccomp is not in force"
	fi
}

# ---- programs ----------------------------------------------------------------------------------

# pair SERVER... -- CLIENT...: runs both, with @ replaced by a port that the server listens on
pair() {
	local server=() pid

	port=$((port + 1))
	while [[ $1 != -- ]]; do
		server+=("${1/#@/$port}")
		shift
	done
	shift
	with_device "${server[@]}" >"$dir/server" 2>&1 &
	pid=$!
	up() { tcp_listens $$ "$port" || "$xroce" -r "$dir" cm -j xr0 | grep -q "\b$port\b" || ! alive "$pid"; }
	wait_for 10 up || show "${server[*]} does not listen" "$dir/server"
	with_device "${@/#@/$port}" >"$dir/client" 2>&1 || show "$*" "$dir/server" "$dir/client"
	wait $pid || show "${server[*]}" "$dir/server" "$dir/client"
	echo "works: $*"
}

multicast() {
	local pid

	with_device mckey -m 239.7.7.7 -b "$address" >"$dir/server" 2>&1 &
	pid=$!
	joined() { "$xroce" -r "$dir" mcast -j xr0 | grep -q 239.7.7.7; }
	wait_for 5 joined || show "mckey does not join" "$dir/server"
	with_device mckey -m 239.7.7.7 -b "$address" -s >"$dir/client" 2>&1 || show "mckey -s" "$dir/client"
	wait $pid || show "mckey" "$dir/server"
	grep -q 'return status 0' "$dir/server" || show "mckey" "$dir/server"
	echo "works: mckey"
}

# What cannot be had is said once. Direct contexts need it not.
shared_memory() {
	local memory=(selftests/e2e/rdma_memory -g "$gid" -t shared-anonymous -p @) n

	memory[0]=$XR_BUILD/${memory[0]}
	pair "${memory[@]}" -- "${memory[@]}" "$address"
	pair "${memory[@]}" -- "${memory[@]}" "$address"
	[[ ${XROCE_PATH-} != direct ]] || return 0
	n=$(grep -c 'not mapped and not pinned.*Operation not permitted' "$dir/log") || true
	((n == 1)) || show "memory that is not mapped is said $n times"
}

# The quota of memory for a user holds.
quota() {
	if with_device ibv_rc_pingpong -g "$gid" -s 33554432 >"$dir/server" 2>&1; then
		show "ibv_rc_pingpong registered more than the quota" "$dir/server"
	fi
	grep -q "Couldn't register MR" "$dir/server" || show "ibv_rc_pingpong" "$dir/server"
	echo "refused: 32 MiB of memory"
}

# ---- all of it ----------------------------------------------------------------------------------

mine=none bounded=yes
[[ $(field /proc/self/status CapPrm) =~ ^0+$ ]] || mine=some
# without CAP_SETPCAP nobody can empty it
[[ $mine == some ]] || bounded=no
start --user-max-pinned 16M "$@"
check_processes
status=$("$xroce" -r "$dir" status -j xr0)
[[ $status =~ \"io\":\ *\"socket\" ]] || show "the device does not use sockets: $status"
gid=$(gid_of "$status" "$address") || show "$address is no GID: $status"

pair ibv_rc_pingpong -g "$gid" -p @ -c -s 65536 -n 100 -- ibv_rc_pingpong -g "$gid" -p @ -c -s 65536 -n 100 "$address"
pair ibv_rc_pingpong -g "$gid" -p @ -c -s 4000000 -n 10 -- ibv_rc_pingpong -g "$gid" -p @ -c -s 4000000 -n 10 "$address"
pair rping -s -a "$address" -p @ -C 10 -v -V -- rping -c -a "$address" -p @ -C 10 -v -V
pair ibv_ud_pingpong -g "$gid" -p @ -n 100 -s 1024 -- ibv_ud_pingpong -g "$gid" -p @ -n 100 -s 1024 "$address"
pair ib_write_bw -x "$gid" -p @ -F -n 500 -- ib_write_bw -x "$gid" -p @ -F -n 500 "$address"
multicast
shared_memory
quota

cp "$dir/log" "$dir/log.1"
kill "$daemon"
wait "$daemon" || show "xroced ended with an error"
trap - EXIT
left=$(find "$dir" -name 'xr0*')
[[ -z $left ]] || show "left behind: $left"
cat "$dir/log.1"
echo "everything works"
