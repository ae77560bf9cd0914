/*
 * dialect.h
 *	  Kinds of endpoints: what they know, and where (ipc/endpoint_dialects.def).
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
	CAP_N = 1 << 3,				/* several answers */
	CAP_MAX_COMPLETION = 1 << 4,	/* of chats: max_completion_tokens, not max_tokens */
	CAP_STRICT_SCHEMA = 1 << 5, /* a schema binds only where it is said to be strict */
	CAP_FORMAT_CHAT = 1 << 6,	/* response_format of chats */
	CAP_FORMAT_PLAIN = 1 << 7,	/* response_format of completions */
	CAP_EFFORT = 1 << 8,		/* reasoning_effort */
	CAP_PARALLEL = 1 << 9,		/* parallel_tool_calls */
	CAP_IDS = 1 << 10,			/* a prompt of token ids */
	CAP_DIMENSIONS = 1 << 11,	/* of an embedding */
	CAP_ENCODING = 1 << 12,		/* encoding_format */
	CAP_UNIT_LENGTH = 1 << 13,	/* embeddings have length 1 anyhow */
	CAP_ECHO = 1 << 14,			/* /completions with echo: log-probabilities of the prompt */
	CAP_ECHO_ONLY = 1 << 15,	/* /completions with echo and max_tokens 0: log-probabilities alone */
	CAP_CONTENT = 1 << 16,		/* /tokenize calls the text "content" */
	CAP_INPUT = 1 << 17,		/* /tokenize calls the text "input", and always adds special tokens */
	CAP_STREAM_USAGE = 1 << 18, /* stream_options */
	CAP_ENDLESS = 1 << 19,		/* of completions: max_tokens -1 = as many as there is room for */
	CAP_ENDLESS_0 = 1 << 20,	/* of completions: max_tokens 0 = as many as fit */
	CAP_RESPONSES = 1 << 21,	/* /responses */
	CAP_REQUIRED = 1 << 22,		/* tool_choice "required" */
	CAP_DEFAULTS = 1 << 23,		/* it takes else for granted than an engine here, where a model may say */
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
	bool		of_model;		/* a model's generation_config may say something else */
	double		value;
} DialectDefault;

/* NULL: there is no such dialect; name NULL: the one when nothing is said. */
const Dialect *dialect_find(const char *name);
/* All names: "a, b, c" */
void		dialect_names(Buf *b);
/* The i'th default that is the dialect's; NULL: there are no more. */
const DialectDefault *dialect_default(const Dialect *d, int i);

#endif
