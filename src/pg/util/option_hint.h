/*
 * option_hint.h
 *	  The hint for an unknown name: the most similar known name, and all known names.
 */
#ifndef VLLM_PG_UTIL_OPTION_HINT_H
#define VLLM_PG_UTIL_OPTION_HINT_H

#include "lib/stringinfo.h"

typedef struct OptionHint
{
	const char *name;			/* the unknown name */
	const char *nearest;		/* the most similar one so far; NULL: none is similar enough */
	int			distance;		/* letters in which a more similar one may differ; negative: none can be
								 * more similar */
	StringInfoData known;		/* list of the known names so far */
} OptionHint;

void		option_hint_begin(OptionHint *h, const char *name);
/* Add a known name; it must live as long as h. */
void		option_hint_add(OptionHint *h, const char *known);
/* Report the hint, within ereport().  what: the plural of what the names denote */
int			option_hint_report(const OptionHint *h, const char *what);

#endif
