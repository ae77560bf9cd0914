/*
 * engine_syscalls.c
 *	  The system calls of the engine and its ranks, from engine_syscalls.def.
 *
 * Tested by tests/unit/base/sandbox/test_seccomp.c.
 */
#include "runtime/engine_syscalls.h"

#include "base/sandbox/seccomp_rules.h"
#include "runtime/devices.h"

const SeccompRule engine_syscalls[] = {
#include "runtime/engine_syscalls.def"
};

const size_t engine_n_syscalls = sizeof(engine_syscalls) / sizeof(engine_syscalls[0]);

/*
 * With a device the filter allows all calls but those that are never legal: drivers make calls that
 * change with their releases.
 */
bool
engine_confine(const Settings *s, Err *e)
{
	SeccompRules r = {engine_syscalls, engine_n_syscalls, devices_n() > 0};
	SeccompMode mode;

	if (!seccomp_parse_mode(s->seccomp, &mode))
		return err_set(e, ERR_INVALID, "invalid value \"%s\" for setting \"seccomp\"", s->seccomp);
	return seccomp_enter(&r, mode, e);
}
