/*
 * pooling.h
 *	  Pooled requests: their results are vectors, scores and labels instead of generated text.
 */
#ifndef VLLM_PG_CALL_POOLING_H
#define VLLM_PG_CALL_POOLING_H

#include "postgres.h"

#include "pg/call/engine_func.h"

typedef enum PoolOptId
{
#define POOL_OPTION(name, tasks, type, tag, lo, hi, rule) POPT_##name,
#define POOL_ALIAS(alias, name)
#include "pg/call/pooling_options.def"
#undef POOL_OPTION
#undef POOL_ALIAS
	POPT_COUNT
} PoolOptId;

/* kinds of tasks, as bits of pooling_options.def */
#define POOL_EMBED		1
#define POOL_CLASSIFY	2
#define POOL_SCORE		4
#define POOL_REWARD		8
#define POOL_ANY		15

/* the kinds of arguments that are no pooling option */
#define POPT_PARAMS		100
#define POPT_OTHER		101		/* the function itself reads it */

/*
 * A function: its task, and the kinds of its arguments after the inputs, in order; on_error is the
 * last argument.
 */
typedef struct PoolFunc
{
	const char *task;
	int			kind;			/* POOL_EMBED, ... */
	int			first;			/* number of the argument of args[0] */
	int			n_args;
	const uint8 *args;			/* PoolOptId, POPT_PARAMS, POPT_OTHER; not on_error */
	int			wants;			/* POOL_WANT_* */
} PoolFunc;

#define POOL_WANT_LABELS	1
#define POOL_WANT_OFFSETS	2
#define POOL_WANT_ALIKE		4	/* neither of two texts is a query */

/* pooling_options.c */

/* EngineFunc.head */
void		pool_head(SqlRequest *r, FunctionCallInfo fcinfo, const PoolFunc *f);

/* EngineFunc.input: one text, or two */
ErrorData  *pool_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *pool_input_similar(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *pool_input_score(SqlRequest *r, FunctionCallInfo fcinfo);

/* EngineFunc.result: the first number; all numbers as an array of one or two dimensions */
Datum		pool_result_number(const Reply *reply, Oid rettype, bool *isnull);
Datum		pool_result_row(const Reply *reply, Oid rettype, bool *isnull);
Datum		pool_result_rows(const Reply *reply, Oid rettype, bool *isnull);

/* embed.c */
void		embed_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		embed_pinned_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		embed_multi_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		encode_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		encode_result(const Reply *reply, Oid rettype, bool *isnull);

/* score.c */
void		similarity_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		score_head(SqlRequest *r, FunctionCallInfo fcinfo);

/* classify.c */
void		classify_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		class_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		classify_probs_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		token_classify_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		reward_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		reward_tokens_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		reward_steps_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		classify_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		class_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		reward_steps_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		token_classify_result(const Reply *reply, Oid rettype, bool *isnull);

#endif
