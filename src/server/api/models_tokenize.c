/*
 * models_tokenize.c
 *	  /v1/models, /tokenize, /detokenize.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "server/api/api_internal.h"

/* ---- models ---- */

static bool
models_make(ApiCall *a, Err *e)
{
	(void) a;
	(void) e;
	return true;
}

static void
write_model(const ApiCall *a, int i, JsonOut *j)
{
	const ApiModel *m = &a->req->models[i];
	StrView		root = m->root.s != NULL ? m->root : m->name;

	json_open(j, '{');
	json_key(j, "id");
	json_str(j, m->name.s, m->name.n);
	json_key_cstr(j, "object", "model");
	json_key_int(j, "created", a->created);
	json_key_cstr(j, "owned_by", "vllm");
	json_key(j, "root");
	json_str(j, root.s, root.n);
	json_key(j, "parent");
	if (m->parent.s != NULL)
		json_str(j, m->parent.s, m->parent.n);
	else
		json_null(j);
	json_key(j, "max_model_len");
	if (a->model_lens[i] > 0)
		json_int(j, a->model_lens[i]);
	else
		json_null(j);
	json_key(j, "permission");
	json_open(j, '[');
	json_close(j, ']');
	json_close(j, '}');
}

static bool
models_finish(ApiCall *a, JsonOut *j, Err *e)
{
	(void) e;
	json_open(j, '{');
	json_key_cstr(j, "object", "list");
	json_key(j, "data");
	json_open(j, '[');
	for (int i = 0; i < a->req->n_models; i++)
		write_model(a, i, j);
	json_close(j, ']');
	json_close(j, '}');
	return true;
}

/* Write /v1/models/NAME. */
static bool
model_finish(ApiCall *a, JsonOut *j, Err *e)
{
	size_t		skip = strlen("/v1/models/");
	StrView		name = {a->req->path.s + skip, a->req->path.n - skip};

	ALWAYS(a->req->path.n > skip);	/* api.def: "/v1/models/" and more */
	for (int i = 0; i < a->req->n_models; i++)
		if (a->req->models[i].name.n == name.n && memcmp(a->req->models[i].name.s, name.s, name.n) == 0)
		{
			write_model(a, i, j);
			return true;
		}
	return err_set(e, ERR_NOT_FOUND, "model \"%.*s\" does not exist", (int) (name.n < 128 ? name.n : 128),
				   name.s);
}

const ApiEndpoint api_models = {.prefix = "models-",.lists_models = true,.make = models_make,
								.finish = models_finish};
const ApiEndpoint api_model = {.prefix = "model-",.lists_models = true,.make = models_make,
							   .finish = model_finish};

/* ---- tokenize ---- */

/* Purposes of items in their order: the ids, then the text of each token, if it is wanted. */
enum
{
	TOK_IDS, TOK_TEXT
};

static bool
tokenize_prompt(ApiCall *a, WireOut *o, Err *e)
{
	const char *prompt = NULL;
	bool		special = true;

	if (!apibody_str(&a->body, "prompt", &prompt, e) || !apibody_bool(&a->body, "add_special_tokens",
																	  &special, e))
		return false;
	if (prompt == NULL)
		return api_bad(e, "prompt", "or messages must be given");
	wire_put_str(o, WTAG_PROMPT, prompt, strlen(prompt));
	wire_put_int(o, WTAG_ADD_SPECIAL, special);
	return true;
}

/* Request the text of each token alone. */
static bool
tokenize_texts(ApiCall *a, Err *e)
{
	ApiReply	r;

	apireply_read(&r, a->items[0].reply.data, a->items[0].reply.len);
	if (r.ids.n > API_MAX_ITEMS - 1)
		return err_set(e, ERR_TOO_LONG, "return_token_strs takes at most %d tokens, got %zu",
					   API_MAX_ITEMS - 1, r.ids.n);
	for (size_t i = 0; i < r.ids.n; i++)
	{
		WireOut		o = api_out(api_item(a, WK_DETOKENIZE, TOK_TEXT, (int) i));
		int32_t		id = wire_int_at(&r.ids, i);

		wire_put_ints(&o, WTAG_PROMPT_IDS, &id, 1);
		wire_put_int(&o, WTAG_SKIP_SPECIAL, 0);
	}
	return true;
}

static bool
tokenize_make(ApiCall *a, Err *e)
{
	bool		texts = false;
	WireOut		o;

	if (a->round > 0)
		return tokenize_texts(a, e);
	o = api_out(api_item(a, WK_TOKENIZE, TOK_IDS, 0));
	if (!apibody_bool(&a->body, "return_token_strs", &texts, e))
		return false;
	a->more = texts;
	if (apibody_get(&a->body, "messages") != NULL && apibody_get(&a->body, "prompt") != NULL)
		return api_bad(e, "messages", "and prompt exclude each other");
	if (apibody_get(&a->body, "messages") != NULL)
		return api_chat_fields(a, &o, true, e);
	return tokenize_prompt(a, &o, e);
}

static bool
tokenize_finish(ApiCall *a, JsonOut *j, Err *e)
{
	ApiReply	r;

	(void) e;
	ASSERT(a->items[0].role == TOK_IDS);
	apireply_read(&r, a->items[0].reply.data, a->items[0].reply.len);
	json_open(j, '{');
	json_key_int(j, "count", r.count);
	json_key_int(j, "max_model_len", r.max_model_len);
	json_key(j, "tokens");
	api_write_ids(j, &r.ids);
	json_key(j, "token_strs");
	if (a->round == 0)
		json_null(j);
	else
	{
		json_open(j, '[');
		for (int i = 1; i < a->n_items; i++)
		{
			apireply_read(&r, a->items[i].reply.data, a->items[i].reply.len);
			json_str(j, r.text.s, r.text.n);
		}
		json_close(j, ']');
	}
	json_close(j, '}');
	return true;
}

const ApiEndpoint api_tokenize = {.prefix = "tokn-",.make = tokenize_make,.finish = tokenize_finish};

/* ---- detokenize ---- */

static bool
detokenize_make(ApiCall *a, Err *e)
{
	const ApiMember *tokens = apibody_get(&a->body, "tokens");
	WireOut		o = api_out(api_item(a, WK_DETOKENIZE, TOK_TEXT, 0));

	if (tokens == NULL || !json_is_array(tokens->v))
		return api_bad(e, "tokens", "must be given, as an array of token ids");
	wire_put_int(&o, WTAG_SKIP_SPECIAL, 0);
	return api_put_ids(&o, WTAG_PROMPT_IDS, tokens->v, "tokens", e);
}

static bool
detokenize_finish(ApiCall *a, JsonOut *j, Err *e)
{
	ApiReply	r;

	(void) e;
	apireply_read(&r, a->items[0].reply.data, a->items[0].reply.len);
	json_open(j, '{');
	json_key(j, "prompt");
	json_str(j, r.text.s, r.text.n);
	json_close(j, '}');
	return true;
}

const ApiEndpoint api_detokenize = {.prefix = "detokn-",.make = detokenize_make,.finish = detokenize_finish};
