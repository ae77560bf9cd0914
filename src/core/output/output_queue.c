/*
 * output_queue.c
 *	  The output side of the core: items from the step thread to the requests' sinks.
 *
 * If threaded, the step thread passes the items of a step to the output thread together, and continues
 * with the next step; it never waits for the output thread.  (It sends a few items itself, see below.)
 * The two threads share these parts of a request:
 *
 *	field					step thread						output thread
 *	detok, stop, text ...	until it is submitted			from then on
 *	reason					writes before the last item		reads after it
 *	ended					-								all
 *	the rest				all								constants only (sink, params, ids, times)
 *
 * This module may find a stop string when the step thread has already begun to compute
 * another token.  Then the request is `ended`: it gets no more tokens, the step thread
 * is notified, removes the request from the schedule (at the latest in its next step), and adds
 * the last item as for any end.  The final event waits for that, so when the client gets it, blocks
 * are freed and counters updated; the text is sent at once.
 *
 * The last item is the last reference to a request: the request is freed here.
 *
 * Tested by tests/unit/core/test_core.c (both ways give the same events).
 */
#include "core/output/output_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/output/guided_decoding.h"

/*
 * Waking a thread costs more than making the text of a token.  So tokens that are not urgent (not
 * streamed, no stop strings) are sent together with urgent ones, or after LINGER_US.  The step thread
 * sends up to FEW items itself if the output thread is idle: then all earlier items have been sent.
 */
#define LINGER_US	10000
#define FEW			8

typedef struct OutputItems
{
	OutputItem *p;
	size_t		n;
	size_t		cap;
} OutputItems;

struct Deliver
{
	bool		threaded;
	const Tok  *tok;
	void		(*stopped) (void *ctx, uint64_t id, int index);
	void	   *stopped_ctx;
	void		(*round) (void *ctx);
	void	   *round_ctx;

	OutputItems	filling;		/* used by the step thread */
	bool		urgent;			/* one of filling is urgent */
	int64_t		waiting_since;	/* when filling got its first item; 0 = not set yet */

	pthread_mutex_t lock;
	pthread_cond_t more;
	OutputItems	sent;			/* protected by lock */
	bool		busy;			/* protected by lock: the output thread is sending */
	bool		stop;			/* protected by lock */

	OutputItems	taken;			/* used by the output thread */
	_Atomic int64_t dropped;	/* tokens after a stop string; updated before the request's last event */
	_Atomic int64_t forgiven;	/* requests that failed after their stop string and count as finished */
	pthread_t	thread;
};

/* ---- events ---- */

static void
emit(const OutputItem *p, int n_ids, int n_output, const OutResult *res)
{
	Req		   *r = p->r;
	ReqEvent	ev = p->ev;

	if (n_ids > 0)
	{
		ev.ids = &p->id;
		ev.n_ids = n_ids;
		ev.logprobs = p->token_lp;
		ev.prompt_logprobs = p->prompt_lp;
	}
	ev.text = r->out.text.data != NULL ? r->out.text.data : "";
	ev.text_len = r->out.text.len;
	ev.output_tokens = n_output;
	ev.ended = ev.finish = res->finish;
	ev.stop_reason = res->reason;
	ev.err = res->finish == FIN_ERROR ? p->err : NULL;
	ev.now_us = clock_us();
	if (ev.logprobs != NULL)
		r->out.cum_logprob += (double) ev.logprobs->e[0].value;
	ev.cum_logprob = r->out.cum_logprob;
	if (r->group != NULL)
		group_event(r->group, &ev, p->err);
	if (r->in.sink != NULL)
		r->in.sink(r->in.sink_ctx, r, &ev);
}

/* Send the answers of a beam search, at its end. */
static void
emit_beams(Deliver *d, const OutputItem *p)
{
	Req		   *r = p->r;
	int			n_output;
	ReqEvent	ev = p->ev;
	int			n = beam_n_results(r->group->beam, &n_output);

	ev.ended = ev.finish = p->res.finish;
	ev.err = p->err;
	ev.text = "";
	ev.reasoning_tokens = -1;
	ev.now_us = clock_us();
	if (r->in.sink == NULL)
		return;
	if (n == 0 || ev.finish > FIN_REPETITION)
	{
		r->in.sink(r->in.sink_ctx, r, &ev);
		return;
	}
	ev.output_tokens = n_output;
	beam_emit(r->group->beam, d->tok, &ev, r->in.sink, r->in.sink_ctx);
}

/* Send the only event of a pooled request. */
static void
emit_pooled(const OutputItem *p)
{
	Req		   *r = p->r;
	float	   *space = NULL;
	Err			err;
	ReqEvent	ev = p->ev;

	ev.finish = p->res.finish;
	ev.err = p->err;
	if (ev.finish == FIN_STOP && !pooled_finish(r->pooled, &ev, &space, &err))
	{
		ev.finish = FIN_ERROR;
		ev.err = &err;
	}
	ev.now_us = ev.first_token_us = clock_us();
	if (r->in.sink != NULL)
		r->in.sink(r->in.sink_ctx, r, &ev);
	mem_free(space);
}

static void
free_req(Req *r)
{
	if (r->group != NULL)
	{
		/* other answers may still use what they share */
		if (r->group->beam != NULL || r->group->n_emitted == r->group->n)
			group_free(r->group);
		else
			out_end(r);
		return;
	}
	logprobs_free(r->out.prompt_lp);
	logprobs_free(r->out.token_lp);
	if (r->pooled != NULL)
		pooled_free(r->pooled);
	else
		out_end(r);
	constraint_free(r->constraint);
	rbudget_free(r->reasoning_budget);
	genparams_free(&r->in.params);
	intvec_free(&r->tokens);
	mem_free(r->in.embeds);
	intvec_free(&r->kv.blocks);
	mem_free(r);
}

static void
free_item(const OutputItem *p)
{
	mem_free(p->err);
	logprobs_free(p->token_lp);
	logprobs_free(p->prompt_lp);
}

static void
deliver(Deliver *d, const OutputItem *p)
{
	Req		   *r = p->r;
	bool		last = p->res.finish != FIN_NONE;
	OutResult	res = p->res;
	int			n_output = p->ev.output_tokens;
	int			n_ids = 0;

	if (r->pooled != NULL)
	{
		emit_pooled(p);
		free_item(p);
		free_req(r);
		return;
	}
	if (r->group != NULL && r->group->beam != NULL)
	{
		emit_beams(d, p);
		free_item(p);
		free_req(r);
		return;
	}
	buf_reset(&r->out.text);
	if (r->out.ended)
	{
		d->dropped += p->id >= 0;
		if (!last)
		{
			free_item(p);
			return;
		}
		if (res.finish == FIN_ERROR)
			d->forgiven++;
		if (res.finish != FIN_ABORT)
			res = r->out.end;
		n_output = r->out.end_output;
	}
	else if (p->id >= 0)
	{
		n_ids = 1;
		out_text(r, p->id, n_output, &res);
	}
	if (!last && res.finish != FIN_NONE)
	{
		r->out.ended = true;
		r->out.end = res;
		r->out.end_output = n_output;
		res = (OutResult) {.finish = FIN_NONE};
		d->stopped(d->stopped_ctx, r->in.id, r->index);
	}
	emit(p, n_ids, n_output, &res);
	free_item(p);
	if (last)
		free_req(r);
}

/* ---- output thread ---- */

static void
swap(OutputItems *a, OutputItems *b)
{
	OutputItems	t = *a;

	*a = *b;
	*b = t;
}

static void
push(OutputItems *l, const OutputItem *p)
{
	if (l->n == l->cap)
	{
		l->cap = l->cap == 0 ? 64 : l->cap * 2;
		l->p = mem_realloc(l->p, l->cap * sizeof(OutputItem));
	}
	l->p[l->n++] = *p;
}

static void *
deliver_main(void *arg)
{
	Deliver    *d = arg;
	bool		stop;

	do
	{
		pthread_mutex_lock(&d->lock);
		d->busy = false;
		while (d->sent.n == 0 && !d->stop)
			pthread_cond_wait(&d->more, &d->lock);
		swap(&d->sent, &d->taken);
		d->busy = true;
		stop = d->stop && d->taken.n == 0;
		pthread_mutex_unlock(&d->lock);
		for (size_t i = 0; i < d->taken.n; i++)
			deliver(d, &d->taken.p[i]);
		d->taken.n = 0;
		if (d->round != NULL)
			d->round(d->round_ctx);
	} while (!stop);
	return NULL;
}

/*
 * Return true on the step thread: it fills the items; the output thread owns requests that were passed
 * to it.
 */
static bool
is_step_thread(const Deliver *d)
{
	return !d->threaded || !pthread_equal(pthread_self(), d->thread);
}

void
deliver_add(Deliver *d, const OutputItem *p)
{
	ASSERT(is_step_thread(d));
	if (d->threaded)
	{
		push(&d->filling, p);
		d->urgent = d->urgent || p->r->out.urgent || p->res.finish != FIN_NONE;
	}
	else
		deliver(d, p);
}

static void
send_all(Deliver *d)
{
	d->urgent = false;
	d->waiting_since = 0;
	pthread_mutex_lock(&d->lock);
	if (d->sent.n == 0)
		swap(&d->sent, &d->filling);
	for (size_t i = 0; i < d->filling.n; i++)
		push(&d->sent, &d->filling.p[i]);	/* the output thread lags by more than a step */
	d->filling.n = 0;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
}

/* Return true if the output thread has sent everything. */
static bool
is_idle(Deliver *d)
{
	bool		r;

	pthread_mutex_lock(&d->lock);
	r = !d->busy && d->sent.n == 0;
	pthread_mutex_unlock(&d->lock);
	return r;
}

void
deliver_send(Deliver *d, int64_t now_us)
{
	ASSERT(is_step_thread(d));
	if (d->filling.n == 0)
		return;
	if (d->waiting_since == 0)
		d->waiting_since = now_us;
	if (!d->urgent && now_us - d->waiting_since < LINGER_US)
		return;
	if (d->filling.n > FEW || !is_idle(d))
	{
		send_all(d);
		return;
	}
	d->urgent = false;
	d->waiting_since = 0;
	for (size_t i = 0; i < d->filling.n; i++)
		deliver(d, &d->filling.p[i]);
	d->filling.n = 0;
}

int64_t
deliver_dropped(const Deliver *d)
{
	return d->dropped;
}

int64_t
deliver_forgiven(const Deliver *d)
{
	return d->forgiven;
}

bool
deliver_threaded(const Deliver *d)
{
	return d->threaded;
}

void
deliver_on_round(Deliver *d, void (*fn) (void *ctx), void *ctx)
{
	d->round_ctx = ctx;
	d->round = fn;
}

Deliver *
deliver_new(bool threaded, const Tok *tok, void (*stopped) (void *ctx, uint64_t id, int index), void *ctx)
{
	Deliver    *d = mem_zalloc(sizeof(*d));

	d->tok = tok;
	d->stopped = stopped;
	d->stopped_ctx = ctx;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	d->threaded = threaded && pthread_create(&d->thread, NULL, deliver_main, d) == 0;
	if (d->threaded)
		pthread_setname_np(d->thread, "output");
	if (threaded && !d->threaded)
		log_line('W', "could not start a thread for output: it shares the step thread");
	return d;
}

void
deliver_free(Deliver *d)
{
	if (d == NULL)
		return;
	if (d->threaded)
	{
		send_all(d);
		pthread_mutex_lock(&d->lock);
		d->stop = true;
		pthread_cond_signal(&d->more);
		pthread_mutex_unlock(&d->lock);
		pthread_join(d->thread, NULL);
	}
	mem_free(d->filling.p);
	mem_free(d->sent.p);
	mem_free(d->taken.p);
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	mem_free(d);
}
