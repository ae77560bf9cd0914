/*
 * stream.c
 *	  Answers as server-sent events.
 *
 * The rows of llm_api_stream() come one by one, as the engine's tokens do; each becomes an event. The status is sent with the
 * first row, so an error before it is an ordinary answer; a later one is an event itself. OpenAI's streams end with
 * "data: [DONE]"; the others (Anthropic's messages, responses) name each event by its "type" and end by themselves.
 *
 * A Stream belongs to the HTTP response and is freed with it, whether that was sent to its end or the client left.
 *
 * Tests: tests/t/083_http.pl.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "http/conf.h"
#include "http/serve.h"

#define BLOCK	16384			/* bytes that libmicrohttpd asks for at once */

typedef struct Stream
{
	struct MHD_Connection *http;
	Db		   *db;				/* NULL: given back */
	int			client;
	Dialect		dialect;
	bool		named;			/* events have names */
	bool		over;			/* nothing more comes */
	Buf			out;			/* not sent yet */
	size_t		sent;			/* of it */
} Stream;

/* The transaction ends, the connection goes back; false: it could not. */
static bool
end_db(Stream *s, bool commit, bool usable)
{
	bool		ended = true;

	if (s->db != NULL)
	{
		ended = usable && db_end(s->db, commit);
		db_give(s->db, ended);
	}
	s->db = NULL;
	return ended;
}

static void
stream_free(void *cls)
{
	Stream	   *s = cls;

	if (s->db != NULL)
	{
		/* the client left */
		db_cancel(s->db);
		(void) end_db(s, false, true);
	}
	buf_free(&s->out);
	mem_free(s);
	serve_count(-1);
}

static void
add_event(Stream *s, const char *json)
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
add_end(Stream *s)
{
	if (!s->named)
		buf_addstr(&s->out, "data: [DONE]\n\n");
	s->over = true;
}

/* One row, or the end, into the buffer; false: the client is gone. */
static bool
next_row(Stream *s)
{
	PGresult   *r;
	DbError		e;
	DbEnd		end = db_next(s->db, s->client, &r, &e);

	if (end == DB_OK && r != NULL)
	{
		if (!PQgetisnull(r, 0, 0))
			add_event(s, PQgetvalue(r, 0, 0));
		PQclear(r);
		return true;
	}
	if (!end_db(s, end == DB_OK, end == DB_OK || end == DB_ERROR || end == DB_GONE) && end == DB_OK)
	{
		end = DB_LOST;
		e = (DbError) {.status = 500,.message = NOT_COMMITTED};
	}
	if (end == DB_GONE)
		return false;
	if (end != DB_OK)
	{
		Buf			b = {0};

		answer_error(&b, s->dialect, e.status, e.message);
		add_event(s, b.data);
		buf_free(&b);
	}
	add_end(s);
	return true;
}

/*
 * libmicrohttpd takes the time that it spends in stream_read() for the client's silence.  A limit that is
 * set after none begins anew.
 */
static void
restart_idle_clock(const Stream *s)
{
	(void) MHD_set_connection_option(s->http, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	(void) MHD_set_connection_option(s->http, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned) http_conf.idle_timeout_s);
}

static ssize_t
stream_read(void *cls, uint64_t pos, char *to, size_t max)
{
	Stream	   *s = cls;
	size_t		n;

	(void) pos;
	if (s->sent == s->out.len)
	{
		buf_reset(&s->out);
		s->sent = 0;
		do
		{
			if (s->over)
				break;
			if (!next_row(s))
				return MHD_CONTENT_READER_END_WITH_ERROR;
			/* what has come meanwhile goes along */
		} while (s->out.len == 0 || (s->out.len < max && s->db != NULL && db_has_next(s->db)));
		restart_idle_clock(s);
	}
	n = s->out.len - s->sent;
	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n > max)
		n = max;
	memcpy(to, s->out.data + s->sent, n);
	s->sent += n;
	return (ssize_t) n;
}

/* An error that comes instead of the first row, or as an answer of one row. */
static enum MHD_Result
refuse(Request *q, Stream *s, DbEnd end, const DbError *e)
{
	(void) end_db(s, false, end == DB_ERROR || end == DB_GONE);
	stream_free(s);
	return end == DB_GONE ? MHD_NO : serve_error(q, e->status, e->message);
}

enum MHD_Result
stream_start(Request *q, Db *db)
{
	const char *params[2] = {q->path, q->body.data};
	Stream	   *s = mem_zalloc(sizeof(Stream));
	struct MHD_Response *response;
	char		sql[256];
	PGresult   *r = NULL;
	DbError		e;
	DbEnd		end;
	int			status;

	serve_count(1);
	s->db = db;
	s->http = q->http;
	s->client = q->client;
	s->dialect = q->dialect;
	s->named = q->dialect == ANTHROPIC || strcmp(q->route->path, "/v1/responses") == 0;
	/* in the SELECT list the rows come as they are made */
	snprintf(sql, sizeof(sql), "SELECT %s.llm_api_stream($1::text, $2::json, on_error => 'return')", db->schema);
	end = db_start(db, sql, 2, params, &e);
	if (end == DB_OK)
		end = db_next(db, s->client, &r, &e);
	if (end != DB_OK)
		return refuse(q, s, end, &e);
	if (r == NULL && !end_db(s, true, true))
	{
		e = (DbError) {.status = 500,.message = NOT_COMMITTED};
		return refuse(q, s, DB_LOST, &e);
	}
	if (r != NULL && (status = answer_error_status(PQgetvalue(r, 0, 0))) != 0)
	{
		Buf			body = {0};

		buf_addstr(&body, PQgetvalue(r, 0, 0));
		PQclear(r);
		stream_free(s);
		return serve_body(q, status, "application/json", &body);
	}
	if (r != NULL)
		add_event(s, PQgetvalue(r, 0, 0));
	PQclear(r);
	if (s->db == NULL)
		add_end(s);
	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, s, stream_free);
	if (response == NULL)
	{
		stream_free(s);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
	MHD_add_response_header(response, "X-Accel-Buffering", "no");
	return serve_response(q, 200, "text/event-stream; charset=utf-8", response);
}
