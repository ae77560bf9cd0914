/*
 * job_queue.c
 *	  Appending to vllm.job_queue.
 *
 * Rows are written as core writes its catalogs: the writer of a source table needs no privilege on
 * the queue, and only our own code runs.  A key is the text of its columns under fixed settings
 * (job_key_format), so any session reads it back as the same value.
 *
 * Keys in the queue are looked up with the newest snapshot, whatever the isolation level of the
 * transaction (job.h says why that is needed and sufficient).
 *
 * IDS.  A member of pg_write_all_data may set vllm.job_queue_id_seq to any value, at any time.  That
 * must not make a write to a source fail.  So the sequence cycles, and its number is only the upper
 * part of an id.  The lower part is the process's number, so that no two processes ever try the same
 * id.  An id that is taken (by an earlier transaction of this process, or of an earlier process with
 * the same number) is skipped.
 *
 * Tests: tests/sql/23_jobs.sql, tests/t/061_jobs_kill.pl.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/assert.h"
#include "pg/compat.h"
#include "pg/jobs/job.h"

/*
 * bits of an id for the process's number (MAX_BACKENDS has as many); the rest of 63 bits is for the
 * sequence
 */
#define PROC_BITS	18
#define SEQUENCE_BITS	45
/* numbers of the sequence that are tried before random ones */
#define SEQUENCE_TRIES	8

/* columns of vllm.job_queue, in order */
enum
{
	COL_JOB = 1, COL_ID, COL_HASH, COL_KEY, COL_QUEUED, COL_ATTEMPTS, COL_DUE, COL_WORKER,
	COL_LEASE_UNTIL, N_COLS = COL_LEASE_UNTIL
};

struct JobQueue
{
	int32		job;
	Oid			sequence;
	Oid			hash_index;
	Oid			id_index;
	Relation	rel;
	CatalogIndexState indexes;
	Snapshot	snapshot;		/* NULL: not needed yet */
	bool		appended;
	MemoryContext tmp;
};

/* ---- keys ---- */

Datum
job_key_datum(char **key, int n_key)
{
	Datum	   *elems = palloc(sizeof(Datum) * n_key);

	for (int i = 0; i < n_key; i++)
		elems[i] = CStringGetTextDatum(key[i]);
	return PointerGetDatum(construct_array(elems, n_key, TEXTOID, -1, false, TYPALIGN_INT));
}

static int64
job_key_hash(char **key, int n_key)
{
	uint64		h = n_key;

	for (int i = 0; i < n_key; i++)
		h = hash_combine64(h, DatumGetUInt64(hash_any_extended((unsigned char *) key[i], strlen(key[i]), 0)));
	return (int64) h;
}

static bool
text_depends_on_settings(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	if (OidIsValid(element))
		return text_depends_on_settings(element);
	if (type_is_range(base))
		return text_depends_on_settings(get_range_subtype(base));
	if (type_is_multirange(base))
		return text_depends_on_settings(get_multirange_range(base));
	if (type_is_rowtype(base))
	{
		TupleDesc	desc = lookup_rowtype_tupdesc(base, -1);
		bool		any = false;

		for (int i = 0; i < desc->natts && !any; i++)
			any = !TupleDescAttr(desc, i)->attisdropped &&
				text_depends_on_settings(TupleDescAttr(desc, i)->atttypid);
		ReleaseTupleDesc(desc);
		return any;
	}
	switch (base)
	{
		case MONEYOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		default:
			return false;
	}
}

void
job_check_key_type(const char *column, Oid type)
{
	if (text_depends_on_settings(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" of the primary key has type %s, which is not supported in the key of "
						"a job",
						column, format_type_be(type)),
				 errdetail("The text of its values depends on lc_monetary or on names that can change."),
				 errhint("Use numeric instead of money, and oid or text instead of a type that stands for a "
						 "name.")));
}

int
job_key_format(void)
{
	static const char *const settings[][2] = {
		{"datestyle", "ISO, YMD"}, {"intervalstyle", "postgres"}, {"extra_float_digits", "3"},
		{"bytea_output", "hex"}, {"timezone", "UTC"}
	};
	int			level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(settings); i++)
	{
		const char *now = GetConfigOption(settings[i][0], false, false);

		if (strcmp(now, settings[i][1]) != 0)
			(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
									 GUC_ACTION_SAVE, true, 0, false);
	}
	return level;
}

/* ---- appending ---- */

JobQueue *
job_queue_open(int32 job)
{
	JobQueue   *q = palloc0(sizeof(JobQueue));

	q->job = job;
	q->sequence = job_relation("job_queue_id_seq");
	q->hash_index = job_relation("job_queue_hash_idx");
	q->id_index = job_relation("job_queue_pkey");
	q->rel = table_open(job_relation("job_queue"), RowExclusiveLock);
	q->indexes = CatalogOpenIndexes(q->rel);
	q->tmp = AllocSetContextCreate(CurrentMemoryContext, "job queue row", ALLOCSET_SMALL_SIZES);
	return q;
}

bool
job_queue_close(JobQueue *q)
{
	bool		appended = q->appended;

	if (q->snapshot)
		UnregisterSnapshot(q->snapshot);
	CatalogCloseIndexes(q->indexes);
	table_close(q->rel, RowExclusiveLock);
	MemoryContextDelete(q->tmp);
	pfree(q);
	return appended;
}

/* Return true if the id exists, also if a running transaction has inserted it. */
static bool
is_taken(JobQueue *q, int64 id)
{
	SnapshotData dirty;
	ScanKeyData scan_key[2];
	SysScanDesc scan;
	bool		taken;

	InitDirtySnapshot(dirty);
	ScanKeyInit(&scan_key[0], COL_JOB, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(q->job));
	ScanKeyInit(&scan_key[1], COL_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(q->rel, q->id_index, true, &dirty, 2, scan_key);
	taken = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	return taken;
}

static int64
next_id(JobQueue *q)
{
	const uint64 mask = (UINT64CONST(1) << SEQUENCE_BITS) - 1;

	/* else two processes could try the same id */
	ASSERT(compat_my_procno() >= 0 && compat_my_procno() < 1 << PROC_BITS);
	for (int i = 0;; i++)
	{
		uint64		n = i < SEQUENCE_TRIES ? (uint64) nextval_internal(q->sequence, false) :
			pg_prng_uint64(&pg_global_prng_state);
		int64		id = (int64) ((n & mask) << PROC_BITS) | (compat_my_procno() & ((1 << PROC_BITS) - 1));

		if (!is_taken(q, id))
			return id;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
append(JobQueue *q, Datum key, int64 hash)
{
	Datum		v[N_COLS] = {0};
	bool		null[N_COLS] = {0};

	v[COL_JOB - 1] = Int32GetDatum(q->job);
	v[COL_ID - 1] = Int64GetDatum(next_id(q));
	v[COL_HASH - 1] = Int64GetDatum(hash);
	v[COL_KEY - 1] = key;
	null[COL_KEY - 1] = key == (Datum) 0;
	v[COL_QUEUED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	v[COL_ATTEMPTS - 1] = Int32GetDatum(0);
	null[COL_DUE - 1] = null[COL_WORKER - 1] = null[COL_LEASE_UNTIL - 1] = true;
	q->appended = true;
	CatalogTupleInsertWithInfo(q->rel, heap_form_tuple(RelationGetDescr(q->rel), v, null), q->indexes);
}

/* Compare two keys made by job_key_datum(); the first one may have been stored. */
static bool
same_key(Datum stored, Datum key)
{
	ArrayType  *a = DatumGetArrayTypeP(stored);
	ArrayType  *b = DatumGetArrayTypeP(key);

	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

/*
 * Return true if the key is in the queue without a failed attempt.  key 0: a sweep that no worker has
 * claimed.
 */
static bool
waits(JobQueue *q, Datum key, int64 hash)
{
	ScanKeyData scan_key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	if (q->snapshot == NULL)
	{
		CommandCounterIncrement();
		q->snapshot = RegisterSnapshot(GetLatestSnapshot());
	}
	ScanKeyInit(&scan_key[0], COL_JOB, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(q->job));
	ScanKeyInit(&scan_key[1], COL_HASH, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(hash));
	scan = systable_beginscan(q->rel, q->hash_index, true, q->snapshot, 2, scan_key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		v[N_COLS];
		bool		null[N_COLS];

		heap_deform_tuple(tuple, RelationGetDescr(q->rel), v, null);
		if (DatumGetInt32(v[COL_ATTEMPTS - 1]) != 0)
			continue;
		if (key == (Datum) 0)
			found = null[COL_KEY - 1] && null[COL_WORKER - 1];
		else
			found = !null[COL_KEY - 1] && same_key(v[COL_KEY - 1], key);
	}
	systable_endscan(scan);
	return found;
}

void
job_queue_add(JobQueue *q, char **key, int n_key, bool always)
{
	MemoryContext old = MemoryContextSwitchTo(q->tmp);
	Datum		datum = job_key_datum(key, n_key);
	int64		hash = job_key_hash(key, n_key);

	/* reading the queue would make serializable writers conflict with each other */
	if (always || IsolationIsSerializable() || !waits(q, datum, hash))
		append(q, datum, hash);
	MemoryContextSwitchTo(old);
	MemoryContextReset(q->tmp);
}

void
job_queue_add_datum(JobQueue *q, Datum key, int64 hash)
{
	append(q, key, hash);
}

/*
 * The lookup is safe for a sweep, too: a transaction that removes rows holds a lock on their table
 * until it ends, and a sweep that starts later waits for that.
 */
void
job_queue_add_truncate(JobQueue *q)
{
	if (IsolationIsSerializable() || !waits(q, (Datum) 0, 0))
		append(q, (Datum) 0, 0);
}
