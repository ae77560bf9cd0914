/*
 * pack.c
 *	  Packing weights against reading their file, for each format.
 *
 * A scratch file of random bytes replaces the tensors of a model.  For each format one matrix of it is
 * (a) read with read(2) in pieces of 128 kB, as `cat` does, (b) copied from a mapping to fresh memory,
 * (c) packed from a mapping to fresh memory, as loading a model does.  Mapping, page faults and freeing
 * memory are included; the file is in the page cache.  A result is the best of some rounds, in which the
 * three take turns.
 */
#include "probe.h"

#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

static const char usage[] =
"bench/pack [-i isa] [-t threads] [-T types] [-m MB] [-r rounds] [-c] [--json]\n"
"  -i: kernels by name (default: the best)\n"
"  -t: threads (default: all CPUs)\n"
"  -T: only these types, as in \"Q8_0,Q4_K\"\n"
"  -m: size of the scratch file (default 512)\n"
"  -r: rounds, of which the best counts (default 3)\n"
"  -c: CPU time instead of elapsed time\n";

#define COLUMNS 4864			/* inputs of a row, complete blocks of every format */
#define PIECE ((size_t) 128 << 10)
#define STRIP 64

typedef struct Job
{
	const Kernels *k;
	KMat		m;
	KTensor		t;
	size_t		bytes;			/* in the file */
	int			fd;
	uint8_t    *to;
	uint8_t    *pieces;			/* [threads][PIECE] */
} Job;

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

/* Allocate fresh memory, aligned for huge pages. */
static uint8_t *
fresh(size_t n, uint8_t **base, size_t *size)
{
	size_t		huge = (size_t) 2 << 20;

	*size = (n + 2 * huge) & ~(huge - 1);
	*base = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*base == MAP_FAILED)
		die("mmap");
	madvise(*base, *size, MADV_HUGEPAGE);
	return *base + (huge - ((uintptr_t) *base & (huge - 1)));
}

static void
read_piece(void *arg, int chunk, int ith)
{
	Job		   *j = arg;
	size_t		at = (size_t) chunk * PIECE;
	size_t		n = j->bytes - at < PIECE ? j->bytes - at : PIECE;

	if (pread(j->fd, j->pieces + (size_t) ith * PIECE, n, (off_t) at) != (ssize_t) n)
		die("read");
}

static void
copy_piece(void *arg, int chunk, int ith)
{
	Job		   *j = arg;
	size_t		at = (size_t) chunk * PIECE;

	(void) ith;
	memcpy(j->to + at, (const uint8_t *) j->t.data + at, j->bytes - at < PIECE ? j->bytes - at : PIECE);
}

static void
pack_strip(void *arg, int chunk, int ith)
{
	Job		   *j = arg;

	(void) ith;
	j->k->mat_pack(&j->m, &j->t, chunk * STRIP, k_min((chunk + 1) * STRIP, j->m.n));
}

static double
time_read(KPool *pool, Job *j)
{
	double		t = now();

	kpool_run(pool, read_piece, j, (int) ((j->bytes + PIECE - 1) / PIECE));
	return now() - t;
}

/* Map the file, pack or copy, unmap the file; the memory is freed afterwards. */
static double
time_pack(KPool *pool, Job *j, bool pack)
{
	uint8_t    *base;
	size_t		size;
	double		t = now();
	void	   *map = mmap(NULL, j->bytes, PROT_READ, MAP_PRIVATE, j->fd, 0);

	if (map == MAP_FAILED)
		die("mmap");
	j->t.data = map;
	j->m.data = j->to = fresh(pack ? j->m.nbytes : j->bytes, &base, &size);
	if (pack)
		kpool_run(pool, pack_strip, j, (j->m.n + STRIP - 1) / STRIP);
	else
		kpool_run(pool, copy_piece, j, (int) ((j->bytes + PIECE - 1) / PIECE));
	munmap(map, j->bytes);
	t = now() - t;
	munmap(base, size);
	return t;
}

/* Create a file of random bytes, unlinked at once. */
static int
scratch_file(size_t size)
{
	const char *dir = getenv("TMPDIR");
	char		path[4096];
	uint32_t   *buf = malloc(PIECE);
	uint32_t	x = 1;
	int			fd;

	snprintf(path, sizeof(path), "%s/vllm_pg-pack.XXXXXX", dir != NULL ? dir : "/tmp");
	if ((fd = mkstemp(path)) < 0 || buf == NULL)
		die(path);
	unlink(path);
	for (size_t at = 0; at < size; at += PIECE)
	{
		for (size_t i = 0; i < PIECE / 4; i++)
			buf[i] = x = x * 1664525u + 1013904223u;
		if (write(fd, buf, PIECE) != (ssize_t) PIECE)
			die(path);
	}
	free(buf);
	return fd;
}

static void
one_format(KPool *pool, const Kernels *k, KType type, int fd, size_t size, int rounds, bool json, bool first)
{
	size_t		row = ktype_row_bytes(type, COLUMNS);
	int			n = (int) (size / row / STRIP * STRIP);
	Job			j = {.k = k, .fd = fd, .bytes = row * (size_t) n, .m = {.type = type, .n = n, .k = COLUMNS}};
	double		best[3] = {1e9, 1e9, 1e9};

	j.m.nbytes = k->mat_bytes(type, n, COLUMNS);
	j.t = (KTensor) {.name = "w", .type = type, .ndim = 2, .shape = {n, COLUMNS}, .nbytes = j.bytes};
	j.pieces = malloc((size_t) kpool_nthreads(pool) * PIECE);
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < 3; i++)
		{
			double		t = i == 0 ? time_read(pool, &j) : time_pack(pool, &j, i == 2);

			best[i] = t < best[i] ? t : best[i];
		}
	free(j.pieces);
	for (int i = 0; i < 3; i++)
		best[i] *= 1e9 / (double) j.bytes;
	if (json)
		printf("%s{\"type\": \"%s\", \"read_gbs\": %.2f, \"copy_gbs\": %.2f, \"pack_gbs\": %.2f, "
			   "\"pack_to_read\": %.2f, \"pack_to_copy\": %.2f, \"target\": 1.5}", first ? "" : ", ",
			   ktype_name(type), 1 / best[0], 1 / best[1], 1 / best[2], best[2] / best[0], best[2] / best[1]);
	else
		printf("%-7s %10.2f %10.2f %10.2f %14.2f %14.2f\n", ktype_name(type), 1 / best[0], 1 / best[1],
			   1 / best[2], best[2] / best[0], best[2] / best[1]);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 'j'},
										  {0}};
	const char *isa = NULL,
			   *types = NULL,
			   *why = NULL;
	int			threads = (int) sysconf(_SC_NPROCESSORS_ONLN),
				rounds = 3,
				c;
	size_t		size = (size_t) 512 << 20;
	bool		json = false,
				first = true;
	const Kernels *k;
	KPool	   *pool;
	int			fd;

	while ((c = getopt_long(argc, argv, "i:t:T:m:r:c", longs, NULL)) != -1)
		if (c == 'i')
			isa = optarg;
		else if (c == 't')
			threads = arg_count(optarg);
		else if (c == 'T')
			types = optarg;
		else if (c == 'm')
			size = (size_t) arg_count(optarg) << 20;
		else if (c == 'r')
			rounds = arg_count(optarg);
		else if (c == 'c')
			clock_id = CLOCK_PROCESS_CPUTIME_ID;
		else if (c == 'j')
			json = true;
		else
			return usage_exit(c, usage);
	if (threads < 1 || size == 0 || rounds < 1 || optind != argc)
		return usage_exit(-1, usage);
	if ((k = kernels_select(isa, &why)) == NULL || (pool = kpool_new(threads)) == NULL)
	{
		fprintf(stderr, "bench/pack: %s\n", why != NULL ? why : "no threads");
		return 1;
	}
	fd = scratch_file(size);
	if (json)
		printf("{\"kernels\": \"%s\", \"threads\": %d, \"formats\": [", k->name, threads);
	else
		printf("kernels %s, threads %d\nGB of file a second, and times as ratios (target: pack/read 1.5)\n"
			   "type          read       copy       pack      pack/read      pack/copy\n", k->name, threads);
	for (int t = 0; t < KT_COUNT; t++)
	{
		const char *name = ktype_name((KType) t);
		const char *at = types != NULL ? strstr(types, name) : name;
		char		next = at != NULL ? at[strlen(name)] : 'x';

		if (at == NULL || (next != ',' && next != '\0'))
			continue;
		one_format(pool, k, (KType) t, fd, size, rounds, json, first);
		first = false;
	}
	if (json)
		printf("]}\n");
	close(fd);
	kpool_free(pool);
	return 0;
}
