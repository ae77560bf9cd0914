/*
 * test_comm.c
 *	  Ranks that communicate through shared memory: random collectives of processes and of threads, each
 *	  compared with the expected result, also with a device on each rank; the stream of commands; lost
 *	  ranks.
 *
 * The value that rank r puts into element i of call number n is a function of the three, so every rank
 * knows the others' values.  All ranks draw the same random numbers.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "hostdev.h"
#include "model/parallel/comm.h"
#include "model/weights/device_arena.h"
#include "tests/unit/check.h"

#define MOST (3 * GROUP_SLOT / 4)	/* floats of a rank's part: three slots */
#define OK_STATUS 0
#define WRONG_STATUS 3
#define DEAD_STATUS 7

static uint32_t
dice(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	return *s ^= *s << 5;
}

/* Return the value of rank `rank`; a fraction, so that the order of a sum matters. */
static float
value(uint32_t call, int rank, size_t i)
{
	uint32_t	h = (call * 2654435761u) ^ ((uint32_t) rank * 40503u) ^ ((uint32_t) i * 2246822519u);

	h ^= h >> 15;
	return (float) (int) (h * 2654435761u >> 8) / 5242880.0f - 1.5f;
}

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + 1e-9 * (double) ts.tv_nsec;
}

/* State of one rank. */
typedef struct Rank
{
	KComm	   *c;
	uint32_t	call;
	float	   *mine;			/* [MOST] */
	float	   *all;			/* [MOST GROUP_MOST] */
	bool		wrong;
} Rank;

static float
sum_of(const Rank *r, size_t i)
{
	float		sum = value(r->call, 0, i);

	for (int k = 1; k < r->c->size; k++)
		sum += value(r->call, k, i);
	return sum;
}

static void
fill(Rank *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->mine[i] = value(r->call, r->c->rank, i);
}

static void
one_gather(Rank *r, size_t n, uint32_t d)
{
	int			rows = 1 + (int) (d % 5);
	int32_t		starts[GROUP_MOST + 1] = {0};

	/* uneven parts, some of them empty */
	for (int k = 0; k < r->c->size; k++)
		starts[k + 1] = starts[k] + (int32_t) (n / (size_t) rows * (size_t) ((d >> k) % 3) / 2);
	fill(r, (size_t) rows * (size_t) (starts[r->c->rank + 1] - starts[r->c->rank]));
	r->c->ops->gather(r->c, NULL, r->all, r->mine, rows, starts, sizeof(float));
	for (int k = 0; k < r->c->size; k++)
	{
		int			w = starts[k + 1] - starts[k];

		for (int i = 0; i < rows; i++)
			for (int j = 0; j < w; j++)
				r->wrong |= r->all[(size_t) i * (size_t) starts[r->c->size] + (size_t) (starts[k] + j)] !=
					value(r->call, k, (size_t) i * (size_t) w + (size_t) j);
	}
}

static void
one_sum(Rank *r, size_t n, bool scatter)
{
	size_t		from = scatter ? n * (size_t) r->c->rank / (size_t) r->c->size : 0;
	size_t		to = scatter ? n * (size_t) (r->c->rank + 1) / (size_t) r->c->size : n;

	fill(r, n);
	if (scatter)
		r->c->ops->sum_scatter(r->c, NULL, r->all, r->mine, n);
	else
	{
		memcpy(r->all, r->mine, n * sizeof(float));
		r->c->ops->sum(r->c, NULL, r->all, n);
	}
	for (size_t i = from; i < to; i++)
		r->wrong |= r->all[i - from] != sum_of(r, i);
}

static void
one_broadcast(Rank *r, size_t n, uint32_t d)
{
	int			root = (int) (d % (uint32_t) r->c->size);

	fill(r, n);
	r->c->ops->broadcast(r->c, NULL, r->mine, n * sizeof(float), root);
	for (size_t i = 0; i < n; i++)
		r->wrong |= r->mine[i] != value(r->call, root, i);
}

/* Send to the next rank in a ring; even ranks send first. */
static void
one_send(Rank *r, size_t n)
{
	int			to = (r->c->rank + 1) % r->c->size;
	int			from = (r->c->rank + r->c->size - 1) % r->c->size;

	fill(r, n);
	if (r->c->rank != 0)
		r->c->ops->recv(r->c, NULL, r->all, n * sizeof(float), from);
	r->c->ops->send(r->c, NULL, r->mine, n * sizeof(float), to);
	if (r->c->rank == 0)
		r->c->ops->recv(r->c, NULL, r->all, n * sizeof(float), from);
	for (size_t i = 0; i < n; i++)
		r->wrong |= r->all[i] != value(r->call, from, i);
}

/* The CPUs as a device: its memory is the host's, but a read is only valid after a wait. */
static void
open_device(Dev *dev)
{
	static const KHost host = {.abi = KDEVICE_ABI,.pool_device = kpool_device,.pool_threads = kpool_nthreads};
	char		why[128];

	dev->ops = kdevice_of_cpus("host");
	dev->d = dev->ops->open(0, &host, &(KDevOpen) {.max_rows = 1,.max_seqs = 1,.max_blocks = 1,.max_out = 1},
							why, sizeof(why));
}

/* Make `calls` random calls; returns the process's exit status. */
static int
work(GroupMem *g, int calls, uint32_t seed, bool staged)
{
	Dev			dev;
	KComm	   *shm = comm_shm(g, 0, g->rank, g->world);
	Rank		r = {.c = shm,.mine = mem_alloc(MOST * sizeof(float)),
	.all = mem_alloc(GROUP_MOST * (size_t) MOST * sizeof(float))};
	int			status;

	if (staged)
	{
		open_device(&dev);
		r.c = comm_staged(shm, &dev, NULL);
	}
	for (int i = 0; i < calls && !r.wrong && !r.c->ops->failed(r.c); i++)
	{
		uint32_t	d = dice(&seed);
		/* most are small, a few take several slots */
		size_t		n = dice(&seed) % (d % 4096 == 0 ? MOST : d % 64 == 0 ? 4096 : 200);

		r.call = (uint32_t) i;
		switch (dice(&seed) % 6)
		{
			case 0:
			case 1:
				one_gather(&r, n, dice(&seed));
				break;
			case 2:
				one_sum(&r, n, false);
				break;
			case 3:
				one_sum(&r, n, true);
				break;
			case 4:
				one_broadcast(&r, n, dice(&seed));
				break;
			default:
				/* a send may still occupy a slot that a collective would use */
				r.c->ops->barrier(r.c);
				one_send(&r, n);
				r.c->ops->barrier(r.c);
		}
	}
	status = r.c->ops->failed(r.c) ? DEAD_STATUS : r.wrong ? WRONG_STATUS : OK_STATUS;
	if (staged)
	{
		r.c->ops->free(r.c);
		dev.ops->close(dev.d);
	}
	shm->ops->free(shm);
	mem_free(r.mine);
	mem_free(r.all);
	return status;
}

/* ---- ranks as processes and as threads ---- */

typedef struct Job
{
	int			fd;
	int			rank;
	int			world;
	int			calls;
	uint32_t	seed;
	bool		staged;
	int			status;
} Job;

static void *
run_job(void *arg)
{
	Job		   *j = arg;
	GroupMem	g;
	Err			e;

	j->status = WRONG_STATUS;
	if (!groupmem_open(&g, j->fd, j->rank, j->world, &e))
		return NULL;
	if (groupmem_assemble(&g, 30000))
		j->status = work(&g, j->calls, j->seed, j->staged);
	groupmem_close(&g);
	return NULL;
}

static pid_t
fork_job(const Job *j)
{
	pid_t		pid = fork();

	if (pid == 0)
	{
		Job			mine = *j;

		run_job(&mine);
		_exit(mine.status);
	}
	return pid;
}

static int
status_of(pid_t pid)
{
	int			status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
test_processes(int world, int calls, bool staged)
{
	int			fd = memfd_create("group", MFD_CLOEXEC);
	pid_t		pids[GROUP_MOST] = {0};

	for (int r = 0; r < world; r++)
		pids[r] = fork_job(&(Job) {.fd = fd,.rank = r,.world = world,.calls = calls,.seed = 99,
								   .staged = staged});
	for (int r = 0; r < world; r++)
	{
		int			status = status_of(pids[r]);

		CHECK(status == OK_STATUS, "rank %d of %d processes%s: %d", r, world, staged ? " with devices" : "",
			  status);
	}
	close(fd);
}

static void
test_threads(int world, int calls)
{
	int			fd = memfd_create("group", MFD_CLOEXEC);
	Job			jobs[GROUP_MOST];
	pthread_t	threads[GROUP_MOST];

	for (int r = 0; r < world; r++)
	{
		jobs[r] = (Job) {.fd = fd,.rank = r,.world = world,.calls = calls,.seed = 5};
		pthread_create(&threads[r], NULL, run_job, &jobs[r]);
	}
	for (int r = 0; r < world; r++)
	{
		pthread_join(threads[r], NULL);
		CHECK(jobs[r].status == OK_STATUS, "rank %d of %d threads: %d", r, world, jobs[r].status);
	}
	close(fd);
}

/* ---- the stream ---- */

#define MESSAGES 3000

static size_t
message_size(int i)
{
	return i % 500 == 7 ? 3 * (size_t) GROUP_STREAM / 2 : (size_t) (i * 37 % 5000);
}

static void *
run_reader(void *arg)
{
	Job		   *j = arg;
	GroupMem	g;
	Err			e;
	uint8_t    *buf = mem_alloc(2 * (size_t) GROUP_STREAM);

	j->status = groupmem_open(&g, j->fd, j->rank, j->world, &e) && groupmem_assemble(&g, 30000) ? OK_STATUS :
		WRONG_STATUS;
	for (int i = 0; i < MESSAGES && j->status == OK_STATUS; i++)
	{
		size_t		n = message_size(i);

		if (j->rank == 0)
			memset(buf, i & 255, n);
		if (!(j->rank == 0 ? groupmem_write(&g, buf, n) : groupmem_read(&g, buf, n)))
			j->status = DEAD_STATUS;
		for (size_t b = 0; b < n && j->status == OK_STATUS; b++)
			if (buf[b] != (i & 255))
				j->status = WRONG_STATUS;
	}
	/* rank 0 stays until all have read */
	if (j->status == OK_STATUS)
	{
		KComm	   *c = comm_shm(&g, 0, j->rank, j->world);

		c->ops->barrier(c);
		c->ops->free(c);
	}
	groupmem_close(&g);
	mem_free(buf);
	return NULL;
}

static void
test_stream(void)
{
	int			fd = memfd_create("group", MFD_CLOEXEC);
	Job			jobs[3];
	pthread_t	threads[3];

	for (int r = 0; r < 3; r++)
	{
		jobs[r] = (Job) {.fd = fd,.rank = r,.world = 3};
		pthread_create(&threads[r], NULL, run_reader, &jobs[r]);
	}
	for (int r = 0; r < 3; r++)
	{
		pthread_join(threads[r], NULL);
		CHECK(jobs[r].status == OK_STATUS, "rank %d of the stream: %d", r, jobs[r].status);
	}
	close(fd);
}

/* ---- a lost rank ---- */

/* Return the seconds from a rank's end to the end of the last other rank. */
static double
lose_one(int world, int victim)
{
	int			fd = memfd_create("group", MFD_CLOEXEC);
	pid_t		pids[GROUP_MOST] = {0};
	double		start;

	for (int r = 0; r < world; r++)
		pids[r] = fork_job(&(Job) {.fd = fd,.rank = r,.world = world,.calls = INT32_MAX,.seed = 3});
	usleep(100000);
	start = now();
	kill(pids[victim], SIGKILL);
	for (int r = 0; r < world; r++)
	{
		int			status = status_of(pids[r]);

		CHECK(status == (r == victim ? -1 : DEAD_STATUS), "rank %d, when %d was killed: %d", r, victim,
			  status);
	}
	close(fd);
	return now() - start;
}

static void
test_killed(void)
{
	double		best = 10;

	/* on a busy machine all may be late, so try again */
	for (int i = 0; i < 5; i++)
	{
		double		took = lose_one(2 + i % 3, i % 2);

		best = took < best ? took : best;
	}
	CHECK(best < 0.1, "noticed after %.0f ms at best", best * 1000);
}

/* A rank that is missing from the start; one that joins twice; one with invalid data. */
static void
test_opening(void)
{
	Err			e;
	int			fd = memfd_create("group", MFD_CLOEXEC);
	GroupMem	a,
				b;

	CHECK(groupmem_open(&a, fd, 0, 2, &e), "%s", e.msg);
	CHECK(!groupmem_assemble(&a, 100), "rank 1 isn't there");
	CHECK(!groupmem_open(&b, fd, 0, 2, &e) && strcmp(e.msg, "rank 0 of the group already exists") == 0,
		  "%s", e.msg);
	CHECK(groupmem_open(&b, fd, 1, 2, &e) && groupmem_assemble(&a, 100) && !groupmem_dead(&a),
		  "both are there");
	groupmem_close(&b);
	CHECK(!groupmem_wait(&a, &groupmem_room(&a, 0)->round.v, 0) && groupmem_missed(&a) == 1, "rank 1 left");
	groupmem_close(&a);
	CHECK(!groupmem_open(&a, fd, 2, 2, &e) && strstr(e.msg, "rank 2 of 2 is out of range") != NULL, "%s",
		  e.msg);
	CHECK(!groupmem_open(&a, fd, 0, GROUP_MOST + 1, &e), "too many");
	close(fd);
}

/* A rank whose heartbeat has stopped, for a short timeout; and one that never had a heartbeat. */
static void
test_still(void)
{
	Err			e;
	int			fd = memfd_create("group", MFD_CLOEXEC);
	GroupMem	a,
				b,
				c;
	double		start;

	CHECK(groupmem_open(&a, fd, 0, 3, &e) && groupmem_open(&b, fd, 1, 3, &e) &&
		  groupmem_open(&c, fd, 2, 3, &e), "%s", e.msg);
	groupmem_heartbeat(&b);
	usleep(30000);
	CHECK(groupmem_lives(&a), "without a patience nobody is missed");
	groupmem_set_timeout(&a, 1);
	start = now();
	while (now() - start < 3 * GROUP_BEAT_MS / 1000.0)
	{
		groupmem_heartbeat(&b);
		usleep(20000);
		CHECK(groupmem_lives(&a), "who beats is there");
	}
	start = now();
	CHECK(!groupmem_wait(&a, &groupmem_room(&a, 0)->round.v, 0) && groupmem_missed(&a) == 1,
		  "who stands still is missed");
	CHECK(now() - start > 3 * GROUP_BEAT_MS / 1000.0, "not at once: %.1f s", now() - start);
	groupmem_close(&a);
	groupmem_close(&b);
	groupmem_close(&c);
	close(fd);
}

static int
open_files(void)
{
	DIR		   *d = opendir("/proc/self/fd");
	int			n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
test_leaks(void)
{
	int			before = open_files();
	Err			e;

	for (int i = 0; i < 100; i++)
	{
		int			fd = memfd_create("group", MFD_CLOEXEC);
		GroupMem	a;
		GroupMem	again;

		CHECK(groupmem_open(&a, fd, 0, 4, &e) && !groupmem_open(&again, fd, 0, 4, &e), "%s", e.msg);
		groupmem_close(&a);
		close(fd);
	}
	CHECK(open_files() == before, "%d files before, %d now", before, open_files());
}

int
main(void)
{
#ifdef __SANITIZE_THREAD__
	int			calls = 2000;
#else
	int			calls = 30000;
#endif

	RUN(test_opening());
	RUN(test_still());
	RUN(test_leaks());
	RUN(test_processes(2, calls, false));
	RUN(test_processes(4, calls, false));
	RUN(test_processes(3, calls, false));
	RUN(test_processes(3, calls / 4, true));
	RUN(test_threads(3, calls / 4));
	RUN(test_stream());
	RUN(test_killed());
	return check_done("test_comm");
}
