/*
 * json_format.c
 *	  The formats of JSON Schema strings, as the RFCs define them.
 *
 * An unknown format is an annotation without effect; the known format that is no regular language
 * ("regex") is refused.  Leap seconds are accepted as in RFC 3339: 23:59:60 UTC of the days on which
 * there was one.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include <string.h>

#include "base/buf.h"
#include "grammar/schema/schema_internal.h"

#define YEAR	"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP	"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE	"(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|" \
						   "[12][0-9]|30)" \
				"|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define HM		"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define FRAC	"(?:\\.[0-9]+)?"
#define ZONE	"(?:[Zz]|[+-]" HM ")"
#define UTC		"(?:[Zz]|[+-]00:00)"
#define TIME	HM ":[0-5][0-9]" FRAC ZONE
#define LEAPS	"(?:(?:1972|1981|1982|1983|1985|1992|1993|1994|1997|2012|2015)-06-30|" \
				"(?:197[2-9]|1987|1989|1990|1995|1998|2005|2008|2016)-12-31)"
#define DT		"(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+(?:\\.[0-9]+)?S)?|[0-9]+M(?:[0-9]+(?:\\.[0-9]+)?S)?|" \
				"[0-9]+(?:\\.[0-9]+)?S)"
#define DD		"(?:[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

#define LABEL	"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST	LABEL "(?:\\." LABEL ")*"
#define ILABEL	"[A-Za-z0-9\\u00a1-\\u{10ffff}](?:[A-Za-z0-9\\u00a1-\\u{10ffff}-]{0," \
				"61}[A-Za-z0-9\\u00a1-\\u{10ffff}])?"
#define OCTET	"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4	OCTET "(?:\\." OCTET "){3}"
#define H16		"[0-9A-Fa-f]{1,4}"
#define LS32	"(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6	"(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 \
				"|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" \
				H16 ":){2}" LS32 \
				"|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 \
				"|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define ATEXT	"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define IATEXT	"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u00a1-\\u{10ffff}-]+"
#define QUOTED	"\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define LITERAL	"\\[(?:" IPV4 "|IPv6:" IPV6 ")\\]"

/* RFC 3986; u: the characters that IRIs (RFC 3987) add */
#define IRI		"\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{efffd}"
#define PCHAR(u)	"(?:[A-Za-z0-9._~!$&'()*+,;=:@" u "-]|%[0-9A-Fa-f]{2})"
#define NOCOLON(u)	"(?:[A-Za-z0-9._~!$&'()*+,;=@" u "-]|%[0-9A-Fa-f]{2})+"
#define AUTH(u)	"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" u "-]|%[0-9A-Fa-f]{2})*@)?(?:\\[(?:" \
	IPV6 "|v[0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]" \
				"|(?:[A-Za-z0-9._~!$&'()*+,;=" u "-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
#define ABEMPTY(u)	"(?:/" PCHAR(u) "*)*"
#define TAIL(u)	"(?:\\?(?:" PCHAR(u) "|[/?])*)?(?:#(?:" PCHAR(u) "|[/?])*)?"
#define HIER(u)	"(?://" AUTH(u) ABEMPTY(u) "|/(?:" PCHAR(u) "+" ABEMPTY(u) ")?|" PCHAR(u) "+" ABEMPTY(u) "|)"
#define URI(u)	"[A-Za-z][A-Za-z0-9+.-]*:" HIER(u) TAIL(u)
#define REL(u)	"(?://" AUTH(u) ABEMPTY(u) "|/(?:" PCHAR(u) "+" ABEMPTY(u) ")?|" NOCOLON(u) ABEMPTY(u) "|)" \
	TAIL(u)
#define VAR		"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0," \
				"3}|\\*)?"

static const struct
{
	const char *name;
	const char *pattern;		/* of the whole string; NULL: not a regular language */
	int			max;			/* most characters; 0 = no bound */
}			formats[] = {
	{"date", DATE, 0},
	{"time", "(?:" TIME "|23:59:60" FRAC UTC ")", 0},
	{"date-time", "(?:" DATE "[Tt]" TIME "|" LEAPS "[Tt]23:59:60" FRAC UTC ")", 0},
	{"duration", "P(?:[0-9]+W|" DD "(?:T" DT ")?|T" DT ")", 0},
	{"email", "(?:" ATEXT "(?:\\." ATEXT ")*|" QUOTED ")@(?:" HOST "|" LITERAL ")", 0},
	{"idn-email", "(?:" IATEXT "(?:\\." IATEXT ")*|" QUOTED ")@(?:" ILABEL "(?:\\." ILABEL ")*|" LITERAL ")",
	 0},
	{"hostname", HOST, 253},
	{"idn-hostname", ILABEL "(?:[.\\u3002\\uff0e\\uff61]" ILABEL ")*", 253},
	{"ipv4", IPV4, 0},
	{"ipv6", IPV6, 0},
	{"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}", 0},
	{"uri", URI(""), 0},
	{"uri-reference", "(?:" URI("") "|" REL("") ")", 0},
	{"iri", URI(IRI), 0},
	{"iri-reference", "(?:" URI(IRI) "|" REL(IRI) ")", 0},
	{"uri-template", "(?:[^\\u0000- \"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" VAR "(?:,"
	 VAR ")*\\})*", 0},
	{"json-pointer", "(?:/(?:[^~/]|~[01])*)*", 0},
	{"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)", 0},
	{"regex", NULL, 0}
};

static int
find(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (strlen(formats[i].name) == n && memcmp(formats[i].name, name, n) == 0)
			return (int) i;
	return -1;
}

bool
schema_format_known(const char *name, size_t n)
{
	return find(name, n) >= 0;
}

bool
schema_format(Regex *re, ReMode mode, const char *name, size_t n, ReNode *out, Err *e)
{
	int			i = find(name, n);
	ReSyntax	syntax = {.mode = mode, .dot_all = true};

	if (i < 0 || formats[i].pattern == NULL)
	{
		err_set(e, ERR_UNSUPPORTED, "JSON schema keyword \"format\" is not supported here");
		return err_detail(e, "There is no grammar for the format \"%.*s\".", (int) (n > 60 ? 60 : n), name);
	}
	if (!re_parse(re, formats[i].pattern, strlen(formats[i].pattern), &syntax, out, e))
		return false;
	if (formats[i].max > 0)
		*out = re_and(re, *out, re_repeat(re, re_any_char(re, mode), 1, (uint32_t) formats[i].max));
	return true;
}
