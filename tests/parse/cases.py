#!/usr/bin/env python3
"""Cases for src/parsers: texts as models write them, and what is in them.

    tests/parse/cases.py        writes tests/parse/*.json

Each text of a format's table is written by a small renderer of that format, so what is
expected (names, arguments, content) is known before and not taken from any parser.  What
can't be rendered (broken, cut and odd outputs) is written out with its expectation.
tests/unit/parsers/test_parse.c reads the files, and runs each case whole, byte by byte, and cut
in two at every place.
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def dump(x):
    return json.dumps(x, ensure_ascii=False)


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"},
            "where": {"type": "object"}, "tags": {"type": "array", "items": {"type": "string"}},
            "factor": {"type": "number"}, "note": {"type": ["string", "null"]}, "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "types", "parameters": {"type": "object", "$defs": {"box": {"type": "object"}, "a/b": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}, "n": {"type": "integer"},
        "self": {"$ref": "#/$defs/self"}}, "properties": {
            "box": {"$ref": "#/$defs/box"}, "all": {"allOf": [{"$ref": "#/$defs/box"}]}, "maybe": {"$ref": "#/$defs/a~1b"}, "five": {"const": 5}, "none": {"$ref": "#/$defs/nothing"}, "self": {"$ref": "#/$defs/self"},
            "code": {"type": ["string", "integer"]}}}}},
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]

PARIS = ("get_weather", {"city": "Paris"})
OSLO = ("get_weather", {"city": "Oslo", "days": 3, "metric": True})
ADD = ("add", {"a": 1, "b": -2})
NESTED = ("get_weather", {"city": "x", "where": {"lat": 1.5, "list": [1, {"a": None}, []], "t": False}, "tags": ["p", "q r"]})
UNICODE = ("get_weather", {"city": "Zürich 東京 🎉"})
QUOTES = ("get_weather", {"city": "a \"quoted\" 'word' \\ and\nan end, {brace} [x]"})
MARKUP = ("get_weather", {"city": "<b>bold</b> & 1 < 2"})
EMPTY = ("now", {})


# ---- renderers: a list of calls as the model writes them ----

def obj(name, args, key="arguments"):
    return dump({"name": name, key: args})


def blocks(open_, close):
    return lambda calls: "\n".join(f"{open_}\n{obj(*c)}\n{close}" for c in calls)


def array(open_="", close="", key="arguments"):
    return lambda calls: open_ + "[" + ", ".join(obj(*c, key) for c in calls) + "]" + close


def python_value(v):
    return repr(v)


def python_call(c):
    return f"{c[0]}({', '.join(f'{k}={python_value(v)}' for k, v in c[1].items())})"


def raw(v):
    return v if isinstance(v, str) else dump(v)


def deepseek_v3(calls):
    return "<｜tool▁calls▁begin｜>" + "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{dump(a)}\n```<｜tool▁call▁end｜>" for n, a in calls) + "<｜tool▁calls▁end｜>"


def deepseek_v31(calls):
    return "<｜tool▁calls▁begin｜>" + "".join(
        f"<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{dump(a)}<｜tool▁call▁end｜>" for n, a in calls) + "<｜tool▁calls▁end｜>"


def deepseek_v32(calls):
    def param(k, v):
        s = "true" if isinstance(v, str) else "false"
        return f'<｜DSML｜parameter name="{k}" string="{s}">{raw(v)}</｜DSML｜parameter>\n'
    return "<｜DSML｜function_calls>\n" + "".join(
        f'<｜DSML｜invoke name="{n}">\n' + "".join(param(k, v) for k, v in a.items()) + "</｜DSML｜invoke>\n" for n, a in calls) + "</｜DSML｜function_calls>"


def kimi(calls):
    return "<|tool_calls_section_begin|>" + "".join(
        f"<|tool_call_begin|>functions.{n}:{i}<|tool_call_argument_begin|>{dump(a)}<|tool_call_end|>" for i, (n, a) in enumerate(calls)) + "<|tool_calls_section_end|>"


def glm(newline):
    def render(calls):
        return "\n".join(f"<tool_call>{n}{newline}" + newline.join(
            f"<arg_key>{k}</arg_key>{newline}<arg_value>{raw(v)}</arg_value>" for k, v in a.items()) + f"{newline}</tool_call>" for n, a in calls)
    return render


def function_tags(open_, close):
    def render(calls):
        return "\n".join(f"{open_}\n<function={n}>\n" + "".join(
            f"<parameter={k}>\n{raw(v)}\n</parameter>\n" for k, v in a.items()) + f"</function>\n{close}" for n, a in calls)
    return render


def minimax_m2(calls):
    return "<minimax:tool_call>\n" + "".join(
        f'<invoke name="{n}">\n' + "".join(f'<parameter name="{k}">{raw(v)}</parameter>\n' for k, v in a.items()) + "</invoke>\n" for n, a in calls) + "</minimax:tool_call>"


def step3(calls):
    return "<｜tool_calls_begin｜>" + "".join(
        f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{n}">' + "".join(
            f'<steptml:parameter name="{k}">{raw(v)}</steptml:parameter>' for k, v in a.items()) + "</steptml:invoke><｜tool_call_end｜>" for n, a in calls) + "<｜tool_calls_end｜>"


def functiongemma(calls):
    def arg(k, v):
        return f"{k}:<escape>{v}<escape>" if isinstance(v, str) else f"{k}:{dump(v)}"
    return "".join(f"<start_function_call>call:{n}{{{','.join(arg(k, v) for k, v in a.items())}}}<end_function_call>" for n, a in calls)


def harmony(calls):
    return "<|end|><|start|>assistant".join(
        f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{dump(a)}" + ("<|call|>" if i == len(calls) - 1 else "")
        for i, (n, a) in enumerate(calls))


# name: renderer, and what differs from the rule:
#   before: may text precede the calls?    several: may there be several calls?
#   trim: is white space before the mark no content?    cut: what an output without its last marks is
#   close: the last mark, which may be missing ("optional") or makes a call ("needed")
FORMATS = {
    "deepseek_v3": dict(render=deepseek_v3, needs="<｜tool▁call▁end｜>"),
    "deepseek_v31": dict(render=deepseek_v31, needs="<｜tool▁call▁end｜>"),
    "deepseek_v32": dict(render=deepseek_v32, trim=True, needs="</｜DSML｜invoke>"),
    "ernie45": dict(render=blocks("<tool_call>", "</tool_call>"), trim=True, needs="</tool_call>"),
    "functiongemma": dict(render=functiongemma, optional="<end_function_call>", needs="}"),
    "gigachat3": dict(render=lambda c: "<|message_sep|>\n\nfunction call<|role_sep|>\n" + obj(*c[0]) + "</s>", several=False, optional="</s>", needs="}"),
    "glm45": dict(render=glm("\n"), needs="</tool_call>"),
    "glm47": dict(render=glm(""), needs="</tool_call>"),
    "granite": dict(render=array("<|tool_call|>"), before=False, needs="}"),
    "granite-20b-fc": dict(render=lambda c: "".join("<function_call> " + obj(*x) for x in c), needs="}"),
    "hermes": dict(render=blocks("<tool_call>", "</tool_call>"), optional="</tool_call>", needs="}"),
    "hunyuan_a13b": dict(render=array("<tool_calls>", "</tool_calls>"), trim=True, optional="]</tool_calls>", needs="}"),
    "internlm": dict(render=lambda c: "<|action_start|><|plugin|>" + obj(*c[0], "parameters") + "<|action_end|>", several=False, optional="<|action_end|>", needs="}"),
    "jamba": dict(render=array("<tool_calls>", "</tool_calls>"), trim=True, optional="]</tool_calls>", needs="}"),
    "kimi_k2": dict(render=kimi, ids=True, needs="<|tool_call_end|>"),
    "llama3_json": dict(render=lambda c: "<|python_tag|>" + "; ".join(obj(*x, "parameters") for x in c), needs="}"),
    "llama4_pythonic": dict(render=lambda c: "<|python_start|>[" + ", ".join(map(python_call, c)) + "]<|python_end|>", before=False, optional="]<|python_end|>", needs=")"),
    "longcat": dict(render=blocks("<longcat_tool_call>", "</longcat_tool_call>"), optional="</longcat_tool_call>", needs="}"),
    "minimax": dict(render=lambda c: "<tool_calls>\n" + "\n".join(obj(*x) for x in c) + "\n</tool_calls>", trim=True, optional="</tool_calls>", needs="}"),
    "minimax_m2": dict(render=minimax_m2, optional="</minimax:tool_call>", needs="</invoke>"),
    "mistral": dict(render=array("[TOOL_CALLS]"), nine=True, optional="]", needs="}"),
    "olmo3": dict(render=lambda c: "<function_calls>\n" + "\n".join(map(python_call, c)) + "\n</function_calls>", trim=True, optional="</function_calls>", needs=")"),
    "openai": dict(render=harmony, before=False, optional="<|call|>"),
    "phi4_mini_json": dict(render=array("functools"), trim=True, optional="]", needs="}"),
    "pythonic": dict(render=lambda c: "[" + ", ".join(map(python_call, c)) + "]", before=False, optional="]", needs=")"),
    "qwen3_coder": dict(render=function_tags("<tool_call>", "</tool_call>"), optional="</tool_call>", needs="</function>"),
    "seed_oss": dict(render=function_tags("<seed:tool_call>", "</seed:tool_call>"), optional="</seed:tool_call>", needs="</function>"),
    "step3": dict(render=step3, optional="<｜tool_call_end｜><｜tool_calls_end｜>", needs="</steptml:invoke>"),
    "xlam": dict(render=array(), before=False, optional="]", needs="}"),
}
ALIASES = {"llama3_json": "llama4_json", "qwen3_coder": "qwen3_xml"}


def case(name, text, content, calls=(), tools=True, **more):
    c = {"name": name, "text": text, "content": content, "calls": [
        {"name": n, "arguments": a if isinstance(a, str) else dump(a), **({"id": i[0]} if i else {})} for n, a, *i in calls]}
    if not tools:
        c["no_tools"] = True
    return {**c, **more}


def table(name, f):
    """What every format must do."""
    render = f["render"]

    def with_ids(calls):
        return [(n, a, f"functions.{n}:{i}") for i, (n, a) in enumerate(calls)] if f.get("ids") else calls

    def rendered(label, calls, **more):
        return case(label, render(calls), None, with_ids(calls), **more)
    out = [case("no call", "The weather is fine.", "The weather is fine."),
           case("nothing", "", None),
           rendered("one call", [PARIS]), rendered("types", [OSLO]), rendered("no arguments", [EMPTY]),
           rendered("nested", [NESTED]), rendered("unicode", [UNICODE]), rendered("tags in a string", [MARKUP])]
    if f.get("several", True):
        out += [rendered("two calls", [PARIS, ADD]), rendered("three calls", [OSLO, OSLO, EMPTY])]
    if name not in ("functiongemma",):
        out.append(rendered("quotes and newlines", [QUOTES]))
    before = f.get("before", True)
    if before:
        text = "Let me look. 😀\n" + render([PARIS])
        content = "Let me look. 😀" if f.get("trim") else "Let me look. 😀\n"
        out.append(case("text before", text, content, with_ids([PARIS])))
    if f.get("optional"):
        whole = render([OSLO])
        assert whole.endswith(f["optional"]), name
        out.append(case("last mark missing", whole[:-len(f["optional"])], None, with_ids([OSLO])))
    if f.get("needs"):
        whole = render([OSLO])
        cut = whole[:whole.rindex(f["needs"])]
        out.append(case("cut", cut, cut))
        cut = "So: " + cut[:len(cut) * 2 // 3]
        if before:
            out.append(case("cut early", cut, cut))
    mark = render([PARIS])
    out.append(case("a mark's beginning", "Well " + mark[:3] + " x", "Well " + mark[:3] + " x"))
    out.append(case("a mark's beginning at the end", "Well " + mark[:3], "Well " + mark[:3]))
    return out


def broken(text):
    return case("broken", text, text)


WEATHER = "get_weather"
MORE = {
    "deepseek_v3": [
        broken("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": }\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        case("no call in the section", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"),
        broken('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1, "a": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>')],
    "deepseek_v31": [
        broken("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>[1,<｜tool▁call▁end｜>"),
        case("white space", "<｜tool▁calls▁begin｜>\n<｜tool▁call▁begin｜> f <｜tool▁sep｜> {\"a\":1} <｜tool▁call▁end｜>", None, [("f", {"a": 1})]),
        broken('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1, "a": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>')],
    "deepseek_v32": [
        broken('<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="x" string="yes">12</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>'),
        broken('<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="x" type="int">12</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>'),
        case("a string that looks like a number", '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="x" string="true">12</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
             None, [("f", {"x": "12"})]),
        broken('<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="x" string="true">12</｜DSML｜invoke></｜DSML｜function_calls>'),
        broken('<｜DSML｜function_calls><｜DSML｜invoke name="f"><parameter name="a" string="false">1</parameter></｜DSML｜invoke></｜DSML｜function_calls>'),
        broken('<｜DSML｜function_calls><｜DSML｜invoke name="f">{"a": 1}</｜DSML｜invoke></｜DSML｜function_calls>')],
    "ernie45": [broken("<tool_call>\n{\"name\": \"f\", \"arguments\": {\n</tool_call>"),
        broken('<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>')],
    "functiongemma": [
        case("values in escapes", "<start_function_call>call:f{a:<escape>5<escape>,b:<escape>x, {y}<escape>,c:<escape>[1, 2]<escape>}<end_function_call>", None, [("f", {"a": 5, "b": "x, {y}", "c": [1, 2]})]),
        case("bare words", "<start_function_call>call:f{a:red,b:true}<end_function_call>", None, [("f", {"a": "red", "b": True})]),
        broken("<start_function_call>call:f{a:<escape>5}<end_function_call>"),
        broken("<start_function_call>f{a:1}<end_function_call>"),
        broken('<start_function_call>call:f{a:{"x": 1, "x": 2}}<end_function_call>'),
        broken("<start_function_call>call:f{a:1 b:2}<end_function_call>"),
        broken("<start_function_call>call:f{a:red b:2,c:3}<end_function_call>"),
        case("a colon in a bare value", "<start_function_call>call:f{a:12:30,b:at 5 pm}<end_function_call>", None, [("f", {"a": "12:30", "b": "at 5 pm"})])],
    "gigachat3": [
        case("with content", "Look.<|message_sep|>\n\nfunction call<|role_sep|>\n" + obj(*PARIS), "Look.", [PARIS]),
        case("by token", "<|function_call|>" + obj(*PARIS), None, [PARIS]),
        case("an answer's end", "Hello.</s>", "Hello."), case("an answer's marks", "Hello.<|message_sep|>\n", "Hello."),
        case("end of a string inside", "A </s> in text.", "A </s> in text."),
        broken("function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": \"text\"}"),
        case("a newline in a string", "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}", None, [("f", {"a": "x\ny"})]),
        broken('function call<|role_sep|>\n{"name": "f", "arguments": {"a": 1}}, "b": 2}</s>'),
        broken('function call<|role_sep|>\n{"name": "f", "arguments": {"a": 1, "a": 2}}</s>')],
    "glm45": [
        case("text that looks like JSON", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>", None, [(WEATHER, {"city": "[1, 2]"})]),
        case("a Python literal", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>{'a': True, 'b': (1, 2)}</arg_value>\n</tool_call>", None, [("f", {"x": {"a": True, "b": [1, 2]}})]),
        case("neither", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>tomorrow, 5 pm</arg_value>\n</tool_call>", None, [("f", {"x": "tomorrow, 5 pm"})]),
        broken("<tool_call>f\n<arg_key>x</arg_key><arg_value>1</tool_call>"), broken("<tool_call>f</tool_call>"),
        case("text between", "<tool_call>add\nwith <arg_key>a</arg_key><arg_value>1</arg_value>,\n<arg_key>b</arg_key><arg_value>2</arg_value></tool_call>", None, [("add", {"a": 1, "b": 2})]),
        case("a tag in a value", "<tool_call>f\n<arg_key>x</arg_key><arg_value>a </tool_call> b</arg_value></tool_call>", None, [("f", {"x": "a </tool_call> b"})]),
        broken("<tool_call>f\n<arg_key>x</arg_key><arg_value>a </arg_value> b</arg_value></tool_call>"),
        broken("<tool_call>f\n<arg_key>x</arg_key><arg_value>1</arg_value><arg_key>x</arg_key><arg_value>2</arg_value></tool_call>"),
        case("the second is cut", "<tool_call>now\n</tool_call><tool_call>f\n<arg_key>x</arg_key><arg_value>1</arg_value>", "<tool_call>f\n<arg_key>x</arg_key><arg_value>1</arg_value>", [EMPTY]),
        broken('<tool_call>f\n{"a": 1}</tool_call>'),
        broken("<tool_call>f\n<argkey>a</argkey><argvalue>1</argvalue></tool_call>"),
        broken("<tool_call>f\na=1, b=2</tool_call>"),
        broken("<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value>, b: [2]</tool_call>"),
        broken("<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>\n<arg_key>b</arg_key><arg_value>2</arg_value></tool_call>"),
        case("text behind", "<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>\nSo, done.\n<b>", None, [("f", {"a": 1})]),
        broken('<tool_call>f\n<arg_key>a</arg_key><arg_value>{"x": 1, "x": 2}</arg_value></tool_call>'),
        broken("<tool_call>f\n<arg_key>a</arg_key><arg_value>{'x': 1, 'x': 2}</arg_value></tool_call>"),
        broken("<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_vaue>\n<arg_key>b</arg_key><arg_value>2</arg_value></tool_call>")],
    "glm47": [
        case("with newlines", glm("\n")([OSLO]), None, [OSLO]), case("no arguments, no newline", "<tool_call>now</tool_call>", None, [EMPTY]),
        broken("<tool_call><arg_key>x</arg_key><arg_value>1</arg_value></tool_call>"), broken("<tool_call>f<arg_key>x</arg_key>1</tool_call>"),
        broken('<tool_call>f{"a": 1}</tool_call>'),
        broken("<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call><arg_key>b</arg_key><arg_value>2</arg_value></tool_call>")],
    "granite": [
        case("3.1", "<tool_call>" + array()([PARIS]), None, [PARIS]), case("bare", " " + array()([PARIS, ADD]) + "\n", None, [PARIS, ADD]),
        broken("<|tool_call|>" + obj(*PARIS)), case("text behind", "<|tool_call|>" + array()([PARIS]) + " and more", None, [PARIS]),
        case("text before", "Well: <|tool_call|>" + array()([PARIS]), "Well: <|tool_call|>" + array()([PARIS])),
        broken('<|tool_call|>[{"name": "f", "arguments": {"a": 1}}, "b": 2}]'),
        broken('<|tool_call|>[{"name": "f", "arguments": {"a": 1, "a": 2}}]')],
    "granite-20b-fc": [
        case("text behind", "<function_call> " + obj(*PARIS) + " and so on", None, [PARIS]), broken("<function_call> {\"name\": \"f\"}"), broken("<function_call> no JSON"),
        broken('<function_call> {"name": "f", "arguments": {"a": 1}}, "b": 2}'),
        broken('<function_call> {"name": "f", "arguments": {"a": 1, "a": 2}}')],
    "hermes": [
        case("a tag inside a string", "<tool_call>" + dump({"name": "f", "arguments": {"t": "</tool_call>"}}) + "</tool_call>", None, [("f", {"t": "</tool_call>"})]),
        case("text behind", blocks("<tool_call>", "</tool_call>")([PARIS]) + "\nDone.", None, [PARIS]),
        case("long numbers", '<tool_call>{"name":"f","arguments":{"a":12345678901234567890,"b":1e400,"c":-0.10}}</tool_call>', None,
             [("f", '{"a": 12345678901234567890, "b": 1e400, "c": -0.10}')]),
        case("escapes", '<tool_call>{"name":"f","arguments":{"a":"\\u00e9\\ud83d\\ude00\\/\\u0001"}}</tool_call>', None, [("f", '{"a": "é😀/\\u0001"}')]),
        broken("<tool_call>{'name': 'f'}</tool_call>"),
        case("the second is none", "<tool_call>" + obj(*PARIS) + "</tool_call>\n<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>", [PARIS]),
        case("text between", "<tool_call>" + obj(*PARIS) + "</tool_call>, and <tool_call>" + obj(*ADD) + "</tool_call>", None, [PARIS, ADD]),
        broken('<tool_call>{"name": "add", "arguments": {"a": 1}, "b": 2}</tool_call>'), broken('<tool_call>{"name": "add", "b": 2, "arguments": {"a": 1}}</tool_call>'),
        case("members that nobody knows", '<tool_call>{"name": "add", "why": "x", "arguments": {"a": 1}, "c": 2}</tool_call>', None, [("add", {"a": 1})]),
        case("a mark between is damaged", "<tool_call>" + obj(*PARIS) + "</tool_call>\n<tool_cal>" + obj(*ADD) + "</tool_call>", "\n<tool_cal>" + obj(*ADD) + "</tool_call>", [PARIS]),
        case("the end tag between is missing", "<tool_call>" + obj(*PARIS) + "<tool_call>" + obj(*ADD) + "</tool_call>", "<tool_call>" + obj(*PARIS) + "<tool_call>" + obj(*ADD) + "</tool_call>"),
        case("arguments first", '<tool_call>{"arguments": {"a": [1, {"b": "}"}]}, "id": 5, "name": "f"}</tool_call>', None, [("f", {"a": [1, {"b": "}"}]})]),
        case("arguments that are no object", '<tool_call>{"name": "f", "arguments": 12}</tool_call><tool_call>{"name": "g", "arguments": "x"}</tool_call>', None, [("f", "12"), ("g", '"x"')]),
        broken('<tool_call>{"name": "f", "arguments": {}, "arguments": {"a": 1}}</tool_call>'), broken('<tool_call>{"name": "f", "arguments": {}, "parameters": {"a": 1}}</tool_call>'),
        broken('<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>'),
        broken("<tool_call>" + obj(*PARIS) + " rubbish</tool_call>"),
        case("the second is cut", "x<tool_call>" + obj(*PARIS) + "</tool_call><tool_call>{\"name\"", "x<tool_call>{\"name\"", [PARIS]),
        broken('<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>'),
        broken('<tool_call>{"name": "f", "arguments": {"ab": 1, "\\u0061b": 2}}</tool_call>'),
        broken('<tool_call>{"name": "f", "arguments": {"x": [{}, {"a": {}, "b": [], "a": 2}]}}</tool_call>'),
        broken('<tool_call>{"name": "f", "arguments": {"": 1, "": 2}}</tool_call>'),
        case("equal keys in other objects", '<tool_call>{"name": "f", "arguments": {"a": {"a": [{"a": 1}, {"a": "a", "b": {"a": 1}}]}, "b": "a"}}</tool_call>', None, [("f", {"a": {"a": [{"a": 1}, {"a": "a", "b": {"a": 1}}]}, "b": "a"})])],
    "hunyuan_a13b": [
        case("behind thoughts", "<think>I could use <tool_calls>[]</tool_calls></think>" + array("<tool_calls>", "</tool_calls>")([PARIS]), "<think>I could use <tool_calls>[]</tool_calls></think>", [PARIS]),
        case("only within thoughts", "<think>" + array("<tool_calls>", "</tool_calls>")([PARIS]) + "</think>no", "<think>" + array("<tool_calls>", "</tool_calls>")([PARIS]) + "</think>no"),
        case("the second array is good", "<tool_calls>x</tool_calls>" + array("<tool_calls>", "</tool_calls>")([PARIS]), "<tool_calls>x</tool_calls>", [PARIS]),
        broken("<tool_calls>[{\"name\": \"f\"}]</tool_calls>"),
        broken('<tool_calls>[{"name": "f", "arguments": {"a": 1}}, "b": 2}]</tool_calls>'),
        broken('<tool_calls>[{"name": "f", "arguments": {"a": 1, "a": 2}}]</tool_calls>')],
    "internlm": [
        case("arguments", "<|action_start|><|plugin|>" + obj(*PARIS) + "<|action_end|>", None, [PARIS]),
        case("neither", "<|action_start|><|plugin|>{\"name\": \"now\"}<|action_end|>", None, [EMPTY]),
        case("text behind", "<|action_start|><|plugin|>" + obj(*PARIS) + "<|action_end|> ok", None, [PARIS]),
        case("two", "<|action_start|><|plugin|>" + obj(*PARIS) + "<|action_end|><|action_start|><|plugin|>" + obj(*ADD) + "<|action_end|>", None, [PARIS, ADD]),
        broken('<|action_start|><|plugin|>{"name": "f", "arguments": {}, "parameters": {}}<|action_end|>'),
        broken("<|action_start|><|plugin|>{\"name\": 5}<|action_end|>"),
        broken('<|action_start|><|plugin|>{"name": "f", "args": {"a": 1}}<|action_end|>'),
        case("only an id", '<|action_start|><|plugin|>{"id": 1, "type": "function", "name": "now"}<|action_end|>', None, [EMPTY]),
        broken('<|action_start|><|plugin|>{"name": "f", "parameters": {"a": 1, "a": 2}}<|action_end|>')],
    "jamba": [case("a string, and the rest of an object", '<tool_calls>[{"name": "f", "arguments":": "}] x"}}]</tool_calls>', ' x"}}]</tool_calls>', [("f", '": "')]),
        case("a second array", "<tool_calls>[" + obj(*PARIS) + "]\n[" + obj(*ADD) + "]</tool_calls>", "\n[" + obj(*ADD) + "]</tool_calls>", [PARIS]),
        broken("<tool_calls>" + obj(*PARIS) + "</tool_calls>"), case("a comma too many", "<tool_calls>[" + obj(*PARIS) + ",]</tool_calls>", "]</tool_calls>", [PARIS]),
              case("no comma", "<tool_calls>[" + obj(*PARIS) + obj(*ADD) + "]</tool_calls>", obj(*ADD) + "]</tool_calls>", [PARIS]),
        broken('<tool_calls>[{"name": "f", "arguments": {"a": 1}}, "b": 2}]</tool_calls>'),
        broken('<tool_calls>[{"name": "f", "arguments": {"a": 1, "a": 2}}]</tool_calls>')],
    "kimi_k2": [
        broken(kimi([PARIS, ADD]).replace("<|tool_call_begin|>", "<|tool_call_begin>", 1)),
        case("no functions.", "<|tool_calls_section_begin|><|tool_call_begin|>f:7<|tool_call_argument_begin|>{}<|tool_call_end|>", None, [("f", {}, "f:7")]),
        case("the second is cut", kimi([PARIS, ADD]).rsplit("<|tool_call_end|>", 1)[0], '<|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{"a": 1, "b": -2}', [(*PARIS, "functions.get_weather:0")]),
        case("the second is cut early", kimi([PARIS, ADD]).rsplit("add", 1)[0], "<|tool_call_begin|>functions.", [(*PARIS, "functions.get_weather:0")]),
        case("a mark in a string", '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "<|tool_call_end|>"}<|tool_call_end|>', None, [("f", {"a": "<|tool_call_end|>"}, "functions.f:0")]),
        broken("<|tool_calls_section_begin|><|tool_call_begin|>functions.f<|tool_call_argument_begin|>{}<|tool_call_end|>"),
        broken("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{<|tool_call_end|>"),
        broken('<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1, "a": 2}<|tool_call_end|><|tool_calls_section_end|>')],
    "llama3_json": [
        case("bare", obj(*PARIS, "parameters"), None, [PARIS]), case("arguments", obj(*ADD), None, [ADD]),
        case("text around", "Here: " + obj(*PARIS, "parameters") + " That was it.", "Here: ", [PARIS]),
        broken('{"name": "f", "parameters": {}, "arguments": {}}'), broken('{"name": "f"}'), broken("a {brace}"), broken('{"city": "Paris"}'),
        broken('{"name": "f", "parameters": {"a": 1}}, "b": 2}'),
        broken('{"name": "f", "parameters": {"a": 1}}\n,\n"b": 2\n}'),
        case("two on lines", obj(*PARIS, "parameters") + "\n" + obj(*ADD, "parameters"), None, [PARIS, ADD]),
        broken('{"name": "f", "parameters": {"a": 1, "a": 2}}')],
    "llama4_pythonic": [
        case("bare", "[get_weather(city='Paris')]", None, [PARIS]), broken("<|python_start|>[f(1)]<|python_end|>"),
        broken("<|python_start|>print('x')<|python_end|>"),
        broken("<|python_start|>[f(a=1), b=2)]<|python_end|>")],
    "longcat": [broken("<longcat_tool_call>{\"name\": \"f\"}</longcat_tool_call>"),
        broken('<longcat_tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</longcat_tool_call>')],
    "minimax": [
        broken("<tool_calls>\n{\"name\": \"f\"\n" + obj(*PARIS) + "\n</tool_calls>"),
        case("the second line is broken", "<tool_calls>\n" + obj(*PARIS) + "\n{\"name\": \"f\"\n" + obj(*ADD) + "\n</tool_calls>", "{\"name\": \"f\"\n" + obj(*ADD) + "\n</tool_calls>", [PARIS]),
        case("a line is text", "<tool_calls>\nI call\n" + obj(*PARIS) + "\n</tool_calls>", None, [PARIS]),
        broken("<tool_calls>\n[" + obj(*PARIS) + "]\n</tool_calls>"),
        case("within thoughts", "<think>maybe <tool_calls>\n" + obj(*ADD) + "\n</tool_calls></think>\n\n<tool_calls>\n" + obj(*PARIS) + "\n</tool_calls>",
             "<think>maybe <tool_calls>\n" + obj(*ADD) + "\n</tool_calls></think>", [PARIS]),
        broken("<tool_calls>\nnothing\n</tool_calls>"),
        broken('<tool_calls>\n{"name": "f", "arguments": {"a": 1}}, "b": 2}\n</tool_calls>'),
        broken('<tool_calls>\n{"name": "f", "arguments": {"a": 1}}, "b": 2}\n{"name": "g", "arguments": {}}\n</tool_calls>'),
        broken('<tool_calls>\n{"name": "f", "arguments": {"a": 1, "a": 2}}\n</tool_calls>')],
    "minimax_m2": [
        broken('<minimax:tool_call><invoke name="f"><parameter name="a" type="integer">1</parameter></invoke></minimax:tool_call>'),
        case("no quotes", "<minimax:tool_call><invoke name=get_weather><parameter name=city>Paris</parameter></invoke></minimax:tool_call>", None, [PARIS]),
        case("newlines around a value", '<minimax:tool_call><invoke name="get_weather"><parameter name="days">\n3\n</parameter></invoke></minimax:tool_call>', None, [(WEATHER, {"days": 3})]),
        broken('<minimax:tool_call><invoke name="f"><parameter name="a">1</invoke></minimax:tool_call>'),
        case("text between", '<minimax:tool_call>So:<invoke name="add">first<parameter name="a">1</parameter>, <parameter name="b">2</parameter>.</invoke></minimax:tool_call>', '<minimax:tool_call>So:<invoke name="add">first<parameter name="a">1</parameter>, <parameter name="b">2</parameter>.</invoke></minimax:tool_call>'),
        case("text between parameters", '<minimax:tool_call><invoke name="add">first<parameter name="a">1</parameter>, <parameter name="b">2</parameter>.</invoke></minimax:tool_call>', None, [("add", {"a": 1, "b": 2})]),
        broken('<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter> x</parameter></invoke></minimax:tool_call>'), broken("<minimax:tool_call></minimax:tool_call>"),
        broken('<minimax:tool_call><invoke name="f">{"a": 1}</invoke></minimax:tool_call>'),
        broken('<minimax:tool_call><invoke name="f"><a>1</a></invoke></minimax:tool_call>'),
        broken('<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke>\n<parameter name="b">2</parameter></minimax:tool_call>'),
        broken('<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke>, "b": 2</minimax:tool_call>'),
        broken('<minimax:tool_call><invoke name="f"><parameter name="a">1</paramter><parameter name="b">2</parameter></invoke></minimax:tool_call>')],
    "mistral": [
        case("v11", '[TOOL_CALLS]get_weather{"city": "Paris"}', None, [PARIS]),
        case("v11, with [ARGS]", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]add[ARGS]{"a":1,"b":-2}', None, [PARIS, ADD]),
        case("v11, cut", 'x[TOOL_CALLS]get_weather{"city": "Par', 'x[TOOL_CALLS]get_weather{"city": "Par'),
        case("v11, the second is cut", 'x[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]add{"a": 1', 'x[TOOL_CALLS]add{"a": 1', [PARIS]),
        case("junk behind", array("[TOOL_CALLS]")([PARIS]) + " bye", None, [PARIS]),
        case("v13", '[TOOL_CALLS]get_weather[CALL_ID]abc123DEF[ARGS]{"city": "Paris"}', None, [(*PARIS, "abc123DEF")]), broken('[TOOL_CALLS]}[{"name": "f", "arguments": {}}]'),
        case("two arrays", array("[TOOL_CALLS]")([PARIS]) + array("[TOOL_CALLS]")([ADD]), None, [PARIS, ADD]), broken("[TOOL_CALLS]"), broken("[TOOL_CALLS]get_weather"),
        broken('[TOOL_CALLS]f{"a": 1}, "b": 2}'),
        broken('[TOOL_CALLS]{"name": "f", "arguments": {"a": 1}}, "b": 2}'),
        broken('[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, "b": 2}]'),
        case("v11, text behind", '[TOOL_CALLS]add{"a":1}\nDone.', None, [("add", {"a": 1})]),
        broken('[TOOL_CALLS][{"name": "f", "arguments": {"a": 1, "a": 2}}]'),
        broken('[TOOL_CALLS]f{"a": 1, "a": 2}')],
    "olmo3": [
        case("JSON's words", "<function_calls>f(a=true, b=null)\ng(c=[false, None])</function_calls>", None, [("f", {"a": True, "b": None}), ("g", {"c": [False, None]})]),
        broken("<function_calls>f(a=b)</function_calls>"), broken("<function_calls>\n</function_calls>"),
        broken("<function_calls>f(a=1), b=2)</function_calls>"),
        broken("<function_calls>f(a=1)\nb=2)</function_calls>")],
    "openai": [
        case("all channels", "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>", "Hello.", [], reasoning="Think."),
        case("a recipient first", 'to=functions.f<|channel|>commentary json<|message|>{"a":1}<|call|>', None, [("f", {"a": 1})]),
        case("announced", '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>', "I look.", [("f", {})]),
        case("announced, then final", '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>So.', "So."),
        case("thoughts, then a call", '<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x":"<|"}', None, [("f", {"x": "<|"})], reasoning="Hm"),
        case("broken arguments", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x"<|call|>', '{"x"'),
        case("a call that is cut", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": [1,', '{"x": [1,'),
        case("thoughts that are cut", "<|channel|>analysis<|message|>Hm, <|", None, [], reasoning="Hm, <|"),
        case("two thoughts", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B<|end|><|start|>assistant<|channel|>final<|message|>C", "C", [], reasoning="A\nB"),
        case("an argument twice", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1, "a": 2}<|call|>', '{"a": 1, "a": 2}'),
        case("a header that lacks its end", '<|channel|>commentary to=functions.f <|constrain|>json{"a":1}<|call|><|start|>assistant<|channel|>commentary to=functions.g<|message|>{"b":1}<|call|>',
             '<|channel|>commentary to=functions.f <|constrain|>json{"a":1}<|call|>', [("g", {"b": 1})]),
        case("... and the message's", '<|channel|>commentary to=functions.f {"a":1}<|channel|>commentary to=functions.g<|message|>{"b":1}', '<|channel|>commentary to=functions.f {"a":1}', [("g", {"b": 1})]),
        case("... of the last call", '<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.g {"a":1}<|call|>',
             '<|start|>assistant<|channel|>commentary to=functions.g {"a":1}<|call|>', [("f", {})]),
        case("a recipient that is damaged", 'Well.<|end|><|start|>assistant<|channel|>commentary t=functions.f <|constrain|>json<|message|>{"a":1}<|call|>', 'Well.\n{"a":1}'),
        case("a header that is cut", '<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>comm', None, [], reasoning="Hm"),
        case("no arguments at all", 'to=functions.f<|channel|>commentary<|message|><|call|>', 'to=functions.f<|channel|>commentary<|message|>'),
        case("white space as arguments", '<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.g<|message|> ', '<|start|>assistant<|channel|>commentary to=functions.g<|message|> ', [("f", {})])],
    "phi4_mini_json": [case("parameters", array("functools", key="parameters")([PARIS]), None, [PARIS]), broken("functools[{\"name\": \"f\"}]"),
                       case("text behind", array("functools")([ADD]) + "\n", None, [ADD]),
        broken('functools[{"name": "f", "arguments": {"a": 1}}, "b": 2}]'),
        broken('functools[{"name": "f", "arguments": {"a": 1, "a": 2}}]')],
    "pythonic": [
        case("literals", "[f(a=-1, b=+2.50, c=.5, d=1_000, e=1e3, g=None, h=(1, 'x'), i=('y'), j={1: 'a', 'k': [True]}, l='it''s', m=r'\\d', n=\"\"\"three\nlines\"\"\")]", None,
             [("f", '{"a": -1, "b": 2.50, "c": 0.5, "d": 1000, "e": 1e3, "g": null, "h": [1, "x"], "i": "y", "j": {"1": "a", "k": [true]}, "l": "its", "m": "\\\\d", "n": "three\\nlines"}')]),
        case("escapes", "[f(a='\\x41\\u00e9\\U0001F600\\t\\'\\q\\101')]", None, [("f", '{"a": "Aé😀\\t\'\\\\qA"}')]),
        case("an escape in two halves", "[f(a='\\ud83d\\ude00 \\U0001F600')]", None, [("f", {"a": "😀 😀"})]),
        case("white space", "\n [ f ( a = 1 , ) ,\n g() ] ", None, [("f", {"a": 1}), ("g", {})]),
        broken("[f(1)]"), broken("[f(a=b)]"), broken("[f(a=g())]"), broken("[1, 2]"), broken("[]"), case("text behind", "[f(a=1)] and text", None, [("f", {"a": 1})]), broken("[f(a=1, a=2)]"), broken("[see (1)]"),
        case("the second is broken", "[f(a='(\\')]'), g(b=x), h()]", "g(b=x), h()]", [("f", {"a": "(')]"})]), broken("[f(a={b: 1})]"), broken("[f(a=f'x')]"), broken("[f(a=1 + 2)]"),
        broken("[f(a=1), b=2)]"),
        broken("[f(a=1)), g()]"),
        case("a second list", "[f(a=1)]\n[g(b=2)]", "\n[g(b=2)]", [("f", {"a": 1})]),
        broken("[f(a={'x': 1, 'x': 2})]"),
        broken("[f(a=[{1: 1, '1': 2}])]")],
    "qwen3_coder": [
        broken('<tool_call><function=f><parameter=a type="integer">1</parameter></function></tool_call>'),
        case("references", "<tool_call><function=types><parameter=box>{'a': 1}</parameter><parameter=all>{\"b\": [2]}</parameter><parameter=maybe>7</parameter><parameter=five>5</parameter>"
             "<parameter=none>5</parameter><parameter=self>5</parameter></function></tool_call>", None, [("types", {"box": {"a": 1}, "all": {"b": [2]}, "maybe": 7, "five": 5, "none": "5", "self": "5"})]),
        case("digits that are a string's", "".join(f"<tool_call><function=types><parameter=code>{v}</parameter></function></tool_call>" for v in ("007", "+49", "-0", "42", "-7", "0", "1e3")), None,
             [("types", {"code": v}) for v in ("007", "+49", "-0", 42, -7, 0, "1e3")]),
        case("a key in quotes", '<tool_call><function="f"><parameter="a">1</parameter></function></tool_call>', None, [("f", {"a": "1"})]),
        case("no outer tags", "<function=add>\n<parameter=a>\n1\n</parameter>\n</function>", None, [("add", {"a": 1})]),
        case("an unclosed parameter", "<tool_call>\n<function=add>\n<parameter=a>\n1\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>", None, [("add", {"a": 1, "b": 2})]),
        broken("<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"), broken("<tool_call>\n<function=add>\n<parameter=a>\n1\n"), broken("<tool_call>\n<function=add>\n"),
        case("an unclosed function", "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</tool_call>", None, [("add", {"a": 1})]),
        case("text between parameters", "<tool_call><function=add><parameter=a>1</parameter>,<parameter=b>2</parameter></function></tool_call>", None, [("add", {"a": 1, "b": 2})]),
        case("text before the first", "<tool_call><function=add>with: <parameter=a>1</parameter> and\n<parameter=b>2</parameter>.\n</function></tool_call>", None, [("add", {"a": 1, "b": 2})]),
        case("the second is cut", "<tool_call><function=add><parameter=a>1</parameter></function></tool_call><tool_call><function=add><parameter=a>2</parameter>", "<tool_call><function=add><parameter=a>2</parameter>", [("add", {"a": 1})]),
        broken("<tool_call><function=add><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>"),
        broken("<tool_call><function=add><parameter a>1</parameter><parameter=b>2</parameter></function></tool_call>"),
        broken("<tool_call><function=f><parameter=a>print('</parameter>')</parameter></function></tool_call>"),
        broken("<tool_call><function=f><parameter=a>see <parameter=b> there</parameter></function></tool_call>"),
        broken("<tool_call><function=f><parameter=a\n<parameter=b>1</parameter></function></tool_call>"), broken("<tool_call><function=f><parameter=>1</parameter></function></tool_call>"),
        broken("<tool_call><function f></function></tool_call>"),
        case("tags in a value", "<tool_call>\n<function=get_weather>\n<parameter=city>\n<div></function> and </tool_call></div>\n</parameter>\n</function>\n</tool_call>", None, [(WEATHER, {"city": "<div></function> and </tool_call></div>"})]),
        case("null", "<tool_call>\n<function=get_weather>\n<parameter=city>\nnull\n</parameter>\n<parameter=note>\nnull\n</parameter>\n<parameter=either>\nnull\n</parameter>\n<parameter=days>null</parameter>\n</function>\n</tool_call>", None,
             [(WEATHER, {"city": "null", "note": None, "either": None, "days": None})]),
        case("types that don't fit", "<tool_call>\n<function=get_weather>\n<parameter=days>\nthree\n</parameter>\n<parameter=metric>\nmaybe\n</parameter>\n<parameter=factor>\n2.50\n</parameter>\n<parameter=where>\n{'a': 1}\n</parameter>\n<parameter=other>\n7\n</parameter>\n</function>\n</tool_call>", None,
             [(WEATHER, '{"days": "three", "metric": "maybe", "factor": 2.50, "where": {"a": 1}, "other": "7"}')]),
        case("newlines of its own", "<tool_call>\n<function=get_weather>\n<parameter=city>\n\na\n\n</parameter>\n</function>\n</tool_call>", None, [(WEATHER, {"city": "\na\n"})]),
        case("without tools", "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", None, [("add", {"a": "1"})], tools=False),
        broken("<tool_call>\nnothing\n</tool_call>"), broken("<tool_call>\n<function=>\n</function></tool_call>"),
        broken('<tool_call><function=f>{"a": 1, "b": 2}</function></tool_call>'),
        broken("<tool_call><function=f><param=a>1</param></function></tool_call>"),
        broken("<tool_call><function=f><Parameter=a>1</Parameter></function></tool_call>"),
        broken("<tool_call><function=f><arg_key>a</arg_key><arg_value>1</arg_value></function></tool_call>"),
        broken("<tool_call><function=f>a=1</function></tool_call>"),
        broken("<tool_call><function=f>[1]</function></tool_call>"),
        broken("<tool_call><function=f><parameter=a>1</parameter></function>, <parameter=b>2</parameter></tool_call>"),
        broken("<tool_call><function=f><parameter=a>1</parameter></function>\n<parameter=b>2</parameter></function></tool_call>"),
        broken("<function=f><parameter=a>1</parameter></function>, <parameter=b>2</parameter></function>"),
        broken("<tool_call><function=f><parameter=a>1</parameter> b=2</function></tool_call>"),
        case("text behind without outer tags", "<function=add><parameter=a>1</parameter></function> So.\n<b>", None, [("add", {"a": 1})]),
        broken('<tool_call><function=get_weather><parameter=where>{"x": 1, "x": 2}</parameter></function></tool_call>')],
    "seed_oss": [broken('<seed:tool_call><function=f><parameter=a type="integer">1</parameter></function></seed:tool_call>'),
                 case("text between parameters", "<seed:tool_call><function=add>a <parameter=a>1</parameter>,<parameter=b>2</parameter></function></seed:tool_call>", None, [("add", {"a": 1, "b": 2})]),
                 case("two in one", "<seed:tool_call><function=add><parameter=a>1</parameter></function>\n<function=now></function></seed:tool_call>", None, [("add", {"a": 1}), EMPTY]),
                 broken("<seed:tool_call>nothing</seed:tool_call>"),
                 case("a function alone is text", "<function=add>", "<function=add>"),
        broken('<seed:tool_call><function=f>{"a": 1}</function></seed:tool_call>'),
        broken("<seed:tool_call><function=f><parameter=a>1</parameter></function>\n<parameter=b>2</parameter></seed:tool_call>")],
    "step3": [broken('<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="a" required="true">1</steptml:parameter></steptml:invoke><｜tool_call_end｜>'),
              broken("<｜tool_calls_begin｜><｜tool_call_begin｜>function<steptml:invoke name=\"f\"></steptml:invoke><｜tool_call_end｜>"), broken("<｜tool_calls_begin｜><｜tool_calls_end｜>"),
        broken('<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><parameter name="a">1</parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>'),
        broken('<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="a">1</steptml:parameter></steptml:invoke><steptml:parameter name="b">2</steptml:parameter><｜tool_call_end｜><｜tool_calls_end｜>')],
    "xlam": [
        case("fenced", "I call:\n```json\n" + array()([PARIS]) + "\n```\nThat's it.", "I call:That's it.", [PARIS]),
        case("a mark", "[TOOL_CALLS]" + array()([PARIS, ADD]) + "\nmore", "more", [PARIS, ADD]),
        case("tags", "x <tool_call>" + array()([PARIS]) + "</tool_call>", "x", [PARIS]),
        case("behind thoughts", "<think>Hm [x]</think>\n" + array()([PARIS]), "<think>Hm [x]</think>", [PARIS]),
        case("a text's code", "See:\n```python\nprint([1])\n```\n", "See:\n```python\nprint([1])\n```\n"),
        case("arguments as text", '[{"name": "f", "arguments": "{\\"a\\":1}"}]', None, [("f", '{"a":1}')]), broken('[{"name": "f", "arguments": "{\\"a\\": "}]'),
        broken(obj(*PARIS)), broken("[{\"name\": \"f\"}]"), broken("[]"),
        broken('[{"name": "f", "arguments": {"a": 1}}, "b": 2}]'),
        broken('[{"name": "f", "arguments": {"a": 1, "a": 2}}]'),
        broken('[{"name": "f", "arguments": "{\\"a\\": 1, \\"a\\": 2}"}]')],
}


# ---- reasoning ----

def r(name, text, reasoning, content, **more):
    return {"name": name, "text": text, "reasoning": reasoning, "content": content, **more}


def tagged(start="<think>", end="</think>"):
    """The rule."""
    return [
        r("both", f"{start}I think.{end}Hello.", "I think.", "Hello."), r("only the end", f"I think.{end}Hello.", "I think.", "Hello."),
        r("no end", f"{start}I think", "I think", None), r("no tag", "I think", "I think", None),
        r("nothing behind", f"{start}I think.{end}", "I think.", None), r("nothing before", f"{start}{end}Hello.", None, "Hello."),
        r("newlines", f"{start}\nI\nthink.\n{end}\n\nHello.\n", "\nI\nthink.\n", "\n\nHello.\n"), r("unicode", f"{start}Grüße 😀{end}東京", "Grüße 😀", "東京"),
        r("a second end", f"{start}a{end}b{end}c", "a", f"b{end}c"), r("a tag's beginning", f"{start}a {end[:4]} b{end}c {start[:3]}", f"a {end[:4]} b", f"c {start[:3]}"),
        r("a tag's beginning at the end", f"a {end[:4]}", f"a {end[:4]}", None), r("nothing", "", None, None), r("white space first", f" \n{start}a{end}b", "a", "b"),
        r("the prompt opened it", f"a{end}b", "a", "b", at="open"), r("the prompt closed it", "Hello.", None, "Hello.", at="closed")]


def switch(name):
    return [r("turned off", "Hello.", None, "Hello.", kwargs={name: False}), r("turned off, tags are text", "a</think>b", None, "a</think>b", kwargs={name: False}),
            r("turned on", "a</think>b", "a", "b", kwargs={name: True})]


def identity(text):
    return r("content: " + text[:20], text, None, text)


GRANITE = "Here is my thought process:"
GRANITE2 = "Here's my thought process:"
HARMONY = "<|channel|>analysis<|message|>"
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
REASONING = {
    "deepseek_r1": tagged(),
    "deepseek_v3": [dict(c, kwargs={"thinking": True}) for c in tagged()] + [identity("Hello."), identity("<think>a</think>b"), r("enable_thinking", "a</think>b", "a", "b", kwargs={"enable_thinking": True}),
                    r("off", "a</think>b", None, "a</think>b", kwargs={"thinking": False})],
    "ernie45": [c for c in tagged() if c["name"] not in ("newlines",)] + [
        r("response", "<think>a</think>\n\n<response>\nb\n</response>\n", "a", "b"), r("blank lines", "a\n</think>\n\n\nb\nc", "a\n", "b\nc"),
        r("response inside", "a</think><response>b</response> and c", "a", "b</response> and c"), r("response without its end", "a</think>\n<response>\nb", "a", "b"),
        r("only blank lines", "a</think>\n\n", "a", None)],
    "glm45": tagged() + switch("enable_thinking"),
    "granite": [
        r("both", GRANITE + "I think.\nHere is my response:Hello.", "I think.\n", "Hello."), r("short forms", GRANITE2 + " a Here's my response: b", " a ", " b"),
        r("mixed", GRANITE + "a Here's my response:b", "a ", "b"), identity("Hello."), r("no response", GRANITE + "I think", "I think", None), r("the response's beginning", GRANITE + "a Here is my resp", "a Here is my resp", None),
        r("no thoughts", "Here is my response:x", None, "Here is my response:x"), r("cut", "Here is my th", None, "Here is my th"), r("nothing", "", None, None),
        r("white space first", "\n" + GRANITE + "a Here is my response:b", "a ", "b"), r("unicode", GRANITE + "ü😀Here is my response:東", "ü😀", "東"),
        r("the phrase again", GRANITE + "aHere is my response:bHere is my response:c", "a", "bHere is my response:c")],
    "holo2": tagged() + switch("thinking"),
    "hunyuan_a13b": [
        r("all", "<think>\nI think.\n</think>\n<answer>\nHello.\n</answer>", "I think.", "Hello."), r("empty thoughts", "<think>\n\n</think>\n<answer>\nHello.\n</answer>", None, "Hello."),
        r("no answer tags", "<think>\na\n</think>\nb", "a", "b"), r("no end of the answer", "<think>\na\n</think>\n<answer>\nb", "a", "b"), identity("Hello."),
        r("cut", "<think>\na", "a", None), r("the answer's end is text", "<think>\na\n</think>\n<answer>\nb</answer> c\n</answer>\n", "a", "b</answer> c"),
        r("lines", "<think>\na\n\nb\n</think>\n<answer>\nc\n\nd\n</answer>", "a\n\nb", "c\n\nd"), r("nothing", "", None, None), r("unicode", "<think>\n思考\n</think>\n<answer>\n東\n</answer>", "思考", "東")],
    "identity": [identity("Hello."), identity("<think>a</think>b"), identity("a</think>b"), identity("<think>"), r("nothing", "", None, None), identity("ü😀"), identity("\n\n"), identity("[THINK]x[/THINK]")],
    "kimi_k2": tagged() + switch("thinking") + [
        r("a tool section in thoughts", "<think>I could <|tool_calls_section_begin|>x.</think>b", "I could <|tool_calls_section_begin|>x.", "b"),
        r("a tool section", "<think>I call.<|tool_calls_section_begin|>x", "I call.", "<|tool_calls_section_begin|>x"), r("behind the end", "a</think><|tool_calls_section_begin|>x", "a", "<|tool_calls_section_begin|>x")],
    "minimax_m2": tagged(),
    "minimax_m2_append_think": [r(c["name"], c["text"], None, "<think>" + c["text"] if c["text"] else None) for c in tagged() if "at" not in c],
    "mistral": [
        r("both", "[THINK]I think.[/THINK]Hello.", "I think.", "Hello."), identity("Hello."), identity("a[/THINK]b"), r("no end", "[THINK]I think", "I think", None),
        r("text before", "Well. [THINK]a[/THINK]b", "a", "Well. b"), r("a tag's beginning", "[THI a [THINK]b[/TH c[/THINK]d [THI", "b[/TH c", "[THI a d [THI"), r("nothing", "", None, None),
        r("unicode", "[THINK]ü[/THINK]😀", "ü", "😀"), r("the prompt opened it", "a[/THINK]b", "a", "b", at="open")],
    "olmo3": tagged(),
    "openai_gptoss": [
        r("both", HARMONY + "I think." + FINAL + "Hello.", "I think.", "Hello."), r("with its end", HARMONY + "a" + FINAL + "b<|return|>", "a", "b"), r("no thoughts", "<|channel|>final<|message|>b", None, "b"),
        r("cut", HARMONY + "I think", "I think", None), r("plain text", "Hello.", None, "Hello."), r("nothing", "", None, None), r("a call", HARMONY + "a<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", "a", None),
        r("marks' beginnings", HARMONY + "a <|en b" + FINAL + "c <|ret", "a <|en b", "c <|ret"), r("unicode", HARMONY + "ü" + FINAL + "😀", "ü", "😀"), r("a cut header", HARMONY + "a<|end|><|start|>assistant<|chan", "a", None)],
    "qwen3": tagged() + [
        r("turned off", "Hello.", None, "Hello.", kwargs={"enable_thinking": False}), r("turned off, with tags", "<think>\n\n</think>\n\nHello.", "\n\n", "\n\nHello.", kwargs={"enable_thinking": False}),
        r("turned off, with an end", "a</think>b", "a", "b", kwargs={"enable_thinking": False}), r("turned off, and closed", "a</think>b", None, "a</think>b", kwargs={"enable_thinking": False}, at="closed"),
        r("a tool call", "I call.<tool_call>\n{}", "I call.", "<tool_call>\n{}"), r("a tool call in thoughts", "I could <tool_call>{}</tool_call>.</think>b", "I could <tool_call>{}</tool_call>.", "b")],
    "seed_oss": tagged("<seed:think>", "</seed:think>"),
    "step3": tagged(),
}


def write(name, kind, parsers, cases):
    names = [c["name"] for c in cases]
    assert len(cases) >= 8, (name, len(cases))
    with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
        head = {"kind": kind, "parsers": parsers, **({"tools": TOOLS} if kind == "tools" else {}), "cases": []}
        f.write(dump(head)[:-2] + "\n" + ",\n".join(dump(c) for c in cases) + "\n]}\n")
    return len(names)


def main():
    n = sum(write(name, "tools", [name] + ([ALIASES[name]] if name in ALIASES else []), table(name, f) + MORE[name]) for name, f in FORMATS.items())
    m = sum(write("reason_" + name, "reasoning", [name], cases) for name, cases in REASONING.items())
    print(f"{len(FORMATS)} formats of tool calls with {n} cases, {len(REASONING)} of reasoning with {m}")


if __name__ == "__main__":
    main()
