#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# DAPL of the distribution: its programs over two of its providers, which connect by rdma_cm (cma) and by TCP (scm).

load helpers

setup_file() {
	local h

	requires root dtest dapltest
	hosts_up
	daemons_up
	for h in a b; do
		cat >"$RUN/$h/dat.conf" <<-END
			cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "v$h 0" ""
			scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "xr$h 1" ""
		END
	done
}

# dapl HOST PROGRAM ARG...
dapl() {
	run_on "$1" env DAT_OVERRIDE="$RUN/$1/dat.conf" timeout $((60 * SLOW)) "${@:2}"
}

# dtest_passes PROVIDER OPTION...: SENDs, WRITEs and READs in both directions
dtest_passes() {
	local out=$BATS_TEST_TMPDIR/server server

	spawn a "$out" env DAT_OVERRIDE="$RUN/a/dat.conf" timeout $((60 * SLOW)) dtest -P "$@"
	server=$!
	wait_for 20 listens a 15828
	run dapl b dtest -P "$@" -h "$A4"
	echo "$output"
	[[ $status == 0 && $output == *"DAPL Test Complete. PASSED"* ]] || kill "$server"
	wait "$server" || { cat "$out"; return 1; }
	grep -q "DAPL Test Complete. PASSED" "$out"
}

# dapltest_passes PROVIDER READY: transactions of several threads and endpoints, and a stream of WRITEs; READY: the
# command that tells that the server is ready
dapltest_passes() {
	local out=$BATS_TEST_TMPDIR/server server status=0

	spawn a "$out" env DAT_OVERRIDE="$RUN/a/dat.conf" timeout $((100 * SLOW)) dapltest -T S -D "$1"
	server=$!
	wait_for 20 "${@:2}"
	dapl b dapltest -T T -D "$1" -s "$A4" -i 20 -t 2 -w 2 -R BE \
		client RW 4096 server RR 4096 client SR 1024 4 server SR 1024 4 || status=1
	dapl b dapltest -T P -D "$1" -s "$A4" -i 50 -p 8 RW 65536 || status=1
	dapl b dapltest -T Q -D "$1" -s "$A4" || status=1
	((status == 0)) || kill "$server"
	wait "$server" || { cat "$out"; return 1; }
	return $status
}

cm_listens() {
	[[ $(ctl a cm -l -j xra | jq length) -gt 0 ]]
}

@test "dtest passes over the provider cma of DAPL" {
	counter_grows b rx_packets 100 dtest_passes cma -B 4 -b 4096
}

@test "dtest passes over the provider scm of DAPL" {
	counter_grows b rx_packets 100 dtest_passes scm -B 4 -b 4096
}

@test "dtest passes with more READs than may be outstanding" {
	counter_grows b rx_packets 100 dtest_passes scm -B 20 -b 65536
}

@test "dapltest passes over the provider cma of DAPL" {
	counter_grows b rx_packets 100 dapltest_passes cma cm_listens
}

@test "dapltest passes over the provider scm of DAPL" {
	counter_grows b rx_packets 100 dapltest_passes scm listens a 63000
}
