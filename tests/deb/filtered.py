#!/usr/bin/env python3
"""Run a program with the filters of system calls that systemd makes of a unit's SystemCallFilter and
MemoryDenyWriteExecute.

	filtered.py --has CALL ...				the calls that the filter does not allow
	filtered.py ROOT UID PROGRAM ARG ...	runs it in ROOT as the user UID; needs the package python3-seccomp

The unit is packaging/systemd/vllm_pg.conf; `systemd-analyze syscall-filter` tells the members of sets.
"""
import os
import re
import subprocess
import sys

UNIT = "packaging/systemd/vllm_pg.conf"


def sets():
    out = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    found, members = {}, None
    for line in re.sub(r"\x1b\[[0-9;]*m", "", out).split("\n"):
        if line.startswith(("@", "# @")):
            members = found.setdefault(line.strip("# ").split()[0], [])
        elif line.startswith("    ") and members is not None and "#" not in line:
            members.append(line.split()[0])
    return found


def allowed():
    known = sets()

    def calls(name):
        return set().union(*(calls(m) for m in known[name])) if name in known else {name}

    with open(UNIT, encoding="utf-8") as h:
        words = " ".join(re.findall(r"^SystemCallFilter=(.*)", h.read(), re.M)).split()
    # systemd adds @default to every list
    return set().union(*(calls(w) for w in words + ["@default"]))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--has":
        print("\n".join(sorted(set(sys.argv[2:]) - allowed())), end="")
        return
    import seccomp          # of Debian's Python only; --has does without
    calls, uid = allowed(), int(sys.argv[2])
    f = seccomp.SyscallFilter(seccomp.ERRNO(1))
    for call in calls:
        try:
            f.add_rule(seccomp.ALLOW, call)
        except (ValueError, RuntimeError):
            pass            # of another architecture
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    # memory that can be written and executed, as systemd denies it
    w_xor_x = seccomp.SyscallFilter(seccomp.ALLOW)
    w_xor_x.add_rule(seccomp.ERRNO(1), "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, 6, 6))
    for call in ("mprotect", "pkey_mprotect"):
        w_xor_x.add_rule(seccomp.ERRNO(1), call, seccomp.Arg(2, seccomp.MASKED_EQ, 4, 4))
    for each in (w_xor_x, f):
        each.set_attr(seccomp.Attr.CTL_NNP, True)
        each.load()
    os.execv(sys.argv[3], sys.argv[3:])


main()
