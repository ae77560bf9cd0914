#!/usr/bin/env python3
"""The tables of docs/user/models.md that list the tested models: architecture x container x format.

    models_table.py [--check] OUTPUT

OUTPUT is what models_golden or encoders_golden printed; its "cell" lines name the models that agree
with the reference.  Writes the table between the program's two marks in docs/user/models.md; --check only
compares, and fails if they differ.  Needs the standard library only.
"""
import os
import sys

DOC = "docs/user/models.md"
CONTAINERS = ("safetensors", "gguf")


def table(lines):
    cells = {}
    for line in lines:
        # a line of another output stream may come before "cell" on the same line
        at = line.find("cell ")
        if at < 0 or len(line[at:].split()) != 5:
            continue
        _, arch, container, fmt, name = line[at:].split()
        cells.setdefault(arch, {}).setdefault(container, {}).setdefault(fmt, []).append(name)
    out = ["| architecture | " + " | ".join(CONTAINERS) + " |", "|---|---|---|"]
    for arch in sorted(cells):
        row = []
        for container in CONTAINERS:
            formats = cells[arch].get(container, {})
            row.append(", ".join(f"{f} ({len(formats[f])})" if len(formats[f]) > 1 else f for f in sorted(formats)))
        out.append(f"| {arch} | " + " | ".join(row) + " |")
    models = sum(len(n) for a in cells.values() for c in a.values() for n in c.values())
    return "\n".join(out) + f"\n\n{models} models of {len(cells)} architectures.\n"


def main():
    check = sys.argv[1] == "--check"
    program = os.path.basename(sys.argv[-1]).removesuffix(".out")
    begin, end = f"<!-- models_table.py {program}: begin -->\n", f"<!-- models_table.py {program}: end -->\n"
    with open(sys.argv[-1], errors="replace") as f:
        made = table(f)
    with open(DOC) as f:
        doc = f.read()
    head, rest = doc.split(begin)
    old, tail = rest.split(end)
    if check:
        same = old == made
        if not same:
            print(f"{DOC} has another table than the tests prove; run tests/golden/models_table.py {sys.argv[-1]}")
        print(f"models_table of {program}: {int(same)} passed, {int(not same)} failed, 0 skipped")
        return int(not same)
    with open(DOC, "w") as f:
        f.write(head + begin + made + end + tail)
    return 0


if __name__ == "__main__":
    sys.exit(main())
