/*
 * encode_fields.c
 *	  The parameters of a request as members of an endpoint's body (body_fields.def).
 *
 * Every field of the message is considered.  A parameter that the dialect doesn't have, or not in this
 * body, is ERR_UNSUPPORTED with the parameter's name, unless its value has no effect; nothing is
 * dropped.  A parameter that the request doesn't have is not in the body, unless the endpoint's default
 * differs from the engine's (CAP_DEFAULTS).
 *
 * Of a field that may be given once, the last one counts; the strings of a list become one member.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json_scan.h"
#include "base/json/json_reader.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "remote/codec/encode_internal.h"

#define MAX_TAG		512			/* greater than all numbers of fields.def */
#define NONE		NAN

_Static_assert(WTAG_RETRY_AFTER_MS < MAX_TAG, "numbers of tags");

typedef enum How
{
	HOW_INT, HOW_NUM, HOW_BOOL, HOW_STR, HOW_STRS, HOW_IDS, HOW_ANY, HOW_ARRAY, HOW_OBJECT, HOW_MARK,
	HOW_COUNT, HOW_MUST, HOW_OWN, HOW_TOOL_CHOICE, HOW_PARALLEL, HOW_AUTO, HOW_TOP_K, HOW_SEED, HOW_ALL_INT,
	HOW_TOP_LOGPROBS, HOW_SCHEMA, HOW_SCHEMA_OBJECT, HOW_STRUCTURED, HOW_STRUCTURED_LIST, HOW_CHOICE_GRAMMAR,
	HOW_LONG_INPUT, HOW_TEMPLATE,
	HOW_JSON = HOW_OBJECT		/* the type of its row in request_fields.def */
} How;

typedef struct EncodeFieldsRow
{
	WireTag		tag;
	const char *name;
	const char *key;
	How			how;
	uint32_t	caps;
	uint32_t	where;
	double		neutral;
} EncodeFieldsRow;

static const EncodeFieldsRow rows[] = {
#define REQ_FIELD(tag, name, key, how, caps, where, neutral) {WTAG_##tag, name, key, HOW_##how, caps, where, \
															  neutral},
#include "remote/codec/body_fields.def"
#undef REQ_FIELD
};

#define N_ROWS	((int) (sizeof(rows) / sizeof(rows[0])))

/* The message's fields, with the first and the last field of each tag. */
typedef struct EncodedFields
{
	WireField  *v;
	int			n;
	int			first[MAX_TAG];	/* index + 1; 0 = none */
	int			last[MAX_TAG];
	/* structured_outputs without a kind: options for a kind that another field gives */
	const WireField *options;
} EncodedFields;

static bool
is_key(StrView key, const char *name)
{
	return key.n == strlen(name) && memcmp(key.s, name, key.n) == 0;
}

/* Has structured_outputs only options? */
static bool
has_no_kind(const WireField *f)
{
	static const char *const kinds[] = {"json", "regex", "choice", "grammar", "json_object",
										"structural_tag"};
	JsonMembers m;
	StrView		key,
				v;
	int			got = -1;

	if (json_members(&m, f->s, f->n))
		while ((got = json_member(&m, &key, &v)) > 0)
			for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
				if (is_key(key, kinds[i]) && !is_key(v, "null"))
					return false;
	return got == 0;
}

static void
read_fields(EncodedFields *f, const RequestFields *a)
{
	WireIn		in = {.p = a->fields,.end = a->fields + a->len};
	WireField	x;

	memset(f, 0, sizeof(*f));
	/* request_fields.c has read it to its end before */
	while (wire_next(&in, &x) > 0)
	{
		if (x.tag >= MAX_TAG)
			continue;
		if ((f->n & (f->n - 1)) == 0)
			f->v = mem_realloc(f->v, (size_t) (f->n == 0 ? 1 : f->n * 2) * sizeof(WireField));
		f->v[f->n++] = x;
		f->last[x.tag] = f->n;
		if (f->first[x.tag] == 0)
			f->first[x.tag] = f->n;
	}
	if (f->last[WTAG_STRUCTURED_OUTPUTS] != 0 && has_no_kind(&f->v[f->last[WTAG_STRUCTURED_OUTPUTS] - 1]))
		f->options = &f->v[f->last[WTAG_STRUCTURED_OUTPUTS] - 1];
}

/* ---- choosing the row ---- */

static bool
is_list(int tag)
{
	return tag == WTAG_STOP || tag == WTAG_BAD_WORDS || tag == WTAG_STRUCT_CHOICE || tag == WTAG_CHOICE ||
		tag == WTAG_URL || tag == WTAG_FALLBACK;
}

/* Return the row that fits, or NULL.  *any: some row of the tag. */
static const EncodeFieldsRow *
find_row(const Maker *m, int tag, const EncodeFieldsRow **any)
{
	*any = NULL;
	for (int i = 0; i < N_ROWS; i++)
	{
		if ((int) rows[i].tag != tag)
			continue;
		if (*any == NULL)
			*any = &rows[i];
		if ((rows[i].where & 1u << m->call->shape) != 0 &&
			(rows[i].caps == 0 || (rows[i].caps & m->caps) != 0))
			return &rows[i];
	}
	return NULL;
}

static bool
equals(const WireField *f, double v)
{
	if (isnan(v) || (f->type != WT_INT && f->type != WT_NUM))
		return false;
	return f->type == WT_NUM ? f->num == v : (double) f->i == v ||
		(f->tag == WTAG_TOP_K && f->i < 0 && v == 0);
}

/*
 * Does the value have no effect, by any of the tag's rows?  Rows with HOW_MUST don't count, because they
 * are true of some endpoints only.
 */
static bool
is_nothing(const WireField *f)
{
	for (int i = 0; i < N_ROWS; i++)
		if ((int) rows[i].tag == f->tag && rows[i].how != HOW_MUST && equals(f, rows[i].neutral))
			return true;
	return (f->type == WT_INTS && f->n == 0) ||
		(f->tag == WTAG_LONG_INPUT && f->n == 5 && memcmp(f->s, "error", 5) == 0);
}

/* Would the dialect have the parameter if the prompt were a chat? */
static bool
is_known_by_chat(const Maker *m, int tag)
{
	for (int i = 0; i < N_ROWS; i++)
		if ((int) rows[i].tag == tag && (rows[i].where & IN_CHAT) != 0 &&
			(rows[i].caps == 0 || (rows[i].caps & m->caps) != 0))
			return true;
	return false;
}

/* Does any dialect have it? */
static bool
is_known_by_any(int tag)
{
	for (int i = 0; i < N_ROWS; i++)
		if ((int) rows[i].tag == tag && rows[i].caps != CAP_NOBODY && rows[i].caps != 0)
			return true;
	return false;
}

static bool
refuse(const Maker *m, const EncodeFieldsRow *row)
{
	body_refuse(m->o, m->e, "parameter \"%s\" is not supported by the endpoint of model \"%s\"", row->name,
				m->o->name);
	if (!is_known_by_any(row->tag))
		m->e->hint[0] = '\0';
	if (m->call->shape == RSHAPE_COMPLETION && m->a->messages.s == NULL && is_known_by_chat(m, row->tag))
		err_hint(m->e, "It is a parameter of chats. With the option {\"prompt_as\": \"chat\"} of the model a "
					   "plain prompt becomes a chat.");
	return false;
}

static bool
invalid(const Maker *m, const char *name, const char *what)
{
	err_set(m->e, ERR_INVALID, "%s %s", name, what);
	return err_detail(m->e, "parameter=%s", name);
}

/* ---- fields that need more than their value ---- */

static bool
put_strings(Maker *m, const EncodeFieldsRow *row, const EncodedFields *all)
{
	bool		ok = true;

	ALWAYS(all->first[row->tag] > 0);	/* put_defaults() has no lists */
	json_open(&m->j, '[');
	for (int i = all->first[row->tag] - 1; ok && i < all->last[row->tag]; i++)
		if (all->v[i].tag == (int) row->tag)
			ok = body_text(m, row->name, all->v[i].s, all->v[i].n);
	json_close(&m->j, ']');
	return ok;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Strip white space at both ends. */
static StrView
trimmed(const WireField *f)
{
	StrView		t = {f->s, f->n};

	while (t.n > 0 && is_space(t.s[0]))
		t = (StrView) {t.s + 1, t.n - 1};
	while (t.n > 0 && is_space(t.s[t.n - 1]))
		t.n--;
	return t;
}

/* If the JSON text is a string, return the text that it contains. */
static char *
schema_in_string(const char *s, size_t n)
{
	Json	   *j = n > 0 && s[0] == '"' && json_ok(s, n, BODY_DEPTH) &&
		!json_has_nul(s, n) ? json_parse(s, n) : NULL;
	char	   *text = json_is_string(j) ? mem_strdup(j->s) : NULL;

	json_free(j);
	return text;
}

/* Write the options of structured_outputs after its kind. */
static bool
add_options(Maker *m, const EncodedFields *all)
{
	JsonMembers members;
	StrView		key,
				v;
	bool		ok = true;

	if (all->options == NULL || !json_members(&members, all->options->s, all->options->n))
		return true;
	while (ok && json_member(&members, &key, &v) > 0)
	{
		char	   *name = mem_strndup(key.s, key.n);

		json_key(&m->j, name);
		ok = body_json(m, "structured_outputs", v.s, v.n, 0);
		mem_free(name);
	}
	return ok;
}

/* Write vLLM's {"json": schema} with options. */
static bool
put_schema_with_options(Maker *m, const char *name, StrView schema, const EncodedFields *all)
{
	bool		ok;

	json_key(&m->j, "structured_outputs");
	json_open(&m->j, '{');
	json_key(&m->j, "json");
	if (schema.n == 4 && memcmp(schema.s, "true", 4) == 0)
		schema = (StrView) {"{}", 2};
	ok = body_json(m, name, schema.s, schema.n, 0) && add_options(m, all);
	json_close(&m->j, '}');
	return ok;
}

/*
 * Write {"type": "json_schema", "json_schema": {"name": ..., "schema": ...}}, or llama.cpp's {"type":
 * "json_object", "schema": ...}.
 */
static bool
put_schema(Maker *m, const EncodeFieldsRow *row, const WireField *f)
{
	bool		llama = row->how == HOW_SCHEMA_OBJECT;
	StrView		t = trimmed(f);
	char	   *inner = schema_in_string(t.s, t.n);
	bool		ok;

	json_key(&m->j, row->key);
	json_open(&m->j, '{');
	json_key_cstr(&m->j, "type", llama ? "json_object" : "json_schema");
	if (!llama)
	{
		json_key(&m->j, "json_schema");
		json_open(&m->j, '{');
		json_key_cstr(&m->j, "name", "answer");
		if (m->caps & CAP_STRICT_SCHEMA)
		{
			json_key(&m->j, "strict");
			json_bool(&m->j, true);
		}
	}
	json_key(&m->j, "schema");
	if (t.n == 4 && memcmp(t.s, "true", 4) == 0)
		t = (StrView) {"{}", 2};
	ok = inner != NULL ? body_json(m, row->name, inner, strlen(inner), '{') :
		body_json(m, row->name, t.s, t.n, '{');
	if (!llama)
		json_close(&m->j, '}');
	json_close(&m->j, '}');
	mem_free(inner);
	return ok;
}

/* Write vLLM's {"regex": ...} or one of the other kinds. */
static bool
put_structured(Maker *m, const EncodeFieldsRow *row, const WireField *f, const EncodedFields *all)
{
	bool		ok;

	json_key(&m->j, "structured_outputs");
	json_open(&m->j, '{');
	json_key(&m->j, row->key);
	ok = (row->how == HOW_STRUCTURED ? body_text(m, row->name, f->s, f->n) : put_strings(m, row, all)) &&
		add_options(m, all);
	json_close(&m->j, '}');
	return ok;
}

/* Return an object's member unparsed. */
static StrView
member(StrView object, const char *name)
{
	JsonMembers m;
	StrView		key,
				v;
	StrView		found = {0};

	if (object.s != NULL && json_members(&m, object.s, object.n))
		while (json_member(&m, &key, &v) > 0)
			if (is_key(key, name))
				found = (StrView) {v.s, v.n};
	return found;
}

/* Write a response_format that has options: vLLM takes options only with a kind of structured_outputs. */
static bool
put_format_with_options(Maker *m, const WireField *f, const EncodedFields *all)
{
	StrView		format = {f->s, f->n};
	StrView		type = member(format, "type");
	StrView		schema = member(member(format, "json_schema"), "schema");
	bool		ok;

	if (type.n == 6 && memcmp(type.s, "\"text\"", 6) == 0)
		return true;
	if (schema.s != NULL)
		return put_schema_with_options(m, "response_format", schema, all);
	if (type.n != 13 || memcmp(type.s, "\"json_object\"", 13) != 0)
	{
		body_refuse(m->o, m->e, "options of structured_outputs beside this response_format are not supported "
					"by the endpoint of model \"%s\"", m->o->name);
		return false;
	}
	json_key(&m->j, "structured_outputs");
	json_open(&m->j, '{');
	json_key(&m->j, "json_object");
	json_bool(&m->j, true);
	ok = add_options(m, all);
	json_close(&m->j, '}');
	return ok;
}

/* Write a choice of texts as a grammar of llama.cpp: root ::= "a" | "b" */
static bool
put_choice_grammar(Maker *m, const EncodeFieldsRow *row, const EncodedFields *all)
{
	Buf			b = {0};
	bool		ok = true;

	ALWAYS(all->first[row->tag] > 0);
	buf_addstr(&b, "root ::=");
	for (int i = all->first[row->tag] - 1; ok && i < all->last[row->tag]; i++)
	{
		const WireField *f = &all->v[i];

		if (f->tag != (int) row->tag)
			continue;
		buf_addstr(&b, i > all->first[row->tag] - 1 ? " | \"" : " \"");
		for (size_t k = 0; k < f->n; k++)
		{
			char		c = f->s[k];

			if (c == '"' || c == '\\')
				buf_addc(&b, '\\');
			if (c == '\n' || c == '\r' || c == '\t')
				buf_addstr(&b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
			else
				buf_addc(&b, c);
		}
		buf_addc(&b, '"');
		ok = f->n > 0 || invalid(m, row->name, "cannot contain an empty string");
	}
	json_key(&m->j, row->key);
	ok = ok && body_text(m, row->name, b.data, b.len);
	buf_free(&b);
	return ok;
}

/* "none" without tools has no effect, and OpenAI refuses it. */
static bool
put_tool_choice(Maker *m, const EncodeFieldsRow *row, const WireField *f)
{
	StrView		t = trimmed(f);

	if (m->a->tools.s == NULL)
		return (t.n == 6 && memcmp(t.s, "\"none\"", 6) == 0) || invalid(m, row->name, "needs tools");
	if (t.n == 10 && memcmp(t.s, "\"required\"", 10) == 0 && !(m->caps & CAP_REQUIRED))
	{
		body_refuse(m->o, m->e, "tool_choice \"required\" is not supported by the endpoint of model \"%s\"",
					m->o->name);
		return false;
	}
	json_key(&m->j, row->key);
	return body_json(m, row->name, f->s, f->n, 0);
}

static bool
put_long_input(Maker *m, const EncodeFieldsRow *row, const WireField *f, const EncodedFields *all)
{
	if (f->n == 5 && memcmp(f->s, "error", 5) == 0)
		return true;
	if (f->n != 8 || memcmp(f->s, "truncate", 8) != 0 || !(m->caps & CAP_VLLM))
		return refuse(m, row);
	if (all->first[WTAG_TRUNCATE_TOKENS] == 0)
		json_key_int(&m->j, row->key, -1);
	return true;
}

/* Write the number of top log-probabilities; -1 = all, which only vLLM has. */
static bool
put_logprobs(Maker *m, const EncodeFieldsRow *row, const WireField *f)
{
	if (f->i < 0 && !(m->caps & CAP_VLLM))
	{
		body_refuse(m->o, m->e, "%s of -1 is not supported by the endpoint of model \"%s\"", row->name,
					m->o->name);
		return false;
	}
	if (row->how == HOW_TOP_LOGPROBS)
	{
		json_key(&m->j, "logprobs");
		json_bool(&m->j, true);
		if (f->i == 0)
			return true;
	}
	json_key_int(&m->j, row->key, f->i);
	return true;
}

static bool
put_number(Maker *m, const EncodeFieldsRow *row, double v)
{
	if (!isfinite(v))
		return invalid(m, row->name, "must be finite");
	json_key(&m->j, row->key);
	json_double(&m->j, v);
	return true;
}

static bool
put_flag(Maker *m, const EncodeFieldsRow *row, bool v)
{
	json_key(&m->j, row->key);
	json_bool(&m->j, v);
	return true;
}

static bool
put_special(Maker *m, const EncodeFieldsRow *row, const WireField *f, const EncodedFields *all)
{
	switch (row->how)
	{
		case HOW_TOOL_CHOICE:
			return put_tool_choice(m, row, f);
		case HOW_PARALLEL:
			return f->i != 0 || m->a->tools.s == NULL || put_flag(m, row, false);
		case HOW_AUTO:
			return (f->n == 4 && memcmp(f->s, "auto", 4) == 0) || refuse(m, row);
		case HOW_TOP_K:
			if (f->i > INT_MAX)
				return invalid(m, row->name, "is too large");
			json_key_int(&m->j, row->key, f->i > 0 ? f->i : m->caps & CAP_VLLM ? -1 : 0);
			return true;
		case HOW_SEED:
			if (f->i != -1)
				json_key_int(&m->j, row->key, f->i);
			return true;
		case HOW_ALL_INT:
		case HOW_TOP_LOGPROBS:
			return put_logprobs(m, row, f);
		case HOW_SCHEMA:
		case HOW_SCHEMA_OBJECT:
			return all->options != NULL ? put_schema_with_options(m, row->name, trimmed(f), all) :
				put_schema(m, row, f);
		case HOW_STRUCTURED:
		case HOW_STRUCTURED_LIST:
			return put_structured(m, row, f, all);
		case HOW_CHOICE_GRAMMAR:
			return put_choice_grammar(m, row, all);
		case HOW_TEMPLATE:
			/* it may be the name of one of the model's templates, which the endpoint doesn't have */
			if (f->n == 0 || memchr(f->s, '{', f->n) == NULL)
				return refuse(m, row);
			json_key(&m->j, row->key);
			return body_text(m, row->name, f->s, f->n);
		case HOW_LONG_INPUT:
			return put_long_input(m, row, f, all);
		default:
			return err_set(m->e, ERR_INTERNAL, "unexpected kind of parameter \"%s\"", row->name);
	}
}

/* ---- one field ---- */

static bool
put_field(Maker *m, const EncodeFieldsRow *row, const WireField *f, const EncodedFields *all)
{
	switch (row->how)
	{
		case HOW_OWN:
			return true;
		case HOW_INT:
			json_key_int(&m->j, row->key, f->i);
			return true;
		case HOW_NUM:
			return put_number(m, row, f->num);
		case HOW_BOOL:
			return put_flag(m, row, f->i != 0);
		case HOW_MARK:
			return (f->i != 0) == (row->neutral != 0) || put_flag(m, row, f->i != 0);
		case HOW_COUNT:
			if ((double) f->i != row->neutral)
				json_key_int(&m->j, row->key, f->i);
			return true;
		case HOW_MUST:
			return (f->i != 0) == (row->neutral != 0) || refuse(m, row);
		case HOW_STR:
			json_key(&m->j, row->key);
			return body_text(m, row->name, f->s, f->n);
		case HOW_STRS:
			json_key(&m->j, row->key);
			return put_strings(m, row, all);
		case HOW_IDS:
			json_key(&m->j, row->key);
			body_ids(m, (StrView) {f->s, f->n});
			return true;
		case HOW_ANY:
		case HOW_ARRAY:
		case HOW_OBJECT:
			json_key(&m->j, row->key);
			return body_json(m, row->name, f->s, f->n, row->how == HOW_ARRAY ? '[' : row->how == HOW_OBJECT
							 ? '{' : 0);
		default:
			return put_special(m, row, f, all);
	}
}

/* Count the fields that constrain the output; options of structured_outputs alone don't. */
static int
count_kinds(const EncodedFields *all)
{
	static const WireTag kinds[] = {WTAG_JSON_SCHEMA, WTAG_REGEX, WTAG_STRUCT_CHOICE, WTAG_GRAMMAR,
									WTAG_STRUCTURED_OUTPUTS, WTAG_RESPONSE_FORMAT};
	int			n = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		n += all->first[kinds[i]] != 0 && !(kinds[i] == WTAG_STRUCTURED_OUTPUTS && all->options != NULL);
	return n;
}

static bool
check_kinds(const Maker *m, const EncodedFields *all)
{
	int			n = count_kinds(all);

	if (n == 0 && all->options != NULL && all->first[WTAG_TOOL_CHOICE] == 0)
		return err_set(m->e, ERR_INVALID, "you must use one kind of structured output, but none is given");
	return n <= 1 || err_set(m->e, ERR_INVALID, "you can only use one kind of structured output");
}

/* Write the engine's values where the endpoint has other defaults. */
static bool
put_defaults(Maker *m, const EncodedFields *all)
{
	const DialectDefault *d;
	bool		ok = true;

	if (!(IN_GENERATE & 1u << m->call->shape))
		return true;
	for (int i = 0; ok && (d = dialect_default(m->o->dialect, i)) != NULL; i++)
	{
		const EncodeFieldsRow *any;
		const EncodeFieldsRow *row = all->first[d->tag] == 0 ? find_row(m, d->tag, &any) : NULL;
		WireField	f = {.tag = d->tag,.type = wire_tag_type(d->tag),.i = (int64_t) d->value,.num = d->value};

		ok = row == NULL || put_field(m, row, &f, all);
	}
	return ok;
}

static bool
put_all(Maker *m, const EncodedFields *all)
{
	if (!check_kinds(m, all))
		return false;
	for (int i = 0; i < all->n; i++)
	{
		const WireField *f = &all->v[i];
		const EncodeFieldsRow *any;
		const EncodeFieldsRow *row;

		if (i != (is_list(f->tag) ? all->first[f->tag] : all->last[f->tag]) - 1)
			continue;
		row = find_row(m, f->tag, &any);
		if (any == NULL)
			return err_set(m->e, ERR_INTERNAL, "unexpected field \"%s\" in a request", wire_tag_name(f->tag));
		if (row == NULL && !is_nothing(f))
			return refuse(m, any);
		/* the kind's field writes them; next to a tool_choice alone they have a member of their own */
		if (f == all->options && count_kinds(all) > 0)
			continue;
		if (row != NULL && !(all->options != NULL && f->tag == WTAG_RESPONSE_FORMAT ?
							 put_format_with_options(m, f, all) : put_field(m, row, f, all)))
			return false;
	}
	return put_defaults(m, all);
}

bool
body_fields(Maker *m)
{
	EncodedFields all;
	bool		ok;

	read_fields(&all, m->a);
	ok = put_all(m, &all);
	mem_free(all.v);
	return ok;
}
