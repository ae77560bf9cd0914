/*
 * char_set.c
 *	  Sets of characters that patterns can name, from utf8proc's tables.
 */
#include "grammar/regex/char_set.h"

#include <pthread.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/regex/regex_internal.h"

#define MAX_CP	0x10FFFF
#define MAX_FOLD	4096		/* characters of a range whose cases are looked up */

void
re_ranges_add(ReRanges *v, uint32_t lo, uint32_t hi)
{
	if (v->n == v->cap)
	{
		v->cap = v->cap > 0 ? v->cap * 2 : 8;
		v->r = mem_realloc(v->r, v->cap * sizeof(ReRange));
	}
	ASSERT(lo <= hi);
	v->r[v->n++] = (ReRange) {lo, hi};
}

void
re_ranges_free(ReRanges *v)
{
	mem_free(v->r);
	*v = (ReRanges) {0};
}

void
re_ranges_negate(ReRanges *v)
{
	ReRanges	out = {0};
	uint32_t	at = 0;

	if (v->n > 0)
		v->n = re_ranges_sort(v->r, v->n);
	for (size_t i = 0; i < v->n; i++)
	{
		if (v->r[i].lo > at)
			re_ranges_add(&out, at, v->r[i].lo - 1);
		at = v->r[i].hi + 1;
	}
	if (at <= MAX_CP)
		re_ranges_add(&out, at, MAX_CP);
	mem_free(v->r);
	*v = out;
}

void
re_ranges_fold(ReRanges *v)
{
	size_t		n = v->n;

	for (size_t i = 0; i < n; i++)
	{
		ReRange		r = v->r[i];

		if (r.hi - r.lo > MAX_FOLD && r.lo > 0x7F)
			continue;
		for (uint32_t cp = r.lo; cp <= r.hi && cp - r.lo <= MAX_FOLD; cp++)
		{
			uint32_t	to[3] = {(uint32_t) utf8proc_tolower((utf8proc_int32_t) cp),
								 (uint32_t) utf8proc_toupper((utf8proc_int32_t) cp),
			(uint32_t) utf8proc_totitle((utf8proc_int32_t) cp)};

			for (int k = 0; k < 3; k++)
				if (to[k] != cp)
					re_ranges_add(v, to[k], to[k]);
		}
	}
}

/* ---- categories ---- */

typedef struct CharSetRun
{
	uint32_t	lo,
				hi;
	uint8_t		cat;
} CharSetRun;

/* All code points, as runs of one category. */
static CharSetRun *runs;
static size_t n_runs;

static void
find_runs(void)
{
	size_t		cap = 4096;

	runs = mem_alloc(cap * sizeof(CharSetRun));
	for (uint32_t cp = 0; cp <= MAX_CP; cp++)
	{
		uint8_t		cat = (uint8_t) utf8proc_category((utf8proc_int32_t) cp);

		if (n_runs > 0 && runs[n_runs - 1].cat == cat)
			runs[n_runs - 1].hi = cp;
		else
		{
			if (n_runs == cap)
				runs = mem_realloc(runs, (cap *= 2) * sizeof(CharSetRun));
			runs[n_runs++] = (CharSetRun) {cp, cp, cat};
		}
	}
}

/* Add all characters of the categories (bits). */
static void
add_categories(ReRanges *v, uint32_t cats)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_runs);
	for (size_t i = 0; i < n_runs; i++)
		if (cats >> runs[i].cat & 1)
			re_ranges_add(v, runs[i].lo, runs[i].hi);
}

static const struct
{
	const char *name[2];
	uint32_t	cats;
}			categories[] = {
#define C(x) (1u << UTF8PROC_CATEGORY_##x)
	{{"L", "Letter"}, C(LU) | C(LL) | C(LT) | C(LM) | C(LO)},
	{{"LC", "Cased_Letter"}, C(LU) | C(LL) | C(LT)},
	{{"L&", "Cased_Letter"}, C(LU) | C(LL) | C(LT)},
	{{"Lu", "Uppercase_Letter"}, C(LU)},
	{{"Ll", "Lowercase_Letter"}, C(LL)},
	{{"Lt", "Titlecase_Letter"}, C(LT)},
	{{"Lm", "Modifier_Letter"}, C(LM)},
	{{"Lo", "Other_Letter"}, C(LO)},
	{{"M", "Mark"}, C(MN) | C(MC) | C(ME)},
	{{"Mn", "Nonspacing_Mark"}, C(MN)},
	{{"Mc", "Spacing_Mark"}, C(MC)},
	{{"Me", "Enclosing_Mark"}, C(ME)},
	{{"N", "Number"}, C(ND) | C(NL) | C(NO)},
	{{"Nd", "Decimal_Number"}, C(ND)},
	{{"Nl", "Letter_Number"}, C(NL)},
	{{"No", "Other_Number"}, C(NO)},
	{{"P", "Punctuation"}, C(PC) | C(PD) | C(PS) | C(PE) | C(PI) | C(PF) | C(PO)},
	{{"Pc", "Connector_Punctuation"}, C(PC)},
	{{"Pd", "Dash_Punctuation"}, C(PD)},
	{{"Ps", "Open_Punctuation"}, C(PS)},
	{{"Pe", "Close_Punctuation"}, C(PE)},
	{{"Pi", "Initial_Punctuation"}, C(PI)},
	{{"Pf", "Final_Punctuation"}, C(PF)},
	{{"Po", "Other_Punctuation"}, C(PO)},
	{{"S", "Symbol"}, C(SM) | C(SC) | C(SK) | C(SO)},
	{{"Sm", "Math_Symbol"}, C(SM)},
	{{"Sc", "Currency_Symbol"}, C(SC)},
	{{"Sk", "Modifier_Symbol"}, C(SK)},
	{{"So", "Other_Symbol"}, C(SO)},
	{{"Z", "Separator"}, C(ZS) | C(ZL) | C(ZP)},
	{{"Zs", "Space_Separator"}, C(ZS)},
	{{"Zl", "Line_Separator"}, C(ZL)},
	{{"Zp", "Paragraph_Separator"}, C(ZP)},
	{{"C", "Other"}, C(CC) | C(CF) | C(CS) | C(CO) | C(CN)},
	{{"Cc", "Control"}, C(CC)},
	{{"Cf", "Format"}, C(CF)},
	{{"Co", "Private_Use"}, C(CO)},
	{{"Cn", "Unassigned"}, C(CN)},
#undef C
};

static bool
same(const char *a, const char *s, size_t n)
{
	return strlen(a) == n && memcmp(a, s, n) == 0;
}

bool
re_ranges_property(ReRanges *v, const char *name, size_t n)
{
	static const char *const prefix[] = {"gc=", "General_Category="};

	for (int i = 0; i < 2; i++)
	{
		size_t		len = strlen(prefix[i]);

		if (n > len && memcmp(name, prefix[i], len) == 0)
		{
			name += len;
			n -= len;
			break;
		}
	}
	for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++)
		if (same(categories[i].name[0], name, n) || same(categories[i].name[1], name, n))
		{
			add_categories(v, categories[i].cats);
			return true;
		}
	if (same("Any", name, n))
		re_ranges_add(v, 0, MAX_CP);
	else if (same("ASCII", name, n))
		re_ranges_add(v, 0, 0x7F);
	else if (same("White_Space", name, n))
		re_ranges_perl(v, 's', RE_PERL_UNICODE);
	else
		return false;
	return true;
}

void
re_ranges_perl(ReRanges *v, char letter, RePerl of)
{
	static const ReRange space[] = {{0x09, 0x0D}, {0x20, 0x20}, {0xA0, 0xA0}, {0x1680, 0x1680},
									{0x2000, 0x200A},
	{0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

	if (letter == 's')
	{
		for (size_t i = 0; i < sizeof(space) / sizeof(space[0]); i++)
			if (of != RE_PERL_ASCII || space[i].hi < 0x80)
				re_ranges_add(v, space[i].lo, space[i].hi);
		/* Unicode's next line, ECMA-262's byte order mark */
		if (of == RE_PERL_UNICODE)
			re_ranges_add(v, 0x85, 0x85);
		else if (of == RE_PERL_ECMA)
			re_ranges_add(v, 0xFEFF, 0xFEFF);
		return;
	}
	re_ranges_add(v, '0', '9');
	if (letter == 'w')
	{
		re_ranges_add(v, 'A', 'Z');
		re_ranges_add(v, 'a', 'z');
		re_ranges_add(v, '_', '_');
	}
	if (of == RE_PERL_UNICODE)
		re_ranges_property(v, "Nd", 2);
	if (of == RE_PERL_UNICODE && letter == 'w')
	{
		re_ranges_property(v, "L", 1);
		re_ranges_property(v, "M", 1);
		re_ranges_property(v, "Nl", 2);
		re_ranges_property(v, "Pc", 2);
		re_ranges_add(v, 0x200C, 0x200D);
	}
}

bool
re_ranges_posix(ReRanges *v, const char *name, size_t n)
{
	static const struct
	{
		const char *name;
		ReRange		r[4];
	}			posix[] = {
		{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
		{"alpha", {{'A', 'Z'}, {'a', 'z'}}},
		{"ascii", {{0, 0x7F}}},
		{"blank", {{'\t', '\t'}, {' ', ' '}}},
		{"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
		{"digit", {{'0', '9'}}},
		{"graph", {{'!', '~'}}},
		{"lower", {{'a', 'z'}}},
		{"print", {{' ', '~'}}},
		{"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
		{"space", {{'\t', '\r'}, {' ', ' '}}},
		{"upper", {{'A', 'Z'}}},
		{"word", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}},
		{"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}
	};

	for (size_t i = 0; i < sizeof(posix) / sizeof(posix[0]); i++)
		if (same(posix[i].name, name, n))
		{
			for (int k = 0; k < 4 && (k == 0 || posix[i].r[k].hi > 0); k++)
				re_ranges_add(v, posix[i].r[k].lo, posix[i].r[k].hi);
			return true;
		}
	return false;
}
