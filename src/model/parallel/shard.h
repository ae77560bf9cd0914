/*
 * shard.h
 *	  A model shared by ranks: which part of the weights each rank has, and how parts are combined.
 *
 * Columns.  Every matrix is split by its outputs, not by its inputs, so one rank computes each number as
 * one sum, with the same bits as on one rank alone.  A matrix reads whole rows; the ranks gather its
 * outputs, unless the next operation needs only the rank's own part: heads of q, k and v go to
 * attention, gate and up to the activation.
 *
 *	qkv by heads -> attention -> gather -> o by columns -> gather
 *	gate, up by columns -> activation -> gather -> down by columns -> gather
 *	the vocabulary's head by columns -> gather
 *	the embedding by tokens: the rank that has a token's row sends it to all
 *
 * Rows.  Alternatively a matrix after such a part is split by its inputs and reads only that part; the
 * ranks add up their results in the order of ranks.  This order of the sum differs from that of one
 * rank, and so do the bits; but all ranks have the same bits, whatever else is in a step.  A matrix is
 * split this way if its format's rows can be cut (row_unit()) at the ends of the parts; others stay
 * split by columns.
 *
 *		qkv by heads -> attention -> o by inputs -> sum
 *		gate, up by columns -> activation -> down by inputs -> sum
 *
 * If there are fewer heads of k and v than ranks, several ranks have the same head.  Experts are split
 * like an MLP, or stay whole and are distributed to ranks.  All ranks have the norms, routers, latents
 * and state-space layers.
 *
 * Layers.  A stage has a run of layers; the first stage also has the embedding, the last one the head.
 * A stage passes the residual stream to the next, the last one passes the logits to the first.
 *
 * The split happens between binding and packing: parts of a Linear become views of fewer rows of their
 * tensors, so formats and architectures need no code for it.
 */
#ifndef VLLM_MODEL_PARALLEL_SHARD_H
#define VLLM_MODEL_PARALLEL_SHARD_H

#include "model/decoder.h"

/* Return where rank `rank`'s part of `total` things begins; for rank == ranks the total. */
int			split_at(int total, int ranks, int rank);

/* Return where a rank's experts begin, those of all ranks side by side; for rank == ranks their
 * number. */
int			split_experts_at(const Decoder *d, int rank);

/* Return the rank whose part has element `i` of `total`; 0 <= i < total. */
int			split_owner(int total, int ranks, int i);

/* Reduce what was bound to the rank's part; sizes in d->c become the rank's own.  ERR_INVALID,
 * ERR_UNSUPPORTED. */
bool		split_apply(Decoder *d, const ModelRanks *r, Err *e);

/*
 * Compute a digest of what was bound: sizes, and each matrix's and vector's tensors, by name, shape and
 * type.  Call before split_apply(): for the same files and options it is the same on all ranks.
 */
#define SPLIT_DIGEST	32
void		split_digest(const Decoder *d, uint8_t out[SPLIT_DIGEST]);

/* Return the floats of DecRanks.part. */
size_t		split_part(const Decoder *d);
/*
 * split_place() allocates the host memory that ranks need on a device; ERR_NOMEM.  split_end() frees all
 * that split_apply() made.
 */
bool		split_place(Decoder *d, Err *e);
void		split_end(Decoder *d);

/*
 * Return where to write a result: if it is `split`, to the rank's part, else to its final place, `all`.
 * split_whole() then gathers the parts to all[rows][total], with elements of `size` bytes.
 */
void	   *split_own(Decoder *d, bool split, void *all);
void		split_whole(Decoder *d, bool split, void *all, int rows, int total, size_t size);
/* to[rows][embed.k] = the embedding's rows of the step's tokens.  before: scratch of the same size,
 * other than `to`. */
void		split_embed(Decoder *d, float *to, float *before);
/* Add up x[rows][hidden] over ranks, if `parts` says that each has only a part of the sum. */
void		split_sum(Decoder *d, bool parts, float *x, int rows);
/*
 * split_starts() returns the first rows of whole experts, start[n_slots + 1], in host memory, and sets
 * own[], for the op, to those of this rank's `n` slots from `first` on, relative to the first.
 * split_whole_experts() gathers their rows: all[start[n_slots]][hidden].
 */
const int32_t *split_starts(Decoder *d, const int32_t *start, int32_t *own, int first, int n);
void		split_whole_experts(Decoder *d, float *all, const int32_t *start);
/* Copy n numbers of the tables, from `from` on, to the memory of ops.  ERR_LOST. */
bool		split_upload_slots(Decoder *d, size_t from, size_t n, Err *e);
/* Return the layer's table for moe_slots in the memory of ops. */
const int32_t *split_slots(const Decoder *d, int layer);
/* Return hidden rows of the ops' memory as a host copy. */
const float *split_hidden(Decoder *d, const float *hidden, int n);

/* Return true if this stage embeds tokens; if it computes logits. */
bool		split_is_first(const Decoder *d);
bool		split_is_last(const Decoder *d);
/* Receive x from the previous stage; send x to the next one; send the last stage's logits to the
 * first. */
void		split_take_x(Decoder *d);
void		split_hand_x(Decoder *d);
void		split_logits(Decoder *d, float *logits, int rows, int width);
/* On a device: the ranks' part of model_connect() and model_apart(). */
bool		split_connect(Decoder *d, const ModelComm *t, Err *e);
void		split_apart(Decoder *d);
/* On a device, if alone: exchange nothing with other ranks, as if their parts were zeros. */
void		split_alone(Decoder *d, bool alone);
/* Return true if a rank is gone.  Then all results are invalid. */
bool		split_failed(const Decoder *d);

#endif
