/*
 * poolmodel.h
 *	  Private to pooling.c and poolmodel.c: what a model's files say about pooled requests.
 */
#ifndef VLLM_ENGINE_POOLMODEL_H
#define VLLM_ENGINE_POOLMODEL_H

#include "engine/pooling.h"

/* An instruction that the model knows by name. */
typedef struct PoolPrompt
{
	char	   *name;
	char	   *text;
} PoolPrompt;

struct PoolModel
{
	const ModelInfo *info;
	const Tok  *tok;
	const ChatModel *chat;		/* of the model's files */
	ChatModel  *reranker;		/* the format of pairs that the model is known for; NULL = none */
	int			max_len;		/* tokens of a sequence, at most */
	int			special[2];		/* tokens around one text, and around two */
	bool		lower;			/* texts are lower-cased */
	bool		include_prompt; /* an instruction's tokens are pooled, too */
	bool		by_logits;		/* pairs are scored by a language model */
	PoolPrompt *prompts;
	int			n_prompts;
	int			default_prompt; /* -1 = none */
	char	  **labels;			/* [n_labels + 1], the last NULL; or NULL */
	bool		matryoshka;		/* embeddings may be cut, */
	int		   *widths;			/* ... to these widths, or to any if there are none */
	int			n_widths;
	int32_t		reward_token;	/* must end a text whose reward is wanted; -1 = none */
};

/* -1 = there is no such prompt */
int			poolmodel_prompt(const PoolModel *m, const char *name, size_t n);

#endif
