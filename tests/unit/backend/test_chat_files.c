/*
 * test_chat_files.c
 *	  A model's tokenizer files against transformers, as tests/golden/files_golden.py has
 *	  recorded it: which tokens are special, what they are called, which chat template is
 *	  taken.
 */
#include <cjson/cJSON.h>

#include "backend/chat_template_source.h"
#include "backend/weight_source.h"
#include "tests/unit/load_util.h"
#include "tokenizer/tokenizer.h"

#define MESSAGES "[{\"role\": \"user\", \"content\": \"x\"}]"
#define TOOLS "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"

static const char *const texts[] = {"a<s>b", "x <s> y<unk>", "<tool_call> <s><s>", " the<s>wort", "  <unk>  z"};

/* tokenizer.json without some of its added tokens */
static void
put_tokenizer(const cJSON *drop)
{
	Buf			b = {0};
	cJSON	   *root;
	cJSON	   *x;
	cJSON	   *next;
	const cJSON *d;
	char	   *text;

	read_file("tests/fixtures/tokenizers/o200k.json", &b);
	root = cJSON_ParseWithLength(b.data, b.len);
	for (x = cJSON_GetObjectItem(root, "added_tokens")->child; x != NULL; x = next)
	{
		next = x->next;
		cJSON_ArrayForEach(d, drop)
			if (strcmp(d->valuestring, cJSON_GetObjectItem(x, "content")->valuestring) == 0)
			{
				cJSON_Delete(cJSON_DetachItemViaPointer(cJSON_GetObjectItem(root, "added_tokens"), x));
				break;
			}
	}
	text = cJSON_PrintUnformatted(root);
	put_text("tokenizer.json", text);
	cJSON_free(text);
	cJSON_Delete(root);
	buf_free(&b);
}

static void
check_ids(const char *name, const Files *f, const cJSON *want)
{
	Err			e = {0};
	Tok		   *t = source_tok(f, &e);

	CHECK(t != NULL, "%s: %s", name, e.msg);
	for (int i = 0; t != NULL && i < cJSON_GetArraySize(want); i++)
	{
		const cJSON *ids = cJSON_GetArrayItem(want, i);
		IntVec		got = {0};
		bool		same;

		CHECK(tok_encode(t, texts[i], strlen(texts[i]), 0, &got, &e), "%s: %s", name, e.msg);
		same = got.len == (size_t) cJSON_GetArraySize(ids);
		for (size_t k = 0; same && k < got.len; k++)
			same = got.data[k] == cJSON_GetArrayItem(ids, (int) k)->valueint;
		CHECK(same, "%s: ids of \"%s\"", name, texts[i]);
		intvec_free(&got);
	}
	tok_free(t);
}

static void
check_chats(const char *name, const Files *f, const cJSON *want)
{
	ChatModel  *c = chatmodel_of_files(f);
	const cJSON *row;

	cJSON_ArrayForEach(row, want)
	{
		const char *source = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
		bool		tools = cJSON_IsTrue(cJSON_GetArrayItem(row, 1));
		const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(row, 2));
		ChatRequest r = {.messages = {MESSAGES, strlen(MESSAGES)}};
		Buf			out = {0};
		Buf			marks = {0};
		Err			e = {0};
		bool		ok;

		if (source != NULL)
			r.source = (ChatText) {source, strlen(source)};
		if (tools)
			r.tools = (ChatText) {TOOLS, strlen(TOOLS)};
		/* a model's only template has a name here, too */
		if (source != NULL && strcmp(source, "default") == 0 && text != NULL && strcmp(text, source) == 0)
			continue;
		ok = chat_render(NULL, c, &r, &out, &marks, &e);
		buf_add(&out, "", 1);
		CHECK(ok == (text != NULL), "%s, %s, tools %d: %s", name, source, tools, ok ? out.data : e.msg);
		if (ok && text != NULL)
			CHECK(strcmp(out.data, text) == 0, "%s, %s, tools %d: \"%s\", expected \"%s\"", name, source, tools, out.data, text);
		buf_free(&out);
		buf_free(&marks);
	}
	chat_free(c);
}

static void
check_model(const cJSON *row)
{
	const char *name = cJSON_GetObjectItem(row, "name")->valuestring;
	const cJSON *files = cJSON_GetObjectItem(row, "files");
	const cJSON *x;
	Err			e = {0};
	Files	   *f;

	put_text("config.json", "{\"model_type\": \"llama\"}");
	put_file("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
	put_tokenizer(cJSON_GetObjectItem(row, "drop"));
	mkdir(in_scratch("additional_chat_templates"), 0700);
	cJSON_ArrayForEach(x, files)
		put_text(x->string, x->valuestring);
	f = files_open(scratch, &e);
	CHECK(f != NULL, "%s: %s", name, e.msg);
	if (f != NULL)
	{
		check_ids(name, f, cJSON_GetObjectItem(row, "ids"));
		check_chats(name, f, cJSON_GetObjectItem(row, "chats"));
	}
	files_close(f);
	cJSON_ArrayForEach(x, files)
		unlink(in_scratch(x->string));
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
		cJSON	   *row = cJSON_Parse(line);

		check_model(row);
		cJSON_Delete(row);
	}
	CHECK(n >= 19, "only %d cases", n);
	buf_free(&b);
	scratch_remove();
	return check_done("test_chat_files");
}
