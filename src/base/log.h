/*
 * log.h
 *	  The engine's log: lines on stderr which the supervisor passes to the |	  server log.  A line
 *	  begins with its level letter and ": ": |	  D debug, I log, W warning, E error (log level), P panic
 *	  (engine exits).  |	  A log line never contains a prompt or a model's output.
 */
#ifndef VLLM_BASE_LOG_H
#define VLLM_BASE_LOG_H

/* Write a line by one write(2), so that the lines of several threads do not mix. */
void		log_line(char level, const char *fmt,...) __attribute__((format(printf, 2, 3)));

#endif
