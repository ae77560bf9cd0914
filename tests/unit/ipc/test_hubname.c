/*
 * test_hubname.c
 *	  Names of Hugging Face repositories given instead of a path.
 */
#include "ipc/hub_name.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/check.h"

static void
is_repository(const char *s, bool bare, const char *command, const char *path)
{
	HubName		h;
	bool		ok = hub_name(s, bare, &h);

	CHECK(ok && strcmp(h.command, command) == 0 && strcmp(h.path, path) == 0, "%s: \"%s\", \"%s\"", s,
		  ok ? h.command : "none", ok ? h.path : "");
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
	static const char whole[] = "hf download Qwen/Qwen3-4B --local-dir /models/Qwen3-4B";
	static const char file[] = "hf download org/x f.gguf --local-dir /models/x";
	char		longest[400];
	char		command[1024];
	char		path[512];

	RUN(is_repository("Qwen/Qwen3-4B", false, whole, "/models/Qwen3-4B"));
	RUN(is_repository("hf://Qwen/Qwen3-4B", false, whole, "/models/Qwen3-4B"));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B", false, whole, "/models/Qwen3-4B"));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B/", false, whole, "/models/Qwen3-4B"));
	RUN(is_repository("https://huggingface.co/Qwen/Qwen3-4B/tree/main", false, whole, "/models/Qwen3-4B"));
	RUN(is_repository("hf.co/Qwen/Qwen3-4B:Q4_K_M", false,
					  "hf download Qwen/Qwen3-4B --include '*Q4_K_M*.gguf' --local-dir /models/Qwen3-4B",
		"/models/Qwen3-4B"));
	RUN(is_repository("org/x:Q4_K_M", false,
					  "hf download org/x --include '*Q4_K_M*.gguf' --local-dir /models/x", "/models/x"));
	RUN(is_repository("org/x/f.gguf", false, file, "/models/x/f.gguf"));
	RUN(is_repository("hf://org/x/f.gguf", false, file, "/models/x/f.gguf"));
	RUN(is_repository("https://huggingface.co/org/x/resolve/main/f.gguf?download=true", false, file,
					  "/models/x/f.gguf"));
	RUN(is_repository("https://huggingface.co/org/x/blob/main/f.gguf", false, file, "/models/x/f.gguf"));
	RUN(is_repository("org/x/a/b.safetensors", false,
					  "hf download org/x a/b.safetensors --local-dir /models/x",
		"/models/x/a/b.safetensors"));
	RUN(is_repository("gpt2", true, "hf download gpt2 --local-dir /models/gpt2", "/models/gpt2"));
	RUN(is_repository("hf://gpt2", false, "hf download gpt2 --local-dir /models/gpt2", "/models/gpt2"));
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
	snprintf(command, sizeof(command), "hf download %s --local-dir /models/%s", longest, longest + 97);
	snprintf(path, sizeof(path), "/models/%s", longest + 97);
	RUN(is_repository(longest, false, command, path));
	return check_done("test_hubname");
}
