/*
 * handler.h
 *	  One HTTP request, from its first line to its answer.
 */
#ifndef VLLM_HTTPD_HANDLER_H
#define VLLM_HTTPD_HANDLER_H

#include "base/buf.h"
#include "httpd/conn/connection.h"
#include "httpd/db_pool.h"
#include "httpd/conn/request_head.h"
#include "httpd/router.h"

#define NOT_COMMITTED	"could not commit the request's transaction"

/* Of one request; made by its first line, freed when it is completed. */
typedef struct ClientRequest
{
	Conn	   *conn;
	const HttpHead *head;
	int			client;			/* its socket */
	const HttpRoute *route;			/* NULL: none */
	ErrorDialect dialect;
	const char *path;
	const char *method;
	char	   *role;			/* of the key; owned, NULL: no key was needed */
	uint64_t	key;			/* a number of the key's own; 0: there is none */
	Buf			body;			/* what llm_api() is to have */
	size_t		received;		/* bytes of the body, kept or not */
	size_t		memory;			/* bytes that body_memory.c has given for it */
	size_t		answer_memory;	/* bytes that body_memory.c has granted for the answer */
	int64_t		body_until;		/* when the body must have come */
	bool		stream;			/* the body asks for one */
	bool		answered;
	int			retry_after;	/* s, of an answer that says so; 0 = a little */
	bool		no_retry;		/* it would end as it did */
	bool		counted;		/* in serve_load() */
} ClientRequest;

/* A request whose head has come; freed by serve_free(). */
ClientRequest *serve_new(Conn *conn, const HttpHead *head);
/* What can be said before the body: it is answered, or the body may come. */
void		serve_begin(ClientRequest *q);
/* A piece of the body. */
void		serve_upload(ClientRequest *q, const char *data, size_t n);
/* The body has not come in time. */
void		serve_late(ClientRequest *q);
/* The body has come: answer it. */
void		serve_finish(ClientRequest *q);
void		serve_free(ClientRequest *q);

/* An answer to what is no request. */
void		serve_refused(Conn *conn, int status, const char *message);

/* Answer with a body; takes over the body's memory. */
void		serve_body(ClientRequest *q, int status, const char *type, Buf *body);
void		serve_error(ClientRequest *q, int status, const char *message);
/* The client gets no answer. */
void		serve_nothing(ClientRequest *q);
/* Headers of an answer, and that it is given. */
void		serve_headers(ClientRequest *q, int status, const char *type, Buf *headers);

/* Requests: what must end before the program does. */
int			serve_active(void);
/* Requests of the API that are being answered. */
int			serve_load(void);
/* From now on connections are closed behind an answer. */
void		serve_last(void);
bool		serve_is_last(void);

/* ---- dev_endpoints.c ---- */

/* A call of R_DEV under the right role; body: its answer. */
DbEnd		dev_call(ClientRequest *q, Db *db, Buf *body, DbError *e);

/* ---- sse_response.c ---- */

/* llm_api_stream() on a connection with a transaction of the right role; takes over db. */
void		stream_start(ClientRequest *q, Db *db);

#endif
