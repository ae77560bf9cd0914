/*
 * worker_share.c
 *	  Sharing the worker between the owners of jobs.
 *
 * One worker serves the jobs of all owners of a database, and any user can have many jobs, give them
 * a high priority, a queue of a million rows, and inputs that take seconds.  A priority decides which
 * of an owner's jobs come first; it orders jobs of different owners only while these leave each other
 * room.
 *
 * TIME.  After a transaction that has run an owner's code for long, that owner rests for as long as
 * it took, while jobs of other owners have something to do.  Jobs that were put off meanwhile come
 * before the owner's other jobs afterwards.  Each iteration serves one job of each owner, then the
 * second of each, and so on; so an owner with thousands of jobs doesn't delay the others.
 *
 * ROOM.  When several owners have rows for the engine, the next row started is that of the owner with
 * the fewest rows in flight.
 *
 * Tests: tests/t/067_jobs_share.pl.
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/jobs/job_worker.h"

/* ms that a transaction may take without a rest after it */
#define SHORT	20
/*
 * ms until the worker checks again whether other owners have something to do, as there may be
 * thousands of jobs
 */
#define LOOK	10

typedef struct Owner
{
	Oid			owner;			/* key */
	TimestampTz rests_until;
	TimestampTz looked_at;		/* time of the last check for `others` */
	bool		others;
	int			jobs;			/* jobs that have a place in the iteration's order */
	int			in_flight;		/* rows, counted by jobs_share_count() */
} Owner;

static HTAB *owners = NULL;
static uint64 passes = 0;

static Owner *
owner_of(const JobRun *j)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Owner)};
	Owner	   *o;
	bool		found;

	if (owners == NULL)
		owners = hash_create("owners of jobs", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	o = hash_search(owners, &j->def->owner, HASH_ENTER, &found);
	if (!found)
	{
		o->rests_until = o->looked_at = 0;
		o->jobs = o->in_flight = 0;
	}
	return o;
}

/* ---- order of an iteration ---- */

static int
by_priority(const void *a, const void *b)
{
	const JobDef *x = (*(JobRun *const *) a)->def;
	const JobDef *y = (*(JobRun *const *) b)->def;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int
by_passed(const void *a, const void *b)
{
	uint64		x = (*(JobRun *const *) a)->passed;
	uint64		y = (*(JobRun *const *) b)->passed;

	return x < y ? -1 : x > y;
}

static JobRun **
array_of(dlist_head *jobs, int *n)
{
	JobRun	  **array;
	dlist_iter	it;

	*n = 0;
	dlist_foreach(it, jobs)
		(*n)++;
	array = palloc(sizeof(JobRun *) * Max(*n, 1));
	*n = 0;
	dlist_foreach(it, jobs)
		array[(*n)++] = dlist_container(JobRun, node, it.cur);
	return array;
}

void
jobs_share_sort(dlist_head *jobs)
{
	int			n;
	JobRun	  **array = array_of(jobs, &n);

	qsort(array, n, sizeof(JobRun *), by_priority);
	dlist_init(jobs);
	for (int i = 0; i < n; i++)
		dlist_push_tail(jobs, &array[i]->node);
}

static int
by_round(const void *a, const void *b)
{
	const JobRun *x = *(JobRun *const *) a;
	const JobRun *y = *(JobRun *const *) b;

	if (x->round != y->round)
		return x->round - y->round;
	return x->place - y->place;
}

JobRun	  **
jobs_share_order(dlist_head *jobs, int *n)
{
	JobRun	  **all = array_of(jobs, n);
	JobRun	  **order = palloc(sizeof(JobRun *) * Max(*n, 1));
	int			k = 0;

	for (int i = 0; i < *n; i++)
		if (all[i]->passed != 0)
			order[k++] = all[i];
	qsort(order, k, sizeof(JobRun *), by_passed);
	for (int i = 0; i < *n; i++)
		if (all[i]->passed == 0)
			order[k++] = all[i];
	ASSERT(k == *n);
	/* the first job of each owner, the second of each ... */
	for (int i = 0; i < *n; i++)
		owner_of(order[i])->jobs = 0;
	for (int i = 0; i < *n; i++)
	{
		order[i]->round = owner_of(order[i])->jobs++;
		order[i]->place = i;
	}
	qsort(order, *n, sizeof(JobRun *), by_round);
	return order;
}

/* Return true if the job has something to do now, as far as is known. */
static bool
is_busy(const JobRun *j, TimestampTz now)
{
	return !j->failed && j->not_before <= now && (j->look || j->backfill || j->n_items > 0) &&
		job_is_time(j->def);
}

static bool
others_are_busy(dlist_head *jobs, Oid owner, TimestampTz now)
{
	dlist_iter	it;

	dlist_foreach(it, jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);

		if (j->def->owner != owner && is_busy(j, now) && owner_of(j)->rests_until <= now)
			return true;
	}
	return false;
}

TimestampTz
jobs_share_rests(dlist_head *jobs, JobRun *j)
{
	TimestampTz now = GetCurrentTimestamp();
	Owner	   *o = owner_of(j);

	if (o->rests_until <= now)
		return 0;
	if (TimestampDifferenceExceeds(o->looked_at, now, LOOK))
	{
		o->others = others_are_busy(jobs, o->owner, now);
		o->looked_at = now;
	}
	return o->others ? o->rests_until : 0;
}

void
jobs_share_put_off(JobRun *j)
{
	if (j->passed == 0)
		j->passed = ++passes;
}

bool
jobs_share_passes(dlist_head *jobs, JobRun *j)
{
	bool		rests = jobs_share_rests(jobs, j) != 0;

	if (rests)
		jobs_share_put_off(j);
	else
		j->passed = 0;
	return rests;
}

void
jobs_share_spent(JobRun *j, TimestampTz start)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(start, now, SHORT))
		return;
	owner_of(j)->rests_until = now + (now - start);
	owner_of(j)->looked_at = 0;
}

/* ---- room in the engine ---- */

void
jobs_share_count(dlist_head *jobs)
{
	dlist_iter	it;
	dlist_iter	k;

	dlist_foreach(it, jobs)
		owner_of(dlist_container(JobRun, node, it.cur))->in_flight = 0;
	dlist_foreach(it, jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);
		Owner	   *o = owner_of(j);

		j->to_start = 0;
		dlist_foreach(k, &j->items)
		{
			JobItem    *item = dlist_container(JobItem, node, k.cur);

			ASSERT(item->job == j);
			o->in_flight += item->state == ITEM_RUNNING;
			j->to_start += item->state == ITEM_READY ||
				(item->state == ITEM_RUNNING && item->n_started < item->n_pieces);
		}
	}
}

JobRun *
jobs_share_next(dlist_head *jobs)
{
	JobRun	   *next = NULL;
	int			fewest = 0;
	dlist_iter	it;

	dlist_foreach(it, jobs)
	{
		JobRun	   *j = dlist_container(JobRun, node, it.cur);
		int			n = owner_of(j)->in_flight;

		if (j->to_start > 0 && (next == NULL || n < fewest))
		{
			next = j;
			fewest = n;
		}
	}
	return next;
}

void
jobs_share_started(JobRun *j, int n)
{
	/* a job whose item could not be started is not tried again before the next count */
	j->to_start = n > 0 ? j->to_start - n : 0;
	owner_of(j)->in_flight += n;
}
