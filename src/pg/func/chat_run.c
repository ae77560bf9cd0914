/*
 * chat_run.c
 *	  llm_chat_run(): a chat in which the model calls SQL functions; llm_call_tool(): a
 *	  single such call, for callers that run the chat elsewhere.
 *
 * A round is a call of llm_chat(), which has finished and released everything before a tool runs.
 * Each call of a tool is a subtransaction of its own.  If the tool fails, its writes are undone, and
 * its error becomes its result, which the model reads.  Errors that end the statement end it here,
 * too: a cancel, a timeout, the end of the session, a serialization failure, an internal error.
 *
 * Unless the caller says otherwise, the subtransaction is read-only, and rolled back even if the call
 * succeeds: PostgreSQL's read-only mode lets some writes pass (large objects before 16, temporary
 * tables, settings), and in some versions RESET can end it.
 *
 * The model can call only the functions that the caller listed, by OID, with values that are cast to
 * the types of their arguments, and with the caller's privileges.
 *
 * Tests: tests/sql/28_chat_run.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "pg/compat.h"
#include "pg/util/named_args.h"
#include "pg/util/json_tree.h"
#include "pg/call/tool.h"

PG_FUNCTION_INFO_V1(llm_chat_run);
PG_FUNCTION_INFO_V1(llm_call_tool);

#define ARG_MESSAGES	0
#define ARG_TOOLS		1
#define ARG_ROUNDS		2
#define ARG_READ_ONLY	3
#define MAX_TOOLS		128		/* OpenAI's limit */

typedef struct ChatRound
{
	bool		read_only;
	int			n_tools;
	Tool	  **tools;
	StringInfoData messages;	/* the conversation, without its brackets */
	text	   *malformed;		/* messages that are not an array, for llm_chat() to refuse; or NULL */
	int			n_messages;
	int64		prompt_tokens,
				completion_tokens;

	/* llm_chat() and its arguments */
	FmgrInfo	chat;
	FunctionCallInfo call;
	int			arg_messages;
	int			arg_tool_choice;
	int			arg_params;
} ChatRound;

/* ---- llm_chat() ---- */

/* Return the extension's function of this name; another role may have created one with the same name. */
static Oid
find_chat(FunctionCallInfo fcinfo)
{
	Oid			extension = getExtensionOfObject(ProcedureRelationId, fcinfo->flinfo->fn_oid);
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum("llm_chat"));
	Oid			found = InvalidOid;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_proc f = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		if (OidIsValid(extension) && getExtensionOfObject(ProcedureRelationId, f->oid) == extension)
			found = f->oid;
	}
	ReleaseSysCacheList(list);
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function llm_chat does not exist"),
				 errdetail("llm_chat_run calls the function of its own extension.")));
	return found;
}

static void
check_execute(Oid funcid)
{
	AclResult	r = compat_proc_aclcheck(funcid, GetUserId(), ACL_EXECUTE);

	if (r != ACLCHECK_OK)
		aclcheck_error(r, OBJECT_FUNCTION, get_func_name(funcid));
}

/* Arguments of the same name are passed on to llm_chat(). */
static void
prepare_chat(ChatRound *run, FunctionCallInfo fcinfo, const char *tools)
{
	Oid			funcid = find_chat(fcinfo);
	FunctionCallInfo call;
	char	  **names;
	Oid		   *types;
	char	   *modes;
	HeapTuple	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	int			n = get_func_arg_info(tup, &types, &names, &modes);

	check_execute(funcid);
	fmgr_info(funcid, &run->chat);
	call = palloc0(SizeForFunctionCallInfo(n));
	InitFunctionCallInfoData(*call, &run->chat, n, InvalidOid, NULL, NULL);
	for (int i = 0; i < n; i++)
	{
		int			own = fn_arg(fcinfo, names[i]);

		call->args[i].isnull = true;
		if (own > ARG_READ_ONLY)
			call->args[i] = fcinfo->args[own];
	}
	ReleaseSysCache(tup);
	run->call = call;
	run->arg_messages = fn_arg(call, "messages");
	if (run->arg_messages < 0 || fn_arg(call, "tools") < 0)
		elog(ERROR, "llm_chat has no arguments messages and tools");
	run->arg_tool_choice = fn_arg(call, "tool_choice");
	run->arg_params = fn_arg(call, "params");
	call->args[run->arg_messages].isnull = false;
	if (run->n_tools > 0)
	{
		NullableDatum *a = &call->args[fn_arg(call, "tools")];

		a->value = CStringGetTextDatum(tools);
		a->isnull = false;
	}
}

/* ---- the conversation ---- */

static void
add_message(ChatRound *run, const char *json)
{
	appendStringInfo(&run->messages, "%s%s", run->n_messages++ > 0 ? ", " : "", json);
}

static void
put_member(StringInfo out, const JsonNode *object, const char *name)
{
	const JsonNode *m = json_tree_get(object, name);

	if (m == NULL || m->kind == JSON_NULL)
		return;
	appendStringInfo(out, ", \"%s\": ", name);
	appendBinaryStringInfo(out, m->raw, m->raw_len);
}

static void
add_answer(ChatRound *run, const JsonNode *answer)
{
	StringInfoData s;
	const JsonNode *content = json_tree_get(answer, "content");

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"role\": \"assistant\", \"content\": ");
	if (content == NULL)
		appendStringInfoString(&s, "null");
	else
		appendBinaryStringInfo(&s, content->raw, content->raw_len);
	put_member(&s, answer, "reasoning");
	put_member(&s, answer, "tool_calls");
	appendStringInfoChar(&s, '}');
	add_message(run, s.data);
}

static char *
result_message(const char *id, const char *name, const char *content)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"role\": \"tool\", \"tool_call_id\": ");
	escape_json(&s, id);
	appendStringInfoString(&s, ", \"name\": ");
	escape_json(&s, name);
	appendStringInfoString(&s, ", \"content\": ");
	escape_json(&s, content);
	appendStringInfoChar(&s, '}');
	return s.data;
}

static int64
count_of(const JsonNode *usage, const char *name)
{
	const JsonNode *m = usage != NULL && usage->kind == JSON_OBJECT ? json_tree_get(usage, name) : NULL;

	return m != NULL && m->kind == JSON_NUMBER ? strtoll(m->text, NULL, 10) : 0;
}

/* A tool_choice that forces a call applies to the first round only, or the model could never finish. */
static void
free_choice(ChatRound *run)
{
	NullableDatum *params = run->arg_params >= 0 ? &run->call->args[run->arg_params] : NULL;
	JsonNode   *tree;
	StringInfoData rest;

	/* json null overrides vllm.default_params, too */
	if (run->arg_tool_choice >= 0)
		run->call->args[run->arg_tool_choice] = (NullableDatum) {CStringGetTextDatum("null"), false};
	if (params == NULL || params->isnull)
		return;
	tree = json_tree(DatumGetTextPP(params->value));
	if (tree->kind != JSON_OBJECT || json_tree_get(tree, "tool_choice") == NULL)
		return;
	initStringInfo(&rest);
	for (const JsonNode *m = tree->first; m != NULL; m = m->next)
	{
		if (strcmp(m->key, "tool_choice") == 0)
			continue;
		appendStringInfoString(&rest, rest.len > 0 ? ", " : "{");
		escape_json(&rest, m->key);
		appendStringInfo(&rest, ": %.*s", m->raw_len, m->raw);
	}
	appendStringInfoString(&rest, rest.len > 0 ? "}" : "{}");
	params->value = PointerGetDatum(cstring_to_text_with_len(rest.data, rest.len));
}

/* Run one round and add the output to the conversation; return NULL if an error is to be NULL. */
static const JsonNode *
call_model(ChatRound *run)
{
	Datum		answer;
	const JsonNode *tree;
	const JsonNode *usage;

	run->call->args[run->arg_messages].value = run->malformed ? PointerGetDatum(run->malformed) :
		CStringGetTextDatum(psprintf("[%s]", run->messages.data));
	run->call->isnull = false;
	answer = FunctionCallInvoke(run->call);
	if (run->call->isnull)
		return NULL;
	free_choice(run);
	tree = json_tree(DatumGetTextPP(answer));
	usage = json_tree_get(tree, "usage");
	run->prompt_tokens += count_of(usage, "prompt_tokens");
	run->completion_tokens += count_of(usage, "completion_tokens");
	add_answer(run, tree);
	return tree;
}

/* ---- tools ---- */

static Tool *
find_tool(const ChatRound *run, const char *name)
{
	for (int i = 0; i < run->n_tools; i++)
		if (strcmp(run->tools[i]->name, name) == 0)
			return run->tools[i];
	return NULL;
}

/* Return true if the model gets the error as a result and the chat goes on. */
static bool
is_for_the_model(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
		case ERRCODE_TRANSACTION_ROLLBACK:	/* only the whole transaction can be retried */
			return false;
		default:
			return true;
	}
}

static char *
error_json(const char *message, const char *detail, const char *hint, const char *sqlstate)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"error\": {\"message\": ");
	escape_json(&s, message);
	if (detail != NULL)
	{
		appendStringInfoString(&s, ", \"detail\": ");
		escape_json(&s, detail);
	}
	if (hint != NULL)
	{
		appendStringInfoString(&s, ", \"hint\": ");
		escape_json(&s, hint);
	}
	appendStringInfo(&s, ", \"sqlstate\": \"%s\"}}", sqlstate);
	return s.data;
}

/*
 * Raise an error for writes that read-only mode let pass: they are undone, so the model must not be
 * told that they succeeded.  Temporary tables are allowed, as a function's scratch space.
 */
static void
check_unwritten(const Tool *t)
{
	if (TransactionIdIsValid(GetCurrentTransactionIdIfAny()) &&
		!(MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE))
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("tool %s must not write in a read-only call", t->name)));
}

/* Call the tool in a subtransaction; return the result, or the error instead of it. */
static char *
call_safely(const ChatRound *run, Tool *t, const char *arguments)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *volatile result = NULL;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		if (run->read_only)
			XactReadOnly = true;	/* the end of the subtransaction restores it */
		result = tool_call(t, json_tree(cstring_to_text(arguments)));
		if (run->read_only)
			check_unwritten(t);
		else
			ReleaseCurrentSubTransaction();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *e;

		MemoryContextSwitchTo(cxt);
		e = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (!is_for_the_model(e->sqlerrcode))
			ReThrowError(e);
		result = error_json(e->message, e->detail, e->hint, unpack_sql_state(e->sqlerrcode));
		FreeErrorData(e);
	}
	PG_END_TRY();
	if (done && run->read_only)
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return result;
}

/* Return a member that is a string, or NULL. */
static const char *
string_of(const JsonNode *object, const char *name)
{
	const JsonNode *m = object != NULL && object->kind == JSON_OBJECT ? json_tree_get(object, name) : NULL;

	return m != NULL && m->kind == JSON_STRING ? m->text : NULL;
}

/* Return the arguments: a string with JSON text, as in OpenAI's format, or an object, as in others. */
static const char *
arguments_of(const JsonNode *function)
{
	const JsonNode *m = json_tree_get(function, "arguments");

	if (m == NULL || m->kind == JSON_NULL)
		return "{}";
	if (m->kind == JSON_STRING)
		return m->text[0] == '\0' ? "{}" : m->text;
	return pnstrdup(m->raw, m->raw_len);
}

/* Return the message with a call's result. */
static char *
run_call(const ChatRound *run, const JsonNode *call)
{
	const JsonNode *function = call->kind == JSON_OBJECT ? json_tree_get(call, "function") : NULL;
	const char *id = string_of(call, "id");
	const char *name = string_of(function, "name");
	Tool	   *t = name != NULL ? find_tool(run, name) : NULL;
	char	   *result;

	if (t == NULL)
		result = error_json(psprintf("there is no tool \"%s\"", name != NULL ? name : ""), NULL, NULL,
							"42883");
	else
		result = call_safely(run, t, arguments_of(function));
	return result_message(id != NULL ? id : "", name != NULL ? name : "", result);
}

/* ---- the functions ---- */

static void
read_tools(ChatRound *run, ArrayType *array)
{
	Datum	   *values;
	bool	   *nulls;

	deconstruct_array(array, REGPROCEDUREOID, sizeof(Oid), true, TYPALIGN_INT, &values, &nulls,
					  &run->n_tools);
	if (run->n_tools > MAX_TOOLS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%d tools are too many", run->n_tools),
				 errdetail("The limit is %d.", MAX_TOOLS)));
	run->tools = palloc(sizeof(Tool *) * Max(run->n_tools, 1));
	for (int i = 0; i < run->n_tools; i++)
	{
		Tool	   *t;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a tool must not be null")));
		t = tool_of_function(DatumGetObjectId(values[i]));
		(void) LookupExplicitNamespace(t->schema, false);	/* checks USAGE */
		check_execute(t->funcid);
		for (int j = 0; j < i; j++)
			if (strcmp(run->tools[j]->name, t->name) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_FUNCTION),
						 errmsg("two tools have the name \"%s\"", t->name)));
		run->tools[i] = t;
	}
}

static void
read_messages(ChatRound *run, text *messages)
{
	JsonNode   *tree = json_tree(messages);

	if (tree->kind != JSON_ARRAY)
		run->malformed = messages;
	initStringInfo(&run->messages);
	if (run->malformed)
		return;
	for (const JsonNode *m = tree->first; m != NULL; m = m->next)
	{
		CHECK_FOR_INTERRUPTS();
		add_message(run, pnstrdup(m->raw, m->raw_len));
	}
}

static char *
tools_json(const ChatRound *run)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < run->n_tools; i++)
	{
		appendStringInfoString(&s, i > 0 ? ", " : "[");
		tool_json(&s, run->tools[i]);
	}
	appendStringInfoChar(&s, ']');
	return s.data;
}

/* {"content": ..., "finish_reason": ..., "rounds": n, "usage": {...}, "messages": [...]} */
static text *
outcome(const ChatRound *run, const JsonNode *answer, const char *reason, int rounds)
{
	StringInfoData s;
	const JsonNode *content = json_tree_get(answer, "content");

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"content\": ");
	if (content == NULL)
		appendStringInfoString(&s, "null");
	else
		appendBinaryStringInfo(&s, content->raw, content->raw_len);
	appendStringInfoString(&s, ", \"finish_reason\": ");
	escape_json(&s, reason);
	appendStringInfo(&s, ", \"rounds\": %d, \"usage\": {\"prompt_tokens\": "
					 INT64_FORMAT ", \"completion_tokens\": " INT64_FORMAT
					 ", \"total_tokens\": " INT64_FORMAT "}, \"messages\": [%s]}", rounds, run->prompt_tokens,
					 run->completion_tokens, run->prompt_tokens + run->completion_tokens, run->messages.data);
	return cstring_to_text_with_len(s.data, s.len);
}

/* llm_chat_run(messages json, tools regprocedure[], max_rounds int, read_only bool, options of llm_chat) */
Datum
llm_chat_run(PG_FUNCTION_ARGS)
{
	ChatRound	run = {0};
	int			max_rounds;

	if (PG_ARGISNULL(ARG_MESSAGES))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(ARG_TOOLS) || PG_ARGISNULL(ARG_ROUNDS) || PG_ARGISNULL(ARG_READ_ONLY))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("tools, max_rounds and read_only must not be null")));
	max_rounds = PG_GETARG_INT32(ARG_ROUNDS);
	if (max_rounds < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rounds must be at least 1, got %d", max_rounds)));
	run.read_only = PG_GETARG_BOOL(ARG_READ_ONLY);
	read_tools(&run, PG_GETARG_ARRAYTYPE_P(ARG_TOOLS));
	read_messages(&run, PG_GETARG_TEXT_PP(ARG_MESSAGES));
	prepare_chat(&run, fcinfo, tools_json(&run));
	for (int round = 1;; round++)
	{
		const JsonNode *answer = call_model(&run);
		const JsonNode *calls;
		const char *reason;

		if (answer == NULL)
			PG_RETURN_NULL();
		calls = json_tree_get(answer, "tool_calls");
		reason = string_of(answer, "finish_reason");
		if (calls == NULL || calls->kind != JSON_ARRAY || calls->n == 0)
			PG_RETURN_TEXT_P(outcome(&run, answer, reason != NULL ? reason : "", round));
		if (round == max_rounds)
			PG_RETURN_TEXT_P(outcome(&run, answer, "max_rounds", round));
		for (const JsonNode *c = calls->first; c != NULL; c = c->next)
			add_message(&run, run_call(&run, c));
	}
}

/* llm_call_tool(tool_call json, tools regprocedure[], read_only bool) */
Datum
llm_call_tool(PG_FUNCTION_ARGS)
{
	ChatRound	run = {.read_only = PG_GETARG_BOOL(2)};
	JsonNode   *call = json_tree(PG_GETARG_TEXT_PP(0));

	if (call->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a tool call must be an object, not %s", json_kind_name(call->kind))));
	read_tools(&run, PG_GETARG_ARRAYTYPE_P(1));
	PG_RETURN_TEXT_P(cstring_to_text(run_call(&run, call)));
}
