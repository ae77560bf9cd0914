/*
 * score.c
 *	  Scores of pairs of texts: llm_similarity, llm_score (rows of engine_func.def),
 *	  llm_score_batch, llm_score_pairs, and the aggregate llm_rerank_agg.
 *
 * Functions that need many scores for one value keep their requests in flight together (a Scorer,
 * with a pool of row_request.h).  llm_rerank is an SQL function over llm_score, so its pairs go
 * through the batch node.
 *
 * llm_rerank_agg scores each row when it arrives and keeps the best top_n: its memory is that of the
 * window and of those rows, however large the group is.  When nothing is in flight, its state can be
 * serialized and combined, so the workers of a parallel query have one each.
 *
 * Tests: tests/sql/18_score.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "base/assert.h"
#include "pg/batch/row_request.h"
#include "pg/util/encoding.h"
#include "pg/call/pooling.h"

PG_FUNCTION_INFO_V1(llm_score_batch);
PG_FUNCTION_INFO_V1(llm_score_pairs);
PG_FUNCTION_INFO_V1(llm_rerank_limit);
PG_FUNCTION_INFO_V1(llm_rerank_agg_step);
PG_FUNCTION_INFO_V1(llm_rerank_agg_combine);
PG_FUNCTION_INFO_V1(llm_rerank_agg_write);
PG_FUNCTION_INFO_V1(llm_rerank_agg_read);
PG_FUNCTION_INFO_V1(llm_rerank_agg_final);

/* ---- heads ---- */

/* llm_similarity(a, b, model, params, timeout_ms) */
void
similarity_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {POPT_model, POPT_PARAMS, POPT_timeout_ms, POPT_lora};
	static const PoolFunc f = {"score", POOL_SCORE, 2, lengthof(args), args, POOL_WANT_ALIKE};

	pool_head(r, fcinfo, &f);
}

/* llm_score(query, document, use_activation, instruction, truncate, model, params, timeout_ms, lora) */
#define SCORE_NARGS		9
#define SCORE_ARG_MODEL	5

void
score_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {
		POPT_use_activation, POPT_instruction, POPT_truncate, POPT_model, POPT_PARAMS, POPT_timeout_ms,
		POPT_lora
	};
	static const PoolFunc f = {"score", POOL_SCORE, 2, lengthof(args), args, 0};

	pool_head(r, fcinfo, &f);
}

/* ---- many scores ---- */

typedef struct Scorer
{
	MemoryContext tmp;			/* reset after each start */
	MemoryContext head_cxt;
	BatchPool  *pool;
	const EngineFunc *func;
	SqlRequest	request;		/* of the current pair: the head, then its input */
	int			head_len;
	text	   *model;			/* the head's model; NULL: none is named */
	FunctionCallInfo input;		/* the current pair, as the first arguments of llm_score */
} Scorer;

/* Make the head.  options: llm_score's arguments */
static void
make_head(Scorer *s, FunctionCallInfo options)
{
	MemoryContext old;
	bool		model = !options->args[SCORE_ARG_MODEL].isnull;

	MemoryContextReset(s->head_cxt);
	old = MemoryContextSwitchTo(s->head_cxt);
	memset(&s->request, 0, sizeof(s->request));
	initStringInfo(&s->request.body);
	s->func->head(&s->request, options);
	s->head_len = s->request.body.len;
	s->model = model ? DatumGetTextPCopy(options->args[SCORE_ARG_MODEL].value) : NULL;
	MemoryContextSwitchTo(old);
}

/* Make a scorer whose requests live as long as cxt. */
static Scorer *
make_scorer(MemoryContext cxt, FunctionCallInfo options)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Scorer	   *s = palloc0(sizeof(Scorer));

	s->tmp = AllocSetContextCreate(cxt, "LLM pair", ALLOCSET_DEFAULT_SIZES);
	s->head_cxt = AllocSetContextCreate(cxt, "LLM request head", ALLOCSET_SMALL_SIZES);
	s->pool = batch_pool_create(cxt);
	s->func = engine_func_find("llm_score");
	s->input = palloc0(SizeForFunctionCallInfo(2));
	InitFunctionCallInfoData(*s->input, NULL, 2, InvalidOid, NULL, NULL);
	MemoryContextSwitchTo(old);
	make_head(s, options);
	return s;
}

/* Start a pair's request; return NULL if no slot is free.  wait: wait for a slot. */
static BatchRequest *
start_pair(Scorer *s, Datum query, Datum document, bool wait)
{
	MemoryContext old = MemoryContextSwitchTo(s->tmp);
	BatchRequest *q;
	ErrorData  *refused;

	s->request.body.len = s->head_len;
	s->input->args[0] = (NullableDatum) {.value = query};
	s->input->args[1] = (NullableDatum) {.value = document};
	refused = engine_func_input(s->func, &s->request, s->input);
	q = refused ?
		batch_request_failed(s->pool, refused, on_error_forgives_input(s->request.on_error, refused)) :
		batch_request_start(s->pool, s->func, &s->request, NULL, wait);
	MemoryContextSwitchTo(old);
	MemoryContextReset(s->tmp);
	return q;
}

/* Wait for a score and release its request.  *isnull: an error was forgiven. */
static float
score_of(Scorer *s, BatchRequest *q, bool *isnull)
{
	ErrorData  *err;
	float		score = 0;

	while (!batch_request_poll(q))
		batch_pool_wait(s->pool, q, NULL);
	err = batch_request_error(q);
	*isnull = batch_request_forgive(q);
	if (err != NULL && !*isnull)
		ThrowErrorData(err);
	if (!*isnull)
		score = DatumGetFloat4(batch_request_value(q, FLOAT4OID, isnull));
	batch_request_release(q);
	return score;
}

typedef struct ScoreTexts
{
	Datum	   *elems;
	bool	   *nulls;
	int			n;
} ScoreTexts;

static ScoreTexts
texts_arg(FunctionCallInfo fcinfo, int arg)
{
	ScoreTexts	t;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), TEXTOID, -1, false, TYPALIGN_INT, &t.elems, &t.nulls, &t.n);
	if (t.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("at least one text element must be given")));
	return t;
}

static void
pair_context(void *arg)
{
	errcontext("pair %d", *(int *) arg + 1);
}

/*
 * Return real[] of a[i] and b[i], or of a[0] and all b; NULL where a text is NULL or an error is
 * forgiven.
 */
static Datum
score_texts(FunctionCallInfo fcinfo, const ScoreTexts *a, const ScoreTexts *b)
{
	Scorer	   *s = NULL;
	BatchRequest **q = palloc0(sizeof(BatchRequest *) * b->n);
	Datum	   *scores = palloc0(sizeof(Datum) * b->n);
	bool	   *nulls = palloc0(sizeof(bool) * b->n);
	int			started = 0;
	int			done = 0;
	int			n = b->n;
	int			lower = 1;
	ErrorContextCallback callback = {error_context_stack, pair_context, &done};

	for (int i = 0; i < b->n; i++)
	{
		nulls[i] = a->nulls[a->n > 1 ? i : 0] || b->nulls[i];
		/* if all pairs have a NULL, nothing else is checked: s stays NULL */
		if (!nulls[i] && s == NULL)
			s = make_scorer(CurrentMemoryContext, fcinfo);
	}
	error_context_stack = &callback;
	for (; done < b->n; done++)
	{
		for (; s && started < b->n && (started <= done || batch_pool_room(s->pool) > 0); started++)
		{
			if (nulls[started])
				continue;
			q[started] = start_pair(s, a->elems[a->n > 1 ? started : 0], b->elems[started], started == done);
			if (q[started] == NULL)
				break;
		}
		/* the next pair to be returned waits for a slot, so it has a request */
		ASSERT(nulls[done] || q[done] != NULL);
		if (!nulls[done])
			scores[done] = Float4GetDatum(score_of(s, q[done], &nulls[done]));
	}
	error_context_stack = callback.previous;
	return PointerGetDatum(construct_md_array(scores, nulls, 1, &n, &lower, FLOAT4OID, 4, true,
											  TYPALIGN_INT));
}

/* The scorer's memory is freed after each call, as a query may make many calls. */
static Datum
score_in_own_memory(FunctionCallInfo fcinfo, const ScoreTexts *a, const ScoreTexts *b)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext own = AllocSetContextCreate(caller, "LLM scores", ALLOCSET_DEFAULT_SIZES);
	ArrayType  *scores;
	ArrayType  *result;

	MemoryContextSwitchTo(own);
	scores = DatumGetArrayTypeP(score_texts(fcinfo, a, b));
	MemoryContextSwitchTo(caller);
	result = palloc(VARSIZE(scores));
	memcpy(result, scores, VARSIZE(scores));
	MemoryContextDelete(own);
	return PointerGetDatum(result);
}

/* llm_score_batch(query text, documents text[], ... like llm_score) */
Datum
llm_score_batch(PG_FUNCTION_ARGS)
{
	Datum		query;
	bool		is_null = false;
	ScoreTexts	a = {&query, &is_null, 1};
	ScoreTexts	b;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	query = PointerGetDatum(PG_GETARG_TEXT_PP(0));
	b = texts_arg(fcinfo, 1);
	PG_RETURN_DATUM(score_in_own_memory(fcinfo, &a, &b));
}

/* llm_score_pairs(a text[], b text[], ... like llm_score) */
Datum
llm_score_pairs(PG_FUNCTION_ARGS)
{
	ScoreTexts	a;
	ScoreTexts	b;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	a = texts_arg(fcinfo, 0);
	b = texts_arg(fcinfo, 1);
	if (a.n != b.n && a.n != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("input lengths must be either 1:1, 1:N or N:N"),
				 errdetail("a has %d elements, b has %d.", a.n, b.n)));
	PG_RETURN_DATUM(score_in_own_memory(fcinfo, &a, &b));
}

/* ---- llm_rerank ---- */

static void
check_top_n(int top_n)
{
	if (top_n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("top_n must not be negative"),
				 errdetail("parameter=top_n, value=%d", top_n),
				 errhint("0 means all documents.")));
}

/* vllm.rerank_limit(top_n int): the value of llm_rerank's LIMIT; NULL = all */
Datum
llm_rerank_limit(PG_FUNCTION_ARGS)
{
	int			top_n = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT32(0);

	check_top_n(top_n);
	if (top_n == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(top_n);
}

/* ---- llm_rerank_agg(query text, id "any", document text, top_n int, model text) ---- */

#define AGG_AHEAD	256			/* most pairs of a group in flight */
#define AGG_ARG_ID	2			/* argument 0 is the state */
#define AGG_ARG_TOP_N	4
#define AGG_ARG_MODEL	5

typedef struct Candidate
{
	char	   *id;				/* NULL: the id is NULL */
	char	   *document;
	float		score;
	BatchRequest *request;		/* while in flight */
} Candidate;

/* State that all groups of an aggregate share, in the transition function's fn_extra. */
typedef struct RankAgg
{
	Scorer	   *scorer;
	FmgrInfo	id_out;
} RankAgg;

typedef struct RankState
{
	MemoryContext cxt;
	int			top_n;			/* 0 = all; -1: not known before the first row */
	Scorer	   *scorer;			/* RankAgg's; NULL: no row was scored here */
	Candidate  *ahead;			/* a ring, in the order of rows */
	uint32		room;			/* size of the ring, a power of two */
	uint32		first;
	uint32		n_ahead;
	Candidate  *best;			/* top_n > 0: a heap, the worst on top */
	int			n,
				space;
} RankState;

/*
 * Return true if a comes before b.  Equal scores are ordered by id, so the result doesn't depend on
 * the order of rows.
 */
static bool
better(const Candidate *a, const Candidate *b)
{
	if (a->score != b->score)
		return a->score > b->score;
	if (a->id == NULL || b->id == NULL)
		return a->id != NULL && b->id == NULL;
	return strcmp(a->id, b->id) < 0;
}

static void
forget_candidate(Candidate *c)
{
	if (c->id)
		pfree(c->id);
	pfree(c->document);
}

static void
sift_down(Candidate *heap, int n)
{
	int			i = 0;

	for (;;)
	{
		int			worst = i;
		Candidate	tmp;

		for (int k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
			if (better(&heap[worst], &heap[k]))
				worst = k;
		if (worst == i)
			return;
		tmp = heap[i];
		heap[i] = heap[worst];
		heap[worst] = tmp;
		i = worst;
	}
}

/* Add a candidate with its score; its strings belong to the state. */
static void
rank(RankState *s, Candidate c)
{
	int			i;

	if (s->top_n > 0 && s->n == s->top_n)
	{
		if (!better(&c, &s->best[0]))
		{
			forget_candidate(&c);
			return;
		}
		forget_candidate(&s->best[0]);
		s->best[0] = c;
		sift_down(s->best, s->n);
		return;
	}
	if (s->n == s->space)
	{
		s->space = s->space ? s->space * 2 : 16;
		s->best = s->best ? repalloc_huge(s->best, sizeof(Candidate) * s->space) :
			MemoryContextAlloc(s->cxt, sizeof(Candidate) * s->space);
	}
	s->best[s->n++] = c;
	for (i = s->n - 1; i > 0 && better(&s->best[(i - 1) / 2], &s->best[i]); i = (i - 1) / 2)
	{
		Candidate	tmp = s->best[i];

		s->best[i] = s->best[(i - 1) / 2];
		s->best[(i - 1) / 2] = tmp;
	}
}

/* Wait for the score of the oldest pair in flight, and rank it. */
static void
take_first(RankState *s)
{
	Candidate	c;

	ASSERT(s->n_ahead > 0 && s->first < s->room);
	c = s->ahead[s->first];
	c.score = score_of(s->scorer, c.request, &(bool) {false});
	c.request = NULL;
	s->first = (s->first + 1) % s->room;
	s->n_ahead--;
	rank(s, c);
}

static void
take_all(RankState *s)
{
	while (s->n_ahead > 0)
		take_first(s);
}

static RankState *
make_state(MemoryContext cxt)
{
	RankState  *s = MemoryContextAllocZero(cxt, sizeof(RankState));

	s->cxt = cxt;
	s->top_n = -1;
	return s;
}

static void
set_top_n(RankState *s, int top_n)
{
	check_top_n(top_n);
	if (s->top_n >= 0 && s->top_n != top_n)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("top_n must be the same for all rows of a group"),
				 errdetail("%d and %d", s->top_n, top_n)));
	s->top_n = top_n;
}

/* Set the aggregate's model among llm_score's arguments; the others are not given. */
static void
fill_options(FunctionCallInfo call, FunctionCallInfo fcinfo)
{
	InitFunctionCallInfoData(*call, NULL, SCORE_NARGS, PG_GET_COLLATION(), NULL, NULL);
	for (int i = 0; i < SCORE_NARGS; i++)
		call->args[i] = (NullableDatum) {.isnull = true};
	if (PG_NARGS() > AGG_ARG_MODEL)
		call->args[SCORE_ARG_MODEL] = fcinfo->args[AGG_ARG_MODEL];
}

static bool
same_model(const Scorer *s, NullableDatum arg)
{
	text	   *t;

	if (arg.isnull || s->model == NULL)
		return arg.isnull && s->model == NULL;
	t = DatumGetTextPP(arg.value);
	return VARSIZE_ANY_EXHDR(t) == VARSIZE_ANY_EXHDR(s->model) &&
		memcmp(VARDATA_ANY(t), VARDATA_ANY(s->model), VARSIZE_ANY_EXHDR(t)) == 0;
}

static RankAgg *
shared_parts(FunctionCallInfo fcinfo)
{
	LOCAL_FCINFO(call, SCORE_NARGS);
	RankAgg    *agg = fcinfo->flinfo->fn_extra;
	MemoryContext cxt = fcinfo->flinfo->fn_mcxt;

	fill_options(call, fcinfo);
	if (agg == NULL)
	{
		Oid			out;
		bool		varlena;

		agg = MemoryContextAllocZero(cxt, sizeof(RankAgg));
		getTypeOutputInfo(get_fn_expr_argtype(fcinfo->flinfo, AGG_ARG_ID), &out, &varlena);
		fmgr_info_cxt(out, &agg->id_out, cxt);
		agg->scorer = make_scorer(cxt, call);
		fcinfo->flinfo->fn_extra = agg;
	}
	else if (!same_model(agg->scorer, call->args[SCORE_ARG_MODEL]))
		make_head(agg->scorer, call);
	/* the result is an order, so a missing score would have no place */
	agg->scorer->request.on_error = ON_ERROR_RAISE;
	return agg;
}

static void
grow_ring(RankState *s)
{
	uint32		room = s->room ? s->room * 2 : 8;
	Candidate  *ring = MemoryContextAlloc(s->cxt, sizeof(Candidate) * room);

	for (uint32 i = 0; i < s->n_ahead; i++)
		ring[i] = s->ahead[(s->first + i) % s->room];
	if (s->ahead)
		pfree(s->ahead);
	s->ahead = ring;
	s->room = room;
	s->first = 0;
}

/* Wait until one more request may start: for the group's own oldest, else for any. */
static void
make_room(RankState *s)
{
	while (s->n_ahead == AGG_AHEAD || batch_pool_room(s->scorer->pool) <= 0)
		if (s->n_ahead > 0)
			take_first(s);
		else
			batch_pool_wait(s->scorer->pool, NULL, NULL);
	if (s->n_ahead == s->room)
		grow_ring(s);
}

/* (state, query, id, document[, top_n[, model]]); rows without query or document are ignored */
Datum
llm_rerank_agg_step(PG_FUNCTION_ARGS)
{
	MemoryContext cxt;
	RankState  *s;
	RankAgg    *agg;
	Candidate	c = {0};

	if (!AggCheckCallContext(fcinfo, &cxt))
		elog(ERROR, "llm_rerank_agg_step called outside of an aggregate");
	s = PG_ARGISNULL(0) ? make_state(cxt) : (RankState *) PG_GETARG_POINTER(0);
	if (PG_ARGISNULL(1) || PG_ARGISNULL(3))
		PG_RETURN_POINTER(s);
	agg = shared_parts(fcinfo);
	s->scorer = agg->scorer;
	set_top_n(s, PG_NARGS() > AGG_ARG_TOP_N && !PG_ARGISNULL(AGG_ARG_TOP_N) ? PG_GETARG_INT32(AGG_ARG_TOP_N) :
			  0);
	make_room(s);
	while ((c.request = start_pair(s->scorer, PG_GETARG_DATUM(1), PG_GETARG_DATUM(3), s->n_ahead == 0)) ==
		   NULL)
		take_first(s);
	if (!PG_ARGISNULL(AGG_ARG_ID))
		c.id = MemoryContextStrdup(s->cxt, OutputFunctionCall(&agg->id_out, PG_GETARG_DATUM(AGG_ARG_ID)));
	c.document = MemoryContextStrdup(s->cxt, text_to_cstring(PG_GETARG_TEXT_PP(3)));
	ASSERT(s->n_ahead < s->room);
	s->ahead[(s->first + s->n_ahead++) % s->room] = c;
	PG_RETURN_POINTER(s);
}

/* Add the second state to the first, which is created if there is none. */
Datum
llm_rerank_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext cxt;
	MemoryContext old;
	RankState  *to = PG_ARGISNULL(0) ? NULL : (RankState *) PG_GETARG_POINTER(0);
	RankState  *from = PG_ARGISNULL(1) ? NULL : (RankState *) PG_GETARG_POINTER(1);

	if (!AggCheckCallContext(fcinfo, &cxt))
		elog(ERROR, "llm_rerank_agg_combine called outside of an aggregate");
	if (to == NULL)
		to = make_state(cxt);
	if (from == NULL)
		PG_RETURN_POINTER(to);
	take_all(to);
	take_all(from);
	if (from->top_n >= 0)
		set_top_n(to, from->top_n);
	old = MemoryContextSwitchTo(to->cxt);
	for (int i = 0; i < from->n; i++)
	{
		Candidate	c = from->best[i];

		c.id = c.id ? pstrdup(c.id) : NULL;
		c.document = pstrdup(c.document);
		rank(to, c);
	}
	MemoryContextSwitchTo(old);
	PG_RETURN_POINTER(to);
}

Datum
llm_rerank_agg_write(PG_FUNCTION_ARGS)
{
	RankState  *s = (RankState *) PG_GETARG_POINTER(0);
	StringInfoData buf;

	take_all(s);
	pq_begintypsend(&buf);
	pq_sendint32(&buf, s->top_n);
	pq_sendint32(&buf, s->n);
	for (int i = 0; i < s->n; i++)
	{
		pq_sendfloat4(&buf, s->best[i].score);
		state_put_string(&buf, s->best[i].id);
		state_put_string(&buf, s->best[i].document);
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
llm_rerank_agg_read(PG_FUNCTION_ARGS)
{
	bytea	   *b = PG_GETARG_BYTEA_PP(0);
	StringInfoData buf;
	RankState  *s = make_state(CurrentMemoryContext);
	int			n;

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
	s->top_n = pq_getmsgint(&buf, 4);
	n = pq_getmsgint(&buf, 4);
	for (int i = 0; i < n; i++)
	{
		Candidate	c = {.score = pq_getmsgfloat4(&buf)};

		c.id = state_get_string(&buf);
		c.document = state_get_string(&buf);
		rank(s, c);
	}
	pq_getmsgend(&buf);
	PG_RETURN_POINTER(s);
}

static int
compare_candidates(const void *a, const void *b)
{
	return better(a, b) ? -1 : better(b, a) ? 1 : 0;
}

/* llm_ranked(id, relevance_score, document)[], the best first; NULL if there are no rows */
Datum
llm_rerank_agg_final(PG_FUNCTION_ARGS)
{
	RankState  *s = PG_ARGISNULL(0) ? NULL : (RankState *) PG_GETARG_POINTER(0);
	Oid			elemtype = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
	Candidate  *sorted;
	TupleDesc	desc;
	Datum	   *rows;

	if (s == NULL)
		PG_RETURN_NULL();
	take_all(s);
	if (s->n == 0)
		PG_RETURN_NULL();
	desc = lookup_rowtype_tupdesc(elemtype, -1);
	/* the final function may run again on the same state, so it must stay a heap */
	sorted = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Candidate) * s->n);
	memcpy(sorted, s->best, sizeof(Candidate) * s->n);
	qsort(sorted, s->n, sizeof(Candidate), compare_candidates);
	rows = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Datum) * s->n);
	for (int i = 0; i < s->n; i++)
	{
		Datum		values[3] = {0};
		bool		nulls[3] = {sorted[i].id == NULL, false, false};

		if (sorted[i].id)
			values[0] = CStringGetTextDatum(sorted[i].id);
		values[1] = Float4GetDatum(sorted[i].score);
		values[2] = CStringGetTextDatum(sorted[i].document);
		rows[i] = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	}
	ReleaseTupleDesc(desc);
	PG_RETURN_ARRAYTYPE_P(construct_array(rows, s->n, elemtype, -1, false, TYPALIGN_DOUBLE));
}
