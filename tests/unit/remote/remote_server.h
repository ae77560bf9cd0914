/*
 * remote_server.h
 *	  A small HTTP/1.1 server inside a test: a thread for each connection, whose responses depend on the
 *	  path.
 *
 * It also misbehaves on request.  Its counters are protected by a lock.
 */
#ifndef VLLM_TESTS_UNIT_REMOTE_REMOTE_SERVER_H
#define VLLM_TESTS_UNIT_REMOTE_REMOTE_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

typedef struct Server
{
	int			fd;
	int			port;
	pthread_t	thread;
	pthread_mutex_t lock;
	int			connections;	/* accepted */
	int			open;			/* not closed yet */
	int			requests;		/* complete requests */
	int			at_once,
				most_at_once;	/* of /wait */
	int64_t		closed_us;		/* time when the client closed a connection that hung */
	int			closed;			/* number of such connections */
	char		head[4096];		/* of the last request */
} Server;

typedef struct Conn
{
	Server	   *s;
	int			fd;
	Buf			in;
	char		path[256];
	size_t		body_at,
				len;
} Conn;

static bool
send_n(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n > 0)
	{
		ssize_t		k = send(fd, s, n, MSG_NOSIGNAL);

		if (k <= 0)
			return false;
		s += k, n -= k;
	}
	return true;
}

static bool
send_s(int fd, const char *s)
{
	return send_n(fd, s, strlen(s));
}

/* Read one request: head and body.  Returns false if the client is gone. */
static bool
server_read(Conn *c)
{
	char		piece[65536];
	const char *end = NULL,
			   *h;

	for (;;)
	{
		ssize_t		k;

		if (end == NULL && c->in.len > 0 && (end = strstr(c->in.data, "\r\n\r\n")) != NULL)
		{
			c->body_at = end + 4 - c->in.data;
			sscanf(c->in.data, "%*s %255s", c->path);
			c->path[strcspn(c->path, "?")] = '\0';
			h = strcasestr(c->in.data, "\r\ncontent-length:");
			c->len = h != NULL && h < end ? strtoul(h + 17, NULL, 10) : 0;
			pthread_mutex_lock(&c->s->lock);
			snprintf(c->s->head, sizeof(c->s->head), "%.*s", (int) c->body_at, c->in.data);
			pthread_mutex_unlock(&c->s->lock);
			if (strcmp(c->path, "/close-unread") == 0)
				return false;
		}
		if (end != NULL && c->in.len >= c->body_at + c->len)
			return true;
		if ((k = recv(c->fd, piece, sizeof(piece), 0)) <= 0)
			return false;
		buf_add(&c->in, piece, k);
		if (end != NULL)
			end = c->in.data + c->body_at - 4;
	}
}

/* Wait until the client closes, and record the time. */
static void
server_hang(Conn *c)
{
	char		b[256];

	while (recv(c->fd, b, sizeof(b), 0) > 0)
		;
	pthread_mutex_lock(&c->s->lock);
	c->s->closed_us = clock_us();
	c->s->closed++;
	pthread_mutex_unlock(&c->s->lock);
}

static uint32_t
crc32_of(const unsigned char *p, size_t n)
{
	uint32_t	crc = ~0u;

	for (; n > 0; n--, p++)
	{
		crc ^= *p;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Make a gzip file of one stored block. */
static void
gzip_stored(Buf *out, const char *p, uint16_t n)
{
	uint16_t	inv = ~n;
	uint32_t	crc = crc32_of((const unsigned char *) p, n),
				size = n;

	buf_add(out, "\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11);
	buf_add(out, &n, 2);
	buf_add(out, &inv, 2);
	buf_add(out, p, n);
	buf_add(out, &crc, 4);
	buf_add(out, &size, 4);
}

/* Make the beginning of a gzip file of megabytes of zeros: 258 of them in 13 bits. */
static void
gzip_bomb(Buf *out, int megabytes)
{
	uint64_t	bits = 0;
	int			n = 0;

	buf_add(out, "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
	/* last block, fixed codes: 1, 01; the literal 0: 00110000, most significant bit first */
	bits = 1 | 1 << 1 | (uint64_t) 0x0c << 3;
	n = 11;
	for (int64_t i = 0; i < (int64_t) megabytes * 1048576 / 258; i++)
	{
		bits |= (uint64_t) 0xa3 << n;	/* 11000101 reversed; the distance's code is 00000 */
		for (n += 13; n >= 8; n -= 8, bits >>= 8)
			buf_addc(out, (char) bits);
	}
}

static void
server_events(Conn *c, int n)
{
	send_s(c->fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "
				  "chunked\r\n\r\n");
	for (int i = 0; i < n; i++)
		send_s(c->fd, "9\r\ndata: x\n\n\r\n");
}

/* Faults, by path.  Returns true if the path was one of them; the connection is closed. */
static bool
server_fault(Conn *c)
{
	const char *p = c->path;
	int			fd = c->fd;
	Buf			b = {0};

	if (strcmp(p, "/hang") == 0)
		server_hang(c);
	else if (strcmp(p, "/stream-hang") == 0)
	{
		server_events(c, 2);
		server_hang(c);
	}
	else if (strcmp(p, "/flood") == 0)
	{
		send_s(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
		while (send_s(fd, "a\r\n0123456789\r\n"))
			;
	}
	else if (strcmp(p, "/loris") == 0)
		for (const char *s = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nX: y";
			 send_n(fd, *s ? s++ : "x", 1);)
			usleep(5000);
	else if (strcmp(p, "/cut-body") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it");
	else if (strcmp(p, "/cut-chunk") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe");
	else if (strcmp(p, "/cut-last-chunk") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
	else if (strcmp(p, "/bad-chunk") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n");
	else if (strcmp(p, "/cut-head") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Le");
	else if (strcmp(p, "/garbage") == 0)
		send_s(fd, "\x16\x03\x01 what is this?\r\n\r\n");
	else if (strcmp(p, "/bad-status") == 0)
		send_s(fd, "HTTP/1.1 abc OK\r\n\r\n");
	else if (strcmp(p, "/bad-length") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n");
	else if (strcmp(p, "/bad-gzip") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 11\r\n\r\nhello world");
	else if (strcmp(p, "/bomb") == 0)
	{
		gzip_bomb(&b, 64);
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
		send_n(fd, b.data, b.len);
	}
	else if (strcmp(p, "/huge-length") == 0)
	{
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx");
		server_hang(c);
	}
	else if (strcmp(p, "/endless-headers") == 0)
	{
		send_s(fd, "HTTP/1.1 200 OK\r\n");
		while (send_s(fd, "X-More: 0123456789012345678901234567890123456789\r\n"))
			;
	}
	else if (strcmp(p, "/endless-header") == 0)
	{
		send_s(fd, "HTTP/1.1 200 OK\r\nX: ");
		while (send_s(fd, "0123456789012345678901234567890123456789"))
			;
	}
	else if (strcmp(p, "/endless-hints") == 0)
		while (send_s(fd, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"))
			;
	else if (strcmp(p, "/no-length") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
	else if (strcmp(p, "/reset") == 0)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger) {1, 0}, sizeof(struct linger));
	else if (strcmp(p, "/quiet-close") == 0)
		send_s(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	else
		return strcmp(p, "/close") == 0;
	buf_free(&b);
	return true;
}

static bool
server_answer(Conn *c)
{
	const char *p = c->path,
			   *body = c->in.data + c->body_at;
	char		line[512];
	int			fd = c->fd;
	Buf			b = {0};

	if (strcmp(p, "/chunked") == 0)
	{
		buf_addstr(&b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: "
					   "chunked\r\n\r\n");
		for (size_t at = 0; at < c->len; at += 7)
		{
			size_t		k = c->len - at < 7 ? c->len - at : 7;

			buf_printf(&b, "%zx\r\n", k);
			buf_add(&b, body + at, k);
			buf_addstr(&b, "\r\n");
		}
		buf_addstr(&b, "0\r\nX-Trailer: 1\r\nRetry-After: 9\r\n\r\n");
	}
	else if (strcmp(p, "/gzip") == 0)
	{
		Buf			z = {0};

		gzip_stored(&z, body, c->len);
		buf_printf(&b, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", z.len);
		buf_add(&b, z.data, z.len);
		buf_free(&z);
	}
	else if (strcmp(p, "/events") == 0)
	{
		server_events(c, 3);
		buf_addstr(&b, "0\r\n\r\n");
	}
	else if (strcmp(p, "/hints") == 0)
		buf_addstr(&b, "HTTP/1.1 100 Continue\r\nRetry-After: 3\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: "
					   "<x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	else if (strcmp(p, "/redirect") == 0)
		buf_printf(&b, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/echo\r\nContent-Length: "
					   "0\r\n\r\n", c->s->port);
	else if (strcmp(p, "/limited") == 0)
		buf_addstr(&b, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nx-ratelimit-limit-requests: "
				   "60\r\nx-ratelimit-remaining-requests: 0\r\nX-RateLimit-Reset-Requests: "
				   "6m0s\r\nx-ratelimit-limit-tokens: 150000\r\nx-ratelimit-remaining-tokens: "
				   "149984\r\nx-ratelimit-reset-tokens: 20ms\r\nContent-Type: "
				   "application/problem+json\r\nContent-Length: 2\r\n\r\n{}");
	else
	{
		if (strcmp(p, "/wait") == 0)
		{
			pthread_mutex_lock(&c->s->lock);
			if (++c->s->at_once > c->s->most_at_once)
				c->s->most_at_once = c->s->at_once;
			pthread_mutex_unlock(&c->s->lock);
			usleep(300000);
			pthread_mutex_lock(&c->s->lock);
			c->s->at_once--;
			pthread_mutex_unlock(&c->s->lock);
		}
		snprintf(line, sizeof(line), "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: "
									 "%zu\r\n\r\n",
				 strcmp(p, "/error") == 0 ? "500 Internal Server Error" : "200 OK", c->len);
		buf_addstr(&b, line);
		buf_add(&b, body, c->len);
	}
	if (strcmp(p, "/bytes") == 0)
		for (size_t i = 0; i < b.len && send_n(fd, b.data + i, 1); i++)
			usleep(100);
	else if (!send_n(fd, b.data, b.len))
		c->len = SIZE_MAX;
	buf_free(&b);
	return c->len != SIZE_MAX;
}

static void *
server_connection(void *arg)
{
	Conn	   *c = arg;
	int			one = 1;

	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (server_read(c))
	{
		pthread_mutex_lock(&c->s->lock);
		c->s->requests++;
		pthread_mutex_unlock(&c->s->lock);
		if (server_fault(c) || !server_answer(c))
			break;
		buf_consume(&c->in, c->body_at + c->len);
	}
	close(c->fd);
	pthread_mutex_lock(&c->s->lock);
	c->s->open--;
	pthread_mutex_unlock(&c->s->lock);
	buf_free(&c->in);
	free(c);
	return NULL;
}

static void *
server_main(void *arg)
{
	Server	   *s = arg;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;)
	{
		int			fd = accept(s->fd, NULL, NULL);
		pthread_t	t;
		Conn	   *c;

		if (fd < 0)
			break;
		c = calloc(1, sizeof(*c));
		c->s = s;
		c->fd = fd;
		pthread_mutex_lock(&s->lock);
		s->connections++;
		s->open++;
		pthread_mutex_unlock(&s->lock);
		pthread_create(&t, &attr, server_connection, c);
	}
	pthread_attr_destroy(&attr);
	return NULL;
}

static void
server_start(Server *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(a);

	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->fd, (struct sockaddr *) &a, sizeof(a)) != 0 || listen(s->fd, 1024) != 0 ||
		getsockname(s->fd, (struct sockaddr *) &a, &len) != 0)
		abort();
	s->port = ntohs(a.sin_port);
	pthread_create(&s->thread, NULL, server_main, s);
}

/* Called after the clients have closed their connections. */
static void
server_stop(Server *s)
{
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	for (int i = 0; i < 500; i++)
	{
		pthread_mutex_lock(&s->lock);
		bool		done = s->open == 0;

		pthread_mutex_unlock(&s->lock);
		if (done)
			break;
		usleep(10000);
	}
}

static int
server_figure(Server *s, const int *figure)
{
	pthread_mutex_lock(&s->lock);
	int			v = *figure;

	pthread_mutex_unlock(&s->lock);
	return v;
}

#endif
