/*
 * http_client.h
 *	  HTTP calls, many at once, by libcurl's multi interface on one epoll descriptor.
 *
 * One thread.  Nothing is followed, nothing is repeated, no proxy and no .netrc is read; only http and https.
 * TLS is verified unless told otherwise.  Connections are kept and reused per host; HTTP/2 when the server
 * offers it (calls share a connection).
 */
#ifndef VLLM_REMOTE_HTTP_HTTP_CLIENT_H
#define VLLM_REMOTE_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Http Http;
typedef struct HttpCall HttpCall;

typedef struct HttpRequest
{
	const char *url;			/* whole; checked by host_allowlist.h already */
	bool		get;
	const char *body;			/* stays the caller's until the call has ended */
	size_t		len;
	const char *const *headers; /* "Name: value", n_headers of them; copied */
	int			n_headers;
	bool		stream;			/* Accept: text/event-stream */
	int64_t		deadline_us;	/* CLOCK_MONOTONIC */
	int			connect_timeout_ms;
	bool		verify;
	const char *ca_file;		/* NULL = the system's */
	size_t		max_answer;		/* bytes; more is an error */
} HttpRequest;

typedef enum HttpEnd
{
	HTTP_DONE,					/* a status, and the whole body */
	HTTP_NOT_SENT,				/* no connection, or nothing of the request was sent: safe to repeat */
	HTTP_CUT,					/* sent (at least in part), and no whole answer came: the connection broke */
	HTTP_LATE,					/* the deadline ended a call that was sent (at least in part) */
	HTTP_REFUSED,				/* TLS: the certificate is not trusted; not to be repeated */
	HTTP_TOO_LARGE
} HttpEnd;

typedef struct HttpResult
{
	HttpEnd		end;
	int			status;			/* 0 = none came */
	int64_t		retry_after_ms; /* Retry-After (seconds or date), or OpenAI's retry-after-ms; -1 = none */
	int64_t		limit_requests, remaining_requests, reset_requests_ms;	/* x-ratelimit-*; -1 = none */
	int64_t		limit_tokens, remaining_tokens, reset_tokens_ms;
	bool		is_events;		/* Content-Type: text/event-stream */
	bool		is_json;
	bool		is_encoded;		/* compressed, say, though that was not asked for: it ends as HTTP_CUT */
	int64_t		sent_us, first_byte_us, end_us;
	/* end != HTTP_DONE: message for people, without the url's query and without headers */
	Err			e;
} HttpResult;

typedef struct HttpEvents
{
	/* the status and headers have come; false: close */
	bool		(*head) (void *ctx, const HttpResult *r);
	/* bytes of the body; false: close (ended is still called, as HTTP_CUT) */
	bool		(*data) (void *ctx, const char *p, size_t n);
	/* last; the call is gone behind it */
	void		(*ended) (void *ctx, const HttpResult *r);
} HttpEvents;

/* epoll descriptor becomes readable when http_turn() has something to do. */
Http	   *http_new(Err *e);
void		http_free(Http *h);
int			http_fd(const Http *h);
/* Move everything that can be moved; us until the next call of this at the latest. */
int64_t		http_turn(Http *h);

/* Begin.  NULL: *e.  Events come from http_turn() only, never from within this. */
HttpCall   *http_start(Http *h, const HttpRequest *r, const HttpEvents *ev, void *ctx, Err *e);
/*
 * Close it now: the connection of an HTTP/1.1 call, the stream of an HTTP/2 call.  No event comes any more.
 */
void		http_cancel(HttpCall *c);
/* Let no more bytes come, or go on. */
void		http_pause(HttpCall *c, bool pause);

typedef struct HttpStats
{
	int			calls;			/* under way */
	int			connections;	/* open */
	int64_t		connects;		/* made so far */
} HttpStats;
void		http_stats(const Http *h, HttpStats *s);	/* for tests: are connections used again? */

#endif
