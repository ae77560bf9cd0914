/*
 * jinja_golden.c
 *	  Templates against jinja2, as recorded by jinja_golden.py: the same output byte for byte, or an
 *	  error at the same line.
 *
 *		jinja_golden [FOLDER]
 *
 * FOLDER has the templates of real models for jinja_shared.txt; they are not part of the repository, and
 * are skipped if they are missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "tests/unit/check.h"
#include "tests/unit/jinja_vars.h"

#define MAX_CHATS 512

static const struct tm now = {.tm_year = 126,.tm_mon = 2,.tm_mday = 7,.tm_hour = 14,.tm_min = 5,.tm_sec = 9,
							  .tm_wday = 6,.tm_yday = 65};

typedef struct Named
{
	char	   *name;
	char	   *text;
} Named;

static Named chats[MAX_CHATS];
static int	n_chats;
static Named templates[64];
static int	n_templates;

/* Features that are refused here and not by jinja2, or the other way round: docs/user/chat.md says why. */
static const char *const differs[] = {
	"|pprint", "|striptags", "|urlize", "|random", "|xmlattr", "lipsum()",
};

static bool
may_differ(const char *source)
{
	for (size_t i = 0; i < sizeof(differs) / sizeof(differs[0]); i++)
		if (strstr(source, differs[i]) != NULL)
			return true;
	return false;
}

static char *
read_file(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	Buf			b = {0};
	char		block[8192];
	size_t		n;

	if (f == NULL)
		return NULL;
	buf_reserve(&b, 1);
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(&b, block, n);
	fclose(f);
	b.data[b.len] = '\0';
	return b.data;
}

static uint64_t
fnv(const char *s, size_t n)
{
	uint64_t	h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char) s[i]) * UINT64_C(1099511628211);
	return h;
}

/* Set each member of a JSON object as a variable. */
static bool
set_variables(Jin *j, const char *json, bool input, Err *e)
{
	Json	   *root = json_parse(json, strlen(json));
	const char *p = json + 1;
	bool		ok = true;

	/* a tree would not distinguish integers from floats, so values are cut from the text */
	for (const Json *v = root->child; v != NULL && ok; v = v->next)
	{
		int			depth = 0;
		bool		string = false;
		const char *from;

		p = strchr(strchr(p, '"') + strlen(v->key) + 1, ':') + 1;
		for (from = p; depth > 0 || string || (*p != ',' && *p != '}'); p++)
		{
			if (*p == '"')
				string = !string;
			else if (*p == '\\' && string)
				p++;
			else if (!string)
				depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
		}
		ok = set_json(j, v->key, from, (size_t) (p - from), input, e);
	}
	json_free(root);
	return ok;
}

static bool
render(const char *source, const char *variables, bool input, Buf *out, Buf *marks, Err *e)
{
	JinTemplate *t = jin_compile(source, strlen(source), e);
	Jin		   *j = jin_new(NULL);
	bool		ok = t != NULL && set_variables(j, variables, input, e);

	set_now(j, &now);
	ok = ok && jin_render(j, t, out, marks, e);
	jin_end(j);
	jin_free(t);
	return ok;
}

static int
line_of(const Err *e)
{
	const char *at = strstr(e->msg, "at line ");

	return at != NULL ? atoi(at + 8) : 0;
}

static const char *
text_of(const Err *e)
{
	const char *at = strstr(e->msg, "at line ");

	at = at != NULL ? strstr(at, ": ") : NULL;
	return at != NULL ? at + 2 : e->msg;
}

/* jinja2's own classes of errors, for which the message must be the same, too. */
static bool
exact_class(const char *cls)
{
	return strcmp(cls, "UndefinedError") == 0 || strcmp(cls, "SecurityError") == 0 ||
		strcmp(cls, "TemplateError") == 0;
}

static void
compare_error(const char *what, const Json *want, bool ok, const Buf *out, const Err *e)
{
	int			line = json_to_int(json_item(want, 0));
	const char *cls = json_item(want, 1)->s;
	const Json *message = json_item(want, 2);
	const char *msg = message != NULL ? message->s : "?";

	CHECK(!ok, "%s: expected %s: %s, got \"%s\"", what, cls, msg, out->data);
	if (ok)
		return;
	CHECK(line == 0 || line_of(e) == line, "%s: expected line %d (%s: %s), got %s", what, line, cls, msg,
		  e->msg);
	if (message != NULL && exact_class(cls))
		CHECK(strcmp(text_of(e), msg) == 0, "%s: expected %s: %s, got %s", what, cls, msg, e->msg);
}

static void
run_case(const char *source, const char *variables, const Json *row)
{
	Buf			out = {0};
	Buf			marks = {0};
	Buf			again = {0};
	Err			e = {0};
	bool		ok = render(source, variables, false, &out, &marks, &e);
	const Json *want = json_get(row, "o");

	buf_add(&out, "", 0);
	if (!ok && may_differ(source))
		CHECK(e.cls == ERR_UNSUPPORTED, "%s: %s", source, e.msg);
	else if (want == NULL)
		compare_error(source, json_get(row, "e"), ok, &out, &e);
	else
	{
		CHECK(ok, "%s: expected \"%s\", got %s", source, want->s, e.msg);
		CHECK(!ok || (out.len == strlen(want->s) && (out.len == 0 ||
													 memcmp(out.data, want->s, out.len) == 0)),
			  "%s\n    expected \"%s\"\n    got      \"%s\"", source, want->s,
				  out.data != NULL ? out.data : "");
	}
	/* nothing here is input, so there must be no marks */
	CHECK(marks.len == out.len && memchr(marks.len > 0 ? marks.data : "", 1, marks.len) == NULL,
		  "%s: marks without input", source);
	if (ok && render(source, variables, true, &again, NULL, &e))
		CHECK(again.len == out.len && (out.len == 0 || memcmp(again.data, out.data, out.len) == 0),
			  "%s: differs with marks", source);
	buf_free(&out);
	buf_free(&marks);
	buf_free(&again);
}

static void
run_chat(const char *file, const char *source, const char *variables, const Json *row)
{
	Buf			out = {0};
	Err			e = {0};
	char		what[200];
	bool		ok = render(source, variables, true, &out, NULL, &e);
	const Json *error = json_get(row, "e");

	snprintf(what, sizeof(what), "%s with %s", file, json_get(row, "c")->s);
	buf_add(&out, "", 0);
	if (error != NULL)
		compare_error(what, error, ok, &out, &e);
	else
	{
		CHECK(ok, "%s: %s", what, e.msg);
		CHECK(!ok || (out.len == (size_t) json_get(row, "n")->num &&
					  fnv(out.data != NULL ? out.data : "", out.len) ==
					  strtoull(json_get(row, "h")->s, NULL, 16)),
			  "%s: %zu bytes instead of %d:\n%s", what, out.len, json_to_int(json_get(row, "n")), out.data);
	}
	buf_free(&out);
}

static const char *
find(const Named *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return list[i].text;
	return NULL;
}

static const char *
text_at(const Json *row, const char *key)
{
	return json_str_of(json_get(row, key));
}

/* Run each line of a file made by jinja_golden.py. */
static void
run_file(const char *path, const char *folder)
{
	char	   *text = read_file(path);
	char	   *save = NULL;
	char	   *variables = NULL;
	int			skipped = 0;

	CHECK(text != NULL, "%s", path);
	for (char *line = text != NULL ? strtok_r(text, "\n", &save) : NULL; line != NULL;
		 line = strtok_r(NULL, "\n", &save))
	{
		Json	   *row = json_parse(line, strlen(line));
		const char *f = text_at(row, "f");
		const char *c = text_at(row, "c");
		const char *t = text_at(row, "t");
		const char *v = text_at(row, "v");

		if (c != NULL && v != NULL)
			chats[n_chats++] = (Named) {strdup(c), strdup(v)};
		else if (v != NULL)
			variables = strdup(v);
		else if (f != NULL && t != NULL)
			templates[n_templates++] = (Named) {strdup(f), strdup(t)};
		else if (t != NULL)
			run_case(t, variables, row);
		else
		{
			if (find(templates, n_templates, f) == NULL && folder != NULL)
			{
				char		file[1024];

				snprintf(file, sizeof(file), "%s/%s", folder, f);
				templates[n_templates++] = (Named) {strdup(f), read_file(file)};
			}
			if (find(templates, n_templates, f) == NULL)
				skipped++;
			else
				run_chat(f, find(templates, n_templates, f), find(chats, n_chats, c), row);
		}
		json_free(row);
	}
	if (skipped > 0)
		check_skip(skipped, "the folder with real models' chat templates is not here");
	free(variables);
	free(text);
}

static void
free_all(Named *list, int n)
{
	for (int i = 0; i < n; i++)
	{
		free(list[i].name);
		free(list[i].text);
	}
}

int
main(int argc, char **argv)
{
	static const char *const folders[] = {"../shared/chat_templates", "shared/chat_templates"};
	const char *folder = argc > 1 && argv[1][0] != '\0' && strstr(argv[1], "vllm_pg_engine") == NULL ?
		argv[1] : NULL;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && folder == NULL; i++)
	{
		FILE	   *f = fopen(folders[i], "rb");

		if (f != NULL)
		{
			fclose(f);
			folder = folders[i];
		}
	}
	RUN(run_file("tests/golden/jinja_cases.txt", NULL));
	RUN(run_file("tests/golden/jinja_chats.txt", NULL));
	RUN(run_file("tests/golden/jinja_shared.txt", folder));
	free_all(chats, n_chats);
	free_all(templates, n_templates);
	return check_done("jinja_golden");
}
