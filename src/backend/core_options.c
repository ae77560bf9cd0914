/*
 * core_options.c
 *	  From a model's description, its options and the settings to the options of its core.
 *
 * This loads nothing.  So CREATE can reject a model that could never be loaded, and can report how much
 * memory the model will take.
 *
 * Tested by tests/unit/server/test_server_core.c, test_inspect.c and tests/t/020_real_model.pl.
 */
#include "backend/core_options.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/machine/system_memory.h"
#include "core/kv/layer_groups.h"
#include "core/ranks/ranks.h"
#include "core/batch_limits.h"
#include "core/spec/spec.h"

static KType
kv_type(const ModelOpts *o, const Settings *s, KType weights)
{
	KType		type;

	settings_kv_type(o->kv_cache_dtype[0] != '\0' ? o->kv_cache_dtype : s->kv_cache_dtype, weights, &type);
	return type;
}

/* Return how many tokens of a sequence fit in the KV memory, of which the drafter takes a part. */
static int64_t
kv_tokens(const ModelInfo *mi, const DraftInfo *draft, const CoreOptions *co)
{
	KvGroups	groups = kvgroups_of(mi, co);
	KvView		kv = {
		.type = co->kv_type,.n_layers = groups.layers,.n_blocks = 1,.block_size = co->block_size,
		.n_kv_heads = mi->n_kv_heads,.head_dim = mi->head_dim,.v_dim = mi->v_dim
	};
	size_t		page;

	/* a bidirectional model keeps no K and V */
	if (mi->n_kv_layers == 0 || mi->both_ways)
		return INT32_MAX;
	page = kv_layout(&kv);
	if (page > 0)
		page += drafter_block_bytes(draft, co->kv_type, co->block_size);
	return page == 0 ? 0 : kvgroups_tokens(&groups, co, (int64_t) (co->kv_bytes / page));
}

/* Recurrent state takes part of the KV memory: all of it, or at most half if the model also has attention. */
static bool
plan_state(const ModelInfo *mi, CoreOptions *co, Err *e)
{
	size_t		room = mi->n_kv_layers > 0 ? co->kv_bytes / 2 : co->kv_bytes;
	size_t		fit;

	if (mi->state_bytes == 0)
		return true;
	fit = room / mi->state_bytes;
	if (fit == 0)
	{
		err_set(e, ERR_INVALID, "the KV cache memory of %zu bytes is too small for the state of one request, "
								"%llu bytes",
				co->kv_bytes, (unsigned long long) mi->state_bytes);
		return err_hint(e, "Raise vllm.kv_cache_memory_bytes.");
	}
	if ((size_t) co->max_num_seqs > fit)
	{
		log_line('I', "%zu requests run at once instead of %d: their state takes %llu bytes each", fit,
				 co->max_num_seqs, (unsigned long long) mi->state_bytes);
		co->max_num_seqs = (int) fit;
	}
	ALWAYS((size_t) co->max_num_seqs <= co->kv_bytes / mi->state_bytes);
	co->kv_bytes -= (size_t) co->max_num_seqs * mi->state_bytes;
	return true;
}

/*
 * Longest sequence of a bidirectional model.  Its work space grows with the longest sequence, so the
 * length that the model claims to support is cut to BOTH_WAYS_LEN, unless the user asks for more.
 */
#define BOTH_WAYS_LEN	32768

static int
both_ways_len(const ModelInfo *mi, const ModelOpts *o)
{
	if (o->max_model_len > 0 && o->max_model_len < mi->max_model_len)
		return o->max_model_len;
	return o->max_model_len > 0 || mi->max_model_len < BOTH_WAYS_LEN ? mi->max_model_len : BOTH_WAYS_LEN;
}

/*
 * Plan the memory of a bidirectional model.  It computes a sequence in one step and keeps nothing: K and
 * V are those of one layer and one step, in F32.
 */
static void
plan_both_ways(const ModelInfo *mi, const ModelOpts *o, CoreOptions *co)
{
	int			len = both_ways_len(mi, o);
	KvView		kv = {
		.type = KT_F32,.n_layers = 1,.n_blocks = 1,.block_size = co->block_size,
		.n_kv_heads = mi->n_kv_heads,.head_dim = mi->head_dim,.v_dim = mi->v_dim
	};

	if (co->max_num_batched_tokens < len)
		co->max_num_batched_tokens = len;
	co->kv_type = KT_F32;
	/* up to a partial block per sequence, and one more: see pages_promised() in sched_plan.c */
	co->kv_bytes = kv_layout(&kv) * ((size_t) (co->max_num_batched_tokens / co->block_size) +
									 3 * (size_t) co->max_num_seqs + 2);
}

bool
coreplan_leave_out(SpecConfig *spec, Err *e)
{
	ASSERT(e->cls != ERR_NONE);	/* the reason, which is logged or reported */
	if (spec->requested)
		return false;
	log_line('W', "no speculative decoding with this model: %s", e->msg);
	e->cls = ERR_NONE;
	memset(spec, 0, sizeof(*spec));
	return true;
}

/* The model's own option overrides the setting, which is ignored for models that can't use it. */
static bool
plan_speculation(const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s,
				 CoreOptions *co, DraftFiles *df, Err *e)
{
	bool		own = o->speculative_config[0] != '\0';

	if (!spec_config_parse(own ? o->speculative_config : s->speculative_config, &co->spec, e))
	{
		if (!own)
			err_detail(e, "The setting vllm.speculative_config is invalid.");
		return false;
	}
	co->spec.requested = own;
	if (own && (co->spec.type != NULL || co->spec.model[0] != '\0') && !spec_suits(mi, e))
		return false;
	return draftfiles_open(df, &co->spec, f->src, mi, f->tok, f->kernels, e) ||
		coreplan_leave_out(&co->spec, e);
}

/* Return the usage of roles, which counts over all models. */
static Accounts *
accounts(void)
{
	static Accounts *of_all;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (of_all == NULL)
		of_all = accounts_new();
	pthread_mutex_unlock(&lock);
	return of_all;
}

/* Reject what ranks that share a model can't do yet, and adapt options that must differ. */
static bool
plan_ranks(const ModelInfo *mi, const Settings *s, CoreOptions *co, DraftFiles *df, Err *e)
{
	EplbConf	eplb;

	if (ranks_replicas() > 1 && s->enable_expert_parallel && mi->work.expert_params > 0)
	{
		err_set(e, ERR_UNSUPPORTED, "experts can't be distributed over the ranks of %d "
									"replicas", ranks_replicas());
		return err_hint(e, "Turn vllm.enable_expert_parallel off, or set vllm.data_parallel_size to 1.");
	}
	if (mi->work.expert_params > 0 && !ranks_eplb(&eplb, e))
		return false;
	if (!ranks_shares(mi))
		return true;
	/* ranks support only blocks of one kind */
	co->no_windows = true;
	if (mi->state_bytes > 0 && ranks_stages() > 1)
		return err_set(e, ERR_UNSUPPORTED, "a model with recurrent layers can't be divided into %d stages",
					   ranks_stages());
	if (df->method != NULL && ranks_stages() > 1)
	{
		err_set(e, ERR_UNSUPPORTED, "speculative decoding with draft weights is not supported with a model "
									"that is divided into %d stages", ranks_stages());
		err_hint(e, "The methods ngram and suffix need no draft weights.");
		draftfiles_close(df);
		return coreplan_leave_out(&co->spec, e);
	}
	return true;
}

int64_t
coreplan_kv_requested(const ModelOpts *o, const Settings *s)
{
	return o->kv_cache_memory_bytes > 0 ? o->kv_cache_memory_bytes : s->kv_cache_memory_bytes;
}

double
coreplan_utilization(const ModelOpts *o, const Settings *s)
{
	return o->gpu_memory_utilization > 0 ? o->gpu_memory_utilization : s->gpu_memory_utilization / 1e6;
}

/* As for the size of steps, a device counts as this many CPU threads. */
#define DEVICE_THREADS	1024

bool
coreplan_make(const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s, CoreOptions *co,
			  DraftFiles *df, Err *e)
{
	CoreOptions whole;
	bool		on_device = f->where->memory > 0;
	/*
	 * on a device only if requested explicitly; else the greatest size possible, and the load determines
	 * the real one (device_budget.c)
	 */
	int64_t		bytes = coreplan_kv_requested(o, s) > 0 ||
		!on_device ? settings_kv_bytes(o->kv_cache_memory_bytes, s) :
		(int64_t) ((double) f->where->memory * coreplan_utilization(o, s));

	*co = (CoreOptions)
	{
		.max_num_seqs = o->max_num_seqs > 0 ? o->max_num_seqs : s->max_num_seqs,
			.max_num_batched_tokens = o->max_num_batched_tokens > 0 ? o->max_num_batched_tokens
			: s->max_num_batched_tokens,
			.block_size = s->block_size,
			.kv_bytes = (size_t) bytes,
			.kv_type = kv_type(o, s, mi->dtype),
			.no_windows = o->no_windows != 0 ? o->no_windows > 0 : s->no_windows,
			.compute_kv_scales = o->kv_scales != 0 ? o->kv_scales > 0 : s->calculate_kv_scales,
			.kv_sample = s->kv_metrics_sample,
			.step_target_us = (int64_t) s->step_target_ms * 1000,
			.no_jump = o->no_jump,
			.prefix_caching = o->prefix_caching != 0 ? o->prefix_caching > 0 : s->enable_prefix_caching,
			.max_loras = o->max_loras > 0 ? o->max_loras : s->max_loras,
			.plugins = plugins_loaded(),
			.priorities = strcmp(s->scheduling_policy, "priority") == 0,
			.background_share = s->background_share,
			.max_partial = o->max_num_partial_prefills > 0 ? o->max_num_partial_prefills :
			s->max_num_partial_prefills, .max_long_partial = o->max_long_partial_prefills > 0 ?
				o->max_long_partial_prefills : s->max_long_partial_prefills,
			.long_prompt = o->long_prefill_token_threshold > 0 ? o->long_prefill_token_threshold :
			s->long_prefill_token_threshold, .accounts = accounts(),
			.max_logprobs = s->max_logprobs != 0 ? s->max_logprobs : LOGPROBS_ZERO,
			.return_logits = strstr(s->logprobs_mode, "_logits") != NULL,
			.return_processed = strncmp(s->logprobs_mode, "processed_", 10) == 0,
			.overlap = true
	};
	memset(df, 0, sizeof(*df));
	if (!plan_speculation(mi, f, o, s, co, df, e) || !plan_ranks(mi, s, co, df, e))
		return false;
	/* derive options that are not given from those that are */
	if (co->max_num_batched_tokens > 0 && co->max_num_batched_tokens < co->max_num_seqs)
		return err_set(e, ERR_INVALID, "max_num_batched_tokens must be at least max_num_seqs (%d), got %d",
					   co->max_num_seqs, co->max_num_batched_tokens);
	/* size the batch as if all layers kept all tokens: many short sequences never free blocks */
	whole = *co;
	whole.no_windows = true;
	sizing_fill(mi, on_device ? DEVICE_THREADS : settings_threads(s), kv_tokens(mi, &df->info, &whole),
				on_device ? f->where->memory : sysmem_available(""), co);
	if (mi->both_ways)
		plan_both_ways(mi, o, co);
	huge_pages_by_name(s->huge_pages, &co->huge);
	if (co->max_num_batched_tokens < co->max_num_seqs)
		co->max_num_batched_tokens = co->max_num_seqs;
	co->no_windows = co->no_windows || drafter_block_bytes(&df->info, co->kv_type, co->block_size) > 0;
	if (!plan_state(mi, co, e) ||
		!sizing_length(o->max_model_len, mi->max_model_len, kv_tokens(mi, &df->info, co), &co->max_model_len,
					   e))
		return false;
	if (mi->both_ways && co->max_model_len > both_ways_len(mi, o))
	{
		co->max_model_len = both_ways_len(mi, o);
		log_line('I', "the longest text has %d tokens instead of %d: the option max_model_len allows more",
				 co->max_model_len, mi->max_model_len);
	}
	/* the setting is for all models: limit the threshold to this model's length */
	if (o->long_prefill_token_threshold == 0 && co->long_prompt > co->max_model_len)
		co->long_prompt = co->max_model_len;
	/* check here, so that a model that can't be loaded isn't created */
	return core_check_options(co, mi->max_model_len, e);
}
