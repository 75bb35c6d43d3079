#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Memory of a program that the daemon cannot reach, or not soon, harms no other program: movers access it. Neither do many
# requests.

load helpers

setup_file() {
	requires root
	daemon_path "it does not access the memory of direct programs"
	[[ -c /dev/fuse ]] || skip "needs /dev/fuse"
	hosts_up
	daemons_up
	mkdir "$RUN/fs"
}

teardown_file() {
	stop_fs
	hosts_down
}

teardown() {
	[[ -n ${BATS_TEST_COMPLETED:-} || -z ${PID:-} ]] || kill -KILL "$PID" || true
	report_failure
}

# Mounts the file system that never answers reads.
start_fs() {
	"$BIN/hanging_fs" "$RUN/fs" >"$RUN/fs.log" 2>&1 3>&- &
	echo $! >"$RUN/fs.pid"
	disown
	wait_for 5 grep -q mounted "$RUN/fs.log" || { cat "$RUN/fs.log"; return 1; }
}

# Everything that waits for the file system goes on with errors.
stop_fs() {
	[[ -s $RUN/fs.pid ]] || return 0
	kill "$(cat "$RUN/fs.pid")" 2>/dev/null || true
	umount -l "$RUN/fs"
	rm -f "$RUN/fs.pid"
}

# neighbour FILE ARG...: starts rdma_neighbours on host a with its output in a file; $! is its PID
neighbour() {
	local file=$1

	shift
	spawn a "$file" "$BIN/rdma_neighbours" "$(gid_index a "$A4")" "$@"
}

# expect_output TEXT MODE ARG...: starts rdma_neighbours without adoption, and waits until it prints the text. Sets PID.
#
# XROCE_ADOPT=never: all memory is private. A userfaultfd of the program would also wait for its own memory when it is
# killed.
expect_output() {
	local log=$BATS_TEST_TMPDIR/log

	XROCE_ADOPT=never neighbour "$log" "${@:2}"
	PID=$!
	disown
	printed() {
		grep -q "$1" "$log" || ! alive "$PID"
	}
	wait_for 20 printed "$1"
	grep -q "$1" "$log" || { cat "$log"; return 1; }
}

# with_fs MODE ARG...: starts the file system and rdma_neighbours, which prints "posted". Sets PID.
with_fs() {
	stop_fs
	start_fs
	expect_output posted "$@"
}

# hang [read|flush]: starts a program whose memory, or whose descriptor, hangs, and waits until something of the daemon
# hangs in it. Sets PID.
hang() {
	if [[ ${1:-read} == read ]]; then
		with_fs hang "$RUN/fs/file"
	else
		with_fs close "$RUN/fs/flush"
	fi
	wait_for 10 grep -q "${1:-read}" "$RUN/fs.log"
}

# waits_long: whether `xroce client` shows an access that waits
waits_long() {
	ctl a client -j xra | jq -e 'any(.waiting_us > 0 and .accesses > 0 and .mover > 0)' >/dev/null
}

gone() {
	! ctl a client -j xra | jq -e "any(.pid == $1)" >/dev/null
}

# bats test_tags=stock
@test "a program whose memory hangs delays no other program" {
	hang
	wait_for 5 waits_long
	both ibv_rc_pingpong -g @4 -c -n 20
	both_on_a ibv_rc_pingpong -g @4 -c -n 20
	alive "$PID"
	waits_long
	kill -KILL "$PID"
	stop_fs
}

@test "a program whose memory hangs ends when it is killed" {
	hang
	kill -KILL "$PID"
	wait_for 5 not alive "$PID"
	wait_for 5 gone "$PID"
	both ibv_rc_pingpong -g @4 -c -n 20
}

# restart_while_hanging SIGNAL [read|flush]: ends the daemon while memory or a descriptor hangs, and starts a new one
restart_while_hanging() {
	hang "${2:-read}"
	daemon_down a "$1"
	daemon_up a
	both ibv_rc_pingpong -g @4 -c -n 20
	kill -KILL "$PID"
	stop_fs
}

@test "the daemon can be stopped and started while memory of a program hangs" {
	restart_while_hanging TERM
}

@test "the daemon can be killed and started while memory of a program hangs" {
	restart_while_hanging KILL
}

@test "a descriptor whose close() hangs delays no other program, and neither stop nor start of the daemon" {
	hang flush
	both ibv_rc_pingpong -g @4 -c -n 20
	kill -KILL "$PID"
	restart_while_hanging TERM flush
	restart_while_hanging KILL flush
}

# not_asked MODE: rdma_neighbours is served, and nothing asks the file system about the file "once"
not_asked() {
	with_fs "$1" "$RUN/a/xra.sock" "$RUN/fs/once"
	fails grep -E 'stat|open' "$RUN/fs.log"
	kill -KILL "$PID"
	wait_for 5 gone "$PID"
	stop_fs
}

@test "shared memory of a file is registered without asking its file system, which may hang" {
	not_asked register
}

@test "a file in place of the process's memory is refused without asking its file system" {
	not_asked proc
}

# io PID: prints the number of bytes that the process has read and written by system calls, /proc/self/mem included
io() {
	awk '/^[rw]char/ { n += $2 } END { print n }' "/proc/$1/io"
}

# moves MODE ARG... N: while rdma_neighbours does N WRITEs of 1 MiB, its mover reads and writes these bytes, and the daemon
# does not. Whoever accesses such memory also waits for mprotect(), for write-back, and for the end of the address space.
moves() {
	local daemon mover bytes=$((${!#} << 20)) before after

	daemon=$(daemon_pid a)
	before=$(io "$daemon")
	expect_output completed "$@"
	after=$(io "$daemon")
	mover=$(ctl a client -j xra | jq ".[] | select(.pid == $PID) | .mover")
	echo "bytes of the daemon: $((after - before)), of the mover: $(io "$mover"), of the messages: $bytes"
	(($(io "$mover") >= bytes && after - before < bytes / 4))
}

end_program() {
	kill -KILL "$PID"
	wait_for 10 gone "$PID"
}

@test "a mover writes to shared memory of a disk file" {
	moves file "$XR_BUILD/neighbours.$$" "$(iterations 20)"
	end_program
	rm "$XR_BUILD/neighbours.$$"
}

# bats test_tags=stock
@test "a mover reads memory whose protection changes all the time" {
	moves protect "$(iterations 20)"
	end_program
}

@test "a mover accesses the memory of a big program that is killed" {
	moves big "$(iterations 20)"
	end_program
	both ibv_rc_pingpong -g @4 -c -n 20
}

# as_user LOG: starts, as a user without privileges, rdma_neighbours whose memory hangs; $! is its PID
as_user() {
	XROCE_ADOPT=never XROCE_DEBUG=1 spawn a "$1" setpriv --reuid 1001 --regid 65534 --clear-groups \
		"$BIN/rdma_neighbours" "$(gid_index a "$A4")" hang "$RUN/fs/file"
}

# counted NUMBER: whether the user has so many processes of the daemon and no programs
counted() {
	ctl a limits -j xra | jq -e ".users[] | select(.uid == 1001) | .processes == $1 and .clients == 0" >/dev/null
}

forgotten() {
	counted 0 || ! ctl a limits -j xra | jq -e 'any(.users[]; .uid == 1001)' >/dev/null
}

@test "movers that programs of a user leave hanging count for the user, up to a limit" {
	local log=$BATS_TEST_TMPDIR/log i group

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	daemon_down a
	daemon_up a --group "$group" --user-max-processes 5
	start_fs
	for i in {1..6}; do
		as_user "$log.$i"
		PID=$!
		disown
		over() { grep -q posted "$log.$i" || ! alive "$PID"; }
		wait_for 20 over || { echo "program $i"; cat "$log.$i"; cat "/proc/$PID/wchan" "/proc/$PID/stack"; return 1; }
		accessed() { ! alive "$PID" || waits_long; }
		wait_for 20 accessed
		kill -KILL "$PID" || true
		wait_for 10 gone "$PID"
		wait_for 10 counted $((i < 4 ? i : 4)) || { ctl a limits -j xra | jq .users; cat "$log.$i"; return 1; }
	done
	grep -q "REG_MR: .*: --user-max-processes is 5" "$log.5"
	both ibv_rc_pingpong -g @4 -c -n 20
	stop_fs
	wait_for 10 forgotten
	daemon_down a
	daemon_up a
}

# waits_for_turn: whether requests of the program have waited because of --client-max-load, beside other traffic
waits_for_turn() {
	both ibv_rc_pingpong -g @4 -c -n 1000
	ctl a client -j xra | jq -e "any(.pid == $PID and .delays > 10)" >/dev/null
}

@test "a program whose requests take more processor time than its share waits beside others, which do not" {
	daemon_down a
	daemon_up a --client-max-load 1
	expect_output requests requests
	wait_for 20 waits_for_turn
	end_program
	ctl a client -j xra | jq -e 'all(.delays == 0)'
}
