/*
 * string.c
 *	  Types that are strings in JSON, and the characters that a database can store.
 *
 * The patterns match dates of the years 1 to 9999, with the days that their months have; fractions of
 * seconds with at most six digits; offsets from UTC of at most 14 hours; and intervals with numbers
 * of at most four digits, so that no sum overflows.
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "pg/types/string.h"

#define YEAR	"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP	"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE	"(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|" \
						   "[12][0-9]|30)" \
				"|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME	"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
#define ZONE	"(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)"
#define N		"-?[0-9]{1,4}"
#define SECONDS	N "(?:\\.[0-9]{1,6})?S"
#define DAYS	"(?:" N "Y(?:" N "M)?(?:" N "D)?|" N "M(?:" N "D)?|" N "D)"
#define HOURS	"T(?:" N "H(?:" N "M)?(?:" SECONDS ")?|" N "M(?:" SECONDS ")?|" SECONDS ")"
#define INTERVAL	"P(?:" N "W|" DAYS "(?:" HOURS ")?|" HOURS ")"
#define OCTET	"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4	OCTET "(?:\\." OCTET "){3}"
#define H16		"[0-9a-f]{1,4}"
#define IPV6	"(?:(?:" H16 ":){7}" H16 "|::|(?:" H16 ":){1,7}:|(?:" H16 ":){6}:" H16 "|(?:" \
	H16 ":){5}(?::" \
	H16 "){1,2}" \
				"|(?:" H16 ":){4}(?::" H16 "){1,3}|(?:" H16 ":){3}(?::" H16 "){1,4}|(?:" H16 ":){2}(?::" \
				H16 "){1,5}" \
				"|" H16 ":(?::" H16 "){1,6}|:(?::" H16 "){1,7})"
/* networks: bits after the mask must be 0, so masks end at octets */
#define CIDR	"(?:" IPV4 "(?:/32)?|" OCTET "(?:\\." OCTET "){2}\\.0/24|" OCTET "\\." OCTET "\\.0\\.0/16|" \
	OCTET "\\.0\\.0\\.0/8" \
				"|0\\.0\\.0\\.0/0|" IPV6 "(?:/128)?|::/0)"

static const StringType string_types[] = {
#define STRING_TYPE(type, pattern, format, hint) {type, pattern, format, hint},
#include "pg/types/string_types.def"
#undef STRING_TYPE
};

const StringType *
type_string_find(Oid type)
{
	for (int i = 0; i < (int) lengthof(string_types); i++)
		if (string_types[i].type == type)
			return &string_types[i];
	return NULL;
}

static void
append_code(StringInfo s, int code)
{
	appendStringInfo(s, "\\u%04x", code);
}

/* Return a class with the characters that bytes above 127 mean in a single-byte encoding. */
static char *
single_byte_class(void)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "[\\u0001-\\u007f");
	for (int c = 128; c < 256; c++)
	{
		unsigned char from[2] = {(unsigned char) c, '\0'};
		unsigned char to[16];
		Oid			proc = FindDefaultConversionProc(GetDatabaseEncoding(), PG_UTF8);

		if (!OidIsValid(proc))
			break;
		if (pg_do_encoding_conversion_buf(proc, GetDatabaseEncoding(), PG_UTF8, from, 1, to, sizeof(to),
										  true) == 1)
			append_code(&s, (int) utf8_to_unicode(to));
	}
	appendStringInfoString(&s, "]*");
	return s.data;
}

const char *
type_string_free_pattern(void)
{
	static char *pattern = NULL;
	int			encoding = GetDatabaseEncoding();
	MemoryContext old;

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return "[^\\u0000]*";
	if (pg_encoding_max_length(encoding) > 1)
		return "[\\u0001-\\u007f]*";
	if (pattern == NULL)
	{
		old = MemoryContextSwitchTo(TopMemoryContext);
		pattern = single_byte_class();
		MemoryContextSwitchTo(old);
	}
	return pattern;
}
