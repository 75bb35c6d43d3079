// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Steering of RoCE to the RX queues that are served, with a fake driver behind ioctl(). */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/helper/steer.h"
#include "selftests/lib/tap.h"

#define LOCATIONS 64
#define TABLE 128
#define QUEUES 20

/* The fake driver. rule[i].cmd is 0 if location i is free. */
static struct {
	bool ntuple, places; /* places: the driver chooses the location */
	unsigned int room;   /* rules that fit */
	struct ethtool_rxnfc rule[LOCATIONS];
	uint32_t table[TABLE], table_size;
} driver;

static unsigned int rules(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < LOCATIONS; i++)
		n += driver.rule[i].cmd != 0;
	return n;
}

static int insert(struct ethtool_rxnfc *rule)
{
	uint32_t at = rule->fs.location;

	if (at == RX_CLS_LOC_ANY && driver.places)
		for (at = 0; at < LOCATIONS && driver.rule[at].cmd;)
			at++;
	if (rules() >= driver.room || at >= LOCATIONS || driver.rule[at].cmd)
		return -ENOSPC;
	rule->fs.location = at;
	driver.rule[at] = *rule;
	return 0;
}

static int on_rules(struct ethtool_rxnfc *cmd)
{
	if (!driver.ntuple)
		return -EOPNOTSUPP;
	switch (cmd->cmd) {
	case ETHTOOL_GRXCLSRLCNT:
		cmd->rule_cnt = rules();
		cmd->data = LOCATIONS | (driver.places ? RX_CLS_LOC_SPECIAL : 0);
		return 0;
	case ETHTOOL_GRXCLSRLALL:
		cmd->data = LOCATIONS;
		for (uint32_t i = 0, n = 0; i < LOCATIONS; i++)
			if (driver.rule[i].cmd)
				cmd->rule_locs[n++] = i;
		return 0;
	case ETHTOOL_SRXCLSRLINS:
		return insert(cmd);
	default:
		driver.rule[cmd->fs.location].cmd = 0;
		return 0;
	}
}

static int on_table(struct ethtool_rxfh_indir *cmd)
{
	size_t bytes = driver.table_size * sizeof(uint32_t);

	if (!driver.table_size)
		return -EOPNOTSUPP;
	if (cmd->cmd == ETHTOOL_SRXFHINDIR)
		memcpy(driver.table, cmd->ring_index, bytes);
	else if (cmd->size)
		memcpy(cmd->ring_index, driver.table, bytes);
	cmd->size = driver.table_size;
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *ifr;
	uint32_t cmd;
	va_list ap;
	int err;

	va_start(ap, request);
	ifr = va_arg(ap, struct ifreq *);
	va_end(ap);
	memcpy(&cmd, ifr->ifr_data, sizeof(cmd));
	if (fd < 0 || request != SIOCETHTOOL || strcmp(ifr->ifr_name, "eth0"))
		err = -EINVAL;
	else if (cmd == ETHTOOL_GRXFHINDIR || cmd == ETHTOOL_SRXFHINDIR)
		err = on_table((void *)ifr->ifr_data);
	else
		err = on_rules((void *)ifr->ifr_data);
	errno = -err;
	return err ? -1 : 0;
}

static void reset(bool ntuple, uint32_t table_size)
{
	memset(&driver, 0, sizeof(driver));
	driver.ntuple = ntuple;
	driver.room = LOCATIONS;
	driver.table_size = table_size;
	for (uint32_t i = 0; i < TABLE; i++)
		driver.table[i] = i % QUEUES;
}

/* Returns the queue of a flow; -1: no rule, or more than one. */
static int queue_of(uint32_t flow, uint16_t source, uint16_t destination)
{
	int queue = -1, matches = 0;

	for (unsigned int i = 0; i < LOCATIONS; i++) {
		const struct ethtool_rx_flow_spec *fs = &driver.rule[i].fs;
		const struct ethtool_tcpip4_spec *h4 = &fs->h_u.udp_ip4_spec;
		const struct ethtool_tcpip4_spec *m4 = &fs->m_u.udp_ip4_spec;
		const struct ethtool_tcpip6_spec *h6 = &fs->h_u.udp_ip6_spec;
		const struct ethtool_tcpip6_spec *m6 = &fs->m_u.udp_ip6_spec;
		bool v4 = flow == UDP_V4_FLOW;
		uint16_t src = v4 ? h4->psrc : h6->psrc, dst = v4 ? h4->pdst : h6->pdst;
		uint16_t src_mask = v4 ? m4->psrc : m6->psrc, dst_mask = v4 ? m4->pdst : m6->pdst;

		if (!driver.rule[i].cmd || fs->flow_type != flow ||
		    (htons(source) & src_mask) != src || (htons(destination) & dst_mask) != dst)
			continue;
		queue = (int)fs->ring_cookie;
		matches++;
	}
	return matches == 1 ? queue : -1;
}

static void check_rules(const char *what, unsigned int served)
{
	unsigned int seen[QUEUES] = { 0 }, wrong = 0, before = rules();
	struct xd_steer *s = NULL;
	int err = xd_steer_start("eth0", served, &s);

	if (!TAP_OK(!err && !strcmp(xd_steer_means(s), "ntuple rules"), "%s: rules are added",
		    what))
		return;
	for (uint16_t port = 0xc000; port < 0xc100; port++) {
		int queue = queue_of(UDP_V4_FLOW, port, 4791);

		wrong += queue < 0 || queue != queue_of(UDP_V6_FLOW, port, 4791);
		wrong += queue_of(UDP_V4_FLOW, port, 53) >= 0;
		if (queue >= 0)
			seen[queue]++;
	}
	for (unsigned int i = 0; i < QUEUES; i++)
		wrong += (seen[i] != 0) != (i < served);
	TAP_OK(!wrong, "%s: port 4791 goes to each of %u queues, other ports do not", what, served);
	xd_steer_stop(s);
	TAP_OK(rules() == before, "%s: the rules are removed", what);
}

static void test_rules(void)
{
	reset(true, TABLE);
	driver.places = true;
	check_rules("the driver chooses", 4);
	check_rules("no power of two", 3);
	check_rules("one queue", 1);
	reset(true, TABLE);
	driver.rule[LOCATIONS - 1].cmd = driver.rule[LOCATIONS - 3].cmd = 1;
	check_rules("some locations are used", 4);
	TAP_OK(driver.rule[LOCATIONS - 1].cmd && driver.rule[LOCATIONS - 3].cmd,
	       "rules of others are kept");
}

static void test_table(void)
{
	struct xd_steer *s = NULL;
	unsigned int wrong = 0, i;

	reset(true, TABLE);
	driver.room = 5;
	TAP_OK(!xd_steer_start("eth0", 4, &s) && !rules() &&
		       !strcmp(xd_steer_means(s), "the RSS table"),
	       "the RSS table is used if not all rules fit");
	for (i = 0; i < TABLE; i++)
		wrong += driver.table[i] != i % 4;
	TAP_OK(!wrong, "the table spreads packets over the queues that are served");
	xd_steer_stop(s);
	for (i = 0; i < TABLE; i++)
		wrong += driver.table[i] != i % QUEUES;
	TAP_OK(!wrong, "the table is restored");

	reset(false, TABLE);
	TAP_OK(!xd_steer_start("eth0", 4, &s), "the RSS table is used if there are no rules");
	driver.table[7] = 19;
	xd_steer_stop(s);
	TAP_OK(driver.table[7] == 19 && driver.table[8] == 0,
	       "a table that was changed meanwhile is not restored");
}

int main(void)
{
	struct xd_steer *s = NULL;

	test_rules();
	test_table();
	reset(false, 0);
	TAP_OK(xd_steer_start("eth0", 4, &s) == -EOPNOTSUPP && !s,
	       "a driver that can do neither is reported");
	return tap_end();
}
