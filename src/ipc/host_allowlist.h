/*
 * host_allowlist.h
 *	  vllm.allowed_hosts: whom the remote program may talk to.  Read by both sides.
 *
 * A list, separated by commas or spaces, of  [scheme://]host[:port]  where host is a name, an IPv4 address,
 * an IPv6 address in brackets, or *.name (any name below it, not itself); case does not matter.  Without a
 * scheme http and https are allowed; without a port any.  "*" alone allows every host, by https only.  An
 * empty list allows nothing.
 */
#ifndef VLLM_IPC_HOST_ALLOWLIST_H
#define VLLM_IPC_HOST_ALLOWLIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct HostUrl
{
	bool		https;
	char		host[256];		/* lower case, without brackets */
	int			port;			/* 443 or 80 where none is given */
	const char *path;			/* in the url, "" or begins with / or ?: the query is behind it */
} HostUrl;

/*
 * Take an endpoint's base URL apart.  False: why[] says what is wrong: scheme, user names, fragment, control
 * characters, port, host, length.
 */
bool		hosts_url(const char *url, HostUrl *u, char *why, size_t why_size);
/*
 * The length of a base URL of n bytes without slashes at its path's end and without its query, which is from
 * url[*query] on (n: there is none).
 */
size_t		hosts_base(const char *url, size_t n, size_t *query);
/* Is the list well-formed?  False: why[] names the entry. */
bool		hosts_list_ok(const char *list, char *why, size_t why_size);
bool		hosts_allowed(const char *list, const HostUrl *u);
/* The entry that would allow it: host:port. */
void		hosts_entry(const HostUrl *u, char *out, size_t size);

#endif
