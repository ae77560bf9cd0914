/*
 * lora_ddl.c
 *	  llm_create_lora, llm_alter_lora, llm_drop_lora, llm_load_lora, llm_unload_lora.
 *
 * As with models (model_ddl.c), create, alter and drop change a row of vllm.lora and roll back with
 * the transaction; create, and alter with a new path, make the engine check the files first.  Load
 * and unload act on the engine at once and are not transactional.  The engine unloads a dropped
 * adapter when the transaction commits (lora_invalidate.c).
 *
 * Privileges: create, and changing the path: superusers and members of pg_read_server_files who may
 * use the model; everything else: the adapter's owner and superusers.  An adapter of vllm.lora_dir is
 * loaded and unloaded by the owner of its model.
 *
 * Tests: tests/sql/33_lora.sql, tests/t/091_lora.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/catalog/lora_invalidate.h"
#include "pg/ddl/model_args.h"
#include "pg/ddl/model_depend.h"

PG_FUNCTION_INFO_V1(llm_create_lora);
PG_FUNCTION_INFO_V1(llm_alter_lora);
PG_FUNCTION_INFO_V1(llm_drop_lora);
PG_FUNCTION_INFO_V1(llm_load_lora);
PG_FUNCTION_INFO_V1(llm_unload_lora);

/* ---- requests to the engine ---- */

/* Send a message about an adapter of m and wait until the engine has processed it; pin < 0: not given. */
static void
notify_engine(WireKind kind, const ModelRow *m, int pin)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	if (pin >= 0)
		wire_put_int(&out, WTAG_LORA_PIN, pin);
	vcall_simple(kind, &body, m->name, 0, CurrentMemoryContext, &f, &call);
	vcall_end(call);
}

/*
 * Make the engine check the files.  Whether they fit the model is not checked, as the model might
 * have to be loaded for that.
 */
static void
check_files(ModelRow *m, LoraRow *l)
{
	m->lora = l;
	notify_engine(WK_LORA_CHECK, m, -1);
}

/* ---- arguments ---- */

static bool
has_parent_dir(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")) != NULL; p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == '\0' || p[2] == '/'))
			return true;
	return false;
}

/* Check that the path is absolute and has no "..", so that the files are where the text says. */
static char *
check_path(char *path)
{
	catalog_check_absolute(path);
	if (has_parent_dir(path))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("path \"%s\" must not contain \"..\"", path)));
	canonicalize_path(path);
	return path;
}

static void
check_free_name(const char *name)
{
	if (catalog_find(name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("model \"%s\" already exists", name),
				 errdetail("Adapters and models share one name space.")));
}

static void
not_in(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
}

/* Return the model for an adapter, NULL: vllm.model. */
static ModelRow *
base_model(const char *name)
{
	ModelRow   *m = catalog_model_for_use(name);

	catalog_require_local(m, "llm_create_lora()");
	/* locked, so that it can't be dropped meanwhile */
	catalog_lock(m->name);
	if (m->lora == NULL)
		m = catalog_model_for_use(m->name);
	if (m->lora != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is an adapter, not a model", m->lora->name),
				 errhint("It belongs to model \"%s\".", m->name)));
	return m;
}

/* ---- create, alter, drop ---- */

/* Give the new row the owner and grants of the old one. */
static void
keep_rights(LoraRow *l, const LoraRow *old)
{
	l->owner = old->owner;
	l->grantees = old->grantees;
	l->n_grantees = old->n_grantees;
}

void
lora_create(char *name, const char *model, char *path, bool replace)
{
	LoraRow		l = {.name = name,.owner = GetUserId(),.created = GetCurrentTransactionStartTimestamp()};
	LoraRow    *old;
	ModelRow   *m;

	not_in("llm_create_lora()");
	model_check_name("adapter", name);
	model_check_may_read("permission denied to create an adapter");
	l.path = check_path(path);
	catalog_lock(name);
	m = base_model(model);
	l.model = m->name;
	check_free_name(name);
	old = lora_find(name);
	if (old != NULL && !replace)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("adapter \"%s\" already exists", name),
				 errhint("Use replace => true to replace it.")));
	if (old != NULL)
		keep_rights(&l, lora_for_owner(name));
	check_files(m, &l);
	if (old == NULL)
		lora_insert(&l);
	else
	{
		if (strcmp(old->path, l.path) != 0 || strcmp(old->model, l.model) != 0)
			lora_release(old);
		lora_update(name, &l);
	}
}

/* llm_create_lora(name text, model text, path text, replace bool) */
Datum
llm_create_lora(PG_FUNCTION_ARGS)
{
	char	   *name = model_arg(fcinfo, 0, "adapter name");
	char	   *model = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));

	lora_create(name, model, model_arg(fcinfo, 2, "path"), !PG_ARGISNULL(3) && PG_GETARG_BOOL(3));
	PG_RETURN_VOID();
}

/* llm_alter_lora(name text, path text, new_name text): NULL leaves a value unchanged */
Datum
llm_alter_lora(PG_FUNCTION_ARGS)
{
	char	   *name = model_arg(fcinfo, 0, "adapter name");
	LoraRow    *l;

	not_in("llm_alter_lora()");
	catalog_lock(name);
	l = lora_for_owner(name);
	if (!PG_ARGISNULL(1))
	{
		LoraRow		old = *l;

		model_check_may_read("permission denied to change the path of an adapter");
		l->path = check_path(model_arg(fcinfo, 1, "path"));
		check_files(base_model(l->model), l);
		lora_release(&old);
	}
	if (!PG_ARGISNULL(2))
	{
		l->name = model_arg(fcinfo, 2, "new name");
		model_check_name("adapter", l->name);
		catalog_lock(l->name);
		check_free_name(l->name);
		if (lora_find(l->name) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("adapter \"%s\" already exists", l->name)));
	}
	lora_update(name, l);
	PG_RETURN_VOID();
}

void
lora_drop(const char *name, bool cascade)
{
	LoraRow    *l;

	not_in("llm_drop_lora()");
	catalog_lock(name);
	l = lora_for_owner(name);
	if (cascade)
		depend_drop_lora(name);
	else
		depend_refuse_lora(name);
	lora_release(l);
	lora_delete(name);
}

/*
 * While the function waits for an adapter's lock, the adapter may be renamed, or get another model.
 * New ones wait for the model's lock, which this session holds.
 */
void
lora_drop_all(const char *model)
{
	List	   *rows;
	ListCell   *lc;

	while ((rows = lora_list(model)) != NIL)
		foreach(lc, rows)
		{
			const char *name = ((LoraRow *) lfirst(lc))->name;
			LoraRow    *l;

			catalog_lock(name);
			l = lora_find(name);
			if (l == NULL || strcmp(l->model, model) != 0)
				continue;
			depend_drop_lora(name);
			ereport(NOTICE,
					(errmsg("drop cascades to adapter \"%s\"", name)));
			lora_release(l);
			lora_delete(name);
		}
}

/* llm_drop_lora(name text), llm_drop_lora(name text, cascade bool) */
Datum
llm_drop_lora(PG_FUNCTION_ARGS)
{
	lora_drop(model_arg(fcinfo, 0, "adapter name"),
			  PG_NARGS() > 1 && !PG_ARGISNULL(1) && PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

/* ---- load and unload ---- */

/* Return the model with the adapter, if the current user may load and unload it. */
static ModelRow *
loadable(const char *name)
{
	ModelRow   *m = catalog_for_use(NULL, name);

	catalog_require_local(m, "llm_load_lora()");
	if (m->lora->from_dir)
		(void) catalog_model_for_owner(m->name);
	else
		(void) lora_for_owner(name);
	return m;
}

void
lora_load(const char *name, int pin)
{
	notify_engine(WK_LORA_LOAD, loadable(name), pin);
}

/* llm_load_lora(name text, pin bool) */
Datum
llm_load_lora(PG_FUNCTION_ARGS)
{
	lora_load(model_arg(fcinfo, 0, "adapter name"), PG_ARGISNULL(1) ? -1 : PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

/* llm_unload_lora(name text) */
Datum
llm_unload_lora(PG_FUNCTION_ARGS)
{
	notify_engine(WK_LORA_UNLOAD, loadable(model_arg(fcinfo, 0, "adapter name")), -1);
	PG_RETURN_VOID();
}
