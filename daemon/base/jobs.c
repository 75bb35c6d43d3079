// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "jobs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "process.h"

#define END_SECONDS 2 /* time that xd_jobs_free() waits */

struct jobs_queue {
	struct xd_job *head, **tail;
};

struct xd_jobs {
	pthread_mutex_t lock;
	pthread_cond_t work;	      /* a job was added, or stop is set */
	pthread_cond_t progress;      /* a job has finished, or a thread has ended */
	struct jobs_queue todo, done; /* done: waiting for the control thread */
	unsigned int threads, idle, max_threads;
	unsigned int unfinished; /* jobs whose done() has not returned */
	bool stop;
	int eventfd;
	struct xd_loop *loop;
	struct xd_watch *watch;
};

static void queue_init(struct jobs_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static void queue_put(struct jobs_queue *q, struct xd_job *job)
{
	job->next = NULL;
	*q->tail = job;
	q->tail = &job->next;
}

static struct xd_job *queue_get(struct jobs_queue *q)
{
	struct xd_job *job = q->head;

	if (!job)
		return NULL;
	q->head = job->next;
	if (!q->head)
		q->tail = &q->head;
	return job;
}

static int spawn(struct xd_jobs *jobs, void *(*fn)(void *))
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int err;

	/* the control thread handles signals, but each thread needs SIGBUS (memory/sigbus.h) */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, fn, jobs);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

static void jobs_wake_loop(struct xd_jobs *jobs)
{
	uint64_t one = 1;

	(void)!write(jobs->eventfd, &one, sizeof(one)); /* EAGAIN: an event is pending anyway */
}

static void run_one(struct xd_jobs *jobs, struct xd_job *job)
{
	pthread_mutex_unlock(&jobs->lock);
	job->run(job);
	pthread_mutex_lock(&jobs->lock);
	queue_put(&jobs->done, job);
	pthread_cond_broadcast(&jobs->progress);
	jobs_wake_loop(jobs);
}

/* A thread that takes a job while no other one is idle starts another. */
static void *worker(void *arg)
{
	struct xd_jobs *jobs = arg;
	struct xd_job *job;

	xd_thread_name("xroced-job");
	pthread_mutex_lock(&jobs->lock);
	while (!jobs->stop || jobs->todo.head) {
		job = queue_get(&jobs->todo);
		if (!job) {
			if (jobs->idle >= 2)
				break;
			jobs->idle++;
			pthread_cond_wait(&jobs->work, &jobs->lock);
			jobs->idle--;
			continue;
		}
		if (!jobs->idle && jobs->threads < jobs->max_threads && !spawn(jobs, worker))
			jobs->threads++;
		run_one(jobs, job);
	}
	jobs->threads--;
	pthread_cond_broadcast(&jobs->progress);
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

/* Calls done(), which may add a job that is done at once: the loop must serve other events, too. */
static void call_done(struct xd_jobs *jobs)
{
	struct xd_job *job;

	xd_loop_begin_piece(jobs->loop);
	pthread_mutex_lock(&jobs->lock);
	while ((job = queue_get(&jobs->done))) {
		pthread_mutex_unlock(&jobs->lock);
		job->done(job);
		pthread_mutex_lock(&jobs->lock);
		jobs->unfinished--;
		if (xd_loop_must_yield(jobs->loop))
			break;
	}
	if (jobs->done.head)
		jobs_wake_loop(jobs);
	pthread_mutex_unlock(&jobs->lock);
}

static void on_eventfd(void *arg, uint32_t events)
{
	struct xd_jobs *jobs = arg;
	uint64_t n;

	if (read(jobs->eventfd, &n, sizeof(n)) > 0)
		call_done(jobs);
}

struct xd_jobs *xd_jobs_new(struct xd_loop *loop, unsigned int max_threads)
{
	struct xd_jobs *jobs = calloc(1, sizeof(*jobs));

	if (!jobs)
		return NULL;
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->work, NULL);
	pthread_cond_init(&jobs->progress, NULL);
	queue_init(&jobs->todo);
	queue_init(&jobs->done);
	jobs->loop = loop;
	jobs->max_threads = max_threads;
	jobs->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (jobs->eventfd >= 0)
		jobs->watch = xd_watch_add(loop, jobs->eventfd, EPOLLIN, on_eventfd, jobs);
	if (!jobs->watch || spawn(jobs, worker)) {
		xd_jobs_free(jobs);
		return NULL;
	}
	pthread_mutex_lock(&jobs->lock);
	jobs->threads++;
	pthread_mutex_unlock(&jobs->lock);
	return jobs;
}

bool xd_jobs_drain(struct xd_jobs *jobs, unsigned int seconds)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&jobs->lock);
	while (jobs->unfinished && !err) {
		while (!jobs->done.head && !err)
			err = pthread_cond_timedwait(&jobs->progress, &jobs->lock, &until);
		pthread_mutex_unlock(&jobs->lock);
		call_done(jobs);
		pthread_mutex_lock(&jobs->lock);
	}
	pthread_mutex_unlock(&jobs->lock);
	return !err;
}

bool xd_jobs_free(struct xd_jobs *jobs)
{
	if (!jobs)
		return true;
	if (!xd_jobs_drain(jobs, END_SECONDS))
		return false;
	pthread_mutex_lock(&jobs->lock);
	jobs->stop = true;
	pthread_cond_broadcast(&jobs->work);
	while (jobs->threads)
		pthread_cond_wait(&jobs->progress, &jobs->lock);
	pthread_mutex_unlock(&jobs->lock);
	xd_watch_del(jobs->watch);
	if (jobs->eventfd >= 0)
		close(jobs->eventfd);
	free(jobs);
	return true;
}

void xd_jobs_add(struct xd_jobs *jobs, struct xd_job *job)
{
	pthread_mutex_lock(&jobs->lock);
	jobs->unfinished++;
	queue_put(&jobs->todo, job);
	pthread_cond_signal(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
}
