/*
 * guc_remote.c
 *	  The settings of the remote program: vllm.allowed_hosts, vllm.remote_*.
 *
 * All of them can be changed by a reload of the configuration: the supervisor then sends them to the
 * program, and starts another one if its path has changed (src/pg/supervisor/remote_process.c).
 * docs/user/remote-models.md lists them; a lint rule compares.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/guc.h"

#include "pg/vllm_pg.h"
#include "ipc/control_protocol.h"
#include "ipc/host_allowlist.h"

char	   *vllm_allowed_hosts = "";
char	   *vllm_remote_path = "";
static char *remote_ca_file;
static int	remote_max_connections;

/* The values become lines on the control socket; allowed_hosts has the longest name. */
#define MAX_LINE_VALUE	(CONTROL_LINE - (int) strlen(CONTROL_CONFIG " allowed_hosts=\n") - 1)

static bool
check_line(char **newval, void **extra, GucSource source)
{
	if ((int) strlen(*newval) > MAX_LINE_VALUE)
	{
		GUC_check_errdetail("The value is too long (maximum is %d bytes).", MAX_LINE_VALUE);
		return false;
	}
	for (const char *s = *newval; *s != '\0'; s++)
		if ((unsigned char) *s < ' ')
		{
			GUC_check_errdetail("The value must not contain control characters.");
			return false;
		}
	return true;
}

static bool
check_hosts(char **newval, void **extra, GucSource source)
{
	char		why[400];

	if (!check_line(newval, extra, source))
		return false;
	if (hosts_list_ok(*newval, why, sizeof(why)))
		return true;
	GUC_check_errdetail("%s.", why);
	GUC_check_errhint("Give [scheme://]host[:port] entries, separated by commas: a name, an address, *.name "
					  "for what is below it, or * for all.");
	return false;
}

static bool
check_file(char **newval, void **extra, GucSource source)
{
	if (!check_line(newval, extra, source))
		return false;
	if ((*newval)[0] == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("The path must be absolute, or empty.");
	return false;
}

void
vllm_guc_remote_init(void)
{
	DefineCustomStringVariable("vllm.allowed_hosts",
							   "Lists the hosts that remote models may be at; * means all, by https only; "
							   "empty means none.", NULL, &vllm_allowed_hosts, "", PGC_SIGHUP, 0, check_hosts,
							   NULL, NULL);
	DefineCustomStringVariable("vllm.remote_path",
							   "Sets the path of the program that calls endpoints; empty means "
							   "vllm_pg_remote beside the library.", NULL, &vllm_remote_path, "", PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY, check_file, NULL, NULL);
	DefineCustomStringVariable("vllm.remote_ca_file",
							   "Sets the path of the certificates of authorities that endpoints are checked "
							   "with; empty means the system's.", NULL, &remote_ca_file, "", PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY, check_file, NULL, NULL);
	DefineCustomIntVariable("vllm.remote_max_connections",
							"Limits the connections to endpoints that are open at once.", NULL,
							&remote_max_connections, 256, 1, 65536, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

char *
vllm_guc_remote_config(void)
{
	return psprintf("allowed_hosts=%s\nca_file=%s\nmax_connections=%d\nseccomp=%s\n", vllm_allowed_hosts,
					remote_ca_file, remote_max_connections, vllm_seccomp);
}
