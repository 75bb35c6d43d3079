#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Metrics: by the xroce command, once and by HTTP.

load helpers

ADDRESS=127.0.0.1:9320

# A test that has failed leaves its server behind.
teardown() {
	report_failure
	[[ -z ${SERVER-} ]] || kill "$SERVER" 2>/dev/null || true
	[[ -z ${SILENT-} ]] || kill "$SILENT" 2>/dev/null || true
}

# serve HOST COMMAND...: runs a server on the host, with its output in a file; SERVER is its own PID
serve() {
	local h=$1

	shift
	nsenter --net="/run/netns/$ID-$h" -- "$@" </dev/null >"$BATS_TEST_TMPDIR/server" 2>&1 3>&- &
	SERVER=$!
}

# serve_at HOST ADDRESS ARG...: serves metrics of the host's daemon at the address; waits until the server listens
serve_at() {
	serve "$1" "$XROCE" -r "$RUN/$1" metrics --listen "${@:2}"
	if [[ $2 == /* ]]; then
		wait_for 10 nc -zU "$2"
	else
		wait_for 10 tcp_listens "$SERVER" "${2##*:}"
	fi
}

# Ends the server, which must succeed.
end_server() {
	kill "$SERVER"
	wait "$SERVER"
	unset SERVER
}

# status_code SOCKET CURL_ARG...: prints the status code of a response
status_code() {
	curl -s -o /dev/null -w '%{http_code}' --unix-socket "$@"
}

# check FILE: parses the text as OpenMetrics, strictly
check() {
	/usr/bin/python3 - "$1" <<'PYTHON'
import re, sys
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("prometheus_client is not installed")
    sys.exit(77)
text = open(sys.argv[1]).read()
names = set()
for family in text_string_to_metric_families(text):
    assert family.name not in names, f"{family.name} occurs twice"
    names.add(family.name)
    assert family.name.startswith("xroce_") and family.documentation, family.name
    for sample in family.samples:
        assert sample.labels["device"], sample
page = open("docs/metrics.md").read()
short = {n.removeprefix("xroce_") for n in names}
missing = [n for n in sorted(short) if not re.search(rf"`{n}`", page)
           and not re.match("transport_|gsi_|program_(?!qps|rtt)", n)]
assert not missing, f"docs/metrics.md lacks {missing}"
print(len(names), "families")
PYTHON
}

# value FILE REGEX: prints the value of the first sample that matches
value() {
	sed -n "s/^$2 //p" "$1" | head -n 1
}

@test "xroce metrics is well-formed OpenMetrics text" {
	local text=$BATS_TEST_TMPDIR/text

	ctl a metrics xra >"$text"
	run check "$text"
	echo "$output"
	((status != 77)) || skip "needs the Python module prometheus_client"
	((status == 0))
}

@test "xroce metrics has the values of the other commands" {
	local text=$BATS_TEST_TMPDIR/text

	both ibv_rc_pingpong -g @4
	ctl a metrics >"$text"
	equal "device" "$(value "$text" 'xroce_port_up{device="xra"}')" 1
	(($(value "$text" 'xroce_xdp_packets_total{device="xra",verdict="OK",action="redirect"}') >= 1000))
	(($(value "$text" 'xroce_transport_completions_total{device="xra"}') >= 2000))
	equal "workers" "$(grep -c '^xroce_worker_rounds_total{' "$text")" "$(ctl a status -j xra | jq '.workers | length')"
	value "$text" 'xroce_worker_cpu_seconds_total{device="xra",worker="0"}' | tee /dev/stderr | grep -q '[1-9]'
	(($(value "$text" 'xroce_pause_seconds_count{device="xra"}') > 0))
	(($(ctl a counters -j xra | jq '.transport[] | select(.name == "completions").value') >= 2000))
}

@test "metrics of programs name the program" {
	local program

	spawn a "$BATS_TEST_TMPDIR/log" ibv_rc_pingpong -g "$(gid_index a "$A4")" -p 18701
	program=$!
	listed() { ctl a metrics xra | grep 'client_objects.*comm="ibv_rc_pingpong",kind="qps"} 1$'; }
	wait_for 10 listed
	kill "$program"
}

@test "metrics of programs have their traffic and round-trip times, also after they end" {
	local text=$BATS_TEST_TMPDIR/text of='{device="xra",uid="0",comm="ibv_uc_pingpong"' name before

	# another program than those of the other tests; those of RC have round-trip times
	both ibv_uc_pingpong -g @4 -n 100
	ctl a metrics xra >"$text"
	for name in tx rx; do
		equal "$name" "$(value "$text" "xroce_program_${name}_messages_total$of}")" 100
		(($(value "$text" "xroce_program_${name}_bytes_total$of}") >= 100 * 4096))
	done
	equal "QPs" "$(value "$text" "xroce_program_qps$of}")" 0
	of=${of/uc_/rc_}
	before=$(value "$text" "xroce_program_tx_messages_total$of}")
	both ibv_rc_pingpong -g @4 -n 100
	ctl a metrics xra >"$text"
	grep "^xroce_program.*$of" "$text"
	equal "messages" "$(value "$text" "xroce_program_tx_messages_total$of}")" $((${before:-0} + 100))
	(($(value "$text" "xroce_program_rtt_seconds_count$of}") > 0))
	value "$text" "xroce_program_rtt_seconds_sum$of}" | grep -q '[1-9]'
	equal "buckets" "$(value "$text" "xroce_program_rtt_seconds_bucket$of,le=\"+Inf\"}")" \
		"$(value "$text" "xroce_program_rtt_seconds_count$of}")"
	spawn a "$BATS_TEST_TMPDIR/log" ibv_rc_pingpong -g "$(gid_index a "$A4")" -p 18702
	name=$!
	one_qp() { ctl a metrics xra | grep -Fx "xroce_program_qps$of} 1"; }
	wait_for 10 one_qp
	kill "$name"
}

@test "metrics of clients and programs are for operators only" {
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/b" metrics xrb) group

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	daemon_down b
	daemon_up b --group "$group"
	run_on b ibv_devinfo
	ctl b metrics xrb | grep -q '^xroce_program_qps'
	run -0 "${user[@]}"
	grep -q '^xroce_transport_completions_total' <<<"$output"
	not grep -Eq '^xroce_(program|client)_' <<<"$output"
	# by HTTP, peers get what the server's user gets
	serve b setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/b" metrics -l "$ADDRESS" xrb
	wait_for 10 tcp_listens "$SERVER" "${ADDRESS#*:}"
	run -0 on b curl -sS "http://$ADDRESS/metrics"
	grep -q '^xroce_transport_completions_total' <<<"$output"
	not grep -Eq '^xroce_(program|client)_' <<<"$output"
	end_server
	daemon_down b
	daemon_up b
}

@test "xroce metrics merges devices family by family" {
	local text=$BATS_TEST_TMPDIR/text

	mkdir "$RUN/both"
	ln -s "$RUN/a/xra.sock" "$RUN/b/xrb.sock" "$RUN/both"
	"$XROCE" -r "$RUN/both" metrics >"$text"
	run check "$text"
	echo "$output"
	((status == 77 || status == 0))
	equal "devices" "$(grep -c '^xroce_port_up{' "$text")" 2
	equal "families" "$(grep -c '^# TYPE xroce_port_up ' "$text")" 1
	equal "end" "$(tail -n 1 "$text")" "# EOF"
	# by HTTP, those of daemons that answer
	ln -s "$RUN/none" "$RUN/both/xrn.sock"
	serve a "$XROCE" -r "$RUN/both" metrics --listen "$ADDRESS"
	wait_for 10 tcp_listens "$SERVER" "${ADDRESS#*:}"
	on a curl -sS "http://$ADDRESS/metrics" | grep '^xroce_port_up{' | sort >"$text"
	end_server
	rm -r "$RUN/both"
	equal "HTTP" "$(<"$text")" $'xroce_port_up{device="xra"} 1\nxroce_port_up{device="xrb"} 1'
	grep "no device 'xrn'" "$BATS_TEST_TMPDIR/server"
}

@test "xroce metrics --listen serves metrics at a TCP address" {
	local text=$BATS_TEST_TMPDIR/text

	serve_at a "$ADDRESS"
	on a curl -sS -D "$text.head" -o "$text" "http://$ADDRESS/metrics"
	cat "$text.head"
	grep -q '^HTTP/1.1 200 OK' "$text.head"
	grep -qi '^content-type: application/openmetrics-text; version=1.0.0' "$text.head"
	equal "end" "$(tail -n 1 "$text")" "# EOF"
	equal "HEAD" "$(on a curl -sSI "http://$ADDRESS/metrics" | head -n 1)" $'HTTP/1.1 200 OK\r'
	equal "other page" "$(on a curl -s -o /dev/null -w '%{http_code}' "http://$ADDRESS/")" 404
	end_server
}

@test "xroce metrics --listen serves metrics at a unix socket, to its user and a group, and removes it" {
	local socket=$RUN/b/metrics

	serve_at b "$socket" xrb
	curl -sS --unix-socket "$socket" http://localhost/metrics | grep -q '^xroce_port_up{device="xrb"} 1$'
	equal "other method" "$(status_code "$socket" -X POST http://localhost/metrics)" 405
	equal "mode" "$(stat -c '%a %g' "$socket")" "600 0"
	end_server
	[[ ! -e $socket ]]
	serve_at b "$socket" --group daemon xrb
	equal "mode" "$(stat -c '%a %G' "$socket")" "660 daemon"
	end_server
}

@test "xroce metrics --listen systemd serves metrics at the sockets that the service manager passes" {
	local socket=$RUN/b/passed

	command -v systemd-socket-activate >/dev/null || skip "needs the program systemd-socket-activate"
	serve b systemd-socket-activate -l "$ADDRESS" -l "$socket" "$XROCE" -r "$RUN/b" metrics --listen systemd
	wait_for 10 test -S "$socket"
	on b curl -sS "http://$ADDRESS/metrics" | grep -q '^xroce_port_up{device="xrb"} 1$'
	curl -sS --unix-socket "$socket" http://localhost/metrics | grep -q '^xroce_port_up{device="xrb"} 1$'
	end_server
	# the service manager removes its sockets itself
	rm "$socket"
}

@test "a request while the daemon is away gets 503, and the next one after its start gets metrics" {
	local url=http://localhost/metrics socket=$RUN/b/metrics

	serve_at b "$socket" xrb
	equal "status" "$(status_code "$socket" "$url")" 200
	daemon_down b
	gone() { [[ ! -e $RUN/b/xrb.sock ]]; }
	wait_for 5 gone
	away() { [[ $(status_code "$socket" "$url") == 503 ]]; }
	wait_for 5 away
	curl -sS --unix-socket "$socket" "$url" | grep "no device 'xrb'"
	daemon_up b
	back() { [[ $(status_code "$socket" "$url") == 200 ]]; }
	wait_for 5 back
	equal "messages" "$(cat "$BATS_TEST_TMPDIR/server")" \
		"xroce: no device 'xrb': there is no $RUN/b/xrb.sock"$'\nxroce: all daemons answer again'
	# a daemon that does not answer
	kill -STOP "$(daemon_pid b)"
	wait_for 5 away
	kill -CONT "$(daemon_pid b)"
	wait_for 5 back
	end_server
}

@test "daemons that do not answer leave time for those that do" {
	# They listen, and accept nobody.
	/usr/bin/python3 - "$RUN/b" 3>&- <<'PYTHON' &
import signal, socket, sys
held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
for s, name in zip(held, ("aaa", "zzz")):
    s.bind(f"{sys.argv[1]}/{name}.sock")
    s.listen(8)
signal.pause()
PYTHON
	SILENT=$!
	listening() { [[ -S $RUN/b/zzz.sock ]]; }
	wait_for 10 listening
	serve_at b "$RUN/b/metrics"
	# 4 seconds for all daemons, not for each
	curl -sS --max-time 7 --unix-socket "$RUN/b/metrics" http://localhost/metrics |
		grep 'xroce_device_info{device="xrb"'
	kill "$SILENT"
	rm "$RUN"/b/{aaa,zzz}.sock
	end_server
}

@test "silent peers do not stop the service" {
	local i peers=()

	serve_at a "$ADDRESS"
	for ((i = 0; i < 8; i++)); do
		on a nc -d -w 20 "${ADDRESS%:*}" "${ADDRESS#*:}" >/dev/null 3>&- &
		peers+=($!)
	done
	equal "end" "$(on a curl -sS --max-time 30 "http://$ADDRESS/metrics" | tail -n 1)" "# EOF"
	wait "${peers[@]}" || true
	end_server
}

@test "xroce metrics --listen names what is wrong with its address, group or sockets" {
	refused() {
		run timeout 20 "$XROCE" -r "$RUN/a" metrics "${@:2}"
		echo "$output"
		((status == 1 || status == 2)) && [[ $output == *"$1"* ]]
	}

	refused "--listen nowhere:1: neither" --listen nowhere:1
	refused "--listen /nonexistent/socket: No such file" --listen /nonexistent/socket
	refused "that is the name of a device's socket" --listen "$RUN/a/xrz.sock"
	refused "--listen systemd: the service manager has passed no socket" --listen systemd
	refused "--group is for a unix socket" --group root --listen "$ADDRESS"
	refused "--group is for a unix socket" --group root
	refused "--group no-such: there is no such group" --group no-such --listen "$RUN/a/metrics"
	refused "option '--listen' needs a value" --listen
}

@test "the daemon has no option --metrics" {
	run timeout 20 "$XROCED" --interface va --metrics "$ADDRESS"
	echo "$output"
	((status == 2)) && [[ $output == *"--metrics"* ]]
}

@test "the dashboard and the queries of the documentation use existing metrics" {
	local name

	ctl a metrics xra >"$BATS_TEST_TMPDIR/text"
	jq -e '.panels | length > 5' packaging/grafana.json
	jq -r '.panels[].targets[].expr' packaging/grafana.json | grep -oh 'xroce_[a-z_]*' - docs/metrics.md | sort -u |
		grep -vx xroce_ | while read -r name; do
		grep -q "^$name{" "$BATS_TEST_TMPDIR/text" || grep -q "^# TYPE $name " "$BATS_TEST_TMPDIR/text" ||
			{ echo "no metric $name"; return 1; }
	done
}
