/*
 * chat_template.c
 *	  Normalize messages and render them with a chat template.
 *
 * Messages come in the forms of OpenAI's API; templates expect the forms of Hugging Face's
 * apply_chat_template().  So this file first converts arguments of tool calls to objects, adds reasoning
 * under all names that templates read, and joins parts of content to one text unless the template itself
 * iterates over parts; for a template that supports only parts it converts texts to parts.
 *
 * Everything from messages, tools and documents is marked as input, except for the standard roles:
 * templates build tokens from them ('<|' + message.role + '|>').
 *
 * Tested by tests/unit/template/test_chat.c.
 */
#include "template/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "template/jinja_internal.h"

#define CONTINUE_TAG	"CONTINUE_FINAL_MESSAGE_TAG "
#define MAX_SPECIAL		16
#define MAX_TEMPLATES	32

typedef struct Special
{
	char	   *name;
	char	   *text;
	size_t		n;
} Special;

typedef struct ChatTemplateText
{
	char	   *name;
	JinTemplate *t;				/* NULL: compiling failed with err */
	bool		pairs;			/* it supports the roles of a pair */
	Err			err;
} ChatTemplateText;

struct ChatModel
{
	ChatTemplateText *templates;		/* [n_templates] */
	int			n_templates;
	ChatFormat	format;
	Special		special[MAX_SPECIAL];
	int			n_special;
};

bool
chat_format_by_name(const char *name, ChatFormat *out)
{
	static const char *const names[] = {"", "auto", "string", "openai"};

	for (size_t i = 1; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
		{
			*out = (ChatFormat) i;
			return true;
		}
	return false;
}

ChatModel *
chat_new(void)
{
	return mem_zalloc(sizeof(ChatModel));
}

/* Return true if the template has this word as a string literal. */
static bool
has_string(const char *s, size_t n, const char *word)
{
	size_t		len = strlen(word);

	for (size_t i = 1; i + len < n; i++)
		if ((s[i - 1] == '\'' || s[i - 1] == '"') && memcmp(s + i, word, len) == 0 && s[i + len] == s[i - 1])
			return true;
	return false;
}

void
chat_template(ChatModel *c, const char *name, const char *source, size_t n)
{
	ChatTemplateText *t;

	if (c->n_templates == MAX_TEMPLATES)
		return;
	c->templates = mem_realloc(c->templates, (size_t) (c->n_templates + 1) * sizeof(ChatTemplateText));
	t = &c->templates[c->n_templates++];
	*t = (ChatTemplateText) {.name = mem_strdup(name)};
	t->t = jin_compile(source, n, &t->err);
	t->pairs = has_string(source, n, "query") && has_string(source, n, "document");
}

void
chat_format(ChatModel *c, ChatFormat format)
{
	c->format = format;
}

void
chat_special(ChatModel *c, const char *name, const char *text, size_t n)
{
	if (c->n_special == MAX_SPECIAL)
		return;
	c->special[c->n_special++] = (Special) {mem_strdup(name), mem_strndup(text, n), n};
}

bool
chat_has_template(const ChatModel *c)
{
	return c->n_templates > 0;
}

bool
chat_takes_pairs(const ChatModel *c)
{
	for (int i = 0; i < c->n_templates; i++)
		if (strcmp(c->templates[i].name, "default") == 0)
			return c->templates[i].pairs;
	return false;
}

bool
chat_check(const ChatModel *c, Err *e)
{
	for (int i = 0; i < c->n_templates; i++)
		if (c->templates[i].t == NULL)
		{
			*e = c->templates[i].err;
			return false;
		}
	return true;
}

void
chat_free(ChatModel *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < c->n_templates; i++)
	{
		mem_free(c->templates[i].name);
		jin_free(c->templates[i].t);
	}
	mem_free(c->templates);
	for (int i = 0; i < c->n_special; i++)
	{
		mem_free(c->special[i].name);
		mem_free(c->special[i].text);
	}
	mem_free(c);
}

/* ---- messages ---- */

typedef struct Prepare
{
	const ChatRequest *r;
	const ChatModel *model;
	const JinTemplate *t;
	ChatFormat	format;			/* STRING or OPENAI */
	bool		keep_strings;	/* OPENAI, but strings are kept */
	bool		text_arguments; /* pass arguments of tool calls as text, not as the object that it contains */
	bool		parsed;			/* there were such texts */
	JStr	   *final;			/* continue_final_message: the text to be continued */
	const char *reads;			/* the parameter that is being read, for errors */
} Prepare;

static void __attribute__((noreturn, format(printf, 3, 4)))
bad_message(Jin *j, size_t i, const char *fmt,...)
{
	char		text[300];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	jin_fail(j, JE_VALUE, "message %zu %s", i + 1, text);
}

/* Mark a standard role as trusted: templates may build tokens from it. */
static JVal
trusted_role(Jin *j, JVal role)
{
	static const char *const known[] = {
		"system", "user", "assistant", "tool", "developer", "function", "ipython", "model", "tool_response",
		"documents"
	};

	for (size_t i = 0; role.t == JT_STR && i < sizeof(known) / sizeof(known[0]); i++)
		if (jin_str_is(role.s, known[i]))
			return jin_cstr(j, known[i]);
	return role;
}

/* Convert one part of content to {"type": "text", "text": ...}. */
static JVal
text_part(Jin *j, size_t i, JVal part)
{
	static const char *const texts[][2] = {
		{"text", "text"}, {"input_text", "text"}, {"output_text", "text"}, {"refusal", "refusal"},
		{"thinking", "thinking"}
	};
	JDict	   *d;
	const JVal *type;
	const JVal *text = NULL;

	if (part.t == JT_STR)
		text = &part;
	else if (part.t != JT_DICT)
		bad_message(j, i, "has a part of content that is neither a string nor an object");
	else
	{
		type = jin_dict_cget(j, part.d, "type");
		if (type == NULL || type->t != JT_STR)
			bad_message(j, i, "has a part of content without a type");
		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]) && text == NULL; k++)
			if (jin_str_is(type->s, texts[k][0]))
			{
				text = jin_dict_cget(j, part.d, texts[k][1]);
				if (text == NULL || text->t != JT_STR)
					bad_message(j, i, "has a part of content of type %s without its text", texts[k][0]);
			}
		if (text == NULL)
			jin_fail(j, JE_REFUSED, "content of type %s is not supported", jin_repr_c(j, *type));
	}
	d = jin_dict(j);
	jin_dict_cput(j, d, "type", jin_cstr(j, "text"));
	jin_dict_cput(j, d, "text", *text);
	return (JVal) {.t = JT_DICT,.d = d};
}

/* Convert content to the chosen form. */
static JVal
normal_content(Jin *j, const Prepare *p, size_t i, JVal content)
{
	JList	   *parts = jin_list(j, 1);
	JBuild		b = {0};

	if (content.t == JT_STR && p->format == CHAT_FORMAT_OPENAI && !p->keep_strings)
	{
		jin_list_add(j, parts, text_part(j, i, content));
		return jin_lval(parts, JT_LIST);
	}
	if (content.t != JT_LIST)
		return content;
	for (size_t k = 0; k < content.l->n; k++)
	{
		JVal		part = text_part(j, i, content.l->v[k]);

		jin_list_add(j, parts, part);
		if (k > 0)
			jin_build_c(j, &b, "\n");
		jin_build_str(j, &b, jin_dict_cget(j, part.d, "text")->s);
	}
	return p->format == CHAT_FORMAT_OPENAI ? jin_lval(parts, JT_LIST) : jin_sval(jin_build_done(j, &b));
}

/* Copy a dict with one entry changed. */
static JVal
with_entry(Jin *j, const JDict *d, const char *key, JVal v)
{
	JDict	   *r = jin_dict(j);

	for (size_t i = 0; i < d->n; i++)
		jin_dict_put(j, r, d->e[i].k, d->e[i].v);
	jin_dict_cput(j, r, key, v);
	return (JVal) {.t = JT_DICT,.d = r};
}

/* Convert a call's arguments, a text or none, to the form for the template. */
static JVal
normal_arguments(Jin *j, Prepare *p, const JVal *a)
{
	bool		empty;

	ALWAYS(a->t == JT_NONE || a->t == JT_STR);
	empty = a->t == JT_NONE || jin_strip(j, a->s, NULL, 3)->n == 0;
	p->parsed = true;
	if (p->text_arguments)
		return empty ? jin_sval(jin_str(j, "{}", 2, false)) : *a;
	return empty ? (JVal) {.t = JT_DICT,.d = jin_dict(j)} : jin_json_read(j, a->s->s, a->s->n, true);
}

/* Convert the arguments of tool calls to objects. */
static JVal
normal_calls(Jin *j, Prepare *p, size_t i, JVal calls)
{
	JList	   *l = jin_list(j, 0);

	if (calls.t != JT_LIST)
		return calls;
	for (size_t k = 0; k < calls.l->n; k++)
	{
		JVal		call = calls.l->v[k];
		const JVal *f = call.t == JT_DICT ? jin_dict_cget(j, call.d, "function") : NULL;
		const JVal *a = f != NULL && f->t == JT_DICT ? jin_dict_cget(j, f->d, "arguments") : NULL;

		if (call.t != JT_DICT)
			bad_message(j, i, "has a tool call that is not an object");
		if (a != NULL && (a->t == JT_STR || a->t == JT_NONE))
			call = with_entry(j, call.d, "function",
							  with_entry(j, f->d, "arguments", normal_arguments(j, p, a)));
		jin_list_add(j, l, call);
	}
	return jin_lval(l, JT_LIST);
}

static bool
says_nothing(const JVal *v)
{
	return v == NULL || v->t == JT_NONE || (v->t == JT_STR && v->s->n == 0) ||
		(v->t == JT_LIST && v->l->n == 0);
}

/*
 * Set reasoning under all names that templates read, from the first one that isn't empty.  gpt-oss's
 * template refuses `thinking` beside content in a message with tool calls.
 */
static void
name_reasoning(Jin *j, JDict *d)
{
	static const char *const names[] = {"reasoning", "reasoning_content", "thinking"};
	JVal		v;

	for (size_t i = 0; i < 3; i++)
	{
		const JVal *found = jin_dict_cget(j, d, names[i]);

		if (says_nothing(found))
			continue;
		v = *found;
		jin_dict_cput(j, d, "reasoning", v);
		jin_dict_cput(j, d, "reasoning_content", v);
		if (says_nothing(jin_dict_cget(j, d, "content")) || says_nothing(jin_dict_cget(j, d, "tool_calls")))
			jin_dict_cput(j, d, "thinking", v);
		return;
	}
}

static JVal
normal_message(Jin *j, Prepare *p, size_t i, JVal m)
{
	JDict	   *d = jin_dict(j);
	const JVal *role;

	if (m.t != JT_DICT)
		bad_message(j, i, "is not an object");
	role = jin_dict_cget(j, m.d, "role");
	if (role == NULL || role->t != JT_STR)
		bad_message(j, i, "has no role");
	for (size_t k = 0; k < m.d->n; k++)
	{
		JStr	   *key = m.d->e[k].k.s;
		JVal		v = m.d->e[k].v;

		if (jin_str_is(key, "role"))
			v = trusted_role(j, v);
		else if (jin_str_is(key, "content"))
			v = normal_content(j, p, i, v);
		else if (jin_str_is(key, "tool_calls"))
			v = normal_calls(j, p, i, v);
		jin_dict_put(j, d, m.d->e[k].k, v);
	}
	name_reasoning(j, d);
	return (JVal) {.t = JT_DICT,.d = d};
}

/* ---- continuing the last message ---- */

static JVal
tagged(Jin *j, Prepare *p, JVal v)
{
	p->final = v.s;
	return jin_sval(jin_str_join2(j, v.s, jin_str(j, CONTINUE_TAG, sizeof(CONTINUE_TAG) - 1, false)));
}

/* Put the tag after the last message's text. */
static void
tag_final(Jin *j, Prepare *p, JList *messages)
{
	JVal	   *content;
	JVal	   *last;

	if (messages->n == 0)
		jin_fail(j, JE_VALUE, "continue_final_message is set but there are no messages");
	last = &messages->v[messages->n - 1];
	ALWAYS(last->t == JT_DICT);
	content = jin_dict_cget(j, last->d, "content");
	if (content != NULL && content->t == JT_STR)
		*content = tagged(j, p, *content);
	else if (content != NULL && content->t == JT_LIST && content->l->n > 0)
	{
		JVal	   *part = &content->l->v[content->l->n - 1];
		JVal	   *text = jin_dict_cget(j, part->d, "text");

		ASSERT(text != NULL && text->t == JT_STR);	/* text_part() made it */
		*text = tagged(j, p, *text);
	}
	else
		jin_fail(j, JE_VALUE, "continue_final_message is set but the last message has no content to "
							  "continue");
	if (!jin_source_has(p->t, "content"))
	{
		p->reads = "continue_final_message";
		jin_fail(j, JE_VALUE, "continue_final_message is set but the chat template does not use \"content\"");
	}
}

/* Cut the rendered text after the last message's text. */
static bool
cut_final(const Prepare *p, Buf *out, Buf *marks, size_t from, Err *e)
{
	static const char tag[] = CONTINUE_TAG;
	size_t		n = sizeof(tag) - 1;
	const char *text = out->data + from;
	const char *mark = marks->data + from;
	size_t		len = out->len - from;
	size_t		at = SIZE_MAX;
	size_t		begin = 0;
	size_t		end = p->final->n;

	ALWAYS(marks->len == out->len);
	for (size_t i = 0; i + n - 1 <= len; i++)
		/* our tag, not one in a message's text */
		if (memcmp(text + i, tag, n - 1) == 0 && memchr(mark + i, 1, n - 1) == NULL)
			at = i;
	while (begin < end && (unsigned char) p->final->s[begin] <= ' ')
		begin++;
	while (end > begin && (unsigned char) p->final->s[end - 1] <= ' ')
		end--;
	if (at == SIZE_MAX || (end > begin && memmem(text, len, p->final->s + begin, end - begin) == NULL))
	{
		err_set(e, ERR_INVALID, "continue_final_message is set but the chat template does not keep the last "
								"message's text");
		return err_hint(e, "A template that changes or leaves out the last message can't be continued.");
	}
	/* a template that strips the text has removed the tag's space, and the text's own */
	if (at + n > len || text[at + n - 1] != ' ')
		while (at > 0 && (unsigned char) text[at - 1] <= ' ')
			at--;
	out->len = from + at;
	out->data[out->len] = '\0';
	marks->len = out->len;
	return true;
}

/* ---- rendering ---- */

static JVal
read_list(Jin *j, Prepare *p, const StrView *t, const char *what)
{
	JVal		v;

	p->reads = what;
	v = t->s != NULL ? jin_json_read(j, t->s, t->n, true) : jin_none();
	if (v.t != JT_LIST && v.t != JT_NONE)
		jin_fail(j, JE_VALUE, "%s must be a json array", what);
	for (size_t i = 0; v.t == JT_LIST && i < v.l->n; i++)
		if (v.l->v[i].t != JT_DICT)
			jin_fail(j, JE_VALUE, "%s must be a json array of objects", what);
	return v;
}

static void
set_kwargs(Jin *j, Prepare *p)
{
	static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt",
									  "continue_final_message"};
	JVal		v;

	if (p->r->kwargs.s == NULL)
		return;
	p->reads = "chat_template_kwargs";
	v = jin_json_read(j, p->r->kwargs.s, p->r->kwargs.n, false);
	if (v.t == JT_NONE)
		return;
	if (v.t != JT_DICT)
		jin_fail(j, JE_VALUE, "chat_template_kwargs must be a json object");
	for (size_t i = 0; i < v.d->n; i++)
	{
		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
			if (jin_str_is(v.d->e[i].k.s, own[k]))
				jin_fail(j, JE_VALUE, "chat_template_kwargs must not contain \"%s\"", own[k]);
		jin_dict_put(j, j->vars, v.d->e[i].k, v.d->e[i].v);
	}
}

static void
prepare(Jin *j, void *arg)
{
	Prepare    *p = arg;
	JVal		messages = read_list(j, p, &p->r->messages, "messages");

	if (messages.t != JT_LIST)
		jin_fail(j, JE_VALUE, "messages must be a json array");
	for (size_t i = 0; i < messages.l->n; i++)
		messages.l->v[i] = normal_message(j, p, i, messages.l->v[i]);
	if (p->r->continue_final_message)
		tag_final(j, p, messages.l);
	j->vars = jin_dict(j);
	jin_dict_cput(j, j->vars, "messages", messages);
	jin_dict_cput(j, j->vars, "tools", read_list(j, p, &p->r->tools, "tools"));
	jin_dict_cput(j, j->vars, "documents", read_list(j, p, &p->r->documents, "documents"));
	jin_dict_cput(j, j->vars, "add_generation_prompt", jin_bool(p->r->add_generation_prompt));
	for (int i = 0; p->model != NULL && i < p->model->n_special; i++)
	{
		const Special *s = &p->model->special[i];

		jin_dict_cput(j, j->vars, s->name, jin_sval(jin_str(j, s->text, s->n, false)));
	}
	if (p->r->effort.s != NULL)
		jin_dict_cput(j, j->vars, "reasoning_effort",
					  jin_sval(jin_str(j, p->r->effort.s, p->r->effort.n, false)));
	set_kwargs(j, p);
}

static const ChatTemplateText *
find_template(const ChatModel *c, const char *name, size_t n)
{
	for (int i = 0; c != NULL && i < c->n_templates; i++)
		if (strlen(c->templates[i].name) == n && memcmp(c->templates[i].name, name, n) == 0)
			return &c->templates[i];
	return NULL;
}

static void
no_default(const ChatModel *c, Err *e)
{
	char		names[300];
	size_t		n = 0;

	names[0] = '\0';
	for (int i = 0; i < c->n_templates && n < sizeof(names) - 60; i++)
		n += (size_t) snprintf(names + n, sizeof(names) - n, "%s\"%.50s\"", i > 0 ? ", " : "",
							   c->templates[i].name);
	err_set(e, ERR_INVALID, "none of the model's chat templates is the default");
	err_hint(e, "Name one as chat_template: %s.", names);
}

/* Choose the template: a compiled one, or the request's, then *compiled must be freed. */
static const JinTemplate *
choose(const ChatModel *own, const ChatModel *model, const ChatRequest *r, JinTemplate **compiled, Err *e)
{
	bool		tools = r->tools.s != NULL && !(r->tools.n == 4 && memcmp(r->tools.s, "null", 4) == 0);
	const ChatTemplateText *t;

	if (r->source.s != NULL)
	{
		t = find_template(model, r->source.s, r->source.n);
		if (t == NULL)
			return *compiled = jin_compile(r->source.s, r->source.n, e);
	}
	else
	{
		if (own == NULL || !chat_has_template(own))
			own = model;
		t = tools ? find_template(own, "tool_use", 8) : NULL;
		if (t == NULL)
			t = find_template(own, "default", 7);
		if (t == NULL && own != NULL && chat_has_template(own))
			no_default(own, e);
		else if (t == NULL)
		{
			err_set(e, ERR_INVALID, "the model has no chat template");
			err_hint(e, "Give one as chat_template, or as the model option \"chat_template\".");
		}
		if (t == NULL)
			return NULL;
	}
	*e = t->err;
	return t->t;
}

/* Choose the form of content: the requested one or the one that the template uses. */
static void
choose_format(Prepare *p, const ChatModel *own)
{
	JinUses		uses = jin_uses(p->t);

	p->format = p->r->format != CHAT_FORMAT_UNSET || own == NULL ? p->r->format : own->format;
	if (p->format == CHAT_FORMAT_STRING || p->format == CHAT_FORMAT_OPENAI)
		return;
	p->format = uses.content_parts ? CHAT_FORMAT_OPENAI : CHAT_FORMAT_STRING;
	p->keep_strings = uses.string_test;
}

/*
 * Render.  *rendered: the messages are valid, even if the template fails.  A template that fails has
 * refused these messages, as most do by raise_exception().
 */
static bool
render(Prepare *p, Buf *out, Buf *marks, bool *rendered, Err *e)
{
	Jin		   *j = jin_new(NULL);
	size_t		from = out->len;
	bool		ok;

	*rendered = jin_guard(j, prepare, p, e);
	ok = *rendered && jin_render(j, p->t, out, marks, e);
	if (ok && p->r->continue_final_message)
		ok = cut_final(p, out, marks, from, e);
	if (!ok && (!*rendered || e->cls == ERR_INVALID))
		err_detail(e, "parameter=%s", *rendered ? "messages" : p->reads);
	jin_end(j);
	return ok;
}

bool
chat_render(const ChatModel *own, const ChatModel *model, const ChatRequest *r, Buf *out, Buf *marks, Err *e)
{
	JinTemplate *compiled = NULL;
	Prepare		p = {.r = r,.model = model};
	size_t		from = out->len;
	size_t		marks_from = marks->len;
	bool		rendered;
	bool		ok;

	if (r->add_generation_prompt && r->continue_final_message)
		return err_set(e, ERR_INVALID, "add_generation_prompt and continue_final_message exclude each other");
	p.t = choose(own, model, r, &compiled, e);
	if (p.t == NULL)
		return false;
	choose_format(&p, own);
	ok = render(&p, out, marks, &rendered, e);
	if (!ok && rendered && p.parsed)
	{
		/* some templates (DeepSeek's) concatenate the arguments as text, which fails with objects */
		Err			again;

		out->len = from;
		marks->len = marks_from;
		p.text_arguments = true;
		ok = render(&p, out, marks, &rendered, &again);
	}
	jin_free(compiled);
	return ok;
}

bool
chat_not_empty(const Buf *text, Err *e)
{
	if (text->len > 0)
		return true;
	err_set(e, ERR_INVALID, "the chat template makes an empty prompt of these messages");
	return err_detail(e, "parameter=messages");
}
