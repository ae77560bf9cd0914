/*
 * prompt_embeds.h
 *	  Prompts that are embeddings: rows that replace the rows of tokens in the model's embedding matrix.
 */
#ifndef VLLM_SERVER_REQUEST_PROMPT_EMBEDS_H
#define VLLM_SERVER_REQUEST_PROMPT_EMBEDS_H

#include "backend/backend.h"
#include "ipc/wire.h"

/* The fields about embeddings; points into the message. */
typedef struct EmbedsRequest
{
	bool		given;
	WireField	rows;			/* floats */
	int			width;			/* of a row, as the caller sent it; 0 = not given */
	bool		want;			/* WK_TOKENIZE: the reply must have the rows of the tokens */
} EmbedsRequest;

/* Take a field of a message; *known = false if it is not about embeddings. */
bool		embeds_field(EmbedsRequest *r, const WireField *f, bool *known, Err *e);

/*
 * Check and copy the rows: *out (owned by the caller) for ReqSpec.embeds, and as many ids as there are
 * rows, for ReqSpec.prompt.  Any thread.  Errors: ERR_INVALID with parameter=prompt_embeds,
 * ERR_UNSUPPORTED.
 */
bool		embeds_take(const Backend *be, const BackendModel *in, const EmbedsRequest *r, IntVec *ids,
						float **out, Err *e);

/* Write the rows of tokens as fields of a reply: FLOATS and ROWS.  Any thread. */
bool		embeds_of_tokens(const Backend *be, const BackendModel *in, const IntVec *ids, Buf *fields,
							 Err *e);

#endif
