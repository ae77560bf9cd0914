/*
 * jinja_wrap.c
 *	  The Jinja interpreter's filter "wordwrap": Python's textwrap.
 *
 * A line of the text is split into chunks (words, parts of hyphenated words, dashes, white space), which
 * are joined to lines again as long as they fit.  Chunks follow one another without gaps, so a line is
 * always a part of the text.
 *
 * This is Python 3.11's textwrap, including its corner cases: at a line's end one chunk is dropped, and
 * after a long word that was cut that may be no white space.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_filter.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* classes of characters */
#define C_SPACE		1			/* textwrap's white space, which is ASCII's */
#define C_BLANK		2			/* removed by strip() */
#define C_WORD		4			/* \w */
#define C_LETTER	8			/* \w, but no digit */
#define C_PUNCT		16			/* may come before a dash */
#define C_HYPHEN	32

typedef struct Wrap
{
	Jin		   *j;
	JVal		width_arg;
	double		width;
	bool		break_long;
	bool		split_hyphens;	/* break_on_hyphens is True itself */
	bool		break_hyphens;	/* break_on_hyphens is true in a condition */
	JStr	   *between;		/* wrapstring */

	JStr	   *line;			/* the current line */
	size_t		n;				/* its characters */
	size_t	   *at;				/* [n + 1] their bytes */
	uint8_t    *what;			/* [n] C_* of each character */
	size_t	   *chunk;			/* [n_chunks + 1] index of each chunk's first character */
	size_t		n_chunks;
	JBuild		out;
} Wrap;

static uint8_t
what_is(uint32_t cp)
{
	unsigned	cls = uni_class(cp);
	uint8_t		w = 0;

	if (cp == ' ' || (cp >= '\t' && cp <= '\r'))
		w |= C_SPACE;
	if (jin_is_space(cp))
		w |= C_BLANK;
	if (cp == '_' || (cls & (UNI_L | UNI_N)) != 0)
		w |= C_WORD | C_PUNCT;
	if ((w & C_WORD) != 0 && !((cls & UNI_N) != 0 && strcmp(uni_category(cp), "Nd") == 0))
		w |= C_LETTER;
	if (cp < 0x80 && cp != 0 && strchr("!\"'&.,?", (int) cp) != NULL)
		w |= C_PUNCT;
	if (cp == '-')
		w |= C_HYPHEN;
	return w;
}

/* Return true if character i exists and has one of these classes. */
static bool
is(const Wrap *w, size_t i, uint8_t what)
{
	return i < w->n && (w->what[i] & what) != 0;
}

/* Return the end of a dash of two hyphens or more that begins at i and is followed by a word; 0 = there
 * is none. */
static size_t
dash_end(const Wrap *w, size_t i)
{
	size_t		end = i;

	if (i == 0 || !is(w, i - 1, C_PUNCT))
		return 0;
	while (is(w, end, C_HYPHEN))
		end++;
	return end >= i + 2 && is(w, end, C_WORD) ? end : 0;
}

/* Return true if a word may be cut after its hyphen at k. */
static bool
is_joint(const Wrap *w, size_t k)
{
	if (!is(w, k, C_HYPHEN) || k < 2 || !is(w, k - 1, C_LETTER))
		return false;
	if (!is(w, k - 2, C_LETTER) && !(is(w, k - 2, C_HYPHEN) && k >= 3 && is(w, k - 3, C_LETTER)))
		return false;
	return is(w, k + 1, C_LETTER) &&
		(is(w, k + 2, C_LETTER) || (is(w, k + 2, C_HYPHEN) && is(w, k + 3, C_LETTER)));
}

/* Return the end of the chunk that begins at i. */
static size_t
chunk_end(const Wrap *w, size_t i)
{
	size_t		end = i;

	if (is(w, i, C_SPACE))
	{
		while (is(w, end, C_SPACE))
			end++;
		return end;
	}
	if (w->split_hyphens && (end = dash_end(w, i)) > 0)
		return end;
	for (end = i + 1; end < w->n && !is(w, end, C_SPACE); end++)
	{
		if (w->split_hyphens && is_joint(w, end))
			return end + 1;
		if (w->split_hyphens && dash_end(w, end) > 0)
			return end;
	}
	return end;
}

static void
read_line(Wrap *w, JStr *line)
{
	size_t		chars = jin_str_chars(line);
	size_t		len;

	jin_step(w->j, 1 + line->n / 64);
	w->line = line;
	w->n = 0;
	w->n_chunks = 0;
	w->at = jin_alloc(w->j, (chars + 1) * sizeof(size_t));
	w->chunk = jin_alloc(w->j, (chars + 1) * sizeof(size_t));
	w->what = jin_alloc(w->j, chars + 1);
	for (size_t i = 0; i < line->n; i += len)
	{
		w->at[w->n] = i;
		w->what[w->n++] = what_is(utf8_next(line->s + i, &len));
	}
	ALWAYS(w->n == chars);
	w->at[w->n] = line->n;
	for (size_t i = 0, end; i < w->n; i = end)
	{
		end = chunk_end(w, i);
		ALWAYS(end > i && end <= w->n);
		w->chunk[w->n_chunks++] = i;
	}
	w->chunk[w->n_chunks] = w->n;
}

static bool
is_blank(const Wrap *w, size_t from, size_t to)
{
	while (from < to && is(w, from, C_BLANK))
		from++;
	return from == to;
}

/* Return how much of a chunk that is too long for any line goes on a line with `room` left. */
static size_t
cut_long(const Wrap *w, size_t from, size_t room)
{
	size_t		hyphen = from + room;

	if (!w->break_hyphens)
		return room;
	while (hyphen > from && !is(w, hyphen - 1, C_HYPHEN))
		hyphen--;
	for (size_t i = from; i + 1 < hyphen; i++)
		if (!is(w, i, C_HYPHEN))
			return hyphen - from;
	return room;
}

static void
wrap_line(Wrap *w)
{
	size_t		lines = 0;
	size_t		i = 0;			/* index of the chunk */
	size_t		at = 0;			/* where the rest of it begins */

	while (i < w->n_chunks)
	{
		size_t		from;
		size_t		last;		/* where the line's last chunk begins */
		size_t		pieces = 0;

		if (lines > 0 && is_blank(w, at, w->chunk[i + 1]))
			at = w->chunk[++i];
		from = last = at;
		for (; i < w->n_chunks && (double) (w->chunk[i + 1] - from) <= w->width; pieces++)
		{
			last = at;
			at = w->chunk[++i];
		}
		if (i < w->n_chunks && (double) (w->chunk[i + 1] - at) > w->width)
		{
			if (w->break_long && w->width_arg.t == JT_FLOAT && w->width >= 1)
				jin_fail(w->j, JE_TYPE, "slice indices must be integers or None or have an __index__ method");
			if (w->break_long || pieces == 0)
			{
				last = at;
				pieces++;
				if (w->break_long)
					at += cut_long(w, at, w->width < 1 ? 1 : (size_t) w->width - (at - from));
				else
					at = w->chunk[++i];
			}
		}
		ALWAYS(from <= last && last <= at && at <= w->n);
		if (pieces > 0 && is_blank(w, last, at))
			pieces--;
		else
			last = at;
		if (pieces == 0)
			continue;
		if (lines++ > 0)
			jin_build_str(w->j, &w->out, w->between);
		jin_build_str(w->j, &w->out, w->between->markup ?
					  jin_escape(w->j, jin_str_sub(w->j, w->line, w->at[from], w->at[last] - w->at[from])) :
					  jin_str_sub(w->j, w->line, w->at[from], w->at[last] - w->at[from]));
	}
}

static double
width_of(Jin *j, JVal v)
{
	double		width = v.t == JT_INT ? (double) v.i : v.t == JT_BOOL ? v.b : v.f;

	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	if (v.t != JT_INT && v.t != JT_BOOL && v.t != JT_FLOAT)
		jin_fail(j, JE_TYPE, "'<=' not supported between instances of '%s' and 'int'", jin_type(v));
	if (!(width > 0))
		jin_fail(j, JE_VALUE, "invalid width %s (must be > 0)", jin_repr_c(j, v));
	return width;
}

JVal
jin_f_wordwrap(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"width", "break_long_words", "wrapstring", "break_on_hyphens", NULL};
	JVal		arg[4] = {jin_int(79), jin_bool(true), jin_none(), jin_bool(true)};
	Wrap		w = {.j = j};
	JList	   *lines;

	jin_args(j, "wordwrap", a, names, 0, arg);
	if (arg[2].t == JT_UNDEFINED)
		jin_fail_undefined(j, arg[2]);
	w.between = arg[2].t == JT_NONE ? jin_str(j, "\n", 1, false) : jin_arg_str(j, arg[2]);
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	if (v.t != JT_STR)
		jin_fail(j, JE_TYPE, "'%s' object has no attribute 'splitlines'", jin_type(v));
	w.width_arg = arg[0];
	w.break_long = jin_truth(j, arg[1]);
	w.break_hyphens = jin_truth(j, arg[3]);
	w.split_hyphens = w.break_hyphens && arg[3].t == JT_BOOL;
	lines = jin_splitlines(j, v.s, false);
	for (size_t i = 0; i < lines->n; i++)
	{
		if (i > 0)
			jin_build_str(j, &w.out, w.between);
		w.width = width_of(j, arg[0]);
		read_line(&w, lines->v[i].s);
		wrap_line(&w);
	}
	return jin_sval(jin_markup(j, jin_build_done(j, &w.out), w.between->markup));
}
