/*
 * fallback.c
 *	  Option "fallback": another model for a request whose model has failed.
 *
 * A request's message lists the models that may serve it instead (caller_options.c).  The message for
 * the next model is the same except for the fields that belong to the model: its location, its
 * options, its secret, its prices, and its own fallbacks, which come before the rest of the first
 * model's.  A model that has been asked is not asked again, so a chain can't loop; and a request goes
 * to at most ROUTE_MOST models.
 *
 * Another model is not asked after an error of the caller (wrong options, privileges, a cancelled
 * request), nor if the request has token ids, which are numbers of the first model's vocabulary.
 *
 * Tests: tests/sql/38_fallback.sql, tests/t/116_money.pl.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/client/request_tracking.h"
#include "pg/call/fallback.h"
#include "pg/vllm_pg.h"
#include "ipc/wire.h"

/*
 * Return true if the field belongs to the model or describes the caller.  The next message gets its
 * own such fields.
 */
static bool
is_models(int tag)
{
	switch (tag)
	{
		case WTAG_DATABASE:
		case WTAG_ROLE:
		case WTAG_SESSION:
		case WTAG_LOGIN:
		case WTAG_BACKGROUND:
		case WTAG_ROLE_WEIGHT:
		case WTAG_ROLE_MAX_REQUESTS:
		case WTAG_ROLE_TOKENS_PER_MINUTE:
		case WTAG_ROLE_MAX_TOKENS:
		case WTAG_ROLE_LIMIT_WAIT:
		case WTAG_SLEEP_WAIT:
		case WTAG_MODEL:
		case WTAG_MODEL_PATH:
		case WTAG_MODEL_OPTIONS:
		case WTAG_MODEL_HASH:
		case WTAG_LORA:
		case WTAG_LORA_PATH:
		case WTAG_SECRET_PATHS:
		case WTAG_DEFAULT_MODEL:
		case WTAG_URL:
		case WTAG_SECRET:
		case WTAG_PRICE_INPUT:
		case WTAG_PRICE_CACHED:
		case WTAG_PRICE_OUTPUT:
		case WTAG_CACHE_RULE:
		case WTAG_CASCADE:
			return true;
		default:
			return false;
	}
}

static bool
is_its_fault(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
			return true;
		default:
			return sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW;
	}
}

/* Errors of the caller: no other model is asked after these, even if the error says that one may be. */
static bool
is_callers_error(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_QUERY_CANCELED || sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE ||
		sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED || sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE;
}

/* Return true if the message names fallbacks and has no field that only the first model understands. */
static bool
can_go_on(const char *body, Size len)
{
	WireIn		in = {body, body + len};
	WireField	f;
	bool		some = false;

	while (wire_next(&in, &f) > 0)
	{
		if (wire_tag_of_vocabulary(f.tag) || f.tag == WTAG_MODEL_DIGEST)
			return false;
		some |= f.tag == WTAG_FALLBACK;
	}
	return some;
}

bool
route_may(const ErrorData *e, bool elsewhere, const char *body, Size len)
{
	return !is_callers_error(e->sqlerrcode) && (elsewhere || is_its_fault(e->sqlerrcode)) &&
		can_go_on(body, len);
}

bool
route_may_body(const char *reply, Size reply_len, const char *body, Size len)
{
	WireIn		in = {reply, reply + reply_len};
	WireField	f;
	bool		failed = false;

	/* the HTTP statuses of classes 53, 57P03, 58, 08 and of unknown errors */
	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_API_STATUS)
			failed = f.i == 429 || f.i == 500 || f.i == 503;
	return failed && can_go_on(body, len);
}

static void
name_of(const WireField *f, char *name)
{
	char	   *s = name_from_wire(f->s, f->n);

	strlcpy(name, s, NAMEDATALEN);
	pfree(s);
}

static bool
is_tried(const FallbackRoute *r, const char *name)
{
	for (int i = 0; i < r->n; i++)
		if (strcmp(r->tried[i], name) == 0)
			return true;
	return false;
}

/* Return the model if the user may ask it and it is available; else NULL, with the reason in r->why. */
static ModelRow *
may_call(FallbackRoute *r, const char *name)
{
	ModelRow   *m = catalog_find(name);

	if (m == NULL)
		snprintf(r->why, sizeof(r->why), "The next model to call, \"%s\", does not exist.", name);
	else if (!catalog_may_use(m, GetUserId()))
		snprintf(r->why, sizeof(r->why),
				 "The next model to call is \"%s\", but permission is denied for it.", name);
	else if (!vclient_is_ready(catalog_is_remote(m)))
		snprintf(r->why, sizeof(r->why), "The next model to call is \"%s\", but it is not available now.",
				 name);
	else
		return m;
	return NULL;
}

static void
make_message(const ModelRow *m, const FallbackRoute *r, const char *body, Size len, StringInfo to)
{
	WireIn		in = {body, body + len};
	WireOut		out = vclient_out(to);
	WireField	f;
	const char *before = in.p;

	resetStringInfo(to);
	catalog_put(m, &out);
	for (; wire_next(&in, &f) > 0; before = in.p)
	{
		char		name[NAMEDATALEN];

		if (is_models(f.tag))
			continue;
		if (f.tag == WTAG_FALLBACK)
		{
			name_of(&f, name);
			if (is_tried(r, name))
				continue;
		}
		appendBinaryStringInfo(to, before, in.p - before);
	}
}

bool
route_next(FallbackRoute *r, const char *body, Size len, StringInfo to, char *model)
{
	WireIn		in = {body, body + len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
	{
		ModelRow   *m;

		if (f.tag == WTAG_MODEL && r->n == 0)
			name_of(&f, r->tried[r->n++]);
		if (f.tag != WTAG_FALLBACK || r->n >= ROUTE_MOST)
			continue;
		name_of(&f, model);
		if (is_tried(r, model))
			continue;
		strlcpy(r->tried[r->n++], model, NAMEDATALEN);
		m = may_call(r, model);
		if (m == NULL)
			continue;
		make_message(m, r, body, len, to);
		return true;
	}
	return false;
}

bool
route_to(FallbackRoute *r, const char *model, const char *body, Size len, StringInfo to)
{
	WireIn		in = {body, body + len};
	WireField	f;
	ModelRow   *m;

	while (r->n == 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_MODEL)
			name_of(&f, r->tried[r->n++]);
	if (is_tried(r, model) || r->n >= ROUTE_MOST)
	{
		snprintf(r->why, sizeof(r->why), "The next model to call is \"%s\", but it has already been called.",
				 model);
		return false;
	}
	strlcpy(r->tried[r->n++], model, NAMEDATALEN);
	m = may_call(r, model);
	if (m != NULL)
		make_message(m, r, body, len, to);
	return m != NULL;
}

ErrorData *
route_unsure(const FallbackRoute *r)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	e->message = pstrdup("the model's answer is uncertain, and the next model of the cascade can't be "
						 "called");
	e->detail = pstrdup(r->why);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

bool
route_around(FallbackRoute *r, const StringInfoData *body, StringInfo to, char *model)
{
	if (vllm_shared == NULL || vclient_is_ready(request_is_remote(body->data, body->len)) ||
		!can_go_on(body->data, body->len))
		return false;
	initStringInfo(to);
	if (route_next(r, body->data, body->len, to, model))
		return true;
	memset(r, 0, sizeof(*r));
	return false;
}

void
route_add_detail(const FallbackRoute *r, ErrorData *e)
{
	StringInfoData s;

	if (r->n < 2 && r->why[0] == '\0')
		return;
	initStringInfo(&s);
	if (e->detail != NULL)
		appendStringInfo(&s, "%s ", e->detail);
	if (r->why[0] == '\0')
	{
		appendStringInfoString(&s, "Models that were called:");
		for (int i = 0; i < r->n; i++)
			appendStringInfo(&s, "%s \"%s\"", i > 0 ? "," : "", r->tried[i]);
		appendStringInfoChar(&s, '.');
	}
	else
		appendStringInfoString(&s, r->why);
	e->detail = s.data;
}
