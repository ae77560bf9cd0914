/*
 * worker_pool.c
 *	  Worker threads and the server thread's mailbox.
 *
 * One mutex for all queues, because jobs are few and long.  The threads live as long as the process.
 * Tested through tests/unit/server/test_server.c.
 */
#include "server/worker_pool.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/alloc.h"

typedef struct JobList
{
	Job		   *head;
	Job		  **tail;
} JobList;

typedef struct PoolWorker
{
	Jobs	   *js;
	WorkerQueue	q;
} PoolWorker;

struct Jobs
{
	pthread_mutex_t lock;
	pthread_cond_t more[JQ_COUNT];
	JobList		todo[JQ_COUNT];
	JobList		mail;
	void		(*notify) (void *ctx);
	void	   *ctx;
	PoolWorker	workers[JQ_COUNT];
};

static void
add(JobList *l, Job *j)
{
	j->next = NULL;
	*l->tail = j;
	l->tail = &j->next;
}

static Job *
take(JobList *l)
{
	Job		   *j = l->head;

	if (j != NULL)
	{
		l->head = j->next;
		if (l->head == NULL)
			l->tail = &l->head;
	}
	return j;
}

static void *
worker_main(void *arg)
{
	PoolWorker *w = arg;
	Jobs	   *js = w->js;

	for (;;)
	{
		Job		   *j;

		pthread_mutex_lock(&js->lock);
		while ((j = take(&js->todo[w->q])) == NULL)
			pthread_cond_wait(&js->more[w->q], &js->lock);
		pthread_mutex_unlock(&js->lock);
		j->run(j);
		jobs_post(js, j);
	}
	return NULL;
}

Jobs *
jobs_new(void (*notify) (void *ctx), void *ctx)
{
	static const int threads[JQ_COUNT] = {[JQ_TEXT] = 2,[JQ_GRAMMAR] = 2,[JQ_LOAD] = 1,[JQ_CHECK] = 1,
										  [JQ_LORA] = 2,[JQ_LOOK] = 2};
	Jobs	   *js = mem_zalloc(sizeof(Jobs));

	pthread_mutex_init(&js->lock, NULL);
	js->notify = notify;
	js->ctx = ctx;
	js->mail.tail = &js->mail.head;
	for (int q = 0; q < JQ_COUNT; q++)
	{
		pthread_cond_init(&js->more[q], NULL);
		js->todo[q].tail = &js->todo[q].head;
		js->workers[q] = (PoolWorker) {js, (WorkerQueue) q};
		for (int i = 0; i < threads[q]; i++)
		{
			pthread_t	t;

			if (pthread_create(&t, NULL, worker_main, &js->workers[q]) != 0)
			{
				log_line('P', "could not start a worker thread");
				exit(1);
			}
			pthread_setname_np(t, "jobs");
			pthread_detach(t);
		}
	}
	return js;
}

void
jobs_submit(Jobs *js, WorkerQueue q, Job *j)
{
	pthread_mutex_lock(&js->lock);
	add(&js->todo[q], j);
	pthread_cond_signal(&js->more[q]);
	pthread_mutex_unlock(&js->lock);
}

void
jobs_post(Jobs *js, Job *j)
{
	pthread_mutex_lock(&js->lock);
	add(&js->mail, j);
	pthread_mutex_unlock(&js->lock);
	js->notify(js->ctx);
}

bool
jobs_mail(Jobs *js)
{
	bool		r;

	pthread_mutex_lock(&js->lock);
	r = js->mail.head != NULL;
	pthread_mutex_unlock(&js->lock);
	return r;
}

bool
jobs_drain(Jobs *js)
{
	bool		any = false;

	for (;;)
	{
		Job		   *j;

		pthread_mutex_lock(&js->lock);
		j = take(&js->mail);
		pthread_mutex_unlock(&js->lock);
		if (j == NULL)
			return any;
		j->done(j);
		any = true;
	}
}
