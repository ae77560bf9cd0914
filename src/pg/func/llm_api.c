/*
 * llm_api.c
 *	  llm_api (a row of engine_func.def), llm_api_stream.
 *
 * Bodies of OpenAI's and Anthropic's interfaces are sent unchanged to the engine, which reads and
 * answers them (server/api/api_call.h).  The backend looks the body's "model" up in the catalog, with
 * the current user's privileges, and reports unknown members as warnings.  v1_chat_completions() and
 * similar functions are SQL functions that the planner inlines.
 *
 * With on_error => 'return', an error that refuses the body becomes the result, whether the engine or
 * the backend finds it.  Error bodies are made only in the engine, so the backend sends its own
 * errors to it.
 *
 * Tests: tests/sql/30_bodies.sql.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonfuncs.h"

#include "pg/call/api_args.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_api_stream);

#define ARG_PATH		0
#define ARG_BODY		1
#define ARG_ON_ERROR	2

/* endpoints that need no model */
#define MODELS_PATH		"/v1/models"
#define RESPONSE_PATH	"/v1/responses/"
/* endpoints that change the catalog */
#define LOAD_LORA_PATH	"/v1/load_lora_adapter"
#define UNLOAD_LORA_PATH	"/v1/unload_lora_adapter"
/* endpoint whose responses are stored */
#define RESPONSES_PATH	"/v1/responses"

typedef enum UnknownParams
{
	UNKNOWN_WARN = 0, UNKNOWN_ERROR, UNKNOWN_IGNORE
} UnknownParams;

static const struct config_enum_entry unknown_values[] = {
	{"warn", UNKNOWN_WARN, false},
	{"error", UNKNOWN_ERROR, false},
	{"ignore", UNKNOWN_IGNORE, false},
	{NULL, 0, false}
};

static int	vllm_unknown_params = UNKNOWN_WARN;
static bool vllm_trust_request_chat_template = false;

void
vllm_api_init(void)
{
	DefineCustomEnumVariable("vllm.unknown_params",
							 "Sets what happens to unknown fields of a request's body (llm_api and the v1_ "
							 "functions).", NULL,
							 &vllm_unknown_params, UNKNOWN_WARN, unknown_values,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("vllm.trust_request_chat_template",
							 "Lets a request's body bring a chat template of its own.",
							 NULL,
							 &vllm_trust_request_chat_template, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
}

/* ---- requests ---- */

/* Return true for on_error => 'return'. */
static bool
errors_as_body(FunctionCallInfo fcinfo)
{
	char	   *how;

	if (PG_NARGS() <= ARG_ON_ERROR || PG_ARGISNULL(ARG_ON_ERROR))
		return false;
	how = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ON_ERROR));
	if (strcmp(how, "return") != 0 && strcmp(how, "raise") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("on_error must be \"raise\" or \"return\", got \"%s\"", how)));
	return strcmp(how, "return") == 0;
}

/* llm_api(path text, body json, on_error text) */
void
api_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);
	const char *unknown = unknown_values[vllm_unknown_params].name;

	r->kind = WK_API;
	/* or the body's model, which input() sets; a copy, because a head may outlive the setting's value */
	r->model = vllm_model != NULL ? pstrdup(vllm_model) : NULL;
	r->timeout_ms = 0;
	r->deterministic = false;
	r->on_error = ON_ERROR_RAISE;	/* an argument decides instead */
	wire_put_int(&out, WTAG_API_AS_BODY, errors_as_body(fcinfo));
	wire_put_str(&out, WTAG_API_UNKNOWN, unknown, strlen(unknown));
	wire_put_int(&out, WTAG_API_TRUST_TEMPLATE, vllm_trust_request_chat_template);
	wire_put_int(&out, WTAG_API_PROMPT_EMBEDS, vllm_enable_prompt_embeds);
	if (vllm_tool_call_parser != NULL && vllm_tool_call_parser[0] != '\0')
		wire_put_text(&out, WTAG_API_TOOL_PARSER, vllm_tool_call_parser, strlen(vllm_tool_call_parser));
	if (vllm_reasoning_parser != NULL && vllm_reasoning_parser[0] != '\0')
		wire_put_text(&out, WTAG_API_REASONING_PARSER, vllm_reasoning_parser, strlen(vllm_reasoning_parser));
}

/*
 * Return a member of the body, by json_object_field() or json_object_field_text(); NULL if there is
 * none.
 */
static char *
body_field(PGFunction get, FunctionCallInfo fcinfo, const char *name)
{
	LOCAL_FCINFO(call, 2);
	Datum		value;

	InitFunctionCallInfoData(*call, NULL, 2, InvalidOid, NULL, NULL);
	call->args[0].value = PG_GETARG_DATUM(ARG_BODY);
	call->args[0].isnull = false;
	call->args[1].value = CStringGetTextDatum(name);
	call->args[1].isnull = false;
	value = get(call);
	return call->isnull ? NULL : TextDatumGetCString(value);
}

/* Like body_field(), as text; NULL if the value is null. */
static char *
body_member(FunctionCallInfo fcinfo, const char *name)
{
	return body_field(json_object_field_text, fcinfo, name);
}

/* Return the name of the model that the body asks for; NULL: none. */
static char *
body_model(FunctionCallInfo fcinfo)
{
	char	   *name = body_member(fcinfo, "model");

	if (name != NULL && body_field(json_object_field, fcinfo, "model")[0] != '"')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model must be a string, got %s", name),
				 errdetail("parameter=model")));
	return name;
}

static bool
is_text(const char *s, const char *word)
{
	return s != NULL && strcmp(s, word) == 0;
}

/* Return the path without trailing slashes, as the engine expects it. */
static char *
get_path(FunctionCallInfo fcinfo)
{
	char	   *path = text_to_cstring(PG_GETARG_TEXT_PP(ARG_PATH));

	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	return path;
}

/* Append the models, and their adapters, that the caller may use. */
static void
put_list(WireOut *out)
{
	ListCell   *model;
	ListCell   *lora;

	foreach(model, catalog_list())
	{
		const ModelRow *m = lfirst(model);

		if (!catalog_may_use(m, GetUserId()))
			continue;
		wire_put_text(out, WTAG_API_MODEL, m->name, strlen(m->name));
		foreach(lora, lora_list(m->name))
		{
			const LoraRow *l = lfirst(lora);
			/* with SQL_ASCII: a body can't contain bytes that are not text */
			bool		is_text = GetDatabaseEncoding() != PG_SQL_ASCII ||
				pg_verify_mbstr(PG_UTF8, l->path, strlen(l->path), true);
			const char *root = is_text && lora_may_see_path(l) ? l->path : l->name;

			if (!lora_may_use(l, GetUserId()))
				continue;
			wire_put_text(out, WTAG_API_MODEL, l->name, strlen(l->name));
			wire_put_text(out, WTAG_API_ROOT, root, strlen(root));
			wire_put_text(out, WTAG_API_PARENT, m->name, strlen(m->name));
		}
	}
}

/* Return the use that the endpoint makes of its model. */
static ModelUse
path_use(const char *path, FunctionCallInfo fcinfo)
{
	static const char *const versions[] = {"/v1/", "/v2/", "/"};
	const char *name = path;
	char	   *task;

	for (int i = 0; i < (int) lengthof(versions); i++)
		if (strncmp(path, versions[i], strlen(versions[i])) == 0)
		{
			name += strlen(versions[i]);
			break;
		}
	if (strcmp(name, "score") == 0 || strcmp(name, "rerank") == 0)
		return USE_RERANK;
	if (strcmp(name, "embeddings") == 0)
		return USE_EMBED;
	if (strcmp(name, "pooling") != 0)
		return USE_ANY;
	task = body_member(fcinfo, "task");
	return is_text(task, "embed") || is_text(task, "token_embed") ? USE_EMBED : USE_ANY;
}

/* Refuse endpoints that have no body and control the engine; they are separate SQL functions. */
static void
refuse_control(const char *path)
{
	static const struct
	{
		const char *method;
		const char *name;
	}			control[] = {
#define CONTROL_ENDPOINT(method, name) {method, name},
#include "ipc/control_endpoints.def"
#undef CONTROL_ENDPOINT
	};

	for (int i = 0; i < (int) lengthof(control); i++)
		if (path[0] == '/' && strcmp(path + 1, control[i].name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s is not supported by llm_api()", path),
					 errdetail("It controls the engine and takes no body; its parameters are in the query "
							   "string of a %s request.", control[i].method),
					 errhint("Call llm_%s(), or send the request to the HTTP server while vllm.http_dev_mode "
							 "is on.",
							 control[i].name)));
}

static void
put_model(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);
	char	   *path = get_path(fcinfo);
	ModelRow   *model;
	bool		by_default;

	if (strcmp(path, RESPONSES_PATH) == 0 && !is_text(body_member(fcinfo, "store"), "false"))
	{
		/* fail before the model does work that can't be stored */
		PreventCommandIfReadOnly("/v1/responses without \"store\": false");
		PreventCommandIfParallelMode("/v1/responses without \"store\": false");
	}
	if (strncmp(path, RESPONSE_PATH, strlen(RESPONSE_PATH)) == 0)
	{
		vclient_put_identity(&out);
		return;
	}
	if (strncmp(path, MODELS_PATH, strlen(MODELS_PATH)) == 0)
	{
		vclient_put_identity(&out);
		put_list(&out);
		return;
	}
	if (strcmp(path, LOAD_LORA_PATH) == 0 || strcmp(path, UNLOAD_LORA_PATH) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s is not supported by llm_api()", path),
				 errhint("Call v1_%s().", path + strlen("/v1/"))));
	refuse_control(path);
	model = catalog_for_use_as(path_use(path, fcinfo), body_model(fcinfo), NULL, &by_default);
	r->model = model->name;
	catalog_put(model, &out);
	catalog_put_default(model, by_default, &out);
}

/*
 * Append the stored items that the request needs.  Their errors are raised with any on_error: the
 * function runs a query, and only the end of the transaction can clean up after it.
 */
static void
put_stored(WireOut *out, FunctionCallInfo fcinfo)
{
	char	   *path = get_path(fcinfo);
	bool		creates = strcmp(path, RESPONSES_PATH) == 0;
	char	   *stored;

	if (!creates && strncmp(path, RESPONSE_PATH, strlen(RESPONSE_PATH)) != 0)
		return;
	stored = api_store_find(path, creates ? body_member(fcinfo, "previous_response_id") : NULL);
	if (stored != NULL)
		wire_put_text(out, WTAG_API_PREVIOUS, stored, strlen(stored));
}

/* Replace the body by the error that refuses it. */
static void
put_refusal(SqlRequest *r, const ErrorData *e)
{
	WireOut		out = vclient_out(&r->body);
	const char *state = unpack_sql_state(e->sqlerrcode);

	wire_put_str(&out, WTAG_SQLSTATE, state, strlen(state));
	wire_put_text(&out, WTAG_MESSAGE, e->message, strlen(e->message));
	if (e->detail != NULL)
		wire_put_text(&out, WTAG_DETAIL, e->detail, strlen(e->detail));
	if (e->hint != NULL)
		wire_put_text(&out, WTAG_HINT, e->hint, strlen(e->hint));
}

ErrorData *
api_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const EngineFunc looks_up = {.head = put_model};
	text	   *path = PG_GETARG_TEXT_PP(ARG_PATH);
	text	   *body = PG_GETARG_TEXT_PP(ARG_BODY);
	WireOut		out = vclient_out(&r->body);
	int			from = r->body.len;
	ErrorData  *refused = generate_check_length("body", body);

	if (refused == NULL)
		refused = engine_func_head(&looks_up, r, fcinfo);
	if (refused != NULL && !errors_as_body(fcinfo))
		return refused;
	if (refused == NULL)
		put_stored(&out, fcinfo);
	wire_put_text(&out, WTAG_API_PATH, VARDATA_ANY(path), VARSIZE_ANY_EXHDR(path));
	if (refused == NULL)
		wire_put_text(&out, WTAG_API_BODY, VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body));
	else
	{
		r->body.len = from;		/* remove the fields appended so far */
		wire_put_text(&out, WTAG_API_PATH, VARDATA_ANY(path), VARSIZE_ANY_EXHDR(path));
		put_refusal(r, refused);
	}
	return NULL;
}

/* ---- results ---- */

static void
raise_warnings(const char *fields, size_t n)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_API_WARNING)
			ereport(WARNING,
					(errmsg("%s", text_to_cstring(text_from_wire(f.s, f.n))),
					 errhint("The setting vllm.unknown_params controls how unknown fields are handled.")));
}

/* Return the reply's HTTP status. */
static int64
status_of(const char *fields, size_t n)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_API_STATUS)
			return f.i;
	return 0;
}

Datum
api_result(const Reply *reply, Oid rettype, bool *isnull)
{
	text	   *body = reply_text(reply);

	raise_warnings(reply->fields, reply->fields_len);
	if (status_of(reply->fields, reply->fields_len) == 200)
		api_store_response(reply->request, reply->request_len, body);
	*isnull = false;
	return PointerGetDatum(body);
}

/* ---- llm_api_stream(path text, body json, on_error text) ---- */

typedef struct ApiStream
{
	SqlRequest	request;		/* its body must live as long as the call */
	ClientCall *call;
	bool		finished;
	text	   *last;			/* the previous chunk; in memory of its own */
	MemoryContext cxt;
} ApiStream;

static void
stream_begin(ApiStream *s, FunctionCallInfo fcinfo, MemoryContext cxt)
{
	ErrorData  *refused;
	WireOut		out;

	s->cxt = cxt;
	initStringInfo(&s->request.body);
	api_head(&s->request, fcinfo);
	refused = api_input(&s->request, fcinfo);
	if (refused)
		ThrowErrorData(refused);
	out = vclient_out(&s->request.body);
	wire_put_int(&out, WTAG_STREAM, 1);
	vclient_require_for(&s->request.body);
	s->call = vcall_begin(cxt, s->request.kind, &s->request.body, s->request.model, s->request.timeout_ms);
}

/* The last chunk contains the whole response: store it. */
static void
keep_last(ApiStream *s, const text *chunk)
{
	if (s->last != NULL)
		pfree(s->last);
	s->last = (text *) MemoryContextAlloc(s->cxt, VARSIZE_ANY(chunk));
	memcpy(s->last, chunk, VARSIZE_ANY(chunk));
}

static void
store_streamed(ApiStream *s)
{
	LOCAL_FCINFO(call, 2);
	Datum		response;

	InitFunctionCallInfoData(*call, NULL, 2, InvalidOid, NULL, NULL);
	call->args[0].value = PointerGetDatum(s->last);
	call->args[0].isnull = false;
	call->args[1].value = CStringGetTextDatum("response");
	call->args[1].isnull = false;
	response = json_object_field(call);
	if (!call->isnull)
		api_store_response(s->request.body.data, s->request.body.len, DatumGetTextPP(response));
}

Datum
llm_api_stream(PG_FUNCTION_ARGS)
{
	FuncCallContext *fctx;
	ApiStream  *s;
	CallFrame	f;
	Reply		reply;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		fctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(fctx->multi_call_memory_ctx);
		s = palloc0(sizeof(ApiStream));
		fctx->user_fctx = s;
		if (PG_ARGISNULL(ARG_PATH) || PG_ARGISNULL(ARG_BODY))
			s->finished = true;
		else
			stream_begin(s, fcinfo, fctx->multi_call_memory_ctx);
		MemoryContextSwitchTo(old);
	}

	fctx = SRF_PERCALL_SETUP();
	s = fctx->user_fctx;
	if (s->finished)
		SRF_RETURN_DONE(fctx);
	generate_next(s->call, &f);
	reply_read(&reply, &f);
	row = PointerGetDatum(reply_text(&reply));
	if (!f.final)
	{
		keep_last(s, DatumGetTextPP(row));
		SRF_RETURN_NEXT(fctx, row);
	}
	/* the final frame has a chunk only if that is an error */
	s->finished = true;
	raise_warnings(f.data, f.len);
	if (s->last != NULL && status_of(f.data, f.len) == 200)
		store_streamed(s);
	vcall_end(s->call);
	if (VARSIZE_ANY_EXHDR(DatumGetPointer(row)) == 0)
		SRF_RETURN_DONE(fctx);
	SRF_RETURN_NEXT(fctx, row);
}
