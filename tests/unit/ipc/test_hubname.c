/*
 * test_hubname.c
 *	  Names of Hugging Face repositories given instead of a path.
 */
#include "ipc/hub_name.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/check.h"

static void
is_repository(const char *s, bool bare, const char *command)
{
	HubName		h;
	bool		ok = hub_name(s, bare, &h);

	CHECK(ok && strcmp(h.command, command) == 0, "%s: \"%s\"", s, ok ? h.command : "none");
}

static void
is_none(const char *s, bool bare)
{
	HubName		h;

	CHECK(!hub_name(s, bare, &h), "%s: \"%s\"", s, h.command);
}

int
main(void)
{
	static const char whole[] = "vllm_pg_pull hf:Qwen/Qwen3-4B";
	static const char quant[] = "vllm_pg_pull hf:Qwen/Qwen3-4B:Q4_K_M";
	static const char file[] = "vllm_pg_pull hf:org/x/f.gguf";
	char		longest[400];
	char		command[1024];

	RUN(is_repository("Qwen/Qwen3-4B", false, whole));
	RUN(is_repository("hf://Qwen/Qwen3-4B", false, whole));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B", false, whole));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B/", false, whole));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B/tree/main", false, whole));
	RUN(is_repository("hf.co/Qwen/Qwen3-4B:Q4_K_M", false, quant));
	RUN(is_repository("Qwen/Qwen3-4B:Q4_K_M", false, quant));
	RUN(is_repository("org/x/f.gguf", false, file));
	RUN(is_repository("hf://org/x/f.gguf", false, file));
	RUN(is_repository("https://huggingface.co/org/x/resolve/main/f.gguf?download=true", false, file));
	RUN(is_repository("https://huggingface.co/org/x/blob/main/f.gguf", false, file));
	RUN(is_repository("org/x/a/f-00001-of-00002.gguf", false,
					  "vllm_pg_pull hf:org/x/a/f-00001-of-00002.gguf"));
	RUN(is_repository("org/x/a/b.safetensors", false, "vllm_pg_pull hf:org/x"));
	RUN(is_repository("https://huggingface.co/org/x/blob/main/config.json", false, "vllm_pg_pull hf:org/x"));
	RUN(is_repository("gpt2", true, "vllm_pg_pull hf:gpt2"));
	RUN(is_repository("hf://gpt2", false, "vllm_pg_pull hf:gpt2"));
	RUN(is_none("gpt2", false));
	RUN(is_none("", true));
	RUN(is_none("x.gguf", true));
	RUN(is_none("./x", true));
	RUN(is_none("../x/y", true));
	RUN(is_none("a/../b", true));
	RUN(is_none("/models/x", true));
	RUN(is_none("a/b/c", true));
	RUN(is_none("a b/c", true));
	RUN(is_none("a/b:", true));
	RUN(is_none("a/b:c d", true));
	RUN(is_none("https://llm.example.com/v1", true));
	RUN(is_none("https://huggingface.co/", true));
	RUN(is_none("hf://", true));
	RUN(is_none("file:///x", true));
	RUN(is_none("a/b/$(x).gguf", true));
	RUN(is_none("https://huggingface.co/a/b/resolve/main/x y.gguf", true));
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	RUN(is_none(longest, true));
	longest[96] = '/';
	RUN(is_none(longest, true));
	longest[193] = '\0';
	snprintf(command, sizeof(command), "vllm_pg_pull hf:%s", longest);
	RUN(is_repository(longest, false, command));
	return check_done("test_hubname");
}
