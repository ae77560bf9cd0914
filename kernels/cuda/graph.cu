/*
 * graph.cu
 *	  Steps that were recorded: the ops of a step of one kind as one launch.
 *
 * A kind of step runs as it is the first time, so that everything it needs is loaded and every constant
 * is on the device; it is recorded the second time, and replayed from then on.  What a graph
 * knows of memory it knows by address: when something is freed, all graphs are thrown away.
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
	int			at;				/* of the step at hand */
	uint64_t	turn;
	bool		stale;			/* any thread sets it */
};

CudaGraphs *
graphs_new(void)
{
	return (CudaGraphs *) calloc(1, sizeof(CudaGraphs));
}

static void
forget_all(CudaGraphs *g)
{
	for (int i = 0; i < g->n; i++)
		if (g->g[i].exec != NULL)
			cudaGraphExecDestroy(g->g[i].exec);
	g->n = 0;
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
	if (g->n < GRAPHS)
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
	if (!old || !dev_ok(d, cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"))
		return KRUN_EAGER;
	return KRUN_CAPTURE;
}

void
graphs_end(KDevice *d)
{
	Graph	   *g = &d->graphs->g[d->graphs->at];
	cudaGraph_t made = NULL;

	if (d->run == KRUN_CAPTURE)
	{
		/* also when the device is lost: the stream must come out of it */
		cudaError_t e = cudaStreamEndCapture(d->stream, &made);

		if (dev_ok(d, e, "cudaStreamEndCapture"))
			dev_ok(d, cudaGraphInstantiate(&g->exec, made, 0), "cudaGraphInstantiate");
		if (made != NULL)
			cudaGraphDestroy(made);
	}
	if (!d->lost)
		dev_ok(d, cudaGraphLaunch(g->exec, dev_stream(d)), "cudaGraphLaunch");
}
