/*
 * stats_log.c
 *	  A log line with the engine's counters, every vllm.log_stats_interval.
 *
 * Like vLLM's: tokens per second since the last line, running and waiting requests, the use of the KV
 * caches and the share of prompt tokens found in them.  After two intervals without work the line is
 * logged only as DEBUG1.
 *
 * Tests: tests/t/095_observability.pl.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "pg/supervisor/stats_log.h"
#include "pg/catalog/engine_stats.h"
#include "pg/vllm_pg.h"

static TimestampTz last_at;		/* time of the last line, 0 = none */
static WireFigures last;
static int64 last_engine;		/* start of the engine that it was about: WireStats.started_us */
static int	idle;				/* intervals without work in a row */

long
statlog_timeout(void)
{
	if (vllm_log_stats_interval <= 0)
		return 60000;
	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
										   TimestampTzPlusMilliseconds(last_at,
																	   vllm_log_stats_interval * 1000L)) + 1;
}

static double
percent(int64 part, int64 whole)
{
	return whole > 0 ? 100.0 * part / whole : 0;
}

static void
log_line(const WireFigures *f, const WireFigures *before, double seconds)
{
	bool		works = f->prompt_tokens != before->prompt_tokens ||
		f->output_tokens != before->output_tokens || f->live > 0;

	idle = works ? 0 : idle + 1;
	ereport(idle > 2 ? DEBUG1 : LOG,
			(errmsg("engine: prompt throughput %.1f tokens/s, generation throughput %.1f tokens/s, running "
					"%lld, waiting %lld, KV cache usage %.1f%%, prefix cache hit rate %.1f%%",
					(f->prompt_tokens - before->prompt_tokens) / seconds,
					(f->output_tokens - before->output_tokens) / seconds, (long long) f->running,
					(long long) f->waiting, percent(f->kv_blocks_used, f->kv_blocks_total),
					percent(f->prefix_hits - before->prefix_hits,
							f->prefix_queries - before->prefix_queries))));
}

void
statlog_poll(void)
{
	static const WireFigures none = {0};
	TimestampTz now;
	WireStats  *st;

	if (vllm_log_stats_interval <= 0 || statlog_timeout() > 1)
		return;
	now = GetCurrentTimestamp();
	st = engine_stats_snapshot();
	if (st == NULL)
		idle = 0;
	else if (last_at != 0)
		log_line(&st->fig, st->started_us == last_engine ? &last : &none, Max((now - last_at) / 1e6, 1e-3));
	if (st != NULL)
	{
		last = st->fig;
		last_engine = st->started_us;
		pfree(st);
	}
	last_at = now;
}
