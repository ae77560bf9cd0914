/*
 * harmony.h
 *	  The message format of gpt-oss: an output is several messages, each with a channel and perhaps a
 *	  recipient.
 *
 *	<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary
 *	to=functions.f <|constrain|>json<|message|>{...}<|call|>
 *
 * The channel analysis is reasoning, final is content, and a message to functions.NAME is a call.
 * Commentary without a recipient, which announces calls, is content if no final message follows.
 */
#ifndef VLLM_PARSERS_HARMONY_H
#define VLLM_PARSERS_HARMONY_H

#include "parsers/parsers.h"

typedef struct Harmony Harmony;

Harmony    *harmony_new(ParseSink sink, void *ctx, uint64_t key);
void		harmony_feed(Harmony *h, const char *s, size_t n);
void		harmony_finish(Harmony *h);
/* Like tool_parser_is_open(). */
bool		harmony_is_open(const Harmony *h);
void		harmony_free(Harmony *h);

#endif
