/*
 * pooling_model.h
 *	  Private to the files of this folder: the configuration of pooling in a model's files.
 */
#ifndef VLLM_BACKEND_POOLING_POOLING_MODEL_H
#define VLLM_BACKEND_POOLING_POOLING_MODEL_H

#include "backend/pooling/pooling_inputs.h"

/* An instruction that a model defines under a name. */
typedef struct PoolPrompt
{
	char	   *name;
	char	   *text;
	int32_t		first;			/* the token for its first `len` bytes; -1 = encode all of it as text */
	size_t		len;
} PoolPrompt;

/* The role of a text for a model of token vectors. */
typedef enum PoolSide
{
	SIDE_NONE, SIDE_QUERY, SIDE_DOCUMENT, SIDES
} PoolSide;

/* Configuration of late interaction (late_interaction.c); all 0 = the model has none. */
typedef struct Late
{
	int			limit[SIDES];	/* tokens; 0 = the model's limit */
	int			expand_to;		/* queries are padded to this many tokens, 0 = no padding */
	int32_t		expand_id;		/* id of the padding token */
	bool		hidden;			/* no token attends to the padding tokens */
	IntVec		skip;			/* ids of tokens whose vectors are dropped */
	bool		skips[SIDES];	/* the sides for which they are dropped */
	bool		mean;			/* MaxSim is a mean, not a sum */
} Late;

struct PoolModel
{
	const ModelInfo *info;
	const Tok  *tok;
	const ChatModel *chat;		/* chat templates of the model's files */
	ChatModel  *reranker;		/* template for pairs that is known for this model; NULL = none */
	int			max_len;		/* most tokens of a sequence */
	int			special[2];		/* tokens added around one text, and around two */
	bool		include_prompt; /* the tokens of an instruction are pooled, too */
	bool		by_logits;		/* a language model scores the pairs */
	PoolPrompt *prompts;
	int			n_prompts;
	int			default_prompt; /* -1 = none */
	char	  **labels;			/* [n_labels + 1], the last NULL; or NULL */
	bool		matryoshka;		/* embeddings may be cut */
	int		   *widths;			/* permitted widths of a cut embedding; none = any width */
	int			n_widths;
	int			cut;			/* embeddings are cut to this width, as the last step; 0 = they are not */
	bool		typed;			/* a pair's second text has another token type */
	bool		by_token;		/* the model is made for token vectors */
	Late		late;
	int32_t		reward_token;	/* token that must end a text of a reward task; -1 = none */
};

/* Return the index of the prompt with this name, -1 = none. */
int			poolmodel_prompt(const PoolModel *m, const char *name, size_t n);
/* Return the index of the prompt for a query or a document; -1 = none. */
int			poolmodel_side_prompt(const PoolModel *m, PoolSide side);

/* late_interaction.c */
bool		late_read(PoolModel *m, const Conf *c, Err *e);
PoolSide	late_side(const PoolModel *m, const char *prompt, size_t n);
/* Pad a query and set the list of dropped tokens; *filled = the number of padding tokens. */
void		late_finish(const Late *l, PoolSide side, PoolSeq *s, int *filled);

#endif
