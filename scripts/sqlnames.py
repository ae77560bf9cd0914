#!/usr/bin/env python3
"""sqlnames.py: names in SQL that a hostile search_path could redirect to another object.

    scripts/sqlnames.py [--test] FILE...

In SQL scripts, with the function bodies in them, and in statements in the strings of C files, the script
looks for the extension's operators, functions, tables and types without a schema, and for syntax that
implies an operator without a schema (IN, BETWEEN, LIKE, NULLIF, CASE x WHEN, JOIN USING, IS DISTINCT FROM).
It also looks for @extschema@ within a string: there it is a part of a format, or a function body keeps the
name that the schema has now.  If the text is parsed under a caller's search_path (a body in quotes, C), the
system's types need a schema, too.  C files whose statements all run with a search_path of pg_catalog are
left out: they call job_role_internal(), or belong to the worker or the HTTP server.  A comment "exact: ..."
on a statement's last line says that an operator of pg_catalog takes exactly these types, so PostgreSQL
finds that one first.

Prints each offence as FILE:LINE: TEXT.  --test: check samples of both kinds first.
"""
import re
import sys

TOKEN = re.compile(r"""
    (?P<space>\s+) | (?P<comment>--[^\n]*) | (?P<string>[eE]?'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*")
  | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$) | (?P<param>\$\d+) | (?P<number>\d+(?:\.\d+)?) | (?P<word>@extschema@|[A-Za-z_]\w*)
  | (?P<cast>::) | (?P<assign>:=) | (?P<punct>[()\[\],;.:]) | (?P<op>[-+*/<>=~!@\#%^&|`?]+) | (?P<other>.)""", re.X | re.S)

# words that may come before a bracket without being a function
GRAMMAR = set("""all and any array as atomic by case cast check coalesce conflict cube distinct else elsif except exists extract filter
    from greatest group having if include index intersect into is join key lateral least left limit not offset on only operator or
    order over partition primary returning returns row rows select set setof some table then to union unique update using values
    when where while window with within within_group add default constraint references exclude char varchar numeric bit interval
    timestamp time decimal float return copy""".split())
SYSTEM_TYPES = set("int integer bigint smallint real double float numeric decimal boolean bit varchar char character timestamp time interval".split())
BANNED = {"between": "BETWEEN", "like": "LIKE", "ilike": "ILIKE", "similar": "SIMILAR TO", "nullif": "NULLIF", "natural": "NATURAL JOIN",
          "overlaps": "OVERLAPS"}


FORMATTED = re.compile(r"%(?:\d+\$)?[sIL]")


class Token:
    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line
        self.low = text.lower() if kind == "word" else text


def tokens_of(sql, line):
    """Return the tokens, and the texts between dollars as (text, line, token before)."""
    tokens, bodies, exact = [], [], set()
    at = 0
    while at < len(sql):
        if sql.startswith("/*", at):                   # they nest
            depth, end = 1, at + 2
            while depth and end < len(sql):
                step = 1 if sql.startswith("/*", end) else -1 if sql.startswith("*/", end) else 0
                depth, end = depth + step, end + (2 if step else 1)
            line += sql.count("\n", at, end)
            at = end
            continue
        m = TOKEN.match(sql, at)
        kind, text = m.lastgroup, m.group()
        end = m.end()
        if kind == "op" and ("--" in text or "/*" in text):
            end = at + min(i for i in (text.find("--"), text.find("/*")) if i >= 0)
            text = sql[at:end]
        if kind == "dollar":
            close = sql.find(text, end)
            if close < 0:
                raise ValueError("line %d: %s is not closed" % (line, text))
            bodies.append((sql[end:close], line, len(tokens)))
            tokens.append(Token("string", "$$", line))
            end = close + len(text)
        elif kind == "comment" and "exact:" in text:
            exact.add(line)
        elif kind not in ("space", "comment") and text:
            tokens.append(Token(kind, text, line))
        line += sql.count("\n", at, end)
        at = end
    return tokens, bodies, exact


class Checker:
    def __init__(self, name):
        self.name, self.found, self.queries = name, [], set()

    def say(self, token, what):
        self.found.append("%s:%d: %s" % (self.name, token.line, what))

    def check(self, sql, line=1, runtime=False, fragment=False):
        tokens, bodies, exact = tokens_of(sql, line)
        start = 0
        for t in tokens:
            if t.kind == "string" and "@extschema@" in t.text:
                self.say(t, "@extschema@ stands in a string")
        for i, t in enumerate(tokens + [Token("punct", ";", 0)]):
            if t.text == ";" and t.kind == "punct":
                statement = tokens[start:i]
                if statement and not (exact & {s.line for s in tokens[start:i + 1]}):
                    self.statement(statement, runtime, fragment)
                start = i + 1
        for text, at, n in bodies:
            words = [t.low for t in tokens[max(0, n - 60):n]]
            if "@extschema@" in text:
                self.found.append("%s:%d: @extschema@ stands in a string" % (self.name, at))
            head = words[max((i for i, w in enumerate(words) if w == ";"), default=-1) + 1:]
            # a DO block runs while the script runs; so does the SQL that it executes
            if "format" in head:
                text = FORMATTED.sub("x.y", text).replace("x.y.x.y", "x.y").replace(".x.y", ".y").replace("_x.y", "_y")
            self.check(text, at, runtime or ("do" not in head and "execute" not in head and "format" not in head))

    def statement(self, ts, runtime, fragment):
        first = ts[0].low
        words = [t.low for t in ts]
        aggregate = words[:2] in (["create", "aggregate"], ["create", "type"])
        revoke = first in ("revoke", "grant")
        depth, extracts, with_options = 0, [], None
        for i, t in enumerate(ts):
            prev = ts[i - 1] if i else Token("punct", ";", 0)
            nxt = ts[i + 1] if i + 1 < len(ts) else Token("punct", ";", 0)
            if t.text == "(":
                depth += 1
                if prev.low == "extract":
                    extracts.append(depth)
                if prev.low == "with":
                    with_options = depth
            elif t.text == ")":
                if extracts and extracts[-1] == depth:
                    extracts.pop()
                if with_options == depth:
                    with_options = None
                depth -= 1
            elif t.kind == "op":
                self.operator(ts, i, prev, nxt, aggregate, with_options)
            elif t.kind == "word":
                self.word(ts, i, prev, nxt, revoke, extracts, fragment, runtime, words)

    def operator(self, ts, i, prev, nxt, aggregate, with_options):
        t = ts[i]
        if prev.text in (".", "(") and i >= 2 and any(s.low == "operator" for s in ts[max(0, i - 4):i]):
            return
        if t.text == "=>" or (t.text == "*" and (prev.text in "(,." or prev.low in ("select", "returning", "distinct", "all"))):
            return
        if t.text == "=" and (aggregate or with_options is not None or self.assigns(ts, i)):
            return
        if t.text in "-+" and nxt.kind == "number" and (prev.kind == "op" or prev.text in "(,[:" or prev.low in GRAMMAR):
            return
        self.say(t, "operator %s has no schema" % t.text)

    @staticmethod
    def assigns(ts, i):
        """Return true if this "=" assigns, as in UPDATE ... SET a = 1, b = 2; RAISE ... USING A = 1, B = 2;
        SET a = 1."""
        if i < 2 or ts[i - 1].kind not in ("word", "quoted") or not (ts[i - 2].low in ("set", "using") or ts[i - 2].text == ","):
            return False
        depth = 0
        for t in reversed(ts[:i - 1]):
            depth += (t.text == ")") - (t.text == "(")
            if depth < 0:
                return False
            if depth == 0 and t.low in ("set", "using"):
                return True
            if depth == 0 and t.low in ("where", "from", "select", "on", "values"):
                return False
        return False

    def word(self, ts, i, prev, nxt, revoke, extracts, fragment, runtime, words):
        t, w = ts[i], ts[i].low
        qualified = prev.text == "."
        if qualified:
            return
        if w in BANNED and not (w == "between" and prev.low in ("rows", "range", "groups")):
            self.say(t, "%s finds an operator without a schema" % BANNED[w])
        elif w == "in" and "for" not in words[max(0, i - 6):i] and "foreach" not in words[max(0, i - 4):i] and prev.low != "tag":
            self.say(t, "IN finds an operator without a schema")
        elif w == "in":
            return
        elif w == "distinct" and (prev.low == "is" or (prev.low == "not" and i > 1 and ts[i - 2].low == "is")):
            self.say(t, "IS DISTINCT FROM finds an operator without a schema")
        elif w == "case" and nxt.low != "when":
            self.say(t, "CASE x WHEN finds an operator without a schema")
        elif w == "using" and nxt.text == "(" and "join" in words[max(0, i - 8):i]:
            self.say(t, "JOIN USING finds an operator without a schema")
        elif w.startswith("llm_") and nxt.text != "." and not (fragment and nxt.text != "("):
            self.say(t, "%s has no schema" % t.text)
        elif nxt.text == "(" and w not in GRAMMAR and not self.names_columns(ts, i, prev):
            self.say(t, "function %s has no schema" % t.text)
        elif prev.low in ("from", "join") and not revoke and not extracts and nxt.text not in ".(" and w not in GRAMMAR and w not in self.queries | {"only", "unbounded"}:
            self.say(t, "relation %s has no schema" % t.text)
        elif runtime and prev.kind == "cast" and nxt.text != "." and w not in SYSTEM_TYPES:
            self.say(t, "type %s has no schema" % t.text)

    @staticmethod
    def names_columns(ts, i, prev):
        """Return true if this bracket follows an alias (column names), a table or an index (column list),
        or a type (modifier)."""
        if prev.low in ("as", "into", "table", "recursive") or prev.kind == "cast":
            return True
        if prev.text == ")" or (prev.kind == "word" and i >= 2 and ts[i - 2].text in ".)"):
            return prev.low not in GRAMMAR          # f(...) x(a, b)
        return False


# ---- C ----

C_TOKEN = re.compile(r"""(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<char>'(?:[^'\\]|\\.)*')|(?P<word>\w+)|(?P<other>.)""",
                     re.X | re.S)
SQL = re.compile(r"\s*,?\s*(SELECT|INSERT INTO|UPDATE [\w%.]+ (AS \w+ |\w+ )?SET|DELETE FROM|WITH \w+ |FROM |WHERE |JOIN |CASE WHEN|ORDER BY|GROUP BY|"
                 r"CREATE (TEMPORARY )?TABLE|COPY \(|DROP TABLE|AND |OR )")
FIXED_PATH = re.compile(r"job_role_internal\(")


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), text, flags=re.S)


def check_c(checker, text):
    """Check a C file.  Adjacent string literals are one string; a macro between them counts as a name, and
    so does what a format inserts."""
    joined, line, before, caller = None, 1, "", ""
    spare = []

    def flush():
        if joined and SQL.match(joined[0]) and "***" not in joined[0] and caller not in ("errhint", "errmsg", "errdetail", "elog", "errmsg_internal", "errcontext"):
            sql = re.sub(r"%(?:\d+\$)?[-0-9*]*(?:l|ll|z)?[sdiuIL]|INT64_FORMAT", " x.y ", joined[0])
            sql = re.sub(r"(?<=[\w.]) x\.y ", "x.y", sql).replace(" x.y .", " x.y.").replace(". x.y ", ".x")
            try:
                checker.check(sql, joined[1], runtime=True, fragment=True)
            except ValueError:
                spare.append(joined[1])             # only a part of a literal: the rest is in another string

    for m in C_TOKEN.finditer(text):
        kind, t = m.lastgroup, m.group()
        if kind == "string":
            piece = unescape(t[1:-1])
            joined = (joined[0] + piece, joined[1]) if joined else (piece, line)
        elif kind == "word" and joined and t.isupper() and len(t) > 2:
            joined = (joined[0] + " x.y ", joined[1])
        elif kind not in ("space", "comment") and t != "\\":
            flush()
            joined = None
            if t == "(":
                caller = before
            before = t
        line += t.count("\n")
    flush()


def check_file(name):
    checker = Checker(name)
    with open(name, encoding="utf-8") as f:
        text = f.read()
    if name.endswith(".sql"):
        checker.check("\n".join("" if s.startswith("\\") else s for s in text.split("\n")))
    elif not FIXED_PATH.search(text) and not re.search(r"(^|/)src/(httpd|pg/supervisor|pg/jobs/(worker|job_launcher))", name):
        checker.queries = {w.lower() for w in re.findall(r"WITH (\w+) AS", text)}
        check_c(checker, text)
    return checker.found


GOOD = ["SELECT a OPERATOR(pg_catalog.=) 1 FROM x.t", "SELECT pg_catalog.count(*), -1 FROM x.t AS u (a, b)", "UPDATE x.t SET a = 1, b = '='",
        "SELECT coalesce(a, 'a = b IN (x)') -- = \n FROM x.f(a => 1) WITH ORDINALITY AS e(item, n)", "/* a = /* b */ c */ SELECT 1",
        "CREATE TABLE x.t (a int, b numeric(3, 1) DEFAULT 0.5) WITH (fillfactor = 70)", "SELECT CASE WHEN a IS NULL THEN 1 END FROM x.t",
        "SELECT extract(epoch FROM a OPERATOR(pg_catalog.-) b)", "CREATE AGGREGATE x.a(text) (SFUNC = x.b, STYPE = internal)", "CREATE TYPE x.t (INPUT = x.i, OUTPUT = x.o)",
        "DO $$ BEGIN FOR f IN SELECT a FROM x.t LOOP NULL; END LOOP; END $$", "SELECT pg_catalog.sum(a) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM x.t",
        "SELECT nullif(a, b) FROM x.t -- exact: text = text", "CREATE FUNCTION x.f() RETURNS int LANGUAGE sql AS $$ SELECT 1::pg_catalog.int4 $$"]
BAD = ["SELECT a = 1", "SELECT count(*)", "SELECT a IN (1, 2)", "SELECT a BETWEEN 1 AND 2", "SELECT a LIKE 'x'", "SELECT nullif(a, b)",
       "SELECT CASE a WHEN 1 THEN 2 END", "SELECT a FROM x.t JOIN x.u USING (a)", "SELECT a IS DISTINCT FROM b", "SELECT a FROM t", "SELECT a - 1",
       "SELECT -a", "SELECT 1 * a", "SELECT x.f(a || b)", "CREATE FUNCTION llm_f() RETURNS int LANGUAGE c AS 'x'", "CREATE FUNCTION x.f() RETURNS llm_t LANGUAGE c AS 'x'",
       "CREATE FUNCTION x.f() RETURNS int LANGUAGE sql AS $$ SELECT a = b $$", "CREATE FUNCTION x.f() RETURNS int LANGUAGE sql AS $$ SELECT a::text $$",
       "DO $$ BEGIN EXECUTE 'x'; IF a > 1 THEN NULL; END IF; END $$", "SELECT a FROM x.t NATURAL JOIN x.u", "UPDATE x.t SET a = 1 WHERE b = 2",
       "CREATE FUNCTION x.f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT max(a) FROM x.t; END", "SELECT '@extschema@.f'",
       "CREATE FUNCTION x.f() RETURNS int LANGUAGE sql AS $$ SELECT @extschema@.g() $$"]


def test():
    wrong = []
    for sql, good in [(s, True) for s in GOOD] + [(s, False) for s in BAD]:
        checker = Checker("sample")
        checker.check(sql)
        if (checker.found == []) != good:
            wrong.append("%s: %s" % (sql, checker.found or "nothing found"))
    return wrong


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--test"]
    lines = test() if "--test" in sys.argv else []
    for path in args:
        lines += check_file(path)
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(1 if lines else 0)
