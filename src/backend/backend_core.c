/*
 * backend_core.c
 *	  The real backend: model files -> tokenizer + model + Core.
 *
 * Each instance has its own compute threads: a pool runs one parallel loop at a time, and the weights of
 * one model may be packed while another one steps.  Waiting pools sleep, so except during a load only
 * one is busy.  With one pool for all, a step would wait for the loops of a load, each of which may take
 * longer than a step; the operating system shares CPUs between two pools well.
 *
 * A GGUF file without tensors is a tokenizer: such an instance has no Core, and requests that need one
 * get an error.
 *
 * With data_parallel_size an instance is a chain of replicas, each with its own tokenizer, model and
 * Core, and with a lane of the step thread (step_loop.c).  Each request goes to one replica
 * (replica_router.h).  Other calls go to all of them, or only to the first if all would return the same.
 *
 * The model is built under load_read_guard(), so that truncating a file during the load gives an error
 * and not a SIGBUS.
 *
 * Tested by tests/unit/server/test_server_core.c and tests/t/020_real_model.pl.
 */
#include "backend/inspect.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "core/device_budget.h"
#include "core/core_internal.h"
#include "backend/backend_core.h"
#include "backend/core_options.h"
#include "runtime/cpu_threads.h"
#include "runtime/devices.h"
#include "backend/lora_loader.h"
#include "backend/offload_tier.h"
#include "backend/pooling/pooling_inputs.h"
#include "core/ranks/ranks.h"
#include "backend/replica_router.h"
#include "backend/weight_source.h"
#include "quant/ckpt/ckpt.h"

/*
 * Return the device of the n-th replica of o->for_adopt, NULL if that is not set.  Weights that another
 * instance will take over must be packed for that instance's device, whichever devices are usable now.
 */
static const DeviceChoice *
where_wanted(const ModelOpts *o, int n)
{
	const BackendModel *in = o->for_adopt;

	while (in != NULL && n-- > 0)
		in = in->next;
	return in != NULL ? &in->where : NULL;
}

/* ---- loading ---- */

static void
fill_shape(const ModelInfo *mi, char *shape)
{
	snprintf(shape, sizeof(((ModelFacts *) 0)->shape),
							   "%s, vocabulary %d, width %d, %d layers, %d heads of %d, %d KV heads, %d "
							   "labels", mi->arch, mi->vocab_size,
			 mi->hidden_size, mi->n_layers, mi->n_heads, mi->head_dim, mi->n_kv_heads, mi->n_labels);
}

static void
fill_facts(const ModelInfo *mi, const char *isa, int max_len, bool fp8_x, ModelFacts *out)
{
	const char *type = mi->dtype == KT_FP8 && fp8_x ? "FP8 x FP8" : ktype_name(mi->dtype);

	memset(out, 0, sizeof(*out));
	snprintf(out->arch, sizeof(out->arch), "%s", mi->arch);
	if (mi->quantization[0] != '\0')
		snprintf(out->dtype, sizeof(out->dtype), "%s (%s)", type, mi->quantization);
	else
		snprintf(out->dtype, sizeof(out->dtype), "%s", type);
	snprintf(out->isa, sizeof(out->isa), "%s", isa);
	fill_shape(mi, out->shape);
	out->max_model_len = max_len;
	out->weight_bytes = (int64_t) mi->weight_bytes;
	out->n_params = (int64_t) mi->n_params;
}

static void
tokenizer_facts(ModelFacts *out)
{
	memset(out, 0, sizeof(*out));
	snprintf(out->arch, sizeof(out->arch), "tokenizer only");
}

/* model_new() reads every weight: if a file is truncated meanwhile, that is an error, not a SIGBUS. */
typedef struct NewModel
{
	const Conf *conf;
	const ModelSource *source;
	ModelOptions *options;
	Model	   *model;
	Err			err;
	BackendModel *in;
	Source	   *src;
	CoreOptions *co;
	DraftFiles *df;
	const Settings *set;
} NewModel;

static void
new_model(void *arg)
{
	NewModel   *n = arg;

	n->model = model_new(n->conf, n->source, n->options, &n->err);
}

/* Open the instance's device, whose ops the model will use. */
static bool
open_device(BackendModel *in, const ModelInfo *mi, const CoreOptions *co, const ModelOpts *mo,
			const Settings *s, Err *e)
{
	in->open = (KDevOpen) {
		.max_rows = co->max_num_batched_tokens,.max_seqs = co->max_num_seqs,
			.max_blocks = (co->max_model_len > 0 ? co->max_model_len : mi->max_model_len) / co->block_size +
			2 + CORE_SAMPLE_BLOCKS,
			/* hidden states may be wanted for all rows */
			.max_out = co->max_num_batched_tokens,.invariant = s->batch_invariant,
			.fp8_x = mo->fp8_activations > 0
	};

	devices_variant(s->cuda_kernels, &in->open.variant);
	if (!devices_open(&in->where, &in->open, mi->dtype, &in->dev, e))
		return false;
	if (in->dev != NULL)
	{
		in->kernels = in->dev->k;
		kpool_set_device(in->pool, in->dev->d);
	}
	return true;
}

/* Load the model and the weights of its drafter.  On failure *e is set, and n->model may be set as well. */
static bool
load_weights(void *ctx, Err *e)
{
	NewModel   *n = ctx;
	BackendModel *in = n->in;
	bool		ok;

	/* bind only while packing: threads that core_new() starts would inherit the affinity */
	kpool_bind(in->pool);
	ok = load_read_guard(n->src->files, new_model, n, e);
	/* a truncated file explains any other error */
	if (ok && n->model == NULL)
	{
		*e = n->err;
		ok = false;
	}
	if (ok && in->ranks != NULL && !ranks_loaded(in->ranks, n->model, n->src->files, e))
	{
		/* the ranks have read different files: ERR_LOST here does not mean a lost device */
		in->tried = in->tried && e->cls != ERR_LOST;
		ok = false;
	}
	n->options->ranks = NULL;
	ok = ok && (draftfiles_load(n->df, &n->co->spec, n->options, n->model, &n->co->drafter, e) ||
				coreplan_leave_out(&n->co->spec, e));
	kpool_bind(NULL);
	/* ranks_connect() starts threads, which may run on any CPU */
	return ok && (in->ranks == NULL || ranks_connect(in->ranks, n->model, in->dev, in->where.ordinal, n->set,
													 e));
}

/* On a device, measure how much memory the weights take. */
static bool
load_measured(NewModel *n, Budget *b, Err *e)
{
	return b->dev == NULL ? load_weights(n, e) : budget_stage(b, "weights and work space", load_weights, n,
															  e);
}

/* Fail if fp8_activations was requested but is not possible. */
static bool
fp8_fits(const ModelInfo *mi, const ModelOpts *o, const DeviceChoice *where, Err *e)
{
	if (o->fp8_activations <= 0 || (mi->dtype == KT_FP8 && where->memory > 0))
		return true;
	if (mi->dtype == KT_FP8)
		err_set(e, ERR_UNSUPPORTED,
				"option \"fp8_activations\" is for GPUs, and this model is computed on the CPUs");
	else
		err_set(e, ERR_UNSUPPORTED,
				"option \"fp8_activations\" is for weights of FP8, and this model's are %s",
				ktype_name(mi->dtype));
	return err_hint(e, "CUDA devices can multiply FP8 weights by activations of FP8; CPUs multiply them as "
					"floats.");
}

/* Prepare the memory budget of a device with its own memory; returns the number of step sizes to record. */
static int
prepare_device(NewModel *n, const ModelOpts *o, const ModelInfo *mi, Budget *budget, int *sizes)
{
	bool		eager = o->enforce_eager != 0 ? o->enforce_eager > 0 : n->set->enforce_eager;
	int			n_sizes = 0;

	if (!eager)
		n_sizes = graph_sizes(o->capture_sizes, o->n_capture_sizes, n->co->max_num_seqs, sizes);
	if (n_sizes > 0)
		log_line('I', "decode steps of up to %d sequences are recorded", sizes[n_sizes - 1]);
	budget->dev = n->in->dev;
	budget->utilization = coreplan_utilization(o, n->set);
	budget_among(budget, n->set, n->in->where.ordinal, n->in->replica, ranks_shares(mi));
	n->co->budget = budget;
	return n_sizes;
}

/* Build the model, then the Core; takes ownership of tok. */
static bool
build(BackendModel *in, Source *src, Tok *tok, const ModelOpts *o, const Settings *s, Err *e)
{
	const Conf *conf = files_conf(src->files);
	ModelSource ms = source_of(src);
	CoreOptions co;
	ModelOptions mo;
	ModelInfo	mi;
	char	   *id = s->repack_cache[0] != '\0' ? files_contents_id(src->files) : NULL;
	DraftFiles	df = {0};
	NewModel	n = {.conf = conf,.source = &ms,.options = &mo,.in = in,.src = src,.co = &co,.df = &df,
					 .set = s};
	Budget		budget = {.name = in->where.name,.kv_bytes = (uint64_t) coreplan_kv_requested(o, s),
						  .fixed_len = o->max_model_len,.least = o->for_adopt != NULL};
	int			sizes[GRAPH_SIZES];
	int			n_sizes;
	const Kernels *as_loaded = devices_sizes(&in->where, in->kernels);
	bool		ok;

	ok = model_check(conf, &ms, model_opts_scheme(o), as_loaded, &mi, e) &&
		coreplan_make(&mi, &(PlanFor) {src, tok, as_loaded, &in->where}, o, s, &co, &df, e) &&
		/* on CPUs check before the load: nothing that follows can make it fit */
		(in->where.memory > 0 || fp8_fits(&mi, o, &in->where, e));
	in->tried = ok && in->where.ops != NULL;
	if (ok)
		fill_shape(&mi, in->shape);
	if (!ok || !open_device(in, &mi, &co, o, s, e))
	{
		draftfiles_close(&df);
		mem_free(id);
		tok_free(tok);
		return false;
	}
	co.kernels = in->kernels;
	co.pool = in->pool;
	co.dev = in->dev;
	co.never_runs = o->for_adopt != NULL;
	n_sizes = in->where.memory > 0 ? prepare_device(&n, o, &mi, &budget, sizes) : 0;
	log_line('I', "steps of at most %d sequences and %d tokens", co.max_num_seqs, co.max_num_batched_tokens);
	mo = (ModelOptions)
	{
		.kernels = in->kernels,.pool = in->pool,.max_rows = co.max_num_batched_tokens,
			.max_out = core_max_logits(&co),.max_model_len = co.max_model_len,
			.quant = model_opts_scheme(o),.huge = co.huge,
			.cache_dir = s->repack_cache,.cache_id = id,.dev = in->dev,.graph_sizes = sizes,
			.n_graph_sizes = n_sizes
	};
	ranks_set_timeout(s->hang_timeout_ms);
	if (ranks_shares(&mi))
		in->ranks = co.ranks = ranks_load(in->replica, in->path, o, &mo,
										  &(RankDevice) {in->dev != NULL ? s : NULL, in->open, mi.dtype},
							df.method != NULL && df.info.kind != DRAFT_MODEL);
	mo.ranks = ranks_of(in->ranks);
	ok = load_measured(&n, &budget, e) && fp8_fits(model_info(n.model), o, &in->where, e);
	in->draft_bytes = co.drafter != NULL ? df.info.model.weight_bytes : 0;
	if (n.model != NULL && co.prefix_caching && prefix_cache_supported(&mi) && in->ranks == NULL &&
		(in->tier = co.kv_tier = offload_store_take(s)) != NULL)
		offload_store_id(src->files, &df, o, &co, &in->where, &in->open, co.kv_id);
	draftfiles_close(&df);
	mem_free(id);
	if (!ok)
	{
		/* free the drafter first: it reads the model's weights */
		if (co.drafter != NULL)
			co.drafter->free(co.drafter);
		if (n.model != NULL)
			model_free(n.model);
		tok_free(tok);
		return false;
	}
	if ((in->core = core_new(n.model, tok, conf, &co, e)) == NULL)
		return false;
	in->pooling = poolmodel_new(core_info(in->core), tok, core_max_model_len(in->core), conf, in->chat, e);
	return in->pooling != NULL;
}

static void
instance_free(BackendModel *in)
{
	if (in->next != NULL)
		instance_free(in->next);
	replicas_free(in->queue);
	if (in->core != NULL)
		core_free(in->core);
	offload_store_give(in->tier);
	ranks_free(in->ranks);
	tok_free(in->tok);
	if (in->pool != NULL)
		kpool_free(in->pool);
	devices_close(in->dev);
	chat_free(in->chat);
	poolmodel_free(in->pooling);
	modeldigest_free(in->digest);
	mem_free(in);
}

static Tok *
read_tok(const Files *files, int64_t *bytes, Err *e)
{
	Tok		   *tok;

	mem_count();
	tok = source_tok(files, e);
	*bytes = mem_counted();
	return tok;
}

/* Reduce the plan to the CPUs of replica n's rank 0: all ranks of all replicas share the CPUs. */
static bool
share_cpus(CpuPlan *cpus, int n)
{
	cpuplan_share(cpus, n * ranks_world(), ranks_replicas() * ranks_world());
	return true;
}

/*
 * Load the model on the given device, or the CPUs.  *of_device is set if the load got as far as using
 * the device, so that an error may be the device's.
 */
static BackendModel *
load_on(const DeviceChoice *where, const char *path, int n, const ModelOpts *o, const Settings *s,
		Source *src, bool *of_device, Err *e)
{
	Files	   *files = NULL;
	BackendModel *in = mem_zalloc(sizeof(BackendModel));
	CpuPlan		cpus;
	bool		ok = false;
	Tok		   *tok = NULL;

	in->path = path;
	in->replica = n;
	in->where = *where;
	in->kernels = cpuplan_kernels(s->cpu_isa, e);
	if (in->kernels != NULL && cpuplan_make(s->cpu_threads, s->cpu_affinity, &cpus, e) &&
		share_cpus(&cpus, n) && (src->files = files = files_open(path, e)) != NULL &&
		(in->digest = modeldigest_new(files, path, o)) != NULL &&
		source_options(files, o, e) && (tok = read_tok(src->files, &in->tok_bytes, e)) != NULL)
	{
		in->chat = chatmodel_of_files(files);
		if (source_tokenizer_only(files))
		{
			in->tok = tok;
			ok = true;
		}
		else if ((in->pool = cpuplan_pool(&cpus, e)) != NULL)
			ok = build(in, src, tok, o, s, e);
		else
			tok_free(tok);
	}
	source_done(src);
	files_close(files);
	*of_device = in->tried;
	if (ok)
		return in;
	/* a pending error of the device is the cause, and *e may only be its consequence */
	(void) dev_wait(in->dev, e);
	instance_free(in);
	return NULL;
}

/*
 * Decide whether a model that does not fit on the device, or that the device can't compute, goes to the
 * CPUs instead.  If so, log that and clear the error.
 */
static bool
falls_back(const ModelOpts *o, const DeviceChoice *where, const char *who, Err *e)
{
	/* the CPUs reject fp8_activations in any case */
	if (!where->if_it_can || o->fp8_activations > 0 || o->for_adopt != NULL ||
		(o->in_place_of != NULL && o->in_place_of->where.memory > 0))
		return false;
	if (e->cls != ERR_UNSUPPORTED && e->cls != ERR_NOMEM)
		return false;
	log_line('W', "the model is computed on the CPUs, not on device %s: %s%s", where->name, who, e->msg);
	e->cls = ERR_NONE;
	return true;
}

/* Load the first replica; cpus: on the CPUs, whatever vllm.device says. */
static BackendModel *
load_first(const char *path, const ModelOpts *o, const Settings *s, bool cpus, LoadProgress progress,
		   void *ctx, Err *e)
{
	Source		src = {.progress = progress,.ctx = ctx};
	Source		again = src;
	const DeviceChoice *wanted = where_wanted(o, 0);
	DeviceChoice where;
	bool		of_device;
	BackendModel *in;

	if (cpus || wanted != NULL)
		where = cpus ? (DeviceChoice) {.ops = NULL} : *wanted;
	else if (!devices_choose(s, 0, 0, ranks_world(), &where, e))
		return NULL;
	if (where.ops == NULL)
		devices_log_why(&where);
	in = load_on(&where, path, 0, o, s, &src, &of_device, e);
	if (in == NULL && of_device && e->cls == ERR_LOST)
		devices_lost(e->msg);
	if (in != NULL || !of_device || !falls_back(o, &where, "", e))
		return in;
	where = (DeviceChoice) {.ops = NULL};
	return load_on(&where, path, 0, o, s, &again, &of_device, e);
}

/* Context of a replica's load: reports progress of the whole. */
typedef struct LoadPart
{
	LoadProgress progress;
	void	   *ctx;
	int			i;
} LoadPart;

static bool
part_progress(void *ctx, double done)
{
	const LoadPart *p = ctx;

	return p->progress == NULL || p->progress(p->ctx, (p->i + done) / ranks_replicas());
}

/*
 * Load a further replica on the same device as the first, because other kinds of devices give other
 * bits, or on the device that a list in vllm.device has for it.
 */
static BackendModel *
load_next(const BackendModel *first, LoadPart *part, const ModelOpts *o, const Settings *s, Err *e)
{
	Source		src = {.progress = part_progress,.ctx = part};
	const DeviceChoice *wanted = where_wanted(o, part->i);
	DeviceChoice where = wanted != NULL ? *wanted : first->where;
	bool		of_device;
	BackendModel *in;

	if (wanted == NULL && where.ops != NULL && !devices_choose(s, part->i, 0, ranks_world(), &where, e))
		return NULL;
	in = load_on(&where, first->path, part->i, o, s, &src, &of_device, e);
	if (in != NULL && in->core == NULL)
	{
		/* the first replica has a core: every call asks the core of each */
		err_set(e, ERR_BAD_FILE, "the files of \"%s\" changed while replicas of the model were loaded",
				first->path);
		instance_free(in);
		return NULL;
	}
	if (in == NULL && of_device && e->cls == ERR_LOST)
		devices_lost(e->msg);
	return in;
}

/*
 * Limit all replicas to the shortest max_model_len: the memory that is left on a device can differ, and
 * each replica must accept any request.
 */
static void
agree_on_length(BackendModel *first)
{
	int			least = core_max_model_len(first->core);

	for (BackendModel *r = first->next; r != NULL; r = r->next)
	{
		ALWAYS(r->core != NULL);	/* load_next() has refused others */
		if (core_max_model_len(r->core) < least)
			least = core_max_model_len(r->core);
	}
	for (BackendModel *r = first; r != NULL; r = r->next)
	{
		core_cap_length(r->core, least);
		poolmodel_shorten(r->pooling, least);
	}
}

/*
 * Load all replicas.  *cpus: load them on the CPUs; set on return if the device has no room for a
 * further replica and all should go to the CPUs instead.
 */
static BackendModel *
load_replicas(const char *path, const ModelOpts *o, const Settings *s, bool *cpus, LoadPart part, Err *e)
{
	BackendModel *first = load_first(path, o, s, *cpus, part_progress, &part, e);
	BackendModel *last = first;

	/* an instance that is only a tokenizer has no queue */
	if (first == NULL || first->core == NULL)
		return first;
	for (part.i = 1; part.i < ranks_replicas(); part.i++, last = last->next)
		if ((last->next = load_next(first, &part, o, s, e)) == NULL)
		{
			*cpus = falls_back(o, &first->where, "another replica: ", e);
			instance_free(first);
			return NULL;
		}
	agree_on_length(first);
	first->queue = replicas_new(part.i, s->block_size);
	return first;
}

static BackendModel *
load(const char *path, const ModelOpts *o, const Settings *s, LoadProgress progress, void *ctx, Err *e)
{
	LoadPart	part = {progress, ctx, 0};
	bool		cpus = false;
	BackendModel *in;

	if (ranks_replicas() == 1)
		return load_first(path, o, s, false, progress, ctx, e);
	in = load_replicas(path, o, s, &cpus, part, e);
	return in == NULL && cpus ? load_replicas(path, o, s, &cpus, part, e) : in;
}

/*
 * Return the device that estimates are made for.  An error is ignored here: then estimates are for the
 * CPUs.
 */
static DeviceChoice
planned_device(const Settings *s)
{
	DeviceChoice where;
	Err			e;

	if (!devices_choose(s, 0, 0, ranks_world(), &where, &e))
		where = (DeviceChoice) {.ops = NULL};
	return where;
}

static bool
check(const char *path, const ModelOpts *o, const Settings *s, ModelFacts *out, Err *e)
{
	DeviceChoice where = planned_device(s);
	Files	   *files = files_open(path, e);
	Source		src = {.files = files};
	ModelSource ms = source_of(&src);
	const Kernels *k = devices_sizes(&where, kernels_select(s->cpu_isa, NULL));
	CoreOptions co;
	ModelInfo	mi;
	DraftFiles	df = {0};
	Tok		   *tok;
	int64_t		tok_bytes = 0;
	uint64_t	work = 0;
	bool		ok;

	if (files == NULL)
		return false;
	tok = source_options(files, o, e) ? read_tok(src.files, &tok_bytes, e) : NULL;
	if (tok != NULL && source_tokenizer_only(files))
	{
		tokenizer_facts(out);
		out->memory_bytes = out->stays_bytes = tok_bytes;
		tok_free(tok);
		source_done(&src);
		files_close(files);
		return true;
	}
	ok = tok != NULL && model_check(files_conf(src.files), &ms, model_opts_scheme(o), k, &mi, e) &&
		coreplan_make(&mi, &(PlanFor) {&src, tok, k, &where}, o, s, &co, &df, e) &&
		(where.memory > 0 || fp8_fits(&mi, o, &where, e)) &&
		model_work(files_conf(src.files), &ms,
				   &(ModelOptions) {.kernels = k, .max_rows = co.max_num_batched_tokens,
									.max_model_len = co.max_model_len, .quant = model_opts_scheme(o)},
									settings_threads(s), &work, e);
	if (ok)
	{
		fill_facts(&mi, "", co.max_model_len, false, out);
		ckpt_ignored(files_conf(src.files), out->ignored, sizeof(out->ignored));
		out->weight_bytes += (int64_t) df.info.model.weight_bytes;
		/* on a device the work space is the device's memory */
		out->stays_bytes = ((where.memory > 0 ? 0 : (int64_t) work) + tok_bytes) * ranks_replicas();
		out->memory_bytes = out->weight_bytes + core_rows_memory(&mi, &co);
		if (where.memory == 0)
			out->memory_bytes += (int64_t) (co.kv_bytes + (uint64_t) co.max_num_seqs * mi.state_bytes);
		out->memory_bytes = out->memory_bytes * ranks_replicas() + out->stays_bytes;
	}
	draftfiles_close(&df);
	source_done(&src);
	if (tok != NULL)
		tok_free(tok);
	files_close(files);
	return ok;
}

static bool
inspect(const char *path, const ModelOpts *o, const Settings *s, Buf *json, Err *e)
{
	DeviceChoice where = planned_device(s);

	return inspect_model(path, o, s, devices_sizes(&where, kernels_select(s->cpu_isa, NULL)), &where,
						 coreplan_make, json, e);
}

/* Append a name to a comma-separated list unless it is there already or does not fit. */
static void
add_device(char *list, size_t size, const char *name)
{
	size_t		at = strlen(list);
	size_t		n = strlen(name);

	for (const char *p = strstr(list, name); p != NULL; p = strstr(p + 1, name))
		if ((p == list || p[-1] == ',') && (p[n] == '\0' || p[n] == ','))
			return;
	if (at + n + 2 <= size)
		snprintf(list + at, size - at, "%s%s", at > 0 ? "," : "", name);
}

/* List the devices of all replicas and of their other ranks. */
static void
fill_device(const BackendModel *in, ModelFacts *out)
{
	for (const BackendModel *r = in; r != NULL; r = r->next)
	{
		char		name[24] = "cpu";
		RankInfo	info;

		/* devices that the CPUs emulate have a name, but no number */
		if (r->dev != NULL && r->where.memory > 0)
			snprintf(name, sizeof(name), "cuda:%d", r->where.ordinal);
		add_device(out->device, sizeof(out->device), name);
		for (int i = 0; r->ranks != NULL && ranks_info(i, &info); i++)
			if (info.replica == r->replica && info.device >= 0)
			{
				snprintf(name, sizeof(name), "cuda:%d", info.device);
				add_device(out->device, sizeof(out->device), name);
			}
	}
}

static void
facts(const BackendModel *in, ModelFacts *out)
{
	if (in->core == NULL)
	{
		tokenizer_facts(out);
		out->memory_bytes = out->stays_bytes = in->tok_bytes;
		snprintf(out->device, sizeof(out->device), "cpu");
	}
	else
	{
		fill_facts(core_info(in->core), in->kernels->name, core_max_model_len(in->core), in->dev != NULL &&
				   in->open.fp8_x, out);
		out->weight_bytes += (int64_t) in->draft_bytes;
		fill_device(in, out);
		for (const BackendModel *r = in; r != NULL; r = r->next)
		{
			out->stays_bytes += core_work_memory(r->core) + r->tok_bytes;
			out->memory_bytes += core_memory(r->core) + (int64_t) r->draft_bytes + r->tok_bytes;
		}
		memcpy(out->shape, in->shape, sizeof(out->shape));
		core_cache_facts(in->core, &out->cache);
	}
}

/*
 * Load copies of the adapter for further replicas on devices, since each may be on another device;
 * replicas on CPUs share one.  On failure returns false and frees a.
 */
static bool
lora_copies(const BackendModel *in, LoraAdapter *a, const char *path, const LoraLimits *limits, Err *e)
{
	LoraAdapter *last = a;

	for (const BackendModel *r = in->next; r != NULL && in->dev != NULL; r = r->next, last = last->next)
		if ((last->next = lora_files_load(core_model(r->core), path, limits->max_rank, limits->dtype, e)) ==
			NULL)
		{
			lora_free(a);
			return false;
		}
	return true;
}

static LoraAdapter *
lora_load(const BackendModel *in, const char *path, const LoraLimits *limits, Err *e)
{
	LoraAdapter *a;

	if (in->core == NULL)
	{
		err_set(e, ERR_UNSUPPORTED, "a tokenizer without a model takes no adapters");
		return NULL;
	}
	a = lora_files_load(core_model(in->core), path, limits->max_rank, limits->dtype, e);
	if (a == NULL || !lora_copies(in, a, path, limits, e))
		return NULL;
	if (in->ranks == NULL)
		return a;
	a->unshare = ranks_unlora;
	a->shared = ranks_lora_number();
	for (LoraAdapter *its = a->next; its != NULL; its = its->next)
		its->shared = a->shared;
	for (const BackendModel *r = in; r != NULL; r = r->next)
	{
		ASSERT(r->ranks != NULL);	/* replicas have ranks if the first one has */
		if (!ranks_lora(r->ranks, a->shared, path, limits->max_rank, limits->dtype, e))
		{
			lora_free(a);
			return NULL;
		}
	}
	return a;
}

static const ModelLoader loader = {
	.check = check,
	.inspect = inspect,
	.load = load,
	.free = instance_free,
	.facts = facts,
	.lora_check = lora_files_check,
	.lora_load = lora_load,
};

const Backend backend_core = {"core", &loader, &backend_core_generator, &backend_core_control, NULL};
