"""The other side of bench/remote: a tuned asyncio client of an endpoint; runs in a peer's virtual
environment, which has aiohttp.

    remote_client.py BASE_URL MODEL TOKENS IN_FLIGHT PARAMS [KEY]

PARAMS: a JSON object with more members of the body.  KEY: an API key.

It uses one session that keeps its connections, a semaphore, and uvloop if it is installed.  Reads jobs from
stdin, a line of JSON each: {"prompts": [...]}; writes a line "BENCH {json}" at the start and for each job:
seconds and the answers' texts.
"""
import asyncio
import json
import sys
import time

import aiohttp

try:
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    LOOP = "uvloop"
except ImportError:
    LOOP = "asyncio"


def say(**values):
    print("BENCH " + json.dumps(values), flush=True)


async def work(base, model, tokens, in_flight, params, headers, prompts):
    gate, texts = asyncio.Semaphore(in_flight), [None] * len(prompts)

    async def one(session, i):
        body = {"model": model, "prompt": prompts[i], "max_tokens": tokens, "temperature": 0, **params}
        async with gate, session.post(base + "/completions", json=body) as r:
            answer = await r.json()
            if r.status != 200:
                raise SystemExit(f"status {r.status}: {answer}")
            texts[i] = answer["choices"][0]["text"]

    connector = aiohttp.TCPConnector(limit=in_flight, ttl_dns_cache=300)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=3600)) as session:
        start = time.perf_counter()
        await asyncio.gather(*(one(session, i) for i in range(len(prompts))))
        return time.perf_counter() - start, texts


def main():
    base, model, tokens, in_flight, params = sys.argv[1:6]
    headers = {"Authorization": f"Bearer {sys.argv[6]}"} if len(sys.argv) > 6 else {}
    say(ready=True, aiohttp=aiohttp.__version__, loop=LOOP)
    for line in sys.stdin:
        seconds, texts = asyncio.run(work(base, model, int(tokens), int(in_flight), json.loads(params), headers, json.loads(line)["prompts"]))
        say(seconds=seconds, texts=texts)


main()
