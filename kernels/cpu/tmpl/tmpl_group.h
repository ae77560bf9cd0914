/*
 * tmpl_group.h
 *	  Products with several matrices in one call: mixtures of experts, one matrix per head.
 *
 * Each group of rows is a product as planned by mm() (an MmJob), with a slice of the scratch, so its
 * bits are mm's.  But there is only one pool run for the activations of all groups and one for all
 * products: with eight experts for one row, the threads don't synchronize eight times.  Chunks are
 * assigned by cost, so that they take about the same time.
 *
 * Scratch: the jobs, two tables of the first part of each job, then the jobs' scratch.
 */
typedef struct MmGroups
{
	MmJob	   *jobs;			/* of groups that have rows */
	int			n;
	int32_t    *converts;		/* [n + 1] prefix sums of their activations' parts */
	int32_t    *chunks;			/* [n + 1] prefix sums of their chunks */
} MmGroups;

/* cost of reading and unpacking the weights, in rows */
#define GROUP_BASE_COST	3
/* from this many rows on mm_plan() uses only one method */
#define GROUP_FEW		16

#ifdef FS_MR
_Static_assert(FS_MIN_ROWS <= GROUP_FEW, "grouped products: a border of mm_scratch()");
#endif
_Static_assert(Q_MAX_MR < GROUP_FEW, "grouped products: a border of mm_scratch()");

/*
 * Return the largest share of a row in its group's scratch.  mm_scratch() is, for one method, an amount
 * per row plus a constant: the share is largest with few rows.
 */
static size_t
group_row_scratch(KType type, int k)
{
	size_t		most = 0;

	for (int r = 1; r <= GROUP_FEW; r++)
	{
		size_t		share = (mm_scratch(type, r, k) + (size_t) r - 1) / (size_t) r;

		most = share > most ? share : most;
	}
	return most;
}

static size_t
mm_grouped_scratch(KType type, int n_mats, int rows, int k)
{
	size_t		n = (size_t) k_min(n_mats, rows);

	return k_align64(n * sizeof(MmJob)) + 2 * k_align64((n + 1) * sizeof(int32_t)) +
		(size_t) rows * group_row_scratch(type, k) + n * 64;
}

/* return the job of part number i of all jobs */
static int
group_find(const int32_t *start, int n, int i)
{
	int			lo = 0,
				hi = n;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (start[mid] <= i)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void
group_convert(void *arg, int i, int ith)
{
	const MmGroups *g = arg;
	int			at = group_find(g->converts, g->n, i);

	g->jobs[at].convert(&g->jobs[at], i - g->converts[at], ith);
}

static void
group_chunk(void *arg, int i, int ith)
{
	const MmGroups *g = arg;
	int			at = group_find(g->chunks, g->n, i);

	g->jobs[at].run(&g->jobs[at], i - g->chunks[at], ith);
}

/* set the chunks of every job: its share of as many as one product has */
static void
group_cut(MmGroups *g, KPool *pool)
{
	int64_t		cost = 0;

	for (int i = 0; i < g->n; i++)
		cost += g->jobs[i].rows + GROUP_BASE_COST;
	g->converts[0] = g->chunks[0] = 0;
	for (int i = 0; i < g->n; i++)
	{
		MmJob	   *j = &g->jobs[i];
		int64_t		all = mm_chunks(pool, j->w->type, j->rows);
		int64_t		chunks = (all * (j->rows + GROUP_BASE_COST) + cost / 2) / (cost * j->npasses);

		j->nchunks = k_max(1, k_min(j->units, (int) chunks));
		g->converts[i + 1] = g->converts[i] + j->nconverts;
		g->chunks[i + 1] = g->chunks[i] + j->npasses * j->nchunks;
	}
}

static void
mm_grouped(KPool *pool, const KMat *w, int n_mats, const int32_t *row_start, const float *x, int ldx,
		   float *y, int ldy, const float *const *bias, void *ws)
{
	size_t		rows = (size_t) (row_start[n_mats] - row_start[0]),
				n = rows < (size_t) n_mats ? rows : (size_t) n_mats;
	MmGroups	g = {.jobs = ws};
	char	   *at;

	g.converts = (int32_t *) (void *) ((char *) ws + k_align64(n * sizeof(MmJob)));
	g.chunks = (int32_t *) (void *) ((char *) g.converts + k_align64((n + 1) * sizeof(int32_t)));
	at = (char *) g.chunks + k_align64((n + 1) * sizeof(int32_t));
	for (int i = 0; i < n_mats; i++)
	{
		int			group_rows = row_start[i + 1] - row_start[i];

		if (group_rows == 0)
			continue;
		g.jobs[g.n++] = mm_plan(&w[i], x + (size_t) row_start[i] * ldx, group_rows, ldx,
								y + (size_t) row_start[i] * ldy, ldy, bias ? bias[i] : NULL, at);
		at += k_align64(mm_scratch(w[i].type, group_rows, w[i].k));
	}
	if (g.n == 0)
		return;
	group_cut(&g, pool);
	run_rows(pool, group_convert, &g, g.converts[g.n], rows * w[0].k);
	run_rows(pool, group_chunk, &g, g.chunks[g.n], mm_is_small(rows * w[0].k, w[0].n) ? 0 : SIZE_MAX);
}
