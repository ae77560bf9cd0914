/*
 * request_events.c
 *	  Turns the events that the backend emits for a request into frames.
 *
 * Threads: the step thread, or the core's output thread.  It owns the server call's text, ids, choices
 * and staged final frame from submission to the finishing event.
 *
 * Tested by tests/unit/server/test_server.c, test_server_core.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "server/request_histograms.h"
#include "server/request/choice_replies.h"
#include "server/request/request.h"
#include "server/server.h"
#include "server/request/stream_interval.h"
#include "core/trace.h"

static void
put_usage(WireOut *o, const ReqEvent *ev)
{
	int64_t		first = ev->first_token_us > 0 ? ev->first_token_us : ev->now_us;
	int64_t		sched = ev->scheduled_us > 0 ? ev->scheduled_us : ev->arrival_us;

	wire_put_int(o, WTAG_PROMPT_TOKENS, ev->prompt_tokens);
	wire_put_int(o, WTAG_COMPLETION_TOKENS, ev->output_tokens);
	wire_put_int(o, WTAG_CACHED_TOKENS, ev->cached_tokens);
	wire_put_int(o, WTAG_PREEMPTIONS, ev->preemptions);
	if (ev->draft_tokens > 0)
	{
		wire_put_int(o, WTAG_DRAFT_TOKENS, ev->draft_tokens);
		wire_put_int(o, WTAG_ACCEPTED_TOKENS, ev->accepted_tokens);
	}
	if (ev->reasoning_tokens >= 0)
		wire_put_int(o, WTAG_REASONING_TOKENS, ev->reasoning_tokens);
	wire_put_int(o, WTAG_QUEUE_US, sched - ev->arrival_us);
	wire_put_int(o, WTAG_PREFILL_US, first - sched);
	wire_put_int(o, WTAG_TTFT_US, first - ev->arrival_us);
	wire_put_int(o, WTAG_DECODE_US, ev->now_us - first);
	wire_put_int(o, WTAG_E2E_US, ev->now_us - ev->arrival_us);
}

/* Write the result of a pooling request; submit_pooled() has staged its labels and token counts. */
static void
put_pooled(WireOut *o, ServerCall *c, const ReqEvent *ev)
{
	size_t		n = (size_t) ev->n_rows * (size_t) ev->width;

	if (c->ch.kind == WK_LOGPROBS)
	{
		n = 0;
		for (int i = 0; i < ev->n_rows; i++)
			n += (size_t) ev->counts[i];
		wire_put_ints(o, WTAG_COUNTS, ev->counts, (size_t) ev->n_rows);
		wire_put_ints(o, WTAG_GREEDY, ev->greedy, (size_t) ev->n_rows);
	}
	wire_put_floats(o, WTAG_FLOATS, ev->values, n);
	wire_put_int(o, WTAG_ROWS, ev->n_rows);
}

static void
stage_final(ServerCall *c, const ReqEvent *ev)
{
	EntryCounters *n = entry_counters(c->entry);
	WireOut		o = chan_out(&c->last);
	Err			e;

	/* a request ends once, while the core still has it */
	ASSERT(c->last_kind == 0 && atomic_load(&c->in_core));
	atomic_fetch_add(&n->prompt_tokens, ev->prompt_tokens);
	atomic_fetch_add(&n->output_tokens, ev->output_tokens);
	atomic_fetch_add(&n->preemptions, ev->preemptions);
	if (finish_name(ev->finish) != NULL)
	{
		const char *reason = finish_name(ev->finish);

		c->last_kind = WF_DONE;
		if (request_is_pooled(c->ch.kind))
		{
			put_pooled(&o, c, ev);
			put_usage(&o, ev);
			return;
		}
		if (c->replies != NULL)
		{
			if (!c->stream)
				replies_put(c->replies, &o);
			put_usage(&o, ev);
			return;
		}
		if (c->answer != NULL && answer_calls_tools(c->answer, ev->finish == FIN_LENGTH))
			reason = "tool_calls";
		if (!c->stream && c->answer != NULL)
			parsing_put(c->answer, &o);
		else if (!c->stream)
			wire_put_str(&o, WTAG_TEXT, c->text.len > 0 ? c->text.data : "", c->text.len);
		if (!c->stream && c->want_ids)
			wire_put_ints(&o, WTAG_TOKEN_IDS, c->ids.data, c->ids.len);
		wire_put_str(&o, WTAG_FINISH_REASON, reason, strlen(reason));
		if (ev->stop_reason != NULL)
			wire_put_str(&o, WTAG_STOP_REASON, ev->stop_reason, strlen(ev->stop_reason));
		put_usage(&o, ev);
		return;
	}
	c->last_kind = WF_ERROR;
	buf_reset(&c->last);		/* fields staged for a pooling request */
	if (ev->finish == FIN_ERROR && ev->err != NULL)
	{
		if (ev->err->cls == ERR_NONE)
		{
			c->last_kind = -1;	/* fake backend: close without a frame */
			return;
		}
		chan_put_error(&c->last, ev->err);
		if (ev->scheduled_us > 0)
			put_usage(&o, ev);
		return;
	}
	/* a cancelled request's call is closed already: an open one has lost its model */
	err_set(&e, ERR_NOT_READY, "model \"%s\" was unloaded", entry_name(c->entry));
	chan_put_error(&c->last, &e);
}

/* Sink of a request with several choices or log-probabilities. */
static void
sink_replies(ServerCall *c, const ReqEvent *ev)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	if (!c->stream)
		replies_add(c->replies, ev);
	else if (replies_put_event(c->replies, ev, &o))
		scall_frame(c, WF_TEXT, &b, ev->finish == FIN_NONE);
	buf_free(&b);
}

/* Sink of a chat whose output is split. */
static void
sink_answer(ServerCall *c, const ReqEvent *ev)
{
	bool		some;
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	answer_feed(c->answer, ev->text, ev->text_len);
	if (ev->finish != FIN_NONE)
		answer_finish(c->answer);
	some = parsing_has(c->answer) || (c->want_ids && ev->n_ids > 0);
	if (!c->stream && c->want_ids)
		intvec_add(&c->ids, ev->ids, (size_t) ev->n_ids);
	if (!c->stream || !some)
		return;
	parsing_put(c->answer, &o);
	if (c->want_ids)
		wire_put_ints(&o, WTAG_TOKEN_IDS, ev->ids, (size_t) ev->n_ids);
	scall_frame(c, WF_TEXT, &b, ev->finish == FIN_NONE);
	buf_free(&b);
}

/* Sink of a plain stream. */
static void
sink_text(ServerCall *c, const ReqEvent *ev)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	if (ev->text_len == 0 && !(c->want_ids && ev->n_ids > 0))
		return;
	wire_put_str(&o, WTAG_TEXT, ev->text_len > 0 ? ev->text : "", ev->text_len);
	if (c->want_ids)
		wire_put_ints(&o, WTAG_TOKEN_IDS, ev->ids, (size_t) ev->n_ids);
	/* the last delta needs no wake of its own: the final frame follows */
	scall_frame(c, WF_TEXT, &b, ev->finish == FIN_NONE);
	buf_free(&b);
}

static void
sink_event(ServerCall *c, const ReqEvent *ev)
{
	if (c->replies != NULL)
		sink_replies(c, ev);
	else if (c->answer != NULL)
		sink_answer(c, ev);
	else if (c->stream)
		sink_text(c, ev);
	else
	{
		buf_add(&c->text, ev->text, ev->text_len);
		if (c->want_ids)
			intvec_add(&c->ids, ev->ids, (size_t) ev->n_ids);
	}
}

/* Record the request's end in the profile. */
static void
trace_end(const ServerCall *c, const ReqEvent *ev)
{
	const Request *r = c->req;
	TraceRequest t = {
		.id = c->id, .arrival_us = ev->arrival_us, .scheduled_us = ev->scheduled_us,
		.first_us = ev->output_tokens > 0 ? ev->first_token_us : 0, .end_us = ev->now_us,
		.prompt_tokens = ev->prompt_tokens, .cached_tokens = ev->cached_tokens,
		.output_tokens = ev->output_tokens, .preemptions = ev->preemptions, .finish = ev->finish,
		.pid = (int) (r->session >> 32)
	};

	snprintf(t.model, sizeof(t.model), "%s", entry_name(c->entry));
	memcpy(t.lora, r->lora, sizeof(t.lora));
	memcpy(t.traceparent, r->traceparent, sizeof(t.traceparent));
	trace_request(&t);
}

void
request_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	ServerCall *c = ctx;
	ChanLive	v = {
		WP_RUNNING, ev->prompt_tokens, ev->cached_tokens, ev->prompt_tokens + ev->output_tokens,
		ev->output_tokens, ev->preemptions, ev->first_token_us > 0 ? ev->first_token_us : -1
	};
	bool		active = scall_live(c, &v);
	ReqEvent	emitted = *ev;

	(void) r;
	if (ev->finish != FIN_NONE && trace_on())
		trace_end(c, ev);
	hist_event(entry_counters(c->entry), ev, &c->hist);
	if (active && (c->hold == NULL || stream_hold_event(c->hold, &emitted)))
		sink_event(c, c->hold == NULL ? ev : &emitted);
	if (ev->finish != FIN_NONE)
	{
		stage_final(c, ev);
		step_dirty(c->srv->step, c);
	}
}
