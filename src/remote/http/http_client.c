/*
 * http_client.c
 *	  Many HTTP calls at once: libcurl's multi interface on an epoll descriptor of our own.
 *
 * libcurl reports which sockets it waits for and when it wants to be called.  Both go into one epoll set
 * (the time as a timerfd), so that the owner waits for a single descriptor.  We check deadlines
 * ourselves: one lower bound of all of them, checked when it has passed.
 *
 * libcurl can't be called from within its own callbacks, but our caller can call us from within its
 * callbacks.  Operations on other calls are then queued (todo) and done when libcurl has returned, still
 * within the same http_poll().
 *
 * A cancelled call is closed so that the server notices: libcurl closes an HTTP/1.1 connection, and
 * resets a stream of an HTTP/2 connection that others use (push_out).  But libcurl would just forget the
 * only stream of a connection, so that connection is closed, too (CURLOPT_FORBID_REUSE).
 *
 * Tested by tests/unit/remote/http/test_remote_http.c.
 */
#include "remote/http/http_client.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "remote/http/http_internal.h"

#define POLL_EVENTS 64
#define POLL_ROUNDS 64			/* maximal iterations of one http_poll() */
#define POLL_US 5000			/* maximal time of one http_poll(), because other connections wait */
#define IDLE_CONNECTIONS_MAX 4096L
#define STREAMS_MAX 4096L		/* on one HTTP/2 connection */
#define LONG_TIME_US (INT64_C(3600) * 1000000)

/* ---- callbacks for libcurl's sockets and timer ---- */

static int
on_socket(CURL *easy, curl_socket_t s, int what, void *arg, void *known)
{
	Http	   *h = arg;
	struct epoll_event ev = {.data.fd = s};

	(void) easy;
	if (what == CURL_POLL_REMOVE)
	{
		epoll_ctl(h->epoll, EPOLL_CTL_DEL, s, NULL);
		return 0;
	}
	ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
	if (epoll_ctl(h->epoll, known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s, &ev) != 0 &&
		(errno == ENOENT || errno == EEXIST))
		epoll_ctl(h->epoll, errno == ENOENT ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, s, &ev);
	curl_multi_assign(h->multi, s, h);
	return 0;
}

static int
on_timer(CURLM *multi, long ms, void *arg)
{
	Http	   *h = arg;

	(void) multi;
	h->curl_us = ms < 0 ? INT64_MAX : clock_us() + (int64_t) ms * 1000;
	return 0;
}

static void
action(Http *h, curl_socket_t s, int mask)
{
	int			running;

	ASSERT(!h->inside);
	h->inside = true;
	curl_multi_socket_action(h->multi, s, mask, &running);
	h->inside = false;
}

/* Set the timerfd to the earliest time.  Returns the us until then. */
static int64_t
arm(Http *h)
{
	int64_t		now = clock_us(),
				at = h->curl_us < h->deadline_us ? h->curl_us : h->deadline_us;

	if (h->todo != NULL || h->push)
		at = now;
	if (at != h->armed_us)
	{
		/* a value of zero would disarm the timer */
		struct itimerspec t = {.it_value = {.tv_sec = 0, .tv_nsec = 0}};

		if (at != INT64_MAX)
		{
			t.it_value.tv_sec = at / 1000000;
			t.it_value.tv_nsec = at % 1000000 * 1000 + 1;
		}
		timerfd_settime(h->timer, TFD_TIMER_ABSTIME, &t, NULL);
		h->armed_us = at;
	}
	if (at == INT64_MAX || at - now > LONG_TIME_US)
		return LONG_TIME_US;
	return at <= now ? 0 : at - now;
}

/* ---- life of a call ---- */

static void
http_todo(HttpCall *c)
{
	Http	   *h = c->h;

	if (c->todo)
		return;
	c->todo = true;
	c->next_todo = NULL;
	*h->todo_end = c;
	h->todo_end = &c->next_todo;
}

static void
forget_todo(HttpCall *c)
{
	Http	   *h = c->h;

	if (!c->todo)
		return;
	for (HttpCall **p = &h->todo; *p != NULL; p = &(*p)->next_todo)
		if (*p == c)
		{
			*p = c->next_todo;
			if (*p == NULL)
				h->todo_end = p;
			break;
		}
	c->todo = false;
}

/*
 * Resume the transfer.  libcurl delivers the bytes that it has held back during this call, and our
 * callback may refuse them like any others.  libcurl (7.88) only returns that error: its transfer would
 * go on after the gap.
 */
static void
release(HttpCall *c)
{
	curl_easy_pause(c->easy, CURLPAUSE_CONT);
	if (c->stopped || c->too_large)
		http_todo(c);
}

/*
 * libcurl (7.88) leaves the frame that resets a stream in a buffer until the next frame of that
 * connection is sent.  Pausing and resuming calls makes it flush their connections' buffers, and has no
 * other effect.  There is no way to ask which calls share the connection, so it is done for all calls
 * that may, once for all cancelled calls.
 */
static bool
push_out(Http *h)
{
	if (!h->push)
		return false;
	h->push = false;
	ASSERT(!h->inside);
	h->inside = true;
	for (HttpCall *c = h->calls; c != NULL; c = c->next)
	{
		if (!c->added || !c->https)
			continue;
		if (!c->held)
			curl_easy_pause(c->easy, CURLPAUSE_SEND);
		release(c);
	}
	h->inside = false;
	return true;
}

/* Remove the call from libcurl and from all lists; its memory stays.  broken: close its connection. */
static void
detach(HttpCall *c, bool broken)
{
	Http	   *h = c->h;

	forget_todo(c);
	if (c->added)
	{
		if (broken)
		{
			curl_easy_setopt(c->easy, CURLOPT_FORBID_REUSE, 1L);
			h->push |= c->https;
		}
		/* libcurl can't remove a transfer while it runs */
		ALWAYS(!h->inside);
		h->inside = true;
		curl_multi_remove_handle(h->multi, c->easy);
		h->inside = false;
		c->added = false;
	}
	ALWAYS(h->stats.calls > 0 && (c->prev != NULL ? c->prev->next : h->calls) == c);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		h->calls = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	h->stats.calls--;
	if (h->calls == NULL)
		h->deadline_us = INT64_MAX;
	curl_easy_reset(c->easy);
	if (h->n_idle < IDLE_HANDLES_MAX)
		h->idle[h->n_idle++] = c->easy;
	else
		curl_easy_cleanup(c->easy);
	c->easy = NULL;
}

static void
end_call(HttpCall *c, CURLcode code, bool late)
{
	long		made = 0;

	http_call_result(c, code, late);
	curl_easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &made);
	c->h->stats.connects += made;
	detach(c, c->r.end != HTTP_DONE);
	if (c->ev.ended != NULL)
		c->ev.ended(c->ctx, &c->r);
	http_call_free(c);
}

static bool
add(HttpCall *c, Err *e)
{
	CURLMcode	code;

	ALWAYS(!c->h->inside && !c->added);
	c->h->inside = true;
	code = curl_multi_add_handle(c->h->multi, c->easy);
	c->h->inside = false;
	c->added = code == CURLM_OK;
	return c->added || err_set(e, ERR_NOMEM, "could not begin a request: %s", curl_multi_strerror(code));
}

HttpCall *
http_start(Http *h, const HttpRequest *r, const HttpEvents *ev, void *ctx, Err *e)
{
	CURL	   *easy = h->n_idle > 0 ? h->idle[--h->n_idle] : curl_easy_init();
	HttpCall   *c;

	if (easy == NULL)
	{
		err_set(e, ERR_NOMEM, "out of memory");
		return NULL;
	}
	c = mem_zalloc(sizeof(*c));
	c->h = h;
	c->easy = easy;
	c->ev = *ev;
	c->ctx = ctx;
	c->start_us = clock_us();
	c->next = h->calls;
	if (c->next != NULL)
		c->next->prev = c;
	h->calls = c;
	h->stats.calls++;
	if (!http_call_prepare(c, r, e) || (!h->inside && !add(c, e)))
	{
		detach(c, false);
		http_call_free(c);
		return NULL;
	}
	if (h->inside)
		http_todo(c);
	if (c->deadline_us < h->deadline_us)
		h->deadline_us = c->deadline_us;
	arm(h);
	return c;
}

void
http_cancel(HttpCall *c)
{
	Http	   *h = c->h;

	if (h->inside)
	{
		c->cancelled = true;
		http_todo(c);
		return;
	}
	detach(c, true);
	http_call_free(c);
	arm(h);
}

void
http_pause(HttpCall *c, bool pause)
{
	c->pause = pause;
	if (!pause && (c->held || c->whole || c->kept.len > 0))
	{
		http_todo(c);
		arm(c->h);
	}
}

/*
 * The caller wants bytes again: deliver those that we have kept, then those that libcurl holds back, and
 * the end if it has come.
 */
static void
go_on(HttpCall *c)
{
	Http	   *h = c->h;
	Buf			kept = c->kept;
	bool		more = true;

	memset(&c->kept, 0, sizeof(c->kept));
	/* the caller may cancel the call from within the callback */
	h->inside = true;
	if (kept.len > 0)
		more = http_call_deliver(c, kept.data, kept.len);
	buf_free(&kept);
	if (more && c->held && !c->pause && !c->cancelled && !c->whole)
	{
		c->held = false;
		release(c);
	}
	h->inside = false;
	/* do_todo() handles calls that were cancelled or refused just now */
	if (c->cancelled || !more)
		http_todo(c);
	else if (c->whole && !c->pause)
		end_call(c, c->code, false);
}

/* Do what had to wait for libcurl to return. */
static bool
do_todo(Http *h)
{
	bool		any = false;

	for (HttpCall *c; (c = h->todo) != NULL; any = true)
	{
		forget_todo(c);
		if (c->cancelled)
		{
			detach(c, true);
			http_call_free(c);
		}
		else if (!c->added)
		{
			Err			e;

			if (!add(c, &e))
				end_call(c, CURLE_OUT_OF_MEMORY, false);
		}
		else if (c->stopped || c->too_large)
			end_call(c, CURLE_WRITE_ERROR, false);
		else if (!c->pause)
			go_on(c);
	}
	return any;
}

/* End the calls that libcurl has finished. */
static bool
finish(Http *h)
{
	bool		any = false;
	CURLMsg    *msg;
	int			left;

	while ((msg = curl_multi_info_read(h->multi, &left)) != NULL)
	{
		CURLcode	code = msg->data.result;
		HttpCall   *c = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &c);
		any = true;
		if (c->cancelled)
		{
			detach(c, true);
			http_call_free(c);
		}
		else if (c->kept.len > 0)
		{
			c->whole = true;
			c->code = code;
		}
		else
			end_call(c, code, false);
	}
	return any;
}

static bool
expire(Http *h)
{
	int64_t		now = clock_us();
	bool		any = false;
	HttpCall   *c = h->calls;

	if (now < h->deadline_us)
		return false;
	h->deadline_us = INT64_MAX;
	while (c != NULL)
	{
		if (c->deadline_us <= now)
		{
			/* the callback may end other calls */
			end_call(c, CURLE_OPERATION_TIMEDOUT, true);
			any = true;
			c = h->calls;
		}
		else
			c = c->next;
	}
	for (c = h->calls; c != NULL; c = c->next)
		if (c->deadline_us < h->deadline_us)
			h->deadline_us = c->deadline_us;
	return any;
}

int64_t
http_poll(Http *h)
{
	int64_t		end_us = clock_us() + POLL_US;

	/* callbacks must not poll */
	ASSERT(!h->inside);
	for (int round = 0; round < POLL_ROUNDS && clock_us() < end_us; round++)
	{
		struct epoll_event ev[POLL_EVENTS];
		int			n = epoll_wait(h->epoll, ev, POLL_EVENTS, 0);
		bool		busy = n == POLL_EVENTS;

		for (int i = 0; i < n; i++)
			if (ev[i].data.fd == h->timer)
			{
				uint64_t	times;

				if (read(h->timer, &times, sizeof(times)) > 0)
					h->armed_us = INT64_MAX;
			}
			else
				action(h, ev[i].data.fd, (ev[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
					   (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
					   (ev[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
		if (h->curl_us <= clock_us())
		{
			h->curl_us = INT64_MAX;
			action(h, CURL_SOCKET_TIMEOUT, 0);
			busy = true;
		}
		busy |= do_todo(h);
		busy |= finish(h);
		busy |= expire(h);
		busy |= push_out(h);
		if (!busy)
			break;
	}
	return arm(h);
}

/* ---- the client ---- */

Http *
http_new(Err *e)
{
	Http	   *h;
	struct epoll_event ev = {.events = EPOLLIN};

	/* a lost peer must be an error of the write, whichever library writes */
	signal(SIGPIPE, SIG_IGN);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		err_set(e, ERR_INTERNAL, "could not initialize libcurl");
		return NULL;
	}
	h = mem_zalloc(sizeof(*h));
	h->armed_us = h->curl_us = h->deadline_us = INT64_MAX;
	h->todo_end = &h->todo;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	h->multi = curl_multi_init();
	ev.data.fd = h->timer;
	if (h->epoll < 0 || h->timer < 0 || h->multi == NULL || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->timer,
																	  &ev) != 0)
	{
		err_set(e, ERR_IO, "could not create the poll descriptors for connections: %s", strerror(errno));
		http_free(h);
		return NULL;
	}
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, (long) CURLPIPE_MULTIPLEX);
	/*
	 * The server may have a lower bound.  libcurl's own is 100, and beyond it libcurl opens a connection
	 * for each call.
	 */
	curl_multi_setopt(h->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, STREAMS_MAX);
	/* otherwise libcurl closes idle connections beyond four for each running call */
	curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX);
	return h;
}

void
http_free(Http *h)
{
	if (h == NULL)
		return;
	while (h->calls != NULL)
	{
		HttpCall   *c = h->calls;

		detach(c, true);
		http_call_free(c);
	}
	while (h->n_idle > 0)
		curl_easy_cleanup(h->idle[--h->n_idle]);
	if (h->multi != NULL)
		curl_multi_cleanup(h->multi);
	if (h->timer >= 0)
		close(h->timer);
	if (h->epoll >= 0)
		close(h->epoll);
	mem_free(h);
	curl_global_cleanup();
}

int
http_fd(const Http *h)
{
	return h->epoll;
}

void
http_stats(const Http *h, HttpStats *s)
{
	*s = h->stats;
}
