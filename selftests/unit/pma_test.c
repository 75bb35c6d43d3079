// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The performance management agent: attributes, saturation, Set, statuses, hostile requests. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "daemon/gsi/pma.h"
#include "daemon/transport/transport.h"
#include "selftests/lib/tap.h"

enum { GET = 1, SET = 2, GET_RESP = 0x81 };
enum { INFO = 1, COUNTERS = 0x12, EXTENDED = 0x1d };

/* offsets */
enum { METHOD = 3, STATUS = 4, ATTRIBUTE = 16, MODIFIER = 20, DATA = 64 };

static struct xd_pma pma;
static uint8_t request[XC_MAD_LEN], response[XC_MAD_LEN];
static const struct xt_counters first = {
	.tx_bytes = 4003,
	.rx_bytes = 8000,
	.tx_packets = 10,
	.rx_packets = 20,
	.rx_icrc_errors = 1,
	.rx_udp_checksum_errors = 2,
	.rx_malformed = 4,
	.rx_no_qp = 64,
};

static uint64_t value(unsigned int at, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v = v << 8 | response[at + i];
	return v;
}

static void build(uint8_t method, uint16_t attribute)
{
	memset(request, 0, sizeof(request));
	request[0] = request[2] = 1;
	request[1] = XD_PMA_CLASS;
	request[METHOD] = method;
	memset(request + 8, 0xab, 8); /* transaction ID */
	request[ATTRIBUTE] = (uint8_t)(attribute >> 8);
	request[ATTRIBUTE + 1] = (uint8_t)attribute;
	request[DATA + 1] = 1; /* PortSelect */
}

/* Returns the status of the response. */
static unsigned int ask(const struct xt_counters *now)
{
	memset(response, 0xee, sizeof(response));
	xd_pma_respond(&pma, now, request, response);
	return (unsigned int)value(STATUS, 2);
}

static unsigned int ask_for(uint8_t method, uint16_t attribute)
{
	build(method, attribute);
	return ask(&first);
}

static bool is_zero(unsigned int from, unsigned int to)
{
	while (from < to && !response[from])
		from++;
	return from == to;
}

static void test_get(void)
{
	TAP_OK(!ask_for(GET, INFO) && response[METHOD] == GET_RESP &&
		       !memcmp(response, request, METHOD) &&
		       !memcmp(response + 8, request + 8, DATA - 8),
	       "a response has the header of its request");
	TAP_OK(value(DATA, 2) == 0x0101 && value(DATA + 2, 2) == 0x0500 &&
		       value(DATA + 4, 4) == 18 && is_zero(DATA + 8, XC_MAD_LEN),
	       "ClassPortInfo: versions, AllPortSelect and 64-bit counters, response time");
	TAP_OK(!ask_for(GET, COUNTERS) && response[DATA + 1] == 1, "PortCounters");
	TAP_OK(value(DATA + 24, 4) == 1000 && value(DATA + 28, 4) == 2000 &&
		       value(DATA + 32, 4) == 10 && value(DATA + 36, 4) == 20,
	       "words and packets sent and received");
	TAP_OK(value(DATA + 8, 2) == 7 && is_zero(DATA + 4, DATA + 8) &&
		       is_zero(DATA + 10, DATA + 24) && is_zero(DATA + 40, XC_MAD_LEN),
	       "errors are counted, the other counters are 0");
	TAP_OK(!ask_for(GET, EXTENDED) && value(DATA + 8, 8) == 1000 &&
		       value(DATA + 16, 8) == 2000 && value(DATA + 24, 8) == 10 &&
		       value(DATA + 32, 8) == 20 && is_zero(DATA + 40, XC_MAD_LEN),
	       "PortCountersExtended");
	build(GET, COUNTERS);
	request[DATA + 1] = 0xff;
	TAP_OK(!ask(&first) && value(DATA + 24, 4) == 1000 && response[DATA + 1] == 0xff,
	       "all ports are the port");
}

static void test_large(void)
{
	const struct xt_counters large = {
		.tx_bytes = 0x400000000,
		.rx_bytes = 0x3fffffff8,
		.tx_packets = 0x100000000,
		.rx_packets = 0xfffffffe,
		.rx_malformed = 65536,
	};

	build(GET, COUNTERS);
	TAP_OK(!ask(&large) && value(DATA + 24, 4) == 0xffffffff &&
		       value(DATA + 28, 4) == 0xfffffffe && value(DATA + 32, 4) == 0xffffffff &&
		       value(DATA + 36, 4) == 0xfffffffe && value(DATA + 8, 2) == 0xffff,
	       "counters of 16 and 32 bits stop at their maximum");
	build(GET, EXTENDED);
	TAP_OK(!ask(&large) && value(DATA + 8, 8) == 0x100000000 &&
		       value(DATA + 24, 8) == 0x100000000,
	       "those of 64 bits do not");
}

static void test_set(void)
{
	struct xt_counters later = first;

	build(SET, COUNTERS);
	request[DATA + 2] = 0x50; /* CounterSelect: PortXmitData, PortXmitPkts */
	request[DATA + 35] = 5;	  /* PortXmitPkts */
	TAP_OK(!ask(&first) && value(DATA + 2, 2) == 0x5000 && !value(DATA + 24, 4) &&
		       value(DATA + 32, 4) == 5,
	       "Set gives the selected counters the values of the request");
	TAP_OK(value(DATA + 28, 4) == 2000 && value(DATA + 36, 4) == 20 && value(DATA + 8, 2) == 7,
	       "and changes no others");
	later.tx_bytes += 40;
	later.tx_packets += 3;
	build(GET, COUNTERS);
	TAP_OK(!ask(&later) && value(DATA + 24, 4) == 10 && value(DATA + 32, 4) == 8,
	       "they count on from there");
	build(GET, EXTENDED);
	TAP_OK(!ask(&later) && value(DATA + 8, 8) == 1010 && value(DATA + 24, 8) == 13,
	       "PortCountersExtended has values of its own");
	build(SET, EXTENDED);
	request[DATA + 3] = 0x0f;
	TAP_OK(!ask(&later) && is_zero(DATA + 8, XC_MAD_LEN), "and is reset on its own");
	build(GET, COUNTERS);
	TAP_OK(!ask(&later) && value(DATA + 28, 4) == 2000, "which does not reset PortCounters");
	build(SET, COUNTERS);
	memset(request + DATA + 2, 0xff, XC_MAD_LEN - DATA - 2);
	TAP_OK(!ask(&later) && value(DATA + 24, 4) == 0xffffffff && is_zero(DATA + 4, DATA + 8) &&
		       is_zero(DATA + 10, DATA + 24) && is_zero(DATA + 40, XC_MAD_LEN),
	       "Set of all bits leaves the counters that are always 0");
	memset(&pma, 0, sizeof(pma));
}

static void test_statuses(void)
{
	static const struct xd_pma unchanged;

	TAP_OK(ask_for(SET, INFO) == 0x0c && ask_for(GET, 0x10) == 0x0c &&
		       ask_for(SET, 0x1234) == 0x0c,
	       "other attributes, and Set of ClassPortInfo, are not supported");
	TAP_OK(response[METHOD] == GET_RESP && !memcmp(response + DATA, request + DATA, 192),
	       "the response is the request with a status");
	TAP_OK(ask_for(0x15, COUNTERS) == 0x08, "nor are other methods");
	build(GET, COUNTERS);
	request[2] = 2;
	TAP_OK(ask(&first) == 0x04, "nor other class versions");
	build(SET, COUNTERS);
	memset(request + DATA + 2, 0xff, 2);
	request[MODIFIER + 3] = 1;
	TAP_OK(ask(&first) == 0x1c, "an attribute modifier is invalid");
	build(SET, EXTENDED);
	memset(request + DATA + 2, 0xff, 2);
	request[DATA + 1] = 2;
	TAP_OK(ask(&first) == 0x1c, "and so is another port");
	request[DATA + 1] = 0;
	TAP_OK(ask(&first) == 0x1c, "and port 0");
	TAP_OK(!memcmp(&pma, &unchanged, sizeof(pma)), "none of them changes a counter");
}

static void test_requests(void)
{
	static const uint8_t none[] = { 3, 5, 7, 0x80, 0x81, 0x82, 0x86, 0xff };
	bool right = true;

	build(GET, INFO);
	TAP_OK(xd_pma_is_request(request), "Get is a request");
	build(SET, INFO);
	TAP_OK(xd_pma_is_request(request), "Set is a request");
	for (unsigned int i = 0; i < sizeof(none); i++) {
		build(none[i], COUNTERS);
		right &= !xd_pma_is_request(request);
	}
	TAP_OK(right, "Send, traps and responses are not");
	build(GET, COUNTERS);
	request[0] = 2;
	TAP_OK(!xd_pma_is_request(request), "nor is a MAD of another base version");
}

static void test_random(void)
{
	bool right = true;

	for (unsigned int n = 0; n < 200000; n++) {
		for (unsigned int i = 0; i < XC_MAD_LEN; i++)
			request[i] = (uint8_t)rand();
		request[n % 24] = (uint8_t)(n >> 5);
		ask(&first);
		right &= !xd_pma_is_request(response);
	}
	TAP_OK(right, "no response to random bytes is a request");
	memset(&pma, 0, sizeof(pma));
}

int main(void)
{
	test_get();
	test_large();
	test_set();
	test_statuses();
	test_requests();
	test_random();
	return tap_end();
}
