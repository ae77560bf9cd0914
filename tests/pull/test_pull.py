#!/usr/bin/env python3
"""Tests of vllm_pg_pull against a local server.

    test_pull.py PROGRAM [CASE ...]     prints `ok NAME` or `not ok NAME: reason` of each case, and their numbers

Most cases call the program's main() here, where nothing sleeps; those with signals, limits and users run it.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from hub import COMMIT, Hub, git_sha1, sha256  # noqa: E402

# one that every user can run
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
PROGRAM, WANTED = os.path.abspath(sys.argv[1]), sys.argv[2:]
WEIGHTS = bytes(range(256)) * 2000
GGUF = b"GGUF" + WEIGHTS
MODEL = {
    "config.json": b'{"model_type": "qwen3", "torch_dtype": "bfloat16"}', "generation_config.json": b"{}",
    "tokenizer.json": b'{"model": {}}', "tokenizer_config.json": b"{}", "chat_template.jinja": b"{{ x }}",
    "additional_chat_templates/tool.jinja": b"{{ y }}", "model.safetensors": WEIGHTS,
}
OTHERS = {
    ".gitattributes": b"x", "README.md": b"# x", "pytorch_model.bin": b"pickle", "onnx/model.onnx": b"onnx", "trainer_state.json": b"{}",
    "original/consolidated.00.pth": b"p", "consolidated.safetensors": b"s", "runs/events.json": b"{}", "LICENSE": b"free",
}
CASES = []


def load():
    loader = importlib.machinery.SourceFileLoader("vllm_pg_pull", PROGRAM)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vllm_pg_pull", loader))
    loader.exec_module(module)
    return module


def case(f):
    CASES.append(f)
    return f


class Wrong(Exception):
    pass


class World:
    """A hub, an empty models' directory, an empty home, and the program."""

    def __init__(self, hub, top):
        self.hub, self.top = hub, top
        self.dir, self.home = os.path.join(top, "models"), os.path.join(top, "home")
        os.mkdir(self.home)
        self.program = load()
        self.waits = []
        self.program.time = type("Time", (), {"sleep": self.waits.append, "time": time.time, "monotonic": time.monotonic})
        for name in list(os.environ):
            if name.lower().endswith("_proxy") or name.startswith(("HF_", "HUGGING_FACE", "OLLAMA", "VLLM_PG_MODELS", "XDG_CACHE")):
                del os.environ[name]
        os.environ.update(HF_ENDPOINT=hub.url, HOME=self.home)

    def options(self, args):
        more = [] if "--dir" in args else ["--dir", self.dir]
        return [PROGRAM, *more, "--server-user", self.program.user_of(os.geteuid()), "--keep-free", "0", *args]

    def run(self, *args, status=0):
        """Call the program; check its exit status; return what it prints to stdout, and keep stderr."""
        out, err = io.StringIO(), io.StringIO()
        sys.argv = self.options(args)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                got = self.program.main()
            except SystemExit as e:
                got = e.code
        self.out, self.err = out.getvalue(), err.getvalue()
        if got != status:
            raise Wrong(f"exit status {got}, expected {status}: {self.err}{self.out}")
        return self.out

    def fails(self, text, *args, status=1):
        """Call the program, which must fail with this text in its last line, and print no statement."""
        self.run(*args, status=status)
        last = self.err.rstrip("\n").split("\n")[-1]
        if not re.search(text, last) or self.out:
            raise Wrong(f"{last!r} lacks {text!r} {self.out}")

    def start(self, *args, before=lambda: None):
        """Run the program as a process, which calls before() first.  A shell's jobs in the background ignore
        SIGINT; this process must not."""
        def prepare():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            before()
        return subprocess.Popen([PYTHON] + self.options(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=prepare)

    def files(self, name=None):
        """Return {path: content} below a model's directory, or below the models' directory."""
        top = os.path.join(self.dir, name) if name else self.dir
        found = {}
        for d, _, names in os.walk(top):
            for n in names:
                with open(os.path.join(d, n), "rb") as f:
                    found[os.path.relpath(os.path.join(d, n), top)] = f.read()
        return found

    def has(self, name, files):
        """Check that a model's directory has these files, SHA256SUMS, right modes, and nothing else is there."""
        found = self.files(name)
        sums = found.pop("SHA256SUMS").decode()
        same(found, files)
        same(sums, "".join(f"{sha256(files[f])}  {f}\n" for f in sorted(files)))
        for d, folders, names in os.walk(self.dir):
            for n in folders + names:
                same(stat.S_IMODE(os.stat(os.path.join(d, n)).st_mode), 0o755 if n in folders else 0o644)
        same([n for n in os.listdir(self.dir) if n.startswith(".")], [])


def same(a, b):
    if a != b:
        a, b = (repr(x) if len(repr(x)) < 600 else repr(x)[:600] + "..." for x in (a, b))
        raise Wrong(f"{a} is not {b}")


def until(what, seconds=15):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise Wrong("it took too long")
        time.sleep(0.01)


# ---- which files ----

@case
def directory(w):
    w.hub.repo("org/Tiny-1B", {**MODEL, **OTHERS})
    same(w.run("hf:org/Tiny-1B"), f"SELECT llm_create_model('tiny-1b', '{w.dir}/Tiny-1B');\n")
    w.has("Tiny-1B", MODEL)
    same(w.hub.asked("hub")[0], "/api/models/org/Tiny-1B/revision/main?blobs=true")
    same({p.split("/")[4] for p in w.hub.asked("hub")[1:]}, {COMMIT})


@case
def plain_name_revision_and_page(w):
    w.hub.repo("org/x", MODEL, revision="v1")
    w.run("org/x@v1")
    w.run("hf:org/x", "--revision", "v1", "--name", "two")
    w.run("hf://org/x", "--name", "three")
    w.run(f"{w.hub.url}/org/x/tree/v1", "--name", "four")
    same({p.split("?")[0].split("/")[-1] for p in w.hub.asked("hub") if "/api/" in p}, {"v1", "main"})
    w.fails("no such revision", "org/x@v2")
    w.hub.repo("org/x", MODEL, revision="f" * 40)
    w.fails("has commit 0123\\w* instead", "org/x@" + "f" * 40)
    w.fails("no such repository|no such model", "hf:org/none")
    parse = w.program.parse_name
    opts = w.program.make_parser().parse_args(["x"])
    for text, (file, quant, revision) in {
            "https://huggingface.co/a/b": (None, None, "main"), "hf.co/a/b:Q4_K_M": (None, "Q4_K_M", "main"), "a/b:q8_0@x": (None, "q8_0", "x"),
            "https://huggingface.co/a/b/resolve/r1/f.gguf?download=true": ("f.gguf", None, "r1"),
            "hf:a/b/Q4/f-00001-of-00002.gguf": ("Q4/f-00001-of-00002.gguf", None, "main")}.items():
        opts.model = text
        same(parse(opts, w.program.HUB), (w.program.plan_hub, (w.program.HUB, "a/b", file, quant, revision)))


@case
def shards_of_safetensors(w):
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"}}
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode(),
             "model-00001-of-00002.safetensors": WEIGHTS, "model-00002-of-00002.safetensors": WEIGHTS[::-1]}
    w.hub.repo("org/x", {**files, "model-00003-of-00003.safetensors": b"old", "consolidated.safetensors": b"x"})
    w.run("hf:org/x")
    w.has("x", files)


@case
def pickles_only_without_safetensors(w):
    files = {"config.json": b"{}", "vocab.json": b"{}", "merges.txt": b"", "pytorch_model.bin": WEIGHTS}
    w.hub.repo("org/x", {**files, "tf_model.h5": b"x", "model.onnx": b"x"})
    w.run("hf:org/x")
    w.has("x", files)


@case
def sentence_transformers(w):
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}, {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
               {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    files = {**MODEL, "modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": b"{}", "2_Dense/config.json": b"{}",
             "2_Dense/model.safetensors": b"d", "sentence_bert_config.json": b"{}"}
    w.hub.repo("org/x", {**files, "3_Other/config.json": b"{}", "openvino/config.json": b"{}"})
    w.run("hf:org/x")
    w.has("x", files)


@case
def an_adapter(w):
    files = {"adapter_config.json": b"{}", "adapter_model.safetensors": WEIGHTS}
    w.hub.repo("org/polite", {**files, "README.md": b""})
    same(w.run("hf:org/polite"), f"SELECT llm_create_lora('polite', 'MODEL', '{w.dir}/polite');\n")
    w.has("polite", files)


@case
def no_model(w):
    w.hub.repo("org/x", {"README.md": b"x"})
    w.fails("no config.json", "hf:org/x")
    w.hub.repo("org/y", {"config.json": b"{}", "model.onnx": b"x", "consolidated.00.pth": b"y"})
    w.fails("no weights.*consolidated.00.pth", "hf:org/y")
    w.fails("no GGUF.*quantize on loading", "hf:org/y:Q4_K_M")


@case
def gguf_by_quant(w):
    repo = {f"x-{q}.gguf": b"GGUF" + q.encode() for q in ("Q4_K_M", "Q4_K_S", "Q8_0", "UD-Q5_K_XL", "BF16")}
    repo.update({"mmproj-F16.gguf": b"GGUFm", "imatrix_x.gguf": b"GGUFi", "BIG/x-BIG-IQ2_XXS.gguf": b"GGUFiq", "config.json": b"{}"})
    w.hub.repo("org/x-GGUF", repo)
    same(w.run("hf:org/x-GGUF:q4_k_m"), f"SELECT llm_create_model('x-q4_k_m', '{w.dir}/x-GGUF/x-Q4_K_M.gguf');\n")
    w.has("x-GGUF", {"x-Q4_K_M.gguf": repo["x-Q4_K_M.gguf"]})
    w.run("hf:org/x-GGUF:Q5_K_XL")
    w.run("hf:org/x-GGUF:iq2_xxs", "--name", "small")
    w.has("x-GGUF", {n: repo[n] for n in ("x-Q4_K_M.gguf", "x-UD-Q5_K_XL.gguf")})
    w.has("small", {"x-BIG-IQ2_XXS.gguf": b"GGUFiq"})
    same(w.run("hf:org/x-GGUF/x-Q8_0.gguf").count("Q8_0.gguf"), 1)
    w.fails("has 6 GGUF models.*Hint: name one: hf:org/x-GGUF:BF16, hf:org/x-GGUF:IQ2_XXS, hf:org/x-GGUF:Q4_K_M, ", "hf:org/x-GGUF")
    w.fails("no GGUF file Q4_K\\.", "hf:org/x-GGUF:Q4_K")
    w.fails("no file none.gguf", "hf:org/x-GGUF/none.gguf")


@case
def gguf_parts_together(w):
    parts = {f"Q8_0/x-Q8_0-0000{i}-of-00003.gguf": b"GGUF" + bytes([i]) * 1000 for i in (1, 2, 3)}
    w.hub.repo("org/x", {**parts, "x-Q4_0.gguf": b"GGUF4"})
    for i, (name, model) in enumerate((("a", "hf:org/x:Q8_0"), ("b", "hf:org/x/Q8_0/x-Q8_0-00002-of-00003.gguf"))):
        same(w.run(model, "--name", name), f"SELECT llm_create_model('{name}', '{w.dir}/{name}/x-Q8_0-00001-of-00003.gguf');\n")
        w.has(name, {os.path.basename(n): d for n, d in parts.items()})
    del parts["Q8_0/x-Q8_0-00002-of-00003.gguf"]
    w.hub.repo("org/y", parts)
    w.fails("lacks .*00002-of-00003", "hf:org/y:Q8_0")


@case
def one_gguf_needs_no_quant(w):
    w.hub.repo("org/x", {"only.gguf": GGUF, "mmproj-x.gguf": b"GGUF"})
    same(w.run("hf:org/x"), f"SELECT llm_create_model('only', '{w.dir}/x/only.gguf');\n")
    w.hub.repo("org/both", {**MODEL, "both-Q4_0.gguf": GGUF})
    w.run("hf:org/both")
    w.has("both", MODEL)
    same("also has GGUF files: name one: hf:org/both:Q4_0" in w.err, True)


@case
def a_web_address(w):
    w.hub.pages.update({"/d/x.Q4_0.gguf": GGUF, "/d/page.gguf": b"<html>log in</html>"})
    same(w.run(f"{w.hub.cdn_url}/d/x.Q4_0.gguf?a=b"), f"SELECT llm_create_model('x.q4_0', '{w.dir}/x.Q4_0/x.Q4_0.gguf');\n")
    same("no checksum; compare" in w.err, True)
    w.has("x.Q4_0", {"x.Q4_0.gguf": GGUF})
    w.fails("exists and may differ", f"{w.hub.cdn_url}/d/x.Q4_0.gguf")
    w.run(f"{w.hub.cdn_url}/d/x.Q4_0.gguf", "--sha256", sha256(GGUF).upper())
    w.fails("is not what it should be", f"{w.hub.cdn_url}/d/x.Q4_0.gguf", "--name", "y", "--sha256", "0" * 64)
    w.fails("is no GGUF file", f"{w.hub.cdn_url}/d/page.gguf")
    w.fails("not the address of a GGUF", f"{w.hub.cdn_url}/d/x.bin")
    w.fails("no such model or file", f"{w.hub.cdn_url}/d/none.gguf")
    same(sorted(os.listdir(w.dir)), [".page.pull", ".y.pull", "x.Q4_0"])


@case
def parts_of_a_web_address(w):
    parts = {f"x-0000{i}-of-00002.gguf": b"GGUF%d" % i for i in (1, 2)}
    w.hub.pages.update({"/" + n: d for n, d in parts.items()})
    w.run(f"{w.hub.cdn_url}/x-00002-of-00002.gguf")
    w.has("x", parts)
    w.fails("at most 1024", f"{w.hub.cdn_url}/x-00002-of-99999.gguf")


@case
def ollama(w):
    w.hub.ollama("library/qwen3/4b", [("model", GGUF), ("template", b"{{ .Prompt }}"), ("params", b"{}"), ("license", b"x")])
    w.hub.ollama("me/own/latest", [("model", GGUF[::-1])])
    same(w.run("ollama:qwen3:4b", "--endpoint", w.hub.url), f"SELECT llm_create_model('qwen3-4b', '{w.dir}/qwen3-4b/qwen3-4b.gguf');\n")
    same("left out, the layers license, params, template: " in w.err, True)
    w.has("qwen3-4b", {"qwen3-4b.gguf": GGUF})
    w.fails("no GGUF file", "ollama:me/own", "--endpoint", w.hub.url)
    w.fails("no such model", "ollama:none", "--endpoint", w.hub.url)


@case
def hostile_manifests(w):
    def manifest(name, change):
        m = w.hub.ollama(f"library/{name}/latest", [("model", GGUF)])
        change(m)
        return (f"ollama:{name}", "--endpoint", w.hub.url)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "0" * 64, "size": 5}
    w.fails("invalid digest", *manifest("a", lambda m: m["layers"][0].update(digest="sha256:../../../../etc/passwd" + "0" * 40)))
    w.fails("invalid digest", *manifest("b", lambda m: m["layers"][0].update(digest=["x"])))
    w.fails("2 layers", *manifest("c", lambda m: m["layers"].append(layer)))
    w.fails("0 layers", *manifest("d", lambda m: m.update(layers={"x": 1})))
    w.fails("adapter", *manifest("e", lambda m: m["layers"].append({**layer, "mediaType": "application/vnd.ollama.image.adapter"})))
    w.fails("no valid size", *manifest("f", lambda m: m["layers"][0].update(size=-1)))
    w.fails("announced 5", *manifest("g", lambda m: m["layers"][0].update(size=5)))
    w.fails("0 layers", *manifest("h", lambda m: m["layers"].__setitem__(0, 7)))


# ---- tokens ----

@case
def tokens(w):
    w.hub.repo("org/gated", MODEL, token="hf_secret")
    w.fails("access denied .status 401.*HF_TOKEN", "hf:org/gated")
    same(set(w.hub.asked("hub", "Authorization")), {None})
    os.environ["HF_TOKEN"] = "hf_other"
    w.fails("access denied .status 403.*accept the model's terms", "hf:org/gated")
    os.environ["HF_TOKEN"] = "hf_secret\n"
    w.hub.seen.clear()
    w.run("hf:org/gated")
    w.has("gated", MODEL)
    same(set(w.hub.asked("hub", "Authorization")), {"Bearer hf_secret"})
    same(set(w.hub.asked("cdn", "Authorization")), {None})
    same("secret" in w.err + w.out, False)
    os.environ["HF_TOKEN"] = "a\nb"
    w.fails("the token has characters", "hf:org/gated")
    del os.environ["HF_TOKEN"]
    os.makedirs(w.home + "/.cache/huggingface")
    with open(w.home + "/.cache/huggingface/token", "w") as f:
        f.write("hf_secret\n")
    w.run("hf:org/gated", "--name", "again")
    os.environ["HF_TOKEN_PATH"] = w.home + "/none"
    w.fails("access denied", "hf:org/gated", "--name", "third")
    w.hub.pages["/f.gguf"] = GGUF
    os.environ["HF_TOKEN"] = "hf_secret"
    w.hub.seen.clear()
    w.run(w.hub.cdn_url.replace("127.0.0.1", "localhost") + "/blobs/" + sha256(WEIGHTS), status=1)
    w.run(f"{w.hub.cdn_url}/blobs/x.gguf", status=1)
    same({h.get("Authorization") for _, _, h in w.hub.seen}, {None})


@case
def a_token_stays_at_its_host(w):
    for at in ("{hub}/elsewhere", "{cdn}/blobs/x", "//{cdnhost}/blobs/x"):
        w.hub.repo("org/x", MODEL, token="hf_secret")
        w.hub.seen.clear()
        os.environ["HF_TOKEN"] = "hf_secret"
        w.hub.fault("/api/", status=307, headers={"Location": at.format(hub=w.hub.url, cdn=w.hub.cdn_url, cdnhost=w.hub.cdn_url[7:])})
        w.run("hf:org/x", status=1)
        same(w.hub.asked("cdn", "Authorization"), [] if "{hub}" in at else [None])


# ---- redirects ----

@case
def redirects(w):
    w.hub.repo("org/new", MODEL)
    w.hub.fault("/api/models/org/old", status=307, headers={"Location": "/api/models/org/new/revision/main?blobs=true"})
    w.fails("no such", "hf:org/old")       # the list came, the files did not
    same(w.hub.asked("hub")[1], "/api/models/org/new/revision/main?blobs=true")
    for at, text in {"/api/models/org/new/revision/main": "more than 8 redirects", "file:///etc/passwd": "not https", "ftp://x/y": "not https",
                     "http://host.example/x": "not https.*--insecure-http", "https://u:p@host.example/": "user name or password", "": "more than 8",
                     "http://127.0.0.1:99999999/": "no valid URL", "http://[::1/": "no valid URL", "data:text/json,{}": "not https",
                     "http:///x": "not https|no valid|no such", "\x01": "no valid|redirects|no such|not https"}.items():
        w.hub.faults.clear()
        w.hub.fault("/api/models/org/new", times=20, status=302, headers={"Location": at})
        w.fails(text, "hf:org/new")
    web = w.program.Web(w.program.make_parser().parse_args(["x", "--insecure-http"]))
    web.check("http://host.example/")
    for before in ("https://hub.example/", "https://localhost/"):
        try:
            web.check("http://localhost/", before)
        except w.program.Failure as e:
            same("from https to" in str(e), True)
        else:
            raise Wrong("https may lead to http")


@case
def certificates(w):
    if not shutil.which("openssl"):
        return "skip no openssl"
    files = (w.top + "/cert.pem", w.top + "/key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    with Hub(files) as hub:
        hub.repo("org/x", MODEL)
        w.fails("certificate of localhost is not valid.*SSL_CERT_FILE", "hf:org/x", "--endpoint", hub.url)
        os.environ["SSL_CERT_FILE"] = files[0]
        w.run("hf:org/x", "--endpoint", hub.url, "--dry-run")
        w.fails("leads from https to .http://127", "hf:org/x", "--endpoint", hub.url)
        w.fails("certificate of 127.0.0.1 is not valid|IP address mismatch", "hf:org/x", "--endpoint", hub.url.replace("localhost", "127.0.0.1"))
        w.run("hf:org/x", "--endpoint", hub.url.replace("https:", "http:"), "--retries", "0", status=1)
        del os.environ["SSL_CERT_FILE"]


# ---- requests that fail ----

@case
def a_cut_connection_resumes(w):
    w.hub.repo("org/x", MODEL)
    w.hub.fault("/blobs/", cut=200000)
    w.hub.fault("/blobs/", cut=100000)
    w.run("hf:org/x")
    w.has("x", MODEL)
    same(w.hub.asked("cdn", "Range"), [None, "bytes=200000-", "bytes=300000-"])
    same(set(w.hub.asked("cdn", "If-Range")), {None, f'"{sha256(WEIGHTS)[:16]}"'})
    same(len(w.waits), 2)
    same("the connection was cut after 200 kB; try 2 of 6" in w.err, True)


@case
def a_later_run_resumes(w):
    w.hub.repo("org/x", MODEL)
    w.hub.fault("/blobs/", cut=200000)
    w.fails("cut after.*run the same command again", "hf:org/x", "--retries", "0")
    same(os.listdir(w.dir), [".x.pull"])
    w.hub.seen.clear()
    w.run("hf:org/x")
    w.has("x", MODEL)
    same(w.hub.asked("cdn", "Range"), ["bytes=200000-"])
    # the small files had come before: the list and the redirect are all that the hub is asked for
    same(len(w.hub.asked("hub")), 2)


@case
def a_changed_etag_begins_anew(w):
    w.hub.repo("org/x", MODEL)
    # what the host answers to the range, and how many requests it takes in all
    for fault, requests in (({"etag": '"other"'}, 2), ({"etag": '"other"', "bad_if_range": True}, 3), ({"no_range": True}, 2), ({"start": 7}, 3),
                            ({"status": 416}, 3), ({"etag": None, "no_range": True}, 2)):
        shutil.rmtree(w.dir, ignore_errors=True)
        w.hub.faults.clear()
        w.hub.seen.clear()
        w.hub.fault("/blobs/", cut=200000)
        w.run("hf:org/x", "--retries", "0", status=1)
        w.hub.fault("/blobs/", **fault)
        w.run("hf:org/x")
        w.has("x", MODEL)
        same(w.hub.asked("cdn", "Range"), [None, "bytes=200000-", None][:requests])
        same("the part from before was wrong" in w.err, False)


@case
def an_address_that_changed(w):
    w.hub.pages["/x.gguf"] = GGUF
    w.hub.fault("/x.gguf")
    w.hub.fault("/x.gguf", cut=1000)
    w.fails("cut", f"{w.hub.cdn_url}/x.gguf", "--retries", "0")
    w.hub.pages["/x.gguf"] = b"GGUF" + bytes(3000)
    w.run(f"{w.hub.cdn_url}/x.gguf")
    w.has("x", {"x.gguf": b"GGUF" + bytes(3000)})
    same(set(w.hub.asked("cdn", "Range")), {None})


@case
def without_etags_only_a_checksum_resumes(w):
    w.hub.pages["/x.gguf"] = GGUF
    for more, ranges in (((), {None}), (("--sha256", sha256(GGUF)), {None, "bytes=1000-"})):
        shutil.rmtree(w.dir, ignore_errors=True)
        w.hub.seen.clear()
        w.hub.faults.clear()
        w.hub.fault("/x.gguf", etag=None)
        w.hub.fault("/x.gguf", etag=None, cut=1000)
        w.hub.fault("/x.gguf", etag=None)
        w.run(f"{w.hub.cdn_url}/x.gguf", *more)
        w.has("x", {"x.gguf": GGUF})
        same(set(w.hub.asked("cdn", "Range")), ranges)


@case
def busy_hosts(w):
    w.hub.repo("org/x", MODEL)
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 40))
    for wait in ("7", date, "nonsense", "-3"):
        w.hub.fault("/api/", status=429, headers={"Retry-After": wait})
    w.hub.fault("/blobs/", status=503)
    w.run("hf:org/x")
    same(w.waits[0], 7)
    same(30 <= w.waits[1] <= 41, True)
    same(all(0 < x <= 8 for x in w.waits[2:5]) and len(w.waits) == 5, True)
    w.hub.fault("/api/", times=9, status=502)
    w.fails("status 502, after 3 tries", "hf:org/x", "--retries", "2")
    w.hub.faults.clear()
    w.hub.fault("/api/", status=429, headers={"Retry-After": "99999"})
    w.fails("asks to wait 99999 s.*later", "hf:org/x")
    w.hub.fault("/api/", status=418)
    w.fails("unexpected status 418", "hf:org/x")
    w.fails("no connection", "hf:org/x", "--endpoint", "http://127.0.0.1:9", "--retries", "1")
    w.hub.fault("/api/", cut=10)
    w.run("hf:org/x")


@case
def wrong_content(w):
    w.hub.repo("org/x", MODEL)
    w.hub.fault("/blobs/", data=WEIGHTS[::-1])
    w.fails("model.safetensors is not what it should be.*removed", "hf:org/x")
    same([f for f in w.files() if "model.safetensors" in f], [])
    w.hub.fault(f"/org/x/resolve/{COMMIT}/config", data=b'{"model_type": "qwen3", "torch_dtype": "bfloat17"}')
    w.fails("is not what it should be", "hf:org/x", "--name", "y")
    # a part that is wrong is not believed, but the file is downloaded once more
    w.hub.fault("/blobs/", cut=1000)
    w.run("hf:org/x", "--retries", "0", status=1)
    part = os.path.join(w.dir, ".x.pull/files/model.safetensors.part")
    with open(part, "r+b") as f:
        f.write(b"damaged")
    w.run("hf:org/x")
    w.has_x = w.files("x")["model.safetensors"] == WEIGHTS
    same(w.has_x and "downloaded from the beginning" in w.err, True)


@case
def lengths_that_lie(w):
    w.hub.repo("org/x", MODEL)
    w.hub.fault("/blobs/", length=5)
    w.fails("sends 5 bytes, but announced 512000", "hf:org/x")
    w.hub.fault("/blobs/", chunked=True, data=WEIGHTS + b"more")
    w.fails("sends more than the 512000", "hf:org/x")
    w.hub.fault("/blobs/", no_length=True)
    w.run("hf:org/x")
    w.hub.pages["/x.gguf"] = GGUF
    for _ in range(2):
        w.hub.fault("/x.gguf", no_length=True)
    w.fails("does not say how long", f"{w.hub.cdn_url}/x.gguf", "--name", "y")
    for _ in range(2):
        w.hub.fault("/x.gguf", chunked=True)
    w.run(f"{w.hub.cdn_url}/x.gguf", "--name", "y")
    w.has("y", {"x.gguf": GGUF})
    w.hub.fault("/blobs/", status=200, headers={"Content-Encoding": "gzip"}, body=b"x")
    w.fails("encoded", "hf:org/x", "--name", "z")


# ---- hostile lists ----

@case
def hostile_lists(w):
    def listing(text, change, name="hf:org/x", files=MODEL):
        change(w.hub.repo("org/x", files))
        w.fails(text, name)

    def sibling(info, name):
        return next(s for s in info["siblings"] if s["rfilename"] == name)
    for size in (-1, 2 ** 63, 1e300, "5", None, True, [1]):
        listing("no valid size", lambda i: sibling(i, "model.safetensors")["lfs"].update(size=size))
        listing("no valid size", lambda i: sibling(i, "config.json").update(size=size))
    listing("no valid size", lambda i: sibling(i, "config.json").pop("size"))
    listing("free, but .* are needed", lambda i: sibling(i, "model.safetensors")["lfs"].update(size=2 ** 50))
    for sha in ("x", "0" * 63, "A" * 64, 5, None, "../../x"):
        listing("no valid SHA-256", lambda i: sibling(i, "model.safetensors")["lfs"].update(sha256=sha))
        listing("no valid checksum", lambda i: sibling(i, "config.json").update(blobId=sha))
    listing("no valid SHA-256", lambda i: sibling(i, "model.safetensors").update(lfs=[]))
    for sha in ("main", None, 5, "../" * 10, COMMIT.upper()):
        listing("no list of files", lambda i: i.update(sha=sha))
    for siblings in (None, {}, "x", 5):
        listing("no list of files", lambda i: i.update(siblings=siblings))
    for entry in (5, {}, {"rfilename": 5}, {"rfilename": "config.json"}, None):
        listing("malformed list", lambda i: i["siblings"].append(entry))
    for body in (b"", b"{", b"[]", b"[" * 100000, b"\xff", b'{"a":' * 50000, b"null", b"1" * 10000):
        w.hub.fault("/api/", status=200, body=body)
        w.fails("valid JSON|no object|no list", "hf:org/x")


@case
def hostile_names(w):
    for name in ("../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a//x.gguf", ".x.gguf", "a/./x.gguf", "x\n.gguf", "x\x1b[2J.gguf", "\\..\\x.gguf", "~/x.gguf",
                 "\u202ex.gguf", "x" * 300 + ".gguf"):
        w.hub.repo("org/x", {name: GGUF})
        w.fails("no plain name", "hf:org/x")
        same("\x1b" in w.err or "\u202e" in w.err, False)
    for part in ("../model.safetensors", "a/model.safetensors", "/etc/x.safetensors", "none.safetensors", "config.json", 5, None, {"a": 1}):
        w.hub.repo("org/x", {"config.json": b"{}", "model.safetensors.index.json": json.dumps({"weight_map": {"a": part}}).encode(),
                             "a/model.safetensors": b"", "../model.safetensors": b""})
        w.fails("no plain name|which the repository lacks", "hf:org/x")
    for index in ({}, {"weight_map": []}, {"weight_map": {}}, [], None):
        w.hub.repo("org/x", {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()})
        w.fails("names no weights|not valid JSON", "hf:org/x")
    for folder in ("..", "../x", "/etc", "1_Pooling/../.."):
        w.hub.repo("org/x", {**MODEL, "modules.json": json.dumps([{"type": "Pooling", "path": folder}]).encode(), "../config.json": b"{}"})
        w.fails("no plain name", "hf:org/x")
    w.hub.repo("org/x", {**MODEL, "modules.json": b'[5, {"path": 5}, {"type": 5}, {}]'})
    w.run("hf:org/x")
    same(sorted(os.listdir(w.top)), ["home", "models"])


# ---- the directory ----

@case
def links_in_the_directory(w):
    w.hub.repo("org/x", MODEL)
    out = os.path.join(w.top, "outside")
    os.mkdir(out)
    os.mkdir(w.dir)
    for name in ("x", ".x.pull"):
        os.symlink(out, os.path.join(w.dir, name))
        w.fails("is no directory, but a symbolic link", "hf:org/x")
        os.unlink(os.path.join(w.dir, name))
        shutil.rmtree(os.path.join(w.dir, ".x.pull"), ignore_errors=True)
    # in the staging directory: files, a part, the lock
    os.makedirs(os.path.join(w.dir, ".x.pull"))
    os.symlink(out, os.path.join(w.dir, ".x.pull/files"))
    w.fails("symbolic link", "hf:org/x")
    os.unlink(os.path.join(w.dir, ".x.pull/files"))
    os.makedirs(os.path.join(w.dir, ".x.pull/files"))
    os.symlink(os.path.join(out, "f"), os.path.join(w.dir, ".x.pull/files/model.safetensors.part"))
    w.fails("symbolic link|Too many levels", "hf:org/x")
    shutil.rmtree(os.path.join(w.dir, ".x.pull"))
    os.makedirs(os.path.join(w.dir, ".x.pull"))
    os.symlink(os.path.join(out, "f"), os.path.join(w.dir, ".x.pull/lock"))
    w.fails("Too many levels", "hf:org/x")
    shutil.rmtree(os.path.join(w.dir, ".x.pull"))
    # in the model's directory: a file is replaced, not what it leads to; a folder is refused
    os.makedirs(os.path.join(w.dir, "x"))
    os.symlink(os.path.join(out, "f"), os.path.join(w.dir, "x/config.json"))
    w.fails("config.json exists and differs", "hf:org/x")
    w.run("hf:org/x", "--force")
    w.has("x", MODEL)
    shutil.rmtree(os.path.join(w.dir, "x/additional_chat_templates"))
    os.symlink(out, os.path.join(w.dir, "x/additional_chat_templates"))
    w.fails("symbolic link", "hf:org/x", "--force")
    same(os.listdir(out), [])
    os.chmod(w.dir, 0o777)
    w.fails("everybody may write.*chmod o-w", "hf:org/x")


@case
def what_is_there_stays(w):
    w.hub.repo("org/x", MODEL)
    w.run("hf:org/x")
    w.hub.seen.clear()
    same(w.run("hf:org/x"), f"SELECT llm_create_model('x', '{w.dir}/x');\n")
    same((len(w.hub.seen), "has all files already" in w.err), (1, True))
    changed = {**MODEL, "config.json": b'{"model_type": "llama"}'}
    w.hub.repo("org/x", changed)
    w.fails("x/config.json exists and differs.*--force", "hf:org/x")
    w.has("x", MODEL) if not os.path.exists(w.dir + "/.x.pull") else same(w.files("x")["config.json"], MODEL["config.json"])
    w.run("hf:org/x", "--force")
    w.has("x", changed)
    os.unlink(w.dir + "/x/tokenizer.json")
    w.run("hf:org/x")
    w.has("x", changed)


@case
def dry_run(w):
    w.hub.repo("org/x", {**MODEL, **OTHERS})
    out = w.run("hf:org/x", "--dry-run")
    same(re.findall(r"512 kB +(\w+) +(\S+)", out)[0], (sha256(WEIGHTS), f"{w.dir}/x/model.safetensors"))
    same((len(out.splitlines()), os.path.exists(w.dir), w.hub.asked("cdn")), (8, False, []))


@case
def names_and_quotes(w):
    w.hub.repo("org/x", MODEL)
    same(w.run("hf:org/x", "--dir", w.top + "/it's", "--name", "My.Model"), f"SELECT llm_create_model('my.model', '{w.top}/it''s/My.Model');\n")
    w.fails("not printable", "hf:org/x", "--dir", w.top + "/a\nb")
    os.environ["VLLM_PG_MODELS"] = w.top + "/from_env"
    w.program.models_directory(w.program.make_parser().parse_args([]))
    same(w.program.models_directory(w.program.make_parser().parse_args([])), w.top + "/from_env")
    for args in (["--name", "../x"], ["--name", "a/b"], ["--name", ""], ["--name", ".x"], ["--sha256", "12"], ["--retries", "-1"], ["--retries", "x"],
                 ["--keep-free", "much"], ["--timeout", "nan"], ["--no-such"], ["--copy", "--link"]):
        w.run("hf:org/x", *args, status=2)
    for model in ("x", "a b/c", "hf:", "a/b/c", "hf:a/b:", "hf:a/b@", "hf:../b", "hf:a/b:c d", "ollama:", "ollama:a/b/c/d:e", "ftp://x/y", "file:///etc/passwd", "", "./x",
                  "hf:a/b/../c.gguf@x y\n"):
        w.run(model, status=2 if model != "hf:a/b/../c.gguf@x y\n" else 2)
    w.run(status=2)
    w.fails("not https.*--insecure-http", "http://host.example/x.gguf")
    w.fails("user name or password", "https://a:b@host.example/x.gguf")
    same(w.hub.asked("hub").count("/x"), 0)


@case
def checksum_options(w):
    w.hub.repo("org/x", MODEL)
    w.hub.repo("org/g", {"g.gguf": GGUF})
    w.fails("for models of one file", "hf:org/x", "--sha256", "0" * 64)
    w.fails("not that of --sha256", "hf:org/g", "--sha256", "0" * 64)
    w.run("hf:org/g", "--sha256", sha256(GGUF))


@case
def no_room(w):
    w.hub.repo("org/x", MODEL)
    w.fails("bytes? free|free, but 51\\d kB are needed and 1e?\\+?\\d* ?\\w+ shall stay free|shall stay free", "hf:org/x", "--keep-free", "999999TB")
    same(w.hub.asked("cdn"), [])
    # a full disk: files may have 100,000 bytes
    p = w.start("hf:org/x", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
    _, err = p.communicate(timeout=30)
    same((p.returncode, "no space left for" in err, "Traceback" in err), (1, True, False))
    w.hub.seen.clear()
    w.run("hf:org/x")
    w.has("x", MODEL)
    same(w.hub.asked("cdn", "Range"), ["bytes=100000-"])


@case
def one_download_at_a_time(w):
    w.hub.repo("org/x", MODEL)
    stall = threading.Event()
    w.hub.fault("/blobs/", cut=300000, stall=stall)
    p = w.start("hf:org/x", "--retry-delay", "0")
    part = os.path.join(w.dir, ".x.pull/files/model.safetensors.part")
    until(lambda: os.path.exists(part) and os.path.getsize(part) == 300000)
    w.fails(f"another vllm_pg_pull .process {p.pid}. downloads", "hf:org/x")
    stall.set()
    out, err = p.communicate(timeout=30)
    same((p.returncode, out), (0, f"SELECT llm_create_model('x', '{w.dir}/x');\n"))
    w.has("x", MODEL)


@case
def an_interrupt(w):
    w.hub.repo("org/x", MODEL)
    part = os.path.join(w.dir, ".x.pull/files/model.safetensors.part")
    for number in (signal.SIGINT, signal.SIGTERM):
        shutil.rmtree(w.dir, ignore_errors=True)
        stall = threading.Event()
        w.hub.fault("/blobs/", cut=300000, stall=stall)
        p = w.start("hf:org/x")
        until(lambda: os.path.exists(part) and os.path.getsize(part) == 300000)
        p.send_signal(number)
        out, err = p.communicate(timeout=30)
        stall.set()
        same((p.returncode, out, "interrupted. Hint: run the same" in err, "Traceback" in err), (1, "", True, False))
        w.hub.seen.clear()
        w.run("hf:org/x")
        w.has("x", MODEL)
        same(w.hub.asked("cdn", "Range"), ["bytes=300000-"])


@case
def progress(w):
    w.hub.repo("org/x", MODEL)
    w.run("hf:org/x")
    same(re.findall(r" %\)", w.err), [])
    w.program.PROGRESS_S = 0
    w.run("hf:org/x", "--name", "y")
    same(re.findall(r"\((100) %\), .*/s, 0 s left", w.err)[-1:], ["100"])
    w.run("hf:org/x", "--name", "z", "--quiet")
    same(re.findall(r" %\)", w.err), [])


# ---- models of other software ----

def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def caches(w):
    """Make a cache of each kind in the home; return the paths of the models in it."""
    hub = w.home + "/.cache/huggingface/hub/models--org--x"
    for name, data in MODEL.items():
        blob = f"{hub}/blobs/{sha256(data) if name.endswith('.safetensors') else git_sha1(data)}"
        link = f"{hub}/snapshots/{COMMIT}/{name}"
        write(blob, data)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
    write(w.home + "/.cache/huggingface/hub/models--org--broken/snapshots/c/config.json", b"{}")
    store = w.home + "/.ollama/models"
    config = json.dumps({"file_type": "Q4_K_M"}).encode()
    manifest = w.hub.ollama("x", [("model", GGUF), ("template", b"t")])
    manifest["config"] = {"digest": "sha256:" + sha256(config)}
    write(f"{store}/blobs/sha256-{sha256(GGUF)}", GGUF)
    write(f"{store}/blobs/sha256-{sha256(config)}", config)
    write(f"{store}/manifests/registry.ollama.ai/library/qwen3/4b", json.dumps(manifest).encode())
    os.makedirs(f"{store}/manifest-v2/ollama.com/library/qwen3")
    os.symlink(f"{store}/manifests/registry.ollama.ai/library/qwen3/4b", f"{store}/manifest-v2/ollama.com/library/qwen3/4b")
    write(f"{store}/manifests/registry.ollama.ai/library/bad/latest", b'{"layers": [5]}')
    studio = w.home + "/.lmstudio/models/org/y-GGUF"
    for i in (1, 2):
        write(f"{studio}/y-Q8_0-0000{i}-of-00002.gguf", b"GGUF%d" % i)
    write(studio + "/mmproj-y.gguf", b"GGUF")
    write(w.home + "/.lmstudio/models/org/\x1b[2J\udcff/z.gguf", b"GGUF")
    return f"{hub}/snapshots/{COMMIT}", f"{store}/blobs/sha256-{sha256(GGUF)}", f"{studio}/y-Q8_0-00001-of-00002.gguf"


@case
def lists_local_models(w):
    paths = caches(w)
    out = w.run("--list-local")
    same([line.strip() for line in out.splitlines()], [
        "org/x  Hugging Face  bfloat16  512 kB", paths[0], f"SELECT llm_create_model('x', '{paths[0]}');",
        "qwen3:4b  Ollama  Q4_K_M  512 kB", paths[1], f"SELECT llm_create_model('qwen3-4b', '{paths[1]}');",
        "org/y-GGUF y-Q8_0-00001-of-00002.gguf  LM Studio  Q8_0  10 bytes", paths[2], f"SELECT llm_create_model('y-q8_0', '{paths[2]}');"])
    os.environ.update(HF_HUB_CACHE=w.top + "/none", OLLAMA_MODELS=w.top + "/none")
    same(len(w.run("--list-local").splitlines()), 3)
    w.run("--list-local", "--home", w.top + "/none")
    same((w.out, "no models of" in w.err), ("", True))


@case
def copies_local_models(w):
    paths = caches(w)
    same(w.run("--copy", paths[0]), f"SELECT llm_create_model('x', '{w.dir}/x');\n")
    w.has("x", MODEL)
    w.run("--copy", paths[0])
    same(w.run("--copy", paths[1]), f"SELECT llm_create_model('qwen3-4b', '{w.dir}/qwen3-4b/qwen3-4b.gguf');\n")
    w.has("qwen3-4b", {"qwen3-4b.gguf": GGUF})
    os.mkfifo(w.home + "/.ollama/models/blobs/sha256-" + "0" * 64)
    w.fails("does not exist", "--copy", w.home + "/.ollama/models/blobs/sha256-" + "0" * 64)
    w.run("--copy", paths[2], "--name", "y")
    w.has("y", {f"y-Q8_0-0000{i}-of-00002.gguf": b"GGUF%d" % i for i in (1, 2)})
    with open(paths[1], "r+b") as f:
        f.write(b"GGUX")
    w.fails("qwen3-4b.gguf is damaged", "--copy", paths[1], "--name", "z")
    with open(paths[0] + "/tokenizer.json", "r+b") as f:
        f.write(b"[")
    w.fails("tokenizer.json is damaged", "--copy", paths[0], "--name", "z")
    w.fails("does not exist", "--copy", w.top + "/none")
    w.fails("no complete model", "--copy", w.home)
    same(w.run("--copy", paths[0], "--dry-run", "--name", "q").count("\n"), len(MODEL))
    same(os.path.exists(w.dir + "/q"), False)


@case
def links_local_models(w):
    paths = caches(w)
    same(w.run("--link", paths[0]), f"SELECT llm_create_model('x', '{w.dir}/x');\n")
    same(w.files("x"), MODEL)
    same(os.path.islink(w.dir + "/x/config.json") and os.path.isabs(os.readlink(w.dir + "/x/config.json")), True)
    same(w.run("--link", paths[1], "--name", "q"), f"SELECT llm_create_model('q', '{w.dir}/q/qwen3-4b.gguf');\n")
    os.chmod(w.home, 0o700)
    # what another user could not read: by the modes, as no other user's rights are at hand
    other = "nobody" if os.geteuid() else "postgres"
    w.run("--list-local", "--server-user", other)
    same(w.out.count(f"user {other} can not read it: {w.home} has mode 0700"), 3)
    w.fails(f"could not read it through a link: {w.home} has mode 0700.*--copy", "--link", paths[0], "--name", "z", "--server-user", other)
    w.run("--copy", paths[0], "--name", "z")


@case
def becomes_the_owner(w):
    if os.geteuid() != 0:
        return "skip not root"
    other = w.program.pwd.getpwnam("nobody")
    w.hub.repo("org/x", MODEL)
    os.chmod(w.top, 0o755)
    os.mkdir(w.dir)
    os.chown(w.dir, other.pw_uid, other.pw_gid)
    out, err = w.start("hf:org/x").communicate(timeout=30)
    same((out, err.count("error")), (f"SELECT llm_create_model('x', '{w.dir}/x');\n", 0))
    same({os.stat(os.path.join(d, n)).st_uid for d, f, m in os.walk(w.dir) for n in f + m}, {other.pw_uid})
    # a directory that the owner makes lead to root's does not get root's rights
    os.mkdir(w.top + "/roots")
    os.symlink(w.top + "/roots", w.dir + "/link")
    os.chown(w.dir + "/link", other.pw_uid, other.pw_gid, follow_symlinks=False)
    for path in ("/link", "/link/x", "/../models/link"):
        out, err = w.start("hf:org/x", "--dir", w.dir + path).communicate(timeout=30)
        same((out, "can not be written by user nobody, to whom" in err), ("", True))
    same(os.listdir(w.top + "/roots"), [])
    # nor does a link in a cache of theirs to what only root can read
    write(w.top + "/secret.safetensors", b"secret")
    os.chmod(w.top + "/secret.safetensors", 0o600)
    write(w.top + "/cache/config.json", b"{}")
    os.symlink(w.top + "/secret.safetensors", w.top + "/cache/model.safetensors")
    write(w.top + "/cache/x.gguf", GGUF)
    for path in ("/cache", "/cache/config.json", "/cache/model.safetensors", "/cache/x.gguf"):
        os.chown(w.top + path, other.pw_uid, other.pw_gid, follow_symlinks=False)
    for path, text in (("/cache", "Permission denied"), ("/cache/model.safetensors", "Permission denied"), ("/cache/x.gguf", "SELECT")):
        out, err = w.start("--copy", w.top + path).communicate(timeout=30)
        same((text in out + err, "Traceback" in err), (True, False))
    same([f for f, data in w.files().items() if data == b"secret"], [])
    # root makes a missing directory for the server's user
    out, err = w.start("hf:org/x", "--dir", w.top + "/new/models", "--server-user", "nobody").communicate(timeout=30)
    same((os.stat(w.top + "/new").st_uid, os.stat(w.top + "/new/models/x/config.json").st_uid), (0, other.pw_uid))


def main():
    passed = failed = skipped = 0
    for f in CASES:
        if WANTED and f.__name__ not in WANTED:
            continue
        top = os.path.realpath(tempfile.mkdtemp(prefix="pull"))
        try:
            with Hub() as hub:
                reason = f(World(hub, top))
            passed, skipped = passed + (not reason), skipped + bool(reason)
            print(f"ok {f.__name__}" + (f" # {reason}" if reason else ""), flush=True)
        except Exception as e:
            failed += 1
            at = [t.lineno for t in traceback.extract_tb(e.__traceback__)]
            print(f"not ok {f.__name__}: {type(e).__name__} at lines {at}: {e}".replace("\n", " / "), flush=True)
        finally:
            os.chmod(top, 0o700)
            shutil.rmtree(top, ignore_errors=True)
    print(f"pull: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
