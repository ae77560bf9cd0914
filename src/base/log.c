/*
 * log.c
 *	  Log lines to stderr, one write(2) each.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void
log_line(char level, const char *fmt,...)
{
	char		line[1024];
	va_list		ap;
	int			n;

	line[0] = level;
	line[1] = ':';
	line[2] = ' ';
	va_start(ap, fmt);
	n = vsnprintf(line + 3, sizeof(line) - 4, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (n > (int) sizeof(line) - 5)
		n = (int) sizeof(line) - 5;
	for (int i = 0; i < n; i++)
		if (line[3 + i] == '\n' || line[3 + i] == '\r')
			line[3 + i] = ' ';
	line[3 + n] = '\n';
	if (write(STDERR_FILENO, line, (size_t) n + 4) < 0)
		return;					/* nowhere else to report it */
}
