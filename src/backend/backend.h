/*
 * backend.h
 *	  What executes requests: the seam between the server and the engine core.
 *
 * Two rows: backend_core (backend_core.c: files, tokenizer, model, Core) and
 * backend_fake (fake.c: deterministic answers without a model, for tests of
 * everything around the model).  The server knows neither.
 *
 * Threads: check, inspect and load on loader threads; free, check_state on
 * the step thread; step, next_due on the lane's (step.c), of which the first is the step thread; encode and decode on any thread at any time; normalize, submit,
 * cancel, facts and stats on any thread while the instance lives.
 */
#ifndef VLLM_ENGINE_BACKEND_H
#define VLLM_ENGINE_BACKEND_H

#include "engine/chatmodel.h"
#include "engine/config.h"
#include "engine/core.h"
#include "engine/graphsizes.h"
#include "engine/source.h"
#include "model/lora.h"

typedef struct Inst Inst;		/* a loaded model */

/* Options of a catalog entry; 0 or "" = not given */
typedef struct ModelOpts
{
	int			max_model_len;
	int			max_num_seqs;
	int			max_num_batched_tokens;
	int			max_num_partial_prefills;
	int			max_long_partial_prefills;
	int			long_prefill_token_threshold;
	int64_t		kv_cache_memory_bytes;
	double		gpu_memory_utilization;
	char		kv_cache_dtype[16];
	int			kv_scales;		/* "calculate_kv_scales": 1, -1; 0 = not given */
	int			no_windows;		/* "disable_hybrid_kv_cache_manager": likewise */
	char		quantization[16];	/* a QuantScheme's name */
	char		dtype[16];		/* likewise; if quantization is not given */
	bool		no_jump;		/* "jump_forward": false */
	int			enforce_eager;	/* 1, -1; 0 = not given */
	int			fp8_activations;	/* likewise */
	int			capture_sizes[GRAPH_SIZES]; /* "cudagraph_capture_sizes" */
	int			n_capture_sizes;	/* 0 = not given */
	int			prefix_caching; /* "enable_prefix_caching": 1, -1; 0 = not given */
	int			enable_lora;	/* 1, -1; 0 = not given */
	int			max_loras;
	int			max_cpu_loras;
	int			max_lora_rank;
	char		lora_dtype[12];
	char		speculative_config[SPEC_TEXT];	/* a JSON object, or "null": off */
	bool		has_keep_alive; /* "keep_alive", */
	int64_t		keep_alive;		/* ... in seconds; -1 = for ever, and pinned */
	double		rope_theta;
	char		rope_scaling[4096]; /* a JSON object */
	char		hf_overrides[4096]; /* likewise: keys of config.json */
	const Inst *for_adopt;		/* not an option: it is loaded for Backend.adopt() into this one, where that is computed, and never runs */
	const Inst *in_place_of;	/* likewise: the one that this one follows; from a device none goes to the CPUs, as nobody would notice */
} ModelOpts;

/* What float matrices become by "quantization" or else "dtype"; NULL = what they are (modelopts.c). */
const QuantScheme *model_opts_scheme(const ModelOpts *o);

typedef struct ModelFacts
{
	char		arch[32];
	char		dtype[40];		/* "Q8_0", or "Q4_0 (gptq)" */
	char		isa[32];
	char		shape[128];		/* weights of another one can't take its place */
	int			max_model_len;
	int64_t		weight_bytes;
	int64_t		memory_bytes;	/* weights, KV cache, recurrent state, work space, rows of logits, tokenizer */
	int64_t		stays_bytes;	/* of this, what it keeps while it sleeps */
	int64_t		n_params;
	CacheFacts	cache;
} ModelFacts;

/* What adapters may be; of a model's options and, where these are silent, the settings (modelopts.c). */
typedef struct LoraLimits
{
	bool		enabled;
	int			max_loras;		/* distinct ones in a step */
	int			max_cpu_loras;	/* in memory, at least max_loras */
	int			max_rank;
	char		dtype[12];		/* of their matrices: auto, float16, bfloat16, float32 */
} LoraLimits;

bool		lora_limits(const ModelOpts *o, const Settings *s, LoraLimits *out, Err *e);

/* The fields of a WK_POOL or WK_LOGPROBS message; texts point into the message. */
#define POOL_MAX_CHOICES 4096

typedef struct PoolText
{
	const char *s;				/* NULL = not given */
	size_t		n;
} PoolText;

typedef enum LongInput
{
	LONG_ERROR, LONG_TRUNCATE, LONG_CHUNK
} LongInput;

typedef struct PoolRequest
{
	PoolTask	task;
	PoolText	text;
	const uint8_t *marks;		/* of a text that a chat template has made: tok_encode_marked(); else NULL */
	PoolText	pair;
	PoolText	instruction;
	PoolText	prompt_name;
	PoolText   *choices;		/* owned */
	int			n_choices;
	IntVec		ids;			/* instead of text; owned */
	LongInput	long_input;
	int			truncate;		/* 0 = no, -1 = to what the model takes */
	bool		add_special;
	int			dimensions;		/* 0 = all */
	int			activation;		/* -1 = the model's */
	int32_t		step_tag;		/* -1 = none */
	IntVec		columns;		/* owned */
	bool		alike;			/* a score: none of the two texts is a query */
	bool		want_labels;
	const ChatModel *own_chat;	/* of the entry's options; NULL = none */
	bool		want_offsets;	/* token tasks: where each token stands in the text */
} PoolRequest;

/* Who asked, for the fake's request log */
typedef struct ReqNote
{
	uint32_t	dboid;
	uint32_t	roleid;
	const char *model;
	bool		has_max_tokens;
	int			max_tokens;
	bool		has_temperature;
	double		temperature;
	PoolTask	task;			/* PT_NONE: an answer is wanted */
	const char *prompt;
	size_t		prompt_len;
	const PoolText *more;		/* the pair, or the choices */
	int			n_more;
} ReqNote;

/* What goes into the reply beside the floats; owned by who asked. */
typedef struct PoolExtra
{
	IntVec		ids;			/* token tasks: the tokens */
	IntVec		offsets;		/* ... two per token, in characters */
} PoolExtra;

typedef struct Backend
{
	const char *name;
	bool		(*check) (const char *path, const ModelOpts *o, const Settings *s, ModelFacts *out, Err *e);
	/* append a JSON object about the files to *json */
	bool		(*inspect) (const char *path, const ModelOpts *o, const Settings *s, Buf *json, Err *e);
	Inst	   *(*load) (const char *path, const ModelOpts *o, const Settings *s,
						 LoadProgress progress, void *ctx, Err *e);
	void		(*free) (Inst *in); /* live requests end with FIN_ABORT first */
	void		(*facts) (const Inst *in, ModelFacts *out);
	bool		(*encode) (const Inst *in, const char *s, size_t n, unsigned flags, IntVec *out, Err *e);
	/* without what the post-processor adds: tok_encode_marked() */
	bool		(*encode_marked) (const Inst *in, const char *s, const uint8_t *marks, size_t n, IntVec *out, Err *e);
	/* without what the post-processor adds: where each token of the text begins (tok_starts()) */
	bool		(*token_starts) (const Inst *in, const char *s, size_t n, IntVec *out, Err *e);
	/* the chat templates of the model's files; lives as long as the instance */
	const ChatModel *(*chat) (const Inst *in);
	/* append the bytes that a token contributes to a text; none if there is no such token */
	void		(*piece) (const Inst *in, int32_t id, Buf *out);
	/* ERR_INVALID when an id is out of range */
	bool		(*decode) (const Inst *in, const int32_t *ids, size_t n, unsigned flags, Buf *out, Err *e);
	/*
	 * Check a pooled request against the model and make its sequences; any thread.
	 * *out is empty before.  Errors: ERR_UNSUPPORTED (a task the model has no head for),
	 * ERR_INVALID with parameter=, ERR_TOO_LONG.
	 */
	bool		(*pool) (const Inst *in, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra, Err *e);
	/* names of a task's columns in WTAG_LABEL's order, NULL-terminated; NULL = none */
	const char *const *(*labels) (const Inst *in, PoolTask task);
	/* be ready for requests with a grammar; slow the first time; ERR_UNSUPPORTED */
	bool		(*prepare_grammar) (Inst *in, Err *e);
	bool		(*normalize) (const Inst *in, GenParams *p, unsigned given, const IntVec *prompt, Err *e);
	/* The width of a row of ReqSpec.embeds; 0: the model doesn't generate. */
	int			(*embed_width) (const Inst *in);
	/* tokens' own such rows; any thread.  The first of them that there is no token of, n = all are there */
	size_t		(*token_rows) (const Inst *in, const int32_t *ids, size_t n, float *out);
	void		(*submit) (Inst *in, ReqSpec *spec);
	void		(*cancel) (Inst *in, uint64_t id);
	/* Threads that make steps of an instance, each of a part of its own; from the start on the same.  NULL = one. */
	int			(*lanes) (void);
	/* clock_us() when the lane's next step is due: 0 = now, INT64_MAX = no work */
	int64_t		(*next_due) (Inst *in, int lane);
	void		(*step) (Inst *in, int lane, const Settings *s);
	void		(*stats) (const Inst *in, CoreStats *out);
	bool		(*check_state) (const Inst *in, Err *e);
	/* NULL: sinks are called in step().  Else fn(ctx) after each round of sinks on another thread. */
	void		(*on_events) (Inst *in, void (*fn) (void *ctx), void *ctx);
	/* NULL: no step is long.  Else fn(ctx) now and then on the way of a long one of the lane's, on the thread of step(). */
	void		(*on_progress) (Inst *in, int lane, void (*fn) (void *ctx), void *ctx);
	/* forget what was computed for requests that are gone; NULL = nothing is kept */
	void		(*reset_prefix_cache) (Inst *in);
	/* An orderly end of the engine: is there anything to keep (any thread)?  What the instance has computed is handed over (step
	 * thread); what has been is written (any thread).  NULL: nothing outlives it. */
	bool		(*keeps) (void);
	void		(*keep) (Inst *in, int64_t deadline_us);
	void		(*kept) (int64_t deadline_us);
	/* What has been kept is forgotten, also of models that aren't loaded (any thread). */
	void		(*unkeep) (void);
	/* prompts that stay computed: tell them, give one up (false: there is none of this number); NULL = there are none; step thread */
	void		(*pins) (const Inst *in, void (*tell) (void *ctx, const PinInfo *i), void *ctx);
	bool		(*unpin) (Inst *in, uint64_t id);
	/* Are the files of an adapter good?  Loader threads. */
	bool		(*lora_check) (const char *path, LoraInfo *out, Err *e);
	/* ... and for this model; the adapter outlives neither the requests nor its cache (lora.h), but the instance.
	 * ERR_UNSUPPORTED, ERR_BAD_FILE, ERR_INVALID (its rank). */
	LoraAdapter *(*lora_load) (const Inst *in, const char *path, const LoraLimits *limits, Err *e);
	/* compute nothing until go_on(), but take in and cancel requests; free_kv: give K and V's memory back; step thread */
	void		(*rest) (Inst *in, bool free_kv);
	bool		(*go_on) (Inst *in, Err *e);	/* ERR_NOMEM: it rests on */
	/* while it rests, on any thread: weights to a file in dir, and back; NULL: there are none */
	bool		(*store) (Inst *in, const char *dir, bool *lost, Err *e);
	bool		(*fetch) (Inst *in, Err *e);
	/* likewise: weights are let go, those of another instance of the same files and options come (core_adopt()); that is then
	 * freed by the thread that has loaded it */
	void		(*forget) (Inst *in);
	bool		(*adopt) (Inst *in, Inst *from, Err *e);
	/* tests' hooks, may be NULL: every generate and pooled request on arrival; unknown control commands */
	void		(*note) (const ReqNote *n);
	bool		(*control) (const char *command, Buf *out);
} Backend;

extern const Backend backend_core;
extern const Backend backend_fake;

#endif
