/*
 * wire.h
 *	  The only interface between PostgreSQL and the engine: the shared arena.
 *
 * The arena is a memfd made by the postmaster, mapped by every backend (same address, by fork) and by
 * the engine (elsewhere: only offsets are stored).  Either side treats what the other wrote as
 * untrusted: cursors and lengths are checked and copied once; the geometry is used from a private copy
 * (WireArena), never from the arena.  The arena has no pointers, locks or allocations.
 *
 *	OFFSET				SIZE					WHAT
 *	0					4096					WireHeader
 *	stats_off			WIRE_STATS_SIZE			WireStats (engine writes)
 *	to_engine_off		4 * n_slots				ring of slot numbers: "look at this slot"
 *	to_worker_off		4 * n_slots				ring of slot numbers: "wake its owner"
 *	slots_off			WIRE_SLOT_SIZE*n_slots	WireSlot
 *	rings_off			2*ring_size*n_slots		per slot: request ring, reply ring
 *
 * A SLOT is one conversation: the backend streams one request message through the request ring, the
 * engine streams reply frames through the reply ring; both may be longer than the ring.  Nothing has to
 * be freed: a slot is reset when it is claimed, so a lost backend, request or engine can leak nothing
 * but the slot, which has one owner (src/pg/shared_state.h).
 *
 *	state		set by		meaning
 *	FREE		backend		nobody uses it
 *	OPEN		backend		claimed; request being written / replies being read
 *	CLOSED		engine		the engine has dropped it and never touches it again
 *	LOST		supervisor	the engine died while it was OPEN
 *
 * Which process may write which word.  Backend: state FREE->OPEN, gen, cancel, req_head, rep_tail and
 * the request ring; when it claims the slot, which no other process uses then, all words.  Engine: state
 * OPEN->CLOSED, req_tail, rep_head, the reply ring and the live counters.  Supervisor: state OPEN->LOST,
 * only while no engine process exists.
 *
 * A conversation's four cursors begin at 0.  Each side keeps private copies of the two cursors that it
 * advances, and only publishes them.  The backend also compares its published cursors with its copies: a
 * difference means damage.
 *
 * Order: data, then cursor (release); reader: cursor (acquire), then data.  For the last frame the
 * engine writes the bytes, then state = CLOSED, then rep_head: a backend that has read the final frame
 * knows that the engine has released the slot. A backend that has NOT read it (cancelled, zombie) frees
 * the slot only when let_go == gen: CLOSED alone may be seen in the moment before the engine's store of
 * rep_head.
 *
 * ATTENTION.  Backend -> engine: set slot->attn (exchange); if it was 0, push the slot number to the
 * to_engine ring (under the backends' spinlock), add 1 to doorbell, and futex-wake if engine_sleeping.
 * The engine clears attn *before* it looks at the slot.  Engine -> backend: the same with slot->wake
 * (IDLE -> QUEUED), the to_worker ring and one byte on the control socket; the supervisor clears wake
 * and sets the owner's latch.  An owner that is awake and polls the slot changes wake from IDLE to
 * QUIET, and back to IDLE before it polls for the last time and sleeps: the engine sends no wake for a
 * QUIET slot.  A ring has n_slots entries and a slot is in it at most once, so neither ring overflows (a
 * corrupt ring is detected and reset).  Only the repair of damage (pg/supervisor/slot_care.c) may push a
 * slot twice, if the ring has room.
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
#define WIRE_MAX_MODELS	128		/* upper limit of vllm.max_models */
#define WIRE_MAX_SLOTS	131072	/* settings allow half; the other half are spares (src/pg/shared_state.h) */
#define WIRE_NAME_LEN	64		/* NAMEDATALEN */
#define WIRE_LORA_NAMES	512
#define WIRE_SECRET_MODEL	1	/* bits of WTAG_SECRET_PATHS */
#define WIRE_SECRET_LORA	2

typedef enum WireState
{
	WS_FREE = 0, WS_OPEN, WS_CLOSED, WS_LOST
} WireState;

/* What the engine is doing with a slot's request (live value). */
typedef enum WirePhase
{
	WP_NONE = 0, WP_RECEIVING, WP_LOADING_MODEL, WP_WAITING, WP_RUNNING, WP_PREEMPTED, WP_FINISHED, WP_ASLEEP
} WirePhase;

typedef enum WireWake
{
	WW_IDLE = 0,
	WW_QUEUED,					/* set by the engine: the slot is in the to_worker ring */
	WW_QUIET					/* set by the owner: it wants no wake */
} WireWake;

typedef struct WireSlot
{
	_Atomic uint32_t state;
	_Atomic uint32_t gen;		/* +1 at every claim */
	_Atomic uint32_t cancel;	/* 1: drop the request, close the slot */
	_Atomic uint32_t attn;		/* 1: the slot is in the to_engine ring */
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
	_Atomic uint32_t let_go;	/* set to gen by the engine's last store into the slot */
	_Atomic int64_t arrival_us; /* CLOCK_MONOTONIC */
	_Atomic int64_t first_token_us;
	/* set by the backend before it rings the doorbell */
	_Atomic int64_t deadline_us;	/* CLOCK_MONOTONIC; 0 = none */
	_Atomic uint32_t timeout_ms;	/* the timeout from which deadline_us was computed */
	char		unused[WIRE_SLOT_SIZE - 16 * 4 - 4 * 8];
} WireSlot;

_Static_assert(sizeof(WireSlot) == WIRE_SLOT_SIZE, "slot layout");

typedef struct WireRing
{
	_Atomic uint32_t head;		/* entries pushed, free-running */
	_Atomic uint32_t tail;		/* entries popped */
	char		pad[56];
} WireRing;

/* Offsets and sizes of the arena's parts.  The postmaster writes it; it never changes. */
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
	WireGeometry geo;			/* the engine reads it once, at its start */
	_Atomic uint32_t epoch;		/* +1 per engine process, by the supervisor */
	_Atomic uint32_t doorbell;	/* futex word */
	_Atomic uint32_t engine_sleeping;
	_Atomic uint32_t busy;		/* the engine has work, so step_counter must advance */
	_Atomic uint64_t step_counter;
	_Atomic int64_t heartbeat_us;	/* the server thread updates it while it is alive */
	char		pad[24];
	WireRing	to_engine;
	WireRing	to_worker;
} WireHeader;

_Static_assert(sizeof(WireHeader) <= WIRE_HEADER_SIZE, "header layout");

/* ---- statistics (the engine writes under a sequence lock; readers retry) ---- */

typedef enum WireModelState
{
	WM_UNUSED = 0, WM_UNLOADED, WM_LOADING, WM_READY, WM_FAILED
} WireModelState;

/* What a sleeping model has released: bits of WireModelStat.asleep. */
#define WIRE_SLEEP_WEIGHTS	1
#define WIRE_SLEEP_KV		2
#define WIRE_SLEEP_SCHEDULING 4
#define WIRE_SLEEP_ALL		7

/* Finish reasons. */
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

/* Histograms of KV blocks: KV_LIFETIME and those after it. */
#define WIRE_N_KV_HISTS	(WIRE_N_HISTS - WH_KV_LIFETIME)

#define WIRE_HIST_BUCKETS	23	/* most buckets of a histogram; the last bucket has no upper bound */

typedef struct WireHist
{
	int64_t		count[WIRE_HIST_BUCKETS];	/* values above the previous bound and at most this bucket's
											 * bound */
	int64_t		sum;			/* sum of the values; times in microseconds */
} WireHist;

/*
 * Return the upper bounds of a histogram's buckets, ascending, in seconds or as a number, and set *n to
 * their number.  The last bucket has no bound.
 */
const double *wire_hist_bounds(WireHistId id, int *n);
/* The histogram's name without vLLM's prefix, and its description. */
const char *wire_hist_metric(WireHistId id);
const char *wire_hist_text(WireHistId id);
bool		wire_hist_is_time(WireHistId id);
/* Return the bucket of a value; times are in microseconds. */
int			wire_hist_bucket(WireHistId id, int64_t value);

/*
 * Message of an error that means a request was too slow, whichever program reports it.  SQLSTATE 57014
 * alone could also be a cancelled request.
 */
#define WIRE_TIMED_OUT	"canceling LLM request due to timeout"

/* Message of an error that means that the prompt of a row is empty, so no request was made. */
#define WIRE_EMPTY_PROMPT	"prompt must not be empty"

/* Counters of model instances: one row each in metrics.def. */
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
extern const WireFigureDef wire_figures[WIRE_N_FIGURES];	/* in the order of the fields of WireFigures */

static inline int64_t *
wire_figure(WireFigures *f, int i)
{
	return (int64_t *) f + i;
}

typedef struct WireModelStat
{
	uint32_t	state;			/* WireModelState */
	uint32_t	dboid;
	uint64_t	hash;			/* wire_model_hash() of the version that the entry was made from */
	char		name[WIRE_NAME_LEN];
	char		arch[32];
	char		dtype[64];
	char		device[64];		/* READY: cpu, cuda:0, or a comma-separated list for ranks and replicas */
	char		error[256];		/* FAILED: why */
	double		progress;		/* LOADING: 0..1 */
	int64_t		weight_bytes;
	int64_t		n_params;
	int32_t		max_model_len;
	int32_t		asleep;			/* WIRE_SLEEP_*; 0 = awake */
	int32_t		sleep_level;	/* 0 .. 2 */
	int64_t		used_us;		/* CLOCK_MONOTONIC of the last request or step; 0 = never */
	int64_t		expires_us;		/* when the model will be unloaded if it stays idle; 0 = never */
	int64_t		memory_bytes;	/* while loaded: all its memory, including adapters */
	int32_t		shared_with;	/* index of the entry whose weights it shares, -1 = none */
	int32_t		block_size;		/* tokens; 0 = no KV cache */
	int32_t		prefix_caching;
	char		kv_dtype[16];
	int32_t		max_loras;		/* limit of different adapters in a step */
	/* adapters of running and of waiting requests: "a,b,c", truncated if too long */
	char		loras_running[WIRE_LORA_NAMES];
	char		loras_waiting[WIRE_LORA_NAMES];
	/* the weight of its instance's steps relative to other models (src/server/model_scheduler.h) */
	int32_t		scheduling_weight;
	int32_t		work;			/* WorkClass of its pending work; 0 = none */
	int32_t		waits_for;		/* while it has work: index of the model that computed last, -1 = none */
	int64_t		compute_us;		/* time of its steps; steps that had half of the threads count half */
	int64_t		wait_us;		/* time that it had work while other models' steps ran */
	int64_t		paused_us;		/* part of wait_us: one of its own steps was paused for steps of other
								 * models */
	WireFigures fig;			/* of its instance; counters include those of its earlier instances */
	/* totals of ended requests */
	int64_t		requests, prompt_tokens, output_tokens, preemptions;
	/* updated while requests run, never decreasing; back: part of reused, from the offload tier */
	int64_t		prefilled_tokens, reused_tokens, back_tokens, generated_tokens;
	int64_t		ended[WIRE_N_ENDS];
	WireHist	hist[WIRE_N_HISTS];
} WireModelStat;

/* A device besides the CPUs; unknown values are 0 or empty. */
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
	int64_t		engine_bytes;	/* part of memory_total that the engine uses */
} WireDevice;

/* A process besides the engine's that shares its models. */
#define WIRE_MAX_RANKS	16
typedef struct WireRank
{
	int32_t		rank;			/* numbered over all replicas; 0 is the engine itself */
	int32_t		replica;
	int32_t		pid;
	int64_t		bytes;			/* memory of the process */
} WireRank;

/* An endpoint of a remote model; the remote program writes it. */
#define WIRE_MAX_ENDPOINTS	64
typedef enum WireHealth
{
	WIRE_HEALTH_UNKNOWN = 0,	/* no request has been made yet */
	WIRE_HEALTH_UP,
	WIRE_HEALTH_TRYING,			/* the breaker is half open: one trial request is allowed */
	WIRE_HEALTH_DOWN			/* the breaker is open */
} WireHealth;

typedef struct WireEndpoint
{
	char		url[256];
	uint64_t	model_hash;		/* the model's WireModelStat.hash */
	uint32_t	dboid;
	uint32_t	health;			/* WireHealth */
	int32_t		in_flight;		/* calls in flight */
	int32_t		waiting;		/* requests that wait for this endpoint's limits or breaker */
	int64_t		calls, failures, retries, throttled;	/* throttled: the part of failures with status 429 */
	int64_t		latency_us;		/* moving average of successful calls; 0 = none yet */
	int64_t		retry_us;		/* DOWN or throttled until this CLOCK_MONOTONIC time; 0 = not */
	char		error[256];		/* of the last failure, '' = none yet */
} WireEndpoint;

typedef struct WireStats
{
	_Atomic uint32_t seq;		/* odd while being written */
	uint32_t	n_models;
	int64_t		started_us;		/* CLOCK_MONOTONIC at engine start */
	union						/* sums over all instances */
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
	int32_t		cpus, cpus_usable;	/* of the machine; usable by the engine */
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

/* Fill *g for the given sizes; returns false if one is out of range. */
bool		wire_layout(WireGeometry *g, uint32_t n_slots, uint32_t ring_size, uint64_t max_request);
/* Return true if the geometry is valid for a mapping of `size` bytes (version, offsets, powers of two). */
bool		wire_geometry_ok(const WireGeometry *g, uint64_t size);

/*
 * One process's view of the arena: where it is mapped, and that process's own copy of the geometry.  Even
 * if the other side overwrites the header, an address computed from this lies in the mapping (the caller
 * must ensure slot < geo.n_slots).
 */
typedef struct WireArena
{
	char	   *base;			/* NULL = not mapped */
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
 * Slot number rings: push by one writer at a time, pop by one reader.  Pop returns false when the ring
 * is empty.  It skips numbers out of range, but at most a ring of them in one call, so that it returns
 * even if the other side keeps writing.  Push returns true if the ring was empty, that is, if a reader
 * that pops until it gets false must be woken (the cursors are sequentially consistent: one of the two
 * sees the other's store).
 */
typedef enum WireQueue
{
	WQ_TO_ENGINE, WQ_TO_WORKER
} WireQueue;

bool		wire_push(const WireArena *a, WireQueue q, uint32_t slot);
bool		wire_pop(const WireArena *a, WireQueue q, uint32_t *slot);

/*
 * Byte ring: copy in/out as much as fits; return the number of bytes, or -1 if the cursors are corrupt.
 * The functions do NOT publish the cursor: callers do that (the last frame needs its own order), by a
 * release store of old cursor + n.
 */
int			wire_ring_write(char *ring, uint32_t size, uint32_t head, uint32_t tail,
							const void *data, size_t n);
int			wire_ring_read(const char *ring, uint32_t size, uint32_t head, uint32_t tail,
						   void *data, size_t n);

/* ---- messages ---- */

/*
 * A request is one WireMsg followed by len bytes of fields; a reply frame is the same.  A field: uint16
 * tag, uint16 type, uint32 len, payload padded to 8.
 *
 * Each head has the conversation's gen and its own place in the ring, and the reader compares both: so
 * an overwritten cursor can neither repeat a frame nor show one of the slot's earlier conversations.  gen
 * and place precede the fields that they protect: a reader that gets some bytes of an old head and the
 * rest of a new one sees the old gen.
 */
typedef struct WireMsg
{
	uint32_t	magic;			/* WIRE_MSG_MAGIC */
	uint32_t	gen;			/* WireSlot.gen of the conversation */
	uint32_t	place;			/* value of the cursor at the start of this head; 0 for a request */
	uint16_t	kind;			/* WireKind or WireFrame */
	uint16_t	flags;			/* WIRE_FINAL: last frame of the conversation */
	uint64_t	len;			/* bytes that follow */
} WireMsg;

#define WIRE_MSG_MAGIC	UINT32_C(0x4745534d)
#define WIRE_FINAL		1
#define WIRE_SUMMED		2		/* the last WIRE_SUM_BYTES of the body are a checksum, not fields */
#define WIRE_SUM_BYTES	8

/*
 * Whether writers send checksums: in builds that look for bugs, that is with `make WIRE_CHECKED=1`, a
 * sanitizer or PostgreSQL's assertions.  Readers verify checksums in every build, so the two sides may
 * be different builds.
 */
#ifndef WIRE_CHECKED
#if defined(USE_ASSERT_CHECKING) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WIRE_CHECKED	1
#else
#define WIRE_CHECKED	0
#endif
#endif

/* Bytes that a writer of this build appends to the fields. */
#define WIRE_TRAILER	(WIRE_CHECKED ? WIRE_SUM_BYTES : 0)
/*
 * Return the head for this number of bytes of fields at this place.  In a build with checksums it has
 * their length and flag.
 */
WireMsg		wire_head(int kind, int flags, uint64_t fields, uint32_t gen, uint32_t place);
/* Return true if the head was written at this place in this conversation. */
static inline bool
wire_in_place(const WireMsg *m, uint32_t gen, uint32_t place)
{
	return m->gen == gen && m->place == place;
}
/* The checksum of a head and its fields. */
uint64_t	wire_sum(const WireMsg *m, const void *fields);
/* Return the number of bytes of fields in a message. */
static inline uint64_t
wire_fields_len(const WireMsg *m)
{
	return (m->flags & WIRE_SUMMED) != 0 ? m->len - WIRE_SUM_BYTES : m->len;
}
/* Return true if the body matches the head's checksum, or the message has none. */
bool		wire_intact(const WireMsg *m, const void *body);

typedef enum WireKind			/* requests */
{
	WK_GENERATE = 1,			/* -> WF_ACCEPTED, WF_TEXT..., WF_DONE */
	WK_TOKENIZE,				/* -> WF_DONE with ids or count */
	WK_DETOKENIZE,				/* -> WF_DONE with text */
	WK_MODEL_CHECK,				/* are the files valid? -> WF_DONE with arch, dtype, ... */
	WK_MODEL_LOAD,				/* -> WF_PROGRESS..., WF_DONE */
	WK_MODEL_UNLOAD,			/* drop weights and KV; requests on it fail */
	/*
	 * the catalog entry was dropped; WTAG_MODEL empty = all models of the database; with WTAG_MODEL_HASH
	 * only if it has this path and these options
	 */
	WK_MODEL_FORGET,
	WK_CONTROL,					/* WTAG_COMMAND: "integrity", "log" (fake), "reset-stats", ... -> text */
	WK_MODEL_INSPECT,			/* contents of the files -> WF_DONE with JSON text */
	WK_CHAT_RENDER,				/* apply a chat template to messages -> WF_DONE with text */
	WK_POOL,					/* a task over a text or a pair -> WF_ACCEPTED, WF_DONE with floats */
	WK_LOGPROBS,				/* of the tokens of each choice after the prompt, or of the prompt's own
								 * from its second on -> WF_ACCEPTED, WF_DONE with floats, counts, greedy */
	WK_CHUNK,					/* split a text into chunks -> WF_DONE with SPANS */
	WK_GRAMMAR,					/* does the prompt match SCHEMA? -> WF_DONE with COUNT 1 or 0 */
	/*
	 * a body of OpenAI's or Anthropic's interfaces -> WF_TEXT..., WF_DONE, each with TEXT, a JSON
	 * object; with API_AS_BODY errors in the body's request are not WF_ERROR but such an object
	 */
	WK_API,
	WK_PARSE,					/* extract tool calls or reasoning from the prompt -> WF_DONE with TEXT,
								 * REASONING */
	WK_LORA_CHECK,				/* are an adapter's files valid? -> WF_DONE with TEXT, a JSON object */
	WK_LORA_LOAD,				/* load an adapter into this model's cache -> WF_DONE with TEXT, a JSON
								 * object */
	/* remove an adapter once no request uses it -> WF_DONE with COUNT 1, or 0: it was not loaded */
	WK_LORA_UNLOAD,
	/*
	 * list the adapters in the caches, of one database or (DATABASE absent or 0) all -> WF_DONE with
	 * TEXT, a JSON array
	 */
	WK_LORA_LIST,
	WK_MODEL_DIGEST,			/* identify the model's files -> WF_DONE with text */
	WK_COUNT
} WireKind;

typedef enum WireFrame			/* replies */
{
	WF_ACCEPTED = 100,			/* validated and queued; has prompt_tokens */
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

/* Return "prompt", "max_tokens", ... (the name in lower case); NULL if unknown. */
const char *wire_tag_name(int tag);
int			wire_tag_type(int tag); /* WireType, 0 if unknown */
/* Return true for prices, budgets and the cascade: only the backend uses them, programs skip them. */
static inline bool
wire_tag_of_caller(int tag)
{
	return tag >= WTAG_PRICE_INPUT && tag <= WTAG_CASCADE;
}

/*
 * Return true for fields with token ids of one model's vocabulary: a request with one can't be sent to
 * another model.
 */
bool		wire_tag_of_vocabulary(int tag);

/*
 * Return a hash that identifies a version of a model: its path and options as sent in MODEL_PATH and
 * MODEL_OPTIONS (NULL = "" = none).  Never 0.
 */
uint64_t	wire_model_hash(const char *path, const char *options);

/*
 * Writer: appends to a function of the caller, so that backends can use palloc'ed and the engine
 * malloc'ed memory.
 */
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
	/* WT_STR: bytes, not NUL-terminated; arrays: raw, use wire_int_at(), wire_floats() */
	const char *s;
	size_t		n;				/* WT_STR: bytes; WT_INTS, WT_FLOATS: elements */
} WireField;

typedef struct WireIn
{
	const char *p;
	const char *end;
} WireIn;

/* Read a field: 1; 0 at the end; -1 if malformed (bad length, or not the tag's type). */
int			wire_next(WireIn *in, WireField *f);
int32_t		wire_int_at(const WireField *f, size_t i);	/* element of WT_INTS; handles unaligned data */
void		wire_floats(const WireField *f, float *out);	/* copies all elements of WT_FLOATS */

#endif
