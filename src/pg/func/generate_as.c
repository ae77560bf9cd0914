/*
 * generate_as.c
 *	  Outputs of an SQL type: llm_generate_as, llm_extract, llm_generate_json (rows of
 *	  engine_func.def).
 *
 * The request contains the type's exact schema, so the model can generate nothing else, and the
 * output is cast here (shape.h).  Two things can go wrong: the output is cut off (max_tokens, the end
 * of the context), or a CHECK that the schema can't express fails.  Both are an ERROR, or NULL if
 * on_error is 'null', like errors of the engine (on_error.h).
 *
 * llm_extract() makes the prompt itself, with a readable form of the schema: as a user's turn if the
 * model has a chat template, else as plain text.
 *
 * The request's NOTE says how to read the result: 'n' for on_error => 'null', '?' for a value that
 * may be null, and 't' with the sample's type modifier, as NULL::varchar(5) has one.
 *
 * Tests: tests/sql/28_types.sql, tests/t/086_types.pl.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/util/named_args.h"
#include "pg/call/generate.h"
#include "pg/call/options.h"
#include "pg/types/shape.h"

#define NOTE_NULL_ON_ERROR	'n'
#define NOTE_NULLABLE		'?'
#define NOTE_TYPMOD			't'

/* The prompt before the text; documented in docs/user/typed-results.md. */
static const char extract_task[] = "Extract what the JSON schema asks for from the text. Answer with JSON "
								   "only.\n\nJSON schema: %s\n\n";

/* ---- requests ---- */

/* Refuse options with which the output would not be the JSON text alone. */
static void
check_options(const GenOptions *o)
{
	const char *bad = NULL;

	if (o->v[OPT_stop].set && o->v[OPT_stop].n > 0)
		bad = "stop";
	else if (o->v[OPT_stop_token_ids].set && o->v[OPT_stop_token_ids].n > 0)
		bad = "stop_token_ids";
	else if (o->v[OPT_detokenize].set && !o->v[OPT_detokenize].i)
		bad = "detokenize";
	if (bad != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s can't be given when the answer is a single JSON text", bad),
				 errdetail("parameter=%s", bad)));
}

/* Without max_tokens the limit is the rest of the context, since an incomplete JSON text is useless. */
static void
head(SqlRequest *r, FunctionCallInfo fcinfo, char *schema, bool nullable, int32 typmod)
{
	GenOptions	options;
	WireOut		out = vclient_out(&r->body);
	char		note[20];
	int			n = 0;

	options_read(&options, fcinfo);
	check_options(&options);
	options_take_schema(&options, schema);
	if (options.default_max_tokens)
		options.v[OPT_max_tokens].set = false;
	generate_head_of(r, &options, 0);
	if (options_on_error(&options) == ON_ERROR_NULL)
		note[n++] = NOTE_NULL_ON_ERROR;
	if (nullable)
		note[n++] = NOTE_NULLABLE;
	n += snprintf(note + n, sizeof(note) - n, "%c%d", NOTE_TYPMOD, typmod);
	wire_put_str(&out, WTAG_NOTE, note, n);
}

/* Return the shape of the argument "sample". */
static TypeShape *
sample_shape(FunctionCallInfo fcinfo, int32 *typmod)
{
	int			arg = fn_arg(fcinfo, "sample");
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, arg);

	if (!OidIsValid(type))
		elog(ERROR, "could not determine the type of the sample");
	*typmod = fn_arg_typmod(fcinfo, arg);
	return type_shape(type, *typmod);
}

/*
 * Return true if the extracted value may be missing.  For an object its members say so, and an array
 * can be empty.
 */
static bool
may_be_missing(const TypeShape *s)
{
	return !s->not_null && s->kind != TYPE_COMPOSITE && s->kind != TYPE_ARRAY && s->kind != TYPE_JSON;
}

static void
type_head(SqlRequest *r, FunctionCallInfo fcinfo, bool extract)
{
	int32		typmod;
	TypeShape  *s = sample_shape(fcinfo, &typmod);
	bool		nullable = extract && may_be_missing(s);
	StringInfoData schema;

	initStringInfo(&schema);
	type_schema(&schema, s, nullable, SCHEMA_EXACT);
	head(r, fcinfo, schema.data, nullable, typmod);
}

static char *
given_schema(FunctionCallInfo fcinfo)
{
	int			arg = fn_arg_given(fcinfo, "schema");

	if (arg < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("schema must not be null")));
	return TextDatumGetCString(PG_GETARG_DATUM(arg));
}

void
generate_as_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	type_head(r, fcinfo, false);
}

void
generate_json_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, given_schema(fcinfo), false, -1);
}

void
extract_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	type_head(r, fcinfo, true);
	chat_put_template(r, fcinfo);
}

void
extract_json_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, given_schema(fcinfo), false, -1);
	chat_put_template(r, fcinfo);
}

/* Append both the user's turn and, for models without a template, the plain prompt. */
static ErrorData *
extract_prompt(SqlRequest *r, FunctionCallInfo fcinfo, const char *schema)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	int			instruction = fn_arg_given(fcinfo, "instruction");
	ErrorData  *refused = generate_check_length("input", input);
	WireOut		out = vclient_out(&r->body);
	StringInfoData s;

	if (refused != NULL)
		return refused;
	initStringInfo(&s);
	appendStringInfo(&s, extract_task, schema);
	if (instruction >= 0)
		appendStringInfo(&s, "%s\n\n", TextDatumGetCString(PG_GETARG_DATUM(instruction)));
	appendStringInfoString(&s, "Text: ");
	appendBinaryStringInfo(&s, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input));
	chat_put_turn(r, NULL, s.data, s.len);
	appendStringInfoString(&s, "\n\nJSON: ");
	wire_put_text(&out, WTAG_PROMPT, s.data, s.len);
	return NULL;
}

ErrorData *
extract_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	int32		typmod;
	TypeShape  *s = sample_shape(fcinfo, &typmod);
	StringInfoData schema;

	initStringInfo(&schema);
	type_schema(&schema, s, may_be_missing(s), SCHEMA_READABLE);
	return extract_prompt(r, fcinfo, schema.data);
}

ErrorData *
extract_json_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return extract_prompt(r, fcinfo, given_schema(fcinfo));
}

/* ---- results ---- */

/* Return the note from a letter on, NULL if the letter isn't there. */
static const char *
noted(const Reply *reply, char what)
{
	WireIn		in = {reply->request, reply->request + reply->request_len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_NOTE)
			return strchr(pnstrdup(f.s, f.n), what);
	return NULL;
}

/*
 * Return NULL for an output that is not a valid value, or report the error, which the batch node
 * keeps for its row.
 */
static Datum
no_value(const Reply *reply, ErrorData *why, bool *isnull)
{
	*isnull = true;
	if (noted(reply, NOTE_NULL_ON_ERROR) != NULL)
		return (Datum) 0;
	if (reply->refused == NULL)
		ThrowErrorData(why);
	*reply->refused = why;
	return (Datum) 0;
}

/* Return an error if the JSON text is cut off, else NULL. */
static ErrorData *
cut_off(const Reply *reply)
{
	bool		no_reason;
	Datum		reason = reply_finish_reason(reply, &no_reason);
	char	   *why = no_reason ? "none" : TextDatumGetCString(reason);
	ErrorData  *e;

	if (strcmp(why, "stop") == 0)
		return NULL;
	e = palloc0(sizeof(ErrorData));
	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	e->message = psprintf("the model's JSON answer is cut off after " INT64_FORMAT " tokens",
						  Max(reply->completion_tokens, 0));
	e->detail = psprintf("finish_reason=%s", why);
	e->hint = pstrdup("Raise max_tokens, limit lengths in the schema, or use on_error => 'null'.");
	e->assoc_context = CurrentMemoryContext;
	return e;
}

Datum
generate_json_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ErrorData  *cut = cut_off(reply);

	if (cut != NULL)
		return no_value(reply, cut, isnull);
	/* the json type's own check, in case the grammar let something pass */
	*isnull = false;
	return DirectFunctionCall1(json_in, CStringGetDatum(text_to_cstring(reply_text(reply))));
}

/*
 * Parse the output; return NULL and set *refused if it nests too deeply, which a grammar doesn't
 * limit.  The error is caught without a subtransaction: the parser holds no resources but memory.
 */
static JsonNode *
answer_tree(const Reply *reply, ErrorData **refused)
{
	MemoryContext cxt = CurrentMemoryContext;
	JsonNode   *volatile tree = NULL;

	PG_TRY();
	{
		tree = json_tree(reply_text(reply));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		*refused = compat_caught_error();
		if (ERRCODE_TO_CATEGORY((*refused)->sqlerrcode) != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return tree;
}

Datum
generate_as_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ErrorData  *refused = cut_off(reply);
	const char *typmod = noted(reply, NOTE_TYPMOD);
	TypeShape  *s = type_shape(rettype, typmod != NULL ? atoi(typmod + 1) : -1);
	JsonNode   *tree = refused == NULL ? answer_tree(reply, &refused) : NULL;
	Datum		value = (Datum) 0;

	if (refused == NULL)
		refused = type_value(s, tree, noted(reply, NOTE_NULLABLE) != NULL, &value, isnull);
	return refused == NULL ? value : no_value(reply, refused, isnull);
}
