/*
 * number_regex.c
 *	  Sets of numbers as expressions over their JSON texts.
 *
 * A number has infinitely many spellings: 1e2 is 100 and 1000e-1.  With an arbitrary number of digits
 * before an exponent, the set of all numbers above some bound is not regular.  So if there is a bound, a
 * text with an exponent must be written as programs write it: one nonzero digit before the point (or the
 * value 0).  Within that everything is exact.  Generated numbers have no exponent, as many digits as a
 * double keeps, and at most 19 if they are integers.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "grammar/schema/schema_internal.h"

#define MAX_FACTOR ((uint64_t) 1 << 28)	/* limit of multipleOf, without its zeros */
#define FRACTION 17				/* digits after the point that an exponent may move before it */

static ReNode
rx(Regex *re, const char *pattern)
{
	ReSyntax	syntax = {.mode = RE_RAW};
	ReNode		r = RE_NONE;
	Err			e = {0};
	bool		ok = re_parse(re, pattern, strlen(pattern), &syntax, &r, &e);

	/* the patterns are correct: only memory can be lacking */
	ASSERT(ok || !re_check(re, &e));
	(void) ok;
	return r;
}

static ReNode
span(Regex *re, int lo, int hi)
{
	ReRange		r = {(uint32_t) lo, (uint32_t) hi};

	return lo > hi ? RE_NONE : re_class(re, &r, 1, RE_RAW);
}

ReNode
number_any(Regex *re, bool generate)
{
	if (!generate)
		return rx(re, "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?");
	return re_or(re, rx(re, "0|-?[1-9][0-9]{0,18}"),
				 re_and(re, rx(re, "-?(?:0|[1-9][0-9]{0,14})\\.[0-9]{1,15}"), rx(re, "-?[0-9.]{1,16}")));
}

/* Numbers whose order is regular: see above. */
ReNode
number_ordered(Regex *re)
{
	return rx(re, "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?|-?(?:0(?:\\.0+)?|[1-9](?:\\.[0-9]+)?)[eE][+-]?[0-9]+");
}

/* ---- whole numbers: exponents ---- */

/* Any number of zeros, then digits, with a value of at least n. */
static ReNode
natural_min(Regex *re, long n)
{
	char		d[24];
	int			len = snprintf(d, sizeof(d), "%ld", n);
	ReNode		r = RE_EMPTY;
	ReNode		digit = span(re, '0', '9');

	if (n <= 0)
		return re_repeat(re, digit, 1, RE_INF);
	for (int i = len; i-- > 0;)
		r = re_or(re, re_cat(re, span(re, d[i] + 1, '9'), re_repeat(re, digit, (uint32_t) (len - i - 1),
																	(uint32_t) (len - i - 1))),
				  re_cat(re, span(re, d[i], d[i]), r));
	r = re_or(re, r, re_cat(re, span(re, '1', '9'), re_repeat(re, digit, (uint32_t) len, RE_INF)));
	return re_cat(re, re_repeat(re, span(re, '0', '0'), 0, RE_INF), r);
}

/* An exponent of at least n. */
static ReNode
exponent_min(Regex *re, long n)
{
	ReNode		r = re_cat(re, rx(re, "[eE]\\+?"), natural_min(re, n));
	ReNode		digits = rx(re, "[0-9]+");

	if (n <= 0)
		r = re_or(re, r,
				  re_cat(re, rx(re, "[eE]-"), re_and(re, digits, re_not(re, natural_min(re, -n + 1)))));
	return r;
}

static ReNode
exponent_is(Regex *re, long n)
{
	return re_and(re, exponent_min(re, n), re_not(re, exponent_min(re, n + 1)));
}

/* ---- order ---- */

/*
 * Digits with a value of at least d; strict: greater.  The text has `ints` digits before its point; ints
 * = 0: the point comes before the digits.
 */
static ReNode
digits_min(Regex *re, const char *d, int n, int ints, bool strict)
{
	ReNode		digit = span(re, '0', '9');
	ReNode		some = rx(re, "[0-9]*[1-9][0-9]*");
	ReNode		point = re_bytes(re, ".", 1);
	ReNode		r;
	int			total = n > ints ? n : ints;

	if (total == ints && ints > 0)
		r = strict ? re_cat(re, point, some) : rx(re, "(?:\\.[0-9]+)?");
	else
		r = strict ? some : rx(re, "[0-9]*");
	for (int i = total; i-- > 0;)
	{
		char		c = i < n ? d[i] : '0';
		ReNode		rest;

		if (i + 1 < ints)
			rest = re_cat(re, re_repeat(re, digit, (uint32_t) (ints - i - 1), (uint32_t) (ints - i - 1)),
						  rx(re, "(?:\\.[0-9]+)?"));
		else if (i + 1 == ints)
			rest = rx(re, "(?:\\.[0-9]+)?");
		else
			rest = rx(re, "[0-9]*");
		r = re_or(re, re_cat(re, span(re, c + 1, '9'), rest), re_cat(re, span(re, c, c), r));
		if (i == ints && ints > 0)
			r = re_cat(re, point, r);
	}
	return r;
}

/* Texts without a sign of a value of at least d's; d isn't zero, its sign is ignored. */
static ReNode
magnitude_min(Regex *re, const Dec *d, bool strict, bool generate)
{
	char		digits[2 * DEC_MAX_TEXT + 2];
	int			n = 0,
				ints = d->exp > 0 ? (int) d->exp : 1;
	ReNode		more = re_cat(re, span(re, '1', '9'),
							  re_cat(re, re_repeat(re, span(re, '0', '9'), (uint32_t) ints, RE_INF),
														   rx(re, "(?:\\.[0-9]+)?")));
	ReNode		r;

	ALWAYS(d->n > 0 && labs(d->exp) <= DEC_MAX_TEXT && d->n <= DEC_MAX_TEXT);
	for (long i = d->exp; i <= 0; i++)
		digits[n++] = '0';
	memcpy(digits + n, d->d, (size_t) d->n);
	n += d->n;
	r = re_or(re, more, digits_min(re, digits, n, ints, strict));
	if (!generate)
	{
		/* the value is 0.ddd * 10^(1 + exponent) */
		ReNode		any = rx(re, "[1-9](?:\\.[0-9]+)?");
		ReNode		same = digits_min(re, d->d, d->n, 1, strict);

		r = re_or(re, r, re_cat(re, any, exponent_min(re, d->exp)));
		r = re_or(re, r, re_cat(re, same, exponent_is(re, d->exp - 1)));
	}
	return r;
}

static ReNode
zero(Regex *re)
{
	return rx(re, "-?0(?:\\.0+)?(?:[eE][+-]?[0-9]+)?");
}

ReNode
number_min(Regex *re, const Dec *d, bool strict, bool generate)
{
	ReNode		any = number_any(re, generate);
	ReNode		minus = re_bytes(re, "-", 1);
	ReNode		negative = re_cat(re, minus, RE_ALL);

	if (d->n == 0)
		return re_and(re, any, strict ? re_not(re, re_or(re, negative, zero(re))) : re_or(re,
				re_not(re, negative), zero(re)));
	if (d->neg)
		return re_and(re, any, re_not(re, re_cat(re, minus, magnitude_min(re, d, !strict, generate))));
	return re_and(re, any, magnitude_min(re, d, strict, generate));
}

/* The usual spelling of a number. */
static ReNode
spelled(Regex *re, const Dec *d)
{
	Buf			b = {0};
	ReNode		r;

	if (d->neg)
		buf_addc(&b, '-');
	if (d->n == 0)
		buf_addc(&b, '0');
	else if (d->exp > 21 || d->exp < -6)
	{
		buf_addc(&b, d->d[0]);
		if (d->n > 1)
			buf_addc(&b, '.');
		buf_add(&b, d->d + 1, (size_t) d->n - 1);
		buf_printf(&b, "e%ld", d->exp - 1);
	}
	else
	{
		if (d->exp <= 0)
			buf_addstr(&b, "0.");
		for (long i = d->exp; i < 0; i++)
			buf_addc(&b, '0');
		for (int i = 0; i < d->n || i < d->exp; i++)
		{
			if (i == d->exp && i > 0)
				buf_addc(&b, '.');
			buf_addc(&b, i < d->n ? d->d[i] : '0');
		}
	}
	r = re_bytes(re, b.data, b.len);
	buf_free(&b);
	return r;
}

ReNode
number_equal(Regex *re, const Dec *d, bool generate)
{
	if (generate)
		return spelled(re, d);
	if (d->n == 0)
		return zero(re);
	return re_and(re, number_min(re, d, false, false), re_not(re, number_min(re, d, true, false)));
}

/* ---- multiples ---- */

ReNode
number_integer(Regex *re, bool plain, bool generate)
{
	ReNode		r = rx(re, generate ? "0|-?[1-9][0-9]{0,18}" : "-?(?:0|[1-9][0-9]*)");

	if (plain || generate)
		return r;
	r = re_or(re, rx(re, "-?(?:0|[1-9][0-9]*)(?:\\.0+)?"), zero(re));
	/* k digits after the point and an exponent that moves them before it */
	for (uint32_t k = 0; k <= FRACTION; k++)
	{
		ReNode		frac = re_cat(re, re_bytes(re, ".", 1),
								  re_cat(re, re_repeat(re, span(re, '0', '9'), k, k), rx(re, "0*")));

		if (k == 0)
			frac = rx(re, "(?:\\.0+)?");
		r = re_or(re, r, re_cat(re, re_cat(re, rx(re, "-?[1-9]"), frac), exponent_min(re, k)));
	}
	return re_and(re, r, number_any(re, false));
}

static uint64_t
gcd(uint64_t a, uint64_t b)
{
	return b == 0 ? a : gcd(b, a % b);
}

/* A text with f digits after the point that is a multiple of p if the point is ignored. */
static ReNode
multiple_of(Regex *re, uint64_t p, int f)
{
	ReNode		shape = f == 0 ? rx(re, "-?(?:0|[1-9][0-9]*)") :
		re_cat(re, rx(re, "-?(?:0|[1-9][0-9]*)\\."), re_repeat(re, span(re, '0', '9'), (uint32_t) f,
															   (uint32_t) f));

	if (p == 1)
		return shape;
	return re_and(re, shape, re_residue(re, (uint32_t) p, 0));
}

/* Compute d = p * 10^*s; return 0 if p is too large. */
static uint64_t
factor(const Dec *d, long *s)
{
	uint64_t	p = 0;

	*s = d->exp - d->n;
	for (int i = 0; i < d->n && p < MAX_FACTOR; i++)
		p = p * 10 + (uint64_t) (d->d[i] - '0');
	return p < MAX_FACTOR ? p : 0;
}

bool
number_multiple_known(const Dec *d, bool generate)
{
	long		s;
	uint64_t	p = factor(d, &s);

	if (generate && p > 1)
		for (long i = 0; i < s && p < MAX_FACTOR; i++)
			p *= 10;
	return p > 0 && p < MAX_FACTOR && s <= 30 && s >= (generate ? -15 : -30);
}

/* For generation: at most as many digits after the point as d has, and no superfluous zeros. */
static ReNode
generated_multiple(Regex *re, uint64_t p, long s)
{
	uint64_t	scale = 1;
	ReNode		r = RE_NONE;

	if (s >= 0)
	{
		for (long i = 0; i < s && p > 1; i++)
			p *= 10;
		r = multiple_of(re, p, 0);
		/* 100 is 1 and two zeros */
		if (p == 1 && s > 0)
			r = re_or(re, re_bytes(re, "0", 1),
					  re_cat(re, rx(re, "-?[1-9][0-9]*"), re_repeat(re, span(re, '0', '0'), (uint32_t) s,
																	(uint32_t) s)));
		return re_and(re, r, number_any(re, true));
	}
	for (int f = (int) -s; f >= 0; f--)
	{
		r = re_or(re, r, re_and(re, multiple_of(re, p / gcd(p, scale), f), number_any(re, true)));
		scale *= 10;
	}
	return r;
}

ReNode
number_multiple(Regex *re, const Dec *d, bool generate)
{
	long		s;
	uint64_t	p = factor(d, &s);
	uint64_t	scale = 1;
	ReNode		r = zero(re);

	/* the caller has checked number_multiple_known() */
	ALWAYS(p > 0);
	if (p == 1 && s == 0)
		return number_integer(re, false, generate);
	if (generate)
		return generated_multiple(re, p, s);
	if (s >= 0)
		r = re_or(re, r,
				  re_cat(re, re_cat(re, multiple_of(re, p, 0),
									re_repeat(re, span(re, '0', '0'), (uint32_t) s, (uint32_t) s)),
								rx(re, "(?:\\.0+)?")));
	/* with f digits after the point the value is digits / 10^f; a factor of 10^(-s - f) is still
	 * missing */
	for (int f = (int) -s; s < 0 && f >= 0; f--)
	{
		ReNode		x = multiple_of(re, p / gcd(p, scale), f);

		if (f > 0 && f == (int) -s)
			x = re_cat(re, x, rx(re, "0*"));
		r = re_or(re, r, f == 0 ? re_cat(re, x, rx(re, "(?:\\.0+)?")) : x);
		scale = scale < (uint64_t) 1 << 50 ? scale * 10 : scale;
	}
	return re_and(re, r, number_any(re, false));
}
