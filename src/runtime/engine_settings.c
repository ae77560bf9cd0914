/*
 * engine_settings.c
 *	  Settings by name: one table row each.
 *
 * The box's lock is held only while a setting is copied.  A setting that shapes a loaded model (KV
 * memory, block size, ISA ...) takes effect at the next load.  Tested by
 * tests/unit/server/test_server.c.
 */
#include "runtime/engine_settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu_threads.h"
#include "base/assert.h"
#include "base/shared_memory.h"
#include "base/sandbox/seccomp.h"
#include "runtime/devices.h"
#include "model/weights/arena.h"
#include "ipc/wire.h"

typedef enum RowKind
{
	ROW_INT, ROW_INT64, ROW_BOOL, ROW_STR
} RowKind;

typedef struct EngineSettingsRow
{
	const char *name;
	RowKind		kind;
	size_t		off;
	int64_t		min;
	int64_t		max;			/* ROW_STR: size of the array */
	int64_t		scale;			/* the given value is multiplied by this */
} EngineSettingsRow;

#define OFF(f) offsetof(Settings, f)

static const EngineSettingsRow rows[] = {
	{"cpu_threads", ROW_INT, OFF(cpu_threads), 0, CPULIST_CPUS, 1},
	{"cpu_affinity", ROW_STR, OFF(cpu_affinity), 0, sizeof(((Settings *) 0)->cpu_affinity), 1},
	{"cpu_isa", ROW_STR, OFF(cpu_isa), 0, sizeof(((Settings *) 0)->cpu_isa), 1},
	{"device", ROW_STR, OFF(device), 0, sizeof(((Settings *) 0)->device), 1},
	{"device_library", ROW_STR, OFF(device_library), 0, sizeof(((Settings *) 0)->device_library), 1},
	{"nccl_path", ROW_STR, OFF(nccl_path), 0, sizeof(((Settings *) 0)->nccl_path), 1},
	{"cuda_kernels", ROW_STR, OFF(cuda_kernels), 0, sizeof(((Settings *) 0)->cuda_kernels), 1},
	{"tensor_parallel_size", ROW_INT, OFF(tensor_parallel_size), 1, GROUP_MOST, 1},
	{"pipeline_parallel_size", ROW_INT, OFF(pipeline_parallel_size), 1, GROUP_MOST, 1},
	{"data_parallel_size", ROW_INT, OFF(data_parallel_size), 1, GROUP_MOST, 1},
	{"tensor_parallel_mode", ROW_STR, OFF(tensor_parallel_mode), 0,
	 sizeof(((Settings *) 0)->tensor_parallel_mode), 1},
	{"expert_placement_strategy", ROW_STR, OFF(expert_placement_strategy), 0,
	 sizeof(((Settings *) 0)->expert_placement_strategy), 1},
	{"enable_expert_parallel", ROW_BOOL, OFF(enable_expert_parallel), 0, 1, 1},
	{"enable_eplb", ROW_BOOL, OFF(enable_eplb), 0, 1, 1},
	{"eplb_config", ROW_STR, OFF(eplb_config), 0, sizeof(((Settings *) 0)->eplb_config), 1},
	{"max_num_seqs", ROW_INT, OFF(max_num_seqs), 0, 4096, 1},
	{"max_num_batched_tokens", ROW_INT, OFF(max_num_batched_tokens), 0, 65536, 1},
	{"max_num_partial_prefills", ROW_INT, OFF(max_num_partial_prefills), 0, 4096, 1},
	{"max_long_partial_prefills", ROW_INT, OFF(max_long_partial_prefills), 1, 4096, 1},
	{"long_prefill_token_threshold", ROW_INT, OFF(long_prefill_token_threshold), 0, INT32_MAX, 1},
	{"block_size", ROW_INT, OFF(block_size), 16, 256, 1},
	{"kv_cache_memory_bytes", ROW_INT64, OFF(kv_cache_memory_bytes), 0, INT64_C(1) << 46, 1},
	{"kv_cache_memory", ROW_INT64, OFF(kv_cache_memory_bytes), 0, INT64_C(1) << 26, 1 << 20},
	{"gpu_memory_utilization", ROW_INT, OFF(gpu_memory_utilization), (int64_t) (GPU_PART_LEAST * 1e6),
	 1000000, 1},
	{"kv_offload_bytes", ROW_INT64, OFF(kv_offload_bytes), 0, INT64_C(1) << 46, 1},
	{"kv_offload", ROW_INT64, OFF(kv_offload_bytes), 0, INT64_C(1) << 26, 1 << 20},
	{"kv_offload_directory", ROW_STR, OFF(kv_offload_directory), 0,
	 sizeof(((Settings *) 0)->kv_offload_directory), 1},
	{"kv_offload_disk_bytes", ROW_INT64, OFF(kv_offload_disk_bytes), 0, INT64_C(1) << 50, 1},
	{"kv_offload_disk", ROW_INT64, OFF(kv_offload_disk_bytes), 1, INT64_C(1) << 30, 1 << 20},
	{"kv_cache_dtype", ROW_STR, OFF(kv_cache_dtype), 0, sizeof(((Settings *) 0)->kv_cache_dtype), 1},
	{"disable_hybrid_kv_cache_manager", ROW_BOOL, OFF(no_windows), 0, 1, 1},
	{"calculate_kv_scales", ROW_BOOL, OFF(calculate_kv_scales), 0, 1, 1},
	{"kv_cache_metrics_sample", ROW_INT, OFF(kv_metrics_sample), 0, 1000000, 1},
	{"huge_pages", ROW_STR, OFF(huge_pages), 0, sizeof(((Settings *) 0)->huge_pages), 1},
	{"repack_cache", ROW_STR, OFF(repack_cache), 0, sizeof(((Settings *) 0)->repack_cache), 1},
	{"seccomp", ROW_STR, OFF(seccomp), 0, sizeof(((Settings *) 0)->seccomp), 1},
	{"logits_processors", ROW_STR, OFF(logits_processors), 0, sizeof(((Settings *) 0)->logits_processors), 1},
	{"hang_timeout_ms", ROW_INT, OFF(hang_timeout_ms), 0, INT32_MAX, 1},
	{"step_target_ms", ROW_INT, OFF(step_target_ms), 0, 60000, 1},
	{"batch_invariant", ROW_BOOL, OFF(batch_invariant), 0, 1, 1},
	{"scheduling_policy", ROW_STR, OFF(scheduling_policy), 0, sizeof(((Settings *) 0)->scheduling_policy), 1},
	{"background_share", ROW_INT, OFF(background_share), 0, 50, 1},
	{"enforce_eager", ROW_BOOL, OFF(enforce_eager), 0, 1, 1},
	{"enable_prefix_caching", ROW_BOOL, OFF(enable_prefix_caching), 0, 1, 1},
	{"prefix_cache_isolation", ROW_STR, OFF(prefix_cache_isolation), 0,
	 sizeof(((Settings *) 0)->prefix_cache_isolation), 1},
	{"enable_lora", ROW_BOOL, OFF(enable_lora), 0, 1, 1},
	{"max_loras", ROW_INT, OFF(max_loras), 1, LORA_MAX_CACHED, 1},
	{"max_cpu_loras", ROW_INT, OFF(max_cpu_loras), 0, LORA_MAX_CACHED, 1},
	{"max_lora_rank", ROW_INT, OFF(max_lora_rank), 1, 512, 1},
	{"lora_dtype", ROW_STR, OFF(lora_dtype), 0, sizeof(((Settings *) 0)->lora_dtype), 1},
	{"speculative_config", ROW_STR, OFF(speculative_config), 0, sizeof(((Settings *) 0)->speculative_config),
	 1},
	{"max_models", ROW_INT, OFF(max_models), 1, WIRE_MAX_MODELS, 1},
	{"memory_limit", ROW_INT64, OFF(memory_limit), 0, INT64_C(1) << 26, 1 << 20},
	{"memory_timeout_ms", ROW_INT, OFF(memory_timeout_ms), 0, INT32_MAX, 1},
	{"keep_alive", ROW_INT, OFF(keep_alive), -1, INT32_MAX, 1},
	{"max_logprobs", ROW_INT, OFF(max_logprobs), -1, INT32_MAX, 1},
	{"logprobs_mode", ROW_STR, OFF(logprobs_mode), 0, sizeof(((Settings *) 0)->logprobs_mode), 1},
	{"fake_step_ms", ROW_INT, OFF(fake_step_ms), 0, 60000, 1},
	{"fake_batch", ROW_INT, OFF(fake_batch), 1, 65536, 1},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

void
settings_box_init(SettingsBox *b)
{
	pthread_mutex_init(&b->lock, NULL);
	b->s = (Settings)
	{
		.cpu_isa = "auto",
			.device = "auto",
			.cuda_kernels = "auto",
			.tensor_parallel_size = 1,
			.pipeline_parallel_size = 1,
			.data_parallel_size = 1,
			.max_long_partial_prefills = 1,
			.block_size = 16,
			.gpu_memory_utilization = 900000,
			.kv_offload_disk_bytes = INT64_C(10) << 30,
			.kv_cache_dtype = "auto",
			.kv_metrics_sample = 10000,
			.huge_pages = "try",
			.seccomp = "on",
			.step_target_ms = 50,
			.batch_invariant = true,
			.scheduling_policy = "fcfs",
			.tensor_parallel_mode = "columns",
			.expert_placement_strategy = "linear",
			.background_share = 6,
			.enable_prefix_caching = true,
			.prefix_cache_isolation = "role",
			.enable_lora = true,
			.max_loras = 32,
			.max_lora_rank = 64,
			.lora_dtype = "auto",
			.max_logprobs = LOGPROBS_MAX,
			.max_models = 64,
			.memory_timeout_ms = 60000,
			.keep_alive = -1,
			.logprobs_mode = "raw_logprobs",
			.fake_batch = 32
	};
}

void
settings_get(SettingsBox *b, Settings *out)
{
	pthread_mutex_lock(&b->lock);
	*out = b->s;
	pthread_mutex_unlock(&b->lock);
}

bool
settings_equal(const Settings *a, const Settings *b)
{
	static const size_t sizes[] = {[ROW_INT] = sizeof(int), [ROW_INT64] = sizeof(int64_t),
								   [ROW_BOOL] = sizeof(bool)};

	for (size_t i = 0; i < N_ROWS; i++)
	{
		const char *x = (const char *) a + rows[i].off;
		const char *y = (const char *) b + rows[i].off;

		if (rows[i].kind == ROW_STR ? strcmp(x, y) != 0 : memcmp(x, y, sizes[rows[i].kind]) != 0)
			return false;
	}
	return true;
}

int
settings_threads(const Settings *s)
{
	CpuPlan		plan;
	Err			e;

	if (cpuplan_make(s->cpu_threads, s->cpu_affinity, &plan, &e))
		return plan.n_threads;
	return s->cpu_threads > 0 ? s->cpu_threads : 1;	/* the affinity is invalid, so no model can be loaded
													 * anyway */
}

int64_t
settings_kv_bytes(int64_t option, const Settings *s)
{
	return option > 0 ? option : s->kv_cache_memory_bytes > 0 ? s->kv_cache_memory_bytes : KV_CACHE_BYTES;
}

KType
settings_kv_auto(KType weights)
{
	return weights == KT_F32 || weights == KT_BF16 ? weights : KT_F16;
}

bool
settings_kv_type(const char *s, KType weights, KType *out)
{
	static const struct
	{
		const char *name;
		KType		type;
	}			names[] = {
		{"float32", KT_F32}, {"float16", KT_F16}, {"bfloat16", KT_BF16}, {"int8", KT_INT8},
		{"fp8", KT_F8_E4M3},
		{"fp8_e4m3", KT_F8_E4M3}, {"fp8_e5m2", KT_F8_E5M2}
	};

	*out = settings_kv_auto(weights);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(s, names[i].name) == 0)
		{
			*out = names[i].type;
			return true;
		}
	return strcmp(s, "auto") == 0;
}

bool
lora_rank_ok(int rank)
{
	static const int ranks[] = {1, 8, 16, 32, 64, 128, 256, 320, 512};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

uint64_t
settings_owner(SettingsBox *b, uint32_t dboid, uint32_t roleid)
{
	char		how;

	pthread_mutex_lock(&b->lock);
	how = b->s.prefix_cache_isolation[0];
	pthread_mutex_unlock(&b->lock);
	/* not 0, which means shared by all; the high bits keep roles and databases apart */
	return how == 'r' ? UINT64_C(1) << 32 | roleid : how == 'd' ? UINT64_C(2) << 32 | dboid : 0;
}

static bool
parse_number(const EngineSettingsRow *r, const char *value, int64_t *out, Err *e)
{
	char	   *end;
	long long	v;

	if (r->kind == ROW_BOOL && (strcmp(value, "on") == 0 || strcmp(value, "true") == 0))
		value = "1";
	else if (r->kind == ROW_BOOL && (strcmp(value, "off") == 0 || strcmp(value, "false") == 0))
		value = "0";
	errno = 0;
	v = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || v < r->min || v > r->max)
		return err_set(e, ERR_INVALID, "invalid value \"%.64s\" for setting \"%s\": must be %lld to %lld",
					   value, r->name, (long long) r->min, (long long) r->max);
	*out = v * r->scale;
	return true;
}

/*
 * What a text must be: one of the words of `must` ("a, b or c"), or, if `ok` is set, a value that this
 * function accepts.
 */
typedef struct TextRule
{
	size_t		off;			/* offset of the setting in Settings */
	const char *must;
	bool		(*ok) (const char *value);
} TextRule;

/* Return true if the word is in the list "a, b or c". */
static bool
is_listed(const char *list, const char *word)
{
	size_t		n = strcspn(word, " ,");

	for (const char *at = word[n] == '\0' ? list : NULL; at != NULL; at = strchr(at, ' '))
	{
		at += *at == ' ' ? 1 : 0;
		if (strncmp(at, "or ", 3) != 0 && strncmp(at, word, n) == 0 && strchr(" ,", at[n]) != NULL)
			return true;
	}
	return false;
}

bool
lora_dtype_ok(const char *s)
{
	return is_listed(LORA_DTYPES, s);
}

static bool
is_device(const char *value)
{
	int			ordinal;
	int			listed;

	return devices_parse(value, 0, &ordinal, &listed);
}

static bool
is_absolute(const char *value)
{
	return value[0] == '\0' || value[0] == '/';
}

static bool
is_nccl_path(const char *value)
{
	return is_absolute(value) || strcmp(value, NCCL_OFF) == 0;
}

static const TextRule text_rules[] = {
	{OFF(device), "auto, cpu, cuda, cuda:N or a list of the last", is_device},
	{OFF(nccl_path), "an absolute path or " NCCL_OFF, is_nccl_path},
	{OFF(repack_cache), "an absolute path", is_absolute},
	{OFF(kv_offload_directory), "an absolute path", is_absolute},
	{OFF(device_library), "an absolute path", is_absolute},
	{OFF(seccomp), "on, off or require", NULL},
	{OFF(cuda_kernels), "auto, mma or wgmma", NULL},
	{OFF(huge_pages), "try, off or on", NULL},
	{OFF(tensor_parallel_mode), "columns or rows", NULL},
	{OFF(expert_placement_strategy), "linear or round_robin", NULL},
	{OFF(scheduling_policy), "fcfs or priority", NULL},
	{OFF(prefix_cache_isolation), "none, role or database", NULL},
	{OFF(logprobs_mode), "raw_logprobs, raw_logits, processed_logprobs or processed_logits", NULL},
	{OFF(lora_dtype), LORA_DTYPES, NULL},
};

static bool
check_text(const EngineSettingsRow *r, const char *value, Err *e)
{
	int			cpus[CPULIST_CPUS];
	char		why[128];
	KType		type;

	if (strlen(value) >= (size_t) r->max)
		return err_set(e, ERR_INVALID, "value for setting \"%s\" is too long", r->name);
	if (r->off == OFF(kv_cache_dtype) && !settings_kv_type(value, KT_F32, &type))
		return err_set(e, ERR_INVALID, "invalid value \"%.64s\" for setting \"%s\"", value, r->name);
	if (r->off == OFF(cpu_affinity) && cpulist_parse(value, cpus, why, sizeof(why)) == CPULIST_BAD)
		return err_set(e, ERR_INVALID, "invalid value \"%.64s\" for setting \"%s\": %s", value, r->name, why);
	for (const TextRule *t = text_rules; t < text_rules + sizeof(text_rules) / sizeof(text_rules[0]); t++)
		if (t->off == r->off && !(t->ok != NULL ? t->ok(value) : is_listed(t->must, value)))
			return err_set(e, ERR_INVALID, "setting \"%s\" must be %s, got \"%.64s\"", r->name, t->must,
						   value);
	return true;
}

static bool
assign_row(SettingsBox *b, const EngineSettingsRow *r, const char *value, Err *e)
{
	char	   *at = (char *) &b->s + r->off;
	int64_t		v = 0;

	if (!(r->kind == ROW_STR ? check_text(r, value, e) : parse_number(r, value, &v, e)))
		return false;
	if (r->off == OFF(block_size) && v % 16 != 0)
		return err_set(e, ERR_INVALID, "setting \"block_size\" must be a multiple of 16");
	if (r->off == OFF(max_lora_rank) && !lora_rank_ok((int) v))
		return err_set(e, ERR_INVALID, "setting \"max_lora_rank\" must be one of " LORA_RANKS);

	pthread_mutex_lock(&b->lock);
	switch (r->kind)
	{
		case ROW_INT:
			*(int *) at = (int) v;
			break;
		case ROW_INT64:
			*(int64_t *) at = v;
			break;
		case ROW_BOOL:
			*(bool *) at = v != 0;
			break;
		case ROW_STR:
			ALWAYS(strlen(value) < (size_t) r->max);	/* check_text() */
			memcpy(at, value, strlen(value) + 1);
			break;
	}
	pthread_mutex_unlock(&b->lock);
	return true;
}

/* Set a setting; ERR_INVALID for an unknown name or a bad value, and nothing is changed then. */
static bool
settings_set(SettingsBox *b, const char *name, const char *value, Err *e)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (strcmp(rows[i].name, name) == 0)
			return assign_row(b, &rows[i], value, e);
	return err_set(e, ERR_INVALID, "unknown setting \"%.64s\"", name);
}

bool
settings_assign(SettingsBox *b, const char *text, Err *e)
{
	const char *eq = strchr(text, '=');
	char		name[64];

	if (eq == NULL || (size_t) (eq - text) >= sizeof(name))
		return err_set(e, ERR_INVALID, "setting \"%.64s\" is not of the form name=value", text);
	memcpy(name, text, (size_t) (eq - text));
	name[eq - text] = '\0';
	return settings_set(b, name, eq + 1, e);
}
