/*
 * test_detok.c
 *	  Incremental detokenizing: whatever the cut between prompt and output, the emitted pieces are
 *	  complete characters, and together they equal the result of tok_decode().
 */
#include "tests/unit/check.h"
#include "tests/unit/tok_util.h"
#include "tokenizer/detokenizer.h"
#include "text/unicode.h"

/* Decode ids[0..n) incrementally, without the text of the context ids[0..cut). */
static void
incremental(const Tok *t, const int32_t *ids, size_t cut, size_t n, bool skip, Buf *out)
{
	Detok	   *d = detok_new(t, ids, cut, skip);

	for (size_t i = cut; i < n; i++)
	{
		size_t		before = out->len;

		detok_push(d, ids[i], out);
		CHECK(uni_valid(out->data + before, out->len - before), "part of a character was put out");
	}
	detok_finish(d, out);
	detok_free(d);
}

/* Special tokens with a space before them: spaces_between_special_tokens, and without. */
static void
test_tight(void)
{
	static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\342\226\201<A>", "\342\226\201<B>",
										 "\342\226\201x", "y"};
	static const size_t lens[] = {5, 3, 4, 6, 6, 4, 1};
	static const float scores[7] = {0};
	static const int32_t types[] = {2, 3, 3, 3, 3, 1, 1};
	static const int32_t ids[] = {5, 3, 4, 4, 5, 3, 6, 4};
	TokGguf		g = {
		.model = "llama", .n = 7, .tokens = (const char **) tokens, .token_len = (size_t *) lens,
		.scores = (float *) scores, .types = (int32_t *) types, .bos = 1, .eos = 2, .unk = 0, .add_bos = 1,
		.add_eos = 0, .add_space_prefix = 1
	};
	Err			e = {0};
	Tok		   *t = tok_from_gguf(&g, &e);
	Buf			plain = {0};
	Buf			tight = {0};
	Buf			tail = {0};
	Detok	   *d;

	CHECK(t != NULL, "%s", e.msg);
	tok_decode(t, ids, 8, 0, &plain);
	d = detok_new(t, NULL, 0, false);
	detok_tighten(d);
	for (int i = 0; i < 8; i++)
		detok_push(d, ids[i], &tight);
	detok_free(d);
	/* the prompt's last token counts, too */
	d = detok_new(t, ids, 2, false);
	detok_tighten(d);
	for (int i = 2; i < 8; i++)
		detok_push(d, ids[i], &tail);
	detok_free(d);
	CHECK(strcmp(plain.data, "x <A> <B> <B> x <A>y <B>") == 0, "\"%s\"", plain.data);
	CHECK(strcmp(tight.data, "x <A><B><B> x <A>y <B>") == 0, "\"%s\"", tight.data);
	CHECK(strcmp(tail.data, "<B><B> x <A>y <B>") == 0, "\"%s\"", tail.data);
	buf_free(&plain);
	buf_free(&tight);
	buf_free(&tail);
	tok_free(t);
}

/* Test all cuts of one sequence. */
static void
all_cuts(const char *name, const Tok *t, const IntVec *ids, bool skip)
{
	Buf			whole = {0};

	tok_decode(t, ids->data, ids->len, skip ? TOK_SKIP_SPECIAL : 0, &whole);
	for (size_t cut = 0; cut <= ids->len; cut++)
	{
		Buf			head = {0};
		Buf			tail = {0};

		tok_decode(t, ids->data, cut, skip ? TOK_SKIP_SPECIAL : 0, &head);
		incremental(t, ids->data, cut, ids->len, skip, &tail);
		/*
		 * If the context ends between characters, the two halves make the whole.  Otherwise the
		 * character that it began isn't emitted.
		 */
		if (head.len + tail.len == whole.len)
			CHECK((head.len == 0 || memcmp(whole.data, head.data, head.len) == 0 ||
				   memmem(head.data, head.len, "\xEF\xBF\xBD", 3) != NULL) &&
				  (tail.len == 0 || memcmp(whole.data + head.len, tail.data, tail.len) == 0),
				  "%s, cut %zu: \"%s\" + \"%s\" isn't \"%s\"", name, cut, head.data ? head.data : "",
				  tail.data ? tail.data : "", whole.data ? whole.data : "");
		else
			CHECK(head.len >= 3 && memcmp(head.data + head.len - 3, "\xEF\xBF\xBD", 3) == 0 &&
				  (tail.len == 0 || (tail.len < whole.len &&
									 memcmp(whole.data + whole.len - tail.len, tail.data, tail.len) == 0)),
				  "%s, cut %zu: \"%s\" + \"%s\" isn't \"%s\"", name, cut, head.data ? head.data : "",
				  tail.data ? tail.data : "", whole.data);
		buf_free(&head);
		buf_free(&tail);
	}
	buf_free(&whole);
}

static void
invariant(const char *name, const Buf *strs, size_t n)
{
	Tok		   *t = load_fixture(name);
	IntVec		ids = {0};
	unsigned	seed = 3;
	Err			e = {0};

	CHECK(t != NULL, "%s", name);
	for (size_t i = 0; i < n; i += 3)
	{
		intvec_reset(&ids);
		tok_encode(t, strs[i].data, strs[i].len, TOK_ADD_SPECIAL, &ids, &e);
		all_cuts(name, t, &ids, i % 2 == 0);
	}
	for (int i = 0; i < 2000; i++)
	{
		intvec_reset(&ids);
		for (int k = rand_r(&seed) % 9; k >= 0; k--)
			intvec_push(&ids, rand_r(&seed) % (rand_r(&seed) % 2 ? 300 : tok_vocab_size(t) + 3));
		all_cuts(name, t, &ids, i % 2 == 0);
	}
	intvec_free(&ids);
	tok_free(t);
}

/* Return the id of the byte c. */
static int32_t
byte_id(const Tok *t, unsigned char c)
{
	for (int32_t id = 0; id < tok_vocab_size(t); id++)
	{
		size_t		n;
		const char *s = tok_piece(t, id, &n);

		if (n == 1 && (unsigned char) *s == c && !tok_is_special(t, id))
			return id;
	}
	return -1;
}

/* Bytes as tokens, the first `cut` of them in the context. */
static void
bytes(const Tok *t, const char *s, size_t cut, const char *want)
{
	IntVec		ids = {0};
	Buf			out = {0};

	for (size_t i = 0; s[i] != '\0'; i++)
		intvec_push(&ids, byte_id(t, (unsigned char) s[i]));
	incremental(t, ids.data, cut, ids.len, false, &out);
	CHECK(strcmp(out.data ? out.data : "", want) == 0, "gave \"%s\", expected \"%s\"",
		  out.data ? out.data : "", want);
	intvec_free(&ids);
	buf_free(&out);
}

#define FFFD "\xEF\xBF\xBD"

static void
cases(void)
{
	Tok		   *gpt2 = load_fixture("gpt2");
	Tok		   *llama = load_fixture("llama2");
	Tok		   *meta = load_fixture("metaspace");
	int32_t		hello;
	int32_t		two[2];
	int32_t		five[5];
	Buf			out = {0};

	bytes(gpt2, "\xE4\xBD\xA0x", 0, "\xE4\xBD\xA0x");
	bytes(gpt2, "\xE4\xBD\xA0x", 2, "x");	/* the prompt's character */
	bytes(gpt2, "\xE4\xBDx", 2, "x");
	bytes(gpt2, "\xE4\xBD\xE4\xBD\xA0", 2, "\xE4\xBD\xA0");
	bytes(gpt2, "\xF0\x9F\x98", 0, FFFD);	/* one maximal subpart */
	bytes(gpt2, "\xF0\x9F\x98", 1, "");
	bytes(gpt2, "\xFF\xFE", 0, FFFD FFFD);
	bytes(llama, "\xF0\x9F\x98", 0, FFFD FFFD FFFD);	/* byte fallback: one a byte */
	bytes(llama, "\xF0\x9F\x98", 1, FFFD FFFD);
	bytes(llama, "\xF0\x9F\x98\x80", 1, "");

	/* SentencePiece: only the first token of a text loses its space */
	hello = tok_find(llama, "\xE2\x96\x81the", 6);
	CHECK(hello >= 0, "no token for \"the\"");
	two[0] = two[1] = hello;
	incremental(llama, two, 0, 2, false, &out);
	CHECK(strcmp(out.data, "the the") == 0, "\"%s\"", out.data);
	buf_reset(&out);
	incremental(llama, two, 1, 2, false, &out);
	CHECK(strcmp(out.data, " the") == 0, "\"%s\"", out.data);
	buf_reset(&out);
	/* a character that began in the context is text, too: the text after it keeps its space */
	for (int i = 0; i < 4; i++)
		five[i] = byte_id(llama, (unsigned char) "\xF0\x9F\x98\x80"[i]);
	five[4] = hello;
	for (size_t cut = 1; cut < 4; cut++)
	{
		incremental(llama, five, cut, 5, false, &out);
		CHECK(strcmp(out.data, " the") == 0, "cut %zu: \"%s\"", cut, out.data);
		buf_reset(&out);
	}
	two[0] = tok_find(llama, "<s>", 3);
	incremental(llama, two, 1, 2, true, &out);
	CHECK(strcmp(out.data, "the") == 0, "\"%s\"", out.data);
	buf_reset(&out);
	two[0] = two[1] = tok_find(meta, "\xE2\x96\x81", 3);
	incremental(meta, two, 0, 2, false, &out);
	CHECK(strcmp(out.data, " ") == 0, "\"%s\"", out.data);
	buf_free(&out);
	tok_free(gpt2);
	tok_free(llama);
	tok_free(meta);
}

int
main(void)
{
	Buf		   *strs;
	size_t		n = load_strings(&strs);

	CHECK(n == 2000, "%zu strings", n);
	cases();
	invariant("gpt2", strs, n);
	invariant("qwen2", strs, n);
	invariant("llama2", strs, n);
	invariant("mistral", strs, n);
	invariant("metaspace", strs, n);
	free_strings(strs, n);
	RUN(test_tight());
	return check_done("detok");
}
