/*
 * wireask.h
 *	  A request as its message has it, for who makes an endpoint's bodies and reads its answers.
 *
 * What decides the shape of a body or of a reply is taken out of the message here; each parameter that is
 * just handed on stays in the message, where body.c finds it again (ask_fields.def).  Fields are checked:
 * the arena is untrusted.
 */
#ifndef VLLM_REMOTE_WIREASK_H
#define VLLM_REMOTE_WIREASK_H

#include "base/err.h"
#include "wire/wire.h"

typedef struct Span
{
	const char *s;				/* NULL: absent; not terminated */
	size_t		n;
} Span;

typedef struct WireAsk
{
	WireKind	kind;
	char	   *fields;			/* the message's fields; the WireAsk's own */
	size_t		len;
	Span		model, options, secret, lora;
	Span	   *urls;
	int			n_urls;
	uint64_t	model_hash;		/* wire_model_hash(first url, options) */
	uint32_t	dboid;
	uint32_t	login;			/* LOGIN, else ROLE */
	int			priority;
	bool		background;
	bool		stream, want_ids, want_labels, want_answers;
	int			n;				/* answers, 1 when absent */
	int			logprobs, prompt_logprobs;	/* -2 = absent, -1 = all */
	Span		prompt;			/* PROMPT; PROMPT_IDS when prompt_ids.s is set (raw int32 array, n elements) */
	Span		prompt_ids;
	Span		messages, tools, task, pair;
	Span	   *choices;		/* CHOICE */
	int			n_choices;
	Span		api_path, api_body, command;
	int			max_tokens;		/* -1 = absent */
	double		temperature;	/* NaN = absent */
	bool		has_seed;
	bool		embeds;			/* the prompt is embeddings, which no endpoint takes */
	bool		fallback;		/* another model will be asked if this one fails */
	bool		idempotent;		/* asked twice it gives the same and costs nothing but money (docs/remote.md, retry rule) */
} WireAsk;

/* Takes `fields` (malloc'ed) on success and on failure. */
bool		wireask_read(WireAsk *a, WireKind kind, char *fields, size_t len, Err *e);
void		wireask_free(WireAsk *a);

#endif
