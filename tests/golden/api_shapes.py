#!/usr/bin/env python3
"""Check the answers of tests/golden/api_shapes.txt against the types of the packages openai and anthropic.

usage: api_shapes.py [FILE]

tests/unit/server/api/test_api.c compares the engine's answers with these (test_api --write makes the file
anew); this script checks that the clients would understand them. Needs the packages openai and anthropic.
"""
import json
import sys

import anthropic.types as at
import openai.types as ot
import openai.types.chat as oc
import openai.types.responses as orr
from pydantic import BaseModel, TypeAdapter


class Page(BaseModel):
    """The type of client.models.list()."""
    object: str
    data: list[ot.Model]


class Base64Embeddings(BaseModel):
    """The form that the client decodes before it makes a CreateEmbeddingResponse."""

    class Row(BaseModel):
        index: int
        object: str
        embedding: str

    object: str
    model: str
    data: list[Row]
    usage: ot.create_embedding_response.Usage


class Error(BaseModel):
    """The form from which the client makes an APIStatusError."""

    class Body(BaseModel):
        message: str
        type: str
        param: str | None
        code: int

    error: Body


TYPES = {
    "/v1/models": Page,
    "/v1/models/m": ot.Model,
    "/v1/completions": ot.Completion,
    "/v1/chat/completions": oc.ChatCompletion,
    "/v1/embeddings": ot.CreateEmbeddingResponse,
    "/v1/messages": at.Message,
    "/v1/messages/count_tokens": at.MessageTokensCount,
    "/v1/responses": orr.Response,
}
CHUNKS = {
    "/v1/completions": ot.Completion,
    "/v1/chat/completions": oc.ChatCompletionChunk,
    "/v1/messages": at.RawMessageStreamEvent,
    "/v1/responses": orr.ResponseStreamEvent,
}
# endpoints that neither client package knows
OWN = {"/tokenize", "/detokenize", "/classify", "/pooling", "/score", "/rerank"}

def type_of(path, stream, body, answer):
    if "error" in answer and answer["error"]:
        return at.ErrorResponse if path.startswith("/v1/messages") else Error
    if path == "/v1/embeddings" and body.get("encoding_format") == "base64":
        return Base64Embeddings
    return (CHUNKS if stream else TYPES)[path]


def relax(path, answer):
    """Change what the interface allows and its type does not: chunks of completions without a
    finish_reason, and with echo no log-probability for the prompt's first token."""
    for choice in answer.get("choices", []) if path == "/v1/completions" else []:
        if choice["finish_reason"] is None:
            choice["finish_reason"] = "stop"
        for key in ("token_logprobs", "top_logprobs") if choice["logprobs"] else ():
            if choice["logprobs"][key] and choice["logprobs"][key][0] is None:
                del choice["logprobs"][key][0]
    return answer


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/api_shapes.txt"
    checked = failed = own = 0
    path = body = None
    stream = False
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        if line.startswith(">"):
            stream = line.startswith(">>")
            path = line.lstrip("> ").strip()
            body = None
        elif line.startswith("< "):
            answer = json.loads(line[2:])
            if path in OWN and "error" not in answer:
                own += 1
                continue
            try:
                TypeAdapter(type_of(path, stream, body, answer)).validate_python(relax(path, answer))
                checked += 1
            except Exception as e:
                failed += 1
                print(f"{name}:{number}: {path}: {str(e)[:1000]}")
        elif path is not None and body is None and line.strip():
            body = json.loads(line)
    print(f"api_shapes: {checked} passed, {failed} failed, {own} skipped (endpoints that the packages don't know)")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
