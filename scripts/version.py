#!/usr/bin/env python3
"""The version has one place, default_version in vllm_pg.control.  What can't read it from there is compared.

	version.py			prints what tells another version
	version.py --print	prints the version
	version.py --write	writes the version into META.json and vllm_pg_vector.control

Programs and the library get it from the Makefile, as VLLM_PG_VERSION.
"""
import glob
import json
import os
import re
import sys

from tree import TOP, files, read

CONTROL = re.compile(r"^default_version = '(.*)'$", re.M)


def version_of(extension):
    return CONTROL.search(read(extension + ".control")).group(1)


def semantic(version):
    """Return the version as PGXN wants it, in three numbers."""
    return ".".join((version.split(".") + ["0", "0"])[:3])


def scripts(extension, version):
    """Yield what is wrong with the names of an extension's SQL scripts, and with what they say of themselves."""
    names = [os.path.basename(f) for f in glob.glob(os.path.join(TOP, "sql", extension + "--*.sql"))]
    edges = [m.groups() for m in (re.fullmatch(re.escape(extension) + r"--([^-]+)--([^-]+)\.sql", n) for n in names) if m]
    full = [m.group(1) for m in (re.fullmatch(re.escape(extension) + r"--([^-]+)\.sql", n) for n in names) if m]
    if full != [version]:
        yield f"sql: full scripts of {extension}: {full}"
    reached = {version}
    while True:
        more = {a for a, b in edges if b in reached} - reached
        if not more:
            break
        reached |= more
    for a, b in edges:
        if a not in reached:
            yield f"sql/{extension}--{a}--{b}.sql: no upgrade leads from there to {version}"
        told = re.search(r"^\\echo Use \"ALTER EXTENSION \w+ UPDATE TO '(.*)'\"", read(f"sql/{extension}--{a}--{b}.sql"), re.M)
        if told and told.group(1) != b:
            yield f"sql/{extension}--{a}--{b}.sql: \\echo names {told.group(1)}"


def expected_meta(meta, version):
    """Return META.json's content with this version."""
    meta = dict(meta, version=semantic(version), provides={})
    for extension, about in json.loads(read("META.json"))["provides"].items():
        meta["provides"][extension] = dict(about, version=semantic(version), file=f"sql/{extension}--{version}.sql")
    return meta


def offences(version):
    if version_of("vllm_pg_vector") != version:
        yield f"vllm_pg_vector.control: {version_of('vllm_pg_vector')}"
    meta = json.loads(read("META.json"))
    if meta != expected_meta(meta, version):
        yield "META.json: another version (scripts/version.py --write)"
    for extension in meta["provides"]:
        yield from scripts(extension, version)
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M).group(1)
    if newest != version:
        yield f"CHANGELOG.md: the newest heading is {newest}"
    package = re.match(r"\S+ \(([^)]*)-[^-)]+\)", read("packaging/debian/changelog"))
    if package is None or package.group(1) != version:
        yield f"packaging/debian/changelog: {package and package.group(1)}"
    for f in files("src"):
        for m in re.finditer(r'^#define\s+\w*VERSION\w*\s+"\d[\d.]*"', read(f) if f.endswith((".c", ".h")) else "", re.M):
            yield f"{f}: {m.group(0)}: VLLM_PG_VERSION is the version"


def write(version):
    meta = expected_meta(json.loads(read("META.json")), version)
    with open(os.path.join(TOP, "META.json"), "w", encoding="utf-8") as h:
        h.write(json.dumps(meta, indent=3) + "\n")
    control = CONTROL.sub(f"default_version = '{version}'", read("vllm_pg_vector.control"))
    with open(os.path.join(TOP, "vllm_pg_vector.control"), "w", encoding="utf-8") as h:
        h.write(control)


def main():
    version = version_of("vllm_pg")
    if sys.argv[1:] == ["--print"]:
        print(version)
    elif sys.argv[1:] == ["--write"]:
        write(version)
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        for line in offences(version):
            print(f"{line}, but vllm_pg.control has {version}")


main()
