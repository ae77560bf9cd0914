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
 * Serve a client in a new thread until it leaves; the thread then frees the Client.  Returns false if no
 * thread can be created.
 */
bool		conn_start(Client *client);

int			conn_fd(const Conn *c);
Client	   *conn_client(const Conn *c);

/* Send the response to the request: headers, each with its line end, and a body. */
void		conn_answer(Conn *c, int status, const Buf *headers, const char *body, size_t len);
/* Begin a response that is sent in pieces.  Returns false if the client is gone. */
bool		conn_stream(Conn *c, int status, const Buf *headers);
bool		conn_piece(Conn *c, const char *data, size_t len);
/* End the pieces of a complete response. */
void		conn_stream_end(Conn *c);
/* Close the connection without a further response. */
void		conn_drop(Conn *c);

#endif
