/*
 * connection.h
 *	  A client's connection: one request after another.
 */
#ifndef VLLM_HTTPD_CONN_CONNECTION_H
#define VLLM_HTTPD_CONN_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "httpd/conn/client_shares.h"

typedef struct Conn Conn;

/*
 * Talk to a client in a thread of its own until it leaves; its place is given up there.  false: no thread can
 * be had.
 */
bool		conn_start(Client *client);

int			conn_fd(const Conn *c);
Client	   *conn_client(const Conn *c);

/* The answer to the request: headers, each with its line's end, and a body. */
void		conn_answer(Conn *c, int status, const Buf *headers, const char *body, size_t len);
/* An answer that comes in pieces; false: the client is gone. */
bool		conn_stream(Conn *c, int status, const Buf *headers);
bool		conn_piece(Conn *c, const char *data, size_t len);
/* The pieces have ended as they should. */
void		conn_stream_end(Conn *c);
/* Nothing can be said to the client any more: the connection ends. */
void		conn_drop(Conn *c);

#endif
