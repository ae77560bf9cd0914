/*
 * job_uses.c
 *	  The objects that the names in a job's input refer to.
 *
 * The input is stored as text, as dumps need it, and its names are resolved each time it is read.  A
 * role that may create objects in one of its schemas can create a function that fits a call better,
 * or take a name that ALTER FUNCTION ... SET SCHEMA has freed; the worker would then run that
 * function as the job's owner.  So vllm.job.uses records the objects that the names referred to when
 * the job was created: each function, operator, type, collation, and object of a reg* constant that
 * is not built in, by its identity and its owner.  The code that reads the text compares them before
 * anything is evaluated or folded; an object that is not in the list is an error.
 *
 * This file compares names only.  job_trust.c checks who may own the objects.
 *
 * Reading a constant runs its type's input function, and that of an array or range of a domain runs
 * the domain's checks during the analysis of the text.  So names of types are compared before that.
 *
 * A job of an extension before 0.10 has no list (uses IS NULL); the first claim makes it.
 *
 * Tests: tests/t/066_jobs_names.pl.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_ts_config.h"
#include "catalog/pg_ts_dict.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "pg/compat.h"
#include "pg/jobs/job.h"

/* start of the message of a job that has failed for this reason */
#define REASON	"42P17: the input uses "

/* ---- objects ---- */

List *
job_object_add(List *objects, Oid classid, Oid oid)
{
	ObjectAddress *a;
	ListCell   *lc;

	/* created by initdb */
	if (oid < FirstNormalObjectId)
		return objects;
	foreach(lc, objects)
	{
		a = lfirst(lc);
		if (a->classId == classid && a->objectId == oid)
			return objects;
	}
	a = palloc(sizeof(ObjectAddress));
	ObjectAddressSet(*a, classid, oid);
	return lappend(objects, a);
}

static bool
job_object_in(List *objects, const ObjectAddress *a)
{
	ListCell   *lc;

	foreach(lc, objects)
	{
		const ObjectAddress *b = lfirst(lc);

		if (a->classId == b->classId && a->objectId == b->objectId)
			return true;
	}
	return false;
}

/*
 * Names leave out what may change without a change of meaning: which superuser it is, and the name of
 * the job's owner.
 */
static const char *
owner_name(Oid owner, Oid job_owner)
{
	char	   *name;

	if (superuser_arg(owner))
		return "a superuser";
	if (owner == job_owner)
		return "the job's owner";
	name = GetUserNameFromId(owner, true);
	return name ? quote_identifier(name) : "nobody";
}

Oid
job_object_owner(const ObjectAddress *a)
{
	AttrNumber	attno = get_object_attnum_owner(a->classId);
	int			cache = get_object_catcache_oid(a->classId);
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(a->objectId));
	bool		isnull;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("an object that the input of a job uses has been dropped")));
	owner = DatumGetObjectId(SysCacheGetAttr(cache, tuple, attno, &isnull));
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Return for example "function public.norm(pg_catalog.text) of a superuser", which is the same in
 * every locale and after a restore.
 */
static char *
object_name(const ObjectAddress *a, Oid job_owner)
{
	const char *whose = owner_name(job_object_owner(a), job_owner);

	return psprintf("%s %s of %s", getObjectTypeDescription(a, false), getObjectIdentity(a, false), whose);
}

/*
 * Return the catalog of the objects that a constant of a reg* type refers to; InvalidOid if it refers
 * to none.
 */
static Oid
class_of_constant(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
			return ProcedureRelationId;
		case REGOPEROID:
		case REGOPERATOROID:
			return OperatorRelationId;
		case REGCLASSOID:
			return RelationRelationId;
		case REGTYPEOID:
			return TypeRelationId;
		case REGCOLLATIONOID:
			return CollationRelationId;
		case REGCONFIGOID:
			return TSConfigRelationId;
		case REGDICTIONARYOID:
			return TSDictionaryRelationId;
		case REGNAMESPACEOID:
			return NamespaceRelationId;
		default:
			return InvalidOid;
	}
}

static List *
add_constant(List *objects, const Const *c)
{
	Oid			classid = class_of_constant(c->consttype);

	if (OidIsValid(classid) && !c->constisnull)
		objects = job_object_add(objects, classid, DatumGetObjectId(c->constvalue));
	return job_object_add(objects, TypeRelationId, c->consttype);
}

static List *
add_function(List *objects, const FuncExpr *f)
{
	if (f->funcformat == COERCE_EXPLICIT_CALL || f->funcformat == COERCE_SQL_SYNTAX)
		return job_object_add(objects, ProcedureRelationId, f->funcid);
	return job_object_add(objects, TypeRelationId, f->funcresulttype);
}

static bool
objects_walker(Node *node, List **objects)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			return query_tree_walker((Query *) node, objects_walker, objects, 0);
		case T_Const:
			*objects = add_constant(*objects, (Const *) node);
			break;
		case T_FuncExpr:
			*objects = add_function(*objects, (FuncExpr *) node);
			break;
		case T_Aggref:
			*objects = job_object_add(*objects, ProcedureRelationId, ((Aggref *) node)->aggfnoid);
			break;
		case T_WindowFunc:
			*objects = job_object_add(*objects, ProcedureRelationId, ((WindowFunc *) node)->winfnoid);
			break;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			*objects = job_object_add(*objects, OperatorRelationId, ((OpExpr *) node)->opno);
			break;
		case T_ScalarArrayOpExpr:
			*objects = job_object_add(*objects, OperatorRelationId, ((ScalarArrayOpExpr *) node)->opno);
			break;
		case T_RowCompareExpr:
			foreach(lc, ((RowCompareExpr *) node)->opnos)
				*objects = job_object_add(*objects, OperatorRelationId, lfirst_oid(lc));
			break;
		case T_CollateExpr:
			*objects = job_object_add(*objects, CollationRelationId, ((CollateExpr *) node)->collOid);
			break;
		case T_RangeTblFunction:
			foreach(lc, ((RangeTblFunction *) node)->funccoltypes)
				*objects = job_object_add(*objects, TypeRelationId, lfirst_oid(lc));
			break;
		case T_TableFunc:
			foreach(lc, ((TableFunc *) node)->coltypes)
				*objects = job_object_add(*objects, TypeRelationId, lfirst_oid(lc));
			break;
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CoerceToDomain:
		case T_RowExpr:
		case T_ArrayExpr:
			*objects = job_object_add(*objects, TypeRelationId, exprType(node));
			break;
		default:
			if (compat_is_json_expr(node))
				*objects = job_object_add(*objects, TypeRelationId, exprType(node));
			break;
	}
	return expression_tree_walker(node, objects_walker, objects);
}

List *
job_objects_of(Node *node)
{
	List	   *objects = NIL;

	(void) objects_walker(node, &objects);
	return objects;
}

/* ---- what an input uses ---- */

static int
by_name(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

JobUses
job_uses_of(Node *node, Oid owner)
{
	JobUses		uses = {.known = true};
	ListCell   *lc;

	foreach(lc, job_objects_of(node))
		uses.names = lappend(uses.names, object_name(lfirst(lc), owner));
	list_sort(uses.names, by_name);
	return uses;
}

JobUses
job_uses_copy(const JobUses *uses)
{
	JobUses		copy = {.known = uses->known};
	ListCell   *lc;

	foreach(lc, uses->names)
		copy.names = lappend(copy.names, pstrdup(lfirst(lc)));
	return copy;
}

bool
job_uses_same(const JobUses *a, const JobUses *b)
{
	if (!a->known || !b->known)
		return true;
	if (list_length(a->names) != list_length(b->names))
		return false;
	for (int i = 0; i < list_length(a->names); i++)
		if (strcmp(list_nth(a->names, i), list_nth(b->names, i)) != 0)
			return false;
	return true;
}

static bool
has_name(const JobUses *uses, const char *name)
{
	ListCell   *lc;

	foreach(lc, uses->names)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

static void
require_known(const JobUses *uses, const ObjectAddress *a, Oid owner)
{
	char	   *name = object_name(a, owner);

	if (has_name(uses, name))
		return;
	/* the message starts with REASON, as the job keeps only the message of an error */
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 job_trusts(job_object_owner(a), owner) ?
			 errmsg("the input uses %s, which it did not use when the job was created: llm_resume_job() "
					"accepts this, llm_alter_job() sets another input", name) :
			 errmsg("the input uses %s, which it did not use when the job was created, and which belongs to "
					"another role: llm_alter_job() sets another input", name)));
}

void
job_uses_check(const JobUses *uses, List *allowed, Node *node, Oid owner)
{
	ListCell   *lc;

	if (!uses->known)
		return;
	foreach(lc, job_objects_of(node))
		if (!job_object_in(allowed, lfirst(lc)))
			require_known(uses, lfirst(lc), owner);
}

typedef struct TypeNames
{
	const JobUses *uses;
	Oid			owner;
} TypeNames;

static bool
type_names_walker(Node *node, void *context)
{
	TypeNames  *t = context;
	ObjectAddress type;

	if (node == NULL)
		return false;
	if (IsA(node, TypeName))
	{
		ObjectAddressSet(type, TypeRelationId, LookupTypeNameOid(NULL, (TypeName *) node, true));
		if (type.objectId >= FirstNormalObjectId)
			require_known(t->uses, &type, t->owner);
	}
	return raw_expression_tree_walker(node, type_names_walker, context);
}

void
job_uses_check_types(const JobUses *uses, const char *input, Oid owner)
{
	TypeNames	t = {uses, owner};
	ListCell   *lc;

	foreach(lc, raw_parser(psprintf("SELECT (%s\n)", input), RAW_PARSE_DEFAULT))
	{
		Node	   *stmt = lfirst_node(RawStmt, lc)->stmt;

		if (uses->known)
			(void) type_names_walker(stmt, &t);
		job_trust_names(NULL, stmt, owner);
	}
}

/* ---- the column vllm.job.uses ---- */

JobUses
job_uses_read(Datum array, bool isnull)
{
	JobUses		uses = {.known = !isnull};
	Datum	   *elems;
	int			n = 0;

	if (!isnull)
		deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	for (int i = 0; i < n; i++)
		uses.names = lappend(uses.names, TextDatumGetCString(elems[i]));
	return uses;
}

static void
store(const JobDef *job, const char *sql)
{
	Oid			types[3] = {INT4OID, TEXTARRAYOID, TEXTOID};
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(job->uses.names), 1));
	int			n = 0;
	Datum		v[3] = {Int32GetDatum(job->id), (Datum) 0, CStringGetTextDatum(job->input)};
	ListCell   *lc;
	JobRole		role;

	/* a database whose extension has not been updated has no such column */
	if (!job->uses.known || get_attnum(job_relation("job"), "uses") == InvalidAttrNumber)
		return;
	foreach(lc, job->uses.names)
		elems[n++] = CStringGetTextDatum(lfirst(lc));
	v[1] = PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
	job_role_internal(&role);
	if (SPI_execute_with_args(sql, 3, types, v, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not store what job \"%s\" uses", job->name);
	job_role_end(&role);
}

void
job_uses_store(const JobDef *job)
{
	store(job, "UPDATE vllm.job SET uses = $2 WHERE id = $1");
}

void
job_uses_record(const JobDef *job)
{
	store(job, "UPDATE vllm.job SET uses = $2 WHERE id = $1 AND uses IS NULL AND input = $3");
}

/* ---- accepting a new meaning ---- */

static void
read_step(void *arg)
{
	JobDef	   *job = arg;
	Relation	rel = table_open(job->source, AccessShareLock);
	JobUses		any = {0};
	JobRole		role;
	Node	   *node;

	job_role_owner(&role, job->owner);
	node = job_expression_read(rel, job->owner, job->input, &any);
	job_trust_node(node, job->owner);
	job->uses = job_uses_of(node, job->owner);
	job_role_end(&role);
	table_close(rel, NoLock);
}

void
job_uses_agree(JobDef *job, Oid owner)
{
	JobDef		now = *job;
	ErrorData  *err;
	ListCell   *lc;

	if (!job->uses.known ||
		(job->owner == owner && (job->reason == NULL || strncmp(job->reason, REASON, strlen(REASON)) != 0)))
		return;
	now.owner = owner;
	err = job_attempt(read_step, &now);
	if (err != NULL && job_trust_refused(err))
		ReThrowError(err);
	/* the worker reports an input that can't be read any more */
	if (err != NULL)
		return;
	foreach(lc, now.uses.names)
		if (!has_name(&job->uses, lfirst(lc)))
			ereport(NOTICE,
					(errmsg("the input of job \"%s\" uses %s from now on", job->name, (char *) lfirst(lc))));
	job->uses = now.uses;
}
