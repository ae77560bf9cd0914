#!/usr/bin/env python3
"""Record what the reference libraries make of 5,200 strings, for test_tokenizer_kinds.c.

    python3 tests/golden/tokenizer_kinds.py [strings] [train] [NAME...]

Needs the packages tokenizers (recorded with 0.23.3), sentencepiece (0.2.3), tiktoken
(0.14.0), gguf (0.19.0) and unicodedata2 (16 or later).  Run from the repository root.  "train" trains the
tokenizers that are missing in tests/fixtures/tokenizers (from the documentation of
this repository), "strings" makes the strings anew; without either, the script writes only the expected
results, for all kinds or the named ones:

  tests/golden/tok_strings.txt   3,200 strings, one a line, in hex (may be invalid
      UTF-8); they follow the 2,000 of tokenizer_strings.txt
  tests/golden/tok_<name>.bin    32 bits: number of code points that are left out,
      these; number of records; the records, two hashes of 16 bits each.  First one for
      each string: the hash of its ids followed by ids and type ids of the pair (string
      before, this string); the hash of the decoded ids, with and without special tokens
      (0 = not compared, as with a code point that is left out).  Then, without the pair, one for each
      block of 256 code points in [0, 0x32400) and [0xE0000, 0xE0200): each code point followed by "x", or
      by a space if it is even.

The hashes are the lower half of FNV-1a; 0 is written as 1.  The script decodes invalid UTF-8 with
errors='replace' before it gives it to the libraries.  Code points are left out if
Hugging Face's library normalizes them by an older Unicode version.
SentencePiece never finds control tokens in a text; the test asks our tokenizer for the same.
Vocabularies in ../shared/tokenizers are converted, if the folder exists.
"""
import base64
import codecs
import io
import json
import random
import re
import struct
import sys
import unicodedata
from pathlib import Path

import gguf
import sentencepiece
import tiktoken
import unicodedata2 as ud
from tokenizers import (AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N,
                        pre_tokenizers as P, processors as R, trainers as T)

ROOT = Path(__file__).resolve().parent.parent
FIX = ROOT / "fixtures" / "tokenizers"
GOLD = ROOT / "golden"
SHARED = ROOT.parent.parent / "shared" / "tokenizers"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UP, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTR = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UP + "*" + LOW + r"+|[^\r\n\p{L}\p{N}]?" + UP + "+" + LOW +
          r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)
O200K = (r"[^\r\n\p{L}\p{N}]?" + UP + "*" + LOW + "+" + CONTR + r"|[^\r\n\p{L}\p{N}]?" + UP + "+" + LOW +
         "*" + CONTR + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?" + UP[:-1] + r"&&[^\p{Han}]]*" + LOW[:-1] + r"&&[^\p{Han}]]+" + CONTR +
        r"|[^\r\n\p{L}\p{N}]?" + UP[:-1] + r"&&[^\p{Han}]]+" + LOW[:-1] + r"&&[^\p{Han}]]*" + CONTR +
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL)
EXAONE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+")
V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
      r"| ?[\p{P}\p{S}]+[\r\n]*" + TAIL)
CJK = "[一-龥ࠀ-一가-퟿]+"

ADDED = [
    AddedToken("<|im_start|>", special=True, normalized=False),
    AddedToken("<tool_call>", special=False, normalized=False),
    AddedToken("</tool_call>", special=False, normalized=True),
    AddedToken("[MASK]", special=True, normalized=False, lstrip=True),
    AddedToken("[BOTH]", special=False, normalized=False, lstrip=True, rstrip=True),
    AddedToken("wort", special=False, normalized=True, single_word=True),
    AddedToken("   ", special=False, normalized=False),
]
ADDED_TEXTS = {a.content for a in ADDED}


def corpus():
    for f in sorted((ROOT.parent / "docs").glob("*.md")):
        yield from f.read_text().split("\n")
    prose = (GOLD / "tokenizer_golden.py").read_text().split('PROSE = """')[1].split('"""')[0]
    for _ in range(40):
        yield from prose.split("\n")


# ---------- training ----------

def template(t, cls, sep):
    return R.TemplateProcessing(single="%s $A %s" % (cls, sep), pair="%s $A %s $B:1 %s:1" % (cls, sep, sep),
                                special_tokens=[(cls, t.token_to_id(cls)), (sep, t.token_to_id(sep))])


def bert(lower, accents=None, chars=100):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=chars))
    t.normalizer = N.BertNormalizer(lowercase=lower, strip_accents=accents)
    t.pre_tokenizer = P.BertPreTokenizer()
    t.decoder = D.WordPiece()
    t.train_from_iterator(corpus(), T.WordPieceTrainer(
        vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False,
        limit_alphabet=180))
    t.post_processor = template(t, "[CLS]", "[SEP]")
    return t


def unigram(norm, pre, dec, fallback=False):
    t = Tokenizer(M.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = norm, pre, dec
    special = ["<unk>", "<s>", "</s>"] + (["<0x%02X>" % i for i in range(256)] if fallback else [])
    t.train_from_iterator(corpus(), T.UnigramTrainer(
        vocab_size=len(special) + 700, special_tokens=special, unk_token="<unk>", show_progress=False))
    d = json.loads(t.to_str())
    d["model"]["byte_fallback"] = fallback
    d["added_tokens"] = d["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(d))
    t.post_processor = template(t, "<s>", "</s>")
    return t


def bpe(pre, norm=None, dec=None, vocab=700, post=None, **model):
    t = Tokenizer(M.BPE(unk_token="<unk>", **model))
    t.pre_tokenizer = pre
    if norm:
        t.normalizer = norm
    t.decoder = dec or D.ByteLevel()
    affixes = {k: v for k, v in model.items() if "fix" in k}
    t.train_from_iterator(corpus(), T.BpeTrainer(
        vocab_size=vocab, special_tokens=["<unk>", "<s>"], show_progress=False, limit_alphabet=160, **affixes))
    if post:
        t.post_processor = post(t)
    return t


def regex(*patterns, behavior="isolated", invert=False):
    return bpe(P.Sequence([P.Split(Regex(p), behavior, invert) for p in patterns] +
                          [P.ByteLevel(add_prefix_space=False, use_regex=False)]))


def behaviors():
    return bpe(P.Sequence([P.Split(Regex(r"\d|[^\S\n]"), "merged_with_next"),
                           P.Split(Regex(r"\p{P}|\b(?=[A-Z])"), "merged_with_previous"),
                           P.Split(Regex(r"\p{Lu}+"), "contiguous", invert=True), P.Split("e", "merged_with_previous"),
                           P.Split("a", "isolated", invert=True),
                           P.ByteLevel(add_prefix_space=True, use_regex=False)]))


def word_level():
    t = Tokenizer(M.WordLevel(unk_token="[UNK]"))
    t.normalizer = N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase()])
    t.pre_tokenizer = P.Whitespace()
    t.train_from_iterator(corpus(), T.WordLevelTrainer(vocab_size=600, special_tokens=["[UNK]"], show_progress=False))
    return t


def roberta(t):
    return R.RobertaProcessing(("<s>", 1), ("<unk>", 0))


def charsmap_rules():
    """Return rules for sentencepiece, of every form: one to none, one to many, many to one."""
    out = []
    for c in [*range(0x80, 0x250), *range(0x300, 0x345), *range(0x1E00, 0x1F00), *range(0x2000, 0x2070),
              *range(0x2460, 0x2474), 0x3000, *range(0xFB00, 0xFB07), *range(0xFF00, 0xFFA0)]:
        s = unicodedata.normalize("NFKC", chr(c))
        if s != chr(c):
            out.append((chr(c), s))
    out += [(a + b, unicodedata.normalize("NFC", a + b)) for a in "aeiouAOUcn" for b in "\u0300\u0301\u0302\u0303\u0308"
            if len(unicodedata.normalize("NFC", a + b)) == 1]
    out += [("\u200b", ""), ("\u200d", ""), ("\t", " "), ("\n", " "), ("\r", " "), ("\u00ad", ""), ("(c)", "\u00a9"), ("...", "\u2026"), ("..", ".")]
    seen = dict(out)
    return "".join("%s\t%s\n" % (" ".join("%X" % ord(x) for x in a), " ".join("%X" % ord(x) for x in b))
                   for a, b in sorted(seen.items()))


def spm(kind, **args):
    rules = FIX / "rules.tsv"
    rules.write_text(charsmap_rules())
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([x for x in corpus() if x]), model_writer=out, model_type=kind, vocab_size=900,
        character_coverage=0.99, normalization_rule_tsv=str(rules), minloglevel=2, num_threads=1, **args)
    rules.unlink()
    return out.getvalue()


def ranks():
    """Return the vocabulary of a byte-level BPE in tiktoken's form."""
    t = bpe(P.Sequence([P.Split(Regex(O200K), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]),
            vocab=900)
    t.train_from_iterator(corpus(), T.BpeTrainer(vocab_size=800, initial_alphabet=P.ByteLevel.alphabet(),
                                                 show_progress=False))
    byte = {c: i for i, c in enumerate_alphabet()}
    toks = sorted(t.get_vocab().items(), key=lambda x: x[1])
    return [bytes(byte[c] for c in s) for s, _ in toks]


def enumerate_alphabet():
    n = 0
    for b in range(256):
        if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE:
            yield b, chr(b)
        else:
            yield b, chr(0x100 + n)
            n += 1


def tekken():
    return json.dumps({
        "config": {"pattern": TEKKEN, "num_vocab_tokens": 800, "default_vocab_size": 800, "default_num_special_tokens": 24,
                   "version": "v7"},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for i, b in enumerate(ranks())],
        "special_tokens": [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(
            ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_start|>", "<tool_call>"])]}, separators=(",", ":")).encode()


def tiktoken_lines():
    return b"".join(base64.b64encode(b) + b" %d\n" % i for i, b in enumerate(ranks()))


def write_gguf(path, model, tokens, types, scores=None, **keys):
    w = gguf.GGUFWriter(str(path), "nothing-known")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    for k, v in keys.items():
        k = "tokenizer.ggml." + k
        if isinstance(v, bool):
            w.add_bool(k, v)
        elif isinstance(v, bytes):
            w.add_array(k, v)
        else:
            w.add_uint32(k, v)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def bert_gguf(path):
    t = Tokenizer.from_file(str(FIX / "bert.json"))
    toks = [t.id_to_token(i) for i in range(t.get_vocab_size(with_added_tokens=False))]
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    write_gguf(path, "bert", [x if x in special else x[2:] if x.startswith("##") else "\u2581" + x for x in toks],
               [3 if x in special else 1 for x in toks], unknown_token_id=1, cls_token_id=2, seperator_token_id=3)


def t5_gguf(path):
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString((FIX / "unigram.model").read_bytes())
    write_gguf(path, "t5", [p.piece for p in m.pieces], [int(p.type) for p in m.pieces], [p.score for p in m.pieces],
               unknown_token_id=0, eos_token_id=2, add_eos_token=False, add_space_prefix=True,
               remove_extra_whitespaces=True, precompiled_charsmap=m.normalizer_spec.precompiled_charsmap)


def t5_hf():
    """Write the same vocabulary as a tokenizer.json."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString((FIX / "unigram.model").read_bytes())
    t = Tokenizer(M.Unigram([(p.piece, p.score) for p in m.pieces], 0, False))
    t.normalizer = N.Sequence([N.Precompiled(m.normalizer_spec.precompiled_charsmap), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace()])
    t.decoder = D.Metaspace()
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.post_processor = template(t, "<s>", "</s>")
    return t



def frequent(size):
    """Return the most frequent prefixes of the corpus' words with a space before them, in any alphabet."""
    count = {}
    for line in corpus():
        for w in line.split(" "):
            for k in range(1, min(len(w), 9) + 1):
                for s in (w[:k], " " + w[:k], w[-k:]):
                    count[s] = count.get(s, 0) + 1
    for w in (GOLD / "tok_strings.txt").read_text().split("\n")[:600]:
        s = bytes.fromhex(w).decode(errors="ignore")
        for k in range(2, 5):
            count[s[:k]] = count.get(s[:k], 0) + 3
    for c in ("<s>", "", *ADDED_TEXTS):
        count.pop(c, None)
    return [s for s, _ in sorted(count.items(), key=lambda x: (-x[1] * len(x[0]), x[0]))[:size]]


def rwkv_tokens():
    """Return id 0, which is <s>; then all bytes; then words, and parts of characters, as in RWKV's World
    vocabulary."""
    parts = [s.encode() for s in frequent(900)]
    parts += [s[:n] for s in parts for n in (2, 4) if len(s) > n and not s[:n].isascii()]
    return [b"<s>"] + [bytes([i]) for i in range(256)] + sorted({p for p in parts if len(p) > 1}, key=lambda p: (len(p), p))


def rwkv_gguf(path):
    toks = rwkv_tokens()
    write_gguf(path, "rwkv", ["<s>"] + [repr(t)[2:-1] for t in toks[1:]] + ["[PAD%d]" % i for i in range(3)],
               [3] + [1] * (len(toks) - 1) + [5] * 3, bos_token_id=0, eos_token_id=0)


def plamo_tokens():
    """Return (token, score, type) as in PLaMo 2's tokenizer.jsonl."""
    out = [("<|plamo:unk|>", 0.0, 2), ("<|plamo:bos|>", 0.0, 3), ("<|plamo:eos|>", 0.0, 3), ("<|plamo:pad|>", 0.0, 3)]
    out += [("<0x%02X>" % i, 0.0, 6) for i in range(256)]
    r = random.Random(12)
    for i, s in enumerate(frequent(1200)):
        # use few different scores, so that many paths cost the same
        out.append((s, r.choice([-2.0, -4.0, -4.5, -7.25, -round(3 + i / 200, 4)]), 1))
    out += [("zzzz", -2500.0, 1), ("zz", -1500.0, 1), ("[PAD1]", -1000.0, 5)]
    return out


def plamo_gguf(path):
    t = plamo_tokens()
    write_gguf(path, "plamo2", [x[0] for x in t], [x[2] for x in t], [x[1] for x in t], bos_token_id=1, eos_token_id=2,
               unknown_token_id=0, padding_token_id=3)


META = P.Metaspace()
HF = {
    "bert": lambda: bert(True),
    "bertcased": lambda: bert(False),
    "bertaccents": lambda: bert(False, True, 12),
    "unigram": lambda: unigram(N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), META, D.Metaspace()),
    "unibytes": lambda: unigram(N.Sequence([N.Strip(), N.Lowercase()]), P.Sequence([P.WhitespaceSplit(), META]), D.Sequence(
        [D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), True),
    "t5": t5_hf,
    "clip": lambda: bpe(P.Sequence([P.Split(Regex(
        r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]), N.Sequence(
        [N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), post=roberta, end_of_word_suffix="</w>"),
    "openai": lambda: bpe(P.BertPreTokenizer(), N.BertNormalizer(strip_accents=False), D.BPEDecoder("</w>"),
                          end_of_word_suffix="</w>"),
    "prefix": lambda: bpe(P.Sequence([P.Whitespace(), P.Punctuation("removed")]), N.Sequence([N.NFD(), N.StripAccents()]),
                          D.WordPiece(cleanup=False), continuing_subword_prefix="##", fuse_unk=True),
    "wordlevel": word_level,
    "falcon": lambda: bpe(P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False),
                                      P.Split(Regex("[0-9][0-9][0-9]"), "isolated")])),
    "o200k": lambda: regex(O200K),
    "tekken": lambda: regex(TEKKEN),
    "deepseek3": lambda: regex(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", V3),
    "kimi": lambda: regex(KIMI),
    "exaone": lambda: regex(EXAONE),
    "bloom": lambda: regex(" ?[^(\\s|.,!?…。，、।۔،)]+"),
    "superbpe": lambda: regex(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
    "aya": lambda: regex(r"\d{1,3}(?=(?:\d{3})*\b)", O200K),
    "behaviors": behaviors,
    "fixed": lambda: bpe(P.Sequence([P.CharDelimiterSplit("e"), P.FixedLength(length=3)]), N.ByteLevel(), D.ByteLevel(), ignore_merges=True),
    "scripts": lambda: bpe(P.Sequence([P.UnicodeScripts(), P.ByteLevel(add_prefix_space=False)])),
}
OLD = ["gpt2", "llama3", "qwen2", "qwen35", "starcoder", "llama2", "mistral", "phrases", "metaspace"]


def train():
    for name, make in HF.items():
        path = FIX / (name + ".json")
        if not path.exists() and name != "t5":
            t = make()
            t.add_tokens(ADDED)
            path.write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    for name, make in (("unigram.model", lambda: spm("unigram", user_defined_symbols=["<tool_call>"])),
                       ("bpe.model", lambda: spm("bpe", byte_fallback=True, remove_extra_whitespaces=False)),
                       ("bpeunk.model", lambda: spm("bpe", treat_whitespace_as_suffix=True)),
                       ("tekken.tekken", tekken), ("qwen.tiktoken", tiktoken_lines)):
        if not (FIX / name).exists():
            (FIX / name).write_bytes(make())
    if not (FIX / "bert.gguf").exists():
        bert_gguf(FIX / "bert.gguf")
    if not (FIX / "t5.gguf").exists():
        t5_gguf(FIX / "t5.gguf")
    for name, make in (("rwkv.gguf", rwkv_gguf), ("plamo2.gguf", plamo_gguf)):
        if not (FIX / name).exists():
            make(FIX / name)
    if not (FIX / "t5.json").exists():
        t = t5_hf()
        t.add_tokens(ADDED)
        (FIX / "t5.json").write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")


# ---------- the strings ----------

def make_strings():
    r = random.Random(4711)
    words = [w for line in corpus() for w in line.split(" ") if w]
    marks = [chr(c) for c in [*range(0x300, 0x345), 0x483, 0x591, 0x64B, 0x93C, 0x94D, 0xE31, 0x20DD, 0x302A, 0xFE0F, 0x1D165]]
    spaces = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2028", "\x85", "\x1c", "\x0b", "\ufeff", "\u2581"]
    emoji = ["\U0001f642", "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001fae0"]
    bits = ["'s", "'S", "'RE", "'\u017f", "\u212a", "\u00df", "\ufb01", "\u0130", "\u01c5", "\u00b2", "\u2167", "\u0663", "\U0001d7d8", "...", "(c)", "##", "##a",
            "</w>", "<unk>", "[UNK]", "[CLS]", "<s>", "</s>", "<0x41>", "\u0120", "\x00", "\ufffd", "\u3042\u30ab\u6f22", "\u30fc", "\uac00\u11a8", "\u1100\u1161", "\u05d0",
            "\u0e01\u0e33", "\u0915\u094d\u0937", "1", "12", "123", "1234", "123456789", "$1,000.50", "a.b", "x\u0338", "A\u030a", "\U00020000", "\u2e43", "\u061c", "'", "''", " ' ", "don't",
            "do not", "\u1e9e", "\u03c3\u03a3", "\u1c89", "CamelCaseWord", "HTTPServer2", "\u4e2dABC", "\u0301ABC", "/", "//\n", "!\n\n", "\u2014", "-", "e", "<sentinel:12>"]
    kinds = [
        lambda: "".join(r.choice(words) + r.choice(spaces) for _ in range(r.randrange(1, 7))),
        lambda: "".join(chr(r.choice([r.randrange(32, 127), r.randrange(0x80, 0x600), r.randrange(0x900, 0x1200), r.randrange(0x2000, 0x3400),
                                      r.randrange(0x4e00, 0x9fff), r.randrange(0xac00, 0xd7a4), r.randrange(0xf900, 0x10000),
                                      r.randrange(0x10000, 0x20000)])) for _ in range(r.randrange(1, 12))),
        lambda: "".join(r.choice([r.choice(words), r.choice(emoji), r.choice(bits), r.choice(spaces), r.choice(marks) * r.randrange(1, 3)])
                        for _ in range(r.randrange(1, 8))),
        lambda: "".join(r.choice("abcAB\u00e4\u4e2d1.") + r.choice(marks) * r.randrange(0, 3) for _ in range(r.randrange(1, 14))),
        lambda: "".join(r.choice([r.choice(ADDED).content, r.choice(bits), r.choice(words), r.choice(spaces)]) for _ in range(r.randrange(1, 6))),
        lambda: r.choice(spaces) * r.randrange(1, 6) + r.choice(words) + r.choice(spaces) * r.randrange(0, 6),
        lambda: (r.choice(["a", "ab", "the", "1", "\u4e2d", "\u0301", " ", "\n", "=", "e\u0301", "\U0001f642", "A", "aA", "x "]) * r.randrange(2, 120))[:130],
    ]
    seen, out = set(), []
    while len(out) < 3200:
        s = r.choice(kinds)().encode()[:150]
        if r.random() < 0.15:
            b = bytearray(s)
            for _ in range(r.randrange(1, 5)):
                b.insert(r.randrange(len(b) + 1), r.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE4, 0xF0, 0x9F, 0xFF, 0xED, 0xA0, 0xF4, 0x90]))
            s = bytes(b)
        if s not in seen:
            seen.add(s)
            out.append(s)
    return out


BLOCKS = [*range(0, 0x324), 0xE00, 0xE01]


def block(b, out):
    return "".join(chr(c) + ("x" if c & 1 else " ") for c in range(b * 256, b * 256 + 256)
                   if not 0xD800 <= c < 0xE000 and c not in out)


# ---------- recording ----------

def fnv16(data):
    h = 0x811C9DC5
    for c in data:
        h = ((h ^ c) * 0x01000193) & 0xFFFFFFFF
    return h & 0xFFFF or 1


class Hugging:
    """encode(a, b) returns ids and types; decode(ids) returns the two texts, or None."""

    def __init__(self, t):
        self.t = t
        self.latin = {i for i, a in t.get_added_tokens_decoder().items() if any("\x80" <= c < "\u0100" for c in a.content)}

    def left_out(self):
        if self.t.normalizer is None:
            return set()
        out = set()
        conf = json.loads(self.t.to_str())["normalizer"]
        forms = json.dumps(conf)
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            if '"%s"' % form in forms or (form == "NFD" and "BertNormalizer" in forms):
                n = getattr(N, form)()
                out |= {c for c in range(0x80, 0x32400) if not 0xD800 <= c < 0xE000 and any(
                    n.normalize_str(x) != ud.normalize(form, x)
                    for x in ("a" + chr(c), "a\u0345" + chr(c), "a" + chr(c) + "\u0334"))}
        return out

    def encode(self, a, b=None):
        e = self.t.encode(a) if b is None else self.t.encode(a, b)
        return e.ids, e.type_ids

    def decode(self, ids):
        # the library reads Latin-1 letters in added tokens as bytes (docs/internals/tokenizers.md)
        if self.latin and not self.latin.isdisjoint(ids):
            return None
        try:
            return (self.t.decode(ids, skip_special_tokens=False), self.t.decode(ids, skip_special_tokens=True))
        except BaseException:   # BPEDecoder panics on an empty list
            return None


class Piece:
    def __init__(self, data, gguf=False):
        self.gguf = gguf
        self.sp = sentencepiece.SentencePieceProcessor(model_proto=data)

    def left_out(self):
        return set()

    def skip(self, s):
        # If the rules remove the whole text, the library keeps a space.  The GGUF tokenizer puts a prefix
        # after added tokens.
        return s.strip(" ") != "" and self.sp.normalize(s).strip("\u2581") == "" or self.gguf and "<tool_call>" in s

    def encode(self, a, b=None):
        x, y = self.sp.encode(a), self.sp.encode(b) if b is not None else []
        return x + y, [0] * len(x) + [1] * len(y)

    def decode(self, ids):
        if self.sp.unk_id() in ids:
            return None     # the library gives " ?? "
        s = self.sp.decode(ids)
        return None if "\ufffd" in s else (s, s)


class Tik:
    def __init__(self, name, pattern, ranks, special, first, bos):
        self.enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self.first, self.bos = first, bos

    def left_out(self):
        return set()

    def one(self, s):
        n = self.enc.max_token_value + 1 - len(self.enc._special_tokens)
        ids = self.enc.encode(s, allowed_special="all")
        return ([self.bos] if self.bos is not None else []) + [
            i + self.first if i < n else i - n if self.first else i for i in ids]

    def encode(self, a, b=None):
        x, y = self.one(a), self.one(b) if b is not None else []
        return x + y, [0] * len(x) + [1] * len(y)

    def decode(self, ids):
        return None


def gguf_field(name, key):
    return gguf.GGUFReader(str(FIX / name)).fields["tokenizer.ggml." + key].contents()


class Plain:
    """A tokenizer without pre- and post-processing; special: its control tokens by their text."""

    def __init__(self, special):
        self.special = special

    def left_out(self):
        return set()

    def one(self, s):
        ids = []
        for part in re.split("(%s)" % "|".join(map(re.escape, self.special)), s):
            ids += [self.special[part]] if part in self.special else self.words(part) if part else []
        return ids

    def encode(self, a, b=None):
        x, y = self.one(a), self.one(b) if b is not None else []
        return x + y, [0] * len(x) + [1] * len(y)

    def decode(self, ids):
        special = set(self.special.values())
        return tuple(b"".join(self.bytes[i] for i in ids if all or i not in special).decode(errors="replace") for all in (True, False))


class Rwkv(Plain):
    """Takes the longest token at each place."""

    def __init__(self):
        super().__init__({"<s>": 0})
        types = gguf_field("rwkv.gguf", "token_type")
        self.bytes = {i: codecs.escape_decode(t.encode())[0] for i, t in enumerate(gguf_field("rwkv.gguf", "tokens")) if types[i] != 5}
        self.ids = {b: i for i, b in self.bytes.items() if i > 0}
        self.longest = max(map(len, self.ids))

    def words(self, s):
        s, ids = s.encode(), []
        while s:
            n = next(n for n in range(self.longest, 0, -1) if s[:n] in self.ids)
            ids.append(self.ids[s[:n]])
            s = s[n:]
        return ids


class Plamo(Plain):
    """PLaMo 2's algorithm: an automaton of all suffixes of tokens reads the text from its end, beside a
    dynamic program."""

    UNKNOWN, INVALID = -10000000, -20000000

    def __init__(self):
        tokens = list(zip(*(gguf_field("plamo2.gguf", k) for k in ("tokens", "scores", "token_type"))))
        super().__init__({t: i for i, (t, _, kind) in enumerate(tokens) if kind in (2, 3)})
        self.byte = {int(t[3:5], 16): i for i, (t, _, kind) in enumerate(tokens) if kind == 6}
        self.bytes = {i: bytes([int(t[3:5], 16)]) if kind == 6 else t.encode() for i, (t, _, kind) in enumerate(tokens)}
        self.score, self.id = {"": None}, {}
        for i, (t, score, kind) in enumerate(tokens):
            if kind == 1:
                self.score[t], self.id[t] = round(score * 1e4), i
                for k in range(1, len(t)):
                    self.score.setdefault(t[k:], None)
        # for each suffix: its prefixes that are suffixes of tokens, too, longest first
        self.rows = {s: [s[:k] for k in range(len(s), 0, -1) if s[:k] in self.score] for s in self.score}

    def words(self, s):
        s = s[1:] if s[:1] == "\ufeff" else s
        cost, path, state = [0] * (len(s) + 1), [None] * len(s), ""
        for i in range(len(s) - 1, -1, -1):
            state = next((s[i] + p for p in self.rows[state] + [""] if s[i] + p in self.score), "")
            cost[i] = 1 << 60
            for p in self.rows[state]:
                if self.score[p] is not None and self.score[p] > self.INVALID and cost[i + len(p)] - self.score[p] < cost[i]:
                    cost[i], path[i] = cost[i + len(p)] - self.score[p], p
            if cost[i + 1] - self.UNKNOWN < cost[i]:
                cost[i], path[i] = cost[i + 1] - self.UNKNOWN, None
        ids, i = [], 0
        while i < len(s):
            ids += [self.id[path[i]]] if path[i] else [self.byte[b] for b in s[i].encode()]
            i += len(path[i] or s[i])
        return ids


def references(shared):
    for name in list(HF) + OLD:
        yield name + ".json", lambda name=name: Hugging(Tokenizer.from_file(str(FIX / (name + ".json"))))
    for name in ("unigram", "bpe", "bpeunk"):
        yield name + ".model", lambda name=name: Piece((FIX / (name + ".model")).read_bytes())
    yield "t5.gguf", lambda: Piece((FIX / "unigram.model").read_bytes(), True)
    yield "bert.gguf", lambda: Hugging(bert_without_limit())
    yield "rwkv.gguf", Rwkv
    yield "plamo2.gguf", Plamo
    yield "tekken.tekken", lambda: Tik(
        "tekken", TEKKEN, {base64.b64decode(x["token_bytes"]): x["rank"] for x in json.loads(
            (FIX / "tekken.tekken").read_text())["vocab"] if x["rank"] < 776},
        {s: 776 + i for i, s in enumerate(tekken_special())}, 24, 1)
    lines = [x.split() for x in (FIX / "qwen.tiktoken").read_text().splitlines()]
    yield "qwen.tiktoken", lambda: Tik(
        "qwen", QWEN2, {base64.b64decode(a): int(b) for a, b in lines},
        {s: len(lines) + i for i, s in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"] +
                                          ["<|extra_%d|>" % i for i in range(205)])}, 0, None)
    if shared and SHARED.is_dir():
        for name in ("gpt-2", "starcoder", "falcon", "deepseek-coder"):
            yield "shared/%s.gguf" % name, lambda name=name: Hugging(shared_bpe(name))
        yield "shared/bert-bge.gguf", lambda: Hugging(shared_bert("bert-bge"))
        for name in ("llama-spm", "phi-3"):
            yield "shared/%s.gguf" % name, lambda name=name: Hugging(shared_spm(name))


def tekken_special():
    named = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_start|>", "<tool_call>"]
    return named + ["<SPECIAL_%d>" % i for i in range(len(named), 24)]


def bert_without_limit():
    d = json.loads((FIX / "bert.json").read_text())
    d["model"]["max_input_chars_per_word"] = 1 << 20
    d["added_tokens"] = [a for a in d["added_tokens"] if a["id"] < 5]
    return Tokenizer.from_str(json.dumps(d))


def vocabulary(name):
    f = gguf.GGUFReader(str(SHARED / (name + ".gguf"))).fields
    return lambda k: f["tokenizer.ggml." + k].contents() if "tokenizer.ggml." + k in f else None


def add_special(t, v, flags):
    t.add_tokens([AddedToken(s, special=k == 3 or k == 2, normalized=False) for s, k in zip(v("tokens"), v("token_type"))
                  if k in flags])
    return t


def shared_bpe(name):
    v = vocabulary(name)
    steps = {"gpt-2": [GPT2], "starcoder": [r"\p{N}", GPT2],
             "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
             "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"]}[name]
    merges = [tuple(m.split(" ", 1)) if m[0] != " " else (" " + m[1:].split(" ", 1)[0], m[1:].split(" ", 1)[1])
              for m in v("merges")]
    t = Tokenizer(M.BPE({s: i for i, s in enumerate(v("tokens"))}, merges))
    t.pre_tokenizer = P.Sequence([P.Split(Regex(s), "isolated") for s in steps] +
                                 [P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = D.ByteLevel()
    add_special(t, v, (3, 4))
    if v("add_bos_token"):
        b = v("tokens")[v("bos_token_id")]
        t.post_processor = R.TemplateProcessing(single=b + " $A", pair="%s $A %s:1 $B:1" % (b, b),
                                                special_tokens=[(b, v("bos_token_id"))])
    return t


def shared_bert(name):
    v = vocabulary(name)
    toks = [s if k == 3 else s[1:] if s[0] == "\u2581" else "##" + s for s, k in zip(v("tokens"), v("token_type"))]
    t = Tokenizer(M.WordPiece({s: i for i, s in enumerate(toks)}, unk_token="[UNK]", max_input_chars_per_word=1 << 20))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()
    t.add_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(toks, v("token_type")) if k == 3])
    t.post_processor = template(t, "[CLS]", "[SEP]")
    return t


def shared_spm(name):
    """Return merges: every way to make a token from two, by the token's score."""
    v = vocabulary(name)
    toks, types = v("tokens"), v("token_type")
    ids = {s: i for i, (s, k) in enumerate(zip(toks, types)) if k in (1, 4)}
    scores = v("scores")
    merges = []
    for s in ids:
        for i in range(1, len(s)):
            if s[:i] in ids and s[i:] in ids:
                merges.append((-scores[ids[s]], ids[s[:i]], ids[s[i:]], s[:i], s[i:]))
    merges.sort()
    t = Tokenizer(M.BPE({s: i for i, s in enumerate(toks)}, [m[3:] for m in merges], unk_token="<unk>",
                        byte_fallback=True, fuse_unk=True))
    t.normalizer = N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])
    t.decoder = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    add_special(t, v, (2, 3, 4))
    t.post_processor = R.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def record(name, ref, strings):
    out = sorted(ref.left_out())
    left = set(out)
    skip = getattr(ref, "skip", lambda s: False)
    recs = []
    prev = ""

    def texts(ids):
        d = ref.decode(ids)
        return 0 if d is None else fnv16((d[0] + "\0" + d[1]).encode())

    def pack(ids):
        return b"".join(struct.pack("<i", i) for i in ids)

    for s in strings:
        s = s.decode(errors="replace")
        ids, _ = ref.encode(s)
        both, types = ref.encode(prev, s)
        recs.append((fnv16(pack(ids) + b"".join(struct.pack("<ii", *x) for x in zip(both, types))), texts(ids))
                    if left.isdisjoint(map(ord, prev + s)) and not skip(prev) and not skip(s) else (0, 0))
        prev = s
    for b in BLOCKS:
        ids, _ = ref.encode(block(b, left))
        recs.append((fnv16(pack(ids)), texts(ids)))
    path = GOLD / ("tok_%s.bin" % name.replace("/", "_").replace(".", "_"))
    path.write_bytes(struct.pack("<I%dII" % len(out), len(out), *out, len(recs)) +
                     b"".join(struct.pack("<HH", *x) for x in recs))
    print(name, len(recs), "records,", len(out), "code points left out")


def main():
    args = [a for a in sys.argv[1:] if a not in ("strings", "train")]
    path = GOLD / "tok_strings.txt"
    if "strings" in sys.argv:
        path.write_text("\n".join(s.hex() for s in make_strings()) + "\n")
    if "train" in sys.argv:
        train()
    strings = [bytes.fromhex(x) for f in (GOLD / "tokenizer_strings.txt", path) for x in f.read_text().split("\n")[:-1]]
    for name, make in references(True):
        if not args or name in args:
            record(name, make(), strings)


if __name__ == "__main__":
    main()
