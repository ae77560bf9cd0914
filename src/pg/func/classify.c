/*
 * classify.c
 *	  Labels and rewards: llm_class, llm_classify_probs, llm_reward, llm_reward_tokens,
 *	  llm_reward_steps, and the parts of llm_classify and llm_token_classify (rows of
 *	  engine_func.def).
 *
 * The two that return rows are SQL functions which the planner inlines: llm_classify unnests
 * vllm.classify(), an array of llm_label; llm_token_classify calls vllm.token_labels() on the result
 * of vllm.token_scores().  So the engine's part is a plain call, which the batch node can take.
 *
 * GROUPS.  vllm.token_labels() groups tokens to words and words to entities, with the strategies of
 * Hugging Face's token-classification pipeline: none, simple, first, average, max.  A token continues
 * a word if it directly follows the previous token and there is no space, punctuation or ideograph in
 * between; so no tokenizer is needed.
 *
 * Tests: tests/sql/19_classify.sql.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "pg/call/pooling.h"

PG_FUNCTION_INFO_V1(llm_token_labels);

/* ---- heads ---- */

/* vllm.classify(input, use_activation, top, truncate, model, params, timeout_ms) */
#define CLASSIFY_ARG_TOP	2

void
classify_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {POPT_use_activation, POPT_OTHER, POPT_truncate, POPT_model, POPT_PARAMS,
								 POPT_timeout_ms, POPT_lora};
	static const PoolFunc f = {"classify", POOL_CLASSIFY, 1, lengthof(args), args, POOL_WANT_LABELS};

	if (!PG_ARGISNULL(CLASSIFY_ARG_TOP) && PG_GETARG_INT32(CLASSIFY_ARG_TOP) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("top must be at least 1"),
				 errdetail("parameter=top, value=%d", PG_GETARG_INT32(CLASSIFY_ARG_TOP))));
	pool_head(r, fcinfo, &f);
}

/* llm_class(input, truncate, model, params, timeout_ms) */
void
class_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {POPT_truncate, POPT_model, POPT_PARAMS, POPT_timeout_ms, POPT_lora};
	static const PoolFunc f = {"classify", POOL_CLASSIFY, 1, lengthof(args), args, POOL_WANT_LABELS};

	pool_head(r, fcinfo, &f);
}

/*
 * llm_classify_probs(input, use_activation, truncate, model, params, timeout_ms) and the reward
 * functions
 */
static const uint8 plain_args[] = {POPT_use_activation, POPT_truncate, POPT_model, POPT_PARAMS,
								   POPT_timeout_ms, POPT_lora};

void
classify_probs_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const PoolFunc f = {"classify", POOL_CLASSIFY, 1, lengthof(plain_args), plain_args, 0};

	pool_head(r, fcinfo, &f);
}

void
reward_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const PoolFunc f = {"reward", POOL_REWARD, 1, lengthof(plain_args), plain_args, 0};

	pool_head(r, fcinfo, &f);
}

/* Return a reward for each token: vLLM's token_classify task. */
void
reward_tokens_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const PoolFunc f = {"token_classify", POOL_CLASSIFY, 1, lengthof(plain_args), plain_args, 0};

	pool_head(r, fcinfo, &f);
}

/* llm_reward_steps(input, step_tag_id, returned_token_ids, use_activation, ...) */
void
reward_steps_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {
		POPT_step_tag_id, POPT_returned_token_ids, POPT_use_activation, POPT_truncate, POPT_model,
		POPT_PARAMS, POPT_timeout_ms, POPT_lora
	};
	static const PoolFunc f = {"reward", POOL_REWARD, 1, lengthof(args), args, 0};

	if (PG_ARGISNULL(f.first))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step_tag_id is required"),
				 errdetail("parameter=step_tag_id, value=NULL"),
				 errhint("It is the id of the token that ends a step; llm_tokenize() returns it.")));
	pool_head(r, fcinfo, &f);
}

/* vllm.token_scores(input, aggregation, truncate, model, params, timeout_ms) */
#define TOKENS_ARG_AGGREGATION	1

typedef enum Aggregation
{
	AGG_NONE, AGG_SIMPLE, AGG_FIRST, AGG_AVERAGE, AGG_MAX
} Aggregation;

static Aggregation
aggregation_arg(FunctionCallInfo fcinfo, int arg)
{
	static const char *const names[] = {"none", "simple", "first", "average", "max"};
	char	   *name;

	if (PG_ARGISNULL(arg))
		return AGG_NONE;
	name = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	for (int i = 0; i < (int) lengthof(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (Aggregation) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("aggregation must be none, simple, first, average or max"),
			 errdetail("parameter=aggregation, value=%s", quote_literal_cstr(name))));
	return AGG_NONE;			/* not reached */
}

void
token_classify_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {POPT_OTHER, POPT_truncate, POPT_model, POPT_PARAMS, POPT_timeout_ms,
								 POPT_lora};
	static const PoolFunc f = {"token_classify", POOL_CLASSIFY, 1, lengthof(args), args,
							   POOL_WANT_LABELS | POOL_WANT_OFFSETS};

	(void) aggregation_arg(fcinfo, TOKENS_ARG_AGGREGATION);
	pool_head(r, fcinfo, &f);
}

/* ---- results of a text ---- */

typedef struct ClassifyRanked
{
	int			index;
	float		prob;
} ClassifyRanked;

static int
more_probable(const void *a, const void *b)
{
	const ClassifyRanked *x = a;
	const ClassifyRanked *y = b;

	if (x->prob != y->prob)
		return x->prob > y->prob ? -1 : 1;
	return x->index - y->index;
}

/* Return one number for each step, or a row of the numbers that were asked for. */
Datum
reward_steps_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_floats(reply, reply_width(reply) > 1);
}

/* llm_label(index, label, prob)[], the most probable first */
Datum
classify_result(const Reply *reply, Oid rettype, bool *isnull)
{
	Oid			elemtype = get_element_type(rettype);
	TupleDesc	desc = lookup_rowtype_tupdesc(elemtype, -1);
	Datum	   *labels = reply_labels(reply);
	int			n = (int) reply->floats.n;
	ClassifyRanked *ranked = palloc(sizeof(ClassifyRanked) * Max(n, 1));
	float	   *probs = palloc(sizeof(float) * Max(n, 1));
	Datum	   *rows = palloc(sizeof(Datum) * Max(n, 1));

	if (reply->rows != 1 || desc->natts != 3)
		elog(ERROR, "vllm.classify() does not return llm_label[]");
	if (n > 0)
		wire_floats(&reply->floats, probs);
	for (int i = 0; i < n; i++)
		ranked[i] = (ClassifyRanked) {i, probs[i]};
	qsort(ranked, n, sizeof(ClassifyRanked), more_probable);
	for (int i = 0; i < n; i++)
	{
		Datum		values[3] = {Int32GetDatum(ranked[i].index), labels[ranked[i].index],
								 Float4GetDatum(ranked[i].prob)};
		bool		nulls[3] = {0};

		rows[i] = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	}
	ReleaseTupleDesc(desc);
	*isnull = false;
	return PointerGetDatum(construct_array(rows, n, elemtype, -1, false, TYPALIGN_DOUBLE));
}

/* Return the label with the greatest number. */
Datum
class_result(const Reply *reply, Oid rettype, bool *isnull)
{
	Datum	   *labels = reply_labels(reply);
	int			n = reply_width(reply);
	float	   *probs = palloc(sizeof(float) * Max(reply->floats.n, 1));
	int			best = 0;

	if (n == 0)
		elog(ERROR, "the engine's answer has no labels");
	wire_floats(&reply->floats, probs);
	for (int i = 1; i < n; i++)
		if (probs[i] > probs[best])
			best = i;
	*isnull = false;
	return labels[best];
}

/* vllm.token_scores(labels text[], scores real[], offsets int[]) */
Datum
token_classify_result(const Reply *reply, Oid rettype, bool *isnull)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(rettype, -1);
	Datum	   *labels = reply_labels(reply);
	int			n = reply_width(reply);
	Datum		values[3];
	bool		nulls[3] = {0};
	Datum		row;

	if (reply->offsets.n != 2 * (size_t) reply->rows || desc->natts != 3)
		elog(ERROR, "the engine's answer has %zu offsets for " INT64_FORMAT " tokens", reply->offsets.n,
			 reply->rows);
	values[0] = PointerGetDatum(construct_array(labels, n, TEXTOID, -1, false, TYPALIGN_INT));
	values[1] = reply_floats(reply, true);
	values[2] = reply_offsets(reply);
	row = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	ReleaseTupleDesc(desc);
	*isnull = false;
	return row;
}

/* ---- tokens to words to entities ---- */

typedef struct Entity
{
	int			pos;			/* position of its first token */
	int			from,
				to;				/* in characters */
	int			label;
	double		score;
} Entity;

typedef struct ClassifyTokens
{
	const text *input;
	int		   *at;				/* byte offset of each character, NULL: each character is one byte */
	int			n_chars;
	Datum	   *labels;
	int			n_labels;
	const float *scores;		/* [n][n_labels] */
	const int32 *offsets;		/* [n][2] */
	int			n;
} ClassifyTokens;

static int
byte_of(const ClassifyTokens *t, int c)
{
	c = Max(0, Min(c, t->n_chars));
	return t->at ? t->at[c] : c;
}

/*
 * The engine has read the text as UTF-8.  So a text of SQL_ASCII counts as UTF-8 here, although SQL
 * counts its bytes.
 */
static int
text_encoding(void)
{
	return GetDatabaseEncoding() == PG_SQL_ASCII ? PG_UTF8 : GetDatabaseEncoding();
}

static void
find_characters(ClassifyTokens *t)
{
	const char *s = VARDATA_ANY(t->input);
	int			len = VARSIZE_ANY_EXHDR(t->input);
	int			c = 0;

	t->n_chars = len;
	if (pg_encoding_max_length(text_encoding()) == 1)
		return;
	t->at = palloc(sizeof(int) * (len + 1));
	for (int i = 0; i < len; i += pg_encoding_mblen(text_encoding(), s + i))
		t->at[c++] = i;
	t->at[c] = len;
	t->n_chars = c;
}

/* Return true for a character that is not part of a word: space, punctuation, an ideograph. */
static bool
stands_alone(const ClassifyTokens *t, int c)
{
	const unsigned char *s = (const unsigned char *) VARDATA_ANY(t->input) + byte_of(t, c);
	pg_wchar	w;

	if (c < 0 || c >= t->n_chars)
		return true;
	if (*s < 0x80)
		return ispunct(*s) || isspace(*s);
	if (text_encoding() != PG_UTF8 || byte_of(t, c + 1) - byte_of(t, c) < pg_encoding_mblen(PG_UTF8,
			(const char *) s))
		return false;
	w = utf8_to_unicode(s);
	return (w >= 0x3400 && w <= 0x4DBF) || (w >= 0x4E00 && w <= 0x9FFF) || (w >= 0xF900 && w <= 0xFAFF) ||
		(w >= 0x20000 && w <= 0x2FA1F) || (w >= 0x2000 && w <= 0x206F) || (w >= 0x3000 && w <= 0x303F);
}

/* Return true if token i belongs to the word that ends at character `to`. */
static bool
continues(const ClassifyTokens *t, int i, int to)
{
	int			from = t->offsets[2 * i];

	return from == to && !stands_alone(t, from) && !stands_alone(t, from - 1);
}

static int
best_label(const ClassifyTokens *t, const double *scores)
{
	int			best = 0;

	for (int j = 1; j < t->n_labels; j++)
		if (scores[j] > scores[best])
			best = j;
	return best;
}

static void
token_scores(const ClassifyTokens *t, int i, double *scores)
{
	for (int j = 0; j < t->n_labels; j++)
		scores[j] = t->scores[(Size) i * t->n_labels + j];
}

/* Compute a word's label and score from its tokens i .. end - 1. */
static void
judge_word(const ClassifyTokens *t, Aggregation how, int i, int end, double *scores, double *other, Entity *e)
{
	token_scores(t, i, scores);
	for (int k = i + 1; k < end && how != AGG_FIRST; k++)
	{
		token_scores(t, k, other);
		if (how == AGG_AVERAGE)
			for (int j = 0; j < t->n_labels; j++)
				scores[j] += other[j];
		else if (other[best_label(t, other)] > scores[best_label(t, scores)])
			memcpy(scores, other, sizeof(double) * t->n_labels);
	}
	e->label = best_label(t, scores);
	e->score = scores[e->label] / (how == AGG_AVERAGE ? end - i : 1);
}

/* Make one entity for each token or word; special tokens have no position in the text. */
static int
find_words(const ClassifyTokens *t, Aggregation how, Entity *e)
{
	double	   *scores = palloc(sizeof(double) * Max(t->n_labels, 1));
	double	   *other = palloc(sizeof(double) * Max(t->n_labels, 1));
	int			n = 0;

	for (int i = 0; i < t->n;)
	{
		int			end = i + 1;
		int			to = t->offsets[2 * i + 1];

		if (t->offsets[2 * i] >= to)
		{
			i++;
			continue;
		}
		if (how >= AGG_FIRST)
			for (; end < t->n && t->offsets[2 * end] < t->offsets[2 * end + 1] && continues(t, end, to);
				 end++)
				to = t->offsets[2 * end + 1];
		e[n] = (Entity) {.pos = i,.from = t->offsets[2 * i],.to = to};
		judge_word(t, how, i, end, scores, other, &e[n]);
		n++;
		i = end;
	}
	return n;
}

/* Return the label without B- and I-, and whether it begins an entity. */
static text *
tag_of(const ClassifyTokens *t, int label, bool *begins)
{
	text	   *l = DatumGetTextPP(t->labels[label]);
	const char *s = VARDATA_ANY(l);
	int			n = VARSIZE_ANY_EXHDR(l);

	*begins = n > 2 && memcmp(s, "B-", 2) == 0;
	if (*begins || (n > 2 && memcmp(s, "I-", 2) == 0))
		return cstring_to_text_with_len(s + 2, n - 2);
	return l;
}

static bool
same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static void
put_entity(const ClassifyTokens *t, const Entity *e, text *label, double score, ReturnSetInfo *rsinfo)
{
	int			from = byte_of(t, e->from);
	int			to = byte_of(t, e->to);
	Datum		values[6];
	bool		nulls[6] = {0};

	/* O means "no entity" in all such models */
	if (VARSIZE_ANY_EXHDR(label) == 1 && *VARDATA_ANY(label) == 'O')
		return;
	values[0] = Int32GetDatum(e->pos);
	values[1] = PointerGetDatum(cstring_to_text_with_len(VARDATA_ANY(t->input) + from, Max(to - from, 0)));
	values[2] = Int32GetDatum(GetDatabaseEncoding() == PG_SQL_ASCII ? from : e->from);
	values[3] = Int32GetDatum(GetDatabaseEncoding() == PG_SQL_ASCII ? to : e->to);
	values[4] = PointerGetDatum(label);
	values[5] = Float4GetDatum((float) score);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Merge adjacent entities with the same tag, unless the second one has B-. */
static void
put_groups(const ClassifyTokens *t, const Entity *e, int n, ReturnSetInfo *rsinfo)
{
	for (int i = 0; i < n;)
	{
		bool		begins;
		text	   *tag = tag_of(t, e[i].label, &begins);
		Entity		group = e[i];
		int			end = i + 1;

		for (; end < n; end++)
		{
			if (!same_text(tag, tag_of(t, e[end].label, &begins)) || begins)
				break;
			group.to = e[end].to;
			group.score += e[end].score;
		}
		put_entity(t, &group, tag, group.score / (end - i), rsinfo);
		i = end;
	}
}

static void
read_tokens(ClassifyTokens *t, HeapTupleHeader row)
{
	bool		isnull[3];
	Datum		labels = GetAttributeByNum(row, 1, &isnull[0]);
	Datum		scores = GetAttributeByNum(row, 2, &isnull[1]);
	Datum		offsets = GetAttributeByNum(row, 3, &isnull[2]);

	if (isnull[0] || isnull[1] || isnull[2] || array_contains_nulls(DatumGetArrayTypeP(labels)) ||
		array_contains_nulls(DatumGetArrayTypeP(scores)) || array_contains_nulls(DatumGetArrayTypeP(offsets)))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("scores of tokens must not contain null values")));
	deconstruct_array(DatumGetArrayTypeP(labels), TEXTOID, -1, false, TYPALIGN_INT, &t->labels, NULL,
					  &t->n_labels);
	t->scores = (const float *) ARR_DATA_PTR(DatumGetArrayTypeP(scores));
	t->offsets = (const int32 *) ARR_DATA_PTR(DatumGetArrayTypeP(offsets));
	t->n = ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(offsets)), ARR_DIMS(DatumGetArrayTypeP(offsets))) / 2;
	if (t->n_labels < 1 || (int64) t->n * t->n_labels !=
		ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(scores)), ARR_DIMS(DatumGetArrayTypeP(scores))))
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("scores of tokens don't fit their labels and offsets")));
}

/* vllm.token_labels(scores vllm.token_scores, input text, aggregation text) */
Datum
llm_token_labels(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Aggregation how;
	ClassifyTokens t = {0};
	Entity	   *e;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;
	how = aggregation_arg(fcinfo, 2);
	t.input = PG_GETARG_TEXT_PP(1);
	read_tokens(&t, PG_GETARG_HEAPTUPLEHEADER(0));
	find_characters(&t);
	e = palloc(sizeof(Entity) * Max(t.n, 1));
	n = find_words(&t, how, e);
	if (how == AGG_NONE)
		for (int i = 0; i < n; i++)
			put_entity(&t, &e[i], DatumGetTextPP(t.labels[e[i].label]), e[i].score, rsinfo);
	else
		put_groups(&t, e, n, rsinfo);
	return (Datum) 0;
}
