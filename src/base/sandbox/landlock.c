/*
 * landlock.c
 *	  A Landlock domain that grants no rights (landlock(7)).
 *
 * The constants are defined here because the headers of the build may be older than the kernel that runs
 * the program.  The kernel says by its ABI version which rights it knows.
 *
 * Tested by tests/unit/base/sandbox/test_seccomp.c, tests/t/011_confined.pl.
 */
#include "base/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* the same on all machines */
#define NR_CREATE_RULESET	444
#define NR_ADD_RULE			445
#define NR_RESTRICT_SELF	446

#define GET_VERSION			1U
#define PATH_BENEATH		1

#define FS_EXECUTE			(UINT64_C(1) << 0)
#define FS_MAKE_CHAR		(UINT64_C(1) << 6)
#define FS_MAKE_SOCK		(UINT64_C(1) << 9)
#define FS_MAKE_BLOCK		(UINT64_C(1) << 11)
#define FS_REFER			(UINT64_C(1) << 13) /* since ABI 2: link and rename into other directories */
#define NET_BIND_TCP		(UINT64_C(1) << 0)	/* since ABI 4 */

typedef struct Ruleset
{
	uint64_t	fs;
	uint64_t	net;
	uint64_t	scoped;
} Ruleset;

typedef struct __attribute__((packed)) PathBeneath
{
	uint64_t	allowed;
	int32_t		parent;
} PathBeneath;

/*
 * Allow FS_REFER everywhere.  A domain denies it even if the ruleset does not handle it, and the program
 * must be able to rename and link as before.
 */
static int
allow_refer(int ruleset)
{
	PathBeneath all = {.allowed = FS_REFER,.parent = open("/", O_PATH | O_CLOEXEC)};
	int			rc = 0;

	if (all.parent < 0)
		return errno;
	if (syscall(NR_ADD_RULE, ruleset, PATH_BENEATH, &all, 0) != 0)
		rc = errno;
	close(all.parent);
	return rc;
}

int
landlock_enter(void)
{
	Ruleset		r = {.fs = FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_SOCK | FS_MAKE_BLOCK};
	long		abi = syscall(NR_CREATE_RULESET, NULL, 0, GET_VERSION);
	int			rc = 0;
	int			fd;

	if (abi < 0)
		return errno;
	if (abi >= 2)
		r.fs |= FS_REFER;
	if (abi >= 4)
		r.net = NET_BIND_TCP;
	/* an older kernel ignores fields that it does not know as long as they are zero */
	fd = (int) syscall(NR_CREATE_RULESET, &r, sizeof(r), 0);
	if (fd < 0)
		return errno;
	if (abi >= 2)
		rc = allow_refer(fd);
	if (rc == 0 && syscall(NR_RESTRICT_SELF, fd, 0) != 0)
		rc = errno;
	close(fd);
	return rc;
}
