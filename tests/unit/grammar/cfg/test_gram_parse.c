/*
 * test_gram_parse.c
 *	  Grammars: random ones against the definition of what they match, kinds of recursion, and that a
 *	  text never gets into a dead end.
 */
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "tests/unit/check.h"
#include "grammar/cfg/cfg.h"
#include "grammar/cfg/earley.h"
#include "tests/unit/lang_util.h"

#define RULES	4

static void
lang_add(Lang *a, const Lang *b)
{
	for (int i = 0; i < TEXTS; i++)
		a->has[i] = a->has[i] || b->has[i];
}

/* ---- a second, plain description of each grammar ---- */

typedef enum What
{
	W_LEXEME, W_RULE, W_SEQ, W_ALT, W_REPEAT, W_LIST, W_MEMBERS
} What;

typedef struct Tree
{
	What		what;
	Lang		lexeme;
	int			rule;
	struct Tree *part[5];
	int			n;
	uint32_t	min,
				max;
	bool		required[4];
	CfgDep		dep[2];
	int			n_deps;
	bool		ordered;
} Tree;

static void
tree_free(Tree *t)
{
	if (t == NULL)
		return;
	for (int i = 0; i < 5; i++)
		tree_free(t->part[i]);
	free(t);
}

static Tree *
random_entry(unsigned *seed)
{
	Tree	   *t = calloc(1, sizeof(Tree));

	for (int n = 1 + rand_r(seed) % 2; n > 0; n--)
		t->lexeme.has[1 + rand_r(seed) % 6] = true;
	return t;
}

static Tree *
random_tree(int depth, unsigned *seed)
{
	Tree	   *t = calloc(1, sizeof(Tree));

	t->what = depth == 0 ? (rand_r(seed) % 3 == 0 ? W_RULE : W_LEXEME) : W_SEQ + rand_r(seed) % 5;
	t->min = (uint32_t) rand_r(seed) % 3;
	t->max = rand_r(seed) % 2 ? CFG_INF : t->min + (uint32_t) rand_r(seed) % 3;
	switch (t->what)
	{
		case W_LEXEME:
			for (int n = 1 + rand_r(seed) % 3; n > 0; n--)
				t->lexeme.has[rand_r(seed) % 10 ? 1 + rand_r(seed) % 14 : 0] = true;
			break;
		case W_RULE:
			t->rule = rand_r(seed) % RULES;
			break;
		case W_MEMBERS:
			t->n = 2 + rand_r(seed) % 2;
			t->n_deps = rand_r(seed) % 3;
			t->ordered = rand_r(seed) % 2;
			for (int i = 0; i < t->n; i++)
				t->required[i] = rand_r(seed) % 3 == 0;
			for (int i = 0; i < t->n_deps; i++)
				t->dep[i] = (CfgDep) {(uint32_t) rand_r(seed) % (uint32_t) t->n,
									  rand_r(seed) % 6 ? (uint32_t) rand_r(seed) % (uint32_t) t->n :
									  CFG_NEVER};
			/* part[3] is the separator, part[4] the rest; entries are never empty */
			for (int i = 0; i < t->n; i++)
				t->part[i] = random_entry(seed);
			t->part[3] = random_tree(0, seed);
			if (rand_r(seed) % 2)
				t->part[4] = random_entry(seed);
			break;
		default:
			t->n = t->what == W_REPEAT ? 1 : 2;
			for (int i = 0; i < t->n; i++)
				t->part[i] = random_tree(depth - 1, seed);
	}
	return t;
}

static ReNode
lexeme_of(Regex *re, const Lang *l)
{
	ReNode		r = RE_NONE;

	for (int i = 0; i < TEXTS; i++)
		if (l->has[i])
		{
			char		s[LONGEST + 1];

			text_of(i, s);
			r = re_or(re, r, re_bytes(re, s, strlen(s)));
		}
	return r;
}

static CfgNode
tree_build(Cfg *c, const Tree *t)
{
	CfgNode		part[5] = {CFG_NONE, CFG_NONE, CFG_NONE, CFG_NONE, CFG_NONE};
	CfgMember	member[4];
	CfgMembers	m;

	for (int i = 0; i < 5; i++)
		if (t->part[i] != NULL)
			part[i] = tree_build(c, t->part[i]);
	switch (t->what)
	{
		case W_LEXEME:
			return cfg_lexeme(c, lexeme_of(cfg_re(c), &t->lexeme));
		case W_RULE:
			return cfg_ref(c, (CfgRule) t->rule);
		case W_SEQ:
			return cfg_seq(c, part[0], part[1]);
		case W_ALT:
			return cfg_alt(c, part[0], part[1]);
		case W_REPEAT:
			return cfg_repeat(c, part[0], t->min, t->max);
		case W_LIST:
			return cfg_list(c, part[0], part[1], t->min, t->max);
		default:
			for (int i = 0; i < t->n; i++)
				member[i] = (CfgMember) {part[i], t->required[i]};
			m = (CfgMembers) {member, (size_t) t->n, t->dep, (size_t) t->n_deps, part[4], part[3], t->min,
							  t->max, t->ordered};
			return cfg_members(c, &m);
	}
}

/* Compute the language of members by trying all sequences of entries. */
static void
members_lang(const Tree *t, const Lang *part, const Lang *text, unsigned used, int last, uint32_t count,
			 Lang *out)
{
	bool		ok = count >= t->min && count <= t->max;
	bool		some = false;

	for (int i = 0; i < TEXTS; i++)
		some = some || text->has[i];
	for (int i = 0; i < t->n; i++)
		ok = ok && (!t->required[i] || (used >> i & 1));
	for (int i = 0; i < t->n_deps; i++)
		if (used >> t->dep[i].from & 1)
			ok = ok && t->dep[i].to != CFG_NEVER && (used >> t->dep[i].to & 1);
	if (ok)
		lang_add(out, text);
	if (count > LONGEST + 6 || !some)
		return;
	for (int i = 0; i <= t->n; i++)
	{
		Lang		next;

		if (i < t->n ? (used >> i & 1) || (t->ordered && i <= last) : t->part[4] == NULL)
			continue;
		next = count > 0 ? lang_cat(text, &part[3]) : *text;
		next = lang_cat(&next, &part[i < t->n ? i : 4]);
		members_lang(t, part, &next, i < t->n ? used | 1u << i : used, i, count + 1, out);
	}
}

static Lang
tree_lang(const Tree *t, const Lang *rule)
{
	Lang		part[5];
	Lang		r = {{false}};
	Lang		b = {{true}};

	for (int i = 0; i < 5; i++)
		if (t->part[i] != NULL)
			part[i] = tree_lang(t->part[i], rule);
	switch (t->what)
	{
		case W_LEXEME:
			return t->lexeme;
		case W_RULE:
			return rule[t->rule];
		case W_SEQ:
			return lang_cat(&part[0], &part[1]);
		case W_ALT:
			lang_add(&r, &part[0]);
			lang_add(&r, &part[1]);
			return r;
		case W_REPEAT:
		case W_LIST:
			for (uint32_t n = 0; n <= t->min + LONGEST + 1 && n <= t->max; n++)
			{
				if (n >= t->min)
					lang_add(&r, &b);
				if (t->what == W_LIST && n > 0)
					b = lang_cat(&b, &part[1]);
				b = lang_cat(&b, &part[0]);
			}
			return r;
		default:
			members_lang(t, part, &b, 0, -1, 0, &r);
			return r;
	}
}

/* ---- checks ---- */

/* Can an end be reached? */
static bool
completable(Parse *p, uint32_t from)
{
	static bool seen[2000000];
	static uint32_t queue[20000];
	size_t		n = 0;
	bool		found = false;
	bool		gave_up = false;

	queue[n++] = from;
	seen[from] = true;
	for (size_t i = 0; i < n && !found; i++)
	{
		found = parse_accepts(p, queue[i]);
		for (const char *b = "ab"; *b != '\0' && !found; b++)
		{
			uint32_t	to = parse_step(p, queue[i], (uint8_t) *b);

			if (to == PARSE_DEAD || seen[to])
				continue;
			if (n == 500)
			{
				gave_up = true;
				break;
			}
			seen[to] = true;
			queue[n++] = to;
		}
	}
	for (size_t i = 0; i < n; i++)
		seen[queue[i]] = false;
	return found || gave_up;
}

static void
random_grammars(void)
{
	unsigned	seed = 5;
	int			empty = 0;
	int			texts = 0;

	for (int round = 0; round < 1500; round++)
	{
		Cfg		   *c = cfg_new();
		Tree	   *tree[RULES];
		Lang		lang[RULES] = {{{false}}};
		bool		more = true;
		Err			e = {0};
		Parse	   *p;
		int			wrong = 0;
		bool		some = false;

		for (int i = 0; i < RULES; i++)
		{
			cfg_rule_new(c);
			tree[i] = random_tree(rand_r(&seed) % 4, &seed);
		}
		while (more)
		{
			more = false;
			for (int i = 0; i < RULES; i++)
			{
				Lang		l = tree_lang(tree[i], lang);

				more = more || memcmp(&l, &lang[i], sizeof(l)) != 0;
				lang[i] = l;
			}
		}
		for (int i = 0; i < RULES; i++)
			cfg_rule_define(c, (CfgRule) i, tree_build(c, tree[i]));
		for (int i = 0; i < TEXTS; i++)
			some = some || lang[0].has[i];
		if (!cfg_finish(c, cfg_ref(c, 0), &e))
		{
			CHECK(!some && e.cls == ERR_INVALID, "round %d: %s", round, e.msg);
			cfg_free(c);
			empty++;
		}
		else
		{
			p = parse_new(c);
			for (int i = 0; i < TEXTS; i++)
			{
				char		s[LONGEST + 1];
				uint32_t	state = parse_start(p);
				bool		got;

				text_of(i, s);
				for (const char *b = s; *b != '\0' && state != PARSE_DEAD; b++)
				{
					state = parse_step(p, state, (uint8_t) *b);
					wrong += state != PARSE_DEAD && !completable(p, state);
				}
				got = parse_accepts(p, state);
				if (got != lang[0].has[i])
				{
					wrong++;
					fprintf(stderr, "round %d: \"%s\" %d\n", round, s, got);
				}
				texts += got;
			}
			CHECK(wrong == 0 && parse_check(p, &e), "round %d: %s", round, e.msg);
			parse_free(p);
		}
		for (int i = 0; i < RULES; i++)
			tree_free(tree[i]);
	}
	CHECK(empty < 800 && texts > 10000, "%d empty, %d texts", empty, texts);
}

/* ---- recursion ---- */

static CfgNode
lit(Cfg *c, const char *s)
{
	return cfg_lexeme(c, re_bytes(cfg_re(c), s, strlen(s)));
}

static bool
accepts(Parse *p, const char *s, size_t n)
{
	uint32_t	state = parse_start(p);

	for (size_t i = 0; i < n && state != PARSE_DEAD; i++)
		state = parse_step(p, state, (uint8_t) s[i]);
	return parse_accepts(p, state);
}

/* list = x list | x  and  list = list x | x: many entries, few states */
static void
long_lists(void)
{
	static char text[40001];

	for (int left = 0; left < 2; left++)
	{
		Cfg		   *c = cfg_new();
		CfgRule		r = cfg_rule_new(c);
		CfgNode		x = lit(c, "a,");
		Err			e;
		Parse	   *p;

		cfg_rule_define(c, r,
						cfg_alt(c, x, left ? cfg_seq(c, cfg_ref(c, r), x) : cfg_seq(c, x, cfg_ref(c, r))));
		cfg_finish(c, cfg_seq(c, cfg_ref(c, r), lit(c, ".")), &e);
		p = parse_new(c);
		for (size_t i = 0; i < 40000; i += 2)
			memcpy(text + i, "a,", 2);
		text[40000] = '.';
		CHECK(accepts(p, text, 40001) && !accepts(p, text, 40000), "left %d", left);
		CHECK(parse_n_states(p) < 20, "left %d: %u states", left, parse_n_states(p));
		parse_free(p);
	}
}

/* e = e + e | ( e ) | digits: exponentially many trees */
static void
ambiguous(void)
{
	Cfg		   *c = cfg_new();
	CfgRule		r = cfg_rule_new(c);
	CfgNode		e = cfg_ref(c, r);
	CfgNode		v[4] = {e, lit(c, "+"), e};
	CfgNode		w[3] = {lit(c, "("), e, lit(c, ")")};
	ReRange		digit = {'0', '9'};
	char		text[401];
	Err			err;
	Parse	   *p;

	v[3] = cfg_lexeme(c, re_repeat(cfg_re(c), re_class(cfg_re(c), &digit, 1, RE_RAW), 1, RE_INF));
	cfg_rule_define(c, r, cfg_alt(c, cfg_alt(c, cfg_seqs(c, v, 3), cfg_seqs(c, w, 3)), v[3]));
	cfg_finish(c, e, &err);
	p = parse_new(c);
	for (int i = 0; i < 400; i++)
		text[i] = "12+((3)+4)+"[i % 11];
	CHECK(accepts(p, text, 395) && !accepts(p, text, 400), "sum");
	CHECK(parse_check(p, &err), "%s", err.msg);
	parse_free(p);
}

/* A deeply nested text: ((((...)))). */
static void
deep(void)
{
	enum
	{
		N = 3000
	};
	static char text[2 * N + 1];
	Cfg		   *c = cfg_new();
	CfgRule		r = cfg_rule_new(c);
	CfgNode		w[3] = {lit(c, "("), cfg_optional(c, cfg_ref(c, r)), lit(c, ")")};
	Err			e;
	Parse	   *p;

	cfg_rule_define(c, r, cfg_seqs(c, w, 3));
	cfg_finish(c, cfg_ref(c, r), &e);
	p = parse_new(c);
	memset(text, '(', N);
	memset(text + N, ')', N);
	CHECK(accepts(p, text, 2 * N) && !accepts(p, text, 2 * N - 1) && !accepts(p, text + 1, 2 * N - 1),
		  "deep");
	parse_free(p);
}

/* Splits of lexemes that a longest match would not find; sums of lengths, not of ways. */
static void
splits(void)
{
	Cfg		   *c = cfg_new();
	CfgRule		r = cfg_rule_new(c);
	CfgNode		x = cfg_alt(c, lit(c, "a"), lit(c, "aa"));
	char		text[2001];
	Err			e;
	Parse	   *p;

	cfg_rule_define(c, r, cfg_seq(c, x, cfg_optional(c, cfg_ref(c, r))));
	cfg_finish(c, cfg_seq(c, cfg_ref(c, r), lit(c, "ab")), &e);
	p = parse_new(c);
	memset(text, 'a', 2000);
	text[2000] = 'b';
	CHECK(accepts(p, text, 2001) && accepts(p, "aab", 3) && !accepts(p, "ab", 2), "splits");
	CHECK(parse_check(p, &e), "%s", e.msg);
	parse_free(p);
}

/* Counts are not unrolled. */
static void
counts(void)
{
	static char text[200000];
	Cfg		   *c = cfg_new();
	Err			e;
	Parse	   *p;

	cfg_finish(c, cfg_repeat(c, lit(c, "ab"), 70000, 2000000), &e);
	p = parse_new(c);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "ab"[i % 2];
	CHECK(accepts(p, text, 150000) && !accepts(p, text, 139998) && accepts(p, text, 140000), "counts");
	parse_free(p);
}

/* More members than bits in a word. */
static void
many_members(void)
{
	enum
	{
		N = 300
	};
	static CfgMember member[N];
	static char text[N * 10];
	static char back[N * 10];
	char		s[16];
	Err			e;

	for (int ordered = 0; ordered < 2; ordered++)
	{
		Cfg		   *c = cfg_new();
		CfgMembers	m = {.member = member,.n = N,.rest = CFG_NONE,.sep = lit(c, ","),.min = 3,.max = CFG_INF,
						 .ordered = ordered};
		CfgDep		dep = {70, 200};
		Parse	   *p;
		size_t		n = 0;
		size_t		at = sizeof(back);

		for (int i = 0; i < N; i++)
		{
			sprintf(s, "<%d>", i);
			member[i] = (CfgMember) {lit(c, s), i % 64 == 63};
		}
		m.dep = &dep;
		m.n_deps = 1;
		cfg_finish(c, cfg_members(c, &m), &e);
		p = parse_new(c);
		for (int i = 0; i < N; i++)
		{
			size_t		len;

			if (i % 3 != 0 && i % 64 != 63)
				continue;
			len = (size_t) sprintf(s, "%s<%d>", n > 0 ? "," : "", i);
			memcpy(text + n, s, len);
			n += len;
			len = (size_t) sprintf(s, "<%d>%s", i, at < sizeof(back) ? "," : "");
			memcpy(back + (at -= len), s, len);
		}
		CHECK(accepts(p, text, n), "ordered %d", ordered);
		CHECK(accepts(p, back + at, sizeof(back) - at) == !ordered, "ordered %d: backwards", ordered);
		CHECK(accepts(p, "<63>,<127>,<191>,<255>", 22), "the required ones");
		CHECK(!accepts(p, "<63>,<127>,<255>", 16), "without <191>");
		CHECK(!accepts(p, "<63>,<127>,<191>,<255>,<127>", 28), "<127> twice");
		CHECK(!accepts(p, "<63>,<70>,<127>,<191>,<255>", 27), "<70> without <200>");
		CHECK(accepts(p, "<63>,<70>,<127>,<191>,<200>,<255>", 33), "<70> with <200>");
		parse_free(p);
	}
}

int
main(void)
{
	RUN(many_members());
	RUN(random_grammars());
	RUN(long_lists());
	RUN(ambiguous());
	RUN(deep());
	RUN(splits());
	RUN(counts());
	return check_done("test_gram_parse");
}
