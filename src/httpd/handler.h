/*
 * handler.h
 *	  One HTTP request, from its first line to its response.
 */
#ifndef VLLM_HTTPD_HANDLER_H
#define VLLM_HTTPD_HANDLER_H

#include "base/buf.h"
#include "httpd/conn/connection.h"
#include "httpd/db_pool.h"
#include "httpd/conn/request_head.h"
#include "httpd/router.h"

#define NOT_COMMITTED	"could not commit the request's transaction"

/* State of one request; created after its headers, freed when it is completed. */
typedef struct ClientRequest
{
	Conn	   *conn;
	const HttpHead *head;
	int			client;			/* its socket */
	const HttpRoute *route;			/* NULL: unknown path */
	ErrorDialect dialect;
	const char *path;
	const char *method;
	char	   *role;			/* role of the key; owned; NULL: no key was needed */
	uint64_t	key;			/* number of the key; 0: none */
	Buf			body;			/* the body for llm_api() */
	size_t		received;		/* bytes of the body, kept or dropped */
	size_t		memory;			/* bytes that body_memory.c has granted for it */
	size_t		answer_memory;	/* bytes that body_memory.c has granted for the response */
	int64_t		body_until;		/* time by which the body must have come */
	bool		stream;			/* the body asks for a stream */
	bool		answered;
	int			retry_after;	/* s, for responses with Retry-After; 0 = a default */
	bool		no_retry;		/* a retry would fail the same way */
	bool		counted;		/* counted by serve_load() */
} ClientRequest;

/* Make the request after its head was read.  serve_free() frees it. */
ClientRequest *serve_new(Conn *conn, const HttpHead *head);
/* Check what can be checked before the body.  After this the request has a response, or the body may come. */
void		serve_begin(ClientRequest *q);
/* Take a piece of the body. */
void		serve_upload(ClientRequest *q, const char *data, size_t n);
/* The body has not come in time. */
void		serve_late(ClientRequest *q);
/* The body is complete: respond to the request. */
void		serve_finish(ClientRequest *q);
void		serve_free(ClientRequest *q);

/* Respond to bytes that are not a request. */
void		serve_refused(Conn *conn, int status, const char *message);

/* Respond with a body.  Takes ownership of the body's memory. */
void		serve_body(ClientRequest *q, int status, const char *type, Buf *body);
void		serve_error(ClientRequest *q, int status, const char *message);
/* End the request without a response. */
void		serve_nothing(ClientRequest *q);
/* Write the headers of a response, and count it. */
void		serve_headers(ClientRequest *q, int status, const char *type, Buf *headers);

/* Return the number of requests that must end before the program does. */
int			serve_active(void);
/* Return the number of API requests that are being served. */
int			serve_load(void);
/* From now on connections are closed after a response. */
void		serve_last(void);
bool		serve_is_last(void);

/* ---- dev_endpoints.c ---- */

/* Run the function of an R_DEV route under the current role.  body: its result. */
DbEnd		dev_call(ClientRequest *q, Db *db, Buf *body, DbError *e);

/* ---- sse_response.c ---- */

/* Serve llm_api_stream() on a connection with a transaction of the request's role.  Takes ownership of db. */
void		stream_start(ClientRequest *q, Db *db);

#endif
