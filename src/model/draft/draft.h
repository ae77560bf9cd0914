/*
 * draft.h
 *	  Models that guess the next tokens of another model, the target.
 *
 * Three kinds (DraftKind).  Heads make all guesses from one hidden row of the target.  A chain is a layer or
 * a few with K and V of their own: a row has the hidden row of a position and the token behind it, and what
 * comes out stands for the hidden row of the next position.  The last is any smaller model of the same
 * vocabulary.  What is wrong with a guess costs time and nothing else: the target checks each (spec.h).
 *
 * A method is a file and a row in drafts.def.  A Draft belongs to the thread that steps its target, whose
 * embedding and head it may use, and must be freed before it.
 *
 * Tested by tests/golden/draft_golden.c.
 */
#ifndef VLLM_MODEL_DRAFT_DRAFT_H
#define VLLM_MODEL_DRAFT_DRAFT_H

#include "model/model.h"

#define DRAFT_MOST	32			/* guesses in a row */

typedef struct Draft Draft;

typedef enum DraftKind
{
	DRAFT_HEADS,
	DRAFT_CHAIN,
	DRAFT_MODEL
} DraftKind;

typedef struct DraftInfo
{
	const char *method;			/* in drafts.def */
	DraftKind	kind;
	int			most;			/* guesses in a row; 0 = any number */
	int			usual;			/* the default number of draft tokens; 0 = it must be given */
	int			given;			/* width of what is wanted of the target for a row: ModelTaps.mid with */
	int			n_layers;		/* number of layers whose rows ModelTaps.mid has */
	int			layers[TAP_LAYERS]; /* those layers; without any, ModelTaps.all or .out is used */
	bool		raw;			/* ModelTaps.all_raw */
	ModelInfo	model;			/* of what guesses: sizes of its K and V, weight_bytes */
} DraftInfo;

/*
 * The method that a directory's configuration asks for, by the name that it was given as and what its
 * config.json says; "draft_model" if nothing else is said.
 */
const char *draft_guess(const Conf *conf, const char *path);

/*
 * Weights of a method.  opt as the target's: max_rows of a step, max_out rows whose logits are wanted,
 * max_model_len that it was made for.  For "mtp" conf and src are the target's own.  Errors: as model_new(),
 * and
 * ERR_INVALID: it is made for another target.
 */
Draft	   *draft_new(const char *method, const Conf *conf, const ModelSource *src, const ModelOptions *opt,
					  Model *target, Err *e);
void		draft_free(Draft *d);
const DraftInfo *draft_info(const Draft *d);

/* As model_store() and model_fetch(), of its own weights. */
bool		draft_store(Draft *d, const char *dir, Err *e);
bool		draft_fetch(Draft *d, Err *e);
/* As model_forget() and model_adopt(). */
void		draft_forget(Draft *d);
bool		draft_adopt(Draft *d, Draft *from, Err *e);

/* Only the checks; target: what is known of it. */
bool		draft_check(const char *method, const Conf *conf, const ModelSource *src,
						const QuantScheme *quant, const Kernels *k, const ModelInfo *target, DraftInfo *info,
						Err *e);

/*
 * DRAFT_HEADS: the guesses [n][k] behind each of n tokens, before which the target has left these rows, which
 * are where ops are; -1: there is none.
 */
void		draft_heads(Draft *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out);

/*
 * The others: one step of rows, which write K and V.  Batch.given: DRAFT_CHAIN.  logits: [n_out][the target's
 * vocab_size], where it has no guess K_NO_COLUMN; fed, of a chain: [n_out][draft_fed_width()] what stands for
 * the given row of the next position, with Batch.fed_back.  n_out at most ModelOptions.max_out.  All are
 * where ops are.
 */
void		draft_forward(Draft *d, const Batch *b, const KvView *kv, float *logits, float *fed);
int			draft_fed_width(const Draft *d);

#endif
