/*
 * stats_log.h
 *	  A log line with the engine's counters, every vllm.log_stats_interval.
 */
#ifndef VLLM_PG_SUPERVISOR_STATS_LOG_H
#define VLLM_PG_SUPERVISOR_STATS_LOG_H

/* Log the line if it is due; the supervisor calls this in each iteration. */
void		statlog_poll(void);
/* ms until the next line is due */
long		statlog_timeout(void);

#endif
