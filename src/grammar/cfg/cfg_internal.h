/*
 * cfg_internal.h
 *	  A finished grammar as the parser uses it: nodes with transitions.
 *
 * A node is what remains to be matched.  A symbol (a lexeme or a rule that has matched a nonempty text)
 * leads to other nodes, as a byte leads from an expression to its derivative.  Transitions are made when
 * they are first requested.
 */
#ifndef VLLM_GRAMMAR_CFG_CFG_INTERNAL_H
#define VLLM_GRAMMAR_CFG_CFG_INTERNAL_H

#include "grammar/cfg/cfg.h"

/* The symbol of a transition: lexemes are even, rules odd. */
typedef uint32_t CfgSym;

typedef struct CfgTrans
{
	CfgSym		sym;
	CfgNode		to;
} CfgTrans;

static inline CfgSym
cfg_sym_lexeme(ReNode lexeme)
{
	return lexeme << 1;
}

static inline CfgSym
cfg_sym_rule(CfgRule r)
{
	return r << 1 | 1;
}

/* Return true if the node may match the empty text.  Call after cfg_finish(). */
bool		cfg_nullable(const Cfg *c, CfgNode a);
/*
 * Return the transitions, sorted by symbol, without those that can't be completed.  The result is valid
 * until the next call of any function.
 */
const CfgTrans *cfg_trans(Cfg *c, CfgNode a, uint32_t *n);
CfgNode		cfg_body(const Cfg *c, CfgRule r);
CfgNode		cfg_root(const Cfg *c);
/* Return false with *e set if memory for nodes has run out. */
bool		cfg_check(const Cfg *c, Err *e);
size_t		cfg_memory(const Cfg *c);
/* Begin a new unit of work (re_begin()); return all steps so far. */
void		cfg_begin(Cfg *c);
uint64_t	cfg_work(const Cfg *c);

/* ---- members (cfg_object_members.c) ---- */

typedef struct Members Members;	/* all sets of members of a grammar, and their states */

Members    *members_new(void);
void		members_free(Members *m);
size_t		members_memory(const Members *m);
/* Begin a new unit of work: its steps are counted from 0.  Above the limit no end can be reached. */
void		members_begin(Members *m);
bool		members_full(const Members *m);
uint64_t	members_work(const Members *m);
/* Return the state before the first entry. */
uint32_t	members_add(Members *m, const CfgMembers *spec);
/* Determine which members, rest and sep can match; call before the functions below.  Return false if an
 * entry may be empty. */
typedef bool (*MembersAlive) (const void *arg, CfgNode a);
bool		members_finish(Members *m, MembersAlive alive, MembersAlive empty, const void *arg);
/* Return the parts of the set that a state belongs to. */
const CfgMembers *members_spec(const Members *m, uint32_t state);
/* Return the state after entry i (n = an instance of rest). */
uint32_t	members_next(Members *m, uint32_t state, uint32_t i);
/* Return true if entry i may come next so that an end can be reached. */
bool		members_may(Members *m, uint32_t state, uint32_t i);
/* Return true if the list may end after entry i of state; CFG_INF: in the state itself. */
bool		members_may_end(Members *m, uint32_t state, uint32_t i);
bool		members_started(const Members *m, uint32_t state);	/* there are entries */
/* Return true if the list can be completed from its beginning, given what can match so far. */
bool		members_alive(Members *m, uint32_t state, MembersAlive alive, const void *arg);

#endif
