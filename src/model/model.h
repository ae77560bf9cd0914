/*
 * model.h
 *	  Models: compute logits for a Batch of rows.
 *
 * The model layer sees token ids, positions, block tables and weights; requests, tokenizers and files
 * are unknown to it.  An architecture is one file that reads like the paper (llama.c, ...) plus one row
 * in models.def.
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

/* The work of a step: what it computes and reads, except for attention (step_flops.c). */
typedef struct ModelWork
{
	uint64_t	params;			/* parameters of matrices that every row is multiplied with, */
	uint64_t	bytes;			/* and their bytes in memory */
	uint64_t	expert_params;	/* parameters of the experts that compute one row */
	uint64_t	expert_bytes;
	uint64_t	experts_bytes;	/* bytes of all experts */
	uint64_t	head_params;	/* of the vocabulary's head, which computes only the rows of logits */
	uint64_t	head_bytes;
} ModelWork;

typedef struct ModelInfo
{
	const char *arch;			/* name in models.def: "llama", "qwen2", ... */
	int			vocab_size;		/* width of the logits */
	int			max_model_len;	/* tokens, from the config */
	int			hidden_size;
	int			embed_width;	/* width of a token's row of the embedding; most often hidden_size */
	int			n_layers;
	int			n_kv_layers;	/* layers with K and V */
	int			n_heads;
	int			n_kv_heads;
	int			head_dim;
	int			v_dim;			/* of V in the KV cache; 0 = head_dim */
	/*
	 * [n_kv_layers] how many positions back a layer sees at most; 0 = all.  NULL: attention is
	 * bidirectional, or weights aren't loaded
	 */
	const int *kv_windows;
	int			n_kv_windows;	/* layers that have a window */
	int			kv_window;		/* the largest window */
	/*
	 * scales of an FP8 KV cache from the checkpoint: [n_kv_layers][2], of K and of V, 1 for missing
	 * ones; NULL = the checkpoint has none, or weights aren't loaded
	 */
	const float *kv_scales;
	KType		dtype;			/* type of most weights, in memory */
	char		quantization[24];	/* method of a quantized checkpoint, "" = none */
	uint64_t	weight_bytes;	/* packed */
	uint64_t	n_params;
	ModelWork	work;
	uint64_t	weights_memory; /* bytes of weights and work space after loading */
	uint64_t	work_memory;
	uint64_t	state_bytes;	/* recurrent state of a sequence; 0 = none */
	bool		norms_first;	/* each layer begins with a norm: ModelTaps may have any layers */
	bool		both_ways;		/* attention is bidirectional: a sequence is computed in one step, and no
								 * K and V are kept of it */
	int			reach;			/* fewest positions that any layer sees to either side; 0 = all */
	bool		generates;		/* it has a head for the vocabulary */
	bool		made_to_embed;	/* it has no such head, or its files say how its rows become a vector */
	unsigned	tasks;			/* bits 1 << PoolTask of its tasks */
	int			n_labels;		/* of its classifier, 0 = it has none */
	PoolPlan	pools[PT_COUNT];
	PoolAct		acts[PT_COUNT]; /* default activation of each task */
} ModelInfo;

/* The source of tensors (src/loader reads the files, backend/weight_source.c connects the two). */
typedef struct ModelSource
{
	/* find a tensor by its name in the file; NULL if there is none */
	const KTensor *(*find) (void *ctx, const char *name);
	/* Find the matrix [n][k] of a module ("model.layers.0.self_attn.q_proj") for which a quantized
	 * checkpoint has several tensors.  *out: a tensor with a reader, owned by the source, or NULL if the
	 * matrix is an ordinary tensor.  Return false with *e set if it can't be used.  May be NULL. */
	bool		(*quantized) (void *ctx, const char *module, int64_t n, int64_t k, const KTensor **out,
							  Err *e);
	/* Return tensor i = 0, 1, ..., NULL after the last.  A tensor that the architecture doesn't use is
	 * an error.  May be NULL: then unused tensors are ignored. */
	const KTensor *(*at) (void *ctx, size_t i);
	/* Return the file that holds t, or the model's path if t is NULL, for error messages.  May be
	 * NULL. */
	const char *(*where) (void *ctx, const KTensor *t);
	/* Return true if stored rows row0 .. row1-1 of t are valid, else false with *e set.  Called by any
	 * thread, before the rows are packed.  May be NULL. */
	bool		(*check) (void *ctx, const KTensor *t, int64_t row0, int64_t row1, Err *e);
	/* t is packed and won't be read again.  May be NULL. */
	void		(*drop) (void *ctx, const KTensor *t);
	/* Return true if the files are unchanged, so that what was read is valid.  Called before packed
	 * weights are cached.  May be NULL: unchanged. */
	bool		(*intact) (void *ctx);
	/* report progress 0..1; returning false abandons the load (ERR_CANCELLED) */
	bool		(*progress) (void *ctx, double done);
	void	   *ctx;
} ModelSource;

struct Batch;

/* Load balancing of whole experts among ranks: busy experts move to less busy ranks.  Names as in vLLM's
 * eplb_config. */
typedef struct EplbConf
{
	bool		on;
	int			window;			/* number of past steps that count */
	int			interval;		/* steps between two rebalancing rounds */
	int			redundant;		/* additional copies of a layer's experts */
	bool		log;
	int			log_interval;	/* steps between log lines */
	size_t		step_bytes;		/* most bytes that move after one step; 0: all of a round's */
} EplbConf;

/* Counters of load balancing on this rank's stage. */
typedef struct EplbStat
{
	int64_t		rounds;
	int64_t		failed;			/* rounds that failed for want of memory */
	int64_t		moved;			/* slots that received another expert */
	int64_t		rows;			/* pairs of a row and an expert; balancedness is rows / busiest */
	int64_t		busiest;		/* sum over layers of the busiest rank's pairs, times ranks */
} EplbStat;

/* The other ranks of this model (shard.h).  Each rank has its own part of the weights; all ranks make
 * the same calls. */
typedef struct ModelRanks
{
	KComm	   *tp;				/* ranks that share the columns; NULL, or a group of one: this rank has all */
	KComm	   *pp;				/* ranks that have other layers; NULL, or a group of one: this rank has all */
	/* ranks of tp get whole experts, a run each, instead of columns of all experts */
	bool		experts;
	bool		round_robin;	/* whole experts are assigned to ranks one by one */
	EplbConf	eplb;			/* whole experts, in runs, migrate between ranks */
	/* ranks sum the products of their inputs, if the weight format can be split that way (shard.h) */
	bool		rows;
	bool		lends;			/* all ranks have the whole embedding, since the first rank's drafter
								 * reads it */
	/*
	 * Set on the first rank: called before model_forward() and model_logits(), to make the other ranks
	 * run the same call.  NULL = the other ranks have the call already.
	 */
	void		(*forward) (void *ctx, const struct Batch *b);
	void		(*logits) (void *ctx, const float *hidden, const LoraAdapter *const *lora, int n);
	void		(*over) (void *ctx);	/* called after each of the two; may be NULL */
	void	   *ctx;
} ModelRanks;

/* How the ranks, each with a device, open communicators between their devices (device.h). */
typedef struct ModelComm
{
	const char *library;
	const void *tp_id;			/* id of the communicator of the ranks that share this rank's layers */
	const void *pp_id;			/* id of the communicator of the ranks that have the same part of other
								 * layers */
	bool		(*lives) (void *ctx);	/* false: the group is failing, give up waiting.  Called until the
										 * model's end */
	void	   *ctx;
} ModelComm;

typedef struct ModelOptions
{
	const Kernels *kernels;
	KPool	   *pool;			/* used for packing and by every forward */
	int			max_rows;		/* most rows of one forward pass */
	int			max_out;		/* most rows of logits of one forward pass */
	int			max_model_len;	/* 0 = use the configuration's; must not be larger than that */
	const QuantScheme *quant;	/* quantize float matrices on loading; NULL = don't */
	HugePages	huge;			/* for weights and work space */
	const char *cache_dir;		/* directory of the cache of packed weights; NULL or "" = no cache */
	const char *cache_id;		/* identifies the source's contents in the cache */
	const ModelRanks *ranks;	/* NULL = alone */
	/*
	 * Device where ops run, NULL = CPUs; kernels and pool must be that device's.  The float rows passed
	 * in and out below, the KV cache and recurrent state are then in its memory, and results are valid
	 * after model_forward(), or dev_wait().
	 */
	const struct Dev *dev;
	/*
	 * ascending batch sizes for which the device records and replays decode-only steps (graphs); none =
	 * record nothing
	 */
	const int  *graph_sizes;
	int			n_graph_sizes;
} ModelOptions;

/*
 * Create a model: parse the configuration, check every tensor's presence and shape, pack the weights.
 * src is no longer needed afterwards.  Errors: ERR_UNSUPPORTED (architecture, rope scaling, activation,
 * a tensor the architecture doesn't use), ERR_BAD_FILE with the tensor's name (missing, wrong shape) or
 * the configuration's key, ERR_INVALID (max_model_len, quant of a quantized model), ERR_CANCELLED,
 * ERR_NOMEM.
 */
Model	   *model_new(const Conf *conf, const ModelSource *src, const ModelOptions *opt, Err *e);
void		model_free(Model *m);
/* Return true if the model's device is lost.  Then the process must end. */
bool		model_lost(const Model *m);

/*
 * Write the weights to a file in dir and free their memory; read them back.  Between the two only
 * model_info() and model_free() work.  On an error nothing changes.
 */
bool		model_store(Model *m, const char *dir, Err *e);
bool		model_fetch(Model *m, Err *e);
/*
 * Free the weights' memory; take over the weights of another model of the same files and options.
 * Afterwards only model_free() may be called for `from`.
 */
void		model_forget(Model *m);
bool		model_adopt(Model *m, Model *from, Err *e);
const ModelInfo *model_info(const Model *m);
const EplbStat *model_eplb(const Model *m); /* NULL: experts don't migrate */
/* For a model shared by ranks: return the split_digest() of the whole model. */
const uint8_t *model_plan(const Model *m);

/*
 * Compute the bytes of work space that model_new() would allocate for this number of threads.  Of opt
 * only max_rows, max_model_len, quant and kernels count.
 */
bool		model_work(const Conf *conf, const ModelSource *src, const ModelOptions *opt, int threads,
					   uint64_t *out, Err *e);

/* Run only the checks of model_new() (for llm_create_model): no weights are read or packed. k: the
 * kernels that will run the model; NULL: any kernels that support all types. */
bool		model_check(const Conf *conf, const ModelSource *src, const QuantScheme *quant,
						const Kernels *k, ModelInfo *info, Err *e);

/*
 * Hidden rows that a drafter (draft.h) reads, delivered beside the logits.  NULL = not wanted; the
 * logits have the same bits either way.
 */
#define TAP_LAYERS 8

typedef struct ModelTaps
{
	float	   *all;			/* [n_rows][hidden_size] of all rows, after the last norm */
	bool		all_raw;		/* `all` has the rows before that norm */
	float	   *out;			/* [n_out][hidden_size] of the wanted rows, after the last norm */
	float	   *raw;			/* [n_out][hidden_size] of the wanted rows, before that norm */
	float	   *mid;			/* [n_rows][n_layers][hidden_size] of all rows: the input of these layers */
	int			n_layers;
	int			layers[TAP_LAYERS]; /* only for a model with norms_first */
} ModelTaps;

typedef struct Batch
{
	KRows		rows;			/* n_rows, sequences, positions, block tables */
	const int32_t *tokens;		/* [n_rows], in [0, vocab_size) */
	const float *const *embeds; /* [n_rows] rows that replace the token's row of the embedding,
								 * [embed_width]; NULL = the token's own row.  NULL: for all rows */
	const float *given;			/* [n_rows][...] for drafters (draft.h): rows of the target */
	bool		fed_back;		/* `given` are the drafter's own output rows of the previous position */
	const int32_t *types;		/* [n_rows] token types; NULL = all 0 */
	/* [n_seqs] bidirectional attention: rows don't attend to positions from this one on; NULL = they
	 * attend to all */
	const int32_t *seen;
	const LoraAdapter *const *lora; /* [n_seqs] NULL = no adapter; NULL: none has one */
	bool		hidden;			/* output hidden rows instead of logits */
	int			n_out;			/* number of output rows */
	const int32_t *out_rows;	/* [n_out] row numbers, ascending */
	const ModelTaps *taps;		/* NULL = none */
	/* called now and then; true = stop the step; NULL = never */
	bool		(*stop) (void *ctx);
	void	   *stop_ctx;
	void		(*wait) (void *ctx);	/* called now and then while waiting for a device; NULL = never */
	/*
	 * called repeatedly while waiting for a device, to do a piece of other work; false = there is none;
	 * NULL = never
	 */
	bool		(*work) (void *ctx);
	void	   *wait_ctx;		/* of both */
	float	   *state;			/* recurrent state, 64-byte aligned: slot s at s * state_bytes
								 * (rows.state_slot); NULL if the model has none */
} Batch;

/* Record the time of forward passes from now on; NULL = stop recording. */
void		model_profile(Model *m, Profile *p);

/*
 * Run one step.  Return false if it was stopped; then out, and K and V of its rows, are invalid.  out:
 * [n_out][vocab_size] logits, or with b->hidden [n_out][hidden_size] rows after the last norm.  Writes K
 * and V of all rows to kv.  With graph_sizes out must have room for the next larger of these sizes; rows
 * after n_out are undefined.
 */
bool		model_forward(Model *m, const Batch *b, const KvView *kv, float *out);
/*
 * On a device with communicators: from now on ranks exchange data by these and not through the host.
 * All ranks must call it at once.  On false with *e set they still use the host.  model_apart() returns
 * to the host; each rank may call it on its own.
 */
bool		model_connect(Model *m, const ModelComm *t, Err *e);
void		model_apart(Model *m);

/*
 * Run the step on this rank alone, on a device: it neither notifies other ranks nor waits for them, and
 * their parts count as zeros, so out and kv are invalid.  Used to allocate the step's memory in advance.
 * May be called on any thread while no other thread runs this model.
 */
bool		model_rehearse(Model *m, const Batch *b, const KvView *kv, float *out);

/*
 * Read a token's row of the embedding as the checkpoint has it, before any factor.  Passed as
 * Batch.embeds it gives the same bits as the token itself.  Any thread.  This rank must have the token.
 */
void		model_token_row(const Model *m, int32_t token, float *out);
/*
 * Return the rank of the first stage that has the token's row; this rank if it is alone.  -1: there is
 * no such token, or this rank belongs to another stage.
 */
int			model_token_rank(const Model *m, int32_t token);

/*
 * Compute the logits of hidden rows, with the same bits as model_forward(): n <= ModelOptions.max_out.
 * lora: [n], each row's adapter; NULL = none has one.
 */
void		model_logits(Model *m, const float *hidden, const LoraAdapter *const *lora, int n, float *logits);

/*
 * Create an adapter from its files' modules, checked against the model.  Its matrices are kept as type
 * `as` (KT_F32, KT_F16, KT_BF16; KT_COUNT: as they are).  Any thread.  path: for errors.
 * ERR_UNSUPPORTED (a module that can't have one), ERR_BAD_FILE (made for another model), ERR_NOMEM.
 */
LoraAdapter *model_lora(const Model *m, const LoraModule *modules, int n, const LoraInfo *info, KType as,
						const char *path, Err *e);

/* Apply the layers before pooling to n hidden rows; y: [n][pools[t].row]. */
void		model_pool_rows(Model *m, const float *x, int n, float *y);

/*
 * Apply a task's head to n rows: the poolers' results, [n][parts hidden_size], or, without poolers,
 * hidden rows.  y: [n][pools[t].width].
 */
void		model_pool_head(Model *m, PoolTask t, const float *x, int n, float *y);

#endif
