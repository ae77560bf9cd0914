#!/usr/bin/env python3
"""Make tensors as torch.save() writes them, for tests/unit/loader/test_torchfile.c (Python with torch and
torchao).

Writes torch_tensors.txt.  Each line is a file: its name, its contents ("2,3:0,1,..." or the words that an
error has), and the file in base64.  Also writes torch_weights.txt, for
tests/unit/loader/test_torch_weights.c: state dictionaries, with the tensors that a model gets from them
("name TYPE 2,3;...")."""
import base64, collections, io, os, sys, types, zipfile
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
    """Return rows of the fake engine: a token's row is its byte and zeros."""
    return torch.tensor([[ord(c), 0, 0, 0] for c in text], dtype=torch.float32)


# the tensors that tests/unit/server/api/test_api.c reads
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
changed('other word', 'data.pkl', lambda d: d.replace(b'storage', b'nothing', 1), 'unsupported description')

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name):
    with open(os.path.join(HERE, name), 'w') as f:
        f.write('# made by torch_tensors.py\n' + '\n'.join(out) + '\n')
    out.clear()


write('torch_tensors.txt')

# ---- weights ----

from torchao.quantization import (Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig,  # noqa: E402
                                  IntxWeightOnlyConfig, PerGroup, quantize_)


def linear(config):
    m = torch.nn.Sequential(torch.nn.Linear(64, 8, bias=False)).bfloat16()
    quantize_(m, config)
    return m.state_dict()


layer = torch.nn.Sequential(torch.nn.Linear(4, 3))
add('plain', layer.state_dict(), '0.bias F32 3;0.weight F32 3,4')
add('types', {'a': x.half(), 'b': x.bfloat16(), 'c': x.int(), 'd': x.long(), 'e': x.to(torch.int8), 'f': x.to(torch.uint8),
              'g': x.to(torch.float8_e4m3fn), 'h': x.short()},
    'a F16 3,4;b BF16 3,4;c I32 3,4;d I64 3,4;e I8 3,4;f U8 3,4;g F8_E4M3 3,4;h I16 3,4')
add('part', {'a': x[1:], 'b': torch.tensor(1.0), 'c': torch.nn.Parameter(x), 'd': x[1]}, 'a F32 2,4;b F32 1;c F32 3,4;d F32 4')
for name, config, groups in (('int8', Int8WeightOnlyConfig(version=2), 1),
                             ('int8 dynamic', Int8DynamicActivationInt8WeightConfig(version=2), 1),
                             ('int4', IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), 2)):
    scale = 'BF16' if name == 'int4' else 'F32'
    add(name, linear(config), f'0._weight_qdata I8 8,64;0._weight_scale {scale} 8,{groups};0._weight_zero_point I8 8,{groups}')
add('float8', linear(Float8WeightOnlyConfig()), '0._weight_qdata F8_E4M3 8,64;0._weight_scale F32 8,1')


def old(impl, layout, **state):
    """Build the object as TorchAO's first version wrote it."""
    def subclass(module, name, state):
        made = sys.modules.setdefault(module, types.ModuleType(module))
        cls = made.__dict__.setdefault(name, type(name, (), {'__module__': module}))

        class Wrapper:
            def __reduce__(self):
                return (torch._tensor._rebuild_from_type_v2, (torch._utils._rebuild_wrapper_subclass, cls, (), state))
        return Wrapper()

    made = sys.modules.setdefault('torchao.dtypes.utils', types.ModuleType('torchao.dtypes.utils'))
    made.PlainLayout = type('PlainLayout', (), {'__module__': 'torchao.dtypes.utils'})
    inner = subclass('torchao.dtypes.uintx.plain_layout', impl, {
        'int_data': x.to(torch.int8), 'scale': x[:, 0].contiguous(), 'zero_point': torch.zeros(3, dtype=torch.int64), '_layout': made.PlainLayout()})
    return subclass('torchao.dtypes.affine_quantized_tensor', 'AffineQuantizedTensor',
                    {'tensor_impl': inner, 'block_size': (1, 4), 'quant_min': None, **state})


add('old', {'m.weight': old('PlainAQTTensorImpl', 'PlainLayout', zero_point_domain=1)},
    'm._weight_qdata I8 3,4;m._weight_scale F32 3;m._weight_zero_point I64 3')
add('old floats', {'m.weight': old('PlainAQTTensorImpl', 'PlainLayout', zero_point_domain=2)}, 'zero points that are floats')
add('old tiles', {'m.weight': old('TensorCoreTiledAQTTensorImpl', 'PlainLayout')}, 'one kind of hardware')
add('a tensor', x, 'no state dictionary')
add('transposed', {'a': x.t()}, 'not stored row by row')
add('expanded', {'a': torch.ones(1).expand(3)}, 'not stored row by row')
add('dimensions', {'a': x.reshape(1, 1, 1, 3, 4)}, 'not stored row by row')
add('double', {'a': x.double()}, 'a type that is not supported')
add('complex', {'a': torch.complex(x, x)}, 'a type that is not supported')
add('sparse', {'a': x.to_sparse()}, 'only dense tensors')
add('no tensor', {'a': 4}, 'a class that is not supported')
add('nested', {'a': {'b': x}}, 'a class that is not supported')
add('a number', {4: x}, 'invalid name')
add('an empty name', {'': x}, 'invalid name')
add('a long name', {'a' * 300: x}, 'invalid name')
add('code', {'a': x, 'b': Bomb()}, 'system')
add('code in a list', {'a': [Bomb()]}, 'system')
add('code of torch', {'a': type('T', (), {'__reduce__': lambda self: (torch.load, ('/etc/passwd',))})()}, 'torch.serialization.load')
itself = {'b': x}
itself['a'] = itself
add('itself', itself, 'a class that is not supported')
x = {'a': torch.arange(4.0)}
changed('outside', 'data.pkl', lambda d: d.replace(b'QK\x00', b'QK\x09', 1), 'outside of its storage')
changed('longer', 'data/0', lambda d: d[:-4], 'outside of its storage')
changed('big endian', 'byteorder', lambda d: b'big', 'byte order')
changed('compressed', 'data.pkl', lambda d: d, 'compressed', zipfile.ZIP_DEFLATED)
changed('no end', 'data.pkl', lambda d: d[:-1], 'too early')
changed('another class', 'data.pkl', lambda d: d.replace(b'_rebuild_tensor_v2', b'_rebuild_tensor_v9', 1), '_rebuild_tensor_v9')
changed('odd items', 'data.pkl', lambda d: d.replace(b's.', b'Ns.', 1), 'broken')
write('torch_weights.txt')
