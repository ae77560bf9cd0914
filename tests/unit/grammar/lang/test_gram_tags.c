/*
 * test_gram_tags.c
 *	  Structural tags: all short texts, for the grammar and for a plain matcher.
 *
 * Formats are drawn at random: trees of texts, free text, sequences, alternatives, tags, triggered tags
 * and tags with separators, with their flags.  The matcher follows xgrammar's description of such a
 * tree, from sets of positions in the text to sets of positions, without grammars.  Both must accept the
 * same texts of three letters.
 */
#include <string.h>

#include "tests/unit/check.h"
#include "grammar/grammar_internal.h"

#define MOST	6				/* letters of a text */
#define KIDS	3

typedef enum Kind
{
	F_CONST, F_ANY, F_SEQUENCE, F_OR, F_TAG, F_TRIGGERED, F_SEPARATED
} Kind;

typedef struct Format Format;
struct Format
{
	Kind		kind;
	const char *text;			/* of F_CONST; the begin of a tag; a separator */
	const char *list[KIDS];		/* a tag's ends, triggers; NULL after the last */
	const char *excludes[KIDS];
	bool		one;
	bool		first;
	Format	   *kid[KIDS];		/* the first one is a tag's content */
	int			n;
};

/* ---- the plain matcher: bit i = i letters have been read ---- */

typedef unsigned Places;

static bool
begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Does one of the texts occur in s[0 .. n)? */
static bool
holds(const char *const *list, const char *s, int n)
{
	for (; list != NULL && *list != NULL; list++)
		for (int i = 0; i + (int) strlen(*list) <= n; i++)
			if (begins(s + i, *list))
				return true;
	return false;
}

static Places walk(const Format *f, const char *const *ends, const char *s, Places from);

static Places
walk_text(const char *text, const char *s, Places from)
{
	int			n = (int) strlen(s);
	Places		to = 0;

	for (int i = 0; i <= n; i++)
		if ((from >> i & 1) && begins(s + i, text))
			to |= 1u << (i + (int) strlen(text));
	return to;
}

/* Match free text. */
static Places
walk_free(const char *const *a, const char *const *b, const char *const *c, const char *s, Places from)
{
	int			n = (int) strlen(s);
	Places		to = 0;

	for (int i = 0; i <= n; i++)
		for (int j = i; (from >> i & 1) && j <= n; j++)
			if (!holds(a, s + i, j - i) && !holds(b, s + i, j - i) && !holds(c, s + i, j - i))
				to |= 1u << j;
	return to;
}

static Places
walk_tag(const Format *f, const char *s, Places from)
{
	Places		at = walk_text(f->text, s, from);
	Places		to = 0;

	if (f->kid[0]->kind == F_ANY && f->kid[0]->excludes[0] == NULL)
	{
		/* it ends at the first occurrence of one of the ends */
		for (int i = 0; s[i] != '\0'; i++)
			for (int j = i; at >> i & 1; j++)
			{
				if (holds(f->list, s + i, j - i))
				{
					to |= 1u << j;
					break;
				}
				if (s[j] == '\0')
					break;
			}
		return to;
	}
	at = walk(f->kid[0], f->list, s, at);
	for (int e = 0; f->list[e] != NULL; e++)
		to |= walk_text(f->list[e], s, at);
	return to;
}

static Places
any_of(const Format *f, const char *const *ends, const char *s, Places from)
{
	Places		to = 0;

	for (int i = 0; i < f->n; i++)
		to |= walk(f->kid[i], ends, s, from);
	return to;
}

/* Match free text in which no trigger ends but the one that begins the next tag, and this tag. */
static Places
walk_dispatch(const Format *f, const char *const *ends, const char *s, Places from)
{
	int			n = (int) strlen(s);
	Places		to = 0;

	for (int i = 0; i <= n; i++)
		for (int j = i + 1; (from >> i & 1) && j <= n; j++)
		{
			if (!holds(f->list, s + i, j - i))
				continue;
			for (int t = 0; f->list[t] != NULL; t++)
			{
				int			k = j - (int) strlen(f->list[t]);

				if (k < i || !begins(s + k, f->list[t]) || holds(ends, s + i, j - i) ||
					holds(f->excludes, s + i, j - i))
					continue;
				for (int tag = 0; tag < f->n; tag++)
					if (begins(f->kid[tag]->text, f->list[t]))
						to |= walk_tag(f->kid[tag], s, 1u << k);
			}
			break;
		}
	return to;
}

static Places
walk_triggered(const Format *f, const char *const *ends, const char *s, Places from)
{
	Places		at = f->one ? any_of(f, NULL, s, from) : from;
	Places		to = 0;

	if (f->first)
		return f->one ? at : walk_free(f->list, ends, f->excludes, s, at) | walk_dispatch(f, ends, s, at);
	for (Places before = 0; at != before;)
	{
		before = at;
		at |= walk_dispatch(f, ends, s, at);
	}
	to = walk_free(f->list, ends, f->excludes, s, at);
	return to;
}

static Places
walk_separated(const Format *f, const char *s, Places from)
{
	Places		at = any_of(f, NULL, s, from);

	for (Places before = 0; !f->first && at != before;)
	{
		before = at;
		at |= any_of(f, NULL, s, walk_text(f->text, s, at));
	}
	return f->one ? at : at | from;
}

static Places
walk(const Format *f, const char *const *ends, const char *s, Places from)
{
	switch (f->kind)
	{
		case F_CONST:
			return walk_text(f->text, s, from);
		case F_ANY:
			return walk_free(ends, f->excludes, NULL, s, from);
		case F_SEQUENCE:
			for (int i = 0; i < f->n; i++)
				from = walk(f->kid[i], ends, s, from);
			return from;
		case F_OR:
			return any_of(f, ends, s, from);
		case F_TAG:
			return walk_tag(f, s, from);
		case F_TRIGGERED:
			return walk_triggered(f, ends, s, from);
		case F_SEPARATED:
			return walk_separated(f, s, from);
	}
	return 0;
}

/* ---- formats ---- */

static unsigned state = 7;
static Format pool[64];
static int	n_pool;

static unsigned
any(unsigned n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 16) % n;
}

static const char *
word(void)
{
	static const char *const words[] = {"a", "b", "c", "ab", "bc", "ca", "abc", "ac"};

	return words[any(8)];
}

static Format *draw(int depth);

static Format *
new_format(Kind kind)
{
	Format	   *f = &pool[n_pool++];

	memset(f, 0, sizeof(*f));
	f->kind = kind;
	return f;
}

/* trigger: the beginning of the tag's begin; NULL: any */
static Format *
draw_tag(int depth, const char *trigger)
{
	static const char *const more[][4] = {{"a", "a", "ab", "abc"}, {"b", "b", "bc", "bb"},
										  {"ca", "ca", "cab", "caa"}};
	Format	   *f = new_format(F_TAG);

	f->text = word();
	for (int i = 0; i < 3 && trigger != NULL; i++)
		if (strcmp(more[i][0], trigger) == 0)
			f->text = more[i][1 + any(3)];
	f->list[0] = word();
	if (any(4) == 0)
		f->list[1] = word();
	f->kid[f->n++] = draw(depth - 1);
	return f;
}

static void
draw_tags(Format *f, int depth)
{
	static const char *const triggers[] = {"a", "b", "ca"};
	int			n = 1 + (int) any(2);
	int			at = (int) any(3);

	f->one = any(2) == 0;
	f->first = any(2) == 0;
	if (f->kind == F_SEPARATED)
		f->text = any(5) == 0 ? "" : word();
	for (int i = 0; i < n; i++)
	{
		const char *trigger = f->kind == F_TRIGGERED ? f->list[i] = triggers[(at + i) % 3] : NULL;

		f->kid[f->n++] = draw_tag(depth, trigger);
	}
	if (f->kind == F_TRIGGERED && any(3) == 0)
		f->excludes[0] = word();
}

static Format *
draw(int depth)
{
	Format	   *f = new_format(depth <= 0 ? (any(2) ? F_CONST : F_ANY) : (Kind) any(7));

	if (f->kind == F_CONST)
		f->text = word();
	else if (f->kind == F_ANY && any(3) == 0)
		f->excludes[0] = word();
	else if (f->kind == F_SEQUENCE || f->kind == F_OR)
		for (f->n = 0; f->n < 2; f->n++)
			f->kid[f->n] = draw(depth - 1);
	else if (f->kind == F_TAG)
	{
		n_pool--;
		return draw_tag(depth, NULL);
	}
	else if (f->kind == F_TRIGGERED || f->kind == F_SEPARATED)
		draw_tags(f, depth);
	return f;
}

static void
write_list(char *to, const char *key, const char *const *list)
{
	sprintf(to + strlen(to), ", \"%s\": [", key);
	for (int i = 0; list[i] != NULL; i++)
		sprintf(to + strlen(to), "%s\"%s\"", i > 0 ? ", " : "", list[i]);
	strcat(to, "]");
}

static void
write_format(char *to, const Format *f)
{
	static const char *const types[] = {"const_string", "any_text", "sequence", "or", "tag", "triggered_tags",
										"tags_with_separator"};
	bool		tags = f->kind == F_TRIGGERED || f->kind == F_SEPARATED;

	sprintf(to + strlen(to), "{\"type\": \"%s\"", types[f->kind]);
	if (f->text != NULL)
		sprintf(to + strlen(to), ", \"%s\": \"%s\"", f->kind == F_CONST ? "value" : f->kind == F_TAG
				? "begin" : "separator", f->text);
	if (f->list[0] != NULL)
		write_list(to, f->kind == F_TAG ? "end" : "triggers", f->list);
	if (f->excludes[0] != NULL)
		write_list(to, "excludes", f->excludes);
	if (tags)
		sprintf(to + strlen(to), ", \"at_least_one\": %s, \"stop_after_first\": %s",
				f->one ? "true" : "false", f->first ? "true" : "false");
	if (f->kind == F_TAG)
	{
		strcat(to, ", \"content\": ");
		write_format(to, f->kid[0]);
	}
	else if (f->n > 0)
	{
		sprintf(to + strlen(to), ", \"%s\": [", tags ? "tags" : "elements");
		for (int i = 0; i < f->n; i++)
		{
			strcat(to, i > 0 ? ", " : "");
			write_format(to, f->kid[i]);
		}
		strcat(to, "]");
	}
	strcat(to, "}");
}

/* ---- both, over all texts ---- */

static void
compare(const Format *f, long *n_taken)
{
	char		spec[8192] = "{\"format\": ";
	GramSpec	gs = {.kind = GRAM_STRUCTURAL_TAG};
	Err			e = {0};
	Grammar    *g;
	int			wrong = 0;
	char		first[MOST + 1] = "";

	write_format(spec, f);
	strcat(spec, "}");
	gs.text = spec;
	gs.len = strlen(spec);
	g = grammar_new(&gs, &e);
	if (g == NULL && e.cls == ERR_INVALID && strstr(e.msg, "no text") != NULL)
		return;
	CHECK(g != NULL, "%s: %s", spec, e.msg);
	if (g == NULL)
		return;
	for (int n = 0, count = 1; n <= MOST; n++, count *= 3)
		for (int x = 0; x < count; x++)
		{
			char		s[MOST + 1] = "";
			bool		yes = false;
			bool		ref;

			for (int i = 0, rest = x; i < n; i++, rest /= 3)
				s[i] = "abc"[rest % 3];
			ref = walk(f, NULL, s, 1) >> n & 1;
			grammar_accepts(g, s, (size_t) n, &yes, &e);
			*n_taken += ref;
			if (yes != ref && wrong++ == 0)
				strcpy(first, s);
		}
	CHECK(wrong == 0, "%s: %d texts, the first is \"%s\"", spec, wrong, first);
	grammar_unref(g);
}

int
main(void)
{
	long		n_taken = 0;

	for (int i = 0; i < 600; i++)
	{
		n_pool = 0;
		RUN(compare(draw(1 + i % 3), &n_taken));
	}
	CHECK(n_taken > 10000, "only %ld texts fit", n_taken);
	return check_done("test_gram_tags");
}
