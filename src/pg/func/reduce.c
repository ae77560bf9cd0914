/*
 * reduce.c
 *	  llm_reduce: one output for an instruction over many texts, in as many levels as the
 *	  model's context requires (a row of engine_func.def).
 *
 * The texts are packed, in their order, into as few prompts as possible: a chat of the instruction
 * (system) and the texts separated by empty lines (user).  While there is more than one prompt, all
 * prompts of the level are requested at once, and their outputs are the texts of the next level.  The
 * last prompt is the request itself.  So the batch node has the last level of many rows in flight
 * together, and all requests of rows that fit into one prompt, as most do.
 *
 * The tree depends only on the texts' order and number of tokens, the model's context and max_tokens,
 * not on timing.  Each level must at least halve the number of prompts, or it is an error.
 *
 * All memory is in a context below the caller's; its end cancels the requests in flight.
 *
 * Tests: tests/sql/22_agg.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/assert.h"
#include "pg/batch/row_request.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_reduce_texts);

#define ARG_INPUTS		0
#define ARG_INSTRUCTION	1
#define ARG_COMBINE		2
#define ARG_SPLIT		3

#define SEPARATOR		"\n\n"

/* fraction of the context (1/4) that is left for an output without a limit of its own */
#define ANSWER_SHARE	4

/* tokens that a prompt may have in addition to those of its parts */
#define MARGIN			4

typedef struct Reduce
{
	SqlRequest	head;			/* for the prompts of every level */
	FunctionCallInfo fcinfo;
	BatchPool  *pool;
	const EngineFunc *generate;
	ModelRow   *model;
	text	   *instruction;	/* of the current level */
	int			answer;			/* most tokens of an output */
	int			context;		/* the model's */
	text	  **parts;			/* of the current level */
	int		   *tokens;			/* of each part, with a separator */
	int			n;
} Reduce;

/* ---- many requests at once ---- */

typedef void (*MakeRequest) (Reduce *d, int i, SqlRequest *r);

/* Make n requests and return their values in order.  Return false and the first error in *err. */
static bool
call_all(Reduce *d, const EngineFunc *f, int n, MakeRequest make, Datum *values, ErrorData **err)
{
	BatchRequest **q = palloc0(sizeof(BatchRequest *) * n);
	MemoryContext tmp = AllocSetContextCreate(CurrentMemoryContext, "LLM request", ALLOCSET_DEFAULT_SIZES);
	int			started = 0,
				done = 0;

	while (done < n)
	{
		while (started < n && (started == done || batch_pool_room(d->pool) > 0))
		{
			SqlRequest	r = {0};
			MemoryContext old = MemoryContextSwitchTo(tmp);

			initStringInfo(&r.body);
			make(d, started, &r);
			/* no part may be missing, so errors are never NULL here */
			r.on_error = ON_ERROR_RAISE;
			q[started] = batch_request_start(d->pool, f, &r, NULL, started == done);
			MemoryContextSwitchTo(old);
			MemoryContextReset(tmp);
			if (q[started] == NULL)
				break;
			started++;
		}
		/* the first one that is not done waited for a slot, so it has one */
		ASSERT(done < started && started <= n);
		batch_pool_flush();
		if (!batch_request_poll(q[done]))
		{
			batch_pool_wait(d->pool, q[done], NULL);
			continue;
		}
		*err = batch_request_error(q[done]);
		if (*err != NULL)
			return false;
		values[done] = batch_request_value(q[done], TEXTOID, &(bool) {false});
		batch_request_release(q[done]);
		done++;
	}
	MemoryContextDelete(tmp);
	pfree(q);
	return true;
}

/* ---- counting tokens ---- */

typedef struct ReduceCounted
{
	int			tokens;
	int			context;		/* the model's */
} ReduceCounted;

static Datum
counted_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ReduceCounted *c = palloc(sizeof(ReduceCounted));

	c->tokens = (int) Max(reply->count, 0);
	c->context = (int) Max(reply->max_model_len, 0);
	*isnull = false;
	return PointerGetDatum(c);
}

static const EngineFunc count_func = {"tokens", 1, NULL, NULL, counted_result};

static void
tokenizer_head(Reduce *d, SqlRequest *r, WireKind kind)
{
	WireOut		out = vclient_out(&r->body);

	r->kind = kind;
	r->model = d->model->name;
	r->deterministic = true;
	catalog_put(d->model, &out);
}

/* Count the tokens of a prompt without its texts. */
static void
count_frame(Reduce *d, int i, SqlRequest *r)
{
	WireOut		out = vclient_out(&r->body);

	tokenizer_head(d, r, WK_TOKENIZE);
	wire_put_int(&out, WTAG_WANT_IDS, false);
	chat_put_template(r, d->fcinfo);
	chat_put_turn(r, d->instruction, "", 0);
}

static void
count_part(Reduce *d, int i, SqlRequest *r)
{
	WireOut		out = vclient_out(&r->body);
	StringInfoData s;

	tokenizer_head(d, r, WK_TOKENIZE);
	initStringInfo(&s);
	appendBinaryStringInfo(&s, VARDATA_ANY(d->parts[i]), VARSIZE_ANY_EXHDR(d->parts[i]));
	appendStringInfoString(&s, SEPARATOR);
	wire_put_int(&out, WTAG_ADD_SPECIAL, false);
	wire_put_int(&out, WTAG_WANT_IDS, false);
	wire_put_text(&out, WTAG_PROMPT, s.data, s.len);
}

static bool
count_parts(Reduce *d, ErrorData **err)
{
	Datum	   *counted = palloc(sizeof(Datum) * d->n);

	if (!call_all(d, &count_func, d->n, count_part, counted, err))
		return false;
	d->tokens = palloc(sizeof(int) * d->n);
	for (int i = 0; i < d->n; i++)
		d->tokens[i] = ((ReduceCounted *) DatumGetPointer(counted[i]))->tokens;
	return true;
}

/* ---- refusals ---- */

static ErrorData *
refuse(const char *message, const char *detail, const char *hint)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	e->message = pstrdup(message);
	e->detail = pstrdup(detail);
	e->hint = pstrdup(hint);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

static ErrorData *
refuse_part(const Reduce *d, int i, int room)
{
	return refuse(psprintf("text %d is too long for the model's context", i + 1),
				  psprintf("It has %d tokens; the context of %d tokens has room for %d beside the "
						   "instruction and an answer of %d.", d->tokens[i], d->context, room, d->answer),
				  "Cut texts that are too long with split => true, or beforehand with llm_chunk_text().");
}

static ErrorData *
refuse_answers(const Reduce *d, int room)
{
	return refuse("the model's context is too short to reduce answers",
				  psprintf("Two answers of %d tokens don't fit into the %d that are left of a context of %d.",
						   d->answer, Max(room, 0), d->context),
				  "Choose a smaller max_tokens.");
}

/* The outputs are longer than expected. */
static ErrorData *
refuse_progress(const Reduce *d)
{
	return refuse("the next level of the reduction would have as many texts as this one",
				  psprintf("Answers of at most %d tokens have more tokens when they are tokenized again, in "
						   "a context of %d.", d->answer, d->context),
				  "Choose a smaller max_tokens.");
}

/* ---- splitting long parts ---- */

typedef struct Splitting
{
	Reduce		d;				/* must be the first member; its parts are the long ones */
	int			room;
} Splitting;

static void
make_split(Reduce *d, int i, SqlRequest *r)
{
	WireOut		out = vclient_out(&r->body);

	tokenizer_head(d, r, WK_CHUNK);
	wire_put_str(&out, WTAG_CHUNK_METHOD, "recursive", strlen("recursive"));
	wire_put_int(&out, WTAG_CHUNK_SIZE, ((Splitting *) d)->room);
	wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(d->parts[i]), VARSIZE_ANY_EXHDR(d->parts[i]));
}

/* Split each part that is too long into several. */
static bool
split_parts(Reduce *d, int room, ErrorData **err)
{
	Splitting	s = {.d = *d,.room = Max(room - 2 * MARGIN, 1)};
	Datum	   *spans;
	List	   *parts = NIL;
	ListCell   *lc;
	int			n_long = 0;

	s.d.parts = palloc(sizeof(text *) * d->n);
	for (int i = 0; i < d->n; i++)
		if (d->tokens[i] > room)
			s.d.parts[n_long++] = d->parts[i];
	if (n_long == 0)
		return true;
	spans = palloc(sizeof(Datum) * n_long);
	if (!call_all(&s.d, engine_func_find("llm_chunk_spans"), n_long, make_split, spans, err))
		return false;
	n_long = 0;
	for (int i = 0; i < d->n; i++)
		if (d->tokens[i] > room)
			parts = list_concat(parts, chunk_texts(d->parts[i], DatumGetArrayTypeP(spans[n_long++])));
		else
			parts = lappend(parts, d->parts[i]);
	d->n = 0;
	d->parts = palloc(sizeof(text *) * Max(list_length(parts), 1));
	foreach(lc, parts)
		d->parts[d->n++] = lfirst(lc);
	return count_parts(d, err);
}

/* ---- levels ---- */

/* Return the end of the prompt that begins with part `from`.  room: tokens for parts */
static int
prompt_end(const Reduce *d, int from, int room)
{
	int64		sum = 0;
	int			i = from;

	while (i < d->n && (i == from || sum + d->tokens[i] <= room))
		sum += d->tokens[i++];
	return i;
}

static void
put_parts(const Reduce *d, SqlRequest *r, int from, int to)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = from; i < to; i++)
	{
		if (i > from)
			appendStringInfoString(&s, SEPARATOR);
		appendBinaryStringInfo(&s, VARDATA_ANY(d->parts[i]), VARSIZE_ANY_EXHDR(d->parts[i]));
	}
	chat_put_turn(r, d->instruction, s.data, s.len);
	pfree(s.data);
}

/* The prompts of a level, by their first parts. */
typedef struct ReduceLevel
{
	Reduce		d;				/* must be the first member */
	int		   *begin;			/* n + 1 entries */
	int			n;
} ReduceLevel;

static void
make_prompt(Reduce *d, int i, SqlRequest *r)
{
	const ReduceLevel *level = (ReduceLevel *) d;

	r->kind = d->head.kind;
	r->model = d->head.model;
	r->timeout_ms = d->head.timeout_ms;
	r->deterministic = d->head.deterministic;
	appendBinaryStringInfo(&r->body, d->head.body.data, d->head.body.len);
	put_parts(d, r, level->begin[i], level->begin[i + 1]);
}

/*
 * Pack the parts into prompts.  If there is only one, set *done; else replace the parts by the
 * prompts' outputs.
 */
static bool
reduce_level(Reduce *d, int room, bool *done, ErrorData **err)
{
	ReduceLevel	level = {.d = *d,.begin = palloc(sizeof(int) * (d->n + 1))};
	Datum	   *answers;

	level.begin[0] = 0;
	while (level.begin[level.n] < d->n)
	{
		level.begin[level.n + 1] = prompt_end(d, level.begin[level.n], room);
		/* else the level would have prompts without end */
		ASSERT(level.begin[level.n + 1] > level.begin[level.n]);
		level.n++;
	}
	*done = level.n <= 1;
	if (*done)
		return true;
	if (room < 2 * (d->answer + MARGIN))
	{
		*err = refuse_answers(d, room);
		return false;
	}
	answers = palloc(sizeof(Datum) * level.n);
	if (!call_all(&level.d, d->generate, level.n, make_prompt, answers, err))
		return false;
	d->parts = palloc(sizeof(text *) * level.n);
	for (int i = 0; i < level.n; i++)
		d->parts[i] = DatumGetTextPP(answers[i]);
	d->n = level.n;
	return true;
}

/* Compute the room in the context for texts, besides the instruction and the output. */
static bool
find_room(Reduce *d, int *room, ErrorData **err)
{
	Datum		frame;
	ReduceCounted *c;

	if (!call_all(d, &count_func, 1, count_frame, &frame, err))
		return false;
	c = (ReduceCounted *) DatumGetPointer(frame);
	d->context = c->context;
	if (d->answer == 0)
		d->answer = Max(c->context / ANSWER_SHARE, 1);
	*room = c->context - c->tokens - d->answer - MARGIN;
	return true;
}

static bool
reduce(Reduce *d, bool split, ErrorData **err)
{
	bool		done = false;
	int			room;

	for (int level = 0; !done; level++)
	{
		int			before = d->n;

		if (level == 1 && !d->fcinfo->args[ARG_COMBINE].isnull)
			d->instruction = DatumGetTextPP(d->fcinfo->args[ARG_COMBINE].value);
		if (!find_room(d, &room, err) || !count_parts(d, err))
			return false;
		if (split && level == 0 && room > 2 * MARGIN && !split_parts(d, room, err))
			return false;
		for (int i = 0; i < d->n; i++)
			if (d->tokens[i] > room)
			{
				*err = level == 0 ? refuse_part(d, i, Max(room, 0)) : refuse_progress(d);
				return false;
			}
		if (!reduce_level(d, room, &done, err))
			return false;
		if (!done && level > 0 && d->n >= before)
		{
			*err = refuse_progress(d);
			return false;
		}
	}
	return true;
}

/* ---- the row of engine_func.def ---- */

/*
 * vllm.reduce(inputs text[], instruction text, combine text, split bool, generation options, chat_template,
 * kwargs)
 */
void
reduce_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(ARG_INSTRUCTION))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("instruction must not be null")));
	generate_head_with(r, fcinfo, 0);
	chat_put_template(r, fcinfo);
}

/* Return max_tokens of the head; 0: absent. */
static int
head_max_tokens(const SqlRequest *r)
{
	WireIn		in = {r->body.data, r->body.data + r->body.len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_MAX_TOKENS)
			return (int) Min(f.i, INT_MAX / 4);
	return 0;
}

ErrorData *
reduce_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(old, "LLM reduce", ALLOCSET_DEFAULT_SIZES);
	ErrorData  *err = NULL;
	Datum	   *elems;
	bool	   *nulls;
	Reduce		d = {.fcinfo = fcinfo};

	MemoryContextSwitchTo(cxt);
	initStringInfo(&d.head.body);
	err = engine_func_head(engine_func_find("llm_reduce"), &d.head, fcinfo);
	if (err != NULL)
	{
		MemoryContextSwitchTo(old);
		return err;
	}
	d.answer = head_max_tokens(&d.head);
	d.pool = batch_pool_create(cxt);
	d.generate = engine_func_find("llm_generate");
	d.model = catalog_model_for_use(d.head.model);
	d.instruction = PG_GETARG_TEXT_PP(ARG_INSTRUCTION);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(ARG_INPUTS), TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls,
					  &d.n);
	d.parts = palloc(sizeof(text *) * Max(d.n, 1));
	for (int i = 0; i < d.n; i++)
		d.parts[i] = nulls[i] ? cstring_to_text("") : DatumGetTextPP(elems[i]);
	if (!reduce(&d, !PG_ARGISNULL(ARG_SPLIT) && PG_GETARG_BOOL(ARG_SPLIT), &err))
	{
		/* err is in cxt, which lives as long as the caller's context */
		MemoryContextSwitchTo(old);
		return err;
	}
	MemoryContextSwitchTo(old);
	put_parts(&d, r, 0, d.n);
	MemoryContextDelete(cxt);
	return NULL;
}

/* vllm.reduce_texts(inputs text[]): the texts that are not NULL, in order; NULL if there are none */
Datum
llm_reduce_texts(PG_FUNCTION_ARGS)
{
	ArrayType  *a = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *elems;
	bool	   *nulls;
	int			n,
				kept = 0;

	if (ARR_NDIM(a) == 1 && !array_contains_nulls(a))
		PG_RETURN_ARRAYTYPE_P(a);
	deconstruct_array(a, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			elems[kept++] = elems[i];
	if (kept == 0)
		PG_RETURN_NULL();
	PG_RETURN_ARRAYTYPE_P(construct_array(elems, kept, TEXTOID, -1, false, TYPALIGN_INT));
}
