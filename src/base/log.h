/*
 * log.h
 *	  The engine's log: lines on stderr which the supervisor passes to the
 *	  server log.  A line begins with its level letter and ": ":
 *	  D debug, I log, W warning, E error (log level), P panic (engine exits).
 *	  Never a prompt or an answer in a log line.
 */
#ifndef VLLM_BASE_LOG_H
#define VLLM_BASE_LOG_H

/* one write(2) per line, so that threads don't mix */
void		log_line(char level, const char *fmt,...) __attribute__((format(printf, 2, 3)));

#endif
