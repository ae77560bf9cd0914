/*
 * sse_response.c
 *	  Responses as server-sent events.
 *
 * The rows of llm_api_stream() come one by one, as the engine's tokens do; each becomes an event.  The
 * status is sent with the first row, so an error before it is an ordinary response; a later one is an
 * event itself.  OpenAI's streams end with "data: [DONE]"; the others (Anthropic's messages, responses)
 * name each event by its "type" and have a final event; an error in a stream of /v1/responses becomes an
 * event of type "error".
 *
 * The next rows are fetched when the client has read those before.  A transaction with an event that is
 * an error is rolled back, and so is one whose client has left.
 *
 * Tests: tests/t/083_http.pl.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/httpd_settings.h"
#include "httpd/handler.h"

#define BLOCK	16384			/* bytes that are collected for one piece of the response */

typedef struct SseResponseStream
{
	ClientRequest *q;
	Db		   *db;				/* NULL: already given back */
	bool		named;			/* events have names */
	bool		numbered;		/* errors have the format of events: /v1/responses */
	int			n;				/* events so far */
	bool		over;			/* the stream has ended */
	bool		failed;			/* an event was an error: the transaction must be rolled back */
	Buf			out;			/* not sent yet */
} SseResponseStream;

/*
 * End the transaction and give the connection back.  Returns false if the transaction could not be ended
 * as wanted.
 */
static bool
end_db(SseResponseStream *s, bool commit, bool usable)
{
	bool		ended = true;

	if (s->db != NULL)
	{
		ended = usable && db_end(s->db, commit);
		db_give(s->db, ended && s->q->body.len < DB_KEPT_STATEMENT);
	}
	s->db = NULL;
	return ended;
}

/* The client has left before the end. */
static void
abandon(SseResponseStream *s)
{
	if (s->db != NULL)
		db_cancel(s->db);
	(void) end_db(s, false, true);
	serve_nothing(s->q);
}

static void
add_json(SseResponseStream *s, const char *json)
{
	if (s->named)
	{
		char	   *type = answer_event_type(json);

		if (type != NULL)
			buf_printf(&s->out, "event: %s\n", type);
		mem_free(type);
	}
	buf_addstr(&s->out, "data: ");
	/* a line end would end the event */
	for (const char *p = json; *p != '\0'; p++)
		buf_addc(&s->out, *p == '\n' || *p == '\r' ? ' ' : *p);
	buf_addstr(&s->out, "\n\n");
}

static void
add_event(SseResponseStream *s, const char *json)
{
	bool		error = answer_error_status(json, strlen(json)) != 0;
	Buf			event = {0};

	s->failed = s->failed || error;
	if (error && s->numbered)
		answer_event_error(&event, json, s->n);
	add_json(s, event.data != NULL ? event.data : json);
	s->n++;
	buf_free(&event);
}

static void
add_end(SseResponseStream *s)
{
	ASSERT(s->db == NULL && !s->over);	/* the transaction ends first: its failure is an event, too */
	if (!s->named)
		buf_addstr(&s->out, "data: [DONE]\n\n");
	s->over = true;
}

/* Put one row, or the end, into the buffer.  Returns false if the client is gone. */
static bool
next_row(SseResponseStream *s)
{
	PGresult   *r;
	DbError		e;
	DbEnd		end;

	ASSERT(s->db != NULL);
	end = db_next(s->db, s->q->client, &r, &e);
	if (end == DB_OK && r != NULL)
	{
		if (!PQgetisnull(r, 0, 0))
			add_event(s, PQgetvalue(r, 0, 0));
		PQclear(r);
		return true;
	}
	if (!end_db(s, end == DB_OK && !s->failed, end != DB_LOST && end != DB_BUSY) && end == DB_OK &&
		!s->failed)
	{
		end = DB_LOST;
		e = (DbError) {.status = 500,.message = NOT_COMMITTED};
	}
	if (end == DB_CLOSED)
		return false;
	if (end != DB_OK)
	{
		Buf			b = {0};

		answer_error(&b, s->q->dialect, e.status, e.message);
		add_event(s, b.data);
		buf_free(&b);
	}
	add_end(s);
	return true;
}

/* Send the buffer and all further rows. */
static void
send_rows(SseResponseStream *s)
{
	for (;;)
	{
		if (!conn_piece(s->q->conn, s->out.data, s->out.len))
		{
			abandon(s);
			return;
		}
		buf_reset(&s->out);
		if (s->over)
			break;
		do
		{
			if (!next_row(s))
			{
				abandon(s);
				return;
			}
			/* rows that have been received meanwhile go into the same piece */
		} while (!s->over && s->out.len < BLOCK && db_has_next(s->db));
	}
	conn_stream_end(s->q->conn);
}

/* Send an error instead of the first row. */
static void
refuse(SseResponseStream *s, DbEnd end, const DbError *e)
{
	(void) end_db(s, false, end == DB_ERROR || end == DB_CLOSED);
	s->q->no_retry = e->status == 408;
	if (end == DB_CLOSED)
		serve_nothing(s->q);
	else
		serve_error(s->q, e->status, e->message);
}

/* The first row is an error: send an ordinary response. */
static void
answer_with(SseResponseStream *s, const PGresult *r, int status)
{
	Buf			body = {0};

	buf_addstr(&body, PQgetvalue(r, 0, 0));
	db_cancel(s->db);
	(void) end_db(s, false, true);
	s->q->no_retry = status == 408;
	serve_body(s->q, status, "application/json", &body);
}

/* r: the first row; NULL: there are no rows, and the transaction has ended. */
static void
begin_stream(SseResponseStream *s, const PGresult *r)
{
	Buf			headers = {0};

	if (r != NULL && !PQgetisnull(r, 0, 0))
		add_event(s, PQgetvalue(r, 0, 0));
	if (s->db == NULL)
		add_end(s);
	buf_addstr(&headers, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
	serve_headers(s->q, 200, "text/event-stream; charset=utf-8", &headers);
	if (conn_stream(s->q->conn, 200, &headers))
		send_rows(s);
	else
		abandon(s);
	buf_free(&headers);
}

void
stream_start(ClientRequest *q, Db *db)
{
	const char *params[2] = {q->path, q->body.data};
	SseResponseStream s = {.q = q,.db = db};
	PGresult   *r = NULL;
	DbError		e = {0};
	DbEnd		end;
	int			status = 0;

	s.numbered = strcmp(q->route->path, "/v1/responses") == 0;
	s.named = s.numbered || q->dialect == ANTHROPIC;
	/* in the SELECT list, the function returns its rows one by one */
	end = db_start(db, "SELECT vllm.http_api_stream($1::text, $2::json)", 2, params, &e);
	if (end == DB_OK)
		end = db_next(db, q->client, &r, &e);
	if (end == DB_OK && r == NULL && !end_db(&s, true, true))
	{
		end = DB_LOST;
		e = (DbError) {.status = 500,.message = NOT_COMMITTED};
	}
	if (end == DB_OK && r != NULL)
		status = answer_error_status(PQgetvalue(r, 0, 0), (size_t) PQgetlength(r, 0, 0));
	if (end != DB_OK)
		refuse(&s, end, &e);
	else if (status != 0)
		answer_with(&s, r, status);
	else
		begin_stream(&s, r);
	ASSERT(s.db == NULL);		/* however the stream ended, its connection has been given back */
	PQclear(r);
	buf_free(&s.out);
}
