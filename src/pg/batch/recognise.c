/*
 * recognise.c
 *	  Which functions are the engine's?
 *
 * By the pg_proc row: language C, our library, a symbol of engine_func.def.  A
 * function that was altered to run with settings or rights of its own (SET, SECURITY
 * DEFINER) or that a module wants to watch (fmgr_hook) is called through a wrapper
 * that the batch node doesn't have; a STRICT one looks at all arguments; a
 * set-returning one has no single value.  They are not recognised and stay inline.
 *
 * The answers are kept by OID, until pg_proc changes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "pg/batch/batch.h"

typedef struct RecogniseKnown
{
	Oid			funcid;			/* key */
	const EngineFunc *func;		/* NULL: somebody else's */
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

const EngineFunc *
batch_recognise(Oid funcid)
{
	RecogniseKnown *k;

	if (funcid < FirstNormalObjectId)
		return NULL;
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

		/* if pg_proc changed meanwhile, the next call throws the answer away */
		k = hash_search(known, &funcid, HASH_ENTER, NULL);
		k->func = func;
	}
	return k->func;
}
