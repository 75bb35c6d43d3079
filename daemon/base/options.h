/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settings. Each has one name, used as `--name value` on the command line, which takes precedence,
 * and as `name = value` in the configuration file. The file is the one of --config, or else the
 * interface's own file in XD_CONFIG_DIR if it exists. Described in docs/man/xroced.8.
 */
#ifndef XD_OPTIONS_H
#define XD_OPTIONS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include <xroce/control.h>

#define XD_CONFIG_DIR "/etc/xroce"

enum xd_gso_option { XD_GSO_AUTO, XD_GSO_OFF };
enum xd_io_option { XD_IO_AUTO, XD_IO_XDP, XD_IO_SOCKET };
enum xd_bind_option { XD_BIND_AUTO, XD_BIND_INTERFACE, XD_BIND_ADDRESS };
/* Who checks received packets of direct programs: their library only, or BPF before it, too */
enum xd_verdict_option { XD_VERDICT_AUTO, XD_VERDICT_PROGRAM, XD_VERDICT_BPF };
enum xd_attach { XD_ATTACH_AUTO, XD_ATTACH_ZEROCOPY, XD_ATTACH_NATIVE, XD_ATTACH_GENERIC };

/* QPs that the daemon itself may have in addition to max_qp: QP 1 */
#define XD_OWN_QPS 1

/* Most users of --direct-users */
#define XD_DIRECT_USERS 32

struct xd_options {
	char interface[IF_NAMESIZE];
	char name[XR_DEVICE_NAME_MAX + 1]; /* default: xr_<interface> */
	char config[256];
	char runtime_dir[256];
	bool private_dir; /* it is the user's own, by default */
	char bpffs[256];
	char user[64];		      /* that the daemon becomes; empty: stay the same */
	char group[64];		      /* group that may connect besides root; empty: none */
	char reserved_lkey_group[64]; /* likewise, for the reserved L_Key */
	char direct_users[256];	      /* likewise, for slots: users, separated by commas */
	enum xd_io_option io;
	enum xd_bind_option bind; /* of UDP sockets */
	uint32_t workers;	  /* with UDP sockets; 0: by processors */
	uint32_t slots;		  /* with UDP sockets, for programs; 0: none */
	uint32_t ring_slots;	  /* most of them for users who may not borrow; 0: none */
	enum xd_verdict_option direct_verdict;
	uint32_t exit_idle; /* seconds without programs after which the daemon ends; 0: never */
	enum xd_attach attach;
	enum xd_gso_option gso;
	uint32_t dispatcher; /* priority behind the dispatcher of libxdp; 0: without */
	uint32_t queues;     /* number of RX queues to serve, 0: all */
	uint32_t ring_size;  /* frames of each AF_XDP receive ring, power of two */
	uint32_t uc_rate;    /* of the UC QPs of a worker, Mbit/s; 0: no limit */
	uint32_t spin_us;    /* longest spin before a worker sleeps */
	uint32_t max_clients, max_qp, max_cq, max_mr, max_pd, max_ah, max_srq; /* of the device */
	uint32_t client_max_qp, client_max_cq, client_max_mr, client_max_pd, client_max_ah,
		client_max_srq;
	uint32_t client_max_load; /* processor time for requests, in per cent of a processor */
	uint32_t max_cm_id, client_max_cm_id, user_max_cm_id; /* rdma_cm ids */
	uint32_t max_cm_channels, user_max_cm_channels;
	uint32_t cm_backlog;			  /* requests in the queue of one listener */
	uint32_t cm_half_open, cm_peer_half_open; /* of all peers, and of each */
	uint64_t client_max_dm;			  /* bytes of device memory */
	/* of all clients of one user together; operators are exempt */
	uint32_t user_max_clients, user_max_qp, user_max_cq, user_max_mr, user_max_pd, user_max_ah,
		user_max_srq;
	uint32_t user_max_files; /* descriptors; 0: a quarter of RLIMIT_NOFILE */
	uint32_t user_max_processes;
	uint64_t user_max_pinned; /* bytes that a user may register */
	uint64_t user_max_memory; /* bytes of the daemon's memory for a user's objects */
	uint32_t nak_rate;	  /* packets per second and CPU that require a NAK */
	char fault[1024];	  /* rules of fault injection */
	int log_level;

	/* users of direct_users */
	uid_t direct_uid[XD_DIRECT_USERS];
	uint32_t direct_uids;
	/* path of the control socket, from runtime_dir and name */
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* Returns 1 after --help or --version, -EINVAL after printing an error, else 0. */
int xd_options_parse(struct xd_options *opt, int argc, char **argv);
/* Returns the number of slots whose packets BPF checks, if there is a filter of sockets. */
static inline uint32_t xd_options_verdict_slots(const struct xd_options *opt)
{
	return opt->direct_verdict == XD_VERDICT_PROGRAM ? 0 : opt->slots;
}

/* Returns the name of the option at an offset in struct xd_options. */
const char *xd_option_name(size_t offset);

#endif /* XD_OPTIONS_H */
