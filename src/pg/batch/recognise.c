/*
 * recognise.c
 *	  Which functions are engine functions.
 *
 * A function is recognised by its pg_proc row: language C, our library, a symbol of engine_func.def.
 * Some rows are not recognised, and their calls stay inline.  A function with settings or rights of
 * its own (SET, SECURITY DEFINER), or one that a module watches (fmgr_hook), is called through a
 * wrapper that the batch node doesn't have.  A STRICT one checks all arguments for NULL.  A
 * set-returning one has no single value.
 *
 * The results are cached by OID until pg_proc changes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "pg/batch/batch.h"

typedef struct RecogniseKnown
{
	Oid			funcid;			/* key */
	const EngineFunc *func;		/* NULL: not a function that the batch node can take */
	bool		uses_engine;	/* it is ours and its COST is that of a function that asks the engine */
} RecogniseKnown;

static HTAB *known = NULL;
static bool known_stale = false;

static void
proc_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	known_stale = true;
}

static const EngineFunc *
look_up(Oid funcid)
{
	HeapTuple	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	const EngineFunc *func = NULL;
	Form_pg_proc form;

	if (!HeapTupleIsValid(tup))
		return NULL;
	form = (Form_pg_proc) GETSTRUCT(tup);
	if (form->prokind == PROKIND_FUNCTION &&
		!form->proretset && !form->prosecdef && !form->proisstrict && !FmgrHookIsNeeded(funcid))
	{
		bool		no_config;

		(void) SysCacheGetAttr(PROCOID, tup, Anum_pg_proc_proconfig, &no_config);
		if (no_config)
			func = engine_func_of(tup);
	}
	ReleaseSysCache(tup);
	return func;
}

/* minimum COST of functions that ask the engine */
#define ENGINE_COST 1000

/*
 * Return true if the function is in our library, or is one of the extension's functions in SQL, which
 * call functions of the library.  The planner inlines most of those; it leaves volatile ones and sets in
 * a select list.
 */
static bool
is_ours(Oid funcid, HeapTuple tup)
{
	if (((Form_pg_proc) GETSTRUCT(tup))->prolang == SQLlanguageId)
	{
		Oid			extension = getExtensionOfObject(ProcedureRelationId, funcid);

		return OidIsValid(extension) && extension == get_extension_oid("vllm_pg", true);
	}
	return engine_func_is_ours(tup);
}

/*
 * Return true if the function, of any kind, asks the engine.  An aggregate does if its transition
 * function or its final function does.
 */
static bool
calls_engine(Oid funcid)
{
	HeapTuple	tup = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(funcid));
	bool		uses_engine;

	if (HeapTupleIsValid(tup))
	{
		Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(tup);
		Oid			trans = agg->aggtransfn;
		Oid			final = agg->aggfinalfn;

		ReleaseSysCache(tup);
		return calls_engine(trans) || (OidIsValid(final) && calls_engine(final));
	}
	tup = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tup))
		return false;
	uses_engine = ((Form_pg_proc) GETSTRUCT(tup))->procost >= ENGINE_COST && is_ours(funcid, tup);
	ReleaseSysCache(tup);
	return uses_engine;
}

static const RecogniseKnown *
known_function(Oid funcid)
{
	RecogniseKnown *k;

	if (known_stale && known)
	{
		hash_destroy(known);
		known = NULL;
	}
	if (!known)
	{
		static bool registered = false;
		HASHCTL		ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(RecogniseKnown),
						   .hcxt = TopMemoryContext};

		if (!registered)
			CacheRegisterSyscacheCallback(PROCOID, proc_changed, (Datum) 0);
		registered = true;
		known = hash_create("vllm_pg functions", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		known_stale = false;
	}
	k = hash_search(known, &funcid, HASH_FIND, NULL);
	if (!k)
	{
		const EngineFunc *func = look_up(funcid);
		bool		uses_engine = calls_engine(funcid);

		/* if pg_proc has changed in the meantime, the next call discards this entry */
		k = hash_search(known, &funcid, HASH_ENTER, NULL);
		k->func = func;
		k->uses_engine = uses_engine;
	}
	return k;
}

const EngineFunc *
batch_recognise(Oid funcid)
{
	return funcid < FirstNormalObjectId ? NULL : known_function(funcid)->func;
}

bool
batch_calls_engine(Oid funcid)
{
	return funcid >= FirstNormalObjectId && known_function(funcid)->uses_engine;
}

bool
batch_asks_for_rows(Oid aggfnoid)
{
	HeapTuple	tup = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	Oid			trans = InvalidOid;

	if (HeapTupleIsValid(tup))
	{
		trans = ((Form_pg_aggregate) GETSTRUCT(tup))->aggtransfn;
		ReleaseSysCache(tup);
	}
	return batch_calls_engine(trans);
}

AggregateCalls
batch_aggregate_calls(const Aggref *agg)
{
	if (!batch_calls_engine(agg->aggfnoid))
		return AGGREGATE_NO_CALLS;
	if (batch_asks_for_rows(agg->aggfnoid))
		return DO_AGGSPLIT_COMBINE(agg->aggsplit) ? AGGREGATE_NO_CALLS : AGGREGATE_ROW_CALLS;
	return DO_AGGSPLIT_SKIPFINAL(agg->aggsplit) ? AGGREGATE_NO_CALLS : AGGREGATE_GROUP_CALLS;
}
