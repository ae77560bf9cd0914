/*
 * http_internal.h
 *	  What the files of the HTTP client share.
 */
#ifndef VLLM_REMOTE_HTTP_HTTP_INTERNAL_H
#define VLLM_REMOTE_HTTP_HTTP_INTERNAL_H

#include <curl/curl.h>

#include "base/buf.h"
#include "remote/http/http_client.h"

#define HEADER_BYTES_MAX (256 * 1024)	/* of one answer, informational ones before it included */
#define KEPT_BYTES_MAX (1024 * 1024)	/* of one call that is paused */
#define IDLE_HANDLES_MAX 64		/* kept for the next calls */

struct HttpCall
{
	Http	   *h;
	CURL	   *easy;
	HttpCall   *prev,
			   *next;			/* of all calls */
	HttpCall   *next_todo;		/* of those that http_turn() has to do something about */
	bool		todo;
	bool		https;
	bool		added;			/* the multi handle has it */
	bool		cancelled;		/* by the caller, from within one of our callbacks */
	bool		pause;			/* the caller wants no bytes */
	Buf			kept;			/* bytes that came meanwhile */
	bool		held;			/* too many: libcurl holds further ones back */
	bool		whole;			/* libcurl is done with it, and only its caller isn't */
	CURLcode	code;			/* of that */
	HttpEvents	ev;
	void	   *ctx;
	struct curl_slist *headers;
	char	   *url;			/* whole */
	const char *body;			/* the caller's */
	size_t		len,
				at;				/* bytes of the body that libcurl has taken */
	int64_t		start_us,
				deadline_us;
	size_t		max_answer,
				answer;			/* bytes of the answer's body */
	size_t		header_bytes;
	bool		in_head;		/* a status line has come */
	bool		head_told;
	bool		stopped;		/* the caller's callback said no */
	bool		too_large;
	HttpResult	r;
	char		error[CURL_ERROR_SIZE];
};

struct Http
{
	CURLM	   *multi;
	int			epoll;
	int			timer;			/* timerfd, in the epoll set */
	int64_t		armed_us;		/* what it is set to; INT64_MAX = it is not */
	int64_t		curl_us;		/* libcurl wants to be called then; INT64_MAX = it doesn't */
	int64_t		deadline_us;	/* no call's deadline is before */
	HttpCall   *calls;
	HttpCall   *todo,
			  **todo_end;
	bool		push;			/* streams were reset: see push_out() */
	bool		inside;			/* libcurl is running: it can't be called for other calls */
	CURL	   *idle[IDLE_HANDLES_MAX];
	int			n_idle;
	HttpStats	stats;
};

/* transfer.c: a handle's options; what came of it. */
bool		http_call_prepare(HttpCall *c, const HttpRequest *r, Err *e);
void		http_call_result(HttpCall *c, CURLcode code, bool late);
void		http_call_free(HttpCall *c);
/* Bytes for the caller; false: he wants no more. */
bool		http_call_deliver(HttpCall *c, const char *s, size_t n);

/* headers.c: one line of the head, without its end. */
void		http_head_reset(HttpResult *r);
void		http_head_line(HttpResult *r, const char *s, size_t n);
/* "6m0s", "20ms", "1.5s", "7" (seconds) in ms; -1 = none of these */
int64_t		http_duration(const char *s, size_t n);

#endif
