/*
 * engine_syscalls.c
 *	  The system calls of the engine and its ranks, out of engine_syscalls.def.
 *
 * Tested by tests/unit/base/test_seccomp.c.
 */
#include "runtime/engine_syscalls.h"

#include "base/sandbox/seccomp_rules.h"
#include "runtime/devices.h"

const SeccompRule engine_syscalls[] = {
#include "runtime/engine_syscalls.def"
};

const size_t engine_n_syscalls = sizeof(engine_syscalls) / sizeof(engine_syscalls[0]);

/*
 * A device's driver makes calls that change with its releases: then all are allowed but those that are never
 * legal.
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
