/*
 * decoder.h
 *	  Private to src/model: a decoder-only transformer and the blocks of which its forward pass
 *	  consists.
 *
 * An architecture is a file with three functions: one reads its configuration into a DecoderConf, one
 * binds its weights by name (bind.h), one runs the forward pass with the dec_* blocks below.  Code
 * outside these files never tests which architecture it has.
 *
 * Ownership: a Decoder owns two arenas, weights (immutable after loading) and work space (written by the
 * step thread only).  All activations are float rows.
 */
#ifndef VLLM_MODEL_DECODER_H
#define VLLM_MODEL_DECODER_H

#include "model/weights/arena.h"
#include "model/weights/device_arena.h"
#include "model/model.h"
#include "model/layers/moe.h"
#include "model/layers/rope.h"

/* These limits keep the product of any two of them below 2^63. */
#define DEC_MAX_HIDDEN	(1 << 18)
#define DEC_MAX_INTER	(1 << 20)
#define DEC_MAX_LAYERS	4096
#define DEC_MAX_HEADS	4096
#define DEC_MAX_HEAD_DIM 1024
#define DEC_MAX_VOCAB	(1 << 24)
#define DEC_MAX_LEN		(1 << 27)

/* Settings that may differ from layer to layer. */
typedef struct LayerConf
{
	int			window;			/* of attention, in positions; 0 = the whole context */
	int			ahead;			/* bidirectional layers with a window: positions that a row sees ahead */
	int			chunk;			/* a row attends only within its chunk of this many positions; 0 = no
								 * chunks */
	bool		tempered;		/* scale q by position (Temper) */
	float		xielu[4];		/* alpha_p, alpha_n, beta, eps, unless the layer has them as tensors */
	bool		sliding;		/* its type is "sliding_attention", even if the window exceeds the context */
	int			rope;			/* index of its rotary table, -1 = no rotation */
	bool		moe;			/* experts instead of one MLP */
	float		attn_scale;		/* overrides DecoderConf's; 0 = use that */
	bool		recurrent;		/* a state-space layer instead of attention */
	bool		both;			/* a state-space layer in parallel to attention */
	int			kv;				/* its index among the layers with K and V; set after the configuration is
								 * read */
	size_t		state_at;		/* offset of its part of a sequence's state, in floats; set after the
								 * configuration is read */
} LayerConf;

/* Rotary embeddings: a model has up to two, as some of its layers may use other frequencies. */
#define DEC_ROPES 2

typedef struct Rope
{
	RopeKeys	keys;
	float		part;			/* default of partial_rotary_factor; 0 = 1 */
	int			dim;			/* rotated dimensions of each head, from its first; even; 0 = unused */
	float		mscale;			/* factor of cos and sin */
	float	   *inv_freq;		/* [dim / 2] */
	float	   *table;			/* [max_len][dim / 2][2] cos, sin; in the work space */
} Rope;

/* State-space layers.  The first Mamba is treated as heads of one channel. */
typedef struct SsmConf
{
	bool		short_conv;		/* neither Mamba: a convolution between two gates */
	bool		first;			/* the first Mamba, else Mamba-2 */
	int			inner;			/* channels = heads * head_dim */
	int			state;			/* state size of each channel */
	int			width;			/* of the convolution */
	int			heads;
	int			head_dim;
	int			groups;			/* groups of heads that share B and C */
	int			dt_rank;		/* Mamba: rank of the projection that gives the step size */
	float		dt_min;			/* lower limit of a step size */
	float		dt_max;
	bool		conv_bias;
	bool		in_bias;		/* the projections have a bias */
	bool		out_bias;
	bool		norm;			/* Mamba-2: a norm after the gate */
	bool		norm_first;		/* Mamba-2: the norm comes before the gate */
	bool		norm_dt_bc;		/* Mamba: steps, B and C are normed */
	bool		norm_dt_bc_w;	/* Mamba: the norms of steps, B and C have weights */
	float		norm_dt_bc_eps;
} SsmConf;

/* Factors of the outputs of Falcon-H1's matrices (Yang et al. 2022, arXiv:2203.03466); all 0: none. */
typedef struct MupConf
{
	float		attn_in;		/* of attention's input */
	float		key;
	float		attn_out;
	float		ssm_in;			/* of the state-space layer's input */
	float		ssm[5];			/* of the gate, x, B, C and steps */
	float		ssm_out;
	float		gate;			/* of the MLP */
	float		down;
} MupConf;

/* q is multiplied by 1 + scale log(1 + (position + first) / every), the quotient rounded down.  `every`
 * is in positions of the context. */
typedef struct Temper
{
	float		scale;
	int			every;
	int			first;
} Temper;

typedef enum QkNorm
{
	QKNORM_SHARED,				/* each head separately, with the same weights */
	QKNORM_HEADS,				/* each head separately, with its own weights */
	QKNORM_WIDE					/* all heads as one vector */
} QkNorm;

/* Multi-head latent attention (mla.c). */
typedef struct MlaConf
{
	int			latent;			/* width of the latent that the cache keeps of a token's k and v; 0 =
								 * ordinary attention */
	int			q_latent;		/* width of q's latent, 0 = none */
	int			plain;			/* width of each head of q and k without rotation */
	int			rope;			/* width of the rotated part of each head of q and k */
	int			v;				/* width of each head of v */
} MlaConf;

/* The head that a checkpoint has after the model, known by its class ("BertForTokenClassification"). */
typedef enum HeadKind
{
	HEAD_LM,					/* ForCausalLM: the vocabulary */
	HEAD_BARE,					/* Model, ForMaskedLM: the output is hidden rows */
	HEAD_SEQUENCE,				/* ForSequenceClassification: labels of a text */
	HEAD_TOKENS,				/* ForTokenClassification: labels of each token */
	HEAD_REWARD,				/* ForRewardModel */
	HEAD_STEPS					/* ForProcessRewardModel: labels of each step */
} HeadKind;

/* The part of the configuration that only drafters (draft.h) have. */
typedef struct DraftConf
{
	/* width of the target's rows that the drafter reads; 0 = it reads none */
	int			given;
	int			n_layers;		/* number of target layers whose rows it reads */
	int			layers[TAP_LAYERS];
	int			heads;			/* heads that draft from one row; 0 = any number of tokens, each drafted
								 * from the one before */
	int			blocks;			/* Medusa: residual blocks of each head */
	int			inner;			/* MLP speculator: width of its state */
	bool		tied;			/* MLP speculator: one set of weights for all heads */
	bool		scaled;			/* MLP speculator: the input rows are normed */
	bool		norm_residual;	/* EAGLE-3: the residual stream begins after the norm */
	bool		mask_first;		/* the first row's token counts as zeros */
	bool		given_first;	/* the target's row comes before the token's row in the concatenation */
	bool		fed_raw;		/* a step's input is its own output row before the last norm */
	bool		given_raw;		/* the target passes its rows before the last norm */
	int			most;			/* most draft tokens in a row, without heads; 0 = any number */
	bool		own_embed;		/* the embedding isn't shared with the target */
	bool		own_head;
	int			after;			/* MTP: the number of the target's layers */
} DraftConf;

/* The settings that an architecture reads from config.json.  For all that dec_conf() doesn't set, zero
 * is the plain choice.  Values in sizes, eps, act, tied and rope[].keys before dec_conf() are the
 * architecture's defaults for absent keys. */
typedef struct DecoderConf
{
	int			hidden;			/* width of the residual stream */
	int			inter;			/* width of the MLP */
	int			n_layers;
	int			n_heads;
	int			n_kv_heads;		/* divides n_heads */
	int			head_dim;		/* even; need not be hidden / n_heads */
	int			vocab;
	int			max_len;		/* positions */
	int			mlp_ratio;		/* before dec_conf(): inter / hidden if no key says inter */
	int			embed_width;	/* width of the embedding, if it isn't hidden; 0 = hidden */
	bool		narrow;			/* positions, types and their norm have the embedding's width */
	bool		both_ways;		/* attention is bidirectional */
	HeadKind	head;			/* before dec_conf(): set from the class's name */
	bool		no_head;		/* the configuration says nothing of a vocabulary: the output is hidden
								 * rows */
	int			n_types;		/* token types, 0 = none */
	int			n_pos;			/* rows of a table of learned positions, 0 = none */
	int			pos_first;		/* row of position 0 in that table */
	int			bias_buckets;	/* attention has a learned bias by distance, with this many buckets; 0 =
								 * none */
	bool		qk_plain_norm;	/* in layers that rotate, heads of q and k are normed without weights */
	bool		no_attn;		/* before dec_conf(): no layer has attention or an MLP */
	bool		hybrid;			/* before dec_conf(): layers without KV heads are recurrent */
	SsmConf		ssm;
	MupConf		mup;
	bool		no_rope;		/* before dec_conf(): heads aren't rotated */
	float		eps;			/* of norms */
	KAct		act;			/* of the MLP */
	bool		xielu;			/* before dec_conf(): the activation may be xIELU, which has weights;
								 * after it: it is xIELU */
	bool		layer_norm;		/* LayerNorm instead of RMSNorm */
	bool		norm_bias;
	bool		no_norm_weight; /* norms have no weights */
	bool		no_final_norm;	/* there is no norm before the head */
	bool		post_norm;		/* norms come after the blocks and apply to the residual stream */
	bool		parallel;		/* attention and MLP have the same input */
	bool		two_norms;		/* attention and MLP in parallel, each with its own norm */
	bool		one_plus;		/* a norm's weight is 1 + what the file holds */
	QkNorm		qk_norm;		/* whether and how q and k are normed */
	bool		tied;			/* the head is the embedding */
	bool		head_bias;
	bool		head_norm;		/* the rows of the head are normalized to length 1 */
	bool		interleaved;	/* the file stores rotary pairs adjacent, not as halves */
	bool		permuted;		/* the GGUF converter permutes rotary pairs: the original model has halves */
	bool		qkv_bias;
	bool		o_bias;
	bool		mlp_bias;
	bool		down_bias;		/* encoders: the MLP's second matrix has a bias, even if the others have
								 * none */
	/* encoders: the MLP has a gate; before dec_conf(): activation names that imply a gate are
	 * accepted */
	bool		glu;
	float		clip_qkv;		/* q, k and v are clipped to -clip_qkv .. clip_qkv; 0 = no */
	float		attn_scale;		/* factor of q k; dec_conf() sets 1 / sqrt(head_dim) */
	float		attn_softcap;	/* 0 = none */
	Temper		temper;			/* for layers that are tempered */
	float	   *alibi;			/* [n_heads] slopes by distance, NULL = none */
	float		logit_softcap;	/* 0 = none */
	float		embed_scale;	/* factors; 0 = 1 */
	float		residual_scale;
	float		logit_scale;
	LayerConf  *layers;			/* [n_layers] */
	Rope		rope[DEC_ROPES];
	MoeConf		moe;
	MlaConf		mla;			/* before dec_conf() */
	DraftConf	draft;
} DecoderConf;

/*
 * y = x W^T + b for one or several matrices side by side (q|k|v, gate|up).  Parts of the same type are
 * packed as one matrix; parts of different types (possible in GGUF) stay separate, and each writes its
 * own columns.
 */
#define LINEAR_MAX 4
#define LINEAR_GAINS 5

/* Outputs from .. from + n - 1 are multiplied by this factor. */
typedef struct Gain
{
	int			from;
	int			n;
	float		by;
} Gain;

typedef struct Linear
{
	int			n;				/* all output columns */
	int			k;				/* inputs */
	int			n_parts;		/* tensors */
	bool		is_head;		/* head of the vocabulary: quantized with the head's type */
	bool		exact;			/* small and sensitive (a router): never quantized on loading */
	const KTensor *w[LINEAR_MAX];	/* in the file; NULL after loading */
	const KTensor *b[LINEAR_MAX];	/* in the file; NULL = no bias */
	KType		as[LINEAR_MAX]; /* types in memory: the tensors' own, unless quantized on loading */
	int			n_mats;			/* 1 or n_parts */
	KMat		mat[LINEAR_MAX];
	int			col[LINEAR_MAX];	/* first output column of each mat */
	float	   *bias;			/* [n], NULL = none */
	int			n_gains;
	Gain		gains[LINEAR_GAINS];
	int			lora;			/* its number among the targets of adapters; 0 = adapters can't change it */
	/* outputs of the whole matrix, if ranks split it by outputs; 0 = this rank has all */
	int			all;
	/* inputs of the whole matrix, if ranks split it by inputs and add up their results; 0 = this rank
	 * has all */
	int			k_all;
	int			k_from;			/* this Linear reads k of the file's inputs, from k_from on */
} Linear;

/* A module of the files that an adapter can change: rows of a Linear. */
typedef struct LoraSite
{
	char	   *module;			/* whole name, as in Hugging Face's checkpoints */
	Linear	   *l;
	int			target;			/* Linear.lora */
	bool		embedding;
	int			from;			/* first output in the Linear */
	int			n;
	int			n_file;			/* outputs in the file; output i of the file is output perm[i] here */
	int			k;
	int			k_from;			/* first input of the file that the Linear has */
	int			k_own;			/* number of inputs of the Linear, from k_from on */
	int32_t    *perm;			/* [n]; NULL = as in the file */
} LoraSite;

/* A step's rows, grouped by adapter. */
typedef struct LoraWork
{
	int			n;				/* adapters in the step; 0: LoRA costs nothing in this step */
	const LoraAdapter **of;		/* [cap] */
	int			cap;			/* rows for which there is room */
	int32_t    *group;			/* [cap] group (adapter) of each row; -1 = none */
	int32_t    *rows;			/* [cap] the rows of adapter g from start[g] on, ascending */
	int32_t    *start;			/* [cap + 1] */
	KLoraJob   *jobs;			/* [cap_jobs] */
	int			cap_jobs;
	float	   *t;				/* [rows][ldt] between the two products */
	size_t		t_size;
	int			ldt;
} LoraWork;

/* Matrices of one shape; each row of activations is multiplied with some of them (experts). */
typedef struct Stack
{
	int			n;
	int			per_row;		/* matrices that a row of the step is multiplied with */
	Linear	   *of;				/* [n] */
	KMat	   *mats;			/* [n_mats][n], after packing; NULL: the matrices have several types */
	const float **bias;			/* [n_mats][n], after packing */
} Stack;

/* Weights of a norm; without weights it only normalizes. */
typedef struct Norm
{
	float	   *w;				/* NULL = ones */
	float	   *b;				/* NULL = zeros */
} Norm;

/* Layers after a task's pooling (heads.c): y = norm(act(x W^T + b)), one after the other. */
#define HEAD_MAX 4

typedef enum HeadAct
{
	HA_NONE, HA_TANH, HA_SIGMOID, HA_RELU, HA_GELU, HA_GELU_TANH, HA_SILU
} HeadAct;

typedef struct HeadLayer
{
	Linear		dense;
	HeadAct		act;
	Norm		norm;			/* LayerNorm; without weights: no norm */
	float		eps;			/* epsilon of the norm; 0 = the model's */
} HeadLayer;

typedef struct Head
{
	int			n;				/* layers; 0 = none */
	HeadLayer	layers[HEAD_MAX];
} Head;

/* A mixture of experts. */
typedef struct Moe
{
	Linear		router;			/* hidden -> n_experts */
	float	   *correction;		/* [n_experts] or NULL */
	Stack		up;				/* hidden -> 2 inter, gate and up; without a gate inter */
	Stack		down;			/* inter -> hidden */
	float	   *out_bias;		/* [hidden] bias of the sum, or NULL */
	Linear		shared_up;		/* of the shared expert, which computes all rows */
	Linear		shared_down;
	Linear		shared_gate;	/* hidden -> 1 */
} Moe;

/* Multi-head latent attention. */
typedef struct Mla
{
	Linear		in;				/* hidden -> q or its latent, latent, rope */
	Norm		q_norm;			/* of q's latent */
	Linear		q;				/* q's latent -> q */
	Norm		norm;			/* of the latent */
	Stack		k;				/* of each head: plain part of q -> latent */
	Stack		v;				/* of each head: latent -> v */
} Mla;

typedef struct SsmLayer
{
	Linear		in;
	Linear		out;
	float	   *conv;			/* [width][channels] */
	float	   *conv_bias;
	Linear		x;				/* Mamba: inner -> dt_rank, B, C */
	Linear		dt;				/* Mamba: dt_rank -> inner */
	float	   *a;				/* Mamba: [inner][state], else [heads] */
	float	   *d;				/* [heads] */
	float	   *dt_bias;		/* [heads]; Mamba: dt's */
	Norm		dt_norm;		/* Mamba: of what dt, B and C are made from */
	Norm		b_norm;
	Norm		c_norm;
	Norm		norm;			/* Mamba-2: after or before the gate */
} SsmLayer;

/* A layer's weights: those that its architecture binds, the others stay empty. */
typedef struct Layer
{
	const LayerConf *c;
	Norm		attn_norm;		/* before attention */
	Norm		attn_out_norm;	/* after it */
	Norm		mlp_norm;		/* before the MLP */
	Norm		mlp_out_norm;	/* after it */
	Norm		q_norm;			/* of each head, or of all heads as one vector */
	Norm		k_norm;
	Linear		qkv;			/* hidden -> (n_heads + 2 n_kv_heads) head_dim */
	Linear		o;				/* n_heads head_dim -> hidden */
	float	   *sinks;			/* [n_heads] an additional score of each head that has no value; NULL =
								 * none */
	float	   *xielu[4];		/* single numbers; NULL = those of LayerConf */
	Linear		up;				/* hidden -> 2 inter, gate and up; without a gate inter */
	Linear		down;			/* inter -> hidden */
	Moe			moe;			/* instead of up and down */
	Mla			mla;			/* instead of qkv */
	/* scales of an FP8 cache's K and V from the checkpoint; NULL = it has none */
	float	   *kv_scale[2];
	int			n_kv_scale[2];
	SsmLayer	ssm;
} Layer;

/* Buffers of dec_moe(), for at most `rows` rows at once. */
typedef struct MoeWork
{
	int			rows;
	float	   *logits;			/* [rows][n_experts] */
	float	   *space;			/* [rows][n_experts] */
	float	   *weights;		/* [rows][top_k] */
	int32_t    *experts;		/* [rows][top_k] */
	int32_t    *place;			/* [rows][top_k] row of the pair in x, gu, act */
	/* [n_experts + 1] first row of each expert in x, gu, act; if ranks have whole experts, of each
	 * slot */
	int32_t    *start;
	int32_t    *own;			/* first rows of this rank's experts, relative to its first expert's */
	KOp		   *in;				/* [rows top_k][hidden]; uses x's memory if operands are floats */
	float	   *x;				/* [rows top_k][hidden] outputs of the experts */
	float	   *gu;				/* [rows top_k][2 inter] */
	KOp		   *act;			/* [rows top_k][inter] */
	float	   *gate;			/* [rows] gate of the shared expert */
} MoeWork;

/* Buffers of dec_mla(). */
typedef struct MlaWork
{
	int			rows;			/* most rows at once, except for q */
	float	   *q;				/* [max_rows][heads][plain + rope] */
	float	   *a;				/* [heads][rows][v] results of v's matrices */
	float	   *b;				/* [heads][rows][latent] results of k's matrices */
	float	   *latent_q;		/* [rows][heads][latent + rope] */
	/* operands; if these are floats, they share memory with a, b and latent_q, as both are never needed
	 * at once */
	KOp		   *plain;			/* [heads][rows][plain] */
	KOp		   *out;			/* [rows][heads][latent] output of attention */
	KOp		   *turned;			/* [heads][rows][latent] the same, transposed */
	int32_t    *start;			/* [heads + 1] */
	int32_t    *seq_start;		/* [rows + 1]; in the host's memory */
} MlaWork;

typedef struct Bound Bound;
typedef struct Arch Arch;

/* Parts that only drafters have, beside layers or instead of them. */
typedef struct DraftPart
{
	/* the target; the drafter uses its embedding and head if it has none of its own; NULL: only
	 * checking, no computing */
	struct Decoder *lender;
	const Arch *inner;			/* architecture of its layer; NULL = its own */
	Norm		token_norm;		/* of the token's row; without weights: no norm */
	Norm		given_norm;		/* of the target's row */
	Linear		fuse;			/* both rows side by side, or the target's row alone -> hidden */
	float	   *pair;			/* [rows][pair_width] */
	int			pair_width;
	/* heads */
	Linear	   *blocks;			/* Medusa: [heads][blocks]; MLP speculator: [heads] from state to state */
	Linear	   *outs;			/* [heads]; none: use the lender's head */
	Linear	   *tables;			/* MLP speculator: [heads] embeddings */
	Norm	   *norms;			/* MLP speculator: [heads] */
	int			n_outs;
} DraftPart;

typedef struct Balance Balance;

/* How ranks share the model (shard.h).  The sizes in DecoderConf are then this rank's. */
typedef struct DecRanks
{
	KComm	   *tp;				/* NULL = this rank has all columns */
	KComm	   *pp;				/* NULL = this rank has all layers */
	bool		rows;			/* matrices are split by inputs and their results summed, where possible,
								 * instead of gathered */
	bool		lends;			/* the embedding isn't split, as drafters read it */
	bool		heads;			/* the heads of attention are split */
	bool		experts;		/* experts are not split but distributed whole */
	bool		round_robin;	/* whole experts are assigned to ranks one by one */
	int			n_slots;		/* slots for whole experts, those of all ranks side by side; */
	int			slot_width;		/* numbers per expert in the tables of moe_slots; 0: expert i is in slot i */
	size_t		slot_step;		/* numbers from a layer's table to the next; 0: one table for all layers */
	size_t		slot_ints;		/* numbers of all tables */
	int32_t    *slots;			/* host copy of the tables */
	DevMem		slot_mem;		/* device copy of the tables */
	Balance    *balance;	/* moves experts (expert_migration.h); NULL = they stay */
	int			moe_inter;		/* total width of an expert whose columns are split; 0 = they aren't */
	int			first_layer;	/* number of layers[0] in the whole model */
	int			max_out;		/* most rows of logits */
	/* [max_rows] in the host's memory: rows of the tokens in a split embedding; NULL = it isn't split */
	int32_t    *places;
	float	   *part;			/* this rank's part of a result that all ranks need */
	/* pinned, if there is a device: */
	int32_t    *starts;			/* [2][n_slots + 1] first rows of the experts, of all and of the rank's own */
	float	   *hidden;			/* [max_out][hidden] the first rank's rows, to send to the others */
} DecRanks;

typedef struct Decoder
{
	DecoderConf c;
	const Kernels *k;
	KPool	   *pool;
	const Dev  *dev;			/* device where ops run; NULL = CPUs */
	DevWait		wait;			/* of the current step */
	int			max_rows;
	HugePages	huge;

	/* weights */
	MArena		weights;
	DevMem		on_dev;			/* copy on the device; then all pointers point into it: */
	void	 ***placed;			/* [n_placed] addresses of these pointers */
	size_t		n_placed;
	void	   *left;			/* former address, while the memory is given back */
	Bound	   *bound;			/* everything bound, in the order of the arena */
	Linear		embed;			/* [vocab][embed_width] */
	Linear		pos;			/* [n_pos][hidden]: learned positions */
	Linear		types;			/* [n_types][hidden]: token types */
	Linear		project_in;		/* embed_width -> hidden, and back; empty if the widths are equal */
	Linear		project_out;
	Norm		embed_norm;		/* of the embedding */
	float	   *buckets;		/* [n_heads][bias_buckets] */
	Linear		head;			/* [vocab][hidden]; unused when tied */
	float	   *head_norm;		/* [vocab] 1 / length of the head's rows; in the work space */
	Head		classifier;		/* for labels, scores and rewards */
	PoolKind	classifier_pool;	/* the rows that it reads */
	Head		dense;			/* sentence-transformers' layers after an embedding */
	Head		row_layers;		/* sentence-transformers' layers for each token's row, before pooling */
	bool		scores_tokens;	/* a score is computed with the vocabulary's head: */
	float	   *token_row;		/* [hidden] the token ids' rows combined; in the work space; NULL = none */
	float		token_bias;
	Layer	   *layers;
	Norm		norm;			/* before the head */
	DraftPart	draft;
	Stack	  **stacks;			/* all stacks */
	size_t		n_stacks;

	LoraSite   *sites;			/* [n_sites] */
	int			n_sites;
	int			n_targets;		/* targets have numbers 1 .. n_targets - 1 */
	LoraWork	lora;
	DecRanks	ranks;

	size_t		state_floats;	/* floats of a sequence's state */
	int			n_kv_layers;

	/* work space, rows x width */
	MArena		work;
	DevMem		work_dev;		/* copy on the device */
	float	   *x;				/* hidden: the residual stream */
	float	   *y;				/* hidden: the output of a block, to be added to x */
	KOp		   *h;				/* hidden: normed */
	/* h before its conversion to operands, after the last norm; h itself if operands are floats */
	const float *last;
	float	   *qkv;			/* (n_heads + 2 n_kv_heads) head_dim */
	KOp		   *att;			/* n_heads head_dim */
	float	   *gu;				/* 2 inter: gate, up */
	KOp		   *act;			/* inter */
	KOp		   *opx;			/* [max_rows][widest] output of dec_op(); NULL if operands are floats */
	MoeWork		moe;
	MlaWork		mla;
	float	   *ssm_y;			/* inner: before its conversion to att; uses att's memory if operands are
								 * floats */
	float	   *ssm_x;			/* after the convolution */
	float	   *ssm_p;			/* Mamba: dt_rank + 2 state */
	float	   *ssm_dt;			/* Mamba: inner */
	float	   *head_x;			/* [HEAD_ROWS][widest] between a head's layers */
	float	   *head_y;			/* [HEAD_ROWS][widest] */
	void	   *ws;				/* scratch of mm and attn */
	size_t		ws_size;
	void	   *ws_extra;		/* larger scratch, allocated if the blocks of the KV cache need it */

	int32_t    *ids;			/* [max_rows] row numbers of a table other than the batch's; in the host's
								 * memory */
	/* [max_rows] bidirectional attention: end position of each row's sequence (exclusive); in the host's
	 * memory */
	int32_t    *ends;
	float	   *bias;			/* [n_heads][2 bias_span - 1] attention's bias by distance (KAttn); NULL =
								 * none */
	int			bias_span;
	float	   *alibi;			/* [n_heads] DecoderConf's, in the memory of ops; NULL = none */

	/* the step in progress */
	const Batch *b;
	const KvView *kv;
	int			rows;
	bool		lost;			/* the device is lost: no result is valid */
	bool		stopped;		/* by Batch.stop: nothing more is computed, rows = 0 */
	bool		pending;		/* y has not yet been added to x */
	/* rotation still to be applied to q and K, if it is done together with storing K; NULL = none */
	const Rope *rotate;
	Profile    *profile;		/* NULL = none */
} Decoder;

typedef struct Binder Binder;

/* A row of models.def. */
struct Arch
{
	const char *name;
	const char *classes;		/* class names in Hugging Face's configuration, separated by blanks */
	const char *gguf;			/* values of general.architecture, separated by blanks */
	bool		(*conf) (const Conf *c, DecoderConf *out, Err *e);
	bool		(*bind) (Binder *b, Decoder *d);
	void		(*forward) (Decoder *d, float *logits);
};

/* ---- model.c ---- */
/* Return the architecture that a configuration names. */
const Arch *model_arch(const Conf *c, HeadKind *head, Err *e);
/* Like model_new(), for an architecture that isn't in models.def; weights that it lacks are the
 * lender's. */
Model	   *model_new_as(const Arch *a, Model *lender, const Conf *conf, const ModelSource *src,
						 const ModelOptions *opt, Err *e);
/* Like model_check(), for an architecture that isn't in models.def.  lender: facts about the lender. */
bool		model_check_as(const Arch *a, const ModelInfo *lender, const Conf *conf, const ModelSource *src,
						   const QuantScheme *quant, const Kernels *k, ModelInfo *info, DraftConf *draft,
						   Err *e);
Decoder    *model_decoder(Model *m);

/* ---- draft.c ---- */
/* Compute x from the tokens' rows and the target's rows beside them. */
void		dec_fuse(Decoder *d);
/* y = the tokens' rows of the embedding, which may be the lender's */
void		dec_draft_rows(Decoder *d, float *y);

/* ---- decoder.c: blocks of a forward pass, in the order of use ---- */
void		dec_embed(Decoder *d);	/* x = E[token] + P[position] + T[type] */
void		dec_embed_norm(Decoder *d);	/* x = norm(x) */
void		dec_widen(Decoder *d);	/* x = x Win, if the embedding is narrower than hidden */
void		dec_norm(Decoder *d, const Norm *n);	/* x += y if pending; h = norm(x) */
void		dec_plain(Decoder *d);	/* x += y if pending; h = x: for models whose norm comes after the
									 * block */
void		dec_qkv(Decoder *d, const Layer *l);	/* qkv = h Wqkv */
void		dec_qk_norm(Decoder *d, const Layer *l);	/* norm q and k, if the layer has those norms */
void		dec_rope(Decoder *d, const Layer *l);	/* rotate q and k by position */
void		dec_qk_plain_norm(Decoder *d);	/* norm the heads of q and k, without weights */
void		dec_temper(Decoder *d, const Layer *l);	/* scale q by position, in tempered layers */
void		dec_attn(Decoder *d, const Layer *l);	/* store k, v; att = softmax(q k scale) v */
bool		dec_wanted(Decoder *d, const Layer *l);	/* after the last layer's attention: keep only the
													 * wanted rows of x, h and att; false if there are
													 * none */
void		dec_o(Decoder *d, const Layer *l);	/* y = att Wo, or Wout of a state-space layer */
void		dec_out_norm(Decoder *d, const Norm *n);	/* y = norm(y) */
void		dec_add(Decoder *d);	/* x += y */
void		dec_input(Decoder *d);	/* y += x */
void		dec_post_norm(Decoder *d, const Norm *n);	/* x = h = norm(x + y) */
void		dec_glu(Decoder *d, const Layer *l);	/* y = (act(h Wg) * h Wu) Wd */
void		dec_mlp(Decoder *d, const Layer *l);	/* y = act(h Wu) Wd */
void		dec_mla(Decoder *d, const Layer *l);	/* q, k, v and attention together: att */
void		dec_moe(Decoder *d, const Layer *l);	/* y = sum of w_i expert_i(h) */
void		dec_ffn(Decoder *d, const Layer *l);	/* dec_moe or dec_glu */
void		dec_head(Decoder *d, float *logits);	/* logits = norm(x + y) W */
void		dec_logits(Decoder *d, float *logits);	/* logits = h W; or h itself, if hidden rows are wanted */

/* ---- lora_targets.c ---- */
/* Register a module's matrix as the next n outputs of l (bind_site()). */
void		lora_add_site(Decoder *d, Linear *l, const char *module, int n_file, const int32_t *rows, int n);
/* Number the targets of adapters; number 0 means none. */
void		lora_number_targets(Decoder *d);

/* ---- lora.c ---- */
LoraAdapter *lora_new(const Decoder *d, const LoraModule *modules, int n, const LoraInfo *info, KType as,
					  const char *path, Err *e);
/* Group a step's rows by Batch.lora, or n rows that are no step by `of`. */
void		dec_lora_begin(Decoder *d);
void		dec_lora_rows(Decoder *d, const LoraAdapter *const *of, int n);
/* Keep only the wanted rows' groups. */
void		dec_lora_keep(Decoder *d);
/* y += the adapters' contribution to a target, for rows from .. to - 1. */
void		dec_lora(Decoder *d, int target, const KOp *x, int ldx, int from, int to, float *y, int ldy);
void		dec_lora_embed(Decoder *d, float *y);
void		dec_lora_free(Decoder *d);

/* Return element i of operands. */
static inline KOp *
kop_at(const Decoder *d, const KOp *x, size_t i)
{
	return (KOp *) (void *) ((char *) (uintptr_t) x + i * (size_t) d->k->op_size);
}

/* Return true if operands are floats, so that what makes them can work in place. */
static inline bool
dec_op_floats(const Decoder *d)
{
	return d->k->op_size == (int) sizeof(float);
}

/* y[rows][ldy] = x[rows][ldx] W^T + b */
void		dec_linear(Decoder *d, const Linear *l, const float *x, int ldx, int rows, float *y, int ldy);
void		dec_linear_op(Decoder *d, const Linear *l, const KOp *x, int ldx, int rows, float *y, int ldy);
/* Multiply n outputs, already bound, by a factor. */
void		linear_gain(Linear *l, int from, int n, float by);
/* Multiply rows start[g] .. start[g + 1] - 1 by the stack's matrix g. */
void		dec_stack(Decoder *d, const Stack *s, const int32_t *start, const KOp *x, int ldx, float *y,
					  int ldy);

/* ---- ssm.c ---- */
/* Read the sizes of state-space layers; values in o->ssm before the call are the defaults. */
bool		dec_conf_ssm(const Conf *c, DecoderConf *o, Err *e);
/* Decide which layers have K and V or a state: set LayerConf.kv and state_at, Decoder.state_floats and
 * n_kv_layers. */
void		dec_state_plan(Decoder *d);
int			ssm_channels(const SsmConf *s);	/* channels of the convolution */
/* Bind a layer's state-space weights; their names begin with `hf` ("mixer.", "mamba."). */
bool		bind_ssm(Binder *b, Decoder *d, Layer *l, const char *hf);
void		dec_ssm(Decoder *d, const Layer *l);	/* att = the recurrence over h Win */
void		dec_short_conv(Decoder *d, const Layer *l);	/* att = C conv(B x) of B, C, x = h Win */
void		dec_ssm_out(Decoder *d, const Layer *l);	/* y = att Wout, in architectures where dec_o() is
														 * attention's projection */

/* ---- relative_bias.c ---- */
/* Compute d->bias from d->buckets, after the weights are packed; d->bias has room for bias_span. */
void		dec_bias_table(Decoder *d);

/* ---- moe.c ---- */
/* Read the experts' settings for all layers, by the usual keys; values in o->moe before the call are the
 * defaults. */
bool		dec_conf_moe(const Conf *c, DecoderConf *o, Err *e);

/* ---- mla.c ---- */
/* Read the settings of latent attention, by the usual keys; call before dec_conf().  The value of
 * mla.q_latent before the call is its default. */
bool		dec_conf_mla(const Conf *c, DecoderConf *o, Err *e);

/* ---- decoder_config.c: the part of config.json that all decoders share ---- */
bool		dec_conf(const Conf *c, DecoderConf *out, Err *e);
/* Compute rotary frequencies; max_len must be set. */
bool		dec_conf_ropes(const Conf *c, DecoderConf *out, Err *e);
void		dec_conf_free(DecoderConf *c);
/* Read an integer lo..hi.  dflt if the key is absent; with dflt < lo the key is required. */
bool		dec_conf_int(const Conf *c, const char *key, int lo, int hi, int dflt, int *out, Err *e);
/* Return the first of several keys (list ends with NULL) that exists, or the first of the list if none
 * does. */
const char *dec_conf_key(const Conf *c, const char *const *keys);
/* Read the window of some layers: dflt if the key is absent; 0 (no window) if it is null, which is an
 * error with `needed`. */
bool		dec_conf_window(const Conf *c, int dflt, bool needed, int *out, Err *e);
/* Read a finite number above lo and at most hi; dflt if the key is absent. */
bool		dec_conf_num(const Conf *c, const char *key, double lo, double hi, double dflt, float *out,
						 Err *e);
/* Look up an activation function by its name in a configuration. */
bool		dec_conf_act(const char *name, KAct *out, Err *e);
/*
 * Set the window of the layers whose "layer_types" say "sliding_attention"; without that key of all but
 * each n-th layer by "sliding_window_pattern", or of those for which by_default returns true. window: 0
 * = none.
 */
bool		dec_conf_windows(const Conf *c, DecoderConf *o, int window,
							 bool (*by_default) (const Conf *c, int layer), Err *e);

/* Read Ministral 3's factor of q by position, for all layers, if the keys of RoPE have it. */
bool		dec_conf_temper(const Conf *c, DecoderConf *o, Err *e);

/* Set the slopes of ALiBi (Press et al. 2021, arXiv:2108.12409): head i's slope is factor * 2^(-max_bias
 * i / heads). */
void		dec_conf_alibi(DecoderConf *o, double max_bias, double factor);

/* Return the file of a tensor, or the model's path (t NULL), for an error message. */
const char *dec_where(const ModelSource *src, const KTensor *t);

/* Copy a string for an error message: printable ASCII, cut to size - 1. */
const char *dec_printable(const char *s, char *buf, size_t size);

/* ---- bind.c, pack.c ---- */
/* Find every tensor and check its shape; fills d->bound and, in *info, n_params, dtype and (before
 * packing) weight_bytes.  quant NULL: keep the types of the file. */
bool		dec_bind(Decoder *d, const Arch *a, const Conf *conf, const ModelSource *src,
					 const QuantScheme *quant, ModelInfo *info, Err *e);
/* Return true if a vector is bound to *to.  Call before dec_unbind(). */
bool		dec_bound(const Decoder *d, float *const *to);
/* Compute a step's work from what is bound (flops.c). */
void		dec_work(const Decoder *d, ModelWork *w);
void		dec_unbind(Decoder *d);	/* the files may be closed afterwards */
/* Pack the tensors that dec_bind found, or map them from the cache; sets info->weight_bytes. */
bool		dec_pack(Decoder *d, const ModelSource *src, const ModelOptions *opt, ModelInfo *info, Err *e);
/* Build a stack's array of packed matrices; stack_free() frees it. */
void		stack_ready(Stack *s);
/* Update a stack after its matrices got other addresses. */
void		stack_again(Stack *s);
void		stack_free(Stack *s);

/* ---- the architectures ---- */
#define MODEL(name, classes, gguf, conf, bind, forward) \
	bool		conf(const Conf *c, DecoderConf *out, Err *e); \
	bool		bind(Binder *b, Decoder *d); \
	void		forward(Decoder *d, float *logits);
#include "model/models.def"
#undef MODEL

/* Granite's keys beyond Llama's */
bool		granite_multipliers(const Conf *c, DecoderConf *out, Err *e);
/* DeepSeek's mixtures: which layers have experts; V3's routing */
bool		deepseek_sigmoid(const Conf *c, DecoderConf *out, Err *e);
/* which layers of Qwen's mixtures have experts */
bool		qwen_moe_layers(const Conf *c, DecoderConf *out, Err *e);
/* Parts of Gemma 2 for its successors.  layers_by_width: number of layers of the model whose scores are
 * scaled differently. */
bool		gemma2_attn(const Conf *c, DecoderConf *out, int layers_by_width, Err *e);
/* keys and defaults of GPT-2's descendants */
bool		gpt2_common(const Conf *c, DecoderConf *out, Err *e);
/* Set the window of all layers: dflt if the key is absent, 0 = none.  GGUF's "llama" may have one,
 * too. */
bool		mistral_windows(const Conf *c, DecoderConf *out, int dflt, Err *e);

#endif
