/*
 * json_push.c
 *	  Read one JSON value that comes in pieces (json_push.h).
 *
 * A state machine with a stack of bits.  Each byte is examined once; at most an escape sequence is held
 * back.
 *
 * Tested by tests/unit/parsers/test_parse_calls.c and, through the formats, tests/parse/.
 */
#include "base/assert.h"
#include "parsers/json_push.h"

#include "base/json/json_writer.h"
#include "base/utf8char.h"

typedef enum JsonPushState
{
	VALUE,						/* white space, then a value */
	FIRST,						/* after '[': a value, or ']' */
	FIRST_KEY,					/* after '{' */
	KEY,						/* after ',' in an object */
	COLON,
	NEXT,						/* after a member or element */
	STRING,
	ESCAPE,						/* after a backslash */
	HEX,
	HIGH,						/* after the first half of a surrogate pair */
	HIGH_ESCAPE,				/* after the first half of a surrogate pair and a backslash */
	WORD,
	NUMBER
} JsonPushState;

#define FNV_BASIS	0xCBF29CE484222325u
#define FNV_PRIME	0x100000001B3u

typedef enum Number
{
	SIGN, ZERO, DIGITS, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS
} Number;

static void
put(Buf *out, const char *s, size_t n)
{
	if (out != NULL)
		buf_add(out, s, n);
}

static bool
in_object(const JPush *j)
{
	ALWAYS(j->open > 0);
	return (j->objects[(j->open - 1) / 64] >> ((j->open - 1) % 64) & 1) != 0;
}

/* A value has ended: return whether it is the outermost one. */
static JPushIs
ended(JPush *j)
{
	j->state = NEXT;
	return j->open == 0 ? JPUSH_DONE : JPUSH_MORE;
}

static JPushIs
begin_string(JPush *j, bool key, Buf *out)
{
	j->key = key;
	j->state = STRING;
	if (key)
		j->hash = (FNV_BASIS ^ j->object[j->open]) * FNV_PRIME;
	put(out, "\"", 1);
	return JPUSH_MORE;
}

static JPushIs
close_container(JPush *j, char c, Buf *out)
{
	if (c != (in_object(j) ? '}' : ']'))
		return JPUSH_BAD;
	put(out, &c, 1);
	j->open--;
	return ended(j);
}

static JPushIs
begin_value(JPush *j, char c, Buf *out)
{
	if (j->depth + j->open > JPUSH_DEPTH)
		return JPUSH_BAD;
	if (j->first == '\0')
		j->first = c;
	if (c == '"')
		return begin_string(j, false, out);
	if (c == '{' || c == '[')
	{
		uint64_t	bit = (uint64_t) 1 << (j->open % 64);

		ALWAYS((size_t) j->open / 64 < sizeof(j->objects) / sizeof(j->objects[0]) &&
			   (size_t) j->open + 1 < sizeof(j->object) / sizeof(j->object[0]));
		if (c == '{')
			j->objects[j->open / 64] |= bit;
		else
			j->objects[j->open / 64] &= ~bit;
		j->open++;
		if (c == '{')
			j->object[j->open] = ++j->n_objects;
		j->state = c == '{' ? FIRST_KEY : FIRST;
		put(out, &c, 1);
		return JPUSH_MORE;
	}
	if (c == 't' || c == 'f' || c == 'n')
	{
		j->state = WORD;
		j->word = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
	}
	else if (c == '-' || (c >= '0' && c <= '9'))
	{
		j->state = NUMBER;
		j->number = c == '-' ? SIGN : c == '0' ? ZERO : DIGITS;
	}
	else
		return JPUSH_BAD;
	put(out, &c, 1);
	return JPUSH_MORE;
}

/* ---- strings ---- */

static void
put_character(Buf *out, unsigned c)
{
	char		to[JSON_ESCAPE_MOST];
	size_t		n = json_escape(c, false, to);

	put(out, to, n > 0 ? n : utf8_put(to, c));
}

/* Write the first half of a surrogate pair that has no second half. */
static void
end_high(JPush *j, Buf *out)
{
	if (j->high != 0)
		put_character(out, 0xFFFD);
	j->high = 0;
}

static JPushIs
escape(JPush *j, char c, Buf *out)
{
	static const char named[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

	if (c == 'u')
	{
		j->state = HEX;
		j->n_hex = 0;
		j->hex = 0;
		return JPUSH_MORE;
	}
	end_high(j, out);
	j->state = STRING;
	for (const char *p = named; *p != '\0'; p += 2)
		if (*p == c)
		{
			put_character(out, (unsigned char) p[1]);
			return JPUSH_MORE;
		}
	return JPUSH_BAD;
}

static JPushIs
hex(JPush *j, char c, Buf *out)
{
	int			d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
		c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
	unsigned	u;

	if (d < 0)
		return JPUSH_BAD;
	u = j->hex = j->hex << 4 | (unsigned) d;
	if (++j->n_hex < 4)
		return JPUSH_MORE;
	j->state = STRING;
	if (j->high != 0 && u >= 0xDC00 && u < 0xE000)
	{
		u = 0x10000 + ((j->high - 0xD800) << 10) + (u - 0xDC00);
		j->high = 0;
	}
	end_high(j, out);
	if (u >= 0xD800 && u < 0xDC00)
	{
		j->high = u;
		j->state = HIGH;
	}
	else
		put_character(out, u >= 0xDC00 && u < 0xE000 ? 0xFFFD : u);
	return JPUSH_MORE;
}

/* Read the characters that need no escape, and the byte that ends them. */
static JPushIs
string(JPush *j, Span *s, Buf *out)
{
	const char *from = s->p;
	char		c;

	while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (unsigned char) *s->p >= 0x20)
		s->p++;
	put(out, from, (size_t) (s->p - from));
	if (s->p == s->end)
		return JPUSH_MORE;
	c = *s->p++;
	if (c == '\\')
	{
		j->state = ESCAPE;
		return JPUSH_MORE;
	}
	if (c != '"')
	{
		put_character(out, (unsigned char) c);
		return j->lax ? JPUSH_MORE : JPUSH_BAD;
	}
	put(out, "\"", 1);
	if (!j->key)
		return ended(j);
	j->state = COLON;
	return JPUSH_MORE;
}

/* ---- numbers and containers ---- */

static bool
number_continues(JPush *j, char c)
{
	bool		digit = c >= '0' && c <= '9';
	bool		e = c == 'e' || c == 'E';
	int			to = -1;

	switch ((Number) j->number)
	{
		case SIGN:
			to = c == '0' ? ZERO : digit ? DIGITS : -1;
			break;
		case ZERO:
			to = c == '.' ? DOT : e ? EXP : -1;
			break;
		case DIGITS:
			to = digit ? DIGITS : c == '.' ? DOT : e ? EXP : -1;
			break;
		case DOT:
			to = digit ? FRACTION : -1;
			break;
		case FRACTION:
			to = digit ? FRACTION : e ? EXP : -1;
			break;
		case EXP:
			to = digit ? EXP_DIGITS : c == '+' || c == '-' ? EXP_SIGN : -1;
			break;
		case EXP_SIGN:
		case EXP_DIGITS:
			to = digit ? EXP_DIGITS : -1;
			break;
	}
	if (to >= 0)
		j->number = (uint8_t) to;
	return to >= 0;
}

/* End a number; the byte after it doesn't belong to it. */
static JPushIs
end_number(JPush *j)
{
	if (j->number != ZERO && j->number != DIGITS && j->number != FRACTION && j->number != EXP_DIGITS)
		return JPUSH_BAD;
	return ended(j);
}

static JPushIs
word(JPush *j, char c, Buf *out)
{
	ASSERT(*j->word != '\0');
	if (c != *j->word)
		return JPUSH_BAD;
	put(out, &c, 1);
	return *++j->word == '\0' ? ended(j) : JPUSH_MORE;
}

/* Handle a byte between values that is no white space. */
static JPushIs
between(JPush *j, char c, Buf *out)
{
	switch ((JsonPushState) j->state)
	{
		case FIRST:
			return c == ']' ? close_container(j, c, out) : begin_value(j, c, out);
		case FIRST_KEY:
			return c == '}' ? close_container(j, c, out) : c == '"' ? begin_string(j, true, out) : JPUSH_BAD;
		case KEY:
			return c == '"' ? begin_string(j, true, out) : JPUSH_BAD;
		case COLON:
			put(out, ": ", 2);
			j->state = VALUE;
			return c == ':' ? JPUSH_MORE : JPUSH_BAD;
		case NEXT:
			if (c != ',')
				return close_container(j, c, out);
			put(out, ", ", 2);
			j->state = in_object(j) ? KEY : VALUE;
			return JPUSH_MORE;
		default:
			return begin_value(j, c, out);
	}
}

static JPushIs
step(JPush *j, Span *s, Buf *out)
{
	char		c = *s->p;

	switch ((JsonPushState) j->state)
	{
		case STRING:
			return string(j, s, out);
		case HIGH:
			if (c == '\\')
			{
				s->p++;
				j->state = HIGH_ESCAPE;
				return JPUSH_MORE;
			}
			end_high(j, out);
			j->state = STRING;
			return string(j, s, out);
		case ESCAPE:
		case HIGH_ESCAPE:
			s->p++;
			return escape(j, c, out);
		case HEX:
			s->p++;
			return hex(j, c, out);
		case WORD:
			s->p++;
			return word(j, c, out);
		case NUMBER:
			if (!number_continues(j, c))
				return end_number(j);
			s->p++;
			put(out, &c, 1);
			return JPUSH_MORE;
		default:
			s->p++;
			return c == ' ' || c == '\n' || c == '\t' || c == '\r' ? JPUSH_MORE : between(j, c, out);
	}
}

static bool
in_key(const JPush *j)
{
	return j->key && (j->state == STRING || j->state == ESCAPE || j->state == HEX || j->state == HIGH ||
					  j->state == HIGH_ESCAPE);
}

/* Add text of a key, in its output form; at its end return false if the object already has the key. */
static bool
key_is_new(JPush *j, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		j->hash = (j->hash ^ (unsigned char) s[i]) * FNV_PRIME;
	return in_key(j) || keyset_add(j->keys, j->hash);
}

JPushIs
jpush(JPush *j, Span *s, bool last, Buf *out)
{
	JPushIs		is = JPUSH_MORE;

	while (is == JPUSH_MORE && s->p < s->end)
	{
		bool		key = j->keys != NULL && in_key(j);
		size_t		from = key ? out->len : 0;

		is = step(j, s, out);
		ALWAYS(s->p <= s->end);
		if (key && is == JPUSH_MORE && !key_is_new(j, out->data + from, out->len - from))
			is = JPUSH_BAD;
	}
	if (is == JPUSH_MORE && last && j->state == NUMBER)
		is = end_number(j);
	/* at the end of the text a number ends, but containers don't */
	return is == JPUSH_MORE && last ? JPUSH_BAD : is;
}

bool
jpush_whole(Span s, Buf *out)
{
	size_t		len = out->len;
	JPush		j = {0};

	if (jpush(&j, &s, true, out) == JPUSH_DONE)
	{
		while (s.p < s.end && (*s.p == ' ' || *s.p == '\n' || *s.p == '\t' || *s.p == '\r'))
			s.p++;
		if (s.p == s.end)
			return true;
	}
	buf_cut(out, len);
	return false;
}
