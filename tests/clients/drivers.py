#!/usr/bin/env python3
"""Call every function with parameters of Python's database drivers.

	drivers.py CONNINFO DSN

CONNINFO is libpq's, DSN a URL of the same server.  Each argument of each function gets the values that
programs give it, and `EXPLAIN SELECT f(...)` shows whether the server finds the function and takes the
values: nothing is asked of a model.  Then each driver makes a few calls as programs write them.  Prints a
line `ok NAME` or `not ok NAME: why` for each driver and step; t/125_drivers.pl reads them.
"""
import asyncio
import json
import sys

FUNCTIONS = """
SELECT p.oid::regproc::text AS name, p.proretset, p.pronargs - p.pronargdefaults AS required,
       array_agg(a.type::text ORDER BY a.i) AS types, array_agg(a.name ORDER BY a.i) AS names
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'vllm_pg',
     unnest(p.proargtypes::regtype[], p.proargnames[1 : p.pronargs]) WITH ORDINALITY a (type, name, i)
WHERE p.prokind = 'f' AND p.pronamespace <> 'vllm'::regnamespace AND p.provariadic = 0 AND p.proargnames IS NOT NULL
GROUP BY p.oid ORDER BY 1, p.oid"""

MESSAGES = [{"role": "user", "content": "x"}]
OBJECT = {"type": "object"}
# type of an argument: values that programs have for it
VALUES = {
	"text": ["x"], "name": ["x"], "integer": [1], "bigint": [1], "double precision": [1.5], "boolean": [True],
	"text[]": [["a", "b"]], "name[]": [["a"]], "bigint[]": [[1, 2]], "real[]": [[0.5, 1.5]],
	"vllm.json": ["JSON"], "vllm.json[]": ["JSONS"], "vllm.schema": ["JSON"], "vllm.texts": ["x", ["x", "y"]],
	"vllm.doubles": [[0.5, 1.5], [1, 2]], "double precision[]": [[0.5, 1.5]], "boolean[]": [[True, False]],
}


def statements(functions, mark, asks=False):
	"""Yield (what, SQL, kind of value) for each argument with values; asks: the driver asks for their types."""
	for name, retset, required, types, names in functions:
		for i, (kind, arg) in enumerate(zip(types, names)):
			for value in VALUES.get(kind, []):
				args = []
				if asks and kind == "vllm.texts" and value == "x":
					continue
				# of functions that differ by this type the server would take the one for a text
				cast = {"real[]": "::real[]", "vllm.doubles": "::float8[]"}.get(kind, "") if asks else ""
				for k, (t, n) in enumerate(zip(types, names)):
					if k == i:
						args.append(f'"{n}" => {mark}{cast}')
					elif k < required:
						args.append(f'"{n}" => NULL::{"date" if t == "anyelement" else t}')
				yield f"{name}({arg} {kind})", f"EXPLAIN SELECT {'* FROM ' if retset else ''}{name}({', '.join(args)})", value


class Report:
	def __init__(self, driver):
		self.driver, self.n, self.wrong = driver, 0, []

	def add(self, what, error=None):
		self.n += 1
		# a function of constants runs when it is planned, and may refuse a value that has the right type
		if error is not None and getattr(error, "sqlstate", getattr(error, "pgcode", None)) not in ("22004", "22023"):
			self.wrong.append(f"{what}: {str(error).splitlines()[0]}")

	def tell(self, step):
		if self.wrong:
			print(f"not ok {self.driver} {step}: {len(self.wrong)} of {self.n}: {'; '.join(self.wrong[:40])}")
		else:
			print(f"ok {self.driver} {step}: {self.n}")
		self.n, self.wrong = 0, []


# what programs write, where %s is a driver's mark; and what they write for drivers that ask for the types
CALLS = [
	("SELECT llm_generate(%s, max_tokens => %s)", ["a b", 2]),
	("SELECT llm_generate(%s, stop => %s, temperature => %s)", ["a b", "z", 0],
	 "SELECT llm_generate(%s, stop => CAST(%s AS text), temperature => %s)"),
	("SELECT llm_generate(%s, stop => %s)", ["a b", ["y", "z"]]),
	("SELECT llm_generate(%s)", [[104, 105]], "SELECT llm_generate(CAST(%s AS bigint[]))"),
	("SELECT llm_generate(%s, params => %s)", ["a", "JSON:" + json.dumps({"max_tokens": 1})]),
	("SELECT llm_chat(%s, max_tokens => %s)", ["JSON:" + json.dumps(MESSAGES), 2]),
	("SELECT llm_chat_text(%s)", ["JSON:" + json.dumps(MESSAGES)]),
	("SELECT llm_embed(%s)", ["a"]),
	("SELECT llm_embed_batch(%s)", [["a", "b"]]),
	("SELECT llm_cosine_distance(%s, %s)", [[1.0, 0.0], [0.5, 0.5]]),
	("SELECT llm_classify(%s, %s)", ["a", ["good", "bad"]]),
	("SELECT llm_generate_json(%s, %s)", ["a", "JSON:" + json.dumps({"type": "boolean"})]),
	("SELECT llm_extract(%s, schema => %s)", ["a", "JSON:" + json.dumps({"type": "boolean"})]),
	("SELECT * FROM llm_rerank(%s, %s)", ["a", ["a", "b"]]),
	("SELECT x.* FROM llm_choice_probs(%s, %s) x", ["a", ["a", "b"]]),
]


def value_of(value, wrap):
	if value in ("JSON", "JSONS"):
		return wrap(OBJECT) if value == "JSON" else [wrap(MESSAGES)]
	if isinstance(value, str) and value.startswith("JSON:"):
		return wrap(json.loads(value[5:]))
	return value


def run_sync(report, connection, wrap, wraps_too=()):
	"""For the drivers of the DB-API."""
	cursor = connection.cursor()

	def run(sql, values):
		try:
			cursor.execute(sql, values)
			cursor.fetchall()
			return None
		except Exception as e:
			connection.rollback()
			return e

	cursor.execute(FUNCTIONS)
	functions = cursor.fetchall()
	for w in (wrap, *wraps_too):
		for what, sql, value in statements(functions, "%s"):
			report.add(what, run(sql, [value_of(value, w)]))
	report.tell("functions")
	for sql, values, *_ in CALLS:
		report.add(sql, run(sql, [value_of(v, wrap) for v in values]))
	report.tell("calls")


def psycopg3(conninfo, url):
	import psycopg
	from psycopg.types.json import Json, Jsonb

	with psycopg.connect(conninfo) as connection:
		run_sync(Report("psycopg"), connection, Jsonb, (Json, json.dumps))


def psycopg2(conninfo, url):
	import psycopg2
	from psycopg2.extras import Json

	connection = psycopg2.connect(conninfo)
	run_sync(Report("psycopg2"), connection, Json, (json.dumps,))
	connection.close()


def sqlalchemy(conninfo, url):
	import sqlalchemy as sa
	from sqlalchemy.dialects.postgresql import JSONB

	for driver in ("psycopg", "psycopg2", "asyncpg"):
		report = Report(f"sqlalchemy-{driver}")
		engine = sa.create_engine(url.replace("postgresql:", f"postgresql+{driver}:")) if driver != "asyncpg" else None
		if engine is None:
			asyncio.run(sqlalchemy_async(report, url))
			continue
		with engine.connect() as connection:
			for sql, values, *_ in CALLS:
				text, params = bound(sa, JSONB, sql, values)
				try:
					connection.execute(text, params).fetchall()
					report.add(sql)
				except Exception as e:
					connection.rollback()
					report.add(sql, e)
		report.tell("calls")


def bound(sa, jsonb, sql, values):
	names = [f"p{i}" for i in range(len(values))]
	text = sa.text(sql.replace("%s", "{}").format(*(f":{n}" for n in names)))
	params = {}
	for n, v in zip(names, values):
		if isinstance(v, str) and v.startswith("JSON:"):
			text = text.bindparams(sa.bindparam(n, type_=jsonb))
			v = json.loads(v[5:])
		params[n] = v
	return text, params


async def sqlalchemy_async(report, url):
	import sqlalchemy as sa
	from sqlalchemy.dialects.postgresql import JSONB
	from sqlalchemy.ext.asyncio import create_async_engine

	engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
	async with engine.connect() as connection:
		for sql, values, *asked in CALLS:
			text, params = bound(sa, JSONB, *(asked or [sql]), values)
			try:
				(await connection.execute(text, params)).fetchall()
				report.add(sql)
			except Exception as e:
				await connection.rollback()
				report.add(sql, e)
	await engine.dispose()
	report.tell("calls")


async def run_asyncpg(conninfo, url):
	import asyncpg

	report = Report("asyncpg")
	connection = await asyncpg.connect(url)

	async def run(sql, values):
		try:
			await connection.fetch(sql, *values)
			return None
		except Exception as e:
			return e

	functions = [tuple(r) for r in await connection.fetch(FUNCTIONS)]
	for what, sql, value in statements(functions, "$1", asks=True):
		report.add(what, await run(sql, [value_of(value, json.dumps)]))
	report.tell("functions")
	for sql, values, *asked in CALLS:
		sql = asked[0] if asked else sql
		for i in range(len(values)):
			sql = sql.replace("%s", f"${i + 1}", 1)
		report.add(sql, await run(sql, [value_of(v, json.dumps) for v in values]))
	report.tell("calls")
	await connection.close()


def main():
	conninfo, url = sys.argv[1:3]
	for name, run in (("psycopg", psycopg3), ("psycopg2", psycopg2), ("asyncpg", lambda c, u: asyncio.run(run_asyncpg(c, u))),
					  ("sqlalchemy", sqlalchemy)):
		try:
			run(conninfo, url)
		except ImportError as e:
			print(f"skipped {name}: {e}")


main()
