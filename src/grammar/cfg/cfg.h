/*
 * cfg.h
 *	  Context-free grammars: rules whose bodies are expressions over lexemes and rules.
 *
 * A lexeme is a regular expression (regex.h) over bytes; it matches in one piece.  A rule's body is a
 * node, made by the builders below; bodies may refer to any rule, also to later ones or to their own
 * (left recursion is allowed).  Nodes are numbers and hash-consed: building the same node twice gives
 * the same number.  Builders never fail; when memory for nodes runs out they return CFG_NONE, and
 * cfg_finish() reports it.
 *
 * There is no longest-match rule and white space is not skipped: the language is the plain set of
 * concatenations.  If lexemes may end in several places, the parser follows all of them.  A lexeme for a
 * whole token of the language ("key" with its quotes and colon, a number, a string) is matched much
 * faster than rules that spell it.
 *
 * A node that can't match any text (RE_NONE inside, a rule without an end) is equivalent to CFG_NONE: it
 * disappears from alternatives, and sequences with it are CFG_NONE.  For rules cfg_finish() determines
 * this, so a grammar never leads to a dead end.
 */
#ifndef VLLM_GRAMMAR_CFG_CFG_H
#define VLLM_GRAMMAR_CFG_CFG_H

#include "grammar/regex/regex.h"

typedef struct Cfg Cfg;
typedef uint32_t CfgNode;
typedef uint32_t CfgRule;

#define CFG_NONE	0			/* matches nothing */
#define CFG_EMPTY	1			/* the empty text */
#define CFG_INF		UINT32_MAX	/* no upper bound */

Cfg		   *cfg_new(void);
void		cfg_free(Cfg *c);
/* Return the universe of the lexemes' expressions; the grammar owns it. */
Regex	   *cfg_re(Cfg *c);

/* Return a node for a text that the expression matches (it may match the empty text). */
CfgNode		cfg_lexeme(Cfg *c, ReNode re);
/* Make a rule; define it once, at any time before cfg_finish(). */
CfgRule		cfg_rule_new(Cfg *c);
void		cfg_rule_define(Cfg *c, CfgRule r, CfgNode body);
CfgNode		cfg_ref(Cfg *c, CfgRule r);

CfgNode		cfg_seq(Cfg *c, CfgNode a, CfgNode b);
CfgNode		cfg_alt(Cfg *c, CfgNode a, CfgNode b);
/* Combine n nodes; n = 0 gives CFG_EMPTY and CFG_NONE. */
CfgNode		cfg_seqs(Cfg *c, const CfgNode *a, size_t n);
CfgNode		cfg_alts(Cfg *c, const CfgNode *a, size_t n);
CfgNode		cfg_optional(Cfg *c, CfgNode a);
/* Repeat min .. max times (CFG_INF = no bound), as one node whatever the counts; min > max is
 * CFG_NONE. */
CfgNode		cfg_repeat(Cfg *c, CfgNode a, uint32_t min, uint32_t max);
/* Repeat min .. max times with sep between. */
CfgNode		cfg_list(Cfg *c, CfgNode a, CfgNode sep, uint32_t min, uint32_t max);

/*
 * Entries with sep between, such as the members of an object.
 *
 * An entry is one of the members, each at most once, or an instance of rest, any number of times
 * (CFG_NONE: no other entries).  All required members must occur; if member `from` of a dependency
 * occurs, `to` must occur as well (to == CFG_NEVER: then from never occurs).  There are min .. max
 * entries in all, rest included.  Not ordered: entries come in any order.  Ordered: members come in the
 * given order, then the instances of rest.
 *
 * Members that can't match (CFG_NONE) never occur; if such a member is required, the whole is CFG_NONE.
 * rest should not match what a member matches, otherwise "at most once" has little effect: exclude the
 * members' keys from its key (re_and(key, re_not(keys))).  Neither members nor rest may match the empty
 * text (cfg_finish() fails then).
 */
typedef struct CfgMember
{
	CfgNode		node;			/* key, colon and value */
	bool		required;
} CfgMember;

#define CFG_NEVER	UINT32_MAX

typedef struct CfgDep
{
	uint32_t	from,
				to;				/* indexes of members; to may be CFG_NEVER */
} CfgDep;

typedef struct CfgMembers
{
	const CfgMember *member;	/* copied */
	size_t		n;
	const CfgDep *dep;			/* copied; NULL if there are none */
	size_t		n_deps;
	CfgNode		rest;
	CfgNode		sep;
	uint32_t	min;
	uint32_t	max;			/* CFG_INF = no bound */
	bool		ordered;
} CfgMembers;

CfgNode		cfg_members(Cfg *c, const CfgMembers *m);

/*
 * Complete the grammar: its language is the root's.  ERR_INVALID if the language is empty or a rule is
 * undefined; ERR_TOO_LONG if memory for nodes has run out.  Nothing may be built afterwards.
 */
bool		cfg_finish(Cfg *c, CfgNode root, Err *e);
/* The same, but an empty language is no error (the grammar can't be used then). */
bool		cfg_finish_any(Cfg *c, CfgNode root, bool *empty, Err *e);

/* Return the number of nodes.  For tests, which bound it. */
uint32_t	cfg_size(const Cfg *c);

#endif
