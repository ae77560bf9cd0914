#!/usr/bin/env python3
"""Random JSON schemas and instances, with verdicts of the package jsonschema.

    schema_random.py [SEED [COUNT]]         run in the repository's root, after `make tests`

Makes COUNT schemas (default 500) with every keyword of the drafts 2020-12 and 7.  They are small and have
few names and values, so that keywords meet: nested, negated, in references, recursive.  Each has about
twenty instances.  test_json_schema must give jsonschema's verdicts, or refuse a keyword by name; and
jsonschema must accept the texts that test_gram_walk draws for them.  Prints what differs, and counts; fails
if anything differs.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import jsonschema

TESTS = "build/engine/tests/unit/"
NAMES = ["a", "b", "ab", "c", "\u00e9"]
STRINGS = ["", "a", "b", "ab", "aba", "aab", "1", "10.0.0.1", "2024-02-29", "\u00e9\u00e9", "a\nb", "\U0001f600"]
NUMBERS = [0, 1, 2, 3, -1, 7, 10, 1.5, -0.5, 2.25, 100, 1e3]
PATTERNS = ["a", "^a", "b$", "^a*$", "^[ab]{2,3}$", "^\u00e9", "[^c]", "^$", "^(a|bb)+$"]
FORMATS = ["ipv4", "date", "uuid", "email", "unknown-format"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


class Maker:
    """Makes the schemas of one seed."""

    def __init__(self, rnd, draft):
        self.rnd, self.draft = rnd, draft
        self.defs = "$defs" if draft == 2020 else "definitions"

    def some(self, list_, most):
        return self.rnd.sample(list_, self.rnd.randint(1, min(most, len(list_))))

    def value(self, depth=2):
        r = self.rnd.random()
        if r < 0.25 or depth == 0:
            return self.rnd.choice(STRINGS)
        if r < 0.5:
            return self.rnd.choice(NUMBERS)
        if r < 0.65:
            return self.rnd.choice([None, True, False])
        if r < 0.82:
            return [self.value(depth - 1) for _ in range(self.rnd.randint(0, 4))]
        return {n: self.value(depth - 1) for n in self.rnd.sample(NAMES, self.rnd.randint(0, 4))}

    def schema(self, depth):
        if depth == 0 or self.rnd.random() < 0.06:
            return self.rnd.choice([True, False, {}, {"type": self.rnd.choice(TYPES)}, {"enum": [self.value(1) for _ in range(3)]},
                                    {"const": self.value(1)}, {"$ref": f"#/{self.defs}/{self.rnd.choice('xy')}"}])
        s = {}
        for _ in range(self.rnd.choice([1, 1, 2, 2, 3, 4])):
            self.rnd.choice(self.KEYWORDS)(self, s, depth - 1)
        return s

    def k_type(self, s, d):
        s["type"] = self.rnd.choice(TYPES) if self.rnd.random() < 0.6 else self.some(TYPES, 4)

    def k_enum(self, s, d):
        s["enum"] = [self.value() for _ in range(self.rnd.randint(1, 5))]

    def k_const(self, s, d):
        s["const"] = self.value()

    def k_bounds(self, s, d):
        for k in self.some(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], 2):
            s[k] = self.rnd.choice(NUMBERS)

    def k_multiple(self, s, d):
        s["multipleOf"] = self.rnd.choice([1, 2, 3, 5, 7, 10, 0.5, 0.25, 2.5])

    def k_length(self, s, d):
        for k in self.some(["minLength", "maxLength"], 2):
            s[k] = self.rnd.randint(0, 4)

    def k_pattern(self, s, d):
        s["pattern"] = self.rnd.choice(PATTERNS)

    def k_format(self, s, d):
        # draft 7 does not define the format "uuid"
        s["format"] = self.rnd.choice([f for f in FORMATS if f != "uuid" or self.draft == 2020])

    def k_items(self, s, d):
        if self.draft == 7:
            r = self.rnd.random()
            s.pop("additionalItems", None)
            s["items"] = self.schema(d) if r < 0.5 else [self.schema(d) for _ in range(self.rnd.randint(1, 3))]
            # Beside a single schema in "items" this keyword has no effect, and jsonschema fails if that
            # schema is a boolean.
            if r >= 0.5 and self.rnd.random() < 0.6:
                s["additionalItems"] = self.schema(d)
            return
        for k in self.some(["prefixItems", "items"], 2):
            s[k] = self.schema(d) if k == "items" else [self.schema(d) for _ in range(self.rnd.randint(1, 3))]

    def k_count_items(self, s, d):
        for k in self.some(["minItems", "maxItems"], 2):
            s[k] = self.rnd.randint(0, 3)

    def k_contains(self, s, d):
        s["contains"] = self.schema(d)
        if self.draft == 2020:
            for k in self.rnd.sample(["minContains", "maxContains"], self.rnd.randint(0, 2)):
                s[k] = self.rnd.randint(0, 3)

    def k_unique(self, s, d):
        s["uniqueItems"] = self.rnd.random() < 0.7
        if self.rnd.random() < 0.8:
            s["items"] = {"enum": [self.value(0) for _ in range(self.rnd.randint(1, 4))]}

    def k_properties(self, s, d):
        s["properties"] = {n: self.schema(d) for n in self.some(NAMES, 3)}

    def k_pattern_properties(self, s, d):
        s["patternProperties"] = {p: self.schema(d) for p in self.some(PATTERNS, 2)}

    def k_additional(self, s, d):
        s["additionalProperties"] = self.schema(d)

    def k_required(self, s, d):
        s["required"] = self.some(NAMES, 3)

    def k_count_properties(self, s, d):
        for k in self.some(["minProperties", "maxProperties"], 2):
            s[k] = self.rnd.randint(0, 3)

    def k_names(self, s, d):
        s["propertyNames"] = self.rnd.choice([{"pattern": self.rnd.choice(PATTERNS)}, {"maxLength": 1}, {"enum": self.some(NAMES, 3)}, self.schema(d)])

    def k_dependent(self, s, d):
        names = {n: self.some(NAMES, 2) for n in self.some(NAMES, 2)}
        schemas = {n: self.schema(d) for n in self.some(NAMES, 2)}
        if self.draft == 7:
            s["dependencies"] = {**names, **schemas}
        elif self.rnd.random() < 0.5:
            s["dependentRequired"] = names
        else:
            s["dependentSchemas"] = schemas

    def k_of(self, s, d):
        s[self.rnd.choice(["allOf", "anyOf", "oneOf"])] = [self.schema(d) for _ in range(self.rnd.randint(1, 3))]

    def k_not(self, s, d):
        s["not"] = self.schema(d)

    def k_if(self, s, d):
        s["if"] = self.schema(d)
        for k in self.rnd.sample(["then", "else"], self.rnd.randint(0, 2)):
            s[k] = self.schema(d)

    def k_ref(self, s, d):
        s["$ref"] = f"#/{self.defs}/{self.rnd.choice('xy')}"

    def k_unevaluated(self, s, d):
        if self.draft == 2020:
            s[self.rnd.choice(["unevaluatedProperties", "unevaluatedItems"])] = self.schema(d)

    KEYWORDS = [k_type, k_type, k_enum, k_const, k_bounds, k_multiple, k_length, k_pattern, k_format, k_items, k_items, k_count_items, k_contains,
                k_unique, k_properties, k_properties, k_pattern_properties, k_additional, k_required, k_count_properties, k_names, k_dependent,
                k_of, k_of, k_not, k_if, k_ref, k_unevaluated]

    def whole(self):
        s = self.schema(3)
        s = s if isinstance(s, dict) else {"allOf": [s]}
        # A recursive reference must lie below a member or an item: a schema that refers to itself in place
        # has no meaning.
        s[self.defs] = {"x": self.leaf(), "y": {"type": ["object", "array", "integer"], "properties": {"a": {"$ref": f"#/{self.defs}/y"}, "b": self.leaf()},
                                                "items": {"$ref": f"#/{self.defs}/y"}}}
        s["$schema"] = "https://json-schema.org/draft/2020-12/schema" if self.draft == 2020 else "http://json-schema.org/draft-07/schema#"
        return s

    def leaf(self):
        s = {}
        for _ in range(2):
            self.rnd.choice([Maker.k_type, Maker.k_bounds, Maker.k_length, Maker.k_pattern, Maker.k_required, Maker.k_count_items])(self, s, 0)
        return s


def mentioned(schema, out):
    """Return values that a schema mentions: instances near its limits."""
    if isinstance(schema, dict):
        for k, v in schema.items():
            if k == "const":
                out.append(v)
            elif k == "enum":
                out.extend(v)
            elif k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
                out.extend([v, v + 1, v - 0.5])
            elif k == "required":
                out.append({n: 1 for n in v})
            else:
                mentioned(v, out)
    elif isinstance(schema, list):
        for v in schema:
            mentioned(v, out)


def cases(rnd):
    draft = rnd.choice([2020, 7])
    m = Maker(rnd, draft)
    schema = m.whole()
    cls = jsonschema.Draft202012Validator if draft == 2020 else jsonschema.Draft7Validator
    cls.check_schema(schema)
    validator = cls(schema, format_checker=cls.FORMAT_CHECKER)
    near = []
    mentioned(schema, near)
    instances = [m.value(3) for _ in range(14)] + rnd.sample(near, min(4, len(near)))
    for n in range(4):
        obj = {k: (rnd.choice(near) if near and rnd.random() < 0.7 else m.value(2)) for k in rnd.sample(NAMES, rnd.randint(0, 4))}
        instances += [obj, list(obj.values())]
    tests = []
    for v in instances:
        text = json.dumps(v, ensure_ascii=rnd.random() < 0.5)
        tests.append({"text": text, "valid": validator.is_valid(json.loads(text))})
    return {"name": "", "schema_text": json.dumps(schema), "schema": schema, "tests": tests}, validator


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else "1"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    validators, wrong = {}, 0
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "schemas.jsonl")
        with open(path, "w") as f:
            for i in range(count):
                row, validator = cases(random.Random(f"{seed}-{i}"))
                row["name"] = f"{seed}-{i}"
                validators[json.dumps(row["schema"], sort_keys=True)] = validator
                f.write(json.dumps(row) + "\n")
        r = subprocess.run([TESTS + "test_json_schema", path], capture_output=True, text=True)
        sys.stdout.write(r.stderr if r.returncode == 0 else r.stderr + r.stdout)
        wrong += r.returncode != 0
        r = subprocess.run([TESTS + "test_gram_walk", "-d", "1", path], stdout=subprocess.PIPE, text=True)
        wrong += r.returncode != 0
        texts = 0
        for line in r.stdout.split("\n")[:-1]:
            o = json.loads(line)
            key = json.dumps(json.loads(o["spec"]), sort_keys=True) if o["kind"] == "json" else None
            # jsonschema rounds numbers that a double can't hold
            if key in validators and not ("multipleOf" in o["spec"] and re.search(r"\d{16}|\d[.\d]{15}", o["text"])):
                texts += 1
                error = jsonschema.exceptions.best_match(validators[key].iter_errors(json.loads(o["text"])))
                if error is not None:
                    wrong += 1
                    print(f"{o['spec'][:500]}\n\t{o['text'][:300]!r}\n\t{error.message[:300]}")
        print(f"{texts} texts drawn, {wrong} wrong")
    return wrong > 0


sys.exit(main())
