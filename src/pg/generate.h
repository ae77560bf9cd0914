/*
 * generate.h
 *	  A call of llm_generate or its kin as a request.
 */
#ifndef VLLM_PG_GENERATE_H
#define VLLM_PG_GENERATE_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"

typedef struct GenRequest
{
	StringInfoData body;		/* fields of a WK_GENERATE */
	char	   *model;
	int			timeout_ms;		/* 0 = none */
} GenRequest;

#define GEN_STREAM		1		/* WF_TEXT frames as tokens arrive */
#define GEN_WANT_IDS	2		/* token ids in replies */

/*
 * Options, model, privileges and prompt of a call whose prompt is not NULL, in
 * memory of the current context.  Errors are the caller's; nothing is sent.
 */
void		generate_request(GenRequest *g, FunctionCallInfo fcinfo, int flags);

/* ERROR 54000 if a prompt, or a tokenizer's input, is longer than vllm.max_prompt_bytes. */
void		generate_check_length(const char *what, const text *t);

#endif
