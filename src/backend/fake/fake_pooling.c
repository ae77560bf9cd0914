/*
 * fake_pooling.c
 *	  Vectors, scores and labels of the fake backend: functions of the words of a text.
 *
 *	embed			a sum over words of vectors made of the word's hash, so that texts
 *					with common words are close
 *	score			the cosine of the two embeddings
 *	classify		negative, neutral or positive, by a few words
 *	token_embed, token_classify
 *					a row for each piece of a word, and one for <s> and </s>
 *	reward			kind words minus unkind ones, plus a tenth of all words
 *	logprobs		of each byte; high where the choice's words are in the prompt
 *
 * Tokens are bytes, as everywhere in the fake backend; only the rows of token tasks are for pieces of at
 * most PIECE characters.
 *
 * Any thread: the functions have no state.  Tested by tests/unit/backend/test_fake.c.
 */
#include "backend/fake/fake_pooling.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "text/utf8.h"

#define PIECE	6				/* characters */

static const char *const class_labels[] = {"negative", "neutral", "positive", NULL};
static const char *const token_labels[] = {"O", "B-NAME", "I-NAME", "NUMBER", NULL};

static const char *const kind_words[] = {"good", "great", "love", "happy", "excellent", "yes", NULL};
static const char *const unkind_words[] = {"bad", "awful", "hate", "sad", "broken", "no", NULL};

/* ---- words ---- */

static bool
in_word(char c)
{
	return isalnum((unsigned char) c) || (unsigned char) c >= 0x80;
}

/* Find the next word from *at on; returns false if there is none. */
static bool
next_word(StrView text, size_t *at, StrView *word)
{
	while (*at < text.n && !in_word(text.s[*at]))
		(*at)++;
	word->s = text.s + *at;
	while (*at < text.n && in_word(text.s[*at]))
		(*at)++;
	word->n = (size_t) (text.s + *at - word->s);
	return word->n > 0;
}

static bool
same_word(StrView a, const char *b, size_t n)
{
	if (a.n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (tolower((unsigned char) a.s[i]) != tolower((unsigned char) b[i]))
			return false;
	return true;
}

static uint32_t
word_hash(StrView w)
{
	uint32_t	h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < w.n; i++)
		h = (h ^ (uint32_t) tolower((unsigned char) w.s[i])) * 16777619u;
	return h ^ h >> 15;
}

static bool
is_one_of(StrView w, const char *const *list)
{
	for (; *list != NULL; list++)
		if (same_word(w, *list, strlen(*list)))
			return true;
	return false;
}

static bool
has_word(StrView text, StrView word)
{
	size_t		at = 0;
	StrView		w;

	while (next_word(text, &at, &w))
		if (same_word(w, word.s, word.n))
			return true;
	return false;
}

/* Return a sequence's bytes; the caller owns them. */
static StrView
seq_text(const PoolSeq *s)
{
	char	   *t = mem_alloc(s->ids.len + 1);

	for (size_t i = 0; i < s->ids.len; i++)
		t[i] = (char) s->ids.data[i];
	t[s->ids.len] = '\0';
	return (StrView) {t, s->ids.len};
}

char *
fakepool_text(const PoolSpec *s)
{
	Buf			b = {0};

	buf_addstr(&b, "");
	for (int i = 0; i < s->n_seqs; i++)
	{
		StrView		t = seq_text(&s->seqs[i]);

		if (i > 0)
			buf_addc(&b, '\n');
		buf_add(&b, t.s, t.n);
		mem_free((char *) t.s);
	}
	return b.data;
}

/* ---- pieces of words: the rows of token tasks ---- */

typedef struct FakePoolingPiece
{
	StrView		text;			/* n = 0: a special token */
	int			from,
				to;				/* first character in the text, and the one after the last */
} FakePoolingPiece;

typedef struct Pieces
{
	FakePoolingPiece *p;
	int			n;
} Pieces;

static void
add_piece(Pieces *all, FakePoolingPiece p)
{
	all->p = mem_realloc(all->p, (size_t) (all->n + 1) * sizeof(FakePoolingPiece));
	all->p[all->n++] = p;
}

static int
count_chars(const char *s, const char *end)
{
	int			n = 0;

	for (; s < end; s++)
		n += ((unsigned char) *s & 0xC0) != 0x80;
	return n;
}

static Pieces
pieces_of(StrView text)
{
	Pieces		all = {0};
	size_t		at = 0;
	StrView		w;

	add_piece(&all, (FakePoolingPiece) {0});
	while (next_word(text, &at, &w))
	{
		int			from = count_chars(text.s, w.s);

		while (w.n > 0)
		{
			FakePoolingPiece p = {.text = {w.s, 0},.from = from};

			for (int i = 0; i < PIECE && w.n > 0; i++)
			{
				size_t		len = utf8_len((unsigned char) *w.s);

				if (len > w.n)
					len = w.n;
				w.s += len;
				w.n -= len;
				p.text.n += len;
			}
			p.to = from += count_chars(p.text.s, p.text.s + p.text.n);
			add_piece(&all, p);
		}
	}
	add_piece(&all, (FakePoolingPiece) {0});
	return all;
}

/* ---- requests ---- */

const char *const *
fakepool_labels(PoolTask task)
{
	return task == PT_CLASSIFY ? class_labels : task == PT_TOKEN_CLASSIFY ? token_labels : NULL;
}

static bool
refuse(Err *e, const char *param, const char *what)
{
	err_set(e, ERR_INVALID, "%s", what);
	return err_detail(e, "parameter=%s", param);
}

static bool
check(unsigned tasks, const PoolRequest *pr, Err *e)
{
	if (!(tasks & 1u << pr->task) && !(pr->task == PT_SCORE && tasks & 1u << PT_EMBED))
	{
		err_set(e, ERR_UNSUPPORTED, "the model does not support the task \"%s\"", pool_task_name(pr->task));
		return err_hint(e, "It supports: embed, token_embed.");
	}
	if (pr->task == PT_SCORE && pr->pair.s == NULL)
		return refuse(e, "pair", "a score needs two texts");
	if (pr->dimensions > FAKE_WIDTH)
	{
		err_set(e, ERR_INVALID, "dimensions must be at most %d", FAKE_WIDTH);
		return err_detail(e, "parameter=dimensions, value=%d", pr->dimensions);
	}
	if (pr->prompt_name.n > 0 && !same_word((StrView) {pr->prompt_name.s, pr->prompt_name.n}, "query", 5))
	{
		err_set(e, ERR_INVALID, "the model has no prompt \"%.*s\"", (int) pr->prompt_name.n,
				pr->prompt_name.s);
		err_detail(e, "parameter=prompt_name");
		return err_hint(e, "It has: query.");
	}
	return true;
}

/* Add one text with its prefixes, as one sequence or as chunks. */
static bool
add_text(int max_len, const PoolRequest *pr, StrView text, bool prefixed, PoolSpec *out, Err *e)
{
	Buf			b = {0};
	size_t		most = (size_t) max_len;

	if (prefixed && pr->prompt_name.n > 0)
		buf_addstr(&b, "query: ");
	if (prefixed)
		buf_add(&b, pr->instruction.s, pr->instruction.n);
	buf_add(&b, text.s, text.n);
	if (pr->truncate > 0 && (size_t) pr->truncate < b.len)
		b.len = (size_t) pr->truncate;
	else if ((pr->truncate < 0 || pr->long_input == LONG_TRUNCATE) && b.len > most)
		b.len = most;
	if (b.len == 0)
	{
		buf_free(&b);
		return refuse(e, "input", "input has no tokens");
	}
	if (b.len > most && pr->long_input != LONG_CHUNK)
	{
		err_set(e, ERR_TOO_LONG, "input of %zu tokens does not fit the maximum model length of %d", b.len,
				max_len);
		err_hint(e, "Shorten it, or use long_input \"truncate\" or \"chunk\".");
		buf_free(&b);
		return false;
	}
	for (size_t from = 0; from < b.len; from += most)
	{
		PoolSeq    *s;

		out->seqs = mem_realloc(out->seqs, (size_t) (out->n_seqs + 1) * sizeof(PoolSeq));
		s = &out->seqs[out->n_seqs++];
		*s = (PoolSeq) {.type1_at = INT_MAX};
		for (size_t i = from; i < b.len && i < from + most; i++)
			intvec_push(&s->ids, (unsigned char) b.data[i]);
	}
	buf_free(&b);
	return true;
}

/* Add a sequence for each choice, or one for the prompt alone. */
static bool
add_choices(int max_len, const PoolRequest *pr, PoolSpec *out, Err *e)
{
	if (pr->text.n == 0 || (pr->n_choices == 0 && pr->text.n < 2))
		return refuse(e, "prompt", "prompt is too short");
	out->join = pr->n_choices > 0 ? PJ_CHOICES : PJ_ONE;
	for (int i = 0; i == 0 || i < pr->n_choices; i++)
	{
		Buf			b = {0};
		bool		ok;

		buf_add(&b, pr->text.s, pr->text.n);
		if (pr->n_choices > 0)
			buf_add(&b, pr->choices[i].s, pr->choices[i].n);
		if (pr->n_choices > 0 && pr->choices[i].n == 0)
			ok = refuse(e, "choice", "a choice must not be empty");
		else
			ok = add_text(max_len, pr, (StrView) {b.data, b.len}, false, out, e);
		buf_free(&b);
		if (!ok)
			return false;
		out->seqs[i].scored_at = pr->n_choices > 0 ? (int) pr->text.n : 1;
	}
	return true;
}

static void
put_offsets(const PoolSpec *out, PoolExtra *extra)
{
	for (int i = 0; i < out->n_seqs; i++)
	{
		StrView		t = seq_text(&out->seqs[i]);
		Pieces		all = pieces_of(t);

		for (int k = 0; k < all.n; k++)
		{
			intvec_push(&extra->ids, all.p[k].text.n > 0 ? (int32_t) (word_hash(all.p[k].text) & 0xFFFF) :
						k > 0);
			intvec_push(&extra->offsets, all.p[k].from);
			intvec_push(&extra->offsets, all.p[k].to);
		}
		mem_free(all.p);
		mem_free((char *) t.s);
	}
}

bool
fakepool_make(unsigned tasks, int max_len, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e)
{
	StrView		text = pr->text;
	Buf			ids = {0};
	bool		ok;

	*out = (PoolSpec) {.task = pr->task,.dimensions = pr->dimensions,.activation = pr->activation,
		.step_tag = pr->step_tag};
	for (size_t i = 0; i < pr->columns.len; i++)
		intvec_push(&out->columns, pr->columns.data[i]);
	for (size_t i = 0; i < pr->ids.len; i++)
		buf_addc(&ids, (char) pr->ids.data[i]);
	if (pr->ids.len > 0)
		text = (StrView) {ids.data, ids.len};
	if (pr->task == PT_LOGPROBS)
		ok = add_choices(max_len, pr, out, e);
	else
		ok = check(tasks, pr, e) && add_text(max_len, pr, text, true, out, e);
	if (ok && pr->task == PT_SCORE)
	{
		out->join = PJ_COSINE;
		ok = add_text(max_len, pr, pr->pair, false, out, e);
	}
	else if (ok && out->n_seqs > 1 && pr->task != PT_LOGPROBS)
		out->join = PJ_CHUNKS;
	if (ok && pr->want_offsets)
		put_offsets(out, extra);
	buf_free(&ids);
	return ok;
}

/* ---- results ---- */

static void
add_vector(StrView word, float *v)
{
	uint32_t	h = word_hash(word);

	for (int i = 0; i < FAKE_WIDTH; i++)
		v[i] += h >> i & 1 ? 1.0f : -1.0f;
}

static void
bag(StrView text, float *v)
{
	size_t		at = 0;
	StrView		w;
	bool		any = false;

	while (next_word(text, &at, &w))
	{
		add_vector(w, v);
		any = true;
	}
	if (!any)
		add_vector(text, v);
}

static void
judge(StrView text, int *kind, int *unkind, int *words)
{
	size_t		at = 0;
	StrView		w;

	*kind = *unkind = *words = 0;
	while (next_word(text, &at, &w))
	{
		(*words)++;
		*kind += is_one_of(w, kind_words);
		*unkind += is_one_of(w, unkind_words);
	}
}

/*
 * Label a piece: a capital letter means a name, a digit a number.  The rest of a long word gets
 * "nothing", by a small margin.
 */
static void
label_piece(const Pieces *all, int k, float *v)
{
	const FakePoolingPiece *p = &all->p[k];
	int			at = 0;
	bool		capital;

	v[0] = v[1] = v[2] = v[3] = 0;
	if (p->text.n == 0)
		return;
	capital = isupper((unsigned char) *p->text.s) != 0;
	if (capital)
		at = k > 1 && isupper((unsigned char) *all->p[k - 1].text.s) ? 2 : 1;
	else if (isdigit((unsigned char) *p->text.s))
		at = 3;
	v[at] = at == 0 ? 0.5f : 2 + (float) (word_hash(p->text) % 8) / 8;
}

static void
answer_tokens(const PoolSpec *s, StrView text, FakePooled *out)
{
	Pieces		all = pieces_of(text);
	int			width = s->task == PT_TOKEN_EMBED ? FAKE_WIDTH : 4;
	PoolAct		act = s->activation == 0 ? PA_NONE : s->task == PT_TOKEN_EMBED ? PA_LENGTH1 : PA_SOFTMAX;

	out->values = mem_realloc(out->values, (size_t) (out->n_rows + all.n) * (size_t) width * sizeof(float));
	for (int k = 0; k < all.n; k++)
	{
		/* a copy, since rows are stored closer together if dimensions are left out */
		float		row[FAKE_WIDTH] = {0};

		if (s->task == PT_TOKEN_CLASSIFY)
			label_piece(&all, k, row);
		else if (all.p[k].text.n > 0)
			add_vector(all.p[k].text, row);
		else
			row[0] = 1;
		out->width = pool_finish(act, s->task == PT_TOKEN_EMBED ? s->dimensions : 0, row, width);
		memcpy(out->values + out->n_rows * out->width, row, (size_t) out->width * sizeof(float));
		out->n_rows++;
	}
	mem_free(all.p);
}

/* Add a row for each step_tag byte, of the words before it; without step_tag one row of all words. */
static void
answer_reward(const PoolSpec *s, StrView text, FakePooled *out)
{
	int			kind,
				unkind,
				words;

	out->width = s->columns.len > 0 ? (int) s->columns.len : 1;
	out->values = mem_alloc((text.n + 1) * (size_t) out->width * sizeof(float));
	out->n_rows = 0;
	for (size_t i = 0; i <= text.n; i++)
	{
		if (s->step_tag >= 0 ? i == text.n || (unsigned char) text.s[i] != s->step_tag : i < text.n)
			continue;
		judge((StrView) {text.s, i}, &kind, &unkind, &words);
		for (int j = 0; j < out->width; j++)
			out->values[out->n_rows * out->width + j] = (float) (kind - unkind) + (float) words / 10 +
				(s->columns.len > 0 ? (float) s->columns.data[j] : 0);
		out->n_rows++;
	}
}

static void
answer_choices(const PoolSpec *s, FakePooled *out)
{
	int			n = 0;

	out->n_rows = s->n_seqs;
	out->counts = mem_alloc((size_t) s->n_seqs * sizeof(int32_t));
	out->greedy = mem_alloc((size_t) s->n_seqs * sizeof(int32_t));
	for (int i = 0; i < s->n_seqs; i++)
	{
		const PoolSeq *q = &s->seqs[i];
		StrView		text = seq_text(q);
		size_t		from = (size_t) q->scored_at;
		size_t		at = from;
		StrView		w;
		bool		likely = s->join == PJ_CHOICES;

		while (likely && next_word(text, &at, &w))
			likely = has_word((StrView) {text.s, from}, w);
		out->values = mem_realloc(out->values, ((size_t) n + text.n) * sizeof(float));
		for (size_t k = from; k < text.n; k++)
			out->values[n++] = likely ? -0.125f : -0.25f * (float) (1 + (unsigned char) text.s[k] % 7);
		out->counts[i] = (int32_t) (text.n - from);
		out->greedy[i] = likely;
		mem_free((char *) text.s);
	}
	out->width = 1;
}

/* Add one row for the words of all sequences. */
static void
answer_text(const PoolSpec *s, StrView text, FakePooled *out)
{
	int			kind,
				unkind,
				words;

	out->values = mem_zalloc(FAKE_WIDTH * sizeof(float));
	out->n_rows = 1;
	if (s->task == PT_EMBED)
	{
		bag(text, out->values);
		out->width = pool_finish(s->activation == 0 ? PA_NONE : PA_LENGTH1, s->dimensions, out->values,
								 FAKE_WIDTH);
		return;
	}
	judge(text, &kind, &unkind, &words);
	out->values[0] = (float) unkind;
	out->values[1] = 0.5f;
	out->values[2] = (float) kind;
	out->width = pool_finish(s->activation == 0 ? PA_NONE : PA_SOFTMAX, 0, out->values, 3);
}

static void
answer_score(const PoolSpec *s, FakePooled *out)
{
	float		v[2][FAKE_WIDTH] = {0};
	float		sum = 0;

	ALWAYS(s->n_seqs >= 2);		/* fakepool_make(): the pair's first texts */
	for (int i = 0; i < 2; i++)
	{
		StrView		t = seq_text(&s->seqs[i]);

		bag(t, v[i]);
		(void) pool_finish(PA_LENGTH1, 0, v[i], FAKE_WIDTH);
		mem_free((char *) t.s);
	}
	for (int j = 0; j < FAKE_WIDTH; j++)
		sum += v[0][j] * v[1][j];
	out->values = mem_alloc(sizeof(float));
	out->values[0] = s->activation == 0 ? 4 * sum : sum;
	out->n_rows = out->width = 1;
}

void
fakepool_answer(const PoolSpec *s, FakePooled *out)
{
	StrView		text;

	memset(out, 0, sizeof(*out));
	if (s->task == PT_LOGPROBS)
	{
		answer_choices(s, out);
		return;
	}
	if (s->task == PT_SCORE)
	{
		answer_score(s, out);
		return;
	}
	if (s->task == PT_TOKEN_EMBED || s->task == PT_TOKEN_CLASSIFY)
	{
		for (int i = 0; i < s->n_seqs; i++)
		{
			text = seq_text(&s->seqs[i]);
			answer_tokens(s, text, out);
			mem_free((char *) text.s);
		}
		return;
	}
	text.s = fakepool_text(s);
	text.n = strlen(text.s);
	if (s->task == PT_REWARD)
		answer_reward(s, text, out);
	else
		answer_text(s, text, out);
	mem_free((char *) text.s);
}

void
fakepool_free(FakePooled *p)
{
	mem_free(p->values);
	mem_free(p->counts);
	mem_free(p->greedy);
}

/* ---- digest, rows of the embedding ---- */

#define MOST_READ	65536		/* bytes of a file */

void
fakepool_digest(const char *path, char hex[MODEL_DIGEST])
{
	Buf			b = {0};
	FILE	   *f = fopen(path, "r");

	buf_addstr(&b, path);
	for (int c; f != NULL && b.len < MOST_READ && (c = fgetc(f)) != EOF;)
		buf_addc(&b, (char) c);
	if (f != NULL)
		fclose(f);
	modeldigest_of_text(b.data, b.len, hex);
	buf_free(&b);
}

int
fakepool_embed_width(const BackendModel *in)
{
	(void) in;
	return FAKE_ROW_WIDTH;
}

size_t
fakepool_token_rows(const BackendModel *in, const int32_t *ids, size_t n, float *out)
{
	(void) in;
	memset(out, 0, n * FAKE_ROW_WIDTH * sizeof(float));
	for (size_t i = 0; i < n; i++)
	{
		if (ids[i] < 0 || ids[i] > 255)
			return i;
		out[i * FAKE_ROW_WIDTH] = (float) ids[i];
	}
	return n;
}
