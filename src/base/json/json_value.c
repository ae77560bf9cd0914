/*
 * json_value.c
 *	  Values of a JSON text, read in place (json_value.h).
 *
 * A number with at most 19 digits and an exponent whose power of ten a double represents exactly is
 * converted by one multiplication or division, any other by strtod() (the programs stay in the C
 * locale).
 *
 * Tested by tests/unit/base/json/test_json_value.c.
 */
#include "base/json/json_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_reader.h"

/* ---- values ---- */

char
json_kind(StrView v)
{
	if (v.s == NULL || v.n == 0)
		return 'n';
	return *v.s == '-' || (*v.s >= '0' && *v.s <= '9') ? '0' : *v.s;
}

bool
json_fields(StrView v, const char *const *names, int n, StrView *out)
{
	JsonMembers m;
	StrView		key;
	StrView		value;

	for (int i = 0; i < n; i++)
		out[i] = (StrView) {NULL, 0};
	if (v.s == NULL || !json_members(&m, v.s, v.n))
		return false;
	while (json_member(&m, &key, &value) > 0)
		for (int i = 0; i < n; i++)
			if (key.n == strlen(names[i]) && memcmp(key.s, names[i], key.n) == 0)
				out[i] = json_kind(value) == 'n' ? (StrView) {NULL, 0} : value;
	return true;
}

bool
json_text(StrView v, Buf *out)
{
	size_t		len;

	if (json_kind(v) != '"' || v.n < 2)
		return false;
	buf_reserve(out, v.n);
	if (!json_unescape(v.s + 1, v.n - 2, 0, out->data + out->len, &len))
		len = SIZE_MAX;
	else
		out->len += len;
	out->data[out->len] = '\0';
	return len != SIZE_MAX;
}

bool
json_is(StrView v, const char *word)
{
	size_t		n = strlen(word);

	return json_kind(v) == '"' && v.n == n + 2 && memcmp(v.s + 1, word, n) == 0;
}

/* ---- numbers ---- */

double
json_to_double(const char *s, size_t n)
{
	static const double tens[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
		1e18, 1e19, 1e20, 1e21, 1e22
	};
	size_t		i = s[0] == '-';
	uint64_t	m = 0;
	int			n_digits = 0;
	int			exp = 0;
	bool		fraction = false;
	double		x;

	for (; i < n && (s[i] == '.' || (s[i] >= '0' && s[i] <= '9')); i++)
	{
		if (s[i] == '.')
		{
			fraction = true;
			continue;
		}
		if (n_digits == 19)
			return strtod(s, NULL);
		m = m * 10 + (uint64_t) (s[i] - '0');
		n_digits += m > 0;
		exp -= fraction;
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

/* The value is copied first: strtod() would read on where the value ends. */
bool
json_num(StrView v, double *out)
{
	char		copy[128];

	if (json_kind(v) != '0' || v.n >= sizeof(copy))
		return false;
	memcpy(copy, v.s, v.n);
	copy[v.n] = '\0';
	*out = json_to_double(copy, v.n);
	return isfinite(*out);
}

bool
json_whole(StrView v, int64_t low, int64_t high, int64_t *out)
{
	double		x;

	/* some clients write whole numbers as "3.0" */
	if (!json_num(v, &x) || floor(x) != x || fabs(x) > 9e15 || x < (double) low || x > (double) high)
		return false;
	*out = (int64_t) x;
	return true;
}

bool
json_floats(StrView v, Buf *out)
{
	const char *s = v.s;
	const char *end = v.s + v.n;

	if (json_kind(v) != '[')
		return false;
	for (bool first = true;; first = false)
	{
		const char *from;
		float		x;

		/* skip the bracket or the comma */
		for (s++; s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r');)
			s++;
		if (first && s < end && *s == ']')
			return true;
		for (from = s; s < end && *s != ',' && *s != ']' && *s > ' ';)
			s++;
		if (s == from || s == end || json_kind((StrView) {from, 1}) != '0')
			return false;
		x = (float) json_to_double(from, (size_t) (s - from));
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
