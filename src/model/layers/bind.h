/*
 * bind.h
 *	  How an architecture binds its weights by name.
 *
 * Its bind function calls bind_* for every tensor, with both spellings: that of Hugging Face's
 * checkpoints and that of GGUF files.  "" = that container has no such tensor (an error if it is
 * requested).  Names are given without their prefix and without ".weight" and ".bias":
 *
 *	bind_layers(b, "model.layers.", layer) calls layer() for each layer; names
 *	then follow "model.layers.N." and "blk.N."
 *
 * A checkpoint may lack the first word of a name ("model.", "transformer."), if it was saved without the
 * head.
 *
 * Every function returns false with the error set if a tensor is missing or has another shape.  Tensors
 * that no call requested are an error at the end, since leaving them out would compute something else;
 * bind_ignore() lists exceptions.
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

/* Return the number of rows of a matrix, 0 if it doesn't exist. */
int64_t		bind_n_rows(Binder *b, const char *hf, const char *gguf);

/* Bind the embedding, the norm before the head, and the head unless it is tied. */
bool		bind_embed(Binder *b, const char *hf);
bool		bind_final_norm(Binder *b, const char *hf);
bool		bind_head(Binder *b, const char *hf);
/* Bind learned positions. */
bool		bind_positions(Binder *b, const char *hf);

bool		bind_layers(Binder *b, const char *hf, bool (*layer) (Binder *b, Decoder *d, Layer *l));

/* Bind one layer, whose names follow `hf` and `gguf`. */
bool		bind_layer_at(Binder *b, const char *hf, const char *gguf, Layer *l,
						  bool (*layer) (Binder *b, Decoder *d, Layer *l));

/*
 * A layer after an architecture's last one that drafts tokens (mtp.c).  With it bind_layers() binds only
 * this layer, with names that follow hf and gguf; bind_final_norm() takes the layer's own norm, by these
 * names after the same prefixes; embedding and head stay the target's.
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

/* Bind a norm of n elements, with a bias if the configuration has LayerNorm and the file a bias. */
bool		bind_norm(Binder *b, Norm *norm, const char *hf, const char *gguf, int n);
/* Bind a vector, by its whole name with ending; the file may store it as a matrix of one row. */
bool		bind_vector(Binder *b, float **to, const char *hf, const char *gguf, int n);

/* Bind a table of n floats of any shape, or with `cols` columns, by its whole name. */
bool		bind_table(Binder *b, float **to, const char *hf, const char *gguf, int n, int cols, BindMap map);

/* Bind one more matrix [n][l->k] of a Linear, below its other matrices; l->k must be set. */
bool		bind_linear(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias);
/*
 * Declare that an adapter's weights for this module belong to the next n outputs of l.  The bind
 * functions below and above call it themselves.
 */
void		bind_site(Binder *b, Linear *l, const char *hf, int n_file, const int32_t *rows, int n);
/* Bind a matrix with one row; the file may store it as a vector. */
bool		bind_row(Binder *b, Linear *l, const char *hf, const char *gguf);
/* Bind a matrix whose row i is row rows[i] of the file's n_file. */
bool		bind_rows(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file,
					  const int32_t *rows, int n, bool bias);
/* Bind a matrix that is stored as [l->k][n]. */
bool		bind_transposed(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias);

/*
 * A slice of a tensor with several matrices: of `count` matrices [n][l->k] number `at`, its rows first,
 * first + step, ...  transposed: stored as [count][l->k][n].  The bias is a tensor [count][n].  In
 * Hugging Face's checkpoints the names of such tensors mostly have no ending.
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
 * Bind rows row0 .. row0 + n - 1 of a matrix [n_file][k_file]; transposed: its rows row0 .. row0 + l->k
 * - 1, of which each of the n columns becomes a row.
 */
bool		bind_block(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, int k_file,
					   int row0, bool transposed, int n);
/* Prepare a stack of n matrices, which are bound one by one; each row is multiplied with per_row of
 * them. */
void		bind_stack(Binder *b, Stack *s, int n, int per_row);

/*
 * Bind q or k of `heads` heads whose rotary pairs are adjacent in the file, (2i, 2i + 1), instead of
 * halves, (i, i + dim / 2): reorder the first rope_dim rows of each head to halves.
 */
bool		bind_interleaved(Binder *b, Linear *l, const char *hf, const char *gguf, int heads,
							 int head_dim, int rope_dim, bool bias);

/*
 * Bind q, k and v from one matrix that has them in this order, or, if grouped, for each head of k its
 * heads of q, then the head itself, then its head of v.
 */
bool		bind_qkv(Binder *b, Layer *l, const char *hf, const char *gguf, bool grouped);

/* Bind q, k, v and o, or gate, up and down, by their usual names, as the configuration has them. */
bool		bind_attn(Binder *b, Layer *l);
bool		bind_glu(Binder *b, Layer *l);
bool		bind_glu_as(Binder *b, Layer *l, const char *hf);	/* hf: before "gate_proj" */
/* Names of a mixture of experts that replaces the MLP.  HF: names after the layer's; each expert has its
 * own tensors, PREFIX.N.gate and so on.  GGUF uses the same names for all models. */
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
	/* not NULL: this tensor has gate and up of all experts, and `down` names a tensor of all experts,
	 * too */
	const char *gate_up;
	bool		alternate;		/* rows of gate and up alternate; else all of gate comes first */
	bool		transposed;
	const char *gate_up_bias;
	const char *down_bias;
	/* not NULL: names of the shared expert's gate and up in one matrix, and of its down */
	const char *shared_gate_up;
	const char *shared_down;
} MoeNames;

bool		bind_moe(Binder *b, Layer *l, const MoeNames *names);
/* The names that most models have. */
extern const MoeNames moe_names;
/* Call bind_moe() with these names, or bind_glu(), depending on the layer. */
bool		bind_ffn(Binder *b, Layer *l);
/* Bind multi-head latent attention instead of q, k, v and o. */
bool		bind_mla(Binder *b, Layer *l);
/* Bind gate and up in one matrix, and down. */
bool		bind_glu_fused(Binder *b, Layer *l);
/* Parts whose names differ between most architectures: q, k and v in separate matrices (hf: before
 * "q_proj"), o, and up and down of an MLP without a gate. */
bool		bind_qkv_apart(Binder *b, Layer *l, const char *hf);
bool		bind_o(Binder *b, Layer *l, const char *hf);
bool		bind_mlp(Binder *b, Layer *l, const char *hf_up, const char *hf_down);
/* Bind the norms of q and k, as the configuration says. */
bool		bind_qk_norm(Binder *b, Layer *l);
/* The same with one tensor for each head. */
bool		bind_qk_norm_heads(Binder *b, Layer *l, const char *q, const char *k);
bool		bind_qk_norm_as(Binder *b, Layer *l, const char *q, const char *k);	/* with other names in HF */

/* Allow unused tensors whose names end like this. */
bool		bind_ignore(Binder *b, const char *ending);
/* Allow unused tensors whose names begin like this. */
bool		bind_ignore_under(Binder *b, const char *beginning);
/* Allow all unused tensors. */
void		bind_ignore_rest(Binder *b);
/* Allow unused layers after the last one: they draft tokens. */
void		bind_ignore_extra_layers(Binder *b);

#endif
