/*
 * named_args.c
 *	  The arguments of SQL functions by name.
 *
 * An option is found by its argument's name in pg_proc, at any position.  Functions have options of
 * their own among the common ones, and a function of an older catalog lacks the newer ones, but its C
 * code is the same.
 *
 * The names are cached by OID until pg_proc changes.  A call may have fewer arguments than its
 * function, since a plan may be older than ALTER EXTENSION UPDATE.
 *
 * Tests: tests/sql/03_options.sql, tests/t/030_upgrade.pl.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "funcapi.h"
#include "nodes/nodeFuncs.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "pg/util/named_args.h"

typedef struct FnArgs
{
	Oid			funcid;			/* key */
	int			n;
	char	  **names;			/* [n]; "" = without a name */
	Oid		   *types;
	int16	   *numbers;		/* NULL: not asked for yet */
} FnArgs;

static MemoryContext cxt = NULL;
static HTAB *known = NULL;
static bool stale = false;

static void
proc_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	stale = true;
}

static void
make_cache(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(FnArgs)};

	if (cxt == NULL)
	{
		cxt = AllocSetContextCreate(TopMemoryContext, "vllm_pg function arguments", ALLOCSET_DEFAULT_SIZES);
		CacheRegisterSyscacheCallback(PROCOID, proc_changed, (Datum) 0);
	}
	known = NULL;
	MemoryContextReset(cxt);
	ctl.hcxt = cxt;
	known = hash_create("vllm_pg function arguments", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	stale = false;
}

/* Only input arguments count: those of TABLE are results. */
static void
read_arguments(FnArgs *a, HeapTuple tuple)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);
	bool		no_names,
				no_modes;
	Datum		names = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargnames, &no_names);
	Datum		modes = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargmodes, &no_modes);
	char	  **inputs = NULL;
	int			n = no_names ? 0 : get_func_input_arg_names(names, no_modes ? (Datum) 0 : modes, &inputs);

	a->n = form->pronargs;
	a->names = palloc(sizeof(char *) * Max(a->n, 1));
	a->types = palloc(sizeof(Oid) * Max(a->n, 1));
	for (int i = 0; i < a->n; i++)
	{
		a->names[i] = pstrdup(i < n && inputs[i] != NULL ? inputs[i] : "");
		a->types[i] = form->proargtypes.values[i];
	}
}

static FnArgs *
arguments_of(Oid funcid)
{
	FnArgs		fresh = {.funcid = funcid};
	FnArgs	   *a;
	HeapTuple	tuple;
	MemoryContext old;

	if (known == NULL || stale)
		make_cache();
	a = hash_search(known, &funcid, HASH_FIND, NULL);
	if (a != NULL)
		return a;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	/* read everything first, so that an entry is complete or absent */
	old = MemoryContextSwitchTo(cxt);
	read_arguments(&fresh, tuple);
	MemoryContextSwitchTo(old);
	ReleaseSysCache(tuple);
	a = hash_search(known, &funcid, HASH_ENTER, NULL);
	*a = fresh;
	return a;
}

int
fn_arg_of(Oid funcid, const char *name)
{
	const FnArgs *a = arguments_of(funcid);

	for (int i = 0; i < a->n; i++)
		if (strcmp(a->names[i], name) == 0)
			return i;
	return -1;
}

int
fn_arg(FunctionCallInfo fcinfo, const char *name)
{
	int			i = fn_arg_of(fcinfo->flinfo->fn_oid, name);

	return i < PG_NARGS() ? i : -1;
}

int
fn_arg_given(FunctionCallInfo fcinfo, const char *name)
{
	int			i = fn_arg(fcinfo, name);

	return i >= 0 && !PG_ARGISNULL(i) ? i : -1;
}

const int16 *
fn_arg_numbers(FunctionCallInfo fcinfo, ArgNumber number, int *n)
{
	FnArgs	   *a = arguments_of(fcinfo->flinfo->fn_oid);

	if (a->numbers == NULL)
	{
		int16	   *numbers = MemoryContextAlloc(cxt, sizeof(int16) * Max(a->n, 1));

		for (int i = 0; i < a->n; i++)
			numbers[i] = (int16) number(a->names[i], a->types[i]);
		a->numbers = numbers;
	}
	*n = Min(a->n, PG_NARGS());
	return a->numbers;
}

int32
fn_arg_typmod(FunctionCallInfo fcinfo, int arg)
{
	FuncExpr   *call = (FuncExpr *) fcinfo->flinfo->fn_expr;

	if (call == NULL || !IsA(call, FuncExpr) || arg >= list_length(call->args))
		return -1;
	return exprTypmod(list_nth(call->args, arg));
}
