/*
 * lora_catalog.c
 *	  The table vllm.lora: adapters of models, and the roles that may use them.
 *
 * Adapters and models share one space of names: where a call names a model, an adapter's name means
 * "its model, with this adapter" (catalog_for_use).  As for vllm.model (model_catalog.c), scans use a
 * catalog snapshot and changes hold a lock on the name.
 *
 * PRIVILEGES.  The user of an adapter needs privileges on the adapter and on its model, as with a
 * table and its schema.  So an adapter's owner, who may not own the model, can't grant the use of the
 * model; and revoking the model from a role revokes all its adapters.
 *
 * DIRECTORY.  A name that is in neither table is looked up in vllm.lora_dir.  An adapter found there
 * belongs to vllm.model, and each role that may use that model may use it: the superuser who set the
 * directory, and the users who can write there, have decided that.  Such a name can't lead out of the
 * directory: it has no slash and does not begin with a dot.
 *
 * Tests: tests/sql/33_lora.sql, tests/t/091_lora.pl.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/vllm_pg.h"

/* columns of vllm.lora, in order */
enum
{
	COL_NAME = 1, COL_MODEL, COL_PATH, COL_OWNER, COL_GRANTEES, COL_CREATED, N_COLS = COL_CREATED
};

#define CONFIG_FILE		"adapter_config.json"

char	   *vllm_lora_dir = "";
bool		vllm_allow_runtime_lora = false;

/* ---- settings ---- */

static bool
check_lora_dir(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] != '\0' && !is_absolute_path(*newval))
	{
		GUC_check_errdetail("\"%s\" is not an absolute path.", *newval);
		return false;
	}
	if ((*newval)[0] != '\0')
		canonicalize_path(*newval);
	return true;
}

void
lora_init(void)
{
	DefineCustomStringVariable("vllm.lora_dir",
							   "Names a directory of adapters that calls may name without llm_create_lora(); "
							   "empty means none.", NULL,
							   &vllm_lora_dir, "",
							   PGC_SUSET, GUC_SUPERUSER_ONLY, check_lora_dir, NULL, NULL);
	DefineCustomBoolVariable("vllm.allow_runtime_lora",
							 "Lets requests' bodies add and remove adapters (/v1/load_lora_adapter, "
							 "/v1/unload_lora_adapter).", NULL,
							 &vllm_allow_runtime_lora, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
}

/* ---- rows in and out ---- */

/* A database whose extension has not been updated has no such table. */
static Oid
table_oid(void)
{
	return catalog_own_relation("lora");
}

static LoraRow *
row_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Datum		values[N_COLS];
	bool		nulls[N_COLS];
	LoraRow    *l = palloc0(sizeof(LoraRow));

	if (desc->natts != N_COLS)
		elog(ERROR, "vllm.lora has %d columns, expected %d", desc->natts, N_COLS);
	heap_deform_tuple(tuple, desc, values, nulls);
	l->name = pstrdup(NameStr(*DatumGetName(values[COL_NAME - 1])));
	l->model = pstrdup(NameStr(*DatumGetName(values[COL_MODEL - 1])));
	l->path = TextDatumGetCString(values[COL_PATH - 1]);
	l->owner = DatumGetObjectId(values[COL_OWNER - 1]);
	l->grantees = catalog_roles(values[COL_GRANTEES - 1], &l->n_grantees);
	l->created = DatumGetTimestampTz(values[COL_CREATED - 1]);
	return l;
}

/* Start a scan for one name (NULL: all, in order) on an open relation. */
static SysScanDesc
scan_begin(Relation rel, const char *name, NameData *key_name)
{
	ScanKeyData key;

	if (name)
	{
		namestrcpy(key_name, name);
		ScanKeyInit(&key, COL_NAME, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(key_name));
	}
	return systable_beginscan(rel, catalog_relation("lora_pkey"), true, NULL, name ? 1 : 0, &key);
}

LoraRow *
lora_find(const char *name)
{
	Relation	rel;
	SysScanDesc scan;
	NameData	key_name;
	HeapTuple	tuple;
	LoraRow    *l = NULL;

	if (strlen(name) >= NAMEDATALEN || !OidIsValid(table_oid()))
		return NULL;
	rel = table_open(table_oid(), AccessShareLock);
	scan = scan_begin(rel, name, &key_name);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		l = row_from_tuple(tuple, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return l;
}

static int
row_name_cmp(const ListCell *a, const ListCell *b)
{
	return strcmp(((LoraRow *) lfirst(a))->name, ((LoraRow *) lfirst(b))->name);
}

List *
lora_list(const char *model)
{
	Relation	rel;
	NameData	unused;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *rows = NIL;

	if (!OidIsValid(table_oid()))
		return NIL;
	rel = table_open(table_oid(), AccessShareLock);
	scan = scan_begin(rel, NULL, &unused);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		LoraRow    *l = row_from_tuple(tuple, RelationGetDescr(rel));

		if (model == NULL || strcmp(l->model, model) == 0)
			rows = lappend(rows, l);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(rows, row_name_cmp);
	return rows;
}

/* ---- the directory ---- */

/* Return true if the name may be a file's in the directory. */
static bool
is_plain_name(const char *name)
{
	return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < NAMEDATALEN;
}

/*
 * Return the model of a name (NULL: vllm.model): the name itself, or the model of the adapter with
 * this name.  Return NULL if no model is named.
 */
static const char *
base_of(const char *name)
{
	LoraRow    *l;

	if (name == NULL)
		name = vllm_model;
	if (name == NULL || name[0] == '\0')
		return NULL;
	if (catalog_find(name) == NULL && (l = lora_find(name)) != NULL)
		return l->model;
	return name;
}

/* Return the directory's adapter of that name, for a model; NULL if there is none, or no directory. */
static LoraRow *
find_in_dir(const char *name, const char *model)
{
	struct stat st;
	LoraRow    *l;
	char	   *path;

	if (vllm_lora_dir == NULL || vllm_lora_dir[0] == '\0' || model == NULL || !is_plain_name(name))
		return NULL;
	errno = ENOTDIR;
	if (stat(vllm_lora_dir, &st) != 0 || !S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("could not look for adapter \"%s\" in the directory of vllm.lora_dir: %m", name),
				 errdetail_log("The directory is \"%s\".", vllm_lora_dir)));
	path = psprintf("%s/%s", vllm_lora_dir, name);
	if (stat(psprintf("%s/%s", path, CONFIG_FILE), &st) != 0)
		return NULL;
	l = palloc0(sizeof(LoraRow));
	l->name = pstrdup(name);
	l->model = pstrdup(model);
	l->path = path;
	l->from_dir = true;
	return l;
}

/* ---- by name ---- */

LoraRow *
lora_resolve(const char *name)
{
	LoraRow    *l = lora_find(name);
	const char *base = l == NULL ? base_of(NULL) : NULL;

	/* a model is not an adapter of itself */
	if (l == NULL && base != NULL && strcmp(base, name) != 0)
		l = find_in_dir(name, base);
	return l;
}

static void
not_found(const char *name)
{
	bool		dir = vllm_lora_dir != NULL && vllm_lora_dir[0] != '\0';

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("adapter \"%s\" does not exist", name),
			 dir && !is_plain_name(name) ?
			 errdetail("A name with a slash, or that begins with a dot, is not looked up in the directory of "
					   "vllm.lora_dir.") :
			 dir ? errdetail("The directory of vllm.lora_dir has no adapter of this name either.") : 0,
			 catalog_find(name) != NULL ?
			 errhint("A model has this name; the view llm_loras lists the adapters of this database.") :
			 errhint("Adapters of this database are listed in the view llm_loras; "
					 "llm_create_lora() adds one.")));
}

/* A call has only one adapter: if it gives lora, its model must not be the name of another adapter. */
static void
check_is_no_adapter(const char *model, const char *lora)
{
	LoraRow    *other = catalog_find(model) == NULL ? lora_resolve(model) : NULL;

	if (other != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a call can't use two adapters, \"%s\" and \"%s\"", model, lora),
				 errdetail("parameter=lora, value=%s; the argument model is \"%s\", which is also an "
						   "adapter, of model \"%s\".", lora, model, other->model),
				 errhint("Omit the argument model, or name the adapter's model in it.")));
}

LoraRow *
lora_named(const char *name, const char *model)
{
	LoraRow    *l = lora_find(name);

	if (model != NULL && model[0] != '\0' && strcmp(model, name) != 0)
		check_is_no_adapter(model, name);
	if (l == NULL)
		l = find_in_dir(name, base_of(model));
	if (l == NULL)
		not_found(name);
	if (model != NULL && model[0] != '\0' && strcmp(base_of(model), l->model) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("adapter \"%s\" does not belong to model \"%s\"", l->name, model),
				 errdetail("parameter=lora, value=%s; it belongs to model \"%s\".", l->name, l->model),
				 errhint("Omit the argument model; the adapter determines it.")));
	return l;
}

/* ---- privileges ---- */

static bool
lora_is_owner(const LoraRow *l, Oid role)
{
	return superuser_arg(role) || (OidIsValid(l->owner) && has_privs_of_role(role, l->owner));
}

bool
lora_may_use(const LoraRow *l, Oid role)
{
	return l->from_dir || catalog_is_granted(l->grantees, l->n_grantees, role) || lora_is_owner(l, role);
}

bool
lora_or_model_may_use(const char *name, Oid role)
{
	const ModelRow *m = catalog_find(name);
	const LoraRow *l = m == NULL ? lora_find(name) : NULL;

	if (l != NULL)
		m = catalog_find(l->model);
	return m != NULL && SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) && catalog_may_use(m, role) &&
		(l == NULL || lora_may_use(l, role));
}

bool
lora_may_see_path(const LoraRow *l)
{
	return lora_is_owner(l, GetUserId()) || has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES);
}

void
lora_check_use(const LoraRow *l)
{
	if (!lora_may_use(l, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for adapter \"%s\"", l->name),
				 errhint("The owner of an adapter can grant its use with llm_grant().")));
}

LoraRow *
lora_for_owner(const char *name)
{
	LoraRow    *l = lora_find(name);

	if (l == NULL && lora_resolve(name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("adapter \"%s\" is in the directory of vllm.lora_dir and not registered in the "
						"database", name),
				 errdetail("It has no owner and no grants: every role that may use its model may use it."),
				 errhint("Use llm_create_lora() to register it in the database.")));
	if (l == NULL)
		not_found(name);
	if (!lora_is_owner(l, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of adapter \"%s\"", l->name)));
	return l;
}

/* ---- changes ---- */

static HeapTuple
make_tuple(TupleDesc desc, const LoraRow *l)
{
	Datum		values[N_COLS];
	bool		nulls[N_COLS] = {0};
	NameData   *name = palloc(sizeof(NameData));
	NameData   *model = palloc(sizeof(NameData));

	namestrcpy(name, l->name);
	namestrcpy(model, l->model);
	values[COL_NAME - 1] = NameGetDatum(name);
	values[COL_MODEL - 1] = NameGetDatum(model);
	values[COL_PATH - 1] = CStringGetTextDatum(l->path);
	values[COL_OWNER - 1] = ObjectIdGetDatum(l->owner);
	values[COL_GRANTEES - 1] = catalog_roles_datum(l->grantees, l->n_grantees);
	values[COL_CREATED - 1] = TimestampTzGetDatum(l->created);
	return heap_form_tuple(desc, values, nulls);
}

void
lora_insert(const LoraRow *l)
{
	Relation	rel = table_open(catalog_relation("lora"), RowExclusiveLock);

	CatalogTupleInsert(rel, make_tuple(RelationGetDescr(rel), l));
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Delete the row (with == NULL) or replace it. */
static void
change_row(const char *name, const LoraRow *with)
{
	Relation	rel = table_open(catalog_relation("lora"), RowExclusiveLock);
	NameData	key_name;
	SysScanDesc scan = scan_begin(rel, name, &key_name);
	HeapTuple	tuple = systable_getnext(scan);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "adapter \"%s\" vanished", name);
	if (with == NULL)
		CatalogTupleDelete(rel, &tuple->t_self);
	else
		CatalogTupleUpdate(rel, &tuple->t_self, make_tuple(RelationGetDescr(rel), with));
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

void
lora_delete(const char *name)
{
	change_row(name, NULL);
}

void
lora_update(const char *name, const LoraRow *l)
{
	change_row(name, l);
}

/* ---- for the engine ---- */

void
lora_put(const LoraRow *l, WireOut *out)
{
	wire_put_text(out, WTAG_LORA, l->name, strlen(l->name));
	/* a file name is sent as bytes, without conversion */
	wire_put_str(out, WTAG_LORA_PATH, l->path, strlen(l->path));
}
