/*
 * http_client.h
 *	  HTTP client: many calls at once, by libcurl's multi interface on one epoll descriptor.
 *
 * One thread.  The client follows no redirect, repeats no call, and reads no proxy setting and no
 * .netrc.  It takes only http and https.  TLS is verified unless the request says otherwise.
 * Connections are kept and reused per host, with HTTP/2 if the server offers it (calls share a
 * connection).
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
	const char *url;			/* complete; already checked by host_allowlist.h */
	bool		get;
	const char *body;			/* the caller's; must live until the call has ended */
	size_t		len;
	const char *const *headers; /* n_headers of "Name: value"; copied */
	int			n_headers;
	bool		stream;			/* send Accept: text/event-stream */
	int64_t		deadline_us;	/* CLOCK_MONOTONIC */
	int			connect_timeout_ms;
	bool		verify;
	const char *ca_file;		/* NULL = the system's certificates */
	size_t		max_answer;		/* bytes of the response body; more is an error */
} HttpRequest;

typedef enum HttpEnd
{
	HTTP_DONE,					/* a status and the whole body were received */
	HTTP_NOT_SENT,				/* no connection, or no byte of the request was sent: safe to repeat */
	/* sent at least in part, but the connection broke before the response was complete */
	HTTP_CUT,
	HTTP_LATE,					/* the deadline ended a call that was sent at least in part */
	HTTP_REFUSED,				/* TLS: the certificate is not trusted; must not be repeated */
	HTTP_TOO_LARGE
} HttpEnd;

typedef struct HttpResult
{
	HttpEnd		end;
	int			status;			/* 0 = none was received */
	int64_t		retry_after_ms; /* Retry-After (seconds or date), or OpenAI's retry-after-ms; -1 = none */
	int64_t		limit_requests, remaining_requests, reset_requests_ms;	/* x-ratelimit-*; -1 = none */
	int64_t		limit_tokens, remaining_tokens, reset_tokens_ms;
	bool		is_events;		/* Content-Type: text/event-stream */
	bool		is_json;
	/* compressed, for example, though the request did not allow that: ends as HTTP_CUT */
	bool		is_encoded;
	int64_t		sent_us, first_byte_us, end_us;
	/* if end != HTTP_DONE: message for people, without the url's query and without headers */
	Err			e;
} HttpResult;

typedef struct HttpEvents
{
	/* status and headers were received; returns false to close the call */
	bool		(*head) (void *ctx, const HttpResult *r);
	/* bytes of the body; returns false to close the call (`ended` is still called, with HTTP_CUT) */
	bool		(*data) (void *ctx, const char *p, size_t n);
	/* the last event; the call no longer exists after it */
	void		(*ended) (void *ctx, const HttpResult *r);
} HttpEvents;

/* Its epoll descriptor becomes readable when http_poll() has something to do. */
Http	   *http_new(Err *e);
void		http_free(Http *h);
int			http_fd(const Http *h);
/* Do all pending I/O.  Returns the us after which it must be called again at the latest. */
int64_t		http_poll(Http *h);

/* Start a call.  NULL: *e.  Events are emitted only by http_poll(), never during this function. */
HttpCall   *http_start(Http *h, const HttpRequest *r, const HttpEvents *ev, void *ctx, Err *e);
/* Close the call now: the connection of HTTP/1.1, or the stream of HTTP/2.  No event follows. */
void		http_cancel(HttpCall *c);
/* Pause or resume the delivery of bytes. */
void		http_pause(HttpCall *c, bool pause);

typedef struct HttpStats
{
	int			calls;			/* running */
	int			connections;	/* open */
	int64_t		connects;		/* connections made so far */
} HttpStats;
void		http_stats(const Http *h, HttpStats *s);	/* for tests of connection reuse */

#endif
