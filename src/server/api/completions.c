/*
 * completions.c
 *	  /v1/completions.
 *
 * A prompt is a text or token ids, and there may be several; or it is embeddings, in base64 of a tensor
 * that torch.save() has written.  The choices of embeddings come first.  With echo the output begins
 * with the prompt.  For a prompt of token ids its text is requested first (round 0), and so are the
 * token ids of a text if the response must have them.  The response shows the prompt as the model has
 * seen it: a prompt to be truncated is tokenized first, its ids are cut, and the rest is given to the
 * model and used for the text of an echo.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/api/vector_encoding.h"
#include "server/api/api_internal.h"
#include "server/request/request.h"
#include "loader/torch_pickle.h"

/* Purposes of items: choices of a prompt, its text, its ids, the text of its first token. */
enum
{
	ROLE_ANSWER, ROLE_TEXT, ROLE_IDS, ROLE_FIRST
};

typedef struct Completions
{
	ApiGen		g;
	const Json **prompts;		/* owned; strings, or arrays of ids; NULL: embeddings, which come first */
	const Json **embeds;		/* owned; [n_embeds] strings */
	int			n_prompts;
	int			n_embeds;		/* number of prompts that are embeddings */
	bool		echo;
	bool		echo_only;		/* max_tokens = 0 */
	bool		special;		/* add_special_tokens */
	bool		cut;			/* prompts may be truncated, and the response shows something of them */
	/* streaming, by choice */
	bool	   *echoed;			/* owned; has its prompt been sent? */
	int64_t    *offsets;		/* owned; characters so far, for text_offset */
} Completions;

static void
drop(ApiCall *a)
{
	Completions *k = a->own;

	if (k == NULL)
		return;
	apigen_free(&k->g);
	mem_free(k->prompts);
	mem_free(k->embeds);
	mem_free(k->echoed);
	mem_free(k->offsets);
	mem_free(k);
}

static bool
bad_prompt(Err *e)
{
	return api_bad(e, "prompt", "must be a string, an array of strings, an array of token ids, or an array "
								"of such arrays");
}

/* Read tensors in base64: one, or several. */
static bool
take_embeds(ApiCall *a, Completions *k, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "prompt_embeds");
	const Json *v = m != NULL ? m->v : NULL;
	bool		many = json_is_array(v);
	int			n = many ? json_count(v) : v != NULL;

	if (n == 0)
		return true;
	if (!a->req->prompt_embeds)
	{
		err_set(e, ERR_UNSUPPORTED, "prompts of embeddings are not enabled");
		err_detail(e, "parameter=prompt_embeds");
		return err_hint(e, "Set vllm.enable_prompt_embeds to on.");
	}
	if (n > API_MAX_ITEMS)
		return api_bad(e, "prompt_embeds", "has more than 4096 elements");
	k->embeds = mem_zalloc((size_t) n * sizeof(Json *));
	for (const Json *x = many ? v->child : v; x != NULL; x = many ? x->next : NULL)
	{
		if (!json_is_string(x))
			return api_bad(e, "prompt_embeds", "must be a string, or an array of strings: tensors in base64");
		k->embeds[k->n_embeds++] = x;
	}
	return true;
}

static bool
take_prompts(ApiCall *a, Completions *k, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "prompt");
	const Json *v = m != NULL ? m->v : NULL;
	bool		many = json_is_array(v) && !api_is_ids(v);
	int			n = many ? json_count(v) : v != NULL;

	if (!take_embeds(a, k, e))
		return false;
	/* next to embeddings an empty prompt counts as none */
	if (k->n_embeds > 0 && json_is_string(v) && v->s[0] == '\0')
		n = 0;
	if (n + k->n_embeds == 0)
		return api_bad(e, "prompt", "must be given, and not be empty");
	if (n + k->n_embeds > API_MAX_ITEMS)
		return api_bad(e, "prompt", "has more than 4096 elements");
	k->prompts = mem_zalloc((size_t) (n + k->n_embeds) * sizeof(Json *));
	k->n_prompts = k->n_embeds;
	for (const Json *x = many ? v->child : v; n > 0 && x != NULL; x = many ? x->next : NULL)
	{
		if (!json_is_string(x) && !api_is_ids(x))
			return bad_prompt(e);
		k->prompts[k->n_prompts++] = x;
	}
	return true;
}

/* Write the tensor of a prompt of embeddings as fields. */
static bool
put_embeds(const Json *v, WireOut *o, Err *e)
{
	Buf			bytes = {0};
	TorchTensor t = {0};
	bool		ok = base64_read(&bytes, v->s, strlen(v->s)) ||
		api_bad(e, "prompt_embeds", "must be base64");

	ok = ok && torch_tensor_read(bytes.data != NULL ? bytes.data : "", bytes.len, &t, e);
	buf_free(&bytes);
	/* a batch of one prompt */
	while (ok && t.n_dims > 2 && t.dim[0] == 1)
		memmove(t.dim, t.dim + 1, (size_t) --t.n_dims * sizeof(t.dim[0]));
	if (ok && t.n_dims != 2)
		ok = err_set(e, ERR_INVALID, "prompt_embeds must be a tensor of two dimensions, a row a token");
	if (ok && t.n == 0)
		ok = err_set(e, ERR_INVALID, "prompt_embeds must not be empty");
	if (ok)
	{
		wire_put_int(o, WTAG_EMBEDS_WIDTH, t.dim[1] < INT_MAX ? (int64_t) t.dim[1] : INT_MAX);
		wire_put_floats(o, WTAG_PROMPT_EMBEDS, t.data, t.n);
	}
	else if (e->cls == ERR_BAD_FILE)
		e->cls = ERR_INVALID;
	mem_free(t.data);
	return ok || err_detail(e, "parameter=prompt_embeds");
}

/*
 * Read max_tokens.  The default is 16, or the role's limit.  0 with echo: only the prompt, for which the
 * engine generates one token all the same.
 */
static bool
put_max_tokens(ApiCall *a, Completions *k, Err *e)
{
	int			most = a->c->req->spec.by.max_tokens;
	int64_t		max = most > 0 && most < 16 ? most : 16;
	WireOut		o = chan_out(&k->g.params);

	if (!apibody_int(&a->body, "max_tokens", k->echo ? 0 : 1, INT_MAX, &max, e))
		return false;
	k->echo_only = max == 0;
	wire_put_int(&o, WTAG_MAX_TOKENS, max == 0 ? 1 : max);
	return true;
}

/* Read logprobs: the number of top tokens; with echo also for the prompt's tokens. */
static bool
read_logprobs(ApiCall *a, Completions *k, Err *e)
{
	if (!apibody_int(&a->body, "logprobs", -1, INT_MAX, &k->g.logprobs, e))
		return false;
	if (k->echo && k->g.logprobs != API_NO_LOGPROBS && k->g.prompt_logprobs == API_NO_LOGPROBS)
	{
		if (a->stream)
			return api_bad(e, "logprobs", "with echo are not available when the answer is streamed");
		k->g.prompt_logprobs = k->g.logprobs;
	}
	apigen_put_logprobs(&k->g);
	return true;
}

static bool
no_echo(Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "prompt_embeds have no text, and so no echo");
	return err_detail(e, "parameter=echo");
}

static bool
read_completions(ApiCall *a, Completions *k, Err *e)
{
	static const char *const refused[] = {"suffix", NULL};
	WireOut		o = chan_out(&k->g.params);

	k->special = true;
	/* the parsers know the tags around reasoning */
	if (apibody_get(&a->body, "thinking_token_budget") != NULL)
		api_put_parsers(a, &o);
	return take_prompts(a, k, e) && apibody_bool(&a->body, "echo", &k->echo, e) &&
		apibody_bool(&a->body, "add_special_tokens", &k->special, e) &&
		apibody_refuse(&a->body, refused, e) && (!k->echo || k->n_embeds == 0 || no_echo(e)) &&
		apigen_read(a, &k->g, e) && put_max_tokens(a, k, e) && read_logprobs(a, k, e);
}

/* Does the response list the prompt's tokens, of which the first has no log-probability? */
static bool
names_prompt(const Completions *k)
{
	return k->echo && k->g.logprobs != API_NO_LOGPROBS;
}

/* Write a prompt's text or ids as fields. */
static bool
put_prompt(const Completions *k, const Json *v, WireOut *o, Err *e)
{
	if (!json_is_string(v))
		return api_put_ids(o, WTAG_PROMPT_IDS, v, "prompt", e);
	wire_put_str(o, WTAG_PROMPT, v->s, strlen(v->s));
	wire_put_int(o, WTAG_ADD_SPECIAL, k->special);
	return true;
}

/*
 * Request the texts of prompts that are ids, and the ids of prompts that are texts or may be truncated,
 * if they are needed.
 */
static bool
request_prompts(ApiCall *a, const Completions *k, Err *e)
{
	for (int p = 0; p < k->n_prompts; p++)
	{
		const Json *v = k->prompts[p];

		if (v == NULL)
			continue;
		if (k->echo && !k->cut && !json_is_string(v))
		{
			WireOut		o = api_out(api_item(a, WK_DETOKENIZE, ROLE_TEXT, p));

			wire_put_int(&o, WTAG_SKIP_SPECIAL, 0);
			if (!put_prompt(k, v, &o, e))
				return false;
		}
		if (k->cut || ((k->g.want_ids || names_prompt(k)) && json_is_string(v)))
		{
			WireOut		o = api_out(api_item(a, WK_TOKENIZE, ROLE_IDS, p));

			apigen_put_truncation(&k->g, &o);
			if (!put_prompt(k, v, &o, e))
				return false;
		}
	}
	return true;
}

static const ApiItem *
item_of(const ApiCall *a, int role, int index)
{
	for (int i = 0; i < a->n_items; i++)
		if (a->items[i].role == role && a->items[i].index == index)
			return &a->items[i];
	return NULL;
}

/* Read the reply of a round-0 item of a prompt. */
static bool
reply_of(const ApiCall *a, int role, int p, ApiReply *r)
{
	const ApiItem *it = item_of(a, role, p);

	if (it != NULL)
		apireply_read(r, it->reply.data, it->reply.len);
	return it != NULL;
}

/* Write a reply's ids as a prompt. */
static void
put_reply_ids(WireOut *o, const WireField *f)
{
	int32_t    *ids = mem_alloc((f->n + 1) * sizeof(int32_t));

	for (size_t i = 0; i < f->n; i++)
		ids[i] = wire_int_at(f, i);
	wire_put_ints(o, WTAG_PROMPT_IDS, ids, f->n);
	mem_free(ids);
}

/* For an echo, request the texts of prompts that have been truncated, and of those that were ids. */
static void
request_cut_texts(ApiCall *a, const Completions *k)
{
	for (int p = 0; p < k->n_prompts; p++)
	{
		ApiReply	r;
		WireOut		o;

		if (!reply_of(a, ROLE_IDS, p, &r) || (json_is_string(k->prompts[p]) &&
											  r.prompt_tokens == (int64_t) r.ids.n))
			continue;
		o = api_out(api_item(a, WK_DETOKENIZE, ROLE_TEXT, p));
		put_reply_ids(&o, &r.ids);
		wire_put_int(&o, WTAG_SKIP_SPECIAL, 0);
	}
}

/* Return the first token of a prompt that the model has seen. */
static int32_t
first_id(const ApiCall *a, const Completions *k, int p)
{
	ApiReply	r;

	/* a prompt of embeddings has no tokens, and so no echo that begins with one */
	ASSERT(k->prompts[p] != NULL);
	if (reply_of(a, ROLE_IDS, p, &r) && r.ids.n > 0)
		return wire_int_at(&r.ids, 0);
	return json_is_string(k->prompts[p]) ? 0 : (int32_t) k->prompts[p]->child->num;
}

static void
request_first(ApiCall *a, const Completions *k, int p)
{
	int32_t		id = first_id(a, k, p);
	WireOut		o;

	o = api_out(api_item(a, WK_DETOKENIZE, ROLE_FIRST, p));
	wire_put_ints(&o, WTAG_PROMPT_IDS, &id, 1);
	wire_put_int(&o, WTAG_SKIP_SPECIAL, 0);
}

static bool
add_requests(ApiCall *a, Completions *k, Err *e)
{
	if (!api_room(a, (size_t) k->n_prompts, k->g.params.len, e))
		return false;
	for (int p = 0; p < k->n_prompts; p++)
	{
		const Json *v = k->prompts[p];
		Buf			fields = {0};
		WireOut		o = chan_out(&fields);
		ApiReply	r;
		bool		ok = true;

		if (v == NULL)
			ok = put_embeds(k->embeds[p], &o, e);
		else if (k->cut && reply_of(a, ROLE_IDS, p, &r))
			put_reply_ids(&o, &r.ids);
		else
			ok = put_prompt(k, v, &o, e);
		if (ok)
			apigen_item(a, &k->g, p, &fields, ROLE_ANSWER);
		buf_free(&fields);
		if (!ok)
			return false;
		if (names_prompt(k))
			request_first(a, k, p);
	}
	return true;
}

static bool
make(ApiCall *a, Err *e)
{
	Completions *k = a->own;
	size_t		n;

	if (a->round == 1 && k->cut && k->echo)
		request_cut_texts(a, k);
	a->more = a->n_fresh > 0;
	if (a->round > 0)
		return a->more || add_requests(a, k, e);
	k = a->own = mem_zalloc(sizeof(Completions));
	if (!read_completions(a, k, e))
		return false;
	k->cut = apibody_get(&a->body, "truncate_prompt_tokens") != NULL && (k->echo || k->g.want_ids);
	if (!request_prompts(a, k, e))
		return false;
	n = (size_t) k->n_prompts * (size_t) k->g.n;
	if (n > API_MAX_CHOICES)
		return api_bad(e, "n", "times the number of prompts is more than 65536");
	k->echoed = mem_zalloc(n * sizeof(bool));
	k->offsets = mem_zalloc(n * sizeof(int64_t));
	k->g.sent = mem_zalloc(n * sizeof(int64_t));
	a->more = a->n_fresh > 0;
	return a->more || add_requests(a, k, e);
}

static void
add_prompt(const ApiCall *a, const Completions *k, int p, Buf *text)
{
	ApiReply	r;

	if (reply_of(a, ROLE_TEXT, p, &r))
		buf_add(text, r.text.s, r.text.n);
	else if (json_is_string(k->prompts[p]))
		buf_addstr(text, k->prompts[p]->s);
}

static void
write_prompt_ids(const ApiCall *a, const Completions *k, int p, JsonOut *j)
{
	ApiReply	r;

	json_key(j, "prompt_token_ids");
	if (k->prompts[p] == NULL)
	{
		json_null(j);
		return;
	}
	if (reply_of(a, ROLE_IDS, p, &r))
	{
		api_write_ids(j, &r.ids);
		return;
	}
	json_open(j, '[');
	for (const Json *v = k->prompts[p]->child; v != NULL; v = v->next)
		json_int(j, (int64_t) v->num);
	json_close(j, ']');
}

/* all: the prompt's log-probabilities; NULL in a stream */
static void
write_logprobs(const ApiCall *a, Completions *k, int p, int choice, const ApiAnswer *r, const ApiEntries *all,
			   JsonOut *j)
{
	static const ApiEntries none = {0};
	ApiReply	first = {0};
	Buf			echo = {0};

	json_key(j, "logprobs");
	if (k->g.logprobs == API_NO_LOGPROBS)
	{
		json_null(j);
		return;
	}
	(void) reply_of(a, ROLE_FIRST, p, &first);
	if (k->echo && all != NULL)
		add_prompt(a, k, p, &echo);
	api_write_completion_logprobs(j, k->echo ? all : NULL, (StrView) {echo.data, echo.len}, first.text,
								  k->echo ? first_id(a, k, p) : 0, k->echo_only ? &none : &r->entries,
								  k->g.as_ids, &k->offsets[choice]);
	buf_free(&echo);
}

/* Return the number of an answer's choice among those of all prompts: the index in echoed, offsets, sent. */
static int
choice_of(const Completions *k, int p, const ApiAnswer *r)
{
	ALWAYS(p >= 0 && p < k->n_prompts && r->index >= 0 && r->index < k->g.n);
	return p * (int) k->g.n + r->index;
}

/* text: of the choice, or of its part; all: as in write_logprobs() */
static void
write_choice(const ApiCall *a, Completions *k, int p, const ApiAnswer *r, const Buf *text,
			 const ApiEntries *all, JsonOut *j)
{
	int			choice = choice_of(k, p, r);
	static const WireField none = {0};

	json_open(j, '{');
	json_key_int(j, "index", choice);
	json_key(j, "text");
	json_str(j, text->data != NULL ? text->data : "", text->len);
	write_logprobs(a, k, p, choice, r, all, j);
	apigen_write_finish(j, &k->g, r);
	if (k->g.prompt_logprobs != API_NO_LOGPROBS && all != NULL)
	{
		json_key(j, "prompt_logprobs");
		api_write_prompt_logprobs(j, all);
	}
	if (k->g.want_ids)
	{
		json_key(j, "token_ids");
		api_write_ids(j, k->echo_only ? &none : &r->ids);
		if (!a->stream || !k->echoed[choice])
			write_prompt_ids(a, k, p, j);
	}
	json_close(j, '}');
}

static ApiUsage
usage_of(const ApiCall *a, const Completions *k)
{
	ApiUsage	u = api_usage(a, ROLE_ANSWER);

	if (k->echo_only)
		u.completion = 0;
	return u;
}

static void
write_choices(const ApiCall *a, Completions *k, const ApiItem *it, JsonOut *j)
{
	ApiAnswers	r;

	apianswers_read(&r, it->reply.data, it->reply.len);
	for (int i = 0; i < r.n; i++)
	{
		Buf			text = {0};

		if (k->echo)
			add_prompt(a, k, it->index, &text);
		if (!k->echo_only)
			buf_add(&text, r.a[i].text.s, r.a[i].text.n);
		write_choice(a, k, it->index, &r.a[i], &text, &r.prompt, j);
		buf_free(&text);
	}
	apianswers_free(&r);
}

static bool
finish(ApiCall *a, JsonOut *j, Err *e)
{
	Completions *k = a->own;
	ApiUsage	u = usage_of(a, k);

	(void) e;
	json_open(j, '{');
	api_write_head(a, j, "text_completion");
	json_key(j, "choices");
	json_open(j, '[');
	for (int i = 0; i < a->n_items; i++)
		if (a->items[i].role == ROLE_ANSWER)
			write_choices(a, k, &a->items[i], j);
	json_close(j, ']');
	json_key_null(j, "service_tier");
	json_key_null(j, "system_fingerprint");
	json_key(j, "usage");
	api_write_usage(j, &u);
	json_close(j, '}');
	return true;
}

static void
delta(ApiCall *a, ApiItem *it, const ApiAnswer *r)
{
	Completions *k = a->own;
	int			choice = choice_of(k, it->index, r);
	Buf			out = {0};
	Buf			text = {0};
	JsonOut		j = {.b = &out};

	if (k->echo_only && r->finish_reason.s == NULL)
		return;					/* send one chunk, when the generated token has come */
	if (k->echo && !k->echoed[choice])
		add_prompt(a, k, it->index, &text);
	if (!k->echo_only)
		buf_add(&text, r->text.s, r->text.n);
	json_open(&j, '{');
	api_write_head(a, &j, "text_completion");
	json_key(&j, "choices");
	json_open(&j, '[');
	write_choice(a, k, it->index, r, &text, NULL, &j);
	json_close(&j, ']');
	k->g.sent[choice] += k->echo_only ? 0 : (int64_t) r->ids.n;
	apigen_chunk_usage(&j, &k->g, it, k->g.sent[choice]);
	json_close(&j, '}');
	k->echoed[choice] = true;
	api_chunk(a, &out);
	buf_free(&text);
	buf_free(&out);
}

static void
end(ApiCall *a)
{
	const Completions *k = a->own;
	ApiUsage	u = usage_of(a, k);

	if (k->g.usage)
		apigen_usage_chunk(a, "text_completion", &u);
}

const ApiEndpoint api_completions = {
	.prefix = "cmpl-",.make = make,.finish = finish,.delta = delta,.end = end,.drop = drop
};
