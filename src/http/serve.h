/*
 * serve.h
 *	  One HTTP request, from its first line to its answer.
 */
#ifndef VLLM_HTTP_SERVE_H
#define VLLM_HTTP_SERVE_H

#include <microhttpd.h>

#include "base/buf.h"
#include "http/db.h"
#include "http/route.h"

#define NOT_COMMITTED	"could not commit the request's transaction"

/* Of one request; made by its first line, freed when it is completed. */
typedef struct Request
{
	struct MHD_Connection *http;
	int			client;			/* its socket */
	const Route *route;			/* NULL: none */
	char	   *method;			/* owned */
	Dialect		dialect;
	char	   *path;			/* owned */
	char	   *role;			/* of the key; owned, NULL: no key was needed */
	Buf			body;			/* what llm_api() is to have */
	size_t		received;		/* bytes of the body, kept or not */
	bool		too_large;
	bool		stream;			/* the body asks for one */
	bool		answered;
	bool		last;			/* of its connection */
	bool		counted;		/* in serve_load() */
} Request;

/* MHD's callbacks */
enum MHD_Result serve(void *cls, struct MHD_Connection *http, const char *url, const char *method, const char *version,
					  const char *upload, size_t *upload_size, void **ctx);
void		serve_completed(void *cls, struct MHD_Connection *http, void **ctx, enum MHD_RequestTerminationCode why);

/* Queue an answer with a body; takes over the body's memory. */
enum MHD_Result serve_body(Request *q, int status, const char *type, Buf *body);
enum MHD_Result serve_error(Request *q, int status, const char *message);
/* Queue an answer made elsewhere; takes over the response. */
enum MHD_Result serve_response(Request *q, int status, const char *type, struct MHD_Response *r);

/* What is to end before the door may: requests, and streams, which may outlive theirs. */
int			serve_active(void);
/* one begins, ends: of serve_active() */
void		serve_count(int by);
/* Requests of the API that are being answered. */
int			serve_load(void);
/* From now on connections are closed behind an answer. */
void		serve_last(void);

/* ---- dev.c ---- */

/* A call of R_DEV under the right role; body: its answer. */
DbEnd		dev_call(Request *q, Db *db, Buf *body, DbError *e);

/* ---- stream.c ---- */

/* llm_api_stream() on a connection with a transaction of the right role; takes over db. */
enum MHD_Result stream_start(Request *q, Db *db);

#endif
