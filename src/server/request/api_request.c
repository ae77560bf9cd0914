/*
 * api_request.c
 *	  The fields of a WK_API message.  Tested by tests/unit/server/api/test_api.c.
 */
#include "server/request/api_request.h"

#include <string.h>

#include "base/alloc.h"

bool
api_field(ApiRequest *r, const WireField *f, bool *known, Err *e)
{
	StrView		t = {f->s, f->n};

	*known = true;
	switch (f->tag)
	{
		case WTAG_API_PATH:
			r->path = t;
			return true;
		case WTAG_API_BODY:
			r->body = t;
			return true;
		case WTAG_API_AS_BODY:
			r->as_body = f->i != 0;
			return true;
		case WTAG_API_UNKNOWN:
			r->unknown = t;
			return true;
		case WTAG_API_PREVIOUS:
			r->previous = t;
			return true;
		case WTAG_API_TOOL_PARSER:
			r->tool_parser = t;
			return true;
		case WTAG_API_REASONING_PARSER:
			r->reasoning_parser = t;
			return true;
		case WTAG_API_MODEL:
			if (r->n_models == API_MAX_ITEMS)
				return err_set(e, ERR_TOO_LONG, "there are more than %d models", API_MAX_ITEMS);
			r->models = mem_realloc(r->models, (size_t) (r->n_models + 1) * sizeof(ApiModel));
			r->models[r->n_models++] = (ApiModel) {.name = t};
			return true;
		case WTAG_API_ROOT:
		case WTAG_API_PARENT:
			if (r->n_models == 0)
				return err_set(e, ERR_INTERNAL, "%s without a model",
							   f->tag == WTAG_API_ROOT ? "root" : "parent");
			*(f->tag == WTAG_API_ROOT ? &r->models[r->n_models - 1].root :
			  &r->models[r->n_models - 1].parent) = t;
			return true;
		case WTAG_API_PROMPT_EMBEDS:
			r->prompt_embeds = f->i != 0;
			return true;
		case WTAG_API_TRUST_TEMPLATE:
			r->trust_template = f->i != 0;
			return true;
		case WTAG_SQLSTATE:
			if (f->n != 5)
				return err_set(e, ERR_INTERNAL, "malformed SQLSTATE");
			r->sqlstate = t;
			return true;
		case WTAG_MESSAGE:
			r->message = t;
			return true;
		case WTAG_DETAIL:
			r->detail = t;
			return true;
		case WTAG_HINT:
			r->hint = t;
			return true;
		default:
			*known = false;
			return true;
	}
}

void
api_request_free(ApiRequest *r)
{
	mem_free(r->models);
}
