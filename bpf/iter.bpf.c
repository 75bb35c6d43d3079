// SPDX-License-Identifier: GPL-2.0-only
/*
 * Map iterators that print the key and QP tables as text: one line for each entry, below a line
 * with the names of the columns. The daemon pins them, so that they can be read with cat.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include <xroce/gid.h>
#include <xroce/tables.h>

/* The fields of kernel types that are used here */
struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
} __attribute__((preserve_access_index));

static __always_inline void print_type(struct seq_file *seq, __u8 type)
{
	switch (type) {
	case XR_QPT_RC:
		BPF_SEQ_PRINTF(seq, "RC       ");
		break;
	case XR_QPT_UC:
		BPF_SEQ_PRINTF(seq, "UC       ");
		break;
	case XR_QPT_UD:
		BPF_SEQ_PRINTF(seq, "UD       ");
		break;
	case XR_QPT_XRC_SEND:
		BPF_SEQ_PRINTF(seq, "XRC_SEND ");
		break;
	case XR_QPT_XRC_RECV:
		BPF_SEQ_PRINTF(seq, "XRC_RECV ");
		break;
	default:
		BPF_SEQ_PRINTF(seq, "%-8u ", type);
	}
}

static __always_inline void print_qp_state(struct seq_file *seq, __u8 state)
{
	switch (state) {
	case XR_QPS_RESET:
		BPF_SEQ_PRINTF(seq, "RESET ");
		break;
	case XR_QPS_INIT:
		BPF_SEQ_PRINTF(seq, "INIT  ");
		break;
	case XR_QPS_RTR:
		BPF_SEQ_PRINTF(seq, "RTR   ");
		break;
	case XR_QPS_RTS:
		BPF_SEQ_PRINTF(seq, "RTS   ");
		break;
	case XR_QPS_SQD:
		BPF_SEQ_PRINTF(seq, "SQD   ");
		break;
	case XR_QPS_SQE:
		BPF_SEQ_PRINTF(seq, "SQE   ");
		break;
	case XR_QPS_ERR:
		BPF_SEQ_PRINTF(seq, "ERR   ");
		break;
	default:
		BPF_SEQ_PRINTF(seq, "%-5u ", state);
	}
}

/* bpf_seq_printf() accepts pointers to kernel memory only, hence the copy on the stack. */
static __always_inline void print_addr(struct seq_file *seq, const struct xr_addr *value)
{
	struct xr_addr addr = *value;

	if (xr_gid_is_ipv4(&addr))
		BPF_SEQ_PRINTF(seq, " %pI4", &addr.raw[XR_GID_IPV4_OFF]);
	else
		BPF_SEQ_PRINTF(seq, " %pI6", &addr);
}

/* Remote read, write, atomic access */
static __always_inline void print_access(struct seq_file *seq, __u32 access)
{
	BPF_SEQ_PRINTF(seq, " %c%c%c   ", access & XR_ACCESS_REMOTE_READ ? 'r' : '-',
		       access & XR_ACCESS_REMOTE_WRITE ? 'w' : '-',
		       access & XR_ACCESS_REMOTE_ATOMIC ? 'a' : '-');
}

SEC("iter/bpf_map_elem")
int qps_text(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	const struct xr_qp_entry *qp = ctx->value;
	const __u32 *qpn = ctx->key;

	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "qpn      type     state pd    dest_qpn pkey   qkey       mtu  "
				    "slot  access local peer\n");
	if (!qpn || !qp)
		return 0;
	BPF_SEQ_PRINTF(seq, "0x%06x ", *qpn);
	print_type(seq, qp->type);
	print_qp_state(seq, qp->state);
	BPF_SEQ_PRINTF(seq, "%-5u 0x%06x 0x%04x 0x%08x %-4u %-5u", qp->pd, qp->dest_qpn, qp->pkey,
		       qp->qkey, qp->path_mtu, qp->slot);
	print_access(seq, qp->access);
	print_addr(seq, &qp->local);
	print_addr(seq, &qp->peer);
	BPF_SEQ_PRINTF(seq, "\n");
	return 0;
}

static __always_inline void print_key_state(struct seq_file *seq, __u8 state)
{
	switch (state) {
	case XR_KEY_FREE:
		BPF_SEQ_PRINTF(seq, "FREE    ");
		break;
	case XR_KEY_VALID:
		BPF_SEQ_PRINTF(seq, "VALID   ");
		break;
	case XR_KEY_INVALID:
		BPF_SEQ_PRINTF(seq, "INVALID ");
		break;
	default:
		BPF_SEQ_PRINTF(seq, "%-7u ", state);
	}
}

static __always_inline void print_key(struct seq_file *seq, __u32 index,
				      const struct xr_key_entry *key)
{
	BPF_SEQ_PRINTF(seq, "0x%08x ", XR_KEY(index, key->variant));
	if (key->type == XR_KEY_MW)
		BPF_SEQ_PRINTF(seq, "MW   ");
	else
		BPF_SEQ_PRINTF(seq, "MR   ");
	if (key->flags & XR_KEYF_PROGRAM)
		BPF_SEQ_PRINTF(seq, "PROGRAM ");
	else
		print_key_state(seq, key->state);
	BPF_SEQ_PRINTF(seq, "%-5u 0x%06x", key->pd, key->qpn);
	print_access(seq, key->access);
	BPF_SEQ_PRINTF(seq, " 0x%016llx 0x%llx\n", key->va, key->length);
}

SEC("iter/bpf_map_elem")
int keys_text(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	const struct xr_key_entry *key = ctx->value;
	const __u32 *index = ctx->key;

	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "key        type state   pd    qpn      access "
				    "va                 length\n");
	if (index && key)
		print_key(seq, *index, key);
	return 0;
}

SEC("iter/bpf_map_elem")
int direct_keys_text(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	const struct xr_key_entry *key = ctx->value;
	const struct xr_direct_key *at = ctx->key;

	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "slot key        type state   pd    qpn      access "
				    "va                 length\n");
	if (!at || !key)
		return 0;
	BPF_SEQ_PRINTF(seq, "%-4u ", at->slot);
	print_key(seq, at->index, key);
	return 0;
}

char _license[] SEC("license") = "GPL";
