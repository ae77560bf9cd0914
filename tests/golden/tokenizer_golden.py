#!/usr/bin/env python3
"""Record what Hugging Face tokenizers does, for tests/unit/tokenizer/test_tokenizer.c.

    python3 tests/golden/tokenizer_golden.py [strings] [train]

Needs the package tokenizers (recorded with 0.23.3).  Run from the repository
root.  "train" trains the tokenizers that are missing in tests/fixtures/tokenizers,
"strings" makes the 2,000 strings anew; without either, the script writes only the expected
results:

  tests/golden/tokenizer_strings.txt   a string a line, in hex (may be invalid UTF-8)
  tests/golden/tokenizer_<name>.txt    first "every N"; then for every Nth string a
      line "IDS HASH": the ids of encode(), and the hash of its decode() without
      and with special tokens skipped; then lines "n INDEX IDS": ids with encode_special_tokens set, if
      they differ; then lines "d IDS HASH": random ids and the hash of their decode()
  tests/golden/tokenizer_unicode.txt   classes of the regex engine, and NFC

Ids are two characters each, in base 64 with the digits A-Z a-z 0-9 + /.
HASH is FNV-1a, 32 bits, or "-".  The script decodes invalid UTF-8 with
errors='replace' before it gives it to Hugging Face.
"""
import json
import random
import re
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers as pre, processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
FIX = ROOT / "fixtures" / "tokenizers"
GOLD = ROOT / "golden"
B64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

ADDED = [  # one of each kind; "wort" and the like are plain words with flags
    AddedToken("<|im_start|>", special=True, normalized=False),
    AddedToken("<|im_end|>", special=True, normalized=False),
    AddedToken("<tool_call>", special=False, normalized=False),
    AddedToken("</tool_call>", special=False, normalized=True),
    AddedToken("[MASK]", special=True, normalized=False, lstrip=True),
    AddedToken("[SEP]", special=True, normalized=False, rstrip=True),
    AddedToken("[BOTH]", special=False, normalized=False, lstrip=True, rstrip=True),
    AddedToken("wort", special=False, normalized=False, single_word=True),
    AddedToken("gap", special=False, normalized=True, single_word=True, lstrip=True),
    AddedToken("   ", special=False, normalized=False),
    AddedToken("<|im_end|>!", special=False, normalized=False),
    AddedToken("caf\u00e9\u00e9", special=False, normalized=True),
    AddedToken("<0x41>", special=False, normalized=False),
]

PROSE = """The quick brown fox jumps over the lazy dog. It's a question of whether they're able to
understand what we've been saying, and I'm sure you'll agree that she'd rather not. In 2024 there were
1,234,567 people who said "hello" to the 89 others; most of them didn't know why. Please reset my password,
the printer on the second floor is broken again, and my laptop can't connect to the network.
Der Drucker im zweiten Stock ist schon wieder kaputt, können Sie bitte jemanden schicken? Größe, Übung, Straße.
La résolution d'un problème dépend souvent de l'énoncé; où êtes-vous? Привет, как дела? Это просто текст.
日本語のテキストと中文字符在一起。 한국어 텍스트도 있습니다. مرحبا بالعالم नमस्ते दुनिया 🙂🚀👍🏽 naïve café
def encode(self, text: str) -> list[int]:\n    for i, c in enumerate(text):\n        if c == ' ' or c == '\\t':
            return [x for x in self.vocab if x != None]\n\tstatic int foo(const char *s) { return s[0] << 8 | 0xFF; }
SELECT id, name FROM users WHERE created_at >= '2023-01-01' AND status IN (1, 2, 3) ORDER BY id DESC LIMIT 10;
{"key": "value", "list": [1, 2.5, true, null], "nested": {"a": "b"}} <html><body>&nbsp;</body></html>"""


def corpus():
    rnd = random.Random(7)
    words = PROSE.split(" ")
    for _ in range(1500):
        k = rnd.randrange(1, 14)
        i = rnd.randrange(len(words))
        yield " ".join(words[i:i + k]) + rnd.choice(["", "\n", "  ", "\n\n"])


def byte_level(vocab, pre_tok, norm=None, ignore_merges=False, template=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if norm:
        t.normalizer = norm
    t.pre_tokenizer = pre_tok
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, special_tokens=["<|end|>"],
        initial_alphabet=pre.ByteLevel.alphabet()))
    t.add_tokens(ADDED)
    t.post_processor = template(t) if template else processors.ByteLevel(trim_offsets=False)
    return t


def split_then_bytes(regex):
    return pre.Sequence([pre.Split(Regex(regex), "isolated", invert=False),
                         pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def bos_template(t):
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<|end|> $A", pair="<|end|> $A <|end|> $B", special_tokens=[("<|end|>", t.token_to_id("<|end|>"))])])


def spm(vocab, legacy, words=True):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    # While training, words start with U+2581; afterwards the whole text is one word.
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    if words:
        t.pre_tokenizer = pre.Split("\u2581", "merged_with_next")
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, special_tokens=special, limit_alphabet=110))
    d = json.loads(t.to_str())
    # byte tokens belong to the model, they are not added tokens
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    if legacy:
        d["pre_tokenizer"] = None
        for a in d["added_tokens"]:
            a["normalized"] = a["content"] == "</s>"
        d["added_tokens"][2]["special"] = False
    else:
        d["normalizer"] = None
        d["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    d["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    t = Tokenizer.from_str(json.dumps(d))
    t.add_tokens(ADDED[:-1])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A <s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def old_metaspace(vocab):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre.Sequence([pre.Metaspace(prepend_scheme="always", split=True), pre.Digits(True),
                                    pre.Punctuation("isolated")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, special_tokens=["<unk>", "<s>"], limit_alphabet=120))
    t.add_tokens(ADDED)
    t.post_processor = processors.RobertaProcessing(("<s>", 1), ("<s>", 1))
    return t


TRAIN = {
    "gpt2": lambda: byte_level(700, pre.ByteLevel(add_prefix_space=False)),
    "llama3": lambda: byte_level(900, split_then_bytes(LLAMA3), ignore_merges=True, template=bos_template),
    "qwen2": lambda: byte_level(800, split_then_bytes(QWEN2), norm=normalizers.NFC()),
    "qwen35": lambda: byte_level(600, split_then_bytes(QWEN35), norm=normalizers.NFC()),
    "starcoder": lambda: byte_level(600, pre.Sequence([pre.Digits(True), pre.ByteLevel(add_prefix_space=True)])),
    "llama2": lambda: spm(800, True),
    "mistral": lambda: spm(700, False),
    "phrases": lambda: spm(600, False, words=False),  # tokens with spaces inside
    "metaspace": lambda: old_metaspace(600),
}


# ---------- the strings ----------

def random_char(r):
    k = r.random()
    if k < 0.35:
        return chr(r.choice([r.randrange(32, 127), r.randrange(0, 0x250)]))
    if k < 0.6:
        lo, hi = r.choice([(0x300, 0x370), (0x370, 0x600), (0x900, 0xD80), (0x1100, 0x1200), (0x2000, 0x2070),
                           (0x2070, 0x2700), (0x3000, 0x3100), (0xAC00, 0xAE00), (0xFB00, 0xFE00), (0x1F300, 0x1FAFF),
                           (0x1D400, 0x1D7FF), (0xA640, 0xA800), (0xFF00, 0xFFEF)])
        return chr(r.randrange(lo, hi))
    c = r.randrange(0x110000 if k > 0.9 else 0x20000)
    return chr(c) if not 0xD800 <= c < 0xE000 else "\ud7ff"


SPACES = [" ", " ", " ", "\n", "\n", "\t", "\r\n", "\r", "\u00a0", "\u3000", "\x0b", "\u2028", "\x85", "\u200b", "\x1c"]
BITS = ["'s", "'S", "'re", "'RE", "'Ll", "'ll", "'d", "'M", "'ve", "'\u017f", "'t", "'x", "''s", "1", "12", "123", "1234567",
        "\u0663\u0664", "\u00bd", "\u2167", "$", "==", "!!!", "...", "(", ")", "/", "\u4f60\u597d", "e\u0301", "\u212b", "\u1100\u1161\u11a8",
        "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "\u0338", "a\u0323\u0307", "\u2581", "\u2581\u2581", "<0x0A>", "\u0120", "x", "\x00", "\ufffd",
        "caf\u00e9\u00e9", "cafe\u0301e\u0301", "\ufb01", "\u00b2"]


def make_strings():
    r = random.Random(42)
    words = re.split(r"(?<= )|\n", PROSE)
    out = [b"", b" ", b"  ", b"\n", b" \n ", b"a", "\u2581".encode(), b"\xff", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80",
           b"\xc0\x80", b"\xf4\x90\x80\x80", b"x" * 90, b"ab" * 60, b" " * 70, "\u00e9\u4f60".encode() * 20,
           ("a" + "\u0301\u0323" * 40).encode(), b"the" * 40, b"1" * 50]
    kinds = [
        lambda: "".join(r.choices(words, k=r.randrange(1, 6))),
        lambda: "".join(random_char(r) for _ in range(r.randrange(1, 9))),
        lambda: "".join(r.choice(SPACES) if r.random() < .6 else r.choice(words).strip() for _ in range(r.randrange(2, 8))),
        lambda: "".join(r.choice(r.choice([BITS, BITS, SPACES, words])) for _ in range(r.randrange(1, 6))),
        lambda: "".join(r.choice([r.choice(ADDED).content, r.choice(ADDED).content, r.choice(SPACES), r.choice(words), "",
                                  "x", "<s>", "</s>", "<|end|>", "<unk>", "<|im_"]) for _ in range(r.randrange(1, 6))),
    ]
    seen = set(out)
    while len(out) < 2000:
        s = r.choice(kinds)().encode()[:70]
        if r.random() < 0.12:
            b = bytearray(s)
            for _ in range(r.randrange(1, 4)):
                b.insert(r.randrange(len(b) + 1), r.choice([0x80, 0xBF, 0xC3, 0xE4, 0xF0, 0x9F, 0xFF, 0xED, 0xA0, 0xF4]))
            s = bytes(b)
        if s not in seen:
            seen.add(s)
            out.append(s)
    return out


# ---------- recording ----------

def fnv(data):
    h = 0x811C9DC5
    for c in data:
        h = ((h ^ c) * 0x01000193) & 0xFFFFFFFF
    return "%08x" % h


def pack(ids):
    return "".join(B64[i >> 6] + B64[i & 63] for i in ids) or "-"


def decode_hash(t, ids):
    if any(t.id_to_token(i) == "caf\u00e9\u00e9" for i in ids) and "ByteLevel" in t.decoder.__getstate__().decode():
        return "-"  # Hugging Face reads added tokens as byte-level spelling; here they are text
    a = t.decode(ids, skip_special_tokens=False)
    b = t.decode(ids, skip_special_tokens=True)
    return fnv((a + "\0" + b).encode())


def streams(t, ids):
    """Return true if every run of byte fallback tokens is well-formed, or contains no well-formed
    character."""
    if '"ByteFallback"' not in t.decoder.__getstate__().decode():
        return True
    run = bytearray()
    for tok in [t.id_to_token(i) for i in ids] + [""]:
        m = re.fullmatch("<0x([0-9A-F]{2})>", tok or "")
        if m:
            run.append(int(m[1], 16))
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            if set(run.decode(errors="replace")) != {"\ufffd"}:
                return False
        run.clear()
    return True


def record(name, strings):
    t = Tokenizer.from_file(str(FIX / (name + ".json")))
    every = 4 if name in ("qwen35", "starcoder", "metaspace", "phrases") else 1
    strings = strings[::every]
    lines = ["every %d" % every]
    for s in strings:
        ids = t.encode(s.decode(errors="replace")).ids
        lines.append(pack(ids) + " " + decode_hash(t, ids))
    t.encode_special_tokens = True
    for i, s in enumerate(strings):
        ids = pack(t.encode(s.decode(errors="replace")).ids)
        if ids != lines[i + 1].split()[0]:
            lines.append("n %d %s" % (i, ids))
    t.encode_special_tokens = False
    r = random.Random(5)
    n = t.get_vocab_size()
    special = {i for i, a in t.get_added_tokens_decoder().items() if a.special}
    low = 259 if name in ("llama2", "mistral", "phrases") else 300
    while sum(x[0:2] == "d " for x in lines) < 300:
        ids = [r.randrange(low if r.random() < 0.7 else n) for _ in range(r.randrange(1, 8))]
        if streams(t, ids) and streams(t, [i for i in ids if i not in special]):
            lines.append("d %s %s" % (pack(ids), decode_hash(t, ids)))
    (GOLD / ("tokenizer_%s.txt" % name)).write_text("\n".join(lines) + "\n")
    print(name, n, "ids,", sum(len(x) for x in lines), "bytes")


def record_unicode():
    cps = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lines = []

    def put(name, hits):
        lines.append("%s %d %s" % (name, len(hits), fnv(b"".join(c.to_bytes(3, "big") for c in hits))))

    for name, rx in (("L", r"\p{L}"), ("N", r"\p{N}"), ("M", r"\p{M}"), ("P", r"\p{P}"), ("S", r"\p{S}"), ("space", r"\s")):
        n = normalizers.Replace(Regex(rx), "")
        left = set()
        for i in range(0, len(cps), 4096):
            left |= set(n.normalize_str("".join(map(chr, cps[i:i + 4096]))))
        put(name, [c for c in cps if chr(c) not in left])
    # what \w matches in single_word, which uses another regex engine
    put("word", word_chars(cps))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        n = getattr(normalizers, form)()
        # Outside these ranges the library has an older Unicode version; NFC is compared everywhere
        # (docs/internals/tokenizers.md).
        out = [(c, n.normalize_str(chr(c))) for c in cps
               if form == "NFC" or c < 0x3200 or 0xF900 <= c < 0x10000]
        lines.append("%s %d %s" % (form, sum(chr(c) != s for c, s in out), fnv("\n".join(s for _, s in out).encode())))
    r = random.Random(3)
    n = normalizers.NFC()
    for _ in range(200):
        s = "".join(r.choice([random_char(r), chr(r.randrange(0x300, 0x370)), r.choice(BITS), chr(r.randrange(0x1100, 0x1200))])
                    for _ in range(r.randrange(1, 12)))
        lines.append("nfc %s %s" % (s.encode().hex(), n.normalize_str(s).encode().hex()))
    (GOLD / "tokenizer_unicode.txt").write_text("\n".join(lines) + "\n")


def word_chars(cps):
    t = Tokenizer(models.BPE(vocab={"<unk>": 0, "q": 1}, merges=[], unk_token="<unk>"))
    t.add_tokens([AddedToken("qq", single_word=True, normalized=False)])
    qq = t.token_to_id("qq")
    enc = t.encode_batch([chr(c) + "qq" for c in cps])
    return [c for c, e in zip(cps, enc) if qq not in e.ids]


def main():
    FIX.mkdir(parents=True, exist_ok=True)
    if "train" in sys.argv:
        for name, make in TRAIN.items():
            if (FIX / (name + ".json")).exists():
                continue
            d = json.loads(make().to_str())
            if name in ("gpt2", "llama2"):  # both spellings of merges occur in the wild
                d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"]]
            (FIX / (name + ".json")).write_text(json.dumps(d, ensure_ascii=name == "qwen2", separators=(",", ":")) + "\n")
    path = GOLD / "tokenizer_strings.txt"
    if "strings" in sys.argv:
        path.write_text("\n".join(s.hex() for s in make_strings()) + "\n")
    strings = [bytes.fromhex(x) for x in path.read_text().split("\n")[:-1]]
    for name in TRAIN:
        record(name, strings)
    record_unicode()


main()
