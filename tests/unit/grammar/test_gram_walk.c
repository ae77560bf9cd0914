/*
 * test_gram_walk.c
 *	  Random texts from masks: tokens drawn uniformly from the allowed ones, for schemas, expressions,
 *	  grammars and structural tags.
 *
 * Each mask must leave a token, each token that it leaves must be accepted, and a complete text must
 * belong to the language: instances are checked by the schema compiled for validation, which is another
 * grammar (any order, all spellings).  What generation guarantees beyond validity is checked in the
 * text: the schema's order, no members with other names, white space.
 *
 * With ../shared beside the checkout the tokens are gpt-2's and its schemas are added; otherwise there
 * are all bytes and a few words.
 *
 *	 test_gram_walk -d SEED [SCHEMAS [VOCABULARY]]
 *								writes the generated texts as JSON lines {kind, spec, text}, for
 *								tests/golden/gram_check.py and schema_random.py, which check them with
 *								Python's jsonschema, regex and lark
 */

#include "base/alloc.h"
#include "base/json/json.h"
#include "tests/unit/check.h"
#include "tests/unit/gguf_vocab.h"
#include "grammar/grammar.h"
#include "tests/unit/grammar/gram_walk_specs.h"
#include "tests/unit/tok_util.h"

#define SOON	120				/* number of tokens after which a text is led to its end */
#define LATE	1500			/* number of tokens after which a text is left incomplete */

static uint64_t rng = 1;

static uint32_t
draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t) ((rng >> 33) % n);
}

/* ---- vocabularies ---- */

typedef struct Vocab
{
	GramToken  *token;
	size_t		n;
	GramVocab  *v;
	int32_t		end;
	int32_t		byte[256];		/* token of each single byte; -1 = none */
} Vocab;

static void
vocab_finish(Vocab *v)
{
	memset(v->byte, 0xff, sizeof(v->byte));
	for (size_t i = 0; i < v->n; i++)
		if (v->token[i].len == 1 && !v->token[i].special)
			v->byte[(uint8_t) v->token[i].bytes[0]] = (int32_t) i;
	v->end = (int32_t) v->n;
	v->token[v->n++] = (GramToken) {"", 0, true};
	v->v = gram_vocab_new(v->token, v->n, &v->end, 1);
}

static void
vocab_small(Vocab *v)
{
	static const char *const words[] = {"true", "false", "null", "\":", "\": ", "\",", "\", \"", "{\"", "\"}",
										"[\"", "\"]", "}}", "},", "00", "12", "1.5", "-1", "name", "id",
										"abc", " a", "the", "\\n", "\\u00",
		"\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "\xE4\xB8", "\n  ", "    ", "2024-", ".com", "://",
		"<f", "</", "a\"", "]}", "\"\"", "[]", "{}"};

	v->token = mem_zalloc(400 * sizeof(GramToken));
	for (int i = 0; i < 256; i++)
	{
		char		b = (char) i;

		v->token[v->n++] = (GramToken) {mem_strndup(&b, 1), 1, false};
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		v->token[v->n++] = (GramToken) {mem_strdup(words[i]), strlen(words[i]), false};
	vocab_finish(v);
}

static bool
vocab_real(Vocab *v, const char *path)
{
	GgufVocab	g;
	Err			e = {0};
	Tok		   *t;
	FILE	   *f = fopen(path, "rb");

	if (f == NULL)
		return false;
	fclose(f);
	if (!gguf_vocab_read(path, &g))
		return false;
	t = tok_from_gguf(&g.v, &e);
	gguf_vocab_free(&g);
	CHECK(t != NULL, "%s: %s", path, e.msg);
	if (t == NULL)
		return false;
	v->token = mem_zalloc(((size_t) tok_vocab_size(t) + 1) * sizeof(GramToken));
	for (int32_t i = 0; i < tok_vocab_size(t); i++)
	{
		size_t		n;
		const char *s = tok_piece(t, i, &n);

		v->token[v->n++] = (GramToken) {mem_strndup(s != NULL ? s : "", s != NULL ? n : 0), s != NULL ? n : 0,
										tok_is_special(t, i)};
	}
	tok_free(t);
	vocab_finish(v);
	return true;
}

static void
vocab_free(Vocab *v)
{
	for (size_t i = 0; i + 1 < v->n; i++)
		mem_free((void *) v->token[i].bytes);
	mem_free(v->token);
	gram_vocab_unref(v->v);
}

/* ---- a text ---- */

static bool
bit(const uint32_t *words, int32_t i)
{
	return i >= 0 && (words[i / 32] >> (i % 32) & 1);
}

/* Return any allowed token; -1 = there is none. */
static int32_t
any_token(const uint32_t *words, size_t n_words)
{
	uint32_t	n = 0;
	uint32_t	k;

	for (size_t i = 0; i < n_words; i++)
		n += (uint32_t) __builtin_popcount(words[i]);
	if (n == 0)
		return -1;
	k = draw(n);
	for (size_t i = 0; i < n_words; i++)
	{
		uint32_t	w = words[i];
		uint32_t	c = (uint32_t) __builtin_popcount(w);

		if (k >= c)
		{
			k -= c;
			continue;
		}
		for (; k > 0; k--)
			w &= w - 1;
		return (int32_t) (32 * i) + __builtin_ctz(w);
	}
	return -1;
}

/* Return an allowed token that is likely to lead to the end. */
static int32_t
ending_token(const Vocab *v, const uint32_t *words)
{
	static const char likely[] = "\"}])>/:,0e;\n";

	if (bit(words, v->end))
		return v->end;
	/* not always the same one, because it may make a list longer */
	for (const char *p = likely; *p != '\0' && draw(8) > 0; p++)
		if (bit(words, v->byte[(uint8_t) *p]))
			return v->byte[(uint8_t) *p];
	return any_token(words, gram_vocab_words(v->v));
}

/* Draw a text; returns whether it is complete. */
static bool
draw_text(Grammar *g, const Vocab *v, const char *what, Buf *out)
{
	GramMatch  *m = gram_match_new(g, v->v);
	uint32_t   *words = mem_alloc(gram_vocab_words(v->v) * sizeof(uint32_t));
	Err			e = {0};
	bool		ended = false;
	bool		ok = true;

	for (int n = 0; n < LATE && ok && !ended; n++)
	{
		int32_t		id = -1;

		ok = gram_match_mask(m, words, &e);
		CHECK(ok, "%s: behind %zu bytes: %s", what, out->len, e.msg);
		if (ok)
			id = n < SOON ? any_token(words, gram_vocab_words(v->v)) : ending_token(v, words);
		if (id < 0)
		{
			CHECK(!ok, "%s: a dead end behind %.*s", what, (int) out->len,
				  out->data == NULL ? "" : out->data);
			break;
		}
		CHECK(bit(words, v->end) == gram_match_accepting(m), "%s: the end", what);
		CHECK(gram_match_token(m, id, &ok, &e) && ok, "%s: token %d is not taken behind %.*s", what, id,
			  (int) out->len, out->data == NULL ? "" : out->data);
		ended = id == v->end;
		if (!ended)
			buf_add(out, v->token[id].bytes, v->token[id].len);
	}
	mem_free(words);
	gram_match_free(m);
	return ended;
}

/* ---- what is generated ---- */

typedef struct Counts
{
	int			texts,
				ended,
				refused;
} Counts;

static bool dump;
static bool strange;			/* schemas of a file that may contain anything */

static const char *const kind_name[] = {"json", "json_object", "regex", "choice", "grammar",
										"structural_tag"};

static void
write_text(const GramSpec *s, const Buf *text)
{
	Json	   *o = json_new(JSON_IS_OBJECT);
	char	   *line;

	json_add_str(o, "kind", kind_name[s->kind]);
	json_add_str(o, "spec", s->text);
	json_add_str(o, "text", text->data == NULL ? "" : text->data);
	line = json_print(o);
	puts(line);
	mem_free(line);
	json_free(o);
}

/* Is the only white space one blank after a comma and a colon? */
static bool
is_compact(const char *s)
{
	bool		in = false;

	for (const char *p = s; *p != '\0'; p++)
	{
		if (in && *p == '\\')
			p++;
		else if (*p == '"')
			in = !in;
		else if (!in && (*p == '\n' || *p == '\t' || *p == '\r' ||
						 (*p == ' ' && (p == s || (p[-1] != ',' && p[-1] != ':')))))
			return false;
	}
	return true;
}

/* Are the members of the root in the schema's order; strictly: and are there no others? */
static bool
in_order(const Json *schema, const Json *value, bool strict)
{
	const Json *props = json_get(schema, "properties");
	const Json *at = props != NULL ? props->child : NULL;
	const Json *m;

	/* other keywords that may be about members */
	static const char *const others[] = {"$ref", "allOf", "anyOf", "oneOf", "if", "not", "required",
										 "dependentRequired", "dependentSchemas", "dependencies", "enum",
										 "const", "extends"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (json_get(schema, others[i]) != NULL && strcmp(others[i], "required") != 0)
			return true;
	if (props == NULL || !json_is_object(value))
		return true;
	strict = strict && at != NULL && json_get(schema, "additionalProperties") == NULL &&
		json_get(schema, "patternProperties") == NULL &&
		json_get(schema, "minProperties") == NULL && json_get(schema, "unevaluatedProperties") == NULL;
	json_each(m, value)
	{
		if (json_get(props, m->key) == NULL)
		{
			const Json *r;
			bool		required = false;

			json_each(r, json_get(schema, "required"))
				required |= json_is_string(r) && strcmp(r->s, m->key) == 0;
			if (strict && !required)
				return false;
			continue;
		}
		while (at != NULL && strcmp(at->key, m->key) != 0)
			at = at->next;
		if (at == NULL)
			return false;
	}
	return true;
}

/* Are there at least minProperties different names? */
static bool
enough_names(const Json *schema, const Json *value)
{
	const Json *min = json_get(schema, "minProperties");
	int			n = 0;

	/* up to draft 7, keywords next to $ref are ignored */
	if (!json_is_number(min) || !json_is_object(value) || json_get(schema, "$ref") != NULL)
		return true;
	for (const Json *m = value->child; m != NULL; m = m->next)
		n += json_get(value, m->key) == m;
	return n >= json_to_int(min);
}

static void
check_instance(const GramSpec *s, const char *what, const Buf *text)
{
	GramSpec	full = {.kind = s->kind,.text = s->text,.len = s->len,.opt = {.validate = true}};
	const char *t = text->data == NULL ? "" : text->data;
	Err			e = {0};
	Grammar    *g = grammar_new(&full, &e);
	bool		yes = false;
	Json	   *schema = json_parse(s->text, strlen(s->text));
	Json	   *value = json_parse(t, strlen(t));

	CHECK((g == NULL && strange && e.cls == ERR_UNSUPPORTED) ||
		  (g != NULL && grammar_accepts(g, t, text->len, &yes, &e) && yes), "%s: not valid: %s%s", what, t,
		  e.msg);
	CHECK(value == NULL || in_order(schema, value, s->opt.strict), "%s: order: %s", what, t);
	CHECK(value == NULL || enough_names(schema, value), "%s: names: %s", what, t);
	CHECK(!s->opt.disable_any_whitespace || is_compact(t), "%s: white space: %s", what, t);
	json_free(schema);
	json_free(value);
	grammar_unref(g);
}

static void
draw_texts(const GramSpec *s, const Vocab *v, int n, Counts *c)
{
	Err			e = {0};
	Grammar    *g = grammar_new(s, &e);
	char		what[120];

	snprintf(what, sizeof(what), "%s %.100s", kind_name[s->kind], s->text);
	if (g == NULL)
	{
		/* members are required, but no name is allowed */
		bool		none = e.cls == ERR_INVALID &&
			(strange || (s->opt.disable_additional_properties && strstr(s->text, "minProperties") != NULL));

		CHECK(none || e.cls == ERR_UNSUPPORTED || e.cls == ERR_TOO_LONG, "%s: %s", what, e.msg);
		c->refused += !none;
		return;
	}
	for (int i = 0; i < n; i++)
	{
		Buf			text = {0};

		c->texts++;
		buf_addstr(&text, "");
		if (draw_text(g, v, what, &text))
		{
			bool		yes = false;

			c->ended++;
			CHECK(grammar_accepts(g, text.data == NULL ? "" : text.data, text.len, &yes, &e) && yes,
				  "%s: \"%s\"", what, text.data);
			if (s->kind == GRAM_JSON_SCHEMA)
				check_instance(s, what, &text);
			if (dump)
				write_text(s, &text);
		}
		buf_free(&text);
	}
	grammar_unref(g);
}

/* Vary the options from schema to schema. */
static GramOptions
options(int i)
{
	static const GramOptions o[] = {
		{.strict = true}, {.strict = false}, {.strict = true,.disable_any_whitespace = true},
		{.strict = false,.disable_additional_properties = true},
		{.strict = true,.whitespace_pattern = "[ \\n]?"}
	};

	return o[i % 5];
}

static void
own_specs(const Vocab *v, int n, Counts *c)
{
	for (size_t i = 0; i < sizeof(walk_specs) / sizeof(walk_specs[0]); i++)
	{
		GramSpec	s = {.kind = walk_specs[i].kind,.text = walk_specs[i].text,
						 .len = strlen(walk_specs[i].text)};

		s.opt.strict = true;
		draw_texts(&s, v, n, c);
		for (int k = 1; k < 5 && s.kind == GRAM_JSON_SCHEMA; k++)
		{
			s.opt = options(k);
			draw_texts(&s, v, 1, c);
		}
	}
}

static bool
shared_schemas(const char *path, const Vocab *v, int step, int n, Counts *c)
{
	Buf			b = {0};
	size_t		pos = 0;
	char	   *line;

	if (!read_file(path, &b))
		return false;
	for (int i = 0; (line = next_line(&b, &pos)) != NULL; i++)
	{
		Json	   *row = i % step == 0 ? json_parse(line, strlen(line)) : NULL;
		char	   *schema = row == NULL ? NULL : json_print(json_get(row, "schema"));

		if (schema != NULL)
		{
			GramSpec	s = {.kind = GRAM_JSON_SCHEMA,.text = schema,.len = strlen(schema),
							 .opt = options(i / step)};

			draw_texts(&s, v, n, c);
		}
		mem_free(schema);
		json_free(row);
	}
	buf_free(&b);
	return true;
}

int
main(int argc, char **argv)
{
	Vocab		small = {0};
	Vocab		real = {0};
	Counts		c = {0};
	const char *schemas = "../shared/json_schema/maskbench_dev.jsonl";
	bool		all = false;

	if (argc > 2 && strcmp(argv[1], "-d") == 0)
	{
		rng = strtoul(argv[2], NULL, 10);
		dump = all = true;
		strange = argc > 3;
		schemas = strange ? argv[3] : schemas;
	}
	vocab_small(&small);
	RUN(own_specs(&small, check_effort(1, 4, 20), &c));
	if (!vocab_real(&real, argc > 4 ? argv[4] : "../shared/tokenizers/gpt-2.gguf"))
		check_skip(1, "no shared/tokenizers/gpt-2.gguf: small vocabulary only");
	else
		RUN(own_specs(&real, check_effort(1, 3, 15), &c));
	if (!shared_schemas(schemas, real.v != NULL ? &real : &small, all ? 1 : 2, all ? 3 : 1, &c))
		check_skip(300, "no shared/json_schema/maskbench_dev.jsonl");
	fprintf(stderr, "%d texts, %d came to their end, %d specifications refused\n", c.texts, c.ended,
			c.refused);
	CHECK(c.ended * 10 >= c.texts * 9, "%d of %d texts came to their end", c.ended, c.texts);
	CHECK(strange || c.refused * 20 <= c.texts, "%d refused", c.refused);
	vocab_free(&small);
	if (real.v != NULL)
		vocab_free(&real);
	if (dump)
		return check_failed > 0;
	return check_done("test_gram_walk");
}
