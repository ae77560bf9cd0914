"""Small templates, one for each corner case of the language, and the variables of all of them."""

import json

V = {
    "x": 3, "y": 7, "z": -4, "f": 2.5, "s": "Hello World", "e": "", "n": None, "t": True, "u": "naïve ÉCOLE ß",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "d": {"b": 2, "a": 1, "C": 3}, "nest": {"a": {"b": [10, {"c": "deep"}]}},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "boss": {"name": "Zed"}}],
    "items": {"items": 1, "keys": 2, "values": 3, "get": 4}, "mixed": [1, "a", None, 2.0, True, [1, 2], {"k": "v"}],
    "text": "line one\nline two\n\n  line four", "long": "The quick brown fox jumps over the lazy dog", "empty": [],
    "emptyd": {}, "html": "<a href=\"x\">&'</a>", "big": 9007199254740993, "neg": -2.75, "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}

EXPRESSIONS = """
x
1 + 2 * 3
(1 + 2) * 3
7 / 2
6 / 2
7 // 2
-7 // 2
-7 % 3
7 % -3
2 ** 10
2 ** -1
-2 ** 2
2 ** 3 ** 2
7.5 // 2
-7.5 % 2
1e3
1.5e-7
0.1 + 0.2
1e16
1e15
123456789012345678.0
1/3
1e22
1e100
5e-324
0.0001
0.00001
-0.0
1_000 + 0x1f + 0b101 + 0o17
100 * 1.1
x + f
x - y
x * f
'ab' * 3
3 * 'ab'
'a' 'b' "c"
[1, 2] + [3]
[0] * 3
(1, 2) + (3,)
x ~ y ~ none ~ 1.0 ~ true ~ [1, 'a'] ~ {'k': none}
1 ~ 2 + 3
'a' ~ missing ~ 'b'
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'1' == 1
none == none
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
[1, 2] < [1, 3]
'a' < 'b'
'Z' < 'a'
1 != 2
x > 2 and y < 10
x or y
0 or 'default'
'' or none
x and y
not x
not x == 3
not (x and n)
n or false or 'z'
1 in l
5 in l
5 not in l
'a' in d
'zz' not in d
'ell' in s
'' in s
none in mixed
1 if t
1 if not t
1 if t else 2
1 if not t else 2
'a' if n else 'b' if e else 'c'
(1 if not t) is defined
s[0]
s[-1]
s[1:4]
s[::-1]
s[::2]
s[-99::-1]
s[-3:]
s[:-3]
s[10:2:-2]
s[100:]
l[0]
l[-1]
l[5]
l[1:]
l[::-1]
l[:2]
l[-2:]
l[::2]
u[::-1]
u[2]
u[1:3]
u[-1]
mixed[1:4]
(1, 2, 3)[1]
(1, 2, 3)[1:]
range(5)[1:3]
range(5)
range(2, 8, 3)|list
range(5, 0, -2)|list
range(0)|list
range(3)[-1]
d.a
d['a']
d.missing
d['missing']
d.items()
d.items()|list
d.keys()|list
d.values()|list
d.keys()
d.get('a')
d.get('q')
d.get('q', 5)
d.get('q') is none
items['items']
items.items()|list
items['keys']
nest.a.b[1].c
nest['a']['b'][1]['c']
nest.a.b.0
nest.a.b.1.c
nest.x is defined
missing is defined
missing
missing|default('dflt')
missing is undefined
n is none
n is not none
e|default('dflt')
e|default('dflt', true)
n|d('z', boolean=true)
x is defined and x is number
x is integer
f is float
f is integer
t is boolean
t is true
t is false
f is number
t is number
s is string
x is string
d is mapping
l is mapping
l is sequence
d is sequence
s is sequence
x is sequence
l is iterable
s is iterable
x is iterable
missing is iterable
x is odd
x is even
y is divisibleby 7
y is divisibleby(3)
x is eq 3
x is equalto(3)
x is ne 3
x is gt 2
x is lessthan 3
x is ge 3
x is le 2
x is in l
x is not in [1]
x is in([3])
s is lower
'abc' is lower
'ABC' is upper
'A1' is upper
'1' is upper
n is sameas none
t is sameas true
t is sameas 1
'upper' is filter
'nope' is filter
'odd' is test
range is callable
x is callable
x is not defined
x is not string and y is number
s is string and s|length > 3
x == 3 is true
not x is none
-x
+x
-x|abs
(-x)|abs
- -x
not not x
[1, 2, 3]
[1, 'two', none, true, 1.0, [2], {'a': 1}, (1,)]
(1,)
()
(1, 2)
{}
{'a': 1, 'b': [1, 2], 3: none, 'q': 'it\\'s'}
{'a': 1, 'a': 2}
{1: 'a', 1.0: 'b', true: 'c'}
"it's"
['it\\'s', "say \\"hi\\"", "both ' and \\""]
['tab\\t', 'nl\\n', 'bs\\\\', 'uni é', '\\x07', '\\u200b', '\\U0001F600']
'\\x41\\u00e9\\101\\a'|length
'a\\qb'
"\\N"[0:0] if false else 'q'
s.upper()
s.lower()
s.title()
"they're bill's".title()
s.swapcase()
'hELLO wORLD'.capitalize()
u.upper()
u.lower()
u.title()
u.capitalize()
'ΑΣ ΑΣΑ'.lower()
'İ'.lower()|length
'ǆ'.title()
'ﬁ'.upper()
'STRASSE'.casefold() == 'straße'.casefold()
'  a b '.strip()
'  a b '.lstrip() ~ '|'
'  a b '.rstrip() ~ '|'
'xxaxx'.strip('x')
'abcba'.strip('ab')
'\\u3000a\\u00a0'.strip()
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
' a  b c '.split(maxsplit=1)
''.split()
''.split(',')
'a b'.split(' ')[-1]
'a\\nb\\r\\nc\\x0bd\\u2028e'.splitlines()
'a\\nb\\n'.splitlines(true)
'a\\n\\nb'.splitlines()
'abc'.startswith('ab')
'abc'.startswith(('x', 'a'))
'abc'.startswith('b', 1)
'abc'.endswith('bc')
'abc'.endswith('b', 0, 2)
'abc'.endswith(('c', 'd'))
'aXbXc'.replace('X', '-')
'aXbXc'.replace('X', '-', 1)
'abc'.replace('', '.')
'abc'.replace('', '.', 2)
'héh'.find('h', 1)
'héh'.rfind('h')
'abc'.find('z')
'abcabc'.index('c')
'abcabc'.rindex('a')
'aaaa'.count('aa')
'abc'.count('')
'-'.join(['a', 'b'])
''.join('abc')
','.join(d)
'k=v=w'.partition('=')
'k=v=w'.rpartition('=')
'kv'.partition('=')
'kv'.rpartition('=')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'x'.removesuffix('')
'ab'.center(7, '*')
'abc'.center(6)
'ab'.center(5)
'ab'.ljust(4) ~ '|'
'ab'.rjust(4, '0')
'42'.zfill(5)
'-42'.zfill(5)
'+4'.zfill(1)
'a\\tb'.expandtabs(4)
'abc'.isalpha()
'ab1'.isalnum()
'12'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
''.isdigit()
' \\t'.isspace()
'ab'.islower()
'AB'.isupper()
'Ab Cd'.istitle()
'a_b1'.isidentifier()
'1a'.isidentifier()
'é'.isascii()
'a\\n'.isprintable()
'{} and {}'.format(1, 'b')
'{1} {0}'.format('a', 'b')
'{a} {b!r}'.format(a=1, b='q')
'{0[a]} {0[b]}'.format(d)
'{0.name}'.format(people[0])
'{:>8}|{:<8}|{:^8}'.format('ab', 'cd', 'ef')
'{:*^9}'.format('mid')
'{:05d} {:+d} {: d}'.format(42, 42, 42)
'{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255)
'{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25)
'{:,} {:_} {:,.2f}'.format(1234567, 1234567, 1234567.891)
'{{}} {}'.format(1)
'{:{}}'.format('a', 5) ~ '|'
'{:.3}'.format('abcdef')
'{!s:>5}'.format(1)
'{:g} {:g}'.format(1e10, 123456789.0)
'{}'.format(none)
'{} {}'.format([1, 'a'], {'k': 1})
'{:c}'.format(65)
'{:010.2f}'.format(-3.14159)
'{:5}|{:5}'.format(1, 'a')
'{:5}'.format(true)
'{:.3}'.format(3.14159)
'{:.0f} {:.0f}'.format(0.5, 1.5)
'%s is %d' % ('x', 5)
'%5.2f|%-6s|%06d' % (3.14159, 'ab', 42)
'%x %X %o %e' % (255, 255, 8, 1234.5)
'%(a)s-%(b)d' % {'a': 'q', 'b': 2}
'%r %s' % ('it', none)
'100%%' % ()
'%s' % 'single'
'%s' % [1, 2]
'%i %u' % (1.9, 2)
'%+d % d' % (3, 3)
'%5s|%-5s|' % ('é', 'é')
'%.2s' % 'abc'
'%*d' % (5, 42)
'%c' % 65
'%g' % 0.00001
'%#x' % 255
'%s %s'|format('a', 'b')
'%(x)s'|format(x=1)
[1, 2, 1].count(1)
[1, 2, 1].index(2)
(1, 2, 1).count(1)
[3, 4].copy()
d.copy()
dict(a=1, b=2)
dict({'x': 1}, y=2)
dict([('k', 'v'), ['l', 2]])
dict()
dict.fromkeys(['a', 'b'], 0)
namespace(a=1).a
namespace({'a': 2}, b=3).b
namespace(a=1).q is defined
namespace(a=1)['a']
(1.0).is_integer()
x.bit_length()
s|length
l|length
d|count
missing|length
u|length
l|first
l|last
s|first
s|last
empty|first
empty|last is defined
d|first
l|sum
l|sum(start=10)
people|sum(attribute='age')
[0.1, 0.2, 0.3]|sum
[[1], [2]]|sum(start=[])
l|min
l|max
ls|min
ls|max
ls|min(case_sensitive=true)
people|max(attribute='age')
people|map(attribute='age')|max
empty|min is defined
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
ls|sort(true)
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age,name', reverse=true)|map(attribute='name')|join(',')
people|sort(attribute='name')|map(attribute='name')|join(',')
d|sort
d|dictsort
d|dictsort(true)
d|dictsort(by='value')
d|dictsort(reverse=true)
ls|unique|list
['A', 'a', 'B']|unique|list
['A', 'a', 'B']|unique(true)|list
people|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
l|reverse|list
s|reverse
(1, 2)|reverse|list
d|reverse|list
l|join
l|join(', ')
l|join(d=' - ')
people|join(', ', attribute='name')
d|join('+')
mixed|join('|')
s|join('.')
people|map(attribute='name')|list
people|map(attribute='boss.name')|list|length
people|map(attribute='boss', default='none')|list
people|map(attribute='tags.0', default='-')|list
ls|map('upper')|list
ls|map('replace', 'a', 'X')|join(',')
[1, 2]|map('string')|list
['1', '2']|map('int')|sum
people|map('attr', 'name')|list|length
['a b', 'c']|map('length')|list
l|select('odd')|list
l|select('gt', 1)|list
l|reject('odd')|list
[0, 1, '', 'a', none]|select|list
[0, 1, '', 'a', none]|reject|list
people|selectattr('boss')|map(attribute='name')|list
people|selectattr('boss', 'defined')|list|length
people|selectattr('age', 'equalto', 30)|map(attribute='name')|join(',')
people|selectattr('age', '>', 26)|list|length
people|rejectattr('age', 'eq', 30)|map(attribute='name')|list
people|rejectattr('boss')|list|length
people|selectattr('name', 'in', ['Ann', 'Cid'])|list|length
people|selectattr('tags', 'defined')|first
mixed|select('string')|list
mixed|select('mapping')|first
mixed|reject('none')|list|length
people|groupby('age')|list|length
people|groupby('age')|map('first')|list
people|groupby('age')|map(attribute='list')|map('length')|list
people|groupby('boss.name', default='nobody')|map(attribute='grouper')|list
['b', 'A', 'a']|groupby('0')|map('first')|list
['b', 'A', '0']|groupby('')
''[''] is defined
s['count index'] is defined
l['!clear'] is defined
l['copy count'] is defined
s|upper
s|lower
5|upper
none|lower
'hello WORLD'|capitalize
"hello world-wide (web) [x] {y} they're"|title
'  x  '|trim
'xxaxx'|trim('x')
missing|trim
5|trim
s|replace('l', 'L')
s|replace('l', 'L', 2)
5|replace('5', 'five')
s|center(20)
'abc'|center(8)
text|indent
text|indent(2)
text|indent(2, true)
text|indent(2, first=true, blank=true)
text|indent('> ')
'a\\n'|indent
''|indent
text|wordcount
long|truncate(20)
long|truncate(20, true)
long|truncate(20, false, '!')
long|truncate(20, leeway=0)
long|truncate(42)
long|truncate(255)
'abcdefghijkl'|truncate(5, end='')
x|string ~ 1
l|string
5.0|string
none|string
missing|string
'5'|int + 1
'5.7'|int
'abc'|int
'abc'|int(7)
'0x1f'|int(base=16)
'1f'|int(0, 16)
'101'|int(base=2)
'0b101'|int(0, 0)
' 12 '|int
'1_000'|int
'-5'|int
5.9|int
-5.9|int
none|int
t|int
'1e3'|int
[1]|int
'5.5'|float
'abc'|float
'abc'|float(1.5)
x|float
'1e3'|float
' 1.5 '|float
'inf'|float
none|float
42.55|round
42.55|round(1)
42.45|round(1, 'floor')
42.41|round(1, 'ceil')
2.5|round
3.5|round
-2.5|round
2.675|round(2)
42|round
1234|round(-2)
1250|round(-2)
1234.5|round(-2)
42.55|round|int
x|round(1)
-5|abs
neg|abs
t|abs
1000|filesizeformat
1|filesizeformat
999|filesizeformat
1500000|filesizeformat
1500000|filesizeformat(true)
1e30|filesizeformat
'2048'|filesizeformat(binary=true)
[1, 2, 3, 4, 5]|batch(2)|list
[1, 2, 3, 4, 5]|batch(2, 'x')|list
[1, 2, 3, 4, 5]|slice(2)|list
[1, 2, 3, 4, 5]|slice(3, 'x')|list
'abc'|list
d|list
d|items|list
emptyd|items|list
missing|items|list
missing|list
'a b&c/d=é'|urlencode
{'q': 'a b', 'r': 'x/y'}|urlencode
[('a', 1)]|urlencode
s|safe
html|e
html|escape|escape
html|forceescape
html|e|forceescape
s|safe + html
html + s|safe
s|safe ~ html
(s|safe + html)|upper
s|safe|upper + '<'
s|safe|replace('l', 'L') + '<'
s|safe|trim + '<'
s|safe|string + '<'
'%s <b>'|safe % html
'<b>{}'|safe|string
('<b>{}'|safe).format(html)
[s|safe]
s|safe|tojson
('<'|safe)[0] + '<'
('a<b'|safe).split('<')[0] + '<'
('<'|safe).join(['<', '>'])
['<']|join('<'|safe) + '<'
s|safe is escaped
s is escaped
('<'|safe) * 2 + '<'
('<b>'|safe)|indent + '<'
s|safe is string
s|safe == s
5|safe
d|tojson
mixed|tojson
html|tojson
u|tojson
u|tojson(ensure_ascii=true)
'😀'|tojson(ensure_ascii=true)
'a"b\\\\c\\n\\t\\r\\x08\\x0c\\x01\\x7f\\u2028/'|tojson
d|tojson(indent=2)
nest|tojson(indent=4)
mixed|tojson(indent=1)
emptyd|tojson(indent=2)
[[], {}]|tojson(indent=2)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
d|tojson(indent=2, separators=(', ', ' = '))
d|tojson(indent=0)
d|tojson(indent='--')
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
(1, 2)|tojson
1.0|tojson
1e20|tojson
big|tojson
none|tojson
true|tojson
'inf'|float|tojson
'nan'|float|tojson
''|tojson
people|tojson
d|attr('items') is callable
d|attr('a') is defined
namespace(q=5)|attr('q')
joiner('|') is callable
cycler('a', 'b').next()
cycler('a', 'b').current
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y %H:%M:%S %A %B %j')
strftime_now('')
s|lower|replace(' ', '_')|upper
(s ~ '!')|length
'a' < 'b' and 'b' < 'c'
(x, y) == (3, 7)
[x, y]|join('/')
s.split()|map('first')|join
s.split(' ')[1][0]|lower
('a', 'b')|join
{'a': {'b': 1}}['a']['b']
(d|dictsort)[0][1]
[[1, 2], [3, 4]]|map('sum')|list
[{'a': 1}, {'a': 2}]|map(attribute='a')|sum
d.a + d.b
d.a ~ d['b']
(l|sort)[0]
l.index(1)
'%s' % s[:3]
s is not none and s is string
[] is sequence
{} is mapping and {} is not string
x in [1, 2, 3] and y not in [1]
1.5 is number
none is number
'x' is iterable and 'x' is string
1 is not string
[1, [2, [3, [4]]]]
{'a': {'b': {'c': []}}}
''|default('x') == ''
0|default(5)
false|default(5, true)
[none]|first is none
(none, 1)|first|default('q')
'a'|list + ['b']
'abc'[1:]|upper
('abc' if t else 'def')[0]
{'k': 'v'}.k
[1, 2, 3][1:][0]
s.upper().lower().title()[0:5]
big
big + 1
1 == true
'é' == 'é'
x|int is integer
'10' > '9'
[3, 'a'] == [3, 'a']
l|length == 3 and l|length is odd
d|length ~ s|length
joiner()() ~ 'x'
'a\nb'
'tab	tab'
"nested 'quotes'"
missing is string
missing is none
missing == missing2
missing != 1
missing == none
not missing
missing or 'x'
[missing]|length
missing ~ 1
[missing, 1]
{'a': missing}
(missing, )
missing|upper
missing|string|length
missing|join
missing|first is defined
1 if missing else 2
x if x > 5
loop is defined
varargs is defined
caller is defined
true ~ True ~ false ~ False ~ none ~ None
""" 

ERRORS = """
missing.attr
missing['x']
missing()
missing + 1
1 + missing
missing < 1
1 < missing
-missing
nest.x.y
nest.x.y.z
d.q.r
l[9].x
l.foo.bar
none.x.y
n.strip()
x.strip()
s + 1
1 + s
s + n
l + s
'a' - 'b'
s * s
s * 1.5
n + 1
1 / 0
1 // 0
1 % 0
1.5 % 0
2 ** 0.5 + none
0 ** -1
-s
+l
1 in 5
1 in 's'
5 in none
1 < 's'
none < 1
[1] < ['a']
d < d
[3, 'a']|sort
[none, 1]|max
x()
s()
none()
d.a()
l.append(1)
l.pop()
l.sort()
l.extend([1])
d.update({'a': 5})
d.pop('a')
d.clear()
d.setdefault('q', 1)
l.__class__
s.__class__.__mro__
d.__len__()
''.__class__
s.split('')
s.index('zz')
l.index(99)
s.join([1])
s.join(5)
s.replace('a')
s.startswith(5)
s.upper(1)
s.center('x')
'{}'.format()
'{0}{}'.format(1, 2)
'{a}'.format(b=1)
'{:d}'.format('a')
'{:s}'.format(5)
'{:q}'.format(5)
'{'.format()
'}'.format()
'{0.x.y}'.format(d)
'{:.2d}'.format(5)
'%d' % 'a'
'%s %s' % 'a'
'%s' % (1, 2)
'%q' % 1
'%' % 1
'%(a)s' % 1
'%(b)s' % {'a': 1}
'%d' % none
{}[[]]
{[]: 1}
{'a': 1}[{}]
l['a':]
d[1:2]
x[0:1]
s[::0]
range()
range(1, 2, 0)
range(1000000)
range('a')
dict(1)
dict([1])
dict([(1, 2, 3)])
namespace(1)
namespace(_a=1)
raise_exception('Boom: ' ~ x)
raise_exception()
raise_exception(5)
5|length
none|length
x|list
x|join
x|first
x|last
x|sum
['a']|sum
[1, none]|sum
x|map('upper')|list
l|map|list
l|map('nope')|list
l|select('nope')|list
l|map('upper', 1)|list
l|map(attribute='x', foo=1)|list
people|selectattr|list
s|round
missing|round
missing|int
missing|float
missing|abs
s|abs
5|indent
none|indent
missing|indent
s|truncate(2)
d|dictsort(by='x')
l|dictsort
x|items|list
l|items|list
x|reverse
x|tojson(foo=1)
missing|tojson
range|tojson
[range(3)]|tojson
{(1, 2): 3}|tojson
l|map('upper')|tojson
l|map('upper')|length
l|map('upper')|last
'abc'|center('x')
s|replace('a')
s|upper(1)
s|default(1, 2, 3)
s|int(1, 2, 3)
s|nope
s is nope
s|escape|nope
x is divisibleby 0
x is divisibleby
x is sameas
s is odd
x is in 5
x is gt 's'
cycler()
joiner(1, 2)
loop.index
l|batch
l|slice(0)|list
[{'a': 1}, {'b': 2}]|sort(attribute='a')
[{'a': []}]|unique(attribute='a')|list
9999999|string * 99999999999
strftime_now()
strftime_now(5)
1 if
[1, 2
(1
{1}
{'a' 1}
1 +
* 2
a b
1..2
'unclosed
"unclosed
@
x |
x | | upper
x is
x is not
f(a=1, 2)
f(**d, *l)
f(a=1, a=2)
s[
s[1:2:3:4]
s.
s.1a
not
x if y else
-
()()
"""

STATEMENTS = [
    "", "plain text", "a\n", "a\n\n", "a\r\nb\r\n", "{{ x }}\n", "{{ x }}\n\n", "  {{ x }}  ", "{# comment #}", "a{# c #}b", "a\n{# c #}\nb",
    "a\n  {# c #}\n  b", "{#- c -#} x", "x {#- c -#} y", "{# a\nb #}{{ 1 }}", "{{ '{{' }} {{ '}}' }}", "{% raw %}{{ x }} {% if %}{% endraw %}",
    "a {%- raw -%}  {{ x }}  {%- endraw -%} b", "{% raw %}\n x \n{% endraw %}\ny", "  {% raw %}  x{% endraw %}", "{% raw -%}  x {%+ endraw %}\ny",
    "a {{- x }} b", "a {{ x -}} b", "a\n{{- x -}}\nb", "{%- if x -%} yes {%- endif -%} ", "  {% if x %}\n  yes\n  {% endif %}\nend",
    "  {%+ if x %}\n  yes\n  {%+ endif +%}\nend", "a {% if x %} b {% endif %} c", "\t{% if x %}\n\ty\n\t{% endif %}", "x  \n  {%- if x %} y{% endif %}",
    "{% if x %}\n\n\ny{% endif %}", "{% if x -%}\n\n\ny{% endif %}", "{{ x }}{% if x %}\ny{% endif %}", "a\u00a0{%- if x %}b{% endif %}", "a\u2003\n\u2003{% if x %}b{% endif %}",
    "{% if false %}a{% elif x %}b{% else %}c{% endif %}", "{% if false %}a{% elif n %}b{% else %}c{% endif %}", "{% if x == 3 and not n %}ok{% endif %}",
    "{% if false %}a{% elif false %}b{% elif true %}c{% elif true %}d{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if x, %}t{% endif %}", "{% if not missing is defined %}nd{% endif %}",
    "{% for i in l %}{{ i }},{% endfor %}", "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in empty %}x{% else %}none{% endfor %}", "{% for i in l %}x{% else %}none{% endfor %}", "{% for i in missing %}x{% else %}none{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for c in 'héy' %}[{{ c }}]{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{% for i in (1, 2) %}{{ i }}{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, in [[1], [2]] %}{{ a }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}", "{% for i in l if i > 5 %}x{% else %}none{% endfor %}", "{% for p in people if p.boss is defined %}{{ p.name }}{% endfor %}",
    "{% for i in l %}{{ loop.previtem|default('-') }}<{{ i }}>{{ loop.nextitem|default('-') }} {% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{% if loop.changed(i) %}{{ i }}{% endif %}{% endfor %}", "{% for i in [1, 2] %}{% for j in [3, 4] %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in [1, 2] %}{% set outer = loop %}{% for j in [3, 4] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{% endfor %}", "{% for n in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ loop(n.kids) }}{% endfor %}", "{% for n in tree if n.v != 3 recursive %}{{ n.v }}{{ loop(n.kids) }}{% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(5) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1] %}{% continue %}{% else %}else{% endfor %}", "{% for i in [1] %}{% break %}{% else %}else{% endfor %}", "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% for i in l|map('string') %}{{ loop.length }}{{ loop.last }}{{ i }} {% endfor %}",
    "{% for i in l|select('odd') %}{{ loop.index }}{{ loop.revindex }}{{ loop.last }} {% endfor %}", "{% for i in l %}\n  {{ i }}\n{% endfor %}", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}",
    "{% for i in l %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for m in l %}{{ l[loop.index0 - 1] }}{% endfor %}", "{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% for i in l %}{% endfor %}{{ i is defined }}", "{% for i in l %}{{ loop }}{% endfor %}",
    "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "{% for i in d.values() %}{{ loop.length }}{{ i }}{% endfor %}", "{% for i in [1,2,3] %}{% set q = i %}{% endfor %}{{ q is defined }}",
    "{% for i in l|sort|reverse %}{{ i }}{% endfor %}", "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}", "{% for a, b in people|groupby('age') %}{{ a }}:{{ b|map(attribute='name')|join('+') }};{% endfor %}",
    "{% for row in [1,2,3,4,5]|batch(2, '-') %}{{ row|join }}|{% endfor %}", "{% for w in 'a b c'.split() %}{{ w }}{{ loop.last }}{% endfor %}", "{% for line in text.splitlines() %}[{{ line }}]{% endfor %}",
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = [1, 2] %}{{ b }}", "{% set a %}body {{ x }}{% endset %}[{{ a }}]", "{% set a | upper %}body {{ x }}{% endset %}{{ a }}",
    "{% set a | replace('b', 'c') | upper %}body{% endset %}{{ a }}", "{% set x = x + 1 %}{{ x }}", "{% set ns = namespace(v=0) %}{% for i in l %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = 'q' %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set ns = namespace(found=false) %}{% for i in l if not ns.found %}{{ i }}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}", "{% set a = [] %}{% set a = a + [1] %}{{ a }}", "{% set ns = namespace(l=[]) %}{% for i in l %}{% set ns.l = ns.l + [i * 2] %}{% endfor %}{{ ns.l }}",
    "{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}{{ a }}", "{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}", "{% if false %}{% set x = 9 %}{% endif %}{{ x }}", "{% for i in [1, 2] %}{% if loop.first %}{% set x = 9 %}{% endif %}{{ x }}{% endfor %}",
    "{% set ns.q = 1 %}", "{% set l.q = 1 %}", "{% set d.q = 1 %}", "{% set ns = namespace() %}{% set ns.__class__ = 1 %}", "{% set a.b.c = 1 %}", "{% set 1 = 2 %}", "{% set a = %}", "{% set true = 1 %}", "{% set a, b = 1 %}", "{% set a, b = 1, 2, 3 %}", "{% set a, b = [1] %}", "{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}",
    "{% set a %}\n  x\n{% endset %}[{{ a }}]", "{% set a %}{% set b = 1 %}{% endset %}{{ b is defined }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m() %}{{ x }}{% endmacro %}{{ m() }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('q') }}{{ x }}", "{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a, b) %}{{ b is defined }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a, b) %}{{ b.c }}{% endmacro %}{{ m(1) }}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ x }}{% endcall %}", "{% macro m() %}{{ caller('a', 2) }}{% endmacro %}{% call(p, q) m() %}{{ p }}{{ q }}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}b{% endcall %}", "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}  \n a \n {% endmacro %}[{{ m() }}]", "{% macro m() -%}\n a \n{%- endmacro %}[{{ m() }}]", "{% macro m(a) %}{{ a|upper }}{% endmacro %}{{ m('q')|lower ~ m('r') }}",
    "{{ m is defined }}{% macro m() %}1{% endmacro %}{{ m is defined }}", "{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner is defined }}", "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(l) %}{% for i in l %}{{ loop.index }}{% endfor %}{% endmacro %}{{ m([1, 2]) }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(a=[1, 2]) %}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a, a2=missing) %}{{ a2 is defined }}{% endmacro %}{{ m(1) }}", "{% macro m %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %}{{ m.name }}{% endmacro %}{{ m() }}", "{{ range(3)|map('string')|join }}", "{% macro m() %}x{% endmacro %}{{ m }}", "{% macro m(*a) %}{% endmacro %}",
    "{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m() %}<{{ i }}>{% endcall %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}", "{% call x() %}{% endcall %}", "{% call x %}{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}c{% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aaa{% endfilter %}", "{% filter trim %}  x  {% endfilter %}|", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}x{% endfilter %}", "{% for i in [1,2] %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}",
    "{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% set a = 0 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% print x, y %}", "{% print %}", "{% block b %}in {{ x }}{% endblock %}", "{% block b %}x{% endblock b %}", "{% generation %}g {{ x }}{% endgeneration %}", "a{% generation %}\nb\n{% endgeneration %}\nc", "{% autoescape false %}{{ html }}{% endautoescape %}",
    "{% if x %}{{ s|nope }}{% endif %}", "{% if false %}{{ s|nope }}{% endif %}ok", "{% if false %}{{ s is nope }}{% endif %}ok", "{{ s|nope if false else 'ok' }}", "{% for i in empty %}{{ s|nope }}{% endfor %}", "{% if s is nope %}{% endif %}", "{% if x is filter %}{% endif %}",
    "{% unknown %}", "{% endif %}", "{% if x %}", "{% if x %}{% else %}", "{% for i in l %}", "{% for i in l %}{% endif %}", "{% for in l %}{% endfor %}", "{% for i l %}{% endfor %}", "{% if %}{% endif %}", "{{ }}", "{{", "{% ", "{{ x", "{{ x }", "{% if x }}{% endif %}", "{{ x %}", "{# unclosed", "{% raw %} unclosed", "{% break %}", "{% continue %}", "{% if x %}{% break %}{% endif %}",
    "{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "line1\nline2\n{{ missing.x }}", "a\n{% if x %}\nb\n{{ 1 + 'a' }}\n{% endif %}", "\n\n{% for i in l %}\n{{ i.x.y }}\n{% endfor %}", "a\n{% set q = raise_exception('no') %}", "{# c\nc #}\n{{ raise_exception('line 3') }}", "{{\n\nraise_exception('x') }}", "{%- if x %}\n\n{{- raise_exception('four') }}\n{% endif %}\n", "\n{{ x }\n}", "a\n\n{% if x %}{% foo %}{% endif %}", "x\n{{ 'a\nb' }}\n{{ missing.q }}",
    "{% macro m() %}\n{{ missing.x }}\n{% endmacro %}\n\n{{ m() }}", "{% for i in [1] %}\n\n{{ raise_exception(i) }}{% endfor %}", "{{ people|map(attribute='name')|join(', ') }}", "{% for p in people %}{{ '%-5s|%3d' % (p.name, p.age) }}\n{% endfor %}", "{{ 1 }}{{ 2 }}\n{{ 3 }}", "{{ x }}\n{% if x %}\n{{ y }}\n{% endif %}\n{{ z }}\n",
    "{%- for i in l %}\n    {{- i }}\n    {%- if not loop.last %}\n        {{- ',' }}\n    {%- endif %}\n{%- endfor %}\n", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set q = c.reset() %}{{ c.current }}", "{% set j = joiner(', ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c",
    "{{ '<think>a</think>b'.split('</think>')[-1] }}", "{{ ('<think>a</think>b'.split('</think>')|last).strip() }}", "{% set m = {'role': 'user', 'content': none} %}{{ m.content is none }}{{ m['role'] }}{{ m.get('x') }}", "{% set a = 'x' %}{% set a = a ~ 'y' %}{{ a }}", "{% if 'tools' in d and d['tools'] %}y{% else %}n{% endif %}",
    "{{ lipsum is defined }}", "{{ dict is callable }}{{ namespace is callable }}", "{% if x %}a{% endif %}\n{% if y %}b{% endif %}\n", "{% if x %}a{% endif %} \n b", "   {{ x }}\n   {% if x %}\n   z\n   {% endif %}   \nw", "{% set q = 'a' if false %}{{ q is defined }}{{ q }}", "{{ ('a' if false).x }}", "{% for i in ('a' if false) %}x{% endfor %}y",
    "{{ loop.index }}", "{% for i in l %}{{ loop.foo is defined }}{% endfor %}", "{% for i in l %}{{ loop.foo.bar }}{% endfor %}", "{% for i in l %}{{ loop(i) }}{% endfor %}", "{% for i in [[1]] recursive %}{{ loop(5) }}{% endfor %}", "{% for i in l %}{{ loop.cycle() }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}",
    "{% set l2 = [1, 2] %}{{ l2.append(3) }}", "{% set _ = d.update({'z': 1}) %}", "{{ (l|list).append }}", "{% set g = l|map('string') %}{{ g|join }}|{{ g|join }}", "{% set g = l|reverse %}{{ g|list }}{{ g|list }}", "{% set i = d.items() %}{{ i|list|length }}{{ i|list|length }}", "{% set g = l|select %}{{ 'y' if g else 'n' }}", "{% set g = []|select %}{{ 'y' if g else 'n' }}", "{{ d.items()|length }}{{ d.items() is sequence }}{{ (l|map('string')) is iterable }}{{ (l|map('string')) is sequence }}",
    "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% include 'x' ? %}", "{% import 'x' as {{ y }} %}", "{% extends 'x", "{% from 'x' ]import y %}{{ x }}", "{% include " + "x " * 1021 + "? %}", "{% do x %}", "{% trans %}x{% endtrans %}", "{{ lipsum() }}", "{{ s|random }}", "{{ html|escape }}", "{{ html|e }}", "{{ s|pprint }}", "{{ html|striptags }}", "{{ s|urlize }}", "{{ s|wordwrap(5) }}",
    "{{ 9223372036854775807 }}", "{{ -9223372036854775807 - 1 }}", "{{ 'é'|length }}{{ 'e\u0301'|length }}{{ '\U0001F600'|length }}", "{{ '\u2028'.splitlines()|length }}", "\ufeff{{ x }}", "{{ d|tojson }}\n{{ l|tojson }}", "{% set x %}{% endset %}[{{ x }}]{{ x is string }}", "{{ x.y.z if false else 'fine' }}", "{{ (x if true else missing.x) }}", "{{ true and missing }}", "{{ false and missing.x.y }}", "{{ true or missing.x.y }}",
    "{{ [1,2,3]|map('string')|map('int')|select('odd')|sum }}", "{{ ['a','b']|map('upper')|first }}", "{{ [{'a':{'b':1}}]|map(attribute='a.b')|first }}", "{% for k, v in people[0].items() if k != 'age' %}{{ k }}{{ v }}{% if not loop.last %},{% endif %}{% endfor %}", "{{ people[0] | tojson(indent=4) | indent(4) }}", "{{ 'x'.join(['a','b','c'][:2]) }}", "{% for m in people %}{% if loop.index0 == 0 or people[loop.index0-1].age != m.age %}{{ m.name }}{% endif %}{% endfor %}", "{% for m in people[::-1] %}{{ m.name }}{% endfor %}", "{% set last = people|length - 1 %}{{ people[last].name }}{{ people[-1]['name'] }}",
    "{% for i in l %}{{ x }}{% endfor %}{% set x = 9 %}{{ x }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 9 %}{{ m() }}", "{% macro m() %}{{ y }}{% endmacro %}{{ m() }}{% set y = 1 %}", "{{ x }}{% for i in l %}{{ x }}{% endfor %}{% set x = 9 %}", "{% for i in l %}{% for k in l %}{{ x }}{% endfor %}{% set x = 1 %}{% endfor %}", "{% for i in l %}{{ x }}{% endfor %}{% if t %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% for i in l %}{{ x }}{% endfor %}{% if t %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in l %}{{ x }}{% endfor %}{% if n %}{% set x = 1 %}{% elif t %}{% set x = 3 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", "{% with q = x %}{{ x }}{% set x = 2 %}{{ x }}{{ q }}{% endwith %}{{ x }}", "{% for i in l %}{% macro f() %}{{ z }}{% endmacro %}{{ f() }}{% set z = i %}{{ f() }}{% endfor %}",
    "{% set x %}{% for i in l %}{{ x }}{% endfor %}{% endset %}{{ x }}", "{% filter upper %}{% for i in l %}{{ s }}{% endfor %}{% set s = 'q' %}{% endfilter %}{{ s }}", "{% macro m(a) %}{% for i in l %}{{ s }}{% endfor %}{% set s = a %}{{ s }}{% endmacro %}{{ m('q') }}{{ s }}", "{% set range = 5 %}{{ range }}", "{% for i in range(2) %}{{ i }}{% endfor %}{% set range = 5 %}", "{% macro m() %}{{ range(2)|list }}{% endmacro %}{% set range = 5 %}{{ m() }}",
    "a\n{% raw +%}b{% endraw %}\n{{ # }}", "{% if %}\n{{ 'x }}", "{{ 1 }}\n{{ @ }}", "{% for a in l %}{{ ' }}{% endif %}", "{{ ('<b>'|safe)|list }}", "{{ l is filter }}", "{{ 'ab' % range(3) }}", "{{ missing|round(1, 'floor') }}", "{{ ('a'|safe).foo.bar }}",
]


# Texts, and the arguments of wordwrap that each text is tested with.
WRAP = [
    "", " ", "   a   b   ", "Look, goof-ball -- use the -b option!", "Hello there -- you goof-ball, use the -b option!", "a-b-c-d-e-f", "em-dash--like this---or that----then", "what--?", "--option --long-option=value -x",
    "well-known state-of-the-art X-ray T-shirt e-mail 3-4 a1-b2 x-1 ab-cd", "averyveryverylongwordwithoutanybreak", "very-very-very-long-word-with-hyphens and more", "-----------------", "a----------------", "ab cd ------ ef",
    "trailing   ", "   leading", "tab\tand  two  spaces", "one\ntwo three four five six\n\n  seven eight nine ten\r\neleven", "naïve ÉCOLE-ß straße-ähnlich Wörter", "日本語のテキストは空白がない", "日本-語の テキ-スト", "no\u00a0break space\u3000wide \u00a0 x",
    "e\u0301e\u0301e\u0301 e\u0301-e\u0301", "٣-٤ ½-½ a²-b² Ⅷ-Ⅸ", "snake_case-and_more _-_ __-__", "'quoted'--'dash' (paren)--dash end.--Start 5--6", "a,b.c!d?e&f--g", "a b c d e f g h i j k l m n o p", "ab-cde-fgh ijk-lmnop-q--rst",
    "\x1c x\x1fy z\x85w v\u2028u", "word " * 12, "😀😀 😀-😀 abc😀def-ghi", "<a href=x> & more--less </a>", "co-\u200bop re-\u0065nter", "a- b -c d--e f---g", "x--y--z", "aaa bbb-ccc-ddd",
]
WRAP_ARGS = ["1", "2", "3", "5", "7.5", "8", "10", "10, true, '|', false", "6, false", "4, false, none, false", "9, wrapstring='<br>'", "5, break_on_hyphens=1", "7, wrapstring='&'|safe", ""]
WRAP_MORE = ["{{ s|wordwrap(0) }}", "{{ ''|wordwrap(0) }}", "{{ s|wordwrap(-3) }}", "{{ s|wordwrap(none) }}", "{{ s|wordwrap('5') }}", "{{ s|wordwrap(0.5) }}", "{{ s|wordwrap(20.5) }}", "{{ s|wordwrap(2.5) }}", "{{ s|wordwrap(2.5, false) }}",
             "{{ s|wordwrap(true) }}", "{{ 5|wordwrap }}", "{{ missing|wordwrap }}", "{{ l|wordwrap(2) }}", "{{ s|wordwrap(missing) }}", "{{ s|wordwrap(5, wrapstring=missing) }}", "{{ s|wordwrap(5, wrapstring=3) }}", "{{ s|wordwrap(1, 2, 'x', 4, 5) }}", "{{ s|wordwrap(widht=3) }}",
             "{{ (html|safe|wordwrap(4)) is escaped }}", "{{ (html|wordwrap(4, wrapstring='-'|safe)) is escaped }}", "{{ long|wordwrap(10)|upper }}", "{{ text|wordwrap(4) }}"]


def wraps():
    for text in WRAP:
        for args in WRAP_ARGS:
            yield "{{ %s|wordwrap(%s) }}" % (json.dumps(text, ensure_ascii=False), args)
    yield from WRAP_MORE


def cases():
    for e in EXPRESSIONS.strip("\n").split("\n"):
        yield "{{ %s }}" % e.rstrip()
    for e in ERRORS.strip("\n").split("\n"):
        yield "a\n{{ %s }}" % e
    for s in STATEMENTS:
        yield s
    yield from wraps()
