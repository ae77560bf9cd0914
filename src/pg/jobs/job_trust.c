/*
 * job_trust.c
 *	  Which roles' code a job may run.
 *
 * A job runs as its owner, at any time, unattended.  It must not run code that another role can
 * change: each object that its input uses must belong to the job's owner or to a superuser (as the
 * objects of most extensions do).
 *
 * There are two kinds of checks.  The first is made when the text is analysed: when a job is created,
 * altered or resumed, and each time the worker reads the input.  It checks the functions, operators
 * and other objects that the text names, the functions of operators and casts, and the types of all
 * values in it, with the types that those are made of.  Making a value of a domain runs its checks,
 * and the owner of a type may create casts from it at any time; so types of other roles are refused
 * even if they have no such code yet.
 *
 * The second is made at run time, as an expression does not show all code that it runs: see
 * job_trust_run.c.
 *
 * Tests: tests/t/066_jobs_names.pl, 065_jobs_hostile.pl, tests/sql/23_jobs_checks.sql.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "pg/compat.h"
#include "pg/jobs/job.h"
#include "pg/util/type_trust.h"

/* Functions of PostgreSQL that read tables, or make values of types, that their arguments name. */
static const char *const by_name[] = {
	"table_to_xml", "table_to_xmlschema", "table_to_xml_and_xmlschema",
	"schema_to_xml", "schema_to_xmlschema", "schema_to_xml_and_xmlschema",
	"database_to_xml", "database_to_xmlschema", "database_to_xml_and_xmlschema",
	"array_in", "array_recv", "domain_in", "domain_recv", "enum_in", "enum_recv", "multirange_in",
	"multirange_recv", "range_in", "range_recv", "record_in", "record_recv",
	"pg_input_is_valid", "pg_input_error_info", "fmgr_sql_validator"
};

bool
job_trusts(Oid role, Oid owner)
{
	return role == owner || superuser_arg(role);
}

bool
job_trust_refused(const ErrorData *e)
{
	return e->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE || e->sqlerrcode == ERRCODE_DATATYPE_MISMATCH;
}

/* ---- types ---- */

void
job_check_column_type(Oid type, Oid owner)
{
	if (!type_is_trusted_by(type, owner))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the job needs a column of type %s, which belongs to another role or contains a type "
						"that does", format_type_be(type)),
				 errdetail("A cast from or to it, or a domain's check, could run that role's code as the "
						   "job's owner."),
				 errhint("Use a type of the table's owner or of a superuser: ALTER TYPE ... OWNER TO.")));
}

void
job_check_written_types(Relation rel, bool all, Oid owner)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ListCell   *lc;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped && (all || TupleDescAttr(desc, i)->attgenerated))
			job_check_column_type(TupleDescAttr(desc, i)->atttypid, owner);
	/* foreign keys' triggers compare them, with casts that are cached for the session */
	foreach(lc, RelationGetFKeyList(rel))
	{
		const ForeignKeyCacheInfo *fk = lfirst(lc);

		for (int i = 0; i < fk->nkeys; i++)
			job_check_column_type(TupleDescAttr(desc, fk->conkey[i] - 1)->atttypid, owner);
	}
}

static void
check_value_type(Oid type, Oid owner)
{
	if (!type_is_trusted_by(type, owner))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the job's input has a value of type %s, which belongs to another role or contains a "
						"type that does", format_type_be(type)),
				 errdetail("A cast from or to it, or a domain's check, could run that role's code as the "
						   "job's owner."),
				 errhint("Use types, and functions that return types, of the table's owner or of a "
						 "superuser.")));
}

bool
job_is_value(Node *node)
{
	switch (nodeTag(node))
	{
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_OpExpr:
		case T_NullIfExpr:
		case T_Aggref:
		case T_WindowFunc:
		case T_SubscriptingRef:
		case T_FieldSelect:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CoerceToDomain:
		case T_CaseExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
			return true;
		default:
			return compat_is_json_expr(node);
	}
}

/* Only the function knows the fields of a record, unless they are declared. */
static void
check_record(Oid funcid, Oid type, Oid owner)
{
	TupleDesc	desc;

	if ((type != RECORDOID && type != RECORDARRAYOID) || funcid < FirstNormalObjectId ||
		OidIsValid(getExtensionOfObject(ProcedureRelationId, funcid)))
		return;
	/* a function declared to return "record", with OUT parameters, returns these fields */
	if (get_func_rettype(funcid) != RECORDOID || get_func_result_type(funcid, NULL,
																	  &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the job's input has a record of function %s, whose fields may be of any type",
						format_procedure(funcid)),
				 errdetail("A cast from a type of another role could run that role's code as the job's "
						   "owner."),
				 errhint("Use a function that returns a composite type, or has OUT parameters.")));
	for (int i = 0; i < desc->natts; i++)
		check_value_type(TupleDescAttr(desc, i)->atttypid, owner);
}

/* ---- objects ---- */

static void
check_object(const ObjectAddress *a, Oid owner)
{
	if (a->objectId < FirstNormalObjectId || job_trusts(job_object_owner(a), owner))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("the job's input uses %s, which belongs to another role", getObjectDescription(a, false)),
			 errdetail("That role can change it at any time, and it runs as the job's owner."),
			 errhint("Use functions, operators and other objects of the table's owner or of a superuser.")));
}

static bool
check_function(Oid funcid, void *context)
{
	ObjectAddress a;

	ObjectAddressSet(a, ProcedureRelationId, funcid);
	check_object(&a, *(Oid *) context);
	return false;
}

void
job_check_call(const FuncExpr *call)
{
	const char *name;

	if (call->funcid >= FirstNormalObjectId || call->funcformat != COERCE_EXPLICIT_CALL)
		return;
	name = get_func_name(call->funcid);
	for (int i = 0; i < (int) lengthof(by_name); i++)
		if (name != NULL && strcmp(name, by_name[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("function %s is not supported in the input of a job",
							format_procedure(call->funcid)),
					 errdetail("It reads tables, or makes values of types, that only its arguments name.")));
}

static bool
node_walker(Node *node, void *context)
{
	Oid		   *owner = context;
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		/* the columns that the statement writes */
		if (((Query *) node)->commandType != CMD_SELECT)
			foreach(lc, ((Query *) node)->targetList)
				job_check_column_type(exprType((Node *) lfirst_node(TargetEntry, lc)->expr), *owner);
		return query_tree_walker((Query *) node, node_walker, context, 0);
	}
	if (IsA(node, Var))
		job_check_column_type(((Var *) node)->vartype, *owner);
	if (job_is_value(node))
		check_value_type(exprType(node), *owner);
	if (IsA(node, FuncExpr))
		job_check_call((FuncExpr *) node);
	/*
	 * operands first: an error about the type that a cast is from is more helpful than one about the
	 * cast's owner
	 */
	(void) expression_tree_walker(node, node_walker, context);
	/* sets opfuncid */
	(void) check_functions_in_node(node, check_function, owner);
	if (IsA(node, FuncExpr))
		check_record(((FuncExpr *) node)->funcid, exprType(node), *owner);
	if (IsA(node, OpExpr))
		check_record(((OpExpr *) node)->opfuncid, exprType(node), *owner);
	return false;
}

void
job_trust_node(Node *node, Oid owner)
{
	ListCell   *lc;

	(void) node_walker(node, &owner);
	foreach(lc, job_objects_of(node))
		check_object(lfirst(lc), owner);
}

/* ---- names ---- */

typedef struct Names
{
	Relation	rel;
	Oid			owner;
} Names;

static void
check_type_name(const TypeName *name, Oid owner)
{
	Oid			type = LookupTypeNameOid(NULL, name, true);

	if (OidIsValid(type))
		check_value_type(type, owner);
}

/* A cast can look like a call; look the type up as PostgreSQL does. */
static void
check_call_name(List *name, Oid owner)
{
	Type		tuple = LookupTypeNameExtended(NULL, makeTypeNameFromNameList(name), NULL, false, true);
	Oid			type = InvalidOid;

	if (tuple == NULL)
		return;
	if (!OidIsValid(typeTypeRelid(tuple)))
		type = typeTypeId(tuple);
	ReleaseSysCache(tuple);
	if (OidIsValid(type))
		check_value_type(type, owner);
}

/* Check a column, or all columns for a whole row. */
static void
check_column_name(const ColumnRef *c, const Names *n)
{
	TupleDesc	desc = RelationGetDescr(n->rel);
	Node	   *last = llast(c->fields);
	AttrNumber	attno = InvalidAttrNumber;

	if (IsA(last, String))
		attno = get_attnum(RelationGetRelid(n->rel), strVal(last));
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped && (attno == i + 1 || attno == InvalidAttrNumber))
			job_check_column_type(TupleDescAttr(desc, i)->atttypid, n->owner);
}

static bool
names_walker(Node *node, void *context)
{
	Names	   *n = context;

	if (node == NULL)
		return false;
	if (IsA(node, TypeName))
		check_type_name((TypeName *) node, n->owner);
	if (IsA(node, FuncCall))
		check_call_name(((FuncCall *) node)->funcname, n->owner);
	if (IsA(node, ColumnRef) && n->rel != NULL)
		check_column_name((ColumnRef *) node, n);
	return raw_expression_tree_walker(node, names_walker, context);
}

void
job_trust_names(Relation rel, Node *raw, Oid owner)
{
	Names		n = {rel, owner};

	(void) names_walker(raw, &n);
}
