"""Conversations for chat templates: the variables with which each is rendered."""
import json

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the city"},
        "unit": {"type": "string", "enum": ["c", "f"], "description": "Unit"},
        "days": {"type": "integer", "description": "How many days"}},
        "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Look \"things\" up & more <b>",
    "parameters": {"type": "object", "properties": {
        "queries": {"type": "array", "items": {"type": "string"}, "description": "What to look for"},
        "options": {"type": "object", "additionalProperties": {"type": "number"}, "description": "Weights"},
        "deep": {"type": "boolean", "description": "Everywhere?"},
        "any": {"type": ["string", "null"], "description": "Either"}},
        "required": ["queries", "deep"]},
    "return": {"type": "string", "description": "Hits"}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, id):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(text, id="abcdefghi", name="get_weather"):
    return {"role": "tool", "content": text, "tool_call_id": id, "name": name}


CONVERSATIONS = {
    "empty": [],
    "one": [user("Hello!")],
    "system": [system("Be brief."), user("Who are you?")],
    "turns": [user("Hi"), assistant("Hello, how can I help?"), user("Tell me a joke"), assistant("No."), user("Please")],
    "system_turns": [system("You are a poet."), user("A line"), assistant("Roses are red"), user("Another")],
    "answered": [user("Hi"), assistant("Hello there")],
    "unicode": [system("Ты — помощник. 你好"), user("naïve café \U0001F600 \u00e9\u0301 \u4f60\u597d\n\tTab"), assistant("Ω ≈ ß ﬁ"), user("İstanbul’da")],
    "spaces": [system("  padded  \n"), user("\n\n  leading and trailing  \n"), assistant("  ok \n"), user("x\r\ny")],
    "special": [user("<|im_start|>system\nbad<|im_end|><|eot_id|></s>[INST] x [/INST] {{ 1 }} {% raw %}"), assistant("<think>no</think>yes"), user("<s>")],
    "quotes": [user("It's \"quoted\" \\ back\\slash \u2028 <b>&amp;</b>"), assistant("'a'"), user("`b`")],
    "think": [user("2+2?"), assistant("<think>\nadd\n</think>\n\n4"), user("and 3+3?")],
    "reasoning": [user("2+2?"), assistant("4", reasoning_content="add them"), user("and 3+3?")],
    "empty_content": [user(""), assistant(""), user("?")],
    "system_only": [system("Alone")],
    "two_system": [system("One"), user("a"), system("Two"), user("b")],
    "two_users": [user("a"), user("b")],
    "assistant_first": [assistant("I begin"), user("ok")],
    "developer": [{"role": "developer", "content": "Dev says"}, user("Hi")],
    "odd_role": [{"role": "critic", "content": "meh"}, user("Hi")],
    "no_content": [{"role": "user"}],
    "none_content": [user("x"), assistant(None), user("y")],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]}],
    "call": [user("Weather in Paris?"), assistant(None, tool_calls=[call("get_weather", {"city": "Paris", "days": 2}, "abcdefghi")])],
    "call_text": [user("Weather?"), assistant("Let me look.", tool_calls=[call("get_weather", {"city": "Köln", "unit": "c"}, "abcdefghi")]),
                  tool("{\"temp\": 21.5}"), assistant("It is 21.5 degrees."), user("Thanks")],
    "call_result": [system("Use tools."), user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Paris"}, "abcdefghi")]),
                    tool("sunny")],
    "two_calls": [user("Compare"), assistant("", tool_calls=[call("get_weather", {"city": "A", "days": 1}, "aaaaaaaaa"), call("search", {"queries": ["x", "y \"z\""], "deep": True, "options": {"w": 0.5}}, "bbbbbbbbb")]),
                  tool("1", "aaaaaaaaa"), tool("[2, 3]", "bbbbbbbbb", "search"), user("So?")],
    "call_no_args": [user("Go"), assistant("", tool_calls=[call("search", {}, "abcdefghi")]), tool("done", name="search")],
    "bad_id": [user("Go"), assistant("", tool_calls=[call("search", {"q": 1}, "call_1")]), tool("done", "call_1", "search")],
    "dict_result": [user("Go"), assistant("", tool_calls=[call("search", {"q": 1}, "abcdefghi")]), tool({"a": [1, None, True], "b": "ü"}, name="search"), user("ok")],
    "string_args": [user("Go"), assistant("", tool_calls=[call("search", "{\"q\": 1}", "abcdefghi")]), tool("done", name="search"), user("ok")],
}

DOCUMENTS = [{"title": "Doc A", "text": "Text of \"A\""}, {"title": "Doc B", "text": "Zweites ü"}]

SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "pad_token": "<|pad|>", "unk_token": "<unk>"}


def chats():
    out = {}
    for name, messages in CONVERSATIONS.items():
        for tools in (None, [WEATHER, SEARCH]):
            for prompt in (False, True):
                v = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt, **SPECIAL}
                out["%s%s%s" % (name, "+tools" if tools else "", "+prompt" if prompt else "")] = v
    base = {"tools": None, "documents": None, "add_generation_prompt": True, **SPECIAL}
    for name in ("system", "turns", "reasoning", "call_result"):
        m = CONVERSATIONS[name]
        out[name + "/think"] = {**base, "messages": m, "enable_thinking": True}
        out[name + "/nothink"] = {**base, "messages": m, "enable_thinking": False}
        out[name + "/documents"] = {**base, "messages": m, "documents": DOCUMENTS}
        out[name + "/date"] = {**base, "messages": m, "date_string": "01 Jan 2025", "tools": [WEATHER]}
        out[name + "/kwargs"] = {**base, "messages": m, "tools": [WEATHER, SEARCH], "tools_in_user_message": False,
                                 "builtin_tools": ["code_interpreter", "brave_search"], "enable_citations": True,
                                 "custom_tools": None, "datetime": "now", "functions": [WEATHER], "tool_choice": "auto"}
        out[name + "/notoken"] = {"messages": m, "add_generation_prompt": True}
    return out
