/*
 * hub_name.c
 *	  Names of Hugging Face repositories given instead of a path (hub_name.h).
 *
 * Other engines download the repository that such a name denotes.  This engine downloads nothing, so the
 * error message gives the command with which the user can download it: vllm_pg_pull (client/vllm_pg_pull),
 * which also prints the path.
 *
 * Tested by tests/unit/ipc/test_hubname.c.
 */
#include "ipc/hub_name.h"

#include <stdio.h>
#include <string.h>

#define MAX_PART	96			/* longest name of an owner, and of a repository */
#define MAX_FILE	100

#define LETTERS		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Return the length of the name at s; 0 if it begins with a dot, as paths may, or is too long. */
static size_t
name_len(const char *s)
{
	size_t		n = s[0] == '.' ? 0 : strspn(s, LETTERS);

	return n > MAX_PART ? 0 : n;
}

/* Skip the prefix of a hub URL, if there is one; *web: the prefix is that of a web address. */
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
 * Return the length of the file name that follows a repository name and a slash, and set *file to its
 * start; 0 = no file, -1 = this is not a repository name.
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
	const char *more = "";		/* what follows the repository's name in the command */
	int			n = (int) name_len(repo);
	int			more_len = 0;

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
	if (*rest == ':')
	{
		more_len = 1 + (int) name_len(rest + 1);
		if (more_len == 1 || rest[more_len] != '\0')
			return false;
		more = rest;
	}
	else if (*rest == '/')
	{
		const char *file = rest + 1;
		int			f = file_len(&file, web);

		if (f < 0)
			return false;
		/* other files are no model without the rest of the repository */
		if (ends_in(file, (size_t) f, ".gguf"))
		{
			more = file - 1;
			more_len = f + 1;
		}
	}
	else if (*rest != '\0')
		return false;
	snprintf(out->command, sizeof(out->command), "vllm_pg_pull hf:%.*s%.*s", (int) (rest - repo), repo,
			 more_len, more);
	return true;
}
