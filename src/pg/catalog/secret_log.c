/*
 * secret_log.c
 *	  Keeping secrets out of the server's log: what statements give llm_set_secret() is not written there.
 *
 * A secret comes as an argument, so the statement has it, and the server writes statements to its log for
 * many reasons: log_statement, log_min_duration_statement, the STATEMENT line of an error, bind parameters,
 * the CONTEXT of PL/pgSQL, plans of auto_explain.  All of that passes emit_log_hook, where strings of
 * statements that name the function are masked (secret_mask.c) in the message's fields and in the statement
 * that goes with it.  The hook works on the message that the client gets, too, which loses nothing that the
 * client hasn't written itself.
 *
 * A statement that hides the call (in a function of the user's own that takes the secret as an argument)
 * can't be known until llm_set_secret() runs.  From then on, as long as the statement lasts, the secret
 * itself is looked for, and pg_stat_activity shows a text without it.
 *
 * Members of pg_read_all_stats read two more texts: what pg_stat_activity shows of a statement that has
 * failed before it came so far, or only names the function, is the masked one as soon as that is known; and
 * pg_stat_statements, which keeps all of a statement that isn't planned (DO, CALL, EXPLAIN, COPY), does not
 * count those, as they have no query id.
 *
 * Nothing can cancel a backend while it works on a message, so none may take long, whoever wrote it.  A
 * message that can't hold a secret is looked over once, fast (secret_name.c), and so is the session's
 * statement, for all of its messages.  What is longer than SECRET_LONGEST and may give a secret is left out
 * whole.
 *
 * Tests: tests/unit/pg/test_secret_mask.c, tests/t/114_secrets.pl.
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
/* bytes of prepared statements that one message is worth; of the rest the worst is taken */
#define LOOKED_OVER	(16 * SECRET_LONGEST)
#define MAX_KNOWN	8			/* secrets that one statement has given */
#define SHORTEST	8			/* bytes; a shorter secret would be found everywhere */

static emit_log_hook_type prev_emit_log_hook = NULL;
static post_parse_analyze_hook_type prev_analyze = NULL;

/*
 * The session's statement as the client sent it, and without its secret; in MessageContext, until that is
 * reset.
 */
static char *plain_statement;
static char *masked_statement;
/*
 * Or: it gives no secret, whatever is prepared, and it has none of so many that are known.  Goes with
 * MessageContext.
 */
static const char *clean_statement;
static int	clean_known;
/* What it has given llm_set_secret() so far; there, too. */
static char *known[MAX_KNOWN];
static size_t known_len[MAX_KNOWN];
static int	n_known;
static bool callback_set = false;
static MemoryContextCallback forget_callback;

static size_t may_look_over;		/* of LOOKED_OVER, what is left for this message */

static bool
calls_set_secret(const char *name)
{
	/* the parser has cut it before the character that no longer fits */
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

/* What is known goes with MessageContext. */
static void
goes_with_message(void)
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
	goes_with_message();
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
 * A copy of the text without the secrets that are known; NULL: it has none.  Each is looked for once over the
 * whole text; where they lap over, all of it goes.
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

/* The session's statement as messages have it, and as they shall have it. */
typedef struct Statement
{
	const char *plain;			/* NULL = there is none */
	const char *masked;			/* NULL = it has no call */
} Statement;

/* From now on the session's statement, in errors and in pg_stat_activity, is the masked one. */
static void
keep_masked(const Statement *s)
{
	plain_statement = keep(s->plain);
	masked_statement = keep(s->masked);
	debug_query_string = masked_statement;
	pgstat_report_activity(STATE_RUNNING, masked_statement);
}

/*
 * The session's statement gives nothing: if that can't change as long as it runs, it need not be read again.
 */
static void
remember_clean(void)
{
	if (MessageContext == NULL || secret_may_be_given(debug_query_string))
		return;
	goes_with_message();
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
 * A field of a message.  Where it has the whole statement, that is replaced by the masked one (or left alone:
 * what a comment says is no call); elsewhere every call is masked.
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
	/* what is told of it besides: a plan's constants, statements of its body */
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
 * A message that names a part of the statement: what stands between its first and its last quote (a part may
 * have quotes itself) goes.  In other languages than English quotes may be no ASCII; then all of it goes.
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

/* What is only told of the statement: parameters, trees of nodes, parts that the parser names. */
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
		/* it counts in the text as it was */
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

/* One of several in a text: the rest of it is read with the others. */
static const char *
own_text(const ParseState *pstate, const Query *query)
{
	const char *text = pstate->p_sourcetext + Max(query->stmt_location, 0);

	return query->stmt_len > 0 ? pnstrdup(text, query->stmt_len) : text;
}

/* Before pg_stat_statements sees it, whichever was loaded first: that calls the next hook first. */
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
