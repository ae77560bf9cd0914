/*
 * outputs.c
 *	  llm_output, llm_beams: the complete reply, as rows of engine_func.def.
 *
 * A reply with several answers is a list of fields: those before the first INDEX belong to the
 * prompt, those after an INDEX to that answer (fields.def).  It is read once, in order.  The arrays
 * of log-probabilities become an array of llm_logprob with one element for each entry: pos counts
 * from 1, and `chosen` marks the position's own token.
 *
 * Tests: tests/sql/26_outputs.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "base/assert.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/client/reply.h"

/* Parallel arrays; counts.n = 0: none */
typedef struct Entries
{
	WireField	counts,
				ids,
				ranks,
				values,
				lengths,
				bytes;
} Entries;

typedef struct OutputsAnswer
{
	int			index;
	WireField	text,			/* .s = NULL: absent */
				reasoning,
				tool_calls,
				ids,
				finish_reason,
				stop_reason;
	bool		has_cum;
	double		cum;
	double		score;
	Entries		entries;
} OutputsAnswer;

typedef struct Answers
{
	WireField	prompt_ids;
	Entries		prompt;
	OutputsAnswer *a;
	int			n;
	int			cap;
} Answers;

/* ---- reading ---- */

static bool
entries_field(Entries *e, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_LP_COUNTS:
			e->counts = *f;
			return true;
		case WTAG_LP_IDS:
			e->ids = *f;
			return true;
		case WTAG_LP_RANKS:
			e->ranks = *f;
			return true;
		case WTAG_LP_VALUES:
			e->values = *f;
			return true;
		case WTAG_LP_LENGTHS:
			e->lengths = *f;
			return true;
		case WTAG_LP_BYTES:
			e->bytes = *f;
			return true;
		default:
			return false;
	}
}

static void
answer_field(OutputsAnswer *a, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_TEXT:
			a->text = *f;
			break;
		case WTAG_REASONING:
			a->reasoning = *f;
			break;
		case WTAG_TOOL_CALLS:
			a->tool_calls = *f;
			break;
		case WTAG_TOKEN_IDS:
			a->ids = *f;
			break;
		case WTAG_FINISH_REASON:
			a->finish_reason = *f;
			break;
		case WTAG_STOP_REASON:
			a->stop_reason = *f;
			break;
		case WTAG_CUM_LOGPROB:
			a->has_cum = true;
			a->cum = f->num;
			break;
		case WTAG_SCORE:
			a->score = f->num;
			break;
		default:
			(void) entries_field(&a->entries, f);
			break;
	}
}

static void
begin_answer(Answers *r, int index)
{
	if (r->n == r->cap)
	{
		r->cap = Max(2 * r->cap, 4);
		r->a = r->a ? repalloc(r->a, r->cap * sizeof(OutputsAnswer)) : palloc(r->cap * sizeof(OutputsAnswer));
	}
	memset(&r->a[r->n], 0, sizeof(OutputsAnswer));
	r->a[r->n++].index = index;
}

static void
read_answers(const Reply *reply, Answers *r)
{
	WireIn		in = {reply->fields, reply->fields + reply->fields_len};
	WireField	f;

	memset(r, 0, sizeof(*r));
	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_INDEX)
			begin_answer(r, (int) f.i);
		else if (r->n > 0)
			answer_field(&r->a[r->n - 1], &f);
		else if (f.tag == WTAG_PROMPT_IDS)
			r->prompt_ids = f;
		else
			(void) entries_field(&r->prompt, &f);
	}
}

/* ---- values ---- */

static Datum
int_array(const WireField *f)
{
	Datum	   *d = palloc(Max(f->n, 1) * sizeof(Datum));

	for (size_t i = 0; i < f->n; i++)
		d[i] = Int32GetDatum(wire_int_at(f, i));
	return PointerGetDatum(construct_array(d, (int) f->n, INT4OID, 4, true, TYPALIGN_INT));
}

static Datum
text_or_null(const WireField *f, bool *isnull)
{
	*isnull = f->s == NULL;
	return f->s ? PointerGetDatum(text_from_wire(f->s, f->n)) : (Datum) 0;
}

static Datum
composite_array(Datum *rows, int n, Oid type)
{
	return PointerGetDatum(construct_array(rows, n, type, -1, false, TYPALIGN_DOUBLE));
}

/* Return true if the arrays fit together.  bytes: the texts of all entries. */
static bool
entries_fit(const Entries *e)
{
	int64		entries = 0;
	int64		bytes = 0;

	for (size_t i = 0; i < e->counts.n; i++)
	{
		if (wire_int_at(&e->counts, i) < 0)
			return false;
		entries += wire_int_at(&e->counts, i);
	}
	if ((size_t) entries != e->ids.n || e->ranks.n != e->ids.n || e->values.n != e->ids.n ||
		e->lengths.n != e->ids.n)
		return false;
	for (size_t i = 0; i < e->lengths.n; i++)
	{
		if (wire_int_at(&e->lengths, i) < 0)
			return false;
		bytes += wire_int_at(&e->lengths, i);
	}
	return (size_t) bytes == e->bytes.n;
}

/* Return a token's text.  A partial character becomes U+FFFD, since the text must be valid. */
static text *
token_text(const char *s, int len)
{
	StringInfoData clean;

	initStringInfo(&clean);
	while (len > 0)
	{
		int			n = pg_utf_mblen((const unsigned char *) s);

		if (*s != '\0' && n <= len && pg_utf8_islegal((const unsigned char *) s, n))
			appendBinaryStringInfo(&clean, s, n);
		else
		{
			appendStringInfoString(&clean, "\357\277\275");
			for (n = 1; n < len && ((unsigned char) s[n] & 0xC0) == 0x80;)
				n++;
		}
		s += n;
		len -= n;
	}
	return text_from_wire(clean.data, clean.len);
}

/* scratch: for the row's parts */
static Datum
logprob_row(TupleDesc desc, int pos, const Entries *e, size_t i, float value, const char *s, bool chosen,
			MemoryContext scratch)
{
	MemoryContext old = MemoryContextSwitchTo(scratch);
	int			len = wire_int_at(&e->lengths, i);
	bytea	   *bytes = palloc(VARHDRSZ + len);
	HeapTuple	tuple;
	Datum		values[7];
	bool		nulls[7] = {0};

	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), s, len);
	values[0] = Int32GetDatum(pos);
	values[1] = Int32GetDatum(wire_int_at(&e->ids, i));
	nulls[1] = wire_int_at(&e->ids, i) < 0;
	values[2] = PointerGetDatum(token_text(s, len));
	values[3] = PointerGetDatum(bytes);
	values[4] = Float4GetDatum(value);
	values[5] = Int32GetDatum(wire_int_at(&e->ranks, i));
	nulls[5] = wire_int_at(&e->ranks, i) < 0;
	values[6] = BoolGetDatum(chosen);
	MemoryContextSwitchTo(old);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextReset(scratch);
	return HeapTupleGetDatum(tuple);
}

/*
 * Return llm_logprob[], or NULL if none were asked for.  There may be millions, so only the array's
 * own memory remains.
 */
static Datum
logprobs(const Entries *e, Oid array_type, bool *isnull)
{
	Oid			type = get_element_type(array_type);
	TupleDesc	desc;
	Datum	   *rows;
	float	   *values;
	const char *s = e->bytes.s;
	size_t		at = 0;
	MemoryContext cxt,
				scratch,
				old;
	Datum		array;

	*isnull = e->counts.n == 0;
	if (*isnull)
		return (Datum) 0;
	if (!entries_fit(e))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("malformed reply from the engine")));
	desc = lookup_rowtype_tupdesc(type, -1);
	if (desc->natts != 7)
		elog(ERROR, "llm_logprob has %d attributes, expected 7", desc->natts);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "log-probabilities", ALLOCSET_DEFAULT_SIZES);
	scratch = AllocSetContextCreate(cxt, "log-probability", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	rows = palloc(Max(e->ids.n, 1) * sizeof(Datum));
	values = palloc(Max(e->ids.n, 1) * sizeof(float));
	wire_floats(&e->values, values);
	for (size_t pos = 0; pos < e->counts.n; pos++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int k = 0; k < wire_int_at(&e->counts, pos); k++)
		{
			rows[at] = logprob_row(desc, (int) pos + 1, e, at, values[at], s, k == 0, scratch);
			s += wire_int_at(&e->lengths, at++);
		}
	}
	/* entries_fit() has added up the same numbers */
	ASSERT(at == e->ids.n && s == e->bytes.s + e->bytes.n);
	ReleaseTupleDesc(desc);
	MemoryContextSwitchTo(old);
	array = composite_array(rows, (int) at, type);
	MemoryContextDelete(cxt);
	return array;
}

/*
 * llm_completion(prompt_index, index, text, reasoning, tool_calls, token_ids, finish_reason,
 * stop_reason, cumulative_logprob, logprobs)
 */
static Datum
completion(const OutputsAnswer *a, TupleDesc desc)
{
	Datum		values[10] = {0};
	bool		nulls[10] = {0};

	values[0] = Int32GetDatum(0);
	values[1] = Int32GetDatum(a->index);
	values[2] = text_or_null(&a->text, &nulls[2]);
	values[3] = text_or_null(&a->reasoning, &nulls[3]);
	values[4] = text_or_null(&a->tool_calls, &nulls[4]);
	values[5] = int_array(&a->ids);
	values[6] = text_or_null(&a->finish_reason, &nulls[6]);
	values[7] = text_or_null(&a->stop_reason, &nulls[7]);
	values[8] = Float8GetDatum(a->cum);
	nulls[8] = !a->has_cum;
	values[9] = logprobs(&a->entries, TupleDescAttr(desc, 9)->atttypid, &nulls[9]);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

static Datum
completions(const Answers *r, Oid array_type)
{
	Oid			type = get_element_type(array_type);
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	Datum	   *rows = palloc(Max(r->n, 1) * sizeof(Datum));

	if (desc->natts != 10)
		elog(ERROR, "llm_completion has %d attributes, expected 10", desc->natts);
	for (int i = 0; i < r->n; i++)
		rows[i] = completion(&r->a[i], desc);
	ReleaseTupleDesc(desc);
	return composite_array(rows, r->n, type);
}

/* Return a text of the request, or NULL. */
static Datum
request_text(const Reply *reply, int tag, bool *isnull)
{
	WireIn		in = {reply->request, reply->request + reply->request_len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == tag)
			return text_or_null(&f, isnull);
	*isnull = true;
	return (Datum) 0;
}

/*
 * llm_output(request_id, prompt_index, prompt, prompt_token_ids, prompt_logprobs, completions,
 * usage, metrics, model, lora, finished)
 */
Datum
output_result(const Reply *reply, Oid rettype, bool *isnull)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(rettype, -1);
	Answers		r;
	Datum		values[11] = {0};
	bool		nulls[11] = {0};
	HeapTuple	tuple;

	if (desc->natts != 11)
		elog(ERROR, "return type must be llm_output");
	read_answers(reply, &r);
	nulls[0] = true;
	values[1] = Int32GetDatum(0);
	values[2] = request_text(reply, WTAG_PROMPT, &nulls[2]);
	nulls[3] = r.prompt_ids.s == NULL;	/* NULL for a prompt given as embeddings */
	values[3] = nulls[3] ? (Datum) 0 : int_array(&r.prompt_ids);
	values[4] = logprobs(&r.prompt, TupleDescAttr(desc, 4)->atttypid, &nulls[4]);
	values[5] = completions(&r, TupleDescAttr(desc, 5)->atttypid);
	values[6] = reply_usage(reply, TupleDescAttr(desc, 6)->atttypid);
	values[7] = reply_timings(reply);
	values[8] = request_text(reply, WTAG_MODEL, &nulls[8]);
	values[9] = request_text(reply, WTAG_LORA, &nulls[9]);
	values[10] = BoolGetDatum(true);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	*isnull = false;
	return HeapTupleGetDatum(tuple);
}

/* llm_beam[]: (rank, text, token_ids, cum_logprob, score, finish_reason) */
Datum
beams_result(const Reply *reply, Oid rettype, bool *isnull)
{
	Oid			type = get_element_type(rettype);
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	Answers		r;
	Datum	   *rows;

	if (desc->natts != 6)
		elog(ERROR, "return type must be llm_beam[]");
	read_answers(reply, &r);
	rows = palloc(Max(r.n, 1) * sizeof(Datum));
	for (int i = 0; i < r.n; i++)
	{
		Datum		values[6];
		bool		nulls[6] = {0};

		values[0] = Int32GetDatum(i + 1);
		values[1] = PointerGetDatum(text_from_wire(r.a[i].text.s, r.a[i].text.n));
		values[2] = int_array(&r.a[i].ids);
		values[3] = Float8GetDatum(r.a[i].cum);
		values[4] = Float8GetDatum(r.a[i].score);
		values[5] = text_or_null(&r.a[i].finish_reason, &nulls[5]);
		rows[i] = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	}
	ReleaseTupleDesc(desc);
	*isnull = false;
	return composite_array(rows, r.n, type);
}

/* ---- requests ---- */

void
output_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, GEN_WANT_IDS | GEN_ANSWERS);
}

/* llm_chat_full(messages json, options of llm_output() and of llm_chat()) */
void
chat_full_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	output_head(r, fcinfo);
	chat_put_template(r, fcinfo);
}

void
beams_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, GEN_WANT_IDS | GEN_ANSWERS | GEN_BEAMS);
}
