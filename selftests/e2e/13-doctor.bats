#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# xroce doctor on this machine, and where it lacks something; xroce env in all formats

load helpers

NOBODY=(setpriv --reuid 64795 --regid 64795 --clear-groups)

# Host a has a daemon, host b none.
setup_file() {
	requires root setpriv jq
	hosts_up
	export XR_IO=auto	# as doctor says
	daemon_up a
}

# doctor HOST [ARG...]: runs it without the directory of a daemon
doctor() {
	local h=$1

	shift
	on "$h" env -u XROCE_RUNTIME_DIR -u XDG_RUNTIME_DIR "$XROCE" doctor "$@"
}

# state CHECK: prints the state and what was found, of the JSON in $output
row() {
	jq -r --arg check "$1" '.checks[] | select(.check == $check) | "\(.state): \(.found); \(.remedy)"' <<<"$output"
}

# without_zero_copy INTERFACE: prints why a daemon of root takes sockets there
without_zero_copy() {
	if kernel_at_least 6.3; then
		echo "$1 has no zero-copy AF_XDP"
	else
		echo "the kernel does not tell whether $1 has zero-copy AF_XDP (Linux 6.3 does)"
	fi
}

@test "root of a machine with all options takes sockets on veth, and the exit status is 0" {
	run -0 doctor b -j vb
	jq . <<<"$output"
	equal "way" "$(jq -r '.way + ": " + .why' <<<"$output")" "socket: $(without_zero_copy vb)"
	equal "what is missing" "$(jq -c '[.checks[] | select(.state == "missing").check]' <<<"$output")" '[]'
	equal "results" "$(jq -c '[.daemon, .programs]' <<<"$output")" '[true,true]'
	equal "members" "$(jq -c '[.checks[] | keys | join(" ")] | unique' <<<"$output")" '["check found remedy state"]'
	equal "states" "$(jq -r '[.checks[].state] - ["ok", "limited", "missing", "unknown"] | length' <<<"$output")" 0
	[[ $(row kernel) == "ok: $(uname -r)"* ]]
	[[ $(row interface) == "ok: vb is up, MTU $MTU, 1 IPv4 and 2 IPv6 addresses, driver veth"* ]]
	[[ $(row glibc) == "ok: $(ldd --version | sed -n '1s/.* //p'); the provider needs 2."* || -n $SANITIZER ]]
	[[ $(row libibverbs) == "ok: "*"libibverbs.so.1: IBVERBS_1."*" of rdma-core "[0-9]* ]]
	kernel_at_least 6.3 || return 0
	[[ $(row xdp) == "ok: the driver has native XDP"*"; not tried"* ]]
}

@test "the text has a line for each check, aligned, and ends with the way" {
	run -0 doctor b
	echo "$output"
	equal "lines" "${#lines[@]}" "$(($(doctor b -j | jq '.checks | length') + 1))"
	[[ ${lines[-1]} == "way "*" socket: on interfaces without zero-copy AF_XDP, XDP on others; xroce doctor INTERFACE "* ]]
	# the states are in one column
	equal "columns" "$(grep -oEb -m 1 ' (ok|limited|missing|unknown) ' <<<"${lines[0]}" | cut -d: -f1)" \
		"$(grep -oEb -m 1 ' (ok|limited|missing|unknown) ' <<<"${lines[5]}" | cut -d: -f1)"
	equal "checks of an interface" "$(grep -cE '^(interface|xdp) ' <<<"$output" || true)" 0
}

@test "doctor and the daemon of an interface give the same reason" {
	run doctor a -j va
	equal "way" "$(jq -r '.way + ": " + .why' <<<"$output")" "$(status_of a '.io + ": " + .io_why')"
	equal "reason" "$(status_of a .io_why)" "$(without_zero_copy va)"
	grep "packets go by UDP sockets: $(without_zero_copy va)" "$RUN/a/log"
	run doctor a -j lo
	equal "way of lo" "$(jq -r '.way + ": " + .why' <<<"$output")" "socket: lo is the loopback interface"
}

@test "an ordinary user takes sockets, and each line that is not ok has a remedy" {
	run -0 doctor b -j
	local root=$output

	run -0 on b "${NOBODY[@]}" env -u XDG_RUNTIME_DIR "$XROCE" doctor -j
	jq . <<<"$output"
	equal "way" "$(jq -r '.way + ": " + .why' <<<"$output")" "socket: this user may not load BPF programs for XDP"
	[[ $(row capabilities) == "missing: user 64795 has no CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW; "* ]]
	[[ $(row bpf) == "missing: this user may load no XDP program"* ]]
	[[ $(row af_xdp) == "missing: Operation not permitted"*"CAP_NET_RAW"* ]]
	equal "without remedy" "$(jq -c '[.checks[] | select(.remedy == null and (.state == "missing" or .state == "limited"))]' \
		<<<"$output")" "[]"
	equal "directory" "$(row directory)" "ok: /tmp/xroce-64795 can be created; null"
	equal "the same checks" "$(jq -c '[.checks[].check]' <<<"$output")" "$(jq -c '[.checks[].check]' <<<"$root")"
}

@test "root of a user namespace has the capabilities, but takes sockets" {
	"${NOBODY[@]}" unshare -rn true || skip "users of this machine may not create user namespaces"
	run -0 "${NOBODY[@]}" unshare -rn env -u XDG_RUNTIME_DIR "$XROCE" doctor -j
	jq -c . <<<"$output"
	[[ $(row capabilities) == "ok: "* ]]
	equal "way" "$(jq -r '.way + ": " + .why' <<<"$output")" "socket: this user may not load BPF programs for XDP"
}

@test "who has UDP port 4791 is named, and the exit status is 1 where sockets are the way" {
	requires python3
	local holder

	nsenter --net="/run/netns/$ID-b" -- python3 -c '
import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4791))
time.sleep(60)' 3>&- &
	holder=$!
	bound() { [[ $(on b ss -Hlun "sport = :4791") ]]; }
	wait_for 10 bound
	run -1 doctor b -j vb
	row "port 4791"
	[[ $(row "port 4791") == "missing: in use by python3 (pid $holder); end what has the port, "*", or --io xdp, "* ]]
	equal "results" "$(jq -c '[.way, .daemon, .programs]' <<<"$output")" '["socket",false,true]'
	run -1 on b "${NOBODY[@]}" "$XROCE" doctor -j
	row "port 4791"
	[[ $(row "port 4791") == "missing: in use by a process of user 0 that you cannot see; "* ]]
	equal "results" "$(jq -c '[.way, .daemon, .programs]' <<<"$output")" '["socket",false,true]'
	[[ $(row "port 4791") != *"--io xdp"* ]]
	run -1 on b timeout 20 "$XROCED" --interface vb --name xrb --runtime-dir "$RUN/b" --bpffs "$RUN/bpf" --user "$DAEMON_USER"
	echo "$output"
	[[ $output == *"UDP port 4791 of vb: Address already in use, by another daemon "*"; --io xdp does without it" ]]
	daemon_up b --io xdp
	daemon_down b
	kill "$holder"
	wait "$holder" || true
	run -0 on b "${NOBODY[@]}" "$XROCE" doctor
	# a daemon of one interface leaves the port of another free
	nsenter --net="/run/netns/$ID-b" -- python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
s.bind(("", 4791))
time.sleep(60)' 3>&- &
	holder=$!
	wait_for 10 bound
	run -0 doctor b -j vb
	equal "port of vb" "$(row "port 4791")" "ok: free on vb; null"
	run doctor b -j lo
	[[ $(row "port 4791") == "missing: in use by python3 (pid $holder); "* ]]
	kill "$holder"
	wait "$holder" || true
}

@test "an interface that does not exist, is down, or has no address" {
	run -1 doctor b nosuch
	echo "$output"
	[[ $output == *"there is no interface 'nosuch' here; remedy: ip link"* ]]
	run -2 doctor b vb vc
	[[ $output == *"unexpected argument 'vc'"* ]]
	on b ip link add vx type veth peer name vy
	run -0 doctor b -j vx
	row interface
	[[ $(row interface) == "limited: vx is down, "*"; ip link set vx up" ]]
	on b sysctl -qw net.ipv6.conf.vx.disable_ipv6=1
	on b ip link set vx up
	run -0 doctor b -j vx
	row interface
	[[ $(row interface) == "limited: vx is up, MTU 1500, 0 IPv4 and 0 IPv6 addresses"*"; ip address add ADDRESS dev vx"* ]]
	on b ip link del vx
}

@test "an XDP program of somebody else on the interface is reported, one of xroced is not" {
	local program=/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_dny_ip.o

	run -0 on a "$XROCE" -r "$RUN/a" doctor -j va
	row xdp
	[[ $(row xdp) != limited* ]]
	[[ -e $program ]] || skip "needs $program, of xdp-tools"
	on b ip link add vx type veth peer name vy
	on b ip link set vx xdpgeneric obj "$program" sec xdp || {
		on b ip link del vx
		skip "this ip cannot load an XDP program"
	}
	run -0 doctor b -j vx
	on b ip link del vx
	row xdp
	[[ $(row xdp) == "limited: another XDP program (id "*") is on the interface; xroced --io socket"* ]]
}

@test "daemons that run are listed, and who may connect" {
	run -0 on a "$XROCE" -r "$RUN/a" doctor -j
	equal "daemons" "$(row daemons)" "ok: xra in $RUN/a (va); null"
	run -0 on a "${NOBODY[@]}" "$XROCE" -r "$RUN/a" doctor -j || ((status == 1))
	row daemons
	[[ $(row daemons) == "limited: $RUN/a/xra.sock: only root"*"may connect; "*"xroce run --start" ]]
	mkdir "$RUN/stale"
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' \
		"$RUN/stale/xr_old.sock"
	run -0 on b "$XROCE" -r "$RUN/stale" doctor -j
	row daemons
	[[ $(row daemons) == "limited: xr_old in $RUN/stale (Connection refused); start xroced again"* ]]
	rm -r "$RUN/stale"
}

@test "programs cannot run where libibverbs or the provider is missing" {
	requires bwrap
	[[ -z $SANITIZER ]] || skip "built with sanitizers"
	local root=(bwrap --bind / / --dev-bind /dev /dev --proc /proc)

	run -1 "${root[@]}" --tmpfs "$XR_BUILD" --ro-bind "$XROCE" "$XR_BUILD/xroce" "$XROCE" doctor -j
	row provider
	[[ $(row provider) == "missing: libxroce.so is neither next to this command nor installed; install xroce" ]]
	equal "results" "$(jq -c '[.daemon, .programs]' <<<"$output")" '[true,false]'
	local library

	library=$(readlink -f /usr/lib/x86_64-linux-gnu/libibverbs.so.1)
	run -1 "${root[@]}" --ro-bind /dev/null "$library" "$XROCE" doctor -j
	row libibverbs
	[[ $(row libibverbs) == "missing: "*libibverbs.so.1*"; install it: apt install libibverbs1"* ]]
}

# ---- env -------------------------------------------------------------------------------

@test "xroce env prints what xroce run sets" {
	local names='^(LD_PRELOAD|PATH|XROCE_[A-Z_]*)='

	# shellcheck disable=SC2016	# for the inner shell
	run -0 bash -c 'eval "$("$0" -r "$1" env --only -d xra)" && env' "$XROCE" "$RUN/a"
	equal "variables" "$(grep -E "$names" <<<"$output" | sort)" \
		"$("$XROCE" -r "$RUN/a" run --only -d xra env | grep -E "$names" | sort)"
	[[ $output == *"XROCE_HIDE=kernel"* && $output == *"XROCE_DEVICES=xra"* ]]
	# programs that nobody prefixes see the device
	[[ -n $SANITIZER ]] || [[ $(eval "$("$XROCE" -r "$RUN/a" env)" && on a ibv_devices) == *xra* ]]
	# a second time changes nothing
	# shellcheck disable=SC2016	# for the inner shell
	run -0 bash -c 'eval "$("$0" -r "$1" env)"; before=$(env); eval "$("$0" -r "$1" env)"; [[ $(env) == "$before" ]]' \
		"$XROCE" "$RUN/a"
}

@test "xroce env quotes for the shell, GitHub, systemd and docker" {
	requires python3
	local value=$'a \'b\' "c" \\ %h $HOME #\nsecond=line'

	# The variable that is passed on has any value.
	export XROCE_DEVICES=$value
	# shellcheck disable=SC2016	# for the inner shell
	run -0 bash -c 'eval "$("$0" -r "$1" env)" && printf %s "$XROCE_DEVICES"' "$XROCE" "$RUN/a"
	equal "shell" "$output" "$value"
	"$XROCE" -r "$RUN/a" env --format github >"$BATS_TEST_TMPDIR/github"
	cat "$BATS_TEST_TMPDIR/github"
	python3 - "$BATS_TEST_TMPDIR/github" "$value" <<'END'
import sys
lines = iter(open(sys.argv[1]).read().split("\n")[:-1])
values = {}
for line in lines:
    if "<<" in line.split("=")[0]:
        name, end = line.split("<<")
        value = []
        while (part := next(lines)) != end:
            value.append(part)
        values[name] = "\n".join(value)
    else:
        name, values[name] = line.split("=", 1)
assert values["XROCE_DEVICES"] == sys.argv[2], values
assert values["LD_PRELOAD"].endswith("/libxroce.so") and values["PATH"], values
END
	"$XROCE" -r "$RUN/a" env -f systemd | tee "$BATS_TEST_TMPDIR/systemd"
	equal "first line" "$(head -n 1 "$BATS_TEST_TMPDIR/systemd")" "[Service]"
	# shellcheck disable=SC2016	# nothing expands
	equal "systemd" "$(grep DEVICES "$BATS_TEST_TMPDIR/systemd")" \
		'Environment="XROCE_DEVICES=a '"'b'"' \"c\" \\ %%h $HOME #\nsecond=line"'
	run -1 "$XROCE" -r "$RUN/a" env --format docker
	[[ $output == *"XROCE_DEVICES: a file of --env-file cannot have a value of several lines"* ]]
}

@test "values for systemd and docker do not depend on the shell that prints them" {
	export LD_PRELOAD=$SANITIZER
	unset XROCE_PATH

	run -0 "$XROCE" -r "$RUN/a" env --format systemd
	equal "systemd" "$output" "[Service]
Environment=\"XROCE_RUNTIME_DIR=$RUN/a\"
Environment=\"LD_PRELOAD=$(realpath "$XR_BUILD/libxroce.so")\""
	run -0 "$XROCE" -r "$RUN/a" env --format docker --only
	equal "docker" "$output" "# docker run --env-file FILE -v $(realpath "$XR_BUILD"):/usr/lib/xroce:ro \
-v $RUN/a:/run/xroce:ro IMAGE
XROCE_RUNTIME_DIR=/run/xroce
XROCE_HIDE=kernel
LD_PRELOAD=/usr/lib/xroce/libxroce.so"
}

@test "a unit of systemd with these lines has these variables" {
	requires systemd-analyze systemd-run
	local unit=$BATS_TEST_TMPDIR/x.service

	{
		"$XROCE" -r "$RUN/a" env --format systemd
		echo "ExecStart=/bin/true"
	} >"$unit"
	run systemd-analyze verify "$unit"
	echo "$output"
	[[ $output != *Environment* && $output != *"x.service:"* ]]
}

@test "xroce env refuses unknown formats, settings and devices, and names them" {
	run -2 "$XROCE" env --format fish
	[[ $output == *"format 'fish' is not one of sh, github, systemd, docker"* ]]
	run -2 "$XROCE" env now
	[[ $output == *"unexpected argument 'now'"* ]]
	run -1 "$XROCE" -r "$RUN/a" env -d nosuch
	[[ $output == *"no device 'nosuch'"* ]]
	XROCE_HIDE=mlx5_0 run -1 "$XROCE" -r "$RUN/a" env
	[[ $output == *"XROCE_HIDE is 'mlx5_0': only 'kernel' can be hidden"* ]]
	XROCE_ORDER=2 run -1 "$XROCE" -r "$RUN/a" run true
	[[ $output == *"XROCE_ORDER is '2', neither 'first' nor 'last'"* ]]
}

@test "without a device, xroce env warns, and the program looks for one itself" {
	! compgen -G '/run/xroce/*.sock' >/dev/null || skip "a daemon of root runs on this machine"
	run -0 --separate-stderr env -u XROCE_RUNTIME_DIR XDG_RUNTIME_DIR="$BATS_TEST_TMPDIR" "$XROCE" env
	# shellcheck disable=SC2154	# of bats
	equal "warning" "$stderr" \
		"xroce: no device: there is no socket in /run/xroce, $BATS_TEST_TMPDIR/xroce, /tmp/xroce-0"
	[[ $output != *XROCE_RUNTIME_DIR* && $output == *LD_PRELOAD* ]]
}
