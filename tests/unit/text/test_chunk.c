/*
 * test_chunk.c
 *	  src/text/chunker.c, chunk_boundaries.c: invariants of every split, over random texts, and examples
 *	  of splits.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"
#include "text/chunker.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "tests/unit/tok_util.h"

/* ---- tokenizers ---- */

/* A token for every byte. */
static bool
bytes(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	(void) ctx, (void) s, (void) e;
	for (size_t i = 0; i < n; i++)
		intvec_push(out, (int32_t) i);
	return true;
}

/* Words with the space before them, three letters a token, as byte-level BPE might have. */
static bool
threes(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	size_t		run = 0;

	(void) ctx, (void) e;
	for (size_t i = 0; i < n; i++)
	{
		bool		space = s[i] == ' ' || s[i] == '\n';

		if (i == 0 || space || run == 3)
		{
			intvec_push(out, (int32_t) i);
			run = 0;
		}
		run += space ? 0 : 1;
	}
	return true;
}

/* One token for each word, none for white space, as WordPiece. */
static bool
words(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	bool		space = true;

	(void) ctx, (void) e;
	for (size_t i = 0; i < n; i++)
	{
		bool		now = s[i] == ' ' || s[i] == '\n';

		if (space && !now)
			intvec_push(out, (int32_t) i);
		space = now;
	}
	return true;
}

/* One token more at the beginning than in the middle: a chunk alone is longer than its part of the text. */
static bool
prefixed(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	if (n > 0 && s[0] != ' ')
		intvec_push(out, 0);
	return words(ctx, s, n, out, e);
}

static struct
{
	const char *name;
	ChunkEncoder enc;
}			encoders[] = {
	{"bytes", {bytes, NULL}},
	{"threes", {threes, NULL}},
	{"words", {words, NULL}},
	{"prefixed", {prefixed, NULL}},
};

/* ---- invariants of every split ---- */

static bool exact = true;		/* the encoder knows where tokens begin */

static uint64_t seed = 7;

static unsigned
next_random(unsigned below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned) (seed >> 33) % below;
}

static void
random_text(Buf *b, int parts)
{
	static const char *const part[] = {
		"a", "word", "Sentence", " ", " ", " ", " ", ". ", "! ", "? Yes", "\n", "\n\n", "\n\n\n",
		"# Heading\n", "\n## Two\n\n", "```\ncode here\nmore\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n",
		"é", "世界。", "\xF0\x9F\x98\x80", "- item\n", "  ", "verylongwordwithoutanyspaceinsideofit",
		"e.g. this", "Dr. Who", "\t", "~~~\n", "\"Quoted.\" ", "Title\n=====\n", "3.14"
	};

	buf_reset(b);
	buf_addstr(b, "");
	for (int i = 0; i < parts; i++)
		buf_addstr(b, part[next_random(sizeof(part) / sizeof(part[0]))]);
}

static bool
is_white(const char *s, int from, int to)
{
	while (from < to)
	{
		size_t		len;

		if (!(uni_class(utf8_next(s + from, &len)) & UNI_SPACE))
			return false;
		from += (int) len;
	}
	return true;
}

static int
characters(const char *s, int from, int to)
{
	int			n = 0;

	for (; from < to; from++)
		n += ((unsigned char) s[from] & 0xC0) != 0x80;
	return n;
}

static void
check_cut(int which, ChunkMethod method, int size, int overlap, const Buf *b)
{
	const ChunkEncoder *enc = &encoders[which].enc;
	IntVec		v = {0},
				starts = {0};
	Err			e;
	int			done = 0,
				last_begin = -1;
	bool		ok = true;

	if (!chunk_text(enc, method, size, overlap, b->data, b->len, &v, &e))
	{
		CHECK(false, "failed: %s", e.msg);
		return;
	}
	for (size_t i = 0; ok && i < v.len; i += 4)
	{
		int			begin = v.data[i],
					end = v.data[i + 1];

		intvec_reset(&starts);
		enc->starts(enc->ctx, b->data + begin, (size_t) (end - begin), &starts, &e);
		ok = begin > last_begin && end > done && begin < end && (size_t) end <= b->len;
		ok = ok && uni_valid(b->data + begin, (size_t) (end - begin));
		ok = ok && (starts.len <= (size_t) size || characters(b->data, begin, end) == 1);
		if (method == CHUNK_TOKENS)
			ok = ok && (overlap == 0 ? begin == done : begin <= done);
		else
			ok = ok && (begin <= done || is_white(b->data, done, begin)) && (overlap > 0 || begin >= done);
		ok = ok && v.data[i + 2] <= v.data[i + 3];
		ok = ok && (v.data[i + 2] < v.data[i + 3] || !exact || is_white(b->data, begin, end));
		last_begin = begin;
		done = end;
	}
	ok = ok && (method == CHUNK_TOKENS ? (size_t) done == b->len : is_white(b->data, done, (int) b->len));
	CHECK(ok, "%s, method %d, size %d, overlap %d, chunk at %d to %d of %zu tokens: \"%s\"",
		  encoders[which].name, method, size, overlap, last_begin, done, starts.len, b->data);
	intvec_free(&v);
	intvec_free(&starts);
}

static void
test_random(void)
{
	Buf			b = {0};

	for (int i = 0; i < 3000; i++)
	{
		int			size = 1 + (int) next_random(i % 5 == 0 ? 200 : 20);
		int			overlap = i % 2 ? 0 : (int) next_random((unsigned) size);

		random_text(&b, 1 + (int) next_random(60));
		for (ChunkMethod m = CHUNK_TOKENS; m <= CHUNK_RECURSIVE; m++)
			check_cut(i % 4, m, size, overlap, &b);
	}
	buf_free(&b);
}

/* ---- examples ---- */

/* wanted: the chunks, each after a '|' */
static void
cut(ChunkMethod method, int size, int overlap, const char *text, const char *wanted)
{
	IntVec		v = {0};
	Buf			got = {0};
	Err			e;

	buf_addstr(&got, "");
	if (!chunk_text(&encoders[2].enc, method, size, overlap, text, strlen(text), &v, &e))
		buf_addstr(&got, e.msg);
	for (size_t i = 0; i < v.len; i += 4)
	{
		buf_addc(&got, '|');
		buf_add(&got, text + v.data[i], (size_t) (v.data[i + 1] - v.data[i]));
	}
	CHECK(strcmp(got.data, wanted) == 0, "method %d, size %d, overlap %d: got\n%s\nwanted\n%s", method, size,
		  overlap, got.data, wanted);
	intvec_free(&v);
	buf_free(&got);
}

static void
test_sentences(void)
{
	cut(CHUNK_SENTENCES, 5, 0, "One two. Three four five. Six!", "|One two. Three four five.|Six!");
	cut(CHUNK_SENTENCES, 4, 0, "One two. Three four five. Six!", "|One two.|Three four five. Six!");
	/* longer than the size: split at words */
	cut(CHUNK_SENTENCES, 3, 0, "A b c d e f g. H i.", "|A b c|d e f|g. H i.");
	cut(CHUNK_SENTENCES, 4, 0, "Dr. Smith came. He said e.g. this. J. Doe left.",
		"|Dr. Smith came.|He said e.g. this.|J. Doe left.");
	cut(CHUNK_SENTENCES, 3, 0, "He asked \"Why?\" She left (now.) Pi is 3.14 here.",
		"|He asked \"Why?\"|She left (now.)|Pi is 3.14|here.");
	cut(CHUNK_SENTENCES, 2, 0, "See No. 5 here. ok then? no", "|See No.|5 here.|ok then?|no");
	cut(CHUNK_SENTENCES, 1, 0, "世界。你好！吗？", "|世界。你好！吗？");
	cut(CHUNK_SENTENCES, 3, 0, "no period here\nnext line\n\nnew paragraph",
		"|no period here|next line|new paragraph");
	cut(CHUNK_SENTENCES, 6, 0, "1. First item. 2. Second item.", "|1. First item. 2. Second item.");
	/* overlap: complete sentences if one fits */
	cut(CHUNK_SENTENCES, 4, 2, "A b. C d. E f. G h.", "|A b. C d.|C d. E f.|E f. G h.");
	cut(CHUNK_SENTENCES, 4, 1, "A b. C d. E f g.", "|A b. C d.|d. E f g.");
	/* a sentence that would not fit together with the overlap */
	cut(CHUNK_SENTENCES, 3, 2, "A b. C d e. F.", "|A b.|C d e.|d e. F.");
	cut(CHUNK_SENTENCES, 3, 0, " \n ", "");
	cut(CHUNK_SENTENCES, 3, 0, "", "");
}

static void
test_recursive(void)
{
	cut(CHUNK_RECURSIVE, 6, 0, "One two.\n\nThree four. Five six.\nSeven",
		"|One two.|Three four. Five six.\nSeven");
	cut(CHUNK_RECURSIVE, 4, 0, "One two.\n\nThree four. Five six.\nSeven",
		"|One two.|Three four. Five six.|Seven");
	cut(CHUNK_RECURSIVE, 2, 0, "One two.\n\nThree four. Five six.\nSeven",
		"|One two.|Three four.|Five six.|Seven");
}

static void
test_markdown(void)
{
	cut(CHUNK_MARKDOWN, 6, 0, "# One\n\nText here.\n\n# Two\n\nMore text.\n",
		"|# One\n\nText here.|# Two\n\nMore text.");
	cut(CHUNK_MARKDOWN, 8, 0, "# One\n\nText here.\n\n# Two\n\nMore text.\n",
		"|# One\n\nText here.\n\n# Two\n\nMore text.");
	cut(CHUNK_MARKDOWN, 7, 0, "# One\n## Sub\na b c\n\nd e\n", "|# One\n## Sub\na b c|d e");
	/* a code block that fits is not split */
	cut(CHUNK_MARKDOWN, 6, 0, "Text here:\n```\na b\n\n# c\n```\nAfter.",
		"|Text here:|```\na b\n\n# c\n```|After.");
	/* longer than the size: split at its lines */
	cut(CHUNK_MARKDOWN, 4, 0, "~~~~\na b c\n~~~\nd e f\n~~~~\n", "|~~~~\na b c|~~~\nd e f|~~~~");
	cut(CHUNK_MARKDOWN, 8, 0, "Intro text.\n\n| a |\n|---|\n| 1 |\n\nAfter it.\n",
		"|Intro text.|| a |\n|---|\n| 1 ||After it.");
	cut(CHUNK_MARKDOWN, 5, 0, "Title one\n=====\na b\n\nSub\n---\nc d e",
		"|Title one\n=====\na b|Sub\n---\nc d e");
	/* a heading stays with as much of its text as fits */
	cut(CHUNK_MARKDOWN, 6, 0, "# Head\nA b c. D e f. G h i.", "|# Head\nA b c.|D e f. G h i.");
	cut(CHUNK_MARKDOWN, 5, 0, "- a b\n- c d\n- e f\n", "|- a b|- c d|- e f");
	cut(CHUNK_MARKDOWN, 4, 0, "    indented code\n    more code\n\ntext",
		"|    indented code\n    more code|text");
}

static void
test_tokens(void)
{
	cut(CHUNK_TOKENS, 2, 0, "a b c d e", "|a b |c d |e");
	cut(CHUNK_TOKENS, 3, 1, "a b c d e", "|a b c |c d e");
	cut(CHUNK_TOKENS, 3, 2, "a b c d e", "|a b c |b c d |c d e");
	cut(CHUNK_NONE, 1, 0, " a b ", "| a b ");
	cut(CHUNK_NONE, 1, 0, "", "");
}

/* Linear: ten times the text takes ten times the tokenizer's work. */
static size_t encoded;

static bool
counting(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	encoded += n;
	return threes(ctx, s, n, out, e);
}

static void
test_linear(void)
{
	ChunkEncoder enc = {counting, NULL};
	Buf			b = {0};
	IntVec		v = {0};
	Err			e;

	while (b.len < 10 << 20)
		buf_addstr(&b, "A sentence of no great length. And another one\n\n");
	for (ChunkMethod m = CHUNK_TOKENS; m <= CHUNK_RECURSIVE; m++)
	{
		encoded = 0;
		intvec_reset(&v);
		CHECK(chunk_text(&enc, m, 256, 32, b.data, b.len, &v, &e), "10 MB");
		CHECK(encoded < b.len * 4, "method %d: %zu bytes tokenized for %zu", m, encoded, b.len);
	}
	intvec_free(&v);
	buf_free(&b);
}

/* ---- real vocabularies ---- */

static bool
tok_encoder(const void *ctx, const char *s, size_t n, IntVec *out, Err *e)
{
	return tok_starts(ctx, s, n, out, e);
}

static Tok *
open_tok(const char *name)
{
	Buf			path = {0},
				json = {0};
	Err			e;
	Tok		   *t = NULL;

	buf_printf(&path, FIXTURES "%s.json", name);
	if (read_file(path.data, &json))
		t = tok_from_hf(json.data, json.len, NULL, 0, &e);
	CHECK(t != NULL, "%s", path.data);
	buf_free(&path);
	buf_free(&json);
	return t;
}

/* wanted: the positions where tokens begin, as marks under the text */
static void
check_starts(const char *name, const char *text, const char *wanted)
{
	Tok		   *t = open_tok(name);
	IntVec		v = {0};
	char		got[200] = "";
	Err			e;

	if (t == NULL || !tok_starts(t, text, strlen(text), &v, &e))
		return;
	memset(got, ' ', strlen(text));
	for (size_t i = 0; i < v.len; i++)
		got[v.data[i]] = '^';
	CHECK(strcmp(got, wanted) == 0, "%s:\n%s\n%s got\n%s wanted", name, text, got, wanted);
	intvec_free(&v);
	tok_free(t);
}

/* The pieces of a byte-level vocabulary are the text; the offsets follow from them. */
static void
check_byte_level(const Tok *t, const char *name, const Buf *b)
{
	IntVec		ids = {0},
				v = {0};
	Err			e;
	size_t		pos = 0;
	bool		ok = tok_encode(t, b->data, b->len, 0, &ids, &e) && tok_starts(t, b->data, b->len, &v, &e) &&
		ids.len == v.len;

	for (size_t i = 0; ok && i < ids.len; i++)
	{
		size_t		n;
		size_t		begin = pos;

		(void) tok_piece(t, ids.data[i], &n);
		/* a part of a character begins where the character does */
		while (((unsigned char) b->data[begin] & 0xC0) == 0x80)
			begin--;
		/* an offset may include the space that belongs to the token or not */
		ok = v.data[i] == (int32_t) begin || (b->data[begin] == ' ' && v.data[i] == (int32_t) begin + 1);
		pos += n;
	}
	CHECK(ok && pos == b->len, "%s: \"%s\"", name, b->data);
	intvec_free(&ids);
	intvec_free(&v);
}

static void
test_vocabularies(void)
{
	static const char *const names[] = {
		"gpt2", "llama3", "qwen2", "bert", "bertcased", "bertaccents", "llama2", "metaspace", "t5", "unigram",
		"wordlevel", "prefix"
	};
	Buf			b = {0};

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
	{
		Tok		   *t = open_tok(names[k]);
		int			at = (int) (sizeof(encoders) / sizeof(encoders[0])) - 1;

		if (t == NULL)
			continue;
		encoders[at].name = names[k];
		encoders[at].enc = (ChunkEncoder) {tok_encoder, t};
		exact = k < 3;
		for (int i = 0; i < 60; i++)
		{
			int			size = 1 + (int) next_random(30);

			random_text(&b, 1 + (int) next_random(60));
			if (k == 0 || k == 2)
				check_byte_level(t, names[k], &b);
			for (ChunkMethod m = CHUNK_TOKENS; m <= CHUNK_RECURSIVE; m++)
				check_cut(at, m, size, i % 2 ? 0 : (int) next_random((unsigned) size), &b);
		}
		tok_free(t);
	}
	buf_free(&b);
	check_starts("bert", "Hello WORLD,  new", "^     ^^ ^^^  ^ ^");
	check_starts("bert", "naïve Café is open", "^      ^     ^  ^^ ^");
	check_starts("bert", "  two spaces\nand\tlines 3.14", "  ^   ^^^  ^ ^   ^ ^^  ^^^^");
	check_starts("bert", "“Quotes” — dashes…", "^  ^ ^^  ^   ^   ^^ ^ ^^  ");
	check_starts("bert", "世界 hello", "^  ^   ^    ");
	check_starts("bert", "x<unk>y token", "^^^ ^^^ ^    ");
	check_starts("bertcased", "Hello WORLD,  new", "^^ ^  ^^^^^^  ^ ^");
	check_starts("bertcased", "naïve Café is open", "^      ^^^   ^  ^^ ^");
	check_starts("bertcased", "  two spaces\nand\tlines 3.14", "  ^   ^ ^  ^ ^   ^ ^^  ^^^^");
	check_starts("bertcased", "“Quotes” — dashes…", "^  ^^^ ^ ^   ^   ^^ ^ ^^  ");
	check_starts("bertcased", "世界 hello", "^  ^   ^    ");
	check_starts("bertcased", "x<unk>y token", "^^^ ^^^ ^    ");
	check_starts("bertaccents", "Hello WORLD,  new", "^^ ^  ^^^^^^  ^ ^");
	check_starts("bertaccents", "naïve Café is open", "^      ^^^   ^  ^^ ^");
	check_starts("bertaccents", "  two spaces\nand\tlines 3.14", "  ^   ^ ^  ^ ^   ^ ^^  ^^^^");
	check_starts("bertaccents", "“Quotes” — dashes…", "^  ^^^ ^ ^   ^   ^^ ^ ^^  ");
	check_starts("bertaccents", "世界 hello", "^  ^   ^    ");
	check_starts("bertaccents", "x<unk>y token", "^^^ ^^^ ^    ");
	check_starts("llama2", "Hello WORLD,  new", "^^^ ^^^^^^^^^^ ^^");
	check_starts("llama2", "naïve Café is open", "^     ^^^^  ^ ^^ ^  ");
	check_starts("llama2", "  two spaces\nand\tlines 3.14", "^^ ^^^ ^^^^^^^  ^^^ ^^^^^^^");
	check_starts("llama2", "“Quotes” — dashes…", "^  ^^^^ ^^  ^^  ^ ^ ^ ^^  ");
	check_starts("llama2", "世界 hello", "^  ^  ^^   ^");
	check_starts("llama2", "x<unk>y token", "^^    ^^  ^  ");
	check_starts("metaspace", "Hello WORLD,  new", "^^^ ^^^^ ^^^^^ ^^");
	check_starts("metaspace", "naïve Café is open", "^     ^^^^  ^  ^ ^  ");
	check_starts("metaspace", "  two spaces\nand\tlines 3.14", "^^ ^^^ ^^^^^ ^   ^^ ^^^^^^^");
	check_starts("metaspace", "“Quotes” — dashes…", "^  ^^^^ ^^  ^^  ^ ^ ^ ^^  ");
	check_starts("metaspace", "世界 hello", "^  ^  ^^    ");
	check_starts("metaspace", "x<unk>y token", "^^    ^^  ^  ");
	check_starts("t5", "Hello WORLD,  new", "^^^ ^ ^^^^^^  ^  ");
	check_starts("t5", "naïve Café is open", "^ ^ ^  ^^^^  ^  ^   ");
	check_starts("t5", "  two spaces\nand\tlines 3.14", "  ^   ^    ^ ^   ^   ^ ^^ ^");
	check_starts("t5", "“Quotes” — dashes…", "^  ^^^^  ^   ^   ^^^  ^^  ");
	check_starts("t5", "世界 hello", "^      ^   ^");
	check_starts("t5", "x<unk>y token", "^^    ^ ^    ");
	check_starts("unigram", "Hello WORLD,  new", "^^^ ^^^^^^^^ ^^  ");
	check_starts("unigram", "naïve Café is open", "^ ^ ^ ^^^^^ ^  ^^^^ ");
	check_starts("unigram", "  two spaces\nand\tlines 3.14", " ^   ^^^^^^ ^   ^    ^^ ^^^");
	check_starts("unigram", "“Quotes” — dashes…", "^  ^^^^  ^  ^^  ^ ^^^^ ^  ");
	check_starts("unigram", "世界 hello", "^     ^^   ^");
	check_starts("unigram", "x<unk>y token", "^^    ^^^    ");
	check_starts("gpt2", "Hello WORLD,  new", "^^^ ^^^^^^^^^^ ^^");
	check_starts("gpt2", "naïve Café is open", "^^    ^^^   ^ ^^ ^  ");
	check_starts("gpt2", "  two spaces\nand\tlines 3.14", "^^ ^^^ ^^^^^^^  ^^^ ^^^^^^^");
	check_starts("gpt2", "“Quotes” — dashes…", "^  ^^^^ ^^  ^^  ^ ^ ^ ^^  ");
	check_starts("gpt2", "世界 hello", "^  ^  ^^    ");
	check_starts("gpt2", "x<unk>y token", "^^^ ^^^^  ^  ");
	check_starts("llama3", "Hello WORLD,  new", "^^^ ^ ^^ ^^^ ^^^^");
	check_starts("llama3", "naïve Café is open", "^      ^^    ^  ^^  ");
	check_starts("llama3", "  two spaces\nand\tlines 3.14", "^ ^^^ ^^^^^^^^  ^^^ ^^ ^^^^");
	check_starts("llama3", "“Quotes” — dashes…", "^  ^^^^ ^^   ^   ^^ ^ ^^  ");
	check_starts("llama3", "世界 hello", "^  ^   ^    ");
	check_starts("llama3", "x<unk>y token", "^^^ ^^^ ^ ^  ");
}

static void
test_refused(void)
{
	IntVec		v = {0};
	Err			e;
	ChunkMethod m;

	CHECK(!chunk_text(&encoders[0].enc, CHUNK_TOKENS, 3, 0, "\xC3", 1, &v, &e) && e.cls == ERR_INVALID,
		  "no UTF-8");
	CHECK(chunk_method_by_name("markdown", 8, &m) && m == CHUNK_MARKDOWN, "a name");
	CHECK(!chunk_method_by_name("markdow", 7, &m) && !chunk_method_by_name("", 0, &m), "no name");
	intvec_free(&v);
}

int
main(void)
{
	RUN(test_tokens());
	RUN(test_sentences());
	RUN(test_recursive());
	RUN(test_markdown());
	RUN(test_random());
	RUN(test_linear());
	RUN(test_vocabularies());
	RUN(test_refused());
	return check_done("test_chunk");
}
