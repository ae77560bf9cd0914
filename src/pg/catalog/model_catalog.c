/*
 * model_catalog.c
 *	  The table vllm.model: a database's models, and the roles that may use them.
 *	  (lora_catalog.c has vllm.lora, their adapters.)
 *
 * Users see it through the view llm_models and change it only through functions, so the code here
 * reads and writes it as core does with its catalogs.  Scans use a catalog snapshot, so the next call
 * of the same transaction sees a model just created.  Only catalog_model_for_use() and
 * catalog_model_for_owner() check privileges.  A change holds a lock on the name until the
 * transaction ends (catalog_lock), so that no session gets "tuple concurrently updated"; readers are
 * never blocked.
 *
 * Roles are stored as regrole: they follow ALTER ROLE RENAME, and a dump has their names.
 * pg_shdepend can't have entries for rows of an extension, so DROP ROLE leaves an oid that matches no
 * role.
 *
 * Tests: tests/sql/06_models.sql, tests/sql/07_privileges.sql.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pg/catalog/caller_options.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/catalog/remote_model_options.h"
#include "pg/catalog/secret.h"
#include "pg/vllm_pg.h"
#include "ipc/hub_name.h"

#define LIBDIR	"$libdir/"

/* size of the cache of relations known to be the extension's; the extension has fewer */
#define OWN_RELATIONS	32

/* columns of vllm.model, in order */
enum
{
	COL_NAME = 1, COL_PATH, COL_OPTIONS, COL_PROVIDER, COL_URL, COL_OWNER, COL_GRANTEES,
	COL_BUNDLED, N_COLS = COL_BUNDLED
};

/* An index belongs to its table. */
static bool
is_own_relation(Oid relid)
{
	Oid			extension = get_extension_oid("vllm_pg", true);
	Oid			table = get_rel_relkind(relid) == RELKIND_INDEX ? IndexGetRelation(relid, true) : relid;

	return OidIsValid(extension) && OidIsValid(table) &&
		getExtensionOfObject(RelationRelationId, table) == extension;
}

/*
 * In a database without the extension, the database's owner may create a schema vllm with tables of
 * these names, and triggers on them.  Workers and hooks look there, too.  So only members of the
 * extension count.  A relation that was found to be a member stays one as long as it exists.
 */
Oid
catalog_own_relation(const char *name)
{
	static Oid	known[OWN_RELATIONS];
	static int	n = 0;
	Oid			nsp = get_namespace_oid("vllm", true);
	Oid			relid = OidIsValid(nsp) ? get_relname_relid(name, nsp) : InvalidOid;

	if (!OidIsValid(relid))
		return InvalidOid;
	for (int i = 0; i < OWN_RELATIONS; i++)
		if (known[i] == relid)
			return relid;
	if (!is_own_relation(relid))
		return InvalidOid;
	known[n++ % OWN_RELATIONS] = relid;
	return relid;
}

Oid
catalog_relation(const char *name)
{
	Oid			relid = catalog_own_relation(name);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"vllm_pg\" is not installed in this database"),
				 errhint("Use CREATE EXTENSION vllm_pg.")));
	return relid;
}

/* ---- rows in and out ---- */

static char *
text_or_null(Datum *values, bool *nulls, int col)
{
	return nulls[col - 1] ? NULL : TextDatumGetCString(values[col - 1]);
}

static ModelRow *
row_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Datum		values[N_COLS];
	bool		nulls[N_COLS];
	ModelRow   *m = palloc0(sizeof(ModelRow));

	if (desc->natts != N_COLS)
		elog(ERROR, "vllm.model has %d columns, expected %d", desc->natts, N_COLS);
	heap_deform_tuple(tuple, desc, values, nulls);
	m->name = pstrdup(NameStr(*DatumGetName(values[COL_NAME - 1])));
	m->path = text_or_null(values, nulls, COL_PATH);
	m->options = text_or_null(values, nulls, COL_OPTIONS);
	m->provider = text_or_null(values, nulls, COL_PROVIDER);
	m->url = text_or_null(values, nulls, COL_URL);
	m->owner = DatumGetObjectId(values[COL_OWNER - 1]);
	m->bundled = DatumGetBool(values[COL_BUNDLED - 1]);
	m->grantees = catalog_roles(values[COL_GRANTEES - 1], &m->n_grantees);
	return m;
}

Oid *
catalog_roles(Datum array, int *n)
{
	Datum	   *elems;
	Oid		   *roles;

	deconstruct_array(DatumGetArrayTypeP(array), REGROLEOID, sizeof(Oid), true, TYPALIGN_INT, &elems, NULL,
					  n);
	roles = palloc(sizeof(Oid) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		roles[i] = DatumGetObjectId(elems[i]);
	return roles;
}

Datum
catalog_roles_datum(const Oid *roles, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = ObjectIdGetDatum(roles[i]);
	return PointerGetDatum(construct_array(elems, n, REGROLEOID, sizeof(Oid), true,
										   TYPALIGN_INT));
}

/* Start a scan for one name (NULL: all, in order) on an open relation. */
static SysScanDesc
scan_begin(Relation rel, const char *name, NameData *key_name)
{
	ScanKeyData key;

	if (name)
	{
		namestrcpy(key_name, name);
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(key_name));
	}
	return systable_beginscan(rel, catalog_relation("model_pkey"), true, NULL, name ? 1 : 0, &key);
}

ModelRow *
catalog_find(const char *name)
{
	Relation	rel;
	SysScanDesc scan;
	NameData	key_name;
	HeapTuple	tuple;
	ModelRow   *m = NULL;

	if (strlen(name) >= NAMEDATALEN)	/* namestrcpy would truncate it */
		return NULL;
	rel = table_open(catalog_relation("model"), AccessShareLock);
	scan = scan_begin(rel, name, &key_name);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		m = row_from_tuple(tuple, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return m;
}

static int
row_name_cmp(const ListCell *a, const ListCell *b)
{
	return strcmp(((ModelRow *) lfirst(a))->name, ((ModelRow *) lfirst(b))->name);
}

List *
catalog_list(void)
{
	Relation	rel = table_open(catalog_relation("model"), AccessShareLock);
	NameData	unused;
	SysScanDesc scan = scan_begin(rel, NULL, &unused);
	HeapTuple	tuple;
	List	   *rows = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, row_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(rows, row_name_cmp);
	return rows;
}

/* ---- privileges ---- */

bool
catalog_is_owner(const ModelRow *m, Oid role)
{
	return superuser_arg(role) ||
		(OidIsValid(m->owner) && has_privs_of_role(role, m->owner));
}

bool
catalog_is_granted(const Oid *roles, int n, Oid role)
{
	for (int i = 0; i < n; i++)
		if (!OidIsValid(roles[i]) || has_privs_of_role(role, roles[i]))
			return true;
	return false;
}

bool
catalog_may_use(const ModelRow *m, Oid role)
{
	return catalog_is_granted(m->grantees, m->n_grantees, role) || catalog_is_owner(m, role);
}

bool
catalog_may_see_path(const ModelRow *m)
{
	return m->bundled || catalog_is_owner(m, GetUserId()) ||
		(!catalog_is_remote(m) && has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES));
}

void
catalog_check_absolute(const char *path)
{
	HubName		hub;

	if (is_absolute_path(path))
		return;
	if (!hub_name(path, true, &hub))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("path \"%s\" is not absolute", path),
				 errhint("Give an absolute path on the database server.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("path \"%s\" is not absolute", path),
			 errdetail("Repositories of Hugging Face are not downloaded automatically."),
			 errhint("Run \"%s\" on the database server: it downloads the files and prints their path.",
					 hub.command)));
}

ModelRow *
catalog_model(const char *name)
{
	ModelRow   *m = catalog_find(name);
	HubName		hub;

	if (m == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" does not exist", name),
				 hub_name(name, false, &hub) && lora_find(name) == NULL ?
				 errhint("Models are not downloaded automatically. Run \"%s\" on the database server: it "
						 "downloads the model and prints the statement that creates it. The view llm_models "
						 "lists the models of this database.", hub.command) :
				 lora_find(name) != NULL ?
				 errhint("An adapter has this name; the view llm_loras shows its model.") :
				 errhint("Models of this database are listed in the view llm_models; "
						 "llm_create_model() adds one.")));
	return m;
}

/* ---- remote models ---- */

bool
catalog_is_remote(const ModelRow *m)
{
	return m->url != NULL;
}

List *
catalog_urls(const ModelRow *m)
{
	return lcons(m->url, model_options_texts(model_options_tree(m->options), "urls"));
}

void
catalog_require_local(const ModelRow *m, const char *what)
{
	if (catalog_is_remote(m))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s is not supported for model \"%s\"", what, m->name),
				 errdetail("The model is a remote model."),
				 errhint("Only models of provider \"local\", whose files are on this server, support it.")));
}

/* Return the model if a call with an adapter is for a remote model; else NULL. */
static ModelRow *
remote_base(const char *name, const char *lora)
{
	ModelRow   *m;

	/* an adapter in the table determines its model */
	if (name == NULL && lora_find(lora) != NULL)
		return NULL;
	if (name == NULL)
		name = vllm_model;
	m = name != NULL && name[0] != '\0' ? catalog_find(name) : NULL;
	return m != NULL && catalog_is_remote(m) ? m : NULL;
}

/*
 * Return the endpoint's adapter of that name.  The option lists the adapters, because an endpoint
 * can't be asked while a statement is planned.
 */
static LoraRow *
remote_lora(const ModelRow *m, const char *name)
{
	LoraRow    *l;
	ListCell   *lc;

	foreach(lc, model_options_texts(model_options_tree(m->options), "lora_modules"))
	{
		if (strcmp(lfirst(lc), name) != 0)
			continue;
		l = palloc0(sizeof(LoraRow));
		l->name = pstrdup(name);
		l->model = m->name;
		return l;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("adapter \"%s\" of model \"%s\" does not exist", name, m->name),
			 errdetail("The model is a remote model; its option \"lora_modules\" names the adapters that the "
					   "endpoint serves.")));
	return NULL;
}

static void
check_use(const ModelRow *m)
{
	if (!catalog_may_use(m, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for model \"%s\"", m->name),
				 errhint("The owner of a model can grant its use with llm_grant().")));
}

static void
no_model(const char *setting)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no model was given"),
			 errhint("Name one with model => '...' or in the setting %s.", setting)));
}

ModelRow *
catalog_for_use(const char *name, const char *lora)
{
	ModelRow   *m;
	LoraRow    *l = NULL;

	if (vllm_shared == NULL)
		vclient_require_engine();	/* raises the error that the library was not preloaded */
	if (lora != NULL && (m = remote_base(name, lora)) != NULL)
	{
		check_use(m);
		m->lora = remote_lora(m, lora);
		return m;
	}
	if (lora != NULL)
		l = lora_named(lora, name);
	if (name == NULL)
		name = vllm_model;
	if (l == NULL && (name == NULL || name[0] == '\0'))
		no_model("vllm.model");
	m = catalog_find(l != NULL ? l->model : name);
	if (m == NULL && l == NULL)
		l = lora_resolve(name);
	if (m == NULL)
		m = catalog_model(l != NULL ? l->model : name);
	check_use(m);
	if (l != NULL)
	{
		catalog_require_local(m, "an adapter of this server");
		lora_check_use(l);
	}
	m->lora = l;
	return m;
}

/*
 * The use's own default model does not apply if the call gives an adapter in the table, which
 * determines its model.
 */
ModelRow *
catalog_for_use_as(ModelUse use, const char *name, const char *lora, bool *by_default)
{
	const char *own = use == USE_EMBED ? vllm_embedding_model : use == USE_RERANK ? vllm_rerank_model : NULL;

	*by_default = false;
	if (name == NULL && own != NULL && own[0] != '\0' && (lora == NULL || lora_find(lora) == NULL))
		name = own;
	if (name != NULL || lora != NULL || use == USE_ANY)
		return catalog_for_use(name, lora);
	*by_default = true;
	if (vllm_shared != NULL && (vllm_model == NULL || vllm_model[0] == '\0'))
		no_model(use == USE_EMBED ? "vllm.embedding_model" : "vllm.rerank_model");
	return catalog_for_use(NULL, NULL);
}

void
catalog_put_default(const ModelRow *m, bool by_default, WireOut *out)
{
	if (by_default && !catalog_is_remote(m))
		wire_put_int(out, WTAG_DEFAULT_MODEL, 1);
}

ModelRow *
catalog_model_for_use(const char *name)
{
	return catalog_for_use(name, NULL);
}

const char *
catalog_called(const ModelRow *m)
{
	return m->lora ? m->lora->name : m->name;
}

ModelRow *
catalog_model_for_owner(const char *name)
{
	ModelRow   *m = catalog_model(name);

	if (!catalog_is_owner(m, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of model \"%s\"", m->name)));
	return m;
}

/* ---- changes ---- */

void
catalog_lock(const char *name)
{
	LockDatabaseObject(catalog_relation("model"),
					   DatumGetUInt32(hash_any((const unsigned char *) name, strlen(name))),
					   0, ExclusiveLock);
}

/*
 * This is a second lock for the same name, so that an object which uses a model doesn't block GRANT
 * and REVOKE functions for it.
 */
static void
lock_uses(const char *name, LOCKMODE mode)
{
	LockDatabaseObject(catalog_relation("model"),
					   DatumGetUInt32(hash_any((const unsigned char *) name, strlen(name))), 1, mode);
}

void
catalog_lock_use(const char *name)
{
	lock_uses(name, ShareLock);
}

void
catalog_lock_drop(const char *name)
{
	lock_uses(name, ExclusiveLock);
}

void
catalog_insert(const ModelRow *m)
{
	Relation	rel = table_open(catalog_relation("model"), RowExclusiveLock);
	Datum		values[N_COLS] = {0};
	bool		nulls[N_COLS] = {0};
	NameData	name;

	namestrcpy(&name, m->name);
	values[COL_NAME - 1] = NameGetDatum(&name);
	nulls[COL_PATH - 1] = m->path == NULL;
	if (m->path)
		values[COL_PATH - 1] = CStringGetTextDatum(m->path);
	nulls[COL_OPTIONS - 1] = m->options == NULL;
	if (m->options)
		values[COL_OPTIONS - 1] = CStringGetTextDatum(m->options);
	values[COL_PROVIDER - 1] = CStringGetTextDatum(m->provider);
	nulls[COL_URL - 1] = m->url == NULL;
	if (m->url)
		values[COL_URL - 1] = CStringGetTextDatum(m->url);
	values[COL_OWNER - 1] = ObjectIdGetDatum(m->owner);
	values[COL_GRANTEES - 1] = catalog_roles_datum(m->grantees, m->n_grantees);
	values[COL_BUNDLED - 1] = BoolGetDatum(m->bundled);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Delete the row (col 0) or replace one of its columns. */
static void
change_row(const char *name, int col, Datum value)
{
	Relation	rel = table_open(catalog_relation("model"), RowExclusiveLock);
	NameData	key_name;
	SysScanDesc scan = scan_begin(rel, name, &key_name);
	HeapTuple	tuple = systable_getnext(scan);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "model \"%s\" vanished", name);
	if (col == 0)
		CatalogTupleDelete(rel, &tuple->t_self);
	else
	{
		Datum		values[N_COLS] = {0};
		bool		nulls[N_COLS] = {0};
		bool		replace[N_COLS] = {0};

		values[col - 1] = value;
		replace[col - 1] = true;
		CatalogTupleUpdate(rel, &tuple->t_self,
						   heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls, replace));
	}
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

void
catalog_delete(const char *name)
{
	change_row(name, 0, (Datum) 0);
}

void
catalog_set_grantees(const char *name, const Oid *roles, int n)
{
	change_row(name, COL_GRANTEES, catalog_roles_datum(roles, n));
}

void
catalog_set_path(const char *name, const char *path)
{
	change_row(name, COL_PATH, CStringGetTextDatum(path));
}

void
catalog_set_options(const char *name, const char *options)
{
	change_row(name, COL_OPTIONS, CStringGetTextDatum(options));
}

/* ---- for the engine ---- */

char *
catalog_path(const ModelRow *m)
{
	Dl_info		info;
	char		dir[MAXPGPATH];

	if (strncmp(m->path, LIBDIR, strlen(LIBDIR)) != 0)
		return m->path;
	if (dladdr((void *) catalog_path, &info) == 0 || !is_absolute_path(info.dli_fname))
		strlcpy(dir, pkglib_path, MAXPGPATH);
	else
	{
		strlcpy(dir, info.dli_fname, MAXPGPATH);
		get_parent_directory(dir);
	}
	return psprintf("%s/%s", dir, m->path + strlen(LIBDIR));
}

/* Return the first base URL, or the path.  A url needs no conversion, as it is ASCII. */
static const char *
where_is(const ModelRow *m)
{
	return catalog_is_remote(m) ? m->url : catalog_path(m);
}

uint64
catalog_hash(const ModelRow *m)
{
	const char *options = m->options ? m->options : "";

	return wire_model_hash(where_is(m), pg_server_to_any(options, strlen(options), PG_UTF8));
}

static void
put_remote(const ModelRow *m, WireOut *out)
{
	char	   *secret = secret_find(m->name);
	ListCell   *lc;

	foreach(lc, catalog_urls(m))
		wire_put_str(out, WTAG_URL, lfirst(lc), strlen(lfirst(lc)));
	if (secret != NULL)
		wire_put_str(out, WTAG_SECRET, secret, strlen(secret));
	if (m->lora)
		wire_put_text(out, WTAG_LORA, m->lora->name, strlen(m->lora->name));
}

void
catalog_put(const ModelRow *m, WireOut *out)
{
	int			secret = catalog_may_see_path(m) ? 0 : WIRE_SECRET_MODEL;

	vclient_put_identity(out);
	wire_put_text(out, WTAG_MODEL, m->name, strlen(m->name));
	/* a file name is bytes: the path is sent as it is stored */
	if (!catalog_is_remote(m))
		wire_put_str(out, WTAG_MODEL_PATH, catalog_path(m), strlen(catalog_path(m)));
	if (m->options)
		wire_put_text(out, WTAG_MODEL_OPTIONS, m->options, strlen(m->options));
	if (catalog_is_remote(m))
		put_remote(m, out);
	else if (m->lora)
	{
		lora_put(m->lora, out);
		secret |= lora_may_see_path(m->lora) ? 0 : WIRE_SECRET_LORA;
	}
	caller_options_put(m->options, out);
	if (secret != 0)
		wire_put_int(out, WTAG_SECRET_PATHS, secret);
}
