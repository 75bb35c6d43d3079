/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lists of SHOW (control.h): the members of their rows, and whether a member has a value that a
 * selection names. The daemon selects rows by it; the `xroce` command checks what its user wrote,
 * and filters the events of `xroce monitor`. docs/show.md describes the members.
 */
#ifndef XROCE_SHOW_H
#define XROCE_SHOW_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <xroce/control.h>
#include <xroce/gid.h>

/* ---- members ------------------------------------------------------------------------------ */

#define XR_ROW_PROGRAM " age_ns# pid# uid# comm"
#define XR_ROW_KEY_COUNTERS                                                                        \
	"references# remote_writes# remote_write_bytes# remote_reads# remote_read_bytes# "         \
	"remote_atomics# remote_atomic_bytes# local_reads# local_read_bytes# local_writes# "       \
	"local_write_bytes# refused#"
#define XR_ROW_NAKS(kind) kind "_naks_sent# " kind "_naks_received# "

/*
 * The last character of a name is its type: XR_NUMBER, XR_BOOLEAN or XR_OBJECT; none: text.
 * The first member is the number or handle of the object.
 */
struct xr_list {
	uint32_t what, details_what; /* enum xr_show_what; details_what 0: there are no details */
	const char *names, *details; /* details: of details_what in addition */
};

enum xr_member_type { XR_TEXT, XR_NUMBER = '#', XR_BOOLEAN = '?', XR_OBJECT = '{' };

/* Returns NULL if the reply is no list of rows. */
static inline const struct xr_list *xr_list_of(uint32_t what)
{
	static const struct xr_list lists[] = {
		{ XR_SHOW_QPS, XR_SHOW_QP_DETAILS,
		  "qpn# type state client# worker# peer dest_qpn# path_mtu# send_cq# recv_cq# srq# "
		  "local? path" XR_ROW_PROGRAM,
		  "pd# sq_depth# sq_used# rq_depth# rq_used# sq_psn# unacked_psn# rq_psn# window# "
		  "in_flight# waits_for retries_left# rnr_retries_left# timeout# retry_cnt# "
		  "rnr_retry# max_rd_atomic# max_dest_rd_atomic# rate_limit_kbps# tx_packets# "
		  "tx_bytes# tx_messages# rx_packets# rx_bytes# rx_messages# tx_retransmits# "
		  "tx_probes# timeouts# " XR_ROW_NAKS("rnr") XR_ROW_NAKS("seq")
			  XR_ROW_NAKS("access") XR_ROW_NAKS("invalid") XR_ROW_NAKS("operational")
				  XR_ROW_NAKS("rd") "rx_duplicates# rx_out_of_sequence# rx_early# "
						    "rx_held_lost# rtt{ created_ns#" },
		{ XR_SHOW_MRS, XR_SHOW_MR_DETAILS,
		  "lkey# client# pd# addr length# access state tier pinned? iova "
		  "path" XR_ROW_PROGRAM,
		  XR_ROW_KEY_COUNTERS " created_ns#" },
		{ XR_SHOW_CQS, XR_SHOW_CQ_DETAILS,
		  "cq# client# depth# used# armed? overrun? vector# path" XR_ROW_PROGRAM,
		  "channel# references# event_count# event_period_us# completions# "
		  "completion_errors# completions_lost# events# created_ns#" },
		{ XR_SHOW_SRQS, XR_SHOW_SRQ_DETAILS,
		  "srq# client# type pd# depth# used# limit# qps# number# xrcd# cq# dead? "
		  "path" XR_ROW_PROGRAM,
		  "receives# receives_missed# created_ns#" },
		{ XR_SHOW_AHS, XR_SHOW_AH_DETAILS,
		  "ah# client# pd# gid_index# peer mac vlan# hop_limit# traffic_class# flow_label# "
		  "local? path" XR_ROW_PROGRAM,
		  "created_ns#" },
		{ XR_SHOW_GROUPS, 0, "group client# qpn# path" XR_ROW_PROGRAM, "" },
		{ XR_SHOW_MWS, XR_SHOW_MW_DETAILS,
		  "rkey# client# pd# type# bound? mr# addr length# access qpn# path" XR_ROW_PROGRAM,
		  "refused# created_ns#" },
		{ XR_SHOW_DMS, 0, "dm# client# length# mrs# path" XR_ROW_PROGRAM, "" },
		{ XR_SHOW_XRCDS, 0,
		  "xrcd# client# domain# opened# file? inode# path" XR_ROW_PROGRAM, "" },
		{ XR_SHOW_CM_IDS, XR_SHOW_CM_ID_DETAILS,
		  "id# client# port_space state cm_state address port# peer peer_port# qpn# "
		  "peer_qpn# backlog#" XR_ROW_PROGRAM,
		  "comm_id# peer_comm_id# tos# responder_resources# initiator_depth# retry_cnt# "
		  "rnr_retry# mads_sent# mads_retried# events# events_read# created_ns#" },
		{ XR_SHOW_CLIENTS, 0,
		  "client# pid# uid# comm age_ns# observer? direct? cm_ids# qps# ahs# srqs# xrcds# "
		  "cqs# channels# mws# mrs# dms# pds# user_bytes# delays# mover# accesses# "
		  "waiting_us# ending?",
		  "" },
	};

	for (size_t i = 0; what && i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i].what == what || lists[i].details_what == what)
			return &lists[i];
	return NULL;
}

/* Returns the next name behind *p and its length without the type; NULL: none. */
static inline const char *xr_next_member(const char **p, size_t *length)
{
	const char *name = *p + strspn(*p, " ");

	*length = strcspn(name, "#?{ ");
	*p = name + strcspn(name, " ");
	return *name ? name : NULL;
}

/* type: of the name that xr_next_member() returned */
static inline enum xr_member_type xr_type_of_member(const char *name, size_t length)
{
	char c = name[length];

	return c == '#' || c == '?' || c == '{' ? (enum xr_member_type)c : XR_TEXT;
}

/* name: of n characters. Returns false if there is no such member. */
static inline bool xr_find_member(const char *names, const char *name, size_t n,
				  enum xr_member_type *type)
{
	const char *member;
	size_t length;

	while ((member = xr_next_member(&names, &length))) {
		if (length != n || memcmp(member, name, n))
			continue;
		*type = xr_type_of_member(member, length);
		return true;
	}
	return false;
}

/* ---- values ------------------------------------------------------------------------------- */

/* A value of a selection may be several, with commas. Returns the next one; NULL: none. */
static inline const char *xr_next_word(const char **p, size_t *length)
{
	const char *word = *p + strspn(*p, ",");

	*length = strcspn(word, ",");
	*p = word + *length;
	return *length ? word : NULL;
}

/* The text of a word that is a number or an address, with a NUL; empty if it is longer. */
struct xr_word {
	char text[64];
};

static inline struct xr_word xr_copy_word(const char *word, size_t length)
{
	struct xr_word w = { "" };

	if (length < sizeof(w.text))
		memcpy(w.text, word, length);
	return w;
}

/* Decimal, or hexadecimal with 0x. Returns false if it is no number. */
static inline bool xr_parse_number(const char *word, size_t length, uint64_t *n)
{
	struct xr_word w = xr_copy_word(word, length);
	char *end;

	errno = 0;
	*n = strtoull(w.text, &end, 0);
	return *w.text >= '0' && *w.text <= '9' && !*end && !errno;
}

/* An IPv4 address is the GID that stands for it. */
static inline bool xr_parse_address(const char *text, struct xr_addr *a)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, a->raw) == 1;
	xr_gid_set_ipv4(a, v4.s_addr);
	return true;
}

static inline bool xr_is_word(const char *word, size_t length, const char *other)
{
	return strlen(other) == length && !memcmp(word, other, length);
}

/* Addresses have several spellings. */
static inline bool xr_text_is_word(const char *text, const char *word, size_t length)
{
	struct xr_word w = xr_copy_word(word, length);
	struct xr_addr a, b;

	if (strlen(text) == length && !strncasecmp(text, word, length))
		return true;
	return strpbrk(text, ".:") && xr_parse_address(text, &a) && xr_parse_address(w.text, &b) &&
	       xr_gid_equal(&a, &b);
}

/* Names of programs may have commas. */
static inline bool xr_text_matches(const char *text, const char *words)
{
	const char *word;
	size_t n;

	if (!strcasecmp(text, words))
		return true;
	while ((word = xr_next_word(&words, &n)))
		if (xr_text_is_word(text, word, n))
			return true;
	return false;
}

static inline bool xr_number_matches(uint64_t number, const char *words)
{
	const char *word;
	uint64_t value;
	size_t n;

	while ((word = xr_next_word(&words, &n)))
		if (xr_parse_number(word, n, &value) && value == number)
			return true;
	return false;
}

static inline bool xr_boolean_matches(bool boolean, const char *words)
{
	const char *word;
	size_t n;

	while ((word = xr_next_word(&words, &n)))
		if (xr_is_word(word, n, boolean ? "yes" : "no"))
			return true;
	return false;
}

/* Returns the first word that no value of the type equals, and its length; NULL: none. */
static inline const char *xr_wrong_word(enum xr_member_type type, const char *words, size_t *length)
{
	const char *word;
	uint64_t n;

	while ((word = xr_next_word(&words, length))) {
		if (type == XR_NUMBER && !xr_parse_number(word, *length, &n))
			return word;
		if (type == XR_BOOLEAN && !xr_is_word(word, *length, "yes") &&
		    !xr_is_word(word, *length, "no"))
			return word;
	}
	return NULL;
}

#endif /* XROCE_SHOW_H */
