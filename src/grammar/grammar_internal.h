/*
 * grammar_internal.h
 *	  What makes a Grammar, for the compilers of specifications and for tests.
 */
#ifndef VLLM_GRAMMAR_GRAMMAR_INTERNAL_H
#define VLLM_GRAMMAR_GRAMMAR_INTERNAL_H

#include "grammar/cfg/cfg.h"
#include "grammar/grammar.h"

/* Build the language in an empty grammar; called again when the grammar starts anew. */
typedef bool (*GramBuild) (Cfg *c, const void *arg, CfgNode *out, Err *e);

/*
 * A grammar of what build makes; for tests, which make random ones.  arg is the Grammar's then, freed with
 * free_arg (NULL: it stays the caller's), also on failure.
 */
Grammar    *grammar_build(GramBuild build, void *arg, void (*free_arg) (void *), Err *e);
/* Memory beyond which it starts anew between two steps, 0 = the default; for tests, which want it small. */
void		grammar_set_limit(Grammar *g, size_t bytes);

/*
 * Steps since it was made: of expressions, the parser and masks, which limits count.  For tests, which
 * bound it.
 */
uint64_t	grammar_work(Grammar *g);

/* A specification as part of a larger grammar (structural tags). */
bool		spec_build(Cfg *c, const GramSpec *spec, CfgNode *out, Err *e);

/* ---- compilers ---- */

/* Rules name ::= ..., start rule root (ebnf.c). */
bool		ebnf_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e);
/* Lark's notation, start rule start or the first (lark.c). */
bool		lark_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e);
/* Both forms of structural tags (structural_tags.c). */
bool		tags_build(Cfg *c, const char *text, size_t n, const GramOptions *o, CfgNode *out, Err *e);

#endif
