/*
 * bind.h
 *	  How an architecture names its weights.
 *
 * Its bind function calls bind_* for every tensor, in both spellings: that of
 * Hugging Face's checkpoints and that of GGUF files; "" = that container has no
 * such tensor (an error when it is asked for).  Names are given without their
 * prefix and without ".weight" and ".bias":
 *
 *	bind_layers(b, "model.layers.", layer)	calls layer() for each layer; names
 *		are then behind "model.layers.N." and "blk.N."
 *
 * A checkpoint may lack the first word of a name ("model.", "transformer."), as
 * those do that were saved without the head.
 *
 * Every function returns false with the error set: a tensor that is missing or has
 * another shape.  Tensors that no call asked for are an error in the end, since
 * leaving them out would compute something else; bind_ignore() says which may be.
 */
#ifndef VLLM_MODEL_LAYERS_BIND_H
#define VLLM_MODEL_LAYERS_BIND_H

#include "model/decoder.h"
#include "model/weights/bound.h"

bool		bind_is_gguf(const Binder *b);
const Conf *bind_conf(const Binder *b);
const DecoderConf *bind_decoder_conf(const Binder *b);
Decoder    *bind_decoder(Binder *b);
Err		   *bind_err(Binder *b);
bool		bind_has(Binder *b, const char *hf, const char *gguf);	/* whole names */

/* Rows of a matrix, 0 if it isn't there. */
int64_t		bind_n_rows(Binder *b, const char *hf, const char *gguf);

/* The embedding, the norm before the head, and the head unless it is tied. */
bool		bind_embed(Binder *b, const char *hf);
bool		bind_final_norm(Binder *b, const char *hf);
bool		bind_head(Binder *b, const char *hf);
/* Learned positions. */
bool		bind_positions(Binder *b, const char *hf);

bool		bind_layers(Binder *b, const char *hf, bool (*layer) (Binder *b, Decoder *d, Layer *l));

/* One layer, whose names are behind `hf` and `gguf`. */
bool		bind_layer_at(Binder *b, const char *hf, const char *gguf, Layer *l,
						  bool (*layer) (Binder *b, Decoder *d, Layer *l));

/*
 * For a layer behind an architecture's last one, which guesses tokens (mtp.c): from here on bind_layers()
 * binds that one alone, with names behind hf and gguf, bind_final_norm() takes its own norm, of these names
 * behind them, and embedding and head stay the target's.
 */
typedef struct BindExtra
{
	char		hf[64];
	char		gguf[32];
	const char *norm;
	const char *gguf_norm;
} BindExtra;

void		bind_extra(Binder *b, const BindExtra *x);
const BindExtra *bind_extra_layer(const Binder *b); /* NULL = none */

/* A norm of n elements, with a bias where the configuration has LayerNorm and the
 * file a bias. */
bool		bind_norm(Binder *b, Norm *norm, const char *hf, const char *gguf, int n);
/* A vector, perhaps stored as a matrix of one row; the weight's own name, with its ending. */
bool		bind_vector(Binder *b, float **to, const char *hf, const char *gguf, int n);

/* A table of n floats of any shape, or with `cols` columns; by its whole name. */
bool		bind_table(Binder *b, float **to, const char *hf, const char *gguf, int n, int cols, BindMap map);

/* One more matrix [n][l->k] of a Linear, below the ones it has; l->k must be set. */
bool		bind_linear(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias);
/*
 * An adapter's weights for this module belong to the next n outputs of l; the functions around do that by
 * themselves.
 */
void		bind_site(Binder *b, Linear *l, const char *hf, int n_file, const int32_t *rows, int n);
/* The matrix has one row; the file may store it as a vector. */
bool		bind_row(Binder *b, Linear *l, const char *hf, const char *gguf);
/* Row i of the matrix is the file's row rows[i], of n_file. */
bool		bind_rows(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file,
					  const int32_t *rows, int n, bool bias);
/* The matrix is stored as [l->k][n]. */
bool		bind_transposed(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias);

/*
 * Rows of one of several matrices in a tensor: of `count` matrices [n][l->k] number
 * `at`, its rows first, first + step, ...  transposed: stored as [count][l->k][n].
 * The bias is a tensor [count][n].  In Hugging Face's checkpoints the names of such
 * tensors mostly have no ending.
 */
typedef struct BindSlice
{
	int			count;
	int			at;
	int			n;
	int			first;
	int			step;
	bool		transposed;
	const char *hf;
	const char *gguf;
	const char *hf_bias;		/* whole name; NULL = no bias */
} BindSlice;

bool		bind_slice(Binder *b, Linear *l, const BindSlice *s, int n);
/*
 * Rows row0 .. row0 + n - 1 of a matrix [n_file][k_file]; transposed: its rows row0 ..
 * row0 + l->k - 1, of which each of the n columns becomes a row.
 */
bool		bind_block(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, int k_file,
					   int row0, bool transposed, int n);
/* n matrices that will be bound one by one; each row is multiplied with per_row of them */
void		bind_stack(Binder *b, Stack *s, int n, int per_row);

/*
 * q or k of `heads` heads whose rotary pairs lie side by side in the file, (2i, 2i + 1),
 * instead of as halves, (i, i + dim / 2): the first rope_dim rows of each head are
 * brought into halves.
 */
bool		bind_interleaved(Binder *b, Linear *l, const char *hf, const char *gguf, int heads,
							 int head_dim, int rope_dim, bool bias);

/*
 * q, k and v from one matrix that has them in this order, or, if grouped, for each
 * head of k its heads of q, then itself, then its head of v.
 */
bool		bind_qkv(Binder *b, Layer *l, const char *hf, const char *gguf, bool grouped);

/* q, k, v and o, and gate, up and down, by their usual names, as the configuration
 * has them. */
bool		bind_attn(Binder *b, Layer *l);
bool		bind_glu(Binder *b, Layer *l);
bool		bind_glu_as(Binder *b, Layer *l, const char *hf);	/* hf: before "gate_proj" */
/* A mixture of experts in place of the MLP.  HF: names behind the layer's; each expert
 * has tensors of its own, PREFIX.N.gate and so on.  GGUF has the same names everywhere. */
typedef struct MoeNames
{
	const char *router;
	const char *correction;		/* whole name */
	const char *experts;		/* before the number */
	const char *gate;
	const char *up;
	const char *down;
	const char *shared;			/* before "gate_proj" ... */
	const char *shared_gate;
	/* not NULL: all experts' gate and up are in this tensor, and down is the name of one, too */
	const char *gate_up;
	bool		alternate;		/* a row of gate, a row of up, ...; else all of gate first */
	bool		transposed;
	const char *gate_up_bias;
	const char *down_bias;
	/* not NULL: the names of gate and up, in one, and of down of the expert for all rows */
	const char *shared_gate_up;
	const char *shared_down;
} MoeNames;

bool		bind_moe(Binder *b, Layer *l, const MoeNames *names);
/* The names that most have. */
extern const MoeNames moe_names;
/* bind_moe() with them, or bind_glu(), as the layer is. */
bool		bind_ffn(Binder *b, Layer *l);
/* Multi-head latent attention in place of q, k, v and o. */
bool		bind_mla(Binder *b, Layer *l);
/* gate and up in one matrix, and down. */
bool		bind_glu_fused(Binder *b, Layer *l);
/* What is named differently almost everywhere: q, k and v apart (hf: before "q_proj"), o, and
 * up and down of an MLP without a gate. */
bool		bind_qkv_apart(Binder *b, Layer *l, const char *hf);
bool		bind_o(Binder *b, Layer *l, const char *hf);
bool		bind_mlp(Binder *b, Layer *l, const char *hf_up, const char *hf_down);
/* The norms of q and k, as the configuration says. */
bool		bind_qk_norm(Binder *b, Layer *l);
/* a tensor for each head */
bool		bind_qk_norm_heads(Binder *b, Layer *l, const char *q, const char *k);
bool		bind_qk_norm_as(Binder *b, Layer *l, const char *q, const char *k);	/* by other names in HF */

/* Names that end so may be in a file without being used. */
bool		bind_ignore(Binder *b, const char *ending);
/* Names that begin so may be in a file without being used. */
bool		bind_ignore_under(Binder *b, const char *beginning);
/* All that isn't asked for may. */
void		bind_ignore_rest(Binder *b);
/* So may layers behind the last one: they guess tokens ahead. */
void		bind_ignore_extra_layers(Binder *b);

#endif
