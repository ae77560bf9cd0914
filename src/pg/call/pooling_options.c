/*
 * pooling_options.c
 *	  Options of llm_embed and related functions, and the code that all of them
 *	  share.
 *
 * pooling_options.def has a row for every option.  A value is taken from the named argument, then
 * from params; vllm.default_params is about generated text and isn't read.  An option that a task
 * can't use is an ERROR; it is never ignored.
 *
 * Tests: tests/sql/17_embed.sql.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/call/options.h"
#include "pg/call/pooling.h"

static const OptDef defs[POPT_COUNT] = {
#define POOL_OPTION(name, tasks, type, tag, lo, hi, rule) \
	[POPT_##name] = {#name, OPT_TYPE_##type, tag, (double) (lo), (double) (hi), rule},
#define POOL_ALIAS(alias, name)
#include "pg/call/pooling_options.def"
#undef POOL_OPTION
#undef POOL_ALIAS
};

static const uint8 option_tasks[POPT_COUNT] = {
#define POOL_OPTION(name, tasks, type, tag, lo, hi, rule) [POPT_##name] = POOL_##tasks,
#define POOL_ALIAS(alias, name)
#include "pg/call/pooling_options.def"
#undef POOL_OPTION
#undef POOL_ALIAS
};

static const OptAlias aliases[] = {
#define POOL_OPTION(name, tasks, type, tag, lo, hi, rule)
#define POOL_ALIAS(alias, name) {#alias, #name},
#include "pg/call/pooling_options.def"
#undef POOL_OPTION
#undef POOL_ALIAS
};

static const OptTable table = {defs, POPT_COUNT, aliases, lengthof(aliases)};

/* ---- options ---- */

/* Raise the error for an option that the task can't use, with the name that the caller gave. */
static void
wrong_task(const PoolFunc *f, const char *name)
{
	StringInfoData fit;

	initStringInfo(&fit);
	for (int i = 0; i < POPT_COUNT; i++)
		if (option_tasks[i] & f->kind)
			appendStringInfo(&fit, "%s%s", fit.len > 0 ? ", " : "", defs[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("parameter \"%s\" does not apply to the task \"%s\"", name, f->task),
			 errhint("Parameters of this task: %s.", fit.data)));
}

static void
check_values(const PoolFunc *f, const OptValue *v)
{
	const OptValue *t = &v[POPT_truncate];
	const OptValue *l = &v[POPT_long_input];

	for (int i = 0; i < POPT_COUNT; i++)
		if (v[i].set && !(option_tasks[i] & f->kind))
			wrong_task(f, defs[i].name);
	if (t->set && t->i == 0)
		options_refuse(&defs[POPT_truncate], defs[POPT_truncate].rule, "0");
	if (l->set && strcmp(l->strs[0], "error") != 0 && strcmp(l->strs[0], "truncate") != 0 &&
		strcmp(l->strs[0], "chunk") != 0)
		options_refuse(&defs[POPT_long_input], defs[POPT_long_input].rule, quote_literal_cstr(l->strs[0]));
	if (l->set && strcmp(l->strs[0], "chunk") == 0 && f->kind != POOL_EMBED)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("long_input \"chunk\" is for embeddings"),
				 errdetail("parameter=long_input, task=%s", f->task),
				 errhint("Use \"truncate\" to cut the input to the length that the model takes.")));
}

/*
 * Two texts of the same kind are compared by their vectors; a query and a document by a model that
 * scores relevance.
 */
static ModelUse
model_use(const PoolFunc *f)
{
	if (f->kind == POOL_EMBED || (f->wants & POOL_WANT_ALIKE))
		return USE_EMBED;
	return f->kind == POOL_SCORE ? USE_RERANK : USE_ANY;
}

void
pool_head(SqlRequest *r, FunctionCallInfo fcinfo, const PoolFunc *f)
{
	OptValue	v[POPT_COUNT] = {0};
	const char *params = NULL;
	ModelRow   *model;
	bool		by_default;
	int			on_error = f->first + f->n_args;
	WireOut		out = vclient_out(&r->body);

	for (int i = 0; i < f->n_args; i++)
	{
		int			arg = f->first + i;

		if (arg >= PG_NARGS() || PG_ARGISNULL(arg) || f->args[i] == POPT_OTHER)
			continue;
		if (f->args[i] == POPT_PARAMS)
			params = text_to_cstring(PG_GETARG_TEXT_PP(arg));
		else
			options_argument(&defs[f->args[i]], &v[f->args[i]], PG_GETARG_DATUM(arg));
	}
	if (on_error < PG_NARGS() && !PG_ARGISNULL(on_error))
		options_argument(&defs[POPT_on_error], &v[POPT_on_error], PG_GETARG_DATUM(on_error));
	if (params)
		options_json(&table, v, params, "params");
	check_values(f, v);
	model = catalog_for_use_as(model_use(f), v[POPT_model].set ? v[POPT_model].strs[0] : NULL,
							   v[POPT_lora].set ? v[POPT_lora].strs[0] : NULL, &by_default);
	r->kind = WK_POOL;
	r->model = model->name;
	r->timeout_ms = v[POPT_timeout_ms].set ? (int) v[POPT_timeout_ms].i : 0;
	r->deterministic = true;
	if (v[POPT_on_error].set)
		r->on_error = on_error_option(v[POPT_on_error].strs[0]);
	catalog_put(model, &out);
	catalog_put_default(model, by_default, &out);
	wire_put_str(&out, WTAG_TASK, f->task, strlen(f->task));
	options_send(&table, v, &out);
	if (f->wants & POOL_WANT_LABELS)
		wire_put_int(&out, WTAG_WANT_LABELS, 1);
	if (f->wants & POOL_WANT_OFFSETS)
		wire_put_int(&out, WTAG_WANT_IDS, 1);
	if (f->wants & POOL_WANT_ALIKE)
		wire_put_int(&out, WTAG_ALIKE, 1);
}

/* ---- inputs ---- */

/* Append a text for a model to read: it must not be empty, nor longer than vllm.max_prompt_bytes. */
static ErrorData *
put_input(SqlRequest *r, FunctionCallInfo fcinfo, int arg, const char *name, WireTag tag)
{
	text	   *t = PG_GETARG_TEXT_PP(arg);
	ErrorData  *refused = generate_check_length(name, t);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL && VARSIZE_ANY_EXHDR(t) == 0)
	{
		refused = palloc0(sizeof(ErrorData));
		refused->elevel = ERROR;
		refused->sqlerrcode = ERRCODE_INVALID_PARAMETER_VALUE;
		refused->message = psprintf("%s must not be empty", name);
		refused->detail = psprintf("parameter=%s, value=''", name);
		refused->hint = psprintf("NULLIF(%s, '') gives NULL for an empty text.", name);
		refused->assoc_context = CurrentMemoryContext;
	}
	if (refused == NULL)
		wire_put_text(&out, tag, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	return refused;
}

ErrorData *
pool_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return put_input(r, fcinfo, 0, "input", WTAG_PROMPT);
}

ErrorData *
pool_input_similar(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ErrorData  *refused = put_input(r, fcinfo, 0, "a", WTAG_PROMPT);

	return refused ? refused : put_input(r, fcinfo, 1, "b", WTAG_PAIR);
}

ErrorData *
pool_input_score(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ErrorData  *refused = put_input(r, fcinfo, 0, "query", WTAG_PROMPT);

	return refused ? refused : put_input(r, fcinfo, 1, "document", WTAG_PAIR);
}

/* ---- results ---- */

Datum
pool_result_number(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return Float4GetDatum(reply_float(reply));
}

Datum
pool_result_row(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_floats(reply, false);
}

Datum
pool_result_rows(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_floats(reply, true);
}
