/*
 * option_hint.c
 *	  The hint for an unknown name (option_hint.h).
 *
 * A known name is similar if it differs in at most half of the unknown name's letters, and in at most
 * three.
 *
 * Tests: tests/sql/03_options.sql, tests/sql/33_remote_models.sql.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/builtins.h"
#include "utils/varlena.h"

#include "pg/util/option_hint.h"

#define LONGEST_NAME	63		/* a longer name is similar to none, and slow to compare */
#define MOST_LETTERS	3

void
option_hint_begin(OptionHint *h, const char *name)
{
	h->name = name;
	h->nearest = NULL;
	h->distance = Min((int) strlen(name) / 2, MOST_LETTERS);
	initStringInfo(&h->known);
}

void
option_hint_add(OptionHint *h, const char *known)
{
	int			len = strlen(h->name);
	int			distance = len > LONGEST_NAME ? INT_MAX :
		varstr_levenshtein_less_equal(h->name, len, known, strlen(known), 1, 1, 1, h->distance, true);

	appendStringInfo(&h->known, "%s%s", h->known.len == 0 ? "" : ", ", known);
	if (distance <= h->distance)
	{
		h->nearest = known;
		h->distance = distance - 1;
	}
}

int
option_hint_report(const OptionHint *h, const char *what)
{
	return h->nearest != NULL ?
		errhint("Perhaps you meant \"%s\". Known %s: %s.", h->nearest, what, h->known.data) :
		errhint("Known %s: %s.", what, h->known.data);
}
