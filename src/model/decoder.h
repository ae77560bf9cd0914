/*
 * decoder.h
 *	  Private to src/model: a decoder-only transformer and the blocks that its
 *	  forward pass is written in.
 *
 * An architecture is a file with three functions: one reads its configuration into
 * a DecoderConf, one names its weights (bind.h), one writes the forward pass with
 * the dec_* blocks below.  Nothing here asks which architecture it is.
 *
 * Ownership: Decoder owns two arenas, weights (immutable after loading) and work
 * space (written by the step thread only).  All activations are float rows.
 */
#ifndef VLLM_MODEL_DECODER_H
#define VLLM_MODEL_DECODER_H

#include "model/weights/arena.h"
#include "model/weights/device_arena.h"
#include "model/model.h"
#include "model/layers/moe.h"
#include "model/layers/rope.h"

/* Limits that keep every product of two of these inside 63 bits. */
#define DEC_MAX_HIDDEN	(1 << 18)
#define DEC_MAX_INTER	(1 << 20)
#define DEC_MAX_LAYERS	4096
#define DEC_MAX_HEADS	4096
#define DEC_MAX_HEAD_DIM 1024
#define DEC_MAX_VOCAB	(1 << 24)
#define DEC_MAX_LEN		(1 << 27)

/* What may differ from layer to layer. */
typedef struct LayerConf
{
	int			window;			/* of attention, in positions; 0 = the whole context */
	int			ahead;			/* both ways: with a window, so many positions ahead */
	int			chunk;			/* attention within chunks of so many positions; 0 = no */
	bool		tempered;		/* q grows with the position */
	float		xielu[4];		/* alpha_p, alpha_n, beta, eps, unless the layer has tensors of them */
	bool		sliding;		/* its type is "sliding_attention", even if the window exceeds the context */
	int			rope;			/* number of its rotary table, -1 = no positions */
	bool		moe;			/* experts instead of one MLP */
	float		attn_scale;		/* instead of DecoderConf's; 0 = that */
	bool		recurrent;		/* a state-space layer instead of attention, */
	bool		both;			/* a state-space layer in parallel to attention */
	int			kv;				/* its number among the layers with K and V; set behind the reader */
	size_t		state_at;		/* its part of a sequence's state, in floats; set after the reader */
} LayerConf;

/* A rotary embedding: up to two, as some layers of a model may have their own. */
#define DEC_ROPES 2

typedef struct Rope
{
	RopeKeys	keys;
	float		part;			/* default of partial_rotary_factor; 0 = 1 */
	int			dim;			/* of each head, from its first; even; 0 = unused */
	float		mscale;			/* factor of cos and sin */
	float	   *inv_freq;		/* [dim / 2] */
	float	   *table;			/* [max_len][dim / 2][2] cos, sin; in the work space */
} Rope;

/* State-space layers; heads of one channel for the first Mamba. */
typedef struct SsmConf
{
	bool		short_conv;		/* none of them: a convolution between two gates */
	bool		first;			/* Mamba, else Mamba-2 */
	int			inner;			/* channels = heads * head_dim */
	int			state;			/* of each channel */
	int			width;			/* of the convolution */
	int			heads;
	int			head_dim;
	int			groups;			/* of heads that share B and C */
	int			dt_rank;		/* Mamba: a step is made from this many values */
	float		dt_min;			/* limits of a step */
	float		dt_max;
	bool		conv_bias;
	bool		in_bias;		/* of the projections */
	bool		out_bias;
	bool		norm;			/* Mamba-2: a norm behind the gate, */
	bool		norm_first;		/* Mamba-2: the norm comes before the gate */
	bool		norm_dt_bc;		/* Mamba: steps, B and C are normed, */
	bool		norm_dt_bc_w;	/* Mamba: the norms of steps, B and C have weights */
	float		norm_dt_bc_eps;
} SsmConf;

/* Factors of what Falcon-H1's matrices give (Yang et al. 2022, arXiv:2203.03466); all 0: none. */
typedef struct MupConf
{
	float		attn_in;		/* of attention's input */
	float		key;
	float		attn_out;
	float		ssm_in;			/* of the state-space layer's input */
	float		ssm[5];			/* of its gate, x, B, C and steps */
	float		ssm_out;
	float		gate;			/* of the MLP */
	float		down;
} MupConf;

/* q is multiplied with 1 + scale log(1 + (position + first) / every), rounded down, of the context. */
typedef struct Temper
{
	float		scale;
	int			every;
	int			first;
} Temper;

typedef enum QkNorm
{
	QKNORM_SHARED,				/* each head by itself, with the same weights */
	QKNORM_HEADS,				/* each head by itself, with weights of its own */
	QKNORM_WIDE					/* all heads as one vector */
} QkNorm;

/* Multi-head latent attention (mla.c). */
typedef struct MlaConf
{
	int			latent;			/* width of what is kept of a token's k and v; 0 = ordinary attention */
	int			q_latent;		/* width of what is kept of q, 0 = none */
	int			plain;			/* of each head of q and k: without a position, */
	int			rope;			/* of each head of q and k: the part with a rotary position */
	int			v;				/* width of each head of v */
} MlaConf;

/* What a checkpoint has on top of the model, by its class ("BertForTokenClassification"). */
typedef enum HeadKind
{
	HEAD_LM,					/* ForCausalLM: the vocabulary */
	HEAD_BARE,					/* Model, ForMaskedLM: hidden rows are what is wanted */
	HEAD_SEQUENCE,				/* ForSequenceClassification: labels of a text */
	HEAD_TOKENS,				/* ForTokenClassification: labels of each token */
	HEAD_REWARD,				/* ForRewardModel */
	HEAD_STEPS					/* ForProcessRewardModel: labels of each step */
} HeadKind;

/* What guesses tokens (draft.h) reads from its configuration. */
typedef struct DraftConf
{
	/* width of the rows of another model that it is given; 0 = it isn't given any */
	int			given;
	int			n_layers;		/* layers that get rows of another model */
	int			layers[TAP_LAYERS];
	int			heads;			/* guesses from one row; 0 = any number, each from the one before */
	int			blocks;			/* Medusa: of each head */
	int			inner;			/* MLP speculator: width of its state */
	bool		tied;			/* MLP speculator: one set of weights for all heads */
	bool		scaled;			/* MLP speculator: the input rows are normed */
	bool		norm_residual;	/* EAGLE-3: the residual stream begins behind the norm */
	bool		mask_first;		/* the token of the first row counts as zeros */
	bool		given_first;	/* what is given stands before the token's row */
	bool		fed_raw;		/* it gets back what stands before its last norm */
	bool		given_raw;		/* the drafter gets the target's rows before the last norm */
	int			most;			/* guesses in a row, of what has no heads; 0 = any number */
	bool		own_embed;		/* the embedding isn't the target's */
	bool		own_head;
	int			after;			/* MTP: the number of the model's layers */
} DraftConf;

/* What an architecture reads from config.json.  Zero is the plain choice of all
 * that dec_conf() doesn't set.  What stands in sizes, eps, act, tied and rope[].keys before
 * dec_conf() is the architecture's default of a key that may be absent. */
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
	int			mlp_ratio;		/* before dec_conf(): inter / hidden where no key says inter */
	int			embed_width;	/* of the embedding, if it isn't hidden; 0 = hidden */
	bool		narrow;			/* positions, types and their norm have the embedding's width */
	bool		both_ways;		/* attention sees what follows, too */
	HeadKind	head;			/* before dec_conf(): by the name of the class */
	bool		no_head;		/* nothing is said of the vocabulary: hidden rows are all there is */
	int			n_types;		/* token types, 0 = none */
	int			n_pos;			/* rows of a table of learned positions, 0 = none */
	int			pos_first;		/* its row of position 0 */
	int			bias_buckets;	/* attention has a bias by distance, of so many kinds; 0 = none */
	bool		qk_plain_norm;	/* heads of q and k are normed without weights, if they are rotated */
	bool		no_attn;		/* before dec_conf(): no layer has attention or an MLP */
	bool		hybrid;			/* before dec_conf(): layers without KV heads are recurrent */
	SsmConf		ssm;
	MupConf		mup;
	bool		no_rope;		/* before dec_conf(): heads aren't rotated */
	float		eps;			/* of norms */
	KAct		act;			/* of the MLP */
	bool		xielu;			/* before dec_conf(): it may be xIELU, which has weights; behind it: it is */
	bool		layer_norm;		/* LayerNorm instead of RMSNorm */
	bool		norm_bias;
	bool		no_norm_weight; /* norms only normalize */
	bool		no_final_norm;	/* none before the head */
	bool		post_norm;		/* norms behind the blocks, of the residual stream */
	bool		parallel;		/* attention and MLP side by side */
	bool		two_norms;		/* attention and MLP side by side, each with its own norm */
	bool		one_plus;		/* a norm's weight is 1 + what the file holds */
	QkNorm		qk_norm;		/* where q and k are normed */
	bool		tied;			/* the head is the embedding */
	bool		head_bias;
	bool		head_norm;		/* the head's rows count with length 1 */
	bool		interleaved;	/* rotary pairs lie side by side in the file, not as halves */
	bool		permuted;		/* the GGUF converter permutes them: the original model has halves */
	bool		qkv_bias;
	bool		o_bias;
	bool		mlp_bias;
	bool		down_bias;		/* encoders: of the MLP's second matrix, by itself */
	/* encoders: the MLP has a gate; before dec_conf(): names of such activations are known */
	bool		glu;
	float		clip_qkv;		/* q, k and v are cut to -clip_qkv .. clip_qkv; 0 = no */
	float		attn_scale;		/* of q k; dec_conf(): 1 / sqrt(head_dim) */
	float		attn_softcap;	/* 0 = none */
	Temper		temper;			/* of layers that are tempered */
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
 * y = x W^T + b for one or several matrices side by side (q|k|v, gate|up).  Parts
 * of one type are packed as a single matrix; parts of different types (possible
 * in GGUF) stay apart and write their own columns.
 */
#define LINEAR_MAX 4
#define LINEAR_GAINS 5

/* Outputs from .. from + n - 1 are multiplied with this. */
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
	bool		is_head;		/* of the vocabulary: quantized with the head's type */
	bool		exact;			/* small and delicate (a router): never quantized on loading */
	const KTensor *w[LINEAR_MAX];	/* in the file; NULL after loading */
	const KTensor *b[LINEAR_MAX];	/* in the file; NULL = no bias */
	KType		as[LINEAR_MAX]; /* types in memory: the tensors', unless they get quantized */
	int			n_mats;			/* 1 or n_parts */
	KMat		mat[LINEAR_MAX];
	int			col[LINEAR_MAX];	/* first output column of each mat */
	float	   *bias;			/* [n], NULL = none */
	int			n_gains;
	Gain		gains[LINEAR_GAINS];
	int			lora;			/* its number among the targets of adapters; 0 = it can have none */
	/* ranks share its outputs, of which these are as many; 0 = what it has is all */
	int			all;
	/* ranks share its inputs, of which there are as many, and what each gives is added up; 0 = they don't; */
	int			k_all;
	int			k_from;			/* the Linear's inputs are these k of the file's, from k_from on */
} Linear;

/* A module of the files whose matrix can have something added: rows of a Linear. */
typedef struct LoraSite
{
	char	   *module;			/* whole name, as in Hugging Face's checkpoints */
	Linear	   *l;
	int			target;			/* Linear.lora */
	bool		embedding;
	int			from;			/* first output in the Linear */
	int			n;
	int			n_file;			/* outputs in the file, of which output i is our output perm[i] */
	int			k;
	int			k_from;			/* of the file's inputs the Linear has k_own, */
	int			k_own;			/* number of inputs of the Linear, from k_from on */
	int32_t    *perm;			/* [n]; NULL = as in the file */
} LoraSite;

/* A step's rows by adapter. */
typedef struct LoraWork
{
	int			n;				/* adapters in the step; 0: nothing of this costs anything */
	const LoraAdapter **of;		/* [cap] */
	int			cap;			/* rows there is room for */
	int32_t    *group;			/* [cap] of each row; -1 = none */
	int32_t    *rows;			/* [cap] those of adapter g from start[g] on, ascending */
	int32_t    *start;			/* [cap + 1] */
	KLoraJob   *jobs;			/* [cap_jobs] */
	int			cap_jobs;
	float	   *t;				/* [rows][ldt] between the two products */
	size_t		t_size;
	int			ldt;
} LoraWork;

/* Matrices of one shape, of which each row of activations is multiplied with one. */
typedef struct Stack
{
	int			n;
	int			per_row;		/* matrices that a row of the step is multiplied with */
	Linear	   *of;				/* [n] */
	KMat	   *mats;			/* [n_mats][n], once they are packed; NULL: of several types */
	const float **bias;			/* [n_mats][n], once they are packed */
} Stack;

/* Weights of a norm; without any, it only normalizes. */
typedef struct Norm
{
	float	   *w;				/* NULL = ones */
	float	   *b;				/* NULL = zeros */
} Norm;

/* What stands behind a task's pooling (heads.c): y = norm(act(x W^T + b)), one layer after the other. */
#define HEAD_MAX 4

typedef enum HeadAct
{
	HA_NONE, HA_TANH, HA_SIGMOID, HA_RELU, HA_GELU, HA_GELU_TANH, HA_SILU
} HeadAct;

typedef struct HeadLayer
{
	Linear		dense;
	HeadAct		act;
	Norm		norm;			/* LayerNorm; without weights: none */
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
	float	   *out_bias;		/* [hidden] of the sum, or NULL */
	Linear		shared_up;		/* of the expert for all rows */
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
	Norm		norm;			/* Mamba-2: behind or before the gate */
} SsmLayer;

/* A layer's weights: those that its architecture binds, the others stay empty. */
typedef struct Layer
{
	const LayerConf *c;
	Norm		attn_norm;		/* before attention */
	Norm		attn_out_norm;	/* behind it */
	Norm		mlp_norm;		/* before the MLP */
	Norm		mlp_out_norm;	/* behind it */
	Norm		q_norm;			/* of each head, or of all side by side */
	Norm		k_norm;
	Linear		qkv;			/* hidden -> (n_heads + 2 n_kv_heads) head_dim */
	Linear		o;				/* n_heads head_dim -> hidden */
	float	   *sinks;			/* [n_heads] a score more for each head, without a value; NULL = none */
	float	   *xielu[4];		/* numbers; NULL = those of LayerConf */
	Linear		up;				/* hidden -> 2 inter, gate and up; without a gate inter */
	Linear		down;			/* inter -> hidden */
	Moe			moe;			/* instead of up and down */
	Mla			mla;			/* instead of qkv */
	/* of an FP8 cache's K and V, as the checkpoint has them; NULL = it has none */
	float	   *kv_scale[2];
	int			n_kv_scale[2];
	SsmLayer	ssm;
} Layer;

/* What dec_moe() writes to, for at most `rows` rows at once. */
typedef struct MoeWork
{
	int			rows;
	float	   *logits;			/* [rows][n_experts] */
	float	   *space;			/* [rows][n_experts] */
	float	   *weights;		/* [rows][top_k] */
	int32_t    *experts;		/* [rows][top_k] */
	int32_t    *place;			/* [rows][top_k] where the pair's row of x, gu, act is */
	/* [n_experts + 1] first row of each expert there; with ranks that have whole ones of each slot */
	int32_t    *start;
	int32_t    *own;			/* first rows of this rank's experts, counted from its first one's */
	KOp		   *in;				/* [rows top_k][hidden]; x's memory where operands are floats */
	float	   *x;				/* [rows top_k][hidden] what comes out */
	float	   *gu;				/* [rows top_k][2 inter] */
	KOp		   *act;			/* [rows top_k][inter] */
	float	   *gate;			/* [rows] of the expert for all rows */
} MoeWork;

/* What dec_mla() writes to. */
typedef struct MlaWork
{
	int			rows;			/* at most so many at once, but for q */
	float	   *q;				/* [max_rows][heads][plain + rope] */
	float	   *a;				/* [heads][rows][v], what comes out of v's matrices */
	float	   *b;				/* [heads][rows][latent], ... of k's */
	float	   *latent_q;		/* [rows][heads][latent + rope] */
	/* operands; where these are floats, they are a, b and latent_q: none of both is needed at once */
	KOp		   *plain;			/* [heads][rows][plain] */
	KOp		   *out;			/* [rows][heads][latent] of attention */
	KOp		   *turned;			/* [heads][rows][latent] the same */
	int32_t    *start;			/* [heads + 1] */
	int32_t    *seq_start;		/* [rows + 1]; the host's */
} MlaWork;

typedef struct Bound Bound;
typedef struct Arch Arch;

/* What guesses tokens has beyond layers, or instead. */
typedef struct DraftPart
{
	/* whose embedding and head it uses where it has none; NULL: nothing is computed */
	struct Decoder *lender;
	const Arch *inner;			/* whose layer it is; NULL = its own */
	Norm		token_norm;		/* of the token's row; without weights: none */
	Norm		given_norm;		/* of what is given */
	Linear		fuse;			/* both side by side, or what is given -> hidden */
	float	   *pair;			/* [rows][pair_width] */
	int			pair_width;
	/* heads */
	Linear	   *blocks;			/* Medusa: [heads][blocks]; MLP: [heads] from state to state */
	Linear	   *outs;			/* [heads], or none: the lender's */
	Linear	   *tables;			/* MLP: [heads] embeddings */
	Norm	   *norms;			/* MLP: [heads] */
	int			n_outs;
} DraftPart;

typedef struct Balance Balance;

/* What other ranks have of the model (shard.h); sizes in DecoderConf are then this rank's. */
typedef struct DecRanks
{
	KComm	   *tp;				/* NULL = all columns are here */
	KComm	   *pp;				/* NULL = all layers are */
	bool		rows;			/* what can be added up isn't gathered */
	bool		lends;			/* the embedding isn't shared */
	bool		heads;			/* attention's are shared */
	bool		experts;		/* experts are divided whole */
	bool		round_robin;	/* whole experts are dealt to ranks one by one */
	int			n_slots;		/* places for whole experts, those of all ranks side by side; */
	int			slot_width;		/* numbers per expert in the tables of moe_slots; 0: expert i is in slot i */
	size_t		slot_step;		/* numbers from a layer's table to the next; 0: there is one table */
	size_t		slot_ints;		/* numbers of all tables */
	int32_t    *slots;			/* host copy of the tables */
	DevMem		slot_mem;		/* device copy of the tables */
	Balance    *balance;	/* experts move (expert_migration.h); NULL = they stay */
	int			moe_inter;		/* of an expert whose columns are shared, all of them; 0 = they aren't */
	int			first_layer;	/* layers[] is the model's from this one on */
	int			max_out;		/* rows of logits */
	/* the host's [max_rows] where tokens' rows of a shared embedding are; NULL = it isn't */
	int32_t    *places;
	float	   *part;			/* what this rank has computed of something that all need */
	/* on a device, pinned: */
	int32_t    *starts;			/* [2][n_slots + 1] where experts' rows begin; of the own ones, too */
	float	   *hidden;			/* [max_out][hidden] of the first rank, to tell the others */
} DecRanks;

typedef struct Decoder
{
	DecoderConf c;
	const Kernels *k;
	KPool	   *pool;
	const Dev  *dev;			/* where ops run; NULL = CPUs */
	DevWait		wait;			/* of the step at hand */
	int			max_rows;
	HugePages	huge;

	/* weights */
	MArena		weights;
	DevMem		on_dev;			/* the same on the device, which all pointers are to: */
	void	 ***placed;			/* [n_placed] where these are */
	size_t		n_placed;
	void	   *left;			/* where it was, while its memory is given back */
	Bound	   *bound;			/* all there are, in the order of the arena */
	Linear		embed;			/* [vocab][embed_width] */
	Linear		pos;			/* [n_pos][hidden]: learned positions */
	Linear		types;			/* [n_types][hidden]: of token types */
	Linear		project_in;		/* embed_width -> hidden, and back; empty if they are the same */
	Linear		project_out;
	Norm		embed_norm;		/* of the embedding */
	float	   *buckets;		/* [n_heads][bias_buckets] */
	Linear		head;			/* [vocab][hidden]; unused when tied */
	float	   *head_norm;		/* [vocab] 1 / length of the head's rows; in the work space */
	Head		classifier;		/* of labels, scores and rewards */
	PoolKind	classifier_pool;	/* what it looks at */
	Head		dense;			/* sentence-transformers' layers behind an embedding, */
	Head		row_layers;		/* sentence-transformers' layers for each token's row, before pooling */
	bool		scores_tokens;	/* a score comes from the vocabulary's head: */
	float	   *token_row;		/* [hidden] token ids' rows; in the work space; NULL = none */
	float		token_bias;
	Layer	   *layers;
	Norm		norm;			/* before the head */
	DraftPart	draft;
	Stack	  **stacks;			/* all there are */
	size_t		n_stacks;

	LoraSite   *sites;			/* [n_sites] */
	int			n_sites;
	int			n_targets;		/* numbers 1 .. n_targets - 1 are used */
	LoraWork	lora;
	DecRanks	ranks;

	size_t		state_floats;	/* of a sequence */
	int			n_kv_layers;

	/* work space, rows x width */
	MArena		work;
	DevMem		work_dev;		/* the same on the device, rows x width */
	float	   *x;				/* hidden: the residual stream */
	float	   *y;				/* hidden: what a block adds to it */
	KOp		   *h;				/* hidden: normed */
	/* h before it became operands, behind the last norm; h itself where these are floats */
	const float *last;
	float	   *qkv;			/* (n_heads + 2 n_kv_heads) head_dim */
	KOp		   *att;			/* n_heads head_dim */
	float	   *gu;				/* 2 inter: gate, up */
	KOp		   *act;			/* inter */
	KOp		   *opx;			/* [max_rows][widest] what dec_op() makes; NULL where operands are floats */
	MoeWork		moe;
	MlaWork		mla;
	float	   *ssm_y;			/* inner: before it becomes att; att's memory where operands are floats */
	float	   *ssm_x;			/* behind the convolution */
	float	   *ssm_p;			/* Mamba: dt_rank + 2 state */
	float	   *ssm_dt;			/* Mamba: inner */
	float	   *head_x;			/* [HEAD_ROWS][widest] between a head's layers */
	float	   *head_y;			/* [HEAD_ROWS][widest] */
	void	   *ws;				/* scratch of mm and attn */
	size_t		ws_size;
	void	   *ws_extra;		/* grown scratch, if the KV's blocks asked for more */

	int32_t    *ids;			/* [max_rows] of rows of a table that aren't a batch's; the host's */
	/* the host's [max_rows] both ways: one behind the last position of a row's sequence */
	int32_t    *ends;
	float	   *bias;			/* [n_heads][2 bias_span - 1] of attention by distance (KAttn); NULL = none */
	int			bias_span;
	float	   *alibi;			/* [n_heads] DecoderConf's where ops are; NULL = none */

	/* the step in progress */
	const Batch *b;
	const KvView *kv;
	int			rows;
	bool		lost;			/* the device: nothing that was computed is of any use */
	bool		stopped;		/* by Batch.stop: nothing is computed any more, rows = 0 */
	bool		pending;		/* y is not yet added to x */
	/* q and K are still to be rotated by this, where that goes along with storing K; NULL = no */
	const Rope *rotate;
	Profile    *profile;		/* NULL = none */
} Decoder;

typedef struct Binder Binder;

/* A row of models.def. */
struct Arch
{
	const char *name;
	const char *classes;		/* Hugging Face's, separated by blanks */
	const char *gguf;			/* general.architecture, separated by blanks */
	bool		(*conf) (const Conf *c, DecoderConf *out, Err *e);
	bool		(*bind) (Binder *b, Decoder *d);
	void		(*forward) (Decoder *d, float *logits);
};

/* ---- model.c ---- */
/* The architecture that a configuration asks for. */
const Arch *model_arch(const Conf *c, HeadKind *head, Err *e);
/* As model_new(), of an architecture that isn't in models.def; what it lacks is the lender's. */
Model	   *model_new_as(const Arch *a, Model *lender, const Conf *conf, const ModelSource *src,
						 const ModelOptions *opt, Err *e);
/* As model_check(), of an architecture that isn't in models.def; lender: what is known of the lender. */
bool		model_check_as(const Arch *a, const ModelInfo *lender, const Conf *conf, const ModelSource *src,
						   const QuantScheme *quant, const Kernels *k, ModelInfo *info, DraftConf *draft,
						   Err *e);
Decoder    *model_decoder(Model *m);

/* ---- draft.c ---- */
/* x of the tokens' rows and what is given beside them */
void		dec_fuse(Decoder *d);
/* y = the tokens' rows of the embedding, which may be the lender's */
void		dec_draft_rows(Decoder *d, float *y);

/* ---- decoder.c: blocks of a forward pass, in the order of use ---- */
void		dec_embed(Decoder *d);	/* x = E[token] + P[position] + T[type] */
void		dec_embed_norm(Decoder *d);	/* x = norm(x) */
void		dec_widen(Decoder *d);	/* x = x Win, where embeddings are narrow */
void		dec_norm(Decoder *d, const Norm *n);	/* x += y if pending; h = norm(x) */
void		dec_plain(Decoder *d);	/* x += y if pending; h = x: the norm comes behind the block */
void		dec_qkv(Decoder *d, const Layer *l);	/* qkv = h Wqkv */
void		dec_qk_norm(Decoder *d, const Layer *l);	/* norm q and k, if the layer has those norms */
void		dec_rope(Decoder *d, const Layer *l);	/* rotate q and k by position */
void		dec_qk_plain_norm(Decoder *d);	/* norm the heads of q and k, without weights */
void		dec_temper(Decoder *d, const Layer *l);	/* q grows with the position, in layers that say so */
void		dec_attn(Decoder *d, const Layer *l);	/* store k, v; att = softmax(q k scale) v */
bool		dec_wanted(Decoder *d, const Layer *l);	/* behind the last layer's attention: keep the
													 * wanted rows of x, h and att; false: none */
void		dec_o(Decoder *d, const Layer *l);	/* y = att Wo, or Wout of a state-space layer */
void		dec_out_norm(Decoder *d, const Norm *n);	/* y = norm(y) */
void		dec_add(Decoder *d);	/* x += y */
void		dec_input(Decoder *d);	/* y += x */
void		dec_post_norm(Decoder *d, const Norm *n);	/* x = h = norm(x + y) */
void		dec_glu(Decoder *d, const Layer *l);	/* y = (act(h Wg) * h Wu) Wd */
void		dec_mlp(Decoder *d, const Layer *l);	/* y = act(h Wu) Wd */
void		dec_mla(Decoder *d, const Layer *l);	/* q, k, v and attention in one: att */
void		dec_moe(Decoder *d, const Layer *l);	/* y = sum of w_i expert_i(h) */
void		dec_ffn(Decoder *d, const Layer *l);	/* dec_moe or dec_glu */
void		dec_head(Decoder *d, float *logits);	/* logits = norm(x + y) W */
void		dec_logits(Decoder *d, float *logits);	/* logits = h W; or h itself, if that is wanted */

/* ---- lora_targets.c ---- */
/* A module's matrix becomes the next n outputs of l (bind_site()). */
void		lora_add_site(Decoder *d, Linear *l, const char *module, int n_file, const int32_t *rows, int n);
/* Targets of adapters get their numbers; 0 is none. */
void		lora_number_targets(Decoder *d);

/* ---- lora.c ---- */
LoraAdapter *lora_new(const Decoder *d, const LoraModule *modules, int n, const LoraInfo *info, KType as,
					  const char *path, Err *e);
/* The groups of a step, as Batch.lora says; ... of n rows that are no step. */
void		dec_lora_begin(Decoder *d);
void		dec_lora_rows(Decoder *d, const LoraAdapter *const *of, int n);
/* Only the wanted rows are left. */
void		dec_lora_keep(Decoder *d);
/* y += what adapters add to a target, for rows from .. to - 1. */
void		dec_lora(Decoder *d, int target, const KOp *x, int ldx, int from, int to, float *y, int ldy);
void		dec_lora_embed(Decoder *d, float *y);
void		dec_lora_free(Decoder *d);

/* element i of operands */
static inline KOp *
kop_at(const Decoder *d, const KOp *x, size_t i)
{
	return (KOp *) (void *) ((char *) (uintptr_t) x + i * (size_t) d->k->op_size);
}

/* Are they floats, so that what makes them can work in place? */
static inline bool
dec_op_floats(const Decoder *d)
{
	return d->k->op_size == (int) sizeof(float);
}

/* y[rows][ldy] = x[rows][ldx] W^T + b */
void		dec_linear(Decoder *d, const Linear *l, const float *x, int ldx, int rows, float *y, int ldy);
void		dec_linear_op(Decoder *d, const Linear *l, const KOp *x, int ldx, int rows, float *y, int ldy);
/* n of its outputs are multiplied with a factor; once they are bound */
void		linear_gain(Linear *l, int from, int n, float by);
/* Multiplies rows start[g] .. start[g + 1] - 1 with the stack's matrix g. */
void		dec_stack(Decoder *d, const Stack *s, const int32_t *start, const KOp *x, int ldx, float *y,
					  int ldy);

/* ---- ssm.c ---- */
/* Sizes of state-space layers; what stands in ssm before is their default. */
bool		dec_conf_ssm(const Conf *c, DecoderConf *o, Err *e);
/* Which layers keep what: LayerConf.kv and state_at, Decoder.state_floats and n_kv_layers. */
void		dec_state_plan(Decoder *d);
int			ssm_channels(const SsmConf *s);	/* of the convolution */
/* The weights of a layer, behind `hf` ("mixer.", "mamba."). */
bool		bind_ssm(Binder *b, Decoder *d, Layer *l, const char *hf);
void		dec_ssm(Decoder *d, const Layer *l);	/* att = the recurrence over h Win */
void		dec_short_conv(Decoder *d, const Layer *l);	/* att = C conv(B x) of B, C, x = h Win */
void		dec_ssm_out(Decoder *d, const Layer *l);	/* y = att Wout, where dec_o() is attention's */

/* ---- relative_bias.c ---- */
/* d->bias of d->buckets, once weights are packed; d->bias has room for bias_span. */
void		dec_bias_table(Decoder *d);

/* ---- moe.c ---- */
/* Experts in all layers, by the usual keys; what stands in moe before is their default. */
bool		dec_conf_moe(const Conf *c, DecoderConf *o, Err *e);

/* ---- mla.c ---- */
/* Latent attention, by the usual keys; before dec_conf().  What stands in mla.q_latent before is
 * its default. */
bool		dec_conf_mla(const Conf *c, DecoderConf *o, Err *e);

/* ---- decoder_config.c: the part of config.json that all decoders share ---- */
bool		dec_conf(const Conf *c, DecoderConf *out, Err *e);
/* Rotary frequencies, once max_len is known. */
bool		dec_conf_ropes(const Conf *c, DecoderConf *out, Err *e);
void		dec_conf_free(DecoderConf *c);
/* Integer of a key, lo..hi; dflt when the key is absent, unless dflt < lo: then it
 * is required. */
bool		dec_conf_int(const Conf *c, const char *key, int lo, int hi, int dflt, int *out, Err *e);
/* The first of several keys, up to a NULL, that there is; the first of all, if there is none. */
const char *dec_conf_key(const Conf *c, const char *const *keys);
/* The window of some layers: dflt when the key is absent, and 0, which is none, when it is null;
 * with `needed` that is an error. */
bool		dec_conf_window(const Conf *c, int dflt, bool needed, int *out, Err *e);
/* A finite number of a key, above lo and at most hi; dflt when it is absent. */
bool		dec_conf_num(const Conf *c, const char *key, double lo, double hi, double dflt, float *out,
						 Err *e);
/* An activation function by its name in a configuration. */
bool		dec_conf_act(const char *name, KAct *out, Err *e);
/*
 * Layers whose "layer_types" say "sliding_attention" get the window; without that key
 * all but each n-th by "sliding_window_pattern", or those for which by_default says so.
 * window: 0 = none.
 */
bool		dec_conf_windows(const Conf *c, DecoderConf *o, int window,
							 bool (*by_default) (const Conf *c, int layer), Err *e);

/* Ministral 3's factor of q by position, in all layers, if the keys of RoPE have it. */
bool		dec_conf_temper(const Conf *c, DecoderConf *o, Err *e);

/* ALiBi (Press et al. 2021, arXiv:2108.12409): head i's slope is factor * 2^(-max_bias i / heads). */
void		dec_conf_alibi(DecoderConf *o, double max_bias, double factor);

/* The file of a tensor, or the model's path (t NULL), for an error message. */
const char *dec_where(const ModelSource *src, const KTensor *t);

/* A copy that may stand in an error message: printable ASCII, cut to size - 1. */
const char *dec_printable(const char *s, char *buf, size_t size);

/* ---- bind.c, pack.c ---- */
/* Find every tensor and check its shape; fills d->bound and, in *info, n_params,
 * dtype and (before packing) weight_bytes.  quant NULL: types as in the file. */
bool		dec_bind(Decoder *d, const Arch *a, const Conf *conf, const ModelSource *src,
					 const QuantScheme *quant, ModelInfo *info, Err *e);
/* before dec_unbind(): is there a vector for it? */
bool		dec_bound(const Decoder *d, float *const *to);
/* Of what was bound (flops.c). */
void		dec_work(const Decoder *d, ModelWork *w);
void		dec_unbind(Decoder *d);	/* the files may be closed from here on */
/* Pack what dec_bind found, or map it from the cache; sets info->weight_bytes. */
bool		dec_pack(Decoder *d, const ModelSource *src, const ModelOptions *opt, ModelInfo *info, Err *e);
/* Put a stack's packed matrices side by side; free it. */
void		stack_ready(Stack *s);
/* Updates a stack when its matrices have other addresses. */
void		stack_again(Stack *s);
void		stack_free(Stack *s);

/* ---- the architectures ---- */
#define MODEL(name, classes, gguf, conf, bind, forward) \
	bool		conf(const Conf *c, DecoderConf *out, Err *e); \
	bool		bind(Binder *b, Decoder *d); \
	void		forward(Decoder *d, float *logits);
#include "model/models.def"
#undef MODEL

/* what Granite's models have beyond Llama's */
bool		granite_multipliers(const Conf *c, DecoderConf *out, Err *e);
/* DeepSeek's mixtures: which layers have experts; V3's routing, too */
bool		deepseek_sigmoid(const Conf *c, DecoderConf *out, Err *e);
/* which layers of Qwen's mixtures have experts */
bool		qwen_moe_layers(const Conf *c, DecoderConf *out, Err *e);
/* parts of Gemma's, for its successors; layers_by_width: of the model whose scores are scaled otherwise */
bool		gemma2_attn(const Conf *c, DecoderConf *out, int layers_by_width, Err *e);
/* keys and defaults of GPT-2's descendants */
bool		gpt2_common(const Conf *c, DecoderConf *out, Err *e);
/* the window of all layers, dflt if the key is absent, 0 = none; GGUF's "llama" may have one, too */
bool		mistral_windows(const Conf *c, DecoderConf *out, int dflt, Err *e);

#endif
