/*
 * crash.h
 *	  A crash leaves a trace in the log: signal and return addresses.
 */
#ifndef VLLM_BASE_CRASH_H
#define VLLM_BASE_CRASH_H

/*
 * On SIGSEGV, SIGFPE, SIGILL and SIGABRT write "P: crash ..." lines with a
 * backtrace to stderr, then die of the signal.  Addresses are those of the
 * program file: `addr2line -fe vllm_pg_engine ADDRESS` names the line.
 */
void		crash_install(void);

#endif
