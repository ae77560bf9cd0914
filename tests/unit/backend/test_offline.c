/*
 * test_offline.c
 *	  vllm_pg_engine --offline: outputs don't depend on batch size, chunks or threads; invalid options
 *	  and prompts are errors.
 */
#include "backend/offline.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#include "tests/unit/check.h"

#define MODEL "build/fixtures/models/llama_f32"
#define MAX_ARGS 32

/* Run with the words of a command line; the output goes to *out. */
static int
run(const char *line, Buf *out)
{
	char		words[512];
	char	   *argv[MAX_ARGS];
	int			argc = 0;
	FILE	   *f = tmpfile();
	int			saved = dup(STDOUT_FILENO);
	int			status;
	char		chunk[4096];
	size_t		n;

	snprintf(words, sizeof(words), "engine --offline %s", line);
	for (char *w = strtok(words, " "); w != NULL && argc < MAX_ARGS; w = strtok(NULL, " "))
		argv[argc++] = w;
	fflush(stdout);
	dup2(fileno(f), STDOUT_FILENO);
	status = offline_main(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(f);
	buf_reset(out);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_add(out, chunk, n);
	buf_addstr(out, "");
	fclose(f);
	return status;
}

static int
count_lines(const char *s)
{
	int			n = 0;

	for (; *s != '\0'; s++)
		n += *s == '\n';
	return n;
}

static void
test_same_answers(void)
{
	static const char *const variants[] = {
		"--cpu-threads 1 --max-num-seqs 1", "--cpu-threads 2 --max-num-seqs 8",
		"--cpu-threads 2 --max-num-seqs 3 --max-num-batched-tokens 5 --step-target-ms 0",
		"--cpu-threads 1 --kv-mib 1 --max-num-seqs 8", "--cpu-affinity auto"
	};
	static const char *const kinds[] = {
		"--temperature 0", "--temperature 0.9 --seed 5",
		"--temperature 0.9 --seed 5 --top-p 0.5 --presence-penalty 1.5 --top-k 3"
	};
	Buf			first = {0},
				other = {0};
	char		line[400];

	for (int k = 0; k < 3; k++)
		for (int i = 0; i < 5; i++)
		{
			snprintf(line, sizeof(line), "--model "
					 MODEL " --random-prompts 8,20 --max-tokens 12 --ids %s %s", kinds[k], variants[i]);
			CHECK(run(line, i == 0 ? &first : &other) == 0, "%s", line);
			if (i == 0)
				CHECK(count_lines(first.data) == 8, "%d lines", count_lines(first.data));
			else
				CHECK(strcmp(first.data, other.data) == 0, "answers differ: %s", variants[i]);
		}
	buf_free(&first);
	buf_free(&other);
}

static void
test_prompts_file(void)
{
	char		name[] = "/tmp/vllm_pg_offline_XXXXXX";
	int			fd = mkstemp(name);
	FILE	   *f = fdopen(fd, "w");
	Buf			out = {0};
	char		line[400];

	fprintf(f, "the first prompt\na second one\n");
	fclose(f);
	snprintf(line, sizeof(line), "--model " MODEL " --prompts %s --max-tokens 4 --temperature 0 --stats",
			 name);
	CHECK(run(line, &out) == 0 && count_lines(out.data) == 2, "%s", out.data);
	unlink(name);
	CHECK(run(line, &out) == 1, "a file that is not there");
	buf_free(&out);
}

/* A file that the server refuses is refused here too. */
static void
test_bad_file(void)
{
	char		name[] = "/tmp/vllm_pg_offline_XXXXXX";
	int			fd = mkstemp(name);
	FILE	   *from = fopen("build/fixtures/models/llama_tied_q8_0_gguf.gguf", "rb");
	FILE	   *to = fdopen(fd, "wb");
	Buf			file = {0};
	Buf			out = {0};
	char		chunk[4096];
	char		line[400];
	size_t		n;

	while ((n = fread(chunk, 1, sizeof(chunk), from)) > 0)
		buf_add(&file, chunk, n);
	fclose(from);
	/* within a matrix of the last layer: every scale there becomes NaN */
	memset(file.data + file.len - 20000, 0x7e, 4096);
	CHECK(fwrite(file.data, 1, file.len, to) == file.len, "file written");
	fclose(to);
	snprintf(line, sizeof(line), "--model %s --random-prompts 1,4 --max-tokens 2", name);
	CHECK(run(line, &out) == 1 && out.len == 0, "NaN scales: no prompt is answered");
	unlink(name);
	buf_free(&file);
	buf_free(&out);
}

static void
test_errors(void)
{
	static const char *const lines[] = {
		"", "--model " MODEL, "--model /nowhere --random-prompts 1,1", "--nonsense 1",
		"--model " MODEL " --random-prompts 1,1 --speculative-config {\"model\":\"/nowhere\"}",
		"--model " MODEL " --random-prompts 1", "--model " MODEL " --random-prompts 1,1 --cpu-threads -1",
		"--model " MODEL " --random-prompts 1,1 --cpu-affinity 0-", "--model "
		MODEL " --random-prompts 1,1 --cpu-affinity 1023", "--model "
		MODEL " --random-prompts 1,1 --isa nonsense", "--model", "--model "
		MODEL " --random-prompts 1,1 --temperature -1", "--model "
		MODEL " --random-prompts 1,1 --temperature 3", "--model " MODEL " --random-prompts 1,1 --top-k 1.5",
		"--model " MODEL " --random-prompts 1,1 --logit-bias 1",
		"--model " MODEL " --random-prompts 1,1 --top_p 0.5",
		"--model " MODEL " --random-prompts 1,1 --top-p",
		"--model " MODEL " --random-prompts 1,100000",
		"--model " MODEL " --random-prompts 1,1 --quantization q3"
	};
	Buf			out = {0};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		CHECK(run(lines[i], &out) == 1, "runs: %s", lines[i]);
	buf_free(&out);
}

int
main(void)
{
	if (access(MODEL "/config.json", R_OK) != 0)
	{
		check_skip(1, "no " MODEL);
		return check_done("offline");
	}
	RUN(test_same_answers());
	RUN(test_prompts_file());
	RUN(test_bad_file());
	RUN(test_errors());
	return check_done("offline");
}
