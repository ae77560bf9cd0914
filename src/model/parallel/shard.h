/*
 * shard.h
 *	  A model shared by ranks: which part of its weights each has, and how parts become whole again.
 *
 * Columns.  Every matrix is cut by its outputs, not by its inputs, so each number is one sum that one rank
 * computes, and has the bits that it has on one rank alone.  A matrix reads whole rows; what it
 * gives is gathered, unless what follows needs only the rank's own part: heads of q, k and v go to attention,
 * gate and up to the activation.
 *
 *		qkv by heads -> attention -> gather -> o by columns -> gather
 *		gate, up by columns -> activation -> gather -> down by columns -> gather
 *		the vocabulary's head by columns -> gather
 *		the embedding by tokens: whoever has a token's row gives it to all
 *
 * Rows.  Or else a matrix behind such a part is cut by its inputs, and reads that part; what all ranks
 * make of theirs is added up, in the order of ranks.  The sum's order is another one than alone, and its bits
 * are; but all ranks have the same, whatever else is in a step.  Which matrices: where a format's rows can be
 * cut (row_unit()) at the ends of parts; others stay cut by columns.
 *
 *		qkv by heads -> attention -> o by inputs -> sum
 *		gate, up by columns -> activation -> down by inputs -> sum
 *
 * Heads of k and v that are fewer than ranks are on several.  Experts are cut like an MLP, or stay whole and
 * are dealt to ranks.  Norms, routers, latents and state-space layers are on all ranks.
 *
 * Layers.  A stage has a run of layers; the first has the embedding, too, the last the head.  A stage hands
 * the residual stream on, the last one the logits to the first.
 *
 * All of it happens between binding and packing: parts of a Linear become views of fewer rows of their
 * tensors, so formats and architectures know nothing of it.
 */
#ifndef VLLM_MODEL_PARALLEL_SHARD_H
#define VLLM_MODEL_PARALLEL_SHARD_H

#include "model/decoder.h"

/* Where rank `rank`'s part of so many things begins; of rank `ranks`: all of them. */
int			split_at(int total, int ranks, int rank);

/* Where a rank's experts begin among all ranks' side by side; of rank `ranks`: all of them. */
int			split_experts_at(const Decoder *d, int rank);

/* Whose part has number `i` of so many; i is one of them. */
int			split_owner(int total, int ranks, int i);

/* The rank's part of what was bound; sizes in d->c become its own.  ERR_INVALID, ERR_UNSUPPORTED. */
bool		split_apply(Decoder *d, const ModelRanks *r, Err *e);

/*
 * A digest of what was bound: sizes, and each matrix's and vector's tensors, by name, shape and type.  Before
 * split_apply(): of the same files with the same options it is the same on all ranks.
 */
#define SPLIT_DIGEST	32
void		split_digest(const Decoder *d, uint8_t out[SPLIT_DIGEST]);

/* floats of DecRanks.part */
size_t		split_part(const Decoder *d);
/*
 * Memory of the host's that ranks need on a device; ERR_NOMEM.  And all that split_apply() made is gone
 * again.
 */
bool		split_place(Decoder *d, Err *e);
void		split_end(Decoder *d);

/*
 * Where to write what is `split`: to the rank's part, or else to where all of it belongs, `all`.  Then
 * split_whole() gathers parts to all[rows][total], of elements of `size` bytes.
 */
void	   *split_mine(Decoder *d, bool split, void *all);
void		split_whole(Decoder *d, bool split, void *all, int rows, int total, size_t size);
/* to[rows][embed.k] = the embedding's rows of the step's tokens; before: as much memory, not `to` */
void		split_embed(Decoder *d, float *to, float *before);
/* x[rows][hidden] is added up over ranks, if it is `parts` that they have. */
void		split_sum(Decoder *d, bool parts, float *x, int rows);
/*
 * Where the rows of whole experts begin, start[n_slots + 1], as the host has it; and own[], as the op has it,
 * of this rank's
 * `n` slots from `first` on, from 0 on.  Then their rows: all[start[n_slots]][hidden].
 */
const int32_t *split_starts(Decoder *d, const int32_t *start, int32_t *own, int first, int n);
void		split_whole_experts(Decoder *d, float *all, const int32_t *start);
/* So many numbers of the tables from there on, to where ops are.  ERR_LOST. */
bool		split_tell_slots(Decoder *d, size_t from, size_t n, Err *e);
/* The layer's table for moe_slots, there. */
const int32_t *split_slots(const Decoder *d, int layer);
/* Hidden rows of the op's, as the host has them. */
const float *split_hidden(Decoder *d, const float *hidden, int n);

/* Is this the stage that embeds tokens; that computes logits? */
bool		split_is_first(const Decoder *d);
bool		split_is_last(const Decoder *d);
/* x of the stage before; x to the next one; the last stage's logits to the first. */
void		split_take_x(Decoder *d);
void		split_hand_x(Decoder *d);
void		split_logits(Decoder *d, float *logits, int rows, int width);
/* On a device: model_talk(), model_apart(). */
bool		split_talk(Decoder *d, const ModelComm *t, Err *e);
void		split_apart(Decoder *d);
/* On a device; alone: exchange nothing with other ranks, as if their parts were zeros. */
void		split_alone(Decoder *d, bool alone);
/* Is a rank missing?  Then nothing that was computed is of any use. */
bool		split_failed(const Decoder *d);

#endif
