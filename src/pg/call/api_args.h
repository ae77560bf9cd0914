/*
 * api_args.h
 *	  Requests in OpenAI's and Anthropic's bodies (llm_api.c).
 */
#ifndef VLLM_PG_CALL_API_ARGS_H
#define VLLM_PG_CALL_API_ARGS_H

#include "postgres.h"

#include "pg/call/engine_func.h"

/* Its settings; _PG_init() by vllm_sql_init(). */
void		vllm_api_init(void);

/* llm_api's row of engine_func.def */
void		api_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *api_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		api_result(const Reply *reply, Oid rettype, bool *isnull);

/*
 * What is stored that a request at `path` (without slashes at its end) needs, JSON text in the caller's
 * memory: of /v1/responses the items up to previous_id (NULL = none), of /v1/responses/ID the response.
 * NULL: nothing.
 */
char	   *api_store_find(const char *path, const char *previous_id);
/* Keep a response, unless its request, whose fields these are, is of another path or says not to. */
void		api_store_response(const char *request, size_t request_len, text *response);

#endif
