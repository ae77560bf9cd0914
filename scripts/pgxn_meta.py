#!/usr/bin/env python3
"""What PGXN would refuse in META.json: its specification 1.0.0 as far as a script can check it.

	pgxn_meta.py [FILE]		prints each offence
"""
import json
import os
import re
import sys

from tree import TOP

REQUIRED = ["abstract", "maintainer", "license", "provides", "name", "version", "meta-spec"]
OPTIONAL = ["description", "generated_by", "tags", "no_index", "prereqs", "release_status", "resources"]
LICENSES = set("""agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3 lgpl_2_1
    lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source restricted unrestricted
    unknown""".split())
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([a-zA-Z][\w-]*)?")
RANGE = re.compile(r"(?:(?:==|!=|>=|<=|>|<)\s*)?" + VERSION.pattern)
TERM = re.compile(r"[^\s/\\\x00-\x1f\x7f]{2,255}")
URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")


def texts(value):
    """Return whether the value is a text, or a list of texts, none of them empty."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(v, str) and v.strip() for v in values)


def check_license(value):
    if isinstance(value, dict):
        bad = [k for k, v in value.items() if not (k and isinstance(v, str) and URL.fullmatch(v))]
    else:
        bad = [v for v in (value if isinstance(value, list) else [value]) if v not in LICENSES]
    if bad or not value:
        yield f"license: {bad}"


def check_provides(provides, folder):
    if not isinstance(provides, dict) or not provides:
        yield "provides: names no extension"
        return
    for name, about in provides.items():
        if not TERM.fullmatch(name):
            yield f"provides: {name!r} is no name"
        for key in set(about) - {"file", "version", "abstract", "docfile"}:
            if not key.startswith(("x_", "X_")):
                yield f"provides.{name}: unknown key {key}"
        if not VERSION.fullmatch(str(about.get("version"))):
            yield f"provides.{name}.version: {about.get('version')}"
        for key in ("file", "docfile"):
            if key in about if key == "docfile" else True:
                if not os.path.isfile(os.path.join(folder, str(about.get(key)))):
                    yield f"provides.{name}.{key}: no such file: {about.get(key)}"


def check_prereqs(prereqs):
    for phase, relations in prereqs.items():
        if phase not in ("configure", "build", "test", "runtime", "develop"):
            yield f"prereqs: unknown phase {phase}"
        for relation, wanted in relations.items():
            if relation not in ("requires", "recommends", "suggests", "conflicts"):
                yield f"prereqs.{phase}: unknown relation {relation}"
            for name, version in wanted.items():
                parts = re.split(r"\s*,\s*", str(version))
                if not TERM.fullmatch(name) or version != 0 and not all(RANGE.fullmatch(p) for p in parts):
                    yield f"prereqs.{phase}.{relation}: {name} {version}"


def check_resources(resources):
    known = {"homepage": None, "bugtracker": {"web", "mailto"}, "repository": {"url", "web", "type"}}
    for key, value in resources.items():
        if key.startswith(("x_", "X_")):
            continue
        keys = known.get(key, set())
        if key not in known or not (isinstance(value, str) if keys is None else isinstance(value, dict) and set(value) <= keys):
            yield f"resources.{key}"
        for url in [value] if isinstance(value, str) else [v for k, v in value.items() if k in ("url", "web")]:
            if not URL.fullmatch(url):
                yield f"resources.{key}: {url} is no URL"


def offences(meta, folder):
    yield from (f"{key} is missing" for key in REQUIRED if key not in meta)
    yield from (f"unknown key {key}" for key in meta if key not in REQUIRED + OPTIONAL and not key.startswith(("x_", "X_")))
    if not TERM.fullmatch(str(meta.get("name"))):
        yield f"name: {meta.get('name')}"
    if not VERSION.fullmatch(str(meta.get("version"))):
        yield f"version: {meta.get('version')} is not of the form 1.2.3"
    yield from (f"{key} is no text" for key in ("abstract", "description", "maintainer") if key in meta and not texts(meta[key]))
    if meta.get("meta-spec", {}).get("version") != "1.0.0":
        yield "meta-spec.version is not 1.0.0"
    if meta.get("release_status", "stable") not in ("stable", "testing", "unstable"):
        yield f"release_status: {meta['release_status']}"
    yield from (f"tags: {tag!r}" for tag in meta.get("tags", []) if not isinstance(tag, str) or not re.fullmatch(r"[^/\\\x00-\x1f]{1,255}", tag))
    yield from check_license(meta.get("license", []))
    yield from check_provides(meta.get("provides"), folder)
    yield from check_prereqs(meta.get("prereqs", {}))
    yield from check_resources(meta.get("resources", {}))


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    path = sys.argv[1] if sys.argv[1:] else os.path.join(TOP, "META.json")
    with open(path, encoding="utf-8") as h:
        try:
            meta = json.load(h)
        except ValueError as e:
            sys.exit(f"META.json: {e}")
    for line in offences(meta, TOP):
        print(f"META.json: {line}")


main()
