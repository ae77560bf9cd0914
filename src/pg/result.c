/*
 * result.c
 *	  A reply frame's fields as SQL values.
 *
 * A frame is read in one pass into a Reply; unknown fields are skipped, so that an
 * engine may say more than this library asks for.  Nothing is copied before a
 * value is made of it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

#include "pg/encode.h"
#include "pg/result.h"

static void
reply_field(Reply *r, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_TEXT:
			r->text = f->s;
			r->text_len = f->n;
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

void
reply_read(Reply *r, const CallFrame *frame)
{
	WireIn		in = {frame->data, frame->data + frame->len};
	WireField	f;
	int			rc;

	memset(r, 0, sizeof(*r));
	r->count = r->max_model_len = r->prompt_tokens = r->completion_tokens = r->cached_tokens = -1;
	r->queue_us = r->prefill_us = r->ttft_us = r->decode_us = r->e2e_us = -1;
	r->preemptions = -1;
	while ((rc = wire_next(&in, &f)) > 0)
		reply_field(r, &f);
	if (rc < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("malformed reply from the engine")));
}

text *
reply_text(const Reply *r)
{
	return text_from_wire(r->text, r->text_len);
}

Datum
reply_ids(const Reply *r)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(r->ids.n, 1));

	for (size_t i = 0; i < r->ids.n; i++)
		elems[i] = Int32GetDatum(wire_int_at(&r->ids, i));
	return PointerGetDatum(construct_array(elems, (int) r->ids.n, INT4OID, sizeof(int32), true,
										   TYPALIGN_INT));
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
	bool		nulls[5] = {false, false, false, false, true};
	HeapTuple	tuple;

	if (desc->natts != 5)
		elog(ERROR, "llm_usage has %d attributes, expected 5", desc->natts);
	values[0] = Int32GetDatum(Max(r->prompt_tokens, 0));
	values[1] = Int32GetDatum(Max(r->completion_tokens, 0));
	values[2] = Int32GetDatum(Max(r->prompt_tokens, 0) + Max(r->completion_tokens, 0));
	values[3] = Int32GetDatum(Max(r->cached_tokens, 0));
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
