/*
 * backend.h
 *	  The backend interface between the server and the engine core: it executes requests.
 *
 * There are two implementations: backend_core (backend_core.c: files, tokenizer, model, Core) and
 * backend_fake (fake_backend.c: deterministic outputs without a model, for tests of everything around
 * the model).  The server does not know which one it uses.
 *
 * Threads: check, inspect and load run on loader threads; free and check_state on the step thread; step
 * and next_due on the lane's thread (step_loop.c), of which the first is the step thread; encode and
 * decode on any thread at any time; normalize, submit, cancel, facts and stats on any thread while the
 * instance lives.
 */
#ifndef VLLM_BACKEND_BACKEND_H
#define VLLM_BACKEND_BACKEND_H

#include "backend/chat_template_source.h"
#include "backend/model_digest.h"
#include "base/str_view.h"
#include "runtime/engine_settings.h"
#include "runtime/model_options.h"
#include "core/core.h"
#include "backend/weight_source.h"
#include "model/lora/lora.h"

typedef struct ModelFacts
{
	char		arch[32];
	char		dtype[64];		/* "Q8_0", or "Q4_0 (gptq)" */
	char		isa[32];
	char		device[64];		/* WireModelStat.device of a loaded model */
	char		shape[128];		/* two models can swap weights only if their shapes are equal */
	char		ignored[200];	/* set by check: keys of quantization_config that are ignored
								 * (ckpt_ignored()) */
	int			max_model_len;
	int64_t		weight_bytes;
	/* total of weights, KV cache, recurrent state, work space, logits rows and tokenizer */
	int64_t		memory_bytes;
	int64_t		stays_bytes;	/* part of memory_bytes that a sleeping model keeps */
	int64_t		n_params;
	CacheFacts	cache;
} ModelFacts;

/* The fields of a WK_POOL or WK_LOGPROBS message; the texts point into the message. */
#define POOL_MAX_CHOICES 4096

typedef enum LongInput
{
	LONG_ERROR, LONG_TRUNCATE, LONG_CHUNK
} LongInput;

typedef struct PoolRequest
{
	PoolTask	task;
	StrView		text;
	const uint8_t *marks;		/* for a text made by a chat template: see tok_encode_marked(); else NULL */
	StrView		pair;
	StrView		instruction;
	StrView		prompt_name;
	StrView    *choices;		/* owned */
	int			n_choices;
	IntVec		ids;			/* instead of text; owned */
	LongInput	long_input;
	int			truncate;		/* 0 = no, -1 = to what the model accepts, else this many tokens */
	bool		add_special;
	int			dimensions;		/* 0 = all */
	int			activation;		/* -1 = the model's default */
	int32_t		step_tag;		/* -1 = none */
	IntVec		columns;		/* owned */
	bool		alike;			/* score: neither of the two texts is a query */
	bool		default_model;	/* the model is only the default: if it was made to generate, the request
								 * fails */
	bool		want_labels;
	const ChatModel *own_chat;	/* chat templates from the catalog entry's options; NULL = none */
	bool		want_offsets;	/* token tasks: return the position of each token in the text */
	StrView		digest;			/* digest that the model must have; empty = any */
} PoolRequest;

/* The caller of a request, for the fake backend's request log */
typedef struct ReqNote
{
	uint32_t	dboid;
	uint32_t	roleid;
	const char *model;
	const GenParams *params;
	uint64_t	given;			/* set of the GP() bits of given parameters */
	PoolTask	task;			/* PT_NONE: a request that generates */
	const char *prompt;
	size_t		prompt_len;
	const StrView *more;		/* the second text of a pair, or the choices */
	int			n_more;
} ReqNote;

/* Additional results for the reply; the caller owns them. */
typedef struct PoolExtra
{
	IntVec		ids;			/* token tasks: the token ids */
	IntVec		offsets;		/* per token: offset of its start and end in the text, in characters */
} PoolExtra;

/* Load an instance from files, and free it. */
typedef struct ModelLoader
{
	bool		(*check) (const char *path, const ModelOpts *o, const Settings *s, ModelFacts *out, Err *e);
	/* append a JSON object that describes the files to *json */
	bool		(*inspect) (const char *path, const ModelOpts *o, const Settings *s, Buf *json, Err *e);
	BackendModel *(*load) (const char *path, const ModelOpts *o, const Settings *s,
						 LoadProgress progress, void *ctx, Err *e);
	void		(*free) (BackendModel *in); /* first ends live requests with FIN_ABORT */
	void		(*facts) (const BackendModel *in, ModelFacts *out);
	/* Check the files of an adapter; runs on loader threads. */
	bool		(*lora_check) (const char *path, LoraInfo *out, Err *e);
	/*
	 * Load an adapter and check it against this model.  The adapter may live longer than its requests
	 * and its cache (lora_cache.h), but not longer than the instance.  ERR_UNSUPPORTED, ERR_BAD_FILE,
	 * ERR_INVALID (its rank).
	 */
	LoraAdapter *(*lora_load) (const BackendModel *in, const char *path, const LoraLimits *limits, Err *e);
} ModelLoader;

/* Requests of an instance. */
typedef struct Generator
{
	bool		(*encode) (const BackendModel *in, const char *s, size_t n, unsigned flags, IntVec *out,
						   Err *e);
	/* encode without what the post-processor adds: tok_encode_marked() */
	bool		(*encode_marked) (const BackendModel *in, const char *s, const uint8_t *marks, size_t n,
								  IntVec *out, Err *e);
	/* without what the post-processor adds: offset of each token in the text (tok_starts()) */
	bool		(*token_starts) (const BackendModel *in, const char *s, size_t n, IntVec *out, Err *e);
	/* the chat templates of the model's files; lives as long as the instance */
	const ChatModel *(*chat) (const BackendModel *in);
	/* append the bytes that a token contributes to a text; none if the id is invalid */
	void		(*piece) (const BackendModel *in, int32_t id, Buf *out);
	/* fails with ERR_INVALID if an id is out of range */
	bool		(*decode) (const BackendModel *in, const int32_t *ids, size_t n, unsigned flags, Buf *out,
						   Err *e);
	/*
	 * Check a pooled request against the model and make its sequences; any thread.  *out must be empty.
	 * Errors: ERR_UNSUPPORTED (the model has no head for the task), ERR_INVALID with parameter=,
	 * ERR_TOO_LONG.
	 */
	bool		(*pool) (const BackendModel *in, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra,
						 Err *e);
	/* names of a task's columns in WTAG_LABEL's order, NULL-terminated; NULL = none */
	const char *const *(*labels) (const BackendModel *in, PoolTask task);
	/* prepare for requests with a grammar; the first call is slow; ERR_UNSUPPORTED */
	bool		(*prepare_grammar) (BackendModel *in, Err *e);
	bool		(*normalize) (const BackendModel *in, GenParams *p, uint64_t given, const IntVec *prompt,
							  Err *e);
	/* Return the width of a row of ReqSpec.embeds; 0 if the model does not generate. */
	int			(*embed_width) (const BackendModel *in);
	/*
	 * Copy the embedding rows of token ids; any thread.  Returns the index of the first id that is not a
	 * token, n if all are.
	 */
	size_t		(*token_rows) (const BackendModel *in, const int32_t *ids, size_t n, float *out);
	void		(*submit) (BackendModel *in, ReqSpec *spec);
	void		(*cancel) (BackendModel *in, uint64_t id);
	/*
	 * Return the number of lanes: threads that run steps of an instance, each for its own part of the
	 * instance.  Constant since the start.  NULL = one.
	 */
	int			(*lanes) (void);
	/*
	 * From now on let the instance's steps, also the current one, compute on part `part` of `parts`
	 * equal parts of the threads; (0, 1): on all threads.  Any thread.  Returns false if the instance
	 * always uses all that it needs, so no step of another instance may run at the same time.  NULL: two
	 * steps never run at the same time.
	 */
	bool		(*use_threads) (BackendModel *in, int part, int parts);
	/* clock_us() when the lane's next step is due: 0 = now, INT64_MAX = no work */
	int64_t		(*next_due) (BackendModel *in, int lane);
	void		(*step) (BackendModel *in, int lane, const Settings *s);
	/* return the most urgent class of the lane's requests; any thread */
	WorkClass	(*work_class) (BackendModel *in, int lane);
	/*
	 * NULL: step() calls the sinks.  Else another thread calls the sinks, and fn(ctx) after each round
	 * of them.
	 */
	void		(*on_events) (BackendModel *in, void (*fn) (void *ctx), void *ctx);
	/*
	 * NULL: no step is long.  Else a long step of the lane calls fn(ctx, between) now and then, on the
	 * thread of step().  between: fn() may run steps of other instances before it returns.
	 */
	void		(*on_progress) (BackendModel *in, int lane, void (*fn) (void *ctx, bool between), void *ctx);
} Generator;

/* State of an instance: statistics, caches, sleep, swap of weights. */
typedef struct ModelControl
{
	void		(*stats) (const BackendModel *in, CoreStats *out);
	bool		(*check_state) (const BackendModel *in, Err *e);
	/* drop KV blocks of ended requests; NULL = the backend keeps none */
	void		(*reset_prefix_cache) (BackendModel *in);
	/*
	 * Orderly end of the engine, if the offload tier has files (any thread): the step thread flushes the
	 * instance's KV blocks to the tier, then any thread writes the tier's files.  NULL: there is no
	 * tier.
	 */
	bool		(*has_tier_files) (void);
	void		(*flush_kv_to_tier) (BackendModel *in, int64_t deadline_us);
	void		(*flush_tier) (int64_t deadline_us);
	/* Drop all contents of the tier, also of models that are not loaded (any thread). */
	void		(*reset_tier) (void);
	/*
	 * Pinned prefixes: list them; unpin one (false: unknown id).  NULL = the backend can't pin.  Step
	 * thread.
	 */
	void		(*pins) (const BackendModel *in, void (*emit) (void *ctx, const PinInfo *i), void *ctx);
	bool		(*unpin) (BackendModel *in, uint64_t id);
	/*
	 * Pause computing until resume(), but still accept and cancel requests; free_kv: free the memory of
	 * K and V.  Step thread.
	 */
	void		(*suspend) (BackendModel *in, bool free_kv);
	bool		(*resume) (BackendModel *in, Err *e);	/* on ERR_NOMEM it stays suspended */
	/*
	 * Of a suspended instance, any thread: write the weights to a file in dir, and restore them; NULL:
	 * there are no weights.
	 */
	bool		(*save_weights) (BackendModel *in, const char *dir, bool *lost, Err *e);
	bool		(*restore_weights) (BackendModel *in, Err *e);
	/*
	 * Step thread: drop the weights; take the weights of another instance with the same files and
	 * options (core_swap_weights()).  The thread that has loaded that instance frees it afterwards.
	 */
	void		(*drop_weights) (BackendModel *in);
	bool		(*swap_weights) (BackendModel *in, BackendModel *from, Err *e);
	/*
	 * Identify the model by a digest (model_digest.h); any thread.  If the digest is not known yet,
	 * get_digest takes as long as reading the files.  is_digest_known NULL: it is always known.
	 */
	bool		(*is_digest_known) (const BackendModel *in);
	bool		(*get_digest) (const BackendModel *in, char hex[MODEL_DIGEST], Err *e);
} ModelControl;

/* Hooks for tests; each may be NULL. */
typedef struct BackendHooks
{
	/* called for every generate and pooled request on arrival, and for unknown control commands */
	void		(*note) (const ReqNote *n);
	bool		(*control) (const char *command, Buf *out);
} BackendHooks;

typedef struct Backend
{
	const char *name;
	const ModelLoader *loader;
	const Generator *generator;
	const ModelControl *control;
	const BackendHooks *hooks;	/* NULL = none */
} Backend;

extern const Backend backend_core;
extern const Backend backend_fake;

#endif
