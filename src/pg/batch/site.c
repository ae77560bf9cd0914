/*
 * site.c
 *	  Call sites of the batch node: from a row's arguments to a request.
 *
 * A site evaluates its arguments and guards at most once for each row, in the node's `ahead`
 * context.  That context is reset before each evaluation, so the input's fields are copies.  If no
 * slot is free, they stay with the site (pending) until they are sent.
 *
 * The head of a request (engine_func.h) needs options, settings and the catalog, which is most of the
 * work.  A site keeps it while everything it depends on is unchanged, but at most HEAD_MS, so that a
 * model that another session drops or revokes is noticed soon.  The first head of a site with
 * constant options is made only for the head row: an error in the options is an error of the first
 * row that needs them.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/assert.h"
#include "pg/batch/node.h"
#include "pg/compat.h"
#include "pg/vllm_pg.h"

#define HEAD_MS		100

/* bytes of a buffer that are kept between requests */
#define KEEP_BUFFER	(1024 * 1024)

/* ---- Begin ---- */

/* Check the EXECUTE privilege, as ExecInitFunc() does for an inline call. */
static void
check_execute(Oid funcid)
{
	AclResult	r = compat_proc_aclcheck(funcid, GetUserId(), ACL_EXECUTE);

	if (r != ACLCHECK_OK)
		aclcheck_error(r, OBJECT_FUNCTION, get_func_name(funcid));
	InvokeFunctionExecuteHook(funcid);
}

static void
init_args(BatchNode *n, BatchSite *s)
{
	ListCell   *lc;
	int			i = 0;

	s->nargs = list_length(s->call->args);
	s->fixed_head = true;
	s->args = palloc0(sizeof(ExprState *) * s->nargs);
	s->head_args = palloc0(sizeof(NullableDatum) * s->nargs);
	s->arg_len = palloc0(sizeof(int16) * s->nargs);
	s->arg_byval = palloc0(sizeof(bool) * s->nargs);
	s->fcinfo = palloc0(SizeForFunctionCallInfo(s->nargs));
	InitFunctionCallInfoData(*s->fcinfo, &s->flinfo, s->nargs, s->call->func->inputcollid, NULL, NULL);
	foreach(lc, s->call->args)
	{
		Expr	   *arg = lfirst(lc);

		get_typlenbyval(exprType((Node *) arg), &s->arg_len[i], &s->arg_byval[i]);
		if (IsA(arg, Const))
		{
			s->fcinfo->args[i].value = ((Const *) arg)->constvalue;
			s->fcinfo->args[i].isnull = ((Const *) arg)->constisnull;
		}
		else
		{
			s->args[i] = ExecInitExpr(arg, &n->css.ss.ps);
			s->fixed_head &= i < s->engine->n_inputs;
		}
		i++;
	}
}

/* Find out which columns of the scan tuple the arguments and guards use: child columns and results. */
static void
init_deps(BatchNode *n, BatchSite *s)
{
	Bitmapset  *used = NULL;

	pull_varattnos((Node *) s->call->args, INDEX_VAR, &used);
	pull_varattnos((Node *) s->call->guards, INDEX_VAR, &used);
	s->deps = palloc(sizeof(int) * Max(n->n_sites, 1));
	for (int i = 0; i < n->n_sites; i++)
		if (bms_is_member(n->n_child + i + 1 - FirstLowInvalidHeapAttributeNumber, used))
			s->deps[s->n_deps++] = i;
	bms_free(used);
}

void
batch_site_init(BatchNode *n, BatchSite *s, const BatchCall *call, int index)
{
	Oid			funcid = call->func->funcid;

	check_execute(funcid);
	s->call = call;
	s->index = index;
	s->engine = batch_recognise(funcid);
	if (s->engine == NULL)
		elog(ERROR, "function %u is not one of the inference engine", funcid);
	fmgr_info(funcid, &s->flinfo);
	fmgr_info_set_expr((Node *) call->func, &s->flinfo);
	s->rettype = call->func->funcresulttype;
	get_typlenbyval(s->rettype, &s->typlen, &s->typbyval);
	init_args(n, s);
	init_deps(n, s);
	if (call->guards != NIL)
		s->guards = ExecInitQual(call->guards, &n->css.ss.ps);
}

/* ---- heads ---- */

static bool
same_string(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool
settings_fit(const HeadSettings *h)
{
	return h->role == GetUserId() &&
		h->cid == GetCurrentCommandId(false) &&
		h->max_tokens == vllm_default_max_tokens &&
		same_string(h->model, vllm_model) &&
		same_string(h->embedding_model, vllm_embedding_model) &&
		same_string(h->rerank_model, vllm_rerank_model) &&
		same_string(h->params, vllm_default_params) &&
		!TimestampDifferenceExceeds(h->at, GetCurrentTimestamp(), HEAD_MS);
}

static bool
args_fit(const BatchSite *s)
{
	for (int i = s->engine->n_inputs; i < s->nargs; i++)
	{
		const NullableDatum *a = &s->fcinfo->args[i];
		const NullableDatum *b = &s->head_args[i];

		if (s->args[i] == NULL)
			continue;			/* constant */
		if (a->isnull != b->isnull)
			return false;
		if (!a->isnull && !datumIsEqual(a->value, b->value, s->arg_byval[i], s->arg_len[i]))
			return false;
	}
	return true;
}

/* Make the request's head.  Return NULL, or the error that refuses it. */
static ErrorData *
make_head(BatchNode *n, BatchSite *s)
{
	MemoryContext old;
	ErrorData  *refused;

	s->have_head = false;
	if (s->head_cxt == NULL)
		s->head_cxt = AllocSetContextCreate(n->css.ss.ps.state->es_query_cxt,
											"LLM request head", ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(s->head_cxt);
	old = MemoryContextSwitchTo(s->head_cxt);
	memset(&s->head, 0, sizeof(s->head));
	initStringInfo(&s->head.body);
	refused = engine_func_head(s->engine, &s->head, s->fcinfo);
	for (int i = s->engine->n_inputs; i < s->nargs && refused == NULL; i++)
	{
		const NullableDatum *a = &s->fcinfo->args[i];

		s->head_args[i].isnull = a->isnull;
		if (s->args[i] != NULL && !a->isnull)
			s->head_args[i].value = datumCopy(a->value, s->arg_byval[i], s->arg_len[i]);
	}
	s->head_settings = (HeadSettings)
	{
		.role = GetUserId(),.cid = GetCurrentCommandId(false),
			.max_tokens = vllm_default_max_tokens,
			.model = pstrdup(vllm_model ? vllm_model : ""),
			.embedding_model = pstrdup(vllm_embedding_model ? vllm_embedding_model : ""),
			.rerank_model = pstrdup(vllm_rerank_model ? vllm_rerank_model : ""),
			.params = pstrdup(vllm_default_params ? vllm_default_params : ""),
			.at = GetCurrentTimestamp()
	};
	MemoryContextSwitchTo(old);
	s->have_head = refused == NULL;
	return refused;
}

/* ---- a call ---- */

static void
eval_args(BatchNode *n, BatchSite *s)
{
	for (int i = 0; i < s->nargs; i++)
	{
		NullableDatum *a = &s->fcinfo->args[i];

		if (s->args[i] != NULL)
			a->value = ExecEvalExpr(s->args[i], n->ahead, &a->isnull);
	}
}

static bool
input_is_null(const BatchSite *s)
{
	for (int i = 0; i < s->engine->n_inputs; i++)
		if (s->fcinfo->args[i].isnull)
			return true;
	return false;
}

/* Empty the buffer, which is in the rows' memory; free it first if it is large. */
static void
reset_buffer(BatchNode *n, StringInfo s)
{
	MemoryContext old;

	if (s->data != NULL && s->maxlen <= KEEP_BUFFER)
	{
		resetStringInfo(s);
		return;
	}
	old = MemoryContextSwitchTo(n->rows_cxt);
	if (s->data != NULL)
		pfree(s->data);
	s->data = NULL;
	initStringInfo(s);
	MemoryContextSwitchTo(old);
}

/*
 * Append the input's fields to s->input.  Return the error of an input that is refused, or NULL.
 * *forgiven: by the head's options, the caller wants NULL for the error.
 */
static ErrorData *
take_input(BatchNode *n, BatchSite *s, bool *forgiven)
{
	SqlRequest	r = {0};
	ErrorData  *refused;
	ErrorData  *wrong = NULL;

	reset_buffer(n, &s->input);
	r.body = s->input;
	refused = engine_func_input(s->engine, &r, s->fcinfo);
	s->input = r.body;
	if (refused != NULL && (!s->have_head || (s->fixed_head && !settings_fit(&s->head_settings))))
		wrong = make_head(n, s);
	*forgiven = refused != NULL && wrong == NULL && on_error_forgives_input(s->head.on_error, refused);
	return wrong ? wrong : refused;
}

SiteStart
batch_site_eval(BatchNode *n, BatchSite *s, BatchRow *row, BatchRequest **request)
{
	MemoryContext old;
	ErrorData  *refused = NULL;
	bool		forgiven = false;

	ASSERT(s->pending == NULL);
	ResetExprContext(n->ahead);
	if (s->guards != NULL && !ExecQual(s->guards, n->ahead))
		return SITE_SKIP;
	old = MemoryContextSwitchTo(n->ahead->ecxt_per_tuple_memory);
	eval_args(n, s);
	if (input_is_null(s))
	{
		MemoryContextSwitchTo(old);
		return SITE_NULL;
	}
	if (!s->fixed_head && (!s->have_head || !settings_fit(&s->head_settings) || !args_fit(s)))
		refused = make_head(n, s);
	if (refused == NULL)
		refused = take_input(n, s, &forgiven);
	if (refused == NULL)
		s->pending = row;
	else
	{
		*request = batch_request_failed(n->pool, refused, forgiven);
		n->stats.failed += forgiven;
	}
	MemoryContextSwitchTo(old);
	return refused == NULL ? SITE_PENDING : SITE_REFUSED;
}

BatchRequest *
batch_site_send(BatchNode *n, BatchSite *s, bool is_head)
{
	SqlRequest	r;
	BatchRequest *request;

	if (!s->have_head && !is_head)
		return NULL;
	if (s->fixed_head && (!s->have_head || !settings_fit(&s->head_settings)))
	{
		ErrorData  *refused = make_head(n, s);

		if (refused != NULL && !is_head)
			return NULL;		/* an error of the first row that needs it */
		if (refused != NULL)
			ThrowErrorData(refused);
	}
	if (n->stats.calls == 0)
		INSTR_TIME_SET_CURRENT(n->begun);
	r = s->head;
	reset_buffer(n, &n->body);
	appendBinaryStringInfo(&n->body, s->head.body.data, s->head.body.len);
	appendBinaryStringInfo(&n->body, s->input.data, s->input.len);
	r.body = n->body;
	request = batch_request_start(n->pool, s->engine, &r, &n->stats,
								  n->may_wait && batch_pool_stats(n->pool)->in_flight == 0);
	if (request != NULL)
		s->pending = NULL;
	return request;
}
