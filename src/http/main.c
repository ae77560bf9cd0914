/*
 * main.c
 *	  vllm_pg_http: the HTTP door of vllm_pg.
 *
 *		vllm_pg_http --set name=value ...
 *
 * A client of PostgreSQL that speaks HTTP to others, started and kept by the supervisor
 * (bgworker/door.c).  One thread accepts on each address, each client has a thread (libmicrohttpd); what a request does is in
 * serve.c.  SIGTERM: no new connections, DRAIN_MS for what is in hand, then the rest is cancelled and told so.
 *
 * Exit status: 0 asked to; 1 out of memory and the like; 2 the settings can't be used (address taken,
 * bad certificate).
 *
 * Tests: tests/t/083_http.pl.
 */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "http/conf.h"
#include "http/serve.h"

#define EXIT_SETTINGS	2		/* bgworker/door.c */
#define MAX_DAEMONS		8		/* addresses */
#define CLIENTS			1024	/* connections of each address; more are closed at once */
#define HEADER_MAX		(32 * 1024) /* bytes of a request's line and headers */
#define STACK_SIZE		(512 * 1024)
#define BACKLOG			511
#define DRAIN_MS		10000
#define CUT_MS			2000	/* for those that were cancelled to say so */
#define BIND_MS			2000	/* the door before this one may be about to close its sockets */
#define FILE_MAX		(1 << 20)	/* bytes of a certificate or key */

static struct MHD_Daemon *daemons[MAX_DAEMONS];
static int	n_daemons;

static void __attribute__((noreturn))
give_up(const char *what, const char *why)
{
	log_line('E', "%s: %s", what, why);
	exit(EXIT_SETTINGS);
}

/* A file of PEM text, for good; NULL if the name is "". */
static char *
read_pem(const char *path)
{
	Buf			b = {0};
	char		piece[4096];
	ssize_t		n;
	int			fd;

	if (path[0] == '\0')
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		give_up(path, strerror(errno));
	while ((n = read(fd, piece, sizeof(piece))) > 0 && b.len < FILE_MAX)
		buf_add(&b, piece, (size_t) n);
	if (n != 0)
		give_up(path, n < 0 ? strerror(errno) : "the file is too long");
	close(fd);
	return b.data;
}

static bool
bind_to(int fd, const struct addrinfo *a)
{
	for (int ms = 0; bind(fd, a->ai_addr, a->ai_addrlen) != 0; ms += 2)
	{
		if (errno != EADDRINUSE || ms >= BIND_MS)
			return false;
		usleep(2000);
	}
	return true;
}

/* A listening socket; -1: this machine has no such address. */
static int
listen_on(const struct addrinfo *a)
{
	int			on = 1;
	int			fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
	char		what[64];

	snprintf(what, sizeof(what), "could not listen on port %d", http_conf.port);
	if (fd < 0)
		return -1;
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ai_family == AF_INET6)
		(void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind_to(fd, a) && listen(fd, BACKLOG) == 0)
		return fd;
	if (errno != EADDRNOTAVAIL)
		give_up(what, strerror(errno));
	close(fd);
	return -1;
}

/* Was the address in the list before?  A name may be there twice in the hosts file. */
static bool
is_repeated(const struct addrinfo *list, const struct addrinfo *a)
{
	for (; list != a; list = list->ai_next)
		if (list->ai_addrlen == a->ai_addrlen && memcmp(list->ai_addr, a->ai_addr, a->ai_addrlen) == 0)
			return true;
	return false;
}

static struct MHD_Daemon *
start_daemon(int fd, char *cert, char *key)
{
	unsigned	flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
		(cert != NULL ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, key},
		{MHD_OPTION_END, 0, NULL}
	};

	return MHD_start_daemon(flags, 0, NULL, NULL, serve, NULL,
							MHD_OPTION_LISTEN_SOCKET, fd,
							MHD_OPTION_CONNECTION_LIMIT, (unsigned) CLIENTS,
							MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HEADER_MAX,
							MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) http_conf.idle_timeout_s,
							MHD_OPTION_THREAD_STACK_SIZE, (size_t) STACK_SIZE,
							MHD_OPTION_NOTIFY_COMPLETED, serve_completed, NULL,
							MHD_OPTION_STRICT_FOR_CLIENT, 1,
							MHD_OPTION_ARRAY, cert != NULL ? tls : tls + 2,
							MHD_OPTION_END);
}

static void
start_all(void)
{
	char	   *cert = read_pem(http_conf.ssl_cert_file);
	char	   *key = read_pem(http_conf.ssl_key_file);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE};
	struct addrinfo *list;
	char		port[16];
	int			rc;

	if ((cert == NULL) != (key == NULL))
		give_up("TLS", "it needs vllm.http_ssl_cert_file and vllm.http_ssl_key_file");
	if (cert != NULL && MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES)
		give_up("TLS", "libmicrohttpd is built without it");
	snprintf(port, sizeof(port), "%d", http_conf.port);
	rc = getaddrinfo(strcmp(http_conf.host, "*") == 0 ? NULL : http_conf.host, port, &hints, &list);
	if (rc != 0)
		give_up("vllm.http_host", gai_strerror(rc));
	for (const struct addrinfo *a = list; a != NULL && n_daemons < MAX_DAEMONS; a = a->ai_next)
	{
		int			fd = is_repeated(list, a) ? -1 : listen_on(a);

		if (fd < 0)
			continue;
		daemons[n_daemons] = start_daemon(fd, cert, key);
		if (daemons[n_daemons] == NULL)
			give_up("could not start", cert ? "the certificate or its key can't be used" : "libmicrohttpd refuses");
		n_daemons++;
	}
	freeaddrinfo(list);
	if (n_daemons == 0)
		give_up("vllm.http_host", "this machine has no such address");
}

static void
wait_idle(int limit_ms)
{
	for (int ms = 0; ms < limit_ms && serve_active() > 0; ms += 20)
		usleep(20000);
}

static void
stop_all(void)
{
	serve_last();
	for (int i = 0; i < n_daemons; i++)
	{
		int			fd = MHD_quiesce_daemon(daemons[i]);

		if (fd >= 0)
			close(fd);
	}
	wait_idle(DRAIN_MS);
	db_interrupt_all();
	wait_idle(CUT_MS);
	/* closes the clients' sockets, which their threads take for gone clients */
	for (int i = 0; i < n_daemons; i++)
		MHD_stop_daemon(daemons[i]);
	db_close_all();
}

int
main(int argc, char **argv)
{
	struct rlimit files;
	sigset_t	wait_for;
	int			got;

	for (int i = 1; i < argc; i += 2)
		if (strcmp(argv[i], "--set") != 0 || i + 1 == argc || !conf_set(argv[i + 1]))
			give_up("bad argument", argv[i]);
	/* a client and a database connection each need one */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
	{
		files.rlim_cur = files.rlim_max;
		(void) setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	/* threads inherit the mask: the main thread alone takes it */
	sigemptyset(&wait_for);
	sigaddset(&wait_for, SIGTERM);
	sigaddset(&wait_for, SIGINT);
	pthread_sigmask(SIG_BLOCK, &wait_for, NULL);
	gnutls_global_init();
	if (!db_init())
	{
		log_line('E', "could not create a pipe: %s", strerror(errno));
		return 1;
	}
	start_all();
	log_line('I', "listening on %s, port %d%s", http_conf.host, http_conf.port,
			 http_conf.ssl_cert_file[0] ? " (TLS)" : "");
	sigwait(&wait_for, &got);
	stop_all();
	return 0;
}
