#!/usr/bin/env python3
"""What each CUDA kernel uses of a device, by capability: registers, shared memory, spills, stack frames.

    cuda_resources.py [--write] FILE.log...

The logs are ptxas's (-Xptxas -v), one for each .cu file, as `make cuda` leaves them.  Without --write the
script compares them with kernels/cuda/resources.txt: no kernel may spill or be missing on either side,
wgmma products must be able to overlap, shared memory must be equal, stack frames (arrays outside of
registers) may not be larger, and registers may be at most SLACK more.  Fewer registers are welcome: `make
cuda-resources` records them.  Another toolkit allocates other registers, so with another one the script
compares only spills and the list of kernels.
"""
import os
import re
import subprocess
import sys

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../kernels/cuda/resources.txt')
SLACK = 4
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(sm_\w+)'")
SPILLS = re.compile(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads')
USED = re.compile(r'Used (\d+) registers')
SHARED = re.compile(r'(\d+) bytes smem')
SERIAL = re.compile(r"wgmma.mma_async instructions are serialized .* in the function '(\S+)'")


def short(names):
    """Map mangled names to names with template arguments, without the types of results and arguments."""
    out = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True).stdout
    result = {}
    for name, text in zip(names, out.splitlines()):
        text = re.sub(r'\(anonymous namespace\)::|_GLOBAL__N__\w+?::', '', text)
        text = re.sub(r'\((int|bool|unsigned int|KType|KAct)\)', '', text)    # casts in template arguments
        depth = 0
        for i, c in enumerate(text):
            depth += (c == '<') - (c == '>')
            if depth == 0 and c == '(':
                text = text[:i]
                break
        result[name] = re.sub(r'^(void|static) ', '', text).replace(', ', ',').replace(' ', '')
    return result


def parse(path):
    """Return (file, mangled name, capability) -> [registers, spilled bytes, shared memory, stack frame],
    and the mangled names of kernels whose wgmma products wait for each other."""
    found, serial = {}, set()
    at = None
    file = os.path.basename(path)[:-len('.log')]
    with open(path) as log:
        for line in log:
            if m := SERIAL.search(line):
                serial.add(m[1])
            elif m := ENTRY.search(line):
                at = (file, m[1], m[2][3:])
                found[at] = [0, 0, 0, 0]
            elif at and (m := SPILLS.search(line)):
                found[at][1] = max(int(m[2]), int(m[3]))
                found[at][3] = int(m[1])
            elif at and (m := USED.search(line)):
                found[at][0] = int(m[1])
                found[at][2] = int(s[1]) if (s := SHARED.search(line)) else 0
                at = None
    return found, serial


def toolkit():
    """Return the version of the CUDA toolkit whose build wrote the logs."""
    logs = [f for f in sys.argv[1:] if not f.startswith('-')]
    with open(os.path.join(os.path.commonpath([os.path.dirname(f) for f in logs]), 'flags')) as f:
        m = re.search(r'release (\d+\.\d+)', f.read())
    return m[1] if m else 'unknown'


def read_golden():
    found, release = {}, None
    with open(GOLDEN) as f:
        for line in f:
            if m := re.match(r'# toolkit (\S+)', line):
                release = m[1]
            if line.startswith('#') or not line.strip():
                continue
            file, kernel, *cells = line.split()
            for c in cells:
                sm, values = c.split(':')
                values = [int(v) for v in values.split('/')]
                found[file, kernel, sm] = values if len(values) == 4 else [*values, 0]
    return found, release


def order(key):
    return key[0], key[1], int(re.sub(r'\D', '', key[2]))


def write(now):
    rows = {}
    for key in sorted(now, key=order):
        rows.setdefault(key[:2], []).append('%s:%s' % (key[2], '/'.join(str(v) for v in now[key][:4 if now[key][3] else 3])))
    with open(GOLDEN, 'w') as f:
        f.write('# What ptxas says of each kernel (make cuda-resources):\n'
                '# capability:registers/bytes spilled/bytes of shared memory, without that of the launch/bytes of stack frame, if any\n'
                '# toolkit %s\n' % toolkit())
        for (file, kernel), cells in rows.items():
            f.write('%s %s %s\n' % (file, kernel, ' '.join(cells)))
    print('%d kernels of %d files' % (len(rows), len({k[0] for k in rows})))


def compare(now, golden, serial, same_toolkit):
    passed, failed = 0, 0
    for key in sorted(now.keys() | golden.keys(), key=order):
        name = '%s.cu %s sm_%s' % key
        wrong = None
        if key not in golden:
            wrong = 'is not listed: make cuda-resources'
        elif key not in now:
            wrong = 'is listed and does not exist: make cuda-resources'
        elif now[key][1] > 0:
            wrong = '%d bytes of registers spill' % now[key][1]
        elif same_toolkit and key[:2] in serial:
            wrong = 'ptxas serializes its wgmma'
        elif same_toolkit and now[key][0] > golden[key][0] + SLACK:
            wrong = '%d registers, %d are listed' % (now[key][0], golden[key][0])
        elif same_toolkit and now[key][2] != golden[key][2]:
            wrong = '%d bytes of shared memory, %d are listed' % (now[key][2], golden[key][2])
        elif same_toolkit and now[key][3] > golden[key][3]:
            wrong = 'a stack frame of %d bytes, %d are listed' % (now[key][3], golden[key][3])
        if wrong:
            failed += 1
            print('FAILED %s: %s' % (name, wrong))
        else:
            passed += 1
    return passed, failed


def main():
    logs = [a for a in sys.argv[1:] if a != '--write']
    if not logs or any(a.startswith('-') for a in logs):
        sys.exit(__doc__)
    raw, serial = {}, set()
    for path in logs:
        found, waits = parse(path)
        raw.update(found)
        serial |= {k[:2] for k in found if k[1] in waits}
    names = short(sorted({k[1] for k in raw}))
    now = {}
    for (file, name, sm), values in raw.items():
        assert (file, names[name], sm) not in now, 'two kernels are called %s in %s.cu' % (names[name], file)
        now[file, names[name], sm] = values
    if '--write' in sys.argv:
        return write(now)
    golden, release = read_golden()
    sms = {k[2] for k in now}
    golden = {k: v for k, v in golden.items() if k[2] in sms}    # the build may have fewer capabilities
    serial = {(file, names[name]) for file, name in serial}
    passed, failed = compare(now, golden, serial, release == toolkit())
    if release != toolkit():
        print('skipped 1: registers are listed for toolkit %s, this is %s' % (release, toolkit()))
    print('cuda: %d passed, %d failed, %d skipped' % (passed, failed, release != toolkit()))
    sys.exit(failed > 0)


main()
