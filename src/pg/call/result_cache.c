/*
 * result_cache.c
 *	  The result cache: results of requests in a table, vllm.result_cache.
 *
 * A key is the SHA-256 of everything that determines a result: the model (its name, its location, its
 * options; for local files their time of change), the kind of the request, all parameters, the
 * prompt; and the role, unless the model's results are shared.  Fields about the caller, the time and
 * the price are left out.  Only requests whose results are always the same are looked up and stored.
 *
 * The table is written as catalogs are, without SPI and from within the executor: one tuple and its
 * index entries, in the statement's transaction.  Its index on keys is not unique, so an insert can't
 * fail: two sessions that ask at the same time store two equal rows, either of which will do.  A
 * transaction that is read-only, in recovery or serializable stores nothing.  While a parallel plan
 * runs no process can write: its results wait in memory until it has ended.  A result is not stored
 * either if the model's results were cleared after its request was made: a future may be fetched long
 * after that.
 *
 * Limits are enforced by removing the oldest rows: when a session has stored a sixteenth of
 * max_bytes, and by llm_cache_prune().  Rows that another transaction is deleting are left to the
 * next time.
 *
 * Tests: tests/sql/37_result_cache.sql, tests/t/116_money.pl.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/catalog/caller_options.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/client/spend.h"
#include "pg/call/result_cache.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_cache_prune);
PG_FUNCTION_INFO_V1(llm_cache_clear);
PG_FUNCTION_INFO_V1(llm_cache_list);

/* columns of vllm.result_cache, in order */
enum
{
	COL_KEY = 1, COL_MODEL, COL_ROLE, COL_CREATED, COL_BYTES, COL_REPLY, N_COLS = COL_REPLY
};

/* A database whose extension has not been updated has no table: nothing is stored. */
static bool
is_there(void)
{
	return OidIsValid(catalog_own_relation("result_cache"));
}

/* ---- keys ---- */

static void
update(pg_cryptohash_ctx *ctx, const void *data, Size n)
{
	if (pg_cryptohash_update(ctx, data, n) < 0)
		elog(ERROR, "could not compute a digest");
}

/* A file that has been replaced is another model. */
static void
update_file(pg_cryptohash_ctx *ctx, const char *path, Size n)
{
	char	   *name = pnstrdup(path, n);
	struct stat st;
	int64		seen[2] = {0, 0};

	if (stat(name, &st) == 0)
	{
		seen[0] = (int64) st.st_mtime;
		seen[1] = (int64) st.st_size;
	}
	update(ctx, seen, sizeof(seen));
	pfree(name);
}

/* Return true if the field does not affect the result. */
static bool
is_besides(int tag)
{
	switch (tag)
	{
		case WTAG_DATABASE:
		case WTAG_ROLE:
		case WTAG_SESSION:
		case WTAG_LOGIN:
		case WTAG_BACKGROUND:
		case WTAG_ROLE_WEIGHT:
		case WTAG_ROLE_MAX_REQUESTS:
		case WTAG_ROLE_TOKENS_PER_MINUTE:
		case WTAG_ROLE_LIMIT_WAIT:
		case WTAG_SLEEP_WAIT:
		case WTAG_SECRET_PATHS:
		case WTAG_SECRET:
		case WTAG_TRACEPARENT:
		case WTAG_TRACESTATE:
		case WTAG_PRIORITY:
		case WTAG_NOTE:
		case WTAG_PRICE_INPUT:
		case WTAG_PRICE_CACHED:
		case WTAG_PRICE_OUTPUT:
		case WTAG_CACHE_RULE:
		case WTAG_FALLBACK:
		case WTAG_CASCADE:
			return true;
		default:
			return false;
	}
}

/*
 * Return true if the message has a cascade.  What the request asks (a filter's threshold, how choices
 * are normalized) decides which results are sure enough, and so are stored.  The note says that, so
 * it becomes part of the key.
 */
static bool
has_cascade(const StringInfoData *body)
{
	WireIn		in = {body->data, body->data + body->len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_CASCADE)
			return true;
	return false;
}

/* Read the rule that caller_options.c has written; return false if there is none. */
static bool
read_rule(CacheKey *k, const StringInfoData *body, bool *shared)
{
	WireIn		in = {body->data, body->data + body->len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_CACHE_RULE)
		{
			char	   *rule = pnstrdup(f.s, f.n);
			long long	age,
						bytes;
			int			all;
			bool		ok = sscanf(rule, "%lld %lld %d", &age, &bytes, &all) == 3;

			pfree(rule);
			k->max_age = age;
			k->max_bytes = bytes;
			*shared = all != 0;
			return ok;
		}
	return false;
}

/* Models share counters, so a result may be discarded because another model's results were cleared. */
static pg_atomic_uint32 *
clears_of(const char *model)
{
	return &vllm_shared->cache_clears[vslot_of_model(model) % VLLM_CACHE_CLEARS];
}

uint32
result_cache_cleared(const char *model)
{
	return vllm_shared != NULL && model != NULL ? pg_atomic_read_u32(clears_of(model)) : 0;
}

/* NULL: of all models */
static void
note_clearing(const char *model)
{
	if (vllm_shared == NULL)
		return;
	for (int i = 0; model == NULL && i < VLLM_CACHE_CLEARS; i++)
		pg_atomic_fetch_add_u32(&vllm_shared->cache_clears[i], 1);
	if (model != NULL)
		pg_atomic_fetch_add_u32(clears_of(model), 1);
}

static void
make_digest(CacheKey *k, WireKind kind, const StringInfoData *body, bool shared)
{
	WireIn		in = {body->data, body->data + body->len};
	WireField	f;
	const char *before = in.p;
	bool		noted = has_cascade(body);
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	uint32		head[2] = {kind, shared ? InvalidOid : k->role};

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0)
		elog(ERROR, "could not compute a digest");
	update(ctx, head, sizeof(head));
	for (; wire_next(&in, &f) > 0; before = in.p)
	{
		/* the field as it is in the message: tag, length and value */
		if (!is_besides(f.tag) || (noted && f.tag == WTAG_NOTE))
			update(ctx, before, in.p - before);
		if (f.tag == WTAG_MODEL_PATH || f.tag == WTAG_LORA_PATH)
			update_file(ctx, f.s, f.n);
	}
	if (pg_cryptohash_final(ctx, k->digest, sizeof(k->digest)) < 0)
		elog(ERROR, "could not compute a digest");
	pg_cryptohash_free(ctx);
}

void
result_cache_key(CacheKey *k, WireKind kind, const StringInfoData *body, const char *model,
				 bool deterministic)
{
	bool		shared = false;
	ResourceOwner outside = NULL;

	memset(k, 0, sizeof(*k));
	if (!deterministic || model == NULL || (kind != WK_GENERATE && kind != WK_POOL && kind != WK_LOGPROBS) ||
		!read_rule(k, body, &shared) || (IsTransactionState() && !is_there()))
		return;
	strlcpy(k->model, model, sizeof(k->model));
	k->role = GetUserId();
	k->cleared = result_cache_cleared(model);
	/* a digest context needs a resource owner, which does not exist outside of transactions */
	if (CurrentResourceOwner == NULL)
		outside = CurrentResourceOwner = ResourceOwnerCreate(NULL, "LLM cache key");
	make_digest(k, kind, body, shared);
	if (outside != NULL)
	{
		CurrentResourceOwner = NULL;
		ResourceOwnerDelete(outside);
	}
	k->on = true;
}

/* ---- rows ---- */

static bytea *
to_bytea(const void *data, Size n)
{
	bytea	   *b = palloc(VARHDRSZ + n);

	SET_VARSIZE(b, VARHDRSZ + n);
	memcpy(VARDATA(b), data, n);
	return b;
}

static TimestampTz
created_of(HeapTuple t, TupleDesc desc)
{
	bool		isnull;

	return DatumGetTimestampTz(heap_getattr(t, COL_CREATED, desc, &isnull));
}

static bool
is_too_old(TimestampTz created, int64 max_age)
{
	return max_age > 0 && GetCurrentTimestamp() - created > max_age * USECS_PER_SEC;
}

char *
result_cache_find(const CacheKey *k, Size *len)
{
	bytea	   *digest = to_bytea(k->digest, CACHE_DIGEST);
	Relation	rel = table_open(catalog_relation("result_cache"), AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	t;
	char	   *reply = NULL;

	ASSERT(k->on);
	ScanKeyInit(&key, COL_KEY, BTEqualStrategyNumber, F_BYTEAEQ, PointerGetDatum(digest));
	scan = systable_beginscan(rel, catalog_relation("result_cache_key"), true, NULL, 1, &key);
	while (reply == NULL && HeapTupleIsValid(t = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		d;
		bytea	   *b;

		if (is_too_old(created_of(t, RelationGetDescr(rel)), k->max_age))
			continue;
		d = heap_getattr(t, COL_REPLY, RelationGetDescr(rel), &isnull);
		b = DatumGetByteaPP(d);
		*len = VARSIZE_ANY_EXHDR(b);
		reply = palloc(Max(*len, 1));
		memcpy(reply, VARDATA_ANY(b), *len);
		if ((Pointer) b != DatumGetPointer(d))
			pfree(b);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	pfree(digest);
	cost_count_cache(k->model, reply != NULL ? COST_CACHE_HIT : COST_CACHE_MISS);
	return reply;
}

/* Delete a row.  With wait, wait for a transaction that is deleting it; else skip it. */
static bool
delete_row(Relation rel, HeapTuple t, bool wait)
{
	TM_FailureData failure;

	return table_tuple_delete(rel, &t->t_self, GetCurrentCommandId(true), GetActiveSnapshot(),
							  InvalidSnapshot, wait, &failure, false) == TM_Ok;
}

/*
 * Delete the model's rows that are too old, and the oldest of the others until they have at most
 * max_bytes.  Scans the index backwards: the newest come first.
 */
static int64
prune(const char *model, int64 max_age, int64 max_bytes)
{
	Relation	rel = table_open(catalog_relation("result_cache"), RowExclusiveLock);
	Relation	index = index_open(catalog_relation("result_cache_age"), AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	NameData	name;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	t;
	int64		bytes = 0,
				n = 0;

	namestrcpy(&name, model);
	ScanKeyInit(&key, COL_MODEL, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
	scan = systable_beginscan_ordered(rel, index, snapshot, 1, &key);
	PushActiveSnapshot(snapshot);
	while (HeapTupleIsValid(t = systable_getnext_ordered(scan, BackwardScanDirection)))
	{
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		bytes += DatumGetInt64(heap_getattr(t, COL_BYTES, RelationGetDescr(rel), &isnull));
		if (bytes > max_bytes || is_too_old(created_of(t, RelationGetDescr(rel)), max_age))
			n += delete_row(rel, t, false);
	}
	PopActiveSnapshot();
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(rel, RowExclusiveLock);
	return n;
}

/*
 * A statement can't remove what it has stored itself, as those rows are invisible to it.  So it
 * stores at most max_bytes.
 */
static bool
has_room(const CacheKey *k, int64 bytes)
{
	static TimestampTz statement;
	static int64 kept;

	if (statement != GetCurrentStatementStartTimestamp())
	{
		statement = GetCurrentStatementStartTimestamp();
		kept = 0;
	}
	if (kept + bytes > k->max_bytes)
		return false;
	kept += bytes;
	return true;
}

/* Prune the model's rows when this session has stored a sixteenth of max_bytes since its last look. */
static void
prune_occasionally(const CacheKey *k, int64 bytes)
{
	static char model[NAMEDATALEN];
	static int64 kept;

	if (strcmp(model, k->model) != 0)
	{
		strlcpy(model, k->model, sizeof(model));
		kept = 0;
	}
	kept += bytes;
	if (kept <= k->max_bytes / 16)
		return;
	kept = 0;
	(void) prune(k->model, k->max_age, k->max_bytes);
}

void
result_cache_keep(const CacheKey *k, const char *reply, Size len)
{
	Relation	rel;
	Datum		values[N_COLS];
	bool		nulls[N_COLS] = {0};
	NameData	name;
	HeapTuple	t;
	int64		bytes = len + 128;	/* with the overhead of a row */

	ASSERT(k->on);
	if (XactReadOnly || RecoveryInProgress() || IsInParallelMode() || IsolationIsSerializable() ||
		k->cleared != result_cache_cleared(k->model) || !is_there() || !has_room(k, bytes))
	{
		cost_count_cache(k->model, COST_CACHE_SKIPPED);
		return;
	}
	rel = table_open(catalog_relation("result_cache"), RowExclusiveLock);
	namestrcpy(&name, k->model);
	values[COL_KEY - 1] = PointerGetDatum(to_bytea(k->digest, CACHE_DIGEST));
	values[COL_MODEL - 1] = NameGetDatum(&name);
	values[COL_ROLE - 1] = ObjectIdGetDatum(k->role);
	values[COL_CREATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_BYTES - 1] = Int64GetDatum(bytes);
	values[COL_REPLY - 1] = PointerGetDatum(to_bytea(reply, len));
	t = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, t);
	table_close(rel, RowExclusiveLock);
	heap_freetuple(t);
	pfree(DatumGetPointer(values[COL_KEY - 1]));
	pfree(DatumGetPointer(values[COL_REPLY - 1]));
	prune_occasionally(k, bytes);
}

typedef struct CachedAnswer
{
	CacheKey	key;
	Size		len;
	char		reply[FLEXIBLE_ARRAY_MEMBER];
} CachedAnswer;

void
result_cache_keep_later(CacheLater *l, MemoryContext cxt, const CacheKey *k, const char *reply, Size len)
{
	MemoryContext old;
	CachedAnswer *a;

	if (l->bytes + len > CACHE_LATER)
	{
		cost_count_cache(k->model, COST_CACHE_SKIPPED);
		return;
	}
	old = MemoryContextSwitchTo(cxt);
	a = palloc(offsetof(CachedAnswer, reply) + len);
	a->key = *k;
	a->len = len;
	memcpy(a->reply, reply, len);
	l->answers = lappend(l->answers, a);
	l->bytes += len;
	MemoryContextSwitchTo(old);
}

void
result_cache_keep_now(CacheLater *l)
{
	ListCell   *lc;

	foreach(lc, l->answers)
	{
		const CachedAnswer *a = lfirst(lc);

		result_cache_keep(&a->key, a->reply, a->len);
	}
	list_free_deep(l->answers);
	*l = (CacheLater) {0};
}

int64
result_cache_clear(const char *model)
{
	Relation	rel;
	NameData	name;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	t;
	int64		n = 0;

	note_clearing(model);
	if (!is_there())
		return 0;
	rel = table_open(catalog_relation("result_cache"), RowExclusiveLock);
	if (model != NULL)
	{
		namestrcpy(&name, model);
		ScanKeyInit(&key, COL_MODEL, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
	}
	PushActiveSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, InvalidOid, false, NULL, model != NULL ? 1 : 0, &key);
	while (HeapTupleIsValid(t = systable_getnext(scan)))
		n += delete_row(rel, t, true);
	systable_endscan(scan);
	PopActiveSnapshot();
	table_close(rel, RowExclusiveLock);
	return n;
}

/* ---- functions ---- */

/* Read the rule in the model's options; return false if its results are not cached. */
static bool
rule_of(const ModelRow *m, CacheKey *k)
{
	StringInfoData s;
	WireOut		out;
	bool		shared;

	initStringInfo(&s);
	out = vclient_out(&s);
	caller_options_put(m->options, &out);
	return read_rule(k, &s, &shared);
}

/* Delete the rows of models that no longer exist. */
static int64
prune_orphans(void)
{
	Relation	rel = table_open(catalog_relation("result_cache"), RowExclusiveLock);
	SysScanDesc scan;
	HeapTuple	t;
	int64		n = 0;

	PushActiveSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(t = systable_getnext(scan)))
	{
		bool		isnull;
		Name		model = DatumGetName(heap_getattr(t, COL_MODEL, RelationGetDescr(rel), &isnull));

		CHECK_FOR_INTERRUPTS();
		if (catalog_find(NameStr(*model)) == NULL)
			n += delete_row(rel, t, false);
	}
	systable_endscan(scan);
	PopActiveSnapshot();
	table_close(rel, RowExclusiveLock);
	return n;
}

/* llm_cache_prune(): number of deleted rows; the EXECUTE privilege decides who may call it */
Datum
llm_cache_prune(PG_FUNCTION_ARGS)
{
	ListCell   *lc;
	int64		n;

	PreventCommandIfReadOnly("llm_cache_prune()");
	PreventCommandIfParallelMode("llm_cache_prune()");
	n = prune_orphans();
	foreach(lc, catalog_list())
	{
		const ModelRow *m = lfirst(lc);
		CacheKey	k;

		n += rule_of(m, &k) ? prune(m->name, k.max_age, k.max_bytes) : result_cache_clear(m->name);
	}
	PG_RETURN_INT64(n);
}

/*
 * llm_cache_clear(model text): number of deleted rows; for a model of the caller's or, as a
 * superuser, for all models (NULL)
 */
Datum
llm_cache_clear(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("llm_cache_clear()");
	PreventCommandIfParallelMode("llm_cache_clear()");
	if (PG_ARGISNULL(0) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to clear the result cache of all models")));
	if (PG_ARGISNULL(0))
		PG_RETURN_INT64(result_cache_clear(NULL));
	PG_RETURN_INT64(result_cache_clear(catalog_model_for_owner(text_to_cstring(PG_GETARG_TEXT_PP(0)))->name));
}

typedef struct Sum
{
	int64		entries,
				bytes;
} Sum;

static Sum
sum_of(const char *model)
{
	Relation	rel = table_open(catalog_relation("result_cache"), AccessShareLock);
	NameData	name;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	t;
	Sum			s = {0};

	namestrcpy(&name, model);
	ScanKeyInit(&key, COL_MODEL, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
	scan = systable_beginscan(rel, catalog_relation("result_cache_age"), true, NULL, 1, &key);
	while (HeapTupleIsValid(t = systable_getnext(scan)))
	{
		bool		isnull;

		s.entries++;
		s.bytes += DatumGetInt64(heap_getattr(t, COL_BYTES, RelationGetDescr(rel), &isnull));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return s;
}

/* vllm.cache_list(): models that the caller owns, or all for pg_read_all_stats */
Datum
llm_cache_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_list())
	{
		const ModelRow *m = lfirst(lc);
		CacheKey	k;
		int64		counts[COST_CACHE_COUNTS];
		Datum		v[3 + COST_CACHE_COUNTS];
		bool		nulls[3 + COST_CACHE_COUNTS] = {false};
		Sum			s;

		if (!rule_of(m, &k) ||
			!(catalog_is_owner(m, GetUserId()) || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS)))
			continue;
		s = sum_of(m->name);
		cost_cache_counts(m->name, counts);
		v[0] = CStringGetTextDatum(m->name);
		v[1] = Int64GetDatum(s.entries);
		v[2] = Int64GetDatum(s.bytes);
		for (int i = 0; i < COST_CACHE_COUNTS; i++)
			v[3 + i] = Int64GetDatum(counts[i]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v, nulls);
	}
	return (Datum) 0;
}
