#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Metrics: by the xroce command, and by HTTP from the daemon.

load helpers

ADDRESS=127.0.0.1:9320

setup_file() {
	requires root
	hosts_up
	daemon_up a --metrics "$ADDRESS"
	daemon_up b --metrics "$RUN/b/metrics"
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
	daemon_up b --group "$group" --metrics "$RUN/b/metrics"
	run_on b ibv_devinfo
	ctl b metrics xrb | grep -q '^xroce_program_qps'
	run -0 "${user[@]}"
	grep -q '^xroce_transport_completions_total' <<<"$output"
	not grep -Eq '^xroce_(program|client)_' <<<"$output"
	daemon_down b
	daemon_up b --metrics "$RUN/b/metrics"
}

@test "xroce metrics merges devices family by family" {
	local text=$BATS_TEST_TMPDIR/text

	mkdir "$RUN/both"
	ln -s "$RUN/a/xra.sock" "$RUN/b/xrb.sock" "$RUN/both"
	"$XROCE" -r "$RUN/both" metrics >"$text"
	rm -r "$RUN/both"
	run check "$text"
	echo "$output"
	((status == 77 || status == 0))
	equal "devices" "$(grep -c '^xroce_port_up{' "$text")" 2
	equal "families" "$(grep -c '^# TYPE xroce_port_up ' "$text")" 1
	equal "end" "$(tail -n 1 "$text")" "# EOF"
}

@test "the daemon serves metrics at a TCP address" {
	local text=$BATS_TEST_TMPDIR/text

	on a curl -sS -D "$text.head" -o "$text" "http://$ADDRESS/metrics"
	cat "$text.head"
	grep -q '^HTTP/1.1 200 OK' "$text.head"
	grep -qi '^content-type: application/openmetrics-text; version=1.0.0' "$text.head"
	equal "end" "$(tail -n 1 "$text")" "# EOF"
	equal "other page" "$(on a curl -s -o /dev/null -w '%{http_code}' "http://$ADDRESS/")" 404
	equal "other method" "$(on a curl -s -o /dev/null -w '%{http_code}' -X POST "http://$ADDRESS/metrics")" 405
}

@test "the daemon serves metrics at a unix socket, and removes it" {
	on b curl -sS --unix-socket "$RUN/b/metrics" http://localhost/metrics | grep -q '^xroce_port_up{device="xrb"} 1$'
	daemon_down b
	gone() { [[ ! -e $RUN/b/metrics ]]; }
	wait_for 5 gone
	daemon_up b --metrics "$RUN/b/metrics"
	on b curl -sS --unix-socket "$RUN/b/metrics" http://localhost/metrics | grep -q '^# EOF$'
}

@test "silent peers do not stop the service" {
	local i

	for ((i = 0; i < 8; i++)); do
		on a nc -d -w 20 "${ADDRESS%:*}" "${ADDRESS#*:}" >/dev/null 3>&- &
	done
	equal "end" "$(on a curl -sS --max-time 30 "http://$ADDRESS/metrics" | tail -n 1)" "# EOF"
	wait
}

@test "a wrong address is named" {
	daemon_down b
	run on b timeout 20 "$XROCED" --io "$(packets_by)" --interface vb --runtime-dir "$RUN/b" --bpffs "$RUN/bpf" --user "" \
		--metrics nowhere:1
	echo "$output"
	((status == 1))
	[[ $output == *"--metrics nowhere:1: neither"* ]]
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
