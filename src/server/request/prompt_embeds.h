/*
 * prompt_embeds.h
 *	  Prompts that are embeddings: rows in place of tokens' rows of the model's embedding.
 */
#ifndef VLLM_SERVER_REQUEST_PROMPT_EMBEDS_H
#define VLLM_SERVER_REQUEST_PROMPT_EMBEDS_H

#include "backend/backend.h"
#include "ipc/wire.h"

/* What a message says of one; points into it. */
typedef struct EmbedsRequest
{
	bool		given;
	WireField	rows;			/* floats */
	int			width;			/* of a row, as the caller has it; 0 = not said */
	bool		want;			/* WK_TOKENIZE: tokens' rows are wanted */
} EmbedsRequest;

/* Take a field of a message; *known = false if it is none of these. */
bool		embeds_field(EmbedsRequest *r, const WireField *f, bool *known, Err *e);

/*
 * The rows, checked: *out (owned by the caller) for ReqSpec.embeds, and as many ids as there are rows, for
 * ReqSpec.prompt.  Any thread.  Errors: ERR_INVALID with parameter=prompt_embeds, ERR_UNSUPPORTED.
 */
bool		embeds_take(const Backend *be, const BackendModel *in, const EmbedsRequest *r, IntVec *ids,
						float **out, Err *e);

/* Tokens' rows as fields of a reply: FLOATS and ROWS.  Any thread. */
bool		embeds_of_tokens(const Backend *be, const BackendModel *in, const IntVec *ids, Buf *fields,
							 Err *e);

#endif
