/*
 * wire.h
 *	  The one contract between PostgreSQL and the engine: the shared arena.
 *
 * The arena is a memfd made by the postmaster, mapped by every backend (same
 * address, by fork) and by the engine (elsewhere: only offsets are stored).
 * Either side treats what the other wrote as untrusted: cursors and lengths are
 * checked and copied once; the geometry is used from a private copy (WireArena),
 * never from the arena.  No pointer, no lock and no allocation lives here.
 *
 *	OFFSET				SIZE					WHAT
 *	0					4096					WireHeader
 *	stats_off			WIRE_STATS_SIZE			WireStats (engine writes)
 *	to_engine_off		4 * n_slots				ring of slot numbers: "look at this slot"
 *	to_worker_off		4 * n_slots				ring of slot numbers: "wake its owner"
 *	slots_off			WIRE_SLOT_SIZE*n_slots	WireSlot
 *	rings_off			2*ring_size*n_slots		per slot: request ring, reply ring
 *
 * A SLOT is one conversation: the backend streams one request message through
 * the request ring, the engine streams reply frames through the reply ring; both
 * may be longer than the ring.  Nothing has to be freed: a slot is reset when it
 * is claimed, so a lost backend, request or engine can leak nothing but the
 * slot, and that has one owner (src/pg/shared_state.h).
 *
 *	state		set by		meaning
 *	FREE		backend		nobody uses it
 *	OPEN		backend		claimed; request being written / replies being read
 *	CLOSED		engine		the engine has dropped it and never touches it again
 *	LOST		supervisor	the engine died while it was OPEN
 *
 * Which process may write which word: backend: state FREE->OPEN, gen, cancel, req_head, rep_tail,
 * request ring; when it claims the slot, which is nobody else's then, all words.  Engine: state OPEN->CLOSED,
 * req_tail, rep_head, reply ring, live counters. Supervisor: OPEN->LOST, only while no engine process exists.
 *
 * A conversation's four cursors begin at 0.  Each side goes by its own copies of the two that it advances,
 * and only publishes them; the backend also compares: a published one that changed is damage.
 *
 * Order: data, then cursor (release); reader: cursor (acquire), then data.  For
 * the last frame the engine writes the bytes, then state = CLOSED, then rep_head:
 * a backend that has read the final frame knows that the engine has released the slot. A backend that has NOT
 * read it (cancelled, zombie) frees the slot only when let_go == gen: CLOSED alone may be
 * seen in the moment before the engine's store of rep_head.
 *
 * ATTENTION.  Backend -> engine: set slot->attn (exchange); if it was 0 push the
 * slot number to the to_engine ring (under the backends' spinlock), add 1 to
 * doorbell, and futex-wake if engine_sleeping.  The engine clears attn *before*
 * it looks at the slot.  Engine -> backend: the same with slot->wake (IDLE ->
 * QUEUED), the to_worker ring and one byte on the control socket; the supervisor
 * clears wake and sets the owner's latch.  An owner that is awake and will look by
 * itself makes an IDLE wake QUIET, and IDLE again before it looks for the last time and
 * sleeps: the engine tells nobody of a QUIET slot.  A ring has n_slots entries and a slot is in it at
 * most once, so neither overflows (a corrupt ring is detected and reset); what mends damage
 * (pg/supervisor/slot_care.c) pushes a slot twice at most where there is room.
 */
#ifndef VLLM_IPC_WIRE_H
#define VLLM_IPC_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC		UINT32_C(0x4d4c4c56)	/* "VLLM" */
#define WIRE_VERSION	10
#define WIRE_HEADER_SIZE 4096
#define WIRE_SLOT_SIZE	256
#define WIRE_STATS_SIZE	(1024 * 1024)
#define WIRE_MAX_DEVICES	16
#define WIRE_MAX_MODELS	128		/* most that vllm.max_models may be */
#define WIRE_MAX_SLOTS	131072	/* settings allow half: there are spares behind (src/pg/shared_state.h) */
#define WIRE_NAME_LEN	64		/* NAMEDATALEN */
#define WIRE_LORA_NAMES	512
#define WIRE_SECRET_MODEL	1	/* WTAG_SECRET_PATHS */
#define WIRE_SECRET_LORA	2

typedef enum WireState
{
	WS_FREE = 0, WS_OPEN, WS_CLOSED, WS_LOST
} WireState;

/* What the engine is doing with a slot's request (live figure). */
typedef enum WirePhase
{
	WP_NONE = 0, WP_RECEIVING, WP_LOADING_MODEL, WP_WAITING, WP_RUNNING, WP_PREEMPTED, WP_FINISHED, WP_ASLEEP
} WirePhase;

typedef enum WireWake
{
	WW_IDLE = 0,
	WW_QUEUED,					/* by the engine: the slot is in the to_worker ring */
	WW_QUIET					/* by the owner: no wake is wanted */
} WireWake;

typedef struct WireSlot
{
	_Atomic uint32_t state;
	_Atomic uint32_t gen;		/* +1 at every claim */
	_Atomic uint32_t cancel;	/* 1: drop the request, close the slot */
	_Atomic uint32_t attn;		/* is in the to_engine ring */
	_Atomic uint32_t wake;		/* WireWake */
	_Atomic uint32_t req_head;	/* bytes written by the backend, free-running */
	_Atomic uint32_t req_tail;	/* bytes consumed by the engine */
	_Atomic uint32_t rep_head;	/* bytes written by the engine */
	_Atomic uint32_t rep_tail;	/* bytes consumed by the backend */
	/* live counters, relaxed */
	_Atomic uint32_t phase;		/* WirePhase */
	_Atomic uint32_t prompt_tokens;
	_Atomic uint32_t cached_tokens;
	_Atomic uint32_t computed_tokens;
	_Atomic uint32_t output_tokens;
	_Atomic uint32_t preemptions;
	_Atomic uint32_t let_go;	/* engine: = gen, its last store into the slot */
	_Atomic int64_t arrival_us; /* CLOCK_MONOTONIC */
	_Atomic int64_t first_token_us;
	/* by the backend, before it rings */
	_Atomic int64_t deadline_us;	/* CLOCK_MONOTONIC; 0 = none */
	_Atomic uint32_t timeout_ms;	/* what it was made from */
	char		unused[WIRE_SLOT_SIZE - 16 * 4 - 4 * 8];
} WireSlot;

_Static_assert(sizeof(WireSlot) == WIRE_SLOT_SIZE, "slot layout");

typedef struct WireRing
{
	_Atomic uint32_t head;		/* entries pushed, free-running */
	_Atomic uint32_t tail;		/* entries popped */
	char		pad[56];
} WireRing;

/* Where everything lies.  Written by the postmaster, constant. */
typedef struct WireGeometry
{
	uint32_t	magic;
	uint32_t	version;
	uint64_t	total_size;
	uint32_t	n_slots;		/* power of two */
	uint32_t	ring_size;		/* bytes of each request and reply ring, power of two */
	uint64_t	stats_off, to_engine_off, to_worker_off, slots_off, rings_off;
	uint64_t	max_request;	/* longest request message, bytes */
} WireGeometry;

typedef struct WireHeader
{
	WireGeometry geo;			/* read once, by the engine when it starts */
	_Atomic uint32_t epoch;		/* +1 per engine process, by the supervisor */
	_Atomic uint32_t doorbell;	/* futex word */
	_Atomic uint32_t engine_sleeping;
	_Atomic uint32_t busy;		/* the engine has work: step_counter must advance */
	_Atomic uint64_t step_counter;
	_Atomic int64_t heartbeat_us;	/* server thread alive */
	char		pad[24];
	WireRing	to_engine;
	WireRing	to_worker;
} WireHeader;

_Static_assert(sizeof(WireHeader) <= WIRE_HEADER_SIZE, "header layout");

/* ---- statistics (engine writes under a sequence lock; readers retry) ---- */

typedef enum WireModelState
{
	WM_UNUSED = 0, WM_UNLOADED, WM_LOADING, WM_READY, WM_FAILED
} WireModelState;

/* What a model that sleeps lacks: bits of WireModelStat.asleep. */
#define WIRE_SLEEP_WEIGHTS	1
#define WIRE_SLEEP_KV		2
#define WIRE_SLEEP_SCHEDULING 4
#define WIRE_SLEEP_ALL		7

/* How requests end. */
typedef enum WireEnd
{
	WE_STOP, WE_LENGTH, WE_REPETITION, WE_ABORT, WE_ERROR, WIRE_N_ENDS
} WireEnd;

/* Histograms: one row each in histograms.def. */
typedef enum WireHistId
{
#define X(name, metric, buckets, text) WH_##name,
#include "ipc/histograms.def"
#undef X
	WIRE_N_HISTS
} WireHistId;

/* Those of blocks, KV_LIFETIME and behind. */
#define WIRE_N_KV_HISTS	(WIRE_N_HISTS - WH_KV_LIFETIME)

#define WIRE_HIST_BUCKETS	23	/* most; the last one has no bound */

typedef struct WireHist
{
	int64_t		count[WIRE_HIST_BUCKETS];	/* values at most the bucket's bound and above the one before */
	int64_t		sum;			/* of times: microseconds */
} WireHist;

/*
 * The bounds of a histogram's buckets, ascending, in seconds or as a number; *n of them, the last bucket has
 * none.
 */
const double *wire_hist_bounds(WireHistId id, int *n);
/* Its name, without vLLM's prefix, and what it says. */
const char *wire_hist_metric(WireHistId id);
const char *wire_hist_text(WireHistId id);
bool		wire_hist_is_time(WireHistId id);
/* Where a value belongs; of times: microseconds. */
int			wire_hist_bucket(WireHistId id, int64_t value);

/*
 * An error of this text is a request that was too slow, whoever says so; SQLSTATE 57014 alone may be a
 * cancelled one.
 */
#define WIRE_TIMED_OUT	"canceling LLM request due to timeout"

/* An error of this text says that nothing was asked: a row's prompt is empty. */
#define WIRE_EMPTY_PROMPT	"prompt must not be empty"

/* What instances of models count: one row each in metrics.def. */
typedef struct WireFigures
{
#define FIGURE(name, kind, metric, labels, help) int64_t name;
#include "ipc/metrics.def"
#undef FIGURE
} WireFigures;

typedef enum WireFigureKind
{
	WIRE_COUNTER, WIRE_GAUGE, WIRE_PEAK, WIRE_LIMIT
} WireFigureKind;

typedef struct WireFigureDef
{
	const char *name;
	WireFigureKind kind;
	const char *metric;			/* "" = none */
	const char *labels;
	const char *help;
} WireFigureDef;

#define WIRE_N_FIGURES	((int) (sizeof(WireFigures) / sizeof(int64_t)))
extern const WireFigureDef wire_figures[WIRE_N_FIGURES];	/* in the order of WireFigures' fields */

static inline int64_t *
wire_figure(WireFigures *f, int i)
{
	return (int64_t *) f + i;
}

typedef struct WireModelStat
{
	uint32_t	state;			/* WireModelState */
	uint32_t	dboid;
	uint64_t	hash;			/* wire_model_hash() of what the entry was made from */
	char		name[WIRE_NAME_LEN];
	char		arch[32];
	char		dtype[40];
	char		device[64];		/* READY: cpu, cuda:0, or those of its ranks and replicas with commas */
	char		error[256];		/* FAILED: why */
	double		progress;		/* LOADING: 0..1 */
	int64_t		weight_bytes;
	int64_t		n_params;
	int32_t		max_model_len;
	int32_t		asleep;			/* WIRE_SLEEP_*; 0 = awake */
	int32_t		sleep_level;	/* 0 .. 2 */
	int64_t		used_us;		/* CLOCK_MONOTONIC when it was last asked for, or busy; 0 = never */
	int64_t		expires_us;		/* time at which the idle model will be unloaded; 0 = never */
	int64_t		memory_bytes;	/* loaded: all of it, adapters too */
	int32_t		shared_with;	/* index of the entry whose weights it uses, -1 */
	int32_t		block_size;		/* tokens; 0 = no KV cache */
	int32_t		prefix_caching;
	char		kv_dtype[16];
	int32_t		max_loras;		/* different adapters in a step */
	/* those of requests that run, and that wait: a,b,c as far as there is room */
	char		loras_running[WIRE_LORA_NAMES];
	char		loras_waiting[WIRE_LORA_NAMES];
	/* its instance's steps beside those of others (src/server/model_scheduler.h) */
	int32_t		scheduling_weight;
	int32_t		work;			/* WorkClass of what it has to do now; 0 = nothing */
	int32_t		waits_for;		/* while it has: index of the model that computed last, -1 = none */
	int64_t		compute_us;		/* of its steps; half of the time in which they had half of the threads */
	int64_t		wait_us;		/* it had work while others' steps were made */
	int64_t		paused_us;		/* of these: its own step stood in the middle for the sake of others' */
	WireFigures fig;			/* of its instance, and counters of those it had before */
	/* tokens: of requests that have ended */
	int64_t		requests, prompt_tokens, output_tokens, preemptions;
	/* as they come; these never go down.  back: of reused, from the offload tier */
	int64_t		prefilled_tokens, reused_tokens, back_tokens, generated_tokens;
	int64_t		ended[WIRE_N_ENDS];
	WireHist	hist[WIRE_N_HISTS];
} WireModelStat;

/* What there is besides the CPUs; what isn't known is 0 or empty. */
typedef struct WireDevice
{
	char		name[64];
	char		uuid[48];
	char		driver[32];
	char		note[128];		/* why it can't be used */
	int32_t		ordinal;		/* N of cuda:N */
	int32_t		capability;		/* 90 for 9.0 */
	int32_t		multiprocessors;
	int32_t		usable;
	int32_t		rank;			/* the engine's process that computes on it; -1 = none */
	int64_t		memory_total, memory_available;
	int64_t		engine_bytes;	/* of it the engine's */
} WireDevice;

/* A process beside the engine's that shares its models. */
#define WIRE_MAX_RANKS	16
typedef struct WireRank
{
	int32_t		rank;			/* over all replicas; 0 is the engine itself */
	int32_t		replica;
	int32_t		pid;
	int64_t		bytes;			/* memory */
} WireRank;

/* A url of a model that is one; the remote program's. */
#define WIRE_MAX_ENDPOINTS	64
typedef enum WireHealth
{
	WIRE_HEALTH_UNKNOWN = 0,	/* nothing has been asked yet */
	WIRE_HEALTH_UP,
	WIRE_HEALTH_TRYING,			/* the breaker is half open: one request finds out */
	WIRE_HEALTH_DOWN			/* the breaker is open */
} WireHealth;

typedef struct WireEndpoint
{
	char		url[256];
	uint64_t	model_hash;		/* of WireModelStat */
	uint32_t	dboid;
	uint32_t	health;			/* WireHealth */
	int32_t		in_flight;		/* calls */
	int32_t		waiting;		/* requests that wait for this endpoint's limits or breaker */
	int64_t		calls, failures, retries, throttled;	/* throttled: of failures those with status 429 */
	int64_t		latency_us;		/* moving average of answered calls; 0 = none yet */
	int64_t		retry_us;		/* CLOCK_MONOTONIC: DOWN, or throttled, until then; 0 = not */
	char		error[256];		/* of the last failure, '' = none yet */
} WireEndpoint;

typedef struct WireStats
{
	_Atomic uint32_t seq;		/* odd while being written */
	uint32_t	n_models;
	int64_t		started_us;		/* CLOCK_MONOTONIC at engine start */
	union						/* of all instances */
	{
		WireFigures fig;
		struct
		{
#define FIGURE(name, kind, metric, labels, help) int64_t name;
#include "ipc/metrics.def"
#undef FIGURE
		};
	};
	int64_t		rss_bytes;
	char		isa[32];
	int32_t		cpu_threads;
	char		cpu_name[64];
	int32_t		cpus, cpus_usable;	/* of the machine; for the engine */
	int64_t		memory_total, memory_available;
	uint32_t	n_devices;
	WireDevice	devices[WIRE_MAX_DEVICES];
	uint32_t	n_ranks;
	WireRank	ranks[WIRE_MAX_RANKS];
	uint32_t	n_endpoints;
	WireEndpoint endpoints[WIRE_MAX_ENDPOINTS];
	WireModelStat models[WIRE_MAX_MODELS];
} WireStats;

_Static_assert(sizeof(WireStats) <= WIRE_STATS_SIZE, "stats layout");

/* ---- arena geometry ---- */

/* Fill *g for the given sizes; false if out of range. */
bool		wire_layout(WireGeometry *g, uint32_t n_slots, uint32_t ring_size, uint64_t max_request);
/* Is it sane for a mapping of `size` bytes?  (version, offsets, powers of two) */
bool		wire_geometry_ok(const WireGeometry *g, uint64_t size);

/*
 * One process's view of the arena: where it is mapped, and that process's own copy
 * of the geometry.  Whatever the other side writes over the header, an address
 * computed from this lies in the mapping (slot < geo.n_slots is the caller's duty).
 */
typedef struct WireArena
{
	char	   *base;			/* NULL: not mapped */
	WireGeometry geo;
} WireArena;

static inline WireHeader *
wire_header(const WireArena *a)
{
	return (WireHeader *) a->base;
}

WireStats  *wire_stats(const WireArena *a);
WireSlot   *wire_slot(const WireArena *a, uint32_t slot);
char	   *wire_req_ring(const WireArena *a, uint32_t slot);
char	   *wire_rep_ring(const WireArena *a, uint32_t slot);

/*
 * Slot number rings: push by one writer at a time, pop by one reader.  Pop gives
 * false when empty; numbers out of range are skipped, but no more than a ring of
 * them in one call, so that it returns whatever the other side writes meanwhile.
 * Push returns true if the ring was empty, that is when a reader that pops until it
 * gets false needs to be told (cursors are sequentially consistent: one of the two
 * sees the other).
 */
typedef enum WireQueue
{
	WQ_TO_ENGINE, WQ_TO_WORKER
} WireQueue;

bool		wire_push(const WireArena *a, WireQueue q, uint32_t slot);
bool		wire_pop(const WireArena *a, WireQueue q, uint32_t *slot);

/*
 * Byte ring: copy in/out as much as fits; return the number of bytes, or -1 if
 * the cursors are corrupt.  The cursor is NOT published: callers do that (the
 * last frame needs its own order), by a release store of old cursor + n.
 */
int			wire_ring_write(char *ring, uint32_t size, uint32_t head, uint32_t tail,
							const void *data, size_t n);
int			wire_ring_read(const char *ring, uint32_t size, uint32_t head, uint32_t tail,
						   void *data, size_t n);

/* ---- messages ---- */

/*
 * A request is one WireMsg followed by len bytes of fields; a reply frame is the same.  A field: uint16 tag,
 * uint16 type, uint32 len, payload padded to 8.
 *
 * Each head says whose it is and where it lies, and the reader compares: so a cursor
 * that was written over shows neither a frame twice nor one of the slot's earlier
 * conversations.  gen and place come before what they vouch for: who reads some bytes
 * of an old head and the rest of a new one has the old gen.
 */
typedef struct WireMsg
{
	uint32_t	magic;			/* WIRE_MSG_MAGIC */
	uint32_t	gen;			/* of the conversation: WireSlot's */
	uint32_t	place;			/* the cursor's value where this head begins; of a request 0 */
	uint16_t	kind;			/* WireKind or WireFrame */
	uint16_t	flags;			/* WIRE_FINAL: last frame of the conversation */
	uint64_t	len;			/* bytes that follow */
} WireMsg;

#define WIRE_MSG_MAGIC	UINT32_C(0x4745534d)
#define WIRE_FINAL		1
#define WIRE_SUMMED		2		/* the last WIRE_SUM_BYTES of what follows are no field but a checksum */
#define WIRE_SUM_BYTES	8

/*
 * Do writers send checksums?  In builds that look for bugs, by `make WIRE_CHECKED=1`, a sanitizer's or with
 * PostgreSQL's assertions.  Readers check them in every build, so either side may be of either kind.
 */
#ifndef WIRE_CHECKED
#if defined(USE_ASSERT_CHECKING) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WIRE_CHECKED	1
#else
#define WIRE_CHECKED	0
#endif
#endif

/* Bytes that a writer of this build adds. */
#define WIRE_TRAILER	(WIRE_CHECKED ? WIRE_SUM_BYTES : 0)
/*
 * The head at that place that goes with so many bytes of fields: with the checksum's bytes and flag, in such
 * a build.
 */
WireMsg		wire_head(int kind, int flags, uint64_t fields, uint32_t gen, uint32_t place);
/* Is it the head that was written at this place in this conversation? */
static inline bool
wire_in_place(const WireMsg *m, uint32_t gen, uint32_t place)
{
	return m->gen == gen && m->place == place;
}
/* The checksum of a head and its fields. */
uint64_t	wire_sum(const WireMsg *m, const void *fields);
/* How many bytes of fields a message has. */
static inline uint64_t
wire_fields_len(const WireMsg *m)
{
	return (m->flags & WIRE_SUMMED) != 0 ? m->len - WIRE_SUM_BYTES : m->len;
}
/* Is what came behind the head what was written?  Of one without a checksum: yes. */
bool		wire_intact(const WireMsg *m, const void *body);

typedef enum WireKind			/* requests */
{
	WK_GENERATE = 1,			/* -> WF_ACCEPTED, WF_TEXT..., WF_DONE */
	WK_TOKENIZE,				/* -> WF_DONE with ids or count */
	WK_DETOKENIZE,				/* -> WF_DONE with text */
	WK_MODEL_CHECK,				/* files good? -> WF_DONE with arch, dtype, ... */
	WK_MODEL_LOAD,				/* -> WF_PROGRESS..., WF_DONE */
	WK_MODEL_UNLOAD,			/* drop weights and KV; requests on it fail */
	WK_MODEL_FORGET,			/* catalog entry gone: WTAG_MODEL empty = all of the database; with
								 * WTAG_MODEL_HASH only if it has this path and these options */
	WK_CONTROL,					/* WTAG_COMMAND: "integrity", "log" (fake), "reset-stats", ... -> text */
	WK_MODEL_INSPECT,			/* what files hold -> WF_DONE with json text */
	WK_CHAT_RENDER,				/* messages through a chat template -> WF_DONE with text */
	WK_POOL,					/* a task over a text or a pair -> WF_ACCEPTED, WF_DONE with floats */
	WK_LOGPROBS,				/* of each choice's tokens behind the prompt, or of the prompt's own from its
								 * second on -> WF_ACCEPTED, WF_DONE with floats, counts, greedy */
	WK_CHUNK,					/* a text in chunks -> WF_DONE with SPANS */
	WK_GRAMMAR,					/* is the prompt an instance of SCHEMA? -> WF_DONE with COUNT 1 or 0 */
	/*
	 * a body of OpenAI's or Anthropic's interfaces -> WF_TEXT..., WF_DONE, each with TEXT, a JSON object;
	 * with API_AS_BODY no WF_ERROR for what the body asks
	 */
	WK_API,
	WK_PARSE,					/* tool calls or reasoning of the prompt -> WF_DONE with TEXT, REASONING */
	WK_LORA_CHECK,				/* an adapter's files good? -> WF_DONE with TEXT, a JSON object */
	WK_LORA_LOAD,				/* an adapter into this model's cache -> WF_DONE with TEXT, a JSON object */
	/* out of it, as soon as no request uses it -> WF_DONE with COUNT 1, or 0: it wasn't there */
	WK_LORA_UNLOAD,
	/*
	 * what is in the caches, of one database or (DATABASE absent or 0) all -> WF_DONE with TEXT, a JSON array
	 */
	WK_LORA_LIST,
	WK_MODEL_DIGEST,			/* which model is it? -> WF_DONE with text */
	WK_COUNT
} WireKind;

typedef enum WireFrame			/* replies */
{
	WF_ACCEPTED = 100,			/* validated and queued: prompt_tokens */
	WF_PROGRESS,				/* WTAG_PHASE, WTAG_PROGRESS, WTAG_TEXT for a NOTICE */
	WF_TEXT,					/* WTAG_TEXT and/or WTAG_TOKEN_IDS delta; only with WTAG_STREAM */
	WF_DONE,					/* final: finish reason, usage, timings; without WTAG_STREAM also the
								 * whole WTAG_TEXT (and WTAG_TOKEN_IDS with WTAG_WANT_IDS) */
	WF_ERROR					/* final: WTAG_SQLSTATE, WTAG_MESSAGE, WTAG_DETAIL, WTAG_HINT */
} WireFrame;

typedef enum WireType
{
	WT_INT = 1,					/* int64 */
	WT_NUM,						/* double */
	WT_STR,						/* bytes */
	WT_INTS,					/* int32[] */
	WT_FLOATS					/* float[] */
} WireType;

/* Tags: one row each in fields.def: X(NAME, number, type). */
typedef enum WireTag
{
#define X(name, num, type) WTAG_##name = num,
#include "ipc/fields.def"
#undef X
	WTAG_LAST
} WireTag;

/* "prompt", "max_tokens", ... (lower case of the name); NULL if unknown */
const char *wire_tag_name(int tag);
int			wire_tag_type(int tag); /* WireType, 0 if unknown */
/* Prices, budgets and the cascade: the backend's own, which programs read over. */
static inline bool
wire_tag_of_caller(int tag)
{
	return tag >= WTAG_PRICE_INPUT && tag <= WTAG_CASCADE;
}

/* Numbers of one model's vocabulary: another model can't be asked for what has such a field. */
bool		wire_tag_of_vocabulary(int tag);

/*
 * Which version of a model: its path and options as sent in MODEL_PATH and
 * MODEL_OPTIONS (NULL = "" = none).  Never 0.
 */
uint64_t	wire_model_hash(const char *path, const char *options);

/* Writer: appends to a caller-supplied sink, so that backends use palloc'ed and
 * the engine malloc'ed memory. */
typedef struct WireOut
{
	void		(*append) (void *ctx, const void *data, size_t n);
	void	   *ctx;
} WireOut;

void		wire_put_int(WireOut *o, WireTag tag, int64_t v);
void		wire_put_num(WireOut *o, WireTag tag, double v);
void		wire_put_str(WireOut *o, WireTag tag, const char *s, size_t n);
void		wire_put_ints(WireOut *o, WireTag tag, const int32_t *v, size_t n);
void		wire_put_floats(WireOut *o, WireTag tag, const float *v, size_t n);

/* Reader over the fields of one message. */
typedef struct WireField
{
	int			tag;
	int			type;
	int64_t		i;				/* WT_INT */
	double		num;			/* WT_NUM */
	/* WT_STR: bytes, not terminated; else raw, use wire_int_at(), wire_floats() */
	const char *s;
	size_t		n;				/* WT_STR: bytes; WT_INTS, WT_FLOATS: elements */
} WireField;

typedef struct WireIn
{
	const char *p;
	const char *end;
} WireIn;

/* 1: a field was read; 0: end; -1: malformed (bad length, type not the tag's type). */
int			wire_next(WireIn *in, WireField *f);
int32_t		wire_int_at(const WireField *f, size_t i);	/* element of WT_INTS (unaligned safe) */
void		wire_floats(const WireField *f, float *out);	/* all elements of WT_FLOATS */

#endif
