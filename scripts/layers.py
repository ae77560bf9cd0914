#!/usr/bin/env python3
"""Do the includes of src/ point down, and are its folders small?  The rules are in scripts/layers.txt.

	layers.py			prints each offence
	layers.py --counts	prints files, lines, largest folders, upward includes and cycles

A folder and its own sub-folders may include each other: sched/ needs core_internal.h, and the core needs
sched.  The counts show the cycles of folders with and without these includes.
"""
import collections
import os
import re
import sys

from tree import TOP, files as tree_files, read

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)
CODE = (".c", ".h", ".def")
LARGEST = 30
LONGEST = 10000
# the kinds of files that people write in a folder of tests
TESTS = CODE + (".cu", ".cuh", ".py", ".pl", ".pm", ".sh", ".sql", ".spec")


def read_rules(path):
    """Return (allowed, rank among siblings, files with more rights, large folders, long folders); exit if a
    line is not understood."""
    allowed, rank, files, large, long = {}, {}, {}, {}, {}
    for n, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        head, _, rest = line.partition(":")
        names = rest.split()
        if head.startswith("order "):
            for i, name in enumerate(names):
                rank[f"{head[6:]}/{name}"] = i
        elif head.startswith("file "):
            files[head[5:]] = set(names)
        elif head.startswith("large "):
            large[head[6:]] = rest.strip()
        elif head.startswith("long "):
            long[head[5:]] = rest.strip()
        else:
            unknown = [name for name in names if name not in allowed]
            if unknown:
                sys.exit(f"{path}:{n}: {head} names {unknown[0]}, which no line before it is of")
            allowed[head] = set(names)
    return allowed, rank, files, large, long


def code_files():
    return [f[4:] for f in tree_files("src") if f.endswith(CODE)]


def target(include):
    """Return the file that an include names, in src/ or kernels/; None if it is a library's or
    PostgreSQL's."""
    if os.path.exists(os.path.join(TOP, "src", include)):
        return include
    if os.path.exists(os.path.join(TOP, "kernels", include)):
        return "kernels/" + include
    return None


def sibling_pair(a, b):
    """Return the two folders at which the paths of a and b part, below a common folder; None if one is
    above the other."""
    a, b = a.split("/"), b.split("/")
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "/".join(a[:i + 1]), "/".join(b[:i + 1])
    return None


def offence(file, inc, rules):
    allowed, rank, files, _, _ = rules
    here, there = os.path.dirname(file), os.path.dirname(inc)
    if inc in files.get(file, ()):
        return None
    pair = sibling_pair(here, there)
    if pair is None:
        return None
    mine, other = pair
    if "/" not in mine:
        return None if other in allowed.get(mine, ()) else f"{mine} may not include {other}"
    if mine in rank and other in rank:
        return None if rank[other] < rank[mine] else f"{other} is above {mine}"
    return f"no line says that {mine} may include {other}"


def circles(graph):
    """Return the groups of nodes that reach one another (Tarjan's algorithm)."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while not group or group[-1] != v:
                group.append(stack.pop())
                on.discard(group[-1])
            if len(group) > 1:
                out.append(sorted(group))

    sys.setrecursionlimit(10000)
    for v in sorted(graph):
        if v not in index:
            visit(v)
    return out


def folder_circles(graph, with_parents):
    """Return the cycles of folders; without parents: an include between a folder and one below it does not
    count."""
    folders = collections.defaultdict(set)
    for f, includes in graph.items():
        for inc in includes:
            a, b = os.path.dirname(f), os.path.dirname(inc)
            if a != b and (with_parents or sibling_pair(a, b) is not None):
                folders[a].add(b)
    return circles(folders)


def sizes(files):
    """Return the files and lines of each folder."""
    count, lines = collections.Counter(), collections.Counter()
    for f in files:
        count[os.path.dirname(f)] += 1
        lines[os.path.dirname(f)] += read(f).count("\n")
    return count, lines


def too_large(large, long):
    """Return the folders of src/, kernels/ and tests/ with too many files or lines, and exceptions that are
    no longer needed."""
    count, lines = sizes(["src/" + f for f in code_files()] + tree_files("kernels") + [f for f in tree_files("tests") if f.endswith(TESTS)])
    found = [f"{d}: {n} files, over {LARGEST}" for d, n in sorted(count.items()) if n > LARGEST and d not in large]
    found += [f"{d}: {n} lines, over {LONGEST}" for d, n in sorted(lines.items()) if n > LONGEST and d not in long]
    found += [f"{d} is small: it needs no line in layers.txt" for d in large if count[d] <= LARGEST]
    return found + [f"{d} is short: it needs no line in layers.txt" for d in long if lines[d] <= LONGEST]


def main():
    figures = sys.argv[1:] == ["--counts"]
    if sys.argv[1:] and not figures:
        sys.exit(__doc__)
    rules = read_rules(os.path.join(TOP, "scripts", "layers.txt"))
    upward, found = [], []
    graph, folders, lines, lines_in = collections.defaultdict(set), collections.Counter(), 0, collections.Counter()
    names = collections.defaultdict(list)
    for f in code_files():
        text = read("src/" + f)
        lines += text.count("\n")
        folders[os.path.dirname(f)] += 1
        lines_in[os.path.dirname(f)] += text.count("\n") * ("_tables" not in f)
        names[os.path.basename(f)].append(f)
        for mo in INCLUDE.finditer(text):
            inc = target(mo.group(1))
            if inc is None:
                continue
            graph[f].add(inc)
            why = offence(f, inc, rules)
            if why:
                upward.append(f"src/{f}: {inc}: {why}")
    found += upward
    rings = circles(graph)
    found += ["circle of includes: " + " ".join(r) for r in rings]
    found += too_large(*rules[3:])
    found += [f"two files of one name: {' '.join(fs)}" for b, fs in sorted(names.items()) if len(fs) > 1 and b != "main.c"]
    if figures:
        print(f"{sum(folders.values())} files, {lines} lines, {len(folders)} folders; {len(upward)} includes upward, {len(rings)} circles of files")
        print(f"circles of folders: {len(folder_circles(graph, False))}; {len(folder_circles(graph, True))} where a folder and those below it count, too")
        print("largest: " + ", ".join(f"{d} {n}" for d, n in folders.most_common(5)))
        print("most lines: " + ", ".join(f"{d} {n}" for d, n in lines_in.most_common(5)))
        return
    print("\n".join(found), end="\n" if found else "")


main()
