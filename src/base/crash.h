/*
 * crash.h
 *	  Log the signal and a backtrace when the program crashes.
 */
#ifndef VLLM_BASE_CRASH_H
#define VLLM_BASE_CRASH_H

/*
 * Install handlers of SIGSEGV, SIGFPE, SIGILL and SIGABRT.  They write "P: crash ..." lines with a
 * backtrace to stderr, then let the signal kill the process.  Addresses are those of the program file:
 * `addr2line -fe vllm_pg_engine ADDRESS` prints the source line.
 */
void		crash_install(void);

#endif
