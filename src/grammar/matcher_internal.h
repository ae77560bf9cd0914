/*
 * matcher_internal.h
 *	  What grammars, matches and masks know of one another.
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
	pthread_mutex_t lock;		/* of all below */
	GramBuild	build;
	void	   *arg;
	void		(*free_arg) (void *);
	bool		read_only;		/* lexer_read_only() */
	bool		empty;			/* read_only: there is no such text, and no parser */
	uint64_t	work;			/* of parsers that are gone */
	size_t		limit;			/* bytes */
	Parse	   *p;				/* NULL after a failure */
	uint32_t	epoch;			/* states are of one only */
	GramMasks  *masks;
};

/* ---- under the lock ---- */

/* Before any use: starts anew if need be. */
bool		grammar_begin(Grammar *g, Err *e);
/* Steps from *state over the bytes; it is PARSE_DEAD then if they don't fit. */
bool		grammar_walk(Grammar *g, uint32_t *state, const char *s, size_t n, Err *e);

/* ---- masks ---- */

struct GramMasks
{
	GramMasks  *next;
	GramVocab  *v;
	struct MaskTables *t;		/* NULL = nothing known */
};

/* Those for a vocabulary, made if there are none. */
GramMasks  *masks_of(Grammar *g, GramVocab *v);
void		masks_free(GramMasks *m);
void		masks_forget(GramMasks *m); /* the grammar starts anew, or memory is short */
size_t		masks_memory(const GramMasks *m);
/* The mask of a state; without the end tokens. */
bool		masks_fill(GramMasks *m, Parse *p, uint32_t state, uint32_t *words, Err *e);

#endif
