/*
 * reply.c
 *	  A reply frame's fields as SQL values.
 *
 * A frame is read in one pass into a Reply.  Unknown fields are skipped, so that an engine may send
 * more than this library uses.  Nothing is copied before a value is made.
 */
#include "postgres.h"

#include <limits.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

#include "base/assert.h"
#include "pg/util/encoding.h"
#include "pg/client/reply.h"

static void
reply_field(Reply *r, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_TEXT:
			r->text = f->s;
			r->text_len = f->n;
			break;
		case WTAG_TOOL_CALLS:
			r->tool_calls = f->s;
			r->tool_calls_len = f->n;
			break;
		case WTAG_REASONING:
			r->reasoning = f->s;
			r->reasoning_len = f->n;
			break;
		case WTAG_TOKEN_IDS:
			r->ids = *f;
			break;
		case WTAG_SPANS:
			r->spans = *f;
			break;
		case WTAG_FINISH_REASON:
			r->finish_reason = f->s;
			r->finish_len = f->n;
			break;
		case WTAG_STOP_REASON:
			r->stop_reason = f->s;
			r->stop_len = f->n;
			break;
		case WTAG_ARCH:
			r->arch = f->s;
			r->arch_len = f->n;
			break;
		case WTAG_DTYPE:
			r->dtype = f->s;
			r->dtype_len = f->n;
			break;
		case WTAG_IGNORED:
			r->ignored = f->s;
			r->ignored_len = f->n;
			break;
		case WTAG_FLOATS:
			r->floats = *f;
			break;
		case WTAG_ROWS:
			r->rows = f->i;
			break;
		case WTAG_OFFSETS:
			r->offsets = *f;
			break;
		case WTAG_COUNTS:
			r->counts = *f;
			break;
		case WTAG_GREEDY:
			r->greedy = *f;
			break;
		case WTAG_LABEL:
			r->n_labels++;
			break;
		case WTAG_COUNT:
			r->count = f->i;
			break;
		case WTAG_MAX_MODEL_LEN:
			r->max_model_len = f->i;
			break;
		case WTAG_PROMPT_TOKENS:
			r->prompt_tokens = f->i;
			break;
		case WTAG_COMPLETION_TOKENS:
			r->completion_tokens = f->i;
			break;
		case WTAG_CACHED_TOKENS:
			r->cached_tokens = f->i;
			break;
		case WTAG_REASONING_TOKENS:
			r->reasoning_tokens = f->i;
			break;
		case WTAG_QUEUE_US:
			r->queue_us = f->i;
			break;
		case WTAG_PREFILL_US:
			r->prefill_us = f->i;
			break;
		case WTAG_TTFT_US:
			r->ttft_us = f->i;
			break;
		case WTAG_DECODE_US:
			r->decode_us = f->i;
			break;
		case WTAG_E2E_US:
			r->e2e_us = f->i;
			break;
		case WTAG_PREEMPTIONS:
			r->preemptions = f->i;
			break;
		default:
			break;
	}
}

static void
malformed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("malformed reply from the engine")));
}

void
reply_read(Reply *r, const CallFrame *frame)
{
	WireIn		in = {frame->data, frame->data + frame->len};
	WireField	f;
	int			rc;

	memset(r, 0, sizeof(*r));
	r->count = r->max_model_len = r->prompt_tokens = r->completion_tokens = r->cached_tokens =
		r->reasoning_tokens = -1;
	r->queue_us = r->prefill_us = r->ttft_us = r->decode_us = r->e2e_us = -1;
	r->preemptions = -1;
	r->rows = 1;
	r->fields = frame->data;
	r->fields_len = frame->len;
	while ((rc = wire_next(&in, &f)) > 0)
		reply_field(r, &f);
	if (rc < 0)
		malformed();
}

text *
reply_text(const Reply *r)
{
	return text_from_wire(r->text, r->text_len);
}

/*
 * Make an array of 4-byte numbers without nulls; the caller fills in the elements.  Arrays of
 * embeddings are made by the million, so without a Datum for each element.
 */
static ArrayType *
make_array(Oid elemtype, int ndim, const int *dims)
{
	Size		n = 1;
	Size		size;
	ArrayType  *a;

	for (int i = 0; i < ndim; i++)
		n *= dims[i];
	if (n == 0)
		return construct_empty_array(elemtype);
	size = ARR_OVERHEAD_NONULLS(ndim) + n * 4;
	if (!AllocSizeIsValid(size))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the engine's answer of %zu numbers is longer than an array can be", n)));
	a = palloc(size);
	SET_VARSIZE(a, size);
	a->ndim = ndim;
	a->dataoffset = 0;
	a->elemtype = elemtype;
	for (int i = 0; i < ndim; i++)
	{
		ARR_DIMS(a)[i] = dims[i];
		ARR_LBOUND(a)[i] = 1;
	}
	return a;
}

static Datum
int_array(const WireField *f)
{
	int			n = (int) f->n;
	ArrayType  *a = make_array(INT4OID, 1, &n);

	for (int i = 0; i < n; i++)
		((int32 *) ARR_DATA_PTR(a))[i] = wire_int_at(f, i);
	return PointerGetDatum(a);
}

Datum
reply_ids(const Reply *r)
{
	return int_array(&r->ids);
}

Datum
reply_offsets(const Reply *r)
{
	return int_array(&r->offsets);
}

int
reply_width(const Reply *r)
{
	if (r->rows < 0 || r->rows > INT_MAX || (r->rows == 0 ? r->floats.n != 0 : r->floats.n % r->rows != 0))
		malformed();
	return r->rows == 0 ? 0 : (int) (r->floats.n / r->rows);
}

float
reply_float(const Reply *r)
{
	float		value;

	if (r->floats.n != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the model returned %zu numbers, expected one", r->floats.n),
				 errhint("Use llm_encode() to get all of them.")));
	wire_floats(&r->floats, &value);
	return value;
}

Datum
reply_floats(const Reply *r, bool two_dims)
{
	int			dims[2] = {(int) r->rows, reply_width(r)};
	ArrayType  *a;

	if (!two_dims)
		dims[0] = (int) r->floats.n;
	a = make_array(FLOAT4OID, two_dims ? 2 : 1, dims);
	if (r->floats.n > 0)
		wire_floats(&r->floats, (float *) ARR_DATA_PTR(a));
	return PointerGetDatum(a);
}

Datum *
reply_labels(const Reply *r)
{
	int			n = reply_width(r);
	Datum	   *labels = palloc(sizeof(Datum) * Max(Max(n, r->n_labels), 1));
	WireIn		in = {r->fields, r->fields + r->fields_len};
	WireField	f;
	int			k = 0;

	if (r->rows > 0 && r->n_labels != 0 && r->n_labels != n)
		malformed();
	while (r->n_labels > 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_LABEL)
			labels[k++] = PointerGetDatum(text_from_wire(f.s, f.n));
	ASSERT(k == r->n_labels);
	for (; k < n; k++)
		labels[k] = CStringGetTextDatum(psprintf("%d", k));
	return labels;
}

static Datum
text_or_null(const char *s, size_t n, bool *isnull)
{
	*isnull = s == NULL;
	return s ? PointerGetDatum(text_from_wire(s, n)) : (Datum) 0;
}

Datum
reply_finish_reason(const Reply *r, bool *isnull)
{
	return text_or_null(r->finish_reason, r->finish_len, isnull);
}

Datum
reply_stop_reason(const Reply *r, bool *isnull)
{
	return text_or_null(r->stop_reason, r->stop_len, isnull);
}

/* llm_usage(prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens) */
Datum
reply_usage(const Reply *r, Oid usage_type)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(usage_type, -1);
	Datum		values[5] = {0};
	bool		nulls[5] = {false, false, false, false, r->reasoning_tokens < 0};
	HeapTuple	tuple;

	if (desc->natts != 5)
		elog(ERROR, "llm_usage has %d attributes, expected 5", desc->natts);
	values[0] = Int32GetDatum(Max(r->prompt_tokens, 0));
	values[1] = Int32GetDatum(Max(r->completion_tokens, 0));
	values[2] = Int32GetDatum(Max(r->prompt_tokens, 0) + Max(r->completion_tokens, 0));
	values[3] = Int32GetDatum(Max(r->cached_tokens, 0));
	values[4] = Int32GetDatum(r->reasoning_tokens);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}

static void
put_ms(StringInfo s, const char *key, double us)
{
	if (us >= 0)
		appendStringInfo(s, "%s\"%s\": %.3f", s->len > 1 ? ", " : "", key, us / 1000.0);
}

Datum
reply_timings(const Reply *r)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoChar(&s, '{');
	put_ms(&s, "queue_ms", r->queue_us);
	put_ms(&s, "prefill_ms", r->prefill_us);
	put_ms(&s, "ttft_ms", r->ttft_us);
	put_ms(&s, "decode_ms", r->decode_us);
	/* time per output token after the first */
	if (r->decode_us >= 0 && r->completion_tokens > 1)
		put_ms(&s, "tpot_ms", (double) r->decode_us / (r->completion_tokens - 1));
	put_ms(&s, "e2e_ms", r->e2e_us);
	appendStringInfo(&s, "%s\"preemptions\": " INT64_FORMAT "}", s.len > 1 ? ", " : "",
					 Max(r->preemptions, 0));
	return PointerGetDatum(cstring_to_text_with_len(s.data, s.len));
}
