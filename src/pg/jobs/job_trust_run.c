/*
 * job_trust_run.c
 *	  Which roles' code may run while a job's statements run.
 *
 * An expression does not show all code that it runs: functions call others, to_json() looks up casts,
 * a cast, a default or a check may use any function, and a trigger may have been created by any
 * role.  So in the security context of a job's owner, the following must belong to a superuser or to
 * the current user:
 *
 *	functions and aggregates		before each call (the function manager, the executor)
 *	operators, types, functions		of a statement that code within the job has analysed
 *	views, tables with row security, foreign tables, and all tables that are written
 *									before a statement starts
 *
 * SECURITY DEFINER functions run as their own owner, which is harmless for the job's.  The context is
 * a bit of PostgreSQL's security context: it ends with the transaction or subtransaction, and is
 * passed on to parallel workers.
 *
 * A trigger has no owner.  If other roles have the TRIGGER privilege on a table, any of them may have
 * written a trigger's condition, and even PostgreSQL's own functions can do harm.  So a condition
 * must not be volatile, must not call functions of extensions that read tables, and must not have
 * values or operators of other roles.  A superuser's trigger functions do what their arguments say;
 * so as a superuser, a job writes only tables on which no other role has TRIGGER.
 *
 * Tests: tests/t/066_jobs_names.pl, 065_jobs_hostile.pl.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/readfuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "pg/compat.h"
#include "pg/jobs/job.h"
#include "pg/util/type_trust.h"

static ExecutorStart_hook_type prev_executor_start = NULL;
static post_parse_analyze_hook_type prev_analyze = NULL;
static needs_fmgr_hook_type prev_needs_hook = NULL;
static fmgr_hook_type prev_hook = NULL;
static object_access_hook_type prev_access = NULL;

static bool
in_job_context(void)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	return (context & JOB_SECURITY_CONTEXT) != 0;
}

/* ---- operators and types ---- */

/* An operator or a domain's check of another role may call one of PostgreSQL's own functions. */
static bool
is_refused(const ObjectAddress *a)
{
	Oid			element;
	char		kind;

	if (a->classId == OperatorRelationId)
		return !job_trusts(job_object_owner(a), GetUserId());
	if (a->classId != TypeRelationId)
		return false;
	element = get_base_element_type(a->objectId);
	kind = get_typtype(OidIsValid(element) ? element : a->objectId);
	return kind != TYPTYPE_BASE && kind != TYPTYPE_ENUM && !type_is_trusted_by(a->objectId, GetUserId());
}

/* Return an object that the query or expression uses and that is refused, or NULL. */
static const ObjectAddress *
refused_object(Node *node)
{
	ListCell   *lc;

	foreach(lc, job_objects_of(node))
		if (is_refused(lfirst(lc)))
			return lfirst(lc);
	return NULL;
}

static void
refuse_object(const ObjectAddress *a)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("%s belongs to another role, and would run as the job's owner",
					getObjectDescription(a, false)),
			 errhint("Name operators and types with their schemas in functions that a job runs, "
					 "or give these a search_path of their own.")));
}

static void
check_objects(Node *query)
{
	const ObjectAddress *a = refused_object(query);

	if (a != NULL)
		refuse_object(a);
}

void
job_trust_type(Oid type)
{
	ObjectAddress a;

	/* PL/pgSQL looks up a type that was dropped again by its name */
	if (type < FirstNormalObjectId || !in_job_context() ||
		!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		return;
	ObjectAddressSet(a, TypeRelationId, type);
	if (is_refused(&a))
		refuse_object(&a);
}

/* ---- triggers ---- */

/*
 * Return true for a function that is not PostgreSQL's own and may read tables, for example
 * llm_embed().
 */
static bool
is_stable_of_extension(Oid funcid, void *context)
{
	return funcid >= FirstNormalObjectId && func_volatile(funcid) != PROVOLATILE_IMMUTABLE;
}

static bool
condition_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr))
		job_check_call((FuncExpr *) node);
	if (check_functions_in_node(node, is_stable_of_extension, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the condition of trigger \"%s\" calls a function that is not immutable",
						(char *) context),
				 errdetail("A role with TRIGGER on the table may have created it, and it runs as the job's "
						   "owner."),
				 errhint("Test the condition in the trigger function, and omit WHEN.")));
	/* making a value of a domain runs its checks, which may call PostgreSQL's own functions */
	if (job_is_value(node) && !type_is_trusted_by(exprType(node), GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the condition of trigger \"%s\" has a value of type %s, which is not trusted",
						(char *) context, format_type_be(exprType(node))),
				 errdetail("The type belongs to another role or contains a type that does.")));
	return expression_tree_walker(node, condition_walker, context);
}

/* An operator hides which of PostgreSQL's functions it calls; job_check_call() checks only calls. */
static void
check_condition_objects(Node *when, const char *trigger)
{
	const ObjectAddress *a = refused_object(when);

	if (a != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the condition of trigger \"%s\" uses %s, which belongs to another role",
						trigger, getObjectDescription(a, false)),
				 errdetail("A role with TRIGGER on the table may have created it, and it runs as the job's "
						   "owner.")));
}

/* ERROR (42501, 42804) if a trigger's condition does more than compare values of trusted types. */
static void
check_triggers(Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *t = &triggers->triggers[i];
		Node	   *when = t->tgqual != NULL ? stringToNode(t->tgqual) : NULL;

		if (when != NULL && contain_volatile_functions(when))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("the condition of trigger \"%s\" on relation \"%s\" is volatile",
							t->tgname, RelationGetRelationName(rel)),
					 errdetail("A role with TRIGGER on the table may have created it, and it runs as the "
							   "job's owner."),
					 errhint("Test the condition in the trigger function, and omit WHEN.")));
		(void) condition_walker(when, t->tgname);
		check_condition_objects(when, t->tgname);
	}
}

/*
 * Return a role that has TRIGGER on a table, or owns it, and is not a superuser: its name as GRANT
 * writes it; NULL if there is none.
 */
static char *
other_with_trigger(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	char	   *name = NULL;
	Oid			owner;
	Datum		datum;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	datum = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	if (!superuser_arg(owner))
		name = pstrdup(quote_identifier(GetUserNameFromId(owner, false)));
	else if (!isnull)
	{
		Acl		   *acl = DatumGetAclP(datum);

		for (int i = 0; i < ACL_NUM(acl) && name == NULL; i++)
		{
			const AclItem *item = &ACL_DAT(acl)[i];

			if ((ACLITEM_GET_PRIVS(*item) & ACL_TRIGGER) == 0)
				continue;
			if (item->ai_grantee == ACL_ID_PUBLIC)
				name = pstrdup("PUBLIC");
			else if (!superuser_arg(item->ai_grantee))
				name = pstrdup(quote_identifier(GetUserNameFromId(item->ai_grantee, false)));
		}
	}
	ReleaseSysCache(tuple);
	return name;
}

static void
check_trigger_rights(Oid relid)
{
	char	   *other = other_with_trigger(relid);

	if (other != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role %s may make triggers on relation \"%s\", which a job writes as a superuser",
						other, get_rel_name(relid)),
				 errdetail("A trigger runs as the job's owner."),
				 errhint("REVOKE TRIGGER ON %s FROM %s, or let a role that is no superuser own the table.",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
													get_rel_name(relid)),
						 other)));
}

void
job_check_trigger_rights(Oid relid, Oid owner)
{
	ListCell   *lc;

	if (!superuser_arg(owner))
		return;
	check_trigger_rights(relid);
	/* a partition has the triggers of its ancestors */
	if (get_rel_relispartition(relid))
		foreach(lc, get_partition_ancestors(relid))
			check_trigger_rights(lfirst_oid(lc));
}

/* ---- tables ---- */

static void
refuse_relation(Oid relid, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("%s \"%s\" belongs to another role, whose expressions would run as the job's owner",
					what, get_rel_name(relid)),
			 errhint("A SECURITY DEFINER function runs as its own owner, and may use it.")));
}

/* Reading runs the expressions of views and of row security, and the code of foreign tables. */
static void
check_read(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	char		kind;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return;
	kind = ((Form_pg_class) GETSTRUCT(tuple))->relkind;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	if (relid < FirstNormalObjectId || job_trusts(owner, GetUserId()))
		return;
	if (kind == RELKIND_VIEW)
		refuse_relation(relid, "view");
	if (kind == RELKIND_FOREIGN_TABLE)
		refuse_relation(relid, "foreign table");
	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		refuse_relation(relid, "row security of table");
}

/*
 * A foreign key's action runs as the owner of the table that it writes.  But before PostgreSQL 18 the
 * AFTER triggers of that table run at the end of the statement, as the user who issued it.
 */
static bool
fires_as_another(Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;

	if (COMPAT_AFTER_TRIGGERS_KEEP_USER || !InNoForceRLSOperation() || triggers == NULL)
		return false;
	for (int i = 0; i < triggers->numtriggers; i++)
		if (!triggers->triggers[i].tgisinternal && TRIGGER_FOR_AFTER(triggers->triggers[i].tgtype))
			return true;
	return false;
}

/*
 * Check defaults, checks and triggers of a table that is written.  The locks on it and its partitions
 * prevent new triggers until the transaction ends.
 */
static void
check_written(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, RowExclusiveLock, NULL))
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);

		if (!job_trusts(rel->rd_rel->relowner, GetUserId()))
			refuse_relation(RelationGetRelid(rel), "table");
		job_check_trigger_rights(RelationGetRelid(rel), GetUserId());
		if (fires_as_another(rel))
			job_check_trigger_rights(RelationGetRelid(rel), job_running_for());
		check_triggers(rel);
		table_close(rel, NoLock);
	}
}

static void
check_relations(const PlannedStmt *plan)
{
	ListCell   *lc;

	foreach(lc, plan->rtable)
		if (OidIsValid(lfirst_node(RangeTblEntry, lc)->relid))
			check_read(lfirst_node(RangeTblEntry, lc)->relid);
	foreach(lc, plan->resultRelations)
		check_written(rt_fetch(lfirst_int(lc), plan->rtable)->relid);
}

static void
before_executor(QueryDesc *query, int eflags)
{
	if (in_job_context())
		check_relations(query->plannedstmt);
	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/* ---- statements that are not planned ---- */

static Oid
check_written_name(RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, RowExclusiveLock, false);

	check_written(relid);
	return relid;
}

/* Check also the tables that reference these, and so on, as PostgreSQL finds them for CASCADE. */
static void
check_truncated(const TruncateStmt *statement)
{
	List	   *relids = NIL;
	List	   *more = NIL;
	ListCell   *lc;

	foreach(lc, statement->relations)
	{
		Oid			relid = check_written_name(lfirst_node(RangeVar, lc));

		relids = list_concat_unique_oid(relids, find_all_inheritors(relid, NoLock, NULL));
	}
	if (statement->behavior != DROP_CASCADE)
		return;
	while ((more = heap_truncate_find_FKs(relids)) != NIL)
	{
		foreach(lc, more)
			check_written(lfirst_oid(lc));
		relids = list_concat(relids, more);
	}
}

void
job_trust_utility(Node *statement)
{
	if (!in_job_context())
		return;
	if (IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from)
		(void) check_written_name(((CopyStmt *) statement)->relation);
	if (IsA(statement, TruncateStmt))
		check_truncated((TruncateStmt *) statement);
}

/* ---- statements of code within a job, after their analysis ---- */

/* Return the query within CREATE TABLE AS, DECLARE CURSOR and EXPLAIN, and the call of CALL. */
static Node *
inner_query(Node *statement)
{
	if (statement == NULL)
		return NULL;
	if (IsA(statement, CreateTableAsStmt))
		return ((CreateTableAsStmt *) statement)->query;
	if (IsA(statement, DeclareCursorStmt))
		return ((DeclareCursorStmt *) statement)->query;
	if (IsA(statement, ExplainStmt))
		return ((ExplainStmt *) statement)->query;
	if (IsA(statement, CallStmt))
		return (Node *) ((CallStmt *) statement)->funcexpr;
	return NULL;
}

static void
after_analysis(ParseState *pstate, Query *query, JumbleState *jumble)
{
	Node	   *inner = (Node *) query;

	if (prev_analyze)
		prev_analyze(pstate, query, jumble);
	if (!in_job_context())
		return;
	while (inner != NULL && IsA(inner, Query) && ((Query *) inner)->commandType == CMD_UTILITY)
		inner = inner_query(((Query *) inner)->utilityStmt);
	if (inner == NULL)
		return;
	check_objects(inner);
	/* this keeps PostgreSQL from using a cached plan of the query for another user */
	if (IsA(inner, Query))
		((Query *) inner)->hasRowSecurity = true;
}

/* ---- the function manager ---- */

/* ERROR if the current user must not run the function.  Return true if another user might be refused. */
static bool
check_running(Oid funcid)
{
	ObjectAddress a;
	Oid			owner;

	if (funcid < FirstNormalObjectId || !in_job_context())
		return false;
	ObjectAddressSet(a, ProcedureRelationId, funcid);
	owner = job_object_owner(&a);
	if (job_trusts(owner, GetUserId()))
		return !superuser_arg(owner);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function %s belongs to another role, and would run as the job's owner",
					format_procedure_qualified(funcid)),
			 errdetail("A job runs functions of its owner and of superusers, also in casts and triggers."),
			 errhint("A SECURITY DEFINER function runs as its own owner, and may be called by those.")));
}

/*
 * Called for each function that is not SECURITY DEFINER and has no SET, before it is called or
 * inlined.
 */
static bool
before_call(Oid funcid)
{
	/*
	 * the result of a look-up may be reused for another user, so such a function is checked at each
	 * call and not inlined
	 */
	bool		each_time = check_running(funcid);

	return each_time || (prev_needs_hook && prev_needs_hook(funcid));
}

/* Check functions that are SECURITY DEFINER or have SET, as the user that they run as. */
static void
at_call(FmgrHookEventType event, FmgrInfo *flinfo, Datum *arg)
{
	if (event == FHET_START)
		(void) check_running(flinfo->fn_oid);
	if (prev_hook)
		prev_hook(event, flinfo, arg);
}

/* An aggregate is not called itself, but another role's aggregate may call PostgreSQL's own functions. */
static void
at_access(ObjectAccessType access, Oid classid, Oid oid, int subid, void *arg)
{
	if (access == OAT_FUNCTION_EXECUTE && oid >= FirstNormalObjectId &&
		get_func_prokind(oid) == PROKIND_AGGREGATE)
		(void) check_running(oid);
	if (prev_access)
		prev_access(access, classid, oid, subid, arg);
}

void
job_trust_init(void)
{
	prev_needs_hook = needs_fmgr_hook;
	needs_fmgr_hook = before_call;
	prev_hook = fmgr_hook;
	fmgr_hook = at_call;
	prev_access = object_access_hook;
	object_access_hook = at_access;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = before_executor;
	prev_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = after_analysis;
}
