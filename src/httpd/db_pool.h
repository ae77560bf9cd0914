/*
 * db_pool.h
 *	  Connections to the PostgreSQL server, and statements on them that end when the HTTP client leaves.
 */
#ifndef VLLM_HTTPD_DB_POOL_H
#define VLLM_HTTPD_DB_POOL_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a call ended. */
typedef enum DbEnd
{
	DB_OK,
	DB_ERROR,					/* the server reported an ERROR: see DbError; the connection is usable */
	DB_LOST,					/* no connection, or it broke: see DbError */
	DB_BUSY,					/* no connection became free in time: see DbError */
	DB_CLOSED					/* the HTTP client left, and the statement was cancelled */
} DbEnd;

typedef struct DbError
{
	int			status;			/* HTTP status */
	char		message[1024];	/* UTF-8, may be truncated */
} DbError;

/* A connection; used by one thread at a time. */
typedef struct Db
{
	PGconn	   *conn;
	uint64_t	key;			/* for the pool: the key that holds it */
	struct Db  *next;			/* for the pool: list of idle connections */
} Db;

/* Called before all other functions.  Returns false with errno on failure. */
bool		db_init(void);
/* From now on requests that wait for the server, or for a connection, fail because the program ends (503). */
void		db_interrupt_all(void);

/* How many connections of the pool one key may hold; all requests without a key count as one key. */
#define DB_KEY_SHARE(max)	((max) > 1 ? (max) * 3 / 4 : 1)
/*
 * Take a connection from the pool; wait for at most queue_timeout_ms.  key: the request's; 0 = none.
 * client: the HTTP client's socket, watched during the wait.  After DB_OK the caller must give *out back
 * with db_give().
 */
DbEnd		db_take(uint64_t key, int client, Db **out, DbError *e);
/*
 * A connection that has carried a statement or a result of this size or more is not kept, because libpq
 * keeps its buffer at that size as long as the connection lasts.
 */
#define DB_KEPT_STATEMENT	((size_t) 1024 * 1024)
/*
 * Give a connection back.  idle: no transaction is open, no statement runs, and the connection may be
 * kept; else it is closed.
 */
void		db_give(Db *db, bool idle);
/* Close the idle connections. */
void		db_close_all(void);

/* Classes of requests that wait for the front connection. */
typedef enum FrontClass
{
	FRONT_FIRST,				/* a key that was valid before */
	FRONT_KEY,					/* another key: the number of these that wait is limited */
	FRONT_OWN,					/* a query of the program itself */
	FRONT_CLASSES
} FrontClass;

/*
 * Take the front connection: the single one for short queries of the program itself.  Returns NULL if it
 * is not available within queue_timeout_ms, or 5 s if that is less.
 */
Db		   *db_front_take(int client, FrontClass class, DbError *e);
void		db_front_give(Db *db, bool idle);

/* BEGIN, and SET LOCAL ROLE.  trace: headers traceparent and tracestate; NULL = none. */
DbEnd		db_begin(Db *db, const char *role, const char *const trace[2], int client, DbError *e);
/* COMMIT or ROLLBACK.  Returns false if the connection can't be used again, or if COMMIT failed. */
bool		db_end(Db *db, bool commit);

/* Run a statement with text parameters.  After DB_OK, *out is its result, to be freed with PQclear(). */
DbEnd		db_query(Db *db, int client, const char *sql, int n, const char *const *params, PGresult **out,
					 DbError *e);

/*
 * Run a statement row by row: db_next() returns a result with one row; *out NULL: no more rows.  After
 * any result but DB_OK with a row the statement has ended.
 */
DbEnd		db_start(Db *db, const char *sql, int n, const char *const *params, DbError *e);
DbEnd		db_next(Db *db, int client, PGresult **out, DbError *e);
/* Has the next row been received, so that db_next() does not wait? */
bool		db_has_next(Db *db);
/* Cancel a started statement. */
void		db_cancel(Db *db);

#endif
