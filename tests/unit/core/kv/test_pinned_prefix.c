/*
 * test_pinned_prefix.c
 *	  Pinned prefixes, with the fake model: whether they are found, who may pin, how much, and what
 *	  happens when their memory is needed.
 */
#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#include "core/core_state.h"
#include "core/kv/pinned_prefix.h"

#define BLOCKS	20

static KPool *pool;

static Core *
make(int blocks)
{
	CoreOptions o = options(4, 64, blocks);

	o.pool = pool;
	o.prefix_caching = true;
	return core_for_grammars(fake_model(320), tiny_tok(), o);
}

static const LoraAdapter *lora; /* for requests from now on */
static int	n_answers = 1;		/* for requests from now on */
static Grammar *grammar;		/* for requests from now on; owned */

static void
submit_kind(Core *c, uint64_t id, int kind, int n, int pin, uint64_t owner, Rec *rec)
{
	GenParams	p = greedy_params(2);
	ReqSpec		spec = {.id = id, .owner = owner, .sink = rec_sink, .sink_ctx = rec,
						.prompt = random_prompt((uint32_t) kind, n)};
	Err			e = {0};

	memset(rec, 0, sizeof(*rec));
	p.pin = pin;
	p.detokenize = false;
	p.out.n = n_answers;
	p.temperature = n_answers > 1;
	CHECK(core_normalize(c, &p, ~0u, &spec.prompt, &e), "%s", e.msg);
	spec.params = p;
	spec.lora = lora;
	spec.grammar = grammar;
	grammar = NULL;
	core_submit(c, &spec);
}

static void
run(Core *c)
{
	Err			e = {0};

	while (core_has_work(c))
	{
		core_step(c);
		CHECK(core_check(c, &e), "%s", e.msg);
	}
}

/* Run a prompt of n tokens of some kind; pin: GenParams.pin.  Returns how many of its tokens were found. */
static int
issue(Core *c, int kind, int n, int pin, uint64_t owner, Rec *rec)
{
	submit_kind(c, 1, kind, n, pin, owner, rec);
	run(c);
	return rec->cached;
}

static void
check_pinned(const Core *c, int tokens, int blocks)
{
	CoreStats	st;

	core_stats(c, &st);
	CHECK(st.kv_pinned_tokens == tokens && st.kv_blocks_used == blocks,
		  "%lld tokens in %lld blocks, not %d in %d", (long long) st.kv_pinned_tokens,
		  (long long) st.kv_blocks_used, tokens, blocks);
}

/* A reported pin is really pinned. */
static void
test_reported(void)
{
	static const char yes[] = "yes";
	GramSpec	s = {.kind = GRAM_REGEX, .text = yes, .len = sizeof(yes) - 1, .opt.strict = true};
	Core	   *c = make(BLOCKS);
	Rec			a,
				b;
	Err			e = {0};

	/* two at once, when there is space for one */
	submit_kind(c, 1, 1, 97, 1, 1, &a);
	submit_kind(c, 2, 2, 97, 1, 1, &b);
	run(c);
	CHECK(a.finish < FIN_ABORT && b.finish == FIN_ERROR && b.err.cls == ERR_NOMEM, "%d, %d %s", a.finish,
		  b.finish, b.err.msg);
	CHECK(b.late_events == 0 && b.ids.len == 0, "%zu tokens, %d events behind the end", b.ids.len,
		  b.late_events);
	check_pinned(c, 96, 6);
	rec_free(&a);
	rec_free(&b);
	/* the cache is reset meanwhile: the prompt isn't pinned, but can be */
	core_reset_prefix_cache(c);
	submit_kind(c, 1, 3, 97, 1, 1, &a);
	core_step(c);
	core_reset_prefix_cache(c);
	run(c);
	rec_free(&a);
	check_pinned(c, 0, 0);
	issue(c, 3, 97, 1, 1, &a);
	rec_free(&a);
	check_pinned(c, 96, 6);
	/* a grammar that forces the whole output: the prompt is computed nevertheless */
	core_reset_prefix_cache(c);
	grammar = grammar_new(&s, &e);
	CHECK(grammar != NULL, "%s", e.msg);
	issue(c, 4, 50, 1, 1, &a);
	CHECK(a.finish < FIN_ABORT, "%d %s", a.finish, a.err.msg);
	rec_free(&a);
	check_pinned(c, 48, 3);
	n_answers = 2;
	issue(c, 5, 50, 1, 1, &a);
	n_answers = 1;
	CHECK(a.finish == FIN_ERROR && a.err.cls == ERR_INVALID, "%d %s", a.finish, a.err.msg);
	rec_free(&a);
	core_free(c);
}

typedef struct List
{
	PinInfo		pins[8];
	int			n;
} List;

static void
emit(void *ctx, const PinInfo *i)
{
	List	   *l = ctx;

	if (l->n < 8)
		l->pins[l->n++] = *i;
}

/* Common blocks count once, whichever pin is released. */
static void
test_common(void)
{
	Core	   *c = make(BLOCKS);
	List		l = {.n = 0};
	Rec			r;
	Err			e = {0};

	for (int n = 96; n <= 144; n += 16)
	{
		issue(c, 1, n + 1, 1, 1, &r);
		CHECK(r.finish == FIN_LENGTH, "%d tokens: finish %d, %s", n, r.finish, r.err.msg);
		rec_free(&r);
		check_pinned(c, n, n / 16);
	}
	issue(c, 2, 33, 1, 1, &r);
	CHECK(r.finish == FIN_ERROR && r.err.cls == ERR_NOMEM, "2 more blocks: finish %d", r.finish);
	rec_free(&r);
	issue(c, 1, 163, 1, 1, &r);
	CHECK(r.finish == FIN_LENGTH, "1 more block: finish %d, %s", r.finish, r.err.msg);
	rec_free(&r);
	check_pinned(c, 160, 10);
	core_pins(c, emit, &l);
	CHECK(l.n == 5, "%d pins", l.n);
	for (int i = 0; i < l.n; i++)
		CHECK(l.pins[i].tokens == (i < 4 ? 96 + 16 * i : 160) && l.pins[i].owner == 1 &&
			  l.pins[i].lora == NULL && !l.pins[i].salted &&
			  l.pins[i].bytes * l.pins[0].tokens == l.pins[0].bytes * l.pins[i].tokens,
			  "pin %d has %d tokens in %lld bytes", i, l.pins[i].tokens, (long long) l.pins[i].bytes);
	/* the longest, one in the middle, the shortest; a number that does not exist */
	CHECK(core_unpin(c, l.pins[4].id), "no pin %llu", (unsigned long long) l.pins[4].id);
	check_pinned(c, 144, 9);
	CHECK(core_unpin(c, l.pins[1].id) && core_unpin(c, l.pins[0].id) && !core_unpin(c, l.pins[0].id),
		  "given up once each");
	check_pinned(c, 144, 9);
	CHECK(core_check(c, &e), "%s", e.msg);
	CHECK(core_unpin(c, l.pins[3].id), "no pin %llu", (unsigned long long) l.pins[3].id);
	check_pinned(c, 128, 8);
	/* a request that needs all of the pool takes the rest */
	issue(c, 4, 18 * 16, 0, 1, &r);
	CHECK(r.finish == FIN_LENGTH, "18 of 20 blocks: finish %d, %s", r.finish, r.err.msg);
	rec_free(&r);
	check_pinned(c, 0, 0);
	core_free(c);
}

/* An adapter that was evicted meanwhile has the same KV blocks when it is loaded again. */
static void
test_adapters(void)
{
	static LoraAdapter a = {.id = 1,.name = "a",.content = {7}};
	static LoraAdapter again = {.id = 2,.name = "a",.content = {7}};
	static LoraAdapter other = {.id = 3,.name = "a",.content = {8}};
	static LoraAdapter unknown[2] = {{.id = 4}, {.id = 5}};
	static const LoraAdapter *const from[] = {&a, &a, &a, &unknown[0], &unknown[0]};
	static const LoraAdapter *const to[] = {&again, &other, NULL, &unknown[0], &unknown[1]};
	static const int found[] = {50, 0, 0, 50, 0};
	Rec			r;

	for (int i = 0; i < 5; i++)
	{
		Core	   *c = make(BLOCKS);
		List		l = {.n = 0};

		lora = from[i];
		issue(c, 1, 50, 1, 1, &r);
		rec_free(&r);
		core_pins(c, emit, &l);
		CHECK(l.n == 1 && strcmp(l.pins[0].lora, from[i]->name) == 0, "%d pins", l.n);
		lora = to[i];
		CHECK(issue(c, 1, 60, 0, 1, &r) == found[i], "%d: %d tokens found", i, r.cached);
		rec_free(&r);
		lora = NULL;
		core_free(c);
	}
}

int
main(void)
{
	Core	   *c;
	Rec			r;
	CoreStats	st;
	Err			e = {0};

	pool = kpool_new(1);
	fake.no_state = true;
	c = make(BLOCKS);
	/* blocks that are not pinned are overwritten by a prompt that takes everything, pinned ones are not */
	issue(c, 1, 50, 0, 1, &r);
	rec_free(&r);
	issue(c, 9, 300, 0, 1, &r);
	rec_free(&r);
	CHECK(issue(c, 1, 50, 1, 1, &r) <= 16 && r.finish == FIN_LENGTH, "it was not pinned: %d tokens found",
		  r.cached);
	rec_free(&r);
	for (int i = 10; i < 16; i++)
	{
		issue(c, i, 200, 0, 1, &r);
		rec_free(&r);
	}
	core_stats(c, &st);
	CHECK(st.kv_pinned_tokens == 48 && st.kv_blocks_used == 3, "%lld tokens in %lld blocks",
		  (long long) st.kv_pinned_tokens, (long long) st.kv_blocks_used);
	CHECK(issue(c, 1, 60, 0, 1, &r) == 48, "%d tokens of a pinned prompt are found", r.cached);
	rec_free(&r);
	CHECK(issue(c, 1, 50, 0, 2, &r) == 0, "another owner finds %d tokens", r.cached);
	rec_free(&r);
	/* pinned twice: one pin; another owner can't unpin it */
	issue(c, 1, 50, 1, 1, &r);
	rec_free(&r);
	issue(c, 1, 50, -1, 2, &r);
	rec_free(&r);
	core_stats(c, &st);
	CHECK(st.kv_pinned_tokens == 48, "%lld tokens are pinned", (long long) st.kv_pinned_tokens);
	/* half of the pool at most; too short; too long */
	issue(c, 2, 7 * 16, 1, 1, &r);
	CHECK(r.finish == FIN_LENGTH, "7 blocks more: finish %d", r.finish);
	rec_free(&r);
	issue(c, 3, 16, 1, 1, &r);
	CHECK(r.finish == FIN_ERROR && r.err.cls == ERR_NOMEM && strstr(r.err.hint, "llm_unpin_prefix") != NULL,
		  "one more: %s", r.err.msg);
	rec_free(&r);
	issue(c, 3, 15, 1, 1, &r);
	CHECK(r.finish == FIN_ERROR && r.err.cls == ERR_INVALID, "15 tokens: %s", r.err.msg);
	rec_free(&r);
	issue(c, 1, 50, -1, 1, &r);
	rec_free(&r);
	core_stats(c, &st);
	CHECK(st.kv_pinned_tokens == 7 * 16 && st.kv_blocks_used == 7, "unpinned: %lld tokens are pinned",
		  (long long) st.kv_pinned_tokens);
	/* a request that needs all of the pool gets it */
	issue(c, 4, 18 * 16, 0, 1, &r);
	CHECK(r.finish == FIN_LENGTH, "18 of 20 blocks: finish %d, %s", r.finish, r.err.msg);
	rec_free(&r);
	core_stats(c, &st);
	CHECK(st.kv_pinned_tokens == 0 && st.kv_blocks_used == 0, "%lld tokens are still pinned",
		  (long long) st.kv_pinned_tokens);
	issue(c, 1, 50, 1, 1, &r);
	rec_free(&r);
	core_reset_prefix_cache(c);
	CHECK(core_check(c, &e), "%s", e.msg);
	CHECK(issue(c, 1, 50, 0, 1, &r) == 0, "after a reset %d tokens are found", r.cached);
	rec_free(&r);
	issue(c, 1, 50, 1, 1, &r);
	rec_free(&r);
	core_free(c);
	RUN(test_reported());
	RUN(test_common());
	RUN(test_adapters());
	kpool_free(pool);
	return check_done("test_pinned_prefix");
}
