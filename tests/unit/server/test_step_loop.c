/*
 * test_step_loop.c
 *	  Which thread makes which step: two at once, latency work alone in the middle of others, jobs
 *	  between steps.
 *
 * The models are simulated: their steps do what a test says, and wait for each other instead of for a
 * time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "server/step_loop.h"
#include "tests/unit/wire_peer.h"
#include "tests/unit/check.h"

struct BackendModel
{
	void		(*body) (BackendModel *in); /* of a step */
	_Atomic int left;			/* remaining steps; -1 = endless */
	_Atomic int work;			/* WorkClass */
	bool		shares;			/* its steps may run with a part of the threads */
	_Atomic int part,
				parts;
	_Atomic int inside;			/* threads in its step */
	_Atomic int steps;			/* steps made */
	_Atomic int ops;			/* operations of the steps */
	_Atomic bool met;			/* another model's step ran at the same time */
	_Atomic int freed;
	void		(*progress) (void *ctx, bool between);
	void	   *ctx;
};

#define MODELS 4

static BackendModel M[MODELS];
static const _Atomic int weight = 100;
static Step *S;
static Jobs *J;

/* Wait for something that another thread does: true within five seconds. */
#define COMES(condition) ({ int64_t end_ = clock_us() + 5000000; \
	for (; !(condition) && clock_us() < end_; usleep(100)) \
	{ \
	} \
	(condition); })

/* Failures on other threads, since CHECK() is for the main thread only. */
static _Atomic int wrong;

static void
require(bool ok, const char *what)
{
	if (!ok && atomic_fetch_add(&wrong, 1) < 20)
		fprintf(stderr, "FAILED on a step thread: %s\n", what);
}

/* ---- the simulated backend ---- */

static int64_t
next_due(BackendModel *in, int lane)
{
	require(lane == 0, "there is one replica");
	/* only the step thread may access a model, and not during its step */
	require(atomic_load(&in->inside) == 0, "a step is on its way");
	return atomic_load(&in->left) != 0 ? 0 : INT64_MAX;
}

static WorkClass
work_class(BackendModel *in, int lane)
{
	(void) lane;
	return (WorkClass) atomic_load(&in->work);
}

static bool
use_threads(BackendModel *in, int part, int parts)
{
	require(part >= 0 && part < parts && parts <= 2, "a part of the threads");
	atomic_store(&in->part, part);
	atomic_store(&in->parts, parts);
	return in->shares;
}

static void
step(BackendModel *in, int lane, const Settings *s)
{
	(void) lane;
	(void) s;
	require(atomic_fetch_add(&in->inside, 1) == 0, "two steps of one model");
	for (int i = 0; i < MODELS; i++)
		if (&M[i] != in && atomic_load(&M[i].inside) > 0)
			atomic_store(&in->met, true);
	if (in->body != NULL)
		in->body(in);
	if (atomic_load(&in->left) > 0)
		atomic_fetch_sub(&in->left, 1);
	atomic_fetch_add(&in->steps, 1);
	atomic_fetch_sub(&in->inside, 1);
}

static void
on_progress(BackendModel *in, int lane, void (*fn) (void *ctx, bool between), void *ctx)
{
	(void) lane;
	in->progress = fn;
	in->ctx = ctx;
}

static void
model_stats(const BackendModel *in, CoreStats *out)
{
	(void) in;
	memset(out, 0, sizeof(*out));
}

static void
model_free_it(BackendModel *in)
{
	require(atomic_load(&in->inside) == 0, "freed in the middle of its step");
	atomic_fetch_add(&in->freed, 1);
}

static const Generator generator = {
	.next_due = next_due,
	.work_class = work_class,
	.use_threads = use_threads,
	.step = step,
	.on_progress = on_progress,
};
static const ModelLoader loader = {.free = model_free_it};
static const ModelControl control = {.stats = model_stats};
static const Backend backend = {.name = "made up", .loader = &loader, .generator = &generator,
	.control = &control};

/* ---- jobs ---- */

typedef struct TestJob
{
	Job			job;
	int			n;				/* models to attach, or detach */
	bool		attach;
	_Atomic bool done;
} TestJob;

static void
run_job(Job *j)
{
	TestJob    *t = (TestJob *) j;

	for (int k = 0; k < 10; k++, usleep(100))
		for (int i = 0; i < MODELS; i++)
			require(atomic_load(&M[i].inside) == 0, "a step beside a job");
	for (int i = 0; i < t->n; i++)
		if (t->attach)
			step_attach(S, &M[i], &weight);
		else
			step_detach(S, &M[i]);
}

static void
job_done(Job *j)
{
	atomic_store(&((TestJob *) j)->done, true);
}

static void
job(int n, bool attach)
{
	TestJob		t = {.job = {run_job, job_done}, .n = n, .attach = attach};

	step_run(S, &t.job);
	CHECK(COMES((jobs_drain(J), atomic_load(&t.done))), "the job is done");
}

static void
begin(int n, WorkClass work, void (*body) (BackendModel *in), int steps)
{
	for (int i = 0; i < MODELS; i++)
		M[i] = (BackendModel) {.shares = true};
	job(n, true);
	for (int i = 0; i < n; i++)
	{
		M[i].body = body;
		M[i].work = (int) work;
		atomic_store(&M[i].left, steps);
	}
	step_wake(S);
}

static void
end(int n)
{
	for (int i = 0; i < n; i++)
		atomic_store(&M[i].left, 0);
	job(n, false);
	for (int i = 0; i < n; i++)
		CHECK(atomic_load(&M[i].freed) == 1, "model %d is freed", i);
	CHECK(atomic_load(&wrong) == 0, "%d are wrong on step threads", atomic_load(&wrong));
}

/* ---- two at once ---- */

static void
meet(BackendModel *in)
{
	BackendModel *other = in == &M[0] ? &M[1] : &M[0];

	/* each with its half, until the other one has noticed */
	require(COMES(atomic_load(&other->inside) > 0 || atomic_load(&other->left) == 0), "the other one's step");
	require(COMES(atomic_load(&in->parts) == 2 || atomic_load(&other->left) == 0), "half of the threads");
	atomic_fetch_add(&in->ops, 1);
	require(COMES(atomic_load(&other->ops) >= atomic_load(&in->ops) || atomic_load(&other->left) == 0),
		  "the other one comes as far");
}

static void
test_at_once(WorkClass work)
{
	begin(2, work, meet, 50);
	CHECK(COMES(atomic_load(&M[0].steps) == 50 && atomic_load(&M[1].steps) == 50), "%d and %d steps",
		  atomic_load(&M[0].steps), atomic_load(&M[1].steps));
	CHECK(atomic_load(&M[0].part) != atomic_load(&M[1].part) || atomic_load(&M[0].parts) == 1 ||
		  atomic_load(&M[1].parts) == 1, "different halves");
	/* alone it gets all threads again */
	atomic_store(&M[1].left, 1);
	atomic_store(&M[0].left, 0);
	step_wake(S);
	CHECK(COMES(atomic_load(&M[1].steps) == 51), "one more step");
	CHECK(atomic_load(&M[1].parts) == 1, "all threads");
	end(2);
}

static void
short_step(BackendModel *in)
{
	usleep(300);
	in->progress(in->ctx, false);
	usleep(300);
}

/* A model that shares no threads runs alone, whatever others do. */
static void
test_not_shared(void)
{
	for (int i = 0; i < MODELS; i++)
		M[i] = (BackendModel) {0};
	M[0].shares = M[1].shares = true;
	job(3, true);
	for (int i = 0; i < 3; i++)
	{
		M[i].body = short_step;
		M[i].work = WORK_THROUGHPUT;
		atomic_store(&M[i].left, 100);
	}
	step_wake(S);
	CHECK(COMES(atomic_load(&M[0].steps) + atomic_load(&M[1].steps) + atomic_load(&M[2].steps) == 300),
		  "all steps are made");
	CHECK(!atomic_load(&M[2].met), "the third model's steps are alone");
	end(3);
}

/* ---- preemption by latency work ---- */

static atomic_bool stop;

/* An endless step, with short operations. */
static void
long_step(BackendModel *in)
{
	while (!atomic_load(&stop))
	{
		usleep(100);
		atomic_fetch_add(&in->ops, 1);
		in->progress(in->ctx, true);
	}
}

static void
latency_step(BackendModel *in)
{
	int			ops;

	/* the preempted step is paused, the other one will be soon */
	require(COMES(atomic_load(&in->parts) == 1), "all threads");
	ops = atomic_load(&M[0].ops) + atomic_load(&M[1].ops);
	in->progress(in->ctx, true);
	usleep(5000);
	require(ops == atomic_load(&M[0].ops) + atomic_load(&M[1].ops), "the others stand still");
}

static void
test_alone(void)
{
	atomic_store(&stop, false);
	begin(3, WORK_THROUGHPUT, long_step, 0);
	M[2].body = latency_step;
	M[2].work = WORK_LATENCY;
	atomic_store(&M[0].left, 1);
	atomic_store(&M[1].left, 1);
	step_wake(S);
	for (int round = 0; round < 10; round++)
	{
		int			ops[2];

		CHECK(COMES(atomic_load(&M[0].inside) && atomic_load(&M[1].inside)), "both are on their way");
		for (int i = 0; i < 2; i++)
			ops[i] = atomic_load(&M[i].ops);
		CHECK(COMES(atomic_load(&M[0].ops) > ops[0] && atomic_load(&M[1].ops) > ops[1]), "and go on");
		CHECK(COMES(atomic_load(&M[0].parts) == 2 && atomic_load(&M[1].parts) == 2), "with half each");
		atomic_store(&M[2].left, 2);
		step_wake(S);
		CHECK(COMES(atomic_load(&M[2].steps) == 2 * round + 2), "a latency step in the middle");
	}
	atomic_store(&stop, true);
	end(3);
}

/* ---- jobs ---- */

static void
test_jobs(void)
{
	begin(2, WORK_THROUGHPUT, short_step, -1);
	for (int i = 0; i < 50; i++)
		job(0, false);
	CHECK(COMES(atomic_load(&M[0].met) && atomic_load(&M[1].met)), "at once between jobs");
	end(2);
}

/* Models come and go, and work of any class does, while steps run. */
static void
test_random(void)
{
	unsigned	seed = 5;

	for (int round = 0; round < 20; round++)
	{
		begin(MODELS, WORK_THROUGHPUT, short_step, 0);
		for (int i = 0; i < 30; i++)
		{
			BackendModel *in = &M[rand_r(&seed) % MODELS];

			atomic_store(&in->work, WORK_BACKGROUND + (int) (rand_r(&seed) % 3));
			atomic_store(&in->left, (int) (rand_r(&seed) % 5));
			step_wake(S);
			usleep(rand_r(&seed) % 500);
		}
		for (int i = 0; i < MODELS; i++)
			CHECK(COMES(atomic_load(&M[i].left) == 0), "model %d has %d steps left", i,
				  atomic_load(&M[i].left));
		end(MODELS);
	}
}

static void
nobody(void *ctx)
{
	(void) ctx;
}

int
main(void)
{
	static Peer p;
	static Link link;
	static SettingsBox box;

	peer_arena(&p, 4, 4096, 1 << 20);
	link_init(&link, &p.arena, -1);
	settings_box_init(&box);
	J = jobs_new(nobody, NULL);
	S = step_new(&link, &backend, &box, stats_new(wire_stats(&p.arena), &backend, "none", 2), J);
	for (WorkClass work = WORK_BACKGROUND; work <= WORK_LATENCY; work++)
		RUN(test_at_once(work));
	RUN(test_not_shared());
	RUN(test_alone());
	RUN(test_jobs());
	RUN(test_random());
	return check_done("test_step_loop");
}
