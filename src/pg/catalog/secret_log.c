/*
 * secret_log.c
 *	  Keeping secrets out of the server's log: the arguments of llm_set_secret() are not written there.
 *
 * A secret is an argument, so the statement contains it, and the server writes statements to its log
 * for many reasons: log_statement, log_min_duration_statement, the STATEMENT line of an error, bind
 * parameters, the CONTEXT of PL/pgSQL, plans of auto_explain.  All of these pass emit_log_hook.  The
 * hook masks the strings of statements that name the function (secret_mask.c), in the message's
 * fields and in its statement.  It also changes the message that the client gets, which only hides
 * text that the client has sent itself.
 *
 * A statement that hides the call (in a user's function that takes the secret as an argument) can't
 * be recognised until llm_set_secret() runs.  From then on, until the statement ends, the hook
 * searches for the secret itself, and pg_stat_activity shows a text without it.
 *
 * Members of pg_read_all_stats can read two more texts.  pg_stat_activity shows the masked text of a
 * statement that names the function, or that has failed before the call, as soon as the backend knows
 * that.  pg_stat_statements, which stores the full text of a statement that isn't planned (DO, CALL,
 * EXPLAIN, COPY), does not count such statements, as they have no query id.
 *
 * A backend can't be cancelled while it works on a message, so no message may take long, whatever its
 * text is.  A message that can't have a secret is scanned once, fast (secret_name.c), and the
 * session's statement is scanned once for all of its messages.  A text longer than SECRET_LONGEST
 * that may give a secret is left out completely.
 *
 * Tests: tests/unit/pg/catalog/test_secret_mask.c, tests/t/114_secrets.pl.
 */
#include "postgres.h"

#include "commands/prepare.h"
#include "common/string.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/elog.h"
#include "utils/memutils.h"

#include "pg/catalog/secret.h"
#include "pg/catalog/secret_mask.h"

#define MASK		"***"
/*
 * bytes of prepared statements that are read for one message; further ones are assumed to give a
 * secret
 */
#define LOOKED_OVER	(16 * SECRET_LONGEST)
#define MAX_KNOWN	8			/* secrets that one statement has given, at most */
#define SHORTEST	8			/* bytes; a shorter secret would match in too many places */

static emit_log_hook_type prev_emit_log_hook = NULL;
static post_parse_analyze_hook_type prev_analyze = NULL;

/*
 * The session's statement as the client sent it, and in masked form; in MessageContext, until that is
 * reset.
 */
static char *plain_statement;
static char *masked_statement;
/*
 * A statement that gives no secret, whatever statements are prepared, and has none of the first
 * clean_known secrets in known[].  Valid until MessageContext is reset.
 */
static const char *clean_statement;
static int	clean_known;
/* The secrets that the statement has given llm_set_secret() so far; also in MessageContext. */
static char *known[MAX_KNOWN];
static size_t known_len[MAX_KNOWN];
static int	n_known;
static bool callback_set = false;
static MemoryContextCallback forget_callback;

static size_t may_look_over;		/* what is left of LOOKED_OVER for this message */

static bool
calls_set_secret(const char *name)
{
	/* the parser truncates the name to whole characters */
	char	   *cut = pnstrdup(name, pg_mbcliplen(name, (int) strlen(name), NAMEDATALEN - 1));
	PreparedStatement *p = FetchPreparedStatement(cut, false);
	size_t		len;

	pfree(cut);
	if (p == NULL || p->plansource->query_string == NULL)
		return false;
	len = strlen(p->plansource->query_string);
	if (len > may_look_over)
		return true;
	may_look_over -= len;
	return secret_named(p->plansource->query_string);
}

static bool
mentions(const char *text)
{
	return text != NULL && secret_named(text);
}

static void
forget_statement(void *arg)
{
	plain_statement = masked_statement = NULL;
	clean_statement = NULL;
	n_known = 0;
	callback_set = false;
}

/* Make sure that this state is cleared when MessageContext is reset. */
static void
clear_with_message(void)
{
	if (callback_set)
		return;
	forget_callback.func = forget_statement;
	MemoryContextRegisterResetCallback(MessageContext, &forget_callback);
	callback_set = true;
}

static char *
keep(const char *s)
{
	clear_with_message();
	return MemoryContextStrdup(MessageContext, s);
}

static bool
has_known(const char *text)
{
	for (int i = 0; i < n_known; i++)
		if (strstr(text, known[i]) != NULL)
			return true;
	return false;
}

/*
 * Return a copy of the text without the known secrets; NULL if it has none.  Searches the whole text
 * once for each secret; overlapping secrets are masked as one.
 */
static char *
mask_known(const char *text)
{
	StringInfoData out;
	const char *at[MAX_KNOWN];
	bool		any = false;

	for (int i = 0; i < n_known; i++)
		any |= (at[i] = strstr(text, known[i])) != NULL;
	if (!any)
		return NULL;
	initStringInfo(&out);
	for (;;)
	{
		const char *from = NULL;
		const char *to;

		for (int i = 0; i < n_known; i++)
			if (at[i] != NULL && (from == NULL || at[i] < from))
				from = at[i];
		if (from == NULL)
			break;
		to = from;
		for (bool grown = true; grown;)
		{
			grown = false;
			for (int i = 0; i < n_known; i++)
				if (at[i] != NULL && (at[i] == from || at[i] < to))
				{
					to = Max(to, at[i] + known_len[i]);
					at[i] = strstr(at[i] + known_len[i], known[i]);
					grown = true;
				}
		}
		appendBinaryStringInfo(&out, text, from - text);
		appendStringInfoString(&out, MASK);
		text = to;
	}
	appendStringInfoString(&out, text);
	return out.data;
}

/* The session's statement as messages contain it, and its masked form. */
typedef struct Statement
{
	const char *plain;			/* NULL = there is none */
	const char *masked;			/* NULL = nothing to mask */
} Statement;

/* Use the masked form as the session's statement from now on, in errors and in pg_stat_activity. */
static void
keep_masked(const Statement *s)
{
	plain_statement = keep(s->plain);
	masked_statement = keep(s->masked);
	debug_query_string = masked_statement;
	pgstat_report_activity(STATE_RUNNING, masked_statement);
}

/*
 * The session's statement gives no secret.  If that can't change while it runs, it need not be
 * scanned again.
 */
static void
remember_clean(void)
{
	if (MessageContext == NULL || secret_may_be_given(debug_query_string))
		return;
	clear_with_message();
	clean_statement = debug_query_string;
	clean_known = n_known;
}

static Statement
session_statement(ErrorData *edata)
{
	Statement	s = {.plain = debug_query_string};

	if (debug_query_string == NULL)
		return s;
	if (masked_statement != NULL && debug_query_string == masked_statement)
		return (Statement)
	{
		plain_statement, masked_statement
	};
	if (debug_query_string == clean_statement && clean_known == n_known)
		return s;
	if (strlen(debug_query_string) <= SECRET_LONGEST)
	{
		s.masked = secret_mask_statement(debug_query_string, calls_set_secret);
		if (s.masked == NULL)
			s.masked = mask_known(debug_query_string);
	}
	else if (secret_in_long(debug_query_string, calls_set_secret) || has_known(debug_query_string))
	{
		s.masked = MASK;
		edata->hide_stmt = true;
	}
	if (s.masked == NULL)
	{
		remember_clean();
		return s;
	}
	if (MessageContext != NULL)
		keep_masked(&s);
	else
		edata->hide_stmt = true;
	return s;
}

/*
 * Mask a field of a message.  If it contains the whole statement, that is replaced by the masked form
 * (or left unchanged: a name in a comment is not a call).  In the rest of the field, every call is
 * masked.
 */
static void
mask_field(char **field, const Statement *s)
{
	char	   *text = *field;
	char	   *at;
	char	   *rest;
	char	   *masked;

	if (text == NULL || (s->masked == NULL && n_known == 0 && !mentions(text)))
		return;
	if (strlen(text) > SECRET_LONGEST)
	{
		*field = pstrdup(MASK);
		return;
	}
	at = s->plain && s->plain[0] != '\0' ? strstr(text, s->plain) : NULL;
	rest = at ? at + strlen(s->plain) : text;
	masked = secret_mask_text(rest);
	/* text about the statement: a plan's constants, statements of its body */
	if (masked == NULL && s->masked != NULL && strchr(rest, '\'') != strrchr(rest, '\''))
		masked = secret_mask_strings(rest);
	if (at != NULL)
		*field = psprintf("%.*s%s%s", (int) (at - text), text, s->masked ? s->masked : s->plain,
						  masked ? masked : rest);
	else if (masked != NULL)
		*field = masked;
	if ((masked = mask_known(*field)) != NULL)
		*field = masked;
}

static void
mask_quoted(char **field, char quote)
{
	if (*field != NULL)
		*field = secret_mask_quoted(*field, quote);
}

/*
 * Mask the part of the statement that a message names: everything between the first and the last
 * quote, as the part may have quotes itself.  In languages other than English the quotes may not be
 * ASCII; then the whole text is masked.
 */
static void
mask_part(char **field)
{
	char	   *first;
	char	   *last;

	if (*field == NULL)
		return;
	if (!pg_is_ascii(*field))
	{
		*field = pstrdup(MASK);
		return;
	}
	first = strchr(*field, '"');
	last = strrchr(*field, '"');
	if (first != NULL)
		*field = psprintf("%.*s\"" MASK "\"%s", (int) (first - *field), *field, last + 1);
}

/* Mask texts derived from the statement: parameters, node trees, parts that the parser names. */
static void
mask_parts(ErrorData *edata)
{
	mask_quoted(&edata->detail, '\'');
	mask_quoted(&edata->detail_log, '\'');
	mask_quoted(&edata->context, '\'');
	if (edata->detail != NULL && strstr(edata->detail, ":constvalue") != NULL)
		edata->detail = pstrdup(MASK);
	if (edata->cursorpos <= 0 && edata->internalpos <= 0)
		return;
	mask_part(&edata->message);
	mask_part(&edata->detail);
	mask_part(&edata->hint);
}

static void
hide_secrets(ErrorData *edata)
{
	if (edata->output_to_server)
	{
		Statement	s;
		const char *query = edata->internalquery;
		bool		inner = query != NULL && mentions(query);

		may_look_over = LOOKED_OVER;
		s = session_statement(edata);
		mask_field(&edata->message, &s);
		mask_field(&edata->detail, &s);
		mask_field(&edata->detail_log, &s);
		mask_field(&edata->context, &s);
		mask_field(&edata->internalquery, &s);
		if (s.masked != NULL || inner)
			mask_parts(edata);
		/* the position refers to the original text */
		if (edata->internalquery != query)
			edata->internalpos = 0;
	}
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
}

/* ---- statistics ---- */

static bool
gives_secret(const char *sql)
{
	may_look_over = LOOKED_OVER;
	return strlen(sql) > SECRET_LONGEST ? secret_in_long(sql, calls_set_secret) :
		secret_mask_statement(sql, calls_set_secret) != NULL;
}

/*
 * Return the statement's own part of a text with several statements; the other parts are checked with
 * their own.
 */
static const char *
own_text(const ParseState *pstate, const Query *query)
{
	const char *text = pstate->p_sourcetext + Max(query->stmt_location, 0);

	return query->stmt_len > 0 ? pnstrdup(text, query->stmt_len) : text;
}

/*
 * Runs before pg_stat_statements stores the text, whichever library was loaded first, as that one
 * calls the next hook first.
 */
static void
hide_utility(ParseState *pstate, Query *query, JumbleState *jumble)
{
	if (query->commandType == CMD_UTILITY && pstate->p_sourcetext != NULL &&
		gives_secret(own_text(pstate, query)))
	{
		ErrorData	no_message = {0};

		query->queryId = 0;
		(void) session_statement(&no_message);
	}
	if (prev_analyze)
		prev_analyze(pstate, query, jumble);
}

void
secret_log_init(void)
{
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = hide_secrets;
	prev_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = hide_utility;
}

void
secret_log_know(const char *secret)
{
	pgstat_report_activity(STATE_RUNNING, "SELECT llm_set_secret(***)");
	if (secret != NULL && strlen(secret) >= SHORTEST && MessageContext != NULL && n_known < MAX_KNOWN)
	{
		char	   *copy = keep(secret);

		known_len[n_known] = strlen(copy);
		known[n_known++] = copy;
	}
}
