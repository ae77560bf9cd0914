/*
 * model_depend.c
 *	  Objects that use a model, or an adapter, by its name, and dropping them with it.
 *
 *	used by									with cascade
 *	a job									is dropped, with its triggers and its queue
 *	a trigger of llm_embed_trigger()		is dropped
 *	option "fallback" or "cascade"			is removed, or the model is removed from it
 *	an adapter								is dropped (lora_ddl.c)
 *
 * pg_depend can't have entries for rows of an extension, so all of these are searched for.  Options
 * and triggers count only if the owner of the model, or of the table, may use the model: any user can
 * write any name there, and must not keep other roles' models from being dropped by that.
 *
 * A transaction that creates such an object holds catalog_lock_use() of the name until it ends; one
 * that drops the model holds catalog_lock_drop().  So no object that is being created is overlooked.
 *
 * MESSAGES.  All users can see triggers in pg_trigger.  Jobs and options that the current user could
 * not see in llm_jobs and llm_models are only counted; the server's log has their names.
 *
 * Tests: tests/sql/43_depend.sql, tests/isolation/specs/model_depend.spec.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_trigger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "pg/catalog/caller_options.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/ddl/model_depend.h"
#include "pg/ddl/model_invalidate.h"
#include "pg/jobs/job.h"
#include "pg/util/own_call.h"

/* objects that a DETAIL names; the others are counted, as by PostgreSQL's DROP */
#define MAX_REPORTED 100

typedef struct User
{
	char	   *what;			/* the object with its kind */
	bool		seen;			/* the current user may see it */
	const char *kind;
	const JobDef *job;			/* exactly one of these is set */
	Oid			trigger;
	Oid			relid;			/* the trigger's table */
	const ModelRow *model;		/* the model that has the option */
} User;

/* ---- searching ---- */

static User *
add_user(List **users, char *what, const char *kind, bool seen)
{
	User	   *u = palloc0(sizeof(User));

	u->what = what;
	u->kind = kind;
	u->seen = seen;
	*users = lappend(*users, u);
	return u;
}

static void
find_jobs(List **users, const char *name)
{
	ListCell   *lc;

	foreach(lc, job_list())
	{
		const JobDef *j = lfirst(lc);
		Oid			owner = job_relation_owner(j->source);

		if (strcmp(j->model, name) != 0)
			continue;
		if (!OidIsValid(owner))
			owner = j->owner;
		/* the rule of llm_jobs */
		add_user(users, psprintf("job \"%s\"", j->name), "a job", superuser() ||
				 has_privs_of_role(GetUserId(), owner) ||
				 has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))->job = j;
	}
}

/* Return the model that a trigger names; NULL if it names none. */
static char *
model_of_trigger(HeapTuple tuple, Relation pg_trigger)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	bool		isnull;
	Datum		args = heap_getattr(tuple, Anum_pg_trigger_tgargs, RelationGetDescr(pg_trigger), &isnull);
	char	   *s;

	if (isnull || form->tgnargs < 3)
		return NULL;
	s = VARDATA_ANY(DatumGetByteaPP(args));
	for (int i = 0; i < 2; i++)
		s += strlen(s) + 1;
	return pstrdup(s);
}

/* Triggers of partitions are dropped with that of their parent. */
static void
find_triggers(List **users, const char *name)
{
	Oid			function = own_function("llm_embed_trigger", InvalidOid);
	Relation	rel = table_open(TriggerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
		ObjectAddress a;
		char	   *model;
		User	   *u;

		if (form->tgfoid != function || OidIsValid(form->tgparentid))
			continue;
		model = model_of_trigger(tuple, rel);
		if (model == NULL || strcmp(model, name) != 0 ||
			!lora_or_model_may_use(name, job_relation_owner(form->tgrelid)))
			continue;
		ObjectAddressSet(a, TriggerRelationId, form->oid);
		u = add_user(users, getObjectDescription(&a, true), "a trigger", true);
		u->trigger = form->oid;
		u->relid = form->tgrelid;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
find_options(List **users, const char *name)
{
	ListCell   *lc;

	foreach(lc, catalog_list())
	{
		const ModelRow *other = lfirst(lc);
		const char *option = caller_options_naming(other->options, name);

		if (option == NULL || strcmp(other->name, name) == 0 || !lora_or_model_may_use(name, other->owner))
			continue;
		add_user(users, psprintf("option \"%s\" of model \"%s\"", option, other->name),
				 "an option of a model", catalog_may_see_path(other))->model = other;
	}
}

/* Return the objects that use the model, or the adapter, of that name. */
static List *
users_of(const char *name)
{
	List	   *users = NIL;

	/* an extension that has not been updated has no jobs */
	if (job_installed())
	{
		find_jobs(&users, name);
		find_triggers(&users, name);
	}
	find_options(&users, name);
	return users;
}

/* ---- refusing ---- */

typedef struct Reported
{
	StringInfoData client;
	StringInfoData log;
	int			n;				/* objects that the client is told */
	int			hidden;
	int			all;
} Reported;

static void
report(Reported *t, const char *what, bool seen, const char *on)
{
	if (t->all++ > 0)
		appendStringInfoChar(&t->log, '\n');
	appendStringInfo(&t->log, "%s depends on %s", what, on);
	if (!seen || t->n >= MAX_REPORTED)
	{
		t->hidden++;
		return;
	}
	if (t->n++ > 0)
		appendStringInfoChar(&t->client, '\n');
	appendStringInfo(&t->client, "%s depends on %s", what, on);
}

static void
report_users(Reported *t, const char *name)
{
	char	   *on = psprintf("%s \"%s\"", catalog_find(name) != NULL ? "model" : "adapter", name);
	ListCell   *lc;

	foreach(lc, users_of(name))
	{
		const User *u = lfirst(lc);

		report(t, u->what, u->seen, on);
	}
}

/* ERROR if any object uses it.  what: "model" or "adapter", name: its name */
static void
refuse_users(Reported *t, const char *what, const char *function, const char *name)
{
	report_users(t, name);
	if (t->all == 0)
		return;
	if (t->hidden > 0)
		appendStringInfo(&t->client, "%s%d %sobject%s that you can't see depend%s on it (see server log for "
						 "list)", t->n > 0 ? "\nand " : "", t->hidden, t->n > 0 ? "other " : "", t->hidden > 1
						 ? "s" : "", t->hidden > 1 ? "" : "s");
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop %s \"%s\" because other objects depend on it", what, name),
			 errdetail("%s", t->client.data),
			 errdetail_log("%s", t->log.data),
			 errhint("Use %s(%s, cascade => true) to drop the dependent objects too.", function,
					 quote_literal_cstr(name))));
}

static Reported
reported_new(void)
{
	Reported	t = {.n = 0};

	initStringInfo(&t.client);
	initStringInfo(&t.log);
	return t;
}

void
depend_refuse(const ModelRow *m)
{
	Reported	t = reported_new();
	char	   *on = psprintf("model \"%s\"", m->name);
	ListCell   *lc;

	catalog_lock_drop(m->name);
	foreach(lc, lora_list(m->name))
	{
		const char *name = ((const LoraRow *) lfirst(lc))->name;

		report(&t, psprintf("adapter \"%s\"", name), true, on);
		report_users(&t, name);
	}
	refuse_users(&t, "model", "llm_drop_model", m->name);
}

void
depend_refuse_lora(const char *name)
{
	Reported	t = reported_new();

	catalog_lock_drop(name);
	refuse_users(&t, "adapter", "llm_drop_lora", name);
}

/* ---- dropping ---- */

/* Triggers of partitions are dropped with it; PostgreSQL locks the partitions. */
static bool
drop_trigger(const User *u)
{
	ObjectAddress a;
	ScanKeyData key;
	Relation	rel;
	SysScanDesc scan;
	bool		found;

	LockRelationOid(u->relid, AccessExclusiveLock);
	/* the trigger may have been dropped meanwhile */
	rel = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(u->trigger));
	scan = systable_beginscan(rel, TriggerOidIndexId, true, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (!found)
		return false;
	ObjectAddressSet(a, TriggerRelationId, u->trigger);
	performDeletion(&a, DROP_CASCADE, PERFORM_DELETION_INTERNAL);
	return true;
}

/* A loaded model will be loaded again, as the engine compares options as texts. */
static bool
drop_option(const User *u, const char *name)
{
	ModelRow   *m;

	catalog_lock(u->model->name);
	m = catalog_find(u->model->name);
	if (m == NULL || caller_options_naming(m->options, name) == NULL)
		return false;
	m->options = caller_options_without(m->options, name);
	release_created(m);
	catalog_set_options(m->name, m->options);
	return true;
}

static void
drop_users(const char *name)
{
	ListCell   *lc;

	catalog_lock_drop(name);
	foreach(lc, users_of(name))
	{
		const User *u = lfirst(lc);

		if (u->job != NULL ? !job_drop_of_model(u->job->name, name) :
			u->model != NULL ? !drop_option(u, name) : !drop_trigger(u))
			continue;
		if (u->seen)
			ereport(NOTICE, (errmsg("drop cascades to %s", u->what)));
		else
			ereport(NOTICE,
					(errmsg("drop cascades to %s of another role", u->kind),
					 errdetail_log("It is %s.", u->what)));
	}
}

void
depend_drop_model(const ModelRow *m)
{
	drop_users(m->name);
}

void
depend_drop_lora(const char *name)
{
	drop_users(name);
}
