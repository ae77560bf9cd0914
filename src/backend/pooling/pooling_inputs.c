/*
 * pooling_inputs.c
 *	  From a pooled request's texts to the sequences that the core computes.
 *
 *	 instruction + text	-> content: ids without what the post-processor adds
 *						-> cut to what fits, split into chunks, or rejected
 *						-> wrapped: [CLS] ... [SEP], token types of a pair's second text
 *
 * Contents are cut before they are wrapped, so that special tokens are never lost.  Of a pair the longer
 * text is cut first, as transformers does ("longest_first").  A language model that scores pairs gets
 * them through a chat template with the roles "query" and "document".
 *
 * Any thread: a PoolModel is immutable.  Tested by tests/golden/pool_golden.c.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json_writer.h"
#include "backend/pooling/loglikelihood_inputs.h"
#include "backend/pooling/pooling_model.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* State of making the sequences of one request. */
typedef struct PoolingInputsMaking
{
	const PoolModel *m;
	const PoolRequest *pr;
	PoolSpec   *out;
	PoolExtra  *extra;
	Err		   *e;
	int			limit;			/* longest sequence in tokens: the model's limit, or less if requested */
	bool		cut;			/* longer texts are cut, not rejected */
} PoolingInputsMaking;

static bool
has_task(const PoolModel *m, PoolTask t)
{
	return (m->info->tasks & 1u << t) != 0;
}

static bool
no_task(const PoolModel *m, PoolTask t, Err *e)
{
	char		all[200] = "";

	if (t == PT_LOGPROBS)
	{
		err_set(e, ERR_UNSUPPORTED, "the model does not generate text: it can't compute the log-likelihood "
									"of a text");
		return err_hint(e, "It is for functions such as llm_embed, llm_score or llm_classify.");
	}
	for (int i = PT_NONE + 1; i < PT_COUNT; i++)
		if (has_task(m, (PoolTask) i))
		{
			strncat(all, all[0] != '\0' ? ", " : "", sizeof(all) - strlen(all) - 1);
			strncat(all, pool_task_name((PoolTask) i), sizeof(all) - strlen(all) - 1);
		}
	err_set(e, ERR_UNSUPPORTED, "the model does not support the task \"%s\"", pool_task_name(t));
	if (m->info->generates)
		return err_hint(e, "It supports: %s, and it generates text.", all);
	return err_hint(e, "It supports: %s.", all);
}

/*
 * Fail: vectors of a model that was trained to generate are of little use, so such a model is used only
 * if the caller names it, not as a default.
 */
static bool
only_generates(const PoolRequest *pr, Err *e)
{
	bool		relevance = pr->task == PT_SCORE && !pr->alike;

	err_set(e, ERR_UNSUPPORTED, "the default model generates text and was not made to %s",
			relevance ? "score the relevance of a text" : "embed texts");
	return err_hint(e, "Name a model made for that in the setting %s or in the call. A model that is named "
					   "is used, whatever it was made for.",
					relevance ? "vllm.rerank_model" : "vllm.embedding_model");
}

static bool __attribute__((format(printf, 3, 4)))
invalid(Err *e, const char *param, const char *fmt,...)
{
	char		text[300];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(e, ERR_INVALID, "%s", text);
	return err_detail(e, "parameter=%s", param);
}

/* ---- parameters ---- */

static bool
embeds(PoolTask t)
{
	return t == PT_EMBED || t == PT_TOKEN_EMBED;
}

/* Check that embeddings may be cut to this width; a part of other embeddings has no meaning. */
static bool
check_dimensions(const PoolingInputsMaking *k)
{
	const PoolModel *m = k->m;
	int			want = k->pr->dimensions;
	int			width = m->info->pools[k->pr->task].width;
	char		list[200] = "";
	bool		listed = m->n_widths == 0;

	if (want == 0)
		return true;
	if (!embeds(k->pr->task))
		return invalid(k->e, "dimensions", "task \"%s\" does not take \"dimensions\"",
					   pool_task_name(k->pr->task));
	if (!m->matryoshka)
	{
		invalid(k->e, "dimensions", "the model does not support matryoshka representation, changing the "
				"dimensions of its embeddings would lead to poor results");
		return err_hint(k->e, "If it was trained for that, say so in its options: "
						"{\"hf_overrides\": {\"is_matryoshka\": true}}.");
	}
	if (want > width)
		return invalid(k->e, "dimensions", "dimensions must be at most %d, got %d", width, want);
	for (int i = 0; i < m->n_widths; i++)
	{
		size_t		at = strlen(list);

		snprintf(list + at, sizeof(list) - at, "%s%d", i > 0 ? ", " : "", m->widths[i]);
		listed |= m->widths[i] == want;
	}
	return listed || invalid(k->e, "dimensions", "dimensions must be one of %s, got %d", list, want);
}

static bool
check_truncate(const PoolingInputsMaking *k)
{
	if (k->pr->truncate <= k->m->max_len)
		return true;
	return invalid(k->e, "truncate", "truncate %d is larger than the maximum model length of %d",
				   k->pr->truncate, k->m->max_len);
}

static bool
check_params(const PoolingInputsMaking *k)
{
	const PoolRequest *pr = k->pr;
	bool		steps = pr->task == PT_REWARD || pr->task == PT_TOKEN_CLASSIFY;

	if (pr->step_tag >= 0 && steps && k->m->info->pools[pr->task].n > 0)
		return invalid(k->e, "step_tag_id", "the model has one %s for a text, not one for each step",
					   pool_task_name(pr->task));
	if (pr->step_tag >= 0 && !steps)
		return invalid(k->e, "step_tag_id", "task \"%s\" does not take \"step_tag_id\"",
					   pool_task_name(pr->task));
	if (pr->columns.len > 0 && !steps)
		return invalid(k->e, "returned_token_ids", "task \"%s\" does not take \"returned_token_ids\"",
					   pool_task_name(pr->task));
	for (size_t i = 0; i < pr->columns.len; i++)
		if (pr->columns.data[i] < 0 || pr->columns.data[i] >= k->m->info->pools[pr->task].width)
			return invalid(k->e, "returned_token_ids", "column %d is out of range: the model has %d",
						   pr->columns.data[i], k->m->info->pools[pr->task].width);
	if (pr->instruction.s != NULL && pr->prompt_name.s != NULL)
		return invalid(k->e, "prompt_name",
					   "either an instruction or the name of one may be given, not both");
	return check_truncate(k) && check_dimensions(k);
}

/* What precedes a text. */
typedef struct Before
{
	StrView		text;
	int32_t		first;			/* a token that comes first, -1 = none */
	PoolSide	side;			/* the side of a text that follows this */
} Before;

static const Before nothing = {.first = -1};

/* Return the model's prompt of that index; at < 0: an empty one. */
static Before
prompt_at(const PoolingInputsMaking *k, int at)
{
	const PoolPrompt *p = at >= 0 ? &k->m->prompts[at] : NULL;
	size_t		from;

	if (p == NULL)
		return nothing;
	from = p->first >= 0 ? p->len : 0;
	return (Before) {{p->text + from, strlen(p->text + from)}, p->first,
					 late_side(k->m, p->name, strlen(p->name))};
}

/* Return the model's prompt for a query or a document, if it has one. */
static Before
side_prompt(const PoolingInputsMaking *k, PoolSide side)
{
	Before		b = prompt_at(k, poolmodel_side_prompt(k->m, side));

	b.side = k->m->by_token ? side : SIDE_NONE;
	return b;
}

/* Find the prompt with the given name; an empty name means no prompt. */
static bool
named_prompt(const PoolingInputsMaking *k, Before *out)
{
	const PoolModel *m = k->m;
	StrView		name = k->pr->prompt_name;
	int			at = poolmodel_prompt(m, name.s, name.n);
	Buf			names = {0};

	*out = prompt_at(k, at);
	/* the name "query" sets the side even if the model has no such prompt */
	out->side = late_side(m, name.s, name.n);
	if (at >= 0 || name.n == 0 || out->side != SIDE_NONE)
		return true;
	for (int i = 0; i < m->n_prompts; i++)
		buf_printf(&names, "%s%s", i > 0 ? ", " : "", m->prompts[i].name);
	invalid(k->e, "prompt_name", "the model has no prompt \"%.*s\"", (int) (name.n < 60 ? name.n : 60),
			name.s);
	if (m->n_prompts > 0)
		err_hint(k->e, "It has: %.200s.", names.data);
	else
		err_hint(k->e, "Its files name no prompts. Give the instruction itself.");
	buf_free(&names);
	return false;
}

/*
 * Find what precedes a text: the given instruction, or the named prompt, or the model's default.  A text
 * whose token vectors are wanted is a document by default.
 */
static bool
find_before(const PoolingInputsMaking *k, Before *out)
{
	const PoolRequest *pr = k->pr;

	*out = nothing;
	if (pr->instruction.s != NULL)
		out->text = pr->instruction;
	else if (pr->prompt_name.s != NULL)
		return named_prompt(k, out);
	else if (k->m->by_token && poolmodel_side_prompt(k->m, SIDE_DOCUMENT) >= 0)
		*out = side_prompt(k, SIDE_DOCUMENT);
	else
		*out = prompt_at(k, k->m->default_prompt);
	return true;
}

/* ---- sequences ---- */

static PoolSeq *
add_seq(PoolSpec *out)
{
	PoolSeq    *s;

	out->seqs = mem_realloc(out->seqs, (size_t) (out->n_seqs + 1) * sizeof(PoolSeq));
	s = &out->seqs[out->n_seqs++];
	*s = (PoolSeq) {.type1_at = INT_MAX};
	return s;
}

static size_t
count_chars(StrView t)
{
	size_t		n = 0;

	for (size_t i = 0; i < t.n; i++)
		n += ((unsigned char) t.s[i] & 0xC0) != 0x80;
	return n;
}

/* Return true if the reply has the position of each token in the text. */
static bool
wants_offsets(const PoolingInputsMaking *k)
{
	return k->pr->want_offsets && k->m->info->pools[k->pr->task].n == 0;
}

static bool
encode(const PoolingInputsMaking *k, StrView text, IntVec *out, IntVec *offsets)
{
	const char *s = text.n > 0 ? text.s : "";

	if (offsets != NULL)
		return tok_offsets(k->m->tok, s, text.n, out, offsets, k->e);
	return tok_encode(k->m->tok, s, text.n, 0, out, k->e);
}

/*
 * Encode a text with what precedes it, without special tokens around them.  offsets, which may be NULL:
 * positions in the text alone; tokens of what precedes it get 0.
 */
static bool
content(const PoolingInputsMaking *k, Before before, StrView text, IntVec *out, IntVec *offsets)
{
	int32_t		chars = (int32_t) count_chars(before.text);
	Buf			b = {0};
	bool		ok;

	if (before.first >= 0)
	{
		intvec_push(out, before.first);
		for (int i = 0; i < 2 && offsets != NULL; i++)
			intvec_push(offsets, 0);
	}
	if (before.text.n == 0)
		return encode(k, text, out, offsets);
	buf_reserve(&b, before.text.n + text.n + 1);
	buf_add(&b, before.text.s, before.text.n);
	buf_add(&b, text.s, text.n);
	ok = encode(k, (StrView) {b.data, b.len}, out, offsets);
	for (size_t i = before.first >= 0 ? 2 : 0; offsets != NULL && i < offsets->len; i++)
		offsets->data[i] = offsets->data[i] > chars ? offsets->data[i] - chars : 0;
	buf_free(&b);
	return ok;
}

static bool
too_long(const PoolingInputsMaking *k, size_t n, int limit)
{
	bool		chunks = embeds(k->pr->task) && k->pr->pair.s == NULL;

	err_set(k->e, ERR_TOO_LONG, "input of %zu tokens does not fit the maximum %s length of %d", n,
			limit < k->m->max_len ? "query or document" : "model", limit);
	return err_hint(k->e, chunks ? "Shorten it, or use long_input \"truncate\" or \"chunk\"." :
					"Shorten it, or keep what fits with truncate => -1.");
}

/* Add special tokens to the contents; the result is the next sequence. */
static bool
wrap(const PoolingInputsMaking *k, const IntVec *a, const IntVec *b, int limit)
{
	PoolSeq    *s = add_seq(k->out);
	IntVec		types = {0};
	bool		ends = false;

	tok_wrap(k->m->tok, a, b, k->pr->add_special, &s->ids, &types);
	for (size_t i = 0; k->m->typed && i < types.len && s->type1_at == INT_MAX; i++)
		if (types.data[i] != 0)
			s->type1_at = (int) i;
	intvec_free(&types);
	for (size_t i = s->ids.len; i > 0 && !ends && s->ids.data[i - 1] == k->m->reward_token; i--)
		ends = true;
	if (k->pr->task == PT_REWARD && k->m->reward_token >= 0 && !ends)
		intvec_push(&s->ids, k->m->reward_token);
	if (s->ids.len == 0)
	{
		invalid(k->e, "input", "the input is empty, and the model's tokenizer adds nothing to it");
		return err_hint(k->e, "Give a text, or NULL, whose result is NULL.");
	}
	return s->ids.len <= (size_t) limit || too_long(k, s->ids.len, limit);
}

/* Return the token limit of a text of this side, at most `most`. */
static int
side_limit(const PoolingInputsMaking *k, PoolSide side, int most)
{
	int			limit = k->m->late.limit[side];

	return limit > 0 && limit < most ? limit : most;
}

/* Compute how many tokens of contents fit in a sequence. */
static bool
room(const PoolingInputsMaking *k, bool pair, PoolSide side, size_t *out)
{
	int			special = k->pr->add_special ? k->m->special[pair] : 0;
	int			limit = side_limit(k, side, k->limit);

	if (limit <= special)
		return invalid(k->e, "truncate", "%d tokens leave no room for a text: the model adds %d of its own",
					   limit, special);
	*out = (size_t) (limit - special);
	return true;
}

static void
cut_pair(IntVec *a, IntVec *b, size_t room)
{
	IntVec	   *less = a->len <= b->len ? a : b;
	IntVec	   *more = a->len <= b->len ? b : a;

	if (a->len + b->len <= room)
		return;
	if (less->len > room / 2)
	{
		less->len = room / 2;
		more->len = room / 2 + room % 2;
	}
	else
		more->len = room - less->len;
	ASSERT(a->len + b->len == room);
}

/*
 * Count the first tokens of a sequence that come from what precedes the text: its tokens alone,
 * including those that the tokenizer adds before it.
 */
static bool
tokens_before(const PoolingInputsMaking *k, Before before, int *out)
{
	IntVec		ids = {0};
	IntVec		whole = {0};
	IntVec		types = {0};
	bool		ok = content(k, before, (StrView) {0}, &ids, NULL);

	tok_wrap(k->m->tok, &ids, NULL, k->pr->add_special, &whole, &types);
	*out = (int) whole.len;
	/* don't count a token that the tokenizer adds at the end */
	if (whole.len > 0 && tok_is_special(k->m->tok, whole.data[whole.len - 1]))
		--*out;
	intvec_free(&ids);
	intvec_free(&whole);
	intvec_free(&types);
	return ok;
}

/* Count the tokens before the text; a token that spans the boundary belongs to the text. */
static size_t
lead_of(Before before, const IntVec *offsets)
{
	size_t		n = before.first >= 0;

	while (before.text.n > 0 && 2 * n < offsets->len && offsets->data[2 * n + 1] == 0)
		n++;
	return n;
}

/* Limit of pieces of one text: each is a sequence with memory of its own. */
#define MAX_PIECES	16384

/* Split a long text into pieces that fit; each is wrapped with what precedes the text. */
static bool
make_chunks(const PoolingInputsMaking *k, const IntVec *ids, size_t lead, size_t room, int limit)
{
	IntVec		piece = {0};
	bool		ok = true;

	ALWAYS(ids->len > room);	/* the text does not fit, so it is longer than `lead` is allowed to be */
	if (lead >= room)
		return invalid(k->e, "long_input",
					   "%zu tokens of an instruction leave no room for a text in pieces of %zu", lead, room);
	if ((ids->len - lead - 1) / (room - lead) >= MAX_PIECES)
	{
		err_set(k->e, ERR_TOO_LONG, "input of %zu tokens has more than %d pieces of %zu", ids->len,
				MAX_PIECES, room);
		return err_hint(k->e, "Split it with llm_chunk_text().");
	}
	for (size_t at = lead; ok && at < ids->len; at += room - lead)
	{
		intvec_reset(&piece);
		intvec_add(&piece, ids->data, lead);
		intvec_add(&piece, ids->data + at, ids->len - at < room - lead ? ids->len - at : room - lead);
		ok = wrap(k, &piece, NULL, limit);
	}
	intvec_free(&piece);
	k->out->join = PJ_CHUNKS;
	return ok;
}

/*
 * Append tokens and positions of all rows of a sequence; tokens added around the text get none.  offsets:
 * positions of the contents; *at: the next of them.  From the second piece on, a sequence begins with
 * `lead` repeated tokens.
 */
static void
put_offsets(const PoolingInputsMaking *k, const PoolSeq *s, int filled, size_t lead, const IntVec *offsets,
			size_t *at)
{
	int			front = k->pr->add_special ? tok_lead(k->m->tok, false) : 0;
	int			back = (k->pr->add_special ? k->m->special[0] - front : 0) + filled;
	size_t		dropped = 0;
	bool		again = *at > 0;

	for (int j = 0; j < (int) s->ids.len; j++)
	{
		bool		inside = j >= front && j < (int) s->ids.len - back;
		bool		repeated = inside && again && (size_t) (j - front) < lead;
		const int32_t *span = inside && !repeated && 2 * *at + 1 < offsets->len ? offsets->data + 2 * *at :
			NULL;

		*at += span != NULL;
		if (dropped < s->dropped.len && s->dropped.data[dropped] == j)
		{
			dropped++;
			continue;
		}
		if (k->pr->step_tag >= 0 && s->ids.data[j] != k->pr->step_tag)
			continue;
		intvec_push(&k->extra->ids, s->ids.data[j]);
		intvec_push(&k->extra->offsets, span != NULL ? span[0] : 0);
		intvec_push(&k->extra->offsets, span != NULL ? span[1] : 0);
	}
}

/* Set the fields of a text's sequences other than their tokens. */
static bool
finish_seqs(const PoolingInputsMaking *k, Before before, int first, size_t lead, const IntVec *offsets)
{
	int			skip = 0;
	size_t		at = 0;

	if (before.text.n > 0 && !k->m->include_prompt && k->pr->task == PT_EMBED &&
		!tokens_before(k, before, &skip))
		return false;
	for (int i = first; i < k->out->n_seqs; i++)
	{
		PoolSeq    *s = &k->out->seqs[i];
		int			filled = 0;

		/* if the sequence has no other tokens, pool all: a vector needs at least one */
		s->skip = skip < (int) s->ids.len ? skip : 0;
		if (k->m->by_token)
			late_finish(&k->m->late, before.side, s, &filled);
		if (wants_offsets(k))
			put_offsets(k, s, filled, lead, offsets, &at);
	}
	return true;
}

/* Make the sequences of one text. */
static bool
make_text(const PoolingInputsMaking *k, Before before, StrView text)
{
	IntVec		ids = {0};
	IntVec		offsets = {0};
	size_t		most = 0;
	size_t		lead = 0;
	int			first = k->out->n_seqs;
	int			limit = side_limit(k, before.side, k->m->max_len);
	bool		splits = k->pr->long_input == LONG_CHUNK;
	bool		ok = content(k, before, text, &ids, wants_offsets(k) || splits ? &offsets : NULL) &&
		room(k, false, before.side, &most);

	if (ok && splits && ids.len > most)
	{
		lead = lead_of(before, &offsets);
		ok = make_chunks(k, &ids, lead, most, limit);
	}
	else if (ok)
	{
		if (k->cut && ids.len > most)
			ids.len = most;
		ok = wrap(k, &ids, NULL, limit);
	}
	ok = ok && finish_seqs(k, before, first, lead, &offsets);
	intvec_free(&ids);
	intvec_free(&offsets);
	return ok;
}

/* Make one sequence of two texts. */
static bool
make_pair(const PoolingInputsMaking *k)
{
	IntVec		a = {0};
	IntVec		b = {0};
	size_t		most = 0;
	bool		ok = content(k, nothing, k->pr->text, &a, NULL) &&
		content(k, nothing, k->pr->pair, &b, NULL) && room(k, true, SIDE_NONE, &most);

	if (ok && k->cut)
		cut_pair(&a, &b, most);
	ok = ok && wrap(k, &a, &b, k->m->max_len);
	intvec_free(&a);
	intvec_free(&b);
	return ok;
}

/* Make one sequence of given token ids. */
static bool
make_ids(const PoolingInputsMaking *k)
{
	PoolSeq    *s = add_seq(k->out);
	size_t		n = k->pr->ids.len;

	for (size_t i = 0; i < n; i++)
		if (k->pr->ids.data[i] < 0 || k->pr->ids.data[i] >= k->m->info->vocab_size)
			return invalid(k->e, "prompt_token_ids", "token id %d is not in the vocabulary of %d tokens",
						   k->pr->ids.data[i], k->m->info->vocab_size);
	if (n > (size_t) k->limit && k->cut)
		n = (size_t) k->limit;
	intvec_add(&s->ids, k->pr->ids.data, n);
	if (n == 0)
		return invalid(k->e, "prompt_token_ids", "there are no tokens");
	return n <= (size_t) k->m->max_len || too_long(k, n, k->m->max_len);
}

/* ---- pairs through a template ---- */

static void
add_message(JsonOut *j, const char *role, StrView text)
{
	json_open(j, '{');
	json_key_cstr(j, "role", role);
	json_key(j, "content");
	json_str(j, text.s, text.n);
	json_close(j, '}');
}

/* Return the template for pairs: from the catalog entry, from the files, or one known for the model. */
static const ChatModel *
pair_template(const PoolingInputsMaking *k)
{
	if (k->pr->own_chat != NULL && chat_takes_pairs(k->pr->own_chat))
		return k->pr->own_chat;
	if (k->m->chat != NULL && chat_takes_pairs(k->m->chat))
		return k->m->chat;
	return k->m->reranker;
}

/* Render a pair with the template, and encode the result. */
static bool
render(const PoolingInputsMaking *k, const ChatModel *template, StrView instruction, StrView document,
	   IntVec *out)
{
	Buf			messages = {0};
	Buf			vars = {0};
	JsonOut		list = {.b = &messages};
	JsonOut		kwargs = {.b = &vars};
	Buf			text = {0};
	Buf			marks = {0};
	bool		ok;

	json_open(&kwargs, '{');
	json_open(&list, '[');
	if (instruction.n > 0)
	{
		add_message(&list, "system", instruction);
		json_key(&kwargs, "instruction");
		json_str(&kwargs, instruction.s, instruction.n);
	}
	add_message(&list, "query", k->pr->text);
	add_message(&list, "document", document);
	json_close(&list, ']');
	json_close(&kwargs, '}');
	ok = chat_render(template, k->m->chat, &(ChatRequest) {
		.messages = {messages.data, messages.len},.kwargs = {vars.data, vars.len},
		.add_generation_prompt = true
	}, &text, &marks, k->e);
	intvec_reset(out);
	ok = ok && tok_encode_marked(k->m->tok, text.len > 0 ? text.data : "", (const uint8_t *) marks.data,
								 text.len, out, k->e);
	buf_free(&messages);
	buf_free(&vars);
	buf_free(&text);
	buf_free(&marks);
	return ok;
}

/* Cut the document to its first `most` tokens. */
static bool
cut_text(const PoolingInputsMaking *k, StrView *text, size_t most)
{
	IntVec		ids = {0};
	IntVec		offsets = {0};
	bool		ok = tok_offsets(k->m->tok, text->s, text->n, &ids, &offsets, k->e);
	int32_t		chars = ok && most < ids.len ? offsets.data[2 * most] : INT_MAX;
	size_t		at = 0;

	for (; at < text->n && chars > 0; chars--)
		at += utf8_len((unsigned char) text->s[at]);
	text->n = at < text->n ? at : text->n;
	intvec_free(&ids);
	intvec_free(&offsets);
	return ok;
}

/* Make the sequence of a pair by the template; if it is too long, only the document is cut. */
static bool
make_by_template(const PoolingInputsMaking *k, const ChatModel *template, StrView instruction)
{
	PoolSeq    *s = add_seq(k->out);
	StrView		document = k->pr->pair;
	bool		ok = render(k, template, instruction, document, &s->ids);

	/* the remaining text may have other token boundaries, so this may take several rounds */
	for (int i = 0; ok && i < 4 && k->cut && s->ids.len > (size_t) k->limit && document.n > 0; i++)
	{
		IntVec		ids = {0};
		size_t		excess = s->ids.len - (size_t) k->limit;

		ok = tok_encode(k->m->tok, document.s, document.n, 0, &ids, k->e) &&
			cut_text(k, &document, ids.len > excess ? ids.len - excess : 0) &&
			render(k, template, instruction, document, &s->ids);
		intvec_free(&ids);
	}
	if (ok && s->ids.len > (size_t) k->limit && k->cut)
		return invalid(k->e, "query", "input of %zu tokens, its document left out, does not fit %d tokens",
					   s->ids.len, k->limit);
	if (ok && s->ids.len > (size_t) k->m->max_len)
		ok = too_long(k, s->ids.len, k->m->max_len);
	return ok;
}

/* ---- similarity ---- */

/*
 * Prompts for a score by vectors: a query gets its prompt or the given one, a document its own.  Two
 * alike texts both get the default prompt, so that a text has the highest score with itself.
 */
static bool
find_both(const PoolingInputsMaking *k, Before *query, Before *document)
{
	const PoolRequest *pr = k->pr;

	*query = *document = prompt_at(k, k->m->default_prompt);
	if (pr->alike && pr->instruction.s == NULL && pr->prompt_name.s == NULL)
		return true;
	*query = side_prompt(k, SIDE_QUERY);
	*document = side_prompt(k, SIDE_DOCUMENT);
	if (pr->instruction.s != NULL)
	{
		query->text = pr->instruction;
		query->first = -1;
	}
	if (pr->prompt_name.s == NULL)
		return true;
	if (!named_prompt(k, query))
		return false;
	query->side = k->m->by_token ? SIDE_QUERY : SIDE_NONE;
	if (pr->prompt_name.n == 0)
		document->text = nothing.text;
	if (pr->prompt_name.n == 0)
		document->first = -1;
	return true;
}

/*
 * Check the cost of MaxSim: it compares all tokens of both texts on the step thread, during which no
 * output is sent.  So a request that would take seconds is rejected.
 */
#define MAXSIM_MOST ((int64_t) 1 << 33)	/* products: about two texts of 8,192 tokens with vectors of 128 */

static bool
maxsim_ok(const PoolingInputsMaking *k)
{
	int64_t		a = (int64_t) k->out->seqs[0].ids.len,
				b = (int64_t) k->out->seqs[1].ids.len;

	if (a * b <= MAXSIM_MOST / k->m->info->pools[PT_TOKEN_EMBED].width)
		return true;
	err_set(k->e, ERR_TOO_LONG, "texts of %lld and %lld tokens are too long to compare each token with each",
			(long long) a, (long long) b);
	return err_hint(k->e, "Shorten them, or keep what fits with truncate.");
}

static bool
make_similarity(PoolingInputsMaking *k, PoolTask task)
{
	PoolRequest vectors = *k->pr;
	Before		query;
	Before		document;

	if (k->pr->pair.s == NULL)
		return invalid(k->e, "document", "a score needs a pair of texts");
	if (!check_truncate(k) || !find_both(k, &query, &document))
		return false;
	if (k->pr->long_input == LONG_CHUNK)
		return invalid(k->e, "long_input", "long_input \"chunk\" is supported only for the embedding of one "
										   "text");
	vectors.task = k->out->task = task;
	k->pr = &vectors;
	k->out->join = task == PT_EMBED ? PJ_COSINE : PJ_MAXSIM;
	k->out->mean = k->m->late.mean;
	k->out->cut = task == PT_EMBED ? k->m->cut : 0;
	return make_text(k, query, vectors.text) && make_text(k, document, vectors.pair) &&
		(task == PT_EMBED || maxsim_ok(k));
}

/* ---- whole requests ---- */

static bool
make_seqs(PoolingInputsMaking *k)
{
	const PoolRequest *pr = k->pr;
	const ChatModel *template = pr->pair.s != NULL && pr->task != PT_TOKEN_CLASSIFY ? pair_template(k) : NULL;
	Before		before;

	if (pr->long_input == LONG_CHUNK &&
		(pr->pair.s != NULL || !(embeds(pr->task) || pr->task == PT_TOKEN_CLASSIFY)))
		return invalid(k->e, "long_input",
					   "long_input \"chunk\" is supported only for embeddings and token labels of one text");
	if (pr->text.s == NULL)
		return make_ids(k);
	if (pr->pair.s == NULL && pr->task == PT_SCORE)
		return invalid(k->e, "document", "a score needs a pair of texts");
	if (!find_before(k, &before))
		return false;
	if (template != NULL)
		return make_by_template(k, template, before.text);
	if (pr->pair.s != NULL)
		return make_pair(k);
	/* the default cut comes after the activation, but before it if the request asks for activation */
	if (pr->task == PT_EMBED && pr->dimensions == 0)
		*(pr->activation == 1 ? &k->out->dimensions : &k->out->cut) = k->m->cut;
	return make_text(k, before, pr->text);
}

bool
pooling_make(const PoolModel *m, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	PoolingInputsMaking k = {.m = m,.pr = pr,.out = out,.extra = extra,.e = e};

	*out = (PoolSpec) {.task = pr->task, .dimensions = pr->dimensions, .activation = pr->activation,
					   .step_tag = pr->step_tag};
	k.cut = pr->truncate != 0 || pr->long_input == LONG_TRUNCATE;
	k.limit = pr->truncate > 0 && pr->truncate < m->max_len ? pr->truncate : m->max_len;
	if (pr->default_model && m->info->generates && !m->info->made_to_embed && has_task(m, PT_EMBED) &&
		(embeds(pr->task) || pr->task == PT_SCORE))
		return only_generates(pr, e);
	if (pr->task == PT_SCORE && !has_task(m, PT_SCORE) &&
		(has_task(m, PT_EMBED) || has_task(m, PT_TOKEN_EMBED)))
		return make_similarity(&k, has_task(m, PT_EMBED) ? PT_EMBED : PT_TOKEN_EMBED);
	if (!has_task(m, pr->task))
		return no_task(m, pr->task, e);
	if (pr->task == PT_LOGPROBS)
		return choices_make(m->tok, m->info->vocab_size, m->max_len, pr, out, e);
	intvec_add(&out->columns, pr->columns.data, pr->columns.len);
	return check_params(&k) && make_seqs(&k);
}
