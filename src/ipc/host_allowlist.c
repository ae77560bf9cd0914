/*
 * host_allowlist.c
 *	  vllm.allowed_hosts: the hosts that the remote program may connect to.
 *
 * The URL library must connect to exactly the host that was checked here.  So a URL that two parsers
 * could read differently is rejected rather than interpreted: user names, backslashes, characters that a
 * URL must escape, escapes in the host, numbers that stand for an IPv4 address but are not four decimal
 * numbers, trailing dots, zone ids.  Addresses are compared in their one canonical form.
 *
 * Tested by tests/unit/ipc/test_remote_hosts.c.
 */
#include "ipc/host_allowlist.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"

#define URL_MAX 2048			/* bytes of a URL */
#define NAME_MAX_LEN 253		/* bytes of a host's name */
#define LABEL_MAX_LEN 63

/* One entry of the list. */
typedef struct HostAllowlistEntry
{
	bool		all;			/* the entry is "*" */
	bool		below;			/* the entry began with "*.": it allows names below host */
	bool		http,
				https;
	char		host[256];
	int			port;			/* 0 = any */
} HostAllowlistEntry;

static bool
bad(char *why, size_t why_size, const char *what)
{
	if (why != NULL && why_size > 0)
		snprintf(why, why_size, "%s", what);
	return false;
}

/* ASCII only, whatever the locale */
static bool
is_name_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static bool
is_hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdefABCDEF") >= n;
}

/*
 * Return true if some parser would read the label as a number.  Decimal, octal and hexadecimal numbers
 * begin with a digit.
 */
static bool
is_number(const char *s, size_t n)
{
	if (n >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		return is_hex(s + 2, n - 2);
	return n > 0 && strspn(s, "0123456789") >= n;
}

/* Parse an IPv6 address without its brackets and write its canonical form to host. */
static bool
take_ipv6(const char *s, size_t n, char *host, char *why, size_t why_size)
{
	char		text[64];
	struct in6_addr a;

	if (memchr(s, '%', n) != NULL)
		return bad(why, why_size, "an IPv6 address may not have a zone");
	if (n < sizeof(text))
	{
		memcpy(text, s, n);
		text[n] = '\0';
		if (strlen(text) == n && inet_pton(AF_INET6, text, &a) == 1 &&
			inet_ntop(AF_INET6, &a, host, 256) != NULL)
			return true;
	}
	return bad(why, why_size, "what the brackets hold is not an IPv6 address");
}

/* Parse a name or an IPv4 address and write it to host in lower case. */
static bool
take_name(const char *s, size_t n, char *host, char *why, size_t why_size)
{
	size_t		label = 0;		/* start of the last label */
	struct in_addr a;

	if (n == 0)
		return bad(why, why_size, "the host name is empty");
	if (n > NAME_MAX_LEN)
		return bad(why, why_size, "the host name is longer than 253 characters");
	for (size_t i = 0; i <= n; i++)
	{
		if (i == n || s[i] == '.')
		{
			if (i == label)
				return bad(why, why_size,
						   i == n ? "the host name ends with a dot" : "a part of the host name is empty");
			if (i - label > LABEL_MAX_LEN)
				return bad(why, why_size, "a part of the host name is longer than 63 characters");
			if (i < n)
				label = i + 1;
		}
		else if ((unsigned char) s[i] >= 0x80)
			return bad(why, why_size, "the host name has characters that are not ASCII: such names are "
									  "written as xn--...");
		else if (s[i] == '%')
			return bad(why, why_size, "the host name may not have escaped characters");
		else if (s[i] == '*')
			return bad(why, why_size, "\"*\" may only stand alone, or in front as \"*.\"");
		else if (!is_name_char(s[i]))
			return bad(why, why_size, "the host name has a character that is not allowed there");
		host[i] = i < n ? lower(s[i]) : '\0';
	}
	host[n] = '\0';
	ASSERT(label < n && strlen(host) == n);
	if (is_number(host + label, n - label))
	{
		/* inet_pton accepts only four decimal numbers; others read leading zeros as octal */
		char		again[INET_ADDRSTRLEN];

		if (inet_pton(AF_INET, host, &a) != 1 || inet_ntop(AF_INET, &a, again, sizeof(again)) == NULL ||
			strcmp(again, host) != 0)
			return bad(why, why_size, "an IPv4 address must be four decimal numbers from 0 to 255");
	}
	return true;
}

/* Parse the n bytes host[:port]; *port is unchanged if the text has no port. */
static bool
take_authority(const char *s, size_t n, char *host, int *port, char *why, size_t why_size)
{
	const char *end = s + n;
	const char *colon;

	if (n > 0 && s[0] == '[')
	{
		const char *close = memchr(s, ']', n);

		if (close == NULL)
			return bad(why, why_size, "the bracket of an IPv6 address is not closed");
		if (!take_ipv6(s + 1, close - s - 1, host, why, why_size))
			return false;
		colon = close + 1;
		if (colon < end && *colon != ':')
			return bad(why, why_size, "behind an IPv6 address only a port may stand");
	}
	else
	{
		colon = memchr(s, ':', n);
		if (colon == NULL)
			colon = end;
		else if (memchr(colon + 1, ':', end - colon - 1) != NULL)
			return bad(why, why_size, "an IPv6 address must be in brackets");
		if (!take_name(s, colon - s, host, why, why_size))
			return false;
	}
	if (colon < end)
	{
		int			value = 0;

		n = end - colon - 1;
		for (size_t i = 1; i <= n && i <= 5 && colon[i] >= '0' && colon[i] <= '9'; i++)
			value = value * 10 + (colon[i] - '0');
		if (n == 0 || n > 5 || strspn(colon + 1, "0123456789") < n || colon[1] == '0' || value > 65535)
			return bad(why, why_size, "the port must be a number from 1 to 65535");
		*port = value;
	}
	return true;
}

/*
 * Check that a path, and a query after it, have no characters that must be escaped.  In a query also
 * "/", "?" and "@" are rejected, though URLs allow them: a parser could take a part of such a query for
 * a path or a host.
 */
static bool
path_ok(const char *s, char *why, size_t why_size)
{
	bool		query = false;

	for (; *s != '\0'; s++)
		if (*s == '?' && !query)
		{
			query = true;
			if (s[1] == '\0')
				return bad(why, why_size, "the query is empty");
		}
		else if (*s == '#')
			return bad(why, why_size, "a fragment is not allowed");
		else if (*s == '%')
		{
			if (s[1] == '\0' || !is_hex(s + 1, 2))
				return bad(why, why_size,
						   "a \"%\" of the path or query is not followed by two hexadecimal digits");
		}
		else if (!is_name_char(*s) && strchr(query ? ".~!$&'()*+,;=:" : "/.~!$&'()*+,;=:@", *s) == NULL)
			return bad(why, why_size, query ? "the query has a character that must be escaped" :
					   "the path has a character that must be escaped");
	return true;
}

bool
hosts_url(const char *url, HostUrl *u, char *why, size_t why_size)
{
	const char *at;
	size_t		n;

	memset(u, 0, sizeof(*u));
	if (strlen(url) > URL_MAX)
		return bad(why, why_size, "it is longer than 2048 characters");
	for (at = url; *at != '\0'; at++)
		if ((unsigned char) *at < 0x20 || *at == 0x7f)
			return bad(why, why_size, "control characters are not allowed");
		else if (*at == ' ')
			return bad(why, why_size, "spaces are not allowed");
		else if (*at == '\\')
			return bad(why, why_size, "backslashes are not allowed");
	if (strncasecmp(url, "https://", 8) == 0)
		u->https = true;
	else if (strncasecmp(url, "http://", 7) != 0)
		return bad(why, why_size, "it must begin with https:// or http://");
	at = url + (u->https ? 8 : 7);
	n = strcspn(at, "/?#");
	if (memchr(at, '@', n) != NULL)
		return bad(why, why_size, "user names and passwords are not allowed");
	u->port = u->https ? 443 : 80;
	u->path = at + n;
	return take_authority(at, n, u->host, &u->port, why, why_size) && path_ok(u->path, why, why_size);
}

size_t
hosts_base(const char *url, size_t n, size_t *query)
{
	const char *mark = memchr(url, '?', n);
	size_t		base = mark != NULL ? (size_t) (mark - url) : n;

	ASSERT(base <= n);
	*query = base;
	while (base > 0 && url[base - 1] == '/')
		base--;
	return base;
}

/* Return the next entry of the list and its length, or NULL at the end. */
static const char *
next_entry(const char **list, size_t *n)
{
	const char *at = *list == NULL ? NULL : *list + strspn(*list, ", \t\r\n");

	if (at == NULL || *at == '\0')
		return NULL;
	*n = strcspn(at, ", \t\r\n");
	*list = at + *n;
	return at;
}

static bool
take_entry(const char *s, size_t n, HostAllowlistEntry *en, char *why, size_t why_size)
{
	const char *end = s + n;

	memset(en, 0, sizeof(*en));
	en->http = en->https = true;
	if (n == 1 && *s == '*')
	{
		en->all = true;
		en->http = false;
		return true;
	}
	for (size_t i = 0; i + 3 <= n; i++)
		if (memcmp(s + i, "://", 3) == 0)
		{
			en->http = i == 4 && strncasecmp(s, "http", 4) == 0;
			en->https = i == 5 && strncasecmp(s, "https", 5) == 0;
			if (!en->http && !en->https)
				return bad(why, why_size, "the scheme must be https or http");
			s += i + 3;
			break;
		}
	if (memchr(s, '/', end - s) != NULL)
		return bad(why, why_size, "only hosts are named, without a path");
	if (end - s >= 2 && s[0] == '*' && s[1] == '.')
	{
		en->below = true;
		s += 2;
		if (s < end && *s == '[')
			return bad(why, why_size, "addresses have no names below them");
	}
	if (!take_authority(s, end - s, en->host, &en->port, why, why_size))
		return false;
	if (en->below && inet_pton(AF_INET, en->host, &(struct in_addr) {0}) == 1)
		return bad(why, why_size, "addresses have no names below them");
	return true;
}

bool
hosts_list_ok(const char *list, char *why, size_t why_size)
{
	const char *s;
	size_t		n;

	while ((s = next_entry(&list, &n)) != NULL)
	{
		HostAllowlistEntry en;
		char		what[128];

		if (take_entry(s, n, &en, what, sizeof(what)))
			continue;
		if (why != NULL && why_size > 0)
			snprintf(why, why_size, "\"%.*s\"%s: %s", (int) (n < 64 ? n : 64), s, n > 64 ? "..." : "", what);
		return false;
	}
	return true;
}

static bool
entry_allows(const HostAllowlistEntry *en, const HostUrl *u)
{
	size_t		host = strlen(u->host),
				base = strlen(en->host);

	/* only take_entry() makes entries, and each of them names a host unless it is "*" */
	ASSERT(en->all || (base > 0 && (en->http || en->https)));
	ASSERT(host > 0 && u->port > 0);
	if (!(u->https ? en->https : en->http) || (en->port != 0 && en->port != u->port))
		return false;
	if (en->all)
		return true;
	if (!en->below)
		return strcmp(en->host, u->host) == 0;
	return host > base + 1 && u->host[host - base - 1] == '.' && strcmp(u->host + host - base, en->host) == 0;
}

bool
hosts_allowed(const char *list, const HostUrl *u)
{
	const char *s;
	size_t		n;

	while ((s = next_entry(&list, &n)) != NULL)
	{
		HostAllowlistEntry en;

		if (take_entry(s, n, &en, NULL, 0) && entry_allows(&en, u))
			return true;
	}
	return false;
}

void
hosts_entry(const HostUrl *u, char *out, size_t size)
{
	bool		ipv6 = strchr(u->host, ':') != NULL;

	snprintf(out, size, "%s%s%s:%d", ipv6 ? "[" : "", u->host, ipv6 ? "]" : "", u->port);
}
