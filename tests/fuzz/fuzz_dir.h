/*
 * fuzz_dir.h
 *	  A model's directory whose files are edits of a fixture's (fuzz_model.h).
 */
#ifndef VLLM_TESTS_FUZZ_DIR_H
#define VLLM_TESTS_FUZZ_DIR_H

#include <sys/stat.h>

#include "fuzz_model.h"

enum
{
	PART_CONFIG, PART_HEADER, PART_RAW, PART_TOK_CONFIG, PART_TOKENS, PART_ST, PARTS = PART_ST + 7
};

static char dir[] = "/tmp/vllm_fuzz_st_XXXXXX";
static const char *const names[] = {
	"config.json", "model.safetensors", "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json",
	"added_tokens.json"
};
static char paths[6][64];

/* Files of sentence-transformers next to a model; from a fixture that has them. */
static const char *const st_folders[] = {"1_Pooling", "2_Dense", "1_LogitScore"};
static const char *const st_names[PARTS - PART_ST] = {
	"modules.json", "1_Pooling/config.json", "2_Dense/config.json", "1_LogitScore/config.json",
	"2_Dense/model.safetensors", "sentence_bert_config.json", "config_sentence_transformers.json"
};

static inline void
dir_clean_up(void)
{
	char		path[96];

	for (int i = 0; i < 6; i++)
		unlink(paths[i]);
	for (int i = 0; i < PARTS - PART_ST; i++)
	{
		snprintf(path, sizeof(path), "%s/%s", dir, st_names[i]);
		unlink(path);
	}
	for (int i = 0; i < 3; i++)
	{
		snprintf(path, sizeof(path), "%s/%s", dir, st_folders[i]);
		rmdir(path);
	}
	rmdir(dir);
}

static inline void
dir_set_up(void)
{
	Buf			b = fuzz_read("build/fixtures/models/llama_f32/tokenizer.json");

	if (mkdtemp(dir) == NULL)
		exit(2);
	for (int i = 0; i < 6; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", dir, names[i]);
	for (int i = 0; i < 3; i++)
	{
		char		path[96];

		snprintf(path, sizeof(path), "%s/%s", dir, st_folders[i]);
		mkdir(path, 0700);
	}
	fuzz_write(paths[3], b.data, b.len);
	buf_free(&b);
	atexit(dir_clean_up);
}

static inline Buf
dir_read_beside(const char *weights, const char *name)
{
	Buf			path = {0};
	Buf			b;

	buf_printf(&path, "%.*s%s", (int) (strrchr(weights, '/') + 1 - weights), weights, name);
	b = fuzz_read(path.data);
	buf_free(&path);
	return b;
}

/* Link the other files of the fixture; those of the previous one are removed. */
static inline void
dir_put_st(const char *weights, const uint8_t *data, size_t size)
{
	for (int i = 0; i < PARTS - PART_ST; i++)
	{
		char		path[96];
		Buf			from = {0};

		snprintf(path, sizeof(path), "%s/%s", dir, st_names[i]);
		buf_printf(&from, "%.*s%s", (int) (strrchr(weights, '/') + 1 - weights), weights, st_names[i]);
		if (access(from.data, F_OK) == 0)
		{
			Buf			b = fuzz_read(from.data);

			fuzz_edit(&b, PART_ST + i, PARTS, data, size);
			fuzz_write(path, b.data, b.len);
			buf_free(&b);
		}
		else
			unlink(path);
		buf_free(&from);
	}
}

/* Write the weights with edits of the header's text, whose length is made to fit, and of the file. */
static inline void
dir_put_weights(const char *path, const uint8_t *data, size_t size)
{
	Buf			file = fuzz_read(path);
	Buf			head = {0};
	Buf			out = {0};
	uint64_t	n;

	memcpy(&n, file.data, 8);
	buf_add(&head, file.data + 8, (size_t) n);
	fuzz_edit(&head, PART_HEADER, PARTS, data, size);
	buf_add(&out, &(uint64_t) {head.len}, 8);
	if (head.len > 0)
		buf_add(&out, head.data, head.len);
	buf_add(&out, file.data + 8 + n, file.len - 8 - (size_t) n);
	fuzz_edit(&out, PART_RAW, PARTS, data, size);
	fuzz_write(paths[1], out.data, out.len);
	buf_free(&file);
	buf_free(&head);
	buf_free(&out);
}

/* Write the directory and return the path to open. */
static inline const char *
fuzz_dir(const char *weights, const uint8_t *data, size_t size)
{
	Buf			config = dir_read_beside(weights, "config.json");
	Buf			tok = fuzz_read("build/fixtures/models/llama_f32/tokenizer_config.json");
	Buf			tokens = {0};

	if (paths[0][0] == '\0')
		dir_set_up();
	buf_addstr(&tokens, "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": true}, \"eos_token\": \"</s>\", "
			   "\"pad_token\": \"a\", \"additional_special_tokens\": [\"the\", {\"content\": \"b\", "
			   "\"normalized\": true}], \"<x>\": 7, \"<s>\": 1, \"c\": 99999}");
	fuzz_edit(&config, PART_CONFIG, PARTS, data, size);
	fuzz_edit(&tok, PART_TOK_CONFIG, PARTS, data, size);
	fuzz_edit(&tokens, PART_TOKENS, PARTS, data, size);
	fuzz_write(paths[0], config.data, config.len);
	fuzz_write(paths[2], tok.data, tok.len);
	fuzz_write(paths[4], tokens.data, tokens.len);
	fuzz_write(paths[5], tokens.data, tokens.len);
	dir_put_st(weights, data, size);
	dir_put_weights(weights, data, size);
	buf_free(&config);
	buf_free(&tokens);
	buf_free(&tok);
	return dir;
}

#endif
