/*
 * secret.c
 *	  The table vllm.secret, and llm_set_secret, llm_drop_secret.
 *
 * Only the extension's owner and superusers have privileges on the table; row-level security without
 * a policy keeps out roles that may read all tables (pg_read_all_data).  No function returns a
 * secret: it is read here and put into requests to the remote program (catalog_put), which sends it
 * to the model's endpoints. pg_dump leaves the rows out, as it does with rows of an extension's
 * tables unless they are configured for dumping.  secret_log.c masks secrets in the statements that
 * set them.
 *
 * As with vllm.model (model_catalog.c), rows are read with a catalog snapshot; a secret is deleted
 * with its model.
 *
 * Tests: tests/sql/33_remote_models.sql, tests/t/114_secrets.pl.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pg/catalog/model_catalog.h"
#include "pg/catalog/secret.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_set_secret);
PG_FUNCTION_INFO_V1(llm_drop_secret);

#define SECRET_MOST	4096		/* bytes */

/* columns of vllm.secret, in order */
enum
{
	COL_MODEL = 1, COL_SECRET, N_COLS = COL_SECRET
};

/* A database whose extension has not been updated has no such table. */
static Oid
table_oid(void)
{
	return catalog_own_relation("secret");
}

static SysScanDesc
scan_begin(Relation rel, const char *model, NameData *key_name)
{
	ScanKeyData key;

	namestrcpy(key_name, model);
	ScanKeyInit(&key, COL_MODEL, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(key_name));
	return systable_beginscan(rel, catalog_relation("secret_pkey"), true, NULL, 1, &key);
}

char *
secret_find(const char *model)
{
	Oid			relid = table_oid();
	Relation	rel;
	SysScanDesc scan;
	NameData	key_name;
	HeapTuple	tuple;
	char	   *secret = NULL;

	if (!OidIsValid(relid))
		return NULL;
	rel = table_open(relid, AccessShareLock);
	scan = scan_begin(rel, model, &key_name);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		d = heap_getattr(tuple, COL_SECRET, RelationGetDescr(rel), &isnull);

		secret = isnull ? NULL : TextDatumGetCString(d);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return secret;
}

bool
secret_delete(const char *model)
{
	Oid			relid = table_oid();
	Relation	rel;
	SysScanDesc scan;
	NameData	key_name;
	HeapTuple	tuple;
	bool		found;

	if (!OidIsValid(relid))
		return false;
	rel = table_open(relid, RowExclusiveLock);
	scan = scan_begin(rel, model, &key_name);
	found = HeapTupleIsValid(tuple = systable_getnext(scan));
	if (found)
		CatalogTupleDelete(rel, &tuple->t_self);
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
	return found;
}

/* The caller holds catalog_lock() of the model's name. */
static void
secret_put(const char *model, const char *secret)
{
	Relation	rel;
	NameData	name;
	Datum		values[N_COLS];
	bool		nulls[N_COLS] = {0};

	(void) secret_delete(model);
	rel = table_open(catalog_relation("secret"), RowExclusiveLock);
	namestrcpy(&name, model);
	values[COL_MODEL - 1] = NameGetDatum(&name);
	values[COL_SECRET - 1] = CStringGetTextDatum(secret);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/* ---- functions ---- */

/*
 * Return the model of argument 0, which the current user must own.  The errors don't show the name:
 * if a user swaps the arguments, it is the secret.
 */
static ModelRow *
owned_model(FunctionCallInfo fcinfo, const char *function)
{
	char	   *name;
	ModelRow   *m;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("model name must not be null")));
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	catalog_lock(name);
	m = catalog_find(name);
	if (m == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the model that %s names does not exist", function),
				 errhint("The first argument is the name of a model that the view llm_models lists.")));
	m = catalog_model_for_owner(name);
	if (!catalog_is_remote(m))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s is not supported for model \"%s\"", function, m->name),
				 errdetail("The model is local: no endpoint needs a secret.")));
	return m;
}

/* Check that the secret fits in an HTTP header. */
static void
check_secret(const char *secret)
{
	if (secret[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("secret must not be empty"),
				 errhint("llm_drop_secret() removes a model's secret.")));
	if (strlen(secret) > SECRET_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("secret is too long"),
				 errdetail("It may have at most %d bytes.", SECRET_MOST)));
	for (const char *p = secret; *p != '\0'; p++)
		if (*p < ' ' || *p > '~' || (*p == ' ' && (p == secret || p[1] == '\0')))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("secret is not valid"),
					 errdetail("It must be of printable ASCII characters, without spaces around it.")));
}

/* llm_set_secret(model text, secret text) */
Datum
llm_set_secret(PG_FUNCTION_ARGS)
{
	char	   *secret = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));
	ModelRow   *m;

	secret_log_know(secret);
	PreventCommandIfReadOnly("llm_set_secret()");
	PreventCommandIfParallelMode("llm_set_secret()");
	m = owned_model(fcinfo, "llm_set_secret()");
	if (secret == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("secret must not be null"),
				 errhint("llm_drop_secret() removes a model's secret.")));
	check_secret(secret);
	secret_put(m->name, secret);
	PG_RETURN_VOID();
}

/* llm_drop_secret(model text): false if it had none */
Datum
llm_drop_secret(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("llm_drop_secret()");
	PreventCommandIfParallelMode("llm_drop_secret()");
	PG_RETURN_BOOL(secret_delete(owned_model(fcinfo, "llm_drop_secret()")->name));
}
