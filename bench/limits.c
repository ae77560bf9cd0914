/*
 * limits.c
 *	  This machine's limits, for bench/limits and the other benchmarks, which measure them before and
 *	  after their runs.
 */
#include "probe.h"

#include <getopt.h>
#include <unistd.h>

static const char usage[] =
"bench/limits [-t max_threads] [-b] [-q] [--json]\n"
"  -t: numbers of threads double up to this one (default: all CPUs)\n"
"  -b: only the read bandwidth of max_threads threads, GB/s\n"
"  -q: fewer passes over less memory\n";

static void
limits(int threads, const char *buf, bool json, bool first)
{
	static const char *const names[] = {"float", "bf16", "int8"};
	KPool	   *pool = kpool_new(threads);
	double		gb = read_bandwidth(pool, buf);

	if (json)
		printf("%s{\"threads\": %d, \"read_gb_s\": %.2f", first ? "" : ",\n ", threads, gb);
	else
		printf("%7d %10.1f", threads, gb);
	for (int u = UNIT_FLOAT; u <= UNIT_INT8; u++)
	{
		Peak		p = unit_peak(pool, u);

		if (json)
			printf(", \"%s_gflop_s\": %.1f, \"%s_by\": \"%s\"", names[u], p.gflops, names[u], p.how);
		else
			printf(" %8.0f", p.gflops);
		if (!json && u == UNIT_INT8)
			printf("   %s\n", p.how);
	}
	if (json)
		printf("}");
	kpool_free(pool);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
											{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	int			max_threads = (int) sysconf(_SC_NPROCESSORS_ONLN);
	bool		json = false,
				bandwidth_only = false;
	char	   *buf;
	int			c;

	while ((c = getopt_long(argc, argv, "t:qb", options, NULL)) != -1)
	{
		if (c == 'b')
			bandwidth_only = true;
		else if (c == 'j')
			json = true;
		else if (c == 't')
			max_threads = arg_count(optarg);
		else if (c == 'q')
		{
			passes = 1;
			read_bytes = READ / 4;
		}
		else
			return usage_exit(c, usage);
	}
	if (max_threads < 1 || optind != argc)
		return usage_exit(-1, usage);
	buf = big_alloc(read_bytes);
	memset(buf, 1, read_bytes);
	if (bandwidth_only)
		printf("%.2f\n", bandwidth_of(max_threads, buf));
	else
	{
		printf(json ? "[" : "threads  read GB/s  float     bf16    int8, GFLOP/s (GOP/s) by\n");
		for (int t = 1;; t = k_min(2 * t, max_threads))
		{
			limits(t, buf, json, t == 1);
			if (t == max_threads)
				break;
		}
		printf(json ? "]\n" : "");
	}
	free(buf);
	return 0;
}
