/*
 * pooling.c
 *	  From a pooled request's texts to the sequences that the core computes.
 *
 *	 instruction + text	-> content: ids without what the post-processor adds
 *						-> cut to what fits, split into chunks, or refused
 *						-> wrapped: [CLS] ... [SEP], token types of a pair's second text
 *
 * Contents are cut before they are wrapped, so that special tokens are never lost; of a pair the
 * longer text is cut first, as transformers does ("longest_first").  A language model that scores
 * gets a pair through a chat template with the roles "query" and "document".
 *
 * Any thread: a PoolModel is immutable.  Tested by tests/golden/pool_golden.c.
 */
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choices.h"
#include "engine/poolmodel.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* One request on its way. */
typedef struct Making
{
	const PoolModel *m;
	const PoolRequest *pr;
	PoolSpec   *out;
	PoolExtra  *extra;
	Err		   *e;
	int			limit;			/* tokens of a sequence: what the model takes, or less if it was asked for */
	bool		cut;			/* longer ones are cut, not refused */
} Making;

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
		err_set(e, ERR_UNSUPPORTED, "the model does not generate text: it can't say how likely one is");
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

/* May embeddings be cut to this width?  What is left of others means nothing. */
static bool
check_dimensions(const Making *k)
{
	const PoolModel *m = k->m;
	int			want = k->pr->dimensions;
	int			width = m->info->pools[k->pr->task].width;
	char		list[200] = "";
	bool		listed = m->n_widths == 0;

	if (want == 0)
		return true;
	if (!embeds(k->pr->task))
		return invalid(k->e, "dimensions", "task \"%s\" does not take \"dimensions\"", pool_task_name(k->pr->task));
	if (!m->matryoshka)
	{
		invalid(k->e, "dimensions", "the model does not support matryoshka representation, changing the dimensions of its "
				"embeddings would lead to poor results");
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
check_params(const Making *k)
{
	const PoolRequest *pr = k->pr;
	bool		steps = pr->task == PT_REWARD || pr->task == PT_TOKEN_CLASSIFY;

	if (pr->step_tag >= 0 && steps && k->m->info->pools[pr->task].n > 0)
		return invalid(k->e, "step_tag_id", "the model has one %s for a text, not one for each step", pool_task_name(pr->task));
	if (pr->step_tag >= 0 && !steps)
		return invalid(k->e, "step_tag_id", "task \"%s\" does not take \"step_tag_id\"", pool_task_name(pr->task));
	if (pr->columns.len > 0 && !steps)
		return invalid(k->e, "returned_token_ids", "task \"%s\" does not take \"returned_token_ids\"", pool_task_name(pr->task));
	for (size_t i = 0; i < pr->columns.len; i++)
		if (pr->columns.data[i] < 0 || pr->columns.data[i] >= k->m->info->pools[pr->task].width)
			return invalid(k->e, "returned_token_ids", "column %d is out of range: the model has %d", pr->columns.data[i],
						   k->m->info->pools[pr->task].width);
	if (pr->instruction.s != NULL && pr->prompt_name.s != NULL)
		return invalid(k->e, "prompt_name", "either an instruction or the name of one may be given, not both");
	if (pr->truncate > k->m->max_len)
		return invalid(k->e, "truncate", "truncate %d is larger than the maximum model length of %d", pr->truncate,
					   k->m->max_len);
	return check_dimensions(k);
}

/* The instruction before a text: what is given, or what its name stands for, or the model's default. */
static bool
find_instruction(const Making *k, PoolText *out)
{
	const PoolModel *m = k->m;
	const PoolRequest *pr = k->pr;
	int			at = m->default_prompt;
	Buf			names = {0};

	*out = pr->instruction;
	if (pr->instruction.s != NULL)
		return true;
	if (pr->prompt_name.s != NULL && (at = poolmodel_prompt(m, pr->prompt_name.s, pr->prompt_name.n)) < 0)
	{
		for (int i = 0; i < m->n_prompts; i++)
			buf_printf(&names, "%s%s", i > 0 ? ", " : "", m->prompts[i].name);
		invalid(k->e, "prompt_name", "the model has no prompt \"%.*s\"", (int) (pr->prompt_name.n < 60 ? pr->prompt_name.n : 60),
				pr->prompt_name.s);
		if (m->n_prompts > 0)
			err_hint(k->e, "It has: %.200s.", names.data);
		else
			err_hint(k->e, "Its files name no prompts. Give the instruction itself.");
		buf_free(&names);
		return false;
	}
	if (at >= 0)
		*out = (PoolText) {m->prompts[at].text, strlen(m->prompts[at].text)};
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

static void
lower_case(const char *s, size_t n, Buf *out)
{
	const char *end = s + n;

	while (s < end)
	{
		size_t		len;
		uint32_t	cp = utf8_next(s, &len);
		char		c[4];

		if (cp == 0x130)
			buf_add(out, "i\xcc\x87", 3);	/* its lower case is two characters */
		else
			buf_add(out, c, utf8_put(c, uni_lower(cp)));
		s += len;
	}
}

static size_t
count_chars(PoolText t)
{
	size_t		n = 0;

	for (size_t i = 0; i < t.n; i++)
		n += ((unsigned char) t.s[i] & 0xC0) != 0x80;
	return n;
}

/* Does the answer say where each of a text's tokens stands? */
static bool
wants_offsets(const Making *k)
{
	return k->pr->want_offsets && k->m->info->pools[k->pr->task].n == 0;
}

static bool
encode(const Making *k, PoolText text, IntVec *out, IntVec *offsets)
{
	const char *s = text.n > 0 ? text.s : "";

	if (offsets != NULL)
		return tok_offsets(k->m->tok, s, text.n, out, offsets, k->e);
	return tok_encode(k->m->tok, s, text.n, 0, out, k->e);
}

/* Ids of a text, an instruction before it, without what stands around.  offsets: where they stand in the
 * text alone; may be NULL. */
static bool
content(const Making *k, PoolText instruction, PoolText text, IntVec *out, IntVec *offsets)
{
	const PoolModel *m = k->m;
	int32_t		before = (int32_t) count_chars(instruction);
	Buf			b = {0};
	Buf			lower = {0};
	bool		ok;

	if (instruction.n == 0 && !m->lower)
		return encode(k, text, out, offsets);
	buf_reserve(&b, instruction.n + text.n + 1);
	buf_add(&b, instruction.s != NULL ? instruction.s : "", instruction.n);
	buf_add(&b, text.s, text.n);
	if (m->lower && uni_valid(b.data, b.len))
	{
		lower_case(b.data, b.len, &lower);
		ok = encode(k, (PoolText) {lower.data, lower.len}, out, offsets);
	}
	else
		ok = encode(k, (PoolText) {b.data, b.len}, out, offsets);
	for (size_t i = 0; offsets != NULL && i < offsets->len; i++)
		offsets->data[i] = offsets->data[i] > before ? offsets->data[i] - before : 0;
	buf_free(&b);
	buf_free(&lower);
	return ok;
}

static bool
too_long(const Making *k, size_t n)
{
	bool		chunks = embeds(k->pr->task) && k->pr->pair.s == NULL;

	err_set(k->e, ERR_TOO_LONG, "input of %zu tokens does not fit the maximum model length of %d", n, k->m->max_len);
	return err_hint(k->e, chunks ? "Shorten it, or ask for long_input \"truncate\" or \"chunk\"." :
					"Shorten it, or keep what fits with truncate => -1.");
}

/* The contents, wrapped, become the next sequence. */
static bool
wrap(const Making *k, const IntVec *a, const IntVec *b)
{
	PoolSeq    *s = add_seq(k->out);
	IntVec		types = {0};
	bool		ends = false;

	tok_wrap(k->m->tok, a, b, k->pr->add_special, &s->ids, &types);
	for (size_t i = 0; i < types.len && s->type1_at == INT_MAX; i++)
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
	return s->ids.len <= (size_t) k->m->max_len || too_long(k, s->ids.len);
}

/* Room for contents in a sequence. */
static bool
room(const Making *k, bool pair, size_t *out)
{
	int			special = k->pr->add_special ? k->m->special[pair] : 0;

	if (k->limit <= special)
		return invalid(k->e, "truncate", "%d tokens leave no room for a text: the model adds %d of its own", k->limit, special);
	*out = (size_t) (k->limit - special);
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
}

/* How many of a text's first tokens are the instruction's: those that it has alone, with what
 * stands before it. */
static bool
instruction_tokens(const Making *k, PoolText instruction, int *out)
{
	IntVec		ids = {0};
	IntVec		whole = {0};
	IntVec		types = {0};
	bool		ok = content(k, (PoolText) {0}, instruction, &ids, NULL);

	tok_wrap(k->m->tok, &ids, NULL, k->pr->add_special, &whole, &types);
	*out = (int) whole.len;
	/* a token that ends every text isn't one of the instruction */
	if (whole.len > 0 && tok_is_special(k->m->tok, whole.data[whole.len - 1]))
		--*out;
	intvec_free(&ids);
	intvec_free(&whole);
	intvec_free(&types);
	return ok;
}

/* A long text's contents in pieces that fit, each wrapped. */
static bool
make_chunks(const Making *k, const IntVec *ids, size_t room)
{
	for (size_t at = 0; at < ids->len; at += room)
	{
		IntVec		piece = {.data = ids->data + at,.len = ids->len - at < room ? ids->len - at : room};

		if (!wrap(k, &piece, NULL))
			return false;
	}
	k->out->join = PJ_CHUNKS;
	return true;
}

/* Tokens and places of all rows, from sequence `first` on; what stands around a text has none. */
static void
put_offsets(const Making *k, int first, const IntVec *offsets)
{
	int			lead = k->pr->add_special ? tok_lead(k->m->tok, false) : 0;
	int			special = k->pr->add_special ? k->m->special[0] : 0;
	size_t		at = 0;

	for (int i = first; i < k->out->n_seqs; i++)
	{
		const IntVec *ids = &k->out->seqs[i].ids;

		for (int j = 0; j < (int) ids->len; j++)
		{
			bool		inside = j >= lead && j < (int) ids->len - (special - lead) && at + 1 < offsets->len;

			if (k->pr->step_tag < 0 || ids->data[j] == k->pr->step_tag)
			{
				intvec_push(&k->extra->ids, ids->data[j]);
				intvec_push(&k->extra->offsets, inside ? offsets->data[at] : 0);
				intvec_push(&k->extra->offsets, inside ? offsets->data[at + 1] : 0);
			}
			at += inside ? 2 : 0;
		}
	}
}

/* One text. */
static bool
make_text(const Making *k, PoolText instruction, PoolText text)
{
	IntVec		ids = {0};
	size_t		most = 0;
	int			first = k->out->n_seqs;
	int			skip = 0;
	IntVec		offsets = {0};
	bool		ok = content(k, instruction, text, &ids, wants_offsets(k) ? &offsets : NULL) && room(k, false, &most);

	if (ok && k->pr->long_input == LONG_CHUNK && ids.len > most)
		ok = make_chunks(k, &ids, most);
	else if (ok)
	{
		if (k->cut && ids.len > most)
			ids.len = most;
		ok = wrap(k, &ids, NULL);
	}
	if (ok && wants_offsets(k))
		put_offsets(k, first, &offsets);
	intvec_free(&ids);
	intvec_free(&offsets);
	if (ok && instruction.n > 0 && !k->m->include_prompt && k->pr->task == PT_EMBED)
		ok = instruction_tokens(k, instruction, &skip);
	for (int i = first; ok && i < k->out->n_seqs && skip > 0; i++)
	{
		PoolSeq    *s = &k->out->seqs[i];

		/* a sequence of nothing else is pooled whole: there is no vector of no tokens */
		s->skip = skip < (int) s->ids.len ? skip : 0;
		skip = skip > (int) s->ids.len ? skip - (int) s->ids.len : 0;
	}
	return ok;
}

/* Two texts in one sequence. */
static bool
make_pair(const Making *k)
{
	IntVec		a = {0};
	IntVec		b = {0};
	size_t		most = 0;
	bool		ok = content(k, (PoolText) {0}, k->pr->text, &a, NULL) && content(k, (PoolText) {0}, k->pr->pair, &b, NULL) &&
		room(k, true, &most);

	if (ok && k->cut)
		cut_pair(&a, &b, most);
	ok = ok && wrap(k, &a, &b);
	intvec_free(&a);
	intvec_free(&b);
	return ok;
}

/* Tokens that are given as such. */
static bool
make_ids(const Making *k)
{
	PoolSeq    *s = add_seq(k->out);
	size_t		n = k->pr->ids.len;

	for (size_t i = 0; i < n; i++)
		if (k->pr->ids.data[i] < 0 || k->pr->ids.data[i] >= k->m->info->vocab_size)
			return invalid(k->e, "prompt_token_ids", "token id %d is not in the vocabulary of %d tokens", k->pr->ids.data[i],
						   k->m->info->vocab_size);
	if (n > (size_t) k->limit && k->cut)
		n = (size_t) k->limit;
	intvec_add(&s->ids, k->pr->ids.data, n);
	if (n == 0)
		return invalid(k->e, "prompt_token_ids", "there are no tokens");
	return n <= (size_t) k->m->max_len || too_long(k, n);
}

/* ---- pairs through a template ---- */

static void
add_message(cJSON *list, const char *role, PoolText text)
{
	cJSON	   *m = cJSON_CreateObject();
	char	   *copy = mem_strndup(text.s, text.n);

	cJSON_AddStringToObject(m, "role", role);
	cJSON_AddStringToObject(m, "content", copy);
	cJSON_AddItemToArray(list, m);
	mem_free(copy);
}

/* The template for pairs: the entry's option, the files', or what the model is known for. */
static const ChatModel *
pair_template(const Making *k)
{
	if (k->pr->own_chat != NULL && chat_takes_pairs(k->pr->own_chat))
		return k->pr->own_chat;
	if (k->m->chat != NULL && chat_takes_pairs(k->m->chat))
		return k->m->chat;
	return k->m->reranker;
}

/* The template's text of a pair, as tokens. */
static bool
render(const Making *k, const ChatModel *template, PoolText instruction, PoolText document, IntVec *out)
{
	cJSON	   *list = cJSON_CreateArray();
	cJSON	   *kwargs = cJSON_CreateObject();
	char	   *messages;
	char	   *vars;
	Buf			text = {0};
	Buf			marks = {0};
	bool		ok;

	if (instruction.n > 0)
	{
		char	   *copy = mem_strndup(instruction.s, instruction.n);

		add_message(list, "system", instruction);
		cJSON_AddStringToObject(kwargs, "instruction", copy);
		mem_free(copy);
	}
	add_message(list, "query", k->pr->text);
	add_message(list, "document", document);
	messages = cJSON_PrintUnformatted(list);
	vars = cJSON_PrintUnformatted(kwargs);
	ok = chat_render(template, k->m->chat, &(ChatRequest) {
		.messages = {messages, strlen(messages)},.kwargs = {vars, strlen(vars)},.add_generation_prompt = true
	}, &text, &marks, k->e);
	intvec_reset(out);
	ok = ok && tok_encode_marked(k->m->tok, text.len > 0 ? text.data : "", (const uint8_t *) marks.data, text.len, out, k->e);
	cJSON_free(messages);
	cJSON_free(vars);
	cJSON_Delete(list);
	cJSON_Delete(kwargs);
	buf_free(&text);
	buf_free(&marks);
	return ok;
}

/* The document without its last tokens, `most` of them left. */
static bool
cut_text(const Making *k, PoolText *text, size_t most)
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

/* If it is to be cut, the document is: all else is the template's. */
static bool
make_by_template(const Making *k, const ChatModel *template, PoolText instruction)
{
	PoolSeq    *s = add_seq(k->out);
	PoolText	document = k->pr->pair;
	bool		ok = render(k, template, instruction, document, &s->ids);

	/* what is left may be cut into tokens otherwise: a second time, or a third */
	for (int i = 0; ok && i < 4 && k->cut && s->ids.len > (size_t) k->limit && document.n > 0; i++)
	{
		IntVec		ids = {0};
		size_t		excess = s->ids.len - (size_t) k->limit;

		ok = tok_encode(k->m->tok, document.s, document.n, 0, &ids, k->e) &&
			cut_text(k, &document, ids.len > excess ? ids.len - excess : 0) &&
			render(k, template, instruction, document, &s->ids);
		intvec_free(&ids);
	}
	if (ok && s->ids.len > (size_t) (k->cut ? k->limit : k->m->max_len))
		ok = too_long(k, s->ids.len);
	return ok;
}

/* ---- similarity ---- */

/*
 * A score by vectors.  An instruction is the first text's; without one both are treated alike, so that
 * a text and itself are the closest.
 */
static bool
make_similarity(Making *k, PoolTask task)
{
	PoolRequest vectors = *k->pr;
	PoolText	instruction;
	PoolText	usual = {0};

	if (k->m->default_prompt >= 0)
		usual.s = k->m->prompts[k->m->default_prompt].text;
	usual.n = usual.s != NULL ? strlen(usual.s) : 0;
	if (k->pr->pair.s == NULL)
		return invalid(k->e, "document", "a score is of a pair of texts");
	if (!find_instruction(k, &instruction))
		return false;
	if (k->pr->long_input == LONG_CHUNK)
		return invalid(k->e, "long_input", "long_input \"chunk\" is for the embedding of one text");
	vectors.task = k->out->task = task;
	k->pr = &vectors;
	k->out->join = task == PT_EMBED ? PJ_COSINE : PJ_MAXSIM;
	return make_text(k, instruction, vectors.text) &&
		make_text(k, usual, vectors.pair);
}

/* ---- the whole ---- */

static bool
make_seqs(Making *k)
{
	const PoolRequest *pr = k->pr;
	const ChatModel *template = pr->pair.s != NULL && pr->task != PT_TOKEN_CLASSIFY ? pair_template(k) : NULL;
	PoolText	instruction = {0};

	if (pr->long_input == LONG_CHUNK && (pr->pair.s != NULL || !(embeds(pr->task) || pr->task == PT_TOKEN_CLASSIFY)))
		return invalid(k->e, "long_input", "long_input \"chunk\" is for embeddings and labels of tokens, of one text");
	if (pr->text.s == NULL)
		return make_ids(k);
	if (pr->pair.s == NULL && pr->task == PT_SCORE)
		return invalid(k->e, "document", "a score is of a pair of texts");
	if (!find_instruction(k, &instruction))
		return false;
	if (template != NULL)
		return make_by_template(k, template, instruction);
	if (pr->pair.s != NULL)
		return make_pair(k);
	return make_text(k, instruction, pr->text);
}

bool
pooling_make(const PoolModel *m, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	Making		k = {.m = m,.pr = pr,.out = out,.extra = extra,.e = e};

	*out = (PoolSpec) {.task = pr->task, .dimensions = pr->dimensions, .activation = pr->activation, .step_tag = pr->step_tag};
	k.cut = pr->truncate != 0 || pr->long_input == LONG_TRUNCATE;
	k.limit = pr->truncate > 0 && pr->truncate < m->max_len ? pr->truncate : m->max_len;
	if (pr->task == PT_SCORE && !has_task(m, PT_SCORE) && (has_task(m, PT_EMBED) || has_task(m, PT_TOKEN_EMBED)))
		return make_similarity(&k, has_task(m, PT_EMBED) ? PT_EMBED : PT_TOKEN_EMBED);
	if (!has_task(m, pr->task))
		return no_task(m, pr->task, e);
	if (pr->task == PT_LOGPROBS)
		return choices_make(m->tok, m->info->vocab_size, m->max_len, pr, out, e);
	intvec_add(&out->columns, pr->columns.data, pr->columns.len);
	return check_params(&k) && make_seqs(&k);
}
