/*
 * transfer.c
 *	  One HTTP call: the options for libcurl, its callbacks, and the result.
 *
 * libcurl retries a request by itself when a kept connection turns out to be dead, unless the body can't
 * be sought back.  So the body comes from a read callback without a seek function, and no byte of a body
 * is ever sent twice without our caller's knowledge.  A call counts as "not sent" if libcurl has passed
 * nothing to a socket: CURLINFO_REQUEST_SIZE.
 *
 * Error messages quote the URL without its query, and libcurl's message as the detail; headers are never
 * quoted.
 *
 * Tested by tests/unit/remote/http/test_remote_http.c.
 */
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "remote/http/http_internal.h"

/*
 * Seconds after which an idle connection is not reused.  Many servers close theirs after five seconds,
 * and if a call is sent at that moment it is unknown whether the server has got it.
 */
#define KEEP_IDLE_S 4

static size_t
on_read(char *to, size_t size, size_t n, void *arg)
{
	HttpCall   *c = arg;

	/* the body is the caller's, who may have freed it */
	if (c->cancelled)
		return CURL_READFUNC_ABORT;
	ALWAYS(c->at <= c->len);
	n *= size;
	if (n > c->len - c->at)
		n = c->len - c->at;
	memcpy(to, c->body + c->at, n);
	c->at += n;
	return n;
}

/*
 * Abort the transfer from within a callback.  Its connection is closed instead of being kept, unless
 * other calls use it.
 */
static size_t
give_up(HttpCall *c)
{
	curl_easy_setopt(c->easy, CURLOPT_FORBID_REUSE, 1L);
	return 0;
}

/* Handle the empty line after the headers.  Informational responses and trailers don't count. */
static bool
end_head(HttpCall *c)
{
	long		status = 0;

	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	c->in_head = false;
	if (status < 200 || c->head_reported)
		return true;
	c->head_reported = true;
	c->r.status = (int) status;
	c->r.first_byte_us = clock_us();
	if (c->cancelled || c->ev.head == NULL || c->ev.head(c->ctx, &c->r))
		return !c->cancelled && !c->r.is_encoded;
	c->stopped = true;
	return false;
}

static size_t
on_header(char *s, size_t size, size_t n, void *arg)
{
	HttpCall   *c = arg;
	size_t		len = size * n;
	const size_t all = len;

	c->header_bytes += len;
	if (c->header_bytes > HEADER_BYTES_MAX)
	{
		c->too_large = true;
		return give_up(c);
	}
	while (len > 0 && (s[len - 1] == '\n' || s[len - 1] == '\r'))
		len--;
	if (c->head_reported)
		return all;
	if (!c->in_head && len > 5 && memcmp(s, "HTTP/", 5) == 0)
	{
		c->in_head = true;
		http_head_reset(&c->r);
	}
	else if (len > 0)
		http_head_line(&c->r, s, len);
	else if (!end_head(c))
		return give_up(c);
	return all;
}

bool
http_call_deliver(HttpCall *c, const char *s, size_t n)
{
	if (c->ev.data == NULL || c->ev.data(c->ctx, s, n))
		return true;
	c->stopped = true;
	return false;
}

static size_t
on_data(char *s, size_t size, size_t n, void *arg)
{
	HttpCall   *c = arg;

	n *= size;
	if (c->cancelled || c->stopped || c->too_large)
		return give_up(c);
	ALWAYS(c->answer <= c->max_answer);
	if (n > c->max_answer - c->answer)
	{
		c->too_large = true;
		return give_up(c);
	}
	if (c->pause || c->kept.len > 0)
	{
		/*
		 * libcurl (7.88) can't pause one stream of an HTTP/2 connection without pausing all of them, so
		 * we ask it to only when much is kept
		 */
		if (c->kept.len + n > KEPT_BYTES_MAX)
		{
			c->held = true;
			return CURL_WRITEFUNC_PAUSE;
		}
		buf_add(&c->kept, s, n);
		c->answer += n;
		return n;
	}
	c->answer += n;
	if (n > 0 && !http_call_deliver(c, s, n))
		return give_up(c);
	return c->cancelled ? give_up(c) : n;
}

static curl_socket_t
on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	Http	   *h = arg;
	curl_socket_t s = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);

	(void) purpose;
	if (s != CURL_SOCKET_BAD)
		h->stats.connections++;
	return s;
}

static int
on_close(void *arg, curl_socket_t s)
{
	Http	   *h = arg;

	h->stats.connections--;
	return close(s);
}

/*
 * Does the header say how a message is framed or which host it is for?  The caller may not set such
 * headers.
 */
static bool
reserved(const char *s, size_t n)
{
	static const char *const names[] = {"Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect",
										"Upgrade", "TE", "Trailer",
	"Accept-Encoding", "Keep-Alive", "Proxy-Connection"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (n == strlen(names[i]) && strncasecmp(s, names[i], n) == 0)
			return true;
	return false;
}

static bool
add_header(HttpCall *c, const char *text, Err *e)
{
	size_t		name = strcspn(text, ":");
	const char *value = text + name;
	struct curl_slist *more;
	char		empty[300];

	if (name == 0 || *value == '\0' || name > 256 ||
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~") != name)
		return err_set(e, ERR_INVALID, "invalid name of a request header");
	for (const char *s = value; *s != '\0'; s++)
		if (((unsigned char) *s < 0x20 && *s != '\t') || *s == 0x7f)
			return err_set(e, ERR_INVALID, "value of request header \"%.*s\" has control characters",
						   (int) name, text);
	if (reserved(text, name))
		return err_set(e, ERR_INVALID, "request header \"%.*s\" cannot be given", (int) name, text);
	if (value[1 + strspn(value + 1, " \t")] == '\0')
	{
		/* libcurl takes "Name:" as a request to leave the header out */
		snprintf(empty, sizeof(empty), "%.*s;", (int) name, text);
		text = empty;
	}
	more = curl_slist_append(c->headers, text);
	if (more == NULL)
		return err_set(e, ERR_NOMEM, "out of memory");
	c->headers = more;
	return true;
}

static bool
add_headers(HttpCall *c, const HttpRequest *r, Err *e)
{
	bool		accept = false,
				type = false;
	struct curl_slist *more;

	for (int i = 0; i < r->n_headers; i++)
	{
		if (!add_header(c, r->headers[i], e))
			return false;
		accept |= strncasecmp(r->headers[i], "Accept:", 7) == 0;
		type |= strncasecmp(r->headers[i], "Content-Type:", 13) == 0;
	}
	if (!accept && !add_header(c, r->stream ? "Accept: text/event-stream" : "Accept: application/json", e))
		return false;
	if (!type && !r->get && !add_header(c, "Content-Type: application/json", e))
		return false;
	/*
	 * Ask for no compression: libcurl would block all other calls while it unpacks a few compressed
	 * bytes.  Without this header the server could choose any encoding.
	 */
	more = curl_slist_append(c->headers, "Accept-Encoding: identity");
	if (more == NULL)
		return err_set(e, ERR_NOMEM, "out of memory");
	c->headers = more;
	/* send a large body without asking first */
	more = curl_slist_append(c->headers, "Expect:");
	if (more == NULL)
		return err_set(e, ERR_NOMEM, "out of memory");
	c->headers = more;
	return true;
}

static bool
set_options(HttpCall *c, const HttpRequest *r)
{
	CURL	   *easy = c->easy;
	bool		https = c->https;
	bool		ok = true;

#define SET(option, value) ok &= curl_easy_setopt(easy, option, value) == CURLE_OK
	SET(CURLOPT_PRIVATE, c);
	SET(CURLOPT_ERRORBUFFER, c->error);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_URL, c->url);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SET(CURLOPT_USERAGENT, "vllm_pg");
	SET(CURLOPT_HTTP_VERSION, (long) (https ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
	SET(CURLOPT_PIPEWAIT, https ? 1L : 0L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_KEEPIDLE, 30L);
	SET(CURLOPT_TCP_KEEPINTVL, 10L);
	SET(CURLOPT_MAXAGE_CONN, (long) KEEP_IDLE_S);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long) r->connect_timeout_ms);
	SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, r->verify ? 1L : 0L);
	SET(CURLOPT_SSL_VERIFYHOST, r->verify ? 2L : 0L);
	if (r->ca_file != NULL && *r->ca_file != '\0')
	{
		/* trust only these certificates */
		SET(CURLOPT_CAINFO, r->ca_file);
		SET(CURLOPT_CAPATH, NULL);
	}
#if LIBCURL_VERSION_NUM >= 0x075700
	SET(CURLOPT_CA_CACHE_TIMEOUT, 60L);
	/* when the call ends, don't wait for a name lookup that is still running */
	SET(CURLOPT_QUICK_EXIT, 1L);
#endif
	SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t) (r->max_answer < INT64_MAX ? r->max_answer : INT64_MAX));
	SET(CURLOPT_HTTPHEADER, c->headers);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, c);
	SET(CURLOPT_WRITEFUNCTION, on_data);
	SET(CURLOPT_WRITEDATA, c);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
	SET(CURLOPT_OPENSOCKETDATA, c->h);
	SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
	SET(CURLOPT_CLOSESOCKETDATA, c->h);
	/* without a body libcurl could repeat the call by itself on a kept connection */
	SET(CURLOPT_FRESH_CONNECT, c->len == 0 ? 1L : 0L);
	if (r->get)
		SET(CURLOPT_HTTPGET, 1L);
	else
	{
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) r->len);
		SET(CURLOPT_READFUNCTION, on_read);
		SET(CURLOPT_READDATA, c);
	}
#undef SET
	return ok;
}

bool
http_call_prepare(HttpCall *c, const HttpRequest *r, Err *e)
{
	c->url = mem_strdup(r->url);
	c->https = strncasecmp(r->url, "https:", 6) == 0;
	c->body = r->body;
	c->len = r->get ? 0 : r->len;
	c->deadline_us = r->deadline_us;
	c->max_answer = r->max_answer;
	http_head_reset(&c->r);
	if (!add_headers(c, r, e))
		return false;
	if (!set_options(c, r))
		return err_set(e, ERR_NOMEM, "could not prepare a request");
	return true;
}

void
http_call_free(HttpCall *c)
{
	/* neither libcurl nor http_poll() still refers to it */
	ALWAYS(!c->added && !c->todo && c->easy == NULL);
	/* a header may contain a secret */
	for (struct curl_slist *h = c->headers; h != NULL; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(c->headers);
	buf_free(&c->kept);
	mem_free(c->url);
	mem_free(c);
}

/* Return the URL for messages, without its query. */
static const char *
shown_url(const HttpCall *c, char *out, size_t size)
{
	int			n = (int) strcspn(c->url, "?#");

	snprintf(out, size, "%.*s", n < 300 ? n : 300, c->url);
	return out;
}

/*
 * Add libcurl's message as the detail.  Text that may come from the endpoint is reduced to one line of
 * ASCII.
 */
static void
add_detail(HttpCall *c, CURLcode code)
{
	const char *words = c->error[0] != '\0' ? c->error : curl_easy_strerror(code);
	char		text[CURL_ERROR_SIZE];
	size_t		n = 0;

	for (; words[n] != '\0' && n < sizeof(text) - 1; n++)
		text[n] = words[n] >= 0x20 && words[n] < 0x7f ? words[n] : '?';
	text[n] = '\0';
	err_detail(&c->r.e, "%s", text);
}

static bool
is_trust(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
		code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_INVALIDCERTSTATUS ||
		code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

/* Make the result of a call that failed before anything was sent. */
static void
not_sent(HttpCall *c, CURLcode code, bool late)
{
	Err		   *e = &c->r.e;
	char		url[304];
	long		oserr = 0;

	shown_url(c, url, sizeof(url));
	curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &oserr);
	c->r.end = HTTP_NOT_SENT;
	if (late || code == CURLE_OPERATION_TIMEDOUT)
		err_set(e, ERR_CONNECTION, "could not connect to \"%s\": timeout expired", url);
	else if (code == CURLE_COULDNT_RESOLVE_HOST)
		err_set(e, ERR_CONNECTION, "could not connect to \"%s\": host name could not be resolved", url);
	else if (code == CURLE_SSL_CACERT_BADFILE)
	{
		c->r.end = HTTP_REFUSED;
		err_set(e, ERR_IO, "could not load the root certificates for \"%s\"", url);
		add_detail(c, code);
	}
	else if (is_trust(code))
	{
		c->r.end = HTTP_REFUSED;
		err_set(e, ERR_CONNECTION, "certificate of \"%s\" could not be verified", url);
		add_detail(c, code);
		err_hint(e, "Name a private certificate authority in the model's option \"ca_file\" or in "
					"vllm.remote_ca_file.");
	}
	else if (code == CURLE_COULDNT_CONNECT && oserr != 0)
		err_set(e, ERR_CONNECTION, "could not connect to \"%s\": %s", url, strerror((int) oserr));
	else
	{
		err_set(e, ERR_CONNECTION, "could not connect to \"%s\"", url);
		add_detail(c, code);
	}
}

/* Make the result of a call that was sent at least in part, without a complete response. */
static void
cut(HttpCall *c, CURLcode code)
{
	Err		   *e = &c->r.e;
	char		url[304];

	shown_url(c, url, sizeof(url));
	c->r.end = HTTP_CUT;
	if (c->r.is_encoded || code == CURLE_BAD_CONTENT_ENCODING)
	{
		err_set(e, ERR_PROTOCOL, "answer of \"%s\" is compressed", url);
		err_detail(e, "It was requested uncompressed (\"Accept-Encoding: identity\").");
		return;
	}
	switch (code)
	{
		case CURLE_UNSUPPORTED_PROTOCOL:	/* HTTP/0.9, which accepts any bytes */
		case CURLE_WEIRD_SERVER_REPLY:
		case CURLE_OUT_OF_MEMORY:	/* a header beyond libcurl's limit */
			err_set(e, ERR_PROTOCOL, "answer of \"%s\" is not HTTP", url);
			break;
		case CURLE_GOT_NOTHING:
			err_set(e, ERR_CONNECTION, "\"%s\" closed the connection without an answer", url);
			return;
		default:
			if (c->stopped)
			{
				err_set(e, ERR_PROTOCOL, "answer of \"%s\" was not read to its end", url);
				return;
			}
			err_set(e, ERR_CONNECTION, "connection to \"%s\" was lost before the answer was complete", url);
	}
	add_detail(c, code);
}

void
http_call_result(HttpCall *c, CURLcode code, bool late)
{
	HttpResult *r = &c->r;
	long		head = 0;
	curl_off_t	body = 0,
				t = 0;
	bool		sent;
	char		url[304];

	r->end_us = clock_us();
	curl_easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &head);
	curl_easy_getinfo(c->easy, CURLINFO_SIZE_UPLOAD_T, &body);
	curl_easy_getinfo(c->easy, CURLINFO_PRETRANSFER_TIME_T, &t);
	sent = head > 0 || body > 0 || c->header_bytes > 0;
	if (sent)
		r->sent_us = c->start_us + t;
	memset(&r->e, 0, sizeof(r->e));
	if (code == CURLE_OK && !late)
	{
		r->end = HTTP_DONE;
		if (c->head_reported)
			return;
		/* libcurl accepts incomplete headers as a response */
		code = CURLE_GOT_NOTHING;
	}
	shown_url(c, url, sizeof(url));
	if (c->too_large || code == CURLE_FILESIZE_EXCEEDED)
	{
		r->end = HTTP_TOO_LARGE;
		if (c->header_bytes > HEADER_BYTES_MAX)
			err_set(&r->e, ERR_PROTOCOL, "headers of the answer of \"%s\" are larger than %d bytes", url,
					HEADER_BYTES_MAX);
		else
			err_set(&r->e, ERR_PROTOCOL, "answer of \"%s\" is larger than %zu bytes", url, c->max_answer);
	}
	else if (!sent)
		not_sent(c, code, late);
	else if (late)
	{
		r->end = HTTP_LATE;
		err_set(&r->e, ERR_CONNECTION, r->status == 0 ? "no answer of \"%s\" came in time" :
				"answer of \"%s\" was not complete in time", url);
	}
	else
		cut(c, code);
}
