/*
 * main.c
 *	  vllm_pg_http: the HTTP server of vllm_pg.
 *
 *	vllm_pg_http --set name=value ...
 *
 * The program is a client of PostgreSQL and an HTTP server.  The supervisor starts it and keeps it
 * running (src/pg/supervisor/http_process.c).  One thread accepts clients, and each client has a thread
 * (connection.c); handler.c serves the requests.  SIGTERM: no new connections, DRAIN_MS for running
 * requests, then the rest is cancelled with an error.
 *
 * Exit status: 0 as requested; 1 out of memory and the like; 2 the settings can't be used (address in
 * use, bad certificate).
 *
 * Tests: tests/t/083_http.pl.
 */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/conn/client_shares.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/connection.h"
#include "httpd/conn/key_guard.h"
#include "httpd/conn/tls_socket.h"
#include "httpd/handler.h"
#include "httpd/httpd_syscalls.h"

#define EXIT_SETTINGS	2		/* the same as in src/pg/supervisor/http_process.c */
#define MAX_LISTENERS	8		/* addresses */
#define FILES_OF_OURS	64		/* open files besides those of clients and database connections */
#define BACKLOG			511
#define DRAIN_MS		10000
#define CUT_MS			2000	/* time for cancelled requests to send their errors */
#define BIND_MS			2000	/* time for the previous process to close its sockets */
#define SOCKET_BUFFER	(256 * 1024)	/* bytes that the kernel buffers for a client in each direction */
/* size from which malloc maps memory separately, whatever was freed before */
#define OWN_MAP			(128 * 1024)
#define FILE_MAX		(1 << 20)	/* bytes of a certificate or key */

static int	listeners[MAX_LISTENERS];
static int	n_listeners;
static int	wake[2];			/* closing it ends the acceptor */
static pthread_t acceptor;

static void __attribute__((noreturn))
give_up(const char *what, const char *why)
{
	log_line('E', "%s: %s", what, why);
	exit(EXIT_SETTINGS);
}

/* Read a file of PEM text; free it with forget_pem().  Returns NULL if the name is "". */
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

static void
forget_pem(char *text)
{
	if (text != NULL)
		gnutls_memset(text, 0, strlen(text));
	mem_free(text);
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

/* Open a listening socket.  Returns -1 if this machine has no such address. */
static int
listen_on(const struct addrinfo *a)
{
	int			on = 1;
	int			size = SOCKET_BUFFER;
	int			fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	char		what[64];

	snprintf(what, sizeof(what), "could not listen on port %d", http_conf.port);
	if (fd < 0)
		return -1;
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/*
	 * Clients' sockets inherit these.  Without them a client that does not read would take some MB of
	 * kernel memory.
	 */
	(void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (a->ai_family == AF_INET6)
		(void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind_to(fd, a) && listen(fd, BACKLOG) == 0)
		return fd;
	if (errno != EADDRNOTAVAIL)
		give_up(what, strerror(errno));
	close(fd);
	return -1;
}

/* Was the address earlier in the list?  The hosts file may have a name twice. */
static bool
is_repeated(const struct addrinfo *list, const struct addrinfo *a)
{
	for (; list != a; list = list->ai_next)
		if (list->ai_addrlen == a->ai_addrlen && memcmp(list->ai_addr, a->ai_addr, a->ai_addrlen) == 0)
			return true;
	return false;
}

/* ---- clients ---- */

/* Refuse a client for which there is no place.  The response is sent only if that takes no time. */
static void
refuse_connection(int fd)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: "
							   "1\r\nContent-Length: 0\r\n\r\n";

	if (http_conf.ssl_cert_file[0] == '\0')
		(void) send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void
accept_one(int listener)
{
	struct sockaddr_storage from = {0};
	socklen_t	len = sizeof(from);
	int			fd = accept4(listener, (struct sockaddr *) &from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int			on = 1;
	Peer		peer;
	Client	   *client;

	if (fd < 0)
	{
		/* no file descriptor is left: try again when other clients have left */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			usleep(10000);
		return;
	}
	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	peer = peer_of(&from);
	client = clients_enter(fd, &peer);
	if (client == NULL)
		refuse_connection(fd);
	else if (!conn_start(client))
		clients_leave(client);
}

static void *
accept_all(void *arg)
{
	struct pollfd p[MAX_LISTENERS + 1];

	(void) arg;
	for (int i = 0; i < n_listeners; i++)
		p[i] = (struct pollfd) {.fd = listeners[i],.events = POLLIN};
	p[n_listeners] = (struct pollfd) {.fd = wake[0],.events = POLLIN};
	for (;;)
	{
		if (poll(p, (nfds_t) n_listeners + 1, -1) < 0)
			continue;
		if (p[n_listeners].revents != 0)
			return NULL;
		for (int i = 0; i < n_listeners; i++)
			if (p[i].revents != 0)
				accept_one(listeners[i]);
	}
}

/*
 * Enter the sandbox before anything is read from clients.  Files have been read and addresses opened
 * before.
 */
static void
confine(void)
{
	SeccompRules rules = {http_syscalls, http_n_syscalls, false};
	SeccompMode mode;
	Err			e;

	if (!seccomp_parse_mode(http_conf.seccomp, &mode))
		give_up("vllm.seccomp", "unknown value");
	if (!seccomp_enter(&rules, mode, &e))
		give_up("vllm.seccomp", e.msg);
}

static void
start_all(void)
{
	char	   *cert = read_pem(http_conf.ssl_cert_file);
	char	   *key = read_pem(http_conf.ssl_key_file);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE};
	struct addrinfo *list;
	char		port[16];
	bool		paired = (cert == NULL) == (key == NULL);
	bool		usable = paired && net_init(cert, key);
	int			rc;

	forget_pem(cert);
	forget_pem(key);
	if (!paired)
		give_up("TLS", "it needs vllm.http_ssl_cert_file and vllm.http_ssl_key_file");
	if (!usable)
		give_up("could not start", "the certificate or its key can't be used");
	snprintf(port, sizeof(port), "%d", http_conf.port);
	rc = getaddrinfo(strcmp(http_conf.host, "*") == 0 ? NULL : http_conf.host, port, &hints, &list);
	if (rc != 0)
		give_up("vllm.http_host", gai_strerror(rc));
	for (const struct addrinfo *a = list; a != NULL && n_listeners < MAX_LISTENERS; a = a->ai_next)
	{
		int			fd = is_repeated(list, a) ? -1 : listen_on(a);

		if (fd >= 0)
			listeners[n_listeners++] = fd;
	}
	freeaddrinfo(list);
	if (n_listeners == 0)
		give_up("vllm.http_host", "this machine has no such address");
	confine();
	if (pipe2(wake, O_CLOEXEC) != 0 || pthread_create(&acceptor, NULL, accept_all, NULL) != 0)
		give_up("could not start", "no thread or pipe can be had");
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
	close(wake[1]);
	pthread_join(acceptor, NULL);
	for (int i = 0; i < n_listeners; i++)
		close(listeners[i]);
	wait_idle(DRAIN_MS);
	db_interrupt_all();
	wait_idle(CUT_MS);
	/* the remaining connections wait for a request, or do not read their response */
	clients_end_all();
	for (int ms = 0; ms < CUT_MS && clients_count() > 0; ms += 5)
		usleep(5000);
	/* threads that are left still use the pool */
	if (clients_count() == 0)
		db_close_all();
}

/*
 * Each client and each database connection needs a file descriptor: lower max_clients to what the limit
 * allows.
 */
static void
limit_files(void)
{
	struct rlimit files;
	rlim_t		others = (rlim_t) http_conf.max_connections + FILES_OF_OURS;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &files);
	/* evicted clients still have theirs: client_shares.c */
	others += CLIENTS_LEAVING;
	if (files.rlim_cur != RLIM_INFINITY && files.rlim_cur < others + (rlim_t) http_conf.max_clients)
	{
		http_conf.max_clients = files.rlim_cur > others + CLIENTS_LEAST ? (int) (files.rlim_cur - others) :
			CLIENTS_LEAST;
		log_line('W', "vllm.http_max_clients is %d, as this process may open no more files",
				 http_conf.max_clients);
	}
}

static uint64_t
chance(void)
{
	uint64_t	seed = 0;

	(void) gnutls_rnd(GNUTLS_RND_NONCE, &seed, sizeof(seed));
	return seed;
}

int
main(int argc, char **argv)
{
	sigset_t	wait_for;
	int			got;

	/* the process holds keys of many users */
	if (prctl(PR_SET_DUMPABLE, 0) != 0)
		log_line('W', "could not forbid memory dumps");
	/* so that the memory of a large body returns to the system when it is freed */
	(void) mallopt(M_MMAP_THRESHOLD, OWN_MAP);
	for (int i = 1; i < argc; i += 2)
		if (strcmp(argv[i], "--set") != 0 || i + 1 == argc || !conf_set(argv[i + 1]))
			give_up("bad argument", argv[i]);
	limit_files();
	signal(SIGPIPE, SIG_IGN);
	/* threads inherit the mask, so only the main thread receives the signals */
	sigemptyset(&wait_for);
	sigaddset(&wait_for, SIGTERM);
	sigaddset(&wait_for, SIGINT);
	pthread_sigmask(SIG_BLOCK, &wait_for, NULL);
	gnutls_global_init();
	guard_init(chance());
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
