/*
 * test_tokenizer_kinds.c
 *	  All kinds of tokenizer on 5,200 difficult strings and on every assigned code
 *	  point, against Hugging Face tokenizers, SentencePiece and tiktoken (recorded by
 *	  tests/golden/tokenizer_kinds.py as hashes), with small vocabularies and with the
 *	  real ones of ../shared/tokenizers.  Decoding token by token equals decoding at once.
 *	  Time grows with the length of a hostile text, not with its square.
 */
#include <glob.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/gguf_vocab.h"
#include "tokenizer/detokenizer.h"
#include "text/utf8.h"
#include "tests/unit/tok_util.h"

#define GOLD "tests/golden/tok_"

static const char *shared;
static int	n_kinds;
static int	n_hostile;
static int	n_refused;
static double slowest;
static char slowest_kind[64];

/* ---------- tokenizers of any file ---------- */

static bool
ends_with(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static Tok *
load_gguf(const char *path, Err *e)
{
	GgufVocab	g;
	Tok		   *t;

	if (!gguf_vocab_read(path, &g))
		return NULL;
	t = tok_from_gguf(&g.v, e);
	gguf_vocab_free(&g);
	return t;
}

static Tok *
load_any(const char *path, Err *e)
{
	static const char qwen[] = "{\"tokenizer_class\":\"QWenTokenizer\"}";
	Buf			b = {0};
	Tok		   *t = NULL;

	if (ends_with(path, ".gguf"))
		return load_gguf(path, e);
	if (!read_file(path, &b))
		err_set(e, ERR_IO, "no file %s", path);
	else if (ends_with(path, ".json"))
		t = tok_from_hf(b.data, b.len, NULL, 0, e);
	else if (ends_with(path, ".model"))
		t = tok_from_spm(b.data, b.len, NULL, 0, e);
	else if (ends_with(path, ".tekken"))
		t = tok_from_tekken(b.data, b.len, e);
	else
		t = tok_from_tiktoken(b.data, b.len, qwen, sizeof(qwen) - 1, e);
	buf_free(&b);
	return t;
}

/* ---------- hashes ---------- */

static uint16_t
half(uint32_t h)
{
	return (h & 0xFFFF) != 0 ? (uint16_t) h : 1;
}

static uint32_t
hash_int(uint32_t h, int32_t x)
{
	const char	b[4] = {(char) x, (char) (x >> 8), (char) (x >> 16), (char) (x >> 24)};

	return fnv(h, b, 4);
}

static uint16_t
hash_texts(const Tok *t, const IntVec *ids)
{
	Buf			a = {0};
	uint16_t	h;

	tok_decode(t, ids->data, ids->len, 0, &a);
	buf_add(&a, "", 1);
	tok_decode(t, ids->data, ids->len, TOK_SKIP_SPECIAL, &a);
	h = half(fnv(FNV_START, a.data, a.len));
	buf_free(&a);
	return h;
}

/* ---------- comparing ---------- */

typedef struct Golden
{
	const uint8_t *p;			/* the rest of the file */
	size_t		n;
	uint32_t	n_out;
	const uint8_t *out;			/* code points that are left out */
} Golden;

static uint32_t
word(const uint8_t *p)
{
	return p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static bool
is_out(const Golden *g, uint32_t cp)
{
	size_t		lo = 0;
	size_t		hi = g->n_out;

	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;
		uint32_t	x = word(g->out + 4 * mid);

		if (x == cp)
			return true;
		if (x < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* Token by token, as an output is streamed. */
static void
check_stream(const char *name, const Tok *t, const IntVec *ids)
{
	Buf			whole = {0};
	Buf			parts = {0};
	Detok	   *d = detok_new(t, NULL, 0, false);

	tok_decode(t, ids->data, ids->len, 0, &whole);
	for (size_t i = 0; i < ids->len; i++)
		detok_push(d, ids->data[i], &parts);
	detok_finish(d, &parts);
	detok_free(d);
	CHECK(whole.len == parts.len && (whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0),
		  "%s: \"%s\" came token by token as \"%s\"", name, whole.data, parts.data);
	buf_free(&whole);
	buf_free(&parts);
}

/* Two texts with the special tokens around them, as pooling requests use them. */
static bool
encode_pair(const Tok *t, const Buf *a, const Buf *b, unsigned flags, IntVec *ids, IntVec *types, Err *e)
{
	IntVec		of_a = {0};
	IntVec		of_b = {0};
	unsigned	plain = flags & ~(unsigned) TOK_ADD_SPECIAL;
	bool		ok = tok_encode(t, a->data != NULL ? a->data : "", a->len, plain, &of_a, e) &&
		tok_encode(t, b->data != NULL ? b->data : "", b->len, plain, &of_b, e);

	if (ok)
		tok_wrap(t, &of_a, &of_b, (flags & TOK_ADD_SPECIAL) != 0, ids, types);
	intvec_free(&of_a);
	intvec_free(&of_b);
	return ok;
}

static void
check_record(const char *name, const Tok *t, const Buf *s, const Buf *prev, const Golden *g)
{
	IntVec		ids = {0};
	IntVec		both = {0};
	IntVec		types = {0};
	Err			e = {0};
	uint32_t	h = FNV_START;
	uint16_t	want_ids = (uint16_t) (g->p[0] | g->p[1] << 8);
	uint16_t	want_text = (uint16_t) (g->p[2] | g->p[3] << 8);
	const char *text = s->data != NULL ? s->data : "";
	bool		piece = ends_with(name, ".model") || strcmp(name, "t5.gguf") == 0;
	/* SentencePiece itself doesn't parse special tokens in a text */
	unsigned	flags = TOK_ADD_SPECIAL | (piece ? TOK_NO_PARSE_SPECIAL : 0);
	bool		same;

	CHECK(tok_encode(t, text, s->len, flags, &ids, &e), "%s: %s", name, e.msg);
	for (size_t i = 0; i < ids.len; i++)
		h = hash_int(h, ids.data[i]);
	if (prev != NULL)
	{
		CHECK(encode_pair(t, prev, s, flags, &both, &types, &e), "%s: %s", name, e.msg);
		CHECK(both.len == types.len, "%s: %zu ids, %zu types", name, both.len, types.len);
		for (size_t i = 0; i < both.len; i++)
			h = hash_int(hash_int(h, both.data[i]), types.data[i]);
	}
	same = want_ids == 0 || half(h) == want_ids;
	CHECK(same, "%s: ids of \"%.300s\"", name, text);
	CHECK(!same || want_text == 0 || hash_texts(t, &ids) == want_text, "%s: decoding of \"%.300s\"", name,
		  text);
	check_stream(name, t, &ids);
	intvec_free(&ids);
	intvec_free(&both);
	intvec_free(&types);
}

static void
make_block(const Golden *g, uint32_t first, Buf *out)
{
	char		c[4];

	buf_reset(out);
	for (uint32_t cp = first; cp < first + 256; cp++)
	{
		if ((cp >= 0xD800 && cp < 0xE000) || is_out(g, cp))
			continue;
		buf_add(out, c, utf8_put(c, cp));
		buf_addc(out, cp & 1 ? 'x' : ' ');
	}
}

static void
check_kind(const char *name, const Tok *t, Buf *file, const Buf *strs, size_t n)
{
	Golden		g = {.p = (const uint8_t *) file->data, .n = file->len};
	static const Buf none;
	Buf			block = {0};
	uint32_t	count;

	g.n_out = word(g.p);
	g.out = g.p + 4;
	g.p += 4 + 4 * (size_t) g.n_out;
	count = word(g.p);
	n_kinds++;
	g.p += 4;
	CHECK(count == n + 0x324 + 2, "%s has %u records", name, count);
	if (count != n + 0x324 + 2)
		return;
	for (size_t i = 0; i < n; i++, g.p += 4)
		check_record(name, t, &strs[i], i > 0 ? &strs[i - 1] : &none, &g);
	for (uint32_t b = 0; b < 0xE02; b++)
	{
		if (b == 0x324)
			b = 0xE00;
		make_block(&g, b * 256, &block);
		check_record(name, t, &block, NULL, &g);
		g.p += 4;
	}
	buf_free(&block);
}

/* Return the CPU seconds to encode a text of n bytes that repeats s. */
static double
seconds_for(const char *name, const Tok *t, const char *s, size_t n)
{
	Buf			text = {0};
	IntVec		ids = {0};
	Err			e = {0};
	clock_t		start;
	bool		ok;

	while (text.len < n)
		buf_addstr(&text, s);
	start = clock();
	ok = tok_encode(t, text.data, text.len, 0, &ids, &e);
	CHECK(ok || e.cls == ERR_TOO_LONG, "%s: %s", name, e.msg);
	n_refused += !ok;
	start = clock() - start;
	buf_free(&text);
	intvec_free(&ids);
	return (double) start / CLOCKS_PER_SEC;
}

/*
 * 1 MB of one character takes some tenths of a second; if it were quadratic, hours, and the suite would
 * stop the program.  bench/tokenize measures how linear it is.
 */
static void
check_hostile(const char *name, const Tok *t)
{
	static const char *const hostile[] = {"a", " ", "\xCC\x81", "ab"};

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++)
	{
		double		took = seconds_for(name, t, hostile[i], 1 << 20);

		n_hostile++;
		if (took > slowest)
		{
			slowest = took;
			snprintf(slowest_kind, sizeof(slowest_kind), "%s of %s", name, hostile[i]);
		}
	}
}

static void
check_file(const char *gold, const Buf *strs, size_t n)
{
	char		name[64];
	char		path[300];
	char	   *dot;
	Buf			file = {0};
	Err			e = {0};
	Tok		   *t;
	bool		real;

	snprintf(name, sizeof(name), "%s", gold + strlen(GOLD));
	name[strlen(name) - 4] = '\0';	/* ".bin" */
	dot = strrchr(name, '_');
	*dot = '.';
	real = strncmp(name, "shared_", 7) == 0;
	if (real)
		snprintf(path, sizeof(path), "%s/tokenizers/%s", shared, name + 7);
	else
		snprintf(path, sizeof(path), FIXTURES "%s", name);
	if (real && access(path, R_OK) != 0)
	{
		check_skip(1, path);
		return;
	}
	t = load_any(path, &e);
	CHECK(t != NULL && read_file(gold, &file), "%s: %s", name, e.msg);
	if (t != NULL && file.len > 0)
	{
			check_kind(name, t, &file, strs, n);
		check_hostile(name, t);
	}
	tok_free(t);
	buf_free(&file);
}

static size_t
all_strings(Buf **out)
{
	static const char *const files[] = {"tests/golden/tokenizer_strings.txt", "tests/golden/tok_strings.txt"};
	Buf		   *strs = NULL;
	size_t		n = 0;

	for (size_t i = 0; i < 2; i++)
	{
		Buf			file = {0};
		size_t		pos = 0;
		char	   *line;

		CHECK(read_file(files[i], &file), "no %s", files[i]);
		while ((line = next_line(&file, &pos)) != NULL)
		{
			strs = realloc(strs, (n + 1) * sizeof(Buf));
			memset(&strs[n], 0, sizeof(Buf));
			unhex(line, &strs[n++]);
		}
		buf_free(&file);
	}
	*out = strs;
	return n;
}

int
main(int argc, char **argv)
{
	Buf		   *strs;
	size_t		n = all_strings(&strs);
	glob_t		files;

	shared = getenv("VLLM_PG_SHARED") != NULL ? getenv("VLLM_PG_SHARED") : "../shared";
	CHECK(n == 5200, "%zu strings", n);
	if (glob(GOLD "*.bin", 0, NULL, &files) == 0)
	{
		for (size_t i = 0; i < files.gl_pathc; i++)
			if (argc < 2 || strstr(files.gl_pathv[i], argv[1]) != NULL)
				RUN_NAMED(strrchr(files.gl_pathv[i], '/') + 1, check_file(files.gl_pathv[i], strs, n));
		CHECK(files.gl_pathc >= 47, "only %zu kinds", files.gl_pathc);
		globfree(&files);
	}
	free_strings(strs, n);
	printf("# figure: %d kinds of tokenizer on %zu strings and 806 blocks of code points; %d hostile texts "
		   "of 1 MB, %d refused, the slowest %.2f s (%s)\n", n_kinds, n, n_hostile, n_refused, slowest,
		   slowest_kind);
	return check_done("tokenizer_kinds");
}
