/*
 * backend_generator.c
 *	  Generator of the real backend: a tokenizer, a chat template and a Core.
 *
 * A request goes to one of the replicas.  Other calls go to all replicas, or only to the first if all
 * would return the same.
 *
 * Tested by tests/unit/server/test_server_core.c and tests/t/102_replicas.pl.
 */
#include "base/assert.h"
#include "backend/backend_core.h"

/* Return the n-th replica, counted from 0; NULL if the model has fewer. */
static BackendModel *
backend_replica(BackendModel *in, int n)
{
	while (in != NULL && n-- > 0)
		in = in->next;
	return in;
}

static const Tok *
instance_tok(const BackendModel *in)
{
	return in->core != NULL ? core_tok(in->core) : in->tok;
}

static bool
encode(const BackendModel *in, const char *s, size_t n, unsigned flags, IntVec *out, Err *e)
{
	return tok_encode(instance_tok(in), s, n, flags, out, e);
}

static bool
encode_marked(const BackendModel *in, const char *s, const uint8_t *marks, size_t n, IntVec *out, Err *e)
{
	return tok_encode_marked(instance_tok(in), s, marks, n, out, e);
}

static const ChatModel *
chat(const BackendModel *in)
{
	return in->chat;
}

static bool
decode(const BackendModel *in, const int32_t *ids, size_t n, unsigned flags, Buf *out, Err *e)
{
	const Tok  *t = instance_tok(in);

	for (size_t i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= tok_vocab_size(t))
		{
			err_set(e, ERR_INVALID, "token id %d is out of range", ids[i]);
			return err_detail(e, "The vocabulary has ids 0 to %d.", tok_vocab_size(t) - 1);
		}
	tok_decode(t, ids, n, flags, out);
	return true;
}

static void
piece(const BackendModel *in, int32_t id, Buf *out)
{
	size_t		n;
	const char *p = tok_piece(instance_tok(in), id, &n);

	buf_add(out, p, n);
}

static bool
token_starts(const BackendModel *in, const char *s, size_t n, IntVec *out, Err *e)
{
	return tok_starts(instance_tok(in), s, n, out, e);
}

static bool
no_weights(const char *to, Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "the model has a tokenizer, but no weights to %s with", to);
	return err_hint(e, "Functions that only need a tokenizer, such as llm_tokenize, work with it.");
}

/* Every request passes through here before submit(). */
static bool
normalize(const BackendModel *in, GenParams *p, uint64_t given, const IntVec *prompt, Err *e)
{
	if (in->core != NULL)
		return core_normalize(in->core, p, given, prompt, e);
	return no_weights("generate", e);
}

static bool
prepare_grammar(BackendModel *in, Err *e)
{
	for (BackendModel *r = in; r != NULL; r = r->next)
		if (r->core == NULL ? !no_weights("generate", e) : !core_prepare_grammar(r->core, e))
			return false;
	return true;
}

static bool
pool(const BackendModel *in, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	if (in->pooling != NULL)
		return pooling_make(in->pooling, pr, out, extra, e);
	return no_weights("compute", e);
}

static const char *const *
labels(const BackendModel *in, PoolTask task)
{
	return in->pooling != NULL ? pooling_labels(in->pooling, task) : NULL;
}

static int
embed_width(const BackendModel *in)
{
	return in->core != NULL && core_info(in->core)->generates ? core_info(in->core)->embed_width : 0;
}

static size_t
token_rows(const BackendModel *in, const int32_t *ids, size_t n, float *out)
{
	return core_token_rows(in->core, ids, n, out);
}

static void
submit(BackendModel *in, ReqSpec *spec)
{
	int64_t		live[REPLICAS_MOST] = {0};
	int			n = 0;

	if (in->queue != NULL)
	{
		for (const BackendModel *r = in; r != NULL; r = r->next)
		{
			ALWAYS(n < REPLICAS_MOST);
			live[n++] = core_live_tokens(r->core);
		}
		n = replicas_choose(in->queue, live, spec);
		in = backend_replica(in, n);
		ALWAYS(in != NULL);
		for (; spec->lora != NULL && spec->lora->next != NULL && n > 0; n--)
			spec->lora = spec->lora->next;
	}
	core_submit(in->core, spec);
}

static void
cancel(BackendModel *in, uint64_t id)
{
	/* replicas that do not have the request ignore this */
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		core_cancel(r->core, id);
}

static int64_t
next_due(BackendModel *in, int lane)
{
	const BackendModel *r = backend_replica(in, lane);

	return r != NULL && r->core != NULL ? core_next_due(r->core) : INT64_MAX;
}

static void
on_events(BackendModel *in, void (*fn) (void *ctx), void *ctx)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		core_on_events(r->core, fn, ctx);
}

static void
on_progress(BackendModel *in, int lane, void (*fn) (void *ctx, bool between), void *ctx)
{
	BackendModel *r = backend_replica(in, lane);

	if (r != NULL && r->core != NULL)
		core_on_progress(r->core, fn, ctx);
}

static WorkClass
work_class(BackendModel *in, int lane)
{
	const BackendModel *r = backend_replica(in, lane);

	return r != NULL && r->core != NULL ? core_work_class(r->core) : WORK_NONE;
}

/* Steps on devices and on ranks do not use the pool's threads, or use threads of other processes. */
static bool
use_threads(BackendModel *in, int part, int parts)
{
	int			n = in->pool != NULL ? kpool_nthreads(in->pool) : 1;
	int			first = (n * part + parts - 1) / parts;

	ASSERT(part >= 0 && part < parts);
	if (n < 2 || in->core == NULL || in->dev != NULL || in->ranks != NULL || in->next != NULL)
		return false;
	kpool_use(in->pool, first, parts == 1 ? 0 : (n * (part + 1) + parts - 1) / parts - first);
	return true;
}

static void
step(BackendModel *in, int lane, const Settings *s)
{
	/* the setting may have changed */
	ranks_set_timeout(s->hang_timeout_ms);
	core_step(backend_replica(in, lane)->core);
}

const Generator backend_core_generator = {
	.encode = encode,
	.encode_marked = encode_marked,
	.token_starts = token_starts,
	.chat = chat,
	.piece = piece,
	.decode = decode,
	.pool = pool,
	.labels = labels,
	.prepare_grammar = prepare_grammar,
	.normalize = normalize,
	.embed_width = embed_width,
	.token_rows = token_rows,
	.submit = submit,
	.cancel = cancel,
	.lanes = ranks_replicas,
	.use_threads = use_threads,
	.next_due = next_due,
	.step = step,
	.work_class = work_class,
	.on_events = on_events,
	.on_progress = on_progress,
};
