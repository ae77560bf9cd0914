/*
 * grammar_ast.h
 *	  What a written grammar says, before it is a Cfg.
 *
 * The readers of notations (ebnf.c, lark.c) make a tree of each rule; note_build() turns
 * them into a grammar.  What isn't recursive and not too large becomes part of a lexeme, so that
 * a grammar which spells its numbers digit by digit is as fast as one with a pattern for them.
 */
#ifndef VLLM_GRAMMAR_LANG_GRAMMAR_AST_H
#define VLLM_GRAMMAR_LANG_GRAMMAR_AST_H

#include "base/buf.h"
#include "grammar/cfg/cfg.h"

typedef struct Notation Notation;
typedef uint32_t NoteNode;

/* A list that grows; v is freed by who has it. */
typedef struct NoteNodes
{
	NoteNode   *v;
	size_t		n,
				cap;
} NoteNodes;

void		note_nodes_push(NoteNodes *l, NoteNode x);

Notation   *note_new(Cfg *c);
void		note_free(Notation *n);

NoteNode	note_re(Notation *n, ReNode re);
NoteNode	note_seq(Notation *n, const NoteNode *part, size_t count);
NoteNode	note_alt(Notation *n, const NoteNode *part, size_t count);
NoteNode	note_repeat(Notation *n, NoteNode a, uint32_t min, uint32_t max);

/* The number of a rule by its name, made if there is none. */
uint32_t	note_rule(Notation *n, const char *name, size_t len);
NoteNode	note_ref(Notation *n, uint32_t rule);
/* False if it is defined already. */
bool		note_define(Notation *n, uint32_t rule, NoteNode body);
bool		note_defined(const Notation *n, uint32_t rule);
const char *note_name(const Notation *n, uint32_t rule);

/* The language of a rule; a name without a rule is ERR_INVALID. */
bool		note_build(Notation *n, uint32_t start, CfgNode *out, Err *e);

/* ---- reading ---- */

/* A place in a text, for the readers. */
typedef struct NoteText
{
	const char *s;
	size_t		n;
	size_t		i;
	Err		   *e;
} NoteText;

/* Sets the error with the line; returns false. */
bool		note_error(NoteText *t, ErrClass cls, const char *fmt,...) __attribute__((format(printf, 3, 4)));
/* What comes next is not allowed here; returns false. */
bool		note_unexpected(NoteText *t);
bool		note_looking_at(const NoteText *t, const char *s);
/* Take s if it comes next. */
bool		note_accept(NoteText *t, const char *s);
/* The sequence of its parts, which are freed, if all of them were read: ok, which is returned. */
bool		note_end_sequence(Notation *n, NoteNodes *parts, bool ok, NoteNode *out);
/* Sequences with "|" between them, read by sequence(); it has set the error if it returns false. */
bool		note_alternatives(Notation *n, NoteText *t, bool (*sequence) (void *reader, NoteNode *out),
							  void *reader, NoteNode *out);
/* A decimal number of at most 1,000,000; false if there is none (then without an error) or it is larger. */
bool		note_number(NoteText *t, uint32_t *v);
/*
 * A literal in quotes, which are taken as well, with C's and JSON's escapes; appended to *out as
 * UTF-8 (\xHH as that character).
 */
bool		note_literal(NoteText *t, Buf *out);

#endif
