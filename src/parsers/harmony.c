/*
 * harmony.c
 *	  The message format of gpt-oss (harmony.h).
 *
 * Special tokens keep their text, so the parser works on text.  A message's text is emitted as it is
 * generated, except for announcements; a call whose text is no JSON is content.  The token that ends the
 * output is not in its text: a message may lack its end.
 *
 * Tested by tests/parse/openai.json and openai_gptoss.json.
 */
#include "base/assert.h"
#include "parsers/harmony.h"

#include "base/alloc.h"
#include "parsers/tool/tool_internal.h"

#define MESSAGE	"<|message|>"
#define SLICE	4096			/* bytes */

typedef enum HarmonyWhere
{
	FRONT,						/* only white space so far */
	HEADER,
	BODY
} HarmonyWhere;

typedef enum MessageKind
{
	FINAL, ANALYSIS, ANNOUNCEMENT, CALL
} MessageKind;

struct Harmony
{
	ParseSink	sink;
	void	   *ctx;
	uint64_t	key;
	HarmonyWhere where;
	MessageKind kind;
	Buf			text;			/* not emitted yet: a header, or what may be a mark */
	size_t		scan;			/* no mark begins in text before this */
	Buf			header;			/* CALL: its header */
	Buf			body;			/* CALL: all its text */
	CallOut		out;
	JPush		args;			/* CALL: its arguments */
	KeySet		keys;			/* CALL: the names of the arguments */
	JPushIs		is;				/* state of the arguments' JSON */
	Buf			announced;
	bool		content;		/* some content was emitted */
	bool		reasoning;
	bool		begun;			/* some text of the message was emitted */
	bool		cut;			/* the text's end is not the end of a complete call or message */
};

static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};

Harmony *
harmony_new(ParseSink sink, void *ctx, uint64_t key)
{
	Harmony    *h = mem_zalloc(sizeof(*h));

	h->sink = sink;
	h->ctx = ctx;
	h->key = key;
	h->out = (CallOut) {.sink = sink,.ctx = ctx};
	return h;
}

void
harmony_free(Harmony *h)
{
	if (h == NULL)
		return;
	buf_free(&h->text);
	callout_free(&h->out);
	buf_free(&h->header);
	buf_free(&h->body);
	buf_free(&h->announced);
	keyset_free(&h->keys);
	mem_free(h);
}

static void
emit(Harmony *h, ParseKind kind, const char *s, size_t n)
{
	bool	   *any = kind == PARSE_CONTENT ? &h->content : &h->reasoning;

	if (n == 0)
		return;
	/* a further message of the same kind begins on a new line */
	if (!h->begun && *any)
		h->sink(h->ctx, &(ParseEvent) {.kind = kind,.s = "\n",.n = 1});
	h->begun = *any = true;
	h->sink(h->ctx, &(ParseEvent) {.kind = kind,.s = s,.n = n});
}

/* ---- messages ---- */

/* Return the word after lit in a header, up to white space or a mark. */
static Span
word_after(Span s, const char *lit)
{
	Span		w = {s.end, s.end};
	const char *at = span_find(&s, lit);

	if (at == NULL)
		return w;
	w.p = at + strlen(lit);
	for (w.end = w.p; w.end < s.end && !span_is_space(*w.end) && *w.end != '<'; w.end++)
		;
	return w;
}

static bool
is_word(Span w, const char *word)
{
	return strlen(word) == (size_t) (w.end - w.p) && memcmp(w.p, word, strlen(word)) == 0;
}

static void
begin_message(Harmony *h, Span header)
{
	Span		channel = word_after(header, "<|channel|>");
	Span		to = word_after(header, "to=");

	h->begun = false;
	buf_reset(&h->body);
	if (span_take(&to, "functions.") && to.p < to.end)
	{
		h->kind = CALL;
		buf_reset(&h->header);
		buf_add(&h->header, header.p, (size_t) (header.end - header.p));
		buf_addstr(&h->header, MESSAGE);
		h->args = (JPush) {.keys = &h->keys};
		keyset_reset(&h->keys);
		h->is = callout_named(&h->out, to) ? JPUSH_MORE : JPUSH_BAD;
	}
	else if (to.p < to.end || is_word(channel, "analysis"))
		h->kind = ANALYSIS;
	else if (is_word(channel, "commentary") && span_find(&header, "<|constrain|>") == NULL)
		h->kind = ANNOUNCEMENT;
	else
		h->kind = FINAL;		/* also for arguments whose recipient is damaged: an announcement has no
								 * constraint */
	if (h->kind == ANNOUNCEMENT && h->announced.len > 0)
		buf_addc(&h->announced, '\n');
}

/* Hold the byte that closes the arguments back until the message's end. */
static void
send_arguments(Harmony *h)
{
	if (h->args.first == '{' || h->args.first == '[' || h->args.first == '"')
		callout_send(&h->out, h->key, h->is == JPUSH_DONE ? 1 : 0);
}

static void
call_body(Harmony *h, const char *s, size_t n)
{
	Span		t = {s, s + n};

	buf_add(&h->body, s, n);
	if (h->is == JPUSH_MORE)
	{
		h->is = jpush(&h->args, &t, false, &h->out.args);
		send_arguments(h);
	}
	if (h->is == JPUSH_DONE)
	{
		span_space(&t);
		h->is = t.p < t.end ? JPUSH_BAD : JPUSH_DONE;
	}
	if (h->is == JPUSH_BAD)
		callout_drop(&h->out);
}

static void
body(Harmony *h, const char *s, size_t n)
{
	if (h->kind == CALL)
		call_body(h, s, n);
	else if (h->kind == ANNOUNCEMENT)
		buf_add(&h->announced, s, n);
	else
		emit(h, h->kind == FINAL ? PARSE_CONTENT : PARSE_REASONING, s, n);
}

static void
end_call(Harmony *h)
{
	Span		none = {"", ""};

	if (h->is == JPUSH_MORE)
		h->is = jpush(&h->args, &none, true, &h->out.args);
	if (h->is == JPUSH_DONE)
	{
		callout_end(&h->out, h->key);
		return;
	}
	callout_drop(&h->out);
	/* without arguments only its header can be shown */
	if (h->args.first == '\0')
		emit(h, PARSE_CONTENT, h->header.data, h->header.len);
	emit(h, PARSE_CONTENT, h->body.data, h->body.len);
}

static void
end_message(Harmony *h)
{
	ASSERT(h->where != HEADER);
	if (h->kind == CALL)
		end_call(h);
	h->kind = ANALYSIS;			/* until a header says otherwise */
	h->where = HEADER;
	h->scan = 0;
}

/* ---- the text ---- */

/* Return 1 if s begins with lit, 0 if not, -1 if it is too short to decide. */
static int
begins(Span s, const char *lit)
{
	size_t		have = (size_t) (s.end - s.p);
	size_t		n = strlen(lit);

	if (memcmp(s.p, lit, have < n ? have : n) != 0)
		return 0;
	return have < n ? -1 : 1;
}

/* Decide whether the output has this format at all; text without marks is content.  Return false if more
 * text is needed. */
static bool
front(Harmony *h)
{
	static const char *const first[] = {"<|channel|>", "<|start|>", MESSAGE, "to="};
	Span		s = {h->text.data, h->text.data + h->text.len};
	int			is = 0;

	ALWAYS(h->scan <= h->text.len);
	s.p += h->scan;
	span_space(&s);
	h->scan = (size_t) (s.p - h->text.data);
	for (int i = 0; i < 4 && is != 1; i++)
	{
		int			b = begins(s, first[i]);

		is = b != 0 ? b : is;
	}
	if (is < 0)
		return false;
	h->where = is ? HEADER : BODY;
	h->kind = FINAL;
	h->scan = 0;
	return true;
}

/*
 * Return where the last header in s begins.  The text before it is a message that lacks the mark between
 * its header and its text: combined with it, a call would get the arguments of the next one.
 */
static const char *
last_header(Span s)
{
	const char *from = s.p;
	bool		channel = false;

	for (const char *p = s.p; p < s.end && (p = memchr(p, '<', (size_t) (s.end - p))) != NULL; p++)
		for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		{
			bool		starts = i == 3 && span_trim((Span) {from, p}).p < p;

			if (begins((Span) {p, s.end}, ends[i]) != 1)
				continue;
			if (i < 3 || starts || (i == 4 && channel))
			{
				from = i < 3 ? p + strlen(ends[i]) : p;
				channel = false;
			}
			channel |= i == 4;
		}
	return from;
}

/* Emit an invalid message as content, if it is more than marks. */
static void
no_message(Harmony *h, Span s)
{
	Span		text = span_trim(s);

	(void) span_take(&text, ends[3]);
	for (size_t i = 0; i < 3; i++)
	{
		size_t		n = strlen(ends[i]);

		if ((size_t) (text.end - text.p) >= n && memcmp(text.end - n, ends[i], n) == 0)
			text.end -= n;
	}
	h->begun = false;
	if (text.p < text.end && !is_word(span_trim(text), "assistant"))
		emit(h, PARSE_CONTENT, s.p, (size_t) (s.end - s.p));
}

/* Return true if s is the beginning of a header, truncated by the text's end. */
static bool
cut_header(Span s)
{
	static const char *const first[] = {"<|start|>", "<|channel|>", "assistant"};
	Span		text = span_trim(s);

	if (tool_run_has(s, "{}\""))
		return false;
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (begins(text, first[i]) != 0)
			return true;
	return false;
}

static bool
header(Harmony *h)
{
	Span		s = {h->text.data + h->scan, h->text.data + h->text.len};
	const char *at = span_find(&s, MESSAGE);
	const char *from;

	if (at == NULL)
	{
		size_t		tail = strlen(MESSAGE) - 1;

		h->scan = h->text.len > tail ? h->text.len - tail : 0;
		return false;
	}
	from = last_header((Span) {h->text.data, at});
	no_message(h, (Span) {h->text.data, from});
	begin_message(h, (Span) {from, at});
	buf_consume(&h->text, (size_t) (at - h->text.data) + strlen(MESSAGE));
	h->where = BODY;
	h->scan = 0;
	return true;
}

/* Emit what can't be a mark; return true if a mark ended the message. */
static bool
message(Harmony *h)
{
	Span		s = {h->text.data, h->text.data + h->text.len};
	const char *p = s.p;

	for (; (p = memchr(p, '<', (size_t) (s.end - p))) != NULL; p++)
	{
		bool		hold = false;

		for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		{
			int			b = begins((Span) {p, s.end}, ends[i]);

			if (b == 1)
			{
				body(h, s.p, (size_t) (p - s.p));
				/* a header keeps its channel */
				buf_consume(&h->text, (size_t) (p - s.p) + (i == 4 ? 0 : strlen(ends[i])));
				end_message(h);
				return true;
			}
			hold |= b < 0;
		}
		if (hold)
			break;
	}
	p = p != NULL ? p : s.end;
	body(h, s.p, (size_t) (p - s.p));
	buf_consume(&h->text, (size_t) (p - s.p));
	return false;
}

void
harmony_feed(Harmony *h, const char *s, size_t n)
{
	/* in slices, so that little has to be moved after each */
	while (n > 0)
	{
		size_t		k = n < SLICE ? n : SLICE;
		bool		more = true;

		buf_add(&h->text, s, k);
		s += k;
		n -= k;
		while (more && h->text.len > 0)
			more = h->where == FRONT ? front(h) : h->where == HEADER ? header(h) : message(h);
	}
}

void
harmony_finish(Harmony *h)
{
	if (h->where == FRONT)
		h->kind = FINAL;
	h->cut = h->where == HEADER ? h->text.len > 0 : h->kind != CALL || h->is != JPUSH_DONE;
	if (h->where == HEADER)
	{
		Span		s = {h->text.data, h->text.data + h->text.len};
		const char *from = h->text.len > 0 ? last_header(s) : s.p;

		no_message(h, (Span) {s.p, cut_header((Span) {from, s.end}) ? from : s.end});
	}
	else
	{
		/* after a complete call the held text may be the beginning of its end mark */
		if (h->kind != CALL || h->is != JPUSH_DONE)
			body(h, h->text.data, h->text.len);
		end_message(h);
	}
	if (!h->content)
		emit(h, PARSE_CONTENT, h->announced.data, h->announced.len);
}

bool
harmony_is_open(const Harmony *h)
{
	return h->cut && h->out.n > 0;
}
