/*
 * api_key_auth.c
 *	  Authentication of requests by API keys.
 *
 * `Authorization: Bearer KEY` (OpenAI) or `x-api-key: KEY` (Anthropic).  The key is hashed here, and
 * vllm.http_login() looks its hash up for each request: a revoked key is refused at once, and the key's
 * text does not reach the database server.  A request without a key, or with "EMPTY", which clients send
 * to servers without keys, gets the anonymous role, if there is one.
 *
 * Tests: tests/t/083_http.pl.
 */
#include "httpd/api_key_auth.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/key_guard.h"

/* Return the request's key; NULL: none was given. */
static const char *
request_key(const ClientRequest *q)
{
	const char *auth = head_value(q->head, "Authorization");
	const char *key = head_value(q->head, "x-api-key");

	if (auth != NULL && strncasecmp(auth, "Bearer ", 7) == 0)
		key = auth + 7 + strspn(auth + 7, " ");
	return key != NULL && key[0] != '\0' ? key : NULL;
}

/* If the address must wait before its next try, return 429 and set retry_after; else return 0. */
static int
check_guard(ClientRequest *q, const unsigned char *hash, DbError *e)
{
	q->retry_after = guard_blocked(clients_peer(conn_client(q->conn)), hash, clock_us());
	if (q->retry_after == 0)
		return 0;
	snprintf(e->message, sizeof(e->message), "this address has sent too many API keys that are not valid");
	return 429;
}

/* Report the result of the look-up to the guard. */
static void
report_to_guard(const ClientRequest *q, const unsigned char *hash)
{
	const Peer *from = clients_peer(conn_client(q->conn));
	char		address[64];

	if (q->role != NULL)
		guard_right(hash);
	else if (guard_wrong(from, hash, clock_us()))
	{
		peer_text(from, address, sizeof(address));
		log_line('W', "%s has sent %d API keys that are not valid within %d s, further ones are refused "
					  "meanwhile", address,
				 http_conf.wrong_keys, http_conf.wrong_key_window_s);
	}
}

/*
 * Return 0, or the HTTP status of the error.  Keys are looked up one after the other.  When a request's
 * turn has come it asks the guard again, so that an address has no more tries than it may have, however
 * many it sends at once.
 */
static int
look_up(ClientRequest *q, const unsigned char *hash, DbError *e)
{
	char		hex[2 + 2 * GUARD_HASH + 1] = "\\x";
	const char *params[1] = {hex};
	PGresult   *r = NULL;
	DbEnd		end;
	Db		   *db;

	for (int i = 0; i < GUARD_HASH; i++)
		snprintf(hex + 2 + 2 * i, 3, "%02x", hash[i]);
	if ((db = db_front_take(q->client, guard_known(hash) ? FRONT_FIRST : FRONT_KEY, e)) == NULL)
		return e->status;
	if (check_guard(q, hash, e) != 0)
	{
		db_front_give(db, true);
		return 429;
	}
	end = db_query(db, -1, "SELECT vllm.http_login($1::bytea)", 1, params, &r, e);
	if (end == DB_OK && !PQgetisnull(r, 0, 0))
		q->role = mem_strdup(PQgetvalue(r, 0, 0));
	PQclear(r);
	if (end == DB_OK)
		report_to_guard(q, hash);
	db_front_give(db, end == DB_OK);
	if (end == DB_OK)
		return 0;
	log_line('W', "could not look up an API key: %s", e->message);
	snprintf(e->message, sizeof(e->message), "could not look up the API key");
	return 503;
}

/*
 * Find the role of a key; store it in q->role if there is one.  Returns 0, or the HTTP status of the
 * error.
 */
static int
try_key(ClientRequest *q, const char *key, DbError *e)
{
	unsigned char hash[GUARD_HASH];
	int			status;

	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, key, strlen(key), hash) != 0)
	{
		snprintf(e->message, sizeof(e->message), "could not hash the API key");
		return 500;
	}
	status = check_guard(q, hash, e);
	if (status == 0)
		status = look_up(q, hash, e);
	if (status == 0 && q->role != NULL)
	{
		memcpy(&q->key, hash, sizeof(q->key));
		q->key |= 1;
	}
	return status;
}

int
auth_role(ClientRequest *q, char *message, size_t size)
{
	const char *key = request_key(q);
	DbError		e = {0};
	int			status = 0;

	if (http_conf.anonymous_role[0] != '\0' && (key == NULL || strcmp(key, "EMPTY") == 0))
	{
		q->role = mem_strdup(http_conf.anonymous_role);
		return 0;
	}
	if (key != NULL)
		status = try_key(q, key, &e);
	if (status != 0)
	{
		snprintf(message, size, "%s", e.message);
		return status;
	}
	if (q->role != NULL)
		return 0;
	snprintf(message, size, "%s", key != NULL ? "the API key is not valid" :
			 "no API key was given (Authorization: Bearer, or x-api-key)");
	return 401;
}
