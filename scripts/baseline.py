#!/usr/bin/env python3
"""House rules that some code still breaks: scripts/baseline.txt has the number of offences of each rule,
which may only become smaller.  A rule that is made stricter gets a new name.

	baseline.py			prints the rules with more offences than that, with the files
	baseline.py RULE	prints every place where RULE is broken
	baseline.py --shrink	writes today's numbers into scripts/baseline.txt, where they are smaller
	baseline.py --counts	prints all numbers
"""
import collections
import os
import re
import subprocess
import sys

import exports
from tree import TOKEN, TOP, comments, files as tree_files, read

FILE = os.path.join(TOP, "scripts", "baseline.txt")
# Since this commit, no number in scripts/baseline.txt may grow.
GUARDED = "dc3a110d8ee9"
COLUMNS, LINES, PARAMS, FIELDS, FILE_LINES = 110, 80, 6, 40, 1000
TERMS = r"\b([Ll]ikewise|[Ff]igures|[Tt]he door|[Ii]n (its place|the place of)|[Aa]skers?|behind (a url|urls))\b"
WORDS = re.compile(r"(?:^|[.:;] +|/\* ?|^ \*\s+)Who(?:ever)?\b|" + TERMS + r"|/\* \.\.\. ", re.M)
WORDS_OF_DOCS = re.compile(r"(?:^|[.:;] +|\| )Who(?:ever)?\b|" + TERMS + r"|\b[Kk]ept answers?\b", re.M)


def without_comments(text):
    """Return the text with blanked comments and string contents; lines stay."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def functions(text):
    """Yield (name, first line, lines, parameters) of each function definition."""
    for m in re.finditer(r"^(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}", text, re.M | re.S):
        params = 0 if m.group(2).strip() in ("", "void") else len(re.sub(r"\([^()]*\)", "", m.group(2)).split(","))
        yield m.group(1), text.count("\n", 0, m.start()) + 1, m.group(3).count("\n") + 2, params


def wide(files):
    for f in files + tree_files("*.cu", "*.cuh", "bench/*.c", "bench/*.h", "src/*.def", "kernels/*.def"):
        for n, line in enumerate(read(f).split("\n"), 1):
            if len(line.expandtabs(4)) > COLUMNS:
                yield f"{f}:{n}"


def long_functions(files):
    return (f"{f}:{line}: {name}" for f in files for name, line, n, _ in functions(read(f)) if n > LINES)


def many_parameters(files):
    return (f"{f}:{line}: {name}" for f in files for name, line, _, p in functions(without_comments(read(f))) if p > PARAMS)


def long_files(files):
    return (f for f in files if read(f).count("\n") > FILE_LINES)


def types_of(text):
    """Yield the names and field counts of the structs, unions and enums that a text defines, on any number
    of lines."""
    for m in re.finditer(r"^(typedef )?(?:struct|union|enum)\b[ \t]*(\w*)\s*\{", text, re.M):
        at, depth = m.end(), 1
        while depth > 0 and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        alias = re.match(r"\s*(\w*)\s*;", text[at:]) if m.group(1) else None
        yield alias.group(1) if alias and alias.group(1) else m.group(2), text.count(";", m.end(), at)


def same_types(files):
    places = collections.defaultdict(set)
    for f in files:
        if f.startswith("src/"):
            for name, _ in types_of(without_comments(read(f))):
                places[name].add(f)
    return (f"{name}: {' '.join(sorted(fs))}" for name, fs in sorted(places.items()) if name and len(fs) > 1)


def large_structs(files):
    return (f"{f}: {name} {n}" for f in files for name, n in types_of(without_comments(read(f))) if n > FIELDS)


def words(files):
    for f in files + tree_files("docs/*.md", "README.md", "CONTRIBUTING.md"):
        text = read(f)
        for start, part in [(0, text)] if f.endswith(".md") else comments(text):
            for m in (WORDS_OF_DOCS if f.endswith(".md") else WORDS).finditer(part):
                yield f"{f}:{text.count(chr(10), 0, start + m.start()) + 1}: {m.group(0).strip()}"


def tag_ranges(files):
    order = re.compile(r"(?<![<>-])[<>]=?\s*WTAG_|\bWTAG_\w+\s*(?:[<>]=?(?![<>])|\.\.\.)")
    for f in files:
        text = without_comments(read(f)) if f.startswith("src/") and not f.startswith("src/ipc/") else ""
        for m in order.finditer(text):
            if not text[text.rfind("\n", 0, m.start()) + 1:m.start()].lstrip().startswith("_Static_assert("):
                yield f"{f}:{text.count(chr(10), 0, m.start()) + 1}"


ASSERTED = ("src/core/", "src/model/weights/", "src/ipc/", "src/grammar/")


def lacks_assert(f):
    return f.endswith(".c") and read(f).count("\n") > 200 and not re.search(r"\b(ASSERT|ALWAYS)\(", read(f))


def without_assert(files):
    return (f for f in files if f.startswith(ASSERTED) and lacks_assert(f))


def without_assert_elsewhere(files):
    return (f for f in files if f.startswith("src/") and not f.startswith(ASSERTED + ("src/pg/", "src/model/arch/")) and lacks_assert(f))


def unused_exports(users):
    return lambda files: (place for place, by in exports.unused() if by in users)


RULES = {
    "lines-over-110-columns": wide,
    "functions-over-80-lines": long_functions,
    "functions-over-6-parameters": many_parameters,
    "files-over-1000-lines": long_files,
    "type-names-in-two-files": same_types,
    "structs-over-40-fields": large_structs,
    "words-for-terms": words,
    "tags-compared-by-order-outside-ipc": tag_ranges,
    "large-files-without-assertion": without_assert,
    "functions-for-their-file-not-static": unused_exports(("nothing", "its own file")),
    "functions-that-tests-alone-use-unsaid": unused_exports(("tests",)),
    "other-large-files-without-assertion": without_assert_elsewhere,
}


def numbers(text):
    return {name: int(n) for name, n in (line.split() for line in text.split("\n") if line and line[0] != "#")}


def git(*args):
    return subprocess.run(["git", *args], cwd=TOP, capture_output=True, text=True, check=False).stdout


def grown():
    """Return the numbers of scripts/baseline.txt that the working tree or a commit since GUARDED has made
    larger."""
    commits = git("log", "--reverse", "--first-parent", "--format=%h", f"{GUARDED}..HEAD", "--", "scripts/baseline.txt").split()
    was = numbers(git("show", f"{GUARDED}:scripts/baseline.txt"))
    for commit in commits + [""]:
        now = numbers(git("show", f"{commit}:scripts/baseline.txt") if commit else read("scripts/baseline.txt"))
        for name, n in now.items():
            if n > was.get(name, n):
                yield f"{name}: {was[name]} has become {n} in {commit or 'scripts/baseline.txt'}"
        was = now


def main():
    arg = sys.argv[1] if len(sys.argv) > 1 else None
    files = [f for f in tree_files("src/*.c", "src/*.h", "kernels/*.c", "kernels/*.h", "tests/*.c", "tests/*.h") if "_tables" not in f]
    if arg in RULES:
        print("\n".join(RULES[arg](files)))
        return
    if arg not in (None, "--shrink", "--counts"):
        sys.exit(__doc__)
    had = numbers(read("scripts/baseline.txt"))
    now = {name: list(rule(files)) for name, rule in RULES.items()}
    if arg == "--counts":
        print("\n".join(f"{name} {len(found)}" for name, found in now.items()))
    elif arg == "--shrink":
        with open(FILE, "w", encoding="utf-8") as h:
            h.write("# how often each rule of scripts/baseline.py is broken; may only become smaller (--shrink)\n")
            h.writelines(f"{name} {min(len(found), int(had.get(name, len(found))))}\n" for name, found in now.items())
    else:
        print("".join(f"{line}\n" for line in grown()), end="")
        for name, found in now.items():
            if len(found) > int(had.get(name, 0)):
                print(f"{name}: {len(found)}, at most {had.get(name, 0)}; all of them: scripts/baseline.py {name}")


main()
