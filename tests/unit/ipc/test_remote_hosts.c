/*
 * test_remote_hosts.c
 *	  vllm.allowed_hosts: which URLs are valid, and which of them the list allows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"
#include "ipc/host_allowlist.h"

/* Parse a copy of exactly this size, so that ASan finds reads beyond it. */
static bool
parse(const char *url, HostUrl *u, char *why, size_t size)
{
	static char *copy;
	bool		ok;

	free(copy);
	copy = strdup(url);
	why[0] = '\0';
	ok = hosts_url(copy, u, why, size);
	CHECK(ok == (why[0] == '\0'), "a reason exactly where it is refused: %s: %s", url, why);
	return ok;
}

static void
test_urls(void)
{
	static const struct
	{
		const char *url;
		bool		https;
		const char *host;
		int			port;
		const char *path;
	}			cases[] = {
		{"https://llm.example.com/v1", true, "llm.example.com", 443, "/v1"},
		{"http://llm.example.com/v1", false, "llm.example.com", 80, "/v1"},
		{"https://llm.example.com", true, "llm.example.com", 443, ""},
		{"https://llm.example.com/", true, "llm.example.com", 443, "/"},
		{"HTTPS://LLM.Example.COM/V1", true, "llm.example.com", 443, "/V1"},
		{"hTTp://a", false, "a", 80, ""},
		{"http://localhost:8000/v1", false, "localhost", 8000, "/v1"},
		{"http://a:1", false, "a", 1, ""}, {"http://a:65535/", false, "a", 65535, "/"},
		{"https://vllm_1.svc-2.cluster.local:8443/v1/", true, "vllm_1.svc-2.cluster.local", 8443, "/v1/"},
		{"http://127.0.0.1:80/", false, "127.0.0.1", 80, "/"},
		{"http://255.255.255.255", false, "255.255.255.255", 80, ""},
		{"http://0.0.0.0", false, "0.0.0.0", 80, ""},
		{"http://1.2.3.4.example", false, "1.2.3.4.example", 80, ""}, {"http://1a", false, "1a", 80, ""},
		{"http://0xg", false, "0xg", 80, ""}, {"http://1.2.3.4a", false, "1.2.3.4a", 80, ""},
		{"https://[::1]/v1", true, "::1", 443, "/v1"}, {"http://[::1]:8000", false, "::1", 8000, ""},
		{"http://[0:0:0:0:0:0:0:1]/", false, "::1", 80, "/"},
		{"http://[2001:DB8::00aF]", false, "2001:db8::af", 80, ""},
		{"http://[::ffff:127.0.0.1]", false, "::ffff:127.0.0.1", 80, ""},
		{"http://[::ffff:7f00:1]", false, "::ffff:127.0.0.1", 80, ""},
		{"https://xn--bcher-kva.example/v1", true, "xn--bcher-kva.example", 443, "/v1"},
		{"https://a/v1%20x/%7e;p=1/@b:c/$&'()*+,=!~.", true, "a", 443, "/v1%20x/%7e;p=1/@b:c/$&'()*+,=!~."},
		{"https://a//b", true, "a", 443, "//b"},
		{"https://a/v1?api-version=2024-10-21", true, "a", 443, "/v1?api-version=2024-10-21"},
		{"https://a:8443?x", true, "a", 8443, "?x"},
		{"https://a/?x=1&y=%2f%20,;:(~)!$'*+.", true, "a", 443, "/?x=1&y=%2f%20,;:(~)!$'*+."},
	};
	char		why[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		HostUrl		u;
		bool		ok = parse(cases[i].url, &u, why, sizeof(why));

		CHECK(ok, "%s: %s", cases[i].url, why);
		CHECK(u.https == cases[i].https && u.port == cases[i].port, "%s: %d, port %d", cases[i].url, u.https,
			  u.port);
		CHECK(strcmp(u.host, cases[i].host) == 0, "%s: host %s", cases[i].url, u.host);
		CHECK(ok && strcmp(u.path, cases[i].path) == 0, "%s: path %s", cases[i].url, ok ? u.path : "");
	}
}

static const struct
{
	const char *url;
	const char *why;		/* text that the error must contain */
}			no_urls[] = {
	{"", "begin with"}, {"https", "begin with"}, {"https:", "begin with"}, {"https:/a", "begin with"},
	{"https:a", "begin with"},
	{"//a", "begin with"}, {"a", "begin with"}, {"ftp://a", "begin with"},
	{"file:///etc/passwd", "begin with"},
	{"gopher://a:70/", "begin with"}, {"httpss://a", "begin with"}, {"xhttp://a", "begin with"},
	{" https://a", "spaces"},
	{"javascript:https://a", "begin with"}, {"unix:///run/x", "begin with"},
	{"https+unix://a", "begin with"},
	{"https://", "empty"}, {"https:///v1", "empty"}, {"https://:80", "empty"}, {"https://?", "empty"},
	{"https://good.example@evil.example/", "user names"}, {"https://u:p@evil.example/", "user names"},
	{"https://@a", "user names"},
	{"https://a:80@b", "user names"}, {"https://a%40b", "escaped"}, {"https://a#@b", "fragment"},
	{"https://a?@b", "query"},
	{"https://evil.example\\@good.example/", "backslash"}, {"https:\\\\a", "backslash"},
	{"https://a\\b", "backslash"},
	{"https://a/b\\c", "backslash"}, {"https:/\\a", "backslash"},
	{"https://a\tb", "control"}, {"https://a\n", "control"}, {"https://a/\r\nX: y", "control"},
	{"ht\ntps://a", "control"},
	{"https://a/\x01", "control"}, {"https://a/\x7f", "control"}, {"https://a b", "spaces"},
	{"https://a/b c", "spaces"}, {"https://a ", "spaces"},
	{"https://%31%32%37.0.0.1", "escaped"}, {"https://a%2eb", "escaped"},
	{"https://a%00.good.example", "escaped"},
	{"http://127.1", "four decimal"}, {"http://0x7f.1", "four decimal"},
	{"http://2130706433", "four decimal"},
	{"http://0x7f000001", "four decimal"}, {"http://017700000001", "four decimal"},
	{"http://0177.0.0.1", "four decimal"},
	{"http://127.0.0.01", "four decimal"}, {"http://127.0.0.0x1", "four decimal"},
	{"http://0X7F.0.0.1", "four decimal"},
	{"http://0", "four decimal"}, {"http://1.2.3", "four decimal"}, {"http://1.2.3.4.5", "four decimal"},
	{"http://256.1.1.1", "four decimal"},
	{"http://1.2.3.0x", "four decimal"}, {"http://a.1", "four decimal"},
	{"http://1.2.3.99999999999", "four decimal"},
	{"https://a.", "ends with a dot"}, {"https://a./v1", "ends with a dot"},
	{"https://a.:443", "ends with a dot"}, {"http://127.0.0.1.", "ends with a dot"},
	{"https://.a", "part of the host name is empty"}, {"https://a..b", "part of the host name is empty"},
	{"https://b\xc3\xbc" "cher.example", "ASCII"}, {"https://a\xe3\x80\x82" "b", "ASCII"},
	{"https://\xef\xbd\x81", "ASCII"},
	{"https://a\xc2\xad.example", "ASCII"}, {"https://a\xff", "ASCII"},
	{"http://[fe80::1%25eth0]", "zone"}, {"http://[fe80::1%eth0]", "zone"}, {"http://[::1", "not closed"},
	{"http://[]", "IPv6"},
	{"http://[::g]", "IPv6"}, {"http://[1.2.3.4]", "IPv6"}, {"http://[a.example]", "IPv6"},
	{"http://[::1]x", "only a port"},
	{"http://[::1].good.example", "only a port"}, {"http://[::1]]", "only a port"},
	{"http://::1", "brackets"}, {"http://::1/", "brackets"},
	{"http://1:2:3", "brackets"}, {"http://a[::1]", "brackets"}, {"http://[v1.x]", "IPv6"},
	{"http://[::1::]", "IPv6"},
	{"https://a:0", "port"}, {"https://a:65536", "port"}, {"https://a:", "port"},
	{"https://a:/v1", "port"}, {"https://a:99999", "port"},
	{"https://a:100000", "port"}, {"https://a:4294967376", "port"}, {"https://a:-1", "port"},
	{"https://a:+80", "port"},
	{"https://a:080", "port"}, {"https://a:8x", "port"}, {"https://a:0x50", "port"},
	{"https://a: 80", "spaces"}, {"http://[::1]:", "port"},
	{"http://[::1]:0", "port"},
	{"https://a?", "query is empty"}, {"https://a/?", "query is empty"}, {"https://a/v1?x/y", "query"},
	{"https://a/v1?x?y", "query"}, {"https://a/v1?x=@b", "query"},
	{"https://a/v1?x=\"", "query"}, {"https://a/v1?x[]", "query"}, {"https://a/v1?x=\xc3\xbc", "query"},
	{"https://a/v1?x#y", "fragment"}, {"https://a/v1?#", "fragment"},
	{"https://a/v1?x y", "spaces"}, {"https://a/v1?x\r\nY: z", "control"},
	{"https://a/v1?x\\", "backslash"}, {"https://a/v1?%4", "hexadecimal"},
	{"https://a/v1#x", "fragment"}, {"https://a#", "fragment"},
	{"https://*", "\"*\""}, {"https://*.example.com", "\"*\""}, {"https://a*b", "\"*\""},
	{"https://a,b", "not allowed"}, {"https://a;b", "not allowed"}, {"https://a&b", "not allowed"},
	{"https://a=b", "not allowed"},
	{"https://a!b", "not allowed"}, {"https://a\"b", "not allowed"}, {"https://{a,b}", "not allowed"},
	{"https://a|b", "not allowed"},
	{"https://<a>", "not allowed"}, {"https://a^b", "not allowed"}, {"https://a`b", "not allowed"},
	{"https://a]b", "not allowed"},
	{"https://a/<b>", "escaped"}, {"https://a/\"", "escaped"}, {"https://a/{b}", "escaped"},
	{"https://a/[1-9]", "escaped"}, {"https://a/|", "escaped"},
	{"https://a/\xc3\xbc", "escaped"}, {"https://a/^`", "escaped"},
	{"https://a/%", "hexadecimal"}, {"https://a/%4", "hexadecimal"}, {"https://a/%4g", "hexadecimal"},
	{"https://a/%zz", "hexadecimal"},
};

/* URLs that could be taken for another host, and invalid ones. */
static void
test_refused(void)
{
	char		why[256];
	HostUrl		u;

	for (size_t i = 0; i < sizeof(no_urls) / sizeof(no_urls[0]); i++)
	{
		bool		ok = parse(no_urls[i].url, &u, why, sizeof(why));

		CHECK(!ok && strstr(why, no_urls[i].why) != NULL, "%s: %s", no_urls[i].url, ok ? "taken" : why);
		CHECK(strstr(why, "u:p") == NULL && strstr(why, "evil") == NULL, "the reason repeats nothing: %s",
			  why);
		CHECK(!hosts_url(no_urls[i].url, &u, NULL, 0), "without a place for the reason");
	}
}

static void
test_lengths(void)
{
	char		url[4096],
				label[65],
				why[256],
				small[8];
	HostUrl		u;

	memset(label, 'a', 64);
	label[63] = '\0';
	snprintf(url, sizeof(url), "https://%s.b", label);
	CHECK(parse(url, &u, why, sizeof(why)) && strlen(u.host) == 65, "63 characters: %s", why);
	label[63] = 'a';
	label[64] = '\0';
	snprintf(url, sizeof(url), "https://%s.b", label);
	CHECK(!parse(url, &u, why, sizeof(why)) && strstr(why, "63") != NULL, "64 characters: %s", why);
	snprintf(url, sizeof(url), "https://b.%s", label);
	CHECK(!parse(url, &u, why, sizeof(why)) && strstr(why, "63") != NULL, "64 characters: %s", why);
	label[63] = '\0';
	snprintf(url, sizeof(url), "https://%s.%s.%s.%.61s/v1", label, label, label, label);
	CHECK(parse(url, &u, why, sizeof(why)) && strlen(u.host) == 253, "253 characters: %s", why);
	snprintf(url, sizeof(url), "https://%s.%s.%s.%.62s/v1", label, label, label, label);
	CHECK(!parse(url, &u, why, sizeof(why)) && strstr(why, "253") != NULL, "254 characters: %s", why);
	memset(url, 'a', sizeof(url) - 1);
	memcpy(url, "https://a/", 10);
	url[2048] = '\0';
	CHECK(parse(url, &u, why, sizeof(why)), "2048 characters: %s", why);
	url[2048] = 'a';
	url[2049] = '\0';
	CHECK(!parse(url, &u, why, sizeof(why)) && strstr(why, "2048") != NULL, "2049 characters: %s", why);
	memset(url + 2048, 'a', 2000);
	memcpy(url, "https://aa", 10);
	url[1000] = '\0';
	CHECK(!parse(url, &u, why, sizeof(why)), "a long host");
	/* a small buffer for the reason is not overrun */
	memset(small, 'x', sizeof(small));
	CHECK(!hosts_url("ftp://a", &u, small, 4) && small[3] == '\0' && small[4] == 'x',
		  "terminated in its place");
}

static bool
allowed(const char *list, const char *url)
{
	HostUrl		u;
	char		why[256];

	CHECK(hosts_url(url, &u, why, sizeof(why)), "%s: %s", url, why);
	return hosts_allowed(list, &u);
}

static void
test_allowed(void)
{
	static const struct
	{
		const char *list;
		const char *url;
		bool		want;
	}			cases[] = {
		{"", "https://a", false}, {" , ,", "https://a", false},
		{"a", "https://a", true}, {"a", "http://a", true}, {"a", "https://a:8443/x", true},
		{"a", "https://b", false}, {"a", "https://a.a", false},
		{"a", "https://aa", false}, {"aa", "https://a", false},
		{"A.Example", "https://a.EXAMPLE", true},
		{"a:443", "https://a", true}, {"a:443", "http://a", false}, {"a:443", "http://a:443", true},
		{"a:80", "http://a", true}, {"a:80", "https://a", false},
		{"https://a", "https://a:8443", true}, {"https://a", "http://a", false},
		{"https://a", "http://a:443", false}, {"http://a", "https://a", false},
		{"HTTPS://a:8443", "https://a:8443", true}, {"https://a:8443", "https://a", false},
		{"https://a:8443", "http://a:8443", false},
		{"b,a", "https://a", true}, {"b a", "https://a", true}, {"b , a ,", "https://a", true},
		{"b;a", "https://a", false}, {"b\n\ta", "https://a", true},
		{"*.example.com", "https://a.example.com", true}, {"*.example.com", "https://a.b.EXAMPLE.com", true},
		{"*.example.com", "https://example.com", false}, {"*.example.com", "https://badexample.com", false},
		{"*.example.com", "https://example.com.evil", false}, {"*.example.com", "https://a.example.com.evil",
															   false},
		{"*.example.com", "https://evil-example.com", false},
		{"*.Example.COM:8000", "http://x.example.com:8000", true},
		{"*.example.com:8000", "http://x.example.com:8001", false},
		{"https://*.example.com", "http://x.example.com", false},
		{"https://*.example.com", "https://x.example.com", true},
		{"*", "https://a", true}, {"*", "https://a:99", true}, {"*", "https://[::1]", true},
		{"*", "http://a", false}, {"*", "http://a:443", false},
		{"* http://a", "http://a", true}, {"* http://a", "http://b", false}, {"b, *", "https://a", true},
		{"127.0.0.1", "http://127.0.0.1:8000", true}, {"127.0.0.1", "http://localhost", false},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]", false},
		{"localhost", "http://127.0.0.1", false}, {"127.0.0.1", "http://127.0.0.2", false},
		{"[::1]", "http://[::1]:8000", true}, {"[0:0::1]:8000", "http://[::1]:8000", true},
		{"[::1]:8000", "http://[::1]", false},
		{"http://[2001:DB8::1]", "http://[2001:db8:0::1]", true},
		/* a malformed entry allows nothing, and does not affect its neighbours */
		{"*.0.0.1", "http://127.0.0.1", false}, {"*.", "https://a.", false}, {"a:0, b", "https://b", true},
		{"a:0, b", "https://a", false},
		{"a/", "https://a", false}, {"*.*.com", "https://a.b.com", false}, {"a*", "https://ab", false},
		{"user@a", "https://a", false},
		{"ftp://a", "https://a", false}, {"://a", "https://a", false}, {"https://", "https://a", false},
		{"127.1", "http://127.0.0.1", false},
		{"https://*", "https://a", false}, {"*:443", "https://a", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		HostUrl		u;

		if (cases[i].want || hosts_url(cases[i].url, &u, NULL, 0))
			CHECK(allowed(cases[i].list, cases[i].url) == cases[i].want, "\"%s\", %s", cases[i].list,
				  cases[i].url);
	}
	CHECK(!hosts_allowed(NULL, &(HostUrl) {.https = true, .host = "a", .port = 443}), "no list");
}

static void
test_lists(void)
{
	static const char *const good[] = {
		"", " ", ",", "a", "a,b", "a b", "a, b , https://c:1", "*", "*.a", "*.a:1", "https://*.a.b:65535",
		"[::1]", "[::1]:1", "http://[::1]:1", "1.2.3.4", "1.2.3.4:5", "LOCALHOST", "a_b-c.d", "*,http://a",
	};
	static const struct
	{
		const char *list;
		const char *entry;
	}			wrong[] = {
		{"a, b/v1, c", "\"b/v1\""}, {"https://a/", "\"https://a/\""}, {"*.", "\"*.\""},
		{"a.*.b", "\"a.*.b\""}, {"a*", "\"a*\""}, {"**", "\"**\""},
		{"*.*.a", "\"*.*.a\""}, {"*a", "\"*a\""}, {"*:443", "\"*:443\""}, {"https://*", "\"https://*\""},
		{"http://*", "\"http://*\""},
		{"*.[::1]", "\"*.[::1]\""}, {"*.1.2.3.4", "\"*.1.2.3.4\""}, {"*.0.0.1", "\"*.0.0.1\""},
		{"a;b", "\"a;b\""}, {"::1", "\"::1\""},
		{"[::1", "\"[::1\""}, {"a:0", "\"a:0\""}, {"a:65536", "\"a:65536\""}, {"a:", "\"a:\""},
		{"ftp://a", "\"ftp://a\""}, {"://a", "\"://a\""},
		{"http://https://a", "\"http://https://a\""}, {"u@a", "\"u@a\""}, {"a.", "\"a.\""}, {".a", "\".a\""},
		{"127.1", "\"127.1\""},
		{"b\xc3\xbc", "\"b\xc3\xbc\""}, {"a,b,'c'", "\"'c'\""}, {"a?", "\"a?\""},
		{"10.0.0.0/8", "\"10.0.0.0/8\""}, {"[fe80::1%eth0]", "\"[fe80::1%eth0]\""},
	};
	char		why[256],
				list[300];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		why[0] = '\0';
		CHECK(hosts_list_ok(good[i], why, sizeof(why)), "%s: %s", good[i], why);
	}
	CHECK(hosts_list_ok(NULL, why, sizeof(why)), "no list");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		bool		ok = hosts_list_ok(wrong[i].list, why, sizeof(why));

		CHECK(!ok && strstr(why, wrong[i].entry) == why && strstr(why, ": ") != NULL, "%s: %s", wrong[i].list,
			  ok ? "taken" : why);
	}
	memset(list, 'a', sizeof(list) - 1);
	list[sizeof(list) - 1] = '\0';
	CHECK(!hosts_list_ok(list, why, sizeof(why)) && strstr(why, "...") != NULL, "a long one is cut: %s", why);
}

/* hosts_entry() returns the entry that would allow the URL. */
static void
test_entry(void)
{
	static const char *const urls[][2] = {
		{"https://A.example/v1", "a.example:443"}, {"http://a", "a:80"},
		{"http://127.0.0.1:8000/", "127.0.0.1:8000"}, {"https://[0::1]", "[::1]:443"},
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
	{
		HostUrl		u;
		char		why[256],
					entry[300];

		CHECK(hosts_url(urls[i][0], &u, why, sizeof(why)), "%s", why);
		hosts_entry(&u, entry, sizeof(entry));
		CHECK(strcmp(entry, urls[i][1]) == 0, "%s: %s", urls[i][0], entry);
		CHECK(hosts_list_ok(entry, why, sizeof(why)) && hosts_allowed(entry, &u), "%s allows %s", entry,
			  urls[i][0]);
	}
}

/* Whatever a changed byte makes of a URL: the parsed host has no byte with a special meaning. */
static void
test_damage(void)
{
	const char	url[] = "https://a.example.com:8443/v1";
	int			wrong = 0;

	for (size_t i = 0; i < sizeof(url) - 1; i++)
		for (int c = 1; c < 256; c++)
		{
			char		changed[sizeof(url)],
						again[400],
						entry[300];
			HostUrl		u,
						v;

			memcpy(changed, url, sizeof(url));
			changed[i] = c;
			if (!hosts_url(changed, &u, NULL, 0))
				continue;
			wrong += u.port < 1 || u.port > 65535 ||
				strspn(u.host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != strlen(u.host);
			/* written out again it is the same */
			hosts_entry(&u, entry, sizeof(entry));
			snprintf(again, sizeof(again), "%s://%s%s", u.https ? "https" : "http", entry, u.path);
			wrong += !hosts_url(again, &v, NULL, 0) || v.https != u.https || v.port != u.port ||
				strcmp(v.host, u.host) != 0;
		}
	CHECK(wrong == 0, "%d of them", wrong);
}

int
main(void)
{
	RUN(test_urls());
	RUN(test_refused());
	RUN(test_lengths());
	RUN(test_allowed());
	RUN(test_lists());
	RUN(test_entry());
	RUN(test_damage());
	return check_done("test_remote_hosts");
}
