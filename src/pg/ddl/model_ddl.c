/*
 * model_ddl.c
 *	  llm_create_model, llm_inspect_model, llm_drop_model, llm_load_model,
 *	  llm_unload_model, llm_update_weights, llm_grant, llm_revoke (the last two of adapters, too).
 *
 * Create, drop, grant and revoke change a row of vllm.model and roll back with the transaction;
 * model_invalidate.c informs the engine of the outcome.  Create makes the engine check the files
 * first, so there is never a row for a model that can't be loaded.  Load and unload act on the engine
 * at once and are not transactional.
 *
 * A remote model is only a row: its endpoint is not contacted before the first request, or before
 * llm_load_model(), which asks whether it serves the model.
 *
 * Privileges: create and inspect a local model: superusers and pg_read_server_files (the server's
 * user opens the path); create a remote model: roles with EXECUTE on the function, as
 * vllm.allowed_hosts limits the endpoints; everything else: the model's owner and superusers.
 *
 * Tests: tests/sql/06_models.sql, tests/sql/07_privileges.sql, tests/sql/33_remote_models.sql.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "pg/catalog/caller_options.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/ddl/model_args.h"
#include "pg/ddl/model_depend.h"
#include "pg/ddl/model_invalidate.h"
#include "pg/catalog/remote_model_options.h"
#include "pg/client/reply.h"
#include "pg/call/result_cache.h"
#include "pg/catalog/secret.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_create_model);
PG_FUNCTION_INFO_V1(llm_inspect_model);
PG_FUNCTION_INFO_V1(llm_drop_model);
PG_FUNCTION_INFO_V1(llm_load_model);
PG_FUNCTION_INFO_V1(llm_unload_model);
PG_FUNCTION_INFO_V1(llm_update_weights);
PG_FUNCTION_INFO_V1(llm_grant);
PG_FUNCTION_INFO_V1(llm_revoke);

char *
model_arg(FunctionCallInfo fcinfo, int arg, const char *what)
{
	char	   *s;

	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", what)));
	s = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	if (s[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be empty", what)));
	return s;
}

static char *
optional_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

/* Send a message about a model and wait until the engine has processed it. */
static void
notify_engine(WireKind kind, const ModelRow *m)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	vcall_simple(kind, &body, m->name, 0, CurrentMemoryContext, &f, &call);
	vcall_end(call);
}

/* Make the engine check the files of a new model. */
static void
check_files(const ModelRow *m)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	Reply		r;

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	vcall_simple(WK_MODEL_CHECK, &body, m->name, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	if (r.ignored != NULL)
		ereport(NOTICE,
				(errmsg("keys of \"quantization_config\" that only describe the quantization tool are "
						"ignored: %s",
						pnstrdup(r.ignored, r.ignored_len))));
	vcall_end(call);
}

/* ---- create and drop ---- */

static void
check_local(const ModelRow *m)
{
	if (m->url != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a url is not supported by provider \"local\""),
				 errhint("Give the path of the model's files instead, or provider => 'openai'.")));
	if (m->path == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("provider \"local\" needs a path"),
				 errhint("Give the folder or GGUF file of the model as path => '...'.")));
	catalog_check_absolute(m->path);
	caller_options_check(model_options_tree(m->options), m->name);
}

static void
check_openai(const ModelRow *m)
{
	if (m->path != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a path is not supported by provider \"openai\""),
				 errhint("Give the base URL of the endpoint as url => '...'.")));
	if (m->url == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("provider \"openai\" needs a url"),
				 errhint("Give the base URL of the endpoint, as in url => 'https://llm.example.com/v1'.")));
	remote_url_check(m->url, NULL);
	remote_options_check(m->options, m->name);
}

/* Check that the arguments are sufficient for the provider. */
static void
check_provider(const ModelRow *m)
{
	if (strcmp(m->provider, "local") == 0)
		check_local(m);
	else if (strcmp(m->provider, "openai") == 0)
		check_openai(m);
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown provider \"%s\"", m->provider),
				 errhint("Providers are \"local\" (the engine of this server) and \"openai\" (an "
						 "OpenAI-compatible interface at a url).")));
}

void
model_check_name(const char *kind, const char *name)
{
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("%s name \"%s\" is too long", kind, name),
				 errdetail("It may have at most %d bytes.", NAMEDATALEN - 1)));
}

void
model_check_may_read(const char *denied)
{
	if (!superuser() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("%s", denied),
				 errhint("Only roles with privileges of pg_read_server_files may name files of the "
						 "server.")));
}

/*
 * Lock the models that the options name, and warn of those that don't exist.  It is no error, because of
 * two models that are each other's fallback one is created first.
 */
static void
check_named(const ModelRow *m)
{
	ListCell   *lc;

	foreach(lc, caller_options_named(m->options))
	{
		const char *name = lfirst(lc);

		catalog_lock_use(name);
		if (catalog_find(name) == NULL)
			ereport(WARNING,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("model \"%s\" of option \"%s\" does not exist", name,
							caller_options_naming(m->options, name)),
					 lora_find(name) != NULL ? errdetail("\"%s\" is an adapter.", name) : 0,
					 errhint("Check the name, or create the model; until then no request goes to it.")));
	}
}

/* llm_create_model(name text, path text, options json, provider text, url text) */
Datum
llm_create_model(PG_FUNCTION_ARGS)
{
	ModelRow	m = {0};

	PreventCommandIfReadOnly("llm_create_model()");
	PreventCommandIfParallelMode("llm_create_model()");
	m.name = model_arg(fcinfo, 0, "model name");
	model_check_name("model", m.name);
	m.path = optional_arg(fcinfo, 1);
	m.options = optional_arg(fcinfo, 2);
	m.provider = PG_ARGISNULL(3) ? "local" : optional_arg(fcinfo, 3);
	m.url = optional_arg(fcinfo, 4);
	m.owner = GetUserId();
	if (strcmp(m.provider, "local") == 0)
		model_check_may_read("permission denied to create a model");
	check_provider(&m);
	if (m.path != NULL)
		canonicalize_path(m.path);

	catalog_lock(m.name);
	if (catalog_find(m.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("model \"%s\" already exists", m.name)));
	if (lora_find(m.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("adapter \"%s\" already exists", m.name),
				 errdetail("Adapters and models share one name space.")));
	check_named(&m);
	release_created(&m);
	/* an endpoint is not asked, since the transaction must not depend on whether it is reachable */
	if (!catalog_is_remote(&m))
		check_files(&m);
	/* left by a model of this name whose row was deleted by hand */
	(void) secret_delete(m.name);
	catalog_insert(&m);
	PG_RETURN_VOID();
}

/* llm_inspect_model(path text, options json) */
Datum
llm_inspect_model(PG_FUNCTION_ARGS)
{
	ModelRow	m = {.name = "", .provider = "local"};
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	Reply		r;
	text	   *result;

	m.path = model_arg(fcinfo, 0, "path");
	m.options = optional_arg(fcinfo, 1);
	model_check_may_read("permission denied to inspect a model");
	check_provider(&m);
	canonicalize_path(m.path);

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(&m, &out);
	vcall_simple(WK_MODEL_INSPECT, &body, NULL, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	result = reply_text(&r);
	vcall_end(call);
	PG_RETURN_TEXT_P(result);
}

/* llm_drop_model(name text), llm_drop_model(name text, cascade bool) */
Datum
llm_drop_model(PG_FUNCTION_ARGS)
{
	char	   *name = model_arg(fcinfo, 0, "model name");
	bool		cascade = PG_NARGS() > 1 && !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	ModelRow   *m;

	PreventCommandIfReadOnly("llm_drop_model()");
	PreventCommandIfParallelMode("llm_drop_model()");
	catalog_lock(name);
	m = catalog_model_for_owner(name);
	if (m->bundled)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop model \"%s\" because extension vllm_pg requires it", name),
				 errhint("llm_revoke('%s', 'public') keeps others from using it.", name)));
	if (cascade)
	{
		depend_drop_model(m);
		lora_drop_all(name);
	}
	else
		depend_refuse(m);
	release_dropped(m);
	secret_delete(name);
	(void) result_cache_clear(name);
	catalog_delete(name);
	PG_RETURN_VOID();
}

/* ---- load and unload ---- */

/* llm_load_model(name text) */
Datum
llm_load_model(PG_FUNCTION_ARGS)
{
	notify_engine(WK_MODEL_LOAD, catalog_model_for_owner(model_arg(fcinfo, 0, "model name")));
	PG_RETURN_VOID();
}

/* llm_unload_model(name text) */
Datum
llm_unload_model(PG_FUNCTION_ARGS)
{
	ModelRow   *m = catalog_model_for_owner(model_arg(fcinfo, 0, "model name"));

	catalog_require_local(m, "llm_unload_model()");
	notify_engine(WK_MODEL_UNLOAD, m);
	PG_RETURN_VOID();
}

/* ---- new weights ---- */

/*
 * The engine changes the weights at once, and accepts requests with the old path as well until the
 * transaction has ended.  If the transaction is rolled back, the engine forgets the model in its new
 * version, and loads the old files for the next request.
 */
static void
update_weights(const ModelRow *m, const char *mode)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	char	   *command = psprintf("update-weights %s", mode);

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	wire_put_str(&out, WTAG_COMMAND, command, strlen(command));
	vcall_simple(WK_CONTROL, &body, m->name, 0, CurrentMemoryContext, &f, &call);
	vcall_end(call);
}

/* llm_update_weights(model text, path text, mode text) */
Datum
llm_update_weights(PG_FUNCTION_ARGS)
{
	char	   *name = PG_ARGISNULL(0) ? vllm_model : model_arg(fcinfo, 0, "model name");
	char	   *path = optional_arg(fcinfo, 1);
	char	   *mode = optional_arg(fcinfo, 2);
	ModelRow   *m;

	if (mode == NULL || (strcmp(mode, "wait") != 0 && strcmp(mode, "keep") != 0 &&
						 strcmp(mode, "abort") != 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 mode == NULL ? errmsg("mode must not be null") :
				 errmsg("mode must be wait, keep or abort, got \"%s\"", mode),
					 errhint("Running requests are awaited (wait), finish with the old weights (keep), or "
							 "fail (abort).")));
	m = catalog_model_for_owner(name);
	catalog_require_local(m, "llm_update_weights()");
	if (path != NULL)
	{
		PreventCommandIfReadOnly("llm_update_weights()");
		PreventCommandIfParallelMode("llm_update_weights()");
		model_check_may_read("permission denied to change the path of a model");
		catalog_lock(m->name);
		m = catalog_model_for_owner(name);
		if (m->bundled)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot change the path of model \"%s\" because extension vllm_pg requires it",
							m->name)));
		m->path = path;
		check_provider(m);
		canonicalize_path(m->path);
		release_created(m);
	}
	update_weights(m, mode);
	if (!XactReadOnly && !RecoveryInProgress())
		(void) result_cache_clear(m->name);
	if (path != NULL)
		catalog_set_path(m->name, m->path);
	PG_RETURN_VOID();
}

/* ---- grant and revoke ---- */

/* Return the roles without this one, or with grant also with it. */
static Oid *
change_roles(const Oid *old, int *n, Oid role, bool grant)
{
	Oid		   *roles = palloc(sizeof(Oid) * (*n + 1));
	int			kept = 0;

	for (int i = 0; i < *n; i++)
		if (old[i] != role)
			roles[kept++] = old[i];
	if (grant)
		roles[kept++] = role;
	*n = kept;
	return roles;
}

/* Add (grant) the role of argument 1 to the model, or adapter, of argument 0, or remove it. */
static void
change_grant(FunctionCallInfo fcinfo, bool grant)
{
	char	   *name = model_arg(fcinfo, 0, "model name");
	char	   *role_name = model_arg(fcinfo, 1, "role name");
	Oid			role = pg_strcasecmp(role_name, "public") == 0 ? InvalidOid :
		get_role_oid(role_name, false);
	ModelRow   *m;
	LoraRow    *l;

	catalog_lock(name);
	if (catalog_find(name) == NULL && lora_resolve(name) != NULL)
	{
		l = lora_for_owner(name);
		l->grantees = change_roles(l->grantees, &l->n_grantees, role, grant);
		lora_update(name, l);
		return;
	}
	m = catalog_model_for_owner(name);
	m->grantees = change_roles(m->grantees, &m->n_grantees, role, grant);
	catalog_set_grantees(name, m->grantees, m->n_grantees);
}

/* llm_grant(model text, role text) */
Datum
llm_grant(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("llm_grant()");
	PreventCommandIfParallelMode("llm_grant()");
	change_grant(fcinfo, true);
	PG_RETURN_VOID();
}

/* llm_revoke(model text, role text) */
Datum
llm_revoke(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("llm_revoke()");
	PreventCommandIfParallelMode("llm_revoke()");
	change_grant(fcinfo, false);
	PG_RETURN_VOID();
}
