/*
 * lora_api.c
 *	  v1_load_lora_adapter, v1_unload_lora_adapter: vLLM's endpoints of these names.
 *
 * They call llm_create_lora() with llm_load_lora(), and llm_drop_lora(), with the same privileges, if
 * vllm.allow_runtime_lora allows requests to do this.  The texts are vLLM's.
 *
 * Tests: tests/sql/33_lora.sql, tests/t/083_http.pl.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

#include "pg/catalog/model_catalog.h"
#include "pg/catalog/lora_catalog.h"

PG_FUNCTION_INFO_V1(llm_v1_load_lora_adapter);
PG_FUNCTION_INFO_V1(llm_v1_unload_lora_adapter);

/* parameter NULL: vLLM's sentence is the whole message, as it becomes that of the HTTP error. */
static void
bad_body(const char *message, const char *parameter)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s", message),
			 parameter ? errdetail("parameter=%s", parameter) : 0));
}

/* Return the body, if requests may load and unload adapters. */
static Jsonb *
get_body(FunctionCallInfo fcinfo)
{
	Jsonb	   *body;

	if (!vllm_allow_runtime_lora)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("requests may not load or unload adapters"),
				 errhint("Set vllm.allow_runtime_lora to on, or use llm_create_lora() and llm_drop_lora(), "
						 "which need no setting.")));
	body = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
											  CStringGetDatum(text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	if (!JB_ROOT_IS_OBJECT(body))
		bad_body("the request must be a json object", NULL);
	return body;
}

static JsonbValue *
member(Jsonb *body, const char *name)
{
	JsonbValue *v = getKeyJsonValueFromContainer(&body->root, name, strlen(name), NULL);

	return v == NULL || v->type == jbvNull ? NULL : v;
}

/* Return NULL if the member is missing or empty. */
static char *
text_member(Jsonb *body, const char *name)
{
	JsonbValue *v = member(body, name);

	if (v != NULL && v->type != jbvString)
		bad_body(psprintf("%s must be a string", name), name);
	return v == NULL || v->val.string.len == 0 ? NULL : pnstrdup(v->val.string.val, v->val.string.len);
}

static bool
bool_member(Jsonb *body, const char *name)
{
	JsonbValue *v = member(body, name);

	if (v != NULL && v->type != jbvBool)
		bad_body(psprintf("%s must be true or false", name), name);
	return v != NULL && v->val.boolean;
}

/* v1_load_lora_adapter(request json): {"lora_name", "lora_path", "load_inplace", "base_model_name"} */
Datum
llm_v1_load_lora_adapter(PG_FUNCTION_ARGS)
{
	Jsonb	   *body = get_body(fcinfo);
	char	   *name = text_member(body, "lora_name");
	char	   *path = text_member(body, "lora_path");
	char	   *base = text_member(body, "base_model_name");
	bool		inplace = bool_member(body, "load_inplace");

	if (name == NULL || path == NULL)
		bad_body("Both 'lora_name' and 'lora_path' must be provided.", NULL);
	if (!inplace && lora_find(name) != NULL)
		bad_body(psprintf("The lora adapter '%s' has already been loaded. If you want to load the adapter in "
						  "place, set 'load_inplace' to True.", name), NULL);
	lora_create(name, base, path, inplace);
	lora_load(name, -1);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("Success: LoRA adapter '%s' added successfully.", name)));
}

/* v1_unload_lora_adapter(request json): {"lora_name"}; "lora_int_id" has no meaning here */
Datum
llm_v1_unload_lora_adapter(PG_FUNCTION_ARGS)
{
	char	   *name = text_member(get_body(fcinfo), "lora_name");

	if (name == NULL)
		bad_body("'lora_name' needs to be provided to unload a LoRA adapter.", NULL);
	if (lora_find(name) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("The lora adapter '%s' cannot be found.", name)));
	lora_drop(name, false);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("Success: LoRA adapter '%s' removed successfully.", name)));
}
