#!/usr/bin/env python3
"""Split a GGUF file into parts, as llama-gguf-split --no-tensor-first-split does.

    split_gguf.py FILE DIR PARTS        run in the repository's root

writes DIR/NAME-00001-of-0000N.gguf ..., where NAME is FILE's.  The first part has all metadata and no
tensors; the others have equal numbers of tensors and only the keys split.*.  Needs the standard
library only.  The model phi3_f16_gguf_split and its expected result were made by:

    d=build/fixtures/models e=tests/golden/models_expected
    tests/golden/split_gguf.py $d/phi3_f16_f16_gguf.gguf $d/phi3_f16_gguf_split 3
    cp $e/phi3_f16_f16_gguf.bin $e/phi3_f16_gguf_split.bin
    tests/golden/fixtures.py pack models
"""
import os
import struct
import sys

U16, I32, STRING, ARRAY = 2, 5, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, fmt):
        out = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return out if len(out) > 1 else out[0]

    def string(self):
        n = self.unpack("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            elem, n = self.unpack("IQ")
            for _ in range(n):
                self.skip(elem)
        else:
            self.at += SIZES[kind]


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def pad(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def main():
    source, directory, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(source, "rb") as f:
        r = Reader(f.read())
    magic, version, n_tensors, n_keys = r.unpack("4sIQQ")
    assert magic == b"GGUF" and version == 3
    begin = r.at
    for _ in range(n_keys):
        assert r.string() != "general.alignment"
        r.skip(r.unpack("I"))
    keys = r.data[begin:r.at]
    tensors = []
    for _ in range(n_tensors):
        name = r.string()
        dims = [r.unpack("Q") for _ in range(r.unpack("I"))]
        kind, offset = r.unpack("IQ")
        tensors.append((name, dims, kind, offset))
    base = len(pad(r.data[:r.at]))
    ends = sorted(t[3] for t in tensors) + [len(r.data) - base]
    each = -(-n_tensors // (parts - 1))
    os.makedirs(directory, exist_ok=True)
    for no in range(parts):
        mine = tensors[(no - 1) * each:no * each] if no > 0 else []
        head, body = b"", b""
        for name, dims, kind, offset in mine:
            end = next(e for e in ends if e > offset)
            head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(body))
            body = pad(body + r.data[base + offset:base + end])
        split = (string("split.no") + struct.pack("<IH", U16, no) + string("split.count") + struct.pack("<IH", U16, parts) +
                 string("split.tensors.count") + struct.pack("<Ii", I32, n_tensors))
        out = struct.pack("<4sIQQ", b"GGUF", 3, len(mine), 3 + (n_keys if no == 0 else 0))
        out += (keys if no == 0 else b"") + split + head
        stem = os.path.basename(source).removesuffix(".gguf")
        with open(os.path.join(directory, f"{stem}-{no + 1:05d}-of-{parts:05d}.gguf"), "wb") as f:
            f.write((pad(out) if mine else out) + body)


if __name__ == "__main__":
    main()
