/*
 * tls_socket.c
 *	  The I/O of a client's connection, with or without TLS.
 *
 * Sockets don't block: every wait is a poll() with a time limit, so that no client can hold its thread
 * for longer.
 *
 * Tests: tests/t/083_http.pl, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/tls_socket.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

static gnutls_certificate_credentials_t credentials;
static gnutls_priority_t priorities;

bool
net_init(const char *cert, const char *key)
{
	gnutls_datum_t c = {(unsigned char *) cert, cert != NULL ? (unsigned) strlen(cert) : 0};
	gnutls_datum_t k = {(unsigned char *) key, key != NULL ? (unsigned) strlen(key) : 0};

	return cert == NULL ||
		(gnutls_certificate_allocate_credentials(&credentials) == 0 &&
		 gnutls_certificate_set_x509_key_mem(credentials, &c, &k, GNUTLS_X509_FMT_PEM) == 0 &&
		 gnutls_priority_init(&priorities, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL) == 0);
}

/*
 * Wait until the socket is ready.  Returns false after the time limit, or if it can't wait; *why says
 * which.
 */
static bool
wait_ready(int fd, bool write, int64_t until, ssize_t *why)
{
	struct pollfd p = {.fd = fd,.events = write ? POLLOUT : POLLIN};

	for (;;)
	{
		int64_t		ms = (until - clock_us() + 999) / 1000;
		int			n;

		if (ms <= 0)
		{
			*why = NET_LATE;
			return false;
		}
		n = poll(&p, 1, ms > INT_MAX ? INT_MAX : (int) ms);
		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
		{
			*why = NET_BROKEN;
			return false;
		}
	}
}

/*
 * After a call of GnuTLS: wait for the I/O that it needs.  Returns false if the call failed, with the
 * reason in *why.
 */
static bool
tls_again(const Net *n, ssize_t rc, int64_t until, ssize_t *why)
{
	*why = NET_BROKEN;
	if (rc == GNUTLS_E_INTERRUPTED)
		return true;
	return rc == GNUTLS_E_AGAIN && wait_ready(n->fd, gnutls_record_get_direction(n->tls) == 1, until, why);
}

bool
net_start(Net *n, int fd, int64_t until)
{
	ssize_t		why;
	int			rc;

	*n = (Net) {.fd = fd};
	if (credentials == NULL)
		return true;
	if (gnutls_init(&n->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != 0)
	{
		n->tls = NULL;
		return false;
	}
	if (gnutls_priority_set(n->tls, priorities) != 0 ||
		gnutls_credentials_set(n->tls, GNUTLS_CRD_CERTIFICATE, credentials) != 0)
		return false;
	gnutls_transport_set_int(n->tls, fd);
	while ((rc = gnutls_handshake(n->tls)) != 0)
		/* GnuTLS also returns for a warning alert, which is not a failure */
		if (clock_us() >= until || (rc != GNUTLS_E_WARNING_ALERT_RECEIVED && !tls_again(n, rc, until, &why)))
			return false;
	return true;
}

ssize_t
net_read(Net *n, void *to, size_t size, int64_t until)
{
	ssize_t		why = NET_BROKEN;
	ssize_t		got;

	for (;;)
	{
		/* checked here, so that a client which always has one more byte is late, too */
		if (clock_us() >= until)
			return NET_LATE;
		if (n->tls != NULL)
		{
			if ((got = gnutls_record_recv(n->tls, to, size)) >= 0)
				return got;
			if (!tls_again(n, got, until, &why))
				return why;
		}
		else
		{
			if ((got = recv(n->fd, to, size, 0)) >= 0)
				return got;
			if (errno != EINTR && ((errno != EAGAIN && errno != EWOULDBLOCK) ||
								   !wait_ready(n->fd, false, until, &why)))
				return why;
		}
	}
}

bool
net_write(Net *n, const void *from, size_t size, int64_t until)
{
	const char *p = from;
	ssize_t		why = NET_BROKEN;
	ssize_t		done;

	while (size > 0)
	{
		done = n->tls != NULL ? gnutls_record_send(n->tls, p, size) : send(n->fd, p, size, MSG_NOSIGNAL);
		if (done > 0)
		{
			p += done;
			size -= (size_t) done;
		}
		else if (n->tls != NULL ? !tls_again(n, done, until, &why) :
				 errno != EINTR && ((errno != EAGAIN && errno != EWOULDBLOCK) ||
									!wait_ready(n->fd, true, until, &why)))
			return false;
	}
	return true;
}

void
net_finish(Net *n)
{
	/* try once, without waiting */
	if (n->tls != NULL)
		(void) gnutls_bye(n->tls, GNUTLS_SHUT_WR);
	(void) shutdown(n->fd, SHUT_WR);
}

void
net_linger(Net *n, size_t most, int64_t until)
{
	char		piece[4096];
	ssize_t		why;
	ssize_t		got;
	size_t		read = 0;

	while (read < most)
	{
		got = recv(n->fd, piece, sizeof(piece), 0);
		if (got > 0)
			read += (size_t) got;
		else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
				 !wait_ready(n->fd, false, until, &why))
			break;
	}
}

void
net_free(Net *n)
{
	if (n->tls != NULL)
		gnutls_deinit(n->tls);
	n->tls = NULL;
}
