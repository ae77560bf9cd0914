/*
 * cfg.h
 *	  Context-free grammars: rules whose bodies are expressions over lexemes and rules.
 *
 * A lexeme is a regular expression (regex.h) over bytes; it matches in one piece.  A
 * rule's body is a node, made of the builders below; bodies may refer to any rule,
 * also to ones defined later or to themselves, on the left, too.  Nodes are numbers and
 * hash-consed: the same thing built twice is the same number.  Builders never fail;
 * when room runs out they give CFG_NONE and cfg_finish() tells.
 *
 * There is no longest-match rule and no skipping of white space: the language is the
 * plain set of concatenations.  Where lexemes may end in several places all of them are
 * followed.  A lexeme that holds a whole token of the language ("key" with its quotes and
 * colon, a number, a string) is matched much faster than rules that spell it.
 *
 * A node that can't match any text (RE_NONE inside, a rule without an end) is the same as
 * CFG_NONE: alternatives with it disappear, sequences with it are CFG_NONE.  For rules this
 * is settled by cfg_finish(), so a grammar never leads into a dead end.
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
/* The universe of its lexemes; owned by the grammar. */
Regex	   *cfg_re(Cfg *c);

/* A text that the expression matches (it may match the empty text). */
CfgNode		cfg_lexeme(Cfg *c, ReNode re);
/* A rule is made first and defined once, at any time before cfg_finish(). */
CfgRule		cfg_rule_new(Cfg *c);
void		cfg_rule_define(Cfg *c, CfgRule r, CfgNode body);
CfgNode		cfg_ref(Cfg *c, CfgRule r);

CfgNode		cfg_seq(Cfg *c, CfgNode a, CfgNode b);
CfgNode		cfg_alt(Cfg *c, CfgNode a, CfgNode b);
/* Of many at once: n = 0 gives CFG_EMPTY and CFG_NONE. */
CfgNode		cfg_seqs(Cfg *c, const CfgNode *a, size_t n);
CfgNode		cfg_alts(Cfg *c, const CfgNode *a, size_t n);
CfgNode		cfg_optional(Cfg *c, CfgNode a);
/* min .. max times (CFG_INF = no bound), one node whatever the counts; min > max is CFG_NONE. */
CfgNode		cfg_repeat(Cfg *c, CfgNode a, uint32_t min, uint32_t max);
/* min .. max times with sep between two of them. */
CfgNode		cfg_list(Cfg *c, CfgNode a, CfgNode sep, uint32_t min, uint32_t max);

/*
 * Entries with sep between two of them, as the members of an object.
 *
 * An entry is one of the members, each at most once, or an instance of rest, any number of
 * times (CFG_NONE: there are no others).  All required members occur; where member `from` of
 * a dependency occurs, `to` does as well (to == CFG_NEVER: then from never occurs).  There
 * are min .. max entries in all (rest counted).  Not ordered: entries stand in any order.
 * Ordered: members that occur stand in the order given, then the instances of rest.
 *
 * Members that can't match (CFG_NONE) never occur; if such a one is required the whole is CFG_NONE.
 * rest should not match what a member matches, or "at most once" means little: take the members'
 * keys out of its key (re_and(key, re_not(keys))).  Neither members nor rest may match the empty
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
 * The grammar is complete: the language is the root's.  ERR_INVALID if it is empty
 * or a rule has been left undefined; ERR_TOO_LONG if room has run out.
 * Nothing may be built afterwards.
 */
bool		cfg_finish(Cfg *c, CfgNode root, Err *e);
/* An empty language is none to be used, but no error. */
bool		cfg_finish_any(Cfg *c, CfgNode root, bool *empty, Err *e);

/* Number of nodes so far; for tests, which bound it. */
uint32_t	cfg_size(const Cfg *c);

#endif
