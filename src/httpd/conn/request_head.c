/*
 * request_head.c
 *	  Parser of a request's line and headers, and of the chunks of its body (RFC 9112).
 *
 * A proxy, a load balancer or a filter before the server reads the same bytes.  If the two parsed them
 * differently, one request could hide in another, so what a parser might be lenient about is refused
 * here:
 *
 *	lines		end with CR LF; no other CR, LF, NUL or control character anywhere
 *	names		are tokens, with the colon directly after them; no line continues another
 *	lengths		one Content-Length, of digits alone, or Transfer-Encoding: chunked, and of HTTP/1.1 only;
 *				never both
 *	Host		one, and that of the target if the target has one
 *	keys, types	once: Authorization, x-api-key, Content-Type, Origin and other fields that decide something
 *
 * An HTTP/1.0 client gets its response and is closed, whatever it asks for.  This file does no I/O.
 *
 * Tests: tests/unit/httpd/test_http_head.c, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/request_head.h"

#include <string.h>
#include <strings.h>

#include "base/assert.h"

#define CHUNK_DIGITS	8		/* of a chunk's size */
#define CHUNK_EXTRA		(16 * 1024) /* bytes of extensions and trailers of one body */

/* ---- characters ---- */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Is it a character of a method's or field's name? */
static bool
is_token(char c)
{
	return is_alnum(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/*
 * Is it a character of a field's value?  Bytes of other encodings are allowed, since nothing here
 * interprets them.
 */
static bool
is_text(char c)
{
	return (unsigned char) c >= ' ' ? c != 0x7f : c == '\t';
}

static int
hex_digit(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 :
		-1;
}

static int
refuse(int status, const char **why, const char *text)
{
	*why = text;
	return status;
}

/* ---- the end of a head ---- */

int
head_scan(const char *s, size_t n, HeadScan *c, const char **why)
{
	for (; c->at < n; c->at++)
	{
		char		ch = s[c->at];

		if (c->at - c->begin >= HEAD_MAX)
			return refuse(431, why, "the request's headers are too long");
		if (c->line == c->begin && c->at - c->begin >= HEAD_LINE_MAX)
			return refuse(414, why, "the request's line is too long");
		if (c->at > 0 && s[c->at - 1] == '\r')
		{
			bool		empty = c->at == c->line + 1;

			if (ch != '\n')
				return refuse(400, why, "a line of the request's head ends without a line feed");
			/* old clients send one empty line after a body, so one before the request is ignored */
			if (empty && c->line == c->begin)
			{
				if (c->begin > 0)
					return refuse(400, why, "the request has no line");
				c->begin = 2;
			}
			else if (empty)
			{
				c->at++;
				return 1;
			}
			c->line = c->at + 1;
		}
		else if (ch == '\n')
			return refuse(400, why, "a line of the request's head ends without a carriage return");
		else if (ch != '\r' && !is_text(ch))
			return refuse(400, why, "the request's head has a control character");
	}
	return 0;
}

/* ---- the request line ---- */

void
head_decode(char *s, bool plus)
{
	char	   *to = s;

	for (; *s != '\0'; s++)
	{
		if (*s == '%' && hex_digit(s[1]) >= 0 && hex_digit(s[2]) >= 0)
		{
			*to++ = (char) (hex_digit(s[1]) * 16 + hex_digit(s[2]));
			s += 2;
		}
		else
			*to++ = plus && *s == '+' ? ' ' : *s;
	}
	*to = '\0';
}

/* Check for visible characters only, and for no escape of NUL. */
static bool
target_ok(const char *s)
{
	for (; *s != '\0'; s++)
	{
		if (*s <= ' ' || *s >= 0x7f || *s == '#' || *s == '"' || *s == '<' || *s == '>' || *s == '\\' ||
			*s == '^' || *s == '`')
			return false;
		if (*s == '%' && (hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0 || (s[1] == '0' && s[2] == '0')))
			return false;
	}
	return true;
}

/* Is it a valid Host: a name or an address, and a port? */
static bool
host_ok(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_alnum(s[i]) && (s[i] == '\0' || strchr("-._~!$&'()*+;=:[]%", s[i]) == NULL))
			return false;
	return true;
}

/* Remove the target's own host from the path, if it has one; *host (*len) is that host. */
static int
take_target(char *target, HttpHead *h, const char **host, size_t *len, const char **why)
{
	*host = NULL;
	*len = 0;
	if (!target_ok(target))
		return refuse(400, why, "the request's target has a character that it may not have");
	if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0)
	{
		*host = strstr(target, "://") + 3;
		*len = strcspn(*host, "/?");
		target = (char *) *host + *len;
		if (*len == 0 || *target != '/')
			return refuse(400, why, "the request's target has no path");
	}
	else if (strcmp(target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0)
		;
	else if (*target != '/')
		return refuse(400, why, "the request's target is no path");
	h->path = target;
	h->query = strchr(target, '?');
	if (h->query != NULL)
		*h->query++ = '\0';
	return 0;
}

/* Parse the request line, given without its line end. */
static int
take_line(char *line, HttpHead *h, char **target, const char **why)
{
	char	   *p = line;
	char	   *version;

	h->method = line;
	while (is_token(*p))
		p++;
	if (p == line || *p != ' ')
		return refuse(400, why, "the request's line has no method");
	*p++ = '\0';
	*target = p;
	version = strchr(p, ' ');
	if (version == NULL || version == p)
		return refuse(400, why, "the request's line has no target or version");
	*version++ = '\0';
	if (strcmp(version, "HTTP/1.1") == 0)
		h->http11 = true;
	else if (strcmp(version, "HTTP/1.0") != 0)
		return strncmp(version, "HTTP/", 5) == 0 && is_digit(version[5]) && version[6] == '.' &&
			is_digit(version[7]) && version[8] == '\0' ?
			refuse(505, why, "the server speaks HTTP/1.1 and HTTP/1.0") :
			refuse(400, why, "the request's line has no version");
	return 0;
}

/* ---- fields ---- */

const char *
head_value(const HttpHead *h, const char *name)
{
	for (int i = 0; i < h->n; i++)
		if (strcasecmp(h->fields[i].name, name) == 0)
			return h->fields[i].value;
	return NULL;
}

/* Parse a header line, given without its line end. */
static int
take_field(char *line, HttpHead *h, const char **why)
{
	char	   *p = line;
	char	   *end;

	if (*p == ' ' || *p == '\t')
		return refuse(400, why, "a header continues on another line");
	while (is_token(*p))
		p++;
	if (p == line || *p != ':')
		return refuse(400, why, *p == ' ' || *p == '\t' ? "a header has a space before its colon" :
					  "a header has no name");
	if (h->n == HEAD_FIELDS)
		return refuse(431, why, "the request has too many headers");
	*p++ = '\0';
	p += strspn(p, " \t");
	end = p + strlen(p);
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	h->fields[h->n++] = (HeadField) {line, p};
	return 0;
}

/* Refuse repeated fields of the names that decide something. */
static int
check_repeats(const HttpHead *h, const char **why)
{
	static const struct
	{
		const char *name;
		const char *why;
	}			once[] = {
		{"host", "the request has more than one Host"},
		{"content-length", "the request has more than one length"},
		{"transfer-encoding", "the request has more than one length"},
		{"authorization", "the request has more than one Authorization"},
		{"x-api-key", "the request has more than one x-api-key"},
		{"content-type", "the request has more than one Content-Type"},
		{"origin", "the request has more than one Origin"},
		{"expect", "the request has more than one Expect"},
		{"traceparent", "the request has more than one traceparent"},
		{"access-control-request-method", "the request has more than one Access-Control-Request-Method"},
		{"access-control-request-headers", "the request has more than one Access-Control-Request-Headers"},
	};

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
	{
		int			n = 0;

		for (int f = 0; f < h->n; f++)
			n += strcasecmp(h->fields[f].name, once[i].name) == 0;
		if (n > 1)
			return refuse(400, why, once[i].why);
	}
	return 0;
}

static int
take_lengths(HttpHead *h, const char **why)
{
	const char *length = head_value(h, "content-length");
	const char *coding = head_value(h, "transfer-encoding");

	if (length != NULL && coding != NULL)
		return refuse(400, why, "the request has more than one length");
	if (coding != NULL)
	{
		if (!h->http11 || strcasecmp(coding, "chunked") != 0)
			return refuse(400, why, "the request's Transfer-Encoding is not \"chunked\", or its version is "
									"HTTP/1.0");
		h->chunked = true;
	}
	if (length != NULL)
	{
		size_t		n = strspn(length, "0123456789");

		if (n == 0 || n > 18 || length[n] != '\0')
			return refuse(400, why, "the request's Content-Length is no number");
		for (; *length != '\0'; length++)
			h->length = h->length * 10 + (uint64_t) (*length - '0');
		h->sized = true;
	}
	return 0;
}

static int
check_host(const HttpHead *h, const char *target_host, size_t len, const char **why)
{
	const char *host = head_value(h, "host");

	if (host == NULL && h->http11)
		return refuse(400, why, "the request has no Host");
	if (host != NULL && !host_ok(host, strlen(host)))
		return refuse(400, why, "the request's Host has a character that it may not have");
	if (target_host != NULL && (!host_ok(target_host, len) ||
								(host != NULL &&
								 (strlen(host) != len || strncasecmp(host, target_host, len) != 0))))
		return refuse(400, why, "the request's target has another host than its Host");
	return 0;
}

/* Is the word in the list? */
static bool
has_word(const char *list, const char *word)
{
	size_t		n = strlen(word);

	while (list != NULL && *list != '\0')
	{
		size_t		len;

		list += strspn(list, ", \t");
		len = strcspn(list, ", \t");
		if (len == n && strncasecmp(list, word, n) == 0)
			return true;
		list += len;
	}
	return false;
}

static int
take_rest(HttpHead *h, const char **why)
{
	const char *expect = head_value(h, "expect");

	h->close = !h->http11;
	for (int i = 0; i < h->n; i++)
		if (strcasecmp(h->fields[i].name, "connection") == 0)
			h->close = h->close || has_word(h->fields[i].value, "close");
	if (expect != NULL && strcasecmp(expect, "100-continue") != 0)
		return refuse(417, why, "the request expects what the server can't do");
	h->expects = expect != NULL && h->http11;
	return 0;
}

int
head_parse(char *s, size_t n, HttpHead *h, const char **why)
{
	char	   *end = s + n - 2;	/* before the empty line */
	char	   *target = NULL;
	const char *host = NULL;
	size_t		host_len = 0;
	int			status = 0;

	/* head_scan() has found the empty line: every line ends with CR LF */
	ALWAYS(n >= 4 && memcmp(end - 2, "\r\n\r\n", 4) == 0);
	memset(h, 0, sizeof(*h));
	for (char *line = s; line < end && status == 0;)
	{
		char	   *cr = memchr(line, '\r', (size_t) (end - line));

		*cr = '\0';
		status = line == s ? take_line(line, h, &target, why) : take_field(line, h, why);
		line = cr + 2;
	}
	if (status == 0)
		status = check_repeats(h, why);
	if (status == 0)
		status = take_lengths(h, why);
	if (status == 0)
		status = take_target(target, h, &host, &host_len, why);
	if (status == 0)
		status = check_host(h, host, host_len, why);
	if (status == 0)
		status = take_rest(h, why);
	return status;
}

/* ---- chunks ---- */

static ChunkState
size_byte(Chunks *c, char ch)
{
	int			digit = hex_digit(ch);

	if (digit >= 0 && c->digits < CHUNK_DIGITS)
	{
		c->left = c->left * 16 + (uint64_t) digit;
		c->digits++;
		return CHUNK_SIZE;
	}
	if (c->digits == 0)
		return CHUNK_BAD;
	return ch == ';' ? CHUNK_EXTENSION : ch == '\r' ? CHUNK_SIZE_LF : CHUNK_BAD;
}

/* Return the state after a byte that is not data. */
static ChunkState
next_state(Chunks *c, char ch)
{
	switch (c->state)
	{
		case CHUNK_SIZE:
			return size_byte(c, ch);
		case CHUNK_EXTENSION:
			return ch == '\r' ? CHUNK_SIZE_LF : is_text(ch) ? CHUNK_EXTENSION : CHUNK_BAD;
		case CHUNK_SIZE_LF:
			c->digits = 0;
			return ch != '\n' ? CHUNK_BAD : c->left > 0 ? CHUNK_DATA : CHUNK_LINE;
		case CHUNK_DATA_CR:
			return ch == '\r' ? CHUNK_DATA_LF : CHUNK_BAD;
		case CHUNK_DATA_LF:
			return ch == '\n' ? CHUNK_SIZE : CHUNK_BAD;
		case CHUNK_LINE:
			return ch == '\r' ? CHUNK_LAST_LF : is_token(ch) ? CHUNK_TRAILER_NAME : CHUNK_BAD;
		case CHUNK_TRAILER_NAME:
			return ch == ':' ? CHUNK_TRAILER : is_token(ch) ? CHUNK_TRAILER_NAME : CHUNK_BAD;
		case CHUNK_TRAILER:
			return ch == '\r' ? CHUNK_TRAILER_LF : is_text(ch) ? CHUNK_TRAILER : CHUNK_BAD;
		case CHUNK_TRAILER_LF:
			return ch == '\n' ? CHUNK_LINE : CHUNK_BAD;
		case CHUNK_LAST_LF:
			return ch == '\n' ? CHUNK_END : CHUNK_BAD;
		case CHUNK_DATA:
		case CHUNK_END:
		case CHUNK_BAD:
			break;
	}
	return CHUNK_BAD;
}

size_t
chunks_take(Chunks *c, const char *s, size_t n, const char **data, size_t *len)
{
	size_t		i = 0;

	*data = NULL;
	*len = 0;
	for (; i < n && c->state != CHUNK_DATA && c->state != CHUNK_END && c->state != CHUNK_BAD; i++)
	{
		c->state = next_state(c, s[i]);
		/* sizes need no limit: each is followed by data */
		if (c->state >= CHUNK_LINE || c->state == CHUNK_EXTENSION)
			c->extra++;
		if (c->extra > CHUNK_EXTRA)
			c->state = CHUNK_BAD;
	}
	if (i < n && c->state == CHUNK_DATA)
	{
		*data = s + i;
		*len = n - i < c->left ? n - i : (size_t) c->left;
		c->left -= *len;
		i += *len;
		if (c->left == 0)
			c->state = CHUNK_DATA_CR;
	}
	return i;
}
