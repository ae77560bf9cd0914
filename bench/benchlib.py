"""What the benchmarks of this directory share: options, models, a scratch server,
probes of the machine, tables.  Standard library only.

Every script has --help, --json (the same figures as JSON), --quick (fewer rounds, less
work), --rounds N, --threads N, --models DIR (where it makes and keeps model files).
Progress goes to stderr, the table or JSON to stdout.  Exit status: 0 success, 1 failure,
2 bad usage, 3 something that the benchmark needs is not installed.
"""
import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMITS = os.path.join(TOP, "build/engine/bench/limits")
sys.path.insert(0, os.path.join(TOP, "bench"))
sys.dont_write_bytecode = True

import gen_model  # noqa: E402

NOT_INSTALLED = 3

# name: (model file, options of llm_create_model, unit whose measured peak bounds the format)
FORMATS = {
    "BF16": ("", "", "bf16"),
    "F16": ("f16.gguf", "", "float"),
    "INT8": ("", '{"quantization": "int8"}', "int8"),
    "Q8_0": ("q8_0.gguf", "", "int8"),
    "Q4_0": ("q4_0.gguf", "", "int8"),
    "Q4_1": ("q4_1.gguf", "", "int8"),
    "Q5_0": ("q5_0.gguf", "", "int8"),
    "Q5_1": ("q5_1.gguf", "", "int8"),
    "Q2_K": ("q2_k.gguf", "", "int8"),
    "Q3_K": ("q3_k.gguf", "", "int8"),
    "Q4_K": ("q4_k_m.gguf", "", "int8"),
    "Q5_K": ("q5_k.gguf", "", "int8"),
    "Q6_K": ("q6_k.gguf", "", "int8"),
    "IQ4_NL": ("iq4_nl.gguf", "", "int8"),
    "IQ4_XS": ("iq4_xs.gguf", "", "int8"),
    "MXFP4": ("mxfp4.gguf", "", "int8"),
}


class BenchError(Exception):
    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---- options ----

def parser(doc, rounds, formats=None):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="JSON instead of a table")
    p.add_argument("--quick", action="store_true", help="fewer rounds and less work")
    p.add_argument("--rounds", type=positive, default=None, metavar="N", help=f"rounds (default {rounds}; --quick: 1)")
    p.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N", help="compute threads (default: all)")
    if formats:
        p.add_argument("--shape", choices=list(gen_model.SHAPES), default="qwen2.5-0.5b", help="the model's shape")
        p.add_argument("--formats", type=format_list, default=formats.split(","), metavar="A,B",
                       help=f"of {', '.join(FORMATS)} (default {formats})")
        p.add_argument("--models", default=os.path.join(tempfile.gettempdir(), "vllm_pg-bench"), metavar="DIR",
                       help="where model files are made and kept (default %(default)s)")
        p.add_argument("--conf", action="append", default=[], metavar="LINE", help="a line for postgresql.conf")
    p.set_defaults(default_rounds=rounds)
    return p


def positive(s):
    if not s.isdigit() or int(s) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, got \"{s}\"")
    return int(s)


def format_list(s):
    names = s.upper().split(",")
    for n in names:
        if n not in FORMATS:
            raise argparse.ArgumentTypeError(f"\"{n}\" is not one of {', '.join(FORMATS)}")
    return names


def parse(p, argv=None):
    args = p.parse_args(argv)
    args.rounds = args.rounds or (1 if args.quick else args.default_rounds)
    return args


def run(main):
    """Run a script's main function; print errors as one line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except BenchError as e:
        note(f"{os.path.basename(sys.argv[0])}: {e}")
        sys.exit(e.status)
    except KeyboardInterrupt:
        sys.exit(130)


# ---- the machine ----

# What servers run: the release, which has no assertions, to be measured; a test of correctness takes the
# build that the other tests have.
RELEASE = True


def build():
    """Build what servers run, and the probes of the machine, which are in the tests' build."""
    for target in ("release" if RELEASE else "all", "build/engine/bench/limits"):
        r = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", target, f"PG_CONFIG={pg_config()}"], cwd=TOP, stdout=sys.stderr)
        if r.returncode != 0:
            raise BenchError("the build failed")


def pg_config():
    for path in (os.environ.get("PG_CONFIG"), "/usr/lib/postgresql/15/bin/pg_config", shutil.which("pg_config")):
        if path and os.path.exists(path):
            return path
    raise BenchError("no pg_config; set PG_CONFIG", NOT_INSTALLED)


def bandwidth(threads):
    """Measure the read bandwidth now, in bytes/s."""
    return 1e9 * float(subprocess.run([LIMITS, "-b", "-q", "-t", str(threads)], check=True, capture_output=True, text=True).stdout)


def limits(threads):
    """Measure bandwidth and peaks with that many threads: dict of *_gflop_s, read_gb_s."""
    out = subprocess.run([LIMITS, "--json", "-q", "-t", str(threads)], check=True, capture_output=True, text=True).stdout
    return json.loads(out)[-1]


def machine():
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    flags = next((l.split() for l in open("/proc/cpuinfo") if l.startswith("flags")), [])
    have = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8") if f in flags]
    mem = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    r = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TOP, capture_output=True, text=True)
    pg = subprocess.run([pg_config(), "--version"], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "isa": have, "memory_gib": round(mem, 1), "kernel": platform.release(),
            "vllm_pg": r.stdout.strip(), "postgresql": pg}


def machine_line():
    m = machine()
    return f"{m['cpu']}, {m['cores']} cores, {' '.join(m['isa'])}, {m['memory_gib']} GiB; {m['postgresql']}; vllm_pg {m['vllm_pg']}"


# ---- models ----

def model_path(args, fmt, gguf=False):
    """Return the file or directory of a model in that format; make it if it is missing.  gguf: as a GGUF
    file, even if the format has a directory."""
    name = FORMATS[fmt][0] or ("bf16.gguf" if gguf else "")
    path = os.path.join(args.models, args.shape + ("." + name if name else ""))
    if not os.path.exists(path if name else os.path.join(path, "model.safetensors")):
        note(f"making {path}")
        os.makedirs(args.models, exist_ok=True)
        subprocess.run([sys.executable, os.path.join(TOP, "bench/gen_model.py"), args.shape, path], check=True)
    return path


def cost(shape):
    """Return the FLOPs of a prompt token's matrices, of a row of logits, and of a (query, position) pair in
    attention."""
    c = gen_model.SHAPES[shape]
    head = c["vocab_size"] * c["hidden_size"]
    body = sum(d[0] * d[1] for n, d in gen_model.tensors(c) if len(d) == 2) - head * (1 if c["tie_word_embeddings"] else 2)
    d = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    return 2.0 * body, 2.0 * head, 4.0 * c["num_hidden_layers"] * c["num_attention_heads"] * d


def prefill_flop(shape, n):
    body, head, pair = cost(shape)
    return n * body + head + pair * n * (n + 1) / 2


def prompt(n, seed, prefix=""):
    """Return n ASCII characters, which are n tokens in the generated models' tokenizer."""
    rnd = random.Random(f"{seed}")
    words = prefix
    while len(words) < n:
        words += "".join(rnd.choices("abcdefghijklmnopqrstuvwxyz", k=rnd.randint(2, 9))) + " "
    return words[: n - 1] + "."


def prompts(count, n, common=0, seed=0):
    """Return distinct prompts with a common prefix of that many tokens; another seed gives other
    prompts."""
    head = prompt(common, f"prefix {seed}") if common else ""
    return [prompt(n, f"{seed}-{i}", head) for i in range(count)]


def literal(s):
    return "'" + s.replace("'", "''") + "'"


# ---- a scratch server ----

class Session:
    """A psql process that stays connected; runs one query at a time."""

    MARK = "-- end of answer --"

    def __init__(self, server):
        self.p = subprocess.Popen(server.psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.err = []
        threading.Thread(target=lambda: self.err.extend(self.p.stderr), daemon=True).start()
        self.query("SET client_min_messages = warning")

    def query(self, sql):
        """Return the rows, as lists of text."""
        try:
            self.p.stdin.write(f"{sql};\n\\echo '{self.MARK}'\n")
            self.p.stdin.flush()
        except BrokenPipeError:
            pass
        rows = []
        for line in self.p.stdout:
            if line.rstrip("\n") == self.MARK:
                return rows
            rows.append(line.rstrip("\n").split("\x1f"))
        self.p.wait()
        time.sleep(0.1)
        raise BenchError("".join(self.err).strip() or "the session ended")

    def timed(self, sql):
        t = time.perf_counter()
        rows = self.query(sql)
        return time.perf_counter() - t, rows

    def close(self):
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass  # the process has already ended
        self.p.wait()


class Server:
    """A private cluster under build/bench; `with` removes it at the end."""

    def __init__(self, args, conf="", share=False, name=""):
        self.name = f"scratch{name}{os.getpid()}"
        # Every prompt token must be computed, so prefix caching is off, unless sharing prefixes is what a
        # benchmark measures.
        caching = "on" if share or "prefix" in getattr(args, "works", ()) else "off"
        lines = [f"vllm.cpu_threads = {args.threads}", "max_connections = 60", "fsync = off",
                 "vllm.engine_timeout = 120s", f"vllm.enable_prefix_caching = {caching}", conf, *getattr(args, "conf", [])]
        self.sessions, self.conf = [], "\n".join(lines)
        out = self.shell('cluster_install >&2\nPORT=$(free_port 55900)\ncluster_init "$NAME" "$PORT" "$CONF" >&2\n'
                         'cluster_start "$NAME" >&2\necho "$BASE|$SOCK|$PORT|$PG_BIN"')
        self.base, self.sock, self.port, pg_bin = out.strip().split("\n")[-1].split("|")
        self.psql = [os.path.join(pg_bin, "psql"), "-XAtq", "-F\x1f", "-v", "ON_ERROR_STOP=1", "-h", self.sock, "-p", self.port,
                     "-U", "postgres", "-d", "postgres"]

    def shell(self, script):
        r = subprocess.run(["bash", "-euo", "pipefail", "-c", ". scripts/cluster.sh\ncluster_base build/bench >&2\n" + script], cwd=TOP,
                           stdout=subprocess.PIPE, text=True,
                           env=dict(os.environ, PG_CONFIG=pg_config(), NAME=self.name, CONF=self.conf, CLUSTER_RELEASE="1" if RELEASE else ""))
        if r.returncode != 0:
            raise BenchError("the scratch server did not start")
        return r.stdout

    def __enter__(self):
        try:
            self.sql = self.session()
            self.sql.query("CREATE EXTENSION vllm_pg")
            self.sql.query("CREATE TABLE prompts (id int, p text)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for s in self.sessions:
            s.close()
        self.shell('cluster_stop "$NAME" immediate || true\nrm -rf "${BASE:?}/$NAME" "$BASE/$NAME".*')

    def session(self):
        s = Session(self)
        self.sessions.append(s)
        return s

    def one(self, sql):
        return self.sql.query(sql)[0][0]

    def create(self, args, fmt):
        """Register and load the model of a format; return its name."""
        name = fmt.lower()
        options = FORMATS[fmt][1]
        self.sql.query(f"SELECT llm_create_model('{name}', {literal(os.path.abspath(model_path(args, fmt)))}"
                       + (f", options => '{options}')" if options else ")"))
        self.sql.query(f"SELECT llm_load_model('{name}')")
        return name

    def drop(self, name):
        self.sql.query(f"SELECT llm_unload_model('{name}')")
        self.sql.query(f"SELECT llm_drop_model('{name}')")

    def weight_bytes(self, name):
        return int(self.one(f"SELECT weight_bytes FROM llm_models WHERE name = '{name}'"))

    def put(self, texts):
        self.sql.query("TRUNCATE prompts")
        self.sql.query("INSERT INTO prompts VALUES " + ", ".join(f"({i}, {literal(t)})" for i, t in enumerate(texts)))

    def check_tokens(self, name, n):
        """Check that every prompt of the table has n tokens."""
        bad = self.one(f"SELECT count(*) FROM prompts WHERE llm_count_tokens(p, '{name}') <> {n}")
        if bad != "0":
            raise BenchError(f"{bad} prompts do not have {n} tokens")


# ---- peers: the other engines ----

class Peer:
    """A process (with its children) that is stopped while another engine is measured."""

    def __init__(self, cmd, env=None, **kw):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="vllm_pg-peer-", suffix=".log", delete=False)
        self.p = subprocess.Popen(cmd, stderr=self.log, cwd="/", start_new_session=True, text=True, env=dict(os.environ, **(env or {})), **kw)

    def group(self, sig):
        try:
            os.killpg(self.p.pid, sig)
        except ProcessLookupError:
            pass

    def __enter__(self):
        self.group(signal.SIGCONT)
        return self

    def __exit__(self, *_):
        self.group(signal.SIGSTOP)

    def end(self):
        self.group(signal.SIGCONT)
        self.group(signal.SIGTERM)
        try:
            self.p.wait(10)
        except subprocess.TimeoutExpired:
            pass
        self.group(signal.SIGKILL)
        self.p.wait()
        self.log.close()
        if os.path.exists(self.log.name):
            os.unlink(self.log.name)

    def fail(self, what):
        self.log.flush()
        tail = "".join(open(self.log.name).readlines()[-15:])
        raise BenchError(f"{what}\n{tail}")


# ---- serving: requests of PROMPT_TOKENS + NEW_TOKENS, IN_FLIGHT of them at a time ----

PROMPT_TOKENS, NEW_TOKENS, IN_FLIGHT, COMMON = 128, 64, 16, 100
SERVE_CONF = f"vllm.max_num_seqs = {IN_FLIGHT}"


def in_statement(server, name, texts):
    """Return the seconds for all requests in one statement."""
    server.put(texts)
    t, rows = server.sql.timed(f"SELECT count(*), sum(((r).usage).completion_tokens), sum(((r).usage).prompt_tokens) FROM (SELECT llm_generate_full(p, "
                               f"model => '{name}', max_tokens => {NEW_TOKENS}, temperature => 0, ignore_eos => true) AS r FROM prompts OFFSET 0) q")
    if [int(x) for x in rows[0]] != [len(texts), len(texts) * NEW_TOKENS, len(texts) * PROMPT_TOKENS]:
        raise BenchError(f"requests, generated and prompt tokens are {rows[0]}")
    return t


def in_sessions(server, name, texts):
    """Return the seconds for all requests over IN_FLIGHT sessions; each session sends its requests one
    after the other."""
    while len(server.sessions) < IN_FLIGHT + 1:
        server.session()
    todo, tokens, failed = list(texts), [], []

    def client(session):
        try:
            while True:
                try:
                    text = todo.pop()
                except IndexError:
                    return
                tokens.append(int(session.query(f"SELECT (r.usage).completion_tokens FROM llm_generate_full({literal(text)}, model => '{name}', "
                                                f"max_tokens => {NEW_TOKENS}, temperature => 0, ignore_eos => true) r")[0][0]))
        except BenchError as e:
            failed.append(e)

    threads = [threading.Thread(target=client, args=(s,)) for s in server.sessions[1: IN_FLIGHT + 1]]
    t = time.perf_counter()
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    t = time.perf_counter() - t
    if failed:
        raise failed[0]
    if tokens != [NEW_TOKENS] * len(texts):
        raise BenchError("not all requests have all tokens")
    return t


# ---- figures ----

def median(values):
    return statistics.median(values)


def spread(values):
    return {"min": min(values), "median": median(values), "max": max(values)}


def probed(probe, work, rounds, tolerance=0.10, tries=4):
    """Run work() between two probes of a limit, until `rounds` rounds are good: their probes differ by less
    than the tolerance.  Return (result, limit) of each good round, and the number of rounds run.  After
    tries * rounds, take what there is."""
    good, n = [], 0
    before = probe()
    while len(good) < rounds and n < tries * rounds:
        result = work()
        after = probe()
        if abs(after - before) < tolerance * max(before, after):
            good.append((result, (before + after) / 2))
        before = after
        n += 1
    return good, n


def table(head, rows):
    """Print columns as wide as their contents; numbers are aligned to the right."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    width = [max(len(r[i]) for r in cells) for i in range(len(head))]
    for n, row in enumerate(cells):
        print("  ".join(c.ljust(w) if i == 0 or not (cells[-1][i][:1].isdigit() or cells[-1][i] == "-") else c.rjust(w)
                        for i, (c, w) in enumerate(zip(row, width))).rstrip())
        if n == 0:
            print("  ".join("-" * w for w in width))


def output(args, results, head, rows):
    if args.json:
        print(json.dumps({"machine": machine(), "results": results}, indent=1))
    else:
        print(machine_line())
        table(head, rows)
