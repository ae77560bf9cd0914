/*
 * graph.cu
 *	  Recorded steps: all ops of a kind of step as one launch.
 *
 * The first step of a kind runs normally, so that all modules are loaded and every constant is on the
 * device; the second one is recorded, and later ones are replayed.  A graph refers to memory by address:
 * when memory is freed, all graphs are discarded.  The memory that the driver takes for a graph is not
 * counted in advance: if there is no room for it, fewer graphs are kept.
 */
#include "cuda/dev.h"

#include <stdlib.h>
#include <string.h>

#define GRAPHS	256				/* kinds of steps that are remembered */

typedef struct Graph
{
	KGraphKey	key;
	uint64_t	used;			/* value of CudaGraphs.clock at its last use */
	cudaGraphExec_t exec;		/* NULL: seen, but not recorded */
} Graph;

struct CudaGraphs
{
	Graph		g[GRAPHS];
	int			n;
	int			most;			/* maximum number that fits into memory */
	int			at;				/* index of the current step */
	uint64_t	clock;
	bool		stale;			/* set by any thread */
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

/* The driver has no memory for the current step's graph: free the others, and keep fewer from now on. */
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

/* return the index of key, if necessary a new one that replaces the least recently used; *old: it was
 * seen before */
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
	g->g[g->at].used = ++g->clock;
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
		/* also if the device is lost: the stream must leave capture mode */
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
