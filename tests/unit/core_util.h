/*
 * core_util.h
 *	  Helpers for tests of the core: a small tokenizer and recorded requests.
 *
 * The tokenizer is a SentencePiece-like vocabulary: 0 <unk>, 1 <s>, 2 </s>, 3..258 the bytes, 259.. a
 * few words; 300 ids, the last ones unused words.
 */
#ifndef VLLM_TESTS_CORE_UTIL_H
#define VLLM_TESTS_CORE_UTIL_H

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/core.h"

#define TINY_VOCAB	300
#define TINY_EOS	2
#define TINY_BYTE(c) (3 + (unsigned char) (c))
#define TINY_WORD	259			/* " hello", " world", "stop", "ping", " end" */

/*
 * A vocabulary of TINY_VOCAB: specials, bytes, the words, of which the first n_special are special
 * tokens, and unused words: "w" or `others` followed by a number.
 */
static inline Tok *
tok_of_words(const char *const *words, int n, int n_special, const char *others, bool space_prefix)
{
	static char spelling[TINY_VOCAB][16];
	static const char *tokens[TINY_VOCAB];
	static size_t lens[TINY_VOCAB];
	static float scores[TINY_VOCAB];
	static int32_t types[TINY_VOCAB];
	TokGguf		g = {
		.model = "llama", .n = TINY_VOCAB, .tokens = tokens, .token_len = lens, .scores = scores,
		.types = types, .bos = 1, .eos = TINY_EOS, .unk = 0, .add_bos = 1, .add_eos = 0,
		.add_space_prefix = space_prefix
	};
	Err			e = {0};
	Tok		   *t;

	for (int i = 0; i < TINY_VOCAB; i++)
	{
		if (i < 3)
			snprintf(spelling[i], 16, "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
		else if (i < TINY_WORD)
			snprintf(spelling[i], 16, "<0x%02X>", i - 3);
		else if (i < TINY_WORD + n)
			snprintf(spelling[i], 16, "%s", words[i - TINY_WORD]);
		else
			snprintf(spelling[i], 16, "%s%d", others, i);
		tokens[i] = spelling[i];
		lens[i] = strlen(spelling[i]);
		scores[i] = -(float) i;
		types[i] = i == 0 ? 2 : i < 3 ? 3 : i < TINY_WORD ? 6 : i < TINY_WORD + n_special ? 3 : 1;
	}
	t = tok_from_gguf(&g, &e);
	if (t == NULL)
	{
		fprintf(stderr, "tok_from_gguf: %s\n", e.msg);
		exit(2);
	}
	return t;
}

static inline Tok *
tiny_tok(void)
{
	static const char *const words[] = {"\342\226\201hello", "\342\226\201world", "stop", "ping",
										"\342\226\201end"};

	return tok_of_words(words, 5, 0, "w", true);
}

static inline CoreOptions
options(int seqs, int rows, int blocks)
{
	return (CoreOptions) {
		.max_num_seqs = seqs, .max_num_batched_tokens = rows, .block_size = 16,
		.kv_blocks = blocks, .kv_type = KT_F32
	};
}

/* Make a core for requests with a grammar.  Takes ownership of both. */
static inline Core *
core_for_grammars(Model *model, Tok *tok, CoreOptions opt)
{
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c = core_new(model, tok, conf, &opt, &e);

	conf_free(conf);
	if (c == NULL || !core_prepare_grammar(c, &e))
	{
		fprintf(stderr, "core_new: %s\n", e.msg);
		exit(2);
	}
	return c;
}

/* A request as its owner saw it. */
typedef struct Rec
{
	IntVec		ids;
	Buf			text;
	ReqFinish	finish;
	char		reason[64];		/* "" and has_reason false: NULL */
	bool		has_reason;
	Err			err;
	int			events;
	int			late_events;	/* after the finish: must stay 0 */
	int			preemptions;
	int			cached;
	int			prompt_lps;		/* positions of the prompt with log-probabilities */
	int			output_tokens;
	int64_t		arrival_us;
	int64_t		scheduled_us;
	int64_t		first_token_us;
} Rec;

static inline void
rec_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Rec		   *rec = ctx;

	(void) r;
	rec->late_events += rec->finish != FIN_NONE;
	rec->events++;
	intvec_add(&rec->ids, ev->ids, (size_t) ev->n_ids);
	buf_add(&rec->text, ev->text, ev->text_len);
	rec->finish = ev->finish;
	rec->preemptions = ev->preemptions;
	rec->cached = ev->cached_tokens;
	if (ev->prompt_logprobs != NULL)
		rec->prompt_lps += (int) ev->prompt_logprobs->counts.len;
	rec->output_tokens = ev->output_tokens;
	rec->arrival_us = ev->arrival_us;
	rec->scheduled_us = ev->scheduled_us;
	rec->first_token_us = ev->first_token_us;
	if (ev->stop_reason != NULL)
	{
		rec->has_reason = true;
		snprintf(rec->reason, sizeof(rec->reason), "%s", ev->stop_reason);
	}
	if (ev->err != NULL)
		rec->err = *ev->err;
}

static inline void
rec_free(Rec *rec)
{
	intvec_free(&rec->ids);
	buf_free(&rec->text);
	memset(rec, 0, sizeof(*rec));
}

/* Return n pseudo-random prompt ids (bytes only: never EOS or FAKE_NAN). */
static inline IntVec
random_prompt(uint32_t seed, int n)
{
	IntVec		v = {0};

	for (int i = 0; i < n; i++)
	{
		seed = seed * 1664525u + 1013904223u;
		intvec_push(&v, 35 + (int32_t) ((seed >> 8) % 90));
	}
	return v;
}

/* Return the embedding rows of a prompt's tokens; the ids are replaced. */
static inline float *
rows_of(const Core *c, IntVec *prompt)
{
	size_t		width = (size_t) core_info(c)->embed_width;
	float	   *rows = mem_alloc(prompt->len * width * sizeof(float));

	for (size_t i = 0; i < prompt->len; i++)
	{
		if (core_token_rows(c, &prompt->data[i], 1, rows + i * width) != 1)
			exit(2);
		prompt->data[i] = 0;
	}
	return rows;
}

static bool submit_rows;		/* prompts are given as the embedding rows of their tokens */
static const LoraAdapter *submit_lora;	/* with this adapter; NULL = none */

/* Submit a request; the params are normalised first, as the server does. */
static inline Req *
submit(Core *c, uint64_t id, uint64_t session, IntVec prompt, GenParams p, uint64_t given, Rec *rec)
{
	ReqSpec		spec = {.id = id, .session = session, .prompt = prompt, .sink = rec_sink, .sink_ctx = rec,
		.lora = submit_lora};
	Err			e;

	if (!core_normalize(c, &p, given, &prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	if (submit_rows)
		spec.embeds = rows_of(c, &spec.prompt);
	return core_submit(c, &spec);
}

static inline GenParams
greedy_params(int max_tokens)
{
	GenParams	p;

	genparams_init(&p);
	p.temperature = 0;
	p.max_tokens = max_tokens;
	p.ignore_eos = true;
	return p;
}

#endif
