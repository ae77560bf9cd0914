/*
 * pcre_pattern.c
 *	  Regular expressions of a tokenizer.json that have no hand-written function (pretokenizer.c).
 *
 * The patterns were written for Oniguruma (Ruby's syntax); PCRE2 matches them.  oniguruma.c translates
 * them and refuses elements that it doesn't know.
 *
 * Two problems must be solved to get the same results.  First, character classes: PCRE2's data may have
 * another Unicode version than Oniguruma's (which unicode_tables.h has).  The code points that differ
 * are determined once; in a subject they are replaced by others of the right category and the same
 * length, so that positions stay.
 *
 * Second, time: a backtracking matcher can take quadratic time or worse, and both pattern and text may
 * be hostile.  A match attempt may take FEW_STEPS; attempts that need more are repeated with a growing
 * limit and pay from a budget that is proportional to the text.  When it is used up the text is refused.
 * PCRE2's search for a start position is switched off: it may scan the rest of the text for each match.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c against Hugging Face.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretok/pcre_pattern.h"

#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "tokenizer/pretok/oniguruma.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define FEW_STEPS		256
#define STEPS_PER_BYTE	64
#define STEPS_AT_LEAST	100000
#define MAX_HEAP_KB		65536

struct PcrePattern
{
	pcre2_code *code;
};

/* ---------- code points that PCRE2 classifies differently ---------- */

typedef struct Differs
{
	uint32_t	first;
	uint32_t	last;
	uint32_t	as;				/* treat them like this one */
} Differs;

static struct
{
	pthread_once_t once;
	Differs    *row;
	size_t		n;
}			differs = {.once = PTHREAD_ONCE_INIT};

#define N_CATS 30

static const char *const cats[N_CATS] = {
	"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
	"Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn", "Cs"
};

static int
cat_index(uint32_t cp)
{
	const char *c = uni_category(cp);
	int			i = 0;

	while (strcmp(cats[i], c) != 0)
	{
		i++;
		ALWAYS(i < N_CATS);
	}
	return i;
}

static int
by_first(const void *pa, const void *pb)
{
	const Differs *a = pa;
	const Differs *b = pb;

	return a->first < b->first ? -1 : a->first > b->first;
}

/*
 * Find the code points of category `cat` (text has all of them, sorted) that PCRE2 has in another
 * category.  standin[bytes] = the first one of each length in which both agree.
 */
static void
compare_category(int cat, const Buf *text)
{
	char		pattern[16];
	uint32_t	standin[5] = {0};
	uint32_t   *wrong = mem_alloc((text->len + 1) * sizeof(uint32_t));
	size_t		n = 0;
	int			code;
	PCRE2_SIZE	at;
	pcre2_code *re;
	pcre2_match_data *md;
	size_t		done = 0;

	memcpy(pattern, "\\p{", 3);
	memcpy(pattern + 3, cats[cat], 2);
	memcpy(pattern + 5, "}*+", 4);
	re = pcre2_compile((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_NO_UTF_CHECK, &code,
					   &at, NULL);
	md = re != NULL ? pcre2_match_data_create(1, NULL) : NULL;
	while (md != NULL && done < text->len)
	{
		size_t		stop = done;
		size_t		len;

		if (pcre2_match(re, (PCRE2_SPTR) text->data, text->len, done,
						PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, md, NULL) > 0)
			stop = pcre2_get_ovector_pointer(md)[1];
		for (; done < stop; done += len)
		{
			uint32_t	cp = utf8_next(text->data + done, &len);

			if (standin[len] == 0)
				standin[len] = cp;
		}
		if (done < text->len)
		{
			wrong[n++] = utf8_next(text->data + done, &len);
			done += len;
		}
	}
	for (size_t i = 0; i < n; i++)
	{
		char		c[4];
		Differs    *d = &differs.row[differs.n];
		uint32_t	as = standin[utf8_put(c, wrong[i])];

		if (wrong[i] >= 0x20000 && wrong[i] < 0x40000 && uni_class(wrong[i]) & UNI_L)
			as = 0x20000;		/* Han */
		if (as == 0)
			continue;
		if (i > 0 && differs.n > 0 && d[-1].last + 1 == wrong[i] && d[-1].as == as)
		{
			d[-1].last++;
			continue;
		}
		differs.row = mem_realloc(differs.row, (differs.n + 1) * sizeof(Differs));
		differs.row[differs.n++] = (Differs) {wrong[i], wrong[i], as};
	}
	mem_free(wrong);
	pcre2_match_data_free(md);
	pcre2_code_free(re);
}

static void
find_differences(void)
{
	Buf			text[N_CATS] = {0};
	char		c[4];

	for (uint32_t cp = 0x80; cp < 0x110000; cp++)
		if (cp < 0xD800 || cp >= 0xE000)
		{
			/* private use never changes, and is the largest part */
			if ((cp >= 0xE000 && cp < 0xF900) || cp >= 0xF0000)
				continue;
			buf_add(&text[cat_index(cp)], c, utf8_put(c, cp));
		}
	for (int i = 0; i < N_CATS; i++)
	{
		compare_category(i, &text[i]);
		buf_free(&text[i]);
	}
	if (differs.n > 0)
		qsort(differs.row, differs.n, sizeof(Differs), by_first);
}

/* Return the stand-in for cp in a subject. */
static uint32_t
stand_in(uint32_t cp)
{
	size_t		lo = 0;
	size_t		hi = differs.n;

	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;

		if (cp < differs.row[mid].first)
			hi = mid;
		else if (cp > differs.row[mid].last)
			lo = mid + 1;
		else
			return differs.row[mid].as;
	}
	return cp;
}

/* ---------- compiling ---------- */

PcrePattern *
rx_compile(const char *pattern, Err *e)
{
	Buf			p = {0};
	int			code;
	PCRE2_SIZE	at;
	pcre2_compile_context *cc;
	PcrePattern *r = NULL;

	if (!rx_translate(pattern, &p, e))
	{
		buf_free(&p);
		return NULL;
	}
	cc = pcre2_compile_context_create(NULL);
	if (cc == NULL)
		err_set(e, ERR_NOMEM, "out of memory");
	else
	{
		pcre2_code *re;

		pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
		pcre2_set_parens_nest_limit(cc, 4 * RX_MAX_DEPTH);
		re = pcre2_compile((PCRE2_SPTR) p.data, p.len,
						   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
						   PCRE2_NO_START_OPTIMIZE, &code, &at, cc);
		if (re != NULL)
		{
			r = mem_zalloc(sizeof(PcrePattern));
			r->code = re;
			pthread_once(&differs.once, find_differences);
		}
		else
		{
			PCRE2_UCHAR msg[128] = "";

			pcre2_get_error_message(code, msg, sizeof(msg));
			err_set(e, ERR_UNSUPPORTED, "tokenizer: a regular expression is not supported: %s", (char *) msg);
			err_detail(e, "%s", pattern);
		}
		pcre2_compile_context_free(cc);
	}
	buf_free(&p);
	return r;
}

void
rx_free(PcrePattern *r)
{
	if (r == NULL)
		return;
	pcre2_code_free(r->code);
	mem_free(r);
}

/* ---------- matching ---------- */

void
rx_begin(const PcrePattern *r, RxWork *w, const char *s, size_t n)
{
	size_t		from = 0;
	size_t		len;

	(void) r;
	w->s = s;
	w->n = n;
	w->from = 0;
	w->last = SIZE_MAX;
	w->steps = n * STEPS_PER_BYTE + STEPS_AT_LEAST;
	buf_reset(&w->text);
	for (size_t i = 0; differs.n > 0 && i < n; i += len)
	{
		uint32_t	cp;
		uint32_t	as;
		char		c[4];

		len = 1;
		if ((unsigned char) s[i] < 0x80)
			continue;
		cp = utf8_next(s + i, &len);
		if (cp < differs.row[0].first || (as = stand_in(cp)) == cp)
			continue;
		buf_add(&w->text, s + from, i - from);
		buf_add(&w->text, c, utf8_put(c, as));
		from = i + len;
	}
	if (from > 0)
	{
		buf_add(&w->text, s + from, n - from);
		w->s = w->text.data;
	}
	if (w->match == NULL)
	{
		w->match = pcre2_match_data_create(1, NULL);
		w->limits = pcre2_match_context_create(NULL);
	}
}

static RxResult
attempt(const PcrePattern *r, RxWork *w, size_t from, uint32_t options, uint32_t steps, size_t *start,
		size_t *end,
		int *code)
{
	/* PCRE2_NO_UTF_CHECK: it would read before or after the text */
	ASSERT(from <= w->n && (from == w->n || ((unsigned char) w->s[from] & 0xC0) != 0x80));
	pcre2_set_match_limit(w->limits, steps);
	pcre2_set_heap_limit(w->limits, MAX_HEAP_KB);
	*code = pcre2_match(r->code, (PCRE2_SPTR) w->s, w->n, from, options | PCRE2_NO_UTF_CHECK, w->match,
						w->limits);
	if (*code < 0)
		return *code == PCRE2_ERROR_NOMATCH ? RX_NONE : RX_ERROR;
	*start = pcre2_get_ovector_pointer(w->match)[0];
	*end = pcre2_get_ovector_pointer(w->match)[1];
	return RX_MATCH;
}

/* Try to match at exactly this position, with as many steps as necessary. */
static RxResult
match_at(const PcrePattern *r, RxWork *w, size_t at, size_t *start, size_t *end, Err *e)
{
	size_t		steps = FEW_STEPS;
	int			code;

	for (;;)
	{
		RxResult	res = attempt(r, w, at, PCRE2_ANCHORED, (uint32_t) steps, start, end, &code);

		if (res != RX_ERROR)
			return res;
		if (code != PCRE2_ERROR_MATCHLIMIT || w->steps < steps)
			break;
		w->steps -= steps;
		steps = steps * 4 < UINT32_MAX ? steps * 4 : UINT32_MAX;
	}
	err_set(e, ERR_TOO_LONG, "the tokenizer's regular expression takes too many steps on this text");
	return RX_ERROR;
}

/* Return the first match at or after `from`. */
static RxResult
find(const PcrePattern *r, RxWork *w, size_t from, size_t *start, size_t *end, Err *e)
{
	int			code;
	RxResult	res = attempt(r, w, from, 0, FEW_STEPS, start, end, &code);

	if (res != RX_ERROR)
		return res;
	/* some position on the way needs more steps; PCRE2 doesn't say which one */
	for (; from <= w->n; from += from < w->n ? utf8_len((unsigned char) w->s[from]) : 1)
		if ((res = match_at(r, w, from, start, end, e)) != RX_NONE)
			return res;
	return RX_NONE;
}

RxResult
rx_next(const PcrePattern *r, RxWork *w, size_t *start, size_t *end, Err *e)
{
	if (w->match == NULL || w->limits == NULL)
	{
		err_set(e, ERR_NOMEM, "out of memory");
		return RX_ERROR;
	}
	while (w->from <= w->n)
	{
		RxResult	res = find(r, w, w->from, start, end, e);

		if (res != RX_MATCH)
			return res;
		if (*start < *end || *end != w->last)
		{
			w->from = w->last = *end;
			return RX_MATCH;
		}
		/* an empty match at the end of the last one doesn't count */
		w->from += w->from < w->n ? utf8_len((unsigned char) w->s[w->from]) : 1;
	}
	return RX_NONE;
}

void
rx_work_free(RxWork *w)
{
	pcre2_match_data_free(w->match);
	pcre2_match_context_free(w->limits);
	buf_free(&w->text);
	memset(w, 0, sizeof(*w));
}

bool
rx_replace(const PcrePattern *r, const char *s, size_t n, const char *to, Buf *out, Err *e)
{
	RxWork		w = {0};
	size_t		done = 0;
	size_t		start;
	size_t		end;
	RxResult	res;

	rx_begin(r, &w, s, n);
	while ((res = rx_next(r, &w, &start, &end, e)) == RX_MATCH)
	{
		buf_add(out, s + done, start - done);
		buf_addstr(out, to);
		done = end;
	}
	buf_add(out, s + done, n - done);
	rx_work_free(&w);
	return res != RX_ERROR;
}
