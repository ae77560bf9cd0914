/*
 * request_fields.h
 *	  The decoded fields of a request message, input to the body encoders and the reply decoders.
 *
 * Fields that decide the shape of a body or of a reply are decoded here.  Parameters that are passed on
 * unchanged stay in the message, where encode.c finds them (body_fields.def).  All fields are checked,
 * because the arena is untrusted.
 */
#ifndef VLLM_REMOTE_CODEC_REQUEST_FIELDS_H
#define VLLM_REMOTE_CODEC_REQUEST_FIELDS_H

#include "base/err.h"
#include "base/str_view.h"
#include "ipc/wire.h"

typedef struct RequestFields
{
	WireKind	kind;
	char	   *fields;			/* the message's fields; owned by the RequestFields */
	size_t		len;
	StrView		model, options, secret, lora;
	StrView    *urls;
	int			n_urls;
	uint64_t	model_hash;		/* wire_model_hash(first url, options) */
	uint32_t	dboid;
	uint32_t	login;			/* LOGIN, or ROLE if there is no LOGIN */
	int			priority;
	bool		background;
	bool		stream, want_ids, want_labels, want_answers;
	int			n;				/* number of choices, 1 if absent */
	int			logprobs, prompt_logprobs;	/* -2 = absent, -1 = all */
	/* PROMPT; PROMPT_IDS when prompt_ids.s is set (raw int32 array, n elements) */
	StrView		prompt;
	StrView		prompt_ids;
	StrView		messages, tools, task, pair;
	StrView    *choices;		/* CHOICE */
	int			n_choices;
	StrView		api_path, api_body, command;
	int			max_tokens;		/* -1 = absent */
	double		temperature;	/* NaN = absent */
	bool		has_seed;
	bool		embeds;			/* the prompt is embeddings, which no endpoint takes */
	bool		fallback;		/* the caller asks another model if this one fails */
	bool		idempotent;		/* a retry is harmless (docs/user/remote-models.md, retry rule) */
} RequestFields;

/* Decode `fields` (malloc'ed).  Takes ownership of them, also on failure. */
bool		request_fields_read(RequestFields *a, WireKind kind, char *fields, size_t len, Err *e);
void		request_fields_free(RequestFields *a);

#endif
