/*
 * cascade_option.c
 *	  Option "cascade" of a model: {"to": MODEL, "threshold": LOGPROB} or {"to": MODEL, "accept": P,
 *	  "reject": P}.
 *
 * call/cascade.c uses it.  Tests: tests/sql/39_cascade.sql.
 */
#include "postgres.h"

#include <math.h>

#include "pg/catalog/cascade_option.h"
#include "pg/compat.h"
#include "pg/util/encoding.h"

pg_noreturn static void
refuse(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("option \"cascade\" %s", why),
			 errhint("It is {\"to\": a model, \"threshold\": a log-probability} and, for llm_filter(), "
					 "\"accept\" and \"reject\": probabilities.")));
	pg_unreachable();
}

static double
number(const JsonNode *n, const char *name)
{
	const JsonNode *m = json_tree_get(n, name);

	if (m == NULL || m->kind == JSON_NULL)
		return NAN;
	if (m->kind != JSON_NUMBER)
		refuse(psprintf("needs a number as \"%s\"", name));
	return strtod(m->text, NULL);
}

static CascadeRule
read_option(const JsonNode *n)
{
	CascadeRule r;
	const JsonNode *to;

	if (n->kind != JSON_OBJECT)
		refuse(psprintf("must be an object, got %s", json_kind_name(n->kind)));
	for (const JsonNode *m = n->first; m != NULL; m = m->next)
	{
		if (strcmp(m->key, "to") != 0 && strcmp(m->key, "threshold") != 0 &&
			strcmp(m->key, "accept") != 0 && strcmp(m->key, "reject") != 0)
			refuse(psprintf("has no member \"%s\"", m->key));
		for (const JsonNode *b = m->next; b != NULL; b = b->next)
			if (strcmp(m->key, b->key) == 0)
				refuse(psprintf("has member \"%s\" twice", b->key));
	}
	to = json_tree_get(n, "to");
	if (to == NULL || to->kind != JSON_STRING || to->text[0] == '\0' || strlen(to->text) >= NAMEDATALEN)
		refuse("needs the name of a model as \"to\"");
	r.threshold = number(n, "threshold");
	r.accept = number(n, "accept");
	r.reject = number(n, "reject");
	r.to = to->text;
	r.to_len = strlen(to->text);
	if (isnan(r.threshold) && isnan(r.accept))
		refuse("needs \"threshold\", or \"accept\" and \"reject\"");
	if (r.threshold > 0)
		refuse(psprintf("needs a log-probability, at most 0, as \"threshold\", got %g", r.threshold));
	if (isnan(r.accept) != isnan(r.reject))
		refuse("needs both \"accept\" and \"reject\", or neither");
	if (!isnan(r.accept) && !(r.reject >= 0 && r.reject <= r.accept && r.accept <= 1))
		refuse("needs probabilities as \"accept\" and \"reject\", the latter not above the former");
	return r;
}

void
cascade_check(const JsonNode *n, const char *model)
{
	CascadeRule r = read_option(n);

	if (strcmp(r.to, model) == 0)
		refuse(psprintf("must not name the model \"%s\" itself as \"to\"", model));
}

void
cascade_put(const JsonNode *n, WireOut *out)
{
	CascadeRule r = read_option(n);
	char	   *s = psprintf("%.17g %.17g %.17g %s", r.threshold, r.accept, r.reject, r.to);

	wire_put_text(out, WTAG_CASCADE, s, strlen(s));
}
