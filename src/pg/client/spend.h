/*
 * spend.h
 *	  What requests cost, where their models have prices: accounts, and budgets.
 */
#ifndef VLLM_PG_CLIENT_SPEND_H
#define VLLM_PG_CLIENT_SPEND_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "ipc/wire.h"

/*
 * Money is whole numbers of 1e-12 of the currency that prices are in: a price of a million tokens with six
 * digits behind the point is a whole number of these for a token, so sums are exact.
 */
#define COST_DIGITS		12
#define COST_PRICE_UNITS 1e6	/* of a token, for each 1 of a million tokens */
#define COST_MAX_PRICE	1000000

typedef enum CostWindow
{
	COST_DAY, COST_MONTH, COST_NONE
} CostWindow;
#define COST_WINDOWS	3

/* Of a request. */
typedef struct SpendRecord
{
	bool		priced;
	int64		input,			/* of a token */
				cached,
				output;
	int64		prompt_bytes;
	int64		prompt_ids;
	int64		choices;		/* whose log-probabilities are wanted */
	int64		choice_bytes;
	bool		remote;			/* its model is a remote one */
	double		tokens_a_byte;	/* of prompts, by what the account has seen */
	int64		max_tokens;		/* of an answer, 0 = not given */
	int64		answers;
	bool		vectors;		/* a body whose answer has no tokens: embeddings, scores */
	Oid			role;			/* whose account it is */
	TimestampTz statement;
	int64		reserved;		/* of the role's budget and the statement's, until the request has ended */
	bool		role_reserved;
	int64		cost;			/* when it has ended */
} SpendRecord;

typedef struct CostTokens
{
	int64		prompt,
				cached,
				output;
	/* of an endpoint: gave no answer, and may have been charged like the prompt */
	int64		charged_tries;
} CostTokens;

/* From a request's message. */
void		cost_note_begin(SpendRecord *n);
void		cost_note_field(SpendRecord *n, const WireField *f);
/* spend_api_body.c: of its API_BODY, if it is priced */
void		cost_note_body(SpendRecord *n, const char *s, Size len);
/* What prompts of the account have been, for the guess. */
void		cost_learn(SpendRecord *n, const char *model);
int64		cost_prompt_guess(const SpendRecord *n);
/* The most that is generated. */
int64		cost_output_guess(const SpendRecord *n, WireKind kind);
/* What so many tokens cost, in the currency. */
double		cost_money(const SpendRecord *n, const CostTokens *t);

/* If there are too many purses for one more: those of dropped roles go, within a transaction. */
void		cost_make_room(Oid role);
/*
 * Before it begins: set aside what it may cost.  False: a budget has no room for it while others are under
 * way; with wait that is an ERROR 53400.
 */
bool		cost_reserve(SpendRecord *n, WireKind kind, const char *model, bool wait);
/* Was the last one that had no room without room in a budget?  Says so once. */
bool		cost_refused(void);
/* It has not begun after all, or has ended and was settled: nothing is set aside any more.  Never throws. */
void		cost_release(SpendRecord *n);
/* It has ended: into the account of role, database and model.  Never throws, never allocates. */
void		cost_settle(SpendRecord *n, const char *model, const CostTokens *t);

/*
 * What a request of the model is expected to generate, by what its requests of this database have; -1 = not
 * known.
 */
int64		cost_seen_output(const char *model);

/* What result_cache.c has found, by model; never throws. */
typedef enum CostCache
{
	COST_CACHE_HIT, COST_CACHE_MISS, COST_CACHE_SKIPPED /* not kept */
} CostCache;
#define COST_CACHE_COUNTS 3
void		cost_count_cache(const char *model, CostCache what);
/* Of all roles in this database. */
void		cost_cache_counts(const char *model, int64 *counts);

/* 0.00125, without zeros at the end */
char	   *cost_text(int64 units);

Size		cost_shared_size(void);
void		cost_shared_init(void);
/* The supervisor's: accounts to their file, so that a crash loses no more than some seconds of them. */
void		cost_turn(void);

/* settings */
extern double vllm_max_cost;
extern double vllm_role_max_cost;
extern char *vllm_role_cost_window; /* day, month, none */
CostWindow	cost_window(const char *name);

#endif
