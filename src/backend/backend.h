/*
 * backend.h
 *	  What executes requests: the seam between the server and the engine core.
 *
 * Two rows: backend_core (backend_core.c: files, tokenizer, model, Core) and
 * backend_fake (fake_backend.c: deterministic answers without a model, for tests of
 * everything around the model).  The server knows neither.
 *
 * Threads: check, inspect and load on loader threads; free, check_state on
 * the step thread; step, next_due on the lane's (step_loop.c), of which the first is the step thread;
 * encode and decode on any thread at any time; normalize, submit, cancel, facts and stats on any thread
 * while the instance lives.
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
	char		dtype[40];		/* "Q8_0", or "Q4_0 (gptq)" */
	char		isa[32];
	char		device[64];		/* WireModelStat.device; of a model that is loaded */
	char		shape[128];		/* weights of another one can't take its place */
	char		ignored[200];	/* of check: keys of quantization_config, ckpt_ignored() */
	int			max_model_len;
	int64_t		weight_bytes;
	/* weights, KV cache, recurrent state, work space, rows of logits, tokenizer */
	int64_t		memory_bytes;
	int64_t		stays_bytes;	/* of this, what it keeps while it sleeps */
	int64_t		n_params;
	CacheFacts	cache;
} ModelFacts;

/* The fields of a WK_POOL or WK_LOGPROBS message; texts point into the message. */
#define POOL_MAX_CHOICES 4096

typedef enum LongInput
{
	LONG_ERROR, LONG_TRUNCATE, LONG_CHUNK
} LongInput;

typedef struct PoolRequest
{
	PoolTask	task;
	StrView		text;
	const uint8_t *marks;		/* of a text that a chat template has made: tok_encode_marked(); else NULL */
	StrView		pair;
	StrView		instruction;
	StrView		prompt_name;
	StrView    *choices;		/* owned */
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
	bool		default_model;	/* nobody named the model for this: one that only generates refuses */
	bool		want_labels;
	const ChatModel *own_chat;	/* of the entry's options; NULL = none */
	bool		want_offsets;	/* token tasks: where each token stands in the text */
	StrView		digest;			/* of the model that is meant; empty: whatever it is */
} PoolRequest;

/* The caller, for the fake's request log */
typedef struct ReqNote
{
	uint32_t	dboid;
	uint32_t	roleid;
	const char *model;
	const GenParams *params;
	uint64_t	given;			/* GP() */
	PoolTask	task;			/* PT_NONE: an answer is wanted */
	const char *prompt;
	size_t		prompt_len;
	const StrView *more;		/* the pair, or the choices */
	int			n_more;
} ReqNote;

/* What goes into the reply beside the floats; owned by who asked. */
typedef struct PoolExtra
{
	IntVec		ids;			/* token tasks: the tokens */
	IntVec		offsets;		/* two offsets per token, in characters */
} PoolExtra;

/* From files to an instance, and its end. */
typedef struct ModelLoader
{
	bool		(*check) (const char *path, const ModelOpts *o, const Settings *s, ModelFacts *out, Err *e);
	/* append a JSON object about the files to *json */
	bool		(*inspect) (const char *path, const ModelOpts *o, const Settings *s, Buf *json, Err *e);
	BackendModel *(*load) (const char *path, const ModelOpts *o, const Settings *s,
						 LoadProgress progress, void *ctx, Err *e);
	void		(*free) (BackendModel *in); /* live requests end with FIN_ABORT first */
	void		(*facts) (const BackendModel *in, ModelFacts *out);
	/* Are the files of an adapter good?  Loader threads. */
	bool		(*lora_check) (const char *path, LoraInfo *out, Err *e);
	/*
	 * Are the files of an adapter good for this model?  The adapter outlives the requests and its cache
	 * (lora_cache.h), but not the instance.  ERR_UNSUPPORTED, ERR_BAD_FILE, ERR_INVALID (its rank).
	 */
	LoraAdapter *(*lora_load) (const BackendModel *in, const char *path, const LoraLimits *limits, Err *e);
} ModelLoader;

/* What an instance answers. */
typedef struct Generator
{
	bool		(*encode) (const BackendModel *in, const char *s, size_t n, unsigned flags, IntVec *out,
						   Err *e);
	/* without what the post-processor adds: tok_encode_marked() */
	bool		(*encode_marked) (const BackendModel *in, const char *s, const uint8_t *marks, size_t n,
								  IntVec *out, Err *e);
	/* without what the post-processor adds: where each token of the text begins (tok_starts()) */
	bool		(*token_starts) (const BackendModel *in, const char *s, size_t n, IntVec *out, Err *e);
	/* the chat templates of the model's files; lives as long as the instance */
	const ChatModel *(*chat) (const BackendModel *in);
	/* append the bytes that a token contributes to a text; none if there is no such token */
	void		(*piece) (const BackendModel *in, int32_t id, Buf *out);
	/* ERR_INVALID when an id is out of range */
	bool		(*decode) (const BackendModel *in, const int32_t *ids, size_t n, unsigned flags, Buf *out,
						   Err *e);
	/*
	 * Check a pooled request against the model and make its sequences; any thread.
	 * *out is empty before.  Errors: ERR_UNSUPPORTED (a task the model has no head for),
	 * ERR_INVALID with parameter=, ERR_TOO_LONG.
	 */
	bool		(*pool) (const BackendModel *in, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra,
						 Err *e);
	/* names of a task's columns in WTAG_LABEL's order, NULL-terminated; NULL = none */
	const char *const *(*labels) (const BackendModel *in, PoolTask task);
	/* be ready for requests with a grammar; slow the first time; ERR_UNSUPPORTED */
	bool		(*prepare_grammar) (BackendModel *in, Err *e);
	bool		(*normalize) (const BackendModel *in, GenParams *p, uint64_t given, const IntVec *prompt,
							  Err *e);
	/* The width of a row of ReqSpec.embeds; 0: the model doesn't generate. */
	int			(*embed_width) (const BackendModel *in);
	/* tokens' own such rows; any thread.  The first of them that there is no token of, n = all are there */
	size_t		(*token_rows) (const BackendModel *in, const int32_t *ids, size_t n, float *out);
	void		(*submit) (BackendModel *in, ReqSpec *spec);
	void		(*cancel) (BackendModel *in, uint64_t id);
	/*
	 * Threads that make steps of an instance, each of a part of its own; from the start on the same.  NULL =
	 * one.
	 */
	int			(*lanes) (void);
	/*
	 * The instance's steps compute on the part-th of so many equal parts of the threads from now on, also the
	 * one on its way; 0 of 1: on all.  Any thread.  False: it always has what it needs, and no other
	 * instance's step runs beside its own.  NULL: two steps never run at once.
	 */
	bool		(*use_threads) (BackendModel *in, int part, int parts);
	/* clock_us() when the lane's next step is due: 0 = now, INT64_MAX = no work */
	int64_t		(*next_due) (BackendModel *in, int lane);
	void		(*step) (BackendModel *in, int lane, const Settings *s);
	/* the most urgent of what the lane has of its requests; any thread */
	WorkClass	(*work_class) (BackendModel *in, int lane);
	/* NULL: sinks are called in step().  Else fn(ctx) after each round of sinks on another thread. */
	void		(*on_events) (BackendModel *in, void (*fn) (void *ctx), void *ctx);
	/*
	 * NULL: no step is long.  Else fn(ctx, between) now and then on the way of a long one of the lane's, on
	 * the thread of step().  between: steps of other instances may be made in fn() before it goes on.
	 */
	void		(*on_progress) (BackendModel *in, int lane, void (*fn) (void *ctx, bool between), void *ctx);
} Generator;

/* An instance beside its requests: state, caches, sleep, other weights. */
typedef struct ModelControl
{
	void		(*stats) (const BackendModel *in, CoreStats *out);
	bool		(*check_state) (const BackendModel *in, Err *e);
	/* forget what was computed for requests that are gone; NULL = nothing is kept */
	void		(*reset_prefix_cache) (BackendModel *in);
	/*
	 * An orderly end of the engine, if the tier behind the KV caches has files (any thread): the step thread
	 * flushes what the instance has computed to the tier, then any thread writes the tier's files.  NULL:
	 * there is no tier.
	 */
	bool		(*has_tier_files) (void);
	void		(*flush_kv_to_tier) (BackendModel *in, int64_t deadline_us);
	void		(*flush_tier) (int64_t deadline_us);
	/* Drop what the tier has, also of models that aren't loaded (any thread). */
	void		(*reset_tier) (void);
	/*
	 * Pinned prefixes: list them; unpin one (false: none has this number); NULL = the backend pins nothing;
	 * step thread
	 */
	void		(*pins) (const BackendModel *in, void (*tell) (void *ctx, const PinInfo *i), void *ctx);
	bool		(*unpin) (BackendModel *in, uint64_t id);
	/*
	 * Compute nothing until resume(), but take in and cancel requests; free_kv: give K and V's memory back;
	 * step thread
	 */
	void		(*suspend) (BackendModel *in, bool free_kv);
	bool		(*resume) (BackendModel *in, Err *e);	/* ERR_NOMEM: it stays suspended */
	/* of a suspended instance, any thread: weights to a file in dir, and back; NULL: there are no weights */
	bool		(*save_weights) (BackendModel *in, const char *dir, bool *lost, Err *e);
	bool		(*restore_weights) (BackendModel *in, Err *e);
	/*
	 * Step thread: drops the weights; takes those of another instance of the same files and options
	 * (core_swap_weights()), which the thread that has loaded that instance frees afterwards.
	 */
	void		(*drop_weights) (BackendModel *in);
	bool		(*swap_weights) (BackendModel *in, BackendModel *from, Err *e);
	/*
	 * Which model it is (model_digest.h); any thread.  Not known: it takes as long as reading the files.
	 * NULL: it always is.
	 */
	bool		(*is_digest_known) (const BackendModel *in);
	bool		(*get_digest) (const BackendModel *in, char hex[MODEL_DIGEST], Err *e);
} ModelControl;

/* tests' hooks; each may be NULL */
typedef struct BackendHooks
{
	/* every generate and pooled request on arrival; unknown control commands */
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
