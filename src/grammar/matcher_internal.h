/*
 * matcher_internal.h
 *	  What the code of grammars, matches and masks shares.
 */
#ifndef VLLM_GRAMMAR_MATCHER_INTERNAL_H
#define VLLM_GRAMMAR_MATCHER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "grammar/grammar_internal.h"
#include "grammar/cfg/earley.h"

/* The masks of one grammar for one vocabulary (token_mask.c). */
typedef struct GramMasks GramMasks;

struct Grammar
{
	atomic_int	refs;
	pthread_mutex_t lock;		/* protects all fields below */
	GramBuild	build;
	void	   *arg;
	void		(*free_arg) (void *);
	bool		read_only;		/* lexer_read_only() */
	bool		empty;			/* read_only: the language is empty, and there is no parser */
	uint64_t	work;			/* of freed parsers */
	size_t		limit;			/* bytes of memory */
	Parse	   *p;				/* NULL after a failure */
	uint32_t	epoch;			/* changes when the grammar is rebuilt: states are valid in one epoch only */
	GramMasks  *masks;
};

/* ---- under the lock ---- */

/* Call before any use: rebuilds the grammar if necessary. */
bool		grammar_begin(Grammar *g, Err *e);
/* Step from *state over the bytes; *state becomes PARSE_DEAD if they don't fit. */
bool		grammar_walk(Grammar *g, uint32_t *state, const char *s, size_t n, Err *e);

/* ---- masks ---- */

struct GramMasks
{
	GramMasks  *next;
	GramVocab  *v;
	struct MaskTables *t;		/* NULL = nothing cached */
};

/* Return the masks for a vocabulary; make them if there are none. */
GramMasks  *masks_of(Grammar *g, GramVocab *v);
void		masks_free(GramMasks *m);
void		masks_forget(GramMasks *m); /* when the grammar is rebuilt, or memory is short */
size_t		masks_memory(const GramMasks *m);
/* Compute the mask of a state, without the end tokens. */
bool		masks_fill(GramMasks *m, Parse *p, uint32_t state, uint32_t *words, Err *e);

#endif
