#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# xroce run --start: a daemon for one user, from nothing to a running program. The first tests have a stand-in for the
# daemon (stand_in.py), the last ones use xroced without privileges.

load helpers

setup_file() {
	requires python3
}

teardown_file() {
	return 0
}

# A folder with the commands and the stand-in, and one for the user's files: paths of sockets must be short.
setup() {
	WORK=$(mktemp -d /tmp/xroce-test.XXXXXX)
	export XDG_RUNTIME_DIR=$WORK/session
	unset XROCE_RUNTIME_DIR XROCE_START STAND_IN
	mkdir -m 700 "$WORK/session"
	mkdir "$WORK/bin"
	chmod 755 "$WORK"
	cp "$XROCE" "$XR_BUILD/libxroce.so" "$WORK/bin/"
	cp "$BATS_TEST_DIRNAME/stand_in.py" "$WORK/bin/xroced"
	OWN=$WORK/bin/xroce
	DIR=$WORK/session/xroce
}

# Kills what the test has started: the processes whose command line names its folder.
teardown() {
	local pid

	for pid in $(pgrep -f -- "--runtime-dir $WORK/"); do
		kill "$pid" || true
		wait_for 10 not alive "$pid"
	done
	rm -rf "$WORK"
}

starts() {
	[[ -e $1/starts ]] || { echo 0; return; }
	wc -l <"$1/starts"
}

no_other_daemon() {
	! compgen -G '/run/xroce/*.sock' >/dev/null || skip "a daemon of root runs on this machine"
}

@test "a daemon is started in the session's directory, and the program finds it" {
	no_other_daemon
	run -0 --separate-stderr "$OWN" run --start printenv XROCE_RUNTIME_DIR
	# shellcheck disable=SC2154	# of bats
	echo "$stderr"
	equal "directory" "$output" "$DIR"
	[[ $stderr == "xroce: started xroced (pid "*"): device xr_lo on lo, it ends 30 s after its last program; programs of \
this user only, through UDP sockets without XDP, none of other hosts or network namespaces; log: $DIR/xroced.log" ]]
	equal "lines" "$(wc -l <<<"$stderr")" 1
	equal "mode" "$(stat -c %a "$DIR")" 700
	equal "options" "$(cat "$DIR/starts")" "--interface lo --runtime-dir $DIR --io socket --exit-idle 30 --group "
	equal "open files, session, environment" "$(cat "$DIR/xroced.log")" "open: 0 1 2 session: True preload: None"
}

@test "the next program uses the same daemon, also without --start and without xroce run" {
	no_other_daemon
	"$OWN" run --start true
	run -0 "$OWN" run --start printenv XROCE_RUNTIME_DIR
	equal "output" "$output" "$DIR"
	equal "output" "$("$OWN" run printenv XROCE_RUNTIME_DIR 2>&1)" "$DIR"
	equal "device" "$("$OWN" list -j | jq -c '[.[] | [.device, .interface]]')" '[["xr_lo","lo"]]'
	equal "starts" "$(starts "$DIR")" 1
	[[ -n $SANITIZER ]] || [[ $(LD_PRELOAD=$WORK/bin/libxroce.so ibv_devices) == *xr_lo* ]]
}

@test "a program that waits for its children does not see the daemon" {
	no_other_daemon
	run -0 --separate-stderr "$OWN" run --start python3 -c '
import os
try:
    os.wait()
except ChildProcessError:
    print("none")'
	equal "children" "$output" none
}

@test "ten programs that start at the same time start one daemon" {
	no_other_daemon
	local i pids=() status=0

	export STAND_IN=slow
	for i in {1..10}; do
		"$OWN" run --start printenv XROCE_RUNTIME_DIR >"$WORK/out.$i" 2>"$WORK/err.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=$?
	done
	equal "starts" "$(starts "$DIR")" 1
	equal "directories" "$(sort -u "$WORK"/out.*)" "$DIR"
	equal "messages" "$(cat "$WORK"/err.* | wc -l)" 1
	((status == 0))
}

@test "--start=IF and XROCE_START choose the interface, --start-idle the time" {
	no_other_daemon
	ip -brief link show dev lo
	run -1 "$OWN" run --start=nosuch true
	echo "$output"
	[[ $output == *"there is no interface 'nosuch'"* ]]
	[[ ! -e $DIR ]]
	run -2 "$OWN" run --start --start-idle soon true
	[[ $output == *"'soon' is not a number of seconds"* ]]
	XROCE_START=0 run -0 "$OWN" run true
	equal "starts" "$(starts "$DIR")" 0
	XROCE_START=lo run -0 "$OWN" run --start-idle 0 true
	echo "$output"
	[[ $output == *"device xr_lo on lo, it does not end by itself"* ]]
	XROCE_START=1 run -0 "$OWN" run true
	equal "options" "$(cat "$DIR/starts")" "--interface lo --runtime-dir $DIR --io socket --exit-idle 0 --group "
}

@test "a daemon that serves another interface does not satisfy --start=IF" {
	no_other_daemon
	requires ip unshare
	# shellcheck disable=SC2016	# for the inner shell
	run -0 unshare -rn bash -c 'ip link add v0 type veth peer name v1 && "$1" run --start=v0 true && "$1" run --start true &&
		"$1" run --start=lo true && "$1" run --start=v0 true' sh "$OWN"
	echo "$output"
	equal "starts" "$(cut -d' ' -f2 "$DIR/starts" | xargs)" "v0 lo"
}

@test "a daemon that does not start is reported with the last line of its log" {
	no_other_daemon
	STAND_IN=fail run -1 "$OWN" run --start true
	echo "$output"
	[[ $output == *"$WORK/bin/xroced has ended: stand-in: cannot do it; see $DIR/xroced.log" ]]
	# the lock and the log of a failed start do not disturb the next one
	run -0 "$OWN" run --start true
	grep -q "cannot do it" "$DIR/xroced.log.old"
	rm "$WORK/bin/xroced"
	kill "$(pgrep -f -- "--runtime-dir $WORK/")"
	wait_for 10 not pgrep -f -- "--runtime-dir $WORK/"
	PATH=/usr/bin:/bin run -1 "$OWN" run --start true
	echo "$output"
	[[ $output == *"cannot find xroced"* || $output == *"/sbin/xroced"* ]]
}

@test "a daemon that does not become ready is stopped" {
	no_other_daemon
	STAND_IN=hang run -1 "$OWN" run --start true
	echo "$output"
	[[ $output == *"was not ready in time, and was stopped"* ]]
	wait_for 10 not pgrep -f -- "--runtime-dir $WORK/"
}

@test "a directory that others may have prepared is refused, and named" {
	no_other_daemon
	mkdir "$WORK/other"
	ln -s "$WORK/other" "$DIR"
	run -1 "$OWN" run --start true
	echo "$output"
	[[ $output == *"cannot use $DIR: it is a symbolic link"* ]]
	rm "$DIR"
	mkdir -m 755 "$DIR"
	run -1 "$OWN" run --start true
	echo "$output"
	[[ $output == *"cannot use $DIR: its mode is 0755, not 0700"* ]]
	rmdir "$DIR"
	touch "$DIR"
	run -1 "$OWN" run --start true
	[[ $output == *"cannot use $DIR: it is no directory"* ]]
	if ((EUID == 0)); then
		rm "$DIR"
		mkdir -m 700 "$DIR"
		chown 65534 "$DIR"
		run -1 "$OWN" run --start true
		echo "$output"
		[[ $output == *"cannot use $DIR: it belongs to user 65534"* ]]
	fi
	rm -rf "$DIR"
}

@test "without XDG_RUNTIME_DIR, the directory is in /tmp" {
	no_other_daemon
	local user=64793 dir

	requires root setpriv
	dir=/tmp/xroce-$user
	rm -rf "$dir"
	# the directory of another user, as after su, is none of this user
	run -0 --separate-stderr setpriv --reuid "$user" --regid "$user" --clear-groups \
		"$OWN" run --start printenv XROCE_RUNTIME_DIR
	echo "$output $stderr"
	pgrep -f -- "--runtime-dir $dir" | xargs kill
	equal "directory" "$output" "$dir"
	equal "mode" "$(stat -c '%u %a' "$dir")" "$user 700"
	rm -rf "$dir"
}

@test "a directory that is given may be shared, and is the only one" {
	local shared=$WORK/shared

	run -0 --separate-stderr env XROCE_RUNTIME_DIR="$shared" "$OWN" run --start printenv XROCE_RUNTIME_DIR
	equal "directory" "$output" "$shared"
	run -0 --separate-stderr "$OWN" -r "$shared" run --start printenv XROCE_RUNTIME_DIR
	equal "message" "$stderr" ""
	equal "starts" "$(starts "$shared")" 1
	[[ ! -e $DIR ]]
	touch "$WORK/file"
	run -1 "$OWN" run -r "$WORK/file" --start true
	[[ $output == *"cannot use $WORK/file: it is no directory"* ]]
	run -1 "$OWN" run -r "$WORK/no/folder" --start true
	[[ $output == *"cannot create $WORK/no/folder: No such file or directory"* ]]
}

@test "the socket of a daemon that was killed does not prevent a start" {
	no_other_daemon
	"$OWN" run --start true
	pgrep -f -- "--runtime-dir $DIR" | xargs kill -KILL
	wait_for 10 not pgrep -f -- "--runtime-dir $DIR"
	rm "$DIR/xr_lo.sock"
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' \
		"$DIR/old.sock"
	run -0 "$OWN" run --start true
	echo "$output"
	[[ $output == *"started xroced"* ]]
}

# ---- xroced itself ---------------------------------------------------------------------

needs_sockets() {
	"$XROCED" --help | grep -q -- '--io' || skip "this xroced has no --io: packets through sockets"
	no_other_daemon
}

# talk COMMAND...: as the command that makes a network namespace and becomes a user, runs two programs over lo, and waits
# until the daemon has ended. Prints what they print.
talk() {
	local folder status=0

	folder=$(mktemp -d /tmp/xroce-test.XXXXXX)
	chmod 777 "$folder"
	# shellcheck disable=SC2016	# for the inner shell
	env -u XDG_RUNTIME_DIR timeout $((120 * SLOW)) "$@" bash -c '
		dir=/tmp/xroce-$(id -u)
		"$0" run --start --start-idle 2 ibv_rc_pingpong -g 1 -n 100 -c >"$1/server" 2>&1 &
		for _ in {1..200}; do
			ss -Hltn "sport = :18515" | grep -q . && break
			sleep 0.1
		done
		"$0" run --start --start-idle 2 ibv_rc_pingpong -g 1 -n 100 -c 127.0.0.1 && wait $!
		echo "status $?"
		cat "$1/server"
		"$0" status | grep -E "^io"
		for _ in {1..300}; do
			compgen -G "$dir/*.sock" >/dev/null || break
			sleep 0.1
		done
		ls -A "$dir"' "$XROCE" "$folder" || status=$?
	rm -r "$folder"
	return "$status"
}

# Checks the output of `talk`.
talked() {
	echo "$output"
	[[ $output == *"status 0"*"started xroced (pid "*"): device xr_lo on lo, it ends 2 s after its last program"* ]]
	equal "programs with all messages" "$(grep -c "100 iters in" <<<"$output")" 2
	[[ $output == *$'\n.start.lock\nxroced.log' ]]
}

@test "two programs of an ordinary user without any capability talk over lo, and the daemon ends" {
	needs_sockets
	requires root setpriv unshare
	local user=64794

	rm -rf "/tmp/xroce-$user"
	# shellcheck disable=SC2016	# for the inner shell
	run -0 talk unshare -n bash -c 'ip link set lo up && exec "$@"' sh \
		setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all
	rm -rf "/tmp/xroce-$user"
	talked
}

@test "two programs in a user namespace talk over lo, and the daemon ends" {
	needs_sockets
	requires root setpriv unshare
	local user=(setpriv --reuid 64794 --regid 64794 --clear-groups unshare -rn)

	"${user[@]}" true || skip "users of this machine may not create user namespaces"
	# its root has the directory of the machine's root
	[[ ! -e /tmp/xroce-0 ]] || skip "there is a directory for a daemon of root"
	# shellcheck disable=SC2016	# for the inner shell
	run -0 talk "${user[@]}" bash -c 'ip link set lo up && exec "$@"' sh
	rm -rf /tmp/xroce-0
	talked
}
