/*
 * tls_socket.h
 *	  The I/O of a client's connection, with or without TLS.
 */
#ifndef VLLM_HTTPD_CONN_TLS_SOCKET_H
#define VLLM_HTTPD_CONN_TLS_SOCKET_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NET_END		0			/* the client sends no more */
#define NET_BROKEN	(-1)
#define NET_LATE	(-2)

typedef struct Net
{
	int			fd;				/* non-blocking; not owned */
	gnutls_session_t tls;		/* NULL: none */
} Net;

/* Called before all other functions.  PEM texts; NULL: no TLS.  Returns false if they can't be used. */
bool		net_init(const char *cert, const char *key);
/* Begin, with the TLS handshake if there is TLS.  Returns false if it fails.  All times are of clock_us(). */
bool		net_start(Net *n, int fd, int64_t until);
/* Read at least one byte.  Returns its count, NET_END, NET_BROKEN or NET_LATE. */
ssize_t		net_read(Net *n, void *to, size_t size, int64_t until);
/* Write all bytes.  Returns false if that fails. */
bool		net_write(Net *n, const void *from, size_t size, int64_t until);
/* Tell the client that nothing more will be sent. */
void		net_finish(Net *n);
/* Read and drop bytes until the client has closed the connection, so that it can still read what was sent. */
void		net_linger(Net *n, size_t most, int64_t until);
void		net_free(Net *n);

#endif
