/*
 * connection.c
 *	  A client's connection: one request after another.
 *
 * Each client has a thread, so everything here may wait, but never without a limit:
 *
 *	the first head		vllm.http_header_timeout from the connection on, with the handshake of TLS
 *	a later head		vllm.http_idle_timeout until it begins, then vllm.http_header_timeout
 *	a body				vllm.http_body_timeout in all, and no pause of more than vllm.http_idle_timeout
 *	a piece of response	vllm.http_idle_timeout until the client has read it, vllm.http_header_timeout if it
 *						has no key
 *
 * A client that is late with a request that has begun gets 408; one that has not begun is disconnected.
 * The connection ends after a response if it is uncertain where the next request begins: after any error
 * in a head or a body, before a body has come, after HTTP/1.0.  Then the rest of the input is read for a
 * while, or the client's system would discard the response.
 *
 * Tests: tests/t/083_http.pl, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/connection.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/request_head.h"
#include "httpd/conn/tls_socket.h"
#include "httpd/handler.h"

#define STACK_SIZE		(512 * 1024)
#define READ_SIZE		16384
#define WRITE_SIZE		65536	/* bytes that a client must read within vllm.http_idle_timeout */
#define SECOND			INT64_C(1000000)
/* time for reading the rest of the input after the last response, with a key and without */
#define LINGER_KEY		(10 * SECOND)
#define LINGER_OTHER	(2 * SECOND)
#define LINGER_BYTES	(256 * 1024)

struct Conn
{
	Net			net;
	Client	   *client;
	Buf			in;				/* bytes received that belong to no request yet */
	HttpHead	head;
	Buf			head_text;		/* head of the current request */
	int64_t		opened;
	bool		answered;		/* the current request has a response */
	bool		body_ended;		/* the current request has no more bytes */
	bool		keyed;
	bool		last;			/* no request follows the current one */
	bool		broken;			/* writing fails */
	bool		head_only;		/* the response has no body */
	bool		chunked;		/* the pieces are sent as chunks */
};

/* ---- writing ---- */

static const char *
reason(int status)
{
	static const struct
	{
		int			status;
		const char *text;
	}			rows[] = {
		{200, "OK"}, {204, "No Content"}, {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"}, {408, "Request Timeout"}, {413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"}, {417, "Expectation Failed"}, {429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"}, {500, "Internal Server Error"}, {502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return status < 500 ? "Error" : "Server Error";
}

static bool
put(Conn *c, const char *data, size_t len)
{
	while (len > 0 && !c->broken)
	{
		size_t		n = len < WRITE_SIZE ? len : WRITE_SIZE;

		c->broken = !net_write(&c->net, data, n, clock_us() + clients_write_begin(c->client));
		clients_write_end(c->client);
		data += n;
		len -= n;
	}
	return !c->broken;
}

/* Write the status line and the headers that all responses have. */
static void
begin_answer(Conn *c, int status, const Buf *headers, Buf *out)
{
	time_t		now = time(NULL);
	struct tm	tm;
	char		date[64];

	c->answered = true;
	if (!c->body_ended || serve_is_last())
		c->last = true;
	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s", status, reason(status), date,
			   c->last ? "Connection: close\r\n" : "");
	if (headers->len > 0)
		buf_add(out, headers->data, headers->len);
}

void
conn_answer(Conn *c, int status, const Buf *headers, const char *body, size_t len)
{
	Buf			out = {0};

	begin_answer(c, status, headers, &out);
	if (status != 204)
		buf_printf(&out, "Content-Length: %zu\r\n", len);
	buf_addstr(&out, "\r\n");
	if (!c->head_only && status != 204 && len < WRITE_SIZE)
	{
		/* in one packet, if it is small */
		buf_add(&out, body, len);
		(void) put(c, out.data, out.len);
	}
	else if (put(c, out.data, out.len) && !c->head_only && status != 204)
		(void) put(c, body, len);
	buf_free(&out);
}

bool
conn_stream(Conn *c, int status, const Buf *headers)
{
	Buf			out = {0};
	bool		ok;

	c->chunked = c->head.http11;
	if (!c->chunked)
		c->last = true;
	begin_answer(c, status, headers, &out);
	buf_addstr(&out, c->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	ok = put(c, out.data, out.len);
	buf_free(&out);
	return ok;
}

bool
conn_piece(Conn *c, const char *data, size_t len)
{
	Buf			out = {0};
	bool		ok;

	ASSERT(c->answered);
	/* an empty chunk would end the response */
	if (len == 0)
		return !c->broken;
	if (!c->chunked)
		return put(c, data, len);
	buf_printf(&out, "%zx\r\n", len);
	buf_add(&out, data, len);
	buf_addstr(&out, "\r\n");
	ok = put(c, out.data, out.len);
	buf_free(&out);
	return ok;
}

void
conn_stream_end(Conn *c)
{
	ASSERT(c->answered);
	if (c->chunked)
		(void) put(c, "0\r\n\r\n", 5);
}

void
conn_drop(Conn *c)
{
	c->answered = true;
	c->broken = true;
	c->last = true;
}

/* Respond to an error that occurs before there is a request. */
static void
refuse(Conn *c, int status, const char *why)
{
	c->body_ended = false;
	serve_refused(c, status, why);
}

/* Send an evicted client the reason, if that takes no time. */
static void
say_evicted(Conn *c)
{
	static const char body[] = "{\"error\":{\"message\":\"the server has too many clients, and this one took "
		"too long\",\"type\":\"ServiceUnavailableError\",\"param\":null,\"code\":503}}";
	Buf			out = {0};

	c->last = true;
	buf_printf(&out, "HTTP/1.1 503 %s\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: "
			   "application/json\r\nContent-Length: %zu\r\n\r\n%s", reason(503), sizeof(body) - 1, body);
	if (!c->broken)
	{
		(void) net_write(&c->net, out.data, out.len, clock_us() + clients_write_begin(c->client));
		clients_write_end(c->client);
	}
	buf_free(&out);
	c->broken = true;
}

/* ---- reading ---- */

static ssize_t
get(Conn *c, int64_t until)
{
	char		piece[READ_SIZE];
	ssize_t		n = net_read(&c->net, piece, sizeof(piece), until);

	if (n > 0)
		buf_add(&c->in, piece, (size_t) n);
	return n;
}

/* Read the request's head into c->head.  Returns false if there is none, and the connection must end. */
static bool
read_head(Conn *c)
{
	int64_t		until = c->opened + http_conf.header_timeout_s * SECOND;
	HeadScan	scan = {0};
	const char *why = "";
	bool		idle = c->in.len == 0;
	bool		begun = c->opened != 0 || !idle;
	int			status;

	if (c->opened == 0)
		until = clock_us() + (begun ? http_conf.header_timeout_s : http_conf.idle_timeout_s) * SECOND;
	c->opened = 0;
	clients_awaited(c->client, true, idle);
	while ((status = head_scan(c->in.data, c->in.len, &scan, &why)) == 0)
	{
		ssize_t		n = get(c, until);

		if (n <= 0)
		{
			if (clients_evicted(c->client) && c->in.len > 0)
				say_evicted(c);
			else if (n == NET_LATE && c->in.len > 0)
				refuse(c, 408, "the request's headers did not come within vllm.http_header_timeout");
			return false;
		}
		if (idle)
			clients_awaited(c->client, true, false);
		idle = false;
		if (!begun)
			until = clock_us() + http_conf.header_timeout_s * SECOND;
		begun = true;
	}
	if (status != 1)
	{
		refuse(c, status, why);
		return false;
	}
	buf_reset(&c->head_text);
	buf_add(&c->head_text, c->in.data + scan.begin, scan.at - scan.begin);
	buf_consume(&c->in, scan.at);
	status = head_parse(c->head_text.data, c->head_text.len, &c->head, &why);
	if (status != 0)
		refuse(c, status, why);
	return status == 0;
}

/* Take received bytes for the body.  Returns false if they are not valid. */
static bool
take_body(Conn *c, ClientRequest *q, Chunks *chunks, uint64_t *left)
{
	const char *data;
	size_t		len;
	size_t		used = 0;

	if (!c->head.chunked)
	{
		used = c->in.len < *left ? c->in.len : (size_t) *left;
		serve_upload(q, c->in.data, used);
		*left -= used;
		c->body_ended = *left == 0;
	}
	while (c->head.chunked && used < c->in.len && chunks->state != CHUNK_END && !c->answered)
	{
		used += chunks_take(chunks, c->in.data + used, c->in.len - used, &data, &len);
		if (chunks->state == CHUNK_BAD)
			return false;
		if (len > 0)
			serve_upload(q, data, len);
	}
	if (chunks->state == CHUNK_END)
		c->body_ended = true;
	buf_consume(&c->in, used);
	return true;
}

static void
read_body(Conn *c, ClientRequest *q)
{
	int64_t		until = clock_us() + http_conf.body_timeout_s * SECOND;
	uint64_t	left = c->head.length;
	Chunks		chunks = {0};

	q->body_until = until;
	clients_awaited(c->client, true, false);
	if (c->head.expects && c->in.len == 0)
		(void) put(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	for (;;)
	{
		int64_t		silent = clock_us() + http_conf.idle_timeout_s * SECOND;
		ssize_t		n;

		if (c->in.len > 0 && !take_body(c, q, &chunks, &left))
			serve_error(q, 400, "the body's chunks are none");
		if (c->answered || c->body_ended)
			return;
		n = get(c, silent < until ? silent : until);
		if (n > 0)
			continue;
		if (clients_evicted(c->client))
			say_evicted(c);
		else if (n == NET_LATE)
			serve_late(q);
		else
			conn_drop(c);
		return;
	}
}

/* ---- requests ---- */

/* Serve one request, from its head to its response. */
static void
one_request(Conn *c)
{
	const HttpHead *h = &c->head;
	ClientRequest *q;

	c->answered = false;
	c->head_only = strcmp(h->method, "HEAD") == 0;
	c->body_ended = !h->chunked && h->length == 0;
	c->last = h->close;
	/* its head is complete: the client is not awaited while the key is looked up */
	clients_awaited(c->client, false, false);
	q = serve_new(c, h);
	serve_begin(q);
	if (!c->answered && !c->body_ended)
		read_body(c, q);
	clients_awaited(c->client, false, false);
	if (clients_evicted(c->client) && !c->answered)
		say_evicted(c);
	if (!c->answered && c->body_ended && !c->broken)
		serve_finish(q);
	c->keyed = q->key != 0;
	serve_free(q);
	clients_release(c->client);
}

static void *
run(void *arg)
{
	Conn	   *c = arg;

	bool		started;

	/* a client that is evicted during a handshake can't be told why */
	(void) clients_write_begin(c->client);
	started = net_start(&c->net, clients_fd(c->client), c->opened + http_conf.header_timeout_s * SECOND);
	clients_write_end(c->client);
	if (started)
	{
		do
		{
			c->last = true;
			c->head_only = false;
			if (read_head(c))
				one_request(c);
		} while (!c->last && !c->broken);
		/* everything has been sent, so the client may be evicted at any time */
		clients_awaited(c->client, true, true);
		if (!c->broken)
		{
			net_finish(&c->net);
			if (!c->body_ended || c->in.len > 0)
				net_linger(&c->net, c->keyed ? http_conf.max_body : LINGER_BYTES,
						   clock_us() + (c->keyed ? LINGER_KEY : LINGER_OTHER));
		}
	}
	net_free(&c->net);
	clients_leave(c->client);
	buf_free(&c->in);
	buf_free(&c->head_text);
	mem_free(c);
	return NULL;
}

int
conn_fd(const Conn *c)
{
	return c->net.fd;
}

Client *
conn_client(const Conn *c)
{
	return c->client;
}

bool
conn_start(Client *client)
{
	Conn	   *c = mem_zalloc(sizeof(Conn));
	pthread_attr_t attr;
	pthread_t	thread;
	bool		ok;

	c->client = client;
	c->opened = clock_us();
	c->body_ended = true;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ok = pthread_create(&thread, &attr, run, c) == 0;
	pthread_attr_destroy(&attr);
	if (!ok)
		mem_free(c);
	return ok;
}
