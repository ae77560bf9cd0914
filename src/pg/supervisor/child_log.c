/*
 * child_log.c
 *	  Passes a child's stderr (the engine's, the HTTP server's), line by line, to the server log.
 *
 * A line is "<level>: text" (src/base/log.h).  The engine's errors become log lines here, never
 * ERRORs: the supervisor must not end because its child reports an error.  If there are more than
 * LINES_PER_SECOND lines in a second, the rest is counted instead of written.  Warnings and errors
 * have a count of their own, so that many notes can't hide them.
 */
#include "postgres.h"

#include <unistd.h>

#include "utils/timestamp.h"

#include "pg/supervisor/spawn.h"

#define LINES_PER_SECOND 50

ChildLog	engine_log = {.who = "inference engine"};

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

/* Start new counts, for a new second or a new child. */
static void
recount(ChildLog *g, TimestampTz now)
{
	if (g->suppressed > 0)
		ereport(LOG, (errmsg("%s: %d more lines were not logged", g->who, g->suppressed)));
	g->second_start = now;
	g->notes_in_second = g->warnings_in_second = g->suppressed = 0;
}

static void
emit(ChildLog *g)
{
	const char *text = g->line;
	char		level = 'I';
	TimestampTz now = GetCurrentTimestamp();
	int		   *lines;

	g->line[g->line_len] = '\0';
	if (g->line_len >= 3 && g->line[1] == ':' && g->line[2] == ' ')
	{
		level = g->line[0];
		text += 3;
	}
	g->line_len = 0;
	if (level == 'E' || level == 'P')
		strlcpy(g->last, text, sizeof(g->last));
	if (TimestampDifferenceExceeds(g->second_start, now, 1000))
		recount(g, now);
	lines = level == 'W' || level == 'E' || level == 'P' ? &g->warnings_in_second : &g->notes_in_second;
	if (++*lines > LINES_PER_SECOND)
		g->suppressed++;
	else
		ereport(level_of(level), (errmsg("%s: %s", g->who, text)));
}

bool
childlog_read(ChildLog *g, int fd)
{
	char		buf[4096];
	ssize_t		n = -1;

	/* bounded, so that a child that writes without end can't block the supervisor */
	for (int round = 0; round < 16 && (n = read(fd, buf, sizeof(buf))) > 0; round++)
		for (ssize_t i = 0; i < n; i++)
		{
			if (buf[i] == '\n')
				emit(g);
			else if (g->line_len < CHILD_LINE - 1)
				g->line[g->line_len++] = buf[i] >= 0x20 && buf[i] < 0x7f ? buf[i] : '?';
		}
	return n != 0;
}

void
childlog_reset(ChildLog *g)
{
	g->line_len = 0;
	g->last[0] = '\0';
	recount(g, GetCurrentTimestamp());
}
