/*
 * db_pool.c
 *	  Connections to the PostgreSQL server.
 *
 * POOL.  At most max_connections, opened when they are needed.  A thread that finds none waits in a
 * queue.  The thread that gives a connection back grants its place to a waiter.  `used` counts places:
 * connections in use, and waiters that have been granted one.  A request may take long, and so may a
 * client that reads its response slowly.  So one key has at most three quarters of the places, and a
 * free place goes to the waiter whose key has the fewest, among equals to the oldest.
 *
 * FRONT CONNECTION.  It looks up keys, and runs the server's own short queries.  One thread uses it at a
 * time, the others wait in queues: keys that were valid before come first, then the others, of which a
 * limited number may wait.
 *
 * WATCHING THE CLIENT.  A thread that waits for the server polls the HTTP client's socket, too.  When
 * that is closed, the thread cancels the statement and reads its end before the connection is used
 * again: the engine drops the request within a step.  A client that shuts down its sending side counts
 * as gone.
 *
 * The server's errors become HTTP statuses here.  Their text goes to the HTTP client, so errors that may
 * name files or internals of the server (classes 58, XX) are reduced to their first line.
 *
 * Tests: tests/t/083_http.pl.
 */
#include "httpd/db_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/http_error.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/holders.h"
#include "ipc/traceparent.h"

#define CANCEL_WAIT		5000	/* ms in which a cancelled statement must end */
#define LOOK_AROUND		200		/* ms between checks of the client's socket during a wait for a place */
#define FRONT_LEAST		16		/* look-ups of keys that may wait, whatever the settings are */
#define FRONT_WAIT		5000	/* ms that a look-up may wait for the front connection */
/* every FRONT_ROUND-th grant of the front connection goes to the classes in rotation */
#define FRONT_ROUND		8
#define LOG_INTERVAL	5000000 /* us between log lines about failed connections */

/* ---- errors ---- */

static DbEnd
fail(DbError *e, DbEnd end, int status, const char *message)
{
	e->status = status;
	snprintf(e->message, sizeof(e->message), "%s", message);
	return end;
}

/* Was the extension dropped or updated after the connection was made? */
static bool
is_stale(const PGresult *r)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);

	return state != NULL && (strcmp(state, "3F000") == 0 || strcmp(state, "42883") == 0);
}

/* Take an error's text, with detail and hint if the client has caused it. */
static void
take_error(const PGresult *r, DbError *e)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	bool		own;

	e->status = answer_status_of(state ? state : "XX000");
	own = e->status < 500;
	snprintf(e->message, sizeof(e->message), "%s%s%s%s%s", message ? message : "unknown error",
			 own && detail ? ". " : "", own && detail ? detail : "",
			 own && hint ? " " : "", own && hint ? hint : "");
}

static DbEnd
lost(Db *db, DbError *e)
{
	(void) db;
	return fail(e, DB_LOST, 503, "the connection to the database was lost");
}

/* ---- one connection ---- */

static void
close_db(Db *db)
{
	PQfinish(db->conn);
	mem_free(db);
}

static void
ignore_notice(void *arg, const PGresult *r)
{
	(void) arg;
	(void) r;
}

/*
 * Does the database have the extension, with the functions that are called here?  They are in schema
 * vllm, which keeps its name.
 */
static bool
find_extension(Db *db, DbError *e)
{
	PGresult   *r = PQexec(db->conn, "SELECT pg_catalog.to_regprocedure('vllm.http_api(text, json)') IS NOT "
						   "NULL FROM pg_catalog.pg_extension WHERE extname = 'vllm_pg'");
	bool		installed = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
	bool		found = installed && PQgetvalue(r, 0, 0)[0] == 't';

	PQclear(r);
	if (!installed)
		fail(e, DB_LOST, 503, "extension \"vllm_pg\" is not installed in the server's database");
	else if (!found)
		fail(e, DB_LOST, 503, "extension \"vllm_pg\" of the server's database is older than the server; use "
							  "ALTER EXTENSION vllm_pg UPDATE");
	return found;
}

/* Log the reason, which clients don't get; at most one line every few seconds. */
static void
complain(const char *why)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int64_t last;
	int64_t		now = clock_us();
	bool		report;

	pthread_mutex_lock(&lock);
	report = last == 0 || now - last > LOG_INTERVAL;
	if (report)
		last = now;
	pthread_mutex_unlock(&lock);
	if (report)
		log_line('W', "could not connect to database \"%s\" as role \"%s\": %s", http_conf.database,
				 http_conf.role, why);
}

/* limits: settings of this connection alone */
static Db *
connect_db(const char *limits, DbError *e)
{
	char		port[16];
	char		options[256];
	const char *keys[] = {"host", "port", "dbname", "user", "client_encoding", "application_name",
	"connect_timeout", "options", NULL};
	/* client_connection_check_interval ends a statement if this program is killed */
	const char *values[] = {http_conf.server_host, port, http_conf.database, http_conf.role, "UTF8",
							"vllm_pg http",
	"5", options, NULL};
	Db		   *db = mem_zalloc(sizeof(Db));

	snprintf(options, sizeof(options), "-c search_path=pg_catalog,pg_temp -c "
									   "client_connection_check_interval=1000%s", limits);
	snprintf(port, sizeof(port), "%d", http_conf.server_port);
	db->conn = PQconnectdbParams(keys, values, 0);
	if (PQstatus(db->conn) != CONNECTION_OK)
	{
		complain(PQerrorMessage(db->conn));
		fail(e, DB_LOST, 503, "the database is not available");
	}
	else
	{
		PQsetNoticeReceiver(db->conn, ignore_notice, NULL);
		if (find_extension(db, e))
			return db;
		complain(e->message);
	}
	close_db(db);
	return NULL;
}

/* ---- statements ---- */

typedef enum Waited
{
	W_READY, W_CLOSED, W_LATE, W_INTERRUPTED
} Waited;

/* The read end is readable once the program ends. */
static int	interrupt[2] = {-1, -1};
static atomic_bool interrupted;

bool
db_init(void)
{
	return pipe2(interrupt, O_CLOEXEC) == 0;
}

void
db_interrupt_all(void)
{
	atomic_store(&interrupted, true);
	(void) !write(interrupt[1], "", 1);
}

static DbEnd
fail_ending(DbError *e)
{
	return fail(e, DB_ERROR, 503, "the HTTP server is ending");
}

static bool
client_closed(int client)
{
	struct pollfd p = {.fd = client,.events = POLLRDHUP};

	return client >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/*
 * Wait until the server has sent something.  client -1: no client to watch, and no interruption.  ms -1:
 * no limit.
 */
static Waited
wait_for(const Db *db, int client, int ms)
{
	struct pollfd p[3] = {{.fd = PQsocket(db->conn),.events = POLLIN}, {.fd = client,.events = POLLRDHUP},
	{.fd = client >= 0 ? interrupt[0] : -1,.events = POLLIN}};
	int			n;

	do
		n = poll(p, 3, ms);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return W_LATE;
	if (client >= 0 && (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
		return W_CLOSED;
	return client >= 0 && p[2].revents != 0 ? W_INTERRUPTED : W_READY;
}

/* Read results until the statement has ended. */
static bool
drain(Db *db, int ms)
{
	int64_t		until = clock_us() + (int64_t) ms * 1000;

	for (;;)
	{
		PGresult   *r;

		while (PQisBusy(db->conn))
		{
			int			left = (int) ((until - clock_us()) / 1000);

			if (left <= 0 || wait_for(db, -1, left) == W_LATE || !PQconsumeInput(db->conn))
				return false;
		}
		r = PQgetResult(db->conn);
		if (r == NULL)
			return true;
		PQclear(r);
	}
}

void
db_cancel(Db *db)
{
	PGcancel   *c = PQgetCancel(db->conn);
	char		why[256];

	if (c != NULL)
		(void) PQcancel(c, why, sizeof(why));
	PQfreeCancel(c);
	/* if the statement does not end, db_give() closes the connection, because it is not idle */
	(void) drain(db, CANCEL_WAIT);
}

/* Wait until the statement has a result, or is cancelled. */
static DbEnd
wait_result(Db *db, int client, DbError *e)
{
	while (PQisBusy(db->conn))
	{
		Waited		w = wait_for(db, client, -1);

		if (w == W_CLOSED || w == W_INTERRUPTED)
		{
			db_cancel(db);
			return w == W_CLOSED ? DB_CLOSED : fail_ending(e);
		}
		if (!PQconsumeInput(db->conn))
			return lost(db, e);
	}
	return DB_OK;
}

DbEnd
db_start(Db *db, const char *sql, int n, const char *const *params, DbError *e)
{
	if (!PQsendQueryParams(db->conn, sql, n, NULL, params, NULL, NULL, 0))
		return lost(db, e);
	(void) PQsetSingleRowMode(db->conn);
	return DB_OK;
}

bool
db_has_next(Db *db)
{
	return PQconsumeInput(db->conn) && !PQisBusy(db->conn);
}

DbEnd
db_next(Db *db, int client, PGresult **out, DbError *e)
{
	PGresult   *r;
	DbEnd		end = wait_result(db, client, e);

	*out = NULL;
	if (end != DB_OK)
		return end;
	r = PQgetResult(db->conn);
	if (r == NULL)
		return DB_OK;
	switch (PQresultStatus(r))
	{
		case PGRES_SINGLE_TUPLE:
			*out = r;
			return DB_OK;
		case PGRES_TUPLES_OK:
		case PGRES_COMMAND_OK:
			PQclear(r);
			return drain(db, CANCEL_WAIT) ? DB_OK : lost(db, e);
		default:
			take_error(r, e);
			if (is_stale(r))
			{
				PQclear(r);
				return DB_LOST;
			}
			PQclear(r);
			return drain(db, CANCEL_WAIT) && PQstatus(db->conn) == CONNECTION_OK ? DB_ERROR : DB_LOST;
	}
}

DbEnd
db_query(Db *db, int client, const char *sql, int n, const char *const *params, PGresult **out, DbError *e)
{
	PGresult   *more;
	DbEnd		end = db_start(db, sql, n, params, e);

	*out = NULL;
	if (end == DB_OK)
		end = db_next(db, client, out, e);
	if (end != DB_OK || *out == NULL)
		return end == DB_OK ? fail(e, DB_ERROR, 500, "the database gave no answer") : end;
	end = db_next(db, client, &more, e);
	PQclear(more);
	if (end != DB_OK || more != NULL)
	{
		if (end == DB_OK)
		{
			db_cancel(db);
			end = fail(e, DB_ERROR, 500, "the database gave more than one answer");
		}
		PQclear(*out);
		*out = NULL;
	}
	return end;
}

/* Run a command of the program's own, without parameters. */
static DbEnd
command(Db *db, int client, const char *sql, DbError *e)
{
	DbEnd		end = DB_OK;
	PGresult   *r;

	if (!PQsendQuery(db->conn, sql))
		return lost(db, e);
	for (;;)
	{
		DbEnd		waited = wait_result(db, client, e);

		if (waited != DB_OK)
			return waited;
		r = PQgetResult(db->conn);
		if (r == NULL)
			return PQstatus(db->conn) == CONNECTION_OK ? end : lost(db, e);
		if (PQresultStatus(r) != PGRES_COMMAND_OK && end == DB_OK)
		{
			take_error(r, e);
			end = DB_ERROR;
		}
		PQclear(r);
	}
}

/* Add the trace context.  An invalid one is ignored; a tracestate is used only with a traceparent. */
static void
set_trace(Db *db, const char *const trace[2], Buf *sql)
{
	char	   *state;

	if (trace == NULL || trace[0] == NULL || !traceparent_ok(trace[0], strlen(trace[0])))
		return;
	buf_printf(sql, "; SET LOCAL vllm.traceparent = '%.*s'", TRACEPARENT_LEN, trace[0]);
	if (trace[1] == NULL || !tracestate_ok(trace[1], strlen(trace[1])))
		return;
	state = PQescapeLiteral(db->conn, trace[1], strlen(trace[1]));
	if (state != NULL)
		buf_printf(sql, "; SET LOCAL vllm.tracestate = %s", state);
	PQfreemem(state);
}

DbEnd
db_begin(Db *db, const char *role, const char *const trace[2], int client, DbError *e)
{
	char	   *quoted = PQescapeIdentifier(db->conn, role, strlen(role));
	Buf			sql = {0};
	DbEnd		end;

	if (quoted == NULL)
		return fail(e, DB_ERROR, 500, "the role's name can't be used");
	buf_printf(&sql, "BEGIN; SET LOCAL ROLE %s", quoted);
	PQfreemem(quoted);
	set_trace(db, trace, &sql);
	end = command(db, client, sql.data, e);
	buf_free(&sql);
	if (end == DB_ERROR && !atomic_load(&interrupted))
	{
		log_line('W', "role \"%s\" can't become role \"%s\": %s", http_conf.role, role, e->message);
		return fail(e, DB_ERROR, 403, "the HTTP server can't become the role of this API key");
	}
	return end;
}

bool
db_end(Db *db, bool commit)
{
	DbError		e;
	PGresult   *r;
	bool		ok;

	if (!commit)
		return command(db, -1, "ROLLBACK", &e) == DB_OK;
	r = PQexec(db->conn, "COMMIT");
	/* COMMIT of a failed transaction reports ROLLBACK */
	ok = PQresultStatus(r) == PGRES_COMMAND_OK && strcmp(PQcmdStatus(r), "COMMIT") == 0;
	PQclear(r);
	return ok;
}

/* ---- the pool ---- */

typedef struct Waiter
{
	pthread_cond_t cond;
	uint64_t	key;
	bool		granted;
	struct Waiter *next;
} Waiter;

/* Threads that wait, oldest first. */
typedef struct Queue
{
	Waiter	   *first, *last;
	int			n;
} Queue;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static Db  *idle_list;			/* last used first */
static int	used;				/* places in use */
static Holder *holders;			/* how many places each key has */
static Queue pool_queue;

static void
unlink_waiter(Queue *q, const Waiter *w)
{
	Waiter	  **p = &q->first;
	Waiter	   *prev = NULL;

	while (*p != w)
	{
		prev = *p;
		p = &prev->next;
	}
	ALWAYS(q->n > 0);
	*p = w->next;
	if (q->last == w)
		q->last = prev;
	q->n--;
}

/* Grant the waiter what it waits for.  The caller holds the lock. */
static void
grant(Queue *q, Waiter *w)
{
	ASSERT(!w->granted);
	unlink_waiter(q, w);
	w->granted = true;
	pthread_cond_signal(&w->cond);
}

/*
 * Return the waiter that gets the next place of the pool.  NULL: no waiter may have one.  The caller
 * holds the lock.
 */
static Waiter *
next_waiter(void)
{
	Waiter	   *found = NULL;
	size_t		least = (size_t) DB_KEY_SHARE(http_conf.max_connections);

	for (Waiter *w = pool_queue.first; w != NULL && (found == NULL || least > 0); w = w->next)
	{
		size_t		has = holders_has(holders, w->key);

		if (has < least)
		{
			found = w;
			least = has;
		}
	}
	return found;
}

/*
 * Free a place of the key: grant it to a waiter, or leave it to the next request.  The caller holds the
 * lock.
 */
static void
free_place(uint64_t key)
{
	Waiter	   *w;

	holders_sub(&holders, key, 1);
	if ((w = next_waiter()) == NULL)
	{
		used--;
		return;
	}
	(void) holders_add(&holders, w->key, 1);
	grant(&pool_queue, w);
}

/* Wait until something is granted.  The caller holds the lock. */
static DbEnd
wait_turn(Queue *q, pthread_mutex_t *lock, uint64_t key, int client, int64_t until, DbError *e)
{
	Waiter		w = {.key = key};
	DbEnd		end = DB_OK;

	pthread_cond_init(&w.cond, NULL);
	*(q->first == NULL ? &q->first : &q->last->next) = &w;
	q->last = &w;
	q->n++;
	while (!w.granted)
	{
		struct timespec ts;
		int64_t		now = clock_us();

		if (now >= until)
			end = fail(e, DB_BUSY, 503, "the server has too many requests in hand, try again later");
		else if (client_closed(client))
			end = fail(e, DB_CLOSED, 503, "the client has left");
		else if (atomic_load(&interrupted))
			end = fail_ending(e);
		if (end != DB_OK)
		{
			unlink_waiter(q, &w);
			break;
		}
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += (until - now < LOOK_AROUND * 1000 ? until - now : LOOK_AROUND * 1000) * 1000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		(void) pthread_cond_timedwait(&w.cond, lock, &ts);
	}
	pthread_cond_destroy(&w.cond);
	return end;
}

/*
 * Return the time at which a waiting request times out.  least: ms that it may wait, whatever the
 * settings are.
 */
static int64_t
queue_end(int least)
{
	int			ms = http_conf.queue_timeout_ms > least ? http_conf.queue_timeout_ms : least;

	return clock_us() + (int64_t) ms * 1000;
}

/* Is an idle connection still usable?  It is not if its server process has ended. */
static bool
still_there(Db *db)
{
	struct pollfd p = {.fd = PQsocket(db->conn),.events = POLLIN};

	/* a server sends nothing to an idle session, except when it ends it */
	return poll(&p, 1, 0) == 0;
}

/* Take an idle connection; NULL: none.  The caller holds the lock. */
static Db *
pop_idle(void)
{
	Db		   *db;

	while ((db = idle_list) != NULL)
	{
		idle_list = db->next;
		if (still_there(db))
			break;
		close_db(db);
	}
	return db;
}

/*
 * The server may accept fewer connections than the pool may have.  A thread that can't open one then
 * waits for one of the existing ones.
 */
DbEnd
db_take(uint64_t key, int client, Db **out, DbError *e)
{
	int64_t		until = queue_end(0);
	DbEnd		end = DB_OK;

	*out = NULL;
	pthread_mutex_lock(&pool_lock);
	if (used >= http_conf.max_connections ||
		holders_has(holders, key) >= (size_t) DB_KEY_SHARE(http_conf.max_connections))
		end = wait_turn(&pool_queue, &pool_lock, key, client, until, e);
	else
	{
		used++;
		(void) holders_add(&holders, key, 1);
	}
	while (end == DB_OK && (*out = pop_idle()) == NULL)
	{
		pthread_mutex_unlock(&pool_lock);
		*out = connect_db("", e);
		pthread_mutex_lock(&pool_lock);
		if (*out != NULL)
			break;
		if (idle_list != NULL)
			continue;
		if (used > 1)
		{
			used--;
			holders_sub(&holders, key, 1);
			end = wait_turn(&pool_queue, &pool_lock, key, client, until, e);
			continue;
		}
		free_place(key);
		end = DB_LOST;
	}
	if (end == DB_OK)
		(*out)->key = key;
	pthread_mutex_unlock(&pool_lock);
	return end;
}

static bool
is_idle(const Db *db)
{
	return PQstatus(db->conn) == CONNECTION_OK && PQtransactionStatus(db->conn) == PQTRANS_IDLE;
}

void
db_give(Db *db, bool idle)
{
	uint64_t	key = db->key;

	idle = idle && is_idle(db);
	if (!idle)
		close_db(db);
	pthread_mutex_lock(&pool_lock);
	if (idle)
	{
		db->next = idle_list;
		idle_list = db;
	}
	free_place(key);
	pthread_mutex_unlock(&pool_lock);
}

void
db_close_all(void)
{
	pthread_mutex_lock(&pool_lock);
	while (idle_list != NULL)
	{
		Db		   *db = idle_list;

		idle_list = db->next;
		close_db(db);
	}
	pthread_mutex_unlock(&pool_lock);
}

/* ---- the front connection ---- */

static pthread_mutex_t front_lock = PTHREAD_MUTEX_INITIALIZER;
static Db  *front;
static bool front_in_hand;
static Queue front_queues[FRONT_CLASSES];

/* Return how many look-ups of unknown keys may wait: no more than there may be requests without a key. */
static int
most_unknown(void)
{
	int			most = http_conf.max_clients - http_conf.reserved_clients;

	return most > FRONT_LEAST ? most : FRONT_LEAST;
}

static DbEnd
front_turn(int client, FrontClass class, DbError *e)
{
	DbEnd		end = DB_OK;

	pthread_mutex_lock(&front_lock);
	if (!front_in_hand)
		front_in_hand = true;
	else if (class == FRONT_KEY && front_queues[class].n >= most_unknown())
		end = fail(e, DB_BUSY, 503, "the server has too many API keys to look up, try again later");
	else
		end = wait_turn(&front_queues[class], &front_lock, 0, client, queue_end(FRONT_WAIT), e);
	pthread_mutex_unlock(&front_lock);
	return end;
}

/*
 * Pass the front connection to the next waiter: of the first class that has any, but each class has its
 * turn at times.
 */
static void
end_turn(void)
{
	static unsigned turns;
	Queue	   *q = NULL;

	pthread_mutex_lock(&front_lock);
	turns++;
	for (unsigned i = 0; i < FRONT_CLASSES && (q == NULL || q->first == NULL); i++)
		q = &front_queues[(turns % FRONT_ROUND == 0 ? i + turns / FRONT_ROUND : i) % FRONT_CLASSES];
	if (q->first != NULL)
		grant(q, q->first);
	else
		front_in_hand = false;
	pthread_mutex_unlock(&front_lock);
}

Db *
db_front_take(int client, FrontClass class, DbError *e)
{
	if (front_turn(client, class, e) != DB_OK)
		return NULL;
	if (front != NULL && !still_there(front))
	{
		close_db(front);
		front = NULL;
	}
	if (front == NULL)
		/* all look-ups wait for this connection */
		front = connect_db(" -c lock_timeout=1s -c statement_timeout=5s", e);
	if (front == NULL)
		end_turn();
	return front;
}

void
db_front_give(Db *db, bool idle)
{
	if (!idle || !is_idle(db))
	{
		close_db(db);
		front = NULL;
	}
	end_turn();
}
