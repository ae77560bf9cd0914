/*
 * db_pool.h
 *	  Connections to the PostgreSQL server, and calls over them that end when the HTTP
 *	  client goes away.
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
	DB_ERROR,					/* an ERROR of the server: DbError; the connection lives */
	DB_LOST,					/* no connection, or it broke: DbError */
	DB_BUSY,					/* none became free in time: DbError */
	DB_GONE						/* the HTTP client left; the statement was cancelled */
} DbEnd;

typedef struct DbError
{
	int			status;			/* HTTP */
	char		message[1024];	/* UTF-8, may be cut */
} DbError;

/* A connection; of one thread at a time. */
typedef struct Db
{
	PGconn	   *conn;
	uint64_t	key;			/* of the pool: who has it in hand */
	struct Db  *next;			/* in the pool: idle ones */
} Db;

/* Before all else; false: errno. */
bool		db_init(void);
/* From now on requests that wait for the server, or for a connection, fail as the program ends (503). */
void		db_interrupt_all(void);

/* How many of the pool one key may have in hand; all requests without a key are like one. */
#define DB_KEY_SHARE(max)	((max) > 1 ? (max) * 3 / 4 : 1)
/*
 * A connection of the pool, waiting for at most queue_timeout_ms; key: the request's, 0 = none; client: the
 * HTTP client's socket, watched meanwhile.  On DB_OK *out must be given back by db_give().
 */
DbEnd		db_take(uint64_t key, int client, Db **out, DbError *e);
/*
 * A connection that has carried a statement or an answer of this size or more is not kept: libpq's buffer
 * has its size for as long as the connection lasts.
 */
#define DB_KEPT_STATEMENT	((size_t) 1024 * 1024)
/* idle: no transaction is open, no statement runs, and the connection is to be kept; else it is closed. */
void		db_give(Db *db, bool idle);
/* Close what is idle. */
void		db_close_all(void);

/* A request that waits for the front connection. */
typedef enum FrontClass
{
	FRONT_FIRST,				/* a key that was valid before */
	FRONT_KEY,					/* another key: no more than a number of these wait */
	FRONT_OWN,					/* a question of the server itself */
	FRONT_CLASSES
} FrontClass;

/*
 * The one connection for short queries of the program itself; NULL: none can be had within
 * queue_timeout_ms, or 5 s if that is less.
 */
Db		   *db_front_take(int client, FrontClass class, DbError *e);
void		db_front_give(Db *db, bool idle);

/* BEGIN, and become the role for the transaction; trace: headers traceparent and tracestate, NULL = none. */
DbEnd		db_begin(Db *db, const char *role, const char *const trace[2], int client, DbError *e);
/* COMMIT, or ROLLBACK; false: the connection can't be used again, or COMMIT failed. */
bool		db_end(Db *db, bool commit);

/* A statement with text parameters; DB_OK: *out is its result, to be freed by PQclear(). */
DbEnd		db_query(Db *db, int client, const char *sql, int n, const char *const *params, PGresult **out,
					 DbError *e);

/*
 * The same, row by row: db_next gives a result with one row; *out NULL: no more.  After anything
 * but DB_OK with a row the statement has ended.
 */
DbEnd		db_start(Db *db, const char *sql, int n, const char *const *params, DbError *e);
DbEnd		db_next(Db *db, int client, PGresult **out, DbError *e);
/* Is another row here, so that db_next() does not wait? */
bool		db_has_next(Db *db);
/* End a started statement before its end. */
void		db_cancel(Db *db);

#endif
