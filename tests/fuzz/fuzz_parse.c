/*
 * fuzz_parse.c
 *	  Parsing of outputs: any text, by any pair of parsers.
 *
 * The input is four bytes, which select the options (parser of reasoning, of tool calls, flags, where to
 * cut), and the text.  The result must not depend on the cuts, and calls must be JSON.  The pieces of a
 * stream, read as they come, must add up to the final result; the emitted part of a text that turned out
 * not to be a call must be invalid JSON.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/json/json.h"
#include "server/request/output_splitter.h"

#define HEAD	4
#define MAX_TEXT	65536

/*
 * Parse the text with an 'x' for each byte that isn't ASCII: the text need not be UTF-8, and pieces may
 * end anywhere.
 */
static Json *
parse_ascii(const Buf *b)
{
	Buf			text = {0};
	Json	   *json;

	buf_add(&text, b->data, b->len);
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char) text.data[i] >= 0x80)
			text.data[i] = 'x';
	json = json_parse(text.data, text.len);
	buf_free(&text);
	return json;
}

static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
							"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"s\": "
							"{\"type\": \"string\"}, \"o\": {\"type\": \"object\"}}}}}]";

/* Return the k-th of a list of names separated by commas, modulo their number. */
static const char *
name_of(void (*names) (Buf *), size_t k, size_t *n)
{
	static Buf	list;
	size_t		count = 1;
	const char *p;

	buf_reset(&list);
	names(&list);
	for (size_t i = 0; i < list.len; i++)
		count += list.data[i] == ',';
	p = list.data;
	for (k %= count; k > 0; k--)
		p = strchr(p, ',') + 2;
	*n = strcspn(p, ",");
	return p;
}

typedef struct Parts
{
	Buf			all;
} Parts;

static void
put(Parts *p, const char *what, const Buf *b)
{
	buf_printf(&p->all, "%s %zu ", what, b->len);
	buf_add(&p->all, b->data, b->len);
}

/* cut: 0 = in one piece. */
static Parts
take_apart(const AnswerSpec *s, const char *text, size_t n, unsigned cut)
{
	Answer	   *a = answer_new(s);
	Parts		p = {0};
	Buf			calls = {0};
	Json	   *json;

	for (size_t at = 0; at < n;)
	{
		size_t		k = cut == 0 ? n : 1 + fuzz_below(&cut, 1 + fuzz_below(&cut, 40));

		if (k > n - at)
			k = n - at;
		answer_feed(a, text + at, k);
		at += k;
	}
	answer_finish(a);
	put(&p, "content", answer_content(a));
	put(&p, "reasoning", answer_reasoning(a));
	put(&p, "calls", answer_calls(a));
	buf_addc(&calls, '[');
	buf_add(&calls, answer_calls(a)->data, answer_calls(a)->len);
	buf_addc(&calls, ']');
	json = parse_ascii(&calls);
	if (json == NULL || json_count(json) != answer_n_calls(a) || (s->one_call && answer_n_calls(a) > 1))
		abort();
	json_free(json);
	buf_free(&calls);
	answer_free(a);
	return p;
}

/* ---- streams ---- */

#define MAX_CALLS	4096

typedef struct Streamed
{
	Buf			content;
	Buf			reasoning;
	Buf			name[MAX_CALLS];
	Buf			arguments[MAX_CALLS];
	int			n;
} Streamed;

/* Replace NUL, at which a tree's strings would end, by another character. */
static void
replace_nul(Buf *b)
{
	for (size_t i = 0; i + 6 <= b->len; i++)
		if (b->data[i] == '\\')
		{
			if (memcmp(b->data + i, "\\u0000", 6) == 0)
				b->data[i + 5] = '1';
			i++;
		}
}

static Json *
call_list(const Buf *calls)
{
	Buf			list = {0};
	Json	   *json;

	buf_addc(&list, '[');
	buf_add(&list, calls->data, calls->len);
	buf_addc(&list, ']');
	replace_nul(&list);
	json = parse_ascii(&list);
	buf_free(&list);
	if (json == NULL)
		abort();
	return json;
}

static const char *
member_of(const Json *call, const char *name)
{
	return json_str_of(json_get(json_get(call, "function"), name));
}

/* Read and empty the buffers. */
static void
read_pieces(Answer *a, Streamed *s)
{
	Json	   *calls = call_list(answer_calls(a));
	const Json *v;

	buf_add(&s->content, answer_content(a)->data, answer_content(a)->len);
	buf_add(&s->reasoning, answer_reasoning(a)->data, answer_reasoning(a)->len);
	json_each(v, calls)
	{
		int			i = json_to_int(json_get(v, "index"));
		bool		first = json_get(v, "id") != NULL;

		if (i >= MAX_CALLS)
			continue;
		/* in order */
		if (i != s->n - !first)
			abort();
		s->n += first;
		if (first)
			buf_addstr(&s->name[i], member_of(v, "name"));
		buf_addstr(&s->arguments[i], member_of(v, "arguments"));
	}
	json_free(calls);
	buf_reset(answer_content(a));
	buf_reset(answer_reasoning(a));
	buf_reset(answer_calls(a));
}

static bool
is_text(const Buf *b, const char *s, size_t n)
{
	return b->len == n && (n == 0 || memcmp(b->data, s, n) == 0);
}

static bool
is_json(const Buf *b)
{
	Json	   *json = parse_ascii(b);

	json_free(json);
	return json != NULL;
}

/* The calls of the whole text equal those of the stream, in order, less those that are invalid JSON. */
static void
check_calls(const Buf *whole, const Streamed *s)
{
	Json	   *calls = call_list(whole);
	const Json *v = calls->child;

	for (int i = 0; i < s->n; i++)
	{
		const char *arguments = v != NULL ? member_of(v, "arguments") : NULL;
		const char *name = v != NULL ? member_of(v, "name") : NULL;

		if (arguments != NULL && is_text(&s->arguments[i], arguments, strlen(arguments)) &&
			is_text(&s->name[i], name, strlen(name)))
			v = v->next;
		else if (is_json(&s->arguments[i]))
			abort();
	}
	if (v != NULL && s->n < MAX_CALLS)
		abort();
	json_free(calls);
}

static void
check_stream(AnswerSpec *spec, const char *text, size_t n, unsigned cut)
{
	static Streamed s;
	Answer	   *whole = answer_new(spec);
	Answer	   *a;

	answer_feed(whole, text, n);
	answer_finish(whole);
	spec->stream = true;
	a = answer_new(spec);
	for (size_t at = 0; at < n;)
	{
		size_t		k = 1 + fuzz_below(&cut, 1 + fuzz_below(&cut, 20));

		k = k < n - at ? k : n - at;
		answer_feed(a, text + at, k);
		at += k;
		if (answer_has(a))
			read_pieces(a, &s);
	}
	answer_finish(a);
	read_pieces(a, &s);
	if (!is_text(answer_content(whole), s.content.data, s.content.len) ||
		!is_text(answer_reasoning(whole), s.reasoning.data, s.reasoning.len))
		abort();
	check_calls(answer_calls(whole), &s);
	for (int i = 0; i < s.n; i++)
	{
		buf_reset(&s.name[i]);
		buf_reset(&s.arguments[i]);
	}
	buf_reset(&s.content);
	buf_reset(&s.reasoning);
	s.n = 0;
	answer_free(whole);
	answer_free(a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AnswerSpec	s = {.tools_json = tools,.n_tools_json = sizeof(tools) - 1,.key = 1};
	const char *text = (const char *) data + HEAD;
	size_t		n;
	const char *name;
	Parts		whole;
	Parts		pieces;

	if (size < HEAD || size > MAX_TEXT)
		return 0;
	if (data[0] > 0)
	{
		name = name_of(reason_format_names, data[0] - 1u, &n);
		s.reason = reason_format_find(name, n);
	}
	name = name_of(tool_format_names, data[1], &n);
	s.tools = tool_format_find(name, n);
	s.choice = (data[2] & 7) == 7 ? TOOLS_NAMED : (data[2] & 7) == 6 ? TOOLS_REQUIRED : (data[2] & 7) == 5 ?
		TOOLS_NONE : TOOLS_AUTO;
	s.named = "f";
	s.one_call = (data[2] & 8) != 0;
	s.drop_reasoning = (data[2] & 16) != 0;
	s.stream = (data[2] & 32) != 0;
	s.at = (ReasonAt) (data[2] >> 6);
	n = size - HEAD;
	whole = take_apart(&s, text, n, 0);
	pieces = take_apart(&s, text, n, 1u + data[3]);
	if (whole.all.len != pieces.all.len || memcmp(whole.all.data, pieces.all.data, whole.all.len) != 0)
		abort();
	buf_free(&whole.all);
	buf_free(&pieces.all);
	s.stream = false;
	check_stream(&s, text, n, 1u + data[3]);
	return 0;
}

/* ---- seeds: the texts of tests/parse ---- */

typedef struct Seeds
{
	Buf		   *b;
	size_t		n;
} Seeds;

static const Seeds *
all_seeds(void)
{
	static const char *const patterns[] = {"tests/parse/*.json", NULL};
	static Seeds s;
	const glob_t *g;

	if (s.n > 0)
		return &s;
	g = fuzz_files(patterns);
	for (size_t i = 0; i < g->gl_pathc; i++)
	{
		Buf			file = fuzz_read(g->gl_pathv[i]);
		Json	   *root = json_parse(file.data, file.len);
		const Json *c;

		json_each(c, json_get(root, "cases"))
		{
			const char *text = json_str_of(json_get(c, "text"));
			const char head[HEAD] = {(char) (i % 19), (char) i, (char) (s.n % 256), (char) s.n};

			s.b = mem_realloc(s.b, (s.n + 1) * sizeof(Buf));
			s.b[s.n] = (Buf) {0};
			buf_add(&s.b[s.n], head, HEAD);
			buf_addstr(&s.b[s.n++], text != NULL ? text : "");
		}
		json_free(root);
		buf_free(&file);
	}
	return &s;
}

size_t
fuzz_count(void)
{
	return all_seeds()->n;
}

void
fuzz_seed(size_t i, Buf *b)
{
	buf_add(b, all_seeds()->b[i].data, all_seeds()->b[i].len);
}

/* Choose another pair of parsers, or insert a part of another text, a tag, or bytes. */
void
fuzz_change(Buf *b, unsigned *seed)
{
	static const char *const piece[] = {"<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>",
										"</tool_call>", "<tool_calls>", "</tool_calls>", "[TOOL_CALLS]",
										"[ARGS]", "<|tool_call|>", "<function=f>", "</function>",
										"<parameter=a>", "</parameter>",
		"<arg_key>a</arg_key>", "<arg_value>", "</arg_value>", "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
		"[f(a=1), f(s='x')]", "<|channel|>", "<|message|>", "<|start|>assistant", "<|end|>", "<|call|>",
		"```json\n", "```", "\n", "\\", "\"", "'", "{", "}", "[", "]", "(", ")", ",", ";", "\xC3\xA9",
		"<escape>", "<response>", "</response>", "<answer>\n", "\n</answer>", "Here is my response:",
		"functools", "<|python_tag|>", "<seed:think>", "</seed:think>", "<\xEF\xBD\x9Ctool\xE2\x96\x81"
		"calls\xE2\x96\x81" "begin\xEF\xBD\x9C>"};
	const Seeds *all = all_seeds();
	unsigned	what = (unsigned) rand_r(seed) % 8;

	if (what == 0 && b->len >= HEAD)
		b->data[fuzz_below(seed, HEAD)] = (char) rand_r(seed);
	else if (what < 5)
	{
		const char *s = piece[fuzz_below(seed, sizeof(piece) / sizeof(piece[0]))];

		fuzz_replace(b, fuzz_below(seed, b->len + 1), rand_r(seed) % 3 == 0 ? fuzz_below(seed, 12) : 0, s,
					 strlen(s));
	}
	else if (what == 5)
	{
		const Buf  *o = &all->b[fuzz_below(seed, all->n)];
		size_t		from = fuzz_below(seed, o->len);

		fuzz_replace(b, fuzz_below(seed, b->len + 1), 0, o->data + from, fuzz_below(seed, o->len - from + 1));
	}
	else
		fuzz_bytes(b, b->len, seed);
}

FUZZ_MAIN("fuzz_parse", 20000)
