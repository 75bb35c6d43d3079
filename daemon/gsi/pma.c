// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "daemon/transport/transport.h"
#include "pma.h"

/* ---- format of MADs (IBTA 13.4.3, 16.1.1) --------------------------------------------------- */

/* offsets */
#define MAD_BASE_VERSION 0
#define MAD_CLASS_VERSION 2
#define MAD_METHOD 3
#define MAD_STATUS 4
#define MAD_ATTRIBUTE 16
#define MAD_MODIFIER 20
#define MAD_DATA 64

#define METHOD_GET 0x01
#define METHOD_SET 0x02
#define METHOD_SEND 0x03
#define METHOD_TRAP 0x05
#define METHOD_TRAP_REPRESS 0x07
#define METHOD_RESPONSE 0x80 /* bit */
#define METHOD_GET_RESP (METHOD_RESPONSE | METHOD_GET)

/* IBTA 13.4.7 */
#define STATUS_VERSION 0x04   /* class version not supported */
#define STATUS_METHOD 0x08    /* method not supported */
#define STATUS_ATTRIBUTE 0x0c /* method and attribute not supported together */
#define STATUS_INVALID 0x1c   /* a field of the attribute or the modifier is invalid */

#define CLASS_PORT_INFO 0x0001
#define PORT_COUNTERS 0x0012
#define PORT_COUNTERS_EXTENDED 0x001d

/* Offsets within the attributes */
#define PORT_SELECT 1
#define COUNTER_SELECT 2
#define INFO_CAPABILITIES 2
#define INFO_RESPONSE_TIME 7

#define ALL_PORTS 0xff
#define CAPABILITY_ALL_PORTS (1u << 8) /* AllPortSelect */
/* PortCountersExtended without the counters of unicast and multicast packets */
#define CAPABILITY_EXTENDED_NO_IETF (1u << 10)
#define RESPONSE_TIME 18 /* 4.096 us * 2^18, about a second */

static uint64_t pma_get(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

static void pma_put(uint8_t *at, unsigned int bytes, uint64_t value)
{
	while (bytes--)
		*at++ = (uint8_t)(value >> 8 * bytes);
}

/* ---- counters ------------------------------------------------------------------------------ */

struct field {
	uint8_t at, bytes;
	uint8_t select; /* bit of CounterSelect */
	enum xd_pma_counter counter;
};

/* IBTA 16.1.3.5 */
static const struct field port_counters[] = {
	{ 8, 2, 3, XD_PMA_RCV_ERRORS }, { 24, 4, 12, XD_PMA_XMIT_DATA },
	{ 28, 4, 13, XD_PMA_RCV_DATA }, { 32, 4, 14, XD_PMA_XMIT_PKTS },
	{ 36, 4, 15, XD_PMA_RCV_PKTS },
};

/* IBTA 16.1.4.11 */
static const struct field port_counters_extended[] = {
	{ 8, 8, 0, XD_PMA_XMIT_DATA },
	{ 16, 8, 1, XD_PMA_RCV_DATA },
	{ 24, 8, 2, XD_PMA_XMIT_PKTS },
	{ 32, 8, 3, XD_PMA_RCV_PKTS },
};

static const struct attribute {
	uint16_t id;
	unsigned int count;
	const struct field *fields;
} attributes[2] = {
	{ PORT_COUNTERS, sizeof(port_counters) / sizeof(struct field), port_counters },
	{ PORT_COUNTERS_EXTENDED, sizeof(port_counters_extended) / sizeof(struct field),
	  port_counters_extended },
};

static uint64_t counter(const struct xt_counters *now, enum xd_pma_counter which)
{
	switch (which) {
	case XD_PMA_XMIT_DATA:
		return now->tx_bytes / 4;
	case XD_PMA_RCV_DATA:
		return now->rx_bytes / 4;
	case XD_PMA_XMIT_PKTS:
		return now->tx_packets;
	case XD_PMA_RCV_PKTS:
		return now->rx_packets;
	default:
		return now->rx_icrc_errors + now->rx_udp_checksum_errors + now->rx_malformed;
	}
}

/* Counters stop at their maximum (IBTA 16.1.3.5). */
static uint64_t saturate(uint64_t value, unsigned int bytes)
{
	uint64_t max = UINT64_MAX >> (64 - 8 * bytes);

	return value < max ? value : max;
}

/* Gives the selected counters the values that the request has. */
static void set_counters(const struct attribute *a, uint64_t *offset, const struct xt_counters *now,
			 const uint8_t *data)
{
	uint64_t select = pma_get(data + COUNTER_SELECT, 2);

	for (unsigned int i = 0; i < a->count; i++) {
		const struct field *f = &a->fields[i];

		if (select >> f->select & 1)
			offset[f->counter] = counter(now, f->counter) -
					     pma_get(data + f->at, f->bytes);
	}
}

static void put_counters(const struct attribute *a, const uint64_t *offset,
			 const struct xt_counters *now, uint8_t *data)
{
	for (unsigned int i = 0; i < a->count; i++) {
		const struct field *f = &a->fields[i];
		uint64_t value = counter(now, f->counter) - offset[f->counter];

		pma_put(data + f->at, f->bytes, saturate(value, f->bytes));
	}
}

/* ---- requests ------------------------------------------------------------------------------ */

bool xd_pma_is_request(const uint8_t *mad)
{
	uint8_t method = mad[MAD_METHOD];

	return mad[MAD_BASE_VERSION] == 1 && !(method & METHOD_RESPONSE) && method != METHOD_SEND &&
	       method != METHOD_TRAP && method != METHOD_TRAP_REPRESS;
}

static void put_class_port_info(uint8_t *data)
{
	data[0] = 1; /* base version */
	data[1] = 1; /* class version */
	pma_put(data + INFO_CAPABILITIES, 2, CAPABILITY_ALL_PORTS | CAPABILITY_EXTENDED_NO_IETF);
	data[INFO_RESPONSE_TIME] = RESPONSE_TIME;
}

static const struct attribute *pma_find_attribute(uint64_t id)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (attributes[i].id == id)
			return &attributes[i];
	}
	return NULL;
}

/* Returns the status of a request. 0: the request is performed. */
static uint16_t pma_check(const uint8_t *request, const struct attribute *a)
{
	uint64_t id = pma_get(request + MAD_ATTRIBUTE, 2);
	uint8_t method = request[MAD_METHOD], port = request[MAD_DATA + PORT_SELECT];

	if (request[MAD_CLASS_VERSION] != 1)
		return STATUS_VERSION;
	if (method != METHOD_GET && method != METHOD_SET)
		return STATUS_METHOD;
	if (!a && (id != CLASS_PORT_INFO || method != METHOD_GET))
		return STATUS_ATTRIBUTE;
	if (pma_get(request + MAD_MODIFIER, 4) || (a && port != 1 && port != ALL_PORTS))
		return STATUS_INVALID;
	return 0;
}

void xd_pma_respond(struct xd_pma *p, const struct xt_counters *now, const uint8_t *request,
		    uint8_t *response)
{
	const struct attribute *a = pma_find_attribute(pma_get(request + MAD_ATTRIBUTE, 2));
	uint16_t status = pma_check(request, a);
	uint8_t *data = response + MAD_DATA;
	uint64_t *offset;

	memcpy(response, request, XC_MAD_LEN);
	response[MAD_METHOD] = METHOD_GET_RESP;
	pma_put(response + MAD_STATUS, 2, status);
	if (status)
		return;
	memset(data, 0, XC_MAD_LEN - MAD_DATA);
	if (!a) {
		put_class_port_info(data);
		return;
	}
	offset = p->offset[a - attributes];
	if (request[MAD_METHOD] == METHOD_SET)
		set_counters(a, offset, now, request + MAD_DATA);
	memcpy(data + PORT_SELECT, request + MAD_DATA + PORT_SELECT, 3);
	put_counters(a, offset, now, data);
}
