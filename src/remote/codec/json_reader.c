/*
 * json_reader.c
 *	  Endpoints' JSON, read in place (json_reader.h).
 *
 * Everything behind rjson_check() may rely on brackets and quotes that match.  Numbers: those of at most 19 digits and a power
 * of ten that a double has exactly are converted by one multiplication or division, the others by strtod() (the program stays in
 * the C locale).
 *
 * Tested by tests/unit/remote/test_remote_rjson.c.
 */
#include "remote/codec/json_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_validate.h"

/* ---- the check ---- */

bool
rjson_check(const char *s, size_t n, Err *e)
{
	JsonCheck	c = {.depth = RJSON_DEPTH};

	if (json_check(s, n, &c))
		return true;
	err_set(e, ERR_PROTOCOL, "the endpoint's answer is not JSON");
	if (n == 0)
		return err_detail(e, "It is empty.");
	if (c.at == n)
		return err_detail(e, "It is cut off after %zu bytes.", n);
	return err_detail(e, "It makes no sense from byte %zu of %zu on.", c.at + 1, n);
}

/* ---- values ---- */

char
rjson_kind(JsonSpan v)
{
	if (v.s == NULL || v.n == 0)
		return 'n';
	return *v.s == '-' || (*v.s >= '0' && *v.s <= '9') ? '0' : *v.s;
}

bool
rjson_fields(JsonSpan v, const char *const *names, int n, JsonSpan *out)
{
	JsonMembers m;
	JsonSpan	key;
	JsonSpan	value;

	for (int i = 0; i < n; i++)
		out[i] = (JsonSpan) {NULL, 0};
	if (v.s == NULL || !json_members(&m, v.s, v.n))
		return false;
	while (json_member(&m, &key, &value) > 0)
		for (int i = 0; i < n; i++)
			if (key.n == strlen(names[i]) && memcmp(key.s, names[i], key.n) == 0)
				out[i] = rjson_kind(value) == 'n' ? (JsonSpan) {NULL, 0} : value;
	return true;
}

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int32_t
rjson_hex4(const char *s, const char *end)
{
	int32_t		v = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++)
	{
		if (hex_digit(s[i]) < 0)
			return -1;
		v = v * 16 + hex_digit(s[i]);
	}
	return v;
}

static void
add_char(Buf *out, uint32_t cp)
{
	char		c[4];
	size_t		n;

	if (cp < 0x80)
	{
		c[0] = (char) cp;
		n = 1;
	}
	else if (cp < 0x800)
	{
		c[0] = (char) (0xC0 | cp >> 6);
		n = 2;
	}
	else if (cp < 0x10000)
	{
		c[0] = (char) (0xE0 | cp >> 12);
		n = 3;
	}
	else
	{
		c[0] = (char) (0xF0 | cp >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		c[i] = (char) (0x80 | (cp >> 6 * (n - 1 - i) & 0x3F));
	buf_add(out, c, n);
}

/* Behind "\u"; *s goes on behind what was read. */
static bool
add_escaped(const char **s, const char *end, Buf *out)
{
	int32_t		cp = rjson_hex4(*s, end);
	int32_t		low;

	if (cp <= 0 || (cp >= 0xDC00 && cp < 0xE000))
		return false;
	*s += 4;
	if (cp >= 0xD800 && cp < 0xDC00)
	{
		if (end - *s < 6 || (*s)[0] != '\\' || (*s)[1] != 'u')
			return false;
		low = rjson_hex4(*s + 2, end);
		if (low < 0xDC00 || low >= 0xE000)
			return false;
		*s += 6;
		cp = 0x10000 + ((cp & 0x3FF) << 10 | (low & 0x3FF));
	}
	add_char(out, (uint32_t) cp);
	return true;
}

bool
rjson_text(JsonSpan v, Buf *out)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *s;
	const char *end;

	if (rjson_kind(v) != '"' || v.n < 2)
		return false;
	s = v.s + 1;
	end = v.s + v.n - 1;
	buf_reserve(out, v.n);
	while (s < end)
	{
		const char *stop = memchr(s, '\\', (size_t) (end - s));
		const char *at;

		if (stop == NULL)
			stop = end;
		buf_add(out, s, (size_t) (stop - s));
		s = stop;
		if (s == end)
			break;
		if (end - s < 2)
			return false;
		at = strchr(from, s[1]);
		s += 2;
		if (s[-1] == 'u')
		{
			if (!add_escaped(&s, end, out))
				return false;
		}
		else if (at == NULL || *at == '\0')
			return false;
		else
			buf_addc(out, to[at - from]);
	}
	return true;
}

bool
rjson_is(JsonSpan v, const char *word)
{
	size_t		n = strlen(word);

	return rjson_kind(v) == '"' && v.n == n + 2 && memcmp(v.s + 1, word, n) == 0;
}

/* ---- numbers ---- */

/* The number at s, of n bytes; the byte behind it is none that a number has. */
static double
to_double(const char *s, size_t n)
{
	static const double tens[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
		1e22
	};
	size_t		i = s[0] == '-';
	uint64_t	m = 0;
	int			n_digits = 0;
	int			exp = 0;
	bool		behind = false;
	double		x;

	for (; i < n && (s[i] == '.' || (s[i] >= '0' && s[i] <= '9')); i++)
	{
		if (s[i] == '.')
		{
			behind = true;
			continue;
		}
		if (n_digits == 19)
			return strtod(s, NULL);
		m = m * 10 + (uint64_t) (s[i] - '0');
		n_digits += m > 0;
		exp -= behind;
	}
	if (i < n)
	{
		bool		minus = s[++i] == '-';
		int			given = 0;

		for (i += s[i] == '-' || s[i] == '+'; i < n; i++)
		{
			if (given > 999)
				return strtod(s, NULL);
			given = given * 10 + (s[i] - '0');
		}
		exp += minus ? -given : given;
	}
	if (m > UINT64_C(1) << 53 || exp < -22 || exp > 22)
		return strtod(s, NULL);
	x = exp < 0 ? (double) m / tens[-exp] : (double) m * tens[exp];
	return s[0] == '-' ? -x : x;
}

/* Behind it the text may end, and strtod() would read on: so it is copied. */
bool
rjson_num(JsonSpan v, double *out)
{
	char		copy[128];

	if (rjson_kind(v) != '0' || v.n >= sizeof(copy))
		return false;
	memcpy(copy, v.s, v.n);
	copy[v.n] = '\0';
	*out = to_double(copy, v.n);
	return isfinite(*out);
}

bool
rjson_int(JsonSpan v, int64_t low, int64_t high, int64_t *out)
{
	double		x;

	/* a client's "3.0" is a whole number, too */
	if (!rjson_num(v, &x) || floor(x) != x || fabs(x) > 9e15 || x < (double) low || x > (double) high)
		return false;
	*out = (int64_t) x;
	return true;
}

bool
rjson_floats(JsonSpan v, Buf *out)
{
	const char *s = v.s;
	const char *end = v.s + v.n;

	if (rjson_kind(v) != '[')
		return false;
	for (bool first = true;; first = false)
	{
		const char *from;
		float		x;

		/* over the bracket, or the comma */
		for (s++; s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r');)
			s++;
		if (first && s < end && *s == ']')
			return true;
		for (from = s; s < end && *s != ',' && *s != ']' && *s > ' ';)
			s++;
		if (s == from || s == end || rjson_kind((JsonSpan) {from, 1}) != '0')
			return false;
		x = (float) to_double(from, (size_t) (s - from));
		if (!isfinite(x))
			return false;
		buf_add(out, &x, sizeof(x));
		while (s < end && *s <= ' ')
			s++;
		if (s < end && *s == ']')
			return true;
		if (s == end || *s != ',')
			return false;
	}
}
