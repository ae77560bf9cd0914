/*
 * log.c
 *	  The engine's stderr, line by line, into the server log.
 *
 * A line is "<level>: text" (src/base/log.h).  The engine's errors are log lines
 * here, never ERRORs: the supervisor must not end because its child complains.
 * More than LINES_PER_SECOND lines in a second are counted instead of written.
 */
#include "postgres.h"

#include <unistd.h>

#include "utils/timestamp.h"

#include "bgworker/spawn.h"

#define LINE_MAX_LEN	1024
#define LINES_PER_SECOND 50

static char line[LINE_MAX_LEN];
static int	line_len = 0;
static char last[256];
static TimestampTz second_start = 0;
static int	lines_in_second = 0;
static int	suppressed = 0;

static int
level_of(char c)
{
	switch (c)
	{
		case 'D':
			return DEBUG1;
		case 'W':
			return WARNING;
		default:
			return LOG;
	}
}

static void
emit(void)
{
	const char *text = line;
	char		level = 'I';
	TimestampTz now = GetCurrentTimestamp();

	line[line_len] = '\0';
	if (line_len >= 3 && line[1] == ':' && line[2] == ' ')
	{
		level = line[0];
		text += 3;
	}
	line_len = 0;
	if (level == 'E' || level == 'P')
		strlcpy(last, text, sizeof(last));
	if (TimestampDifferenceExceeds(second_start, now, 1000))
	{
		if (suppressed > 0)
			ereport(LOG, (errmsg("inference engine: %d more lines were not logged", suppressed)));
		second_start = now;
		lines_in_second = suppressed = 0;
	}
	if (++lines_in_second > LINES_PER_SECOND)
		suppressed++;
	else
		ereport(level_of(level), (errmsg("inference engine: %s", text)));
}

bool
englog_read(int fd)
{
	char		buf[4096];
	ssize_t		n = -1;

	/* bounded: who writes without end must not keep us from everything else */
	for (int turn = 0; turn < 16 && (n = read(fd, buf, sizeof(buf))) > 0; turn++)
		for (ssize_t i = 0; i < n; i++)
		{
			if (buf[i] == '\n')
				emit();
			else if (line_len < LINE_MAX_LEN - 1)
				line[line_len++] = buf[i] >= 0x20 && buf[i] < 0x7f ? buf[i] : '?';
		}
	return n != 0;
}

const char *
englog_last(void)
{
	return last;
}

void
englog_reset(void)
{
	line_len = 0;
	last[0] = '\0';
}
