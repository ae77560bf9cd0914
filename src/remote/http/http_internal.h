/*
 * http_internal.h
 *	  What the files of the HTTP client share.
 */
#ifndef VLLM_REMOTE_HTTP_HTTP_INTERNAL_H
#define VLLM_REMOTE_HTTP_HTTP_INTERNAL_H

#include <curl/curl.h>

#include "base/buf.h"
#include "remote/http/http_client.h"

/* headers of one response, informational responses before it included */
#define HEADER_BYTES_MAX (256 * 1024)
#define KEPT_BYTES_MAX (1024 * 1024)	/* buffered bytes of one call that is paused */
#define IDLE_HANDLES_MAX 64		/* kept for reuse */

struct HttpCall
{
	Http	   *h;
	CURL	   *easy;
	HttpCall   *prev,
			   *next;			/* list of all calls */
	HttpCall   *next_todo;		/* list of calls that http_poll() must handle */
	bool		todo;
	bool		https;
	bool		added;			/* added to the multi handle */
	bool		cancelled;		/* cancelled by the caller from within one of our callbacks */
	bool		pause;			/* the caller has paused it */
	Buf			kept;			/* bytes received during the pause */
	bool		held;			/* `kept` is full: libcurl has paused the transfer */
	bool		whole;			/* libcurl has finished, but the caller has not got everything */
	CURLcode	code;			/* result of libcurl when whole */
	HttpEvents	ev;
	void	   *ctx;
	struct curl_slist *headers;
	char	   *url;			/* complete */
	const char *body;			/* the caller's */
	size_t		len,
				at;				/* bytes of the body that libcurl has read */
	int64_t		start_us,
				deadline_us;
	size_t		max_answer,
				answer;			/* bytes of the response body */
	size_t		header_bytes;
	bool		in_head;		/* a status line has been received */
	bool		head_reported;
	bool		stopped;		/* the caller's callback returned false */
	bool		too_large;
	HttpResult	r;
	char		error[CURL_ERROR_SIZE];
};

struct Http
{
	CURLM	   *multi;
	int			epoll;
	int			timer;			/* timerfd, in the epoll set */
	int64_t		armed_us;		/* time the timer is set to; INT64_MAX = not set */
	int64_t		curl_us;		/* time at which libcurl wants to be called; INT64_MAX = never */
	int64_t		deadline_us;	/* lower bound of all calls' deadlines */
	HttpCall   *calls;
	HttpCall   *todo,
			  **todo_end;
	bool		push;			/* streams were reset: see push_out() */
	bool		inside;			/* libcurl is running, so it can't be called for other calls */
	CURL	   *idle[IDLE_HANDLES_MAX];
	int			n_idle;
	HttpStats	stats;
};

/* transfer.c: options of a handle, and the result of a call. */
bool		http_call_prepare(HttpCall *c, const HttpRequest *r, Err *e);
void		http_call_result(HttpCall *c, CURLcode code, bool late);
void		http_call_free(HttpCall *c);
/* Pass bytes to the caller.  Returns false if the caller wants no more. */
bool		http_call_deliver(HttpCall *c, const char *s, size_t n);

/* headers.c: parse one header line, without its line end. */
void		http_head_reset(HttpResult *r);
void		http_head_line(HttpResult *r, const char *s, size_t n);
/* Parse "6m0s", "20ms", "1.5s" or "7" (seconds) into ms.  Returns -1 for anything else. */
int64_t		http_duration(const char *s, size_t n);

#endif
