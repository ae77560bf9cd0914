/*
 * model.h
 *	  Models: a Batch of rows in, logits out.
 *
 * The model layer sees token ids, positions, block tables and weights; it knows
 * no request, no tokenizer and no file.  An architecture is one file that reads
 * like the paper (llama.c, ...) plus one row in models.def.
 *
 * A Model owns its packed weights and its work space and is used by one thread
 * (the step thread); weights are immutable after model_new().
 */
#ifndef VLLM_MODEL_MODEL_H
#define VLLM_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config_map.h"
#include "base/err.h"
#include "base/profile.h"
#include "kernels.h"
#include "model/weights/arena.h"
#include "model/parallel/comm.h"
#include "model/lora/lora.h"
#include "model/layers/pooler.h"
#include "quant/quantize.h"

typedef struct Model Model;

/* What the rest of the engine must know of a model. */
/* What a step is to compute and to read, but for attention (step_flops.c). */
typedef struct ModelWork
{
	uint64_t	params;			/* of matrices that each row is multiplied with, */
	uint64_t	bytes;			/* as they are in memory */
	uint64_t	expert_params;	/* of experts: those of a row, */
	uint64_t	expert_bytes;
	uint64_t	experts_bytes;	/* bytes of all experts */
	uint64_t	head_params;	/* of the vocabulary's head, which computes rows of logits */
	uint64_t	head_bytes;
} ModelWork;

typedef struct ModelInfo
{
	const char *arch;			/* name in models.def: "llama", "qwen2", ... */
	int			vocab_size;		/* width of the logits */
	int			max_model_len;	/* tokens, from the config */
	int			hidden_size;
	int			embed_width;	/* of a token's row of the embedding; most often hidden_size */
	int			n_layers;
	int			n_kv_layers;	/* those with K and V */
	int			n_heads;
	int			n_kv_heads;
	int			head_dim;
	int			v_dim;			/* of V in the KV cache; 0 = head_dim */
	/*
	 * [n_kv_layers] so many positions back a layer sees at most; 0 = all.  NULL: both ways, or weights aren't
	 * loaded
	 */
	const int *kv_windows;
	int			n_kv_windows;	/* layers that have one, */
	int			kv_window;		/* and the largest */
	/*
	 * of an FP8 KV cache, as the checkpoint has them: [n_kv_layers][2], of K and of V, 1 where it has none;
	 * NULL = it has none, or weights aren't loaded
	 */
	const float *kv_scales;
	KType		dtype;			/* type of most weights, in memory */
	char		quantization[24];	/* the method of a quantized checkpoint, "" = none */
	uint64_t	weight_bytes;	/* packed */
	uint64_t	n_params;
	ModelWork	work;
	uint64_t	weights_memory; /* what weights and work space take once they are loaded */
	uint64_t	work_memory;
	uint64_t	state_bytes;	/* recurrent state of a sequence; 0 = none */
	bool		norms_first;	/* each layer begins with a norm: ModelTaps may have any */
	bool		both_ways;		/* attention looks ahead: a sequence is computed in one step, nothing is
								 * kept of it */
	int			reach;			/* fewest positions that a layer sees to either side; 0 = all */
	bool		generates;		/* it has a head for the vocabulary */
	bool		made_to_embed;	/* it doesn't, or its files say how its rows become a vector */
	unsigned	tasks;			/* 1 << PoolTask of those it has */
	int			n_labels;		/* of its classifier, 0 = it has none */
	PoolPlan	pools[PT_COUNT];
	PoolAct		acts[PT_COUNT]; /* by default */
} ModelInfo;

/* Where tensors come from (src/loader reads the files, backend/weight_source.c joins the two). */
typedef struct ModelSource
{
	/* find a tensor by its name in the file; NULL if there is none */
	const KTensor *(*find) (void *ctx, const char *name);
	/* The matrix [n][k] of a module ("model.layers.0.self_attn.q_proj") of which a
	 * quantized checkpoint has several tensors: a tensor with a reader, owned by the
	 * source.  *out NULL: it is an ordinary one.  false with *e set: it can't be used.
	 * May be NULL. */
	bool		(*quantized) (void *ctx, const char *module, int64_t n, int64_t k, const KTensor **out,
							  Err *e);
	/* all tensors, i = 0, 1, ..., NULL behind the last: one that the architecture
	 * has no use for is refused.  May be NULL: then it is ignored. */
	const KTensor *(*at) (void *ctx, size_t i);
	/* the file that holds t, or the model's path when t is NULL, for error
	 * messages.  May be NULL. */
	const char *(*where) (void *ctx, const KTensor *t);
	/* May stored rows row0 .. row1-1 of t be used?  false with *e set if not.  Asked
	 * by any thread, before they are packed.  May be NULL. */
	bool		(*check) (void *ctx, const KTensor *t, int64_t row0, int64_t row1, Err *e);
	/* t is packed and won't be read again.  May be NULL. */
	void		(*drop) (void *ctx, const KTensor *t);
	/* Is what was read so far what the files hold?  Asked before packed weights are
	 * kept.  May be NULL: yes. */
	bool		(*intact) (void *ctx);
	/* report progress 0..1; returning false abandons the load (ERR_CANCELLED) */
	bool		(*progress) (void *ctx, double done);
	void	   *ctx;
} ModelSource;

struct Batch;

/* Whole experts that ranks share move to where there is less to do; the names are vLLM's eplb_config. */
typedef struct EplbConf
{
	bool		on;
	int			window;			/* the last so many steps count */
	int			interval;		/* steps from one round to the next */
	int			redundant;		/* second copies of a layer's experts */
	bool		log;
	int			log_interval;	/* steps */
	size_t		step_bytes;		/* most that move behind a step; 0: all of a round's */
} EplbConf;

/* What has come of it on this rank's stage. */
typedef struct EplbStat
{
	int64_t		rounds;
	int64_t		failed;			/* of them: for want of memory */
	int64_t		moved;			/* slots that got another expert */
	int64_t		rows;			/* pairs of a row and an expert; balancedness is these by */
	int64_t		busiest;		/* sum over layers of the busiest rank's pairs, times ranks */
} EplbStat;

/* The other ranks of this model, each with weights of its own (shard.h); all ranks make the same calls. */
typedef struct ModelRanks
{
	KComm	   *tp;				/* of those that share columns; NULL, or of one: this rank has all */
	KComm	   *pp;				/* of those that have other layers; NULL, or of one: this rank has all */
	/* whole experts go to ranks of tp, instead of columns of all: each a run of them, */
	bool		experts;
	bool		round_robin;	/* whole experts are dealt to ranks one by one */
	EplbConf	eplb;			/* whole experts in runs that migrate between ranks */
	/* ranks add up what they have of a product's inputs, where its format can be cut (shard.h) */
	bool		rows;
	bool		lends;			/* the embedding is whole on all ranks, as the first one's drafts read it */
	/*
	 * The first rank's: told before model_forward() and model_logits(), so that the others do the same.  NULL
	 * = they know.
	 */
	void		(*forward) (void *ctx, const struct Batch *b);
	void		(*logits) (void *ctx, const float *hidden, const LoraAdapter *const *lora, int n);
	void		(*over) (void *ctx);	/* called after each of the two; NULL = not called */
	void	   *ctx;
} ModelRanks;

/* How ranks with a device each open communicators of their devices (device.h). */
typedef struct ModelComm
{
	const char *library;
	const void *tp_id;			/* of those that share this rank's layers, */
	const void *pp_id;			/* id of the communicator of ranks with the same part of other layers */
	bool		(*lives) (void *ctx);	/* is there hope?  Until the model's end */
	void	   *ctx;
} ModelComm;

typedef struct ModelOptions
{
	const Kernels *kernels;
	KPool	   *pool;			/* used for packing and by every forward */
	int			max_rows;		/* most rows in one forward */
	int			max_out;		/* most logits rows in one forward */
	int			max_model_len;	/* 0 = what the config says; else must not be larger */
	const QuantScheme *quant;	/* quantize float matrices on loading; NULL = don't */
	HugePages	huge;			/* for weights and work space */
	const char *cache_dir;		/* packed weights are kept here; NULL or "" = nowhere */
	const char *cache_id;		/* cache identity of the source's contents */
	const ModelRanks *ranks;	/* NULL = alone */
	/*
	 * Where ops run, NULL = on CPUs; kernels and pool are then that device's.  Rows of floats that go in and
	 * out below, the KV and recurrent state are its memory, and what comes out is there behind
	 * model_forward(), or dev_wait().
	 */
	const struct Dev *dev;
	/*
	 * of so many sequences, ascending, steps that only decode are recorded by the device, and replayed; none:
	 * they aren't
	 */
	const int  *graph_sizes;
	int			n_graph_sizes;
} ModelOptions;

/*
 * Parse the configuration, check every tensor's presence and shape, pack the
 * weights; afterwards src is no longer needed.  Errors: ERR_UNSUPPORTED
 * (architecture, rope scaling, activation, a tensor the architecture doesn't use),
 * ERR_BAD_FILE with the tensor's name (missing, wrong shape) or the configuration's
 * key, ERR_INVALID (max_model_len, quant of a quantized model), ERR_CANCELLED, ERR_NOMEM.
 */
Model	   *model_new(const Conf *conf, const ModelSource *src, const ModelOptions *opt, Err *e);
void		model_free(Model *m);
/* Is its device lost?  Then the process must end. */
bool		model_lost(const Model *m);

/*
 * Weights to a file in dir, and out of memory; and back.  Between the two only model_info() works, and
 * model_free().  On an error nothing has changed.
 */
bool		model_store(Model *m, const char *dir, Err *e);
bool		model_fetch(Model *m, Err *e);
/*
 * Weights out of memory, and those of another model of the same files and options in their place, which
 * then is good for model_free() alone.
 */
void		model_forget(Model *m);
bool		model_adopt(Model *m, Model *from, Err *e);
const ModelInfo *model_info(const Model *m);
const EplbStat *model_eplb(const Model *m); /* NULL: experts stay where they are */
/* Of a model that ranks share: split_digest() of all of it. */
const uint8_t *model_plan(const Model *m);

/*
 * What the work space of model_new(), on so many threads, would take; of opt max_rows, max_model_len, quant
 * and kernels count.
 */
bool		model_work(const Conf *conf, const ModelSource *src, const ModelOptions *opt, int threads,
					   uint64_t *out, Err *e);

/* Only the checks of model_new (llm_create_model): no weights are read or packed.
 * k: the kernels that shall run it; NULL: any that know all types. */
bool		model_check(const Conf *conf, const ModelSource *src, const QuantScheme *quant,
						const Kernels *k, ModelInfo *info, Err *e);

/*
 * Hidden rows beside the logits, for what guesses tokens from them (draft.h).  NULL = not wanted; the logits
 * have the same bits either way.
 */
#define TAP_LAYERS 8

typedef struct ModelTaps
{
	float	   *all;			/* [n_rows][hidden_size] of all rows, behind the last norm */
	bool		all_raw;		/* `all` has the rows before that norm */
	float	   *out;			/* [n_out][hidden_size] behind it, of those that are wanted */
	float	   *raw;			/* [n_out][hidden_size] before that norm */
	float	   *mid;			/* [n_rows][n_layers][hidden_size] of all rows: what goes into these layers */
	int			n_layers;
	int			layers[TAP_LAYERS]; /* only of a model with norms_first */
} ModelTaps;

typedef struct Batch
{
	KRows		rows;			/* n_rows, sequences, positions, block tables */
	const int32_t *tokens;		/* [n_rows], in [0, vocab_size) */
	const float *const *embeds; /* [n_rows] what stands for the token's row of the embedding, [embed_width];
								 * NULL = the token's own.  NULL: all are */
	const float *given;			/* [n_rows][...] for what guesses tokens (draft.h): rows of another model, */
	bool		fed_back;		/* given are the drafter's own rows of the row before */
	const int32_t *types;		/* [n_rows] token types; NULL = all 0 */
	/* [n_seqs] attention both ways: positions from this one on are not attended to; NULL = all are */
	const int32_t *seen;
	const LoraAdapter *const *lora; /* [n_seqs] NULL = the model alone; NULL: all are */
	bool		hidden;			/* hidden rows are wanted instead of logits */
	int			n_out;			/* rows that are wanted */
	const int32_t *out_rows;	/* [n_out] row numbers, ascending */
	const ModelTaps *taps;		/* NULL = none */
	/* asked now and then on the way: true = go no further; NULL = never */
	bool		(*stop) (void *ctx);
	void	   *stop_ctx;
	void		(*wait) (void *ctx);	/* called now and then while a device computes; NULL = never */
	/*
	 * called over and over while a device computes, for a bit of other work; false = there is none; NULL =
	 * never
	 */
	bool		(*work) (void *ctx);
	void	   *wait_ctx;		/* of both */
	float	   *state;			/* recurrent state, 64-byte aligned: that of slot s at s * state_bytes
								 * (rows.state_slot); NULL if the model has none */
} Batch;

/* Account for the time of forward passes from now on; NULL = don't. */
void		model_profile(Model *m, Profile *p);

/*
 * Run one step; false: it was stopped, and neither out nor K and V of its rows are of any use.  out:
 * [n_out][vocab_size] logits, or with b->hidden [n_out][hidden_size] rows behind the last norm.  K/V of all
 * rows are written to kv.  With graph_sizes out has room for as many rows as the next of these; what is
 * behind n_out is of no use.
 */
bool		model_forward(Model *m, const Batch *b, const KvView *kv, float *out);
/*
 * On a device with communicators: from now on ranks exchange by those and not by way of the host.  All ranks
 * at once; false with *e set: it is by way of the host still.  model_apart(): again, by each for itself.
 */
bool		model_talk(Model *m, const ModelComm *t, Err *e);
void		model_apart(Model *m);

/*
 * The same of this rank alone, on a device: other ranks are neither told nor waited for, and what they would
 * give is zeros, so out and kv are of no use.  For its memory's sake, on any thread, as long as nobody else
 * runs this model.
 */
bool		model_rehearse(Model *m, const Batch *b, const KvView *kv, float *out);

/*
 * A token's row of the embedding as the checkpoint has it, before any factor: what Batch.embeds takes in
 * its place, with the same bits behind it.  Any thread.  The token is one that this rank has.
 */
void		model_token_row(const Model *m, int32_t token, float *out);
/*
 * Which of the first stage's ranks has it; this one, if it is alone.  -1: there is no such token, or this is
 * another stage.
 */
int			model_token_rank(const Model *m, int32_t token);

/*
 * The logits of hidden rows, with the same bits as model_forward()'s: n <= ModelOptions.max_out.  lora: [n],
 * each row's adapter; NULL = none has one.
 */
void		model_logits(Model *m, const float *hidden, const LoraAdapter *const *lora, int n, float *logits);

/*
 * An adapter of what files have for its modules, checked against the model; its matrices are kept as `as`
 * (KT_F32, KT_F16, KT_BF16; KT_COUNT: as they are).  Any thread.  path: for errors.  ERR_UNSUPPORTED (a
 * module that can't have one), ERR_BAD_FILE (made for another model), ERR_NOMEM.
 */
LoraAdapter *model_lora(const Model *m, const LoraModule *modules, int n, const LoraInfo *info, KType as,
						const char *path, Err *e);

/* The layers before pooling, for n hidden rows; y: [n][pools[t].row]. */
void		model_pool_rows(Model *m, const float *x, int n, float *y);

/*
 * A task's head, for n rows: what its poolers have made of hidden rows, [n][parts hidden_size],
 * or, if it has none, hidden rows.  y: [n][pools[t].width].
 */
void		model_pool_head(Model *m, PoolTask t, const float *x, int n, float *y);

#endif
