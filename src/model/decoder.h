/*
 * decoder.h
 *	  Private to src/model: a decoder-only transformer and the blocks that its
 *	  forward pass is written in.
 *
 * An architecture file has two functions: one reads its configuration into a
 * DecoderConf, one writes the forward pass with the dec_* blocks below.  Nothing
 * here asks which architecture it is.
 *
 * Ownership: Decoder owns two arenas, weights (immutable after loading) and work
 * space (written by the step thread only).  All activations are float rows.
 */
#ifndef VLLM_MODEL_DECODER_H
#define VLLM_MODEL_DECODER_H

#include "model/arena.h"
#include "model/model.h"

/* Limits that keep every product of two of these inside 63 bits. */
#define DEC_MAX_HIDDEN	(1 << 18)
#define DEC_MAX_INTER	(1 << 20)
#define DEC_MAX_LAYERS	4096
#define DEC_MAX_HEADS	4096
#define DEC_MAX_HEAD_DIM 1024
#define DEC_MAX_VOCAB	(1 << 24)
#define DEC_MAX_LEN		(1 << 27)

/* What an architecture reads from config.json. */
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
	float		eps;			/* of RMSNorm */
	bool		tied;			/* the head is the embedding */
	bool		qkv_bias;
	bool		o_bias;
	bool		mlp_bias;
	int		   *window;			/* [n_layers] attention window, 0 = whole context */
	float	   *inv_freq;		/* [head_dim / 2] of RoPE */
} DecoderConf;

/*
 * y = x W^T + b for one or several matrices side by side (q|k|v, gate|up).  Parts
 * of one type are packed as a single matrix; parts of different types (possible
 * in GGUF) stay apart and write their own columns.
 */
#define LINEAR_MAX 3

typedef struct Linear
{
	int			n;				/* all output columns */
	int			k;				/* inputs */
	int			n_parts;		/* tensors */
	const KTensor *w[LINEAR_MAX];	/* in the file; NULL after loading */
	const KTensor *b[LINEAR_MAX];	/* likewise; NULL = no bias */
	KType		as[LINEAR_MAX]; /* types in memory: the tensors', unless they get quantized */
	int			n_mats;			/* 1 or n_parts */
	KMat		mat[LINEAR_MAX];
	int			col[LINEAR_MAX];	/* first output column of each mat */
	float	   *bias;			/* [n], NULL = none */
} Linear;

typedef struct Layer
{
	float	   *attn_norm;		/* [hidden] */
	float	   *mlp_norm;		/* [hidden] */
	const KTensor *attn_norm_src;
	const KTensor *mlp_norm_src;
	Linear		qkv;			/* hidden -> (n_heads + 2 n_kv_heads) head_dim */
	Linear		o;				/* n_heads head_dim -> hidden */
	Linear		gate_up;		/* hidden -> 2 inter */
	Linear		down;			/* inter -> hidden */
} Layer;

typedef struct Decoder
{
	DecoderConf c;
	const Kernels *k;
	KPool	   *pool;
	int			max_rows;
	HugePages	huge;

	/* weights */
	MArena		weights;
	Linear		embed;			/* [vocab][hidden] */
	Linear		head;			/* [vocab][hidden]; unused when tied */
	Layer	   *layers;
	float	   *norm;			/* [hidden], before the head */
	const KTensor *norm_src;
	float	   *rope;			/* [max_len][head_dim / 2][2] cos, sin */

	/* work space, rows x width */
	MArena		work;
	float	   *x;				/* hidden: the residual stream */
	float	   *y;				/* hidden: what a block adds to it */
	float	   *h;				/* hidden: normed */
	float	   *qkv;			/* (n_heads + 2 n_kv_heads) head_dim */
	float	   *att;			/* n_heads head_dim */
	float	   *gu;				/* 2 inter: gate, up */
	float	   *act;			/* inter */
	void	   *ws;				/* scratch of mm and attn */
	size_t		ws_size;
	void	   *ws_extra;		/* grown scratch, if the KV's blocks asked for more */

	/* the step in progress */
	const Batch *b;
	const KvView *kv;
	int			rows;
	bool		pending;		/* y is not yet added to x */
	Profile    *profile;		/* NULL = none */
} Decoder;

typedef struct Arch
{
	const char *name;
	const char *classes;		/* separated by blanks */
	bool		(*conf) (const Conf *c, DecoderConf *out, Err *e);
	void		(*forward) (Decoder *d, float *logits);
} Arch;

/* ---- decoder.c: blocks of a forward pass, in the order of use ---- */
void		dec_embed(Decoder *d);	/* x = E[token] */
void		dec_norm(Decoder *d, const float *w);	/* x += y if pending; h = RMSNorm(x) w */
void		dec_qkv(Decoder *d, const Layer *l);	/* qkv = h Wqkv */
void		dec_rope(Decoder *d);	/* rotate q and k by position */
void		dec_attn(Decoder *d, int layer);	/* store k, v; att = softmax(q k / sqrt(d)) v */
bool		dec_wanted(Decoder *d);	/* keep the wanted rows of x and att; false: none */
void		dec_o(Decoder *d, const Layer *l);	/* y = att Wo */
void		dec_swiglu(Decoder *d, const Layer *l);	/* y = (silu(h Wg) * h Wu) Wd */
void		dec_head(Decoder *d, float *logits);	/* logits = RMSNorm(x + y) W */

/* ---- conf.c: the part of config.json that all decoders share ---- */
bool		dec_conf(const Conf *c, DecoderConf *out, Err *e);
void		dec_conf_free(DecoderConf *c);
/* Integer of a key, lo..hi; dflt when the key is absent, unless dflt < lo: then it
 * is required. */
bool		dec_conf_int(const Conf *c, const char *key, int lo, int hi, int dflt, int *out, Err *e);

/* A copy that may stand in an error message: printable ASCII, cut to size - 1. */
const char *dec_printable(const char *s, char *buf, size_t size);

/* ---- weights.c ---- */
/* Find every tensor and check its shape; fills the sources in d and, in *info,
 * n_params, dtype and (before packing) weight_bytes.  quant NULL: types as in the file. */
bool		dec_bind(Decoder *d, const Arch *a, const ModelSource *src, const QuantScheme *quant,
					 ModelInfo *info, Err *e);
/* Pack what dec_bind found, or map it from the cache; sets info->weight_bytes. */
bool		dec_pack(Decoder *d, const ModelSource *src, const ModelOptions *opt, ModelInfo *info, Err *e);

/* ---- the architectures ---- */
#define MODEL(name, classes, conf, forward) \
	bool		conf(const Conf *c, DecoderConf *out, Err *e);
#include "model/models.def"
#undef MODEL
void		llama_forward(Decoder *d, float *logits);

#endif
