/*
 * tls_socket.h
 *	  The bytes of a client's connection, with or without TLS.
 */
#ifndef VLLM_HTTPD_CONN_TLS_SOCKET_H
#define VLLM_HTTPD_CONN_TLS_SOCKET_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NET_END		0			/* the other side sends no more */
#define NET_BROKEN	(-1)
#define NET_LATE	(-2)

typedef struct Net
{
	int			fd;				/* does not block; not owned */
	gnutls_session_t tls;		/* NULL: none */
} Net;

/* Before all else: PEM texts; NULL: no TLS.  false: they can't be used. */
bool		net_init(const char *cert, const char *key);
/* All times are of clock_us().  false: no TLS came about. */
bool		net_start(Net *n, int fd, int64_t until);
/* At least a byte, NET_END, NET_BROKEN or NET_LATE. */
ssize_t		net_read(Net *n, void *to, size_t size, int64_t until);
/* All of it, or false. */
bool		net_write(Net *n, const void *from, size_t size, int64_t until);
/* Nothing more will be sent. */
void		net_finish(Net *n);
/* Read and forget, until the other side has closed: so it can read what it was told before. */
void		net_linger(Net *n, size_t most, int64_t until);
void		net_free(Net *n);

#endif
