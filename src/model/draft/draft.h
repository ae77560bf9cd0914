/*
 * draft.h
 *	  Drafters: models that draft the next tokens of another model, the target.
 *
 * There are three kinds (DraftKind).  Heads draft all tokens from one hidden row of the target.  A chain
 * is one or a few layers with their own K and V: its input row combines the hidden row of a position and
 * the token after it, and its output takes the place of the hidden row of the next position.  The third
 * kind is any smaller model with the same vocabulary.  A wrong draft costs only time: the target
 * verifies each token (spec.h).
 *
 * A method is a file and a row in drafts.def.  A Draft belongs to the thread that runs its target's
 * steps; it may use the target's embedding and head, and must be freed before the target.
 *
 * Tested by tests/golden/draft_golden.c.
 */
#ifndef VLLM_MODEL_DRAFT_DRAFT_H
#define VLLM_MODEL_DRAFT_DRAFT_H

#include "model/model.h"

#define DRAFT_MOST	32			/* draft tokens in a row */

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
	int			most;			/* most draft tokens in a row; 0 = any number */
	int			usual;			/* default number of draft tokens; 0 = the user must give it */
	int			given;			/* width of the target's row that it reads: ModelTaps.mid with */
	int			n_layers;		/* number of layers whose rows ModelTaps.mid has */
	int			layers[TAP_LAYERS]; /* those layers; if there are none, it reads ModelTaps.all or .out */
	bool		raw;			/* ModelTaps.all_raw */
	ModelInfo	model;			/* the drafter's own: sizes of its K and V, weight_bytes */
} DraftInfo;

/*
 * Return the method for a directory, by its path as given and its config.json; "draft_model" if neither
 * indicates another.
 */
const char *draft_infer_method(const Conf *conf, const char *path);

/*
 * Load a drafter's weights.  opt as for the target, with max_rows of a step, max_out rows of logits,
 * max_model_len of the target.  For "mtp" conf and src are the target's own.  Errors: as model_new(),
 * and ERR_INVALID if it was made for another target.
 */
Draft	   *draft_new(const char *method, const Conf *conf, const ModelSource *src, const ModelOptions *opt,
					  Model *target, Err *e);
void		draft_free(Draft *d);
const DraftInfo *draft_info(const Draft *d);

/* Like model_store() and model_fetch(), for its own weights. */
bool		draft_store(Draft *d, const char *dir, Err *e);
bool		draft_fetch(Draft *d, Err *e);
/* Like model_forget() and model_adopt(). */
void		draft_forget(Draft *d);
bool		draft_adopt(Draft *d, Draft *from, Err *e);

/* Run only the checks; target: facts about the target. */
bool		draft_check(const char *method, const Conf *conf, const ModelSource *src,
						const QuantScheme *quant, const Kernels *k, const ModelInfo *target, DraftInfo *info,
						Err *e);

/*
 * DRAFT_HEADS: draft [n][k] tokens after each of n tokens, given the target's hidden rows before them,
 * in the memory of ops; -1: no draft.
 */
void		draft_heads(Draft *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out);

/*
 * The other kinds: run one step of rows, which write K and V.  DRAFT_CHAIN reads Batch.given.  logits:
 * [n_out][the target's vocab_size], K_NO_COLUMN for tokens that can't be drafted; fed, for a chain:
 * [n_out][draft_fed_width()], the input row of the next position, to be passed with Batch.fed_back.
 * n_out is at most ModelOptions.max_out.  All buffers are in the memory of ops.
 */
void		draft_forward(Draft *d, const Batch *b, const KvView *kv, float *logits, float *fed);
int			draft_fed_width(const Draft *d);

#endif
