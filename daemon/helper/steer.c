// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "steer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/bits.h>
#include <xroce/wire.h>

#include "daemon/base/log.h"

#define MAX_RULES 512
#define MAX_LOCATIONS (1u << 20) /* of a driver's rule table */

struct xd_steer {
	char ifname[IF_NAMESIZE];
	unsigned int rules;
	uint32_t location[MAX_RULES];
	/* RSS table: as it was, and as set here. NULL: rules are in use */
	struct ethtool_rxfh_indir *before, *set;
};

int xd_ethtool(const char *ifname, void *cmd)
{
	struct ifreq ifr = { .ifr_data = cmd };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	strncpy(ifr.ifr_name, ifname, sizeof(ifr.ifr_name) - 1);
	err = ioctl(fd, SIOCETHTOOL, &ifr) < 0 ? -errno : 0;
	close(fd);
	return err;
}

void xd_count_queues(const char *ifname, uint32_t *rx, uint32_t *tx)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_GCHANNELS };

	*rx = *tx = 1;
	if (xd_ethtool(ifname, &ch))
		return;
	if (ch.combined_count + ch.rx_count)
		*rx = ch.combined_count + ch.rx_count;
	if (ch.combined_count + ch.tx_count)
		*tx = ch.combined_count + ch.tx_count;
}

/* ---- ntuple rules ------------------------------------------------------------------------- */

/* Where the next rule goes: the driver chooses, or the highest location that is free. */
struct steer_places {
	bool driver_chooses;
	uint32_t next;		    /* all locations above are used */
	struct ethtool_rxnfc *used; /* rule_locs[rule_cnt] */
};

static int find_places(const char *ifname, struct steer_places *p)
{
	struct ethtool_rxnfc count = { .cmd = ETHTOOL_GRXCLSRLCNT };
	int err = xd_ethtool(ifname, &count);

	*p = (struct steer_places){ .driver_chooses = count.data & RX_CLS_LOC_SPECIAL };
	if (err || p->driver_chooses)
		return err;
	p->used = calloc(1, sizeof(*p->used) + count.rule_cnt * sizeof(uint32_t));
	if (!p->used)
		return -ENOMEM;
	p->used->cmd = ETHTOOL_GRXCLSRLALL;
	p->used->rule_cnt = count.rule_cnt;
	err = xd_ethtool(ifname, p->used);
	p->next = p->used->data < MAX_LOCATIONS ? (uint32_t)p->used->data : MAX_LOCATIONS;
	return err;
}

static bool is_used(const struct steer_places *p, uint32_t location)
{
	for (uint32_t i = 0; i < p->used->rule_cnt; i++)
		if (p->used->rule_locs[i] == location)
			return true;
	return false;
}

static int take_place(struct steer_places *p, uint32_t *location)
{
	*location = RX_CLS_LOC_ANY;
	if (p->driver_chooses)
		return 0;
	while (p->next) {
		*location = --p->next;
		if (!is_used(p, *location))
			return 0;
	}
	return -ENOSPC;
}

/* A rule for UDP port 4791 and source ports whose low bits, selected by `mask`, are `port`. */
static struct ethtool_rxnfc rule_for(uint32_t flow, uint16_t port, uint16_t mask)
{
	struct ethtool_rxnfc rule = { .cmd = ETHTOOL_SRXCLSRLINS, .fs.flow_type = flow };

	if (flow == UDP_V4_FLOW) {
		rule.fs.h_u.udp_ip4_spec.pdst = htons(XR_UDP_PORT);
		rule.fs.m_u.udp_ip4_spec.pdst = 0xffff;
		rule.fs.h_u.udp_ip4_spec.psrc = htons(port);
		rule.fs.m_u.udp_ip4_spec.psrc = htons(mask);
	} else {
		rule.fs.h_u.udp_ip6_spec.pdst = htons(XR_UDP_PORT);
		rule.fs.m_u.udp_ip6_spec.pdst = 0xffff;
		rule.fs.h_u.udp_ip6_spec.psrc = htons(port);
		rule.fs.m_u.udp_ip6_spec.psrc = htons(mask);
	}
	return rule;
}

static int steer_add_rule(struct xd_steer *s, struct steer_places *p, struct ethtool_rxnfc *rule)
{
	int err = s->rules < MAX_RULES ? take_place(p, &rule->fs.location) : -ENOSPC;

	if (!err)
		err = xd_ethtool(s->ifname, rule);
	if (!err)
		s->location[s->rules++] = rule->fs.location;
	return err;
}

static void steer_remove_rules(struct xd_steer *s)
{
	while (s->rules) {
		struct ethtool_rxnfc rule = { .cmd = ETHTOOL_SRXCLSRLDEL };
		int err;

		rule.fs.location = s->location[--s->rules];
		err = xd_ethtool(s->ifname, &rule);
		if (err)
			xd_log(XD_WARN, "%s: ntuple rule %u is not removed: %s", s->ifname,
			       rule.fs.location, strerror(-err));
	}
}

/* Spreads the flows over the queues by the low bits of their source ports, which senders vary. */
static int add_rules(struct xd_steer *s, unsigned int served)
{
	static const uint32_t flows[] = { UDP_V4_FLOW, UDP_V6_FLOW };
	uint16_t ports = (uint16_t)xr_pow2_roundup(served);
	struct steer_places places;
	int err = find_places(s->ifname, &places);

	for (unsigned int f = 0; f < 2 && !err; f++) {
		for (uint16_t port = 0; port < ports && !err; port++) {
			struct ethtool_rxnfc rule = rule_for(flows[f], port, ports - 1);

			rule.fs.ring_cookie = port % served;
			err = steer_add_rule(s, &places, &rule);
		}
	}
	free(places.used);
	if (err)
		steer_remove_rules(s);
	return err;
}

/* ---- RSS table ---------------------------------------------------------------------------- */

static struct ethtool_rxfh_indir *read_table(const char *ifname, int *err)
{
	struct ethtool_rxfh_indir head = { .cmd = ETHTOOL_GRXFHINDIR }, *table;

	*err = xd_ethtool(ifname, &head);
	if (!*err && !head.size)
		*err = -EOPNOTSUPP;
	if (*err)
		return NULL;
	table = calloc(1, sizeof(*table) + head.size * sizeof(uint32_t));
	if (!table) {
		*err = -ENOMEM;
		return NULL;
	}
	*table = head;
	*err = xd_ethtool(ifname, table);
	if (!*err)
		return table;
	free(table);
	return NULL;
}

static size_t table_len(const struct ethtool_rxfh_indir *table)
{
	return sizeof(*table) + table->size * sizeof(uint32_t);
}

static int set_table(struct xd_steer *s, unsigned int served)
{
	int err;

	s->before = read_table(s->ifname, &err);
	if (err)
		return err;
	s->set = malloc(table_len(s->before));
	if (!s->set)
		return -ENOMEM;
	memcpy(s->set, s->before, table_len(s->before));
	s->set->cmd = s->before->cmd = ETHTOOL_SRXFHINDIR;
	for (uint32_t i = 0; i < s->set->size; i++)
		s->set->ring_index[i] = i % served;
	return xd_ethtool(s->ifname, s->set);
}

static void restore_table(struct xd_steer *s)
{
	int err;
	struct ethtool_rxfh_indir *now = read_table(s->ifname, &err);

	if (now && (now->size != s->set->size ||
		    memcmp(now->ring_index, s->set->ring_index, now->size * sizeof(uint32_t))))
		xd_log(XD_INFO, "%s: the RSS table was changed and is not restored", s->ifname);
	else if (now)
		err = xd_ethtool(s->ifname, s->before);
	if (err)
		xd_log(XD_WARN, "%s: the RSS table is not restored: %s", s->ifname, strerror(-err));
	free(now);
}

/* ---- start and stop ----------------------------------------------------------------------- */

static void free_steer(struct xd_steer *s)
{
	free(s->before);
	free(s->set);
	free(s);
}

int xd_steer_start(const char *ifname, unsigned int served, struct xd_steer **steer)
{
	struct xd_steer *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	strncpy(s->ifname, ifname, sizeof(s->ifname) - 1);
	err = add_rules(s, served);
	if (err)
		err = set_table(s, served);
	if (err)
		free_steer(s);
	else
		*steer = s;
	return err;
}

const char *xd_steer_means(const struct xd_steer *s)
{
	return s->set ? "the RSS table" : "ntuple rules";
}

void xd_steer_stop(struct xd_steer *s)
{
	if (!s)
		return;
	if (s->set)
		restore_table(s);
	steer_remove_rules(s);
	free_steer(s);
}
