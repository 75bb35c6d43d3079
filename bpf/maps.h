/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps of include/xroce/tables.h. The values of max_entries are defaults, which the daemon
 * replaces by its own limits. Maps that the daemon writes by system calls are read-only for
 * programs.
 */
#ifndef XROCE_BPF_MAPS_H
#define XROCE_BPF_MAPS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct xr_qp_entry);
} qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
	__uint(max_entries, 1 << 20);
	__type(key, __u32);
	__type(value, struct xr_key_entry);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(max_entries, 512); /* XR_GID_TABLE_LEN + XR_MAX_GROUPS */
	__type(key, struct xr_addr);
	__type(value, struct xr_addr_entry);
} addrs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	/* not BPF_F_RDONLY_PROG: the kernel would refuse a writable mapping */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct xr_psn_entry);
} psns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, XR_REASON_COUNT);
	__type(key, __u32);
	__type(value, struct xr_stat);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xr_limiter);
} limiter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* bytes */
} refused SEC(".maps");

#endif /* XROCE_BPF_MAPS_H */
