// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "daemon/base/log.h"
#include "disconnect.h"
#include "execute.h"
#include "ring.h"
#include "steer.h"

#define STACK 65536
#define LINGER_MS 100 /* so long a thread waits for the next request of its program */
/* Threads that execute RING for one user: as many as there are slots */
#define USER_RINGS XD_HELPER_SLOTS

/*
 * A program with a ticket. While a thread executes its request, the ticket is not watched, and
 * only the thread uses the program, but for the links and `gives`.
 */
struct xd_served {
	struct xd_serving *state;
	struct xd_served *next, **pprev;
	int ticket;
	struct xd_helper_peer peer;
	struct xd_helper_request request;
	int files[XD_RING_FILES]; /* RING */
	uint32_t n_files;
	uint32_t loan;	 /* word of it */
	sem_t has_files; /* the thread has descriptors of its own */
	bool gives;	 /* a thread executes RING; atomic */
};

/* ---- events ---------------------------------------------------------------------- */

/* data: address of the descriptor in struct xd_serving, or a struct xd_served */
static int serve_watch(struct xd_serving *s, int fd, void *data)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = data };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* ---- programs -------------------------------------------------------------------- */

static void program_free(struct xd_served *p)
{
	p->state->programs--;
	/* A thread that ends may still have the ticket open, with which the watch would remain. */
	epoll_ctl(p->state->epoll, EPOLL_CTL_DEL, p->ticket, NULL);
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	sem_destroy(&p->has_files);
	xd_helper_peer_close(&p->peer);
	close(p->ticket);
	free(p);
}

/* If the reply cannot be sent, the next event of the ticket is its end. */
static void helper_serve(struct xd_served *p)
{
	int fd = xd_helper_execute(&p->peer, &p->request);
	struct xd_helper_reply rep = { .status = fd < 0 ? fd : 0 };

	xd_message_send(p->ticket, &rep, sizeof(rep), &fd, fd >= 0, MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
}

/* Whatever the ticket brings that is no request to open a file is left to the main thread. */
static bool follows(const struct xd_served *p)
{
	struct pollfd ticket = { .fd = p->ticket, .events = POLLIN };
	const int flags = MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT;
	struct xd_helper_request r;

	return poll(&ticket, 1, LINGER_MS) == 1 &&
	       recv(p->ticket, &r, sizeof(r), flags) == sizeof(r) && r.op == XD_HELPER_OPEN_MAPPED;
}

/* Returns false after an error, which ends the ticket. */
static bool receive_next(struct xd_served *p)
{
	p->n_files = XD_RING_FILES;
	if (xd_message_receive(p->ticket, &p->request, sizeof(p->request), p->files, &p->n_files,
			       MSG_DONTWAIT)) {
		shutdown(p->ticket, SHUT_RDWR);
		return false;
	}
	xd_fds_close(p->files, p->n_files);
	return true;
}

/*
 * Programs register several regions one after the other, and starting a thread takes longer than
 * opening a file. So the thread waits for the next request. Then it gives the program back, which
 * may be freed at once.
 */
static void *serve_in_thread(void *arg)
{
	struct xd_served *p = arg;

	do {
		helper_serve(p);
	} while (follows(p) && receive_next(p));
	serve_watch(p->state, p->ticket, p);
	return NULL;
}

static int serve_start_thread(struct xd_served *p, void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	epoll_ctl(p->state->epoll, EPOLL_CTL_DEL, p->ticket, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, run, p);
	pthread_attr_destroy(&attr);
	return -err;
}

/* ---- rings ----------------------------------------------------------------------- */

/*
 * A program that hangs may never let its thread go, which then outlives this process. So the thread
 * has descriptors of its own, and none of what the next daemon waits for.
 */
static void *give_in_thread(void *arg)
{
	struct xd_served *p = arg;
	struct xd_helper_reply rep = { .status = xd_ring_unshare() };
	int kept[XD_RING_FILES + 3], files[XD_RING_FILES];
	struct xd_lent *lent = &p->state->lent[p->request.slot];
	const struct xd_ring_loan loan = {
		.ring = p->request.ring,
		.files = files,
		.n = p->n_files,
		.word = &lent->word,
		.loan = p->loan,
	};
	uint32_t n = p->n_files;
	enum xd_ring_step step = XD_RING_PREPARE;
	bool unshared = !rep.status;

	memcpy(files, p->files, sizeof(files));
	memcpy(kept, p->files, sizeof(files));
	kept[n] = p->ticket;
	kept[n + 1] = p->peer.pidfd;
	kept[n + 2] = p->state->epoll;
	sem_post(&p->has_files);
	if (unshared) {
		xd_ring_keep_only(kept, n + 3);
		rep.status = xd_ring_give(&p->peer, &loan, &step);
	}
	rep.step = step;
	xd_message_send(p->ticket, &rep, sizeof(rep), NULL, 0, MSG_DONTWAIT);
	__atomic_store_n(&p->gives, false, __ATOMIC_RELEASE);
	serve_watch(p->state, p->ticket, p);
	return NULL;
}

/* A program that hangs costs a thread. */
static bool has_threads_left(const struct xd_served *p)
{
	uint32_t n = 0;

	for (const struct xd_served *q = p->state->first; q; q = q->next)
		n += q->peer.uid == p->peer.uid && __atomic_load_n(&q->gives, __ATOMIC_ACQUIRE);
	return n < USER_RINGS;
}

static int check_ring(const struct xd_served *p)
{
	const struct xd_helper_request *r = &p->request;

	if (!p->n_files || r->slot >= XD_HELPER_SLOTS)
		return -EINVAL;
	if (p->state->lent[r->slot].sock >= 0)
		return -EBUSY;
	return has_threads_left(p) ? 0 : -EAGAIN;
}

/* Keeps the socket that receives, and closes the others, once the thread has them. */
static void serve_give(struct xd_served *p)
{
	struct xd_helper_reply rep = { .status = check_ring(p), .step = XD_RING_PREPARE };
	struct xd_lent *lent = &p->state->lent[p->request.slot % XD_HELPER_SLOTS];

	if (!rep.status) {
		p->loan = xd_ring_next(__atomic_load_n(&lent->word, __ATOMIC_ACQUIRE));
		__atomic_store_n(&lent->word, p->loan, __ATOMIC_RELEASE);
		p->gives = true;
		rep.status = serve_start_thread(p, give_in_thread);
		if (!rep.status) {
			lent->sock = p->files[0];
			while (sem_wait(&p->has_files) && errno == EINTR)
				;
			xd_fds_close(p->files + 1, p->n_files - 1);
			return;
		}
		p->gives = false;
		serve_watch(p->state, p->ticket, p);
	}
	xd_fds_close(p->files, p->n_files);
	xd_message_send(p->ticket, &rep, sizeof(rep), NULL, 0, MSG_DONTWAIT);
}

static int replace_socket(struct xd_serving *s, const struct xd_helper_request *r)
{
	struct xd_lent *lent;
	uint32_t loan;
	int err;

	if (r->slot >= XD_HELPER_SLOTS)
		return -EINVAL;
	lent = &s->lent[r->slot];
	loan = __atomic_load_n(&lent->word, __ATOMIC_ACQUIRE) & ~(uint32_t)XD_RING_LOAN;
	if (lent->sock < 0 || xd_ring_set_use(&lent->word, loan, XD_RING_CANCELLED))
		err = -ENOENT;
	else
		err = xd_ring_retire(lent->sock);
	if (lent->sock < 0 || (err && err != -ENOENT))
		return err;
	close(lent->sock);
	lent->sock = -1;
	return err;
}

static void serve_replace(struct xd_serving *s, const struct xd_helper_request *r, const int *fds,
			  uint32_t n)
{
	struct xd_helper_reply rep = { 0 };

	if (n != 1)
		return;
	rep.status = replace_socket(s, r);
	xd_message_send(fds[0], &rep, sizeof(rep), NULL, 0, MSG_DONTWAIT);
}

/* The next daemon needs the port of the interface, whatever programs go on with their rings. */
static void retire_all(struct xd_serving *s)
{
	for (uint32_t i = 0; i < XD_HELPER_SLOTS; i++)
		if (s->lent[i].sock >= 0)
			xd_ring_retire(s->lent[i].sock);
}

/* ---- requests by tickets ----------------------------------------------------------- */

static void on_ticket(struct xd_served *p)
{
	int err;

	p->n_files = XD_RING_FILES;
	err = xd_message_receive(p->ticket, &p->request, sizeof(p->request), p->files, &p->n_files,
				 MSG_DONTWAIT);
	if (err == -EAGAIN)
		return;
	if (err) {
		program_free(p);
		return;
	}
	if (p->request.op == XD_HELPER_RING) {
		serve_give(p);
		return;
	}
	xd_fds_close(p->files, p->n_files);
	if (!serve_start_thread(p, serve_in_thread))
		return;
	helper_serve(p);
	serve_watch(p->state, p->ticket, p);
}

/* Takes over the ticket. */
static int program_new(struct xd_serving *s, int connection, int ticket)
{
	struct xd_served *p = calloc(1, sizeof(*p));
	int err = p ? 0 : -ENOMEM;

	if (p) {
		p->state = s;
		s->programs++;
		p->next = s->first;
		if (p->next)
			p->next->pprev = &p->next;
		p->pprev = &s->first;
		s->first = p;
		sem_init(&p->has_files, 0, 0);
		p->ticket = ticket;
		xd_helper_peer_open(&p->peer, connection);
		err = serve_watch(s, ticket, p);
		if (err)
			program_free(p);
	} else {
		close(ticket);
	}
	return err;
}

/* ---- connections ----------------------------------------------------------------- */

static int introduce(struct xd_serving *s, int connection)
{
	struct xd_helper_arrival a = { 0 };
	int pair[2], fds[XD_ARRIVAL_FDS], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = program_new(s, connection, pair[0]);
	if (!err) {
		fds[XD_ARRIVAL_CONNECTION] = connection;
		fds[XD_ARRIVAL_TICKET] = pair[1];
		err = xd_message_send(s->sock, &a, sizeof(a), fds, XD_ARRIVAL_FDS, 0);
	}
	close(pair[1]);
	return err;
}

/* Out of descriptors: closes the spare one to accept the connection, which the daemon refuses. */
static void serve_pass_on(struct xd_serving *s)
{
	struct xd_helper_arrival a = { .status = -EMFILE };
	int fd;

	close(s->spare);
	fd = accept4(s->taken[XD_TAKE_LISTEN], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		xd_message_send(s->sock, &a, sizeof(a), &fd, 1, 0);
		close(fd);
	}
	s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void serve_on_listen(struct xd_serving *s)
{
	struct xd_helper_arrival a = { .status = -EMFILE };
	int fd = accept4(s->taken[XD_TAKE_LISTEN], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		serve_pass_on(s);
	if (fd < 0)
		return;
	if (introduce(s, fd))
		xd_message_send(s->sock, &a, sizeof(a), &fd, 1, 0);
	close(fd);
}

/* ---- the daemon ------------------------------------------------------------------ */

static void serve_take(struct xd_serving *s, const int *fds, uint32_t n)
{
	if (n < XD_TAKE_PINS || s->taken[XD_TAKE_LISTEN] >= 0 ||
	    serve_watch(s, fds[XD_TAKE_LISTEN], &s->taken[XD_TAKE_LISTEN])) {
		xd_fds_close(fds, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		s->taken[i] = fds[i];
}

/* The daemon is trusted until it has started. */
static void serve_steer(struct xd_serving *s, uint32_t served, uint32_t queues)
{
	int err;

	if (!served || s->steer || s->taken[XD_TAKE_LISTEN] >= 0)
		return;
	err = xd_steer_start(s->ifname, served, &s->steer);
	if (!err) {
		xd_log(XD_WARN, "%s: %u of %u RX queues are served; RoCE is steered to these by %s",
		       s->ifname, served, queues, xd_steer_means(s->steer));
		return;
	}
	xd_log(XD_WARN,
	       "%s: %u of %u RX queues are served; RoCE packets at the others are dropped, because "
	       "the driver cannot steer them (%s): serve all queues, or use fewer: "
	       "ethtool -L %s combined %u",
	       s->ifname, served, queues, strerror(-err), s->ifname, served);
}

/* Returns true for an option of socket level that has the value. */
static bool option_is(int fd, int name, int value)
{
	socklen_t len = sizeof(int);
	int is;

	return !getsockopt(fd, SOL_SOCKET, name, &is, &len) && is == value;
}

/* Kernel memory without limit is only for UDP sockets, as the daemon has at its start. */
static void enlarge(const int *fds, uint32_t n, uint32_t bytes)
{
	int size = (int)bytes;

	if (n == 1 && bytes <= XD_HELPER_MOST_BYTES && option_is(fds[0], SO_TYPE, SOCK_DGRAM) &&
	    option_is(fds[0], SO_PROTOCOL, IPPROTO_UDP))
		setsockopt(fds[0], SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
}

/* Returns false if the daemon has ended. */
static bool on_daemon(struct xd_serving *s)
{
	struct xd_helper_request r;
	int fds[XD_TAKE_FDS]; /* more than those of the other requests */
	uint32_t n = XD_TAKE_FDS;
	int err = xd_message_receive(s->sock, &r, sizeof(r), fds, &n, MSG_DONTWAIT);

	if (err)
		return err != -EPIPE && err != -ECONNRESET;
	if (r.op == XD_HELPER_TAKE) {
		serve_take(s, fds, n);
		return true;
	}
	if (r.op == XD_HELPER_REPLACE)
		serve_replace(s, &r, fds, n);
	if (r.op == XD_HELPER_ENLARGE)
		enlarge(fds, n, r.bytes);
	xd_fds_close(fds, n);
	if (r.op == XD_HELPER_STEER)
		serve_steer(s, r.served, r.queues);
	if (r.op == XD_HELPER_SOLICIT)
		xd_solicit(&s->solicitor, &r);
	return true;
}

static void remove_pins(int dir_fd)
{
	DIR *dir = fdopendir(dup(dir_fd));
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		unlinkat(dir_fd, d->d_name, 0);
	if (dir)
		closedir(dir);
}

void xd_serving_clean_up(struct xd_serving *s, const struct xd_places *places)
{
	xd_steer_stop(s->steer);
	retire_all(s);
	if (s->taken[XD_TAKE_LISTEN] < 0)
		return;
	if (s->taken[XD_TAKE_PINS] >= 0) {
		remove_pins(s->taken[XD_TAKE_PINS]);
		rmdir(places->pins);
	}
	unlink(places->socket);
	unlink(places->lock);
	xd_fds_close(s->taken, s->taken[XD_TAKE_PINS] >= 0 ? XD_TAKE_FDS : XD_TAKE_PINS);
}

/* ---- the loop --------------------------------------------------------------------- */

int xd_serving_open(struct xd_serving *s, int sock, const char *ifname)
{
	sigset_t ended;

	memset(s, 0xff, sizeof(*s));
	s->sock = sock;
	s->ifname = ifname;
	s->steer = NULL;
	s->programs = 0;
	s->first = NULL;
	for (uint32_t i = 0; i < XD_HELPER_SLOTS; i++)
		s->lent[i].word = 0;
	sigemptyset(&ended);
	sigaddset(&ended, SIGUSR1);
	s->signals = signalfd(-1, &ended, SFD_NONBLOCK | SFD_CLOEXEC);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->disconnect = xd_disconnect_open(ifname);
	if (s->signals < 0 || s->epoll < 0 || xd_solicit_open(&s->solicitor))
		return -EMFILE;
	return serve_watch(s, s->sock, &s->sock) || serve_watch(s, s->signals, &s->signals)
		       ? -ENOMEM
		       : 0;
}

/* Handles the messages that the daemon sent before its end: TAKE may be among them. */
static void read_rest(struct xd_serving *s)
{
	char byte;

	while (recv(s->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		on_daemon(s);
}

static bool serve_handle(struct xd_serving *s, void *data)
{
	if (data == &s->signals) {
		read_rest(s);
		return false;
	}
	if (data == &s->sock)
		return on_daemon(s);
	if (data == &s->taken[XD_TAKE_LISTEN])
		serve_on_listen(s);
	else
		on_ticket(data);
	return true;
}

bool xd_serving_step(struct xd_serving *s, int timeout_ms)
{
	struct epoll_event ev;
	int n = epoll_wait(s->epoll, &ev, 1, timeout_ms);

	return n > 0 ? serve_handle(s, ev.data.ptr) : !n || errno == EINTR;
}
