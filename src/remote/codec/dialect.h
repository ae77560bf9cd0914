/*
 * dialect.h
 *	  Dialects of endpoints: what they support and on which paths (ipc/endpoint_dialects.def).
 */
#ifndef VLLM_REMOTE_CODEC_DIALECT_H
#define VLLM_REMOTE_CODEC_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ipc/wire.h"

enum
{
	CAP_VLLM = 1 << 0,			/* vLLM's own parameters */
	/* llama.cpp's: repeat_penalty, grammar, schemas as {"type": "json_object", "schema": ...} */
	CAP_LLAMA = 1 << 1,
	CAP_TOP_K = 1 << 2,			/* top_k, min_p */
	CAP_N = 1 << 3,				/* several choices */
	CAP_MAX_COMPLETION = 1 << 4,	/* chats take max_completion_tokens, not max_tokens */
	CAP_STRICT_SCHEMA = 1 << 5, /* a schema is enforced only if the request says "strict" */
	CAP_FORMAT_CHAT = 1 << 6,	/* response_format in chats */
	CAP_FORMAT_PLAIN = 1 << 7,	/* response_format in completions */
	CAP_EFFORT = 1 << 8,		/* reasoning_effort */
	CAP_PARALLEL = 1 << 9,		/* parallel_tool_calls */
	CAP_IDS = 1 << 10,			/* a prompt may be token ids */
	CAP_DIMENSIONS = 1 << 11,	/* dimensions of an embedding */
	CAP_ENCODING = 1 << 12,		/* encoding_format */
	CAP_UNIT_LENGTH = 1 << 13,	/* embeddings always have length 1 */
	CAP_ECHO = 1 << 14,			/* /completions with echo: log-probabilities of the prompt */
	CAP_ECHO_ONLY = 1 << 15,	/* /completions with echo and max_tokens 0: log-probabilities alone */
	CAP_CONTENT = 1 << 16,		/* /tokenize calls the text "content" */
	CAP_INPUT = 1 << 17,		/* /tokenize calls the text "input", and always adds special tokens */
	CAP_STREAM_USAGE = 1 << 18, /* stream_options */
	CAP_ENDLESS = 1 << 19,		/* completions: max_tokens -1 = up to the context length */
	CAP_ENDLESS_0 = 1 << 20,	/* completions: max_tokens 0 = up to the context length */
	CAP_RESPONSES = 1 << 21,	/* /responses */
	CAP_REQUIRED = 1 << 22,		/* tool_choice "required" */
	CAP_DEFAULTS = 1 << 23,		/* its defaults differ from the engine's, where a model may set them */
	CAP_NOBODY = 1 << 30		/* no dialect has it */
};

typedef struct Dialect
{
	const char *name;
	uint32_t	caps;
	const char *completions, *chat, *embeddings, *score, *rerank, *classify, *pooling, *tokenize, *detokenize,
		*models;
} Dialect;

typedef struct DialectDefault
{
	WireTag		tag;
	bool		of_model;		/* a model's generation_config may override it */
	double		value;
} DialectDefault;

/* Return NULL if the dialect does not exist.  name NULL: the default dialect. */
const Dialect *dialect_find(const char *name);
/* Append all names: "a, b, c". */
void		dialect_names(Buf *b);
/* Return the i'th default of the dialect, or NULL if it has no more. */
const DialectDefault *dialect_default(const Dialect *d, int i);

#endif
