/*
 * generate.c
 *	  llm_generate, llm_generate_full (rows of engine_func.def), llm_generate_stream.
 *
 * The stream is a value-per-call set: in a target list the executor asks for a row when it has sent
 * the one before, so rows are sent as tokens arrive.  Before it sleeps it flushes the protocol's
 * buffer (always whole messages), else the client would get bursts of 8 kB.  Its ClientCall belongs
 * to the set's memory context: a closed cursor, a LIMIT or an ERROR cancels it.
 *
 * Tests: tests/sql/02_generate.sql, tests/sql/04_stream.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* libpq.h would include Kerberos headers for a struct that is not used here */
#undef ENABLE_GSS
#include "libpq/libpq.h"

#include "pg/call/cascade.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/call/options.h"
#include "pg/client/reply.h"
#include "pg/call/fallback.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_generate_stream);
PG_FUNCTION_INFO_V1(llm_generate_stream_ids);

ErrorData *
generate_check_length(const char *what, const text *t)
{
	ErrorData  *e;

	if ((Size) VARSIZE_ANY_EXHDR(t) <= (Size) vllm_max_prompt_bytes * 1024)
		return NULL;
	e = palloc0(sizeof(ErrorData));
	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	e->message = psprintf("%s of %zu bytes is too long", what, (size_t) VARSIZE_ANY_EXHDR(t));
	e->detail = psprintf("The limit is %d kB (vllm.max_prompt_bytes).", vllm_max_prompt_bytes);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

void
generate_put_parser(WireOut *out, WireTag tag, const char *name)
{
	if (name != NULL && name[0] != '\0')
		wire_put_text(out, tag, name, strlen(name));
}

void
generate_head_of(SqlRequest *r, const GenOptions *options, int flags)
{
	ModelRow   *model;
	WireOut		out = vclient_out(&r->body);

	options_check_answers(options, (flags & GEN_ANSWERS) != 0, (flags & GEN_BEAMS) != 0,
						  (flags & GEN_STREAM) != 0);
	model = catalog_for_use(options_model(options), options_lora(options));
	if (flags & GEN_PIN)
		catalog_require_local(model, "a pinned prefix");
	r->kind = WK_GENERATE;
	r->model = model->name;
	r->timeout_ms = options_timeout_ms(options);
	r->deterministic = options_deterministic(options);
	r->on_error = options_on_error(options);
	catalog_put(model, &out);
	options_put(options, &out);
	/* chats have a reasoning parser anyway */
	if (options_limit_thoughts(options))
		generate_put_parser(&out, WTAG_REASONING_PARSER, vllm_reasoning_parser);
	if (flags & GEN_STREAM)
		wire_put_int(&out, WTAG_STREAM, 1);
	if (flags & GEN_WANT_IDS)
		wire_put_int(&out, WTAG_WANT_IDS, 1);
	if (flags & GEN_ANSWERS)
		wire_put_int(&out, WTAG_WANT_ANSWERS, 1);
	cascade_want_logprobs(&r->body);
}

void
generate_head_with(SqlRequest *r, FunctionCallInfo fcinfo, int flags)
{
	GenOptions	options;

	options_read(&options, fcinfo);
	generate_head_of(r, &options, flags);
}

void
generate_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, 0);
}

void
generate_full_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, GEN_WANT_IDS);
}

ErrorData *
generate_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *prompt = PG_GETARG_TEXT_PP(GEN_ARG_PROMPT);
	ErrorData  *refused = generate_check_length("prompt", prompt);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL)
		wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(prompt), VARSIZE_ANY_EXHDR(prompt));
	return refused;
}

ErrorData *
generate_ids_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ArrayType  *ids = PG_GETARG_ARRAYTYPE_P(GEN_ARG_PROMPT);
	int64		n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	ErrorData  *e;

	if (n * sizeof(int32) <= (Size) vllm_max_prompt_bytes * 1024)
		return detokenize_input(r, fcinfo);
	e = palloc0(sizeof(ErrorData));
	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	e->message = psprintf("prompt of " INT64_FORMAT " token ids is too long", n);
	e->detail = psprintf("The limit is %d kB, of 4 bytes an id (vllm.max_prompt_bytes).",
						 vllm_max_prompt_bytes);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

Datum
generate_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return PointerGetDatum(reply_text(reply));
}

/* llm_result(text, token_ids, finish_reason, stop_reason, usage, timings) */
Datum
generate_full_result(const Reply *reply, Oid rettype, bool *isnull)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(rettype, -1);
	HeapTuple	tuple;
	Datum		values[6];
	bool		nulls[6] = {0};

	if (desc->natts != 6)
		elog(ERROR, "return type must be llm_result");
	values[0] = PointerGetDatum(reply_text(reply));
	values[1] = reply_ids(reply);
	values[2] = reply_finish_reason(reply, &nulls[2]);
	values[3] = reply_stop_reason(reply, &nulls[3]);
	values[4] = reply_usage(reply, TupleDescAttr(desc, 4)->atttypid);
	values[5] = reply_timings(reply);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	*isnull = false;
	return HeapTupleGetDatum(tuple);
}

/* ---- streaming ---- */

typedef struct GenerateStream
{
	SqlRequest	request;		/* its body must live as long as the call */
	ClientCall *call;
	int			seq;
	bool		finished;
	FallbackRoute route;
	TimestampTz end;			/* deadline by timeout_ms */
} GenerateStream;

static void
stream_of(SqlRequest *r, FunctionCallInfo fcinfo, ErrorData *(*input) (SqlRequest *, FunctionCallInfo))
{
	ErrorData  *refused;

	generate_head_with(r, fcinfo, GEN_STREAM | GEN_WANT_IDS);
	refused = input(r, fcinfo);
	if (refused)
		ThrowErrorData(refused);
}

static void
stream_request(SqlRequest *r, FunctionCallInfo fcinfo)
{
	stream_of(r, fcinfo, generate_input);
}

static void
stream_ids_request(SqlRequest *r, FunctionCallInfo fcinfo)
{
	stream_of(r, fcinfo, generate_ids_input);
}

/* Send the rows in the protocol's buffer, which holds only whole messages. */
static void
flush_to_client(void)
{
	if (whereToSendOutput == DestRemote && MyProcPort != NULL)
		(void) pq_flush_if_writable();
}

/* Return the request's error, or NULL and the next frame. */
static ErrorData *
next_frame(ClientCall *call, CallFrame *f)
{
	ErrorData  *err;

	for (;;)
	{
		while (vcall_next(call, f, &err))
			if (f->kind == WF_TEXT || f->kind == WF_DONE)
				return NULL;
		if (err != NULL)
			return err;
		if (!vcall_poll(call))
		{
			flush_to_client();
			vcall_wait(call);
		}
		CHECK_FOR_INTERRUPTS();
	}
}

void
generate_next(ClientCall *call, CallFrame *f)
{
	ErrorData  *err = next_frame(call, f);

	if (err != NULL)
		ThrowErrorData(err);
}

/*
 * Like next_frame(), but a stream that has returned no rows yet may be continued with another model
 * (fallback.h).
 */
static void
next_of_stream(GenerateStream *s, MemoryContext cxt, CallFrame *f)
{
	ErrorData  *err;

	while ((err = next_frame(s->call, f)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		StringInfoData next;
		char		model[NAMEDATALEN];

		initStringInfo(&next);
		if (s->seq > 0 || !route_may(err, vcall_error_is_fallbackable(s->call), s->request.body.data,
									 s->request.body.len) ||
			!route_next(&s->route, s->request.body.data, s->request.body.len, &next, model))
		{
			route_add_detail(&s->route, err);
			ThrowErrorData(err);
		}
		vcall_end(s->call);
		s->request.body = next;
		s->call = vcall_begin(cxt, s->request.kind, &s->request.body, model, s->request.timeout_ms == 0 ? 0 :
							  Max((int) TimestampDifferenceMilliseconds(GetCurrentTimestamp(), s->end), 1));
		MemoryContextSwitchTo(old);
	}
}

#define STREAM_COLUMNS	6

static Datum
part_or_null(const char *s, size_t n, bool *isnull)
{
	*isnull = s == NULL;
	return s != NULL ? PointerGetDatum(text_from_wire(s, n)) : (Datum) 0;
}

/* (seq, text, token_ids, finish_reason), and for a chat (reasoning, tool_calls) */
static Datum
stream_row(GenerateStream *s, const CallFrame *f, TupleDesc desc)
{
	Reply		r;
	Datum		values[STREAM_COLUMNS];
	bool		nulls[STREAM_COLUMNS] = {0};

	reply_read(&r, f);
	values[0] = Int32GetDatum(++s->seq);
	values[1] = PointerGetDatum(reply_text(&r));
	values[2] = reply_ids(&r);
	values[3] = reply_finish_reason(&r, &nulls[3]);
	values[4] = part_or_null(r.reasoning, r.reasoning_len, &nulls[4]);
	values[5] = part_or_null(r.tool_calls, r.tool_calls_len, &nulls[5]);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum
generate_stream(FunctionCallInfo fcinfo, void (*request) (SqlRequest *r, FunctionCallInfo fcinfo))
{
	FuncCallContext *fctx;
	GenerateStream *s;
	CallFrame	f;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		TupleDesc	desc;

		fctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(fctx->multi_call_memory_ctx);
		s = palloc0(sizeof(GenerateStream));
		fctx->user_fctx = s;
		if (PG_ARGISNULL(GEN_ARG_PROMPT))
			s->finished = true;
		else
		{
			if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
				elog(ERROR, "return type must be a row type");
			if (desc->natts > STREAM_COLUMNS)
				elog(ERROR, "a stream has no %d columns", desc->natts);
			fctx->tuple_desc = BlessTupleDesc(desc);
			initStringInfo(&s->request.body);
			request(&s->request, fcinfo);
			vclient_require_for(&s->request.body);
			s->end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), s->request.timeout_ms);
			s->call = vcall_begin(fctx->multi_call_memory_ctx, s->request.kind, &s->request.body,
								  s->request.model, s->request.timeout_ms);
		}
		MemoryContextSwitchTo(old);
	}

	fctx = SRF_PERCALL_SETUP();
	s = fctx->user_fctx;
	if (s->finished)
		SRF_RETURN_DONE(fctx);
	next_of_stream(s, fctx->multi_call_memory_ctx, &f);
	row = stream_row(s, &f, fctx->tuple_desc);
	if (f.final)
	{
		s->finished = true;
		vcall_end(s->call);
	}
	SRF_RETURN_NEXT(fctx, row);
}

Datum
llm_generate_stream(PG_FUNCTION_ARGS)
{
	return generate_stream(fcinfo, stream_request);
}

Datum
llm_generate_stream_ids(PG_FUNCTION_ARGS)
{
	return generate_stream(fcinfo, stream_ids_request);
}
