/*
 * embeddings.c
 *	  /v1/embeddings, /classify, /pooling: vectors and labels of texts.
 *
 * An input is a text or token ids, and there may be several; or it is messages, which a chat template
 * turns into token ids first (round 0).
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/api/vector_encoding.h"
#include "server/api/api_internal.h"

enum
{
	ROLE_INPUT, ROLE_CHAT
};

typedef struct Pool
{
	const char *task;
	bool		base64;
	VectorType	type;
	bool		big_endian;
	Buf			fields;			/* common to all inner requests */
} Pool;

static void
drop(ApiCall *a)
{
	Pool	   *k = a->own;

	if (k == NULL)
		return;
	buf_free(&k->fields);
	mem_free(k);
}

/* ---- common members of the bodies ---- */

static bool
put_truncation(ApiCall *a, WireOut *o, Err *e)
{
	int64_t		keep = 0;
	const char *side = NULL;

	if (!apibody_int(&a->body, "truncate_prompt_tokens", -1, INT_MAX, &keep, e) ||
		!apibody_str(&a->body, "truncation_side", &side, e))
		return false;
	if (apibody_get(&a->body, "truncate_prompt_tokens") != NULL)
	{
		if (keep == 0)
			return api_bad(e, "truncate_prompt_tokens", "must be -1 or at least 1");
		wire_put_int(o, WTAG_TRUNCATE_TOKENS, keep);
	}
	if (side == NULL || strcmp(side, "right") == 0)
		return true;
	if (strcmp(side, "left") != 0)
		return api_bad(e, "truncation_side", "must be \"left\" or \"right\"");
	err_set(e, ERR_UNSUPPORTED, "truncation_side \"left\" of such a request is not supported");
	return err_detail(e, "parameter=truncation_side");
}

static bool
put_activation(ApiCall *a, WireOut *o, Err *e)
{
	static const char *const names[] = {"use_activation", "normalize", "activation", "softmax", NULL};

	for (int i = 0; names[i] != NULL; i++)
	{
		bool		on = false;

		if (apibody_get(&a->body, names[i]) == NULL)
			continue;
		if (i > 0)
		{
			api_bad(e, names[i], "is not a field any more");
			return err_hint(e, "Use use_activation.");
		}
		if (!apibody_bool(&a->body, names[i], &on, e))
			return false;
		wire_put_int(o, WTAG_USE_ACTIVATION, on);
	}
	return true;
}

bool
api_pool_fields(ApiCall *a, WireOut *o, Err *e)
{
	static const char *const refused[] = {"mm_processor_kwargs", "priority", "lora_request", NULL};
	static const char *const ignored[] = {"user", "padding", NULL};
	const char *salt = NULL;

	apibody_ignore(&a->body, ignored);
	if (!apibody_str(&a->body, "cache_salt", &salt, e))
		return false;
	if (salt != NULL)
		wire_put_str(o, WTAG_CACHE_SALT, salt, strlen(salt));
	return apibody_refuse(&a->body, refused, e) && put_truncation(a, o, e) && put_activation(a, o, e);
}

/* ---- inputs ---- */

static bool
add_input(ApiCall *a, const Pool *k, const Json *v, int index, bool special, Err *e)
{
	ApiItem    *it = api_item(a, WK_POOL, ROLE_INPUT, index);
	WireOut		o = api_out(it);

	buf_add(&it->in, k->fields.data, k->fields.len);
	if (api_is_ids(v))
		return api_put_ids(&o, WTAG_PROMPT_IDS, v, "input", e);
	if (!json_is_string(v))
		return api_bad(e, "input", "must be a string, an array of strings, an array of token ids, or an "
								   "array of such arrays");
	wire_put_str(&o, WTAG_PROMPT, v->s, strlen(v->s));
	wire_put_int(&o, WTAG_ADD_SPECIAL, special);
	return true;
}

static bool
add_inputs(ApiCall *a, const Pool *k, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "input");
	bool		special = true;
	bool		many;
	int			index = 0;

	if (!apibody_bool(&a->body, "add_special_tokens", &special, e))
		return false;
	many = m != NULL && json_is_array(m->v) && !api_is_ids(m->v);
	if (m == NULL || (many && m->v->child == NULL))
		return api_bad(e, "input", "must be given, and not be empty");
	if (!api_room(a, many ? (size_t) json_count(m->v) : 1, k->fields.len, e))
		return false;
	for (const Json *v = many ? m->v->child : m->v; v != NULL; v = many ? v->next : NULL)
	{
		if (index == API_MAX_ITEMS)
			return api_bad(e, "input", "has more than 4096 elements");
		if (!add_input(a, k, v, index++, special, e))
			return false;
	}
	return true;
}

/* Request the ids of a chat (round 0), whose vector is computed afterwards. */
static bool
add_chat(ApiCall *a, const Pool *k, Err *e)
{
	ApiItem    *it;
	WireOut		o;
	ApiReply	r;
	IntVec		ids = {0};

	if (a->round == 0)
	{
		a->more = true;
		o = api_out(api_item(a, WK_TOKENIZE, ROLE_CHAT, 0));
		return api_chat_fields(a, &o, false, e);
	}
	apireply_read(&r, a->items[0].reply.data, a->items[0].reply.len);
	for (size_t i = 0; i < r.ids.n; i++)
		intvec_push(&ids, wire_int_at(&r.ids, i));
	it = api_item(a, WK_POOL, ROLE_INPUT, 0);
	o = api_out(it);
	buf_add(&it->in, k->fields.data, k->fields.len);
	wire_put_ints(&o, WTAG_PROMPT_IDS, ids.data, ids.len);
	intvec_free(&ids);
	return true;
}

static bool
add_all(ApiCall *a, const Pool *k, Err *e)
{
	if (apibody_get(&a->body, "messages") == NULL)
		return add_inputs(a, k, e);
	if (apibody_get(&a->body, "input") != NULL)
		return api_bad(e, "messages", "and input exclude each other");
	return add_chat(a, k, e);
}

/* ---- writing vectors ---- */

static bool
read_encoding(ApiCall *a, Pool *k, Err *e)
{
	const char *format = "float";
	const char *type = "float32";
	const char *endian = "native";
	const uint16_t one = 1;

	if (!apibody_str(&a->body, "encoding_format", &format, e) ||
		!apibody_str(&a->body, "embed_dtype", &type, e) || !apibody_str(&a->body, "endianness", &endian, e))
		return false;
	if (strcmp(format, "bytes") == 0 || strcmp(format, "bytes_only") == 0)
	{
		err_set(e, ERR_UNSUPPORTED, "encoding_format \"%s\" is not supported", format);
		return err_detail(e, "parameter=encoding_format");
	}
	k->base64 = strcmp(format, "base64") == 0;
	if (!k->base64 && strcmp(format, "float") != 0)
		return api_bad(e, "encoding_format", "must be \"float\" or \"base64\"");
	if (!vector_type_by_name(type, &k->type))
		return api_bad(e, "embed_dtype", "must be float32, float16, bfloat16, fp8_e4m3 or fp8_e5m2");
	k->big_endian = strcmp(endian, "big") == 0 ||
		(strcmp(endian, "native") == 0 && *(const char *) &one == 0);
	if (!k->big_endian && strcmp(endian, "native") != 0 && strcmp(endian, "little") != 0)
		return api_bad(e, "endianness", "must be \"native\", \"big\" or \"little\"");
	return true;
}

static bool
put_dimensions(ApiCall *a, WireOut *o, Err *e)
{
	int64_t		dimensions = 0;

	if (!apibody_int(&a->body, "dimensions", 1, INT_MAX, &dimensions, e))
		return false;
	if (dimensions > 0)
		wire_put_int(o, WTAG_DIMENSIONS, dimensions);
	return true;
}

/* Write a vector; with `rows` an array of vectors. */
static void
write_vector(const Pool *k, const ApiReply *r, bool rows, JsonOut *j)
{
	float	   *v = mem_alloc((r->floats.n + 1) * sizeof(float));
	size_t		width = r->rows > 0 ? r->floats.n / (size_t) r->rows : 0;
	Buf			bytes = {0};
	Buf			text = {0};

	/* a token's vector is a row; the rows have equal widths */
	ALWAYS(!rows || r->floats.n == 0 || (width > 0 && r->floats.n % width == 0));
	if (r->floats.n > 0)
		wire_floats(&r->floats, v);
	if (k->base64)
	{
		vector_bytes(k->type, k->big_endian, v, r->floats.n, &bytes);
		base64_add(&text, bytes.data, bytes.len);
		json_str(j, text.data != NULL ? text.data : "", text.len);
	}
	else
	{
		json_open(j, '[');
		for (size_t i = 0; i < r->floats.n; i++)
		{
			if (rows && i % width == 0)
				json_open(j, '[');
			json_float(j, v[i]);
			if (rows && i % width == width - 1)
				json_close(j, ']');
		}
		json_close(j, ']');
	}
	buf_free(&bytes);
	buf_free(&text);
	mem_free(v);
}

static bool
start(ApiCall *a, Pool **k, const char *task, Err *e)
{
	WireOut		o;

	if (a->round > 0)
	{
		*k = a->own;
		return true;
	}
	*k = a->own = mem_zalloc(sizeof(Pool));
	(*k)->task = task;
	if (task == NULL)
	{
		if (!apibody_str(&a->body, "task", &(*k)->task, e))
			return false;
		if ((*k)->task == NULL)
			return api_bad(e, "task", "must be given: embed, classify, token_embed, token_classify or "
									  "reward");
	}
	o = chan_out(&(*k)->fields);
	wire_put_str(&o, WTAG_TASK, (*k)->task, strlen((*k)->task));
	return api_pool_fields(a, &o, e);
}

static void
open_list(ApiCall *a, JsonOut *j)
{
	json_open(j, '{');
	api_write_head(a, j, "list");
	json_key(j, "data");
	json_open(j, '[');
}

static void
close_list(ApiCall *a, JsonOut *j)
{
	ApiUsage	u = api_usage(a, ROLE_INPUT);

	json_close(j, ']');
	json_key(j, "usage");
	u.completion = 0;
	api_write_usage(j, &u);
	json_close(j, '}');
}

/* ---- embeddings ---- */

static bool
embeddings_make(ApiCall *a, Err *e)
{
	Pool	   *k;
	WireOut		o;

	if (!start(a, &k, "embed", e))
		return false;
	o = chan_out(&k->fields);
	if (a->round == 0 && (!read_encoding(a, k, e) || !put_dimensions(a, &o, e)))
		return false;
	return add_all(a, k, e);
}

static bool
vectors_finish(ApiCall *a, const char *object, const char *key, JsonOut *j)
{
	const Pool *k = a->own;
	bool		rows = strncmp(k->task, "token_", 6) == 0;

	open_list(a, j);
	for (int i = 0; i < a->n_items; i++)
	{
		ApiReply	r;

		if (a->items[i].role != ROLE_INPUT)
			continue;
		apireply_read(&r, a->items[i].reply.data, a->items[i].reply.len);
		json_open(j, '{');
		json_key_int(j, "index", a->items[i].index);
		json_key_cstr(j, "object", object);
		json_key(j, key);
		write_vector(k, &r, rows, j);
		json_close(j, '}');
	}
	close_list(a, j);
	return true;
}

static bool
embeddings_finish(ApiCall *a, JsonOut *j, Err *e)
{
	(void) e;
	return vectors_finish(a, "embedding", "embedding", j);
}

const ApiEndpoint api_embeddings = {.prefix = "embd-",.make = embeddings_make,.finish = embeddings_finish,
									.drop = drop};

/* ---- pooling ---- */

static bool
pooling_body_make(ApiCall *a, Err *e)
{
	static const char *const refused[] = {"data", NULL};	/* for plug-ins */
	Pool	   *k;
	WireOut		o;
	bool		embeds;

	if (!apibody_refuse(&a->body, refused, e) || !start(a, &k, NULL, e))
		return false;
	embeds = strcmp(k->task, "embed") == 0 || strcmp(k->task, "token_embed") == 0;
	if (!embeds && strcmp(k->task, "classify") != 0 && strcmp(k->task, "token_classify") != 0 &&
		strcmp(k->task, "reward") != 0)
		return api_bad(e, "task", "must be embed, classify, token_embed, token_classify or reward");
	o = chan_out(&k->fields);
	if (a->round == 0 && (!read_encoding(a, k, e) || !put_dimensions(a, &o, e)))
		return false;
	return add_all(a, k, e);
}

static bool
pooling_body_finish(ApiCall *a, JsonOut *j, Err *e)
{
	(void) e;
	return vectors_finish(a, "pooling", "data", j);
}

const ApiEndpoint api_pooling = {.prefix = "pool-",.make = pooling_body_make,.finish = pooling_body_finish,
								 .drop = drop};

/* ---- classify ---- */

static bool
classify_make(ApiCall *a, Err *e)
{
	Pool	   *k;
	WireOut		o;

	if (!start(a, &k, "classify", e))
		return false;
	o = chan_out(&k->fields);
	if (a->round == 0)
		wire_put_int(&o, WTAG_WANT_LABELS, 1);
	return add_all(a, k, e);
}

/* Write the name of column `index`, or its number if the model has no names. */
static void
write_label(const ApiReply *r, size_t index, JsonOut *j)
{
	WireIn		in = {.p = r->fields.s,.end = r->fields.s + r->fields.n};
	WireField	f;
	size_t		i = 0;
	char		number[24];

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_LABEL && i++ == index)
		{
			json_str(j, f.s, f.n);
			return;
		}
	snprintf(number, sizeof(number), "%zu", index);
	json_cstr(j, number);
}

static void
write_classes(const ApiReply *r, JsonOut *j)
{
	size_t		n = r->floats.n;
	float	   *v = mem_alloc((n + 1) * sizeof(float));
	size_t		best = 0;

	if (n > 0)
		wire_floats(&r->floats, v);
	for (size_t i = 1; i < n; i++)
		if (v[i] > v[best])
			best = i;
	json_key(j, "label");
	if (n > 0)
		write_label(r, best, j);
	else
		json_null(j);
	json_key(j, "probs");
	json_open(j, '[');
	for (size_t i = 0; i < n; i++)
		json_float(j, v[i]);
	json_close(j, ']');
	json_key_int(j, "num_classes", (int64_t) n);
	mem_free(v);
}

static bool
classify_finish(ApiCall *a, JsonOut *j, Err *e)
{
	(void) e;
	open_list(a, j);
	for (int i = 0; i < a->n_items; i++)
	{
		ApiReply	r;

		if (a->items[i].role != ROLE_INPUT)
			continue;
		apireply_read(&r, a->items[i].reply.data, a->items[i].reply.len);
		json_open(j, '{');
		json_key_int(j, "index", a->items[i].index);
		write_classes(&r, j);
		json_close(j, '}');
	}
	close_list(a, j);
	return true;
}

const ApiEndpoint api_classify = {.prefix = "classify-",.make = classify_make,.finish = classify_finish,
								  .drop = drop};
