#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs in containers, which get devices by the file that `xroce cdi` prints and nothing else of this machine but
# /usr/bin and the libraries of the distribution. docs/containers.md describes the same.

load helpers

# cdi HOST: prints the file for the devices of a host
cdi() {
	ctl "$1" cdi
}

# Prints a filter of jq that is true for files that the specification of CDI permits.
cdi_schema() {
	cat <<'JQ'
def only(names): (keys - names) == [];
def text: type == "string" and length > 0;
def edits: only(["env", "mounts"]) and length > 0
	and all(.env // [] | .[]; text and test("^[A-Za-z_][A-Za-z0-9_]*="))
	and all(.mounts // [] | .[]; only(["hostPath", "containerPath", "options"])
		and (.hostPath | startswith("/")) and (.containerPath | startswith("/")) and all(.options[]; text));
only(["cdiVersion", "kind", "devices", "containerEdits"])
	and (.cdiVersion | test("^0\\.[3-6]\\.0$"))
	and (.kind | test("^[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]/[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]$"))
	and (.devices | length > 0 and (map(.name) | length == (unique | length)))
	and all(.devices[]; only(["name", "containerEdits"])
		and (.name | test("^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$")) and (.containerEdits | edits))
	and (.containerEdits | edits)
JQ
}

# contained HOST DEVICE PROGRAM...: runs the program in namespaces of its own, with the edits of the device
contained() {
	local h=$1 args=() words

	mapfile -t words < <(cdi "$h" | jq -r --arg device "$2" '
		(.containerEdits, (.devices[] | select(.name == $device).containerEdits))
		| (.mounts // [] | .[] | "--ro-bind", .hostPath, .containerPath),
		  (.env // [] | .[] | "--setenv", split("=")[0], (split("=")[1:] | join("=")))')
	for lib in /usr/lib/x86_64-linux-gnu /usr/lib64; do
		args+=(--ro-bind "$lib" "$lib")
	done
	on "$h" bwrap --unshare-all --share-net --cap-drop ALL --clearenv --setenv PATH /usr/bin --dev /dev --proc /proc \
		--ro-bind /usr/bin /usr/bin --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
		"${args[@]}" "${words[@]}" -- "${@:3}"
}

# manifest: prints the capabilities and the command of the daemon in the manifest, one a line
manifest() {
	(cd "$XR_TOP" && selftests/docs/examples daemon)
}

@test "a daemon with the command line and the capabilities of the Kubernetes manifest serves programs" {
	requires setpriv
	daemon_path "the daemon of the manifest takes XDP"
	python3 -c 'import yaml' || skip "python3-yaml is not installed"
	local daemon words

	mapfile -t words < <(manifest)
	echo "${words[@]}"
	equal "command" "${words[*]:1:3}" "xroced --interface eth0"
	daemon_down a
	nsenter --net="/run/netns/$ID-a" -- setpriv --bounding-set="-all,${words[0]}" --inh-caps=-all "$XROCED" \
		--interface va --name xra --runtime-dir "$RUN/a" --bpffs "$RUN/bpf" "${words[@]:4}" \
		</dev/null >>"$RUN/a/log" 2>&1 3>&- &
	daemon=$!
	echo "$daemon" >"$RUN/a/pid"
	wait_for 20 daemon_running a
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
	daemon_up a
}

needs_plain_provider() {
	[[ -z $SANITIZER ]] || skip "built with sanitizers"
}

@test "xroce cdi prints what the specification of CDI permits" {
	cdi a >"$BATS_TEST_TMPDIR/cdi"
	cat "$BATS_TEST_TMPDIR/cdi"
	jq -e "$(cdi_schema)" "$BATS_TEST_TMPDIR/cdi"
	equal "devices" "$(jq -c '[.devices[].name]' "$BATS_TEST_TMPDIR/cdi")" '["xra","all"]'
	equal "device nodes" "$(jq -c '[.. | objects | select(has("deviceNodes"))]' "$BATS_TEST_TMPDIR/cdi")" '[]'
	fails jq -e "$(cdi_schema)" <<<'{"cdiVersion":"0.5.0","kind":"xroce","devices":[],"containerEdits":{}}'
}

@test "xroce cdi refuses device names that CDI does not permit, and folders without devices" {
	local dir=$BATS_TEST_TMPDIR/sockets

	requires python3
	mkdir "$dir"
	run -1 "$XROCE" -r "$dir" cdi
	[[ $output == *"no device: there is no socket in $dir"* ]]
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dir/rdma+0.sock"
	run -1 "$XROCE" -r "$dir" cdi
	echo "$output"
	[[ $output == *"'rdma+0'"* ]]
	run -2 "$XROCE" cdi now
}

@test "containers of plain namespaces on two hosts transfer data" {
	requires bwrap
	needs_plain_provider
	local server status=0

	equal "devices" "$(contained a xra ibv_devices | awk '/xr/ { print $1 }')" xra
	contained a all timeout $((30 * SLOW)) ibv_rc_pingpong -g "$(gid_index a "$A4")" -p "$PORT" -c -n 200 3>&- &
	server=$!
	wait_for 10 listens a "$PORT"
	contained b xrb timeout $((30 * SLOW)) ibv_rc_pingpong -g "$(gid_index b "$B4")" -p "$PORT" -c -n 200 "$A4" || status=$?
	wait "$server" || status=$?
	((status == 0))
}

@test "a container reaches the device again after the daemon was restarted" {
	requires bwrap
	needs_plain_provider
	local program info=$BATS_TEST_TMPDIR/info

	mkfifo "$BATS_TEST_TMPDIR/go"
	contained a xra sh -c 'echo ready; read -r _; exec ibv_devinfo -d xra' <"$BATS_TEST_TMPDIR/go" >"$info" 3>&- &
	program=$!
	exec 4>"$BATS_TEST_TMPDIR/go"
	wait_for 10 grep -q ready "$info"
	daemon_down a
	daemon_up a
	echo >&4
	wait "$program"
	cat "$info"
	grep -q 'hca_id:.*xra' "$info"
}

# podman_run HOST USER DEVICE PROGRAM...: runs the program in a container of that user, in a mount namespace of its own,
# in which /run/cdi has the file of the host, and the user an account and user IDs
podman_run() {
	local dir=$PODMAN h=$1 user=$2

	cdi "$h" >"$dir/$h.json"
	# Limits below those of every machine: podman's own need CAP_SYS_RESOURCE, also with --ulimit host.
	# crun refuses machines with both versions of cgroups; the container is in no group of its own anyway.
	# shellcheck disable=SC2016	# for the inner shell
	on "$h" unshare -m sh -c 'for file in passwd subuid subgid; do
			touch /etc/$file && mount --bind "$1/$file" /etc/$file || exit
		done
		mount -t tmpfs -o mode=755 none /run && mkdir -p /run/cdi "$2" &&
		mount --bind "$1/sockets" "$2" && cp "$1/$3.json" /run/cdi/xroce.json &&
		umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && shift 3 && exec "$@"' \
		sh "$dir" "$RUN" "$h" setpriv --reuid "$user" --regid "$user" --groups "$PODMAN_GROUP" \
		env HOME="$dir/home.$user" XDG_RUNTIME_DIR="$dir/home.$user" \
		podman --root "$dir/home.$user/storage" --runroot "$dir/home.$user/run" --cgroup-manager=cgroupfs \
		--events-backend=file run --rm --cgroups=disabled --network=host --cap-drop=all --group-add=keep-groups \
		--ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
		-v /usr/bin:/usr/bin:ro -v /usr/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:ro -v /usr/lib64:/usr/lib64:ro \
		--device "xroce/rdma=$3" --rootfs "$dir/home.$user/root" "${@:4}"
}

# podman_for USER: prepares PODMAN, a folder with what podman_run needs for the user
podman_for() {
	local home

	PODMAN=$(mktemp -d /tmp/xroce-podman.XXXXXX)
	PODMAN_GROUP=$(stat -c %g "$RUN/a/xra.sock")
	home=$PODMAN/home.$1
	chmod 755 "$PODMAN"
	mkdir -p "$PODMAN/sockets" "$home"/root/{usr/bin,usr/lib,usr/lib64,etc,proc,sys,dev,run,tmp}
	ln -s usr/bin "$home/root/bin"
	ln -s usr/lib "$home/root/lib"
	ln -s usr/lib64 "$home/root/lib64"
	chown -R "$1:$1" "$home"
	{
		cat /etc/passwd
		echo "xroce-test:x:$1:$1::$home:/bin/sh"
	} >"$PODMAN/passwd"
	echo "xroce-test:200000:65536" | tee "$PODMAN/subuid" >"$PODMAN/subgid"
	mount --bind "$RUN" "$PODMAN/sockets"
}

# Without root, podman keeps a process that holds the user namespace.
podman_end() {
	local pid

	[[ -n ${PODMAN:-} ]] || return 0
	pid=$(find "$PODMAN" -path '*/libpod/tmp/pause.pid' -exec cat {} \;)
	if [[ -n $pid ]]; then
		kill "$pid"
		wait_for 10 not alive "$pid"
	fi
	umount "$PODMAN/sockets"
	rm -rf "$PODMAN"
	unset PODMAN
}

teardown() {
	podman_end
	report_failure
}

@test "podman gives devices by name to containers" {
	requires podman crun
	needs_plain_provider
	podman_for 0
	run -0 podman_run a 0 xra ibv_devinfo
	[[ $output == *"hca_id:"*xra* ]]
}

@test "containers of podman without root transfer data, if the user is in the group" {
	requires podman crun newuidmap
	needs_plain_provider
	local user=64792 server status=0

	podman_for "$user"
	run -0 podman_run a "$user" xra cat /proc/self/uid_map
	echo "$output"
	[[ $output == *" $user "*"200000"* ]]
	podman_run a "$user" xra timeout $((60 * SLOW)) ibv_rc_pingpong -g "$(gid_index a "$A4")" -p "$PORT" -c -n 200 3>&- &
	server=$!
	wait_for 20 listens a "$PORT"
	equal "user of the program" "$(ctl a qp -j xra comm ibv_rc_pingpong | jq '.[0].uid')" "$user"
	run_on b timeout $((30 * SLOW)) ibv_rc_pingpong -g "$(gid_index b "$B4")" -p "$PORT" -c -n 200 "$A4" || status=$?
	wait "$server" || status=$?
	((status == 0))
	# a user who is not in the group gets no device
	PODMAN_GROUP=$user
	run ! podman_run a "$user" xra ibv_devinfo -d xra
	echo "$output"
	[[ $output != *"hca_id:"* ]]
}

@test "without root, unshare -rn names what it lacks, and programs reach the daemon of the host" {
	needs_plain_provider
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups unshare -rn) dir group

	"${user[@]}" true || skip "users of this machine may not create user namespaces"
	group=$(getent group 65534 | cut -d : -f 1)
	dir=$(mktemp -d)
	chmod 777 "$dir"
	run -1 "${user[@]}" timeout 20 "$XROCED" --io xdp --interface lo --runtime-dir "$dir"
	rm -r "$dir"
	echo "$output"
	[[ $output == *"Operation not permitted (CAP_BPF and CAP_NET_ADMIN are needed)"* ]]
	daemon_down a
	daemon_up a --group "$group" --direct-users 65534
	run -0 "${user[@]}" timeout 20 "$XROCE" run -r "$RUN/a" ibv_devinfo
	[[ $output == *"hca_id:"*xra* ]]
	daemon_down a
	daemon_up a
}
