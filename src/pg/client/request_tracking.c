/*
 * request_tracking.c
 *	  Tracking of requests: statistics, the log of slow requests, costs.
 *
 * Tests: tests/sql/33_observe.sql, tests/t/095_observability.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "commands/prepare.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/plancache.h"
#include "utils/timestamp.h"

#include "pg/util/encoding.h"
#include "pg/util/on_error.h"
#include "pg/client/request_tracking.h"
#include "pg/client/query_stats.h"
#include "pg/vllm_pg.h"

int			vllm_log_min_duration = -1;
char	   *vllm_traceparent = "";
char	   *vllm_tracestate = "";

/*
 * The session runs EXECUTE: requests count for EXECUTE's statement, but with the identifier of the
 * query that it executes.
 */
static bool executing = false;
static uint64 executed_id;
static ProcessUtility_hook_type prev_process_utility = NULL;

static uint64
prepared_query_id(const char *name)
{
	PreparedStatement *p = FetchPreparedStatement(name, false);

	return p != NULL && p->plansource->query_list != NIL ?
		linitial_node(Query, p->plansource->query_list)->queryId : 0;
}

static void
note_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	if (context == PROCESS_UTILITY_TOPLEVEL && IsA(pstmt->utilityStmt, ExecuteStmt))
	{
		executing = true;
		executed_id = prepared_query_id(castNode(ExecuteStmt, pstmt->utilityStmt)->name);
	}
	PG_TRY();
	{
		if (prev_process_utility)
			prev_process_utility(pstmt, query, read_only_tree, context, params, env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		if (context == PROCESS_UTILITY_TOPLEVEL)
			executing = false;
	}
	PG_END_TRY();
	/* errors of requests from expressions of DO and CALL */
	if (context == PROCESS_UTILITY_TOPLEVEL)
		on_error_report();
}

/* Return the query id as pg_stat_statements has it; 0 = not computed. */
static uint64
my_query_id(void)
{
	return executing ? executed_id : pgstat_get_my_query_id();
}

void
request_note_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = note_process_utility;
}

/* Return true if a model serves it. */
static bool
is_request(WireKind kind)
{
	return kind == WK_GENERATE || kind == WK_POOL || kind == WK_LOGPROBS || kind == WK_API;
}

/* Copy a field's text if it fits, else the empty string. */
static void
take_text(char *to, Size size, const WireField *f)
{
	Size		n = f->n < size ? f->n : 0;

	memcpy(to, f->s, n);
	to[n] = '\0';
}

/* Copy a name from the message's UTF-8 to the database's encoding. */
static void
take_name(char *to, Size size, const WireField *f)
{
	char	   *s = name_from_wire(f->s, f->n);

	strlcpy(to, s, size);
	pfree(s);
}

bool
request_is_remote(const char *fields, Size len)
{
	WireIn		in = {fields, fields + len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_URL)
			return true;
	return false;
}

void
request_note_begin(RequestTracking *n, WireKind kind, const char *fields, Size len)
{
	WireIn		in = {fields, fields + len};
	WireField	f;

	n->kind = kind;
	n->roleid = GetUserId();
	n->priority = 0;
	n->lora[0] = n->traceparent[0] = '\0';
	n->query_id = 0;
	cost_note_begin(&n->cost);
	n->counts = is_request(kind) && kind != WK_API;
	n->remote = false;
	if (!is_request(kind))
	{
		n->remote = request_is_remote(fields, len);
		return;
	}
	n->query_id = my_query_id();
	n->statement = GetCurrentStatementStartTimestamp();
	n->start = GetCurrentTimestamp();
	/* if a field is repeated, the last one counts */
	while (wire_next(&in, &f) > 0)
	{
		cost_note_field(&n->cost, &f);
		switch (f.tag)
		{
			case WTAG_PRIORITY:
				n->priority = (int) f.i;
				break;
			case WTAG_MODEL:
				/* an API body without a model is for no model, or is an error in the body */
				n->counts = true;
				break;
			case WTAG_URL:
				n->remote = true;
				break;
			case WTAG_LORA:
				take_name(n->lora, sizeof(n->lora), &f);
				break;
			case WTAG_TRACEPARENT:
				memcpy(n->traceparent, f.s, Min(f.n, TRACEPARENT_LEN));
				n->traceparent[Min(f.n, TRACEPARENT_LEN)] = '\0';
				break;
		}
	}
}

/*
 * Read the counters of the reply, and return how the request has ended: a timeout counts as
 * cancelled, and an API body with an error status as failed.
 */
static RequestEnd
read_figures(RequestFigures *r, RequestEnd end, const char *reply, Size len)
{
	WireIn		in = {reply, reply + len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		switch (f.tag)
		{
			case WTAG_PROMPT_TOKENS:
				r->prompt_tokens = Max(f.i, 0);
				break;
			case WTAG_CACHED_TOKENS:
				r->cached_tokens = Max(f.i, 0);
				break;
			case WTAG_COMPLETION_TOKENS:
				r->output_tokens = Max(f.i, 0);
				break;
			case WTAG_PREEMPTIONS:
				r->preemptions = Max(f.i, 0);
				break;
			case WTAG_DRAFT_TOKENS:
				r->draft_tokens = Max(f.i, 0);
				break;
			case WTAG_ACCEPTED_TOKENS:
				r->accepted_tokens = Max(f.i, 0);
				break;
			case WTAG_QUEUE_US:
				r->queue_us = Max(f.i, 0);
				break;
			case WTAG_PREFILL_US:
				r->prefill_us = Max(f.i, 0);
				break;
			case WTAG_DECODE_US:
				r->decode_us = Max(f.i, 0);
				break;
			case WTAG_E2E_US:
				r->total_us = Max(f.i, 0);
				break;
			case WTAG_FINISH_REASON:
				take_text(r->reason, sizeof(r->reason), &f);
				break;
			case WTAG_SQLSTATE:
				if (f.n == 5 && memcmp(f.s, "57014", 5) == 0)
					end = REQUEST_CANCELLED;
				break;
			case WTAG_TEXT:
			case WTAG_REASONING:
			case WTAG_TOOL_CALLS:
				r->text_bytes += f.n;
				break;
			case WTAG_CHARGED_TRIES:
				r->charged_tries = Max(f.i, 0);
				break;
			case WTAG_API_STATUS:
				if (f.i >= 400)
					end = REQUEST_FAILED;
				break;
		}
	return end;
}

/* ---- the log of slow requests ---- */

static void
append_ms(StringInfo s, const char *name, int64 us)
{
	if (us >= 0)
		appendStringInfo(s, ", %s %.3f ms", name, us / 1000.0);
}

/* Return the tracestate of a message; '' = none. */
static char *
find_tracestate(const char *message, Size len)
{
	WireIn		in = {message, message + len};
	WireField	f;
	char	   *state = "";

	while (message != NULL && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_TRACESTATE)
			state = pnstrdup(f.s, Min(f.n, TRACESTATE_LEN));
	return state;
}

static const char *
kind_name(WireKind kind)
{
	return kind == WK_POOL ? "pool" : kind == WK_LOGPROBS ? "logprobs" : kind == WK_API ? "api" : "generate";
}

/*
 * Return names if the catalogs can be read, which they can't while a transaction is aborted; else
 * oids.
 */
static char *
role_and_database(Oid role)
{
	char	   *r = IsTransactionState() ? GetUserNameFromId(role, true) : NULL;
	char	   *d = IsTransactionState() ? get_database_name(MyDatabaseId) : NULL;

	return psprintf("role \"%s\", database \"%s\"", r ? r : psprintf("%u", role),
					d ? d : psprintf("%u", MyDatabaseId));
}

/* Log one line, without the statement, which may contain a prompt. */
static void
log_slow(const RequestTracking *n, const RequestEnded *e, const RequestFigures *r)
{
	StringInfoData s;
	char	   *state = find_tracestate(e->message, e->message_len);

	initStringInfo(&s);
	append_ms(&s, "queue", r->queue_us);
	append_ms(&s, "prefill", r->prefill_us);
	append_ms(&s, "decode", r->decode_us);
	appendStringInfo(&s, ", tokens prompt " INT64_FORMAT " cached " INT64_FORMAT " output " INT64_FORMAT,
					 r->prompt_tokens, r->cached_tokens, r->output_tokens);
	if (r->preemptions > 0)
		appendStringInfo(&s, ", preemptions " INT64_FORMAT, r->preemptions);
	if (r->draft_tokens > 0)
		appendStringInfo(&s, ", drafts " INT64_FORMAT " accepted " INT64_FORMAT, r->draft_tokens,
						 r->accepted_tokens);
	appendStringInfo(&s, ", finish %s, %s", r->reason, role_and_database(n->roleid));
	if (n->query_id != 0)
		appendStringInfo(&s, ", query id " INT64_FORMAT, (int64) n->query_id);
	if (n->traceparent[0] != '\0')
		appendStringInfo(&s, ", traceparent %s", n->traceparent);
	if (state[0] != '\0')
		appendStringInfo(&s, ", tracestate %s", state);
	ereport(LOG,
			(errmsg("LLM request " INT64_FORMAT " (%s) of model \"%s\"%s%s%s took %.3f ms%s", e->id,
					kind_name(n->kind), e->model, n->lora[0] != '\0' ? " with adapter \"" : "", n->lora,
					n->lora[0] != '\0' ? "\"" : "", r->total_us / 1000.0, s.data),
			 errhidestmt(true), errhidecontext(true)));
	pfree(s.data);
}

static void
read_live(RequestFigures *r, const WireSlot *live)
{
	r->prompt_tokens = atomic_load_explicit(&live->prompt_tokens, memory_order_relaxed);
	r->cached_tokens = atomic_load_explicit(&live->cached_tokens, memory_order_relaxed);
	r->output_tokens = atomic_load_explicit(&live->output_tokens, memory_order_relaxed);
	r->preemptions = atomic_load_explicit(&live->preemptions, memory_order_relaxed);
}

/*
 * If the endpoint was working on the request, it may charge for it, although no client waits for the
 * result.
 */
static void
read_unanswered(RequestFigures *r, const WireSlot *live)
{
	if (r->prompt_tokens == 0 && atomic_load_explicit(&live->phase, memory_order_relaxed) == WP_RUNNING)
		r->charged_tries = 1;
}

/* Charge the request.  If an endpoint reports no tokens, they are estimated: its service isn't free. */
static void
settle(RequestTracking *n, const char *model, RequestEnd end, const RequestFigures *r)
{
	CostTokens	t = {r->prompt_tokens, r->cached_tokens, r->output_tokens, r->charged_tries};

	if (n->remote && end == REQUEST_DONE && t.prompt == 0 && t.output == 0)
	{
		t.prompt = cost_prompt_estimate(&n->cost);
		t.output = (r->text_bytes + 3) / 4;
	}
	cost_settle(&n->cost, model, &t);
}

void
request_note_end(RequestTracking *n, const RequestEnded *e)
{
	RequestFigures r = {.queue_us = -1, .prefill_us = -1, .decode_us = -1, .total_us = -1};
	RequestEnd	end = e->end;

	if (!n->counts)
		return;
	if (e->live != NULL)
		read_live(&r, e->live);
	if (e->reply != NULL)
		end = read_figures(&r, end, e->reply, e->reply_len);
	else if (e->live != NULL && n->remote)
		read_unanswered(&r, e->live);
	settle(n, e->model, end, &r);
	if (r.total_us < 0)
		r.total_us = Max(GetCurrentTimestamp() - n->start, 0);
	if (end != REQUEST_DONE)
		strlcpy(r.reason, end == REQUEST_FAILED ? "error" : "abort", sizeof(r.reason));
	else if (r.reason[0] == '\0')
		strlcpy(r.reason, "stop", sizeof(r.reason));
	request_stat_count(n, end, e->model, &r);
	if (vllm_log_min_duration >= 0 && r.total_us >= (int64) vllm_log_min_duration * 1000 &&
		!proc_exit_inprogress)
		log_slow(n, e, &r);
}

void
request_note_put_trace(WireOut *o)
{
	if (vllm_traceparent[0] != '\0')
		wire_put_str(o, WTAG_TRACEPARENT, vllm_traceparent, strlen(vllm_traceparent));
	if (vllm_tracestate[0] != '\0')
		wire_put_str(o, WTAG_TRACESTATE, vllm_tracestate, strlen(vllm_tracestate));
}
