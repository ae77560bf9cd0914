/*
 * chunk_boundaries.c
 *	  Find where a text may be cut: paragraphs, lines, sentences, words, and the blocks of Markdown.
 *
 * One pass over the lines.  A line's kind determines how strong the break before it is and which breaks
 * it has inside:
 *
 *	sentences	0 sentence or paragraph, 1 line, 2 word
 *	recursive	0 paragraph, 1 line, 2 sentence, 3 word
 *	markdown	0-5 before a heading of that depth, 6 block, 7 line, 8 sentence, 9 word,
 *				10 between a heading and its text, 11 line of a code block or
 *				table, 12 word in it, 13 word in a heading
 *
 * A sentence ends with . ! ? or similar characters and closing quotes or brackets, followed by white
 * space and no small letter; after 。 and similar characters nothing has to follow.  A period after an
 * initial, a common title, a word with a period inside or a number that begins a line ends no sentence.
 */
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "text/chunker.h"
#include "text/unicode.h"
#include "text/utf8.h"

typedef struct Levels
{
	int			paragraph;
	int			line;
	int			sentence;
	int			word;
} Levels;

static const Levels sentence_levels = {0, 1, 0, 2};
static const Levels recursive_levels = {0, 1, 2, 3};
static const Levels markdown_levels = {6, 7, 8, 9};

#define MD_BELOW_HEADING 10
#define MD_INSIDE		11		/* of code and tables */
#define MD_INSIDE_WORD	12
#define MD_HEADING_WORD 13
#define NO_BREAK		(-1)

/* Kinds of lines of Markdown. */
typedef enum LineKind
{
	LINE_TEXT, LINE_HEADING, LINE_INSIDE
} LineKind;

typedef struct ChunkBoundariesScan
{
	const char *s;
	int			n;
	bool		markdown;
	Levels		levels;
	Breaks	   *b;
	int			ink_end;		/* end of the last character that is no white space */
	bool		blank;			/* an empty line precedes this one */

	/* state of the sentence */
	bool		ended;			/* it may have ended */
	bool		ended_cjk;		/* white space need not follow that end */
	bool		period;			/* that end is a single period */
	int			word_start;		/* of the last word, with its end */
	int			word_end;
	int			line_start;		/* first character of the line that is no white space */

	/* state of Markdown */
	bool		began;			/* a nonempty line has been seen */
	char		fence;			/* of the open code block; 0 = none */
	int			fence_len;
	bool		table;
	bool		below_heading;	/* the line before was a heading */
	bool		underline;		/* this line underlines a heading */
	bool		after_block;	/* a code block or table has just ended */
} ChunkBoundariesScan;

/* ---- breaks ---- */

static void
add_break(ChunkBoundariesScan *c, int pos, int level)
{
	Breaks	   *b = c->b;

	if (level == NO_BREAK || c->ink_end == 0 || pos <= b->first)
		return;
	/* breaks are in order, and white space alone lies between a chunk's end and the next one */
	ASSERT(c->ink_end <= pos && (b->n == 0 || b->v[b->n - 1].pos < pos));
	if (b->n == b->cap)
	{
		b->cap = b->cap ? b->cap * 2 : 64;
		b->v = mem_realloc(b->v, b->cap * sizeof(Break));
	}
	b->v[b->n++] = (Break) {.pos = pos,.end = c->ink_end,.level = level};
}

/* ---- sentences ---- */

static bool
is_closer(uint32_t cp)
{
	switch (cp)
	{
		case '"':
		case '\'':
		case ')':
		case ']':
		case '}':
		case '*':
		case '_':
		case 0xBB:
		case 0x2019:
		case 0x201D:
		case 0x203A:
		case 0x300D:
		case 0x300F:
		case 0xFF09:
			return true;
		default:
			return false;
	}
}

static bool
is_cjk_end(uint32_t cp)
{
	return cp == 0x3002 || cp == 0xFF01 || cp == 0xFF1F || cp == 0xFF61;
}

static bool
is_end(uint32_t cp)
{
	return cp == '.' || cp == '!' || cp == '?' || cp == 0x2026 || cp == 0x203D || cp == 0x61F ||
		cp == 0x6D4 || cp == 0x964 || is_cjk_end(cp);
}

static bool
is_word(const char *s, size_t n, const char *const *list)
{
	for (; *list != NULL; list++)
	{
		size_t		i = 0;

		while (i < n && (*list)[i] != '\0' && (s[i] | 32) == (*list)[i])
			i++;
		if (i == n && (*list)[i] == '\0')
			return true;
	}
	return false;
}

/* Return true if the period belongs to its word.  next: the character after the white space. */
static bool
is_abbreviation(const ChunkBoundariesScan *c, uint32_t next)
{
	static const char *const titles[] = {
		"mr", "mrs", "ms", "dr", "prof", "st", "vs", "jr", "sr", "fig", "figs", "vol", "al", "dept", "cf",
		"ca", "approx", "gen", "col", "sgt", "rev", "hon", "sen", "rep", "eq", "nr", "bzw", "mme", "mlle",
		"sra", NULL
	};
	static const char *const numbered[] = {"no", "nos", "p", "pp", "art", "sec", "ch", NULL};
	const char *w = c->s + c->word_start;
	size_t		n = (size_t) (c->word_end - c->word_start);
	size_t		len;
	bool		digits = true;

	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		if (w[i] == '.')
			return true;
		digits = digits && w[i] >= '0' && w[i] <= '9';
	}
	if (digits)
		return c->word_start == c->line_start;
	if (next >= '0' && next <= '9' && is_word(w, n, numbered))
		return true;
	(void) utf8_next(w, &len);
	return (len == n && n == 1 && (uni_class((unsigned char) w[0]) & UNI_LU)) || is_word(w, n, titles);
}

/* If the last sentence has ended, the next one begins with this character. */
static bool
begins_sentence(ChunkBoundariesScan *c, uint32_t cp)
{
	return c->ended && !(uni_class(cp) & UNI_LL) && !(c->period && is_abbreviation(c, cp));
}

/* Scan the characters of a line up to `end`; levels NO_BREAK: no breaks inside. */
static void
scan_inside(ChunkBoundariesScan *c, int from, int end, int sentence, int word)
{
	bool		space = false;

	for (int i = from; i < end;)
	{
		size_t		len;
		uint32_t	cp = utf8_next(c->s + i, &len);

		if (uni_class(cp) & UNI_SPACE)
		{
			space = true;
			i += (int) len;
			continue;
		}
		if (i > from && (space || (c->ended_cjk && !is_closer(cp) && !is_end(cp))))
		{
			if (c->ended_cjk ? c->ended : begins_sentence(c, cp))
				add_break(c, i, sentence == NO_BREAK ? word : sentence);
			else if (space)
				add_break(c, i, word);
			c->ended = c->ended_cjk = false;
		}
		if (space || i == from)
			c->word_start = i;
		if (is_end(cp))
		{
			c->period = cp == '.' && !c->ended;
			if (!c->ended)
				c->word_end = i;
			c->ended = true;
			c->ended_cjk = is_cjk_end(cp);
		}
		else if (!(c->ended && is_closer(cp)))
			c->ended = c->ended_cjk = false;
		space = false;
		i += (int) len;
		c->ink_end = i;
	}
}

/* ---- lines ---- */

/* Return the first position in [from, end) that is no white space, or end. */
static int
skip_space(const char *s, int from, int end)
{
	while (from < end)
	{
		size_t		len;

		if (!(uni_class(utf8_next(s + from, &len)) & UNI_SPACE))
			break;
		from += (int) len;
	}
	return from;
}

static int
line_end(const ChunkBoundariesScan *c, int from)
{
	const char *nl = memchr(c->s + from, '\n', (size_t) (c->n - from));

	return nl ? (int) (nl - c->s) + 1 : c->n;
}

/* Return the text of a line without up to three spaces of indentation; *len excludes white space at its
 * end. */
static const char *
line_text(const ChunkBoundariesScan *c, int from, int *len)
{
	int			end = line_end(c, from);
	int			begin = from;

	while (begin < end && begin < from + 3 && c->s[begin] == ' ')
		begin++;
	while (end > begin && strchr(" \t\r\n", c->s[end - 1]))
		end--;
	*len = end - begin;
	return c->s + begin;
}

/* Return the length of the run of ch at the beginning. */
static int
run_of(const char *s, int n, char ch)
{
	int			i = 0;

	while (i < n && s[i] == ch)
		i++;
	return i;
}

/* Return true for a row of dashes between bars: |---|:-:| */
static bool
is_delimiter_row(const ChunkBoundariesScan *c, int from)
{
	int			n;
	const char *s = from < c->n ? line_text(c, from, &n) : NULL;
	bool		bar = false,
				dash = false;

	if (s == NULL)
		return false;
	for (int i = 0; i < n; i++)
	{
		bar = bar || s[i] == '|';
		dash = dash || s[i] == '-';
		if (!strchr("|-: \t", s[i]))
			return false;
	}
	return bar && dash;
}

/* Return the depth of a heading, 1 to 6; 0: none.  *underlined: the next line makes it one. */
static int
heading_depth(const ChunkBoundariesScan *c, int from, bool *underlined)
{
	int			n,
				next_n;
	const char *s = line_text(c, from, &n);
	int			depth = run_of(s, n, '#');
	int			next = line_end(c, from);

	*underlined = false;
	if (depth >= 1 && depth <= 6 && (depth == n || s[depth] == ' ' || s[depth] == '\t'))
		return depth;
	if (next >= c->n || strchr("-*+>|#=", s[0]))
		return 0;
	s = line_text(c, next, &next_n);
	if (next_n == 0 || (run_of(s, next_n, '=') != next_n && run_of(s, next_n, '-') != next_n))
		return 0;
	*underlined = true;
	return s[0] == '=' ? 1 : 2;
}

/* Handle a line inside of a code block; its last line closes it. */
static void
follow_fence(ChunkBoundariesScan *c, int from)
{
	int			n;
	const char *s = line_text(c, from, &n);

	if (run_of(s, n, c->fence) == n && n >= c->fence_len)
	{
		c->fence = 0;
		c->after_block = true;
	}
}

static bool
opens_fence(ChunkBoundariesScan *c, int from)
{
	int			n;
	const char *s = line_text(c, from, &n);
	int			len = n > 0 && (s[0] == '`' || s[0] == '~') ? run_of(s, n, s[0]) : 0;

	if (len < 3 || (s[0] == '`' && memchr(s + len, '`', (size_t) (n - len))))
		return false;
	c->fence = s[0];
	c->fence_len = len;
	return true;
}

/* Return the kind of a nonempty line of Markdown, and the level of the break before it. */
static LineKind
markdown_line(ChunkBoundariesScan *c, int from, int *level)
{
	bool		below = c->below_heading;
	bool		underlined;
	int			depth;

	c->below_heading = false;
	*level = MD_INSIDE;
	if (c->fence)
	{
		follow_fence(c, from);
		return LINE_INSIDE;
	}
	if (c->table && !c->blank && memchr(c->s + from, '|', (size_t) (line_end(c, from) - from)))
		return LINE_INSIDE;
	*level = c->blank || c->after_block || c->table ? c->levels.paragraph : c->levels.line;
	c->after_block = c->table = false;
	if (c->underline)
	{
		c->underline = false;
		c->below_heading = true;
		*level = MD_HEADING_WORD;
		return LINE_HEADING;
	}
	depth = heading_depth(c, from, &underlined);
	if (depth > 0)
	{
		c->underline = underlined;
		c->below_heading = true;
		*level = depth - 1;
	}
	if (below)
		*level = MD_BELOW_HEADING;
	if (depth > 0)
		return LINE_HEADING;
	if (opens_fence(c, from))
		return LINE_INSIDE;
	c->table = memchr(c->s + from, '|', (size_t) (line_end(c, from) - from)) != NULL &&
		is_delimiter_row(c, line_end(c, from));
	return c->table ? LINE_INSIDE : LINE_TEXT;
}

/* Scan one line; its break comes first. */
static void
scan_line(ChunkBoundariesScan *c, int from, int end)
{
	int			ink = skip_space(c->s, from, end);
	int			level = c->blank ? c->levels.paragraph : c->levels.line;
	LineKind	kind = LINE_TEXT;
	size_t		len;

	if (ink == end)
	{
		c->blank = true;
		return;
	}
	c->line_start = ink;
	if (!c->began)
		c->b->first = c->markdown ? from : ink;
	c->began = true;
	if (c->markdown)
		kind = markdown_line(c, from, &level);
	else if (c->levels.sentence < level && begins_sentence(c, utf8_next(c->s + ink, &len)))
		level = c->levels.sentence;
	add_break(c, c->markdown ? from : ink, level);
	c->ended = c->ended_cjk = c->blank = false;
	if (kind == LINE_TEXT)
		scan_inside(c, ink, end, c->levels.sentence, c->levels.word);
	else
		scan_inside(c, ink, end, NO_BREAK, kind == LINE_INSIDE ? MD_INSIDE_WORD : MD_HEADING_WORD);
}

void
chunk_breaks(ChunkMethod method, const char *s, int n, Breaks *b)
{
	ChunkBoundariesScan c = {
		.s = s,.n = n,.markdown = method == CHUNK_MARKDOWN,.b = b,
		.levels = method == CHUNK_MARKDOWN ? markdown_levels : method == CHUNK_SENTENCES ? sentence_levels :
		recursive_levels
	};

	memset(b, 0, sizeof(*b));
	for (int i = 0; i < n;)
	{
		int			end = line_end(&c, i);

		scan_line(&c, i, end);
		i = end;
	}
	b->end = c.ink_end;
}
