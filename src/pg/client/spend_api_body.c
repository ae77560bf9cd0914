/*
 * spend_api_body.c
 *	  The parts of a body of OpenAI's or Anthropic's interfaces that determine its cost.
 *
 * A backend passes bodies on unchanged; the engine or the endpoint reads them.  But a budget has to
 * know beforehand how many tokens may be generated: answers times prompts times the largest number
 * for each, if the body gives one.
 *
 * Tests: tests/sql/36_cost.sql.
 */
#include "postgres.h"

#include <math.h>

#include "utils/memutils.h"

#include "pg/client/spend.h"
#include "pg/util/encoding.h"
#include "pg/util/json_tree.h"

/* Return a member that is a number of at least 1; 0 if there is none. */
static int64
count_of(const JsonNode *body, const char *name)
{
	const JsonNode *m = json_tree_get(body, name);
	double		v = m != NULL && m->kind == JSON_NUMBER ? strtod(m->text, NULL) : 0;

	return v >= 1 ? (int64) Min(v, 1e9) : 0;
}

/* Return the number of prompts: a text, or a list of token ids, is one; an array of these has as many. */
static int64
prompts_of(const JsonNode *body)
{
	const JsonNode *p = json_tree_get(body, "prompt");

	if (p == NULL || p->kind != JSON_ARRAY || p->first == NULL || p->first->kind == JSON_NUMBER)
		return 1;
	return p->n;
}

void
cost_note_body(SpendRecord *n, const char *s, Size len)
{
	static const char *const limits[] = {"max_tokens", "max_completion_tokens", "max_output_tokens"};
	MemoryContext tmp = AllocSetContextCreate(CurrentMemoryContext, "LLM body", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(tmp);
	const JsonNode *body = json_tree(text_from_wire(s, len));

	if (body->kind == JSON_OBJECT)
	{
		for (int i = 0; i < (int) lengthof(limits); i++)
			n->max_tokens = Max(n->max_tokens, count_of(body, limits[i]));
		n->answers = Max(count_of(body, "n"), 1);
		n->answers = Max(n->answers, count_of(body, "best_of")) * prompts_of(body);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(tmp);
}
