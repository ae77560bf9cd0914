#!/usr/bin/env python3
"""The Python packages `openai` and `anthropic` against the HTTP server.

    http_clients.py BASE_URL KEY BAD_MODEL TOOL_MODEL THINKING_MODEL

BAD_MODEL: one that KEY's role may not use.  TOOL_MODEL: one with the tool parser hermes whose template takes
tools.  THINKING_MODEL: one with a reasoning parser, which may think and never answer.  Prints `ok NAME` or `not ok NAME: why` for each case; exit status 77 without a case if a client is not installed.  tests/t/083_http_clients.pl runs it.
"""
import asyncio
import json
import sys
import traceback

try:
    import anthropic
    import openai
    import pydantic
except ImportError as e:
    print(e)
    sys.exit(77)

BASE, KEY, BAD_MODEL, TOOL_MODEL, THINKING_MODEL = sys.argv[1:6]
MODEL = "tickets-2m"
oa = openai.OpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0, timeout=60)
an = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0, timeout=60)
USER = [{"role": "user", "content": "My parcel never arrived and nobody answers my mails."}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["city", "days"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": SCHEMA}}

# a model that calls tools would write this; a small one has to be held to it
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}</tool_call>'
SAYS = {"structured_outputs": {"choice": ["Let me see." + CALL]}}


class Trip(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    city: str = pydantic.Field(max_length=12)
    days: int = pydantic.Field(ge=1, le=9)


cases = []


# of one event loop
def async_openai():
    return openai.AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0, timeout=60)


def case(f):
    cases.append(f)
    return f


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def refused(kind, status, call, says=""):
    """call() must raise the client's exception of that kind."""
    try:
        call()
    except kind as e:
        same(e.status_code, status)
        assert says in str(e), str(e)
        return e
    raise AssertionError(f"no {kind.__name__}")


def chat(**more):
    return oa.chat.completions.create(**{"model": MODEL, "messages": USER, "max_tokens": 12, "temperature": 0, **more})


# ---- openai ----

@case
def openai_models():
    same(sorted(m.id for m in oa.models.list()), sorted([MODEL, TOOL_MODEL, THINKING_MODEL]))
    same(oa.models.retrieve(MODEL).id, MODEL)


@case
def openai_chat():
    r = chat()
    c = r.choices[0]
    same((r.object, r.model, c.index, c.message.role), ("chat.completion", MODEL, 0, "assistant"))
    assert c.message.content and c.finish_reason in ("stop", "length"), c
    same(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens)


@case
def openai_chat_stream():
    whole = chat()
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
    same(chunks[0].choices[0].delta.role, "assistant")
    same([c.choices[0].finish_reason for c in chunks if c.choices][-1], whole.choices[0].finish_reason)
    same(chunks[-1].choices, [])
    same(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
    same(len({c.id for c in chunks}), 1)


@case
def openai_chat_stream_left():
    # closed in the middle: the next request is answered as ever
    with chat(stream=True, max_tokens=500, extra_body={"ignore_eos": True}) as s:
        next(iter(s))
    assert chat().choices[0].message.content


@case
def openai_chat_many():
    async def run():
        client = async_openai()
        return await asyncio.gather(*[client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": f"Order {i} is late"}], max_tokens=8, temperature=0.8, seed=i) for i in range(40)])
    texts = [r.choices[0].message.content for r in asyncio.run(run())]
    for i in (0, 17, 39):
        same(chat(messages=[{"role": "user", "content": f"Order {i} is late"}], max_tokens=8, temperature=0.8, seed=i).choices[0].message.content, texts[i])


@case
def openai_chat_n_logprobs():
    r = chat(n=3, temperature=1, seed=5, logprobs=True, top_logprobs=2)
    same([c.index for c in r.choices], [0, 1, 2])
    t = r.choices[0].logprobs.content[0]
    assert t.logprob <= 0 and len(t.top_logprobs) == 2 and bytes(t.bytes).decode() == t.token, t


@case
def openai_chat_schema():
    r = chat(max_tokens=60, temperature=1, seed=1, response_format={"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}})
    v = json.loads(r.choices[0].message.content)
    assert set(v) == {"city", "days"} and 1 <= v["days"] <= 9, v


@case
def openai_parse():
    r = oa.chat.completions.parse(model=MODEL, messages=USER, max_tokens=60, temperature=1, seed=1, response_format=Trip)
    trip = r.choices[0].message.parsed
    assert isinstance(trip, Trip) and 1 <= trip.days <= 9, r
    with oa.chat.completions.stream(model=MODEL, messages=USER, max_tokens=60, temperature=1, seed=1, response_format=Trip) as s:
        for _ in s:
            pass
        same(s.get_final_completion().choices[0].message.parsed, trip)


@case
def openai_async():
    async def run():
        client = async_openai()
        whole = await client.chat.completions.create(model=MODEL, messages=USER, max_tokens=12, temperature=0)
        text = ""
        async for c in await client.chat.completions.create(model=MODEL, messages=USER, max_tokens=12, temperature=0, stream=True):
            text += c.choices[0].delta.content or ""
        return whole.choices[0].message.content, text
    same(*asyncio.run(run()))


def tool_chat(**more):
    return oa.chat.completions.create(**{"model": TOOL_MODEL, "messages": USER, "max_tokens": 120, "tools": [TOOL], **more})


@case
def openai_tools_named():
    r = tool_chat(tool_choice={"type": "function", "function": {"name": "get_weather"}})
    call = r.choices[0].message.tool_calls[0]
    same((call.type, call.function.name, r.choices[0].finish_reason), ("function", "get_weather", "stop"))
    v = json.loads(call.function.arguments)
    assert 1 <= v["days"] <= 9, v
    # and its answer goes back
    again = tool_chat(messages=USER + [r.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}], tool_choice="none")
    assert isinstance(again.choices[0].message.content, str)


@case
def openai_tools_required():
    r = tool_chat(tool_choice="required", parallel_tool_calls=False, temperature=1, seed=4)
    same(r.choices[0].finish_reason, "tool_calls")
    same(r.choices[0].message.content, None)
    whole = [(c.function.name, json.loads(c.function.arguments)) for c in r.choices[0].message.tool_calls]
    same([name for name, _ in whole], ["get_weather"])
    name, arguments, ids = "", "", set()
    for c in tool_chat(tool_choice="required", parallel_tool_calls=False, temperature=1, seed=4, stream=True):
        for t in (c.choices[0].delta.tool_calls or []) if c.choices else []:
            name += t.function.name or ""
            arguments += t.function.arguments or ""
            ids |= {t.id} if t.id else set()
    same([(name, json.loads(arguments))], whole)
    same(len(ids), 1)


@case
def openai_tools_auto():
    r = tool_chat(extra_body=SAYS)
    m = r.choices[0].message
    same((r.choices[0].finish_reason, m.content), ("tool_calls", "Let me see."))
    same([(c.function.name, json.loads(c.function.arguments)) for c in m.tool_calls], [("get_weather", {"city": "Rome", "days": 2})])
    with oa.chat.completions.stream(model=TOOL_MODEL, messages=USER, max_tokens=120, tools=[{**TOOL, "function": {**TOOL["function"], "strict": True}}], extra_body=SAYS) as s:
        kinds = {e.type for e in s}
        final = s.get_final_completion().choices[0]
    assert {"content.delta", "tool_calls.function.arguments.done"} <= kinds, kinds
    same((final.finish_reason, final.message.content), ("tool_calls", "Let me see."))
    same(final.message.tool_calls[0].function.parsed_arguments, {"city": "Rome", "days": 2})


@case
def openai_reasoning():
    r = chat(model=THINKING_MODEL).choices[0].message
    assert r.reasoning, r
    same("".join(getattr(c.choices[0].delta, "reasoning", None) or "" for c in chat(model=THINKING_MODEL, stream=True)), r.reasoning)


@case
def openai_thinking_budget():
    r = chat(model=THINKING_MODEL, max_tokens=30, extra_body={"thinking_token_budget": 4, "structured_outputs": {"choice": ["yes"]}})
    m = r.choices[0].message
    assert m.reasoning and r.usage.completion_tokens_details.reasoning_tokens <= 4, r
    same(m.content, "yes")


@case
def openai_completions():
    r = oa.completions.create(model=MODEL, prompt=["Ticket: late.\nSentiment:", "Ticket: broken.\nSentiment:"], max_tokens=5, temperature=0)
    same([c.index for c in r.choices], [0, 1])
    r = oa.completions.create(model=MODEL, prompt="Ticket: late.\nSentiment:", max_tokens=5, temperature=0, echo=True)
    assert r.choices[0].text.startswith("Ticket: late.\nSentiment:"), r.choices[0].text
    s = oa.completions.create(model=MODEL, prompt="Ticket: late.\nSentiment:", max_tokens=5, temperature=0, stream=True)
    same("Ticket: late.\nSentiment:" + "".join(c.choices[0].text for c in s if c.choices), r.choices[0].text)


@case
def openai_embeddings():
    texts = ["a parcel", "a kettle"]
    # the client asks for base64 unless told otherwise
    packed = oa.embeddings.create(model=MODEL, input=texts)
    plain = oa.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    for a, b in zip(packed.data, plain.data):
        same(len(a.embedding), len(b.embedding))
        assert max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6
    same([d.index for d in plain.data], [0, 1])


@case
def openai_errors():
    e = refused(openai.NotFoundError, 404, lambda: chat(model="none"), "none")
    same(e.body["type"], "NotFoundError")
    refused(openai.BadRequestError, 400, lambda: chat(temperature=7), "temperature")
    refused(openai.BadRequestError, 400, lambda: chat(messages=[]))
    refused(openai.BadRequestError, 400, lambda: chat(max_tokens=10**6))
    refused(openai.PermissionDeniedError, 403, lambda: chat(model=BAD_MODEL), "permission denied")
    refused(openai.NotFoundError, 404, lambda: chat(model="none", stream=True))
    bad = openai.OpenAI(base_url=BASE + "/v1", api_key="sk-wrong", max_retries=0)
    refused(openai.AuthenticationError, 401, lambda: bad.models.list())


@case
def openai_responses():
    r = oa.responses.create(model=MODEL, input="My parcel never arrived.", max_output_tokens=8, temperature=0)
    assert r.output_text and r.status in ("completed", "incomplete"), r
    events = list(oa.responses.create(model=MODEL, input="My parcel never arrived.", max_output_tokens=8, temperature=0, stream=True))
    same(events[0].type, "response.created")
    same("".join(e.delta for e in events if e.type == "response.output_text.delta"), r.output_text)
    same(oa.responses.retrieve(r.id).output_text, r.output_text)
    same(oa.responses.create(model=MODEL, input="Category:", previous_response_id=r.id, max_output_tokens=8).previous_response_id, r.id)
    refused(openai.NotFoundError, 404, lambda: oa.responses.retrieve("resp_none"))


@case
def openai_responses_parse():
    r = oa.responses.parse(model=MODEL, input="My parcel never arrived.", max_output_tokens=60, text_format=Trip)
    assert 1 <= r.output_parsed.days <= 9, r


@case
def openai_responses_tools():
    tool = {"type": "function", **TOOL["function"], "strict": True}
    ask = dict(model=TOOL_MODEL, input="The weather in Rome?", tools=[tool], max_output_tokens=120, extra_body=SAYS)
    r = oa.responses.create(**ask)
    same([o.type for o in r.output], ["message", "function_call"])
    same((r.output[1].name, json.loads(r.output[1].arguments)), ("get_weather", {"city": "Rome", "days": 2}))
    with oa.responses.stream(**ask) as s:
        for _ in s:
            pass
        same([o.type for o in s.get_final_response().output], ["message", "function_call"])
    again = oa.responses.create(model=TOOL_MODEL, previous_response_id=r.id, max_output_tokens=5,
                                input=[{"type": "function_call_output", "call_id": r.output[1].call_id, "output": "sunny"}])
    assert again.output, again


# ---- anthropic ----

def message(**more):
    # the newest client has no argument for the temperature
    return {"model": MODEL, "messages": USER, "max_tokens": 12, "extra_body": {"temperature": 0}, **more}


@case
def anthropic_messages():
    r = an.messages.create(**message())
    same((r.type, r.role, r.content[0].type), ("message", "assistant", "text"))
    assert r.content[0].text and r.stop_reason in ("end_turn", "max_tokens"), r
    same(r.content[0].text, chat().choices[0].message.content)
    assert r.usage.input_tokens > 0 and r.usage.output_tokens > 0
    assert an.messages.create(**message(system="What is the sentiment?")).content[0].text


@case
def anthropic_stream():
    whole = an.messages.create(**message())
    with an.messages.stream(**message()) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    same(text, whole.content[0].text)
    same((final.stop_reason, final.usage.output_tokens), (whole.stop_reason, whole.usage.output_tokens))


@case
def anthropic_async():
    async def run():
        client = anthropic.AsyncAnthropic(base_url=BASE, auth_token=KEY, max_retries=0, timeout=60)
        whole = await client.messages.create(**message())
        async with client.messages.stream(**message()) as s:
            text = "".join([t async for t in s.text_stream])
        return whole.content[0].text, text
    same(*asyncio.run(run()))


TOOL_USE = {"name": "get_weather", "description": "The weather of a city", "input_schema": SCHEMA}


@case
def anthropic_tools():
    ask = message(model=TOOL_MODEL, max_tokens=200, tools=[TOOL_USE])
    for choice in ({"type": "tool", "name": "get_weather"}, {"type": "any", "disable_parallel_tool_use": True}):
        r = an.messages.create(**ask, tool_choice=choice)
        use = [b for b in r.content if b.type == "tool_use"][0]
        same((use.name, r.stop_reason), ("get_weather", "tool_use"))
        assert 1 <= use.input["days"] <= 9, use
    again = an.messages.create(**{**ask, "max_tokens": 8, "tool_choice": {"type": "none"}, "messages": USER + [
        {"role": "assistant", "content": r.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}]})
    assert again.content, again


@case
def anthropic_tools_stream():
    with an.messages.stream(**message(model=TOOL_MODEL, max_tokens=120, tools=[TOOL_USE], extra_body=SAYS)) as s:
        kinds = [e.type for e in s]
        final = s.get_final_message()
    same([b.type for b in final.content], ["text", "tool_use"])
    same((final.content[0].text, final.content[1].input), ("Let me see.", {"city": "Rome", "days": 2}))
    same((final.stop_reason, kinds[0], kinds[-1]), ("tool_use", "message_start", "message_stop"))
    assert "input_json" in kinds, kinds


@case
def anthropic_thinking():
    whole = an.messages.create(**message(model=THINKING_MODEL)).content[0]
    same(whole.type, "thinking")
    with an.messages.stream(**message(model=THINKING_MODEL)) as s:
        same(s.get_final_message().content[0].thinking, whole.thinking)


@case
def anthropic_thinking_budget():
    r = an.messages.create(**message(model=THINKING_MODEL, max_tokens=40, thinking={"type": "enabled", "budget_tokens": 4},
                                     extra_body={"temperature": 0, "structured_outputs": {"choice": ["yes"]}}))
    same([b.type for b in r.content], ["thinking", "text"])
    same(r.content[1].text, "yes")


@case
def anthropic_count():
    same(an.messages.count_tokens(model=MODEL, messages=USER).input_tokens, an.messages.create(**message()).usage.input_tokens)


@case
def anthropic_errors():
    e = refused(anthropic.NotFoundError, 404, lambda: an.messages.create(**message(model="none")), "none")
    same(e.body["error"]["type"], "not_found_error")
    refused(anthropic.BadRequestError, 400, lambda: an.messages.create(**message(max_tokens=0)))
    refused(anthropic.PermissionDeniedError, 403, lambda: an.messages.create(**message(model=BAD_MODEL)))
    bad = anthropic.Anthropic(base_url=BASE, api_key="sk-wrong", max_retries=0)
    refused(anthropic.AuthenticationError, 401, lambda: bad.messages.create(**message()))


def main():
    for f in cases:
        try:
            f()
            print(f"ok {f.__name__}")
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1] if not isinstance(e, (openai.APIError, anthropic.APIError)) else \
                [t for t in traceback.extract_tb(e.__traceback__) if t.filename == __file__][-1]
            print(f"not ok {f.__name__}: {type(e).__name__} at line {where.lineno}: {str(e)[:300]}")
        sys.stdout.flush()


main()
