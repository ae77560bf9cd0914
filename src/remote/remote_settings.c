/*
 * remote_settings.c
 *	  The settings of the remote program, assigned by name, one table row each.
 *
 * They come as arguments and as lines of the control socket.  A list of hosts that can't be parsed is
 * refused as a whole: half of one could allow too much.
 *
 * Tested by tests/unit/remote/test_remote_server.c.
 */
#include "remote/remote_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ipc/host_allowlist.h"

#define MAX_CONNECTIONS		65536
#define DEFAULT_CONNECTIONS 256

static void
replace(char **to, const char *value)
{
	mem_free(*to);
	*to = mem_strdup(value);
}

static bool
set_hosts(RSettings *s, const char *value, Err *e)
{
	char		why[256];

	if (!hosts_list_ok(value, why, sizeof(why)))
		return err_set(e, ERR_INVALID, "invalid value for setting \"allowed_hosts\": %s", why);
	replace(&s->allowed_hosts, value);
	return true;
}

static bool
set_ca_file(RSettings *s, const char *value, Err *e)
{
	(void) e;
	replace(&s->ca_file, value);
	return true;
}

static bool
set_connections(RSettings *s, const char *value, Err *e)
{
	char	   *end;
	long		v;

	errno = 0;
	v = strtol(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || v < 1 || v > MAX_CONNECTIONS)
		return err_set(e, ERR_INVALID, "invalid value \"%.100s\" for setting \"max_connections\": must be an "
									   "integer from 1 to %d",
					   value, MAX_CONNECTIONS);
	s->max_connections = (int) v;
	return true;
}

static bool
set_seccomp(RSettings *s, const char *value, Err *e)
{
	SeccompMode mode;

	if (!seccomp_parse_mode(value, &mode))
		return err_set(e, ERR_INVALID, "invalid value \"%.100s\" for setting \"seccomp\": must be on, off or "
									   "require", value);
	s->seccomp = mode;
	return true;
}

static const struct
{
	const char *name;
	bool		(*set) (RSettings *s, const char *value, Err *e);
}			rows[] = {
	{"allowed_hosts", set_hosts},
	{"ca_file", set_ca_file},
	{"max_connections", set_connections},
	{"seccomp", set_seccomp},
};

void
rsettings_init(RSettings *s)
{
	*s = (RSettings) {
		.allowed_hosts = mem_strdup(""),.ca_file = mem_strdup(""),.max_connections = DEFAULT_CONNECTIONS,
			.seccomp = SECCOMP_ON
	};
}

void
rsettings_free(RSettings *s)
{
	mem_free(s->allowed_hosts);
	mem_free(s->ca_file);
	memset(s, 0, sizeof(*s));
}

bool
rsettings_assign(RSettings *s, const char *assign, Err *e)
{
	const char *eq = strchr(assign, '=');

	if (eq == NULL)
		return err_set(e, ERR_INVALID, "malformed setting \"%.100s\"", assign);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == (size_t) (eq - assign) &&
			memcmp(rows[i].name, assign, (size_t) (eq - assign)) == 0)
			return rows[i].set(s, eq + 1, e);
	return err_set(e, ERR_INVALID, "unknown setting \"%.*s\"", eq - assign < 100 ? (int) (eq - assign) : 100,
				   assign);
}
