/*
 * headers.c
 *	  Parser of the response headers: the media type, and when and how many calls the endpoint still
 *	  accepts.
 *
 * Header values come from the endpoint and can be anything: a value that can't be parsed counts as
 * absent, and no wait is longer than a day.
 *
 * Tested by tests/unit/remote/http/test_remote_http.c.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "remote/http/http_internal.h"

#define WAIT_MAX_MS (INT64_C(86400) * 1000)
#define COUNT_MAX INT64_C(1000000000000000)

void
http_head_reset(HttpResult *r)
{
	r->retry_after_ms = -1;
	r->limit_requests = r->remaining_requests = r->reset_requests_ms = -1;
	r->limit_tokens = r->remaining_tokens = r->reset_tokens_ms = -1;
	r->is_events = r->is_json = r->is_encoded = false;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parse a number with or without a fraction.  *used: its length in bytes.  Returns -1 if there is none. */
static double
number(const char *s, size_t n, size_t *used)
{
	double		v = 0,
				unit = 0.1;
	size_t		i = 0;

	for (; i < n && is_digit(s[i]); i++)
		v = v * 10 + (s[i] - '0');
	if (i == 0)
		return -1;
	if (i + 1 < n && s[i] == '.' && is_digit(s[i + 1]))
		for (i++; i < n && is_digit(s[i]); i++, unit /= 10)
			v += unit * (s[i] - '0');
	*used = i;
	return v;
}

int64_t
http_duration(const char *s, size_t n)
{
	static const struct
	{
		const char *name;
		double		ms;
	}			units[] = {{"ms", 1}, {"us", 0.001}, {"ns", 0.000001}, {"d", 86400000}, {"h", 3600000},
						   {"m", 60000}, {"s", 1000}};
	double		ms = 0;
	bool		any = false;

	while (n > 0)
	{
		size_t		used,
					u,
					len = 0;
		double		v = number(s, n, &used);

		if (v < 0)
			return -1;
		s += used, n -= used;
		if (n == 0 && !any)
			ms = v * 1000;		/* plain seconds */
		else
		{
			for (u = 0; u < sizeof(units) / sizeof(units[0]); u++)
			{
				len = strlen(units[u].name);
				if (n >= len && memcmp(s, units[u].name, len) == 0)
					break;
			}
			if (u == sizeof(units) / sizeof(units[0]))
				return -1;
			ms += v * units[u].ms;
			s += len, n -= len;
		}
		any = true;
	}
	if (!any)
		return -1;
	/* rounded up, so that a wait of this length suffices */
	return ms >= WAIT_MAX_MS ? WAIT_MAX_MS : (int64_t) ms + (ms > (int64_t) ms);
}

static int64_t
count(const char *s, size_t n)
{
	int64_t		v = 0;

	for (size_t i = 0; i < n; i++)
		if (!is_digit(s[i]))
			return -1;
		else if (v < COUNT_MAX)
			v = v * 10 + (s[i] - '0');
	return n == 0 ? -1 : v;
}

/* Parse Retry-After: seconds or a date. */
static int64_t
retry_after(const char *s, size_t n)
{
	char		text[64];
	time_t		when,
				now = time(NULL);
	size_t		used;
	double		v = number(s, n, &used);

	if (v >= 0 && used == n)
		return http_duration(s, n);
	if (n == 0 || n >= sizeof(text))
		return -1;
	memcpy(text, s, n);
	text[n] = '\0';
	when = curl_getdate(text, NULL);
	if (when == (time_t) -1)
		return -1;
	if (when <= now)
		return 0;
	return when - now > WAIT_MAX_MS / 1000 ? WAIT_MAX_MS : (int64_t) (when - now) * 1000;
}

static bool
is_name(const char *s, size_t n, const char *name)
{
	return n == strlen(name) && strncasecmp(s, name, n) == 0;
}

/* Take the media type, without its parameters. */
static void
content_type(HttpResult *r, const char *s, size_t n)
{
	size_t		len = 0;

	while (len < n && s[len] != ';' && s[len] != ' ' && s[len] != '\t')
		len++;
	r->is_events = is_name(s, len, "text/event-stream");
	r->is_json = is_name(s, len, "application/json") || (len > 5 && is_name(s + len - 5, 5, "+json"));
}

/* Does the value, a list of Content-Encoding or Transfer-Encoding, change the bytes of the body? */
static bool
is_encoding(const char *s, size_t n)
{
	size_t		at = 0;

	while (at < n)
	{
		size_t		len = 0;

		while (at < n && (s[at] == ',' || s[at] == ' ' || s[at] == '\t'))
			at++;
		while (at + len < n && s[at + len] != ',' && s[at + len] != ' ' && s[at + len] != '\t')
			len++;
		if (len > 0 && !is_name(s + at, len, "identity") && !is_name(s + at, len, "chunked"))
			return true;
		at += len;
	}
	return false;
}

void
http_head_line(HttpResult *r, const char *s, size_t n)
{
	const char *colon = memchr(s, ':', n);
	size_t		name,
				len;
	int64_t		ms;
	const struct
	{
		const char *name;
		int64_t    *to;
		bool		time;
	}			limits[] = {
		{"x-ratelimit-limit-requests", &r->limit_requests, false},
		{"x-ratelimit-remaining-requests", &r->remaining_requests, false},
		{"x-ratelimit-reset-requests", &r->reset_requests_ms, true},
		{"x-ratelimit-limit-tokens", &r->limit_tokens, false},
		{"x-ratelimit-remaining-tokens", &r->remaining_tokens, false},
		{"x-ratelimit-reset-tokens", &r->reset_tokens_ms, true},
	};

	if (colon == NULL)
		return;
	name = colon - s;
	colon++;
	len = s + n - colon;
	while (len > 0 && (*colon == ' ' || *colon == '\t'))
		colon++, len--;
	while (len > 0 && (colon[len - 1] == ' ' || colon[len - 1] == '\t'))
		len--;
	if (is_name(s, name, "content-type"))
		content_type(r, colon, len);
	else if (is_name(s, name, "content-encoding") || is_name(s, name, "transfer-encoding"))
		r->is_encoded |= is_encoding(colon, len);
	else if (is_name(s, name, "retry-after-ms"))
	{
		/* more precise than Retry-After, so it takes precedence, whichever comes first */
		size_t		used;
		double		v = number(colon, len, &used);

		if (v >= 0 && used == len)
			r->retry_after_ms = v >= WAIT_MAX_MS ? WAIT_MAX_MS : (int64_t) v + (v > (int64_t) v);
	}
	else if (is_name(s, name, "retry-after"))
	{
		if (r->retry_after_ms < 0 && (ms = retry_after(colon, len)) >= 0)
			r->retry_after_ms = ms;
	}
	else
		for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
			if (is_name(s, name, limits[i].name))
				*limits[i].to = limits[i].time ? http_duration(colon, len) : count(colon, len);
}
