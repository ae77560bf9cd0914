/*
 * test_lora_server.c
 *	  Adapters in the engine process with the real core: outputs, log-probabilities and vectors of many
 *	  requests with different adapters equal those of each alone; the same prompts with different
 *	  adapters share no blocks.
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

#define MODEL "build/fixtures/models/llama_f32"
#define N_LORAS 4

static Peer P;
static const char *const loras[N_LORAS] = {"llama_all", "llama_rslora", "llama_ends", NULL};
static char cwd[512];

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static Talk *
call(WireKind kind, const char *lora, const char *prompt, int n)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	char		path[1024];
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 1);
	wire_put_int(&o, WTAG_ROLE, 10);
	put_text(&o, WTAG_MODEL, "m");
	put_text(&o, WTAG_MODEL_PATH, MODEL);
	put_text(&o, WTAG_MODEL_OPTIONS, "{\"max_loras\": 2, \"max_cpu_loras\": 3}");
	if (lora != NULL)
	{
		snprintf(path, sizeof(path), "%s/build/fixtures/lora/%s", cwd, lora);
		put_text(&o, WTAG_LORA, lora);
		put_text(&o, WTAG_LORA_PATH, path);
	}
	put_text(&o, WTAG_PROMPT, prompt);
	if (kind == WK_LOGPROBS)
	{
		put_text(&o, WTAG_CHOICE, " a short one");
		put_text(&o, WTAG_CHOICE, " and another, which is longer");
	}
	else if (kind == WK_GENERATE)
	{
		wire_put_int(&o, WTAG_MAX_TOKENS, 12);
		wire_put_num(&o, WTAG_TEMPERATURE, n > 1 ? 0.8 : 0);
		wire_put_int(&o, WTAG_SEED, 5);
		wire_put_int(&o, WTAG_IGNORE_EOS, 1);
		wire_put_int(&o, WTAG_N, n);
		wire_put_int(&o, WTAG_LOGPROBS, 2);
		wire_put_int(&o, WTAG_PROMPT_LOGPROBS, 1);
	}
	t = talk_begin(&P, kind, &b);
	buf_free(&b);
	return t;
}

/*
 * Return the fields of the last frame that don't depend on time or caches, in one text; *cached: cached
 * tokens.
 */
static char *
result(Talk *t, int64_t *cached)
{
	Buf			b = {0};
	Frame		f;

	if (!talk_final(t, &f, 10000))
		buf_addstr(&b, "no answer");
	else
	{
		WireIn		in = {f.data, f.data + f.len};
		WireField	x;

		while (wire_next(&in, &x) > 0)
			if (x.tag == WTAG_MESSAGE)
				buf_add(&b, x.s, x.n);
			else if (x.tag == WTAG_TEXT || x.tag == WTAG_LP_BYTES)
				buf_printf(&b, "%.*s|", (int) x.n, x.s);
			else if (x.type == WT_FLOATS)
				for (size_t i = 0; i < x.n; i++)
				{
					float		v;

					memcpy(&v, x.s + i * sizeof(float), sizeof(float));
					buf_printf(&b, "%a ", (double) v);
				}
			else if (x.tag == WTAG_CACHED_TOKENS && cached != NULL)
				*cached = x.i;
	}
	buf_addstr(&b, "");
	talk_free(t);
	return b.data;
}

static void
test_mix(void)
{
	static const char *const prompt = "A prompt of some length, that is more than two blocks of sixteen "
									  "tokens each, for all of them";
	char	   *alone[3][N_LORAS];
	Talk	   *t[3][N_LORAS][4];

	for (int kind = 0; kind < 3; kind++)
		for (int i = 0; i < N_LORAS; i++)
		{
			int64_t		cached = -1;

			alone[kind][i] = result(call(kind == 2 ? WK_LOGPROBS : WK_GENERATE, loras[i], prompt,
										 1 + 2 * kind), &cached);
			CHECK(strlen(alone[kind][i]) > 40, "%s: %s", loras[i] != NULL ? loras[i] : "none",
				  alone[kind][i]);
			CHECK(kind > 0 || cached == 0, "%lld tokens of another adapter", (long long) cached);
			for (int k = 0; k < i; k++)
				CHECK(strcmp(alone[kind][i], alone[kind][k]) != 0, "adapters %d and %d answer the same", i,
					  k);
		}
	CHECK(wire_stats(&P.arena)->models[0].max_loras == 2, "%d adapters in a step",
		  wire_stats(&P.arena)->models[0].max_loras);
	CHECK(wire_stats(&P.arena)->models[0].loras_running[0] == '\0', "nobody runs, but %s",
		  wire_stats(&P.arena)->models[0].loras_running);
	/* one place less than adapters, two in a step */
	for (int round = 0; round < 4; round++)
		for (int kind = 0; kind < 3; kind++)
			for (int i = 0; i < N_LORAS; i++)
				t[kind][i][round] = call(kind == 2 ? WK_LOGPROBS : WK_GENERATE, loras[i], prompt,
										 1 + 2 * kind);
	for (int kind = 0; kind < 3; kind++)
		for (int i = 0; i < N_LORAS; i++)
			for (int round = 0; round < 4; round++)
			{
				char	   *got = result(t[kind][i][round], NULL);

				CHECK(strcmp(got, alone[kind][i]) == 0, "kind %d, adapter %d: %.60s instead of %.60s", kind,
					  i, got, alone[kind][i]);
				free(got);
			}
	for (int kind = 0; kind < 3; kind++)
		for (int i = 0; i < N_LORAS; i++)
			free(alone[kind][i]);
}

static void
test_errors(void)
{
	char	   *r = result(call(WK_GENERATE, "gpt2_conv1d", "x", 1), NULL);

	CHECK(strstr(r, "adds to module") != NULL, "%s", r);
	free(r);
	r = result(call(WK_GENERATE, "no_such", "x", 1), NULL);
	CHECK(strstr(r, "adapter_config.json") != NULL, "%s", r);
	free(r);
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--set", "cpu_threads=2", "--set", "kv_cache_memory=16", NULL};
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;
	char	   *r;

	CHECK(getcwd(cwd, sizeof(cwd)) != NULL, "a directory");
	if (peer_start(&P, argc, argv, args, 64, 32768, 1 << 24))
	{
		RUN(test_mix());
		RUN(test_errors());
		put_text(&o, WTAG_COMMAND, "integrity");
		t = talk_begin(&P, WK_CONTROL, &b);
		r = result(t, NULL);
		CHECK(strcmp(r, "ok|") == 0, "%s", r);
		free(r);
	}
	buf_free(&b);
	peer_end(&P);
	return check_done("test_lora_server");
}
