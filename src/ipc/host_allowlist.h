/*
 * host_allowlist.h
 *	  vllm.allowed_hosts: the hosts that the remote program may connect to.  Used by both sides.
 *
 * A list, separated by commas or spaces, of  [scheme://]host[:port]  where host is a name, an IPv4
 * address, an IPv6 address in brackets, or *.name (any name below it, but not the name itself); case
 * does not matter.  Without a scheme both http and https are allowed; without a port any port.  "*"
 * alone allows every host, by https only.  An empty list allows nothing.
 */
#ifndef VLLM_IPC_HOST_ALLOWLIST_H
#define VLLM_IPC_HOST_ALLOWLIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct HostUrl
{
	bool		https;
	char		host[256];		/* lower case, without brackets */
	int			port;			/* 443 or 80 if the URL has none */
	const char *path;			/* points into the url: "", or begins with / or ?; includes the query */
} HostUrl;

/*
 * Parse an endpoint's base URL.  Returns false with the reason in why[]: scheme, user name, fragment,
 * control characters, port, host or length.
 */
bool		hosts_url(const char *url, HostUrl *u, char *why, size_t why_size);
/*
 * Return the length of a base URL of n bytes without its query and without slashes at the end of its
 * path.  The query is at url[*query]; *query = n if there is none.
 */
size_t		hosts_base(const char *url, size_t n, size_t *query);
/* Return true if the list is well-formed; else why[] names the bad entry. */
bool		hosts_list_ok(const char *list, char *why, size_t why_size);
bool		hosts_allowed(const char *list, const HostUrl *u);
/* Write the entry that would allow the URL: host:port. */
void		hosts_entry(const HostUrl *u, char *out, size_t size);

#endif
