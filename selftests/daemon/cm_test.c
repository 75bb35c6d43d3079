// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rdma_cm: commands of librdmacm, ports, events, and connections over loopback */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "daemon/gsi/gsi.h"
#include "daemon/rdma_cm/id.h"

#define CMD(name) RDMA_USER_CM_CMD_##name
#define UID 0x1000
#define TIMEOUT_MS 2000

/* ---- channels and commands ------------------------------------------------------ */

/* A channel with its event descriptor and token */
struct chan {
	struct conn c;
	int events;
	uint8_t token[XR_TOKEN_LEN];
};

static void open_channel(struct chan *ch)
{
	connect_client(&ch->c);
	MUST(!hello(&ch->c, XR_HELLO_CM) && ch->c.nfds == 1);
	ch->events = ch->c.fds[0];
	ch->c.nfds = 0;
	memcpy(ch->token, ((struct xr_hello_rep *)ch->c.body)->token, XR_TOKEN_LEN);
}

static void close_channel(struct chan *ch)
{
	close(ch->events);
	disconnect(&ch->c);
}

/* Sends a command with data behind its struct. */
static int command_with(struct chan *ch, uint32_t cmd, const void *body, size_t in, size_t out,
			const void *data, size_t len)
{
	uint8_t buf[2048];
	struct xr_cm_req head = { .cmd = cmd, .in = (uint16_t)in, .out = (uint16_t)out };

	MUST(sizeof(head) + in + len <= sizeof(buf));
	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), body, in);
	if (len)
		memcpy(buf + sizeof(head) + in, data, len);
	return ask(&ch->c, XR_MSG_CM, buf, sizeof(head) + in + len);
}

static int command(struct chan *ch, uint32_t cmd, const void *body, size_t in, size_t out)
{
	return command_with(ch, cmd, body, in, out, NULL, 0);
}
/* Without running the loop, so that events of other connections stay unread */
static int command_now(struct chan *ch, uint32_t cmd, const void *body, size_t in, size_t out)
{
	struct {
		struct xr_cm_req head;
		uint8_t body[256];
	} q = { .head = { .cmd = cmd, .in = (uint16_t)in, .out = (uint16_t)out } };

	MUST(in <= sizeof(q.body));
	memcpy(q.body, body, in);
	return ask_now(&ch->c, XR_MSG_CM, &q, sizeof(q.head) + in);
}
#define SEND_NOW(ch, cmd, q, out) command_now(ch, CMD(cmd), &(q), sizeof(q), out)

/* Sends a command and does not wait for the reply. */
static void send_command(struct chan *ch, uint32_t cmd, const void *body, size_t in)
{
	struct {
		struct xr_msg msg;
		struct xr_cm_req head;
		uint8_t body[256];
	} q = { .msg = { .type = XR_MSG_CM, .length = (uint32_t)(sizeof(q.head) + in) },
		.head = { .cmd = cmd, .in = (uint16_t)in } };

	MUST(in <= sizeof(q.body));
	memcpy(q.body, body, in);
	send_raw(&ch->c, &q, sizeof(q.msg) + sizeof(q.head) + in, NULL, 0);
}

#define SEND(ch, cmd, q, out) command(ch, CMD(cmd), &(q), sizeof(q), out)

/* Lets the engine of the device carry MADs, and events of all kinds happen. */
static void carry(void)
{
	for (int i = 0; i < 6; i++) {
		xt_engine_run(xd_worker_engine(fake.dev.workers, 0), xd_now());
		settle();
	}
}

static bool readable(const struct chan *ch)
{
	struct pollfd p = { .fd = ch->events, .events = POLLIN };

	return poll(&p, 1, 10) == 1;
}

static struct rdma_ucm_event_resp event;

/* Returns the type of the next event, which is stored; -EAGAIN: none. */
static int next_event_in(struct chan *ch, size_t room)
{
	struct rdma_ucm_get_event q = { 0 };
	bool ready = readable(ch);
	int err = SEND(ch, GET_EVENT, q, room);

	MUST(ready == !err);
	if (err)
		return err;
	memcpy(&event, ch->c.body, sizeof(event));
	return (int)event.event;
}

static int next_event(struct chan *ch)
{
	return next_event_in(ch, sizeof(event));
}

/* ---- steps ---------------------------------------------------------------------- */

static uint32_t create_id_of(struct chan *ch, uint16_t ps, uint8_t qp_type, uint64_t uid)
{
	struct rdma_ucm_create_id q = { .uid = uid, .ps = ps, .qp_type = qp_type };

	MUST(!SEND(ch, CREATE_ID, q, 4));
	return *(uint32_t *)ch->c.body;
}

static uint32_t create_id(struct chan *ch)
{
	return create_id_of(ch, RDMA_PS_TCP, 0, UID);
}

/* Returns the number of events that were read, or an error. */
static int destroy_id(struct chan *ch, uint32_t id)
{
	struct rdma_ucm_destroy_id q = { .id = id };
	int err = SEND(ch, DESTROY_ID, q, 4);

	return err ? err : (int)*(uint32_t *)ch->c.body;
}

/* The device has fd00::1, ::2 and ::3; last 0: the wildcard */
static struct sockaddr_in6 address(uint8_t last, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	if (last) {
		a.sin6_addr.s6_addr[0] = 0xfd;
		a.sin6_addr.s6_addr[15] = last;
	}
	return a;
}

static struct sockaddr_in6 loopback(uint16_t port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6,
				      .sin6_port = htons(port),
				      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
}

static struct sockaddr_in6 ipv4(const char *text, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 a = { 0 };

	MUST(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	memcpy(&a, &in, sizeof(in));
	return a;
}

static int bind_to(struct chan *ch, uint32_t id, struct sockaddr_in6 addr)
{
	struct rdma_ucm_bind_ip q = { .id = id, .addr = addr };

	return SEND(ch, BIND_IP, q, 0);
}

static int listen_on(struct chan *ch, uint32_t id, int backlog)
{
	struct rdma_ucm_listen q = { .id = id, .backlog = (uint32_t)backlog };

	return SEND(ch, LISTEN, q, 0);
}

static int resolve(struct chan *ch, uint32_t id, struct sockaddr_in6 dst)
{
	struct rdma_ucm_resolve_ip q = { .id = id, .dst_addr = dst, .timeout_ms = TIMEOUT_MS };

	return SEND(ch, RESOLVE_IP, q, 0);
}

/* The client says that no other daemon has the route. */
static int resolve_last(struct chan *ch, uint32_t id, struct sockaddr_in6 dst)
{
	struct rdma_ucm_resolve_ip q = { .id = id, .dst_addr = dst, .timeout_ms = TIMEOUT_MS };

	return command_with(ch, CMD(RESOLVE_IP), &q, sizeof(q), 0, "\1", 1);
}

static int resolve_route(struct chan *ch, uint32_t id)
{
	struct rdma_ucm_resolve_route q = { .id = id, .timeout_ms = TIMEOUT_MS };

	return SEND(ch, RESOLVE_ROUTE, q, 0);
}

static int set_option(struct chan *ch, uint32_t id, uint32_t name, const void *value, uint32_t len)
{
	struct rdma_ucm_set_option q = { .id = id, .optname = name, .optlen = len };

	return command_with(ch, CMD(SET_OPTION), &q, sizeof(q), 0, value, len);
}

static struct rdma_ucm_query_route_resp route_of(struct chan *ch, uint32_t id)
{
	struct rdma_ucm_query q = { .id = id };

	MUST(!SEND(ch, QUERY_ROUTE, q, sizeof(struct rdma_ucm_query_route_resp)));
	return *(struct rdma_ucm_query_route_resp *)ch->c.body;
}

static uint16_t port_of(struct chan *ch, uint32_t id)
{
	return ntohs(route_of(ch, id).src_addr.sin6_port);
}

/* A QP that programs may connect */
static struct conn verbs;
static uint32_t new_qp(void)
{
	create_qp(&verbs, alloc_pd(&verbs), create_cq(&verbs, 16, 0));
	return ((struct xr_create_qp_rep *)verbs.body)->qpn;
}

static struct rdma_ucm_conn_param param(uint32_t qpn, const char *data)
{
	struct rdma_ucm_conn_param p = { .qp_num = qpn,
					 .responder_resources = 3,
					 .initiator_depth = 5,
					 .retry_count = 9,
					 .rnr_retry_count = 6,
					 .private_data_len = (uint8_t)strlen(data),
					 .valid = 1 };

	memcpy(p.private_data, data, strlen(data));
	return p;
}

static int connect_id(struct chan *ch, uint32_t id, uint32_t qpn, const char *data)
{
	struct rdma_ucm_connect q = { .id = id, .conn_param = param(qpn, data) };
	int err = SEND(ch, CONNECT, q, 0);

	carry();
	return err;
}

static int accept_id(struct chan *ch, uint32_t id, uint32_t qpn, const char *data)
{
	struct rdma_ucm_accept q = { .id = id, .uid = UID + 1, .conn_param = param(qpn, data) };
	int err = SEND(ch, ACCEPT, q, 0);

	carry();
	return err;
}

static int establish(struct chan *ch, uint32_t id)
{
	struct rdma_ucm_accept q = { .id = id };
	int err = SEND(ch, ACCEPT, q, 0);

	carry();
	return err;
}

static int disconnect_id(struct chan *ch, uint32_t id)
{
	struct rdma_ucm_disconnect q = { .id = id };
	int err = SEND(ch, DISCONNECT, q, 0);

	carry();
	return err;
}

static struct ib_uverbs_qp_attr qp_attr;
static int init_qp_attr(struct chan *ch, uint32_t id, uint32_t state)
{
	struct rdma_ucm_init_qp_attr q = { .id = id, .qp_state = state };
	int err = SEND(ch, INIT_QP_ATTR, q, sizeof(qp_attr));

	if (!err)
		memcpy(&qp_attr, ch->c.body, sizeof(qp_attr));
	return err;
}

/* An id with a route to a port of fd00::1 */
static uint32_t routed_id(struct chan *ch, uint16_t port)
{
	uint32_t id = create_id(ch);

	MUST(!resolve(ch, id, address(1, port)));
	MUST(next_event(ch) == XD_CM_EVENT_ADDR_RESOLVED);
	MUST(!resolve_route(ch, id));
	MUST(next_event(ch) == XD_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static uint32_t listener(struct chan *ch, uint16_t port, int backlog)
{
	uint32_t id = create_id_of(ch, RDMA_PS_TCP, 0, UID + 7);

	MUST(!bind_to(ch, id, address(0, port)) && !listen_on(ch, id, backlog));
	return id;
}

/* ---- requests ------------------------------------------------------------------- */

/* Commands that Linux 6.17 has added, by numbers: the header of older systems lacks them */
static void test_new_commands(void)
{
	struct {
		uint32_t id, reserved, event, status;
		uint64_t arg;
	} user = { .event = XD_CM_EVENT_USER, .status = 7, .arg = 0x1122334455667788 };
	struct {
		uint32_t id;
		uint8_t service[100];
	} resolve = { .id = 0 };
	struct rdma_ucm_query services = { .option = 3 };
	struct chan ch;
	uint64_t arg;

	open_channel(&ch);
	user.id = resolve.id = services.id = create_id(&ch);
	MUST(!bind_to(&ch, user.id, address(1, 0)));
	TAP_OK(!command(&ch, 24, &user, sizeof(user), 0) && next_event(&ch) == XD_CM_EVENT_USER &&
		       event.uid == UID && event.id == user.id && event.status == 7,
	       "WRITE_CM_EVENT queues an event of the program");
	memcpy(&arg, &event.param, sizeof(arg));
	TAP_OK(arg == user.arg, "with its argument");
	user.event = XD_CM_EVENT_ESTABLISHED;
	TAP_OK(command(&ch, 24, &user, sizeof(user), 0) == -EINVAL, "an event of rdma_cm: EINVAL");
	TAP_OK(command(&ch, 23, &resolve, sizeof(resolve), 0) == -EOPNOTSUPP &&
		       SEND(&ch, QUERY, services, 512) == -EOPNOTSUPP,
	       "services of a subnet administrator: EOPNOTSUPP");
	close_channel(&ch);
}

static void test_requests(void)
{
	struct rdma_ucm_query q = { .id = 1 };
	struct chan a, b;
	struct conn plain;
	uint32_t id;
	int err;

	open_client(&plain);
	TAP_OK(ask(&plain, XR_MSG_CM, &(struct xr_cm_req){ 0 }, 8) == -EPERM,
	       "a connection that is no channel takes no commands");
	close_client(&plain);
	open_channel(&a);
	open_channel(&b);
	TAP_OK(ask(&a.c, XR_MSG_ALLOC_PD, NULL, 0) == -EPERM, "a channel has no verbs objects");
	TAP_OK(command(&a, XR_CM_COMMANDS, &q, sizeof(q), 0) == -EINVAL, "unknown command: EINVAL");
	TAP_OK(SEND(&a, GET_OPTION, q, 0) == -ENOSYS, "GET_OPTION: ENOSYS");
	err = ask(&a.c, XR_MSG_CM, &(struct xr_cm_req){ .cmd = CMD(QUERY), .in = 16 }, 8);
	TAP_OK(err == -EINVAL, "a command that is shorter than its header says: EINVAL");
	TAP_OK(SEND(&a, QUERY_ROUTE, q, 4096) == -ENOENT, "no such id: ENOENT");
	id = create_id(&a);
	q.id = id;
	TAP_OK(SEND(&b, QUERY_ROUTE, q, 4096) == -EINVAL, "an id of another channel: EINVAL");
	TAP_OK(SEND(&a, QUERY_ROUTE, q, 16) == -ENOSPC, "no room for the reply: ENOSPC");
	TAP_OK(resolve_route(&a, id) == -EINVAL, "no route before an address: EINVAL");
	TAP_OK(next_event(&a) == -EAGAIN, "no event: EAGAIN, and the descriptor is not readable");
	TAP_OK(!destroy_id(&a, id) && destroy_id(&a, id) == -ENOENT, "an id is destroyed once");
	close_channel(&a);
	close_channel(&b);
}

/* ---- addresses ------------------------------------------------------------------ */

static void test_bind(void)
{
	struct sockaddr_in6 link_local = address(0, 5);
	struct chan ch;
	uint32_t id;

	open_channel(&ch);
	id = create_id(&ch);
	link_local.sin6_addr.s6_addr[0] = 0xfe;
	link_local.sin6_addr.s6_addr[1] = 0x80;
	TAP_OK(bind_to(&ch, id, link_local) == -EINVAL, "link-local without scope: EINVAL");
	link_local.sin6_scope_id = 77;
	TAP_OK(bind_to(&ch, id, link_local) == -ENODEV, "scope of another interface: ENODEV");
	TAP_OK(bind_to(&ch, id, address(9, 5)) == -ENODEV, "address of another interface: ENODEV");
	TAP_OK(bind_to(&ch, id, address(8, 5)) == -EADDRNOTAVAIL,
	       "address of another host: EADDRNOTAVAIL");
	TAP_OK(bind_to(&ch, id, (struct sockaddr_in6){ .sin6_family = AF_UNIX }) == -EINVAL,
	       "unknown family: EINVAL");
	TAP_OK(!bind_to(&ch, id, address(1, 0)) && port_of(&ch, id) >= 1024,
	       "bind without a port takes one");
	TAP_OK(bind_to(&ch, id, address(1, 0)) == -EINVAL, "bind twice: EINVAL");
	TAP_OK(route_of(&ch, id).port_num == 1, "an address selects the device");
	destroy_id(&ch, id);
	id = create_id(&ch);
	TAP_OK(!bind_to(&ch, id, address(0, 5)) && !route_of(&ch, id).port_num,
	       "the wildcard does not");
	destroy_id(&ch, id);
	close_channel(&ch);
}

/* Two binds to one port, with options of both: the errors of cma_check_port() */
static int second_bind(struct chan *ch, struct sockaddr_in6 first, struct sockaddr_in6 second,
		       uint32_t option)
{
	uint32_t a = create_id(ch), b = create_id(ch);
	int one = 1, err;

	if (option) {
		MUST(!set_option(ch, a, option, &one, sizeof(one)));
		MUST(!set_option(ch, b, option, &one, sizeof(one)));
	}
	MUST(!bind_to(ch, a, first));
	err = bind_to(ch, b, second);
	if (!err && option == RDMA_OPTION_ID_REUSEADDR)
		err = listen_on(ch, b, 1) == -EADDRINUSE ? 0 : -EIO;
	destroy_id(ch, a);
	destroy_id(ch, b);
	return err;
}

static void test_ports(void)
{
	struct sockaddr_in6 any4 = ipv4("0.0.0.0", 700), any6 = address(0, 700);
	struct chan ch;
	uint32_t a, b;

	open_channel(&ch);
	TAP_OK(second_bind(&ch, address(1, 700), address(1, 700), 0) == -EADDRINUSE,
	       "one address, one port: EADDRINUSE");
	TAP_OK(!second_bind(&ch, address(1, 700), address(2, 700), 0), "two addresses, one port");
	TAP_OK(second_bind(&ch, any6, address(2, 700), 0) == -EADDRNOTAVAIL,
	       "wildcard and address: EADDRNOTAVAIL");
	TAP_OK(second_bind(&ch, any6, any4, 0) == -EADDRNOTAVAIL, "[::] includes IPv4");
	TAP_OK(!second_bind(&ch, any6, any4, RDMA_OPTION_ID_AFONLY), "unless it is IPv6 only");
	TAP_OK(!second_bind(&ch, address(1, 700), address(1, 700), RDMA_OPTION_ID_REUSEADDR),
	       "REUSEADDR of both shares a port, but only without listening");
	a = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	b = create_id(&ch);
	TAP_OK(!bind_to(&ch, a, address(1, 700)) && !bind_to(&ch, b, address(1, 700)),
	       "port spaces are separate");
	destroy_id(&ch, a);
	destroy_id(&ch, b);
	ch.c.client->identity.is_operator = false;
	a = create_id(&ch);
	TAP_OK(bind_to(&ch, a, address(1, 80)) == -EACCES, "privileged port: EACCES");
	destroy_id(&ch, a);
	close_channel(&ch);
}

/* The daemon has not read the end of the channel that owns the port. */
static void test_closed_owner(void)
{
	const uint32_t many = 5000; /* ids, more than the end of a client frees at once */
	const struct rdma_ucm_create_id create = { .uid = UID, .ps = RDMA_PS_TCP };
	struct rdma_ucm_bind_ip bind = { .addr = address(1, 700) };
	struct chan first, second;
	uint32_t i;
	int err;

	open_channel(&first);
	open_channel(&second);
	for (i = 0; i < many; i++)
		MUST(!SEND_NOW(&first, CREATE_ID, create, 4));
	listener(&first, 700, 1);
	bind.id = create_id(&second);
	err = SEND_NOW(&second, BIND_IP, bind, 0);
	close(first.c.fd);
	TAP_OK(err == -EADDRNOTAVAIL && !SEND_NOW(&second, BIND_IP, bind, 0),
	       "the port of a closed channel is free at once");
	TAP_OK(!listen_on(&second, bind.id, 1), "another program listens on it");
	close(first.events);
	settle();
	/* whose own channel is closed when the daemon reads the request */
	bind.id = create_id(&second);
	close(second.events);
	send_command(&second, CMD(BIND_IP), &bind, sizeof(bind));
	disconnect(&second.c);
	open_channel(&first);
	bind.id = create_id(&first);
	TAP_OK(!SEND(&first, BIND_IP, bind, 0), "a program binds its own port twice and ends");
	close_channel(&first);
}

/* With room for it, the reply to RESOLVE commands is their event, which is read then. */
static void test_resolve_at_once(void)
{
	struct rdma_ucm_resolve_ip ip = { .dst_addr = address(1, 7), .timeout_ms = TIMEOUT_MS };
	struct rdma_ucm_resolve_route route = { .timeout_ms = TIMEOUT_MS };
	struct chan ch;
	uint32_t id, other;

	open_channel(&ch);
	id = ip.id = route.id = create_id(&ch);
	TAP_OK(!SEND(&ch, RESOLVE_IP, ip, 4096) && ch.c.length > sizeof(event) && !readable(&ch),
	       "the address with the reply, answers behind it");
	memcpy(&event, ch.c.body, sizeof(event));
	TAP_OK(event.event == XD_CM_EVENT_ADDR_RESOLVED && event.id == id &&
		       next_event(&ch) == -EAGAIN,
	       "it is read");
	TAP_OK(SEND(&ch, RESOLVE_IP, ip, 4096) == -EINVAL, "an error has no event");
	other = create_id(&ch);
	MUST(!resolve(&ch, other, address(1, 7)));
	TAP_OK(!SEND(&ch, RESOLVE_ROUTE, route, 4096) && !ch.c.length,
	       "an event before it is read first");
	TAP_OK(next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED && event.id == other &&
		       next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED && event.id == id,
	       "both are queued");
	TAP_OK(destroy_id(&ch, id) == 2, "the event with the reply counts");
	close_channel(&ch);
}

static void test_resolve(void)
{
	const struct sockaddr_in6 elsewhere = { .sin6_family = AF_INET6,
						.sin6_addr.s6_addr = { 0x20 } };
	struct rdma_ucm_query_route_resp r;
	struct chan ch;
	uint32_t id;

	open_channel(&ch);
	id = create_id(&ch);
	TAP_OK(!resolve_last(&ch, id, elsewhere) && next_event(&ch) == XD_CM_EVENT_ADDR_ERROR &&
		       event.id == id && (int)event.status == -ENODEV,
	       "an event if no other daemon has the route");
	TAP_OK(!resolve_last(&ch, id, elsewhere) && next_event(&ch) == XD_CM_EVENT_ADDR_ERROR,
	       "also at the second attempt");
	destroy_id(&ch, id);
	id = create_id(&ch);
	TAP_OK(resolve(&ch, id, elsewhere) == -ENODEV, "route by another interface: ENODEV");
	TAP_OK(!resolve(&ch, id, address(99, 7)) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED &&
		       event.uid == UID && event.id == id && !event.status,
	       "then the id can be resolved elsewhere");
	r = route_of(&ch, id);
	TAP_OK(r.src_addr.sin6_addr.s6_addr[15] == 1 && r.src_addr.sin6_port && r.port_num == 1,
	       "the source address is that of the route");
	TAP_OK(!resolve_route(&ch, id) && next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED,
	       "ROUTE_RESOLVED");
	r = route_of(&ch, id);
	TAP_OK(r.num_paths == 1 && r.ib_route[0].dgid[15] == 99 && r.ib_route[0].sgid[15] == 1 &&
		       r.ib_route[0].mtu == IBV_MTU_4096 && r.ib_route[0].hop_limit == 64,
	       "the path");
	TAP_OK(destroy_id(&ch, id) == 2, "two events were read");

	fake.slow = true;
	id = create_id(&ch);
	TAP_OK(!resolve(&ch, id, address(99, 7)) && next_event(&ch) == -EAGAIN,
	       "a next hop that is not known is awaited");
	fake.no_route = true;
	fake_resolve_all();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_ADDR_ERROR && (int)event.status == -ETIMEDOUT,
	       "no reply: ADDR_ERROR with ETIMEDOUT");
	fake.no_route = false;
	TAP_OK(!resolve(&ch, id, address(99, 7)), "it can be resolved again");
	destroy_id(&ch, id);
	fake.slow = false;
	close_channel(&ch);
}

static void test_address_change(void)
{
	struct chan ch;
	uint32_t a, b;

	open_channel(&ch);
	a = create_id(&ch);
	b = create_id(&ch);
	MUST(!bind_to(&ch, a, address(2, 0)) && !bind_to(&ch, b, address(1, 0)));
	fake.lost_gid = 1;
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	TAP_OK(next_event(&ch) == XD_CM_EVENT_ADDR_CHANGE && event.id == a &&
		       next_event(&ch) == -EAGAIN,
	       "an id whose address is removed gets one ADDR_CHANGE");
	TAP_OK(fake.gid_holds[1] == 1 && fake.gid_holds[0] == 1,
	       "ids hold the indices of their GIDs");
	fake.lost_gid = 0;
	destroy_id(&ch, a);
	TAP_OK(!fake.gid_holds[1], "until they are destroyed");
	close_channel(&ch);
}

static void test_held_gid(void)
{
	struct rdma_ucm_join_ip_mcast q = { .uid = UID + 3 };
	struct chan ch;

	open_channel(&ch);
	q.id = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	q.addr = ipv4("239.1.2.3", 0);
	MUST(!bind_to(&ch, q.id, address(2, 0)));
	fake.lost_gid = 1;
	MUST(!SEND(&ch, JOIN_IP_MCAST, q, 4) && next_event(&ch) == XD_CM_EVENT_MULTICAST_JOIN);
	TAP_OK(event.param.ud.ah_attr.grh.sgid_index == 1,
	       "an id names the index of its address after that was removed");
	fake.lost_gid = 0;
	close_channel(&ch);
}

/* ---- connections ---------------------------------------------------------------- */

static void test_connection(void)
{
	uint32_t l, a, b, qa = new_qp(), qb = new_qp(), psn;
	struct chan server, client;

	open_channel(&server);
	open_channel(&client);
	l = listener(&server, 7000, 5);
	a = routed_id(&client, 7000);
	TAP_OK(!init_qp_attr(&client, a, IBV_QPS_INIT) && !qp_attr.qp_access_flags,
	       "INIT before the connection grants no access");
	TAP_OK(connect_id(&client, a, 12345, "") == -EINVAL, "a QP that does not exist: EINVAL");
	TAP_OK(!connect_id(&client, a, qa, "hello"), "connect");
	TAP_OK(next_event(&server) == XD_CM_EVENT_CONNECT_REQUEST && event.uid == UID + 7 &&
		       event.param.conn.private_data_len == 56 &&
		       !strcmp((char *)event.param.conn.private_data, "hello"),
	       "CONNECT_REQUEST has the private data, without the header");
	TAP_OK(event.param.conn.qp_num == qa && event.param.conn.initiator_depth == 3 &&
		       event.param.conn.responder_resources == 5 &&
		       event.param.conn.retry_count == 7,
	       "and the parameters of the peer");
	b = event.id;
	TAP_OK(route_of(&server, b).dst_addr.sin6_port == htons(port_of(&client, a)) &&
		       port_of(&server, b) == 7000,
	       "the new id has the ports of both");
	TAP_OK(!init_qp_attr(&server, b, IBV_QPS_RTR) && qp_attr.dest_qp_num == qa &&
		       qp_attr.ah_attr.grh.dgid[15] == 1,
	       "RTR has the peer's QP");
	psn = qp_attr.rq_psn;
	TAP_OK(!accept_id(&server, b, qb, "welcome"), "accept");
	TAP_OK(next_event(&client) == XD_CM_EVENT_CONNECT_RESPONSE &&
		       event.param.conn.private_data_len == 196 &&
		       !strcmp((char *)event.param.conn.private_data, "welcome") &&
		       event.param.conn.qp_num == qb,
	       "CONNECT_RESPONSE");
	TAP_OK(!init_qp_attr(&client, a, IBV_QPS_RTS) && qp_attr.sq_psn == psn &&
		       qp_attr.retry_cnt == 7 && qp_attr.rnr_retry == 6 && qp_attr.timeout == 17,
	       "RTS has the PSN that the peer expects");
	TAP_OK(!establish(&client, a), "establish");
	TAP_OK(next_event(&server) == XD_CM_EVENT_ESTABLISHED && event.uid == UID + 1,
	       "ESTABLISHED");
	TAP_OK(!disconnect_id(&client, a) && next_event(&server) == XD_CM_EVENT_DISCONNECTED,
	       "DISCONNECTED at the passive side");
	TAP_OK(!disconnect_id(&server, b) && next_event(&client) == XD_CM_EVENT_DISCONNECTED &&
		       !event.status,
	       "and, after it has disconnected too, at the active side");
	TAP_OK(destroy_id(&client, a) == 4 && destroy_id(&server, b) == 2 &&
		       destroy_id(&server, l) == 1,
	       "events are counted for their ids");
	close_channel(&server);
	close_channel(&client);
}

/* The path that QPs to the peer, another address of the device, take */
static bool is_path(const struct xr_cm_early_reply *a, const void *body)
{
	struct xr_cm_path p;

	if (a->length != sizeof(p))
		return false;
	memcpy(&p, body, sizeof(p));
	return p.dgid.raw[0] == 0xfd && p.path.sgid.raw[0] == 0xfd && p.path.max_mtu == 4096 &&
	       p.path.flags == XR_RESOLVED_LOCAL;
}

/* Executes the command of an early reply. Returns true if the reply is the same. */
static bool is_reply(struct chan *ch, uint32_t id, const struct xr_cm_early_reply *a,
		     const void *body)
{
	struct rdma_ucm_query query = { .id = id, .option = a->argument };
	struct rdma_ucm_init_qp_attr attr = { .id = id, .qp_state = a->argument };
	int err;

	if (a->cmd == XR_CM_PATH)
		return is_path(a, body);
	err = a->cmd == RDMA_USER_CM_CMD_QUERY ? SEND(ch, QUERY, query, 512)
					       : SEND(ch, INIT_QP_ATTR, attr, 512);
	return !err && ch->c.length == a->length && !memcmp(ch->c.body, body, a->length);
}

/* Reads the next event. Compares its early replies with replies, and returns their number. */
static int count_early_replies(struct chan *ch, size_t room, int type)
{
	static uint8_t reply[4096];
	struct xr_cm_early_reply a;
	size_t at = sizeof(event), len;
	int n;

	if (next_event_in(ch, room) != type || ch->c.length > room)
		return -1;
	len = ch->c.length;
	memcpy(reply, ch->c.body, len);
	for (n = 0; at < len; n++, at += a.length) {
		memcpy(&a, reply + at, sizeof(a));
		at += sizeof(a);
		if (a.length > len - at || !is_reply(ch, event.id, &a, reply + at))
			return -1;
	}
	return at == len ? n : -1;
}

static void test_early_replies(void)
{
	uint32_t a, b, qa = new_qp(), qb = new_qp();
	struct chan server, client;

	open_channel(&server);
	open_channel(&client);
	listener(&server, 7000, 5);
	a = create_id(&client);
	MUST(!resolve(&client, a, address(1, 7000)));
	TAP_OK(count_early_replies(&client, 4096, XD_CM_EVENT_ADDR_RESOLVED) == 3,
	       "ADDR_RESOLVED carries 3 early replies, which are what the commands return");
	MUST(!resolve_route(&client, a));
	TAP_OK(count_early_replies(&client, 4096, XD_CM_EVENT_ROUTE_RESOLVED) == 2,
	       "ROUTE_RESOLVED carries 2");
	MUST(!connect_id(&client, a, qa, ""));
	TAP_OK(count_early_replies(&server, 4096, XD_CM_EVENT_CONNECT_REQUEST) == 7,
	       "CONNECT_REQUEST carries 7, of the new id, with the path to the peer");
	b = event.id;
	MUST(!accept_id(&server, b, qb, ""));
	TAP_OK(count_early_replies(&client, sizeof(event) + 400, XD_CM_EVENT_CONNECT_RESPONSE) == 2,
	       "as many early replies as fit");
	MUST(!establish(&client, a));
	TAP_OK(!count_early_replies(&server, 4096, XD_CM_EVENT_ESTABLISHED),
	       "ESTABLISHED carries none");
	close_channel(&server);
	close_channel(&client);
}

/* ---- options -------------------------------------------------------------------- */

static void test_option_values(void)
{
	int yes = 1, no = 0;
	uint8_t byte = 18;
	struct chan ch;
	uint32_t a, ud;

	open_channel(&ch);
	a = create_id(&ch);
	ud = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	TAP_OK(set_option(&ch, a, RDMA_OPTION_ID_TOS, &yes, sizeof(yes)) == -EINVAL &&
		       set_option(&ch, a, RDMA_OPTION_ID_ACK_TIMEOUT, &yes, 0) == -EINVAL &&
		       set_option(&ch, a, RDMA_OPTION_ID_REUSEADDR, &byte, 1) == -EINVAL &&
		       set_option(&ch, a, RDMA_OPTION_ID_AFONLY, &byte, 1) == -EINVAL,
	       "options of the wrong size: EINVAL");
	TAP_OK(set_option(&ch, a, 77, &byte, 1) == -ENOSYS, "an unknown option: ENOSYS");
	TAP_OK(set_option(&ch, ud, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1) == -EINVAL,
	       "an ACK timeout of a UD id: EINVAL");
	MUST(!bind_to(&ch, a, address(1, 0)));
	TAP_OK(!set_option(&ch, a, RDMA_OPTION_ID_AFONLY, &no, sizeof(no)) &&
		       !set_option(&ch, a, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)) &&
		       set_option(&ch, a, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)) == -EINVAL,
	       "a port that is bound can be shared, but that cannot be taken back");
	MUST(!resolve(&ch, a, address(1, 7000)) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED);
	TAP_OK(set_option(&ch, a, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)) == -EINVAL,
	       "AFONLY after the address was resolved: EINVAL");
	close_channel(&ch);
}

/* Sets the options of an id before it is resolved. */
static uint32_t routed_with_options(struct chan *ch, uint8_t tos, uint8_t timeout)
{
	uint32_t id = create_id(ch);

	MUST(!set_option(ch, id, RDMA_OPTION_ID_TOS, &tos, 1));
	MUST(!set_option(ch, id, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
	MUST(!resolve(ch, id, address(1, 7000)) && next_event(ch) == XD_CM_EVENT_ADDR_RESOLVED);
	MUST(!resolve_route(ch, id) && next_event(ch) == XD_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

/* Accepts the connection of `a` and returns the id of its other end. */
static uint32_t accept_next(struct chan *ch, uint32_t a)
{
	uint32_t b, qa = new_qp(), qb = new_qp();

	MUST(!connect_id(ch, a, qa, "") && next_event(ch) == XD_CM_EVENT_CONNECT_REQUEST);
	b = event.id;
	MUST(!accept_id(ch, b, qb, "") && next_event(ch) == XD_CM_EVENT_CONNECT_RESPONSE);
	return b;
}

static void test_path_options(void)
{
	struct chan ch;
	uint32_t a, b;

	open_channel(&ch);
	listener(&ch, 7000, 5);
	a = routed_with_options(&ch, 0x68, 18);
	TAP_OK(route_of(&ch, a).ib_route[0].traffic_class == 0x68, "TOS: the path has the class");
	b = accept_next(&ch, a);
	TAP_OK(!init_qp_attr(&ch, a, IBV_QPS_RTR) && qp_attr.ah_attr.grh.traffic_class == 0x68 &&
		       !init_qp_attr(&ch, b, IBV_QPS_RTR) &&
		       qp_attr.ah_attr.grh.traffic_class == 0x68,
	       "the queue pairs of both ends, too");
	TAP_OK(!init_qp_attr(&ch, a, IBV_QPS_RTS) && qp_attr.timeout == 18,
	       "ACK_TIMEOUT: that of the queue pair");
	TAP_OK(!init_qp_attr(&ch, b, IBV_QPS_RTS) && qp_attr.timeout == 18,
	       "the peer gets it in the REQ");
	close_channel(&ch);
}

/* A path record as librdmacm writes it; word: IBTA 15.2.5.16 */
static int set_path(struct chan *ch, uint32_t id, struct ib_path_rec_data *rec, size_t len)
{
	struct rdma_ucm_set_option q = {
		.id = id, .level = 1, .optname = 1, .optlen = (uint32_t)len
	};

	return command_with(ch, CMD(SET_OPTION), &q, sizeof(q), 0, rec, len);
}

static void test_path_record(void)
{
	struct ib_path_rec_data rec = {
		.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL,
		.path_rec = { [11] = htonl(0x12345 << 8 | 9),
			      [12] = htonl(0x20u << 24),
			      [13] = htonl(3u << 16 | IBV_MTU_1024 << 8),
			      [14] = htonl(13u << 24) },
	};
	struct ib_user_path_rec *r;
	struct chan ch;
	uint32_t id;

	open_channel(&ch);
	id = create_id(&ch);
	TAP_OK(set_path(&ch, id, &rec, sizeof(rec)) == -EINVAL,
	       "IB_PATH before an address: EINVAL");
	MUST(!resolve(&ch, id, address(99, 7)) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED);
	TAP_OK(set_path(&ch, id, &rec, sizeof(rec) - 1) == -EINVAL, "half a path record: EINVAL");
	TAP_OK(!set_path(&ch, id, &rec, sizeof(rec)) &&
		       next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED,
	       "IB_PATH in place of a route");
	route_of(&ch, id);
	r = &((struct rdma_ucm_query_route_resp *)ch.c.body)->ib_route[0];
	TAP_OK(ntohl(r->flow_label) == 0x12345 && r->hop_limit == 9 && r->traffic_class == 0x20 &&
		       r->sl == 3 && r->mtu == IBV_MTU_1024 && r->packet_life_time == 13 &&
		       r->dgid[15] == 99,
	       "the path has its values, but the GIDs of the address");
	close_channel(&ch);
}

/* ---- RTU and TIMEWAIT ----------------------------------------------------------- */

/* The RTU is late: the first packet of the QP establishes the connection. */
static void test_first_packet(void)
{
	uint32_t l, a, b, qa = new_qp(), qb = new_qp();
	struct rdma_ucm_notify q = { .event = IBV_EVENT_COMM_EST };
	struct xd_objects *o = &fake.server->objects;
	struct chan ch;

	open_channel(&ch);
	l = listener(&ch, 7000, 5);
	a = routed_id(&ch, 7000);
	MUST(!connect_id(&ch, a, qa, "") && next_event(&ch) == XD_CM_EVENT_CONNECT_REQUEST);
	b = event.id;
	MUST(!accept_id(&ch, b, qb, "") && next_event(&ch) == XD_CM_EVENT_CONNECT_RESPONSE);
	o->comm_est(o, qb);
	carry();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_ESTABLISHED && event.id == b,
	       "a packet before the RTU establishes the connection");
	q.id = b;
	TAP_OK(SEND(&ch, NOTIFY, q, 0) == -EISCONN, "NOTIFY then: EISCONN");
	TAP_OK(!establish(&ch, a) && next_event(&ch) == -EAGAIN, "the RTU raises no other event");
	destroy_id(&ch, l);
	close_channel(&ch);
}

/* The program gets COMM_EST of its QP, and reports it. */
static void test_notify(void)
{
	struct rdma_ucm_notify q = { .event = IBV_EVENT_COMM_EST };
	struct chan ch;
	uint32_t a;

	open_channel(&ch);
	listener(&ch, 7000, 5);
	q.id = a = routed_id(&ch, 7000);
	TAP_OK(SEND(&ch, NOTIFY, q, 0) == -EINVAL, "NOTIFY without a connection: EINVAL");
	q.id = accept_next(&ch, a);
	q.event = IBV_EVENT_PATH_MIG;
	TAP_OK(SEND(&ch, NOTIFY, q, 0) == -EINVAL, "NOTIFY of another event: EINVAL");
	q.event = IBV_EVENT_COMM_EST;
	TAP_OK(!SEND(&ch, NOTIFY, q, 0) && next_event(&ch) == XD_CM_EVENT_ESTABLISHED &&
		       event.id == q.id,
	       "NOTIFY of COMM_EST establishes the connection");
	close_channel(&ch);
}

/* Returns the type of the next event, for which it waits up to 10 s. */
static int awaited_event(struct chan *ch)
{
	uint64_t end = xd_now() + 10 * 1000000000ull;

	while (!readable(ch) && xd_now() < end)
		carry();
	return next_event(ch);
}

static void test_timewait(void)
{
	struct chan ch;
	uint32_t a, b;

	open_channel(&ch);
	listener(&ch, 7000, 5);
	a = routed_with_options(&ch, 0, 5); /* TIMEWAIT lasts one ACK timeout */
	b = accept_next(&ch, a);
	MUST(!establish(&ch, a) && next_event(&ch) == XD_CM_EVENT_ESTABLISHED);
	MUST(!disconnect_id(&ch, a) && next_event(&ch) == XD_CM_EVENT_DISCONNECTED);
	MUST(event.id == b && !disconnect_id(&ch, b));
	TAP_OK(next_event(&ch) == XD_CM_EVENT_DISCONNECTED && event.id == a,
	       "DISCONNECTED before TIMEWAIT_EXIT");
	TAP_OK(awaited_event(&ch) == XD_CM_EVENT_TIMEWAIT_EXIT && !event.status &&
		       awaited_event(&ch) == XD_CM_EVENT_TIMEWAIT_EXIT,
	       "TIMEWAIT_EXIT at both ends");
	TAP_OK(destroy_id(&ch, b) == 3, "it is an event of the id");
	close_channel(&ch);
}

static void test_reject(void)
{
	struct rdma_ucm_reject q = { .private_data_len = 3, .private_data = "no" };
	struct chan ch;
	uint32_t l, a;

	open_channel(&ch);
	a = routed_id(&ch, 7000);
	TAP_OK(!connect_id(&ch, a, new_qp(), "") && next_event(&ch) == XD_CM_EVENT_REJECTED &&
		       event.status == 8,
	       "no listener: REJECTED, invalid service ID");
	destroy_id(&ch, a);
	l = listener(&ch, 7000, 5);
	a = routed_id(&ch, 7000);
	MUST(!connect_id(&ch, a, new_qp(), "") && next_event(&ch) == XD_CM_EVENT_CONNECT_REQUEST);
	q.id = event.id;
	TAP_OK(!SEND(&ch, REJECT, q, 0), "reject");
	carry();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_REJECTED && event.status == 28 && event.id == a &&
		       event.param.conn.private_data_len == 148 &&
		       !strcmp((char *)event.param.conn.private_data, "no"),
	       "REJECTED, by the consumer");
	q.reason = 5;
	TAP_OK(SEND(&ch, REJECT, q, 0) == -EINVAL, "reasons that programs may not give: EINVAL");
	destroy_id(&ch, l);
	close_channel(&ch);
}

/* Raises an event of the id. */
static int write_event(struct chan *ch, uint32_t id)
{
	struct {
		uint32_t id, reserved, event, status;
		uint64_t arg;
	} q = { .id = id, .event = XD_CM_EVENT_USER };

	return command(ch, 24, &q, sizeof(q), 0);
}

/* The program's epoll set has that of the provider, which has the channel's descriptor. */
static void test_edges(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int inner = epoll_create1(0), outer = epoll_create1(0);
	struct chan ch;
	uint32_t id;

	open_channel(&ch);
	id = create_id(&ch);
	MUST(!epoll_ctl(inner, EPOLL_CTL_ADD, ch.events, &ev));
	ev.events |= EPOLLET;
	MUST(!epoll_ctl(outer, EPOLL_CTL_ADD, inner, &ev));
	TAP_OK(!epoll_wait(outer, &ev, 1, 0) && !write_event(&ch, id) &&
		       epoll_wait(outer, &ev, 1, 1000) == 1 && !epoll_wait(outer, &ev, 1, 0),
	       "an event wakes a program that waits for an edge, once");
	TAP_OK(!write_event(&ch, id) && epoll_wait(outer, &ev, 1, 1000) == 1,
	       "and each further one, although the program has not read the first");
	TAP_OK(next_event(&ch) == XD_CM_EVENT_USER && next_event(&ch) == XD_CM_EVENT_USER &&
		       next_event(&ch) == -EAGAIN && !epoll_wait(outer, &ev, 1, 0),
	       "the descriptor is readable until all are read");
	close(inner);
	close(outer);
	destroy_id(&ch, id);
	close_channel(&ch);
}

static void test_backlog(void)
{
	uint32_t l, a, b, qpn = new_qp(), other = new_qp();
	struct chan ch, other_ch;

	open_channel(&ch);
	open_channel(&other_ch);
	l = listener(&ch, 7000, 1);
	a = routed_id(&other_ch, 7000);
	b = routed_id(&other_ch, 7000);
	MUST(!connect_id(&other_ch, a, qpn, "") && !connect_id(&other_ch, b, other, ""));
	TAP_OK(next_event(&ch) == XD_CM_EVENT_CONNECT_REQUEST && next_event(&ch) == -EAGAIN &&
		       next_event(&other_ch) == -EAGAIN,
	       "a request beyond the backlog is dropped without a response");
	close_channel(&other_ch);
	carry();
	TAP_OK(next_event(&ch) == -EAGAIN, "an id that was not accepted gets no events");
	destroy_id(&ch, l);
	close_channel(&ch);
}

static void test_loopback(void)
{
	struct sockaddr_in6 me = loopback(7000);
	struct chan ch;
	uint32_t l, a;

	open_channel(&ch);
	l = create_id(&ch);
	TAP_OK(!bind_to(&ch, l, me) && !listen_on(&ch, l, 0), "listen on ::1");
	a = create_id(&ch);
	TAP_OK(!resolve(&ch, a, me) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED &&
		       !resolve_route(&ch, a) && next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED,
	       "resolve ::1");
	TAP_OK(!connect_id(&ch, a, new_qp(), "x") && next_event(&ch) == XD_CM_EVENT_CONNECT_REQUEST,
	       "connect to ::1");
	close_channel(&ch);
}

static void test_datagrams(void)
{
	struct rdma_ucm_accept accept = { .uid = UID + 1 };
	struct rdma_ucm_connect q = { .conn_param = param(0, "who") };
	uint32_t l, a, qpn;
	struct chan ch;

	create_datagram_qp(&verbs);
	qpn = ((struct xr_create_qp_rep *)verbs.body)->qpn;
	open_channel(&ch);
	l = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	MUST(!bind_to(&ch, l, address(1, 7000)) && !listen_on(&ch, l, 1));
	a = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	MUST(!resolve(&ch, a, address(1, 7000)) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED);
	MUST(!resolve_route(&ch, a) && next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED);
	TAP_OK(!init_qp_attr(&ch, a, IBV_QPS_INIT) && qp_attr.qkey == 0x01234567,
	       "UD: INIT has the default Q_Key");
	q.id = a;
	MUST(!SEND(&ch, CONNECT, q, 0));
	carry();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_CONNECT_REQUEST &&
		       event.param.ud.private_data_len == 180 &&
		       !strcmp((char *)event.param.ud.private_data, "who"),
	       "CONNECT_REQUEST by SIDR");
	accept.id = event.id;
	accept.conn_param = param(qpn, "me");
	TAP_OK(!SEND(&ch, ACCEPT, accept, 0), "accept");
	carry();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_ESTABLISHED && event.param.ud.qp_num == qpn &&
		       event.param.ud.qkey == 0x01234567 &&
		       event.param.ud.private_data_len == 136 &&
		       event.param.ud.ah_attr.grh.dgid[15] == 1,
	       "ESTABLISHED has the QP and its address");
	destroy_id(&ch, a);
	a = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	MUST(!resolve(&ch, a, address(1, 7001)) && next_event(&ch) == XD_CM_EVENT_ADDR_RESOLVED);
	MUST(!resolve_route(&ch, a) && next_event(&ch) == XD_CM_EVENT_ROUTE_RESOLVED);
	q.id = a;
	MUST(!SEND(&ch, CONNECT, q, 0));
	carry();
	TAP_OK(next_event(&ch) == XD_CM_EVENT_UNREACHABLE && event.status == 1,
	       "no listener: UNREACHABLE, unsupported");
	close_channel(&ch);
}

static void test_multicast(void)
{
	struct rdma_ucm_join_ip_mcast q = { .uid = UID + 3 };
	struct rdma_ucm_destroy_id leave = { 0 };
	struct chan ch;
	uint32_t id;

	open_channel(&ch);
	id = create_id_of(&ch, RDMA_PS_UDP, 0, UID);
	MUST(!bind_to(&ch, id, address(1, 0)));
	q.id = id;
	q.addr = address(1, 0);
	TAP_OK(SEND(&ch, JOIN_IP_MCAST, q, 4) == -EINVAL, "not a group: EINVAL");
	q.addr = ipv4("239.1.2.3", 0);
	TAP_OK(!SEND(&ch, JOIN_IP_MCAST, q, 4), "join an IPv4 group");
	leave.id = *(uint32_t *)ch.c.body;
	TAP_OK(next_event(&ch) == XD_CM_EVENT_MULTICAST_JOIN && event.uid == UID + 3 &&
		       event.id == leave.id && event.param.ud.qp_num == 0xffffff &&
		       event.param.ud.ah_attr.grh.dgid[12] == 239 &&
		       event.param.ud.ah_attr.grh.dgid[11] == 0xff,
	       "MULTICAST_JOIN has the group's GID");
	TAP_OK(!SEND(&ch, LEAVE_MCAST, leave, 4) && *(uint32_t *)ch.c.body == 1, "leave");
	TAP_OK(SEND(&ch, LEAVE_MCAST, leave, 4) == -ENOENT, "leave twice: ENOENT");
	q.addr = address(0, 0);
	q.addr.sin6_addr.s6_addr[0] = 0xff;
	q.addr.sin6_addr.s6_addr[1] = 0x0e;
	TAP_OK(!SEND(&ch, JOIN_IP_MCAST, q, 4), "join an IPv6 group");
	close_channel(&ch);
}

/* ---- channels ------------------------------------------------------------------- */

static void test_migrate(void)
{
	struct rdma_ucm_migrate_id q = { 0 };
	uint32_t l, a, b, qpn = new_qp(), other = new_qp();
	struct chan from, to;

	open_channel(&from);
	open_channel(&to);
	l = listener(&from, 7000, 5);
	a = routed_id(&from, 7000);
	MUST(!connect_id(&from, a, qpn, "") && next_event(&from) == XD_CM_EVENT_CONNECT_REQUEST);
	b = event.id;
	q.id = b;
	TAP_OK(command_with(&to, CMD(MIGRATE_ID), &q, sizeof(q), 4, to.token, XR_TOKEN_LEN) ==
		       -EINVAL,
	       "the token of another channel: EINVAL");
	TAP_OK(!command_with(&to, CMD(MIGRATE_ID), &q, sizeof(q), 4, from.token, XR_TOKEN_LEN),
	       "an id migrates");
	TAP_OK(accept_id(&from, b, other, "") == -EINVAL && !accept_id(&to, b, other, ""),
	       "it is used through the new channel");
	MUST(next_event(&from) == XD_CM_EVENT_CONNECT_RESPONSE && !establish(&from, a));
	TAP_OK(!command_with(&to, CMD(MIGRATE_ID), &q, sizeof(q), 4, to.token, XR_TOKEN_LEN) &&
		       *(uint32_t *)to.c.body == 0,
	       "an id with an unread event migrates to its own channel");
	TAP_OK(!command_with(&from, CMD(MIGRATE_ID), &q, sizeof(q), 4, to.token, XR_TOKEN_LEN) &&
		       next_event(&to) == -EAGAIN && next_event(&from) == XD_CM_EVENT_ESTABLISHED &&
		       event.id == b,
	       "events migrate with their id");
	destroy_id(&from, l);
	close_channel(&to);
	close_channel(&from);
}

static void test_closed_channel(void)
{
	uint32_t l, a, b, qpn = new_qp(), other = new_qp();
	struct chan server, client;

	open_channel(&server);
	l = listener(&server, 7000, 5);
	open_channel(&client);
	a = routed_id(&client, 7000);
	MUST(!connect_id(&client, a, qpn, "") &&
	     next_event(&server) == XD_CM_EVENT_CONNECT_REQUEST);
	b = event.id;
	MUST(!accept_id(&server, b, other, "") &&
	     next_event(&client) == XD_CM_EVENT_CONNECT_RESPONSE && !establish(&client, a) &&
	     next_event(&server) == XD_CM_EVENT_ESTABLISHED);
	close_channel(&client);
	carry();
	TAP_OK(next_event(&server) == XD_CM_EVENT_DISCONNECTED && event.id == b,
	       "the end of a channel disconnects its ids");
	open_channel(&client);
	a = routed_id(&client, 7000);
	MUST(!connect_id(&client, a, new_qp(), ""));
	destroy_id(&server, l);
	carry();
	TAP_OK(next_event(&client) == XD_CM_EVENT_REJECTED && event.status == 28,
	       "the end of a listener rejects requests that were not read");
	close_channel(&client);
	close_channel(&server);
}

static void test_limits(void)
{
	struct rdma_ucm_create_id q = { .ps = RDMA_PS_TCP };
	struct chan ch;

	open_channel(&ch);
	fake.opt.client_max_cm_id = 2;
	create_id(&ch);
	create_id(&ch);
	TAP_OK(SEND(&ch, CREATE_ID, q, 4) == -ENOMEM &&
		       reason_has(&ch.c, "--client-max-cm-id is 2"),
	       "limit of ids: ENOMEM, with the option's name");
	fake.opt.client_max_cm_id = 1000;
	close_channel(&ch);
}

/* Connects two ids of the channel. Their TIMEWAIT is short. */
static void connect_two(struct chan *ch, uint32_t id[2])
{
	id[0] = routed_with_options(ch, 0, 5);
	id[1] = accept_next(ch, id[0]);
	MUST(!establish(ch, id[0]) && next_event(ch) == XD_CM_EVENT_ESTABLISHED);
}

/*
 * Connections whose ids are gone, and whose DREQs nobody has answered yet, count for the user. The
 * user is no operator here.
 */
static void test_orphans(void)
{
	struct rdma_ucm_create_id q = { .ps = RDMA_PS_TCP };
	uint32_t id[4], last, old = fake.opt.user_max_cm_id;
	struct xd_user *user;
	uint64_t memory, end;
	struct chan ch;

	open_channel(&ch);
	user = ch.c.client->user;
	listener(&ch, 7000, 5);
	connect_two(&ch, id);
	connect_two(&ch, id + 2);
	for (int i = 0; i < 4; i++)
		MUST(destroy_id(&ch, id[i]) >= 0);
	user->is_operator = false;
	fake.opt.user_max_cm_id = 3;
	memory = user->bytes.memory;
	TAP_OK(user->orphans == 4, "connections that end after their ids are charged to the user");
	last = create_id(&ch);
	TAP_OK(SEND(&ch, CREATE_ID, q, 4) == -EDQUOT &&
		       reason_has(&ch.c, "twice --user-max-cm-id") && reason_has(&ch.c, "is 6"),
	       "with them, a user has twice as many as it may have ids");
	user->is_operator = true;
	TAP_OK(!SEND(&ch, CREATE_ID, q, 4) && !destroy_id(&ch, *(uint32_t *)ch.c.body),
	       "an operator has no such limit");
	user->is_operator = false;
	for (end = xd_now() + 10 * 1000000000ull; user->orphans && xd_now() < end;)
		carry();
	TAP_OK(!user->orphans && !SEND(&ch, CREATE_ID, q, 4),
	       "when the peers have answered, there is room again");
	MUST(!destroy_id(&ch, *(uint32_t *)ch.c.body) && !destroy_id(&ch, last));
	TAP_OK(user->bytes.memory == memory - 4 * XC_ID_BYTES, "and their memory is free");
	user->is_operator = true;
	fake.opt.user_max_cm_id = old;
	close_channel(&ch);
}

/* ---- main ----------------------------------------------------------------------- */

static void open_gsi(void)
{
	const struct xd_gsi_config config = {
		.loop = fake.dev.loop,
		.net = fake.dev.net,
		.tables = fake.dev.tables,
		.workers = fake.dev.workers,
	};

	fake_server_stop();
	MUST(!xd_gsi_new(&config, &fake.dev.gsi));
	MUST(!xd_server_open(&fake.dev, &fake.server));
}

int main(void)
{
	start_server("cm");
	open_gsi();
	open_client(&verbs);
	fake.opt.client_max_qp = 1000;
	fake.opt.client_max_cq = fake.opt.client_max_pd = 1000;
	test_requests();
	test_new_commands();
	test_bind();
	test_ports();
	test_closed_owner();
	test_resolve();
	test_resolve_at_once();
	test_address_change();
	test_held_gid();
	test_orphans();
	test_connection();
	test_early_replies();
	test_option_values();
	test_path_options();
	test_path_record();
	test_first_packet();
	test_notify();
	test_timewait();
	test_reject();
	test_edges();
	test_backlog();
	test_loopback();
	test_datagrams();
	test_multicast();
	test_migrate();
	test_closed_channel();
	test_limits();
	close_client(&verbs);
	fake_server_stop();
	xd_gsi_free(fake.dev.gsi);
	return tap_end();
}
