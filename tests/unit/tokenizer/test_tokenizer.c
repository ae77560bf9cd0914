/*
 * test_tokenizer.c
 *	  Encoding and decoding against Hugging Face tokenizers (recorded by
 *	  tests/golden/tokenizer_golden.py) and llama.cpp (../shared/tokenizers); errors and invalid files.
 */
#include "tests/unit/check.h"
#include "tests/unit/gguf_vocab.h"
#include "text/unicode.h"
#include "tests/unit/tok_util.h"

static uint32_t
decode_hash(const Tok *t, const IntVec *ids)
{
	Buf			a = {0};
	uint32_t	h;

	tok_decode(t, ids->data, ids->len, 0, &a);
	buf_add(&a, "", 1);
	tok_decode(t, ids->data, ids->len, TOK_SKIP_SPECIAL, &a);
	h = fnv(FNV_START, a.data, a.len);
	buf_free(&a);
	return h;
}

static void
show_ids(const char *what, const IntVec *v)
{
	fprintf(stderr, "  %s:", what);
	for (size_t i = 0; i < v->len; i++)
		fprintf(stderr, " %d", (int) v->data[i]);
	fputc('\n', stderr);
}

/* Compare one encoding with "IDS ..."; the ids go to *got. */
static void
check_encode(const char *name, const Tok *t, const Buf *s, unsigned flags, const char *want, IntVec *got)
{
	IntVec		expect = {0};
	Err			e = {0};
	bool		ok;

	unpack_ids(want, &expect);
	intvec_reset(got);
	ok = tok_encode(t, s->data, s->len, flags, got, &e);
	CHECK(ok && same_ids(got, &expect), "%s, flags %u: \"%s\" %s", name, flags,
		  s->data ? s->data : "", e.msg);
	if (!same_ids(got, &expect))
	{
		show_ids("expected", &expect);
		show_ids("got     ", got);
	}
	intvec_free(&expect);
}

static void
golden(const char *name, const Buf *strs, size_t n)
{
	char		path[256];
	Tok		   *t = load_fixture(name);
	Buf			file = {0};
	IntVec		ids = {0};
	size_t		pos = 0;
	size_t		every = 1;
	char	   *line;

	snprintf(path, sizeof(path), GOLDEN "%s.txt", name);
	CHECK(t != NULL && read_file(path, &file), "%s can't be loaded", name);
	if (t == NULL || file.len == 0)
		return;
	sscanf(next_line(&file, &pos), "every %zu", &every);
	for (size_t i = 0; i < n; i += every)
	{
		line = next_line(&file, &pos);
		check_encode(name, t, &strs[i], TOK_ADD_SPECIAL, line, &ids);
		line = strchr(line, ' ') + 1;
		CHECK(*line == '-' || decode_hash(t, &ids) == strtoul(line, NULL, 16),
			  "%s: decoding \"%s\"", name, strs[i].data ? strs[i].data : "");
	}
	while ((line = next_line(&file, &pos)) != NULL)
	{
		char	   *sp = strchr(line + 2, ' ');

		if (line[0] == 'n')
			check_encode(name, t, &strs[strtoul(line + 2, NULL, 10) * every],
						 TOK_ADD_SPECIAL | TOK_NO_PARSE_SPECIAL, sp + 1, &ids);
		else
		{
			intvec_reset(&ids);
			unpack_ids(line + 2, &ids);
			CHECK(sp[1] == '-' || decode_hash(t, &ids) == strtoul(sp, NULL, 16), "%s: decoding %s", name,
				  line);
		}
	}
	intvec_free(&ids);
	buf_free(&file);
	tok_free(t);
}

/* Byte-level: the pieces of an encoding are the text. */
static void
round_trip(const char *name, const Buf *strs, size_t n)
{
	Tok		   *t = load_fixture(name);
	IntVec		ids = {0};
	Buf			text = {0};
	Err			e = {0};
	size_t		len;

	for (size_t i = 0; i < n; i++)
	{
		const char *s = strs[i].data ? strs[i].data : "";

		intvec_reset(&ids);
		buf_reset(&text);
		/* the ids don't show what lstrip and rstrip have removed */
		if (memchr(s, '[', strs[i].len) != NULL || memmem(s, strs[i].len, "gap", 3) != NULL)
			continue;
		CHECK(tok_encode(t, s, strs[i].len, 0, &ids, &e), "%s", e.msg);
		for (size_t k = 0; k < ids.len; k++)
		{
			const char *p = tok_piece(t, ids.data[k], &len);

			buf_add(&text, p, len);
		}
		if (uni_valid(s, strs[i].len))
			CHECK(text.len == strs[i].len && (text.len == 0 || memcmp(text.data, s, text.len) == 0),
				  "%s: \"%s\"", name, s);
	}
	intvec_free(&ids);
	buf_free(&text);
	tok_free(t);
}

/* If special tokens are not allowed in a text, it never contains one. */
static void
no_special(const char *name, const Buf *strs, size_t n)
{
	Tok		   *t = load_fixture(name);
	IntVec		ids = {0};
	Err			e = {0};

	for (size_t i = 0; i < n; i++)
	{
		bool		found = false;

		intvec_reset(&ids);
		tok_encode(t, strs[i].data, strs[i].len, TOK_NO_PARSE_SPECIAL, &ids, &e);
		for (size_t k = 0; k < ids.len; k++)
			found = found || tok_is_special(t, ids.data[k]);
		CHECK(!found, "%s: \"%s\" became a special token", name, strs[i].data);
	}
	intvec_free(&ids);
	tok_free(t);
}

/* ---------- ../shared/tokenizers ---------- */

static void
check_against(const char *name, const Tok *t, bool keeps, Buf *inp, Buf *outp)
{
	static const char sep[] = "\n__ggml_vocab_test__\n";
	size_t		pos = 0;
	size_t		bad = 0;
	char	   *s = inp->data;
	char	   *end = inp->data + inp->len;
	char	   *line;

	while ((line = next_line(outp, &pos)) != NULL && s <= end)
	{
		char	   *stop = memmem(s, (size_t) (end - s), sep, sizeof(sep) - 1);
		IntVec		want = {0};
		IntVec		got = {0};
		Buf			text = {0};
		Err			e = {0};

		if (stop == NULL)
			stop = end;
		for (char *p = line; *p != '\0';)
			if (*p == ' ')
				p++;
			else
				intvec_push(&want, (int32_t) strtol(p, &p, 10));
		tok_encode(t, s, (size_t) (stop - s), 0, &got, &e);
		if (!same_ids(&want, &got) && bad++ < 5)
		{
			fprintf(stderr, "%s: \"%.*s\"\n", name, (int) (stop - s), s);
			show_ids("expected", &want);
			show_ids("got     ", &got);
		}
		CHECK(same_ids(&want, &got), "%s", name);
		/* and back: all of these vocabularies but WordPiece keep every byte of valid UTF-8 */
		tok_decode(t, got.data, got.len, 0, &text);
		CHECK(!keeps ||
			  (text.len == (size_t) (stop - s) && (text.len == 0 || memcmp(text.data, s, text.len) == 0)),
			  "%s: \"%s\" came back", name, text.data);
		buf_free(&text);
		s = stop + sizeof(sep) - 1;
		intvec_free(&want);
		intvec_free(&got);
	}
}

/* keeps: decoding gives the original text */
static void
shared_vocab(const char *dir, const char *name, bool keeps)
{
	char		path[512];
	GgufVocab	g;
	Buf			inp = {0};
	Buf			outp = {0};
	Err			e = {0};
	Tok		   *t;

	snprintf(path, sizeof(path), "%s/tokenizers/%s.gguf", dir, name);
	if (!gguf_vocab_read(path, &g))
	{
		check_skip(1, path);
		return;
	}
	t = tok_from_gguf(&g.v, &e);
	CHECK(t != NULL, "%s: %s", name, e.msg);
	if (t != NULL)
	{
		snprintf(path, sizeof(path), "%s/tokenizers/%s.gguf.inp", dir, name);
		read_file(path, &inp);
		snprintf(path, sizeof(path), "%s/tokenizers/%s.gguf.out", dir, name);
		read_file(path, &outp);
		check_against(name, t, keeps, &inp, &outp);
	}
	tok_free(t);
	buf_free(&inp);
	buf_free(&outp);
	gguf_vocab_free(&g);
}

static void
shared_vocabs(void)
{
	const char *dir = getenv("VLLM_PG_SHARED");

	if (dir == NULL)
		dir = "../shared";
	shared_vocab(dir, "gpt-2", true);
	shared_vocab(dir, "llama-spm", true);
	shared_vocab(dir, "phi-3", true);
	shared_vocab(dir, "starcoder", true);
	shared_vocab(dir, "falcon", true);
	shared_vocab(dir, "deepseek-coder", true);
	shared_vocab(dir, "bert-bge", false);
}

/* ---------- regexes ---------- */

/* Byte-level without merges, split by a regex; *e: the result of encoding n times c. */
static bool
regex_on(const char *regex, const char *c, size_t n, const char *end, size_t *pieces, Err *e)
{
	Buf			json = {0};
	Buf			text = {0};
	IntVec		ids = {0};
	Tok		   *t;
	bool		ok;

	/* each piece becomes one unknown word */
	buf_printf(&json, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"u\":0},\"unk_token\":\"u\"},"
			   "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
			   "\"behavior\":\"Isolated\",\"invert\":false}}", regex);
	for (size_t i = 0; i < n; i++)
		buf_addstr(&text, c);
	buf_addstr(&text, end);
	t = tok_from_hf(json.data, json.len, NULL, 0, e);
	CHECK(t != NULL, "%s: %s %s", regex, e->msg, e->detail);
	ok = t != NULL && tok_encode(t, text.data, text.len, 0, &ids, e);
	*pieces = ids.len;
	tok_free(t);
	buf_free(&json);
	buf_free(&text);
	intvec_free(&ids);
	return ok;
}

/*
 * Regexes for which a backtracking matcher could take quadratic or exponential time: either they are
 * matched within the budget of steps, which is linear in the text, or the text is refused.
 */
static void
hostile_regexes(void)
{
	static const struct
	{
		const char *regex;
		const char *c;
		const char *end;
		bool		refused;
		size_t		pieces;
	}			row[] = {
		{"(?:a|a)+b", "a", "", true, 0},
		{"(?:a+)+b", "a", "c", true, 0},
		{"(?:a*)*$", "a", "!", true, 0},
		{"\\\\s+$", " ", "x", true, 0},
		{"a.*b", "a", "", true, 0},
		{"[a-z]+", "a", "", false, 1},
		{"\\\\p{M}+|x", "\xCC\x81", "", false, 1},
		{"\\\\s+(?!\\\\S)|\\\\s+|y", " ", "x", false, 3},
		{"(?=x)", "a", "xx", false, 3},
		{"\\\\d{1,3}(?=(?:\\\\d{3})*$)", "a", "12345", false, 3},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
	{
		Err			e = {0};
		size_t		pieces;
		bool		ok = regex_on(row[i].regex, row[i].c, 100000, row[i].end, &pieces, &e);

		if (row[i].refused)
			CHECK(!ok && e.cls == ERR_TOO_LONG && strstr(e.msg, "too many steps") != NULL,
				  "%s: \"%s\", %zu pieces", row[i].regex, e.msg, pieces);
		else
			CHECK(ok && pieces == row[i].pieces, "%s: \"%s\", %zu pieces", row[i].regex, e.msg, pieces);
	}
}

/* Regexes that could have another meaning in PCRE2 are refused. */
static void
refused_regexes(void)
{
	static const char *const row[] = {"(a)\\\\1", "(?<n>a)", "(?#x)a", "a(?i)b", "\\\\Ka", "\\\\Xa", "\\\\Ra",
									  "a{1,3}+", "a{2}?",
		"[[:alpha:]]", "\\\\p{Letter}", "\\\\pL", "(?i:ss)", "(?i:\\u00DF)", "[a", "(a", "a)", "(*FAIL)",
		"[]", "\\\\xE9", "(?x: a)", "[z-a]", "(?(1)a)", "(?R)", "\\\\Q*\\\\E", "a{1,100000}", "\\\\x{D800}",
		"(?~a)"};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
	{
		Buf			json = {0};
		Err			e = {0};
		Tok		   *t;

		buf_printf(&json, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"u\":0}},"
				   "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"%s\"},\"content\":\"\"}}",
				   row[i]);
		t = tok_from_hf(json.data, json.len, NULL, 0, &e);
		CHECK(t == NULL && e.cls == ERR_UNSUPPORTED && e.detail[0] != '\0', "%s: %s", row[i], e.msg);
		tok_free(t);
		buf_free(&json);
	}
}

/* ---------- errors and invalid files ---------- */

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define REST ",\"decoder\":{\"type\":\"ByteLevel\"}}"
#define GOOD MODEL("\"a\":0,\"b\":1,\"ab\":2", "\"a b\"")

static const struct
{
	const char *json;
	ErrClass	cls;		/* ERR_NONE = accepted */
	const char *msg;		/* part of the message */
}			hf_rows[] = {
	{"{" GOOD REST, ERR_NONE, ""},
	{"{" MODEL("\"a\":0,\"b\":1,\"ab\":2", "[\"a\",\"b\"]") REST, ERR_NONE, ""},
	{"", ERR_BAD_FILE, "not a JSON object"},
	{"[]", ERR_BAD_FILE, "not a JSON object"},
	{"{" GOOD REST "x", ERR_BAD_FILE, "not a JSON object"},
	{"{" GOOD ",\"decoder\":{\"type\":\"Byte", ERR_BAD_FILE, "not a JSON object"},
	{"{\"a\":\"\xFF\"}", ERR_BAD_FILE, "not valid UTF-8"},
	{"{}", ERR_BAD_FILE, "no model"},
	{"{\"model\":{\"type\":\"BPE\"}}", ERR_BAD_FILE, "no vocabulary"},
	{"{\"model\":{\"type\":\"Trigram\",\"vocab\":[]}}", ERR_UNSUPPORTED, "Trigram"},
	{"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", ERR_BAD_FILE, "empty"},
	{"{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", ERR_BAD_FILE, "no vocabulary"},
	{"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]]}}", ERR_UNSUPPORTED, "without unk_id"},
	{"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]}}", ERR_BAD_FILE, "unk_id"},
	{"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",1e999]]}}", ERR_BAD_FILE, "score"},
	{"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", ERR_BAD_FILE, "score"},
	{"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0]]}}", ERR_NONE, ""},
	{"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", ERR_BAD_FILE, "[UNK]"},
	{"{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"a\":0}}}", ERR_BAD_FILE,
	 "\"u\""},
	{"{" MODEL("", "") REST, ERR_BAD_FILE, "empty"},
	{"{" MODEL("\"a\":0,\"b\":0", "") REST, ERR_BAD_FILE, "given twice"},
	{"{" MODEL("\"a\":0,\"a\":1", "") REST, ERR_BAD_FILE, "given twice"},
	{"{" MODEL("\"a\":-1", "") REST, ERR_BAD_FILE, "bad id"},
	{"{" MODEL("\"a\":1.5", "") REST, ERR_BAD_FILE, "bad id"},
	{"{" MODEL("\"a\":1e300", "") REST, ERR_BAD_FILE, "bad id"},
	{"{" MODEL("\"a\":99999999", "") REST, ERR_BAD_FILE, "bad id"},
	{"{" MODEL("\"a\":\"x\"", "") REST, ERR_BAD_FILE, "bad id"},
	{"{" MODEL("\"a\":0,\"b\":1", "\"a b\"") REST, ERR_BAD_FILE, "not of tokens in"},
	{"{" MODEL("\"a\":0,\"b\":1", "\"ab\"") REST, ERR_BAD_FILE, "not a pair"},
	{"{" MODEL("\"a\":0,\"b\":1", "[\"a\"]") REST, ERR_BAD_FILE, "not a pair"},
	{"{" MODEL("\"a\":0,\"b\":1", "7") REST, ERR_BAD_FILE, "not a pair"},
	{"{" GOOD "}", ERR_NONE, ""},
	{"{" GOOD ",\"decoder\":{\"type\":\"CTC\"}}", ERR_UNSUPPORTED, "CTC"},
	{"{" GOOD ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
	"{\"type\":\"Metaspace\"}]}}", ERR_UNSUPPORTED, "order of decoders"},
	{"{" GOOD ",\"normalizer\":{\"type\":\"Uppercase\"}" REST, ERR_UNSUPPORTED, "Uppercase"},
	{"{" GOOD ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}" REST,
	 ERR_BAD_FILE,
	"charsmap is malformed"},
	{"{" GOOD ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}"
	 REST,
	ERR_UNSUPPORTED, "group without end"},
	{"{" GOOD ",\"pre_tokenizer\":{\"type\":\"Bert\"}" REST, ERR_UNSUPPORTED, "pre_tokenizer \"Bert\""},
	{"{" GOOD ",\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}" REST, ERR_BAD_FILE,
	 "FixedLength"},
	{"{" GOOD ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},"
	"\"behavior\":\"Isolated\",\"invert\":false}" REST, ERR_UNSUPPORTED, "unknown escape"},
	{"{" GOOD ",\"post_processor\":{\"type\":\"X\"}" REST, ERR_UNSUPPORTED, "post_processor"},
	{"{" GOOD ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}" REST, ERR_BAD_FILE,
	 "once"},
	{"{" GOOD ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"a\",0]}"
	 REST,
	ERR_BAD_FILE, "does not exist"},
	{"{" GOOD ",\"added_tokens\":[{\"id\":3}]" REST, ERR_BAD_FILE, "added token"},
	{"{" GOOD ",\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]" REST, ERR_BAD_FILE, "which is"},
	{"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", ERR_UNSUPPORTED,
	 "dropout"},
	{"{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"a\":0},\"merges\":[]}" REST,
	ERR_BAD_FILE, "unk_token"},
};

static void
refusals(void)
{
	for (size_t i = 0; i < sizeof(hf_rows) / sizeof(hf_rows[0]); i++)
	{
		Err			e = {0};
		Tok		   *t = tok_from_hf(hf_rows[i].json, strlen(hf_rows[i].json), NULL, 0, &e);

		CHECK((t == NULL) == (hf_rows[i].cls != ERR_NONE) && e.cls == hf_rows[i].cls &&
			  strstr(e.msg, hf_rows[i].msg) != NULL, "%s -> %s", hf_rows[i].json, e.msg);
		if (strstr(e.msg, "unknown escape"))
			CHECK(strcmp(e.detail, "(a)\\1") == 0, "detail is \"%s\"", e.detail);
		tok_free(t);
	}
}

/* A file cut at any position is refused. */
static void
truncated(void)
{
	Buf			b = {0};

	CHECK(read_file(FIXTURES "llama3.json", &b), "no fixture");
	for (size_t n = 0; n + 3 < b.len; n += 97)
	{
		Err			e = {0};
		Tok		   *t = tok_from_hf(b.data, n, NULL, 0, &e);

		CHECK(t == NULL && e.cls == ERR_BAD_FILE, "cut at %zu", n);
		tok_free(t);
	}
	buf_free(&b);
}

static void
config(void)
{
	static const char json[] = "{" MODEL("\"a\":0,\"<s>\":1,\"</s>\":2", "") ",\"added_tokens\":["
		"{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</s>\",\"special\":true}]"
		REST;
	static const char conf[] = "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
		"\"add_bos_token\":true,\"add_eos_token\":true}";
	Err			e = {0};
	IntVec		ids = {0};
	Tok		   *t = tok_from_hf(json, strlen(json), conf, strlen(conf), &e);

	CHECK(t != NULL, "%s", e.msg);
	CHECK(tok_bos(t) == 1 && tok_eos(t) == 2 && tok_vocab_size(t) == 3, "bos %d eos %d", tok_bos(t),
		  tok_eos(t));
	CHECK(tok_is_special(t, 1) && !tok_is_special(t, 0) && !tok_is_special(t, 99), "special");
	CHECK(tok_find(t, "</s>", 4) == 2 && tok_find(t, "x", 1) == -1, "find");
	tok_encode(t, "a<s>", 4, TOK_ADD_SPECIAL, &ids, &e);
	CHECK(ids.len == 4 && ids.data[0] == 1 && ids.data[2] == 1 && ids.data[3] == 2, "%zu ids", ids.len);
	tok_free(t);
	CHECK(tok_from_hf(json, strlen(json), "{", 1, &e) == NULL && e.cls == ERR_BAD_FILE, "bad config");
	intvec_free(&ids);
}

/* A GGUF vocabulary made here; merges or scores determine the kind. */
static const char *const gguf_tokens[] = {"<s>", "<u>", "a", "b", "ab", "\xE2\x96\x81", "<0x0A>",
										  ("\xE2\x96\x81" "ab")};
static const size_t gguf_lens[] = {3, 3, 1, 1, 2, 3, 6, 5};
static const int32_t gguf_types[] = {3, 4, 1, 1, 1, 1, 6, 1};
static const float gguf_scores[] = {0, 0, -1, -2, -3, -4, 0, -5};
static const char *const gguf_merges[] = {"a b"};

static TokGguf
gguf_base(const char *model, const char *pre)
{
	return (TokGguf) {.model = model, .pre = pre, .n = 8, .tokens = gguf_tokens, .token_len = gguf_lens,
		.types = gguf_types, .scores = gguf_scores, .merges = gguf_merges, .n_merges = 1,
		.bos = 0, .eos = 0, .unk = -1, .sep = -1, .add_bos = -1, .add_eos = -1, .add_sep = -1,
		.add_space_prefix = -1, .remove_extra_whitespaces = -1, .lowercase = -1, .strip_accents = -1};
}

static void
gguf_refused(TokGguf v, ErrClass cls, const char *msg)
{
	Err			e = {0};
	Tok		   *t = tok_from_gguf(&v, &e);

	CHECK(t == NULL && e.cls == cls && strstr(e.msg, msg) != NULL, "expected \"%s\", got \"%s\"", msg, e.msg);
	tok_free(t);
}

static void
gguf_ids(TokGguf v, const char *text, unsigned flags, const char *want)
{
	Err			e = {0};
	Tok		   *t = tok_from_gguf(&v, &e);
	IntVec		ids = {0};
	Buf			got = {0};

	CHECK(t != NULL && tok_encode(t, text, strlen(text), flags, &ids, &e), "%s", e.msg);
	for (size_t i = 0; i < ids.len; i++)
		buf_printf(&got, "%d ", (int) ids.data[i]);
	CHECK(strcmp(got.data ? got.data : "", want) == 0, "\"%s\" -> %s, expected %s", text, got.data, want);
	intvec_free(&ids);
	buf_free(&got);
	tok_free(t);
}

static void
gguf_cases(void)
{
	static const char *const bad_merge[] = {"ab"};
	static const char *const unknown_merge[] = {"a c"};
	static const char *const bad_escape[] = {"<s>", "<u>", "a", "\\x0g", "ab", "c", "\\n", "d"};
	static const size_t bad_lens[] = {3, 3, 1, 4, 2, 1, 2, 1};
	TokGguf		v = gguf_base("llama", NULL);

	gguf_ids(v, "ab", TOK_ADD_SPECIAL, "0 7 ");
	gguf_ids(v, "ab\nab", 0, "7 6 4 ");
	gguf_ids(v, "ab<u>ab", 0, "7 1 7 ");
	gguf_ids(v, "<s>ab", 0, "0 7 ");
	gguf_ids(v, "<s>ab", TOK_NO_PARSE_SPECIAL, "5 4 ");	/* "<", "s", ">" have no tokens here */
	v.add_space_prefix = 0;
	v.add_bos = 0;
	v.add_eos = 1;
	gguf_ids(v, "ab", TOK_ADD_SPECIAL, "4 0 ");
	v = gguf_base("gpt2", "gpt-2");
	gguf_ids(v, "abab", TOK_ADD_SPECIAL, "4 4 ");
	v.pre = "llama-bpe";
	gguf_ids(v, "ab", TOK_ADD_SPECIAL, "0 4 ");

	gguf_refused(gguf_base(NULL, NULL), ERR_UNSUPPORTED, "model");
	gguf_refused(gguf_base("ctc", NULL), ERR_UNSUPPORTED, "\"ctc\"");
	gguf_refused(gguf_base("rwkv", NULL), ERR_BAD_FILE, "byte 0x00");
	gguf_refused(gguf_base("plamo2", NULL), ERR_BAD_FILE, "no token <0x00>");
	v = gguf_base("rwkv", NULL);
	v.tokens = bad_escape;
	v.token_len = bad_lens;
	gguf_refused(v, ERR_BAD_FILE, "token 3 (\"\\x0g\") has a malformed escape");
	gguf_refused(gguf_base("none", NULL), ERR_UNSUPPORTED, "no vocabulary");
	gguf_refused(gguf_base("bert", NULL), ERR_BAD_FILE, "no unknown token");
	gguf_refused(gguf_base("t5", NULL), ERR_BAD_FILE, "no unknown token");
	gguf_refused(gguf_base("gpt2", NULL), ERR_UNSUPPORTED, "pre-tokenizer");
	gguf_refused(gguf_base("gpt2", "no-such"), ERR_UNSUPPORTED, "no-such");
	v = gguf_base("llama", NULL);
	v.n = 0;
	gguf_refused(v, ERR_BAD_FILE, "impossible size");
	v = gguf_base("llama", NULL);
	v.eos = 8;
	gguf_refused(v, ERR_BAD_FILE, "no token 8");
	v = gguf_base("llama", NULL);
	v.scores = NULL;
	gguf_refused(v, ERR_BAD_FILE, "no scores");
	v = gguf_base("gpt2", "gpt-2");
	v.n_merges = 0;
	gguf_refused(v, ERR_BAD_FILE, "no merges");
	v = gguf_base("gpt2", "gpt-2");
	v.merges = bad_merge;
	gguf_refused(v, ERR_BAD_FILE, "not a pair");
	v.merges = unknown_merge;
	gguf_refused(v, ERR_BAD_FILE, "not of tokens");
}

/* Tokens that tokenizer_config.json adds to a tokenizer.model. */
static void
spm_added(void)
{
	static const char config[] = "{\"tokenizer_class\": \"LlamaTokenizer\", \"eos_token\": \"<|im_end|>\", "
		"\"pad_token\": {\"content\": \"<tool>\"},\"added_tokens_decoder\": {\"900\": {\"content\": "
		"\"<|im_end|>\", \"special\": true},\"903\": {\"content\": \"<tool>\", \"special\": false, "
		"\"rstrip\": true}, \"1\": {\"content\": \"taken\"}}}";
	static const char *const bad[] = {
		"{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}",
		"{\"added_tokens_decoder\": [{\"content\": \"a\"}]}",
		"{\"added_tokens_decoder\": {\"9999999\": {\"content\": \"a\"}}}",
		"{\"added_tokens_decoder\": {\"900\": {}}}"
	};
	static const char text[] = "the<|im_end|> <tool>  the";
	/* transformers' LlamaTokenizer: no prefix space before a special token */
	static const char *const cases[][2] = {
		{"<s>the", "1 783 261 "}, {"<s> the", "1 269 "}, {"<s><s>the", "1 1 783 261 "}, {"<unk>a", "0 787 "},
		{"a b", "262 278 "},
		{"the<|im_end|>the", "269 900 783 261 "}, {"the<|im_end|> the", "269 900 269 "},
		{"<|im_end|>", "900 "},
		{"<tool>  the <tool>x", "903 783 261 781 903 817 "}
	};
	Buf			file = {0};
	Buf			out = {0};
	IntVec		ids = {0};
	Err			e = {0};
	Tok		   *t;
	size_t		n = 0;

	CHECK(read_file(FIXTURES "bpe.model", &file), "no file");
	t = tok_from_spm(file.data, file.len, config, sizeof(config) - 1, &e);
	CHECK(t != NULL, "%s", e.msg);
	if (t != NULL)
	{
		CHECK(tok_vocab_size(t) == 904 && tok_eos(t) == 900 && tok_bos(t) == 1, "%d ids, EOS %d",
			  tok_vocab_size(t), tok_eos(t));
		CHECK(tok_is_special(t, 900) && tok_is_special(t, 903) && !tok_is_special(t, 902), "special");
		CHECK(tok_encode(t, text, strlen(text), TOK_ADD_SPECIAL, &ids, &e), "%s", e.msg);
		for (size_t i = 0; i < ids.len; i++)
			n += ids.data[i] == 900 || ids.data[i] == 903;
		CHECK(n == 2 && ids.data[0] == 1, "%zu added tokens, BOS %d", n, (int) ids.data[0]);
		tok_decode(t, ids.data, ids.len, TOK_SKIP_SPECIAL, &out);
		CHECK(strncmp(out.data, "the ", 4) == 0 && strstr(out.data, "<") == NULL, "%s", out.data);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		{
			Buf			got = {0};

			intvec_reset(&ids);
			tok_encode(t, cases[i][0], strlen(cases[i][0]), 0, &ids, &e);
			for (size_t k = 0; k < ids.len; k++)
				buf_printf(&got, "%d ", (int) ids.data[k]);
			CHECK(strcmp(got.data, cases[i][1]) == 0, "\"%s\" -> %s, expected %s", cases[i][0], got.data,
				  cases[i][1]);
			buf_free(&got);
		}
		tok_free(t);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		t = tok_from_spm(file.data, file.len, bad[i], strlen(bad[i]), &e);
		CHECK(t == NULL && e.cls == ERR_BAD_FILE && strstr(e.msg, "added token") != NULL, "%s: %s", bad[i],
			  e.msg);
		tok_free(t);
	}
	buf_free(&file);
	buf_free(&out);
	intvec_free(&ids);
}

/* The regexes of every pre-tokenizer that GGUF files name can be compiled. */
static void
gguf_pre(void)
{
	static const char *const names[] = {
#define SPLIT_GGUF(name, ...) name,
#include "tokenizer/pretok/pretokenizers.def"
#undef SPLIT_GGUF
	};
	static const char text[] = "Hello, it's 12345 \u4e2dABC\n\n x\u0301  I'LL!";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		TokGguf		v = gguf_base("gpt2", names[i]);
		Err			e = {0};
		IntVec		ids = {0};
		Tok		   *t = tok_from_gguf(&v, &e);

		CHECK(t != NULL && tok_encode(t, text, sizeof(text) - 1, 0, &ids, &e), "%s: %s %s", names[i], e.msg,
			  e.detail);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(names[k], names[i]) != 0, "%s is there twice", names[i]);
		intvec_free(&ids);
		tok_free(t);
	}
}

int
main(void)
{
	static const char *const names[] = {"gpt2", "llama3", "qwen2", "qwen35", "starcoder", "llama2",
	"mistral", "phrases", "metaspace"};
	Buf		   *strs;
	size_t		n = load_strings(&strs);

	CHECK(n == 2000, "%zu strings", n);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		RUN_NAMED(names[i], golden(names[i], strs, n));
	RUN(round_trip("gpt2", strs, n));
	RUN(round_trip("llama3", strs, n));
	RUN(no_special("gpt2", strs, n));
	RUN(no_special("llama3", strs, n));
	RUN(no_special("llama2", strs, n));
	free_strings(strs, n);
	RUN(shared_vocabs());
	RUN(hostile_regexes());
	RUN(refused_regexes());
	RUN(refusals());
	RUN(truncated());
	RUN(config());
	RUN(gguf_cases());
	RUN(spm_added());
	RUN(gguf_pre());
	return check_done("tokenizer");
}
