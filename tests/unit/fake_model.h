/*
 * fake_model.h
 *	  A model for tests of the core: logits are a hash of the token history, and the history is read back
 *	  through the block table.
 *
 * Defines model_forward() and its like, so that a test that includes it doesn't link src/model/model.c.
 * A hidden row is the row of logits, and heads change nothing.  Each row writes (position, token) into
 * the slot of its position; a wanted row then folds the slots of positions 0..pos.  A wrong block table,
 * a stale block or a skipped row changes the logits or is counted in fake.bad_slots.
 *
 * The recurrent state must have seen all positions before, in order.  With fake.no_kv there is nothing
 * else, and the logits are a hash of it.
 *
 * With fake.window there are layers that attend to the last positions only, in pages of their own
 * (core/kv/layer_groups.h).  A row reads all positions that it attends to in each layer; the logits are
 * made from a layer that attends to everything, or else from the largest window.
 *
 * A request's adapter counts with each of its tokens, so KV blocks computed with another one change the
 * logits, too.
 *
 * The token FAKE_NAN in the history makes the row's logits NaN.
 */
#ifndef VLLM_TESTS_FAKE_MODEL_H
#define VLLM_TESTS_FAKE_MODEL_H

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kernels/kutil.h"
#include "model/model.h"
#include "model/parallel/shard.h"

#define FAKE_NAN	310			/* padding: in prompts only, never sampled */
#define FAKE_VOCAB	320			/* larger than the tokenizer's: padded rows */
#define FAKE_LORA	1024		/* an adapter's number times this is added to a token */
#define FAKE_WIDTH	3			/* width of a token's embedding row: its id, and two more numbers */
#define FAKE_LAYERS	3			/* at most */

struct Model
{
	ModelInfo	info;
	int			windows[FAKE_LAYERS];	/* window of each layer; 0 = it attends to everything */
	int			weights;
};

static struct
{
	int			bad_slots;		/* slots read that hold another position */
	int			base_us;		/* sleep in each step, and for each row: to test step times */
	int			row_us;
	int			max_rows_seen;
	int			bias_id;		/* this id's logit is raised by bias */
	float		bias;
	/* for models made from now on */
	bool		no_kv;			/* no layer has K and V */
	bool		no_state;		/* no layer has recurrent state */
	int			window;			/* two layers have windows of this size, and of half; 0 = none has */
	bool		all_windows;	/* every layer has a window */
	int			weights;		/* number of the weights: others give other logits */
	bool		both_ways;		/* bidirectional: a sequence is computed in one step */
	bool		mean;			/* an embedding is the mean of the rows, not the last one */
	void		(*hook) (void); /* called in each forward */
	void		(*forward) (const Batch *b);	/* called at the end of each forward */
}			fake;

typedef struct FakeSlot
{
	int32_t		pos;
	int32_t		token;
} FakeSlot;

/* recurrent state: the result of a sequence's tokens so far */
typedef struct FakeState
{
	int			next;			/* next position */
	bool		nan;
	uint64_t	hash;
	uint64_t	pad[6];			/* pads to a cache line of 64 bytes */
} FakeState;

static inline uint64_t
fake_mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ (h >> 29);
}

void
model_profile(Model *m, Profile *p)
{
	(void) m;
	(void) p;
}

static inline FakeSlot *
fake_slot(const KvView *kv, int layer, const int32_t *table, int pos)
{
	FakeSlot   *cell = (FakeSlot *) (void *) kv_cell(kv, layer, table[pos / kv->block_size], 0);

	return &cell[pos % kv->block_size];
}

static inline void
fake_logits(uint64_t h, bool nan, float *logits)
{
	for (int i = 0; i < FAKE_VOCAB; i++)
		logits[i] = nan ? NAN : (float) (fake_mix(h, (uint64_t) i) >> 40) / 2097152.0f;
	if (!nan)
		logits[fake.bias_id] += fake.bias;
}

/*
 * Compute the logits from all positions up to pos that layer 0 attends to, by the content of their
 * slots; the other layers must have the same.
 */
static inline void
fake_kv_logits(const Model *m, const KvView *kv, const int32_t *table, int pos, float *logits)
{
	uint64_t	h = 1 + (uint64_t) m->weights;
	bool		nan = false;

	for (int layer = 0; layer < m->info.n_kv_layers; layer++)
	{
		int			window = m->windows[layer];

		for (int p = window > 0 && pos >= window ? pos + 1 - window : 0; p <= pos; p++)
		{
			const FakeSlot *s = fake_slot(kv, layer, table, p);

			fake.bad_slots += s->pos != p + 1;
			if (layer > 0)
			{
				fake.bad_slots += s->token != fake_slot(kv, 0, table, p)->token;
				continue;
			}
			nan |= s->token % FAKE_LORA == FAKE_NAN;
			h = fake_mix(h, (uint64_t) s->token);
		}
	}
	fake_logits(h, nan, logits);
}

/* A position follows the previous one in the same slot, or begins a sequence. */
static inline void
fake_recur(FakeState *st, int pos, int32_t token)
{
	if (pos == 0)
		*st = (FakeState) {.hash = 1};
	fake.bad_slots += st->next != pos;
	st->next = pos + 1;
	st->nan |= token % FAKE_LORA == FAKE_NAN;
	st->hash = fake_mix(st->hash, (uint64_t) token);
}

int
model_token_rank(const Model *m, int32_t token)
{
	(void) m;
	return token >= 0 && token < FAKE_VOCAB ? 0 : -1;
}

void
model_token_row(const Model *m, int32_t token, float *out)
{
	(void) m;
	out[0] = (float) token;
	out[1] = out[2] = -1;
}

/*
 * Return the token of a row of sequence s, or a replacement for an embedding row, with the sequence's
 * adapter.
 */
static inline int32_t
fake_token(const Batch *b, int s, int row)
{
	int32_t		token = b->embeds != NULL && b->embeds[row] != NULL ? (int32_t) b->embeds[row][0] :
		b->tokens[row];

	return b->lora != NULL && b->lora[s] != NULL ? token + FAKE_LORA * (int32_t) b->lora[s]->id : token;
}

const uint8_t *
model_plan(const Model *m)
{
	static const uint8_t plan[SPLIT_DIGEST];

	(void) m;
	return plan;
}

bool
model_lost(const Model *m)
{
	(void) m;
	return false;
}

/* The fake model has no devices that could communicate. */
bool
model_connect(Model *m, const ModelComm *t, Err *e)
{
	(void) m;
	(void) t;
	return err_set(e, ERR_UNSUPPORTED, "a fake model's ranks don't");
}

void
model_apart(Model *m)
{
	(void) m;
}

const EplbStat *
model_eplb(const Model *m)
{
	(void) m;
	return NULL;
}

bool
model_forward(Model *m, const Batch *b, const KvView *kv, float *logits)
{
	bool		no_kv = m->info.n_kv_layers == 0;
	int			out = 0;

	if (fake.hook != NULL)
		fake.hook();
	if (b->stop != NULL && b->stop(b->stop_ctx))
		return false;
	if (b->rows.n_rows > fake.max_rows_seen)
		fake.max_rows_seen = b->rows.n_rows;
	for (int s = 0; s < b->rows.n_seqs; s++)
	{
		const int32_t *table = b->rows.block_table[s];
		FakeState	none = {0};
		FakeState  *st = b->state != NULL ? (FakeState *) (void *) b->state + b->rows.state_slot[s] : &none;

		if (b->state == NULL)
			none.next = b->rows.pos[b->rows.seq_start[s]];

		for (int i = b->rows.seq_start[s]; i < b->rows.seq_start[s + 1]; i++)
		{
			fake_recur(st, b->rows.pos[i], fake_token(b, s, i));
			for (int layer = 0; layer < m->info.n_kv_layers; layer++)
				*fake_slot(kv, layer, table, b->rows.pos[i]) = (FakeSlot) {b->rows.pos[i] + 1,
						fake_token(b, s, i)};
			if (no_kv && out < b->n_out && b->out_rows[out] == i)
				fake_logits(st->hash, st->nan, logits + (size_t) out++ * FAKE_VOCAB);
		}
		for (int i = b->rows.seq_start[s]; !no_kv && i < b->rows.seq_start[s + 1]; i++)
			if (out < b->n_out && b->out_rows[out] == i)
				fake_kv_logits(m, kv, table, b->rows.pos[i], logits + (size_t) out++ * FAKE_VOCAB);
	}
	if (fake.base_us + fake.row_us > 0)
		usleep((useconds_t) (fake.base_us + fake.row_us * b->rows.n_rows));
	if (fake.forward != NULL)
		fake.forward(b);
	return true;
}

bool
model_rehearse(Model *m, const Batch *b, const KvView *kv, float *out)
{
	return model_forward(m, b, kv, out);
}

void
model_logits(Model *m, const float *hidden, const LoraAdapter *const *lora, int n, float *logits)
{
	(void) lora;
	(void) m;
	memcpy(logits, hidden, (size_t) n * FAKE_VOCAB * sizeof(float));
}

void
model_pool_rows(Model *m, const float *x, int n, float *y)
{
	(void) m;
	memcpy(y, x, (size_t) n * FAKE_VOCAB * sizeof(float));
}

void
model_pool_head(Model *m, PoolTask t, const float *x, int n, float *y)
{
	(void) m;
	(void) t;
	memcpy(y, x, (size_t) n * FAKE_VOCAB * sizeof(float));
}

const ModelInfo *
model_info(const Model *m)
{
	return &m->info;
}

/* The fake model has no weights. */
bool
model_store(Model *m, const char *dir, Err *e)
{
	(void) m;
	(void) dir;
	(void) e;
	return true;
}

bool
model_fetch(Model *m, Err *e)
{
	(void) m;
	(void) e;
	return true;
}

void
model_forget(Model *m)
{
	(void) m;
}

bool
model_adopt(Model *m, Model *from, Err *e)
{
	(void) m;
	(void) from;
	(void) e;
	return true;
}

void
model_free(Model *m)
{
	mem_free(m);
}

/* The layers with windows, after those that attend to everything. */
static inline void
fake_windows(Model *m)
{
	int			n = fake.all_windows ? 0 : 1;

	m->weights = fake.weights;
	if (fake.window == 0)
		return;
	m->info.kv_window = m->windows[n] = fake.window;
	m->windows[n + 1] = (fake.window + 1) / 2;
	m->info.n_layers = m->info.n_kv_layers = n + 2;
	m->info.n_kv_windows = 2;
	m->info.kv_windows = m->windows;
}

static inline Model *
fake_model(int max_model_len)
{
	Model	   *m = mem_zalloc(sizeof(*m));

	m->info = (ModelInfo) {
		.arch = "fake", .vocab_size = FAKE_VOCAB, .max_model_len = max_model_len, .hidden_size = FAKE_VOCAB,
			.embed_width = FAKE_WIDTH,
		.n_layers = 2, .n_kv_layers = fake.no_kv ? 0 : 2, .state_bytes = fake.no_state ? 0 :
		sizeof(FakeState), .n_heads = 4, .n_kv_heads = 2, .head_dim = 8, .dtype = KT_F32,
			.both_ways = fake.both_ways, .generates = true,
		.tasks = 1u << PT_EMBED | 1u << PT_TOKEN_EMBED | 1u << PT_LOGPROBS
	};
	m->info.pools[PT_EMBED] = (PoolPlan) {.n = 1, .kinds = {fake.mean ? POOL_MEAN : POOL_LAST},
										  .row = FAKE_VOCAB, .width = FAKE_VOCAB};
	m->info.pools[PT_TOKEN_EMBED].width = FAKE_VOCAB;
	fake_windows(m);
	return m;
}

#endif
