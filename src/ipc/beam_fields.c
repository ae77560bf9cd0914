/*
 * beam_fields.c
 *	  Fields of a request that a beam search honours (beam_fields.h).
 *
 * Tested by tests/sql/26_outputs.sql, which tries every option.
 */
#include "ipc/beam_fields.h"

#include "ipc/wire.h"

/* Return true for fields that describe the caller, the model or the prompt. */
static bool
is_about_request(int tag)
{
	switch (tag)
	{
		case WTAG_DATABASE:
		case WTAG_ROLE:
		case WTAG_SESSION:
		case WTAG_LOGIN:
		case WTAG_BACKGROUND:
		case WTAG_ROLE_WEIGHT:
		case WTAG_ROLE_MAX_REQUESTS:
		case WTAG_ROLE_TOKENS_PER_MINUTE:
		case WTAG_ROLE_MAX_TOKENS:
		case WTAG_ROLE_LIMIT_WAIT:
		case WTAG_MODEL:
		case WTAG_MODEL_PATH:
		case WTAG_MODEL_OPTIONS:
		case WTAG_LORA:
		case WTAG_LORA_PATH:
		case WTAG_SECRET_PATHS:
		case WTAG_SLEEP_WAIT:
		case WTAG_PROMPT:
		case WTAG_PROMPT_IDS:
		case WTAG_PROMPT_EMBEDS:
		case WTAG_EMBEDS_WIDTH:
		case WTAG_MESSAGES:
		case WTAG_TOOLS:
		case WTAG_DOCUMENTS:
		case WTAG_CHAT_KWARGS:
		case WTAG_CHAT_TEMPLATE:
		case WTAG_GENERATION_PROMPT:
		case WTAG_CONTINUE_FINAL:
		case WTAG_CONTENT_FORMAT:
		case WTAG_NOTE:
		case WTAG_TRACEPARENT:
		case WTAG_TRACESTATE:
		case WTAG_PRIORITY:
		case WTAG_CACHE_SALT:
		case WTAG_WHOLE_LENGTH:
		case WTAG_ADD_SPECIAL:
		case WTAG_TRUNCATE_PROMPT_TOKENS:
		case WTAG_TRUNCATION_SIDE:
			return true;
		default:
			return wire_tag_of_caller(tag);
	}
}

bool
beams_take(int tag)
{
	switch (tag)
	{
		case WTAG_BEAM_WIDTH:
		case WTAG_LENGTH_PENALTY:
		case WTAG_MAX_TOKENS:
		case WTAG_IGNORE_EOS:
		case WTAG_SEED:			/* a beam search draws nothing: any seed gives the same result */
		case WTAG_INCLUDE_STOP: /* the beams end with EOS */
		case WTAG_SKIP_SPECIAL:
		case WTAG_SPACES_BETWEEN_SPECIAL_TOKENS:
		case WTAG_DETOKENIZE:
		case WTAG_STREAM:
		case WTAG_STREAM_INTERVAL:	/* beams are sent whole */
		case WTAG_WANT_IDS:
		case WTAG_WANT_ANSWERS:
		case WTAG_TOOL_PARSER:
		case WTAG_REASONING_PARSER:
		case WTAG_TOOL_CHOICE:	/* one that constrains the output is rejected, as a schema is */
		case WTAG_PARALLEL_TOOL_CALLS:
		case WTAG_INCLUDE_REASONING:
		case WTAG_REASONING_EFFORT:
		case WTAG_RESPONSE_FORMAT:	/* {"type": "text"}; other formats are rejected, as a schema is */
			return true;
		default:
			return is_about_request(tag);
	}
}
