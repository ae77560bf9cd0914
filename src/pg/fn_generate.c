/*
 * fn_generate.c
 *	  llm_generate, llm_generate_full, llm_generate_stream.
 *
 * A call reads its options, finds the model, builds one message and waits.  The
 * functions are not STRICT: only a NULL prompt makes NULL, before anything is read.
 *
 * The stream is a value-per-call set: in a select list the executor asks for a row
 * when the one before has been sent, so rows leave as tokens arrive.  Before it
 * sleeps it flushes what the protocol has buffered (whole messages always), else
 * the client would see bursts of 8 kB.  Its Call belongs to the set's memory
 * context: a closed cursor, a LIMIT or an ERROR cancels it.
 *
 * Tests: tests/sql/generate.sql, tests/sql/stream.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

/* libpq.h would want Kerberos' headers for a struct that is not used here */
#undef ENABLE_GSS
#include "libpq/libpq.h"

#include "pg/catalog.h"
#include "pg/client.h"
#include "pg/encode.h"
#include "pg/generate.h"
#include "pg/options.h"
#include "pg/result.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_generate);
PG_FUNCTION_INFO_V1(llm_generate_full);
PG_FUNCTION_INFO_V1(llm_generate_stream);

void
generate_check_length(const char *what, const text *t)
{
	if ((Size) VARSIZE_ANY_EXHDR(t) > (Size) vllm_max_prompt_bytes * 1024)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s of %zu bytes is too long", what, (size_t) VARSIZE_ANY_EXHDR(t)),
				 errdetail("The limit is %d kB (vllm.max_prompt_bytes).", vllm_max_prompt_bytes)));
}

void
generate_request(GenRequest *g, FunctionCallInfo fcinfo, int flags)
{
	GenOptions	options;
	ModelRow   *model;
	text	   *prompt;
	WireOut		out;

	options_read(&options, fcinfo);
	model = catalog_model_for_use(options_model(&options));
	prompt = PG_GETARG_TEXT_PP(GEN_ARG_PROMPT);
	generate_check_length("prompt", prompt);

	g->model = model->name;
	g->timeout_ms = options_timeout_ms(&options);
	initStringInfo(&g->body);
	out = vclient_out(&g->body);
	catalog_put(model, &out);
	options_put(&options, &out);
	if (flags & GEN_STREAM)
		wire_put_int(&out, WTAG_STREAM, 1);
	if (flags & GEN_WANT_IDS)
		wire_put_int(&out, WTAG_WANT_IDS, 1);
	wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(prompt), VARSIZE_ANY_EXHDR(prompt));
}

/* The whole of a request that is not a stream; vcall_end(*call) when r is read. */
static void
generate(FunctionCallInfo fcinfo, int flags, Reply *r, Call **call)
{
	GenRequest	g;
	CallFrame	f;

	generate_request(&g, fcinfo, flags);
	vcall_simple(WK_GENERATE, &g.body, g.model, g.timeout_ms, CurrentMemoryContext, &f, call);
	reply_read(r, &f);
}

Datum
llm_generate(PG_FUNCTION_ARGS)
{
	Reply		r;
	Call	   *call;
	text	   *result;

	if (PG_ARGISNULL(GEN_ARG_PROMPT))
		PG_RETURN_NULL();
	generate(fcinfo, 0, &r, &call);
	result = reply_text(&r);
	vcall_end(call);
	PG_RETURN_TEXT_P(result);
}

/* llm_result(text, token_ids, finish_reason, stop_reason, usage, timings) */
Datum
llm_generate_full(PG_FUNCTION_ARGS)
{
	Reply		r;
	Call	   *call;
	TupleDesc	desc;
	Datum		values[6];
	bool		nulls[6] = {0};

	if (PG_ARGISNULL(GEN_ARG_PROMPT))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != 6)
		elog(ERROR, "return type must be llm_result");
	generate(fcinfo, GEN_WANT_IDS, &r, &call);
	values[0] = PointerGetDatum(reply_text(&r));
	values[1] = reply_ids(&r);
	values[2] = reply_finish_reason(&r, &nulls[2]);
	values[3] = reply_stop_reason(&r, &nulls[3]);
	values[4] = reply_usage(&r, TupleDescAttr(desc, 4)->atttypid);
	values[5] = reply_timings(&r);
	vcall_end(call);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ---- streaming ---- */

typedef struct Stream
{
	GenRequest	request;		/* its body must live as long as the call */
	Call	   *call;
	int			seq;
	bool		finished;
} Stream;

/* Send the rows that the protocol has buffered; only ever whole messages. */
static void
flush_to_client(void)
{
	if (whereToSendOutput == DestRemote && MyProcPort != NULL)
		(void) pq_flush_if_writable();
}

/* Wait for the next frame with something in it: WF_TEXT or WF_DONE. */
static void
stream_next(Stream *s, CallFrame *f)
{
	for (;;)
	{
		while (vcall_next(s->call, f))
			if (f->kind == WF_TEXT || f->kind == WF_DONE)
				return;
		if (!vcall_poll(s->call))
		{
			flush_to_client();
			vcall_wait(s->call);
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* (seq, text, token_ids, finish_reason) */
static Datum
stream_row(Stream *s, const CallFrame *f, TupleDesc desc)
{
	Reply		r;
	Datum		values[4];
	bool		nulls[4] = {0};

	reply_read(&r, f);
	values[0] = Int32GetDatum(++s->seq);
	values[1] = PointerGetDatum(reply_text(&r));
	values[2] = reply_ids(&r);
	values[3] = reply_finish_reason(&r, &nulls[3]);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum
llm_generate_stream(PG_FUNCTION_ARGS)
{
	FuncCallContext *fctx;
	Stream	   *s;
	CallFrame	f;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		TupleDesc	desc;

		fctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(fctx->multi_call_memory_ctx);
		s = palloc0(sizeof(Stream));
		fctx->user_fctx = s;
		if (PG_ARGISNULL(GEN_ARG_PROMPT))
			s->finished = true;
		else
		{
			if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
				elog(ERROR, "return type must be a row type");
			fctx->tuple_desc = BlessTupleDesc(desc);
			generate_request(&s->request, fcinfo, GEN_STREAM | GEN_WANT_IDS);
			vclient_require_engine();
			s->call = vcall_begin(fctx->multi_call_memory_ctx, WK_GENERATE, &s->request.body,
								  s->request.model, s->request.timeout_ms, true);
		}
		MemoryContextSwitchTo(old);
	}

	fctx = SRF_PERCALL_SETUP();
	s = fctx->user_fctx;
	if (s->finished)
		SRF_RETURN_DONE(fctx);
	stream_next(s, &f);
	row = stream_row(s, &f, fctx->tuple_desc);
	if (f.final)
	{
		s->finished = true;
		vcall_end(s->call);
	}
	SRF_RETURN_NEXT(fctx, row);
}
