#!/usr/bin/env python3
"""Run a command with a time limit, and record its times.

    limit.py SECONDS NAME COMMAND...

Appends a line `NAME seconds cpu-seconds status` to build/check/times.  If a command takes longer than
SECONDS, the script kills it and all processes that it has started, and the status is 124.  Servers leave
their parent process when they start; this script becomes their parent, so that it counts their CPU seconds
and none of them outlives its test.
"""
import ctypes
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
LINGER = 5      # seconds in which the processes that a command leaves behind must end


def descendants():
    """Return the pids of this process's descendants."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb") as f:
                parents[int(pid)] = int(f.read().rpartition(b")")[2].split()[1])
        except OSError:
            pass
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def kill_all():
    for pid in descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def reap():
    """Return one child that has ended, as (pid, status); (0, 0) if none has ended; None if there is
    no child."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None


def wait_for(pid, deadline):
    """Return the exit status of pid, or 124 at the deadline."""
    nap = 0.002
    while time.monotonic() < deadline:
        ended = reap()
        if ended and ended[0] == pid:
            return os.waitstatus_to_exitcode(ended[1])
        if not ended or ended[0] == 0:
            time.sleep(nap)
            nap = min(nap * 1.3, 0.1)
    return 124


def end_the_rest():
    deadline = time.monotonic() + LINGER
    while (ended := reap()) is not None:
        if ended[0] == 0:
            if time.monotonic() > deadline:
                kill_all()
            time.sleep(0.05)


def main():
    limit, name, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            os.execvp(command[0], command)
        except OSError as e:
            print(f"{command[0]}: {e.strerror}", file=sys.stderr)
        os._exit(127)

    def interrupted(number, _):
        kill_all()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    status = wait_for(pid, begun + limit)
    if status == 124:
        print(f"FAILED {name}: it took longer than {limit:.0f} s")
        kill_all()
    took = time.monotonic() - begun
    end_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open("build/check/times", "a") as f:
        f.write(f"{name} {took:.1f} {used.ru_utime + used.ru_stime:.1f} {status}\n")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
