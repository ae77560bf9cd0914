/*
 * test_chat_files.c
 *	  A model's tokenizer files against transformers, as tests/golden/files_golden.py has recorded it:
 *	  which tokens are special, what they are called, which chat template is used.
 */

#include "base/json/json.h"
#include "backend/chat_template_source.h"
#include "backend/weight_source.h"
#include "tests/unit/load_util.h"
#include "tokenizer/tokenizer.h"

#define MESSAGES "[{\"role\": \"user\", \"content\": \"x\"}]"
#define TOOLS "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"

static const char *const texts[] = {"a<s>b", "x <s> y<unk>", "<tool_call> <s><s>", " the<s>wort",
									"  <unk>  z"};

/* tokenizer.json without some of its added tokens */
static void
put_tokenizer(const Json *drop)
{
	Buf			b = {0};
	Json	   *root;
	Json	   *all;
	const Json *x;
	const Json *d;
	char	   *text;

	read_file("tests/fixtures/tokenizers/o200k.json", &b);
	root = json_parse(b.data, b.len);
	/* the order of members must not matter */
	all = json_add(root, "kept", JSON_IS_ARRAY);
	json_each(x, json_get(root, "added_tokens"))
	{
		bool		keep = true;

		json_each(d, drop)
			keep = keep && strcmp(d->s, json_get(x, "content")->s) != 0;
		if (keep)
			json_add_copy(all, NULL, x);
	}
	json_remove(root, "added_tokens");
	json_add_copy(root, "added_tokens", all);
	json_remove(root, "kept");
	text = json_print(root);
	put_text("tokenizer.json", text);
	mem_free(text);
	json_free(root);
	buf_free(&b);
}

static void
check_ids(const char *name, const Files *f, const Json *want)
{
	Err			e = {0};
	Tok		   *t = source_tok(f, &e);

	CHECK(t != NULL, "%s: %s", name, e.msg);
	for (int i = 0; t != NULL && i < json_count(want); i++)
	{
		const Json *ids = json_item(want, i);
		IntVec		got = {0};
		bool		same;

		CHECK(tok_encode(t, texts[i], strlen(texts[i]), 0, &got, &e), "%s: %s", name, e.msg);
		same = got.len == (size_t) json_count(ids);
		for (size_t k = 0; same && k < got.len; k++)
			same = got.data[k] == json_to_int(json_item(ids, (int) k));
		CHECK(same, "%s: ids of \"%s\"", name, texts[i]);
		intvec_free(&got);
	}
	tok_free(t);
}

static void
check_chats(const char *name, const Files *f, const Json *want)
{
	ChatModel  *c = chatmodel_of_files(f);
	const Json *row;

	json_each(row, want)
	{
		const char *source = json_str_of(json_item(row, 0));
		bool		tools = json_is_true(json_item(row, 1));
		const char *text = json_str_of(json_item(row, 2));
		ChatRequest r = {.messages = {MESSAGES, strlen(MESSAGES)}};
		Buf			out = {0};
		Buf			marks = {0};
		Err			e = {0};
		bool		ok;

		if (source != NULL)
			r.source = (StrView) {source, strlen(source)};
		if (tools)
			r.tools = (StrView) {TOOLS, strlen(TOOLS)};
		/* here a model's only template has a name, too */
		if (source != NULL && strcmp(source, "default") == 0 && text != NULL && strcmp(text, source) == 0)
			continue;
		ok = chat_render(NULL, c, &r, &out, &marks, &e);
		buf_add(&out, "", 1);
		CHECK(ok == (text != NULL), "%s, %s, tools %d: %s", name, source, tools, ok ? out.data : e.msg);
		if (ok && text != NULL)
			CHECK(strcmp(out.data, text) == 0, "%s, %s, tools %d: \"%s\", expected \"%s\"", name, source,
				  tools, out.data, text);
		buf_free(&out);
		buf_free(&marks);
	}
	chat_free(c);
}

static void
check_model(const Json *row)
{
	const char *name = json_get(row, "name")->s;
	const Json *files = json_get(row, "files");
	const Json *x;
	Err			e = {0};
	Files	   *f;

	put_text("config.json", "{\"model_type\": \"llama\"}");
	put_file("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
	put_tokenizer(json_get(row, "drop"));
	mkdir(in_scratch("additional_chat_templates"), 0700);
	json_each(x, files)
		put_text(x->key, x->s);
	f = files_open(scratch, &e);
	CHECK(f != NULL, "%s: %s", name, e.msg);
	if (f != NULL)
	{
		check_ids(name, f, json_get(row, "ids"));
		check_chats(name, f, json_get(row, "chats"));
	}
	files_close(f);
	json_each(x, files)
		unlink(in_scratch(x->key));
	rmdir(in_scratch("additional_chat_templates"));
	scratch_clear();
}

int
main(void)
{
	Buf			b = {0};
	char	   *save = NULL;
	int			n = 0;

	scratch_make();
	read_file("tests/golden/files_golden.txt", &b);
	buf_add(&b, "", 1);
	for (char *line = strtok_r(b.data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save), n++)
	{
		Json	   *row = json_parse(line, strlen(line));

		RUN(check_model(row));
		json_free(row);
	}
	CHECK(n >= 19, "only %d cases", n);
	buf_free(&b);
	scratch_remove();
	return check_done("test_chat_files");
}
