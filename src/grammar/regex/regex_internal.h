/*
 * regex_internal.h
 *	  What the files of regular expressions share.
 */
#ifndef VLLM_GRAMMAR_REGEX_REGEX_INTERNAL_H
#define VLLM_GRAMMAR_REGEX_REGEX_INTERNAL_H

#include "grammar/regex/regex.h"

/* Cache of character classes (char_class.c). */
typedef struct ReChars ReChars;

ReChars    *re_chars_new(void);
void		re_chars_free(ReChars *c);
ReChars    *re_chars(Regex *re);
size_t		re_chars_memory(const ReChars *c);

/* ---- the universe (derivative.c) ---- */

typedef enum ReKind
{
	K_NONE,
	K_EMPTY,
	K_BYTES,					/* a: index of the set */
	K_CAT,						/* a, b */
	K_OR,						/* b nodes from kids[a] */
	K_AND,
	K_NOT,						/* a */
	K_REP,						/* a{min,max} */
	K_RESIDUE					/* digits that, after max of them, are a multiple of min */
} ReKind;

typedef struct ReParts
{
	uint8_t		kind;
	bool		nullable;
	bool		meets;			/* contains and, not: may match nothing without being RE_NONE */
	bool		residue;		/* contains K_RESIDUE */
	uint8_t		live;			/* if `meets`: 0 unknown, 1 matches something, 2 nothing */
	uint16_t	depth;
	uint32_t	a,
				b;
	uint32_t	min,
				max;
	uint32_t	min_len,
				max_len;
	uint32_t	top;			/* the largest count inside */
} ReParts;

typedef struct ReSet
{
	uint32_t	w[8];
} ReSet;

struct Regex
{
	ReParts    *node;
	uint32_t	n,
				cap,
				max;
	uint32_t   *hash;			/* of nodes, UNKNOWN = free */
	uint32_t	hash_cap;
	ReSet	   *set;
	uint32_t	n_sets,
				cap_sets;
	uint32_t   *kids;
	uint32_t	n_kids,
				cap_kids;
	struct ReDeriv *memo;
	ReNode	   *derivs;
	uint32_t	n_memo,
				cap_memo;
	uint8_t		cls[256];
	uint8_t		rep[256];		/* a byte of each class */
	uint32_t	n_cls;
	bool		settled;		/* cls is valid for all sets */
	bool		full;
	uint64_t	work,			/* of this unit of work */
				work_before;
	bool		no_nul;
	bool		searching;		/* in re_live(), which must not be entered again */
	uint32_t	pair_x,
				pair_y;			/* arguments and result of the last is_letters() */
	bool		pair_yes;
	ReChars    *chars;
};

/* ---- shared functions ---- */

/* Sort and merge ranges; return how many are left. */
size_t		re_ranges_sort(ReRange *r, size_t n);

#endif
