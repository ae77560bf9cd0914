/*
 * sse.c
 *	  Parser of server-sent events, which come from the network in pieces.
 *
 * A piece is split into lines in place; only an incomplete line is kept.  A CR ends its line at once, so
 * that an event is emitted without waiting for an LF that may never come; an LF that follows is skipped.
 *
 * Tested by tests/unit/remote/codec/test_remote_sse.c.
 */
#include "remote/codec/sse.h"

#include <string.h>

#define DONE "[DONE]"

void
sse_init(Sse *p, size_t max)
{
	memset(p, 0, sizeof(*p));
	p->max = max;
}

void
sse_free(Sse *p)
{
	buf_free(&p->line);
	buf_free(&p->data);
}

/* The empty line: emit the collected data as an event. */
static SseStatus
end_event(Sse *p, SseEvent event, void *ctx)
{
	bool		more = true;

	if (p->has_data)
	{
		p->data.data[--p->data.len] = '\0';	/* overwrites the last line's newline */
		more = event(ctx, p->data.data, p->data.len);
	}
	buf_reset(&p->data);
	p->has_data = false;
	return more ? SSE_MORE : SSE_STOPPED;
}

/* Parse one line without its end. */
static SseStatus
take_line(Sse *p, const char *s, size_t n, SseEvent event, void *ctx)
{
	if (!p->begun)
	{
		p->begun = true;
		if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
			s += 3, n -= 3;
	}
	if (n == 0)
		return end_event(p, event, ctx);
	if (n < 4 || memcmp(s, "data", 4) != 0 || (n > 4 && s[4] != ':'))
		return SSE_MORE;
	s += n > 4 ? 5 : 4;
	n -= n > 4 ? 5 : 4;
	if (n > 0 && *s == ' ')
		s++, n--;
	if (!p->has_data && n == strlen(DONE) && memcmp(s, DONE, n) == 0)
		return SSE_DONE;
	if (n > p->max || p->data.len > p->max - n)
		return SSE_TOO_LARGE;
	buf_add(&p->data, s, n);
	buf_addc(&p->data, '\n');
	p->has_data = true;
	return SSE_MORE;
}

/* Return the end of the line that begins at s, or NULL. */
static const char *
dispatcher_end(const char *s, size_t n)
{
	const char *lf = memchr(s, '\n', n);
	const char *cr = memchr(s, '\r', lf != NULL ? (size_t) (lf - s) : n);

	return cr != NULL ? cr : lf;
}

SseStatus
sse_feed(Sse *p, const char *s, size_t n, SseEvent event, void *ctx)
{
	while (n > 0 && p->status == SSE_MORE)
	{
		const char *end;
		size_t		len;

		if (p->cr && *s == '\n')
		{
			p->cr = false;
			s++, n--;
			continue;
		}
		p->cr = false;
		end = dispatcher_end(s, n);
		len = end != NULL ? (size_t) (end - s) : n;
		/* a line is "data: " and its value */
		if (len > p->max + 6 || p->line.len > p->max + 6 - len)
			p->status = SSE_TOO_LARGE;
		else if (end == NULL)
		{
			buf_add(&p->line, s, n);
			break;
		}
		else if (p->line.len > 0)
		{
			buf_add(&p->line, s, len);
			p->status = take_line(p, p->line.data, p->line.len, event, ctx);
			buf_reset(&p->line);
		}
		else
			p->status = take_line(p, s, len, event, ctx);
		if (end != NULL)
		{
			p->cr = *end == '\r';
			s += len + 1, n -= len + 1;
		}
	}
	return p->status;
}
