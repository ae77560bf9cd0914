/*
 * auth.c
 *	  Who asks: API keys.
 *
 * `Authorization: Bearer KEY` (OpenAI) or `x-api-key: KEY` (Anthropic).  The key is hashed here
 * and its hash looked up by vllm.http_login() for each request: a key that is revoked ends at once, and
 * its text does not reach the server.  No key, or "EMPTY" as clients are told to say to servers
 * without keys, is the anonymous role, if there is one.
 *
 * Tests: tests/t/083_http.pl.
 */
#include "http/auth.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/conf.h"
#include "http/guard.h"

/* NULL: none was given. */
static const char *
request_key(const Request *q)
{
	const char *auth = head_value(q->head, "Authorization");
	const char *key = head_value(q->head, "x-api-key");

	if (auth != NULL && strncasecmp(auth, "Bearer ", 7) == 0)
		key = auth + 7 + strspn(auth + 7, " ");
	return key != NULL && key[0] != '\0' ? key : NULL;
}

/* 0, or the status of what is wrong */
static int
look_up(const unsigned char *hash, char **role, DbError *e)
{
	char		hex[2 + 2 * GUARD_HASH + 1] = "\\x";
	const char *params[1] = {hex};
	PGresult   *r = NULL;
	DbEnd		end;
	Db		   *db;

	for (int i = 0; i < GUARD_HASH; i++)
		snprintf(hex + 2 + 2 * i, 3, "%02x", hash[i]);
	if ((db = db_front_take(e)) == NULL)
		return e->status;
	end = db_query(db, -1, "SELECT vllm.http_login($1::bytea)", 1, params, &r, e);
	if (end == DB_OK && !PQgetisnull(r, 0, 0))
		*role = mem_strdup(PQgetvalue(r, 0, 0));
	PQclear(r);
	db_front_give(db, end == DB_OK);
	if (end == DB_OK)
		return 0;
	log_line('W', "could not look up an API key: %s", e->message);
	snprintf(e->message, sizeof(e->message), "could not look up the API key");
	return 503;
}

/* The role of a key, in q->role if there is one: 0; or the status of what is wrong. */
static int
try_key(Request *q, const char *key, DbError *e)
{
	const Peer *from = clients_peer(conn_client(q->conn));
	unsigned char hash[GUARD_HASH];
	char		address[64];
	int			status;

	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, key, strlen(key), hash) != 0)
	{
		snprintf(e->message, sizeof(e->message), "could not hash the API key");
		return 500;
	}
	q->retry_after = guard_blocked(from, hash, clock_us());
	if (q->retry_after > 0)
	{
		snprintf(e->message, sizeof(e->message), "this address has sent too many API keys that are not valid");
		return 429;
	}
	status = look_up(hash, &q->role, e);
	if (status == 0 && q->role != NULL)
		guard_right(hash);
	else if (status == 0 && guard_wrong(from, hash, clock_us()))
	{
		peer_text(from, address, sizeof(address));
		log_line('W', "%s has sent %d API keys that are not valid within %d s, further ones are refused meanwhile", address,
				 http_conf.wrong_keys, http_conf.wrong_key_window_s);
	}
	return status;
}

int
auth_role(Request *q, bool *keyed, char *message, size_t size)
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
	*keyed = q->role != NULL;
	if (*keyed)
		return 0;
	snprintf(message, size, "%s", key != NULL ? "the API key is not valid" :
			 "no API key was given (Authorization: Bearer, or x-api-key)");
	return 401;
}
