/*
 * handler.c
 *	  One HTTP request.
 *
 *	headers		route, method, origin, key, length: errors are sent before the body is read
 *	body		collected up to max_body, if llm_api() needs it; else dropped
 *	end			a connection of the pool, BEGIN, SET LOCAL ROLE, llm_api() or llm_api_stream(), COMMIT
 *
 * The key is looked up on the program's own connection, so that clients without a key can't fill the
 * pool, and bodies are read only from known clients.  Neither bodies nor keys are logged.
 *
 * Browsers: a page of another origin is refused unless vllm.http_allowed_origins has it, and bodies must
 * be application/json, which pages can't send to other origins without asking first (CORS).
 *
 * Tests: tests/t/083_http.pl.
 */
#include "httpd/handler.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/api_key_auth.h"
#include "httpd/conn/body_memory.h"
#include "httpd/httpd_settings.h"
#include "httpd/http_metrics.h"

#define BODY_DEPTH	512			/* maximal nesting of a body */

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

bool
serve_is_last(void)
{
	return atomic_load(&last);
}

static const char *
header(const ClientRequest *q, const char *name)
{
	return head_value(q->head, name);
}

/* ---- responses ---- */

/*
 * Add the headers of CORS.  Pages ask whether they may send headers of their own: any are allowed, as
 * the origin is trusted.
 */
static void
add_cors(const ClientRequest *q, Buf *h)
{
	const char *origin = header(q, "Origin");
	const char *headers = header(q, "Access-Control-Request-Headers");

	if (http_conf.allowed_origins[0] == '\0')
		return;
	buf_addstr(h, "Vary: Origin, Access-Control-Request-Headers\r\n");
	if (origin == NULL || !conf_origin_allowed(origin))
		return;
	buf_printf(h, "Access-Control-Allow-Origin: %s\r\n", origin);
	buf_addstr(h, "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n");
	buf_printf(h, "Access-Control-Allow-Headers: %s\r\n", headers != NULL ? headers :
			   "authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
	buf_addstr(h, "Access-Control-Max-Age: 600\r\n");
}

void
serve_headers(ClientRequest *q, int status, const char *type, Buf *h)
{
	/* a second response would be taken for that of the client's next request */
	ASSERT(!q->answered);
	if (type != NULL)
		buf_printf(h, "Content-Type: %s\r\n", type);
	if (status == 401)
		buf_addstr(h, "WWW-Authenticate: Bearer\r\n");
	if (q->no_retry)
		buf_addstr(h, "x-should-retry: false\r\n");
	if (status == 429 || status == 503)
		buf_printf(h, "Retry-After: %d\r\n", q->retry_after > 0 ? q->retry_after : 1);
	if (status == 405 && q->route != NULL)
		buf_printf(h, "Allow: %s\r\n", q->route->methods);
	add_cors(q, h);
	q->answered = true;
	count_answer(q->route, q->method, status);
}

void
serve_body(ClientRequest *q, int status, const char *type, Buf *body)
{
	Buf			headers = {0};

	serve_headers(q, status, type, &headers);
	conn_answer(q->conn, status, &headers, body->data, body->len);
	buf_free(&headers);
	buf_free(body);
}

void
serve_error(ClientRequest *q, int status, const char *message)
{
	Buf			b = {0};

	answer_error(&b, q->dialect, status, message);
	serve_body(q, status, "application/json", &b);
}

void
serve_nothing(ClientRequest *q)
{
	q->answered = true;
	conn_drop(q->conn);
}

void
serve_refused(Conn *conn, int status, const char *message)
{
	static const HttpHead none;
	ClientRequest q = {.conn = conn,.head = &none,.method = ""};

	serve_error(&q, status, message);
}

/* The call ended without a result. */
static void
serve_end(ClientRequest *q, DbEnd end, const DbError *e)
{
	if (end == DB_CLOSED)
		serve_nothing(q);
	else
	{
		/* its timeout has passed, or another session has cancelled it */
		q->no_retry = e->status == 408;
		serve_error(q, e->status, e->message);
	}
}

/* ---- the program's own routes ---- */

/* Is the program (engine or remote program) in that state? */
static DbEnd
query_state(Db *db, const char *sql, const char *state, bool *is, DbError *e)
{
	PGresult   *r = NULL;
	DbEnd		end = db_query(db, -1, sql, 0, NULL, &r, e);

	*is = end == DB_OK && strcmp(PQgetvalue(r, 0, 0), state) == 0;
	PQclear(r);
	return end;
}

/* Serve /health: is the engine ready?  If there is none, is the remote program? */
static void
serve_health(ClientRequest *q)
{
	static const char engine[] = "SELECT state FROM vllm.engine_stats()";
	DbError		e;
	Buf			body = {0};
	DbEnd		end;
	bool		ready;
	bool		off = false;
	Db		   *db = db_front_take(q->client, FRONT_OWN, &e);

	if (db == NULL)
	{
		serve_error(q, 503, e.message);
		return;
	}
	end = query_state(db, engine, "ready", &ready, &e);
	if (end == DB_OK && !ready)
		end = query_state(db, engine, "off", &off, &e);
	if (end == DB_OK && off)
		end = query_state(db, "SELECT state FROM vllm.remote_state()", "ready", &ready, &e);
	db_front_give(db, end == DB_OK);
	if (end != DB_OK)
	{
		serve_error(q, 503, e.message);
		return;
	}
	if (!ready)
	{
		serve_error(q, 503, off ? "the remote program is not ready" : "the inference engine is not ready");
		return;
	}
	serve_body(q, 200, NULL, &body);
}

static void
serve_version(ClientRequest *q)
{
	DbError		e;
	PGresult   *r = NULL;
	Buf			body = {0};
	JsonOut		j = {.b = &body};
	DbEnd		end;
	Db		   *db = db_front_take(q->client, FRONT_OWN, &e);

	if (db == NULL)
	{
		serve_error(q, 503, e.message);
		return;
	}
	end = db_query(db, -1, "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vllm_pg'", 0,
				   NULL, &r, &e);
	if (end == DB_OK)
	{
		json_open(&j, '{');
		json_key_cstr(&j, "version", PQgetvalue(r, 0, 0));
		json_close(&j, '}');
	}
	PQclear(r);
	db_front_give(db, end == DB_OK);
	if (end == DB_OK)
		serve_body(q, 200, "application/json", &body);
	else
		serve_end(q, end, &e);
}

/* Serve /load in vLLM's format. */
static void
serve_load_figure(ClientRequest *q)
{
	Buf			body = {0};

	buf_printf(&body, "{\"server_load\":%d}", serve_load());
	serve_body(q, 200, "application/json", &body);
}

/* Serve /metrics: the engine's metrics as the key's role may see them, and the program's own. */
static void
serve_metrics(ClientRequest *q)
{
	DbError		e;
	PGresult   *r = NULL;
	Buf			body = {0};
	DbEnd		end;
	Db		   *db = db_front_take(q->client, FRONT_OWN, &e);

	if (db == NULL)
	{
		serve_error(q, 503, e.message);
		return;
	}
	end = db_begin(db, q->role, NULL, -1, &e);
	if (end == DB_OK)
		end = db_query(db, -1, "SELECT vllm.http_metrics()", 0, NULL, &r, &e);
	if (end == DB_OK)
		buf_addstr(&body, PQgetvalue(r, 0, 0));
	PQclear(r);
	db_front_give(db, end != DB_LOST && db_end(db, end == DB_OK));
	if (end != DB_OK)
	{
		serve_error(q, e.status, e.message);
		return;
	}
	count_text(&body);
	serve_body(q, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* ---- the API ---- */

/* Call a function whose only argument is the body, and which returns a sentence. */
static DbEnd
call_named(ClientRequest *q, Db *db, Buf *body, DbError *e)
{
	const char *params[1] = {q->body.data};
	PGresult   *r = NULL;
	char		sql[256];
	DbEnd		end;

	snprintf(sql, sizeof(sql), "SELECT vllm.http_%s($1::json)", q->route->path + strlen("/v1/"));
	end = db_query(db, q->client, sql, 1, params, &r, e);
	if (end == DB_OK)
		buf_addstr(body, PQgetvalue(r, 0, 0));
	PQclear(r);
	return end;
}

static DbEnd
call_api(ClientRequest *q, Db *db, Buf *body, int *status, DbError *e)
{
	const char *params[2] = {q->path, q->body.len > 0 ? q->body.data : "{}"};
	PGresult   *r = NULL;
	DbEnd		end;

	end = db_query(db, q->client, "SELECT vllm.http_api($1::text, $2::json)", 2, params, &r, e);
	if (end == DB_OK)
	{
		buf_add(body, PQgetvalue(r, 0, 0), (size_t) PQgetlength(r, 0, 0));
		*status = answer_error_status(body->data ? body->data : "", body->len);
	}
	PQclear(r);
	return end;
}

/*
 * Take memory for a response until its client has read it.  The transaction keeps its connection during
 * the wait: there are few connections, and all other requests would be refused if unread responses
 * filled the memory.
 */
static DbEnd
take_answer_memory(ClientRequest *q, size_t len, DbError *e)
{
	size_t		n = bodies_of_answer(len);

	if (len <= BODIES_SMALL)
		return DB_OK;
	switch (bodies_take(BODIES_ANSWER, q->key, n, q->client,
						clock_us() + http_conf.body_timeout_s * INT64_C(1000000)))
	{
		case BODIES_OK:
			q->answer_memory = n;
			return DB_OK;
		case BODIES_CLOSED:
			return DB_CLOSED;
		case BODIES_LATE:
			break;
	}
	*e = (DbError) {.status = 503,
					.message = "the server has too many large answers in hand (vllm.http_body_memory)"};
	return DB_ERROR;
}

static void
serve_api(ClientRequest *q)
{
	Buf			body = {0};
	int			status = 0;
	DbError		e;
	Db		   *db;
	DbEnd		end = db_take(q->key, q->client, &db, &e);

	if (end != DB_OK)
	{
		serve_end(q, end, &e);
		return;
	}
	end = db_begin(db, q->role, (const char *const[2]) {header(q, "traceparent"), header(q, "tracestate")},
				   q->client, &e);
	if (end == DB_OK && q->route->streams && q->stream)
	{
		stream_start(q, db);
		return;
	}
	if (end == DB_OK)
		end = q->route->kind == R_LORA ? call_named(q, db, &body, &e) :
			q->route->kind == R_DEV ? dev_call(q, db, &body, &e) : call_api(q, db, &body, &status, &e);
	if (end == DB_OK)
		end = take_answer_memory(q, body.len, &e);
	if (end == DB_LOST)
		db_give(db, false);
	else
	{
		/* roll back if the response is an error */
		bool		ended = db_end(db, end == DB_OK && status == 0);

		if (end == DB_OK && status == 0 && !ended)
			end = DB_LOST, e = (DbError) {.status = 500,.message = NOT_COMMITTED};
		db_give(db, ended && q->body.len < DB_KEPT_STATEMENT && body.len < DB_KEPT_STATEMENT);
	}
	if (end == DB_OK)
	{
		/* its timeout has passed, or another session has cancelled it */
		q->no_retry = status == 408;
		serve_body(q, status ? status : 200, body.len == 0 ? NULL : q->route->kind == R_LORA
				   ? "text/plain; charset=utf-8" : "application/json", &body);
		return;
	}
	buf_free(&body);
	serve_end(q, end, &e);
}

static void
serve_request(ClientRequest *q)
{
	switch (q->route->kind)
	{
		case R_HEALTH:
			serve_health(q);
			return;
		case R_VERSION:
			serve_version(q);
			return;
		case R_LOAD:
			serve_load_figure(q);
			return;
		case R_METRICS:
			serve_metrics(q);
			return;
		case R_API:
		case R_LORA:
		case R_DEV:
			break;
	}
	serve_api(q);
}

/* ---- the headers ---- */

static void
preflight(ClientRequest *q)
{
	const char *origin = header(q, "Origin");
	Buf			none = {0};

	if (origin == NULL || !conf_origin_allowed(origin))
		serve_error(q, 403, "pages of this origin may not use the server");
	else
		serve_body(q, 204, NULL, &none);
}

static bool
is_json(const char *type)
{
	return type != NULL && strncasecmp(type, "application/json", 16) == 0 &&
		(type[16] == '\0' || type[16] == ';' || type[16] == ' ');
}

static bool
has_body(const ClientRequest *q)
{
	return q->head->chunked || q->head->length > 0;
}

/* Does the route call a function with the body? */
static bool
needs_database(const ClientRequest *q)
{
	return q->route->kind == R_API || q->route->kind == R_LORA;
}

static void
check_length(ClientRequest *q)
{
	if (q->head->length > http_conf.max_body)
		serve_error(q, 413, "the body is larger than vllm.http_max_body");
}

/* Take a place for the request.  Returns false if none is free; the client has got that response. */
static bool
claim_place(ClientRequest *q)
{
	switch (clients_claim(conn_client(q->conn), q->key))
	{
		case CLAIM_OK:
			return true;
		case CLAIM_SHARE:
			serve_error(q, 429, "this address has too many requests without an API key in hand");
			return false;
		case CLAIM_FULL:
			serve_error(q, 503, "the server has too many requests without an API key in hand");
			return false;
		case CLAIM_KEY:
			serve_error(q, 429, "this API key has too many requests in hand");
			return false;
		case CLAIM_EVICTED:
			break;
	}
	/* an eviction is noticed when the body is read, or when the request ends */
	return true;
}

/* Find the role of the request.  Returns false if it has none; the client has got that response. */
static bool
find_role(ClientRequest *q)
{
	char		message[1024];
	int			status = auth_role(q, message, sizeof(message));

	if (status == 0)
		return claim_place(q);
	/* other errors say nothing about the client's key */
	if (status == 401 || status == 429)
		clients_unknown(conn_client(q->conn));
	serve_error(q, status, message);
	return false;
}

/* Check the route's own conditions. */
static void
begin_route(ClientRequest *q)
{
	const char *origin = header(q, "Origin");
	bool		posts = strcmp(q->method, "POST") == 0;

	if (q->route->kind == R_HEALTH || q->route->kind == R_VERSION || q->route->kind == R_LOAD)
	{
		if (claim_place(q))
			check_length(q);
		return;
	}
	if (origin != NULL && !conf_origin_allowed(origin))
	{
		serve_error(q, 403, "pages of this origin may not use the server");
		return;
	}
	if (!find_role(q))
		return;
	/* parameters in the query need no body, nor its type */
	if (posts && !is_json(header(q, "Content-Type")) && (q->route->kind != R_DEV || has_body(q)))
	{
		serve_error(q, 415, "the body must be application/json");
		return;
	}
	check_length(q);
	if (!q->answered && needs_database(q))
	{
		q->counted = true;
		atomic_fetch_add(&load, 1);
	}
}

void
serve_begin(ClientRequest *q)
{
	if (q->route == NULL)
		serve_error(q, 404, "there is no such path");
	else if (q->route->kind == R_DEV && !http_conf.dev_mode)
		serve_error(q, 404, "there is no such path while vllm.http_dev_mode is off");
	else if (strcmp(q->method, "OPTIONS") == 0 && header(q, "Access-Control-Request-Method") != NULL)
		preflight(q);
	else if (!route_allows(q->route, q->method))
		serve_error(q, 405, "the method is not allowed for this path");
	else
		begin_route(q);
}

ClientRequest *
serve_new(Conn *conn, const HttpHead *head)
{
	ClientRequest *q = mem_zalloc(sizeof(ClientRequest));

	q->conn = conn;
	q->head = head;
	q->client = conn_fd(conn);
	q->path = head->path;
	q->method = head->method;
	q->route = route_find(q->path);
	head_decode(head->path, false);
	q->dialect = q->route != NULL ? q->route->dialect : OPENAI;
	atomic_fetch_add(&active, 1);
	return q;
}

void
serve_free(ClientRequest *q)
{
	if (q->counted)
		atomic_fetch_sub(&load, 1);
	buf_free(&q->body);
	bodies_give(BODIES_REQUEST, q->key, q->memory);
	bodies_give(BODIES_ANSWER, q->key, q->answer_memory);
	mem_free(q->role);
	mem_free(q);
	atomic_fetch_sub(&active, 1);
}

/* ---- the body ---- */

/*
 * Take memory for the body; small bodies need none.  The length of a chunked body is unknown, so it
 * counts as max_body.  Returns false if there is no memory; the client has got that response.
 */
static bool
take_memory(ClientRequest *q)
{
	size_t		n = q->head->sized ? (size_t) q->head->length : http_conf.max_body;

	if (q->received <= BODIES_SMALL || q->memory > 0)
		return true;
	switch (bodies_take(BODIES_REQUEST, q->key, n, q->client, q->body_until))
	{
		case BODIES_OK:
			q->memory = n;
			return true;
		case BODIES_CLOSED:
			serve_nothing(q);
			return false;
		case BODIES_LATE:
			break;
	}
	serve_error(q, 503, "the server has too many large bodies in hand (vllm.http_body_memory)");
	return false;
}

/*
 * Take a piece of the body.  Routes of the program itself need no body and no key, so nothing of it is
 * kept.
 */
void
serve_upload(ClientRequest *q, const char *data, size_t n)
{
	q->received += n;
	if (q->received > http_conf.max_body)
	{
		buf_free(&q->body);
		serve_error(q, 413, "the body is larger than vllm.http_max_body");
	}
	else if ((needs_database(q) || q->route->kind == R_DEV) && take_memory(q))
		buf_add(&q->body, data, n);
}

void
serve_late(ClientRequest *q)
{
	serve_error(q, 408, "the request's body did not come within vllm.http_body_timeout, or paused for "
						"vllm.http_idle_timeout");
}

/*
 * Check the complete body.  A GET, and a path that ends in an id or a verb, needs none.  Invalid JSON
 * must not reach the database server, whose error would quote the body in the server's log.
 */
static bool
check_body(ClientRequest *q, char *message, size_t size)
{
	JsonCheck	c = {.depth = BODY_DEPTH,.key = "stream"};

	if (q->body.len == 0)
	{
		snprintf(message, size, "the body is empty");
		return strcmp(q->method, "POST") != 0 || strchr(q->route->path, '*') != NULL;
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

void
serve_finish(ClientRequest *q)
{
	char		message[128];

	ASSERT(q->route != NULL);
	if (q->memory > q->body.len && q->body.len > 0)
	{
		bodies_give(BODIES_REQUEST, q->key, q->memory - q->body.len);
		q->memory = q->body.len;
	}
	if (needs_database(q) && !check_body(q, message, sizeof(message)))
		serve_error(q, 400, message);
	/* Refuse parameters that would be ignored.  Some clients send "{}" for an empty body. */
	else if (q->route->kind == R_DEV && q->body.len > 0 && strcmp(q->body.data, "{}") != 0)
		serve_error(q, 400, "parameters of this path stand in the query (?level=2), it takes no body");
	else
		serve_request(q);
}
