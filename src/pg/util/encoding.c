/*
 * encoding.c
 *	  Conversion of text between a database's encoding and the wire's UTF-8.
 *
 * Prompts are valid in the server's encoding, so PostgreSQL's own conversion is used for sending; it
 * raises an ERROR if a character has no Unicode equivalent.  Outputs are bytes that a model chose:
 * they may contain NUL, invalid UTF-8 or characters that the database can't store.  vllm.invalid_text
 * decides what happens: 'replace' drops NUL and replaces each invalid byte or unknown character by
 * U+FFFD (if the database has it, else '?'), 'error' raises 22021.  Valid outputs, as nearly all are,
 * need one pass; others take linear time.
 *
 * Tests: tests/sql/11_encoding.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"	/* in 16, SET_VARSIZE is defined there */
#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "pg/util/encoding.h"
#include "pg/vllm_pg.h"

#define REPLACEMENT_UTF8	"\xEF\xBF\xBD"	/* U+FFFD */

int			vllm_invalid_text = INVALID_TEXT_REPLACE;

void
wire_put_text(WireOut *o, WireTag tag, const char *s, size_t n)
{
	char	   *utf8 = pg_server_to_any(s, (int) n, PG_UTF8);

	wire_put_str(o, tag, utf8, utf8 == s ? n : strlen(utf8));
	if (utf8 != s)
		pfree(utf8);
}

static void
invalid_text(const char *what)
{
	if (vllm_invalid_text == INVALID_TEXT_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
				 errmsg("the model's answer contains %s", what),
				 errhint("Set vllm.invalid_text to \"replace\" to have it replaced.")));
}

/* Append s[0..n), any bytes, as valid UTF-8 without NUL. */
static void
append_valid_utf8(StringInfo out, const char *s, size_t n)
{
	while (n > 0)
	{
		size_t		good = pg_encoding_verifymbstr(PG_UTF8, s, (int) n);

		/* PostgreSQL's verifier stops at NUL as it does at an invalid byte */
		appendBinaryStringInfo(out, s, (int) good);
		s += good;
		n -= good;
		if (n == 0)
			break;
		if (*s == '\0')
			invalid_text("a NUL character");
		else
		{
			invalid_text("bytes that are not valid UTF-8");
			appendStringInfoString(out, REPLACEMENT_UTF8);
		}
		s++, n--;
		/* the rest of a truncated character belongs to the same replacement */
		while (n > 0 && ((unsigned char) *s & 0xC0) == 0x80)
			s++, n--;
	}
}

/* Append valid UTF-8 in the server's encoding, with '?' for characters that it lacks. */
static void
append_converted(StringInfo out, Oid proc, const char *s, size_t n)
{
	while (n > 0)
	{
		/* in pieces, as the conversion needs MAX_CONVERSION_GROWTH bytes of room for each byte */
		int			piece = (int) Min(n, 64 * 1024);
		int			room,
					done;

		while ((size_t) piece < n && ((unsigned char) s[piece] & 0xC0) == 0x80)
			piece--;
		room = piece * MAX_CONVERSION_GROWTH + 1;
		enlargeStringInfo(out, room);
		done = pg_do_encoding_conversion_buf(proc, PG_UTF8, GetDatabaseEncoding(),
											 (unsigned char *) s, piece,
											 (unsigned char *) out->data + out->len, room, true);
		out->len += strlen(out->data + out->len);
		s += done;
		n -= done;
		if (done < piece)
		{
			int			len = Min(pg_encoding_mblen(PG_UTF8, s), (int) n);

			invalid_text("a character that the database's encoding does not have");
			appendStringInfoChar(out, '?');
			s += len;
			n -= len;
		}
	}
}

text *
text_from_wire(const char *s, size_t n)
{
	StringInfoData clean;
	Oid			proc;
	text	   *result;

	/* the most that a text can hold; the verifier takes an int */
	if (n > MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the model's answer is longer than a text value can be")));

	initStringInfo(&clean);
	appendStringInfoSpaces(&clean, VARHDRSZ);
	if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII)
		append_valid_utf8(&clean, s, n);
	else
	{
		StringInfoData utf8;

		initStringInfo(&utf8);
		append_valid_utf8(&utf8, s, n);
		proc = FindDefaultConversionProc(PG_UTF8, GetDatabaseEncoding());
		if (!OidIsValid(proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("default conversion function for encoding \"%s\" to \"%s\" does not exist",
							"UTF8", GetDatabaseEncodingName())));
		append_converted(&clean, proc, utf8.data, utf8.len);
		pfree(utf8.data);
	}
	result = (text *) clean.data;
	SET_VARSIZE(result, clean.len);
	return result;
}

/*
 * The name came from the database, so its encoding has all of the characters.  A job worker calls
 * this outside of transactions, where no conversion can be looked up; that of client_encoding, which
 * is UTF8 there, is available.
 */
char *
name_from_wire(const char *s, size_t n)
{
	char	   *utf8 = pnstrdup(s, n);

	return pg_any_to_server(utf8, strlen(utf8), PG_UTF8);
}

void
state_put_string(StringInfo buf, const char *s)
{
	pq_sendint32(buf, s ? (int32) strlen(s) : -1);
	if (s)
		pq_sendbytes(buf, s, (int) strlen(s));
}

char *
state_get_string(StringInfo buf)
{
	int			n = (int) pq_getmsgint(buf, 4);

	return n < 0 ? NULL : pnstrdup(pq_getmsgbytes(buf, n), n);
}
