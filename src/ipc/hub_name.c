/*
 * hub_name.c
 *	  Names of Hugging Face's repositories where a path is wanted (hub_name.h).
 *
 * Other engines download what such a name stands for.  Nothing is downloaded here, so an error that is about
 * one says by which command its user gets it.
 *
 * Tested by tests/unit/ipc/test_hubname.c.
 */
#include "ipc/hub_name.h"

#include <stdio.h>
#include <string.h>

#define MAX_PART	96			/* of an owner's name, and of a repository's */
#define MAX_FILE	100

#define LETTERS		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Characters of a name that begins with none of a path's dots. */
static size_t
name_len(const char *s)
{
	size_t		n = s[0] == '.' ? 0 : strspn(s, LETTERS);

	return n > MAX_PART ? 0 : n;
}

/* Behind what says that it is the hub's; *web: as a browser's address. */
static const char *
without_prefix(const char *s, bool *web)
{
	static const char *const prefixes[] = {
		"https://huggingface.co/", "http://huggingface.co/", "huggingface.co/", "https://hf.co/", "hf.co/",
		"hf://"
	};

	*web = false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
	{
		if (strncmp(s, prefixes[i], strlen(prefixes[i])) != 0)
			continue;
		*web = i < 5;
		return s + strlen(prefixes[i]);
	}
	return s;
}

static bool
ends_in(const char *s, size_t n, const char *end)
{
	return n > strlen(end) && memcmp(s + n - strlen(end), end, strlen(end)) == 0;
}

/*
 * The length of the file's name behind a repository and a slash, from *file on; 0: none; -1: that is no
 * repository's name.
 */
static int
file_len(const char **file, bool web)
{
	const char *s = *file;
	size_t		n;

	if (web && strncmp(s, "tree/", 5) == 0)
		return 0;
	if (web && (strncmp(s, "blob/", 5) == 0 || strncmp(s, "resolve/", 8) == 0))
	{
		s = strchr(strchr(s, '/') + 1, '/');
		if (s == NULL)
			return 0;
		s++;
	}
	n = strcspn(s, web ? "?" : "");
	if (n == 0 && web)
		return 0;
	if (n > MAX_FILE || strspn(s, LETTERS "/") < n ||
		(!web && !ends_in(s, n, ".gguf") && !ends_in(s, n, ".safetensors")))
		return -1;
	*file = s;
	return (int) n;
}

bool
hub_name(const char *s, bool bare, HubName *out)
{
	bool		web;
	const char *repo = without_prefix(s, &web);
	const char *name = repo;
	const char *rest;
	int			n = (int) name_len(repo);
	int			len;

	bare = bare || repo != s;
	if (n > 0 && repo[n] == '/' && name_len(repo + n + 1) > 0)
	{
		name = repo + n + 1;
		n = (int) name_len(name);
	}
	else if (n == 0 || !bare || (repo[n] != '\0' && repo[n] != ':') ||
			 (repo == s && ends_in(repo, (size_t) n, ".gguf")))
		return false;
	rest = name + n;
	len = (int) (rest - repo);
	if (*rest == ':')
	{
		int			q = (int) name_len(rest + 1);

		if (q == 0 || rest[1 + q] != '\0')
			return false;
		snprintf(out->command, sizeof(out->command),
				 "hf download %.*s --include '*%s*.gguf' --local-dir /models/%.*s", len, repo, rest + 1, n,
				 name);
	}
	else if (*rest == '/')
	{
		const char *file = rest + 1;
		int			f = file_len(&file, web);

		if (f < 0)
			return false;
		snprintf(out->command, sizeof(out->command), "hf download %.*s %.*s%s--local-dir /models/%.*s",
				 len, repo, f, file, f > 0 ? " " : "", n, name);
		snprintf(out->path, sizeof(out->path), "/models/%.*s%s%.*s", n, name, f > 0 ? "/" : "", f, file);
		return true;
	}
	else if (*rest == '\0')
		snprintf(out->command, sizeof(out->command), "hf download %.*s --local-dir /models/%.*s", len, repo,
				 n, name);
	else
		return false;
	snprintf(out->path, sizeof(out->path), "/models/%.*s", n, name);
	return true;
}
