/*
 * lexer.h
 *	  Which lexemes a run of bytes may be, or become.
 *
 * A state is a set of pairs (lexeme, its rest), made when first needed.  The only state without a pair
 * is LEX_DEAD.
 */
#ifndef VLLM_GRAMMAR_CFG_LEXER_H
#define VLLM_GRAMMAR_CFG_LEXER_H

#include "grammar/regex/regex.h"

typedef struct Lexer Lexer;

#define LEX_DEAD	0

typedef struct LexInfo
{
	uint32_t	done;			/* set of lexemes that have just ended: a number for lexer_done(); 0 = none */
	bool		more;			/* one of them may continue */
} LexInfo;

typedef struct LexState
{
	LexInfo		info;
	/* by class: the next state, with LEX_MORE and LEX_DONE from its info; LEX_UNKNOWN = not computed
	 * yet.  NULL = none computed.  The array never moves. */
	uint32_t   *next;
} LexState;

#define LEX_UNKNOWN	UINT32_MAX
#define LEX_MORE	1u			/* lexemes may continue */
#define LEX_DONE	2u			/* lexemes have ended */
#define LEX_STATE(x) ((x) >> 2)

Lexer	   *lexer_new(Regex *re);
void		lexer_free(Lexer *l);
size_t		lexer_memory(const Lexer *l);
/*
 * For texts that exist already: don't check whether a text can be completed (re_live()), as the text
 * shows it.  States from which nothing can be completed aren't LEX_DEAD then.
 */
void		lexer_read_only(Lexer *l);

/* Return the state in which these lexemes (sorted, each once) may begin. */
uint32_t	lexer_start(Lexer *l, const ReNode *lexeme, uint32_t n);
/* Return the state after a byte of the class (re_classes()). */
uint32_t	lexer_step(Lexer *l, uint32_t state, uint32_t cls);
/* The same with flags, as in LexState.next. */
uint32_t	lexer_step_flags(Lexer *l, uint32_t state, uint32_t cls);
/* Return the info of a state that has been reached by a step. */
LexInfo		lexer_info(const Lexer *l, uint32_t state);
/* Return all states, for walks that step by themselves where possible; valid until the next step. */
const LexState *lexer_states(const Lexer *l, uint32_t *n);
/* Return a bound: numbers of sets of lexemes are below it. */
uint32_t	lexer_n_done(const Lexer *l);
/* Return the lexemes of a number, sorted. */
const ReNode *lexer_done(const Lexer *l, uint32_t done, uint32_t *n);
/* Return the number of a set of lexemes, sorted. */
uint32_t	lexer_done_number(Lexer *l, const ReNode *lexeme, uint32_t n);
/* Return the pairs of a state: lexeme, rest, lexeme, ...; n pairs.  Valid until the next step. */
const ReNode *lexer_pairs(const Lexer *l, uint32_t state, uint32_t *n);
Regex	   *lexer_re(const Lexer *l);
/* Return a state that is equivalent for the next k bytes and that many states share. */
uint32_t	lexer_clamp(Lexer *l, uint32_t state, uint32_t k);
uint32_t	lexer_classes(const Lexer *l, const uint8_t **cls);

#endif
