/*
 * gguf_vocab.h
 *	  Test-only reader of the vocabulary in a GGUF file, so that the tokenizer's tests don't depend on
 *	  the loader.  Trusts its input.
 */
#ifndef VLLM_TESTS_GGUF_VOCAB_H
#define VLLM_TESTS_GGUF_VOCAB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

typedef struct GgufVocab
{
	TokGguf		v;
	char	  **tokens;
	size_t	   *lens;
	float	   *scores;
	int32_t    *types;
	char	  **merges;
	char	   *model;
	char	   *pre;
	uint8_t    *charsmap;
} GgufVocab;

static uint64_t
gv_uint(FILE *f, int bytes)
{
	uint64_t	x = 0;

	for (int i = 0; i < bytes; i++)
		x |= (uint64_t) (unsigned char) getc(f) << (8 * i);
	return x;
}

static char *
gv_str(FILE *f, size_t *len)
{
	size_t		n = gv_uint(f, 8);
	char	   *s = calloc(n + 1, 1);

	if (fread(s, 1, n, f) != n)
		exit(2);
	if (len != NULL)
		*len = n;
	return s;
}

static int
gv_size(unsigned type)
{
	static const int size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

	return size[type];
}

/* Read one array value: wanted ones go to g, the others are skipped. */
static void
gv_array(FILE *f, const char *key, GgufVocab *g)
{
	unsigned	type = (unsigned) gv_uint(f, 4);
	size_t		n = gv_uint(f, 8);
	bool		tokens = strcmp(key, "tokenizer.ggml.tokens") == 0;
	bool		merges = strcmp(key, "tokenizer.ggml.merges") == 0;
	char	  **strs = tokens || merges ? calloc(n, sizeof(char *)) : NULL;
	uint32_t   *nums = type == 5 || type == 6 ? calloc(n, sizeof(uint32_t)) : NULL;
	uint8_t    *bytes = type <= 1 ? calloc(n + 1, 1) : NULL;

	if (tokens)
	{
		g->tokens = strs;
		g->lens = calloc(n, sizeof(size_t));
		g->v.n = n;
	}
	else if (merges)
	{
		g->merges = strs;
		g->v.n_merges = n;
	}
	for (size_t i = 0; i < n; i++)
	{
		if (type == 8)
		{
			char	   *s = gv_str(f, tokens ? &g->lens[i] : NULL);

			if (strs != NULL)
				strs[i] = s;
			else
				free(s);
		}
		else
		{
			uint64_t	x = gv_uint(f, gv_size(type));

			if (nums != NULL)
				nums[i] = (uint32_t) x;
			if (bytes != NULL)
				bytes[i] = (uint8_t) x;
		}
	}
	if (strcmp(key, "tokenizer.ggml.scores") == 0)
		g->scores = (float *) nums;
	else if (strcmp(key, "tokenizer.ggml.token_type") == 0)
		g->types = (int32_t *) nums;
	else
		free(nums);
	if (strcmp(key, "tokenizer.ggml.precompiled_charsmap") == 0)
	{
		g->v.charsmap = g->charsmap = bytes;
		g->v.n_charsmap = n;
	}
	else
		free(bytes);
}

static void
gv_scalar(const char *key, uint64_t x, GgufVocab *g)
{
	if (strcmp(key, "tokenizer.ggml.bos_token_id") == 0)
		g->v.bos = (int32_t) x;
	else if (strcmp(key, "tokenizer.ggml.eos_token_id") == 0)
		g->v.eos = (int32_t) x;
	else if (strcmp(key, "tokenizer.ggml.cls_token_id") == 0 && g->v.bos < 0)
		g->v.bos = (int32_t) x;
	else if (strcmp(key, "tokenizer.ggml.seperator_token_id") == 0)
		g->v.sep = (int32_t) x;
	else if (strcmp(key, "tokenizer.ggml.unknown_token_id") == 0)
		g->v.unk = (int32_t) x;
	else if (strcmp(key, "tokenizer.ggml.add_bos_token") == 0)
		g->v.add_bos = (int) x;
	else if (strcmp(key, "tokenizer.ggml.add_eos_token") == 0)
		g->v.add_eos = (int) x;
	else if (strcmp(key, "tokenizer.ggml.add_space_prefix") == 0)
		g->v.add_space_prefix = (int) x;
	else if (strcmp(key, "tokenizer.ggml.remove_extra_whitespaces") == 0)
		g->v.remove_extra_whitespaces = (int) x;
}

/* Returns false if there is no such file. */
static bool
gguf_vocab_read(const char *path, GgufVocab *g)
{
	FILE	   *f = fopen(path, "rb");
	uint64_t	n;

	memset(g, 0, sizeof(*g));
	if (f == NULL)
		return false;
	g->v = (TokGguf) TOK_GGUF_INIT;
	gv_uint(f, 8);				/* magic, version */
	gv_uint(f, 8);				/* tensors */
	n = gv_uint(f, 8);
	for (uint64_t i = 0; i < n; i++)
	{
		char	   *key = gv_str(f, NULL);
		unsigned	type = (unsigned) gv_uint(f, 4);

		if (type == 9)
			gv_array(f, key, g);
		else if (type == 8)
		{
			char	   *s = gv_str(f, NULL);
			char	  **to = strcmp(key, "tokenizer.ggml.model") == 0 ? &g->model :
				strcmp(key, "tokenizer.ggml.pre") == 0 ? &g->pre : NULL;

			if (to != NULL)
				*to = s;
			else
				free(s);
		}
		else
			gv_scalar(key, gv_uint(f, gv_size(type)), g);
		free(key);
	}
	fclose(f);
	g->v.model = g->model;
	g->v.pre = g->pre;
	g->v.tokens = (const char *const *) g->tokens;
	g->v.token_len = g->lens;
	g->v.scores = g->scores;
	g->v.types = g->types;
	g->v.merges = (const char *const *) g->merges;
	return true;
}

static void
gguf_vocab_free(GgufVocab *g)
{
	for (size_t i = 0; i < g->v.n; i++)
		free(g->tokens[i]);
	for (size_t i = 0; i < g->v.n_merges; i++)
		free(g->merges[i]);
	free(g->tokens);
	free(g->lens);
	free(g->scores);
	free(g->types);
	free(g->merges);
	free(g->model);
	free(g->pre);
	free(g->charsmap);
}

#endif
