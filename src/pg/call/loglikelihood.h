/*
 * loglikelihood.h
 *	  Decisions by log-probability: the functions in engine_func.def's rows, and the
 *	  planner's statistics of llm_filter().
 */
#ifndef VLLM_PG_CALL_LOGLIKELIHOOD_H
#define VLLM_PG_CALL_LOGLIKELIHOOD_H

#include "postgres.h"

#include "pg/call/engine_func.h"

/* choose.c */
void		choose_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		filter_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		filter_prob_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		loglikelihood_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		perplexity_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *choose_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *filter_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *filter_prob_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *loglikelihood_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *perplexity_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		choose_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		choices_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		filter_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		filter_prob_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		loglikelihood_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		perplexity_result(const Reply *reply, Oid rettype, bool *isnull);

/*
 * Probabilities of the choices, for cascade.c.  choose_probs() returns false if there is only one
 * choice.
 */
typedef struct ChooseProbs
{
	double		first;			/* for llm_filter(): probability of Yes */
	double		best;
	double		threshold;		/* for llm_filter(); else NaN */
} ChooseProbs;
bool		choose_probs(const Reply *reply, ChooseProbs *p);

/* ---- format.c ---- */

/*
 * Append a template with {0}, {1}, ... replaced by args[0], args[1], ...  (NULL: by nothing).  Return
 * the error of an invalid template, or NULL.
 */
ErrorData  *format_template(StringInfo out, const char *template, size_t n, text *const *args, int n_args);

/* ---- loglikelihood_support.c ---- */

/*
 * Return the key of the counters for llm_filter() with this instruction and model, in the current
 * role's queries.
 */
uint64		selectivity_key(const char *model, const char *instruction);
/* Count a row that llm_filter() has decided. */
void		selectivity_count(uint64 key, bool passed);

/* shmem_request, shmem_startup */
Size		selectivity_shared_size(void);
void		selectivity_shared_init(void);

#endif
