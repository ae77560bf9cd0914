/*
 * crash.c
 *	  Log the signal and a backtrace when the program crashes.
 *
 * The handler runs on a stack of its own (a stack overflow is a crash, too) and uses only write(2).
 * crash_install() calls backtrace() once, because its first call loads a library.  The handler writes no
 * data of requests.
 */
#include "base/crash.h"

#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define MAX_FRAMES 24

static uintptr_t program_start;	/* load address: subtracted, so that addresses match the program file */

extern const char __executable_start;	/* defined by the linker */

static size_t
put_str(char *to, const char *s)
{
	size_t		n = 0;

	while (s[n] != '\0')
	{
		to[n] = s[n];
		n++;
	}
	return n;
}

static size_t
put_hex(char *to, uintptr_t v)
{
	size_t		n = put_str(to, "0x");
	int			shift = (int) sizeof(v) * 8 - 4;

	while (shift > 0 && (v >> shift) == 0)
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		to[n++] = "0123456789abcdef"[(v >> shift) & 15];
	return n;
}

static void
handler(int sig)
{
	void	   *frames[MAX_FRAMES];
	int			n = backtrace(frames, MAX_FRAMES);
	char		line[MAX_FRAMES * 20 + 64];
	size_t		len = put_str(line, "P: crash by signal ");

	if (sig >= 10)
		line[len++] = (char) ('0' + sig / 10);
	line[len++] = (char) ('0' + sig % 10);
	len += put_str(line + len, ", backtrace:");
	for (int i = 0; i < n; i++)
	{
		line[len++] = ' ';
		len += put_hex(line + len, (uintptr_t) frames[i] - program_start);
	}
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		_exit(1);
	/* SA_RESETHAND has restored the default action, so this kills the process */
	raise(sig);
}

void
crash_install(void)
{
	static char stack[65536];
	static const int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT};
	stack_t		ss = {.ss_sp = stack,.ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_handler = handler,.sa_flags = SA_ONSTACK | SA_RESETHAND};
	void	   *frame;

#ifdef __SANITIZE_ADDRESS__
	return;						/* the sanitizer's own report has more details */
#endif
	program_start = (uintptr_t) &__executable_start;
	(void) backtrace(&frame, 1);
	sigaltstack(&ss, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
}
