/*
 * earley.h
 *	  The position of a text in a grammar: states and steps by byte.
 *
 * A state is a number; equal positions have equal numbers, so callers can keep states, copy them and
 * return to them freely.  States are made when first needed and live as long as the Parse.
 */
#ifndef VLLM_GRAMMAR_CFG_EARLEY_H
#define VLLM_GRAMMAR_CFG_EARLEY_H

#include "grammar/cfg/cfg.h"
#include "grammar/cfg/lexer.h"

typedef struct Parse Parse;

#define PARSE_DEAD	0			/* no text continues from here */

/* Make a parser, which takes over the finished grammar. */
Parse	   *parse_new(Cfg *c);
void		parse_free(Parse *p);
size_t		parse_memory(const Parse *p);
/* Begin a unit of work; its steps are counted from 0 (re_begin()). */
void		parse_begin(Parse *p);
/* Return all steps so far, including those of expressions. */
uint64_t	parse_work(const Parse *p);
/* Count n steps of other code as the parser's. */
void		parse_count(Parse *p, uint64_t n);
/* Return false with *e set if a limit has been exceeded: then all states made since parse_begin() are
 * invalid. */
bool		parse_check(const Parse *p, Err *e);

uint32_t	parse_start(Parse *p);
uint32_t	parse_step(Parse *p, uint32_t state, uint8_t b);
bool		parse_accepts(const Parse *p, uint32_t state); /* the text may end here */
bool		parse_can_go_on(Parse *p, uint32_t state);
/* Return the only byte that may come next; -1: none, or several. */
int			parse_only(Parse *p, uint32_t state);
/* Compute the set of bytes that may come next. */
void		parse_first(Parse *p, uint32_t state, uint32_t set[8]);

/* ---- for masks: a state as pairs of a parser row and a lexer state ---- */

typedef struct ParsePair
{
	uint32_t	row;
	uint32_t	lex;
} ParsePair;

Lexer	   *parse_lexer(Parse *p);
/* The result is valid until the next step. */
const ParsePair *parse_pairs(const Parse *p, uint32_t state, uint32_t *n);
/* Return the state after lexemes (lexer_done()) that began at the row have ended; nothing else
 * continues. */
uint32_t	parse_after(Parse *p, uint32_t row, uint32_t done);
uint32_t	parse_n_states(const Parse *p); /* for tests, which bound it */

#endif
