/*
 * graph.cu
 *	  Steps that were recorded: the ops of a step of one kind as one launch.
 *
 * A kind of step runs as it is the first time, so that everything it needs is loaded and every constant
 * is on the device; it is recorded the second time, and replayed from then on.  What a graph
 * knows of memory it knows by address: when something is freed, all graphs are thrown away.  What the driver
 * takes for one nobody has counted: where there is no room for it, fewer are kept.
 */
#include "cuda/dev.h"

#include <stdlib.h>
#include <string.h>

#define GRAPHS	256				/* kinds of steps that are remembered */

typedef struct Graph
{
	KGraphKey	key;
	uint64_t	used;			/* CudaGraphs.turn when it was */
	cudaGraphExec_t exec;		/* NULL: seen, not recorded */
} Graph;

struct CudaGraphs
{
	Graph		g[GRAPHS];
	int			n;
	int			most;			/* that have room */
	int			at;				/* of the step at hand */
	uint64_t	turn;
	bool		stale;			/* any thread sets it */
};

CudaGraphs *
graphs_new(void)
{
	CudaGraphs *g = (CudaGraphs *) calloc(1, sizeof(CudaGraphs));

	if (g != NULL)
		g->most = GRAPHS;
	return g;
}

static void
forget_all(CudaGraphs *g)
{
	for (int i = 0; i < g->n; i++)
		if (g->g[i].exec != NULL)
			cudaGraphExecDestroy(g->g[i].exec);
	g->n = 0;
	g->most = GRAPHS;
}

/*
 * The driver has no memory for that of the step at hand: the others give back theirs, and so many aren't kept
 * again.
 */
static Graph *
make_room(CudaGraphs *g)
{
	int			had = 0;

	cudaGetLastError();
	for (int i = 0; i < g->n; i++)
	{
		if (i == g->at || g->g[i].exec == NULL)
			continue;
		cudaGraphExecDestroy(g->g[i].exec);
		had++;
	}
	g->g[0] = g->g[g->at];
	g->at = 0;
	g->n = 1;
	g->most = had > 1 ? had : 1;
	return &g->g[0];
}

void
graphs_free(CudaGraphs *g)
{
	if (g != NULL)
		forget_all(g);
	free(g);
}

void
graphs_stale(CudaGraphs *g)
{
	__atomic_store_n(&g->stale, true, __ATOMIC_RELEASE);
}

/* the place of key, new if need be instead of the one that was used longest ago; *old: it was seen before */
static int
find(CudaGraphs *g, const KGraphKey *key, bool *old)
{
	int			at = 0;

	for (int i = 0; i < g->n; i++)
	{
		if (memcmp(&g->g[i].key, key, sizeof(*key)) == 0)
		{
			*old = true;
			return i;
		}
		if (g->g[i].used < g->g[at].used)
			at = i;
	}
	*old = false;
	if (g->n < g->most)
		at = g->n++;
	else if (g->g[at].exec != NULL)
		cudaGraphExecDestroy(g->g[at].exec);
	memset(&g->g[at], 0, sizeof(g->g[at]));
	g->g[at].key = *key;
	return at;
}

KRun
graphs_begin(KDevice *d, const KGraphKey *key)
{
	CudaGraphs *g = d->graphs;
	bool		old;

	if (__atomic_exchange_n(&g->stale, false, __ATOMIC_ACQ_REL))
		forget_all(g);
	g->at = find(g, key, &old);
	g->g[g->at].used = ++g->turn;
	if (g->g[g->at].exec != NULL)
		return KRUN_REPLAYED;
	if (!old || !dev_ok(d, cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal),
						"cudaStreamBeginCapture"))
		return KRUN_EAGER;
	return KRUN_CAPTURE;
}

void
graphs_end(KDevice *d)
{
	CudaGraphs *all = d->graphs;
	Graph	   *g = &all->g[all->at];
	cudaGraph_t made = NULL;
	cudaError_t e;

	if (d->run == KRUN_CAPTURE)
	{
		/* also when the device is lost: the stream must come out of it */
		e = cudaStreamEndCapture(d->stream, &made);
		if (dev_ok(d, e, "cudaStreamEndCapture"))
		{
			e = cudaGraphInstantiate(&g->exec, made, 0);
			if (e == cudaErrorMemoryAllocation)
			{
				g = make_room(all);
				g->exec = NULL;
				e = cudaGraphInstantiate(&g->exec, made, 0);
			}
			dev_ok(d, e, "cudaGraphInstantiate");
		}
		if (made != NULL)
			cudaGraphDestroy(made);
	}
	if (d->lost)
		return;
	e = cudaGraphLaunch(g->exec, dev_stream(d));
	if (e == cudaErrorMemoryAllocation)
		e = cudaGraphLaunch(make_room(all)->exec, d->stream);
	dev_ok(d, e, "cudaGraphLaunch");
}
