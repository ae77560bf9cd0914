/*
 * chat_template_source.c
 *	  Chat templates and special tokens, from files and options to a ChatModel.
 *
 * The option "chat_template" is a template if it contains a brace or a newline, else the path of a file
 * with one; only roles that may read the server's files can set options of models.  "content_format"
 * says in which form the template gets a message's content.
 *
 * Tested by tests/unit/template/test_chat.c.
 */
#include "backend/chat_template_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "tokenizer/tokenizer.h"

#define MAX_TEMPLATE	((size_t) 1 << 20)

static void
special_of_json(ChatModel *c, const Json *root)
{
	static const char *const names[] = {
		"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		const Json *v = json_get(root, names[i]);

		if (json_is_object(v))
			v = json_get(v, "content");
		if (json_is_string(v))
			chat_special(c, names[i], v->s, strlen(v->s));
	}
}

static void
special_of_gguf(ChatModel *c, const TokGguf *g)
{
	const struct
	{
		const char *name;
		int32_t		id;
	}			ids[] = {{"bos_token", g->bos}, {"eos_token", g->eos}, {"unk_token", g->unk}};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (ids[i].id >= 0 && (size_t) ids[i].id < g->n)
			chat_special(c, ids[i].name, g->tokens[ids[i].id], g->token_len[ids[i].id]);
}

ChatModel *
chatmodel_of_files(const Files *f)
{
	FilesTokenizer ft = {0};
	ChatModel  *c;
	Json	   *root;
	Err			e;

	files_tokenizer(f, &ft, &e);	/* use what could be read: a missing tokenizer is reported elsewhere */
	c = chat_new();
	for (size_t i = 0; i < ft.n_templates; i++)
		chat_template(c, ft.templates[i].name, ft.templates[i].text, ft.templates[i].len);
	if (ft.gguf != NULL)
		special_of_gguf(c, ft.gguf);
	else if (ft.config != NULL)
	{
		root = json_parse(ft.config, ft.config_len);
		special_of_json(c, root);
		json_free(root);
	}
	return c;
}

static bool
read_template(const char *path, Buf *out, Err *e)
{
	FILE	   *f = fopen(path, "rb");
	char		block[4096];
	size_t		n;

	if (f == NULL)
		return err_set(e, ERR_INVALID, "could not open chat template \"%.200s\": %s", path, strerror(errno));
	buf_reserve(out, 1);
	while ((n = fread(block, 1, sizeof(block), f)) > 0 && out->len <= MAX_TEMPLATE)
		buf_add(out, block, n);
	if (ferror(f) || out->len > MAX_TEMPLATE)
		err_set(e, ERR_INVALID, out->len > MAX_TEMPLATE ? "chat template \"%.200s\" is longer than 1 MB" :
				"could not read chat template \"%.200s\"", path);
	n = ferror(f) == 0 && out->len <= MAX_TEMPLATE;
	fclose(f);
	return n != 0;
}

bool
chatmodel_of_options(const char *options, ChatModel **out, Err *e)
{
	Json	   *root = options != NULL && options[0] != '\0' ? json_parse(options, strlen(options)) : NULL;
	const char *s = json_str_of(json_get(root, "chat_template"));
	const char *format = json_str_of(json_get(root, "content_format"));
	ChatFormat	f = CHAT_FORMAT_UNSET;
	Buf			text = {0};
	bool		ok = true;

	*out = NULL;
	if (s != NULL && strpbrk(s, "{}\n") == NULL)
	{
		ok = read_template(s, &text, e);
		s = text.data;
	}
	if (ok && format != NULL && !chat_format_by_name(format, &f))
		ok = err_set(e, ERR_INVALID, "unknown content_format \"%.60s\"", format);
	if (ok && (s != NULL || format != NULL))
	{
		*out = chat_new();
		chat_format(*out, f);
		if (s != NULL)
			chat_template(*out, "default", s, text.data != NULL ? text.len : strlen(s));
	}
	buf_free(&text);
	json_free(root);
	return ok;
}
