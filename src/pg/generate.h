/*
 * generate.h
 *	  The parts of engine_func.def's rows.
 */
#ifndef VLLM_PG_GENERATE_H
#define VLLM_PG_GENERATE_H

#include "postgres.h"

#include "pg/engine_func.h"

#define GEN_STREAM		1		/* WF_TEXT frames as tokens arrive */
#define GEN_WANT_IDS	2		/* token ids in replies */

/*
 * The head of a WK_GENERATE: model, its privileges, options.  flags: GEN_*.
 */
void		generate_head_flags(EngineRequest *r, FunctionCallInfo fcinfo, int flags);

/* The error of a prompt, or a tokenizer's input, that is longer than vllm.max_prompt_bytes, or NULL. */
ErrorData  *generate_check_length(const char *what, const text *t);

/* fn_generate.c */
void		generate_head(EngineRequest *r, FunctionCallInfo fcinfo);
void		generate_full_head(EngineRequest *r, FunctionCallInfo fcinfo);
ErrorData  *generate_input(EngineRequest *r, FunctionCallInfo fcinfo);
Datum		generate_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		generate_full_result(const Reply *reply, Oid rettype, bool *isnull);

/* fn_tokenize.c */
void		tokenize_head(EngineRequest *r, FunctionCallInfo fcinfo);
void		count_tokens_head(EngineRequest *r, FunctionCallInfo fcinfo);
void		detokenize_head(EngineRequest *r, FunctionCallInfo fcinfo);
ErrorData  *tokenize_input(EngineRequest *r, FunctionCallInfo fcinfo);
ErrorData  *detokenize_input(EngineRequest *r, FunctionCallInfo fcinfo);
Datum		tokenize_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		count_tokens_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		detokenize_result(const Reply *reply, Oid rettype, bool *isnull);

#endif
