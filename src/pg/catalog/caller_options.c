/*
 * caller_options.c
 *	  Options of a model that the backend uses itself (caller_options.def): prices, fallback,
 *	  cascade, result_cache.
 *
 * The engine and the remote program ignore these options.  They are checked when a model is created,
 * and become fields of its requests' messages.  The backend that made the message reads the fields
 * back: spend.c, fallback.c, cascade.c, result_cache.c.
 *
 * Tests: tests/sql/36_cost.sql, 37_result_cache.sql, 38_fallback.sql, 39_cascade.sql.
 */
#include "postgres.h"

#include <math.h>

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "pg/catalog/caller_options.h"
#include "pg/catalog/cascade_option.h"
#include "pg/compat.h"
#include "pg/client/spend.h"
#include "pg/util/encoding.h"
#include "pg/catalog/remote_model_options.h"

#define MAX_FALLBACKS	8
/* of all cached results of a model, if its options don't say */
#define CACHE_BYTES		(INT64CONST(256) * 1024 * 1024)

typedef struct CacheRule
{
	bool		on;
	int64		max_age;		/* s, 0 = no limit */
	int64		max_bytes;
	bool		shared;			/* roles that may use the model share its results */
} CacheRule;

pg_noreturn static void refuse(const char *option, const char *why);

static void
refuse(const char *option, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("option \"%s\" %s", option, why)));
	pg_unreachable();
}

/* ERROR unless each member of the object is in the list and none occurs twice. */
static void
check_members(const char *option, const JsonNode *object, const char *const *names, const char *list)
{
	if (object->kind != JSON_OBJECT)
		refuse(option, psprintf("must be %s, got %s", json_kind_name(JSON_OBJECT),
								json_kind_name(object->kind)));
	for (const JsonNode *a = object->first; a != NULL; a = a->next)
	{
		int			i = 0;

		while (names[i] != NULL && strcmp(names[i], a->key) != 0)
			i++;
		if (names[i] == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unknown member \"%s\" of option \"%s\"", a->key, option),
					 errhint("Known members: %s.", list)));
		for (const JsonNode *b = a->next; b != NULL; b = b->next)
			if (strcmp(a->key, b->key) == 0)
				refuse(option, psprintf("has member \"%s\" twice", b->key));
	}
}

/* ---- prices ---- */

static double
price(const JsonNode *prices, const char *name, double otherwise)
{
	const JsonNode *p = json_tree_get(prices, name);
	double		value;

	if (p == NULL)
		return otherwise;
	value = p->kind == JSON_NUMBER ? strtod(p->text, NULL) : -1;
	if (!(value >= 0 && value <= COST_MAX_PRICE))
		refuse("prices", psprintf("needs a number from 0 to %d as \"%s\"", COST_MAX_PRICE, name));
	/* costs are exact: they are kept in whole units of the last allowed digit */
	if (fabs(value * COST_PRICE_UNITS - rint(value * COST_PRICE_UNITS)) > 1e-3)
		refuse("prices", psprintf("has more than six digits behind the point as \"%s\"", name));
	return value;
}

static void
prices_check(const JsonNode *n, const char *model)
{
	static const char *const names[] = {"input", "cached_input", "output", NULL};

	check_members("prices", n, names, "input, cached_input, output; each is the price of a million tokens");
	for (int i = 0; names[i] != NULL; i++)
		(void) price(n, names[i], 0);
}

static void
prices_put(const JsonNode *n, WireOut *out)
{
	double		input = price(n, "input", 0);

	wire_put_num(out, WTAG_PRICE_INPUT, input);
	wire_put_num(out, WTAG_PRICE_CACHED, price(n, "cached_input", input));
	wire_put_num(out, WTAG_PRICE_OUTPUT, price(n, "output", 0));
}

/* ---- fallback ---- */

static void
fallback_check(const JsonNode *n, const char *model)
{
	const JsonNode *e = n->kind == JSON_ARRAY ? n->first : n;
	int			count = 0;

	for (; e != NULL; e = n->kind == JSON_ARRAY ? e->next : NULL)
	{
		if (e->kind != JSON_STRING || e->text[0] == '\0' || strlen(e->text) >= NAMEDATALEN)
			refuse("fallback", "must be the name of a model, or an array of such names");
		if (strcmp(e->text, model) == 0)
			refuse("fallback", psprintf("must not name the model \"%s\" itself", model));
		if (++count > MAX_FALLBACKS)
			refuse("fallback", psprintf("has more than %d models", MAX_FALLBACKS));
	}
}

static void
fallback_put(const JsonNode *n, WireOut *out)
{
	for (const JsonNode *e = n->kind == JSON_ARRAY ? n->first : n; e != NULL;
		 e = n->kind == JSON_ARRAY ? e->next : NULL)
		wire_put_text(out, WTAG_FALLBACK, e->text, strlen(e->text));
}

/* ---- result_cache ---- */

/*
 * Return the seconds of an interval, or -1 if the text is not an interval.  The error may be caught
 * without a subtransaction, since the type's functions hold no resources but memory.
 */
static double
interval_seconds(const char *text)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile double s = -1;

	PG_TRY();
	{
		Datum		interval = DirectFunctionCall3(interval_in, CStringGetDatum(text),
												   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		Datum		epoch = DirectFunctionCall2(extract_interval, CStringGetTextDatum("epoch"), interval);

		s = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, epoch));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return s;
}

static int64
seconds_of(const JsonNode *n)
{
	double		s = -1;

	if (n->kind == JSON_NUMBER)
		s = strtod(n->text, NULL);
	else if (n->kind == JSON_STRING)
		s = interval_seconds(n->text);
	if (!(s >= 1 && s <= 1e11))
		refuse("result_cache", psprintf("needs seconds, or an interval such as \"7 days\", of at least 1 s "
										"as \"max_age\", got %s", n->kind == JSON_STRING ?
										psprintf("\"%.*s\"", pg_mbcliplen(n->text, (int) strlen(n->text), 60),
												 n->text) :
										n->kind == JSON_NUMBER ? n->text : json_kind_name(n->kind)));
	return (int64) s;
}

static CacheRule
cache_rule(const JsonNode *n)
{
	static const char *const names[] = {"max_age", "max_bytes", "shared", NULL};
	CacheRule	r = {.on = true,.max_bytes = CACHE_BYTES};
	const JsonNode *m;

	if (n->kind == JSON_BOOL)
	{
		r.on = n->text[0] == 't';
		return r;
	}
	check_members("result_cache", n, names, "max_age, max_bytes, shared");
	m = json_tree_get(n, "max_age");
	if (m != NULL)
		r.max_age = seconds_of(m);
	m = json_tree_get(n, "max_bytes");
	if (m != NULL)
	{
		double		bytes = m->kind == JSON_NUMBER ? strtod(m->text, NULL) : -1;

		if (!(bytes >= 1024 && bytes <= 1e15))
			refuse("result_cache", "needs a number of at least 1024 as \"max_bytes\"");
		r.max_bytes = (int64) bytes;
	}
	m = json_tree_get(n, "shared");
	if (m != NULL && m->kind != JSON_BOOL)
		refuse("result_cache", "needs true or false as \"shared\"");
	r.shared = m != NULL && m->text[0] == 't';
	return r;
}

static void
result_cache_check(const JsonNode *n, const char *model)
{
	(void) cache_rule(n);
}

static void
result_cache_put(const JsonNode *n, WireOut *out)
{
	CacheRule	r = cache_rule(n);
	char	   *s = psprintf(INT64_FORMAT " " INT64_FORMAT " %d", r.max_age, r.max_bytes, r.shared);

	if (r.on)
		wire_put_str(out, WTAG_CACHE_RULE, s, strlen(s));
}

/* ---- options that name other models ---- */

/* Option "fallback" has a list of names, "cascade" one name. */
static const char *const naming[] = {"fallback", "cascade"};

static bool
is_name(const JsonNode *n, const char *name)
{
	return n != NULL && n->kind == JSON_STRING && (name == NULL || strcmp(n->text, name) == 0);
}

/*
 * Return true if the option names the model; name NULL: any model.  *names, unless NULL, gets the
 * names found.
 */
static bool
option_names(const JsonNode *n, const char *name, List **names)
{
	const JsonNode *e = n->kind == JSON_ARRAY ? n->first :
		n->kind == JSON_OBJECT ? json_tree_get(n, "to") : n;
	bool		any = false;

	for (; e != NULL; e = n->kind == JSON_ARRAY ? e->next : NULL)
	{
		if (!is_name(e, name))
			continue;
		any = true;
		if (names != NULL)
			*names = lappend(*names, e->text);
	}
	return any;
}

/*
 * Return NULL if the options have none of these, without parsing them.  A backslash may be an escape
 * that hides a key.
 */
static const JsonNode *
naming_tree(const char *options)
{
	if (options == NULL || (strstr(options, naming[0]) == NULL && strstr(options, naming[1]) == NULL &&
							strchr(options, '\\') == NULL))
		return NULL;
	return model_options_tree(options);
}

const char *
caller_options_naming(const char *options, const char *name)
{
	const JsonNode *root = naming_tree(options);

	for (int i = 0; root != NULL && i < (int) lengthof(naming); i++)
	{
		const JsonNode *n = json_tree_get(root, naming[i]);

		if (n != NULL && option_names(n, name, NULL))
			return naming[i];
	}
	return NULL;
}

List *
caller_options_named(const char *options)
{
	const JsonNode *root = naming_tree(options);
	List	   *names = NIL;

	for (int i = 0; root != NULL && i < (int) lengthof(naming); i++)
	{
		const JsonNode *n = json_tree_get(root, naming[i]);

		if (n != NULL)
			(void) option_names(n, NULL, &names);
	}
	return names;
}

/* Return the value of an option without the name; NULL if nothing is left. */
static char *
value_without(const JsonNode *n, const char *name)
{
	StringInfoData s;

	if (!option_names(n, name, NULL))
		return pnstrdup(n->raw, n->raw_len);
	if (n->kind != JSON_ARRAY)
		return NULL;
	initStringInfo(&s);
	for (const JsonNode *e = n->first; e != NULL; e = e->next)
		if (!is_name(e, name))
			appendStringInfo(&s, "%s%.*s", s.len > 0 ? ", " : "", e->raw_len, e->raw);
	return s.len > 0 ? psprintf("[%s]", s.data) : NULL;
}

char *
caller_options_without(const char *options, const char *name)
{
	const JsonNode *root = model_options_tree(options);
	StringInfoData s;

	initStringInfo(&s);
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
	{
		bool		of_names = strcmp(n->key, naming[0]) == 0 || strcmp(n->key, naming[1]) == 0;
		char	   *value = of_names ? value_without(n, name) : pnstrdup(n->raw, n->raw_len);

		if (value == NULL)
			continue;
		appendStringInfoString(&s, s.len > 0 ? ", " : "{");
		escape_json(&s, n->key);
		appendStringInfo(&s, ": %s", value);
	}
	appendStringInfoString(&s, s.len > 0 ? "}" : "{}");
	return s.data;
}

/* ---- all options ---- */

static const struct
{
	const char *name;
	void		(*check) (const JsonNode *n, const char *model);
	void		(*put) (const JsonNode *n, WireOut *out);
}			caller_options[] = {
#define CALLER_OPTION(name) {#name, name##_check, name##_put},
#include "ipc/caller_options.def"
#undef CALLER_OPTION
};

void
caller_options_check(const JsonNode *root, const char *model)
{
	for (int i = 0; root != NULL && i < (int) lengthof(caller_options); i++)
	{
		int			times = 0;

		for (const JsonNode *n = root->first; n != NULL; n = n->next)
			if (strcmp(n->key, caller_options[i].name) == 0 && n->kind != JSON_NULL)
			{
				caller_options[i].check(n, model);
				times++;
			}
		if (times > 1)
			refuse(caller_options[i].name, "occurs twice");
	}
}

void
caller_options_put(const char *options, WireOut *out)
{
	const JsonNode *root = NULL;

	for (int i = 0; options != NULL && i < (int) lengthof(caller_options); i++)
	{
		const JsonNode *n;

		/*
		 * most models have none of these, so their options need not be parsed; a backslash may hide a
		 * key
		 */
		if (strstr(options, caller_options[i].name) == NULL && strchr(options, '\\') == NULL)
			continue;
		if (root == NULL)
			root = model_options_tree(options);
		n = json_tree_get(root, caller_options[i].name);
		if (n != NULL && n->kind != JSON_NULL)
			caller_options[i].put(n, out);
	}
}
