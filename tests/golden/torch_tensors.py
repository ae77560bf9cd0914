#!/usr/bin/env python3
"""Tensors as torch.save() writes them, for tests/unit/loader/test_torchfile.c (Python with torch).

Writes torch_tensors.txt: a line a file: its name, what is in it ("2,3:0,1,..." or the words that an error has), and the file in
base64."""
import base64, collections, io, os, zipfile
import torch

out = []


def add(name, thing, want=None, **kw):
    b = io.BytesIO()
    torch.save(thing, b, **kw)
    if want is None:
        want = ','.join(map(str, thing.shape)) + ':' + ','.join('%.9g' % x for x in thing.detach().float().flatten().tolist())
    raw(name, b.getvalue(), want)


def raw(name, data, want):
    out.append('\t'.join((name, want, base64.b64encode(data).decode())))


torch.manual_seed(1)
x = torch.randn(3, 4)
add('float32', x)
add('float16', x.half())
add('bfloat16', x.bfloat16())
add('transposed', x.t())
add('part', x[1:, 1:3])
add('view', torch.arange(24.).reshape(2, 3, 4).permute(2, 0, 1))
add('grad', x.clone().requires_grad_())
add('vector', x[0])
add('scalar', torch.tensor(3.5))
add('empty', torch.zeros(0, 4))
add('large', torch.arange(3000.).reshape(1, 300, 10))
add('expanded', torch.ones(1).expand(1000, 1000), 'outside of its storage')
add('double', x.double(), 'float32, float16 or bfloat16')
add('int', x.int(), 'float32, float16 or bfloat16')
add('bool', x > 0, 'float32, float16 or bfloat16')
add('sparse', x.to_sparse(), 'only dense tensors')
add('parameter', torch.nn.Parameter(x), '_rebuild_parameter')
add('list', [x], 'only a tensor')
add('dict', {'a': x}, 'only a tensor')
add('text', 'x', 'only a tensor')
add('old', x, 'no archive', _use_new_zipfile_serialization=False)


def rows(text):
    """Of the fake engine: a token's row is its byte and zeros."""
    return torch.tensor([[ord(c), 0, 0, 0] for c in text], dtype=torch.float32)


# for tests/unit/server/test_api.c
add('fake half', rows('hi you').half())
add('fake batch', rows('x y z').bfloat16().unsqueeze(0))
add('fake narrow', torch.zeros(2, 3))
add('fake vector', torch.zeros(4))
add('fake infinite', rows('a') * float('inf') + rows('a'), '1,4:inf,nan,nan,nan')


class Bomb:
    def __reduce__(self):
        return (os.system, ('touch /tmp/torch_bomb',))


add('code', Bomb(), 'system')


def changed(name, member, change, want, compress=zipfile.ZIP_STORED):
    b = io.BytesIO()
    torch.save(x, b)
    z = zipfile.ZipFile(b)
    to = io.BytesIO()
    with zipfile.ZipFile(to, 'w', compress) as w:
        for i in z.namelist():
            data = z.read(i)
            w.writestr(i, change(data) if i.endswith(member) else data)
    raw(name, to.getvalue(), want)


same = ','.join(map(str, x.shape)) + ':' + ','.join('%.9g' % v for v in x.flatten().tolist())
changed('zipped again', 'data.pkl', lambda d: d, same)
changed('compressed', 'data.pkl', lambda d: d, 'compressed', zipfile.ZIP_DEFLATED)
changed('short storage', 'data/0', lambda d: d[:-4], 'shorter')
changed('big endian', 'byteorder', lambda d: b'big', 'little-endian')
changed('no end', 'data.pkl', lambda d: d[:-1], 'too early')
changed('offset', 'data.pkl', lambda d: d.replace(b'QK\x00', b'QK\x09', 1), 'outside of its storage')
changed('other storage', 'data.pkl', lambda d: d.replace(b'\x00\x00\x000', b'\x00\x00\x007', 1), 'missing')
changed('no mark', 'data.pkl', lambda d: d.replace(b'((', b'))', 1), 'broken')
changed('other word', 'data.pkl', lambda d: d.replace(b'storage', b'nothing', 1), 'another way')

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'torch_tensors.txt'), 'w') as f:
    f.write('# made by torch_tensors.py\n' + '\n'.join(out) + '\n')
