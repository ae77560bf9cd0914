/*
 * option_hint.h
 *	  The hint for a name that nobody knows: which one was meant, and which ones there are.
 */
#ifndef VLLM_PG_UTIL_OPTION_HINT_H
#define VLLM_PG_UTIL_OPTION_HINT_H

#include "lib/stringinfo.h"

typedef struct OptionHint
{
	const char *name;			/* what was given */
	const char *nearest;		/* of the names so far; NULL: none is near enough */
	int			distance;		/* letters that a nearer one may differ in; negative: none can be nearer */
	StringInfoData known;		/* the names so far */
} OptionHint;

void		option_hint_begin(OptionHint *h, const char *name);
/* A name that is known; it must live as long as h. */
void		option_hint_add(OptionHint *h, const char *known);
/* Within ereport(); what: the plural of what the names are. */
int			option_hint_report(const OptionHint *h, const char *what);

#endif
