/*
 * test_sim.c
 *	  The core under random schedules: worlds of random options, in which requests of every kind come,
 *	  are cancelled, run late, wait for limits, are preempted, find cached blocks of others, in both
 *	  classes and with any weights, with drafts and adapters, on models with and without windows, which
 *	  are paused, sleep, and get new weights; 10^5 events.
 *
 * After each step core_check() compares the blocks with the tables that hold them, and every counter.  A
 * request's output is compared with its output alone, on a core with one request at a time that shares
 * nothing: all of it, or as far as it came.  A core is stepped when it reports that it is due, as the
 * engine's step thread does, so that a lost wake-up is detected.  No request waits forever: in worlds
 * without strict orders no request gets older than a bound, and in all of them everything ends when no
 * more requests come.
 *
 * Some worlds have a store below their pool, in memory that may be less than the pool's, and in files:
 * the next core finds the blocks that one core has left there.
 *
 * New features of the core are added as a row of kinds (request_for()), as an option of a world (a_world()),
 * or as an action on models (maintain()).
 *
 * And a progress test: many requests in a pool of under a tenth of the blocks that they need.
 */
#include "core/core.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "core/core_internal.h"
#include "core/offload/tier.h"
#include "core/spec/spec.h"
#include "grammar/grammar.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"
#include "tests/unit/core/pooled_util.h"

#define N_WORLDS	20
#define N_KINDS		240			/* requests that are made again and again */
#define MAX_LIVE	40
#define MAX_ANSWERS 4
#define MAX_LEN		256
/*
 * Maximal age in steps; if no order is strict, no share tiny, and at most six requests are live.  The
 * longest are beam searches on recurrent state, which compute all tokens of each hypothesis: 3 of 110
 * tokens after a prompt of 104, a step for 18 rows of them.
 */
#define MAX_AGE		4000
#define N_LORAS		4
/* with different outputs, for each of the weights: layers 0 that attend to everything, and with windows */
#define N_MODELS	2
#define N_WEIGHTS	2
#define WINDOW		24
#define MAX_OLD		2			/* cores that only finish their requests */

static uint32_t rnd_state = 20;

static int
rnd(int n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (int) ((rnd_state >> 8) % (uint32_t) n);
}

static int
one_of(const int *values, int n)
{
	return values[rnd(n)];
}

#define ONE_OF(...) one_of((const int[]) {__VA_ARGS__}, (int) (sizeof((int[]) {__VA_ARGS__}) / sizeof(int)))

/* ---- requests and their outputs ---- */

typedef struct Seen
{
	IntVec		ids[MAX_ANSWERS];
	Buf			text[MAX_ANSWERS];
	float		values[FAKE_VOCAB];
	int			n_values;
	ReqFinish	finish;
	Err			err;
	int			late_events;	/* events after the end */
	int			preemptions;
	int			cached;
} Seen;

static Seen alone[N_MODELS][N_WEIGHTS][N_KINDS];
static LoraAdapter loras[N_LORAS];

static void
see(void *ctx, Req *r, const ReqEvent *ev)
{
	Seen	   *s = ctx;

	(void) r;
	s->late_events += s->finish != FIN_NONE;
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
	buf_add(&s->text[ev->index], ev->text, ev->text_len);
	if (ev->values != NULL)
	{
		s->n_values = ev->n_rows * ev->width;
		memcpy(s->values, ev->values, (size_t) s->n_values * sizeof(float));
	}
	s->finish = ev->finish;
	s->preemptions = ev->preemptions;
	s->cached = ev->cached_tokens;
	if (ev->err != NULL)
		s->err = *ev->err;
}

static void
seen_free(Seen *s)
{
	for (int i = 0; i < MAX_ANSWERS; i++)
	{
		intvec_free(&s->ids[i]);
		buf_free(&s->text[i]);
	}
	memset(s, 0, sizeof(*s));
}

static Grammar *
grammar_of(int i)
{
	static const char *const specs[] = {"(yes|no|hello)+", "[a-z]{3,12}( [0-9]{1,4}){2}", "x*y"};
	GramSpec	s = {.kind = GRAM_REGEX, .text = specs[i % 3], .len = strlen(specs[i % 3]),
					 .opt.strict = true};
	Err			e = {0};
	Grammar    *g = grammar_new(&s, &e);

	if (g == NULL)
	{
		fprintf(stderr, "grammar_new: %s\n", e.msg);
		exit(2);
	}
	return g;
}

/* Return one of four prefixes, and something of its own. */
static IntVec
prompt_of(int k)
{
	static const int common[] = {0, 20, 37, 64};
	int			family = k / 8 % 4;
	IntVec		p = random_prompt((uint32_t) family, common[family]);
	IntVec		own = random_prompt((uint32_t) k + 100, 1 + k * 7 % 40);

	intvec_add(&p, own.data, own.len);
	intvec_free(&own);
	return p;
}

/* Return the k-th kind of request, without the values that only the scheduler uses. */
static ReqSpec
request_for(int k)
{
	static char *stops[] = {"w2", "o"};
	static size_t stop_lens[] = {2, 1};
	ReqSpec		spec = {.prompt = prompt_of(k), .sink = see};
	GenParams	p = greedy_params(1 + k * 13 % 110);

	p.ignore_eos = k % 3 != 0;
	if (k % 8 >= 2)
	{
		p.temperature = 1;
		p.has_seed = true;
		p.seed = k;
	}
	switch (k % 8)
	{
		case 3:
			p.out.n = 2 + k % 3;
			break;
		case 4:
			p.temperature = 0;
			p.has_seed = false;
			p.out.beam_width = 2 + k / 8 % 2;
			p.out.length_penalty = 1;
			break;
		case 5:
			p.n_stop = 2;
			p.stop = mem_zalloc(sizeof(stops));
			p.stop_len = mem_zalloc(sizeof(stop_lens));
			for (int i = 0; i < 2; i++)
			{
				p.stop[i] = strdup(stops[i]);
				p.stop_len[i] = stop_lens[i];
			}
			break;
		case 6:
			genparams_rules(&p)->presence_penalty = 1.5;
			genparams_rules(&p)->repetition_penalty = 1.2;
			break;
		case 7:
			if (k / 8 % 2)
				spec.grammar = grammar_of(k / 16);
			else
			{
				spec.pool = vector_spec(PT_EMBED, spec.prompt);
				memset(&spec.prompt, 0, sizeof(spec.prompt));
			}
			break;
	}
	spec.params = p;
	/* prompts with the same beginning, with other adapters and without */
	if (k % 5 < 2 && spec.pool.task == PT_NONE)
		spec.lora = &loras[k / 5 % N_LORAS];
	return spec;
}

static void
submit_spec(Core *c, ReqSpec *spec, Seen *to)
{
	Err			e;

	spec->sink_ctx = to;
	if (spec->pool.task != PT_NONE)
		genparams_free(&spec->params);
	else if (!core_normalize(c, &spec->params, ~0u & ~GP(REPETITION_PENALTY), &spec->prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	core_submit(c, spec);
}

/* Compute the output of each kind alone, on a core that keeps all blocks. */
static void
make_alone(int model, int weights)
{
	CoreOptions opt = options(4, 64, 200);

	opt.no_windows = true;
	fake.all_windows = model > 0;
	fake.window = fake.all_windows ? WINDOW : 0;
	fake.weights = weights;
	for (int k = 0; k < N_KINDS; k++)
	{
		Core	   *c = core_for_grammars(fake_model(MAX_LEN), tiny_tok(), opt);
		ReqSpec		spec = request_for(k);
		Seen	   *s = &alone[model][weights][k];

		spec.id = 1;
		submit_spec(c, &spec, s);
		while (core_has_work(c))
			core_step(c);
		core_free(c);
		CHECK(s->finish != FIN_NONE && s->finish < FIN_ABORT, "kind %d alone: %d %s", k, s->finish,
			  s->err.msg);
	}
}

/* ---- worlds ---- */

typedef struct Live
{
	bool		used;
	int			kind;
	uint64_t	id;
	const Core *c;				/* core that the request belongs to */
	int			weights;		/* weights of this core */
	Seen		seen;
	int			born;			/* step of its submission */
	bool		cancelled;
	bool		deadline;
	bool		impatient;		/* it may not wait for its role's limit */
} Live;

typedef struct World
{
	Core	   *c;				/* core that gets new requests */
	KvTier	   *tier;			/* NULL = none */
	char		dir[32];		/* directory of its files; "" = none */
	/* cores that finish their requests with the previous weights; NULL = none */
	Core	   *old[MAX_OLD];
	CoreOptions opt;
	int			window;			/* of the model's layers */
	int			model;			/* of alone[] */
	bool		no_state;
	int			weights;
	int			rests;			/* remaining rounds in which c is suspended */
	bool		held;			/* no requests come until all are done, then it sleeps */
	/* some requests may wait as long as others come, or long for a limit, an adapter, a tiny share */
	bool		strict;
	int			most;			/* live requests */
	int			max_requests[4];	/* of each role */
	int			weight[4];
	Live		live[MAX_LIVE];
	int			n_live;
	uint64_t	next_id;
	int			step;			/* rounds in which no core was suspended */
	bool		waits;			/* one of its cores has waited for files in this step */
	bool		drains;			/* no more requests come: wait for whatever is due */
	int			oldest;			/* steps */
	Err			err;
} World;

/* Totals of all worlds, to check that everything has happened. */
static struct
{
	int64_t		events, steps, ended, cancelled, late, refused, preemptions, cached, deferred, drafts, rows,
		windows, slept, updated, gone, back;
	int			oldest;
}			total;

/* Make a core of the world's model, with its current weights. */
static Core *
a_core(World *w)
{
	fake.window = w->window;
	fake.all_windows = w->model > 0;
	fake.no_state = w->no_state;
	fake.weights = w->weights;
	w->opt.kv_id[0] = (unsigned char) (1 + w->weights);
	return core_for_grammars(fake_model(MAX_LEN), tiny_tok(), w->opt);
}

/* Open a store below the pools of all its cores, with little memory and perhaps files. */
static void
a_store(World *w, int i, CoreOptions *opt)
{
	KvTierOptions to = {.memory_bytes = (size_t) (i % 3 == 0 ? 200 : 20) * 4096, .directory = w->dir,
						.disk_bytes = 1 << 20};
	Err			e = {0};

	if (i % 2 == 0)
	{
		strcpy(w->dir, "/tmp/vllm_sim.XXXXXX");
		CHECK(mkdtemp(w->dir) != NULL, "no directory");
	}
	opt->kv_tier = w->tier = kvtier_open(&to, &e);
	CHECK(w->tier != NULL, "%s", e.msg);
	opt->kv_always = i % 5 > 0;
}

static void
close_store(World *w, int i)
{
	char		cmd[64];

	CHECK(kvtier_check(w->tier, &w->err), "world %d: %s", i, w->err.msg);
	kvtier_close(w->tier);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", w->dir);
	CHECK(w->dir[0] == '\0' || system(cmd) == 0, "%s", cmd);
}

static void
a_world(World *w, int i)
{
	static const char *const drafters[] = {
		"{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"prompt_lookup_min\":1,\"prompt_lookup_max\":2}",
		"{\"method\":\"suffix\"}"
	};
	int			seqs = (rnd_state = (uint32_t) i * 7919 + 1, 2 + rnd(11));
	CoreOptions opt = options(seqs, 16 + seqs + rnd(80), 15 + rnd(rnd(4) ? 8 : 60));
	Err			e = {0};

	memset(w, 0, sizeof(*w));
	opt.accounts = accounts_new();
	opt.prefix_caching = rnd(2);
	opt.priorities = rnd(4) == 0;
	opt.background_share = ONE_OF(0, 6, 50, 50);
	opt.max_chunk = ONE_OF(0, 0, 7);
	opt.max_partial = ONE_OF(0, 0, 1, 3);
	opt.long_prompt = ONE_OF(0, 0, 12, 40);
	opt.max_loras = ONE_OF(0, 1, 2);
	opt.no_jump = rnd(4) == 0;
	if (rnd(3) == 0 && !spec_config_parse(drafters[rnd(2)], &opt.spec, &e))
		CHECK(false, "%s", e.msg);
	for (int r = 0; r < 4; r++)
		w->max_requests[r] = i % 3 == 0 ? ONE_OF(0, 1, 2, 5) : 0;
	w->no_state = rnd(4) > 0;
	w->model = rnd(4) == 0;
	w->window = w->model > 0 ? WINDOW : ONE_OF(0, 0, 5, 16, 40);
	/* a third of the worlds is fair to all requests: there the age is bounded */
	w->strict = i % 3 != 1;
	if (!w->strict)
	{
		opt.priorities = false;
		opt.background_share = 50;
		opt.max_loras = 2;
	}
	if (opt.prefix_caching && i % 4 != 0)
		a_store(w, i, &opt);
	w->opt = opt;
	w->most = w->strict ? MAX_LIVE : 6;
	for (int r = 0; r < 4; r++)
		w->weight[r] = w->strict ? ONE_OF(0, 50, 400) : ONE_OF(0, 200);
	w->c = a_core(w);
	w->next_id = (uint64_t) i << 32 | 1;
}

static void
arrive(World *w)
{
	Live	   *l = w->live;
	ReqSpec		spec;
	int			role = 1 + rnd(4);

	while (l->used)
		l++;
	*l = (Live) {.used = true, .kind = rnd(N_KINDS), .id = w->next_id++, .c = w->c, .weights = w->weights,
				 .born = w->step};
	spec = request_for(l->kind);
	spec.id = l->id;
	spec.session = (uint64_t) rnd(6);
	spec.stream = rnd(2);
	spec.owner = (uint64_t) rnd(2);
	spec.by = (Caller) {
		.role = (uint64_t) role, .weight = w->weight[role - 1], .background = rnd(4) == 0,
			.max_requests = w->max_requests[role - 1],
		.wait_ms = rnd(20) == 0 ? rnd(2) : -1
	};
	l->impatient = spec.by.wait_ms >= 0;
	if (w->opt.priorities)
		spec.params.priority = rnd(5) - 2;
	if (rnd(4) == 0 && spec.pool.task == PT_NONE)
		spec.params.cache_salt = strdup("salt");
	if (rnd(12) == 0)
	{
		l->deadline = true;
		spec.timeout_ms = 1 + rnd(4);
		spec.deadline_us = clock_us() + spec.timeout_ms * 1000;
	}
	submit_spec(w->c, &spec, &l->seen);
	w->n_live++;
}

static void
cancel(Live *l)
{
	core_cancel((Core *) l->c, l->id);
	l->cancelled = true;
}

static void
cancel_one(World *w)
{
	Live	   *l = &w->live[rnd(MAX_LIVE)];

	if (l->used)
		cancel(l);
}

static int
n_live(const World *w, const Core *c)
{
	int			n = 0;

	for (const Live *l = w->live; l < w->live + MAX_LIVE; l++)
		n += l->used && l->c == c && l->seen.finish == FIN_NONE;
	return n;
}

static bool
begins_with(const IntVec *whole, const IntVec *part)
{
	return part->len <= whole->len &&
		(part->len == 0 || memcmp(whole->data, part->data, part->len * sizeof(int32_t)) == 0);
}

/* Is that the output that the request has alone, or the beginning of it? */
static bool
same(const World *w, const Live *l)
{
	const Seen *want = &alone[w->model][l->weights][l->kind];
	const Seen *got = &l->seen;

	for (int i = 0; i < MAX_ANSWERS; i++)
	{
		if (!begins_with(&want->ids[i], &got->ids[i]))
			return false;
		if (got->finish < FIN_ABORT &&
			(got->ids[i].len != want->ids[i].len || got->text[i].len != want->text[i].len ||
										(got->text[i].len > 0 && memcmp(got->text[i].data, want->text[i].data,
																		got->text[i].len) != 0)))
			return false;
	}
	if (got->finish >= FIN_ABORT)
		return true;
	return got->finish == want->finish && got->n_values == want->n_values &&
		memcmp(got->values, want->values, (size_t) got->n_values * sizeof(float)) == 0;
}

static bool
may_end_so(const Live *l)
{
	if (l->seen.finish == FIN_ABORT)
		return l->cancelled;
	if (l->seen.finish != FIN_ERROR)
		return true;
	return (l->seen.err.cls == ERR_CANCELLED && l->deadline) ||
		(l->seen.err.cls == ERR_LIMIT && l->impatient);
}

/* Check the requests that have ended. */
static void
look(World *w)
{
	for (Live *l = w->live; l < w->live + MAX_LIVE; l++)
	{
		const Seen *s = &l->seen;

		if (!l->used)
			continue;
		if (w->step - l->born > w->oldest)
			w->oldest = w->step - l->born;
		if (s->finish == FIN_NONE)
			continue;
		CHECK(may_end_so(l), "request %d of kind %d ends with %d %s", (int) l->id, l->kind, s->finish,
			  s->err.msg);
		CHECK(same(w, l), "request %d of kind %d says something else than alone", (int) l->id, l->kind);
		CHECK(s->late_events == 0, "request %d of kind %d: events behind its end", (int) l->id, l->kind);
		total.ended += s->finish < FIN_ABORT;
		total.cancelled += s->finish == FIN_ABORT;
		total.late += s->finish == FIN_ERROR && s->err.cls == ERR_CANCELLED;
		total.refused += s->finish == FIN_ERROR && s->err.cls == ERR_LIMIT;
		total.preemptions += s->preemptions;
		total.cached += s->cached;
		seen_free(&l->seen);
		l->used = false;
		w->n_live--;
	}
}

/* ---- actions on models (docs/user/sleep-and-memory.md), as the server makes the core do them ---- */

/* Close c, whose requests have all ended.  Returns false if something is left of it. */
static bool
close_core(World *w, Core *c)
{
	CoreStats	st;
	bool		clean = true;

	core_stats(c, &st);
	if (n_live(w, c) == 0)
		clean = st.kv_blocks_used == 0 && st.running == 0 && st.waiting == 0 && st.live == 0;
	CHECK(clean, "%d blocks are left, %d run, %d wait", (int) st.kv_blocks_used, (int) st.running,
		  (int) st.waiting);
	total.drafts += st.spec_draft_tokens;
	total.rows += st.step_rows;
	total.back += st.external_hits;
	core_free(c);
	return clean;
}

static void
cancel_all(World *w)
{
	for (Live *l = w->live; l < w->live + MAX_LIVE; l++)
		if (l->used && l->c == w->c)
			cancel(l);
}

static void
put_to_sleep(World *w)
{
	CoreStats	st;

	core_suspend(w->c, true);
	core_stats(w->c, &st);
	CHECK(st.kv_blocks_used == 0 && st.running == 0, "asleep: %d blocks, %d run", (int) st.kv_blocks_used,
		  (int) st.running);
	w->rests = 1 + rnd(20);
	total.slept++;
}

/* New weights: the old core finishes its requests, or fails them. */
static void
update(World *w, bool keep)
{
	Core	  **to = w->old[0] == NULL ? &w->old[0] : &w->old[1];

	if (*to != NULL || w->rests > 0)
		return;
	if (!keep)
		cancel_all(w);
	*to = w->c;
	w->weights = !w->weights;
	w->c = a_core(w);
	w->held = false;
	total.updated++;
}

static void
maintain(World *w)
{
	switch (rnd(8))
	{
		case 0:
			core_suspend(w->c, false);
			w->rests = 1 + rnd(20);
			break;
		case 1:
			put_to_sleep(w);
			break;
		case 2:
			cancel_all(w);
			put_to_sleep(w);
			break;
		case 3:
			w->held = true;
			break;
		case 4:					/* level 2 */
			cancel_all(w);
			close_core(w, w->c);
			look(w);
			w->c = a_core(w);
			w->rests = 0;
			total.gone++;
			break;
		case 5:
		case 6:
			update(w, rnd(2));
			break;
		default:
			core_reset_prefix_cache(w->c);
	}
}

/* ---- life of a world ---- */

/* As the step thread does: step it only if it is due. */
static bool
step_core(World *w, Core *c)
{
	int64_t		wait = core_next_due(c) - clock_us();

	/* reading files may take any time, so requests don't age meanwhile */
	if (wait > 0 && (wait <= 1000 || (w->drains && core_has_work(c))))
	{
		usleep((useconds_t) (wait < 1000 ? wait : 1000));
		w->waits = true;
	}
	if (core_next_due(c) <= clock_us())
		core_step(c);
	for (int i = 0; i < sched_n_running(core_sched(c)); i++)
		total.windows += sched_running(core_sched(c), i)->kv.w_from > 0;
	return core_check(c, &w->err);
}

static bool
step(World *w)
{
	bool		ok;

	w->waits = false;
	ok = step_core(w, w->c);
	for (int i = 0; i < MAX_OLD; i++)
		ok = (w->old[i] == NULL || step_core(w, w->old[i])) && ok;
	w->step += w->rests == 0 && !w->waits;
	look(w);
	for (int i = 0; i < MAX_OLD; i++)
		if (w->old[i] != NULL && n_live(w, w->old[i]) == 0)
		{
			ok = close_core(w, w->old[i]) && ok;
			w->old[i] = NULL;
		}
	if (w->rests > 0 && --w->rests == 0)
		core_resume(w->c, &(Err) {0});
	if (w->held && n_live(w, w->c) == 0)
	{
		w->held = false;
		put_to_sleep(w);
	}
	return ok;
}

/* Check that no request is left, nor counts for a limit. */
static void
end_of_world(World *w, int i, bool ok)
{
	CoreStats	st;

	core_stats(w->c, &st);
	CHECK(ok, "world %d, step %d: %s", i, w->step, w->err.msg);
	CHECK(w->n_live == 0, "world %d: %d requests don't end; %d run, %d wait, %d of them for limits", i,
		  w->n_live, (int) st.running, (int) st.waiting, (int) st.waiting_deferred);
	core_resume(w->c, &(Err) {0});
	for (int r = 1; r <= 4 && w->n_live == 0; r++)
	{
		ReqSpec		spec = request_for(0);
		Seen		s = {0};

		spec.by = (Caller) {.role = (uint64_t) r, .max_requests = 1};
		spec.id = w->next_id++;
		submit_spec(w->c, &spec, &s);
		while (core_has_work(w->c))
			core_step(w->c);
		CHECK(s.finish != FIN_NONE && s.finish < FIN_ABORT, "world %d, role %d: %s", i, r, s.err.msg);
		seen_free(&s);
	}
	for (int k = 0; k < MAX_OLD; k++)
		if (w->old[k] != NULL)
			close_core(w, w->old[k]);
	close_core(w, w->c);
	if (w->tier != NULL)
		close_store(w, i);
	accounts_free(w->opt.accounts);
}

static void
run_world(int i, int events)
{
	World	   *w = mem_zalloc(sizeof(World));
	CoreStats	st;
	bool		ok = true;

	a_world(w, i);
	for (int n = 0; n < events && ok; n++)
	{
		int			what = rnd(20);

		if (what < 6 && w->n_live < w->most && !w->held)
			arrive(w);
		else if (what == 6 && rnd(5) == 0)
			cancel_one(w);
		else if (what == 7 && rnd(10) == 0)
			maintain(w);
		else
			ok = step(w);
		core_stats(w->c, &st);
		total.deferred += st.waiting_deferred > 0;
	}
	CHECK(w->strict || w->oldest <= MAX_AGE, "world %d: a request is %d steps old", i, w->oldest);
	if (!w->strict && w->oldest > total.oldest)
		total.oldest = w->oldest;
	w->drains = true;
	for (int n = 0; n < 20000 && w->n_live > 0 && ok; n++)
		ok = step(w);
	total.events += events;
	total.steps += w->step;
	end_of_world(w, i, ok);
	mem_free(w);
}

static void
test_worlds(void)
{
	const char *one = getenv("SIM_WORLD");

	for (int i = one != NULL ? atoi(one) : 0;
		 i < (one != NULL ? atoi(one) + 1 : N_WORLDS) && check_failed == 0; i++)
		run_world(i, check_effort(60000, 100000, 1000000) / N_WORLDS);
	CHECK(fake.bad_slots == 0, "%d slots of other positions were read", fake.bad_slots);
	/* all of these have happened */
	CHECK(total.ended > 2500 && total.cancelled > 300 && total.late > 20 && total.refused > 10 &&
		  total.preemptions > 100 && total.cached > 3000 && total.deferred > 1000 && total.drafts > 300 &&
		  total.back > 300 && total.windows > 1000 && total.slept > 50 && total.updated > 50 &&
		  total.gone > 20, "ended %d, cancelled %d, late %d, refused %d, preempted %d, cached %d, deferred "
						   "%d, drafts %d, given up windows %d, slept %d, updated %d, gone %d, back %d",
						   (int) total.ended,
		  (int) total.cancelled, (int) total.late, (int) total.refused, (int) total.preemptions,
		  (int) total.cached, (int) total.deferred, (int) total.drafts, (int) total.windows,
		  (int) total.slept, (int) total.updated, (int) total.gone, (int) total.back);
	printf("%d events, %d steps, %d ended, %d cancelled, %d preemptions; the oldest was %d steps old\n",
		   (int) total.events, (int) total.steps, (int) total.ended, (int) total.cancelled,
		   (int) total.preemptions, total.oldest);
}

/* ---- a pool of under a tenth of what is needed ---- */

/*
 * All requests end, and little is computed twice: a preempted one resumes when there is space for all of
 * it, and for one block more of each running request.
 */
static void
test_progress(bool prefix)
{
	enum
	{
		N = 64
	};
	const int	blocks = 40;
	CoreOptions opt = options(16, 64, blocks);
	Core	   *c;
	Seen	   *s = mem_zalloc(N * sizeof(Seen));
	int64_t		needed = 0;		/* blocks */
	int64_t		rows = 0;
	int			bad = 0;
	CoreStats	st;
	Err			e = {0};

	opt.prefix_caching = prefix;
	fake.no_state = true;
	fake.window = fake.weights = 0;
	fake.all_windows = false;
	c = core_for_grammars(fake_model(MAX_LEN), tiny_tok(), opt);
	for (int i = 0; i < N; i++)
	{
		ReqSpec		spec = {.id = (uint64_t) i + 1, .session = (uint64_t) i % 5,
							.prompt = random_prompt((uint32_t) i + 1000, 10 + i % 20), .sink = see};
		int			n = 90 + i % 50;

		spec.params = greedy_params(n);
		rows += (int) spec.prompt.len + n - 1;
		needed += ((int) spec.prompt.len + n - 1 + 15) / 16;
		submit_spec(c, &spec, &s[i]);
	}
	for (int i = 0; i < 20000 && core_has_work(c) && bad == 0; i++)
	{
		core_step(c);
		bad = !core_check(c, &e);
	}
	core_stats(c, &st);
	CHECK(bad == 0 && !core_has_work(c), "%d run, %d wait: %s", (int) st.running, (int) st.waiting, e.msg);
	CHECK(blocks * 10 < needed, "%d blocks of %d", blocks, (int) needed);
	for (int i = 0; i < N; i++)
	{
		bad += s[i].finish != FIN_LENGTH;
		seen_free(&s[i]);
	}
	CHECK(bad == 0, "%d have not ended", bad);
	CHECK(st.preemptions > 10 && st.step_rows < rows * 3 / 2, "%d preemptions: %d rows instead of %d",
		  (int) st.preemptions, (int) st.step_rows, (int) rows);
	printf("%d of %d blocks%s: %d preemptions, %.0f %% computed again\n", blocks, (int) needed,
		   prefix ? ", prefix cache" : "", (int) st.preemptions,
		   100.0 * (double) (st.step_rows - rows) / (double) rows);
	core_free(c);
	mem_free(s);
}

/* ---- roles, when seats or blocks are short ---- */

/*
 * One role has 60 requests of all kinds running and waiting; another one asks for a few tokens, again
 * and again, and gets them soon.  All outputs equal those alone, whichever request was preempted.
 */
static void
test_roles(int seats, int blocks, bool prefix)
{
	enum
	{
		N = 60, SHORT = 20
	};
	CoreOptions opt = options(seats, 64, blocks);
	Core	   *c;
	Seen	   *s = mem_zalloc((N + SHORT) * sizeof(Seen));
	int			kind[N + SHORT];
	int			longest = 0;
	int			bad = 0;
	CoreStats	st;
	Err			e = {0};

	opt.prefix_caching = prefix;
	opt.background_share = 50;
	fake.no_state = true;
	fake.window = fake.weights = 0;
	fake.all_windows = false;
	c = core_for_grammars(fake_model(MAX_LEN), tiny_tok(), opt);
	for (int i = 0; i < N + SHORT; i++)
	{
		ReqSpec		spec;

		/* no adapters, since those wait for places; 17: two tokens after 77 */
		for (kind[i] = i < N ? i * 7 % N_KINDS : 17; i < N && kind[i] % 5 < 2; kind[i]++)
			;
		spec = request_for(kind[i]);
		spec.id = (uint64_t) i + 1;
		spec.session = (uint64_t) i % 3;
		spec.by = (Caller) {.role = i < N ? 1 : 2};
		submit_spec(c, &spec, &s[i]);
		for (int k = 0; i >= N && s[i].finish == FIN_NONE && k < 2000; k++)
		{
			core_step(c);
			bad += !core_check(c, &e);
			longest = k + 1 > longest ? k + 1 : longest;
		}
		for (int k = 0; i >= N - 1 && k < 5; k++)
			core_step(c);
	}
	for (int i = 0; i < 20000 && core_has_work(c) && bad == 0; i++)
	{
		core_step(c);
		bad += !core_check(c, &e);
	}
	CHECK(bad == 0 && !core_has_work(c), "%s", e.msg);
	CHECK(longest <= 20, "%d seats, %d blocks: another role waits for %d steps", seats, blocks, longest);
	for (int i = 0; i < N + SHORT; i++)
	{
		const Seen *want = &alone[0][0][kind[i]];

		for (int k = 0; k < MAX_ANSWERS; k++)
			CHECK(want->ids[k].len == s[i].ids[k].len && begins_with(&want->ids[k], &s[i].ids[k]),
				  "request %d of kind %d says something else than alone", i, kind[i]);
		seen_free(&s[i]);
	}
	core_stats(c, &st);
	printf("%d seats, %d blocks: another role's two tokens take %d steps at most; %d preemptions\n", seats,
		   blocks, longest, (int) st.preemptions);
	core_free(c);
	mem_free(s);
}

int
main(void)
{
	for (int i = 0; i < N_LORAS; i++)
		loras[i] = (LoraAdapter) {.id = (uint64_t) i + 1};
	for (int i = 0; i < N_MODELS * N_WEIGHTS; i++)
		make_alone(i / N_WEIGHTS, i % N_WEIGHTS);
	RUN(test_worlds());
	RUN(test_progress(false));
	RUN(test_progress(true));
	RUN(test_roles(8, 400, false));
	RUN(test_roles(16, 40, false));
	RUN(test_roles(16, 40, true));
	RUN(test_roles(40, 60, true));
	for (Seen *s = &alone[0][0][0]; s < &alone[0][0][0] + sizeof(alone) / sizeof(Seen); s++)
		seen_free(s);
	return check_done("sim");
}
