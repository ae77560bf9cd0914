"""What tests/remote/fake_endpoint.py answers: functions of the prompt alone.

A completion is the prompt's words in reverse; further choices have " #1", " #2" behind them.
A token is a word with the white space before it; usage counts words.  Vectors come from a
hash of the text.  Markers of faults, [[...]], don't belong to the prompt.
"""
import base64
import hashlib
import json
import re
import struct
import zlib

MARKER = re.compile(r'\s?\[\[[^\]]*\]\]')
PIECE = re.compile(r'\s*\S+|\s+$')
DIMENSIONS = 8
words_of_ids = {}


class Refused(Exception):
    def __init__(self, status, message, kind='invalid_request_error'):
        super().__init__(message)
        self.status, self.kind = status, kind


def pieces(text):
    return PIECE.findall(text)


def token_id(piece):
    n = zlib.crc32(piece.encode()) % 1000003
    words_of_ids[n] = piece
    return n


def text_of(prompt):
    """A prompt as text, without markers: a string, or ids."""
    if isinstance(prompt, list):
        prompt = ''.join(words_of_ids.get(i, ' <%d>' % i) for i in prompt)
    return MARKER.sub('', prompt)


def prompts_of(body, key='prompt'):
    p = body.get(key)
    if isinstance(p, str) or (isinstance(p, list) and p and all(isinstance(i, int) for i in p)):
        return [text_of(p)]
    if isinstance(p, list) and p:
        return [text_of(i) for i in p]
    raise Refused(400, "'%s' must be a string or a list" % key)


def content_text(content):
    if isinstance(content, list):
        content = ''.join(p.get('text', '') for p in content if p.get('type') == 'text')
    return text_of(content or '')


def logprob(piece):
    return -round(zlib.crc32(piece.encode()) % 5000 / 1000 + 0.001, 3)


def instance(schema):
    """The least value that a schema allows, about."""
    if 'enum' in schema:
        return schema['enum'][0]
    if 'const' in schema:
        return schema['const']
    kind = schema.get('type', 'object')
    if isinstance(kind, list):
        kind = kind[0]
    if kind == 'object':
        properties = schema.get('properties', {})
        return {k: instance(v) for k, v in properties.items() if k in schema.get('required', properties)}
    if kind == 'array':
        return [instance(schema.get('items', {}))] * max(1, schema.get('minItems', 1))
    return {'string': 'x', 'integer': 1, 'number': 1.5, 'boolean': True, 'null': None}[kind]


def completion(prompt, body, n, most):
    """Text and why it ended, of choice n."""
    structured = body.get('structured_outputs') or {}
    choices = structured.get('choice') or body.get('guided_choice')
    schema = structured.get('json') or body.get('guided_json')
    form = body.get('response_format') or {}
    if form.get('type') == 'json_schema':
        schema = form['json_schema'].get('schema', {})
    elif form.get('type') == 'json_object':
        schema = {'type': 'object', 'properties': {'text': {'type': 'string'}}}
    if choices:
        return choices[zlib.crc32(prompt.encode()) % len(choices)], 'stop'
    if schema is not None:
        return json.dumps(instance(json.loads(schema) if isinstance(schema, str) else schema)), 'stop'
    text = ' '.join(reversed(prompt.split())) + (' #%d' % n if n else '')
    stops = body.get('stop') or []
    for stop in [stops] if isinstance(stops, str) else stops:
        if stop in text:
            text = text[:text.index(stop)]
    all_of_it = pieces(text)
    if most is not None and len(all_of_it) > most:
        return ''.join(all_of_it[:most]), 'length'
    return text, 'stop'


def usage(prompt, answer):
    return {'prompt_tokens': prompt, 'completion_tokens': answer, 'total_tokens': prompt + answer,
            'prompt_tokens_details': {'cached_tokens': 0}}


def top(piece, k):
    """The k likeliest: the piece, and others made of it."""
    return [(piece + '~' * i, round(logprob(piece) - i, 3)) for i in range(k)]


def completion_logprobs(tokens, k, start, first_is_null):
    out = {'tokens': tokens, 'token_logprobs': [], 'top_logprobs': [], 'text_offset': []}
    for i, piece in enumerate(tokens):
        known = not (first_is_null and i == 0)
        out['token_logprobs'].append(logprob(piece) if known else None)
        out['top_logprobs'].append(dict(top(piece, k)) if known and k else None)
        out['text_offset'].append(start)
        start += len(piece)
    return out


def completions(body):
    choices, counted = [], [0, 0]
    prompts, n, most = prompts_of(body), body.get('n') or 1, body.get('max_tokens', 16)
    for prompt in prompts:
        counted[0] += len(pieces(prompt))
        for i in range(n):
            text, why = ('', 'length') if most == 0 else completion(prompt, body, i, most)
            tokens = pieces(text)
            counted[1] += len(tokens)
            echo = pieces(prompt) if body.get('echo') else []
            choice = {'index': len(choices), 'text': (prompt if echo else '') + text, 'finish_reason': why, 'logprobs': None}
            if body.get('logprobs') is not None:
                choice['logprobs'] = completion_logprobs(echo + tokens, body['logprobs'], 0, bool(echo))
            if body.get('prompt_logprobs') is not None:
                choice['prompt_logprobs'] = [None] + [
                    {str(token_id(p)): {'logprob': logprob(p), 'rank': 1, 'decoded_token': p}} for p in pieces(prompt)[1:]]
            if body.get('return_token_ids'):
                choice['token_ids'] = [token_id(p) for p in tokens]
                choice['prompt_token_ids'] = [token_id(p) for p in pieces(prompt)]
            choices.append(choice)
    return {'id': 'cmpl-1', 'object': 'text_completion', 'created': 1, 'model': body.get('model'), 'choices': choices,
            'usage': usage(*counted)}


def tool_call(body, text):
    tools, choice = body.get('tools'), body.get('tool_choice', 'auto')
    if not tools or choice == 'none' or (choice == 'auto' and 'tool' not in text.split()):
        return None
    name = choice['function']['name'] if isinstance(choice, dict) else tools[0]['function']['name']
    return {'id': 'call_%s' % hashlib.sha256(text.encode()).hexdigest()[:8], 'type': 'function',
            'function': {'name': name, 'arguments': json.dumps({'text': ' '.join(reversed(text.split()))})}}


def chat(body):
    messages = body.get('messages')
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "'messages' must be a list that is not empty")
    texts = [content_text(m.get('content')) for m in messages]
    prompt, choices, counted = texts[-1], [], 0
    most = body.get('max_completion_tokens', body.get('max_tokens'))
    for i in range(body.get('n') or 1):
        call = tool_call(body, prompt)
        text, why = completion(prompt, body, i, most)
        message = {'role': 'assistant', 'content': None if call else text}
        if call:
            message['tool_calls'], why = [call], 'tool_calls'
        tokens = pieces(text)
        counted += len(tokens)
        choice = {'index': i, 'message': message, 'finish_reason': why, 'logprobs': None}
        if body.get('logprobs'):
            choice['logprobs'] = {'content': [
                {'token': p, 'logprob': logprob(p), 'bytes': list(p.encode()),
                 'top_logprobs': [{'token': t, 'logprob': l, 'bytes': list(t.encode())} for t, l in top(p, body.get('top_logprobs') or 0)]}
                for p in tokens]}
        choices.append(choice)
    return {'id': 'chatcmpl-1', 'object': 'chat.completion', 'created': 1, 'model': body.get('model'), 'choices': choices,
            'usage': usage(sum(len(pieces(t)) for t in texts), counted)}


def vector(text, n):
    out = []
    while len(out) < n:
        digest = hashlib.sha256(b'%d %s' % (len(out), text.encode())).digest()
        out += [b / 128 - 1 for b in digest]
    return out[:n]


def embeddings(body):
    texts, n = prompts_of(body, 'input'), body.get('dimensions') or DIMENSIONS
    data = []
    for i, text in enumerate(texts):
        v = vector(text, n)
        if body.get('encoding_format') == 'base64':
            v = base64.b64encode(struct.pack('<%df' % n, *v)).decode()
        data.append({'object': 'embedding', 'index': i, 'embedding': v})
    n = sum(len(pieces(t)) for t in texts)
    return {'object': 'list', 'model': body.get('model'), 'data': data, 'usage': {'prompt_tokens': n, 'total_tokens': n}}


def likeness(a, b):
    a, b = set(a.split()), set(b.split())
    return len(a & b) / max(1, len(a | b))


def score(body):
    one = body.get('text_1', body.get('queries'))
    two = body.get('text_2', body.get('documents'))
    one, two = ([text_of(x)] if isinstance(x, str) else [text_of(t) for t in x] for x in (one, two))
    if len(one) == 1:
        one *= len(two)
    n = sum(len(pieces(a)) + len(pieces(b)) for a, b in zip(one, two))
    return {'id': 'score-1', 'object': 'list', 'created': 1, 'model': body.get('model'), 'usage': {'prompt_tokens': n, 'total_tokens': n},
            'data': [{'index': i, 'object': 'score', 'score': likeness(a, b)} for i, (a, b) in enumerate(zip(one, two))]}


def rerank(body):
    query = text_of(body['query'])
    texts = [text_of(d if isinstance(d, str) else d['text']) for d in body['documents']]
    rows = [{'index': i, 'document': {'text': t}, 'relevance_score': likeness(query, t)} for i, t in enumerate(texts)]
    rows.sort(key=lambda r: (-r['relevance_score'], r['index']))
    n = len(pieces(query)) * len(texts) + sum(len(pieces(t)) for t in texts)
    return {'id': 'rerank-1', 'model': body.get('model'), 'usage': {'prompt_tokens': n, 'total_tokens': n},
            'results': rows[:body.get('top_n') or len(rows)]}


def classify(body):
    rows = []
    for i, text in enumerate(prompts_of(body, 'input')):
        p = (zlib.crc32(text.encode()) % 1000) / 1000
        rows.append({'index': i, 'label': 'yes' if p > 0.5 else 'no', 'probs': [round(1 - p, 3), p], 'num_classes': 2})
    return {'id': 'classify-1', 'object': 'list', 'created': 1, 'model': body.get('model'), 'data': rows, 'usage': usage(len(rows), 0)}


def pooling(body):
    rows = [{'index': i, 'object': 'pooling', 'data': [vector(p, DIMENSIONS) for p in pieces(text)]}
            for i, text in enumerate(prompts_of(body, 'input'))]
    return {'id': 'pooling-1', 'object': 'list', 'created': 1, 'model': body.get('model'), 'data': rows, 'usage': usage(len(rows), 0)}


def tokenize(body):
    if 'content' in body:		# llama.cpp's server
        return {'tokens': [token_id(p) for p in pieces(text_of(body['content']))]}
    if 'messages' in body:
        text = ''.join(content_text(m.get('content')) for m in body['messages'])
    else:
        text = text_of(body['prompt'])
    ids = [token_id(p) for p in pieces(text)]
    return {'count': len(ids), 'max_model_len': 4096, 'tokens': ids}


def detokenize(body):
    text = text_of(body['tokens'])
    return {'prompt': text, 'content': text}


ROUTES = {'/completions': completions, '/chat/completions': chat, '/embeddings': embeddings, '/score': score, '/rerank': rerank,
          '/classify': classify, '/pooling': pooling, '/tokenize': tokenize, '/detokenize': detokenize}


def chunks(answer, is_chat):
    """A whole answer as a stream's chunks, a word each."""
    kind = 'chat.completion.chunk' if is_chat else 'text_completion'
    base = {'id': answer['id'], 'object': kind, 'created': 1, 'model': answer['model']}
    for c in answer['choices']:
        calls = is_chat and c['message'].get('tool_calls')
        text = (c['message']['content'] if is_chat else c['text']) or ''
        if is_chat:
            yield dict(base, choices=[{'index': c['index'], 'delta': {'role': 'assistant', 'content': ''}, 'finish_reason': None}])
        for k, piece in enumerate(pieces(text)):
            lp = c['logprobs']
            if lp and is_chat:
                lp = {'content': lp['content'][k:k + 1]}
            elif lp:
                lp = {key: v[k:k + 1] for key, v in lp.items()}
            part = {'index': c['index'], 'finish_reason': None, 'logprobs': lp}
            part.update({'delta': {'content': piece}} if is_chat else {'text': piece})
            if 'token_ids' in c:
                part['token_ids'] = c['token_ids'][k:k + 1]
            yield dict(base, choices=[part])
        for k, call in enumerate(calls or []):
            f, arguments = call['function'], call['function']['arguments']
            yield dict(base, choices=[{'index': c['index'], 'finish_reason': None, 'delta': {'tool_calls': [
                {'index': k, 'id': call['id'], 'type': 'function', 'function': {'name': f['name'], 'arguments': ''}}]}}])
            for at in range(0, len(arguments), 5):
                yield dict(base, choices=[{'index': c['index'], 'finish_reason': None, 'delta': {'tool_calls': [
                    {'index': k, 'function': {'arguments': arguments[at:at + 5]}}]}}])
        last = {'index': c['index'], 'finish_reason': c['finish_reason']}
        last.update({'delta': {}} if is_chat else {'text': ''})
        yield dict(base, choices=[last])
