/*
 * regex_internal.h
 *	  What the files of regular expressions share.
 */
#ifndef VLLM_GRAMMAR_REGEX_REGEX_INTERNAL_H
#define VLLM_GRAMMAR_REGEX_REGEX_INTERNAL_H

#include "grammar/regex/regex.h"

/* Classes of characters that have been made already (char_class.c). */
typedef struct ReChars ReChars;

ReChars    *re_chars_new(void);
void		re_chars_free(ReChars *c);
ReChars    *re_chars(Regex *re);
size_t		re_chars_memory(const ReChars *c);

/* ---- what a universe is (derivative.c) ---- */

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
	K_RESIDUE					/* digits that, behind max of them, are a multiple of min */
} ReKind;

typedef struct ReParts
{
	uint8_t		kind;
	bool		nullable;
	bool		meets;			/* and, not inside: may be dead without being RE_NONE */
	bool		residue;		/* K_RESIDUE, not inside */
	uint8_t		live;			/* of those that meet: 0 unknown, 1 yes, 2 no */
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
	bool		settled;		/* cls covers all sets */
	bool		full;
	uint64_t	work,			/* of this piece */
				work_before;
	bool		no_nul;
	bool		searching;		/* in re_live(), which must not be begun again */
	uint32_t	pair_x,
				pair_y;			/* the last question of is_letters(), and its answer */
	bool		pair_yes;
	ReChars    *chars;
};

/* ---- for the files ---- */

/* Ranges in order, apart from one another; returns how many are left. */
size_t		re_ranges_sort(ReRange *r, size_t n);

#endif
