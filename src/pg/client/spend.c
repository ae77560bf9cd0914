/*
 * spend.c
 *	  Costs of requests to models with prices: accounts and budgets.
 *
 * There is an account for each role, database and model, in shared memory.  Each role also has a
 * spend entry with the sums it has spent today, this month (in UTC) and ever, over all databases.  The role
 * is the one whose limits a request counts for (role_limits.c).  The supervisor writes all of this to
 * a file, so it survives restarts, and crashes except for the last seconds.
 *
 * The estimated cost of a request is reserved while it is in flight, so that many requests together
 * can't exceed a budget.  The estimate is computed from the prompt's bytes, with four bytes per token
 * until the account has measured it, and from max_tokens.  When the request ends, on any path, the
 * reservation is released and the actual cost is added, in one step under the lock.  If an endpoint
 * has given no output but may have charged for the prompt, the prompt's cost is added.
 *
 * The request's ClientCall releases its reservation (client.c) on every path.  A backend that dies
 * without doing so ends shared memory, too.
 *
 * Tests: tests/sql/36_cost.sql, tests/t/116_money.pl.
 */
#include "postgres.h"

#include <math.h>
#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "pgtime.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/client/client.h"
#include "pg/client/spend.h"
#include "pg/client/query_stats.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_cost_list);
PG_FUNCTION_INFO_V1(llm_budget_list);
PG_FUNCTION_INFO_V1(llm_cost_reset);

#define COST_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/vllm_pg.cost"
#define COST_MAGIC	0x564c4331	/* changes with the layouts below */
#define SAVE_MS		10000
#define UNIT		INT64CONST(1000000000000)
/* max_tokens if the caller gives none and vllm.default_max_tokens is 0 */
#define ESTIMATE_TOKENS 1024

double		vllm_max_cost;
double		vllm_role_max_cost;
char	   *vllm_role_cost_window = "month";

typedef struct CostKey
{
	Oid			role;
	Oid			database;
	char		model[NAMEDATALEN];
} CostKey;

typedef struct CostAccount
{
	CostKey		key;
	int64		requests;
	CostTokens	tokens;
	int64		prompt_bytes;	/* bytes of prompts whose requests reported prompt tokens; bytes_tokens
								 * has those tokens */
	int64		bytes_tokens;
	int64		cost;
	int64		cache[COST_CACHE_COUNTS];
	TimestampTz since;
} CostAccount;

typedef struct RoleSpend
{
	Oid			role;
	int64		spent[COST_WINDOWS];
	int64		began[COST_WINDOWS];	/* number of the day, of the month; 0 */
	int64		reserved;
} RoleSpend;

typedef struct CostShared
{
	LWLock	   *lock;
	uint64		changes;
} CostShared;

static CostShared *shared = NULL;
static HTAB *accounts = NULL;
static HTAB *role_spends = NULL;

/* Sums of the statement that the client has sent. */
static struct
{
	TimestampTz began;
	int64		spent;
	int64		reserved;
}			statement;

/* ---- numbers ---- */

static int64
add(int64 a, int64 b)
{
	int64		sum;

	return pg_add_s64_overflow(a, b, &sum) ? PG_INT64_MAX : sum;
}

static int64
times(int64 a, int64 b)
{
	int64		product;

	return pg_mul_s64_overflow(a, b, &product) ? PG_INT64_MAX : product;
}

static int64
units(double money)
{
	return money >= 9e6 ? PG_INT64_MAX : (int64) rint(money * (double) UNIT);
}

char *
cost_text(int64 units)
{
	char	   *s = psprintf("%lld.%012lld", (long long) (units / UNIT), (long long) (units % UNIT));

	for (size_t n = strlen(s); s[n - 1] == '0' && s[n - 2] != '.'; n--)
		s[n - 1] = '\0';
	return s;
}

static Datum
money(int64 units)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(cost_text(units)), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

CostWindow
cost_window(const char *name)
{
	return pg_strcasecmp(name, "day") == 0 ? COST_DAY : pg_strcasecmp(name, "none") == 0 ? COST_NONE :
		COST_MONTH;
}

/* Return the number of the current day or month, in UTC. */
static int64
window_number(CostWindow w)
{
	pg_time_t	now = timestamptz_to_time_t(GetCurrentTimestamp());
	struct pg_tm *t = pg_gmtime(&now);

	if (w == COST_NONE || t == NULL)
		return 0;
	return w == COST_DAY ? now / SECS_PER_DAY : (int64) t->tm_year * 12 + t->tm_mon;
}

/* ---- the table ---- */

Size
cost_shared_size(void)
{
	return add_size(MAXALIGN(sizeof(CostShared)),
					add_size(hash_estimate_size(vllm_stat_max, sizeof(CostAccount)),
							 hash_estimate_size(vllm_stat_max, sizeof(RoleSpend))));
}

/*
 * Return the key's account.  When the table is full, the rest share one account without a role and a
 * model.
 */
static CostAccount *
account(const CostKey *key)
{
	static const CostKey others = {0};
	CostAccount *a;
	bool		found = true;

	a = hash_search(accounts, key, hash_get_num_entries(accounts) < vllm_stat_max
					? HASH_ENTER_NULL : HASH_FIND, &found);
	if (a == NULL)
	{
		a = hash_search(accounts, &others, HASH_FIND, NULL);
		ASSERT(a != NULL);
	}
	else if (!found)
	{
		memset((char *) a + sizeof(CostKey), 0, sizeof(*a) - sizeof(CostKey));
		a->since = GetCurrentTimestamp();
	}
	return a;
}

/* Return the role's spend entry, with its windows brought up to date; NULL if the table is full. */
static RoleSpend *
role_spend(Oid role)
{
	bool		found = true;
	RoleSpend  *p = hash_search(role_spends, &role, hash_get_num_entries(role_spends) < vllm_stat_max
								? HASH_ENTER_NULL : HASH_FIND, &found);

	ASSERT(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (p != NULL && !found)
		memset((char *) p + sizeof(Oid), 0, sizeof(*p) - sizeof(Oid));
	for (int w = 0; p != NULL && w < COST_WINDOWS; w++)
		if (p->began[w] != window_number(w))
		{
			p->began[w] = window_number(w);
			p->spent[w] = 0;
		}
	return p;
}

static bool
is_full_for(Oid role)
{
	return hash_get_num_entries(role_spends) >= vllm_stat_max &&
		hash_search(role_spends, &role, HASH_FIND, NULL) == NULL;
}

/*
 * Return the roles that have spend entries; NULL if there is room.  If this transaction has written, it may
 * have dropped a role and be rolled back, so no spend entry may be removed.
 */
static Oid *
roles_if_full(Oid role, int *n)
{
	HASH_SEQ_STATUS scan;
	RoleSpend  *p;
	Oid		   *roles = NULL;

	*n = 0;
	if (!IsTransactionState() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return NULL;
	LWLockAcquire(shared->lock, LW_SHARED);
	if (is_full_for(role))
	{
		roles = palloc(sizeof(Oid) * hash_get_num_entries(role_spends));
		hash_seq_init(&scan, role_spends);
		while ((p = hash_seq_search(&scan)) != NULL)
			roles[(*n)++] = p->role;
	}
	LWLockRelease(shared->lock);
	return roles;
}

/* The catalogs are read without the lock. */
void
cost_make_room(Oid role)
{
	int			n,
				n_dropped = 0;
	Oid		   *roles;

	if (shared == NULL || (roles = roles_if_full(role, &n)) == NULL)
		return;
	for (int i = 0; i < n; i++)
		if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(roles[i])))
			roles[n_dropped++] = roles[i];
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < n_dropped; i++)
	{
		RoleSpend  *p = hash_search(role_spends, &roles[i], HASH_FIND, NULL);

		if (p != NULL && p->reserved == 0)
			(void) hash_search(role_spends, &roles[i], HASH_REMOVE, NULL);
	}
	LWLockRelease(shared->lock);
	pfree(roles);
}

/* ---- start and end of the server ---- */

static bool
load_entries(FILE *file, uint32 na, uint32 np)
{
	CostAccount a;
	RoleSpend	p;

	for (uint32 i = 0; i < na; i++)
	{
		CostAccount *to;

		if (fread(&a, sizeof(a), 1, file) != 1)
			return false;
		a.key.model[NAMEDATALEN - 1] = '\0';
		to = hash_search(accounts, &a.key, HASH_ENTER_NULL, NULL);
		if (to != NULL)
			*to = a;
	}
	for (uint32 i = 0; i < np; i++)
	{
		RoleSpend  *to;

		if (fread(&p, sizeof(p), 1, file) != 1)
			return false;
		p.reserved = 0;
		to = hash_search(role_spends, &p.role, HASH_ENTER_NULL, NULL);
		if (to != NULL)
			*to = p;
	}
	return true;
}

/* Load the file.  It is not removed: after a crash it is read again. */
static void
load(void)
{
	FILE	   *file = AllocateFile(COST_FILE, PG_BINARY_R);
	uint32		head[5];

	if (file == NULL)
		return;
	if (fread(head, sizeof(head), 1, file) != 1 || head[0] != COST_MAGIC || head[1] != sizeof(CostAccount) ||
		head[2] != sizeof(RoleSpend) || !load_entries(file, head[3], head[4]))
		ereport(LOG, (errmsg("file \"%s\" is damaged or of another version: accounts of LLM requests start "
							 "at zero", COST_FILE)));
	FreeFile(file);
}

/* Copy the tables under the lock, then write the file. */
static void
save(void)
{
	uint32		head[5] = {COST_MAGIC, sizeof(CostAccount), sizeof(RoleSpend)};
	CostAccount *a;
	RoleSpend  *p;
	HASH_SEQ_STATUS scan;
	void	   *e;
	FILE	   *file;
	bool		ok;

	LWLockAcquire(shared->lock, LW_SHARED);
	a = palloc(sizeof(CostAccount) * Max(hash_get_num_entries(accounts), 1));
	p = palloc(sizeof(RoleSpend) * Max(hash_get_num_entries(role_spends), 1));
	hash_seq_init(&scan, accounts);
	while ((e = hash_seq_search(&scan)) != NULL)
		a[head[3]++] = *(CostAccount *) e;
	hash_seq_init(&scan, role_spends);
	while ((e = hash_seq_search(&scan)) != NULL)
		p[head[4]++] = *(RoleSpend *) e;
	LWLockRelease(shared->lock);
	file = AllocateFile(COST_FILE ".tmp", PG_BINARY_W);
	ok = file != NULL && fwrite(head, sizeof(head), 1, file) == 1 &&
		fwrite(a, sizeof(*a), head[3], file) == head[3] && fwrite(p, sizeof(*p), head[4], file) == head[4];
	if ((file != NULL && FreeFile(file) != 0) || !ok)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", COST_FILE ".tmp")));
	else
		(void) durable_rename(COST_FILE ".tmp", COST_FILE, LOG);
	pfree(a);
	pfree(p);
}

void
cost_poll(void)
{
	static uint64 saved;
	static TimestampTz at;
	uint64		changes;

	if (shared == NULL || !TimestampDifferenceExceeds(at, GetCurrentTimestamp(), SAVE_MS))
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	changes = shared->changes;
	LWLockRelease(shared->lock);
	at = GetCurrentTimestamp();
	if (changes == saved)
		return;
	saved = changes;
	save();
}

/* Runs at the end of the postmaster: no other process is left. */
static void
save_at_exit(int code, Datum arg)
{
	if (code == 0 && shared != NULL)
		save();
}

void
cost_shared_init(void)
{
	HASHCTL		a = {.keysize = sizeof(CostKey),.entrysize = sizeof(CostAccount)};
	HASHCTL		p = {.keysize = sizeof(Oid),.entrysize = sizeof(RoleSpend)};
	static const CostKey others = {0};
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("vllm_pg costs", sizeof(CostShared), &found);
	accounts = ShmemInitHash("vllm_pg accounts", vllm_stat_max, vllm_stat_max, &a, HASH_ELEM | HASH_BLOBS);
	role_spends = ShmemInitHash("vllm_pg purses", vllm_stat_max, vllm_stat_max, &p, HASH_ELEM | HASH_BLOBS);
	if (!found)
	{
		shared->lock = &GetNamedLWLockTranche("vllm_pg_cost")->lock;
		shared->changes = 0;
		(void) account(&others);
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
	{
		on_shmem_exit(save_at_exit, (Datum) 0);
		if (!found)
			load();
	}
}

/* ---- a request ---- */

void
cost_note_begin(SpendRecord *n)
{
	memset(n, 0, sizeof(*n));
	n->answers = 1;
	n->tokens_a_byte = 0.25;
}

/* Return true if an API request to this path generates text. */
static bool
path_writes(const char *path, Size n)
{
	static const char *const ends[] = {"/completions", "/responses", "/messages"};

	for (int i = 0; i < (int) lengthof(ends); i++)
		if (n >= strlen(ends[i]) && memcmp(path + n - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
			return true;
	return false;
}

void
cost_note_field(SpendRecord *n, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_PRICE_INPUT:
			n->priced = true;
			n->input = n->cached = (int64) rint(f->num * COST_PRICE_UNITS);
			break;
		case WTAG_PRICE_CACHED:
			n->cached = (int64) rint(f->num * COST_PRICE_UNITS);
			break;
		case WTAG_PRICE_OUTPUT:
			n->output = (int64) rint(f->num * COST_PRICE_UNITS);
			break;
		case WTAG_LOGIN:
			n->role = (Oid) f->i;
			break;
		case WTAG_MAX_TOKENS:
			n->max_tokens = Max(f->i, 0);
			break;
		case WTAG_N:
		case WTAG_BEAM_WIDTH:
			n->answers = Max(f->i, 1);
			break;
		case WTAG_PROMPT_IDS:
			n->prompt_ids += f->n;
			break;
		case WTAG_PROMPT:
		case WTAG_PAIR:
		case WTAG_INSTRUCTION:
		case WTAG_MESSAGES:
		case WTAG_TOOLS:
		case WTAG_DOCUMENTS:
			n->prompt_bytes += f->n;
			break;
		case WTAG_CHOICE:
			n->choices++;
			n->choice_bytes += f->n;
			break;
		case WTAG_URL:
			n->remote = true;
			break;
		case WTAG_API_PATH:
			n->vectors = !path_writes(f->s, f->n);
			break;
		case WTAG_API_BODY:
			n->prompt_bytes += f->n;
			/* the model's fields, and so its prices, come before the API body */
			if (n->priced)
				cost_note_body(n, f->s, f->n);
			break;
	}
}

/* Return how often the prompt is sent: an endpoint gets a request for each choice. */
static int64
prompt_times(const SpendRecord *n)
{
	return n->remote ? Max(n->choices, 1) : 1;
}

static int64
all_bytes(const SpendRecord *n)
{
	return times(n->prompt_bytes, prompt_times(n)) + n->choice_bytes;
}

int64
cost_prompt_estimate(const SpendRecord *n)
{
	return times(n->prompt_ids, prompt_times(n)) + (int64) ceil((double) all_bytes(n) * n->tokens_a_byte);
}

int64
cost_output_estimate(const SpendRecord *n, WireKind kind)
{
	/* in a dialect whose completions can't be empty, each choice costs one output token */
	if (kind == WK_LOGPROBS && n->remote)
		return prompt_times(n);
	if ((kind != WK_GENERATE && kind != WK_API) || n->vectors)
		return 0;
	return times(n->max_tokens > 0 ? n->max_tokens : vllm_default_max_tokens > 0 ? vllm_default_max_tokens :
				 ESTIMATE_TOKENS, n->answers);
}

/* ---- budgets ---- */

static void
this_statement(void)
{
	TimestampTz now = GetCurrentStatementStartTimestamp();

	if (statement.began != now)
	{
		statement.began = now;
		statement.spent = statement.reserved = 0;
	}
}

static void
report_reached(const char *whose, const char *limit, int64 spent, int64 reserved, int64 estimate)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("the cost limit of %s is reached", whose),
			 errdetail("%s is spent, %s is reserved for requests in progress, this request may cost %s; %s.",
					   cost_text(spent), cost_text(reserved), cost_text(estimate), limit)));
}

static bool
has_room(int64 limit, int64 spent, int64 reserved, int64 estimate)
{
	return add(add(spent, reserved), estimate) <= limit;
}

/* Reserve the estimate in the role's spend entry, up to its budget (0: no limit). */
static bool
reserve_of_role(SpendRecord *n, int64 estimate, double most, CostWindow w, bool wait)
{
	int64		limit = units(most);
	int64		spent = 0,
				reserved = 0;
	RoleSpend  *p;
	bool		ok;

	if (most <= 0)
		return true;
	cost_make_room(n->role);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	p = role_spend(n->role);
	ok = p != NULL && has_room(limit, p->spent[w], p->reserved, estimate);
	if (p != NULL)
	{
		spent = p->spent[w];
		reserved = p->reserved;
		p->reserved += ok ? estimate : 0;
	}
	LWLockRelease(shared->lock);
	n->role_reserved = ok;
	if (p == NULL && wait)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no account is free for the budget of role \"%s\"", GetUserNameFromId(n->role, true)),
				 errhint("Raise vllm.stat_max, or let a superuser call llm_cost_reset() for roles that need "
						 "no account.")));
	if (!ok && wait)
		report_reached(psprintf("role \"%s\"", GetUserNameFromId(n->role, true)),
					   psprintf("vllm.role_max_cost is %g%s", most, w == COST_DAY ? " a day" : w == COST_MONTH
								? " a month" : ""),
					   spent, reserved, estimate);
	return ok;
}

static CostKey
key_of(const SpendRecord *n, const char *model)
{
	CostKey		key;

	memset(&key, 0, sizeof(key));
	key.role = n->role;
	key.database = MyDatabaseId;
	strlcpy(key.model, model, sizeof(key.model));
	return key;
}

void
cost_learn(SpendRecord *n, const char *model)
{
	CostKey		key = key_of(n, model);
	CostAccount *a;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	a = hash_search(accounts, &key, HASH_FIND, NULL);
	if (a != NULL && a->prompt_bytes > 0)
		n->tokens_a_byte = (double) a->bytes_tokens / (double) a->prompt_bytes;
	LWLockRelease(shared->lock);
}

static bool refused;

bool
cost_refused(void)
{
	bool		was = refused;

	refused = false;
	return was;
}

bool
cost_reserve(SpendRecord *n, WireKind kind, const char *model, bool wait)
{
	CostWindow	w;
	double		most;
	Oid			role;
	int64		estimate;

	if (!n->priced || shared == NULL)
		return true;
	/* an earlier reservation could not be released any more */
	ASSERT(n->reserved == 0 && !n->role_reserved);
	role = vclient_cost_limits(n->role, &most, &w);
	refused = false;
	if (!OidIsValid(n->role))
		n->role = role;
	if (most > 0 || vllm_max_cost > 0)
		cost_learn(n, model != NULL ? model : "");
	estimate = add(times(cost_prompt_estimate(n), n->input), times(cost_output_estimate(n, kind), n->output));
	this_statement();
	n->statement = statement.began;
	if (vllm_max_cost > 0 && !vclient_is_background() && !has_room(units(vllm_max_cost), statement.spent,
																   statement.reserved, estimate))
	{
		if (wait)
			report_reached("the statement", psprintf("vllm.max_cost is %g", vllm_max_cost), statement.spent,
						   statement.reserved, estimate);
		refused = true;
		return false;
	}
	if (!reserve_of_role(n, estimate, most, w, wait))
	{
		refused = true;
		return false;
	}
	n->reserved = estimate;
	statement.reserved += estimate;
	return true;
}

/* Release the reservation.  The caller holds the lock if the role's spend entry has a part in it. */
static void
give_back(SpendRecord *n, RoleSpend *p)
{
	ASSERT(p == NULL || LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	ASSERT(n->statement != statement.began || statement.reserved >= n->reserved);
	if (n->role_reserved && p != NULL)
		p->reserved = Max(p->reserved - n->reserved, 0);
	if (n->statement == statement.began)
		statement.reserved -= n->reserved;
	n->reserved = 0;
	n->role_reserved = false;
}

void
cost_release(SpendRecord *n)
{
	if (n->reserved == 0 && !n->role_reserved)
		return;
	if (n->role_reserved && MyProc != NULL)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		give_back(n, role_spend(n->role));
		LWLockRelease(shared->lock);
	}
	else
		give_back(n, NULL);
}

static int64
cost_of(const SpendRecord *n, const CostTokens *t)
{
	int64		cached = Min(t->cached, t->prompt);
	int64		prompt = t->prompt > 0 ? t->prompt : cost_prompt_estimate(n);

	return add(add(times(t->prompt - cached, n->input), times(cached, n->cached)),
			   add(times(t->output, n->output), times(t->charged_tries, times(prompt, n->input))));
}

double
cost_money(const SpendRecord *n, const CostTokens *t)
{
	return (double) cost_of(n, t) / (double) UNIT;
}

void
cost_settle(SpendRecord *n, const char *model, const CostTokens *t)
{
	CostKey		key = key_of(n, model);
	CostAccount *a;
	RoleSpend  *p;

	if (!n->priced || shared == NULL || MyProc == NULL)
		return;
	n->cost = cost_of(n, t);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	a = account(&key);
	a->requests++;
	a->tokens.prompt += t->prompt;
	a->tokens.cached += Min(t->cached, t->prompt);
	a->tokens.output += t->output;
	a->tokens.charged_tries += t->charged_tries;
	a->cost = add(a->cost, n->cost);
	if (t->prompt > 0 && all_bytes(n) > 0)
	{
		a->prompt_bytes += all_bytes(n);
		a->bytes_tokens += t->prompt;
	}
	p = role_spend(n->role);
	for (int w = 0; p != NULL && w < COST_WINDOWS; w++)
		p->spent[w] = add(p->spent[w], n->cost);
	give_back(n, p);
	shared->changes++;
	LWLockRelease(shared->lock);
	if (n->statement == statement.began)
		statement.spent = add(statement.spent, n->cost);
}

void
cost_count_cache(const char *model, CostCache what)
{
	SpendRecord	n = {.role = GetSessionUserId()};
	CostKey		key = key_of(&n, model);

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	account(&key)->cache[what]++;
	LWLockRelease(shared->lock);
}

void
cost_cache_counts(const char *model, int64 *counts)
{
	HASH_SEQ_STATUS scan;
	CostAccount *a;

	memset(counts, 0, sizeof(int64) * COST_CACHE_COUNTS);
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&scan, accounts);
	while ((a = hash_seq_search(&scan)) != NULL)
		for (int i = 0; i < COST_CACHE_COUNTS && a->key.database == MyDatabaseId &&
			 strcmp(a->key.model, model) == 0; i++)
			counts[i] += a->cache[i];
	LWLockRelease(shared->lock);
}

int64
cost_seen_output(const char *model)
{
	HASH_SEQ_STATUS scan;
	CostAccount *a;
	int64		requests = 0,
				tokens = 0;

	if (shared == NULL)
		return -1;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&scan, accounts);
	while ((a = hash_seq_search(&scan)) != NULL)
		if (a->key.database == MyDatabaseId && strcmp(a->key.model, model) == 0)
		{
			requests += a->requests;
			tokens += a->tokens.output;
		}
	LWLockRelease(shared->lock);
	return requests > 0 ? (tokens + requests - 1) / requests : -1;
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

static bool
may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

/* Copy a table: privileges are looked up in the catalogs, not under the lock. */
static void *
copy_of(HTAB *table, Size size, int *n)
{
	HASH_SEQ_STATUS scan;
	char	   *copy;
	void	   *e;

	*n = 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	copy = palloc(size * Max(hash_get_num_entries(table), 1));
	hash_seq_init(&scan, table);
	while ((e = hash_seq_search(&scan)) != NULL)
		memcpy(copy + size * (*n)++, e, size);
	LWLockRelease(shared->lock);
	return copy;
}

/* vllm.cost_list() */
Datum
llm_cost_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	CostAccount *all;
	int			n;

	require_shared();
	InitMaterializedSRF(fcinfo, 0);
	all = copy_of(accounts, sizeof(CostAccount), &n);
	for (int i = 0; i < n; i++)
	{
		const CostAccount *a = &all[i];
		Datum		v[10];
		bool		nulls[10] = {false};

		if (a->requests == 0 || !may_see(a->key.role))
			continue;
		v[0] = ObjectIdGetDatum(a->key.role);
		v[1] = ObjectIdGetDatum(a->key.database);
		v[2] = CStringGetTextDatum(a->key.model);
		v[3] = Int64GetDatum(a->requests);
		v[4] = Int64GetDatum(a->tokens.prompt);
		v[5] = Int64GetDatum(a->tokens.cached);
		v[6] = Int64GetDatum(a->tokens.output);
		v[7] = Int64GetDatum(a->tokens.charged_tries);
		v[8] = money(a->cost);
		v[9] = TimestampTzGetDatum(a->since);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v, nulls);
	}
	return (Datum) 0;
}

/* vllm.budget_list() */
Datum
llm_budget_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	RoleSpend  *all;
	int			n;

	require_shared();
	InitMaterializedSRF(fcinfo, 0);
	all = copy_of(role_spends, sizeof(RoleSpend), &n);
	for (int i = 0; i < n; i++)
	{
		const RoleSpend *p = &all[i];
		Datum		v[5];
		bool		nulls[5] = {false};

		if (!may_see(p->role))
			continue;
		v[0] = ObjectIdGetDatum(p->role);
		for (int w = 0; w < COST_WINDOWS; w++)
			v[1 + w] = money(p->began[w] == window_number(w) ? p->spent[w] : 0);
		v[4] = money(p->reserved);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v, nulls);
	}
	return (Datum) 0;
}

/* llm_cost_reset(userid oid): number of accounts; the EXECUTE privilege decides who may call it */
Datum
llm_cost_reset(PG_FUNCTION_ARGS)
{
	bool		all = PG_ARGISNULL(0);
	Oid			role = all ? InvalidOid : PG_GETARG_OID(0);
	HASH_SEQ_STATUS scan;
	CostAccount *a;
	RoleSpend  *p;
	int64		n = 0;

	require_shared();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, accounts);
	while ((a = hash_seq_search(&scan)) != NULL)
		if (a->requests > 0 && (all || a->key.role == role))
		{
			memset((char *) a + sizeof(CostKey), 0, sizeof(*a) - sizeof(CostKey));
			if (a->key.model[0] != '\0')
				(void) hash_search(accounts, &a->key, HASH_REMOVE, NULL);
			n++;
		}
	hash_seq_init(&scan, role_spends);
	while ((p = hash_seq_search(&scan)) != NULL)
		if ((all || p->role == role) && p->reserved == 0)
			(void) hash_search(role_spends, &p->role, HASH_REMOVE, NULL);
		else if (all || p->role == role)
			memset(p->spent, 0, sizeof(p->spent));
	shared->changes++;
	LWLockRelease(shared->lock);
	PG_RETURN_INT64(n);
}
