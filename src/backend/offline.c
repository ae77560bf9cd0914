/*
 * offline.c
 *	  vllm_pg_engine --offline: the core on its own, without PostgreSQL.
 *
 *		vllm_pg_engine --offline --model PATH [--cpu-threads N] [--cpu-affinity LIST] [--isa NAME]
 *			[--prompts FILE | --random-prompts N,LEN] [--seed N] [--max-num-seqs N]
 *			[--NAME NUMBER of a parameter: --max-tokens, --top-p ...]
 *			[--max-num-batched-tokens N] [--step-target-ms N] [--kv-mib N]
 *			[--speculative-config OBJECT] [--quantization NAME] [--repack-cache DIRECTORY] [--huge-pages
 *			try|off|on] [--lora PATH | --lora none]... [--ids] [--stats] [--profile]
 *
 * Submits all prompts at once (one per line of FILE; or N prompts of LEN random token ids, which ignore
 * EOS), steps until all have ended, and prints one line per output in the order of the prompts (text
 * with \n, \r, \t and \\ escaped; --ids: token ids).  --stats also prints one line of counters,
 * --profile a table of where the time of all steps but the first went, both on stderr.  Tests compare
 * outputs through SQL with its outputs, and benchmarks compare their speed.  Prompts use the adapters
 * (--lora) in turn.  Single-threaded except for the compute threads.  Tested by
 * tests/unit/backend/test_offline.c.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "core/core_internal.h"
#include "runtime/cpu_threads.h"
#include "runtime/engine_settings.h"
#include "backend/lora_loader.h"
#include "backend/offline.h"
#include "base/rng.h"
#include "backend/weight_source.h"
#include "core/sample/param_range.h"
#include "core/spec/spec.h"
#include "ipc/field_range.h"

#define MAX_PARAMS	64

/* An argument for a number that has a row in request_fields.def. */
typedef struct OfflineParam
{
	int			tag;
	double		v;
} OfflineParam;

typedef struct OfflineArgs
{
	const char *model;
	const char *isa;
	const char *prompts;
	const char *cache;			/* NULL = none */
	const QuantScheme *quant;
	SpecConfig	spec;
	HugePages	huge;
	int			n_random;
	int			len_random;
	int			threads;		/* 0 = one for each CPU that may be used */
	const char *affinity;
	OfflineParam params[MAX_PARAMS];
	int			n_params;
	int			seed;			/* < 0 = not given */
	int			max_num_seqs;
	int			max_rows;
	int			step_target_ms;
	int			kv_mib;
	bool		ids;
	bool		stats;
	bool		profile;
	const char **loras;			/* [n_loras] paths that the prompts use in turn; NULL = no adapter */
	int			n_loras;
} OfflineArgs;

typedef struct OfflineAnswer
{
	IntVec		prompt;
	IntVec		ids;
	Buf			text;
	Err			err;			/* cls != ERR_NONE: the request failed */
	int64_t		first_token_us;
} OfflineAnswer;

typedef struct OfflineRun
{
	OfflineArgs	args;
	Files	   *files;
	KPool	   *pool;
	const Kernels *kernels;
	Core	   *core;
	LoraAdapter **loras;		/* [args.n_loras] */
	OfflineAnswer *answers;		/* [n] */
	int			n;
	int			cap;
	int64_t		max_step_us;
	Profile		profile;
	int64_t		steps;
	int64_t		load_us;		/* time of the load, from start to ready */
	long		peak_anon_kb;	/* peak memory during the load, only measured with --stats */
	long		peak_file_kb;
} OfflineRun;

/* ---- arguments ---- */

static bool
int_arg(const char *name, const char *s, int min, int *out, Err *e)
{
	char	   *end;
	long		v;

	errno = 0;
	v = strtol(s, &end, 10);
	if (*s == '\0' || *end != '\0' || errno != 0 || v < min || v > INT_MAX)
		return err_set(e, ERR_INVALID, "%s must be a number of at least %d, got \"%s\"", name, min, s);
	*out = (int) v;
	return true;
}

static bool
random_arg(const char *s, OfflineArgs *a, Err *e)
{
	char		tail;

	if (sscanf(s, "%d,%d%c", &a->n_random, &a->len_random, &tail) != 2 || a->n_random < 1 ||
		a->len_random < 1)
		return err_set(e, ERR_INVALID, "--random-prompts must be COUNT,LENGTH, got \"%s\"", s);
	return true;
}

/* Return the field whose row has the option's name, e.g. --top-p; 0 = none. */
static int
param_of(const char *option)
{
	static const struct
	{
		const char *name;
		int			tag;
	}			names[] = {
#define FIELD(tag, number, name, ...) {#name, WTAG_##tag},
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		const char *a = option + 2;
		const char *b = names[i].name;

		while (*a != '\0' && *a == (*b == '_' ? '-' : *b))
			a++, b++;
		if (*a == '\0' && *b == '\0' && strncmp(option, "--", 2) == 0)
			return names[i].tag;
	}
	return 0;
}

/* Parse an option for a field.  Returns false without *e set if the option is none of these. */
static bool
param_arg(OfflineArgs *a, const char *name, const char *s, Err *e)
{
	int			tag = param_of(name);
	char	   *end;
	double		v = strtod(s, &end);

	if (tag == 0 || field_range(tag) == NULL)
		return false;
	if (*s == '\0' || *end != '\0' || (field_range(tag)->whole && v != floor(v)))
		return err_set(e, ERR_INVALID, "%s must be a number, got \"%s\"", name, s);
	if (a->n_params == MAX_PARAMS)
		return err_set(e, ERR_INVALID, "more than %d parameters", MAX_PARAMS);
	a->params[a->n_params++] = (OfflineParam) {tag, v};
	return param_in_range(tag, v, e);
}

/* Parse an option that takes a value. */
static bool
value_arg(OfflineArgs *a, const char *name, const char *v, Err *e)
{
	const struct
	{
		const char *name;
		int			min;
		int		   *out;
	}			ints[] = {
		{"--cpu-threads", 0, &a->threads},
		{"--seed", 0, &a->seed},
		{"--max-num-seqs", 1, &a->max_num_seqs},
		{"--max-num-batched-tokens", 1, &a->max_rows},
		{"--step-target-ms", 0, &a->step_target_ms},
		{"--kv-mib", 1, &a->kv_mib},
	};

	if (v == NULL)
		return err_set(e, ERR_INVALID, "%s is unknown or lacks its value", name);
	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		if (strcmp(name, ints[i].name) == 0)
			return int_arg(name, v, ints[i].min, ints[i].out, e);
	if (strcmp(name, "--quantization") == 0)
		return (a->quant = quant_scheme(v)) != NULL ||
			err_set(e, ERR_INVALID, "--quantization must be %s, got \"%s\"", quant_scheme_list(), v);
	if (strcmp(name, "--speculative-config") == 0)
	{
		if (!spec_config_parse(v, &a->spec, e))
			return false;
		if (a->spec.model[0] != '\0' || (a->spec.type != NULL && (a->spec.type->flags & SPEC_WEIGHTS) != 0))
			return err_set(e, ERR_UNSUPPORTED,
						   "--speculative-config supports the methods ngram and suffix only");
		a->spec.requested = true;
		return true;
	}
	if (strcmp(name, "--huge-pages") == 0)
		return huge_pages_by_name(v, &a->huge) ||
			err_set(e, ERR_INVALID, "--huge-pages must be try, off or on, got \"%s\"", v);
	if (param_arg(a, name, v, e) || e->cls != ERR_NONE)
		return e->cls == ERR_NONE;
	if (strcmp(name, "--random-prompts") == 0)
		return random_arg(v, a, e);
	if (strcmp(name, "--lora") == 0)
	{
		a->loras = mem_realloc(a->loras, (size_t) (a->n_loras + 1) * sizeof(char *));
		a->loras[a->n_loras++] = strcmp(v, "none") == 0 ? NULL : v;
		return true;
	}
	if (strcmp(name, "--model") == 0)
		a->model = v;
	else if (strcmp(name, "--cpu-affinity") == 0)
		a->affinity = v;
	else if (strcmp(name, "--isa") == 0)
		a->isa = v;
	else if (strcmp(name, "--prompts") == 0)
		a->prompts = v;
	else if (strcmp(name, "--repack-cache") == 0)
		a->cache = v;
	else
		return err_set(e, ERR_INVALID, "unknown option %s", name);
	return true;
}

static bool
parse_args(int argc, char **argv, OfflineArgs *a, Err *e)
{
	*a = (OfflineArgs) {
		.affinity = "", .seed = -1, .max_num_seqs = 16,
		.max_rows = 2048, .step_target_ms = 250, .kv_mib = 1024
	};
	e->cls = ERR_NONE;
	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--offline") == 0)
			continue;
		if (strcmp(argv[i], "--ids") == 0)
			a->ids = true;
		else if (strcmp(argv[i], "--stats") == 0)
			a->stats = true;
		else if (strcmp(argv[i], "--profile") == 0)
			a->profile = true;
		else if (!value_arg(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL, e))
			return false;
		else
			i++;
	}
	if (a->model == NULL)
		return err_set(e, ERR_INVALID, "--model is missing");
	if ((a->prompts != NULL) == (a->n_random > 0))
		return err_set(e, ERR_INVALID, "either --prompts or --random-prompts is needed");
	if (a->max_rows < a->max_num_seqs)
		a->max_rows = a->max_num_seqs;
	return true;
}

/* ---- model ---- */

/* Return the kB of a line in /proc/self/status, 0 if it is absent. */
static long
status_kb(const char *name)
{
	FILE	   *f = fopen("/proc/self/status", "r");
	size_t		len = strlen(name);
	char		line[256];
	long		kb = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, len) == 0 && line[len] == ':')
			kb = atol(line + len + 1);
	if (f != NULL)
		fclose(f);
	return kb;
}

/* Progress callback of the load: record the peak memory, private and of files. */
static bool
note_memory(void *ctx, double done)
{
	OfflineRun *run = ctx;
	long		anon = status_kb("RssAnon");
	long		file = status_kb("RssFile");

	(void) done;
	run->peak_anon_kb = anon > run->peak_anon_kb ? anon : run->peak_anon_kb;
	run->peak_file_kb = file > run->peak_file_kb ? file : run->peak_file_kb;
	return true;
}

static bool
open_core(OfflineRun *run, Err *e)
{
	const OfflineArgs *a = &run->args;
	ModelOptions mo = {
		.kernels = run->kernels, .pool = run->pool, .max_rows = a->max_rows,
		.quant = a->quant, .huge = a->huge, .cache_dir = a->cache
	};
	CoreOptions co = {
		.kernels = run->kernels, .pool = run->pool, .max_num_seqs = a->max_num_seqs,
		.max_num_batched_tokens = a->max_rows, .block_size = 32, .kv_bytes = (size_t) a->kv_mib << 20,
		.step_target_us = a->step_target_ms * INT64_C(1000), .huge = a->huge, .spec = a->spec
	};
	Source		source = {.files = run->files, .progress = a->stats ? note_memory : NULL, .ctx = run};
	ModelSource src = source_of(&source);
	Tok		   *tok = source_tok(run->files, e);
	char	   *id = files_contents_id(run->files);
	Model	   *model;

	if (tok == NULL)
	{
		mem_free(id);
		return false;
	}
	mo.cache_id = id;
	mo.max_out = core_max_logits(&co);
	model = model_new(files_conf(run->files), &src, &mo, e);
	source_done(&source);
	mem_free(id);
	if (model == NULL)
	{
		tok_free(tok);
		return false;
	}
	co.kv_type = settings_kv_auto(model_info(model)->dtype);
	co.profile = a->profile ? &run->profile : NULL;
	run->core = core_new(model, tok, files_conf(run->files), &co, e);
	return run->core != NULL;
}

/* Load the adapters; a path given twice is loaded once. */
static bool
open_loras(OfflineRun *run, Err *e)
{
	const OfflineArgs *a = &run->args;

	run->loras = mem_zalloc((size_t) (a->n_loras + 1) * sizeof(LoraAdapter *));
	for (int i = 0; i < a->n_loras; i++)
	{
		for (int k = 0; k < i && a->loras[i] != NULL; k++)
			if (a->loras[k] != NULL && strcmp(a->loras[i], a->loras[k]) == 0)
				run->loras[i] = run->loras[k];
		if (a->loras[i] == NULL || run->loras[i] != NULL)
			continue;
		if ((run->loras[i] = lora_files_load(core_model(run->core), a->loras[i], 512, "auto", e)) == NULL)
			return false;
		run->loras[i]->id = (uint64_t) i + 1;
	}
	return true;
}

static void
free_loras(OfflineRun *run)
{
	for (int i = run->args.n_loras - 1; i >= 0 && run->loras != NULL; i--)
		if (run->loras[i] != NULL && run->loras[i]->id == (uint64_t) i + 1)
			lora_free(run->loras[i]);
	mem_free(run->loras);
	mem_free(run->args.loras);
}

static bool
open_all(OfflineRun *run, Err *e)
{
	const char *why = "unknown";
	CpuPlan		cpus;

	run->kernels = kernels_select(run->args.isa, &why);
	if (run->kernels == NULL)
		return err_set(e, ERR_INVALID, "--isa %s: %s", run->args.isa, why);
	if (!cpuplan_make(run->args.threads, run->args.affinity, &cpus, e) ||
		(run->pool = cpuplan_pool(&cpus, e)) == NULL)
		return false;
	kpool_bind(run->pool);
	run->files = files_open(run->args.model, e);
	return run->files != NULL && open_core(run, e) && open_loras(run, e);
}

/* ---- prompts ---- */

static OfflineAnswer *
add_answer(OfflineRun *run)
{
	ASSERT(!core_has_work(run->core));	/* requests point to their answers, which move */
	if (run->n == run->cap)
	{
		run->cap = run->cap == 0 ? 64 : run->cap * 2;
		run->answers = mem_realloc(run->answers, (size_t) run->cap * sizeof(OfflineAnswer));
	}
	memset(&run->answers[run->n], 0, sizeof(OfflineAnswer));
	return &run->answers[run->n++];
}

static bool
read_prompts(OfflineRun *run, Err *e)
{
	FILE	   *f = fopen(run->args.prompts, "r");
	char	   *line = NULL;
	size_t		size = 0;
	ssize_t		len;
	bool		ok = true;

	if (f == NULL)
		return err_set(e, ERR_IO, "could not open \"%s\": %s", run->args.prompts, strerror(errno));
	while (ok && (len = getline(&line, &size, f)) >= 0)
	{
		OfflineAnswer *a = add_answer(run);

		if (len > 0 && line[len - 1] == '\n')
			len--;
		ok = tok_encode(core_tok(run->core), line, (size_t) len, TOK_ADD_SPECIAL, &a->prompt, e);
	}
	free(line);
	fclose(f);
	return ok;
}

/* Make prompts of ids from a fixed random stream: the same in every run, without special tokens. */
static void
make_prompts(OfflineRun *run)
{
	const Tok  *tok = core_tok(run->core);
	uint32_t	n_ids = (uint32_t) core_defaults(run->core)->n_valid;

	for (int i = 0; i < run->args.n_random; i++)
	{
		OfflineAnswer *a = add_answer(run);

		for (uint32_t j = 0; a->prompt.len < (size_t) run->args.len_random; j++)
		{
			uint32_t	ctr[4] = {j, (uint32_t) i, 0, 0};
			uint32_t	key[2] = {20, 26};
			uint32_t	bits[4];
			int32_t		id;

			rng_philox(ctr, key, bits);
			id = (int32_t) (((uint64_t) bits[0] * n_ids) >> 32);
			if (!tok_is_special(tok, id) || j > 1000000)
				intvec_push(&a->prompt, id);
		}
	}
}

/* ---- running ---- */

static void
on_event(void *ctx, Req *r, const ReqEvent *ev)
{
	OfflineAnswer *a = ctx;

	(void) r;
	intvec_add(&a->ids, ev->ids, (size_t) ev->n_ids);
	buf_add(&a->text, ev->text, ev->text_len);
	if (ev->first_token_us > 0 && a->first_token_us == 0)
		a->first_token_us = ev->first_token_us;
	if (ev->err != NULL)
		a->err = *ev->err;
}

static void
submit_one(OfflineRun *run, int i)
{
	const OfflineArgs *args = &run->args;
	OfflineAnswer *a = &run->answers[i];
	ReqSpec		spec = {
		.id = (uint64_t) i, .session = 1, .sink = on_event, .sink_ctx = a,
		.lora = args->n_loras > 0 ? run->loras[i % args->n_loras] : NULL
	};
	GenParams	p;
	uint64_t	given = 0;

	genparams_init(&p);
	for (int j = 0; j < args->n_params; j++)
		genparams_number(&p, &given, args->params[j].tag, args->params[j].v);
	p.has_seed = args->seed >= 0;
	p.seed = args->seed;
	p.ignore_eos = args->n_random > 0;
	p.detokenize = !args->ids;
	if (!core_normalize(run->core, &p, given, &a->prompt, &a->err))
	{
		genparams_free(&p);
		return;
	}
	intvec_add(&spec.prompt, a->prompt.data, a->prompt.len);
	spec.params = p;
	core_submit(run->core, &spec);
}

static int
print_answers(const OfflineRun *run)
{
	int			failed = 0;

	for (int i = 0; i < run->n; i++)
	{
		const OfflineAnswer *a = &run->answers[i];

		if (a->err.cls != ERR_NONE)
		{
			fprintf(stderr, "prompt %d: %s\n", i + 1, a->err.msg);
			failed++;
		}
		for (size_t j = 0; run->args.ids && j < a->ids.len; j++)
			printf("%s%d", j > 0 ? " " : "", a->ids.data[j]);
		for (size_t j = 0; !run->args.ids && j < a->text.len; j++)
		{
			char		c = a->text.data[j];

			if (c == '\n' || c == '\r' || c == '\t' || c == '\\')
				printf("\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c);
			else
				putchar(c);
		}
		putchar('\n');
	}
	return failed;
}

static void
print_stats(const OfflineRun *run, int64_t start_us, int64_t us)
{
	CoreStats	st;
	double		s = (double) us / 1e6;
	double		first = 0;

	core_stats(run->core, &st);
	for (int i = 0; i < run->n; i++)
		if (run->answers[i].first_token_us > 0)
			first += (double) (run->answers[i].first_token_us - start_us) / 1e6 / run->n;
	fprintf(stderr, "kernels=%s threads=%d requests=%d prompt_tokens=%lld output_tokens=%lld rows=%lld "
			"steps=%lld seconds=%.3f avg_batch=%.2f requests_per_s=%.3f output_tokens_per_s=%.1f "
			"rows_per_s=%.1f mean_first_token_s=%.3f max_step_ms=%.1f preemptions=%lld load_s=%.3f "
			"weights_mb=%.1f peak_anon_mb=%.1f peak_file_mb=%.1f\n",
			run->kernels->name, kpool_nthreads(run->pool), run->n, (long long) st.prompt_tokens,
			(long long) st.output_tokens, (long long) st.step_rows, (long long) st.steps, s,
			st.steps > 0 ? (double) st.step_seqs / (double) st.steps : 0, run->n / s,
			(double) st.output_tokens / s, (double) st.step_rows / s, first, (double) run->max_step_us / 1e3,
			(long long) st.preemptions, (double) run->load_us / 1e6,
			(double) core_info(run->core)->weight_bytes / 1e6, (double) run->peak_anon_kb / 1e3,
			(double) run->peak_file_kb / 1e3);
}

static void
print_profile(const OfflineRun *run)
{
	static const char *const names[PROF_KINDS] = {
		[PROF_MATMUL] = "matmul",[PROF_HEAD] = "LM head",[PROF_ATTENTION] = "attention",
		[PROF_ROWS] = "norms, rotation, activation",[PROF_EMBED] = "embedding",[PROF_SAMPLE] = "sampling",
		[PROF_OUTPUT] = "output",[PROF_SCHEDULE] = "scheduling",[PROF_BETWEEN] = "between steps"
	};
	int64_t		steps = run->steps > 1 ? run->steps - 1 : 1;
	double		total = 0;

	for (int i = 0; i < PROF_KINDS; i++)
		total += (double) run->profile.ns[i];
	for (int i = 0; i < PROF_KINDS; i++)
		fprintf(stderr, "%-28s %10.1f us a step  %6.2f %%  (%lld times)\n", names[i],
				(double) run->profile.ns[i] / 1e3 / (double) steps,
				total > 0 ? 100 * (double) run->profile.ns[i] / total : 0, (long long) run->profile.n[i]);
	fprintf(stderr, "%-28s %10.1f us a step, %lld steps\n", "all", total / 1e3 / (double) steps,
			(long long) steps);
}

static int
run_all(OfflineRun *run, Err *e)
{
	int64_t		start = clock_us();

	if (!open_all(run, e))
		return -1;
	run->load_us = clock_us() - start;
	if (run->args.prompts == NULL)
		make_prompts(run);
	else if (!read_prompts(run, e))
		return -1;
	start = clock_us();
	for (int i = 0; i < run->n; i++)
		submit_one(run, i);
	while (core_has_work(run->core))
	{
		int64_t		t = clock_us();

		core_step(run->core);
		t = clock_us() - t;
		run->max_step_us = t > run->max_step_us ? t : run->max_step_us;
		/*
		 * the first step touches memory for the first time: leave it out of the profile if there are
		 * others
		 */
		if (run->steps++ == 0 && core_has_work(run->core))
			memset(&run->profile, 0, sizeof(run->profile));
	}
	note_memory(run, 1);
	if (run->args.stats)
		print_stats(run, start, clock_us() - start);
	if (run->args.profile)
		print_profile(run);
	return print_answers(run);
}

int
offline_main(int argc, char **argv)
{
	OfflineRun	run = {0};
	Err			e = {0};
	int			failed = -1;

	if (parse_args(argc, argv, &run.args, &e))
		failed = run_all(&run, &e);
	if (failed < 0)
		fprintf(stderr, "vllm_pg_engine: %s\n%s%s", e.msg, e.detail, e.detail[0] != '\0' ? "\n" : "");
	core_free(run.core);
	if (run.files != NULL)
		files_close(run.files);
	if (run.pool != NULL)
		kpool_free(run.pool);
	for (int i = 0; i < run.n; i++)
	{
		intvec_free(&run.answers[i].prompt);
		intvec_free(&run.answers[i].ids);
		buf_free(&run.answers[i].text);
	}
	mem_free(run.answers);
	free_loras(&run);
	return failed == 0 ? 0 : 1;
}
