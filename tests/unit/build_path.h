/*
 * build_path.h
 *	  Files of the build that a test program belongs to.
 */
#ifndef VLLM_TESTS_BUILD_PATH_H
#define VLLM_TESTS_BUILD_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Store the path of NAME in the build folder of this program, build/X/tests/..., in to.  Returns false,
 * with to = NAME, if the program is in another place.
 */
static inline bool
build_path(char *to, size_t size, const char *name)
{
	char		self[PATH_MAX];
	ssize_t		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char	   *tests;

	self[n > 0 ? n : 0] = '\0';
	tests = strstr(self, "/tests/");
	for (char *next = tests; next != NULL; next = strstr(next + 1, "/tests/"))
		tests = next;
	if (tests != NULL)
		*tests = '\0';
	return snprintf(to, size, "%s%s%s", tests != NULL ? self : "", tests != NULL ? "/" : "",
					name) < (int) size && tests != NULL;
}

#endif
