#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon without privileges, by UDP sockets, in containers and sandboxes of several kinds. anywhere.bash runs in each:
# it checks what the daemon has given up, and data of RC, UD, rdma_cm and multicast.

load helpers

USER_ID=64793	# no account of the machine
EVERYTHING=selftests/e2e/anywhere.bash

setup_file() {
	requires root setpriv unshare rping mckey ib_write_bw
	[[ -z $(sanitizer_preload) ]] || skip "built with sanitizers"
	export PLACE
	PLACE=$(mktemp -d /tmp/xroce-anywhere.XXXXXX)
	chmod 755 "$PLACE"
	cp /etc/passwd "$PLACE/passwd"
	echo "xroce-test:x:$USER_ID:$USER_ID::$PLACE/home:/bin/sh" >>"$PLACE/passwd"
	echo "xroce-test:200000:65536" | tee "$PLACE/subuid" >"$PLACE/subgid"
	mkdir "$PLACE/home"
	chown "$USER_ID:$USER_ID" "$PLACE/home"
}

teardown_file() {
	[[ -z ${PLACE-} ]] || rm -rf "$PLACE"
}

setup() {
	cd "$XR_TOP" || return
	DIR=$PLACE/$BATS_TEST_NUMBER
	mkdir "$DIR"
	chown "$USER_ID:$USER_ID" "$DIR"
}

teardown() {
	:
}

# alone COMMAND...: runs the command with a network namespace of its own that has lo only
alone() {
	# shellcheck disable=SC2016	# for the inner shell
	unshare -n bash -c 'ip link set lo up && exec "$@"' bash "$@"
}

# A user without any capability, who cannot get one either
AS_USER=(setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)

# in_user_namespace COMMAND...: runs the command as a user, as root of a user namespace with a network namespace
in_user_namespace() {
	# shellcheck disable=SC2016	# for the inner shell
	setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups unshare -rn bash -c 'ip link set lo up && exec "$@"' \
		bash "$@"
}

requires_user_namespaces() {
	in_user_namespace true || skip "users of this machine may not create user namespaces"
}

# works COMMAND...: the command runs everything
works() {
	run "$@"
	echo "$output"
	((status == 0)) && [[ $output == *"everything works"* ]]
}

@test "a user without capabilities and with no_new_privs has RDMA on lo, and the daemon says why it uses sockets" {
	alone true || skip "no network namespaces"
	works alone "${AS_USER[@]}" "$EVERYTHING" "$DIR" lo 127.0.0.1
}

@test "a user without capabilities has RDMA with several workers" {
	works alone "${AS_USER[@]}" "$EVERYTHING" "$DIR" lo 127.0.0.1 --workers 3
	[[ $output == *"UDP port 4791 of lo: 3 sockets"* ]]
}

@test "unshare -rn has RDMA on lo" {
	requires_user_namespaces
	works in_user_namespace "$EVERYTHING" "$DIR" lo 127.0.0.1 --io socket
}

# two_hosts: for the inside of a user namespace: two network namespaces, a daemon in each, ibv_rc_pingpong and rping
two_hosts() {
	local dir=$1 b pids=() status=0 h

	unshare -n sleep 100 &
	b=$!
	pids+=("$b")
	while [[ $(readlink "/proc/$b/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do sleep 0.02; done
	in_b() { nsenter -n -t "$b" "$@"; }
	ip link add va mtu 9000 type veth peer name vb mtu 9000 netns "$b"
	ip addr add "$A4/24" dev va
	ip link set va up
	in_b ip addr add "$B4/24" dev vb
	in_b ip link set vb up
	mkdir "$dir/a" "$dir/b"
	"$XROCED" --io socket --interface va --name xra --runtime-dir "$dir/a" >"$dir/log" 2>&1 &
	pids+=($!)
	in_b "$XROCED" --io socket --interface vb --name xrb --runtime-dir "$dir/b" >>"$dir/log" 2>&1 &
	pids+=($!)
	for h in a b; do
		wait_for 10 test -S "$dir/$h/xr$h.sock" || status=1
	done
	timeout 20 "$XROCE" run -r "$dir/a" ibv_rc_pingpong -g 1 -c -s 65536 -m 4096 &
	wait_for 10 tcp_listens $$ 18515
	in_b timeout 20 "$XROCE" run -r "$dir/b" ibv_rc_pingpong -g 1 -c -s 65536 -m 4096 "$A4" || status=1
	wait $! || status=1
	timeout 20 "$XROCE" run -r "$dir/a" rping -s -a "$A4" -C 10 -v &
	wait_for 10 eval "'$XROCE' -r '$dir/a' cm xra | grep -q 7174"
	in_b timeout 20 "$XROCE" run -r "$dir/b" rping -c -a "$A4" -C 10 -v || status=1
	wait $! || status=1
	kill "${pids[@]}"
	wait
	sed 's/^/  /' "$dir/log"
	((status)) || echo "everything works"
}

@test "two hosts in one user namespace transfer data over veth" {
	requires_user_namespaces
	export -f two_hosts wait_for nap tcp_listens
	export A4 B4 XROCED XROCE SLOW POLL PATIENCE
	works in_user_namespace bash -c "two_hosts '$DIR'"
}

@test "a container with a read-only root and no capability has RDMA (bubblewrap)" {
	requires bwrap
	requires_user_namespaces
	works "${AS_USER[@]}" bwrap --unshare-all --cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /run --tmpfs /tmp \
		--ro-bind "$XR_TOP" "$XR_TOP" --ro-bind "$XR_BUILD" "$XR_BUILD" "$XR_TOP/$EVERYTHING" /run/xroce lo 127.0.0.1
	# nothing else of it can be written
	run ! "${AS_USER[@]}" bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc touch "$DIR/file"
}

# podman_run ARG...: runs a container as a user, whom podman finds in the files of PLACE
podman_run() {
	# shellcheck disable=SC2016	# for the inner shell
	unshare -m sh -c 'for file in passwd subuid subgid; do
			touch /etc/$file && mount --bind "$1/$file" /etc/$file || exit
		done
		umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && shift && exec "$@"' sh "$PLACE" \
		setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups \
		env HOME="$PLACE/home" XDG_RUNTIME_DIR="$PLACE/home" \
		podman --root "$PLACE/home/storage" --runroot "$PLACE/home/run" --cgroup-manager=cgroupfs --events-backend=file \
		run --rm --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@"
}

# Without root, podman keeps a process that holds the user namespace.
podman_end() {
	local pid

	pid=$(find "$PLACE/home" -path '*/libpod/tmp/pause.pid' -exec cat {} \;)
	[[ -z $pid ]] || { kill "$pid" && wait_for 10 not alive "$pid"; }
}

@test "a container of podman without root, with --cap-drop all, no-new-privileges and --read-only, has RDMA" {
	requires podman crun newuidmap
	requires_user_namespaces
	local root=$PLACE/home/root lib=/usr/lib/x86_64-linux-gnu

	mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,etc,proc,sys,dev,run,tmp,"$XR_TOP","$XR_BUILD"}
	ln -s usr/bin usr/lib usr/lib64 "$root"
	chown -R "$USER_ID:$USER_ID" "$root"
	run podman_run --network=none --cap-drop=all --security-opt=no-new-privileges --read-only --tmpfs /run --tmpfs /tmp \
		-v /usr/bin:/usr/bin:ro -v "$lib:$lib:ro" -v /usr/lib64:/usr/lib64:ro -v "$XR_TOP:$XR_TOP:ro" \
		-v "$XR_BUILD:$XR_BUILD:ro" --rootfs "$root" \
		timeout $((120 * SLOW)) "$XR_TOP/$EVERYTHING" /run/xroce lo 127.0.0.1
	podman_end
	echo "$output"
	[[ $output == *"everything works" ]]
}

# user_manager COMMAND...: runs the command beside a `systemd --user` of a user, in namespaces that look as if systemd had
# booted this machine. The command uses systemd-run --user.
user_manager() {
	# shellcheck disable=SC2016	# for the inner shell
	alone unshare -m sh -c 'place=$1 id=$2 cgroup=$3; shift 3
		mount --bind "$place/passwd" /etc/passwd && mount -t tmpfs -o mode=755 none /run || exit
		mkdir -p /run/systemd/system "/run/user/$id" && chown "$id:$id" "/run/user/$id" || exit
		umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup || exit
		mkdir "/sys/fs/cgroup/$cgroup" && chown -R "$id:$id" "/sys/fs/cgroup/$cgroup" || exit
		echo $$ >"/sys/fs/cgroup/$cgroup/cgroup.procs" || exit
		as_user="setpriv --reuid $id --regid $id --clear-groups env HOME=$place/home XDG_RUNTIME_DIR=/run/user/$id"
		$as_user /lib/systemd/systemd --user &
		manager=$!
		for i in $(seq 100); do
			[ -S "/run/user/$id/systemd/private" ] && break
			sleep 0.1
		done
		$as_user "$@"
		status=$?
		kill "$manager"
		wait "$manager"
		echo $$ >/sys/fs/cgroup/cgroup.procs
		find "/sys/fs/cgroup/$cgroup" -depth -type d -exec rmdir {} \;
		exit $status' sh "$PLACE" "$USER_ID" "${PLACE##*/}" "$@"
}

@test "systemd-run --user has RDMA, in a unit with the sandbox of a hardened service" {
	requires systemd-run
	[[ -x /lib/systemd/systemd ]] || skip "systemd is not installed"
	run user_manager systemd-run --user --wait --pipe --collect true
	echo "$output"
	((status == 0)) || skip "no user manager: ${lines[-1]}"
	works user_manager systemd-run --user --wait --pipe --collect -E XR_BUILD="$XR_BUILD" -p NoNewPrivileges=yes \
		-p PrivateUsers=yes -p RuntimeDirectory=xroce -p RestrictSUIDSGID=yes \
		-p LockPersonality=yes -p RestrictNamespaces=yes \
		-p "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK" \
		-p SystemCallArchitectures=native "$XR_TOP/$EVERYTHING" "/run/user/$USER_ID/xroce" lo 127.0.0.1
}

# second: for the inside of a namespace: starts a daemon, and then another one
second() {
	local dir=$1 pid status=0

	"$XROCED" --interface lo --name xr0 --runtime-dir "$dir/one" >"$dir/log" 2>&1 &
	pid=$!
	wait_for 10 test -S "$dir/one/xr0.sock" || cat "$dir/log"
	timeout 20 "$XROCED" --interface lo --name "$2" --runtime-dir "$dir/$3" || status=$?
	alive "$pid" || status=99
	kill "$pid"
	wait "$pid"
	return "$status"
}

@test "a second daemon on the port ends with an error that names the port, and so does one with the same name" {
	export -f second wait_for nap alive
	export XROCED SLOW POLL PATIENCE
	run -1 alone "${AS_USER[@]}" bash -c "second '$DIR' xr1 two"
	echo "$output"
	[[ $output == *"UDP port 4791 of lo: Address already in use, by another daemon or program"* ]]
	run -1 alone "${AS_USER[@]}" bash -c "second '$DIR' xr0 one"
	echo "$output"
	[[ $output == *"another xroced serves xr0"* ]]
}

@test "a program that holds port 4791 is named as the reason" {
	run -1 alone "${AS_USER[@]}" /usr/bin/python3 -c 'import socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 4791))
sys.exit(subprocess.run(sys.argv[1:]).returncode)' timeout 20 "$XROCED" --interface lo --runtime-dir "$DIR"
	echo "$output"
	[[ $output == *"UDP port 4791 of lo: Address already in use"* ]]
}

@test "a runtime directory that cannot be written is named" {
	run -1 alone "${AS_USER[@]}" timeout 20 "$XROCED" --interface lo --runtime-dir /usr/xroce
	echo "$output"
	[[ $output == *"runtime directory /usr/xroce: "* ]]
}
