/*
 * context_length.c
 *	  Learns a model's context length if its options don't give it and a request needs it.
 *
 * A completion without max_tokens needs a number for it (encode_generate.c).  So the CallGroup of the
 * first such request first GETs the endpoint's list of models, with the limits, tries and errors of any
 * other call; other such requests wait for it.  Then all of them go back to the front of the queue.  If
 * the list does not report the length, as another database's list of a model that isn't loaded there, a
 * second call is made: vLLM's reply to /tokenize has the length, too.  If that doesn't report it either,
 * the requests are refused.  If the endpoint can't be called, all of them fail with that error.
 *
 * The length (llm_load_model learns it, too) is kept with the model's options for an hour, but only
 * until the url fails: another endpoint may answer at that url afterwards.
 *
 * Tested by tests/unit/remote/test_remote_length.c.
 */
#include "base/alloc.h"
#include "remote/codec/dialect.h"
#include "remote/dispatcher_internal.h"

#define KNOWN_US	INT64_C(3600000000)

static bool
wanted(RModel *m, const PendingRequest *a)
{
	if (m->o->reported_len > 0 && m->l->now_us - m->reported_us >= KNOWN_US)
		m->o->reported_len = 0;
	return a->probed != LENGTH_ALL && body_wants_length(&a->w, m->o);
}

bool
length_must_wait(RModel *m, PendingRequest *a)
{
	if (m->sizer == NULL || !wanted(m, a))
		return false;
	a->waits_for_length = true;
	return true;
}

void
length_begin(CallGroup *j)
{
	if (j->n > 1 || !wanted(j->m, j->requests[0]))
		return;
	j->sizes = true;
	/* the question names no adapter: an adapter has the length of its base model */
	j->question = (RequestFields) {
		.kind = j->requests[0]->probed == LENGTH_NOTHING ? WK_MODEL_LOAD : WK_TOKENIZE,.prompt = {"x", 1},
			.max_tokens = -1,.idempotent = true
	};
	j->w[0] = &j->question;
}

void
length_learn(RModel *m, const Buf *fields)
{
	WireIn		in = {fields->data, fields->data + fields->len};
	WireField	f;

	m->o->reported_len = 0;
	while (fields->len > 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_MAX_MODEL_LEN && f.i > 0 && f.i <= INT32_MAX)
			m->o->reported_len = (int) f.i;
	m->reported_us = m->l->now_us;
}

void
length_forget(RModel *m)
{
	m->o->reported_len = 0;
}

/*
 * Take the requests that wait for the length out of that state.  Returns them, *n in number, the oldest
 * first.
 */
static PendingRequest **
stand_down(RModel *m, int *n)
{
	Dispatcher *l = m->l;
	PendingRequest **v = mem_alloc(((size_t) l->n_requests + 1) * sizeof(*v));
	int			at = 0;

	/* the dispatcher's list begins with the newest request */
	for (PendingRequest *a = l->requests; a != NULL; a = a->next)
		if (a->m == m && a->waits_for_length)
			v[at++] = a;
	for (int i = 0; i < at; i++)
		v[i]->waits_for_length = false;
	for (int i = 0; i < at / 2; i++)
	{
		PendingRequest *a = v[i];

		v[i] = v[at - 1 - i];
		v[at - 1 - i] = a;
	}
	*n = at;
	return v;
}

void
length_over(RModel *m, LengthProbed probed)
{
	int			n;
	PendingRequest **v = stand_down(m, &n);

	m->sizer = NULL;
	for (int i = 0; i < n; i++)
	{
		if (v[i]->probed < probed)
			v[i]->probed = probed;
		pending_requeue(v[i]);
	}
	mem_free(v);
}

void
length_reported(CallGroup *j, const Buf *fields)
{
	static const Buf nothing = {0};
	RModel	   *m = j->m;
	PendingRequest *a = j->requests[0];
	bool		tokens = j->question.kind == WK_MODEL_LOAD && (m->o->dialect->caps & CAP_VLLM) != 0 &&
		m->o->tokenize_path != NULL;

	length_learn(m, fields != NULL ? fields : &nothing);
	a->probed = m->o->reported_len > 0 ? LENGTH_NOTHING : tokens ? LENGTH_LIST : LENGTH_ALL;
	/* the request's own call has not been tried yet */
	a->tries = a->charged = 0;
	a->called_us = 0;
	pending_requeue(a);
	length_over(m, a->probed);
	job_kill(j);
}

bool
length_failed(CallGroup *j, const Err *e, const ErrorExtra *x)
{
	int			n;
	PendingRequest **v;

	switch (e->cls)
	{
			/* there is no such list, or it does not mention the model */
		case ERR_NOT_FOUND:
		case ERR_PROTOCOL:
		case ERR_UNSUPPORTED:
		case ERR_INVALID:
			length_reported(j, NULL);
			return true;
		default:
			break;
	}
	v = stand_down(j->m, &n);
	for (int i = 0; i < n; i++)
		pending_error(v[i], e, x);
	mem_free(v);
	return false;
}
