/*
 * dev_endpoints.c
 *	  Control of the engine by HTTP, as in vLLM's development mode: sleep, wake, pause.
 *
 * The paths exist only while vllm.http_dev_mode is on.  Parameters are in the query (?level=2); an
 * unknown one is refused.  Each path calls a function, llm_sleep() for /sleep, under the key's role,
 * which needs EXECUTE on it.
 *
 * Tests: tests/t/083_http_dev.pl.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "httpd/httpd_settings.h"
#include "httpd/handler.h"

#define MOST_ARGS	4

typedef struct DevCall
{
	const char *path;
	const char *sql;
	const char *args[MOST_ARGS];	/* $1 and so on, NULL if not given; some of them have no effect here */
	const char *answer;			/* NULL: the result of the call */
} DevCall;

static const DevCall calls[] = {
	{"/sleep", "SELECT vllm.http_sleep(coalesce($1, '1')::pg_catalog.int4, coalesce($2, 'abort'), "
			   "$3::pg_catalog.text)", {"level", "mode", "model"}, ""},
	{"/wake_up", "SELECT vllm.http_wake_up(pg_catalog.string_to_array($1, ','), $2::pg_catalog.text)",
	 {"tags", "model"}, ""},
	{"/is_sleeping", "SELECT pg_catalog.json_build_object('is_sleeping', "
					 "vllm.http_is_sleeping($1::pg_catalog.text))", {"model"}, NULL},
	{"/pause", "SELECT vllm.http_pause(coalesce($1, 'abort'), $2::pg_catalog.text), $3::pg_catalog.bool",
	 {"mode", "model", "clear_cache"}, "{\"status\":\"paused\"}"},
	{"/resume", "SELECT vllm.http_resume($1::pg_catalog.text)", {"model"}, "{\"status\":\"resumed\"}"},
	{"/is_paused", "SELECT pg_catalog.json_build_object('is_paused', "
				   "vllm.http_is_paused($1::pg_catalog.text))", {"model"}, NULL},
};

static const DevCall *
call_of(const char *path)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].path, path) == 0)
			return &calls[i];
	return NULL;
}

/* ---- the query ---- */

typedef struct Query
{
	const DevCall *call;
	Buf			values[MOST_ARGS];
	const char *unknown;
} Query;

/* Add an argument; if it is given again, append it after a comma (for tags). */
static bool
take_arg(Query *q, const char *name, const char *value)
{
	for (int i = 0; i < MOST_ARGS && q->call->args[i] != NULL; i++)
		if (strcmp(q->call->args[i], name) == 0)
		{
			if (q->values[i].data != NULL)
				buf_addc(&q->values[i], ',');
			buf_addstr(&q->values[i], value);
			return true;
		}
	q->unknown = name;
	return false;
}

/* Parse the query.  text is changed in place. */
static void
take_args(Query *q, char *text)
{
	char	   *rest;
	char	   *value;

	for (char *arg = strtok_r(text, "&", &rest); arg != NULL; arg = strtok_r(NULL, "&", &rest))
	{
		value = strchr(arg, '=');
		if (value != NULL)
		{
			*value++ = '\0';
			head_decode(value, true);
		}
		head_decode(arg, true);
		if (!take_arg(q, arg, value != NULL ? value : ""))
			return;
	}
}

DbEnd
dev_call(ClientRequest *q, Db *db, Buf *body, DbError *e)
{
	Query		args = {.call = call_of(q->route->path)};
	const char *params[MOST_ARGS] = {NULL};
	PGresult   *r = NULL;
	int			n = 0;
	DbEnd		end;

	if (q->head->query != NULL)
		take_args(&args, q->head->query);
	for (; n < MOST_ARGS && args.call->args[n] != NULL; n++)
		params[n] = args.values[n].data;
	if (args.unknown != NULL)
	{
		*e = (DbError) {.status = 400};
		snprintf(e->message, sizeof(e->message), "unknown parameter \"%.100s\"", args.unknown);
		end = DB_ERROR;
	}
	else
	{
		end = db_query(db, q->client, args.call->sql, n, params, &r, e);
	}
	if (end == DB_OK)
		buf_addstr(body, args.call->answer != NULL ? args.call->answer : PQgetvalue(r, 0, 0));
	PQclear(r);
	for (int i = 0; i < MOST_ARGS; i++)
		buf_free(&args.values[i]);
	return end;
}
