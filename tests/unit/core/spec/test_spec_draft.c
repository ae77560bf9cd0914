/*
 * test_spec_draft.c
 *	  Drafters with weights change no output: real models, tiny and random, with each method and without,
 *	  token for token; a crowd with common prefixes, several choices, in batches, in chunks, preempted,
 *	  cancelled.
 *
 * A model that drafts for itself is always right, greedy or sampled.  And the errors when such files are
 * opened.
 *
 * The same on devices that every machine has ("host", and "moat", whose memory only ops can access),
 * with the CPUs' drafts and outputs.
 */
#include "tests/unit/core/spec/drafts_crowd.h"
#include "hostdev.h"

static const Case cases[] = {
	{.name = "batch", .seqs = 16, .rows = 256, .blocks = 200},
	{.name = "chunks", .seqs = 8, .rows = 64, .blocks = 100, .chunk = 7, .prefix = true},
	{.name = "tight", .seqs = 8, .rows = 64, .blocks = 16, .prefix = true},
	{.name = "cancels", .seqs = 16, .rows = 128, .blocks = 60, .prefix = true, .cancels = true},
	{.name = "rests", .seqs = 16, .rows = 128, .blocks = 100, .prefix = true, .rests = true},
	{.name = "alone", .seqs = 1, .rows = 32, .blocks = 20, .prefix = true},
	{.name = "plain", .seqs = 12, .rows = 128, .blocks = 200, .prefix = true, .plain = true}
};

#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void
test_same_answers(void)
{
	CoreStats	plain;
	Seen	   *want = NULL;

	for (size_t k = 0; k < N_CASES; k++)
		for (size_t m = 0; m < N_METHODS; m++)
		{
			CoreStats	st;
			Seen	   *got = run(methods[m].target, methods[m].config, &cases[k], &st);
			char		label[300];

			/* methods of the same target are adjacent */
			if (want == NULL)
				want = run(methods[m].target, "", &cases[k], &plain);
			snprintf(label, sizeof(label), "%s, %.200s", cases[k].name, methods[m].config);
			compare(label, want, got);
			CHECK(st.spec_draft_tokens > 0, "%s: no drafts", label);
			CHECK(st.mem_weights > plain.mem_weights && st.mem_work > plain.mem_work &&
				  st.mem_other > plain.mem_other, "%s: its memory doesn't count", label);
			if (methods[m].itself && cases[k].plain)
			{
				CHECK(st.spec_accepted == st.spec_draft_tokens, "%s: %lld of %lld drafts were right", label,
					  (long long) st.spec_accepted, (long long) st.spec_draft_tokens);
				CHECK(st.steps * 3 < plain.steps * 2, "%s: %lld steps instead of %lld", label,
					  (long long) st.steps, (long long) plain.steps);
			}
			printf("%-8s %-14s %lld of %lld drafts right, %lld steps instead of %lld, %lld preemptions, %lld "
				   "tokens found\n", cases[k].name, strstr(methods[m].config, "model\": ") ?
				   strrchr(methods[m].config, '/') + 1 : methods[m].config, (long long) st.spec_accepted,
				   (long long) st.spec_draft_tokens, (long long) st.steps, (long long) plain.steps,
				   (long long) st.preemptions, (long long) st.cached_tokens);
			seen_free(got);
			if (m + 1 == N_METHODS || strcmp(methods[m].target, methods[m + 1].target) != 0)
			{
				seen_free(want);
				want = NULL;
			}
		}
}

/* ---- on a device ---- */

static void
check_on(const Dev *dev, KPool *its, const char *target, const char *config, const Case *k)
{
	KPool	   *cpus = pool;
	CoreStats	want_st;
	CoreStats	st;
	Seen	   *want = run(target, config, k, &want_st);
	Seen	   *got;

	on = dev;
	pool = its;
	got = run(target, config, k, &st);
	on = NULL;
	pool = cpus;
	compare(config, want, got);
	CHECK(st.steps == want_st.steps && st.spec_draft_tokens == want_st.spec_draft_tokens &&
		  st.spec_accepted == want_st.spec_accepted,
		  "%s, %s: on the device %lld steps instead of %lld, %lld of %lld drafts right instead of %lld of "
		  "%lld", k->name, config, (long long) st.steps, (long long) want_st.steps,
		  (long long) st.spec_accepted, (long long) st.spec_draft_tokens, (long long) want_st.spec_accepted,
		  (long long) want_st.spec_draft_tokens);
	seen_free(want);
	seen_free(got);
}

/*
 * "moat" is slow: some cases run on it with fewer requests, the others on "host", which shares the CPUs'
 * memory, but has NaNs that no code may read.
 */
static void
test_on(const char *name, int n, bool all)
{
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = 256, .max_seqs = 16, .max_blocks = 32, .max_out = 256};
	char		why[128];
	Dev			dev = {.ops = kdevice_of_cpus(name)};
	KPool	   *its = kpool_new(2);

	dev.d = dev.ops->open(0, &host, &open, why, sizeof(why));
	dev.k = dev.ops->kernels(dev.d, KT_F32);
	kpool_set_device(its, dev.d);
	n_reqs = n;
	for (size_t m = 0; m < N_METHODS; m++)
		for (size_t k = 0; k < N_CASES; k++)
			if (cases[k].rests || (all && (cases[k].cancels || cases[k].chunk > 0)))
				check_on(&dev, its, methods[m].target, methods[m].config, &cases[k]);
	n_reqs = N_REQS;
	kpool_free(its);
	dev.ops->close(dev.d);
}

/* ---- errors ---- */

static void
test_refused(void)
{
	static const struct
	{
		const char *target;
		const char *config;
		const char *what;
	}			bad[] = {
		{"target", "{\"method\": \"draft_model\", \"model\": \"%s/" DRAFTS "target\"}",
		 "\"num_speculative_tokens\" must be given"},
		{"target", "{\"method\": \"medusa\", \"model\": \"%s/"
		 DRAFTS "medusa\", \"num_speculative_tokens\": 5}", "at most 4 with these files, got 5"},
		{"target", "{\"method\": \"medusa\"}", "\"model\" must be given with the method \"medusa\""},
		{"target", "{\"method\": \"mtp\"}", "no layer that drafts tokens"},
		{"target_mimo", "{\"method\": \"mtp\", \"num_speculative_tokens\": 2}",
		 "at most 1 with these files, got 2"},
		{"target", "{\"method\": \"mtp\", \"model\": \"%s/x\"}", "does not apply to the method \"mtp\""},
		{"target", "{\"method\": \"ngram\", \"num_speculative_tokens\": 2, \"model\": \"%s/x\"}",
		 "does not apply to the method \"ngram\""},
		{"target", "{\"model\": \"x\"}", "must be an absolute path"},
		{"target", "{\"model\": 5}", "must be an absolute path"},
		{"target", "{\"model\": \"%s/x\", \"num_speculative_tokens\": 2}", "could not open"},
		{"target", "{\"model\": \"%s/x\", \"draft_tensor_parallel_size\": 2}", "must be 1, got 2"},
		{"target", "{\"model\": \"%s/x\", \"quantization\": \"q99\"}", "\"quantization\" must be"},
		{"target", "{\"method\": \"draft_model\", \"num_speculative_tokens\": 2, \"model\": "
				   "\"%s/models/tickets-2m\"}", "a different vocabulary"},
		{"target", "{\"method\": \"eagle\", \"num_speculative_tokens\": 2, \"model\": "
				   "\"%s/build/fixtures/models/llama_tied_bf16\"}", "\"fc.weight\" is missing"},
		{"../models/llama_f32", "{\"model\": \"%s/" DRAFTS "medusa\"}",
		 "hidden states of 32 values, the model has 48"},
		{"../models/llama_f32", "{\"model\": \"%s/" DRAFTS "mlp\"}",
		 "hidden states of 32 values, the model has 48"},
		{"../models/llama_f32", "{\"model\": \"%s/" DRAFTS "eagle-llama\", \"num_speculative_tokens\": 2}",
		 "hidden states of 32 values, the model has 48"},
		{"../models/llama_f32", "{\"model\": \"%s/" DRAFTS "eagle3_own\", \"num_speculative_tokens\": 2}",
		 "hidden states of 32 values, the model has 48"},
		{"../models/llama_f32", "{\"model\": \"%s/" DRAFTS "eagle3\", \"num_speculative_tokens\": 2}",
		 "hidden states of 32 values, the model has 48"},
		{"../models/olmo2_bias_f16", "{\"model\": \"%s/" DRAFTS "eagle3\", \"num_speculative_tokens\": 2}",
		 "its layers have no norm in front"},
		{"../models/jamba_f16", "{\"model\": \"%s/" DRAFTS "target\", \"num_speculative_tokens\": 2}",
		 "not supported with architecture \"jamba\""},
		{"target", "{\"model\": \"%s/build/fixtures/models/jamba_f16\", \"num_speculative_tokens\": 2}",
		 "state can't be rolled back"},
		{"../encoders/bert", "{\"method\": \"mtp\"}", "has no layer that drafts tokens"},
		{"target", "{\"method\": \"draft_model\", \"num_speculative_tokens\": 2, \"model\": \"%s/"
		 DRAFTS "medusa\"}", "architecture"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		char		path[600];
		char		text[1400];
		Err			e = {0};
		SpecConfig	spec;
		DraftFiles	df = {0};
		Files	   *f;
		Source		source;
		ModelSource src;
		ModelInfo	info;
		Tok		   *tok;

		snprintf(path, sizeof(path), DRAFTS "%s", bad[i].target);
		snprintf(text, sizeof(text), bad[i].config, cwd);
		f = files_open(path, &e);
		source = (Source) {.files = f};
		src = source_of(&source);
		tok = source_tok(f, &e);
		model_check(files_conf(f), &src, NULL, NULL, &info, &e);
		CHECK(!(spec_config_parse(text, &spec, &e) && draftfiles_open(&df, &spec, &source, &info, tok, NULL,
																	  &e)) &&
			  strstr(e.msg, bad[i].what) != NULL, "%s: %s", text, e.msg);
		draftfiles_close(&df);
		tok_free(tok);
		source_done(&source);
		files_close(f);
	}
}

int
main(void)
{
	if (getcwd(cwd, sizeof(cwd)) == NULL)
		return 1;
	pool = kpool_new(2);
	RUN(test_refused());
	RUN(test_same_answers());
	RUN(test_on("host", N_REQS, true));
	RUN(test_on("moat", 3, false));
	kpool_free(pool);
	return check_done("test_spec_draft");
}
