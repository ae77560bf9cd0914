/*
 * api_args.h
 *	  Requests with OpenAI's and Anthropic's bodies (llm_api.c).
 */
#ifndef VLLM_PG_CALL_API_ARGS_H
#define VLLM_PG_CALL_API_ARGS_H

#include "postgres.h"

#include "pg/call/engine_func.h"

/* Define the settings; vllm_sql_init() calls it in _PG_init(). */
void		vllm_api_init(void);

/* the functions in llm_api's row of engine_func.def */
void		api_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *api_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		api_result(const Reply *reply, Oid rettype, bool *isnull);

/*
 * Return what the store has for a request at `path` (without trailing slashes), as JSON text in the
 * caller's memory: for /v1/responses, the items up to previous_id (NULL = none); for
 * /v1/responses/ID, the response.  Return NULL if there is nothing.
 */
char	   *api_store_find(const char *path, const char *previous_id);
/*
 * Store a response.  Does nothing if its request, whose fields are given, has another path or says
 * not to store it.
 */
void		api_store_response(const char *request, size_t request_len, text *response);

#endif
