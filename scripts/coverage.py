#!/usr/bin/env python3
"""Lines of src/ that the suite's C programs cover: as the nightly tier runs them, compared with check-full.

	coverage.py [--jobs N] [--limit SECONDS] [--minutes N] [--without NAME,...]

Builds the programs with --coverage (make COV=1, build/cov) and runs each without sanitizers, with all
arguments, with TEST_EFFORT=3.  Programs whose tests use the effort (check_effort() of tests/unit/check.h)
run once more with TEST_EFFORT=2.  For all others both tiers are equal: check-full runs each program once,
plain or under a sanitizer.  Programs with two runs come first, goldens last; after --minutes the script
starts no further one.  Prints the sums, the files with the largest differences, and what was left out;
build/cov/lines.json has all files.
"""
import collections
import concurrent.futures
import gzip
import json
import os
import shutil
import subprocess
import sys
import time

from tree import TOP

COV = os.path.join(TOP, "build", "cov")
LEFT_OUT = {"kernels/conform"}      # tests only kernels, which the coverage does not count
STRIP = str(len(COV.strip("/").split("/")))


def programs():
    names = subprocess.run(["make", "-s", "COV=1", "list-tests"], cwd=TOP, check=True, capture_output=True, text=True)
    return sorted(set(names.stdout.split()))


def asks_effort(program):
    """Return true if the program's tests look at TEST_EFFORT."""
    source = os.path.join(TOP, "tests", program.removesuffix("_device") + ".c")
    text = open(source, encoding="utf-8").read()
    folder = os.path.dirname(source)
    for line in text.split("\n"):
        if line.startswith('#include "tests/') and "check" not in line:
            path = os.path.join(TOP, line.split('"')[1])
            if os.path.dirname(path) == folder:
                text += open(path, encoding="utf-8").read()
    return "check_effort(" in text


def run(program, effort, folder, limit, until):
    if time.monotonic() > until:
        return "no time"
    env = dict(os.environ, TEST_EFFORT=str(effort), FULL="1", GCOV_PREFIX=os.path.join(COV, folder), GCOV_PREFIX_STRIP=STRIP)
    log = os.path.join(COV, folder + "-" + program.replace("/", "-") + ".log")
    with open(log, "wb") as out:
        p = subprocess.Popen([os.path.join(COV, "tests", program)], cwd=TOP, env=env, stdout=out, stderr=out,
                             stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            return p.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, 9)
            p.wait()
            return "more than %d s" % limit


def lines_of(folder):
    """Return {file of src: {line: covered}} from the data in build/cov/FOLDER."""
    found = collections.defaultdict(dict)
    root = os.path.join(COV, folder)
    out = os.path.join(COV, "gcov")
    for d, _, files in os.walk(root):
        for f in files:
            if not f.endswith(".gcda"):
                continue
            notes = os.path.join(COV, os.path.relpath(d, root), f[:-5] + ".gcno")
            if not os.path.exists(notes):
                continue
            shutil.rmtree(out, ignore_errors=True)
            os.makedirs(out)
            shutil.copy(notes, out)
            shutil.copy(os.path.join(d, f), out)
            subprocess.run(["gcov", "--json-format", f], cwd=out, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for g in os.listdir(out):
                if not g.endswith(".gcov.json.gz"):
                    continue
                for part in json.load(gzip.open(os.path.join(out, g)))["files"]:
                    name = os.path.normpath(part["file"]).removeprefix(TOP + "/")
                    if name.startswith("src/"):
                        lines = found[name]
                        for x in part["lines"]:
                            n = x["line_number"]
                            lines[n] = lines.get(n, False) or x["count"] > 0
    return found


def both(a, b):
    out = {f: dict(lines) for f, lines in a.items()}
    for f, lines in b.items():
        to = out.setdefault(f, {})
        for n, hit in lines.items():
            to[n] = to.get(n, False) or hit
    return out


def covered(found):
    return sum(sum(lines.values()) for lines in found.values())


def option(name, otherwise):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


def main():
    if "--help" in sys.argv:
        sys.exit(__doc__)
    limit = int(option("--limit", "300"))
    left = {name: "by --without" for name in option("--without", "").split(",") if name}
    left.update({name: "kernels alone" for name in LEFT_OUT})
    all_programs = [p for p in programs() if p not in left]
    jobs = ["nice", "-n", "19", "make", "-s", "-k", "-j" + option("--jobs", "2"), "COV=1", "engine", "remote"]
    subprocess.run(jobs + [os.path.join("build/cov/tests", p) for p in all_programs], cwd=TOP)
    for p in all_programs[:]:
        if not os.path.exists(os.path.join(COV, "tests", p)):
            left[p] = "not built"
            all_programs.remove(p)
    for folder in ("same", "night", "full"):
        shutil.rmtree(os.path.join(COV, folder), ignore_errors=True)
    effort = {p for p in all_programs if asks_effort(p)}
    work = [(p, 3, "night" if p in effort else "same") for p in all_programs] + [(p, 2, "full") for p in sorted(effort)]
    work.sort(key=lambda w: (w[0] not in effort, w[0].startswith("golden/"), w[0]))
    until = time.monotonic() + 60 * float(option("--minutes", "600"))
    with concurrent.futures.ThreadPoolExecutor(int(option("--jobs", "2"))) as pool:
        ends = {pool.submit(run, p, e, folder, limit, until): (p, e) for p, e, folder in work}
        for end in concurrent.futures.as_completed(ends):
            if end.result() != 0:
                left["%s (TEST_EFFORT=%d)" % ends[end]] = "status %s" % end.result()
    same = lines_of("same")
    night, full = both(same, lines_of("night")), both(same, lines_of("full"))
    lines = sum(len(x) for x in both(night, full).values())
    print(f"{len(all_programs)} programs, {len(effort)} of them depend on TEST_EFFORT: {' '.join(sorted(effort))}")
    print(f"lines {lines}, covered every night {covered(night)}, in check-full {covered(full)}")
    rows = []
    for f in sorted(set(night) | set(full)):
        a, b = night.get(f, {}), full.get(f, {})
        only_a = sorted(n for n in a if a[n] and not b.get(n, False))
        only_b = sorted(n for n in b if b[n] and not a.get(n, False))
        if only_a or only_b:
            rows.append((len(only_a), f, only_a, only_b))
    for n, f, only_a, only_b in sorted(rows, reverse=True):
        print(f"{f}: only every night {only_a}, only in check-full {only_b}")
    for name, why in sorted(left.items()):
        print(f"left out or ended: {name}: {why}")
    with open(os.path.join(COV, "lines.json"), "w", encoding="utf-8") as out:
        json.dump({f: {"lines": len(night.get(f, {}) or full.get(f, {})), "night": sum(night.get(f, {}).values()),
                       "full": sum(full.get(f, {}).values())} for f in sorted(set(night) | set(full))}, out, indent=1)


main()
