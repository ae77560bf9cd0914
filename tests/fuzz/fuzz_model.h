/*
 * fuzz_model.h
 *	  Shared by the fuzz programs of model files: fixtures that an input edits, and the operations on a
 *	  model before and after it is loaded.
 *
 * An input is a fixture's number (two bytes) and a list of edits of its files, so that it is small, and
 * the result is near to a model that loads:
 *
 *	  OFFSET	SIZE	CONTENTS
 *	  0			1		operation (enum EditKind)
 *	  1			1		part of the model
 *	  2			4		position, modulo the part's length
 *	  6			1		n
 *	  7			n		bytes
 */
#ifndef VLLM_TESTS_FUZZ_MODEL_H
#define VLLM_TESTS_FUZZ_MODEL_H

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "fuzz.h"
#include "template/chat_template.h"
#include "text/unicode.h"

typedef enum EditKind
{
	EDIT_PUT,					/* overwrite */
	EDIT_INSERT,
	EDIT_CUT,					/* remove n bytes */
	EDIT_VALUE,					/* replace the next JSON value */
	EDIT_TRUNCATE,				/* remove everything from here on */
	EDIT_REPEAT,				/* insert these bytes as often as the first of them says */
	EDIT_KINDS
} EditKind;

#define FUZZ_MAX_WEIGHTS (4u << 20) /* for a model that is loaded */
#define FUZZ_MAX_REPEATED (4u << 20)	/* bytes of an edit */

static inline unsigned
fuzz_fixture(const uint8_t *data, size_t size)
{
	return size < 2 ? 0 : (unsigned) data[0] | (unsigned) data[1] << 8;
}

/* Insert s[1 .. n-1] 2^s[0] times, so that a small input can make a large file. */
static inline void
fuzz_repeat(Buf *b, size_t at, const uint8_t *s, size_t n)
{
	Buf			all = {0};

	for (size_t i = 0; n > 1 && i < (size_t) 1 << s[0] % 24 && all.len < FUZZ_MAX_REPEATED; i++)
		buf_add(&all, s + 1, n - 1);
	if (all.len > 0)
		fuzz_replace(b, at, 0, all.data, all.len);
	buf_free(&all);
}

/* Apply the edits of part number `part`, of n_parts. */
static inline void
fuzz_edit(Buf *b, int part, int n_parts, const uint8_t *data, size_t size)
{
	size_t		i = 2;

	while (i + 7 <= size)
	{
		const uint8_t *r = data + i;
		size_t		n = r[6] < size - i - 7 ? r[6] : size - i - 7;
		uint32_t	at;
		size_t		begin;
		size_t		end;

		i += 7 + n;
		if (r[1] % n_parts != part || b->len == 0)
			continue;
		memcpy(&at, r + 2, 4);
		at %= (uint32_t) b->len;
		switch ((EditKind) (r[0] % EDIT_KINDS))
		{
			case EDIT_PUT:
				fuzz_replace(b, at, n, (const char *) r + 7, n);
				break;
			case EDIT_INSERT:
				fuzz_replace(b, at, 0, (const char *) r + 7, n);
				break;
			case EDIT_CUT:
				fuzz_replace(b, at, n, "", 0);
				break;
			case EDIT_VALUE:
				if (fuzz_json_value(b->data, b->len, at, &begin, &end))
					fuzz_replace(b, begin, end - begin, (const char *) r + 7, n);
				break;
			case EDIT_TRUNCATE:
				b->len = at;
				break;
			case EDIT_REPEAT:
				fuzz_repeat(b, at, r + 7, n);
				break;
			case EDIT_KINDS:
				break;
		}
	}
}

/* Add an edit, or change a byte of the existing ones. */
static inline void
fuzz_edit_change(Buf *b, unsigned *seed)
{
	static const char bytes[][4] = {
		"\xff\xff\xff\xff", "\0\0\0\0", "\0\0\x80\x7f", "\0\x7c\0\x7c", "\0\0\0\x80", "\xff\xff\xff\x7f",
		"\x01\0\0\0", "\0\0\xc0\x7f", "\0\0\x01\0"
	};
	static const char *const repeated[] = {"\x15,0", "\x15[", "\x14,\"\":{}", "\x13{\"a\":", "\x10,\"ab\"",
										   "\x16 ", "\x0c[],"};
	char		r[7];
	uint32_t	at = (uint32_t) rand_r(seed);
	const char *s = fuzz_values[fuzz_below(seed, sizeof(fuzz_values) / sizeof(fuzz_values[0]))];
	size_t		n = strlen(s);

	if (b->len > 9 && rand_r(seed) % 2)
	{
		b->data[2 + fuzz_below(seed, b->len - 2)] = (char) rand_r(seed);
		return;
	}
	if (b->len < 2 || b->len > 1000)
		return;
	r[0] = (char) (rand_r(seed) % 3 ? EDIT_VALUE : rand_r(seed) % 16 ? rand_r(seed) % EDIT_TRUNCATE :
				   rand_r(seed) % 2 ? EDIT_TRUNCATE : EDIT_REPEAT);
	r[1] = (char) rand_r(seed);
	if (rand_r(seed) % 2)
		at %= 8192;
	memcpy(r + 2, &at, 4);
	if (r[0] == EDIT_REPEAT)
	{
		s = repeated[fuzz_below(seed, sizeof(repeated) / sizeof(repeated[0]))];
		n = strlen(s);
	}
	else if (r[0] != EDIT_VALUE)
	{
		s = bytes[fuzz_below(seed, sizeof(bytes) / sizeof(bytes[0]))];
		n = 4;
	}
	r[6] = (char) n;
	buf_add(b, r, 7);
	buf_add(b, s, n);
}

/* Make an input of the fixture's number without edits. */
static inline void
fuzz_edit_seed(size_t i, Buf *b)
{
	buf_addc(b, (char) i);
	buf_addc(b, (char) (i >> 8));
}

/* ---- operations on a model ---- */

static inline KPool *
fuzz_pool(void)
{
	static KPool *pool;

	if (pool == NULL)
		pool = kpool_new(1);
	return pool;
}

/* Run the heads after pooling, for two rows. */
static inline void
fuzz_heads(Model *m)
{
	const ModelInfo *mi = model_info(m);

	for (int t = PT_NONE + 1; t < PT_COUNT; t++)
	{
		const PoolPlan *p = &mi->pools[t];
		size_t		in = (size_t) (p->n > 0 ? p->n : 1) * (size_t) mi->hidden_size;
		float	   *x;
		float	   *y;

		if (t == PT_LOGPROBS || !(mi->tasks & 1u << t))
			continue;
		x = calloc(2 * in, sizeof(float));
		y = malloc(2 * (size_t) p->width * sizeof(float));
		if (x != NULL && y != NULL)
			model_pool_head(m, (PoolTask) t, x, 2, y);
		free(x);
		free(y);
	}
}

static inline void
fuzz_forward(Model *m)
{
	const ModelInfo *mi = model_info(m);
	KvView		kv = {.type = KT_F32,.n_layers = mi->n_kv_layers,.n_blocks = 1,.block_size = 16,
		.n_kv_heads = mi->n_kv_heads,.head_dim = mi->head_dim,.v_dim = mi->v_dim};
	size_t		size = mi->n_kv_layers > 0 ? kv_layout(&kv) : 0;
	int			width = mi->vocab_size > mi->hidden_size ? mi->vocab_size : mi->hidden_size;
	float	   *logits = malloc(2 * (size_t) width * sizeof(float));
	int32_t		start[2] = {0, 2};
	int32_t		pos[2] = {0, 1};
	int32_t		tokens[2] = {0, mi->vocab_size - 1};
	int32_t		out[2] = {0, 1};
	int32_t		table[1] = {0};
	int32_t		slot[1] = {0};
	const int32_t *tables[1] = {table};
	Batch		b = {.rows = {.n_rows = 2,.n_seqs = 1,.seq_start = start,.pos = pos,.block_table = tables,
							  .state_slot = slot},.tokens = tokens,.n_out = 2,.out_rows = out,
		.hidden = !mi->generates};

	if ((size > 0 || mi->n_kv_layers == 0) && size < 64u << 20 && mi->state_bytes < 64u << 20 &&
		logits != NULL && mi->max_model_len >= 2)
	{
		kv.base = mem_try_aligned(size + 64);
		b.state = mem_try_aligned(mi->state_bytes + 64);
		model_forward(m, &b, &kv, logits);
		fuzz_heads(m);
		mem_free(kv.base);
		mem_free(b.state);
	}
	free(logits);
}

/* Check the model; if it passes and is small, run two tokens. */
static inline void
fuzz_run(const Conf *conf, const ModelSource *src, const QuantScheme *quant, Err *e)
{
	const Kernels *k = kernels_select("ref", NULL);
	ModelInfo	info;
	ModelOptions opt = {.kernels = k,.pool = fuzz_pool(),.max_rows = 2,.max_out = 2,.quant = quant,
						.huge = HUGE_OFF};
	Model	   *m;

	*e = (Err) {0};
	if (!model_check(conf, src, quant, k, &info, e))
	{
		fuzz_failed(e);
		return;
	}
	if (info.vocab_size < 1 || info.max_model_len < 1 || info.n_layers < 1)
		abort();
	if (info.n_kv_layers > 0 ? info.n_kv_heads < 1 || info.head_dim < 1 : info.state_bytes == 0)
		abort();
	if (info.weight_bytes > FUZZ_MAX_WEIGHTS || info.vocab_size > 1 << 16 || info.n_layers > 64)
		return;
	opt.max_model_len = info.max_model_len < 64 ? 0 : 64;
	if ((m = model_new(conf, src, &opt, e)) == NULL)
		fuzz_failed(e);
	else
		fuzz_forward(m);
	model_free(m);
}

static inline void
fuzz_tok(const Tok *t, const char *text, size_t n)
{
	IntVec		ids = {0};
	Buf			out = {0};
	Err			e = {0};

	for (unsigned flags = 0; flags < 4; flags++)
	{
		intvec_reset(&ids);
		if (!tok_encode(t, text, n, flags, &ids, &e))
		{
			fuzz_failed(&e);
			continue;
		}
		for (size_t i = 0; i < ids.len; i++)
			if (ids.data[i] < 0 || ids.data[i] >= tok_vocab_size(t))
				abort();
		tok_decode(t, ids.data, ids.len, flags & 1, &out);
		if (out.len > 0 && !uni_valid(out.data, out.len))
			abort();
		out.len = 0;
	}
	intvec_free(&ids);
	buf_free(&out);
}

/* Compile the model's chat templates. */
static inline void
fuzz_templates(const FilesTokenizer *ft)
{
	ChatModel  *c = chat_new();
	Err			e = {0};

	for (size_t i = 0; i < ft->n_templates; i++)
		chat_template(c, ft->templates[i].name, ft->templates[i].text, ft->templates[i].len);
	if (!chat_check(c, &e))
		fuzz_failed(&e);
	chat_free(c);
}

/* Use everything that a load would: all of every tensor, the tokenizer, the model. */
static inline void
fuzz_use(Files *f, const Err *open_error, const QuantScheme *quant)
{
	static const char text[] = "Hello wort x 123's\n\n\xE4\xBD\xA0\xFF caf\xC3\xA9";
	Err			e = {0};
	Source		src = {.files = f};
	ModelSource ms = source_of(&src);
	const KTensor *t;
	unsigned	sum = 0;
	FilesTokenizer ft;
	Tok		   *tok;

	if (f == NULL)
	{
		fuzz_failed(open_error);
		return;
	}
	for (size_t i = 0; (t = files_tensor(f, i)) != NULL; i++)
	{
		for (size_t j = 0; j < t->nbytes; j += 1000)
			sum += ((const uint8_t *) t->data)[j];
		if (files_find(f, t->name) != t)
			abort();
	}
	if (sum == 1)				/* keeps the compiler from removing the loop */
		putchar('.');
	if ((tok = source_tok(f, &e)) != NULL)
		fuzz_tok(tok, text, sizeof(text) - 1);
	else
		fuzz_failed(&e);
	tok_free(tok);
	if (files_tokenizer(f, &ft, &e))
		fuzz_templates(&ft);
	fuzz_run(files_conf(f), &ms, quant, &e);
	source_done(&src);
	files_close(f);
}

#endif
