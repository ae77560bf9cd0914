/*
 * chunker.c
 *	  Split a long text into chunks that a model accepts.
 *
 * The text is tokenized once; the tokens' start positions give the number of tokens of any part of it.
 * A chunk that is tokenized on its own can have more tokens (a word without its beginning, a space at
 * the front), so each chunk is tokenized again, and shortened by the excess.  Both take time linear in
 * the output.
 *
 * Tested by tests/unit/text/test_chunk.c.
 */
#include "text/chunker.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "text/unicode.h"
#include "text/utf8.h"

typedef struct Chunker
{
	const ChunkEncoder *enc;
	const char *s;
	int			n;
	int			size;
	int			overlap;
	IntVec		starts;			/* start positions of the text's tokens */
	IntVec		again;			/* start positions of a chunk's tokens */
	Breaks		breaks;
	size_t		next_break;		/* breaks before it precede all later chunks */
	IntVec	   *out;
} Chunker;

/* A chunk under construction; pos is where the next one may begin. */
typedef struct ChunkerPiece
{
	int			begin;
	int			end;
	int			pos;
	int			level;			/* level of the break after it; NO_LEVEL: cut at a token */
} ChunkerPiece;

#define NO_LEVEL	INT_MAX

bool
chunk_method_by_name(const char *s, size_t n, ChunkMethod *to)
{
	static const char *const names[] = {
		[CHUNK_NONE] = "none",[CHUNK_TOKENS] = "tokens",[CHUNK_SENTENCES] = "sentences",
		[CHUNK_MARKDOWN] = "markdown",[CHUNK_RECURSIVE] = "recursive"
	};

	for (int i = CHUNK_NONE; i <= CHUNK_RECURSIVE; i++)
		if (n == strlen(names[i]) && memcmp(s, names[i], n) == 0)
		{
			*to = (ChunkMethod) i;
			return true;
		}
	return false;
}

/* ---- tokens and characters ---- */

/* Return how many tokens begin before pos. */
static int
tokens_before(const Chunker *c, int pos)
{
	size_t		lo = 0,
				hi = c->starts.len;

	while (lo < hi)
	{
		size_t		mid = (lo + hi) / 2;

		if (c->starts.data[mid] < pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return (int) lo;
}

/* Return the token that contains pos. */
static int
token_at(const Chunker *c, int pos)
{
	int			i = tokens_before(c, pos);

	/* several tokens may begin there (parts of one character): take the first */
	return i == 0 || ((size_t) i < c->starts.len && c->starts.data[i] == pos) ? i : i - 1;
}

static int
count(const Chunker *c, int begin, int end)
{
	return tokens_before(c, end) - token_at(c, begin);
}

static int
char_begin(const Chunker *c, int pos)
{
	while (pos > 0 && pos < c->n && ((unsigned char) c->s[pos] & 0xC0) == 0x80)
		pos--;
	return pos;
}

static int
char_end(const Chunker *c, int pos)
{
	while (pos < c->n && ((unsigned char) c->s[pos] & 0xC0) == 0x80)
		pos++;
	return pos;
}

/* Return the end of `tokens` tokens from begin on: between two characters, and after at least one. */
static int
cut_after(const Chunker *c, int begin, int tokens)
{
	size_t		i = (size_t) token_at(c, begin) + (size_t) tokens;
	int			pos = i < c->starts.len ? char_begin(c, c->starts.data[i]) : c->n;

	return pos > begin ? pos : char_end(c, begin + 1);
}

static int
skip_space(const Chunker *c, int pos, int end)
{
	size_t		len;

	while (pos < end && (uni_class(utf8_next(c->s + pos, &len)) & UNI_SPACE))
		pos += (int) len;
	return pos;
}

/* Return by how many tokens the chunk is too long when tokenized on its own; -1: error. */
static int
excess(Chunker *c, int begin, int end, Err *e)
{
	intvec_reset(&c->again);
	if (!c->enc->starts(c->enc->ctx, c->s + begin, (size_t) (end - begin), &c->again, e))
		return -1;
	return c->again.len > (size_t) c->size ? (int) (c->again.len - (size_t) c->size) : 0;
}

/*
 * Shorten a chunk of `tokens` tokens that has `more` too many when tokenized on its own: try fewer
 * tokens, and if only one is left, half of its characters.  Return false if only one character is left.
 */
static bool
shrink(const Chunker *c, int begin, int *end, int *tokens, int more)
{
	int			half;

	if (*tokens > 1)
	{
		*tokens = *tokens > more ? *tokens - more : 1;
		return true;
	}
	ASSERT(begin < *end && *end <= c->n);
	*tokens = 0;
	half = char_begin(c, begin + (*end - begin) / 2);
	if (half <= begin)
		half = char_end(c, begin + 1);
	if (half >= *end)
		return false;
	*end = half;
	return true;
}

static void
emit(Chunker *c, int begin, int end)
{
	if (end <= begin)
		return;
	/* chunks consist of whole characters */
	ASSERT(begin >= 0 && end <= c->n && char_begin(c, begin) == begin && char_begin(c, end) == end);
	intvec_push(c->out, begin);
	intvec_push(c->out, end);
	intvec_push(c->out, token_at(c, begin));
	intvec_push(c->out, tokens_before(c, end));
}

/* ---- by tokens ---- */

static bool
chunk_tokens(Chunker *c, Err *e)
{
	int			begin = 0,
				done = 0;		/* end of the chunk before */

	while (done < c->n)
	{
		int			tokens = c->size;
		int			end;
		int			more;

		do
		{
			if (tokens > 0)
				end = cut_after(c, begin, tokens);
			more = excess(c, begin, end, e);
			if (more < 0)
				return false;
		} while (more > 0 && shrink(c, begin, &end, &tokens, more));
		/* the repeated tokens left no room for new ones */
		if (end <= done && begin < done)
		{
			begin = done;
			continue;
		}
		emit(c, begin, end);
		done = end;
		if (c->overlap > 0)
		{
			int			first = tokens_before(c, done) - c->overlap;
			int			pos = first > 0 ? char_begin(c, c->starts.data[first]) : 0;

			begin = pos > begin ? pos : done;
		}
		else
			begin = done;
	}
	return true;
}

/* ---- at breaks ---- */

/*
 * Return the longest piece from begin on that has at most `tokens` tokens and ends after done: at the
 * end of the text, else at the last of the strongest breaks, else at a token.
 */
static ChunkerPiece
take_piece(const Chunker *c, int begin, int done, int tokens)
{
	const Breaks *b = &c->breaks;
	int			first = token_at(c, begin);
	ChunkerPiece p = {.begin = begin,.end = -1,.level = NO_LEVEL};

	if (tokens_before(c, b->end) - first <= tokens)
		return (ChunkerPiece) {.begin = begin,.end = b->end,.pos = c->n,.level = -1};
	for (size_t i = c->next_break; i < b->n; i++)
	{
		const Break *k = &b->v[i];

		if (k->end <= begin || k->pos <= done)
			continue;
		if (k->tokens - first > tokens)
			break;
		if (k->level <= p.level)
			p = (ChunkerPiece) {.begin = begin,.end = k->end,.pos = k->pos,.level = k->level};
	}
	if (p.level == NO_LEVEL)
	{
		p.end = cut_after(c, begin, tokens);
		p.pos = p.end;
	}
	return p;
}

/* The same, by the number of tokens when it is tokenized on its own; return false on error. */
static bool
fit_piece(Chunker *c, int begin, int done, ChunkerPiece *p, Err *e)
{
	int			tokens = c->size;
	int			more;

	do
	{
		if (tokens > 0)
			*p = take_piece(c, begin, done, tokens);
		else
		{
			p->pos = p->end;
			p->level = NO_LEVEL;
		}
		more = excess(c, p->begin, p->end, e);
		if (more < 0)
			return false;
	} while (more > 0 && shrink(c, begin, &p->end, &tokens, more));
	return true;
}

/* Return where the next chunk begins, so that it repeats at most `overlap` tokens of the last one. */
static int
overlap_begin(const Chunker *c, const ChunkerPiece *last)
{
	const Breaks *b = &c->breaks;
	int			level = NO_LEVEL;
	int			pos = last->pos;

	for (size_t i = c->next_break; i < b->n && b->v[i].pos < last->end; i++)
	{
		const Break *k = &b->v[i];

		if (k->pos > last->begin && k->level < level && count(c, k->pos, last->end) <= c->overlap)
		{
			level = k->level;
			pos = k->pos;
		}
	}
	return pos;
}

/* Count the tokens before each break. */
static void
count_breaks(Chunker *c)
{
	size_t		t = 0;

	for (size_t i = 0; i < c->breaks.n; i++)
	{
		while (t < c->starts.len && c->starts.data[t] < c->breaks.v[i].end)
			t++;
		c->breaks.v[i].tokens = (int) t;
	}
}

static bool
chunk_at_breaks(Chunker *c, Err *e)
{
	const Breaks *b = &c->breaks;
	int			begin = b->first,
				done = b->first;

	count_breaks(c);
	while (begin < b->end)
	{
		ChunkerPiece p;

		if (!fit_piece(c, begin, done, &p, e))
			return false;
		if (begin < done)
		{
			ChunkerPiece plain;

			/* no overlap if it would lead to a weaker cut */
			if (!fit_piece(c, done, done, &plain, e))
				return false;
			if (p.level > (plain.level > 0 ? plain.level : 0) || p.end <= done)
				p = plain;
		}
		/* each piece ends after the one before it, so this ends */
		ALWAYS(p.end > done || p.begin >= done);
		emit(c, p.begin, p.end);
		while (c->next_break < b->n && b->v[c->next_break].pos <= p.begin)
			c->next_break++;
		done = p.level == NO_LEVEL ? skip_space(c, p.pos, c->n) : p.pos;
		p.pos = done;
		begin = c->overlap > 0 && done < b->end ? overlap_begin(c, &p) : done;
	}
	return true;
}

bool
chunk_text(const ChunkEncoder *enc, ChunkMethod method, int size, int overlap,
		   const char *s, size_t n, IntVec *out, Err *e)
{
	Chunker		c = {.enc = enc,.s = s,.n = (int) n,.size = size,.overlap = overlap,.out = out};
	bool		ok;

	if (n >= INT_MAX)
		return err_set(e, ERR_TOO_LONG, "the text is too long to be cut in chunks");
	if (!uni_valid(s, n))
		return err_set(e, ERR_INVALID, "the text is not valid UTF-8");
	if (n == 0)
		return true;
	ok = enc->starts(enc->ctx, s, n, &c.starts, e);
	if (ok && method == CHUNK_NONE)
		emit(&c, 0, c.n);
	else if (ok && method == CHUNK_TOKENS)
		ok = chunk_tokens(&c, e);
	else if (ok)
	{
		chunk_breaks(method, s, c.n, &c.breaks);
		ok = chunk_at_breaks(&c, e);
	}
	mem_free(c.breaks.v);
	intvec_free(&c.starts);
	intvec_free(&c.again);
	return ok;
}
