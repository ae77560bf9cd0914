/*
 * loglikelihood_support.c
 *	  llm_choose_support: the planner's estimates for llm_choose and related functions.
 *
 * A decision reads a prompt and generates nothing, so its cost is the prompt's tokens at the engine's
 * speed.
 *
 * llm_filter() in a condition: how many rows pass depends on its instruction, and can't be known
 * before the model was asked.  So its results are counted, by role, database, model and instruction,
 * in a small table of shared memory; later plans, in any session, use the share that has passed.
 * Without any results, they use one half.  The table evicts the least used entry when it is full, and
 * is lost when the server stops.  Roles don't see each other's counts in their plans.
 *
 * llm_pool_support makes sure that constant calls run once (pooling_support.c).
 *
 * Tests: tests/sql/18_choose.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"

#include "pg/call/loglikelihood.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_choose_support);

extern Datum llm_pool_support(PG_FUNCTION_ARGS);

/* ---- selectivity ---- */

#define N_BUCKETS	64
#define N_WAYS		4
/* an entry's counts are halved at this number, so that old results count less */
#define MOST		65536

typedef struct LoglikelihoodShare
{
	uint64		key;			/* 0 = unused */
	uint32		rows;
	uint32		passed;
} LoglikelihoodShare;

typedef struct Shares
{
	slock_t		lock;
	LoglikelihoodShare at[N_BUCKETS][N_WAYS];
} Shares;

static Shares *shares = NULL;	/* NULL: not preloaded */

Size
selectivity_shared_size(void)
{
	return sizeof(Shares);
}

void
selectivity_shared_init(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shares = ShmemInitStruct("vllm_pg selectivity", selectivity_shared_size(), &found);
	if (!found)
	{
		memset(shares, 0, selectivity_shared_size());
		SpinLockInit(&shares->lock);
	}
	LWLockRelease(AddinShmemInitLock);
}

static uint64
hash_of(const char *s)
{
	return hash_bytes_extended((const unsigned char *) s, (int) strlen(s), 0);
}

uint64
selectivity_key(const char *model, const char *instruction)
{
	uint64		key = hash_combine64(MyDatabaseId, GetUserId());

	key = hash_combine64(key, hash_of(model ? model : ""));
	key = hash_combine64(key, hash_of(instruction));
	return key != 0 ? key : 1;
}

/* Return the entry of a key, or NULL; with make, replace the least used one of its bucket by it. */
static LoglikelihoodShare *
find_share(uint64 key, bool make)
{
	LoglikelihoodShare *bucket = shares->at[key % N_BUCKETS];
	LoglikelihoodShare *least = bucket;

	for (int i = 0; i < N_WAYS; i++)
	{
		if (bucket[i].key == key)
			return &bucket[i];
		if (bucket[i].rows < least->rows)
			least = &bucket[i];
	}
	if (!make)
		return NULL;
	*least = (LoglikelihoodShare) {.key = key};
	return least;
}

void
selectivity_count(uint64 key, bool passed)
{
	LoglikelihoodShare *s;

	if (shares == NULL)
		return;
	SpinLockAcquire(&shares->lock);
	s = find_share(key, true);
	s->rows++;
	s->passed += passed;
	if (s->rows >= MOST)
	{
		s->rows /= 2;
		s->passed /= 2;
	}
	SpinLockRelease(&shares->lock);
}

/* Compute the share as if two more rows had been seen, one of which passed, so it is never 0 or 1. */
static double
share_of(uint64 key)
{
	double		share = 0.5;
	const LoglikelihoodShare *s;

	if (shares == NULL)
		return share;
	SpinLockAcquire(&shares->lock);
	s = find_share(key, false);
	if (s != NULL)
		share = (s->passed + 1.0) / (s->rows + 2.0);
	SpinLockRelease(&shares->lock);
	return share;
}

static bool
constant_text(List *args, int at, char **out)
{
	Node	   *arg = at < list_length(args) ? list_nth(args, at) : NULL;

	if (arg == NULL || !IsA(arg, Const) || ((Const *) arg)->consttype != TEXTOID)
		return false;
	*out = ((Const *) arg)->constisnull ? NULL : TextDatumGetCString(((Const *) arg)->constvalue);
	return true;
}

/* args: llm_filter(instruction, input, threshold, model, template, chat, timeout_ms, lora) */
static double
selectivity(List *args)
{
	char	   *instruction;
	char	   *model = NULL;
	char	   *lora = NULL;

	if (!constant_text(args, 0, &instruction) || instruction == NULL || !constant_text(args, 3, &model))
		return 0.5;
	if (list_length(args) > 7 && !constant_text(args, 7, &lora))
		return 0.5;
	return share_of(selectivity_key(lora ? lora : model ? model : vllm_model, instruction));
}

/* ---- cost ---- */

/* a prompt's tokens: not known before the row is read */
#define TOKENS_UNKNOWN	128

Datum
llm_choose_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		cost->startup = 0;
		cost->per_tuple = vllm_cost_of_tokens(TOKENS_UNKNOWN, true);
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestSelectivity))
	{
		SupportRequestSelectivity *s = (SupportRequestSelectivity *) request;

		s->selectivity = selectivity(s->args);
		PG_RETURN_POINTER(request);
	}
	return llm_pool_support(fcinfo);
}
