/*
 * stats_log.h
 *	  A line of the engine's counters in the log, every vllm.log_stats_interval.
 */
#ifndef VLLM_PG_SUPERVISOR_STATS_LOG_H
#define VLLM_PG_SUPERVISOR_STATS_LOG_H

/* Log the line if it is due; the supervisor's, at each turn. */
void		statlog_turn(void);
/* ms until it is due */
long		statlog_timeout(void);

#endif
