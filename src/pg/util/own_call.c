/*
 * own_call.c
 *	  SQL text of calls that find the extension's own functions.
 *
 * A role that may create objects in the extension's schema can add a function of the same name that
 * fits a call better: one that has only the given arguments, or takes a literal without a cast.  That
 * function would run with the rights of the role that fires a trigger or owns a job.  So the call
 * gives all arguments of the extension's function, each cast to its exact type: no function can fit
 * better, and only one can have that signature.
 *
 * Tests: tests/t/030_upgrade.pl.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "pg/util/own_call.h"

List *
own_arg(List *args, const char *name, const char *value)
{
	OwnArg	   *arg = palloc(sizeof(OwnArg));

	arg->name = name;
	arg->value = value;
	return lappend(args, arg);
}

Oid
own_function(const char *name, Oid first_type)
{
	Oid			extension = get_extension_oid("vllm_pg", false);
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	Oid			found = InvalidOid;

	for (int i = 0; i < list->n_members && !OidIsValid(found); i++)
	{
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		if ((proc->pronargs > 0 ? proc->proargtypes.values[0] : InvalidOid) == first_type &&
			getExtensionOfObject(ProcedureRelationId, proc->oid) == extension)
			found = proc->oid;
	}
	ReleaseCatCacheList(list);
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension \"vllm_pg\" of this database has no function %s(%s, ...)", name,
						format_type_be(first_type)),
				 errhint("Use ALTER EXTENSION vllm_pg UPDATE.")));
	return found;
}

static HeapTuple
proc_tuple(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	return tuple;
}

/* Return the names of its arguments, followed by those of its results. */
static char **
argument_names(HeapTuple tuple)
{
	Oid		   *types;
	char	  **names;
	char	   *modes;

	(void) get_func_arg_info(tuple, &types, &names, &modes);
	return names;
}

bool
own_function_takes(Oid function, const char *name)
{
	HeapTuple	tuple = proc_tuple(function);
	char	  **names = argument_names(tuple);
	int			n = ((Form_pg_proc) GETSTRUCT(tuple))->pronargs;
	bool		found = false;

	for (int i = 1; i < n && names != NULL; i++)
		found |= strcmp(names[i], name) == 0;
	ReleaseSysCache(tuple);
	return found;
}

/* Return the default of argument i, as SQL; NULL if it has none. */
static char *
default_text(HeapTuple tuple, int i)
{
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);
	int			nth = i - (proc->pronargs - proc->pronargdefaults);
	bool		isnull;
	Datum		defaults = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargdefaults, &isnull);
	Node	   *node;

	if (isnull || nth < 0)
		return NULL;
	node = list_nth(castNode(List, stringToNode(TextDatumGetCString(defaults))), nth);
	if (IsA(node, Const) && ((Const *) node)->constisnull)
		return "NULL";
	return deparse_expression(node, NIL, false, false);
}

static const char *
value_of(List *args, const char *name)
{
	ListCell   *lc;

	foreach(lc, args)
	{
		OwnArg	   *arg = lfirst(lc);

		if (strcmp(arg->name, name) == 0)
			return arg->value;
	}
	return NULL;
}

char *
own_call(Oid function, List *args)
{
	HeapTuple	tuple = proc_tuple(function);
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);
	char	  **names = argument_names(tuple);
	int			given = 0;
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "%s(", quote_qualified_identifier(get_namespace_name(proc->pronamespace),
														   NameStr(proc->proname)));
	for (int i = 0; i < proc->pronargs; i++)
	{
		const char *value = value_of(args, names[i]);

		if (value != NULL)
			given++;
		else if ((value = default_text(tuple, i)) == NULL)
			elog(ERROR, "argument \"%s\" of function %s is missing", names[i], NameStr(proc->proname));
		appendStringInfo(&s, "%sCAST(%s AS %s)", i > 0 ? ", " : "", value,
						 format_type_extended(proc->proargtypes.values[i], -1, FORMAT_TYPE_FORCE_QUALIFY));
	}
	appendStringInfoChar(&s, ')');
	if (given != list_length(args))
		elog(ERROR, "function %s has not all of the arguments that are given", NameStr(proc->proname));
	ReleaseSysCache(tuple);
	return s.data;
}
