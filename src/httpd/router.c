/*
 * router.c
 *	  The table of routes (routes.def), and matching of paths.
 */
#include "httpd/router.h"

#include <string.h>

static const HttpRoute routes[] = {
#define X(methods, path, kind, streams, dialect) {methods, path, kind, streams, dialect},
#include "httpd/routes.def"
#undef X
};

#define N_ROUTES	(sizeof(routes) / sizeof(routes[0]))

/*
 * Return the length of the part of a path that a * matches.  A path filter before the server may decode
 * a path or not.  So the names in a route must be written without escapes, and only a * may match
 * escapes.  No escape may be a slash except in a model's name, where all slashes belong to the name.
 */
static size_t
star(bool names, const char *path)
{
	size_t		n = names ? strlen(path) : strcspn(path, "/");

	for (size_t i = 0; i + 2 < n && !names; i++)
		if (path[i] == '%' && path[i + 1] == '2' && (path[i + 2] == 'f' || path[i + 2] == 'F'))
			return 0;
	return n;
}

static bool
path_matches(const char *pattern, const char *path)
{
	bool		names = strcmp(pattern, "/v1/models/*") == 0;

	for (; *pattern != '\0'; pattern++)
	{
		if (*pattern == '*')
		{
			size_t		n = star(names, path);

			if (n == 0)
				return false;
			path += n;
		}
		else if (*pattern != *path++)
			return false;
	}
	return *path == '\0';
}

const HttpRoute *
route_find(const char *path)
{
	for (size_t i = 0; i < N_ROUTES; i++)
		if (path_matches(routes[i].path, path))
			return &routes[i];
	return NULL;
}

bool
route_allows(const HttpRoute *r, const char *method)
{
	size_t		len = strlen(method);

	for (const char *p = r->methods; *p != '\0';)
	{
		size_t		n = strcspn(p, " ");

		if (n == len && memcmp(p, method, n) == 0)
			return true;
		p += n + (p[n] == ' ');
	}
	/* HEAD is GET without the body */
	return strcmp(method, "HEAD") == 0 && strncmp(r->methods, "GET", 3) == 0;
}

int
route_number(const HttpRoute *r)
{
	return (int) (r - routes);
}

int
route_count(void)
{
	return (int) N_ROUTES;
}

const HttpRoute *
route_at(int i)
{
	return &routes[i];
}
