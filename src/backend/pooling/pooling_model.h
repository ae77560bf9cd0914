/*
 * pooling_model.h
 *	  Private to pooling_inputs.c and pooling_model.c: what a model's files say about pooled requests.
 */
#ifndef VLLM_BACKEND_POOLING_POOLING_MODEL_H
#define VLLM_BACKEND_POOLING_POOLING_MODEL_H

#include "backend/pooling/pooling_inputs.h"

/* An instruction that the model knows by name. */
typedef struct PoolPrompt
{
	char	   *name;
	char	   *text;
	int32_t		first;			/* the token that its first `len` bytes are; -1 = it is all text */
	size_t		len;
} PoolPrompt;

/* What a text is to a model of token vectors. */
typedef enum PoolSide
{
	SIDE_NONE, SIDE_QUERY, SIDE_DOCUMENT, SIDES
} PoolSide;

/* Late interaction and its options (late_interaction.c); all 0: not a late-interaction model. */
typedef struct Late
{
	int			limit[SIDES];	/* tokens; 0 = what the model takes */
	int			expand_to;		/* a query is filled up to so many tokens, 0 = it isn't, */
	int32_t		expand_id;		/* id of the token that fills a query up */
	bool		hidden;			/* the query's own tokens don't attend to the fill tokens */
	IntVec		skip;			/* tokens that are left out, */
	bool		skips[SIDES];	/* which sides skip the tokens of the skip list */
	bool		mean;			/* MaxSim is a mean, not a sum */
} Late;

struct PoolModel
{
	const ModelInfo *info;
	const Tok  *tok;
	const ChatModel *chat;		/* of the model's files */
	ChatModel  *reranker;		/* the format of pairs that the model is known for; NULL = none */
	int			max_len;		/* tokens of a sequence, at most */
	int			special[2];		/* tokens around one text, and around two */
	bool		include_prompt; /* an instruction's tokens are pooled, too */
	bool		by_logits;		/* pairs are scored by a language model */
	PoolPrompt *prompts;
	int			n_prompts;
	int			default_prompt; /* -1 = none */
	char	  **labels;			/* [n_labels + 1], the last NULL; or NULL */
	bool		matryoshka;		/* embeddings may be cut, */
	int		   *widths;			/* permitted widths of an embedding; any width if there are none */
	int			n_widths;
	int			cut;			/* they are, to this one, behind everything else; 0 = they aren't */
	bool		typed;			/* a pair's second text has another token type */
	bool		by_token;		/* token vectors are what the model is for */
	Late		late;
	int32_t		reward_token;	/* must end a text whose reward is wanted; -1 = none */
};

/* -1 = there is no such prompt */
int			poolmodel_prompt(const PoolModel *m, const char *name, size_t n);
/* The prompt of a search's query, or of what is searched; -1 = none. */
int			poolmodel_side_prompt(const PoolModel *m, PoolSide side);

/* late_interaction.c */
bool		late_read(PoolModel *m, const Conf *c, Err *e);
PoolSide	late_side(const PoolModel *m, const char *prompt, size_t n);
/* A query is filled up, and what is left out is noted; *filled: so many tokens have been added. */
void		late_finish(const Late *l, PoolSide side, PoolSeq *s, int *filled);

#endif
