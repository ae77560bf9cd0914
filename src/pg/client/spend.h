/*
 * spend.h
 *	  Costs of requests to models with prices: accounts and budgets.
 */
#ifndef VLLM_PG_CLIENT_SPEND_H
#define VLLM_PG_CLIENT_SPEND_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "ipc/wire.h"

/*
 * Money is an integer in units of 1e-12 of the prices' currency.  A price of a million tokens with
 * six digits after the point is a whole number of units for one token, so sums are exact.
 */
#define COST_DIGITS		12
#define COST_PRICE_UNITS 1e6	/* units for a token, for each 1 that a million tokens cost */
#define COST_MAX_PRICE	1000000

typedef enum CostWindow
{
	COST_DAY, COST_MONTH, COST_NONE
} CostWindow;
#define COST_WINDOWS	3

/* The cost record of a request. */
typedef struct SpendRecord
{
	bool		priced;
	int64		input,			/* prices of a token */
				cached,
				output;
	int64		prompt_bytes;
	int64		prompt_ids;
	int64		choices;		/* choices whose log-probabilities are wanted */
	int64		choice_bytes;
	bool		remote;			/* its model is a remote one */
	double		tokens_a_byte;	/* tokens per byte of prompts, as the account has measured */
	int64		max_tokens;		/* of an output, 0 = not given */
	int64		answers;
	bool		vectors;		/* an API body whose result has no tokens: embeddings, scores */
	Oid			role;			/* the role whose account is charged */
	TimestampTz statement;
	int64		reserved;		/* estimate reserved in the role's and the statement's budgets until the
								 * request has ended */
	bool		role_reserved;
	int64		cost;			/* set when the request has ended */
} SpendRecord;

typedef struct CostTokens
{
	int64		prompt,
				cached,
				output;
	/* tries of an endpoint without an output, which may have charged for the prompt */
	int64		charged_tries;
} CostTokens;

/* Make the record from a request's message. */
void		cost_note_begin(SpendRecord *n);
void		cost_note_field(SpendRecord *n, const WireField *f);
/* spend_api_body.c: read the message's API_BODY, if the model has prices */
void		cost_note_body(SpendRecord *n, const char *s, Size len);
/* Set the record's tokens per byte from the account.  cost_prompt_estimate(): estimate the prompt tokens. */
void		cost_learn(SpendRecord *n, const char *model);
int64		cost_prompt_estimate(const SpendRecord *n);
/* Return the most tokens that may be generated. */
int64		cost_output_estimate(const SpendRecord *n, WireKind kind);
/* Return the cost of the tokens, in the currency. */
double		cost_money(const SpendRecord *n, const CostTokens *t);

/*
 * If the table of purses is full, remove those of dropped roles.  Does nothing outside of
 * transactions.
 */
void		cost_make_room(Oid role);
/*
 * Reserve the estimated cost before the request begins.  Return false if a budget has no room for it
 * while other requests are in flight; with wait that is an ERROR 53400.
 */
bool		cost_reserve(SpendRecord *n, WireKind kind, const char *model, bool wait);
/* Return true if the last failed reservation was refused by a budget; resets that state. */
bool		cost_refused(void);
/* Release the reservation of a request that has not begun after all, or has ended.  Never throws. */
void		cost_release(SpendRecord *n);
/*
 * Charge a request that has ended to the account of role, database and model.  Never throws, never
 * allocates.
 */
void		cost_settle(SpendRecord *n, const char *model, const CostTokens *t);

/*
 * Return the estimated output tokens of a request to the model, from its requests in this database;
 * -1 = not known.
 */
int64		cost_seen_output(const char *model);

/* Counters of result_cache.c, by model.  cost_count_cache() never throws. */
typedef enum CostCache
{
	COST_CACHE_HIT, COST_CACHE_MISS, COST_CACHE_SKIPPED /* SKIPPED: not stored */
} CostCache;
#define COST_CACHE_COUNTS 3
void		cost_count_cache(const char *model, CostCache what);
/* Sum the counters of all roles in this database. */
void		cost_cache_counts(const char *model, int64 *counts);

/* Return for example 0.00125, without trailing zeros. */
char	   *cost_text(int64 units);

Size		cost_shared_size(void);
void		cost_shared_init(void);
/*
 * Called by the supervisor: write the accounts to their file, so that a crash loses only the last
 * seconds.
 */
void		cost_poll(void);

/* settings */
extern double vllm_max_cost;
extern double vllm_role_max_cost;
extern char *vllm_role_cost_window; /* day, month, none */
CostWindow	cost_window(const char *name);

#endif
