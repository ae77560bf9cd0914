/*
 * serve.c
 *	  One HTTP request.
 *
 * libmicrohttpd gives each client a thread of its own, so everything here may wait.
 *
 *	headers		route, method, origin, key, length: what is wrong is answered before the body is sent
 *	body		collected up to max_body, if llm_api() is to have it; else let go
 *	end			a connection of the pool, BEGIN, SET LOCAL ROLE, llm_api() or llm_api_stream(), COMMIT
 *
 * The key is looked up with the door's own connection, so that a full pool refuses nobody who
 * has none, and bodies are taken from known clients only.  Neither bodies nor keys are logged.
 *
 * Browsers: a page of another origin is refused unless vllm.http_allowed_origins has it, and bodies must be
 * application/json, which pages can't send elsewhere without asking first (CORS).
 *
 * Tests: tests/t/083_http.pl.
 */
#include "http/serve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/jsoncheck.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/auth.h"
#include "http/conf.h"
#include "http/count.h"

#define BODY_DEPTH	512			/* levels of brackets of a body */

static atomic_int active;
static atomic_int load;
static atomic_bool last;

int
serve_active(void)
{
	return atomic_load(&active);
}

int
serve_load(void)
{
	return atomic_load(&load);
}

void
serve_last(void)
{
	atomic_store(&last, true);
}

void
serve_count(int by)
{
	atomic_fetch_add(&active, by);
}

static const char *
header(const Request *q, const char *name)
{
	return MHD_lookup_connection_value(q->http, MHD_HEADER_KIND, name);
}

/* ---- answers ---- */

/* Clients in pages send headers of their own, and ask whether they may: any that they name, as the origin is trusted. */
static void
add_cors(const Request *q, struct MHD_Response *r)
{
	const char *origin = header(q, "Origin");
	const char *headers = header(q, "Access-Control-Request-Headers");

	if (http_conf.allowed_origins[0] == '\0')
		return;
	MHD_add_response_header(r, "Vary", "Origin, Access-Control-Request-Headers");
	if (origin == NULL || !conf_origin_allowed(origin))
		return;
	MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
	MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
	MHD_add_response_header(r, "Access-Control-Allow-Headers", headers != NULL ? headers :
							"authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
	MHD_add_response_header(r, "Access-Control-Max-Age", "600");
}

enum MHD_Result
serve_response(Request *q, int status, const char *type, struct MHD_Response *r)
{
	enum MHD_Result ok;

	if (r == NULL)
		return MHD_NO;
	if (type != NULL)
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == 401)
		MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (status == 503)
		MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (status == 405 && q->route != NULL)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, q->route->methods);
	if (q->last || atomic_load(&last))
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	add_cors(q, r);
	q->answered = true;
	count_answer(q->route, q->method, status);
	ok = MHD_queue_response(q->http, (unsigned) status, r);
	MHD_destroy_response(r);
	return ok;
}

enum MHD_Result
serve_body(Request *q, int status, const char *type, Buf *body)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(body->len, body->len > 0 ? body->data : "",
															 MHD_RESPMEM_MUST_COPY);

	buf_free(body);
	return serve_response(q, status, type, r);
}

enum MHD_Result
serve_error(Request *q, int status, const char *message)
{
	Buf			b = {0};

	answer_error(&b, q->dialect, status, message);
	return serve_body(q, status, "application/json", &b);
}

/* The call ended otherwise than with a result. */
static enum MHD_Result
serve_end(Request *q, DbEnd end, const DbError *e)
{
	/* nobody reads it; the socket is closed */
	if (end == DB_GONE)
		return MHD_NO;
	return serve_error(q, e->status, e->message);
}

/* ---- the door's own routes ---- */

/* Is a program in that state? */
static DbEnd
ask_state(Db *db, const char *sql, const char *state, bool *is, DbError *e)
{
	PGresult   *r = NULL;
	DbEnd		end = db_query(db, -1, sql, 0, NULL, &r, e);

	*is = end == DB_OK && strcmp(PQgetvalue(r, 0, 0), state) == 0;
	PQclear(r);
	return end;
}

/* The engine is ready; where there is to be none, the remote program is. */
static enum MHD_Result
serve_health(Request *q)
{
	static const char engine[] = "SELECT state FROM vllm.engine_stats()";
	DbError		e;
	Buf			body = {0};
	DbEnd		end;
	bool		ready;
	bool		off = false;
	Db		   *db = db_front_take(&e);

	if (db == NULL)
		return serve_error(q, 503, e.message);
	end = ask_state(db, engine, "ready", &ready, &e);
	if (end == DB_OK && !ready)
		end = ask_state(db, engine, "off", &off, &e);
	if (end == DB_OK && off)
		end = ask_state(db, "SELECT state FROM vllm.remote_state()", "ready", &ready, &e);
	db_front_give(db, end == DB_OK);
	if (end != DB_OK)
		return serve_error(q, 503, e.message);
	if (!ready)
		return serve_error(q, 503, off ? "the remote program is not ready" : "the inference engine is not ready");
	return serve_body(q, 200, NULL, &body);
}

static enum MHD_Result
serve_version(Request *q)
{
	DbError		e;
	PGresult   *r = NULL;
	Buf			body = {0};
	DbEnd		end;
	Db		   *db = db_front_take(&e);

	if (db == NULL)
		return serve_error(q, 503, e.message);
	end = db_query(db, -1, "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vllm_pg'", 0, NULL, &r, &e);
	if (end == DB_OK)
	{
		buf_addstr(&body, "{\"version\":");
		answer_json_string(&body, PQgetvalue(r, 0, 0));
		buf_addc(&body, '}');
	}
	PQclear(r);
	db_front_give(db, end == DB_OK);
	return end == DB_OK ? serve_body(q, 200, "application/json", &body) : serve_end(q, end, &e);
}

/* As vLLM tells it. */
static enum MHD_Result
serve_load_figure(Request *q)
{
	Buf			body = {0};

	buf_printf(&body, "{\"server_load\":%d}", serve_load());
	return serve_body(q, 200, "application/json", &body);
}

/* The engine's figures as the key's role may see them, and the door's own. */
static enum MHD_Result
serve_metrics(Request *q)
{
	DbError		e;
	PGresult   *r = NULL;
	Buf			body = {0};
	char		sql[256];
	DbEnd		end;
	Db		   *db = db_front_take(&e);

	if (db == NULL)
		return serve_error(q, 503, e.message);
	snprintf(sql, sizeof(sql), "SELECT %s.llm_metrics_text()", db->schema);
	end = db_begin(db, q->role, NULL, -1, &e);
	if (end == DB_OK)
		end = db_query(db, -1, sql, 0, NULL, &r, &e);
	if (end == DB_OK)
		buf_addstr(&body, PQgetvalue(r, 0, 0));
	PQclear(r);
	db_front_give(db, end != DB_LOST && db_end(db, end == DB_OK));
	if (end != DB_OK)
		return serve_error(q, e.status, e.message);
	count_text(&body);
	return serve_body(q, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* ---- the API ---- */

/* A function that has the body alone, and returns a sentence. */
static DbEnd
call_named(Request *q, Db *db, Buf *body, DbError *e)
{
	const char *params[1] = {q->body.data};
	PGresult   *r = NULL;
	char		sql[256];
	DbEnd		end;

	snprintf(sql, sizeof(sql), "SELECT %s.v1_%s($1::json)", db->schema, q->route->path + strlen("/v1/"));
	end = db_query(db, q->client, sql, 1, params, &r, e);
	if (end == DB_OK)
		buf_addstr(body, PQgetvalue(r, 0, 0));
	PQclear(r);
	return end;
}

static DbEnd
call_api(Request *q, Db *db, Buf *body, int *status, DbError *e)
{
	const char *params[2] = {q->path, q->body.len > 0 ? q->body.data : "{}"};
	PGresult   *r = NULL;
	char		sql[256];
	DbEnd		end;

	snprintf(sql, sizeof(sql), "SELECT %s.llm_api($1::text, $2::json, on_error => 'return')", db->schema);
	end = db_query(db, q->client, sql, 2, params, &r, e);
	if (end == DB_OK)
	{
		buf_add(body, PQgetvalue(r, 0, 0), (size_t) PQgetlength(r, 0, 0));
		*status = answer_error_status(body->data ? body->data : "");
	}
	PQclear(r);
	return end;
}

static enum MHD_Result
serve_api(Request *q)
{
	Buf			body = {0};
	int			status = 0;
	DbError		e;
	Db		   *db;
	DbEnd		end = db_take(q->client, &db, &e);

	if (end != DB_OK)
		return serve_end(q, end, &e);
	end = db_begin(db, q->role, (const char *const[2]) {header(q, "traceparent"), header(q, "tracestate")}, q->client, &e);
	if (end == DB_OK && q->route->streams && q->stream)
		return stream_start(q, db);
	if (end == DB_OK)
		end = q->route->kind == R_LORA ? call_named(q, db, &body, &e) :
			q->route->kind == R_DEV ? dev_call(q, db, &body, &e) : call_api(q, db, &body, &status, &e);
	if (end == DB_LOST)
		db_give(db, false);
	else
	{
		/* an answer that is an error has changed nothing that is to stay */
		bool		ended = db_end(db, end == DB_OK && status == 0);

		if (end == DB_OK && status == 0 && !ended)
			end = DB_LOST, e = (DbError) {.status = 500,.message = NOT_COMMITTED};
		db_give(db, ended);
	}
	if (end == DB_OK)
		return serve_body(q, status ? status : 200, body.len == 0 ? NULL : q->route->kind == R_LORA ? "text/plain; charset=utf-8" : "application/json", &body);
	buf_free(&body);
	return serve_end(q, end, &e);
}

static enum MHD_Result
serve_request(Request *q)
{
	switch (q->route->kind)
	{
		case R_HEALTH:
			return serve_health(q);
		case R_VERSION:
			return serve_version(q);
		case R_LOAD:
			return serve_load_figure(q);
		case R_METRICS:
			return serve_metrics(q);
		case R_API:
		case R_LORA:
		case R_DEV:
			break;
	}
	return serve_api(q);
}

/* ---- the headers ---- */

static enum MHD_Result
preflight(Request *q)
{
	const char *origin = header(q, "Origin");
	Buf			none = {0};

	if (origin == NULL || !conf_origin_allowed(origin))
		return serve_error(q, 403, "pages of this origin may not use the server");
	return serve_body(q, 204, NULL, &none);
}

static bool
is_json(const char *type)
{
	return type != NULL && strncasecmp(type, "application/json", 16) == 0 &&
		(type[16] == '\0' || type[16] == ';' || type[16] == ' ');
}

static enum MHD_Result
count_length(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void) kind;
	(void) value;
	*(int *) cls += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
	return MHD_YES;
}

/* Where does the body end?  What is in front of the door might think otherwise, and see another next request. */
static bool
has_two_lengths(const Request *q)
{
	int			n = header(q, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;

	MHD_get_connection_values(q->http, MHD_HEADER_KIND, count_length, &n);
	return n > 1;
}

static bool
has_body(const Request *q)
{
	const char *length = header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return header(q, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* Is there a call that has its body? */
static bool
asks_database(const Request *q)
{
	return q->route->kind == R_API || q->route->kind == R_LORA;
}

/* MHD_YES with q->answered unset: the body may come. */
static enum MHD_Result
check_length(Request *q)
{
	const char *length = header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);

	if (length == NULL || strtoull(length, NULL, 10) <= http_conf.max_body)
		return MHD_YES;
	return serve_error(q, 413, "the body is larger than vllm.http_max_body");
}

/* What can be said before the body; MHD_YES with q->answered unset: go on. */
static enum MHD_Result
begin(Request *q, const char *method)
{
	const char *origin = header(q, "Origin");
	bool		posts = strcmp(method, "POST") == 0;
	enum MHD_Result ok;
	int			status;
	char		message[1024];

	if (has_two_lengths(q))
	{
		q->last = true;
		return serve_error(q, 400, "the request has more than one length");
	}
	if (q->route == NULL)
		return serve_error(q, 404, "there is no such path");
	if (q->route->kind == R_DEV && !http_conf.dev_mode)
		return serve_error(q, 404, "there is no such path while vllm.http_dev_mode is off");
	if (strcmp(method, "OPTIONS") == 0 && header(q, "Access-Control-Request-Method") != NULL)
		return preflight(q);
	if (!route_allows(q->route, method))
		return serve_error(q, 405, "the method is not allowed for this path");
	if (q->route->kind == R_HEALTH || q->route->kind == R_VERSION || q->route->kind == R_LOAD)
		return check_length(q);
	if (origin != NULL && !conf_origin_allowed(origin))
		return serve_error(q, 403, "pages of this origin may not use the server");
	status = auth_role(q, &q->role, message, sizeof(message));
	if (status != 0)
		return serve_error(q, status, message);
	/* what stands in the query needs no body, nor its type */
	if (posts && !is_json(header(q, MHD_HTTP_HEADER_CONTENT_TYPE)) && (q->route->kind != R_DEV || has_body(q)))
		return serve_error(q, 415, "the body must be application/json");
	ok = check_length(q);
	if (!q->answered && asks_database(q))
	{
		q->counted = true;
		atomic_fetch_add(&load, 1);
	}
	return ok;
}

static Request *
new_request(struct MHD_Connection *http, const char *url, const char *method)
{
	Request    *q = mem_zalloc(sizeof(Request));

	q->http = http;
	q->client = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	q->path = mem_strdup(url);
	q->method = mem_strdup(method);
	q->route = route_find(url);
	q->dialect = q->route != NULL ? q->route->dialect : OPENAI;
	serve_count(1);
	return q;
}

/*
 * A piece of the body.  Routes of the door need none, and ask for no key, so nothing of it is kept; one that goes
 * on and on is cut off there (false), while a known client is told when it has ended.
 */
static bool
take_upload(Request *q, const char *data, size_t n)
{
	bool		kept = asks_database(q) || q->route->kind == R_DEV;

	q->received += n;
	if (q->received > http_conf.max_body)
	{
		q->too_large = true;
		buf_free(&q->body);
		return kept;
	}
	if (kept)
		buf_add(&q->body, data, n);
	return true;
}

/*
 * The body has come.  A GET, and what ends in an id or a verb, needs none.  What is not JSON must not get as far as the server: its
 * complaint would quote the body in the server's log.
 */
static bool
check_body(Request *q, const char *method, char *message, size_t size)
{
	JsonCheck	c = {.depth = BODY_DEPTH,.key = "stream"};

	if (q->body.len == 0)
	{
		snprintf(message, size, "the body is empty");
		return strcmp(method, "POST") != 0 || strchr(q->route->path, '*') != NULL;
	}
	snprintf(message, size, "the body is not JSON: ");
	if (json_check(q->body.data, q->body.len, &c))
	{
		q->stream = c.value != NULL && *c.value == 't';
		return true;
	}
	snprintf(message + strlen(message), size - strlen(message), "unexpected byte at offset %zu", c.at);
	return false;
}

enum MHD_Result
serve(void *cls, struct MHD_Connection *http, const char *url, const char *method, const char *version,
	  const char *upload, size_t *upload_size, void **ctx)
{
	Request    *q = *ctx;
	char		message[128];

	(void) cls;
	(void) version;
	if (q == NULL)
	{
		*ctx = q = new_request(http, url, method);
		return begin(q, method);
	}
	if (*upload_size > 0)
	{
		bool		ok = q->answered || take_upload(q, upload, *upload_size);

		*upload_size = 0;
		return ok ? MHD_YES : MHD_NO;
	}
	if (q->answered)
		return MHD_YES;
	if (q->too_large)
		return serve_error(q, 413, "the body is larger than vllm.http_max_body");
	if (asks_database(q) && !check_body(q, method, message, sizeof(message)))
		return serve_error(q, 400, message);
	/* what would not be looked at is not what the client thinks that it asks for; "{}" is what some send for nothing */
	if (q->route->kind == R_DEV && q->body.len > 0 && strcmp(q->body.data, "{}") != 0)
		return serve_error(q, 400, "parameters of this path stand in the query (?level=2), it takes no body");
	return serve_request(q);
}

void
serve_completed(void *cls, struct MHD_Connection *http, void **ctx, enum MHD_RequestTerminationCode why)
{
	Request    *q = *ctx;

	(void) cls;
	(void) http;
	(void) why;
	if (q == NULL)
		return;
	if (q->counted)
		atomic_fetch_sub(&load, 1);
	buf_free(&q->body);
	mem_free(q->path);
	mem_free(q->method);
	mem_free(q->role);
	mem_free(q);
	*ctx = NULL;
	serve_count(-1);
}
