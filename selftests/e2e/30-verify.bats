#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_verify: patterns by every operation, every byte and every completion compared.

load helpers

data=(-t write -t write-imm -t send -t send-imm -t read -t zero -t mixed -t pipeline -t atomic -t sizes -t reuse)

# verify ARG...
verify() {
	both -t 60 "$XR_BUILD/selftests/e2e/rdma_verify" -n "$(few 20)" -g @4 "$@"
}

@test "verify: every operation, the largest path MTU" {
	verify "${data[@]}" -m "$PMTU"
}

@test "verify: every operation, path MTU 1024" {
	verify "${data[@]}" -m 1024 -s 2
}

@test "verify: every operation, path MTU 256" {
	verify "${data[@]}" -m 256 -n "$(few 8)" -s 3
}

@test "verify: over IPv6" {
	both -t 60 "$XR_BUILD/selftests/e2e/rdma_verify" -n "$(few 20)" -g @6 "${data[@]}" -m 2048 -s 4
}

@test "verify: receives that come late, too late, and peers that have gone" {
	verify -t rnr -t rnr-limit -t gone
}

@test "verify: a rate limit" {
	verify -t rate -m "$PMTU"
	verify -t rate -m 256
}

@test "verify: four pairs at once" {
	local i pids=() status=0

	for i in 1 2 3 4; do
		PORT=$((18600 + i)) verify -t mixed -t atomic -t pipeline -n "$(few 15)" -m "$PMTU" -s $((10 + i)) &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=$?
	done
	((status == 0))
}
