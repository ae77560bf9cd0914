/*
 * query_stats.c
 *	  Statistics of requests by query and by role: llm_stat_query, llm_stat_role.
 *
 * A hash table in shared memory with vllm.stat_max entries, like that of pg_stat_statements.  An
 * entry is for a query (role, database, query id, model, adapter) or for a role (role, database);
 * each request counts in one entry of each kind.  When the table is full, the entries that have not
 * been used for longest are dropped.  A role's entry is used with each of its queries' entries, so it
 * outlives them.
 *
 * The lock is held shared to look up an entry and count, and exclusively to create and drop entries;
 * an entry's spinlock protects its counters.  Counting a request takes two lookups of a few hundred
 * nanoseconds each.
 *
 * The table is kept over restarts of the server, but not over crashes.  Queries are identified by
 * compute_query_id; without it, all queries of a role have the identifier 0.
 *
 * Tests: tests/sql/33_observe.sql, tests/t/095_observability.pl.
 */
#include "postgres.h"

#include <math.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/client/query_stats.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_stat_list);
PG_FUNCTION_INFO_V1(llm_stat_reset);

#define DUMP_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/vllm_pg.stat"
#define DUMP_MAGIC	0x564c5331	/* changes with the layout of an entry */
#define N_SEEN		16			/* counted queries of one statement that are remembered */

int			vllm_stat_max = 1000;
bool		vllm_stat_track = true;
bool		vllm_stat_save = true;

typedef struct StatKey
{
	Oid			userid;
	Oid			dbid;
	uint64		query_id;
	bool		is_role;		/* if set, there is no query, model or adapter */
	char		model[NAMEDATALEN];
	char		lora[NAMEDATALEN];
} StatKey;

/* Times in ms. */
typedef struct StatCounters
{
	int64		calls;			/* statements with requests */
	int64		requests,
				errors,
				cancelled;
	int64		prompt_tokens,
				cached_tokens,
				output_tokens,
				preemptions,
				draft_tokens,
				accepted_tokens;
	double		total_time,
				min_time,
				max_time,
				mean_time,
				sum_var;		/* sum of the squares of deviations from the mean */
	double		queue_time,
				prefill_time,
				decode_time;
	TimestampTz since;
	TimestampTz used;
} StatCounters;

typedef struct StatEntry
{
	StatKey		key;
	StatCounters c;
	slock_t		mutex;
} StatEntry;

typedef struct StatShared
{
	LWLock	   *lock;
	int64		dropped;		/* entries dropped because the table was full; under the lock */
	TimestampTz reset;
} StatShared;

static StatShared *shared = NULL;
static HTAB *table = NULL;

/* Hashes of the keys for which the current statement has been counted as a call. */
static TimestampTz seen_statement;
static uint32 seen[N_SEEN];
static int	n_seen;

/* ---- start and end of the server ---- */

Size
request_stat_shared_size(void)
{
	return add_size(MAXALIGN(sizeof(StatShared)), hash_estimate_size(vllm_stat_max, sizeof(StatEntry)));
}

/* Load the entries of the file, if its header fits; else none. */
static void
load(void)
{
	FILE	   *file = AllocateFile(DUMP_FILE, PG_BINARY_R);
	uint32		head[3];
	StatEntry	e;

	if (file == NULL)
		return;
	if (fread(head, sizeof(head), 1, file) == 1 && head[0] == DUMP_MAGIC && head[1] == sizeof(StatEntry))
		for (uint32 i = 0; i < head[2] && i < (uint32) vllm_stat_max && fread(&e, sizeof(e), 1, file) == 1;
			 i++)
		{
			StatEntry  *to;

			e.key.model[NAMEDATALEN - 1] = e.key.lora[NAMEDATALEN - 1] = '\0';
			to = hash_search(table, &e.key, HASH_ENTER_NULL, NULL);
			if (to == NULL)
				break;
			to->c = e.c;
			SpinLockInit(&to->mutex);
		}
	FreeFile(file);
	/* a crash loses the file: counters must not be added twice */
	(void) unlink(DUMP_FILE);
}

/* Runs at the end of the postmaster: no other process is left. */
static void
save(int code, Datum arg)
{
	FILE	   *file;
	HASH_SEQ_STATUS scan;
	StatEntry  *e;
	uint32		head[3] = {DUMP_MAGIC, sizeof(StatEntry), 0};
	bool		ok;

	if (code != 0 || shared == NULL || !vllm_stat_save)
		return;
	file = AllocateFile(DUMP_FILE ".tmp", PG_BINARY_W);
	if (file == NULL)
	{
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", DUMP_FILE ".tmp")));
		return;
	}
	head[2] = hash_get_num_entries(table);
	ok = fwrite(head, sizeof(head), 1, file) == 1;
	hash_seq_init(&scan, table);
	while ((e = hash_seq_search(&scan)) != NULL)
		ok = fwrite(e, sizeof(*e), 1, file) == 1 && ok;
	if (FreeFile(file) != 0 || !ok)
	{
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", DUMP_FILE ".tmp")));
		(void) unlink(DUMP_FILE ".tmp");
		return;
	}
	(void) durable_rename(DUMP_FILE ".tmp", DUMP_FILE, LOG);
}

void
request_stat_shared_init(void)
{
	HASHCTL		ctl = {.keysize = sizeof(StatKey), .entrysize = sizeof(StatEntry)};
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("vllm_pg request statistics", sizeof(StatShared), &found);
	if (!found)
	{
		shared->lock = &GetNamedLWLockTranche("vllm_pg_stat")->lock;
		shared->dropped = 0;
		shared->reset = GetCurrentTimestamp();
	}
	table = ShmemInitHash("vllm_pg request statistics hash", vllm_stat_max, vllm_stat_max, &ctl,
						  HASH_ELEM | HASH_BLOBS);
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
	{
		on_shmem_exit(save, (Datum) 0);
		if (!found)
			load();
	}
}

/* ---- counting ---- */

/* Return true if this is the first request of its statement that counts under this key. */
static bool
first_of_statement(uint32 hash, TimestampTz statement)
{
	if (seen_statement != statement)
	{
		seen_statement = statement;
		n_seen = 0;
	}
	for (int i = 0; i < n_seen; i++)
		if (seen[i] == hash)
			return false;
	if (n_seen < N_SEEN)
		seen[n_seen++] = hash;
	return true;
}

static int
by_use(const void *a, const void *b)
{
	const StatEntry *x = *(StatEntry *const *) a;
	const StatEntry *y = *(StatEntry *const *) b;

	return x->c.used < y->c.used ? -1 : x->c.used > y->c.used;
}

/* Drop the twentieth of the entries that have not been used for longest. */
static void
make_room(void)
{
	int			n = hash_get_num_entries(table);
	StatEntry **all = palloc(n * sizeof(StatEntry *));
	HASH_SEQ_STATUS scan;
	StatEntry  *e;
	int			i = 0;

	hash_seq_init(&scan, table);
	while ((e = hash_seq_search(&scan)) != NULL)
		all[i++] = e;
	qsort(all, n, sizeof(StatEntry *), by_use);
	n = Max(n / 20, 1);
	for (i = 0; i < n; i++)
		(void) hash_search(table, &all[i]->key, HASH_REMOVE, NULL);
	shared->dropped += n;
	pfree(all);
}

/*
 * Return the key's entry, a new one if need be.  The caller holds the lock exclusively.  Return NULL
 * if the table is full and no entry may be dropped.
 */
static StatEntry *
new_entry(const StatKey *key, bool may_drop)
{
	StatEntry  *e;
	bool		found;

	ASSERT(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (hash_get_num_entries(table) >= vllm_stat_max)
	{
		if (hash_search(table, key, HASH_FIND, NULL) == NULL && !may_drop)
			return NULL;
		while (may_drop && hash_search(table, key, HASH_FIND, NULL) == NULL &&
			   hash_get_num_entries(table) >= vllm_stat_max)
			make_room();
	}
	e = hash_search(table, key, HASH_ENTER_NULL, &found);
	if (e == NULL || found)
		return e;
	memset(&e->c, 0, sizeof(e->c));
	e->c.since = GetCurrentTimestamp();
	SpinLockInit(&e->mutex);
	return e;
}

static void
add_request(StatCounters *c, RequestEnd end, const RequestFigures *r)
{
	double		ms = r->total_us / 1000.0;
	double		old_mean = c->mean_time;

	c->requests++;
	c->errors += end == REQUEST_FAILED;
	c->cancelled += end == REQUEST_CANCELLED;
	c->prompt_tokens += r->prompt_tokens;
	c->cached_tokens += r->cached_tokens;
	c->output_tokens += r->output_tokens;
	c->preemptions += r->preemptions;
	c->draft_tokens += r->draft_tokens;
	c->accepted_tokens += r->accepted_tokens;
	c->total_time += ms;
	c->min_time = c->requests == 1 ? ms : Min(c->min_time, ms);
	c->max_time = Max(c->max_time, ms);
	c->mean_time += (ms - old_mean) / c->requests;
	c->sum_var += (ms - old_mean) * (ms - c->mean_time);
	c->queue_time += Max(r->queue_us, 0) / 1000.0;
	c->prefill_time += Max(r->prefill_us, 0) / 1000.0;
	c->decode_time += Max(r->decode_us, 0) / 1000.0;
}

static void
count(const StatKey *key, const RequestTracking *n, RequestEnd end, const RequestFigures *r, TimestampTz now)
{
	bool		first = first_of_statement(get_hash_value(table, key), n->statement);
	StatEntry  *e;

	LWLockAcquire(shared->lock, LW_SHARED);
	e = hash_search(table, key, HASH_FIND, NULL);
	if (e == NULL)
	{
		LWLockRelease(shared->lock);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		e = new_entry(key, end != REQUEST_CANCELLED);
	}
	if (e != NULL)
	{
		SpinLockAcquire(&e->mutex);
		e->c.calls += first;
		e->c.used = now;
		add_request(&e->c, end, r);
		SpinLockRelease(&e->mutex);
	}
	LWLockRelease(shared->lock);
}

void
request_stat_count(const RequestTracking *n, RequestEnd end, const char *model, const RequestFigures *r)
{
	StatKey		key;
	TimestampTz now;

	if (!vllm_stat_track || shared == NULL || MyProc == NULL)
		return;
	now = GetCurrentTimestamp();
	memset(&key, 0, sizeof(key));
	key.userid = n->roleid;
	key.dbid = MyDatabaseId;
	key.is_role = true;
	count(&key, n, end, r, now);
	key.is_role = false;
	key.query_id = n->query_id;
	strlcpy(key.model, model, sizeof(key.model));
	strlcpy(key.lora, n->lora, sizeof(key.lora));
	count(&key, n, end, r, now);
}

/* ---- functions ---- */

static void
require_shared(void)
{
	if (shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the "
						 "server.")));
}

static void
put_row(ReturnSetInfo *rsinfo, const StatKey *key, const StatCounters *c)
{
	Datum		v[25];
	bool		nulls[25] = {false};
	int			i = 0;

	v[i++] = ObjectIdGetDatum(key->userid);
	v[i++] = ObjectIdGetDatum(key->dbid);
	nulls[i] = key->query_id == 0;
	v[i++] = Int64GetDatum((int64) key->query_id);
	v[i++] = CStringGetTextDatum(key->model);
	nulls[i] = key->lora[0] == '\0';
	v[i++] = CStringGetTextDatum(key->lora);
	v[i++] = Int64GetDatum(c->calls);
	v[i++] = Int64GetDatum(c->requests);
	v[i++] = Int64GetDatum(c->errors);
	v[i++] = Int64GetDatum(c->cancelled);
	v[i++] = Int64GetDatum(c->prompt_tokens);
	v[i++] = Int64GetDatum(c->cached_tokens);
	v[i++] = Int64GetDatum(c->output_tokens);
	v[i++] = Int64GetDatum(c->preemptions);
	v[i++] = Int64GetDatum(c->draft_tokens);
	v[i++] = Int64GetDatum(c->accepted_tokens);
	v[i++] = Float8GetDatum(c->total_time);
	v[i++] = Float8GetDatum(c->min_time);
	v[i++] = Float8GetDatum(c->max_time);
	v[i++] = Float8GetDatum(c->mean_time);
	v[i++] = Float8GetDatum(sqrt(c->sum_var / c->requests));
	v[i++] = Float8GetDatum(c->queue_time);
	v[i++] = Float8GetDatum(c->prefill_time);
	v[i++] = Float8GetDatum(c->decode_time);
	v[i++] = TimestampTzGetDatum(c->since);
	v[i++] = TimestampTzGetDatum(c->used);
	if (i != rsinfo->setDesc->natts)
		elog(ERROR, "row has %d columns, expected %d", i, rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v, nulls);
}

/* vllm.stat_list(roles bool): entries of other roles only for pg_read_all_stats */
Datum
llm_stat_list(PG_FUNCTION_ARGS)
{
	bool		roles = PG_GETARG_BOOL(0);
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	HASH_SEQ_STATUS scan;
	StatEntry  *e;
	StatEntry  *copy;
	int			n = 0;

	require_shared();
	InitMaterializedSRF(fcinfo, 0);
	/* work on a copy: privileges are looked up in the catalogs */
	LWLockAcquire(shared->lock, LW_SHARED);
	copy = palloc(Max(hash_get_num_entries(table), 1) * sizeof(StatEntry));
	hash_seq_init(&scan, table);
	while ((e = hash_seq_search(&scan)) != NULL)
		if (e->key.is_role == roles)
		{
			SpinLockAcquire(&e->mutex);
			copy[n++] = *e;
			SpinLockRelease(&e->mutex);
		}
	LWLockRelease(shared->lock);
	for (int i = 0; i < n; i++)
		if (copy[i].c.requests > 0 && (all || has_privs_of_role(GetUserId(), copy[i].key.userid)))
			put_row((ReturnSetInfo *) fcinfo->resultinfo, &copy[i].key, &copy[i].c);
	return (Datum) 0;
}

/*
 * Return true if a reset with these arguments (NULL = all) affects the entry.  The reset of a query
 * leaves roles' entries unchanged.
 */
static bool
chosen(FunctionCallInfo fcinfo, const StatKey *key)
{
	return (PG_ARGISNULL(0) || PG_GETARG_OID(0) == key->userid) &&
		(PG_ARGISNULL(1) || PG_GETARG_OID(1) == key->dbid) &&
		(PG_ARGISNULL(2) || (!key->is_role && (uint64) PG_GETARG_INT64(2) == key->query_id));
}

/*
 * llm_stat_reset(userid oid, dbid oid, queryid bigint): number of entries; the EXECUTE privilege
 * decides who may call it
 */
Datum
llm_stat_reset(PG_FUNCTION_ARGS)
{
	HASH_SEQ_STATUS scan;
	StatEntry  *e;
	int64		n = 0;

	require_shared();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, table);
	while ((e = hash_seq_search(&scan)) != NULL)
		if (chosen(fcinfo, &e->key))
		{
			(void) hash_search(table, &e->key, HASH_REMOVE, NULL);
			n++;
		}
	LWLockRelease(shared->lock);
	n_seen = 0;
	PG_RETURN_INT64(n);
}
