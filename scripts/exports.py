"""Functions of src/ that are not static although no other file of the product uses them.  A part of
baseline.py."""
import collections
import re

from tree import code_of, files as tree_files, read

CODE = (".c", ".h", ".def", ".cu", ".cuh")
# a function definition: its return type is on the line before its name, or in front of the name
FUNCTION = re.compile(r"^([A-Za-z_][\w \t*]*)\n(\w+)\(((?:[^;{}()]|\([^()]*\))*)\)\n\{", re.M)
LOCAL = re.compile(r"\b(static|inline|INLINE|VEC_INLINE)\b")


def declares(text, at, name):
    """Return true if the name at this place in a header is declared there, not used."""
    return re.match(r"(?:\w+[ \t]+)*\w+[ \t*]+$", text[text.rfind("\n", 0, at) + 1:at]) and text[at + len(name):at + len(name) + 1] == "("


def said_for_tests(name):
    """Return true if the comment beside or above the declaration says "for tests"."""
    for f in tree_files("src/*.h"):
        m = re.search(rf"((?:^[ \t]*(?:/\*| \*)[^\n]*\n)*)^\w[^\n;]*\b{name}\([^;]*;[^\n]*", read(f), re.M)
        if m:
            return "for tests" in re.sub(r"\n \* *", " ", m.group(0)).lower()
    return False


def pasted(texts):
    """Return prefixes and suffixes of names that macros paste together: begin_##name, name##_end."""
    code = [texts[f] for f in texts if f.startswith(("src/", "kernels/"))]
    return (tuple({m.group(1) for t in code for m in re.finditer(r"(\w+_)\s*##", t)}),
            tuple({m.group(1) for t in code for m in re.finditer(r"##\s*(_\w+)", t)}))


def unused():
    """
    Return (place: function, its users) of each such function.  Users are "nothing", "its own file", "its
    own file and tests", "tests", or "tests, as said" if the declaration's comment says that the function is
    for tests.
    """
    texts = {f: code_of(read(f)) for f in tree_files("src", "kernels", "tests", "bench") if f.endswith(CODE)}
    users = collections.defaultdict(set)
    for f, text in texts.items():
        for m in re.finditer(r"\w+", text):
            if not f.endswith((".h", ".cuh")) or not declares(text, m.start(), m.group(0)):
                users[m.group(0)].add(f)
    begins, ends = pasted(texts)
    # the server looks these up by name
    called = set(re.findall(r"PGDLLEXPORT \w+ (\w+)\(", "".join(texts.values()))) | {"main", "_PG_init"}
    for f in sorted(texts):
        for m in FUNCTION.finditer(texts[f]) if f.startswith("src/") and f.endswith(".c") else ():
            name = m.group(2)
            if LOCAL.search(m.group(1)) or name in called or "PG_FUNCTION_ARGS" in m.group(3):
                continue
            others = users[name] - {f}
            once = len(re.findall(rf"\b{name}\b", texts[f])) == 1
            if any(o.startswith(("src/", "kernels/")) for o in others) or (once and (name.startswith(begins) or name.endswith(ends))):
                continue
            line = texts[f].count("\n", 0, m.start(2)) + 1
            by = "nothing" if once else "its own file"
            if others:
                by = "its own file and tests" if not once else "tests, as said" if said_for_tests(name) else "tests"
            yield f"{f}:{line}: {name}", by
